// SPDX-License-Identifier: GPL-2.0-only
//! Unpaired test: Wilcoxon rank sums (Mann-Whitney U) under label permutations.

use crate::Row;
use crate::family::{Judged, SAMPLE, SplitMix64, difference, doubled_ranks, exceeds, limit, marked, rejected_below};
use crate::paired::middle;

/// Doubled ranks of all values of a row (a first), minus their mean; and the sum of their squares.
struct Ranked {
    ranks: Vec<i64>,
    squares: f64,
}

impl Ranked {
    fn of(row: &Row) -> Ranked {
        // Only the order matters; values above 2^63 ns would be 292 years.
        let values: Vec<i64> = row.a.iter().chain(&row.b).map(|&value| value.min(i64::MAX as u64) as i64).collect();
        let mean = values.len() as i64 + 1;
        let ranks: Vec<i64> = doubled_ranks(&values).iter().map(|rank| rank - mean).collect();
        let squares = ranks.iter().map(|rank| (rank * rank) as f64).sum();
        Ranked { ranks, squares }
    }

    fn statistic(&self, b: impl Iterator<Item = usize>) -> f64 {
        let sum: i64 = b.map(|index| self.ranks[index]).sum();
        if self.squares == 0.0 { 0.0 } else { (sum * sum) as f64 / self.squares }
    }
}

pub(crate) fn judge(rows: &[Row], level: f64) -> Vec<Judged> {
    let (first, all) = (rows[0].a.len(), rows[0].a.len() + rows[0].b.len());
    let ranked: Vec<Ranked> = rows.iter().map(Ranked::of).collect();
    let family = marked(rows, &ranked);
    let largest = |b: &[usize]| family.iter().map(|row| row.statistic(b.iter().copied())).fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..all).collect();
    let mut reached = vec![largest(&order[first..])];
    let mut draw = SplitMix64((first * all) as u64);
    for _ in 1..SAMPLE {
        (1..all).rev().for_each(|last| order.swap(last, draw.below(last + 1)));
        reached.push(largest(&order[first..]));
    }
    let limit = limit(reached, level);
    let judged = |(row, ranked): (&Row, &Ranked)| {
        let differences = doubled_differences(row);
        Judged {
            estimate: middle(&differences),
            ends: limit.and_then(|limit| ends(&differences, all, limit)),
            limit,
            rejected: limit.is_some_and(|limit| exceeds(ranked.statistic(first..all), limit)),
        }
    };
    rows.iter().zip(&ranked).map(judged).collect()
}

/// Sorted differences of each b against each a.
fn doubled_differences(row: &Row) -> Vec<i64> {
    let of = |&a: &u64| row.b.iter().map(move |&b| 2 * difference(a, b));
    let mut differences: Vec<i64> = row.a.iter().flat_map(of).collect();
    differences.sort_unstable();
    differences
}

/// Ends of the interval of shifts that are not rejected. With U of n m differences below the shift, the centered rank
/// sum of b is n m - 2 U.
fn ends(differences: &[i64], runs: usize, limit: f64) -> Option<(i64, i64)> {
    let n = runs as f64;
    let squares = n * (n * n - 1.0) / 3.0;
    let below = rejected_below(differences.len(), (limit * squares).sqrt())?;
    Some((differences[below], differences[differences.len() - 1 - below]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    /// Published two-sided 5 % critical values of U, without those whose probability is too close to 5 % for sampled
    /// permutations.
    #[test]
    fn mann_whitney_u_matches_published_critical_values() {
        for (a, b, critical) in [(4, 4, 0), (5, 5, 2), (6, 6, 5), (7, 9, 12), (10, 10, 23), (12, 12, 37)] {
            let row = Row {
                a: (0..a).map(|i| 1000 + i).collect(),
                b: (0..b).map(|i| 2000 + i).collect(),
                direction: Direction::LowerIsBetter,
            };
            let all = (a + b) as usize;
            let averages: Vec<i64> = (0..(a * b) as i64).collect();
            let ranked = Ranked::of(&row);
            let mut order: Vec<usize> = (0..all).collect();
            let mut draw = SplitMix64(1);
            let mut reached = Vec::new();
            for _ in 0..SAMPLE {
                (1..all).rev().for_each(|last| order.swap(last, draw.below(last + 1)));
                reached.push(ranked.statistic(order[a as usize..].iter().copied()));
            }
            let limit = limit(reached, 0.05).unwrap();
            assert_eq!(ends(&averages, all, limit).unwrap().0, critical, "{a} against {b}");
        }
    }

    #[test]
    fn clear_difference_is_significant_and_interleaved_values_are_not() {
        let judged = |b: &[u64]| {
            judge(&[Row { a: (100..110).collect(), b: b.to_vec(), direction: Direction::LowerIsBetter }], 0.05)[0]
        };
        let far = judged(&(120..130).collect::<Vec<_>>());
        assert!(far.rejected && far.ends.is_some_and(|(low, _)| low > 0));
        assert!(!judged(&[99, 101, 102, 103, 104, 105, 106, 107, 108, 111]).rejected);
        let few = judge(&[Row { a: vec![1], b: vec![9], direction: Direction::LowerIsBetter }], 0.05)[0];
        assert!(!few.rejected && few.ends.is_none(), "one run per setup is never significant");
    }
}
