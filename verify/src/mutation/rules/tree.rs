// SPDX-License-Identifier: GPL-2.0-only
//! A copy of the repository for mutants.

use super::data::RuleMutant;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The copy. Dropping it removes it and its build results, unless they are to be kept.
pub struct Tree {
    directory: PathBuf,
    keep: bool,
}

impl Tree {
    /// Copies all files that git tracks or would not ignore, in their present state.
    ///
    /// # Errors
    /// If git cannot list the files, or one cannot be copied.
    pub fn copy(from: &Path, keep: bool) -> Result<Tree> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(from)
            .output()
            .context("git does not start")?;
        if !listed.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| from.join("target"), PathBuf::from);
        let tree = Tree { directory: target.join("sabotage"), keep };
        // Build results of an earlier run may stay, its sources must not.
        if tree.root().exists() {
            fs::remove_dir_all(tree.root())?;
        }
        for name in listed.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let name = Path::new(std::ffi::OsStr::from_bytes(name));
            // Skips files that are deleted but not yet committed.
            if from.join(name).is_file() {
                let to = tree.root().join(name);
                fs::create_dir_all(to.parent().expect("below the copy"))?;
                fs::copy(from.join(name), &to).with_context(|| name.display().to_string())?;
            }
        }
        Ok(tree)
    }

    /// Root directory of the copy.
    pub fn root(&self) -> PathBuf {
        self.directory.join("tree")
    }

    /// Build directory of the copy.
    pub fn build(&self) -> PathBuf {
        self.directory.join("build")
    }

    /// Calls `during` while the mutation is in the copy.
    ///
    /// # Errors
    /// If the mutation does not fit, or `during` fails.
    pub fn with<T>(&self, mutant: &RuleMutant, during: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.root().join(&mutant.file);
        let whole = fs::read_to_string(&path).with_context(|| mutant.file.display().to_string())?;
        fs::write(&path, mutant.apply(&whole)?)?;
        let result = during();
        fs::write(&path, whole)?;
        result
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.keep {
            // Errors do not matter: `cargo clean` removes the directory too.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutation_is_undone_and_the_copy_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let tree = Tree { directory: directory.path().join("sabotage"), keep: false };
        fs::create_dir_all(tree.root()).unwrap();
        fs::write(tree.root().join("f.rs"), "a + b").unwrap();
        let text = "name = 'x'\nrule = 'T1'\nwhat = 'w'\nfile = 'f.rs'\nold = '+'\nnew = '-'\n";
        let mutant: RuleMutant = toml::from_str(text).unwrap();
        let read = || Ok(fs::read_to_string(tree.root().join("f.rs"))?);
        assert_eq!(tree.with(&mutant, read).unwrap(), "a - b");
        assert_eq!(read().unwrap(), "a + b");
        let error = tree.with(&mutant, || -> Result<()> { bail!("no") }).unwrap_err();
        assert_eq!((error.to_string(), read().unwrap()), ("no".to_owned(), "a + b".to_owned()));
        let place = tree.directory.clone();
        drop(tree);
        assert!(!place.exists());
    }
}
