// SPDX-License-Identifier: GPL-2.0-only
//! What can wait for a CPU until that is free.

use fault_plan::ClockFault;
use ids::{CpuId, Nanos, TaskId};
use kernel_model::TimerKey;

/// An interrupt that waits until its CPU is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupt {
    /// The sleep of a task is over.
    Sleep(TaskId),
    /// A timer of the kernel fired.
    Timer(TimerKey),
    /// A task of this spec comes from outside.
    Start(u32),
    /// A step of the fault plan that this CPU does itself.
    Fault(Step),
    /// Something is done to the scheduler.
    Load(Load),
    /// Programs of the scheduler are called.
    Call,
    /// Somebody who is no task has the CPU for so long: the host, or the parent outside.
    Theft(Nanos),
}

/// One step of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Tasks no longer come to the CPU.
    Deactivate(CpuId),
    /// RCU users of the old state go away; from when on, if that is known.
    Grace(Option<Nanos>),
    /// The scheduler is told that the CPU goes.
    Offline(CpuId),
    /// It stops, when nobody is left there.
    Kill(CpuId),
    /// It comes.
    Online(CpuId),
    /// Tasks come to it, and the scheduler is told.
    Activate(CpuId),
    /// Its clock is wrong from now on.
    Clock(CpuId, ClockFault),
    /// The scheduler is bypassed.
    Bypass,
    /// Tasks stop.
    Freeze,
    /// The clock stops for so long.
    Sleep(Nanos),
    /// It goes on, at this time.
    Wake { at: Nanos, length: Nanos },
    /// Tasks go on, and the scheduler is no longer bypassed.
    Thaw,
}

/// What is done next to the scheduler, on the boot CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// It is attached again.
    Attach,
    /// It is attached, and no longer bypassed.
    EndAttach,
    /// Its loader takes it away.
    Detach,
    /// It is bypassed, and gone.
    EndDisable,
}
