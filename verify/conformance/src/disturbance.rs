// SPDX-License-Identifier: GPL-2.0-only
//! Whether something that is not in the scenario disturbed a play.
//!
//! 1. A real machine has other tasks. As long as they stay on CPU 0 with the director, or come to another CPU while no
//!    task of the scenario wants one, nothing of what is compared changes. One that is on another CPU while a task of
//!    the scenario is runnable, or before the CPU that such a task left has gone idle, may change everything. So may one
//!    on CPU 0 where a scenario uses that.
//! 2. A virtual CPU may stand still. A task that runs sees a tick every 4 ms; when none comes for long, some are
//!    missing.
//! 3. Where the machine is slow, the last mark may come before a task has done its work. And the stop class has work of
//!    its own at times, for which it takes a CPU away. Both are seen only beside the model's log. A kernel that always
//!    differs so is noticed all the same: where all plays are disturbed, one must still be like the model's.
//! 4. Where only the scenario's tasks are under the scheduler, what is foreign is seen by the CPUs that it finds idle.
//! 5. CPU 0 may stand still as well. Then wakeups come late that follow each other at once in the model, and others have
//!    gone on meanwhile.
//! 6. The player's own lock is no part of the scenario: who slept for it slept once more than the scenario says.

use crate::compare::{DIRECTOR, between_marks, odd_ticks, owners};
use crate::record::Call;
use crate::scenario::Masks;
use executor::ExecutionResult;
use std::collections::{BTreeMap, BTreeSet};

/// The CPU of the director and of whatever is foreign.
const HOUSE: i32 = 0;
/// A tick and a half at 250 Hz: when a running task is not heard of for longer, a tick is lost.
const STALL_NS: u64 = 6_000_000;
/// More than a waker needs from one to the next.
const AT_ONCE_NS: u64 = 1_000_000;
/// `DEQUEUE_SLEEP`.
const SLEEP: u64 = 1;

/// What the log tells of disturbances, each kind once. `only_ours`: foreign tasks are not under the scheduler.
pub fn of_log(calls: &[Call], masks: &Masks, only_ours: bool) -> Vec<String> {
    let calls = between_marks(calls);
    let is_guest = |call: &Call| call.op == "running" && call.task_cpu == HOUSE && !is_at_home(call);
    let mut watch = Watch { guests: calls.iter().any(is_guest), only_ours, ..Watch::default() };
    calls.iter().for_each(|call| watch.see(call));
    let still = watch.still.iter().filter(|_| !odd_ticks(calls, masks).is_empty());
    watch.found.into_iter().chain(still.map(|cpu| format!("CPU {cpu} stood still"))).collect()
}

/// What it tells beside the log of the model, which nothing disturbs.
pub fn of_log_beside(calls: &[Call], model: &[Call]) -> Vec<String> {
    let mut found = Vec::new();
    let (late, expected) = (unfinished(calls), unfinished(model));
    if let Some(task) = late.iter().find(|task| !expected.contains(task)) {
        found.push(format!("the end came before {task} was done"));
    }
    if are_late(calls, model) {
        found.push("wakeups came late".to_owned());
    }
    if taken(calls) > taken(model) {
        found.push("a higher class took a CPU from a task".to_owned());
    }
    found
}

/// Whether wakeups that follow each other at once in the model did not do so.
fn are_late(calls: &[Call], model: &[Call]) -> bool {
    let pairs = wakeups(calls).zip(wakeups(model));
    let same: Vec<(u64, u64)> =
        pairs.take_while(|(here, there)| here.task == there.task).map(|two| (two.0.time_ns, two.1.time_ns)).collect();
    same.windows(2)
        .any(|two| two[1].1.saturating_sub(two[0].1) < AT_ONCE_NS && two[1].0.saturating_sub(two[0].0) > STALL_NS)
}

/// Those of the scenario's tasks.
fn wakeups(calls: &[Call]) -> impl Iterator<Item = &Call> {
    let ours = |call: &&Call| call.op == "runnable" && !is_at_home(call);
    between_marks(calls).iter().filter(ours)
}

/// How often a higher class took a CPU from a task of the scenario.
fn taken(calls: &[Call]) -> usize {
    let calls = between_marks(calls);
    let owners = owners(calls);
    calls.iter().zip(owners).filter(|(call, owner)| call.op == "cpu_release" && !owner.is_empty()).count()
}

/// Tasks that want a CPU when the last mark comes, and CPUs that did not come to rest.
fn unfinished(calls: &[Call]) -> Vec<String> {
    let mut watch = Watch::default();
    between_marks(calls).iter().for_each(|call| watch.see(call));
    let tasks = watch.active.iter().map(|task| (*task).to_owned());
    tasks.chain(watch.left.iter().map(|cpu| format!("CPU {cpu}"))).collect()
}

/// What the player tells of them.
pub fn of_play(played: &ExecutionResult) -> Vec<String> {
    let slept = (played.disturbances > 0).then(|| "a thread slept for the player's own lock".to_owned());
    slept.into_iter().collect()
}

/// Whether it is about a task that belongs on CPU 0.
fn is_at_home(call: &Call) -> bool {
    matches!(call.task.as_str(), "" | "*" | DIRECTOR)
}

/// What is known in the middle of a log.
#[derive(Default)]
struct Watch<'a> {
    /// Tasks of the scenario come to CPU 0 too.
    guests: bool,
    /// Foreign tasks are not under the scheduler.
    only_ours: bool,
    /// Then: CPUs that are no longer idle, and nobody of the scenario came.
    woken: BTreeSet<i32>,
    /// Tasks of the scenario that want a CPU or have one.
    active: BTreeSet<&'a str>,
    /// CPUs on which a foreign task is.
    foreign: BTreeSet<i32>,
    /// CPUs that a task of the scenario left, and nobody came since.
    left: BTreeSet<i32>,
    /// CPUs that looked for work in vain, and nothing came since. A foreign task that comes now hides that: it looks as
    /// if it had been found.
    vain: BTreeSet<i32>,
    /// When the running task of the scenario was last heard of, by CPU.
    heard: BTreeMap<i32, u64>,
    /// CPUs on which a running task was not heard of for long.
    still: BTreeSet<i32>,
    found: BTreeSet<String>,
}

impl<'a> Watch<'a> {
    fn see(&mut self, call: &'a Call) {
        if let Some(last) = self.heard.get_mut(&call.cpu) {
            if call.time_ns.saturating_sub(*last) > STALL_NS {
                self.still.insert(call.cpu);
            }
            *last = call.time_ns;
        }
        if (call.task.as_str(), call.op.as_str()) == ("", "dispatch") {
            self.vain.insert(call.cpu);
        } else if !matches!(call.op.as_str(), "update_idle" | "running") {
            self.vain.remove(&call.cpu);
        }
        match (call.task.as_str(), call.op.as_str()) {
            ("", "update_idle") => self.see_idle(call.cpu, call.b != 0),
            ("*", op) => self.see_foreign(op, call.cpu),
            ("" | DIRECTOR, _) => {}
            (task, op) => self.see_ours(task, op, call),
        }
        if let (Some(cpu), false) = (self.foreign.first(), self.active.is_empty()) {
            self.found.insert(format!("a foreign task is on CPU {cpu}"));
        }
    }

    fn see_idle(&mut self, cpu: i32, idle: bool) {
        self.left.remove(&cpu);
        if !self.only_ours || cpu == HOUSE {
            return;
        }
        if !idle {
            self.woken.insert(cpu);
            if self.active.is_empty() {
                self.foreign.insert(cpu);
            }
        } else if self.woken.remove(&cpu) {
            self.foreign.remove(&cpu);
            if !self.active.is_empty() {
                self.found.insert(format!("a foreign task was on CPU {cpu}"));
            }
        }
    }

    fn see_foreign(&mut self, op: &str, cpu: i32) {
        match op {
            "running" if cpu != HOUSE || self.guests => {
                self.foreign.insert(cpu);
                if self.left.remove(&cpu) || self.vain.remove(&cpu) {
                    self.found.insert(format!("a foreign task comes to CPU {cpu}"));
                }
            }
            "stopping" => _ = self.foreign.remove(&cpu),
            _ => {}
        }
    }

    fn see_ours(&mut self, task: &'a str, op: &str, call: &Call) {
        match op {
            "select_cpu" | "runnable" | "enqueue" => _ = self.active.insert(task),
            // Who changes a task that runs elsewhere is another CPU.
            "running" => {
                self.vain.remove(&call.cpu);
                self.active.insert(task);
                self.left.remove(&call.task_cpu);
                self.woken.remove(&call.task_cpu);
                self.heard.insert(call.task_cpu, call.time_ns);
            }
            "stopping" => {
                self.left.insert(call.task_cpu);
                self.heard.remove(&call.task_cpu);
            }
            "quiescent" if call.a & SLEEP != 0 => _ = self.active.remove(task),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `op cpu task ms`, a call each; `sleeps` is `quiescent` with SLEEP, `idle` is `update_idle` with true.
    fn found(log: &str) -> Vec<String> {
        of_log(&parse(log), &Masks::default(), false)
    }

    fn parse(log: &str) -> Vec<Call> {
        let call = |words: &str| {
            let words: Vec<&str> = words.split_whitespace().collect();
            let (op, a, b) = match words[0] {
                "sleeps" => ("quiescent", SLEEP, 0),
                "idle" => ("update_idle", 0, 1),
                op => (op, 0, 0),
            };
            let task = if words[2] == "-" { "" } else { words[2] };
            let time_ns = words[3].parse::<u64>().unwrap() * 1_000_000;
            let cpu = words[1].parse().unwrap();
            Call { op: op.into(), cpu, task_cpu: cpu, task: task.into(), a, b, time_ns, ..Call::default() }
        };
        log.split(',').map(call).collect()
    }

    #[test]
    fn foreign_tasks_disturb_while_a_task_of_the_scenario_wants_a_cpu() {
        let life = "runnable 1 w_a 1,running 1 w_a 1,stopping 1 w_a 2,sleeps 1 w_a 2,update_idle 1 - 2";
        let with = |before: &str, after: &str| found(&[before, life, after].concat());
        assert_eq!(with("", ""), [""; 0]);
        assert_eq!(with("running 2 * 0,stopping 2 * 0,", ",running 1 * 3,stopping 1 * 4"), [""; 0]);
        assert_eq!(with("running 0 * 0,", ""), [""; 0], "it is at home there");
        assert_eq!(with("running 2 * 0,", ""), ["a foreign task is on CPU 2"]);
        let guest = ",runnable 0 w_c 5,running 0 w_c 5,stopping 0 w_c 6,sleeps 0 w_c 6,update_idle 0 - 6";
        assert_eq!(with("running 0 * 0,", guest), ["a foreign task is on CPU 0"]);
        assert_eq!(with("", ",running 1 d_dir 3,runnable 1 w_b 4,running 3 * 4"), ["a foreign task is on CPU 3"]);
    }

    #[test]
    fn foreign_tasks_are_seen_where_they_are_not_under_the_scheduler() {
        let life = "runnable 1 w_a 1,update_idle 1 - 1,running 1 w_a 1,stopping 1 w_a 4,sleeps 1 w_a 4,idle 1 - 4";
        let with = |before: &str, during: &str| {
            let life = life.replace("stopping", &[during, "stopping"].concat());
            of_log(&parse(&[before, &life].concat()), &Masks::default(), true)
        };
        assert_eq!(with("", ""), [""; 0]);
        assert_eq!(with("update_idle 2 - 0,idle 2 - 0,", ""), [""; 0]);
        assert_eq!(with("update_idle 0 - 0,", "idle 0 - 2,"), [""; 0], "it is at home there");
        assert_eq!(with("update_idle 2 - 0,", ""), ["a foreign task is on CPU 2"]);
        assert_eq!(with("", "update_idle 2 - 2,idle 2 - 3,"), ["a foreign task was on CPU 2"]);
    }

    #[test]
    fn what_the_model_does_not_do_may_be_a_disturbance() {
        let (half, rest) = ("runnable 1 w_a 1,running 1 w_a 1", ",stopping 1 w_a 2,sleeps 1 w_a 2,update_idle 1 - 2");
        let whole = [half, rest].concat();
        let beside = |log: &str, model: &str| of_log_beside(&parse(log), &parse(model));
        assert_eq!(beside(&whole, &whole), [""; 0]);
        assert_eq!(beside(half, half), [""; 0]);
        assert_eq!(beside(half, &whole), ["the end came before w_a was done"]);
        assert_eq!(beside(whole.rsplit_once(',').unwrap().0, &whole), ["the end came before CPU 1 was done"]);
        let taken = whole.replace("sleeps", "cpu_release 1 - 2,sleeps");
        assert_eq!(beside(&taken, &whole), ["a higher class took a CPU from a task"]);
        assert_eq!(beside(&taken, &taken), [""; 0]);
        assert_eq!(beside(&format!("{whole},cpu_release 1 - 3"), &whole), [""; 0], "the CPU was idle");
    }

    #[test]
    fn wakeups_that_follow_each_other_come_at_once() {
        let log =
            |second: &str, third: &str| format!("runnable 1 w_a 1,runnable 1 w_b {second},runnable 1 w_a {third}");
        let beside = |log: &str, model: &str| are_late(&parse(log), &parse(model));
        let model = log("1", "30");
        assert!(!beside(&log("2", "50"), &model), "the second at once, and the third at its time");
        assert!(beside(&log("9", "50"), &model));
        assert!(!beside(&log("9", "50"), &log("9", "50")));
        assert!(!beside("runnable 1 w_b 1,runnable 1 w_a 9", &model), "another order is for the comparison");
    }

    #[test]
    fn a_foreign_task_hides_that_a_cpu_looked_for_work() {
        let vain = "dispatch 2 - 1,update_idle 2 - 4";
        assert_eq!(found(&format!("{vain},running 2 * 4")), ["a foreign task comes to CPU 2"]);
        assert_eq!(found(&format!("{vain},running 3 * 4")), [""; 0]);
        assert_eq!(found(&format!("{vain},runnable 2 w_a 4,running 2 w_a 4,stopping 2 w_a 5")), [""; 0]);
        assert_eq!(found("dispatch 2 - 1,stopping 2 * 2,running 2 * 4"), [""; 0], "something came in between");
    }

    #[test]
    fn a_cpu_that_does_not_go_idle_is_disturbed() {
        let life = "runnable 1 w_a 1,running 1 w_a 1,stopping 1 w_a 2,sleeps 1 w_a 2,dispatch 1 w_a 2";
        assert_eq!(found(&format!("{life},running 1 * 3")), ["a foreign task comes to CPU 1"]);
        assert_eq!(found(&format!("{life},running 2 * 3")), [""; 0]);
    }

    #[test]
    fn a_cpu_that_stood_still_has_too_few_ticks() {
        let run =
            |last: &str| found(&format!("runnable 1 w_a 0,running 1 w_a 0,tick 1 w_a 4,{last},update_idle 1 - 90"));
        assert_eq!(run("stopping 1 w_a 15"), [""; 0]);
        assert_eq!(run("stopping 1 w_a 17"), ["CPU 1 stood still"]);
        assert_eq!(run("tick 1 w_a 8,tick 1 w_a 11,tick 1 w_a 12,stopping 1 w_a 25"), [""; 0], "it has enough of them");
        let many = "tick 1 w_a 5,tick 1 w_a 6,tick 1 w_a 7,tick 1 w_a 8,stopping 1 w_a 9";
        assert_eq!(run(many), [""; 0], "it did not stand still");
    }
}
