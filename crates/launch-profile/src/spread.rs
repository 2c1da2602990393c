// SPDX-License-Identifier: GPL-2.0-only
//! Spreading: an array where the type has room for a single value provides one value per CPU, cache or array element.
//!
//! This writes a structure once for each CPU or cache from members that are tables of the machine. The nesting depth
//! decides: an array for a member that is itself an array is that member's value; an array of arrays has one value
//! for each structure.

use crate::Constant;
use bpf_object::btf::{Btf, Type};

/// Number of values that `value` provides for a variable of this type; `None` if it is a single value. All spread
/// arrays must have the same length.
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
                        return Err(format!("`{name}`: {own} values, but another member has {other}"));
                    }
                }
            }
            Ok(count)
        }
        _ => Ok(None),
    }
}

/// Value number `index` of `value`; the whole `value` if it is not spread.
pub(crate) fn entry(btf: &Btf, type_id: u32, value: &Constant, index: usize) -> Result<Constant, String> {
    match value {
        Constant::Array(values) if depth_of(value) > depth_of_type(btf, type_id) => {
            let entry = values.get(index).cloned();
            entry.ok_or_else(|| format!("{} values, but more keys", values.len()))
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

/// Type of a member; 0 if there is none, which is reported later.
fn member_type(btf: &Btf, type_id: u32, name: &str) -> u32 {
    btf.member(btf.resolve(type_id), name).map_or(0, |found| found.member.type_id)
}

/// Nesting depth of a value. A CPU mask counts as an array of words, or as a single value of the innermost type.
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
