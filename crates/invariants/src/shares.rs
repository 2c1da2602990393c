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
//! 4. A window is long enough if a scheduler that turns every 3 ms among all of the team goes round twenty times, and half a
//!    second at least: where one task is in its turn matters little then. A tick is allowed beyond what is promised, as most
//!    schedulers look only then.

use crate::WeightedShare;
use crate::ideal;
use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos, TaskId};
use std::collections::BTreeSet;

const SHORTEST: Nanos = Nanos::from_ms(500);
const TURNS_OF_A_TASK: Nanos = Nanos::from_ms(60);
/// A window may be so many times as long as its guests stay.
const GUESTS: u64 = 100;

/// A task that got too much or too little of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfair {
    pub from: Nanos,
    pub task: TaskId,
    pub cpus: Vec<CpuId>,
    pub error: Nanos,
    pub limit: Nanos,
}

#[derive(Debug)]
struct Task {
    group: GroupId,
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
}

impl Shares {
    /// All CPUs online.
    pub(crate) fn new(cpus: usize, promise: WeightedShare, tick: Nanos) -> Shares {
        let (groups, teams) = (MaskGroups::new(cpus), vec![Team::default()]);
        let (online, tasks) = (CpuSet::first_n(cpus), Vec::new());
        Shares { promise, groups, online, teams, tasks, has_judged: false, tick }
    }

    /// A task exists, and sleeps.
    pub(crate) fn announce(&mut self, allowed: &CpuSet, weight: Option<u64>) {
        let group = self.group(allowed);
        self.tasks.push(Task { group, weight, runnable: false, ran: Nanos::ZERO, runs_since: None });
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
    pub(crate) fn disturb(&mut self) {
        self.teams.iter_mut().for_each(|team| team.window = None);
    }

    /// Whether a CPU is there.
    pub(crate) fn set_online(&mut self, cpu: CpuId, online: bool) {
        if online {
            self.online.insert(cpu)
        } else {
            self.online.remove(cpu)
        };
        self.disturb();
    }

    /// Something happened on this CPU: windows of its teams may begin or end. Who was treated unfairly.
    pub(crate) fn look(&mut self, now: Nanos, cpu: CpuId) -> Vec<Unfair> {
        let mut unfair = Vec::new();
        let restricted = self.groups.restricted(cpu).len();
        for index in 0..=restricted {
            let group = if index == restricted { GroupId::ALL } else { self.groups.restricted(cpu)[index] };
            let team = &mut self.teams[group.index()];
            match &mut team.window {
                None if team.strangers == 0 && !team.runnable.is_empty() => self.begin(now, group),
                None => {}
                Some(window) => {
                    let (stayed, length) = (window.reckon(now), now.since(window.since));
                    if stayed.0 * GUESTS > length.0.max(SHORTEST.0) {
                        team.window = None;
                    } else if length >= SHORTEST.max(Nanos(TURNS_OF_A_TASK.0 * window.members.len() as u64)) {
                        unfair.extend(self.judge(now, group));
                    }
                }
            }
        }
        unfair
    }

    fn begin(&mut self, now: Nanos, group: GroupId) {
        if self.cpus(group).count() > self.promise.cpus as usize {
            return;
        }
        let team = &mut self.teams[group.index()];
        let members = team.runnable.iter().map(|&task| (task, self.tasks[task.index()].ran(now))).collect();
        team.window = Some(Window { since: now, members, guests: 0, stayed: Nanos::ZERO, until: now });
    }

    fn cpus(&self, group: GroupId) -> impl Iterator<Item = CpuId> + '_ {
        self.groups.mask(group).iter().filter(|cpu| self.online.contains(*cpu))
    }

    fn judge(&mut self, now: Nanos, group: GroupId) -> Vec<Unfair> {
        let Some(window) = self.teams[group.index()].window.take() else { return Vec::new() };
        let (from, length) = (window.since, now.since(window.since));
        self.has_judged = true;
        let weight = |(task, _): &(TaskId, Nanos)| self.tasks[task.index()].weight.expect("of its team");
        let weights: Vec<u64> = window.members.iter().map(weight).collect();
        let promised = Nanos(length.0 * u64::from(self.promise.percent) / 100);
        let limit = promised + self.tick + Nanos(2 * window.stayed.0);
        let cpus: Vec<CpuId> = self.cpus(group).collect();
        let unfair = |((task, before), ideal): (&(TaskId, Nanos), Nanos)| {
            let got = self.tasks[task.index()].ran(now).since(*before);
            let error = Nanos(got.0.abs_diff(ideal.0));
            (error > limit).then(|| Unfair { from, task: *task, cpus: cpus.clone(), error, limit })
        };
        let ideal = ideal::shares(&weights, cpus.len(), length);
        window.members.iter().zip(ideal).filter_map(unfair).collect()
    }
}

#[cfg(test)]
mod tests;
