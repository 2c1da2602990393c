// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong, in words for the person at the keyboard.

use std::io;

/// Why an archive could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused; the text says what was tried, and the message says why: it is no source besides.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// Not an archive of this family at all.
    #[error("not an lrzip archive: {0}")]
    Foreign(String),
    /// An archive, or a wish, that is known but not supported.
    #[error("{0}")]
    Unsupported(String),
    /// Bytes that no writer produces.
    #[error("damaged archive, at byte {at}: {what}")]
    Damaged {
        /// Offset in the archive, in bytes.
        at: u64,
        /// What was found, and what was expected.
        what: String,
    },
    /// Everything could be read, and what came out is not what went in.
    #[error("damaged archive: the {0} of what it holds differs from the recorded one")]
    Checksum(&'static str),
    /// What came out of an archive that was just written is not what is being packed.
    #[error("the archive and the input differ, from byte {0} of the input on: has the input changed meanwhile?")]
    Differs(u64),
    /// The archive is encrypted and no password was given.
    #[error("the archive is encrypted: it takes a password")]
    NeedsPassword,
    /// Decryption gave nonsense.
    #[error("wrong password, or a damaged archive")]
    Password,
    /// There is no way to do the work in so little memory.
    #[error("not enough memory: {what} takes {needed} bytes")]
    Memory {
        /// What the memory is for.
        what: &'static str,
        /// How much of it, in bytes.
        needed: u64,
    },
    /// More output than the caller is willing to take.
    #[error("the archive expands to more than {0} bytes")]
    TooLong(u64),
    /// The caller's sink, or another stage, gave up; the cause is reported elsewhere.
    #[error("stopped")]
    Stopped,
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// Names what was tried when an operation of the system fails.
pub trait Context<T> {
    /// Turns the failure into an [`Error::Io`] that begins with `what`.
    ///
    /// # Errors
    /// The failure itself, with its context.
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
