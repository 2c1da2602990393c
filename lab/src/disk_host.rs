// SPDX-License-Identifier: GPL-2.0-only
//! The model of disks and interrupts against this machine: closed loops of direct reads, and a spinner beside them.
//!
//! 1. Readers that do nothing but read. One alone gives the latency of a read and its CPU time; the model gets these and
//!    predicts the throughput of several. How many reads the disk serves at the same time is not known, so the model has
//!    one server, and then as many as there are readers.
//! 2. A spinner on each CPU in turn, with and without a reader on another CPU. It should lose the interrupts of the disk
//!    if they are handled on its CPU: their rate times their length.
//!
//! The workload file of both worlds is the same.

use crate::predict::Weir;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Options of `cargo xtask disk-host`.
#[derive(Args)]
#[command(after_help = "\
The machine should be idle. It takes two minutes and needs root and two CPUs.

Examples:
  cargo xtask disk-host --directory /var/tmp > lab/results/disk-host.md")]
pub struct Arguments {
    /// Directory whose disk is measured
    #[arg(long, default_value = "/var/tmp")]
    directory: PathBuf,
    /// Runs of each experiment on this machine
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=100))]
    runs: u32,
    /// Uses this program instead of an optimized build
    #[arg(long)]
    program: Option<PathBuf>,
}

const PROSE: &str = "\
# Disks and interrupts: the model against this machine

Written by `cargo xtask disk-host`: do not edit. The disk of this machine may be a virtual one: then its reads come from the
cache of the host, and the tables say nothing about disks, but something about queues, CPU time and interrupts. Of measured
numbers: lowest, median and highest of the runs. The model agrees if its number lies between the lowest and the highest.
Misses are results.
";

/// Numbers of readers; one must be first.
const READERS: [u32; 5] = [1, 2, 4, 8, 16];

/// Time of top and bottom half in the model, in nanoseconds: the default, measured on the host of `server-64.toml`.
const INTERRUPT_NS: f64 = 2_500.0;

/// Prints the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let weir = match &arguments.program {
        Some(program) => Weir::of(program.canonicalize()?, scratch.path())?,
        None => Weir::build(scratch.path())?,
    };
    let directory = arguments.directory.canonicalize().with_context(|| arguments.directory.display().to_string())?;
    let lab = Lab { weir, scratch: scratch.path(), disk: format!("sda={}", directory.display()), runs: arguments.runs };
    let mut text = PROSE.to_owned();
    lab.closed_loops(&mut text)?;
    lab.spinners(&mut text)?;
    print!("{text}");
    Ok(())
}

struct Lab<'a> {
    weir: Weir<'a>,
    scratch: &'a Path,
    /// Option `--disk` of real runs.
    disk: String,
    runs: u32,
}

/// One run with readers.
struct Reads {
    per_s: f64,
    latency_ns: f64,
    /// CPU time of a read.
    cpu_ns: f64,
}

/// Lowest, median and highest.
fn spread(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [numbers[0], numbers[numbers.len() / 2], numbers[numbers.len() - 1]]
}

fn number(run: &Value, keys: &[&str]) -> Result<f64> {
    let found = keys.iter().try_fold(run, |value, key| value.get(*key));
    found.and_then(Value::as_f64).with_context(|| format!("the run has no {}", keys.join(".")))
}

impl Lab<'_> {
    fn run(&self, arguments: &[&str]) -> Result<Value> {
        let mut document = self.weir.document(arguments)?;
        let run = document["runs"].get_mut(0).context("the report has a run")?;
        Ok(run.take())
    }

    fn real(&self, workload: &str, reads: bool) -> Result<Value> {
        let disk: &[&str] = if reads { &["--disk", &self.disk] } else { &[] };
        self.run(&[&["run", "--format", "json", "-w", workload][..], disk].concat())
    }

    /// Readers, each of which also works for this many microseconds before a read.
    fn write_readers(&self, readers: u32, run_us: u64) -> Result<&'static str> {
        let run = if run_us > 0 { format!("\"run\": {run_us}, ") } else { String::new() };
        let task = format!(r#"{{"instance": {readers}, {run}"read": 4096}}"#);
        let text = format!(r#"{{"global": {{"duration": 3}}, "tasks": {{"reader": {task}}}}}"#);
        fs::write(self.scratch.join("readers.json"), text)?;
        Ok("./readers.json")
    }

    fn closed_loops(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "\n## Readers that do nothing but read 4 KiB at random\n\n| readers | reads/s here | latency in us | CPU time in \
             us | model, 1 server | model, a server each | |\n|---|---|---|---|---|---|---|"
        )?;
        let mut alone: Option<Reads> = None;
        for readers in READERS {
            eprintln!("{readers} readers");
            let mut runs = Vec::new();
            for _ in 0..self.runs {
                runs.push(reads(&self.real(self.write_readers(readers, 0)?, true)?)?);
            }
            let pick = |of: fn(&Reads) -> f64| spread(runs.iter().map(of).collect());
            let (rate, latency, cpu) = (pick(|run| run.per_s), pick(|run| run.latency_ns), pick(|run| run.cpu_ns));
            let median = Reads { per_s: rate[1], latency_ns: latency[1], cpu_ns: cpu[1] };
            let known = alone.get_or_insert(median);
            let model = [self.predict(readers, 1, known)?, self.predict(readers, readers, known)?];
            let agrees = |model: f64| (rate[0]..=rate[2]).contains(&model);
            let verdict = match model.map(agrees) {
                _ if readers == 1 => "given",
                [true, true] => "both agree",
                [true, false] => "1 server agrees",
                [false, true] => "a server each agrees",
                [false, false] if model[0] < rate[0] && model[1] > rate[2] => "**between the models**",
                [false, false] => "**neither agrees**",
            };
            writeln!(
                text,
                "| {readers} | {} | {} | {} | {:.0} | {:.0} | {verdict} |",
                rate.map(|rate| format!("{rate:.0}")).join(" "),
                latency.map(|ns| format!("{:.1}", ns / 1e3)).join(" "),
                cpu.map(|ns| format!("{:.1}", ns / 1e3)).join(" "),
                model[0],
                model[1]
            )?;
        }
        Ok(())
    }

    /// Reads for each second in the model. Of the latency of a read alone, its CPU time is work, rounded to microseconds,
    /// and the interrupt is that of the model; the rest is the service time of the disk.
    fn predict(&self, readers: u32, servers: u32, alone: &Reads) -> Result<f64> {
        let work_us = (alone.cpu_ns / 1e3).round();
        let service = alone.latency_ns - work_us * 1e3 - INTERRUPT_NS;
        ensure!(service > 0.0, "a read takes {} ns, and {} ns of it are CPU time", alone.latency_ns, alone.cpu_ns);
        let disk = format!("nvme,read_ns={service:.0},mb_s=100000,servers={servers},interrupts=one");
        let workload = self.write_readers(readers, work_us as u64)?;
        let run = self.run(&["sim", "kernel", "-m", "host", "-w", workload, "--disk", &disk, "--format", "json"])?;
        Ok(reads(&run)?.per_s)
    }

    fn spinners(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "\n## A spinner beside a reader on the other CPU\n\nThe loss is the time that the spinner needs longer. By the \
             formula it is the rate of the reads times {:.1} us on the CPU that\nhandles the interrupts, and nothing on the \
             other. The model has the same rate.\n\n| spinner on | reads/s | loss here | by the formula | |\n\
             |---|---|---|---|---|",
            INTERRUPT_NS / 1e3
        )?;
        let mut losses: Vec<(u32, [f64; 3], f64)> = Vec::new();
        for cpu in [0u32, 1] {
            eprintln!("a spinner on CPU {cpu}");
            let spinner = format!(r#"{{"tasks": {{"spin": {{"loop": 1, "run": 2000000, "cpus": [{cpu}]}}}}}}"#);
            let reader = format!(r#"{{"tasks": {{"reader": {{"read": 4096, "cpus": [{}]}}}}}}"#, 1 - cpu);
            fs::write(self.scratch.join("spin.json"), spinner)?;
            fs::write(self.scratch.join("read.json"), reader)?;
            let (mut loss, mut rates) = (Vec::new(), Vec::new());
            for _ in 0..self.runs {
                let alone = number(&self.real("./spin.json", false)?, &["makespan_ns"])?;
                let run = self.real("./spin.json+./read.json", true)?;
                let beside = number(&run, &["makespan_ns"])?;
                loss.push((beside - alone) / beside);
                rates.push(reads(&run)?.per_s);
            }
            losses.push((cpu, spread(loss), spread(rates)[1]));
        }
        // The interrupts come to the CPU whose spinner loses more.
        let handles = if losses[0].1[1] >= losses[1].1[1] { 0 } else { 1 };
        for (cpu, loss, rate) in losses {
            let formula = if cpu == handles { rate * INTERRUPT_NS / 1e9 } else { 0.0 };
            let agrees = (loss[0]..=loss[2]).contains(&formula);
            let percent = loss.map(|loss| format!("{:.1} %", loss * 100.0)).join(" ");
            let verdict = if agrees { "agrees" } else { "**does not agree**" };
            writeln!(text, "| CPU {cpu} | {rate:.0} | {percent} | {:.1} % | {verdict} |", formula * 100.0)?;
        }
        writeln!(text, "\nWhich CPU handles the interrupts is taken from the larger loss.")?;
        Ok(())
    }
}

/// Reads of the only disk in a run.
fn reads(run: &Value) -> Result<Reads> {
    let disk = run["disks"].get(0).context("the run has a disk")?;
    let (count, elapsed) = (number(disk, &["reads"])?, number(run, &["elapsed_ns"])?);
    ensure!(count > 0.0, "the run has no reads");
    let tasks = run["tasks"].as_array().context("the run has tasks")?;
    let readers = tasks.iter().filter(|task| task["name"].as_str().is_some_and(|name| name.contains("reader")));
    let cpu_ns: f64 = readers.filter_map(|task| task["cpu_ns"].as_f64()).sum();
    let latency_ns = number(disk, &["latency_ns", "mean"])?;
    Ok(Reads { per_s: count * 1e9 / elapsed, latency_ns, cpu_ns: cpu_ns / count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_a_run_are_counted_by_second_with_their_cpu_time() {
        let text = r#"{"elapsed_ns": 2000000000, "disks": [{"reads": 1000, "latency_ns": {"mean": 50}}],
            "tasks": [{"name": "reader-0", "cpu_ns": 3000}, {"name": "spin", "cpu_ns": 9}, {"name": "reader-1", "cpu_ns": 1000}]}"#;
        let found = reads(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((found.per_s, found.latency_ns, found.cpu_ns), (500.0, 50.0, 4.0));
        assert!(reads(&serde_json::json!({"disks": []})).is_err());
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), [1.0, 2.0, 3.0]);
    }
}
