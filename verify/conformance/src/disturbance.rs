// SPDX-License-Identifier: GPL-2.0-only
//! Detects disturbances of a run by something outside the scenario.
//!
//! 1. A real machine has other tasks. As long as they stay on CPU 0 with the director, or come to another CPU while
//!    no scenario task wants one, the comparison is unaffected. A foreign task on another CPU while a scenario task
//!    is runnable, or before the CPU that such a task left has gone idle, may change anything. So may one on CPU 0 if
//!    the scenario uses that.
//! 2. A virtual CPU may stall. A running task has a tick every 4 ms; after a long gap some are missing.
//! 3. On a slow machine the last mark may come before a task has finished. And the stop class sometimes has work, for
//!    which it takes a CPU. Both are visible only against the model's log. A kernel that always differs in this way
//!    is still detected: if all runs are disturbed, one must equal the model's.
//! 4. If only the scenario's tasks are under the scheduler, foreign tasks are detected by the idle CPUs they take.
//! 5. CPU 0 may stall as well. Then wakeups that are simultaneous in the model are late, and other tasks have
//!    continued meanwhile.
//! 6. The executor's own lock is not part of the scenario: a task that slept for it slept once more than specified.

use crate::compare::{DIRECTOR, between_marks, odd_ticks, owners};
use crate::record::Call;
use crate::scenario::Masks;
use executor::ExecutionResult;
use std::collections::{BTreeMap, BTreeSet};

/// CPU of the director and of foreign tasks.
const HOUSE: i32 = 0;
/// One and a half tick periods at 250 Hz: a longer gap in the calls of a running task means a lost tick.
const STALL_NS: u64 = 6_000_000;
/// More than a waker needs between two wakeups.
const AT_ONCE_NS: u64 = 1_000_000;
/// `DEQUEUE_SLEEP`.
const SLEEP: u64 = 1;

/// Returns the kinds of disturbances found in the log. `only_ours`: foreign tasks are not under the scheduler.
pub fn of_log(calls: &[Call], masks: &Masks, only_ours: bool) -> Vec<String> {
    let calls = between_marks(calls);
    let is_guest = |call: &Call| call.op == "running" && call.task_cpu == HOUSE && !is_at_home(call);
    let mut watch = Watch { guests: calls.iter().any(is_guest), only_ours, ..Watch::default() };
    calls.iter().for_each(|call| watch.see(call));
    let still = watch.still.iter().filter(|_| !odd_ticks(calls, masks).is_empty());
    watch.found.into_iter().chain(still.map(|cpu| format!("CPU {cpu} stalled"))).collect()
}

/// Returns the disturbances found by comparison with the model's log.
pub fn of_log_beside(calls: &[Call], model: &[Call]) -> Vec<String> {
    let mut found = Vec::new();
    let (late, expected) = (unfinished(calls), unfinished(model));
    if let Some(task) = late.iter().find(|task| !expected.contains(task)) {
        found.push(format!("the log ends before {task} finished"));
    }
    if are_late(calls, model) {
        found.push("wakeups came late".to_owned());
    }
    if taken(calls) > taken(model) {
        found.push("a higher class took a CPU from a task".to_owned());
    }
    found
}

/// Returns whether wakeups that are simultaneous in the model were not.
fn are_late(calls: &[Call], model: &[Call]) -> bool {
    let pairs = wakeups(calls).zip(wakeups(model));
    let same: Vec<(u64, u64)> =
        pairs.take_while(|(here, there)| here.task == there.task).map(|two| (two.0.time_ns, two.1.time_ns)).collect();
    same.windows(2)
        .any(|two| two[1].1.saturating_sub(two[0].1) < AT_ONCE_NS && two[1].0.saturating_sub(two[0].0) > STALL_NS)
}

/// Returns the wakeups of the scenario's tasks.
fn wakeups(calls: &[Call]) -> impl Iterator<Item = &Call> {
    let ours = |call: &&Call| call.op == "runnable" && !is_at_home(call);
    between_marks(calls).iter().filter(ours)
}

/// Returns how often a higher class took a CPU from a scenario task.
fn taken(calls: &[Call]) -> usize {
    let calls = between_marks(calls);
    let owners = owners(calls);
    calls.iter().zip(owners).filter(|(call, owner)| call.op == "cpu_release" && !owner.is_empty()).count()
}

/// Returns tasks that want a CPU at the last mark, and CPUs that have not gone idle.
fn unfinished(calls: &[Call]) -> Vec<String> {
    let mut watch = Watch::default();
    between_marks(calls).iter().for_each(|call| watch.see(call));
    let tasks = watch.active.iter().map(|task| (*task).to_owned());
    tasks.chain(watch.left.iter().map(|cpu| format!("CPU {cpu}"))).collect()
}

/// Returns the disturbances that the executor reports.
pub fn of_play(played: &ExecutionResult) -> Vec<String> {
    let slept = (played.disturbances > 0).then(|| "a thread slept for the executor's own lock".to_owned());
    slept.into_iter().collect()
}

/// Returns whether the call is about a task that belongs on CPU 0.
fn is_at_home(call: &Call) -> bool {
    matches!(call.task.as_str(), "" | "*" | DIRECTOR)
}

/// State while reading a log.
#[derive(Default)]
struct Watch<'a> {
    /// Whether scenario tasks come to CPU 0 too.
    guests: bool,
    /// Whether foreign tasks are not under the scheduler.
    only_ours: bool,
    /// CPUs that left the idle state without getting a scenario task. Used only with `only_ours`.
    woken: BTreeSet<i32>,
    /// Scenario tasks that want a CPU or have one.
    active: BTreeSet<&'a str>,
    /// CPUs on which a foreign task runs.
    foreign: BTreeSet<i32>,
    /// CPUs that a scenario task left, and that no other scenario task has used since.
    left: BTreeSet<i32>,
    /// CPUs whose last event is a `dispatch` that found no task. A foreign task that starts there now hides this: it
    /// looks as if `dispatch` had found it.
    vain: BTreeSet<i32>,
    /// Time of the last call about the running scenario task, by CPU.
    heard: BTreeMap<i32, u64>,
    /// CPUs on which a running task had no call for too long.
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
            // Another CPU changes a task that runs elsewhere.
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

    /// Calls as `op cpu task ms`; `sleeps` is `quiescent` with SLEEP, `idle` is `update_idle` with true.
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
    fn foreign_task_beside_a_runnable_scenario_task_is_a_disturbance() {
        let life = "runnable 1 w_a 1,running 1 w_a 1,stopping 1 w_a 2,sleeps 1 w_a 2,update_idle 1 - 2";
        let with = |before: &str, after: &str| found(&[before, life, after].concat());
        assert_eq!(with("", ""), [""; 0]);
        assert_eq!(with("running 2 * 0,stopping 2 * 0,", ",running 1 * 3,stopping 1 * 4"), [""; 0]);
        assert_eq!(with("running 0 * 0,", ""), [""; 0], "foreign tasks belong on CPU 0");
        assert_eq!(with("running 2 * 0,", ""), ["a foreign task is on CPU 2"]);
        let guest = ",runnable 0 w_c 5,running 0 w_c 5,stopping 0 w_c 6,sleeps 0 w_c 6,update_idle 0 - 6";
        assert_eq!(with("running 0 * 0,", guest), ["a foreign task is on CPU 0"]);
        assert_eq!(with("", ",running 1 d_dir 3,runnable 1 w_b 4,running 3 * 4"), ["a foreign task is on CPU 3"]);
    }

    #[test]
    fn foreign_task_outside_the_scheduler_is_detected() {
        let life = "runnable 1 w_a 1,update_idle 1 - 1,running 1 w_a 1,stopping 1 w_a 4,sleeps 1 w_a 4,idle 1 - 4";
        let with = |before: &str, during: &str| {
            let life = life.replace("stopping", &[during, "stopping"].concat());
            of_log(&parse(&[before, &life].concat()), &Masks::default(), true)
        };
        assert_eq!(with("", ""), [""; 0]);
        assert_eq!(with("update_idle 2 - 0,idle 2 - 0,", ""), [""; 0]);
        assert_eq!(with("update_idle 0 - 0,", "idle 0 - 2,"), [""; 0], "foreign tasks belong on CPU 0");
        assert_eq!(with("update_idle 2 - 0,", ""), ["a foreign task is on CPU 2"]);
        assert_eq!(with("", "update_idle 2 - 2,idle 2 - 3,"), ["a foreign task was on CPU 2"]);
    }

    #[test]
    fn log_that_ends_early_or_loses_a_cpu_to_a_higher_class_is_disturbed() {
        let (half, rest) = ("runnable 1 w_a 1,running 1 w_a 1", ",stopping 1 w_a 2,sleeps 1 w_a 2,update_idle 1 - 2");
        let whole = [half, rest].concat();
        let beside = |log: &str, model: &str| of_log_beside(&parse(log), &parse(model));
        assert_eq!(beside(&whole, &whole), [""; 0]);
        assert_eq!(beside(half, half), [""; 0]);
        assert_eq!(beside(half, &whole), ["the log ends before w_a finished"]);
        assert_eq!(beside(whole.rsplit_once(',').unwrap().0, &whole), ["the log ends before CPU 1 finished"]);
        let taken = whole.replace("sleeps", "cpu_release 1 - 2,sleeps");
        assert_eq!(beside(&taken, &whole), ["a higher class took a CPU from a task"]);
        assert_eq!(beside(&taken, &taken), [""; 0]);
        assert_eq!(beside(&format!("{whole},cpu_release 1 - 3"), &whole), [""; 0], "the CPU was idle");
    }

    #[test]
    fn simultaneous_wakeups_that_come_late_are_a_disturbance() {
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
    fn foreign_task_that_hides_an_empty_dispatch_is_a_disturbance() {
        let vain = "dispatch 2 - 1,update_idle 2 - 4";
        assert_eq!(found(&format!("{vain},running 2 * 4")), ["a foreign task comes to CPU 2"]);
        assert_eq!(found(&format!("{vain},running 3 * 4")), [""; 0]);
        assert_eq!(found(&format!("{vain},runnable 2 w_a 4,running 2 w_a 4,stopping 2 w_a 5")), [""; 0]);
        assert_eq!(found("dispatch 2 - 1,stopping 2 * 2,running 2 * 4"), [""; 0], "something came in between");
    }

    #[test]
    fn foreign_task_that_keeps_a_cpu_from_going_idle_is_a_disturbance() {
        let life = "runnable 1 w_a 1,running 1 w_a 1,stopping 1 w_a 2,sleeps 1 w_a 2,dispatch 1 w_a 2";
        assert_eq!(found(&format!("{life},running 1 * 3")), ["a foreign task comes to CPU 1"]);
        assert_eq!(found(&format!("{life},running 2 * 3")), [""; 0]);
    }

    #[test]
    fn stalled_cpu_has_too_few_ticks() {
        let run =
            |last: &str| found(&format!("runnable 1 w_a 0,running 1 w_a 0,tick 1 w_a 4,{last},update_idle 1 - 90"));
        assert_eq!(run("stopping 1 w_a 15"), [""; 0]);
        assert_eq!(run("stopping 1 w_a 17"), ["CPU 1 stalled"]);
        assert_eq!(run("tick 1 w_a 8,tick 1 w_a 11,tick 1 w_a 12,stopping 1 w_a 25"), [""; 0], "it has enough ticks");
        let many = "tick 1 w_a 5,tick 1 w_a 6,tick 1 w_a 7,tick 1 w_a 8,stopping 1 w_a 9";
        assert_eq!(run(many), [""; 0], "the CPU did not stall");
    }
}
