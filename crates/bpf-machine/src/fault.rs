// SPDX-License-Identifier: GPL-2.0-only
//! What a program can do wrong. A fault is the program's fault; our own mistakes panic.

use crate::SourceLine;
use std::fmt;

/// A fault and where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// Function in which it happened.
    pub function: String,
    /// Instruction slot in that function.
    pub insn: u32,
    /// Source file, line and its text, if the object carries them.
    pub source: Option<(String, u32, String)>,
    /// Line of the policy's own source that led there.
    pub own: SourceLine,
    /// The helper that was being called, if one was.
    pub helper: Option<u32>,
}

/// What a program did wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// Access through NULL or an address just above it.
    #[error("NULL pointer {access} of {size} bytes (address {addr:#x})")]
    Null {
        /// `load` or `store`.
        access: &'static str,
        /// Address used.
        addr: u64,
        /// Bytes.
        size: u32,
    },
    /// Access outside of any object.
    #[error("{access} of {size} bytes at {addr:#x} is out of bounds ({nearby})")]
    OutOfBounds {
        /// `load` or `store`.
        access: &'static str,
        /// Address used.
        addr: u64,
        /// Bytes.
        size: u32,
        /// The region, slot and offset, or "no object there".
        nearby: String,
    },
    /// Store to a read-only object.
    #[error("store of {size} bytes to read-only {region} at {addr:#x}")]
    ReadOnly {
        /// Address used.
        addr: u64,
        /// Bytes.
        size: u32,
        /// Name of the region.
        region: String,
    },
    /// The instruction budget of the callback is used up.
    #[error("did not end within {0} instructions")]
    Budget(u64),
    /// Too many nested calls (the kernel allows 8 frames).
    #[error("more than {0} nested calls")]
    CallDepth(u32),
    /// A relocation that could not be resolved was reached.
    #[error("{0}")]
    Poison(String),
    /// A kfunc that this kernel lacks was called.
    #[error("kfunc {0} does not exist in this kernel")]
    MissingKfunc(String),
    /// A helper that does not exist or is not available here.
    #[error("helper {0} is not available here")]
    MissingHelper(u32),
    /// A call that kernels refuse to programs of this kind.
    #[error("{0}")]
    Refused(String),
    /// An argument that a helper or kfunc cannot take; the verifier would have refused the program.
    #[error("{0}")]
    BadArgument(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}+{}", self.kind, self.function, self.insn)?;
        if let Some((file, line, text)) = &self.source {
            write!(f, " ({file}:{line}: {})", text.trim())?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
