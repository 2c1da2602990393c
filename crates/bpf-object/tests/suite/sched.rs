// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler of `objects/sched.bpf.c`, compiled by every installed compiler and linked by the static linker.

use crate::common::{ToyKernel, bpftool_link, compile_with, compilers, function, link};
use bpf_object::btf::Kind;
use bpf_object::{FunctionId, LinkedObject, MapKind, MemberValue, Object, ObjectError, ProgramKind, Symbol};
use std::sync::OnceLock;

/// The object in all variants: from each compiler, for instruction sets v3 and v4, and statically linked.
fn variants() -> &'static [(String, Vec<u8>)] {
    static VARIANTS: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    VARIANTS.get_or_init(|| {
        let mut variants = Vec::new();
        for clang in compilers() {
            variants.push((format!("{clang} v3"), compile_with(&clang, "sched", &["-mcpu=v3"])));
            // Instruction set v4 needs clang 18 or later.
            if clang.ends_with("18") || clang.ends_with("19") {
                variants.push((format!("{clang} v4"), compile_with(&clang, "sched", &["-mcpu=v4"])));
            }
        }
        let linked = bpftool_link(&[variants[0].1.clone()]);
        variants.extend(linked.map(|bytes| ("bpftool gen object".to_string(), bytes)));
        variants
    })
}

/// The object of the newest compiler.
fn sched() -> &'static [u8] {
    &variants()[0].1
}

fn map_name(object: &LinkedObject, symbol: &Symbol) -> String {
    match symbol {
        Symbol::Map(id) => format!("map {}", object.maps[id.0 as usize].name),
        Symbol::MapValue { map, offset } => format!("{}+{offset}", object.maps[map.0 as usize].name),
        Symbol::Function(id) => format!("function {}", object.functions[id.0 as usize].name),
        Symbol::Kfunc(id) => format!("kfunc {}", object.kfuncs[*id as usize].spelled),
        Symbol::KfuncAddress(id) => format!("address of {}", object.kfuncs[*id as usize].spelled),
        Symbol::KernelVariable(name) => format!("variable {name}"),
        Symbol::Poison(text) => format!("poison: {text}"),
    }
}

/// Names of all objects that a function refers to, in the order of its code.
fn references(object: &LinkedObject, name: &str) -> Vec<String> {
    function(object, name).symbols.values().map(|symbol| map_name(object, symbol)).collect()
}

fn location(object: &LinkedObject, variable: &str) -> String {
    let variable = &object.variables[variable];
    format!("{}+{}", object.maps[variable.map.0 as usize].name, variable.offset)
}

#[test]
fn section_name_and_visibility_distinguish_programs_from_subprograms() {
    for (variant, bytes) in variants() {
        let object = link(bytes);
        assert_eq!(object.license, "GPL", "{variant}");
        let mut programs: Vec<(String, ProgramKind, bool)> = object
            .programs
            .iter()
            .map(|p| (object.functions[p.function.0 as usize].name.clone(), p.kind.clone(), p.autoload))
            .collect();
        programs.sort_by(|a, b| a.0.cmp(&b.0));
        let op = |name: &str, autoload| (name.to_string(), ProgramKind::StructOps { sleepable: false }, autoload);
        let expected = vec![
            op("toy_dispatch", false),
            op("toy_enqueue", true),
            op("toy_exit", true),
            ("toy_init".to_string(), ProgramKind::StructOps { sleepable: true }, true),
            op("toy_select_cpu", true),
            ("tune".to_string(), ProgramKind::Syscall, true),
        ];
        assert_eq!(programs, expected, "{variant}");
        let shape = |name| (function(&object, name).global, function(&object, name).arguments);
        assert_eq!(shape("global_sum"), (true, 2), "{variant}");
        assert_eq!(shape("scaled"), (false, 2), "{variant}");
        assert_eq!(shape("on_tick"), (false, 3), "{variant}");
        assert_eq!(object.functions.len(), 10, "{variant}");
        for function in &object.functions {
            assert_eq!(
                function.insns.last().map(|insn| insn.code),
                Some(0x95),
                "{variant}: {} ends in exit",
                function.name
            );
        }
    }
}

#[test]
fn maps_are_read_from_btf() {
    for (variant, bytes) in variants() {
        let object = link(bytes);
        let map =
            |name: &str| object.maps.iter().find(|map| map.name == name).unwrap_or_else(|| panic!("{variant}: {name}"));
        let shape = |name: &str| {
            let map = map(name);
            (map.kind, map.key_size, map.value_size, map.max_entries, map.flags)
        };
        assert_eq!(shape("task_ctxs"), (MapKind::TaskStorage, 4, 16, 0, 1), "{variant}");
        assert_eq!(shape("by_pid"), (MapKind::Hash, 8, 24, 512, 0), "{variant}");
        assert_eq!(shape("waiting"), (MapKind::Queue, 0, 4, 4096, 0), "{variant}");
        assert_eq!(shape("ticks"), (MapKind::Array, 4, 24, 1, 0), "{variant}");
        assert_eq!(object.btf.type_of(map("ticks").value_type).name(), "tick", "{variant}");
        assert_eq!(shape("outer"), (MapKind::ArrayOfMaps, 4, 4, 4, 0), "{variant}");
        let inner = map("outer").inner.as_ref().unwrap();
        assert_eq!((inner.kind, inner.value_size, inner.max_entries), (MapKind::Array, 8, 3), "{variant}");
        let slots: Vec<(u32, &str)> = map("outer")
            .inner_maps
            .iter()
            .map(|(slot, id)| (*slot, object.maps[id.0 as usize].name.as_str()))
            .collect();
        assert_eq!(slots, [(0, "inner_a"), (2, "inner_b")], "{variant}");
        assert_eq!(shape(".rodata"), (MapKind::Array, 4, 37, 1, 0x80), "{variant}");
        assert!(map(".rodata").read_only && map(".kconfig").read_only && !map(".data").read_only, "{variant}");
        assert_eq!(map(".bss").initial, Some(vec![0; 12]), "{variant}");
        assert_eq!(object.btf.type_of(map(".bss").value_type).kind(), Kind::Datasec, "{variant}");
    }
}

#[test]
fn global_variables_have_the_offsets_and_values_of_the_source() {
    for (variant, bytes) in variants() {
        let object = link(bytes);
        let value = |name: &str| {
            let variable = &object.variables[name];
            let start = variable.offset as usize;
            let bytes = object.maps[variable.map.0 as usize].initial.as_ref().unwrap();
            bytes[start..start + variable.size as usize].to_vec()
        };
        assert_eq!(value("slice_us"), 20_000u32.to_le_bytes(), "{variant}");
        assert_eq!(value("vtime_now"), 0x1122_3344_5566_7788u64.to_le_bytes(), "{variant}");
        assert_eq!(value("nr_local"), 7u64.to_le_bytes(), "{variant}");
        assert_eq!(value("__SCX_SLICE_DFL"), [0; 8], "{variant}");
        assert_eq!(value("tune.words"), b"alpha\0beta\0\0", "{variant}");
        assert_eq!(location(&object, "uei_dump"), ".data.uei_dump+0", "{variant}");
        let distinct: std::collections::BTreeSet<String> =
            ["slice_us", "__SCX_SLICE_DFL", "__SCX_ENQ_HEAD", "verbose"].map(|name| location(&object, name)).into();
        assert_eq!(distinct.len(), 4, "{variant}: {distinct:?}");
        assert!(object.variables["__SCX_ENQ_HEAD"].read_only && !object.variables["nr_queued"].read_only, "{variant}");
        assert!(!object.variables.contains_key("CONFIG_HZ") && !object.variables.contains_key("by_pid"), "{variant}");
    }
}

#[test]
fn struct_ops_members_are_read_with_their_names_and_values() {
    for (variant, bytes) in variants() {
        let object = link(bytes);
        let [ops] = &object.struct_ops[..] else { panic!("{variant}: one table expected") };
        assert_eq!((ops.name.as_str(), ops.type_name.as_str()), ("toy_ops", "sched_ext_ops"), "{variant}");
        let members: Vec<(&str, String)> = ops
            .members
            .iter()
            .map(|member| {
                let value = match &member.value {
                    MemberValue::Function(id) => object.functions[id.0 as usize].name.clone(),
                    MemberValue::Number(number) => format!("{number:#x}"),
                    MemberValue::Bytes(bytes) => format!("{} bytes {:?}", bytes.len(), &bytes[..4]),
                };
                (member.name.as_str(), value)
            })
            .collect();
        let expected = [
            ("select_cpu", "toy_select_cpu"),
            ("enqueue", "toy_enqueue"),
            ("dispatch", "toy_dispatch"),
            ("init", "toy_init"),
            ("exit", "toy_exit"),
            ("flags", "0x100000004"),
            ("timeout_ms", "0x1388"),
            ("name", "128 bytes [116, 111, 121, 0]"),
        ]
        .map(|(name, value)| (name, value.to_string()));
        assert_eq!(members, expected, "{variant}");
    }
}

#[test]
fn symbols_of_instructions_name_the_referenced_maps_functions_and_kfuncs() {
    for (variant, bytes) in variants() {
        let object = link(bytes);
        let own = |variable: &str| location(&object, variable);
        let is = |name: &str, expected: &[&str]| assert_eq!(references(&object, name), expected, "{variant}: {name}");
        is("global_sum", &[&own("nr_local"), "function second_static"]);
        is("second_static", &[&own("nr_calls")]);
        is("scaled", &[&own("nr_calls")]);
        is(
            "toy_enqueue",
            &[
                "map task_ctxs",
                &own("__SCX_SLICE_DFL"),
                "function scaled",
                &own("slice_us"),
                &own("vtime_now"),
                &own("nr_queued"),
                "map waiting",
                "address of scx_bpf_dsq_insert___v2",
                &own("__SCX_SLICE_DFL"),
                &own("__SCX_ENQ_HEAD"),
                "kfunc scx_bpf_dsq_insert___v2",
                "address of scx_bpf_dsq_insert___v1",
                &own("__SCX_SLICE_DFL"),
                "kfunc scx_bpf_dsq_insert___v1",
                "address of scx_bpf_gone",
                "kfunc scx_bpf_gone",
            ],
        );
        let config = |variable: &str| references(&object, "toy_init").iter().any(|name| name == variable);
        assert!(config("function on_tick") && config("variable runqueues") && config("map ticks"), "{variant}");
        assert!(!config("variable no_such_variable"), "{variant}");
        assert_eq!(references(&object, "tune"), [own("tune.words"), "function global_sum".to_string()], "{variant}");
    }
}

#[test]
fn kfuncs_are_looked_up_without_their_flavor() {
    let object = link(sched());
    let kfunc = |spelled: &str| {
        let kfunc = object.kfuncs.iter().find(|kfunc| kfunc.spelled == spelled).unwrap();
        (kfunc.name.as_str(), kfunc.parameters, kfunc.weak, kfunc.present)
    };
    assert_eq!(kfunc("scx_bpf_dsq_insert___v2"), ("scx_bpf_dsq_insert", 4, true, true));
    assert_eq!(kfunc("scx_bpf_create_dsq"), ("scx_bpf_create_dsq", 2, false, true));
    // The toy kernel's kfunc has two parameters, the object calls it with one.
    assert_eq!(kfunc("scx_bpf_dsq_move_to_local"), ("scx_bpf_dsq_move_to_local", 1, true, false));
    assert_eq!(kfunc("scx_bpf_gone"), ("scx_bpf_gone", 2, true, false));
}

#[test]
fn kfunc_with_a_different_return_type_counts_as_absent() {
    let bytes = sched().to_vec();
    let present = |result_is_int: bool| {
        let mut kernel = ToyKernel::default();
        let mut b = bpf_object::btf::BtfBuilder::new();
        let result = if result_is_int { b.bool("bool") } else { 0 };
        let number = b.int("unsigned long", 8, false);
        let task = b.structure("task_struct", 8, vec![]);
        let task = b.pointer(task);
        let proto = b.func_proto(result, &[("p", task), ("dsq", number), ("slice", number), ("flags", number)]);
        b.function("scx_bpf_dsq_insert", proto);
        kernel.btf = b.build();
        let object = Object::parse(&bytes).unwrap().link(&kernel).unwrap();
        let find = |name: &str| object.kfuncs.iter().find(|kfunc| kfunc.spelled == name).unwrap().present;
        (find("scx_bpf_dsq_insert___v1"), find("scx_bpf_dsq_insert___v2"))
    };
    assert_eq!(present(true), (false, true));
    assert_eq!(present(false), (true, false));
}

#[test]
fn kconfig_map_holds_the_values_of_the_kernel() {
    let object = link(sched());
    let map = object.maps.iter().find(|map| map.name == ".kconfig").unwrap();
    let bytes = map.initial.as_ref().unwrap();
    let mut words: Vec<&[u8]> = Vec::new();
    for symbol in function(&object, "toy_init").symbols.values() {
        if let Symbol::MapValue { map, offset } = symbol
            && object.maps[map.0 as usize].name == ".kconfig"
        {
            words.push(&bytes[*offset as usize..]);
        }
    }
    assert_eq!(words[0][..4], 0x70200u32.to_le_bytes());
    assert_eq!(words[1][..4], 1000u32.to_le_bytes());
    assert_eq!(words[2][..8], [0; 8]);
    assert_eq!(words[3][0], 1);
    assert_eq!(words[4][..64], [0; 64]);
}

#[test]
fn missing_externs_are_listed_in_one_error() {
    let object = Object::parse(sched()).unwrap();
    let mut kernel = ToyKernel::default();
    kernel.kfuncs.clear();
    kernel.variables.clear();
    kernel.kconfig.clear();
    let error = object.link(&kernel).unwrap_err().to_string();
    for part in
        ["kfunc scx_bpf_create_dsq with 2 parameters", "variable runqueues", "LINUX_KERNEL_VERSION", "CONFIG_HZ"]
    {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("CONFIG_ABSENT") && !error.contains("scx_bpf_gone"), "{error}");
    let kernel =
        ToyKernel { kconfig: vec![("CONFIG_HZ", 1 << 32), ("LINUX_KERNEL_VERSION", 1)], ..ToyKernel::default() };
    let error = object.link(&kernel).unwrap_err().to_string();
    assert!(error.contains("CONFIG_HZ is 4294967296"), "{error}");
}

#[test]
fn instructions_have_the_line_and_column_of_the_source() {
    let source = include_str!("../objects/sched.bpf.c");
    let expected = 1 + source.lines().position(|line| line.contains("return delta * 100")).unwrap();
    for (variant, bytes) in variants() {
        let object = link(bytes);
        let scaled = function(&object, "scaled");
        let division = scaled.insns.iter().position(|insn| insn.code == 0x3f).unwrap();
        let line = scaled.lines.iter().rfind(|line| line.insn as usize <= division).unwrap();
        assert_eq!(
            (line.line as usize, line.text.as_str()),
            (expected, "\treturn delta * 100 / p->scx.weight;"),
            "{variant}"
        );
        assert!(line.text[line.column as usize - 1..].starts_with("/ p->scx"), "{variant}: column {}", line.column);
        assert!(scaled.lines.iter().all(|line| line.file.ends_with("sched.bpf.c")), "{variant}");
    }
}

#[test]
fn field_offsets_are_those_of_the_kernels_types() {
    for (variant, bytes) in variants() {
        let object = link(bytes);
        let offs = |name: &str| {
            let function = function(&object, name);
            function.kernel_loads.iter().map(|slot| function.insns[*slot as usize].off).collect::<Vec<i16>>()
        };
        assert_eq!(offs("scaled"), [1028], "{variant}");
        assert_eq!(offs("toy_select_cpu"), [1216, 1200, 8, 2052], "{variant}");
        let stores: Vec<i16> = function(&object, "toy_enqueue")
            .insns
            .iter()
            .filter(|insn| insn.code == 0x7b && insn.dst == 6)
            .map(|insn| insn.off)
            .collect();
        assert_eq!(stores, [1008, 1016], "{variant}");
        let poisons: Vec<&Symbol> = function(&object, "toy_exit")
            .symbols
            .values()
            .filter(|symbol| matches!(symbol, Symbol::Poison(_)))
            .collect();
        let [Symbol::Poison(text)] = poisons[..] else { panic!("{variant}: {poisons:?}") };
        let expected = "struct task_struct___new.not_there is not in this kernel: \
                        struct task_struct has no member not_there (CO-RE access 0:0)";
        assert_eq!(text, expected, "{variant}");
        assert_eq!(offs("toy_exit"), [16], "{variant}");
    }
}

#[test]
fn every_call_of_a_function_or_kfunc_has_a_symbol() {
    for (variant, bytes) in variants() {
        let object = link(bytes);
        for function in &object.functions {
            let call = |slot: usize| function.insns[slot].code == 0x85 && function.insns[slot].src != 0;
            for slot in (0..function.insns.len()).filter(|slot| call(*slot)) {
                assert!(function.symbols.contains_key(&(slot as u32)), "{variant}: {}+{slot}", function.name);
            }
        }
        assert!(object.programs.iter().all(|program| program.function < FunctionId(object.functions.len() as u32)));
    }
}

#[test]
fn files_that_are_not_bpf_objects_are_rejected() {
    let good = sched().to_vec();
    let mut x86 = good.clone();
    x86[18] = 62;
    let mut big = good.clone();
    big[5] = 2;
    let mut shared = good.clone();
    shared[16] = 3;
    for (bytes, says) in [
        (&b""[..], "not a BPF object"),
        (&b"int main;"[..], "not a BPF object"),
        (&x86[..], "(BPF) expected, 62 found"),
        (&big[..], "big-endian"),
        (&shared[..], "relocatable"),
        (&good[..good.len() / 2], "not a BPF object"),
    ] {
        let error = Object::parse(bytes).unwrap_err();
        assert!(matches!(error, ObjectError::Elf(_)), "{error:?}");
        assert!(error.to_string().contains(says), "{error} does not say {says:?}");
    }
}
