// SPDX-License-Identifier: GPL-2.0-only
//! Dependencies of tasks that read pipes and sockets, including data that was already there.
//!
//! A sleeping reader is woken by its writer, and that wakeup is in the recording. A reader that finds its data does
//! not sleep; but on fewer CPUs, or with a slower writer, it would have. So bytes are counted: a read needs the first
//! write that reaches as far. The read awaits that write, unless its task has already waited for the writer to get
//! that far.
//!
//! TCP delivers bytes in an interrupt, so a sleep that ends then has no waker. If the task then finds bytes that
//! another task wrote while it slept, that write is taken as the cause of the wakeup.
//!
//! A channel with several readers is a pool: which reader gets which data is random, as with the tokens of make's job
//! server. No dependency is recorded for it, nor for bytes of an unknown writer (a task outside the recording, or
//! `splice(2)`).

use crate::event::{Amount, Passed};
use crate::life::{Life, Step};
use ids::Nanos;
use std::collections::{BTreeMap, VecDeque};
use std::mem::take;
use workload::{Op, SignalId};

/// Transfers that have not been evaluated, and the state of each channel.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    passes: Vec<Pass>,
    /// CPU time of each task at its last transfer.
    last: BTreeMap<u32, Nanos>,
    known: BTreeMap<u64, Channel>,
}

#[derive(Clone, Copy, Debug)]
struct Pass {
    time: Nanos,
    work: Nanos,
    /// The task's CPU time at its previous transfer in any channel; its work since then belongs to this transfer.
    since: Nanos,
    task: u32,
    what: Passed,
}

/// A channel.
#[derive(Debug, Default)]
struct Channel {
    written: Position,
    read: Position,
    /// Writes whose bytes may be unread, with the position each reached.
    writes: VecDeque<(i64, Pass)>,
    reader: Option<u32>,
    /// The channel has several readers.
    is_pool: bool,
    /// Time of the last transfer.
    used: Nanos,
}

/// A read and the writes that it needs: of its first and of its last byte.
struct Need {
    read: Pass,
    first: Pass,
    last: Pass,
}

/// Maximum number of idle channels that are remembered.
const MOST_IDLE: usize = 1 << 14;

/// Maximum number of writes to a channel that are remembered without an observed read.
const MOST_UNREAD: usize = 1 << 16;

/// Posts of signals: posting task and its CPU time. Of the oldest only the number is kept.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    forgotten: u32,
    recent: VecDeque<(u32, Nanos)>,
}

impl Posts {
    /// Adds a signal that this task posts at this CPU time of its own.
    pub fn add(&mut self, poster: u32, work: Nanos) -> SignalId {
        self.recent.push_back((poster, work));
        SignalId(self.count() - 1)
    }

    /// Number of signals.
    pub fn count(&self) -> u32 {
        self.forgotten + self.recent.len() as u32
    }

    /// Posting task and its CPU time.
    pub fn get(&self, signal: SignalId) -> Option<(u32, Nanos)> {
        self.recent.get(signal.0.checked_sub(self.forgotten)? as usize).copied()
    }

    /// Forgets all but the last `most`.
    pub fn keep(&mut self, most: usize) {
        let more = self.recent.len().saturating_sub(most);
        self.recent.drain(..more);
        self.forgotten += more as u32;
    }

    /// Keeps only a number of signals, without their posts.
    pub fn forget(&mut self, count: u32) {
        (self.forgotten, self.recent) = (count, VecDeque::new());
    }
}

impl Channels {
    /// Adds a transfer. Transfers of one task must be added in order, those of different tasks in any order.
    pub fn take(&mut self, task: u32, time: Nanos, work: Nanos, what: Passed) {
        let since = self.last.insert(task, work).unwrap_or_default();
        self.passes.push(Pass { time, work, since, task, what });
    }

    /// Notes the exit of a task.
    pub fn ends(&mut self, task: u32) {
        self.last.remove(&task);
    }

    /// Number of transfers not evaluated yet.
    pub fn waiting(&self) -> usize {
        self.passes.len()
    }

    /// Times of these transfers.
    pub fn times(&self) -> impl Iterator<Item = Nanos> {
        self.passes.iter().map(|pass| pass.time)
    }

    /// Makes each read before `until` await the write that it needs. `posts` contains the posts of all signals.
    pub fn join(&mut self, lives: &mut [Life], posts: &mut Posts, until: Nanos) {
        let mut passes = take(&mut self.passes);
        passes.sort_by_key(|pass| (pass.what.channel, pass.time));
        let mut needs = Vec::new();
        for passes in passes.chunk_by(|a, b| a.what.channel == b.what.channel) {
            let channel = self.known.entry(passes[0].what.channel).or_default();
            channel.needs(passes, until, &mut needs);
        }
        // Writes may be reported after their reads, so all writes are evaluated; later reads stay.
        passes.retain(|pass| pass.time >= until && !pass.what.written);
        self.passes = passes;
        self.forget_idle();
        needs.sort_by_key(|need| (need.read.task, need.read.time));
        let (mut steps, mut rest) = (Vec::new(), &needs[..]);
        for task in 0..lives.len() {
            let (its, others) = rest.split_at(rest.partition_point(|need| need.read.task as usize == task));
            rest = others;
            needs_of_task(task, its, lives, posts, &mut steps);
        }
        for (task, step) in steps {
            lives[task as usize].steps.push(step);
        }
    }

    /// Forgets the least recently used channels if there are too many.
    fn forget_idle(&mut self) {
        if self.known.len() > 2 * MOST_IDLE {
            let mut used: Vec<Nanos> = self.known.values().map(|channel| channel.used).collect();
            let place = used.len() - MOST_IDLE;
            let (_, &mut least, _) = used.select_nth_unstable(place);
            self.known.retain(|_, channel| channel.used >= least);
        }
    }
}

impl Channel {
    /// Processes transfers in order of time and collects the needs of reads before `until`.
    fn needs(&mut self, passes: &[Pass], until: Nanos, needs: &mut Vec<Need>) {
        let Some(first) = passes.first() else { return };
        self.used = passes.last().map_or(self.used, |last| last.time.max(self.used));
        let reads = || passes.iter().filter(|pass| !pass.what.written);
        let reader = self.reader.or(reads().next().map(|read| read.task));
        self.is_pool |= reads().any(|read| Some(read.task) != reader);
        if self.is_pool {
            self.writes = VecDeque::new();
            return;
        }
        if let (Amount::Position(sequence), None, true) = (first.what.amount, self.reader, self.writes.is_empty()) {
            // Assume one byte before the first transfer, so that the position differs from none.
            (self.written, self.read) = (Position::before(sequence), Position::before(sequence));
        }
        self.reader = reader;
        for pass in passes.iter().filter(|pass| pass.what.written) {
            self.writes.push_back((self.written.advance(pass.what.amount), *pass));
        }
        for pass in reads().filter(|pass| pass.time < until) {
            let before = self.read.bytes;
            let now = self.read.advance(pass.what.amount);
            let first = self.writes.partition_point(|(end, _)| *end <= before);
            let last = self.writes.partition_point(|(end, _)| *end < now);
            if let (Some((_, first)), Some((_, last))) = (self.writes.get(first), self.writes.get(last))
                && last.task != pass.task
            {
                needs.push(Need { read: *pass, first: *first, last: *last });
            }
        }
        let read = self.writes.partition_point(|(end, _)| *end <= self.read.bytes);
        self.writes.drain(..read.max(self.writes.len().saturating_sub(MOST_UNREAD)));
        if self.reader.is_none() {
            // The reader of these bytes is not recorded, or reads later.
            self.writes.retain(|(_, write)| write.time >= until);
        }
    }
}

/// Position of a byte stream, from an arbitrary start.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    bytes: i64,
    sequence: u32,
}

impl Position {
    fn before(sequence: u32) -> Position {
        Position { bytes: 0, sequence: sequence.wrapping_sub(1) }
    }

    /// Sequence numbers wrap at 2^32; two compared ones are never more than half of that apart.
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

/// Walks through the steps and reads of a task in order of time. Steps for it and for other tasks are appended to
/// `new`.
fn needs_of_task(reader: usize, needs: &[Need], lives: &mut [Life], posts: &mut Posts, new: &mut Vec<(u32, Step)>) {
    let mut steps = take(&mut lives[reader].steps);
    steps.sort_by_key(Step::rank);
    let mut known = take(&mut lives[reader].known);
    let mut arrival = None;
    let mut next = 0;
    for Need { read, first, last } in needs {
        while let Some(step) = steps.get(next).filter(|step| step.time <= read.time) {
            learn(&mut known, step, posts);
            match step.op {
                Op::Await(_) | Op::Timer { .. } | Op::Interval { .. } => arrival = None,
                Op::Sleep(..) => arrival = lives[reader].arrivals.get(&step.time).map(|wake| (next, *wake)),
                _ => {}
            }
            next += 1;
        }
        let mut post = |known: &mut BTreeMap<u32, Nanos>, write: &Pass, time: Nanos, woke: bool| {
            let signal = posts.add(write.task, write.work);
            new.push((write.task, Step { woke, ..Step::new(write.time.min(time), write.work, Op::Post(signal)) }));
            known.insert(write.task, write.work);
            Op::Await(signal)
        };
        let can_post = |write: &Pass| !lives[write.task as usize].is_written;
        if let Some((slept, wake)) = arrival
            && first.task != read.task
            && steps[slept].time <= first.time
            && can_post(first)
        {
            let step = &mut steps[slept];
            (step.op, step.time) = (post(&mut known, first, wake, true), wake.max(step.time));
            arrival = None;
        }
        if known.get(&last.task).is_none_or(|known| *known <= last.since) && can_post(last) {
            let op = post(&mut known, last, read.time, false);
            new.push((read.task, Step::new(read.time, read.work, op)));
        }
    }
    // The progress found here also applies to later reads.
    steps[next..].iter().for_each(|step| learn(&mut known, step, posts));
    lives[reader].steps = steps;
    lives[reader].known = known;
}

/// Updates `known`, the progress of other tasks that a task can rely on: once it has awaited a signal, the poster has
/// reached the CPU time of its post.
fn learn(known: &mut BTreeMap<u32, Nanos>, step: &Step, posts: &Posts) {
    let Op::Await(signal) = step.op else { return };
    if let Some((poster, work)) = posts.get(signal) {
        known.entry(poster).and_modify(|known| *known = work.max(*known)).or_insert(work);
    }
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
