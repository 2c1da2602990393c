// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the shipped profiles for third-party schedulers.

use launch_profile::Profile;
use std::fs;
use std::path::Path;

#[test]
fn every_shipped_profile_parses_and_has_a_summary() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
    let mut seen = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = fs::read_to_string(&path).unwrap();
            let profile = Profile::from_toml(&path.to_string_lossy(), &text).unwrap();
            assert!(!profile.summary().is_empty(), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}
