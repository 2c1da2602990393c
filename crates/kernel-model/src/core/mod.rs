// SPDX-License-Identifier: GPL-2.0-only
//! The sched_ext core without the callbacks: state, queues, idle masks, and the services that kfuncs call.
//!
//! [`Core`] is the host of the BPF machine. The machine owns guest memory, so every method that touches a guest
//! object takes the memory as an argument. Code that calls into the scheduler is in `kernel`.

mod active_balance;
mod attached;
mod balance;
mod cgroups;
pub(crate) mod classes;
mod clocks;
mod context;
pub(crate) mod counters;
mod cpu_time;
pub(crate) mod deadline;
pub(crate) mod dsq;
pub(crate) mod fair;
mod flags;
pub(crate) mod idle;
mod idle_balance;
mod insert;
mod kick;
mod locks;
mod members;
pub(crate) mod queues;
mod random;
mod runqueue;
mod shared_queues;
pub(crate) mod task;
mod task_table;
mod time;

use crate::api::{Cause, Config, Effect, ExitInfo, Output, TimerKey};
use crate::guest::Objects;
use crate::ops::{Group, Op};
use attached::{Attached, Bypass};
use bpf_machine::SourceLine;
use cgroups::Cgroups;
pub(crate) use context::{Call, Callee, CpuContext, DirectDispatch, Running};
use deadline::Leaving;
use event_log::{CallbackSite, Detail, DetailKind, Event, EventKind, Printk};
pub(crate) use flags::{SLICE_BYPASS_NS, SLICE_DFL_NS, SLICE_INF, deq_flags, enq_flags, exit_kind, ops_flags};
use idle::Idle;
use idle_balance::Balancing;
use ids::{CpuId, CpuSet, Locality, Nanos, TaskId};
pub(crate) use insert::DsqCursor;
pub(crate) use locks::lock_of;
use random::Random;
pub(crate) use runqueue::{Reenqueue, Runqueue};
use shared_queues::SharedQueues;
use std::collections::BTreeSet;
use task::Class;
use task_table::TaskTable;
use time::Time;

/// State of a kernel without its BPF machine.
#[derive(Debug)]
pub(crate) struct Core {
    pub time: Time,
    /// Build and boot configuration.
    pub config: Config,
    /// Guest objects (task_struct, rq, cgroup and others).
    pub objects: Objects,
    /// Random numbers of the scheduler (`bpf_get_prandom_u32`).
    pub random: Random,
    /// State of load balancing, shared by all CPUs.
    balancing: Balancing,
    /// Output of the call in progress, for the driver.
    pub output: Output,
    /// What outputs contain besides effects and events.
    pub recorded: Recorded,

    /// Runqueues by CPU.
    pub cpus: Vec<Runqueue>,
    pub tasks: TaskTable,
    pub queues: SharedQueues,
    /// Built-in idle tracking.
    pub idle: Idle,
    /// State of the operation in progress.
    pub context: CpuContext,
    /// Number of finished operations.
    pub finished: u64,
    /// The attached scheduler.
    pub attached: Attached,
    pub bypass: Bypass,
    /// Number of CPU hotplug events since boot (contract H1).
    pub hotplug_seq: u64,
    /// The cgroup hierarchy.
    pub cgroups: Cgroups,
    /// Bandwidths of tasks that have left the deadline class and still count in admission control.
    pub leaving: Vec<Leaving>,
    /// Armed timers.
    pub armed: BTreeSet<TimerKey>,
}

/// Which optional parts the outputs of kernel operations have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// Whether outputs contain lock acquisitions and releases.
    pub locks: bool,
    /// Whether outputs contain details for explanations (`event_log::Detail`).
    pub details: bool,
}

/// Services that belong to no single module.
impl Core {
    /// A kernel without tasks, with all CPUs idle.
    pub fn new(config: Config, objects: Objects) -> Core {
        let topology = &config.topology;
        let cpus = topology.len();
        let idle = Idle::new(topology);
        let mut objects = objects;
        objects.hz = config.hz;
        Core {
            time: Time::default(),
            objects,
            random: Random::new(config.seed),
            balancing: Balancing::new(!config.seed, topology),
            output: Output::default(),
            recorded: Recorded::default(),
            cpus: (0..cpus).map(|_| Runqueue::new()).collect(),
            tasks: TaskTable::new(cpus),
            queues: SharedQueues::new(idle.spans.nodes()),
            idle,
            context: CpuContext::default(),
            finished: 0,
            attached: Attached::default(),
            bypass: Bypass::default(),
            hotplug_seq: 0,
            cgroups: Cgroups::default(),
            leaving: Vec::new(),
            armed: BTreeSet::new(),
            config,
        }
    }

    /// Reports an error or another reason to disable the scheduler; only the first counts (contract E1).
    pub fn error(&mut self, kind: u32, code: i64, message: String) {
        self.error_on(Some(self.context.cpu), kind, code, message);
    }

    /// Like [`Core::error`], with the CPU to report, if any.
    pub fn error_on(&mut self, cpu: Option<CpuId>, kind: u32, code: i64, message: String) {
        if !self.attached.is_exiting() {
            let reason = match kind {
                exit_kind::UNREGISTERED => "unregistered from user space",
                exit_kind::UNREGISTERED_BPF => "unregistered from BPF",
                exit_kind::UNREGISTERED_KERNEL => "unregistered from the main kernel",
                exit_kind::SYSRQ => "disabled by sysrq-S",
                exit_kind::ERROR_BPF => "scx_bpf_error",
                exit_kind::ERROR_STALL => "runnable task stall",
                _ => "runtime error",
            };
            let call = self.context.running.call;
            let source = call.and_then(|call| self.attached.source(call.line));
            let cause = Cause { op: self.context.running.op.map(Op::name), call: None, source };
            let exit = ExitInfo { kind, code, reason: reason.into(), message, cause, ..ExitInfo::default() };
            self.attached.exit = Some(exit);
            (self.attached.exit_cpu, self.attached.exit_callee) = (cpu, call.map(|call| call.callee));
        }
    }

    /// Attributes what follows to this call in this op; returns the previous op and call.
    pub fn blame(&mut self, op: Option<Op>, call: Option<Call>) -> (Option<Op>, Option<Call>) {
        (std::mem::replace(&mut self.context.running.op, op), std::mem::replace(&mut self.context.running.call, call))
    }

    /// Reports a runtime error (kind 1024).
    pub fn fail(&mut self, message: String) {
        self.error(exit_kind::ERROR, 0, message);
    }

    /// Reports a runtime error of `op` as a whole, such as a bad return value.
    pub fn fail_after(&mut self, op: Op, message: String) {
        let outer = std::mem::replace(&mut self.context.running, Running { op: Some(op), ..Running::NONE });
        self.fail(message);
        self.context.running = outer;
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// The CPU with this number; reports the kernel's error if there is none.
    pub fn check_cpu(&mut self, cpu: i32) -> Option<CpuId> {
        let found = self.cpu(cpu);
        if found.is_none() {
            self.fail(format!("invalid CPU {cpu}"));
        }
        found
    }

    /// The CPU with this number, if there is one.
    pub fn cpu(&self, cpu: i32) -> Option<CpuId> {
        (0..self.cpus.len() as i32).contains(&cpu).then_some(CpuId(cpu as u32))
    }

    /// The CPU whose runqueue is locked for the callback in progress, or the CPU that executes the callback: the
    /// meaning of SCX_DSQ_LOCAL in kfuncs.
    pub fn locked_cpu(&self) -> CpuId {
        self.context.running.locked.unwrap_or(self.context.cpu)
    }

    /// The task running on `cpu`; NONE is the idle task.
    pub fn current(&self, cpu: CpuId) -> TaskId {
        self.cpus[cpu.index()].current
    }

    /// CPU of a task.
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.tasks[task].cpu
    }

    /// The task with this pid.
    pub fn task_by_pid(&self, pid: i32) -> Option<TaskId> {
        self.tasks.by_pid(pid)
    }

    /// Whether the task is the current task of its CPU.
    pub fn task_running(&self, task: TaskId) -> bool {
        self.current(self.task_cpu(task)) == task
    }

    /// `scx_bpf_now`: constant within an operation (contract S1).
    pub fn clock(&self) -> Nanos {
        self.rq_clock(self.context.cpu) + self.time.uptime()
    }

    /// Clock of `cpu`, with its error.
    pub fn rq_clock(&self, cpu: CpuId) -> Nanos {
        self.time.of_cpu(cpu)
    }

    /// Current time, rounded down to a jiffy.
    pub fn jiffies_now(&self) -> Nanos {
        self.jiffies_in_ns(crate::guest::jiffies(self.time.now().0, self.config.hz))
    }

    /// Converts jiffies to nanoseconds.
    pub fn jiffies_in_ns(&self, jiffies: u64) -> Nanos {
        crate::guest::jiffies_in_ns(jiffies, self.config.hz)
    }

    /// `comm[pid]`, as the kernel's messages name a task.
    pub fn name_of(&self, task: TaskId) -> String {
        let task = &self.tasks[task];
        format!("{}[{}]", task.comm, task.pid)
    }

    /// `scx_kf_arg_task_ok`: returns whether the callback in progress operates on the task; reports the kernel's
    /// error if not (contract C2).
    pub fn is_subject(&mut self, task: Option<TaskId>) -> bool {
        let subject = task.is_some_and(|task| self.context.running.subjects.contains(&task));
        if !subject {
            self.fail("called on a task not being operated on".into());
        }
        subject
    }

    /// `scx_bpf_tid_to_task`: the task with this tid, if the scheduler set SCX_OPS_TID_TO_TASK.
    pub fn task_by_tid(&mut self, tid: u64) -> Option<TaskId> {
        if !self.attached.has_flags(ops_flags::TID_TO_TASK) || self.context.running.op == Some(Op::Init) {
            self.fail("scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK".into());
            return None;
        }
        let index = usize::try_from(tid.checked_sub(1)?).ok()?;
        let pid = self.tasks.get(index)?.pid;
        self.task_by_pid(pid)
    }

    /// Node of a CPU.
    pub fn node_of(&self, cpu: CpuId) -> u32 {
        self.config.topology.place(cpu).node
    }

    /// `scx_rq_online`: whether ext tasks may be placed on this CPU.
    pub fn rq_online(&self, cpu: CpuId) -> bool {
        let rq = &self.cpus[cpu.index()];
        rq.scx_online && rq.active
    }

    /// `cpu_active_mask`.
    pub fn active_cpus(&self) -> CpuSet {
        (0..self.cpus()).map(CpuId).filter(|cpu| self.cpus[cpu.index()].active).collect()
    }

    /// `cpu_online_mask`.
    pub fn online_cpus(&self) -> CpuSet {
        (0..self.cpus()).map(CpuId).filter(|cpu| self.cpus[cpu.index()].online).collect()
    }

    /// Number of NUMA nodes.
    pub fn nodes(&self) -> u32 {
        self.idle.spans.nodes()
    }

    /// Whether bypass mode is on.
    pub fn bypassing(&self) -> bool {
        self.bypass.is_on()
    }

    /// Whether the callback in progress may call the kfuncs of this group (contract 1.2).
    pub fn allows(&self, group: Group) -> bool {
        match (group, self.context.running.op) {
            (Group::Any | Group::Idle, _) => true,
            (_, None) => false,
            (group, Some(op)) => op.allows(group),
        }
    }

    /// Scheduling class of the task running on `cpu`.
    pub fn current_class(&self, cpu: CpuId) -> Class {
        self.current(cpu).some().map_or(Class::Idle, |task| self.tasks[task].class)
    }

    /// Asks the driver to reschedule `cpu`, unless a request is pending.
    pub fn resched(&mut self, cpu: CpuId) {
        let rq = &mut self.cpus[cpu.index()];
        if !rq.need_resched && rq.online {
            rq.need_resched = true;
            self.output.effects.push(Effect::Resched { cpu });
        }
    }

    /// `resched_curr_lazy`, used by the fair class since 7.0 (on x86 there is no other choice): the running task
    /// stays in user mode until the next interrupt. A CPU with another last-level cache reschedules at once, because
    /// such a wakeup arrives as an interrupt (`ttwu_queue_cond`).
    pub fn resched_lazily(&mut self, cpu: CpuId) {
        let near = || self.config.topology.locality(self.context.cpu, cpu) <= Locality::Llc;
        let waits = cpu != self.context.cpu && self.current(cpu) != TaskId::NONE && near();
        if waits && self.config.version >= (7, 0) {
            self.cpus[cpu.index()].lazy_resched = true;
        } else {
            self.resched(cpu);
        }
    }

    /// `exit_to_user_mode_loop`: `cpu` is about to return to user mode.
    pub fn leave_kernel(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu.index()].lazy_resched) {
            self.resched(cpu);
        }
    }

    /// Logs an event of this CPU, with the source line of the callback in progress.
    pub fn log(&mut self, task: TaskId, kind: EventKind) {
        let site = self.site();
        self.output.events.push(Event { time: self.time.now(), cpu: self.context.cpu, task, kind, site });
    }

    /// Records a detail that the events leave out, if details are enabled.
    #[inline]
    pub fn detail(&mut self, task: TaskId, kind: impl FnOnce(&Core) -> DetailKind) {
        if self.recorded.details {
            let (kind, site) = (kind(self), self.site());
            let detail = Detail { time: self.time.now(), cpu: self.context.cpu, task, kind, site };
            self.output.details.push((self.output.events.len(), detail));
        }
    }

    /// Records a detail of `op` as a whole.
    #[inline]
    pub fn detail_of(&mut self, op: Op, task: TaskId, kind: impl FnOnce(&Core) -> DetailKind) {
        let outer = self.blame(Some(op), None);
        self.detail(task, kind);
        self.blame(outer.0, outer.1);
    }

    /// `bpf_trace_printk`: logs the text with the task running on this CPU.
    pub fn print(&mut self, text: String) {
        let (cpu, site) = (self.context.cpu, self.site());
        let printk = Printk { time: self.time.now(), cpu, task: self.current(cpu), site, text };
        let Output { events, printed, .. } = &mut self.output;
        printed.push((events.len(), printk));
    }

    /// Place in the scheduler's code that the model is executing, for the log.
    pub fn site(&self) -> CallbackSite {
        let SourceLine { file, line } = self.context.running.call.map_or_else(SourceLine::default, |call| call.line);
        CallbackSite { op: self.context.running.op.map_or(0, Op::number), file, line }
    }

    /// `scx_bpf_exit_bstr`.
    pub fn bpf_exit(&mut self, code: i64, message: String) {
        self.error(exit_kind::UNREGISTERED_BPF, code, message);
    }

    /// `scx_bpf_dump_bstr`: appends to the debug dump under construction.
    pub fn dump(&mut self, text: String) {
        match &mut self.attached.dump {
            Some(dump) => dump.push_str(&text),
            None => self.fail("scx_bpf_dump() must only be called from ops.dump() and friends".into()),
        }
    }

    /// `scx_bpf_cpuperf_set`, 0 to 1024 (contract E3).
    pub fn cpuperf_set(&mut self, cpu: i32, perf: u32) {
        if perf > 1024 {
            self.fail(format!("Invalid cpuperf target {perf} for CPU {cpu}"));
        } else if let Some(cpu) = self.check_cpu(cpu) {
            if self.context.running.locked.is_some_and(|locked| locked != cpu) {
                self.fail(format!("Invalid target CPU {cpu}"));
            } else {
                self.set_performance_target(cpu, perf);
            }
        }
    }

    /// Sets the performance target of a CPU. It takes effect at once, unless the driver reports another performance
    /// level.
    pub fn set_performance_target(&mut self, cpu: CpuId, target: u32) {
        let rq = &mut self.cpus[cpu.index()];
        if rq.cpuperf != target {
            (rq.cpuperf, rq.performance) = (target, target);
            self.output.effects.push(Effect::Performance { cpu, target });
        }
    }

    /// `scx_bpf_cpuperf_cur`.
    pub fn cpuperf_cur(&mut self, cpu: i32) -> u32 {
        self.check_cpu(cpu).map_or(0, |cpu| self.cpus[cpu.index()].performance)
    }

    /// Value of an event counter by its name (`SCX_EV_…`).
    pub fn event_count(&self, name: &str) -> u64 {
        self.attached.counters.get(name)
    }
}
