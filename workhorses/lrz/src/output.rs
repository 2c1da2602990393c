// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that has its name only when it is complete.
//!
//! Until then it has none at all: whatever ends the program, also a signal that it cannot catch, leaves nothing. File
//! systems that know no files without names get a temporary one, which [`remove_temporaries`] takes away.

use crate::error::{Context, Error, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open, renameat, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file in the making.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
    replace: bool,
    /// Its temporary name, where it needs one.
    temporary: Option<PathBuf>,
}

impl Output {
    /// A file that will be called `path`; one that is there already is replaced if `replace`.
    ///
    /// # Errors
    /// [`Error::Io`] if it is there and is not to be replaced, if it is a device or anything else but a file, and for what
    /// the system reports.
    pub fn create(path: &Path, replace: bool) -> Result<Output> {
        Output::new(path, replace, false)
    }

    /// The same, with a temporary name at once.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create_named(path: &Path, replace: bool) -> Result<Output> {
        Output::new(path, replace, true)
    }

    fn new(path: &Path, replace: bool, named: bool) -> Result<Output> {
        if !replace && path.symlink_metadata().is_ok() {
            let what = format!("{}, which only -f replaces", path.display());
            return Err(Error::Io(what, io::ErrorKind::AlreadyExists.into()));
        }
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            let what = format!("{}, which is no file and is not replaced: write to standard output", path.display());
            return Err(Error::Io(what, io::ErrorKind::InvalidInput.into()));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let without_name = if named { None } else { open(folder, flags, Mode::from_raw_mode(0o600)).ok() };
        let (file, temporary) = match without_name {
            Some(file) => (File::from(file), None),
            None => {
                let name = beside(path);
                // Known before it is there: a signal in between removes it.
                temporaries().push(name.clone());
                let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&name);
                (file.context(|| format!("creating {}", name.display()))?, Some(name))
            }
        };
        Ok(Output { file, path: path.to_owned(), replace, temporary })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, when all of it is on the disk.
    ///
    /// # Errors
    /// What the system reports; then nothing has the name that did not have it before.
    pub fn finish(mut self) -> Result<()> {
        let name = || format!("writing {}", self.path.display());
        self.file.sync_all().context(name)?;
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                match linkat(CWD, &own, CWD, &self.path, AtFlags::SYMLINK_FOLLOW) {
                    Ok(()) => return Ok(()),
                    Err(error) if !self.replace || error != rustix::io::Errno::EXIST => {
                        return Err(io::Error::from(error)).context(name);
                    }
                    // Only a rename replaces, and only what has a name can be renamed.
                    Err(_) => {
                        let temporary = beside(&self.path);
                        temporaries().push(temporary.clone());
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
            // A link does not replace what appeared meanwhile.
            linkat(CWD, &temporary, CWD, &self.path, AtFlags::empty())
        };
        if !self.replace || renamed.is_err() {
            let _ = unlinkat(CWD, &temporary, AtFlags::empty());
        }
        temporaries().retain(|known| *known != temporary);
        renamed.map_err(io::Error::from).context(name)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = std::fs::remove_file(temporary);
            temporaries().retain(|known| known != temporary);
        }
    }
}

/// Temporary names that files have right now.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files that have only a temporary name: for a program that a signal ends.
pub fn remove_temporaries() {
    for name in temporaries().drain(..) {
        let _ = std::fs::remove_file(name);
    }
}

/// A name for the time being, in the same folder.
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

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// As root, -f -o /dev/null would otherwise leave the machine without it.
    #[test]
    fn what_is_no_file_is_never_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        for path in [folder.path(), Path::new("/dev/null"), &link] {
            for replace in [false, true] {
                assert!(Output::create(path, replace).is_err(), "{}", path.display());
            }
        }
        assert!(link.is_symlink() && !Path::new("/dev/null").is_file());
        assert_eq!(names(folder.path()), ["null"]);
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        let output = Output::create(&path, false).expect("created");
        output.file().write_all_at(b"half", 0).expect("written");
        drop(output);
        assert_eq!(names(folder.path()), [""; 0]);
        let output = Output::create(&path, false).expect("created");
        output.file().write_all_at(b"whole", 0).expect("written");
        assert_eq!(names(folder.path()), [""; 0]);
        output.finish().expect("finished");
        assert_eq!(std::fs::read(&path).expect("there"), b"whole");
        assert!(Output::create(&path, false).is_err());
        let output = Output::create(&path, true).expect("created");
        output.file().write_all_at(b"other", 0).expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"whole");
        output.finish().expect("finished");
        assert_eq!(std::fs::read(&path).expect("there"), b"other");
        assert_eq!(names(folder.path()), ["new"]);
        // What appeared meanwhile is not replaced unasked.
        std::fs::remove_file(&path).expect("removed");
        let output = Output::create(&path, false).expect("created");
        std::fs::write(&path, "mine").expect("written");
        assert!(output.finish().is_err());
        assert_eq!(std::fs::read(&path).expect("there"), b"mine");
        assert_eq!(names(folder.path()), ["new"]);
    }
}
