// SPDX-License-Identifier: GPL-2.0-only
//! Validation of workloads from any source. The executor relies on it.
//!
//! Scripts have no data-dependent branches, so much can be checked statically: that an unlock follows its lock, that
//! loops nest, that no loop spins without time passing.

use crate::{CriticalSections, MutexId, Op, Start, TaskSpec, Workload, WorkloadError};
use ids::{CpuSet, Nanos, Policy};
use std::collections::BTreeMap;

/// Maximum duration of a single step, about 11 days. Longer steps indicate a damaged file; the limit also keeps sums
/// of steps far from overflow.
const MAX_STEP: Nanos = Nanos(1_000_000_000_000_000);

/// Maximum number of tasks. Together with the limits below (operations in all scripts, resources of a kind such as
/// mutexes, signals) it bounds the memory of a malicious file to some 2 GB. A recorded build needs less than a
/// hundredth of that; two processes that only wake each other, at a million switches per second, reach the limit
/// after 40 s.
pub(crate) const MAX_TASKS: usize = 1 << 20;
/// Maximum number of operations in all scripts of a workload together.
pub const MAX_OPS: usize = 1 << 25;
pub(crate) const MAX_RESOURCES: u32 = 1 << 22;
pub(crate) const MAX_SIGNALS: u32 = 1 << 24;

/// Maximum number of operations that a loop may execute without time passing.
const MAX_TIMELESS_OPS: u64 = 1_000_000;

/// An error, with its task and operation.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub task: usize,
    pub op: Option<usize>,
    pub problem: String,
}

impl Workload {
    /// Checks everything that [`Executor`](crate::Executor) relies on. Loaders call it; call it for workloads built by
    /// hand.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        self.find_flaw().map_err(|flaw| {
            let task = self.tasks.get(flaw.task).map_or(String::new(), |task| format!(", task {:?}", task.name));
            let op = flaw.op.map_or(String::new(), |op| format!(", operation {op}"));
            WorkloadError { place: format!("{}{task}{op}", self.name), problem: flaw.problem }
        })
    }

    pub(crate) fn find_flaw(&self) -> Result<(), Flaw> {
        if !self.tasks.iter().any(|task| task.start != Start::Forked) {
            return Err(Flaw {
                task: usize::MAX,
                op: None,
                problem: "every task is forked; at least one must start by itself".into(),
            });
        }
        let whole = self.check_sizes().and_then(|()| self.check_groups());
        let whole = whole.and_then(|()| self.sources.iter().try_for_each(crate::Source::check));
        whole.map_err(|problem| Flaw { task: usize::MAX, op: None, problem })?;
        for (task, spec) in self.tasks.iter().enumerate() {
            check_spec(spec).map_err(|problem| Flaw { task, op: None, problem })?;
            for (op, step) in spec.script.iter().enumerate() {
                self.check_op(step).map_err(|problem| Flaw { task, op: Some(op), problem })?;
            }
            let script = Script { ops: &spec.script, barriers: &self.barriers };
            script.check().map_err(|(op, problem)| Flaw { task, op: Some(op), problem })?;
        }
        self.check_windows()?;
        self.check_lending()?;
        self.check_signals()?;
        self.check_forks()
    }

    /// Checks the size limits of a workload.
    ///
    /// # Errors
    /// Names the quantity that exceeds its limit, and the limit.
    pub fn check_sizes(&self) -> Result<(), String> {
        let ops = self.tasks.iter().map(|task| task.script.len()).sum();
        let [mutexes, barriers, sources] =
            [self.mutexes.len(), self.barriers.len(), self.sources.len()].map(|count| count as u32);
        let resources = [mutexes, self.conditions, self.references, barriers, sources];
        let resources = resources.into_iter().max().unwrap_or(0);
        let sizes = [
            ("tasks", self.tasks.len(), MAX_TASKS),
            ("operations", ops, MAX_OPS),
            ("resources of a kind", resources as usize, MAX_RESOURCES as usize),
            ("signals", self.signals as usize, MAX_SIGNALS as usize),
        ];
        match sizes.iter().find(|(_, size, most)| size > most) {
            Some((what, size, most)) => Err(format!("{size} {what}; expected at most {most}")),
            None => Ok(()),
        }
    }

    fn check_op(&self, op: &Op) -> Result<(), String> {
        let below = |what: &str, number: u32, count: usize| {
            if (number as usize) < count { Ok(()) } else { Err(format!("{what} {number}, but there are {count}")) }
        };
        let mutex = |mutex: MutexId| below("mutex", mutex.0, self.mutexes.len());
        match op {
            Op::Work { user, system } => short(*user).and(short(*system)),
            Op::CpuTime(time) | Op::Sleep(time, _) => short(*time),
            Op::Timeout(time) => short(*time),
            Op::Anchor(reference)
            | Op::Timer { reference, .. }
            | Op::Interval { reference, .. }
            | Op::WorkUntil { reference, .. } => {
                short(op.period())?;
                if reference.private().is_some_and(|number| number > u32::from(u16::MAX)) {
                    return Err("more than 65536 private references".into());
                }
                reference
                    .private()
                    .map_or_else(|| below("reference", reference.0, self.references as usize), |_| Ok(()))
            }
            Op::Lock(id) | Op::Unlock(id) => mutex(*id),
            Op::Wait(condition, id) | Op::Sync(condition, id) => {
                mutex(*id).and(below("condition", condition.0, self.conditions as usize))
            }
            Op::Signal(id) | Op::Broadcast(id) => below("condition", id.0, self.conditions as usize),
            Op::Barrier(id) | Op::SpinBarrier(id) => {
                below("barrier", id.0, self.barriers.len())?;
                let users = self.barriers[id.0 as usize];
                if users > 0 { Ok(()) } else { Err(format!("barrier {} has no participants", id.0)) }
            }
            Op::Resume(specs) => specs.iter().try_for_each(|&spec| below("task", spec, self.tasks.len())),
            Op::CriticalSections(critical_sections) => self.check_critical_sections(critical_sections),
            Op::Post(id) | Op::Await(id) | Op::WorkUntilPosted(id) => below("signal", id.0, self.signals as usize),
            Op::Fork(spec) => below("task", *spec, self.tasks.len()),
            Op::ChangeOf { spec, cpus, policy } => {
                below("task", *spec, self.tasks.len())?;
                check_cpus(cpus.as_deref())?;
                policy.as_deref().map_or(Ok(()), |&(policy, nice)| check_policy(policy, nice))
            }
            Op::Change { cpus, policy } => {
                check_cpus(cpus.as_deref())?;
                policy.as_deref().map_or(Ok(()), |&(policy, nice)| check_policy(policy, nice))
            }
            Op::Io(io) if io.bytes == 0 || io.bytes > crate::io::MAX_IO_BYTES => {
                Err(format!("a request of {} bytes; expected 1 to {}", io.bytes, crate::io::MAX_IO_BYTES))
            }
            Op::Io(io) => below("disk", io.disk.0, self.disks.len()),
            Op::Fsync(disk) => below("disk", disk.0, self.disks.len()),
            Op::Call(call) => {
                let most = crate::io::MAX_IO_BYTES;
                if let Some(bytes) = [call.bytes, call.reply].into_iter().find(|bytes| !(1..=most).contains(bytes)) {
                    return Err(format!("a call or answer of {bytes} bytes; expected 1 to {most}"));
                }
                below("network", call.network.0, self.networks.len())
            }
            Op::Submit(request) if !(1..=crate::io::MAX_IO_BYTES).contains(&request.bytes) => {
                Err(format!("a request of {} bytes; expected 1 to {}", request.bytes, crate::io::MAX_IO_BYTES))
            }
            Op::Submit(request) => short(request.service).and(below("device", request.device.0, self.devices.len())),
            Op::AwaitRequests { device, slept, .. } => short(*slept).and(below("device", device.0, self.devices.len())),
            Op::TakeRequest(source) | Op::Serve(source) => below("source", source.0, self.sources.len()),
            Op::Unmap(_) | Op::Suspend | Op::Yield | Op::Children(_) | Op::Repeat { .. } => Ok(()),
        }
    }

    fn check_critical_sections(&self, critical_sections: &CriticalSections) -> Result<(), String> {
        let CriticalSections { lock, reads, hold, between, times, .. } = *critical_sections;
        let count = self.locks.len();
        let lock = self.locks.get(lock.0 as usize).ok_or_else(|| format!("lock {}, but there are {count}", lock.0))?;
        if reads && !lock.kind.has_readers() {
            return Err(format!("lock {:?} has no readers; expected mode \"write\"", lock.name));
        }
        if times == 0 || lock.stripes == 0 {
            return Err("0 acquisitions or 0 stripes; expected at least 1".into());
        }
        short(hold).and(short(between))
    }

    /// Each signal is posted in one place and awaited in at most one place, and no signal is awaited that is never
    /// posted.
    fn check_signals(&self) -> Result<(), Flaw> {
        let mut posted = vec![false; self.signals as usize];
        let mut awaited: Vec<Option<(usize, usize)>> = vec![None; self.signals as usize];
        for (task, op, step) in self.ops() {
            let problem = match *step {
                Op::Post(id) if std::mem::replace(&mut posted[id.0 as usize], true) => "posted",
                Op::Await(id) | Op::WorkUntilPosted(id) if awaited[id.0 as usize].replace((task, op)).is_some() => {
                    "awaited"
                }
                _ => continue,
            };
            return Err(Flaw { task, op: Some(op), problem: format!("signal {problem} a second time; expected once") });
        }
        let orphan = awaited.iter().zip(&posted).find_map(|(place, posted)| place.filter(|_| !posted));
        orphan.map_or(Ok(()), |(task, op)| {
            Err(Flaw { task, op: Some(op), problem: "awaits a signal that is never posted".into() })
        })
    }

    /// A task that forks itself, directly or through others, would create tasks without bound.
    fn check_forks(&self) -> Result<(), Flaw> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let forks = |task: usize| {
            self.tasks[task].script.iter().filter_map(|op| if let Op::Fork(child) = op { Some(*child) } else { None })
        };
        let mut marks = vec![Mark::New; self.tasks.len()];
        for root in 0..self.tasks.len() {
            let mut path = if marks[root] == Mark::New { vec![(root, forks(root))] } else { continue };
            marks[root] = Mark::Open;
            while let Some((task, children)) = path.last_mut() {
                let (task, child) = (*task, children.next().map(|child| child as usize));
                match child.map(|child| (child, marks[child])) {
                    Some((_, Mark::Done)) => {}
                    Some((child, Mark::New)) => {
                        marks[child] = Mark::Open;
                        path.push((child, forks(child)));
                    }
                    Some((child, Mark::Open)) => {
                        let op = self.tasks[task].script.iter().position(|op| *op == Op::Fork(child as u32));
                        let problem = "forks itself, directly or through other tasks: unbounded number of tasks".into();
                        return Err(Flaw { task, op, problem });
                    }
                    None => {
                        marks[task] = Mark::Done;
                        path.pop();
                    }
                }
            }
        }
        Ok(())
    }

    fn ops(&self) -> impl Iterator<Item = (usize, usize, &Op)> {
        let tasks = self.tasks.iter().enumerate();
        tasks.flat_map(|(task, spec)| spec.script.iter().enumerate().map(move |(op, step)| (task, op, step)))
    }
}

fn short(time: Nanos) -> Result<(), String> {
    if time <= MAX_STEP { Ok(()) } else { Err(format!("a step of {time}; expected at most {MAX_STEP}")) }
}

fn check_spec(spec: &TaskSpec) -> Result<(), String> {
    if let Start::At(time) = spec.start {
        short(time)?;
    }
    check_cpus(spec.cpus.as_ref())?;
    check_policy(spec.policy, spec.nice)
}

fn check_cpus(cpus: Option<&CpuSet>) -> Result<(), String> {
    if cpus.is_some_and(CpuSet::is_empty) { Err("no CPU is allowed".into()) } else { Ok(()) }
}

/// Value ranges of `sched_setattr(2)`.
pub(crate) fn check_policy(policy: Policy, nice: i8) -> Result<(), String> {
    if !(-20..=19).contains(&nice) {
        return Err(format!("nice value {nice}; expected -20 to 19"));
    }
    match policy {
        Policy::Fifo(priority) | Policy::RoundRobin(priority) if !(1..=99).contains(&priority) => {
            Err(format!("real-time priority {priority}; expected 1 to 99"))
        }
        Policy::Deadline { runtime, deadline, period } if runtime.0 == 0 || runtime > deadline || deadline > period => {
            Err(format!(
                "deadline policy with runtime {runtime}, deadline {deadline}, period {period}; \
                 expected 0 < runtime ≤ deadline ≤ period"
            ))
        }
        _ => Ok(()),
    }
}

/// A script, with the number of participants of each barrier.
struct Script<'a> {
    ops: &'a [Op],
    barriers: &'a [u32],
}

type OpError = (usize, String);

impl Script<'_> {
    fn check(&self) -> Result<(), OpError> {
        let loops = self.loops()?;
        self.check_locks(&loops)?;
        if loops.is_empty() { Ok(()) } else { self.check_timeless() }
    }

    /// Returns the first operation of each loop body; checks that loops are nonempty, run at least once, and nest.
    fn loops(&self) -> Result<Vec<u32>, OpError> {
        let mut firsts = Vec::new();
        // Loops that end before the current operation and are not inside another.
        let mut outer: Vec<(u32, u32)> = Vec::new();
        for (at, op) in self.ops.iter().enumerate() {
            let &Op::Repeat { from, times } = op else { continue };
            if from as usize >= at {
                return Err((at, format!("repeats from operation {from}; expected an earlier one")));
            }
            if times == Some(0) {
                return Err((at, "repeats 0 times; expected at least 1".into()));
            }
            while outer.last().is_some_and(|&(first, _)| first >= from) {
                outer.pop();
            }
            if outer.last().is_some_and(|&(_, last)| last >= from) {
                return Err((at, "loops overlap; expected one inside the other".into()));
            }
            outer.push((from, at as u32));
            firsts.push(from);
        }
        Ok(firsts)
    }

    /// Checks mutex use in one pass that tracks the mutexes held.
    fn check_locks(&self, loops: &[u32]) -> Result<(), OpError> {
        let mut held: Vec<MutexId> = Vec::new();
        let mut at_entry: BTreeMap<u32, Vec<MutexId>> = loops.iter().map(|&first| (first, Vec::new())).collect();
        for (at, op) in self.ops.iter().enumerate() {
            if !loops.is_empty()
                && let Some(entry) = at_entry.get_mut(&(at as u32))
            {
                entry.clone_from(&held);
            }
            match *op {
                Op::Lock(id) if held.contains(&id) => {
                    return Err((at, "locks a mutex that it already holds (self-deadlock)".into()));
                }
                Op::Lock(id) => {
                    held.push(id);
                    held.sort_by_key(|id| id.0);
                }
                Op::Unlock(id) => match held.iter().position(|&other| other == id) {
                    Some(position) => drop(held.remove(position)),
                    None => return Err((at, "unlocks a mutex that it does not hold".into())),
                },
                Op::Wait(_, id) | Op::Sync(_, id) if !held.contains(&id) => {
                    return Err((
                        at,
                        "waits with a mutex that it does not hold; expected a lock operation before".into(),
                    ));
                }
                Op::Repeat { from, times } if times != Some(1) && at_entry[&from] != held => {
                    return Err((at, "the loop does not hold the same mutexes at its end as at its start".into()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that an endless or long loop contains an operation that takes time.
    fn check_timeless(&self) -> Result<(), OpError> {
        // Prefix sums over operations: those that take time, and the number executed without time passing.
        let mut timed = vec![0u64; self.ops.len() + 1];
        let mut executed = vec![0u64; self.ops.len() + 1];
        for (at, op) in self.ops.iter().enumerate() {
            timed[at + 1] = timed[at] + u64::from(self.takes_time(op));
            executed[at + 1] = executed[at].saturating_add(1);
            if let &Op::Repeat { from, times } = op
                && timed[at] == timed[from as usize]
            {
                let body = executed[at] - executed[from as usize];
                let again = times.map_or(u64::MAX, |times| body.saturating_mul(times - 1));
                if again > MAX_TIMELESS_OPS {
                    return Err((at, "loop without run, sleep or wait: no time would pass".into()));
                }
                executed[at + 1] = executed[at + 1].saturating_add(again);
            }
        }
        Ok(())
    }

    fn takes_time(&self, op: &Op) -> bool {
        match op {
            Op::Work { user, system } => user.0 + system.0 > 0,
            Op::CpuTime(time) | Op::Sleep(time, _) => time.0 > 0,
            Op::Timer { period, .. } | Op::Interval { period, .. } => period.0 > 0,
            // A pass through a critical section takes at least 1 ns.
            Op::Wait(..)
            | Op::Sync(..)
            | Op::Suspend
            | Op::CriticalSections(_)
            | Op::TakeRequest(_)
            | Op::Io(_)
            | Op::Call(_) => true,
            Op::Barrier(id) | Op::SpinBarrier(id) => self.barriers[id.0 as usize] > 1,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BarrierId, ConditionId, Reference, SignalId, Sleep};

    pub(crate) fn workload(scripts: &[&[Op]]) -> Workload {
        let task = |(index, script): (usize, &&[Op])| TaskSpec {
            name: format!("t{index}"),
            command: None,
            start: Start::At(Nanos::ZERO),
            policy: Policy::Other,
            nice: 0,
            cpus: None,
            peak_rss_bytes: 0,
            who: crate::Who::default(),
            window: None,
            memory: None,
            lends: None,
            script: script.to_vec(),
        };
        Workload {
            name: "w".into(),
            duration: None,
            locks: Vec::new(),
            tasks: scripts.iter().enumerate().map(task).collect(),
            mutexes: crate::MutexSpec::unnamed(2),
            conditions: 1,
            barriers: vec![2, 0],
            signals: 2,
            references: 1,
            sources: Vec::new(),
            disks: Vec::new(),
            devices: Vec::new(),
            networks: Vec::new(),
            idle_exit_limit: None,
            groups: Vec::new(),
            is_grouped: false,
            caveats: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn work() -> Op {
        Op::Work { user: Nanos(1), system: Nanos::ZERO }
    }

    fn assert_flaws(cases: &[(&[&[Op]], &str)]) {
        for (scripts, expected) in cases {
            assert_eq!(workload(scripts).validate().unwrap_err().to_string(), *expected);
        }
    }

    #[test]
    fn validate_reports_mutex_and_loop_errors() {
        let lock = |id| Op::Lock(MutexId(id));
        let unlock = |id| Op::Unlock(MutexId(id));
        let repeat = |from, times| Op::Repeat { from, times };
        assert_flaws(&[
            (&[], "w: every task is forked; at least one must start by itself"),
            (&[&[unlock(0)]], "w, task \"t0\", operation 0: unlocks a mutex that it does not hold"),
            (&[&[lock(2)]], "w, task \"t0\", operation 0: mutex 2, but there are 2"),
            (
                &[&[lock(0), lock(0)]],
                "w, task \"t0\", operation 1: locks a mutex that it already holds (self-deadlock)",
            ),
            (
                &[&[lock(0), work(), repeat(0, Some(2))]],
                "w, task \"t0\", operation 2: the loop does not hold the same mutexes at its end as at its start",
            ),
            (
                &[&[Op::Wait(ConditionId(0), MutexId(0))]],
                "w, task \"t0\", operation 0: waits with a mutex that it does not hold; expected a lock operation before",
            ),
            (
                &[&[work(), repeat(1, None)]],
                "w, task \"t0\", operation 1: repeats from operation 1; expected an earlier one",
            ),
            (&[&[work(), repeat(0, Some(0))]], "w, task \"t0\", operation 1: repeats 0 times; expected at least 1"),
            (
                &[&[work(), work(), repeat(0, Some(2)), work(), repeat(1, Some(2))]],
                "w, task \"t0\", operation 4: loops overlap; expected one inside the other",
            ),
            (
                &[&[Op::Yield, repeat(0, None)]],
                "w, task \"t0\", operation 1: loop without run, sleep or wait: no time would pass",
            ),
            (
                &[&[Op::Yield, repeat(0, Some(2_000)), repeat(0, Some(2_000))]],
                "w, task \"t0\", operation 2: loop without run, sleep or wait: no time would pass",
            ),
            (
                &[&[Op::Sleep(Nanos::ZERO, Sleep::Timer), repeat(0, None)]],
                "w, task \"t0\", operation 1: loop without run, sleep or wait: no time would pass",
            ),
        ]);
    }

    #[test]
    fn validate_reports_bad_references_and_values() {
        assert_flaws(&[
            (&[&[Op::Barrier(BarrierId(1))]], "w, task \"t0\", operation 0: barrier 1 has no participants"),
            (&[&[Op::Await(SignalId(0))]], "w, task \"t0\", operation 0: awaits a signal that is never posted"),
            (
                &[&[Op::Post(SignalId(0)), Op::Post(SignalId(0))]],
                "w, task \"t0\", operation 1: signal posted a second time; expected once",
            ),
            (
                &[&[work(), Op::Fork(1)], &[Op::Fork(0)]],
                "w, task \"t1\", operation 0: forks itself, directly or through other tasks: unbounded number of tasks",
            ),
            (&[&[Op::Fork(1)]], "w, task \"t0\", operation 0: task 1, but there are 1"),
            (
                &[&[Op::CpuTime(Nanos::MAX)]],
                "w, task \"t0\", operation 0: a step of 18446744073 s; expected at most 1000000 s",
            ),
            (
                &[&[Op::Timer { reference: Reference(1), period: Nanos(1), absolute: false }]],
                "w, task \"t0\", operation 0: reference 1, but there are 1",
            ),
            (
                &[&[Op::Change { cpus: Some(Box::default()), policy: None }]],
                "w, task \"t0\", operation 0: no CPU is allowed",
            ),
            (
                &[&[Op::Change { cpus: None, policy: Some(Box::new((Policy::Fifo(0), 0))) }]],
                "w, task \"t0\", operation 0: real-time priority 0; expected 1 to 99",
            ),
            (
                &[&[Op::Change { cpus: None, policy: Some(Box::new((Policy::Other, 20))) }]],
                "w, task \"t0\", operation 0: nice value 20; expected -20 to 19",
            ),
        ]);
    }

    #[test]
    fn validate_accepts_valid_scripts() {
        let lock = Op::Lock(MutexId(0));
        let unlock = Op::Unlock(MutexId(0));
        let cases: &[&[&[Op]]] = &[
            &[&[]],
            &[&[
                lock.clone(),
                work(),
                Op::Repeat { from: 1, times: Some(9) },
                unlock.clone(),
                Op::Repeat { from: 0, times: None },
            ]],
            &[&[lock.clone(), work(), Op::Repeat { from: 0, times: Some(1) }, unlock]],
            &[&[Op::Suspend, Op::Repeat { from: 0, times: None }]],
            &[&[Op::Barrier(BarrierId(0)), Op::Repeat { from: 0, times: None }]],
            &[&[Op::Fork(1), Op::Fork(2), Op::Post(SignalId(1))], &[Op::Fork(2), Op::Await(SignalId(1))], &[]],
            &[&[lock]],
        ];
        for scripts in cases {
            workload(scripts).validate().unwrap();
        }
    }
}
