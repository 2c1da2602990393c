// SPDX-License-Identifier: GPL-2.0-only
//! Requests of tasks to disks, and calls over networks.

use ids::Nanos;

/// Index of a disk's name in the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskId(pub u32);

/// Position of a request on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoPlace {
    /// Anywhere.
    Random,
    /// Where the task's last request to this disk ended.
    Sequential,
    /// This byte.
    At(u64),
}

/// A request to a disk, for which its task waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// The disk.
    pub disk: DiskId,
    /// Write; otherwise read.
    pub write: bool,
    /// Length in bytes, above 0.
    pub bytes: u64,
    /// Position.
    pub place: IoPlace,
    /// The page cache is between task and disk; otherwise the request is direct I/O.
    pub cached: bool,
    /// Random positions are within the first so many bytes; 0: of the whole disk.
    pub within: u64,
}

/// Index of a device's name in the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceId(pub u32);

/// A request of a recorded task to a block device. The task does not wait for it here: that is [`crate::Op::AwaitRequests`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// The device.
    pub device: DeviceId,
    /// Write; otherwise read.
    pub write: bool,
    /// Length in bytes, above 0.
    pub bytes: u64,
    /// Recorded time from its issue to the device until it was complete.
    pub service: Nanos,
}

/// Index of a network's name in the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkId(pub u32);

/// A call over a network to the server behind it, for whose answer its task waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkCall {
    /// The network.
    pub network: NetworkId,
    /// Length of the call in bytes, above 0.
    pub bytes: u64,
    /// Length of the answer in bytes, above 0.
    pub reply: u64,
}

/// Longest request, call or answer: 1 GiB.
pub(crate) const MAX_IO_BYTES: u64 = 1 << 30;
