// SPDX-License-Identifier: GPL-2.0-only
//! `cfs@6.1` in the model beside what the scheduler of Linux 6.1 did (`conformance/fair`).

use conformance::fair;

/// Shares by nice value and policy, turns by the number of hogs, sleepers and jobs beside them, with the units of one CPU and
/// of four: as far from the kernel as that is from itself, but for what is known.
#[test]
fn cfs_does_what_the_kernel_did() {
    let records = fair::recorded().unwrap();
    assert!(records.len() == 3 && records.iter().all(|record| record.count() > 100));
    let (text, well) = fair::compare(&fair::simulated("6.1").unwrap(), &records);
    assert!(well, "{text}");
}

/// The comparison can fail: 2.6.36 is not 6.1.
#[test]
fn an_older_version_does_not() {
    let (text, well) = fair::compare(&fair::simulated("2.6.36").unwrap(), &fair::recorded().unwrap());
    assert!(!well && text.lines().any(|line| line.ends_with("TOO FAR")), "{text}");
}
