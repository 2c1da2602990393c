// SPDX-License-Identifier: GPL-2.0-only
//! Execution of an operation's lock steps on a CPU: spend time, take a lock, spend time, release it.
//!
//! The kernel model has executed the whole operation at one instant. The CPU goes through its steps in their time: it
//! stops before each lock until that time has come, unless nothing else happens before, so locks are requested in
//! order of time. Everything after the last lock is known at once. Most operations take one uncontended lock, and
//! need no event at all (`ahead`). Interprocessor interrupts are sent at the end, after the locks are released.

use crate::cost::price;
use crate::cpu::Charge;
use crate::locks::{Grant, LockNumber, kind};
use crate::model::Model;
use crate::run::Run;
use event_log::{CallbackSite, Event, EventKind};
use ids::{CpuId, Nanos, TaskId};
use kernel_model::{Lock, LockStep, Usage};
use machine_model::{Costs, Nature};

/// A step of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The scheduler's code takes this time.
    Spend(Nanos),
    /// The CPU takes a lock, on behalf of this caller.
    Take(LockNumber, &'static str),
    /// The CPU releases the lock.
    Give(LockNumber),
    /// The CPU sends a rescheduling interrupt.
    Send(CpuId),
}

/// Remaining steps of an operation.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub steps: Vec<Step>,
    /// Number of steps already taken.
    pub taken: usize,
}

impl Script {
    /// Whether no step is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Next step.
    #[inline]
    fn next(&self) -> Option<Step> {
        self.steps.get(self.taken).copied()
    }

    /// Removes the next step.
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

    /// Appends a step.
    #[inline]
    pub fn push(&mut self, step: Step) {
        if !matches!(step, Step::Spend(Nanos::ZERO)) {
            self.steps.push(step);
        }
    }
}

/// An operation with one lock: time spent before, under, and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acquisition {
    pub lock: LockNumber,
    pub caller: &'static str,
    pub before: Nanos,
    pub under: Nanos,
    pub after: Nanos,
}

impl Acquisition {
    fn new(
        costs: &Costs,
        lock: LockNumber,
        charge: Charge,
        take: &LockStep,
        give: &LockStep,
        all: &Usage,
    ) -> Acquisition {
        debug_assert!(take.taken && !give.taken && take.lock == give.lock, "the lock is taken before its release");
        let is_runqueue = matches!(take.lock, Lock::Runqueue(_));
        let locked = if is_runqueue { charge.locked.min(charge.scheduler) } else { Nanos::ZERO };
        // Usually nothing is used before the lock is taken, nor after its release.
        let at_take = if take.used.is_nothing() { Nanos::ZERO } else { price(costs, &take.used) };
        let at_give = if give.used.is_as_at(&take.used) { at_take } else { price(costs, &give.used) };
        let at_end = if all.is_as_at(&give.used) { at_give } else { price(costs, all) };
        let before = charge.scheduler - locked + at_take;
        let held = held_for_queue(costs, take.lock, before);
        let under = at_give - at_take + held + locked;
        Acquisition { lock, caller: take.caller, before: before - held, under, after: at_end - at_give }
    }

    /// Writes the steps from the lock on.
    pub fn write_from_lock(&self, script: &mut Script) {
        script.push(Step::Take(self.lock, self.caller));
        script.push(Step::Spend(self.under));
        script.push(Step::Give(self.lock));
        script.push(Step::Spend(self.after));
    }

    fn write(&self, script: &mut Script) {
        script.push(Step::Spend(self.before));
        self.write_from_lock(script);
    }
}

/// Part of the time `spent` before the lock that is the cost of a queue kfunc: it is counted before the lock, but
/// spent while holding it.
fn held_for_queue(costs: &Costs, lock: Lock, spent: Nanos) -> Nanos {
    match lock {
        Lock::Runqueue(_) | Lock::Bpf(_) => Nanos::ZERO,
        Lock::Global(_) | Lock::Bypass(_) | Lock::Dsq(_) => spent.min(Nanos(costs.call(Nature::Queue))),
    }
}

impl<M: Model> Run<'_, M> {
    /// Writes the script of the operation whose output was taken. Of its costs other than the scheduler's code,
    /// `charge.locked` is spent before the last runqueue is released, the rest before all steps.
    pub fn write_script(&mut self, cpu: CpuId, charge: Charge) {
        let Some(locks) = &mut self.locks else { return };
        let costs = &self.machine.costs;
        let script = &mut self.cpus[cpu].script;
        let is_first = script.is_empty();
        let steps = &self.kernel.output.locks;
        if is_first && let [take, give] = &steps[..] {
            let acquisition =
                Acquisition::new(costs, locks.number(take.lock), charge, take, give, &self.kernel.output.usage);
            return self.acquire_lock(cpu, acquisition);
        }
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
                held = held_for_queue(costs, step.lock, spend);
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
        let all = price(costs, &self.kernel.output.usage);
        script.push(Step::Spend(spend + all - past));
        let end = self.cpus[cpu].free_at() + charge.scheduler + all;
        if is_first && self.is_alone(cpu, end) {
            self.play_at_once(cpu);
        }
    }

    /// Executes an operation with one lock, the common case: at once or ahead of time, if possible. Otherwise writes
    /// its steps.
    fn acquire_lock(&mut self, cpu: CpuId, acquisition: Acquisition) {
        let locks = self.locks.as_mut().expect("taking a lock implies locks");
        let Acquisition { lock, caller, before, under, after } = acquisition;
        if locks.is_free(lock, self.clock.now()) {
            let from = self.cpus[cpu].free_at();
            let (at, lines) = (from + before, locks.lines(lock, cpu));
            let next = self.next_event();
            let locks = self.locks.as_mut().expect("taking a lock implies locks");
            if next > at + under + after + lines {
                let grant = locks.take(lock, cpu, caller, at).expect("the lock is free");
                let free = grant.at + grant.lines + under;
                locks.give(lock, free);
                return self.cpus[cpu].charge(Charge::scheduler(free + after - from));
            }
            // Even if it has to wait, it gets the lock without an event, provided that nothing else happens before
            // `at`.
            if at > self.clock.now() && next <= at && self.may_execute_ahead(cpu) {
                return self.execute_ahead(cpu, acquisition, at);
            }
        }
        acquisition.write(&mut self.cpus[cpu].script);
    }

    /// Whether nothing else happens before the operation ends, and it waits for no lock: then its steps need no
    /// events.
    fn is_alone(&mut self, cpu: CpuId, end: Nanos) -> bool {
        if !self.is_first(end) {
            return false;
        }
        let (locks, now) = (self.locks.as_ref().expect("a script implies locks"), self.clock.now());
        let steps = &self.cpus[cpu].script.steps;
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

    /// Executes the whole script of an operation that is alone.
    fn play_at_once(&mut self, cpu: CpuId) {
        let entry = &mut self.cpus[cpu];
        let locks = self.locks.as_mut().expect("a script implies locks");
        let from = entry.free_at();
        let mut at = from;
        for &step in &entry.script.steps {
            match step {
                Step::Spend(time) => at += time,
                Step::Take(number, caller) => {
                    let grant = locks.take(number, cpu, caller, at).expect("the lock is free");
                    at = grant.at + grant.lines;
                }
                Step::Give(number) => {
                    let next = locks.give(number, at);
                    debug_assert_eq!(next, None, "no CPU waits");
                }
                Step::Send(_) => unreachable!("interrupts are sent after the script"),
            }
        }
        entry.script.clear();
        entry.charge(Charge { scheduler: at - from, ..Charge::default() });
    }

    /// Executes the script of `cpu`, which owes nothing before it, up to a lock that it takes later or must wait for.
    /// CPUs that waited for a lock it releases continue likewise.
    pub fn follow_script(&mut self, cpu: CpuId) {
        let first = cpu;
        let (mut next, mut ready) = (Some(cpu), Vec::new());
        while let Some(cpu) = next.take().or_else(|| ready.pop()) {
            self.settle(cpu);
            while let Some(step) = self.cpus[cpu].script.next() {
                let at = self.cpus[cpu].free_at();
                match step {
                    Step::Spend(time) => {
                        self.cpus[cpu].charge(Charge { scheduler: time, ..Charge::default() });
                    }
                    Step::Send(target) => self.send(cpu, target),
                    Step::Take(..) if at > self.clock.now() && !(ready.is_empty() && self.is_first(at)) => break,
                    Step::Take(number, caller) => {
                        self.request_lock(cpu, number, at);
                        let locks = self.locks.as_mut().expect("a script implies locks");
                        let Some(grant) = locks.take(number, cpu, caller, at) else {
                            self.cpus[cpu].waits_for_lock = true;
                            break;
                        };
                        self.take_lock(cpu, number, at, grant);
                    }
                    Step::Give(number) => {
                        let locks = self.locks.as_mut().expect("a script implies locks");
                        if let Some((waiter, grant)) = locks.give(number, at) {
                            self.settle(waiter);
                            self.cpus[waiter].waits_for_lock = false;
                            self.cpus[waiter].script.pop();
                            self.take_lock(waiter, number, self.clock.now(), grant);
                            ready.push(waiter);
                        }
                    }
                }
                self.cpus[cpu].script.pop();
            }
            if cpu != first {
                self.wait_until_free(cpu);
            }
        }
    }

    /// `cpu`, which owes nothing after `from`, gets the lock at the granted time; it spins until then.
    fn take_lock(&mut self, cpu: CpuId, number: LockNumber, from: Nanos, grant: Grant) {
        let scheduler = grant.at - from + grant.lines;
        self.cpus[cpu].charge(Charge { scheduler, ..Charge::default() });
        if grant.waited > Nanos::ZERO {
            let lock = kind(self.locks.as_ref().expect("taking a lock implies locks").lock(number));
            let kind = EventKind::LockWait { lock, waited: grant.waited };
            let site = CallbackSite::default();
            self.tell(&Event { time: self.clock.now(), cpu, task: TaskId::NONE, kind, site });
        }
    }
}
