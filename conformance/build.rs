// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the tracing scheduler in its variants, and lists the scenarios: the program carries all that it needs.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Ops that a scenario may take away. What the kernel does by itself then can only be seen with an object that does not
/// have the op.
const WITHOUT: [&str; 5] = ["", "select_cpu", "enqueue", "yield", "hotplug"];

fn main() -> Result<()> {
    let crate_folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    for input in ["trace.bpf.c", "scenarios", "../policies/include"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let mut objects = String::from("&[\n");
    for without in WITHOUT {
        let object = out.join(format!("trace-{without}.bpf.o"));
        let define = format!("-DWITHOUT_{}", without.to_uppercase());
        bpf_clang::compile(&crate_folder.join("trace.bpf.c"), &object, &[&define])?;
        writeln!(objects, "    ({without:?}, include_bytes!({object:?})),")?;
    }
    objects.push_str("]\n");
    fs::write(out.join("objects.rs"), objects)?;
    let mut table = String::from("&[\n");
    for (name, path) in scenarios(&crate_folder.join("scenarios"))? {
        writeln!(table, "    ({name:?}, include_str!({path:?})),")?;
    }
    table.push_str("]\n");
    fs::write(out.join("scenarios.rs"), table)?;
    Ok(())
}

/// Name and path of every scenario, in alphabetical order.
fn scenarios(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".toml"))
        {
            found.push((name.to_owned(), path.clone()));
        }
    }
    found.sort();
    Ok(found)
}
