// SPDX-License-Identifier: GPL-2.0-only
//! Builds what goes into the virtual machine: programs and test programs of the workspace, as developers have them.

use super::files::Transfer;
use anyhow::{Context, Result, bail};
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The scheduler that goes wrong as its profile asks for; `crates/live` builds it for its own tests.
const FAULTY: &str = "faulty.bpf.o";

/// The program `weir` and the faulty scheduler.
pub fn programs() -> Result<Vec<Transfer>> {
    let built = cargo(&["build", "-p", "weir", "--bins"])?;
    let faulty = built.folders.iter().map(|folder| folder.join(FAULTY)).find(|path| path.is_file());
    let faulty = faulty.with_context(|| format!("no build script left {FAULTY}"))?;
    Ok(vec![place(&built.executables, "weir")?, Transfer { host: faulty, guest: format!("/in/{FAULTY}") }])
}

/// The program of a package that has its name.
pub fn program(package: &str) -> Result<Transfer> {
    place(&cargo(&["build", "-p", package, "--bins"])?.executables, package)
}

/// A test program: one of the files in `tests` of a package.
pub fn test(package: &str, name: &str) -> Result<Transfer> {
    place(&cargo(&["test", "--no-run", "-p", package, "--test", name])?.executables, name)
}

/// Cargo adds a hash to the names of test programs.
fn place(executables: &[PathBuf], name: &str) -> Result<Transfer> {
    let fits = |path: &&PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).and_then(|file| file.strip_prefix(name));
        file.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let host = executables.iter().find(fits).with_context(|| format!("cargo names no program {name}"))?;
    Ok(Transfer { host: host.clone(), guest: format!("/in/{name}") })
}

/// What cargo says it has built, or has had already.
#[derive(Default, PartialEq, Eq, Debug)]
struct Built {
    executables: Vec<PathBuf>,
    /// Where build scripts put their results.
    folders: Vec<PathBuf>,
}

fn cargo(arguments: &[&str]) -> Result<Built> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("cargo {} fails", arguments.join(" "));
    }
    read(&String::from_utf8_lossy(&output.stdout))
}

fn read(messages: &str) -> Result<Built> {
    let mut built = Built::default();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("a message of cargo")?;
        built.executables.extend(message["executable"].as_str().map(PathBuf::from));
        built.folders.extend(message["out_dir"].as_str().map(PathBuf::from));
    }
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_in_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"build-script-executed\",\"out_dir\":\"/t/build/live-1/out\"}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/debug/weir\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        let expected = Built { executables: vec!["/t/debug/weir".into()], folders: vec!["/t/build/live-1/out".into()] };
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
