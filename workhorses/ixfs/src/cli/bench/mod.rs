// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ixfs bench`: the same operations on ixfs, on the FUSE floor, on tmpfs and on the disk's file system, in one run.

pub mod floor;
mod operations;
mod places;
mod recovery;
mod work;

use super::arguments::Bench;
use anyhow::{Context, bail};
use places::{NAMES, Places};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Unit in which times are printed for people.
#[derive(Clone, Copy)]
enum Unit {
    Microseconds,
    Milliseconds,
}

/// What was measured of one operation.
struct Row {
    name: String,
    unit: Unit,
    /// Nanoseconds by place and round; empty where the operation was not run.
    times: [Vec<u64>; NAMES.len()],
}

impl Row {
    fn new(name: &str, unit: Unit) -> Row {
        Row { name: name.to_owned(), unit, times: Default::default() }
    }
}

/// Fails once a signal has asked for the end, so that what was mounted is unmounted.
fn unless_stopped(stopped: &AtomicBool) -> anyhow::Result<()> {
    if stopped.load(Ordering::Relaxed) {
        bail!("interrupted; the file systems are unmounted");
    }
    Ok(())
}

/// `ixfs bench`.
pub fn run(options: &Bench) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("bench mounts file systems: run it as user 0");
    }
    operations::check(&options.only)?;
    let directory = &options.directory;
    let mut rows = Vec::new();
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stopped.clone())?;
    }
    {
        let places = Places::new(directory, &options.size).with_context(|| format!("{}", directory.display()))?;
        rows.extend(operations::measure(&places, options.rounds, options.files, &options.only, &stopped)?);
        if let Some(tree) = &options.tree {
            rows.push(work::measure(&places, tree, &options.command, options.slow_rounds, &stopped)?);
        }
    }
    if let Some(size) = options.recovery {
        rows.push(recovery::measure(directory, size, options.slow_rounds, &stopped)?);
    }
    print(options, &rows);
    Ok(ExitCode::SUCCESS)
}

/// Value below which `percent` of the values lie.
fn quantile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// Ratios of the rounds in thousandths: lower quartile, median, upper quartile. `None` if one side was not run.
fn ratio(subject: &[u64], other: &[u64]) -> Option<[u64; 3]> {
    let ratios: Vec<u64> = subject.iter().zip(other).map(|(a, b)| a * 1000 / (*b).max(1)).collect();
    (!ratios.is_empty()).then(|| [25, 50, 75].map(|percent| quantile(&ratios, percent)))
}

fn print(options: &Bench, rows: &[Row]) {
    if options.format.is_json() {
        rows.iter().for_each(|row| println!("{}", as_json(row)));
        return;
    }
    println!("| operation | ixfs | floor | tmpfs | disk | ixfs/floor | ixfs/tmpfs | ixfs/disk |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let time = |times: &Vec<u64>| {
            let ns = quantile(times, 50) as f64;
            match row.unit {
                _ if times.is_empty() => "-".to_owned(),
                Unit::Microseconds => format!("{:.2} us", ns / 1e3),
                Unit::Milliseconds => format!("{:.0} ms", ns / 1e6),
            }
        };
        let compared = |at: usize| match ratio(&row.times[0], &row.times[at]) {
            None => "-".to_owned(),
            Some(quartiles) => {
                let [low, mid, high] = quartiles.map(|thousandths| thousandths as f64 / 1e3);
                format!("{mid:.2} ({low:.2} to {high:.2})")
            }
        };
        let times: Vec<String> = row.times.iter().map(time).collect();
        let ratios: Vec<String> = (1..NAMES.len()).map(compared).collect();
        println!("| {} | {} | {} |", row.name, times.join(" | "), ratios.join(" | "));
    }
}

fn as_json(row: &Row) -> serde_json::Value {
    let ran = |at: &usize| !row.times[*at].is_empty();
    let times: serde_json::Map<_, _> = (0..NAMES.len())
        .filter(ran)
        .map(|at| (format!("{}_ns", NAMES[at]), json!(quantile(&row.times[at], 50))))
        .collect();
    let ratios: serde_json::Map<_, _> = (1..NAMES.len())
        .filter_map(|at| {
            let [low, mid, high] = ratio(&row.times[0], &row.times[at])?.map(|thousandths| thousandths as f64 / 1e3);
            Some((NAMES[at].to_owned(), json!({ "quartile_low": low, "median": mid, "quartile_high": high })))
        })
        .collect();
    json!({ "operation": row.name, "rounds": row.times[0].len(), "median": times, "ratio": ratios })
}
