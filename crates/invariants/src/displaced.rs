// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that lost the CPU that they were given to a task of a higher class.
//!
//! A task that is put into the local queue of an idle CPU waits until that CPU has left its idle state. If a task of a
//! higher class takes the CPU at that moment, the kernel enqueues the first task again (`SCX_ENQ_IMMED`), and it may wait for
//! the idle exit of another CPU. The scheduler could not foresee that, so a wait beside idle CPUs counts from there.

use ids::{CpuId, DsqId, Nanos, TaskId};

/// Tasks that the kernel enqueued again on the CPU in whose local queue they were, until that CPU's next switch.
#[derive(Debug, Default)]
pub(crate) struct Displaced {
    /// CPU, task, and time of the second `enqueue`.
    pending: Vec<(CpuId, TaskId, Nanos)>,
}

impl Displaced {
    /// Notes that `cpu` puts a task into a queue in `enqueue`, and that the task was in the queue `from` before.
    pub(crate) fn enqueue(&mut self, now: Nanos, cpu: CpuId, task: TaskId, from: Option<DsqId>) {
        self.pending.retain(|(_, other, _)| *other != task);
        if from == Some(DsqId::local_on(cpu)) {
            self.pending.push((cpu, task, now));
        }
    }

    /// Notes that a CPU switches. Returns the tasks that lost it, with the time from which their waits count, if the next
    /// task is of a higher class.
    pub(crate) fn switch(&mut self, cpu: CpuId, to_higher_class: bool) -> Vec<(TaskId, Nanos)> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let of_cpu = self.pending.extract_if(.., |(at, ..)| *at == cpu);
        let lost: Vec<(TaskId, Nanos)> = of_cpu.map(|(_, task, since)| (task, since)).collect();
        if to_higher_class { lost } else { Vec::new() }
    }
}
