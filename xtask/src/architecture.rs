// SPDX-License-Identifier: GPL-2.0-only
//! Checks that the table of crates in ARCHITECTURE.md agrees with the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "ARCHITECTURE.md";

/// Crates outside of `crates/`.
const OTHERS: [&str; 5] = ["lab", "verify", "verify/conformance", "weir", "xtask"];

/// Returns each crate whose row in the table is missing or names other dependencies than its manifest.
pub fn complaints(root: &Path) -> Vec<String> {
    let mut directories: Vec<PathBuf> = OTHERS.iter().map(|name| root.join(name)).collect();
    let crates = fs::read_dir(root.join("crates")).expect("the crates");
    directories.extend(crates.flatten().map(|entry| entry.path()));
    let manifests: Vec<String> =
        directories.iter().filter_map(|path| fs::read_to_string(path.join("Cargo.toml")).ok()).collect();
    let page = fs::read_to_string(root.join(PAGE)).expect("the page of the architecture");
    differences(&page, &manifests)
}

fn differences(page: &str, manifests: &[String]) -> Vec<String> {
    let all: BTreeMap<&str, &str> = manifests.iter().filter_map(|text| Some((name(text)?, text.as_str()))).collect();
    let wrong = |(name, manifest): (&&str, &&str)| {
        let expected = dependencies(manifest).filter(|one| all.contains_key(one)).collect::<BTreeSet<_>>();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let named = row.and_then(|row| row.trim_end_matches(" |").rsplit_once("| ")).map(|(_, cell)| cell);
        let expected = expected.into_iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
        let expected = if expected.is_empty() { "nothing" } else { &expected };
        let fine = named.is_some_and(|named| named == expected);
        (!fine).then(|| format!("{PAGE}:1: the row of {name} must end with: {expected}"))
    };
    all.iter().filter_map(wrong).collect()
}

/// Name of a package.
fn name(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Names in the section `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    section.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split(['.', ' ']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_must_name_the_dependencies_of_the_manifest() {
        let a =
            "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nserde = \"1\"\n[dev-dependencies]\nc = 1\n";
        let manifests = [a.to_owned(), "[package]\nname = \"b\"\n".to_owned()];
        assert_eq!(differences("| `a` | x | `b` |\n| `b` | y | nothing |\n", &manifests), Vec::<String>::new());
        let wrong = differences("| `a` | x | nothing |\n", &manifests);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].ends_with("the row of a must end with: `b`"), "{wrong:?}");
    }
}
