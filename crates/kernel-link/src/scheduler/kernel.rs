// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the running kernel for loading schedulers: sched_ext, its constants, permissions of this process.

use super::SchedulerError;
use crate::LinkError;
use host::proc::{read, release};
use ids::Nanos;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Enum64, Struct};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Bits of `CapEff` in `/proc/self/status` (include/uapi/linux/capability.h).
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// Polling interval while waiting for a state.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Checks that the kernel has sched_ext and BTF, and that this process may load a scheduler.
pub(super) fn check() -> Result<(), LinkError> {
    if !Path::new(SCHED_EXT).exists() {
        return Err(SchedulerError::NoSchedExt { kernel: release()? }.into());
    }
    fs::metadata(VMLINUX_BTF).map_err(|source| LinkError::NoBtf { path: VMLINUX_BTF, source })?;
    let path = "/proc/self/status";
    let text = read(path)?;
    let capabilities = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let has = |bits: u64| capabilities.is_some_and(|own| own & bits == bits);
    if has(CAP_SYS_ADMIN) || has(CAP_BPF | CAP_PERFMON) { Ok(()) } else { Err(SchedulerError::NoRights.into()) }
}

/// Reads a file below `/sys/kernel/sched_ext`.
fn attribute(name: &str) -> Result<String, LinkError> {
    Ok(read(&format!("{SCHED_EXT}/{name}"))?.trim().to_owned())
}

/// Reads a number below `/sys/kernel/sched_ext`.
pub(super) fn number(name: &str) -> Result<u64, LinkError> {
    let text = attribute(name)?;
    text.parse().map_err(|_| LinkError::Malformed(format!("{SCHED_EXT}/{name} holds `{text}`, not a number")))
}

/// `enabling`, `enabled`, `disabling` or `disabled`.
pub(super) fn state() -> Result<String, LinkError> {
    attribute("state")
}

/// Name of the active scheduler, if any.
fn active() -> Option<String> {
    attribute("root/ops").ok().filter(|name| !name.is_empty())
}

/// Event counters of the active scheduler; empty if the kernel has none.
pub(super) fn events() -> Vec<(String, u64)> {
    let text = attribute("root/events").unwrap_or_default();
    let pair = |line: &str| {
        let (name, count) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Waits until `done` accepts the state. The error names `expected`.
pub(super) fn wait_for(
    expected: &'static str,
    at_most: Duration,
    mut done: impl FnMut(&str) -> Result<bool, LinkError>,
) -> Result<(), LinkError> {
    let began = Instant::now();
    loop {
        let state = state()?;
        if done(&state)? {
            return Ok(());
        }
        if began.elapsed() >= at_most {
            return Err(SchedulerError::Stuck { state, expected, waited: at_most }.into());
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Checks that no scheduler is active. Waits for one that is being disabled.
pub(super) fn check_free(at_most: Duration) -> Result<(), LinkError> {
    let mut busy = false;
    wait_for("disabled", at_most, |state| {
        busy = state.starts_with("enabl");
        Ok(busy || state == "disabled")
    })?;
    let name = || active().unwrap_or_else(|| "without a name".into());
    if busy { Err(SchedulerError::Busy { name: name() }.into()) } else { Ok(()) }
}

/// Timer ticks per second (CONFIG_HZ), measured by the step of the coarse clock.
pub(super) fn hz() -> u32 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::RealtimeCoarse);
    let tick_ns = Nanos(tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64).0.max(1);
    (1_000_000_000 / tick_ns) as u32
}

/// sched_ext types in the kernel's BTF.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct KernelTypes {
    /// Enum constants whose names begin with `SCX_` or `__SCX_`.
    pub constants: BTreeMap<String, u64>,
    /// Members of `struct sched_ext_ops`.
    pub ops: BTreeSet<String>,
}

impl KernelTypes {
    /// Reads the types of the running kernel.
    pub fn read() -> Result<KernelTypes, LinkError> {
        let btf = Btf::from_vmlinux().map_err(LinkError::bpf("read the kernel's BTF"))?;
        let wanted = |name: &str| name.starts_with("SCX_") || name.starts_with("__SCX_");
        let ops = btf.type_by_name::<Struct<'_>>("sched_ext_ops");
        let ops = ops.iter().flat_map(|ops| ops.iter()).filter_map(|member| Some(member.name?.to_str()?.to_owned()));
        Ok(KernelTypes { constants: constants(&btf, wanted), ops: ops.collect() })
    }
}

/// Wanted constants of all enums, by name.
pub(super) fn constants(btf: &Btf<'_>, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
    let mut constants = BTreeMap::new();
    let mut add = |name: Option<&OsStr>, value: u64| {
        if let Some(name) = name.and_then(OsStr::to_str).filter(|name| wanted(name)) {
            constants.insert(name.to_owned(), value);
        }
    };
    for found in btf.type_by_kind::<Enum<'_>>() {
        found.iter().for_each(|one| add(one.name, one.value as u64));
    }
    for found in btf.type_by_kind::<Enum64<'_>>() {
        found.iter().for_each(|one| add(one.name, one.value as u64));
    }
    constants
}
