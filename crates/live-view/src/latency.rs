// SPDX-License-Identifier: GPL-2.0-only
//! Wakeup latencies in round-numbered ranges.

use ids::Nanos;
use measures::{Histogram, LatencySummary};

/// Upper bounds of the ranges in nanoseconds: 1, 2 and 5 times powers of ten, from 1 us to 10 s.
const ENDS: [u64; 22] = {
    let mut ends = [0; 22];
    let mut index = 0;
    let mut power = 1_000;
    while index < 22 {
        ends[index] = [power, 2 * power, 5 * power][index % 3];
        if index % 3 == 2 {
            power *= 10;
        }
        index += 1;
    }
    ends
};

/// Wakeup latencies by range, and their percentiles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    counts: [u64; ENDS.len() + 1],
    all: Histogram<5>,
    known: Option<LatencySummary>,
}

/// A row of the chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// Upper bound; `None` for the last range, which has none.
    pub end: Option<Nanos>,
    pub count: u64,
}

impl Latencies {
    /// Creates latencies from a histogram counted elsewhere, as (representative value, count) pairs, with its
    /// summary.
    pub fn of(buckets: &[(Nanos, u64)], summary: LatencySummary) -> Latencies {
        let mut latencies = Latencies { known: Some(summary), ..Latencies::default() };
        buckets.iter().for_each(|&(latency, times)| latencies.count(latency, times));
        latencies
    }

    /// Adds a latency.
    pub fn record(&mut self, latency: Nanos) {
        self.count(latency, 1);
        self.all.record(latency);
    }

    fn count(&mut self, latency: Nanos, times: u64) {
        self.counts[ENDS.partition_point(|&end| end < latency.0)] += times;
    }

    /// Returns the sum of both.
    pub(crate) fn merged(&self, other: &Latencies) -> Latencies {
        let mut merged = self.clone();
        merged.counts.iter_mut().zip(&other.counts).for_each(|(own, others)| *own += others);
        merged.all.add(&other.all);
        merged
    }

    /// Count and percentiles of the recorded latencies.
    pub fn summary(&self) -> LatencySummary {
        self.known.unwrap_or_else(|| self.all.summary())
    }

    /// Returns at most `rows` ranges: fine ones if all fit, else coarse ones. If these do not fit either, empty
    /// ranges at the end are dropped, then the shortest ones.
    pub(crate) fn ranges(&self, rows: usize) -> Vec<Range> {
        let step = if rows > ENDS.len() { 1 } else { 3 };
        let mut ranges: Vec<Range> = Vec::new();
        for (chunk, ends) in ENDS.iter().step_by(step).enumerate() {
            let first = if chunk == 0 { 0 } else { (chunk - 1) * step + 1 };
            let count = self.counts[first..=chunk * step].iter().sum();
            ranges.push(Range { end: Some(Nanos(*ends)), count });
        }
        ranges.push(Range { end: None, count: self.counts[ENDS.len()] });
        while ranges.len() > rows && ranges.last().is_some_and(|last| last.count == 0) {
            ranges.pop();
        }
        // Drops the shortest ranges.
        ranges.split_off(ranges.len().saturating_sub(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_in_one_range_for_any_number_of_rows() {
        let mut latencies = Latencies::default();
        let latencies_ns =
            [0, 999, 1_000, 1_001, 9_999, 10_000, 10_001, 5_000_000, 10_000_000_000, 10_000_000_001, 1 << 40];
        latencies_ns.iter().for_each(|&latency| latencies.record(Nanos(latency)));
        for rows in [9, 12, 23, 40] {
            let ranges = latencies.ranges(rows);
            assert!(ranges.len() <= rows, "{rows}");
            let mut least = 0;
            for Range { end, count } in ranges {
                let most = end.map_or(u64::MAX, |end| end.0);
                let within =
                    latencies_ns.iter().filter(|&&latency| latency <= most && (latency > least || least == 0)).count();
                assert_eq!(count, within as u64, "{rows} rows, up to {most}");
                least = most;
            }
        }
        assert_eq!(ENDS[..4], [1_000, 2_000, 5_000, 10_000]);
        assert_eq!(ENDS[21], 10_000_000_000);
    }

    #[test]
    fn few_rows_show_the_longest_latencies() {
        let mut latencies = Latencies::default();
        latencies.record(Nanos(500));
        latencies.record(Nanos(50_000));
        let ends: Vec<_> = latencies.ranges(2).iter().map(|range| range.end.unwrap().0).collect();
        assert_eq!(ends, [10_000, 100_000]);
        assert!(latencies.ranges(0).is_empty());
    }
}
