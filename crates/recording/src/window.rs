// SPDX-License-Identifier: GPL-2.0-only
//! Incremental conversion: completed parts are written during the recording. Only living tasks and about the last
//! quarter of a million steps and transfers stay in memory.
//!
//! Some events are reported late: a wakeup when the task runs again, a write when the system call returns. An event
//! that is late by more than half a window is placed after the part already written. If its task has exited
//! meanwhile, a sleep that it ended is attributed to a task outside the recording; so is a sleep before a read that
//! the end of a window separates from it. Tick samples are pooled over the time so far. Nothing is written until the
//! first window is full, so shorter recordings are converted with full knowledge.

use crate::convert::Conversion;
use crate::life::{self, Step};
use crate::split::Pool;
use crate::timing;
use ids::Nanos;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};
use std::mem::take;
use workload::Earlier;

/// Number of steps and transfers in memory above which the earlier half is written.
pub const WINDOW: usize = 1 << 19;

impl Conversion {
    /// Number of steps and transfers in memory.
    pub fn waiting(&self) -> usize {
        let steps: usize = self.lives.iter().map(|life| life.steps.len() + life.requests.len()).sum();
        steps + self.channels.waiting()
    }

    /// If there is more than a window in memory, writes and frees everything before its last half.
    ///
    /// # Errors
    /// If writing fails.
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

    /// Time before which `count` of the steps and transfers in memory happened.
    fn middle(&self, count: usize) -> Nanos {
        let steps = self.lives.iter().flat_map(|life| &life.steps).map(|step| step.time);
        let mut times: Vec<Nanos> = steps.chain(self.channels.times()).collect();
        let place = count.min(times.len() - 1);
        *times.select_nth_unstable(place).1
    }

    /// Evaluates timers and dependencies before `until`, the end of the steps in memory.
    pub(crate) fn settle(&mut self, until: Nanos) {
        for life in &mut self.lives {
            timing::find_grids(&mut life.steps, &take(&mut life.expiries), &mut life.timers);
        }
        self.channels.join(&mut self.lives, &mut self.posts, until);
        self.lives.iter_mut().for_each(|life| life.arrivals = life.arrivals.split_off(&until));
    }

    /// Tick samples of all tasks so far.
    pub(crate) fn pool(&self) -> Pool {
        let mut pool = self.sums.pool.clone();
        self.lives.iter().filter(|life| !life.is_written).for_each(|life| pool.add(&life.parts));
        pool
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
