// SPDX-License-Identifier: GPL-2.0-only
//! Which task waited while a CPU idled on which it may run.
//!
//! 1. Tasks with the same mask form a group; nearly all tasks are in that of every CPU. A group knows since when there has
//!    always been an idle CPU in it. Which one may change.
//! 2. There are two populations: tasks that wait, and those of them that are in no queue.
//! 3. A *stretch* of a task is a time in which it always waited and a CPU always idled. It is the same task all the time: where
//!    tasks wake up one after another, each waits for a CPU to leave its idle state, and nothing is wrong with that.
//! 4. Every run is looked at, and tasks come and go all the time: who waits stands in a list without order, and each task knows
//!    its place there.

use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos, TaskId};

/// Which tasks are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Population {
    /// All that wait.
    Waiting,
    /// Those that are in no queue.
    Lost,
}

const POPULATIONS: [Population; 2] = [Population::Waiting, Population::Lost];

/// A time in which tasks waited beside idle CPUs: since when the first of them, and which CPUs idled at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub population: Population,
    pub since: Nanos,
    pub tasks: Vec<TaskId>,
    pub cpus: Vec<CpuId>,
}

#[derive(Debug)]
struct Group {
    idle: CpuSet,
    /// Since when some CPU idles, if one does.
    idle_since: Nanos,
    /// Who waits, and since when, by population.
    waiting: [Vec<(TaskId, Nanos)>; 2],
}

impl Group {
    /// The stretch of these tasks, which end now, if some were long enough.
    fn stretch(&self, population: Population, tasks: &[(TaskId, Nanos)], from: Nanos) -> Option<Stretch> {
        if self.idle.is_empty() {
            return None;
        }
        let begun = |(task, since): &(TaskId, Nanos)| (*task, self.idle_since.max(*since));
        let long: Vec<(TaskId, Nanos)> = tasks.iter().map(begun).filter(|(_, since)| *since < from).collect();
        let since = long.iter().map(|(_, since)| *since).min()?;
        let mut tasks: Vec<TaskId> = long.iter().map(|(task, _)| *task).collect();
        tasks.sort_unstable();
        Some(Stretch { population, since, tasks, cpus: self.idle.iter().collect() })
    }

    /// The stretches of all that wait.
    fn stretches(&self, from: Nanos) -> Vec<Stretch> {
        let of = |population: Population| self.stretch(population, &self.waiting[population as usize], from);
        POPULATIONS.into_iter().filter_map(of).collect()
    }
}

/// All groups.
#[derive(Debug)]
pub(crate) struct Unserved {
    masks: MaskGroups,
    groups: Vec<Group>,
    of_task: Vec<GroupId>,
    /// Where each task stands in the list of its group, by population.
    places: Vec<[Option<u32>; 2]>,
    idle: CpuSet,
    /// Shorter stretches are none.
    tolerance: Nanos,
}

impl Unserved {
    /// All CPUs idle.
    pub(crate) fn new(cpus: usize, tolerance: Nanos) -> Unserved {
        let idle = CpuSet::first_n(cpus);
        let everywhere = Group { idle: idle.clone(), idle_since: Nanos::ZERO, waiting: Default::default() };
        let (masks, of_task, places) = (MaskGroups::new(cpus), Vec::new(), Vec::new());
        Unserved { masks, groups: vec![everywhere], of_task, places, idle, tolerance }
    }

    /// Stretches that end now count if they began before this time.
    fn from(&self, now: Nanos) -> Nanos {
        Nanos(now.0.saturating_sub(self.tolerance.0))
    }

    fn group(&mut self, now: Nanos, allowed: &CpuSet) -> GroupId {
        let group = self.masks.find(allowed);
        if group.index() == self.groups.len() {
            let idle = self.masks.mask(group).intersection(&self.idle);
            self.groups.push(Group { idle, idle_since: now, waiting: Default::default() });
        }
        group
    }

    /// A task exists.
    pub(crate) fn announce(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) {
        assert_eq!(task.index(), self.of_task.len(), "tasks are announced in order of their numbers");
        let group = self.group(now, allowed);
        self.of_task.push(group);
        self.places.push([None; 2]);
    }

    /// A task waits.
    pub(crate) fn wait(&mut self, now: Nanos, task: TaskId, population: Population) {
        let waiting = &mut self.groups[self.of_task[task.index()].index()].waiting[population as usize];
        match &mut self.places[task.index()][population as usize] {
            Some(place) => waiting[*place as usize].1 = now,
            place => {
                *place = Some(waiting.len() as u32);
                waiting.push((task, now));
            }
        }
    }

    /// A task no longer waits; its stretch, if it was long.
    pub(crate) fn stop_waiting(&mut self, now: Nanos, task: TaskId, population: Population) -> Option<Stretch> {
        let place = self.places[task.index()][population as usize].take()?;
        let from = self.from(now);
        let group = &mut self.groups[self.of_task[task.index()].index()];
        let waiting = &mut group.waiting[population as usize];
        let (_, since) = waiting.swap_remove(place as usize);
        // The last one has its place now.
        if let Some((other, _)) = waiting.get(place as usize) {
            self.places[other.index()][population as usize] = Some(place);
        }
        group.stretch(population, &[(task, since)], from)
    }

    /// A CPU idles or does not; the long stretches that end.
    pub(crate) fn set_idle(&mut self, now: Nanos, cpu: CpuId, idle: bool) -> Vec<Stretch> {
        let change = |set: &mut CpuSet| if idle { set.insert(cpu) } else { set.remove(cpu) };
        if !change(&mut self.idle) {
            return Vec::new();
        }
        let from = self.from(now);
        let mut ended = Vec::new();
        for group in self.masks.of_cpu(cpu) {
            let group = &mut self.groups[group.index()];
            if idle && group.idle.is_empty() {
                group.idle_since = now;
            } else if !idle && group.idle.len() == 1 {
                ended.extend(group.stretches(from));
            }
            change(&mut group.idle);
        }
        ended
    }

    /// A task has another mask; its long stretches, which end.
    pub(crate) fn set_allowed(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) -> Vec<Stretch> {
        let new = self.group(now, allowed);
        if self.of_task[task.index()] == new {
            return Vec::new();
        }
        let places = self.places[task.index()];
        let waits = |population: &Population| places[*population as usize].is_some();
        let populations: Vec<Population> = POPULATIONS.into_iter().filter(waits).collect();
        let ended = populations.iter().filter_map(|population| self.stop_waiting(now, task, *population)).collect();
        self.of_task[task.index()] = new;
        populations.into_iter().for_each(|population| self.wait(now, task, population));
        ended
    }

    /// The long stretches that would end if all ended now.
    pub(crate) fn open(&self, now: Nanos) -> Vec<Stretch> {
        let from = self.from(now);
        self.groups.iter().flat_map(|group| group.stretches(from)).collect()
    }
}

#[cfg(test)]
mod tests;
