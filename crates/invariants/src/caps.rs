// SPDX-License-Identifier: GPL-2.0-only
//! Whether groups keep below their caps, and whose tasks wait because of one.
//!
//! 1. By seconds: in each, one after another, a group with a hard cap uses no more than that and two hundredths of a CPU.
//! 2. Or by usage, for whoever says so: an average over the past of the CPUs that a group has, in which what is one half-life
//!    old counts half. At no time it is more than the cap and two hundredths, and what the CPUs do within a tick. Who had
//!    little before may have more for a while.
//!    Tasks of higher classes, to which the scheduler gives nothing, do not count either way.
//! 3. A group that is at its cap, or less than two hundredths below it, is *held*: its tasks wait for nobody. By seconds nobody
//!    can tell when in a second a group has its cap: there tasks of such groups are never held to be waiting.

use crate::demands::Demands;
use ids::{Nanos, TaskId};

const WINDOW: Nanos = Nanos::from_ms(1_000);
/// Beyond the cap: where time is charged by ticks and slices end at them, that is little.
const BEYOND_PERCENT: u64 = 2;
/// Places of a power of two: far less than a nanosecond of any half-life.
const PLACES: u32 = 48;

/// A group that had too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub from: Nanos,
    pub tasks: Vec<TaskId>,
    pub value: Nanos,
    pub limit: Nanos,
}

/// A task that no longer waits for anybody but its own group, or does again, from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub task: TaskId,
    pub at: Nanos,
    pub is_held: bool,
}

#[derive(Debug)]
struct Capped {
    percent: u64,
    members: Vec<TaskId>,
    running: u64,
    /// In this window.
    used: Nanos,
    /// In CPUs.
    usage: f64,
    is_held: bool,
    /// Since when it has been above, if that is not told yet.
    above: Option<Nanos>,
    is_told: bool,
}

impl Capped {
    fn usage_after(&self, time: Nanos, half_life: Nanos) -> f64 {
        let running = self.running as f64;
        running - (running - self.usage) * half_to(time.0 as f64 / half_life.0 as f64)
    }

    /// How long after the last reckoning usage comes to `level`, which it does within `most`.
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

/// 2^-x, of operations that give the same everywhere.
fn half_to(x: f64) -> f64 {
    let (mut result, mut factor, mut rest) = (1.0, 0.5, x);
    while rest >= 1.0 && result > 0.0 {
        (result, rest) = (result * factor, rest - 1.0);
    }
    for _ in 0..PLACES {
        (factor, rest) = (f64::sqrt(factor), rest * 2.0);
        if rest >= 1.0 {
            (result, rest) = (result * factor, rest - 1.0);
        }
    }
    result
}

/// All groups that have a cap.
#[derive(Debug)]
pub(crate) struct Caps {
    half_life: Option<Nanos>,
    /// What all CPUs together add to a usage within a tick.
    within_tick: f64,
    groups: Vec<Capped>,
    /// Those of each group, and of each task, as places in `groups`.
    of_group: Vec<Vec<usize>>,
    of_task: Vec<Vec<usize>>,
    /// When each task was held last.
    held_until: Vec<Nanos>,
    since: Nanos,
    reckoned: Nanos,
    has_judged: bool,
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
                is_held: half_life.is_none(),
                above: None,
                is_told: false,
            });
            groups.len() - 1
        };
        let places: Vec<Option<usize>> =
            demands.groups.iter().map(|group| group.hard_cap_percent.map(&mut place)).collect();
        let paying = |group: usize| demands.paying(group).filter_map(|one| places[one]).collect();
        let of_group = (0..places.len()).map(paying).collect();
        let of_tick = |half_life: Nanos| cpus as f64 * (1.0 - half_to(tick.0 as f64 / half_life.0 as f64));
        Caps {
            half_life,
            within_tick: half_life.map_or(0.0, of_tick),
            groups,
            of_group,
            of_task: Vec::new(),
            held_until: Vec::new(),
            since: Nanos::ZERO,
            reckoned: Nanos::ZERO,
            has_judged: false,
        }
    }

    /// A task exists.
    pub(crate) fn announce(&mut self, task: TaskId, group: Option<usize>) {
        let caps = group.map_or(Vec::new(), |group| self.of_group[group].clone());
        caps.iter().for_each(|&cap| self.groups[cap].members.push(task));
        self.of_task.push(caps);
        self.held_until.push(Nanos::ZERO);
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

    /// Whether something of a group could have been too much: a window was over, or it came to its cap.
    pub(crate) fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// Whether a task waits for nobody but its group (3.).
    pub(crate) fn is_held(&self, task: TaskId) -> bool {
        self.of_task[task.index()].iter().any(|&cap| self.groups[cap].is_held)
    }

    /// When a task was held last.
    pub(crate) fn held_until(&self, task: TaskId) -> Nanos {
        self.held_until[task.index()]
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
        let time = now.since(self.reckoned);
        self.reckoned = now;
        for group in &mut self.groups {
            group.used += Nanos(group.running * time.0);
            if let Some(half_life) = self.half_life.filter(|_| time > Nanos::ZERO) {
                group.usage = group.usage_after(time, half_life);
            }
        }
    }

    /// Time has passed: whose tasks are held by now, or are no longer.
    pub(crate) fn pass(&mut self, now: Nanos) -> Vec<Turn> {
        let Some(half_life) = self.half_life.filter(|_| now > self.reckoned && !self.groups.is_empty()) else {
            return Vec::new();
        };
        let (begin, time) = (self.reckoned, now.since(self.reckoned));
        let mut turned = Vec::new();
        for (place, group) in self.groups.iter_mut().enumerate() {
            let level = |percent: u64| percent as f64 / 100.0;
            let held_at = level(group.percent.saturating_sub(BEYOND_PERCENT));
            let too_much = level(group.percent + BEYOND_PERCENT) + self.within_tick;
            let usage = group.usage_after(time, half_life);
            self.has_judged |= usage >= level(group.percent);
            if usage > too_much && group.above.is_none() {
                group.above = Some(begin + group.time_to(too_much, time, half_life));
            } else if usage <= too_much {
                (group.above, group.is_told) = (None, false);
            }
            if (usage >= held_at) != group.is_held {
                turned.push((place, begin + group.time_to(held_at, time, half_life)));
            }
        }
        self.reckon(now);
        turned.into_iter().flat_map(|(place, at)| self.turn(place, at)).collect()
    }

    fn turn(&mut self, place: usize, at: Nanos) -> Vec<Turn> {
        let members = self.groups[place].members.clone();
        let before: Vec<bool> = members.iter().map(|member| self.is_held(*member)).collect();
        let is_held = !self.groups[place].is_held;
        self.groups[place].is_held = is_held;
        let others = members.into_iter().zip(before).filter(|(member, before)| self.is_held(*member) != *before);
        let turns: Vec<Turn> = others.map(|(task, _)| Turn { task, at, is_held }).collect();
        turns.iter().for_each(|turn| self.held_until[turn.task.index()] = at);
        turns
    }

    /// Windows begin anew.
    pub(crate) fn disturb(&mut self, now: Nanos) {
        self.reckon(now);
        self.since = now;
        self.groups.iter_mut().for_each(|group| group.used = Nanos::ZERO);
    }

    /// A scheduler comes that knows of no past.
    pub(crate) fn forget(&mut self) {
        self.groups.iter_mut().for_each(|group| group.usage = 0.0);
    }

    /// Who had too much, as far as that is known by now.
    pub(crate) fn look(&mut self, now: Nanos) -> Vec<Exceeded> {
        if self.half_life.is_some() { self.look_at_usage() } else { self.look_at_window(now) }
    }

    fn look_at_usage(&mut self) -> Vec<Exceeded> {
        let within_tick = self.within_tick;
        let cpus = |usage: f64| Nanos((usage * WINDOW.0 as f64) as u64);
        let exceeded = |group: &mut Capped| {
            let from = group.above.filter(|_| !group.is_told)?;
            group.is_told = true;
            let limit = cpus((group.percent + BEYOND_PERCENT) as f64 / 100.0 + within_tick);
            Some(Exceeded { from, tasks: group.members.clone(), value: cpus(group.usage), limit })
        };
        self.groups.iter_mut().filter_map(exceeded).collect()
    }

    fn look_at_window(&mut self, now: Nanos) -> Vec<Exceeded> {
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
