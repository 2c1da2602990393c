// SPDX-License-Identifier: MIT OR Apache-2.0
//! Literals that have not been cut into blocks yet.

use crate::backend::bzip2::BlockEnds;
use std::collections::VecDeque;

/// Preferred allocation size of a part, in bytes.
const PART: usize = 4 << 20;

/// Literals in several parts, because one growing buffer would be copied on each growth.
#[derive(Debug)]
pub struct Held {
    parts: VecDeque<Vec<u8>>,
    length: usize,
    /// Length of the back end's internal blocks, and the predictor of their ends.
    inner: Option<(usize, BlockEnds)>,
}

impl Held {
    /// Creates an empty queue for a back end whose internal blocks have `inner` bytes, if it has such blocks.
    pub fn new(inner: Option<usize>) -> Held {
        Held { parts: VecDeque::new(), length: 0, inner: inner.map(|block| (block, BlockEnds::new(block))) }
    }

    /// Number of bytes held.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// Reserves memory for `bytes` more; returns false if there is none.
    pub fn make_room(&mut self, bytes: usize) -> bool {
        if self.parts.back().is_some_and(|part| part.capacity() - part.len() >= bytes) {
            return true;
        }
        let mut part = Vec::new();
        let made = part.try_reserve_exact(bytes.max(PART)).is_ok() || part.try_reserve_exact(bytes).is_ok();
        if made {
            self.parts.push_back(part);
        }
        made
    }

    /// Appends bytes for which `make_room` has reserved memory.
    pub fn add(&mut self, bytes: &[u8]) {
        self.parts.back_mut().expect("room was made").extend_from_slice(bytes);
        self.length += bytes.len();
        if let Some((_, filled)) = &mut self.inner {
            filled.add(bytes);
        }
    }

    /// Removes about `wanted` bytes from the front. If the back end has internal blocks, the cut is at the end of
    /// one.
    pub fn take(&mut self, wanted: usize) -> Vec<u8> {
        if wanted >= self.length && self.parts.len() == 1 {
            return self.take_part();
        }
        let end = self.inner.as_ref().filter(|_| wanted < self.length).and_then(|(_, filled)| filled.last(wanted));
        let length = end.unwrap_or(wanted).min(self.length);
        let mut taken = Vec::new();
        if taken.try_reserve_exact(length).is_err() {
            return self.take_part();
        }
        while taken.len() < length {
            let part = self.parts.front_mut().expect("so many bytes are held");
            let rest = length - taken.len();
            if part.len() <= rest {
                taken.append(part);
                self.parts.pop_front();
            } else {
                taken.extend(part.drain(..rest));
            }
        }
        self.length -= length;
        match (&mut self.inner, end) {
            (Some((_, filled)), Some(end)) => filled.forget(end),
            _ => self.count_again(),
        }
        taken
    }

    /// Removes the first part, which needs no memory.
    pub fn take_part(&mut self) -> Vec<u8> {
        let part = self.parts.pop_front().unwrap_or_default();
        self.length -= part.len();
        self.count_again();
        part
    }

    /// Restarts the prediction of block ends: the back end's next internal block begins at the cut.
    fn count_again(&mut self) {
        if let Some((block, filled)) = &mut self.inner {
            *filled = BlockEnds::new(*block);
            self.parts.iter().for_each(|part| filled.add(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn literals_are_removed_in_the_order_added(
            adds in prop::collection::vec(0usize..3000, 1..40),
            takes in prop::collection::vec(0usize..9000, 1..40),
            inner in prop::option::of(500usize..2000),
        ) {
            let mut held = Held::new(inner);
            let (mut all, mut out) = (Vec::new(), Vec::new());
            let mut takes = takes.iter().cycle();
            for (k, length) in adds.iter().enumerate() {
                prop_assert!(held.make_room(3000));
                let bytes: Vec<u8> = (0..*length).map(|at| (at * 7 + k * 31) as u8).collect();
                held.add(&bytes);
                all.extend(bytes);
                let wanted = *takes.next().expect("endless");
                let before = held.length() as usize;
                let taken = held.take(wanted);
                prop_assert!(taken.len() <= wanted.max(before.min(PART)));
                // Input without runs: if a whole internal block fits, only whole internal blocks are taken.
                if let Some(block) = inner.filter(|block| (*block..before).contains(&wanted)) {
                    prop_assert!(taken.len() % block <= taken.len() / block, "{} of {}", taken.len(), block);
                }
                out.extend(taken);
            }
            while held.length() > 0 {
                out.extend(if out.len() % 2 == 0 { held.take_part() } else { held.take(usize::MAX) });
            }
            prop_assert_eq!(out, all);
        }
    }
}
