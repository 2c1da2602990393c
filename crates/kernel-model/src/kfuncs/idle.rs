// SPDX-License-Identifier: GPL-2.0-only
//! Built-in idle tracking kfuncs: select, claim and query idle CPUs.

use super::args::{bad, int, mask, task, word};
use crate::core::Core;
use crate::guest::IdleMask;
use bpf_machine::{Context, FaultKind, GuestAddr};

/// Implements `scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, is_idle)`.
pub(super) fn select_cpu_dfl(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let task = task(core, cx.memory, a[0])?;
    let (cpu, is_idle) = core.select_cpu_dfl(task, a[1] as i32, a[2]);
    cx.memory.store(a[3], 1, is_idle.into())?;
    core.refresh_idle_masks(cx.memory);
    int(cpu)
}

fn select_and(
    core: &mut Core,
    cx: &mut Context<'_>,
    [p, allowed]: [GuestAddr; 2],
    [prev_cpu, wake_flags, flags]: [u64; 3],
) -> Result<u64, FaultKind> {
    let task = task(core, cx.memory, p)?;
    let allowed = mask(core, cx, allowed)?;
    let cpu = core.select_cpu_and(task, prev_cpu as i32, wake_flags, &allowed, flags);
    core.refresh_idle_masks(cx.memory);
    int(cpu)
}

/// Implements `scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, cpus_allowed, flags)`.
pub(super) fn select_cpu_and(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    select_and(core, cx, [a[0], a[3]], [a[1], a[2], a[4]])
}

/// Implements `__scx_bpf_select_cpu_and(p, cpus_allowed, args)`, with a `struct scx_bpf_select_cpu_and_args`.
pub(super) fn select_cpu_and_args(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let prev_cpu = cx.memory.load(a[2], 4)?;
    let (wake_flags, flags) = (word(cx.memory, a[2], 1)?, word(cx.memory, a[2], 2)?);
    select_and(core, cx, [a[0], a[1]], [prev_cpu, wake_flags, flags])
}

fn pick(
    core: &mut Core,
    cx: &mut Context<'_>,
    allowed: GuestAddr,
    choose: impl FnOnce(&mut Core, &ids::CpuSet) -> i32,
) -> Result<u64, FaultKind> {
    let allowed = mask(core, cx, allowed)?;
    let cpu = choose(core, &allowed);
    core.refresh_idle_masks(cx.memory);
    int(cpu)
}

/// Implements `scx_bpf_pick_idle_cpu(cpus_allowed, flags)`.
pub(super) fn pick_idle_cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    pick(core, cx, a[0], |core, allowed| core.pick_idle_cpu(allowed, None, a[1]))
}

/// Implements `scx_bpf_pick_idle_cpu_node(cpus_allowed, node, flags)`.
pub(super) fn pick_idle_cpu_node(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    pick(core, cx, a[0], |core, allowed| core.pick_idle_cpu(allowed, Some(a[1] as i32), a[2]))
}

/// Implements `scx_bpf_pick_any_cpu(cpus_allowed, flags)`.
pub(super) fn pick_any_cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    pick(core, cx, a[0], |core, allowed| core.pick_any_cpu(allowed, None, a[1]))
}

/// Implements `scx_bpf_pick_any_cpu_node(cpus_allowed, node, flags)`.
pub(super) fn pick_any_cpu_node(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    pick(core, cx, a[0], |core, allowed| core.pick_any_cpu(allowed, Some(a[1] as i32), a[2]))
}

/// Implements `scx_bpf_test_and_clear_cpu_idle(cpu)`.
pub(super) fn test_and_clear(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let was_idle = core.test_and_clear_cpu_idle(a[0] as i32);
    core.refresh_idle_masks(cx.memory);
    Ok(was_idle.into())
}

fn get(core: &mut Core, cx: &mut Context<'_>, which: IdleMask) -> Result<u64, FaultKind> {
    // A node that does not exist, NUMA_NO_NODE (-1) included, has an empty mask; the core reports it where that is an
    // error. It gets no copy of its own, which bounds the number of copies.
    if which.node.is_some_and(|node| !(0..core.nodes() as i32).contains(&node)) {
        core.may_see(which);
        return Ok(core.objects.fixed_masks.empty(cx.memory));
    }
    Ok(core.hand_out_idle_mask(cx.memory, which))
}

/// Implements `scx_bpf_get_idle_cpumask()`.
pub(super) fn get_cpumask(core: &mut Core, _: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    get(core, cx, IdleMask { node: None, smt: false })
}

/// Implements `scx_bpf_get_idle_cpumask_node(node)`.
pub(super) fn get_cpumask_node(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    get(core, cx, IdleMask { node: Some(a[0] as i32), smt: false })
}

/// Implements `scx_bpf_get_idle_smtmask()`.
pub(super) fn get_smtmask(core: &mut Core, _: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    get(core, cx, IdleMask { node: None, smt: true })
}

/// Implements `scx_bpf_get_idle_smtmask_node(node)`.
pub(super) fn get_smtmask_node(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    get(core, cx, IdleMask { node: Some(a[0] as i32), smt: true })
}

/// Implements `scx_bpf_put_idle_cpumask(mask)` and `scx_bpf_put_cpumask(mask)`. The kernel does nothing here; its
/// verifier checks that every mask that is put was acquired.
pub(super) fn put_mask(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let objects = &mut core.objects;
    if objects.idle_masks.put(cx.memory, a[0]) || objects.fixed_masks.is_mask(cx.memory, a[0]) {
        return Ok(0);
    }
    Err(bad(format!("{:#x} is not an idle or kernel cpumask that the program holds", a[0])))
}

/// Implements `scx_bpf_get_possible_cpumask()`.
pub(super) fn get_possible(core: &mut Core, _: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.objects.fixed_masks.possible(cx.memory))
}

/// Implements `scx_bpf_get_online_cpumask()`.
pub(super) fn get_online(core: &mut Core, _: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.objects.fixed_masks.online(cx.memory))
}

/// Implements `scx_bpf_nr_cpu_ids()`.
pub(super) fn nr_cpu_ids(core: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.cpus().into())
}

/// Implements `scx_bpf_nr_node_ids()`.
pub(super) fn nr_node_ids(core: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.nodes().into())
}

/// Implements `scx_bpf_cpu_node(cpu)`: returns NUMA_NO_NODE (-1) for a CPU that does not exist.
pub(super) fn cpu_node(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    match core.check_cpu(a[0] as i32) {
        Some(cpu) => Ok(core.node_of(cpu).into()),
        None => int(-1),
    }
}
