// SPDX-License-Identifier: GPL-2.0-only
//! Errors of parsing and linking.

/// Reason that an object was rejected: the problem, its position in the file, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The file is not an ELF file for BPF, or is truncated.
    #[error("not a BPF object: {0}")]
    Elf(String),
    /// The contents of a section contradict its format.
    #[error("{section}, byte {offset}: {problem}")]
    Malformed {
        /// Section name.
        section: String,
        /// Offset from the start of the section, in bytes.
        offset: usize,
        /// What was found and what was expected.
        problem: String,
    },
    /// The object holds no scheduler, or several.
    #[error("{0}")]
    NoScheduler(String),
    /// The object refers to a name that neither the kernel nor the object defines.
    #[error("{0}")]
    Unresolved(String),
}
