// SPDX-License-Identifier: GPL-2.0-only
//! Campaign files and files of finished runs: any bytes give a result or an error without a panic. Lines of runs are read
//! with right checksums, too, which a fuzzer does not find.

use campaign::{Campaign, Store};
use xxhash_rust::xxh3::xxh3_64;

/// Reads the bytes as a campaign, as a file of runs, and as the JSON of runs.
pub fn run(bytes: &[u8]) {
    let _ = Campaign::from_toml("fuzz", &String::from_utf8_lossy(bytes));
    read(bytes);
    let mut checked = b"weir-runs 1 {\"measures\":[\"makespan_ns\",\"wakeups\"]}\n".to_vec();
    for line in bytes.split(|byte| *byte == b'\n') {
        checked.extend(format!("{:016x} ", xxh3_64(line)).bytes().chain(line.iter().copied()).chain([b'\n']));
    }
    read(&checked);
}

fn read(segment: &[u8]) {
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    std::fs::create_dir(directory.path().join("results")).expect("it is empty");
    std::fs::write(directory.path().join("results/fuzz.runs"), segment).expect("a file can be written");
    let Ok(mut store) = Store::open(&[directory.path()], &["wakeups"]) else { return };
    for id in store.ids().collect::<Vec<_>>() {
        let _ = store.read(id);
    }
}
