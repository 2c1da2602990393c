// SPDX-License-Identifier: GPL-2.0-only
//! The debug dump that the kernel makes when it ejects a scheduler (contract X2).

use super::Kernel;
use crate::ExitInfo;
use crate::ops::Op;
use ids::{CpuId, TaskId};
use std::fmt::Write;

impl Kernel {
    /// `dump`, then per CPU, the failing one first, `dump_cpu`, and `dump_task` for its running and queued tasks.
    pub(super) fn make_dump(&mut self, info: &ExitInfo) -> String {
        let limit = self.scheduler.as_ref().map_or(0, |scheduler| scheduler.dump_len as usize);
        let first = self.core.exit_cpu;
        let current = self.core.current(first);
        let who = if current == TaskId::NONE { "swapper".into() } else { self.core.name_of(current) };
        let mut text = format!("{who} triggered exit kind {} on CPU {first}:\n", info.kind);
        let _ = writeln!(text, "  {} ({})\n", info.reason, info.message);
        let context = self.core.objects.dump_ctx(&mut self.machine.memory, info, self.core.now.0);
        text += &self.dumped(Op::Dump, &[context]);
        let others = (0..self.core.cpus()).map(CpuId).filter(|&cpu| cpu != first);
        for cpu in std::iter::once(first).chain(others) {
            self.dump_cpu(cpu, context, &mut text);
            if text.len() > limit {
                break;
            }
        }
        let _ = writeln!(text, "Event counters\n--------------");
        for (name, value) in self.core.counters.named() {
            let _ = writeln!(text, "{name:>30}: {value:>16}");
        }
        let end = (0..=limit.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text
    }

    fn dump_cpu(&mut self, cpu: CpuId, context: u64, text: &mut String) {
        let current = self.core.current(cpu);
        let waiting = self.core.runnable_on(cpu);
        let idle = current == TaskId::NONE && waiting.is_empty();
        let own = self.dumped(Op::DumpCpu, &[context, u64::from(cpu.0), u64::from(idle)]);
        if idle && own.is_empty() {
            return;
        }
        let rq = &self.core.cpus[cpu.index()];
        let _ = writeln!(text, "CPU {cpu:<4}: nr_run={} ops_qseq={}", rq.ext_tasks, rq.ops_qseq);
        text.push_str(&own);
        let running = current.some().map(|task| ('*', task));
        for (mark, task) in running.into_iter().chain(waiting.into_iter().map(|task| (' ', task))) {
            let entry = self.core.task(task);
            let waited_ms = self.core.now.since(entry.runnable_at).0 / 1_000_000;
            let name = self.core.name_of(task);
            let dsq = entry.queue.map_or(0, |queue| queue.id().0);
            let slice = self.core.objects.slice(&self.machine.memory, task);
            let vtime = self.core.objects.vtime(&self.machine.memory, task);
            let _ = writeln!(text, " {mark}R {name} -{waited_ms}ms");
            let _ = writeln!(text, "      dsq_id={dsq:#x} dsq_vtime={vtime} slice={slice} cpus={}", entry.allowed);
            let address = self.addr(task);
            text.push_str(&self.dumped(Op::DumpTask, &[context, address]));
        }
    }

    /// What an op adds to the dump.
    fn dumped(&mut self, op: Op, args: &[u64]) -> String {
        self.core.dump = Some(String::new());
        self.call(op, args);
        self.core.dump.take().unwrap_or_default()
    }
}
