// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors, worded for the user of the command.

use std::io;

/// Error of reading or writing an archive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operating-system error: the attempted operation and the error itself, which is not repeated as a source
    /// because the message contains it.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// The file is not an lrzip archive.
    #[error("not an lrzip archive: {0}")]
    Foreign(String),
    /// A known but unsupported archive or option.
    #[error("{0}")]
    Unsupported(String),
    /// Invalid bytes in the archive.
    #[error("damaged archive, at byte {at}: {what}")]
    Damaged {
        /// Offset in the archive, in bytes.
        at: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// The archive was readable, but a checksum of its decompressed contents does not match the recorded one.
    #[error("damaged archive: the {0} of the unpacked data differs from the recorded one")]
    Checksum(&'static str),
    /// Verification of a new archive: its decompressed contents differ from the input.
    #[error("the archive differs from the input at byte {0}: has the input changed meanwhile?")]
    Differs(u64),
    /// The archive is encrypted and no password was given.
    #[error("the archive is encrypted: give its password with -e")]
    NeedsPassword,
    /// Decryption failed or gave invalid data.
    #[error("wrong password, or a damaged archive")]
    Password,
    /// The operation does not fit in the memory limit.
    #[error("not enough memory: {what} needs {needed} bytes")]
    Memory {
        /// Purpose of the memory.
        what: &'static str,
        /// Bytes required.
        needed: u64,
    },
    /// The output is longer than the caller's limit.
    #[error("the archive expands to more than {0} bytes")]
    TooLong(u64),
    /// The caller's sink or another stage stopped; the cause is reported elsewhere.
    #[error("stopped")]
    Stopped,
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds the attempted operation to an operating-system error.
pub trait Context<T> {
    /// Converts an error to an [`Error::Io`] that begins with `what`.
    ///
    /// # Errors
    /// The error itself, with its context.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Io(what(), error))
    }
}

pub(crate) fn damaged(at: u64, what: impl Into<String>) -> Error {
    Error::Damaged { at, what: what.into() }
}
