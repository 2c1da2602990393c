// SPDX-License-Identifier: GPL-2.0-only
//! ELF and BTF in; relocated programs, maps and struct_ops tables out. Parsing only: nothing here executes, and the
//! kernel that an object is relocated against is whatever BTF the caller brings.
//!
//! Two steps: [`Object::parse`] reads the bytes and knows nothing of a kernel; [`Object::link`] resolves CO-RE
//! relocations, kconfig and ksym externs against a [`Target`] and gives a [`LinkedObject`].

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
    Function, FunctionId, InlinedCall, Insn, KfuncRef, LineInfo, LinkedObject, MapDef, MapId, MapKind, MemberValue,
    Program, ProgramKind, StructOps, StructOpsMember, Symbol, Target, Variable,
};
pub use needs::{Need, NeedKind};
pub use parsed::Object;
