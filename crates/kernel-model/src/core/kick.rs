// SPDX-License-Identifier: GPL-2.0-only
//! Kicks: requested in a callback, carried out when the operation ends (contract K1).

use super::task::Class;
use super::{Core, Effect};
use bpf_machine::Memory;
use event_log::{EventKind, KickFlags};
use ids::{CpuId, CpuSet, TaskId};

const IDLE: u64 = KickFlags::IDLE as u64;
const PREEMPT: u64 = KickFlags::PREEMPT as u64;
const WAIT: u64 = KickFlags::WAIT as u64;

impl Core {
    /// `scx_bpf_kick_cpu`.
    pub fn kick_cpu(&mut self, cpu: i32, flags: u64) {
        let Some(cpu) = self.check_cpu(cpu) else { return };
        if self.bypassing() {
            return;
        }
        if flags & IDLE != 0 {
            if flags & (PREEMPT | WAIT) != 0 {
                self.fail("PREEMPT/WAIT cannot be used with SCX_KICK_IDLE".into());
            }
            if self.can_skip_idle_kick(cpu) {
                return;
            }
        }
        self.log(TaskId::NONE, EventKind::Kick { target: cpu, flags: KickFlags(flags as u8) });
        self.context.kicks.push((cpu, flags));
    }

    /// Whether an idle kick of `cpu` is useless: the CPU is busy, and not in a pick that may leave it idle.
    fn can_skip_idle_kick(&self, cpu: CpuId) -> bool {
        self.current(cpu) != TaskId::NONE && !self.cpus[cpu.index()].in_balance
    }

    /// Carries out the kicks of the operation, as the kernel's irq_work does: the kicks of one CPU are merged, in CPU
    /// order; IDLE kicks come last.
    pub fn send_kicks(&mut self, memory: &mut Memory) {
        let mut kicks = std::mem::take(&mut self.context.kicks);
        kicks.sort_by_key(|&(cpu, flags)| (flags & IDLE, cpu));
        kicks.dedup_by(|later, first| {
            let same = later.0 == first.0 && (later.1 ^ first.1) & IDLE == 0;
            first.1 |= if same { later.1 } else { 0 };
            same
        });
        let mut awaited = CpuSet::new();
        for &(cpu, flags) in &kicks {
            if !self.cpus[cpu.index()].online && cpu != self.context.cpu {
                continue;
            }
            if flags & IDLE == 0 {
                self.kick(memory, cpu, flags, &mut awaited);
            } else if !self.can_skip_idle_kick(cpu) {
                self.resched(cpu);
            }
        }
        if !awaited.is_empty() {
            self.resched(self.context.cpu);
            awaited.remove(self.context.cpu);
            if !awaited.is_empty() {
                self.output.effects.push(Effect::AwaitSwitch { cpu: self.context.cpu, targets: awaited });
            }
        }
        kicks.clear();
        self.context.kicks = kicks;
    }

    /// `kick_one_cpu`: leaves CPUs that run a higher class alone; PREEMPT and WAIT apply to ext tasks only.
    fn kick(&mut self, memory: &mut Memory, cpu: CpuId, flags: u64, awaited: &mut CpuSet) {
        let class = self.current_class(cpu);
        if class < Class::Ext {
            return;
        }
        if class == Class::Ext {
            if flags & PREEMPT != 0 {
                self.objects.set_slice(memory, self.current(cpu), 0);
                self.cpus[cpu.index()].preempted = true;
            }
            if flags & WAIT != 0 {
                awaited.insert(cpu);
            }
        }
        self.resched(cpu);
    }
}
