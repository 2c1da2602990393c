// SPDX-License-Identifier: GPL-2.0-only
//! The number of runnable tasks on each runqueue, and two checks that use it: useless migrations, and the scan of
//! Lozi et al. (EuroSys 2016, `stap_monitor.c`) for CPUs that idle while others are overloaded.
//!
//! The scan runs once a second. A CPU is *deprived* if its runqueue is empty, another runqueue has at least two tasks
//! of which a waiting one may run on the CPU, and no task was migrated to the CPU since the last scan. A CPU that is
//! deprived in ten consecutive scans is a violation; before that, periodic balancing may still correct it.

use ids::{CpuId, CpuSet, Nanos, TaskId};

const SCAN_INTERVAL: Nanos = Nanos::from_secs(1);
const SCANS: u32 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    runnable: u32,
    /// Number of tasks migrated to this CPU, in total and until the previous scan.
    moved: u64,
    moved_before: u64,
    /// Number of consecutive scans that found the CPU deprived, and the time of the first one.
    scans: u32,
    since: Nanos,
}

/// The loads of all runqueues.
#[derive(Debug)]
pub(crate) struct Loads {
    cpus: Vec<Cpu>,
    /// Runqueue of each task, by its CPU.
    runqueue_of: Vec<Option<CpuId>>,
    useless: u64,
    next_scan: Nanos,
    scans_made: u32,
}

impl Loads {
    pub(crate) fn new(cpus: usize) -> Loads {
        Loads {
            cpus: vec![Cpu::default(); cpus],
            runqueue_of: Vec::new(),
            useless: 0,
            next_scan: SCAN_INTERVAL,
            scans_made: 0,
        }
    }

    /// Registers a new task.
    pub(crate) fn announce(&mut self) {
        self.runqueue_of.push(None);
    }

    /// Puts a runnable task on the runqueue of `cpu`, whichever it was on before.
    pub(crate) fn place(&mut self, task: TaskId, cpu: CpuId) {
        if self.runqueue_of[task.index()] != Some(cpu) {
            self.remove(task);
            self.runqueue_of[task.index()] = Some(cpu);
            self.cpus[cpu.index()].runnable += 1;
        }
    }

    /// Removes a task that is no longer runnable.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some(cpu) = self.runqueue_of[task.index()].take() {
            self.cpus[cpu.index()].runnable -= 1;
        }
    }

    /// Notes a migration.
    pub(crate) fn migrate(&mut self, task: TaskId, to: CpuId) {
        if let Some(from) = self.runqueue_of[task.index()].filter(|from| *from != to) {
            self.useless += u64::from(self.cpus[from.index()].runnable <= self.cpus[to.index()].runnable);
        }
        self.place(task, to);
        self.cpus[to.index()].moved += 1;
    }

    /// Number of migrations to a runqueue that was at least as long as the source.
    pub(crate) fn useless_migrations(&self) -> u64 {
        self.useless
    }

    /// Whether there were enough scans to find a violation.
    pub(crate) fn has_scanned(&self) -> bool {
        self.scans_made >= SCANS
    }

    /// Whether a scan is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.next_scan
    }

    /// Scans once, even if several scans are due. `waiting` are the waiting tasks with their masks; those that share
    /// a runqueue with another task count. Returns the CPUs that were deprived in ten consecutive scans, and since
    /// when; their count starts again.
    pub(crate) fn scan<'a>(
        &mut self,
        now: Nanos,
        online: impl Fn(CpuId) -> bool,
        waiting: impl Iterator<Item = (TaskId, &'a CpuSet)>,
    ) -> Vec<(CpuId, Nanos)> {
        let passed = now.since(self.next_scan).0 / SCAN_INTERVAL.0;
        self.scans_made += 1;
        self.next_scan += Nanos((passed + 1) * SCAN_INTERVAL.0);
        let mut wanted = CpuSet::new();
        for (task, allowed) in waiting {
            if self.runqueue_of[task.index()].is_some_and(|cpu| self.cpus[cpu.index()].runnable >= 2) {
                for cpu in allowed.iter() {
                    wanted.insert(cpu);
                }
            }
        }
        let mut found = Vec::new();
        for (cpu, it) in (0..).map(CpuId).zip(&mut self.cpus) {
            let none_moved = it.moved == std::mem::replace(&mut it.moved_before, it.moved);
            if !(it.runnable == 0 && none_moved && online(cpu) && wanted.contains(cpu)) {
                it.scans = 0;
                continue;
            }
            if it.scans == 0 {
                it.since = now;
            }
            it.scans += 1;
            if it.scans == SCANS {
                found.push((cpu, it.since));
                it.scans = 0;
            }
        }
        found
    }

    /// Restarts the count of consecutive scans.
    pub(crate) fn reset_scans(&mut self) {
        self.cpus.iter_mut().for_each(|cpu| cpu.scans = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts two tasks on CPU 0 while CPU 1 idles, and scans once a second.
    fn scans(mask: u64, seconds: u64, mut each: impl FnMut(&mut Loads, u64)) -> Vec<(CpuId, Nanos)> {
        let mut loads = Loads::new(2);
        (0..2).for_each(|task| {
            loads.announce();
            loads.place(TaskId(task), CpuId(0));
        });
        let allowed = CpuSet::from_words(&[mask]);
        let mut found = Vec::new();
        for second in 1..=seconds {
            each(&mut loads, second);
            assert!(
                !loads.is_due(Nanos(second * SCAN_INTERVAL.0 - 1)) && loads.is_due(Nanos(second * SCAN_INTERVAL.0))
            );
            let waiting = std::iter::once((TaskId(1), &allowed));
            found.extend(loads.scan(Nanos(second * SCAN_INTERVAL.0), |_| true, waiting));
        }
        found
    }

    #[test]
    fn deprived_cpu_is_reported_after_ten_consecutive_scans() {
        assert_eq!(scans(0b11, 9, |_, _| ()), []);
        assert_eq!(scans(0b11, 10, |_, _| ()), [(CpuId(1), Nanos::from_secs(1))]);
        assert_eq!(scans(0b01, 30, |_, _| ()), [], "the waiting task may not use CPU 1");
        let pulls = |loads: &mut Loads, second| {
            if second == 5 {
                loads.migrate(TaskId(1), CpuId(1));
                loads.place(TaskId(1), CpuId(0));
            }
        };
        assert_eq!(scans(0b11, 14, pulls), [], "a task was migrated to CPU 1");
        assert_eq!(scans(0b11, 15, pulls), [(CpuId(1), Nanos::from_secs(6))]);
        let alone = |loads: &mut Loads, _| loads.remove(TaskId(0));
        assert_eq!(scans(0b11, 30, alone), [], "the waiting task is alone on its runqueue");
    }

    #[test]
    fn migrations_to_runqueues_that_are_not_shorter_count_as_useless() {
        let mut loads = Loads::new(3);
        for (task, cpu) in [(0, 0), (1, 0), (2, 1)] {
            loads.announce();
            loads.place(TaskId(task), CpuId(cpu));
        }
        loads.migrate(TaskId(1), CpuId(2));
        assert_eq!(loads.useless_migrations(), 0, "from 2 to 0");
        loads.migrate(TaskId(1), CpuId(1));
        assert_eq!(loads.useless_migrations(), 1, "from 1 to 1");
        loads.migrate(TaskId(1), CpuId(1));
        loads.migrate(TaskId(0), CpuId(1));
        assert_eq!(loads.useless_migrations(), 2, "not for a migration to the same CPU, but for one from 1 to 2 tasks");
    }
}
