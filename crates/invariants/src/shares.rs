// SPDX-License-Identifier: GPL-2.0-only
//! Whether CPU time follows weights.
//!
//! 1. Tasks with the same mask make a *team*. It has its CPUs for itself as long as nobody else is runnable who may use one of
//!    them; the team of all CPUs, as long as there is no other.
//! 2. A *window* is a time in which the same tasks of a team were runnable with the same weights, and it had its CPUs for
//!    itself. What each of them should have got is then plain: [`ideal::shares`]. A task that sleeps now and then gets what its
//!    waking up is worth to the scheduler; what that should be, nobody says.
//! 3. Guests may come and go (threads of the kernel do all the time), for a hundredth of the window in all. Each makes the
//!    others' shares uncertain by twice the time for which it was runnable.
//! 4. A window is long enough if a scheduler that turns every 3 ms (or as long as it says) among all of the team goes round
//!    twenty times, and half a second at least: where one task is in its turn matters little then. A tick is allowed beyond
//!    what is promised, as most schedulers look only then.
//! 5. Who looks at the past converges: windows begin some time after the last change of who is runnable, or of weights.
//! 6. Where groups have the weights, their tasks' time counts together, and a group can use as many CPUs as it has tasks.

use crate::ideal::{self, Sharer};
use crate::{WeightedShare, Weights};
use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos, Policy, TaskId};
use std::collections::{BTreeMap, BTreeSet};

const SHORTEST: Nanos = Nanos::from_ms(500);
const ROUNDS: u64 = 20;
/// What tasks of no group have together: the weight of a control group of which nothing is said.
const OTHERS: u64 = 100;
/// A window may be so many times as long as its guests stay.
const GUESTS: u64 = 100;

/// A task, or the tasks of a group, that got too much or too little of a window.
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
    /// Whose weight counts, where groups have them.
    party: Option<usize>,
    /// Nothing for a task of a higher class, or one of which nobody knows.
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
    /// Whose window it is, and how long each had run at its beginning.
    members: Vec<(TaskId, Nanos)>,
    /// How many guests there are, for how long there were any (together), and until when that is reckoned.
    guests: u32,
    stayed: Nanos,
    until: Nanos,
}

impl Window {
    fn reckon(&mut self, now: Nanos) -> Nanos {
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
    /// Other groups that share CPUs with it.
    rivals: Vec<GroupId>,
    runnable: BTreeSet<TaskId>,
    /// How many others are runnable who may use its CPUs.
    strangers: u32,
    /// No window begins before.
    settled: Nanos,
    window: Option<Window>,
}

/// All teams.
#[derive(Debug)]
pub(crate) struct Shares {
    promise: WeightedShare,
    groups: MaskGroups,
    online: CpuSet,
    teams: Vec<Team>,
    tasks: Vec<Task>,
    has_judged: bool,
    tick: Nanos,
    /// Of groups.
    weights: Vec<u64>,
}

impl Shares {
    /// All CPUs online.
    pub(crate) fn new(cpus: usize, promise: WeightedShare, tick: Nanos, weights: Vec<u64>) -> Shares {
        let (groups, teams) = (MaskGroups::new(cpus), vec![Team::default()]);
        let (online, tasks) = (CpuSet::first_n(cpus), Vec::new());
        Shares { promise, groups, online, teams, tasks, has_judged: false, tick, weights }
    }

    /// A task exists, and sleeps. `party` is its group of the workload.
    pub(crate) fn announce(&mut self, allowed: &CpuSet, weight: Option<u64>, party: Option<usize>) {
        let group = self.group(allowed);
        self.tasks.push(Task { group, party, weight, runnable: false, ran: Nanos::ZERO, runs_since: None });
    }

    /// The weight of a task, by the promise.
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
            // Tasks of higher classes are in nobody's team.
            let higher = self.tasks.iter().filter(|task| task.runnable && task.weight.is_none());
            let higher = higher.filter(|task| rivals.contains(&task.group)).count() as u32;
            rivals.iter().for_each(|rival| self.teams[rival.index()].rivals.push(group));
            self.teams.push(Team { rivals, strangers: strangers + higher, ..Team::default() });
        }
        group
    }

    /// A task can run from now on, or can no longer.
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
            window.reckon(now);
            if group == own && window.is_member(id) {
                team.window = None;
            } else {
                window.guests = if runnable { window.guests + 1 } else { window.guests - 1 };
            }
        }
        self.teams[own.index()].rivals = rivals;
    }

    /// A task runs from now on, or no longer.
    pub(crate) fn set_running(&mut self, now: Nanos, task: TaskId, runs: bool) {
        let task = &mut self.tasks[task.index()];
        task.ran = task.ran(now);
        task.runs_since = runs.then_some(now);
    }

    /// A task has another mask or weight: windows begin anew. `None` for a weight that nobody knows any more.
    pub(crate) fn change(&mut self, now: Nanos, id: TaskId, allowed: Option<&CpuSet>, weight: Option<u64>) {
        let runnable = self.tasks[id.index()].runnable;
        self.set_runnable(now, id, false);
        if let Some(allowed) = allowed {
            self.tasks[id.index()].group = self.group(allowed);
        }
        self.tasks[id.index()].weight = weight;
        self.set_runnable(now, id, runnable);
    }

    /// Whether a window was long enough.
    pub(crate) fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// The weight of a task.
    pub(crate) fn weight(&self, task: TaskId) -> Option<u64> {
        self.tasks[task.index()].weight
    }

    /// A CPU came or went, or the scheduler did: all windows begin anew.
    pub(crate) fn disturb(&mut self, now: Nanos) {
        let settled = now + self.promise.settles;
        self.teams.iter_mut().for_each(|team| (team.window, team.settled) = (None, settled));
    }

    /// Whether a CPU is there.
    pub(crate) fn set_online(&mut self, now: Nanos, cpu: CpuId, online: bool) {
        if online {
            self.online.insert(cpu)
        } else {
            self.online.remove(cpu)
        };
        self.disturb(now);
    }

    /// Something happened on this CPU: windows of its teams may begin or end. Who was treated unfairly.
    pub(crate) fn look(&mut self, now: Nanos, cpu: CpuId) -> Vec<Unfair> {
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
                    let (stayed, length) = (window.reckon(now), now.since(window.since));
                    if stayed.0 * GUESTS > length.0.max(SHORTEST.0) {
                        (team.window, team.settled) = (None, now + self.promise.settles);
                    } else if length >= SHORTEST {
                        unfair.extend(self.judge(now, group, length));
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

    /// The window of a team, if it was long enough.
    fn judge(&mut self, now: Nanos, group: GroupId, length: Nanos) -> Vec<Unfair> {
        let cpus: Vec<CpuId> = self.cpus(group).collect();
        let team = &mut self.teams[group.index()];
        let members = team.window.as_ref().map_or(0, |window| window.members.len());
        let turns = members.div_ceil(cpus.len().max(1)) as u64 * ROUNDS;
        if length.0 < self.promise.turn.0 * turns {
            return Vec::new();
        }
        let Some(window) = team.window.take() else { return Vec::new() };
        self.has_judged = true;
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

    /// Who shares, their tasks, and what these got in a window: each task for itself, or the groups.
    fn parties(&self, now: Nanos, window: &Window) -> Vec<(Sharer, Vec<TaskId>, Nanos)> {
        let task_of = |task: TaskId| &self.tasks[task.index()];
        let members = window.members.iter().map(|&(task, before)| (task, task_of(task).ran(now).since(before)));
        if self.promise.by != Weights::Groups {
            let weight = |task| task_of(task).weight.expect("of its team");
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
