// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command, such as a build, that runs in a copy of a directory on each file system.

use super::places::{DISK, IXFS, NAMES, Places, TMPFS};
use super::{Row, Unit};
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Measures `command` in copies of `tree`, without the time for copying. The floor takes no part: it lacks most
/// operations.
pub fn measure(places: &Places, tree: &Path, command: &str, rounds: u32, stopped: &AtomicBool) -> anyhow::Result<Row> {
    let mut row = Row::new(command, Unit::Milliseconds);
    for round in 0..rounds as usize {
        for turn in 0..3 {
            let place = [IXFS, TMPFS, DISK][(round + turn) % 3];
            let copy = places.roots[place].join(format!("work{round}"));
            run(Command::new("cp").arg("-a").arg(tree).arg(&copy), "cp -a")?;
            let begin = Instant::now();
            run(Command::new("sh").args(["-c", command]).current_dir(&copy), command).context(NAMES[place])?;
            row.times[place].push(begin.elapsed().as_nanos() as u64);
            fs::remove_dir_all(&copy)?;
            super::unless_stopped(stopped)?;
        }
        let seconds = |place: usize| *row.times[place].last().unwrap_or(&0) as f64 / 1e9;
        eprintln!(
            "ixfs: round {} of {rounds}: ixfs {:.2} s, tmpfs {:.2} s, disk {:.2} s",
            round + 1,
            seconds(IXFS),
            seconds(TMPFS),
            seconds(DISK)
        );
    }
    Ok(row)
}

fn run(command: &mut Command, name: &str) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().with_context(|| name.to_owned())?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}
