// SPDX-License-Identifier: GPL-2.0-only
//! The needs of an object's launch profile, and a skeleton of one.

use bpf_object::btf::Type;
use bpf_object::{MapKind, Object, ProgramKind, Variable};
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

/// Sentences on what user space has to set up for an object.
pub fn wishes(object: &Object) -> Vec<String> {
    let maps = open_maps(object).map(|name| format!("[maps.{name}] max_entries: the object does not set it"));
    let arrays = resizable(object).map(|name| format!("[resize] {name}: the object declares at most one element"));
    let calls = syscalls(object).map(|name| format!("[[call]] {name}, if its user space calls it"));
    maps.chain(arrays).chain(calls).collect()
}

/// A skeleton of a launch profile for this object: required settings are present, optional ones are comments.
pub fn profile(name: &str, object: &Object) -> String {
    let mut text = format!(
        "# Launch profile of {name}: see docs/reference/launch-profile.md.\nsummary = \"\"\n\n[ops]\nflags = []\n\n[rodata]\n"
    );
    let constants = object
        .variables()
        .iter()
        .filter(|(name, one)| one.read_only && !name.starts_with("__SCX_") && !name.contains('.'));
    for (name, variable) in constants {
        let _ = writeln!(text, "# {name} = {}", super::value(object, variable));
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
