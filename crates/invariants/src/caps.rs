// SPDX-License-Identifier: GPL-2.0-only
//! Checks that groups stay below their hard caps, and tells which tasks wait only because their group is at its cap.
//!
//! 1. By default, usage is measured in consecutive windows of one second. In each window a group may use its cap plus
//!    0.02 CPU.
//! 2. If the profile gives a half-life, usage is an exponentially decaying average of the number of CPUs that run the
//!    group. It must never exceed the cap plus 0.02 CPU plus what all CPUs can add within a tick. A group with low
//!    past usage may therefore exceed its cap for a while.
//! 3. Tasks of higher scheduling classes, which the scheduler does not run, count in neither case.
//! 4. A group whose usage is at its cap, or less than 0.02 CPU below it, is *throttled*: its tasks do not count as
//!    waiting for a CPU. Windows do not tell when in the second a group reaches its cap, so without a half-life every
//!    group with a hard cap always counts as throttled.

use crate::demands::Demands;
use ids::{Nanos, TaskId};

const WINDOW: Nanos = Nanos::from_ms(1_000);
/// Tolerance above the cap, in percent of a CPU, for schedulers that charge time and end slices at ticks.
const BEYOND_PERCENT: u64 = 2;
/// Binary digits after the point that [`half_to`] evaluates; the error is far below a nanosecond for any half-life.
const BINARY_DIGITS: u32 = 48;

/// A group that used more than its cap allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub from: Nanos,
    pub tasks: Vec<TaskId>,
    pub value: Nanos,
    pub limit: Nanos,
}

/// A task that becomes throttled, or is no longer throttled, from this time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThrottleChange {
    pub task: TaskId,
    pub at: Nanos,
    pub is_throttled: bool,
}

#[derive(Debug)]
struct Capped {
    percent: u64,
    members: Vec<TaskId>,
    running: u64,
    /// CPU time used in the current window.
    used: Nanos,
    /// Average usage in CPUs.
    usage: f64,
    is_throttled: bool,
    /// Time since which usage exceeds the limit.
    above_since: Option<Nanos>,
    is_reported: bool,
}

impl Capped {
    fn usage_after(&self, time: Nanos, half_life: Nanos) -> f64 {
        let running = self.running as f64;
        running - (running - self.usage) * half_to(time.0 as f64 / half_life.0 as f64)
    }

    /// Time from the last accounting until usage reaches `level`. The caller guarantees that this is at most `most`.
    fn time_to(&self, level: f64, most: Nanos, half_life: Nanos) -> Nanos {
        let rises = self.usage < level;
        let (mut before, mut by) = (0, most.0);
        while before + 1 < by {
            let middle = before + (by - before) / 2;
            let is_there = self.usage_after(Nanos(middle), half_life) >= level;
            (before, by) = if is_there == rises { (before, middle) } else { (middle, by) };
        }
        Nanos(by)
    }
}

/// Computes 2^-x with operations that give the same result on every platform.
fn half_to(x: f64) -> f64 {
    let (mut result, mut factor, mut rest) = (1.0, 0.5, x);
    while rest >= 1.0 && result > 0.0 {
        (result, rest) = (result * factor, rest - 1.0);
    }
    for _ in 0..BINARY_DIGITS {
        (factor, rest) = (f64::sqrt(factor), rest * 2.0);
        if rest >= 1.0 {
            (result, rest) = (result * factor, rest - 1.0);
        }
    }
    result
}

/// Usage of all groups with a hard cap.
#[derive(Debug)]
pub(crate) struct Caps {
    half_life: Option<Nanos>,
    /// The most that all CPUs together can add to the average usage within a tick.
    within_tick: f64,
    groups: Vec<Capped>,
    /// Indices into `groups` that each workload group, and each task, is charged to.
    of_group: Vec<Vec<usize>>,
    of_task: Vec<Vec<usize>>,
    /// Time at which each task was last throttled.
    throttled_until: Vec<Nanos>,
    since: Nanos,
    accounted_until: Nanos,
    has_checked: bool,
}

impl Caps {
    pub(crate) fn new(demands: &Demands, half_life: Option<Nanos>, cpus: usize, tick: Nanos) -> Caps {
        let mut groups = Vec::new();
        let mut place = |percent: u32| {
            groups.push(Capped {
                percent: percent.into(),
                members: Vec::new(),
                running: 0,
                used: Nanos::ZERO,
                usage: 0.0,
                is_throttled: half_life.is_none(),
                above_since: None,
                is_reported: false,
            });
            groups.len() - 1
        };
        let places: Vec<Option<usize>> =
            demands.groups.iter().map(|group| group.hard_cap_percent.map(&mut place)).collect();
        let charged_groups = |group: usize| demands.charged_groups(group).filter_map(|one| places[one]).collect();
        let of_group = (0..places.len()).map(charged_groups).collect();
        let of_tick = |half_life: Nanos| cpus as f64 * (1.0 - half_to(tick.0 as f64 / half_life.0 as f64));
        Caps {
            half_life,
            within_tick: half_life.map_or(0.0, of_tick),
            groups,
            of_group,
            of_task: Vec::new(),
            throttled_until: Vec::new(),
            since: Nanos::ZERO,
            accounted_until: Nanos::ZERO,
            has_checked: false,
        }
    }

    /// Registers a new task.
    pub(crate) fn announce(&mut self, task: TaskId, group: Option<usize>) {
        let caps = group.map_or(Vec::new(), |group| self.of_group[group].clone());
        caps.iter().for_each(|&cap| self.groups[cap].members.push(task));
        self.of_task.push(caps);
        self.throttled_until.push(Nanos::ZERO);
    }

    /// Moves a renamed task to the groups of its new name.
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

    /// Whether any usage was checked: a window ended, or a group reached its cap.
    pub(crate) fn has_checked(&self) -> bool {
        self.has_checked
    }

    /// Whether a task waits only because its group is throttled.
    pub(crate) fn is_throttled(&self, task: TaskId) -> bool {
        self.of_task[task.index()].iter().any(|&cap| self.groups[cap].is_throttled)
    }

    /// Time until which a task was last throttled.
    pub(crate) fn throttled_until(&self, task: TaskId) -> Nanos {
        self.throttled_until[task.index()]
    }

    /// Notes that a task starts or stops running.
    pub(crate) fn set_running(&mut self, now: Nanos, task: TaskId, runs: bool) {
        self.account(now);
        for &cap in &self.of_task[task.index()] {
            let running = &mut self.groups[cap].running;
            *running = if runs { *running + 1 } else { running.saturating_sub(1) };
        }
    }

    fn account(&mut self, now: Nanos) {
        let time = now.since(self.accounted_until);
        self.accounted_until = now;
        for group in &mut self.groups {
            group.used += Nanos(group.running * time.0);
            if let Some(half_life) = self.half_life.filter(|_| time > Nanos::ZERO) {
                group.usage = group.usage_after(time, half_life);
            }
        }
    }

    /// Advances the average usage to `now` and returns the tasks that became throttled or stopped being so.
    pub(crate) fn advance(&mut self, now: Nanos) -> Vec<ThrottleChange> {
        let Some(half_life) = self.half_life.filter(|_| now > self.accounted_until && !self.groups.is_empty()) else {
            return Vec::new();
        };
        let (begin, time) = (self.accounted_until, now.since(self.accounted_until));
        let mut changed = Vec::new();
        for (place, group) in self.groups.iter_mut().enumerate() {
            let level = |percent: u64| percent as f64 / 100.0;
            let throttled_at = level(group.percent.saturating_sub(BEYOND_PERCENT));
            let too_much = level(group.percent + BEYOND_PERCENT) + self.within_tick;
            let usage = group.usage_after(time, half_life);
            self.has_checked |= usage >= level(group.percent);
            if usage > too_much && group.above_since.is_none() {
                group.above_since = Some(begin + group.time_to(too_much, time, half_life));
            } else if usage <= too_much {
                (group.above_since, group.is_reported) = (None, false);
            }
            if (usage >= throttled_at) != group.is_throttled {
                changed.push((place, begin + group.time_to(throttled_at, time, half_life)));
            }
        }
        self.account(now);
        changed.into_iter().flat_map(|(place, at)| self.toggle_throttled(place, at)).collect()
    }

    fn toggle_throttled(&mut self, place: usize, at: Nanos) -> Vec<ThrottleChange> {
        let members = self.groups[place].members.clone();
        let before: Vec<bool> = members.iter().map(|member| self.is_throttled(*member)).collect();
        let is_throttled = !self.groups[place].is_throttled;
        self.groups[place].is_throttled = is_throttled;
        let others = members.into_iter().zip(before).filter(|(member, before)| self.is_throttled(*member) != *before);
        let changes: Vec<ThrottleChange> = others.map(|(task, _)| ThrottleChange { task, at, is_throttled }).collect();
        changes.iter().for_each(|toggle_throttled| self.throttled_until[toggle_throttled.task.index()] = at);
        changes
    }

    /// Restarts the windows.
    pub(crate) fn reset_windows(&mut self, now: Nanos) {
        self.account(now);
        self.since = now;
        self.groups.iter_mut().for_each(|group| group.used = Nanos::ZERO);
    }

    /// Clears the average usage, as for a newly attached scheduler that has no history.
    pub(crate) fn forget(&mut self) {
        self.groups.iter_mut().for_each(|group| group.usage = 0.0);
    }

    /// Returns the groups that exceeded their cap and were not reported before.
    pub(crate) fn check(&mut self, now: Nanos) -> Vec<Exceeded> {
        if self.half_life.is_some() { self.check_usage() } else { self.check_window(now) }
    }

    fn check_usage(&mut self) -> Vec<Exceeded> {
        let within_tick = self.within_tick;
        let cpus = |usage: f64| Nanos((usage * WINDOW.0 as f64) as u64);
        let exceeded = |group: &mut Capped| {
            let from = group.above_since.filter(|_| !group.is_reported)?;
            group.is_reported = true;
            let limit = cpus((group.percent + BEYOND_PERCENT) as f64 / 100.0 + within_tick);
            Some(Exceeded { from, tasks: group.members.clone(), value: cpus(group.usage), limit })
        };
        self.groups.iter_mut().filter_map(exceeded).collect()
    }

    fn check_window(&mut self, now: Nanos) -> Vec<Exceeded> {
        let length = now.since(self.since);
        if length < WINDOW {
            return Vec::new();
        }
        self.account(now);
        let from = self.since;
        let exceeded = |group: &Capped| {
            let limit = Nanos(length.0 * (group.percent + BEYOND_PERCENT) / 100);
            let too_much = group.used > limit;
            too_much.then(|| Exceeded { from, tasks: group.members.clone(), value: group.used, limit })
        };
        let found = self.groups.iter().filter_map(exceeded).collect();
        self.has_checked |= !self.groups.is_empty();
        self.reset_windows(now);
        found
    }
}

#[cfg(test)]
mod tests;
