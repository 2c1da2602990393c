// SPDX-License-Identifier: GPL-2.0-only
//! The BPF type format (BTF): reader, writer, builder for synthetic kernels, and lookup.
//!
//! Types are numbered from 1; number 0 is `void`. Every type number inside a [`Btf`] refers to a type of the same
//! [`Btf`]: the parser rejects other numbers, and [`BtfBuilder`] panics on them. A hostile file may still contain
//! cyclic references, so every function that follows references here has a limit.

mod build;
mod excerpt;
pub(crate) mod ext;
mod read;
mod types;
mod write;

pub use build::BtfBuilder;
pub(crate) use read::parse_with_strings;
pub use types::{Enumerator, IntEncoding, Kind, Linkage, Member, Parameter, SectionVariable, Type};

use crate::ObjectError;

/// Longest chain of modifiers, typedefs and arrays that is followed. The kernel's own limit is 32.
const MAX_CHAIN: usize = 64;

/// Largest number of members that one lookup visits. A hostile file could nest anonymous structs so that their number
/// grows exponentially.
const MAX_VISITS: u32 = 100_000;

/// A set of BTF types.
#[derive(Clone, Debug)]
pub struct Btf {
    /// The types by number; `types[0]` is `void`.
    types: Vec<Type>,
    /// Numbers of the named types, sorted by name, then number.
    by_name: Vec<u32>,
}

/// A member found by name, possibly inside anonymous structs and unions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundMember<'a> {
    /// The member; its own offset is relative to the (anonymous) struct that directly contains it.
    pub member: &'a Member,
    /// Offset in bits from the start of the struct that was searched.
    pub bit_offset: u64,
}

impl FoundMember<'_> {
    /// Offset in bytes from the start of the struct that was searched.
    pub fn byte_offset(&self) -> u64 {
        self.bit_offset / 8
    }
}

impl Default for Btf {
    fn default() -> Btf {
        Btf::from_types(vec![Type::Void])
    }
}

impl PartialEq for Btf {
    fn eq(&self, other: &Btf) -> bool {
        self.types == other.types
    }
}

impl Eq for Btf {}

impl Btf {
    /// Parses the contents of a `.BTF` section or of `/sys/kernel/btf/vmlinux`. Never panics, whatever the bytes are.
    pub fn parse(bytes: &[u8]) -> Result<Btf, ObjectError> {
        parse_with_strings(bytes).map(|(btf, _)| btf)
    }

    /// Encodes the types as a `.BTF` section; [`Btf::parse`] of the result gives an equal set.
    pub fn to_bytes(&self) -> Vec<u8> {
        write::to_bytes(self)
    }

    pub(crate) fn from_types(types: Vec<Type>) -> Btf {
        debug_assert_eq!(types.first(), Some(&Type::Void));
        let mut by_name: Vec<u32> =
            (1..types.len() as u32).filter(|id| !types[*id as usize].name().is_empty()).collect();
        by_name.sort_by(|a, b| types[*a as usize].name().cmp(types[*b as usize].name()).then(a.cmp(b)));
        Btf { types, by_name }
    }

    /// Number of types, `void` included; type numbers run from 0 to one less.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Returns the type with number `id`.
    pub fn get(&self, id: u32) -> Option<&Type> {
        self.types.get(id as usize)
    }

    /// Returns the type with number `id`, or `void` if there is none.
    pub fn type_of(&self, id: u32) -> &Type {
        self.types.get(id as usize).unwrap_or(&Type::Void)
    }

    /// Iterates over all types with their numbers, `void` first.
    pub fn types(&self) -> impl Iterator<Item = (u32, &Type)> {
        self.types.iter().enumerate().map(|(id, ty)| (id as u32, ty))
    }

    /// Iterates over the numbers of all types with this name, in ascending order.
    pub fn find_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        let start = self.by_name.partition_point(|id| self.types[*id as usize].name() < name);
        self.by_name[start..].iter().copied().take_while(move |id| self.types[*id as usize].name() == name)
    }

    /// Returns the number of the first type with this name and kind.
    pub fn find(&self, name: &str, kind: Kind) -> Option<u32> {
        self.find_all(name).find(|id| self.types[*id as usize].kind() == kind)
    }

    /// Follows typedefs, `const`, `volatile`, `restrict` and type tags to the underlying type. Returns `void` (0) if
    /// the chain does not end within 64 steps.
    pub fn resolve(&self, id: u32) -> u32 {
        let mut id = id;
        for _ in 0..MAX_CHAIN {
            match self.type_of(id).modified() {
                Some(target) => id = target,
                None => return id,
            }
        }
        0
    }

    /// Returns the type that remains after typedefs and modifiers are followed.
    pub fn resolved(&self, id: u32) -> &Type {
        self.type_of(self.resolve(id))
    }

    /// Size in bytes of a value of this type; `None` for `void`, functions and incomplete types.
    pub fn size_of(&self, id: u32) -> Option<u64> {
        let (mut id, mut count) = (id, 1u64);
        for _ in 0..MAX_CHAIN {
            match self.type_of(id) {
                Type::Array { element, count: elements, .. } => {
                    count = count.checked_mul(u64::from(*elements))?;
                    id = *element;
                }
                Type::Var { type_id, .. } => id = *type_id,
                ty => match ty.modified() {
                    Some(target) => id = target,
                    None => return count.checked_mul(u64::from(ty.own_size()?)),
                },
            }
        }
        None
    }

    /// Members of a struct or union, reached through typedefs and modifiers; empty for other types.
    pub fn members(&self, id: u32) -> &[Member] {
        self.resolved(id).members()
    }

    /// Finds the member `name` of a struct or union, also inside its anonymous structs and unions.
    pub fn member(&self, id: u32, name: &str) -> Option<FoundMember<'_>> {
        let mut visits = MAX_VISITS;
        self.member_within(id, name, 0, 0, &mut visits)
    }

    fn member_within(&self, id: u32, name: &str, base: u64, depth: usize, visits: &mut u32) -> Option<FoundMember<'_>> {
        if depth > MAX_CHAIN {
            return None;
        }
        for member in self.members(id) {
            *visits = visits.checked_sub(1)?;
            let bit_offset = base + u64::from(member.bit_offset);
            if member.name == name {
                return Some(FoundMember { member, bit_offset });
            }
            if member.name.is_empty() {
                let found = self.member_within(member.type_id, name, bit_offset, depth + 1, visits);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Value of the enumerator `name` of an enum type, sign-extended if the enum is signed.
    pub fn enumerator(&self, id: u32, name: &str) -> Option<u64> {
        self.resolved(id).enumerators().iter().find(|value| value.name == name).map(|value| value.value)
    }

    /// Value of the first enumerator with this name in any enum.
    pub fn find_enumerator(&self, name: &str) -> Option<u64> {
        self.types.iter().flat_map(|ty| ty.enumerators()).find(|value| value.name == name).map(|value| value.value)
    }

    /// Parameters of a function or of a function prototype; `None` for other types.
    pub fn parameters(&self, id: u32) -> Option<&[Parameter]> {
        match self.resolved(id) {
            Type::FuncProto { parameters, .. } => Some(parameters),
            Type::Func { proto, .. } => match self.resolved(*proto) {
                Type::FuncProto { parameters, .. } => Some(parameters),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
