// SPDX-License-Identifier: GPL-2.0-only
//! Measures the time during which a CPU idled while a task that was allowed there waited.
//!
//! 1. Tasks with the same affinity mask form a group. Group 0 has the mask of all CPUs, which nearly all tasks have.
//! 2. A group counts its waiting tasks and its idle CPUs. It is *badly served* while both are above 0.
//! 3. The result is the time during which at least one group is badly served.
//!
//! A task that starts or stops waiting updates one group. A CPU that becomes idle or busy updates group 0 and the
//! restricted groups that contain it: none for an unrestricted workload, one where each task is pinned.

use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos};

#[derive(Debug)]
struct Group {
    waiting: u32,
    idle: u32,
}

impl Group {
    fn served_badly(&self) -> bool {
        self.waiting > 0 && self.idle > 0
    }
}

/// Accumulates the time in which a CPU idled while a task waited that may run on it.
#[derive(Debug)]
pub(crate) struct IdleWhileRunnable {
    masks: MaskGroups,
    groups: Vec<Group>,
    idle: Vec<bool>,
    /// Number of groups that are badly served now, and the time since which at least one is.
    bad_groups: u32,
    since: Nanos,
    total: Nanos,
    /// The intervals that make up the total, if recorded.
    gaps: Option<Vec<(Nanos, Nanos)>>,
}

impl IdleWhileRunnable {
    /// Initial state at time 0: all CPUs idle, no task waits.
    pub(crate) fn new(cpus: usize) -> IdleWhileRunnable {
        IdleWhileRunnable {
            masks: MaskGroups::new(cpus),
            groups: vec![Group { waiting: 0, idle: cpus as u32 }],
            idle: vec![true; cpus],
            bad_groups: 0,
            since: Nanos::ZERO,
            total: Nanos::ZERO,
            gaps: None,
        }
    }

    /// Starts recording the intervals that make up the total.
    pub(crate) fn keep_gaps(&mut self) {
        self.gaps = Some(Vec::new());
    }

    /// The recorded intervals between 0 and `end`, in order; adjacent ones are merged.
    pub(crate) fn gaps(&self, end: Nanos) -> Vec<(Nanos, Nanos)> {
        let open = (self.bad_groups > 0).then_some((self.since, end));
        let mut gaps: Vec<(Nanos, Nanos)> = Vec::new();
        for (from, to) in self.gaps.iter().flatten().copied().chain(open).filter(|(from, to)| from < to) {
            match gaps.last_mut().filter(|last| last.1 == from) {
                Some(last) => last.1 = to,
                None => gaps.push((from, to)),
            }
        }
        gaps
    }

    /// Group of the tasks that may run on `allowed`; CPUs that the machine lacks are ignored.
    pub(crate) fn group(&mut self, allowed: &CpuSet) -> GroupId {
        let group = self.masks.find(allowed);
        if group.index() == self.groups.len() {
            let idle = self.masks.mask(group).iter().filter(|cpu| self.idle[cpu.index()]).count() as u32;
            self.groups.push(Group { waiting: 0, idle });
        }
        group
    }

    /// CPUs of a group.
    pub(crate) fn mask(&self, group: GroupId) -> &CpuSet {
        self.masks.mask(group)
    }

    /// A task of `group` starts waiting.
    #[inline]
    pub(crate) fn wait(&mut self, now: Nanos, group: GroupId) {
        self.change(now, group, |group| group.waiting += 1);
    }

    /// A task of `group` stops waiting.
    #[inline]
    pub(crate) fn stop_waiting(&mut self, now: Nanos, group: GroupId) {
        self.change(now, group, |group| group.waiting -= 1);
    }

    /// `cpu` becomes idle or busy.
    #[inline]
    pub(crate) fn set_idle(&mut self, now: Nanos, cpu: CpuId, idle: bool) {
        if std::mem::replace(&mut self.idle[cpu.index()], idle) == idle {
            return;
        }
        let count = |group: &mut Group| if idle { group.idle += 1 } else { group.idle -= 1 };
        self.change(now, GroupId::ALL, count);
        for index in 0..self.masks.restricted(cpu).len() {
            self.change(now, self.masks.restricted(cpu)[index], count);
        }
    }

    /// The result for the time from 0 to `end`.
    pub(crate) fn total(&self, end: Nanos) -> Nanos {
        self.total + if self.bad_groups > 0 { end - self.since } else { Nanos::ZERO }
    }

    #[inline]
    fn change(&mut self, now: Nanos, id: GroupId, how: impl Fn(&mut Group)) {
        let group = &mut self.groups[id.index()];
        let before = group.served_badly();
        how(group);
        match (before, group.served_badly()) {
            (false, true) => {
                if self.bad_groups == 0 {
                    self.since = now;
                }
                self.bad_groups += 1;
            }
            (true, false) => {
                self.bad_groups -= 1;
                if self.bad_groups == 0 {
                    self.total += now - self.since;
                    if let Some(gaps) = &mut self.gaps {
                        gaps.push((self.since, now));
                    }
                }
            }
            _ => {}
        }
    }
}
