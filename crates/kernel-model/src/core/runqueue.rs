// SPDX-License-Identifier: GPL-2.0-only
//! State of one CPU's runqueue.

use super::deadline::server::Servers;
use super::dsq::Dsq;
use super::fair::FairQueue;
use super::task::{Class, TaskKey};
use crate::guest::CpuTime;
use ids::{Nanos, TaskId};
use std::collections::BTreeSet;

/// A CPU's runqueue.
#[derive(Debug)]
pub(crate) struct Runqueue {
    /// The running task; NONE is the idle task.
    pub current: TaskId,
    /// Time up to which the running task has been charged.
    pub exec_start: Nanos,
    /// A reschedule is pending, and the driver has been asked for it.
    pub need_resched: bool,
    /// Reschedule at the next interrupt (TIF_NEED_RESCHED_LAZY of PREEMPT_LAZY).
    pub lazy_resched: bool,
    /// Held by an unmodelled context until the next reschedule.
    pub occupied: bool,
    /// In `cpu_online_mask`: the CPU executes code.
    pub online: bool,
    /// In `cpu_active_mask`: tasks may be placed here.
    pub active: bool,
    /// SCX_RQ_ONLINE: online as far as sched_ext is concerned (contract H1).
    pub scx_online: bool,
    /// Local dispatch queue.
    pub local: Dsq,
    /// Bypass queue.
    pub bypass: Dsq,
    /// The slice of the current task was set to 0 to preempt it.
    pub preempted: bool,
    /// Inside the balance step of a pick.
    pub in_balance: bool,
    /// The CPU has picked the next task and not yet switched to it. Used only with `+waiting`.
    pub switching: bool,
    /// A higher class has the CPU and `cpu_release` was called (contract R1).
    pub released: bool,
    /// Number of runnable ext tasks, the running one included.
    pub ext_tasks: u32,
    /// Class of the running task, or of a higher-class task that became runnable since: the next task is of this
    /// class or a higher one.
    pub next_class: Class,
    /// Number of IMMED tasks in the local queue (contract D10).
    pub immed_tasks: u32,
    /// Tasks to re-enqueue when the operation ends; `None` for none (contract K2, D10).
    pub reenqueue: Option<Reenqueue>,
    /// Operation in which the local queue was last re-enqueued, and how many times in that operation (contract K2).
    pub reenqueued: (u64, u32),
    /// Number of switches away from ext tasks and of picks, as the kernel's `kick_sync` counts them.
    pub kick_sync: u64,
    /// Waiting tasks of the classes above ext, in pick order.
    pub higher: BTreeSet<TaskKey>,
    /// State of the fair class.
    pub fair: FairQueue,
    /// Deadline servers of the fair class and of ext (contract P9).
    pub servers: Servers,
    /// Performance level that the scheduler asked for, 0..=1024.
    pub cpuperf: u32,
    /// Performance level now, 0 to 1024.
    pub performance: u32,
    /// CPU time by kind (user, nice, system, idle), charged up to `exec_start`.
    pub time: CpuTime,
    /// Number of switches (`rq->nr_switches`).
    pub switches: u64,
}

impl Runqueue {
    /// The runqueue of an online CPU that idles.
    pub fn new() -> Runqueue {
        Runqueue {
            current: TaskId::NONE,
            exec_start: Nanos::ZERO,
            need_resched: false,
            lazy_resched: false,
            occupied: false,
            online: true,
            active: true,
            scx_online: true,
            local: Dsq::new(),
            bypass: Dsq::new(),
            preempted: false,
            in_balance: false,
            switching: false,
            released: false,
            ext_tasks: 0,
            next_class: Class::Idle,
            immed_tasks: 0,
            reenqueue: None,
            reenqueued: (0, 0),
            kick_sync: 0,
            higher: BTreeSet::new(),
            fair: FairQueue::new(),
            servers: Servers::default(),
            cpuperf: 1024,
            performance: 1024,
            time: CpuTime::default(),
            switches: 0,
        }
    }
}

/// Which tasks of a local queue to re-enqueue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reenqueue {
    /// IMMED tasks that cannot run at once.
    Immediate,
    /// All tasks, because `cpu_release` called `scx_bpf_reenqueue_local`. This task was still the current one of its
    /// CPU.
    Released(TaskId),
    /// All tasks, at the request of the scheduler.
    All,
}
