// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups as programs see them, each with its kernfs directory and the css_set of its tasks. The slot is the
//! cgroup's number and is never reused, because a program may hold a removed cgroup.

use super::types::KernelTypes;
use super::writer::{Writer, put_text};
use bpf_machine::{Access, GuestAddr, Memory, RegionId};

/// NAME_MAX plus a NUL.
const NAME_BYTES: u32 = 256;
/// Maximum depth below the root: the size of the `ancestors` array, which is a flexible array in the kernel.
pub(crate) const MAX_LEVEL: u32 = 31;

#[derive(Debug)]
pub(crate) struct Cgroups {
    cgroups: RegionId,
    nodes: RegionId,
    css_sets: RegionId,
    names: RegionId,
    task_groups: RegionId,
    types: KernelTypes,
    /// Offsets of `level`, `kn` and `ancestors` in `struct cgroup`.
    level: u32,
    kn: u32,
    ancestors: u32,
}

impl Cgroups {
    /// Creates the regions, with the root cgroup.
    pub fn new(memory: &mut Memory, types: &KernelTypes) -> Cgroups {
        let mut region = |name, size: u32| memory.add_region(name, size.max(8), 1, Access::ReadOnly);
        let size = |name| types.layout(name).size;
        let layout = types.layout("cgroup");
        // `ancestors` is a flexible array.
        let end = layout.offset("ancestors") + 8 * (MAX_LEVEL + 1);
        let cgroups = Cgroups {
            cgroups: region("cgroup", end.max(layout.size)),
            nodes: region("kernfs_node", size("kernfs_node")),
            css_sets: region("css_set", size("css_set")),
            names: region("cgroup name", NAME_BYTES),
            task_groups: region("task_group", size("task_group")),
            types: types.clone(),
            level: layout.offset("level"),
            kn: layout.offset("kn"),
            ancestors: layout.offset("ancestors"),
        };
        cgroups.publish(memory, 0, None, "");
        cgroups
    }

    /// Creates the guest objects of cgroup `slot`.
    pub fn publish(&self, memory: &mut Memory, slot: u32, parent: Option<u32>, name: &str) {
        for region in [self.cgroups, self.nodes, self.css_sets, self.names, self.task_groups] {
            memory.grow(region, (slot + 1).next_power_of_two());
        }
        let (own, kn) = (memory.addr(self.cgroups, slot), memory.addr(self.nodes, slot));
        let level = parent.map_or(0, |parent| memory.get_u32(self.cgroups, parent, self.level) + 1);
        assert!(level <= MAX_LEVEL, "a cgroup below the maximum depth");
        let above: Vec<u64> = (0..level)
            .map(|level| memory.get_u64(self.cgroups, parent.expect("above"), self.ancestors + level * 8))
            .collect();
        put_text(memory.slot_mut(self.names, slot), name);
        let name = memory.addr(self.names, slot);
        let mut to = Writer { bytes: memory.slot_mut(self.nodes, slot), layout: self.types.layout("kernfs_node") };
        to.set("name", name);
        to.set("id", id_of(slot));
        let mut to = Writer { bytes: memory.slot_mut(self.css_sets, slot), layout: self.types.layout("css_set") };
        to.set("dfl_cgrp", own);
        let above_group = parent.map_or(0, |parent| memory.addr(self.task_groups, parent));
        let mut to = Writer { bytes: memory.slot_mut(self.task_groups, slot), layout: self.types.layout("task_group") };
        to.set("css.cgroup", own);
        to.set("parent", above_group);
        let mut to = Writer { bytes: memory.slot_mut(self.cgroups, slot), layout: self.types.layout("cgroup") };
        to.set("self.cgroup", own);
        // `self` is the first member, so the address of the parent cgroup is that of its css too.
        to.set("self.parent", above.last().copied().unwrap_or(0));
        to.set("self.id", id_of(slot));
        to.set("self.serial_nr", id_of(slot));
        to.set("level", level.into());
        to.set("kn", kn);
        to.set("dom_cgrp", own);
        for (level, ancestor) in (0..).zip(above.into_iter().chain([own])) {
            to.set_element("ancestors", level, ancestor);
        }
    }

    /// Address of a cgroup.
    pub fn addr(&self, memory: &Memory, slot: u32) -> GuestAddr {
        memory.addr(self.cgroups, slot)
    }

    /// The cgroup, removed or not, whose object starts exactly at `addr`.
    pub fn at(&self, memory: &Memory, addr: GuestAddr) -> Option<u32> {
        let slot = memory.slot_at(self.cgroups, addr)?;
        (memory.get_u64(self.cgroups, slot, self.kn) != 0).then_some(slot)
    }

    /// Address of the css_set of a cgroup's tasks.
    pub fn css_set(&self, memory: &Memory, slot: u32) -> GuestAddr {
        memory.addr(self.css_sets, slot)
    }

    /// Address of the `struct task_group` of a cgroup.
    pub fn task_group(&self, memory: &Memory, slot: u32) -> GuestAddr {
        memory.addr(self.task_groups, slot)
    }

    /// Address of the ancestor of `slot` at this level, which may be `slot` itself; `None` for a deeper level.
    pub fn ancestor(&self, memory: &Memory, slot: u32, level: i32) -> Option<GuestAddr> {
        let own = memory.get_u32(self.cgroups, slot, self.level);
        let level = u32::try_from(level).ok().filter(|level| *level <= own)?;
        Some(memory.get_u64(self.cgroups, slot, self.ancestors + level * 8))
    }
}

/// Inode number of a cgroup, which is its id for programs. The root has 1, as in the kernel.
pub(crate) fn id_of(slot: u32) -> u64 {
    u64::from(slot) + 1
}
