// SPDX-License-Identifier: GPL-2.0-only
//! Compares the spread of the model's runs with that of real runs.
//!
//! The rule was fixed before the first comparison. For each kind and measure, real runs and seeds are divided by
//! their own median, whose position is the model's accuracy, not its noise. The model's 90 % interval lies between
//! the quantiles at 5 and 95 % of its seeds. A kind agrees if at least 16 of 20 real runs are inside: with 90 % each,
//! fewer are in one case of 25.

use super::kinds::{KINDS, Kind, Play};
use super::{Place, Runs, document, quantile, spread};
use crate::predict::{Host, Weir};
use anyhow::{Context, Result};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Minimum number of real runs, per 20, inside the model's interval.
const AGREE: (usize, usize) = (16, 20);

/// Compared measures: key, and whether the machine's speed is divided out of the real runs.
const MEASURES: [(&str, bool); 4] = [("makespan_ns", true), ("cpu_ns", true), ("p50_ns", false), ("p99_ns", false)];

/// Simulates all kinds, and prints a row for each measure.
pub fn judge(place: &Place, seeds: u64, data: &Path, out: Option<&Path>) -> Result<()> {
    let real = Runs::read(data)?;
    let host = Host::measure(&Weir::of(place.weir.clone(), &place.directory)?)?;
    println!("{}\n", host.note);
    let machine = noisy(place, &host)?;
    let mut lines = out.map(File::create).transpose()?;
    println!("kind      measure      real median  p5..p95 %      model median  p5..p95 %      nominal %  inside");
    for kind in KINDS.iter().filter(|kind| !real.values(kind.name, "spin_ns").is_empty()) {
        let workload = workload(place, kind)?;
        let mut model = Vec::new();
        for seed in 0..=seeds {
            let run = run(place, &machine, &workload, seed).with_context(|| format!("{} seed {seed}", kind.name))?;
            if let Some(lines) = &mut lines {
                let line =
                    json!({"kind": kind.name, "seed": seed, "run": MEASURES.map(|(key, _)| (key, run[key].clone()))});
                writeln!(lines, "{line}")?;
            }
            model.push(run);
        }
        for (key, steady) in MEASURES {
            let runs = if steady { real.steady(kind.name, key) } else { real.values(kind.name, key) };
            row(kind, key, &runs, &model);
        }
    }
    Ok(())
}

fn row(kind: &Kind, key: &str, real: &[f64], model: &[serde_json::Value]) {
    let values: Vec<f64> = model[1..].iter().filter_map(|run| run[key].as_f64()).collect();
    let (r, m) = (spread(real), spread(&values));
    let (low, high) = (quantile(&values, 0.05) / m.median, quantile(&values, 0.95) / m.median);
    let inside = real.iter().filter(|value| (low..=high).contains(&(**value / r.median))).count();
    let agrees = inside * AGREE.1 >= real.len() * AGREE.0;
    let nominal = 100.0 * (model[0][key].as_f64().unwrap_or(f64::NAN) / m.median - 1.0);
    println!(
        "{:9} {key:11} {:12.0} {:6.1} ..{:6.1}  {:12.0} {:6.1} ..{:6.1}  {nominal:8.1}  {inside:2} of {:2} {}{}",
        kind.name,
        r.median,
        r.low,
        r.high,
        m.median,
        m.low,
        m.high,
        real.len(),
        if agrees { "agrees" } else { "DIFFERS" },
        if kind.fitted { ", fitted" } else { "" },
    );
}

/// Returns this machine with the noise of the repository's reference machine, whatever `weir` has compiled in.
fn noisy(place: &Place, host: &Host) -> Result<String> {
    let reference = fs::read_to_string(crate::root().join("machines/server-64.toml"))?;
    let noise = reference.find("[noise]").context("machines/server-64.toml has no [noise]")?;
    let text = fs::read_to_string(&host.whole).context("a machine of equal CPUs is needed")?;
    let path = place.directory.join("host.toml");
    fs::write(&path, format!("{text}\n{}", &reference[noise..]))?;
    Ok(path.display().to_string())
}

/// Returns the workload for the model: a file, or the recording that `noise play` made beside the runs.
fn workload(place: &Place, kind: &Kind) -> Result<PathBuf> {
    let file = if let Play::Command(_) = kind.play { place.recording(kind) } else { place.file(kind) };
    anyhow::ensure!(file.exists(), "{} does not exist; run `noise play` to record it", file.display());
    Ok(file)
}

/// Runs the model and returns the values that `play` keeps of real runs.
fn run(place: &Place, machine: &str, workload: &Path, seed: u64) -> Result<serde_json::Value> {
    let mut command = Command::new(&place.weir);
    command.args(["sim", "kernel", "--format", "json", "-m", machine, "--seed", &seed.to_string(), "-w"]);
    super::play::summary(&document(command.arg(workload))?)
}
