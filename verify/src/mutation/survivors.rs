// SPDX-License-Identifier: GPL-2.0-only
//! Mutants that no test kills, each with its reason: `verify/mutation/policies/POLICY.toml`, and `headers.toml` for
//! mutants of shared headers that survive in every policy. Equivalent mutants are not sampled.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// File stem for the shared headers.
const HEADERS: &str = "headers";

/// Contents of a policy's file.
#[derive(Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survivors {
    #[serde(default)]
    mutant: Vec<One>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    /// Name of the mutant, as the command prints it.
    name: String,
    /// Reason why no test kills it.
    why: String,
    /// The mutant behaves like the original in all cases.
    #[serde(default)]
    equivalent: bool,
}

impl Survivors {
    /// Reads the explained mutants of a policy; none if there is no file.
    ///
    /// # Errors
    /// If the file is malformed.
    pub fn read(root: &Path, policy: &str) -> Result<Survivors> {
        let mut all = Survivors::read_file(root, policy)?;
        all.mutant.extend(Survivors::read_file(root, HEADERS)?.mutant);
        Ok(all)
    }

    fn read_file(root: &Path, policy: &str) -> Result<Survivors> {
        let path = root.join(format!("verify/mutation/policies/{policy}.toml"));
        if !path.exists() {
            return Ok(Survivors::default());
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Returns the reason why no test kills this mutant.
    pub fn why(&self, name: &str) -> Option<&str> {
        self.mutant.iter().find(|one| one.name == name).map(|one| one.why.as_str())
    }

    /// Returns whether the mutant is equivalent to the original.
    pub fn is_equivalent(&self, name: &str) -> bool {
        self.mutant.iter().any(|one| one.name == name && one.equivalent)
    }

    /// Names of the mutants.
    #[cfg(test)]
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.mutant.iter().map(|one| one.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::source::Source;

    /// When a line of a policy changes, explanations of its mutants must change too: they quote the line.
    #[test]
    fn every_explained_mutant_exists() {
        for entry in fs::read_dir(crate::root().join("verify/mutation/policies")).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_stem().unwrap().to_str().unwrap();
            let survivors = Survivors::read_file(crate::root(), file).unwrap();
            let policies = if file == HEADERS { vec!["bfs", "vrq", "lottery", "currency"] } else { vec![file] };
            let mutants = |policy: &str| Source::read(crate::root(), policy).unwrap().draw(1).collect::<Vec<_>>();
            let names: Vec<String> = policies.into_iter().flat_map(mutants).map(|mutant| mutant.name).collect();
            for name in survivors.names() {
                assert!(names.iter().any(|known| known == name), "{}: no mutant {name:?}", path.display());
            }
        }
    }
}
