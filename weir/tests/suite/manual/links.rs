// SPDX-License-Identifier: GPL-2.0-only
//! Links of the manual lead to existing pages, and commands that no test runs use existing options.

use super::{pages, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// Targets of `[text](target)`.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

#[test]
fn table_of_contents_lists_every_page_once() {
    let text = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut named = links(&text);
    named.sort_unstable();
    let mut there: Vec<String> = pages().into_iter().map(|page| page.name).collect();
    there.retain(|name| name.starts_with("docs/") && name != "docs/SUMMARY.md");
    let there: Vec<&str> = there.iter().map(|name| name.trim_start_matches("docs/")).collect();
    assert_eq!(named, there);
}

#[test]
fn links_and_page_names_lead_to_existing_files() {
    for page in pages() {
        let directory = root().join(&page.name);
        let directory = directory.parent().unwrap();
        for target in links(&page.text) {
            let path = target.split('#').next().unwrap();
            // The playground is built beside the manual: target/playground, target/manual.
            let is_playground = page.name.starts_with("docs/course/") && path == "../../playground/index.html";
            let fine =
                path.is_empty() || path.starts_with("https://") || is_playground || directory.join(path).exists();
            assert!(fine, "{}: {target} is not there", page.name);
        }
        let words = page.text.split(|c: char| !(c.is_alphanumeric() || "/.-_".contains(c)));
        for name in words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("docs/")) {
            assert!(name == "docs/" || root().join(name).exists(), "{}: {name} is not there", page.name);
        }
    }
}

/// Whether a help text contains an option as a word.
fn has(help: &str, option: &str) -> bool {
    help.split(|c: char| c.is_whitespace() || ",=<[".contains(c)).any(|word| word == option)
}

#[test]
fn unexecuted_commands_use_existing_options() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.kind() != "console") {
            for line in &block.lines {
                // In `sudo weir run bfs -- make -j4    what it does`, the words after `--` and after several blanks
                // do not belong to weir's command line.
                let Some((_, rest)) = line.split_once("weir ").filter(|(before, _)| commands(before)) else { continue };
                let rest = rest.trim_start_matches("-- ").split("   ").next().unwrap().split(" #").next().unwrap();
                let rest = rest.split(" -- ").next().unwrap().split(" | ").next().unwrap();
                let mut words = rest.split_whitespace();
                let Some(name) = words.next().filter(|name| name.chars().all(|c| c.is_ascii_lowercase())) else {
                    continue;
                };
                let help = helps.entry(name.to_owned()).or_insert_with(|| {
                    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args([name, "--help"]).output().unwrap();
                    assert!(output.status.success(), "{}: {line}: no command {name}", page.name);
                    String::from_utf8(output.stdout).unwrap()
                });
                for option in words.filter(|word| word.starts_with('-') && word.len() > 1) {
                    let option = option.split('=').next().unwrap();
                    assert!(has(help, option), "{}: {line}: weir {name} has no {option}", page.name);
                    seen.insert((name.to_owned(), option.to_owned()));
                }
            }
        }
    }
    assert!(seen.len() > 10, "{seen:?}");
}

/// Whether the text before `weir ` makes it a command.
fn commands(before: &str) -> bool {
    ["", "$ ", "sudo ", "cargo run --release -p "].contains(&before.trim_start_matches("target/release/"))
        || before.ends_with("target/release/")
}
