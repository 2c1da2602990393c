// SPDX-License-Identifier: GPL-2.0-only
//! Queue of a member: what the kernel keeps, what the member holds, what it serves.

use ids::Nanos;
use machine_model::Order;
use std::collections::{BTreeMap, VecDeque};

/// A part of a request, for one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    /// Number of the request.
    pub request: u32,
    pub write: bool,
    /// First byte on the member.
    pub offset: u64,
    pub bytes: u64,
    /// Recorded service time of its request.
    pub recorded: Nanos,
}

/// Jobs that the kernel keeps.
#[derive(Debug)]
enum Kept {
    Fifo(VecDeque<Job>),
    /// By position, then by arrival.
    Elevator(BTreeMap<(u64, u64), Job>),
}

#[derive(Debug)]
pub(crate) struct Member {
    servers: u32,
    depth: u32,
    kept: Kept,
    /// Jobs that the member holds and does not serve.
    held: VecDeque<Job>,
    serving: u32,
    /// End of the last job that was begun.
    head: u64,
    /// End of the last job that the kernel passed on.
    passed: u64,
    arrivals: u64,
}

impl Member {
    /// Creates an idle member; without queues, it serves any number of requests at the same time.
    pub fn new(disk: &machine_model::Disk, queues: bool) -> Member {
        let kept = match disk.order {
            Order::Fifo => Kept::Fifo(VecDeque::new()),
            Order::Elevator => Kept::Elevator(BTreeMap::new()),
        };
        let (servers, depth) = if queues { (disk.servers, disk.depth) } else { (u32::MAX, u32::MAX) };
        Member { servers, depth, kept, held: VecDeque::new(), serving: 0, head: 0, passed: 0, arrivals: 0 }
    }

    /// Number of jobs that are not complete.
    pub fn len(&self) -> u32 {
        let kept = match &self.kept {
            Kept::Fifo(jobs) => jobs.len(),
            Kept::Elevator(jobs) => jobs.len(),
        };
        (kept + self.held.len()) as u32 + self.serving
    }

    pub fn push(&mut self, job: Job) {
        self.arrivals += 1;
        match &mut self.kept {
            Kept::Fifo(jobs) => jobs.push_back(job),
            Kept::Elevator(jobs) => _ = jobs.insert((job.offset, self.arrivals), job),
        }
    }

    /// Takes the next of the jobs that the kernel keeps.
    fn next_kept(&mut self) -> Option<Job> {
        match &mut self.kept {
            Kept::Fifo(jobs) => jobs.pop_front(),
            Kept::Elevator(jobs) => {
                let ahead = jobs.range((self.passed, 0)..).next().map(|(key, _)| *key);
                let key = ahead.or_else(|| jobs.keys().next().copied())?;
                jobs.remove(&key)
            }
        }
    }

    /// Begins a job if a server is free. Also returns where the last one ended.
    pub fn begin(&mut self) -> Option<(Job, u64)> {
        while (self.held.len() as u64) + u64::from(self.serving) < u64::from(self.depth) {
            let Some(job) = self.next_kept() else { break };
            self.passed = job.offset.saturating_add(job.bytes);
            self.held.push_back(job);
        }
        if self.serving >= self.servers {
            return None;
        }
        let job = self.held.pop_front()?;
        self.serving += 1;
        let head = std::mem::replace(&mut self.head, job.offset.saturating_add(job.bytes));
        Some((job, head))
    }

    /// A job is complete.
    pub fn finish(&mut self) {
        self.serving -= 1;
    }
}
