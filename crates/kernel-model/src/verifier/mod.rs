// SPDX-License-Identifier: GPL-2.0-only
//! What every kernel's verifier refuses and is cheap to see. It is no verifier: an object without findings may still
//! be refused, but what is found here is refused by each kernel.
//!
//! 1. A licence that is not compatible with the GPL: struct_ops programs need one (`check_struct_ops_btf_id`).
//! 2. Stores to members of a task other than `scx.slice`, `scx.dsq_vtime` and `scx.disallow`
//!    (`bpf_scx_btf_struct_access`), or to other structs of the kernel.
//! 3. Uses of a member that the kernel lacks, in code that can be reached.
//! 4. Accesses through a pointer that may be NULL and was not tested on any path.
//! 5. References that no code of the object releases.
//! 6. Calls of kfuncs that may sleep from programs that may not.

mod paths;

use bpf_object::{FunctionId, LinkedObject, MemberAccess, MemberUse, ProgramKind, Symbol};
use paths::Found;
use std::collections::BTreeSet;

/// Licences that are compatible with the GPL (include/linux/license.h).
const LICENCES: [&str; 6] =
    ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];

/// Kernel structs of which programs hold pointers and never copies, with the members that they may store to.
const WRITABLE: [(&str, &[&str]); 8] = [
    ("task_struct", &["scx.slice", "scx.dsq_vtime", "scx.disallow"]),
    ("sched_ext_entity", &["slice", "dsq_vtime", "disallow"]),
    ("sched_entity", &[]),
    ("rq", &[]),
    ("cgroup", &[]),
    ("css_set", &[]),
    ("mm_struct", &[]),
    ("signal_struct", &[]),
];

/// Kfuncs that may sleep (KF_SLEEPABLE).
const MAY_SLEEP: [&str; 1] = ["scx_bpf_create_dsq"];

/// Kfuncs that acquire a reference, and those that release one of the same kind (KF_ACQUIRE, KF_RELEASE).
const REFERENCES: [(&[&str], &[&str]); 8] = [
    (&["bpf_task_from_pid", "bpf_task_from_vpid"], &["bpf_task_release"]),
    (&["bpf_cgroup_from_id", "bpf_cgroup_ancestor", "scx_bpf_task_cgroup"], &["bpf_cgroup_release"]),
    (&["bpf_cpumask_create"], &["bpf_cpumask_release"]),
    (
        &[
            "scx_bpf_get_idle_cpumask",
            "scx_bpf_get_idle_smtmask",
            "scx_bpf_get_online_cpumask",
            "scx_bpf_get_possible_cpumask",
        ],
        &["scx_bpf_put_idle_cpumask", "scx_bpf_put_cpumask"],
    ),
    // Iterators are references as well (KF_ITER_NEW, KF_ITER_DESTROY).
    (&["bpf_iter_num_new"], &["bpf_iter_num_destroy"]),
    (&["bpf_iter_bits_new"], &["bpf_iter_bits_destroy"]),
    (&["bpf_iter_scx_dsq_new"], &["bpf_iter_scx_dsq_destroy"]),
    (&["bpf_iter_css_new"], &["bpf_iter_css_destroy"]),
];

/// `bpf_kptr_xchg`, which stores a reference in a map.
const KPTR_XCHG: i32 = 194;

/// Everything found in an object, each as a sentence that names its place in the source. `final_constants`: whether
/// the object's constants have the values with which it runs.
pub(crate) fn findings(object: &LinkedObject, final_constants: bool) -> Vec<String> {
    let mut findings = Vec::new();
    let licence = object.license.as_str();
    if !object.struct_ops.is_empty() && !LICENCES.contains(&licence) {
        findings.push(format!(
            "the licence {licence:?} is not compatible with the GPL, which kernels require of schedulers: expected one \
             of {}",
            LICENCES.map(|licence| format!("{licence:?}")).join(", ")
        ));
    }
    let runs = |kind: &ProgramKind| matches!(kind, ProgramKind::StructOps { .. } | ProgramKind::Syscall);
    let programs = object.programs.iter().filter(|program| program.autoload && runs(&program.kind));
    let programs: Vec<_> = programs.collect();
    let entries: Vec<FunctionId> = programs.iter().map(|program| program.function).collect();
    let found = paths::explore(object, &entries, final_constants);
    findings.extend(found.poison.iter().map(|(at, text)| format!("{}: {text}", place(object, *at))));
    let is_reached = |used: &&MemberUse| found.reached.contains(&(used.function.0, used.slot));
    for used in object.members.iter().filter(is_reached).filter(|used| used.access == MemberAccess::Store) {
        let writable = WRITABLE.iter().find(|(structure, _)| used.structure == *structure);
        if writable.is_some_and(|(_, members)| used.present && !members.contains(&used.path.as_str())) {
            let (at, MemberUse { structure, path, .. }) = (place(object, (used.function.0, used.slot)), used);
            findings.push(format!("{at}: stores to {path} of struct {structure}, which programs may only read"));
        }
    }
    let untested = found.untested.iter().map(|((function, slot), what)| {
        format!("{}: uses the result of {what} without a test for NULL", place(object, (*function, *slot)))
    });
    findings.extend(untested);
    findings.extend(leaks(object, &found));
    for program in programs.iter().filter(|program| program.kind == (ProgramKind::StructOps { sleepable: false })) {
        let own = callees(object, program.function);
        let sleeps = |(at, kfunc): &&(paths::At, String)| own.contains(&at.0) && MAY_SLEEP.contains(&kfunc.as_str());
        for (at, kfunc) in found.calls.iter().filter(sleeps) {
            let name = &object.functions[program.function.0 as usize].name;
            findings.push(format!(
                "{}: calls {kfunc}, which may sleep, from {name}, which may not: sleepable programs are in sections \
                 struct_ops.s/…",
                place(object, *at)
            ));
        }
    }
    let mut seen = BTreeSet::new();
    findings.retain(|finding| seen.insert(finding.clone()));
    findings
}

/// A function and all functions that it calls.
fn callees(object: &LinkedObject, entry: FunctionId) -> BTreeSet<u32> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![entry.0]);
    while let Some(function) = open.pop() {
        if seen.insert(function) {
            open.extend(object.functions[function as usize].symbols.values().filter_map(|symbol| match symbol {
                Symbol::Function(callee) => Some(callee.0),
                _ => None,
            }));
        }
    }
    seen
}

/// References that no code of the object releases or stores.
fn leaks(object: &LinkedObject, found: &Found) -> Vec<String> {
    let keeps = |function: &bpf_object::Function| {
        function.insns.iter().any(|insn| insn.code == 0x85 && insn.src == 0 && insn.imm == KPTR_XCHG)
    };
    if object.functions.iter().any(keeps) {
        return Vec::new();
    }
    let mut leaks = Vec::new();
    for (acquire, release) in REFERENCES {
        let released = object.kfuncs.iter().any(|kfunc| release.contains(&kfunc.name.as_str()));
        for (at, kfunc) in found.calls.iter().filter(|(_, kfunc)| !released && acquire.contains(&kfunc.as_str())) {
            let release = release[0];
            leaks.push(format!("{}: the reference of {kfunc} is never released ({release})", place(object, *at)));
        }
    }
    leaks
}

/// Source line of an instruction: `FILE:LINE (FUNCTION)`, or the function and slot without line information.
fn place(object: &LinkedObject, (function, slot): (u32, u32)) -> String {
    let function = &object.functions[function as usize];
    let line = function.lines.iter().take_while(|line| line.insn <= slot).last();
    match line {
        Some(line) => {
            let file = line.file.rsplit('/').next().unwrap_or_default();
            format!("{file}:{} ({})", line.line, function.name)
        }
        None => format!("{}+{slot}", function.name),
    }
}
