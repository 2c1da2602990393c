// SPDX-License-Identifier: GPL-2.0-only
//! The types of BTF.

/// Kind of a type. The numbers are those of `BTF_KIND_*`.
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

/// How the bits of an integer are interpreted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IntEncoding {
    /// Signed, in two's complement.
    pub signed: bool,
    /// A character.
    pub char: bool,
    /// A boolean.
    pub bool: bool,
}

/// Linkage of a function or variable. Versions of clang before 10 write `Static` for all functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linkage {
    /// Visible in its file only.
    Static,
    /// Visible in other files.
    Global,
    /// Defined in another file or in the kernel.
    Extern,
}

/// A member of a struct or union.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Name; empty for an anonymous struct or union.
    pub name: String,
    /// Number of its type.
    pub type_id: u32,
    /// Offset from the start of the struct, in bits.
    pub bit_offset: u32,
    /// Width of a bit-field, 1 to 255; 0 for an ordinary member.
    pub bit_size: u32,
}

impl Member {
    /// Creates an ordinary member at `byte_offset`.
    pub fn at(name: &str, byte_offset: u32, type_id: u32) -> Member {
        Member { name: name.to_string(), type_id, bit_offset: byte_offset * 8, bit_size: 0 }
    }

    /// Creates a bit-field of `bit_size` bits at `bit_offset`.
    pub fn bits(name: &str, bit_offset: u32, bit_size: u32, type_id: u32) -> Member {
        Member { name: name.to_string(), type_id, bit_offset, bit_size }
    }
}

/// A constant of an enum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enumerator {
    /// Name.
    pub name: String,
    /// Value, sign-extended to 64 bits if the enum is signed.
    pub value: u64,
}

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Name; empty if the prototype does not give one.
    pub name: String,
    /// Number of its type; 0 for the `...` of a variadic function.
    pub type_id: u32,
}

/// A variable (or extern function) in a data section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionVariable {
    /// Number of its [`Type::Var`] or [`Type::Func`].
    pub type_id: u32,
    /// Offset from the start of the section, in bytes; 0 for global variables of an object that was not linked.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// A type. Sizes are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Type {
    /// `void`, type number 0.
    Void,
    /// An integer of `bits` bits at `bit_offset` within `size` bytes. Compilers have written bit offset 0 since 2018.
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
    /// A forward declaration of a struct (or union).
    Fwd { name: String, union: bool },
    /// A typedef.
    Typedef { name: String, target: u32 },
    /// The modifier `volatile`.
    Volatile { target: u32 },
    /// The modifier `const`.
    Const { target: u32 },
    /// The modifier `restrict`.
    Restrict { target: u32 },
    /// A function.
    Func { name: String, proto: u32, linkage: Linkage },
    /// A function prototype.
    FuncProto { result: u32, parameters: Vec<Parameter> },
    /// A variable.
    Var { name: String, type_id: u32, linkage: Linkage },
    /// A section with variables. Its size is 0 in an object that was not linked.
    Datasec { name: String, size: u32, variables: Vec<SectionVariable> },
    /// A floating-point number.
    Float { name: String, size: u32 },
    /// An annotation (`btf_decl_tag`) of the declaration `target`, or of its member or parameter `component` if that
    /// is not -1.
    DeclTag { name: String, target: u32, component: i32, attribute: bool },
    /// An annotation of a type: a `btf_type_tag`, or any other attribute if `attribute` is set.
    TypeTag { name: String, target: u32, attribute: bool },
}

impl Type {
    /// Kind of the type.
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

    /// Name of the type; empty if it has none.
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

    /// The type to which a typedef or modifier refers; `None` for all other types.
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

    /// Whether the type is a struct or union.
    pub fn is_composite(&self) -> bool {
        matches!(self, Type::Struct { .. } | Type::Union { .. })
    }

    /// Whether the type is a signed integer or signed enum.
    pub fn is_signed(&self) -> bool {
        match self {
            Type::Int { encoding, .. } => encoding.signed,
            Type::Enum { signed, .. } => *signed,
            _ => false,
        }
    }

    /// Size in bytes that the type record itself states, or that of a pointer; `None` for types whose size follows
    /// from another type.
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

    /// Numbers of all types to which this type refers.
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

    /// Replaces the numbers of all types to which this type refers.
    pub(super) fn renumber(&mut self, number: &dyn Fn(u32) -> u32) {
        match self {
            Type::Ptr { target }
            | Type::Typedef { target, .. }
            | Type::Volatile { target }
            | Type::Const { target }
            | Type::Restrict { target }
            | Type::DeclTag { target, .. }
            | Type::TypeTag { target, .. } => *target = number(*target),
            Type::Array { element, index, .. } => (*element, *index) = (number(*element), number(*index)),
            Type::Struct { members, .. } | Type::Union { members, .. } => {
                members.iter_mut().for_each(|member| member.type_id = number(member.type_id));
            }
            Type::Func { proto, .. } => *proto = number(*proto),
            Type::FuncProto { result, parameters } => {
                *result = number(*result);
                parameters.iter_mut().for_each(|parameter| parameter.type_id = number(parameter.type_id));
            }
            Type::Var { type_id, .. } => *type_id = number(*type_id),
            Type::Datasec { variables, .. } => {
                variables.iter_mut().for_each(|variable| variable.type_id = number(variable.type_id));
            }
            Type::Void | Type::Int { .. } | Type::Enum { .. } | Type::Fwd { .. } | Type::Float { .. } => {}
        }
    }
}
