// SPDX-License-Identifier: GPL-2.0-only
//! What every run owes and what a scheduler promises, held against the events of a run.
//!
//! | property | broken if | |
//! |---|---|---|
//! | `sanity` | a task is on two CPUs, runs without being runnable, or was not where a switch says | every run |
//! | `affinity` | a task runs where it may not | every run |
//! | `lost-wakeup` | a waiting task is in no queue, while CPUs idle that it may use | every run |
//! | `work-conserving` | a task waits, while CPUs idle that it may use | if promised |
//! | `starvation-bound-ms` | a task waits for longer than that | if promised |
//! | `key-order` | a queue gave a task while one with a smaller key was in it that may run there as well | if promised |
//!
//! [`state`] follows who runs, who waits and in which queue, and finds what contradicts itself; [`unserved`] finds waiting
//! beside idling; [`queues`] finds what leaves a queue out of order. [`Checker`] feeds them and keeps what they find.
//!
//! Whoever changes a mask, takes a CPU away or attaches a scheduler disturbs: waiting counts anew from there on.

mod queues;
mod state;
mod unserved;

use event_log::{Event, EventKind, Sink, TaskInfo};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use queues::Queues;
use state::State;
use unserved::{Population, Stretch, Unserved};

/// What a run is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// No CPU idles while a task waits that may run there.
    pub work_conserving: bool,
    /// No task waits for longer.
    pub starvation_bound: Option<Nanos>,
    /// Queues give the smallest key that may run.
    pub key_order: bool,
    /// Whether a sched_ext scheduler runs the tasks: the kernel's own inserts into no queue that anyone sees.
    pub has_queues: bool,
    /// So long a CPU may idle beside a waiting task: it takes time to wake up and to look for work.
    pub tolerance: Nanos,
    /// The time between two ticks: so long a task may stay where it is no longer allowed.
    pub tick: Nanos,
}

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// The events do not contradict each other.
    Sanity,
    /// Tasks run where they may.
    Affinity,
    /// Who waits is in a queue.
    LostWakeup,
    /// Nobody waits beside an idle CPU.
    WorkConserving,
    /// Nobody waits for too long.
    StarvationBoundMs,
    /// Queues keep their order.
    KeyOrder,
}

impl Property {
    /// How reports and profiles call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Property::Sanity => "sanity",
            Property::Affinity => "affinity",
            Property::LostWakeup => "lost-wakeup",
            Property::WorkConserving => "work-conserving",
            Property::StarvationBoundMs => "starvation-bound-ms",
            Property::KeyOrder => "key-order",
        }
    }
}

/// A time in which a property was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was broken.
    pub property: Property,
    /// From when on.
    pub from: Nanos,
    /// Until when; the same time for what happens at once.
    pub to: Nanos,
    /// Tasks that it concerns, as at its end.
    pub tasks: Vec<TaskId>,
    /// CPUs that it concerns, as at its end.
    pub cpus: Vec<CpuId>,
    /// How much it was: nanoseconds, or a key.
    pub value: u64,
    /// How much it may be: nanoseconds, or the key that should have been taken.
    pub limit: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first [`MOST`] of each property, in the order in which they ended.
    pub violations: Vec<Violation>,
    /// How many there were.
    pub count: u64,
}

/// Violations of each property that are kept: a scheduler that breaks a promise breaks it all the time.
pub const MOST: usize = 100;

impl Findings {
    fn add(&mut self, violation: Violation) {
        self.count += 1;
        if self.violations.iter().filter(|other| other.property == violation.property).count() < MOST {
            self.violations.push(violation);
        }
    }
}

/// The sink that checks a run while it passes. Memory grows with tasks, CPUs and masks, never with time.
#[derive(Debug)]
pub struct Checker {
    promises: Promises,
    state: State,
    unserved: Unserved,
    queues: Queues,
    findings: Findings,
    /// Whether the scheduler has the tasks: what it promises counts only then.
    in_charge: bool,
    /// When things changed last that nobody can follow at once.
    disturbed: Option<Nanos>,
}

impl Checker {
    /// For a machine of so many CPUs, of which those that are online idle, and without tasks.
    pub fn new(cpus: usize, online: &CpuSet, promises: Promises) -> Checker {
        let mut checker = Checker {
            promises,
            state: State::new(cpus),
            unserved: Unserved::new(cpus, promises.tolerance),
            queues: Queues::default(),
            findings: Findings::default(),
            in_charge: !promises.has_queues,
            disturbed: None,
        };
        for cpu in CpuSet::first_n(cpus).iter().filter(|cpu| !online.contains(*cpu)) {
            checker.take_away(Nanos::ZERO, cpu);
        }
        checker
    }

    /// What was found until the run ended.
    pub fn finish(mut self, end: Nanos) -> Findings {
        self.close(end);
        self.findings
    }

    fn add(
        &mut self,
        property: Property,
        span: (Nanos, Nanos),
        who: (Vec<TaskId>, Vec<CpuId>),
        value: u64,
        limit: u64,
    ) {
        let ((from, to), (tasks, cpus)) = (span, who);
        self.findings.add(Violation { property, from, to, tasks, cpus, value, limit });
    }

    /// All that still waits has waited until now.
    fn close(&mut self, now: Nanos) {
        if !self.in_charge {
            return;
        }
        for stretch in self.unserved.open(now) {
            self.judge(stretch, now);
        }
        let waiting: Vec<(TaskId, Nanos)> = self.state.waiting().collect();
        for (task, since) in waiting {
            self.waited(task, since, now);
        }
    }

    fn take_away(&mut self, now: Nanos, cpu: CpuId) {
        self.state.set_online(now, cpu, false);
        self.set_idle(now, cpu, false);
    }

    fn disturb(&mut self, now: Nanos) {
        self.disturbed = Some(now);
    }

    /// From when on a stretch counts that began then.
    fn counts_from(&self, since: Nanos) -> Nanos {
        self.disturbed.map_or(since, |disturbed| since.max(disturbed + self.promises.tolerance))
    }

    fn judge(&mut self, stretch: Stretch, now: Nanos) {
        let property = match stretch.population {
            Population::Waiting if self.promises.work_conserving => Property::WorkConserving,
            Population::Lost if self.promises.has_queues => Property::LostWakeup,
            _ => return,
        };
        let from = self.counts_from(stretch.since);
        let (value, limit) = (now.since(from).0, self.promises.tolerance.0);
        if self.in_charge && value > limit {
            self.add(property, (from, now), (stretch.tasks, stretch.cpus), value, limit);
        }
    }

    fn waited(&mut self, task: TaskId, since: Nanos, now: Nanos) {
        let Some(bound) = self.promises.starvation_bound else { return };
        let value = self.state.waited(task, since, now);
        if self.in_charge && value > bound {
            self.add(Property::StarvationBoundMs, (since, now), (vec![task], vec![]), value.0, bound.0);
        }
    }

    fn wait(&mut self, now: Nanos, task: TaskId) {
        self.unserved.wait(now, task, Population::Waiting);
        // A scheduler puts a task that loses its CPU into a queue before the switch.
        if self.state.is_scheduled(task) && !self.queues.contains(task) {
            self.unserved.wait(now, task, Population::Lost);
        }
    }

    fn stop_waiting(&mut self, now: Nanos, task: TaskId, since: Nanos) {
        self.waited(task, since, now);
        for population in [Population::Waiting, Population::Lost] {
            self.stop_in(now, task, population);
        }
    }

    fn stop_in(&mut self, now: Nanos, task: TaskId, population: Population) {
        if let Some(stretch) = self.unserved.stop_waiting(now, task, population) {
            self.judge(stretch, now);
        }
    }

    fn set_idle(&mut self, now: Nanos, cpu: CpuId, idle: bool) {
        for stretch in self.unserved.set_idle(now, cpu, idle) {
            self.judge(stretch, now);
        }
    }

    fn switch(&mut self, event: &Event, prev: TaskId, still_runnable: bool) {
        let Event { time, cpu, task, .. } = *event;
        if let Some(who) = self.state.contradiction(cpu, prev, task) {
            self.add(Property::Sanity, (time, time), (vec![who], vec![cpu]), 0, 0);
        }
        if prev != TaskId::NONE && prev != task {
            if let Some((since, limit)) = self.state.overstays(prev, cpu, time, self.promises.tick) {
                self.add(Property::Affinity, (since, time), (vec![prev], vec![cpu]), time.since(since).0, limit.0);
            }
            if self.state.leave(time, prev, still_runnable) {
                self.wait(time, prev);
            }
        }
        if task != TaskId::NONE && prev != task {
            self.queues.remove(task);
            if let Some(since) = self.state.run(time, task, cpu) {
                self.stop_waiting(time, task, since);
            }
            if !self.state.may_use(task, cpu) {
                self.add(Property::Affinity, (time, time), (vec![task], vec![cpu]), 0, 0);
            }
        }
        self.state.set_running(time, cpu, task);
        self.set_idle(time, cpu, task == TaskId::NONE);
    }

    fn dispatch(&mut self, event: &Event, from: DsqId, to: CpuId) {
        let taken = self.queues.take(from, event.task);
        let Some(key) = taken.filter(|_| self.promises.key_order && self.in_charge && !from.is_builtin()) else {
            return;
        };
        let state = &self.state;
        if let Some((smaller, passed)) = self.queues.smaller(from, key, |task| state.may_use(task, to)) {
            self.add(Property::KeyOrder, (event.time, event.time), (vec![event.task, passed], vec![to]), key, smaller);
        }
    }
}

impl Sink for Checker {
    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.state.announce(time, info);
        self.unserved.announce(time, info.id, &info.allowed);
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.disturb(time);
        self.state.set_allowed(time, task, allowed);
        for stretch in self.unserved.set_allowed(time, task, allowed) {
            self.judge(stretch, time);
        }
    }

    fn event(&mut self, event: &Event) {
        let Event { time, cpu, task, .. } = *event;
        match event.kind {
            EventKind::Wakeup { .. } if self.state.wake(time, task) => self.wait(time, task),
            EventKind::Block { .. } | EventKind::Exit => self.state.block(time, task),
            EventKind::Switch { prev, reason } => self.switch(event, prev, state::stays_runnable(reason)),
            EventKind::Idle { entered } => self.set_idle(time, cpu, entered),
            EventKind::Insert { dsq, key, .. } => {
                self.queues.insert(dsq, key, task);
                self.stop_in(time, task, Population::Lost);
            }
            EventKind::Dispatch { from, to } => self.dispatch(event, from, to),
            EventKind::Hotplug { online } => {
                self.disturb(time);
                match online {
                    true => self.state.set_online(time, cpu, true),
                    false => self.take_away(time, cpu),
                }
            }
            EventKind::Attached => {
                self.disturb(time);
                self.in_charge = true;
            }
            EventKind::Disabled { .. } => {
                self.close(time);
                self.disturb(time);
                self.in_charge = false;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
