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
//!    Who waits for the end of one of several children waits for any of them ([`crate::family`]).
//! 7. A sleep that ends on a grid of time keeps the grid ([`crate::timing`]). Work that an alarm or a signal of another task
//!    ends lasts until that, however much it is.
//!
//! Replay in this order cannot deadlock: every step stands at a time, and each waits only for what stands no later.

use crate::channels::{Channels, Posts};
use crate::event::{Event, Kind, Number, Scheduled, Slept, Waker};
use crate::family;
use crate::life::{self, Attributes, Life, Step};
use crate::overhead::Overheads;
use crate::split::Pool;
use crate::timing::{self, Expired};
use crate::touched::{Reading, Requests, Threads};
use ids::{CpuSet, Nanos};
use std::collections::BTreeMap;
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
    let mut conversion = Conversion::new(host, *overheads, most);
    conversion.add_all(events);
    conversion.finish(name, host)
}

/// A conversion that goes on: events come in batches, and what is over can be written before the end comes ([`crate::window`]).
/// Nearly all events are sleeps, passes and requests; each is forgotten as soon as it was taken.
pub struct Conversion {
    pub(crate) host: Host,
    /// Costs of the recorded schedule, which are taken out of the work of tasks.
    pub overheads: Overheads,
    /// Operations that there may be at most.
    most: usize,
    index: BTreeMap<Number, usize>,
    pub(crate) lives: Vec<Life>,
    /// Which task leads each process: it is the one that carries the process's peak RSS.
    leaders: BTreeMap<u32, usize>,
    /// The last signal of each number that each process got from a task: when, from whom, at which of its CPU times.
    sent: BTreeMap<(u32, u32), (Nanos, usize, Nanos)>,
    /// Of each signal.
    pub(crate) posts: Posts,
    pub(crate) channels: Channels,
    threads: Threads,
    pub(crate) requests: Requests,
    first: Nanos,
    last: Nanos,
    orphans: u64,
    pub(crate) sums: Sums,
    /// What happened before this time is written.
    pub(crate) horizon: Nanos,
    /// There are as many operations as there may be: what comes now is left out.
    is_full: bool,
}

/// What is known of tasks whose scripts are written.
#[derive(Default)]
pub(crate) struct Sums {
    /// CPU time, and what of it was taken out.
    pub cpu: Nanos,
    pub scheduling: Nanos,
    /// Ticks of those that ended.
    pub pool: Pool,
    /// Operations.
    pub operations: usize,
    /// Signals that may be in what is written.
    pub signals: u32,
}

impl Conversion {
    /// Of what is recorded on this machine. `overheads` are taken out of what the tasks did. It has `most` operations at most.
    pub fn new(host: &Host, overheads: Overheads, most: usize) -> Conversion {
        Conversion {
            host: host.clone(),
            overheads,
            most,
            index: BTreeMap::new(),
            lives: Vec::new(),
            leaders: BTreeMap::new(),
            sent: BTreeMap::new(),
            posts: Posts::default(),
            channels: Channels::default(),
            threads: Threads::default(),
            requests: Requests::default(),
            first: Nanos::MAX,
            last: Nanos::ZERO,
            orphans: 0,
            sums: Sums::default(),
            horizon: Nanos::ZERO,
            is_full: false,
        }
    }

    /// Takes a batch of events, in any order.
    #[cfg(test)]
    pub fn add_all(&mut self, events: &[Event]) {
        let (many, others): (Vec<Event>, Vec<Event>) = events
            .iter()
            .cloned()
            .partition(|event| matches!(event.kind, Kind::Sleep(_) | Kind::Pass(_) | Kind::Request(_)));
        self.begin(others);
        many.iter().for_each(|event| self.add(event));
    }

    /// Takes those events of a batch that are neither sleeps, passes nor requests, in any order. All its tasks exist from here
    /// on: a task may be woken by one that is born after it fell asleep.
    pub fn begin(&mut self, mut others: Vec<Event>) {
        if self.is_full {
            return;
        }
        others.sort_by_key(|event| event.time);
        let births = others.iter().filter_map(|event| match &event.kind {
            Kind::Birth { parent, tgid, comm, .. } => Some((event.task, (event.time, *parent, *tgid, comm))),
            _ => None,
        });
        let births: BTreeMap<Number, _> = births.collect();
        let known = self.lives.len();
        self.index.extend((known..).zip(births.keys()).map(|(index, task)| (*task, index)));
        let index = &self.index;
        let life = |(born, parent, tgid, comm): &(Nanos, Option<Number>, u32, &String)| {
            Life::new(*born, parent.and_then(|parent| index.get(&parent).copied()), *tgid, comm)
        };
        self.lives.extend(births.values().map(life));
        if known == 0 {
            // Whoever is born later is born later.
            self.first = self.lives.iter().map(|life| life.born).min().unwrap_or(Nanos::MAX);
        }
        others.iter().for_each(|event| self.take(event));
    }

    /// So many operations there may be at most, and that is reached: nothing more is taken.
    pub fn is_full(&mut self, more: usize) -> bool {
        // A step makes two operations at most, with the work before it, and a task one more.
        self.is_full |= self.sums.operations + 2 * more + self.lives.len() > self.most;
        self.is_full
    }

    /// The next step of a task. What is written already cannot be changed: what is told that late stands behind it.
    fn step(&mut self, index: usize, step: Step) {
        let time = step.time.max(self.horizon);
        self.lives[index].steps.push(Step { time, ..step });
    }

    /// Whose event this is.
    fn find(&mut self, event: &Event) -> Option<usize> {
        let index = self.index.get(&event.task).copied();
        self.orphans += u64::from(index.is_none());
        if let Some(index) = index {
            self.last = self.last.max(event.time);
            self.lives[index].begins_no_earlier(event.time, event.work);
        }
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
                life.exited = Some(event.time);
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
            Kind::SetAlarm { .. } | Kind::Alarm => {
                if let Some(step) = alarm(life, event) {
                    self.step(index, step);
                }
            }
            Kind::End(scheduled) => self.end(index, event, *scheduled),
            Kind::Last { scheduled, ticks } => {
                if life.end.is_none() {
                    life.seen = Some((event.work, *scheduled));
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

    /// The task at `index` has ended.
    fn end(&mut self, index: usize, event: &Event, scheduled: Scheduled) {
        let life = &mut self.lives[index];
        life.end = Some((event.work, scheduled));
        life.ended = event.time;
        self.threads.ends(life.tgid);
        if let Some(parent) = life.parent {
            self.lives[parent].children.ended(event.time);
        }
    }

    /// The task at `index` exits; 0: by itself. If another task has sent the signal that ends it, it worked until that.
    fn ended_by(&mut self, index: usize, event: &Event, signal: u32) {
        let tgid = self.lives[index].tgid;
        let Some(&(time, sender, work)) = self.sent.get(&(tgid, signal)) else { return };
        if signal == 0 || self.lives[sender].tgid == tgid || self.lives[sender].is_written {
            return;
        }
        let posted = self.new_signal(sender, work);
        self.step(index, Step::new(event.time, event.work, Op::WorkUntilPosted(posted)));
        self.step(sender, Step::new(time, work, Op::Post(posted)));
    }

    /// Which this task posts at this CPU time of its own.
    fn new_signal(&mut self, poster: usize, work: Nanos) -> SignalId {
        self.posts.add(poster as u32, work)
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
        self.lives[parent].children.born(event.time);
        self.step(parent, Step::new(event.time, event.work, Op::Fork(index as u32)));
    }

    /// Takes a sleep, a pass or a request; they may come in any order, but passes of one task in that of time.
    pub fn add(&mut self, event: &Event) {
        if self.is_full {
            return;
        }
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
            Kind::Pass(passed) => {
                self.lives[index].passes.push(event.time);
                self.channels.take(index as u32, event.time.max(self.horizon), event.work, *passed);
            }
            _ => unreachable!("the others were there at the start of the batch"),
        }
    }

    fn sleep(&mut self, index: usize, event: &Event, slept: &Slept) {
        self.last = self.last.max(slept.wake);
        let length = slept.wake.since(event.time);
        let waker = match slept.waker {
            Waker::Task(number, work) => self.index.get(&number).map(|&waker| (waker, work)),
            _ => None,
        };
        let waker = waker.filter(|(waker, _)| *waker != index && !self.lives[*waker].is_written);
        if waker.is_none() && length == Nanos::ZERO {
            return;
        }
        // A wait for a task stands where it ends. Between its two ends a task does nothing, unless the kernel hid a turn of
        // it and two sleeps look like one; then it stands behind what the task did in that turn.
        let (op, time) = match waker {
            Some((waker, work)) => {
                let signal = self.new_signal(waker, work);
                self.step(waker, Step::new(slept.wake, work, Op::Post(signal)));
                // The post stays in any case: there its end begins.
                let others = family::others_that_would_do(&self.lives, index, waker, slept);
                (others.map_or(Op::Await(signal), Op::Children), event.time.max(slept.wake))
            }
            None => (Op::Sleep(length, cause(slept.waker, (slept.io_wait, slept.uninterruptible))), event.time),
        };
        if let Some(limit) = slept.limit.filter(|_| !slept.expiry.is_some_and(|expiry| expiry.own)) {
            self.step(index, Step::new(time, event.work, Op::Timeout(limit)));
        }
        let life = &mut self.lives[index];
        if let Some(expiry) = slept.expiry.filter(|_| matches!(op, Op::Sleep(_, Sleep::Timer))) {
            life.expiries.push(Expired { step: life.steps.len() as u32, expiry, length });
        }
        if matches!(slept.waker, Waker::SoftInterrupt(NET_RX) | Waker::Unseen) && !slept.io_wait {
            life.arrivals.insert(event.time.max(self.horizon), slept.wake);
        }
        let reading = Some(life.readings.len() as u32);
        life.readings.push(Reading { cpu: slept.cpu, counters: slept.counters });
        self.step(index, Step { scheduled: Some(slept.scheduled), reading, ..Step::new(time, event.work, op) });
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
            self.step(index, Step::new(event.time, event.work, op));
        }
        self.lives[index].now = new;
    }

    /// The workload, and whether it had to be cut: if it has more operations than it may, the end of the recording is left
    /// out. A recording that ends early is worth more than none. What was written before is not in it.
    pub fn finish(mut self, name: &str, host: &Host) -> (Converted, bool) {
        if self.lives.is_empty() {
            self.first = self.last;
        }
        self.settle(Nanos::MAX);
        let cut = self.cut();
        let pool = self.pool();
        let unfinished = self.lives.iter().filter(|life| life.end.is_none()).count() as u32;
        let Sums { mut cpu, mut scheduling, .. } = self.sums;
        let mut tasks = Vec::with_capacity(self.lives.len());
        let mut observed = Observed::default();
        for (index, mut life) in (0u32..).zip(self.lives) {
            let mut script = Vec::new();
            if !life.is_written {
                life.steps.sort_by_key(Step::rank);
                let written = life::script(&mut life, &pool, &self.overheads, None);
                if !written.stretches.is_empty() {
                    observed.stretches.insert(index, written.stretches);
                }
                cpu += written.total;
                scheduling += written.total - written.work;
                script = written.script;
            }
            if let Some(pages) = life.footprint {
                let footprint = self.threads.footprint(life.tgid, &pages, self.host.page_bytes);
                observed.footprints.insert(index, footprint);
            }
            tasks.push(task(life, script, self.first, host));
        }
        let workload = Workload { name: name.to_owned(), tasks, signals: self.posts.count(), ..Workload::default() };
        let wall = self.last.since(self.first);
        let requests_left_out;
        (observed.devices, observed.requests, requests_left_out) = self.requests.finish(&host.devices);
        let orphans = self.orphans;
        (Converted { workload, observed, requests_left_out, wall, cpu, scheduling, unfinished, orphans }, cut)
    }

    /// Leaves out what came late if there is too much. A step makes two operations at most, with the work before it, and
    /// a task one more.
    fn cut(&mut self) -> bool {
        let steps: usize = self.lives.iter().map(|life| life.steps.len()).sum();
        let keep = self.most.saturating_sub(self.lives.len() + self.sums.operations) / 2;
        if steps <= keep {
            return false;
        }
        let mut times: Vec<Nanos> = self.lives.iter().flat_map(|life| &life.steps).map(|step| step.time).collect();
        let (_, &mut end, _) = times.select_nth_unstable(keep);
        drop(times);
        self.last = end;
        // What is written has the posts that are not here.
        let mut posted = vec![false; self.posts.count() as usize];
        posted[..self.sums.signals as usize].fill(true);
        for step in self.lives.iter().flat_map(|life| &life.steps) {
            if let Op::Post(signal) = step.op {
                posted[signal.0 as usize] = false;
            }
        }
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
        let kept = self.sums.signals;
        let (mut new, mut next) = (BTreeMap::new(), kept);
        for step in self.lives.iter_mut().flat_map(|life| &mut life.steps) {
            if let Op::Post(signal) | Op::Await(signal) | Op::WorkUntilPosted(signal) = &mut step.op
                && signal.0 >= kept
            {
                signal.0 = *new.entry(signal.0).or_insert_with(|| {
                    next += 1;
                    next - 1
                });
            }
        }
        self.posts.forget(next);
    }
}

/// A task and its script; the recording began at `first`.
fn task(life: Life, script: Vec<Op>, first: Nanos, host: &Host) -> TaskSpec {
    let group = life.who.and_then(|(_, _, group)| host.groups.get(&group).cloned());
    let (session, uid) = (life.who.map(|(session, ..)| session), life.who.map(|(_, uid, _)| uid));
    TaskSpec {
        name: life.name,
        command: life.command,
        start: life.parent.map_or(Start::At(life.born.since(first)), |_| Start::Forked),
        policy: life.first.policy,
        nice: life.first.nice,
        cpus: life.first.cpus,
        peak_rss_bytes: life.peak_rss_bytes,
        who: Who { tgid: Some(life.tgid), session, uid, group, process: None },
        window: None,
        lends: None,
        script,
    }
}

/// A task asks for an alarm, or gets one.
fn alarm(life: &mut Life, event: &Event) -> Option<Step> {
    let op = match &event.kind {
        Kind::SetAlarm { after, interval } => {
            life.alarm = (*after > Nanos::ZERO && *interval == Nanos::ZERO).then_some(*after);
            Op::Anchor(timing::ALARM)
        }
        _ => Op::WorkUntil { reference: timing::ALARM, after: life.alarm.take()? },
    };
    Some(Step::new(event.time, event.work, op))
}

/// The softirq in which packets arrive, in include/linux/interrupt.h.
const NET_RX: u8 = 3;

/// What ended a sleep that no recorded task ended. `device`: the sleeper was in `io_schedule()`, or in state D.
pub fn cause(waker: Waker, (io_wait, uninterruptible): (bool, bool)) -> Sleep {
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
