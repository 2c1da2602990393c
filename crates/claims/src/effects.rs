// SPDX-License-Identifier: GPL-2.0-only
//! Differences over samples: their median, their interval by the sign test, and what the test could have detected.

/// Largest difference that is distinguished: a thousandfold value, also in place of an infinite one.
const MOST_PPM: i64 = 1_000_000_000;

/// Relative difference `b / a - 1` in parts per million, at most a thousandfold value; 0 if both are 0.
pub fn difference_ppm(a: u64, b: u64) -> i64 {
    match (a, b) {
        (0, 0) => 0,
        (0, _) => MOST_PPM,
        _ => {
            let (a, b) = (i128::from(a), i128::from(b));
            ((b - a) * 1_000_000 / a).min(i128::from(MOST_PPM)) as i64
        }
    }
}

/// Smallest number of equal signs among `count` samples that a two-sided sign test rejects at 5 %: 6 of 6, 9 of 10, 10
/// of 12. `None` below 6 samples, where it never rejects.
pub fn needed(count: usize) -> Option<usize> {
    // P(X >= k) for X ~ Binomial(n, 1/2), from k = n downwards; at most 2.5 % in each tail.
    let mut term = 0.5f64.powi(i32::try_from(count).ok()?);
    let (mut above, mut k) = (0.0, count);
    let mut fewest = None;
    while k > count / 2 && above + term <= 0.025 {
        above += term;
        fewest = Some(k);
        term = term * k as f64 / (count - k + 1) as f64;
        k -= 1;
    }
    fewest
}

/// The differences of all samples of a comparison, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effects {
    sorted: Vec<i64>,
}

impl Effects {
    /// Differences in parts per million, in any order.
    pub fn of(differences: &[i64]) -> Effects {
        let mut sorted = differences.to_vec();
        sorted.sort_unstable();
        Effects { sorted }
    }

    /// Number of samples.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Median; 0 without samples.
    pub fn median(&self) -> i64 {
        let half = self.sorted.len() / 2;
        match self.sorted.as_slice() {
            [] => 0,
            all if all.len() % 2 == 1 => all[half],
            all => i64::midpoint(all[half - 1], all[half]),
        }
    }

    /// Interval of the median at 95 %, by the sign test. `None` below 6 samples.
    pub fn interval(&self) -> Option<(i64, i64)> {
        let most = needed(self.count())?;
        Some((self.sorted[self.count() - most], self.sorted[most - 1]))
    }

    /// Number of samples whose difference satisfies a condition.
    pub fn number(&self, is_counted: impl Fn(i64) -> bool) -> usize {
        self.sorted.iter().filter(|one| is_counted(**one)).count()
    }

    /// Smallest shift of all samples, were their median zero, with which the sign test would have rejected: the smallest
    /// difference that these runs could have told. `None` below 6 samples.
    pub fn tellable(&self) -> Option<i64> {
        let (low, high) = self.interval()?;
        let median = self.median();
        Some((median - low).max(high - median).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of the sign test, as in its textbooks.
    #[test]
    fn sign_test_needs_the_tabulated_number_of_equal_signs() {
        let table =
            [(6, 6), (7, 7), (8, 8), (9, 8), (10, 9), (12, 10), (15, 12), (20, 15), (25, 18), (49, 32), (100, 61)];
        for (count, expected) in table {
            assert_eq!(needed(count), Some(expected), "{count}");
        }
        assert_eq!([0, 1, 5].map(needed), [None; 3]);
    }

    #[test]
    fn difference_is_relative_to_the_first_side_and_bounded() {
        assert_eq!([difference_ppm(200, 150), difference_ppm(0, 0), difference_ppm(3, 3)], [-250_000, 0, 0]);
        assert_eq!([difference_ppm(0, 1), difference_ppm(1, u64::MAX)], [MOST_PPM; 2]);
        assert_eq!(difference_ppm(u64::MAX, 0), -1_000_000);
    }

    #[test]
    fn interval_has_the_ranks_of_the_sign_test() {
        let effects = Effects::of(&[5, 1, 9, 2, 8, 3, 7, 4, 6, 10, 12, 11]);
        assert_eq!((effects.median(), effects.interval()), (6, Some((3, 10))));
        assert_eq!(effects.tellable(), Some(4));
        assert_eq!(Effects::of(&[1, 2, 3, 4, 5]).interval(), None);
        assert_eq!(Effects::of(&[]).median(), 0);
    }
}
