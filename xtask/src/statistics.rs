// SPDX-License-Identifier: GPL-2.0-only
//! How good are the marks of a comparison?
//!
//! A policy is compiled once more with a delay in its dispatch whose length is a tunable, 0 by default: a test of that
//! tunable is all that is added. Two questions follow.
//!
//! 1. Placebo: how many tables have any mark if the copy runs with a delay of 0, on seeds that the policy did not have?
//! 2. Plants: with delays that lengthen the makespan by 1, 2, 3 and 5 %, in how many tables is it marked as worse?
//!
//! A pool of seeds is run once. Tables are then drawn from it: as many seeds as `weir sim` takes by default, without
//! repetition within a table. The length of a delay is found with further seeds of its own, and the effect that it
//! really had over the pool stands beside the one that was wanted.

use anyhow::{Context, Result, bail, ensure};
use report::{Judged, Record};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `statistics`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The table goes to standard output; docs/statistics.md has that of the last release.")]
pub struct Arguments {
    /// Seeds in the pool
    #[arg(long, value_name = "N", default_value_t = 96)]
    pool: u64,
    /// Seeds of a table
    #[arg(long, value_name = "N", default_value_t = 16)]
    seeds: usize,
    /// Tables to draw for each number
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tables: u32,
    /// The program to run [default: target/release/weir, built now]
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
    /// Only the setting of this number, counted from 1
    #[arg(long, value_name = "N")]
    only: Option<usize>,
}

/// What is run.
struct Setting {
    policy: &'static str,
    machine: &'static str,
    workload: &'static str,
    /// The makespan exists, so that it can be lengthened.
    is_finite: bool,
}

const fn finite(policy: &'static str, machine: &'static str, workload: &'static str) -> Setting {
    Setting { policy, machine, workload, is_finite: true }
}

const fn endless(policy: &'static str, machine: &'static str, workload: &'static str) -> Setting {
    Setting { policy, machine, workload, is_finite: false }
}

/// Chosen before any of them was run: several kinds of work, sizes of machines, and both policies.
const SETTINGS: [Setting; 7] = [
    finite("fifo", "laptop-2c4t", "bursts"),
    finite("bfs", "desktop-4c", "mix"),
    finite("fifo", "server-64", "crowd"),
    finite("bfs", "laptop-2c4t", "build"),
    endless("fifo", "laptop-2c4t", "preempt-mix"),
    endless("bfs", "desktop-4c", "periodic-4"),
    endless("bfs", "laptop-2c4t", "lock"),
];

/// Workloads that come to an end; those that ship with weir do not.
const WORKLOADS: [(&str, &str); 3] = [
    ("bursts", r#"{"tasks": {"burst": {"instance": 12, "loop": 150, "run": 400, "sleep": 700}}}"#),
    (
        "mix",
        r#"{"tasks": {"long": {"instance": 6, "loop": 6, "run": 30000, "sleep": 2000},
            "short": {"instance": 8, "loop": 120, "run": 250, "sleep": 1500},
            "low": {"instance": 2, "priority": 10, "loop": 20, "run": 5000, "sleep": 500}}}"#,
    ),
    ("crowd", r#"{"tasks": {"one": {"instance": 160, "loop": 12, "run": 2000, "sleep": 900}}}"#),
];

/// Effects that are planted, in percent of the makespan.
const PLANTS: [u64; 4] = [1, 2, 3, 5];

/// Seeds that the length of a delay is found with.
const CALIBRATION: u64 = 8;

/// Runs all settings and prints the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.pool >= 2 * arguments.seeds as u64, "--pool must be at least twice --seeds");
    let root = crate::root();
    let weir = match &arguments.weir {
        Some(weir) => weir.clone(),
        None => {
            let build = ["build", "--release", "--locked", "-q", "-p", "weir"];
            let built = Command::new("cargo").args(build).current_dir(root).status()?;
            ensure!(built.success(), "weir cannot be built");
            root.join("target/release/weir")
        }
    };
    let folder = root.join("target/statistics");
    std::fs::create_dir_all(&folder)?;
    for (name, text) in WORKLOADS {
        std::fs::write(folder.join(format!("{name}.json")), text)?;
    }
    println!("| setting | makespan varies by | placebo, paired | placebo, unpaired | planted (had): found |");
    println!("|---|---|---|---|---|");
    for (index, setting) in SETTINGS.iter().enumerate() {
        if arguments.only.is_none_or(|only| only == index + 1) {
            println!("{}", measure(setting, &weir, &folder, arguments)?);
        }
    }
    Ok(())
}

/// A row of the table.
fn measure(setting: &Setting, weir: &Path, folder: &Path, arguments: &Arguments) -> Result<String> {
    let object = compile(setting.policy, folder)?;
    let runs = |delay: u64, seeds: u64| {
        let scheduler = format!("{},plant={delay}", object.display());
        eprintln!("{} {} {} delay {delay}: {seeds} seeds", setting.policy, setting.machine, setting.workload);
        simulate(weir, &scheduler, setting, folder, seeds)
    };
    let original = simulate(weir, setting.policy, setting, folder, arguments.pool)?;
    let copy = runs(0, 2 * arguments.pool)?;
    let fresh = &copy[arguments.pool as usize..];
    let mut draw = Draw(1);
    let mut placebo = |paired: bool| {
        let hits = (0..arguments.tables).filter(|_| {
            let a = some(&original, arguments.seeds, &mut draw);
            let b = some(fresh, arguments.seeds, &mut draw);
            table(&a, &b, paired).iter().any(Judged::is_marked)
        });
        percent(hits.count(), arguments.tables)
    };
    let (paired, unpaired) = (placebo(true), placebo(false));
    let mut row = format!("| `{}`, {}, {} | ", setting.policy, setting.machine, setting.workload);
    let spread = if setting.is_finite { spread(&original)? } else { "-".to_owned() };
    let _ = write!(row, "{spread} | {paired} | {unpaired} | ");
    if setting.is_finite {
        let slope = slope(&runs)?;
        let mut cells = Vec::new();
        for plant in PLANTS {
            let delay = (plant as f64 / slope).round() as u64;
            let planted = runs(delay, arguments.pool)?;
            let hits = (0..arguments.tables).filter(|_| found(&original, &planted, arguments.seeds, &mut draw));
            let had = 100.0 * (mean(&planted)? / mean(&original)? - 1.0);
            cells.push(format!("{plant} % ({had:.1}): {}", percent(hits.count(), arguments.tables)));
        }
        row += &cells.join("; ");
    } else {
        row += "-";
    }
    Ok(row + " |")
}

/// Percent of the makespan for each unit of delay. The delay that it is asked at must matter.
fn slope(runs: &dyn Fn(u64, u64) -> Result<Vec<Record>>) -> Result<f64> {
    let without = mean(&runs(0, CALIBRATION)?)?;
    let mut delay = 50;
    while delay < 1_000_000 {
        let effect = 100.0 * (mean(&runs(delay, CALIBRATION)?)? / without - 1.0);
        if effect > 3.0 {
            return Ok(effect / delay as f64);
        }
        delay *= if effect > 0.3 { 4 } else { 10 };
    }
    bail!("no delay lengthens the makespan");
}

/// A table of the same seeds for both; whether the makespan of the second is marked as worse.
fn found(a: &[Record], b: &[Record], seeds: usize, draw: &mut Draw) -> bool {
    let chosen = draw.choose(a.len(), seeds);
    let pick = |runs: &[Record]| chosen.iter().map(|&index| runs[index].clone()).collect::<Vec<_>>();
    let table = table(&pick(a), &pick(b), true);
    table.iter().any(|judged| judged.measure.key == "makespan_ns" && judged.is_worse())
}

/// The table of a comparison, by the code that `weir sim` prints it with. `paired` takes the n-th runs for a pair.
fn table(a: &[Record], b: &[Record], paired: bool) -> Vec<Judged> {
    let side = |runs: &[Record], name: &str, first: u64| {
        let numbered = |(index, run): (usize, &Record)| {
            let mut run = run.clone();
            run.tags.scheduler = name.to_owned();
            run.tags.seed = Some(first + index as u64);
            run
        };
        runs.iter().enumerate().map(numbered).collect::<Vec<_>>()
    };
    let both = [side(a, "policy", 1), side(b, "copy", if paired { 1 } else { 1_000_000 })].concat();
    report::judge(&both)
}

/// As many runs as a table has, none twice.
fn some(runs: &[Record], seeds: usize, draw: &mut Draw) -> Vec<Record> {
    draw.choose(runs.len(), seeds).into_iter().map(|index| runs[index].clone()).collect()
}

fn makespans(runs: &[Record]) -> Result<Vec<f64>> {
    let one = |run: &Record| run.value("makespan_ns").map(|ns| ns as f64).context("a run without a makespan");
    runs.iter().map(one).collect()
}

fn mean(runs: &[Record]) -> Result<f64> {
    let all = makespans(runs)?;
    Ok(all.iter().sum::<f64>() / all.len() as f64)
}

/// Standard deviation of the makespan.
fn spread(runs: &[Record]) -> Result<String> {
    let (all, mean) = (makespans(runs)?, mean(runs)?);
    let variance = all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (all.len() - 1) as f64;
    Ok(format!("{:.2} %", 100.0 * variance.sqrt() / mean))
}

fn percent(hits: usize, tables: u32) -> String {
    format!("{:.1} %", 100.0 * hits as f64 / f64::from(tables))
}

/// The policy with a delay in its dispatch: calls of a helper that reads the clock, as a program can waste time.
fn compile(policy: &str, folder: &Path) -> Result<PathBuf> {
    let path = crate::root().join(format!("policies/{policy}/{policy}.bpf.c"));
    let source = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let include = "#include <weir/scx.bpf.h>\n";
    let delay = "
const volatile u32 plant = 0;
static __noinline void waste(void)
{
	u64 (*clock)(void) = (void *)5; /* bpf_ktime_get_ns */

	for (u32 i = 0; i < plant; i++)
		clock();
}
";
    let head = source.find(&format!("{policy}_dispatch,")).context("no dispatch in the policy")?;
    let body = head + source[head..].find("{\n").context("no body of dispatch")? + 2;
    let planted = format!("{}\twaste();\n{}", &source[..body], &source[body..]);
    ensure!(planted.matches(include).count() == 1, "{policy} includes its headers in another way");
    let planted = planted.replace(include, &format!("{include}{delay}"));
    let file = folder.join(format!("{policy}.bpf.c"));
    std::fs::write(&file, planted)?;
    let object = folder.join(format!("{policy}.bpf.o"));
    bpf_clang::compile(&file, &object, &[&format!("-Ipolicies/{policy}")])?;
    let profile = crate::root().join(format!("policies/{policy}/profile.toml"));
    let tunable = "\n[tunables.plant]\ntype = \"integer\"\nrange = [0, 4000000000]\ndoc = \"calls of the clock\"\n";
    let profile = std::fs::read_to_string(profile)? + tunable;
    std::fs::write(folder.join(format!("{policy}.toml")), profile)?;
    Ok(object)
}

/// Runs of the seeds 1 to `seeds`, in that order.
fn simulate(weir: &Path, scheduler: &str, setting: &Setting, folder: &Path, seeds: u64) -> Result<Vec<Record>> {
    let own = WORKLOADS.iter().any(|(name, _)| *name == setting.workload);
    let workload = folder.join(format!("{}.json", setting.workload));
    let workload = if own { workload.display().to_string() } else { setting.workload.to_owned() };
    let length: &[&str] = if setting.is_finite { &[] } else { &["--for", "1s"] };
    let output = Command::new(weir)
        .args(["sim", scheduler, "-m", setting.machine, "-w", &workload, "--format", "json"])
        .args(["--seeds", &seeds.to_string()])
        .args(length)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "weir sim {scheduler} failed");
    Ok(report::read_json(&output.stdout)?)
}

/// SplitMix64, to draw tables.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// `some` of the numbers below `all`, none twice, in random order.
    fn choose(&mut self, all: usize, some: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..all).collect();
        for place in 0..some {
            let other = place + (self.next() % (all - place) as u64) as usize;
            numbers.swap(place, other);
        }
        numbers.truncate(some);
        numbers
    }
}
