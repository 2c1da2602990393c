// SPDX-License-Identifier: GPL-2.0-only
//! Kfuncs that look up and read tasks, runqueues and cgroups.

use super::args::{Subject, bad, subject, task};
use crate::CgroupId;
use crate::core::Core;
use bpf_machine::{Context, FaultKind, GuestAddr};

/// Kfuncs that only mark a section for the verifier: the model has no RCU, preemption or interrupts within a program.
pub(super) fn mark(_: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(0)
}

/// Implements `scx_bpf_task_running(p)`.
pub(super) fn running(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let running = match subject(core, cx.memory, a[0])? {
        Subject::Task(task) => core.task_running(task),
        Subject::Idle(cpu) => core.current(cpu).some().is_none(),
    };
    Ok(running.into())
}

/// Implements `scx_bpf_task_cpu(p)`.
pub(super) fn cpu(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let cpu = match subject(core, cx.memory, a[0])? {
        Subject::Task(task) => core.task_cpu(task),
        Subject::Idle(cpu) => cpu,
    };
    Ok(cpu.0.into())
}

/// Implements `scx_bpf_task_set_slice(p, slice)`: returns whether the scheduler owns the task, which is always true
/// without sub-schedulers.
pub(super) fn set_slice(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let task = task(core, cx.memory, a[0])?;
    core.objects.set_slice(cx.memory, task, a[1]);
    Ok(1)
}

/// Implements `scx_bpf_task_set_dsq_vtime(p, vtime)`.
pub(super) fn set_vtime(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let task = task(core, cx.memory, a[0])?;
    core.objects.set_vtime(cx.memory, task, a[1]);
    Ok(1)
}

/// Implements `scx_bpf_cpu_rq(cpu)`: returns NULL and reports an error for a CPU that does not exist.
pub(super) fn cpu_rq(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let cpu = core.check_cpu(a[0] as i32);
    Ok(cpu.map_or(0, |cpu| cx.memory.addr(core.objects.rqs, cpu.0)))
}

/// Implements `scx_bpf_cpu_curr(cpu)`.
pub(super) fn cpu_curr(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let cpu = core.check_cpu(a[0] as i32);
    Ok(cpu.map_or(0, |cpu| core.objects.task_addr(cx.memory, core.current(cpu), cpu)))
}

/// Implements `bpf_task_from_pid(pid)`. Tasks are never freed while the program runs, so a reference is only a pointer.
pub(super) fn from_pid(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let task = core.task_by_pid(a[0] as i32);
    Ok(task.map_or(0, |task| core.objects.task_addr(cx.memory, task, core.context.cpu)))
}

/// Implements `bpf_task_acquire(p)`.
pub(super) fn acquire(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    subject(core, cx.memory, a[0])?;
    Ok(a[0])
}

/// Implements `bpf_task_release(p)`.
pub(super) fn release(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    subject(core, cx.memory, a[0])?;
    Ok(0)
}

/// Implements `scx_bpf_tid_to_task(tid)`.
pub(super) fn from_tid(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let task = core.task_by_tid(a[0]);
    Ok(task.map_or(0, |task| core.objects.task_addr(cx.memory, task, core.context.cpu)))
}

/// Implements `scx_bpf_task_cgroup(p)`: returns the root cgroup if the call is an error.
pub(super) fn cgroup(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let task = match subject(core, cx.memory, a[0])? {
        Subject::Task(task) => Some(task),
        Subject::Idle(_) => None,
    };
    let is_subject = core.is_subject(task);
    let cgroup = task.filter(|_| is_subject).map_or(CgroupId::ROOT, |task| core.task(task).cgroup);
    Ok(core.objects.cgroups.addr(cx.memory, cgroup.0))
}

fn cgroup_at(core: &Core, cx: &Context<'_>, addr: GuestAddr) -> Result<u32, FaultKind> {
    core.objects.cgroups.at(cx.memory, addr).ok_or_else(|| bad(format!("{addr:#x} is not a cgroup")))
}

/// Implements `bpf_cgroup_acquire(cgrp)`. Cgroups are never freed while the program runs, so a reference is only a
/// pointer.
pub(super) fn cgroup_acquire(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    cgroup_at(core, cx, a[0])?;
    Ok(a[0])
}

/// Implements `bpf_cgroup_release(cgrp)`.
pub(super) fn cgroup_release(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    cgroup_at(core, cx, a[0])?;
    Ok(0)
}

/// Implements `bpf_cgroup_ancestor(cgrp, level)`: level 0 is the root; returns NULL for a level below that of `cgrp`.
pub(super) fn cgroup_ancestor(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let cgroup = cgroup_at(core, cx, a[0])?;
    Ok(core.objects.cgroups.ancestor(cx.memory, cgroup, a[1] as i32).unwrap_or(0))
}

/// Implements `bpf_cgroup_from_id(cgid)`: returns NULL for a removed cgroup.
pub(super) fn cgroup_from_id(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let found = core.cgroups.by_id(a[0]);
    Ok(found.map_or(0, |cgroup| core.objects.cgroups.addr(cx.memory, cgroup.0)))
}

/// Implements `scx_bpf_now()`.
pub(super) fn now(core: &mut Core, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.clock().0)
}
