// SPDX-License-Identifier: GPL-2.0-only
//! Tasks by the CPUs on which they may run.

use crate::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// Index of a group of tasks with the same mask: dense, from 0 in the order in which the masks came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group of all CPUs, which nearly all tasks have.
    pub const ALL: GroupId = GroupId(0);

    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The groups of a run. A CPU that changes concerns [`GroupId::ALL`] and the restricted groups that contain it: none for an
/// unrestricted workload, one where each task is pinned.
#[derive(Clone, Debug)]
pub struct MaskGroups {
    masks: Vec<CpuSet>,
    by_mask: BTreeMap<Vec<u64>, GroupId>,
    /// The restricted groups that contain each CPU.
    of_cpu: Vec<Vec<GroupId>>,
}

impl MaskGroups {
    /// For a machine of so many CPUs; [`GroupId::ALL`] is there.
    pub fn new(cpus: usize) -> MaskGroups {
        let all = CpuSet::first_n(cpus);
        MaskGroups {
            by_mask: BTreeMap::from([(key(&all), GroupId::ALL)]),
            masks: vec![all],
            of_cpu: vec![Vec::new(); cpus],
        }
    }

    /// The group of the tasks that may run on `allowed`; CPUs that the machine lacks do not count. A new one has the highest
    /// number: see [`MaskGroups::len`].
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

    /// How many there are: at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.masks.len()
    }

    /// The CPUs of a group.
    pub fn mask(&self, group: GroupId) -> &CpuSet {
        &self.masks[group.index()]
    }

    /// The groups that contain a CPU, but for [`GroupId::ALL`].
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

/// Words without zeros at the end: equal sets may have more or fewer of them.
fn key(mask: &CpuSet) -> Vec<u64> {
    let significant = mask.words().iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    mask.words()[..significant].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_masks_are_one_group_and_cpus_know_theirs() {
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
