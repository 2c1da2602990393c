// SPDX-License-Identifier: GPL-2.0-only
//! Compiles schedulers given as BPF C, with the headers of Weir's own policies in the include path.
//!
//! `#include "…"` searches the source's directory, `#include <weir/scx.bpf.h>` the headers that ship with Weir.
//! Further compiler options (`-I`, `-D`) are taken from the environment variable `BPF_CFLAGS`.

use crate::input;
use anyhow::{Context, Result, anyhow};
use bpf_clang::{ClangError, Compiled};
use std::fs;
use std::path::{Path, PathBuf};

/// Whether a file with this name is a source.
pub fn is_source(name: &str) -> bool {
    name.ends_with(".c")
}

/// Compiles a source. Compiler warnings are copied to standard error.
///
/// # Errors
/// If the source cannot be read, clang is not found, or clang rejects the source; its diagnostics are then on standard
/// error.
pub fn object(source: &Path) -> Result<Vec<u8>> {
    match compile(source) {
        Ok(compiled) => {
            compiled.sources.iter().for_each(|source| input::note_input(source));
            crate::output::tell(&compiled.warnings);
            Ok(compiled.object)
        }
        Err(error) => Err(match error.downcast() {
            Ok(ClangError::Source(words)) => {
                crate::output::tell(&words);
                anyhow!("{}: compilation failed (see clang's messages above)", source.display())
            }
            Ok(other) => other.into(),
            Err(error) => error,
        }),
    }
}

/// Files that a source consists of, headers included; only the source itself if it does not compile.
pub fn sources(source: &Path) -> Vec<PathBuf> {
    compile(source).map_or_else(|_| vec![source.to_owned()], |compiled| compiled.sources)
}

fn compile(source: &Path) -> Result<Compiled> {
    input::text(source, input::SOURCE)?;
    let directory = tempfile::tempdir().context("cannot create a temporary directory for the headers")?;
    let include = directory.path().join("include");
    for (name, text) in policies::HEADERS {
        let header = include.join(name);
        let parent = header.parent().expect("it is inside the directory");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&header, text))
            .with_context(|| header.display().to_string())?;
    }
    let include = include.to_string_lossy().into_owned();
    // Marked as system headers, so that `--watch` does not wait for them to change. Mapped to the names that the
    // source uses, so that objects and messages do not contain the temporary path.
    let renamed = format!("-ffile-prefix-map={include}/=");
    let mut arguments = vec!["-isystem".to_owned(), include.clone(), renamed];
    let more = std::env::var("BPF_CFLAGS").unwrap_or_default();
    arguments.extend(more.split_whitespace().map(str::to_owned));
    let short = |words: String| words.replace(&format!("{include}/"), "");
    match bpf_clang::compile_source(source, directory.path(), &arguments) {
        Ok(compiled) => Ok(Compiled { warnings: short(compiled.warnings), ..compiled }),
        Err(ClangError::Source(words)) => Err(ClangError::Source(short(words)).into()),
        Err(other) => Err(other.into()),
    }
}
