// SPDX-License-Identifier: GPL-2.0-only
//! Tasks, phases, loops and scheduling parameters.

use super::document::{Fault, Object, integer, near_miss, wrong};
use super::events::{Builder, Names, Resources, TaskEntry, TaskIndex, find_task, is_event, shared_suspensions};
use super::{groups, memory, windows};
use crate::check::check_policy;
use crate::json::{Kind, Member};
use crate::{Op, SharedLock, Source, Start, TaskSpec, Workload};
use ids::{CpuId, CpuSet, MAX_CPUS, Nanos, Policy};

/// Maximum number of instances in a file; more indicate a typing error, as even machines of 4096 CPUs do not need
/// them.
const MAX_INSTANCES: i64 = 100_000;

/// rt-app's default real-time priority.
const DEFAULT_RT_PRIORITY: i64 = 10;

/// Keys that affect rt-app but are not supported.
const REFUSED: [(&str, &str); 7] = [
    ("util_min", "utilization clamps"),
    ("util_max", "utilization clamps"),
    ("nodes_membind", "bindings to memory nodes"),
    ("membind_nodes", "bindings to memory nodes"),
    ("exec", "tasks of rt-app before phases (exec, period, deadline)"),
    ("period", "the old names of dl-period and the like"),
    ("deadline", "the old names of dl-period and the like"),
];

/// Byte offsets in the text of a task and its operations.
pub(super) struct Positions {
    task: usize,
    ops: Vec<usize>,
}

impl Positions {
    pub fn of(&self, op: Option<usize>) -> usize {
        op.and_then(|op| self.ops.get(op).copied()).unwrap_or(self.task)
    }
}

/// Reads all tasks into a workload without name and duration; also returns the text positions of each spec.
pub(super) fn read_all<'a>(
    tasks: &Object<'a>,
    policy: PolicyName,
    locks: Vec<SharedLock>,
    sources: Vec<Source>,
    io_device: Option<&'a str>,
) -> Result<(Workload, Vec<Positions>), Fault> {
    let index = index(tasks)?;
    let mut resources =
        Resources { locks, sources, io_device, shared_suspensions: shared_suspensions(tasks), ..Resources::default() };
    let (mut specs, mut positions) = (Vec::new(), Vec::new());
    for member in tasks.members {
        let entry = index[member.key.as_str()];
        let task = Task { member, entry, default_policy: policy };
        let (spec, ops) = task.read(&mut resources, &index)?;
        for instance in 0..entry.specs {
            let name = if entry.specs > 1 { format!("{}-{instance}", member.key) } else { member.key.clone() };
            specs.push(TaskSpec { name, ..spec.clone() });
            positions.push(Positions { task: member.at, ops: ops.clone() });
        }
    }
    let forked: Vec<u32> = specs.iter().flat_map(|spec| &spec.script).filter_map(forked_spec).collect();
    for spec in forked {
        check_forked(&specs[spec as usize]).map_err(|problem| Fault { at: positions[spec as usize].task, problem })?;
    }
    for op in specs.iter_mut().flat_map(|spec| &mut spec.script) {
        if let Op::Timer { reference, absolute, .. } = op {
            *absolute |= resources.absolute.contains(&reference.0);
        }
    }
    let count = |names: &Names<'_>| names.count();
    let workload = Workload {
        name: String::new(),
        duration: None,
        tasks: specs,
        locks: resources.locks,
        mutexes: resources.mutexes.specs(),
        conditions: count(&resources.conditions),
        references: count(&resources.timers),
        barriers: resources.barrier_users,
        disks: resources.disks.names(),
        networks: resources.networks.names(),
        devices: Vec::new(),
        sources: resources.sources,
        signals: 0,
        idle_exit_limit: None,
        groups: Vec::new(),
        is_grouped: false,
        caveats: Vec::new(),
        parts: Vec::new(),
    };
    Ok((workload, positions))
}

/// Assigns spec indices to all tasks, so that events can refer to later tasks.
fn index<'a>(tasks: &Object<'a>) -> Result<TaskIndex<'a>, Fault> {
    let mut index = TaskIndex::new();
    let mut total = 0;
    for member in tasks.members {
        let mut task = Object::new(format!("task {:?}", member.key), member.at, &member.value)?;
        let instances = task.integer("instance", 0..=MAX_INSTANCES)?.unwrap_or(1) as u32;
        let entry = TaskEntry { instances, first: total, specs: instances.max(1) };
        total += entry.specs;
        if i64::from(total) > MAX_INSTANCES {
            return Err(Fault { at: member.at, problem: format!("more than {MAX_INSTANCES} instances in all") });
        }
        if index.insert(member.key.as_str(), entry).is_some() {
            return Err(Fault { at: member.at, problem: format!("duplicate task {:?}", member.key) });
        }
    }
    Ok(index)
}

fn forked_spec(op: &Op) -> Option<u32> {
    if let Op::Fork(spec) = op { Some(*spec) } else { None }
}

/// rt-app excludes barriers from forked tasks, because it cannot count their participants. A delay of a forked task,
/// which counts from the start of the run rather than of the task, is not supported here.
fn check_forked(spec: &TaskSpec) -> Result<(), String> {
    if spec.script.iter().any(|op| matches!(op, Op::Barrier(_) | Op::SpinBarrier(_))) {
        return Err("a forked task uses a barrier; the number of participants would be unknown".into());
    }
    if matches!(spec.start, Start::At(time) if time > Nanos::ZERO) {
        return Err("a forked task has a delay, which is not supported; start its script with a sleep".into());
    }
    Ok(())
}

struct Task<'a> {
    member: &'a Member,
    entry: TaskEntry,
    default_policy: PolicyName,
}

/// Scheduling parameters of a task or phase, where given.
pub(super) struct Parameters {
    pub cpus: Option<CpuSet>,
    pub policy: Option<(Policy, i8)>,
}

/// A phase whose events have not been read yet.
struct Phase<'a> {
    what: String,
    at: usize,
    /// Number of repetitions; -1: endless.
    times: i64,
    parameters: Parameters,
    members: &'a [Member],
}

impl<'a> Task<'a> {
    fn read(&self, resources: &mut Resources<'a>, tasks: &TaskIndex<'a>) -> Result<(TaskSpec, Vec<usize>), Fault> {
        let what = format!("task {:?}", self.member.key);
        let mut object = Object::new(what.clone(), self.member.at, &self.member.value)?;
        object.optional("instance")?;
        let delay = object.integer("delay", 0..=i64::from(i32::MAX))?.unwrap_or(0);
        let times = read_loop(&mut object)?;
        let own = read_parameters(&mut object, Known::Default(self.default_policy))?;
        let group = groups::taskgroup(&mut object)?;
        let process = object.string("process")?.map(|(_, name)| name.to_owned());
        let window = windows::window(&mut object)?;
        let memory = memory::memory(&mut object)?;
        let lends = self.lends(&mut object, tasks)?;
        let (policy, nice) = own.policy.expect("a task always has a policy");
        let phases = object.optional("phases")?;
        refuse(&object)?;
        let phases = match phases {
            Some(phases) => {
                object.finish_but(|_| false).map_err(|fault| beside_phases(fault, &object))?;
                read_phases(&what, phases, policy)?
            }
            None => {
                object.finish_but(is_event)?;
                let parameters = Parameters { cpus: None, policy: None };
                vec![Phase { what, at: self.member.at, times: 1, parameters, members: object.members }]
            }
        };
        let mut builder = Builder::new(resources, tasks, &self.member.key);
        let cpus = build(&mut builder, &phases, own.cpus)?;
        repeat(&mut builder, self.member.at, 0, times.unwrap_or(-1));
        let (script, positions) = builder.finish();
        let start = if self.entry.instances == 0 { Start::Forked } else { Start::At(Nanos::from_us(delay as u64)) };
        let spec = TaskSpec {
            name: String::new(),
            command: None,
            start,
            policy,
            nice,
            cpus,
            peak_rss_bytes: 0,
            who: crate::Who { group, process, ..crate::Who::default() },
            window,
            memory,
            lends,
            script,
        };
        Ok((spec, positions))
    }

    /// Reads `lends`, an extension: the name of the task that works for this one while it sleeps.
    fn lends(&self, object: &mut Object<'_>, tasks: &TaskIndex<'_>) -> Result<Option<u32>, Fault> {
        let Some((at, name)) = object.string("lends")? else { return Ok(None) };
        let entry = find_task(tasks, name).map_err(|problem| Fault { at, problem })?;
        if name == self.member.key || entry.instances != 1 {
            let problem = format!("{} lends to {name:?}; expected another task with one instance", object.what);
            return Err(Fault { at, problem });
        }
        Ok(Some(entry.first))
    }
}

/// Reports events beside phases, which rt-app would ignore.
fn beside_phases(fault: Fault, object: &Object<'_>) -> Fault {
    match object.members.iter().find(|member| member.at == fault.at && is_event(&member.key)) {
        Some(event) => {
            let problem =
                format!("{} has phases and also the event {:?}; expected one of both", object.what, event.key);
            Fault { at: event.at, problem }
        }
        None => fault,
    }
}

fn read_phases<'a>(what: &str, phases: &'a Member, policy: Policy) -> Result<Vec<Phase<'a>>, Fault> {
    let phases = Object::new(format!("{what}, phases"), phases.at, &phases.value)?;
    if phases.members.is_empty() {
        return Err(Fault { at: phases.at, problem: format!("{what} has no phase") });
    }
    let mut current = policy;
    let mut read = Vec::new();
    for member in phases.members {
        let what = format!("{what}, phase {:?}", member.key);
        let mut object = Object::new(what.clone(), member.at, &member.value)?;
        let times = read_loop(&mut object)?.unwrap_or(1);
        let parameters = read_parameters(&mut object, Known::Current(current))?;
        if let Some(group) = object.optional("taskgroup")? {
            let problem = format!("{} has a taskgroup; supported only for a whole task", object.what);
            return Err(Fault { at: group.at, problem });
        }
        current = parameters.policy.map_or(current, |(policy, _)| policy);
        refuse(&object)?;
        object.finish_but(is_event)?;
        read.push(Phase { what, at: member.at, times, parameters, members: object.members });
    }
    Ok(read)
}

/// Appends all phases; returns the CPUs on which the task starts.
fn build<'a>(
    builder: &mut Builder<'a, '_>,
    phases: &[Phase<'a>],
    own: Option<CpuSet>,
) -> Result<Option<CpuSet>, Fault> {
    // A phase runs on its own CPUs, else on the task's, else on all.
    let cpus_of = |phase: &Phase<'_>| phase.parameters.cpus.clone().or_else(|| own.clone());
    let first = phases.first().and_then(cpus_of);
    let moves = phases.iter().any(|phase| cpus_of(phase) != first);
    for phase in phases {
        let cpus = moves.then(|| cpus_of(phase).unwrap_or_else(|| CpuSet::first_n(MAX_CPUS)));
        if cpus.is_some() || phase.parameters.policy.is_some() {
            let policy = phase.parameters.policy.map(Box::new);
            builder.push(phase.at, Op::Change { cpus: cpus.map(Box::new), policy });
        }
        let begin = builder.script.len();
        for member in phase.members.iter().filter(|member| is_event(&member.key)) {
            builder.event(&phase.what, member)?;
        }
        if builder.script.len() == begin {
            return Err(Fault { at: phase.at, problem: format!("{} has no event", phase.what) });
        }
        repeat(builder, phase.at, begin, phase.times);
    }
    Ok(first)
}

fn repeat(builder: &mut Builder<'_, '_>, at: usize, from: usize, times: i64) {
    if times != 1 {
        let times = u64::try_from(times).ok();
        builder.push(at, Op::Repeat { from: from as u32, times });
    }
}

fn read_loop(object: &mut Object<'_>) -> Result<Option<i64>, Fault> {
    let Some(member) = object.optional("loop")? else { return Ok(None) };
    match integer("loop", &member.value, -1..=i64::from(i32::MAX))? {
        // rt-app skips a task with `loop` 0 but repeats a phase with 0 some 4 billion times.
        0 => Err(wrong("loop", &member.value, "-1 (endless) or a number from 1")),
        times => Ok(Some(times)),
    }
}

fn refuse(object: &Object<'_>) -> Result<(), Fault> {
    for member in object.members {
        if let Some((key, what)) = REFUSED.iter().find(|(key, _)| member.key == *key) {
            let problem = format!("{} has {key:?}: {what} are not supported", object.what);
            return Err(Fault { at: member.at, problem });
        }
    }
    Ok(())
}

/// A policy without its parameters.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum PolicyName {
    Other,
    Batch,
    Idle,
    Fifo,
    RoundRobin,
    Deadline,
}

/// Policy names of rt-app.
const POLICIES: [(&str, PolicyName); 6] = [
    ("SCHED_OTHER", PolicyName::Other),
    ("SCHED_BATCH", PolicyName::Batch),
    ("SCHED_IDLE", PolicyName::Idle),
    ("SCHED_FIFO", PolicyName::Fifo),
    ("SCHED_RR", PolicyName::RoundRobin),
    ("SCHED_DEADLINE", PolicyName::Deadline),
];

pub(super) fn policy_by_name(at: usize, name: &str) -> Result<PolicyName, Fault> {
    if let Some(&(_, policy)) = POLICIES.iter().find(|(known, _)| *known == name) {
        return Ok(policy);
    }
    let near = near_miss(name, POLICIES.iter().map(|&(known, _)| known));
    let known: Vec<&str> = POLICIES.iter().map(|&(known, _)| known).collect();
    Err(Fault { at, problem: format!("unknown policy {name:?}{near}; known are {}", known.join(", ")) })
}

impl PolicyName {
    /// The policy and nice value for a `priority` and deadline parameters (runtime, deadline, period).
    pub fn with(self, priority: Option<i64>, deadline: Option<[Nanos; 3]>) -> Result<(Policy, i8), String> {
        let nice = || {
            let nice = priority.unwrap_or(0);
            i8::try_from(nice).map_err(|_| format!("nice value {nice}; expected -20 to 19"))
        };
        let real_time = || {
            let priority = priority.unwrap_or(DEFAULT_RT_PRIORITY);
            u8::try_from(priority).map_err(|_| format!("real-time priority {priority}; expected 1 to 99"))
        };
        let (policy, nice) = match self {
            PolicyName::Other => (Policy::Other, nice()?),
            PolicyName::Batch => (Policy::Batch, nice()?),
            PolicyName::Idle => (Policy::Idle, nice()?),
            PolicyName::Fifo => (Policy::Fifo(real_time()?), 0),
            PolicyName::RoundRobin => (Policy::RoundRobin(real_time()?), 0),
            PolicyName::Deadline => {
                let [runtime, deadline, period] = deadline.ok_or("SCHED_DEADLINE needs dl-runtime")?;
                (Policy::Deadline { runtime, deadline, period }, 0)
            }
        };
        check_policy(policy, nice)?;
        Ok((policy, nice))
    }
}

fn name_of(policy: Policy) -> PolicyName {
    match policy {
        Policy::Other | Policy::Ext => PolicyName::Other,
        Policy::Batch => PolicyName::Batch,
        Policy::Idle => PolicyName::Idle,
        Policy::Fifo(_) => PolicyName::Fifo,
        Policy::RoundRobin(_) => PolicyName::RoundRobin,
        Policy::Deadline { .. } => PolicyName::Deadline,
    }
}

/// Default for missing parameters.
#[derive(Clone, Copy)]
pub(super) enum Known {
    /// For a task: the file's default policy.
    Default(PolicyName),
    /// For a phase: the current policy.
    Current(Policy),
}

/// Reads `cpus`, `policy`, `priority` and the deadline parameters. A phase without any of the latter changes nothing;
/// one with only a priority keeps the current policy.
pub(super) fn read_parameters(object: &mut Object<'_>, known: Known) -> Result<Parameters, Fault> {
    let cpus = object.optional("cpus")?.map(read_cpus).transpose()?;
    let given = match object.string("policy")? {
        Some((at, name)) => Some(policy_by_name(at, name)?),
        None => None,
    };
    let priority = object.integer("priority", -20..=99)?;
    let mut time = |key| -> Result<Option<Nanos>, Fault> {
        Ok(object.integer(key, 0..=i64::from(i32::MAX))?.map(|us| Nanos::from_us(us as u64)))
    };
    let (runtime, period, deadline) = (time("dl-runtime")?, time("dl-period")?, time("dl-deadline")?);
    let deadlines = runtime.map(|runtime| {
        let period = period.unwrap_or(runtime);
        [runtime, deadline.unwrap_or(period), period]
    });
    let anything = given.is_some() || priority.is_some() || runtime.is_some() || period.is_some() || deadline.is_some();
    let name = match (given, known) {
        (None, Known::Current(_)) if !anything => return Ok(Parameters { cpus, policy: None }),
        (None, Known::Current(policy)) => name_of(policy),
        (None, Known::Default(name)) | (Some(name), _) => name,
    };
    if name != PolicyName::Deadline && (runtime.is_some() || period.is_some() || deadline.is_some()) {
        let problem = format!("{} has dl-… parameters; supported only with SCHED_DEADLINE", object.what);
        return Err(Fault { at: object.at, problem });
    }
    let policy = name.with(priority, deadlines);
    let policy = policy.map_err(|problem| Fault { at: object.at, problem: format!("{}: {problem}", object.what) })?;
    Ok(Parameters { cpus, policy: Some(policy) })
}

fn read_cpus(member: &Member) -> Result<CpuSet, Fault> {
    let Kind::Array(items) = &member.value.kind else {
        return Err(wrong("cpus", &member.value, "an array of CPU numbers"));
    };
    if items.is_empty() {
        return Err(Fault { at: member.value.at, problem: "cpus is empty; expected at least one CPU number".into() });
    }
    items.iter().map(|item| integer("cpus", item, 0..=MAX_CPUS as i64 - 1).map(|cpu| CpuId(cpu as u32))).collect()
}
