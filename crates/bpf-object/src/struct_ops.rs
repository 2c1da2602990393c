// SPDX-License-Identifier: GPL-2.0-only
//! struct_ops variables: tables of callbacks and settings, which the kernel reads member by member.

use crate::btf::{Btf, Member, Type};
use crate::bytes::malformed;
use crate::core_reloc::essential_name;
use crate::elf::{Elf, Place, R_BPF_64_ABS64, SymbolKind};
use crate::functions::Code;
use crate::sections::{Placed, placed_variables};
use crate::{FunctionId, MemberValue, ObjectError, ProgramKind, StructOps, StructOpsMember};
use std::collections::BTreeMap;

/// Sections that hold struct_ops variables. Those with `.link` are attached through a link, those with `?` are not
/// loaded by default.
const SECTIONS: [&str; 4] = [".struct_ops", ".struct_ops.link", "?.struct_ops", "?.struct_ops.link"];

/// Reads all struct_ops variables.
pub(crate) fn parse(elf: &Elf<'_>, btf: &Btf, code: &Code) -> Result<Vec<StructOps>, ObjectError> {
    let mut all = Vec::new();
    for (index, section) in elf.sections.iter().enumerate() {
        if !SECTIONS.contains(&section.name.as_ref()) || section.size == 0 {
            continue;
        }
        let mut pointers = pointers(elf, code, index)?;
        for variable in placed_variables(elf, btf, index)? {
            all.push(Table { btf, section: &section.name, data: section.data }.read(&variable, &mut pointers)?);
        }
        if let Some((offset, _)) = pointers.first_key_value() {
            return Err(malformed(
                &section.name,
                *offset as usize,
                "a function address that is not in a member of a struct_ops variable",
            ));
        }
    }
    Ok(all)
}

/// Functions by the section offset that holds their address.
fn pointers(elf: &Elf<'_>, code: &Code, index: usize) -> Result<BTreeMap<u64, FunctionId>, ObjectError> {
    let section = &elf.sections[index];
    let mut pointers = BTreeMap::new();
    for relocation in elf.relocations(index) {
        let symbol = &elf.symbols[relocation.symbol];
        let at = usize::try_from(relocation.offset).unwrap_or(usize::MAX);
        let bad = |problem: &str| malformed(&section.name, at, format!("{}: {problem}", symbol.name));
        let stored = at
            .checked_add(8)
            .and_then(|end| section.data.get(at..end))
            .ok_or_else(|| bad("the relocation lies outside the section"))?;
        let stored = u64::from_le_bytes(stored.try_into().expect("8 bytes"));
        let addend = if symbol.kind == SymbolKind::Section { stored } else { 0 };
        let Place::Section(target) = symbol.place else {
            return Err(bad("a member can only hold a function that the object defines"));
        };
        let function = code.starting_at(target, symbol.value.wrapping_add(addend));
        let function = function.filter(|_| relocation.kind == R_BPF_64_ABS64);
        let function = function.ok_or_else(|| bad("a member can hold the address of a function only"))?;
        let is_op = |kind: &ProgramKind| matches!(kind, ProgramKind::StructOps { .. });
        if !code.programs.iter().any(|program| program.function == function && is_op(&program.kind)) {
            return Err(bad("the function of a member must be in a section struct_ops/… or struct_ops.s/…"));
        }
        pointers.insert(relocation.offset, function);
    }
    Ok(pointers)
}

/// A section with struct_ops variables.
struct Table<'a> {
    btf: &'a Btf,
    section: &'a str,
    data: &'a [u8],
}

impl Table<'_> {
    /// Reads a variable and removes its functions from `pointers`.
    fn read(&self, variable: &Placed, pointers: &mut BTreeMap<u64, FunctionId>) -> Result<StructOps, ObjectError> {
        let ty = self.btf.resolved(variable.type_id);
        let start = variable.offset as usize;
        if !matches!(ty, Type::Struct { .. }) {
            return Err(malformed(self.section, start, format!("{}: a struct expected", variable.name)));
        }
        let mut members = Vec::new();
        for member in ty.members() {
            let at = u64::from(variable.offset) + u64::from(member.bit_offset / 8);
            let value = match pointers.remove(&at) {
                Some(function) => Some(MemberValue::Function(function)),
                None => self.value(member, at as usize).map_err(|problem| {
                    malformed(self.section, at as usize, format!("{}.{}: {problem}", variable.name, member.name))
                })?,
            };
            members.extend(value.map(|value| StructOpsMember { name: member.name.clone(), value }));
        }
        let type_name = essential_name(ty.name()).to_string();
        Ok(StructOps { name: variable.name.clone(), type_name, members })
    }

    /// Value of a member without a relocation; `None` if it is zero.
    fn value(&self, member: &Member, at: usize) -> Result<Option<MemberValue>, String> {
        let size = self.btf.size_of(member.type_id).and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or("the size of its type is unknown")?;
        let bytes = at.checked_add(size).and_then(|end| self.data.get(at..end)).ok_or("exceeds the section")?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        match self.btf.resolved(member.type_id) {
            _ if member.bit_size != 0 => Err("bit-fields are not supported in struct_ops".to_string()),
            Type::Int { .. } | Type::Enum { .. } if size <= 8 => {
                let mut number = [0; 8];
                number[..size].copy_from_slice(bytes);
                Ok(Some(MemberValue::Number(u64::from_le_bytes(number))))
            }
            Type::Array { .. } => Ok(Some(MemberValue::Bytes(bytes.to_vec()))),
            Type::Ptr { .. } => Err("a pointer that is not a function must be null".to_string()),
            other => Err(format!("members of kind {:?} must be zero", other.kind())),
        }
    }
}
