// SPDX-License-Identifier: GPL-2.0-only
//! Kicks: asked for in a callback, carried out when the operation ends (contract K1).

use super::task::Class;
use super::{Core, Effect};
use bpf_machine::Memory;
use event_log::{EventKind, KickFlags};
use ids::{CpuSet, TaskId};

const IDLE: u64 = KickFlags::IDLE as u64;
const PREEMPT: u64 = KickFlags::PREEMPT as u64;
const WAIT: u64 = KickFlags::WAIT as u64;

impl Core {
    /// `scx_bpf_kick_cpu`.
    pub fn kick_cpu(&mut self, cpu: i32, flags: u64) {
        let Some(cpu) = self.check_cpu(cpu) else { return };
        if flags & IDLE != 0 && flags & (PREEMPT | WAIT) != 0 {
            self.fail("PREEMPT/WAIT cannot be used with SCX_KICK_IDLE".into());
            return;
        }
        if self.bypassing() {
            return;
        }
        if flags & IDLE != 0 && self.current(cpu) != TaskId::NONE && !self.cpus[cpu.index()].in_balance {
            return;
        }
        self.log(TaskId::NONE, EventKind::Kick { target: cpu, flags: KickFlags(flags as u8) });
        self.kicks.push((cpu, flags));
    }

    /// The interrupt work that carries the kicks of the operation out.
    pub fn send_kicks(&mut self, memory: &mut Memory) {
        let mut awaited = CpuSet::new();
        let kicks = std::mem::take(&mut self.kicks);
        for &(cpu, flags) in &kicks {
            let rq = &self.cpus[cpu.index()];
            let class = self.current_class(cpu);
            if (!rq.online && cpu != self.this_cpu) || class < Class::Ext {
                continue;
            }
            if flags & PREEMPT != 0
                && let Some(task) = rq.current.some()
            {
                self.objects.set_slice(memory, task, 0);
                self.cpus[cpu.index()].preempted = true;
            }
            if flags & WAIT != 0 && cpu != self.this_cpu {
                awaited.insert(cpu);
            }
            self.resched(cpu);
        }
        if !awaited.is_empty() {
            self.output.effects.push(Effect::AwaitSwitch { cpu: self.this_cpu, targets: awaited });
        }
        self.kicks = kicks;
        self.kicks.clear();
    }
}
