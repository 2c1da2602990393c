// SPDX-License-Identifier: GPL-2.0-only
//! How long woken tasks waited, in ranges that people read easily.

use ids::Nanos;
use measures::{Histogram, LatencySummary};

/// Upper ends of the ranges: 1, 2 and 5 times the powers of ten from 1 us to 10 s.
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

/// Waits by range, and their percentiles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    counts: [u64; ENDS.len() + 1],
    all: Histogram<5>,
    known: Option<LatencySummary>,
}

/// A row of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// The longest wait in it; `None`: all that are longer than those before.
    pub end: Option<Nanos>,
    pub count: u64,
}

impl Latencies {
    /// Waits of which somebody else has counted how many are of about which length.
    pub fn of(buckets: &[(Nanos, u64)], summary: LatencySummary) -> Latencies {
        let mut latencies = Latencies { known: Some(summary), ..Latencies::default() };
        buckets.iter().for_each(|&(wait, times)| latencies.count(wait, times));
        latencies
    }

    /// Adds a wait.
    pub fn record(&mut self, wait: Nanos) {
        self.count(wait, 1);
        self.all.record(wait);
    }

    fn count(&mut self, wait: Nanos, times: u64) {
        self.counts[ENDS.partition_point(|&end| end < wait.0)] += times;
    }

    /// Both together.
    pub(crate) fn joined(&self, other: &Latencies) -> Latencies {
        let mut joined = self.clone();
        joined.counts.iter_mut().zip(&other.counts).for_each(|(own, others)| *own += others);
        joined.all.add(&other.all);
        joined
    }

    /// Count and percentiles of what was recorded.
    pub fn summary(&self) -> LatencySummary {
        self.known.unwrap_or_else(|| self.all.summary())
    }

    /// At most `rows` rows: finer ranges if they fit, and only those up to the longest wait if nothing else does.
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
        // What is left out then are the shortest.
        ranges.split_off(ranges.len().saturating_sub(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_in_one_range_whatever_the_number_of_rows() {
        let mut latencies = Latencies::default();
        let waits = [0, 999, 1_000, 1_001, 9_999, 10_000, 10_001, 5_000_000, 10_000_000_000, 10_000_000_001, 1 << 40];
        waits.iter().for_each(|&wait| latencies.record(Nanos(wait)));
        for rows in [9, 12, 23, 40] {
            let ranges = latencies.ranges(rows);
            assert!(ranges.len() <= rows, "{rows}");
            let mut least = 0;
            for Range { end, count } in ranges {
                let most = end.map_or(u64::MAX, |end| end.0);
                let within = waits.iter().filter(|&&wait| wait <= most && (wait > least || least == 0)).count();
                assert_eq!(count, within as u64, "{rows} rows, up to {most}");
                least = most;
            }
        }
        assert_eq!(ENDS[..4], [1_000, 2_000, 5_000, 10_000]);
        assert_eq!(ENDS[21], 10_000_000_000);
    }

    #[test]
    fn few_rows_show_the_longest_waits() {
        let mut latencies = Latencies::default();
        latencies.record(Nanos(500));
        latencies.record(Nanos(50_000));
        let ends: Vec<_> = latencies.ranges(2).iter().map(|range| range.end.unwrap().0).collect();
        assert_eq!(ends, [10_000, 100_000]);
        assert!(latencies.ranges(0).is_empty());
    }
}
