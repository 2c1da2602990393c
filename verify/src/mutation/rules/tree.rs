// SPDX-License-Identifier: GPL-2.0-only
//! A copy of the repository to break things in.

use super::data::Break;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The copy. Dropping it removes it, and what was compiled in it, unless it is to be kept.
pub struct Tree {
    folder: PathBuf,
    keep: bool,
}

impl Tree {
    /// Copies what git knows, or would not ignore, as it is now.
    ///
    /// # Errors
    /// If git does not list the files, or one cannot be copied.
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
        let tree = Tree { folder: target.join("sabotage"), keep };
        // What an earlier run has compiled may stay; its sources must not.
        if tree.root().exists() {
            fs::remove_dir_all(tree.root())?;
        }
        for name in listed.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let name = Path::new(std::ffi::OsStr::from_bytes(name));
            // Deleted, and not yet committed.
            if from.join(name).is_file() {
                let to = tree.root().join(name);
                fs::create_dir_all(to.parent().expect("below the copy"))?;
                fs::copy(from.join(name), &to).with_context(|| name.display().to_string())?;
            }
        }
        Ok(tree)
    }

    /// The copy's root.
    pub fn root(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// Where its programs are compiled.
    pub fn build(&self) -> PathBuf {
        self.folder.join("build")
    }

    /// Calls `during` while the break is in the copy.
    ///
    /// # Errors
    /// If the break does not fit, or `during` fails.
    pub fn with<T>(&self, sabotage: &Break, during: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.root().join(&sabotage.file);
        let whole = fs::read_to_string(&path).with_context(|| sabotage.file.display().to_string())?;
        fs::write(&path, sabotage.apply(&whole)?)?;
        let result = during();
        fs::write(&path, whole)?;
        result
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing in it matters, and `cargo clean` removes it too.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_is_there_only_while_it_is_needed_and_the_copy_goes() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree { folder: folder.path().join("sabotage"), keep: false };
        fs::create_dir_all(tree.root()).unwrap();
        fs::write(tree.root().join("f.rs"), "a + b").unwrap();
        let text = "name = 'x'\nrule = 'T1'\nwhat = 'w'\nfile = 'f.rs'\nold = '+'\nnew = '-'\n";
        let sabotage: Break = toml::from_str(text).unwrap();
        let read = || Ok(fs::read_to_string(tree.root().join("f.rs"))?);
        assert_eq!(tree.with(&sabotage, read).unwrap(), "a - b");
        assert_eq!(read().unwrap(), "a + b");
        let error = tree.with(&sabotage, || -> Result<()> { bail!("no") }).unwrap_err();
        assert_eq!((error.to_string(), read().unwrap()), ("no".to_owned(), "a + b".to_owned()));
        let place = tree.folder.clone();
        drop(tree);
        assert!(!place.exists());
    }
}
