// SPDX-License-Identifier: GPL-2.0-only
//! An operation that takes locks, as the CPU's time sees it: spend so much, take this lock, spend, give it back.
//!
//! The kernel did it all at one instant. The CPU goes through the steps in their time: it stops before each lock until
//! that time has come, unless nothing else happens before, so locks are asked for in the order of time. What follows the
//! last lock is known at once.
//! Most operations take one lock that nobody else wants: those need no event either (`ahead`).
//! Interprocessor interrupts leave at the end, when the CPU has given its locks back.

use crate::cost::price;
use crate::cpu::Charge;
use crate::locks::{Grant, LockNumber, kind};
use crate::model::Model;
use crate::run::Run;
use event_log::{CallbackSite, Event, EventKind};
use ids::{CpuId, Nanos, TaskId};
use kernel_model::{Lock, LockStep};
use machine_model::Nature;

/// A step of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The scheduler's code takes so long.
    Spend(Nanos),
    /// The CPU takes a lock, for this caller.
    Take(LockNumber, &'static str),
    /// It gives it back.
    Give(LockNumber),
    /// It sends a rescheduling interrupt.
    Send(CpuId),
}

/// Steps that are still to be taken.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub steps: Vec<Step>,
    /// Of these, taken.
    pub taken: usize,
}

impl Script {
    /// Whether there is nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The next step.
    #[inline]
    fn next(&self) -> Option<Step> {
        self.steps.get(self.taken).copied()
    }

    /// That is done.
    #[inline]
    fn pop(&mut self) {
        self.taken += 1;
        if self.taken == self.steps.len() {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        self.steps.clear();
        self.taken = 0;
    }

    /// Adds a step at the end.
    #[inline]
    pub fn push(&mut self, step: Step) {
        if !matches!(step, Step::Spend(Nanos::ZERO)) {
            self.steps.push(step);
        }
    }
}

impl<M: Model> Run<'_, M> {
    /// Writes down the operation whose output was taken. Of what it cost beside the scheduler's code, `charge.locked` is
    /// spent before the last runqueue is given back, the rest before all.
    pub fn write_script(&mut self, cpu: CpuId, charge: Charge) {
        let Some(locks) = &mut self.locks else { return };
        let costs = &self.machine.costs;
        let script = &mut self.cpus[cpu.index()].script;
        let is_first = script.is_empty();
        let steps = &self.output.locks;
        let is_last = |step: &LockStep| !step.taken && matches!(step.lock, Lock::Runqueue(_));
        let last = steps.iter().rposition(is_last);
        let locked = if last.is_some() { charge.locked.min(charge.scheduler) } else { Nanos::ZERO };
        let (mut spend, mut past, mut held) = (charge.scheduler - locked, Nanos::ZERO, Nanos::ZERO);
        for (place, step) in steps.iter().enumerate() {
            let used = price(costs, &step.used);
            spend += used - past;
            past = used;
            let number = locks.number(step.lock);
            if step.taken {
                // What the kfunc costs was counted before it came to the lock; it is spent under it.
                let is_queue = !matches!(step.lock, Lock::Runqueue(_) | Lock::Bpf(_));
                held = if is_queue { spend.min(Nanos(costs.call(Nature::Queue))) } else { Nanos::ZERO };
                script.push(Step::Spend(spend - held));
                script.push(Step::Take(number, step.caller));
                spend = Nanos::ZERO;
            } else {
                let under = spend + std::mem::take(&mut held) + if last == Some(place) { locked } else { Nanos::ZERO };
                script.push(Step::Spend(under));
                script.push(Step::Give(number));
                spend = Nanos::ZERO;
            }
        }
        let all = price(costs, &self.output.usage);
        script.push(Step::Spend(spend + all - past));
        let end = self.cpus[cpu.index()].free_at() + charge.scheduler + all;
        if is_first && self.is_alone(cpu, end) {
            self.play_at_once(cpu);
        } else if is_first {
            self.play_ahead(cpu);
        }
    }

    /// Whether nothing else happens before the operation ends, and it waits for no lock: then its steps need no events.
    fn is_alone(&mut self, cpu: CpuId, end: Nanos) -> bool {
        if !self.is_first(end) {
            return false;
        }
        let (locks, now) = (self.locks.as_ref().expect("there is a script"), self.now);
        let steps = &self.cpus[cpu.index()].script.steps;
        let takes = steps.iter().filter_map(|step| if let Step::Take(number, _) = step { Some(*number) } else { None });
        let mut lines = Nanos::ZERO;
        for number in takes {
            if !locks.is_free(number, now) {
                return false;
            }
            lines += locks.lines(number, cpu);
        }
        self.is_first(end + lines)
    }

    /// Goes through an operation that is alone.
    fn play_at_once(&mut self, cpu: CpuId) {
        let entry = &mut self.cpus[cpu.index()];
        let locks = self.locks.as_mut().expect("there is a script");
        let from = entry.free_at();
        let mut at = from;
        for &step in &entry.script.steps {
            match step {
                Step::Spend(time) => at += time,
                Step::Take(number, caller) => {
                    let grant = locks.take(number, cpu, caller, at).expect("it is free");
                    at = grant.at + grant.lines;
                }
                Step::Give(number) => {
                    let next = locks.give(number, at);
                    debug_assert_eq!(next, None, "nobody waits");
                }
                Step::Send(_) => unreachable!("interrupts are sent after it"),
            }
        }
        entry.script.clear();
        entry.charge(Charge { scheduler: at - from, ..Charge::default() });
    }

    /// Goes through the script of `cpu`, which owes nothing that comes before, up to a lock that it takes later or must
    /// wait for. Those who waited for what it gives back go on likewise.
    pub fn follow_script(&mut self, cpu: CpuId) {
        let first = cpu;
        let (mut next, mut ready) = (Some(cpu), Vec::new());
        while let Some(cpu) = next.take().or_else(|| ready.pop()) {
            self.settle(cpu);
            while let Some(step) = self.cpus[cpu.index()].script.next() {
                let at = self.cpus[cpu.index()].free_at();
                match step {
                    Step::Spend(time) => {
                        self.cpus[cpu.index()].charge(Charge { scheduler: time, ..Charge::default() });
                    }
                    Step::Send(target) => self.send(cpu, target),
                    Step::Take(..) if at > self.now && !(ready.is_empty() && self.is_first(at)) => break,
                    Step::Take(number, caller) => {
                        self.ask_for_lock(cpu, number, at);
                        let locks = self.locks.as_mut().expect("there is a script");
                        let Some(grant) = locks.take(number, cpu, caller, at) else {
                            self.cpus[cpu.index()].waits_for_lock = true;
                            break;
                        };
                        self.take_lock(cpu, number, at, grant);
                    }
                    Step::Give(number) => {
                        let locks = self.locks.as_mut().expect("there is a script");
                        if let Some((waiter, grant)) = locks.give(number, at) {
                            self.settle(waiter);
                            self.cpus[waiter.index()].waits_for_lock = false;
                            self.cpus[waiter.index()].script.pop();
                            self.take_lock(waiter, number, self.now, grant);
                            ready.push(waiter);
                        }
                    }
                }
                self.cpus[cpu.index()].script.pop();
            }
            if cpu != first {
                self.wait_until_free(cpu);
            }
        }
    }

    /// `cpu`, which owes nothing after `from`, has the lock then or later; it spins until that.
    fn take_lock(&mut self, cpu: CpuId, number: LockNumber, from: Nanos, grant: Grant) {
        let scheduler = grant.at - from + grant.lines;
        self.cpus[cpu.index()].charge(Charge { scheduler, ..Charge::default() });
        if grant.waited > Nanos::ZERO {
            let lock = kind(self.locks.as_ref().expect("one was taken").lock(number));
            let kind = EventKind::LockWait { lock, waited: grant.waited };
            let site = CallbackSite::default();
            self.tell(&Event { time: self.now, cpu, task: TaskId::NONE, kind, site });
        }
    }
}
