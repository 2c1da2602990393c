// SPDX-License-Identifier: GPL-2.0-only
//! The types that BTF knows.

/// What a type is, without its contents. The numbers are those of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Void = 0,
    Int = 1,
    Ptr = 2,
    Array = 3,
    Struct = 4,
    Union = 5,
    Enum = 6,
    Fwd = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Func = 12,
    FuncProto = 13,
    Var = 14,
    Datasec = 15,
    Float = 16,
    DeclTag = 17,
    TypeTag = 18,
    Enum64 = 19,
}

/// How the bits of an integer are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IntEncoding {
    /// Two's complement.
    pub signed: bool,
    /// A character.
    pub char: bool,
    /// A truth value.
    pub bool: bool,
}

/// Where a function or variable is visible. A version of clang before 10 writes `Static` for all functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linkage {
    /// In its file only.
    Static,
    /// Everywhere.
    Global,
    /// Defined elsewhere.
    Extern,
}

/// A member of a struct or union.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Empty for anonymous structs and unions.
    pub name: String,
    /// Its type.
    pub type_id: u32,
    /// Offset from the start of the struct, in bits.
    pub bit_offset: u32,
    /// Width of a bit-field, 1 to 255; 0 for an ordinary member.
    pub bit_size: u32,
}

impl Member {
    /// An ordinary member at a byte offset.
    pub fn at(name: &str, byte_offset: u32, type_id: u32) -> Member {
        Member { name: name.to_string(), type_id, bit_offset: byte_offset * 8, bit_size: 0 }
    }

    /// A bit-field of `bit_size` bits.
    pub fn bits(name: &str, bit_offset: u32, bit_size: u32, type_id: u32) -> Member {
        Member { name: name.to_string(), type_id, bit_offset, bit_size }
    }
}

/// A constant of an enum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enumerator {
    /// Its name.
    pub name: String,
    /// Its value, sign-extended to 64 bits if the enum is signed.
    pub value: u64,
}

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Empty if the prototype does not name it.
    pub name: String,
    /// Its type; 0 for the end of a variable argument list.
    pub type_id: u32,
}

/// A variable (or extern function) in a data section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionVariable {
    /// A [`Type::Var`] or [`Type::Func`].
    pub type_id: u32,
    /// Byte in the section; 0 for global variables in files that no linker has seen.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// A type. Sizes are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Type {
    /// Number 0, and what pointers to nothing in particular point to.
    Void,
    /// `bits` at `bit_offset` within `size` bytes; the offset is 0 in everything made since 2018.
    Int { name: String, size: u32, encoding: IntEncoding, bit_offset: u8, bits: u8 },
    /// A pointer, 8 bytes.
    Ptr { target: u32 },
    /// An array; `index` is the type of its index.
    Array { element: u32, index: u32, count: u32 },
    /// A struct.
    Struct { name: String, size: u32, members: Vec<Member> },
    /// A union.
    Union { name: String, size: u32, members: Vec<Member> },
    /// An enum; `wide` for the form with 64-bit values.
    Enum { name: String, size: u32, signed: bool, wide: bool, values: Vec<Enumerator> },
    /// A struct (or union) that is only named.
    Fwd { name: String, union: bool },
    /// Another name.
    Typedef { name: String, target: u32 },
    /// Modifier.
    Volatile { target: u32 },
    /// Modifier.
    Const { target: u32 },
    /// Modifier.
    Restrict { target: u32 },
    /// A function.
    Func { name: String, proto: u32, linkage: Linkage },
    /// Signature of a function.
    FuncProto { result: u32, parameters: Vec<Parameter> },
    /// A variable.
    Var { name: String, type_id: u32, linkage: Linkage },
    /// A section with variables. Its size is 0 in files that no linker has seen.
    Datasec { name: String, size: u32, variables: Vec<SectionVariable> },
    /// A floating-point number.
    Float { name: String, size: u32 },
    /// A note on a declaration: on its member or parameter `component`, on itself if that is -1.
    DeclTag { name: String, target: u32, component: i32, attribute: bool },
    /// A note on a type; `attribute` if the note is any attribute and not a `btf_type_tag`.
    TypeTag { name: String, target: u32, attribute: bool },
}

impl Type {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Type::Void => Kind::Void,
            Type::Int { .. } => Kind::Int,
            Type::Ptr { .. } => Kind::Ptr,
            Type::Array { .. } => Kind::Array,
            Type::Struct { .. } => Kind::Struct,
            Type::Union { .. } => Kind::Union,
            Type::Enum { wide: false, .. } => Kind::Enum,
            Type::Enum { wide: true, .. } => Kind::Enum64,
            Type::Fwd { .. } => Kind::Fwd,
            Type::Typedef { .. } => Kind::Typedef,
            Type::Volatile { .. } => Kind::Volatile,
            Type::Const { .. } => Kind::Const,
            Type::Restrict { .. } => Kind::Restrict,
            Type::Func { .. } => Kind::Func,
            Type::FuncProto { .. } => Kind::FuncProto,
            Type::Var { .. } => Kind::Var,
            Type::Datasec { .. } => Kind::Datasec,
            Type::Float { .. } => Kind::Float,
            Type::DeclTag { .. } => Kind::DeclTag,
            Type::TypeTag { .. } => Kind::TypeTag,
        }
    }

    /// Its name; empty if it has none.
    pub fn name(&self) -> &str {
        match self {
            Type::Int { name, .. }
            | Type::Struct { name, .. }
            | Type::Union { name, .. }
            | Type::Enum { name, .. }
            | Type::Fwd { name, .. }
            | Type::Typedef { name, .. }
            | Type::Func { name, .. }
            | Type::Var { name, .. }
            | Type::Datasec { name, .. }
            | Type::Float { name, .. }
            | Type::DeclTag { name, .. }
            | Type::TypeTag { name, .. } => name,
            Type::Void
            | Type::Ptr { .. }
            | Type::Array { .. }
            | Type::Volatile { .. }
            | Type::Const { .. }
            | Type::Restrict { .. }
            | Type::FuncProto { .. } => "",
        }
    }

    /// What a typedef or modifier stands before; `None` for all other types.
    pub fn modified(&self) -> Option<u32> {
        match self {
            Type::Typedef { target, .. }
            | Type::Volatile { target }
            | Type::Const { target }
            | Type::Restrict { target }
            | Type::TypeTag { target, .. } => Some(*target),
            _ => None,
        }
    }

    /// Members of a struct or union; none for other types.
    pub fn members(&self) -> &[Member] {
        match self {
            Type::Struct { members, .. } | Type::Union { members, .. } => members,
            _ => &[],
        }
    }

    /// Constants of an enum; none for other types.
    pub fn enumerators(&self) -> &[Enumerator] {
        match self {
            Type::Enum { values, .. } => values,
            _ => &[],
        }
    }

    /// Whether it is a struct or union.
    pub fn is_composite(&self) -> bool {
        matches!(self, Type::Struct { .. } | Type::Union { .. })
    }

    /// Whether it is an integer or enum whose values may be negative.
    pub fn is_signed(&self) -> bool {
        match self {
            Type::Int { encoding, .. } => encoding.signed,
            Type::Enum { signed, .. } => *signed,
            _ => false,
        }
    }

    /// Size of the type where it states it itself.
    pub(crate) fn own_size(&self) -> Option<u32> {
        match self {
            Type::Int { size, .. }
            | Type::Struct { size, .. }
            | Type::Union { size, .. }
            | Type::Enum { size, .. }
            | Type::Datasec { size, .. }
            | Type::Float { size, .. } => Some(*size),
            Type::Ptr { .. } => Some(8),
            _ => None,
        }
    }

    /// Numbers of all types that it refers to.
    pub(crate) fn references(&self) -> Vec<u32> {
        match self {
            Type::Ptr { target }
            | Type::Typedef { target, .. }
            | Type::Volatile { target }
            | Type::Const { target }
            | Type::Restrict { target }
            | Type::DeclTag { target, .. }
            | Type::TypeTag { target, .. } => vec![*target],
            Type::Array { element, index, .. } => vec![*element, *index],
            Type::Struct { members, .. } | Type::Union { members, .. } => members.iter().map(|m| m.type_id).collect(),
            Type::Func { proto, .. } => vec![*proto],
            Type::FuncProto { result, parameters } => {
                std::iter::once(*result).chain(parameters.iter().map(|p| p.type_id)).collect()
            }
            Type::Var { type_id, .. } => vec![*type_id],
            Type::Datasec { variables, .. } => variables.iter().map(|v| v.type_id).collect(),
            Type::Void | Type::Int { .. } | Type::Enum { .. } | Type::Fwd { .. } | Type::Float { .. } => vec![],
        }
    }
}
