// SPDX-License-Identifier: GPL-2.0-only
//! Paths from a type to one of its members. [`local_spec`] follows the path in the object's types, [`target_spec`]
//! finds it by member names in the kernel's types.

use super::compat::fields_compatible;
use super::{essential_name, type_text};
use crate::btf::{Btf, Member, Type};

/// Largest number of members that one lookup visits in anonymous structs.
const MAX_VISITS: u32 = 100_000;

/// Deepest nesting of anonymous structs that is searched.
const MAX_ANONYMOUS: u32 = 32;

/// Largest bit offset of a path: beyond any real struct, and small enough that sums cannot overflow.
const MAX_BIT_OFFSET: u64 = 1 << 40;

/// One step of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Member number `index` of the struct `composite`.
    Member { composite: u32, index: u32 },
    /// Element number `index` of an array of type `element`, or of the root type taken as an array.
    Element { element: u32, index: u32 },
}

/// A path with the offset of the member or element at its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spec {
    /// Named members and array elements. Anonymous members count in the offset only.
    pub steps: Vec<Step>,
    pub bit_offset: u64,
}

impl Spec {
    fn add_bits(&mut self, bits: u64) -> Result<(), String> {
        let sum = self.bit_offset.checked_add(bits).filter(|sum| *sum <= MAX_BIT_OFFSET);
        self.bit_offset = sum.ok_or("an offset of more than 128 GiB")?;
        Ok(())
    }

    fn add_element(&mut self, btf: &Btf, element: u32, index: u32) -> Result<(), String> {
        let element = btf.resolve(element);
        // An element without a size (an incomplete struct) can only be the first.
        let size = if index == 0 { 0 } else { btf.size_of(element).ok_or("an element without size")? };
        let bits = size.checked_mul(u64::from(index)).and_then(|bytes| bytes.checked_mul(8));
        self.add_bits(bits.ok_or("the offset overflows")?)?;
        self.steps.push(Step::Element { element, index });
        Ok(())
    }

    /// The member at the end of the path, or `None` if the path ends at an array element.
    pub fn last_member<'a>(&self, btf: &'a Btf) -> Option<&'a Member> {
        match self.steps.last()? {
            Step::Member { composite, index } => btf.type_of(*composite).members().get(*index as usize),
            Step::Element { .. } => None,
        }
    }

    /// The type of the array element at the end of the path, or `None` if the path ends at a member.
    pub fn last_element(&self) -> Option<u32> {
        match self.steps.last()? {
            Step::Element { element, .. } => Some(*element),
            Step::Member { .. } => None,
        }
    }

    /// Names of the members on the path, without the indices of array elements.
    pub fn names<'a>(&'a self, btf: &'a Btf) -> impl Iterator<Item = &'a str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Member { composite, index } => {
                btf.type_of(*composite).members().get(*index as usize).map(|member| member.name.as_str())
            }
            Step::Element { .. } => None,
        })
    }

    /// Formats the path as in C, such as `scx.slice` or `bits[1]`.
    pub fn text(&self, btf: &Btf) -> String {
        let mut text = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Element { index: 0, .. } if number == 0 => {}
                Step::Element { index, .. } => text.push_str(&format!("[{index}]")),
                Step::Member { composite, index } => {
                    let name = btf.type_of(*composite).members().get(*index as usize).map_or("?", |m| m.name.as_str());
                    let dot = if text.is_empty() { "" } else { "." };
                    text.push_str(&format!("{dot}{name}"));
                }
            }
        }
        text
    }
}

/// Follows an access string through the object's own types. An error means that the object is malformed.
pub(super) fn local_spec(btf: &Btf, root: u32, access: &[u32]) -> Result<Spec, String> {
    let (first, rest) = access.split_first().ok_or("empty access string")?;
    let mut spec = Spec { steps: Vec::new(), bit_offset: 0 };
    spec.add_element(btf, root, *first)?;
    let mut id = btf.resolve(root);
    for index in rest {
        match btf.type_of(id) {
            composite @ (Type::Struct { .. } | Type::Union { .. }) => {
                let member = composite.members().get(*index as usize);
                let member = member.ok_or_else(|| format!("{} has no member {index}", type_text(btf, id)))?;
                spec.add_bits(u64::from(member.bit_offset))?;
                if !member.name.is_empty() {
                    spec.steps.push(Step::Member { composite: id, index: *index });
                }
                id = btf.resolve(member.type_id);
            }
            Type::Array { element, count, .. } => {
                if !in_array(*count, *index) {
                    return Err(format!("element {index} of an array of {count}"));
                }
                spec.add_element(btf, *element, *index)?;
                id = btf.resolve(*element);
            }
            _ => return Err(format!("{} has no members", type_text(btf, id))),
        }
    }
    Ok(spec)
}

/// Whether the array has this element. An array of length 0 is a flexible array at the end of a struct, which has
/// every element.
fn in_array(count: u32, index: u32) -> bool {
    count == 0 || index < count
}

/// Finds the object's path `spec` in the kernel's type `root`. The error names the member that is missing or differs
/// there.
pub(super) fn target_spec(local: &Btf, spec: &Spec, target: &Btf, root: u32) -> Result<Spec, String> {
    let mut found = Spec { steps: Vec::new(), bit_offset: 0 };
    let mut id = target.resolve(root);
    for (number, step) in spec.steps.iter().enumerate() {
        match step {
            Step::Element { index, .. } if number == 0 => found.add_element(target, id, *index)?,
            Step::Element { index, .. } => {
                let Type::Array { element, count, .. } = target.type_of(id) else {
                    return Err(format!("{} is not an array", found.text(target)));
                };
                if !in_array(*count, *index) {
                    return Err(format!("{} has {count} elements", found.text(target)));
                }
                found.add_element(target, *element, *index)?;
                id = target.resolve(*element);
            }
            Step::Member { composite, index } => {
                let member = local.type_of(*composite).members().get(*index as usize).ok_or("no such member")?;
                let mut search = Search { target, member, visits: MAX_VISITS };
                let Some((composite, index, bits)) = search.find(id, 0, MAX_ANONYMOUS) else {
                    return Err(format!("{} has no member {}", type_text(target, id), member.name));
                };
                found.add_bits(bits)?;
                found.steps.push(Step::Member { composite, index });
                let other = &target.type_of(composite).members()[index as usize];
                if !fields_compatible(local, member.type_id, target, other.type_id) {
                    return Err(format!("{}.{} has another type", type_text(target, composite), member.name));
                }
                id = target.resolve(other.type_id);
            }
        }
    }
    Ok(found)
}

/// Search for a member by name, also inside anonymous structs and unions.
struct Search<'a> {
    target: &'a Btf,
    member: &'a Member,
    visits: u32,
}

impl Search<'_> {
    /// Returns the struct that contains the member, the member's number in it, and its offset in bits from the start
    /// of `id`.
    fn find(&mut self, id: u32, base: u64, depth: u32) -> Option<(u32, u32, u64)> {
        let depth = depth.checked_sub(1)?;
        let id = self.target.resolve(id);
        let target = self.target;
        for (index, other) in target.type_of(id).members().iter().enumerate() {
            self.visits = self.visits.checked_sub(1)?;
            let bits = base + u64::from(other.bit_offset);
            if other.name.is_empty() {
                if let Some(found) = self.find(other.type_id, bits, depth) {
                    return Some(found);
                }
            } else if essential_name(&other.name) == essential_name(&self.member.name) {
                return Some((id, index as u32, bits));
            }
        }
        None
    }
}
