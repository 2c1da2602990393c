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
//! 6. A task that reads from a pipe or socket needs what was written, also if it found it there ([`crate::channels`]).
//! 7. A sleep that ends on a grid of time keeps the grid ([`crate::timing`]). Work that an alarm or a signal of another task
//!    ends lasts until that, however much it is.
//!
//! Replay in this order cannot deadlock: every step stands at a time, and each waits only for what stands no later.

use crate::channels::{Channels, Posts};
use crate::event::{Event, Kind, Number, Slept, Waker};
use crate::life::{self, Attributes, Life, Step, Written};
use crate::overhead::Overheads;
use crate::split::Pool;
use crate::timing::{self, Expired};
use crate::touched::{Reading, Requests, Threads};
use ids::{CpuSet, Nanos};
use std::collections::BTreeMap;
use std::mem::take;
use workload::{Observed, Op, SignalId, Sleep, Start, TaskSpec, Who, Workload};

/// What the conversion must know of the machine that was recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// Its CPUs. An affinity that holds all of them is none.
    pub cpus: CpuSet,
    /// Size of a page.
    pub page_bytes: u64,
    /// Its control groups (of version 2), by the kernel's numbers for them.
    pub groups: BTreeMap<u64, String>,
    /// The names of its block devices, by their numbers: the major one times 2^20, and the minor one.
    pub devices: BTreeMap<u32, String>,
}

/// A workload and what there is to say about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Converted {
    /// The workload.
    pub workload: Workload,
    /// What its tasks touched.
    pub observed: Observed,
    /// Requests of block devices beyond those that a recording may have.
    pub requests_left_out: u64,
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
#[cfg(test)]
pub fn convert(name: &str, events: &[Event], host: &Host, overheads: &Overheads) -> Converted {
    convert_what_fits(name, events, host, overheads, usize::MAX).0
}

/// The same with a bound for the operations; and whether the workload had to be cut for it.
#[cfg(test)]
pub fn convert_what_fits(
    name: &str,
    events: &[Event],
    host: &Host,
    overheads: &Overheads,
    most: usize,
) -> (Converted, bool) {
    let (many, others): (Vec<Event>, Vec<Event>) =
        events.iter().cloned().partition(|event| is_one_of_many(&event.kind));
    let mut conversion = Conversion::new(others, host);
    many.iter().for_each(|event| conversion.add(event));
    conversion.finish(name, overheads, most)
}

/// Whether [`Conversion::add`] takes it.
#[cfg(test)]
fn is_one_of_many(kind: &Kind) -> bool {
    matches!(kind, Kind::Sleep(_) | Kind::Pass(_) | Kind::Request(_))
}

/// A conversion that goes on. Nearly all events are sleeps, passes and requests; each is forgotten as soon as it was taken.
pub struct Conversion<'a> {
    host: &'a Host,
    index: BTreeMap<Number, usize>,
    lives: Vec<Life>,
    /// Which task leads each process: it is the one that carries the process's peak RSS.
    leaders: BTreeMap<u32, usize>,
    /// The last signal of each number that each process got from a task: when, from whom, at which of its CPU times.
    sent: BTreeMap<(u32, u32), (Nanos, usize, Nanos)>,
    /// Of each signal.
    posts: Posts,
    channels: Channels,
    threads: Threads,
    requests: Requests,
    first: Nanos,
    last: Nanos,
    orphans: u64,
}

impl<'a> Conversion<'a> {
    /// Takes all events that are neither sleeps, passes nor requests, in any order. All tasks exist from here on: a task may
    /// be woken by one that is born after it fell asleep.
    pub fn new(mut others: Vec<Event>, host: &'a Host) -> Conversion<'a> {
        others.sort_by_key(|event| event.time);
        let births = others.iter().filter_map(|event| match &event.kind {
            Kind::Birth { parent, tgid, comm, .. } => Some((event.task, (event.time, *parent, *tgid, comm))),
            _ => None,
        });
        let births: BTreeMap<Number, _> = births.collect();
        let index: BTreeMap<Number, usize> = births.keys().enumerate().map(|(index, task)| (*task, index)).collect();
        let life = |(born, parent, tgid, comm): &(Nanos, Option<Number>, u32, &String)| {
            Life::new(*born, parent.and_then(|parent| index.get(&parent).copied()), *tgid, comm)
        };
        let lives: Vec<Life> = births.values().map(life).collect();
        let first = lives.iter().map(|life| life.born).min().unwrap_or_default();
        let mut conversion = Conversion {
            host,
            index,
            lives,
            leaders: BTreeMap::new(),
            sent: BTreeMap::new(),
            posts: Posts::new(),
            channels: Channels::default(),
            threads: Threads::default(),
            requests: Requests::default(),
            first,
            last: first,
            orphans: 0,
        };
        others.iter().for_each(|event| conversion.take(event));
        conversion
    }

    /// Whose event this is.
    fn find(&mut self, event: &Event) -> Option<usize> {
        let index = self.index.get(&event.task).copied();
        self.orphans += u64::from(index.is_none());
        self.last = if index.is_some() { self.last.max(event.time) } else { self.last };
        index
    }

    /// Takes the next event in the order of time.
    fn take(&mut self, event: &Event) {
        let Some(index) = self.find(event) else { return };
        let life = &mut self.lives[index];
        match &event.kind {
            Kind::Birth { parent, pid, tgid, .. } => {
                self.threads.begins(*tgid);
                if parent.is_none() {
                    life.before = event.work;
                }
                self.birth(index, event, pid == tgid);
            }
            Kind::Exec { ticks, comm, arguments, truncated } => {
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
            Kind::Who { group, session, uid, ticks } => {
                life.who = Some((*session, *uid, *group));
                if life.parent.is_none() && event.time == life.born {
                    life.parts.begins_with(*ticks);
                }
            }
            Kind::Exit { ticks, peak_rss_pages, comm, signal } => {
                life.name.clone_from(comm);
                life.parts.exit(event.work, *ticks);
                let leader = self.leaders.get(&life.tgid).copied().unwrap_or(index);
                let peak = &mut self.lives[leader].peak_rss_bytes;
                *peak = (*peak).max(peak_rss_pages * self.host.page_bytes);
                self.ended_by(index, event, *signal);
            }
            Kind::Signal { number, sender } => {
                if let Waker::Task(sender, work) = sender
                    && let Some(&sender) = self.index.get(sender)
                {
                    self.sent.insert((life.tgid, *number), (event.time, sender, *work));
                }
            }
            Kind::SetAlarm { .. } | Kind::Alarm => alarm(life, event),
            Kind::End { switches, interrupts } => {
                life.end = Some((event.work, (*switches, *interrupts)));
                life.ended = event.time;
                self.threads.ends(life.tgid);
            }
            Kind::Last { switches, interrupts, ticks } => {
                if life.end.is_none() {
                    life.seen = Some((event.work, (*switches, *interrupts)));
                    life.parts.ends_with(*ticks);
                }
            }
            Kind::Touched { .. } | Kind::Footprint(_) => self.touched(index, event),
            Kind::Sleep(_) | Kind::Pass(_) | Kind::Request(_) => unreachable!("these are taken apart from the others"),
            Kind::Switch { .. } | Kind::Wake { .. } | Kind::Rename { .. } | Kind::Hotplug { .. } => {
                unreachable!("the recorder's programs do not send these")
            }
        }
    }

    /// What a task has touched, or how much memory its process has.
    fn touched(&mut self, index: usize, event: &Event) {
        let life = &mut self.lives[index];
        match &event.kind {
            Kind::Touched { counters, cpu } => {
                if life.parent.is_none() && event.time == life.born {
                    life.touched_before = *counters;
                }
                life.touched_last = Some((event.time, Reading { cpu: *cpu, counters: *counters }));
            }
            Kind::Footprint(footprint) => {
                let leader = self.leaders.get(&life.tgid).copied().unwrap_or(index);
                self.lives[leader].footprint = Some(*footprint);
            }
            _ => {}
        }
    }

    /// The task at `index` exits; 0: by itself. If another task has sent the signal that ends it, it worked until that.
    fn ended_by(&mut self, index: usize, event: &Event, signal: u32) {
        let tgid = self.lives[index].tgid;
        let Some(&(time, sender, work)) = self.sent.get(&(tgid, signal)) else { return };
        if signal == 0 || self.lives[sender].tgid == tgid {
            return;
        }
        let posted = self.new_signal(sender, work);
        self.lives[index].steps.push(Step::new(event.time, event.work, Op::WorkUntilPosted(posted)));
        self.lives[sender].steps.push(Step::new(time, work, Op::Post(posted)));
    }

    /// Which this task posts at this CPU time of its own.
    fn new_signal(&mut self, poster: usize, work: Nanos) -> SignalId {
        self.posts.push((poster as u32, work));
        SignalId(self.posts.len() as u32 - 1)
    }

    fn birth(&mut self, index: usize, event: &Event, leads: bool) {
        if leads {
            self.leaders.insert(self.lives[index].tgid, index);
        }
        let Some(parent) = self.lives[index].parent else { return };
        let inherited = self.lives[parent].now.clone();
        self.lives[index].first = inherited.clone();
        self.lives[index].now = inherited;
        self.lives[index].who = self.lives[parent].who;
        self.lives[parent].steps.push(Step::new(event.time, event.work, Op::Fork(index as u32)));
    }

    /// Takes a sleep, a pass or a request; they may come in any order, but passes of one task in that of time.
    pub fn add(&mut self, event: &Event) {
        if let Kind::Request(requested) = &event.kind {
            if event.time >= self.first {
                let task = requested.task.and_then(|task| self.index.get(&task)).map(|task| *task as u32);
                self.requests.take(event.time.since(self.first), task, requested);
            }
            return;
        }
        let Some(index) = self.find(event) else { return };
        match &event.kind {
            Kind::Sleep(slept) => self.sleep(index, event, slept),
            Kind::Pass(passed) => self.channels.take(index as u32, event.time, event.work, *passed),
            _ => unreachable!("the others were there at the start"),
        }
    }

    fn sleep(&mut self, index: usize, event: &Event, slept: &Slept) {
        self.last = self.last.max(slept.wake);
        let length = slept.wake.since(event.time);
        let waker = match slept.waker {
            Waker::Task(number, work) => self.index.get(&number).map(|&waker| (waker, work)),
            _ => None,
        };
        let waker = waker.filter(|(waker, _)| *waker != index);
        if waker.is_none() && length == Nanos::ZERO {
            return;
        }
        // A wait for a task stands where it ends. Between its two ends a task does nothing, unless the kernel hid a turn of
        // it and two sleeps look like one; then it stands behind what the task did in that turn.
        let (op, time) = match waker {
            Some((waker, work)) => {
                let signal = self.new_signal(waker, work);
                self.lives[waker].steps.push(Step::new(slept.wake, work, Op::Post(signal)));
                (Op::Await(signal), event.time.max(slept.wake))
            }
            None => (Op::Sleep(length, cause(slept.waker, (slept.io_wait, slept.uninterruptible))), event.time),
        };
        if let Some(limit) = slept.limit.filter(|_| !slept.expiry.is_some_and(|expiry| expiry.own)) {
            self.lives[index].steps.push(Step::new(time, event.work, Op::Timeout(limit)));
        }
        let life = &mut self.lives[index];
        if let Some(expiry) = slept.expiry.filter(|_| matches!(op, Op::Sleep(_, Sleep::Timer))) {
            life.expiries.push(Expired { step: life.steps.len() as u32, expiry, length });
        }
        if matches!(slept.waker, Waker::SoftInterrupt(NET_RX) | Waker::Unseen) && !slept.io_wait {
            life.arrivals.insert(event.time, slept.wake);
        }
        let counts = Some((slept.switches, slept.interrupts));
        let reading = Some(life.readings.len() as u32);
        life.readings.push(Reading { cpu: slept.cpu, counters: slept.counters });
        life.steps.push(Step { counts, reading, ..Step::new(time, event.work, op) });
    }

    fn attributes(&mut self, index: usize, event: &Event, new: Attributes) {
        let life = &mut self.lives[index];
        if event.time == life.born {
            life.first = new.clone();
        } else if new != life.now {
            let everywhere = || self.host.cpus.clone();
            let cpus = (new.cpus != life.now.cpus).then(|| new.cpus.clone().unwrap_or_else(everywhere));
            let other = (new.policy, new.nice) != (life.now.policy, life.now.nice);
            let policy = other.then(|| Box::new((new.policy, new.nice)));
            let op = Op::Change { cpus: cpus.map(Box::new), policy };
            life.steps.push(Step::new(event.time, event.work, op));
        }
        life.now = new;
    }

    /// The workload, and whether it had to be cut: if it has more operations than `most`, the end of the recording is left
    /// out. A recording that ends early is worth more than none.
    pub fn finish(mut self, name: &str, overheads: &Overheads, most: usize) -> (Converted, bool) {
        for life in &mut self.lives {
            timing::find_grids(&mut life.steps, &life.expiries);
            life.expiries = Vec::new();
        }
        take(&mut self.channels).join(&mut self.lives, &mut self.posts);
        let cut = self.cut(most);
        let mut pool = Pool::default();
        self.lives.iter().for_each(|life| pool.add(&life.parts));
        let unfinished = self.lives.iter().filter(|life| life.end.is_none()).count() as u32;
        let (mut cpu, mut scheduling) = (Nanos::ZERO, Nanos::ZERO);
        let mut tasks = Vec::with_capacity(self.lives.len());
        let mut observed = Observed::default();
        for (index, mut life) in (0u32..).zip(self.lives) {
            life.steps.sort_by_key(Step::rank);
            let Written { script, total, work, stretches } = life::script(&mut life, &pool, overheads);
            if !stretches.is_empty() {
                observed.stretches.insert(index, stretches);
            }
            if let Some(pages) = life.footprint {
                let footprint = self.threads.footprint(life.tgid, &pages, self.host.page_bytes);
                observed.footprints.insert(index, footprint);
            }
            cpu += total;
            scheduling += total - work;
            let group = life.who.and_then(|(_, _, group)| self.host.groups.get(&group).cloned());
            let (session, uid) = (life.who.map(|(session, ..)| session), life.who.map(|(_, uid, _)| uid));
            tasks.push(TaskSpec {
                name: life.name,
                command: life.command,
                start: life.parent.map_or(Start::At(life.born.since(self.first)), |_| Start::Forked),
                policy: life.first.policy,
                nice: life.first.nice,
                cpus: life.first.cpus,
                peak_rss_bytes: life.peak_rss_bytes,
                who: Who { tgid: Some(life.tgid), session, uid, group },
                script,
            });
        }
        let workload =
            Workload { name: name.to_owned(), tasks, signals: self.posts.len() as u32, ..Workload::default() };
        let wall = self.last.since(self.first);
        let requests_left_out;
        (observed.devices, observed.requests, requests_left_out) = self.requests.finish(&self.host.devices);
        let orphans = self.orphans;
        (Converted { workload, observed, requests_left_out, wall, cpu, scheduling, unfinished, orphans }, cut)
    }

    /// Leaves out what came late if there is too much. A step makes two operations at most, with the work before it, and
    /// a task one more.
    fn cut(&mut self, most: usize) -> bool {
        let steps: usize = self.lives.iter().map(|life| life.steps.len()).sum();
        let keep = most.saturating_sub(self.lives.len()) / 2;
        if steps <= keep {
            return false;
        }
        let mut times: Vec<Nanos> = self.lives.iter().flat_map(|life| &life.steps).map(|step| step.time).collect();
        let (_, &mut end, _) = times.select_nth_unstable(keep);
        drop(times);
        self.last = end;
        let mut posted = vec![false; self.posts.len()];
        for life in &mut self.lives {
            life.steps.retain(|step| step.time < end);
            for step in &life.steps {
                if let Op::Post(signal) = step.op {
                    posted[signal.0 as usize] = true;
                }
            }
            life.end = life.end.filter(|_| life.ended < end);
            life.seen = None;
            life.touched_last = life.touched_last.filter(|(time, _)| *time < end);
            life.footprint = life.footprint.filter(|_| life.end.is_some());
        }
        let is_posted = |op: &Op| match op {
            Op::Await(signal) | Op::WorkUntilPosted(signal) => posted[signal.0 as usize],
            _ => true,
        };
        self.lives.iter_mut().for_each(|life| life.steps.retain(|step| is_posted(&step.op)));
        self.forget_the_unborn(end);
        self.number_signals_anew();
        true
    }

    fn forget_the_unborn(&mut self, end: Nanos) {
        let mut new = Vec::with_capacity(self.lives.len());
        let mut left = 0;
        for life in &self.lives {
            new.push(left);
            left += usize::from(life.born < end);
        }
        self.lives.retain(|life| life.born < end);
        self.requests.cut(end.since(self.first), &new);
        for life in &mut self.lives {
            life.parent = life.parent.map(|parent| new[parent]);
            for step in &mut life.steps {
                if let Op::Fork(child) = &mut step.op {
                    *child = new[*child as usize] as u32;
                }
            }
        }
    }

    fn number_signals_anew(&mut self) {
        let mut new = vec![u32::MAX; self.posts.len()];
        let mut posts = Posts::new();
        for step in self.lives.iter_mut().flat_map(|life| &mut life.steps) {
            if let Op::Post(signal) | Op::Await(signal) | Op::WorkUntilPosted(signal) = &mut step.op {
                let number = &mut new[signal.0 as usize];
                if *number == u32::MAX {
                    *number = posts.len() as u32;
                    posts.push(self.posts[signal.0 as usize]);
                }
                *signal = SignalId(*number);
            }
        }
        self.posts = posts;
    }
}

/// A task asks for an alarm, or gets one.
fn alarm(life: &mut Life, event: &Event) {
    match &event.kind {
        Kind::SetAlarm { after, interval } => {
            life.alarm = (*after > Nanos::ZERO && *interval == Nanos::ZERO).then_some(*after);
            life.steps.push(Step::new(event.time, event.work, Op::Anchor(timing::ALARM)));
        }
        Kind::Alarm => {
            if let Some(after) = life.alarm.take() {
                let op = Op::WorkUntil { reference: timing::ALARM, after };
                life.steps.push(Step::new(event.time, event.work, op));
            }
        }
        _ => {}
    }
}

/// The softirq in which packets arrive, in include/linux/interrupt.h.
const NET_RX: u8 = 3;

/// What ended a sleep that no recorded task ended. `device`: the sleeper was in `io_schedule()`, or in state D.
pub(crate) fn cause(waker: Waker, (io_wait, uninterruptible): (bool, bool)) -> Sleep {
    // More of them.
    const TIMER: u8 = 1;
    const NET_TX: u8 = 2;
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
pub(crate) mod tests;
