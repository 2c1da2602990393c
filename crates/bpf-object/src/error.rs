// SPDX-License-Identifier: GPL-2.0-only
//! What can be wrong with an object.

/// Why an object was refused: what, where in the file, what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Not an ELF file for BPF, or cut short.
    #[error("not a BPF object: {0}")]
    Elf(String),
    /// A section's contents contradict its format.
    #[error("{section}, byte {offset}: {problem}")]
    Malformed {
        /// Section name.
        section: String,
        /// Byte in the section.
        offset: usize,
        /// What was found and what was expected.
        problem: String,
    },
    /// It holds no scheduler, or several.
    #[error("{0}")]
    NoScheduler(String),
    /// A reference to something that the kernel or the object does not have.
    #[error("{0}")]
    Unresolved(String),
}
