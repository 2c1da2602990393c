// SPDX-License-Identifier: GPL-2.0-only
//! Periodic tasks: response time of each job, and whether the job ends before the next release.

use crate::{Histogram, LatencySummary};
use ids::{Nanos, TaskId};

/// Periods of one task or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    /// Length of the last period.
    pub length: Nanos,
    /// Response time of each job: from its release to its end.
    pub response: Histogram<6>,
    /// Tardiness of each late job: time from the next release to the job's end.
    pub late: Histogram<6>,
}

/// Percentiles of [`Periods`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodSummary {
    /// Response time of the jobs: from release to end.
    pub response: LatencySummary,
    /// Tardiness of the late jobs: time from the next release to the job's end.
    pub late: LatencySummary,
}

impl Periods {
    /// Records a job of a period of this length and its response time.
    pub fn end(&mut self, length: Nanos, response: Nanos) {
        self.length = length;
        self.response.record(response);
        if response > length {
            self.late.record(response - length);
        }
    }

    /// Adds the periods of another task.
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

/// Periods of each task that has a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeriodsOfTasks(Vec<Option<Box<Periods>>>);

impl PeriodsOfTasks {
    /// As [`Periods::end`], for this task.
    pub fn end(&mut self, task: TaskId, length: Nanos, response: Nanos) {
        if self.0.len() <= task.index() {
            self.0.resize_with(task.index() + 1, || None);
        }
        self.0[task.index()].get_or_insert_default().end(length, response);
    }

    /// Removes and returns the periods of this task.
    pub fn take(&mut self, task: TaskId) -> Option<Box<Periods>> {
        self.0.get_mut(task.index()).and_then(Option::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_is_late_if_it_ends_after_the_next_release() {
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
