// SPDX-License-Identifier: GPL-2.0-only
//! From the kernel's events to a workload that keeps the causes.
//!
//! 1. A task's script is what it did in the order of time. Between two steps stands the CPU time that it got between
//!    them: how often it was preempted meanwhile is the scheduler's matter, not the task's.
//! 2. A sleep that another recorded task ended becomes a signal: the sleeper awaits it, and the waker posts it at the
//!    point of its own progress where it did so. So a parent waits for its child, a reader for its writer, and a
//!    `vfork` for the exec, however fast the machine is on which it is replayed.
//! 3. A sleep that a timer or a device ended keeps its length, and so does one that a task outside the recording ended:
//!    nothing in the recording says what that task waited for.
//! 4. Whom an interrupt borrowed is never a cause.
//! 5. What the recorded schedule cost is no work ([`crate::overhead`]).
//!
//! Replay in this order cannot deadlock: every step happened at some time, and each waits only for earlier ones.

use crate::event::{Event, Kind, Number, Slept, Waker};
use crate::overhead::{Counts, Overheads};
use crate::split::{Parts, Pool};
use ids::{CpuSet, Nanos, Policy};
use std::collections::BTreeMap;
use workload::{Op, SignalId, Sleep, Start, TaskSpec, Who, Workload};

/// What the conversion must know of the machine that was recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// Its CPUs. An affinity that holds all of them is none.
    pub cpus: CpuSet,
    /// Size of a page.
    pub page_bytes: u64,
}

/// A workload and what there is to say about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Converted {
    /// The workload.
    pub workload: Workload,
    /// From the root's birth to the last event.
    pub wall: Nanos,
    /// CPU time of all tasks.
    pub cpu: Nanos,
    /// What of it was taken out, as it was the schedule's.
    pub scheduling: Nanos,
    /// Tasks that had not ended when the recording did. Their scripts end where they were seen last.
    pub unfinished: u32,
    /// Events about tasks whose birth is not in the recording. 0 if no event was lost.
    pub orphans: u64,
}

/// Converts the events of a recording, in any order. `overheads` are taken out of what the tasks did.
pub fn convert(name: &str, events: &[Event], host: &Host, overheads: &Overheads) -> Converted {
    let mut tree = Tree::new(events, host);
    let mut order: Vec<&Event> = events.iter().collect();
    order.sort_by_key(|event| event.time);
    for event in order {
        tree.take(event);
    }
    tree.finish(name, overheads)
}

/// The workload, and whether it had to be cut: if it is larger than a workload may be, the last part of the events is left
/// out until it fits. A recording that ends early is worth more than none.
pub fn convert_what_fits(
    name: &str,
    mut events: Vec<Event>,
    host: &Host,
    overheads: &Overheads,
    fits: &dyn Fn(&Workload) -> bool,
) -> (Converted, bool) {
    let mut converted = convert(name, &events, host, overheads);
    let mut cut = false;
    if !fits(&converted.workload) {
        events.sort_by_key(|event| event.time);
    }
    while !fits(&converted.workload) && !events.is_empty() {
        cut = true;
        drop(converted);
        events.truncate(events.len() / 8 * 7);
        converted = convert(name, &events, host, overheads);
    }
    (converted, cut)
}

/// Policy, nice value and affinity.
#[derive(Clone, PartialEq, Debug, Default)]
struct Attributes {
    policy: Policy,
    nice: i8,
    cpus: Option<CpuSet>,
}

/// Something that a task did.
#[derive(Clone, PartialEq, Debug)]
struct Step {
    time: Nanos,
    /// Its CPU time at that moment.
    work: Nanos,
    /// How often it had got a CPU, and how many interrupts it had sent, if that is known here.
    counts: Option<(u32, u32)>,
    op: Op,
}

impl Step {
    fn new(time: Nanos, work: Nanos, op: Op) -> Step {
        Step { time, work, counts: None, op }
    }

    /// Order at one instant: a task that sleeps does nothing more before it is woken.
    fn rank(&self) -> (Nanos, bool) {
        (self.time, matches!(self.op, Op::Sleep(..) | Op::Await(_)))
    }
}

/// One task.
#[derive(Clone, PartialEq, Debug)]
struct Life {
    born: Nanos,
    /// Index of its parent, if that is recorded.
    parent: Option<usize>,
    tgid: u32,
    name: String,
    command: Option<String>,
    first: Attributes,
    now: Attributes,
    peak_rss_bytes: u64,
    steps: Vec<Step>,
    parts: Parts,
    /// Its CPU time when it ended, how often it had got a CPU, and how many interrupts it had sent.
    end: Option<(Nanos, (u32, u32))>,
}

struct Tree<'a> {
    host: &'a Host,
    index: BTreeMap<Number, usize>,
    lives: Vec<Life>,
    /// Which task leads each process: it is the one that carries the process's peak RSS.
    leaders: BTreeMap<u32, usize>,
    signals: u32,
    first: Nanos,
    last: Nanos,
    orphans: u64,
}

impl<'a> Tree<'a> {
    /// All tasks exist from here on: a task may be woken by one that is born after it fell asleep.
    fn new(events: &[Event], host: &'a Host) -> Tree<'a> {
        let births = events.iter().filter_map(|event| match &event.kind {
            Kind::Birth { parent, tgid, comm, .. } => Some((event.task, (event.time, *parent, *tgid, comm))),
            _ => None,
        });
        let births: BTreeMap<Number, _> = births.collect();
        let index: BTreeMap<Number, usize> = births.keys().enumerate().map(|(index, task)| (*task, index)).collect();
        let life = |(born, parent, tgid, comm): &(Nanos, Option<Number>, u32, &String)| Life {
            born: *born,
            parent: parent.and_then(|parent| index.get(&parent).copied()),
            tgid: *tgid,
            name: (*comm).clone(),
            command: None,
            first: Attributes::default(),
            now: Attributes::default(),
            peak_rss_bytes: 0,
            steps: Vec::new(),
            parts: Parts::new(comm),
            end: None,
        };
        let lives: Vec<Life> = births.values().map(life).collect();
        let first = lives.iter().map(|life| life.born).min().unwrap_or_default();
        Tree { host, index, lives, leaders: BTreeMap::new(), signals: 0, first, last: first, orphans: 0 }
    }

    /// Takes the next event in the order of time.
    fn take(&mut self, event: &Event) {
        let Some(&index) = self.index.get(&event.task) else {
            self.orphans += 1;
            return;
        };
        self.last = self.last.max(event.time);
        match &event.kind {
            Kind::Birth { pid, tgid, .. } => self.birth(index, event, pid == tgid),
            Kind::Sleep(slept) => {
                self.last = self.last.max(slept.wake);
                self.sleep(index, event, slept);
            }
            Kind::Exec { ticks, comm, arguments, truncated } => {
                let life = &mut self.lives[index];
                life.name.clone_from(comm);
                let ellipsis = if *truncated { "…" } else { "" };
                life.command = (!arguments.is_empty()).then(|| command_line(arguments) + ellipsis);
                life.parts.exec(event.work, *ticks, comm);
                // A thread that executes a program takes over the process.
                self.leaders.insert(life.tgid, index);
            }
            Kind::Attributes { policy, nice, cpus } => {
                let everywhere = self.host.cpus.is_subset(cpus);
                let new = Attributes { policy: *policy, nice: *nice, cpus: (!everywhere).then(|| cpus.clone()) };
                self.attributes(index, event, new);
            }
            Kind::Exit { ticks, peak_rss_pages, comm } => {
                let life = &mut self.lives[index];
                life.name.clone_from(comm);
                life.parts.exit(event.work, *ticks);
                let leader = self.leaders.get(&life.tgid).copied().unwrap_or(index);
                let peak = &mut self.lives[leader].peak_rss_bytes;
                *peak = (*peak).max(peak_rss_pages * self.host.page_bytes);
            }
            Kind::End { switches, interrupts } => {
                self.lives[index].end = Some((event.work, (*switches, *interrupts)));
            }
            Kind::Switch { .. } | Kind::Wake { .. } | Kind::Rename { .. } | Kind::Hotplug { .. } => {
                unreachable!("the recorder's programs do not send these")
            }
        }
    }

    fn birth(&mut self, index: usize, event: &Event, leads: bool) {
        if leads {
            self.leaders.insert(self.lives[index].tgid, index);
        }
        let Some(parent) = self.lives[index].parent else { return };
        let inherited = self.lives[parent].now.clone();
        self.lives[index].first = inherited.clone();
        self.lives[index].now = inherited;
        self.lives[parent].steps.push(Step::new(event.time, event.work, Op::Fork(index as u32)));
    }

    fn sleep(&mut self, index: usize, event: &Event, slept: &Slept) {
        let step =
            |op| Step { counts: Some((slept.switches, slept.interrupts)), ..Step::new(event.time, event.work, op) };
        if let Waker::Task(number, work) = slept.waker
            && let Some(&waker) = self.index.get(&number)
            && waker != index
        {
            let signal = SignalId(self.signals);
            self.signals += 1;
            self.lives[index].steps.push(step(Op::Await(signal)));
            self.lives[waker].steps.push(Step::new(slept.wake, work, Op::Post(signal)));
            return;
        }
        let length = slept.wake.since(event.time);
        if length > Nanos::ZERO {
            let cause = cause(slept.waker, (slept.io_wait, slept.uninterruptible));
            self.lives[index].steps.push(step(Op::Sleep(length, cause)));
        }
    }

    fn attributes(&mut self, index: usize, event: &Event, new: Attributes) {
        let life = &mut self.lives[index];
        if event.time == life.born {
            life.first = new.clone();
        } else if new != life.now {
            let everywhere = || self.host.cpus.clone();
            let cpus = (new.cpus != life.now.cpus).then(|| new.cpus.clone().unwrap_or_else(everywhere));
            let other = (new.policy, new.nice) != (life.now.policy, life.now.nice);
            let op = Op::Change { cpus, policy: other.then_some((new.policy, new.nice)) };
            life.steps.push(Step::new(event.time, event.work, op));
        }
        life.now = new;
    }

    fn finish(mut self, name: &str, overheads: &Overheads) -> Converted {
        let mut pool = Pool::default();
        self.lives.iter().for_each(|life| pool.add(&life.parts));
        let unfinished = self.lives.iter().filter(|life| life.end.is_none()).count() as u32;
        let (mut cpu, mut scheduling) = (Nanos::ZERO, Nanos::ZERO);
        let mut tasks = Vec::with_capacity(self.lives.len());
        for life in &mut self.lives {
            life.steps.sort_by_key(Step::rank);
            let (script, total, work) = script(life, &pool, overheads);
            cpu += total;
            scheduling += total - work;
            let start = match life.parent {
                Some(_) => Start::Forked,
                None => Start::At(life.born.since(self.first)),
            };
            tasks.push(TaskSpec {
                name: life.name.clone(),
                command: life.command.clone(),
                start,
                policy: life.first.policy,
                nice: life.first.nice,
                cpus: life.first.cpus.clone(),
                peak_rss_bytes: life.peak_rss_bytes,
                who: Who { tgid: Some(life.tgid), ..Who::default() },
                script,
            });
        }
        let workload = Workload {
            name: name.to_owned(),
            duration: None,
            tasks,
            mutexes: 0,
            locks: Vec::new(),
            conditions: 0,
            barriers: Vec::new(),
            signals: self.signals,
            references: 0,
            parts: Vec::new(),
        };
        Converted { workload, wall: self.last.since(self.first), cpu, scheduling, unfinished, orphans: self.orphans }
    }
}

/// The ops of one task, its CPU time, and what of that is its own work.
fn script(life: &Life, pool: &Pool, overheads: &Overheads) -> (Vec<Op>, Nanos, Nanos) {
    let seen = life.steps.iter().map(|step| step.work).max().unwrap_or_default();
    let total = life.end.map_or(seen, |(total, _)| total);
    let mut progress = Progress { overheads, counts: Counts::default(), time: Nanos::ZERO, work: Nanos::ZERO };
    let mut script = Vec::with_capacity(2 * life.steps.len() + 1);
    let work_until = |progress: &mut Progress<'_>, time: Nanos, script: &mut Vec<Op>| {
        // Between switches a position is taken from another clock than the CPU time: never back, never past the end.
        let from = progress.time;
        let own = progress.advance(time.min(total));
        if own > Nanos::ZERO {
            // What is taken out was spent in the kernel.
            let (user, _) = pool.divide(&life.parts, from, progress.time);
            let user = user.min(own);
            script.push(Op::Work { user, system: own - user });
        }
    };
    for step in &life.steps {
        progress.counts.count(step);
        work_until(&mut progress, step.work, &mut script);
        script.push(step.op.clone());
    }
    if let Some((_, counts)) = life.end {
        progress.counts.set(counts);
    }
    work_until(&mut progress, total, &mut script);
    (script, total, progress.work)
}

impl Counts {
    fn set(&mut self, (switches, interrupts): (u32, u32)) {
        (self.switches, self.interrupts) = (switches.into(), interrupts.into());
    }

    /// Takes in what a step says. A fork wakes the child.
    fn count(&mut self, step: &Step) {
        step.counts.into_iter().for_each(|counts| self.set(counts));
        self.wakes += u64::from(matches!(step.op, Op::Post(_) | Op::Fork(_)));
    }
}

/// How far one task has come.
struct Progress<'a> {
    overheads: &'a Overheads,
    counts: Counts,
    /// Its CPU time.
    time: Nanos,
    /// What of that was its own work.
    work: Nanos,
}

impl Progress<'_> {
    /// It has got so much CPU time. Gives the work of its own since the last time.
    fn advance(&mut self, time: Nanos) -> Nanos {
        self.time = self.time.max(time);
        let work = self.time.since(self.overheads.of(self.counts, self.time)).max(self.work);
        let more = work - self.work;
        self.work = work;
        more
    }
}

/// What ended a sleep that no recorded task ended. `device`: the sleeper was in `io_schedule()`, or in state D.
pub(crate) fn cause(waker: Waker, (io_wait, uninterruptible): (bool, bool)) -> Sleep {
    // Numbers of softirqs: include/linux/interrupt.h.
    const TIMER: u8 = 1;
    const NET_TX: u8 = 2;
    const NET_RX: u8 = 3;
    const BLOCK: u8 = 4;
    const IRQ_POLL: u8 = 5;
    const HRTIMER: u8 = 8;
    match waker {
        _ if io_wait => Sleep::Io,
        Waker::SoftInterrupt(TIMER | HRTIMER) => Sleep::Timer,
        Waker::SoftInterrupt(NET_TX | NET_RX | BLOCK | IRQ_POLL) => Sleep::Io,
        Waker::HardInterrupt if uninterruptible => Sleep::Io,
        Waker::HardInterrupt => Sleep::Timer,
        Waker::SoftInterrupt(_) | Waker::NonMaskable | Waker::Outside | Waker::Unseen | Waker::Task(..) => {
            Sleep::External
        }
    }
}

/// Arguments as one line that a shell would take apart again.
pub fn command_line<Argument: AsRef<str>>(arguments: impl IntoIterator<Item = Argument>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+./,:@%^".contains(c);
    let quoted = |argument: Argument| match argument.as_ref() {
        text if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        text => format!("'{}'", text.replace('\'', r"'\''")),
    };
    arguments.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
