// SPDX-License-Identifier: GPL-2.0-only
//! The debug dump that the kernel prints when it ejects a scheduler, line by line (contract X2).

use super::Kernel;
use crate::ExitInfo;
use crate::core::dsq::QueueRef;
use crate::core::task::{Class, Owner, ext_weight};
use crate::ops::Op;
use ids::{CpuId, CpuSet, DsqId, TaskId};
use std::fmt::Write;

/// End mark of a truncated dump.
const TRUNCATED: &str = "\n\n~~~~ TRUNCATED ~~~~\n";

impl Kernel {
    /// Calls `dump`; then, for each CPU and the failing one first, calls `dump_cpu`, and `dump_task` for its running
    /// and queued tasks.
    pub(super) fn make_dump(&mut self, info: &ExitInfo) -> String {
        let (name, limit) = self.scheduler.as_ref().map_or(("", 0), |ops| (ops.name.as_str(), ops.dump_len as usize));
        let mut text =
            format!("{name}: root\n{} triggered exit kind {}", self.current_name(self.core.context.cpu), info.kind);
        let _ = match self.core.attached.exit_cpu {
            Some(cpu) => writeln!(text, " on CPU {cpu}:"),
            None => writeln!(text, ":"),
        };
        let _ = writeln!(text, "  {} ({})\n\nBacktrace:", info.reason, info.message);
        let context = self.core.objects.dump_ctx(&mut self.machine.memory, info, self.core.time.since_boot().0);
        self.append_dump_op(Op::Dump, &[context], "", &mut text);
        text.push_str("\nCPU states\n----------\n");
        let first = self.core.attached.exit_cpu;
        let others = (0..self.core.cpus()).map(CpuId).filter(|&cpu| Some(cpu) != first);
        for cpu in first.into_iter().chain(others) {
            self.dump_cpu(cpu, context, &mut text);
        }
        text.push_str("\nEvent counters\n--------------\n");
        for (name, value) in self.core.attached.counters.named() {
            let _ = writeln!(text, "{name:>40}: {value:>16}");
        }
        if text.len() >= limit {
            let room = limit.saturating_sub(TRUNCATED.len() + 1);
            let end = (0..=room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            text.truncate(end);
            text.push_str(if limit > TRUNCATED.len() { TRUNCATED } else { "" });
        }
        text
    }

    /// `comm[pid]` of the task running on a CPU.
    fn current_name(&self, cpu: CpuId) -> String {
        self.core.current(cpu).some().map_or_else(|| format!("swapper/{cpu}[0]"), |task| self.core.name_of(task))
    }

    fn dump_cpu(&mut self, cpu: CpuId, context: u64, text: &mut String) {
        let current = self.core.current(cpu);
        let waiting = self.core.runnable_on(cpu);
        let idle = current == TaskId::NONE && waiting.is_empty();
        let before = text.len();
        let rq = &self.core.cpus[cpu.index()];
        let class = match self.core.current_class(cpu) {
            Class::Stop => "stop",
            Class::Deadline => "dl",
            Class::Rt => "rt",
            Class::Fair => "fair",
            Class::Ext => "ext",
            Class::Idle => "idle",
        };
        let (flags, released) = (u8::from(rq.scx_online), u8::from(rq.released));
        let _ = writeln!(
            text,
            "\nCPU {:<4}: nr_run={} flags={flags:#x} cpu_rel={released} ksync={}",
            cpu.0, rq.ext_tasks, rq.kick_sync
        );
        let _ = writeln!(text, "          curr={} class={class}_sched_class", self.current_name(cpu));
        let header = text.len();
        self.append_dump_op(Op::DumpCpu, &[context, u64::from(cpu.0), u64::from(idle)], "  ", text);
        if idle && text.len() == header {
            text.truncate(before);
            return;
        }
        if let Some(task) = current.some().filter(|&task| self.core.task(task).class == Class::Ext) {
            self.dump_task('*', task, context, text);
        }
        for task in waiting {
            self.dump_task(' ', task, context, text);
        }
    }

    fn dump_task(&mut self, mark: char, task: TaskId, context: u64, text: &mut String) {
        const STATE: u32 = 0x700;
        let entry = self.core.task(task);
        let waited_ms = self.core.jiffies_now().since(entry.runnable_at).0 / 1_000_000;
        let name = self.core.name_of(task);
        let flags = entry.scx_flags();
        let (state, seq) = match entry.owner {
            Owner::Core => (0, 0),
            Owner::Queueing(seq) => (1, seq),
            Owner::Bpf(seq) => (2, seq),
        };
        let queue = entry.queue.map(|queue| match queue {
            QueueRef::Local(_) => DsqId::LOCAL,
            queue => queue.id(),
        });
        let queue = queue.map_or("(n/a)".into(), |dsq| format!("{:#x}", dsq.0));
        let ordered = u8::from(self.core.in_order(task));
        let memory = &self.machine.memory;
        let (vtime, slice) = (self.core.objects.vtime(memory, task), self.core.objects.slice(memory, task));
        let weight = ext_weight(entry.policy, entry.nice);
        let cpus = bitmap(&entry.allowed, self.core.cpus());
        let _ = write!(
            text,
            "\n {mark}R {name} *root {:+}ms\n      scx_state/flags={}/{:#x} dsq_flags={ordered:#x} ops_state/qseq={state}/{seq}\n      \
             sticky/holding_cpu=-1/-1 dsq_id={queue}\n      dsq_vtime={vtime} slice={slice} weight={weight}\n      \
             cpus={cpus} no_mig=0\n",
            -(waited_ms as i64),
            (flags & STATE) >> 8,
            flags & !STATE,
        );
        let address = self.addr(task);
        self.append_dump_op(Op::DumpTask, &[context, address], "    ", text);
    }

    /// Calls a dump op and appends its lines, indented, after an empty line.
    fn append_dump_op(&mut self, op: Op, args: &[u64], indent: &str, text: &mut String) {
        if !self.has(op) {
            return;
        }
        self.core.attached.dump = Some(String::new());
        self.call(op, args);
        let added = self.core.attached.dump.take().unwrap_or_default();
        if !added.is_empty() {
            text.push('\n');
        }
        for line in added.lines() {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
}

/// A mask as the kernel prints it: hexadecimal groups of 32 CPUs, the highest first.
fn bitmap(set: &CpuSet, cpus: u32) -> String {
    let group = |index: u32| {
        let low = index * 32;
        let bits = (low..cpus.min(low + 32)).filter(|&cpu| set.contains(CpuId(cpu)));
        let width = (cpus.min(low + 32) - low).div_ceil(4) as usize;
        format!("{:0width$x}", bits.fold(0u32, |word, cpu| word | 1 << (cpu - low)))
    };
    let groups: Vec<String> = (0..cpus.div_ceil(32)).rev().map(group).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x2_masks_are_printed_in_groups_of_32_cpus() {
        let set = |cpus: &str| cpus.parse::<CpuSet>().unwrap();
        assert_eq!(bitmap(&set("0-1"), 4), "3");
        assert_eq!(bitmap(&set("0,5"), 6), "21");
        assert_eq!(bitmap(&set("31-33"), 34), "3,80000000");
    }
}
