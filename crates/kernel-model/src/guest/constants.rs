// SPDX-License-Identifier: GPL-2.0-only
//! The `__SCX_*` variables of an object, which a loader sets from the kernel's enums (contract 2.5, L6).

use super::types::KernelTypes;
use bpf_object::LinkedObject;

/// Sets the `__SCX_*` variables of an object from the kernel's enums (contract 2.5, L6). A variable whose constant
/// this kernel lacks stays 0, which programs test for.
pub(crate) fn fill_constants(object: &mut LinkedObject, types: &KernelTypes) {
    for (name, variable) in &object.variables {
        let Some(constant) = name.strip_prefix("__").filter(|rest| rest.starts_with("SCX_")) else { continue };
        // Some constants begin with two underscores themselves: the variable and the constant are both
        // `__SCX_ENQ_INTERNAL_MASK`.
        let Some(value) = types.constant(constant).or_else(|| types.constant(name)) else { continue };
        let Some(bytes) = object.maps[variable.map.0 as usize].initial.as_mut() else { continue };
        let (start, len) = (variable.offset as usize, variable.size.min(8) as usize);
        if let Some(place) = bytes.get_mut(start..start + len) {
            place.copy_from_slice(&value.to_le_bytes()[..len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::tests::target;
    use bpf_object::Object;

    /// The `__SCX_*` variables of an object with their values.
    fn constants(object: &LinkedObject) -> Vec<(String, u64)> {
        let value = |variable: &bpf_object::Variable| {
            let bytes = object.maps[variable.map.0 as usize].initial.as_ref().expect("a data section");
            u64::from_le_bytes(bytes[variable.offset as usize..][..8].try_into().expect("8 bytes"))
        };
        let named = object.variables.iter().filter(|(name, _)| name.starts_with("__SCX_"));
        named.map(|(name, variable)| (name.clone(), value(variable))).collect()
    }

    #[test]
    fn constants_of_every_shipped_policy_are_filled() {
        let (kernel, types) = (target((7, 2)), KernelTypes::of((7, 2)));
        for policy in policies::all() {
            let mut object = Object::parse(policy.object).unwrap().link(&*kernel).unwrap();
            assert!(constants(&object).iter().all(|(_, value)| *value == 0), "{}", policy.name);
            fill_constants(&mut object, &types);
            for (name, value) in constants(&object) {
                assert_eq!(Some(value), types.constant(&name[2..]), "{}: {name}", policy.name);
            }
        }
        let fifo = policies::find("fifo").expect("shipped");
        let mut object = Object::parse(fifo.object).unwrap().link(&*kernel).unwrap();
        fill_constants(&mut object, &types);
        assert!(constants(&object).contains(&("__SCX_SLICE_DFL".to_owned(), 20_000_000)));
    }

    #[test]
    fn constants_that_an_older_kernel_lacks_stay_zero() {
        let bytes = policies::find("fifo").expect("shipped").object;
        let mut object = Object::parse(bytes).unwrap().link(&*target((7, 2))).unwrap();
        // A variable of the object, renamed to a constant that 7.1 added.
        let variable = object.variables.remove("__SCX_SLICE_DFL").expect("fifo uses it");
        object.variables.insert("__SCX_ENQ_IMMED".to_owned(), variable);
        let value_in =
            |object: &LinkedObject| constants(object).iter().find(|one| one.0 == "__SCX_ENQ_IMMED").unwrap().1;
        fill_constants(&mut object, &KernelTypes::of((7, 0)));
        assert_eq!(value_in(&object), 0);
        fill_constants(&mut object, &KernelTypes::of((7, 1)));
        assert_eq!(value_in(&object), 1 << 33);
    }
}
