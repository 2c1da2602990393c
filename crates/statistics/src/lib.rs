// SPDX-License-Identifier: GPL-2.0-only
//! Statistical comparison of repeated runs of two setups.
//!
//! 1. The difference of two values is `d = 2 (b - a) / (a + b)`. Unlike a percentage, it only changes its sign if a
//!    and b are exchanged; it orders pairs as their ratio does. Results are nevertheless given as percentages of a.
//! 2. Runs with the same seed are pairs. Under the null hypothesis a and b of a pair are exchangeable, so all sign
//!    combinations of the n differences are equally likely (Fisher's sign-flip test: all 2^n combinations, or a fixed
//!    random sample). For runs without common seeds, all labels are permuted (permutation test).
//! 3. The test statistic is Wilcoxon's: it uses ranks of the differences, so that one outlier cannot decide. The
//!    confidence interval consists of the shifts that the test would not reject (Hodges and Lehmann 1963; Hollander
//!    and Wolfe, chapters 3 and 4).
//! 4. A table has many rows, and some row always looks unusual by chance. Therefore the critical value is that of the
//!    maximum statistic over all rows (Westfall and Young 1993, single step). Correlated rows, such as mean and
//!    median of a latency, cost nothing. For two setups that do not differ, the probability of any significant row in
//!    a table is at most 5 %.
//! 5. If several setups are compared with the first one, each comparison gets its share of the 5 % (Bonferroni).
//! 6. A search for the best of many setups compares pairs of them that the results select, so its level is divided by
//!    the number of all pairs ([`Halving`]).
//!
//! No existing crate combines 3 and 4. Only integers and `+ - × ÷ √` are used, so results are identical on every
//! host.

mod family;
mod halving;
mod paired;
mod unpaired;

pub use family::{Direction, Family, Interval, Row, Verdict, compare, fewest_runs, median, median_interval};
pub use halving::{Fate, Halving, Rank, Standing};

/// Confidence level of a whole table, in parts per million.
pub const LEVEL_PPM: u64 = 950_000;

/// Equivalence margin, 1 %, in parts per million; the same margin is used for comparisons over uncertain machine
/// constants.
pub const SAME_PPM: i64 = 10_000;

/// Smallest difference shown in a table: 0.1 %, in parts per million.
pub const VISIBLE_PPM: i64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{SplitMix64, difference, rejected_below, to_ppm};

    /// Approximately standard normal sample: the sum of twelve uniform samples minus 6.
    fn normal(draw: &mut SplitMix64) -> f64 {
        (0..12).map(|_| (draw.next() >> 40) as f64 / (1u64 << 24) as f64).sum::<f64>() - 6.0
    }

    /// Table of 16 runs per setup with ten correlated measures (standard deviation 2 %); `shift` is added to all
    /// values of b.
    fn table(draw: &mut SplitMix64, shift: f64) -> Vec<Row> {
        let mut side = |shift: f64| -> Vec<Vec<u64>> {
            let mut runs = Vec::new();
            for _ in 0..16 {
                let common = normal(draw);
                let value = |own: f64| (1e6 * (1.0 + shift + 0.02 * (0.7 * common + 0.7 * own))) as u64;
                runs.push((0..10).map(|_| value(normal(draw))).collect());
            }
            runs
        };
        let (a, b): (Vec<Vec<u64>>, Vec<Vec<u64>>) = (side(0.0), side(shift));
        let column = |runs: &[Vec<u64>], row: usize| runs.iter().map(|run| run[row]).collect();
        (0..10).map(|row| Row { a: column(&a, row), b: column(&b, row), direction: Direction::LowerIsBetter }).collect()
    }

    fn share(tables: u64, shift: f64, paired: bool, hit: impl Fn(&[Interval]) -> bool) -> u64 {
        let mut draw = SplitMix64(7);
        let family = Family { paired, comparisons: 1 };
        (0..tables).filter(|_| hit(&compare(&table(&mut draw, shift), family))).count() as u64 * 1000 / tables
    }

    fn any_significant(rows: &[Interval]) -> bool {
        rows.iter().any(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
    }

    /// 5 % of 200 tables is 10; 20 would occur once in 500 times. Without step 4 of the method the rate would be 30
    /// %.
    #[test]
    fn equal_setups_rarely_differ_significantly() {
        let unpaired = share(60, 0.0, false, any_significant);
        let paired = share(200, 0.0, true, any_significant);
        assert!(paired <= 100 && unpaired <= 150, "{paired} and {unpaired} of 1000 tables");
    }

    #[test]
    fn shift_of_two_standard_deviations_is_significant() {
        let worse = |rows: &[Interval]| rows[0].verdict == Verdict::Worse && rows[0].low_ppm.unwrap() > 0;
        assert!(share(50, 0.04, true, worse) >= 950);
        assert!(share(20, 0.04, false, worse) >= 950);
    }

    /// Checks the minimum detectable difference of one table on another table of the same kind: it must be found in
    /// about 19 of 20 cases if differences are normal or clustered (two clusters 4 % apart). With outliers (one in
    /// ten is five times as wide) the width of one table predicts less: 17 of 20.
    #[test]
    fn minimum_detectable_difference_of_one_table_is_found_in_another() {
        let wide = |draw: &mut SplitMix64| normal(draw) * if draw.below(10) == 0 { 5.0 } else { 1.0 };
        let clusters = |draw: &mut SplitMix64| normal(draw) * 0.2 + if draw.below(2) == 0 { -1.0 } else { 1.0 };
        type Kind<'a> = (&'a dyn Fn(&mut SplitMix64) -> f64, usize);
        let kinds: [Kind<'_>; 3] = [(&normal, 180), (&wide, 155), (&clusters, 180)];
        for (number, (kind, least)) in kinds.into_iter().enumerate() {
            let mut draw = SplitMix64(11);
            let mut rows = |shift: f64| {
                let mut pair = || {
                    let a = 1e6 * (1.0 + 0.05 * normal(&mut draw));
                    (a as u64, (a * (1.0 + shift + 0.02 * kind(&mut draw))) as u64)
                };
                let mut row = || {
                    let (a, b) = (0..16).map(|_| pair()).unzip();
                    Row { a, b, direction: Direction::LowerIsBetter }
                };
                let rows: Vec<Row> = (0..5).map(|_| row()).collect();
                compare(&rows, Family { paired: true, comparisons: 1 })[0]
            };
            let detected = |_: &u32| {
                let tellable = rows(0.0).tellable_ppm.unwrap();
                rows(tellable as f64 / 1e6).verdict == Verdict::Worse
            };
            let detected = (0..200).filter(detected).count();
            assert!((least..=200).contains(&detected), "kind {number}: {detected} of 200");
        }
    }

    #[test]
    fn relative_difference_is_divided_by_the_value_of_the_first_setup() {
        let ppm = |a, b| to_ppm(2 * difference(a, b));
        assert_eq!(ppm(1000, 970), Some(-30_000));
        assert_eq!(ppm(1000, 2000).map(|ppm| (ppm + 5) / 10), Some(100_000));
        assert_eq!((ppm(5, 0), ppm(0, 0), ppm(0, 5)), (Some(-1_000_000), Some(0), None));
        assert!(ppm(1, u64::MAX).unwrap() > 1_000_000_000_000_000);
        assert_eq!([median(&[]), median(&[3]), median(&[4, 1]), median(&[9, 1, 5])], [0, 3, 2, 5]);
    }

    #[test]
    fn rejected_shift_needs_enough_differences_on_one_side() {
        let below = |balance| rejected_below(21, balance);
        assert_eq!([21.5, 21.0, 19.5, 19.0, 17.0].map(below), [None, None, Some(0), Some(0), Some(1)]);
    }

    /// Published ranks of the sign test: from the first to the last of 6 values, from the 4th smallest to the 4th
    /// greatest of 16.
    #[test]
    fn median_interval_needs_six_values() {
        for (values, expected) in [(5, None), (6, Some((1, 6))), (10, Some((2, 9))), (16, Some((4, 13)))] {
            assert_eq!(median_interval(&(1..=values).rev().collect::<Vec<_>>()), expected, "{values}");
        }
        assert_eq!(median_interval(&(1..=100).collect::<Vec<_>>()), Some((40, 61)));
        assert!(median_interval(&[1; 1000]).is_some() && median_interval(&[1; 1001]).is_none());
    }

    #[test]
    fn verdict_follows_interval_and_direction() {
        let rows = |b: [u64; 16], direction| {
            let a = std::array::from_fn::<u64, 16, _>(|run| 100_000 + run as u64);
            compare(&[Row { a: a.to_vec(), b: b.to_vec(), direction }], Family { paired: true, comparisons: 1 })[0]
        };
        let scaled = |ppm: u64| std::array::from_fn(|run| (100_000 + run as u64) * (1_000_000 + ppm) / 1_000_000);
        assert_eq!(rows(scaled(30_000), Direction::LowerIsBetter).verdict, Verdict::Worse);
        assert_eq!(rows(scaled(30_000), Direction::HigherIsBetter).verdict, Verdict::Better);
        assert_eq!(rows(scaled(30_000), Direction::Neutral).verdict, Verdict::Differs);
        // Significant, but too small to be shown.
        assert_eq!(rows(scaled(900), Direction::LowerIsBetter).verdict, Verdict::Same);
        let wild = std::array::from_fn(|run| if run % 2 == 0 { 80_000 } else { 125_000 });
        let unclear = rows(wild, Direction::LowerIsBetter);
        assert_eq!(unclear.verdict, Verdict::Unclear);
        assert!(unclear.tellable_ppm.unwrap() > 100_000);
        assert_eq!(
            rows(scaled(900), Direction::LowerIsBetter).tellable_ppm,
            Some(VISIBLE_PPM),
            "smaller differences are not shown"
        );
        assert_eq!(compare(&[], Family { paired: true, comparisons: 1 }), []);
    }

    /// Three comparisons share the level of one, so each has a wider interval.
    #[test]
    fn more_comparisons_widen_the_interval() {
        let rows = table(&mut SplitMix64(3), 0.01);
        let width = |comparisons| {
            let row = compare(&rows, Family { paired: true, comparisons })[0];
            row.high_ppm.unwrap() - row.low_ppm.unwrap()
        };
        assert!(width(3) > width(1));
    }
}
