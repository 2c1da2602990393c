// SPDX-License-Identifier: GPL-2.0-only
//! The kfunc table: name, versions, allowed ops, cost class and handler of each kfunc.

mod args;
mod cpumask;
mod dsq;
mod helpers;
mod host;
mod idle;
mod iter;
mod kick;
mod perf;
pub(crate) mod plain;
mod table;
mod task;
mod text;

use crate::core::{Callee, Core};
use crate::ops::Group;
use bpf_machine::iter_num::IterNum;
use bpf_machine::{Context, FaultKind};
use table::{KFUNCS, Kfunc};

pub(crate) use helpers::{REFUSED as REFUSED_HELPERS, helper, helper_name, helper_nature, refusal};

/// Cost class of a call. The order is that of `machine_model::Nature`; the index is passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nature {
    Trivial,
    Lookup,
    Queue,
    Scan,
    Interrupt,
    Clock,
}

/// Index of the kfunc with this name and parameter count, if the kernel version has it.
pub(crate) fn find(name: &str, parameters: u32, version: (u16, u16)) -> Option<u32> {
    let number = KFUNCS.binary_search_by_key(&name, |kfunc| kfunc.name).ok()?;
    let kfunc = &KFUNCS[number];
    (kfunc.parameters == parameters && kfunc.exists_in(version)).then_some(number as u32)
}

/// The frequently called kfuncs that only access the program's memory; the BPF machine executes them itself.
pub(crate) fn iterator(name: &str) -> Option<IterNum> {
    match name {
        "bpf_iter_num_new" => Some(IterNum::New),
        "bpf_iter_num_next" => Some(IterNum::Next),
        "bpf_iter_num_destroy" => Some(IterNum::Destroy),
        _ => None,
    }
}

/// Whether a kfunc takes a task from the queue named by its first argument.
pub(crate) fn takes_from_queue(kfunc: u32) -> bool {
    matches!(name(kfunc), "scx_bpf_consume" | "scx_bpf_dsq_move_to_local" | "scx_bpf_dsq_move_to_local___v2")
}

/// Why a kernel lacks a kfunc, or has a different one of that name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Absence {
    /// The kfunc was added in this later version.
    Later((u16, u16)),
    /// The kfunc was removed in this version.
    Gone((u16, u16)),
    /// The kfunc has this number of parameters.
    Parameters(u32),
    /// A kfunc that the kernel has and the model does not; the text names its family.
    Unmodelled(&'static str),
    /// The model does not know the name.
    Unknown,
}

/// Families of kfuncs that 7.2 has and the model lacks, by name prefix (from that kernel's BTF).
const UNMODELLED: [(&str, &str); 21] = [
    ("bpf_arena_", "arenas"),
    ("bpf_dynptr_", "dynamic pointers"),
    ("bpf_iter_bits_", "iterators over bits"),
    ("bpf_iter_css_", "iterators over cgroups"),
    ("bpf_iter_task_", "iterators over tasks"),
    ("bpf_list_", "linked lists"),
    ("bpf_obj_", "allocated objects"),
    ("bpf_percpu_obj_", "allocated objects"),
    ("bpf_rbtree_", "red-black trees"),
    ("bpf_refcount_", "allocated objects"),
    ("bpf_res_spin_", "resilient spin locks"),
    ("bpf_wq_", "work queues"),
    ("scx_bpf_cid", "the cid form"),
    ("scx_bpf_cpu_to_cid", "the cid form"),
    ("scx_bpf_kick_cid", "the cid form"),
    ("scx_bpf_nr_cids", "the cid form"),
    ("scx_bpf_nr_online_cids", "the cid form"),
    ("scx_bpf_override", "the cid form"),
    ("scx_bpf_sub_dispatch", "sub-schedulers"),
    ("scx_bpf_task_cid", "the cid form"),
    ("scx_bpf_this_cid", "the cid form"),
];

/// Kfuncs that 7.3 added and the model lacks.
const OF_7_3: [&str; 5] =
    ["scx_bpf_online_cmask", "scx_bpf_sub_caps", "scx_bpf_sub_grant", "scx_bpf_sub_kill_bstr", "scx_bpf_sub_revoke"];

/// Why `version` has no kfunc of this name that fits the object.
pub(crate) fn absence(name: &str, version: (u16, u16)) -> Absence {
    let Ok(number) = KFUNCS.binary_search_by_key(&name, |kfunc| kfunc.name) else {
        if OF_7_3.contains(&name) && version < (7, 3) {
            return Absence::Later((7, 3));
        }
        let family = UNMODELLED.iter().find(|(beginning, _)| name.starts_with(beginning));
        return family.map_or(Absence::Unknown, |(_, family)| Absence::Unmodelled(family));
    };
    let kfunc = &KFUNCS[number];
    match kfunc.until {
        _ if version < kfunc.since => Absence::Later(kfunc.since),
        Some(until) if version >= until => Absence::Gone(until),
        _ => Absence::Parameters(kfunc.parameters),
    }
}

/// The first kernel version with a kfunc of this name.
pub(crate) fn since(name: &str) -> Option<(u16, u16)> {
    let number = KFUNCS.binary_search_by_key(&name, |kfunc| kfunc.name).ok()?;
    Some(KFUNCS[number].since)
}

fn get(kfunc: u32) -> &'static Kfunc {
    &KFUNCS[kfunc as usize]
}

/// Name of a kfunc.
pub(crate) fn name(kfunc: u32) -> &'static str {
    get(kfunc).name
}

/// Name in the kernel of what a program called.
pub(crate) fn callee_name(callee: Callee) -> String {
    match callee {
        Callee::Kfunc(kfunc) => name(kfunc).to_owned(),
        Callee::Helper(helper) => helper_name(helper),
    }
}

/// Groups of a kfunc; an op may call it if it allows any of them.
pub(crate) fn groups(kfunc: u32) -> &'static [Group] {
    get(kfunc).groups
}

/// Cost class of a kfunc, as an index of `machine_model::Nature`.
pub(crate) fn nature(kfunc: u32) -> usize {
    get(kfunc).nature as usize
}

/// Calls a kfunc after checking that the op in progress may call it.
#[inline]
pub(crate) fn call(core: &mut Core, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let kfunc = get(kfunc);
    if !kfunc.is_unrestricted() && !kfunc.groups.iter().any(|group| core.allows(*group)) {
        // In the verifier's words: 7.2 rejects such a program at load time. For code that several ops share or that a
        // timer runs, only this run-time check can tell.
        core.fail(format!("calling kernel function {} is not allowed", kfunc.name));
        return Ok(kfunc.refused as u32 as u64);
    }
    (kfunc.handler)(core, args, cx)
}

#[cfg(test)]
mod tests;
