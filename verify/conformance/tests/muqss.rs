// SPDX-License-Identifier: GPL-2.0-only
//! `muqss` in the model beside what MuQSS 0.31 did (`verify/conformance/muqss`, and kernel A of `verify/conformance/heir`).

use conformance::{heir, muqss};

/// As far from the kernel as that is from itself, but for what is known.
fn compare(cases: &str, values: usize) {
    let records = muqss::recorded(cases).unwrap();
    assert!(records.len() == 3 && records.iter().all(|record| record.count() == values), "{cases}");
    let (text, well) = muqss::compare(cases, &muqss::simulated(cases).unwrap(), &records);
    assert!(well, "{text}");
}

/// Shares of hogs by nice, turns and gaps at several slices, responses of a periodic job beside 1 to 8 hogs.
#[test]
fn muqss_does_what_its_model_does_on_one_cpu() {
    compare("bfs", 133);
}

/// Two hogs of more nice values, one of nice 19 beside four, and a short job every 10 ms beside 2 to 8 hogs.
#[test]
fn shares_and_sleepers_are_those_of_the_kernel() {
    compare("one", 105);
}

/// A hog that makes a thread of 1 ms after each 10 ms, alone and beside 1 and 4 hogs: shares, how long children wait, switches.
#[test]
fn forks_are_those_of_the_kernel() {
    compare("forks", 30);
}

/// Three hogs on two CPUs, five on four, and two nice values on four, with a queue for each CPU.
#[test]
fn cpus_share_hogs_as_the_kernel_does() {
    compare("two", 6);
    compare("four", 18);
}

/// It can fail: under `bfs` the child goes first.
#[test]
fn children_that_go_first_are_too_far() {
    let records = muqss::recorded("forks").unwrap();
    let (text, well) = muqss::compare("forks", &heir::simulated("forks").unwrap(), &records);
    assert!(!well && text.lines().any(|line| line.contains("wait-p50") && line.ends_with("TOO FAR")), "{text}");
}

/// The comparison can fail: hogs that stay where they are do not share what others share.
#[test]
fn hogs_that_stay_are_too_far() {
    let records = muqss::recorded("two").unwrap();
    let text = muqss::simulated("two").unwrap().to_string();
    let swapped = text.replace("three-apart", "x").replace("three ", "three-apart ").replace("x ", "three ");
    assert!(!muqss::compare("two", &swapped.parse().unwrap(), &records).1);
}
