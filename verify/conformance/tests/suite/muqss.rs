// SPDX-License-Identifier: GPL-2.0-only
//! `muqss` in the model compared with MuQSS 0.31 (`verify/conformance/muqss`, and kernel A of
//! `verify/conformance/successor`).

use conformance::{muqss, successor};

/// Asserts that the model is within the kernel's own spread, except known differences.
fn compare(cases: &str, values: usize) {
    let records = muqss::recorded(cases).unwrap();
    assert!(records.len() == 3 && records.iter().all(|record| record.count() == values), "{cases}");
    let (text, well) = muqss::compare(cases, &muqss::simulated(cases).unwrap(), &records);
    assert!(well, "{text}");
}

/// Shares of hogs by nice value, run intervals and gaps with several slices, responses of a periodic task beside 1 to
/// 8 hogs.
#[test]
fn muqss_matches_muqss_0_31_on_one_cpu() {
    compare("bfs", 133);
}

/// Two hogs of further nice values, a nice-19 hog beside four, and a short periodic task beside 2 to 8 hogs.
#[test]
fn muqss_shares_and_sleepers_match_the_kernel() {
    compare("one", 105);
}

/// A hog that forks a thread of 1 ms after each 10 ms, alone and beside 1 and 4 hogs: shares, waits of children,
/// switches.
#[test]
fn muqss_forks_match_the_kernel() {
    compare("forks", 30);
}

/// Three hogs on two CPUs, five on four, and two nice values on four, with per-CPU queues.
#[test]
fn muqss_shares_hogs_on_several_cpus_like_the_kernel() {
    compare("two", 6);
    compare("four", 18);
}

/// The comparison can fail: under `bfs` the child runs first.
#[test]
fn muqss_comparison_fails_if_forked_children_run_first() {
    let records = muqss::recorded("forks").unwrap();
    let (text, well) = muqss::compare("forks", &successor::simulated("forks").unwrap(), &records);
    assert!(!well && text.lines().any(|line| line.contains("wait-p50") && line.ends_with("TOO FAR")), "{text}");
}

/// The comparison can fail: hogs that do not migrate do not share CPUs.
#[test]
fn muqss_comparison_fails_if_hogs_do_not_migrate() {
    let records = muqss::recorded("two").unwrap();
    let text = muqss::simulated("two").unwrap().to_string();
    let swapped = text.replace("three-apart", "x").replace("three ", "three-apart ").replace("x ", "three ");
    assert!(!muqss::compare("two", &swapped.parse().unwrap(), &records).1);
}
