// SPDX-License-Identifier: GPL-2.0-only
//! Operations that are played ahead of their time, so that a lock that nobody else wants needs no event.
//!
//! 1. An operation whose one lock is free now, and which concerns nobody else, is played to its end when it begins, though
//!    others may act before. The lock is as it was: who will have it, and when, is written beside it.
//! 2. Who asks for that lock before it would have been taken gets it, and what was played is taken back from the lock on: it
//!    is played in its time. Who asks later finds it taken.
//! 3. The event that was spared counts where it matters that nothing happens up to some time.
//!
//! So what comes out is the same to the bit. Where a seed draws the order of events at the same time each event draws, so
//! there all are played.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::locks::LockNumber;
use crate::model::Model;
use crate::run::Run;
use crate::script::Acquisition;
use ids::{CpuId, Nanos};
use kernel_model::Effect;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operation that was played ahead of its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    acquisition: Acquisition,
    /// What it cost from the lock on.
    cost: Nanos,
}

/// The events that were spared.
#[derive(Debug, Default)]
pub(crate) struct Spared {
    /// When CPUs take the locks of what they played: there, too, something happens. Those that are over may be among them.
    events: BinaryHeap<Reverse<(Nanos, CpuId)>>,
    /// Off in tests that compare.
    pub off: bool,
    /// How many there were, and how many of these were needed after all.
    #[cfg(test)]
    pub counts: [u64; 2],
}

impl Spared {
    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        !self.events.is_empty()
    }
}

impl<M: Model> Run<'_, M> {
    /// Whether nothing of the operation whose output was taken concerns others. Where ties are drawn each event counts.
    pub fn may_play_ahead(&self, cpu: CpuId) -> bool {
        let concerns_others = |effect: &Effect| matches!(effect, Effect::Resched { cpu: target } if *target != cpu);
        let each_event_counts = self.alarms.are_drawn() || self.operations.wait || self.spared.off;
        !each_event_counts && !self.output.effects.iter().any(concerns_others)
    }

    /// Plays an operation whose lock is free, and which comes to it at this time.
    pub fn play_ahead(&mut self, cpu: CpuId, acquisition: Acquisition, at: Nanos) {
        let Acquisition { lock, caller, before, under, after } = acquisition;
        self.spared.events.push(Reverse((at, cpu)));
        let locks = self.locks.as_mut().expect("one is taken");
        let free = locks.foresee(lock, cpu, caller, at, under);
        let entry = &mut self.cpus[cpu.index()];
        let cost = free + after - at;
        entry.ahead = Some(Ahead { acquisition, cost });
        entry.charge(Charge::scheduler(before + cost));
        self.count_ahead(0);
    }

    /// `cpu` is about to do something else, or the run ends: what it did ahead of its time is over, or taken back.
    #[inline]
    pub fn end_ahead(&mut self, cpu: CpuId) {
        if let Some(Ahead { acquisition: Acquisition { lock, .. }, .. }) = self.cpus[cpu.index()].ahead {
            let locks = self.locks.as_mut().expect("one was taken");
            if locks.foreseen(lock).is_some_and(|foreseen| foreseen.cpu == cpu && foreseen.at >= self.now) {
                self.take_back(cpu);
                self.spared.events.retain(|Reverse((_, hidden))| *hidden != cpu);
            } else {
                if locks.foreseen(lock).is_some_and(|foreseen| foreseen.cpu == cpu) {
                    locks.fulfil(lock);
                }
                self.cpus[cpu.index()].ahead = None;
            }
        }
    }

    /// `cpu` asks for a lock at this time. If another CPU took it ahead of its time, that has happened, or is taken back.
    pub fn ask_for_lock(&mut self, cpu: CpuId, lock: LockNumber, at: Nanos) {
        let locks = self.locks.as_mut().expect("there is a script");
        let Some(foreseen) = locks.foreseen(lock) else { return };
        // At the same time the alarm of that CPU would have come before this one, or after.
        let was_first = match at > self.now {
            true => foreseen.cpu < cpu,
            false => self.alarms.comes_before_this(foreseen.cpu),
        };
        if foreseen.at < at || foreseen.at == at && was_first {
            locks.fulfil(lock);
        } else {
            self.take_back(foreseen.cpu);
            self.alarms.set(Alarm::Cpu(foreseen.cpu), foreseen.at);
        }
    }

    /// What `cpu` did ahead of its time is still to be done from its lock on.
    fn take_back(&mut self, cpu: CpuId) {
        let entry = &mut self.cpus[cpu.index()];
        let Ahead { acquisition, cost } = entry.ahead.take().expect("it did something");
        self.locks.as_mut().expect("it has one").forget(acquisition.lock);
        entry.refund(cost);
        acquisition.write_from_lock(&mut entry.script);
        self.count_ahead(1);
    }

    /// The run ends, at `end` or now, which is then before it: what would have happened by then has.
    pub fn end_all_ahead(&mut self, end: Nanos) {
        let cut = end > self.now;
        let Some(locks) = &mut self.locks else { return };
        for cpu in &mut self.cpus {
            let Some(Ahead { acquisition: Acquisition { lock, .. }, .. }) = cpu.ahead.take() else { continue };
            let Some(foreseen) = locks.foreseen(lock).filter(|foreseen| foreseen.cpu == cpu.number()) else { continue };
            let at_the_end = foreseen.at == end && !cut && self.alarms.comes_before_this(foreseen.cpu);
            if foreseen.at < end || at_the_end { locks.fulfil(lock) } else { locks.forget(lock) }
        }
    }

    /// The clock is about to jump, or nothing else is left to happen.
    pub fn take_all_back(&mut self) {
        for cpu in (0..self.cpus.len() as u32).map(CpuId) {
            let was_ahead = self.cpus[cpu.index()].ahead.is_some();
            self.end_ahead(cpu);
            let entry = &self.cpus[cpu.index()];
            if was_ahead && !entry.script.is_empty() {
                self.alarms.set(Alarm::Cpu(cpu), entry.free_at());
            }
        }
        self.spared.events.clear();
    }

    /// Whether nothing else happens up to `time`: then nobody else asks for a lock before.
    pub fn is_first(&mut self, time: Nanos) -> bool {
        self.next_event() > time
    }

    /// When something else happens next, spared events among it.
    pub fn next_event(&mut self) -> Nanos {
        let due = self.alarms.next_due().unwrap_or(Nanos::MAX);
        while let Some(&Reverse((at, cpu))) = self.spared.events.peek() {
            if at < self.now || at == self.now && self.alarms.comes_before_this(cpu) {
                self.spared.events.pop();
            } else {
                return at.min(due);
            }
        }
        due
    }

    /// Tests want to know how often that happened.
    #[inline]
    fn count_ahead(&mut self, _which: usize) {
        #[cfg(test)]
        {
            self.spared.counts[_which] += 1;
        }
    }
}
