// SPDX-License-Identifier: GPL-2.0-only
//! The breaks, as `verify/mutation/rules/*.toml` has them.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where they are, below the repository.
const FOLDER: &str = "verify/mutation/rules";

/// One break.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// For `--only`.
    pub name: String,
    /// The rule that is broken, as the contract numbers it.
    pub rule: String,
    /// The break in words.
    pub what: String,
    /// The file that it is in.
    pub file: PathBuf,
    /// Text that is there once.
    pub old: String,
    /// What takes its place.
    pub new: String,
    /// Scenarios and tests that must be among those that notice.
    #[serde(default)]
    pub expect: Vec<String>,
    /// Arguments of `cargo test`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Whether the scenarios are compared.
    #[serde(default = "yes")]
    pub scenarios: bool,
    /// It tells whether the command works.
    #[serde(default)]
    pub canary: bool,
    /// The name of the file that has it, without `.toml`, and the page that the file names.
    #[serde(skip)]
    pub rules: String,
    #[serde(skip)]
    pub page: PathBuf,
}

fn yes() -> bool {
    true
}

impl Break {
    /// `text`, the contents of the file, with the break.
    ///
    /// # Errors
    /// If the old text is not there, or more than once.
    pub fn apply(&self, text: &str) -> Result<String> {
        match text.matches(&self.old).count() {
            1 => Ok(text.replacen(&self.old, &self.new, 1)),
            count => {
                bail!("{}: the old text of break {} is there {count} times, not once", self.file.display(), self.name)
            }
        }
    }
}

/// All breaks, in the order of the files' names.
///
/// # Errors
/// Names the file that cannot be read or parsed, or a name that stands there twice.
pub fn read(root: &Path) -> Result<Vec<Break>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        page: PathBuf,
        /// For breaks that name none.
        #[serde(default)]
        tests: Vec<String>,
        #[serde(default = "yes")]
        scenarios: bool,
        r#break: Vec<Break>,
    }
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut all: Vec<Break> = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file: File = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let rules = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let known = |one: Break| {
            let tests = if one.tests.is_empty() { file.tests.clone() } else { one.tests };
            let scenarios = one.scenarios && file.scenarios;
            Break { rules: rules.clone(), page: file.page.clone(), tests, scenarios, ..one }
        };
        all.extend(file.r#break.into_iter().map(known));
    }
    let mut names = BTreeSet::new();
    match all.iter().find(|one| !names.insert(&one.name)) {
        Some(twice) => bail!("two breaks are called {:?}", twice.name),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever changes a broken place adapts the break: otherwise the tables of the pages would tell of the past.
    #[test]
    fn every_break_fits_the_tree() {
        let all = read(crate::root()).unwrap();
        let files: BTreeSet<&str> = all.iter().map(|one| one.rules.as_str()).collect();
        let canaries: Vec<&str> = all.iter().filter(|one| one.canary).map(|one| one.rules.as_str()).collect();
        assert_eq!(canaries, files.into_iter().collect::<Vec<_>>(), "one each");
        for one in &all {
            let text = fs::read_to_string(crate::root().join(&one.file)).unwrap();
            assert_ne!(one.apply(&text).unwrap_or_else(|error| panic!("{error}")), text, "{}: no change", one.name);
            assert!(one.scenarios || !one.tests.is_empty(), "{}: nobody is asked", one.name);
        }
    }

    #[test]
    fn a_break_needs_its_text_once() {
        let text = "name = 'x'\nrule = 'T1'\nwhat = 'w'\nfile = 'f.rs'\nold = 'a + b'\nnew = 'a - b'\n";
        let one: Break = toml::from_str(text).unwrap();
        assert!(one.scenarios && !one.canary);
        assert_eq!(one.apply("let c = a + b;").unwrap(), "let c = a - b;");
        for (text, count) in [("", 0), ("a + b, a + b", 2)] {
            let error = one.apply(text).unwrap_err().to_string();
            assert_eq!(error, format!("f.rs: the old text of break x is there {count} times, not once"));
        }
    }
}
