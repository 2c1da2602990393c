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

use crate::ahead::Spared;
use crate::alarms::{Alarm, Alarms};
use crate::calls::Calls;
use crate::cpu::Cpu;
use crate::groups::Groups;
use crate::interrupt::{Interrupt, Load};
use crate::locks::Locks;
use crate::model::Model;
use crate::noise::Noise;
use crate::operations::Operations;
use crate::plan::Faults;
use crate::shared_locks::SharedLocks;
use crate::speed::Speed;
use crate::tasks::{Role, State, Task};
use crate::ticks::Ticks;
use crate::{Outcome, SetupError};
use bpf_object::LinkedObject;
use event_log::{Detail, Event, LogHash, Printk, Sink, TaskInfo};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{ExitInfo, Identity, Output, TaskAttributes};
use launch_profile::{Profile, ProgramCall};
use machine_model::Machine;
use measures::{Collector, GroupMeasures, LockUse, PeriodsOfTasks, Totals};
use speed::Signal;
use std::borrow::Cow;
use std::collections::VecDeque;
use workload::{Executor, Start, Workload};

/// The CPU that boots, attaches the scheduler, executes the external parent of the tasks, and runs the watchdog.
pub(crate) const BOOT_CPU: CpuId = CpuId(0);

/// Interval of progress reports, in simulated time.
const PROGRESS: Nanos = Nanos::from_ms(50);

/// Maximum number of consecutive steps without any time passing, per CPU and task. Otherwise, a script that consumes
/// no time, on a machine where nothing costs time, would never end.
const STEPS_AT_ONE_INSTANT: u64 = 10_000;

/// Reason why a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The kernel ejected the scheduler.
    Ejected,
    /// The loader detached the scheduler.
    Unloaded,
    /// This task acts endlessly without time passing.
    Stuck(TaskId),
}

/// Receivers of each event.
pub(crate) struct Sinks<'a> {
    pub hash: LogHash,
    pub collector: Collector,
    pub log: &'a mut dyn Sink,
    /// The receiver requests details that events omit.
    pub wants_details: bool,
}

impl Sinks<'_> {
    #[inline(always)]
    pub fn event(&mut self, event: &Event) {
        self.hash.event(event);
        self.collector.event(event);
        self.log.event(event);
    }

    pub fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.hash.task(time, info);
        self.collector.task(time, info);
        self.log.task(time, info);
    }

    pub fn source_file(&mut self, file: u16, name: &str) {
        self.hash.source_file(file, name);
        self.log.source_file(file, name);
    }

    pub fn printk(&mut self, printk: &Printk) {
        self.hash.printk(printk);
        self.log.printk(printk);
    }

    /// Details are not part of the hash, and are not measured.
    pub fn detail(&mut self, detail: &Detail) {
        self.log.detail(detail);
    }

    pub fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.hash.affinity(time, task, allowed);
        self.collector.affinity(time, task, allowed);
        self.log.affinity(time, task, allowed);
    }
}

/// Numbers of tasks of the workload, by state.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Left {
    /// Tasks that have not ended.
    pub alive: usize,
    /// Of these, runnable or running.
    pub ready: usize,
    /// Of these, asleep with a timer.
    pub asleep: usize,
    /// Tasks yet to be started by the external parent.
    pub starts: usize,
    /// Of the tasks that are ready, those that spin at a barrier.
    pub spinning: usize,
}

impl Left {
    /// Subtracts the background tasks.
    fn without(self, beside: Left) -> Left {
        Left {
            alive: self.alive - beside.alive,
            ready: self.ready - beside.ready,
            asleep: self.asleep - beside.asleep,
            starts: self.starts - beside.starts,
            spinning: self.spinning - beside.spinning,
        }
    }
}

/// State of the user-space program that loaded the scheduler.
pub(crate) struct Loader<'a> {
    pub object: LinkedObject,
    pub profile: Cow<'a, Profile>,
    /// Programs to call when the attach in progress is complete.
    pub calls: Vec<ProgramCall>,
}

/// A run in progress.
pub(crate) struct Run<'a, M> {
    pub model: M,
    pub machine: &'a Machine,
    pub all_cpus: CpuSet,
    pub ticks: Ticks,
    /// Ticks whose only effect is accounting are not executed one by one. Off where the scheduler could notice.
    pub skip_ticks: bool,
    pub workload: &'a Workload,
    pub executor: Executor<'a>,
    /// Cgroups, users and sessions.
    pub groups: Groups,
    /// Speed of the CPUs; `None`: always the reference's speed.
    pub speed: Option<Box<Speed>>,
    /// Kernel locks; `None`: they cost nothing and are never contended.
    pub locks: Option<Box<Locks>>,
    /// Events saved because their lock was uncontended.
    pub spared: Spared,
    /// Kernel operations that wait for locks.
    pub operations: Operations,
    /// Locks of the workload; `None`: it has none.
    pub shared_locks: Option<Box<SharedLocks>>,
    /// Random variation determined by the seed.
    pub noise: Noise<'a>,
    pub now: Nanos,
    pub alarms: Alarms,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<Task>,
    pub sinks: Sinks<'a>,
    pub left: Left,
    /// Of these, background tasks, for which the run does not wait.
    pub beside: Left,
    pub end: Option<End>,
    /// CPUs that spin until others have switched.
    pub spinning: Vec<CpuId>,
    /// Tasks yet to be started by the external parent, by time.
    starts: VecDeque<(Nanos, u32)>,
    pub deadline: Option<Nanos>,
    pub steps: u64,
    last_exit: Option<Nanos>,
    /// Response times of periodic jobs.
    pub periods: PeriodsOfTasks,
    /// Work that scripts did in system calls.
    pub system_work: Nanos,
    pub failed_forks: u64,
    pub refused_changes: u64,
    pub instructions: u64,
    pub output: Output,
    pub woken: Vec<TaskId>,
    /// Faults of the machine.
    pub faults: Faults,
    /// Tasks freeze as soon as they get a CPU: the machine is entering, in, or leaving suspend.
    pub freezing: bool,
    /// Total suspended time, in which the kernel's clock stood still.
    pub suspended: Nanos,
    /// The sinks have been notified of the affinity change in progress.
    pub affinity_told: bool,
    /// Attaches the scheduler again on request.
    pub loader: Option<Loader<'a>>,
    /// Exit information of each restart.
    pub restarts: Vec<ExitInfo>,
    /// Next step of attaching or detaching the scheduler.
    pub load: Option<Load>,
    /// Planned calls of its programs.
    pub calls: Calls,
    /// Time at which the idle boot CPU performs its next housekeeping; [`Nanos::MAX`]: not planned.
    pub housekeeping: Nanos,
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
        let first_tick = |cpu: CpuId| if machine.no_hz_idle { Nanos::MAX } else { ticks.after(Nanos::ZERO, cpu) };
        let cpus: Vec<Cpu> = machine.all_cpus().iter().map(|cpu| Cpu::new(cpu, first_tick(cpu))).collect();
        let starts = starts(workload, &mut noise);
        let mut alarms = Alarms::new(cpus.len(), noise.order());
        let speed = Speed::new(machine, ticks.period(), Signal::Targets);
        if let Some(&(first, _)) = starts.front() {
            alarms.set(Alarm::Start, first);
        }
        Run {
            model,
            machine,
            all_cpus: machine.all_cpus(),
            ticks,
            skip_ticks: true,
            workload,
            executor: Executor::new(workload),
            groups: Groups::default(),
            speed,
            locks: Locks::new(machine),
            spared: Spared::default(),
            operations: Operations::default(),
            shared_locks: SharedLocks::new(machine, &workload.locks, seed),
            noise,
            now: Nanos::ZERO,
            alarms,
            cpus,
            tasks: Vec::new(),
            sinks: Sinks {
                hash: LogHash::new(),
                collector: Collector::new(&machine.topology),
                wants_details: log.wants_details(),
                log,
            },
            left: Left { starts: starts.len(), ..Left::default() },
            beside: Left { starts: count_beside(&starts, workload), ..Left::default() },
            end: None,
            spinning: Vec::new(),
            starts,
            deadline: workload.duration,
            steps: 0,
            last_exit: None,
            periods: PeriodsOfTasks::default(),
            system_work: Nanos::ZERO,
            failed_forks: 0,
            refused_changes: 0,
            instructions: 0,
            output: Output::default(),
            woken: Vec::new(),
            faults: Faults::default(),
            freezing: false,
            suspended: Nanos::ZERO,
            affinity_told: false,
            loader: None,
            restarts: Vec::new(),
            load: None,
            calls: Calls::default(),
            housekeeping: Nanos::MAX,
        }
    }

    /// Replaces the workload's own duration.
    pub fn stop_at(&mut self, deadline: Nanos) {
        self.deadline = Some(deadline);
    }

    /// Creates the kernel's worker for the watchdog during boot, which runs once on CPU 0 and goes to sleep. Takes no
    /// time, as the duration of the boot is not simulated.
    pub fn create_worker(&mut self) -> TaskId {
        let attributes = TaskAttributes {
            name: "kworker/u:0".to_owned(),
            policy: Policy::Other,
            nice: 0,
            allowed: self.all_cpus.clone(),
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
        self.plan_thefts();
        for cpu in 0..self.cpus.len() {
            self.advance(CpuId(cpu as u32));
        }
        self.follow_rates();
        let mut next_progress = PROGRESS;
        while self.end.is_none() && self.has_more() {
            let (time, alarm) = self.alarms.pop().expect("an event is left");
            if time > self.now {
                self.steps = 0;
            }
            self.now = time;
            if time >= next_progress {
                progress(time);
                next_progress = time + PROGRESS;
            }
            self.ring(alarm);
        }
        if self.end.is_none() && self.model.is_disabling() {
            self.end_disable_now();
        }
    }

    fn has_more(&mut self) -> bool {
        let mut due = self.alarms.next_due();
        if due.is_none() && self.spared.is_any() {
            self.roll_back_all();
            due = self.alarms.next_due();
        }
        if due.is_none_or(|due| self.deadline.is_some_and(|end| due >= end)) {
            return false;
        }
        let Left { alive, ready, asleep, starts, spinning } = self.left.without(self.beside);
        // Spinning tasks wait for others. Frozen tasks are not ready.
        let ready = ready.saturating_sub(spinning);
        let can_move = ready + asleep + starts > 0 || alive > 0 && self.deadline.is_some();
        can_move || self.faults.holds_tasks() || self.operations.are_planned()
    }

    /// Handles the alarm.
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
                self.cpus[cpu.index()].resched = true;
                self.interrupt(cpu, None);
            }
            Alarm::Sleep(task) => self.sleep_over(task),
            Alarm::Timer(key, cpu) => self.interrupt(cpu, Some(Interrupt::Timer(key))),
            Alarm::Start => self.start_due(),
            Alarm::Fault => self.fault_due(),
            Alarm::Load => self.load_due(),
            Alarm::Call => self.call_due(),
            Alarm::Theft(cpu) => self.theft_due(cpu),
            Alarm::Speed => self.speed_due(),
        }
    }

    /// Passes all tasks that are due to CPU 0, where the external parent runs.
    fn start_due(&mut self) {
        while let Some(&(time, spec)) = self.starts.front()
            && time <= self.now
        {
            self.starts.pop_front();
            self.interrupt(BOOT_CPU, Some(Interrupt::Start(spec)));
        }
        if let Some(&(next, _)) = self.starts.front() {
            self.alarms.set(Alarm::Start, next);
        }
    }

    /// Start time of the next task that was not yet passed to CPU 0.
    pub fn next_start(&self) -> Option<Nanos> {
        self.starts.front().map(|&(time, _)| time)
    }

    /// The kernel's clock, which stands still while the machine is suspended.
    pub fn kernel_now(&self) -> Nanos {
        self.now - self.suspended
    }

    /// Sets the kernel's clock.
    pub fn tell_time(&mut self) {
        self.model.set_now(self.kernel_now());
    }

    /// See [`kernel_model::Kernel::tick_is_idle_until`]; `until` is in the time of the run.
    pub fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        self.model.tick_is_idle_until(cpu, until - self.suspended)
    }

    /// Postpones the starts of tasks.
    pub fn postpone_starts(&mut self, by: Nanos) {
        self.starts.iter_mut().for_each(|(time, _)| *time += by);
    }

    /// Advances the accounts of a CPU and its current task to the current time.
    pub fn settle(&mut self, cpu: CpuId) {
        let cpu = &mut self.cpus[cpu.index()];
        let current = cpu.current;
        if cpu.is_settled(self.now) && (current == TaskId::NONE || !self.tasks[current.index()].watches_clock()) {
            return;
        }
        let spent = cpu.settle(self.now, &self.ticks);
        if current != TaskId::NONE {
            let task = &mut self.tasks[current.index()];
            if self.operations.wait && task.state() != State::Running {
                // The task sleeps or has ended, and its CPU has not switched yet.
                return;
            }
            let work = task.take(spent, cpu.rate, || cpu.is_busy());
            if task.spins() {
                cpu.spin(spent.run);
            } else {
                cpu.slow(spent.run - work);
            }
        }
    }

    /// Counts a step that takes no time by itself; too many in succession end the run.
    pub fn count_step(&mut self, task: TaskId) {
        self.steps += 1;
        if self.steps > STEPS_AT_ONE_INSTANT * (self.cpus.len() + self.tasks.len()) as u64 {
            self.end = Some(End::Stuck(task));
        }
    }

    /// Changes a task's state and the counts of tasks.
    pub fn enter(&mut self, task: TaskId, state: State) {
        let now = self.now;
        let entry = &mut self.tasks[task.index()];
        let old = entry.state();
        entry.enter(now, state);
        if entry.role != Role::Workload {
            return;
        }
        let is_beside = entry.is_beside;
        let ready = |state| usize::from(matches!(state, State::Runnable | State::Running));
        let ended = usize::from(state == State::Ended);
        self.count(is_beside, |left| {
            left.ready = left.ready + ready(state) - ready(old);
            left.alive -= ended;
        });
        if ended > 0 && !is_beside {
            self.last_exit = Some(now);
        }
    }

    /// Changes the counts of tasks, and those of background tasks if applicable.
    pub fn count(&mut self, is_beside: bool, change: impl Fn(&mut Left)) {
        change(&mut self.left);
        if is_beside {
            change(&mut self.beside);
        }
    }

    /// Closes the accounts; the model is returned in its final state.
    pub fn finish(mut self) -> Result<(Outcome, M), SetupError> {
        if let Some(End::Stuck(task)) = self.end {
            let name = &self.executor.spec(self.tasks[task.index()].spec).name;
            let problem = format!(
                "task {task} ({name}) acts endlessly at {} without consuming time; add work or a sleep to its script",
                self.now
            );
            return Err(SetupError::Workload(problem));
        }
        if self.operations.wait {
            self.model.finish_operations();
        }
        let ejected = self.model.exit_info().filter(|_| self.end == Some(End::Ejected)).cloned();
        let left = self.left.without(self.beside);
        let complete = ejected.is_none() && left.alive == 0 && left.starts == 0;
        let end = if ejected.is_none() && !complete { self.deadline.unwrap_or(self.now) } else { self.now };
        self.end_all_ahead(end.max(self.now));
        self.now = end.max(self.now);
        for cpu in 0..self.cpus.len() {
            self.settle(CpuId(cpu as u32));
        }
        let (elapsed, makespan) = (self.now, self.last_exit.filter(|_| complete));
        let energy_ratio_ppm = self.speed.as_mut().and_then(|speed| speed.energy_ratio_ppm(elapsed));
        let cpus = self.cpus.iter().map(|cpu| *cpu.account()).collect();
        let specs =
            self.tasks.iter().map(|task| (task.role == Role::Workload).then_some(task.spec)).collect::<Vec<_>>();
        let tasks = self.tasks.into_iter().map(|task| task.finish(elapsed)).collect();
        let (bpf_instructions, locks) = (Some(self.instructions), lock_table(self.locks, self.shared_locks));
        let (periods, system_work) = (self.periods, Some(self.system_work));
        let totals =
            Totals { elapsed, makespan, cpus, tasks, periods, system_work, bpf_instructions, locks, energy_ratio_ppm };
        let mut measures = self.sinks.collector.finish(totals);
        let groups = self.workload.all_groups();
        measures.gather(
            groups.iter().map(|group| GroupMeasures::new(&group.path, group.weight, group.cap_percent)),
            |task| self.workload.group_of(specs[task.id.index()]?),
        );
        let outcome = Outcome {
            measures,
            log_hash: self.sinks.hash.finish(),
            ejected,
            failed_forks: self.failed_forks,
            refused_changes: self.refused_changes,
            restarts: self.restarts,
            calls: self.calls.finish(),
        };
        Ok((outcome, self.model))
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

/// Number of background tasks.
fn count_beside(starts: &VecDeque<(Nanos, u32)>, workload: &Workload) -> usize {
    starts.iter().filter(|(_, spec)| workload.is_beside(*spec)).count()
}

/// Tasks that start by themselves, by time and then by number.
fn starts(workload: &Workload, noise: &mut Noise<'_>) -> VecDeque<(Nanos, u32)> {
    let specs = workload.tasks.iter().zip(0..);
    let mut starts: Vec<(Nanos, u32)> = specs
        .filter_map(|(spec, index)| match spec.start {
            Start::At(time) => Some((time + noise.start(), index)),
            Start::Forked => None,
        })
        .collect();
    starts.sort();
    starts.into()
}
