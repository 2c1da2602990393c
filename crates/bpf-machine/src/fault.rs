// SPDX-License-Identifier: GPL-2.0-only
//! Errors of programs. A fault is an error of the program; an error of the machine panics.

use crate::SourceLine;
use std::fmt;

/// A fault and where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Function in which it happened.
    pub function: String,
    /// Instruction slot in that function.
    pub insn: u32,
    /// Source file, line and its text, if the object carries them.
    pub source: Option<(String, u32, String)>,
    /// Own source line that led to the fault.
    pub own: SourceLine,
    /// The helper whose call faulted, if any.
    pub helper: Option<u32>,
}

/// Kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// Access through NULL or an address just above it.
    #[error("NULL pointer {access} of {size} bytes (address {addr:#x})")]
    Null {
        /// `load` or `store`.
        access: &'static str,
        /// Address of the access.
        addr: u64,
        /// Size of the access in bytes.
        size: u32,
    },
    /// Access outside of any object.
    #[error("{access} of {size} bytes at {addr:#x} is out of bounds ({nearby})")]
    OutOfBounds {
        /// `load` or `store`.
        access: &'static str,
        /// Address of the access.
        addr: u64,
        /// Size of the access in bytes.
        size: u32,
        /// Region, slot and offset, or "no object there".
        nearby: String,
    },
    /// Store to a read-only object.
    #[error("store of {size} bytes to read-only {region} at {addr:#x}")]
    ReadOnly {
        /// Address of the store.
        addr: u64,
        /// Size of the store in bytes.
        size: u32,
        /// Name of the region.
        region: String,
    },
    /// The instruction budget of the callback is exhausted.
    #[error("did not end within {0} instructions")]
    Budget(u64),
    /// Too many nested calls (the kernel allows 8 frames).
    #[error("more than {0} nested calls")]
    CallDepth(u32),
    /// An instruction with a failed relocation was executed.
    #[error("{0}")]
    Poison(String),
    /// A kfunc that this kernel lacks was called.
    #[error("kfunc {0} does not exist in this kernel")]
    MissingKfunc(String),
    /// A helper that does not exist or is not implemented was called.
    #[error("helper {0} is not available here")]
    MissingHelper(u32),
    /// A call that kernels do not allow in this type of program.
    #[error("{0}")]
    Refused(String),
    /// An invalid argument of a helper or kfunc, which the verifier would have rejected.
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
