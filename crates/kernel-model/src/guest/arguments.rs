// SPDX-License-Identifier: GPL-2.0-only
//! Structures that the kernel passes to ops by pointer. Each has one slot, because an op is never nested in another
//! call with the same structure.

use super::structs::{
    SCX_CGROUP_INIT_ARGS, SCX_CPU_ACQUIRE_ARGS, SCX_CPU_RELEASE_ARGS, SCX_DUMP_CTX, SCX_EXIT_INFO, SCX_EXIT_TASK_ARGS,
    SCX_INIT_TASK_ARGS,
};
use super::writer::{Writer, put_text};
use super::{enums, layout::Struct};
use crate::{CgroupKnobs, ExitInfo};
use bpf_machine::{Access, GuestAddr, Memory, RegionId};

/// The structures; the index is the slot.
const KINDS: [&Struct; 7] = [
    &SCX_INIT_TASK_ARGS,
    &SCX_EXIT_TASK_ARGS,
    &SCX_EXIT_INFO,
    &SCX_CPU_RELEASE_ARGS,
    &SCX_CPU_ACQUIRE_ARGS,
    &SCX_DUMP_CTX,
    &SCX_CGROUP_INIT_ARGS,
];

/// Slots of the exit texts: reason, message, dump.
const REASON: u32 = 0;
const MESSAGE: u32 = 1;
const DUMP: u32 = 2;
const TEXTS: u32 = 3;

#[derive(Debug)]
pub(super) struct Arguments {
    region: RegionId,
    texts: RegionId,
}

impl Arguments {
    pub fn new(memory: &mut Memory) -> Arguments {
        // Slots of one size fit every structure; an empty one still needs an address.
        let size = KINDS.iter().map(|kind| kind.size()).max().expect("not empty");
        let region = memory.add_region("op arguments", size, KINDS.len() as u32, Access::ReadOnly);
        let text_size = enums::value_of("SCX_EXIT_DUMP_DFL_LEN").expect("in the table") as u32;
        let texts = memory.add_region("exit texts", text_size, TEXTS, Access::ReadOnly);
        Arguments { region, texts }
    }

    fn writer<'m>(&self, memory: &'m mut Memory, kind: &'static Struct) -> (GuestAddr, Writer<'m>) {
        let slot = KINDS.iter().position(|other| other.name == kind.name).expect("one of them") as u32;
        let addr = memory.addr(self.region, slot);
        (addr, Writer { bytes: memory.slot_mut(self.region, slot), structure: kind })
    }

    pub fn init_task(&self, memory: &mut Memory, fork: bool, cgroup: GuestAddr) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, &SCX_INIT_TASK_ARGS);
        to.set("fork", fork.into());
        to.set("cgroup", cgroup);
        addr
    }

    pub fn cgroup_init(&self, memory: &mut Memory, knobs: &CgroupKnobs) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, &SCX_CGROUP_INIT_ARGS);
        to.set("weight", knobs.weight.into());
        to.set("bw_period_us", knobs.period_us);
        to.set("bw_quota_us", knobs.quota_us);
        to.set("bw_burst_us", knobs.burst_us);
        addr
    }

    pub fn exit_task(&self, memory: &mut Memory, cancelled: bool) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, &SCX_EXIT_TASK_ARGS);
        to.set("cancelled", cancelled.into());
        addr
    }

    pub fn cpu_release(&self, memory: &mut Memory, reason: u32, task: GuestAddr) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, &SCX_CPU_RELEASE_ARGS);
        to.set("reason", reason.into());
        to.set("task", task);
        addr
    }

    pub fn cpu_acquire(&self, memory: &mut Memory) -> GuestAddr {
        self.writer(memory, &SCX_CPU_ACQUIRE_ARGS).0
    }

    /// `scx_exit_info`. Texts are truncated to the kernel's buffers: 1024 bytes for the message, 32768 for the dump
    /// (contract O6).
    pub fn exit(&self, memory: &mut Memory, info: &ExitInfo, exit_cpu: i32, initialized: bool) -> GuestAddr {
        let limit = enums::value_of("SCX_EXIT_MSG_LEN").expect("in the table") as usize;
        let reason = self.text(memory, REASON, &info.reason, limit);
        let message = self.text(memory, MESSAGE, &info.message, limit);
        let dump = self.text(memory, DUMP, &info.dump, usize::MAX);
        let (addr, mut to) = self.writer(memory, &SCX_EXIT_INFO);
        to.set("kind", info.kind.into());
        to.set("exit_cpu", exit_cpu as u64);
        to.set("exit_code", info.code as u64);
        to.set("flags", initialized.into());
        to.set("reason", reason);
        to.set("msg", message);
        to.set("dump", dump);
        addr
    }

    pub fn dump(&self, memory: &mut Memory, info: &ExitInfo, at_ns: u64, at_jiffies: u64) -> GuestAddr {
        let reason = self.text(memory, REASON, &info.reason, usize::MAX);
        let (addr, mut to) = self.writer(memory, &SCX_DUMP_CTX);
        to.set("kind", info.kind.into());
        to.set("exit_code", info.code as u64);
        to.set("reason", reason);
        to.set("at_ns", at_ns);
        to.set("at_jiffies", at_jiffies);
        addr
    }

    fn text(&self, memory: &mut Memory, slot: u32, text: &str, limit: usize) -> GuestAddr {
        let place = memory.slot_mut(self.texts, slot);
        let len = place.len().min(limit);
        put_text(&mut place[..len], text);
        memory.addr(self.texts, slot)
    }
}
