// SPDX-License-Identifier: GPL-2.0-only
//! CPU time by kind, as programs read it from `kernel_cpustat`.

use super::Core;
use super::task::Task;
use crate::guest::CpuTime;
use bpf_machine::Memory;
use ids::{CpuId, Nanos};

impl Core {
    /// Charges `ran` to the current task of `cpu`, or to idle time.
    pub fn charge_cpu_time(&mut self, cpu: CpuId, ran: Nanos) {
        let rq = &mut self.cpus[cpu.index()];
        if rq.online {
            let current = rq.current.some().map(|task| &self.tasks[task]);
            *part_of(&mut rq.time, current) += ran.0;
        }
    }

    /// Writes the current `kernel_cpustat` of `cpu` to guest memory, in whole ticks as in the kernel.
    pub fn show_cpu_time(&self, memory: &mut Memory, cpu: CpuId) {
        let rq = &self.cpus[cpu.index()];
        let mut time = rq.time;
        if rq.online {
            let current = rq.current.some().map(|task| self.task(task));
            *part_of(&mut time, current) += self.rq_clock(cpu).since(rq.exec_start).0;
        }
        let tick = 1_000_000_000 / u64::from(self.config.hz);
        let CpuTime { user, nice, system, idle } = time;
        let [user, nice, system, idle] = [user, nice, system, idle].map(|ns| ns / tick * tick);
        self.objects.per_cpu.show_time(memory, cpu.0, CpuTime { user, nice, system, idle });
    }
}

/// The kind of CPU time that a task uses; `None` is the idle task. A kernel without CONFIG_VIRT_CPU_ACCOUNTING_GEN
/// charges a whole tick to the task and mode that it finds; in the model tasks are always in user mode and kthreads
/// in kernel mode.
fn part_of<'t>(time: &'t mut CpuTime, current: Option<&Task>) -> &'t mut u64 {
    match current {
        None => &mut time.idle,
        Some(task) if task.kernel_thread => &mut time.system,
        Some(task) if task.nice > 0 => &mut time.nice,
        Some(_) => &mut time.user,
    }
}
