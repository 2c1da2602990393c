// SPDX-License-Identifier: GPL-2.0-only
//! Decides whether a scheduler could notice that ticks are skipped.
//!
//! 1. A tick updates the usage of the running task: `p->scx.slice` and `p->se.sum_exec_runtime`. A scheduler that
//!    reads these of a running task sees the last tick.
//! 2. The expiry of a slice is detected at a tick. A scheduler that sets the slice of a task running on another CPU
//!    to 0, without kicking that CPU, relies on that.
//!
//! Code that neither accesses these fields nor sets slices by kfunc can do neither. Objects name the fields that they
//! access; one that names no member of a task at all was compiled with fixed offsets, so the check searches its code
//! for accesses at the offset of such a field, whatever the base; a false positive only costs speed.

use bpf_object::btf::{Btf, Kind};
use bpf_object::{Insn, LinkedObject, MemberAccess, MemberUse};

/// Kfuncs that set the slice of any task.
const SLICE_KFUNCS: [&str; 1] = ["scx_bpf_task_set_slice"];

/// Fields of a task that ticks change.
const FIELDS: [[&str; 2]; 2] = [["scx", "slice"], ["se", "sum_exec_runtime"]];

/// Classes of BPF instructions: loads, stores, and additions or moves of an immediate, which compute addresses.
const LDX: u8 = 1;
const ST: u8 = 2;
const STX: u8 = 3;
const ADDRESS_MAKERS: [u8; 3] = [0x07, 0xb7, 0x18];

/// Structs that a program names when it accesses these fields, with what it names in them.
const NAMED: [(&str, &[&str]); 3] = [
    ("task_struct", &["scx", "scx.slice", "se", "se.sum_exec_runtime"]),
    ("sched_ext_entity", &["slice"]),
    ("sched_entity", &["sum_exec_runtime"]),
];

/// Whether the code accesses fields that ticks change. `kernel` has the types that the object was linked against.
pub(crate) fn touches_what_ticks_change(object: &LinkedObject, kernel: &Btf) -> bool {
    let offsets: Vec<i64> = FIELDS.iter().filter_map(|path| offset(kernel, path)).collect();
    let touches = |insn: &Insn| match insn.code & 7 {
        LDX | ST | STX => offsets.contains(&i64::from(insn.off)),
        _ => ADDRESS_MAKERS.contains(&insn.code) && offsets.contains(&i64::from(insn.imm)),
    };
    let sets_slices = |kfunc: &bpf_object::KfuncRef| kfunc.present && SLICE_KFUNCS.contains(&kfunc.name.as_str());
    let names_members = object.members.iter().any(|used| used.structure == "task_struct");
    object.kfuncs.iter().any(sets_slices)
        || object.members.iter().any(is_named)
        || !names_members && object.functions.iter().flat_map(|function| &function.insns).any(touches)
}

/// Whether this is an access to a field that ticks change, or to a struct that holds one.
fn is_named(used: &MemberUse) -> bool {
    let accesses = matches!(used.access, MemberAccess::Load | MemberAccess::Store | MemberAccess::Address);
    let is_one =
        |(structure, paths): &(&str, &[&str])| used.structure == *structure && paths.contains(&used.path.as_str());
    accesses && used.present && NAMED.iter().any(is_one)
}

/// Offset in bytes of a member of a member of `task_struct`.
fn offset(kernel: &Btf, [outer, inner]: &[&str; 2]) -> Option<i64> {
    let task = kernel.find("task_struct", Kind::Struct)?;
    let outer = kernel.member(task, outer)?;
    let inner = kernel.member(outer.member.type_id, inner)?;
    Some((outer.byte_offset() + inner.byte_offset()) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf_object::btf::{BtfBuilder, Member};
    use bpf_object::{Function, KfuncRef};
    use std::collections::BTreeMap;

    /// `scx.slice` at 48 + 8, `se.sum_exec_runtime` at 16.
    fn kernel() -> Btf {
        let mut btf = BtfBuilder::new();
        let u64 = btf.int("u64", 8, false);
        let scx = btf.structure("sched_ext_entity", 16, vec![Member::at("dsq", 0, u64), Member::at("slice", 8, u64)]);
        let se = btf.structure("sched_entity", 8, vec![Member::at("sum_exec_runtime", 0, u64)]);
        btf.structure("task_struct", 64, vec![Member::at("se", 16, se), Member::at("scx", 48, scx)]);
        btf.build()
    }

    fn object(insn: Insn, kfunc: &str) -> LinkedObject {
        LinkedObject {
            license: String::new(),
            functions: vec![Function {
                name: String::new(),
                insns: vec![insn],
                symbols: BTreeMap::new(),
                kernel_loads: Vec::new(),
                inlined: Vec::new(),
                lines: Vec::new(),
                global: false,
                arguments: 1,
            }],
            programs: Vec::new(),
            maps: Vec::new(),
            kfuncs: vec![KfuncRef {
                name: kfunc.to_owned(),
                spelled: kfunc.to_owned(),
                weak: true,
                present: true,
                parameters: 2,
            }],
            members: Vec::new(),
            struct_ops: Vec::new(),
            variables: BTreeMap::new(),
            btf: Btf::default(),
        }
    }

    #[test]
    fn accesses_to_tick_fields_are_detected() {
        let insn = |code, off, imm| Insn { code, dst: 1, src: 2, off, imm };
        let cases = [
            (insn(0x79, 56, 0), true),  // r1 = *(u64 *)(r2 + 56)
            (insn(0x7b, 56, 0), true),  // *(u64 *)(r1 + 56) = r2
            (insn(0x7a, 16, 0), true),  // *(u64 *)(r1 + 16) = 0
            (insn(0x07, 0, 56), true),  // r1 += 56
            (insn(0xb7, 0, 16), true),  // r1 = 16
            (insn(0x7b, 48, 0), false), // another field
            (insn(0x55, 56, 0), false), // a jump over 56
            (insn(0x17, 0, 56), false), // r1 -= 56
        ];
        for (insn, expected) in cases {
            assert_eq!(touches_what_ticks_change(&object(insn, "scx_bpf_kick_cpu"), &kernel()), expected, "{insn:?}");
        }
        let exit = insn(0x95, 0, 0);
        assert!(touches_what_ticks_change(&object(exit, "scx_bpf_task_set_slice"), &kernel()));
    }

    /// An offset that another struct has too does not count where the object names its members.
    #[test]
    fn offset_counts_as_a_tick_field_only_if_the_named_member_is_one() {
        let load = Insn { code: 0x79, dst: 1, src: 2, off: 56, imm: 0 };
        let named = |path: &str, access| {
            let function = bpf_object::FunctionId(0);
            let (structure, path) = ("task_struct".to_owned(), path.to_owned());
            let members = vec![MemberUse { function, slot: 0, structure, path, access, present: true }];
            LinkedObject { members, ..object(load, "scx_bpf_kick_cpu") }
        };
        let touches = |object: &LinkedObject| touches_what_ticks_change(object, &kernel());
        assert!(touches(&named("scx.slice", MemberAccess::Load)));
        assert!(touches(&named("se.sum_exec_runtime", MemberAccess::Address)));
        assert!(!touches(&named("scx.slice", MemberAccess::Exists)));
        assert!(!touches(&named("pid", MemberAccess::Load)));
    }
}
