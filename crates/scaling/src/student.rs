// SPDX-License-Identifier: GPL-2.0-only
//! Quantiles of Student's t distribution, for whole degrees of freedom.

use std::f64::consts::PI;

/// Probability that |T| is at most `t`: the closed forms of Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = (angle.sin(), angle.cos());
    let odd = freedom % 2 == 1;
    // Terms of the series, each the last one times (k - 1) / k and the square of the cosine.
    let (mut term, mut sum) = if odd { (cosine, 0.0) } else { (1.0, 0.0) };
    let mut k = if odd { 3 } else { 2 };
    while k <= freedom {
        sum += term;
        term *= cosine * cosine * (k - 1) as f64 / k as f64;
        k += 2;
    }
    match odd {
        true => 2.0 / PI * (angle + sine * sum),
        false => sine * sum,
    }
}

/// Value that T does not exceed with this probability, above 1/2. By bisection, to the precision of the numbers.
pub fn quantile(probability: f64, freedom: usize) -> f64 {
    let two_sided = 2.0 * probability - 1.0;
    let (mut low, mut high) = (0.0, 1.0);
    while within(high, freedom) < two_sided {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < two_sided { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed tables of the distribution.
    #[test]
    fn quantiles_equal_printed_tables() {
        let cases = [
            (0.975, 1, 12.7062),
            (0.975, 2, 4.3027),
            (0.975, 3, 3.1824),
            (0.975, 4, 2.7764),
            (0.975, 5, 2.5706),
            (0.975, 8, 2.3060),
            (0.975, 30, 2.0423),
            (0.95, 5, 2.0150),
            (0.95, 10, 1.8125),
        ];
        for (probability, freedom, expected) in cases {
            let found = quantile(probability, freedom);
            assert!((found - expected).abs() < 5e-5, "{probability} {freedom}: {found}");
        }
    }
}
