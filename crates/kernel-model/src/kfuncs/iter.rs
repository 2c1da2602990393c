// SPDX-License-Identifier: GPL-2.0-only
//! Iterator kfuncs: over numbers, and over the tasks of a dispatch queue, which can be moved during the iteration.

use super::args::{bad, int, task};
use crate::core::Core;
use bpf_machine::{Context, FaultKind, GuestAddr, iter_num};
use ids::DsqId;

/// Implements `bpf_iter_num_new(it, start, end)`.
pub(super) fn num_new(_: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    iter_num::new(cx, a)
}

/// Implements `bpf_iter_num_next(it)`.
pub(super) fn num_next(_: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    iter_num::next(cx, a)
}

/// Implements `bpf_iter_num_destroy(it)`.
pub(super) fn num_destroy(_: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    iter_num::destroy(cx, a)
}

/// Implements `bpf_iter_scx_dsq_new(it, dsq_id, flags)`. Programs call `next` and `destroy` even if it fails.
pub(super) fn dsq_new(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let begun = core.dsq_iter(DsqId(a[1]), a[2]);
    core.objects.iterators.begin(cx.memory, a[0], begun.ok())?;
    int(begun.err().unwrap_or(0))
}

/// Implements `bpf_iter_scx_dsq_next(it)`.
pub(super) fn dsq_next(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let Some(iterator) = core.objects.iterators.at(cx.memory, a[0])? else { return Ok(0) };
    let mut cursor = iterator.cursor;
    let next = core.dsq_iter_next(&mut cursor);
    if let Some(iterator) = core.objects.iterators.at(cx.memory, a[0])? {
        iterator.cursor = cursor;
    }
    Ok(next.map_or(0, |task| core.objects.task_addr(cx.memory, task, core.context.cpu)))
}

/// Implements `bpf_iter_scx_dsq_destroy(it)`.
pub(super) fn dsq_destroy(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.objects.iterators.end(cx.memory, a[0])?;
    Ok(0)
}

/// Implements `scx_bpf_dsq_move_set_slice(it, slice)`, formerly scx_bpf_dispatch_from_dsq_set_slice.
pub(super) fn move_set_slice(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    if let Some(iterator) = core.objects.iterators.at(cx.memory, a[0])? {
        iterator.slice = Some(a[1]);
    }
    Ok(0)
}

/// Implements `scx_bpf_dsq_move_set_vtime(it, vtime)`, formerly scx_bpf_dispatch_from_dsq_set_vtime.
pub(super) fn move_set_vtime(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    if let Some(iterator) = core.objects.iterators.at(cx.memory, a[0])? {
        iterator.vtime = Some(a[1]);
    }
    Ok(0)
}

fn move_from(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>, ordered: bool) -> Result<u64, FaultKind> {
    let task = task(core, cx.memory, a[1])?;
    let place: GuestAddr = a[0];
    let Some(iterator) = core.objects.iterators.at(cx.memory, place)? else {
        return Err(bad(format!("the iterator at {place:#x} has no queue to move from")));
    };
    // The overrides apply to one move, whether it succeeds or not (contract K3).
    let (slice, vtime) = (iterator.slice.take(), iterator.vtime.take());
    let cursor = iterator.cursor;
    Ok(core.dsq_move(cx.memory, &cursor, task, DsqId(a[2]), slice, vtime, ordered, a[3]).into())
}

/// Implements `scx_bpf_dsq_move(it, p, dsq_id, enq_flags)`, formerly scx_bpf_dispatch_from_dsq.
pub(super) fn dsq_move(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    move_from(core, a, cx, false)
}

/// Implements `scx_bpf_dsq_move_vtime(it, p, dsq_id, enq_flags)`, formerly scx_bpf_dispatch_vtime_from_dsq.
pub(super) fn dsq_move_vtime(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    move_from(core, a, cx, true)
}
