// SPDX-License-Identifier: GPL-2.0-only
//! Whether slices end: who keeps a CPU for longer while another task waits that may run there.
//!
//! A CPU is *contested* while some task waits that may use it. A task may keep it for its slice and some ticks from when it
//! came, or from when the CPU became contested if that was later: who is alone gets one slice after the other, and these are
//! the kernel's default ones. Who promises this gives slices that end: one without end (`SCX_SLICE_INF`) counts as the default.

use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos, TaskId};

/// `SCX_SLICE_DFL`: what the kernel gives to a task that goes on because nobody else is there.
const DEFAULT_SLICE: Nanos = Nanos::from_ms(20);

/// A stay that was too long: since when the CPU was contested, for how long, and how long it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlong {
    pub from: Nanos,
    pub value: Nanos,
    pub limit: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Contest {
    waiting: u32,
    since: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    since: Nanos,
    slice: Nanos,
}

/// All CPUs.
#[derive(Debug)]
pub(crate) struct Stints {
    /// What a stay may take beyond the slice.
    beyond: Nanos,
    groups: MaskGroups,
    contests: Vec<Contest>,
    of_task: Vec<GroupId>,
    slices: Vec<Nanos>,
    waits: Vec<bool>,
    stays: Vec<Stay>,
    has_judged: bool,
}

impl Stints {
    pub(crate) fn new(cpus: usize, beyond: Nanos) -> Stints {
        Stints {
            beyond,
            groups: MaskGroups::new(cpus),
            contests: vec![Contest::default()],
            of_task: Vec::new(),
            slices: Vec::new(),
            waits: Vec::new(),
            stays: vec![Stay::default(); cpus],
            has_judged: false,
        }
    }

    fn group(&mut self, allowed: &CpuSet) -> GroupId {
        let group = self.groups.find(allowed);
        self.contests.resize(self.groups.len(), Contest::default());
        group
    }

    /// A task exists.
    pub(crate) fn announce(&mut self, allowed: &CpuSet) {
        let group = self.group(allowed);
        self.of_task.push(group);
        self.slices.push(DEFAULT_SLICE);
        self.waits.push(false);
    }

    /// A task waits, or no longer.
    pub(crate) fn set_waiting(&mut self, now: Nanos, task: TaskId, waits: bool) {
        if std::mem::replace(&mut self.waits[task.index()], waits) == waits {
            return;
        }
        let contest = &mut self.contests[self.of_task[task.index()].index()];
        if waits {
            contest.waiting += 1;
            if contest.waiting == 1 {
                contest.since = now;
            }
        } else {
            contest.waiting -= 1;
        }
    }

    /// A task has another mask.
    pub(crate) fn set_allowed(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) {
        let (waits, group) = (self.waits[task.index()], self.group(allowed));
        if group == self.of_task[task.index()] {
            return;
        }
        self.set_waiting(now, task, false);
        self.of_task[task.index()] = group;
        self.set_waiting(now, task, waits);
    }

    /// A task will get this slice when it runs.
    pub(crate) fn set_slice(&mut self, task: TaskId, slice: Nanos) {
        self.slices[task.index()] = if slice == Nanos(u64::MAX) { DEFAULT_SLICE } else { slice };
    }

    /// A task has a CPU from now on.
    pub(crate) fn begin(&mut self, now: Nanos, task: TaskId, cpu: CpuId) {
        self.stays[cpu.index()] = Stay { since: now, slice: self.slices[task.index()] };
    }

    /// Whether a contested CPU was left.
    pub(crate) fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// The stay on this CPU ends; what was wrong with it, judged before anybody else comes or goes.
    pub(crate) fn end(&mut self, now: Nanos, cpu: CpuId) -> Option<Overlong> {
        let contested = |group: GroupId| Some(self.contests[group.index()]).filter(|contest| contest.waiting > 0);
        let contested = self.groups.of_cpu(cpu).filter_map(contested).map(|contest| contest.since).min()?;
        let Stay { since, slice } = self.stays[cpu.index()];
        self.has_judged = true;
        let from = since.max(contested);
        let slice = if contested > since { slice.max(DEFAULT_SLICE) } else { slice };
        let (value, limit) = (now.since(from), Nanos(slice.0.saturating_add(self.beyond.0)));
        (value > limit).then_some(Overlong { from, value, limit })
    }
}

#[cfg(test)]
mod tests;
