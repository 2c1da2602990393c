// SPDX-License-Identifier: GPL-2.0-only
//! Who may notice a break: the scenarios of `verify/conformance/`, compared with what a kernel did, and tests.

use super::tree::Tree;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// What a kernel did, for the scenarios.
const RECORDS: &str = "verify/conformance/recorded/7.2.13";
/// A break may make the model loop for ever.
const PATIENCE_S: &str = "600";
/// Exit status of timeout(1) when time was up.
const TIME_UP: i32 = 124;
/// More names than this are counted, and one or two are named.
const NAMED: usize = 6;

/// Who noticed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Noticed {
    /// Scenarios that differ from the kernel, or cannot be played.
    pub scenarios: Vec<String>,
    /// Tests that fail.
    pub tests: Vec<String>,
    /// Tests that did not come to their end.
    pub trouble: Option<String>,
}

impl Noticed {
    /// Whether anybody did.
    pub fn by_anybody(&self) -> bool {
        !self.scenarios.is_empty() || !self.tests.is_empty() || self.trouble.is_some()
    }

    /// In a few words; of many, those that were expected are named.
    pub fn in_words(&self, expected: &[String]) -> String {
        let all: Vec<&str> = self.scenarios.iter().chain(&self.tests).map(String::as_str).collect();
        let mut words = match all.len() {
            0 if self.trouble.is_none() => "NOBODY NOTICES".to_owned(),
            ..=NAMED => all.join(", "),
            count => {
                let known: Vec<&str> =
                    all.iter().copied().filter(|name| expected.iter().any(|one| one == name)).collect();
                let some = if known.is_empty() { &all[..1] } else { &known[..known.len().min(2)] };
                format!("{count}, for example {}", some.join(", "))
            }
        };
        if let Some(trouble) = &self.trouble {
            words.push_str(if words.is_empty() { "" } else { "; " });
            words.push_str(trouble);
        }
        words
    }
}

/// Asks the scenarios, if wanted, and calls `cargo test` with each of these lists of arguments.
///
/// # Errors
/// If the copy does not compile.
pub fn ask(tree: &Tree, scenarios: bool, calls: &[&[String]]) -> Result<Noticed> {
    let mut noticed = Noticed::default();
    if scenarios {
        noticed.scenarios = ask_scenarios(tree)?;
    }
    calls.iter().filter(|call| !call.is_empty()).try_for_each(|call| ask_tests(tree, call, &mut noticed))?;
    Ok(noticed)
}

fn ask_scenarios(tree: &Tree) -> Result<Vec<String>> {
    build(tree, &["build", "-q", "--locked", "-p", "conformance"])?;
    let program = tree.build().join("debug/conformance");
    if let Some(differing) = compare(tree, &program, &[])? {
        return Ok(differing);
    }
    // The model panicked or did not end: in some scenario, which is found by playing them one by one.
    let listed = Command::new(&program).arg("list").output()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut differing = Vec::new();
    for name in text.lines().filter_map(|line| line.split_whitespace().next()) {
        match compare(tree, &program, &[name])? {
            Some(found) => differing.extend(found),
            None => differing.push(name.to_owned()),
        }
    }
    Ok(differing)
}

/// The scenarios that are not as they should be; `None` if the program did not come to its end.
fn compare(tree: &Tree, program: &Path, names: &[&str]) -> Result<Option<Vec<String>>> {
    let output = Command::new("timeout")
        .arg(PATIENCE_S)
        .arg(program)
        .args(["compare", "--json", RECORDS])
        .args(names)
        .current_dir(tree.root())
        .output()
        .context("timeout does not start")?;
    match output.status.code() {
        Some(0 | 1) => Ok(Some(differing(&output.stdout)?)),
        Some(2) => bail!("conformance: {}", String::from_utf8_lossy(&output.stderr).trim()),
        _ => Ok(None),
    }
}

fn differing(json: &[u8]) -> Result<Vec<String>> {
    let verdicts: Vec<Value> = serde_json::from_slice(json).context("verdicts of conformance")?;
    let is_wrong = |verdict: &&Value| verdict["agrees"].as_bool() == Some(!verdict["departure"].is_null());
    Ok(verdicts.iter().filter(is_wrong).filter_map(|verdict| Some(verdict["scenario"].as_str()?.to_owned())).collect())
}

fn ask_tests(tree: &Tree, arguments: &[String], noticed: &mut Noticed) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    build(tree, &[&["test", "-q", "--locked", "--no-run"], &words[..]].concat())?;
    let output = Command::new("timeout")
        .args([PATIENCE_S, "cargo", "test", "--locked", "--no-fail-fast"])
        .args(&words)
        .current_dir(tree.root())
        .env("CARGO_TARGET_DIR", tree.build())
        .output()
        .context("timeout does not start")?;
    let failed = failed(&String::from_utf8_lossy(&output.stdout));
    if failed.is_empty() && !output.status.success() {
        let how = if output.status.code() == Some(TIME_UP) { "do not end" } else { "end by a signal or a panic" };
        noticed.trouble = Some(format!("the tests of `{}` {how}", words.join(" ")));
    }
    noticed.tests.extend(failed);
    Ok(())
}

/// The tests that failed, in the order in which libtest names them.
fn failed(output: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    output.lines().filter_map(name).collect()
}

/// Compiles in the copy.
fn build(tree: &Tree, arguments: &[&str]) -> Result<()> {
    let output: Output = Command::new("cargo")
        .args(arguments)
        .current_dir(tree.root())
        .env("CARGO_TARGET_DIR", tree.build())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_notice_are_named_or_counted() {
        let names = |count: usize| (0..count).map(|number| format!("s{number}")).collect::<Vec<_>>();
        let noticed = |count| Noticed { scenarios: names(count), ..Noticed::default() };
        assert_eq!(noticed(0).in_words(&[]), "NOBODY NOTICES");
        assert_eq!(noticed(2).in_words(&[]), "s0, s1");
        assert_eq!(noticed(9).in_words(&[]), "9, for example s0");
        assert_eq!(noticed(9).in_words(&["s7".into(), "x".into(), "s3".into(), "s5".into()]), "9, for example s3, s5");
        let hung = Noticed { trouble: Some("hangs".into()), ..Noticed::default() };
        assert!(hung.by_anybody() && !noticed(0).by_anybody());
        assert_eq!(hung.in_words(&[]), "hangs");
    }

    #[test]
    fn verdicts_and_tests_are_read() {
        let json = r#"[{"scenario": "a", "agrees": true, "departure": null},
                       {"scenario": "b", "agrees": false, "departure": null},
                       {"scenario": "c", "agrees": false, "departure": "known"},
                       {"scenario": "d", "agrees": true, "departure": "known"}]"#;
        assert_eq!(differing(json.as_bytes()).unwrap(), ["b", "d"]);
        let output = "running 2 tests\ntest x::y ... FAILED\ntest z ... ok\n\nfailures:\n    x::y\n";
        assert_eq!(failed(output), ["x::y"]);
    }
}
