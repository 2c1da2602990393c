// SPDX-License-Identifier: GPL-2.0-only
//! Disks in simulated time: which request a disk serves when, and how long that takes. Networks are in `network.rs`.
//!
//! 1. A disk consists of one member or of several equal ones over which addresses are striped. A request is divided
//!    into a part for each member that it touches, and is complete when all parts are.
//! 2. A member holds up to `depth` requests and serves up to `servers` of them at the same time, in order of arrival.
//!    The kernel keeps the others and passes on the next one in its order: first come first served, or by position
//!    upwards (C-LOOK).
//! 3. Service by a spindle: nothing but the transfer if the request begins where the last one ended. Otherwise
//!    overhead, a seek of t + (a - t) 15/8 sqrt(d) for a distance d as a share of the capacity, a rotation that is
//!    uniform over a turn, and the transfer. The mean of sqrt(d) between random positions is 8/15, so that `a` is the
//!    mean seek.
//! 4. A disk may also serve each request for the time that its service took in a recording.
//! 5. Service by flash: a mean for reads or writes, constant or exponentially distributed, and the transfer.
//!
//! The caller owns the clock and the random numbers. Nothing here knows CPUs or tasks except as names.

mod layout;
mod member;
mod network;
mod page_cache;
mod service;

pub use layout::Place;
pub use network::{Answered, Busy, Call, Networks};
pub use page_cache::{Extent, PAGE, PageCache, Which};

use ids::{Nanos, TaskId};
use layout::{Cursors, split};
use machine_model::Disks;
use member::{Job, Member};
use service::Timing;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Task that waits for it.
    pub task: TaskId,
    /// Write; otherwise read.
    pub write: bool,
    /// Length in bytes, above 0.
    pub bytes: u64,
    /// Position.
    pub place: Place,
    /// Time that its service took in a recording; 0 if it was not recorded. Only a disk that serves recorded requests uses
    /// it.
    pub recorded: Nanos,
}

/// A completed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// Number of the disk.
    pub disk: usize,
    /// The request.
    pub request: Request,
    /// Time at which it was submitted.
    pub submitted: Nanos,
    /// Time from its submission until a member began to serve it.
    pub wait: Nanos,
    /// Time from then until it was complete.
    pub service: Nanos,
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: Request,
    submitted: Nanos,
    began: Option<Nanos>,
    /// Number of parts that are not complete.
    parts: u32,
}

#[derive(Debug)]
struct Disk {
    timing: Timing,
    members: Vec<Member>,
    stripe: u64,
    capacity: u64,
    cursors: Cursors,
    requests: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// Sum of the service times of all parts that were begun.
    busy: Nanos,
}

/// A part that a member serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct End {
    time: Nanos,
    /// Orders parts that end at the same time.
    number: u64,
    disk: usize,
    member: usize,
    request: u32,
}

/// Random numbers of a disk or network: 64 bits each.
pub type Random<'a> = &'a mut dyn FnMut(usize) -> u64;

/// All disks of a machine.
#[derive(Debug)]
pub struct Devices {
    disks: Vec<Disk>,
    ends: BinaryHeap<Reverse<End>>,
    started: u64,
}

impl Devices {
    /// Creates idle disks.
    pub fn new(disks: &Disks) -> Devices {
        let queues = !disks.without_queues;
        let disk = |disk: &machine_model::Disk| {
            let timing = Timing::new(&disk.service);
            let member = || Member::new(disk, queues);
            Disk {
                members: (0..disk.spindles).map(|_| member()).collect(),
                stripe: u64::from(disk.stripe_kb) << 10,
                capacity: timing.capacity() * u64::from(disk.spindles),
                timing,
                cursors: Cursors::default(),
                requests: Vec::new(),
                free: Vec::new(),
                busy: Nanos::ZERO,
            }
        };
        Devices { disks: disks.disks.iter().map(disk).collect(), ends: BinaryHeap::new(), started: 0 }
    }

    /// CPU time of a request to a RAM disk; `None` if the disk is a device.
    pub fn cpu_time(&self, disk: usize, bytes: u64) -> Option<Nanos> {
        self.disks[disk].timing.cpu_time(bytes)
    }

    /// Submits a request. Returns the number of requests before it at the member with the longest queue.
    pub fn submit(&mut self, now: Nanos, disk: usize, request: Request, random: Random<'_>) -> u32 {
        let state = &mut self.disks[disk];
        let start = state.cursors.start(&request, state.capacity, &mut || random(disk));
        let parts = split(start, request.bytes, state.stripe, state.members.len());
        let number = state.free.pop().unwrap_or_else(|| {
            state.requests.push(None);
            state.requests.len() as u32 - 1
        });
        let pending = Pending { request, submitted: now, began: None, parts: parts.len() as u32 };
        state.requests[number as usize] = Some(pending);
        let mut ahead = 0;
        for (member, offset, bytes) in parts {
            let queue = &mut self.disks[disk].members[member];
            ahead = ahead.max(queue.len());
            queue.push(Job { request: number, write: request.write, offset, bytes, recorded: request.recorded });
            self.start(now, disk, member, random);
        }
        ahead
    }

    /// Lets a member begin what it can begin now.
    fn start(&mut self, now: Nanos, disk: usize, member: usize, random: Random<'_>) {
        let state = &mut self.disks[disk];
        while let Some((job, head)) = state.members[member].begin() {
            let time = state.timing.service(&job, head, &mut || random(disk));
            state.busy += time;
            let pending = state.requests[job.request as usize].as_mut().expect("a job belongs to a request");
            pending.began.get_or_insert(now);
            self.started += 1;
            let end = End { time: now + time, number: self.started, disk, member, request: job.request };
            self.ends.push(Reverse(end));
        }
    }

    /// Time of the next completion of a part.
    pub fn due(&self) -> Option<Nanos> {
        self.ends.peek().map(|Reverse(end)| end.time)
    }

    /// Takes a request that is complete at `now`; `None` if no further one is. Members continue with their queues.
    pub fn complete(&mut self, now: Nanos, random: Random<'_>) -> Option<Completed> {
        while self.due().is_some_and(|due| due <= now) {
            let Reverse(end) = self.ends.pop()?;
            let state = &mut self.disks[end.disk];
            state.members[end.member].finish();
            let slot = &mut state.requests[end.request as usize];
            let pending = slot.as_mut().expect("a job belongs to a request");
            pending.parts -= 1;
            let done = if pending.parts == 0 { slot.take() } else { None };
            if done.is_some() {
                state.free.push(end.request);
            }
            self.start(end.time, end.disk, end.member, random);
            if let Some(Pending { request, submitted, began, .. }) = done {
                let began = began.expect("a completed request was begun");
                let (wait, service) = (began - submitted, end.time - began);
                return Some(Completed { disk: end.disk, request, submitted, wait, service });
            }
        }
        None
    }

    /// The machine was suspended for this time: everything ends later.
    pub fn postpone(&mut self, by: Nanos) {
        let later = |Reverse(end): Reverse<End>| Reverse(End { time: end.time + by, ..end });
        self.ends = std::mem::take(&mut self.ends).into_iter().map(later).collect();
    }

    /// Time for which servers of the disk were busy until `now`, summed over servers.
    pub fn busy(&self, disk: usize, now: Nanos) -> Nanos {
        let left = self.ends.iter().filter(|Reverse(end)| end.disk == disk).map(|Reverse(end)| end.time.since(now).0);
        Nanos(self.disks[disk].busy.0 - left.sum::<u64>())
    }
}

#[cfg(test)]
mod tests;
