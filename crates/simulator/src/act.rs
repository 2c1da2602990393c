// SPDX-License-Identifier: GPL-2.0-only
//! Actions of tasks: asking the script for the next operation, waking others, sleeping, forking, exiting.

use crate::alarms::Alarm;
use crate::clock::End;
use crate::cpu::Charge;
use crate::interrupt::Interrupt;
use crate::model::{Change, Model};
use crate::run::Run;
use crate::setup::existing;
use crate::tasks::{Later, Phase, Role, State};
use event_log::{BlockCause, CallbackSite, Event, EventKind, TaskInfo, Waker, modelled_pid};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{Leave, Operation, TaskAttributes};
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
        let task = &mut self.tasks[id];
        match task.role {
            Role::Workload => {}
            Role::Watchdog => return self.run_watchdog_worker(cpu, id),
            Role::Hotplug => return self.work_for_hotplug(cpu, id),
            Role::Softirq => return self.run_softirq_thread(cpu, id),
            Role::Flusher(disk) => return self.run_flusher(cpu, id, disk as usize),
            Role::Background(number) => return self.run_background_thread(cpu, id, number),
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
        let later = task.later.take().expect("a demand is pending");
        self.carry_out(cpu, id, later.demand, later.asked_at);
    }

    /// Asks the script of `id` for its next demand. A demand that requires no wakeups first is carried out at once.
    fn ask(&mut self, cpu: CpuId, id: TaskId) {
        if self.cache.is_some() && self.take_cache_step(cpu, id) {
            return;
        }
        let asked_at = self.clock.kernel_now();
        let (demand, must_wake) = self.demands.next(id, asked_at);
        if !must_wake {
            return self.carry_out(cpu, id, demand, asked_at);
        }
        let wakes = self.demands.take_woken();
        let task = &mut self.tasks[id];
        task.phase = Phase::Act;
        task.later = Some(Box::new(Later { wakes, demand, asked_at }));
    }

    pub fn carry_out(&mut self, cpu: CpuId, id: TaskId, demand: Demand, asked_at: Nanos) {
        let inherits = self.demands.has_changed_inheritance();
        if (self.needs_quiet(&demand) || inherits && self.operations.wait()) && !self.is_quiet(cpu) {
            let task = &mut self.tasks[id];
            task.phase = Phase::Act;
            return task.later = Some(Box::new(Later { wakes: VecDeque::new(), demand, asked_at }));
        }
        if inherits {
            for (task, policy) in self.demands.take_inherited() {
                self.change(cpu, task, None, Some(policy));
            }
        }
        let task = &mut self.tasks[id];
        match demand {
            Demand::Work { work, system } => {
                debug_assert!(system <= work);
                self.demands.count_system_work(system);
                task.begin_work(self.noise.work(id, work));
            }
            Demand::CpuTime(time) => task.phase = Phase::CpuTime(time),
            Demand::Sleep(length, why) => self.sleep(cpu, id, (length, why), asked_at),
            Demand::Io(io) => self.begin_io(cpu, id, io),
            Demand::Unmap(_) => self.unmap(cpu, id),
            Demand::Fsync(disk) => self.begin_fsync(id, disk),
            Demand::Call(call) => self.begin_call(cpu, id, &call),
            Demand::Submit(submission) => self.submit(cpu, id, &submission),
            Demand::AwaitRequests { device, most, slept } => {
                if !self.await_requests(cpu, id, device, most) && slept > Nanos::ZERO {
                    self.sleep(cpu, id, (slept, Sleep::Io), asked_at);
                }
            }
            Demand::Wait if task.woken_before_block => task.woken_before_block = false,
            Demand::Wait => {
                self.report_wait(cpu, id);
                self.schedule(cpu, Leave::Block(BlockCause::Task));
            }
            Demand::Spin => {
                task.phase = Phase::Spin;
                self.tasks.count_task(id, |left| left.spinning += 1);
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

    /// `id`, which is current on `cpu`, sleeps for a time from `asked_at` on.
    fn sleep(&mut self, cpu: CpuId, id: TaskId, (length, why): (Nanos, Sleep), asked_at: Nanos) {
        let task = &mut self.tasks[id];
        task.slept_on = cpu;
        task.slept_for = match why {
            Sleep::Timer => BlockCause::Timer,
            Sleep::Io => BlockCause::Io,
            Sleep::External => BlockCause::External,
        };
        let length = self.noise.sleep(id, length, why);
        let (cause, over) = (task.slept_for, (asked_at + length + self.clock.suspended()).max(self.clock.now()));
        self.tasks.count_task(id, |left| left.asleep += 1);
        self.alarms.set(Alarm::Sleep(id), over);
        self.schedule(cpu, Leave::Block(cause));
    }

    /// Whether this demand is an atomic kernel operation that must not overlap operations in progress.
    fn needs_quiet(&self, demand: &Demand) -> bool {
        self.operations.wait()
            && match demand {
                Demand::Change { .. } | Demand::ChangeOf { .. } => true,
                Demand::Fork(_) => self.demands.has_groups() || self.kernel.model.holds_scheduler_lock(),
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
        if self.tasks[other].phase == Phase::Spin {
            self.tasks.count_task(other, |left| left.spinning -= 1);
            return self.continue_with(other, Phase::Ask);
        }
        // Sampled in any case, so that the n-th wakeup of a task takes the same time under each scheduler.
        let charge = self.wakeup(cpu, other);
        let task = &mut self.tasks[other];
        if task.state() != State::Blocked && !task.blocks || task.frozen {
            task.woken_before_block = task.later.as_ref().is_some_and(|later| later.demand == Demand::Wait);
            return self.cpus[cpu].charge(Charge::default());
        }
        self.operate(cpu, Operation::Wake(other, Waker::Task(id)), charge);
    }

    /// The external parent, which runs on `cpu`, starts a task of this spec. If further tasks become due before it
    /// could fork again, it continues with these, and occupies the CPU meanwhile. Its time before the first fork
    /// precedes the start time of that task.
    pub fn start_by_external_parent(&mut self, cpu: CpuId, spec: u32) {
        self.tasks.count(self.demands.is_beside(spec), |left| left.starts -= 1);
        let clone = Nanos(self.machine.costs.clone_ns);
        let waits = self.cpus[cpu].inbox.iter().any(|interrupt| matches!(interrupt, Interrupt::Start(_)));
        let goes_on = clone > Nanos::ZERO
            && (waits || self.demands.next_start().is_some_and(|next| next < self.clock.now() + clone));
        if goes_on {
            self.kernel.model.occupy(cpu);
            self.apply(cpu, Charge::default());
            self.cpus[cpu].inbox.push_front(Interrupt::Theft(clone));
        }
        self.start(cpu, spec, None);
    }

    /// Starts a task of this spec and makes it runnable, on behalf of `parent` or of the external parent. The fork
    /// itself is charged to the parent.
    pub fn start(&mut self, cpu: CpuId, spec: u32, parent: Option<TaskId>) {
        let costs = &self.machine.costs;
        let own = if parent.is_some() { costs.fork_ns } else { 0 };
        let next = self.tasks.next();
        let lives = |task: TaskId| self.tasks[task].state() != State::Ended;
        let attributes = self.demands.attributes(spec, parent, next, &self.machine.all_cpus(), lives);
        let shares = attributes.identity.process.or(parent.filter(|_| attributes.thread));
        self.tell_time();
        if let Err(refusal) = self.kernel.model.admits(&attributes) {
            self.refused = Some((attributes.name, refusal));
            return self.clock.end_with(End::Refused);
        }
        let (child, result) = self.fork(cpu, attributes);
        self.tasks.set_spec(child, spec, self.demands.is_beside(spec));
        if let Some(memory) = &mut self.memory {
            memory.add_task(child, spec);
        }
        if let Some(shootdowns) = &mut self.shootdowns {
            shootdowns.add_task(child, shares);
        }
        self.noise.started(child, spec);
        if result.is_ok() {
            if let Some(group) = self.demands.group_of(spec) {
                let moved = self.kernel.model.change(cpu, child, Change::Cgroup(group));
                self.kernel.count_if_refused(moved);
            }
            if let Some(uid) = self.demands.spec(spec).who.uid {
                let set = self.kernel.model.change(cpu, child, Change::User(uid));
                self.kernel.count_if_refused(set);
            }
            self.demands.begin(child, spec, parent, self.clock.kernel_now());
            if self.operations.wait() {
                self.apply(cpu, Charge { scheduler: Nanos(own), ..Charge::default() });
                let wakeup = self.wakeup(cpu, child);
                return self.begin(cpu, Operation::WakeNew(child), wakeup);
            }
            self.kernel.model.execute(cpu, Operation::WakeNew(child));
            let wakeup = self.wakeup(cpu, child);
            return self.apply(cpu, Charge { scheduler: wakeup.scheduler + Nanos(own), ..wakeup });
        }
        self.kernel.count_failed_fork();
        self.apply(cpu, Charge { scheduler: Nanos(own), ..Charge::default() });
        self.tell(&Event {
            time: self.clock.now(),
            cpu,
            task: child,
            kind: EventKind::Exit,
            site: CallbackSite::default(),
        });
    }

    /// Creates a task and announces it. The caller applies the output of the kernel call. A task refused by the
    /// scheduler also gets a number.
    pub fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> (TaskId, Result<(), i32>) {
        let id = self.tasks.next();
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
        let result = self.kernel.model.fork(cpu, attributes).map(|id| {
            assert_eq!(id, info.id, "tasks are numbered in the order of their creation");
        });
        self.tasks.add(self.clock.now(), info.kernel_thread);
        self.sinks.task(self.clock.now(), &info);
        (info.id, result)
    }

    /// Changes the affinity or the policy of `id`; the call is made on `cpu`.
    fn change(&mut self, cpu: CpuId, id: TaskId, cpus: Option<CpuSet>, policy: Option<(Policy, i8)>) {
        self.tell_time();
        if let Some(cpus) = cpus {
            let allowed = existing(Some(&cpus), &self.machine.all_cpus());
            let result = self.kernel.model.change(cpu, id, Change::Affinity(&allowed));
            if result.is_ok() {
                self.sinks.affinity(self.clock.now(), id, &allowed);
                self.kernel.affinity_reported = true;
            }
            self.kernel.count_if_refused(result);
        }
        if let Some((policy, nice)) = policy {
            let result = self.kernel.model.change(cpu, id, Change::Policy(policy, nice));
            self.kernel.count_if_refused(result);
        }
        self.apply(cpu, Charge::default());
        self.kernel.affinity_reported = false;
    }

    /// The watchdog's worker runs briefly, performs its work item and goes to sleep again.
    fn run_watchdog_worker(&mut self, cpu: CpuId, id: TaskId) {
        let task = &mut self.tasks[id];
        if !std::mem::replace(&mut task.took_work, true) {
            return task.begin_work(WORKER_NS);
        }
        task.took_work = false;
        self.tell_time();
        self.kernel.model.watchdog_work(cpu);
        self.apply(cpu, Charge::default());
        if !self.clock.is_over() {
            self.schedule(cpu, Leave::Block(BlockCause::External));
        }
    }
}
