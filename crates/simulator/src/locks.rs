// SPDX-License-Identifier: GPL-2.0-only
//! Locks of the kernel as serial resources: who holds each, who waits, and what passing it on takes.
//!
//! 1. They are queued spin locks, as in kernels since 4.2, unless the kernel is a named one: first come, first served, and
//!    passing one on takes the same time however many wait. A CPU that waits spins and does nothing else.
//! 2. A lock that is free costs one way of its cache line from the CPU that had it last. Passed on to a CPU that waits it
//!    costs what [`Spinning::handover`] says.
//! 3. The lock of a queue is held while the queue's own lines come from whoever changed it last: two more ways.
//!
//! Requests come in the order of time, so the time at which a lock is taken is known as soon as the time is at which its
//! holder gives it back; that may lie ahead.

use crate::handover::Spinning;
use event_log::LockKind;
use ids::{CpuId, DsqId, Nanos, Topology};
use kernel_model::Lock;
use machine_model::Machine;
use measures::LockUse;
use std::collections::{BTreeMap, VecDeque};

/// Lines of a queue besides its lock that an insert or a removal writes: the ends of its list or tree, and the task's
/// link. Three lines with the lock is what the instructions of those functions of 7.2 touch.
const QUEUE_LINES: u64 = 2;

/// A lock by its place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockNumber(u32);

/// The lock is taken, now or later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    /// When.
    pub at: Nanos,
    /// How long its holder then waits for the lines of what the lock protects.
    pub lines: Nanos,
    /// How long the CPU had to wait because another had it.
    pub waited: Nanos,
}

/// A CPU in the queue of a lock.
#[derive(Debug)]
struct Waiter {
    cpu: CpuId,
    since: Nanos,
    caller: &'static str,
}

/// A CPU will take a lock that is free, and give it back; nobody else has wanted it before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreseen {
    pub cpu: CpuId,
    pub caller: &'static str,
    /// When it will ask for it.
    pub at: Nanos,
    /// When it will have it.
    taken: Nanos,
    /// When it will have given it back.
    free: Nanos,
}

/// What one caller did with a lock.
#[derive(Debug)]
struct Row {
    caller: &'static str,
    count: u64,
    contended: u64,
    wait_total: Nanos,
    wait_max: Nanos,
    hold_total: Nanos,
    hold_max: Nanos,
}

/// One lock.
#[derive(Debug)]
struct Entry {
    lock: Lock,
    /// Who took it last, and whether that CPU has said when it gives it back.
    last: Option<CpuId>,
    held: bool,
    /// When it was taken last.
    taken: Nanos,
    /// Who did that: place in `rows`.
    row: usize,
    /// When it is free, unless it is held.
    free: Nanos,
    waiting: VecDeque<Waiter>,
    foreseen: Option<Foreseen>,
    /// When those get it who came before its holder had gone: they have it in the future. For locks on which it matters how
    /// many wait.
    ahead: VecDeque<Nanos>,
    rows: Vec<Row>,
}

/// All locks of a run.
#[derive(Debug)]
pub(crate) struct Locks {
    costs: machine_model::Locks,
    topology: Topology,
    /// The runqueues' by CPU, then the others in the order in which they were met.
    table: Vec<Entry>,
    others: BTreeMap<Lock, LockNumber>,
    /// The one that was asked for last.
    recent: LockNumber,
    /// How CPUs wait.
    pub spinning: Spinning,
}

impl Locks {
    /// `None` if the machine does not say what a lock takes.
    pub fn new(machine: &Machine) -> Option<Box<Locks>> {
        let costs = machine.effects.locks.clone()?;
        let topology = machine.topology.clone();
        let table = (0..topology.len() as u32).map(|cpu| Entry::new(Lock::Runqueue(CpuId(cpu)))).collect();
        let (others, recent, spinning) = (BTreeMap::new(), LockNumber(0), Spinning::Queued);
        Some(Box::new(Locks { costs, topology, table, others, recent, spinning }))
    }

    /// Part of the wakeup path in which the runqueue of the target is locked.
    pub fn wakeup_hold(&self) -> Nanos {
        Nanos(self.costs.wakeup_hold_ns.typical)
    }

    /// Its place in the table.
    #[inline]
    pub fn number(&mut self, lock: Lock) -> LockNumber {
        match lock {
            Lock::Runqueue(cpu) => LockNumber(cpu.0),
            other => self.number_of_other(other),
        }
    }

    /// The same for a lock that is no runqueue's.
    fn number_of_other(&mut self, lock: Lock) -> LockNumber {
        if self.table[self.recent.0 as usize].lock == lock {
            return self.recent;
        }
        self.recent = *self.others.entry(lock).or_insert_with(|| {
            self.table.push(Entry::new(lock));
            LockNumber(self.table.len() as u32 - 1)
        });
        self.recent
    }

    /// The lock itself.
    pub fn lock(&self, number: LockNumber) -> Lock {
        self.table[number.0 as usize].lock
    }

    /// Whether nobody has it at this time, nor later, as far as is known.
    pub fn is_free(&self, number: LockNumber, time: Nanos) -> bool {
        let entry = &self.table[number.0 as usize];
        !entry.held && entry.free <= time && entry.foreseen.is_none()
    }

    /// Who will take it.
    pub fn foreseen(&self, number: LockNumber) -> Option<Foreseen> {
        self.table[number.0 as usize].foreseen
    }

    /// It is free, and `cpu` will ask for it at this time and spend so much under it: when it will have given it back. The
    /// lock is as it was until [`Locks::fulfil`].
    pub fn foresee(&mut self, number: LockNumber, cpu: CpuId, caller: &'static str, at: Nanos, under: Nanos) -> Nanos {
        let entry = &mut self.table[number.0 as usize];
        let line = entry.last.map_or(0, |last| self.costs.line(self.topology.locality(last, cpu)));
        let taken = at + Nanos(line);
        let free = taken + Nanos(line * entry.lines()) + under;
        entry.foreseen = Some(Foreseen { cpu, caller, at, taken, free });
        free
    }

    /// What was foreseen will not be.
    pub fn forget(&mut self, number: LockNumber) {
        self.table[number.0 as usize].foreseen = None;
    }

    /// What was foreseen, if anything, has begun.
    pub fn fulfil(&mut self, number: LockNumber) {
        let entry = &mut self.table[number.0 as usize];
        if let Some(Foreseen { cpu, caller, at, taken, free }) = entry.foreseen.take() {
            debug_assert!(entry.free <= at && entry.waiting.is_empty(), "nobody else wanted it");
            entry.begin(cpu, caller, taken, None);
            entry.end(free);
        }
    }

    /// At most so long `cpu` waits for cache lines when it takes a lock that is free.
    pub fn lines(&self, number: LockNumber, cpu: CpuId) -> Nanos {
        let line = |last| self.costs.line(self.topology.locality(last, cpu));
        Nanos((1 + QUEUE_LINES) * self.table[number.0 as usize].last.map_or(0, line))
    }

    /// `cpu` wants it now. `None`: it is in the queue, and [`Locks::give`] will say when it has it.
    pub fn take(&mut self, number: LockNumber, cpu: CpuId, caller: &'static str, now: Nanos) -> Option<Grant> {
        let entry = &mut self.table[number.0 as usize];
        if entry.held {
            entry.waiting.push_back(Waiter { cpu, since: now, caller });
            return None;
        }
        Some(self.grant(number, Waiter { cpu, since: now, caller }))
    }

    /// Its holder gives it back at `at`, which may lie ahead. Who gets it next, if somebody waits.
    pub fn give(&mut self, number: LockNumber, at: Nanos) -> Option<(CpuId, Grant)> {
        let entry = &mut self.table[number.0 as usize];
        debug_assert!(entry.held, "a lock is given back once");
        entry.end(at);
        let place = match (self.spinning, entry.last) {
            (Spinning::TestAndSet, Some(from)) => {
                let far = |waiter: &Waiter| self.costs.line(self.topology.locality(from, waiter.cpu));
                let near = entry.waiting.iter().enumerate().min_by_key(|(place, waiter)| (far(waiter), *place));
                near.map_or(0, |(place, _)| place)
            }
            _ => 0,
        };
        let next = entry.waiting.remove(place)?;
        Some((next.cpu, self.grant(number, next)))
    }

    /// It is free, now or at a time that is known, and this CPU is next.
    fn grant(&mut self, number: LockNumber, next: Waiter) -> Grant {
        let entry = &mut self.table[number.0 as usize];
        let line = entry.last.map_or(0, |last| self.costs.line(self.topology.locality(last, next.cpu)));
        let contended = entry.free > next.since;
        while entry.ahead.front().is_some_and(|&at| at <= next.since) {
            entry.ahead.pop_front();
        }
        let waiting = (entry.waiting.len() + entry.ahead.len()) as u64 + 1;
        let way = match contended {
            true => self.spinning.handover(line, waiting, self.costs.spinner_slowdown_percent.typical),
            false => Nanos(line),
        };
        let at = entry.free.max(next.since) + way;
        let waited = contended.then_some(at - next.since);
        let lines = Nanos(line * entry.lines());
        if self.spinning != Spinning::Queued && contended {
            entry.ahead.push_back(at);
        }
        entry.begin(next.cpu, next.caller, at, waited);
        Grant { at, lines, waited: waited.unwrap_or_default() }
    }

    /// Who used which lock: the longest waits first. Runqueues for whose locks nobody waited are one row for each caller.
    pub fn table(&self) -> Vec<LockUse> {
        let mut quiet: BTreeMap<&str, LockUse> = BTreeMap::new();
        let mut all = Vec::new();
        for entry in &self.table {
            for row in &entry.rows {
                if matches!(entry.lock, Lock::Runqueue(_)) && row.contended == 0 {
                    let sum = quiet.entry(row.caller).or_insert_with(|| row.empty("runqueue", "others"));
                    row.add_to(sum);
                } else {
                    let (kind, lock) = name(entry.lock);
                    let mut own = row.empty(kind, &lock);
                    row.add_to(&mut own);
                    all.push(own);
                }
            }
        }
        all.extend(quiet.into_values());
        all.sort_by_key(|lock| std::cmp::Reverse((lock.wait_total, lock.count)));
        all
    }
}

impl Entry {
    fn new(lock: Lock) -> Entry {
        Entry {
            lock,
            last: None,
            held: false,
            taken: Nanos::ZERO,
            row: 0,
            free: Nanos::ZERO,
            waiting: VecDeque::new(),
            foreseen: None,
            ahead: VecDeque::new(),
            rows: Vec::new(),
        }
    }

    /// `cpu` has it from `at` on, and waited so long if another had it.
    fn begin(&mut self, cpu: CpuId, caller: &'static str, at: Nanos, waited: Option<Nanos>) {
        (self.held, self.last, self.taken) = (true, Some(cpu), at);
        self.row = self.row_of(caller);
        let row = &mut self.rows[self.row];
        row.count += 1;
        if let Some(waited) = waited {
            row.contended += 1;
            row.wait_total += waited;
            row.wait_max = row.wait_max.max(waited);
        }
    }

    /// Its holder has given it back then.
    fn end(&mut self, at: Nanos) {
        (self.held, self.free) = (false, at);
        let (hold, row) = (at - self.taken, &mut self.rows[self.row]);
        row.hold_total += hold;
        row.hold_max = row.hold_max.max(hold);
    }

    /// Lines that come from whoever had it last, besides its own.
    fn lines(&self) -> u64 {
        match self.lock {
            Lock::Runqueue(_) | Lock::Bpf(_) => 0,
            Lock::Global(_) | Lock::Bypass(_) | Lock::Dsq(_) => QUEUE_LINES,
        }
    }

    /// Place of this caller's row. There are few callers, and mostly a name is the same string.
    fn row_of(&mut self, caller: &'static str) -> usize {
        if self.rows.get(self.row).is_some_and(|row| std::ptr::eq(row.caller, caller)) {
            return self.row;
        }
        let same = self.rows.iter().position(|row| std::ptr::eq(row.caller, caller));
        let equal = || self.rows.iter().position(|row| row.caller == caller);
        same.or_else(equal).unwrap_or_else(|| {
            let zero = Nanos::ZERO;
            let (wait_total, wait_max, hold_total, hold_max) = (zero, zero, zero, zero);
            self.rows.push(Row { caller, count: 0, contended: 0, wait_total, wait_max, hold_total, hold_max });
            self.rows.len() - 1
        })
    }
}

impl Row {
    fn empty(&self, kind: &'static str, lock: &str) -> LockUse {
        LockUse {
            kind,
            retries: 0,
            lock: lock.to_owned(),
            caller: self.caller.to_owned(),
            count: 0,
            contended: 0,
            wait_total: Nanos::ZERO,
            wait_max: Nanos::ZERO,
            hold_total: Nanos::ZERO,
            hold_max: Nanos::ZERO,
        }
    }

    fn add_to(&self, sum: &mut LockUse) {
        sum.count += self.count;
        sum.contended += self.contended;
        sum.wait_total += self.wait_total;
        sum.wait_max = sum.wait_max.max(self.wait_max);
        sum.hold_total += self.hold_total;
        sum.hold_max = sum.hold_max.max(self.hold_max);
    }
}

/// Kind and name of a lock in the table.
fn name(lock: Lock) -> (&'static str, String) {
    match lock {
        Lock::Runqueue(cpu) => ("runqueue", format!("CPU {cpu}")),
        Lock::Global(node) => ("dsq", format!("global of node {node}")),
        Lock::Bypass(cpu) => ("dsq", format!("bypass of CPU {cpu}")),
        Lock::Dsq(dsq) => ("dsq", dsq.to_string()),
        Lock::Bpf(addr) => ("bpf", format!("{addr:#x}")),
    }
}

/// Which lock an event of waiting names.
pub(crate) fn kind(lock: Lock) -> LockKind {
    match lock {
        Lock::Runqueue(cpu) => LockKind::Runqueue(cpu),
        Lock::Global(_) => LockKind::Dsq(DsqId::GLOBAL),
        Lock::Bypass(_) => LockKind::Dsq(DsqId::BYPASS),
        Lock::Dsq(dsq) => LockKind::Dsq(dsq),
        Lock::Bpf(addr) => LockKind::Bpf(addr),
    }
}
