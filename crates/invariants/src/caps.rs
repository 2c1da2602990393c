// SPDX-License-Identifier: GPL-2.0-only
//! Whether groups keep below their caps: in each second, one after another, a group with a hard cap uses no more than that
//! and two hundredths of a CPU.

use crate::demands::Demands;
use ids::{Nanos, TaskId};

const WINDOW: Nanos = Nanos::from_ms(1_000);
/// Beyond the cap: where time is charged by ticks and slices end at them, that is little.
const BEYOND_PERCENT: u64 = 2;

/// A group that had too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub from: Nanos,
    pub tasks: Vec<TaskId>,
    pub value: Nanos,
    pub limit: Nanos,
}

#[derive(Debug)]
struct Capped {
    percent: u64,
    members: Vec<TaskId>,
    running: u64,
    used: Nanos,
}

/// All groups that have a cap.
#[derive(Debug)]
pub(crate) struct Caps {
    groups: Vec<Capped>,
    /// Those of each group, and of each task, as places in `groups`.
    of_group: Vec<Vec<usize>>,
    of_task: Vec<Vec<usize>>,
    since: Nanos,
    reckoned: Nanos,
    has_judged: bool,
}

impl Caps {
    pub(crate) fn new(demands: &Demands) -> Caps {
        let mut groups = Vec::new();
        let mut place = |percent: u32| {
            groups.push(Capped { percent: percent.into(), members: Vec::new(), running: 0, used: Nanos::ZERO });
            groups.len() - 1
        };
        let places: Vec<Option<usize>> =
            demands.groups.iter().map(|group| group.hard_cap_percent.map(&mut place)).collect();
        let paying = |group: usize| demands.paying(group).filter_map(|one| places[one]).collect();
        let of_group = (0..places.len()).map(paying).collect();
        let (since, reckoned) = (Nanos::ZERO, Nanos::ZERO);
        Caps { groups, of_group, of_task: Vec::new(), since, reckoned, has_judged: false }
    }

    /// A task exists.
    pub(crate) fn announce(&mut self, task: TaskId, group: Option<usize>) {
        let caps = group.map_or(Vec::new(), |group| self.of_group[group].clone());
        caps.iter().for_each(|&cap| self.groups[cap].members.push(task));
        self.of_task.push(caps);
    }

    /// A task has another name, and so may be of another group.
    pub(crate) fn rename(&mut self, now: Nanos, task: TaskId, group: Option<usize>, runs: bool) {
        let caps = group.map_or(Vec::new(), |group| self.of_group[group].clone());
        if self.of_task[task.index()] == caps {
            return;
        }
        if runs {
            self.set_running(now, task, false);
        }
        self.of_task[task.index()].iter().for_each(|&cap| self.groups[cap].members.retain(|member| *member != task));
        caps.iter().for_each(|&cap| self.groups[cap].members.push(task));
        self.of_task[task.index()] = caps;
        if runs {
            self.set_running(now, task, true);
        }
    }

    /// Whether a window of a group that has a cap was judged.
    pub(crate) fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// A task runs from now on, or no longer.
    pub(crate) fn set_running(&mut self, now: Nanos, task: TaskId, runs: bool) {
        self.reckon(now);
        for &cap in &self.of_task[task.index()] {
            let running = &mut self.groups[cap].running;
            *running = if runs { *running + 1 } else { running.saturating_sub(1) };
        }
    }

    fn reckon(&mut self, now: Nanos) {
        let time = now.since(self.reckoned).0;
        self.reckoned = now;
        self.groups.iter_mut().for_each(|group| group.used += Nanos(group.running * time));
    }

    /// Windows begin anew.
    pub(crate) fn disturb(&mut self, now: Nanos) {
        self.reckon(now);
        self.since = now;
        self.groups.iter_mut().for_each(|group| group.used = Nanos::ZERO);
    }

    /// Who had too much, if the window is over.
    pub(crate) fn look(&mut self, now: Nanos) -> Vec<Exceeded> {
        let length = now.since(self.since);
        if length < WINDOW {
            return Vec::new();
        }
        self.reckon(now);
        let from = self.since;
        let exceeded = |group: &Capped| {
            let limit = Nanos(length.0 * (group.percent + BEYOND_PERCENT) / 100);
            let too_much = group.used > limit;
            too_much.then(|| Exceeded { from, tasks: group.members.clone(), value: group.used, limit })
        };
        let found = self.groups.iter().filter_map(exceeded).collect();
        self.has_judged |= !self.groups.is_empty();
        self.disturb(now);
        found
    }
}

#[cfg(test)]
mod tests;
