// SPDX-License-Identifier: GPL-2.0-only
//! Reads the files that a command line names: regular ones, none larger than its kind ever needs to be.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::{self, File, FileType};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a file holds, and how large it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    what: &'static str,
    most_mib: u64,
}

/// A compiled scheduler. Large ones have 10 MiB, most of it debug information.
pub const OBJECT: Kind = Kind { what: "an object", most_mib: 64 };
/// The source of a scheduler.
pub const SOURCE: Kind = Kind { what: "a source", most_mib: 4 };
/// A launch profile.
pub const PROFILE: Kind = Kind { what: "a launch profile", most_mib: 4 };
/// A machine. The XML of hwloc has some 3 KiB for each CPU.
pub const MACHINE: Kind = Kind { what: "a machine", most_mib: 64 };
/// An rt-app file or a recording, compressed as it is: a minute of the busiest machine has some 100 MiB.
pub const WORKLOAD: Kind = Kind { what: "a workload", most_mib: 512 };
/// Saved runs, or the JSON of runs: some 500 bytes for each task of each run.
pub const RUNS: Kind = Kind { what: "a file of runs", most_mib: 1024 };
/// A fault plan.
pub const FAULTS: Kind = Kind { what: "a fault plan", most_mib: 4 };

/// Contents by path.
type Files = Vec<(String, Vec<u8>)>;

/// What was read so far: a saved run holds it.
static READ: Mutex<Files> = Mutex::new(Vec::new());
/// Whether to remember that.
static REMEMBERS: AtomicBool = AtomicBool::new(false);

/// What a saved run holds: it is read instead of what is there today.
static PROVIDED: Mutex<Option<Files>> = Mutex::new(None);

/// Ends the providing of files when it is dropped.
#[derive(Debug)]
pub struct Provided;

impl Drop for Provided {
    fn drop(&mut self) {
        *PROVIDED.lock().expect("nobody panics with it") = None;
    }
}

/// While what this returns lives, these files are read and no others, by the paths that they had.
pub fn provide(files: Files) -> Provided {
    *PROVIDED.lock().expect("nobody panics with it") = Some(files);
    Provided
}

/// A file that was provided; the outer `None`: files are read where they are.
fn provided(path: &Path) -> Option<Option<Vec<u8>>> {
    let files = PROVIDED.lock().expect("nobody panics with it");
    let find = |files: &Files| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, bytes)| bytes.clone());
    files.as_ref().map(find)
}

/// Whether there is such a file.
pub fn exists(path: &Path) -> bool {
    provided(path).map_or_else(|| path.exists(), |file| file.is_some())
}

/// Remembers from now on what is read.
pub fn remember() {
    REMEMBERS.store(true, Ordering::Relaxed);
}

/// Something was read.
pub fn note(path: &str, bytes: &[u8]) {
    if REMEMBERS.load(Ordering::Relaxed) {
        READ.lock().expect("nobody panics with it").push((path.to_owned(), bytes.to_vec()));
    }
}

/// Path and contents of what was read since somebody asked to remember that.
pub fn read_so_far() -> Files {
    READ.lock().expect("nobody panics with it").clone()
}

/// All bytes of a regular file.
///
/// # Errors
/// If it cannot be read, is no regular file (a device or a pipe may never end), or is larger than its kind may be.
pub fn read(path: &Path, kind: Kind) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    if let Some(provided) = provided(path) {
        return provided.ok_or_else(|| anyhow!("{}: the saved run does not have it", cannot()));
    }
    // Before it is opened, which waits for a writer if it is a pipe.
    let metadata = fs::metadata(path).with_context(cannot)?;
    if !metadata.is_file() {
        bail!("{}: it is {}; expected a regular file", cannot(), describe(metadata.file_type()));
    }
    let most = kind.most_mib << 20;
    let too_large =
        |bytes: u64| anyhow!("{}: {bytes} bytes; {} has at most {} MiB", path.display(), kind.what, kind.most_mib);
    if metadata.len() > most {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    // It may grow while it is read, and files of the kernel have no length.
    File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).with_context(cannot)?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64));
    }
    note(&path.to_string_lossy(), &bytes);
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As [`read`], and if it is not UTF-8.
pub fn text(path: &Path, kind: Kind) -> Result<String> {
    String::from_utf8(read(path, kind)?)
        .map_err(|error| anyhow!("{}, byte {}: not UTF-8 text", path.display(), error.utf8_error().valid_up_to()))
}

fn describe(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_fair_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let error = |path: &Path| format!("{:#}", read(path, PROFILE).unwrap_err());
        fs::write(path("good"), "summary = \"é\"").unwrap();
        assert_eq!(text(&path("good"), PROFILE).unwrap(), "summary = \"é\"");
        fs::write(path("latin"), b"ab\xe9").unwrap();
        assert!(text(&path("latin"), PROFILE).unwrap_err().to_string().ends_with("latin, byte 2: not UTF-8 text"));
        let sparse = File::create(path("sparse")).unwrap();
        sparse.set_len(4 << 20).unwrap();
        assert_eq!(read(&path("sparse"), PROFILE).unwrap().len(), 4 << 20);
        sparse.set_len((4 << 20) + 1).unwrap();
        assert!(error(&path("sparse")).ends_with("sparse: 4194305 bytes; a launch profile has at most 4 MiB"));
        assert!(error(folder.path()).ends_with(": it is a directory; expected a regular file"));
        assert_eq!(error(Path::new("/dev/zero")), "cannot read /dev/zero: it is a device; expected a regular file");
        assert!(error(&path("none")).ends_with("none: No such file or directory (os error 2)"));
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(made.success());
        assert!(error(&path("pipe")).ends_with("pipe: it is a pipe; expected a regular file"));
        // A file of the kernel says that it has no bytes.
        assert!(!read(Path::new("/proc/self/status"), PROFILE).unwrap().is_empty());
    }
}
