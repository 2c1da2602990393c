// SPDX-License-Identifier: GPL-2.0-only
//! A compiler that is forced to the other CPU at each period, against one that stays.

use super::{Row, elapsed};
use crate::predict::Weir;
use anyhow::{Context, Result, bail};
use host::{cpu_time, sys};
use ids::{CpuId, CpuSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

pub const GROUP: &str = "A compiler (`cc1 -O2`) forced to the other CPU; the model is a task of the class `compiler`";
/// Periods of the moves in milliseconds.
const PERIODS_MS: [u64; 5] = [1, 2, 4, 8, 16];

/// Measures the compiler and simulates its class.
pub fn rows(weir: &Weir<'_>, directory: &Path, runs: u32) -> Result<Vec<Row>> {
    let compiler = compiler()?;
    let source = directory.join("source.i");
    fs::write(&source, source_text())?;
    // The first compilation fills the page cache.
    compile(&compiler, &source, None)?;
    let mut rows = Vec::new();
    for ms in PERIODS_MS {
        eprintln!("compiler: every {ms} ms");
        let mut real = Vec::new();
        let mut work = Vec::new();
        for _ in 0..runs {
            let (stays, _) = compile(&compiler, &source, None)?;
            let (moved, moves) = compile(&compiler, &source, Some(Duration::from_millis(ms)))?;
            real.push((moved - stays) / moves.max(1) as f64 / 1e3);
            work.push(stays);
        }
        let work_us = (super::spread(&work)[1] / 1e3) as u64;
        rows.push(Row { label: format!("every {ms} ms"), real, model: model(weir, directory, work_us, ms)? });
    }
    Ok(rows)
}

/// Costs of a move in the model in microseconds, for a task with this much work.
fn model(weir: &Weir<'_>, directory: &Path, work_us: u64, period_ms: u64) -> Result<Vec<f64>> {
    let (period_us, loops) = (1_000 * period_ms, work_us / (2_000 * period_ms));
    let task = |there: u32| {
        format!(
            "{{ \"tasks\": {{ \"c\": {{ \"memory\": \"compiler\", \"cpus\": [0], \"loop\": {loops}, \"phases\": {{\n\
             \"there\": {{ \"run\": {period_us}, \"cpus\": [{there}] }}, \"back\": {{ \"run\": {period_us}, \"cpus\": [0] }} }} }} }},\n\
             \"global\": {{ \"duration\": -1 }} }}\n"
        )
    };
    let times = |there| {
        fs::write(directory.join("compiler.json"), task(there))?;
        let arguments = ["-m", "host.toml", "-w", "compiler.json", "--draws", "15"];
        elapsed(weir, &[&["sim", "kernel", "--format", "json"], &arguments[..]].concat())
    };
    let (stays, moved) = (times(0)?, times(1)?);
    Ok(moved.iter().zip(stays).map(|(moved, stays)| (moved - stays) / (2 * loops) as f64 / 1e3).collect())
}

/// Path of the compiler proper, which runs no other process.
fn compiler() -> Result<String> {
    let output = Command::new("gcc").arg("-print-prog-name=cc1").output().context("cannot start gcc")?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !Path::new(&path).is_absolute() {
        bail!("gcc has no cc1");
    }
    Ok(path)
}

/// Compiles on CPU 0, or moves at each period; returns the CPU time in nanoseconds and the number of moves.
fn compile(compiler: &str, source: &Path, period: Option<Duration>) -> Result<(f64, u64)> {
    let cpu = |number: u64| [CpuId((number % 2) as u32)].into_iter().collect::<CpuSet>();
    let before = cpu_time::of_children()?;
    let mut child = Command::new(compiler)
        .args(["-quiet", "-O2", "-o", "/dev/null"])
        .arg(source)
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start cc1")?;
    let mut moves = 0;
    sys::set_allowed_cpus(child.id(), &cpu(0))?;
    while let Some(period) = period {
        thread::sleep(period);
        // A process that has ended cannot be moved.
        if child.try_wait()?.is_some() || sys::set_allowed_cpus(child.id(), &cpu(moves + 1)).is_err() {
            break;
        }
        moves += 1;
    }
    if !child.wait()?.success() {
        bail!("cc1 failed");
    }
    Ok(((cpu_time::of_children()? - before).as_nanos() as f64, moves))
}

/// A C file with functions of loops and decisions, which takes a compiler about a second.
fn source_text() -> String {
    let mut text = String::new();
    for number in 0..400 {
        writeln!(
            text,
            "int f{number}(int *a, int n) {{ int s = {number}; for (int i = 0; i < n; i++) {{ switch ((a[i] + s) % 7) {{"
        )
        .expect("a string takes all text");
        for case in 0..7 {
            writeln!(text, "case {case}: s += a[(i * {case} + {number}) % n] ^ (s >> {case}); break;")
                .expect("a string takes all text");
        }
        text += "} } return s; }\n";
    }
    text
}
