// SPDX-License-Identifier: GPL-2.0-only
//! Latency by rate of arrivals: mean, 99th percentile, and the mean by M/M/c.

use super::svg::{Paint, Spot, Svg, picture};
use maud::{Markup, html};
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement};
use plotters::prelude::{IntoFont, IntoLogRange, IntoTextStyle, ShapeStyle};
use queueing::{Curve, Point};

/// Width and height: for wide screens and narrow ones.
const SIZES: [(&str, (u32, u32)); 2] = [("wide", (760, 360)), ("narrow", (346, 300))];

/// Steps of the closed form between two points.
const STEPS: u32 = 20;

/// Plot of one curve; nothing if no request was completed.
pub fn load(title: &str, curve: &Curve) -> Markup {
    let of_point = |point: &Point| {
        let [mean, _, p99] = point.latency_ns?;
        Some([point.rate_per_s, mean.max(1) as f64 / 1e6, p99.max(1) as f64 / 1e6])
    };
    let points: Vec<[f64; 3]> = curve.points.iter().filter_map(of_point).collect();
    html! {
        @if points.is_empty() { p { "No request was completed." } }
        @else { @for (class, size) in SIZES { (draw(title, class, size, curve, &points)) } }
    }
}

/// The mean by M/M/c in milliseconds, between the points.
fn form(curve: &Curve) -> Vec<(f64, f64)> {
    let mut line = Vec::new();
    for pair in curve.points.windows(2) {
        for step in 0..=STEPS {
            let share = f64::from(step) / f64::from(STEPS);
            let rate_per_s = pair[0].rate_per_s + (pair[1].rate_per_s - pair[0].rate_per_s) * share;
            let mean = curve.forms(&Point { rate_per_s, ..pair[0].clone() })[0];
            line.extend(mean.map(|ns| (rate_per_s, ns / 1e6)));
        }
    }
    line
}

fn draw(title: &str, class: &str, size: (u32, u32), curve: &Curve, points: &[[f64; 3]]) -> Markup {
    let (mut elements, mut spots) = (Vec::new(), Vec::new());
    {
        let area = Svg { width: size.0, height: size.1, elements: &mut elements }.into_drawing_area();
        let (first, last) = (points[0][0], points[points.len() - 1][0]);
        let reach = if last > first { (first, last) } else { (first * 0.5, first * 1.5) };
        let low = points.iter().map(|point| point[1]).fold(f64::INFINITY, f64::min) * 0.8;
        let high = points.iter().map(|point| point[1].max(point[2])).fold(0.0, f64::max) * 1.2;
        let mut chart = ChartBuilder::on(&area)
            .margin_right(26)
            .margin_top(8)
            .x_label_area_size(34)
            .y_label_area_size(64)
            .build_cartesian_2d(reach.0..reach.1, (low..high).log_scale())
            .expect("drawing into memory");
        let ink = Paint::Text.color();
        let text = ("sans-serif", 12).into_font().into_text_style(&area).color(&ink);
        chart
            .configure_mesh()
            .bold_line_style(Paint::Grid.color())
            .light_line_style(plotters::style::TRANSPARENT)
            .axis_style(Paint::Axis.color())
            .label_style(text)
            .x_labels(8)
            .y_labels(6)
            .y_label_formatter(&|ms| format!("{ms} ms"))
            .draw()
            .expect("drawing into memory");
        let percentile: Vec<(f64, f64)> = points.iter().map(|point| (point[0], point[2])).collect();
        let form: Vec<(f64, f64)> = form(curve).into_iter().filter(|&(_, ms)| (low..=high).contains(&ms)).collect();
        for (number, line) in [(0, percentile), (1, form)] {
            if line.len() > 1 {
                let style = ShapeStyle::from(Paint::Line(number).color());
                chart.draw_series([PathElement::new(line, style)]).expect("drawing into memory");
            }
        }
        for [rate, mean, p99] in points {
            let at = (*rate, *mean);
            let style = ShapeStyle::from(Paint::Point(0).color()).filled();
            chart.draw_series([Circle::new(at, 4, style)]).expect("drawing into memory");
            let (x, y) = chart.backend_coord(&at);
            spots.push(Spot {
                x,
                y,
                text: format!("{rate} per second: mean {mean:.3} ms, 99th percentile {p99:.3} ms"),
            });
        }
    }
    picture(class, size, title, &elements, &spots)
}
