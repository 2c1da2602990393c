// SPDX-License-Identifier: GPL-2.0-only
//! Computes the value of a CO-RE relocation.

use super::compat::{same_kind, types_compatible, types_match};
use super::spec::{Spec, local_spec, target_spec};
use super::{CoreKind, CoreRelocation, essential_name, type_text};
use crate::btf::{Btf, Member, Type};

/// Result of a relocation.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The value that the compiler wrote into the instruction, for kinds for which the instruction must hold it.
    pub original: Option<u64>,
    /// The value in the kernel, or the reason that the kernel has none.
    pub value: Result<u64, String>,
    /// Size of the field in the object and in the kernel if they differ, for instructions that access it.
    pub access: Option<AccessSizes>,
}

impl Outcome {
    /// Whether the kernel has what a relocation of this kind names.
    pub fn is_present(&self, kind: CoreKind) -> bool {
        match self.value {
            Ok(value) => kind != CoreKind::FieldExists || value != 0,
            Err(_) => false,
        }
    }
}

/// Sizes of a field that has another size in the kernel than in the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AccessSizes {
    pub original: u64,
    pub new: u64,
    /// Whether the instruction can access the kernel's size instead: pointers and unsigned integers.
    pub adjustable: bool,
}

/// Resolves one relocation. An error means that the object is malformed; a missing type or member of the kernel is
/// part of the outcome.
pub(super) fn resolve(relocation: &CoreRelocation, local: &Btf, target: &Btf) -> Result<Outcome, String> {
    let root = relocation.type_id;
    if root as usize >= local.len() {
        return Err(format!("type {root} of {}", local.len()));
    }
    let question = Question { relocation, local, target };
    match relocation.kind {
        CoreKind::TypeIdLocal => Ok(Outcome { original: None, value: Ok(u64::from(root)), access: None }),
        kind if kind.is_field() => question.field(),
        kind if kind.is_enumerator() => question.enumerator(),
        _ => question.whole_type(),
    }
}

/// The struct from which a relocation of a field starts, and the path of the member, both without flavors. `None` for
/// other relocations, and for fields of types that are no structs.
pub(super) fn member(relocation: &CoreRelocation, local: &Btf) -> Option<(String, String)> {
    if !relocation.kind.is_field() || !local.resolved(relocation.type_id).is_composite() {
        return None;
    }
    let spec = local_spec(local, relocation.type_id, &relocation.access).ok()?;
    let names: Vec<&str> = spec.names(local).map(essential_name).collect();
    let structure = essential_name(local.resolved(relocation.type_id).name()).to_owned();
    (!names.is_empty()).then(|| (structure, names.join(".")))
}

/// Name of the relocated type or member, such as `struct task_struct.scx.slice`.
pub(super) fn subject(relocation: &CoreRelocation, local: &Btf) -> String {
    let root = type_text(local, relocation.type_id);
    let part = if relocation.kind.is_field() {
        local_spec(local, relocation.type_id, &relocation.access).map(|spec| spec.text(local)).unwrap_or_default()
    } else {
        let index = relocation.access.first().map_or(usize::MAX, |index| *index as usize);
        let value = local.resolved(relocation.type_id).enumerators().get(index);
        value.map(|value| value.name.clone()).unwrap_or_default()
    };
    let dot = if part.is_empty() || part.starts_with('[') { "" } else { "." };
    format!("{root}{dot}{part}")
}

struct Question<'a> {
    relocation: &'a CoreRelocation,
    local: &'a Btf,
    target: &'a Btf,
}

impl Question<'_> {
    /// Types of the kernel with the name and kind of the root type.
    fn candidates(&self) -> impl Iterator<Item = u32> {
        let root = self.local.type_of(self.relocation.type_id);
        let target = self.target;
        target.find_all(essential_name(root.name())).filter(move |id| same_kind(root, target.type_of(*id)))
    }

    /// Describes why a relocation cannot be resolved: the first of `reasons`, or that the kernel has no type of this
    /// name.
    fn missing(&self, reasons: &[String]) -> String {
        let root = type_text(self.local, self.relocation.type_id);
        let none = || format!("it has no {}", essential_name(&root));
        format!("is not in this kernel: {}", reasons.first().cloned().unwrap_or_else(none))
    }

    fn field(&self) -> Result<Outcome, String> {
        let kind = self.relocation.kind;
        let spec = local_spec(self.local, self.relocation.type_id, &self.relocation.access)?;
        let here = field_value(self.local, &spec, kind)?;
        let mut reasons = Vec::new();
        let mut answers: Vec<Field> = Vec::new();
        for candidate in self.candidates() {
            match target_spec(self.local, &spec, self.target, candidate) {
                Ok(found) => match field_value(self.target, &found, kind) {
                    Ok(answer) => answers.push(answer),
                    Err(reason) => reasons.push(reason),
                },
                Err(reason) => reasons.push(reason),
            }
        }
        let value = match answers.first() {
            Some(first) if answers.iter().all(|answer| answer.value == first.value) => Ok(first.value),
            Some(_) => Err(self.missing(&["several types of this name disagree".to_string()])),
            None if kind == CoreKind::FieldExists => Ok(0),
            None => Err(self.missing(&reasons)),
        };
        let access = answers.first().and_then(|there| self.access_sizes(&here, there));
        Ok(Outcome { original: (!here.bit_field).then_some(here.value), value, access })
    }

    fn access_sizes(&self, here: &Field, there: &Field) -> Option<AccessSizes> {
        let ((of_here, original), (of_there, new)) = (here.accessed?, there.accessed?);
        let adjustable = match (self.local.resolved(of_here), self.target.resolved(of_there)) {
            (Type::Ptr { .. }, Type::Ptr { .. }) => true,
            (a @ Type::Int { .. }, b @ Type::Int { .. }) => !a.is_signed() && !b.is_signed(),
            _ => false,
        };
        (original != new).then_some(AccessSizes { original, new, adjustable })
    }

    fn enumerator(&self) -> Result<Outcome, String> {
        let index = self.relocation.access.first().map_or(usize::MAX, |index| *index as usize);
        let values = self.local.resolved(self.relocation.type_id).enumerators();
        let wanted = values.get(index).ok_or_else(|| format!("enumerator {index} of {}", values.len()))?;
        let name = essential_name(&wanted.name);
        let value_in = |id: u32| {
            let values = self.target.resolved(id).enumerators();
            values.iter().find(|value| essential_name(&value.name) == name).map(|value| value.value)
        };
        let found = self.candidates().find_map(value_in);
        let value = match (self.relocation.kind, found) {
            (CoreKind::EnumvalExists, found) => Ok(u64::from(found.is_some())),
            (_, Some(value)) => Ok(value),
            (_, None) => {
                let reason = self.candidates().next().map(|id| format!("{} has no {name}", type_text(self.target, id)));
                Err(self.missing(reason.as_slice()))
            }
        };
        Ok(Outcome { original: None, value, access: None })
    }

    /// Resolves a relocation of a whole type: 0 if the kernel has no such type.
    fn whole_type(&self) -> Result<Outcome, String> {
        let root = self.relocation.type_id;
        let same = |id: &u32| match self.relocation.kind {
            CoreKind::TypeMatches => types_match(self.local, root, self.target, *id),
            _ => types_compatible(self.local, root, self.target, *id),
        };
        let found = self.candidates().find(same);
        let value = match (self.relocation.kind, found) {
            (_, None) => 0,
            (CoreKind::TypeIdTarget, Some(id)) => u64::from(id),
            (CoreKind::TypeSize, Some(id)) => self.target.size_of(id).unwrap_or(0),
            (_, Some(_)) => 1,
        };
        Ok(Outcome { original: None, value: Ok(value), access: None })
    }
}

/// Value of a relocation of a field.
struct Field {
    value: u64,
    bit_field: bool,
    /// Type and size of an access at the field's offset; `None` for bit-fields.
    accessed: Option<(u32, u64)>,
}

/// Computes a relocation of the field at the end of a path.
fn field_value(btf: &Btf, spec: &Spec, kind: CoreKind) -> Result<Field, String> {
    if kind == CoreKind::FieldExists {
        return Ok(Field { value: 1, bit_field: false, accessed: None });
    }
    let Some(member) = spec.last_member(btf) else {
        let element = spec.last_element().ok_or("an empty path")?;
        return element_value(btf, element, spec.bit_offset, kind);
    };
    let load = Load::of(btf, member, spec.bit_offset)?;
    let end_bit = spec.bit_offset.saturating_add(load.bits) - load.byte_offset * 8;
    let value = match kind {
        CoreKind::FieldByteOffset => load.byte_offset,
        CoreKind::FieldByteSize => load.size,
        CoreKind::FieldSigned => u64::from(btf.resolved(member.type_id).is_signed()),
        // Shift counts that isolate the field after a load into a 64-bit register: left, then right.
        CoreKind::FieldLshift => 64u64.saturating_sub(end_bit),
        _ => 64u64.saturating_sub(load.bits),
    };
    let accessed = (!load.bit_field).then(|| accessed(btf, member.type_id)).flatten();
    Ok(Field { value, bit_field: load.bit_field, accessed })
}

fn element_value(btf: &Btf, element: u32, bit_offset: u64, kind: CoreKind) -> Result<Field, String> {
    let value = match kind {
        CoreKind::FieldByteOffset => bit_offset / 8,
        CoreKind::FieldByteSize => btf.size_of(element).ok_or("an element without size")?,
        _ => return Err("array elements have an offset and a size only".to_string()),
    };
    Ok(Field { value, bit_field: false, accessed: accessed(btf, element) })
}

/// Type and size of an access at the offset of a field: the field itself, or the first element of an array.
fn accessed(btf: &Btf, id: u32) -> Option<(u32, u64)> {
    let mut id = btf.resolve(id);
    for _ in 0..32 {
        match btf.type_of(id) {
            Type::Array { element, .. } => id = btf.resolve(*element),
            _ => return Some((id, btf.size_of(id)?)),
        }
    }
    None
}

/// The aligned bytes from which a field is loaded.
struct Load {
    byte_offset: u64,
    size: u64,
    /// Width of the field in bits.
    bits: u64,
    bit_field: bool,
}

impl Load {
    fn of(btf: &Btf, member: &Member, bit_offset: u64) -> Result<Load, String> {
        let size = btf.size_of(member.type_id).ok_or("a field without size")?;
        if member.bit_size == 0 {
            let bits = size.checked_mul(8).ok_or("a field of more than 2^61 bytes")?;
            return Ok(Load { byte_offset: bit_offset / 8, size, bits, bit_field: false });
        }
        let bits = u64::from(member.bit_size);
        let mut size = size;
        while size.is_power_of_two() && size <= 8 {
            let byte_offset = bit_offset / 8 / size * size;
            if bit_offset + bits <= (byte_offset + size) * 8 {
                return Ok(Load { byte_offset, size, bits, bit_field: true });
            }
            size *= 2;
        }
        Err("a bit-field that no aligned load of 8 bytes covers".to_string())
    }
}
