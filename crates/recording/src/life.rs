// SPDX-License-Identifier: GPL-2.0-only
//! One recorded task: what it did, step by step, and the script that this makes.

use crate::event::{Counters, Footprint, Scheduled};
use crate::family::Children;
use crate::overhead::{Counts, Overheads};
use crate::split::{Parts, Pool};
use crate::timing::{Expired, Timers};
use crate::touched::{Reading, Stretches};
use ids::{CpuSet, Nanos, Policy};
use std::collections::BTreeMap;
use std::mem::take;
use workload::{Op, Stretch};

/// Who is ended while it works has worked at least so long since it slept last; less is the way to its end.
const GLIMPSE: Nanos = Nanos::from_ms(1);

/// Policy, nice value and affinity.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Attributes {
    pub policy: Policy,
    pub nice: i8,
    pub cpus: Option<CpuSet>,
}

/// Something that a task did.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Step {
    pub time: Nanos,
    /// Its CPU time at that moment.
    pub work: Nanos,
    /// What its schedule had made it do, if that is known here.
    pub scheduled: Option<Scheduled>,
    /// What the task had touched, if that is known here.
    pub reading: Option<u32>,
    /// If it is a post or a fork: somebody was woken by it.
    pub woke: bool,
    pub op: Op,
}

impl Step {
    pub fn new(time: Nanos, work: Nanos, op: Op) -> Step {
        Step { time, work, scheduled: None, reading: None, woke: true, op }
    }

    /// Order at one instant: a task that sleeps does nothing more before it is woken.
    pub fn rank(&self) -> (Nanos, bool) {
        (self.time, is_wait(&self.op))
    }
}

/// Whether a task sleeps in it.
fn is_wait(op: &Op) -> bool {
    matches!(op, Op::Sleep(..) | Op::Await(_) | Op::Timer { .. } | Op::Interval { .. })
}

/// One task.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Life {
    pub born: Nanos,
    /// Index of its parent, if that is recorded.
    pub parent: Option<usize>,
    pub tgid: u32,
    pub name: String,
    pub command: Option<String>,
    pub first: Attributes,
    pub now: Attributes,
    pub peak_rss_bytes: u64,
    pub steps: Vec<Step>,
    pub parts: Parts,
    /// Its CPU time when it ended, and what its schedule had made it do.
    pub end: Option<(Nanos, Scheduled)>,
    /// When that was.
    pub ended: Nanos,
    /// When it began to end.
    pub exited: Option<Nanos>,
    pub children: Children,
    /// The same when the recording ended, if it lived and did not sleep then.
    pub seen: Option<(Nanos, Scheduled)>,
    /// CPU time that it had before the recording began.
    pub before: Nanos,
    /// Its session, user and control group, if that was told.
    pub who: Option<(u32, u32, u64)>,
    /// The alarm that it has asked for and not got, if that is to come once.
    pub alarm: Option<Nanos>,
    /// Its sleeps that timers ended.
    pub expiries: Vec<Expired>,
    /// Its sleeps that packets may have ended: from when to when.
    pub arrivals: BTreeMap<Nanos, Nanos>,
    /// When bytes passed that it wrote or read.
    pub passes: Vec<Nanos>,
    /// What it had touched: before the recording began, at those of its steps that say so, and when it was seen last.
    pub touched_before: Counters,
    pub readings: Vec<Reading>,
    pub touched_last: Option<(Nanos, Reading)>,
    /// Memory of its process, if it leads that.
    pub footprint: Option<Footprint>,
    /// Of tasks that bytes came from: up to which CPU time of theirs it has waited for them.
    pub known: BTreeMap<u32, Nanos>,
    /// The timers that ended its sleeps.
    pub timers: Timers,
    /// What was written of its script already, and whether that is all.
    pub so_far: SoFar,
    pub is_written: bool,
}

/// How far the script of a task is written.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct SoFar {
    counts: Counts,
    /// The task's CPU time there, and what of that was its own work.
    time: Nanos,
    work: Nanos,
    operations: usize,
}

/// What a task did at some time or later.
#[derive(Default)]
pub(crate) struct Aside {
    steps: Vec<Step>,
    readings: Vec<Reading>,
    expiries: Vec<Expired>,
}

impl Aside {
    /// Whether nothing happened then.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Life {
    /// Of a task that was just forked.
    pub fn new(born: Nanos, parent: Option<usize>, tgid: u32, name: &str) -> Life {
        Life {
            born,
            parent,
            tgid,
            name: name.to_owned(),
            command: None,
            first: Attributes::default(),
            now: Attributes::default(),
            peak_rss_bytes: 0,
            steps: Vec::new(),
            parts: Parts::new(name),
            end: None,
            ended: Nanos::ZERO,
            exited: None,
            children: Children::default(),
            seen: None,
            before: Nanos::ZERO,
            who: None,
            alarm: None,
            expiries: Vec::new(),
            arrivals: BTreeMap::new(),
            passes: Vec::new(),
            touched_before: Counters::default(),
            readings: Vec::new(),
            touched_last: None,
            footprint: None,
            known: BTreeMap::new(),
            timers: Timers::new(),
            so_far: SoFar::default(),
            is_written: false,
        }
    }

    /// Takes out what happened at `until` or later.
    pub fn put_aside(&mut self, until: Nanos) -> Aside {
        let (steps, readings) = (take(&mut self.steps), take(&mut self.readings));
        let mut expiries = take(&mut self.expiries).into_iter().peekable();
        let (mut now, mut aside) = (Aside::default(), Aside::default());
        for (index, mut step) in (0u32..).zip(steps) {
            let side = if step.time < until { &mut now } else { &mut aside };
            if let Some(expired) = expiries.next_if(|expired| expired.step == index) {
                side.expiries.push(Expired { step: side.steps.len() as u32, ..expired });
            }
            if let Some(reading) = &mut step.reading {
                side.readings.push(readings[*reading as usize]);
                *reading = side.readings.len() as u32 - 1;
            }
            side.steps.push(step);
        }
        self.resume(now);
        aside
    }

    /// It has so much CPU time at `time`. The kernel brings the CPU time of a task up to date at ticks and switches; of one
    /// that ran on another CPU when the recording began it told less than it had. No task runs longer than time passes: what
    /// is beyond that was before.
    pub fn begins_no_earlier(&mut self, time: Nanos, work: Nanos) {
        if self.parent.is_none() && time > self.born {
            self.before += work.since(self.before).since(time.since(self.born));
        }
    }

    /// What comes next is this.
    pub fn resume(&mut self, aside: Aside) {
        Aside { steps: self.steps, readings: self.readings, expiries: self.expiries } = aside;
    }

    /// Forgets all that only its script needed.
    pub fn forget(&mut self) {
        self.is_written = true;
        self.resume(Aside::default());
        self.parts = Parts::new("");
        (self.arrivals, self.passes, self.known, self.timers) = Default::default();
    }
}

/// What became of one task.
pub(crate) struct Written {
    pub script: Vec<Op>,
    /// Its CPU time, and what of that is its own work.
    pub total: Nanos,
    pub work: Nanos,
    /// What it touched.
    pub stretches: Vec<Stretch>,
}

/// Makes the script of one task from its steps, which are in order, `until` some time or to its end.
pub(crate) fn script(life: &mut Life, pool: &Pool, overheads: &Overheads, until: Option<Nanos>) -> Written {
    let is_last = until.is_none();
    let before = life.before;
    let SoFar { counts, time, work, operations } = life.so_far;
    let seen = life.steps.iter().map(|step| step.work).max().unwrap_or_default();
    let last = if is_last { life.end.or(life.seen) } else { life.end };
    let total = match last {
        Some((total, _)) => total,
        None if is_last => seen,
        None => Nanos::MAX,
    };
    let total = total.max(before).max(time);
    let mut progress = Progress { overheads, counts, before, time: time.max(before), work };
    let mut script = Vec::new();
    let mut stretches = Stretches::after(life.touched_before);
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
    let mut passes = &life.passes[..];
    for step in life.steps.drain(..) {
        let (before, rest) = passes.split_at(passes.partition_point(|pass| *pass <= step.time));
        passes = rest;
        progress.counts.passes += before.len() as u64;
        progress.counts.count(&step);
        if matches!(step.op, Op::WorkUntil { .. } | Op::WorkUntilPosted(_)) {
            // It takes the place of the work before it. If there is next to none, its task slept until then.
            if step.work.min(total).since(progress.time) > GLIMPSE {
                progress.advance(step.work.min(total));
                script.push(step.op);
            }
            continue;
        }
        work_until(&mut progress, step.work, &mut script);
        if let Some(reading) = step.reading {
            stretches.end(operations + script.len(), &life.readings[reading as usize]);
        }
        script.push(step.op);
    }
    let now = until.map_or(passes.len(), |until| passes.partition_point(|pass| *pass < until));
    let left = passes.len() - now;
    progress.counts.passes += now as u64;
    if is_last {
        if let Some((_, scheduled)) = last {
            progress.counts.set(scheduled);
        }
        work_until(&mut progress, total, &mut script);
        if let Some((_, reading)) = &life.touched_last {
            stretches.end(operations + script.len(), reading);
        }
    }
    script.shrink_to_fit();
    let Progress { counts, time, work, .. } = progress;
    life.passes.drain(..life.passes.len() - left);
    life.touched_before = stretches.before;
    life.so_far = SoFar { counts, time, work, operations: operations + script.len() };
    Written { script, total: time.since(before), work, stretches: stretches.all }
}

impl Counts {
    fn set(&mut self, Scheduled { switches, interrupts, interrupts_to_halted }: Scheduled) {
        self.switches = switches.into();
        self.interrupts_to_halted = interrupts_to_halted.into();
        self.interrupts = u64::from(interrupts).saturating_sub(self.interrupts_to_halted);
    }

    /// Takes in what a step says. A fork wakes the child.
    fn count(&mut self, step: &Step) {
        step.scheduled.into_iter().for_each(|scheduled| self.set(scheduled));
        self.wakes += u64::from(step.woke && matches!(step.op, Op::Post(_) | Op::Fork(_)));
    }
}

/// How far one task has come.
struct Progress<'a> {
    overheads: &'a Overheads,
    counts: Counts,
    /// Its CPU time before the recording, and now.
    before: Nanos,
    time: Nanos,
    /// What of that was its own work.
    work: Nanos,
}

impl Progress<'_> {
    /// It has got so much CPU time. Gives the work of its own since the last time.
    fn advance(&mut self, time: Nanos) -> Nanos {
        self.time = self.time.max(time);
        let time = self.time.since(self.before);
        let work = time.since(self.overheads.of(self.counts, time)).max(self.work);
        let more = work - self.work;
        self.work = work;
        more
    }
}
