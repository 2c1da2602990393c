// SPDX-License-Identifier: GPL-2.0-only
//! Runs the body of the fuzz target with damaged files, without a fuzzer.

#[path = "../../../fuzz/src/campaign.rs"]
mod fuzz_campaign;

use campaign::{Appender, Buckets, Finished, RunId};
use proptest::prelude::*;

const CAMPAIGN: &str = "[axes]\nscheduler = ['kernel', 'bfs,x={1..3}{a,b}']\nseed = ['1-8', 9]\ndraws = 2\n\
                        [options]\nfor = '1s'\ncheck = true\n[[exclude]]\nscheduler = 'bfs*'\nseed = 3\n";

/// A file of two runs.
fn runs() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let mut appender = Appender::new(directory.path(), &["makespan_ns", "wakeups"]).unwrap();
    let histogram = Buckets { measure: "w".to_owned(), from: vec![1, 4], to: vec![3, 9], count: vec![2, 1] };
    let run = Finished { values: vec![Some(7), None], histograms: vec![histogram], ..Finished::default() };
    (1..3).for_each(|id| appender.append(RunId(id), &run).unwrap());
    let path = std::fs::read_dir(directory.path().join("results")).unwrap().next().unwrap().unwrap().path();
    std::fs::read(path).unwrap()
}

/// The lines of a file of runs without their checksums, which the body of the fuzz target adds.
fn unchecked(file: &[u8]) -> Vec<u8> {
    let lines = file.split(|byte| *byte == b'\n').skip(1).map(|line| line.get(17..).unwrap_or_default());
    lines.collect::<Vec<_>>().join(&b'\n')
}

proptest! {
    #[test]
    fn damaged_campaigns_and_runs_are_read_or_refused(
        kind in 0..3usize, at in any::<prop::sample::Index>(), change in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut bytes = vec![CAMPAIGN.as_bytes().to_vec(), runs(), unchecked(&runs())].swap_remove(kind);
        let at = at.index(bytes.len());
        bytes[at] = change;
        if cut {
            bytes.truncate(at + 1);
        }
        fuzz_campaign::run(&bytes);
    }
}
