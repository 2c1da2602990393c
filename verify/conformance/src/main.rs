// SPDX-License-Identifier: GPL-2.0-only
//! Runs scenarios in the running kernel or in the model, and compares.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use conformance::compare::{Verdict, compare, keep};
use conformance::{
    Record, Scenario, classes, deadline, fair, kernel, model, muqss, order, placement, process, recorded, shares,
    successor, table,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compares the kernel model with a kernel.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the scenarios.
    List,
    /// Run scenarios in the model and print the records.
    Model {
        /// Scenarios; default: all.
        scenarios: Vec<String>,
    },
    /// Run scenarios in the running kernel, as root.
    Kernel {
        /// Scenarios; default: all.
        scenarios: Vec<String>,
        /// Run only the scenarios marked as quick (`smoke`).
        #[arg(long)]
        smoke: bool,
        /// Number of runs of each scenario.
        #[arg(long, default_value_t = 3)]
        plays: u32,
        /// Directory for the records, one file per scenario.
        #[arg(short, long)]
        output: PathBuf,
    },
    /// Be a process that executes itself, which scenarios need.
    #[command(hide = true)]
    Execute {
        /// Number of executions so far.
        times: u32,
    },
    /// Run the kernel's scenarios in the model, and compare.
    Compare {
        /// Directory of the kernel's records.
        records: PathBuf,
        /// Scenarios; default: all recorded ones.
        scenarios: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare CPU shares and latencies with the results of `shares/play.sh` in a kernel.
    Shares {
        /// Directory of the reports.
        reports: PathBuf,
        /// Keep the kernel's values in this file.
        #[arg(long)]
        keep: Option<PathBuf>,
    },
    /// Compare the model of the kernel's own classes with what `weir run` reported of real threads.
    Classes {
        /// Directories of the reports, one per round; default: the kept records.
        reports: Vec<PathBuf>,
        /// Keep the kernel's values in this file.
        #[arg(long)]
        keep: Option<PathBuf>,
    },
    /// Compare CPU times in the deadline class and under deadline servers with the results of `deadline/play.sh`.
    Deadline {
        /// Directory of the reports; default: the kept record.
        reports: Option<PathBuf>,
        /// Keep the kernel's values in this file.
        #[arg(long)]
        keep: Option<PathBuf>,
    },
    /// Compare run intervals and successors under the kernel's own classes with the results of `classes/play.sh`.
    Order {
        /// Directories of the saved runs, one per round; default: the kept records.
        rounds: Vec<PathBuf>,
        /// Recorded kernel: 6.18 on a host, or 7.2 in the deterministic virtual machine.
        #[arg(long, default_value = "6.18")]
        kernel: String,
        /// Seed of the model's runs; the known misses are those of seed 0, without random variation.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Keep the kernel's ranges in this file.
        #[arg(long)]
        keep: Option<PathBuf>,
    },
    /// Run hogs and a periodic task in the running kernel, which must have MuQSS, and print the measurements.
    MuqssKernel {
        /// Cases: bfs for those that bfs is compared with too; the others exist for muqss only, on 1, 2 or 4 CPUs.
        #[arg(default_value = "bfs", value_parser = ["bfs", "one", "forks", "two", "four"])]
        cases: String,
        /// Load muqss first, in a kernel with sched_ext.
        #[arg(long)]
        loaded: bool,
        /// Delay the start of each case by this time.
        #[arg(long, default_value_t = 0)]
        later_us: u64,
    },
    /// Run hogs, sleepers and periodic tasks in the running kernel, about Linux 6.1, and print the measurements.
    Fair {
        /// Cases; default: all for this number of CPUs.
        cases: Vec<String>,
        /// Number of CPUs of the cases.
        #[arg(long, default_value_t = 1)]
        cpus: u32,
        /// Load cfs@6.1 first, in a kernel with sched_ext.
        #[arg(long)]
        loaded: bool,
        /// Delay the start of each case by this time.
        #[arg(long, default_value_t = 0)]
        later_us: u64,
    },
    /// Compare bfs with recordings of kernels with MuQSS: B, whose slices end at ticks, or A.
    Successor {
        /// Recorded kernel.
        #[arg(default_value = "B", value_parser = ["A", "A4", "B", "forks"])]
        kernel: String,
    },
    /// Compare muqss with recordings of MuQSS 0.31.
    Muqss {
        /// Recorded set of cases.
        #[arg(default_value = "one", value_parser = ["bfs", "one", "forks", "two", "four"])]
        cases: String,
    },
    /// Run the placement of woken tasks in the running kernel, which must have MuQSS, and print it.
    Placement {
        /// Machine with the CPUs of the running one.
        #[arg(value_parser = ["threads", "nodes"])]
        machine: String,
        /// Load muqss first, in a kernel with sched_ext.
        #[arg(long)]
        loaded: bool,
    },
    /// Compare muqss task placement in the model with placement recorded on real kernels.
    Placements {
        /// Machine whose recorded placements are compared.
        #[arg(value_parser = ["threads", "nodes"])]
        machine: String,
    },
    /// Compare cfs in the model with recordings of Linux 6.1.
    Fairs {
        /// Preset of cfs.
        #[arg(default_value = "6.1")]
        preset: String,
    },
    /// Extract from a kernel's records what a comparison needs, as text files.
    Keep {
        /// Directory of the kernel's records.
        records: PathBuf,
        /// Directory for the text files.
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Prints all scenarios.
fn list() {
    for scenario in Scenario::all() {
        println!("{:28} {} ({})", scenario.name, scenario.about, scenario.covers.join(" "));
    }
}

/// Runs a command. Returns whether everything agrees.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::List => {
            list();
            Ok(true)
        }
        Command::Model { scenarios } => {
            for scenario in Scenario::find(&scenarios)? {
                print!("{}", recorded::write(&model::play(&scenario)?));
            }
            Ok(true)
        }
        Command::Kernel { scenarios, smoke, plays, output } => play_in_kernel(&scenarios, smoke, plays, &output),
        Command::Execute { times } => process::perform(times).map(|()| true),
        Command::Compare { records, scenarios, json } => {
            let verdicts = compare_all(&records, &scenarios)?;
            match json {
                true => println!("{}", serde_json::to_string_pretty(&verdicts)?),
                false => print!("{}", table::text(&verdicts)),
            }
            Ok(verdicts.iter().all(Verdict::is_expected))
        }
        Command::Shares { reports, keep } => {
            let kernel = shares::reports(&reports)?;
            say(
                &shares::compare(&kernel, &shares::simulated()?, &shares::own_exceptions()),
                keep,
                &shares::write(&kernel),
            )
        }
        Command::Classes { reports, keep } => {
            let kernel = if reports.is_empty() { classes::recorded()? } else { classes::reports(&reports)? };
            say(&classes::compare(&kernel, &classes::simulated()?), keep, &classes::write(&kernel))
        }
        Command::Deadline { reports, keep } => {
            let kernel = reports.map_or_else(deadline::recorded, |directory| deadline::reports(&directory))?;
            say(&deadline::compare(&kernel, &deadline::simulated()?), keep, &deadline::write(&kernel))
        }
        Command::Order { rounds, kernel, seed, keep } => {
            let records = order::records(&kernel)?;
            let real = if rounds.is_empty() { records.ranges()? } else { records.saved(&rounds)? };
            say(&order::compare(&real, &records.simulated(seed)?, records.known), keep, &order::write(&real))
        }
        Command::MuqssKernel { cases, loaded, later_us } => {
            print!("{}", muqss::play_all(&cases, std::time::Duration::from_micros(later_us), loaded)?);
            Ok(true)
        }
        Command::Fair { cases, cpus, loaded, later_us } => {
            let later = std::time::Duration::from_micros(later_us);
            print!("{}", fair::play_all(&fair::Play { names: cases, cpus, loaded, later })?);
            Ok(true)
        }
        Command::Successor { kernel } => {
            say(&successor::compare(&kernel, &successor::simulated(&kernel)?, &successor::recorded(&kernel)?), None, "")
        }
        Command::Muqss { cases } => {
            say(&muqss::compare(&cases, &muqss::simulated(&cases)?, &muqss::recorded(&cases)?), None, "")
        }
        Command::Placement { machine, loaded } => {
            print!("{}", placement::play_all(&machine, loaded)?);
            Ok(true)
        }
        Command::Placements { machine } => compare_placements(&machine),
        Command::Fairs { preset } => {
            let (model, kernel) = (fair::simulated(&preset, 1_000)?, fair::recorded("6.1-1000")?);
            say(&fair::compare(&model, &kernel), None, "")
        }
        Command::Keep { records, output } => keep_all(&records, &output),
    }
}

fn compare_placements(machine: &str) -> Result<bool> {
    let model = placement::model(machine)?;
    for (who, records) in placement::recorded(machine)? {
        print!("{}", placement::compare(machine, who, &records, &model)?.0);
    }
    Ok(true)
}

fn keep_all(records: &Path, output: &Path) -> Result<bool> {
    std::fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    for (scenario, kernel) in recorded_scenarios(records, &[])? {
        let kept = keep(&scenario, &kernel, &model::play(&scenario)?);
        write(&output.join(format!("{}.txt", scenario.name)), &recorded::write(&kept))?;
    }
    Ok(true)
}

/// Prints a comparison and keeps the kernel's values in the requested file. Returns whether everything agrees.
fn say((text, well): &(String, bool), keep: Option<PathBuf>, kept: &str) -> Result<bool> {
    print!("{text}");
    keep.map_or(Ok(()), |path| write(&path, kept))?;
    Ok(*well)
}

fn play_in_kernel(names: &[String], smoke: bool, plays: u32, output: &Path) -> Result<bool> {
    std::fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    let mut well = true;
    for scenario in Scenario::find(names)?.iter().filter(|scenario| !smoke || scenario.smoke) {
        match kernel::play(scenario, plays) {
            Ok(record) => {
                let calls = record.runs.iter().map(|run| run.calls.len()).sum::<usize>();
                println!("{}: {} plays, {calls} calls", scenario.name, record.runs.len());
                for what in record.runs.iter().flat_map(|run| &run.disturbed) {
                    println!("    disturbed: {what}");
                }
                write(&output.join(format!("{}.txt", scenario.name)), &recorded::write(&record))?;
            }
            Err(error) => {
                println!("{}: FAILED: {error:#}", scenario.name);
                well = false;
            }
        }
    }
    Ok(well)
}

fn compare_all(records: &Path, names: &[String]) -> Result<Vec<Verdict>> {
    let recorded = recorded_scenarios(records, names)?;
    recorded.iter().map(|(scenario, kernel)| Ok(compare(scenario, kernel, &model::play(scenario)?))).collect()
}

/// Returns scenarios with their recordings; without names, all recorded ones.
fn recorded_scenarios(records: &Path, names: &[String]) -> Result<Vec<(Scenario, Record)>> {
    let mut found = Vec::new();
    for scenario in Scenario::find(names)? {
        let path = records.join(format!("{}.txt", scenario.name));
        if path.exists() || !names.is_empty() {
            let record = recorded::read(&read(&path)?).with_context(|| path.display().to_string())?;
            found.push((scenario, record));
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
