// SPDX-License-Identifier: GPL-2.0-only
//! Builds what goes into the virtual machine: programs and test programs of the workspace, in the debug profile.

use super::files::Transfer;
use anyhow::{Context, Result, bail};
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Object of the scheduler with configurable faults; built by `crates/kernel-link` for its own tests.
const FAULTY: &str = "faulty.bpf.o";

/// Builds the program `weir` and the faulty scheduler.
pub fn programs() -> Result<Vec<Transfer>> {
    let built = cargo(&["build", "-p", "weir", "--bins"])?;
    let faulty = built.directories.iter().map(|directory| directory.join(FAULTY)).find(|path| path.is_file());
    let faulty = faulty.with_context(|| format!("no build script has produced {FAULTY}"))?;
    Ok(vec![place(&built.executables, "weir")?, Transfer { host: faulty, guest: format!("/in/{FAULTY}") }])
}

/// Builds the program of a package that has the package's name.
pub fn program(package: &str) -> Result<Transfer> {
    place(&cargo(&["build", "-p", package, "--bins"])?.executables, package)
}

/// Builds a test program, one of the files in `tests` of a package.
pub fn test(package: &str, name: &str) -> Result<Transfer> {
    place(&cargo(&["test", "--no-run", "-p", package, "--test", name])?.executables, name)
}

/// Finds a program; cargo adds a hash to the names of test programs.
fn place(executables: &[PathBuf], name: &str) -> Result<Transfer> {
    let fits = |path: &&PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).and_then(|file| file.strip_prefix(name));
        file.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let host = executables.iter().find(fits).with_context(|| format!("cargo reports no program {name}"))?;
    Ok(Transfer { host: host.clone(), guest: format!("/in/{name}") })
}

/// Results that cargo reports as built or up to date.
#[derive(Default, PartialEq, Eq, Debug)]
struct Built {
    executables: Vec<PathBuf>,
    /// Output directories of build scripts.
    directories: Vec<PathBuf>,
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
        built.executables.extend(message["executable"].as_str().map(PathBuf::from));
        built.directories.extend(message["out_dir"].as_str().map(PathBuf::from));
    }
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_results_are_found_in_cargo_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"build-script-executed\",\"out_dir\":\"/t/build/live-1/out\"}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/debug/weir\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        let expected =
            Built { executables: vec!["/t/debug/weir".into()], directories: vec!["/t/build/live-1/out".into()] };
        assert_eq!(read(messages).unwrap(), expected);
        assert!(read("no JSON").is_err());
    }

    #[test]
    fn programs_are_found_with_and_without_a_hash() {
        let executables = ["/t/weirdo", "/t/weir", "/t/deps/in_kernel-0f"].map(PathBuf::from);
        for (name, host) in [("weir", Some("/t/weir")), ("in_kernel", Some("/t/deps/in_kernel-0f")), ("kernel", None)] {
            assert_eq!(place(&executables, name).ok().map(|found| found.host), host.map(PathBuf::from), "{name}");
        }
    }
}
