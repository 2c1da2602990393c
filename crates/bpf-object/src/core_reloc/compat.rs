// SPDX-License-Identifier: GPL-2.0-only
//! Compatibility of types of the object with types of the kernel, for CO-RE relocations.

use super::essential_name;
use crate::btf::{Btf, Enumerator, Member, Type};

/// Deepest nesting of types that is compared; the kernel's own limit.
const MAX_DEPTH: u32 = 32;

/// Largest number of type pairs that one comparison visits. Hostile types could branch at each level.
const MAX_STEPS: u32 = 10_000;

/// Whether two types have the same kind; enums with 32-bit and 64-bit values count as one kind.
pub(super) fn same_kind(a: &Type, b: &Type) -> bool {
    a.kind() == b.kind() || matches!((a, b), (Type::Enum { .. }, Type::Enum { .. }))
}

/// Whether two names are equal without their flavor suffixes (`___NAME`), or one of them is empty.
fn names_agree(local: &str, target: &str) -> bool {
    local.is_empty() || target.is_empty() || essential_name(local) == essential_name(target)
}

/// Whether a field of the object's type can be read as the kernel's type: any struct as any struct, any integer as
/// any integer; arrays are compared by their elements.
pub(super) fn fields_compatible(local: &Btf, local_id: u32, target: &Btf, target_id: u32) -> bool {
    let (mut local_id, mut target_id) = (local_id, target_id);
    for _ in 0..MAX_DEPTH {
        let (a, b) = (local.resolved(local_id), target.resolved(target_id));
        if a.is_composite() && b.is_composite() {
            return true;
        }
        if !same_kind(a, b) {
            return false;
        }
        match (a, b) {
            (Type::Ptr { .. } | Type::Float { .. } | Type::Int { .. }, _) => return true,
            (Type::Fwd { .. } | Type::Enum { .. }, _) => return names_agree(a.name(), b.name()),
            (Type::Array { element, .. }, Type::Array { element: other, .. }) => {
                (local_id, target_id) = (*element, *other);
            }
            _ => return false,
        }
    }
    false
}

/// Whether two types have the same structure of kinds (libbpf's `bpf_core_types_are_compat`). Names are not compared;
/// the caller has compared those of the root types.
pub(crate) fn types_compatible(local: &Btf, local_id: u32, target: &Btf, target_id: u32) -> bool {
    Comparison { local, target, steps: MAX_STEPS }.compatible(local_id, target_id, MAX_DEPTH)
}

/// Whether the kernel's type contains every member of the object's type, with matching types (libbpf's
/// `bpf_core_types_match`).
pub(super) fn types_match(local: &Btf, local_id: u32, target: &Btf, target_id: u32) -> bool {
    Comparison { local, target, steps: MAX_STEPS }.matches(local_id, target_id, false, MAX_DEPTH)
}

struct Comparison<'a> {
    local: &'a Btf,
    target: &'a Btf,
    steps: u32,
}

impl<'a> Comparison<'a> {
    /// Counts a visited pair. Returns the depth below it, or `None` if the depth or the number of pairs exceeds its
    /// limit.
    fn step(&mut self, depth: u32) -> Option<u32> {
        self.steps = self.steps.checked_sub(1)?;
        depth.checked_sub(1)
    }

    fn compatible(&mut self, local_id: u32, target_id: u32, depth: u32) -> bool {
        let Some(depth) = self.step(depth) else { return false };
        let (a, b) = (self.local.resolved(local_id), self.target.resolved(target_id));
        if !same_kind(a, b) {
            return false;
        }
        match (a, b) {
            (Type::Ptr { target: a }, Type::Ptr { target: b })
            | (Type::Array { element: a, .. }, Type::Array { element: b, .. }) => self.compatible(*a, *b, depth),
            (Type::FuncProto { result: a, parameters: of_a }, Type::FuncProto { result: b, parameters: of_b }) => {
                of_a.len() == of_b.len()
                    && of_a.iter().zip(of_b).all(|(a, b)| self.compatible(a.type_id, b.type_id, depth))
                    && self.compatible(*a, *b, depth)
            }
            (Type::Func { .. } | Type::Var { .. } | Type::Datasec { .. }, _) => false,
            _ => true,
        }
    }

    fn matches(&mut self, local_id: u32, target_id: u32, behind_pointer: bool, depth: u32) -> bool {
        let Some(depth) = self.step(depth) else { return false };
        let (a, b) = (self.local.resolved(local_id), self.target.resolved(target_id));
        if essential_name(a.name()) != essential_name(b.name()) {
            return false;
        }
        match (a, b) {
            (Type::Void, Type::Void) => true,
            (Type::Fwd { union, .. }, other) => is_union(other) == Some(*union),
            (other, Type::Fwd { union, .. }) => behind_pointer && is_union(other) == Some(*union),
            (Type::Enum { size, values, .. }, Type::Enum { size: other_size, values: others, .. }) => {
                size == other_size && values.iter().all(|value| has_enumerator(others, value))
            }
            (Type::Struct { members, .. }, Type::Struct { members: others, .. })
            | (Type::Union { members, .. }, Type::Union { members: others, .. }) => {
                behind_pointer || members.iter().all(|member| self.has_member(others, member, depth))
            }
            (Type::Int { size, .. }, Type::Int { size: other, .. }) => size == other && a.is_signed() == b.is_signed(),
            (Type::Ptr { target: a }, Type::Ptr { target: b }) => self.matches(*a, *b, true, depth),
            (Type::Array { element: a, count, .. }, Type::Array { element: b, count: other, .. }) => {
                count == other && self.matches(*a, *b, behind_pointer, depth)
            }
            (Type::FuncProto { result: a, parameters: of_a }, Type::FuncProto { result: b, parameters: of_b }) => {
                of_a.len() == of_b.len()
                    && of_a.iter().zip(of_b).all(|(a, b)| self.matches(a.type_id, b.type_id, false, depth))
                    && self.matches(*a, *b, behind_pointer, depth)
            }
            _ => false,
        }
    }

    fn has_member(&mut self, others: &[Member], member: &Member, depth: u32) -> bool {
        let name = essential_name(&member.name);
        others.iter().any(|other| {
            essential_name(&other.name) == name && self.matches(member.type_id, other.type_id, false, depth)
        })
    }
}

/// Whether a struct, union or forward declaration is a union; `None` for other types.
fn is_union(ty: &Type) -> Option<bool> {
    match ty {
        Type::Struct { .. } => Some(false),
        Type::Union { .. } => Some(true),
        Type::Fwd { union, .. } => Some(*union),
        _ => None,
    }
}

fn has_enumerator(others: &[Enumerator], value: &Enumerator) -> bool {
    others.iter().any(|other| essential_name(&other.name) == essential_name(&value.name))
}
