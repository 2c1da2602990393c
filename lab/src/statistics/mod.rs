// SPDX-License-Identifier: GPL-2.0-only
//! Error rates of the marks in a comparison; docs/explanation/statistics.md has the results.
//!
//! A policy is compiled once more with a delay in its dispatch whose length is a tunable, 0 by default, so that only
//! a test of the tunable is added. Three questions are answered for several numbers of seeds.
//!
//! 1. Placebo: how many tables have any mark if the copy runs with a delay of 0 on other seeds than the policy? Both
//!    have run with all seeds of two pools; each table samples its seeds at random.
//! 2. Plants: with delays that lengthen the makespan, or reduce the work done, by 1, 2, 3 and 5 %, in how many tables
//!    is the copy marked as worse?
//! 3. Minimum detectable difference: if a table states one, how many other tables mark such a difference? The runs of
//!    the copy with a delay of 0, on the same seeds, are scaled by it.
//!
//! A pool of seeds is run once, and tables are sampled from it, without repetition within a table. The length of a
//! delay is calibrated with the first seeds; the effect over the whole pool is shown beside the intended one.

mod plant;
mod run;

use anyhow::{Context, Result, ensure};
use report::{Judged, Record};
use run::{Place, SETTINGS, Setting};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Arguments of `statistics`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The table goes to standard output; docs/explanation/statistics.md has that of the last time.")]
pub struct Arguments {
    /// Number of seeds in the pool
    #[arg(long, value_name = "N", default_value_t = 96)]
    pool: u64,
    /// Numbers of seeds per table, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [4, 8, 16, 32])]
    seeds: Vec<usize>,
    /// Number of tables to sample for each
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tables: u32,
    /// weir to run [default: target/release/weir, built now]
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
    /// Only this setting, counted from 1
    #[arg(long, value_name = "N")]
    only: Option<usize>,
}

/// Planted effects, in percent.
const PLANTS: [u64; 4] = [1, 2, 3, 5];

/// Number of seeds for calibrating a delay.
const CALIBRATION: u64 = 8;

/// Measures for which a comparison states a minimum detectable difference; plants change the first one that a setting
/// has.
const TOLD: [&str; 4] = ["makespan_ns", "work_ns", "wakeup_latency_ns.mean", "wakeup_latency_ns.p99"];

/// Runs all settings and prints the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let most = arguments.seeds.iter().max().copied().unwrap_or(0);
    ensure!(arguments.pool >= 2 * most as u64, "--pool must be at least twice --seeds");
    let place = Place::new(arguments.weir.as_deref())?;
    println!(
        "| setting | seeds | placebo, paired | unpaired | 1 % | 2 % | 3 % | 5 % | detectable: work | mean wait | p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut notes = String::new();
    for (index, setting) in SETTINGS.iter().enumerate() {
        if arguments.only.is_none_or(|only| only == index + 1) {
            let pools = Pools::run(setting, &place, arguments.pool)?;
            arguments.seeds.iter().for_each(|&seeds| println!("{}", row(&pools, seeds, arguments.tables)));
            let _ = writeln!(notes, "- {}", pools.note()?);
        }
    }
    println!("\n{notes}");
    Ok(())
}

/// Runs of a setting.
struct Pools {
    name: String,
    /// Measure that plants change.
    key: &'static str,
    /// Runs of the policy with the seeds of two pools.
    original: Vec<Record>,
    /// Runs of the copy with a delay of 0, on the same seeds.
    copy: Vec<Record>,
    /// Runs with each delay, in the order of [`PLANTS`]; empty if no delay changes the measure.
    planted: Vec<Vec<Record>>,
}

impl Pools {
    fn run(setting: &Setting, place: &Place, pool: u64) -> Result<Pools> {
        let object = plant::compile(setting.policy, &place.folder)?;
        let runs = |delay: u64, seeds: u64| {
            eprintln!("{} {} {} delay {delay}: {seeds} seeds", setting.policy, setting.machine, setting.workload);
            place.simulate(&format!("{},plant={delay}", object.display()), setting, seeds)
        };
        let original = place.simulate(setting.policy, setting, 2 * pool)?;
        let copy = runs(0, 2 * pool)?;
        let key = if setting.is_finite { TOLD[0] } else { TOLD[1] };
        let first = mean(&copy[..CALIBRATION as usize], key)?;
        let mut effect = |delay| Ok(worse(key, first, mean(&runs(delay, CALIBRATION)?, key)?));
        let planted = match plant::delay_of_a_percent(&mut effect)? {
            None => Vec::new(),
            Some(unit) => {
                let plant = |percent: u64| runs((unit * percent as f64).round() as u64, pool);
                PLANTS.into_iter().map(plant).collect::<Result<_>>()?
            }
        };
        let name = format!("`{}`, {}, {}", setting.policy, setting.machine, setting.workload);
        Ok(Pools { name, key, original, copy, planted })
    }

    /// Describes the spread of runs, between seeds and between the two runs of a seed, and the effect of the delays.
    fn note(&self) -> Result<String> {
        let (a, b) = (values(&self.original, self.key)?, values(&self.copy, self.key)?);
        let pairs: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b / a).collect();
        let strangers = spread(&a);
        let mut text = format!("{}: `{}` varies by {strangers:.2} %", self.name, self.key);
        let _ = write!(text, ", and within pairs of one seed with a copy by {:.2} %", spread(&pairs));
        let had = |planted: &Vec<Record>| {
            let base = mean(&self.original[..planted.len()], self.key)?;
            Ok(format!("{:.1}", worse(self.key, base, mean(planted, self.key)?)))
        };
        let had: Vec<String> = self.planted.iter().map(had).collect::<Result<_>>()?;
        if !had.is_empty() {
            let _ = write!(text, "; the true differences are {} %", had.join(", "));
        }
        Ok(text)
    }
}

/// Returns a row of the table.
fn row(pools: &Pools, seeds: usize, tables: u32) -> String {
    let mut draw = Draw(1);
    let mut placebo = |paired: bool| {
        let hit = |_: &u32| {
            let chosen = draw.choose(pools.original.len(), 2 * seeds);
            let (first, second) = chosen.split_at(seeds);
            let (a, b) = (some(&pools.original, first), some(&pools.copy, second));
            table(&a, &b, paired).iter().any(Judged::is_marked)
        };
        percent((0..tables).filter(hit).count(), tables)
    };
    let mut cells = vec![pools.name.clone(), seeds.to_string(), placebo(true), placebo(false)];
    for planted in &pools.planted {
        let found = |_: &u32| {
            let chosen = draw.choose(planted.len(), seeds);
            let table = table(&some(&pools.original, &chosen), &some(planted, &chosen), true);
            judged(&table, pools.key).is_some_and(Judged::is_worse)
        };
        cells.push(percent((0..tables).filter(found).count(), tables));
    }
    cells.resize(4 + PLANTS.len(), "-".to_owned());
    cells.extend(promises(pools, seeds, tables, &mut draw));
    format!("| {} |", cells.join(" | "))
}

/// Returns the median minimum detectable difference that tables of this number of seeds state, and how many other
/// tables detect it: for the planted measure, the mean wait and the 99th percentile.
fn promises(pools: &Pools, seeds: usize, tables: u32, draw: &mut Draw) -> [String; 3] {
    let keys = [pools.key, TOLD[2], TOLD[3]];
    let (mut detected, mut promised) = ([0; 3], [const { Vec::new() }; 3]);
    for _ in 0..tables {
        let chosen = draw.choose(pools.original.len(), 2 * seeds);
        let (first, second) = chosen.split_at(seeds);
        let promises = table(&some(&pools.original, first), &some(&pools.copy, first), true);
        let promises = keys.map(|key| judged(&promises, key).and_then(|judged| judged.interval.tellable_ppm));
        let mut changed = some(&pools.copy, second);
        for (key, ppm) in keys.into_iter().zip(promises) {
            changed.iter_mut().for_each(|run| change(run, key, ppm.unwrap_or(0)));
        }
        let other = table(&some(&pools.original, second), &changed, true);
        for (index, ppm) in promises.into_iter().enumerate() {
            promised[index].extend(ppm);
            let is_detected = ppm.is_some() && judged(&other, keys[index]).is_some_and(Judged::is_worse);
            detected[index] += usize::from(is_detected);
        }
    }
    std::array::from_fn(|index| {
        let promised = &mut promised[index];
        promised.sort_unstable();
        match promised.get(promised.len() / 2) {
            None => "-".to_owned(),
            Some(&ppm) => format!("{:.1} %: {}", ppm as f64 / 1e4, percent(detected[index], promised.len() as u32)),
        }
    })
}

/// Makes one measure of a run worse by this many millionths.
fn change(run: &mut Record, key: &str, ppm: i64) {
    let place = measure(key);
    let by = if key == "work_ns" { -ppm } else { ppm };
    let exact = |value: u64| value as f64 * (1.0 + by as f64 / 1e6);
    let changed = |value: u64| if by < 0 { exact(value).max(0.0).floor() } else { exact(value).ceil() } as u64;
    run.values[place] = run.values[place].map(changed);
}

/// Returns the index of a measure in a record.
fn measure(key: &str) -> usize {
    measures::catalogue::CATALOGUE.iter().position(|measure| measure.key == key).expect("a key of the catalogue")
}

fn judged<'a>(table: &'a [Judged], key: &str) -> Option<&'a Judged> {
    table.iter().find(|judged| judged.measure.key == key)
}

/// Returns the table of a comparison, computed as by `weir sim`. `paired` compares the n-th runs in pairs.
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

/// Returns the runs at these indices.
fn some(runs: &[Record], chosen: &[usize]) -> Vec<Record> {
    chosen.iter().map(|&index| runs[index].clone()).collect()
}

fn values(runs: &[Record], key: &str) -> Result<Vec<f64>> {
    let one = |run: &Record| run.value(key).map(|value| value as f64).with_context(|| format!("a run without {key}"));
    runs.iter().map(one).collect()
}

fn mean(runs: &[Record], key: &str) -> Result<f64> {
    let all = values(runs, key)?;
    Ok(all.iter().sum::<f64>() / all.len() as f64)
}

/// Returns how much worse a value is, in percent: the makespan is longer, or the work is less.
fn worse(key: &str, before: f64, after: f64) -> f64 {
    100.0 * if key == "work_ns" { 1.0 - after / before } else { after / before - 1.0 }
}

/// Returns the standard deviation in percent of the mean.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    100.0 * variance.sqrt() / mean
}

fn percent(hits: usize, tables: u32) -> String {
    format!("{:.1} %", 100.0 * hits as f64 / f64::from(tables))
}

/// SplitMix64 random number generator, for sampling tables.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns `some` distinct numbers below `all`, in random order.
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
