// SPDX-License-Identifier: GPL-2.0-only
//! Hand-written mutants, read from `verify/mutation/rules/*.toml`.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Directory of the files, relative to the repository root.
const DIRECTORY: &str = "verify/mutation/rules";

/// One mutant: a rule of the model that is broken on purpose.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleMutant {
    /// Name, for `--only`.
    pub name: String,
    /// Number of the broken rule in the contract.
    pub rule: String,
    /// Effect of the mutation in words.
    pub what: String,
    /// File that is changed, relative to the repository root.
    pub file: PathBuf,
    /// Text to replace, which must occur exactly once.
    pub old: String,
    /// Replacement text.
    pub new: String,
    /// Scenarios and tests that must be among those that kill the mutant.
    #[serde(default)]
    pub expect: Vec<String>,
    /// Arguments of `cargo test`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Whether the conformance scenarios are compared.
    #[serde(default = "yes")]
    pub scenarios: bool,
    /// Canary: a mutant that must be killed, or the command itself does not work.
    #[serde(default)]
    pub canary: bool,
    /// Stem of the file that contains the mutant, and the document page that the file names.
    #[serde(skip)]
    pub rules: String,
    #[serde(skip)]
    pub page: PathBuf,
}

fn yes() -> bool {
    true
}

impl RuleMutant {
    /// Returns `text`, the contents of the file, with the mutation.
    ///
    /// # Errors
    /// If the old text does not occur exactly once.
    pub fn apply(&self, text: &str) -> Result<String> {
        match text.matches(&self.old).count() {
            1 => Ok(text.replacen(&self.old, &self.new, 1)),
            count => {
                bail!(
                    "{}: the old text of mutant {} occurs {count} times, expected once",
                    self.file.display(),
                    self.name
                )
            }
        }
    }
}

/// Reads all mutants, in the order of the file names.
///
/// # Errors
/// If a file cannot be read or parsed, or a name occurs twice.
pub fn read(root: &Path) -> Result<Vec<RuleMutant>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        page: PathBuf,
        /// Default of mutants that name no tests.
        #[serde(default)]
        tests: Vec<String>,
        #[serde(default = "yes")]
        scenarios: bool,
        r#break: Vec<RuleMutant>,
    }
    let directory = root.join(DIRECTORY);
    let entries = fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut all: Vec<RuleMutant> = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file: File = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let rules = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let known = |one: RuleMutant| {
            let tests = if one.tests.is_empty() { file.tests.clone() } else { one.tests };
            let scenarios = one.scenarios && file.scenarios;
            RuleMutant { rules: rules.clone(), page: file.page.clone(), tests, scenarios, ..one }
        };
        all.extend(file.r#break.into_iter().map(known));
    }
    let mut names = BTreeSet::new();
    match all.iter().find(|one| !names.insert(&one.name)) {
        Some(twice) => bail!("two mutants are named {:?}", twice.name),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of a mutated place requires a change of its mutant; otherwise the tables in the documents would be
    /// outdated.
    #[test]
    fn every_mutant_applies_to_the_current_source() {
        let all = read(crate::root()).unwrap();
        let files: BTreeSet<&str> = all.iter().map(|one| one.rules.as_str()).collect();
        let canaries: Vec<&str> = all.iter().filter(|one| one.canary).map(|one| one.rules.as_str()).collect();
        assert_eq!(canaries, files.into_iter().collect::<Vec<_>>(), "one canary per file");
        for one in &all {
            let text = fs::read_to_string(crate::root().join(&one.file)).unwrap();
            assert_ne!(one.apply(&text).unwrap_or_else(|error| panic!("{error}")), text, "{}: no change", one.name);
            assert!(one.scenarios || !one.tests.is_empty(), "{}: neither scenarios nor tests are run", one.name);
        }
    }

    #[test]
    fn mutant_requires_its_text_exactly_once() {
        let text = "name = 'x'\nrule = 'T1'\nwhat = 'w'\nfile = 'f.rs'\nold = 'a + b'\nnew = 'a - b'\n";
        let one: RuleMutant = toml::from_str(text).unwrap();
        assert!(one.scenarios && !one.canary);
        assert_eq!(one.apply("let c = a + b;").unwrap(), "let c = a - b;");
        for (text, count) in [("", 0), ("a + b, a + b", 2)] {
            let error = one.apply(text).unwrap_err().to_string();
            assert_eq!(error, format!("f.rs: the old text of mutant x occurs {count} times, expected once"));
        }
    }
}
