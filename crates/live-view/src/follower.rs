// SPDX-License-Identifier: GPL-2.0-only
//! Event sink that collects the numbers of a frame.

use crate::{CpuShare, HISTORY, Latencies, Snapshot, Waiter};
use event_log::{Event, EventKind, Sink, SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, Nanos, TaskId};
use std::collections::VecDeque;

/// Window length of latencies and waiting tasks: they cover the last one to two windows.
pub(crate) const WINDOW: Nanos = Nanos::from_secs(5);
/// Number of frames over which rates and shares are averaged.
const FRAMES: usize = 5;
/// Maximum number of waiting tasks in a snapshot: more than the rows of most screens.
const WAITERS: usize = 60;

/// Tracks a run.
#[derive(Debug)]
pub struct Follower {
    cpus: Vec<Cpu>,
    tasks: Vec<Task>,
    now: Nanos,
    has_begun: bool,
    alive: u32,
    switches: u64,
    wakeups: u64,
    latencies: Window<Latencies>,
    waiting: u32,
    /// Maximum number of waiting tasks since the last snapshot.
    most_waiting: u32,
    depths: VecDeque<u32>,
    /// Sums at recent snapshots, latest last.
    before: VecDeque<Sums>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    at: Nanos,
    switches: u64,
    wakeups: u64,
    cpus: Vec<[Nanos; 4]>,
}

/// CPU state; also the index of its time sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Busy {
    Run,
    Others,
    Idle,
    Offline,
}

#[derive(Clone, Debug)]
struct Cpu {
    does: Busy,
    since: Nanos,
    sums: [Nanos; 4],
    current: TaskId,
    waiting: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Sleeps,
    Waits { since: Nanos, cpu: CpuId, woken: bool },
    Runs,
    Ended,
}

#[derive(Clone, Debug)]
struct Task {
    name: String,
    pid: u32,
    state: State,
    waited: Window<Nanos>,
}

/// Sum over the last one to two periods.
#[derive(Clone, Debug, Default)]
struct Window<T> {
    period: u64,
    this: T,
    last: T,
}

impl<T: Default> Window<T> {
    /// Sum of the current period.
    fn at(&mut self, now: Nanos) -> &mut T {
        let period = now.0 / WINDOW.0;
        if period > self.period {
            let this = std::mem::take(&mut self.this);
            self.last = if period == self.period + 1 { this } else { T::default() };
            self.period = period;
        }
        &mut self.this
    }
}

impl Follower {
    /// Creates a follower for a machine with `cpus` CPUs, initially idle.
    pub fn new(cpus: usize) -> Follower {
        let cpu =
            Cpu { does: Busy::Idle, since: Nanos::ZERO, sums: Default::default(), current: TaskId::NONE, waiting: 0 };
        Follower {
            cpus: vec![cpu; cpus],
            tasks: Vec::new(),
            now: Nanos::ZERO,
            has_begun: false,
            alive: 0,
            switches: 0,
            wakeups: 0,
            latencies: Window::default(),
            waiting: 0,
            most_waiting: 0,
            depths: VecDeque::new(),
            before: VecDeque::from([Sums { cpus: vec![Default::default(); cpus], ..Sums::default() }]),
        }
    }

    /// Returns whether any event has arrived.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes a snapshot at `now` on the run's clock, at or after the last event. `frame` is the time to the next
    /// snapshot.
    pub fn snapshot(&mut self, now: Nanos, frame: Nanos) -> Snapshot {
        self.now = self.now.max(now);
        let now = self.now;
        self.cpus.iter_mut().for_each(|cpu| cpu.settle(now));
        if self.depths.len() == HISTORY {
            self.depths.pop_front();
        }
        self.depths.push_back(self.most_waiting);
        self.most_waiting = self.waiting;
        let sums = Sums {
            at: now,
            switches: self.switches,
            wakeups: self.wakeups,
            cpus: self.cpus.iter().map(|cpu| cpu.sums).collect(),
        };
        let since = &self.before[0];
        let cpus = self.cpus.iter().zip(&since.cpus).map(|(cpu, before)| self.share(cpu, before)).collect();
        let latencies = self.latencies.at(now).clone().merged(&self.latencies.last);
        let snapshot = Snapshot {
            elapsed: now,
            interval: now.since(since.at),
            switches: self.switches - since.switches,
            wakeups: self.wakeups - since.wakeups,
            alive: Some(self.alive),
            cpus,
            latencies,
            waiters: Some(self.waiters()),
            depths: Some(self.depths.iter().copied().collect()),
            frame,
        };
        if self.before.len() == FRAMES {
            self.before.pop_front();
        }
        self.before.push_back(sums);
        snapshot
    }

    fn share(&self, cpu: &Cpu, before: &[Nanos; 4]) -> CpuShare {
        let [run, others, idle, _] = std::array::from_fn(|index| cpu.sums[index].since(before[index]));
        CpuShare {
            run,
            others,
            idle,
            is_offline: cpu.does == Busy::Offline,
            waiting: Some(cpu.waiting),
            current: cpu.current.some().and_then(|task| self.tasks.get(task.index())).map(Task::name),
        }
    }

    fn waiters(&mut self) -> Vec<Waiter> {
        let now = self.now;
        let waited = |task: &mut Task| {
            let so_far = *task.waited.at(now) + task.waited.last;
            let own = match task.state {
                State::Ended => return None,
                State::Waits { since, cpu, .. } => Some((now.since(since), cpu)),
                State::Sleeps | State::Runs => None,
            };
            let all = so_far + own.map_or(Nanos::ZERO, |(waits, _)| waits);
            (all > Nanos::ZERO).then_some((all, own))
        };
        let all = self.tasks.iter_mut().enumerate();
        let mut found: Vec<_> = all.filter_map(|(id, task)| waited(task).map(|(all, own)| (all, own, id))).collect();
        found.sort_unstable_by_key(|&(all, _, id)| (std::cmp::Reverse(all), id));
        found.truncate(WAITERS);
        let waiter = |(waited, now, id): (Nanos, _, usize)| Waiter { name: self.tasks[id].name(), waited, now };
        found.into_iter().map(waiter).collect()
    }

    /// The task becomes runnable and starts to wait.
    fn wait(&mut self, id: TaskId, cpu: CpuId, woken: bool) {
        let since = self.now;
        let Some(task) = self.task_mut(id).filter(|task| matches!(task.state, State::Sleeps | State::Runs)) else {
            return;
        };
        task.state = State::Waits { since, cpu, woken };
        self.waiting += 1;
        self.most_waiting = self.most_waiting.max(self.waiting);
        if let Some(cpu) = self.cpus.get_mut(cpu.index()) {
            cpu.waiting += 1;
        }
    }

    /// The task stops waiting, if it was.
    fn leave_wait(&mut self, id: TaskId, runs: bool) {
        let now = self.now;
        let Some(task) = self.task_mut(id) else { return };
        let State::Waits { since, cpu, woken } = task.state else { return };
        *task.waited.at(now) += now.since(since);
        self.waiting -= 1;
        if let Some(cpu) = self.cpus.get_mut(cpu.index()) {
            cpu.waiting -= 1;
        }
        if woken && runs {
            self.latencies.at(now).record(now.since(since));
        }
    }

    fn switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId, reason: SwitchReason) {
        let runs = |task: &Task| task.state == State::Runs;
        self.leave_wait(next, true);
        if prev != next && self.task_mut(prev).is_some_and(|task| runs(task)) {
            match reason {
                SwitchReason::Block | SwitchReason::Exit => self.set(prev, State::Sleeps),
                _ => self.wait(prev, cpu, false),
            }
        }
        self.set(next, State::Runs);
        self.switches += u64::from(next != TaskId::NONE);
        self.does(cpu, if next == TaskId::NONE { Busy::Idle } else { Busy::Run }, next);
    }

    fn set(&mut self, id: TaskId, state: State) {
        if let Some(task) = self.task_mut(id).filter(|task| task.state != State::Ended) {
            task.state = state;
        }
    }

    fn does(&mut self, cpu: CpuId, does: Busy, current: TaskId) {
        let now = self.now;
        if let Some(cpu) = self.cpus.get_mut(cpu.index()) {
            cpu.settle(now);
            (cpu.does, cpu.current) = (does, current);
        }
    }

    fn task_mut(&mut self, task: TaskId) -> Option<&mut Task> {
        task.some().and_then(|task| self.tasks.get_mut(task.index()))
    }
}

impl Cpu {
    fn settle(&mut self, now: Nanos) {
        self.sums[self.does as usize] += now.since(self.since);
        self.since = self.since.max(now);
    }
}

impl Task {
    fn name(&self) -> String {
        format!("{}[{}]", report::escape(&self.name), self.pid)
    }
}

impl Sink for Follower {
    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        (self.now, self.has_begun) = (self.now.max(time), true);
        self.alive += 1;
        let (name, pid) = (info.name.clone(), info.pid);
        self.tasks.push(Task { name, pid, state: State::Sleeps, waited: Window::default() });
    }

    fn renamed(&mut self, _: Nanos, task: TaskId, name: &str) {
        if let Some(task) = self.task_mut(task) {
            name.clone_into(&mut task.name);
        }
    }

    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}

    fn event(&mut self, event: &Event) {
        let Event { time, cpu, task, .. } = *event;
        (self.now, self.has_begun) = (self.now.max(time), true);
        match event.kind {
            EventKind::Wakeup { target, .. } => {
                self.wakeups += 1;
                if self.task_mut(task).is_some_and(|task| task.state == State::Sleeps) {
                    self.wait(task, target, true);
                }
            }
            EventKind::Switch { prev, reason } => self.switch(cpu, prev, task, reason),
            EventKind::Block { .. } => self.set(task, State::Sleeps),
            EventKind::Exit => {
                self.leave_wait(task, false);
                if self.task_mut(task).is_some_and(|task| task.state != State::Ended) {
                    self.alive -= 1;
                }
                self.set(task, State::Ended);
            }
            EventKind::Idle { entered } => {
                let is_free = self.cpus.get(cpu.index()).is_some_and(|cpu| cpu.current == TaskId::NONE);
                if is_free {
                    self.does(cpu, if entered { Busy::Idle } else { Busy::Others }, TaskId::NONE);
                }
            }
            EventKind::Hotplug { online } => {
                self.does(cpu, if online { Busy::Idle } else { Busy::Offline }, TaskId::NONE);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "follower_tests.rs"]
mod tests;
