// SPDX-License-Identifier: GPL-2.0-only
//! `lab/results/desktop-rules.md`: each rule of `bfs`, `vrq` and `muqss` with its tests.

use std::collections::BTreeSet;
use std::fs;

/// Modules whose tests are about rules of the three policies.
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

/// The tests in the sources, as cargo names them.
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

/// Rule, tests and mark of each row.
fn rules() -> Vec<(String, Vec<String>, String)> {
    let text = fs::read_to_string("../../lab/results/desktop-rules.md").unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.filter(|row| !row.starts_with("rule |"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [rule, tests, mark] = cells[..] else { panic!("three cells: {row}") };
        let tests = tests.split(", ").filter(|test| *test != "-").map(|test| test.trim_matches(['`', ' ']).to_owned());
        (rule.to_owned(), tests.collect(), mark.to_owned())
    })
    .collect()
}

#[test]
fn every_rule_has_its_tests() {
    let (tests, rules) = (tests(), rules());
    assert!(tests.len() > 60 && rules.len() > 50, "{} tests, {} rules", tests.len(), rules.len());
    for (rule, named, mark) in &rules {
        assert_eq!(mark == "untested", named.is_empty(), "{rule}");
        assert!(["exact", "substitute", "untested"].contains(&mark.as_str()), "{rule}: {mark}");
        for test in named {
            assert!(tests.contains(test), "{rule}: there is no test {test}");
        }
    }
    let named: BTreeSet<&String> = rules.iter().flat_map(|(_, named, _)| named).collect();
    for test in &tests {
        assert!(named.contains(test), "lab/results/desktop-rules.md: no rule names {test}");
    }
}
