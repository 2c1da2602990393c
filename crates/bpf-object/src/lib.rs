// SPDX-License-Identifier: GPL-2.0-only
//! Parser and linker for BPF objects. It reads ELF and BTF and produces relocated programs, maps and struct_ops
//! tables. Nothing here executes code, and the caller supplies the BTF of the kernel to link against.
//!
//! [`Object::parse`] reads a file without knowledge of a kernel. [`Object::link`] resolves CO-RE relocations, kconfig
//! values and ksym externs against a [`Target`] and returns a [`LinkedObject`].

pub mod btf;
mod bytes;
mod core_reloc;
mod dwarf;
mod elf;
mod error;
mod externs;
mod functions;
mod linked;
mod maps;
mod needs;
mod parsed;
mod relocate;
mod sections;
mod struct_ops;

pub use error::ObjectError;
pub use externs::ConfigExtern;
pub use linked::{
    Function, FunctionId, InlinedCall, Insn, KfuncRef, LineInfo, LinkedObject, MapDef, MapId, MapKind, MemberAccess,
    MemberUse, MemberValue, Program, ProgramKind, StructOps, StructOpsMember, Symbol, Target, Variable,
};
pub use needs::{Need, NeedKind};
pub use parsed::Object;
