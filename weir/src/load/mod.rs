// SPDX-License-Identifier: GPL-2.0-only
//! `weir load`: throughput and latency of requests against their rate of arrival.

pub mod args;
mod runs;

use crate::args::Format;
use crate::output;
use anyhow::Result;
use args::Load;
use queueing::Curve;
use report::escape;
use serde_json::{Value, json};
use std::fmt::Write;

/// A run that failed, as opposed to bad usage or input.
#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Simulates all rates and prints the curves. Returns false if a run failed.
pub fn load(args: &Load) -> Result<bool> {
    let [page] = output::check([("--report", args.report.as_deref())])?;
    let curves = match runs::curves(args, &page) {
        Err(error) if error.is::<Failed>() => {
            say!("weir: error: {}", escape(&error.to_string()));
            return Ok(false);
        }
        curves => curves?,
    };
    output::print(&match args.format {
        Format::Text => to_text(&curves),
        Format::Json => format!("{:#}\n", to_json(&curves)),
        Format::Csv => to_csv(&curves),
    })?;
    if let Some(target) = page {
        target.write(page::load(output::VERSION, &curves).as_bytes())?;
        say!("weir: the report is {}", escape(&target.path().display().to_string()));
    }
    Ok(true)
}

fn to_text(curves: &[Curve]) -> String {
    let mut text = String::new();
    for (index, curve) in curves.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{}\n", escape(&curve.name()));
        text += &queueing::to_text(curve);
    }
    text
}

/// The rows of all curves, and what follows from each; with one curve also at the top.
fn to_json(curves: &[Curve]) -> Value {
    let rows: Vec<Value> = curves.iter().flat_map(Curve::rows).collect();
    let one = if let [one] = curves { Some(one) } else { None };
    json!({
        "weir": 1,
        "load": rows,
        "knee_per_s": one.and_then(Curve::knee_per_s),
        "saturated": one.and_then(Curve::saturated),
        "curves": curves.iter().map(Curve::summary).collect::<Vec<_>>(),
    })
}

fn to_csv(curves: &[Curve]) -> String {
    let mut text = "scheduler,machine,rate_per_s,arrivals,completed,throughput_per_s,latency_mean_ns,latency_p50_ns,\
                    latency_p99_ns,utilization_ppm,mmc_ns\n"
        .to_owned();
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    for curve in curves {
        for point in &curve.points {
            let latency = point.latency_ns.map_or(",,".to_owned(), |[mean, p50, p99]| format!("{mean},{p50},{p99}"));
            let utilization = point.resources.first().map_or(0, |cpus| cpus.utilization_ppm);
            let mmc = curve.forms(point)[0].map_or(String::new(), |ns| format!("{ns:.0}"));
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{latency},{utilization},{mmc}",
                quoted(&curve.scheduler),
                quoted(&curve.machine),
                point.rate_per_s,
                point.arrivals,
                point.completed,
                point.throughput_per_s
            );
        }
    }
    text
}
