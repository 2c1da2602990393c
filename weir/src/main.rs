// SPDX-License-Identifier: GPL-2.0-only
//! The `weir` command-line program: reads arguments and files, calls the library crates, prints. Measures are
//! computed in the library crates only.
//!
//! Exit status: 0 fine; 1 a scheduler was ejected or a run ended in a deadlock; 2 bad usage or input, with one line
//! on standard error.

/// Prints a line to standard error, formatted as by `eprintln!`, which panics where the line cannot be written.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::tell(&(format!($($words)*) + "\n")) };
}

mod args;
mod check;
mod claims;
mod compare;
mod compile;
mod coverage;
mod explain;
mod failed;
#[cfg(feature = "generate")]
mod generate;
mod input;
mod inspect;
mod list;
mod load;
mod machine;
mod meter;
mod notes;
mod output;
mod pages;
mod parallel;
mod plan;
mod printk;
mod progress;
#[cfg(feature = "real")]
mod record;
mod refusals;
#[cfg(feature = "real")]
mod run;
mod save;
mod saved;
mod scale;
mod select;
mod sim;
mod suites;
#[cfg(feature = "sweep")]
mod sweep;
mod watch;
mod workload;

use args::{Args, Command};
use clap::Parser;
use clap::error::ErrorKind;
use failed::Failed;
use std::process::ExitCode;

/// Exit status if everything went well.
const FINE: u8 = 0;
/// Exit status if a scheduler or workload misbehaved in a run.
const VIOLATION: u8 = 1;
/// Exit status if nothing was run because the command line or an input file is bad.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    if matches!(&args.command, Command::Run(run) if run.command.is_empty())
        && std::env::args_os().any(|word| word == "--")
    {
        say!("weir: error: no command after --: expected a command and its arguments (see weir run --help)");
        return ExitCode::from(BAD_INPUT);
    }
    if let Command::Sim(sim) = &args.command
        && sim.watch
    {
        watch::watch(sim, || {
            status(simulate(sim));
        })
    }
    let result = match &args.command {
        Command::List(list) => list::list(list).map(|()| FINE),
        Command::Machine(args) => machine::machine(args).map(|()| FINE),
        Command::Sim(sim) => simulate(sim),
        Command::Check(args) => check::check(args).map(|fine| if fine { FINE } else { VIOLATION }),
        Command::Workload(args) => workload::workload(args).map(|()| FINE),
        Command::Inspect(args) => inspect::inspect(args).map(|()| FINE),
        #[cfg(feature = "real")]
        Command::Run(run) => run::run(run).map(|fine| if fine { FINE } else { VIOLATION }),
        #[cfg(feature = "real")]
        Command::Record(record) => record::record(record).map(|whole| if whole { FINE } else { VIOLATION }),
        #[cfg(feature = "real")]
        Command::GuardCpus { online, offline } => run::guard(online, offline).map(|()| FINE),
        #[cfg(not(feature = "real"))]
        Command::Run(_) | Command::Record(_) | Command::GuardCpus { .. } => incomplete("weir run and weir record"),
        #[cfg(not(feature = "generate"))]
        Command::Generate(_) => incomplete("weir generate"),
        Command::Meter(args) => meter::meter(args).map(|fine| if fine { FINE } else { VIOLATION }),
        Command::Scale(args) => scale::scale(args).map(|()| FINE),
        Command::Load(args) => load::load(args).map(|()| FINE),
        #[cfg(feature = "sweep")]
        Command::Sweep(args) => sweep::sweep(args).map(|fine| if fine { FINE } else { VIOLATION }),
        Command::Claims(args) => claims::claims(args).map(|()| FINE),
        Command::Compare(args) => compare::compare(args).map(|fine| if fine { FINE } else { VIOLATION }),
        Command::Explain(args) => explain::explain(args).map(|()| FINE),
        Command::Report(args) => pages::report(args).map(|fine| if fine { FINE } else { VIOLATION }),
        #[cfg(feature = "generate")]
        Command::Generate(args) => generate::generate(args).map(|()| FINE),
    };
    ExitCode::from(status(result))
}

/// Returns the error of a command that this build leaves out.
#[cfg(not(all(feature = "generate", feature = "real")))]
fn incomplete<T>(command: &str) -> anyhow::Result<T> {
    anyhow::bail!("{command}: this build only simulates; build Weir with its default features")
}

fn simulate(sim: &args::Sim) -> anyhow::Result<u8> {
    sim::sim(sim).map(|fine| if fine { FINE } else { VIOLATION })
}

/// Exit status of a result; an error is printed.
fn status(result: anyhow::Result<u8>) -> u8 {
    result.unwrap_or_else(|error| {
        say!("weir: error: {}", report::escape(&describe(&error)));
        if error.is::<Failed>() { VIOLATION } else { BAD_INPUT }
    })
}

/// The error and its causes in one line. A cause that an outer message already quotes is not repeated.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

/// Prints help and version unchanged, and a usage error as one line like every other error.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is not an error; a full disk is.
            match error.print() {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    say!("weir: error: cannot write to standard output: {error}");
                    ExitCode::from(BAD_INPUT)
                }
                _ => ExitCode::from(FINE),
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(BAD_INPUT)
        }
        _ => {
            let text = error.render().to_string();
            let what = text.split("\n\n").next().unwrap_or_default();
            let line = what.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
            let command = std::env::args().nth(1).filter(|word| word == "run" || word == "record");
            match command.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
                Some(name) => say!("weir: error: {line}: write the command after --: weir {name} -- ls -l"),
                None => say!("weir: error: {line} (see weir --help)"),
            }
            ExitCode::from(BAD_INPUT)
        }
    }
}
