// SPDX-License-Identifier: GPL-2.0-only
//! Credentials of users, pids of tasks and sessions, and the state shared by the threads of a process, as programs
//! see them.

use super::types::KernelTypes;
use super::writer::Writer;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};
use ids::CpuId;
use std::collections::BTreeMap;

/// `enum pid_type`: indices into `signal->pids`.
const TGID: u32 = 1;
const SID: u32 = 3;
/// Size of `struct upid`.
const UPID_BYTES: u32 = 16;

#[derive(Debug)]
pub(crate) struct Credentials {
    creds: RegionId,
    /// Slots by user id.
    users: BTreeMap<u32, u32>,
    /// `struct pid`; the slot is the task number.
    pids: RegionId,
    /// `struct pid` of sessions, whose leaders need not be tasks of the model.
    session_pids: RegionId,
    sessions: BTreeMap<u32, u32>,
    /// `struct signal_struct`; the slot is the task number of the group leader.
    signals: RegionId,
    /// `struct kthread`; the slot is the task number.
    kthreads: RegionId,
    types: KernelTypes,
}

impl Credentials {
    pub fn new(memory: &mut Memory, types: &KernelTypes) -> Credentials {
        let size = |name| types.layout(name).size;
        // `numbers` is a flexible array, of which every pid has one element.
        let pid = types.layout("pid").offset("numbers") + UPID_BYTES;
        let mut region = |name, size| memory.add_region(name, size, 1, Access::ReadOnly);
        Credentials {
            creds: region("cred", size("cred")),
            users: BTreeMap::new(),
            pids: region("pid", pid),
            session_pids: region("session pid", pid),
            sessions: BTreeMap::new(),
            signals: region("signal_struct", size("signal_struct")),
            kthreads: region("kthread", size("kthread").max(8)),
            types: types.clone(),
        }
    }

    /// `struct cred` of a user: uid and euid are set, the group ids are 0.
    pub fn cred(&mut self, memory: &mut Memory, uid: u32) -> GuestAddr {
        let next = self.users.len() as u32;
        let slot = *self.users.entry(uid).or_insert(next);
        if slot == next {
            memory.grow(self.creds, (next + 1).next_power_of_two());
            let mut to = Writer { bytes: memory.slot_mut(self.creds, slot), layout: self.types.layout("cred") };
            to.set("uid.val", uid.into());
            to.set("euid.val", uid.into());
        }
        memory.addr(self.creds, slot)
    }

    /// `struct pid` of a task.
    pub fn pid(&self, memory: &mut Memory, task: u32, number: i32) -> GuestAddr {
        memory.grow(self.pids, (task + 1).next_power_of_two());
        self.set_number(memory, self.pids, task, number as u32)
    }

    /// `struct pid` of a session leader.
    fn session(&mut self, memory: &mut Memory, session: u32) -> GuestAddr {
        let next = self.sessions.len() as u32;
        let slot = *self.sessions.entry(session).or_insert(next);
        memory.grow(self.session_pids, (slot + 1).next_power_of_two());
        self.set_number(memory, self.session_pids, slot, session)
    }

    /// `struct signal_struct` of the process with this group leader.
    pub fn signal(&mut self, memory: &mut Memory, leader: u32, session: u32) -> GuestAddr {
        memory.grow(self.signals, (leader + 1).next_power_of_two());
        let session = self.session(memory, session);
        let tgid = memory.addr(self.pids, leader);
        let mut to =
            Writer { bytes: memory.slot_mut(self.signals, leader), layout: self.types.layout("signal_struct") };
        to.set_element("pids", TGID, tgid);
        to.set_element("pids", SID, session);
        memory.addr(self.signals, leader)
    }

    /// `struct kthread` of a kthread. `cpu` is the CPU of a per-CPU kthread (`kthread_set_per_cpu()`).
    pub fn kthread(&self, memory: &mut Memory, task: u32, cpu: Option<CpuId>) -> GuestAddr {
        /// A bit of `flags`.
        const KTHREAD_IS_PER_CPU: u64 = 1 << 0;
        memory.grow(self.kthreads, (task + 1).next_power_of_two());
        let mut to = Writer { bytes: memory.slot_mut(self.kthreads, task), layout: self.types.layout("kthread") };
        to.set("flags", if cpu.is_some() { KTHREAD_IS_PER_CPU } else { 0 });
        to.set("cpu", cpu.map_or(0, |cpu| cpu.0.into()));
        memory.addr(self.kthreads, task)
    }

    /// Adds `change` to the thread count of the process with this group leader.
    pub fn count_thread(&self, memory: &mut Memory, leader: u32, change: i32) {
        let layout = self.types.layout("signal_struct");
        let at = layout.offset("nr_threads");
        let threads = memory.get_u32(self.signals, leader, at).wrapping_add_signed(change);
        let mut to = Writer { bytes: memory.slot_mut(self.signals, leader), layout };
        to.set("nr_threads", threads.into());
        to.set("live", threads.into());
    }

    fn set_number(&self, memory: &mut Memory, region: RegionId, slot: u32, number: u32) -> GuestAddr {
        memory.set_u32(region, slot, self.types.layout("pid").offset("numbers"), number);
        memory.addr(region, slot)
    }
}
