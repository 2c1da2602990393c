// SPDX-License-Identifier: GPL-2.0-only
//! Which commit is built, for `weir --version`: what WEIR_COMMIT says (packages), else what git says, else what `git archive`
//! wrote into the file `commit` when it made a tarball, else nothing. Debug builds do not ask git: each commit would build them
//! anew.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// So many digits tell commits apart.
const DIGITS: usize = 12;

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    println!("cargo::rerun-if-env-changed=WEIR_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=commit");
    let given = env::var("WEIR_COMMIT").ok();
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let found = || if is_debug { None } else { of_git(&root) }.or_else(|| of_archive(Path::new("commit")));
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

/// The commit, if this is the repository of its own and not a copy within another one.
fn of_git(root: &Path) -> Option<String> {
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

/// `git archive` replaces the placeholder in that file.
fn of_archive(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let commit = text.lines().next()?.trim();
    commit.chars().all(|c| c.is_ascii_hexdigit()).then(|| commit.to_owned())
}
