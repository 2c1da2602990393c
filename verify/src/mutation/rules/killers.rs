// SPDX-License-Identifier: GPL-2.0-only
//! Runs what may kill a mutant: the scenarios of `verify/conformance/`, compared with recordings of a kernel, and
//! tests.

use super::tree::Tree;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Recordings of a kernel for the scenarios.
const RECORDS: &str = "verify/conformance/recorded/7.2.13";
/// Time limit in seconds: a mutant may make the model loop forever.
const PATIENCE_S: &str = "600";
/// Exit status of timeout(1) after a timeout.
const TIME_UP: i32 = 124;
/// Up to this number of names are listed; of more, the count and one or two names are given.
const NAMED: usize = 6;

/// Scenarios and tests that killed a mutant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Killers {
    /// Scenarios that differ from the kernel or cannot be run.
    pub scenarios: Vec<String>,
    /// Tests that failed.
    pub tests: Vec<String>,
    /// Description of test programs that did not finish.
    pub trouble: Option<String>,
}

impl Killers {
    /// Returns whether the mutant was killed.
    pub fn is_killed(&self) -> bool {
        !self.scenarios.is_empty() || !self.tests.is_empty() || self.trouble.is_some()
    }

    /// Describes the killers in a few words; of many, the expected ones are named.
    pub fn describe(&self, expected: &[String]) -> String {
        let all: Vec<&str> = self.scenarios.iter().chain(&self.tests).map(String::as_str).collect();
        let mut words = match all.len() {
            0 if self.trouble.is_none() => "SURVIVED".to_owned(),
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

/// Runs the scenarios, if wanted, and `cargo test` with each of these lists of arguments.
///
/// # Errors
/// If the copy does not compile.
pub fn ask(tree: &Tree, scenarios: bool, calls: &[&[String]]) -> Result<Killers> {
    let mut killers = Killers::default();
    if scenarios {
        killers.scenarios = ask_scenarios(tree)?;
    }
    calls.iter().filter(|call| !call.is_empty()).try_for_each(|call| ask_tests(tree, call, &mut killers))?;
    Ok(killers)
}

fn ask_scenarios(tree: &Tree) -> Result<Vec<String>> {
    build(tree, &["build", "-q", "--locked", "-p", "conformance"])?;
    let program = tree.build().join("debug/conformance");
    if let Some(differing) = compare(tree, &program, &[])? {
        return Ok(differing);
    }
    // The model panicked or did not finish in some scenario, which is found by running them one by one.
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

/// Returns the scenarios with unexpected results; `None` if the program did not finish.
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

fn ask_tests(tree: &Tree, arguments: &[String], killers: &mut Killers) -> Result<()> {
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
        let how = if output.status.code() == Some(TIME_UP) { "do not finish" } else { "end with a signal or a panic" };
        killers.trouble = Some(format!("the tests of `{}` {how}", words.join(" ")));
    }
    killers.tests.extend(failed);
    Ok(())
}

/// Returns the failed tests in libtest's order.
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
    fn up_to_a_few_tests_that_kill_a_mutant_are_named_and_more_are_counted() {
        let names = |count: usize| (0..count).map(|number| format!("s{number}")).collect::<Vec<_>>();
        let killers = |count| Killers { scenarios: names(count), ..Killers::default() };
        assert_eq!(killers(0).describe(&[]), "SURVIVED");
        assert_eq!(killers(2).describe(&[]), "s0, s1");
        assert_eq!(killers(9).describe(&[]), "9, for example s0");
        assert_eq!(killers(9).describe(&["s7".into(), "x".into(), "s3".into(), "s5".into()]), "9, for example s3, s5");
        let hung = Killers { trouble: Some("hangs".into()), ..Killers::default() };
        assert!(hung.is_killed() && !killers(0).is_killed());
        assert_eq!(hung.describe(&[]), "hangs");
    }

    #[test]
    fn verdicts_and_failed_tests_are_parsed() {
        let json = r#"[{"scenario": "a", "agrees": true, "departure": null},
                       {"scenario": "b", "agrees": false, "departure": null},
                       {"scenario": "c", "agrees": false, "departure": "known"},
                       {"scenario": "d", "agrees": true, "departure": "known"}]"#;
        assert_eq!(differing(json.as_bytes()).unwrap(), ["b", "d"]);
        let output = "running 2 tests\ntest x::y ... FAILED\ntest z ... ok\n\nfailures:\n    x::y\n";
        assert_eq!(failed(output), ["x::y"]);
    }
}
