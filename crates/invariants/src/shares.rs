// SPDX-License-Identifier: GPL-2.0-only
//! Checks that tasks receive CPU time in proportion to their weights.
//!
//! 1. Tasks with the same affinity mask form a *team*. A team has its CPUs to itself while no other task is runnable
//!    that may use one of them.
//! 2. A *window* is a period in which the same tasks of a team were runnable with the same weights and had the CPUs
//!    to themselves. Their ideal shares are then known: [`ideal::shares`]. The ideal share of a task that sleeps in
//!    between depends on the scheduler's treatment of wakeups and is not defined.
//! 3. Tasks outside the team (*guests*), such as kthreads, may be runnable during a window, for 1 % of its length in
//!    total. Each adds twice its runnable time to the tolerance.
//! 4. A window is checked when it lasted for 500 ms and for twenty rounds in which every task of the team has a slice
//!    of 3 ms (or of the promised length); the order within a round then matters little. One tick is added to the
//!    tolerance, since most schedulers act only at ticks.
//! 5. For schedulers that converge, windows begin a settling time after the last change of runnable tasks or weights.
//! 6. If groups have the weights, the CPU time of a group's tasks is added up, and a group can use as many CPUs as it
//!    has tasks.

use crate::ideal::{self, Sharer};
use crate::{WeightedShare, Weights};
use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos, Policy, TaskId};
use std::collections::{BTreeMap, BTreeSet};

const SHORTEST: Nanos = Nanos::from_ms(500);
const ROUNDS: u64 = 20;
/// Weight of all tasks without a group together: the default weight of a cgroup.
const OTHERS: u64 = 100;
/// A window must last at least this many times the total runnable time of its guests.
const GUESTS: u64 = 100;

/// A task, or the tasks of a group, whose CPU time in a window differs too much from the ideal share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfair {
    pub from: Nanos,
    pub tasks: Vec<TaskId>,
    pub cpus: Vec<CpuId>,
    pub error: Nanos,
    pub limit: Nanos,
}

#[derive(Debug)]
struct Task {
    group: GroupId,
    /// Workload group whose weight counts, if groups have the weights.
    party: Option<usize>,
    /// Weight; `None` for a task of a higher class or of unknown policy.
    weight: Option<u64>,
    runnable: bool,
    ran: Nanos,
    runs_since: Option<Nanos>,
}

impl Task {
    fn ran(&self, now: Nanos) -> Nanos {
        self.ran + self.runs_since.map_or(Nanos::ZERO, |since| now.since(since))
    }
}

#[derive(Debug)]
struct Window {
    since: Nanos,
    /// Tasks of the window, with the CPU time that each had used before.
    members: Vec<(TaskId, Nanos)>,
    /// Number of runnable guests, their total runnable time, and the time up to which it is accounted.
    guests: u32,
    stayed: Nanos,
    until: Nanos,
}

impl Window {
    fn account(&mut self, now: Nanos) -> Nanos {
        self.stayed += Nanos(now.since(self.until).0 * u64::from(self.guests));
        self.until = now;
        self.stayed
    }

    fn is_member(&self, task: TaskId) -> bool {
        self.members.binary_search_by_key(&task, |(member, _)| *member).is_ok()
    }
}

#[derive(Debug, Default)]
struct Team {
    /// Other teams that share CPUs with this one.
    rivals: Vec<GroupId>,
    runnable: BTreeSet<TaskId>,
    /// Number of runnable tasks outside the team that may use its CPUs.
    strangers: u32,
    /// Time before which no window begins.
    settled: Nanos,
    window: Option<Window>,
}

/// Share check of all teams (tasks with the same affinity mask form a team).
#[derive(Debug)]
pub(crate) struct Shares {
    promise: WeightedShare,
    groups: MaskGroups,
    online: CpuSet,
    teams: Vec<Team>,
    tasks: Vec<Task>,
    has_checked: bool,
    tick: Nanos,
    /// Weights of the workload's groups.
    weights: Vec<u64>,
}

impl Shares {
    /// Creates the check for a machine whose CPUs are all online.
    pub(crate) fn new(cpus: usize, promise: WeightedShare, tick: Nanos, weights: Vec<u64>) -> Shares {
        let (groups, teams) = (MaskGroups::new(cpus), vec![Team::default()]);
        let (online, tasks) = (CpuSet::first_n(cpus), Vec::new());
        Shares { promise, groups, online, teams, tasks, has_checked: false, tick, weights }
    }

    /// Registers a new task, which sleeps. `party` is its group in the workload.
    pub(crate) fn announce(&mut self, allowed: &CpuSet, weight: Option<u64>, party: Option<usize>) {
        let group = self.group(allowed);
        self.tasks.push(Task { group, party, weight, runnable: false, ran: Nanos::ZERO, runs_since: None });
    }

    /// The weight of a task as the promise defines it.
    pub(crate) fn weight_of(&self, policy: Policy, nice: i8) -> u64 {
        ideal::weight(self.promise.by, policy, nice)
    }

    fn group(&mut self, allowed: &CpuSet) -> GroupId {
        let group = self.groups.find(allowed);
        if group.index() == self.teams.len() {
            let mask = self.groups.mask(group);
            let others = (0..group.0).map(GroupId).filter(|other| self.groups.mask(*other).intersects(mask));
            let rivals: Vec<GroupId> = others.collect();
            let strangers = rivals.iter().flat_map(|rival| &self.teams[rival.index()].runnable).count() as u32;
            // Tasks of higher classes belong to no team.
            let higher = self.tasks.iter().filter(|task| task.runnable && task.weight.is_none());
            let higher = higher.filter(|task| rivals.contains(&task.group)).count() as u32;
            rivals.iter().for_each(|rival| self.teams[rival.index()].rivals.push(group));
            self.teams.push(Team { rivals, strangers: strangers + higher, ..Team::default() });
        }
        group
    }

    /// Notes that a task becomes runnable or blocks.
    pub(crate) fn set_runnable(&mut self, now: Nanos, id: TaskId, runnable: bool) {
        let task = &mut self.tasks[id.index()];
        if std::mem::replace(&mut task.runnable, runnable) == runnable {
            return;
        }
        let (own, ours) = (task.group, task.weight.is_some());
        let rivals = std::mem::take(&mut self.teams[own.index()].rivals);
        for group in rivals.iter().copied().chain([own]) {
            let team = &mut self.teams[group.index()];
            if group == own && ours {
                team.settled = now + self.promise.settles;
                if runnable {
                    team.runnable.insert(id)
                } else {
                    team.runnable.remove(&id)
                };
            } else {
                team.strangers = if runnable { team.strangers + 1 } else { team.strangers - 1 };
            }
            let Some(window) = &mut team.window else { continue };
            window.account(now);
            if group == own && window.is_member(id) {
                team.window = None;
            } else {
                window.guests = if runnable { window.guests + 1 } else { window.guests - 1 };
            }
        }
        self.teams[own.index()].rivals = rivals;
    }

    /// Notes that a task starts or stops running.
    pub(crate) fn set_running(&mut self, now: Nanos, task: TaskId, runs: bool) {
        let task = &mut self.tasks[task.index()];
        task.ran = task.ran(now);
        task.runs_since = runs.then_some(now);
    }

    /// Changes the mask or weight of a task, which ends windows. A weight of `None` is unknown.
    pub(crate) fn change(&mut self, now: Nanos, id: TaskId, allowed: Option<&CpuSet>, weight: Option<u64>) {
        let runnable = self.tasks[id.index()].runnable;
        self.set_runnable(now, id, false);
        if let Some(allowed) = allowed {
            self.tasks[id.index()].group = self.group(allowed);
        }
        self.tasks[id.index()].weight = weight;
        self.set_runnable(now, id, runnable);
    }

    /// Whether any window was long enough to be checked.
    pub(crate) fn has_checked(&self) -> bool {
        self.has_checked
    }

    /// The weight of a task.
    pub(crate) fn weight(&self, task: TaskId) -> Option<u64> {
        self.tasks[task.index()].weight
    }

    /// Ends all windows, after hotplug or a change of scheduler.
    pub(crate) fn reset_windows(&mut self, now: Nanos) {
        let settled = now + self.promise.settles;
        self.teams.iter_mut().for_each(|team| (team.window, team.settled) = (None, settled));
    }

    /// Sets whether a CPU is online.
    pub(crate) fn set_online(&mut self, now: Nanos, cpu: CpuId, online: bool) {
        if online {
            self.online.insert(cpu)
        } else {
            self.online.remove(cpu)
        };
        self.reset_windows(now);
    }

    /// Starts or ends windows of the teams that use this CPU, on which an event occurred, and returns the tasks with
    /// unfair shares.
    pub(crate) fn check_cpu(&mut self, now: Nanos, cpu: CpuId) -> Vec<Unfair> {
        let mut unfair = Vec::new();
        let restricted = self.groups.restricted(cpu).len();
        for index in 0..=restricted {
            let group = if index == restricted { GroupId::ALL } else { self.groups.restricted(cpu)[index] };
            let team = &mut self.teams[group.index()];
            match &mut team.window {
                None if team.strangers == 0 && !team.runnable.is_empty() && now >= team.settled => {
                    self.begin(now, group);
                }
                None => {}
                Some(window) => {
                    let (stayed, length) = (window.account(now), now.since(window.since));
                    if stayed.0 * GUESTS > length.0.max(SHORTEST.0) {
                        (team.window, team.settled) = (None, now + self.promise.settles);
                    } else if length >= SHORTEST {
                        unfair.extend(self.check_window(now, group, length));
                    }
                }
            }
        }
        unfair
    }

    fn begin(&mut self, now: Nanos, group: GroupId) {
        let cpus = self.cpus(group).count();
        if cpus > self.promise.cpus as usize || (self.promise.whole && cpus < self.online.len()) {
            return;
        }
        let team = &mut self.teams[group.index()];
        let members = team.runnable.iter().map(|&task| (task, self.tasks[task.index()].ran(now))).collect();
        team.window = Some(Window { since: now, members, guests: 0, stayed: Nanos::ZERO, until: now });
    }

    fn cpus(&self, group: GroupId) -> impl Iterator<Item = CpuId> + '_ {
        self.groups.mask(group).iter().filter(|cpu| self.online.contains(*cpu))
    }

    /// Checks and ends the window of a team if it was long enough.
    fn check_window(&mut self, now: Nanos, group: GroupId, length: Nanos) -> Vec<Unfair> {
        let cpus: Vec<CpuId> = self.cpus(group).collect();
        let team = &mut self.teams[group.index()];
        let members = team.window.as_ref().map_or(0, |window| window.members.len());
        let turns = members.div_ceil(cpus.len().max(1)) as u64 * ROUNDS;
        if length.0 < self.promise.turn.0 * turns {
            return Vec::new();
        }
        let Some(window) = team.window.take() else { return Vec::new() };
        self.has_checked = true;
        let promised = Nanos(length.0 * u64::from(self.promise.percent) / 100);
        let limit = promised + self.tick + Nanos(2 * window.stayed.0);
        let parties = self.parties(now, &window);
        let sharers: Vec<Sharer> = parties.iter().map(|(sharer, ..)| *sharer).collect();
        let ideal = ideal::shares(&sharers, cpus.len(), length);
        let unfair = |((_, tasks, got), ideal): ((Sharer, Vec<TaskId>, Nanos), Nanos)| {
            let error = Nanos(got.0.abs_diff(ideal.0));
            (error > limit).then(|| Unfair { from: window.since, tasks, cpus: cpus.clone(), error, limit })
        };
        parties.into_iter().zip(ideal).filter_map(unfair).collect()
    }

    /// The owners of shares in a window (single tasks, or groups), their tasks and the CPU time of these.
    fn parties(&self, now: Nanos, window: &Window) -> Vec<(Sharer, Vec<TaskId>, Nanos)> {
        let task_of = |task: TaskId| &self.tasks[task.index()];
        let members = window.members.iter().map(|&(task, before)| (task, task_of(task).ran(now).since(before)));
        if self.promise.by != Weights::Groups {
            let weight = |task| task_of(task).weight.expect("tasks of a team have a weight");
            return members.map(|(task, got)| (Sharer { weight: weight(task), most: 1 }, vec![task], got)).collect();
        }
        let mut parties = BTreeMap::<Option<usize>, (Sharer, Vec<TaskId>, Nanos)>::new();
        for (task, got) in members {
            let party = task_of(task).party;
            let weight = party.map_or(OTHERS, |group| self.weights[group]);
            let none = (Sharer { weight, most: 0 }, Vec::new(), Nanos::ZERO);
            let (sharer, tasks, sum) = parties.entry(party).or_insert(none);
            sharer.most += 1;
            tasks.push(task);
            *sum += got;
        }
        parties.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
