// SPDX-License-Identifier: GPL-2.0-only
//! CPU time by category: one column per CPU, with the categories stacked.

use super::svg::{Paint, Spot, Svg, picture};
use crate::owners::OWNERS;
use ids::Nanos;
use maud::{Markup, html};
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea;
use plotters::element::Rectangle;
use plotters::prelude::{IntoFont, IntoTextStyle, ShapeStyle};
use report::Cpu;

const SIZES: [(&str, (u32, u32)); 2] = [("wide", (1120, 240)), ("narrow", (346, 220))];

/// The columns; `None` if there are no CPU data.
pub fn cpus(title: &str, cpus: &[Cpu]) -> Option<Markup> {
    let draw = |(class, size): (&str, (u32, u32))| draw(title, class, size, cpus);
    (!cpus.is_empty()).then(|| html! { @for size in SIZES { (draw(size)) } })
}

fn draw(title: &str, class: &str, size: (u32, u32), cpus: &[Cpu]) -> Markup {
    let (mut elements, mut spots) = (Vec::new(), Vec::new());
    {
        let area = Svg { width: size.0, height: size.1, elements: &mut elements }.into_drawing_area();
        let count = cpus.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin_right(14)
            .margin_top(8)
            .x_label_area_size(28)
            .y_label_area_size(50)
            .build_cartesian_2d(-0.5..count - 0.5, 0.0..100.0)
            .expect("drawing into memory");
        let ink = Paint::Text.color();
        let text = ("sans-serif", 12).into_font().into_text_style(&area).color(&ink);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(Paint::Grid.color())
            .light_line_style(plotters::style::TRANSPARENT)
            .axis_style(Paint::Axis.color())
            .label_style(text)
            .x_labels(cpus.len().min(12))
            .y_labels(5)
            .x_label_formatter(&|at| if at.fract() == 0.0 && *at >= 0.0 { format!("{at}") } else { String::new() })
            .y_label_formatter(&|share| format!("{share} %"))
            .draw()
            .expect("drawing into memory");
        // Narrow columns have no room for gaps.
        let half = if cpus.len() > 64 { 0.5 } else { 0.42 };
        for (index, cpu) in cpus.iter().enumerate() {
            let at = index as f64;
            let times = OWNERS.map(|owner| (owner.of_cpu)(cpu));
            let total: u64 = times.iter().sum();
            let (mut past, mut words) = (0u64, Vec::new());
            for (number, (owner, time)) in (0u8..).zip(OWNERS.iter().zip(times)).filter(|(_, (_, time))| *time > 0) {
                let height = |ns: u64| ns as f64 * 100.0 / total as f64;
                let corners = [(at - half, height(past + time)), (at + half, height(past))];
                let style = ShapeStyle::from(Paint::Owner(number).color()).filled();
                chart.draw_series([Rectangle::new(corners, style)]).expect("drawing into memory");
                past += time;
                words.push(format!("{} {} ({:.1} %)", owner.name, Nanos(time), height(time)));
            }
            let (x, y) = chart.backend_coord(&(at, 50.0));
            spots.push(Spot { x, y, text: format!("CPU {index}: {}", words.join(", ")) });
        }
    }
    picture(class, size, title, &elements, &spots)
}
