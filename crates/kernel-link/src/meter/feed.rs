// SPDX-License-Identifier: GPL-2.0-only
//! Converts kernel events to events of a run, and accounts the time of its tasks and CPUs.
//!
//! 1. The run begins at the birth of the first task, or, for an executed workload, at that of its coordinator: the first
//!    task may come later. Earlier events only determine which task each CPU runs at that time.
//! 2. A CPU that runs a task outside the tree is busy, but the run has no task on it: the switch to no task is followed
//!    by an event that the CPU is not idle.
//! 3. A task's time is charged to the state that it leaves, so its account adds up even if events were lost.
//! 4. A switch that the kernel did not report appears as a switch from a task outside the tree, dated back. A wakeup that
//!    it did not report appears when the task already runs: it is counted, but without a latency.
//! 5. A running task is charged the time that the scheduler accounts (`sum_exec_runtime`, which excludes interrupts and
//!    steal time of a virtual machine, where the kernel accounts for these); the rest is stolen time.
//! 6. The task on a CPU at the end of the run is known from the next switch there, since the kernel may have hidden the
//!    switch to the idle task.

use super::Scope;
use event_log::{self as log, BlockCause, CallbackSite, EventKind, Sink, SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use measures::{CpuAccount, TaskAccount};
use recording::convert::cause;
use recording::event::{Event, Kind, Left, Number, Occupant, Waker};
use workload::Sleep;

/// State of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Blocked,
    Runnable,
    Running,
    Ended,
}

#[derive(Debug)]
struct Task {
    thread: u32,
    name: String,
    allowed: CpuSet,
    policy: Policy,
    nice: i8,
    state: State,
    since: Nanos,
    ended: Option<Nanos>,
    /// Time between being switched in and switched out, stolen time and interrupts included.
    on_cpu: Nanos,
    /// CPU time accounted by the scheduler when it was last switched out.
    ran: Nanos,
    /// `on_cpu` when it was last switched out.
    on_cpu_then: Nanos,
    runnable: Nanos,
    blocked: Nanos,
}

impl Task {
    /// Charges the time since the last change to the old state.
    fn enter(&mut self, now: Nanos, state: State) {
        let passed = now.since(self.since);
        match self.state {
            State::Blocked => self.blocked += passed,
            State::Runnable => self.runnable += passed,
            State::Running => self.on_cpu += passed,
            State::Ended => {}
        }
        self.since = now;
        self.state = state;
    }

    /// Account of the task at the end of the run.
    fn account(&self) -> TaskAccount {
        // Time since it was last switched out, while it still runs, is known only from timestamps.
        let run = self.ran + self.on_cpu.since(self.on_cpu_then);
        let stolen = self.on_cpu.since(run);
        let early = run.since(self.on_cpu);
        let from_runnable = early.min(self.runnable);
        let from_blocked = (early - from_runnable).min(self.blocked);
        TaskAccount {
            work: Nanos::ZERO,
            run: self.on_cpu - stolen + from_runnable + from_blocked,
            stolen,
            runnable: self.runnable - from_runnable,
            blocked: self.blocked - from_blocked,
        }
    }
}

/// The coordinator, which creates the tasks of an executed workload, and the attributes that they inherit.
#[derive(Clone, Debug)]
struct Coordinator {
    number: Number,
    allowed: CpuSet,
    policy: Policy,
    nice: i8,
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    occupant: Occupant,
    since: Nanos,
    busy: Nanos,
    idle: Nanos,
    offline: Nanos,
    is_offline: bool,
    /// A switch after the end of the run was seen.
    left_after_end: bool,
}

impl Cpu {
    /// Charges the time since the last change, as `busy` or idle if the CPU was online.
    fn charge(&mut self, now: Nanos, busy: bool) {
        let passed = now.since(self.since);
        match (self.is_offline, busy) {
            (true, _) => self.offline += passed,
            (false, true) => self.busy += passed,
            (false, false) => self.idle += passed,
        }
        self.since = now;
    }
}

/// Accounts at the end of the run.
#[derive(Debug)]
pub(crate) struct Fed {
    /// Duration of the run.
    pub elapsed: Nanos,
    /// Time of the last exit; `None` if a task has not exited.
    pub makespan: Option<Nanos>,
    /// Busy (`run`) and idle time of each CPU.
    pub cpus: Vec<CpuAccount>,
    /// Account of each task.
    pub tasks: Vec<TaskAccount>,
    /// Final name of each task.
    pub names: Vec<String>,
    /// TID of each task.
    pub threads: Vec<u32>,
    /// Number of tasks that had not exited.
    pub unfinished: u32,
    /// Number of events about a task without a known birth, or about a CPU that did not exist at the start.
    pub orphans: u64,
    /// Number of switches to tasks, and of wakeups, that the kernel did not report and that were inferred.
    pub unseen: (u64, u64),
}

/// Processes the kernel's events in order of time.
#[derive(Debug)]
pub(crate) struct Feed<S> {
    /// Receiver of the run's events.
    pub sink: S,
    origin: Option<Nanos>,
    now: Nanos,
    /// Task ID by the number that the BPF programs assigned; lost births leave gaps.
    ids: Vec<Option<TaskId>>,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// Number of tasks that have not exited.
    alive: u32,
    scope: Scope,
    /// The coordinator of a workload, once seen: it is not a task of the run, but the parent of its tasks.
    coordinator: Option<Coordinator>,
    coordinator_gone: bool,
    over: bool,
    orphans: u64,
    own_events: u64,
    unseen: (u64, u64),
    all: CpuSet,
}

impl<S: Sink> Feed<S> {
    /// For a machine with `cpus` CPUs. For CPUs that were `visited` while the programs were attached, the current
    /// task is known: idle if an event says so, otherwise a task outside the tree. The others count as idle until an
    /// event.
    pub fn new(cpus: usize, visited: &CpuSet, scope: Scope, sink: S) -> Feed<S> {
        let cpu = |cpu| Cpu {
            occupant: if visited.contains(CpuId(cpu)) { Occupant::Other } else { Occupant::Idle },
            since: Nanos::ZERO,
            busy: Nanos::ZERO,
            idle: Nanos::ZERO,
            offline: Nanos::ZERO,
            is_offline: false,
            left_after_end: false,
        };
        Feed {
            sink,
            origin: None,
            now: Nanos::ZERO,
            ids: Vec::new(),
            tasks: Vec::new(),
            cpus: (0..cpus as u32).map(cpu).collect(),
            alive: 0,
            scope,
            coordinator: None,
            coordinator_gone: false,
            over: false,
            orphans: 0,
            own_events: 0,
            unseen: (0, 0),
            all: CpuSet::first_n(cpus),
        }
    }

    /// Whether the run is over: all of its tasks have exited.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// CPUs of the machine.
    pub fn all_cpus(&self) -> &CpuSet {
        &self.all
    }

    /// Number of events about tasks of the tree.
    pub fn own_events(&self) -> u64 {
        self.own_events
    }

    /// Processes the next event. After the end of the run only the first switch of each CPU counts.
    pub fn take(&mut self, event: &Event) {
        if self.over {
            if let Kind::Switch { cpu, previous, .. } = event.kind {
                self.look_back(cpu, previous);
            }
            return;
        }
        if let Some(origin) = self.origin {
            self.now = event.time.since(origin);
        }
        let others = |occupant| !matches!(occupant, Occupant::Task(_));
        self.own_events += match event.kind {
            Kind::Switch { previous, next, .. } if others(previous) && others(next) => 0,
            Kind::Hotplug { .. } => 0,
            _ => 1,
        };
        if self.is_of_coordinator(event) {
            if self.origin.is_none() {
                self.begin(event.time);
            }
            return;
        }
        match &event.kind {
            Kind::Birth { parent, pid, cpu, comm, .. } => self.birth(event, *parent, (*pid, *cpu), comm),
            Kind::Hotplug { cpu, online } => self.hotplug(*cpu, *online),
            Kind::Attributes { policy, nice, cpus } => self.attributes(event.task, *policy, *nice, cpus),
            Kind::Rename { comm } => self.rename(event.task, comm),
            Kind::Wake { waker, waker_cpu, target_cpu, device, new } => {
                let how = (*waker, *device, *new);
                self.wake(event.task, how, *waker_cpu, *target_cpu);
            }
            Kind::Switch { cpu, previous, next, left, io_wait, uninterruptible } => {
                if cpu.index() >= self.cpus.len() {
                    self.orphans += 1;
                    return;
                }
                if self.origin.is_none() {
                    self.cpus[cpu.index()].occupant = *next;
                    return;
                }
                let was_coordinator = self.is_stage(*previous);
                let (previous, next) = (self.known(*previous), self.known(*next));
                self.leave(*cpu, previous, event.work, *left, *io_wait || *uninterruptible);
                self.enter(*cpu, previous, next, *left);
                self.coordinator_gone |= was_coordinator && *left == Left::Dead;
                // A task that joins a thread continues before that thread is switched out for the last time.
                self.over |= self.coordinator_gone && self.alive == 0;
            }
            Kind::Sleep(_)
            | Kind::Pass(_)
            | Kind::Touched { .. }
            | Kind::Footprint(_)
            | Kind::Request(_)
            | Kind::Exec { .. }
            | Kind::Exit { .. }
            | Kind::Who { .. }
            | Kind::Signal { .. }
            | Kind::Alarm
            | Kind::SetAlarm { .. }
            | Kind::Yield(_)
            | Kind::Last { .. }
            | Kind::End { .. } => {
                unreachable!("the meter's programs do not send these")
            }
        }
    }

    /// If this is the first switch on the CPU after the end of the run, `occupant` was on it at the end.
    fn look_back(&mut self, cpu: CpuId, occupant: Occupant) {
        let Some(cpu) = self.cpus.get_mut(cpu.index()).filter(|cpu| !cpu.left_after_end) else { return };
        cpu.left_after_end = true;
        cpu.occupant = occupant;
    }

    fn is_stage(&self, occupant: Occupant) -> bool {
        self.coordinator.as_ref().is_some_and(|coordinator| occupant == Occupant::Task(coordinator.number))
    }

    /// Tracks the attributes that the coordinator's children inherit. Its switches also concern a CPU and are
    /// processed further.
    fn is_of_coordinator(&mut self, event: &Event) -> bool {
        match (&event.kind, &mut self.coordinator) {
            (Kind::Birth { .. }, coordinator @ None) if self.scope == Scope::Workload => {
                let (allowed, policy, nice) = (self.all.clone(), Policy::Other, 0);
                *coordinator = Some(Coordinator { number: event.task, allowed, policy, nice });
                true
            }
            (Kind::Attributes { policy, nice, cpus }, Some(coordinator)) if event.task == coordinator.number => {
                (coordinator.allowed, coordinator.policy, coordinator.nice) =
                    (cpus.intersection(&self.all), *policy, *nice);
                true
            }
            (Kind::Switch { .. }, _) | (_, None) => false,
            (_, Some(coordinator)) => event.task == coordinator.number,
        }
    }

    fn id(&self, number: Number) -> Option<TaskId> {
        self.ids.get(number as usize).copied().flatten()
    }

    /// Treats an unknown task as one outside the tree.
    fn known(&mut self, occupant: Occupant) -> Occupant {
        match occupant {
            Occupant::Task(number) if self.id(number).is_none() => {
                self.orphans += u64::from(!self.is_stage(occupant));
                Occupant::Other
            }
            known => known,
        }
    }

    fn tell(&mut self, cpu: CpuId, task: TaskId, kind: EventKind) {
        self.sink.event(&log::Event { time: self.now, cpu, task, kind, site: CallbackSite::default() });
    }

    /// Starts the run at `now`.
    fn begin(&mut self, now: Nanos) {
        self.origin = Some(now);
        for number in 0..self.cpus.len() {
            let Cpu { occupant, is_offline, .. } = self.cpus[number];
            let cpu = CpuId(number as u32);
            if is_offline {
                self.tell(cpu, TaskId::NONE, EventKind::Hotplug { online: false });
            } else if occupant != Occupant::Idle {
                self.tell(cpu, TaskId::NONE, EventKind::Idle { entered: false });
            }
        }
    }

    fn birth(&mut self, event: &Event, parent: Option<Number>, (thread, cpu): (u32, CpuId), comm: &str) {
        if self.origin.is_none() {
            self.begin(event.time);
        }
        let parent = parent.and_then(|parent| self.id(parent));
        let (allowed, policy, nice) = match (parent.map(|parent| &self.tasks[parent.index()]), &self.coordinator) {
            (Some(parent), _) => (parent.allowed.clone(), parent.policy, parent.nice),
            (None, Some(coordinator)) => (coordinator.allowed.clone(), coordinator.policy, coordinator.nice),
            (None, None) => (self.all.clone(), Policy::Other, 0),
        };
        let id = TaskId(self.tasks.len() as u32);
        let number = event.task as usize;
        if self.ids.len() <= number {
            self.ids.resize(number + 1, None);
        }
        self.ids[number] = Some(id);
        self.alive += 1;
        let name = comm.to_owned();
        let info = TaskInfo {
            id,
            pid: thread,
            name: name.clone(),
            parent,
            allowed: allowed.clone(),
            policy,
            nice,
            kernel_thread: false,
        };
        self.sink.task(self.now, &info);
        if let Some(parent) = parent {
            self.tell(cpu, parent, EventKind::Fork { child: id });
        }
        self.tasks.push(Task {
            thread,
            name,
            allowed,
            policy,
            nice,
            state: State::Blocked,
            since: self.now,
            ended: None,
            on_cpu: Nanos::ZERO,
            ran: Nanos::ZERO,
            on_cpu_then: Nanos::ZERO,
            runnable: Nanos::ZERO,
            blocked: Nanos::ZERO,
        });
    }

    /// A CPU went offline, or came online and is idle first; or it has been offline from the start.
    pub fn hotplug(&mut self, cpu: CpuId, online: bool) {
        let Some(account) = self.cpus.get_mut(cpu.index()) else { return };
        let busy = account.occupant != Occupant::Idle;
        account.charge(self.now, busy);
        account.is_offline = !online;
        account.occupant = Occupant::Idle;
        if self.origin.is_some() {
            self.tell(cpu, TaskId::NONE, EventKind::Hotplug { online });
        }
    }

    fn rename(&mut self, number: Number, name: &str) {
        match self.id(number) {
            Some(id) => {
                name.clone_into(&mut self.tasks[id.index()].name);
                self.sink.renamed(self.now, id, name);
            }
            None => self.orphans += 1,
        }
    }

    fn attributes(&mut self, number: Number, policy: Policy, nice: i8, cpus: &CpuSet) {
        let Some(id) = self.id(number) else {
            self.orphans += 1;
            return;
        };
        let allowed = cpus.intersection(&self.all);
        let task = &mut self.tasks[id.index()];
        let (moved, other) = (task.allowed != allowed, (task.policy, task.nice) != (policy, nice));
        (task.policy, task.nice) = (policy, nice);
        let cpu = CpuId(0);
        if moved {
            task.allowed = allowed.clone();
            self.sink.affinity(self.now, id, &allowed);
            self.tell(cpu, id, EventKind::Affinity);
        }
        if other {
            self.tell(cpu, id, EventKind::Priority { nice });
        }
    }

    fn wake(&mut self, number: Number, (waker, device, new): (Waker, (bool, bool), bool), cpu: CpuId, target: CpuId) {
        let Some(id) = self.id(number) else {
            self.orphans += 1;
            return;
        };
        if waker == Waker::Unseen {
            self.unseen.1 += 1;
        } else {
            self.tasks[id.index()].enter(self.now, State::Runnable);
        }
        let waker = match waker {
            Waker::Task(number, _) => match self.id(number) {
                Some(parent) if new => log::Waker::Fork(parent),
                Some(waker) => log::Waker::Task(waker),
                None => log::Waker::External,
            },
            other => match cause(other, device) {
                Sleep::Timer => log::Waker::Timer,
                Sleep::Io => log::Waker::Interrupt,
                _ => log::Waker::External,
            },
        };
        self.tell(cpu, id, EventKind::Wakeup { waker, sync: false, target });
    }

    /// Accounts for the task that leaves the CPU.
    fn leave(&mut self, cpu: CpuId, previous: Occupant, ran: Nanos, left: Left, device: bool) {
        let account = &mut self.cpus[cpu.index()];
        // The event decides: if a switch was lost, only the last part of the time is known.
        account.charge(self.now, previous != Occupant::Idle);
        account.is_offline = false;
        self.unseen.0 += u64::from(left == Left::Unseen);
        let Occupant::Task(number) = previous else { return };
        let Some(id) = self.id(number) else { return };
        let state = match left {
            Left::Runnable | Left::ForHigherClass | Left::Unseen => State::Runnable,
            Left::Blocked => State::Blocked,
            Left::Dead => State::Ended,
        };
        let task = &mut self.tasks[id.index()];
        task.enter(self.now, state);
        task.ran = ran;
        task.on_cpu_then = task.on_cpu;
        match left {
            Left::Blocked => {
                let cause = if device { BlockCause::Io } else { BlockCause::External };
                self.tell(cpu, id, EventKind::Block { cause });
            }
            Left::Dead => {
                task.ended = Some(self.now);
                self.alive -= 1;
                self.over = self.scope == Scope::Command && self.alive == 0;
                self.tell(cpu, id, EventKind::Exit);
            }
            Left::Runnable | Left::ForHigherClass | Left::Unseen => {}
        }
    }

    /// Accounts for the task that gets the CPU.
    fn enter(&mut self, cpu: CpuId, previous: Occupant, next: Occupant, left: Left) {
        self.cpus[cpu.index()].occupant = next;
        let task_of = |occupant| match occupant {
            Occupant::Task(number) => self.id(number).unwrap_or(TaskId::NONE),
            Occupant::Idle | Occupant::Other => TaskId::NONE,
        };
        let (prev, task) = (task_of(previous), task_of(next));
        if let Some(id) = task.some() {
            self.tasks[id.index()].enter(self.now, State::Running);
        }
        if prev != task {
            let reason = match left {
                _ if prev == TaskId::NONE => SwitchReason::Idle,
                Left::Blocked => SwitchReason::Block,
                Left::Dead => SwitchReason::Exit,
                Left::ForHigherClass => SwitchReason::HigherClass,
                Left::Runnable | Left::Unseen => SwitchReason::Preempt,
            };
            self.tell(cpu, task, EventKind::Switch { prev, reason });
        }
        if task == TaskId::NONE {
            self.tell(cpu, TaskId::NONE, EventKind::Idle { entered: next == Occupant::Idle });
        }
    }

    /// Ends the run, at `end` of the kernel's clock unless its tasks ended it before.
    pub fn finish(mut self, end: Nanos) -> (S, Fed) {
        if !self.over {
            self.now = self.now.max(end.since(self.origin.unwrap_or(end)));
        }
        let now = self.now;
        let mut cpus = Vec::with_capacity(self.cpus.len());
        for cpu in &mut self.cpus {
            cpu.charge(now, cpu.occupant != Occupant::Idle);
            let Cpu { busy: run, idle, offline, .. } = *cpu;
            cpus.push(CpuAccount { run, idle, offline, ..CpuAccount::default() });
        }
        for task in &mut self.tasks {
            task.enter(now, task.state);
        }
        let ended = self.tasks.iter().map(|task| task.ended);
        let makespan = ended.collect::<Option<Vec<_>>>().and_then(|ended| ended.into_iter().max());
        let fed = Fed {
            elapsed: now,
            makespan,
            cpus,
            tasks: self.tasks.iter().map(Task::account).collect(),
            unfinished: self.alive,
            threads: self.tasks.iter().map(|task| task.thread).collect(),
            names: self.tasks.into_iter().map(|task| task.name).collect(),
            orphans: self.orphans,
            unseen: self.unseen,
        };
        (self.sink, fed)
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
