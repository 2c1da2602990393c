// SPDX-License-Identifier: GPL-2.0-only
//! The operations of `struct sched_ext_ops` and the kfuncs that each may call.

/// A group of kfuncs that an op may or may not call (contract 1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// Callable from anywhere.
    Any,
    /// Built-in idle tracking: callable from anywhere.
    Idle,
    /// `dsq_insert*`.
    Enqueue,
    /// `dsq_move_to_local`, `dispatch_nr_slots`, `dispatch_cancel`, `dsq_move*`.
    Dispatch,
    /// `select_cpu_dfl`, `select_cpu_and`.
    Select,
    /// `create_dsq`, and `dsq_move*` and `select_cpu_*` when no runqueue is locked.
    Unlocked,
    /// The synchronous `reenqueue_local`.
    Release,
}

/// An operation of `struct sched_ext_ops`. The order is that of `event_log`'s op numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
#[repr(u8)]
pub(crate) enum Op {
    SelectCpu,
    Enqueue,
    Dequeue,
    Dispatch,
    Tick,
    Runnable,
    Running,
    Stopping,
    Quiescent,
    Yield,
    CoreSchedBefore,
    SetWeight,
    SetCpumask,
    UpdateIdle,
    CpuAcquire,
    CpuRelease,
    InitTask,
    ExitTask,
    Enable,
    Disable,
    Dump,
    DumpCpu,
    DumpTask,
    CgroupInit,
    CgroupExit,
    CgroupPrepMove,
    CgroupMove,
    CgroupCancelMove,
    CgroupSetWeight,
    CgroupSetBandwidth,
    CgroupSetIdle,
    CpuOnline,
    CpuOffline,
    Init,
    Exit,
    /// A `bpf_timer` callback; not a member of the struct.
    Timer,
    /// A program in section `syscall` that user space calls; not a member of the struct.
    Program,
}

/// Number of ops.
pub(crate) const OP_COUNT: usize = Op::Program as usize + 1;

/// All ops, in declaration order.
const ALL: [Op; OP_COUNT] = [
    Op::SelectCpu,
    Op::Enqueue,
    Op::Dequeue,
    Op::Dispatch,
    Op::Tick,
    Op::Runnable,
    Op::Running,
    Op::Stopping,
    Op::Quiescent,
    Op::Yield,
    Op::CoreSchedBefore,
    Op::SetWeight,
    Op::SetCpumask,
    Op::UpdateIdle,
    Op::CpuAcquire,
    Op::CpuRelease,
    Op::InitTask,
    Op::ExitTask,
    Op::Enable,
    Op::Disable,
    Op::Dump,
    Op::DumpCpu,
    Op::DumpTask,
    Op::CgroupInit,
    Op::CgroupExit,
    Op::CgroupPrepMove,
    Op::CgroupMove,
    Op::CgroupCancelMove,
    Op::CgroupSetWeight,
    Op::CgroupSetBandwidth,
    Op::CgroupSetIdle,
    Op::CpuOnline,
    Op::CpuOffline,
    Op::Init,
    Op::Exit,
    Op::Timer,
    Op::Program,
];

impl Op {
    /// Number of the op in `event_log::CallbackSite`.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Name of the op in `struct sched_ext_ops`.
    pub fn name(self) -> &'static str {
        event_log::op_name(self.number()).expect("every op has a name")
    }

    /// The op with this index (its discriminant).
    pub fn by_index(index: usize) -> Op {
        ALL[index]
    }

    /// The op with this name.
    pub fn by_name(name: &str) -> Option<Op> {
        ALL.into_iter().find(|op| op.name() == name && !op.is_no_member())
    }

    /// Whether this is a timer callback or a `syscall` program, not a member of `struct sched_ext_ops`.
    fn is_no_member(self) -> bool {
        matches!(self, Op::Timer | Op::Program)
    }

    /// Whether the op may sleep, so that its program may be in section `struct_ops.s` (contract C1).
    pub fn may_sleep(self) -> bool {
        use Op::*;
        matches!(self, InitTask | CgroupInit | CgroupExit | CgroupPrepMove | CpuOnline | CpuOffline | Init | Exit)
    }

    /// Whether the kernel calls the op with a runqueue locked (contract 1.2).
    pub fn locks_runqueue(self) -> bool {
        use Op::*;
        matches!(
            self,
            Enqueue
                | Dequeue
                | Dispatch
                | Tick
                | Runnable
                | Running
                | Stopping
                | Quiescent
                | Yield
                | CoreSchedBefore
                | SetWeight
                | SetCpumask
                | UpdateIdle
                | CpuAcquire
                | CpuRelease
                | ExitTask
                | Enable
                | Disable
                | DumpCpu
                | DumpTask
                | CgroupMove
        )
    }

    /// Whether the kernel calls the op with interrupts off: under a runqueue lock, the `pi_lock` of the wakee, or the
    /// dump lock.
    pub fn runs_without_interrupts(self) -> bool {
        self.locks_runqueue() || matches!(self, Op::SelectCpu | Op::Dump)
    }

    /// Whether the op may call the kfuncs of a group (contract 1.2).
    pub fn allows(self, group: Group) -> bool {
        use Op::*;
        match group {
            Group::Any | Group::Idle => true,
            Group::Enqueue => matches!(self, SelectCpu | Enqueue | Dispatch),
            Group::Dispatch => self == Dispatch,
            Group::Select => matches!(self, SelectCpu | Enqueue),
            Group::Release => self == CpuRelease,
            Group::Unlocked => matches!(
                self,
                Init | Exit
                    | InitTask
                    | CgroupInit
                    | CgroupExit
                    | CgroupPrepMove
                    | CgroupCancelMove
                    | CgroupSetWeight
                    | CgroupSetBandwidth
                    | CgroupSetIdle
                    | CpuOnline
                    | CpuOffline
                    | Dump
                    | Timer
                    | Program
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_names_match_event_log_numbers() {
        for (index, op) in ALL.into_iter().enumerate() {
            assert_eq!(op as usize, index);
            assert!(op.is_no_member() || Op::by_name(op.name()) == Some(op), "{op:?}");
        }
        assert_eq!(Op::SelectCpu.name(), "select_cpu");
        assert_eq!(Op::Exit.name(), "exit");
    }
}
