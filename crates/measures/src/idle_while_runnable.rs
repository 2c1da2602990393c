// SPDX-License-Identifier: GPL-2.0-only
//! For how long did some CPU idle while a task that was allowed there waited?
//!
//! 1. Tasks with the same affinity mask form a group. Group 0 is "every CPU", which nearly all tasks have.
//! 2. A group knows how many of its tasks wait and how many of its CPUs idle. It is *served badly* while both are
//!    above 0.
//! 3. The answer is the time during which at least one group is served badly.
//!
//! A task that starts or stops to wait touches one group. A CPU that starts or stops to idle touches group 0 and the
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

/// The running answer.
#[derive(Debug)]
pub(crate) struct IdleWhileRunnable {
    masks: MaskGroups,
    groups: Vec<Group>,
    idle: Vec<bool>,
    /// How many groups are served badly now, and since when at least one is.
    bad_groups: u32,
    since: Nanos,
    total: Nanos,
    /// The times that make up the total, if they are kept.
    gaps: Option<Vec<(Nanos, Nanos)>>,
}

impl IdleWhileRunnable {
    /// All CPUs idle, nobody waits, at time 0.
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

    /// Keeps each time that adds to the answer.
    pub(crate) fn keep_gaps(&mut self) {
        self.gaps = Some(Vec::new());
    }

    /// These times between 0 and `end`, in order; those that touch are one.
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

    /// The group of the tasks that may run on `allowed`; CPUs that the machine lacks do not count.
    pub(crate) fn group(&mut self, allowed: &CpuSet) -> GroupId {
        let group = self.masks.find(allowed);
        if group.index() == self.groups.len() {
            let idle = self.masks.mask(group).iter().filter(|cpu| self.idle[cpu.index()]).count() as u32;
            self.groups.push(Group { waiting: 0, idle });
        }
        group
    }

    /// The CPUs of a group.
    pub(crate) fn mask(&self, group: GroupId) -> &CpuSet {
        self.masks.mask(group)
    }

    /// One more task of `group` waits.
    #[inline]
    pub(crate) fn wait(&mut self, now: Nanos, group: GroupId) {
        self.change(now, group, |group| group.waiting += 1);
    }

    /// One task of `group` waits no longer.
    #[inline]
    pub(crate) fn stop_waiting(&mut self, now: Nanos, group: GroupId) {
        self.change(now, group, |group| group.waiting -= 1);
    }

    /// `cpu` idles from now on, or no longer.
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

    /// The answer for the time from 0 to `end`.
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
