// SPDX-License-Identifier: GPL-2.0-only
//! The rows of one comparison, judged together.

use crate::{LEVEL_PPM, SAME_PPM, VISIBLE_PPM, paired, unpaired};

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Less is better.
    Less,
    /// More is better.
    More,
    /// Neither. The row has an interval and no verdict, and does not count among the rows that may have a mark.
    Neither,
}

/// Values of one measure: those of the first setup, those of the second. Equal places are pairs if the family says so.
#[derive(Clone, Debug)]
pub struct Row {
    /// The first setup's.
    pub a: Vec<u64>,
    /// The second setup's.
    pub b: Vec<u64>,
    /// Which way is better.
    pub direction: Direction,
}

/// What the values come from.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Equal places have the same seed.
    pub paired: bool,
    /// How many comparisons stand in the same table and share the level.
    pub comparisons: usize,
}

/// What can be said of a row. Differences are those of b against a, in millionths of a.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// Median of a.
    pub a_median: u64,
    /// Median of b.
    pub b_median: u64,
    /// The typical difference; `None` if a is 0 and b is not.
    pub diff_ppm: Option<i64>,
    /// The least difference that the runs do not exclude; `None` if they exclude none.
    pub low_ppm: Option<i64>,
    /// The greatest one.
    pub high_ppm: Option<i64>,
    /// The smallest true difference that about 19 of 20 such comparisons would tell if differences were normal (fewer
    /// tell it where single runs are wild); `None` if so few
    /// runs can tell nothing.
    pub tellable_ppm: Option<i64>,
    /// What follows.
    pub verdict: Verdict,
}

/// What the runs say of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// b is better.
    Better,
    /// b is worse.
    Worse,
    /// Neither is better by 1 %.
    Same,
    /// The runs cannot tell.
    #[default]
    Unclear,
    /// They differ, and neither way is better.
    Differs,
}

/// The rows that may have a mark, among which the most unusual one sets the limit; all, if none may.
pub(crate) fn marked<'a, T>(rows: &[Row], tested: &'a [T]) -> Vec<&'a T> {
    let may = |row: &Row| row.direction != Direction::Neutral;
    let all = !rows.iter().any(may);
    rows.iter().zip(tested).filter(|(row, _)| all || may(row)).map(|(_, tested)| tested).collect()
}

/// Judges all rows together. Each row has as many values as every other, and at least one.
///
/// # Panics
/// If the numbers of values differ.
pub fn compare(rows: &[Row], family: Family) -> Vec<Interval> {
    let Some(first) = rows.first() else { return Vec::new() };
    let shape = (first.a.len(), first.b.len());
    assert!(rows.iter().all(|row| (row.a.len(), row.b.len()) == shape), "every row has the same runs");
    assert!(!family.paired || shape.0 == shape.1, "pairs have two members");
    let level = (1_000_000 - LEVEL_PPM) as f64 / 1e6 / family.comparisons.max(1) as f64;
    let judged: Vec<Judged> = if family.paired { paired::judge(rows, level) } else { unpaired::judge(rows, level) };
    rows.iter().zip(judged).map(|(row, judged)| interval(row, &judged)).collect()
}

/// A row as its test sees it; differences are on the scale of [`difference`], times 2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub estimate: i64,
    pub ends: Option<(i64, i64)>,
    /// What the squared statistic has to exceed, in units of its variance; `None` if it cannot.
    pub limit: Option<f64>,
    /// The test rejects that there is no difference.
    pub rejected: bool,
}

fn interval(row: &Row, judged: &Judged) -> Interval {
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
    let tellable_ppm = tellable(judged).and_then(to_ppm).map(|ppm| ppm.max(VISIBLE_PPM));
    Interval { a_median: median(&row.a), b_median: median(&row.b), diff_ppm, low_ppm, high_ppm, tellable_ppm, verdict }
}

/// From the estimate to the end of the interval it is as many standard errors as the limit has. Of estimates around a
/// true difference, one in 20 lies more than another [`POWER`] standard errors below it: so a true difference of both
/// together is told in 19 of 20 cases.
fn tellable(judged: &Judged) -> Option<i64> {
    let (low, high) = judged.ends?;
    let limit = judged.limit?.sqrt();
    let half = (judged.estimate - low).max(high - judged.estimate);
    Some((half as f64 * (limit + POWER) / limit).ceil() as i64)
}

/// The middle value, or the mean of the two in the middle, rounded down; 0 of nothing.
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

/// Where the true median lies: from the k-th smallest to the k-th greatest value, with the largest k for which at most
/// 5 % of all samples would miss it, whatever the distribution (sign test). `None` below six values.
pub fn median_interval(values: &[u64]) -> Option<(u64, u64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    // The chance that at most k - 1 of n fair coins show heads, each side. 1000 coins are more than f64 can halve.
    let mut term = 0.5f64.powi(n.min(1000) as i32);
    let (mut below, mut k) = (0.0, 0);
    while k < n / 2 && 2.0 * (below + term) <= (1_000_000 - LEVEL_PPM) as f64 / 1e6 {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k > 0 && n <= 1000).then(|| (sorted[k - 1], sorted[n - k]))
}

/// One, on the scale of differences.
pub(crate) const ONE: i64 = 1_000_000_000;

/// `2 (b - a) / (a + b)` in billionths, from -2 to 2.
pub(crate) fn difference(a: u64, b: u64) -> i64 {
    let (a, b) = (i128::from(a), i128::from(b));
    if a + b == 0 { 0 } else { (2 * (b - a) * i128::from(ONE) / (a + b)) as i64 }
}

/// From twice a difference `d` to `b / a - 1 = 2 d / (2 - d)`, in millionths; `None` if that is infinite.
pub(crate) fn to_ppm(doubled: i64) -> Option<i64> {
    let (doubled, two) = (i128::from(doubled), 4 * i128::from(ONE));
    let ppm = |whole: i128| ((4 * doubled * 1_000_000 + doubled.signum() * whole) / (2 * whole)) as i64;
    (doubled < two).then(|| ppm(two - doubled))
}

/// What the squared statistic has to exceed: the greatest value that more than `level` of all `largest` reach. What is
/// above it was reached by at most `level` of them. `None` if none exceeds it: so few runs can tell nothing.
pub(crate) fn limit(mut largest: Vec<f64>, level: f64) -> Option<f64> {
    largest.sort_by(|one, other| other.total_cmp(one));
    let limit = largest[((level * largest.len() as f64) as usize).min(largest.len() - 1)];
    exceeds(largest[0], limit).then_some(limit)
}

/// Sums of the same ranks in another order may differ in the last bit.
pub(crate) fn exceeds(value: f64, limit: f64) -> bool {
    value > limit * (1.0 + 1e-12)
}

/// How many of `all` differences may lie on one side of a shift that is rejected, where `balance` is how many more there
/// are on the other side at the limit. `None`: not even 0.
pub(crate) fn rejected_below(all: usize, balance: f64) -> Option<usize> {
    let reaches = ((all as f64 - balance) / 2.0 - 1e-6).ceil();
    (reaches >= 1.0).then(|| reaches as usize - 1)
}

/// Twice the rank of each value, from 2; equal values share the mean of their ranks.
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

/// SplitMix64 (Steele, Lea and Flood 2014): draws the same on every host.
pub(crate) struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is at most 2^32.
    pub fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }
}

/// Standard errors that a normal estimate is above its 5 % quantile.
const POWER: f64 = 1.645;

/// How many places are changed at random where not all ways can be tried.
pub(crate) const SAMPLE: usize = 20_000;
