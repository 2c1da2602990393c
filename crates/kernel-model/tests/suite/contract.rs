// SPDX-License-Identifier: GPL-2.0-only
//! Checks that `docs/reference/contract.md` and the tests name each other.

use std::collections::BTreeSet;
use std::path::Path;

/// Letters of the rules with their last number. The vectors share one entry, which names the first and the last.
const RULES: [(char, u32); 18] = [
    ('O', 6),
    ('C', 2),
    ('T', 14),
    ('D', 12),
    ('P', 9),
    ('K', 4),
    ('I', 5),
    ('B', 2),
    ('W', 1),
    ('E', 3),
    ('X', 2),
    ('H', 1),
    ('G', 1),
    ('R', 1),
    ('S', 2),
    ('Q', 5),
    ('V', 1),
    ('V', 10),
];

/// Names of all tests of this crate.
fn tests_below(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for (attribute, line) in text.lines().zip(text.lines().skip(1)) {
                let name = line.trim().strip_prefix("fn ").and_then(|rest| rest.split_once('('));
                if let (Some((name, _)), "#[test]") = (name, attribute.trim()) {
                    names.insert(name.to_owned());
                }
            }
        }
    }
}

/// `t12` of `t12_exiting_task_...`, if the name begins with a rule.
fn rule_of(name: &str) -> Option<&str> {
    let rule = name.split('_').next()?;
    let (letter, number) = rule.split_at_checked(1)?;
    let known = RULES.iter().any(|(known, _)| known.to_ascii_lowercase().to_string() == letter);
    (known && number.parse::<u32>().is_ok()).then_some(rule)
}

#[test]
fn contract_page_and_tests_name_each_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/reference/contract.md")).unwrap();
    let mut tests = BTreeSet::new();
    tests_below(&root.join("tests"), &mut tests);
    tests_below(&root.join("src"), &mut tests);
    let mut complaints = Vec::new();
    for (letter, last) in RULES {
        let numbers = if letter == 'V' { last..=last } else { 1..=last };
        for number in numbers {
            let rule = page.split("\n- ").find(|rule| rule.contains(&format!("**{letter}{number}**")));
            match rule {
                None => complaints.push(format!("rule {letter}{number} is missing")),
                Some(rule) if !rule.contains('`') && !rule.contains("not yet") => {
                    complaints.push(format!("rule {letter}{number} names no test"));
                }
                Some(_) => {}
            }
        }
    }
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(|name| name.contains('_')).collect();
    for name in &named {
        // Names of ops and kernel objects are in backticks too; names of tests have at least four words.
        if name.matches('_').count() >= 3 && !tests.contains(*name) {
            complaints.push(format!("the page names a missing test {name}"));
        }
    }
    for name in tests.iter().filter(|name| rule_of(name).is_some() && !named.contains(name.as_str())) {
        complaints.push(format!("the page does not name {name}"));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
