// SPDX-License-Identifier: GPL-2.0-only
//! The main loop: takes the next alarm, advances the clock, lets the affected CPU continue.
//!
//! 1. Kernel calls are instantaneous; their cost is charged to the CPU afterwards, and until it is paid nothing else
//!    happens on that CPU: interrupts wait (they are disabled in scheduler code), wakeups by other CPUs do not.
//! 2. If a task's work ends at the same instant as an interrupt arrives, the end of the work comes first, and the
//!    task continues with its script.
//! 3. Task states follow the kernel's events, which are logged at the same time, so the accounts and the log cannot
//!    disagree.
//!
//! The other parts are `advance` (progress of a CPU), `act` (actions of tasks) and `apply` (output of kernel calls).

use crate::alarms::{Alarm, Alarms};
use crate::clock::{Clock, End};
use crate::cpus::Cpus;
use crate::demands::Demands;
use crate::disks::TaskDisks;
use crate::interrupt::Interrupt;
use crate::kernel_calls::KernelCalls;
use crate::loader::Loading;
use crate::locks::Locks;
use crate::memory::TaskMemory;
use crate::model::Model;
use crate::noise::Noise;
use crate::operations::Operations;
use crate::page_cache::TaskCache;
use crate::plan::Faults;
use crate::population::Population;
use crate::shared_locks::SharedLocks;
use crate::sinks::Sinks;
use crate::speed::Speed;
use crate::tasks::{Role, State};
use crate::ticks::Ticks;
use crate::tlb::Shootdowns;
use crate::{Outcome, SetupError};
use event_log::Sink;
use ids::{CpuId, Nanos, Policy, TaskId};
use kernel_model::{ExitInfo, Identity, Refusal, TaskAttributes};
use machine_model::Machine;
use measures::{DeviceTotals, GroupMeasures, LockUse, Totals};
use speed::Signal;
use workload::Workload;

/// The CPU that boots, attaches the scheduler, executes the external parent of the tasks, and runs the watchdog.
pub(crate) const BOOT_CPU: CpuId = CpuId(0);

/// Interval of progress reports, in simulated time.
const PROGRESS: Nanos = Nanos::from_ms(50);

/// A run in progress. Each part owns its state; the functions of `Run` pass alarms, effects and answers from one part
/// to another.
pub(crate) struct Run<'a, M> {
    pub machine: &'a Machine,
    pub clock: Clock,
    pub alarms: Alarms,
    pub kernel: KernelCalls<M>,
    pub cpus: Cpus,
    pub tasks: Population,
    /// Name of the task whose deadline policy the kernel refused when it was created, and the reason.
    pub refused: Option<(String, Refusal)>,
    pub demands: Demands<'a>,
    pub ticks: Ticks,
    /// Speed of the CPUs; `None`: always the reference's speed.
    pub speed: Option<Box<Speed>>,
    /// Memory; `None`: it costs tasks nothing, or the workload does not describe its use.
    pub memory: Option<Box<TaskMemory>>,
    /// Disks; `None`: the workload uses none.
    pub disks: Option<Box<TaskDisks>>,
    /// Page cache, if the machine has one and the workload uses it.
    pub cache: Option<Box<TaskCache>>,
    /// TLB shootdowns, if the machine has them and the workload shrinks address spaces.
    pub shootdowns: Option<Box<Shootdowns>>,
    /// Time of the alarm for changes of speed and memory; [`Nanos::MAX`]: not set.
    pub pace_due: Nanos,
    /// Exit latency from idle on a machine without idle states.
    pub idle_exit: Nanos,
    /// Kernel locks; `None`: they cost nothing and are never contended.
    pub locks: Option<Box<Locks>>,
    /// Kernel operations that wait for locks.
    pub operations: Operations,
    /// Locks of the workload; `None`: it has none.
    pub shared_locks: Option<Box<SharedLocks>>,
    /// Random variation determined by the seed.
    pub noise: Noise<'a>,
    /// Faults of the machine.
    pub faults: Faults,
    /// The scheduler's loader.
    pub loading: Loading<'a>,
    pub sinks: Sinks<'a>,
}

impl<'a, M: Model> Run<'a, M> {
    /// Creates a run at time 0, before anything happened. The workload must have been checked against the machine.
    pub fn new(
        model: M,
        machine: &'a Machine,
        workload: &'a Workload,
        mut ticks: Ticks,
        seed: u64,
        log: &'a mut dyn Sink,
    ) -> Self {
        let mut noise = Noise::new(seed, machine, workload);
        ticks.postpone(noise.grid(ticks.period()));
        ticks.draw(noise.jitter());
        let cpus = Cpus::new(machine, &ticks);
        let demands = Demands::new(workload, &mut noise, seed);
        let mut alarms = Alarms::new(cpus.len(), noise.order());
        let speed = Speed::new(machine, workload.idle_exit_limit, ticks.period(), Signal::Targets);
        if let Some(first) = demands.next_start() {
            alarms.set(Alarm::Start, first);
        }
        let [starts, beside] = demands.starts();
        Run {
            machine,
            clock: Clock::new(workload.duration),
            alarms,
            kernel: KernelCalls::new(model),
            cpus,
            tasks: Population::new(starts, beside),
            refused: None,
            demands,
            ticks,
            speed,
            memory: TaskMemory::new(machine, workload),
            disks: TaskDisks::new(machine, workload, seed),
            cache: TaskCache::new(machine, workload),
            shootdowns: Shootdowns::new(machine, workload),
            pace_due: Nanos::MAX,
            idle_exit: machine.costs.idle_exit_within(workload.idle_exit_limit),
            locks: Locks::new(machine),
            operations: Operations::default(),
            shared_locks: SharedLocks::new(machine, &workload.locks, seed),
            noise,
            faults: Faults::default(),
            loading: Loading::default(),
            sinks: Sinks::new(&machine.topology, log),
        }
    }

    /// Creates the kernel's worker for the watchdog during boot, which runs once on CPU 0 and goes to sleep. Takes no
    /// time, as the duration of the boot is not simulated.
    pub fn create_worker(&mut self) -> TaskId {
        let attributes = TaskAttributes {
            name: "kworker/u:0".to_owned(),
            policy: Policy::Other,
            nice: 0,
            allowed: self.machine.all_cpus(),
            kernel_thread: true,
            own_cpu: None,
            thread: false,
            parent: None,
            identity: Identity::default(),
        };
        self.boot_thread(BOOT_CPU, attributes, Role::Watchdog)
    }

    /// Runs until no event is left, or the time is over.
    pub fn play(&mut self, progress: &mut dyn FnMut(Nanos)) {
        self.plan_steals();
        for cpu in self.cpus.numbers() {
            self.advance(cpu);
        }
        self.follow_rates();
        let mut next_progress = PROGRESS;
        while !self.clock.is_over() && self.has_more() {
            let (time, alarm) = self.alarms.pop().expect("an event is left");
            self.clock.advance_to(time);
            if time >= next_progress {
                progress(time);
                next_progress = time + PROGRESS;
            }
            self.ring(alarm);
        }
        if !self.clock.is_over() && self.kernel.model.is_disabling() {
            self.end_disable_now();
        }
    }

    fn has_more(&mut self) -> bool {
        let mut due = self.alarms.next_due();
        if due.is_none() && self.locks.as_ref().is_some_and(|locks| locks.saved.is_any()) {
            self.roll_back_all();
            due = self.alarms.next_due();
        }
        let deadline = self.clock.deadline();
        if due.is_none_or(|due| deadline.is_some_and(|end| due >= end)) {
            return false;
        }
        self.tasks.can_move(deadline.is_some()) || self.faults.holds_tasks() || self.operations.are_planned()
    }

    /// Handles an alarm that has expired, then applies new execution rates.
    pub fn ring(&mut self, alarm: Alarm) {
        self.answer(alarm);
        self.follow_rates();
    }

    fn answer(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Cpu(cpu) => {
                self.settle(cpu);
                self.advance(cpu);
            }
            Alarm::Resched(cpu) => {
                self.cpus[cpu].resched = true;
                self.interrupt(cpu, None);
            }
            Alarm::Sleep(task) => self.sleep_over(task),
            Alarm::Timer(key, cpu) => self.interrupt(cpu, Some(Interrupt::Timer(key))),
            Alarm::Start => self.start_due(),
            Alarm::Fault => self.fault_due(),
            Alarm::Load => self.load_due(),
            Alarm::Call => self.call_due(),
            Alarm::Theft(cpu) => self.steal_due(cpu),
            Alarm::Disk => self.disks_due(),
            Alarm::Pace => self.pace_due(),
        }
    }

    /// Passes all tasks that are due to CPU 0, where the external parent runs.
    fn start_due(&mut self) {
        while let Some(spec) = self.demands.take_start(self.clock.now()) {
            self.interrupt(BOOT_CPU, Some(Interrupt::Start(spec)));
        }
        if let Some(next) = self.demands.next_start() {
            self.alarms.set(Alarm::Start, next);
        }
    }

    /// Sets the kernel's clock.
    pub fn tell_time(&mut self) {
        self.kernel.model.set_now(self.clock.kernel_now());
    }

    /// See [`kernel_model::Kernel::tick_is_idle_until`]; `until` is in the time of the run.
    pub fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        self.kernel.model.tick_is_idle_until(cpu, until - self.clock.suspended())
    }

    /// Advances the accounts of a CPU and its current task to the current time.
    pub fn settle(&mut self, cpu: CpuId) {
        let cpu = &mut self.cpus[cpu];
        let current = cpu.current;
        if cpu.is_settled(self.clock.now()) && (current == TaskId::NONE || !self.tasks[current].watches_clock()) {
            return;
        }
        let spent = cpu.settle(self.clock.now(), &self.ticks);
        if current != TaskId::NONE {
            let task = &mut self.tasks[current];
            if self.operations.wait() && task.state() != State::Running {
                // The task sleeps or has ended, and its CPU has not switched yet.
                return;
            }
            if task.spins() {
                task.take(spent, Nanos::ZERO, cpu.pace.rate(), || cpu.is_busy());
                cpu.spin(spent.run);
            } else {
                let reload = cpu.pace.pay(spent.run);
                let work = task.take(spent, reload, cpu.pace.rate(), || cpu.is_busy());
                cpu.divide(spent.run, reload, work);
            }
        }
    }

    /// Counts a step that takes no time by itself; too many in succession end the run.
    pub fn count_step(&mut self, task: TaskId) {
        self.clock.count_step(task, self.cpus.len() + self.tasks.len());
    }

    /// Closes the accounts; the model is returned in its final state.
    pub fn finish(mut self) -> Result<(Outcome, M), SetupError> {
        if let Some(End::Stuck(task)) = self.clock.end() {
            let name = &self.demands.spec(self.tasks[task].spec).name;
            let problem = format!(
                "task {task} ({name}) acts endlessly at {} without consuming time; add work or a sleep to its script",
                self.clock.now()
            );
            return Err(SetupError::Workload(problem));
        }
        if let Some((name, refusal)) = self.refused {
            return Err(SetupError::Workload(refused_reservation(&name, refusal)));
        }
        if self.operations.wait() {
            self.kernel.model.finish_operations();
        }
        let was_ejected = self.clock.end() == Some(End::Ejected);
        let ejected = self.kernel.model.exit_info().filter(|_| was_ejected).cloned();
        let complete = ejected.is_none() && self.tasks.are_done();
        let end = if ejected.is_none() && !complete { self.clock.latest_end() } else { self.clock.now() };
        self.end_all_ahead(end);
        self.clock.advance_to(end);
        for cpu in self.cpus.numbers() {
            self.settle(cpu);
        }
        let makespan = self.tasks.last_exit().filter(|_| complete);
        Ok(self.sum_up(ejected, makespan))
    }

    /// Results of a run whose accounts are settled.
    fn sum_up(mut self, ejected: Option<ExitInfo>, makespan: Option<Nanos>) -> (Outcome, M) {
        let elapsed = self.clock.now();
        let energy_ratio_ppm = self.speed.as_mut().and_then(|speed| speed.energy_ratio_ppm(elapsed));
        let page_cache = self.cache.take().map(|cache| cache.finish());
        let mut devices = self.disks.take().map(|disks| DeviceTotals { page_cache, ..disks.finish(elapsed) });
        if let Some(shootdowns) = self.shootdowns.take() {
            devices.get_or_insert_default().interrupts.extend(shootdowns.finish());
        }
        let memory_nodes = self.memory.as_mut().map(|memory| memory.traffic(elapsed));
        let cpus = self.cpus.iter().map(|cpu| *cpu.account()).collect();
        let tasks = self.tasks.into_tasks();
        let specs = tasks.iter().map(|task| (task.role == Role::Workload).then_some(task.spec)).collect::<Vec<_>>();
        let tasks = tasks.into_iter().map(|task| task.finish(elapsed)).collect();
        let locks = lock_table(self.locks, self.shared_locks);
        let workload = self.demands.workload();
        let (periods, system_work, requests) = self.demands.finish(elapsed - self.clock.suspended());
        let (bpf_instructions, system_work) = (Some(self.kernel.instructions()), Some(system_work));
        let totals = Totals {
            elapsed,
            makespan,
            cpus,
            tasks,
            devices,
            periods,
            requests,
            system_work,
            bpf_instructions,
            locks,
            memory_nodes,
            energy_ratio_ppm,
        };
        let mut measures = self.sinks.collector.finish(totals);
        let groups = workload.all_groups();
        measures.gather(
            groups.iter().map(|group| GroupMeasures::new(&group.path, group.weight, group.cap_percent)),
            |task| workload.group_of(specs[task.id.index()]?),
        );
        let (restarts, calls) = self.loading.finish();
        let outcome = Outcome {
            measures,
            log_hash: self.sinks.hash.finish(),
            ejected,
            failed_forks: self.kernel.failed_forks(),
            refused_changes: self.kernel.refused_changes(),
            restarts,
            calls,
        };
        (outcome, self.kernel.model)
    }
}

/// Uses of the locks of the kernel and of the workload, the longest waits first.
fn lock_table(kernel: Option<Box<Locks>>, shared: Option<Box<SharedLocks>>) -> Option<Vec<LockUse>> {
    let mut all = kernel.map(|locks| locks.table());
    if let Some(shared) = shared {
        let all = all.get_or_insert_default();
        all.extend(shared.rows.into_iter().filter(|row| row.count > 0));
        all.sort_by_key(|row| std::cmp::Reverse(row.wait_total));
    }
    all
}

/// The error of a workload whose task the deadline class does not admit.
fn refused_reservation(task: &str, refusal: Refusal) -> String {
    let percent = |millionths: u64| format!("{}.{:02} %", millionths / 10_000, millionths % 10_000 / 100);
    match refusal {
        Refusal::Bandwidth { wanted, used, limit } => format!(
            "task {task}: SCHED_DEADLINE with {} of a CPU is refused (EBUSY): {} are reserved, deadline servers \
             included, and the limit is {}; reserve less, or choose a machine with more CPUs",
            percent(wanted),
            percent(used),
            percent(limit)
        ),
        Refusal::Parameters => format!(
            "task {task}: SCHED_DEADLINE is refused (EINVAL); expected a runtime of at least 1024 ns, at most the \
             deadline, which is at most the period, and a period of 100 us to 4.194304 s"
        ),
        Refusal::Affinity => format!("task {task}: SCHED_DEADLINE is refused (EPERM): its affinity lacks CPUs"),
    }
}
