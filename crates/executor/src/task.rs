// SPDX-License-Identifier: GPL-2.0-only
//! A task: it asks the Executor for its next operation and carries it out.

use super::disks::DiskUser;
use super::memory::TaskMemory;
use super::named_process;
use super::prepare::describe;
use super::process::{Scope, TaskKind};
use super::shared::{Shared, TaskHandle, TaskSetup};
use super::{Calibration, ExecuteError, TaskResult, work};
use host::sys;
use ids::{CpuSet, Nanos, Policy, TaskId};
use std::hint::spin_loop;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::thread;
use workload::{CriticalSections, Demand, DiskId, Io};

/// Interval at which a working task checks for the end of the execution.
const CHUNK: Nanos = Nanos::from_us(50);

/// A task with its state.
pub struct TaskRunner<'scope, 'env, 'w> {
    shared: &'env Shared<'w>,
    scope: &'scope Scope<'scope, 'env>,
    setup: TaskSetup,
    result: TaskResult,
    /// Buffers for the tasks that an operation wakes.
    woken: Vec<TaskId>,
    woken_handles: Vec<Arc<TaskHandle>>,
    /// Rounds of work between two checks for the end.
    chunk: u64,
    /// What it accesses while it works.
    memory: TaskMemory,
    /// Its use of disks.
    disks: Option<DiskUser>,
}

/// Creates a task as a child of the calling one. If the kernel fails to create it, a forked task is counted, and a
/// task that starts by itself ends the execution.
pub fn create<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, setup: TaskSetup) {
    let (task, spec, kind, is_forked) = (setup.task, setup.spec, setup.kind, setup.is_forked);
    let actor = TaskRunner::new(shared, scope, setup);
    if let Err(source) = scope.spawn(kind, spec, move || actor.run_to_exit())
        && !(shared.unregister(task) && is_forked)
    {
        shared.fail(ExecuteError::Thread { task: describe(shared.workload, spec as usize), source });
    }
}

impl<'scope, 'env, 'w> TaskRunner<'scope, 'env, 'w> {
    fn new(
        shared: &'env Shared<'w>,
        scope: &'scope Scope<'scope, 'env>,
        setup: TaskSetup,
    ) -> TaskRunner<'scope, 'env, 'w> {
        let spec = setup.spec;
        TaskRunner {
            shared,
            scope,
            setup,
            result: TaskResult {
                spec,
                is_beside: shared.workload.is_beside(spec),
                name: shared.workload.tasks[spec as usize].name.clone(),
                policy: shared.workload.tasks[spec as usize].policy,
                group: shared.workload.group_of(spec).map(str::to_owned),
                ..TaskResult::default()
            },
            woken: Vec::new(),
            woken_handles: Vec::new(),
            chunk: shared.prepared.calibration.rounds_of(CHUNK).max(1),
            memory: TaskMemory::default(),
            disks: None,
        }
    }

    /// Body of the task.
    fn run_to_exit(self) {
        let (shared, handle, spec) = (self.shared, self.setup.handle.clone(), self.setup.spec);
        match catch_unwind(AssertUnwindSafe(|| self.execute())) {
            Ok(result) => handle.leave(result),
            Err(panic) => shared.futexes.end_by_panic(panic),
        }
        shared.note_exit(spec);
    }

    fn execute(mut self) -> TaskResult {
        sys::set_name(&self.result.name);
        self.result.tid = sys::thread_id();
        self.setup.handle.thread.store(self.result.tid, SeqCst);
        let process = self.shared.workload.tasks[self.setup.spec as usize].who.process.as_deref();
        if let Some(name) = process.filter(|_| self.setup.kind == TaskKind::Process) {
            named_process::begin(self.shared, self.scope, name, self.setup.spec);
        }
        if let Err(error) = self.begin() {
            self.shared.fail(error);
        }
        self.take_memory();
        self.disks = DiskUser::of(&self.shared.workload.tasks[self.setup.spec as usize], self.setup.task);
        let before = sys::own_status();
        if self.setup.at_gate {
            self.setup.handle.asleep_from.store(before.voluntary + 1, SeqCst);
            self.shared.pass_gate();
            self.setup.handle.asleep_from.store(0, SeqCst);
        }
        let cpu = sys::cpu_time();
        self.result.started = self.shared.now();
        self.result.finished = self.run();
        self.result.ended = self.shared.now();
        self.result.cpu = sys::cpu_time().since(cpu);
        let after = sys::own_status();
        self.disks.iter().for_each(|user| self.shared.prepared.disks.add(user));
        self.result.voluntary_switches = after.voluntary - before.voluntary;
        self.result.involuntary_switches = after.involuntary - before.involuntary;
        self.result
    }

    /// Takes the memory of the spec. A forked task makes its own: tasks that do not exist yet would hold memory.
    fn take_memory(&mut self) {
        let mut memories = self.shared.prepared.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match memories.remove(&self.setup.spec) {
            Some(memory) => Ok(memory),
            None => {
                let spec = &self.shared.workload.tasks[self.setup.spec as usize];
                TaskMemory::of(spec.memory.as_deref(), &self.result.name)
            }
        };
        match memory {
            Ok(memory) => self.memory = memory,
            Err(error) => self.shared.fail(error),
        }
    }

    /// Applies affinity, policy, nice value, group and user of the spec. A rejection by the kernel is an error before
    /// the start of the execution, and is counted afterwards, like a rejected change.
    fn begin(&mut self) -> Result<(), ExecuteError> {
        sys::exact_timers().map_err(|source| ExecuteError::System { action: "set the slack of timers", source })?;
        if self.setup.begins_session {
            sys::begin_session().map_err(|source| ExecuteError::System { action: "begin a session", source })?;
        }
        let spec = &self.shared.workload.tasks[self.setup.spec as usize];
        let (workload, task) = (&self.shared.workload.name, describe(self.shared.workload, self.setup.spec as usize));
        if let Some(cpus) = &spec.cpus
            && let Err(source) = self.set_cpus(0, cpus)
        {
            if !self.shared.has_begun() {
                return Err(ExecuteError::Affinity { workload: workload.clone(), task, cpus: cpus.clone(), source });
            }
            self.shared.state().refused_changes += 1;
        }
        let (policy, nice) = (spec.policy, spec.nice);
        if let Err(source) = sys::set_policy(0, policy, nice) {
            if !self.shared.has_begun() {
                return Err(ExecuteError::Policy { workload: workload.clone(), task, policy, nice, source });
            }
            self.shared.state().refused_changes += 1;
        }
        self.join_group_and_user(&task)
    }

    /// Joins the group and user of the spec.
    fn join_group_and_user(&self, task: &str) -> Result<(), ExecuteError> {
        let group = self.result.group.as_deref().zip(self.shared.prepared.cgroups.as_ref());
        let joined = group.map_or(Ok(()), |(path, cgroups)| cgroups.join(path).map_err(ExecuteError::from));
        let uid = self.shared.workload.tasks[self.setup.spec as usize].who.uid;
        let became = uid.map_or(Ok(()), sys::set_user).map_err(|source| {
            let (workload, task, uid) = (self.shared.workload.name.clone(), task.to_owned(), uid.unwrap_or_default());
            ExecuteError::User { workload, task, uid, source }
        });
        match joined.and(became) {
            Err(_) if self.shared.has_begun() => self.shared.state().refused_changes += 1,
            result => return result,
        }
        Ok(())
    }

    /// Executes the script; returns true if it completed.
    fn run(&mut self) -> bool {
        while !self.shared.is_over() {
            if let Some(limit) = self.shared.options.settle {
                self.look_for_waiter(limit);
            }
            let asked_at = self.shared.now();
            let step = self.shared.advance(self.setup.task, asked_at, &mut self.woken, &mut self.woken_handles);
            self.result.late_timers += u64::from(step.late);
            if let Some(period) = step.period {
                self.result.periods.get_or_insert_default().end(period.length, period.response);
            }
            self.wake_others();
            match step.demand {
                None => {}
                Some(Demand::Work { work, .. }) => self.work(work),
                Some(Demand::CpuTime(time)) => self.spend(time),
                Some(Demand::Sleep(time, _)) => self.sleep(asked_at, time),
                Some(Demand::Wait) => self.wait(),
                Some(Demand::Spin) => self.spin_until_woken(),
                Some(Demand::CriticalSections(op)) => self.critical_sections(&op),
                Some(Demand::Io(io)) => self.request(&io),
                Some(Demand::Fsync(disk)) => self.fsync(disk),
                Some(Demand::Call(_) | Demand::Unmap(_)) => unreachable!("refused before: they are simulated only"),
                Some(Demand::AwaitRequests { slept, .. }) if slept > Nanos::ZERO => self.sleep(asked_at, slept),
                // The requests were complete when the recorded task asked for them.
                Some(Demand::Submit(_) | Demand::AwaitRequests { .. }) => {}
                Some(Demand::Yield) => {
                    self.result.yields += 1;
                    thread::yield_now();
                }
                Some(Demand::Fork(spec)) => self.fork(spec),
                Some(Demand::Change { cpus, policy }) => self.change(0, cpus.as_ref(), policy),
                Some(Demand::ChangeOf { tasks, cpus, policy }) => {
                    for thread in tasks.into_iter().filter_map(|task| self.shared.thread_of(task)) {
                        self.change(thread, cpus.as_ref(), policy);
                    }
                }
                Some(Demand::Exit) => return true,
            }
        }
        false
    }

    fn calibration(&self) -> &Calibration {
        &self.shared.prepared.calibration
    }

    fn work(&mut self, work: Nanos) {
        let calibration = *self.calibration();
        let mut rounds = calibration.rounds_of(work);
        while rounds > 0 && !self.shared.is_over() {
            let chunk = rounds.min(self.chunk);
            work::spin(self.memory.access(chunk, &calibration));
            rounds -= chunk;
        }
        self.result.work_asked += work;
        self.result.work_done += work.since(self.calibration().work_of(rounds));
    }

    fn critical_sections(&mut self, op: &CriticalSections) {
        let (calibration, shared) = (*self.calibration(), self.shared);
        let work = |time: Nanos| work::spin(calibration.rounds_of(time));
        let made = shared.locks.enter(self.setup.task, op, work, || shared.is_over());
        let each = op.hold + op.between;
        self.result.work_asked += Nanos(each.0 * op.times);
        self.result.work_done += Nanos(each.0 * made);
    }

    fn spend(&mut self, time: Nanos) {
        work::spend(time, sys::cpu_time, |left| {
            work::spin(self.calibration().rounds_of(left).clamp(1, self.chunk));
            !self.shared.is_over()
        });
    }

    fn request(&mut self, io: &Io) {
        let user = self.disks.as_mut().expect("the script has requests");
        if let Err(error) = user.request(&self.shared.prepared.disks, io) {
            self.shared.fail(error);
        }
    }

    fn fsync(&mut self, disk: DiskId) {
        if let Err(error) = self.shared.prepared.disks.sync(disk) {
            self.shared.fail(error);
        }
    }

    fn sleep(&mut self, asked_at: Nanos, time: Nanos) {
        self.result.sleeps += 1;
        let until = self.shared.clock_at(Nanos(asked_at.0.saturating_add(time.0)));
        while sys::now() < until && !self.shared.is_over() {
            sys::wait(&self.setup.handle.word, 0, until.min(self.shared.end()));
        }
    }

    fn wait(&mut self) {
        self.result.waits += 1;
        if self.shared.options.settle.is_some() {
            self.setup.handle.asleep_from.store(sys::own_status().voluntary + 1, SeqCst);
        }
        while self.setup.handle.word.swap(0, SeqCst) == 0 && !self.shared.is_over() {
            sys::wait(&self.setup.handle.word, 0, self.shared.end());
        }
        self.setup.handle.asleep_from.store(0, SeqCst);
    }

    /// Spins until another task lets it continue.
    fn spin_until_woken(&mut self) {
        self.result.waits += 1;
        while self.setup.handle.word.swap(0, SeqCst) == 0 && !self.shared.is_over() {
            (0..100).for_each(|_| spin_loop());
        }
    }

    fn wake_others(&mut self) {
        let mut woken_handles = std::mem::take(&mut self.woken_handles);
        for handle in woken_handles.drain(..) {
            if let Some(limit) = self.shared.options.settle {
                self.spin_until(limit, |_| handle.is_asleep());
            }
            self.result.wakes += 1;
            handle.wake();
        }
        self.woken_handles = woken_handles;
    }

    /// Spins while the upcoming wakeup operation would find no waiter.
    fn look_for_waiter(&mut self, limit: Nanos) {
        self.spin_until(limit, |actor| !actor.shared.state().executor.has_no_waiter_yet(actor.setup.task));
    }

    fn spin_until(&mut self, limit: Nanos, done: impl Fn(&Self) -> bool) {
        let until = sys::now() + limit;
        while !done(self) && !self.shared.is_over() {
            if sys::now() >= until {
                self.result.unsettled += 1;
                return;
            }
            (0..100).for_each(|_| spin_loop());
        }
    }

    fn fork(&mut self, spec: u32) {
        self.result.forks += 1;
        if let Some(setup) = self.shared.register(spec, Some(self.setup.task)) {
            create(self.shared, self.scope, setup);
        }
    }

    /// Changes a thread, 0 for the calling one, in the order of the simulator: first affinity, then policy and nice
    /// value.
    fn change(&mut self, thread: u32, cpus: Option<&CpuSet>, policy: Option<(Policy, i8)>) {
        let mut refused = 0;
        if let Some(cpus) = cpus {
            refused += u64::from(self.set_cpus(thread, cpus).is_err());
        }
        if let Some((policy, nice)) = policy {
            refused += u64::from(sys::set_policy(thread, policy, nice).is_err());
        }
        if refused > 0 {
            self.shared.state().refused_changes += refused;
        }
    }

    fn set_cpus(&self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
        sys::set_allowed_cpus(thread, &cpus.intersection(&self.shared.prepared.cpus))
    }
}
