// SPDX-License-Identifier: GPL-2.0-only
//! BTF encoder, the inverse of the parser.

use super::read::MAGIC;
use super::{Btf, Kind, Linkage, Member, Type};
use std::collections::BTreeMap;

/// A string table under construction; equal strings are stored once.
#[derive(Default)]
struct StringTable {
    bytes: Vec<u8>,
    known: BTreeMap<String, u32>,
}

impl StringTable {
    fn add(&mut self, text: &str) -> u32 {
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.known.insert(text.to_string(), at);
        at
    }
}

/// Encodes the header, the types and the string table.
pub(super) fn to_bytes(btf: &Btf) -> Vec<u8> {
    let mut strings = StringTable::default();
    strings.add("");
    let mut words: Vec<u32> = Vec::new();
    for (_, ty) in btf.types().skip(1) {
        write_type(ty, &mut words, &mut strings);
    }
    let type_len = words.len() as u32 * 4;
    let mut bytes = Vec::with_capacity(24 + words.len() * 4 + strings.bytes.len());
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&[1, 0]);
    for word in [24, 0, type_len, type_len, strings.bytes.len() as u32].into_iter().chain(words) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&strings.bytes);
    bytes
}

fn write_type(ty: &Type, words: &mut Vec<u32>, strings: &mut StringTable) {
    let (count, flag, size_or_type) = head(ty);
    assert!(count <= 0xffff, "{} has {count} members, BTF allows 65535", ty.name());
    words.extend([
        strings.add(ty.name()),
        count as u32 | (ty.kind() as u32) << 24 | u32::from(flag) << 31,
        size_or_type,
    ]);
    match ty {
        Type::Int { encoding, bit_offset, bits, .. } => {
            let encoding = u32::from(encoding.signed) | u32::from(encoding.char) << 1 | u32::from(encoding.bool) << 2;
            words.push(encoding << 24 | u32::from(*bit_offset) << 16 | u32::from(*bits));
        }
        Type::Array { element, index, count } => words.extend([*element, *index, *count]),
        Type::Struct { members, .. } | Type::Union { members, .. } => {
            for member in members {
                let offset = if flag { member.bit_offset | member.bit_size << 24 } else { member.bit_offset };
                words.extend([strings.add(&member.name), member.type_id, offset]);
            }
        }
        Type::Enum { values, .. } => {
            for value in values {
                words.extend([strings.add(&value.name), value.value as u32]);
                if ty.kind() == Kind::Enum64 {
                    words.push((value.value >> 32) as u32);
                }
            }
        }
        Type::FuncProto { parameters, .. } => {
            for parameter in parameters {
                words.extend([strings.add(&parameter.name), parameter.type_id]);
            }
        }
        Type::Var { linkage, .. } => words.push(linkage_number(*linkage)),
        Type::Datasec { variables, .. } => {
            words.extend(variables.iter().flat_map(|v| [v.type_id, v.offset, v.size]));
        }
        Type::DeclTag { component, .. } => words.push(*component as u32),
        _ => {}
    }
}

/// Number of members or parameters, kind flag and third word of a type record.
fn head(ty: &Type) -> (usize, bool, u32) {
    match ty {
        Type::Void => unreachable!("void is not written"),
        Type::Int { size, .. } | Type::Float { size, .. } => (0, false, *size),
        Type::Array { .. } => (0, false, 0),
        Type::Struct { size, members, .. } | Type::Union { size, members, .. } => {
            (members.len(), has_bit_fields(members), *size)
        }
        Type::Enum { size, signed, values, .. } => (values.len(), *signed, *size),
        Type::Fwd { union, .. } => (0, *union, 0),
        Type::Func { proto, linkage, .. } => (linkage_number(*linkage) as usize, false, *proto),
        Type::FuncProto { result, parameters } => (parameters.len(), false, *result),
        Type::Var { type_id, .. } => (0, false, *type_id),
        Type::Datasec { size, variables, .. } => (variables.len(), false, *size),
        Type::DeclTag { target, attribute, .. } | Type::TypeTag { target, attribute, .. } => (0, *attribute, *target),
        Type::Ptr { target }
        | Type::Typedef { target, .. }
        | Type::Volatile { target }
        | Type::Const { target }
        | Type::Restrict { target } => (0, false, *target),
    }
}

fn has_bit_fields(members: &[Member]) -> bool {
    members.iter().any(|member| member.bit_size != 0)
}

fn linkage_number(linkage: Linkage) -> u32 {
    match linkage {
        Linkage::Static => 0,
        Linkage::Global => 1,
        Linkage::Extern => 2,
    }
}
