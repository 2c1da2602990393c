// SPDX-License-Identifier: GPL-2.0-only
//! What a workload is by itself: how much work, how many CPUs it could use, and its longest chain.
//!
//! 1. It is played on as many CPUs as it has tasks, where nothing costs anything: who can go on goes on. What that takes is
//!    the *span*; no machine is faster, however many CPUs it has.
//! 2. The longest chain is what the span consists of: from the end of the last task back to whoever woke or made it, and
//!    so on to the beginning. It works and sleeps, and never waits.
//! 3. On P CPUs, work W and span S, of which the chain works C, the work takes at least max(W/P, S), and at most
//!    S + (W - C)/P under a scheduler that leaves no CPU idle beside a task that could run (Graham 1966, Brent 1974).
//!
//! Locks in shared memory are passed through as if nobody else were there.

use crate::{Demand, Player, Sleep, Start, Workload, WorkloadError};
use ids::{Nanos, TaskId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Operations at one instant after which something is wrong: a million for each task would take hours to play.
const STEPS_AT_ONE_INSTANT: u64 = 100_000_000;

/// What a workload is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Span {
    /// Tasks that began.
    pub tasks: u32,
    /// All work, and the part of it in the kernel.
    pub work: Nanos,
    /// See above.
    pub system: Nanos,
    /// How long it takes with as many CPUs as it can use, or for how long it was looked at.
    pub span: Nanos,
    /// All that ends has ended.
    pub is_complete: bool,
    /// Sleeps of fixed length, how many and how long together: by timers, by devices, by something outside.
    pub sleeps: [(u64, Nanos); 3],
    /// Waits for other tasks.
    pub waits: u64,
    /// For how long so many tasks worked at a time.
    pub levels: BTreeMap<u32, Nanos>,
    /// How many worked at a time, in thousandths, in equal parts of the span.
    pub timeline: Vec<u64>,
    /// The longest chain, from its beginning; of an incomplete one, that of the task that acted last.
    pub chain: Vec<Link>,
}

/// What one task did in the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its name.
    pub task: String,
    /// Its work.
    pub work: Nanos,
    /// Its sleep.
    pub sleep: Nanos,
}

impl Span {
    /// How long the chain works.
    pub fn chain_work(&self) -> Nanos {
        Nanos(self.chain.iter().map(|link| link.work.0).sum())
    }

    /// The least and the most that so many CPUs need, at least one.
    pub fn bounds(&self, cpus: u64) -> (Nanos, Nanos) {
        let least = Nanos(self.work.0.div_ceil(cpus)).max(self.span);
        (least, self.span + Nanos(self.work.since(self.chain_work()).0.div_ceil(cpus)))
    }
}

impl Workload {
    /// Plays it where nothing costs anything, until all has ended that ends, or for so long. `parts` is how many parts the
    /// timeline has.
    ///
    /// # Errors
    /// If it never ends and there is no limit, neither here nor in the workload; or if it acts for ever at one instant.
    pub fn span(&self, limit: Option<Nanos>, parts: usize) -> Result<Span, WorkloadError> {
        let fail = |problem: &str| WorkloadError { place: self.name.clone(), problem: problem.to_owned() };
        let limit = limit.or(self.duration);
        if limit.is_none() && !self.is_finite() {
            return Err(fail("it has tasks that never end and no duration; give one"));
        }
        let mut run = Run::new(self, limit.unwrap_or(Nanos::MAX));
        run.play().map_err(fail)?;
        Ok(run.finish(parts))
    }
}

/// What a task had done at some time: work and sleep.
type Done = (Nanos, Nanos);

/// A task became able to go on.
#[derive(Clone, Copy, Debug)]
struct Entry {
    own: Done,
    /// By whom, what that had done, and how many entries it had.
    by: Option<(TaskId, Done, usize)>,
}

#[derive(Debug, Default)]
struct Task {
    done: Done,
    entries: Vec<Entry>,
    /// It works until its next event.
    works: bool,
}

struct Run<'w> {
    workload: &'w Workload,
    player: Player<'w>,
    limit: Nanos,
    now: Nanos,
    tasks: Vec<Task>,
    starts: VecDeque<(Nanos, u32)>,
    /// Ends of work and of sleep.
    events: BinaryHeap<Reverse<(Nanos, TaskId)>>,
    ready: VecDeque<TaskId>,
    woken: Vec<TaskId>,
    working: u32,
    timeline: Timeline,
    /// Tasks for which the play lasts: that live, and that come.
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
            player: Player::new(workload),
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

    /// Time passes.
    fn pass(&mut self, to: Nanos) {
        let passed = to - self.now;
        *self.found.levels.entry(self.working).or_default() += passed;
        self.timeline.add(self.now, to, self.working);
        self.now = to;
    }

    /// A task of this spec begins.
    fn begin(&mut self, spec: u32, parent: Option<TaskId>) {
        let task = TaskId(self.tasks.len() as u32);
        let by = parent.map(|parent| self.state(parent));
        self.tasks.push(Task { entries: vec![Entry { own: Done::default(), by }], ..Task::default() });
        match parent {
            Some(parent) => {
                self.player.forked(task, spec, parent, self.now);
                self.left += usize::from(!self.workload.is_beside(spec));
            }
            None => self.player.started(task, spec, self.now),
        }
        self.ready.push_back(task);
    }

    fn state(&self, task: TaskId) -> (TaskId, Done, usize) {
        let Task { done, entries, .. } = &self.tasks[task.index()];
        (task, *done, entries.len())
    }

    /// All that are ready act, until each works, sleeps or waits.
    fn act(&mut self) -> Result<(), &'static str> {
        let mut steps = 0;
        while let Some(task) = self.ready.pop_front() {
            if !self.workload.is_beside(self.player.spec_of(task)) {
                self.last = Some(task);
            }
            while self.step(task) {
                steps += 1;
                if steps > STEPS_AT_ONE_INSTANT {
                    return Err("it acts for ever at one instant; give its scripts work or sleep");
                }
            }
        }
        Ok(())
    }

    /// One step of a task; whether it can go on at once.
    fn step(&mut self, task: TaskId) -> bool {
        let demand = self.player.next(task, self.now, &mut self.woken).demand;
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
            Demand::CriticalSections(op) => self.work(task, Nanos(op.times.saturating_mul((op.hold + op.between).0))),
            Demand::Sleep(time, cause) => {
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
            Demand::Wait | Demand::Spin => false,
            Demand::Fork(spec) => {
                self.begin(spec, Some(task));
                true
            }
            Demand::Yield | Demand::Change { .. } | Demand::ChangeOf { .. } => true,
            Demand::Exit => {
                self.left -= usize::from(!self.workload.is_beside(self.player.spec_of(task)));
                false
            }
        }
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

    /// From the task that acted last back to the beginning.
    fn chain(&self) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        let mut next = self.last.map(|task| self.state(task));
        while let Some((task, done, entries)) = next {
            let entry = self.tasks[task.index()].entries[entries - 1];
            let (work, sleep) = (done.0.since(entry.own.0), done.1.since(entry.own.1));
            let name = &self.player.spec(self.player.spec_of(task)).name;
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

/// How many worked at a time, in slots that grow as time passes.
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

    /// In so many equal parts of a time, in thousandths of a task. A slot that lies in two parts is divided evenly.
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
