// SPDX-License-Identifier: GPL-2.0-only
//! Runs the bodies of the fuzz targets with damaged files, without a fuzzer.

#[path = "../../../fuzz/src/recording.rs"]
mod recording;
#[path = "../../../fuzz/src/rt_app.rs"]
mod rt_app;

use proptest::prelude::*;
use workload::{Observed, Recording, RecordingMeta, Workload, shipped};

/// A workload that uses every event and most parameters.
const RICH: &str = r#"{
  "tasks": {
    "a": {"instance": 2, "cpus": [0, 1], "priority": -3, "phases": {
      "p": {"loop": 3, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "run": 10, "barrier": "b"},
      "q": {"cpus": [2], "policy": "SCHED_FIFO", "priority": 7, "runtime": 5, "resume": "b", "fork": "d"}}},
    "b": {"delay": 4, "run": 9, "suspend": "b", "signal": "c", "broad": "c", "sync": {"ref": "c", "mutex": "m"}},
    "c": {"timer": {"ref": "uniqueT", "period": 50, "mode": "absolute"}, "yield": "", "sleep": 3, "barrier": "b"},
    "d": {"instance": 0, "loop": 2, "policy": "SCHED_DEADLINE", "dl-runtime": 2, "dl-period": 9, "run": 1},
  },
  "global": {"duration": 2, "default_policy": "SCHED_BATCH"},
}"#;

/// Changes a few bytes, and removes or duplicates a range.
fn damage(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)], stretch: (usize, usize), twice: bool) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = if byte & 0x80 == 0 { *byte } else { bytes[at] ^ (1 << (byte & 7)) };
    }
    let (from, to) = (stretch.0 % (bytes.len() + 1), stretch.1 % (bytes.len() + 1));
    let range = from.min(to)..from.max(to).min(from.min(to) + 20);
    let copy = if twice { [&bytes[range.clone()], &bytes[range.clone()]].concat() } else { Vec::new() };
    bytes.splice(range, copy);
    bytes
}

/// The fuzz target's input form of a recording: its decompressed blocks.
fn unpacked(text: &str) -> Vec<u8> {
    let workload = Workload::from_rt_app("w", text).unwrap();
    recording::unpack(
        &Recording { meta: RecordingMeta::default(), workload, observed: Observed::default() }.to_bytes().unwrap(),
    )
}

#[test]
fn undamaged_files_are_accepted() {
    rt_app::execute(&Workload::from_rt_app("w", RICH).unwrap());
    for text in shipped().iter().map(|file| file.1).chain([RICH]) {
        rt_app::run(text.as_bytes());
        recording::run(&unpacked(text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn damaged_files_never_panic(
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        stretch in any::<(usize, usize)>(),
        twice in any::<bool>(),
    ) {
        rt_app::run(&damage(RICH.as_bytes().to_vec(), &changes, stretch, twice));
        recording::run(&damage(unpacked(RICH), &changes, stretch, twice));
    }
}
