// SPDX-License-Identifier: GPL-2.0-only
//! Values as the bytes of a C variable, by its BTF type.

use crate::Constant;
use bpf_object::btf::{Btf, Type};

/// Writes `constant` to the beginning of `bytes`, which hold a variable of this type. An array may be longer than the
/// constant: the rest keeps what it has.
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
        (Type::Int { .. } | Type::Enum { .. }, _) => Err(mismatch(btf, type_id, "a number", constant)),
        (Type::Array { element, count, .. }, Constant::Array(values)) => {
            if values.len() > *count as usize {
                return Err(format!(
                    "{} values do not fit: the variable is `{}`",
                    values.len(),
                    type_name(btf, type_id)
                ));
            }
            let size = btf.size_of(*element).filter(|size| *size > 0 && *size <= bytes.len() as u64);
            let size = size.ok_or_else(|| unusable(btf, type_id))? as usize;
            // The section may be shorter than its BTF says: then there are fewer chunks than values.
            let mut slots = bytes.chunks_exact_mut(size);
            for value in values {
                encode(btf, *element, value, slots.next().ok_or_else(|| unusable(btf, type_id))?)?;
            }
            Ok(())
        }
        (Type::Array { .. }, _) => Err(mismatch(btf, type_id, "an array", constant)),
        _ => Err(unusable(btf, type_id)),
    }
}

fn write(value: i128, size: u32, bytes: &mut [u8]) -> Result<(), String> {
    let size = size as usize;
    let Some(bytes) = bytes.get_mut(..size).filter(|_| size <= 16) else {
        return Err(format!("the object has no room for the {size} bytes that its BTF promises"));
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
    };
    format!("expected {expected}, not {found}: the variable is `{}`", type_name(btf, type_id))
}

fn unusable(btf: &Btf, type_id: u32) -> String {
    format!("the variable is `{}`: only integers, truth values and arrays of them can be set", type_name(btf, type_id))
}

/// The type as C writes it, without qualifiers.
pub(crate) fn type_name(btf: &Btf, type_id: u32) -> String {
    let mut id = type_id;
    let mut dimensions = String::new();
    // Types may be cyclic in a hostile file: the kernel's own limit is 32.
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
