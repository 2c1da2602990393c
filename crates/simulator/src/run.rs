// SPDX-License-Identifier: GPL-2.0-only
//! The run: takes the next alarm, moves the clock, lets the CPU concerned go on.
//!
//! 1. The kernel is called at one instant; what that cost is charged to the CPU afterwards, and until it is paid
//!    nothing else happens on that CPU: interrupts wait (they are off in scheduler code), wakeups of other CPUs do not.
//! 2. A task whose work ends at the same instant as an interrupt comes first: it gets on with its script.
//! 3. States of tasks follow the kernel's events, which go to the log in the same breath: the accounts and the log
//!    cannot tell different stories.
//!
//! The rest of this is in `advance` (a CPU goes on), `act` (a task acts) and `apply` (what a call of the kernel left).

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
use workload::{Player, Start, Workload};

/// The CPU that boots, attaches the scheduler, creates the tasks from outside, and runs the watchdog.
pub(crate) const BOOT_CPU: CpuId = CpuId(0);

/// How often the caller hears of progress, in simulated time.
const PROGRESS: Nanos = Nanos::from_ms(50);

/// Steps that may follow each other without any time passing, for each CPU and task. A script that never needs time,
/// on a machine where nothing costs time, would otherwise never end.
const STEPS_AT_ONE_INSTANT: u64 = 10_000;

/// Why a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The kernel ejected the scheduler.
    Ejected,
    /// Its loader took it away.
    Unloaded,
    /// Time stands still.
    Stuck(TaskId),
}

/// Whoever hears of each event.
pub(crate) struct Sinks<'a> {
    pub hash: LogHash,
    pub collector: Collector,
    pub log: &'a mut dyn Sink,
    /// It wants to know what the events leave out.
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

    /// No part of the hash, and nothing to measure.
    pub fn detail(&mut self, detail: &Detail) {
        self.log.detail(detail);
    }

    pub fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.hash.affinity(time, task, allowed);
        self.collector.affinity(time, task, allowed);
        self.log.affinity(time, task, allowed);
    }
}

/// How many tasks of the workload there are, and what they do.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Left {
    /// Tasks that did not end.
    pub alive: usize,
    /// Of these, runnable or running.
    pub ready: usize,
    /// Of these, asleep with a timer.
    pub asleep: usize,
    /// To come from outside.
    pub starts: usize,
    /// Of those that are ready, at a barrier until others come.
    pub spinning: usize,
}

impl Left {
    /// Without those.
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

/// What the program in user space has that loaded the scheduler.
pub(crate) struct Loader<'a> {
    pub object: LinkedObject,
    pub profile: Cow<'a, Profile>,
    /// What it calls when the attach that is under way has ended.
    pub calls: Vec<ProgramCall>,
}

/// A run in progress.
pub(crate) struct Run<'a, M> {
    pub model: M,
    pub machine: &'a Machine,
    pub all_cpus: CpuSet,
    pub ticks: Ticks,
    /// Ticks that can do nothing but account time are not played one by one. Off where the scheduler could notice.
    pub skip_ticks: bool,
    pub workload: &'a Workload,
    pub player: Player<'a>,
    /// Cgroups, users and sessions.
    pub groups: Groups,
    /// How fast the CPUs are; `None`: all at the reference's speed, always.
    pub speed: Option<Box<Speed>>,
    /// Who has which lock of the kernel; `None`: nobody ever waits for one.
    pub locks: Option<Box<Locks>>,
    /// Events that were spared, as nobody else wanted a lock.
    pub spared: Spared,
    /// Operations of the kernel that wait.
    pub operations: Operations,
    /// Who has which lock of the workload; `None`: it has none.
    pub shared_locks: Option<Box<SharedLocks>>,
    /// What the seed draws.
    pub noise: Noise<'a>,
    pub now: Nanos,
    pub alarms: Alarms,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<Task>,
    pub sinks: Sinks<'a>,
    pub left: Left,
    /// Of these, tasks that play beside others: the run does not wait for them.
    pub beside: Left,
    pub end: Option<End>,
    /// CPUs that spin until others have switched.
    pub spinning: Vec<CpuId>,
    /// Tasks from outside that are still to come, by time.
    starts: VecDeque<(Nanos, u32)>,
    pub deadline: Option<Nanos>,
    pub steps: u64,
    last_exit: Option<Nanos>,
    /// How long what periods released took.
    pub periods: PeriodsOfTasks,
    /// Work for which scripts had the kernel.
    pub system_work: Nanos,
    pub failed_forks: u64,
    pub refused_changes: u64,
    pub instructions: u64,
    pub output: Output,
    pub woken: Vec<TaskId>,
    /// What happens to the machine.
    pub faults: Faults,
    /// Tasks stop as soon as they have a CPU: the machine is about to sleep, sleeps, or is about to wake.
    pub freezing: bool,
    /// How long the machine slept: the kernel's clock stood still for that long.
    pub suspended: Nanos,
    /// The sinks know the affinity that is being changed.
    pub affinity_told: bool,
    /// Attaches the scheduler again when it is told to.
    pub loader: Option<Loader<'a>>,
    /// Why it was, each time.
    pub restarts: Vec<ExitInfo>,
    /// What is done next to the scheduler.
    pub load: Option<Load>,
    /// Which programs of it are called.
    pub calls: Calls,
    /// When the boot CPU looks after the kernel next if it is still idle; [`Nanos::MAX`]: not now.
    pub housekeeping: Nanos,
}

impl<'a, M: Model> Run<'a, M> {
    /// At time 0, before anything happened. The workload was checked against the machine.
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
            player: Player::new(workload),
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

    /// Boots: makes the kernel's worker for the watchdog, which runs once on CPU 0 and goes to sleep. That takes no
    /// time, since nobody asked how long a boot takes.
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

    /// Plays on until nothing is left to happen, or the time is over.
    pub fn play(&mut self, progress: &mut dyn FnMut(Nanos)) {
        self.plan_thefts();
        for cpu in 0..self.cpus.len() {
            self.advance(CpuId(cpu as u32));
        }
        self.follow_rates();
        let mut next_progress = PROGRESS;
        while self.end.is_none() && self.has_more() {
            let (time, alarm) = self.alarms.pop().expect("there is more");
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
            self.take_all_back();
            due = self.alarms.next_due();
        }
        if due.is_none_or(|due| self.deadline.is_some_and(|end| due >= end)) {
            return false;
        }
        let Left { alive, ready, asleep, starts, spinning } = self.left.without(self.beside);
        // Those that spin wait for the others. Frozen ones are not ready.
        let ready = ready.saturating_sub(spinning);
        let can_move = ready + asleep + starts > 0 || alive > 0 && self.deadline.is_some();
        can_move || self.faults.holds_tasks() || self.operations.are_planned()
    }

    /// What was set for now happens.
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

    /// Hands all tasks that are due to CPU 0, where the parent outside is.
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

    /// When the next task comes from outside that was not handed to CPU 0 yet.
    pub fn next_start(&self) -> Option<Nanos> {
        self.starts.front().map(|&(time, _)| time)
    }

    /// The kernel's clock, which stands still while the machine sleeps.
    pub fn kernel_now(&self) -> Nanos {
        self.now - self.suspended
    }

    /// Sets the kernel's clock.
    pub fn tell_time(&mut self) {
        self.model.set_now(self.kernel_now());
    }

    /// See [`kernel_model::Kernel::tick_is_idle_until`]; `until` is on the clock of the run.
    pub fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        self.model.tick_is_idle_until(cpu, until - self.suspended)
    }

    /// Tasks from outside come so much later.
    pub fn postpone_starts(&mut self, by: Nanos) {
        self.starts.iter_mut().for_each(|(time, _)| *time += by);
    }

    /// Brings a CPU's account up to now, and its current task's.
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
                // It sleeps or has ended, and its CPU has not switched yet.
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

    /// Counts a step that takes no time by itself; a run of too many ends the run.
    pub fn count_step(&mut self, task: TaskId) {
        self.steps += 1;
        if self.steps > STEPS_AT_ONE_INSTANT * (self.cpus.len() + self.tasks.len()) as u64 {
            self.end = Some(End::Stuck(task));
        }
    }

    /// A task's state changed: what is left changes too.
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

    /// The counts of tasks change by one that plays beside others, or not.
    pub fn count(&mut self, is_beside: bool, change: impl Fn(&mut Left)) {
        change(&mut self.left);
        if is_beside {
            change(&mut self.beside);
        }
    }

    /// Closes the accounts; the model stays as the run left it.
    pub fn finish(mut self) -> Result<(Outcome, M), SetupError> {
        if let Some(End::Stuck(task)) = self.end {
            let name = &self.player.spec(self.tasks[task.index()].spec).name;
            let problem = format!(
                "task {task} ({name}) acts for ever at {} without needing any time; give its script work or a sleep",
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

/// Locks of the kernel and of the workload, the longest waits first.
fn lock_table(kernel: Option<Box<Locks>>, shared: Option<Box<SharedLocks>>) -> Option<Vec<LockUse>> {
    let mut all = kernel.map(|locks| locks.table());
    if let Some(shared) = shared {
        let all = all.get_or_insert_default();
        all.extend(shared.rows.into_iter().filter(|row| row.count > 0));
        all.sort_by_key(|row| std::cmp::Reverse(row.wait_total));
    }
    all
}

/// How many of them play beside others.
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
