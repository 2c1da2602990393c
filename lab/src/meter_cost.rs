// SPDX-License-Identifier: GPL-2.0-only
//! What `weir meter` costs the measured command: its time with and without a meter, in pairs.

use crate::wall::weir;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Options of `cargo xtask meter-cost`.
#[derive(Args)]
pub struct Arguments {
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Number of pairs of each row
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(6..=1000))]
    pairs: u32,
}

/// Meters, and none: the difference of two runs without a meter is what the pairs cannot tell apart.
const METERS: [Option<&str>; 4] = [None, Some("locks"), Some("microstates"), Some("wakeups")];

/// A build of small files, as compilers and shells are forked.
const BUILD: &str = r#"
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23; do
    { echo '#include <stdio.h>'; echo "int f$i(int x) { return x * $i + printf(\"%d\", x); }"; } > f$i.c
done
printf 'all: $(patsubst %%.c,%%.o,$(wildcard f*.c))\n%%.o: %%.c\n\tcc -O2 -c -o $@ $<\n' > Makefile
rm -f *.o
make -s -j2"#;

/// Prints the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let weir = weir(arguments.weir.as_deref())?.canonicalize().context("--weir")?;
    let directory = tempfile::tempdir()?;
    let pool = directory.path().join("pool").display().to_string();
    let compiled = ["--edition", "2024", "-O", "examples/pool.rs", "-o", &pool];
    let compiled = Command::new("rustc").args(compiled).current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    ensure!(compiled.success(), "pool cannot be built");
    let loads = [
        ("build", vec!["sh".to_owned(), "-c".to_owned(), BUILD.to_owned()]),
        ("pool that holds its lock", vec![pool.clone(), "held".to_owned(), "2".to_owned()]),
        ("storm of one lock", vec![pool, "storm".to_owned(), "2".to_owned()]),
    ];
    println!("| command | meter | time without, ms | time with more, median (95 % interval) |");
    println!("|---|---|---|---|");
    for (name, command) in &loads {
        for meter in METERS {
            let row = pairs(&weir, meter, command, directory.path(), arguments.pairs)?;
            println!("| {name} | {} | {row} |", meter.unwrap_or("none"));
        }
    }
    Ok(())
}

/// Runs pairs, each in the opposite order of the last, and compares their times.
fn pairs(weir: &Path, meter: Option<&str>, command: &[String], directory: &Path, pairs: u32) -> Result<String> {
    let (mut without, mut ratios) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        eprint!("\r{} {pair}/{pairs}   ", meter.unwrap_or("none"));
        let plain = || time(Command::new(&command[0]).args(&command[1..]), directory);
        let metered = || match meter {
            None => plain(),
            Some(meter) => {
                let mut program = Command::new(weir);
                time_inside(program.args(["meter", meter, "--format", "json", "--"]).args(command), directory)
            }
        };
        let (a, b) = if pair % 2 == 0 {
            let a = plain()?;
            (a, metered()?)
        } else {
            let b = metered()?;
            (plain()?, b)
        };
        without.push(a);
        // Statistics take natural numbers: parts per million, with 100 % in the middle.
        ratios.push((b as u128 * 1_000_000 / u128::from(a.max(1))) as u64);
    }
    eprintln!();
    let percent = |ppm: u64| format!("{:+.1} %", ppm as f64 / 1e4 - 100.0);
    let (low, high) = statistics::median_interval(&ratios).context("too few pairs")?;
    let (middle, time) = (statistics::median(&ratios), statistics::median(&without) as f64 / 1e6);
    Ok(format!("{time:.0} | {} ({} to {})", percent(middle), percent(low), percent(high)))
}

/// Time of a command, in nanoseconds.
fn time(command: &mut Command, directory: &Path) -> Result<u64> {
    let began = Instant::now();
    let status = command.current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(began.elapsed().as_nanos() as u64)
}

/// Time for which the meter measured its command: loading the programs is not a cost of the command.
fn time_inside(command: &mut Command, directory: &Path) -> Result<u64> {
    let output = command.current_dir(directory).stderr(Stdio::null()).output()?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    json["elapsed_ns"].as_u64().context("no elapsed_ns")
}
