// SPDX-License-Identifier: GPL-2.0-only
//! A fit as text of 80 columns, with a plot of characters.

use crate::{Fit, Part};
use std::fmt::Write;

/// Width and height of the plot's area, in characters.
const AREA: (usize, usize) = (68, 16);

/// Number with four significant digits, without an exponent unless it is very small or large.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    match digits {
        8.. | ..=-9 => format!("{value:.3e}"),
        _ => format!("{value:.*}", digits.max(0) as usize),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Report of a fit: the law, what follows from it, the points, and the plot. `unit` names the sizes, such as CPUs.
pub fn to_text(fit: &Fit, unit: &str) -> String {
    law(fit) + &findings(fit, unit) + "\n" + &rows(fit, unit) + "\n" + &plot(fit, unit)
}

fn law(fit: &Fit) -> String {
    let mut text = "X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1))\n\n".to_owned();
    let (law, error, (low, high)) = (fit.law, fit.standard_errors, fit.intervals);
    let rows = [
        ("gamma", law.gamma, error.gamma, low.gamma, high.gamma, "throughput at N = 1"),
        ("alpha", law.alpha, error.alpha, low.alpha, high.alpha, "contention"),
        ("beta", law.beta, error.beta, low.beta, high.beta, "coherency"),
    ];
    let _ = writeln!(text, "{:8}{:>12}{:>14}   {:24}", "", "estimate", "std. error", "95 % interval");
    for (name, value, error, low, high, what) in rows {
        let interval = format!("{} to {}", number(low), number(high));
        let _ = writeln!(text, "{name:8}{:>12}{:>14}   {interval:24}{what}", number(value), number(error));
    }
    let (amdahl, sd) = fit.amdahl;
    let _ = writeln!(
        text,
        "\nresidual standard deviation {} with {} degrees of freedom\nAmdahl alone (beta = 0): gamma {}, alpha {}, residual \
         s.d. {}",
        number(fit.residual_sd),
        fit.degrees_of_freedom,
        number(amdahl.gamma),
        number(amdahl.alpha),
        number(sd)
    );
    text
}

fn findings(fit: &Fit, unit: &str) -> String {
    let mut text = String::new();
    match fit.peak() {
        Some(peak) => {
            let _ = writeln!(text, "peak: {} at {} {unit}", number(peak.throughput), number(peak.n));
            if peak.extrapolated {
                let _ = writeln!(
                    text,
                    "  extrapolated: the largest measured size is {}; measure near {} to confirm it",
                    fit.largest_n(),
                    peak.n.round()
                );
            }
        }
        None => text += "no peak in the data: the interval of beta includes 0\n",
    }
    if let Some((limit, optimal)) = fit.amdahl_limit().zip(fit.optimal_n()) {
        let _ =
            writeln!(text, "limit by contention: {}; linear scaling reaches it at {}", number(limit), number(optimal));
    }
    let insignificant = fit.not_significant();
    if !insignificant.is_empty() {
        let _ = writeln!(text, "not distinguishable from 0 in these data: {}", insignificant.join(", "));
    }
    let above: Vec<String> =
        fit.points.iter().filter(|point| fit.efficiency(**point) > 1.05).map(|p| p.n.to_string()).collect();
    if !above.is_empty() {
        let _ = writeln!(text, "above linear scaling at {unit} {}: the law cannot describe that", above.join(", "));
    }
    let n = fit.largest_n();
    let share = fit.share(n);
    let _ = writeln!(
        text,
        "at {n} {unit}: {} ideal, {} contention, {} coherency",
        percent(share.ideal),
        percent(share.contention),
        percent(share.coherency)
    );
    text += match share.largest_loss() {
        Some(Part::Contention) => "largest loss: contention, work that one participant does at a time\n",
        Some(Part::Coherency) => {
            "largest loss: coherency, the cost that participants cause each other, such as\n  transfers of a cache line\n"
        }
        _ => "no loss above 1 %\n",
    };
    text
}

fn rows(fit: &Fit, unit: &str) -> String {
    let mut text = format!(
        "{unit:>8}{:>13}{:>12}{:>11}{:>11}{:>12}{:>11}\n",
        "throughput", "fitted", "residual", "efficiency", "contention", "coherency"
    );
    for point in &fit.points {
        let (fitted, share) = (fit.law.throughput(point.n), fit.share(point.n));
        let _ = writeln!(
            text,
            "{:>8}{:>13}{:>12}{:>11}{:>11}{:>12}{:>11}",
            point.n,
            number(point.throughput),
            number(fitted),
            number(point.throughput - fitted),
            percent(fit.efficiency(*point)),
            percent(share.contention),
            percent(share.coherency)
        );
    }
    text
}

/// Plot of the points, the law and Amdahl's law alone.
pub fn plot(fit: &Fit, unit: &str) -> String {
    let (width, height) = AREA;
    let (law, (amdahl, _)) = (fit.law, fit.amdahl);
    let last = fit.largest_n();
    let n_of = |column: usize| 1.0 + (last - 1.0) * column as f64 / (width - 1) as f64;
    let curves = || (0..width).map(n_of).map(|n| (law.throughput(n), amdahl.throughput(n)));
    let top = curves().flat_map(|(a, b)| [a, b]).chain(fit.points.iter().map(|point| point.throughput));
    let top = top.fold(0.0, f64::max);
    let mut area = vec![vec![' '; width]; height];
    let row_of = |value: f64| height - 1 - ((value / top * (height - 1) as f64).round() as usize).min(height - 1);
    for (column, (fitted, alone)) in curves().enumerate() {
        area[row_of(alone)][column] = '.';
        area[row_of(fitted)][column] = '-';
    }
    for point in &fit.points {
        let column = ((point.n - 1.0) / (last - 1.0) * (width - 1) as f64).round() as usize;
        area[row_of(point.throughput)][column] = 'o';
    }
    let mut text = String::new();
    for (index, row) in area.iter().enumerate() {
        let label = match index {
            0 => number(top),
            _ if index == height - 1 => "0".to_owned(),
            _ => String::new(),
        };
        let line: String = row.iter().collect();
        let _ = writeln!(text, "{label:>9} |{}", line.trim_end());
    }
    let _ = writeln!(text, "{:>9} +{}", "", "-".repeat(width));
    let _ = writeln!(text, "{:>11}1{:>right$}", "", format!("{last} {unit}"), right = width - 1);
    text += "          o measured   - law   . Amdahl alone\n";
    text
}
