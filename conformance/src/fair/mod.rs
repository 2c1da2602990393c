// SPDX-License-Identifier: GPL-2.0-only
//! `cfs@6.1` beside the scheduler after which it is made: that of Linux 6.1, in the deterministic virtual machine. What that
//! kernel did is kept in `fair/`; the model must do the same, as far as the kernel does the same twice.
//!
//! All of it is on one CPU: on several, the emulated CPUs take turns, and nothing but shares would mean anything.

use crate::oracle::{self, PIECE_US, Values};
use anyhow::{Context, Result, anyhow};
use bpf_object::Object;
use launch_profile::Profile;
use live::threads::{Options, play};
use std::path::Path;
use std::time::Duration;
use workload::Workload;

/// Where Linux 6.1 is told its latency and granularities.
const SETTINGS: &str = "/sys/kernel/debug/sched";
/// These, in nanoseconds, for one CPU; and the tunables of `cfs`, in microseconds.
const UNITS: [(&str, &str, u64); 3] = [
    ("latency_ns", "latency_us", 6_000_000),
    ("min_granularity_ns", "min_granularity_us", 750_000),
    ("wakeup_granularity_ns", "wakeup_granularity_us", 1_000_000),
];
const RECORDS: [&str; 3] =
    [include_str!("../fair/1.txt"), include_str!("../fair/2.txt"), include_str!("../fair/3.txt")];

/// What a task does.
#[derive(Clone, Copy)]
enum Does {
    /// Always runs.
    Hog,
    /// Work in microseconds every so many.
    Job(u32, u32),
    /// Work in microseconds, then sleep.
    Sleeps(u32, u32),
}

/// Tasks of one kind.
#[derive(Clone, Copy)]
struct Actor {
    name: &'static str,
    count: u32,
    policy: &'static str,
    nice: i8,
    does: Does,
}

const fn hogs(count: u32, nice: i8) -> Actor {
    Actor { name: "hog", count, policy: "SCHED_OTHER", nice, does: Does::Hog }
}

const fn other(name: &'static str, count: u32, nice: i8, does: Does) -> Actor {
    Actor { name, count, policy: "SCHED_OTHER", nice, does }
}

const fn of_policy(name: &'static str, policy: &'static str, does: Does) -> Actor {
    Actor { name, count: 1, policy, nice: 0, does }
}

/// Actors on one CPU, with latency and granularities of one CPU, or of four (three times as long).
struct Case {
    name: &'static str,
    factor: u64,
    actors: &'static [Actor],
    seconds: u32,
}

const fn case(name: &'static str, factor: u64, actors: &'static [Actor], seconds: u32) -> Case {
    Case { name, factor, actors, seconds }
}

const JOB: Actor = other("job", 1, 0, Does::Job(1_200, 20_000));

const CASES: [Case; 24] = [
    case("nice-1", 1, &[hogs(1, 0), other("worse", 1, 1, Does::Hog)], 2),
    case("nice-5", 1, &[hogs(1, 0), other("worse", 1, 5, Does::Hog)], 2),
    case("nice-10", 1, &[hogs(1, 0), other("worse", 1, 10, Does::Hog)], 2),
    case("nice-19", 1, &[hogs(1, 0), other("worse", 1, 19, Does::Hog)], 4),
    case("better-5", 1, &[hogs(1, -5), other("worse", 1, 0, Does::Hog)], 2),
    case("idle", 1, &[hogs(1, 0), of_policy("idle", "SCHED_IDLE", Does::Hog)], 4),
    case("hogs-2", 1, &[hogs(2, 0)], 1),
    case("hogs-4", 1, &[hogs(4, 0)], 1),
    case("hogs-8", 1, &[hogs(8, 0)], 1),
    case("hogs-16", 1, &[hogs(16, 0)], 1),
    case("hogs-2-of-4", 3, &[hogs(2, 0)], 1),
    case("hogs-4-of-4", 3, &[hogs(4, 0)], 1),
    case("hogs-8-of-4", 3, &[hogs(8, 0)], 1),
    case("hogs-16-of-4", 3, &[hogs(16, 0)], 2),
    case("half-asleep", 1, &[hogs(1, 0), other("half", 1, 0, Does::Sleeps(8_000, 8_000))], 3),
    case("half-asleep-of-4", 3, &[hogs(1, 0), other("half", 1, 0, Does::Sleeps(8_000, 8_000))], 3),
    case("often", 1, &[hogs(1, 0), other("job", 1, 0, Does::Job(1_000, 5_000))], 2),
    case("often-of-4", 3, &[hogs(1, 0), other("job", 1, 0, Does::Job(1_000, 5_000))], 2),
    case("briefly", 1, &[hogs(1, 0), other("brief", 1, 0, Does::Sleeps(1_000, 500))], 2),
    case("briefly-of-4", 3, &[hogs(1, 0), other("brief", 1, 0, Does::Sleeps(1_000, 500))], 2),
    case("many-sleepers", 1, &[hogs(1, 0), other("sleeper", 20, 0, Does::Sleeps(1_000, 9_000))], 2),
    case("batch-job", 1, &[hogs(1, 0), of_policy("job", "SCHED_BATCH", Does::Job(1_000, 10_000))], 2),
    case("job-4", 1, &[hogs(4, 0), JOB], 2),
    case("mix", 1, &[hogs(2, 0), other("better", 1, -5, Does::Hog), other("worse", 1, 10, Does::Hog), JOB], 3),
];

impl Case {
    fn workload(&self) -> Result<Workload> {
        let mut tasks = Vec::new();
        for actor in self.actors {
            for number in 0..actor.count {
                let does = match actor.does {
                    Does::Hog => format!(r#""run": {PIECE_US}"#),
                    Does::Job(run, period) => format!(
                        r#""run": {run}, "timer": {{ "ref": "unique", "period": {period}, "mode": "absolute" }}"#
                    ),
                    Does::Sleeps(run, sleep) => format!(r#""run": {run}, "sleep": {sleep}"#),
                };
                let Actor { name, policy, nice, .. } = actor;
                tasks.push(format!(
                    r#""{name}-{number}": {{ "policy": "{policy}", "priority": {nice}, "loop": -1, {does} }}"#
                ));
            }
        }
        let (tasks, seconds) = (tasks.join(", "), self.seconds);
        let text = format!(r#"{{ "global": {{ "duration": {seconds} }}, "tasks": {{ {tasks} }} }}"#);
        Ok(Workload::from_rt_app(self.name, &text)?)
    }

    /// Whether the task's stretches on the CPU are told by the times at which it looks at the clock.
    fn is_hog(&self, task: &str) -> bool {
        self.actors.iter().any(|actor| matches!(actor.does, Does::Hog) && task.starts_with(actor.name))
    }
}

/// Plays all cases with real threads in the running kernel, which has CFS, and tells what was measured as text. Each begins
/// so much later than it would: in another phase of the tick. In the deterministic machine nothing else tells one time from
/// another.
///
/// # Errors
/// If a case cannot be played, or the kernel has no such setting.
pub fn play_all(later: Duration) -> Result<String> {
    let mut values = Values::default();
    for case in &CASES {
        for (setting, _, ns) in UNITS {
            let path = Path::new(SETTINGS).join(setting);
            std::fs::write(&path, (ns * case.factor).to_string()).with_context(|| path.display().to_string())?;
        }
        let workload = case.workload()?;
        oracle::wait_for_phase(later);
        let played = play(&workload, &Options { log: true, ..Options::default() })?;
        values.add_played(case.name, &played, |task| case.is_hog(task));
        eprintln!("{}", case.name);
    }
    Ok(values.to_string())
}

/// What the model gives for the same cases under `cfs`.
///
/// # Errors
/// If the policy or a case cannot be simulated.
pub fn simulated(preset: &str) -> Result<Values> {
    let machine = oracle::machine(1_000)?;
    let shipped = policies::find("cfs").ok_or_else(|| anyhow!("no policy cfs"))?;
    let object = Object::parse(shipped.object)?;
    let mut values = Values::default();
    for case in &CASES {
        let mut profile = Profile::from_toml("cfs", shipped.profile)?;
        let units = UNITS.map(|(_, tunable, ns)| (tunable.to_owned(), (ns * case.factor / 1_000).to_string()));
        profile.select(Some(preset), &units)?;
        let workload = case.workload()?;
        values.add_simulated(case.name, &workload, &machine, (&object, &profile), |task| case.is_hog(task))?;
    }
    Ok(values)
}

/// What Linux 6.1 did, each time that it was asked.
///
/// # Errors
/// If the records cannot be read.
pub fn recorded() -> Result<Vec<Values>> {
    RECORDS.iter().map(|text| text.parse()).collect()
}

/// Values of the model that are too far from the kernel's: case, task, measure. One that is new is an error, and one that is
/// gone. The causes that are named here are guesses: none was tested.
///
/// - Among equal hogs, `hog-1` has up to 1.1 points of the CPU too much in runs of a second or two, and gaps differ by one
///   turn or the beginning. Perhaps because threads of the kernel are all made before they begin, and begin together; those
///   of the model are made one by one, with a turn's debit each.
/// - The longest gap of some hogs is longer in the kernel by a tick, or by some turns. Perhaps threads of its own take part.
/// - `briefly-of-4`: 0.6 points of a share, of no known cause.
const KNOWN: [(&str, &str, &str); 31] = [
    ("better-5", "worse-0", "gap-max"),
    ("briefly-of-4", "brief-0", "share"),
    ("briefly-of-4", "hog-0", "share"),
    ("hogs-16", "hog-1", "share"),
    ("hogs-16", "hog-2", "gap-max"),
    ("hogs-16", "hog-3", "gap-max"),
    ("hogs-16", "hog-5", "gap-max"),
    ("hogs-16-of-4", "hog-1", "gap-max"),
    ("hogs-16-of-4", "hog-1", "share"),
    ("hogs-16-of-4", "hog-10", "gap-max"),
    ("hogs-16-of-4", "hog-11", "gap-max"),
    ("hogs-16-of-4", "hog-12", "gap-max"),
    ("hogs-16-of-4", "hog-13", "gap-max"),
    ("hogs-16-of-4", "hog-15", "gap-max"),
    ("hogs-16-of-4", "hog-2", "gap-max"),
    ("hogs-16-of-4", "hog-7", "gap-max"),
    ("hogs-16-of-4", "hog-8", "gap-max"),
    ("hogs-16-of-4", "hog-9", "gap-max"),
    ("hogs-4", "hog-1", "share"),
    ("hogs-4-of-4", "hog-1", "share"),
    ("hogs-4-of-4", "hog-2", "share"),
    ("hogs-4-of-4", "hog-3", "share"),
    ("hogs-8", "hog-1", "share"),
    ("hogs-8", "hog-3", "gap-max"),
    ("hogs-8", "hog-6", "gap-max"),
    ("hogs-8-of-4", "hog-1", "share"),
    ("hogs-8-of-4", "hog-2", "share"),
    ("hogs-8-of-4", "hog-6", "share"),
    ("many-sleepers", "hog-0", "gap-max"),
    ("nice-1", "hog-0", "gap-max"),
    ("nice-10", "worse-0", "gap-max"),
];

/// A table of every value, and whether the model's is as far from what the kernel did as that is from itself. Values that
/// are known not to be are marked.
pub fn compare(model: &Values, kernel: &[Values]) -> (String, bool) {
    oracle::table(
        "cfs@6.1",
        model,
        kernel,
        |case, task, measure| KNOWN.contains(&(case, task, measure)),
        |_, value| value,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_workload() {
        for case in &CASES {
            let workload = case.workload().unwrap();
            let count: u32 = case.actors.iter().map(|actor| actor.count).sum();
            assert_eq!(workload.tasks.len(), count as usize, "{}", case.name);
        }
    }
}
