// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts and other events that wait until a CPU is free.

use fault_plan::ClockFault;
use ids::{CpuId, Nanos, TaskId};
use kernel_model::TimerKey;

/// An event pending for a CPU until it is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupt {
    /// The sleep of a task ends.
    Sleep(TaskId),
    /// A request of the task to this disk is complete; `shares`: an interrupt at the same instant has the top half.
    Disk { task: TaskId, disk: u32, shares: bool },
    /// A task of the address space that the CPU uses has shrunk it.
    Shootdown,
    /// A kernel timer expired.
    Timer(TimerKey),
    /// The external parent starts a task of this spec.
    Start(u32),
    /// A step of the fault plan that this CPU executes itself.
    Fault(Step),
    /// A step of attaching or detaching the scheduler.
    Load(Load),
    /// Programs of the scheduler are called.
    Call,
    /// Something that is not a task occupies the CPU for this time: the host or the external parent.
    Theft(Nanos),
}

/// One step of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The CPU accepts no more tasks.
    Deactivate(CpuId),
    /// An RCU grace period elapses; contains its end once it has begun.
    Grace(Option<Nanos>),
    /// The scheduler is notified that the CPU goes offline.
    Offline(CpuId),
    /// The CPU stops, once no task is left on it.
    Kill(CpuId),
    /// The CPU comes online.
    Online(CpuId),
    /// The CPU accepts tasks, and the scheduler is notified.
    Activate(CpuId),
    /// The CPU's clock is disturbed.
    Clock(CpuId, ClockFault),
    /// The scheduler is bypassed.
    Bypass,
    /// The tasks are frozen.
    Freeze,
    /// The clock stops for this time.
    Sleep(Nanos),
    /// The clock continues, at this time.
    Wake { at: Nanos, length: Nanos },
    /// The tasks are thawed, and the bypass ends.
    Thaw,
}

/// Next step of attaching or detaching the scheduler, on the boot CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// Attach again.
    Attach,
    /// The attach is complete; the bypass ends.
    EndAttach,
    /// The loader detaches the scheduler.
    Detach,
    /// The bypassed scheduler is disabled.
    EndDisable,
}
