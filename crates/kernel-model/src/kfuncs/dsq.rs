// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queue kfuncs: insert, move, create, destroy and query.

use super::args::{int, task, word};
use crate::core::Core;
use crate::ops::Group;
use bpf_machine::{Context, FaultKind};
use ids::DsqId;

/// `__SCX_REENQ_USER_MASK`: flags that programs may pass.
const REENQ_USER_FLAGS: u64 = 1;

fn insert_into(
    core: &mut Core,
    cx: &mut Context<'_>,
    p: u64,
    [dsq, slice, enq_flags]: [u64; 3],
    vtime: Option<u64>,
) -> Result<u64, FaultKind> {
    if p == 0 {
        // The kernel checks for NULL at run time (contract E3).
        core.fail("called with NULL task".to_owned());
        return Ok(0);
    }
    let task = task(core, cx.memory, p)?;
    Ok(core.dsq_insert(cx.memory, task, DsqId(dsq), slice, vtime, enq_flags).into())
}

/// Implements `scx_bpf_dsq_insert(p, dsq_id, slice, enq_flags)`, formerly scx_bpf_dispatch.
pub(super) fn insert(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    insert_into(core, cx, a[0], [a[1], a[2], a[3]], None)
}

/// Implements `scx_bpf_dsq_insert_vtime(p, dsq_id, slice, vtime, enq_flags)`, formerly scx_bpf_dispatch_vtime.
pub(super) fn insert_vtime(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    insert_into(core, cx, a[0], [a[1], a[2], a[4]], Some(a[3]))
}

/// Implements `__scx_bpf_dsq_insert_vtime(p, args)`, with a `struct scx_bpf_dsq_insert_vtime_args`.
pub(super) fn insert_vtime_args(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let field = |index| word(cx.memory, a[1], index);
    let (dsq, slice, vtime, enq_flags) = (field(0)?, field(1)?, field(2)?, field(3)?);
    insert_into(core, cx, a[0], [dsq, slice, enq_flags], Some(vtime))
}

/// Implements `scx_bpf_dsq_move_to_local(dsq_id)`, formerly scx_bpf_consume.
pub(super) fn move_to_local(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.dsq_move_to_local(cx.memory, DsqId(a[0]), 0).into())
}

/// Implements `scx_bpf_dsq_move_to_local___v2(dsq_id, enq_flags)`.
pub(super) fn move_to_local_flags(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.dsq_move_to_local(cx.memory, DsqId(a[0]), a[1]).into())
}

/// Implements `scx_bpf_dispatch_nr_slots()`.
pub(super) fn nr_slots(core: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.dispatch_nr_slots().into())
}

/// Implements `scx_bpf_dispatch_cancel()`.
pub(super) fn cancel(core: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.dispatch_cancel();
    Ok(0)
}

/// Implements `scx_bpf_create_dsq(dsq_id, node)`.
pub(super) fn create(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    int(core.create_dsq(DsqId(a[0]), a[1] as i32))
}

/// Implements `scx_bpf_destroy_dsq(dsq_id)`.
pub(super) fn destroy(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.destroy_dsq(DsqId(a[0]));
    Ok(0)
}

/// Implements `scx_bpf_dsq_nr_queued(dsq_id)`.
pub(super) fn nr_queued(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    int(core.dsq_nr_queued(DsqId(a[0])))
}

/// Implements `scx_bpf_dsq_peek(dsq_id)`.
pub(super) fn peek(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let head = core.dsq_peek(DsqId(a[0]));
    Ok(head.map_or(0, |task| core.objects.task_addr(cx.memory, task, core.context.cpu)))
}

/// Implements `scx_bpf_reenqueue_local()` of 6.12, which returns the number of tasks.
pub(super) fn reenqueue_released(core: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.reenqueue_local().into())
}

/// Implements `scx_bpf_reenqueue_local()` of 6.19, which returns nothing and takes effect after the program.
pub(super) fn reenqueue_local(core: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.dsq_reenqueue(DsqId::LOCAL);
    Ok(0)
}

/// Implements `scx_bpf_dsq_reenq(dsq_id, reenq_flags)`.
pub(super) fn reenqueue(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    let (dsq, flags) = (DsqId(a[0]), a[1]);
    if flags & !REENQ_USER_FLAGS != 0 {
        core.fail(format!("invalid SCX_REENQ flags {flags:#x}"));
        return Ok(0);
    }
    core.dsq_reenqueue(dsq);
    Ok(0)
}

/// Implements `scx_bpf_locked_rq()`: returns the runqueue of this CPU if the op holds its lock.
pub(super) fn locked_rq(core: &mut Core, _: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    if core.allows(Group::Unlocked) {
        core.fail("accessing rq without holding rq lock".to_owned());
        return Ok(0);
    }
    Ok(cx.memory.addr(core.objects.rqs, core.context.cpu.0))
}
