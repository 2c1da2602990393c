// SPDX-License-Identifier: GPL-2.0-only
//! Composition of several workloads: a video player next to a build, the same build twice, one of them at nice 19.
//!
//! 1. Tasks of a part are named `LABEL/name`, unless it is the only part and has no label. Parts share only the
//!    machine: each has its own mutexes, signals and other resources.
//! 2. Options are applied to a part from outside: `nice` like nice(1), `cpus` like a cpuset, `policy` as inherited
//!    from a shell, `group` as a cgroup around the part's own cgroups, `uid` like setuid(2) for all its tasks.
//!    `process` makes all its tasks threads of one process, which may also have threads of other parts.
//! 3. A run ends when all finite parts have ended; endless parts run beside them. If all parts are endless, the run
//!    ends at the latest end given in their files.

mod parse;

use crate::groups::within;
use crate::locks::LockId;
use crate::memory::MemoryUse;
use crate::requests::{RequestChanges, SourceId};
use crate::{
    BarrierId, ConditionId, MutexId, MutexSpec, Op, Reference, SharedLock, SignalId, Source, Start, TaskGroup,
    TaskSpec, Workload, WorkloadError,
};
use ids::{CpuSet, Nanos, Policy};
pub use parse::PartSpec;

/// A part of a composition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Prefix of the names of its tasks; empty if it is the only part and has no label.
    pub label: String,
    /// Index range of its tasks.
    pub tasks: std::ops::Range<u32>,
    /// Start time.
    pub start: Nanos,
    /// Whether it ends by itself.
    pub is_finite: bool,
}

/// Options of a part.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Changes {
    pub jobs: Option<u32>,
    /// Number of jobs in percent of the machine's CPUs ([`PartSpec::set_cpus`]).
    pub load: Option<u32>,
    pub nice: i8,
    pub policy: Option<Policy>,
    pub cpus: Option<CpuSet>,
    pub start: Nanos,
    pub count: Option<u32>,
    pub uid: Option<u32>,
    /// Cgroup that contains all cgroups and tasks of the part.
    pub group: Option<String>,
    /// Process to which all tasks of the part belong.
    pub process: Option<String>,
    /// Weight of `group`.
    pub weight: Option<u32>,
    /// CPU limit of `group` in percent of one CPU; `cap_is_hard`: the limit holds even if CPUs would otherwise be
    /// idle.
    pub cap: Option<u32>,
    pub cap_is_hard: bool,
    /// Use of memory of all its tasks; overrides what they say themselves.
    pub memory: Option<MemoryUse>,
    /// Changes of its source of requests.
    pub requests: RequestChanges,
    /// Factor in thousandths for the work of tasks with this name.
    pub slow: Vec<(String, u64)>,
}

/// Maximum number of copies of a part.
pub(crate) const MAX_COUNT: u32 = 10_000;

impl Workload {
    /// Composes parts into one workload; each part is given with its specification and its loaded workload.
    ///
    /// # Errors
    /// If an option does not apply to its part, or the composition exceeds the size limits of a workload.
    ///
    /// # Panics
    /// If there is no part.
    pub fn compose(mut parts: Vec<(PartSpec, Workload)>) -> Result<Workload, WorkloadError> {
        if matches!(&parts[..], [(spec, _)] if spec.label.is_none() && spec.changes == Changes::default()) {
            // Return a single part unchanged: a recording may be large, and its loader has validated it.
            return Ok(parts.remove(0).1);
        }
        let alone = parts.len() == 1 && parts[0].0.label.is_none() && parts[0].0.changes.count.is_none();
        let name = parts.iter().map(|(spec, workload)| spec.name_of(&workload.name)).collect::<Vec<_>>().join("+");
        let mut whole = Workload { name, ..Workload::default() };
        let mut duration = None;
        for (spec, mut workload) in parts {
            duration = workload.duration.map(|duration| spec.changes.start + duration);
            match spec.changes {
                Changes { jobs: Some(jobs), .. } => workload = workload.with_jobs(jobs)?,
                Changes { load: Some(percent), .. } => {
                    let problem =
                        format!("load={percent} is a percentage of a machine's CPUs, but no machine is given");
                    return Err(WorkloadError { place: spec.text, problem });
                }
                _ => {}
            }
            spec.changes.apply(&mut workload).map_err(|problem| WorkloadError { place: spec.text.clone(), problem })?;
            let count = spec.changes.count.unwrap_or(1);
            let base = spec.label.unwrap_or_else(|| workload.name.clone());
            for (number, copy) in (1..).zip(std::iter::repeat_n(workload, count as usize)) {
                let label = match alone {
                    true => String::new(),
                    false => whole.free_label(if count > 1 { format!("{base}.{number}") } else { base.clone() }),
                };
                let at = |problem| WorkloadError { place: spec.text.clone(), problem };
                whole.add(label, spec.changes.start, copy).map_err(at)?;
                whole.check_sizes().map_err(|problem| WorkloadError { place: whole.name.clone(), problem })?;
            }
        }
        if whole.parts.len() == 1 {
            whole.duration = duration;
        }
        if alone && whole.parts[0].start == Nanos::ZERO {
            whole.parts.clear();
        }
        whole.validate()?;
        // Groups are applied only when all parts are added: tasks of one part may be in a group that another part
        // describes.
        whole.apply_groups();
        Ok(whole)
    }

    /// Returns the label, with the lowest free number appended if it is taken.
    fn free_label(&self, label: String) -> String {
        let taken = |label: &str| self.parts.iter().any(|part| part.label == label);
        if !taken(&label) {
            return label;
        }
        (2..).map(|number| format!("{label}.{number}")).find(|label| !taken(label)).expect("numbers go on")
    }

    /// Number of the disk with this name; parts share the disks of the machine.
    pub(crate) fn disk_number(&mut self, name: &str) -> u32 {
        number(&mut self.disks, name)
    }

    fn add(&mut self, label: String, start: Nanos, part: Workload) -> Result<(), String> {
        let is_finite = part.is_finite();
        let disks = part.disks.iter().map(|name| self.disk_number(name)).collect();
        let networks = part.networks.iter().map(|name| number(&mut self.networks, name)).collect();
        let devices = part.devices.iter().map(|name| number(&mut self.devices, name)).collect();
        let offsets = Offsets { disks, networks, devices, ..Offsets::of(self) };
        let first = offsets.tasks;
        if !is_finite {
            let end = part.duration.map(|duration| start + duration);
            self.duration = self.duration.max(end);
        }
        self.conditions += part.conditions;
        self.signals += part.signals;
        self.references += part.references;
        self.barriers.extend(part.barriers);
        let sources = part.sources.into_iter();
        self.sources.extend(sources.map(|source| Source { start: source.start + start, ..source }));
        self.caveats.extend(part.caveats);
        // The kernel takes the smallest of all requests.
        self.idle_exit_limit = self.idle_exit_limit.into_iter().chain(part.idle_exit_limit).min();
        let named = |name: String| if label.is_empty() { name } else { format!("{label}/{name}") };
        let locks = part.locks.into_iter().map(|lock| SharedLock { name: named(lock.name), ..lock });
        self.locks.extend(locks);
        let prefixed = |name: String| if name.is_empty() { name } else { named(name) };
        let mutexes = part.mutexes.into_iter().map(|mutex| MutexSpec { name: prefixed(mutex.name), ..mutex });
        self.mutexes.extend(mutexes);
        for mut task in part.tasks {
            task.script.iter_mut().for_each(|op| offsets.shift(op));
            let begin = match task.start {
                Start::At(time) => Start::At(time + start),
                Start::Forked => Start::Forked,
            };
            // Cgroups in a recording describe the recorded machine and are not used in a composition.
            task.who.group = task.who.group.filter(|_| part.is_grouped);
            if let Some(region) = task.memory.as_mut().and_then(|memory| memory.region.as_mut()) {
                *region = named(std::mem::take(region));
            }
            task.lends = task.lends.map(|server| server + offsets.tasks);
            self.tasks.push(TaskSpec { name: named(task.name), start: begin, ..task });
        }
        self.parts.push(Part { label, tasks: first..self.tasks.len() as u32, start, is_finite });
        if self.parts.iter().any(|part| part.is_finite) {
            self.duration = None;
        }
        self.is_grouped |= part.is_grouped;
        for group in part.groups {
            match self.groups.iter().find(|known| known.path == group.path) {
                None => self.groups.push(group),
                Some(known) if *known == group => {}
                Some(_) => {
                    return Err(format!("group {:?} has a different description in an earlier part", group.path));
                }
            }
        }
        Ok(())
    }

    /// Labels of the parts, with whether each ends by itself.
    pub fn labels(&self) -> impl Iterator<Item = (&str, bool)> {
        let parts = self.parts.iter().map(|part| (part.label.as_str(), part.is_finite));
        parts.filter(|(label, _)| !label.is_empty())
    }

    /// Part of a task; `None` if the workload is not a composition.
    pub fn part_of(&self, spec: u32) -> Option<&Part> {
        self.parts.get(self.parts.partition_point(|part| part.tasks.end <= spec))
    }

    /// Returns whether the task is in an endless part beside finite ones, so that the run does not wait for it.
    pub fn is_beside(&self, spec: u32) -> bool {
        self.part_of(spec).is_some_and(|part| !part.is_finite) && self.parts.iter().any(|part| part.is_finite)
    }
}

impl Changes {
    /// Applies all options except the number of jobs, the start and the count.
    fn apply(&self, workload: &mut Workload) -> Result<(), String> {
        self.requests.apply(workload)?;
        for (name, thousandths) in &self.slow {
            let mut found = false;
            for task in workload.tasks.iter_mut().filter(|task| task.name == *name) {
                found = true;
                task.script.iter_mut().for_each(|op| slow_down(op, *thousandths));
            }
            if !found {
                return Err(format!("slow={name}: no task has this name"));
            }
        }
        if let Some(around) = &self.group {
            workload.groups.iter_mut().for_each(|group| group.path.insert_str(0, around));
            let mut own = TaskGroup { cap_percent: self.cap, hard: self.cap_is_hard, ..TaskGroup::new(around) };
            own.weight = self.weight.unwrap_or(own.weight);
            if own != TaskGroup::new(around) {
                workload.groups.push(own);
            }
        }
        for task in &mut workload.tasks {
            task.who.uid = self.uid.or(task.who.uid);
            task.who.process = self.process.clone().or(task.who.process.take());
            if let Some(around) = &self.group {
                let own = task.who.group.take().filter(|_| workload.is_grouped);
                task.who.group = Some(format!("{around}{}", own.unwrap_or_default()));
            }
            if let Some(memory) = &self.memory {
                let own = task.memory.get_or_insert_default();
                own.override_by(memory);
                own.check()?;
            }
            (task.policy, task.nice) = self.policy_of(task.policy, task.nice);
            task.cpus = self.cpus_of(task.cpus.take());
            for op in &mut task.script {
                if let Op::Change { cpus, policy } | Op::ChangeOf { cpus, policy, .. } = op {
                    if let Some(both) = policy {
                        **both = self.policy_of(both.0, both.1);
                    }
                    *cpus = cpus.take().and_then(|cpus| self.cpus_of(Some(*cpus))).map(Box::new);
                }
            }
        }
        workload.is_grouped |= self.group.is_some();
        Ok(())
    }

    /// A task with its own policy keeps it, as it was set after the start.
    fn policy_of(&self, policy: Policy, nice: i8) -> (Policy, i8) {
        let policy = if policy == Policy::Other { self.policy.unwrap_or(policy) } else { policy };
        (policy, nice.saturating_add(self.nice).clamp(-20, 19))
    }

    fn cpus_of(&self, wanted: Option<CpuSet>) -> Option<CpuSet> {
        within(wanted, self.cpus.as_ref())
    }
}

fn slow_down(op: &mut Op, thousandths: u64) {
    let scale = |time: &mut Nanos| *time = Nanos((u128::from(time.0) * u128::from(thousandths) / 1000) as u64);
    match op {
        Op::Work { user, system } => [user, system].into_iter().for_each(scale),
        Op::CpuTime(time) => scale(time),
        Op::CriticalSections(critical_sections) => {
            [&mut critical_sections.hold, &mut critical_sections.between].into_iter().for_each(scale)
        }
        _ => {}
    }
}

/// Offsets added to the resource numbers of a part.
struct Offsets {
    tasks: u32,
    mutexes: u32,
    conditions: u32,
    barriers: u32,
    signals: u32,
    references: u32,
    locks: u32,
    sources: u32,
    /// Number in the composition of each disk of the part.
    disks: Vec<u32>,
    /// Number in the composition of each network of the part.
    networks: Vec<u32>,
    /// Number in the composition of each device of the part.
    devices: Vec<u32>,
}

/// Place of a name in a list, to which it is added if it is new.
fn number(names: &mut Vec<String>, name: &str) -> u32 {
    let known = names.iter().position(|known| known == name);
    known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    }) as u32
}

impl Offsets {
    fn of(workload: &Workload) -> Offsets {
        Offsets {
            tasks: workload.tasks.len() as u32,
            mutexes: workload.mutexes.len() as u32,
            conditions: workload.conditions,
            barriers: workload.barriers.len() as u32,
            signals: workload.signals,
            references: workload.references,
            locks: workload.locks.len() as u32,
            sources: workload.sources.len() as u32,
            disks: Vec::new(),
            networks: Vec::new(),
            devices: Vec::new(),
        }
    }

    fn shift(&self, op: &mut Op) {
        let mutex = |MutexId(id): &mut MutexId| *id += self.mutexes;
        let condition = |ConditionId(id): &mut ConditionId| *id += self.conditions;
        match op {
            Op::Lock(id) | Op::Unlock(id) => mutex(id),
            Op::Wait(of, with) | Op::Sync(of, with) => {
                condition(of);
                mutex(with);
            }
            Op::Signal(of) | Op::Broadcast(of) => condition(of),
            Op::Barrier(BarrierId(id)) | Op::SpinBarrier(BarrierId(id)) => *id += self.barriers,
            Op::Post(SignalId(id)) | Op::Await(SignalId(id)) | Op::WorkUntilPosted(SignalId(id)) => *id += self.signals,
            Op::Timer { reference, .. }
            | Op::Anchor(reference)
            | Op::Interval { reference, .. }
            | Op::WorkUntil { reference, .. } => {
                if reference.private().is_none() {
                    *reference = Reference(reference.0 + self.references);
                }
            }
            Op::CriticalSections(critical_sections) => {
                critical_sections.lock = LockId(critical_sections.lock.0 + self.locks)
            }
            Op::Io(io) => io.disk.0 = self.disks[io.disk.0 as usize],
            Op::Fsync(disk) => disk.0 = self.disks[disk.0 as usize],
            Op::Call(call) => call.network.0 = self.networks[call.network.0 as usize],
            Op::Submit(request) => request.device.0 = self.devices[request.device.0 as usize],
            Op::AwaitRequests { device, .. } => device.0 = self.devices[device.0 as usize],
            Op::TakeRequest(SourceId(id)) | Op::Serve(SourceId(id)) => *id += self.sources,
            Op::Resume(specs) => specs.iter_mut().for_each(|spec| *spec += self.tasks),
            Op::Fork(spec) | Op::ChangeOf { spec, .. } => *spec += self.tasks,
            Op::Work { .. }
            | Op::CpuTime(_)
            | Op::Sleep(..)
            | Op::Suspend
            | Op::Unmap(_)
            | Op::Timeout(_)
            | Op::Yield
            | Op::Children(_)
            | Op::Change { .. }
            | Op::Repeat { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
