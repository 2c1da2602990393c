// SPDX-License-Identifier: GPL-2.0-only
//! TLB shootdowns: a task shrinks the address space of its process, so that CPUs that run threads of it must forget
//! translations.
//!
//! 1. Targets are the other CPUs whose current task is of the process. An idle CPU is none: it flushes when it continues
//!    (lazy TLB mode).
//! 2. Each target has an interrupt, which takes time of its task. The initiator waits for all: a time for the first, and
//!    one for each further target. It keeps its CPU busy meanwhile, without doing work.
//! 3. A target that executes scheduler code or another interrupt has its interrupt after that; the initiator does not wait
//!    longer for it.

use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::Run;
use crate::tasks::Phase;
use ids::{CpuId, Nanos, TaskId};
use machine_model::{Machine, Tlb};
use measures::InterruptUse;
use workload::Workload;

/// Address spaces of tasks, and shootdowns.
#[derive(Debug)]
pub(crate) struct Shootdowns {
    costs: Tlb,
    /// Address space of each task, as the number of the first task that had it; kthreads have their own.
    spaces: Vec<TaskId>,
    /// Interrupts of each CPU.
    rows: Vec<InterruptUse>,
}

impl Shootdowns {
    /// `None` if the machine has none, or the workload never shrinks an address space.
    pub fn new(machine: &Machine, workload: &Workload) -> Option<Box<Shootdowns>> {
        let costs = machine.effects.tlb.clone().filter(|_| workload.unmaps())?;
        Some(Box::new(Shootdowns { costs, spaces: Vec::new(), rows: Vec::new() }))
    }

    /// A task exists that shares its address space with another one, or with none.
    pub fn add_task(&mut self, task: TaskId, with: Option<TaskId>) {
        let known = self.spaces.len() as u32;
        self.spaces.extend((known..=task.0).map(TaskId));
        if let Some(with) = with {
            self.spaces[task.index()] = self.spaces[with.index()];
        }
    }

    fn space(&self, task: TaskId) -> TaskId {
        self.spaces.get(task.index()).copied().unwrap_or(task)
    }

    fn count(&mut self, cpu: CpuId, time: Nanos) {
        let at = self.rows.iter().position(|row| row.cpu == cpu).unwrap_or_else(|| {
            let (count, deferred, total, max) = (0, 0, Nanos::ZERO, Nanos::ZERO);
            self.rows.push(InterruptUse { source: "tlb".to_owned(), cpu, count, deferred, total, max });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        (row.count, row.total, row.max) = (row.count + 1, row.total + time, row.max.max(time));
    }

    /// Interrupts by CPU.
    pub fn finish(mut self) -> Vec<InterruptUse> {
        self.rows.sort_by_key(|row| row.cpu);
        self.rows
    }
}

impl<M: Model> Run<'_, M> {
    /// `id`, which is current on `cpu`, shrinks the address space of its process.
    pub fn unmap(&mut self, cpu: CpuId, id: TaskId) {
        let Some(shootdowns) = &self.shootdowns else { return };
        let own = shootdowns.space(id);
        let runs = |target: &CpuId| {
            let current = self.cpus[*target].current;
            *target != cpu && current != TaskId::NONE && shootdowns.space(current) == own
        };
        let targets: Vec<CpuId> = self.cpus.numbers().filter(runs).collect();
        let Some(further) = (targets.len() as u64).checked_sub(1) else { return };
        let Tlb { wait_ns, target_ns, .. } = &shootdowns.costs;
        let wait = Nanos((wait_ns.typical + further * target_ns.typical).max(1));
        for target in targets {
            self.interrupt(target, Some(Interrupt::Shootdown));
        }
        self.tasks[id].phase = Phase::Line(wait);
    }

    /// A shootdown interrupts `cpu`.
    pub fn shootdown(&mut self, cpu: CpuId) {
        let Some(shootdowns) = &mut self.shootdowns else { return };
        let interrupt = self.noise.interrupt(cpu, shootdowns.costs.handler_ns.typical);
        shootdowns.count(cpu, interrupt);
        self.only_interrupt(cpu, interrupt);
    }
}
