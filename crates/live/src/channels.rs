// SPDX-License-Identifier: GPL-2.0-only
//! What a task needs that reads from a pipe or socket, also where the data was there before it came.
//!
//! A reader that sleeps is woken by its writer, and that wakeup is in the recording. One that finds its data does not sleep;
//! but on fewer CPUs, or with a writer that is slower, it would have. So bytes are counted: a read needs the first write
//! that goes as far as it does. It awaits that write, unless it has waited for that writer's work up to there already.
//!
//! TCP hands its bytes over in an interrupt, so a sleep that ends then has no waker. If its task finds bytes that somebody
//! wrote while it slept, it was that write that ended the sleep.
//!
//! A channel that several tasks read is a pool: who gets what is chance, as with the tokens of make's job server. Nothing is
//! said of it. Neither is it of bytes whose writer is unknown: somebody else, or `splice(2)`.

use crate::event::{Amount, Passed};
use crate::life::{Life, Step};
use ids::Nanos;
use std::collections::BTreeMap;
use workload::{Op, SignalId};

/// All that passed, and by whom.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    passes: Vec<Pass>,
    /// CPU time of each task when bytes of it passed last.
    last: BTreeMap<u32, Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Pass {
    time: Nanos,
    work: Nanos,
    /// The task's CPU time when bytes of it passed before, in any channel: what it did since belongs to this.
    since: Nanos,
    task: u32,
    what: Passed,
}

/// A read and what it needs: the writes of its first and of its last byte.
struct Need {
    read: Pass,
    first: Pass,
    last: Pass,
}

/// Where signals are posted: by whom, and at which of its CPU times.
pub(crate) type Posts = Vec<(u32, Nanos)>;

impl Channels {
    /// Takes what passed. Of one task in order, of several in any.
    pub fn take(&mut self, task: u32, time: Nanos, work: Nanos, what: Passed) {
        let since = self.last.insert(task, work).unwrap_or_default();
        self.passes.push(Pass { time, work, since, task, what });
    }

    /// Lets each read await the write that it needs. `posts` knows the poster of each signal there is.
    pub fn join(mut self, lives: &mut [Life], posts: &mut Posts) {
        for pass in &self.passes {
            lives[pass.task as usize].passes.push(pass.time);
        }
        self.passes.sort_by_key(|pass| (pass.what.channel, pass.time));
        let mut needs = Vec::new();
        for passes in self.passes.chunk_by(|a, b| a.what.channel == b.what.channel) {
            needs_of_channel(passes, &mut needs);
        }
        needs.sort_by_key(|need| (need.read.task, need.read.time));
        let mut steps = Vec::new();
        for needs in needs.chunk_by(|a, b| a.read.task == b.read.task) {
            needs_of_task(needs, &mut lives[needs[0].read.task as usize], posts, &mut steps);
        }
        for (task, step) in steps {
            lives[task as usize].steps.push(step);
        }
    }
}

/// What the reads of one channel need, of which these are the passes in the order of time.
fn needs_of_channel(passes: &[Pass], needs: &mut Vec<Need>) {
    let mut reads = passes.iter().filter(|pass| !pass.what.written);
    let Some(reader) = reads.next().map(|read| read.task) else { return };
    if reads.any(|read| read.task != reader) {
        return;
    }
    let (mut written, mut read) = (Position::default(), Position::default());
    let mut writes: Vec<(i64, Pass)> = Vec::new();
    if let Some(Amount::Position(first)) = passes.first().map(|pass| pass.what.amount) {
        // One byte of the first pass is enough to tell it from none.
        (written, read) = (Position::before(first), Position::before(first));
    }
    for pass in passes.iter().filter(|pass| pass.what.written) {
        writes.push((written.advance(pass.what.amount), *pass));
    }
    for pass in passes.iter().filter(|pass| !pass.what.written) {
        let before = read.bytes;
        let now = read.advance(pass.what.amount);
        let first = writes.partition_point(|(end, _)| *end <= before);
        let last = writes.partition_point(|(end, _)| *end < now);
        if let (Some((_, first)), Some((_, last))) = (writes.get(first), writes.get(last))
            && last.task != pass.task
        {
            needs.push(Need { read: *pass, first: *first, last: *last });
        }
    }
}

/// How far bytes have come, from anywhere.
#[derive(Clone, Copy, Default)]
struct Position {
    bytes: i64,
    sequence: u32,
}

impl Position {
    fn before(sequence: u32) -> Position {
        Position { bytes: 0, sequence: sequence.wrapping_sub(1) }
    }

    /// Sequence numbers go on at 0 after 2^32 - 1; two that are compared are never half of that apart.
    fn advance(&mut self, amount: Amount) -> i64 {
        match amount {
            Amount::Bytes(bytes) => self.bytes = self.bytes.saturating_add_unsigned(bytes),
            Amount::Position(sequence) => {
                self.bytes = self.bytes.saturating_add(i64::from(sequence.wrapping_sub(self.sequence) as i32));
                self.sequence = sequence;
            }
        }
        self.bytes
    }
}

/// Goes through what a task did and what it read, both in the order of time. Steps for it and for others come behind `new`.
fn needs_of_task(needs: &[Need], life: &mut Life, posts: &mut Posts, new: &mut Vec<(u32, Step)>) {
    life.steps.sort_by_key(Step::rank);
    let mut known: BTreeMap<u32, Nanos> = BTreeMap::new();
    let mut arrival = None;
    let mut next = 0;
    for Need { read, first, last } in needs {
        while let Some(step) = life.steps.get(next).filter(|step| step.time <= read.time) {
            match step.op {
                Op::Await(signal) => {
                    let (poster, work) = posts[signal.0 as usize];
                    known.entry(poster).and_modify(|known| *known = work.max(*known)).or_insert(work);
                    arrival = None;
                }
                Op::Sleep(..) => arrival = life.arrivals.get(&step.time).map(|wake| (next, *wake)),
                Op::Timer { .. } | Op::Interval { .. } => arrival = None,
                _ => {}
            }
            next += 1;
        }
        let mut post = |known: &mut BTreeMap<u32, Nanos>, write: &Pass, time: Nanos, woke: bool| {
            let signal = SignalId(posts.len() as u32);
            posts.push((write.task, write.work));
            new.push((write.task, Step { woke, ..Step::new(write.time.min(time), write.work, Op::Post(signal)) }));
            known.insert(write.task, write.work);
            Op::Await(signal)
        };
        if let Some((slept, wake)) = arrival
            && first.task != read.task
            && life.steps[slept].time <= first.time
        {
            let step = &mut life.steps[slept];
            (step.op, step.time) = (post(&mut known, first, wake, true), wake.max(step.time));
            arrival = None;
        }
        if known.get(&last.task).is_none_or(|known| *known <= last.since) {
            let op = post(&mut known, last, read.time, false);
            new.push((read.task, Step::new(read.time, read.work, op)));
        }
    }
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
