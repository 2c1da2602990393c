// SPDX-License-Identifier: GPL-2.0-only
//! The `__SCX_*` variables of an object, which a loader fills from the kernel's enumerations (contract 2.5, L6).

use super::enums;
use bpf_object::LinkedObject;

/// Fills the `__SCX_*` variables of the object from the kernel's enums (contract 2.5 L6). One whose constant this
/// kernel does not have stays 0, which is what programs test for.
pub fn fill_constants(object: &mut LinkedObject, version: (u16, u16)) {
    let value_of = |name: &str| enums::value_of(name).filter(|_| enums::exists(name, version));
    for (name, variable) in &object.variables {
        let Some(constant) = name.strip_prefix("__").filter(|rest| rest.starts_with("SCX_")) else { continue };
        // The kernel has names that begin with two underscores themselves: `__SCX_ENQ_INTERNAL_MASK` is both.
        let Some(value) = value_of(constant).or_else(|| value_of(name)) else { continue };
        let Some(bytes) = object.maps[variable.map.0 as usize].initial.as_mut() else { continue };
        let (start, len) = (variable.offset as usize, variable.size.min(8) as usize);
        if let Some(place) = bytes.get_mut(start..start + len) {
            place.copy_from_slice(&value.to_le_bytes()[..len]);
        }
    }
}
