// SPDX-License-Identifier: GPL-2.0-only
//! Cost of recording, as measured by the kernel.

use crate::LinkError;
use host::proc::read;
use ids::Nanos;
use libbpf_rs::Object;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// While this exists, the kernel measures run times of BPF programs, at about 40 ns per run. The kernel measures as
/// long as any process holds such a descriptor: killing a process turns it off, and no process turns it off for
/// another. The sysctl `kernel.bpf_stats_enabled` has neither property.
#[derive(Debug)]
pub struct Metering {
    _descriptor: OwnedFd,
}

impl Metering {
    /// Turns the measurement on.
    ///
    /// # Errors
    /// The kernel's error; the call exists since 5.8.
    #[allow(unsafe_code)]
    pub fn start() -> Result<Metering, LinkError> {
        // From include/uapi/linux/bpf.h: the command, and BPF_STATS_RUN_TIME, its only attribute.
        const BPF_ENABLE_STATS: u32 = 32;
        let attributes = 0u32;
        // SAFETY: the kernel reads the given number of bytes at the address, those of `attributes`, and writes none.
        // libbpf-rs does not have this call.
        let answer =
            unsafe { libc::syscall(libc::SYS_bpf, BPF_ENABLE_STATS, &raw const attributes, size_of_val(&attributes)) };
        if answer < 0 {
            return Err(LinkError::file("the run-time statistics of BPF programs")(io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just created this descriptor, and it has no other owner.
        Ok(Metering { _descriptor: unsafe { OwnedFd::from_raw_fd(answer as i32) } })
    }
}

/// Activity of the recorder's programs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeCost {
    /// Run time.
    pub time: Nanos,
    /// Number of runs.
    pub runs: u64,
    /// Programs whose calls the kernel skipped because they were already active on that CPU, and number of skipped
    /// calls.
    pub skipped: Vec<(String, u64)>,
}

impl ProbeCost {
    /// Sums over all programs of an object.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn of(object: &Object) -> Result<ProbeCost, LinkError> {
        let mut sum = ProbeCost::default();
        // Programs that are not loaded have no file descriptor.
        for program in object.progs().filter(|program| program.autoload()) {
            // The kernel's `bpf_prog_show_fdinfo()`: one `name:` and value per line.
            let text = read(&format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()))?;
            let count = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|value| value.trim().parse::<u64>().ok())
                    .ok_or_else(|| LinkError::Malformed(format!("the fdinfo of a BPF program has no {name}")))
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

/// Number of lost events: those that did not fit the buffer, and skipped calls.
pub(crate) fn lost(lost_by_cpu: &[u64], skipped: &[(String, u64)]) -> u64 {
    lost_by_cpu.iter().sum::<u64>() + skipped.iter().map(|(_, calls)| calls).sum::<u64>()
}

/// Places where events were lost, as text.
pub(crate) fn lost_where(lost_by_cpu: &[u64], skipped: &[(String, u64)]) -> Vec<String> {
    let skipped = skipped.iter().map(|(program, calls)| format!("skipped calls of {program}: {calls}"));
    let at_buffer = lost_by_cpu.iter().enumerate().filter(|(_, count)| **count > 0);
    skipped.chain(at_buffer.map(|(cpu, count)| format!("buffer full on CPU {cpu}: {count}"))).collect()
}
