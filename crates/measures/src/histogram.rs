// SPDX-License-Identifier: GPL-2.0-only
//! Log-linear histogram: each power of two is divided into the same number of equal buckets.
//!
//! The buckets of an octave are allocated with its first value. A task's latencies span a handful of octaves, so its
//! histogram takes 1 or 2 KB; a table over the whole range (2 digits, up to seconds) would take 12 KB, which for 2048
//! tasks exceeds all other data of a run.

use crate::LatencySummary;
use ids::Nanos;

/// Histogram with `1 << BITS` buckets per octave: the error of a percentile is at most `0.5 / (1 << BITS)` of its
/// value.
///
/// Count, sum, minimum and maximum are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<const BITS: u32> {
    octaves: Vec<Box<[u32]>>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl<const BITS: u32> Default for Histogram<BITS> {
    fn default() -> Self {
        Histogram { octaves: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl<const BITS: u32> Histogram<BITS> {
    /// Buckets per octave.
    const BUCKETS: usize = 1 << BITS;

    /// Creates an empty histogram; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        let (octave, bucket) = Self::place(value.0);
        self.count += 1;
        self.sum += value.0;
        self.min = self.min.min(value.0);
        self.max = self.max.max(value.0);
        match self.octaves.get_mut(octave) {
            // 2^32 values in one bucket are an hour of wakeups every microsecond. Beyond that the bucket saturates;
            // the total count stays exact.
            Some(counters) if !counters.is_empty() => counters[bucket] = counters[bucket].saturating_add(1),
            _ => self.record_in_new_octave(octave, bucket),
        }
    }

    /// Adds all values of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if self.octaves.len() < other.octaves.len() {
            self.octaves.resize(other.octaves.len(), Box::default());
        }
        for (own, others) in self.octaves.iter_mut().zip(&other.octaves) {
            if own.is_empty() {
                own.clone_from(others);
            } else {
                own.iter_mut().zip(others).for_each(|(own, other)| *own = own.saturating_add(*other));
            }
        }
    }

    /// Converts to wider buckets; count, sum, minimum and maximum stay exact.
    ///
    /// # Panics
    /// If the new buckets would be narrower.
    pub fn coarsened<const TO: u32>(&self) -> Histogram<TO> {
        assert!(TO <= BITS, "buckets cannot become narrower");
        let mut coarse =
            Histogram { octaves: Vec::new(), count: self.count, sum: self.sum, min: self.min, max: self.max };
        for (low, _, count) in self.buckets() {
            let (octave, bucket) = Histogram::<TO>::place(low.0);
            let counter = coarse.counter(octave, bucket);
            *counter = counter.saturating_add(count);
        }
        coarse
    }

    /// The buckets that hold values, in ascending order: first value, last value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, Nanos, u32)> + '_ {
        let counters = self.octaves.iter().map(|counters| counters.iter().copied().enumerate()).enumerate();
        let all = counters.flat_map(|(octave, counters)| counters.map(move |(bucket, count)| (octave, bucket, count)));
        all.filter(|(.., count)| *count > 0).map(|(octave, bucket, count)| {
            let (low, width) = Self::range(octave, bucket);
            (Nanos(low), Nanos(low + (width - 1)), count)
        })
    }

    #[cold]
    fn record_in_new_octave(&mut self, octave: usize, bucket: usize) {
        *self.counter(octave, bucket) = 1;
    }

    /// Counter of a bucket, allocated if necessary.
    fn counter(&mut self, octave: usize, bucket: usize) -> &mut u32 {
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, Box::default());
        }
        let counters = &mut self.octaves[octave];
        if counters.is_empty() {
            *counters = vec![0; Self::BUCKETS].into_boxed_slice();
        }
        &mut counters[bucket]
    }

    /// Octave and bucket of a value. Octave 0 holds the values below `BUCKETS`, one per bucket; octave n holds those
    /// from `BUCKETS << (n - 1)` to below `BUCKETS << n`.
    #[inline]
    fn place(value: u64) -> (usize, usize) {
        let shift = (64 - BITS).saturating_sub(value.leading_zeros());
        let octave = shift as usize;
        (octave, (value >> shift.saturating_sub(1)) as usize & (Self::BUCKETS - 1))
    }

    /// Smallest value of a bucket, and number of distinct values it holds.
    fn range(octave: usize, bucket: usize) -> (u64, u64) {
        match octave {
            0 => (bucket as u64, 1),
            _ => {
                let width_shift = octave as u32 - 1;
                ((Self::BUCKETS as u64 + bucket as u64) << width_shift, 1 << width_shift)
            }
        }
    }

    /// Middle of a bucket.
    fn middle(octave: usize, bucket: usize) -> u64 {
        let (low, width) = Self::range(octave, bucket);
        low + width / 2
    }

    /// Minimum; 0 if empty.
    pub fn min(&self) -> Nanos {
        Nanos(if self.count > 0 { self.min } else { 0 })
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest value that at least `permille` thousandths of all values do not exceed, to the accuracy of a bucket;
    /// 0 if empty.
    pub fn percentile(&self, permille: u64) -> Nanos {
        let rank = (self.count * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (octave, counters) in self.octaves.iter().enumerate() {
            for (bucket, &counter) in counters.iter().enumerate() {
                seen += u64::from(counter);
                if seen >= rank {
                    return Nanos(Self::middle(octave, bucket).clamp(self.min, self.max));
                }
            }
        }
        Nanos(self.max)
    }

    /// Count, mean, percentiles and maximum.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count,
            mean: Nanos(self.sum.checked_div(self.count).unwrap_or(0)),
            p50: self.percentile(500),
            p90: self.percentile(900),
            p99: self.percentile(990),
            p999: self.percentile(999),
            max: Nanos(self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference: percentile of a sorted list.
    fn naive(sorted: &[u64], permille: u64) -> u64 {
        let rank = (sorted.len() as u64 * permille).div_ceil(1000).max(1);
        sorted[rank as usize - 1]
    }

    fn check<const BITS: u32>(values: &[u64]) {
        let mut histogram = Histogram::<BITS>::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let summary = histogram.summary();
        assert_eq!(summary.count, values.len() as u64);
        assert_eq!(summary.mean.0, values.iter().sum::<u64>() / values.len() as u64);
        assert_eq!(summary.max.0, *sorted.last().unwrap());
        for (permille, got) in [(500, summary.p50), (900, summary.p90), (990, summary.p99), (999, summary.p999)] {
            let want = naive(&sorted, permille);
            let off = got.0.abs_diff(want);
            assert!(off <= want >> (BITS + 1), "{permille}: got {got}, expected {want}");
        }
    }

    proptest! {
        #[test]
        fn histogram_percentiles_match_naive(values in prop::collection::vec((0u64..50, any::<u16>()).prop_map(|(shift, low)| (1 << shift) + u64::from(low) - 1), 1..200)) {
            check::<6>(&values);
            check::<10>(&values);
        }
    }

    #[test]
    fn small_values_are_exact_and_empty_histogram_returns_zero() {
        assert_eq!(Histogram::<6>::new().summary(), LatencySummary::default());
        for value in 0..128 {
            let mut histogram = Histogram::<6>::new();
            histogram.record(Nanos(value));
            assert_eq!(histogram.percentile(500), Nanos(value));
        }
    }

    proptest! {
        #[test]
        fn coarsened_histogram_equals_one_recorded_coarsely(values in prop::collection::vec(any::<u64>(), 0..100)) {
            // The sum of a hundred such values fits into 64 bits.
            let (mut fine, mut coarse) = (Histogram::<10>::new(), Histogram::<3>::new());
            for value in values.iter().map(|value| Nanos(value >> (8 + value % 50))) {
                fine.record(value);
                coarse.record(value);
            }
            // The wide bucket of a value is that which contains its narrow bucket.
            prop_assert_eq!(&fine.coarsened::<3>(), &coarse);
            let counted: u64 = coarse.buckets().map(|(_, _, count)| u64::from(count)).sum();
            prop_assert_eq!(counted, coarse.count());
            let ends: Vec<u64> = coarse.buckets().flat_map(|(low, high, _)| [low.0, high.0]).collect();
            prop_assert!(ends.is_sorted());
        }
    }

    #[test]
    fn buckets_report_their_first_and_last_value() {
        let mut histogram = Histogram::<3>::new();
        [7, 8, 16, 17, 17, 1023].into_iter().for_each(|value| histogram.record(Nanos(value)));
        let buckets: Vec<_> = histogram.buckets().map(|(low, high, count)| (low.0, high.0, count)).collect();
        assert_eq!(buckets, [(7, 7, 1), (8, 8, 1), (16, 17, 3), (960, 1023, 1)]);
    }

    #[test]
    fn largest_value_can_be_recorded() {
        let mut histogram = Histogram::<10>::new();
        histogram.record(Nanos(u64::MAX));
        assert_eq!(histogram.percentile(1000), Nanos(u64::MAX));
    }

    proptest! {
        #[test]
        fn sum_of_partial_histograms_equals_the_whole(values in prop::collection::vec(any::<u32>(), 0..200), cut in 0..200usize) {
            let of = |values: &[u32]| {
                let mut histogram = Histogram::<6>::new();
                values.iter().for_each(|&value| histogram.record(Nanos(value.into())));
                histogram
            };
            let (first, second) = values.split_at(cut.min(values.len()));
            let mut sum = of(first);
            sum.add(&of(second));
            prop_assert_eq!(sum.summary(), of(&values).summary());
        }
    }
}
