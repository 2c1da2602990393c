// SPDX-License-Identifier: GPL-2.0-only
//! A kernel: the core, the BPF machine, and the kernel code that calls the scheduler's ops.

mod attach;
mod bypass;
mod call;
mod cgroup;
mod change;
mod check;
mod deadline;
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
use load::EmptyResolver;
use waiting::Contexts;
pub use waiting::{Operation, Progress, Stops, Wait};

/// The loaded scheduler.
#[derive(Debug)]
struct Scheduler {
    /// `ops.name`.
    name: String,
    /// Its ops; `None` where it lacks one.
    ops: [Option<FunctionId>; OP_COUNT],
    /// `ops.flags`.
    flags: u64,
    /// `ops.timeout_ms` in jiffies; by default the maximum.
    timeout_jiffies: u64,
    /// `timeout_jiffies` as a time.
    timeout: Nanos,
    /// `ops.dispatch_max_batch`, or the default.
    max_batch: u32,
    /// `ops.exit_dump_len`, or the default.
    dump_len: u32,
    /// `ops.hotplug_seq`; 0 for any.
    hotplug_seq: u64,
}

/// Stage of a scheduler, as in /sys/kernel/sched_ext/state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// No scheduler is attached.
    Disabled,
    /// `init` and `init_task` are being called.
    Enabling,
    /// The scheduler is active, or bypass ends soon: all of its tasks have been switched.
    Enabled,
    /// In bypass and about to be disabled.
    Disabling,
}

/// A kernel: tasks, runqueues, and at most one sched_ext scheduler. Its boot CPU is CPU 0; time starts at 0.
///
/// Large parts are boxed: with `+waiting`, each stop of an operation moves the kernel to its driver and back.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) core: Box<Core>,
    machine: Box<Machine>,
    /// Execution of the callback in progress; kept between calls to reuse its stack frames.
    execution: Box<Execution>,
    scheduler: Option<Box<Scheduler>>,
    stage: Stage,
    /// The kworker that runs the watchdog.
    watchdog_worker: TaskId,
    /// When the watchdog last ran.
    watchdog_checked: Nanos,
    /// Tasks being re-enqueued; kept between calls to reuse the allocation.
    waiting: Vec<TaskId>,
    /// Between the two halves of an attach: tasks are switched, and bypass is on.
    attaching: bool,
    /// Whether disabling is split into two steps, with bypass mode between them ([`Kernel::disable_in_steps`]).
    in_steps: bool,
    /// Bypass is on because the machine is about to suspend.
    suspending: bool,
    /// Exit information of the last scheduler.
    exit_info: Option<Box<ExitInfo>>,
    /// Number of calls of each op since the scheduler was loaded.
    op_counts: Box<[u64; OP_COUNT]>,
    /// Line coverage of previously loaded schedulers, if enabled.
    coverage: Option<Coverage>,
    /// Operations in progress; more than one only with `+waiting`.
    contexts: Box<Contexts>,
}

impl Kernel {
    /// Limits the memory of the maps of objects that are loaded from now on, in bytes.
    pub fn limit_maps(&mut self, bytes: u64) {
        self.machine.memory.limit_maps(bytes);
    }

    /// A kernel without tasks, all CPUs idle.
    pub fn new(config: Config) -> Kernel {
        let cpus = config.topology.len() as u32;
        let mut memory = Memory::default();
        let objects = Objects::new(&mut memory, cpus, &config.kernel_types());
        let all = CpuSet::first_n(cpus as usize);
        objects.per_cpu.show_caches(&mut memory, &config.topology, &all);
        let mut machine =
            Machine::load(&load::empty_object(), memory, cpus, &EmptyResolver).expect("an empty object loads");
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

    /// Types, kfuncs and kconfig against which objects are linked.
    pub fn target(config: &Config) -> Box<dyn Target> {
        guest::target(config.version, config.kernel_types(), config.hz, config.topology.len() as u32)
    }

    /// Sets the current time, which must not go back.
    pub fn set_now(&mut self, now: Nanos) {
        self.core.time.set_now(now);
    }

    /// Returns the output since the last call; `into` is overwritten, and its allocations are reused.
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

    /// Lists lock acquisitions and releases in outputs from now on.
    pub fn track_locks(&mut self) {
        self.core.recorded.locks = true;
    }

    /// Adds details to outputs from now on.
    pub fn record_details(&mut self) {
        self.core.recorded.details = true;
    }

    /// Sets the kworker that runs the watchdog. [`crate::TimerKey::Watchdog`] wakes it; once it has run for a moment,
    /// the driver calls [`Kernel::watchdog_work`] and blocks it again. To be called before attach.
    pub fn set_watchdog_worker(&mut self, task: TaskId) {
        self.watchdog_worker = task;
    }

    /// The task running on `cpu`; [`TaskId::NONE`] is the idle task.
    pub fn current(&self, cpu: CpuId) -> TaskId {
        self.core.current(cpu)
    }

    /// CPU of a task: where it runs, waits or last ran.
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.core.task_cpu(task)
    }

    /// Affinity of a task.
    pub fn allowed(&self, task: TaskId) -> &CpuSet {
        &self.core.task(task).allowed
    }

    /// Why the scheduler was disabled, once it was.
    pub fn exit_info(&self) -> Option<&ExitInfo> {
        self.exit_info.as_deref()
    }

    /// Value of an event counter (`SCX_EV_...`) since attach; 0 if there is none of this name.
    pub fn event_count(&self, name: &str) -> u64 {
        self.core.event_count(name)
    }

    /// Source files of the loaded object, without directories; events refer to them by index.
    pub fn source_files(&self) -> &[String] {
        &self.core.attached.files
    }

    /// Counts the executions of each source line in objects loaded from now on.
    pub fn count_lines(&mut self) {
        self.coverage = Some(Coverage::default());
    }

    /// Line coverage since [`Kernel::count_lines`].
    pub fn coverage(&self) -> Option<Coverage> {
        let mut coverage = self.coverage.clone()?;
        self.machine.cover(&mut coverage);
        Some(coverage)
    }

    /// Number of calls of each op since the scheduler was loaded, as in the kernel's `run_cnt` of BPF programs. Ops
    /// that were never called are omitted.
    pub fn op_counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.op_counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(index, &count)| (Op::by_index(index).name(), count))
    }

    /// Sets the uptime of the machine at time 0, which programs see in all clocks. Must be a whole number of jiffies.
    pub fn set_uptime(&mut self, uptime: Nanos) {
        self.core.time.set_uptime(uptime);
    }

    /// Steps the clock of `cpu` by `step` nanoseconds, and changes its drift if `drift_ppm` is given.
    pub fn disturb_clock(&mut self, cpu: CpuId, step: i64, drift_ppm: Option<i32>) {
        self.core.time.disturb(cpu, step, drift_ppm);
    }

    /// Sets the performance level of a CPU, 0 to 1024, for drivers where it does not follow the target at once.
    pub fn set_performance(&mut self, cpu: CpuId, performance: u32) {
        self.core.cpus[cpu.index()].performance = performance;
    }

    /// Current value of a global variable of the loaded object, as bytes. `None` if there is none of this name.
    pub fn variable(&self, object: &LinkedObject, name: &str) -> Option<&[u8]> {
        let variable = object.variables.get(name)?;
        let map = self.machine.maps.find(&object.maps[variable.map.0 as usize].name)?;
        let memory = &self.machine.memory;
        let value = self.machine.maps.lookup(memory, map, &0u32.to_le_bytes(), 0)?;
        memory.bytes(value + u64::from(variable.offset), variable.size).ok()
    }

    /// Sets the sched_ext state of a task.
    fn set_state(&mut self, task: TaskId, state: ExtState) {
        self.core.task_mut(task).ext_state = state;
        self.show_flags(task);
    }

    /// Writes the current `p->scx.flags` of a task to guest memory.
    fn show_flags(&mut self, task: TaskId) {
        self.core.show_flags(&mut self.machine.memory, task);
    }

    /// `scx_enabled`: whether the scheduler's ops are called.
    fn schedules(&self) -> bool {
        matches!(self.stage, Stage::Enabled | Stage::Disabling)
    }

    /// Whether the scheduler has this op.
    fn has(&self, op: Op) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| scheduler.ops[op as usize].is_some())
    }

    /// Whether `ops.flags` has all of these bits.
    fn flag(&self, bits: u64) -> bool {
        self.core.attached.has_flags(bits)
    }
}

/// Moves all elements of `from` to `into`, and leaves the allocation of `into` in `from`. Usually `from` is empty.
#[inline(always)]
fn exchange<T>(from: &mut Vec<T>, into: &mut Vec<T>) {
    into.clear();
    if !from.is_empty() {
        std::mem::swap(from, into);
    }
}
