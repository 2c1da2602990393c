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
mod table;
mod task;
mod text;

use crate::core::Core;
use crate::ops::Group;
use bpf_machine::{Context, FaultKind};
use table::{KFUNCS, Kfunc};

pub(crate) use helpers::{helper, helper_nature};

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

fn get(kfunc: u32) -> &'static Kfunc {
    &KFUNCS[kfunc as usize]
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
