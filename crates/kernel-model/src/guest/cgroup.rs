// SPDX-License-Identifier: GPL-2.0-only
//! The root cgroup, in which every task is. Programs see a tree of one node.

use super::structs::{CGROUP, CSS_SET, KERNFS_NODE};
use super::writer::Writer;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};

/// Inode number of the root, and its id for programs, as in the kernel.
pub(crate) const ROOT_ID: u64 = 1;

#[derive(Debug)]
pub(crate) struct RootCgroup {
    cgroup: RegionId,
    css_set: RegionId,
}

impl RootCgroup {
    pub fn new(memory: &mut Memory) -> RootCgroup {
        let cgroup = memory.add_region("cgroup", CGROUP.size(), 1, Access::ReadOnly);
        let node = memory.add_region("kernfs_node", KERNFS_NODE.size(), 1, Access::ReadOnly);
        let css_set = memory.add_region("css_set", CSS_SET.size(), 1, Access::ReadOnly);
        let name = memory.add_region("cgroup name", 1, 1, Access::ReadOnly);
        let (own, name) = (memory.addr(cgroup, 0), memory.addr(name, 0));
        let kn = memory.addr(node, 0);
        let mut to = Writer { bytes: memory.slot_mut(node, 0), structure: &KERNFS_NODE };
        to.set("name", name);
        to.set("id", ROOT_ID);
        let mut to = Writer { bytes: memory.slot_mut(css_set, 0), structure: &CSS_SET };
        to.set("dfl_cgrp", own);
        let mut to = Writer { bytes: memory.slot_mut(cgroup, 0), structure: &CGROUP };
        to.set("self.cgroup", own);
        to.set("self.id", 1);
        to.set("kn", kn);
        to.set("dom_cgrp", own);
        to.set_element("ancestors", 0, own);
        RootCgroup { cgroup, css_set }
    }

    /// Its address.
    pub fn addr(&self, memory: &Memory) -> GuestAddr {
        memory.addr(self.cgroup, 0)
    }

    /// The set that every task points to.
    pub fn css_set(&self, memory: &Memory) -> GuestAddr {
        memory.addr(self.css_set, 0)
    }
}
