// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the running kernel that Weir's own programs need, from its BTF and its files.

use crate::LinkError;
use host::proc::{check_root, cpus, page_bytes, read, release};
use libbpf_rs::btf::{
    Btf, BtfType,
    types::{Composite, DataSec, MemberAttr, Struct, Typedef, Var},
};
use recording::convert::{Host, command_line};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Checks that this process may load programs and that the kernel has the required features.
///
/// # Errors
/// The first missing requirement.
pub fn check() -> Result<(), LinkError> {
    check_root()?;
    fs::metadata(VMLINUX_BTF).map_err(|source| LinkError::NoBtf { path: VMLINUX_BTF, source })?;
    Ok(())
}

/// Command lines of all processes that have one.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn command_lines() -> Result<BTreeMap<u32, String>, LinkError> {
    let mut lines = BTreeMap::new();
    for entry in fs::read_dir("/proc").map_err(LinkError::file("/proc"))?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let bytes = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let whole = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        if !whole.is_empty() {
            lines.insert(process, command_line(whole.split(|byte| *byte == 0).map(String::from_utf8_lossy)));
        }
    }
    Ok(lines)
}

/// Checks that the kernel has these tracepoints. Returns the distance of this CPU's preemption count from its `struct
/// rq`, in bytes.
///
/// Both are per-CPU variables of one section, whose offsets are in BTF. The count is a variable of its own since 6.15
/// and a member of `pcpu_hot` before.
///
/// # Errors
/// The tracepoint or variable that the kernel lacks.
pub fn preempt_count_from_rq(tracepoints: &[&str]) -> Result<i64, LinkError> {
    let btf = Btf::from_vmlinux().map_err(LinkError::bpf("read the kernel's BTF"))?;
    for tracepoint in tracepoints {
        if !has_tracepoint(&btf, tracepoint) {
            return Err(LinkError::Unsupported {
                missing: format!("tracepoint {tracepoint}"),
                reason: "its events are what is measured",
            });
        }
    }
    let rq = variable_offset(&btf, "runqueues");
    let count = variable_offset(&btf, "__preempt_count")
        .or_else(|| Some(variable_offset(&btf, "pcpu_hot")? + member_offset(&btf, "pcpu_hot", "preempt_count")?));
    let missing = |name: &str| LinkError::Unsupported {
        missing: format!("per-CPU variable {name} in the kernel's BTF"),
        reason: "it tells wakeups by interrupts from those by tasks",
    };
    Ok(count.ok_or_else(|| missing("__preempt_count"))? - rq.ok_or_else(|| missing("runqueues"))?)
}

/// The tracepoints among these that the kernel has.
///
/// # Errors
/// If its BTF cannot be read.
pub fn known_tracepoints<'a>(tracepoints: &[&'a str]) -> Result<Vec<&'a str>, LinkError> {
    let btf = Btf::from_vmlinux().map_err(LinkError::bpf("read the kernel's BTF"))?;
    Ok(tracepoints.iter().copied().filter(|tracepoint| has_tracepoint(&btf, tracepoint)).collect())
}

/// Whether perf provides this event, such as `sched/sched_switch`. False if tracefs is not mounted.
pub fn has_event(event: &str) -> bool {
    let mounts = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    mounts.iter().any(|mount| Path::new(mount).join("events").join(event).join("id").exists())
}

fn has_tracepoint(btf: &Btf<'_>, tracepoint: &str) -> bool {
    btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some()
}

/// Offset of a per-CPU variable in its section.
fn variable_offset(btf: &Btf<'_>, name: &str) -> Option<i64> {
    let named = |id| btf.type_by_id::<Var<'_>>(id).is_some_and(|var| has_name(&var, name));
    btf.type_by_kind::<DataSec<'_>>()
        .filter(|section| has_name(section, ".data..percpu"))
        .find_map(|section| section.iter().find(|info| named(info.ty)).map(|info| i64::from(info.offset)))
}

fn has_name(ty: &BtfType<'_>, name: &str) -> bool {
    ty.name().is_some_and(|found| found == name)
}

/// Offset of a struct member, which may be inside anonymous unions and structs.
fn member_offset(btf: &Btf<'_>, type_name: &str, member: &str) -> Option<i64> {
    let whole = btf.type_by_name::<Struct<'_>>(type_name)?;
    nested_offset(btf, &whole, member)
}

fn nested_offset(btf: &Btf<'_>, ty: &BtfType<'_>, member: &str) -> Option<i64> {
    let composite = Composite::try_from(*ty).ok()?;
    composite.iter().find_map(|found| {
        let MemberAttr::Normal { offset: bits } = found.attr else { return None };
        let here = i64::from(bits / 8);
        match found.name {
            Some(name) if name == member => Some(here),
            Some(name) if !name.is_empty() => None,
            _ => Some(here + nested_offset(btf, &btf.type_by_id::<BtfType<'_>>(found.ty)?, member)?),
        }
    })
}

/// Machine data needed by the conversion.
///
/// # Errors
/// The file that could not be read.
pub fn host() -> Result<Host, LinkError> {
    Ok(Host { cpus: cpus("possible")?, page_bytes: page_bytes()?, groups: groups(), devices: devices() })
}

/// Names of the block devices by device number (major << 20 | minor), as far as available: each is a link
/// `MAJOR:MINOR` to a directory of that name.
fn devices() -> BTreeMap<u32, String> {
    let entries = fs::read_dir("/sys/dev/block").into_iter().flatten().flatten();
    let device = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let (major, minor) = name.to_str()?.split_once(':')?;
        let directory = fs::read_link(entry.path()).ok()?;
        let number = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
        Some((number, directory.file_name()?.to_str()?.to_owned()))
    };
    entries.filter_map(device).collect()
}

/// Paths of the v2 cgroups by ID, which is the inode number of their directory; the root is 1. Only those that are
/// mounted here and readable.
pub fn groups() -> BTreeMap<u64, String> {
    /// Limit on the number of cgroups.
    const MOST: usize = 100_000;
    let mut groups = BTreeMap::from([(1, "/".to_owned())]);
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    // Fields of proc_pid_mountinfo(5): the fifth is the mount point, and the type follows a dash.
    let mounted = mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let mut todo: Vec<PathBuf> = mounted.map(PathBuf::from).into_iter().collect();
    while let Some(directory) = todo.pop().filter(|_| groups.len() < MOST) {
        let inside = fs::read_dir(&directory).into_iter().flatten().flatten();
        for entry in inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = entry.path();
            let name = path.strip_prefix(mounted.unwrap_or_default()).unwrap_or(&path).to_string_lossy();
            groups.insert(entry.ino(), format!("/{name}"));
            todo.push(path);
        }
    }
    groups
}

/// Whether a task can be preempted inside a tracepoint program. Kernels up to 6.18 disable preemption there, 7.2 does
/// not; those between are treated like 7.2.
pub fn preempts_tracepoints() -> Result<bool, LinkError> {
    Ok(is_after_6_18(&release()?))
}

fn is_after_6_18(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    [numbers.next(), numbers.next()] > [Some(6), Some(18)]
}

#[cfg(test)]
mod tests {
    use super::is_after_6_18;

    #[test]
    fn kernel_releases_are_compared_numerically() {
        let after = ["6.19.0-rc1", "7.0", "7.2.13+deb14-cloud-amd64", "10.1"];
        let before = ["5.15.0-91-generic", "6.2.16", "6.9", "6.18.44-fc-v782", "6.18"];
        assert!(after.iter().all(|release| is_after_6_18(release)));
        assert!(!before.iter().any(|release| is_after_6_18(release)));
    }
}
