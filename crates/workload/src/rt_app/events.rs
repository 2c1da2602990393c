// SPDX-License-Identifier: GPL-2.0-only
//! Converts events of a phase to operations, and resource names to indices.

use super::document::{Fault, Object, integer, near_miss, string, wrong};
use super::task::{Known, Parameters, read_parameters};
use super::{disks, locks, networks, sources};
use crate::json::{Kind, Member, Value};
use crate::memory::MemoryUse;
use crate::{
    BarrierId, ConditionId, DiskId, Io, MutexId, MutexSpec, NetworkCall, NetworkId, Op, Reference, SharedLock, Sleep,
    Source,
};
use ids::{Nanos, Policy};
use std::collections::{BTreeMap, BTreeSet};

/// Event types in the order in which rt-app tests prefixes of a key: the first match decides.
const EVENTS: [(&str, Event); 30] = [
    ("runtime", Event::Runtime),
    ("run", Event::Run),
    ("sleep", Event::Sleep),
    ("memrun", Event::Refused),
    ("mem", Event::Refused),
    ("iorun", Event::IoRun),
    ("lock", Event::Lock),
    ("unlock", Event::Unlock),
    ("signal", Event::Signal),
    ("broad", Event::Broadcast),
    ("wait", Event::Wait),
    ("sync", Event::Sync),
    ("barrier", Event::Barrier),
    ("timer", Event::Timer),
    ("resume", Event::Resume),
    ("suspend", Event::Suspend),
    ("yield", Event::Yield),
    ("fork", Event::Fork),
    // Extension: `"change": {"task": NAME, "cpus": […], "policy": …, "priority": …}`, with the parameters of a phase.
    ("change", Event::Change),
    // Extension: a barrier at which tasks spin.
    ("spin_barrier", Event::SpinBarrier),
    // Extension: see `locks.rs`.
    ("critical_sections", Event::CriticalSections),
    // Extension: see `disks.rs`.
    ("read", Event::Read),
    ("write", Event::Write),
    ("fsync", Event::Fsync),
    // Extension: the address space of the process shrinks by this number of pages.
    ("unmap", Event::Unmap),
    // Extension: see `networks.rs`.
    ("call", Event::Call),
    // Extension: see `sources.rs`.
    ("take_request", Event::TakeRequest),
    ("serve", Event::Serve),
    ("sem_post", Event::Refused),
    ("sem_wait", Event::Refused),
];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    Runtime,
    Run,
    Sleep,
    Lock,
    Unlock,
    Signal,
    Broadcast,
    Wait,
    Sync,
    Barrier,
    SpinBarrier,
    Timer,
    Resume,
    Suspend,
    Yield,
    Fork,
    Change,
    CriticalSections,
    TakeRequest,
    Serve,
    Read,
    Write,
    IoRun,
    Fsync,
    Unmap,
    Call,
    Refused,
}

fn event(key: &str) -> Option<Event> {
    // `memory` and `memory-share` begin like `mem`.
    if MemoryUse::KEYS.contains(&key) {
        return None;
    }
    EVENTS.iter().find(|(word, _)| key.starts_with(word)).map(|&(_, event)| event)
}

/// Returns whether rt-app treats this key of a task or phase as an event.
pub(super) fn is_event(key: &str) -> bool {
    event(key).is_some()
}

/// Assigns consecutive indices to names in order of appearance.
#[derive(Default)]
pub(super) struct Names<'a>(BTreeMap<&'a str, u32>);

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> u32 {
        let next = self.count();
        *self.0.entry(name).or_insert(next)
    }

    pub fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// The names in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec![String::new(); self.0.len()];
        self.0.iter().for_each(|(name, number)| (*name).clone_into(&mut names[*number as usize]));
        names
    }

    /// The names as mutexes, in the order of their numbers.
    pub fn specs(&self) -> Vec<MutexSpec> {
        let mut specs = MutexSpec::unnamed(self.0.len());
        self.0.iter().for_each(|(name, number)| (*name).clone_into(&mut specs[*number as usize].name));
        specs
    }
}

/// Resources of the whole file.
#[derive(Default)]
pub(super) struct Resources<'a> {
    /// Locks in shared memory.
    pub locks: Vec<SharedLock>,
    /// Sources of requests.
    pub sources: Vec<Source>,
    /// Disks.
    pub disks: Names<'a>,
    /// Networks.
    pub networks: Names<'a>,
    /// Device of `iorun`.
    pub io_device: Option<&'a str>,
    pub mutexes: Names<'a>,
    pub conditions: Names<'a>,
    pub timers: Names<'a>,
    pub barriers: Names<'a>,
    /// Number of participants of each barrier.
    pub barrier_users: Vec<u32>,
    /// Shared timers that any event makes absolute. This applies to all their events, because rt-app stores the mode
    /// with the timer.
    pub absolute: Vec<u32>,
    /// Names under which tasks of other names suspend.
    pub shared_suspensions: BTreeSet<&'a str>,
}

/// Finds the names under which tasks of other names suspend.
pub(super) fn shared_suspensions<'a>(tasks: &Object<'a>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for task in tasks.members {
        let mut values = vec![&task.value];
        while let Some(value) = values.pop() {
            let Kind::Object(members) = &value.kind else { continue };
            for Member { key, value, .. } in members {
                match &value.kind {
                    Kind::String(name)
                        if event(key) == Some(Event::Suspend) && !name.is_empty() && *name != task.key =>
                    {
                        names.insert(name.as_str());
                    }
                    _ => values.push(value),
                }
            }
        }
    }
    names
}

/// All tasks by name, with number of instances and first spec.
pub(super) type TaskIndex<'a> = BTreeMap<&'a str, TaskEntry>;

#[derive(Clone, Copy)]
pub(super) struct TaskEntry {
    pub instances: u32,
    /// Specs of the task: one per instance, one if it is only forked.
    pub first: u32,
    pub specs: u32,
}

/// Looks up a task by name.
pub(super) fn find_task(tasks: &TaskIndex<'_>, name: &str) -> Result<TaskEntry, String> {
    tasks.get(name).copied().ok_or_else(|| {
        let near = near_miss(name, tasks.keys().copied());
        format!("no task is named {name:?}{near}")
    })
}

/// Builds a task's script.
pub(super) struct Builder<'a, 'r> {
    pub resources: &'r mut Resources<'a>,
    pub tasks: &'r TaskIndex<'a>,
    /// Name of this task.
    pub name: &'a str,
    pub entry: TaskEntry,
    pub script: Vec<Op>,
    /// Byte offset in the text of each operation.
    pub positions: Vec<usize>,
    held: Vec<MutexId>,
    own_timers: Names<'a>,
    own_absolute: Vec<u32>,
    own_barriers: Vec<u32>,
}

impl<'a, 'r> Builder<'a, 'r> {
    pub fn new(resources: &'r mut Resources<'a>, tasks: &'r TaskIndex<'a>, name: &'a str) -> Builder<'a, 'r> {
        Builder {
            resources,
            tasks,
            name,
            entry: tasks[name],
            script: Vec::new(),
            positions: Vec::new(),
            held: Vec::new(),
            own_timers: Names::default(),
            own_absolute: Vec::new(),
            own_barriers: Vec::new(),
        }
    }

    pub fn push(&mut self, at: usize, op: Op) {
        match op {
            Op::Lock(mutex) => self.held.push(mutex),
            Op::Unlock(mutex) => self.held.retain(|&other| other != mutex),
            _ => {}
        }
        self.script.push(op);
        self.positions.push(at);
    }

    /// Returns the script, with absolute mode set on private absolute timers.
    pub fn finish(mut self) -> (Vec<Op>, Vec<usize>) {
        for op in &mut self.script {
            if let Op::Timer { reference, absolute, .. } = op
                && reference.private().is_some_and(|number| self.own_absolute.contains(&number))
            {
                *absolute = true;
            }
        }
        (self.script, self.positions)
    }

    /// Appends the operations of one event.
    pub fn event(&mut self, what: &str, member: &'a Member) -> Result<(), Fault> {
        let (at, key, value) = (member.at, member.key.as_str(), &member.value);
        let kind = event(key).expect("the caller asked whether it is an event");
        let fault = |problem: String| Fault { at: value.at, problem };
        let time = || integer(key, value, 0..=i64::from(i32::MAX)).map(|us| Nanos::from_us(us as u64));
        let op = match kind {
            Event::Run => Op::Work { user: time()?, system: Nanos::ZERO },
            Event::Runtime => Op::CpuTime(time()?),
            Event::Sleep => Op::Sleep(time()?, Sleep::Timer),
            Event::Lock => Op::Lock(self.mutex(string(key, value)?)),
            Event::Unlock => Op::Unlock(self.mutex(string(key, value)?)),
            Event::Signal => Op::Signal(self.condition(string(key, value)?)),
            Event::Broadcast => Op::Broadcast(self.condition(string(key, value)?)),
            Event::Wait | Event::Sync => return self.wait(what, member, kind == Event::Sync),
            Event::Barrier => Op::Barrier(self.barrier(string(key, value)?).map_err(fault)?),
            Event::SpinBarrier => Op::SpinBarrier(self.barrier(string(key, value)?).map_err(fault)?),
            Event::Timer => self.timer(what, member)?,
            Event::Resume => match self.resume(string(key, value)?) {
                Some(resume) => resume,
                None => return Ok(()),
            },
            Event::Suspend => {
                self.suspend(at, value);
                return Ok(());
            }
            // The value of `yield` is ignored.
            Event::Yield => Op::Yield,
            Event::Fork => Op::Fork(self.task(string(key, value)?).map_err(fault)?.first),
            Event::Change => self.change(what, member)?,
            Event::CriticalSections => locks::critical_sections(what, member, &self.resources.locks)?,
            Event::Read | Event::Write => {
                let (disk, io) = disks::event(what, member, kind == Event::Write)?;
                self.io(disk, io)
            }
            Event::IoRun => {
                let (disk, io) = disks::iorun(member, self.resources.io_device)?;
                self.io(disk, io)
            }
            Event::Unmap => Op::Unmap(integer(key, value, 1..=i64::from(u32::MAX))? as u32),
            Event::Fsync => Op::Fsync(DiskId(self.resources.disks.number(disks::fsync(member)?))),
            Event::Call => {
                let (network, call) = networks::event(what, member)?;
                let network = NetworkId(self.resources.networks.number(network));
                Op::Call(Box::new(NetworkCall { network, ..call }))
            }
            Event::TakeRequest => sources::event(member, &self.resources.sources, Op::TakeRequest)?,
            Event::Serve => sources::event(member, &self.resources.sources, Op::Serve)?,
            Event::Refused => return Err(Fault { at, problem: refusal(what, key) }),
        };
        self.push(at, op);
        Ok(())
    }

    fn change(&self, what: &str, member: &'a Member) -> Result<Op, Fault> {
        let mut object = Object::new(format!("{what}, {:?}", member.key), member.at, &member.value)?;
        let task = object.required("task")?;
        let name = string("task", &task.value)?;
        let entry = self.task(name).map_err(|problem| Fault { at: task.value.at, problem })?;
        if entry.specs > 1 {
            let problem = format!("change of {name:?}, which has several instances; expected a task with one instance");
            return Err(Fault { at: task.value.at, problem });
        }
        let Parameters { cpus, policy } = read_parameters(&mut object, Known::Current(Policy::Other))?;
        object.finish()?;
        Ok(Op::ChangeOf { spec: entry.first, cpus: cpus.map(Box::new), policy: policy.map(Box::new) })
    }

    fn io(&mut self, disk: &'a str, io: Io) -> Op {
        Op::Io(Box::new(Io { disk: DiskId(self.resources.disks.number(disk)), ..io }))
    }

    fn mutex(&mut self, name: &'a str) -> MutexId {
        MutexId(self.resources.mutexes.number(name))
    }

    fn condition(&mut self, name: &'a str) -> ConditionId {
        ConditionId(self.resources.conditions.number(name))
    }

    fn task(&self, name: &str) -> Result<TaskEntry, String> {
        find_task(self.tasks, name)
    }

    /// Suspends under the name in the value, or under the task's own. Since 2025-05 (32fcddf) rt-app ignores the value;
    /// its own examples (`browser-long.json`, `video-long.json`) rely on the name.
    ///
    /// rt-app suspends by waiting for a condition variable of that name, with a mutex of the same name. If only
    /// instances of the task itself use the name, [`Op::Suspend`] is the same.
    fn suspend(&mut self, at: usize, value: &'a Value) {
        let name = match &value.kind {
            Kind::String(name) if !name.is_empty() => name.as_str(),
            _ => self.name,
        };
        if !self.resources.shared_suspensions.contains(name) {
            return self.push(at, Op::Suspend);
        }
        let (condition, mutex) = (self.condition(name), self.mutex(name));
        self.push(at, Op::Lock(mutex));
        self.push(at, Op::Wait(condition, mutex));
        self.push(at, Op::Unlock(mutex));
    }

    /// Resumes all tasks that suspend under this name. `None` if no task can: then rt-app does nothing, too.
    fn resume(&mut self, name: &'a str) -> Option<Op> {
        if self.resources.shared_suspensions.contains(name) {
            return Some(Op::Broadcast(self.condition(name)));
        }
        let entry = self.task(name).ok()?;
        Some(Op::Resume((entry.first..entry.first + entry.specs).collect()))
    }

    fn wait(&mut self, what: &str, member: &'a Member, sync: bool) -> Result<(), Fault> {
        let mut object = Object::new(format!("{what}, {:?}", member.key), member.at, &member.value)?;
        // rt-app's default name.
        let condition = object.string("ref")?.map_or("unknown", |(_, name)| name);
        let mutex = object.string("mutex")?.map_or("unknown", |(_, name)| name);
        object.finish()?;
        let (condition, mutex) = (self.condition(condition), self.mutex(mutex));
        let at = member.at;
        if !sync {
            self.push(at, Op::Wait(condition, mutex));
        } else if self.held.contains(&mutex) {
            self.push(at, Op::Sync(condition, mutex));
        } else {
            self.push(at, Op::Lock(mutex));
            self.push(at, Op::Sync(condition, mutex));
            self.push(at, Op::Unlock(mutex));
        }
        Ok(())
    }

    fn barrier(&mut self, name: &'a str) -> Result<BarrierId, String> {
        let number = self.resources.barriers.number(name);
        if self.own_barriers.contains(&number) {
            return Err(format!("barrier {name:?} is used twice in this task; each place needs its own name"));
        }
        self.own_barriers.push(number);
        let users = &mut self.resources.barrier_users;
        users.resize(users.len().max(number as usize + 1), 0);
        users[number as usize] += self.entry.instances;
        Ok(BarrierId(number))
    }

    fn timer(&mut self, what: &str, member: &'a Member) -> Result<Op, Fault> {
        let mut object = Object::new(format!("{what}, {:?}", member.key), member.at, &member.value)?;
        let name = object.string("ref")?.map_or("unknown", |(_, name)| name);
        let period = object.integer("period", 0..=i64::from(i32::MAX))?.unwrap_or(0);
        let absolute = match object.optional("mode")? {
            None => false,
            Some(mode) => match string("mode", &mode.value)? {
                "relative" => false,
                "absolute" => true,
                _ => return Err(wrong("mode", &mode.value, "\"relative\" or \"absolute\"")),
            },
        };
        object.finish()?;
        let (names, absolutes) = match name.starts_with("unique") {
            true => (&mut self.own_timers, &mut self.own_absolute),
            false => (&mut self.resources.timers, &mut self.resources.absolute),
        };
        let number = names.number(name);
        if absolute {
            absolutes.push(number);
        }
        let number = if name.starts_with("unique") { number | Reference::PRIVATE } else { number };
        Ok(Op::Timer { reference: Reference(number), period: Nanos::from_us(period as u64), absolute })
    }
}

fn refusal(what: &str, key: &str) -> String {
    let kind = if key.starts_with("sem_") { "semaphores" } else { "memory and device accesses" };
    let supported: Vec<&str> =
        EVENTS.iter().filter(|(_, event)| *event != Event::Refused).map(|&(word, _)| word).collect();
    format!("{what} has the event {key:?}: {kind} are not supported; supported are {}", supported.join(", "))
}
