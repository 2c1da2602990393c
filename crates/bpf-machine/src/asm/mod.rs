// SPDX-License-Identifier: GPL-2.0-only
//! A small assembler for tests, benchmarks and experiments. It translates text in the notation that LLVM prints into a
//! [`LinkedObject`] and needs neither a compiler nor a kernel's types.
//!
//! One statement per line; `#` begins a comment. Declarations may be anywhere:
//!
//! ```text
//! map NAME KIND key BYTES value BYTES max ENTRIES     KIND as MapKind spells it
//! data NAME [read_only] HEX...                        a data section with these bytes
//! inner NAME INDEX NAME                               an inner map in a slot of an array of maps, both declared above
//! kfunc NAME [absent]
//! func NAME                                           the instructions up to the next one are its code
//! LABEL:
//! ```
//!
//! Instructions, where `r` registers work on 64 and `w` registers on 32 bits:
//!
//! ```text
//! r1 = 5    r1 = 0x123456789 ll    r1 = w2    r1 = -r1    r1 = (s8)r2    r1 = be16 r1    r1 = bswap64 r1
//! r1 += r2    -= *= /= s/= %= s%= |= &= ^= <<= >>= s>>=    r1 = addr_space_cast(r2, 0, 1)
//! r1 = map NAME    r1 = value NAME + 8    r1 = func NAME    r1 = kfunc NAME    r1 = variable NAME
//! r1 = *(u32 *)(r2 + 4)    probe r1 = *(s16 *)(r2 + 4)    *(u8 *)(r10 - 1) = 7
//! lock *(u64 *)(r1 + 0) += r2    r2 = atomic_fetch_or((u64 *)(r1 + 0), r2)    r2 = xchg_64(r1 + 0, r2)
//! r0 = cmpxchg_64(r1 + 0, r0, r2)    r1 = load_acquire((u8 *)(r2 + 0))    store_release((u8 *)(r1 + 0), r2)
//! if r1 s> r2 goto LABEL    if w1 & 4 goto LABEL    goto LABEL    gotol LABEL    may_goto LABEL
//! call helper 5    call kfunc NAME    call NAME    exit
//! insn 0x07 1 0 0 5         an instruction by its fields: code, dst, src, off, imm
//! poison TEXT               an instruction whose relocation failed
//! ```

mod parse;
mod statement;

use bpf_object::LinkedObject;

/// An error in a line of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct AsmError {
    /// Line number, from 1.
    pub line: u32,
    /// Description of the problem.
    pub problem: String,
}

/// Assembles a text. Each instruction's source line is its line in the text; `file` is the file name that faults
/// report. Functions, maps and kfuncs are numbered in the order of their declarations.
///
/// # Errors
/// The first line that is not a statement or that refers to a missing name.
pub fn assemble(file: &str, text: &str) -> Result<LinkedObject, AsmError> {
    parse::object(file, text)
}
