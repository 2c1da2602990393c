// SPDX-License-Identifier: GPL-2.0-only
//! The model against what kernels did, as recorded in `recorded/`: no kernel and no virtual machine needed.

use conformance::compare::{Verdict, compare};
use conformance::{Scenario, model, recorded, shares, table};
use std::path::{Path, PathBuf};

/// Folders of records, one for each kernel.
fn kernels() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
    folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn every_scenario_has_a_record() {
    for folder in kernels() {
        let missing = |scenario: &&Scenario| !folder.join(format!("{}.txt", scenario.name)).exists();
        let all = Scenario::all();
        let missing: Vec<&str> = all.iter().filter(missing).map(|scenario| scenario.name.as_str()).collect();
        assert!(missing.is_empty(), "{}: {missing:?}; docs/fidelity.md tells how to record", folder.display());
    }
}

#[test]
fn the_model_does_what_the_kernel_did() {
    assert!(!kernels().is_empty());
    for folder in kernels() {
        let verdict = |scenario: &Scenario| {
            let text = std::fs::read_to_string(folder.join(format!("{}.txt", scenario.name))).ok()?;
            let kernel = recorded::read(&text).unwrap();
            Some(compare(scenario, &kernel, &model::play(scenario).unwrap()))
        };
        let verdicts: Vec<Verdict> = Scenario::all().iter().filter_map(verdict).collect();
        let wrong: Vec<Verdict> = verdicts.iter().filter(|verdict| !verdict.is_expected()).cloned().collect();
        assert!(wrong.is_empty(), "{}\n{}", folder.display(), table::text(&wrong));
    }
}

#[test]
fn shares_and_latencies_are_those_of_the_kernel() {
    for folder in kernels() {
        let text = std::fs::read_to_string(folder.join("shares")).unwrap();
        let (table, well) = shares::compare(&shares::read(&text).unwrap(), &shares::simulated().unwrap());
        assert!(well, "{}\n{table}", folder.display());
    }
}
