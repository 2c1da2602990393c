// SPDX-License-Identifier: GPL-2.0-only
//! Published data sets. Expected values are those of the R package usl 3.0.4, to the digits that it prints.

use scaling::{Fit, Part, Point, fit};

/// SPEC SDM91, from Gunther's Guerrilla Capacity Planning.
const SPEC_SDM91: [(f64, f64); 7] =
    [(1.0, 64.9), (18.0, 995.9), (36.0, 1652.4), (72.0, 1853.2), (108.0, 1828.9), (144.0, 1775.0), (216.0, 1702.2)];

/// The ray tracer of the same book.
const RAY_TRACER: [(f64, f64); 11] = [
    (1.0, 20.0),
    (4.0, 78.0),
    (8.0, 130.0),
    (12.0, 170.0),
    (16.0, 190.0),
    (20.0, 200.0),
    (24.0, 210.0),
    (28.0, 230.0),
    (32.0, 260.0),
    (48.0, 280.0),
    (64.0, 310.0),
];

/// Example of the crate usl.
const USL_README: [(f64, f64); 7] = [
    (1.0, 955.16),
    (5.0, 4315.54),
    (10.0, 7867.61),
    (15.0, 9645.37),
    (20.0, 10798.52),
    (25.0, 12075.41),
    (30.0, 12118.04),
];

fn fitted(points: &[(f64, f64)]) -> Fit {
    let points: Vec<Point> = points.iter().map(|&(n, throughput)| Point { n, throughput }).collect();
    fit(&points).unwrap()
}

/// Whether the value rounds to the published digits.
#[track_caller]
fn rounds_to(value: f64, published: &str) {
    let digits = published.split_once('.').map_or(0, |(_, digits)| digits.split('e').next().unwrap().len());
    let shown = match published.split_once('e') {
        Some(_) => format!("{value:.digits$e}"),
        None => format!("{value:.digits$}"),
    };
    assert_eq!(shown, published, "{value}");
}

#[test]
fn spec_sdm91_fit_equals_the_published_one() {
    let fit = fitted(&SPEC_SDM91);
    rounds_to(fit.law.gamma, "89.995");
    rounds_to(fit.law.alpha, "0.0277285");
    rounds_to(fit.law.beta, "1.044e-4");
    rounds_to(fit.standard_errors.gamma, "14.21");
    rounds_to(fit.standard_errors.alpha, "0.00912");
    rounds_to(fit.standard_errors.beta, "1.99e-5");
    rounds_to(fit.residual_sd, "82.8");
    let peak = fit.peak().unwrap();
    rounds_to(peak.n, "96.52");
    rounds_to(peak.throughput, "1884");
    assert!(!peak.extrapolated);
    rounds_to(fit.amdahl_limit().unwrap(), "3246");
    rounds_to(fit.optimal_n().unwrap(), "36.06");
    assert_eq!(fit.degrees_of_freedom, 4);
}

/// The formula of the peak applied to a β of numerical noise would give 4.7e8.
#[test]
fn ray_tracer_has_no_peak() {
    let fit = fitted(&RAY_TRACER);
    assert!(fit.law.beta.abs() < 1e-9, "{}", fit.law.beta);
    assert!(fit.intervals.0.beta < 0.0 && fit.intervals.1.beta > 0.0);
    assert_eq!(fit.peak(), None);
    rounds_to(fit.law.alpha, "0.0578");
    rounds_to(fit.law.gamma, "21.8488");
    let (low, high) = fit.intervals_usl;
    rounds_to(low.alpha, "0.033677");
    rounds_to(high.alpha, "0.081864");
    rounds_to(low.beta, "-0.000214");
    rounds_to(high.beta, "0.000214");
    rounds_to(low.gamma, "17.868380");
    rounds_to(high.gamma, "25.829306");
    assert_eq!(fit.not_significant(), ["beta"]);
    assert!(scaling::to_text(&fit, "CPUs").contains("no peak in the data"));
}

#[test]
fn ray_tracer_first_six_points_have_a_peak_that_more_points_remove() {
    let fit = fitted(&RAY_TRACER[..6]);
    rounds_to(fit.law.gamma, "20.856");
    rounds_to(fit.law.alpha, "0.02444");
    rounds_to(fit.law.beta, "0.00163");
    let (low, high) = fit.intervals_usl;
    rounds_to(low.alpha, "0.0075");
    rounds_to(high.alpha, "0.0414");
    rounds_to(low.beta, "0.0011");
    rounds_to(high.beta, "0.00215");
    // t is 3.182 for 3 degrees of freedom and two sides, 2.015 in the package.
    let (own, wide) = (fit.intervals, high.beta - low.beta);
    rounds_to((own.1.beta - own.0.beta) / wide, "1.579");
    assert!(fit.peak().unwrap().extrapolated);
}

#[test]
fn usl_example_fit_equals_the_published_one() {
    let fit = fitted(&USL_README);
    rounds_to(fit.law.gamma, "1001");
    rounds_to(fit.law.alpha, "0.0273");
    rounds_to(fit.law.beta, "7.70e-4");
    let n = ((1.0 - fit.law.alpha) / fit.law.beta).sqrt();
    rounds_to(n, "35.5");
}

#[test]
fn parts_of_the_capacity_add_up_to_one() {
    let fit = fitted(&SPEC_SDM91);
    for point in &fit.points {
        let share = fit.share(point.n);
        assert!((share.ideal + share.contention + share.coherency - 1.0).abs() < 1e-12);
        let efficiency = fit.law.throughput(point.n) / (fit.law.gamma * point.n);
        assert!((share.ideal - efficiency).abs() < 1e-12);
    }
    assert_eq!(fit.share(18.0).largest_loss(), Some(Part::Contention));
    // α (N - 1) < β N (N - 1) from N = α / β = 266 on.
    assert_eq!(fit.share(300.0).largest_loss(), Some(Part::Coherency));
}

/// Points on a curve of known parameters give these parameters back, whatever the unit of the throughput.
#[test]
fn exact_points_give_their_parameters_in_every_unit() {
    for unit in [1e-9, 1.0, 1e9] {
        let law = scaling::Parameters { gamma: 250.0 * unit, alpha: 0.05, beta: 0.002 };
        let points: Vec<(f64, f64)> =
            [1, 2, 4, 6, 8, 12, 16, 32].iter().map(|&n| (f64::from(n), law.throughput(f64::from(n)))).collect();
        let found = fitted(&points).law;
        assert!((found.gamma / law.gamma - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.alpha - 0.05).abs() < 1e-9 && (found.beta - 0.002).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn report_fits_80_columns() {
    let steep: Vec<(f64, f64)> = (1..=8).map(|n| (f64::from(n), 9.0 / f64::from(n * n) + f64::from(n % 2))).collect();
    assert_eq!(fitted(&steep).share(8.0).largest_loss(), Some(Part::Coherency));
    for points in [&SPEC_SDM91[..], &RAY_TRACER, &USL_README, &steep] {
        let text = scaling::to_text(&fitted(points), "CPUs");
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= 80, "{longest}");
    }
}

/// Intervals of 1,000 fits to a known law with 2 % of noise contain the truth as often as they say. Those of the R
/// package do so less often. The bounds are three standard deviations of the binomial distribution around 95 %.
#[test]
fn intervals_contain_the_truth_as_often_as_they_say() {
    let truth = scaling::Parameters { gamma: 100.0, alpha: 0.05, beta: 0.001 };
    let mut state = 7u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let mut noise = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let (mut own, mut usl) = (0, 0);
    for _ in 0..1000 {
        let mut at = |n: f64| (n, truth.throughput(n) + 10.0 * noise());
        let points: Vec<_> = [1.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0].map(&mut at).to_vec();
        let fit = fitted(&points);
        let holds = |(low, high): (scaling::Parameters, scaling::Parameters)| {
            usize::from(low.beta <= truth.beta && truth.beta <= high.beta)
        };
        own += holds(fit.intervals);
        usl += holds(fit.intervals_usl);
    }
    assert!((930..=970).contains(&own), "{own} of 1000");
    assert!(usl < 900, "{usl} of 1000");
}
