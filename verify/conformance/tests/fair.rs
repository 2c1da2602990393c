// SPDX-License-Identifier: GPL-2.0-only
//! `cfs@6.1` in the model beside what the scheduler of Linux 6.1 did, and what Linux 7.2 did with `cfs@6.1` loaded
//! (`verify/conformance/fair`).

use conformance::fair;
use conformance::fair::properties::{apart, in_page, markdown};

/// Shares by nice value and policy, turns by the number of hogs, sleepers, jobs and children beside them, with the units of
/// one CPU and of four: as far from the kernel as that is from itself, but for what is known.
#[test]
fn cfs_does_what_the_kernel_did() {
    let records = fair::recorded("6.1-1000").unwrap();
    assert!(records.len() == 3 && records.iter().all(|record| record.count() > 400));
    let (text, well) = fair::compare(&fair::simulated("6.1", 1_000).unwrap(), &records);
    assert!(well, "{text}");
}

/// The same policy in a kernel of today, once: what P1 to P9 are about is as near as their tolerances ask, but for what is
/// named.
#[test]
fn cfs_does_in_the_model_what_it_does_in_a_kernel() {
    let records = fair::recorded("7.2-250").unwrap();
    assert!(records.len() == 1 && records[0].count() > 400);
    let apart = apart(250, &fair::simulated("6.1", 250).unwrap(), &records[0]);
    expect_test::expect!["child-4-of-4 child wait-max: 11.7 ms 32.1 ms"].assert_eq(&apart.join("\n"));
}

/// The comparison can fail: 2.6.36 is not 6.1.
#[test]
fn an_older_version_does_not() {
    let model = fair::simulated("2.6.36", 1_000).unwrap();
    let (text, well) = fair::compare(&model, &fair::recorded("6.1-1000").unwrap());
    assert!(!well && text.lines().any(|line| line.ends_with("TOO FAR")), "{text}");
}

/// `UPDATE_EXPECT=1` renews the page.
#[test]
fn the_page_shows_what_was_measured() {
    let page = expect_test::expect_file!["../../../lab/results/cfs-properties.md"];
    let (linux, loaded) = (fair::recorded("6.1-1000").unwrap(), fair::recorded("7.2-250").unwrap());
    let model = |hz| [fair::simulated("6.1", hz).unwrap()];
    let with_1000 = markdown(1_000, &[("Linux 6.1", &linux), ("`cfs@6.1` in the model", &model(1_000))]);
    let with_250 = markdown(250, &[("`cfs@6.1` in Linux 7.2", &loaded), ("in the model", &model(250))]);
    let text = in_page(&page.data(), 1_000, &with_1000).unwrap();
    page.assert_eq(&in_page(&text, 250, &with_250).unwrap());
}
