// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts of the benchmark results.

use super::super::plot::{Chart, Line};
use super::races::{BY_FRAGMENTATION, BY_SIZE, Race, Time};
use super::{FACTORS, SIZES_KIB};

/// Builds the two charts. Races that were not run leave gaps or omit a chart.
pub fn charts(races: &[Race]) -> Vec<Chart<'static>> {
    let fragmentation = |race: &Race| {
        let place = FACTORS.iter().position(|&factor| factor == race.trandfactor)?;
        (race.what == BY_FRAGMENTATION).then_some(place as f64)
    };
    let size = |race: &Race| (race.what == BY_SIZE).then(|| (race.map_bytes as f64).log2());
    let factor_name = |place: f64| match FACTORS.get(place.round() as usize) {
        _ if place.fract().abs() > 0.01 => String::new(),
        Some(0) => "no metadata".into(),
        Some(factor) => format!("1 in {factor}"),
        None => String::new(),
    };
    let size_name = |bytes: f64| match bytes.round() as u32 {
        bits @ 0..20 => format!("{} KiB", 1 << (bits.max(10) - 10)),
        bits @ 20..30 => format!("{} MiB", 1 << (bits - 20)),
        bits => format!("{} GiB", 1_u64 << (bits - 30).min(33)),
    };
    let charts = [
        Chart {
            title: "A map of 50 MiB by its fragmentation",
            axis: "blocks that are metadata",
            label: Box::new(factor_name),
            labels: FACTORS.len(),
            lines: lines(races, &fragmentation),
        },
        Chart {
            title: "Maps of all sizes, one block in 85 is metadata",
            axis: "size of the map",
            label: Box::new(size_name),
            labels: SIZES_KIB.len(),
            lines: lines(races, &size),
        },
    ];
    charts.into_iter().filter(|chart| !chart.lines.is_empty()).collect()
}

/// Throughput of every flat search and of the fastest plain read, for races with a position on the axis.
fn lines(races: &[Race], place: &dyn Fn(&Race) -> Option<f64>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |name: &str, point: (f64, f64)| match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => lines.push(Line { name: name.into(), points: vec![point] }),
    };
    for (race, place) in races.iter().filter_map(|race| Some((race, place(race)?))) {
        let speed = |time: &Time| (place, time.gb_per_s);
        let (reads, searches): (Vec<_>, Vec<_>) = race.results.iter().partition(|time| time.name.starts_with("read "));
        // A summary search skips parts of the map, so it has no throughput.
        searches.iter().filter(|time| time.name != "summary").for_each(|time| add(&time.name, speed(time)));
        if let Some(fastest) = reads.into_iter().max_by(|a, b| a.gb_per_s.total_cmp(&b.gb_per_s)) {
            add("plain read", speed(fastest));
        }
    }
    lines
}
