// SPDX-License-Identifier: GPL-2.0-only
//! Differences and quotients as people read them.

use claims::{Claim, Judgement, Test};

/// Difference from which on a factor is shown and not a percentage: threefold.
const FACTOR_PPM: i64 = 2_000_000;
const ONE_PPM: i64 = 1_000_000;

/// What the numbers of a claim are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figures {
    /// Relative differences between two sides.
    Differences,
    /// Quotients of two measures of one side, as parts of a whole.
    Shares,
    /// Quotients of two measures of one side, of which the published one is threefold or more.
    Factors,
}

impl Figures {
    /// Those of a claim.
    pub fn of(claim: &Claim) -> Figures {
        match &claim.test {
            Test::Runs(runs) if runs.b.is_none() => match claim.published_ppm {
                Some(FACTOR_PPM..) => Figures::Factors,
                _ => Figures::Shares,
            },
            _ => Figures::Differences,
        }
    }

    /// A judged difference with its interval.
    pub fn judged(self, judged: &Judgement) -> String {
        match judged.agreeing {
            (_, 0) => "no result".to_owned(),
            _ => self.with_interval(judged.effect_ppm, judged.interval_ppm),
        }
    }

    /// A number with its interval, all in one unit: `-5.8 % (-6.7 % to -5.0 %)`; a difference that is threefold or more
    /// is a factor, `x3.2 (x2.5 to x4.0)`.
    pub fn with_interval(self, ppm: i64, interval: Option<(i64, i64)>) -> String {
        let factors = match self {
            Figures::Differences => ppm >= FACTOR_PPM,
            Figures::Shares => false,
            Figures::Factors => true,
        };
        let one = |value: i64| if factors { factor(value) } else { self.percent(value) };
        let interval = interval.map(|(low, high)| format!(" ({} to {})", one(low), one(high)));
        one(ppm) + &interval.unwrap_or_default()
    }

    /// A difference without interval.
    pub fn one(self, ppm: i64) -> String {
        self.with_interval(ppm, None)
    }

    fn percent(self, ppm: i64) -> String {
        let (ppm, sign) = match self {
            Figures::Differences => (ppm, true),
            _ => (ppm + ONE_PPM, false),
        };
        let (value, decimals) = (ppm as f64 / 1e4, if ppm.abs() >= 10_000 { 1 } else { 2 });
        if sign { format!("{value:+.decimals$} %") } else { format!("{value:.decimals$} %") }
    }
}

/// Smallest difference that runs could have told, without a sign.
pub fn tellable(ppm: i64) -> String {
    Figures::Differences.one(ppm).trim_start_matches('+').to_owned()
}

/// `x3.2`, with more digits below one.
fn factor(ppm: i64) -> String {
    let value = (ppm + ONE_PPM) as f64 / 1e6;
    if value < 1.0 { format!("x{value:.2}") } else { format!("x{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_percentages_or_factors() {
        let cases = [(-68_000, "-6.8 %"), (2_500, "+0.25 %"), (0, "+0.00 %"), (2_159_539, "x3.2")];
        for (ppm, expected) in cases {
            assert_eq!(Figures::Differences.one(ppm), expected);
        }
        let shown = |ppm, interval| Figures::Differences.with_interval(ppm, Some(interval));
        assert_eq!(shown(-10_000, (-20_000, 5)), "-1.0 % (-2.0 % to +0.00 %)");
        assert_eq!(
            shown(2_100_000, (-458_000, 3_000_000)),
            "x3.1 (x0.54 to x4.0)",
            "an interval has the unit of its median"
        );
        assert_eq!(tellable(24_000), "2.4 %");
    }

    #[test]
    fn quotients_are_shares_or_factors_whatever_their_size() {
        let shown = |ppm, interval| Figures::Shares.with_interval(ppm, Some(interval));
        assert_eq!(shown(-133_000, (-171_000, -99_000)), "86.7 % (82.9 % to 90.1 %)");
        assert_eq!(shown(-998_000, (-1_000_000, -997_000)), "0.20 % (0.00 % to 0.30 %)");
        assert_eq!(shown(2_100_000, (1_800_000, 2_400_000)), "310.0 % (280.0 % to 340.0 %)");
        assert_eq!(Figures::Factors.with_interval(1_900_000, Some((1_800_000, 2_400_000))), "x2.9 (x2.8 to x3.4)");
    }

    #[test]
    fn shipped_quotients_are_factors_only_where_a_factor_was_published() {
        let factors: Vec<_> = claims::read_all(claims::FILES)
            .unwrap()
            .into_iter()
            .filter(|claim| Figures::of(claim) == Figures::Factors)
            .map(|claim| claim.id)
            .collect();
        assert_eq!(factors, ["lottery-in-proportion"]);
    }
}
