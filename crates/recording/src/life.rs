// SPDX-License-Identifier: GPL-2.0-only
//! A recorded task: its steps, and the script made from them.

use crate::event::{Counters, Footprint, Scheduled};
use crate::family::Children;
use crate::overhead::{Counts, Overheads};
use crate::own_requests::{self, OwnRequest};
use crate::split::{Parts, Pool};
use crate::timing::{Expired, Timers};
use crate::touched::{Reading, Stretches};
use ids::{CpuSet, Nanos, Policy};
use std::collections::BTreeMap;
use std::mem::take;
use workload::{Op, Stretch};

/// If a task is killed while working, it must have worked at least this long since its last sleep; less is part of
/// its exit.
const GLIMPSE: Nanos = Nanos::from_ms(1);

/// Policy, nice value and affinity.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Attributes {
    pub policy: Policy,
    pub nice: i8,
    pub cpus: Option<CpuSet>,
}

/// An action of a task.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Step {
    pub time: Nanos,
    /// CPU time of the task at that moment.
    pub work: Nanos,
    /// Scheduling counters at that moment, if known.
    pub scheduled: Option<Scheduled>,
    /// Index of the resource counters at that moment, if known.
    pub reading: Option<u32>,
    /// For a post or fork: whether it woke a task.
    pub woke: bool,
    pub op: Op,
}

impl Step {
    pub fn new(time: Nanos, work: Nanos, op: Op) -> Step {
        Step { time, work, scheduled: None, reading: None, woke: true, op }
    }

    /// Sort key: at the same instant, a task's sleep comes after its other steps.
    pub fn rank(&self) -> (Nanos, bool) {
        (self.time, is_wait(&self.op))
    }
}

/// Whether the task sleeps in this operation.
fn is_wait(op: &Op) -> bool {
    matches!(op, Op::Sleep(..) | Op::AwaitRequests { .. } | Op::Await(_) | Op::Timer { .. } | Op::Interval { .. })
}

/// A recorded task.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Life {
    pub born: Nanos,
    /// Index of its parent, if recorded.
    pub parent: Option<usize>,
    pub tgid: u32,
    pub name: String,
    pub command: Option<String>,
    pub first: Attributes,
    pub now: Attributes,
    pub peak_rss_bytes: u64,
    pub steps: Vec<Step>,
    pub parts: Parts,
    /// CPU time and scheduling counters at its end.
    pub end: Option<(Nanos, Scheduled)>,
    /// Time of its end.
    pub ended: Nanos,
    /// Time at which it called exit.
    pub exited: Option<Nanos>,
    pub children: Children,
    /// CPU time and scheduling counters at the end of the recording, if it was alive and not asleep then.
    pub seen: Option<(Nanos, Scheduled)>,
    /// CPU time before the recording began.
    pub before: Nanos,
    /// Session, user and cgroup, if known.
    pub who: Option<(u32, u32, u64)>,
    /// Time of a pending one-shot alarm.
    pub alarm: Option<Nanos>,
    /// Sleeps of the task that were ended by timers.
    pub expiries: Vec<Expired>,
    /// Sleeps of the task that packets may have ended: start to end.
    pub arrivals: BTreeMap<Nanos, Nanos>,
    /// Its requests to block devices that the script does not have yet, or whose completion may still end a sleep.
    pub requests: Vec<OwnRequest>,
    /// Times of its transfers.
    pub passes: Vec<Nanos>,
    /// Resource counters: before the recording, at steps that have them, and at the last observation.
    pub touched_before: Counters,
    pub readings: Vec<Reading>,
    pub touched_last: Option<(Nanos, Reading)>,
    /// Memory of its process, if it is the leader.
    pub footprint: Option<Footprint>,
    /// For each task that it received bytes from: the CPU time of that task up to which it has waited.
    pub known: BTreeMap<u32, Nanos>,
    /// Timers that ended its sleeps.
    pub timers: Timers,
    /// Part of its script already written, and whether that is all.
    pub so_far: SoFar,
    pub is_written: bool,
}

/// Progress in writing the script of a task.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct SoFar {
    counts: Counts,
    /// CPU time reached, and the part of it that was the task's own work.
    time: Nanos,
    work: Nanos,
    operations: usize,
}

/// Steps of a task at or after some time.
#[derive(Default)]
pub(crate) struct Aside {
    steps: Vec<Step>,
    readings: Vec<Reading>,
    expiries: Vec<Expired>,
}

impl Aside {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Life {
    /// A newly forked task.
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
            requests: Vec::new(),
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

    /// Removes the steps at `until` or later.
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

    /// Adjusts for a CPU time observed at `time`. The kernel updates a task's CPU time at ticks and switches, so for
    /// a task that ran on another CPU when the recording began it reported too little. No task gets more CPU time
    /// than time passes, so the excess is CPU time before the recording.
    pub fn begins_no_earlier(&mut self, time: Nanos, work: Nanos) {
        if self.parent.is_none() && time > self.born {
            self.before += work.since(self.before).since(time.since(self.born));
        }
    }

    /// Whether a part of its script is written.
    pub fn has_begun(&self) -> bool {
        self.so_far.operations > 0
    }

    /// Restores steps that were put aside.
    pub fn resume(&mut self, aside: Aside) {
        Aside { steps: self.steps, readings: self.readings, expiries: self.expiries } = aside;
    }

    /// Frees everything that only the script needed.
    pub fn forget(&mut self) {
        self.is_written = true;
        self.resume(Aside::default());
        self.parts = Parts::new("");
        (self.arrivals, self.passes, self.known, self.timers) = Default::default();
        self.requests = Vec::new();
    }
}

/// Script of a task, with the CPU time that it stands for.
pub(crate) struct Written {
    pub script: Vec<Op>,
    /// CPU time, and the part of it that is the task's own work.
    pub total: Nanos,
    pub work: Nanos,
    /// Resource use per stretch of work.
    pub stretches: Vec<Stretch>,
}

/// Makes the script of a task from its sorted steps, up to `until` or to its end.
pub(crate) fn script(life: &mut Life, pool: &Pool, overheads: &Overheads, until: Option<Nanos>) -> Written {
    own_requests::link(life, until);
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
        // Between switches, positions come from another clock than the CPU time: they must not go back or pass the
        // end.
        let from = progress.time;
        let own = progress.advance(time.min(total));
        if own > Nanos::ZERO {
            // The subtracted overhead was spent in the kernel.
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
            // The step replaces the work before it. If there is hardly any work before it, the task slept until then.
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

    /// Adds the costs of a step. A fork wakes the child.
    fn count(&mut self, step: &Step) {
        step.scheduled.into_iter().for_each(|scheduled| self.set(scheduled));
        self.wakes += u64::from(step.woke && matches!(step.op, Op::Post(_) | Op::Fork(_)));
    }
}

/// Progress through a task.
struct Progress<'a> {
    overheads: &'a Overheads,
    counts: Counts,
    /// CPU time before the recording, and current CPU time.
    before: Nanos,
    time: Nanos,
    /// The part of it that was own work.
    work: Nanos,
}

impl Progress<'_> {
    /// Advances to this CPU time and returns the own work since the last call.
    fn advance(&mut self, time: Nanos) -> Nanos {
        self.time = self.time.max(time);
        let time = self.time.since(self.before);
        let work = time.since(self.overheads.of(self.counts, time)).max(self.work);
        let more = work - self.work;
        self.work = work;
        more
    }
}
