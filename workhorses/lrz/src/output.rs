// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output file that gets its name only when it is complete.
//!
//! Until then it is unnamed (`O_TMPFILE`), so nothing is left behind however the process ends, even by SIGKILL. File
//! systems without unnamed files get a temporary name instead, which [`remove_temporaries_and`] removes.

use crate::error::{Context, Error, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open, renameat, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An output file in progress.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
    replace: bool,
    /// Temporary name, if the file system has no unnamed files.
    temporary: Option<PathBuf>,
}

impl Output {
    /// Creates a file that will be named `path`; an existing file is replaced if `replace`.
    ///
    /// # Errors
    /// [`Error::Io`] if the file exists and may not be replaced, if it is a directory, device or other
    /// special file, and for errors of the operating system.
    pub fn create(path: &Path, replace: bool) -> Result<Output> {
        Output::new(path, replace, false)
    }

    /// Creates a file with a temporary name from the start.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create_named(path: &Path, replace: bool) -> Result<Output> {
        Output::new(path, replace, true)
    }

    fn new(path: &Path, replace: bool, named: bool) -> Result<Output> {
        if !replace && path.symlink_metadata().is_ok() {
            let what = format!("{}, use -f to replace it", path.display());
            return Err(Error::Io(what, io::ErrorKind::AlreadyExists.into()));
        }
        // A symbolic link is neither followed nor replaced: somebody else may have planted it.
        if let Some(there) = path.symlink_metadata().ok().filter(|there| !there.is_file()) {
            let kind = if there.is_symlink() { "a symbolic link" } else { "not a regular file" };
            let what = format!("{} is {kind} and is not replaced; write to standard output instead", path.display());
            return Err(Error::Io(what, io::ErrorKind::InvalidInput.into()));
        }
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let without_name = if named { None } else { open(directory, flags, Mode::from_raw_mode(0o600)).ok() };
        let (file, temporary) = match without_name {
            Some(file) => (File::from(file), None),
            None => {
                let name = beside(path);
                let mut names = temporaries();
                let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&name);
                let file = file.context(|| format!("creating {}", name.display()))?;
                names.push(name.clone());
                (file, Some(name))
            }
        };
        Ok(Output { file, path: path.to_owned(), replace, temporary })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// Those of the operating system; then the name is unchanged.
    pub fn finish(mut self) -> Result<()> {
        let name = || format!("writing {}", self.path.display());
        self.file.sync_all().context(name)?;
        let mut names = temporaries();
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                match linkat(CWD, &own, CWD, &self.path, AtFlags::SYMLINK_FOLLOW) {
                    Ok(()) => return Ok(()),
                    Err(error) if !self.replace || error != rustix::io::Errno::EXIST => {
                        return Err(io::Error::from(error)).context(name);
                    }
                    // Only a rename can replace a file, and only a named file can be renamed.
                    Err(_) => {
                        let temporary = beside(&self.path);
                        linkat(CWD, &own, CWD, &temporary, AtFlags::SYMLINK_FOLLOW)
                            .map_err(io::Error::from)
                            .context(name)?;
                        temporary
                    }
                }
            }
        };
        let renamed = if self.replace {
            renameat(CWD, &temporary, CWD, &self.path)
        } else {
            // Unlike a rename, a link fails if the name has been taken in the meantime.
            linkat(CWD, &temporary, CWD, &self.path, AtFlags::empty())
        };
        if !self.replace || renamed.is_err() {
            let _ = unlinkat(CWD, &temporary, AtFlags::empty());
        }
        names.retain(|known| *known != temporary);
        renamed.map_err(io::Error::from).context(name)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let mut names = temporaries();
            let _ = std::fs::remove_file(temporary);
            names.retain(|known| known != temporary);
        }
    }
}

/// Temporary names in use. Locked while one is created, given up or replaced by the file's own name.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files with temporary names, and then calls `end`, which ends the process. No thread can create another
/// such file meanwhile.
pub fn remove_temporaries_and(end: impl FnOnce()) {
    let mut names = temporaries();
    for name in names.drain(..) {
        let _ = std::fs::remove_file(name);
    }
    end();
}

/// Temporary name in the same directory.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".lrz-{}", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("a directory").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Run as root, `-f -o /dev/null` would otherwise replace the device.
    #[test]
    fn special_files_and_directories_are_never_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        let (file, to_file) = (directory.path().join("file"), directory.path().join("to file"));
        std::fs::write(&file, "precious").expect("written");
        std::os::unix::fs::symlink("file", &to_file).expect("a link");
        for path in [directory.path(), Path::new("/dev/null"), &link, &to_file] {
            for replace in [false, true] {
                assert!(Output::create(path, replace).is_err(), "{}", path.display());
            }
        }
        assert!(link.is_symlink() && !Path::new("/dev/null").is_file());
        assert!(to_file.is_symlink() && std::fs::read(&file).expect("there") == b"precious");
        assert_eq!(names(directory.path()), ["file", "null", "to file"]);
    }

    #[test]
    fn no_file_gets_a_temporary_name_after_all_were_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("new");
        let first = Output::create_named(&path, false).expect("created");
        assert_eq!(names(directory.path()), [format!(".new.lrz-{}", std::process::id())]);
        std::thread::scope(|scope| {
            remove_temporaries_and(|| {
                let second = scope.spawn(|| Output::create_named(&path, false).map(drop));
                std::thread::sleep(std::time::Duration::from_millis(100));
                assert!(!second.is_finished() && names(directory.path()).is_empty());
            });
        });
        drop(first);
    }

    #[test]
    fn file_gets_its_name_only_when_complete() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("new");
        let output = Output::create(&path, false).expect("created");
        output.file().write_all_at(b"half", 0).expect("written");
        drop(output);
        assert_eq!(names(directory.path()), [""; 0]);
        let output = Output::create(&path, false).expect("created");
        output.file().write_all_at(b"whole", 0).expect("written");
        assert_eq!(names(directory.path()), [""; 0]);
        output.finish().expect("finished");
        assert_eq!(std::fs::read(&path).expect("there"), b"whole");
        assert!(Output::create(&path, false).is_err());
        let output = Output::create(&path, true).expect("created");
        output.file().write_all_at(b"other", 0).expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"whole");
        output.finish().expect("finished");
        assert_eq!(std::fs::read(&path).expect("there"), b"other");
        assert_eq!(names(directory.path()), ["new"]);
        // A file created in the meantime is not replaced.
        std::fs::remove_file(&path).expect("removed");
        let output = Output::create(&path, false).expect("created");
        std::fs::write(&path, "mine").expect("written");
        assert!(output.finish().is_err());
        assert_eq!(std::fs::read(&path).expect("there"), b"mine");
        assert_eq!(names(directory.path()), ["new"]);
    }
}
