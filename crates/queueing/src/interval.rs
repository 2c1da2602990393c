// SPDX-License-Identifier: GPL-2.0-only
//! Interval of a mean.

use distrs::StudentsT;

/// Level of confidence.
const LEVEL: f64 = 0.95;

/// 95 % interval of the mean of independent values, by Student's t; `None` with fewer than two.
pub fn interval_of_mean(values: &[f64]) -> Option<[f64; 2]> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let reach = StudentsT::ppf(0.5 + LEVEL / 2.0, count - 1.0) * (variance / count).sqrt();
    Some([mean - reach, mean + reach])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student (1908), the hours of sleep gained with his second drug: mean 2.33, s.d. 2.002; t = 2.262.
    #[test]
    fn interval_matches_students_sleep_data() {
        let gained = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let [low, high] = interval_of_mean(&gained).unwrap();
        assert!((low - 0.8977).abs() < 1e-3 && (high - 3.7623).abs() < 1e-3, "{low} {high}");
        assert_eq!(interval_of_mean(&[1.0]), None);
    }
}
