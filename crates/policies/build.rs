// SPDX-License-Identifier: GPL-2.0-only
//! Compiles every `policies/NAME/NAME.bpf.c` with clang and writes the tables that `src/lib.rs` includes: the
//! policies and their shared headers.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    println!("cargo::rerun-if-changed={}", root.join("policies").display());
    let mut table = String::from("&[\n");
    for name in policy_names(&root.join("policies"))? {
        let object = out.join(format!("{name}.bpf.o"));
        bpf_clang::compile(&root.join(format!("policies/{name}/{name}.bpf.c")), &object, &[])?;
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
    fs::write(out.join("headers.rs"), headers(&root.join("policies/include"))?)?;
    Ok(())
}

/// Returns, sorted, the names of the subdirectories that contain a `NAME.bpf.c` named like themselves.
fn policy_names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("{}", directory.display()))? {
        let name =
            entry?.file_name().into_string().ok().context("the name of a directory in policies/ is not UTF-8")?;
        if directory.join(&name).join(format!("{name}.bpf.c")).is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the source text of the header table: `weir/NAME` and the text of each header.
fn headers(directory: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory.join("weir"))? {
        names.push(entry?.file_name().into_string().ok().context("the name of a header is not UTF-8")?);
    }
    names.sort();
    let row = |name: &String| {
        let path = directory.join("weir").join(name);
        format!("    ({:?}, include_str!({path:?})),\n", format!("weir/{name}"))
    };
    Ok(format!("&[\n{}]\n", names.iter().map(row).collect::<String>()))
}

/// Returns the profile's `summary`.
fn summary(profile: &Path) -> Result<String> {
    let text = fs::read_to_string(profile).with_context(|| format!("{}", profile.display()))?;
    let table: toml::Table = text.parse().with_context(|| format!("{}", profile.display()))?;
    let summary = table.get("summary").and_then(|value| value.as_str());
    Ok(summary.with_context(|| format!("{}: `summary = \"…\"` is missing", profile.display()))?.to_owned())
}
