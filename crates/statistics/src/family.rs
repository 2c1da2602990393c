// SPDX-License-Identifier: GPL-2.0-only
//! Joint test of the rows of a comparison table.

use crate::{LEVEL_PPM, SAME_PPM, VISIBLE_PPM, paired, unpaired};

/// Which direction of a measure is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Lower is better.
    LowerIsBetter,
    /// Higher is better.
    HigherIsBetter,
    /// Neither: the verdict can only be that the setups differ. The row enters the joint limit only if no row has a
    /// better direction.
    Neutral,
}

/// Values of one measure for two setups. If the family is paired, equal indices have the same seed.
#[derive(Clone, Debug)]
pub struct Row {
    /// Values of the first setup.
    pub a: Vec<u64>,
    /// Values of the second setup.
    pub b: Vec<u64>,
    /// Which direction is better.
    pub direction: Direction,
}

/// Design of the comparison.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Whether runs with equal indices have the same seed.
    pub paired: bool,
    /// Number of setup comparisons in the same table, which share the significance level.
    pub comparisons: usize,
}

/// Result for a row. Differences are (b - a) / a in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// Median of a.
    pub a_median: u64,
    /// Median of b.
    pub b_median: u64,
    /// Estimated difference; `None` if a is 0 and b is not.
    pub diff_ppm: Option<i64>,
    /// Lower end of the confidence interval; `None` if it is unbounded.
    pub low_ppm: Option<i64>,
    /// Upper end of the confidence interval; `None` if it is unbounded.
    pub high_ppm: Option<i64>,
    /// Minimum detectable difference: the smallest true difference found by about 19 of 20 such comparisons if
    /// differences are normally distributed; fewer find it if there are outliers. `None` if there are too few runs to
    /// find any.
    pub tellable_ppm: Option<i64>,
    /// Verdict.
    pub verdict: Verdict,
}

/// Verdict on a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// b is significantly better.
    Better,
    /// b is significantly worse.
    Worse,
    /// Equivalent: the confidence interval lies within 1 %.
    Same,
    /// No significant difference, and not shown to be equivalent.
    #[default]
    Unclear,
    /// Significantly different, in a measure without a better direction.
    Differs,
}

/// Rows that enter the joint limit: those with a better direction, or all if there are none.
pub(crate) fn marked<'a, T>(rows: &[Row], tested: &'a [T]) -> Vec<&'a T> {
    let may = |row: &Row| row.direction != Direction::Neutral;
    let all = !rows.iter().any(may);
    rows.iter().zip(tested).filter(|(row, _)| all || may(row)).map(|(_, tested)| tested).collect()
}

/// Tests all rows jointly.
///
/// # Panics
/// If the rows differ in their numbers of values, or paired rows have unequal numbers.
pub fn compare(rows: &[Row], family: Family) -> Vec<Interval> {
    let Some(first) = rows.first() else { return Vec::new() };
    let shape = (first.a.len(), first.b.len());
    assert!(rows.iter().all(|row| (row.a.len(), row.b.len()) == shape), "all rows have the same number of runs");
    assert!(!family.paired || shape.0 == shape.1, "paired rows have equally many values of both setups");
    let level = (1_000_000 - LEVEL_PPM) as f64 / 1e6 / family.comparisons.max(1) as f64;
    let judged: Vec<Judged> = if family.paired { paired::judge(rows, level) } else { unpaired::judge(rows, level) };
    rows.iter().zip(judged).map(|(row, judged)| interval(row, &judged)).collect()
}

/// Number of runs of each setup with which a comparison can be significant at all: fewer have too few sign patterns
/// (paired) or labellings for any of them to be rarer than the level.
pub fn fewest_runs(family: Family) -> usize {
    let level = (1_000_000 - LEVEL_PPM) as f64 / 1e6 / family.comparisons.max(1) as f64;
    // The least probability of n runs of each: two of 2^n sign patterns, or of (2n choose n) labellings.
    let mut least = 2.0;
    for runs in 1.. {
        least /= if family.paired { 2.0 } else { 2.0 * (2 * runs - 1) as f64 / runs as f64 };
        if least <= level {
            return runs;
        }
    }
    unreachable!("the probability halves with each run")
}

/// Test result of a row; differences are on the scale of [`difference`], doubled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub estimate: i64,
    pub ends: Option<(i64, i64)>,
    /// Critical value of the squared statistic, in units of its variance; `None` if no value is significant.
    pub limit: Option<f64>,
    /// Whether the test rejects the null hypothesis of no difference.
    pub rejected: bool,
}

pub(crate) fn interval(row: &Row, judged: &Judged) -> Interval {
    let diff_ppm = to_ppm(judged.estimate);
    let (low, high) = judged.ends.unzip();
    let excludes_zero = judged.ends.is_some_and(|(low, high)| low > 0 || high < 0);
    let visible = diff_ppm.is_none_or(|diff| diff.abs() >= VISIBLE_PPM);
    let (low_ppm, high_ppm) = (low.and_then(to_ppm), high.and_then(to_ppm));
    let small = |end: Option<i64>| end.is_some_and(|end| end.abs() <= SAME_PPM);
    let verdict = match (row.direction, judged.estimate > 0) {
        _ if !(excludes_zero && judged.rejected && visible) => {
            if small(low_ppm) && small(high_ppm) {
                Verdict::Same
            } else {
                Verdict::Unclear
            }
        }
        (Direction::Neutral, _) => Verdict::Differs,
        (Direction::LowerIsBetter, false) | (Direction::HigherIsBetter, true) => Verdict::Better,
        _ => Verdict::Worse,
    };
    let tellable_ppm = detectable(judged).and_then(to_ppm).map(|ppm| ppm.max(VISIBLE_PPM));
    Interval { a_median: median(&row.a), b_median: median(&row.b), diff_ppm, low_ppm, high_ppm, tellable_ppm, verdict }
}

/// Minimum detectable difference. The half-width of the interval corresponds to as many standard errors as the square
/// root of the limit. One estimate in 20 is more than [`POWER`] standard errors below the true difference, so a true
/// difference of the sum of both is detected in 19 of 20 cases.
fn detectable(judged: &Judged) -> Option<i64> {
    let (low, high) = judged.ends?;
    let limit = judged.limit?.sqrt();
    let half = (judged.estimate - low).max(high - judged.estimate);
    Some((half as f64 * (limit + POWER) / limit).ceil() as i64)
}

/// Middle value, or the mean of the two middle values, rounded down; 0 for no values.
pub fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (half, odd) = (sorted.len() / 2, sorted.len() % 2 == 1);
    match sorted.as_slice() {
        [] => 0,
        all if odd => all[half],
        all => ((u128::from(all[half - 1]) + u128::from(all[half])) / 2) as u64,
    }
}

/// Confidence interval of the median by the sign test: from the k-th smallest to the k-th greatest value, with the
/// largest k for which at most 5 % of all samples miss the true median, whatever the distribution. `None` for fewer
/// than 6 or more than 1000 values.
pub fn median_interval(values: &[u64]) -> Option<(u64, u64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    // P(X <= k - 1) for X ~ Binomial(n, 1/2), one tail; n is limited, because 2^-n underflows f64 beyond about 1000.
    let mut term = 0.5f64.powi(n.min(1000) as i32);
    let (mut below, mut k) = (0.0, 0);
    while k < n / 2 && 2.0 * (below + term) <= (1_000_000 - LEVEL_PPM) as f64 / 1e6 {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k > 0 && n <= 1000).then(|| (sorted[k - 1], sorted[n - k]))
}

/// Fixed-point unit of differences.
pub(crate) const ONE: i64 = 1_000_000_000;

/// `2 (b - a) / (a + b)` in units of 1e-9, from -2 to 2.
pub(crate) fn difference(a: u64, b: u64) -> i64 {
    let (a, b) = (i128::from(a), i128::from(b));
    if a + b == 0 { 0 } else { (2 * (b - a) * i128::from(ONE) / (a + b)) as i64 }
}

/// Converts a doubled difference `2 d` to `b / a - 1 = 2 d / (2 - d)` in parts per million; `None` if that is
/// infinite.
pub(crate) fn to_ppm(doubled: i64) -> Option<i64> {
    let (doubled, two) = (i128::from(doubled), 4 * i128::from(ONE));
    let ppm = |whole: i128| ((4 * doubled * 1_000_000 + doubled.signum() * whole) / (2 * whole)) as i64;
    (doubled < two).then(|| ppm(two - doubled))
}

/// Critical value of the squared statistic: the value at quantile `level` from the top of `largest`, so that at most
/// a fraction `level` exceeds it. `None` if no value exceeds it: with so few runs nothing is significant.
pub(crate) fn limit(mut largest: Vec<f64>, level: f64) -> Option<f64> {
    largest.sort_by(|one, other| other.total_cmp(one));
    let limit = largest[((level * largest.len() as f64) as usize).min(largest.len() - 1)];
    exceeds(largest[0], limit).then_some(limit)
}

/// Compares with a tolerance, because sums of the same ranks in a different order may differ in the last bit.
pub(crate) fn exceeds(value: f64, limit: f64) -> bool {
    value > limit * (1.0 + 1e-12)
}

/// Largest number of the `all` differences that may be on one side of a rejected shift; `balance` is the surplus on
/// the other side at the limit. `None` if even 0 is too many.
pub(crate) fn rejected_below(all: usize, balance: f64) -> Option<usize> {
    let reaches = ((all as f64 - balance) / 2.0 - 1e-6).ceil();
    (reaches >= 1.0).then(|| reaches as usize - 1)
}

/// Doubled rank of each value, starting at 2; ties get their mean rank.
pub(crate) fn doubled_ranks(values: &[i64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&index| values[index]);
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    for tie in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let rank = (2 * start + tie.len() + 1) as i64;
        tie.iter().for_each(|&index| ranks[index] = rank);
        start += tie.len();
    }
    ranks
}

/// SplitMix64 random number generator (Steele, Lea and Flood 2014), identical on every host.
pub(crate) struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Random number below `end`, which is at most 2^32.
    pub fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }
}

/// 95 % quantile of the standard normal distribution.
const POWER: f64 = 1.645;

/// Number of random permutations used if there are too many to enumerate.
pub(crate) const SAMPLE: usize = 20_000;
