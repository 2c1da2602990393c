// SPDX-License-Identifier: GPL-2.0-only
//! CPU time of commands that users run: a comparison of schedulers on the recorded build, and the demo.
//!
//! The speed of a shared host changes within seconds, so each command is repeated between runs of a reference load
//! that compresses data with zstd. The column `MiB of zstd` is the amount that would be compressed in the command's
//! CPU time; it is comparable between hosts and days. `cargo bench -p weir --bench commands` prints the table.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use std::hint::black_box;
use std::process::{Command, Stdio};

/// A title, and the arguments of `weir`.
const COMMANDS: [(&str, &[&str]); 2] = [
    ("build, 3 schedulers, 16 seeds", &["sim", "kernel", "fifo", "bfs", "-m", "laptop-2c4t", "--seeds", "16"]),
    ("make demo", &["sim", "kernel", "fifo", "bfs", "-w", "video", "-m", "laptop-2c4t", "-m", "desktop-4c"]),
];

/// Number of repetitions; the one with the smallest ratio to zstd counts.
const ROUNDS: usize = 3;
/// Amount that the reference load compresses, in MiB.
const REFERENCE_MIB: u64 = 64;

fn main() {
    if std::env::args().any(|word| word == "--test") {
        return;
    }
    println!("{:<32} {:>8} {:>12}", "command", "CPU", "MiB of zstd");
    for (title, arguments) in COMMANDS {
        let measure = |_| {
            let mib_us = compress_us() / REFERENCE_MIB;
            let took = run_us(arguments);
            (took / mib_us.max(1), took)
        };
        let (mib, took) = (0..ROUNDS).map(measure).min().expect("there are rounds");
        println!("{title:<32} {:>6}.{} s {mib:>10}", took / 1_000_000, took / 100_000 % 10);
    }
}

/// CPU time of a usage in microseconds.
fn cpu_us(usage: &Usage) -> u64 {
    let [user, system] = [usage.user_time(), usage.system_time()];
    [user, system].map(|time| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64).iter().sum()
}

fn used_us(target: UsageWho) -> u64 {
    cpu_us(&getrusage(target).expect("getrusage(2) fails only for an unknown target"))
}

/// CPU time of one run of `weir`.
fn run_us(arguments: &[&str]) -> u64 {
    let before = used_us(UsageWho::RUSAGE_CHILDREN);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("weir starts");
    assert!(status.success(), "weir {}", arguments.join(" "));
    used_us(UsageWho::RUSAGE_CHILDREN) - before
}

/// CPU time of the reference load.
fn compress_us() -> u64 {
    let mut state = 1u64;
    // Bytes of which zstd finds some repeated: six random bits each.
    let text: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 58) as u8
        })
        .collect();
    let before = used_us(UsageWho::RUSAGE_SELF);
    for _ in 0..REFERENCE_MIB {
        black_box(zstd::bulk::compress(black_box(&text), 3).expect("memory suffices"));
    }
    used_us(UsageWho::RUSAGE_SELF) - before
}
