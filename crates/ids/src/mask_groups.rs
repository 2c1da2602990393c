// SPDX-License-Identifier: GPL-2.0-only
//! Groups of tasks with the same affinity mask.

use crate::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// Index of a group of tasks with the same mask. Indices are dense from 0 in the order of first use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group of tasks that may use all CPUs, which contains nearly all tasks.
    pub const ALL: GroupId = GroupId(0);

    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All mask groups of a run. A change of a CPU affects [`GroupId::ALL`] and the restricted groups that contain the
/// CPU: none for a workload without affinity masks, one if each task is pinned.
#[derive(Clone, Debug)]
pub struct MaskGroups {
    masks: Vec<CpuSet>,
    by_mask: BTreeMap<Vec<u64>, GroupId>,
    /// For each CPU, the groups that contain it, except [`GroupId::ALL`].
    of_cpu: Vec<Vec<GroupId>>,
}

impl MaskGroups {
    /// Creates the groups of a machine with this number of CPUs; [`GroupId::ALL`] exists from the start.
    pub fn new(cpus: usize) -> MaskGroups {
        let all = CpuSet::first_n(cpus);
        MaskGroups {
            by_mask: BTreeMap::from([(key(&all), GroupId::ALL)]),
            masks: vec![all],
            of_cpu: vec![Vec::new(); cpus],
        }
    }

    /// Returns the group of tasks that may run on `allowed`, ignoring CPUs that the machine does not have. A new
    /// group gets the next index, [`MaskGroups::len`].
    pub fn find(&mut self, allowed: &CpuSet) -> GroupId {
        let mask = allowed.intersection(&self.masks[0]);
        let next = GroupId(self.masks.len() as u32);
        let group = *self.by_mask.entry(key(&mask)).or_insert(next);
        if group == next {
            mask.iter().for_each(|cpu| self.of_cpu[cpu.index()].push(group));
            self.masks.push(mask);
        }
        group
    }

    /// Number of groups, at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.masks.len()
    }

    /// CPUs of a group.
    pub fn mask(&self, group: GroupId) -> &CpuSet {
        &self.masks[group.index()]
    }

    /// Groups that contain a CPU, without [`GroupId::ALL`].
    #[inline]
    pub fn restricted(&self, cpu: CpuId) -> &[GroupId] {
        &self.of_cpu[cpu.index()]
    }

    /// All groups that contain a CPU.
    #[inline]
    pub fn of_cpu(&self, cpu: CpuId) -> impl Iterator<Item = GroupId> + '_ {
        std::iter::once(GroupId::ALL).chain(self.restricted(cpu).iter().copied())
    }
}

/// Words of a mask without trailing zeros, of which equal sets may have different numbers.
fn key(mask: &CpuSet) -> Vec<u64> {
    let significant = mask.words().iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    mask.words()[..significant].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_masks_share_a_group_and_each_cpu_lists_its_groups() {
        let mut groups = MaskGroups::new(4);
        assert_eq!(groups.find(&CpuSet::first_n(4)), GroupId::ALL);
        assert_eq!(groups.find(&CpuSet::first_n(70)), GroupId::ALL, "the machine has four");
        let pair = groups.find(&CpuSet::from_words(&[0b0110]));
        assert_eq!((pair, groups.len()), (GroupId(1), 2));
        assert_eq!(groups.find(&CpuSet::from_words(&[0b0110, 0, 0])), pair);
        let one = groups.find(&CpuSet::from_words(&[0b0100]));
        assert_eq!(groups.of_cpu(CpuId(2)).collect::<Vec<_>>(), [GroupId::ALL, pair, one]);
        assert_eq!(groups.of_cpu(CpuId(0)).collect::<Vec<_>>(), [GroupId::ALL]);
        assert_eq!(groups.mask(pair).iter().collect::<Vec<_>>(), [CpuId(1), CpuId(2)]);
    }
}
