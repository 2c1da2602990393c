// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the variants of the tracing scheduler and a witness of each policy, and lists the scenarios, all of which
//! the program embeds.

use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Ops that a scenario may remove: the kernel's default behavior is visible only with an object without the op.
const WITHOUT: [&str; 5] = ["", "select_cpu", "enqueue", "yield", "hotplug"];

fn main() -> Result<()> {
    let crate_directory = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    for input in ["log.bpf.h", "trace.bpf.c", "witness.bpf.c", "scenarios", "deadline", "../../policies"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let mut objects = String::from("&[\n");
    for without in WITHOUT {
        let object = out.join(format!("trace-{without}.bpf.o"));
        let define = format!("-DWITHOUT_{}", without.to_uppercase());
        bpf_clang::compile(&crate_directory.join("trace.bpf.c"), &object, &[&define])?;
        writeln!(objects, "    ({without:?}, include_bytes!({object:?})),")?;
    }
    objects.push_str("]\n");
    fs::write(out.join("objects.rs"), objects)?;
    let mut witnesses = String::from("&[\n");
    for policy in policies(&crate_directory.join("../../policies"))? {
        let object = out.join(format!("witness-{policy}.bpf.o"));
        // Relative to the witness, because an object contains the names of its sources.
        let source = format!("../../policies/{policy}/{policy}.bpf.c");
        let defines = defines(&source, &fs::read_to_string(crate_directory.join(&source)).context(source.clone())?)?;
        let defines: Vec<&str> = defines.iter().map(String::as_str).collect();
        bpf_clang::compile(&crate_directory.join("witness.bpf.c"), &object, &defines)?;
        writeln!(witnesses, "    ({policy:?}, include_bytes!({object:?})),")?;
    }
    witnesses.push_str("]\n");
    fs::write(out.join("witnesses.rs"), witnesses)?;
    for (directory, extension) in [("scenarios", ".toml"), ("deadline", ".json")] {
        let mut table = String::from("&[\n");
        for (name, path) in files(&crate_directory.join(directory), extension)? {
            writeln!(table, "    ({name:?}, include_str!({path:?})),")?;
        }
        table.push_str("]\n");
        fs::write(out.join(format!("{directory}.rs")), table)?;
    }
    Ok(())
}

/// Returns, sorted, the names of the directories that contain a `NAME.bpf.c` named like themselves.
fn policies(directory: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("{}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.join(format!("{name}.bpf.c")).is_file() {
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the macros that `witness.bpf.c` needs for a policy: its file, and the function of each op.
fn defines(source: &str, text: &str) -> Result<Vec<String>> {
    let (_, scheduler) = text.rsplit_once("\nSCHEDULER(").with_context(|| format!("{source}: no SCHEDULER"))?;
    let mut defines = vec![format!("-DPOLICY=\"{source}\"")];
    for member in scheduler.lines().filter_map(|line| line.trim().strip_prefix('.')) {
        let Some((name, value)) = member.split_once(" = ") else {
            bail!("{source}: in SCHEDULER, expected `.member = value`, found .{member}")
        };
        match value.strip_prefix("(void *)") {
            Some(function) => {
                let (name, function) = (name.to_uppercase(), function.trim_end_matches(','));
                defines.push(format!("-DPOLICY_{name}={function}"));
                // A sleepable op may call other kernel functions.
                let sleeps = text.contains(&format!("SLEEPABLE_OP1(void, {function},"));
                defines.push(format!("-DPOLICY_{name}_OP1={}OP1", if sleeps { "SLEEPABLE_" } else { "" }));
            }
            None if name == "name" => {}
            None if name == "flags" => defines.push(format!("-DPOLICY_FLAGS={}", value.trim_end_matches(','))),
            None => bail!("{source}: the witness does not support the member {name}"),
        }
    }
    Ok(defines)
}

/// Returns name and path of every file with this extension, in alphabetical order.
fn files(directory: &Path, extension: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("{}", directory.display()))? {
        let path = entry?.path();
        if let Some(name) =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(extension))
        {
            found.push((name.to_owned(), path.clone()));
        }
    }
    found.sort();
    Ok(found)
}
