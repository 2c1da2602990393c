// SPDX-License-Identifier: GPL-2.0-only
//! What was observed of a run beside its CPUs: what its tasks touched, how much memory they had, and what the block devices
//! did meanwhile. Nothing of it is played.

use ids::{CpuId, Nanos};
use std::collections::BTreeMap;

/// Requests that a recording in memory may have at most.
pub const MAX_REQUESTS: usize = 1 << 22;

/// No machine has more block devices that do something while it is recorded, and the kernel's names are shorter.
pub(super) const MAX_DEVICES: usize = 4096;
const MAX_NAME: usize = 64;

/// What was observed, by the indices of the workload's tasks. Empty if nothing was, as in recordings of version 1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// Memory of processes where they ended, or the recording did; of the task that led the process.
    pub footprints: BTreeMap<u32, Footprint>,
    /// What each task touched in its stretches of work, in order; those in which it touched nothing are left out, and so
    /// are tasks without any.
    pub stretches: BTreeMap<u32, Vec<Stretch>>,
    /// Block devices, each once.
    pub devices: Vec<Device>,
    /// What they did, for these tasks or for others, by the time at which they began.
    pub requests: Vec<Request>,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Its own: not backed by a file, in memory or swapped out. A child that executes nothing shares some of it with its
    /// parent.
    pub private: u64,
    /// Of files, as are the program and its libraries, and of shared memory: several processes may use the same.
    pub shared: u64,
    /// Page tables, and the stacks of its threads in the kernel.
    pub kernel: u64,
    /// A number that processes with the same executable share; 0 if it is unknown.
    pub executable: u64,
}

/// A stretch of work: from one wait of a task to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// It ends before this operation of the task's script; as many as there are if it goes on to the end.
    pub until: u32,
    /// Where it ended.
    pub cpu: CpuId,
    /// What the task touched in it.
    pub touched: Touched,
}

/// What a task touches, as the kernel counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// And those that did.
    pub major_faults: u64,
    /// Bytes that system calls read: of files, from the cache or not, of pipes, of terminals.
    pub read: u64,
    /// Bytes that they wrote.
    pub written: u64,
    /// Bytes that devices read on its behalf, with those that were read ahead.
    pub device_read: u64,
    /// Bytes that became dirty on its behalf, or were written around the cache: devices write them at some time, unless
    /// they are gone before.
    pub device_written: u64,
    /// Nanoseconds for which it had a CPU while the other thread of that core was busy, which made it slower.
    pub beside_ns: u64,
}

impl Touched {
    /// In the order of the file.
    pub(super) fn numbers(mut self) -> [u64; 7] {
        self.numbers_mut().map(|number| *number)
    }

    pub(super) fn numbers_mut(&mut self) -> [&mut u64; 7] {
        let Touched { minor_faults, major_faults, read, written, device_read, device_written, beside_ns } = self;
        [minor_faults, major_faults, read, written, device_read, device_written, beside_ns]
    }

    /// Both together, as far as numbers go.
    pub fn add(&mut self, other: &Touched) {
        for (sum, more) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A block device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its major number times 2^20, and its minor number.
    pub number: u32,
    /// As the kernel calls it: `nvme0n1`.
    pub name: String,
}

/// What a block device is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// To give data.
    Read,
    /// To take data.
    Write,
    /// To keep what it took.
    Flush,
    /// To forget.
    Discard,
    /// Anything else.
    Other,
}

impl Operation {
    /// In the order of their numbers in the file.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard, Operation::Other];

    /// For people and in JSON.
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

/// One request of a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When the device's driver got it, from the start of the recording.
    pub time: Nanos,
    /// The task that submitted it. `None` if a thread of the kernel did, as for what was written to the cache, or somebody
    /// outside of the recording.
    pub task: Option<u32>,
    /// Which of the devices.
    pub device: u32,
    /// What it was.
    pub operation: Operation,
    /// Bytes.
    pub bytes: u64,
    /// From then until the device had done it.
    pub service: Nanos,
}

impl Observed {
    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        *self == Observed::default()
    }

    /// What all tasks touched together.
    pub fn touched(&self) -> Touched {
        let mut sum = Touched::default();
        self.stretches.values().flatten().for_each(|stretch| sum.add(&stretch.touched));
        sum
    }

    /// Whether this may stand beside a workload whose tasks have scripts of these lengths.
    pub(super) fn check(&self, lengths: &[usize]) -> Result<(), String> {
        let tasks = lengths.len();
        let missing = |task: u32| format!("something was observed of task {task}; there are {tasks}");
        let length = |task: u32| lengths.get(task as usize).ok_or_else(|| missing(task));
        self.footprints.keys().try_for_each(|task| length(*task).map(|_| ()))?;
        for (&task, stretches) in &self.stretches {
            let most = length(task)?;
            if !stretches.is_sorted_by(|a, b| a.until < b.until) {
                return Err(format!("the stretches of task {task} are not one behind the other"));
            }
            if let Some(last) = stretches.last().filter(|last| last.until as usize > *most) {
                return Err(format!("a stretch of task {task} ends at operation {}; there are {most}", last.until));
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
            return Err(format!("a name of {length} bytes of a block device; expected at most {MAX_NAME}"));
        }
        if !self.requests.is_sorted_by_key(|request| request.time) {
            return Err("block requests are not in the order of time".to_owned());
        }
        for request in &self.requests {
            request.task.map_or(Ok(()), |task| length(task).map(|_| ()))?;
            if request.device as usize >= self.devices.len() {
                return Err(format!("a request of device {}; there are {}", request.device, self.devices.len()));
            }
        }
        Ok(())
    }
}
