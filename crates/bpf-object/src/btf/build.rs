// SPDX-License-Identifier: GPL-2.0-only
//! Builds BTF types from Rust code, such as the types of a synthetic kernel.

use super::{Btf, Enumerator, IntEncoding, Linkage, Member, Parameter, Type};

/// Collects BTF types. Every method that adds a type returns its number. Invalid use is a bug of the caller and panics.
///
/// ```
/// use bpf_object::btf::{BtfBuilder, Kind, Member};
/// let mut b = BtfBuilder::new();
/// let u32_ = b.int("unsigned int", 4, false);
/// let task = b.declare_struct("task_struct");
/// let task_ptr = b.pointer(task);
/// b.define(task, 16, vec![Member::at("pid", 0, u32_), Member::at("parent", 8, task_ptr)]);
/// let btf = b.build();
/// assert_eq!(btf.find("task_struct", Kind::Struct), Some(task));
/// ```
#[derive(Debug)]
pub struct BtfBuilder {
    types: Vec<Type>,
    /// Numbers of the structs that are declared but not yet defined.
    open: Vec<u32>,
}

impl Default for BtfBuilder {
    fn default() -> BtfBuilder {
        BtfBuilder::new()
    }
}

impl BtfBuilder {
    /// Creates a builder that holds only `void`, which is type number 0.
    pub fn new() -> BtfBuilder {
        BtfBuilder { types: vec![Type::Void], open: vec![] }
    }

    /// Adds any type and returns its number.
    pub fn add(&mut self, ty: Type) -> u32 {
        self.types.push(ty);
        self.types.len() as u32 - 1
    }

    /// Adds an integer of `size` bytes.
    pub fn int(&mut self, name: &str, size: u32, signed: bool) -> u32 {
        let encoding = IntEncoding { signed, ..IntEncoding::default() };
        self.add(Type::Int { name: name.to_string(), size, encoding, bit_offset: 0, bits: (size * 8) as u8 })
    }

    /// Adds a boolean of one byte.
    pub fn bool(&mut self, name: &str) -> u32 {
        let encoding = IntEncoding { bool: true, ..IntEncoding::default() };
        self.add(Type::Int { name: name.to_string(), size: 1, encoding, bit_offset: 0, bits: 8 })
    }

    /// Adds a pointer to type `target`; 0 is a pointer to `void`.
    pub fn pointer(&mut self, target: u32) -> u32 {
        self.add(Type::Ptr { target })
    }

    /// Adds an array of `count` elements. Its index type is the first `unsigned int` that was added, else `void`.
    pub fn array(&mut self, element: u32, count: u32) -> u32 {
        let index = self.types.iter().position(|ty| ty.name() == "unsigned int").unwrap_or(0) as u32;
        self.add(Type::Array { element, index, count })
    }

    /// Adds a struct of `size` bytes; [`Member::at`] and [`Member::bits`] create its members. An empty name makes the
    /// struct anonymous.
    pub fn structure(&mut self, name: &str, size: u32, members: Vec<Member>) -> u32 {
        self.add(Type::Struct { name: name.to_string(), size, members })
    }

    /// Adds a union of `size` bytes.
    pub fn union(&mut self, name: &str, size: u32, members: Vec<Member>) -> u32 {
        self.add(Type::Union { name: name.to_string(), size, members })
    }

    /// Declares a struct whose size and members [`BtfBuilder::define`] adds later, so that other types can point to
    /// it before.
    pub fn declare_struct(&mut self, name: &str) -> u32 {
        let id = self.structure(name, 0, vec![]);
        self.open.push(id);
        id
    }

    /// Sets the size and members of a declared struct.
    pub fn define(&mut self, id: u32, size: u32, members: Vec<Member>) {
        let open =
            self.open.iter().position(|open| *open == id).expect("the struct was declared and is not yet defined");
        self.open.remove(open);
        let Type::Struct { size: of, members: to, .. } = &mut self.types[id as usize] else {
            unreachable!("only structs are declared")
        };
        (*of, *to) = (size, members);
    }

    /// Adds an enum of 4 bytes, which is signed if one of its values is negative.
    pub fn enumeration(&mut self, name: &str, values: &[(&str, i32)]) -> u32 {
        let signed = values.iter().any(|(_, value)| *value < 0);
        let value = |(name, value): &(&str, i32)| Enumerator {
            name: (*name).to_string(),
            value: if signed { *value as u64 } else { u64::from(*value as u32) },
        };
        let values = values.iter().map(value).collect();
        self.add(Type::Enum { name: name.to_string(), size: 4, signed, wide: false, values })
    }

    /// Adds an unsigned enum of 8 bytes.
    pub fn enum64(&mut self, name: &str, values: &[(&str, u64)]) -> u32 {
        let values =
            values.iter().map(|(name, value)| Enumerator { name: (*name).to_string(), value: *value }).collect();
        self.add(Type::Enum { name: name.to_string(), size: 8, signed: false, wide: true, values })
    }

    /// Adds a typedef `name` of type `target`.
    pub fn typedef(&mut self, name: &str, target: u32) -> u32 {
        self.add(Type::Typedef { name: name.to_string(), target })
    }

    /// Adds a `const` modifier of type `target`.
    pub fn constant(&mut self, target: u32) -> u32 {
        self.add(Type::Const { target })
    }

    /// Adds a `volatile` modifier of type `target`.
    pub fn volatile(&mut self, target: u32) -> u32 {
        self.add(Type::Volatile { target })
    }

    /// Adds a forward declaration of a struct (or union) whose members are unknown.
    pub fn forward(&mut self, name: &str, union: bool) -> u32 {
        self.add(Type::Fwd { name: name.to_string(), union })
    }

    /// Adds a function prototype with these parameters (name, type) and the return type `result`.
    pub fn func_proto(&mut self, result: u32, parameters: &[(&str, u32)]) -> u32 {
        let parameter = |(name, type_id): &(&str, u32)| Parameter { name: (*name).to_string(), type_id: *type_id };
        self.add(Type::FuncProto { result, parameters: parameters.iter().map(parameter).collect() })
    }

    /// Adds a global function with the prototype `proto`.
    pub fn function(&mut self, name: &str, proto: u32) -> u32 {
        self.add(Type::Func { name: name.to_string(), proto, linkage: Linkage::Global })
    }

    /// Returns the types. Panics if a declared struct was not defined or a type refers to a type number that does not
    /// exist.
    pub fn build(self) -> Btf {
        assert!(
            self.open.is_empty(),
            "declared and not defined: {:?}",
            self.open.iter().map(|id| self.types[*id as usize].name()).collect::<Vec<_>>()
        );
        for ty in &self.types {
            let bad = ty.references().into_iter().find(|id| *id as usize >= self.types.len());
            assert!(bad.is_none(), "{ty:?} refers to type {bad:?} of {}", self.types.len());
        }
        Btf::from_types(self.types)
    }
}
