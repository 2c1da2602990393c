// SPDX-License-Identifier: GPL-2.0-only
//! One value for many: an array that stands where its type has room for a single entry has an entry for each of them.
//!
//! A structure whose members have tables of the machine is written once for each CPU or cache so. What decides is depth:
//! an array in a member that is an array itself is that member's value, and an array of arrays there is one for each.

use crate::Constant;
use bpf_object::btf::{Btf, Type};

/// How many entries `value` has for a variable of this type; `None` if it is a single value. All arrays that are spread
/// must agree.
pub(crate) fn entries(btf: &Btf, type_id: u32, value: &Constant) -> Result<Option<usize>, String> {
    match value {
        Constant::Array(values) if depth_of(value) > depth_of_type(btf, type_id) => Ok(Some(values.len())),
        Constant::Members(members) => {
            let mut count = None;
            for (name, value) in members {
                match (count, entries(btf, member_type(btf, type_id, name), value)?) {
                    (_, None) => {}
                    (None, own) => count = own,
                    (Some(other), Some(own)) if other == own => {}
                    (Some(other), Some(own)) => {
                        return Err(format!("`{name}`: {own} values, beside a member with {other}"));
                    }
                }
            }
            Ok(count)
        }
        _ => Ok(None),
    }
}

/// Entry number `index` of `value`; all of it where it is not spread.
pub(crate) fn entry(btf: &Btf, type_id: u32, value: &Constant, index: usize) -> Result<Constant, String> {
    match value {
        Constant::Array(values) if depth_of(value) > depth_of_type(btf, type_id) => {
            let entry = values.get(index).cloned();
            entry.ok_or_else(|| format!("{} values, and more keys than that", values.len()))
        }
        Constant::Members(members) => {
            let picked = members
                .iter()
                .map(|(name, value)| Ok((name.clone(), entry(btf, member_type(btf, type_id, name), value, index)?)));
            Ok(Constant::Members(picked.collect::<Result<_, String>>()?))
        }
        other => Ok(other.clone()),
    }
}

/// 0 for a type that is not there: its name is an error later.
fn member_type(btf: &Btf, type_id: u32, name: &str) -> u32 {
    btf.member(btf.resolve(type_id), name).map_or(0, |found| found.member.type_id)
}

/// A mask of CPUs counts as an array of words, and as the last level of a type that has none.
fn depth_of(value: &Constant) -> u32 {
    match value {
        Constant::Array(values) => 1 + values.iter().map(depth_of).max().unwrap_or(0),
        Constant::Mask(_) => 1,
        _ => 0,
    }
}

fn depth_of_type(btf: &Btf, type_id: u32) -> u32 {
    match btf.resolved(type_id) {
        Type::Array { element, .. } => 1 + depth_of_type(btf, *element),
        _ => 0,
    }
}
