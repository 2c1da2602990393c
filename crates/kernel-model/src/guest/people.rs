// SPDX-License-Identifier: GPL-2.0-only
//! Whose a task is, as programs see it: credentials by user, numbers of tasks and sessions, and what a process shares.

use super::structs::{CRED, KTHREAD, PID, SIGNAL_STRUCT};
use super::writer::Writer;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};
use ids::CpuId;
use std::collections::BTreeMap;

/// `enum pid_type`: places in `signal->pids`.
const TGID: u32 = 1;
const SID: u32 = 3;
/// `signal->nr_threads`.
const NR_THREADS: u32 = SIGNAL_STRUCT.offset("nr_threads");

#[derive(Debug)]
pub(crate) struct People {
    creds: RegionId,
    /// Slots of users.
    users: BTreeMap<u32, u32>,
    /// `struct pid`, slot = task number.
    pids: RegionId,
    /// The same of sessions, whose leaders need not be tasks here.
    session_pids: RegionId,
    sessions: BTreeMap<u32, u32>,
    /// Slot = task number of the leader.
    signals: RegionId,
    /// `struct kthread`, slot = task number.
    kthreads: RegionId,
}

impl People {
    pub fn new(memory: &mut Memory) -> People {
        let mut region = |name, size| memory.add_region(name, size, 1, Access::ReadOnly);
        People {
            creds: region("cred", CRED.size()),
            users: BTreeMap::new(),
            pids: region("pid", PID.size()),
            session_pids: region("session pid", PID.size()),
            sessions: BTreeMap::new(),
            signals: region("signal_struct", SIGNAL_STRUCT.size()),
            kthreads: region("kthread", KTHREAD.size()),
        }
    }

    /// The credentials of a user: all four numbers are the user's, as of a login, and the groups are 0.
    pub fn cred(&mut self, memory: &mut Memory, uid: u32) -> GuestAddr {
        let next = self.users.len() as u32;
        let slot = *self.users.entry(uid).or_insert(next);
        if slot == next {
            memory.grow(self.creds, (next + 1).next_power_of_two());
            let mut to = Writer { bytes: memory.slot_mut(self.creds, slot), structure: &CRED };
            to.set("uid.val", uid.into());
            to.set("euid.val", uid.into());
        }
        memory.addr(self.creds, slot)
    }

    /// `struct pid` of a task.
    pub fn pid(&self, memory: &mut Memory, task: u32, number: i32) -> GuestAddr {
        memory.grow(self.pids, (task + 1).next_power_of_two());
        set_number(memory, self.pids, task, number as u32)
    }

    /// The number of a session.
    fn session(&mut self, memory: &mut Memory, session: u32) -> GuestAddr {
        let next = self.sessions.len() as u32;
        let slot = *self.sessions.entry(session).or_insert(next);
        memory.grow(self.session_pids, (slot + 1).next_power_of_two());
        set_number(memory, self.session_pids, slot, session)
    }

    /// What the threads of the process of this leader share.
    pub fn signal(&mut self, memory: &mut Memory, leader: u32, session: u32) -> GuestAddr {
        memory.grow(self.signals, (leader + 1).next_power_of_two());
        let session = self.session(memory, session);
        let tgid = memory.addr(self.pids, leader);
        let mut to = Writer { bytes: memory.slot_mut(self.signals, leader), structure: &SIGNAL_STRUCT };
        to.set_element("pids", TGID, tgid);
        to.set_element("pids", SID, session);
        memory.addr(self.signals, leader)
    }

    /// What a thread of the kernel has of its own. `cpu` is the one that it belongs to: `kthread_set_per_cpu()`.
    pub fn kthread(&self, memory: &mut Memory, task: u32, cpu: Option<CpuId>) -> GuestAddr {
        /// A bit of `flags`.
        const KTHREAD_IS_PER_CPU: u64 = 1 << 0;
        memory.grow(self.kthreads, (task + 1).next_power_of_two());
        let mut to = Writer { bytes: memory.slot_mut(self.kthreads, task), structure: &KTHREAD };
        to.set("flags", if cpu.is_some() { KTHREAD_IS_PER_CPU } else { 0 });
        to.set("cpu", cpu.map_or(0, |cpu| cpu.0.into()));
        memory.addr(self.kthreads, task)
    }

    /// One thread more or less in the process of this leader.
    pub fn count_thread(&self, memory: &mut Memory, leader: u32, change: i32) {
        let threads = memory.get_u32(self.signals, leader, NR_THREADS).wrapping_add_signed(change);
        memory.set_u32(self.signals, leader, NR_THREADS, threads);
    }
}

fn set_number(memory: &mut Memory, region: RegionId, slot: u32, number: u32) -> GuestAddr {
    const NUMBER: u32 = PID.offset("numbers");
    memory.set_u32(region, slot, NUMBER, number);
    memory.addr(region, slot)
}
