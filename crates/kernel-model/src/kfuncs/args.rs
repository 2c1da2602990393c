// SPDX-License-Identifier: GPL-2.0-only
//! Conversion of register contents to kfunc arguments. A pointer of the wrong kind would not have passed the kernel's
//! verifier, so it is a fault of the program.

use crate::core::Core;
use bpf_machine::{Context, FaultKind, GuestAddr, Memory};
use ids::{CpuId, CpuSet, TaskId};

/// A task that a program passes: a task of the run, or the idle task of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    Task(TaskId),
    Idle(CpuId),
}

/// A fault that reports a bad argument.
pub(super) fn bad(text: String) -> FaultKind {
    FaultKind::BadArgument(text)
}

/// The task at `addr`, idle tasks included.
#[inline]
pub(super) fn subject(core: &Core, memory: &Memory, addr: GuestAddr) -> Result<Subject, FaultKind> {
    if let Some(task) = core.objects.task_at(memory, addr) {
        return Ok(Subject::Task(task));
    }
    match core.objects.idle_task_at(memory, addr) {
        Some(cpu) => Ok(Subject::Idle(cpu)),
        None if addr == 0 => Err(bad("NULL is not a task".to_owned())),
        None => Err(bad(format!("{addr:#x} is not a task"))),
    }
}

/// The task at `addr`; an idle task is a fault, because a scheduler cannot manage it.
#[inline]
pub(super) fn task(core: &Core, memory: &Memory, addr: GuestAddr) -> Result<TaskId, FaultKind> {
    match core.objects.task_at(memory, addr) {
        Some(task) => Ok(task),
        None => match subject(core, memory, addr)? {
            Subject::Task(task) => Ok(task),
            Subject::Idle(cpu) => Err(bad(format!("the idle task of CPU {cpu} cannot be scheduled"))),
        },
    }
}

/// The mask at `addr`.
pub(super) fn mask(core: &Core, cx: &Context<'_>, addr: GuestAddr) -> Result<CpuSet, FaultKind> {
    core.objects.mask(cx.memory, addr)
}

/// A 32-bit result, zero-extended as in the caller's register.
pub(super) fn int(value: i32) -> Result<u64, FaultKind> {
    Ok(value as u32 as u64)
}

/// The 64-bit word with this index in a structure in the program's memory.
pub(super) fn word(memory: &Memory, addr: GuestAddr, index: u64) -> Result<u64, FaultKind> {
    memory.load(addr + 8 * index, 8)
}
