// SPDX-License-Identifier: GPL-2.0-only
//! Finds clang and compiles BPF C with the flags that every object of this repository is made with. For build scripts
//! and tests, and for sources that a user names: no crate that runs in a simulation depends on it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Versions of clang that are tried in this order: 19 is what the objects are tested with, 16 is the oldest that knows
/// all the relocations that the headers ask for.
const VERSIONS: [u32; 6] = [19, 18, 17, 16, 20, 21];

/// Why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum ClangError {
    /// No suitable clang.
    #[error(
        "no clang between 16 and 21 found: BPF programs are compiled by clang.\n\
         Install it with `make deps` (as root, on Debian or Ubuntu), or `apt install clang-19` (or 18, 17, 16),\n\
         or name one in the environment variable BPF_CLANG."
    )]
    Missing,
    /// `BPF_CLANG` names something else.
    #[error("BPF_CLANG={0}: this program does not run")]
    NotAProgram(String),
    /// The program could not be started, or a file not be read.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// It refused the source.
    #[error("{0}")]
    Source(String),
}

/// `$BPF_CLANG`, or the first version that runs.
pub fn find() -> Result<String, ClangError> {
    if let Ok(clang) = env::var("BPF_CLANG") {
        return if runs(&clang) { Ok(clang) } else { Err(ClangError::NotAProgram(clang)) };
    }
    let versioned = VERSIONS.iter().map(|version| format!("clang-{version}"));
    versioned.chain(["clang".to_owned()]).find(|clang| runs(clang)).ok_or(ClangError::Missing)
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Root of the repository: the folder above the crate that is being built which holds the policies.
fn root() -> PathBuf {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".into()));
    let manifest = manifest.canonicalize().unwrap_or(manifest);
    manifest.ancestors().find(|folder| folder.join("policies/include").is_dir()).unwrap_or(&manifest).to_owned()
}

/// What every object is compiled with.
const FLAGS: [&str; 6] = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall"];

/// Compiles `source` to `object`. Runs in the root of the repository and names files relative to it: an object carries
/// the names of its sources, and shall be the same bytes wherever the repository lies. `policies/include` is on the
/// include path; `arguments` (such as `-DNAME`) come last.
pub fn compile(source: &Path, object: &Path, arguments: &[&str]) -> Result<(), ClangError> {
    compile_in(&root(), source, object, arguments)
}

/// The same in another folder that is laid out like the repository.
///
/// # Errors
/// If there is no clang, a file cannot be read or written, or clang refuses the source, with its own words.
pub fn compile_in(root: &Path, source: &Path, object: &Path, arguments: &[&str]) -> Result<(), ClangError> {
    let clang = find()?;
    let canonical =
        |path: &Path| path.canonicalize().map_err(|error| ClangError::Io(path.display().to_string(), error));
    let (root, source) = (canonical(root)?, canonical(source)?);
    let source = source.strip_prefix(&root).unwrap_or(&source);
    let output = Command::new(&clang)
        .args(FLAGS)
        .args(["-Werror", "-fdebug-compilation-dir=.", "-I", "policies/include", "-c"])
        .arg(source)
        .arg("-o")
        .arg(object)
        .args(arguments)
        .current_dir(&root)
        .output()
        .map_err(|error| ClangError::Io(clang.clone(), error))?;
    if output.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    Err(ClangError::Source(format!("{clang} does not compile {}:\n{messages}", source.display())))
}

/// The headers that policies share.
pub fn headers() -> PathBuf {
    root().join("policies/include")
}

/// Compiles `source` as a program of this host with headers of `include`: for tests of what BPF programs share. Undefined
/// behaviour ends it. `arguments` come last.
///
/// # Errors
/// If there is no clang, or it refuses the source, with its own words.
pub fn compile_program(source: &Path, include: &Path, program: &Path, arguments: &[&str]) -> Result<(), ClangError> {
    let clang = find()?;
    let output = Command::new(&clang)
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fsanitize-trap=all", "-I"])
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(program)
        .arg("-lm")
        .args(arguments)
        .output()
        .map_err(|error| ClangError::Io(clang.clone(), error))?;
    if output.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    Err(ClangError::Source(format!("{clang} does not compile {}:\n{messages}", source.display())))
}

/// What became of a user's source.
#[derive(Debug)]
pub struct Compiled {
    /// The object.
    pub object: Vec<u8>,
    /// What clang had to say all the same.
    pub warnings: String,
    /// The files that it is made of: the source and what it includes, those of the system left out.
    pub sources: Vec<PathBuf>,
}

/// Compiles a user's `source`, in the current folder and by the name that it was given, which is then its name in the
/// object. `folder` is for files on the way. Warnings are no errors. `arguments` come last.
///
/// # Errors
/// If there is no clang, a file cannot be read or written, or clang refuses the source, with its own words.
pub fn compile_source(source: &Path, folder: &Path, arguments: &[String]) -> Result<Compiled, ClangError> {
    let clang = find()?;
    let (object, rule) = (folder.join("object.bpf.o"), folder.join("object.d"));
    let output = Command::new(&clang)
        .args(FLAGS)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object)
        .args(["-MMD", "-MT", "object", "-MF"])
        .arg(&rule)
        .args(arguments)
        .output()
        .map_err(|error| ClangError::Io(clang.clone(), error))?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(ClangError::Source(format!("{clang} does not compile {}:\n{messages}", source.display())));
    }
    let read = |path: &Path| fs::read(path).map_err(|error| ClangError::Io(path.display().to_string(), error));
    let sources = prerequisites(&String::from_utf8_lossy(&read(&rule)?));
    Ok(Compiled { object: read(&object)?, warnings: messages, sources })
}

/// The files that a rule of make names after its colon. A backslash keeps the blank after it, and ends no line.
fn prerequisites(rule: &str) -> Vec<PathBuf> {
    let (_, names) = rule.split_once(':').unwrap_or_default();
    let mut files = vec![String::new()];
    let mut characters = names.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some(' ' | '#')) => files.last_mut().expect("one is begun").extend(characters.next()),
            ('\\', Some('\n')) => files.push(String::new()),
            ('$', Some('$')) => files.last_mut().expect("one is begun").extend(characters.next()),
            (blank, _) if blank.is_whitespace() => files.push(String::new()),
            (other, _) => files.last_mut().expect("one is begun").push(other),
        }
    }
    files.into_iter().filter(|file| !file.is_empty()).map(PathBuf::from).collect()
}

/// The object of `source`, for a test; made in `folder` and removed again.
///
/// # Panics
///
/// If it cannot be compiled: the repository needs clang, and says so.
pub fn object_of(source: &Path, folder: &Path, arguments: &[&str]) -> Vec<u8> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}.bpf.o", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let object = folder.join(name);
    if let Err(error) = compile(source, &object, arguments) {
        panic!("{error}");
    }
    let bytes = fs::read(&object).unwrap_or_else(|error| panic!("{}: {error}", object.display()));
    fs::remove_file(&object).unwrap_or_else(|error| panic!("{}: {error}", object.display()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_make_name_files() {
        let files = |rule| prerequisites(rule).into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(files("object: a.c b/c.h \\\n  my\\ file.h a$$b.h\n"), ["a.c", "b/c.h", "my file.h", "a$b.h"]);
        assert_eq!(files("object:\n"), [""; 0]);
    }
}
