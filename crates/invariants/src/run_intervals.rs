// SPDX-License-Identifier: GPL-2.0-only
//! Checks that slices end: finds tasks that keep a CPU for longer although another task waits that may run there.
//!
//! A CPU is *contested* while a task waits that may use it. A running task may keep a contested CPU for its slice
//! plus some ticks. The time counts from the start of its run interval or, if that is later, from when the CPU became
//! contested: a task that runs alone gets one default slice after the other. An infinite slice (`SCX_SLICE_INF`)
//! counts as the default one, since a scheduler with this promise gives slices that end.

use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos, TaskId};

/// `SCX_SLICE_DFL`, which the kernel gives to a task that continues because no other is there.
const DEFAULT_SLICE: Nanos = Nanos::from_ms(20);

/// A run interval that exceeded its limit: the time since which it counts, its length from then on, and the limit.
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
struct Interval {
    since: Nanos,
    slice: Nanos,
}

/// Run intervals of all CPUs.
#[derive(Debug)]
pub(crate) struct RunIntervals {
    /// Time for which a run interval may exceed the slice.
    beyond: Nanos,
    groups: MaskGroups,
    contests: Vec<Contest>,
    of_task: Vec<GroupId>,
    slices: Vec<Nanos>,
    waits: Vec<bool>,
    intervals: Vec<Interval>,
    has_checked: bool,
}

impl RunIntervals {
    pub(crate) fn new(cpus: usize, beyond: Nanos) -> RunIntervals {
        RunIntervals {
            beyond,
            groups: MaskGroups::new(cpus),
            contests: vec![Contest::default()],
            of_task: Vec::new(),
            slices: Vec::new(),
            waits: Vec::new(),
            intervals: vec![Interval::default(); cpus],
            has_checked: false,
        }
    }

    fn group(&mut self, allowed: &CpuSet) -> GroupId {
        let group = self.groups.find(allowed);
        self.contests.resize(self.groups.len(), Contest::default());
        group
    }

    /// Registers a new task.
    pub(crate) fn announce(&mut self, allowed: &CpuSet) {
        let group = self.group(allowed);
        self.of_task.push(group);
        self.slices.push(DEFAULT_SLICE);
        self.waits.push(false);
    }

    /// Notes that a task begins or stops to wait.
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

    /// Changes the mask of a task.
    pub(crate) fn set_allowed(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) {
        let (waits, group) = (self.waits[task.index()], self.group(allowed));
        if group == self.of_task[task.index()] {
            return;
        }
        self.set_waiting(now, task, false);
        self.of_task[task.index()] = group;
        self.set_waiting(now, task, waits);
    }

    /// Sets the slice that a task gets when it runs next.
    pub(crate) fn set_slice(&mut self, task: TaskId, slice: Nanos) {
        self.slices[task.index()] = if slice == Nanos(u64::MAX) { DEFAULT_SLICE } else { slice };
    }

    /// Notes that a task starts to run.
    pub(crate) fn begin(&mut self, now: Nanos, task: TaskId, cpu: CpuId) {
        self.intervals[cpu.index()] = Interval { since: now, slice: self.slices[task.index()] };
    }

    /// Whether a run interval ended on a contested CPU.
    pub(crate) fn has_checked(&self) -> bool {
        self.has_checked
    }

    /// Ends the run interval on this CPU and returns it if it was too long. Must be called before the waiting tasks
    /// change.
    pub(crate) fn end(&mut self, now: Nanos, cpu: CpuId) -> Option<Overlong> {
        let contested = |group: GroupId| Some(self.contests[group.index()]).filter(|contest| contest.waiting > 0);
        let contested = self.groups.of_cpu(cpu).filter_map(contested).map(|contest| contest.since).min()?;
        let Interval { since, slice } = self.intervals[cpu.index()];
        self.has_checked = true;
        let from = since.max(contested);
        let slice = if contested > since { slice.max(DEFAULT_SLICE) } else { slice };
        let (value, limit) = (now.since(from), Nanos(slice.0.saturating_add(self.beyond.0)));
        (value > limit).then_some(Overlong { from, value, limit })
    }
}

#[cfg(test)]
mod tests;
