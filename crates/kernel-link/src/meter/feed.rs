// SPDX-License-Identifier: GPL-2.0-only
//! From the kernel's events to those of a run, and the accounts of its tasks and CPUs.
//!
//! 1. The run begins at the birth of the first task, or, if a workload is played, at that of its stage: the first task may
//!    come later. What happened before only tells who had which CPU then.
//! 2. A CPU that runs a task outside the tree is busy, but for the run it runs nobody: the switch to no task is
//!    followed by an event that it does not idle.
//! 3. A task's time is charged to the state that it is leaving, so that its account adds up whatever was lost.
//! 4. A switch that the kernel did not report comes as one from a task outside the tree, dated back. A wakeup that it
//!    did not report comes when the task runs already: it counts, but says nothing of how long the task waited.
//! 5. While a task has a CPU it runs for as long as the scheduler says (`sum_exec_runtime`, which leaves out interrupts
//!    and what the host of a virtual machine stole, where the kernel accounts for these); the rest is stolen.
//! 6. Who had a CPU when the run ended is told by the next switch there: the kernel may have kept the one to the idle
//!    task to itself.

use super::Scope;
use event_log::{self as log, BlockCause, CallbackSite, EventKind, Sink, SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use measures::{CpuAccount, TaskAccount};
use recording::convert::cause;
use recording::event::{Event, Kind, Left, Number, Occupant, Waker};
use workload::Sleep;

/// What a task does.
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
    /// On a CPU, by the clock.
    on_cpu: Nanos,
    /// On a CPU, as the scheduler counts, when it was switched out last.
    ran: Nanos,
    /// By the clock, at that time.
    on_cpu_then: Nanos,
    runnable: Nanos,
    blocked: Nanos,
}

impl Task {
    /// Charges the time since the last change and changes.
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

    /// Its account; nothing may follow.
    fn account(&self) -> TaskAccount {
        // What it ran since it was switched out last (it still runs) is known by the clock only.
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

/// The thread that creates the tasks of a play, and what they inherit.
#[derive(Clone, Debug)]
struct Stage {
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
    /// Charges the time since the last change; `busy` if it was online then.
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

/// What is known when the run is over.
#[derive(Debug)]
pub(crate) struct Fed {
    /// From the beginning to the end.
    pub elapsed: Nanos,
    /// When the last task ended; `None` if one has not.
    pub makespan: Option<Nanos>,
    /// Busy (`run`) and idle time of each CPU.
    pub cpus: Vec<CpuAccount>,
    /// Each task's account.
    pub tasks: Vec<TaskAccount>,
    /// Each task's last name.
    pub names: Vec<String>,
    /// Each task's number in the kernel.
    pub threads: Vec<u32>,
    /// Tasks that had not ended.
    pub unfinished: u32,
    /// Events that named a task whose birth is not known, or a CPU that was not there at the beginning.
    pub orphans: u64,
    /// Switches to tasks and wakeups of tasks that the kernel did not report, and that were inferred.
    pub unseen: (u64, u64),
}

/// Takes the kernel's events in the order of time.
#[derive(Debug)]
pub(crate) struct Feed<S> {
    /// Who wants to know.
    pub sink: S,
    origin: Option<Nanos>,
    now: Nanos,
    /// By the number that the programs in the kernel gave: lost births leave gaps.
    ids: Vec<Option<TaskId>>,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// Tasks that have not ended.
    alive: u32,
    scope: Scope,
    /// The thread that plays a workload, once it has been seen: it is not a task of the run, but its parent.
    stage: Option<Stage>,
    stage_gone: bool,
    over: bool,
    orphans: u64,
    own_events: u64,
    unseen: (u64, u64),
    all: CpuSet,
}

impl<S: Sink> Feed<S> {
    /// For a machine with so many CPUs. Of those that were `visited` while the programs listened it is known who has
    /// them: nobody, if an event says so, and otherwise tasks outside the tree. The others idle until an event.
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
            stage: None,
            stage_gone: false,
            over: false,
            orphans: 0,
            own_events: 0,
            unseen: (0, 0),
            all: CpuSet::first_n(cpus),
        }
    }

    /// Whether the run is over: all of its tasks have ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The machine's CPUs.
    pub fn all_cpus(&self) -> &CpuSet {
        &self.all
    }

    /// How many events were about a task of the tree.
    pub fn own_events(&self) -> u64 {
        self.own_events
    }

    /// Takes the next event. Of those after the end of the run only the first switch of each CPU counts.
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
        if self.is_of_stage(event) {
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
                let was_stage = self.is_stage(*previous);
                let (previous, next) = (self.known(*previous), self.known(*next));
                self.leave(*cpu, previous, event.work, *left, *io_wait || *uninterruptible);
                self.enter(*cpu, previous, next, *left);
                self.stage_gone |= was_stage && *left == Left::Dead;
                // Whoever waits for a thread goes on before that thread has left its CPU for the last time.
                self.over |= self.stage_gone && self.alive == 0;
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
            | Kind::Last { .. }
            | Kind::End { .. } => {
                unreachable!("the meter's programs do not send these")
            }
        }
    }

    /// This occupant leaves a CPU after the end of the run, and if nobody did before, it had the CPU then.
    fn look_back(&mut self, cpu: CpuId, occupant: Occupant) {
        let Some(cpu) = self.cpus.get_mut(cpu.index()).filter(|cpu| !cpu.left_after_end) else { return };
        cpu.left_after_end = true;
        cpu.occupant = occupant;
    }

    fn is_stage(&self, occupant: Occupant) -> bool {
        self.stage.as_ref().is_some_and(|stage| occupant == Occupant::Task(stage.number))
    }

    /// Keeps what the stage's tasks inherit. Its switches are those of a CPU too, and are left to others.
    fn is_of_stage(&mut self, event: &Event) -> bool {
        match (&event.kind, &mut self.stage) {
            (Kind::Birth { .. }, stage @ None) if self.scope == Scope::Play => {
                let (allowed, policy, nice) = (self.all.clone(), Policy::Other, 0);
                *stage = Some(Stage { number: event.task, allowed, policy, nice });
                true
            }
            (Kind::Attributes { policy, nice, cpus }, Some(stage)) if event.task == stage.number => {
                (stage.allowed, stage.policy, stage.nice) = (cpus.intersection(&self.all), *policy, *nice);
                true
            }
            (Kind::Switch { .. }, _) | (_, None) => false,
            (_, Some(stage)) => event.task == stage.number,
        }
    }

    fn id(&self, number: Number) -> Option<TaskId> {
        self.ids.get(number as usize).copied().flatten()
    }

    /// A task of which nothing is known is as good as one outside the tree.
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

    /// The run begins now.
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
        let (allowed, policy, nice) = match (parent.map(|parent| &self.tasks[parent.index()]), &self.stage) {
            (Some(parent), _) => (parent.allowed.clone(), parent.policy, parent.nice),
            (None, Some(stage)) => (stage.allowed.clone(), stage.policy, stage.nice),
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

    /// A CPU went, or comes, and idles first; or it has been offline from the beginning.
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

    /// The CPU's previous task leaves it.
    fn leave(&mut self, cpu: CpuId, previous: Occupant, ran: Nanos, left: Left, device: bool) {
        let account = &mut self.cpus[cpu.index()];
        // By what the event says: if a switch was lost, the last part of the time is the one that is known.
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

    /// The CPU's next task has it.
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

    /// The run is over, at `end` on the kernel's clock if its tasks have not ended it before.
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
