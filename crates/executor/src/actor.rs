// SPDX-License-Identifier: GPL-2.0-only
//! One task: it asks the Executor and does what it answers.

use super::company;
use super::prepare::describe;
use super::process::{Kinship, Scope};
use super::shared::{Role, Seat, Shared};
use super::{Calibration, PlayError, TaskPlayed, work};
use host::sys;
use ids::{CpuSet, Nanos, Policy, TaskId};
use std::hint::spin_loop;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use workload::{CriticalSections, Demand};

/// A task that works looks so often whether the play is over.
const CHUNK: Nanos = Nanos::from_us(50);

/// A task and all that it needs.
pub struct Actor<'scope, 'env, 'w> {
    shared: &'env Shared<'w>,
    scope: &'scope Scope<'scope, 'env>,
    role: Role,
    played: TaskPlayed,
    /// Memory for whom an operation wakes.
    woken: Vec<TaskId>,
    rung: Vec<Arc<Seat>>,
    /// Rounds of work between two looks at the clock.
    chunk: u64,
}

/// Creates the task of a role, by the calling one. That the kernel refuses is counted if it is forked, and ends the play if
/// it starts by itself.
pub fn admit<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, role: Role) {
    let (task, spec, kinship, is_forked) = (role.task, role.spec, role.kinship, role.is_forked);
    let actor = Actor::new(shared, scope, role);
    if let Err(source) = scope.spawn(kinship, spec, move || actor.live())
        && !(shared.dismiss(task) && is_forked)
    {
        shared.fail(PlayError::Thread { task: describe(shared.workload, spec as usize), source });
    }
}

impl<'scope, 'env, 'w> Actor<'scope, 'env, 'w> {
    fn new(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, role: Role) -> Actor<'scope, 'env, 'w> {
        let spec = role.spec;
        Actor {
            shared,
            scope,
            role,
            played: TaskPlayed {
                spec,
                is_beside: shared.workload.is_beside(spec),
                name: shared.workload.tasks[spec as usize].name.clone(),
                group: shared.workload.group_of(spec).map(str::to_owned),
                ..TaskPlayed::default()
            },
            woken: Vec::new(),
            rung: Vec::new(),
            chunk: shared.prepared.calibration.rounds_of(CHUNK).max(1),
        }
    }

    /// Its whole life.
    fn live(self) {
        let (shared, seat, spec) = (self.shared, self.role.seat.clone(), self.role.spec);
        match catch_unwind(AssertUnwindSafe(|| self.perform())) {
            Ok(played) => seat.leave(played),
            Err(panic) => shared.bells.end_by_panic(panic),
        }
        shared.depart(spec);
    }

    fn perform(mut self) -> TaskPlayed {
        sys::set_name(&self.played.name);
        self.played.tid = sys::thread_id();
        self.role.seat.thread.store(self.played.tid, SeqCst);
        let process = self.shared.workload.tasks[self.role.spec as usize].who.process.as_deref();
        if let Some(name) = process.filter(|_| self.role.kinship == Kinship::Process) {
            company::begin(self.shared, self.scope, name, self.role.spec);
        }
        if let Err(error) = self.begin() {
            self.shared.fail(error);
        }
        let before = sys::own_status();
        if self.role.at_gate {
            self.role.seat.asleep_from.store(before.voluntary + 1, SeqCst);
            self.shared.pass_gate();
            self.role.seat.asleep_from.store(0, SeqCst);
        }
        let cpu = sys::cpu_time();
        self.played.started = self.shared.now();
        self.played.finished = self.run();
        self.played.ended = self.shared.now();
        self.played.cpu = sys::cpu_time().since(cpu);
        let after = sys::own_status();
        self.played.voluntary_switches = after.voluntary - before.voluntary;
        self.played.involuntary_switches = after.involuntary - before.involuntary;
        self.played
    }

    /// Takes the affinity, policy, nice value, group and user of its spec. What the kernel refuses is an error before the play
    /// has begun, and counted afterwards, as a change would be.
    fn begin(&mut self) -> Result<(), PlayError> {
        sys::exact_timers().map_err(|source| PlayError::System { action: "set the slack of timers", source })?;
        if self.role.begins_session {
            sys::begin_session().map_err(|source| PlayError::System { action: "begin a session", source })?;
        }
        let spec = &self.shared.workload.tasks[self.role.spec as usize];
        let (workload, task) = (&self.shared.workload.name, describe(self.shared.workload, self.role.spec as usize));
        if let Some(cpus) = &spec.cpus
            && let Err(source) = self.set_cpus(0, cpus)
        {
            if !self.shared.has_begun() {
                return Err(PlayError::Affinity { workload: workload.clone(), task, cpus: cpus.clone(), source });
            }
            self.shared.state().refused_changes += 1;
        }
        let (policy, nice) = (spec.policy, spec.nice);
        if let Err(source) = sys::set_policy(0, policy, nice) {
            if !self.shared.has_begun() {
                return Err(PlayError::Policy { workload: workload.clone(), task, policy, nice, source });
            }
            self.shared.state().refused_changes += 1;
        }
        self.belong(&task)
    }

    /// Becomes whose its spec says it is.
    fn belong(&self, task: &str) -> Result<(), PlayError> {
        let group = self.played.group.as_deref().zip(self.shared.prepared.cgroups.as_ref());
        let joined = group.map_or(Ok(()), |(path, cgroups)| cgroups.join(path).map_err(PlayError::from));
        let uid = self.shared.workload.tasks[self.role.spec as usize].who.uid;
        let became = uid.map_or(Ok(()), sys::set_user).map_err(|source| {
            let (workload, task, uid) = (self.shared.workload.name.clone(), task.to_owned(), uid.unwrap_or_default());
            PlayError::User { workload, task, uid, source }
        });
        match joined.and(became) {
            Err(_) if self.shared.has_begun() => self.shared.state().refused_changes += 1,
            result => return result,
        }
        Ok(())
    }

    /// Plays the script; true if it came to its end.
    fn run(&mut self) -> bool {
        while !self.shared.is_over() {
            if let Some(limit) = self.shared.options.settle {
                self.look_for_waiter(limit);
            }
            let asked_at = self.shared.now();
            let step = self.shared.advance(self.role.task, asked_at, &mut self.woken, &mut self.rung);
            self.played.late_timers += u64::from(step.late);
            if let Some(period) = step.period {
                self.played.periods.get_or_insert_default().end(period.length, period.response);
            }
            self.wake_others();
            match step.demand {
                None => {}
                Some(Demand::Work { work, .. }) => self.work(work),
                Some(Demand::CpuTime(time)) => self.spend(time),
                Some(Demand::Sleep(time, _)) => self.sleep(asked_at, time),
                Some(Demand::Wait) => self.wait(),
                Some(Demand::Spin) => self.look_all_the_time(),
                Some(Demand::CriticalSections(op)) => self.pass(&op),
                Some(Demand::Yield) => {
                    self.played.yields += 1;
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
        let mut rounds = self.calibration().rounds_of(work);
        while rounds > 0 && !self.shared.is_over() {
            let chunk = rounds.min(self.chunk);
            work::spin(chunk);
            rounds -= chunk;
        }
        self.played.work_asked += work;
        self.played.work_done += work.since(self.calibration().work_of(rounds));
    }

    fn pass(&mut self, op: &CriticalSections) {
        let (calibration, shared) = (*self.calibration(), self.shared);
        let work = |time: Nanos| work::spin(calibration.rounds_of(time));
        let made = shared.locks.pass(self.role.task, op, work, || shared.is_over());
        let each = op.hold + op.between;
        self.played.work_asked += Nanos(each.0 * op.times);
        self.played.work_done += Nanos(each.0 * made);
    }

    fn spend(&mut self, time: Nanos) {
        work::spend(time, sys::cpu_time, |left| {
            work::spin(self.calibration().rounds_of(left).clamp(1, self.chunk));
            !self.shared.is_over()
        });
    }

    fn sleep(&mut self, asked_at: Nanos, time: Nanos) {
        self.played.sleeps += 1;
        let until = self.shared.clock_at(Nanos(asked_at.0.saturating_add(time.0)));
        while sys::now() < until && !self.shared.is_over() {
            sys::wait(&self.role.seat.word, 0, until.min(self.shared.end()));
        }
    }

    fn wait(&mut self) {
        self.played.waits += 1;
        if self.shared.options.settle.is_some() {
            self.role.seat.asleep_from.store(sys::own_status().voluntary + 1, SeqCst);
        }
        while self.role.seat.word.swap(0, SeqCst) == 0 && !self.shared.is_over() {
            sys::wait(&self.role.seat.word, 0, self.shared.end());
        }
        self.role.seat.asleep_from.store(0, SeqCst);
    }

    /// Until another task tells it to go on.
    fn look_all_the_time(&mut self) {
        self.played.waits += 1;
        while self.role.seat.word.swap(0, SeqCst) == 0 && !self.shared.is_over() {
            (0..100).for_each(|_| spin_loop());
        }
    }

    fn wake_others(&mut self) {
        let mut rung = std::mem::take(&mut self.rung);
        for seat in rung.drain(..) {
            if let Some(limit) = self.shared.options.settle {
                self.spin_until(limit, |_| seat.is_asleep());
            }
            self.played.wakes += 1;
            seat.ring();
        }
        self.rung = rung;
    }

    /// Spins while the upcoming operation would wake nobody although it is there for that.
    fn look_for_waiter(&mut self, limit: Nanos) {
        self.spin_until(limit, |actor| !actor.shared.state().player.has_no_waiter_yet(actor.role.task));
    }

    fn spin_until(&mut self, limit: Nanos, done: impl Fn(&Self) -> bool) {
        let until = sys::now() + limit;
        while !done(self) && !self.shared.is_over() {
            if sys::now() >= until {
                self.played.unsettled += 1;
                return;
            }
            (0..100).for_each(|_| spin_loop());
        }
    }

    fn fork(&mut self, spec: u32) {
        self.played.forks += 1;
        if let Some(role) = self.shared.enroll(spec, Some(self.role.task)) {
            admit(self.shared, self.scope, role);
        }
    }

    /// Changes a thread, 0 for this one. In the order of the simulator: first the CPUs, then policy and nice value.
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
