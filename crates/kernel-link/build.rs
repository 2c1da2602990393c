// SPDX-License-Identifier: GPL-2.0-only
//! Compiles `bpf/*.bpf.c` for the BPF target.

use anyhow::{Context, Result};
use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::{Path, PathBuf};

/// `bpf/NAME.bpf.c` becomes `NAME.bpf.o`.
const OBJECTS: [&str; 4] = ["record", "meter", "newidle", "watch"];

/// `FOLDER/NAME.bpf.c`: one that goes wrong as asked, one that says nothing of its end, one in the style of others, and one
/// with which the model is tested.
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
    // What is installed does not tell where it was built.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let renamed = format!("-ffile-prefix-map={}/=", root.display());
    for (folder, name) in SCHEDULERS {
        scheduler(folder, name)?;
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

/// A scheduler of the tests. It is compiled here so that they run where there is no clang.
fn scheduler(folder: &str, name: &str) -> Result<()> {
    println!("cargo:rerun-if-changed={folder}");
    println!("cargo:rerun-if-changed=../../policies/include");
    let object = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?).join(format!("{name}.bpf.o"));
    bpf_clang::compile(Path::new(&format!("{folder}/{name}.bpf.c")), &object, &[])?;
    Ok(())
}
