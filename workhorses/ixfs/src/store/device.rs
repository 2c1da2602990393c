// SPDX-License-Identifier: MIT OR Apache-2.0
//! The block device under a store. Everything the store does to the disk goes through [`Device`].

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that can be read, written and flushed.
///
/// A write that returned may be lost, in whole or in any of its 512-byte sectors, until the next [`flush`](Self::flush)
/// has returned.
pub trait Device: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `out` from `offset` on.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes`.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all writes before the call are on stable storage.
    fn flush(&self) -> io::Result<()>;
}

/// A file or block device.
pub struct FileDevice {
    file: File,
    len: u64,
}

impl FileDevice {
    /// Opens a store for writing and locks it, so that no two servers use it.
    pub fn open(path: &Path) -> io::Result<FileDevice> {
        let file = File::options().read(true).write(true).open(path)?;
        lock(&file)?;
        Self::new(file)
    }

    /// Opens a store that is only read.
    pub fn open_read_only(path: &Path) -> io::Result<FileDevice> {
        let file = File::open(path)?;
        lock(&file)?;
        Self::new(file)
    }

    /// Opens a store that is only read while a server may be writing to it: for what does not change.
    pub fn open_shared(path: &Path) -> io::Result<FileDevice> {
        Self::new(File::open(path)?)
    }

    /// Creates a file of `len` bytes that must not exist. Only its owner may read it: it contains the files of all users.
    pub fn create(path: &Path, len: u64) -> io::Result<FileDevice> {
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        lock(&file)?;
        file.set_len(len)?;
        Self::new(file)
    }

    fn new(mut file: File) -> io::Result<FileDevice> {
        // The metadata of a block device reports a length of 0, so seek to the end.
        let len = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(FileDevice { file, len })
    }
}

fn lock(file: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => {
            io::Error::new(io::ErrorKind::WouldBlock, "another process has the store open; stop that process first")
        }
        other => other.into(),
    })
}

impl Device for FileDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
