// SPDX-License-Identifier: GPL-2.0-only
//! What recording costs: measured by the kernel, not estimated.

use crate::LinkError;
use host::proc::read;
use ids::Nanos;
use libbpf_rs::Object;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// While this lives, the kernel measures the run time of BPF programs, at some 40 ns a run. It does so for as long as
/// anybody holds such a descriptor: nothing stays on when a process is killed, and none turns it off for another. The
/// sysctl `kernel.bpf_stats_enabled` does neither.
#[derive(Debug)]
pub struct Metering {
    _descriptor: OwnedFd,
}

impl Metering {
    /// Turns the kernel's measurement on.
    ///
    /// # Errors
    /// What the kernel answered: it has this call since 5.8.
    #[allow(unsafe_code)]
    pub fn start() -> Result<Metering, LinkError> {
        // From include/uapi/linux/bpf.h: the command, and BPF_STATS_RUN_TIME, which is all of its attributes.
        const BPF_ENABLE_STATS: u32 = 32;
        let attributes = 0u32;
        // SAFETY: the kernel reads as many bytes at the address as are given, those of `attributes`, and writes none.
        // libbpf-rs does not have this call.
        let answer =
            unsafe { libc::syscall(libc::SYS_bpf, BPF_ENABLE_STATS, &raw const attributes, size_of_val(&attributes)) };
        if answer < 0 {
            return Err(LinkError::file("the run-time statistics of BPF programs")(io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(Metering { _descriptor: unsafe { OwnedFd::from_raw_fd(answer as i32) } })
    }
}

/// What the recorder's programs did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeCost {
    /// Time in them.
    pub time: Nanos,
    /// How often one ran.
    pub runs: u64,
    /// Names of those that the kernel skipped, since they were active on that CPU already, and how often.
    pub skipped: Vec<(String, u64)>,
}

impl ProbeCost {
    /// Sums over all programs of an object.
    ///
    /// # Errors
    /// Says what the kernel answered.
    pub fn of(object: &Object) -> Result<ProbeCost, LinkError> {
        let mut sum = ProbeCost::default();
        // One that is not loaded has no file.
        for program in object.progs().filter(|program| program.autoload()) {
            // The kernel's `bpf_prog_show_fdinfo()`: one `name:` and value a line.
            let text = read(&format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()))?;
            let count = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|value| value.trim().parse::<u64>().ok())
                    .ok_or_else(|| LinkError::Malformed(format!("the kernel says nothing of a program's {name}")))
            };
            sum.time += Nanos(count("run_time_ns")?);
            sum.runs += count("run_cnt")?;
            let skipped = count("recursion_misses")?;
            if skipped > 0 {
                sum.skipped.push((program.name().to_string_lossy().into_owned(), skipped));
            }
        }
        Ok(sum)
    }
}

/// Events that did not fit the buffer, and calls that were skipped.
pub(crate) fn lost(lost_by_cpu: &[u64], skipped: &[(String, u64)]) -> u64 {
    lost_by_cpu.iter().sum::<u64>() + skipped.iter().map(|(_, calls)| calls).sum::<u64>()
}

/// Where they were lost, in words.
pub(crate) fn lost_where(lost_by_cpu: &[u64], skipped: &[(String, u64)]) -> Vec<String> {
    let skipped = skipped.iter().map(|(program, calls)| format!("calls of {program} that were skipped: {calls}"));
    let at_buffer = lost_by_cpu.iter().enumerate().filter(|(_, count)| **count > 0);
    skipped.chain(at_buffer.map(|(cpu, count)| format!("at the buffer by CPU {cpu}: {count}"))).collect()
}
