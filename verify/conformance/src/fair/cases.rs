// SPDX-License-Identifier: GPL-2.0-only
//! Cases that are run under Linux 6.1, under `cfs` in a newer kernel, and in the model.

use crate::oracle::PIECE_US;
use anyhow::Result;
use workload::Workload;

/// Before a real run all threads sleep at a gate and are woken together. In the model they sleep for this time
/// instead.
const GATE_US: u32 = 2_000;

/// Behavior of a task. Times are in microseconds.
#[derive(Clone, Copy)]
enum Does {
    /// Always runs.
    Hog,
    /// Work in each period.
    Job(u32, u32),
    /// Work, then sleep.
    Sleeps(u32, u32),
    /// A hog that changes to another nice value after a number of pieces, and back after as many.
    Changes(i8, u32),
    /// A hog that forks one more hog, `child`, after a number of pieces.
    Parent(u32),
    /// A hog that forks a task, `child`, with this much work after each number of pieces.
    Forks(u32, u32),
    /// Works, and resumes the receiver of the same number.
    Sender(u32),
    /// Suspends itself, then works.
    Receiver(u32),
}

/// Tasks of one kind.
#[derive(Clone, Copy)]
pub(super) struct Actor {
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

/// Actors on one CPU, unless stated otherwise.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Factor on latency and granularities: 1 for one CPU, 3 for four CPUs.
    factor: u64,
    actors: &'static [Actor],
    seconds: u32,
    /// Wakeups preempt at once, without a wakeup granularity.
    eager: bool,
    /// Number of CPUs.
    pub(super) cpus: u32,
}

const fn case(name: &'static str, factor: u64, actors: &'static [Actor], seconds: u32) -> Case {
    Case { name, factor, actors, seconds, eager: false, cpus: 1 }
}

const JOB: Actor = other("job", 1, 0, Does::Job(1_200, 20_000));
const MESSAGES: &[Actor] = &[other("sender", 20, 0, Does::Sender(20)), other("receiver", 20, 0, Does::Receiver(20))];

pub(super) const CASES: [Case; 33] = [
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
    case("child-1", 1, &[other("parent", 1, 0, Does::Parent(1_500))], 1),
    case("child-4", 1, &[hogs(3, 0), other("parent", 1, 0, Does::Parent(400))], 1),
    case("child-1-of-4", 3, &[other("parent", 1, 0, Does::Parent(1_500))], 1),
    case("child-4-of-4", 3, &[hogs(3, 0), other("parent", 1, 0, Does::Parent(400))], 1),
    case("forks", 1, &[hogs(1, 0), other("parent", 1, 0, Does::Forks(50, 1_000))], 2),
    case("nice-changes", 1, &[hogs(1, 0), other("changing", 1, 0, Does::Changes(5, 500))], 3),
    case("messages", 1, MESSAGES, 1),
    Case { eager: true, ..case("messages-at-once", 1, MESSAGES, 1) },
    Case { cpus: 2, ..case("three-on-two", 1, &[hogs(3, 0)], 6) },
];

/// Returns a JSON object for a phase of a task.
fn phase(name: &str, times: i64, does: &str) -> String {
    format!(r#""{name}": {{ "loop": {times}, {does} }}"#)
}

impl Actor {
    /// Returns the phases, whether they repeat, and the task to fork.
    fn phases(&self, number: u32) -> (Vec<String>, bool, Option<String>) {
        let piece = format!(r#""run": {PIECE_US}"#);
        let once = |does: &str| (vec![phase("does", -1, does)], false, None);
        match self.does {
            Does::Hog => once(&piece),
            Does::Job(run, period) => once(&format!(
                r#""run": {run}, "timer": {{ "ref": "unique", "period": {period}, "mode": "absolute" }}"#
            )),
            Does::Sleeps(run, sleep) => once(&format!(r#""run": {run}, "sleep": {sleep}"#)),
            Does::Sender(run) => once(&format!(r#""run": {run}, "resume": "receiver-{number}""#)),
            Does::Receiver(run) => once(&format!(r#""suspend": "receiver-{number}", "run": {run}"#)),
            Does::Changes(nice, pieces) => {
                let with = |nice: i8| format!(r#""policy": "{}", "priority": {nice}, {piece}"#, self.policy);
                let phases = [("before", self.nice), ("after", nice)];
                (phases.map(|(name, nice)| phase(name, pieces.into(), &with(nice))).into(), true, None)
            }
            Does::Parent(pieces) => {
                let before = phase("before", pieces.into(), &piece);
                let phases = vec![before, phase("makes", 1, r#""fork": "child""#), phase("after", -1, &piece)];
                (phases, false, Some(format!(r#""loop": -1, {piece}"#)))
            }
            Does::Forks(pieces, work) => {
                let phases = vec![phase("works", pieces.into(), &piece), phase("makes", 1, r#""fork": "child""#)];
                (phases, true, Some(format!(r#""loop": 1, "run": {work}"#)))
            }
        }
    }
}

impl Case {
    /// Returns the workload; `gate` adds the sleep that replaces the gate in the model.
    pub(super) fn workload(&self, gate: bool) -> Result<Workload> {
        let mut tasks = Vec::new();
        for actor in self.actors {
            let Actor { name, policy, nice, .. } = actor;
            for number in 0..actor.count {
                let (mut phases, repeated, child) = actor.phases(number);
                if gate && !repeated {
                    phases.insert(0, phase("gate", 1, &format!(r#""sleep": {GATE_US}"#)));
                }
                let (phases, times) = (phases.join(", "), if repeated { -1 } else { 1 });
                tasks.push(format!(
                    r#""{name}-{number}": {{ "policy": "{policy}", "priority": {nice}, "loop": {times}, "phases": {{ {phases} }} }}"#
                ));
                tasks.extend(child.map(|does| format!(r#""child": {{ "instance": 0, {does} }}"#)));
            }
        }
        let (tasks, seconds) = (tasks.join(", "), self.seconds);
        let text = format!(r#"{{ "global": {{ "duration": {seconds} }}, "tasks": {{ {tasks} }} }}"#);
        Ok(Workload::from_rt_app(self.name, &text)?)
    }

    /// Returns whether the task's run intervals follow from the times at which it reads the clock.
    pub(super) fn is_hog(&self, task: &str) -> bool {
        let looks = |does| matches!(does, Does::Hog | Does::Changes(..) | Does::Parent(..));
        self.cpus == 1 && self.actors.iter().any(|actor| looks(actor.does) && task.starts_with(actor.name))
    }

    /// Returns latency, minimal and wakeup granularity in nanoseconds.
    pub(super) fn units_ns(&self) -> [u64; 3] {
        let [latency, minimal, wakeup] = [6_000_000, 750_000, 1_000_000].map(|ns| ns * self.factor);
        [latency, minimal, if self.eager { 0 } else { wakeup }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fair_class_case_is_a_valid_workload() {
        for case in &CASES {
            for gate in [false, true] {
                let workload = case.workload(gate).unwrap();
                let made = |actor: &Actor| matches!(actor.does, Does::Parent(_) | Does::Forks(..)) as u32;
                let count: u32 = case.actors.iter().map(|actor| actor.count + made(actor)).sum();
                assert_eq!(workload.tasks.len(), count as usize, "{}", case.name);
            }
        }
    }
}
