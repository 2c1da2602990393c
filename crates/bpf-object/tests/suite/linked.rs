// SPDX-License-Identifier: GPL-2.0-only
//! Statically linked objects, arenas, and invalid objects.

use crate::common;

use bpf_object::{MapKind, Object, ObjectError, Symbol};
use common::{ToyKernel, bpftool_link, compile, compile_with, compilers, function, link};

#[test]
fn static_linking_keeps_equally_named_statics_of_two_files_separate() {
    let Some(bytes) = bpftool_link(&[compile("part_a"), compile("part_b")]) else { return };
    let object = link(&bytes);
    assert_eq!(object.struct_ops[0].type_name, "sched_ext_ops");
    let bumps: Vec<u32> = (0..).zip(&object.functions).filter(|(_, f)| f.name == "bump").map(|(id, _)| id).collect();
    assert_eq!(bumps.len(), 2);
    let called = |name: &str| -> Vec<u32> {
        let calls = function(&object, name).symbols.values();
        calls.filter_map(|symbol| if let Symbol::Function(id) = symbol { Some(id.0) } else { None }).collect()
    };
    let name = |id: u32| object.functions[id as usize].name.as_str();
    let from_enqueue = called("link_enqueue");
    assert_eq!(from_enqueue.iter().map(|id| name(*id)).collect::<Vec<_>>(), ["bump", "from_b", "choose"]);
    assert_eq!(from_enqueue[0], bumps[0]);
    assert_eq!(called("from_b"), [bumps[1]]);
    // Each `bump` changes the counter of its own file.
    let counter = |id: u32| {
        let symbols = &object.functions[id as usize].symbols;
        let Some(Symbol::MapValue { map, offset }) = symbols.values().next() else { panic!("{symbols:?}") };
        let bytes = object.maps[map.0 as usize].initial.as_ref().unwrap();
        bytes[*offset as usize]
    };
    assert_eq!((counter(bumps[0]), counter(bumps[1])), (11, 22));
    // The strong `choose` (`return 2`) replaced the weak one.
    let choose = &function(&object, "choose").insns;
    assert_eq!((choose.len(), choose[0].imm), (2, 2));
    assert!(!function(&object, "from_b").global, "hidden functions count as static");
    // The CO-RE relocations of both files are kept.
    assert_eq!(function(&object, "link_enqueue").kernel_loads.len(), 1);
    assert_eq!(function(&object, "from_b").kernel_loads.len(), 1);
    let shared = &object.variables["shared"];
    let data = object.maps[shared.map.0 as usize].initial.as_ref().unwrap();
    assert_eq!(data[shared.offset as usize], 42);
    assert!(["map_a", "map_b"].iter().all(|name| object.maps.iter().any(|map| map.name == *name)));
}

#[test]
fn object_with_an_undefined_symbol_is_rejected() {
    let error = Object::parse(&compile("part_a")).unwrap_err().to_string();
    assert!(error.contains("neither defined nor, in the object's BTF, declared"), "{error}");
    assert!(error.contains("from_b") || error.contains("shared"), "{error}");
}

#[test]
fn arena_variables_become_the_initial_value_of_the_arena_map() {
    for clang in compilers().iter().filter(|clang| clang.ends_with("18") || clang.ends_with("19")) {
        let object = link(&compile_with(clang, "arena", &["-mcpu=v3"]));
        let [arena] = &object.maps[..] else { panic!("{:?}", object.maps) };
        assert_eq!((arena.kind, arena.max_entries, arena.flags), (MapKind::Arena, 1 << 20, 1024));
        assert_eq!(arena.extra, 1 << 44);
        let first = &object.variables["first"];
        assert_eq!(arena.initial.as_ref().unwrap()[first.offset as usize], 5);
        assert_eq!(arena.initial.as_ref().unwrap().len(), 40);
        let symbols: Vec<&Symbol> = function(&object, "touch").symbols.values().collect();
        assert!(
            symbols.iter().any(|symbol| matches!(symbol, Symbol::MapValue { map, .. } if map.0 == 0)),
            "{symbols:?}"
        );
    }
}

/// Compiles C text with `test.bpf.h` included.
fn compile_text(name: &str, text: &str) -> Vec<u8> {
    let header = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects/test.bpf.h");
    let source = common::scratch(&format!("{name}.c"));
    std::fs::write(&source, format!("#include \"{}\"\n{text}\n", header.display())).unwrap();
    let file = common::scratch(&format!("{name}.o"));
    let out = std::process::Command::new(&compilers()[0])
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&file)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    std::fs::read(file).unwrap()
}

#[test]
fn invalid_map_and_struct_ops_definitions_are_rejected_with_the_reason() {
    let map = |body: &str| format!("struct {{ {body} }} odd SEC(\".maps\");");
    for (name, text, says) in [
        ("type", map("__uint(max_entries, 1);"), "map odd: the attribute `type` is missing"),
        ("kind", map("__uint(type, 99); __uint(max_entries, 1);"), "map type 99 is unknown"),
        ("size", map("__uint(type, 1); __uint(key_size, 4); __type(key, u64);"), "contradicts key size 4"),
        ("attribute", map("__uint(type, 1); __uint(color, 4);"), "unknown attribute \"color\""),
        (
            "values",
            map("__uint(type, 1); struct { __uint(type, 2); } *values[];"),
            "`values` is required for a map of maps",
        ),
        (
            "legacy",
            "struct { int type; } old SEC(\"maps\") = { 1 };".to_string(),
            "map definitions in the legacy format",
        ),
        (
            "pointer",
            "char x[] = \"x\"; SEC(\".struct_ops\") struct sched_ext_ops o = { .priv = x };".to_string(),
            "the address of a function only",
        ),
        (
            "section",
            "__noinline int f(void) { return 1; } SEC(\".struct_ops\") struct sched_ext_ops o = { .init = (void *)f };"
                .to_string(),
            "must be in a section struct_ops",
        ),
        ("arena", "__attribute__((address_space(1))) u64 lost = 5;".to_string(), "the object has no arena map"),
    ] {
        let error = Object::parse(&compile_text(name, &text)).unwrap_err();
        assert!(matches!(error, ObjectError::Malformed { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains(says), "{name}: {error} does not say {says:?}");
    }
}

#[test]
fn object_without_btf_is_rejected_with_the_compiler_option() {
    let header = compile_with(&compilers()[0], "part_b", &["-mcpu=v3", "-g0"]);
    let error = Object::parse(&header).unwrap_err().to_string();
    assert!(error.contains("compile with -g"), "{error}");
}

#[test]
fn strong_kconfig_extern_that_the_kernel_does_not_set_is_rejected() {
    let text = "extern int CONFIG_UNSET __kconfig; SEC(\"syscall\") int f(void *c) { return CONFIG_UNSET; }";
    let object = Object::parse(&compile_text("kconfig", text)).unwrap();
    let error = object.link(&ToyKernel::default()).unwrap_err().to_string();
    assert_eq!(error, "the kernel has no kconfig value CONFIG_UNSET");
}
