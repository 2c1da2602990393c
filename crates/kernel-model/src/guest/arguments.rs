// SPDX-License-Identifier: GPL-2.0-only
//! Structures that the kernel passes to ops by pointer. Each has one slot, because an op is never nested in another
//! call with the same structure.

use super::types::KernelTypes;
use super::writer::{Writer, put_text};
use crate::{CgroupKnobs, ExitInfo};
use bpf_machine::{Access, GuestAddr, Memory, RegionId};

/// The structures; the index is the slot.
const KINDS: [&str; 7] = [
    "scx_init_task_args",
    "scx_exit_task_args",
    "scx_exit_info",
    "scx_cpu_release_args",
    "scx_cpu_acquire_args",
    "scx_dump_ctx",
    "scx_cgroup_init_args",
];

/// Slots of the exit texts: reason, message, dump.
const REASON: u32 = 0;
const MESSAGE: u32 = 1;
const DUMP: u32 = 2;
const TEXTS: u32 = 3;
/// Sizes of the exit texts in kernels whose BTF does not state them (contract O6).
const DUMP_BYTES: u64 = 32_768;
const MESSAGE_BYTES: u64 = 1024;

#[derive(Debug)]
pub(super) struct Arguments {
    region: RegionId,
    texts: RegionId,
    types: KernelTypes,
}

impl Arguments {
    pub fn new(memory: &mut Memory, types: &KernelTypes) -> Arguments {
        // Slots of one size fit every structure; an empty one still needs an address.
        let size = KINDS.iter().map(|kind| types.layout(kind).size).max().expect("not empty");
        let region = memory.add_region("op arguments", size, KINDS.len() as u32, Access::ReadOnly);
        let text_size = types.constant("SCX_EXIT_DUMP_DFL_LEN").unwrap_or(DUMP_BYTES) as u32;
        let texts = memory.add_region("exit texts", text_size, TEXTS, Access::ReadOnly);
        Arguments { region, texts, types: types.clone() }
    }

    fn writer<'m>(&'m self, memory: &'m mut Memory, kind: &'static str) -> (GuestAddr, Writer<'m>) {
        let slot = KINDS.iter().position(|other| *other == kind).expect("one of them") as u32;
        let addr = memory.addr(self.region, slot);
        (addr, Writer { bytes: memory.slot_mut(self.region, slot), layout: self.types.layout(kind) })
    }

    pub fn init_task(&self, memory: &mut Memory, fork: bool, cgroup: GuestAddr) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, "scx_init_task_args");
        to.set("fork", fork.into());
        to.set("cgroup", cgroup);
        addr
    }

    pub fn cgroup_init(&self, memory: &mut Memory, knobs: &CgroupKnobs) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, "scx_cgroup_init_args");
        to.set("weight", knobs.weight.into());
        to.set("bw_period_us", knobs.period_us);
        to.set("bw_quota_us", knobs.quota_us);
        to.set("bw_burst_us", knobs.burst_us);
        addr
    }

    pub fn exit_task(&self, memory: &mut Memory, cancelled: bool) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, "scx_exit_task_args");
        to.set("cancelled", cancelled.into());
        addr
    }

    pub fn cpu_release(&self, memory: &mut Memory, reason: u32, task: GuestAddr) -> GuestAddr {
        let (addr, mut to) = self.writer(memory, "scx_cpu_release_args");
        to.set("reason", reason.into());
        to.set("task", task);
        addr
    }

    pub fn cpu_acquire(&self, memory: &mut Memory) -> GuestAddr {
        self.writer(memory, "scx_cpu_acquire_args").0
    }

    /// `scx_exit_info`. Texts are truncated to the kernel's buffers: 1024 bytes for the message, 32768 for the dump
    /// (contract O6).
    pub fn exit(&self, memory: &mut Memory, info: &ExitInfo, exit_cpu: i32, initialized: bool) -> GuestAddr {
        let limit = self.types.constant("SCX_EXIT_MSG_LEN").unwrap_or(MESSAGE_BYTES) as usize;
        let reason = self.text(memory, REASON, &info.reason, limit);
        let message = self.text(memory, MESSAGE, &info.message, limit);
        let dump = self.text(memory, DUMP, &info.dump, usize::MAX);
        let (addr, mut to) = self.writer(memory, "scx_exit_info");
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
        let (addr, mut to) = self.writer(memory, "scx_dump_ctx");
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
