// SPDX-License-Identifier: GPL-2.0-only
//! The hierarchy of cgroups, all of which have the cpu controller.

use crate::guest::cgroup_id;
use crate::{CgroupId, CgroupKnobs};
use ids::CpuId;

/// A cgroup: of one that is gone the number stays.
#[derive(Debug, Default)]
pub(crate) struct Cgroup {
    /// What it is in; `None` for the root.
    pub parent: Option<CgroupId>,
    /// What is in it, in the order of making.
    pub children: Vec<CgroupId>,
    /// How far below the root.
    pub level: u32,
    /// What its user set.
    pub knobs: CgroupKnobs,
    /// SCX_TG_INITED: the scheduler was told of it.
    pub is_told: bool,
    /// It was removed.
    pub is_gone: bool,
    /// The weights of fair tasks and groups that compete in it, by CPU, as they were when they were last reckoned; and their
    /// sum.
    loads: Vec<u64>,
    load: u64,
}

/// All of them by number.
#[derive(Debug)]
pub(crate) struct Cgroups {
    all: Vec<Cgroup>,
    /// `scx_cgroup_enabled`: a scheduler is told what happens to them.
    pub enabled: bool,
}

impl Default for Cgroups {
    /// The root.
    fn default() -> Cgroups {
        Cgroups { all: vec![Cgroup::default()], enabled: false }
    }
}

impl Cgroups {
    /// One that is there, or was.
    pub fn get(&self, cgroup: CgroupId) -> &Cgroup {
        &self.all[cgroup.0 as usize]
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, cgroup: CgroupId) -> &mut Cgroup {
        &mut self.all[cgroup.0 as usize]
    }

    /// How many there are or were, with the root.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// So much competes in it on this CPU now; the sum over all CPUs.
    pub fn note_load(&mut self, cgroup: CgroupId, cpu: CpuId, load: u64) -> u64 {
        let entry = self.get_mut(cgroup);
        if entry.loads.len() <= cpu.index() {
            entry.loads.resize(cpu.index() + 1, 0);
        }
        let old = std::mem::replace(&mut entry.loads[cpu.index()], load);
        entry.load = entry.load - old + load;
        entry.load
    }

    /// A new one in `parent`.
    pub fn make(&mut self, parent: CgroupId) -> CgroupId {
        let cgroup = CgroupId(self.all.len() as u32);
        let level = self.get(parent).level + 1;
        self.all.push(Cgroup { parent: Some(parent), level, ..Cgroup::default() });
        self.get_mut(parent).children.push(cgroup);
        cgroup
    }

    /// Takes it out of the hierarchy.
    pub fn remove(&mut self, cgroup: CgroupId) {
        let entry = self.get_mut(cgroup);
        entry.is_gone = true;
        let parent = entry.parent.expect("the root stays");
        self.get_mut(parent).children.retain(|child| *child != cgroup);
    }

    /// The one with this id, unless it is gone.
    pub fn by_id(&self, id: u64) -> Option<CgroupId> {
        let found = (0..self.all.len() as u32).find(|cgroup| cgroup_id(*cgroup) == id).map(CgroupId);
        found.filter(|cgroup| !self.get(*cgroup).is_gone)
    }

    /// Parents before what is in them, siblings in the order of making (`css_for_each_descendant_pre`).
    pub fn parents_first(&self) -> Vec<CgroupId> {
        let mut order = Vec::new();
        let mut todo = vec![CgroupId::ROOT];
        while let Some(cgroup) = todo.pop() {
            order.push(cgroup);
            todo.extend(self.get(cgroup).children.iter().rev());
        }
        order
    }

    /// Parents after what is in them, siblings in the order of making (`css_for_each_descendant_post`).
    pub fn children_first(&self) -> Vec<CgroupId> {
        let mut order = Vec::new();
        let mut todo = vec![CgroupId::ROOT];
        while let Some(cgroup) = todo.pop() {
            order.push(cgroup);
            todo.extend(&self.get(cgroup).children);
        }
        order.reverse();
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_keep_that_of_siblings() {
        let mut cgroups = Cgroups::default();
        let a = cgroups.make(CgroupId::ROOT);
        let b = cgroups.make(CgroupId::ROOT);
        let [x, y] = [a, a].map(|parent| cgroups.make(parent));
        assert_eq!(cgroups.parents_first(), [CgroupId::ROOT, a, x, y, b]);
        assert_eq!(cgroups.children_first(), [x, y, a, b, CgroupId::ROOT]);
        cgroups.remove(x);
        assert_eq!(cgroups.children_first(), [y, a, b, CgroupId::ROOT]);
        assert_eq!((cgroups.by_id(cgroup_id(x.0)), cgroups.by_id(cgroup_id(y.0))), (None, Some(y)));
    }
}
