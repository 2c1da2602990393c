// SPDX-License-Identifier: GPL-2.0-only
//! Compiles every `policies/NAME/NAME.bpf.c` with clang and writes the table that `src/lib.rs` includes.

use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Versions of clang that are tried in this order: 19 is what the objects are tested with, 16 is the oldest that knows
/// all the relocations that the headers ask for.
const CLANG_VERSIONS: [u32; 6] = [19, 18, 17, 16, 20, 21];

const MISSING_CLANG: &str = "\
no clang between 16 and 21 found: the policies are compiled to BPF by clang.
Install it with `make deps` (as root, on Debian or Ubuntu), or `apt install clang-19` (or 18, 17, 16),
or name one in the environment variable BPF_CLANG.";

fn main() -> Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    println!("cargo::rerun-if-changed={}", root.join("policies").display());
    let clang = find_clang()?;
    let mut table = String::from("&[\n");
    for name in policy_names(&root.join("policies"))? {
        let object = out.join(format!("{name}.bpf.o"));
        compile(&clang, &root, &name, &object)?;
        let profile = root.join(format!("policies/{name}/profile.toml"));
        let summary = summary(&profile)?;
        writeln!(
            table,
            "    Policy {{ name: {name:?}, summary: {summary:?}, object: include_bytes!({object:?}), profile: \
             include_str!({profile:?}) }},"
        )?;
    }
    table.push_str("]\n");
    fs::write(out.join("policies.rs"), table)?;
    Ok(())
}

/// `$BPF_CLANG`, or the first version that runs.
fn find_clang() -> Result<String> {
    if let Ok(clang) = env::var("BPF_CLANG") {
        ensure!(runs(&clang), "BPF_CLANG={clang}: this program does not run");
        return Ok(clang);
    }
    let versioned = CLANG_VERSIONS.iter().map(|version| format!("clang-{version}"));
    versioned.chain(["clang".to_owned()]).find(|clang| runs(clang)).context(MISSING_CLANG)
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The folders that hold a `NAME.bpf.c` of their own name, in alphabetical order.
fn policy_names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let name =
            entry?.file_name().into_string().ok().context("a folder of policies/ has a name that is not UTF-8")?;
        if folder.join(&name).join(format!("{name}.bpf.c")).is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Runs clang in the root folder, with relative paths: the object carries the names of its source files, and shall be
/// the same bytes wherever the repository lies.
fn compile(clang: &str, root: &Path, name: &str, object: &Path) -> Result<()> {
    let source = format!("policies/{name}/{name}.bpf.c");
    let output = Command::new(clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-fdebug-compilation-dir=."])
        .args(["-I", "policies/include", "-c", &source, "-o"])
        .arg(object)
        .current_dir(root)
        .output()
        .with_context(|| format!("{clang} {source}"))?;
    if !output.status.success() {
        bail!("{clang} rejects {source}:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// The profile's `summary`.
fn summary(profile: &Path) -> Result<String> {
    let text = fs::read_to_string(profile).with_context(|| format!("{}", profile.display()))?;
    let table: toml::Table = text.parse().with_context(|| format!("{}", profile.display()))?;
    let summary = table.get("summary").and_then(|value| value.as_str());
    Ok(summary.with_context(|| format!("{}: no `summary = \"…\"`", profile.display()))?.to_owned())
}
