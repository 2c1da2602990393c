// SPDX-License-Identifier: GPL-2.0-only
//! Finds clang and compiles BPF C with the flags of all objects in this repository. Used by build scripts, tests and
//! `weir` for users' sources; no crate that takes part in a simulation depends on it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Versions of clang in the order in which they are tried. The objects are tested with 19; 16 is the oldest that
/// supports all relocations in the headers.
const VERSIONS: [u32; 6] = [19, 18, 17, 16, 20, 21];

/// Reason why clang produced no object.
#[derive(Debug, thiserror::Error)]
pub enum ClangError {
    /// No suitable clang was found.
    #[error(
        "no clang between 16 and 21 found: BPF programs are compiled by clang.\n\
         Install it with `make deps` (as root, on Debian or Ubuntu), or `apt install clang-19` (or 18, 17, 16),\n\
         or name one in the environment variable BPF_CLANG."
    )]
    Missing,
    /// `BPF_CLANG` is not a program that runs.
    #[error("BPF_CLANG={0}: this program does not run")]
    NotAProgram(String),
    /// A program could not be started, or a file could not be read.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// Clang rejected the source.
    #[error("{0}")]
    Source(String),
}

/// Returns `$BPF_CLANG`, or the first version that runs.
pub fn find() -> Result<String, ClangError> {
    if let Ok(clang) = env::var("BPF_CLANG") {
        return if runs(&clang) { Ok(clang) } else { Err(ClangError::NotAProgram(clang)) };
    }
    let versioned = VERSIONS.iter().map(|version| format!("clang-{version}"));
    versioned.chain(["clang".to_owned()]).find(|clang| runs(clang)).ok_or(ClangError::Missing)
}

fn runs(program: &str) -> bool {
    command(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A command of this program. An empty entry of `PATH`, or a relative one, stands for a place in the current directory,
/// which may be that of a stranger's sources: programs there are not found by name.
fn command(program: &str) -> Command {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file());
    match found {
        Some(found) if !program.contains('/') => Command::new(found),
        None if !program.contains('/') => Command::new(Path::new("/nonexistent").join(program)),
        _ => Command::new(program),
    }
}

/// Root of the repository: the first directory at or above the crate being built that contains `policies/include`.
fn root() -> PathBuf {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".into()));
    let manifest = manifest.canonicalize().unwrap_or(manifest);
    manifest.ancestors().find(|directory| directory.join("policies/include").is_dir()).unwrap_or(&manifest).to_owned()
}

/// Flags of all objects.
const FLAGS: [&str; 6] = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall"];

/// Compiles `source` to `object`. It runs in the root of the repository with relative file names: an object contains
/// the names of its sources, and its bytes must not depend on where the repository is. `policies/include` is on the
/// include path; `arguments` (such as `-DNAME`) come last.
pub fn compile(source: &Path, object: &Path, arguments: &[&str]) -> Result<(), ClangError> {
    compile_in(&root(), source, object, arguments)
}

/// Compiles `source` like [`compile`], in another directory with the layout of the repository.
///
/// # Errors
///
/// Fails if there is no clang, if a file cannot be read or written, or if clang rejects the source; the error then
/// contains clang's messages.
pub fn compile_in(root: &Path, source: &Path, object: &Path, arguments: &[&str]) -> Result<(), ClangError> {
    let clang = find()?;
    let canonical =
        |path: &Path| path.canonicalize().map_err(|error| ClangError::Io(path.display().to_string(), error));
    let (root, source) = (canonical(root)?, canonical(source)?);
    let source = source.strip_prefix(&root).unwrap_or(&source);
    let output = command(&clang)
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

/// Directory of the headers that the policies share.
pub fn headers() -> PathBuf {
    root().join("policies/include")
}

/// Compiles `source` as a host program with the headers in `include`, for tests of code that BPF programs share.
/// Undefined behavior aborts the program. `arguments` come last.
///
/// # Errors
///
/// Fails if there is no clang, or if clang rejects the source; the error then contains clang's messages.
pub fn compile_program(source: &Path, include: &Path, program: &Path, arguments: &[&str]) -> Result<(), ClangError> {
    let clang = find()?;
    let output = command(&clang)
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

/// Result of compiling a user's source.
#[derive(Debug)]
pub struct Compiled {
    /// Contents of the object file.
    pub object: Vec<u8>,
    /// Warnings of clang.
    pub warnings: String,
    /// Files from which the object was compiled: the source and its includes, without system headers.
    pub sources: Vec<PathBuf>,
}

/// Compiles a user's `source` in the current directory, under the name given, which the object then contains.
/// `directory` is a directory for temporary files. Warnings are not errors. `arguments` come last.
///
/// # Errors
///
/// Fails if there is no clang, if a file cannot be read or written, or if clang rejects the source; the error then
/// contains clang's messages.
pub fn compile_source(source: &Path, directory: &Path, arguments: &[String]) -> Result<Compiled, ClangError> {
    let clang = find()?;
    let (object, rule) = (directory.join("object.bpf.o"), directory.join("object.d"));
    let output = command(&clang)
        .args(FLAGS)
        .args(["-c", "-o"])
        .arg(&object)
        .args(["-MMD", "-MT", "object", "-MF"])
        .arg(&rule)
        .args(arguments)
        .arg("--")
        .arg(as_file(source))
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

/// A source whose name begins with a dash, so that it is no option. `--` is not enough: clang passes the name on to its own
/// compiler process without it, which takes `-oFILE` for an output.
fn as_file(source: &Path) -> PathBuf {
    match source.as_os_str().as_encoded_bytes().first() {
        Some(b'-') => Path::new(".").join(source),
        _ => source.to_owned(),
    }
}

/// Parses the file names after the colon of a make rule. A backslash escapes a space, or continues the line.
fn prerequisites(rule: &str) -> Vec<PathBuf> {
    let (_, names) = rule.split_once(':').unwrap_or_default();
    let mut files = vec![String::new()];
    let mut characters = names.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some(' ' | '#')) => files.last_mut().expect("the list is not empty").extend(characters.next()),
            ('\\', Some('\n')) => files.push(String::new()),
            ('$', Some('$')) => files.last_mut().expect("the list is not empty").extend(characters.next()),
            (blank, _) if blank.is_whitespace() => files.push(String::new()),
            (other, _) => files.last_mut().expect("the list is not empty").push(other),
        }
    }
    files.into_iter().filter(|file| !file.is_empty()).map(PathBuf::from).collect()
}

/// Compiles `source` for a test and returns the object. The object file is created in `directory` and removed again.
///
/// # Panics
///
/// If it cannot be compiled; the message tells how to install clang if that is missing.
pub fn object_of(source: &Path, directory: &Path, arguments: &[&str]) -> Vec<u8> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}.bpf.o", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let object = directory.join(name);
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
    fn make_rules_are_parsed_to_their_prerequisites() {
        let files = |rule| prerequisites(rule).into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(files("object: a.c b/c.h \\\n  my\\ file.h a$$b.h\n"), ["a.c", "b/c.h", "my file.h", "a$b.h"]);
        assert_eq!(files("object:\n"), [""; 0]);
    }
}
