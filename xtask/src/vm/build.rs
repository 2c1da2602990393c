// SPDX-License-Identifier: GPL-2.0-only
//! Builds what goes into the virtual machine: programs and test programs of the workspace, as developers have them.

use super::files::Transfer;
use anyhow::{Context, Result, bail};
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The `weir` program.
pub fn weir() -> Result<Transfer> {
    let executables = cargo(&["build", "-p", "weir", "--bin", "weir"])?;
    place(executables, "weir")
}

/// A test program: one of the files in `tests` of a package.
pub fn test(package: &str, name: &str) -> Result<Transfer> {
    place(cargo(&["test", "--no-run", "-p", package, "--test", name])?, name)
}

fn place(executables: Vec<PathBuf>, name: &str) -> Result<Transfer> {
    let host = executables.into_iter().next_back().with_context(|| format!("cargo names no program for {name}"))?;
    Ok(Transfer { host, guest: format!("/in/{name}") })
}

/// Executables that cargo says it has built, or has had already.
fn cargo(arguments: &[&str]) -> Result<Vec<PathBuf>> {
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
    executables(&String::from_utf8_lossy(&output.stdout))
}

fn executables(messages: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("a message of cargo")?;
        paths.extend(message["executable"].as_str().map(PathBuf::from));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_in_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/debug/weir\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executables(messages).unwrap(), [PathBuf::from("/t/debug/weir")]);
        assert!(executables("no JSON").is_err());
    }
}
