// SPDX-License-Identifier: GPL-2.0-only
//! Builds what goes into the virtual machine: programs and test programs of the workspace, as for its tests.

use super::files::Transfer;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Object of the scheduler with configurable faults; built by `crates/kernel-link` for its own tests.
const FAULTY: &str = "faulty.bpf.o";

/// Builds the program `weir` and the faulty scheduler.
pub fn programs() -> Result<Vec<Transfer>> {
    let built = tests_of_workspace()?;
    let faulty = built.directories.iter().map(|directory| directory.join(FAULTY)).find(|path| path.is_file());
    let faulty = faulty.with_context(|| format!("no build script has produced {FAULTY}"))?;
    Ok(vec![built.program("weir")?, Transfer { host: faulty, guest: format!("/in/{FAULTY}") }])
}

/// Builds a program of the workspace.
pub fn program(name: &str) -> Result<Transfer> {
    tests_of_workspace()?.program(name)
}

/// Builds a test program, one of the files in `tests` of a package.
pub fn test(name: &str) -> Result<Transfer> {
    tests_of_workspace()?.test(name)
}

/// Builds all tests, and the programs that they run. A build of one package only would select other features of its
/// dependencies and compile most of them again, after `make test` has compiled them for the tests.
fn tests_of_workspace() -> Result<Built> {
    cargo(&["test", "--no-run", "--workspace"])
}

/// Results that cargo reports as built or up to date.
#[derive(Default, Debug)]
struct Built {
    programs: BTreeMap<String, PathBuf>,
    /// Test programs, without those of the units of a package.
    tests: BTreeMap<String, PathBuf>,
    /// Output directories of build scripts.
    directories: Vec<PathBuf>,
}

impl Built {
    fn program(&self, name: &str) -> Result<Transfer> {
        transfer(&self.programs, name)
    }

    fn test(&self, name: &str) -> Result<Transfer> {
        transfer(&self.tests, name)
    }
}

fn transfer(executables: &BTreeMap<String, PathBuf>, name: &str) -> Result<Transfer> {
    let host = executables.get(name).with_context(|| format!("cargo reports no program {name}"))?;
    Ok(Transfer { host: host.clone(), guest: format!("/in/{name}") })
}

fn cargo(arguments: &[&str]) -> Result<Built> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    read(&String::from_utf8_lossy(&output.stdout))
}

fn read(messages: &str) -> Result<Built> {
    let mut built = Built::default();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("a message of cargo")?;
        if let (Some(path), Some(name)) = (message["executable"].as_str(), message["target"]["name"].as_str()) {
            match (message["target"]["kind"][0].as_str(), message["profile"]["test"].as_bool()) {
                (Some("test"), _) => built.tests.insert(name.to_owned(), path.into()),
                (Some("bin"), Some(false)) => built.programs.insert(name.to_owned(), path.into()),
                _ => None,
            };
        }
        built.directories.extend(message["out_dir"].as_str().map(PathBuf::from));
    }
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_results_are_found_in_cargo_messages() {
        let artifact = |kind: &str, name: &str, test: bool, path: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "target": { "kind": [kind], "name": name },
                "profile": { "test": test }, "executable": path,
            })
        };
        let messages = [
            serde_json::json!({ "reason": "compiler-artifact", "executable": null }),
            serde_json::json!({ "reason": "build-script-executed", "out_dir": "/t/build/live-1/out" }),
            artifact("bin", "weir", false, "/t/debug/weir"),
            artifact("bin", "weir", true, "/t/debug/deps/weir-0f"),
            artifact("test", "suite", true, "/t/debug/deps/suite-1e"),
        ];
        let built = read(&messages.map(|message| message.to_string()).join("\n")).unwrap();
        assert_eq!(built.program("weir").unwrap().host, PathBuf::from("/t/debug/weir"));
        assert_eq!(built.test("suite").unwrap().guest, "/in/suite");
        assert!(built.test("weir").is_err() && built.program("suite").is_err(), "tests of units are neither");
        assert_eq!(built.directories, [PathBuf::from("/t/build/live-1/out")]);
        assert!(read("no JSON").is_err());
    }
}
