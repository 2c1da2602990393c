// SPDX-License-Identifier: GPL-2.0-only
//! What repeated runs of two setups can tell apart.
//!
//! 1. The difference of two numbers is `d = 2 (b - a) / (a + b)`. It changes its sign when a and b change places, as a
//!    percentage does not, and orders pairs as their ratio does. Results are given as percentages of a all the same.
//! 2. Runs of the same seed are pairs. If two setups do not differ, a and b of a pair may change places: then any
//!    signs of the n differences are as likely as those that came (Fisher's sign-flip test, all 2^n of them, or a
//!    fixed sample). Runs without common seeds change places all together (permutation test).
//! 3. The statistic is Wilcoxon's: ranks of the differences, so that one wild run cannot decide. Its interval consists
//!    of the shifts that the test would not reject (Hodges and Lehmann 1963; Hollander and Wolfe, chapters 3 and 4).
//! 4. A table has many rows, and one of them always looks unusual. So the limit is that of the largest statistic of
//!    all rows together (Westfall and Young 1993, single step): rows that say the same, such as the mean and the median
//!    of a wait, cost nothing. In a table of two setups that do not differ, any mark at all has at most 5 %.
//! 5. With several setups beside the first one, each comparison gets its part of the 5 % (Bonferroni).
//!
//! There is no crate that does 3 and 4 together. All is made of integers and of `+ - × ÷ √`: the same on every host.

mod family;
mod paired;
mod unpaired;

pub use family::{Family, Interval, Row, Verdict, Direction, compare, median, median_interval};

/// The share of true differences of 0 that an interval may miss, per million, in a whole table.
pub const LEVEL_PPM: u64 = 950_000;

/// A difference in whose interval all is below 1 % is no difference: the margin is the one that
/// comparisons under drawn constants use.
pub const SAME_PPM: i64 = 10_000;

/// What a table could not show: 0.1 %.
pub const VISIBLE_PPM: i64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Draw, difference, rejected_below, to_ppm};

    /// About normal, mean 0, standard deviation 1: twelve uniform ones, less 6.
    fn normal(draw: &mut Draw) -> f64 {
        (0..12).map(|_| (draw.next() >> 40) as f64 / (1u64 << 24) as f64).sum::<f64>() - 6.0
    }

    /// A table of 16 runs a side: ten measures that hang together, one of them the makespan, spread 2 %, and `shift`
    /// added to all of b.
    fn table(draw: &mut Draw, shift: f64) -> Vec<Row> {
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
        let mut draw = Draw(7);
        let family = Family { paired, comparisons: 1 };
        (0..tables).filter(|_| hit(&compare(&table(&mut draw, shift), family))).count() as u64 * 1000 / tables
    }

    fn any_mark(rows: &[Interval]) -> bool {
        rows.iter().any(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
    }

    /// 5 % of 200 tables is 10; 20 would come once in 500 times. Without step 4 of the method it would be 30 %.
    #[test]
    fn equal_setups_seldom_have_a_mark() {
        let unpaired = share(60, 0.0, false, any_mark);
        let paired = share(200, 0.0, true, any_mark);
        assert!(paired <= 100 && unpaired <= 150, "{paired} and {unpaired} of 1000 tables");
    }

    #[test]
    fn a_shift_of_twice_the_spread_is_found() {
        let worse = |rows: &[Interval]| rows[0].verdict == Verdict::Worse && rows[0].low_ppm.unwrap() > 0;
        assert!(share(50, 0.04, true, worse) >= 950);
        assert!(share(20, 0.04, false, worse) >= 950);
    }

    /// Pairs whose differences are normal, or now and then five times as wide, or one of two clusters 4 % apart: what a
    /// table says that it could tell, another table of the same kind tells, in about 19 of 20 cases. Where single pairs
    /// are wild, the width of one table says less of another: 17 of 20.
    #[test]
    fn what_a_table_could_tell_another_one_tells() {
        let wide = |draw: &mut Draw| normal(draw) * if draw.below(10) == 0 { 5.0 } else { 1.0 };
        let clusters = |draw: &mut Draw| normal(draw) * 0.2 + if draw.below(2) == 0 { -1.0 } else { 1.0 };
        type Kind<'a> = (&'a dyn Fn(&mut Draw) -> f64, usize);
        let kinds: [Kind<'_>; 3] = [(&normal, 180), (&wide, 155), (&clusters, 180)];
        for (number, (kind, least)) in kinds.into_iter().enumerate() {
            let mut draw = Draw(11);
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
            let told = |_: &u32| {
                let tellable = rows(0.0).tellable_ppm.unwrap();
                rows(tellable as f64 / 1e6).verdict == Verdict::Worse
            };
            let told = (0..200).filter(told).count();
            assert!((least..=200).contains(&told), "kind {number}: {told} of 200");
        }
    }

    #[test]
    fn differences_are_told_as_parts_of_a() {
        let ppm = |a, b| to_ppm(2 * difference(a, b));
        assert_eq!(ppm(1000, 970), Some(-30_000));
        assert_eq!(ppm(1000, 2000).map(|ppm| (ppm + 5) / 10), Some(100_000));
        assert_eq!((ppm(5, 0), ppm(0, 0), ppm(0, 5)), (Some(-1_000_000), Some(0), None));
        assert!(ppm(1, u64::MAX).unwrap() > 1_000_000_000_000_000);
        assert_eq!([median(&[]), median(&[3]), median(&[4, 1]), median(&[9, 1, 5])], [0, 3, 2, 5]);
    }

    #[test]
    fn a_shift_needs_enough_differences_on_one_side() {
        let below = |balance| rejected_below(21, balance);
        assert_eq!([21.5, 21.0, 19.5, 19.0, 17.0].map(below), [None, None, Some(0), Some(0), Some(1)]);
    }

    /// Ranks that every table of the sign test has: 6 values reach from the first to the last, 16 from the 4th on.
    #[test]
    fn medians_have_an_interval_from_six_values_on() {
        for (values, expected) in [(5, None), (6, Some((1, 6))), (10, Some((2, 9))), (16, Some((4, 13)))] {
            assert_eq!(median_interval(&(1..=values).rev().collect::<Vec<_>>()), expected, "{values}");
        }
        assert_eq!(median_interval(&(1..=100).collect::<Vec<_>>()), Some((40, 61)));
        assert!(median_interval(&[1; 1000]).is_some() && median_interval(&[1; 1001]).is_none());
    }

    #[test]
    fn verdicts_follow_the_interval() {
        let rows = |b: [u64; 16], way| {
            let a = std::array::from_fn::<u64, 16, _>(|run| 100_000 + run as u64);
            compare(&[Row { a: a.to_vec(), b: b.to_vec(), way }], Family { paired: true, comparisons: 1 })[0]
        };
        let scaled = |ppm: u64| std::array::from_fn(|run| (100_000 + run as u64) * (1_000_000 + ppm) / 1_000_000);
        assert_eq!(rows(scaled(30_000), Direction::LowerIsBetter).verdict, Verdict::Worse);
        assert_eq!(rows(scaled(30_000), Direction::HigherIsBetter).verdict, Verdict::Better);
        assert_eq!(rows(scaled(30_000), Direction::Neutral).verdict, Verdict::Differs);
        // Certain, and too small to be shown.
        assert_eq!(rows(scaled(900), Direction::LowerIsBetter).verdict, Verdict::Same);
        let wild = std::array::from_fn(|run| if run % 2 == 0 { 80_000 } else { 125_000 });
        let unclear = rows(wild, Direction::LowerIsBetter);
        assert_eq!(unclear.verdict, Verdict::Unclear);
        assert!(unclear.tellable_ppm.unwrap() > 100_000);
        assert_eq!(rows(scaled(900), Direction::LowerIsBetter).tellable_ppm, Some(VISIBLE_PPM), "less is never shown");
        assert_eq!(compare(&[], Family { paired: true, comparisons: 1 }), []);
    }

    /// Three comparisons share what one has for itself: the same runs tell less.
    #[test]
    fn more_comparisons_widen_the_interval() {
        let rows = table(&mut Draw(3), 0.01);
        let width = |comparisons| {
            let row = compare(&rows, Family { paired: true, comparisons })[0];
            row.high_ppm.unwrap() - row.low_ppm.unwrap()
        };
        assert!(width(3) > width(1));
    }
}
