// SPDX-License-Identifier: GPL-2.0-only
//! `weir generate`: writes files for an installation besides the program: man pages, shell completions, headers for
//! policies, and compiled policies.

use crate::args::{Args, Generate, Generated};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use output_file::{Privacy, Target};
use std::fs;
use std::path::Path;

/// Shells, and the file names of their completions.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "weir"), (Shell::Zsh, "_weir"), (Shell::Fish, "weir.fish")];

/// Writes the files into a directory, which is created if missing.
pub fn generate(args: &Generate) -> Result<()> {
    let directory = &args.directory;
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    match args.what {
        Generated::Man => manual(directory),
        Generated::Completions => completions(directory),
        Generated::Headers => headers(directory),
        Generated::Objects => objects(directory),
    }
}

/// `weir.1`, and one `weir-SUBCOMMAND.1` for each subcommand.
fn manual(directory: &Path) -> Result<()> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    page_of(&command, directory)
}

/// Page of a command, and those of its subcommands.
fn page_of(command: &clap::Command, directory: &Path) -> Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    write(&directory.join(page.get_filename()), &text)?;
    let mut shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.try_for_each(|command| page_of(command, directory))
}

fn completions(directory: &Path) -> Result<()> {
    for (shell, name) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "weir", &mut text);
        write(&directory.join(name), &text)?;
    }
    Ok(())
}

/// Headers, for `#include <weir/scx.bpf.h>`.
fn headers(directory: &Path) -> Result<()> {
    for (name, text) in policies::HEADERS {
        let path = directory.join(name);
        let parent = path.parent().expect("it is inside the directory");
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        write(&path, text.as_bytes())?;
    }
    Ok(())
}

/// `NAME.bpf.o` of each policy and its launch profile `NAME.toml` in the same directory, where `weir` looks for it.
fn objects(directory: &Path) -> Result<()> {
    for policy in policies::all() {
        write(&directory.join(format!("{}.bpf.o", policy.name)), policy.object)?;
        write(&directory.join(format!("{}.toml", policy.name)), policy.profile.as_bytes())?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(Target::check_file(path, Privacy::Public)?.write(bytes)?)
}
