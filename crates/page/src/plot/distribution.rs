// SPDX-License-Identifier: GPL-2.0-only
//! Distribution of waiting times: the time on a logarithmic horizontal axis, the share of waits that were no longer
//! on the vertical one. On that axis the nines are equidistant (90, 99, 99.9 %), as rare long waits are what users
//! notice.

use super::svg::{Paint, Spot, Svg, picture};
use ids::Nanos;
use maud::{Markup, html};
use plotters::chart::ChartBuilder;
use plotters::coord::combinators::BindKeyPoints;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Polygon};
use plotters::prelude::{IntoFont, IntoLogRange, IntoTextStyle, ShapeStyle};
use report::Buckets;

/// Width and height: for wide screens (two plots side by side) and narrow ones.
const SIZES: [(&str, (u32, u32)); 2] = [("wide", (560, 330)), ("narrow", (346, 300))];

/// Named percentiles: parts per million of all waits, name, and meaning.
pub const NAMED: [(u64, &str, &str); 4] = [
    (500_000, "p50", "half of all waits are no longer"),
    (900_000, "p90", "90 % are no longer"),
    (990_000, "p99", "99 % are no longer"),
    (999_000, "p99.9", "99.9 % are no longer"),
];

/// Upper end of the axis: one wait in this number is longer. Beyond it there are too few waits.
const HIGHEST: f64 = 1e5;

/// Width of the label of a decade, including space.
const LABEL: u32 = 52;

/// Steps of the curve per factor of ten in rarity.
const STEPS: f64 = 24.0;

/// One curve.
pub struct Series<'a> {
    pub name: &'a str,
    /// Waits of each run.
    pub runs: Vec<&'a Buckets>,
    /// Named percentiles as in the tables: the medians over the runs.
    pub named: Vec<(usize, u64)>,
}

/// Position of a percentile on the axis: one wait in this number is longer.
fn one_in(millionths: u64) -> f64 {
    1e6 / (1_000_000 - millionths) as f64
}

/// The waiting time that all but this share do not exceed, interpolated within its bucket; `None` if there are too
/// few waits.
fn quantile(buckets: &Buckets, longer: f64) -> Option<f64> {
    let total: u64 = buckets.count.iter().sum();
    if (total as f64) * longer < 1.0 {
        return None;
    }
    let rank = total as f64 * (1.0 - longer);
    let mut seen = 0.0;
    for ((&from, &to), &count) in buckets.from.iter().zip(&buckets.to).zip(&buckets.count) {
        if seen + count as f64 >= rank {
            let part = ((rank - seen) / count as f64).clamp(0.0, 1.0);
            return Some((from as f64 + part * (to + 1 - from) as f64).max(1.0));
        }
        seen += count as f64;
    }
    buckets.to.last().map(|&to| to as f64)
}

/// Minimum, median and maximum of the runs at a position, if all runs reach it.
fn spread(series: &Series<'_>, one_in: f64) -> Option<(f64, f64, f64)> {
    let each: Option<Vec<f64>> = series.runs.iter().map(|run| quantile(run, 1.0 / one_in)).collect();
    let mut each = each?;
    each.sort_by(f64::total_cmp);
    let middle = (each[(each.len() - 1) / 2] + each[each.len() / 2]) / 2.0;
    Some((*each.first()?, middle, *each.last()?))
}

/// Highest position of any curve, and the shortest and longest waiting times.
fn extent(series: &[Series<'_>]) -> Option<(f64, f64, f64)> {
    let runs = || series.iter().flat_map(|series| &series.runs);
    let most = runs().map(|run| run.count.iter().sum::<u64>()).max().filter(|&most| most > 0)?;
    // The shortest 5 % are irrelevant, and may be 0.
    let low = runs().filter_map(|run| quantile(run, 0.95)).min_by(f64::total_cmp)?;
    let high = runs().filter_map(|run| run.to.last()).max()?;
    // Whole decades, at least one.
    let low = 10f64.powf(low.max(1.0).log10().floor());
    let high = 10f64.powf((*high as f64).log10().ceil()).max(low * 10.0);
    Some(((most as f64).clamp(10.0, HIGHEST), low, high))
}

/// The curves of these setups; `None` if there were no waits.
pub fn distribution(title: &str, series: &[Series<'_>]) -> Option<Markup> {
    let (top, low, high) = extent(series)?;
    let draw = |(class, size): (&str, (u32, u32))| draw(title, class, size, series, (top, low, high));
    Some(html! { @for size in SIZES { (draw(size)) } })
}

fn draw(
    title: &str,
    class: &str,
    size: (u32, u32),
    series: &[Series<'_>],
    (top, low, high): (f64, f64, f64),
) -> Markup {
    let (mut elements, mut spots) = (Vec::new(), Vec::new());
    {
        let area = Svg { width: size.0, height: size.1, elements: &mut elements }.into_drawing_area();
        let decades: Vec<f64> =
            std::iter::successors(Some(low), |at| Some(at * 10.0)).take_while(|at| *at <= high * 1.01).collect();
        let levels: Vec<f64> = NAMED.iter().map(|(share, ..)| one_in(*share)).filter(|level| *level <= top).collect();
        // A decade's label needs a minimum width; if there is less, every other label is omitted.
        let every = (LABEL * decades.len() as u32).div_ceil(size.0).max(1);
        let is_labelled = |ns: f64| ((ns / low).log10().round() as u32).is_multiple_of(every);
        let mut chart = ChartBuilder::on(&area)
            .margin_right(26)
            .margin_top(8)
            .x_label_area_size(34)
            .y_label_area_size(44)
            .build_cartesian_2d(
                (low..high).log_scale().with_key_points(decades),
                (1.0..top).log_scale().with_key_points(levels),
            )
            .expect("drawing into memory");
        let ink = Paint::Text.color();
        let text = ("sans-serif", 12).into_font().into_text_style(&area).color(&ink);
        chart
            .configure_mesh()
            .bold_line_style(Paint::Grid.color())
            .light_line_style(plotters::style::TRANSPARENT)
            .axis_style(Paint::Axis.color())
            .label_style(text)
            .x_label_formatter(&|ns| if is_labelled(*ns) { decade(*ns) } else { String::new() })
            .y_label_formatter(&|level| named(*level))
            .draw()
            .expect("drawing into memory");
        for (number, one) in (0u8..).zip(series) {
            let heights = (0..=(top.log10() * STEPS) as u32).map(|step| 10f64.powf(f64::from(step) / STEPS));
            let curve: Vec<(f64, (f64, f64, f64))> = heights.map_while(|at| Some((at, spread(one, at)?))).collect();
            if one.runs.len() > 1 {
                let there = curve.iter().map(|(at, (least, ..))| (least.max(low), *at));
                let back = curve.iter().rev().map(|(at, (.., most))| (most.max(low), *at));
                let band: Vec<(f64, f64)> = there.chain(back).collect();
                chart.draw_series([Polygon::new(band, Paint::Band(number).color())]).expect("drawing into memory");
            }
            let line: Vec<(f64, f64)> = curve.iter().map(|(at, (_, middle, _))| (middle.max(low), *at)).collect();
            let style = ShapeStyle::from(Paint::Line(number).color());
            chart.draw_series([PathElement::new(line, style)]).expect("drawing into memory");
            for &(index, ns) in
                one.named.iter().filter(|&&(index, ns)| ns as f64 >= low && one_in(NAMED[index].0) <= top)
            {
                let at = (ns as f64, one_in(NAMED[index].0));
                let style = ShapeStyle::from(Paint::Point(number).color()).filled();
                chart.draw_series([Circle::new(at, 3, style)]).expect("drawing into memory");
                let (x, y) = chart.backend_coord(&at);
                let (_, name, meaning) = NAMED[index];
                spots.push(Spot { x, y, text: format!("{}: {name} {}: {meaning}", one.name, Nanos(ns)) });
            }
        }
    }
    picture(class, size, title, &elements, &spots)
}

/// A power of ten in nanoseconds.
fn decade(ns: f64) -> String {
    let (unit, size) = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)]
        .into_iter()
        .find(|(_, size)| ns >= size * 0.99)
        .unwrap_or(("ns", 1.0));
    format!("{} {unit}", (ns / size).round())
}

fn named(level: f64) -> String {
    let name = NAMED.iter().find(|(share, ..)| (one_in(*share) / level - 1.0).abs() < 0.01).map(|(_, name, _)| *name);
    name.unwrap_or_default().to_owned()
}
