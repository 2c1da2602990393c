// SPDX-License-Identifier: GPL-2.0-only
//! The sched_ext core without the callbacks: state, queues, idle masks, and the services that kfuncs call.
//!
//! [`Core`] is the host of the BPF machine. The machine owns guest memory, so every method that touches a guest
//! object takes the memory as an argument. Code that calls into the scheduler is in `kernel`.

mod balance;
mod cgroups;
pub(crate) mod classes;
mod clocks;
mod context;
pub(crate) mod counters;
mod cpu_time;
pub(crate) mod dsq;
pub(crate) mod fair;
mod host;
pub(crate) mod idle;
mod idle_balance;
mod insert;
mod kick;
mod locks;
mod members;
pub(crate) mod queues;
pub(crate) mod task;

use crate::api::{Cause, Config, Effect, ExitInfo, Output, TimerKey};
use crate::guest::{CpuTime, Objects};
use crate::ops::{Group, Op};
use bpf_machine::SourceLine;
use cgroups::Cgroups;
pub(crate) use context::{Call, Callee, CpuContext, DirectDispatch, Running};
use counters::Counters;
use dsq::Dsq;
use event_log::{CallbackSite, Detail, DetailKind, Event, EventKind, Printk};
use fair::FairQueue;
use idle::Idle;
use idle_balance::Nohz;
use ids::{CpuId, CpuSet, DsqId, Locality, Nanos, TaskId};
pub(crate) use insert::DsqCursor;
pub(crate) use locks::lock_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use task::{Class, Task, TaskKey};

/// Default slice (contract O6).
pub(crate) const SLICE_DFL_NS: u64 = 20_000_000;
/// Slice while the scheduler is bypassed (contract B1).
pub(crate) const SLICE_BYPASS_NS: u64 = 5_000_000;
/// Infinite slice: running does not reduce it.
pub(crate) const SLICE_INF: u64 = u64::MAX;

/// First number of the arrival counters. Head inserts count down from it, tail inserts count up.
const FIRST_ARRIVAL: u64 = 1 << 62;

/// Exit kinds (`enum scx_exit_kind`, contract E2).
pub(crate) mod exit_kind {
    pub const UNREGISTERED: u32 = 64;
    pub const UNREGISTERED_BPF: u32 = 65;
    pub const UNREGISTERED_KERNEL: u32 = 66;
    pub const SYSRQ: u32 = 67;
    pub const ERROR: u32 = 1024;
    pub const ERROR_BPF: u32 = 1025;
    pub const ERROR_STALL: u32 = 1026;
}

/// Bits of `ops.flags`.
pub(crate) mod ops_flags {
    pub const KEEP_BUILTIN_IDLE: u64 = 1;
    pub const ENQ_LAST: u64 = 1 << 1;
    pub const ENQ_EXITING: u64 = 1 << 2;
    pub const SWITCH_PARTIAL: u64 = 1 << 3;
    pub const ALLOW_QUEUED_WAKEUP: u64 = 1 << 5;
    pub const BUILTIN_IDLE_PER_NODE: u64 = 1 << 6;
    pub const ENQ_MIGRATION_DISABLED: u64 = 1 << 4;
    pub const ALWAYS_ENQ_IMMED: u64 = 1 << 7;
    pub const TID_TO_TASK: u64 = 1 << 8;
}

/// Bits of enqueue flags, 7.2 values (contract N1).
pub(crate) mod enq_flags {
    pub const WAKEUP: u64 = 1;
    pub const RESTORE: u64 = 2;
    pub const NOCLOCK: u64 = 8;
    pub const HEAD: u64 = 0x1_0000;
    pub const MIGRATED: u64 = 0x4_0000;
    pub const INITIAL: u64 = 0x8_0000;
    pub const CPU_SELECTED: u64 = 0x10_0000;
    pub const PREEMPT: u64 = 1 << 32;
    pub const IMMED: u64 = 1 << 33;
    pub const REENQ: u64 = 1 << 40;
    pub const LAST: u64 = 1 << 41;
    /// The top byte is reserved for the kernel.
    pub const INTERNAL: u64 = 0xff << 56;
}

/// Bits of dequeue flags.
pub(crate) mod deq_flags {
    pub const SLEEP: u64 = 1;
    pub const SAVE: u64 = 2;
    /// With SAVE: the position in the runqueue need not be kept.
    pub const MOVE: u64 = 4;
    /// The caller has updated the runqueue clock.
    pub const NOCLOCK: u64 = 8;
    /// With SAVE: the class changes too.
    pub const CLASS: u64 = 0x40;
    /// The task enters a state that an ordinary wakeup does not end, such as TASK_DEAD.
    pub const SPECIAL: u64 = 0x1_0000;
    /// Core scheduling runs a task that was not dispatched.
    pub const CORE_SCHED_EXEC: u64 = 1 << 32;
    pub const SCHED_CHANGE: u64 = 1 << 33;
}

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
    /// Has picked the next task and not yet switched to it. Waiting form only.
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
    /// Since when the runnable ext tasks of this CPU have been starved by higher classes (contract P9).
    pub starved_since: Option<Nanos>,
    /// Until when the deadline server reserves this CPU for ext.
    pub server_until: Nanos,
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
    fn new() -> Runqueue {
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
            starved_since: None,
            server_until: Nanos::ZERO,
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
    /// All: `cpu_release` called `scx_bpf_reenqueue_local` while this task was still the current one of its CPU.
    Released(TaskId),
    /// All: requested by the scheduler.
    All,
}

/// State of a kernel without its BPF machine.
#[derive(Debug)]
pub(crate) struct Core {
    /// Current time.
    pub now: Nanos,
    /// Per-CPU clock errors.
    pub clocks: clocks::Clocks,
    /// Uptime of the machine at time 0, added to the clocks that programs read.
    pub uptime: Nanos,
    /// Build and boot configuration.
    pub config: Config,
    /// Guest objects (task_struct, rq, cgroup and others).
    pub objects: Objects,
    /// State of `bpf_get_prandom_u32`.
    pub prandom: u64,
    /// State of the kernel's own random number generator (newidle balancing).
    kernel_random: u64,
    /// State of idle load balancing, shared by all CPUs.
    nohz: Nohz,
    /// Output of the call in progress, for the driver.
    pub output: Output,

    /// Runqueues by CPU.
    pub cpus: Vec<Runqueue>,
    /// All CPUs, online or not.
    pub everywhere: Arc<CpuSet>,
    /// Tasks by number.
    pub tasks: Vec<Task>,
    /// Tasks by pid.
    pub by_pid: BTreeMap<i32, TaskId>,
    /// Number of waiting tasks of higher classes, on all runqueues.
    pub higher_waiting: u32,
    /// Arrival counter of the class queues and the runnable lists.
    pub arrivals: u64,
    /// Arrival counter of head inserts; it counts down.
    pub heads: u64,

    /// Queues that the scheduler created.
    pub dsqs: BTreeMap<DsqId, Dsq>,
    /// Global queues by node.
    pub global: Vec<Dsq>,
    /// Built-in idle tracking.
    pub idle: Idle,
    /// State of the operation in progress.
    pub context: CpuContext,
    /// Whether outputs list lock acquisitions and releases.
    pub locks_tracked: bool,
    /// Whether outputs contain details.
    pub details_enabled: bool,
    /// Capacity of the dispatch buffer: `ops.dispatch_max_batch`.
    pub max_batch: usize,
    /// Number of finished operations.
    pub finished: u64,
    /// `ops.flags` of the attached scheduler.
    pub ops_flags: u64,
    /// Number of CPU hotplug events since boot (contract H1).
    pub hotplug_seq: u64,
    /// Bypass depth (contract B1).
    pub bypass_depth: u32,
    /// Time when bypass began.
    pub bypass_since: Nanos,
    /// The first error, or another reason to disable the scheduler.
    pub exit: Option<ExitInfo>,
    /// CPU reported with the exit reason, if any.
    pub exit_cpu: Option<CpuId>,
    /// The cgroup hierarchy.
    pub cgroups: Cgroups,
    /// Armed timers.
    pub armed: BTreeSet<TimerKey>,
    /// Debug dump under construction.
    pub dump: Option<String>,
    /// Event counters (`SCX_EV_*`).
    pub counters: Counters,
    /// Source files of the scheduler, without directories.
    pub files: Vec<String>,
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
            now: Nanos::ZERO,
            clocks: clocks::Clocks::default(),
            uptime: Nanos::ZERO,
            objects,
            prandom: config.seed,
            kernel_random: !config.seed,
            nohz: Nohz::default(),
            output: Output::default(),
            cpus: (0..cpus).map(|_| Runqueue::new()).collect(),
            everywhere: Arc::new(CpuSet::first_n(cpus)),
            tasks: Vec::new(),
            by_pid: BTreeMap::new(),
            higher_waiting: 0,
            arrivals: FIRST_ARRIVAL,
            heads: FIRST_ARRIVAL,
            dsqs: BTreeMap::new(),
            global: (0..idle.spans.nodes()).map(|_| Dsq::new()).collect(),
            idle,
            context: CpuContext::default(),
            locks_tracked: false,
            details_enabled: false,
            max_batch: 0,
            finished: 0,
            ops_flags: 0,
            hotplug_seq: 0,
            bypass_depth: 0,
            bypass_since: Nanos::ZERO,
            exit: None,
            exit_cpu: None,
            cgroups: Cgroups::default(),
            armed: BTreeSet::new(),
            dump: None,
            counters: Counters::default(),
            files: Vec::new(),
            config,
        }
    }

    /// Reports an error or another reason to disable the scheduler; only the first counts (contract E1).
    pub fn error(&mut self, kind: u32, code: i64, message: String) {
        self.error_on(Some(self.context.cpu), kind, code, message);
    }

    /// Like [`Core::error`], with the CPU to report, if any.
    pub fn error_on(&mut self, cpu: Option<CpuId>, kind: u32, code: i64, message: String) {
        if self.exit.is_none() {
            let reason = match kind {
                exit_kind::UNREGISTERED => "unregistered from user space",
                exit_kind::UNREGISTERED_BPF => "unregistered from BPF",
                exit_kind::UNREGISTERED_KERNEL => "unregistered from the main kernel",
                exit_kind::SYSRQ => "disabled by sysrq-S",
                exit_kind::ERROR_BPF => "scx_bpf_error",
                exit_kind::ERROR_STALL => "runnable task stall",
                _ => "runtime error",
            };
            self.exit_cpu = cpu;
            let cause = self.cause();
            self.exit = Some(ExitInfo { kind, code, reason: reason.into(), message, cause, ..ExitInfo::default() });
        }
    }

    /// Attributes what follows to this call in this op; returns the previous op and call.
    pub fn blame(&mut self, op: Option<Op>, call: Option<Call>) -> (Option<Op>, Option<Call>) {
        (std::mem::replace(&mut self.context.running.op, op), std::mem::replace(&mut self.context.running.call, call))
    }

    /// Place in the scheduler's code that the model is executing.
    fn cause(&self) -> Cause {
        let call = self.context.running.call;
        let line = call.filter(|call| call.line.is_known()).map(|call| call.line);
        let file = line.and_then(|line| self.files.get(usize::from(line.file)).cloned());
        Cause {
            op: self.context.running.op.map(Op::name),
            call: call.map(|call| call.callee.name()),
            source: file.zip(line.map(|line| line.line)),
        }
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

    /// An affinity mask to store: the shared full set if it holds every CPU.
    pub fn share(&self, allowed: CpuSet) -> Arc<CpuSet> {
        if allowed == *self.everywhere { Arc::clone(&self.everywhere) } else { Arc::new(allowed) }
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
        self.tasks[task.index()].cpu
    }

    /// The task with this pid.
    pub fn task_by_pid(&self, pid: i32) -> Option<TaskId> {
        self.by_pid.get(&pid).copied()
    }

    /// Whether the task is the current task of its CPU.
    pub fn task_running(&self, task: TaskId) -> bool {
        self.current(self.task_cpu(task)) == task
    }

    /// `scx_bpf_now`: constant within an operation (contract S1).
    pub fn clock(&self) -> Nanos {
        self.rq_clock(self.context.cpu) + self.uptime
    }

    /// Clock of `cpu`, with its error.
    pub fn rq_clock(&self, cpu: CpuId) -> Nanos {
        self.clocks.read(cpu, self.now)
    }

    /// Current time, rounded down to a jiffy.
    pub fn jiffies_now(&self) -> Nanos {
        self.jiffies_in_ns(crate::guest::jiffies(self.now.0, self.config.hz))
    }

    /// Converts jiffies to nanoseconds.
    pub fn jiffies_in_ns(&self, jiffies: u64) -> Nanos {
        crate::guest::jiffies_in_ns(jiffies, self.config.hz)
    }

    /// `comm[pid]`, as the kernel's messages name a task.
    pub fn name_of(&self, task: TaskId) -> String {
        let task = &self.tasks[task.index()];
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
        if self.ops_flags & ops_flags::TID_TO_TASK == 0 || self.context.running.op == Some(Op::Init) {
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
        self.bypass_depth > 0
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
        self.current(cpu).some().map_or(Class::Idle, |task| self.tasks[task.index()].class)
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
        self.output.events.push(Event { time: self.now, cpu: self.context.cpu, task, kind, site });
    }

    /// Records a detail that the events leave out, if details are enabled.
    #[inline]
    pub fn detail(&mut self, task: TaskId, kind: impl FnOnce(&Core) -> DetailKind) {
        if self.details_enabled {
            let (kind, site) = (kind(self), self.site());
            let detail = Detail { time: self.now, cpu: self.context.cpu, task, kind, site };
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
        let printk = Printk { time: self.now, cpu, task: self.current(cpu), site, text };
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
        match &mut self.dump {
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
        self.counters.get(name)
    }
}
