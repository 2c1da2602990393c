// SPDX-License-Identifier: GPL-2.0-only
//! Memory in a run: which task uses which caches, and what that costs it.
//!
//! 1. A task that gets a CPU owes what it reloads, and works at the rate that its memory allows. While it pays, it works
//!    as much as its accesses would have done in the time of hits.
//! 2. A change of the demand for bandwidth takes effect after [`BATCH`]: all changes within that time are one.
//! 3. A task on an SMT sibling whose lines are displaced owes their reload at once.

use crate::alarms::Alarm;
use crate::model::Model;
use crate::run::Run;
use ids::{CpuId, Nanos, TaskId};
use machine_model::{Estimate, Machine};
use measures::NodeTraffic;
use memory::{Memory, Use};
use speed::Rate;
use workload::{Limits, Quantity, TaskSpec, Workload};

/// Time for which changes of the demand for bandwidth are collected.
const BATCH: Nanos = Nanos::from_us(100);

/// The memory of the machine, and what the workload says of its use.
#[derive(Debug)]
pub(crate) struct TaskMemory {
    memory: Memory,
    /// Use by each spec of the workload.
    uses: Vec<Use>,
    /// Time at which rates are computed; [`Nanos::MAX`]: not planned.
    due: Nanos,
    /// Buffers, kept for reuse.
    changed: Vec<CpuId>,
    displaced: Vec<(CpuId, Nanos, Nanos)>,
}

impl TaskMemory {
    /// Creates the memory; `None` if the machine models no effect of memory, or the workload does not describe its use.
    pub fn new(machine: &Machine, workload: &Workload) -> Option<Box<TaskMemory>> {
        if !workload.uses_memory() {
            return None;
        }
        let memory = Memory::new(&machine.effects, &machine.topology)?;
        let mut regions: Vec<&str> = Vec::new();
        let sample = machine.effects.sample;
        let uses = workload.tasks.iter().map(|spec| use_of(spec, sample, &mut regions)).collect();
        Some(Box::new(TaskMemory { memory, uses, due: Nanos::MAX, changed: Vec::new(), displaced: Vec::new() }))
    }

    /// `task`, which was just created, executes this spec.
    pub fn add_task(&mut self, task: TaskId, spec: u32) {
        self.memory.add_task(task, self.uses[spec as usize]);
    }

    /// The private cache of the core of `cpu` is empty: the core has slept deeply.
    pub fn flush(&mut self, cpu: CpuId) {
        self.memory.flush(cpu);
    }

    /// Time at which rates are to be computed, given the time of now; [`Nanos::MAX`] if they need not be.
    pub fn due(&mut self, now: Nanos) -> Nanos {
        if self.due == Nanos::MAX && self.memory.is_stale() {
            self.due = now + BATCH;
        }
        self.due
    }

    /// Bytes loaded from the memory of each node.
    pub fn traffic(&mut self, now: Nanos) -> Vec<NodeTraffic> {
        let moved = self.memory.moved(now).into_iter();
        moved.map(|moved| NodeTraffic { local_bytes: moved.local, remote_bytes: moved.remote }).collect()
    }
}

/// Use of memory by tasks of this spec, in this sample of the uncertain constants; regions are numbered in the order of
/// their first use.
fn use_of<'a>(spec: &'a TaskSpec, sample: Option<(u64, u64)>, regions: &mut Vec<&'a str>) -> Use {
    let Some(memory) = &spec.memory else { return Use::default() };
    let typical = |quantity: Quantity| {
        let Limits { low, typical, high } = memory.limits(quantity);
        match sample {
            Some((draw, draws)) if low < high => {
                machine_model::sample(quantity.key(), Estimate { low, typical, high }, draw, draws)
            }
            _ => typical,
        }
    };
    let region = memory.region.as_deref().map(|name| {
        let known = regions.iter().position(|region| *region == name);
        known.unwrap_or_else(|| {
            regions.push(name);
            regions.len() - 1
        }) as u32
    });
    Use {
        footprint: typical(Quantity::Footprint),
        dirty_percent: typical(Quantity::Dirty),
        stream_mb_s: typical(Quantity::Stream),
        share_percent: typical(Quantity::Share),
        region,
        placement: memory.placement,
    }
}

impl<M: Model> Run<'_, M> {
    /// `cpu`, whose account is settled, switches from `prev` to `next`.
    pub fn switch_memory(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        let Some(mut tasks) = self.memory.take() else { return };
        let now = self.clock.now();
        let pace = &mut self.cpus[cpu].pace;
        let unpaid = pace.take_debt();
        pace.set_memory(Rate::ONE);
        if prev != TaskId::NONE {
            tasks.memory.leave(now, prev, cpu, unpaid);
        }
        if next != TaskId::NONE {
            if let Some(reload) = tasks.memory.enter(now, next, cpu) {
                self.cpus[cpu].pace.owe(reload.time, reload.beside);
                self.report_reload(cpu, next, &reload);
            }
            self.cpus[cpu].pace.set_memory(tasks.memory.rate(cpu));
            tasks.memory.take_of_siblings(&mut tasks.displaced);
        }
        for (sibling, time, beside) in tasks.displaced.drain(..) {
            self.settle(sibling);
            self.cpus[sibling].pace.owe(time, beside);
            self.alarms.set(Alarm::Cpu(sibling), now);
        }
        self.memory = Some(tasks);
    }

    /// Computes and applies the rates of all tasks that wait for memory, if that is due.
    pub fn memory_due(&mut self) {
        let now = self.clock.now();
        let Some(mut tasks) = self.memory.take_if(|tasks| tasks.due <= now) else { return };
        tasks.due = Nanos::MAX;
        let mut changed = std::mem::take(&mut tasks.changed);
        tasks.memory.solve(now, &mut changed);
        let rates: Vec<Rate> = changed.iter().map(|&cpu| tasks.memory.rate(cpu)).collect();
        self.memory = Some(tasks);
        for (cpu, rate) in changed.drain(..).zip(rates) {
            self.settle(cpu);
            self.cpus[cpu].pace.set_memory(rate);
            self.alarms.set(Alarm::Cpu(cpu), now);
        }
        if let Some(tasks) = &mut self.memory {
            tasks.changed = changed;
        }
    }
}
