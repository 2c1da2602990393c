// SPDX-License-Identifier: GPL-2.0-only
//! Actions of tasks: asking the script for the next operation, waking others, sleeping, forking, exiting.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::Run;
use crate::setup::existing;
use crate::tasks::{Later, Phase, Role, State, Task};
use event_log::{BlockCause, CallbackSite, Event, EventKind, TaskInfo, Waker, modelled_pid};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{Identity, Leave, Operation, TaskAttributes};
use std::collections::VecDeque;
use workload::{Demand, Sleep};

/// Work of the watchdog's worker before it checks the tasks: waking up in its loop and dequeuing the work item. A
/// choice; any value far below a tick gives the same results.
const WORKER_NS: Nanos = Nanos(1_000);

impl<M: Model> Run<'_, M> {
    /// Lets the current task of `cpu`, which owes no time, take its next step: one kernel call, or one demand of its
    /// script.
    pub fn act(&mut self, cpu: CpuId, id: TaskId) {
        self.count_step(id);
        let task = &mut self.tasks[id.index()];
        match task.role {
            Role::Workload => {}
            Role::Watchdog => return self.work_for_kernel(cpu, id),
            Role::Hotplug => return self.work_for_hotplug(cpu, id),
            Role::Background(number) => return self.work_in_background(cpu, id, number),
        }
        if task.phase != Phase::Act {
            if self.passes(id) {
                return self.pass(cpu, id);
            }
            return self.ask(cpu, id);
        }
        let later = task.later.as_mut().expect("an acting task has a demand");
        if let Some(other) = later.wakes.pop_front() {
            return self.wake(cpu, id, other);
        }
        task.phase = Phase::Ask;
        let later = task.later.take().expect("it was there");
        self.carry_out(cpu, id, later.demand, later.asked_at);
    }

    /// Asks the script of `id` for its next demand. A demand that requires no wakeups first is carried out at once.
    fn ask(&mut self, cpu: CpuId, id: TaskId) {
        let demand = self.executor.next(id, self.kernel_now(), &mut self.woken).demand;
        self.executor.take_periods().for_each(|period| self.periods.end(period.task, period.length, period.response));
        if self.woken.is_empty() {
            return self.carry_out(cpu, id, demand, self.kernel_now());
        }
        let (wakes, asked_at) = (self.woken.drain(..).collect(), self.kernel_now());
        let task = &mut self.tasks[id.index()];
        task.phase = Phase::Act;
        task.later = Some(Box::new(Later { wakes, demand, asked_at }));
    }

    pub fn carry_out(&mut self, cpu: CpuId, id: TaskId, demand: Demand, asked_at: Nanos) {
        if self.needs_quiet(&demand) && !self.is_quiet(cpu) {
            let task = &mut self.tasks[id.index()];
            task.phase = Phase::Act;
            return task.later = Some(Box::new(Later { wakes: VecDeque::new(), demand, asked_at }));
        }
        let task = &mut self.tasks[id.index()];
        match demand {
            Demand::Work { work, system } => {
                debug_assert!(system <= work);
                self.system_work += system;
                task.begin_work(self.noise.work(id, work));
            }
            Demand::CpuTime(time) => task.phase = Phase::CpuTime(time),
            Demand::Sleep(length, why) => {
                task.slept_on = cpu;
                task.slept_for = match why {
                    Sleep::Timer => BlockCause::Timer,
                    Sleep::Io => BlockCause::Io,
                    Sleep::External => BlockCause::External,
                };
                let length = self.noise.sleep(id, length, why);
                let (cause, over) = (task.slept_for, (asked_at + length + self.suspended).max(self.now));
                let is_beside = task.is_beside;
                self.count(is_beside, |left| left.asleep += 1);
                self.alarms.set(Alarm::Sleep(id), over);
                self.schedule(cpu, Leave::Block(cause));
            }
            Demand::Wait if task.woken_early => task.woken_early = false,
            Demand::Wait => {
                self.tell_wait(cpu, id);
                self.schedule(cpu, Leave::Block(BlockCause::Task));
            }
            Demand::Spin => {
                task.phase = Phase::Spin;
                let is_beside = task.is_beside;
                self.count(is_beside, |left| left.spinning += 1);
            }
            Demand::Yield => self.schedule(cpu, Leave::Yield),
            Demand::Fork(spec) => self.start(cpu, spec, Some(id)),
            Demand::Change { cpus, policy } => self.change(cpu, id, cpus, policy),
            Demand::ChangeOf { tasks, cpus, policy } => {
                tasks.into_iter().for_each(|task| self.change(cpu, task, cpus.clone(), policy));
            }
            Demand::CriticalSections(op) => self.begin_critical_sections(cpu, id, op),
            Demand::Exit => self.schedule(cpu, Leave::Exit),
        }
    }

    /// Whether this demand is an atomic kernel operation that must not overlap operations in progress.
    fn needs_quiet(&self, demand: &Demand) -> bool {
        self.operations.wait
            && match demand {
                Demand::Change { .. } | Demand::ChangeOf { .. } => true,
                Demand::Fork(_) => self.groups.are_there() || self.model.holds_scheduler_lock(),
                _ => false,
            }
    }

    /// Cost of the kernel's own part of a wakeup of `task` on `cpu`.
    pub fn wakeup(&mut self, cpu: CpuId, task: TaskId) -> Charge {
        let scheduler = self.noise.wakeup(cpu, task, self.machine.costs.wakeup_ns);
        let locked = self.locks.as_ref().map_or(Nanos::ZERO, |locks| locks.wakeup_hold().min(scheduler));
        Charge { scheduler, locked, ..Charge::default() }
    }

    /// `id` wakes `other`. If `other` was about to block and has not done so yet, it does not block; as it is not
    /// blocked, the kernel's wakeup is not called and costs nothing.
    pub fn wake(&mut self, cpu: CpuId, id: TaskId, other: TaskId) {
        if self.tasks[other.index()].phase == Phase::Spin {
            let is_beside = self.tasks[other.index()].is_beside;
            self.count(is_beside, |left| left.spinning -= 1);
            return self.go_on_with(other, Phase::Ask);
        }
        // Sampled in any case, so that the n-th wakeup of a task takes the same time under each scheduler.
        let charge = self.wakeup(cpu, other);
        let task = &mut self.tasks[other.index()];
        if task.state() != State::Blocked && !task.blocks || task.frozen {
            task.woken_early = task.later.as_ref().is_some_and(|later| later.demand == Demand::Wait);
            return self.cpus[cpu.index()].charge(Charge::default());
        }
        if self.operations.wait {
            return self.begin(cpu, Operation::Wake(other, Waker::Task(id)), charge);
        }
        self.tell_time();
        self.model.wake(cpu, other, Waker::Task(id));
        self.apply(cpu, charge);
    }

    /// The external parent, which runs on `cpu`, starts a task of this spec. If further tasks become due before it
    /// could fork again, it continues with these, and occupies the CPU meanwhile. Its time before the first fork
    /// precedes the start time of that task.
    pub fn start_from_outside(&mut self, cpu: CpuId, spec: u32) {
        self.count(self.executor.is_beside(spec), |left| left.starts -= 1);
        let clone = Nanos(self.machine.costs.clone_ns);
        let waits = self.cpus[cpu.index()].inbox.iter().any(|interrupt| matches!(interrupt, Interrupt::Start(_)));
        let goes_on = clone > Nanos::ZERO && (waits || self.next_start().is_some_and(|next| next < self.now + clone));
        if goes_on {
            self.model.occupy(cpu);
            self.apply(cpu, Charge::default());
            self.cpus[cpu.index()].inbox.push_front(Interrupt::Theft(clone));
        }
        self.start(cpu, spec, None);
    }

    /// Starts a task of this spec and makes it runnable, on behalf of `parent` or of the external parent. The fork
    /// itself is charged to the parent.
    pub fn start(&mut self, cpu: CpuId, spec: u32, parent: Option<TaskId>) {
        let costs = &self.machine.costs;
        let own = if parent.is_some() { costs.fork_ns } else { 0 };
        let what = self.executor.spec(spec);
        let allowed = existing(what.cpus.as_ref(), &self.all_cpus);
        let next = TaskId(self.tasks.len() as u32);
        let lives = |task: TaskId| self.tasks[task.index()].state() != State::Ended;
        let process = self.groups.process(self.workload, spec, next, lives);
        let attributes = TaskAttributes {
            name: what.name.clone(),
            policy: what.policy,
            nice: what.nice,
            allowed,
            kernel_thread: false,
            own_cpu: None,
            thread: parent.is_some_and(|parent| self.executor.is_thread(spec, parent)),
            parent,
            identity: Identity { process, ..self.groups.identity(self.workload, spec, parent, next) },
        };
        self.tell_time();
        let (child, result) = self.fork(cpu, attributes);
        let is_beside = self.executor.is_beside(spec);
        let task = &mut self.tasks[child.index()];
        (task.spec, task.is_beside) = (spec, is_beside);
        self.beside.alive += usize::from(is_beside);
        self.noise.started(child, spec);
        if result.is_ok() {
            if let Some(group) = self.groups.of(self.workload, spec) {
                self.refused_changes += u64::from(self.model.move_to_cgroup(cpu, &[child], group).is_err());
            }
            if let Some(uid) = what.who.uid {
                self.model.set_user(child, uid);
            }
            let born = self.kernel_now();
            match parent {
                Some(parent) => self.executor.forked(child, spec, parent, born),
                None => self.executor.started(child, spec, born),
            }
            if self.operations.wait {
                self.apply(cpu, Charge { scheduler: Nanos(own), ..Charge::default() });
                let wakeup = self.wakeup(cpu, child);
                return self.begin(cpu, Operation::WakeNew(child), wakeup);
            }
            self.model.wake_new(cpu, child);
            let wakeup = self.wakeup(cpu, child);
            return self.apply(cpu, Charge { scheduler: wakeup.scheduler + Nanos(own), ..wakeup });
        }
        self.failed_forks += 1;
        self.apply(cpu, Charge { scheduler: Nanos(own), ..Charge::default() });
        self.tell(&Event { time: self.now, cpu, task: child, kind: EventKind::Exit, site: CallbackSite::default() });
    }

    /// Creates a task and announces it. The caller applies the output of the kernel call. A task refused by the
    /// scheduler also gets a number.
    pub fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> (TaskId, Result<(), i32>) {
        let id = TaskId(self.tasks.len() as u32);
        let info = TaskInfo {
            id,
            pid: modelled_pid(id),
            name: attributes.name.clone(),
            parent: attributes.parent,
            allowed: attributes.allowed.clone(),
            policy: attributes.policy,
            nice: attributes.nice,
            kernel_thread: attributes.kernel_thread,
        };
        let result = self.model.fork(cpu, attributes).map(|id| {
            assert_eq!(id, info.id, "tasks are numbered in the order of their creation");
        });
        self.left.alive += usize::from(!info.kernel_thread);
        self.tasks.push(Task::new(self.now));
        self.sinks.task(self.now, &info);
        (info.id, result)
    }

    /// Changes the affinity or the policy of `id`; the call is made on `cpu`.
    fn change(&mut self, cpu: CpuId, id: TaskId, cpus: Option<CpuSet>, policy: Option<(Policy, i8)>) {
        self.tell_time();
        let mut refused = 0;
        if let Some(cpus) = cpus {
            let allowed = existing(Some(&cpus), &self.all_cpus);
            match self.model.set_affinity(cpu, id, &allowed) {
                Ok(()) => {
                    self.sinks.affinity(self.now, id, &allowed);
                    self.affinity_told = true;
                }
                Err(_) => refused += 1,
            }
        }
        if let Some((policy, nice)) = policy {
            refused += u64::from(self.model.set_policy(cpu, id, policy, nice).is_err());
        }
        self.refused_changes += refused;
        self.apply(cpu, Charge::default());
        self.affinity_told = false;
    }

    /// The watchdog's worker runs briefly, performs its work item and goes to sleep again.
    fn work_for_kernel(&mut self, cpu: CpuId, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        if !std::mem::replace(&mut task.took_job, true) {
            return task.begin_work(WORKER_NS);
        }
        task.took_job = false;
        self.tell_time();
        self.model.watchdog_work(cpu);
        self.apply(cpu, Charge::default());
        if self.end.is_none() {
            self.schedule(cpu, Leave::Block(BlockCause::External));
        }
    }
}
