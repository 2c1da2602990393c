// SPDX-License-Identifier: GPL-2.0-only
//! What recording costs: measured by the kernel, not estimated.

use crate::LiveError;
use crate::kernel::read;
use ids::Nanos;
use libbpf_rs::Object;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};

const STATS_SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// While this lives, the kernel measures the run time of BPF programs.
#[derive(Debug)]
pub struct Metering {
    /// What the switch said before, if it had to be turned.
    before: Option<String>,
}

impl Metering {
    /// Turns the kernel's measurement on.
    ///
    /// # Errors
    /// Names the switch if it cannot be read or turned.
    pub fn start() -> Result<Metering, LiveError> {
        let before = read(STATS_SWITCH)?;
        if before.trim() == "1" {
            return Ok(Metering { before: None });
        }
        fs::write(STATS_SWITCH, "1").map_err(LiveError::file(STATS_SWITCH))?;
        Ok(Metering { before: Some(before) })
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Nothing is left to be done if this fails; the switch being on costs some 40 ns per program run.
            let _ = fs::write(STATS_SWITCH, before);
        }
    }
}

/// What the recorder's programs did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProbeCost {
    /// Time in them.
    pub time: Nanos,
    /// How often one ran.
    pub runs: u64,
    /// How often one was skipped because it was active on that CPU already.
    pub skipped: u64,
}

impl ProbeCost {
    /// Sums over all programs of an object.
    ///
    /// # Errors
    /// Says what the kernel answered.
    pub fn of(object: &Object) -> Result<ProbeCost, LiveError> {
        let mut sum = ProbeCost::default();
        for program in object.progs() {
            // The kernel's `bpf_prog_show_fdinfo()`: one `name:` and value a line.
            let text = read(&format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()))?;
            let count = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|value| value.trim().parse::<u64>().ok())
                    .ok_or_else(|| LiveError::Malformed(format!("the kernel says nothing of a program's {name}")))
            };
            sum.time += Nanos(count("run_time_ns")?);
            sum.runs += count("run_cnt")?;
            sum.skipped += count("recursion_misses")?;
        }
        Ok(sum)
    }
}

/// CPU time of the calling thread so far.
///
/// # Errors
/// Names the file if the kernel does not have it.
pub fn thread_cpu_time() -> Result<Nanos, LiveError> {
    let path = "/proc/thread-self/schedstat";
    let text = read(path)?;
    // Time on CPUs, time in runqueues, number of time slices.
    let time = text.split_whitespace().next().and_then(|first| first.parse().ok());
    time.map(Nanos).ok_or_else(|| LiveError::Malformed(format!("{path} holds `{}`", text.trim())))
}
