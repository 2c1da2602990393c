// SPDX-License-Identifier: GPL-2.0-only
//! Paired test: Wilcoxon signed ranks under sign flips, jointly for several rows or exactly for one.

use crate::Row;
use crate::family::{Judged, SAMPLE, SplitMix64, difference, doubled_ranks, exceeds, limit, marked, rejected_below};

/// Up to this number of pairs all sign combinations are enumerated: half a million, the other half being mirror
/// images.
const ALL: usize = 20;

/// Signed ranks of a row's differences, and the sum of their squares.
struct Signed {
    ranks: Vec<i64>,
    squares: f64,
}

impl Signed {
    /// Zero differences are ranked but have no sign (Pratt 1959).
    fn of(differences: &[i64]) -> Signed {
        let sizes: Vec<i64> = differences.iter().map(|difference| difference.abs()).collect();
        let ranks: Vec<i64> = doubled_ranks(&sizes)
            .iter()
            .zip(differences)
            .map(|(rank, difference)| rank * difference.signum())
            .collect();
        let squares = ranks.iter().map(|rank| (rank * rank) as f64).sum();
        Signed { ranks, squares }
    }

    /// Squared rank sum in units of its variance under the null hypothesis.
    fn statistic(&self, sum: i64) -> f64 {
        if self.squares == 0.0 { 0.0 } else { (sum * sum) as f64 / self.squares }
    }
}

pub(crate) fn judge(rows: &[Row], level: f64) -> Vec<Judged> {
    let differences = |row: &Row| row.a.iter().zip(&row.b).map(|(&a, &b)| difference(a, b)).collect();
    let differences: Vec<Vec<i64>> = rows.iter().map(differences).collect();
    let signed: Vec<Signed> = differences.iter().map(|row| Signed::of(row)).collect();
    let family = marked(rows, &signed);
    let limit = limit(largest(&family, rows[0].a.len()), level);
    let judged = |(differences, signed): (&Vec<i64>, &Signed)| {
        let reached = signed.statistic(signed.ranks.iter().sum());
        let averages = doubled_walsh_averages(differences);
        Judged {
            estimate: middle(&averages),
            ends: limit.and_then(|limit| ends(&averages, differences.len(), limit)),
            limit,
            rejected: limit.is_some_and(|limit| exceeds(reached, limit)),
        }
    };
    differences.iter().zip(&signed).map(judged).collect()
}

/// Tests a single row. The distribution of its rank sum over all combinations of signs is exact for any number of pairs,
/// so that the level may be as small as many comparisons make it.
pub(crate) fn judge_one(row: &Row, level: f64) -> Judged {
    let differences: Vec<i64> = row.a.iter().zip(&row.b).map(|(&a, &b)| difference(a, b)).collect();
    let signed = Signed::of(&differences);
    let limit = exact_limit(&signed, level);
    let averages = doubled_walsh_averages(&differences);
    Judged {
        estimate: middle(&averages),
        ends: limit.and_then(|limit| ends(&averages, differences.len(), limit)),
        limit,
        rejected: limit.is_some_and(|limit| exceeds(signed.statistic(signed.ranks.iter().sum()), limit)),
    }
}

/// Critical value of one row's statistic: at most a fraction `level` of all combinations of signs exceeds it. `None` if
/// none does.
fn exact_limit(signed: &Signed, level: f64) -> Option<f64> {
    let sizes: Vec<usize> = signed.ranks.iter().map(|rank| rank.unsigned_abs() as usize).collect();
    let total: usize = sizes.iter().sum();
    // Probability that the ranks with a positive sign sum up to each value, rank by rank.
    let (mut chances, mut reached) = (vec![0.0; total + 1], 0);
    chances[0] = 1.0;
    for size in sizes.into_iter().filter(|&size| size > 0) {
        reached += size;
        for sum in (0..=reached).rev() {
            chances[sum] = (chances[sum] + if sum >= size { chances[sum - size] } else { 0.0 }) / 2.0;
        }
    }
    // A positive sum p gives the rank sum 2 p - total. From the most extreme sums inwards, which come in pairs.
    let (mut beyond, mut least) = (0.0, None);
    for sum in 0..=total / 2 {
        let both = chances[sum] + if 2 * sum == total { 0.0 } else { chances[total - sum] };
        if both > 0.0 && beyond + both > level {
            return least.map(|_: usize| signed.statistic((total - 2 * sum) as i64));
        }
        if both > 0.0 {
            (beyond, least) = (beyond + both, Some(sum));
        }
    }
    None
}

/// Largest statistic over all rows, for each sign combination. The last sign stays fixed, which covers half of the
/// combinations; the other half is symmetric.
fn largest(family: &[&Signed], pairs: usize) -> Vec<f64> {
    let mut sums: Vec<i64> = family.iter().map(|row| row.ranks.iter().sum()).collect();
    let largest = |sums: &[i64]| family.iter().zip(sums).map(|(row, &sum)| row.statistic(sum)).fold(0.0, f64::max);
    let mut all = vec![largest(&sums)];
    if pairs <= ALL {
        // A Gray code changes one sign at a time.
        let mut flipped = 0u64;
        for step in 1..1u64 << (pairs - 1) {
            let pair = step.trailing_zeros() as usize;
            flipped ^= 1 << pair;
            let sign = if flipped >> pair & 1 == 1 { -2 } else { 2 };
            family.iter().zip(&mut sums).for_each(|(row, sum)| *sum += sign * row.ranks[pair]);
            all.push(largest(&sums));
        }
    } else {
        let mut draw = SplitMix64(pairs as u64);
        for _ in 1..SAMPLE {
            let signs: Vec<i64> = (0..pairs).map(|_| 1 - 2 * (draw.next() >> 63) as i64).collect();
            let flip = |row: &&Signed| row.ranks.iter().zip(&signs).map(|(rank, sign)| rank * sign).sum();
            all.push(largest(&family.iter().map(flip).collect::<Vec<i64>>()));
        }
    }
    all
}

/// Sorted sums of all pairs of differences, each with itself included (doubled Walsh averages).
fn doubled_walsh_averages(differences: &[i64]) -> Vec<i64> {
    let of = |(index, &one): (usize, &i64)| differences[index..].iter().map(move |other| one + other);
    let mut averages: Vec<i64> = differences.iter().enumerate().flat_map(of).collect();
    averages.sort_unstable();
    averages
}

pub(crate) fn middle(sorted: &[i64]) -> i64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2 }
}

/// Ends of the interval of shifts that are not rejected. With n pairs, M = n (n + 1) / 2 averages and doubled ranks,
/// the signed-rank sum is 2 (M - 2 T), where T is the number of averages below the shift; the shift is rejected if
/// the sum exceeds the limit.
fn ends(averages: &[i64], pairs: usize, limit: f64) -> Option<(i64, i64)> {
    let n = pairs as f64;
    let squares = 4.0 * n * (n + 1.0) * (2.0 * n + 1.0) / 6.0;
    let below = rejected_below(averages.len(), (limit * squares).sqrt() / 2.0)?;
    Some((averages[below], averages[averages.len() - 1 - below]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use proptest::prelude::*;

    fn differences_from(count: usize) -> Vec<i64> {
        (1..=count as i64).collect()
    }

    /// Published two-sided 5 % critical values of Wilcoxon's T.
    #[test]
    fn wilcoxon_t_matches_published_critical_values() {
        for (pairs, critical) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (14, 21), (16, 29), (20, 52)] {
            let row = Signed::of(&differences_from(pairs));
            let limit = limit(largest(&[&row], pairs), 0.05).unwrap();
            let sum = |below: i64| 2 * ((pairs * (pairs + 1) / 2) as i64 - 2 * below);
            assert!(exceeds(row.statistic(sum(critical)), limit), "{pairs}");
            assert!(!exceeds(row.statistic(sum(critical + 1)), limit), "{pairs}");
            let averages: Vec<i64> = (0..(pairs * (pairs + 1) / 2) as i64).collect();
            assert_eq!(ends(&averages, pairs, limit).unwrap().0, critical, "{pairs}");
        }
        let row = Signed::of(&differences_from(5));
        assert_eq!(limit(largest(&[&row], 5), 0.05), None, "five pairs are never significant");
    }

    /// Both rows have their smallest difference in the seventh pair, so the same two sign combinations are extreme
    /// for both. The first row is not the most extreme one but still significant.
    #[test]
    fn row_can_be_significant_without_being_the_most_extreme() {
        let row = |a: [u64; 7], b: [u64; 7]| Row { a: a.to_vec(), b: b.to_vec(), direction: Direction::LowerIsBetter };
        let first = row([1, 1, 1, 1, 1, 1, 95], [10, 11, 12, 13, 14, 15, 10]);
        let second = row([38, 8, 92, 12, 64, 54, 43], [1, 1, 1, 1, 1, 1, 6]);
        let judged = judge(&[first, second], 0.05);
        assert!(judged.iter().all(|judged| judged.rejected && judged.ends.is_some()), "{judged:?}");
        assert!(judged[0].ends.unwrap().0 > 0 && judged[1].ends.unwrap().1 < 0, "{judged:?}");
    }

    /// Enumerates all sign combinations and returns the fraction whose largest statistic reaches that of the first
    /// row.
    fn naive_share(rows: &[Signed]) -> f64 {
        let pairs = rows[0].ranks.len();
        let sums = |signs: u32| {
            let sum = |row: &Signed| {
                let part = |(pair, rank): (usize, &i64)| if signs >> pair & 1 == 1 { -rank } else { *rank };
                row.statistic(row.ranks.iter().enumerate().map(part).sum())
            };
            rows.iter().map(sum).fold(0.0, f64::max)
        };
        let reached = rows[0].statistic(rows[0].ranks.iter().sum());
        let all = 1u32 << pairs;
        (0..all).filter(|&signs| sums(signs) >= reached * (1.0 - 1e-12)).count() as f64 / f64::from(all)
    }

    proptest! {
        /// With one row both tests are the same, whatever ties there are.
        #[test]
        fn exact_test_of_one_row_agrees_with_enumeration(
            values in prop::collection::vec((1u64..30, 1u64..30), 1..13),
            level in 0.0005f64..0.2,
        ) {
            let (a, b) = values.into_iter().unzip();
            let row = Row { a, b, direction: Direction::LowerIsBetter };
            let (one, all) = (judge_one(&row, level), judge(std::slice::from_ref(&row), level)[0]);
            prop_assert_eq!((one.rejected, one.ends, one.estimate), (all.rejected, all.ends, all.estimate));
        }

        #[test]
        fn row_is_rejected_if_at_most_5_percent_of_sign_flips_reach_it(
            values in prop::collection::vec(prop::array::uniform4(1u64..100), 6..10),
            shift in 0u64..60,
        ) {
            let row = |first: usize, shift: u64| {
                let (a, b) = values.iter().map(|four| (four[first], four[first + 1] + shift)).unzip();
                Row { a, b, direction: Direction::LowerIsBetter }
            };
            let rows = [row(0, shift), row(2, 0)];
            let judged = judge(&rows, 0.05);
            let signed = rows.each_ref().map(|row| {
                Signed::of(&row.a.iter().zip(&row.b).map(|(&a, &b)| difference(a, b)).collect::<Vec<_>>())
            });
            prop_assert_eq!(judged[0].rejected, naive_share(&signed) <= 0.05);
        }

        /// Without ties, interval and test are equivalent.
        #[test]
        fn interval_excludes_zero_exactly_if_the_test_rejects(
            raw in prop::collection::vec(-1_000_000i64..1_000_000, 6..17),
            shift in -500_000i64..500_000,
        ) {
            let mut sizes: Vec<i64> = raw.iter().map(|one| (one + shift).abs()).collect();
            sizes.sort_unstable();
            sizes.dedup();
            prop_assume!(sizes.len() == raw.len() && sizes[0] > 0);
            // With values this close, d is the sum in units of 1e-9 up to rounding.
            let row = Row {
                a: vec![1_000_000_000; raw.len()],
                b: raw.iter().map(|one| (1_000_000_000 + one + shift) as u64).collect(),
                direction: Direction::LowerIsBetter,
            };
            let judged = judge(&[row], 0.05)[0];
            let excluded = judged.ends.is_some_and(|(low, high)| low > 0 || high < 0);
            prop_assert_eq!(judged.rejected, excluded);
        }
    }
}
