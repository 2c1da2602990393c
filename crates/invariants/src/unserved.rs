// SPDX-License-Identifier: GPL-2.0-only
//! Finds tasks that waited while a CPU idled on which they may run.
//!
//! 1. Tasks with the same mask form a group; nearly all tasks are in the group of all CPUs. A group knows the time
//!    since which one of its CPUs, not always the same one, has been idle.
//! 2. There are two populations: all waiting tasks, and those of them that are in no queue.
//! 3. A *stretch* is a period in which one task always waited while some CPU was idle. It belongs to a single task:
//!    where tasks wake up one after another, each has to wait for a CPU to leave its idle state, which is no fault.
//! 4. This check runs in every run, and tasks start and stop waiting often. Waiting tasks are therefore kept in an
//!    unordered list, and each task knows its position there.

use ids::{CpuId, CpuSet, GroupId, MaskGroups, Nanos, TaskId};

/// Population of tasks that is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Population {
    /// All waiting tasks.
    Waiting,
    /// Waiting tasks that are in no queue.
    Lost,
}

const POPULATIONS: [Population; 2] = [Population::Waiting, Population::Lost];

/// A period in which tasks waited while CPUs were idle: the start of the first wait, and the CPUs that were idle at
/// the end.
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
    /// Time since which some CPU of the group is idle, if one is.
    idle_since: Nanos,
    /// Waiting tasks with the start of their wait, by population.
    waiting: [Vec<(TaskId, Nanos)>; 2],
}

impl Group {
    /// Returns the stretch of these tasks, which ends now, if it began before `from` for at least one of them.
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

    /// Returns the stretches of all waiting tasks.
    fn stretches(&self, from: Nanos) -> Vec<Stretch> {
        let of = |population: Population| self.stretch(population, &self.waiting[population as usize], from);
        POPULATIONS.into_iter().filter_map(of).collect()
    }
}

/// Finds the stretches of all groups: periods in which a task waited while a CPU idled that it may use.
#[derive(Debug)]
pub(crate) struct Unserved {
    masks: MaskGroups,
    groups: Vec<Group>,
    of_task: Vec<GroupId>,
    /// Position of each task in the list of its group, by population.
    positions: Vec<[Option<u32>; 2]>,
    idle: CpuSet,
    /// Stretches that are not longer are ignored.
    tolerance: Nanos,
}

impl Unserved {
    /// Creates the check for a machine whose CPUs are all idle.
    pub(crate) fn new(cpus: usize, tolerance: Nanos) -> Unserved {
        let idle = CpuSet::first_n(cpus);
        let everywhere = Group { idle: idle.clone(), idle_since: Nanos::ZERO, waiting: Default::default() };
        let (masks, of_task, positions) = (MaskGroups::new(cpus), Vec::new(), Vec::new());
        Unserved { masks, groups: vec![everywhere], of_task, positions, idle, tolerance }
    }

    /// A stretch that ends now counts if it began before this time.
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

    /// Registers a new task.
    pub(crate) fn announce(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) {
        assert_eq!(task.index(), self.of_task.len(), "tasks are announced in order of their numbers");
        let group = self.group(now, allowed);
        self.of_task.push(group);
        self.positions.push([None; 2]);
    }

    /// Notes that a task begins to wait.
    pub(crate) fn wait(&mut self, now: Nanos, task: TaskId, population: Population) {
        let waiting = &mut self.groups[self.of_task[task.index()].index()].waiting[population as usize];
        match &mut self.positions[task.index()][population as usize] {
            Some(position) => waiting[*position as usize].1 = now,
            position => {
                *position = Some(waiting.len() as u32);
                waiting.push((task, now));
            }
        }
    }

    /// Notes that a task stops waiting. Returns its stretch, if it was long enough.
    pub(crate) fn stop_waiting(&mut self, now: Nanos, task: TaskId, population: Population) -> Option<Stretch> {
        let position = self.positions[task.index()][population as usize].take()?;
        let from = self.from(now);
        let group = &mut self.groups[self.of_task[task.index()].index()];
        let waiting = &mut group.waiting[population as usize];
        let (_, since) = waiting.swap_remove(position as usize);
        // The last task of the list has moved to this position.
        if let Some((other, _)) = waiting.get(position as usize) {
            self.positions[other.index()][population as usize] = Some(position);
        }
        group.stretch(population, &[(task, since)], from)
    }

    /// Notes that a CPU becomes idle or busy. Returns the long stretches that end.
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

    /// Changes the mask of a task. Returns its long stretches, which end.
    pub(crate) fn set_allowed(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) -> Vec<Stretch> {
        let new = self.group(now, allowed);
        if self.of_task[task.index()] == new {
            return Vec::new();
        }
        let positions = self.positions[task.index()];
        let waits = |population: &Population| positions[*population as usize].is_some();
        let populations: Vec<Population> = POPULATIONS.into_iter().filter(waits).collect();
        let ended = populations.iter().filter_map(|population| self.stop_waiting(now, task, *population)).collect();
        self.of_task[task.index()] = new;
        populations.into_iter().for_each(|population| self.wait(now, task, population));
        ended
    }

    /// Returns the long stretches that are still in progress.
    pub(crate) fn open(&self, now: Nanos) -> Vec<Stretch> {
        let from = self.from(now);
        self.groups.iter().flat_map(|group| group.stretches(from)).collect()
    }
}

#[cfg(test)]
mod tests;
