// SPDX-License-Identifier: GPL-2.0-only
//! How many runnable tasks each runqueue has, and what follows from that: tasks that were moved to a runqueue that is as long,
//! and the check of Lozi et al. (EuroSys 2016, `stap_monitor.c`).
//!
//! That check looks each second. A CPU is *wronged* if its runqueue is empty, another one has two tasks or more of which one
//! waits that may run on it, and nothing has been moved to it since the look before. Ten looks in a row that find it wronged
//! are a bug: until then periodic balancing may be on its way.

use ids::{CpuId, CpuSet, Nanos, TaskId};

const LOOK_EVERY: Nanos = Nanos::from_secs(1);
const LOOKS: u32 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    runnable: u32,
    /// How many tasks were moved to it, in all, and until the look before.
    moved: u64,
    moved_before: u64,
    /// At how many looks in a row it was wronged, and when the first of them was.
    looks: u32,
    since: Nanos,
}

/// All runqueues.
#[derive(Debug)]
pub(crate) struct Loads {
    cpus: Vec<Cpu>,
    /// On whose runqueue each task is.
    places: Vec<Option<CpuId>>,
    useless: u64,
    next_look: Nanos,
    looks_made: u32,
}

impl Loads {
    pub(crate) fn new(cpus: usize) -> Loads {
        Loads { cpus: vec![Cpu::default(); cpus], places: Vec::new(), useless: 0, next_look: LOOK_EVERY, looks_made: 0 }
    }

    /// A task exists.
    pub(crate) fn announce(&mut self) {
        self.places.push(None);
    }

    /// A runnable task is on this runqueue, wherever it was before.
    pub(crate) fn place(&mut self, task: TaskId, cpu: CpuId) {
        if self.places[task.index()] != Some(cpu) {
            self.remove(task);
            self.places[task.index()] = Some(cpu);
            self.cpus[cpu.index()].runnable += 1;
        }
    }

    /// A task is no longer runnable.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some(cpu) = self.places[task.index()].take() {
            self.cpus[cpu.index()].runnable -= 1;
        }
    }

    /// A task was moved.
    pub(crate) fn migrate(&mut self, task: TaskId, to: CpuId) {
        if let Some(from) = self.places[task.index()].filter(|from| *from != to) {
            self.useless += u64::from(self.cpus[from.index()].runnable <= self.cpus[to.index()].runnable);
        }
        self.place(task, to);
        self.cpus[to.index()].moved += 1;
    }

    /// How many were moved to a runqueue that was as long as theirs, or longer.
    pub(crate) fn useless_migrations(&self) -> u64 {
        self.useless
    }

    /// Whether there were looks enough to find something.
    pub(crate) fn has_looked(&self) -> bool {
        self.looks_made >= LOOKS
    }

    /// Whether it is time to look.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.next_look
    }

    /// Looks once for all times that have come. Of the tasks that wait with their masks those count that are behind another
    /// one. CPUs that were wronged at ten looks in a row, and since when; they are forgiven.
    pub(crate) fn look<'a>(
        &mut self,
        now: Nanos,
        online: impl Fn(CpuId) -> bool,
        waiting: impl Iterator<Item = (TaskId, &'a CpuSet)>,
    ) -> Vec<(CpuId, Nanos)> {
        let passed = now.since(self.next_look).0 / LOOK_EVERY.0;
        self.looks_made += 1;
        self.next_look += Nanos((passed + 1) * LOOK_EVERY.0);
        let mut wanted = CpuSet::new();
        for (task, allowed) in waiting {
            if self.places[task.index()].is_some_and(|cpu| self.cpus[cpu.index()].runnable >= 2) {
                for cpu in allowed.iter() {
                    wanted.insert(cpu);
                }
            }
        }
        let mut found = Vec::new();
        for (cpu, it) in (0..).map(CpuId).zip(&mut self.cpus) {
            let untouched = it.moved == std::mem::replace(&mut it.moved_before, it.moved);
            if !(it.runnable == 0 && untouched && online(cpu) && wanted.contains(cpu)) {
                it.looks = 0;
                continue;
            }
            if it.looks == 0 {
                it.since = now;
            }
            it.looks += 1;
            if it.looks == LOOKS {
                found.push((cpu, it.since));
                it.looks = 0;
            }
        }
        found
    }

    /// What was seen before counts no longer.
    pub(crate) fn forget_looks(&mut self) {
        self.cpus.iter_mut().for_each(|cpu| cpu.looks = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tasks on CPU 0 of two, and CPU 1 idles; one look a second.
    fn looks(mask: u64, seconds: u64, mut each: impl FnMut(&mut Loads, u64)) -> Vec<(CpuId, Nanos)> {
        let mut loads = Loads::new(2);
        (0..2).for_each(|task| {
            loads.announce();
            loads.place(TaskId(task), CpuId(0));
        });
        let allowed = CpuSet::from_words(&[mask]);
        let mut found = Vec::new();
        for second in 1..=seconds {
            each(&mut loads, second);
            assert!(!loads.is_due(Nanos(second * LOOK_EVERY.0 - 1)) && loads.is_due(Nanos(second * LOOK_EVERY.0)));
            let waiting = std::iter::once((TaskId(1), &allowed));
            found.extend(loads.look(Nanos(second * LOOK_EVERY.0), |_| true, waiting));
        }
        found
    }

    #[test]
    fn a_cpu_that_is_wronged_for_ten_looks_is_found() {
        assert_eq!(looks(0b11, 9, |_, _| ()), []);
        assert_eq!(looks(0b11, 10, |_, _| ()), [(CpuId(1), Nanos::from_secs(1))]);
        assert_eq!(looks(0b01, 30, |_, _| ()), [], "who waits may not use it");
        let pulls = |loads: &mut Loads, second| {
            if second == 5 {
                loads.migrate(TaskId(1), CpuId(1));
                loads.place(TaskId(1), CpuId(0));
            }
        };
        assert_eq!(looks(0b11, 14, pulls), [], "it took one");
        assert_eq!(looks(0b11, 15, pulls), [(CpuId(1), Nanos::from_secs(6))]);
        let alone = |loads: &mut Loads, _| loads.remove(TaskId(0));
        assert_eq!(looks(0b11, 30, alone), [], "who waits is the first of its queue");
    }

    #[test]
    fn migrations_to_queues_as_long_are_counted() {
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
        assert_eq!(loads.useless_migrations(), 2, "to where it is; from 1 to 2");
    }
}
