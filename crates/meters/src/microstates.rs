// SPDX-License-Identifier: GPL-2.0-only
//! Microstates: the life of each task, divided by the states that it was in.
//!
//! Every nanosecond of a task's life belongs to exactly one state, so the states of a task add up to its life.

use crate::columns::{percent, shorten, shorten_path, table};
use crate::{ROWS, Trust};
use ids::Nanos;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// State of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// Ran its own code.
    User,
    /// Ran in the kernel on its own behalf.
    System,
    /// Ran, and spun on a lock.
    Spin,
    /// Was on its CPU while that ran interrupts or scheduler code, or was stolen by a hypervisor.
    Stolen,
    /// Was runnable and waited for a CPU.
    RunQueue,
    /// Slept in a futex, waiting for a lock or another event of user space.
    Futex,
    /// Slept in poll, select or epoll.
    Poll,
    /// Slept until a time.
    Timer,
    /// Waited for a block device.
    Disk,
    /// Waited for a page fault to be served.
    Paging,
    /// Slept for another reason, and a signal could wake it.
    Interruptible,
    /// Slept for another reason, and no signal could wake it.
    Uninterruptible,
}

impl State {
    /// All states, in the order of tables.
    pub const ALL: [State; 12] = [
        State::User,
        State::System,
        State::Spin,
        State::Stolen,
        State::RunQueue,
        State::Futex,
        State::Poll,
        State::Timer,
        State::Disk,
        State::Paging,
        State::Interruptible,
        State::Uninterruptible,
    ];

    /// Key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            State::User => "user",
            State::System => "system",
            State::Spin => "spin",
            State::Stolen => "stolen",
            State::RunQueue => "run_queue",
            State::Futex => "futex",
            State::Poll => "poll",
            State::Timer => "timer",
            State::Disk => "disk",
            State::Paging => "paging",
            State::Interruptible => "interruptible",
            State::Uninterruptible => "uninterruptible",
        }
    }

    /// What a task in it does.
    pub fn meaning(self) -> &'static str {
        match self {
            State::User => "ran its own code",
            State::System => "ran in the kernel on its own behalf",
            State::Spin => "ran, and spun on a lock",
            State::Stolen => "its CPU ran interrupts, or was stolen by a hypervisor",
            State::RunQueue => "was runnable and waited for a CPU",
            State::Futex => "slept for a lock or another event of user space",
            State::Poll => "slept in poll, select or epoll",
            State::Timer => "slept until a time",
            State::Disk => "waited for a block device",
            State::Paging => "waited for a page fault to be served",
            State::Interruptible => "slept for another reason, and a signal could wake it",
            State::Uninterruptible => "slept for another reason, and no signal could wake it",
        }
    }

    /// Heading of its column.
    pub fn heading(self) -> &'static str {
        match self {
            State::RunQueue => "run queue",
            State::Interruptible => "other S",
            State::Uninterruptible => "other D",
            other => other.key(),
        }
    }
}

/// A reason for part of a state's time, such as the function that called futex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// State that the time belongs to.
    pub state: State,
    /// Where or for what the task waited.
    pub what: String,
    /// Number of waits.
    pub count: u64,
    /// Time, a part of the state's.
    pub time: Nanos,
}

/// A task and its states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// PID of the thread.
    pub pid: u32,
    /// PID of its process; the same where threads are not distinguished.
    pub process: u32,
    /// Name.
    pub name: String,
    /// Path of its cgroup, of which the kernel knows; `None` in a simulated run.
    pub cgroup: Option<String>,
    /// Time from its birth, or the start of the measurement, to its exit, or the end of the measurement.
    pub life: Nanos,
    /// Time in each state; a state that is missing was not measured.
    pub states: BTreeMap<State, Nanos>,
    /// Number of entries into each state, where counted.
    pub counts: BTreeMap<State, u64>,
    /// Reasons, the longest first.
    pub reasons: Vec<Reason>,
}

impl Task {
    /// Its row: a cgroup by the end of its path, others by name and PID.
    fn label(&self) -> String {
        match &self.cgroup {
            Some(cgroup) if *cgroup == self.name => shorten_path(&self.name, 28),
            _ => format!("{}[{}]", shorten(&self.name, 18), self.pid),
        }
    }

    /// Sum of the states.
    pub fn sum(&self) -> Nanos {
        Nanos(self.states.values().map(|time| time.0).sum())
    }
}

/// All tasks of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Microstates {
    /// Circumstances.
    pub trust: Trust,
    /// The tasks.
    pub tasks: Vec<Task>,
}

impl Microstates {
    /// Merges tasks with the same key, such as the threads of a process. The first one gives name and PID.
    pub fn merge<K: Ord>(self, key: impl Fn(&Task) -> K) -> Microstates {
        let mut merged: BTreeMap<K, Task> = BTreeMap::new();
        for task in self.tasks {
            let Some(sum) = merged.get_mut(&key(&task)) else {
                merged.insert(key(&task), task);
                continue;
            };
            sum.life += task.life;
            for (state, time) in task.states {
                *sum.states.entry(state).or_default() += time;
            }
            for (state, count) in task.counts {
                *sum.counts.entry(state).or_default() += count;
            }
            for reason in task.reasons {
                match sum.reasons.iter_mut().find(|own| own.state == reason.state && own.what == reason.what) {
                    Some(own) => (own.count, own.time) = (own.count + reason.count, own.time + reason.time),
                    None => sum.reasons.push(reason),
                }
            }
        }
        let mut tasks: Vec<Task> = merged.into_values().collect();
        tasks.iter_mut().for_each(|task| task.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.time)));
        Microstates { tasks, ..self }
    }

    /// Merges the tasks of each cgroup, and names the rows by them.
    pub fn by_cgroup(self) -> Microstates {
        let mut merged = self.merge(|task| task.cgroup.clone());
        for task in &mut merged.tasks {
            task.name = task.cgroup.clone().unwrap_or_else(|| "?".to_owned());
        }
        merged
    }

    /// Sorts tasks by life, the longest first.
    pub fn sort(&mut self) {
        self.tasks.sort_by(|a, b| (b.life, a.pid).cmp(&(a.life, b.pid)));
    }

    /// Tasks whose states do not add up to their lives.
    pub fn unbalanced(&self) -> Vec<&Task> {
        self.tasks.iter().filter(|task| task.sum() != task.life).collect()
    }

    /// Time of all tasks in a state; `None` if it was not measured.
    pub fn total(&self, state: State) -> Option<Nanos> {
        let times: Vec<u64> = self.tasks.iter().filter_map(|task| task.states.get(&state)).map(|time| time.0).collect();
        (!times.is_empty()).then(|| Nanos(times.iter().sum()))
    }

    /// The table as text: shares of each task's life.
    pub fn to_text(&self, all: bool) -> String {
        let used: Vec<State> =
            State::ALL.into_iter().filter(|state| self.total(*state).is_some_and(|time| time > Nanos::ZERO)).collect();
        let header: Vec<&str> = ["task", "life"].into_iter().chain(used.iter().map(|state| state.heading())).collect();
        let cells = |name: String, life: Nanos, of: &dyn Fn(State) -> Option<Nanos>| {
            let share = |state: &State| of(*state).map_or("-".to_owned(), |time| percent(time.0, life.0));
            [name, life.to_string()].into_iter().chain(used.iter().map(share)).collect::<Vec<_>>()
        };
        let shown = if all { self.tasks.len() } else { ROWS.min(self.tasks.len()) };
        let lives = Nanos(self.tasks.iter().map(|task| task.life.0).sum());
        let mut rows = vec![cells(format!("all {}", self.tasks.len()), lives, &|state| self.total(state))];
        rows.extend(
            self.tasks[..shown]
                .iter()
                .map(|task| cells(task.label(), task.life, &|state| task.states.get(&state).copied())),
        );
        let mut text = self.trust.to_text() + "\n" + &table(&header, 1, &rows);
        if shown < self.tasks.len() {
            text += &format!("{} more tasks; --all shows them\n", self.tasks.len() - shown);
        }
        text += &self.reasons(shown);
        text += &match self.unbalanced().as_slice() {
            [] => format!("\ncheck: the states of each of {} tasks add up to its life\n", self.tasks.len()),
            [first, others @ ..] => format!(
                "\nFAILED check: the states of {} tasks do not add up to their lives, first {}: {} and {}\n",
                others.len() + 1,
                first.label(),
                first.sum(),
                first.life
            ),
        };
        text
    }

    /// For each shown task that was blocked for long: where.
    fn reasons(&self, shown: usize) -> String {
        let mut text = String::new();
        for task in &self.tasks[..shown] {
            let asleep = |state: &State| *state >= State::Futex;
            let blocked: u64 = task.states.iter().filter(|(state, _)| asleep(state)).map(|(_, time)| time.0).sum();
            let worst: Vec<String> = task
                .reasons
                .iter()
                .filter(|reason| reason.time.0 * 20 >= task.life.0)
                .take(3)
                .map(|reason| {
                    format!(
                        "{} {} in {}",
                        reason.state.key(),
                        percent(reason.time.0, task.life.0),
                        shorten(&reason.what, 32)
                    )
                })
                .collect();
            if !worst.is_empty() {
                let name = task.label();
                let line = format!("{name}: blocked {}: {}", percent(blocked, task.life.0), worst.join(", "));
                text += &(report::wrap("", &line) + "\n");
            }
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    /// The table as JSON.
    pub fn to_json(&self) -> Value {
        let task = |task: &Task| {
            let states: Map<String, Value> = State::ALL
                .into_iter()
                .map(|state| (state.key().to_owned(), json!(task.states.get(&state).map(|time| time.0))))
                .collect();
            let counts: Map<String, Value> =
                task.counts.iter().map(|(state, count)| (state.key().to_owned(), json!(count))).collect();
            let reason = |reason: &Reason| json!({ "state": reason.state.key(), "what": reason.what, "count": reason.count, "time_ns": reason.time.0 });
            json!({
                "pid": task.pid,
                "tgid": task.process,
                "name": task.name,
                "cgroup": task.cgroup,
                "life_ns": task.life.0,
                "states": states,
                "counts": counts,
                "reasons": task.reasons.iter().map(reason).collect::<Vec<_>>(),
            })
        };
        let mut json = self.trust.to_json();
        json["tasks"] = self.tasks.iter().map(task).collect();
        json["unbalanced"] = json!(self.unbalanced().len());
        json
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let names: Vec<String> = State::ALL.iter().map(|state| format!("{}_ns", state.key())).collect();
        let mut text = format!("pid,tgid,name,life_ns,{}\n", names.join(","));
        for task in &self.tasks {
            let of = |state: &State| task.states.get(state).map(|time| time.0.to_string()).unwrap_or_default();
            let times: Vec<String> = State::ALL.iter().map(of).collect();
            text += &format!(
                "{},{},{},{},{}\n",
                task.pid,
                task.process,
                report::cell(&task.name),
                task.life.0,
                times.join(",")
            );
        }
        text
    }
}
