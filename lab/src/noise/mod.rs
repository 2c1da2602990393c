// SPDX-License-Identifier: GPL-2.0-only
//! Size of the noise of real runs, and of the model's noise: `docs/explanation/noise.md` has the results.
//!
//! 1. `play` makes real runs of six kinds of workload under the default scheduler, alternating with a spin of fixed
//!    length, which shows changes of the machine's speed.
//! 2. `sizes` measures the sources of noise on this machine: the activity of kthreads on an idle machine, and what
//!    varies in traced runs of `periodic`.
//! 3. `judge` simulates each kind with many seeds and compares the spread with that of the real runs.

mod code;
mod judge;
mod kinds;
mod play;
mod serve;
mod sizes;
mod spreads;
mod trace;

use anyhow::{Context, Result, bail};
use kinds::Kind;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Commands of `noise`.
#[derive(clap::Subcommand, Debug)]
pub enum Task {
    /// Run all kinds of workload for real, append a line per run to a file, and record each command (root)
    Play {
        /// Number of runs of each kind
        #[arg(long, value_name = "N", default_value_t = 20)]
        rounds: u32,
        /// Only these kinds
        #[arg(long = "kind", value_name = "KIND")]
        kinds: Vec<String>,
        /// File for the lines
        #[arg(value_name = "FILE")]
        out: PathBuf,
    },
    /// Show the spread of the real runs in a file
    Show {
        /// File written by `play`
        #[arg(value_name = "FILE")]
        data: PathBuf,
    },
    /// Measure the sources of noise of this machine and print the `[noise]` section of a machine file (root)
    Sizes {
        /// Observation time of kthreads
        #[arg(long, value_name = "SECS", default_value_t = 30)]
        seconds: u64,
        /// File written by `play`: spread of whole runs of the fitted kinds
        #[arg(value_name = "FILE")]
        data: PathBuf,
    },
    /// Simulate all kinds with many seeds, and compare the spreads (root)
    Judge {
        /// Number of seeds per kind
        #[arg(long, value_name = "N", default_value_t = 100)]
        seeds: u64,
        /// File for the model's runs, one per line
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// File written by `play`
        #[arg(value_name = "FILE")]
        data: PathBuf,
    },
    /// Show the spread of the model's own runs, and the effect of a change of 1 ns
    Spreads {
        /// Number of seeds per scheduler, machine and workload
        #[arg(long, value_name = "N", default_value_t = 40)]
        seeds: u64,
    },
    /// Be the workload `server`
    #[command(hide = true)]
    Serve,
    /// Be two threads that yield to each other
    #[command(hide = true)]
    Yield,
    /// Search a CPU for gaps in which a spinning thread did not run
    #[command(hide = true)]
    Spin {
        /// Duration in seconds
        seconds: u64,
    },
}

/// Runs a command.
pub fn execute(task: &Task) -> Result<()> {
    match task {
        Task::Play { rounds, kinds, out } => play::play(&Place::new()?, *rounds, kinds, &absolute(out)?),
        Task::Show { data } => play::show(data),
        Task::Sizes { seconds, data } => sizes::measure(&Place::new()?, *seconds, data),
        Task::Judge { seeds, out, data } => judge::judge(&Place::new()?, *seeds, data, out.as_deref()),
        Task::Spreads { seeds } => spreads::show(&Place::new()?, *seeds),
        Task::Serve => Ok(serve::serve()?),
        Task::Yield => {
            code::take_turns();
            Ok(())
        }
        Task::Spin { seconds } => {
            code::spin(*seconds);
            Ok(())
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    Ok(std::path::absolute(path)?)
}

/// Program and directory of the experiment.
struct Place {
    weir: PathBuf,
    directory: PathBuf,
}

impl Place {
    /// Uses the `weir` of the environment variable WEIR, or builds one.
    fn new() -> Result<Place> {
        let root = crate::root();
        let directory = root.join("target/noise");
        kinds::prepare(&directory)?;
        if let Some(weir) = std::env::var_os("WEIR") {
            return Ok(Place { weir: weir.into(), directory });
        }
        let status = Command::new("cargo")
            .args(["build", "--release", "--locked", "-q", "-p", "weir"])
            .current_dir(root)
            .status()?;
        if !status.success() {
            bail!("building weir failed");
        }
        Ok(Place { weir: root.join("target/release/weir"), directory })
    }

    fn file(&self, kind: &Kind) -> PathBuf {
        self.directory.join(format!("{}.json", kind.name))
    }

    /// Returns the path of the recording that `play` makes of a command.
    fn recording(&self, kind: &Kind) -> PathBuf {
        self.directory.join(format!("{}.weir", kind.name))
    }

    /// Returns the shell command of a kind.
    fn shell(&self, text: &str) -> String {
        let xtask = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
        text.replace("{xtask}", &xtask.display().to_string())
    }
}

/// Returns the only run of the document that `weir` prints.
fn document(command: &mut Command) -> Result<Value> {
    Ok(document_of_all(command)?["runs"][0].take())
}

/// Returns the whole document. An ejected scheduler or a deadlock of tasks is an error here.
fn document_of_all(command: &mut Command) -> Result<Value> {
    let output = command.stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?}"))
}

/// Lines of a file of runs.
struct Runs(Vec<Value>);

impl Runs {
    fn read(path: &Path) -> Result<Runs> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let lines = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        Ok(Runs(lines.with_context(|| path.display().to_string())?))
    }

    /// Returns one measure of all runs of a kind.
    fn values(&self, kind: &str, key: &str) -> Vec<f64> {
        self.0.iter().filter(|run| run["kind"] == kind).filter_map(|run| run[key].as_f64()).collect()
    }

    /// Returns one measure of all runs of a kind, scaled to the machine's median speed.
    fn steady(&self, kind: &str, key: &str) -> Vec<f64> {
        let spins = self.values(kind, "spin_ns");
        let usual = quantile(&spins, 0.5);
        self.values(kind, key).iter().zip(&spins).map(|(value, spin)| value * usual / spin).collect()
    }
}

/// Spread of values around their median, in percent.
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

fn spread(values: &[f64]) -> Spread {
    let median = quantile(values, 0.5);
    let part = |p| 100.0 * (quantile(values, p) / median - 1.0);
    Spread { median, low: part(0.05), high: part(0.95) }
}

/// Returns a quantile of at least one value, with linear interpolation.
fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = p * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_linearly() {
        let values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!([0.0, 0.25, 0.5, 0.6, 1.0].map(|p| quantile(&values, p)), [1.0, 2.0, 3.0, 3.4, 5.0]);
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
        let spread = spread(&values);
        assert!((spread.low + 60.0).abs() < 0.01 && (spread.high - 60.0).abs() < 0.01 && spread.median == 3.0);
    }

    #[test]
    fn makespans_are_divided_by_the_machine_speed_of_the_moment() {
        let line =
            |spin: u64, makespan: u64| serde_json::json!({"kind": "a", "spin_ns": spin, "makespan_ns": makespan});
        let runs = Runs(vec![line(100, 1_000), line(200, 2_000), line(50, 500)]);
        assert_eq!(runs.steady("a", "makespan_ns"), [1_000.0, 1_000.0, 1_000.0]);
        assert!(runs.values("b", "makespan_ns").is_empty());
    }
}
