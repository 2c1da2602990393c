// SPDX-License-Identifier: GPL-2.0-only
//! Which uncertain constant decides: rank correlations of the samples' constants with the differences.

use std::fmt;

/// Permutations that give the distribution of the largest correlation by chance.
const PERMUTATIONS: usize = 2000;

/// A group of constants whose position within its limits correlates with the differences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decider {
    /// Name of the group of constants, as in the machine model.
    pub group: String,
    /// Spearman's rank correlation with the difference, in thousandths.
    pub correlation_permille: i64,
    /// Whether the lower and the upper half of the group's range have medians of opposite signs.
    pub splits_sign: bool,
    /// Position that divides the halves, in thousandths of the range between the limits.
    pub threshold_permille: u64,
}

impl fmt::Display for Decider {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.threshold_permille / 10;
        write!(to, "{}: the sign changes near {percent} % of its range", self.group)
    }
}

/// Returns the group with the strongest rank correlation, if one as strong would occur by chance in at most one of 20
/// experiments with as many groups. `groups` has the position of each group in each sample, in units of 2^-32 of its
/// range; `differences` has the difference of each sample.
///
/// # Panics
/// If a group has another number of samples.
pub fn decider(groups: &[(String, Vec<u64>)], differences: &[i64]) -> Option<Decider> {
    let ranked: Vec<Vec<i64>> = groups.iter().map(|(_, positions)| ranks(positions)).collect();
    let own = ranks(differences);
    let of = |ranks: &[i64]| ranked.iter().map(|group| correlation(group, ranks)).collect::<Vec<_>>();
    let found = of(&own);
    let (at, strongest) = found.iter().copied().enumerate().max_by_key(|(_, one)| one.abs())?;
    let mut random = SplitMix64(1);
    let mut shuffled = own;
    let mut stronger = 0;
    for _ in 0..PERMUTATIONS {
        for last in (1..shuffled.len()).rev() {
            shuffled.swap(last, random.below(last as u64 + 1) as usize);
        }
        stronger += usize::from(of(&shuffled).iter().any(|one| one.abs() >= strongest.abs()));
    }
    (stronger * 20 <= PERMUTATIONS && strongest != 0).then(|| {
        let (group, positions) = &groups[at];
        let (splits_sign, threshold_permille) = halves(positions, differences);
        Decider { group: group.clone(), correlation_permille: strongest, splits_sign, threshold_permille }
    })
}

/// Whether the medians of the lower and upper half have opposite signs, and the position between the halves, in
/// thousandths.
fn halves(positions: &[u64], differences: &[i64]) -> (bool, u64) {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by_key(|at| positions[*at]);
    let (lower, upper) = order.split_at(order.len() / 2);
    let median =
        |half: &[usize]| crate::Effects::of(&half.iter().map(|at| differences[*at]).collect::<Vec<_>>()).median();
    let splits = median(lower).signum() * median(upper).signum() < 0;
    let between = upper.first().map_or(0, |at| positions[*at]);
    (splits, (between * 1000) >> 32)
}

/// Twice the rank of each value; equal values have the mean of their ranks.
fn ranks<T: Ord>(values: &[T]) -> Vec<i64> {
    let rank = |value: &T| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        (2 * below + equal - 1) as i64
    };
    values.iter().map(rank).collect()
}

/// Correlation of two lists of ranks, in thousandths; 0 if one of them is constant.
fn correlation(one: &[i64], other: &[i64]) -> i64 {
    assert_eq!(one.len(), other.len(), "a position for each sample");
    let centre = one.len() as i64 - 1;
    let sum =
        |pairs: &mut dyn Iterator<Item = (i64, i64)>| pairs.map(|(a, b)| (a - centre) * (b - centre)).sum::<i64>();
    let both = sum(&mut one.iter().copied().zip(other.iter().copied()));
    let [first, second] = [one, other].map(|all| sum(&mut all.iter().copied().zip(all.iter().copied())));
    let scale = ((first as f64) * (second as f64)).sqrt();
    if scale == 0.0 { 0 } else { (both as f64 * 1000.0 / scale).round() as i64 }
}

/// SplitMix64 (Steele, Lea, Flood 2014), identical on every host.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(word ^ (word >> 31)) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve positions in a mixed order, spread over the range.
    const MIXED: [u64; 12] = [7, 2, 11, 5, 0, 9, 4, 1, 10, 3, 8, 6];

    fn positions(order: &[u64; 12]) -> Vec<u64> {
        order.iter().map(|at| at * (1 << 32) / 12).collect()
    }

    #[test]
    fn correlation_of_ranks_is_that_of_spearman() {
        let of = |a: &[i64], b: &[i64]| correlation(&ranks(a), &ranks(b));
        assert_eq!(of(&[1, 2, 3, 4], &[10, 20, 30, 400]), 1000);
        assert_eq!(of(&[1, 2, 3, 4], &[4, 3, 2, 1]), -1000);
        assert_eq!(of(&[1, 2, 3], &[5, 5, 5]), 0);
        // 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0, 1, 1, 0.
        assert_eq!(of(&[1, 2, 3, 4], &[1, 3, 2, 4]), 800);
    }

    #[test]
    fn constant_that_decides_the_sign_is_named_with_its_threshold() {
        let groups = [
            ("line".to_owned(), positions(&std::array::from_fn(|at| at as u64))),
            ("smt".to_owned(), positions(&MIXED)),
        ];
        let differences = MIXED.map(|at| at as i64 * 1000 - 5500);
        let found = decider(&groups, &differences).unwrap();
        assert_eq!((found.group.as_str(), found.correlation_permille, found.splits_sign), ("smt", 1000, true));
        assert_eq!(found.threshold_permille, 500);
        let shifted = MIXED.map(|at| at as i64 * 1000 + 5500);
        assert!(!decider(&groups, &shifted).unwrap().splits_sign);
    }

    /// The probability that one of many groups correlates by chance is at most 5 %: in 40 experiments two are expected, and
    /// six would occur once in 70 times.
    #[test]
    fn groups_without_influence_are_rarely_named() {
        let mut random = SplitMix64(3);
        let mut list = || (0..12).map(|_| random.below(1 << 32)).collect::<Vec<u64>>();
        let named = (0..40).filter(|_| {
            let groups: Vec<_> = (0..10).map(|at| (at.to_string(), list())).collect();
            let differences: Vec<i64> = list().into_iter().map(|one| one as i64).collect();
            decider(&groups, &differences).is_some()
        });
        let named = named.count();
        assert!(named < 6, "{named} of 40");
    }
}
