// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler that is given as BPF C: compiled on the spot, with the headers of Weir's own policies at hand.
//!
//! `#include "…"` finds what lies beside the source, `#include <weir/scx.bpf.h>` what ships with Weir. Whatever else a
//! source needs (`-I`, `-D`) stands in the environment variable `BPF_CFLAGS`.

use crate::input;
use anyhow::{Context, Result, anyhow};
use bpf_clang::{ClangError, Compiled};
use std::fs;
use std::path::{Path, PathBuf};

/// Whether this names a source.
pub fn is_source(name: &str) -> bool {
    name.ends_with(".c")
}

/// The object of this source. What clang warns of goes to standard error as it is.
///
/// # Errors
/// If the source cannot be read, there is no clang, or clang refuses the source: its words, which are many lines, are on
/// standard error then.
pub fn object(source: &Path) -> Result<Vec<u8>> {
    match compile(source) {
        Ok(compiled) => {
            eprint!("{}", compiled.warnings);
            Ok(compiled.object)
        }
        Err(error) => Err(match error.downcast() {
            Ok(ClangError::Source(words)) => {
                eprint!("{words}");
                anyhow!("{}: clang does not compile it", source.display())
            }
            Ok(other) => other.into(),
            Err(error) => error,
        }),
    }
}

/// The files that this source is made of; the source alone while it cannot be compiled.
pub fn sources(source: &Path) -> Vec<PathBuf> {
    compile(source).map_or_else(|_| vec![source.to_owned()], |compiled| compiled.sources)
}

fn compile(source: &Path) -> Result<Compiled> {
    input::text(source, input::SOURCE)?;
    let folder = tempfile::tempdir().context("no folder for the headers")?;
    let include = folder.path().join("include");
    for (name, text) in policies::HEADERS {
        let header = include.join(name);
        let parent = header.parent().expect("it lies in the folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&header, text))
            .with_context(|| header.display().to_string())?;
    }
    let include = include.to_string_lossy().into_owned();
    // As headers of the system nobody waits for them to change; by the names that the source uses they are the same
    // headers in every object and message.
    let renamed = format!("-ffile-prefix-map={include}/=");
    let mut arguments = vec!["-isystem".to_owned(), include.clone(), renamed];
    let more = std::env::var("BPF_CFLAGS").unwrap_or_default();
    arguments.extend(more.split_whitespace().map(str::to_owned));
    let short = |words: String| words.replace(&format!("{include}/"), "");
    match bpf_clang::compile_source(source, folder.path(), &arguments) {
        Ok(compiled) => Ok(Compiled { warnings: short(compiled.warnings), ..compiled }),
        Err(ClangError::Source(words)) => Err(ClangError::Source(short(words)).into()),
        Err(other) => Err(other.into()),
    }
}
