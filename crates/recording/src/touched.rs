// SPDX-License-Identifier: GPL-2.0-only
//! Resource use between the waits of tasks, and block-device requests: converts monotonic counters to differences,
//! and events to requests.

use crate::event::{Counters, Footprint, Requested};
use ids::{CpuId, Nanos};
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};
use workload::{Device, Earlier, MAX_REQUESTS, Request, Stretch, Touched};

/// Counters of a task when it was switched out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Reading {
    pub cpu: CpuId,
    pub counters: Counters,
}

/// Resource use of a task, stretch by stretch in order.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    pub before: Counters,
    pub all: Vec<Stretch>,
}

impl Stretches {
    /// For a task with these counters at the start of the recording.
    pub fn after(before: Counters) -> Stretches {
        Stretches { before, all: Vec::new() }
    }

    /// Ends a stretch before the operation of this index. A stretch without resource use is omitted.
    pub fn end(&mut self, until: usize, reading: &Reading) {
        let touched = since(&mut self.before, &reading.counters);
        if touched != Touched::default() {
            self.all.push(Stretch { until: until as u32, cpu: reading.cpu, touched });
        }
    }
}

/// Increase of the counters. An out-of-order reading, which occurs if the kernel hid a run interval, adds nothing.
fn since(before: &mut Counters, now: &Counters) -> Touched {
    const SECTOR: u64 = 512;
    let wide = |before: &mut u64, now: u64| {
        let more = now.saturating_sub(*before);
        *before += more;
        more
    };
    // Counters wrap at 2^32; two readings are never more than half of that apart.
    let narrow = |before: &mut u32, now: u32| {
        let more = (now.wrapping_sub(*before) as i32).max(0) as u32;
        *before = before.wrapping_add(more);
        u64::from(more)
    };
    Touched {
        minor_faults: narrow(&mut before.minor_faults, now.minor_faults),
        major_faults: narrow(&mut before.major_faults, now.major_faults),
        read: wide(&mut before.read, now.read),
        written: wide(&mut before.written, now.written),
        device_read: narrow(&mut before.device_read, now.device_read) * SECTOR,
        device_written: narrow(&mut before.device_written, now.device_written) * SECTOR,
        beside_ns: wide(&mut before.beside.0, now.beside.0),
    }
}

/// Current and maximum number of threads of each process.
#[derive(Debug, Default)]
pub(crate) struct Threads(BTreeMap<u32, (u64, u64)>);

impl Threads {
    /// Adds a thread. Must be called in order of time.
    pub fn begins(&mut self, tgid: u32) {
        let (now, most) = self.0.entry(tgid).or_default();
        *now += 1;
        *most = (*most).max(*now);
    }

    /// Removes a thread.
    pub fn ends(&mut self, tgid: u32) {
        if let Some((now, _)) = self.0.get_mut(&tgid) {
            *now = now.saturating_sub(1);
        }
    }

    /// Memory of a process, with stacks for its maximum number of threads.
    pub fn footprint(&self, tgid: u32, pages: &Footprint, page_bytes: u64) -> workload::Footprint {
        let threads = self.0.get(&tgid).map_or(1, |(_, most)| *most);
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        workload::Footprint {
            private: bytes(pages.private_pages),
            shared: bytes(pages.shared_pages),
            kernel: pages.table_bytes.saturating_add(bytes(pages.stack_pages.saturating_mul(threads))),
            executable: pages.executable,
        }
    }
}

/// Requests of all block devices in the order of completion.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    requests: Vec<Request>,
    devices: BTreeMap<u32, u32>,
    /// Number of requests beyond the limit of a recording.
    left_out: u64,
    /// Number of written requests, and the time up to which they are written.
    written: usize,
    until: Nanos,
}

/// Number of requests in memory above which the earlier half is written.
const WAITING: usize = 1 << 18;

impl Requests {
    /// Adds a request; `task` is an index, `time` counts from the start of the recording. Returns the index of its device,
    /// or `None` if the recording is full.
    pub fn take(&mut self, time: Nanos, task: Option<u32>, requested: &Requested) -> Option<u32> {
        if self.requests.len() + self.written == MAX_REQUESTS {
            self.left_out += 1;
            return None;
        }
        let Requested { device, operation, bytes, service, .. } = *requested;
        let next = self.devices.len() as u32;
        let device = *self.devices.entry(device).or_insert(next);
        // A request that took longer than all those in memory completes too late to be sorted in.
        let (time, service) = (time.max(self.until), service.since(self.until.since(time)));
        self.requests.push(Request { time, task, device, operation, bytes, service });
        Some(device)
    }

    /// Drops requests that started at `end` or later, and renumbers the tasks of the others.
    pub fn cut(&mut self, end: Nanos, tasks: &[usize]) {
        self.requests.retain(|request| request.time < end);
        for task in self.requests.iter_mut().filter_map(|request| request.task.as_mut()) {
            *task = tasks[*task as usize] as u32;
        }
    }

    /// Devices with their names.
    pub fn devices(&self, names: &BTreeMap<u32, String>) -> Vec<Device> {
        let mut devices: Vec<(u32, u32)> = self.devices.iter().map(|(number, index)| (*index, *number)).collect();
        devices.sort_unstable();
        let unnamed = |number: u32| format!("{}:{}", number >> 20, number & 0xf_ffff);
        let device = |(_, number): (u32, u32)| Device {
            number,
            name: names.get(&number).cloned().unwrap_or_else(|| unnamed(number)),
        };
        devices.into_iter().map(device).collect()
    }

    /// Writes the earlier half if there are too many in memory.
    pub fn write<File: Read + Write + Seek>(
        &mut self,
        names: &BTreeMap<u32, String>,
        earlier: &mut Earlier<File>,
    ) -> io::Result<()> {
        if self.requests.len() < WAITING {
            return Ok(());
        }
        self.requests.sort_by_key(|request| request.time);
        let rest = self.requests.split_off(WAITING / 2);
        earlier.requests(&self.devices(names), &self.requests)?;
        self.written += self.requests.len();
        self.until = self.requests.last().map_or(self.until, |last| last.time);
        self.requests = rest;
        Ok(())
    }

    /// All unwritten requests in order of time, the devices with their names, and the number of omitted requests.
    pub fn finish(mut self, names: &BTreeMap<u32, String>) -> (Vec<Device>, Vec<Request>, u64) {
        self.requests.sort_by_key(|request| request.time);
        let devices = if self.requests.is_empty() { Vec::new() } else { self.devices(names) };
        (devices, self.requests, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Operation;

    fn reading(read: u64, written: u64, faults: u32, sectors: u32) -> Reading {
        let beside = Nanos(3 * u64::from(sectors));
        let (device_read, device_written) = (sectors, 2);
        let counters =
            Counters { read, written, device_read, device_written, minor_faults: faults, major_faults: 0, beside };
        Reading { cpu: CpuId(3), counters }
    }

    #[test]
    fn stretch_has_the_counter_increase_since_the_previous_one() {
        let mut stretches = Stretches::after(reading(100, 50, u32::MAX - 1, 8).counters);
        stretches.end(0, &reading(100, 50, u32::MAX - 1, 8));
        stretches.end(2, &reading(5_000_000_100, 50, 3, 8));
        // An out-of-order reading.
        stretches.end(3, &reading(400, 20, u32::MAX, 7));
        stretches.end(7, &reading(5_000_000_101, 60, 4, 10));
        let cpu = CpuId(3);
        let first = Touched { read: 5_000_000_000, minor_faults: 5, ..Touched::default() };
        let second =
            Touched { read: 1, written: 10, minor_faults: 1, device_read: 1_024, beside_ns: 6, ..Touched::default() };
        let expected = [Stretch { until: 2, cpu, touched: first }, Stretch { until: 7, cpu, touched: second }];
        assert_eq!(stretches.all, expected);
    }

    #[test]
    fn footprint_includes_stacks_for_the_maximum_number_of_threads() {
        let mut threads = Threads::default();
        threads.begins(9);
        for _ in 0..3 {
            threads.begins(7);
            threads.begins(7);
            threads.ends(7);
        }
        let pages = Footprint { private_pages: 3, shared_pages: 5, table_bytes: 100, stack_pages: 4, executable: 77 };
        let of = |tgid| threads.footprint(tgid, &pages, 10);
        assert_eq!(of(7), workload::Footprint { private: 30, shared: 50, kernel: 260, executable: 77 });
        assert_eq!((of(9).kernel, of(1).kernel), (140, 140));
    }

    #[test]
    fn requests_are_sorted_truncated_and_named_by_device() {
        let requested =
            |device, bytes| Requested { task: None, service: Nanos(9), device, operation: Operation::Write, bytes };
        let mut requests = Requests::default();
        requests.take(Nanos(30), Some(2), &requested(254 << 20, 4_096));
        requests.take(Nanos(10), None, &requested(7 << 20 | 3, 512));
        requests.take(Nanos(20), Some(0), &requested(254 << 20, 1));
        requests.take(Nanos(40), Some(1), &requested(254 << 20, 2));
        requests.cut(Nanos(40), &[0, 1, 1]);
        let (devices, requests, left_out) = requests.finish(&BTreeMap::from([(254 << 20, "vda".to_owned())]));
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!((names, left_out), (vec!["vda", "7:3"], 0));
        let seen: Vec<_> = requests.iter().map(|one| (one.time.0, one.task, one.device, one.bytes)).collect();
        assert_eq!(seen, [(10, None, 1, 512), (20, Some(0), 0, 1), (30, Some(1), 0, 4_096)]);
    }
}
