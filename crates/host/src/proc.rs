// SPDX-License-Identifier: GPL-2.0-only
//! Information of `/proc` and `/sys` about this machine and this process.

use crate::HostError;
use ids::{CpuId, CpuSet};
use std::fs;

/// Whether a process of this PID exists.
pub fn is_process(process: u32) -> bool {
    fs::metadata(format!("/proc/{process}")).is_ok()
}

/// Checks that this process runs as root.
///
/// # Errors
/// If this process does not run as root, or the kernel does not report the user.
pub fn check_root() -> Result<(), HostError> {
    match effective_uid()? {
        0 => Ok(()),
        effective_uid => Err(HostError::NotRoot { effective_uid }),
    }
}

/// Mask of the signals that this process ignores: bit 0 is signal 1.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn ignored_signals() -> Result<u64, HostError> {
    let path = "/proc/self/status";
    let text = read(path)?;
    let ignored = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.ok_or_else(|| HostError::Malformed(format!("{path} has no ignored signals")))
}

fn effective_uid() -> Result<u32, HostError> {
    let path = "/proc/self/status";
    let text = read(path)?;
    // Uid: real effective saved filesystem
    let uid = text.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok());
    uid.ok_or_else(|| HostError::Malformed(format!("{path} has no effective user id")))
}

/// CPUs that are online.
///
/// # Errors
/// The file that could not be read.
pub fn online() -> Result<CpuSet, HostError> {
    cpus("online")
}

/// CPUs that are present, online or offline.
///
/// # Errors
/// The file that could not be read.
pub fn present() -> Result<CpuSet, HostError> {
    cpus("present")
}

/// Another hardware thread of this CPU's core, if any: the next one, or else the first.
pub fn sibling(cpu: CpuId) -> Option<CpuId> {
    let text = read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok()?;
    let threads: CpuSet = text.trim().parse().ok()?;
    let next = threads.iter().find(|thread| *thread > cpu);
    next.or(threads.first()).filter(|thread| *thread != cpu)
}

/// CPU list in a file below `/sys/devices/system/cpu`.
pub fn cpus(which: &str) -> Result<CpuSet, HostError> {
    let path = format!("/sys/devices/system/cpu/{which}");
    let text = read(&path)?;
    text.trim().parse().map_err(|_| HostError::Malformed(format!("{path} holds `{}`, not CPUs", text.trim())))
}

/// Page size from the auxiliary vector: pairs of words, of which AT_PAGESZ is number 6.
pub fn page_bytes() -> Result<u64, HostError> {
    let path = "/proc/self/auxv";
    let bytes = fs::read(path).map_err(HostError::file(path))?;
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().expect("a whole word")) as u64;
    let size = size_of::<usize>();
    let mut pairs = bytes.chunks_exact(2 * size).map(|pair| (word(&pair[..size]), word(&pair[size..])));
    let found = pairs.find_map(|(key, value)| (key == 6).then_some(value));
    found.ok_or_else(|| HostError::Malformed(format!("{path} has no page size")))
}

/// TID of the calling thread.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn thread_id() -> Result<u32, HostError> {
    let path = "/proc/thread-self";
    let link = fs::read_link(path).map_err(HostError::file(path))?;
    let id = link.file_name().and_then(|name| name.to_str()?.parse().ok());
    id.ok_or_else(|| HostError::Malformed(format!("{path} points to {}", link.display())))
}

/// Kernel name and release, as in `uname -sr`.
///
/// # Errors
/// The file that could not be read.
pub fn name_and_release() -> Result<String, HostError> {
    Ok(format!("{} {}", read("/proc/sys/kernel/ostype")?.trim(), release()?))
}

/// Kernel release, as in `uname -r`: `6.18.44-amd64`.
///
/// # Errors
/// The file that could not be read.
pub fn release() -> Result<String, HostError> {
    Ok(read("/proc/sys/kernel/osrelease")?.trim().to_owned())
}

/// CPU model of `/proc/cpuinfo`; "unknown" if it has none (many ARM machines).
///
/// # Errors
/// If `/proc` is not mounted.
pub fn cpu_model() -> Result<String, HostError> {
    let text = read("/proc/cpuinfo")?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.trim_start().strip_prefix(':'));
    Ok(name.unwrap_or("unknown").trim().to_owned())
}

/// Reads a kernel file.
pub fn read(path: &str) -> Result<String, HostError> {
    fs::read_to_string(path).map_err(HostError::file(path))
}
