// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup hierarchy. Every cgroup has the cpu controller.

use crate::guest::cgroup_id;
use crate::{CgroupId, CgroupKnobs};
use ids::CpuId;

/// A cgroup. A removed cgroup keeps its number.
#[derive(Debug, Default)]
pub(crate) struct Cgroup {
    /// Parent cgroup; `None` for the root.
    pub parent: Option<CgroupId>,
    /// Child cgroups, in the order of creation.
    pub children: Vec<CgroupId>,
    /// Depth below the root.
    pub level: u32,
    /// Settings made by the user.
    pub knobs: CgroupKnobs,
    /// SCX_TG_INITED: `cgroup_init` was called for it.
    pub is_initialized: bool,
    /// Whether the cgroup was removed.
    pub is_removed: bool,
    /// Weight of the fair tasks and groups that compete in it, by CPU, as last computed; `load` is their sum.
    loads: Vec<u64>,
    load: u64,
}

/// All cgroups, by number.
#[derive(Debug)]
pub(crate) struct Cgroups {
    all: Vec<Cgroup>,
    /// Autogroups by session, with the weights that compete in them. Tasks join them at their creation.
    autogroups: Vec<(u32, Cgroup)>,
    /// `scx_cgroup_enabled`: the scheduler's cgroup ops are called.
    pub enabled: bool,
}

impl Default for Cgroups {
    /// A hierarchy with the root only.
    fn default() -> Cgroups {
        Cgroups { all: vec![Cgroup::default()], autogroups: Vec::new(), enabled: false }
    }
}

impl Cgroups {
    /// A cgroup, removed or not.
    pub fn get(&self, cgroup: CgroupId) -> &Cgroup {
        &self.all[cgroup.0 as usize]
    }

    /// A cgroup, removed or not, to be changed.
    pub fn get_mut(&mut self, cgroup: CgroupId) -> &mut Cgroup {
        &mut self.all[cgroup.0 as usize]
    }

    /// Number of cgroups ever created, the root included.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Number of groups of the fair class: cgroups, then autogroups.
    pub fn fair_count(&self) -> usize {
        self.all.len() + self.autogroups.len()
    }

    /// Number of a session's autogroup among the groups of the fair class.
    pub fn autogroup(&mut self, session: u32) -> usize {
        let known = self.autogroups.iter().position(|(of, _)| *of == session);
        let place = known.unwrap_or_else(|| {
            self.autogroups.push((session, Cgroup { parent: Some(CgroupId::ROOT), ..Cgroup::default() }));
            self.autogroups.len() - 1
        });
        self.all.len() + place
    }

    /// Group of the fair class with this number.
    pub fn fair_group(&self, number: usize) -> &Cgroup {
        self.all.get(number).unwrap_or_else(|| &self.autogroups[number - self.all.len()].1)
    }

    /// Records the weight that competes in a group of the fair class on this CPU; returns the sum over all CPUs.
    pub fn note_load(&mut self, number: usize, cpu: CpuId, load: u64) -> u64 {
        let cgroups = self.all.len();
        let entry = self.all.get_mut(number).unwrap_or_else(|| &mut self.autogroups[number - cgroups].1);
        if entry.loads.len() <= cpu.index() {
            entry.loads.resize(cpu.index() + 1, 0);
        }
        let old = std::mem::replace(&mut entry.loads[cpu.index()], load);
        entry.load = entry.load - old + load;
        entry.load
    }

    /// Creates a cgroup in `parent`.
    pub fn make(&mut self, parent: CgroupId) -> CgroupId {
        let cgroup = CgroupId(self.all.len() as u32);
        let level = self.get(parent).level + 1;
        self.all.push(Cgroup { parent: Some(parent), level, ..Cgroup::default() });
        self.get_mut(parent).children.push(cgroup);
        cgroup
    }

    /// Removes a cgroup from the hierarchy.
    pub fn remove(&mut self, cgroup: CgroupId) {
        let entry = self.get_mut(cgroup);
        entry.is_removed = true;
        let parent = entry.parent.expect("the root stays");
        self.get_mut(parent).children.retain(|child| *child != cgroup);
    }

    /// The cgroup with this id, unless it was removed.
    pub fn by_id(&self, id: u64) -> Option<CgroupId> {
        let found = (0..self.all.len() as u32).find(|cgroup| cgroup_id(*cgroup) == id).map(CgroupId);
        found.filter(|cgroup| !self.get(*cgroup).is_removed)
    }

    /// All cgroups, parents before children, siblings in the order of creation (`css_for_each_descendant_pre`).
    pub fn parents_first(&self) -> Vec<CgroupId> {
        let mut order = Vec::new();
        let mut todo = vec![CgroupId::ROOT];
        while let Some(cgroup) = todo.pop() {
            order.push(cgroup);
            todo.extend(self.get(cgroup).children.iter().rev());
        }
        order
    }

    /// All cgroups, children before parents, siblings in the order of creation (`css_for_each_descendant_post`).
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
    fn preorder_and_postorder_keep_siblings_in_creation_order() {
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
