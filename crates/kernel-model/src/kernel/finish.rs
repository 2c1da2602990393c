// SPDX-License-Identifier: GPL-2.0-only
//! The end of an operation: what callbacks asked for and the kernel does when it has dropped its locks.

use super::{Kernel, Stage};
use crate::core::dsq::QueueRef;
use crate::core::enq_flags;
use ids::CpuId;

/// How often a local queue may be enqueued again in one go (contract K2).
const REENQUEUE_LIMIT: u32 = 256;

impl Kernel {
    /// Carries out deferred verdicts, re-enqueues and kicks; then, if there was an error, disables the scheduler.
    pub(super) fn finish(&mut self) {
        let mut rounds = 0;
        loop {
            if let Some(task) = self.core.deferred.pop_front() {
                self.deliver(task);
            } else if let Some(cpu) = self.core.reenqueue.pop() {
                rounds += 1;
                if rounds > REENQUEUE_LIMIT {
                    self.core.fail("local DSQ re-enqueued too many times".into());
                    self.core.reenqueue.clear();
                } else {
                    self.reenqueue(cpu);
                }
            } else {
                break;
            }
        }
        self.report_custody();
        if !self.core.kicks.is_empty() {
            self.core.send_kicks(&mut self.machine.memory);
        }
        if self.core.exit.is_some() && self.stage == Stage::Enabled {
            self.disable();
        }
    }

    /// A LOCAL_ON verdict of `select_cpu` or `enqueue` for another CPU (contract D2).
    fn deliver(&mut self, task: ids::TaskId) {
        let Some(verdict) = self.core.task(task).verdict else { return };
        let cpu = self.core.task_cpu(task);
        let outer = std::mem::replace(&mut self.core.running.op, verdict.op);
        match self.core.resolve(cpu, verdict.dsq, task) {
            QueueRef::Local(to) => {
                self.core.send_to_local(&mut self.machine.memory, task, to, verdict.enq_flags, verdict.line);
            }
            queue => {
                let memory = &mut self.machine.memory;
                self.core.enqueue_to(memory, task, queue, None, verdict.enq_flags, verdict.line);
            }
        }
        self.core.running.op = outer;
    }

    /// Every task of a local queue goes through `enqueue` again.
    fn reenqueue(&mut self, cpu: CpuId) {
        let waiting: Vec<_> = self.core.cpus[cpu.index()].local.iter().map(|(_, task)| task).collect();
        for task in waiting {
            self.core.dequeue_from(task);
            self.do_enqueue(task, enq_flags::REENQ);
        }
    }
}
