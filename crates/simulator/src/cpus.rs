// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs of a run, and which of them wait for the switches of others.

use crate::cpu::Cpu;
use crate::ticks::Ticks;
use ids::{CpuId, Nanos, TaskId};
use machine_model::Machine;
use std::ops::{Index, IndexMut};

/// All CPUs, by number.
#[derive(Debug)]
pub(crate) struct Cpus {
    all: Vec<Cpu>,
    /// CPUs that spin until others have switched.
    spinning: Vec<CpuId>,
}

impl Cpus {
    /// Creates the CPUs of a machine, idle from time 0 on.
    pub fn new(machine: &Machine, ticks: &Ticks) -> Cpus {
        let first_tick = |cpu: CpuId| if machine.no_hz_idle { Nanos::MAX } else { ticks.after(Nanos::ZERO, cpu) };
        let all = machine.all_cpus().iter().map(|cpu| Cpu::new(cpu, first_tick(cpu))).collect();
        Cpus { all, spinning: Vec::new() }
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Numbers of all CPUs in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.all.len() as u32).map(CpuId)
    }

    /// All CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Cpu> {
        self.all.iter()
    }

    /// All CPUs in ascending order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Cpu> {
        self.all.iter_mut()
    }

    /// CPU on which `task` is current.
    pub fn with_current(&self, task: TaskId) -> Option<CpuId> {
        self.all.iter().position(|cpu| cpu.current == task).map(|cpu| CpuId(cpu as u32))
    }

    /// The next schedule of `waiting` may not return before `target` has called schedule once more.
    pub fn await_switch(&mut self, waiting: CpuId, target: CpuId) {
        let schedules = self[target].schedules;
        self[waiting].awaits.push((target, schedules));
    }

    /// `cpu`, which is in schedule, spins until each of these CPUs has called schedule more often than the given
    /// number.
    pub fn spin_for(&mut self, cpu: CpuId, awaits: Vec<(CpuId, u64)>) {
        if !awaits.is_empty() {
            self[cpu].spins_for = awaits;
            self.spinning.push(cpu);
        }
    }

    /// Whether any CPU spins until others have switched.
    #[inline]
    pub fn is_any_spinning(&self) -> bool {
        !self.spinning.is_empty()
    }

    /// Takes the CPUs that spin until others have switched.
    pub fn take_spinning(&mut self) -> Vec<CpuId> {
        std::mem::take(&mut self.spinning)
    }

    /// Releases `cpu`, which was taken, if its targets have all called schedule; otherwise it continues to spin.
    /// Returns whether it was released.
    pub fn release_if_switched(&mut self, cpu: CpuId) -> bool {
        let mut awaits = std::mem::take(&mut self[cpu].spins_for);
        awaits.retain(|&(target, schedules)| self[target].schedules <= schedules);
        let released = awaits.is_empty();
        self.spin_for(cpu, awaits);
        released
    }
}

impl Index<CpuId> for Cpus {
    type Output = Cpu;

    #[inline(always)]
    fn index(&self, cpu: CpuId) -> &Cpu {
        &self.all[cpu.index()]
    }
}

impl IndexMut<CpuId> for Cpus {
    #[inline(always)]
    fn index_mut(&mut self, cpu: CpuId) -> &mut Cpu {
        &mut self.all[cpu.index()]
    }
}
