// SPDX-License-Identifier: GPL-2.0-only
//! Spread of the model's own runs over seeds, and the effect of a meaningless change.
//!
//! The change, a context switch that is 1 ns shorter, is a placebo. Where runs are chaotic, a run of the placebo with
//! the same seed is an independent sample, and pairing the seeds of two schedulers gains nothing: the *pairing* of a
//! cell, the standard deviation of paired differences divided by that of unpaired ones, is then near 1. It is near 0
//! where both do the same.

use super::{Place, document_of_all, quantile, spread};
use anyhow::{Context, Result};
use machine_model::presets;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const SCHEDULERS: [&str; 3] = ["fifo", "bfs", "kernel"];
const MACHINES: [&str; 3] = ["laptop-2c4t", "desktop-4c", "server-64"];
const WORKLOADS: [&str; 4] = ["build", "preempt-mix", "hogs", "pingpong"];
const MEASURES: [&str; 3] = ["makespan_ns", "mean_ns", "p99_ns"];

/// Values by scheduler, machine, workload and measure.
type Cells = BTreeMap<(usize, usize, usize, usize), Vec<f64>>;

/// Simulates all cells, with and without the placebo, and prints a row for each.
pub fn show(place: &Place, seeds: u64) -> Result<()> {
    let machines = MACHINES.map(str::to_owned);
    let placebos = MACHINES.map(|name| placebo(&place.directory, name));
    let placebos: Vec<String> = placebos.into_iter().collect::<Result<_>>()?;
    let (plain, changed) = (play(place, &machines, seeds)?, play(place, &placebos, seeds)?);
    println!("scheduler machine     workload    measure           median     p5..p95 %       pairing");
    for (&(scheduler, machine, workload, measure), values) in &plain {
        let (this, that) = (spread(values), &changed[&(scheduler, machine, workload, measure)]);
        println!(
            "{:9} {:11} {:11} {:11} {:12.0}  {:6.1} ..{:7.1}  {:>8}",
            SCHEDULERS[scheduler],
            MACHINES[machine],
            WORKLOADS[workload],
            MEASURES[measure],
            this.median,
            this.low,
            this.high,
            pairing(values, that).map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        );
    }
    Ok(())
}

/// Returns the standard deviation of paired differences divided by that of unpaired ones; `None` if nothing varies.
fn pairing(left: &[f64], right: &[f64]) -> Option<f64> {
    let variance = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
    };
    let differences: Vec<f64> = left.iter().zip(right).map(|(left, right)| left - right).collect();
    let strangers = variance(left) + variance(right);
    (strangers > 0.0).then(|| (variance(&differences) / strangers).sqrt())
}

/// Writes a machine file like the preset, with a context switch that is 1 ns shorter.
fn placebo(directory: &Path, name: &str) -> Result<String> {
    let (_, text) = presets().iter().find(|(preset, _)| *preset == name).context("a preset")?;
    let (before, rest) = text.split_once("context_switch_ns = ").context("every preset gives its costs")?;
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let switch: u64 = rest[..digits].parse()?;
    let path = directory.join(format!("{name}.toml"));
    fs::write(&path, format!("{before}context_switch_ns = {}{}", switch - 1, &rest[digits..]))?;
    Ok(path.display().to_string())
}

fn play(place: &Place, machines: &[String], seeds: u64) -> Result<Cells> {
    let mut cells = Cells::new();
    for seed in 1..=seeds {
        let mut command = Command::new(&place.weir);
        command.arg("sim").args(SCHEDULERS).args(["--format", "json", "--seed", &seed.to_string()]);
        machines.iter().for_each(|machine| _ = command.args(["-m", machine]));
        WORKLOADS.iter().for_each(|workload| _ = command.args(["-w", workload]));
        let document = document_of_all(&mut command)?;
        let runs: Vec<Value> = document["runs"].as_array().context("no runs")?.clone();
        let mut runs = runs.iter();
        for workload in 0..WORKLOADS.len() {
            for machine in 0..MACHINES.len() {
                for scheduler in 0..SCHEDULERS.len() {
                    let run = super::play::summary(runs.next().context("a run for each cell")?)?;
                    for (measure, key) in MEASURES.iter().enumerate() {
                        if let Some(value) = run[key].as_f64() {
                            cells.entry((scheduler, machine, workload, measure)).or_default().push(value);
                        }
                    }
                }
            }
        }
    }
    cells.retain(|_, values| quantile(values, 1.0) > 0.0);
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairing_is_0_for_correlated_runs_and_near_1_for_independent_ones() {
        let left = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(pairing(&left, &left), Some(0.0));
        assert_eq!(pairing(&left, &[1.5, 2.5, 3.5, 4.5]), Some(0.0), "a constant difference is no spread");
        let strangers = pairing(&left, &[3.0, 1.0, 4.0, 2.0]).unwrap();
        assert!((0.9..1.1).contains(&strangers), "{strangers}");
        assert_eq!(pairing(&[5.0, 5.0], &[5.0, 5.0]), None);
    }
}
