// SPDX-License-Identifier: GPL-2.0-only
//! Working set of a task, which it really accesses while it works.
//!
//! A part of the work is visits of its lines in random order instead of rounds of the loop. A visit counts as the time
//! that it takes while the set is warm, so that work takes longer only if caches have lost lines.

use super::Calibration;
use host::hardware::memory::{Chase, LINE};
use host::sys;
use ids::Nanos;
use workload::{MemoryUse, Quantity};

/// Share of the work that visits take, as a divisor: a quarter.
const SHARE: u64 = 4;
/// Number of passes from which the time of a warm visit is taken.
const PASSES: u32 = 8;

/// A working set and the time of a warm visit.
#[derive(Debug)]
pub struct WorkingSet {
    chase: Chase,
    dirty_percent: u32,
    /// Time of a pass over all lines while they are warm.
    pass: Nanos,
}

impl WorkingSet {
    /// Allocates and warms a set; `None` if the task has no footprint. Regions are not shared. Must be called by the
    /// task, so that its memory is on the node on which it runs.
    pub fn of(memory: Option<&MemoryUse>) -> Option<WorkingSet> {
        let memory = memory?;
        let bytes = memory.limits(Quantity::Footprint).typical as usize;
        if bytes < LINE {
            return None;
        }
        let dirty_percent = memory.limits(Quantity::Dirty).typical as u32;
        let mut chase = Chase::new(bytes);
        let mut pass = || {
            let begin = sys::now();
            chase.visit(chase.len(), dirty_percent);
            sys::now().since(begin)
        };
        let pass = (0..PASSES).map(|_| pass()).min().expect("there are passes").max(Nanos(1));
        Some(WorkingSet { chase, dirty_percent, pass })
    }

    /// Visits lines as a part of this much work, and returns the rest of the work in rounds of the loop.
    pub fn visit(&mut self, rounds: u64, calibration: &Calibration) -> u64 {
        let work = calibration.work_of(rounds);
        let lines = (u128::from(work.0 / SHARE) * self.chase.len() as u128 / u128::from(self.pass.0)) as usize;
        self.chase.visit(lines, self.dirty_percent);
        rounds - rounds / SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_a_quarter_of_the_work() {
        let mut memory = MemoryUse::default();
        assert!(WorkingSet::of(Some(&memory)).is_none());
        memory.set("footprint", "64K").unwrap();
        let mut set = WorkingSet::of(Some(&memory)).unwrap();
        assert_eq!(set.chase.len(), 1_024);
        set.pass = Nanos(10_240);
        // A round is a nanosecond: of 4 us, 1 us is 100 visits of 10 ns.
        let calibration = Calibration { rounds: 1_000, fastest: Nanos(1_000), median: Nanos(1_000), tries: 1 };
        assert_eq!(set.visit(4_000, &calibration), 3_000);
    }
}
