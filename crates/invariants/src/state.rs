// SPDX-License-Identifier: GPL-2.0-only
//! State of tasks and CPUs according to the events: which tasks run, which wait and since when, which CPUs are
//! online; and events that contradict it.

use event_log::{SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};

/// Whether a task that stopped running for this reason is still runnable.
pub(crate) fn stays_runnable(reason: SwitchReason) -> bool {
    !matches!(reason, SwitchReason::Block | SwitchReason::Exit)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunState {
    /// Not runnable: new, asleep or exited.
    Blocked,
    /// Runnable and on no CPU.
    Waiting,
    /// Running on this CPU.
    Running(CpuId),
}

#[derive(Debug)]
struct Task {
    allowed: CpuSet,
    /// Whether the task belongs to the scheduler, not to a higher class.
    scheduled: bool,
    policy: Policy,
    nice: i8,
    kernel_thread: bool,
    run_state: RunState,
    since: Nanos,
    /// Whether the task has not run since its last wakeup.
    woken: bool,
    /// CPU whose current task this is; still set for a while after the task went to sleep.
    current_on: Option<CpuId>,
    /// Sum of the times in which higher classes occupied all CPUs, as it was when the task began to wait.
    taken_before: Nanos,
    /// Time at which its mask excluded the CPU on which it runs.
    disallowed_since: Option<Nanos>,
}

#[derive(Debug)]
struct Cpu {
    task: TaskId,
    online: bool,
    /// Time at which a task that is not a kthread last left the CPU.
    left_at: Nanos,
}

/// State of all tasks and CPUs.
#[derive(Debug)]
pub(crate) struct State {
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// Number of CPUs that the scheduler can use: online and without a task of a higher class.
    available: usize,
    /// Time since which no CPU is available, and total earlier time without one.
    none_since: Nanos,
    taken: Nanos,
}

impl State {
    /// Creates a state in which all CPUs are online and idle and there are no tasks.
    pub(crate) fn new(cpus: usize) -> State {
        let cpu = |_| Cpu { task: TaskId::NONE, online: true, left_at: Nanos::ZERO };
        let cpus: Vec<Cpu> = (0..cpus).map(cpu).collect();
        State { tasks: Vec::new(), available: cpus.len(), cpus, none_since: Nanos::ZERO, taken: Nanos::ZERO }
    }

    /// Registers a new task.
    pub(crate) fn announce(&mut self, now: Nanos, info: &TaskInfo) {
        assert_eq!(info.id.index(), self.tasks.len(), "tasks are announced in order of their numbers");
        self.tasks.push(Task {
            allowed: info.allowed.clone(),
            scheduled: matches!(info.policy, Policy::Other | Policy::Batch | Policy::Idle | Policy::Ext),
            policy: info.policy,
            nice: info.nice,
            kernel_thread: info.kernel_thread,
            run_state: RunState::Blocked,
            since: now,
            woken: false,
            current_on: None,
            taken_before: Nanos::ZERO,
            disallowed_since: None,
        });
    }

    /// Whether the task belongs to the scheduler, not to a higher class.
    pub(crate) fn is_scheduled(&self, task: TaskId) -> bool {
        self.tasks[task.index()].scheduled
    }

    /// Whether the task is current on a CPU.
    pub(crate) fn runs(&self, task: TaskId) -> bool {
        self.tasks[task.index()].current_on.is_some()
    }

    /// Whether the task has not run since its last wakeup.
    pub(crate) fn has_woken(&self, task: TaskId) -> bool {
        self.tasks[task.index()].woken
    }

    /// Changes the nice value of a task. Returns its policy, or `None` if the nice value is the old one and the
    /// policy may have changed instead.
    pub(crate) fn set_nice(&mut self, task: TaskId, nice: i8) -> Option<Policy> {
        let task = &mut self.tasks[task.index()];
        (std::mem::replace(&mut task.nice, nice) != nice).then_some(task.policy)
    }

    /// Iterates over all CPUs.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus.len() as u32).map(CpuId)
    }

    /// Whether the task must not starve: it belongs to the scheduler and is not SCHED_IDLE.
    pub(crate) fn must_not_starve(&self, task: TaskId) -> bool {
        let task = &self.tasks[task.index()];
        task.scheduled && task.policy != Policy::Idle
    }

    /// Whether the task may run on the CPU.
    pub(crate) fn may_use(&self, task: TaskId, cpu: CpuId) -> bool {
        self.tasks[task.index()].allowed.contains(cpu)
    }

    /// Waiting tasks of the scheduler, with the time since which they wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (TaskId, Nanos)> + '_ {
        let waits = |(_, task): &(u32, &Task)| task.run_state == RunState::Waiting && task.scheduled;
        (0..).zip(&self.tasks).filter(waits).map(|(id, task)| (TaskId(id), task.since))
    }

    /// Whether a task is runnable and does not run.
    pub(crate) fn waits(&self, task: TaskId) -> bool {
        self.tasks[task.index()].run_state == RunState::Waiting
    }

    /// Waiting time of a task, without the time in which higher classes occupied all CPUs.
    pub(crate) fn waited(&self, task: TaskId, since: Nanos, now: Nanos) -> Nanos {
        now.since(since) - (self.taken(now) - self.tasks[task.index()].taken_before)
    }

    /// Total time in which higher classes occupied all CPUs.
    fn taken(&self, now: Nanos) -> Nanos {
        self.taken + if self.available == 0 { now.since(self.none_since) } else { Nanos::ZERO }
    }

    /// Notes that a task wakes up. Returns whether it begins to wait.
    pub(crate) fn wake(&mut self, now: Nanos, task: TaskId) -> bool {
        let begins = self.tasks[task.index()].run_state == RunState::Blocked;
        if begins {
            self.begin_to_wait(now, task);
            self.tasks[task.index()].woken = true;
        }
        begins
    }

    fn begin_to_wait(&mut self, now: Nanos, id: TaskId) {
        let taken = self.taken(now);
        let task = &mut self.tasks[id.index()];
        (task.run_state, task.since, task.taken_before) = (RunState::Waiting, now, taken);
    }

    /// Notes that a task blocks; it may stay current on its CPU until the switch.
    pub(crate) fn block(&mut self, now: Nanos, task: TaskId) {
        let task = &mut self.tasks[task.index()];
        (task.run_state, task.since) = (RunState::Blocked, now);
    }

    /// Returns the task that contradicts a switch on `cpu`: the previous task if it was not current there, the next
    /// one if it is not runnable or is current elsewhere.
    pub(crate) fn contradiction(&self, cpu: CpuId, prev: TaskId, next: TaskId) -> Option<TaskId> {
        if self.cpus[cpu.index()].task != prev {
            return Some(prev);
        }
        let wrong =
            |task: &Task| task.run_state != RunState::Waiting || task.current_on.is_some_and(|other| other != cpu);
        (next != TaskId::NONE && next != prev && wrong(&self.tasks[next.index()])).then_some(next)
    }

    /// If the task was on a disallowed CPU for more than a tick, returns since when, and the limit.
    pub(crate) fn overstays(&self, task: TaskId, cpu: CpuId, now: Nanos, tick: Nanos) -> Option<(Nanos, Nanos)> {
        let since = self.tasks[task.index()].disallowed_since.filter(|_| !self.may_use(task, cpu))?;
        (now.since(since) > tick).then_some((since, tick))
    }

    /// Notes that a task left its CPU. Returns whether it begins to wait; a task that blocked does not, and a task
    /// that was woken since then waits already.
    pub(crate) fn leave(&mut self, now: Nanos, task: TaskId, still_runnable: bool) -> bool {
        self.tasks[task.index()].disallowed_since = None;
        if !matches!(self.tasks[task.index()].run_state, RunState::Running(_)) {
            return false;
        }
        match still_runnable {
            true => self.begin_to_wait(now, task),
            false => self.block(now, task),
        }
        still_runnable
    }

    /// Notes that a task starts to run. Returns the time since which it had waited.
    pub(crate) fn run(&mut self, now: Nanos, task: TaskId, cpu: CpuId) -> Option<Nanos> {
        let task = &mut self.tasks[task.index()];
        let waited = (task.run_state == RunState::Waiting).then_some(task.since);
        (task.run_state, task.since, task.woken) = (RunState::Running(cpu), now, false);
        waited
    }

    /// Sets the current task of a CPU. `pushed` means that the previous task was migrated away, as from a CPU that is
    /// going offline.
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

    /// Time at which a task that is not a kthread last left the CPU other than by being migrated away.
    pub(crate) fn left_at(&self, cpu: CpuId) -> Nanos {
        self.cpus[cpu.index()].left_at
    }

    /// Current task of a CPU.
    pub(crate) fn running(&self, cpu: CpuId) -> TaskId {
        self.cpus[cpu.index()].task
    }

    /// Whether a CPU is online.
    pub(crate) fn is_online(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].online
    }

    /// Affinity mask of a task.
    pub(crate) fn allowed(&self, task: TaskId) -> &CpuSet {
        &self.tasks[task.index()].allowed
    }

    /// Sets whether a CPU is online.
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

    /// Changes the affinity mask of a task.
    pub(crate) fn set_allowed(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) {
        let task = &mut self.tasks[task.index()];
        task.allowed = allowed.clone();
        task.disallowed_since = match task.run_state {
            RunState::Running(cpu) if !allowed.contains(cpu) => task.disallowed_since.or(Some(now)),
            _ => None,
        };
    }
}
