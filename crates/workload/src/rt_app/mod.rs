// SPDX-License-Identifier: GPL-2.0-only
//! Workloads in rt-app's JSON format (`scheduler-tools/rt-app`, `doc/tutorial.txt` and its parser at 55cb0c0).
//!
//! Everything that affects rt-app is either supported or refused; nothing is silently ignored. Unknown keys, which
//! rt-app ignores, are refused as well, because they are usually typing errors.
//!
//! - **Events** (a key is an event if it *begins* with the word, so `run0` and `timer_a` are): `run`, `runtime`,
//!   `sleep`, `timer`, `lock`, `unlock`, `wait`, `signal`, `broad`, `sync`, `barrier`, `suspend`, `resume`, `yield`,
//!   `fork`, `iorun`. Times are in microseconds. `mem`, `memrun`, `sem_post` and `sem_wait` are refused.
//! - **Task and phase**: `loop` (-1: endless, the default of a task), `cpus`, `policy`, `priority`, `dl-runtime`,
//!   `dl-period`, `dl-deadline`. `priority` is the nice value for the policies other, batch and idle, the real-time
//!   priority (default 10) for FIFO and RR. **Task only**: `instance`, `delay`, `phases`, `taskgroup`. `util_min`,
//!   `util_max`, `taskgroup` of a phase and memory-node binding are refused.
//! - **Global**: `duration` (seconds; -1 or 0: until all tasks exit) and `default_policy` are supported. `cpu_dma_latency_us`,
//!   which rt-app does not know, keeps CPUs out of deeper idle states ([`Workload::idle_exit_limit`]).
//!   `calibration` has no effect, because `run` is work on the machine model's reference CPU. Keys about output and
//!   memory have no effect either: `lock_pages`, `logdir`, `log_basename`, `log_size`, `ftrace`, `gnuplot`,
//!   `cumulative_slack`, `mem_buffer_size`, `frag`. `pi_enabled` gives all mutexes priority
//!   inheritance; it is refused beside SCHED_DEADLINE tasks.
//! - **Resources** are created by their use, as in rt-app; a `resources` section is checked and has no effect.
//!
//! Extensions of rt-app: the events `change` (another task's affinity, policy, nice value) and `spin_barrier`; locks
//! in shared memory, with a section `locks` and an event for critical sections (`locks.rs`); sources of requests, with a
//! section `sources` and events that take and serve requests (`sources.rs`); requests to disks (`disks.rs`); a section
//! `taskgroups` that describes the groups of `taskgroup` (`groups.rs`); and the task keys `window` and `request-us`
//! (`windows.rs`), those about memory (`memory.rs`), `lends` and `process`.
//!
//! Differences from rt-app at 55cb0c0:
//!
//! - A `delay` postpones the start of the task; rt-app starts it immediately and lets it sleep first.
//! - `iorun` waits until a disk has written; rt-app leaves that to the page cache.
//! - A `barrier` waits for one arrival of each participant. In rt-app a fast task can pass twice before the others
//!   have woken.
//! - A `sync` without the mutex held locks it, as documented in the tutorial; rt-app's code then unlocks a mutex that
//!   is not locked, which is undefined in POSIX.
//! - There is no limit of 1024 forks, but a task must not fork itself, directly or through others.
//! - Steps of length 0 are skipped; rt-app's `nanosleep(0)` takes some microseconds.

mod disks;
mod document;
mod events;
mod groups;
mod locks;
mod memory;
mod networks;
mod sources;
mod task;
mod windows;

use crate::{Workload, WorkloadError, json, script};
use document::{Document, Fault, Object};
use ids::{Nanos, Policy};
use task::PolicyName;

/// Keys accepted in `global` without effect.
const WITHOUT_EFFECT: [&str; 10] = [
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "cumulative_slack",
    "mem_buffer_size",
    "frag",
];

/// Resource types of rt-app's parser, and the barrier.
const RESOURCE_TYPES: [&str; 9] = ["mutex", "wait", "signal", "broadcast", "sync", "timer", "barrier", "sleep", "run"];

impl Workload {
    /// Parses rt-app JSON, including comments, repeated keys and trailing commas. `name` is the file name for errors,
    /// which also give line and column.
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
    let mut read = Global::default();
    let mut io_device = None;
    if let Some(member) = root.optional("global")? {
        let mut global = Object::new("\"global\"".into(), member.at, &member.value)?;
        io_device = disks::device(&mut global)?;
        read = read_global(global)?;
    }
    let Global { duration, policy, inherits, idle_exit_limit } = read;
    if let Some(member) = root.optional("resources")? {
        check_resources(&Object::new("\"resources\"".into(), member.at, &member.value)?)?;
    }
    let locks = match root.optional("locks")? {
        Some(member) => locks::read_locks(&Object::new("\"locks\"".into(), member.at, &member.value)?)?,
        None => Vec::new(),
    };
    let sources = match root.optional("sources")? {
        Some(member) => sources::read_sources(&Object::new("\"sources\"".into(), member.at, &member.value)?)?,
        None => Vec::new(),
    };
    let groups = match root.optional("taskgroups")? {
        Some(member) => groups::read(&Object::new("\"taskgroups\"".into(), member.at, &member.value)?)?,
        None => Vec::new(),
    };
    let tasks = root.required("tasks")?;
    let tasks = Object::new("\"tasks\"".into(), tasks.at, &tasks.value)?;
    root.finish()?;
    let (mut workload, positions) = task::read_all(&tasks, policy, locks, sources, io_device)?;
    if let Some(at) = inherits {
        if workload.tasks.iter().any(|task| matches!(task.policy, Policy::Deadline { .. })) {
            let problem =
                "pi_enabled: deadline tasks pass on no deadline here; expected false or no SCHED_DEADLINE task";
            return Err(Fault { at, problem: problem.into() });
        }
        workload.mutexes.iter_mut().for_each(|mutex| mutex.inherits_priority = true);
    }
    workload.name = script::stem(name).to_owned();
    workload.duration = duration;
    workload.idle_exit_limit = idle_exit_limit;
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

/// The section `global`.
struct Global {
    duration: Option<Nanos>,
    policy: PolicyName,
    /// Position of a true `pi_enabled`.
    inherits: Option<usize>,
    idle_exit_limit: Option<Nanos>,
}

impl Default for Global {
    fn default() -> Global {
        Global { duration: None, policy: PolicyName::Other, inherits: None, idle_exit_limit: None }
    }
}

fn read_global(mut global: Object<'_>) -> Result<Global, Fault> {
    let duration = global.integer("duration", -1..=i64::from(i32::MAX))?.unwrap_or(-1);
    let policy = match global.string("default_policy")? {
        Some((at, name)) => task::policy_by_name(at, name)?,
        None => PolicyName::Other,
    };
    let inherits = global.boolean("pi_enabled")?.filter(|(_, enabled)| *enabled).map(|(at, _)| at);
    let limit_us = global.integer("cpu_dma_latency_us", 0..=i64::from(i32::MAX))?;
    for key in WITHOUT_EFFECT {
        global.optional(key)?;
    }
    global.finish()?;
    // rt-app limits the duration only if it is positive.
    let duration = (duration > 0).then(|| Nanos::from_secs(duration as u64));
    Ok(Global { duration, policy, inherits, idle_exit_limit: limit_us.map(|us| Nanos::from_us(us as u64)) })
}

fn check_resources(resources: &Object<'_>) -> Result<(), Fault> {
    for member in resources.members {
        let mut resource = Object::new(format!("resource {:?}", member.key), member.at, &member.value)?;
        // Used by rt-app before 2014; redundant with the events.
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
