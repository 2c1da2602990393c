// SPDX-License-Identifier: GPL-2.0-only
//! Execution of critical sections under locks of the workload: a task works, asks for the lock, waits, holds it,
//! works, releases it.
//!
//! All decisions are made at events: a release determines immediately the next holder and the time at which it gets
//! the lock. The next holder pays the handoff ([`Phase::Line`]) once it runs, so a preempted task gets its lock late,
//! and the waiters after it wait for that too.

use crate::alarms::Alarm;
use crate::model::Model;
use crate::run::Run;
use crate::shared_locks::{SharedLocks, Stage, Waiter};
use crate::tasks::{Phase, State};
use event_log::BlockCause;
use ids::{CpuId, Nanos, TaskId};
use kernel_model::Leave;
use workload::{CriticalSections, Demand, LockKind, Sleep};

/// Grace period of an RCU writer in ticks, as a fraction: until every CPU has passed through the scheduler or a tick,
/// noticed at the tick after it. 2 to 3 ticks in kernels.
const GRACE_TICKS: (u64, u64) = (5, 2);

impl<M: Model> Run<'_, M> {
    /// `id`, the current task of `cpu`, begins its critical sections under a lock.
    pub fn begin_critical_sections(&mut self, cpu: CpuId, id: TaskId, op: CriticalSections) {
        let name = &self.demands.spec(self.tasks[id].spec).name;
        self.shared().begin(id, name, op);
        self.pass(cpu, id);
    }

    /// Whether the task `id` is executing critical sections.
    pub fn passes(&mut self, id: TaskId) -> bool {
        self.shared_locks.as_mut().is_some_and(|locks| locks.passing(id).is_some())
    }

    fn shared(&mut self) -> &mut SharedLocks {
        self.shared_locks.as_mut().expect("the workload has locks")
    }

    /// `id`, which is current on `cpu` and needs no time now, takes its next steps, up to one that takes time.
    pub fn pass(&mut self, cpu: CpuId, id: TaskId) {
        loop {
            let now = self.clock.now();
            let locks = self.shared_locks.as_mut().expect("the workload has locks");
            let passing = locks.passing(id).expect("the task is in a critical section");
            match passing.stage {
                Stage::Begin => {
                    (passing.stage, passing.contended) = (Stage::Arrive, false);
                    let between = passing.length(passing.op.between);
                    let own = locks.choose(id);
                    return self.tasks[id].begin_work(between + own);
                }
                Stage::Arrive => {
                    passing.asked = now;
                    self.arrive(cpu, id);
                }
                Stage::Call => self.call(cpu, id),
                // A mutex: the task was woken, or the kernel did not let it sleep; it tries again.
                Stage::Wait | Stage::Refused => self.arrive(cpu, id),
                Stage::Enter => {
                    passing.stage = Stage::Leave;
                    let hold = passing.length(passing.op.hold);
                    if hold > Nanos::ZERO {
                        return self.tasks[id].begin_work(hold);
                    }
                }
                Stage::Leave => {
                    passing.stage = Stage::Done;
                    self.leave(cpu, id);
                }
                Stage::Done => {
                    passing.left -= 1;
                    if passing.left == 0 {
                        return locks.end(id);
                    }
                    passing.stage = Stage::Begin;
                }
            }
            let task = &self.tasks[id];
            if task.phase != Phase::Ask || task.state() != State::Running || self.cpus[cpu].operation.is_some() {
                return;
            }
        }
    }

    /// The task `id` requests its lock.
    fn arrive(&mut self, cpu: CpuId, id: TaskId) {
        let locks = self.shared_locks.as_mut().expect("the workload has locks");
        let passing = locks.passing(id).expect("the task is in a critical section");
        let (number, reads, seen) = (passing.word, passing.op.reads, passing.seen);
        let lock = passing.op.lock;
        let kind = locks.kind(lock);
        let word = &locks.words[number];
        let waits_for_writer = word.writer.is_some();
        match kind {
            LockKind::Atomic => self.enter_lock(cpu, id, true),
            LockKind::Rcu if reads => self.enter_lock(cpu, id, false),
            LockKind::Sequence if reads && !waits_for_writer => {
                let version = word.version;
                let way = if seen == version { Nanos::ZERO } else { locks.read(number, cpu) };
                locks.passing(id).expect("the task is in a critical section").seen = version;
                self.enter_lock_after(id, way);
            }
            LockKind::ReadWrite if reads && !waits_for_writer && word.waiting.is_empty() => {
                locks.words[number].readers += 1;
                self.enter_lock(cpu, id, true);
            }
            _ if !reads && !waits_for_writer && word.readers == 0 && self.may_take(number, kind) => {
                self.take_word(cpu, id, number);
            }
            LockKind::Mutex => {
                let locks = self.shared();
                locks.words[number].contended = true;
                let passing = locks.passing(id).expect("the task is in a critical section");
                (passing.stage, passing.contended) = (Stage::Call, true);
                self.spend(id, self.half_futex_call());
            }
            _ => {
                self.queue(id, number, reads);
                self.report_lock_wait(cpu, id, true);
                self.tasks[id].phase = Phase::Spin;
            }
        }
    }

    /// `id`, in the middle of its futex call, sleeps if the mutex is still held by a task that will wake it.
    fn call(&mut self, cpu: CpuId, id: TaskId) {
        let half = self.half_futex_call();
        let locks = self.shared_locks.as_mut().expect("the workload has locks");
        let passing = locks.passing(id).expect("the task is in a critical section");
        let number = passing.word;
        let word = &locks.words[number];
        if word.writer.is_some() && word.contended {
            self.queue(id, number, false);
            self.report_lock_wait(cpu, id, false);
            self.schedule(cpu, Leave::Block(BlockCause::Task));
        } else {
            locks.passing(id).expect("the task is in a critical section").stage = Stage::Refused;
            self.spend(id, half);
        }
    }

    /// The kernel checks the mutex word in the middle of a futex call.
    fn half_futex_call(&self) -> Nanos {
        Nanos(self.shared_locks.as_ref().expect("the workload has locks").futex().0 / 2)
    }

    /// `id` occupies its CPU for this time without doing work.
    fn spend(&mut self, id: TaskId, time: Nanos) {
        self.tasks[id].phase = if time == Nanos::ZERO { Phase::Ask } else { Phase::Line(time) };
    }

    /// Whether a free lock may be taken by any task that asks: waiters of a fair lock come first.
    fn may_take(&self, number: usize, kind: LockKind) -> bool {
        let locks = self.shared_locks.as_ref().expect("the workload has locks");
        matches!(kind, LockKind::Mutex | LockKind::TestAndSet | LockKind::Sequence | LockKind::Rcu)
            || locks.words[number].waiting.is_empty()
    }

    fn queue(&mut self, id: TaskId, number: usize, reads: bool) {
        let locks = self.shared();
        locks.words[number].waiting.push_back(Waiter { task: id, reads });
        locks.passing(id).expect("the task is in a critical section").stage = Stage::Wait;
    }

    /// The task `id` acquires a free lock.
    fn take_word(&mut self, cpu: CpuId, id: TaskId, number: usize) {
        let locks = self.shared();
        let contended = locks.passing(id).expect("the task is in a critical section").contended;
        let word = &mut locks.words[number];
        (word.writer, word.contended) = (Some(id), contended);
        self.enter_lock(cpu, id, true);
    }

    /// `id` enters the critical section, once the cache line of the lock is transferred if it writes to it.
    fn enter_lock(&mut self, cpu: CpuId, id: TaskId, writes: bool) {
        let now = self.clock.now();
        let locks = self.shared_locks.as_mut().expect("the workload has locks");
        let passing = locks.passing(id).expect("the task is in a critical section");
        let (number, lock) = (passing.word, passing.op.lock);
        let before = locks.last(number);
        let way = if writes { locks.fetch(number, cpu, now) } else { Nanos::ZERO };
        let way = way + locks.data(lock, before, cpu, None);
        self.enter_lock_after(id, way);
    }

    fn enter_lock_after(&mut self, id: TaskId, way: Nanos) {
        let now = self.clock.now();
        let locks = self.shared_locks.as_mut().expect("the workload has locks");
        let passing = locks.passing(id).expect("the task is in a critical section");
        (passing.stage, passing.entered) = (Stage::Enter, now + way);
        let (row, waited) = (passing.row, now - passing.asked);
        locks.record_acquisition(row, waited);
        self.spend(id, way);
    }

    /// The task `id` releases its lock.
    fn leave(&mut self, cpu: CpuId, id: TaskId) {
        let now = self.clock.now();
        let locks = self.shared_locks.as_mut().expect("the workload has locks");
        let passing = locks.passing(id).expect("the task is in a critical section");
        let (number, op, seen, row) = (passing.word, passing.op, passing.seen, passing.row);
        let held = now.since(passing.entered);
        let kind = locks.kind(op.lock);
        locks.record_hold(row, held);
        match kind {
            LockKind::Atomic => {}
            LockKind::Rcu if op.reads => {}
            LockKind::Sequence if op.reads => {
                let word = &locks.words[number];
                if word.version != seen || word.writer.is_some() {
                    // A writer intervened: the read is repeated, and the wait counts from the first attempt.
                    locks.rows[row].retries += 1;
                    locks.passing(id).expect("the task is in a critical section").stage = Stage::Wait;
                }
            }
            LockKind::ReadWrite if op.reads => {
                let way = locks.fetch(number, cpu, now);
                locks.words[number].readers -= 1;
                if locks.words[number].readers == 0 {
                    self.pass_on(cpu, number, kind, op);
                }
                if way > Nanos::ZERO {
                    self.tasks[id].phase = Phase::Line(way);
                }
            }
            _ => self.give_back(cpu, id, number, kind, op),
        }
    }

    /// Releases a lock that is held exclusively.
    fn give_back(&mut self, cpu: CpuId, id: TaskId, number: usize, kind: LockKind, op: CriticalSections) {
        let word = &mut self.shared().words[number];
        (word.writer, word.version) = (None, word.version + 1);
        match kind {
            LockKind::Mutex => {
                let locks = self.shared();
                let (futex, word) = (locks.futex(), &mut locks.words[number]);
                if std::mem::take(&mut word.contended) {
                    match word.waiting.pop_front() {
                        Some(waiter) => self.wake(cpu, id, waiter.task),
                        None => self.spend(id, futex),
                    }
                }
            }
            _ => self.pass_on(cpu, number, kind, op),
        }
        if kind == LockKind::Rcu {
            let grace = Nanos(self.ticks.period().0 * GRACE_TICKS.0 / GRACE_TICKS.1);
            self.carry_out(cpu, id, Demand::Sleep(grace, Sleep::Timer), self.clock.kernel_now());
        }
    }

    /// Grants a free spin lock to its waiters.
    fn pass_on(&mut self, cpu: CpuId, number: usize, kind: LockKind, op: CriticalSections) {
        while let Some(place) = self.next_waiter(cpu, number, kind) {
            let polling = self.polling(number);
            let locks = self.shared_locks.as_mut().expect("the workload has locks");
            let waiter = locks.words[number].waiting.remove(place).expect("a waiter");
            // Readers of a sequence lock do not wait in line: they check the version themselves.
            let enters = kind != LockKind::Sequence || !waiter.reads;
            if enters {
                self.grant(waiter, number, kind, op, polling);
            } else {
                self.resume(waiter.task, Phase::Ask);
            }
            if enters && !waiter.reads {
                return;
            }
        }
    }

    /// Number of CPUs that poll the lock.
    fn polling(&self, number: usize) -> u64 {
        let locks = self.shared_locks.as_ref().expect("the workload has locks");
        let runs = |waiter: &&Waiter| self.tasks[waiter.task].state() == State::Running;
        locks.words[number].waiting.iter().filter(runs).count() as u64
    }

    /// Index of the next holder among the waiters.
    fn next_waiter(&self, cpu: CpuId, number: usize, kind: LockKind) -> Option<usize> {
        let locks = self.shared_locks.as_ref().expect("the workload has locks");
        let word = &locks.words[number];
        if word.writer.is_some() {
            return None;
        }
        match kind {
            LockKind::TestAndSet | LockKind::Sequence | LockKind::Rcu => {
                let on = |waiter: &Waiter| self.cpu_of(waiter.task).map(|on| locks.distance(cpu, on));
                let near = word.waiting.iter().enumerate();
                near.filter_map(|(place, waiter)| Some((on(waiter)?, place))).min().map(|(_, place)| place)
            }
            _ => word.waiting.front().filter(|waiter| waiter.reads || word.readers == 0).map(|_| 0),
        }
    }

    /// Grants the lock to `waiter`, which gets it after the handoff time.
    fn grant(&mut self, waiter: Waiter, number: usize, kind: LockKind, op: CriticalSections, polling: u64) {
        let on = self.cpu_of(waiter.task);
        let other = self.shared().words[number].waiting.front().map(|other| other.task);
        let poller = other.and_then(|other| self.cpu_of(other));
        let now = self.clock.now();
        let locks = self.shared_locks.as_mut().expect("the workload has locks");
        let before = locks.last(number);
        // For a task that does not run, the distance of the cache line to its next CPU is unknown.
        let to = on.or(before).unwrap_or(CpuId(0));
        let way = if kind == LockKind::ReadWrite {
            locks.fetch(number, to, now)
        } else {
            locks.hand_over(number, kind, to, polling, now)
        };
        let way = way + locks.data(op.lock, before, to, poller);
        let word = &mut locks.words[number];
        if waiter.reads {
            word.readers += 1;
        } else {
            word.writer = Some(waiter.task);
        }
        let passing = locks.passing(waiter.task).expect("the task is in a critical section");
        (passing.stage, passing.entered) = (Stage::Enter, now + way);
        let (row, waited) = (passing.row, now + way - passing.asked);
        locks.record_acquisition(row, waited);
        self.resume(waiter.task, if way == Nanos::ZERO { Phase::Ask } else { Phase::Line(way) });
    }

    /// `id`, which spins or was preempted while spinning, continues in this phase.
    fn resume(&mut self, id: TaskId, phase: Phase) {
        self.report_acquired(id);
        self.continue_with(id, phase);
    }

    /// Sets the phase of `id`, and updates its CPU, if it has one, now.
    pub fn continue_with(&mut self, id: TaskId, phase: Phase) {
        let on = self.cpu_of(id);
        if let Some(cpu) = on {
            self.settle(cpu);
            self.alarms.set(Alarm::Cpu(cpu), self.clock.now());
        }
        self.tasks[id].phase = phase;
    }

    /// CPU on which the task `id` is current.
    fn cpu_of(&self, id: TaskId) -> Option<CpuId> {
        if self.tasks[id].state() != State::Running {
            return None;
        }
        self.cpus.with_current(id)
    }

    /// `id`, which spins and is current again on `cpu`, takes its lock if it is free: a test-and-set lock is never
    /// handed off to a task that does not run. Returns false if it continues spinning.
    pub fn try_again(&mut self, cpu: CpuId, id: TaskId) -> bool {
        // A task that spins at a barrier polls no lock.
        let Some(locks) = self.shared_locks.as_mut() else { return false };
        let Some(passing) = locks.passing(id) else { return false };
        let (number, op) = (passing.word, passing.op);
        let kind = locks.kind(op.lock);
        let word = &mut locks.words[number];
        if word.writer.is_some()
            || word.readers > 0
            || !matches!(kind, LockKind::TestAndSet | LockKind::Sequence | LockKind::Rcu)
        {
            return false;
        }
        word.waiting.retain(|waiter| waiter.task != id);
        self.tasks[id].phase = Phase::Ask;
        self.report_acquired(id);
        if op.reads {
            return true;
        }
        self.take_word(cpu, id, number);
        true
    }
}
