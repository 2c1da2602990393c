// SPDX-License-Identifier: GPL-2.0-only
//! `bfs` in the model compared with kernels with MuQSS, its successor (`verify/conformance/successor`).

use conformance::successor;

/// Shares of hogs by nice value, run intervals and gaps with several slices, responses of a periodic task beside 1 to
/// 8 hogs: within the kernel's own spread, except known differences.
fn compare(kernel: &str, rounds: usize) {
    let records = successor::recorded(kernel).unwrap();
    assert!(records.len() == rounds && records.iter().all(|record| record.count() > 100));
    let (text, well) = successor::compare(kernel, &successor::simulated(kernel).unwrap(), &records);
    assert!(well, "{text}");
}

#[test]
fn bfs_matches_muqss_with_slices_ending_at_ticks() {
    compare("B", 5);
}

#[test]
fn bfs_matches_muqss_where_ticks_do_not_matter() {
    compare("A", 3);
}

/// Five equal hogs, and four beside four of nice 5.
#[test]
fn bfs_shares_hogs_on_four_cpus_like_muqss() {
    let records = successor::recorded("A4").unwrap();
    assert_eq!(records.len(), 3);
    let (text, well) = successor::compare("A4", &successor::simulated("A4").unwrap(), &records);
    assert!(well, "{text}");
}

/// Threads forked by a hog, with half of its slice and its deadline: shares are compared, not which runs first.
#[test]
fn bfs_fork_shares_match_muqss() {
    let records = successor::recorded("forks").unwrap();
    assert_eq!(records.len(), 3);
    let (text, well) = successor::compare("forks", &successor::simulated("forks").unwrap(), &records);
    assert!(well, "{text}");
}

/// The comparison can fail: slices that end at other times are detected, in shares too.
#[test]
fn slices_ending_at_other_times_do_not_match() {
    let (text, well) = successor::compare("B", &successor::simulated("A").unwrap(), &successor::recorded("B").unwrap());
    assert!(
        !well
            && text.lines().any(|line| line.contains("nice-5") && line.contains("share") && line.ends_with("TOO FAR"))
    );
}
