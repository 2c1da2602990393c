// SPDX-License-Identifier: GPL-2.0-only
//! Event queue. An event is not a queued object that may become stale, but an *alarm*: one of a fixed set of things
//! that can each be due at one time or not at all (a CPU's next own step, a task's sleep timer). Setting an alarm
//! moves it. So the queue never holds more than one entry per alarm, however long the run.
//!
//! Alarms due at the same time are ordered by their ranks, which a seed may randomize, and then by their slots: CPUs
//! first, then interrupts, then timers. So without ranks the order depends only on the machine.

use ids::Nanos;

/// Number of children of a node: four entries of 16 bytes are one cache line.
const ARITY: usize = 4;
/// Number of maximal entries after the last one, so that a node has always four children, or none.
const PADDING: usize = ARITY - 1;
/// Marks a slot that is not set.
const UNSET: u32 = u32::MAX;

/// Time in the high 64 bits, then the rank, then the slot, 32 bits each: one integer comparison gives the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry(u128);

impl Entry {
    const NEVER: Entry = Entry(u128::MAX);

    fn new(time: Nanos, rank: u32, slot: u32) -> Entry {
        Entry(u128::from(time.0) << 64 | u128::from(rank) << 32 | u128::from(slot))
    }

    fn time(self) -> Nanos {
        Nanos((self.0 >> 64) as u64)
    }

    fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// Alarms in order of time: a heap that stores the position of every slot.
///
/// Taking the first alarm leaves a gap at the root. Usually the next operation sets another alarm, which fills the
/// gap; only otherwise the last entry must be moved there.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Entries of the heap, after the padding.
    heap: Vec<Entry>,
    place: Vec<u32>,
    gap_at_root: bool,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue { heap: vec![Entry::NEVER; PADDING], place: Vec::new(), gap_at_root: false }
    }
}

impl EventQueue {
    /// Sets the alarm `slot` to `time`, whether it was set or not; `rank` orders it among those of the same time.
    pub fn set(&mut self, slot: u32, time: Nanos, rank: u32) {
        if slot as usize >= self.place.len() {
            self.place.resize(slot as usize + 1, UNSET);
        }
        let entry = Entry::new(time, rank, slot);
        let place = self.place[slot as usize];
        if place == UNSET && std::mem::take(&mut self.gap_at_root) {
            self.sift_down(0, entry);
        } else if place == UNSET {
            self.heap.push(Entry::NEVER);
            self.sift_up(self.len() - 1, entry);
        } else {
            self.fill_gap();
            let place = self.place[slot as usize];
            self.put_again(place as usize, entry);
        }
    }

    /// Cancels the alarm, if it is set.
    pub fn cancel(&mut self, slot: u32) {
        let Some(&place) = self.place.get(slot as usize) else { return };
        if place == UNSET {
            return;
        }
        self.fill_gap();
        let place = std::mem::replace(&mut self.place[slot as usize], UNSET);
        let last = self.take_last();
        if last.slot() != slot {
            self.put_again(place as usize, last);
        }
    }

    /// Time at which the alarm is due, if it is set.
    pub fn due(&self, slot: u32) -> Option<Nanos> {
        let place = *self.place.get(slot as usize)?;
        (place != UNSET).then(|| self.heap[place as usize].time())
    }

    /// Upper bound (exclusive) of the slots.
    pub fn slots(&self) -> u32 {
        self.place.len() as u32
    }

    /// Time of the next alarm.
    pub fn next_due(&self) -> Option<Nanos> {
        let first = usize::from(self.gap_at_root);
        if first == self.len() {
            return None;
        }
        // The children of the gap follow it.
        let others = if self.gap_at_root { ARITY } else { 1 };
        self.heap[first..first + others].iter().map(|entry| entry.time()).min()
    }

    /// Takes the next alarm.
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        self.fill_gap();
        if self.len() == 0 {
            return None;
        }
        let first = self.heap[0];
        self.place[first.slot() as usize] = UNSET;
        self.gap_at_root = true;
        Some((first.time(), first.slot()))
    }

    /// Moves the last entry to the gap at the root, if there is one.
    fn fill_gap(&mut self) {
        if std::mem::take(&mut self.gap_at_root) {
            let last = self.take_last();
            if self.len() > 0 {
                self.sift_down(0, last);
            }
        }
    }

    /// Number of entries, including the gap.
    fn len(&self) -> usize {
        self.heap.len() - PADDING
    }

    /// Removes the last entry.
    fn take_last(&mut self) -> Entry {
        let last = self.len() - 1;
        self.heap.pop();
        std::mem::replace(&mut self.heap[last], Entry::NEVER)
    }

    /// Puts `entry` at a gap of the heap, or in place of an older entry.
    fn put_again(&mut self, place: usize, entry: Entry) {
        if place > 0 && entry < self.heap[(place - 1) / ARITY] {
            self.sift_up(place, entry);
        } else {
            self.sift_down(place, entry);
        }
    }

    fn sift_up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] < entry {
                break;
            }
            self.write(place, self.heap[parent]);
            place = parent;
        }
        self.write(place, entry);
    }

    fn sift_down(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = place * ARITY + 1;
            let children = self.heap.get(first..).and_then(|rest| rest.first_chunk::<ARITY>());
            let Some(children) = children else { break };
            let left = usize::from(children[1] < children[0]);
            let right = 2 + usize::from(children[3] < children[2]);
            let least = if children[right] < children[left] { right } else { left };
            let child = children[least];
            if entry < child {
                break;
            }
            self.write(place, child);
            place = first + least;
        }
        self.write(place, entry);
    }

    fn write(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.place[entry.slot() as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64, u32),
        Cancel(u32),
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..40, 0u64..60, 0u32..3).prop_map(|(slot, time, rank)| Step::Set(slot, time, rank)),
            1 => (0u32..45).prop_map(Step::Cancel),
            2 => Just(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn matches_naive(steps in prop::collection::vec(step(), 0..300)) {
            let mut queue = EventQueue::default();
            let mut naive: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set(slot, time, rank) => {
                        queue.set(slot, Nanos(time), rank);
                        naive.insert(slot, (time, rank));
                    }
                    Step::Cancel(slot) => {
                        queue.cancel(slot);
                        naive.remove(&slot);
                    }
                    Step::Pop => {
                        let first = naive.iter().map(|(&slot, &(time, rank))| (Nanos(time), rank, slot)).min();
                        let expected = first.map(|(time, _, slot)| (time, slot));
                        prop_assert_eq!(queue.pop(), expected);
                        if let Some((_, slot)) = expected {
                            naive.remove(&slot);
                        }
                    }
                }
                for slot in 0..45 {
                    prop_assert_eq!(queue.due(slot), naive.get(&slot).map(|&(time, _)| Nanos(time)));
                }
                prop_assert_eq!(queue.next_due(), naive.values().min().map(|&(time, _)| Nanos(time)));
            }
        }
    }
}
