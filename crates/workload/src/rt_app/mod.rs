// SPDX-License-Identifier: GPL-2.0-only
//! Workloads in the JSON of rt-app (`scheduler-tools/rt-app`, `doc/tutorial.txt` and its parser at 55cb0c0).
//!
//! Everything that rt-app honours is honoured or refused; nothing is skipped. Unknown keys, which rt-app ignores, are
//! refused as well: they are mostly typing errors.
//!
//! - **Events** (a key is an event if it *begins* with the word, so `run0` and `timer_a` are): `run`, `runtime`,
//!   `sleep`, `timer`, `lock`, `unlock`, `wait`, `signal`, `broad`, `sync`, `barrier`, `suspend`, `resume`, `yield`,
//!   `fork`. Times are microseconds. `mem`, `memrun`, `iorun`, `sem_post` and `sem_wait` are refused.
//! - **Task and phase**: `loop` (-1: for ever; of a task the default), `cpus`, `policy`, `priority`, `dl-runtime`,
//!   `dl-period`, `dl-deadline`. `priority` is the nice value for the policies other, batch and idle, the real-time
//!   priority (10 if absent) for FIFO and RR. **Task only**: `instance`, `delay`, `phases`, `taskgroup`. `util_min`,
//!   `util_max`, `taskgroup` of a phase and the binding to memory nodes are refused.
//! - **Global**: `duration` (seconds; -1 or 0: until all tasks end) and `default_policy` count. `calibration` is
//!   accepted without effect: `run` is work of the machine model's reference CPU. So are the keys about output and
//!   memory: `lock_pages`, `logdir`, `log_basename`, `log_size`, `ftrace`, `gnuplot`, `cumulative_slack`, `io_device`,
//!   `mem_buffer_size`, `frag`. `pi_enabled` must be false: priorities are not inherited.
//! - **Resources** come into being by their use, as in rt-app; a `resources` section is checked and has no effect.
//!
//! Beyond rt-app: the events `change` (another task's affinity, policy, nice value) and `spin_barrier`; locks in shared
//! memory: a section `locks` and the event `critical_sections` (`locks.rs`); a section `taskgroups` that says what the groups
//! of `taskgroup` are (`groups.rs`); and the keys `window` and `request-us` of a task (`windows.rs`), and `lends`.
//!
//! Where this differs from rt-app at 55cb0c0:
//! - A `delay` makes the task begin then; rt-app starts it at once and lets it sleep first.
//! - A `barrier` waits for one arrival of each of its users. In rt-app a fast user can pass twice before the others
//!   woke.
//! - A `sync` without the mutex locked around it locks it, as the tutorial says; rt-app's code then unlocks a mutex
//!   that is not locked, which POSIX leaves undefined.
//! - There is no limit of 1024 forks, but a task must not fork itself, directly or through others.
//! - Steps of length 0 are skipped; rt-app's `nanosleep(0)` takes some microseconds.

mod document;
mod events;
mod groups;
mod locks;
mod task;
mod windows;

use crate::{Workload, WorkloadError, json, script};
use document::{Document, Fault, Object};
use ids::Nanos;
use task::PolicyName;

/// Accepted in `global` without effect.
const WITHOUT_EFFECT: [&str; 11] = [
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "cumulative_slack",
    "io_device",
    "mem_buffer_size",
    "frag",
];

/// What the parser of rt-app knows as types of resources, and the barrier.
const RESOURCE_TYPES: [&str; 9] = ["mutex", "wait", "signal", "broadcast", "sync", "timer", "barrier", "sleep", "run"];

impl Workload {
    /// From rt-app JSON (the relaxed form is accepted: comments, repeated keys, trailing commas). `name` is the file's
    /// name; it stands in errors, with line and column.
    pub fn from_rt_app(name: &str, text: &str) -> Result<Workload, WorkloadError> {
        let place = |at: usize| {
            let (line, column) = json::line_and_column(text, at);
            format!("{name}:{line}:{column}")
        };
        read(name, text).map_err(|fault| WorkloadError { place: place(fault.at), problem: fault.problem })
    }
}

fn read(name: &str, text: &str) -> Result<Workload, Fault> {
    let root = json::parse(text).map_err(|(at, problem)| Fault { at, problem })?;
    let document = Document::new(&root)?;
    let mut root = document.root();
    let mut duration = None;
    let mut policy = PolicyName::Other;
    if let Some(member) = root.optional("global")? {
        (duration, policy) = read_global(Object::new("\"global\"".into(), member.at, &member.value)?)?;
    }
    if let Some(member) = root.optional("resources")? {
        check_resources(&Object::new("\"resources\"".into(), member.at, &member.value)?)?;
    }
    let locks = match root.optional("locks")? {
        Some(member) => locks::read_locks(&Object::new("\"locks\"".into(), member.at, &member.value)?)?,
        None => Vec::new(),
    };
    let groups = match root.optional("taskgroups")? {
        Some(member) => groups::read(&Object::new("\"taskgroups\"".into(), member.at, &member.value)?)?,
        None => Vec::new(),
    };
    let tasks = root.required("tasks")?;
    let tasks = Object::new("\"tasks\"".into(), tasks.at, &tasks.value)?;
    root.finish()?;
    let (mut workload, positions) = task::read_all(&tasks, policy, locks)?;
    workload.name = script::stem(name).to_owned();
    workload.duration = duration;
    workload.is_grouped = !groups.is_empty() || workload.tasks.iter().any(|task| task.who.group.is_some());
    workload.groups = groups;
    workload.find_flaw().map_err(|flaw| {
        let position = positions.get(flaw.task).map_or(tasks.at, |task: &task::Positions| task.of(flaw.op));
        let name = workload.tasks.get(flaw.task).map_or(String::new(), |task| format!("task {:?}: ", task.name));
        Fault { at: position, problem: format!("{name}{}", flaw.problem) }
    })?;
    workload.inherit_groups();
    workload.apply_groups();
    Ok(workload)
}

fn read_global(mut global: Object<'_>) -> Result<(Option<Nanos>, PolicyName), Fault> {
    let duration = global.integer("duration", -1..=i64::from(i32::MAX))?.unwrap_or(-1);
    let policy = match global.string("default_policy")? {
        Some((at, name)) => task::policy_by_name(at, name)?,
        None => PolicyName::Other,
    };
    if let Some((at, true)) = global.boolean("pi_enabled")? {
        let problem = "pi_enabled: priorities are not inherited here; only false is supported".into();
        return Err(Fault { at, problem });
    }
    for key in WITHOUT_EFFECT {
        global.optional(key)?;
    }
    global.finish()?;
    // rt-app sleeps for a positive duration only.
    Ok(((duration > 0).then(|| Nanos::from_secs(duration as u64)), policy))
}

fn check_resources(resources: &Object<'_>) -> Result<(), Fault> {
    for member in resources.members {
        let mut resource = Object::new(format!("resource {:?}", member.key), member.at, &member.value)?;
        // Of rt-app before 2014; it says what the events say again.
        resource.optional("target")?;
        if let Some((at, kind)) = resource.string("type")?
            && !RESOURCE_TYPES.contains(&kind)
        {
            let expected = RESOURCE_TYPES.join(", ");
            return Err(Fault { at, problem: format!("resource of type {kind:?}; expected one of {expected}") });
        }
        resource.finish()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
