// SPDX-License-Identifier: GPL-2.0-only
//! Determines the commit for `weir --version`: WEIR_COMMIT (set by packages), else git's HEAD, else the file `commit`
//! that `git archive` fills in for a tarball, else none. Debug builds do not ask git, since every commit would cause
//! a rebuild.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Number of hexadecimal digits of the commit that are shown.
const DIGITS: usize = 12;

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    println!("cargo::rerun-if-env-changed=WEIR_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=commit");
    let given = env::var("WEIR_COMMIT").ok();
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let found = || if is_debug { None } else { git_head(&root) }.or_else(|| archived_commit(Path::new("commit")));
    let commit = given.or_else(found);
    let commit = commit.map(|commit| commit.trim().chars().take(DIGITS).collect::<String>());
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let full = match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=WEIR_VERSION={full}");
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// HEAD of git, if this directory is the root of a repository and not a copy inside another one.
fn git_head(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(root, &["rev-parse", "--git-path", name]) {
            let path = root.join(path);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    git(root, &["rev-parse", "HEAD"])
}

/// Commit that `git archive` substituted for the placeholder in the file.
fn archived_commit(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let commit = text.lines().next()?.trim();
    commit.chars().all(|c| c.is_ascii_hexdigit()).then(|| commit.to_owned())
}
