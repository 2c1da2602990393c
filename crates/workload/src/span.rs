// SPDX-License-Identifier: GPL-2.0-only
//! Inherent parallelism of a workload: its work, its longest chain, and how many CPUs it can use.
//!
//! 1. The workload is executed on as many CPUs as it has tasks, without any costs: every runnable task runs. The time
//!    this takes is the *span*; no machine can be faster, however many CPUs it has.
//! 2. The longest chain is what the span consists of: from the end of the last task back through the tasks that woke
//!    or forked it, to the start. It consists of work and sleep only, never of waiting.
//! 3. On P CPUs, with work W, span S and work C of the chain, the workload takes at least max(W/P, S), and at most S
//!    + (W - C)/P under a work-conserving scheduler (Graham 1966, Brent 1974).
//!
//! Locks in shared memory are treated as uncontended. A request to a disk counts as a sleep of 100 us, as no disk is
//! known.

use crate::{Demand, Executor, Sleep, Start, Workload, WorkloadError};
use ids::{Nanos, TaskId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Limit on operations without time passing: a million for each task would take hours.
const STEPS_AT_ONE_INSTANT: u64 = 100_000_000;

/// Length of a request to a disk: that of a read from flash.
const IO: Nanos = Nanos::from_us(100);

/// Inherent parallelism of a workload.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Span {
    /// Number of tasks started.
    pub tasks: u32,
    /// Total work.
    pub work: Nanos,
    /// Kernel part of the work.
    pub system: Nanos,
    /// Time on an unlimited number of CPUs, or the time limit.
    pub span: Nanos,
    /// Whether all finite tasks have exited.
    pub is_complete: bool,
    /// Number and total length of sleeps of fixed length: by timers, by devices, by external causes.
    pub sleeps: [(u64, Nanos); 3],
    /// Number of these sleeps that are waits for requests of the task to a device.
    pub requests: u64,
    /// Number of waits for other tasks.
    pub waits: u64,
    /// Time during which exactly this number of tasks worked.
    pub levels: BTreeMap<u32, Nanos>,
    /// Mean number of working tasks, in thousandths, in equal parts of the span.
    pub timeline: Vec<u64>,
    /// Longest chain of dependent work, from its start. If the workload did not complete, the chain of the task that
    /// acted last.
    pub chain: Vec<Link>,
}

/// A task's part of the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Name of the task.
    pub task: String,
    /// Work of the task.
    pub work: Nanos,
    /// Sleep of the task.
    pub sleep: Nanos,
}

impl Span {
    /// Work of the chain.
    pub fn chain_work(&self) -> Nanos {
        Nanos(self.chain.iter().map(|link| link.work.0).sum())
    }

    /// Lower and upper bound of the time on `cpus` CPUs, at least one.
    pub fn bounds(&self, cpus: u64) -> (Nanos, Nanos) {
        let least = Nanos(self.work.0.div_ceil(cpus)).max(self.span);
        (least, self.span + Nanos(self.work.since(self.chain_work()).0.div_ceil(cpus)))
    }
}

impl Workload {
    /// Executes the workload without costs until all finite tasks have exited or the limit is reached. `parts` is the
    /// number of timeline parts.
    ///
    /// # Errors
    /// If the workload is endless and neither `limit` nor its duration limits it; or if it acts endlessly
    /// without time passing.
    pub fn span(&self, limit: Option<Nanos>, parts: usize) -> Result<Span, WorkloadError> {
        let fail = |problem: &str| WorkloadError { place: self.name.clone(), problem: problem.to_owned() };
        let limit = limit.or(self.duration);
        if limit.is_none() && !self.is_finite() {
            return Err(fail("the workload has endless tasks and no duration; set a duration"));
        }
        let mut run = Run::new(self, limit.unwrap_or(Nanos::MAX));
        run.play().map_err(fail)?;
        Ok(run.finish(parts))
    }
}

/// Work and sleep of a task up to some time.
type Done = (Nanos, Nanos);

/// A task became runnable.
#[derive(Clone, Copy, Debug)]
struct Entry {
    own: Done,
    /// The task that woke or forked it, that task's work and sleep, and its number of entries.
    by: Option<(TaskId, Done, usize)>,
}

#[derive(Debug, Default)]
struct Task {
    done: Done,
    entries: Vec<Entry>,
    /// Whether it works until its next event.
    works: bool,
}

struct Run<'w> {
    workload: &'w Workload,
    executor: Executor<'w>,
    limit: Nanos,
    now: Nanos,
    tasks: Vec<Task>,
    starts: VecDeque<(Nanos, u32)>,
    /// Ends of work and of sleeps.
    events: BinaryHeap<Reverse<(Nanos, TaskId)>>,
    ready: VecDeque<TaskId>,
    woken: Vec<TaskId>,
    working: u32,
    timeline: Timeline,
    /// Number of tasks that must still exit, including those not started yet.
    left: usize,
    last: Option<TaskId>,
    found: Span,
}

impl<'w> Run<'w> {
    fn new(workload: &'w Workload, limit: Nanos) -> Run<'w> {
        let mut starts: Vec<(Nanos, u32)> = Vec::new();
        for (task, number) in workload.tasks.iter().zip(0..) {
            if let Start::At(time) = task.start {
                starts.push((time, number));
            }
        }
        starts.sort_unstable();
        Run {
            workload,
            executor: Executor::new(workload),
            limit,
            now: Nanos::ZERO,
            tasks: Vec::new(),
            left: starts.iter().filter(|(_, spec)| !workload.is_beside(*spec)).count(),
            starts: starts.into(),
            events: BinaryHeap::new(),
            ready: VecDeque::new(),
            woken: Vec::new(),
            working: 0,
            timeline: Timeline::new(),
            last: None,
            found: Span::default(),
        }
    }

    fn play(&mut self) -> Result<(), &'static str> {
        while self.left > 0 {
            let start = self.starts.front().map(|(time, _)| *time);
            let event = self.events.peek().map(|Reverse((time, _))| *time);
            let Some(next) = start.into_iter().chain(event).min().filter(|next| *next <= self.limit) else { break };
            self.pass(next);
            while let Some(&(_, spec)) = self.starts.front().filter(|(time, _)| *time == next) {
                self.starts.pop_front();
                self.begin(spec, None);
            }
            while let Some(&Reverse((_, task))) = self.events.peek().filter(|Reverse((time, _))| *time == next) {
                self.events.pop();
                self.working -= u32::from(std::mem::take(&mut self.tasks[task.index()].works));
                self.ready.push_back(task);
            }
            self.act()?;
        }
        if self.left > 0 && self.limit < Nanos::MAX {
            self.pass(self.limit);
        }
        Ok(())
    }

    /// Advances the time.
    fn pass(&mut self, to: Nanos) {
        let passed = to - self.now;
        *self.found.levels.entry(self.working).or_default() += passed;
        self.timeline.add(self.now, to, self.working);
        self.now = to;
    }

    /// Starts a task of this spec.
    fn begin(&mut self, spec: u32, parent: Option<TaskId>) {
        let task = TaskId(self.tasks.len() as u32);
        let by = parent.map(|parent| self.state(parent));
        self.tasks.push(Task { entries: vec![Entry { own: Done::default(), by }], ..Task::default() });
        match parent {
            Some(parent) => {
                self.executor.forked(task, spec, parent, self.now);
                self.left += usize::from(!self.workload.is_beside(spec));
            }
            None => self.executor.started(task, spec, self.now),
        }
        self.ready.push_back(task);
    }

    fn state(&self, task: TaskId) -> (TaskId, Done, usize) {
        let Task { done, entries, .. } = &self.tasks[task.index()];
        (task, *done, entries.len())
    }

    /// Lets all ready tasks act until each works, sleeps or waits.
    fn act(&mut self) -> Result<(), &'static str> {
        let mut steps = 0;
        while let Some(task) = self.ready.pop_front() {
            if !self.workload.is_beside(self.executor.spec_of(task)) {
                self.last = Some(task);
            }
            while self.step(task) {
                steps += 1;
                if steps > STEPS_AT_ONE_INSTANT {
                    return Err("the tasks act endlessly without time passing; add work or sleep to the scripts");
                }
            }
        }
        Ok(())
    }

    /// Executes one step of a task; returns whether the task can continue immediately.
    fn step(&mut self, task: TaskId) -> bool {
        let demand = self.executor.next(task, self.now, &mut self.woken).demand;
        let by = Some(self.state(task));
        for other in self.woken.drain(..) {
            let own = self.tasks[other.index()].done;
            self.tasks[other.index()].entries.push(Entry { own, by });
            self.found.waits += 1;
            self.ready.push_back(other);
        }
        match demand {
            Demand::Work { work, system } => {
                self.found.system += system;
                self.work(task, work)
            }
            Demand::CpuTime(time) => self.work(task, time),
            Demand::Io(io) if io.cached => true,
            Demand::Io(_) => {
                self.found.requests += 1;
                self.sleep(task, IO, Sleep::Io)
            }
            Demand::CriticalSections(op) => self.work(task, Nanos(op.times.saturating_mul((op.hold + op.between).0))),
            // Of cached requests, it is unknown which ones wait.
            Demand::Fsync(_) | Demand::Unmap(_) => true,
            Demand::Call(_) => self.sleep(task, IO, Sleep::Io),
            Demand::Submit(_) => true,
            Demand::AwaitRequests { slept: Nanos::ZERO, .. } => true,
            Demand::AwaitRequests { slept, .. } => {
                self.found.requests += 1;
                self.sleep(task, slept, Sleep::Io)
            }
            Demand::Sleep(time, cause) => self.sleep(task, time, cause),
            Demand::Wait | Demand::Spin => false,
            Demand::Fork(spec) => {
                self.begin(spec, Some(task));
                true
            }
            Demand::Yield | Demand::Change { .. } | Demand::ChangeOf { .. } => true,
            Demand::Exit => {
                self.left -= usize::from(!self.workload.is_beside(self.executor.spec_of(task)));
                false
            }
        }
    }

    fn sleep(&mut self, task: TaskId, time: Nanos, cause: Sleep) -> bool {
        let sum = &mut self.found.sleeps[match cause {
            Sleep::Timer => 0,
            Sleep::Io => 1,
            Sleep::External => 2,
        }];
        *sum = (sum.0 + 1, sum.1 + time);
        self.tasks[task.index()].done.1 += time;
        self.events.push(Reverse((self.now + time, task)));
        false
    }

    fn work(&mut self, task: TaskId, time: Nanos) -> bool {
        if time == Nanos::ZERO {
            return true;
        }
        let entry = &mut self.tasks[task.index()];
        entry.done.0 += time;
        entry.works = true;
        self.working += 1;
        self.found.work += time;
        self.events.push(Reverse((self.now + time, task)));
        false
    }

    fn finish(mut self, parts: usize) -> Span {
        let chain = self.chain();
        Span {
            tasks: self.tasks.len() as u32,
            span: self.now,
            is_complete: self.left == 0,
            timeline: self.timeline.parts(self.now, parts),
            chain,
            ..std::mem::take(&mut self.found)
        }
    }

    /// Follows the chain from the task that acted last back to the start.
    fn chain(&self) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        let mut next = self.last.map(|task| self.state(task));
        while let Some((task, done, entries)) = next {
            let entry = self.tasks[task.index()].entries[entries - 1];
            let (work, sleep) = (done.0.since(entry.own.0), done.1.since(entry.own.1));
            let name = &self.executor.spec(self.executor.spec_of(task)).name;
            match links.last_mut().filter(|link| link.task == *name) {
                Some(link) => (link.work, link.sleep) = (link.work + work, link.sleep + sleep),
                None => links.push(Link { task: name.clone(), work, sleep }),
            }
            next = entry.by;
        }
        links.reverse();
        links
    }
}

/// Number of working tasks over time, in slots whose width doubles as needed.
#[derive(Debug)]
struct Timeline {
    width: u64,
    /// Work in each slot.
    slots: Vec<u64>,
}

impl Timeline {
    const SLOTS: u64 = 4096;

    fn new() -> Timeline {
        Timeline { width: 1_000, slots: Vec::new() }
    }

    fn add(&mut self, from: Nanos, to: Nanos, working: u32) {
        while to.0 > self.width * Timeline::SLOTS {
            let pairs = self.slots.chunks(2).map(|pair| pair.iter().sum()).collect();
            (self.slots, self.width) = (pairs, 2 * self.width);
        }
        let mut at = from.0;
        while at < to.0 && working > 0 {
            let slot = at / self.width;
            let end = to.0.min((slot + 1) * self.width);
            if self.slots.len() <= slot as usize {
                self.slots.resize(slot as usize + 1, 0);
            }
            self.slots[slot as usize] += (end - at) * u64::from(working);
            at = end;
        }
    }

    /// Mean number of working tasks in equal parts of the span, in thousandths. A slot that overlaps two parts is
    /// divided proportionally.
    fn parts(&self, span: Nanos, parts: usize) -> Vec<u64> {
        let edge = |part: usize| (u128::from(span.0) * part as u128 / parts as u128) as u64;
        let work_until = |time: u64| {
            let (slot, rest) = ((time / self.width) as usize, time % self.width);
            let whole: u64 = self.slots.iter().take(slot).sum();
            let last = self.slots.get(slot).copied().unwrap_or(0);
            whole + (u128::from(last) * u128::from(rest) / u128::from(self.width)) as u64
        };
        let part = |part: usize| {
            let (from, to) = (edge(part), edge(part + 1));
            ((work_until(to) - work_until(from)) * 1000).checked_div(to - from).unwrap_or(0)
        };
        (0..if span == Nanos::ZERO { 0 } else { parts }).map(part).collect()
    }
}

#[cfg(test)]
mod tests;
