// SPDX-License-Identifier: GPL-2.0-only
//! Throughput by size: the measured points, the fitted law, and Amdahl's law alone.

use super::svg::{Paint, Spot, Svg, picture};
use maud::{Markup, html};
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement};
use plotters::prelude::{IntoFont, IntoTextStyle, ShapeStyle};
use scaling::Fit;

/// Width and height: for wide screens and narrow ones.
const SIZES: [(&str, (u32, u32)); 2] = [("wide", (760, 360)), ("narrow", (346, 300))];

/// Segments of a curve.
const STEPS: u32 = 120;

/// Plot of one fit.
pub fn law(title: &str, fit: &Fit, unit: &str) -> Markup {
    html! { @for (class, size) in SIZES { (draw(title, class, size, fit, unit)) } }
}

fn draw(title: &str, class: &str, size: (u32, u32), fit: &Fit, unit: &str) -> Markup {
    let (mut elements, mut spots) = (Vec::new(), Vec::new());
    {
        let area = Svg { width: size.0, height: size.1, elements: &mut elements }.into_drawing_area();
        let last = fit.largest_n();
        let size_at = |step: u32| 1.0 + (last - 1.0) * f64::from(step) / f64::from(STEPS);
        let curve = |of: scaling::Parameters| -> Vec<(f64, f64)> {
            (0..=STEPS).map(|step| (size_at(step), of.throughput(size_at(step)))).collect()
        };
        let (own, amdahl) = (curve(fit.law), curve(fit.amdahl.0));
        let values =
            own.iter().chain(&amdahl).map(|point| point.1).chain(fit.points.iter().map(|point| point.throughput));
        let top = values.fold(0.0, f64::max) * 1.05;
        let mut chart = ChartBuilder::on(&area)
            .margin_right(26)
            .margin_top(8)
            .x_label_area_size(34)
            .y_label_area_size(64)
            .build_cartesian_2d(1.0..last, 0.0..top)
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
            .draw()
            .expect("drawing into memory");
        for (number, curve) in [(0, own), (1, amdahl)] {
            let style = ShapeStyle::from(Paint::Line(number).color());
            chart.draw_series([PathElement::new(curve, style)]).expect("drawing into memory");
        }
        for point in &fit.points {
            let at = (point.n, point.throughput);
            let style = ShapeStyle::from(Paint::Point(0).color()).filled();
            chart.draw_series([Circle::new(at, 4, style)]).expect("drawing into memory");
            let (x, y) = chart.backend_coord(&at);
            let text = format!(
                "{} {unit}: {:.4} measured, {:.4} by the law, efficiency {:.1} %",
                point.n,
                point.throughput,
                fit.law.throughput(point.n),
                100.0 * fit.efficiency(*point)
            );
            spots.push(Spot { x, y, text });
        }
    }
    picture(class, size, title, &elements, &spots)
}
