// SPDX-License-Identifier: GPL-2.0-only
//! Members of guest objects that are computed when a program reads them. Most change at each switch, and few
//! schedulers read them: a store at each change would cost every run.

use super::Core;
use super::dsq::QueueRef;
use super::fair::inverse_of;
use super::task::{Activation, Class, Owner, RunState, SCALE, Task, load_weight};
use crate::Leave;
use crate::guest::{Live, jiffies};
use crate::ops::Op;
use bpf_machine::{GuestAddr, Memory, RegionId};
use event_log::BlockCause;
use ids::{CpuId, DsqId, Nanos, Policy, TaskId};

/// Values of `p->__state` (include/linux/sched.h).
mod state {
    pub const RUNNING: u64 = 0;
    pub const INTERRUPTIBLE: u64 = 0x1;
    pub const UNINTERRUPTIBLE: u64 = 0x2;
    pub const DEAD: u64 = 0x80;
    pub const WAKING: u64 = 0x200;
    pub const NEW: u64 = 0x800;
}

/// `SCX_TASK_DSQ_ON_PRIQ`: the task is in a queue ordered by virtual time.
const ON_PRIQ: u64 = 1;
/// `SCX_OPSS_QSEQ_SHIFT`: bits of the state below the sequence number in `p->scx.ops_state`.
const QSEQ_SHIFT: u32 = 2;
/// `SCX_OPSS_QUEUEING` and `SCX_OPSS_QUEUED`.
const QUEUEING: u64 = 1;
const QUEUED: u64 = 2;
/// `SCX_RQ_ONLINE` and `SCX_RQ_IN_BALANCE`.
const RQ_ONLINE: u64 = 1;
const RQ_IN_BALANCE: u64 = 0x2_0000;

impl Core {
    /// Brings the members among the `len` bytes at `addr` up to date that are computed when they are read.
    pub fn refresh_members(&mut self, memory: &mut Memory, addr: GuestAddr, len: u32) {
        let Some((region, slot, inside)) = memory.locate(addr) else { return };
        let (objects, types) = (&self.objects, self.objects.types.clone());
        let name = match region {
            _ if region == objects.tasks || region == objects.idle_tasks => "task_struct",
            _ if region == objects.rqs => "rq",
            _ if region == objects.scheduling.queues => "scx_dispatch_q",
            _ => return,
        };
        for &(place, live) in types.layout(name).live.iter().filter(|(place, _)| place.overlaps(inside, len)) {
            let value = self.member(memory, region, slot, live);
            place.store(memory.slot_mut(region, slot), value);
        }
    }

    /// Counts a switch of `cpu` away from `prev` (`nvcsw`, `nivcsw`, `nr_switches`).
    pub fn count_switch(&mut self, cpu: CpuId, prev: TaskId, leave: Leave) {
        self.cpus[cpu.index()].switches += 1;
        let Some(prev) = prev.some() else { return };
        let history = &mut self.task_mut(prev).history;
        match leave {
            Leave::Block(_) | Leave::Exit => history.voluntary += 1,
            Leave::Preempt | Leave::Yield => history.involuntary += 1,
        }
    }

    /// Notes whether the current task of a CPU blocks for a device (`p->in_iowait`).
    pub fn note_iowait(&mut self, current: TaskId, leave: Leave) {
        if let Some(task) = current.some() {
            self.task_mut(task).history.iowait = leave == Leave::Block(BlockCause::Io);
        }
    }

    fn member(&mut self, memory: &mut Memory, region: RegionId, slot: u32, live: Live) -> u64 {
        if region == self.objects.tasks {
            match live {
                // The region has spare slots.
                _ if slot as usize >= self.tasks.len() => 0,
                Live::Dsq => self.dsq_of(memory, TaskId(slot)),
                Live::Class => self.objects.scheduling.class(memory, self.task(TaskId(slot)).class as u32),
                live => self.member_of_task(TaskId(slot), live),
            }
        } else if region == self.objects.idle_tasks {
            match live {
                Live::Class => self.objects.scheduling.class(memory, Class::Idle as u32),
                live => self.member_of_idle_task(CpuId(slot), live),
            }
        } else if region == self.objects.rqs {
            self.member_of_rq(CpuId(slot), live)
        } else {
            let key = self.objects.scheduling.key_of(slot);
            key.map_or(0, |(id, place)| self.length_of(DsqId(id), place))
        }
    }

    fn member_of_task(&self, task: TaskId, live: Live) -> u64 {
        let entry = self.task(task);
        let history = &entry.history;
        let minus_one = u64::from(u32::MAX);
        match live {
            Live::State => self.state_of(task),
            Live::OnCpu => u64::from(self.task_running(task) && !self.is_in(Op::Running, task)),
            Live::OnRq => u64::from(self.is_on_rq(task)),
            Live::Cpu => entry.cpu.0.into(),
            Live::IoWait => u64::from(history.iowait),
            Live::VoluntarySwitches => history.voluntary,
            Live::InvoluntarySwitches => history.involuntary,
            Live::Migrations => history.migrations,
            Live::UserTime if !entry.kernel_thread => self.executed_in_ticks(task),
            Live::KernelTime if entry.kernel_thread => self.executed_in_ticks(task),
            Live::UserTime | Live::KernelTime => 0,
            Live::ExecStart if self.task_running(task) => {
                (self.cpus[entry.cpu.index()].exec_start + self.time.uptime()).0
            }
            Live::ExecStart => history.charged.0,
            Live::FairOnRq => u64::from(entry.class == Class::Fair && (entry.is_runnable() || entry.fair.is_delayed())),
            Live::FairDelayed => u64::from(entry.fair.is_delayed()),
            Live::FairVruntime => entry.fair.vruntime,
            Live::FairDeadline => entry.fair.deadline,
            Live::FairLag => entry.fair.lag as u64,
            Live::FairSlice => self.fair_slice(),
            Live::LoadWeight => u64::from(load_weight(entry.policy, entry.nice)) << SCALE,
            Live::LoadInverse => inverse_of(load_weight(entry.policy, entry.nice)).into(),
            Live::RtSlice => entry.quantum_left.into(),
            Live::DlRuntime | Live::DlDeadline | Live::DlPeriod => reservation(entry, live),
            Live::DsqFlags => {
                if self.in_order(task) {
                    ON_PRIQ
                } else {
                    0
                }
            }
            Live::OpsState => match entry.owner {
                Owner::Core => 0,
                Owner::Queueing(sequence) => u64::from(sequence) << QSEQ_SHIFT | QUEUEING,
                Owner::Bpf(sequence) => u64::from(sequence) << QSEQ_SHIFT | QUEUED,
            },
            Live::OpsSequence => entry.ops_qseq.into(),
            Live::RunnableAt => jiffies((entry.runnable_at + self.time.uptime()).0, self.config.hz),
            Live::SelectedCpu => entry.selected_cpu.0.into(),
            Live::NoCpu => minus_one,
            Live::VerdictDsq => entry.verdict.map_or(DsqId::INVALID.0, |verdict| verdict.dsq.0),
            Live::VerdictFlags => entry.verdict.map_or(0, |verdict| verdict.enq_flags),
            other => unreachable!("{other:?} is no member of a task"),
        }
    }

    /// The idle task of a CPU: it is runnable, and runs if no other task does.
    fn member_of_idle_task(&self, cpu: CpuId, live: Live) -> u64 {
        match live {
            Live::Cpu => cpu.0.into(),
            Live::OnRq => 1,
            Live::OnCpu => u64::from(self.current(cpu) == TaskId::NONE),
            Live::NoCpu => u64::from(u32::MAX),
            Live::VerdictDsq => DsqId::INVALID.0,
            _ => 0,
        }
    }

    fn member_of_rq(&self, cpu: CpuId, live: Live) -> u64 {
        let rq = &self.cpus[cpu.index()];
        let running = |class: Class| self.current(cpu).some().is_some_and(|task| self.task(task).class == class);
        let of_class = |class: Class| {
            let runs = self.current(cpu).some();
            let waiting = rq.higher.iter().filter(|(other, .., task)| *other == class && Some(*task) != runs).count();
            waiting as u64 + u64::from(running(class))
        };
        let fair = || of_class(Class::Fair) + rq.fair.delayed.len() as u64;
        match live {
            Live::RqRunning => of_class(Class::Deadline) + of_class(Class::Rt) + fair() + u64::from(rq.ext_tasks),
            Live::RqSwitches => rq.switches,
            Live::RqClock => (self.rq_clock(cpu) + self.time.uptime()).0,
            Live::RqOnline => rq.online.into(),
            Live::RqCapacity => {
                let capacity = self.config.topology.capacities.get(cpu.index());
                capacity.copied().unwrap_or(ids::Topology::FULL_CAPACITY).into()
            }
            Live::RqIoWait => {
                let waits =
                    |task: &&Task| task.cpu == cpu && task.history.iowait && task.run_state == RunState::Sleeping;
                self.tasks.iter().filter(waits).count() as u64
            }
            Live::RqFair => fair(),
            Live::RqRt => of_class(Class::Rt),
            Live::RqDeadline => of_class(Class::Deadline),
            Live::RqExt => rq.ext_tasks.into(),
            Live::RqImmediate => rq.immed_tasks.into(),
            Live::RqPerformance => rq.cpuperf.into(),
            Live::RqReleased => rq.released.into(),
            Live::RqExtFlags => {
                (if rq.scx_online { RQ_ONLINE } else { 0 }) | if rq.in_balance { RQ_IN_BALANCE } else { 0 }
            }
            Live::RqLocal => rq.local.len() as u64,
            Live::Tickless => rq.fair.tickless.into(),
            other => unreachable!("{other:?} is no member of a runqueue"),
        }
    }

    /// Whether `op` is called for `task`.
    fn is_in(&self, op: Op, task: TaskId) -> bool {
        self.context.running.op == Some(op) && self.context.running.subjects[0] == task
    }

    /// `p->__state`. A wakeup sets TASK_WAKING before it selects a CPU, and TASK_RUNNING after the enqueue.
    fn state_of(&self, task: TaskId) -> u64 {
        let entry = self.task(task);
        match (entry.history.activation, entry.run_state) {
            (Activation::Woken, _) | (_, RunState::Waking) => state::WAKING,
            (Activation::New, _) | (_, RunState::Runnable) => state::RUNNING,
            (_, RunState::New) => state::NEW,
            (_, RunState::Sleeping) if entry.history.iowait => state::UNINTERRUPTIBLE,
            (_, RunState::Sleeping) => state::INTERRUPTIBLE,
            (_, RunState::Dead) => state::DEAD,
        }
    }

    /// `p->on_rq`: set after the enqueue, cleared after the dequeue.
    fn is_on_rq(&self, task: TaskId) -> bool {
        let entry = self.task(task);
        let leaves = [Op::Stopping, Op::Dequeue, Op::Quiescent].iter().any(|&op| self.is_in(op, task));
        match entry.run_state {
            RunState::Runnable => entry.history.activation == Activation::None,
            RunState::Sleeping | RunState::Dead => leaves || entry.fair.is_delayed(),
            RunState::New | RunState::Waking => false,
        }
    }

    /// Executed time up to now, in whole ticks as the kernel accounts it.
    fn executed_in_ticks(&self, task: TaskId) -> u64 {
        let entry = self.task(task);
        let since = self.cpus[entry.cpu.index()].exec_start;
        let running = if self.task_running(task) { self.rq_clock(entry.cpu).since(since) } else { Nanos::ZERO };
        let tick = 1_000_000_000 / u64::from(self.config.hz);
        (entry.sum_exec + running).0 / tick * tick
    }

    /// Address of the queue that holds a task; NULL for none.
    fn dsq_of(&mut self, memory: &mut Memory, task: TaskId) -> GuestAddr {
        let Some(queue) = self.task(task).queue else { return 0 };
        let place = match queue {
            QueueRef::Local(cpu) => {
                // A local queue is part of its runqueue.
                let at = self.objects.types.layout("rq").place("scx.local_dsq.id").offset;
                let id = self.objects.types.layout("scx_dispatch_q").offset("id");
                return memory.addr(self.objects.rqs, cpu.0) + u64::from(at - id);
            }
            QueueRef::Global(node) => node,
            QueueRef::Bypass(cpu) => cpu.0,
            QueueRef::User(_) => 0,
        };
        self.objects.scheduling.queue(memory, (queue.id().0, place))
    }

    /// Number of tasks in a queue outside of runqueues. A destroyed queue has none.
    fn length_of(&self, id: DsqId, place: u32) -> u64 {
        let queue = match id {
            DsqId::GLOBAL => Some(self.queues.global(place)),
            DsqId::BYPASS => self.cpus.get(place as usize).map(|rq| &rq.bypass),
            id => self.queues.user(id),
        };
        queue.map_or(0, |queue| queue.len() as u64)
    }
}

/// A parameter of SCHED_DEADLINE; 0 for other policies.
fn reservation(task: &Task, live: Live) -> u64 {
    match (task.policy, live) {
        (Policy::Deadline { runtime, .. }, Live::DlRuntime) => runtime.0,
        (Policy::Deadline { deadline, .. }, Live::DlDeadline) => deadline.0,
        (Policy::Deadline { period, .. }, Live::DlPeriod) => period.0,
        _ => 0,
    }
}
