// SPDX-License-Identifier: GPL-2.0-only
//! Every kind of CO-RE relocation, against a kernel whose types all differ from those of the object.

use crate::common::{ToyKernel, compile_with, compilers, function, link};
use bpf_object::btf::Kind;
use bpf_object::{Insn, LinkedObject, Symbol, Target};

const LD_IMM64: u8 = 0x18;

/// The value in the function's first relocated instruction, or the text of its poison.
fn relocated_value(object: &LinkedObject, name: &str) -> Result<u64, String> {
    let function = function(object, name);
    let slot = function
        .insns
        .iter()
        .position(|insn| insn.code & 7 != 5)
        .expect("the function has an instruction that is not a jump");
    if let Some(Symbol::Poison(text)) = function.symbols.get(&(slot as u32)) {
        return Err(text.clone());
    }
    let low = u64::from(function.insns[slot].imm as u32);
    let wide = function.insns[slot].code == LD_IMM64;
    Ok(if wide { low | u64::from(function.insns[slot + 1].imm as u32) << 32 } else { low })
}

#[test]
fn core_relocations_give_the_values_of_the_kernels_types() {
    let kernel = ToyKernel::default();
    for clang in compilers() {
        let object = link(&compile_with(&clang, "core", &["-mcpu=v3"]));
        for (name, expected) in [
            ("offset_of_scx", 1000),
            ("offset_of_slice", 1008),
            ("offset_in_anonymous", 2052),
            ("offset_of_char", 1305),
            ("offset_of_second", 4096 + 44),
            ("size_of_scx", 64),
            ("size_of_comm", 16),
            ("exists_pid", 1),
            ("exists_far_char", 0),
            ("exists_as_pointer", 0),
            ("exists_nested", 1),
            ("signed_pid", 1),
            ("signed_flags", 0),
            ("low_offset", 1700),
            ("low_size", 4),
            ("low_lshift", 56),
            ("low_rshift", 59),
            ("low_signed", 0),
            ("wide_offset", 1704),
            ("wide_size", 8),
            ("wide_lshift", 25),
            ("wide_rshift", 55),
            ("wide_signed", 1),
            ("pid_lshift", 32),
            ("pid_rshift", 32),
            ("type_exists", 1),
            ("type_absent", 0),
            ("type_size", 64),
            ("type_size_absent", 0),
            ("type_typedef", 1),
            ("type_matches", 1),
            ("type_matches_array", 1),
            ("type_differs", 0),
            ("type_id_kernel", u64::from(kernel.btf().find("task_struct", Kind::Struct).unwrap())),
            ("type_id_local", u64::from(object.btf.find("absent", Kind::Struct).unwrap())),
            ("enum_wide", 0x1234_5678_9abc_def0),
            ("enum_wide_exists", 1),
            ("enum_wide_absent", 0),
            ("enum_value", 3),
        ] {
            assert_eq!(relocated_value(&object, name), Ok(expected), "{clang}: {name}");
        }
        let never = relocated_value(&object, "enum_never").unwrap_err();
        let expected = "enum scx_flags___here.SCX_NEVER___here is not in this kernel: \
                        enum scx_flags has no SCX_NEVER (CO-RE access 1)";
        assert_eq!(never, expected);
    }
}

#[test]
fn core_loads_and_stores_take_the_offset_and_size_of_the_kernels_field() {
    for clang in compilers() {
        let object = link(&compile_with(&clang, "core", &["-mcpu=v3"]));
        let first = |name: &str| function(&object, name).insns[0];
        // An unsigned field of 4 bytes in the object that has 8 bytes in the kernel: `ldxw` becomes `ldxdw`.
        let grown = Insn { code: 0x79, dst: 0, src: 1, off: 1500, imm: 0 };
        assert_eq!(first("load_grown"), grown, "{clang}");
        let stores = &function(&object, "store_grown").insns;
        assert!(stores.iter().any(|insn| insn.code == 0x7b && insn.off == 1500), "{clang}: {stores:?}");
        assert_eq!(first("load_pointer").off, 1400, "{clang}");
        for (name, says) in [
            ("load_grown_signed", "struct task_struct.tgid has 8 bytes in this kernel, not 4 (CO-RE access 0:8)"),
            ("load_far", "struct task_struct___more.far is at offset 40000 in this kernel"),
            ("load_absent", "struct absent.x is not in this kernel: it has no struct absent (CO-RE access 0:0)"),
        ] {
            let text = relocated_value(&object, name).unwrap_err();
            assert!(text.contains(says), "{clang}: {text:?} does not say {says:?}");
            assert!(function(&object, name).kernel_loads.is_empty(), "{clang}: {name}");
        }
        assert_eq!(function(&object, "load_grown").kernel_loads, [0], "{clang}");
    }
}
