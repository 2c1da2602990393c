// SPDX-License-Identifier: GPL-2.0-only
//! `cfs@6.1` in the model compared with the scheduler of Linux 6.1, and with Linux 7.2 with `cfs@6.1` loaded
//! (`verify/conformance/fair`).

use conformance::fair;
use conformance::fair::properties::{apart, in_page, markdown};

/// Shares by nice value and policy, run intervals by number of hogs, sleepers, periodic tasks and children, with the
/// parameters of one CPU and of four: within the kernel's own spread, except known differences.
#[test]
fn cfs_matches_linux_6_1() {
    let records = fair::recorded("6.1-1000").unwrap();
    assert!(records.len() == 3 && records.iter().all(|record| record.count() > 400));
    let (text, well) = fair::compare(&fair::simulated("6.1", 1_000).unwrap(), &records);
    assert!(well, "{text}");
}

/// The policy `cfs` in the model, and loaded in Linux 7.2: the properties P1 to P9 agree within their tolerances,
/// except those named.
#[test]
fn cfs_in_the_model_matches_cfs_in_linux_7_2() {
    let records = fair::recorded("7.2-250").unwrap();
    assert!(records.len() == 1 && records[0].count() > 400);
    let apart = apart(250, &fair::simulated("6.1", 250).unwrap(), &records[0]);
    expect_test::expect!["child-4-of-4 child wait-max: 11.7 ms 32.1 ms"].assert_eq(&apart.join("\n"));
}

/// The comparison can fail: 2.6.36 differs from 6.1.
#[test]
fn older_preset_does_not_match_linux_6_1() {
    let model = fair::simulated("2.6.36", 1_000).unwrap();
    let (text, well) = fair::compare(&model, &fair::recorded("6.1-1000").unwrap());
    assert!(!well && text.lines().any(|line| line.ends_with("TOO FAR")), "{text}");
}

/// `UPDATE_EXPECT=1` updates the document.
#[test]
fn cfs_properties_page_shows_the_measurements() {
    let page = expect_test::expect_file!["../../../../lab/results/cfs-properties.md"];
    let (linux, loaded) = (fair::recorded("6.1-1000").unwrap(), fair::recorded("7.2-250").unwrap());
    let model = |hz| [fair::simulated("6.1", hz).unwrap()];
    let with_1000 = markdown(1_000, &[("Linux 6.1", &linux), ("`cfs@6.1` in the model", &model(1_000))]);
    let with_250 = markdown(250, &[("`cfs@6.1` in Linux 7.2", &loaded), ("in the model", &model(250))]);
    let text = in_page(&page.data(), 1_000, &with_1000).unwrap();
    page.assert_eq(&in_page(&text, 250, &with_250).unwrap());
}
