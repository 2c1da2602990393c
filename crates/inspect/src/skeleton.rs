// SPDX-License-Identifier: GPL-2.0-only
//! The needs of an object's launch profile, and a skeleton of one.

use bpf_object::btf::Type;
use bpf_object::{Function, MapId, MapKind, Object, ProgramKind, Symbol, Variable};
use std::fmt::Write;

/// Arrays that are alone in a section of their own, which user space resizes to the machine.
fn resizable(object: &Object) -> impl Iterator<Item = &str> {
    let alone =
        |variable: &Variable| object.variables().values().filter(|other| other.map == variable.map).count() == 1;
    let custom = |name: &str| [".data.", ".bss.", ".rodata."].iter().any(|start| name.starts_with(start));
    let fits = move |variable: &Variable| {
        custom(&object.maps()[variable.map.0 as usize].name)
            && alone(variable)
            && matches!(object.btf().resolved(variable.type_id), Type::Array { count: 0 | 1, .. })
    };
    // Every loader resizes the exit dump.
    let named = object.variables().iter().filter(|(name, _)| !name.ends_with("_dump"));
    named.filter(move |(_, variable)| fits(variable)).map(|(name, _)| name.as_str())
}

/// Maps whose capacity user space sets.
fn open_maps(object: &Object) -> impl Iterator<Item = &str> {
    let storage = |kind: MapKind| matches!(kind, MapKind::TaskStorage | MapKind::CgroupStorage | MapKind::Arena);
    let open = object.maps().iter().filter(move |map| map.max_entries == 0 && !storage(map.kind));
    open.map(|map| map.name.as_str())
}

fn syscalls(object: &Object) -> impl Iterator<Item = &str> {
    object.programs().filter(|(_, program)| program.kind == ProgramKind::Syscall).map(|(name, _)| name)
}

/// The members of the struct that a `syscall` program takes as its context.
fn context<'o>(object: &'o Object, program: &str) -> Vec<&'o str> {
    let btf = object.btf();
    let members = || {
        let function = btf.find(program, bpf_object::btf::Kind::Func)?;
        let Type::Func { proto, .. } = btf.type_of(function) else { return None };
        let Type::Ptr { target } = btf.resolved(btf.parameters(*proto)?.first()?.type_id) else { return None };
        Some(btf.members(btf.resolve(*target)).iter().map(|member| member.name.as_str()).collect())
    };
    members().unwrap_or_default()
}

/// Maps that no code of the object fills: no function passes them to a helper that stores, or to one that returns a
/// place to store. Their elements come from user space, if they have any.
fn maps_of_user_space(object: &Object) -> impl Iterator<Item = &str> {
    let keyed =
        |kind: MapKind| matches!(kind, MapKind::Hash | MapKind::LruHash | MapKind::Array | MapKind::ArrayOfMaps);
    let maps = object.maps().iter().enumerate().filter(move |(_, map)| map.initial.is_none() && keyed(map.kind));
    maps.filter(|(number, map)| map.inner_maps.is_empty() && only_looked_up(object, *number as u32))
        .map(|(_, map)| map.name.as_str())
}

/// Whether the object's code uses a map in lookups only, and never stores through what they return. Stores are judged
/// coarsely: a function that looks the map up and stores through a register other than the frame counts as storing.
fn only_looked_up(object: &Object, map: u32) -> bool {
    const LOOKUP: i32 = 1;
    const CALL: u8 = 0x85;
    const FRAME: u8 = 10;
    let names = |function: &&Function| function.symbols.values().any(|symbol| *symbol == Symbol::Map(MapId(map)));
    let users: Vec<&Function> = object.functions().iter().filter(names).collect();
    let looks = |function: &&Function| {
        function.symbols.iter().filter(|(_, symbol)| **symbol == Symbol::Map(MapId(map))).all(|(slot, _)| {
            let behind = &function.insns[*slot as usize..];
            behind.iter().find(|insn| insn.code == CALL).is_some_and(|call| call.src == 0 && call.imm == LOOKUP)
        })
    };
    let stores =
        |function: &&Function| function.insns.iter().any(|insn| matches!(insn.code & 7, 2 | 3) && insn.dst != FRAME);
    !users.is_empty() && users.iter().all(looks) && !users.iter().any(stores)
}

/// Values of the machine that a constant's name asks for, by words of the name.
const TABLES: [(&[&str], &str); 8] = [
    (&["cpu", "llc"], "llc-of-cpu"),
    (&["cpu", "node"], "node-of-cpu"),
    (&["cpu", "capacity"], "capacity-of-cpu"),
    (&["nr", "cpu"], "cpus"),
    (&["num", "cpu"], "cpus"),
    (&["nr", "llc"], "llcs"),
    (&["nr", "node"], "nodes"),
    (&["smt", "enabled"], "smt"),
];

/// The value of the machine that a constant of this name probably needs.
fn table_for(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    TABLES.iter().find(|(words, _)| words.iter().all(|word| name.contains(word))).map(|(_, value)| *value)
}

/// Sentences on what user space has to set up for an object.
pub fn wishes(object: &Object) -> Vec<String> {
    let maps = open_maps(object).map(|name| format!("[maps.{name}] max_entries: the object does not set it"));
    let arrays = resizable(object).map(|name| format!("[resize] {name}: the object declares at most one element"));
    let calls = syscalls(object).map(|name| format!("[[call]] {name}, if its user space calls it"));
    let filled = maps_of_user_space(object).map(|name| {
        format!("[[element]] of map {name}: the object only reads it, so its user space may have to fill it")
    });
    let tables = constants(object).filter_map(|(name, _)| {
        Some(format!("[rodata] {name}, by its name a value of the machine ({})", table_for(name)?))
    });
    maps.chain(arrays).chain(filled).chain(tables).chain(calls).collect()
}

/// Constants that user space may set.
fn constants(object: &Object) -> impl Iterator<Item = (&String, &Variable)> {
    let variables = object.variables().iter();
    variables.filter(|(name, one)| one.read_only && !name.starts_with("__SCX_") && !name.contains('.'))
}

/// A skeleton of a launch profile for this object: required settings are present, optional ones are comments.
pub fn profile(name: &str, object: &Object) -> String {
    let mut text = format!(
        "# Launch profile of {name}: see docs/reference/launch-profile.md.\nsummary = \"\"\n\n[ops]\nflags = []\n\n[rodata]\n"
    );
    for (name, variable) in constants(object) {
        match super::value(object, variable).as_str() {
            "?" => drop(writeln!(text, "# {name}: a type that a profile sets by members or elements")),
            value => drop(writeln!(text, "# {name} = {value}")),
        }
    }
    let mut arrays = resizable(object).peekable();
    if arrays.peek().is_some() {
        text.push_str("\n[resize]\n");
        for name in arrays {
            let _ = writeln!(text, "{name} = {{ machine = \"cpus\" }}");
        }
    }
    for name in open_maps(object) {
        let _ = writeln!(text, "\n[maps.{name}]\nmax_entries = {{ machine = \"cpus\" }}");
    }
    for program in syscalls(object) {
        let members = context(object, program);
        let members: Vec<String> = members.iter().map(|member| format!("{member} = 0")).collect();
        let _ = writeln!(text, "\n# [[call]]\n# program = \"{program}\"");
        if !members.is_empty() {
            let _ = writeln!(text, "# context = {{ {} }}", members.join(", "));
        }
    }
    text
}
