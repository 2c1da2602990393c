// SPDX-License-Identifier: GPL-2.0-only
//! The kfunc table: name, versions, allowed contexts, cost nature, handler. Data first, handlers beside it.

mod args;
mod cpumask;
mod dsq;
mod helpers;
mod idle;
mod iter;
mod kick;
mod perf;
pub(crate) mod plain;
mod table;
mod task;
mod text;

use crate::core::Core;
use crate::ops::Group;
use bpf_machine::iter_num::IterNum;
use bpf_machine::{Context, FaultKind};
use table::{KFUNCS, Kfunc};

pub(crate) use helpers::{REFUSED as REFUSED_HELPERS, helper, helper_name, helper_nature, prandom, refusal};

/// What a call costs: the order is that of `machine_model::Nature`, whose index is passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nature {
    Trivial,
    Lookup,
    Queue,
    Scan,
    Interrupt,
    Clock,
}

/// Number of the kfunc with this name and parameter count in `version`, if that kernel has it.
pub(crate) fn find(name: &str, parameters: u32, version: (u16, u16)) -> Option<u32> {
    let number = KFUNCS.binary_search_by_key(&name, |kfunc| kfunc.name).ok()?;
    let kfunc = &KFUNCS[number];
    (kfunc.parameters == parameters && kfunc.exists_in(version)).then_some(number as u32)
}

/// The kfuncs that touch nothing but the program's memory, and are called most: the machine does them itself.
pub(crate) fn iterator(name: &str) -> Option<IterNum> {
    match name {
        "bpf_iter_num_new" => Some(IterNum::New),
        "bpf_iter_num_next" => Some(IterNum::Next),
        "bpf_iter_num_destroy" => Some(IterNum::Destroy),
        _ => None,
    }
}

/// Whether a kfunc takes a task from the queue that its first argument names.
pub(crate) fn takes_from_queue(kfunc: u32) -> bool {
    matches!(name(kfunc), "scx_bpf_consume" | "scx_bpf_dsq_move_to_local" | "scx_bpf_dsq_move_to_local___v2")
}

/// Why a kernel has no kfunc of a name, or one that does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Absence {
    /// It came with this version.
    Later((u16, u16)),
    /// This version removed it.
    Gone((u16, u16)),
    /// It has so many parameters.
    Parameters(u32),
    /// The kernel has it and the model does not: what it belongs to.
    Unmodelled(&'static str),
    /// Nothing is known of it.
    Unknown,
}

/// Families of kfuncs of 7.2 that the model does not have, by the beginnings of their names (from that kernel's BTF).
const UNMODELLED: [(&str, &str); 17] = [
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
    ("scx_bpf_sub_", "sub-schedulers"),
    ("scx_bpf_task_cid", "the cid form"),
];

/// Why `version` has no kfunc of this name that an object may call.
pub(crate) fn absence(name: &str, version: (u16, u16)) -> Absence {
    let Ok(number) = KFUNCS.binary_search_by_key(&name, |kfunc| kfunc.name) else {
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

/// The first kernel that has a kfunc of this name.
pub(crate) fn since(name: &str) -> Option<(u16, u16)> {
    let number = KFUNCS.binary_search_by_key(&name, |kfunc| kfunc.name).ok()?;
    Some(KFUNCS[number].since)
}

fn get(kfunc: u32) -> &'static Kfunc {
    &KFUNCS[kfunc as usize]
}

/// Its name.
pub(crate) fn name(kfunc: u32) -> &'static str {
    get(kfunc).name
}

/// Its groups: allowed if any of them is.
pub(crate) fn groups(kfunc: u32) -> &'static [Group] {
    get(kfunc).groups
}

/// What it costs: index of `machine_model::Nature`.
pub(crate) fn nature(kfunc: u32) -> usize {
    get(kfunc).nature as usize
}

/// Calls it.
#[inline]
pub(crate) fn call(core: &mut Core, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let kfunc = get(kfunc);
    if !kfunc.is_unrestricted() && !kfunc.groups.iter().any(|group| core.allows(*group)) {
        // The verifier's words: 7.2 refuses such a program when it is loaded. Code that several ops share, or that a
        // timer runs, is only seen through here.
        core.fail(format!("calling kernel function {} is not allowed", kfunc.name));
        return Ok(kfunc.refused as u32 as u64);
    }
    (kfunc.handler)(core, args, cx)
}

#[cfg(test)]
mod tests;
