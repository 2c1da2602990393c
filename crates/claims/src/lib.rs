// SPDX-License-Identifier: GPL-2.0-only
//! Claims that authors of schedulers published, as data, and the verdict on each from repeated runs.
//!
//! 1. A claim file says what was claimed, in which text, and which runs decide: two sides, a measure, and the expected
//!    sign and size of the difference. Files are written from the text alone, and committed before the first run.
//! 2. The unit of every test is the sample of the machine's uncertain constants: both sides run on the same samples
//!    with the same seeds, and each sample gives one difference, the median over its seeds.
//! 3. The verdict follows from a sign test over the samples and from the expected range of sizes ([`Verdict`]).
//!
//! A side is a simulated run, or a timed search of a map of blocks (`workhorses/bitfit`) on the machine at hand.
//!
//! This crate reads TOML text and computes; it runs nothing.

mod claim;
mod decide;
mod effects;
mod file;

pub use claim::{Claim, Expectation, Experiment, Off, Search, Setup, Side, Steps, Test};
pub use decide::{Decider, decider};
pub use effects::{Effects, difference_ppm, needed};
pub use file::ClaimError;

mod verdict;
pub use verdict::{Judgement, Step, Verdict, judge, judge_steps};

/// The shipped claim files: name and text.
pub const FILES: [(&str, &str); 6] = [
    ("bfs.toml", include_str!("../../../claims/bfs.toml")),
    ("vrq.toml", include_str!("../../../claims/vrq.toml")),
    ("nix.toml", include_str!("../../../claims/nix.toml")),
    ("lecture.toml", include_str!("../../../claims/lecture.toml")),
    ("lrzip.toml", include_str!("../../../claims/lrzip.toml")),
    ("bitfit.toml", include_str!("../../../claims/bitfit.toml")),
];

/// A workload of the source tree: its path, and its bytes.
macro_rules! workload {
    ($path:literal) => {
        ($path, include_bytes!(concat!("../../../", $path)))
    };
}

/// Workloads of the shipped claims that have no other name than the path that they have in the source tree.
pub const WORKLOADS: [(&str, &[u8]); 20] = [
    workload!("claims/workloads/aim7-disk.json"),
    workload!("claims/workloads/barrier-asleep.json"),
    workload!("claims/workloads/barrier.json"),
    workload!("claims/workloads/chase-far.json"),
    workload!("claims/workloads/chase.json"),
    workload!("claims/workloads/files-in-memory.json"),
    workload!("claims/workloads/files-on-disk.json"),
    workload!("claims/workloads/inactive.json"),
    workload!("claims/workloads/jobs-1024.json"),
    workload!("claims/workloads/media.json"),
    workload!("claims/workloads/newcomer.json"),
    workload!("claims/workloads/read-random.json"),
    workload!("claims/workloads/read-sequential.json"),
    workload!("claims/workloads/replies.json"),
    workload!("claims/workloads/reserved.json"),
    workload!("claims/workloads/shared-memory.json"),
    workload!("claims/workloads/short-tasks.json"),
    workload!("claims/workloads/tickets.json"),
    workload!("workloads/recorded/lrz-overlap.weir"),
    workload!("workloads/recorded/lrz-serial.weir"),
];

/// Reads the claims of several files: name and text of each.
///
/// # Errors
/// The first error of a file, or an identifier that two claims share.
pub fn read_all<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Vec<Claim>, ClaimError> {
    let mut all: Vec<Claim> = Vec::new();
    for (name, text) in files {
        for claim in Claim::from_toml(name, text)? {
            if let Some(other) = all.iter().find(|other| other.id == claim.id) {
                let problem = format!("id {:?} is that of the claim at {}; expected another", claim.id, other.place);
                return Err(ClaimError { place: claim.place, problem });
            }
            all.push(claim);
        }
    }
    Ok(all)
}

/// Begin of the page of all verdicts; `{SUMMARY}` and `{COMMIT}` are to be replaced.
pub const INTRODUCTION: &str = include_str!("../../../claims/findings/introduction.txt");

/// Last section of the page of verdicts.
pub const LEARNED: &str = include_str!("../../../claims/findings/learned.txt");

/// Claims that were looked into after their runs: identifier, and what was found, in Markdown.
pub const FINDINGS: [(&str, &str); 3] = [
    (
        "gang-better-than-currency-for-replies",
        include_str!("../../../claims/findings/gang-better-than-currency-for-replies.txt"),
    ),
    ("entitlement-half-life", include_str!("../../../claims/findings/entitlement-half-life.txt")),
    ("aim7-12-cpus-slower-than-8", include_str!("../../../claims/findings/aim7-12-cpus-slower-than-8.txt")),
];
