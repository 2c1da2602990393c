// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random-access byte storage: files, and memory for tests and small jobs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// A source readable at any offset.
pub trait ReadAt: Send + Sync {
    /// Reads up to `buffer.len()` bytes at `offset`; returns 0 only at the end.
    ///
    /// # Errors
    /// Those of the operating system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Length in bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    fn length(&self) -> io::Result<u64>;

    /// Fills the buffer from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if fewer bytes exist, and those of the operating system.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buffer = &mut buffer[n..];
                    offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A store writable and readable at any offset.
pub trait Store: ReadAt {
    /// Writes all bytes at `offset`.
    ///
    /// # Errors
    /// Those of the operating system.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Sets the length; added bytes read as zeros.
    ///
    /// # Errors
    /// Those of the operating system.
    fn set_length(&self, length: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Store for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// An in-memory file.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Vec<u8>>);

impl Memory {
    /// Returns the contents.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ReadAt for Memory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|bytes| bytes.read_at(buffer, offset))
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.with(|bytes| bytes.len() as u64))
    }
}

impl Store for Memory {
    fn write_all_at(&self, new: &[u8], offset: u64) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let end = at.checked_add(new.len()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.with(|bytes| {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(new);
            Ok(())
        })
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.with(|bytes| bytes.resize(length, 0));
        Ok(())
    }
}
