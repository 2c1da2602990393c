// SPDX-License-Identifier: GPL-2.0-only
//! This machine: what `/proc`, `/sys` and system calls report about its CPUs and processes.

pub mod cpu_time;

use std::io;

/// Returns the release of the running kernel, as `uname -r` prints it: `6.18.44-amd64`.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn kernel_release() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned())
}
