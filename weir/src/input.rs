// SPDX-License-Identifier: GPL-2.0-only
//! Reads the files named on the command line. Only regular files are read, each up to the maximum size of its kind.

use anyhow::{Context, Result, anyhow, bail};
use output_file::FileId;
use std::fs::{self, File, FileType};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Kind of an input file, with its maximum size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    what: &'static str,
    most_mib: u64,
}

/// Compiled scheduler. Large ones have 10 MiB, most of it debug information.
pub const OBJECT: Kind = Kind { what: "an object", most_mib: 64 };
/// Source of a scheduler.
pub const SOURCE: Kind = Kind { what: "a source", most_mib: 4 };
/// Launch profile.
pub const PROFILE: Kind = Kind { what: "a launch profile", most_mib: 4 };
/// Machine. hwloc XML has about 3 KiB per CPU.
pub const MACHINE: Kind = Kind { what: "a machine", most_mib: 64 };
/// rt-app file or recording, compressed. A minute of the busiest machine is about 100 MiB.
pub const WORKLOAD: Kind = Kind { what: "a workload", most_mib: 512 };
/// Saved runs, or runs as JSON: about 500 bytes for each task of each run.
pub const RUNS: Kind = Kind { what: "a file of runs", most_mib: 1024 };
/// Points of a scalability law, as CSV.
pub const POINTS: Kind = Kind { what: "a table of points", most_mib: 16 };
/// Times of the arrivals of requests, a line of some 15 bytes each.
pub const ARRIVALS: Kind = Kind { what: "times of arrivals", most_mib: 256 };
/// Campaign.
#[cfg(feature = "sweep")]
pub const CAMPAIGN: Kind = Kind { what: "a campaign", most_mib: 4 };
/// Claims.
pub const CLAIMS: Kind = Kind { what: "a file of claims", most_mib: 4 };
/// Fault plan.
pub const FAULTS: Kind = Kind { what: "a fault plan", most_mib: 4 };

/// File contents with their paths.
type Files = Vec<(String, Vec<u8>)>;

/// Files read so far, to be stored in a saved run.
static READ: Mutex<Files> = Mutex::new(Vec::new());
/// Identities of all files read so far, which no output may replace.
static INPUTS: Mutex<Vec<FileId>> = Mutex::new(Vec::new());
/// Whether files that are read are added to `READ`.
static REMEMBERS: AtomicBool = AtomicBool::new(false);

/// Files of a saved run, which are then used instead of the current file system.
static PROVIDED: Mutex<Option<Files>> = Mutex::new(None);

/// Guard: dropping it makes reads use the file system again.
#[derive(Debug)]
pub struct Provided;

impl Drop for Provided {
    fn drop(&mut self) {
        *PROVIDED.lock().expect("no thread panics while holding it") = None;
    }
}

/// Makes all reads use these files, by their original paths, until the returned guard is dropped.
pub fn provide(files: Files) -> Provided {
    *PROVIDED.lock().expect("no thread panics while holding it") = Some(files);
    Provided
}

/// Notes that this file is an input.
pub fn note_input(path: &Path) {
    if let Ok(metadata) = fs::metadata(path) {
        INPUTS.lock().expect("no thread panics while holding it").push(FileId::of(&metadata));
    }
}

/// Whether this file is an input.
pub fn was_read(file: FileId) -> bool {
    INPUTS.lock().expect("no thread panics while holding it").contains(&file)
}

/// Looks a path up in the provided files. The outer `None` means that none are provided and the file system is used.
fn provided(path: &Path) -> Option<Option<Vec<u8>>> {
    let files = PROVIDED.lock().expect("no thread panics while holding it");
    let find = |files: &Files| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, bytes)| bytes.clone());
    files.as_ref().map(find)
}

/// Whether the file exists.
pub fn exists(path: &Path) -> bool {
    provided(path).map_or_else(|| path.exists(), |file| file.is_some())
}

/// Starts to remember the files that are read.
pub fn remember() {
    REMEMBERS.store(true, Ordering::Relaxed);
}

/// Remembers a file that was read, if enabled.
pub fn note(path: &str, bytes: &[u8]) {
    if REMEMBERS.load(Ordering::Relaxed) {
        READ.lock().expect("no thread panics while holding it").push((path.to_owned(), bytes.to_vec()));
    }
}

/// Files read since [`remember`], with their paths.
pub fn read_so_far() -> Files {
    READ.lock().expect("no thread panics while holding it").clone()
}

/// Reads a regular file.
///
/// # Errors
/// If it cannot be read, is not a regular file (reading a device or a pipe may never end), or exceeds the maximum size
/// of its kind.
pub fn read(path: &Path, kind: Kind) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    if let Some(provided) = provided(path) {
        return provided.ok_or_else(|| anyhow!("{}: not stored in the saved run", cannot()));
    }
    // Checked before opening, because opening a pipe blocks until there is a writer.
    let metadata = fs::metadata(path).with_context(cannot)?;
    if !metadata.is_file() {
        bail!("{}: it is {}; expected a regular file", cannot(), describe(metadata.file_type()));
    }
    let most = kind.most_mib << 20;
    let too_large =
        |bytes: u64| anyhow!("{}: {bytes} bytes; {} may have at most {} MiB", path.display(), kind.what, kind.most_mib);
    if metadata.len() > most {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    // The file may grow while it is read, and kernel files report a length of 0.
    File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).with_context(cannot)?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64));
    }
    note_input(path);
    note(&path.to_string_lossy(), &bytes);
    Ok(bytes)
}

/// Reads a text file.
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
    fn only_regular_files_up_to_the_maximum_size_are_read() {
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
        assert!(error(&path("sparse")).ends_with("sparse: 4194305 bytes; a launch profile may have at most 4 MiB"));
        assert!(error(folder.path()).ends_with(": it is a directory; expected a regular file"));
        assert_eq!(error(Path::new("/dev/zero")), "cannot read /dev/zero: it is a device; expected a regular file");
        assert!(error(&path("none")).ends_with("none: No such file or directory (os error 2)"));
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(made.success());
        assert!(error(&path("pipe")).ends_with("pipe: it is a pipe; expected a regular file"));
        // Kernel files report a length of 0.
        assert!(!read(Path::new("/proc/self/status"), PROFILE).unwrap().is_empty());
    }
}
