// SPDX-License-Identifier: GPL-2.0-only
//! CO-RE relocations. An object names the kernel types and members that it accesses, and the linker computes offsets
//! and sizes from the BTF of the kernel that runs.
//!
//! [`spec`] follows an access string through types, [`compat`] compares types, [`value`] computes the relocated
//! value, and [`patch`] writes it into the instruction.

mod compat;
mod patch;
mod spec;
mod value;

pub(crate) use compat::types_compatible;

use crate::btf::ext::BtfExt;
use crate::btf::{Btf, Type};
use crate::bytes::malformed;
use crate::elf::Elf;
use crate::functions::Code;
use crate::{Function, FunctionId, MemberAccess, MemberUse, ObjectError, Symbol};

/// Quantity that a relocation computes. The numbers are those of `enum bpf_core_relo_kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CoreKind {
    FieldByteOffset = 0,
    FieldByteSize = 1,
    FieldExists = 2,
    FieldSigned = 3,
    FieldLshift = 4,
    FieldRshift = 5,
    TypeIdLocal = 6,
    TypeIdTarget = 7,
    TypeExists = 8,
    TypeSize = 9,
    EnumvalExists = 10,
    EnumvalValue = 11,
    TypeMatches = 12,
}

impl CoreKind {
    fn new(number: u32) -> Option<CoreKind> {
        use CoreKind::*;
        const ALL: [CoreKind; 13] = [
            FieldByteOffset,
            FieldByteSize,
            FieldExists,
            FieldSigned,
            FieldLshift,
            FieldRshift,
            TypeIdLocal,
            TypeIdTarget,
            TypeExists,
            TypeSize,
            EnumvalExists,
            EnumvalValue,
            TypeMatches,
        ];
        ALL.get(number as usize).copied()
    }

    fn is_field(self) -> bool {
        (self as u32) <= CoreKind::FieldRshift as u32
    }

    /// What an instruction with this operation code does with the member of a relocation of a field.
    fn access(self, code: u8) -> MemberAccess {
        match (self, code & 7) {
            (CoreKind::FieldExists, _) => MemberAccess::Exists,
            (CoreKind::FieldByteOffset, patch::CLASS_LDX) => MemberAccess::Load,
            (CoreKind::FieldByteOffset, patch::CLASS_ST | patch::CLASS_STX) => MemberAccess::Store,
            (CoreKind::FieldByteOffset, _) => MemberAccess::Address,
            _ => MemberAccess::Shape,
        }
    }

    fn is_enumerator(self) -> bool {
        matches!(self, CoreKind::EnumvalExists | CoreKind::EnumvalValue)
    }
}

/// A CO-RE relocation of one instruction.
#[derive(Clone, Debug)]
pub(crate) struct CoreRelocation {
    pub function: FunctionId,
    pub slot: u32,
    /// Type in the object from which the access starts.
    pub type_id: u32,
    /// Access string as numbers: an array index, then the numbers of members or array elements.
    pub access: Vec<u32>,
    pub kind: CoreKind,
}

/// Largest number of elements of an access string; the kernel's own limit.
const MAX_ACCESS: usize = 64;

/// Finds the instruction of each relocation.
pub(crate) fn collect(elf: &Elf<'_>, code: &Code, ext: &BtfExt) -> Result<Vec<CoreRelocation>, ObjectError> {
    let mut all = Vec::with_capacity(ext.core.len());
    for at in &ext.core {
        // The instruction lies in unreachable code, see `Code::parse`.
        let Some((function, slot)) = code.at(elf, &at.section, at.offset) else { continue };
        let bad = |problem: String| malformed(&at.section, at.offset as usize, problem);
        let kind = CoreKind::new(at.record.kind)
            .ok_or_else(|| bad(format!("CO-RE relocation of unknown kind {}", at.record.kind)))?;
        let access: Result<Vec<u32>, _> = at.record.access.split(':').take(MAX_ACCESS + 1).map(str::parse).collect();
        let access = access.ok().filter(|access| access.len() <= MAX_ACCESS);
        let access = access.ok_or_else(|| bad(format!("bad CO-RE access string {:?}", at.record.access)))?;
        all.push(CoreRelocation { function, slot, type_id: at.record.type_id, access, kind });
    }
    Ok(all)
}

/// Resolves the relocations against the types of a kernel and patches the instructions. Returns the members that the
/// relocations name.
pub(crate) fn apply_all(
    relocations: &[CoreRelocation],
    local: &Btf,
    target: &Btf,
    functions: &mut [Function],
) -> Result<Vec<MemberUse>, ObjectError> {
    let mut members = Vec::new();
    for relocation in relocations {
        let function = &mut functions[relocation.function.0 as usize];
        let outcome = value::resolve(relocation, local, target);
        let present = outcome.as_ref().is_ok_and(|outcome| outcome.is_present(relocation.kind));
        let result = outcome.and_then(|outcome| patch::apply(function, relocation.slot, relocation.kind, outcome));
        if let Some((structure, path)) = value::member(relocation, local) {
            let access = relocation.kind.access(function.insns[relocation.slot as usize].code);
            let (function, slot) = (relocation.function, relocation.slot);
            let present = present && matches!(result, Ok(None));
            members.push(MemberUse { function, slot, structure, path, access, present });
        }
        let path = path_text(&relocation.access);
        match result {
            Ok(None) => {}
            Ok(Some(problem)) => {
                let subject = value::subject(relocation, local);
                let text = format!("{subject} {problem} (CO-RE access {path})");
                let function = &mut functions[relocation.function.0 as usize];
                function.symbols.insert(relocation.slot, Symbol::Poison(text));
            }
            Err(problem) => {
                let function = &functions[relocation.function.0 as usize];
                let root = type_text(local, relocation.type_id);
                let problem = format!("CO-RE access {path} of {root}: {problem}");
                return Err(malformed(&function.name, relocation.slot as usize * 8, problem));
            }
        }
    }
    Ok(members)
}

/// Formats an access string.
fn path_text(access: &[u32]) -> String {
    access.iter().map(u32::to_string).collect::<Vec<_>>().join(":")
}

/// Formats the name of a type as in C.
fn type_text(btf: &Btf, id: u32) -> String {
    let ty = btf.type_of(id);
    let name = if ty.name().is_empty() { "(anonymous)" } else { ty.name() };
    match ty {
        Type::Struct { .. } => format!("struct {name}"),
        Type::Union { .. } => format!("union {name}"),
        Type::Enum { .. } => format!("enum {name}"),
        Type::Fwd { union: false, .. } => format!("struct {name}"),
        Type::Fwd { union: true, .. } => format!("union {name}"),
        _ => name.to_string(),
    }
}

/// Strips the flavor from a name: everything from the last `___` that has other characters on both sides.
pub(crate) fn essential_name(name: &str) -> &str {
    let bytes = name.as_bytes();
    // `at` is the character before the three underscores, `at + 4` the one after them.
    let separator = |at: &usize| bytes[*at] != b'_' && bytes[at + 1..at + 4] == *b"___" && bytes[at + 4] != b'_';
    let last = bytes.len().checked_sub(5).and_then(|last| (0..=last).rev().find(separator));
    last.and_then(|at| name.get(..at + 1)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::essential_name;

    #[test]
    fn flavors_are_stripped_from_the_last_triple_underscore() {
        for (name, essential) in [
            ("task_struct", "task_struct"),
            ("task_struct___new", "task_struct"),
            ("scx_bpf_dsq_insert___v2", "scx_bpf_dsq_insert"),
            ("a___b___c", "a___b"),
            ("___x", "___x"),
            ("x___", "x___"),
            ("a____b", "a____b"),
            ("a__b", "a__b"),
            ("é___b", "é"),
            ("", ""),
        ] {
            assert_eq!(essential_name(name), essential, "{name}");
        }
    }
}
