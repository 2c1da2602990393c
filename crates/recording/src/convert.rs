// SPDX-License-Identifier: GPL-2.0-only
//! Converts kernel events to a workload that preserves causes.
//!
//! 1. A task's script lists its actions in order of time. Between two actions is the CPU time the task got in
//!    between. Preemptions in between are not part of it, since they are the scheduler's decisions.
//! 2. A sleep ended by another recorded task becomes a signal: the sleeper awaits it, and the waker posts it at the
//!    point of its own progress where it woke the sleeper. So a parent waits for its child, a reader for its writer,
//!    and a `vfork` for the exec, whatever the speed of the replaying machine.
//! 3. A sleep ended by a timer or a task outside the recording keeps its length, since the recording does not contain
//!    the cause. So does one ended by a device, unless a request of the task itself ended it ([`crate::own_requests`]).
//! 4. A task that was merely interrupted by the interrupt that made a wakeup is never its cause.
//! 5. Scheduling overhead is not work ([`crate::overhead`]).
//! 6. A task that reads from a pipe or socket depends on the write even if the data was already there
//!    ([`crate::channels`]). A task that waits for the exit of one of several children waits for any of them
//!    ([`crate::family`]).
//! 7. A periodic sleep stays periodic ([`crate::timing`]). Work ended by an alarm or by a signal of another task
//!    lasts until that event, whatever its amount.
//!
//! Replay in this order cannot deadlock: every action has a time, and each waits only for actions with an earlier or
//! equal time.

use crate::channels::{Channels, Posts};
use crate::event::{Event, Kind, Number, Scheduled, Slept, Waker};
use crate::family;
use crate::life::{self, Attributes, Life, Step};
use crate::overhead::Overheads;
use crate::own_requests::OwnRequest;
use crate::split::Pool;
use crate::timing::{self, Expired};
use crate::touched::{Reading, Requests, Threads};
use ids::{CpuSet, Nanos};
use std::collections::BTreeMap;
use workload::{Observed, Op, SignalId, Sleep, Start, TaskSpec, Who, Workload};

/// Data about the recorded machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// Its CPUs. An affinity that contains all of them is omitted.
    pub cpus: CpuSet,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Paths of its cgroups (v2), by cgroup ID.
    pub groups: BTreeMap<u64, String>,
    /// Names of its block devices, by device number (major << 20 | minor).
    pub devices: BTreeMap<u32, String>,
}

/// A converted workload with statistics.
#[derive(Clone, PartialEq, Debug)]
pub struct Converted {
    /// The workload.
    pub workload: Workload,
    /// Resource use of its tasks.
    pub observed: Observed,
    /// Number of block-device requests beyond the limit of a recording.
    pub requests_left_out: u64,
    /// Time from the root's birth to the last event.
    pub wall: Nanos,
    /// CPU time of all tasks.
    pub cpu: Nanos,
    /// Scheduling overhead that was subtracted from it.
    pub scheduling: Nanos,
    /// Number of tasks alive at the end of the recording. Their scripts end at their last observation.
    pub unfinished: u32,
    /// Number of events of tasks without a recorded birth; 0 if no event was lost.
    pub orphans: u64,
    /// Number of sleeps whose wakeup the kernel hid ([`Waker::Unseen`]).
    pub unseen_wakeups: u64,
}

/// Converts the events of a recording, in any order. `overheads` are subtracted from the tasks' work.
#[cfg(test)]
pub fn convert(name: &str, events: &[Event], host: &Host, overheads: &Overheads) -> Converted {
    convert_up_to(name, events, host, overheads, usize::MAX).0
}

/// As [`convert`], with at most `most` operations. Also returns whether the workload was truncated.
#[cfg(test)]
pub fn convert_up_to(
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

/// Incremental conversion: events are added in batches, and completed parts can be written before the end
/// ([`crate::window`]). Nearly all events are sleeps, transfers and requests, which are freed as soon as they are
/// processed.
pub struct Conversion {
    pub(crate) host: Host,
    /// Costs of scheduling operations, which are subtracted from the work of tasks.
    pub overheads: Overheads,
    /// Maximum number of operations.
    most: usize,
    index: BTreeMap<Number, usize>,
    pub(crate) lives: Vec<Life>,
    /// Leader of each process, to which the process's peak RSS is attributed.
    leaders: BTreeMap<u32, usize>,
    /// Last signal that a task sent, by receiving process and signal number: time, sender, CPU time of the sender.
    sent: BTreeMap<(u32, u32), (Nanos, usize, Nanos)>,
    /// Posting task of every signal, with its CPU time at the post.
    pub(crate) posts: Posts,
    pub(crate) channels: Channels,
    threads: Threads,
    pub(crate) requests: Requests,
    /// Whether any recorded task submitted a request itself.
    submits: bool,
    first: Nanos,
    last: Nanos,
    orphans: u64,
    unseen_wakeups: u64,
    pub(crate) sums: Sums,
    /// Everything before this time is written.
    pub(crate) horizon: Nanos,
    /// The maximum number of operations is reached; further events are ignored.
    is_full: bool,
}

/// Totals of tasks whose scripts are written.
#[derive(Default)]
pub(crate) struct Sums {
    /// CPU time, and the overhead subtracted from it.
    pub cpu: Nanos,
    pub scheduling: Nanos,
    /// Tick samples of tasks that ended.
    pub pool: Pool,
    /// Number of operations.
    pub operations: usize,
    /// Upper bound of the signals in the written part.
    pub signals: u32,
}

impl Conversion {
    /// Starts a conversion for this machine. `overheads` are subtracted from the tasks' work; `most` is the maximum
    /// number of operations.
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
            submits: false,
            first: Nanos::MAX,
            last: Nanos::ZERO,
            orphans: 0,
            unseen_wakeups: 0,
            sums: Sums::default(),
            horizon: Nanos::ZERO,
            is_full: false,
        }
    }

    /// Adds a batch of events, in any order.
    #[cfg(test)]
    pub fn add_all(&mut self, events: &[Event]) {
        let (many, others): (Vec<Event>, Vec<Event>) = events
            .iter()
            .cloned()
            .partition(|event| matches!(event.kind, Kind::Sleep(_) | Kind::Pass(_) | Kind::Request(_)));
        self.begin(others);
        many.iter().for_each(|event| self.add(event));
    }

    /// Adds those events of a batch that are neither sleeps, transfers nor requests, in any order. Afterwards all its
    /// tasks exist, since a task may be woken by one that is born after it fell asleep.
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
            // Later batches contain only later births.
            self.first = self.lives.iter().map(|life| life.born).min().unwrap_or(Nanos::MAX);
        }
        others.iter().for_each(|event| self.take(event));
    }

    /// Whether `more` further steps might exceed the maximum number of operations; then nothing more is accepted.
    pub fn is_full(&mut self, more: usize) -> bool {
        // A step becomes at most two operations (its own and the work before it); each task adds one operation at its
        // end.
        self.is_full |= self.sums.operations + 2 * more + self.lives.len() > self.most;
        self.is_full
    }

    /// Adds a step to a task. The written part cannot be changed, so late steps are placed after it.
    fn step(&mut self, index: usize, step: Step) {
        let time = step.time.max(self.horizon);
        self.lives[index].steps.push(Step { time, ..step });
    }

    /// Index of the event's task.
    fn find(&mut self, event: &Event) -> Option<usize> {
        let index = self.index.get(&event.task).copied();
        self.orphans += u64::from(index.is_none());
        if let Some(index) = index {
            self.last = self.last.max(event.time);
            self.lives[index].begins_no_earlier(event.time, event.work);
        }
        index
    }

    /// Processes the next event in order of time.
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
                // A thread that executes a program becomes the leader of the process.
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
            Kind::Yield(scheduled) => {
                let step = Step::new(event.time, event.work, Op::Yield);
                self.step(index, Step { scheduled: Some(*scheduled), ..step });
            }
            Kind::End(scheduled) => self.end(index, event, *scheduled),
            Kind::Last { scheduled, ticks } => {
                if life.end.is_none() {
                    life.seen = Some((event.work, *scheduled));
                    life.parts.ends_with(*ticks);
                }
            }
            Kind::Touched { .. } | Kind::Footprint(_) => self.touched(index, event),
            Kind::Sleep(_) | Kind::Pass(_) | Kind::Request(_) => unreachable!("`begin` gets only the other kinds"),
            Kind::Switch { .. } | Kind::Wake { .. } | Kind::Rename { .. } | Kind::Hotplug { .. } => {
                unreachable!("the recorder's programs do not send these")
            }
        }
    }

    /// Updates a task's resource counters or its process's memory.
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

    /// Ends the task at `index`.
    fn end(&mut self, index: usize, event: &Event, scheduled: Scheduled) {
        let life = &mut self.lives[index];
        life.end = Some((event.work, scheduled));
        life.ended = event.time;
        self.threads.ends(life.tgid);
        if let Some(parent) = life.parent {
            self.lives[parent].children.ended(event.time);
        }
    }

    /// The task at `index` exits by `signal`, 0 for a normal exit. If another task sent that signal, the task's last
    /// work lasts until the signal.
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

    /// New signal that this task posts at this CPU time of its own.
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

    /// Adds a sleep, a transfer or a request, in any order; transfers of one task must be in order of time.
    pub fn add(&mut self, event: &Event) {
        if self.is_full {
            return;
        }
        if let Kind::Request(requested) = &event.kind {
            if event.time >= self.first {
                let task = requested.task.and_then(|task| self.index.get(&task)).map(|task| *task as u32);
                let device = self.requests.take(event.time.since(self.first), task, requested);
                let own = device.and_then(|device| OwnRequest::of(event.time, device, requested));
                if let (Some(task), Some(own)) = (task, own) {
                    self.submits = true;
                    self.lives[task as usize].requests.push(own);
                }
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
            _ => unreachable!("the other kinds are processed by `begin`"),
        }
    }

    fn sleep(&mut self, index: usize, event: &Event, slept: &Slept) {
        self.last = self.last.max(slept.wake);
        self.unseen_wakeups += u64::from(slept.waker == Waker::Unseen);
        let length = slept.wake.since(event.time);
        let waker = match slept.waker {
            Waker::Task(number, work) => self.index.get(&number).map(|&waker| (waker, work)),
            _ => None,
        };
        let waker = waker.filter(|(waker, _)| *waker != index && !self.lives[*waker].is_written);
        if waker.is_none() && length == Nanos::ZERO {
            return;
        }
        // A wait for a task is placed at its end. During the wait the task does nothing, unless the kernel hid a run
        // interval and two sleeps look like one; then the wait comes after the actions in that interval.
        let (op, time) = match waker {
            Some((waker, work)) => {
                let signal = self.new_signal(waker, work);
                self.step(waker, Step::new(slept.wake, work, Op::Post(signal)));
                // The post remains in any case: it marks the start of the waker's exit.
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

    /// Returns the workload, and whether it was truncated: if it has too many operations, the end of the recording is
    /// dropped. Parts written before are not included.
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
        let names = self.requests.devices(&host.devices).into_iter().map(|device| device.name);
        let devices = if self.submits { names.collect() } else { Vec::new() };
        let name = name.to_owned();
        let workload = Workload { name, tasks, signals: self.posts.count(), devices, ..Workload::default() };
        let wall = self.last.since(self.first);
        let requests_left_out;
        (observed.devices, observed.requests, requests_left_out) = self.requests.finish(&host.devices);
        let (orphans, unseen_wakeups) = (self.orphans, self.unseen_wakeups);
        let converted = Converted {
            workload,
            observed,
            requests_left_out,
            wall,
            cpu,
            scheduling,
            unfinished,
            orphans,
            unseen_wakeups,
        };
        (converted, cut)
    }

    /// Drops the latest steps if there are too many. A step becomes at most two operations (its own and the work
    /// before it); each task adds one operation at its end.
    fn cut(&mut self) -> bool {
        let steps: usize = self.lives.iter().map(|life| life.steps.len() + life.requests.len()).sum();
        let keep = self.most.saturating_sub(self.lives.len() + self.sums.operations) / 2;
        if steps <= keep {
            return false;
        }
        let mut times: Vec<Nanos> = self.lives.iter().flat_map(|life| &life.steps).map(|step| step.time).collect();
        times.extend(self.lives.iter().flat_map(|life| &life.requests).map(OwnRequest::issued));
        let (_, &mut end, _) = times.select_nth_unstable(keep);
        drop(times);
        self.last = end;
        // Posts that are missing here are in the written part.
        let mut posted = vec![false; self.posts.count() as usize];
        posted[..self.sums.signals as usize].fill(true);
        for step in self.lives.iter().flat_map(|life| &life.steps) {
            if let Op::Post(signal) = step.op {
                posted[signal.0 as usize] = false;
            }
        }
        for life in &mut self.lives {
            life.steps.retain(|step| step.time < end);
            life.requests.retain(|request| request.issued() < end);
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

/// Task spec from its lifetime and script; the recording began at `first`.
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
        memory: None,
        lends: None,
        script,
    }
}

/// A task sets an alarm, or receives it.
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

/// Softirq for received packets, in include/linux/interrupt.h.
const NET_RX: u8 = 3;

/// Cause of a sleep that no recorded task ended. `device`: the sleeper was in `io_schedule()`; it was in state D.
pub fn cause(waker: Waker, (io_wait, uninterruptible): (bool, bool)) -> Sleep {
    // Further softirq numbers.
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

/// Joins arguments to a line that a shell would split again.
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
