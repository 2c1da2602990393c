// SPDX-License-Identifier: GPL-2.0-only
//! Ring buffers: records from programs to user space, in the order of reservation.

use crate::{Access, GuestAddr, Memory, RegionId};
use std::collections::VecDeque;

/// Header size of a record in bytes; headers count against the capacity, as in the kernel.
const HEADER: u64 = 8;

/// A ring buffer.
#[derive(Debug)]
pub(super) struct Ring {
    /// One object of twice the capacity, so that no record wraps (the kernel maps its pages twice).
    data: RegionId,
    /// Capacity minus one; the capacity is a power of two.
    mask: u64,
    /// Total bytes consumed and reserved so far, headers included.
    consumer: u64,
    producer: u64,
    /// Records between consumer and producer.
    records: VecDeque<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    /// Position of its header.
    position: u64,
    len: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Reserved,
    Submitted,
    Discarded,
}

impl Ring {
    /// Creates a ring buffer; `capacity` is a power of two of at most 1 GiB.
    pub fn new(memory: &mut Memory, name: &str, capacity: u32) -> Ring {
        let data = memory.add_region(name, capacity * 2, 1, Access::ReadWrite);
        Ring { data, mask: u64::from(capacity) - 1, consumer: 0, producer: 0, records: VecDeque::new() }
    }

    /// Reserves a record of `len` bytes; `None` if there is no room.
    pub fn reserve(&mut self, memory: &Memory, len: u64) -> Option<GuestAddr> {
        let len = u32::try_from(len).ok().filter(|len| *len <= u32::MAX / 4)?;
        let end = self.producer + (u64::from(len) + HEADER).next_multiple_of(8);
        // The kernel keeps one byte free, so that full and empty differ.
        if end - self.consumer > self.mask {
            return None;
        }
        let position = self.producer;
        self.producer = end;
        self.records.push_back(Record { position, len, state: State::Reserved });
        Some(memory.addr(self.data, 0) + (position & self.mask) + HEADER)
    }

    /// Submits or discards a reserved record; returns false if `addr` is none.
    pub fn commit(&mut self, memory: &Memory, addr: GuestAddr, discard: bool) -> bool {
        let Some(position) = addr.checked_sub(memory.addr(self.data, 0) + HEADER) else { return false };
        let mask = self.mask;
        let reserved = |record: &&mut Record| record.position & mask == position && record.state == State::Reserved;
        let Some(record) = self.records.iter_mut().rev().find(reserved) else { return false };
        record.state = if discard { State::Discarded } else { State::Submitted };
        true
    }

    /// Passes every record up to the first unfinished one to `visit` and frees it; returns their number.
    pub fn drain(&mut self, memory: &Memory, visit: &mut dyn FnMut(&[u8])) -> u32 {
        let mut visited = 0;
        while let Some(record) = self.records.front().copied().filter(|record| record.state != State::Reserved) {
            if record.state == State::Submitted {
                let at = ((record.position & self.mask) + HEADER) as usize;
                visit(&memory.slot(self.data, 0)[at..at + record.len as usize]);
                visited += 1;
            }
            self.records.pop_front();
            self.consumer = record.position + (u64::from(record.len) + HEADER).next_multiple_of(8);
        }
        visited
    }

    /// `bpf_ringbuf_query`: unread bytes, capacity, consumer position, or producer position.
    pub fn query(&self, what: u64) -> u64 {
        match what {
            0 => self.producer - self.consumer,
            1 => self.mask + 1,
            2 => self.consumer,
            3 => self.producer,
            _ => 0,
        }
    }

    /// Whether `addr` lies in the buffer.
    pub fn owns(&self, memory: &Memory, addr: GuestAddr) -> bool {
        memory.slot_in(self.data, addr).is_some()
    }
}
