// SPDX-License-Identifier: GPL-2.0-only
//! Observations of a recorded run besides CPU use: what tasks touched, memory sizes, and block-device requests. None
//! of it is replayed.

use ids::{CpuId, Nanos};
use std::collections::BTreeMap;

/// Maximum number of requests of a recording in memory.
pub const MAX_REQUESTS: usize = 1 << 22;

/// Limits on the number of devices and the length of their names, above what occurs in practice.
pub(super) const MAX_DEVICES: usize = 4096;
const MAX_NAME: usize = 64;

/// Observations, by task index. Empty if nothing was observed, as in version 1 recordings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// Memory of processes at their exit or at the end of the recording, by the index of the thread-group leader.
    pub footprints: BTreeMap<u32, Footprint>,
    /// What each task touched in its stretches of work, in order; stretches and tasks with nothing are left out.
    pub stretches: BTreeMap<u32, Vec<Stretch>>,
    /// Block devices, each listed once.
    pub devices: Vec<Device>,
    /// Requests to the devices, by recorded or other tasks, ordered by start.
    pub requests: Vec<Request>,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Private memory: not file-backed, resident or swapped out. A forked child without exec shares some of it with
    /// its parent.
    pub private: u64,
    /// File-backed memory, such as program and libraries, and shared memory; several processes may share it.
    pub shared: u64,
    /// Page tables and kernel stacks of its threads.
    pub kernel: u64,
    /// Number common to processes with the same executable; 0 if unknown.
    pub executable: u64,
}

/// A stretch of work: from one wait of a task to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// End of the stretch: index of the operation after it, or the script's length.
    pub until: u32,
    /// CPU on which it ended.
    pub cpu: CpuId,
    /// What the task touched in it.
    pub touched: Touched,
}

/// Accesses of a task, as counted by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Bytes read by system calls: from files, cached or not, pipes and terminals.
    pub read: u64,
    /// Bytes written by system calls.
    pub written: u64,
    /// Bytes read from devices for the task, readahead included.
    pub device_read: u64,
    /// Bytes dirtied by the task or written with direct I/O: devices write them eventually, unless they are deleted
    /// before.
    pub device_written: u64,
    /// Nanoseconds of running while the SMT sibling was busy, which slowed the task down.
    pub beside_ns: u64,
}

impl Touched {
    /// Values in file order.
    pub(super) fn numbers(mut self) -> [u64; 7] {
        self.numbers_mut().map(|number| *number)
    }

    pub(super) fn numbers_mut(&mut self) -> [&mut u64; 7] {
        let Touched { minor_faults, major_faults, read, written, device_read, device_written, beside_ns } = self;
        [minor_faults, major_faults, read, written, device_read, device_written, beside_ns]
    }

    /// Adds `other`, saturating.
    pub fn add(&mut self, other: &Touched) {
        for (sum, more) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A block device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Major number times 2^20 plus minor number.
    pub number: u32,
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
}

/// Type of a block-device request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush the device's cache.
    Flush,
    /// Discard.
    Discard,
    /// Any other request.
    Other,
}

impl Operation {
    /// All types in order of their numbers in the file.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard, Operation::Other];

    /// Name for text and JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
            Operation::Other => "other",
        }
    }
}

/// A block-device request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Issue time, from the start of the recording.
    pub time: Nanos,
    /// Submitting task; `None` for a kthread, such as for writeback, or a task outside the recording.
    pub task: Option<u32>,
    /// Index of the device.
    pub device: u32,
    /// Request type.
    pub operation: Operation,
    /// Length in bytes.
    pub bytes: u64,
    /// Time from issue to completion.
    pub service: Nanos,
}

impl Observed {
    /// Returns whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        *self == Observed::default()
    }

    /// Sum over all tasks.
    pub fn touched(&self) -> Touched {
        let mut sum = Touched::default();
        self.stretches.values().flatten().for_each(|stretch| sum.add(&stretch.touched));
        sum
    }

    /// Checks consistency with a workload whose scripts have these lengths.
    pub(super) fn check(&self, lengths: &[usize]) -> Result<(), String> {
        let tasks = lengths.len();
        let missing = |task: u32| format!("observations of task {task}, but there are {tasks} tasks");
        let length = |task: u32| lengths.get(task as usize).ok_or_else(|| missing(task));
        self.footprints.keys().try_for_each(|task| length(*task).map(|_| ()))?;
        for (&task, stretches) in &self.stretches {
            let most = length(task)?;
            if !stretches.is_sorted_by(|a, b| a.until < b.until) {
                return Err(format!("the pieces of work of task {task} are not in order"));
            }
            if let Some(last) = stretches.last().filter(|last| last.until as usize > *most) {
                return Err(format!(
                    "a piece of work of task {task} ends at operation {}, but there are {most}",
                    last.until
                ));
            }
        }
        if self.devices.len() > MAX_DEVICES || self.requests.len() > MAX_REQUESTS {
            let (requests, devices) = (self.requests.len(), self.devices.len());
            return Err(format!(
                "{requests} requests of {devices} devices; expected at most {MAX_REQUESTS} and {MAX_DEVICES}"
            ));
        }
        if let Some(device) = self.devices.iter().find(|device| device.name.len() > MAX_NAME) {
            let length = device.name.len();
            return Err(format!("a block-device name of {length} bytes; expected at most {MAX_NAME}"));
        }
        if !self.requests.is_sorted_by_key(|request| request.time) {
            return Err("block requests are not in order of time".to_owned());
        }
        for request in &self.requests {
            request.task.map_or(Ok(()), |task| length(task).map(|_| ()))?;
            if request.device as usize >= self.devices.len() {
                return Err(format!(
                    "a request to device {}, but there are {} devices",
                    request.device,
                    self.devices.len()
                ));
            }
        }
        Ok(())
    }
}
