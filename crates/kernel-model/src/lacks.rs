// SPDX-License-Identifier: GPL-2.0-only
//! Lists every feature that an object needs and the modelled kernel lacks, and says for each whether Weir does not
//! model it or whether that kernel version does not have it.

use crate::kfuncs::{self, Absence};
use crate::ops::Op;
use crate::{Config, Kernel, KernelTypes, verifier};
use bpf_object::{MapKind, MemberAccess, MemberUse, MemberValue, NeedKind, Object, ProgramKind};
use std::collections::BTreeSet;

/// Features that an object uses and this kernel lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Features without which the object cannot be loaded.
    pub needed: Vec<String>,
    /// Features without which the object loads, but fails or takes another path when it uses them.
    pub reached: Vec<String>,
    /// Ops that the model does not call. The object cannot be loaded with them, but a launch profile can remove them.
    pub ops: Vec<String>,
}

impl Lacks {
    /// The missing features that prevent loading, joined by semicolons; `None` if there are none.
    pub fn refusal(&self) -> Option<String> {
        (!self.needed.is_empty()).then(|| self.needed.join("; "))
    }
}

/// Helpers that the model does not implement, by number and name in `include/uapi/linux/bpf.h`.
const UNMODELLED_HELPERS: [(u32, &str); 12] = [
    (12, "bpf_tail_call"),
    (22, "bpf_perf_event_read"),
    (25, "bpf_perf_event_output"),
    (27, "bpf_get_stackid"),
    (55, "bpf_perf_event_read_value"),
    (67, "bpf_get_stack"),
    (112, "bpf_probe_read_user"),
    (173, "bpf_get_func_ip"),
    (191, "bpf_copy_from_user_task"),
    (201, "bpf_dynptr_read"),
    (203, "bpf_dynptr_data"),
    (209, "bpf_user_ringbuf_drain"),
];

impl Kernel {
    /// Returns the features that `object` uses and this kernel lacks.
    pub fn lacks(config: &Config, object: &Object) -> Lacks {
        let mut lacks = Lacks::default();
        let (major, minor) = config.version;
        let types = config.kernel_types();
        if !object.struct_ops().iter().any(|table| table.type_name.starts_with("sched_ext_ops")) {
            lacks.needed.push(no_scheduler(object));
        }
        let functions = object.struct_ops().iter().filter(|table| table.type_name == "sched_ext_ops");
        let functions = functions.flat_map(|table| &table.members);
        let functions = functions.filter(|member| matches!(member.value, MemberValue::Function(_)));
        let unknown = functions.filter(|member| Op::by_name(&member.name).is_none());
        lacks.ops = unknown.map(|member| missing_op(&types, &member.name)).collect();
        for need in object.needs(&*Kernel::target(config)).into_iter().filter(|need| !need.present) {
            let name = &need.name;
            let text = match need.kind {
                NeedKind::Kfunc(parameters) => missing_kfunc(name, parameters, config.version),
                NeedKind::Variable => format!("weir does not model the kernel's variable {name}"),
                NeedKind::Config => format!("the modelled kernel does not set {name}"),
            };
            match (need.weak, need.kind) {
                (false, _) => lacks.needed.push(text),
                (true, NeedKind::Kfunc(_)) if text.starts_with("kernel") => {}
                (true, NeedKind::Config) => {}
                (true, _) => lacks.reached.push(text),
            }
        }
        for map in object.maps() {
            match map.kind {
                MapKind::Arena => lacks.needed.push(format!("weir does not model arenas (map `{}`)", map.name)),
                MapKind::UserRingbuf | MapKind::PerfEventArray => {
                    lacks.reached.push(format!("weir does not model maps of kind {:?} (map `{}`)", map.kind, map.name));
                }
                kind if !kind.is_modelled() => {
                    lacks.needed.push(format!("weir does not model maps of kind {kind:?} (map `{}`)", map.name));
                }
                _ => {}
            }
        }
        for table in object.struct_ops().iter().filter(|table| table.type_name == "sched_ext_ops_cid") {
            let name = &table.name;
            lacks.needed.push(format!(
                "weir does not model schedulers of the cid form (`{name}`; kernel {major}.{minor} does)"
            ));
        }
        let runs = |kind: &ProgramKind| matches!(kind, ProgramKind::StructOps { .. } | ProgramKind::Syscall);
        let entries: Vec<u32> = object
            .programs()
            .filter(|(_, program)| runs(&program.kind))
            .map(|(_, program)| program.function.0)
            .collect();
        let called = object.helpers(&entries);
        for (number, name) in UNMODELLED_HELPERS.iter().filter(|(number, _)| called.contains(number)) {
            lacks.reached.push(format!("weir does not model the helper {name} (number {number})"));
        }
        for (_, name) in kfuncs::REFUSED_HELPERS.iter().filter(|(number, _)| called.contains(number)) {
            lacks.reached.push(kfuncs::refusal(name, config.version));
        }
        lacks
    }

    /// Returns the members of kernel structs that `object` reads and the model does not keep: they exist, and read 0.
    pub fn unmodelled(config: &Config, object: &Object) -> Vec<String> {
        unmodelled(config, object)
    }

    /// Returns what every kernel's verifier refuses of `object` and is cheap to see, with its place in the source;
    /// [`Kernel::load`] refuses it with the same words.
    pub fn refused(config: &Config, object: &Object) -> Vec<String> {
        object.link(&*Kernel::target(config)).map_or(Vec::new(), |linked| verifier::findings(&linked, false))
    }

    /// The first kernel version that has a kfunc of this name, as far as the model knows.
    pub fn kfunc_since(name: &str) -> Option<(u16, u16)> {
        kfuncs::since(name)
    }
}

/// Members of kernel structs that the programs which the model runs read, and that have no value in it, without
/// repetitions.
fn unmodelled(config: &Config, object: &Object) -> Vec<String> {
    let types = config.kernel_types();
    let runs = |kind: &ProgramKind| matches!(kind, ProgramKind::StructOps { .. } | ProgramKind::Syscall);
    let entries = object.programs().filter(|(_, program)| runs(&program.kind));
    let entries: Vec<u32> = entries.map(|(_, program)| program.function.0).collect();
    let reached = object.callees(&entries);
    let used = object.members(&*Kernel::target(config)).unwrap_or_default();
    let reads = |used: &&MemberUse| matches!(used.access, MemberAccess::Load | MemberAccess::Address);
    let used = used.iter().filter(|used| used.present && reached.contains(&used.function.0)).filter(reads);
    let without = used.filter(|used| !types.has_value(&used.structure, &used.path));
    let names: BTreeSet<String> = without.map(|used| format!("{}.{}", used.structure, used.path)).collect();
    names.into_iter().collect()
}

/// Explains why an object without a table of operations is no scheduler.
fn no_scheduler(object: &Object) -> String {
    let programs = object.programs().filter(|(_, program)| matches!(program.kind, ProgramKind::StructOps { .. }));
    let found = match programs.count() {
        0 => "no struct_ops program",
        _ => "struct_ops programs, but no table of them",
    };
    format!(
        "not a sched_ext scheduler: expected a struct sched_ext_ops in section .struct_ops.link, with ops in sections \
         struct_ops/…; found {found}"
    )
}

/// Explains why an op cannot be called.
pub(crate) fn missing_op(types: &KernelTypes, name: &str) -> String {
    let kernel = types.name();
    match types.has_op(name) {
        true => format!("weir does not model the operation {name}, which struct sched_ext_ops of kernel {kernel} has"),
        false => format!("struct sched_ext_ops of kernel {kernel} has no operation {name}"),
    }
}

/// Explains why the kernel lacks a kfunc. Begins with "kernel" if the modelled version has no such kfunc, with "weir"
/// if the model lacks it.
fn missing_kfunc(name: &str, parameters: u32, (major, minor): (u16, u16)) -> String {
    match kfuncs::absence(name, (major, minor)) {
        Absence::Later((since_major, since_minor)) => {
            format!("kernel {major}.{minor} has no kfunc {name}, which {since_major}.{since_minor} added")
        }
        Absence::Gone((until_major, until_minor)) => {
            format!("kernel {major}.{minor} has no kfunc {name} any more: {until_major}.{until_minor} removed it")
        }
        Absence::Parameters(own) => {
            format!(
                "kernel {major}.{minor} has a kfunc {name} with {own} parameters, and the object's has {parameters}"
            )
        }
        Absence::Unmodelled(family) => {
            format!("weir does not model the kfunc {name} ({family}), which kernel {major}.{minor} has")
        }
        Absence::Unknown => format!("kfunc {name} is unknown to weir"),
    }
}
