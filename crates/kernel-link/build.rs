// SPDX-License-Identifier: GPL-2.0-only
//! Compiles `bpf/*.bpf.c` for the BPF target.

use anyhow::{Context, Result};
use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::{Path, PathBuf};

/// Each `bpf/NAME.bpf.c` is compiled to `NAME.bpf.o`.
const OBJECTS: [&str; 5] = ["record", "meter", "newidle", "tables", "watch"];

/// `DIRECTORY/NAME.bpf.c`: a faulty scheduler, one without an exit record, one in the style of scx, and one for
/// testing the model.
const SCHEDULERS: [(&str, &str); 4] = [
    ("tests/schedulers", "faulty"),
    ("tests/schedulers", "silent"),
    ("tests/schedulers", "visitor"),
    ("../kernel-model/tests/schedulers", "groups"),
];

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    println!("cargo:rerun-if-env-changed=PATH");
    let directory = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    let compiler = bpf_clang::find()?;
    // Installed files must not contain the build path.
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?);
    let root = manifest.join("../..").canonicalize().context("root of the repository")?;
    let renamed = format!("-ffile-prefix-map={}/=", root.display());
    for (directory, name) in SCHEDULERS {
        scheduler(directory, name)?;
    }
    for name in OBJECTS {
        SkeletonBuilder::new()
            .source(format!("bpf/{name}.bpf.c"))
            .obj(directory.join(format!("{name}.bpf.o")))
            .clang(&compiler)
            .clang_args(["-Wall", "-mcpu=v3", &renamed])
            .build()?;
    }
    Ok(())
}

/// Compiles a scheduler of the tests. This is done at build time so that the tests also run without clang.
fn scheduler(directory: &str, name: &str) -> Result<()> {
    println!("cargo:rerun-if-changed={directory}");
    println!("cargo:rerun-if-changed=../../policies/include");
    let object = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?).join(format!("{name}.bpf.o"));
    bpf_clang::compile(Path::new(&format!("{directory}/{name}.bpf.c")), &object, &[])?;
    Ok(())
}
