// SPDX-License-Identifier: GPL-2.0-only
//! Periodic tasks: how long what a period releases takes, and whether it is done before the next release.

use crate::{Histogram, LatencySummary};
use ids::{Nanos, TaskId};

/// The periods of one task or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    /// The length of the last one.
    pub length: Nanos,
    /// From each release to the end of what it released.
    pub response: Histogram<6>,
    /// Of those that ended after the next release: how much later.
    pub late: Histogram<6>,
}

/// The same as percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodSummary {
    /// From each release to the end of what it released.
    pub response: LatencySummary,
    /// Of those that ended after the next release: how much later.
    pub late: LatencySummary,
}

impl Periods {
    /// A period of this length is over, so long after it began.
    pub fn end(&mut self, length: Nanos, response: Nanos) {
        self.length = length;
        self.response.record(response);
        if response > length {
            self.late.record(response - length);
        }
    }

    /// Adds those of another task.
    pub fn add(&mut self, other: &Periods) {
        self.length = other.length;
        self.response.add(&other.response);
        self.late.add(&other.late);
    }

    /// Counts and percentiles.
    pub fn summary(&self) -> PeriodSummary {
        PeriodSummary { response: self.response.summary(), late: self.late.summary() }
    }
}

/// The periods of each task that has some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeriodsOfTasks(Vec<Option<Box<Periods>>>);

impl PeriodsOfTasks {
    /// As [`Periods::end`], of this task.
    pub fn end(&mut self, task: TaskId, length: Nanos, response: Nanos) {
        if self.0.len() <= task.index() {
            self.0.resize_with(task.index() + 1, || None);
        }
        self.0[task.index()].get_or_insert_default().end(length, response);
    }

    /// Those of this task, which are then gone.
    pub fn take(&mut self, task: TaskId) -> Option<Box<Periods>> {
        self.0.get_mut(task.index()).and_then(Option::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_ends_after_the_next_release() {
        let mut all = PeriodsOfTasks::default();
        for response in [10, 100, 101, 350] {
            all.end(TaskId(3), Nanos(100), Nanos(response));
        }
        let periods = all.take(TaskId(3)).unwrap();
        let PeriodSummary { response, late } = periods.summary();
        assert_eq!((response.count, response.max, periods.length), (4, Nanos(350), Nanos(100)));
        assert_eq!((late.count, late.max, late.mean), (2, Nanos(250), Nanos(125)));
        let mut both = Periods::default();
        both.add(&periods);
        both.add(&periods);
        assert_eq!((both.summary().late.count, both.length), (4, Nanos(100)));
        assert!(all.take(TaskId(3)).is_none() && all.take(TaskId(0)).is_none() && all.take(TaskId(9)).is_none());
    }
}
