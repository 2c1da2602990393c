// SPDX-License-Identifier: GPL-2.0-only
//! `weir load`: throughput and latency of requests against their rate of arrival.

pub mod args;
mod runs;

use crate::args::Format;
use crate::output;
use anyhow::Result;
use args::Load;
use queueing::Curve;
use report::{cell, escape};
use serde_json::{Value, json};
use std::fmt::Write;

/// Simulates all rates and prints the curves.
///
/// # Errors
/// [`Failed`](crate::failed::Failed) if a run failed; others if the usage or an input is bad.
pub fn load(args: &Load) -> Result<()> {
    let [page] = output::check([("--report", args.report.as_deref())])?;
    let curves = runs::curves(args, &page)?;
    output::print(&match args.format {
        Format::Text => to_text(&curves),
        Format::Json => format!("{:#}\n", to_json(&curves)),
        Format::Csv => to_csv(&curves),
    })?;
    if let Some(target) = page {
        output::write_page(&target, &page::load(output::VERSION, &curves))?;
    }
    Ok(())
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
    for curve in curves {
        for point in &curve.points {
            let latency = point.latency_ns.map_or(",,".to_owned(), |[mean, p50, p99]| format!("{mean},{p50},{p99}"));
            let utilization = point.resources.first().map_or(0, |cpus| cpus.utilization_ppm);
            let mmc = curve.forms(point)[0].map_or(String::new(), |ns| format!("{ns:.0}"));
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{latency},{utilization},{mmc}",
                cell(&curve.scheduler),
                cell(&curve.machine),
                point.rate_per_s,
                point.arrivals,
                point.completed,
                point.throughput_per_s
            );
        }
    }
    text
}
