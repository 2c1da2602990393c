// SPDX-License-Identifier: GPL-2.0-only
//! A kernel: the core plus the BPF machine, and what the kernel does around the callbacks.

mod attach;
mod bypass;
mod call;
mod cgroup;
mod change;
mod check;
mod dump;
mod enqueue;
mod finish;
mod hotplug;
mod load;
mod pick;
mod schedule;
mod tick;
mod waiting;
mod wake;

use crate::api::{Config, ExitInfo, Output, Usage};
use crate::core::Core;
use crate::core::task::ExtState;
use crate::guest::{self, Objects};
use crate::ops::{OP_COUNT, Op};
use bpf_machine::{Coverage, Execution, Machine, Memory};
use bpf_object::{FunctionId, LinkedObject, Target};
use ids::{CpuId, CpuSet, Nanos, TaskId};
use load::Nothing;
use waiting::Contexts;
pub use waiting::{Operation, Progress, Stops, Wait};

/// The loaded scheduler.
#[derive(Debug)]
struct Scheduler {
    /// Its name in the kernel.
    name: String,
    /// Its operations.
    ops: [Option<FunctionId>; OP_COUNT],
    /// `ops.flags`.
    flags: u64,
    /// `ops.timeout_ms`, or the maximum, in jiffies.
    timeout_jiffies: u64,
    /// The same as a time.
    timeout: Nanos,
    /// `ops.dispatch_max_batch`, or the default.
    max_batch: u32,
    /// `ops.exit_dump_len`, or the default.
    dump_len: u32,
    /// `ops.hotplug_seq`; 0 for any.
    hotplug_seq: u64,
}

/// How far a scheduler is (the states of /sys/kernel/sched_ext/state).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// None is attached.
    Disabled,
    /// `init` and `init_task` are being called.
    Enabling,
    /// It schedules, or is about to: every task that it takes has been switched.
    Enabled,
    /// It is bypassed and about to go.
    Disabling,
}

/// A kernel: tasks, runqueues, and at most one sched_ext scheduler. Its boot CPU is CPU 0; time starts at 0.
///
/// What is large is boxed: where operations wait, each stop moves the kernel, twice to its driver and back.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) core: Box<Core>,
    machine: Box<Machine>,
    /// The callback in flight; kept between calls because its frames are reused.
    execution: Box<Execution>,
    scheduler: Option<Box<Scheduler>>,
    stage: Stage,
    /// The kworker that does the watchdog's work.
    watchdog_worker: TaskId,
    /// When that work was done last.
    watchdog_checked: Nanos,
    /// Tasks that are being enqueued again; kept between calls because its allocation is reused.
    waiting: Vec<TaskId>,
    /// Tasks are switched and bypass lasts until the attach ends.
    attaching: bool,
    /// A disable stops after its first half.
    in_steps: bool,
    /// The scheduler is bypassed because the machine is about to sleep.
    suspending: bool,
    /// Why the last scheduler is gone.
    exit_info: Option<Box<ExitInfo>>,
    /// How often each op was called since the scheduler was loaded.
    op_counts: Box<[u64; OP_COUNT]>,
    /// What was executed of schedulers that were loaded before, if anybody wants to know.
    coverage: Option<Coverage>,
    /// Operations that wait.
    contexts: Box<Contexts>,
}

impl Kernel {
    /// A kernel with idle CPUs and no tasks.
    pub fn new(config: Config) -> Kernel {
        let cpus = config.topology.len() as u32;
        let mut memory = Memory::default();
        let objects = Objects::new(&mut memory, cpus);
        let all = CpuSet::first_n(cpus as usize);
        objects.per_cpu.show_caches(&mut memory, &config.topology, &all);
        let mut machine = Machine::load(&load::empty_object(), memory, cpus, &Nothing).expect("nothing always loads");
        let mut execution = machine.execution();
        execution.budget = config.budget;
        Kernel {
            core: Box::new(Core::new(config, objects)),
            machine: Box::new(machine),
            execution: Box::new(execution),
            scheduler: None,
            stage: Stage::Disabled,
            watchdog_worker: TaskId::NONE,
            watchdog_checked: Nanos::ZERO,
            waiting: Vec::new(),
            attaching: false,
            in_steps: false,
            suspending: false,
            exit_info: None,
            op_counts: Box::new([0; OP_COUNT]),
            coverage: None,
            contexts: Box::default(),
        }
    }

    /// The types, kfuncs and kconfig that objects are linked against.
    pub fn target(config: &Config) -> Box<dyn Target> {
        guest::target(config.version, config.hz, config.topology.len() as u32)
    }

    /// The time from now on. Time does not go back.
    pub fn set_now(&mut self, now: Nanos) {
        assert!(now >= self.core.now, "time does not go back");
        self.core.now = now;
    }

    /// What the calls since the last time produced; `into` is overwritten, its allocations reused.
    #[inline(always)]
    pub fn take_output(&mut self, into: &mut Output) {
        let output = &mut self.core.output;
        exchange(&mut output.effects, &mut into.effects);
        exchange(&mut output.events, &mut into.events);
        exchange(&mut output.printed, &mut into.printed);
        exchange(&mut output.details, &mut into.details);
        exchange(&mut output.locks, &mut into.locks);
        (into.usage, output.usage) = (output.usage, Usage::default());
    }

    /// From now on outputs say which locks were taken.
    pub fn track_locks(&mut self) {
        self.core.locks_tracked = true;
    }

    /// From now on outputs have details.
    pub fn tell_details(&mut self) {
        self.core.details_told = true;
    }

    /// Names the kworker that runs the watchdog's work: it is woken by [`crate::TimerKey::Watchdog`], and when it has
    /// run for a moment the driver calls [`Kernel::watchdog_work`] and blocks it again. To be called before attach.
    pub fn set_watchdog_worker(&mut self, task: TaskId) {
        self.watchdog_worker = task;
    }

    /// Who runs on `cpu`; [`TaskId::NONE`]: idle.
    pub fn current(&self, cpu: CpuId) -> TaskId {
        self.core.current(cpu)
    }

    /// CPU of a task: where it runs, waits or last ran.
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.core.task_cpu(task)
    }

    /// Where a task may run.
    pub fn allowed(&self, task: TaskId) -> &CpuSet {
        &self.core.task(task).allowed
    }

    /// Why the scheduler is gone, once it is.
    pub fn exit_info(&self) -> Option<&ExitInfo> {
        self.exit_info.as_deref()
    }

    /// Value of an event counter (`SCX_EV_…`) since the scheduler was attached; 0 for one that does not exist.
    pub fn event_count(&self, name: &str) -> u64 {
        self.core.event_count(name)
    }

    /// The source files of the loaded object, without their directories: what the events' sites count.
    pub fn source_files(&self) -> &[String] {
        &self.core.files
    }

    /// Counts how often each line of objects is executed that are loaded from now on.
    pub fn count_lines(&mut self) {
        self.coverage = Some(Coverage::default());
    }

    /// What was counted since [`Kernel::count_lines`].
    pub fn coverage(&self) -> Option<Coverage> {
        let mut coverage = self.coverage.clone()?;
        self.machine.cover(&mut coverage);
        Some(coverage)
    }

    /// How often each op of the scheduler was called since it was loaded: what the kernel calls `run_cnt` of its
    /// programs. Ops that it lacks or that were never called are left out.
    pub fn op_counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.op_counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(index, &count)| (Op::by_index(index).name(), count))
    }

    /// The machine has been up for so long at time 0: programs see it in all clocks. A whole number of jiffies.
    pub fn set_uptime(&mut self, uptime: Nanos) {
        self.core.uptime = uptime;
    }

    /// The clock of `cpu` steps by so many nanoseconds, and drifts by so much from now on, if that is given.
    pub fn disturb_clock(&mut self, cpu: CpuId, step: i64, drift_ppm: Option<i32>) {
        self.core.clocks.disturb(cpu, self.core.now, step, drift_ppm);
    }

    /// How fast a CPU is now, 0 to 1024, if it does not follow the scheduler's wish at once.
    pub fn set_performance(&mut self, cpu: CpuId, performance: u32) {
        self.core.cpus[cpu.index()].performance = performance;
    }

    /// The bytes of a global variable of the loaded object, as they are now. `None` if it has none of that name.
    pub fn variable(&self, object: &LinkedObject, name: &str) -> Option<&[u8]> {
        let variable = object.variables.get(name)?;
        let map = self.machine.maps.find(&object.maps[variable.map.0 as usize].name)?;
        let memory = &self.machine.memory;
        let value = self.machine.maps.lookup(memory, map, &0u32.to_le_bytes(), 0)?;
        memory.bytes(value + u64::from(variable.offset), variable.size).ok()
    }

    /// Changes how far a task is known to the scheduler.
    fn set_state(&mut self, task: TaskId, state: ExtState) {
        self.core.task_mut(task).ext_state = state;
        self.show_flags(task);
    }

    /// Shows programs the flags of a task as they are now.
    fn show_flags(&mut self, task: TaskId) {
        self.core.show_flags(&mut self.machine.memory, task);
    }

    /// `scx_enabled`: the scheduler's operations are called.
    fn schedules(&self) -> bool {
        matches!(self.stage, Stage::Enabled | Stage::Disabling)
    }

    /// Whether the scheduler has this op.
    fn has(&self, op: Op) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| scheduler.ops[op as usize].is_some())
    }

    /// Whether `ops.flags` has all of these bits.
    fn flag(&self, bits: u64) -> bool {
        self.core.ops_flags & bits == bits
    }
}

/// Moves all of `from`, and leaves the allocation of `into` there. Mostly there is nothing to move.
#[inline(always)]
fn exchange<T>(from: &mut Vec<T>, into: &mut Vec<T>) {
    into.clear();
    if !from.is_empty() {
        std::mem::swap(from, into);
    }
}
