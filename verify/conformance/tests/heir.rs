// SPDX-License-Identifier: GPL-2.0-only
//! `bfs` in the model beside what kernels with MuQSS, its heir, did (`verify/conformance/heir`).

use conformance::heir;

/// Shares of hogs by nice, turns and gaps at several slices, responses of a periodic job beside 1 to 8 hogs: as far from the
/// heir as that is from itself, but for what is known.
fn compare(kernel: &str, rounds: usize) {
    let records = heir::recorded(kernel).unwrap();
    assert!(records.len() == rounds && records.iter().all(|record| record.count() > 100));
    let (text, well) = heir::compare(kernel, &heir::simulated(kernel).unwrap(), &records);
    assert!(well, "{text}");
}

#[test]
fn bfs_does_what_its_heir_does_at_ticks() {
    compare("B", 5);
}

#[test]
fn bfs_does_what_its_heir_does_where_ticks_do_not_matter() {
    compare("A", 3);
}

/// Five equal hogs, and four beside four of nice 5.
#[test]
fn four_cpus_share_hogs_as_the_heirs_do() {
    let records = heir::recorded("A4").unwrap();
    assert_eq!(records.len(), 3);
    let (text, well) = heir::compare("A4", &heir::simulated("A4").unwrap(), &records);
    assert!(well, "{text}");
}

/// Threads that a hog makes, with half of its slice and its deadline: who runs how much, not who goes first.
#[test]
fn forks_are_those_of_the_heir() {
    let records = heir::recorded("forks").unwrap();
    assert_eq!(records.len(), 3);
    let (text, well) = heir::compare("forks", &heir::simulated("forks").unwrap(), &records);
    assert!(well, "{text}");
}

/// The comparison can fail: slices that end at other times are noticed, in shares too.
#[test]
fn slices_that_end_elsewhere_are_too_far() {
    let (text, well) = heir::compare("B", &heir::simulated("A").unwrap(), &heir::recorded("B").unwrap());
    assert!(
        !well
            && text.lines().any(|line| line.contains("nice-5") && line.contains("share") && line.ends_with("TOO FAR"))
    );
}
