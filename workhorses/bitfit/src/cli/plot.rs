// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of `bitfit bench`: throughput by fragmentation and by map size.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

/// Size of the image, in pixels.
const SIZE: (u32, u32) = (1100, 1000);

/// Width of the legend, in pixels.
const LEGEND: u32 = 150;

/// Font available on every system.
const FONT: &str = "sans-serif";

/// Results of one search.
pub struct Line {
    pub name: String,
    /// Positions on the axis, and throughput in bytes per nanosecond.
    pub points: Vec<(f64, f64)>,
}

/// A chart with its axis and lines.
pub struct Chart<'a> {
    pub title: &'a str,
    pub axis: &'a str,
    pub label: Box<dyn Fn(f64) -> String>,
    /// Number of axis labels.
    pub labels: usize,
    pub lines: Vec<Line>,
}

/// Line style: historical searches thin in warm colors, this crate's searches thick in cold colors, the read limit
/// black.
struct Style {
    color: RGBColor,
    width: u32,
    dashed: bool,
}

fn style(name: &str) -> Style {
    let (color, width, dashed) = match name {
        "#1" => (RGBColor(127, 39, 4), 2, false),
        "#2" => (RGBColor(166, 54, 3), 2, true),
        "#3" => (RGBColor(230, 85, 13), 2, false),
        "#4" => (RGBColor(253, 141, 60), 2, false),
        "#5" => (RGBColor(214, 39, 40), 2, false),
        "#6" => (RGBColor(188, 143, 50), 2, true),
        "2009" => (RGBColor(140, 45, 160), 3, false),
        "portable" => (RGBColor(44, 160, 140), 2, false),
        "avx2" => (RGBColor(31, 119, 180), 3, false),
        "avx512" => (RGBColor(8, 48, 107), 3, true),
        "neon" => (RGBColor(31, 119, 180), 3, false),
        "summary" => (RGBColor(44, 140, 44), 2, false),
        _ => (BLACK, 2, true),
    };
    Style { color, width, dashed }
}

/// Draws the charts one below the other.
pub fn draw(path: &Path, charts: &[Chart<'_>]) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, chart) in root.split_evenly((charts.len(), 1)).iter().zip(charts) {
        let (left, right) = area.split_horizontally(SIZE.0 - LEGEND);
        draw_chart(&left, chart)?;
        draw_legend(&right, chart)?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_chart(area: &Area<'_>, chart: &Chart<'_>) -> Result<(), Box<dyn Error>> {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let limits = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (left, right) = limits(&mut points().map(|point| point.0));
    let (bottom, top) = limits(&mut points().map(|point| point.1));
    let bottom = 10_f64.powf(bottom.log10().floor()) * 0.95;
    let mut drawn = ChartBuilder::on(area)
        .caption(chart.title, (FONT, 20))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(left - 0.2..right + 0.2, (bottom..top * 1.6).log_scale())?;
    drawn
        .configure_mesh()
        .x_labels(chart.labels)
        .x_label_formatter(&|&x| (chart.label)(x))
        .y_label_formatter(&|&y| {
            if y < 0.95 { format!("{y:.3}").trim_end_matches('0').into() } else { format!("{y:.0}") }
        })
        .x_desc(chart.axis)
        .y_desc("GB/s of map searched")
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 15))
        .light_line_style(RGBColor(238, 238, 238))
        .bold_line_style(RGBColor(205, 205, 205))
        .draw()?;
    for line in &chart.lines {
        let Style { color, width, dashed } = style(&line.name);
        let stroke = color.stroke_width(width);
        if dashed {
            drawn.draw_series(DashedLineSeries::new(line.points.iter().copied(), 7, 4, stroke))?;
        } else {
            drawn.draw_series(LineSeries::new(line.points.iter().copied(), stroke))?;
        }
        drawn.draw_series(line.points.iter().map(|&point| Circle::new(point, 2 + width / 2, color.filled())))?;
    }
    Ok(())
}

/// Draws the legend, ordered by the lines' last values, highest first.
fn draw_legend(area: &Area<'_>, chart: &Chart<'_>) -> Result<(), Box<dyn Error>> {
    let end = |line: &Line| line.points.last().map_or(0.0, |point| point.1);
    let mut lines: Vec<&Line> = chart.lines.iter().collect();
    lines.sort_by(|a, b| end(b).total_cmp(&end(a)));
    for (row, line) in lines.iter().enumerate() {
        let y = 60 + 24 * row as i32;
        let Style { color, width, dashed } = style(&line.name);
        let pieces: &[(i32, i32)] = if dashed { &[(0, 7), (11, 18), (22, 29)] } else { &[(0, 29)] };
        for &(from, to) in pieces {
            area.draw(&PathElement::new(vec![(from, y), (to, y)], color.stroke_width(width)))?;
        }
        area.draw(&Text::new(line.name.clone(), (37, y - 8), (FONT, 15).into_font().color(&BLACK)))?;
    }
    Ok(())
}
