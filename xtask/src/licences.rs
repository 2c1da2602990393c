// SPDX-License-Identifier: GPL-2.0-only
//! Checks that the licences of all dependencies are compatible with that of the program, GPL-2.0-only. It asks `cargo`
//! without the network; `deny.toml` has the same rules for cargo-deny, which also knows advisories.

use std::path::Path;
use std::process::Command;

/// Licences that the GPL, version 2, is compatible with. Apache-2.0 is not: its patent clause is a further restriction.
const COMPATIBLE: [&str; 10] = [
    "0BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "GPL-2.0-only",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// The program; what it links is what its licence has to fit.
const PROGRAM: &str = "weir";

/// Complaints about dependencies of the program, one for each.
pub fn complaints(root: &Path) -> Vec<String> {
    let arguments = ["tree", "-p", PROGRAM, "-e", "normal", "--prefix", "none", "--no-dedupe", "--offline", "--locked"];
    let listed = Command::new(env!("CARGO")).current_dir(root).args(arguments).args(["--format", "{p}|{l}"]).output();
    let text = match listed {
        Ok(listed) if listed.status.success() => String::from_utf8_lossy(&listed.stdout).into_owned(),
        Ok(listed) => return vec![format!("Cargo.lock: {}", String::from_utf8_lossy(&listed.stderr).trim())],
        Err(error) => return vec![format!("Cargo.lock: cargo tree: {error}")],
    };
    let mut complaints: Vec<String> = text.lines().filter_map(complaint).collect();
    complaints.sort();
    complaints.dedup();
    complaints
}

/// Complaint about a line `NAME VERSION|LICENCE`.
fn complaint(line: &str) -> Option<String> {
    let (package, licence) = line.split_once('|')?;
    let package = package.split(" (").next().unwrap_or(package);
    (!is_compatible(licence)).then(|| {
        let licence = if licence.is_empty() { "no licence" } else { licence };
        format!("Cargo.lock: {package}: {licence} does not fit a program under GPL-2.0-only")
    })
}

/// Whether a licence expression (SPDX, or with `/` for `OR` as in old manifests) has a compatible choice.
fn is_compatible(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any_of(&mut rest) && rest.is_empty()
}

/// Alternatives; `OR` binds weaker than `AND`.
fn any_of(words: &mut &[&str]) -> bool {
    let mut fits = all_of(words);
    while let Some(("OR", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        fits |= all_of(words);
    }
    fits
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut fits = one(words);
    while let Some(("AND", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        fits &= one(words);
    }
    fits
}

/// A licence or an expression in parentheses. An exception (`WITH`) only adds permissions.
fn one(words: &mut &[&str]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    *words = rest;
    if *first == "(" {
        let fits = any_of(words);
        *words = words.strip_prefix(&[")"]).unwrap_or(words);
        return fits;
    }
    if let Some(("WITH", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest.get(1..).unwrap_or_default();
    }
    COMPATIBLE.contains(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_with_a_compatible_choice_fits() {
        for fits in [
            "MIT",
            "Apache-2.0 OR MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT AND BSD-3-Clause",
            "LGPL-2.1-only OR BSD-2-Clause",
        ] {
            assert!(is_compatible(fits), "{fits}");
        }
        for not in ["Apache-2.0", "", "MIT AND Apache-2.0", "Apache-2.0 WITH LLVM-exception", "(Apache-2.0) AND MIT"] {
            assert!(!is_compatible(not), "{not}");
        }
    }

    #[test]
    fn complaint_names_package_version_and_licence() {
        assert_eq!(complaint("serde v1.0.1|MIT OR Apache-2.0"), None);
        assert_eq!(
            complaint("prost v0.14.1 (proc-macro)|Apache-2.0").as_deref(),
            Some("Cargo.lock: prost v0.14.1: Apache-2.0 does not fit a program under GPL-2.0-only")
        );
    }
}
