// SPDX-License-Identifier: GPL-2.0-only
//! The list of skipped tests (`crates/skip`): how many, and why. On a CI machine only some reasons are accepted, so
//! that no test is skipped forever because a package is missing there.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// Parts of reasons that no package of the system can remove: the kernel of the machine, its CPUs, its rights to devices
/// and cgroups, its network, a compiler for browsers. The virtual machine runs the tests that need a sched_ext kernel, and
/// `make test-playground` builds what its tests need.
const ACCEPTED: [&str; 9] = [
    "sched_ext",
    "CPUs",
    "one CPU only",
    "this kernel",
    "cgroup",
    "/dev/fuse",
    "block device",
    "no network",
    "make test-playground",
];

/// Prints the number of skipped tests by reason.
///
/// # Errors
/// If the list is unreadable, or `is_ci` and a reason is not one of [`ACCEPTED`].
pub fn report(list: &Path, is_ci: bool) -> Result<()> {
    let text = match std::fs::read_to_string(list) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| list.display().to_string())?,
    };
    let reasons = by_reason(&text);
    let count: usize = reasons.values().map(Vec::len).sum();
    println!("{count} tests skipped{}", if count == 0 { "" } else { ":" });
    for (reason, tests) in &reasons {
        println!("  {:>3}  {reason} ({}{})", tests.len(), tests[0], if tests.len() > 1 { ", …" } else { "" });
    }
    let unknown = refused(&reasons);
    ensure!(!is_ci || unknown.is_empty(), "skipped in CI, which should have what they need: {}", unknown.join("; "));
    Ok(())
}

/// Names of the skipped tests by reason.
fn by_reason(list: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (test, reason) in list.lines().filter_map(|line| line.split_once('\t')) {
        reasons.entry(reason).or_default().push(test);
    }
    reasons
}

/// Reasons that are not accepted in CI.
fn refused<'a>(reasons: &BTreeMap<&'a str, Vec<&str>>) -> Vec<&'a str> {
    reasons.keys().copied().filter(|reason| !ACCEPTED.iter().any(|part| reason.contains(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_counted_by_reason_and_missing_tools_refused() {
        let reasons = by_reason("a::b\tone CPU only\nc\tlrzip is not installed\nd\tone CPU only\n");
        assert_eq!(reasons["one CPU only"], ["a::b", "d"]);
        assert_eq!(refused(&reasons), ["lrzip is not installed"]);
    }
}
