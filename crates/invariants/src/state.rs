// SPDX-License-Identifier: GPL-2.0-only
//! Who runs, who waits and since when, which CPU is there, and what contradicts that.

use event_log::{SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};

/// Whether a task that stopped for this reason could go on.
pub(crate) fn stays_runnable(reason: SwitchReason) -> bool {
    !matches!(reason, SwitchReason::Block | SwitchReason::Exit)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// Not runnable: new, asleep or ended.
    Blocked,
    /// Runnable, and on no CPU.
    Waiting,
    /// On this CPU.
    Running(CpuId),
}

#[derive(Debug)]
struct Task {
    allowed: CpuSet,
    /// Which tasks are the scheduler's: those of higher classes never are.
    scheduled: bool,
    policy: Policy,
    nice: i8,
    kernel_thread: bool,
    doing: Doing,
    since: Nanos,
    /// It has not run since it slept.
    woken: bool,
    /// Whose current task it is: also for a while after it fell asleep.
    current_on: Option<CpuId>,
    /// How long all CPUs had been taken when it began to wait.
    taken_before: Nanos,
    /// When it lost the right to the CPU on which it runs.
    unwelcome: Option<Nanos>,
}

#[derive(Debug)]
struct Cpu {
    task: TaskId,
    online: bool,
    /// When a task that is no thread of the kernel left it last.
    left_at: Nanos,
}

/// What the events say.
#[derive(Debug)]
pub(crate) struct State {
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// How many CPUs the scheduler may use: they are online and run nothing of a higher class.
    available: usize,
    /// Since when there is none, and for how long there was none before.
    none_since: Nanos,
    taken: Nanos,
}

impl State {
    /// All CPUs online and idle, no tasks.
    pub(crate) fn new(cpus: usize) -> State {
        let cpu = |_| Cpu { task: TaskId::NONE, online: true, left_at: Nanos::ZERO };
        let cpus: Vec<Cpu> = (0..cpus).map(cpu).collect();
        State { tasks: Vec::new(), available: cpus.len(), cpus, none_since: Nanos::ZERO, taken: Nanos::ZERO }
    }

    /// A task exists.
    pub(crate) fn announce(&mut self, now: Nanos, info: &TaskInfo) {
        assert_eq!(info.id.index(), self.tasks.len(), "tasks are announced in order of their numbers");
        self.tasks.push(Task {
            allowed: info.allowed.clone(),
            scheduled: matches!(info.policy, Policy::Other | Policy::Batch | Policy::Idle | Policy::Ext),
            policy: info.policy,
            nice: info.nice,
            kernel_thread: info.kernel_thread,
            doing: Doing::Blocked,
            since: now,
            woken: false,
            current_on: None,
            taken_before: Nanos::ZERO,
            unwelcome: None,
        });
    }

    /// Whether the task belongs to the scheduler, not to a class above it.
    pub(crate) fn is_scheduled(&self, task: TaskId) -> bool {
        self.tasks[task.index()].scheduled
    }

    /// Whether the task has a CPU.
    pub(crate) fn runs(&self, task: TaskId) -> bool {
        self.tasks[task.index()].current_on.is_some()
    }

    /// Whether the task waits for the first time since it slept.
    pub(crate) fn has_woken(&self, task: TaskId) -> bool {
        self.tasks[task.index()].woken
    }

    /// A task has this nice value from now on; its policy, if that is still what it was.
    pub(crate) fn set_nice(&mut self, task: TaskId, nice: i8) -> Option<Policy> {
        let task = &mut self.tasks[task.index()];
        (std::mem::replace(&mut task.nice, nice) != nice).then_some(task.policy)
    }

    /// All CPUs.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus.len() as u32).map(CpuId)
    }

    /// Whether a scheduler owes the task a turn: it is the scheduler's, and did not ask to run only when nobody else wants to.
    pub(crate) fn must_not_starve(&self, task: TaskId) -> bool {
        let task = &self.tasks[task.index()];
        task.scheduled && task.policy != Policy::Idle
    }

    /// Whether the task may run there.
    pub(crate) fn may_use(&self, task: TaskId, cpu: CpuId) -> bool {
        self.tasks[task.index()].allowed.contains(cpu)
    }

    /// Who waits, and since when.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (TaskId, Nanos)> + '_ {
        let waits = |(_, task): &(u32, &Task)| task.doing == Doing::Waiting && task.scheduled;
        (0..).zip(&self.tasks).filter(waits).map(|(id, task)| (TaskId(id), task.since))
    }

    /// Whether a task could run, and does not.
    pub(crate) fn waits(&self, task: TaskId) -> bool {
        self.tasks[task.index()].doing == Doing::Waiting
    }

    /// How long a task waited for its scheduler: not while higher classes had all CPUs.
    pub(crate) fn waited(&self, task: TaskId, since: Nanos, now: Nanos) -> Nanos {
        now.since(since) - (self.taken(now) - self.tasks[task.index()].taken_before)
    }

    /// For how long higher classes have had all CPUs.
    fn taken(&self, now: Nanos) -> Nanos {
        self.taken + if self.available == 0 { now.since(self.none_since) } else { Nanos::ZERO }
    }

    /// A task became runnable. Whether it waits from now on.
    pub(crate) fn wake(&mut self, now: Nanos, task: TaskId) -> bool {
        let begins = self.tasks[task.index()].doing == Doing::Blocked;
        if begins {
            self.begin_to_wait(now, task);
            self.tasks[task.index()].woken = true;
        }
        begins
    }

    fn begin_to_wait(&mut self, now: Nanos, id: TaskId) {
        let taken = self.taken(now);
        let task = &mut self.tasks[id.index()];
        (task.doing, task.since, task.taken_before) = (Doing::Waiting, now, taken);
    }

    /// A task is no longer runnable; it may still be on its CPU.
    pub(crate) fn block(&mut self, now: Nanos, task: TaskId) {
        let task = &mut self.tasks[task.index()];
        (task.doing, task.since) = (Doing::Blocked, now);
    }

    /// What is wrong with a switch on `cpu`: who was not there before, cannot run, or runs elsewhere.
    pub(crate) fn contradiction(&self, cpu: CpuId, prev: TaskId, next: TaskId) -> Option<TaskId> {
        if self.cpus[cpu.index()].task != prev {
            return Some(prev);
        }
        let wrong = |task: &Task| task.doing != Doing::Waiting || task.current_on.is_some_and(|other| other != cpu);
        (next != TaskId::NONE && next != prev && wrong(&self.tasks[next.index()])).then_some(next)
    }

    /// Since when a task was on a CPU where it may not be, and for how long it may, if it was there for longer.
    pub(crate) fn overstays(&self, task: TaskId, cpu: CpuId, now: Nanos, tick: Nanos) -> Option<(Nanos, Nanos)> {
        let since = self.tasks[task.index()].unwelcome.filter(|_| !self.may_use(task, cpu))?;
        (now.since(since) > tick).then_some((since, tick))
    }

    /// A task left its CPU. Whether it waits from now on: one that blocked does not, or has been woken since and waits already.
    pub(crate) fn leave(&mut self, now: Nanos, task: TaskId, still_runnable: bool) -> bool {
        self.tasks[task.index()].unwelcome = None;
        if !matches!(self.tasks[task.index()].doing, Doing::Running(_)) {
            return false;
        }
        match still_runnable {
            true => self.begin_to_wait(now, task),
            false => self.block(now, task),
        }
        still_runnable
    }

    /// A task runs. Since when it had waited.
    pub(crate) fn run(&mut self, now: Nanos, task: TaskId, cpu: CpuId) -> Option<Nanos> {
        let task = &mut self.tasks[task.index()];
        let waited = (task.doing == Doing::Waiting).then_some(task.since);
        (task.doing, task.since, task.woken) = (Doing::Running(cpu), now, false);
        waited
    }

    /// Who is on a CPU from now on; `pushed`: who was there is pushed off, as from a CPU that is on its way offline already.
    pub(crate) fn set_running(&mut self, now: Nanos, cpu: CpuId, task: TaskId, pushed: bool) {
        let before = self.cpus[cpu.index()].task.some();
        if let Some(task) = before.map(|task| &mut self.tasks[task.index()]) {
            task.current_on.take_if(|on| *on == cpu);
            if !task.kernel_thread && !pushed {
                self.cpus[cpu.index()].left_at = now;
            }
        }
        if let Some(task) = task.some() {
            self.tasks[task.index()].current_on = Some(cpu);
        }
        self.change(now, cpu, |cpu| cpu.task = task);
    }

    /// When a task that is no thread of the kernel left a CPU last, and was not pushed off.
    pub(crate) fn left_at(&self, cpu: CpuId) -> Nanos {
        self.cpus[cpu.index()].left_at
    }

    /// Who is on a CPU.
    pub(crate) fn running(&self, cpu: CpuId) -> TaskId {
        self.cpus[cpu.index()].task
    }

    /// Whether a CPU is there.
    pub(crate) fn is_online(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].online
    }

    /// Where a task may run.
    pub(crate) fn allowed(&self, task: TaskId) -> &CpuSet {
        &self.tasks[task.index()].allowed
    }

    /// Whether a CPU is there.
    pub(crate) fn set_online(&mut self, now: Nanos, cpu: CpuId, online: bool) {
        self.change(now, cpu, |cpu| cpu.online = online);
    }

    fn change(&mut self, now: Nanos, cpu: CpuId, how: impl Fn(&mut Cpu)) {
        let before = self.available;
        self.available -= usize::from(self.is_available(cpu));
        how(&mut self.cpus[cpu.index()]);
        self.available += usize::from(self.is_available(cpu));
        match (before, self.available) {
            (1.., 0) => self.none_since = now,
            (0, 1..) => self.taken += now.since(self.none_since),
            _ => {}
        }
    }

    fn is_available(&self, cpu: CpuId) -> bool {
        let Cpu { task, online, .. } = self.cpus[cpu.index()];
        online && (task == TaskId::NONE || self.tasks[task.index()].scheduled)
    }

    /// Where a task may run from now on.
    pub(crate) fn set_allowed(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) {
        let task = &mut self.tasks[task.index()];
        task.allowed = allowed.clone();
        task.unwelcome = match task.doing {
            Doing::Running(cpu) if !allowed.contains(cpu) => task.unwelcome.or(Some(now)),
            _ => None,
        };
    }
}
