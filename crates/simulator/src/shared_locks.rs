// SPDX-License-Identifier: GPL-2.0-only
//! Locks of a workload: holder, waiters, and location of the cache line of each.
//!
//! 1. The word of a lock occupies one cache line. A CPU that writes to it needs that line, which is transferred from
//!    the CPU that wrote it last; a line is in one place at a time, so concurrent requests are served one after
//!    another ([`Word::fetch`]).
//! 2. A task that waits for a spin lock occupies its CPU. A handoff takes the time given by [`Spinning::handover`].
//! 3. A waiter that is preempted keeps its place in a ticket or queued lock, and all later ones wait until it runs
//!    again. A test-and-set lock is handed off to the nearest CPU that polls it, and becomes free if there is none.

use crate::handover::Spinning;
use crate::noise::draw::Draw;
use ids::{CpuId, Nanos, TaskId, Topology};
use machine_model::{AcquireCost, Machine};
use measures::LockUse;
use std::collections::VecDeque;
use workload::{CriticalSections, LockId, LockKind, SharedLock};

/// Progress of a task in its critical section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// About to begin one.
    Begin,
    /// About to ask for the lock.
    Arrive,
    /// Has found a mutex held, and calls the kernel to sleep until its release.
    Call,
    /// The kernel has refused to let it sleep, as the mutex was released meanwhile.
    Refused,
    /// Waits, spinning or asleep.
    Wait,
    /// Holds the lock and is about to work.
    Enter,
    /// Has done its work and is about to release the lock.
    Leave,
    /// Has released the lock.
    Done,
}

/// A task that executes critical sections.
#[derive(Debug)]
pub(crate) struct SectionProgress {
    pub op: CriticalSections,
    /// Remaining critical sections, the current one included.
    pub left: u64,
    pub stage: Stage,
    /// Index of the current lock word.
    pub word: usize,
    /// Time of the request.
    pub asked: Nanos,
    /// Time of the acquisition.
    pub entered: Nanos,
    /// Version that a reader of a sequence lock saw when it began.
    pub seen: u64,
    /// The task has found a mutex held once.
    pub contended: bool,
    /// Row in the lock table.
    pub row: usize,
    draw: Draw,
}

impl SectionProgress {
    /// A duration with this mean: constant, or exponentially distributed if the workload says so.
    pub fn length(&mut self, mean: Nanos) -> Nanos {
        if self.op.exponential { mean.exponential(self.draw.word()) } else { mean }
    }
}

/// A waiting task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub task: TaskId,
    pub reads: bool,
}

/// One lock, or one stripe of a striped lock.
#[derive(Debug, Default)]
pub(crate) struct Word {
    /// CPU that wrote its line last, and time from which the line is available for another transfer.
    last: Option<CpuId>,
    free: Nanos,
    pub writer: Option<TaskId>,
    pub readers: u32,
    /// A task may be asleep waiting for this mutex, so its release calls the kernel.
    pub contended: bool,
    /// Number of writes so far.
    pub version: u64,
    pub waiting: VecDeque<Waiter>,
}

/// All locks of a workload.
#[derive(Debug)]
pub(crate) struct SharedLocks {
    locks: Vec<SharedLock>,
    /// Index of the first word of each lock.
    first: Vec<usize>,
    pub words: Vec<Word>,
    pub rows: Vec<LockUse>,
    passing: Vec<Option<Box<SectionProgress>>>,
    costs: Option<machine_model::Locks>,
    topology: Topology,
    seed: u64,
}

impl SharedLocks {
    /// Creates the locks; `None` if the workload has none.
    pub fn new(machine: &Machine, locks: &[SharedLock], seed: u64) -> Option<Box<SharedLocks>> {
        let mut first = Vec::new();
        let mut count = 0;
        for lock in locks {
            first.push(count);
            count += lock.stripes as usize;
        }
        (!locks.is_empty()).then(|| {
            Box::new(SharedLocks {
                locks: locks.to_vec(),
                first,
                words: (0..count).map(|_| Word::default()).collect(),
                rows: Vec::new(),
                passing: Vec::new(),
                costs: machine.effects.locks.clone(),
                topology: machine.topology.clone(),
                seed,
            })
        })
    }

    /// `task`, whose name is `name`, begins its critical sections.
    pub fn begin(&mut self, task: TaskId, name: &str, op: CriticalSections) {
        if self.passing.len() <= task.index() {
            self.passing.resize_with(task.index() + 1, || None);
        }
        let lock = &self.locks[op.lock.0 as usize];
        let kind = word_of_table(lock.kind, op.reads);
        let is_row = |row: &LockUse| row.kind == kind && row.lock == lock.name && row.caller == name;
        let row = self.rows.iter().position(is_row).unwrap_or_else(|| {
            let (lock, caller) = (lock.name.clone(), name.to_owned());
            self.rows.push(LockUse { kind, lock, caller, ..LockUse::default() });
            self.rows.len() - 1
        });
        let (left, stage, draw) = (op.times, Stage::Begin, Draw::new(self.seed, &format!("passages {task}")));
        let (word, asked) = (self.first[op.lock.0 as usize], Nanos::ZERO);
        self.passing[task.index()] = Some(Box::new(SectionProgress {
            op,
            left,
            stage,
            word,
            asked,
            entered: asked,
            seen: 0,
            contended: false,
            row,
            draw,
        }));
    }

    /// State of `task`, if it is executing critical sections.
    pub fn passing(&mut self, task: TaskId) -> Option<&mut SectionProgress> {
        self.passing.get_mut(task.index()).and_then(|passing| passing.as_deref_mut())
    }

    /// `task` has finished its critical sections.
    pub fn end(&mut self, task: TaskId) {
        self.passing[task.index()] = None;
    }

    /// Description of the lock that `task` asks for.
    pub fn name(&self, task: TaskId) -> String {
        let passing = self.passing[task.index()].as_deref().expect("the task is in a critical section");
        format!("lock {}", self.locks[passing.op.lock.0 as usize].name)
    }

    /// Task that writes under the lock for which `task` asks.
    pub fn writer(&self, task: TaskId) -> Option<TaskId> {
        let passing = self.passing[task.index()].as_deref().expect("the task is in a critical section");
        self.words[passing.word].writer
    }

    /// Kind of this lock.
    pub fn kind(&self, lock: LockId) -> LockKind {
        self.locks[lock.0 as usize].kind
    }

    /// Chooses a random word for the next critical section, and returns the cost of the lock operations.
    pub fn choose(&mut self, task: TaskId) -> Nanos {
        let passing = self.passing[task.index()].as_deref_mut().expect("the task is in a critical section");
        let index = passing.op.lock.0 as usize;
        let lock = &self.locks[index];
        if lock.stripes > 1 {
            passing.word = self.first[index] + passing.draw.before(Nanos(lock.stripes.into())).0 as usize;
        }
        let own = match lock.kind {
            LockKind::Atomic => AcquireCost::Atomic,
            LockKind::Sequence | LockKind::Rcu if passing.op.reads => AcquireCost::Sequence,
            LockKind::TestAndSet | LockKind::Ticket | LockKind::Sequence | LockKind::Rcu => AcquireCost::Spin,
            LockKind::Queued => AcquireCost::Queued,
            LockKind::ReadWrite => AcquireCost::ReadWrite,
            LockKind::Mutex => AcquireCost::Mutex,
        };
        let price = self.costs.as_ref().map_or(0, |costs| costs.acquire_ns[own as usize].typical);
        // At least 1 ns, as a task could otherwise act endlessly at one instant.
        Nanos(price.max(1))
    }

    /// Duration of a cache-line transfer from `last` to `cpu`.
    fn line(&self, last: Option<CpuId>, cpu: CpuId) -> u64 {
        let Some(costs) = &self.costs else { return 0 };
        last.map_or(0, |last| costs.line(self.topology.locality(last, cpu)))
    }

    /// Duration of a call of `futex(2)` that neither sleeps nor wakes.
    pub fn futex(&self) -> Nanos {
        Nanos(self.costs.as_ref().map_or(0, |costs| costs.futex_ns.typical))
    }

    /// Distance of two CPUs, for comparisons.
    pub fn distance(&self, from: CpuId, to: CpuId) -> u64 {
        self.line(Some(from), to)
    }

    /// `cpu` writes the lock word: returns the time for which it waits for the line.
    pub fn fetch(&mut self, word: usize, cpu: CpuId, now: Nanos) -> Nanos {
        let line = self.line(self.words[word].last, cpu);
        let entry = &mut self.words[word];
        let from = if entry.last == Some(cpu) { now } else { entry.free.max(now) };
        entry.last = Some(cpu);
        entry.free = from + Nanos(line);
        entry.free - now
    }

    /// `cpu` reads the lock word: returns the duration of the transfer if another CPU wrote the line; both can read
    /// it afterwards.
    pub fn read(&self, word: usize, cpu: CpuId) -> Nanos {
        Nanos(self.line(self.words[word].last, cpu))
    }

    /// Duration of the transfers of the lines that a holder on `cpu` writes, from `before`; if other CPUs poll the
    /// line that it works on, that line is transferred once more from one of them.
    pub fn data(&self, lock: LockId, before: Option<CpuId>, cpu: CpuId, poller: Option<CpuId>) -> Nanos {
        let lock = &self.locks[lock.0 as usize];
        let beside = if lock.beside { self.line(poller, cpu) } else { 0 };
        Nanos(u64::from(lock.lines) * self.line(before, cpu) + beside)
    }

    /// CPU that wrote the line of this word last.
    pub fn last(&self, word: usize) -> Option<CpuId> {
        self.words[word].last
    }

    /// The lock is handed off to `cpu`, while `polling` CPUs, including that one, poll it; returns the duration.
    pub fn hand_over(&mut self, word: usize, kind: LockKind, cpu: CpuId, polling: u64, now: Nanos) -> Nanos {
        let line = self.line(self.words[word].last, cpu);
        let storm = self.costs.as_ref().map_or(0, |costs| costs.spinner_slowdown_percent.typical);
        let spinning = match kind {
            LockKind::Ticket => Spinning::Ticket,
            LockKind::Queued => Spinning::Queued,
            _ => Spinning::TestAndSet,
        };
        let way = spinning.handover(line, polling.max(1), storm);
        let entry = &mut self.words[word];
        entry.last = Some(cpu);
        entry.free = now + way;
        way
    }

    /// Records an acquisition with its waiting time.
    pub fn record_acquisition(&mut self, row: usize, waited: Nanos) {
        let row = &mut self.rows[row];
        row.count += 1;
        row.contended += u64::from(waited > Nanos::ZERO);
        row.wait_total += waited;
        row.wait_max = row.wait_max.max(waited);
    }

    /// Records a hold time.
    pub fn record_hold(&mut self, row: usize, held: Nanos) {
        let row = &mut self.rows[row];
        row.hold_total += held;
        row.hold_max = row.hold_max.max(held);
    }
}

/// Kind of a row in the lock table.
fn word_of_table(kind: LockKind, reads: bool) -> &'static str {
    match kind {
        LockKind::Mutex => "mutex",
        LockKind::ReadWrite | LockKind::Sequence | LockKind::Rcu if reads => "rw-read",
        LockKind::ReadWrite | LockKind::Sequence | LockKind::Rcu => "rw-write",
        LockKind::TestAndSet | LockKind::Ticket | LockKind::Queued | LockKind::Atomic => "spin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_exponentially_distributed() {
        let mut draw = Draw::new(1, "test");
        let mut values: Vec<f64> =
            (0..200_000).map(|_| Nanos(1_000_000).exponential(draw.word()).0 as f64 / 1e6).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        values.sort_by(f64::total_cmp);
        // The share below x is 1 - e^-x.
        for x in [0.1, 0.5, 1.0, 2.0, 5.0] {
            let share = values.partition_point(|&value| value < x) as f64 / count;
            let exact = 1.0 - f64::exp(-x);
            assert!((share - exact).abs() < 0.004, "{x}: {share}, exactly {exact}");
        }
    }
}
