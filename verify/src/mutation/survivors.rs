// SPDX-License-Identifier: GPL-2.0-only
//! Mutants that no test kills, each with its reason: `verify/mutation/policies/POLICY.toml`, and `headers.toml` for mutants
//! of shared headers that survive in every policy. Equivalent mutants are not sampled.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The file for headers.
const HEADERS: &str = "headers";

/// The file of a policy.
#[derive(Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survivors {
    #[serde(default)]
    mutant: Vec<One>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    /// As the command names it.
    name: String,
    /// Why nobody notices.
    why: String,
    /// It does the same as the source, whatever happens.
    #[serde(default)]
    equivalent: bool,
}

impl Survivors {
    /// What is known of a policy's mutants; nothing if there is no file.
    ///
    /// # Errors
    /// If the file is not as it should be.
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

    /// Why nobody notices this one.
    pub fn why(&self, name: &str) -> Option<&str> {
        self.mutant.iter().find(|one| one.name == name).map(|one| one.why.as_str())
    }

    /// Whether it does the same as the source.
    pub fn is_equivalent(&self, name: &str) -> bool {
        self.mutant.iter().any(|one| one.name == name && one.equivalent)
    }

    /// Their names.
    #[cfg(test)]
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.mutant.iter().map(|one| one.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::source::Source;

    /// A source that changes loses its explanations: they are about the text of its lines.
    #[test]
    fn what_is_explained_exists() {
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
