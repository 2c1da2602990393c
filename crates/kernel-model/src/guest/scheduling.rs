// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling classes and dispatch queues as programs see them: targets of `p->sched_class` and `p->scx.dsq`.

use super::types::KernelTypes;
use super::writer::Writer;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};
use std::collections::BTreeMap;

/// The kernel's variables of type `struct sched_class`, in the order of precedence.
const CLASSES: [&str; 6] =
    ["stop_sched_class", "dl_sched_class", "rt_sched_class", "fair_sched_class", "ext_sched_class", "idle_sched_class"];

/// Whether the kernel has a scheduling class of this name.
pub(super) fn is_class(name: &str) -> bool {
    CLASSES.contains(&name)
}

/// Key of a dispatch queue: its id, and the node or CPU of queues that share an id.
pub(crate) type QueueKey = (u64, u32);

#[derive(Debug)]
pub(crate) struct Scheduling {
    classes: RegionId,
    /// `struct scx_dispatch_q` of queues outside of runqueues; made when a program first asks for one.
    pub queues: RegionId,
    slots: BTreeMap<QueueKey, u32>,
    types: KernelTypes,
}

impl Scheduling {
    pub fn new(memory: &mut Memory, types: &KernelTypes) -> Scheduling {
        let size = |name| types.layout(name).size.max(8);
        Scheduling {
            classes: memory.add_region("sched_class", size("sched_class"), CLASSES.len() as u32, Access::ReadOnly),
            queues: memory.add_region("scx_dispatch_q", size("scx_dispatch_q"), 0, Access::ReadOnly),
            slots: BTreeMap::new(),
            types: types.clone(),
        }
    }

    /// Address of a class by its precedence; 0 is the stop class.
    pub fn class(&self, memory: &Memory, precedence: u32) -> GuestAddr {
        memory.addr(self.classes, precedence)
    }

    /// Address of the variable of this name.
    pub fn variable(&self, memory: &Memory, name: &str) -> Option<GuestAddr> {
        let precedence = CLASSES.iter().position(|class| *class == name)?;
        Some(self.class(memory, precedence as u32))
    }

    /// Address of a dispatch queue outside of runqueues.
    pub fn queue(&mut self, memory: &mut Memory, key: QueueKey) -> GuestAddr {
        let next = self.slots.len() as u32;
        let slot = *self.slots.entry(key).or_insert(next);
        if slot == next {
            memory.grow(self.queues, (slot + 1).next_power_of_two());
            let layout = self.types.layout("scx_dispatch_q");
            Writer { bytes: memory.slot_mut(self.queues, slot), layout }.set("id", key.0);
        }
        memory.addr(self.queues, slot)
    }

    /// Key of the queue in a slot.
    pub fn key_of(&self, slot: u32) -> Option<QueueKey> {
        self.slots.iter().find(|(_, other)| **other == slot).map(|(key, _)| *key)
    }
}
