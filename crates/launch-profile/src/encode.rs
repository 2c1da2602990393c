// SPDX-License-Identifier: GPL-2.0-only
//! Encoding of values as the bytes of a C variable, by its BTF type.

use crate::{Constant, near, spread};
use bpf_object::btf::{Btf, Type};
use ids::CpuSet;

/// Writes `constant` to the beginning of `bytes`, which hold a variable of this type. If an array is longer than the
/// constant, its remaining elements keep their values.
pub(crate) fn encode(btf: &Btf, type_id: u32, constant: &Constant, bytes: &mut [u8]) -> Result<(), String> {
    match (btf.resolved(type_id), constant) {
        (Type::Int { size, encoding, .. }, Constant::Bool(value)) if encoding.bool => {
            write(i128::from(*value), *size, bytes)
        }
        (Type::Int { encoding, .. }, _) if encoding.bool => Err(mismatch(btf, type_id, "true or false", constant)),
        (Type::Int { size, encoding, .. }, Constant::Integer(value)) => {
            check_range(btf, type_id, *size, encoding.signed, *value)?;
            write(*value, *size, bytes)
        }
        (Type::Enum { size, signed, .. }, Constant::Integer(value)) => {
            check_range(btf, type_id, *size, *signed, *value)?;
            write(*value, *size, bytes)
        }
        (Type::Int { .. } | Type::Enum { .. }, _) if !matches!(constant, Constant::Mask(_)) => {
            Err(mismatch(btf, type_id, "a number", constant))
        }
        (Type::Array { element, .. }, Constant::Array(values)) => {
            let size = btf.size_of(*element).filter(|size| *size > 0 && *size <= bytes.len() as u64);
            let size = size.ok_or_else(|| unusable(btf, type_id))? as usize;
            // The room counts, not the declared length: the profile may have resized the array, and the section may
            // be shorter than its BTF says.
            let room = bytes.len() / size;
            if values.len() > room {
                let name = type_name(btf, type_id);
                return Err(format!(
                    "{} values do not fit: the variable is `{name}` with room for {room}",
                    values.len()
                ));
            }
            for (value, slot) in values.iter().zip(bytes.chunks_exact_mut(size)) {
                encode(btf, *element, value, slot)?;
            }
            Ok(())
        }
        (Type::Array { element, .. }, Constant::Members(_)) if is_structure(btf, *element) => {
            let count = spread::entries(btf, *element, constant)?;
            let count = count.ok_or_else(|| mismatch(btf, type_id, "an array, or members with an array", constant))?;
            let all = (0..count).map(|index| spread::entry(btf, *element, constant, index));
            encode(btf, type_id, &Constant::Array(all.collect::<Result<_, _>>()?), bytes)
        }
        (Type::Array { element, .. }, Constant::Text(text)) if btf.size_of(*element) == Some(1) => {
            if text.len() >= bytes.len() {
                return Err(format!("{text:?} and its NUL do not fit into {} bytes", bytes.len()));
            }
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            bytes[text.len()..].fill(0);
            Ok(())
        }
        (Type::Array { .. } | Type::Int { .. }, Constant::Mask(cpus)) => mask(cpus, bytes),
        (Type::Array { .. }, _) => Err(mismatch(btf, type_id, "an array", constant)),
        (Type::Struct { .. } | Type::Union { .. }, Constant::Members(members)) => {
            let id = btf.resolve(type_id);
            for (name, value) in members {
                let known = btf.members(id).iter().map(|member| member.name.as_str());
                let member = btf.member(id, name).filter(|member| member.member.bit_size == 0);
                let what = format!("member of `{}`", type_name(btf, type_id));
                let member = member.ok_or_else(|| near::unknown(&what, name, known))?;
                let (begin, type_id) = (member.byte_offset() as usize, member.member.type_id);
                let size = btf.size_of(type_id).ok_or_else(|| unusable(btf, type_id))? as usize;
                let place = bytes.get_mut(begin..begin.saturating_add(size));
                let place = place.ok_or_else(|| format!("`{name}` is outside its structure"))?;
                encode(btf, type_id, value, place).map_err(|problem| format!("`{name}`: {problem}"))?;
            }
            Ok(())
        }
        (Type::Struct { .. } | Type::Union { .. }, _) => Err(mismatch(btf, type_id, "members by name", constant)),
        _ => Err(unusable(btf, type_id)),
    }
}

fn is_structure(btf: &Btf, type_id: u32) -> bool {
    matches!(btf.resolved(type_id), Type::Struct { .. } | Type::Union { .. })
}

/// Sets the bits of `cpus`. As memory is little-endian, masks of bytes and of words have the same encoding.
fn mask(cpus: &CpuSet, bytes: &mut [u8]) -> Result<(), String> {
    if let Some(cpu) = cpus.iter().find(|cpu| cpu.index() / 8 >= bytes.len()) {
        return Err(format!("CPU {cpu} does not fit into a mask of {} bytes", bytes.len()));
    }
    bytes.fill(0);
    cpus.iter().for_each(|cpu| bytes[cpu.index() / 8] |= 1 << (cpu.index() % 8));
    Ok(())
}

fn write(value: i128, size: u32, bytes: &mut [u8]) -> Result<(), String> {
    let size = size as usize;
    let Some(bytes) = bytes.get_mut(..size).filter(|_| size <= 16) else {
        return Err(format!("the object has less than the {size} bytes that its BTF declares"));
    };
    bytes.copy_from_slice(&value.to_le_bytes()[..size]);
    Ok(())
}

fn check_range(btf: &Btf, type_id: u32, size: u32, signed: bool, value: i128) -> Result<(), String> {
    let bits = size.clamp(1, 8) * 8;
    let (low, high) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(format!("{value} does not fit: the variable is `{}` ({low} to {high})", type_name(btf, type_id)))
}

fn mismatch(btf: &Btf, type_id: u32, expected: &str, found: &Constant) -> String {
    let found = match found {
        Constant::Integer(value) => format!("{value}"),
        Constant::Bool(value) => format!("{value}"),
        Constant::Array(values) => format!("an array of {}", values.len()),
        Constant::Text(text) => format!("{text:?}"),
        Constant::Members(_) => "members by name".to_owned(),
        Constant::Mask(_) => "a CPU mask".to_owned(),
        Constant::Machine(_) | Constant::Formula(_) => "a machine value".to_owned(),
        Constant::Workload(_) => "a workload value".to_owned(),
    };
    format!("expected {expected}, not {found}: the variable is `{}`", type_name(btf, type_id))
}

fn unusable(btf: &Btf, type_id: u32) -> String {
    format!(
        "the variable is `{}`: only integers, booleans, strings, and arrays and structures of these can be set",
        type_name(btf, type_id)
    )
}

/// The type in C syntax, without qualifiers.
pub fn type_name(btf: &Btf, type_id: u32) -> String {
    let mut id = type_id;
    let mut dimensions = String::new();
    // A malformed file may contain cyclic types; the kernel's own limit is 32.
    for _ in 0..32 {
        match btf.type_of(id) {
            Type::Const { target } | Type::Volatile { target } | Type::Restrict { target } => id = *target,
            Type::TypeTag { target, .. } => id = *target,
            Type::Var { type_id, .. } => id = *type_id,
            Type::Array { element, count, .. } => {
                dimensions += &format!("[{count}]");
                id = *element;
            }
            Type::Struct { name, .. } => return format!("struct {name}{dimensions}"),
            Type::Union { name, .. } => return format!("union {name}{dimensions}"),
            Type::Enum { name, .. } => return format!("enum {name}{dimensions}"),
            Type::Ptr { .. } => return format!("pointer{dimensions}"),
            other if other.name().is_empty() => break,
            other => return format!("{}{dimensions}", other.name()),
        }
    }
    format!("unnamed type {type_id}{dimensions}")
}
