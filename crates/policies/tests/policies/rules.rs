// SPDX-License-Identifier: GPL-2.0-only
//! Checks that `lab/results/desktop-rules.md` lists each rule of `bfs`, `vrq` and `muqss` with its existing tests, and
//! every test with a rule.

use std::collections::BTreeSet;
use std::fs;

/// Modules whose tests belong to rules of the three policies.
const MODULES: [&str; 13] = [
    "bfs",
    "bfs_presets",
    "bfs_turns",
    "both/idle_level",
    "both/machine",
    "both/preemption",
    "both/turns",
    "headers",
    "muqss",
    "muqss_cpus",
    "muqss_walk",
    "vrq",
    "vrq_cache",
];

/// Returns the names of the tests in the sources, as cargo prints them.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for module in MODULES {
        let text = fs::read_to_string(format!("tests/policies/{module}.rs")).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if line == "#[test]" {
                is_test = true;
            } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
                let name = rest.split('(').next().unwrap();
                names.insert(format!("{}::{name}", module.replace('/', "::")));
                is_test = false;
            }
        }
    }
    names
}

/// Returns each row of the document as (rule, tests, mark).
fn rules() -> Vec<(String, Vec<String>, String)> {
    let text = fs::read_to_string("../../lab/results/desktop-rules.md").unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.filter(|row| !row.starts_with("rule |"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [rule, tests, mark] = cells[..] else { panic!("expected three cells: {row}") };
        let tests = tests.split(", ").filter(|test| *test != "-").map(|test| test.trim_matches(['`', ' ']).to_owned());
        (rule.to_owned(), tests.collect(), mark.to_owned())
    })
    .collect()
}

#[test]
fn desktop_rules_document_matches_the_tests() {
    let (tests, rules) = (tests(), rules());
    assert!(tests.len() > 60 && rules.len() > 50, "{} tests, {} rules", tests.len(), rules.len());
    for (rule, named, mark) in &rules {
        assert_eq!(mark == "untested", named.is_empty(), "{rule}");
        assert!(["exact", "substitute", "untested"].contains(&mark.as_str()), "{rule}: {mark}");
        for test in named {
            assert!(tests.contains(test), "{rule}: test {test} does not exist");
        }
    }
    let named: BTreeSet<&String> = rules.iter().flat_map(|(_, named, _)| named).collect();
    for test in &tests {
        assert!(named.contains(test), "lab/results/desktop-rules.md: {test} belongs to no rule");
    }
}
