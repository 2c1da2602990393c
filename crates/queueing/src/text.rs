// SPDX-License-Identifier: GPL-2.0-only
//! A load curve as text of 80 columns, with a plot of characters.

use crate::{Curve, Point};
use std::fmt::Write;

/// Width and height of the plot's area, in characters.
const AREA: (usize, usize) = (66, 18);

/// Time with three significant digits and a unit.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns >= 1e9 => (ns / 1e9, "s"),
        _ if ns >= 1e6 => (ns / 1e6, "ms"),
        _ if ns >= 1e3 => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    let digits = if value >= 100.0 || unit == "ns" { 0 } else { 2 - usize::from(value >= 10.0) };
    format!("{value:.digits$} {unit}")
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), time)
}

/// Rate without needless digits.
fn rate(value: f64) -> String {
    let text = if value >= 100.0 { format!("{value:.1}") } else { format!("{value:.3}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Report of a curve: the points beside the closed forms, what follows from them, and the plot.
pub fn to_text(curve: &Curve) -> String {
    let mut text = rows(curve);
    text.push('\n');
    text += &findings(curve);
    text.push('\n');
    text += &plot(curve);
    text
}

fn rows(curve: &Curve) -> String {
    let forms = match curve.servers {
        1 => format!("{:>9}{:>9}{:>9}", "M/M/1", "M/D/1", "PS"),
        servers => format!("{:>9}", format!("M/M/{servers}")),
    };
    let forms = if curve.is_open_station { forms } else { String::new() };
    let mut text =
        format!("{:>9}{:>10}{:>7}{:>9}{:>9}{:>9}{forms}\n", "rate/s", "served/s", "CPUs", "mean", "p50", "p99");
    for point in &curve.points {
        let [mean, p50, p99] = match point.latency_ns {
            Some(all) => all.map(|ns| time(ns as f64)),
            None => [const { String::new() }; 3].map(|_: String| "-".to_owned()),
        };
        let busy = point.resources.first().map_or(0, |cpus| cpus.utilization_ppm) as f64 / 1e4;
        let _ = write!(
            text,
            "{:>9}{:>10}{:>7}{mean:>9}{p50:>9}{p99:>9}",
            rate(point.rate_per_s),
            rate(point.throughput_per_s),
            format!("{busy:.1} %")
        );
        if curve.is_open_station {
            let [mmc, md1, sharing] = curve.forms(point);
            let _ = write!(text, "{:>9}", optional(mmc));
            if curve.servers == 1 {
                let _ = write!(text, "{:>9}{:>9}", optional(md1), optional(sharing));
            }
        }
        text.push('\n');
        for disk in point.resources.iter().skip(1) {
            let _ = writeln!(text, "{:>20}{:>5.1} % busy: {}", "", disk.utilization_ppm as f64 / 1e4, disk.name);
        }
    }
    text
}

fn findings(curve: &Curve) -> String {
    let mut text = String::new();
    match curve.knee_per_s() {
        Some(knee) => {
            let _ = writeln!(text, "knee: {} per second (throughput / mean latency is greatest there)", rate(knee));
        }
        None => text += "knee: not within these rates\n",
    }
    let _ = match curve.saturated() {
        Some(what) => writeln!(text, "saturated at the highest rate: {what}"),
        None => writeln!(text, "nothing is saturated: every rate is served as fast as it arrives"),
    };
    if let Some(ns) = curve.points.last().and_then(|point| point.service_ns).filter(|_| curve.is_open_station) {
        let _ = writeln!(
            text,
            "closed forms: mean latency with the service time found at each rate\n  ({} at the last one, switches and \
             interrupts included)",
            time(ns as f64)
        );
    }
    if let Some([low, high]) = curve.points.last().and_then(|point| point.mean_interval_ns) {
        let _ = writeln!(
            text,
            "{} seeds; 95 % interval of the mean at the last rate: {} to {}",
            curve.seeds,
            time(low as f64),
            time(high as f64)
        );
    }
    text
}

/// Puts a character at a place of the plot.
fn set(area: &mut [Vec<char>], row: usize, column: usize, character: char) {
    area[row][column] = character;
}

/// Plot of mean and 99th percentile of the latency by rate, with M/M/c; the latency on a logarithmic scale.
pub fn plot(curve: &Curve) -> String {
    let (width, height) = AREA;
    let values = |point: &Point| {
        let [mean, _, p99] = point.latency_ns?;
        Some((point.rate_per_s, mean.max(1) as f64, p99.max(1) as f64))
    };
    let shown: Vec<_> = curve.points.iter().filter_map(values).collect();
    let Some((left, right)) = shown.first().zip(shown.last()).map(|(a, b)| (a.0, b.0)) else {
        return "no request was completed\n".to_owned();
    };
    let low = shown.iter().map(|&(_, mean, _)| mean).fold(f64::INFINITY, f64::min) * 0.8;
    let high = shown.iter().map(|&(_, mean, p99)| mean.max(p99)).fold(0.0, f64::max) * 1.2;
    let (low, high) = (low.ln(), high.ln());
    let row_of = |ns: f64| {
        let share = ((ns.ln() - low) / (high - low)).clamp(0.0, 1.0);
        height - 1 - (share * (height - 1) as f64).round() as usize
    };
    let column_of = |rate: f64| {
        let share = if right > left { (rate - left) / (right - left) } else { 0.5 };
        (share * (width - 1) as f64).round() as usize
    };
    let mut area = vec![vec![' '; width]; height];
    for pair in curve.points.windows(2) {
        // The service time changes little from one rate to the next.
        let columns = column_of(pair[0].rate_per_s)..=column_of(pair[1].rate_per_s);
        columns.for_each(|column| {
            let at = left + (right - left) * column as f64 / (width - 1) as f64;
            let form = curve.forms(&Point { rate_per_s: at, ..pair[0].clone() })[0];
            if let Some(ns) = form.filter(|ns| ns.ln() <= high) {
                set(&mut area, row_of(ns), column, '-');
            }
        });
    }
    for &(rate, mean, p99) in &shown {
        set(&mut area, row_of(p99), column_of(rate), '9');
        set(&mut area, row_of(mean), column_of(rate), 'o');
    }
    let mut text = String::new();
    for (index, row) in area.iter().enumerate() {
        let share = (height - 1 - index) as f64 / (height - 1) as f64;
        let label = match index % 4 {
            0 => time((low + share * (high - low)).exp()),
            _ if index == height - 1 => time(low.exp()),
            _ => String::new(),
        };
        let line: String = row.iter().collect();
        let _ = writeln!(text, "{label:>9} |{}", line.trim_end());
    }
    let _ = writeln!(text, "{:>9} +{}", "", "-".repeat(width));
    let (first, last) = (rate(left), format!("{} per second", rate(right)));
    let _ = writeln!(text, "{:>11}{first}{last:>space$}", "", space = (width - first.len()).max(last.len() + 1));
    text += "          o mean latency   9 99th percentile";
    if curve.is_open_station {
        let _ = write!(text, "   - mean by M/M/{}", curve.servers);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::tests::ideal;

    #[test]
    fn report_fits_80_columns_and_shows_knee_and_saturation() {
        let rates: Vec<f64> = (1..=12).map(|step| 100.0 * f64::from(step)).collect();
        let text = to_text(&ideal(&rates));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("knee: 500 per second") && text.contains("saturated at the highest rate: cpus"),
            "{text}"
        );
        let row = text.lines().find(|line| line.trim_start().starts_with("800 ")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words.join(" "), "800 800 80.0 % 5.00 ms 3.47 ms 23.0 ms 5.00 ms 3.00 ms 5.00 ms");
    }

    #[test]
    fn plot_of_one_point_or_none_is_not_empty() {
        assert!(plot(&ideal(&[500.0])).contains('o'));
        let mut none = ideal(&[500.0]);
        none.points[0].latency_ns = None;
        assert_eq!(plot(&none), "no request was completed\n");
        assert!(to_text(&none).contains(" - "));
    }

    #[test]
    fn times_have_three_digits() {
        let shown = [4.0, 999.0, 1_234.0, 12_340.0, 123_400.0, 1_234_000.0, 1.5e9].map(time);
        assert_eq!(shown, ["4 ns", "999 ns", "1.23 us", "12.3 us", "123 us", "1.23 ms", "1.50 s"]);
    }
}
