// SPDX-License-Identifier: GPL-2.0-only
//! A conversion that writes what is over while the recording goes on: in memory stay the tasks that live and the last quarter
//! million or so of things that happened.
//!
//! Some of it is told late: that a task was woken is told when it runs again, and that bytes were written when the call ends.
//! What is told later than half a window stands behind what is written; and if its task has ended meanwhile, a sleep that it
//! ended becomes one that somebody outside ended. So does a sleep before a read that the end of a window parts from it. Ticks
//! are pooled over what ran until then. Until the first window is full nothing is written: shorter recordings are converted
//! with all that is known at their end.

use crate::convert::Conversion;
use crate::life::{self, Step};
use crate::split::Pool;
use crate::timing;
use ids::Nanos;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};
use std::mem::take;
use workload::Earlier;

/// Things that happened (steps of all tasks, and bytes that passed) in memory from which on the earlier half is written.
pub const WINDOW: usize = 1 << 19;

impl Conversion {
    /// How many things that happened are in memory.
    pub fn waiting(&self) -> usize {
        let steps: usize = self.lives.iter().map(|life| life.steps.len()).sum();
        steps + self.channels.waiting()
    }

    /// If more than a window waits: writes what happened before its last half, and forgets it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write<File: Read + Write + Seek>(&mut self, earlier: &mut Earlier<File>, window: usize) -> io::Result<()> {
        self.requests.write(&self.host.devices, earlier)?;
        let waiting = self.waiting();
        if waiting <= window || self.is_full(waiting) {
            return Ok(());
        }
        let until = self.middle(waiting - window / 2);
        let mut asides: Vec<_> = self.lives.iter_mut().map(|life| life.put_aside(until)).collect();
        self.settle(until);
        let pool = self.pool();
        let (mut scripts, mut stretches) = (BTreeMap::new(), BTreeMap::new());
        for (index, aside) in (0u32..).zip(&mut asides) {
            let life = &mut self.lives[index as usize];
            if life.is_written {
                continue;
            }
            let is_over = life.end.is_some() && life.ended < until && aside.is_empty();
            life.steps.sort_by_key(Step::rank);
            let written = life::script(life, &pool, &self.overheads, (!is_over).then_some(until));
            scripts.insert(index, written.script);
            if !written.stretches.is_empty() {
                stretches.insert(index, written.stretches);
            }
            life.resume(take(aside));
            if is_over {
                self.sums.cpu += written.total;
                self.sums.scheduling += written.total - written.work;
                self.sums.pool.add(&life.parts);
                self.channels.ends(index);
                life.forget();
            }
        }
        earlier.scripts(&scripts)?;
        earlier.stretches(&stretches)?;
        self.sums.operations = earlier.operations();
        self.sums.signals = self.posts.count();
        self.posts.keep(window);
        self.horizon = until;
        Ok(())
    }

    /// When so many of the things in memory have happened.
    fn middle(&self, count: usize) -> Nanos {
        let steps = self.lives.iter().flat_map(|life| &life.steps).map(|step| step.time);
        let mut times: Vec<Nanos> = steps.chain(self.channels.times()).collect();
        let place = count.min(times.len() - 1);
        *times.select_nth_unstable(place).1
    }

    /// Finds the grids and the causes in what happened before `until`, which is all that the lives have.
    pub(crate) fn settle(&mut self, until: Nanos) {
        for life in &mut self.lives {
            timing::find_grids(&mut life.steps, &take(&mut life.expiries), &mut life.timers);
        }
        self.channels.join(&mut self.lives, &mut self.posts, until);
        self.lives.iter_mut().for_each(|life| life.arrivals = life.arrivals.split_off(&until));
    }

    /// The ticks of all tasks so far.
    pub(crate) fn pool(&self) -> Pool {
        let mut pool = self.sums.pool.clone();
        self.lives.iter().filter(|life| !life.is_written).for_each(|life| pool.add(&life.parts));
        pool
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
