// SPDX-License-Identifier: GPL-2.0-only
//! Positions of requests, and their division over members.

use crate::Request;
use ids::TaskId;
use std::collections::BTreeMap;

/// Position of a request on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Anywhere, uniformly, at a multiple of its length.
    Random,
    /// Where the task's last request to this disk ended; the first one is anywhere.
    Sequential,
    /// This byte.
    At(u64),
}

/// Ends of the last requests of each task.
#[derive(Debug, Default)]
pub(crate) struct Cursors(BTreeMap<TaskId, u64>);

impl Cursors {
    /// First byte of a request on a disk of this capacity, below it.
    pub fn start(&mut self, request: &Request, capacity: u64, random: &mut dyn FnMut() -> u64) -> u64 {
        let anywhere = |random: &mut dyn FnMut() -> u64| {
            let places = (capacity / request.bytes).max(1);
            let place = ((u128::from(random()) * u128::from(places)) >> 64) as u64;
            place * request.bytes % capacity
        };
        let start = match request.place {
            Place::Random => anywhere(random),
            Place::At(byte) => byte % capacity,
            Place::Sequential => match self.0.get(&request.task) {
                Some(end) => end % capacity,
                None => anywhere(random),
            },
        };
        self.0.insert(request.task, start.saturating_add(request.bytes));
        start
    }
}

/// Divides a request into a part for each member that it touches: member, first byte on it, length. Addresses are
/// striped: stripe `s` is on member `s % members`.
pub(crate) fn split(start: u64, bytes: u64, stripe: u64, members: usize) -> Vec<(usize, u64, u64)> {
    if members == 1 {
        return vec![(0, start, bytes)];
    }
    let mut parts: Vec<(usize, u64, u64)> = Vec::new();
    let (mut at, end) = (start, start + bytes);
    let count = members as u64;
    while at < end {
        let number = at / stripe;
        let length = ((number + 1) * stripe).min(end) - at;
        let (member, offset) = ((number % count) as usize, number / count * stripe + at % stripe);
        match parts.iter_mut().find(|part| part.0 == member) {
            // Further stripes of a request follow each other on the member.
            Some(part) => part.2 += length,
            None => parts.push((member, offset, length)),
        }
        at += length;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Nanos;
    use proptest::prelude::*;

    #[test]
    fn request_is_divided_by_stripes() {
        assert_eq!(split(10, 100, 64, 1), [(0, 10, 100)]);
        assert_eq!(split(10, 50, 64, 4), [(0, 10, 50)]);
        assert_eq!(split(60, 8, 64, 4), [(0, 60, 4), (1, 0, 4)]);
        assert_eq!(split(64 * 5, 64 * 4, 64, 4), [(1, 64, 64), (2, 64, 64), (3, 64, 64), (0, 128, 64)]);
        assert_eq!(split(0, 64 * 6, 64, 4), [(0, 0, 128), (1, 0, 128), (2, 0, 64), (3, 0, 64)]);
    }

    #[test]
    fn sequential_requests_of_a_task_follow_each_other() {
        let mut cursors = Cursors::default();
        let mut request =
            Request { task: TaskId(1), write: false, bytes: 100, place: Place::Sequential, recorded: Nanos::ZERO };
        let mut half = || 1 << 63;
        assert_eq!(cursors.start(&request, 10_000, &mut half), 5_000);
        assert_eq!(cursors.start(&request, 10_000, &mut half), 5_100);
        request.place = Place::At(9_950);
        assert_eq!(cursors.start(&request, 10_000, &mut half), 9_950);
        request.place = Place::Sequential;
        assert_eq!(cursors.start(&request, 10_000, &mut half), 50, "behind the end, the disk begins again");
        request.place = Place::Random;
        assert_eq!(cursors.start(&request, 10_000, &mut half), 5_000);
    }

    proptest! {
        #[test]
        fn parts_have_all_bytes_of_a_request(start in 0u64..1 << 40, bytes in 1u64..10_000, stripe in 1u64..500, members in 1usize..9) {
            let parts = split(start, bytes, stripe, members);
            prop_assert_eq!(parts.iter().map(|part| part.2).sum::<u64>(), bytes);
            prop_assert!(parts.len() <= members);
        }
    }
}
