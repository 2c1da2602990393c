// SPDX-License-Identifier: GPL-2.0-only
//! Kernel locks as serial resources: holder, waiters, and handoff time of each.
//!
//! 1. They are queued spin locks, as in kernels since 4.2, unless the kernel's name says otherwise: first come, first
//!    served, and a handoff takes the same time for any number of waiters. A waiting CPU spins and does nothing else.
//! 2. Taking a free lock costs one cache-line transfer from the CPU that held it last. A handoff to a waiting CPU
//!    costs [`Spinning::handover`].
//! 3. The lock of a queue is held while the queue's own cache lines are transferred from the CPU that changed it
//!    last: two more transfers.
//!
//! Requests arrive in order of time, so the time at which a waiter gets the lock is known as soon as its holder's
//! release time is known; both may be in the future.

use crate::ahead::SavedEvents;
use crate::handover::Spinning;
use event_log::LockKind;
use ids::{CpuId, DsqId, Nanos, Topology};
use kernel_model::Lock;
use machine_model::Machine;
use measures::LockUse;
use std::collections::{BTreeMap, VecDeque};

/// Cache lines of a queue, besides that of its lock, that an insertion or removal writes: the ends of its list or
/// tree, and the task's link. These functions of 7.2 touch three lines including the lock.
const QUEUE_LINES: u64 = 2;

/// Index of a lock in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockNumber(u32);

/// The lock is granted, now or in the future.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    /// Time at which the CPU gets the lock.
    pub at: Nanos,
    /// Time for which the holder then waits for the cache lines of the protected data.
    pub lines: Nanos,
    /// Time for which the CPU waited because another one held the lock.
    pub waited: Nanos,
}

/// A CPU queued for a lock.
#[derive(Debug)]
struct Waiter {
    cpu: CpuId,
    since: Nanos,
    caller: &'static str,
}

/// A future acquisition and release of a lock that is free and uncontended until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedHold {
    pub cpu: CpuId,
    pub caller: &'static str,
    /// Time of the request.
    pub at: Nanos,
    /// Time of the acquisition.
    taken: Nanos,
    /// Time of the release.
    free: Nanos,
}

/// Statistics of one lock for one caller.
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
    /// CPU that took it last, and whether its release time is still unknown.
    last: Option<CpuId>,
    held: bool,
    /// Time of the last acquisition.
    taken: Nanos,
    /// Caller of the last acquisition, as an index into `rows`.
    row: usize,
    /// Time from which it is free, unless it is held.
    free: Nanos,
    waiting: VecDeque<Waiter>,
    planned_hold: Option<PlannedHold>,
    /// Acquisition times of CPUs that were granted the lock before their predecessor's release: these are in the
    /// future. Recorded for locks whose handoff time depends on the number of waiters.
    ahead: VecDeque<Nanos>,
    rows: Vec<Row>,
}

/// All kernel locks of a run.
#[derive(Debug)]
pub(crate) struct Locks {
    costs: machine_model::Locks,
    topology: Topology,
    /// Runqueue locks by CPU, then the others in order of first use.
    table: Vec<Entry>,
    others: BTreeMap<Lock, LockNumber>,
    /// Lock of the last request.
    recent: LockNumber,
    /// How CPUs wait.
    pub spinning: Spinning,
    /// Events saved because their lock was uncontended.
    pub saved: SavedEvents,
}

impl Locks {
    /// Creates the table; `None` if the machine has no lock costs.
    pub fn new(machine: &Machine) -> Option<Box<Locks>> {
        let costs = machine.effects.locks.clone()?;
        let topology = machine.topology.clone();
        let table = (0..topology.len() as u32).map(|cpu| Entry::new(Lock::Runqueue(CpuId(cpu)))).collect();
        let (others, recent, spinning) = (BTreeMap::new(), LockNumber(0), Spinning::Queued);
        let saved = SavedEvents::default();
        Some(Box::new(Locks { costs, topology, table, others, recent, spinning, saved }))
    }

    /// Part of the wakeup path during which the target's runqueue is locked.
    pub fn wakeup_hold(&self) -> Nanos {
        Nanos(self.costs.wakeup_hold_ns.typical)
    }

    /// Index of a lock in the table.
    #[inline]
    pub fn number(&mut self, lock: Lock) -> LockNumber {
        match lock {
            Lock::Runqueue(cpu) => LockNumber(cpu.0),
            other => self.number_of_other(other),
        }
    }

    /// Index of a lock that is not a runqueue's; added to the table if necessary.
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

    /// The lock with this index.
    pub fn lock(&self, number: LockNumber) -> Lock {
        self.table[number.0 as usize].lock
    }

    /// Whether it is free from this time on, as far as is known.
    pub fn is_free(&self, number: LockNumber, time: Nanos) -> bool {
        let entry = &self.table[number.0 as usize];
        !entry.held && entry.free <= time && entry.planned_hold.is_none()
    }

    /// Its future acquisition, if any.
    pub fn planned_hold(&self, number: LockNumber) -> Option<PlannedHold> {
        self.table[number.0 as usize].planned_hold
    }

    /// Records that `cpu` will ask for this free lock at time `at` and hold it for `under`; returns the time of the
    /// release. The lock is unchanged until [`Locks::commit_hold`].
    pub fn plan_hold(
        &mut self,
        number: LockNumber,
        cpu: CpuId,
        caller: &'static str,
        at: Nanos,
        under: Nanos,
    ) -> Nanos {
        let entry = &mut self.table[number.0 as usize];
        let line = entry.last.map_or(0, |last| self.costs.line(self.topology.locality(last, cpu)));
        let taken = at + Nanos(line);
        let free = taken + Nanos(line * entry.lines()) + under;
        entry.planned_hold = Some(PlannedHold { cpu, caller, at, taken, free });
        free
    }

    /// Cancels the recorded future acquisition.
    pub fn forget(&mut self, number: LockNumber) {
        self.table[number.0 as usize].planned_hold = None;
    }

    /// Makes the recorded future acquisition effective, if there is one.
    pub fn commit_hold(&mut self, number: LockNumber) {
        let entry = &mut self.table[number.0 as usize];
        if let Some(PlannedHold { cpu, caller, at, taken, free }) = entry.planned_hold.take() {
            debug_assert!(entry.free <= at && entry.waiting.is_empty(), "no other CPU asked for it");
            entry.begin(cpu, caller, taken, None);
            entry.end(free);
        }
    }

    /// Upper bound of the time for which `cpu` waits for cache lines when it takes this free lock.
    pub fn lines(&self, number: LockNumber, cpu: CpuId) -> Nanos {
        let line = |last| self.costs.line(self.topology.locality(last, cpu));
        Nanos((1 + QUEUE_LINES) * self.table[number.0 as usize].last.map_or(0, line))
    }

    /// `cpu` asks for the lock now. `None`: it is queued, and [`Locks::give`] will grant the lock.
    pub fn take(&mut self, number: LockNumber, cpu: CpuId, caller: &'static str, now: Nanos) -> Option<Grant> {
        let entry = &mut self.table[number.0 as usize];
        if entry.held {
            entry.waiting.push_back(Waiter { cpu, since: now, caller });
            return None;
        }
        Some(self.grant(number, Waiter { cpu, since: now, caller }))
    }

    /// Its holder releases it at `at`, possibly in the future. Returns the next holder, if a CPU waits.
    pub fn give(&mut self, number: LockNumber, at: Nanos) -> Option<(CpuId, Grant)> {
        let entry = &mut self.table[number.0 as usize];
        debug_assert!(entry.held, "only a held lock is released");
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

    /// Grants a lock that is free, now or at a known time, to the next CPU.
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

    /// Uses of each lock by each caller, the longest waits first. Runqueue locks without waits are merged to one row
    /// per caller.
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
            planned_hold: None,
            ahead: VecDeque::new(),
            rows: Vec::new(),
        }
    }

    /// `cpu` holds it from `at` on; `waited` is its waiting time if another CPU held it.
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

    /// The holder releases it at this time.
    fn end(&mut self, at: Nanos) {
        (self.held, self.free) = (false, at);
        let (hold, row) = (at - self.taken, &mut self.rows[self.row]);
        row.hold_total += hold;
        row.hold_max = row.hold_max.max(hold);
    }

    /// Number of cache lines, besides its own, transferred from the last holder.
    fn lines(&self) -> u64 {
        match self.lock {
            Lock::Runqueue(_) | Lock::Bpf(_) => 0,
            Lock::Global(_) | Lock::Bypass(_) | Lock::Dsq(_) => QUEUE_LINES,
        }
    }

    /// Index of this caller's row. There are few callers, and equal names are mostly the same string.
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

/// Kind of lock in an event about waiting.
pub(crate) fn kind(lock: Lock) -> LockKind {
    match lock {
        Lock::Runqueue(cpu) => LockKind::Runqueue(cpu),
        Lock::Global(_) => LockKind::Dsq(DsqId::GLOBAL),
        Lock::Bypass(_) => LockKind::Dsq(DsqId::BYPASS),
        Lock::Dsq(dsq) => LockKind::Dsq(dsq),
        Lock::Bpf(addr) => LockKind::Bpf(addr),
    }
}
