// SPDX-License-Identifier: GPL-2.0-only
//! `weir generate`: what an installation needs beside the program: man pages, completions of shells, headers
//! for policies, and the policies themselves as objects.

use crate::args::{Args, Generate, Generated};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::path::Path;

/// Shells, and what their completions are called.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "weir"), (Shell::Zsh, "_weir"), (Shell::Fish, "weir.fish")];

/// Writes the files into a folder, which is made if it is not there.
pub fn generate(args: &Generate) -> Result<()> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    match args.what {
        Generated::Man => manual(folder),
        Generated::Completions => completions(folder),
        Generated::Headers => headers(folder),
        Generated::Objects => objects(folder),
    }
}

/// `weir.1`, and `weir-SUBCOMMAND.1` of each.
fn manual(folder: &Path) -> Result<()> {
    clap_mangen::generate_to(Args::command(), folder).with_context(|| folder.display().to_string())
}

fn completions(folder: &Path) -> Result<()> {
    for (shell, name) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "weir", &mut text);
        write(&folder.join(name), &text)?;
    }
    Ok(())
}

/// `weir/scx.bpf.h` and the others, for `#include <weir/scx.bpf.h>`.
fn headers(folder: &Path) -> Result<()> {
    for (name, text) in policies::HEADERS {
        let path = folder.join(name);
        let parent = path.parent().expect("it lies in the folder");
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        write(&path, text.as_bytes())?;
    }
    Ok(())
}

/// `NAME.bpf.o` of each policy, and its profile where `weir` and people look for it: `NAME.toml` beside it.
fn objects(folder: &Path) -> Result<()> {
    for policy in policies::all() {
        write(&folder.join(format!("{}.bpf.o", policy.name)), policy.object)?;
        write(&folder.join(format!("{}.toml", policy.name)), policy.profile.as_bytes())?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| path.display().to_string())
}
