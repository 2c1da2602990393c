// SPDX-License-Identifier: GPL-2.0-only
//! A hash table of slot numbers. Keys stay in guest memory. The slot order does not depend on the hash, so iteration
//! is deterministic.

/// End of a chain.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    /// Next slot of the chain.
    next: u32,
    live: bool,
}

/// The slots in use, found by the hash of their key.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// First slot of each chain; the length is a power of two, or 0.
    heads: Vec<u32>,
    /// Entries of the slots, by slot number.
    entries: Vec<Entry>,
    /// Free slots; the last freed is reused first.
    free: Vec<u32>,
}

impl Index {
    /// Number of slots in use.
    pub fn len(&self) -> u32 {
        (self.entries.len() - self.free.len()) as u32
    }

    /// Finds the slot with this hash for which `is_it` returns true.
    #[inline(always)]
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut slot = *self.heads.get(hash as usize & self.heads.len().wrapping_sub(1))?;
        while slot != NONE {
            let entry = &self.entries[slot as usize];
            if entry.hash == hash && is_it(slot) {
                return Some(slot);
            }
            slot = entry.next;
        }
        None
    }

    /// Allocates a slot for a key with this hash.
    pub fn insert(&mut self, hash: u32) -> u32 {
        if self.len() as usize >= self.heads.len() {
            self.widen();
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { hash: 0, next: NONE, live: false });
            self.entries.len() as u32 - 1
        });
        self.entries[slot as usize] = Entry { hash, next: NONE, live: true };
        self.link(slot);
        slot
    }

    /// Frees a slot.
    pub fn remove(&mut self, slot: u32) {
        let Entry { hash, next, live } = self.entries[slot as usize];
        assert!(live, "slot {slot} is not in use");
        let head = hash as usize & (self.heads.len() - 1);
        if self.heads[head] == slot {
            self.heads[head] = next;
        } else {
            let mut at = self.heads[head] as usize;
            while self.entries[at].next != slot {
                at = self.entries[at].next as usize;
            }
            self.entries[at].next = next;
        }
        self.entries[slot as usize].live = false;
        self.free.push(slot);
    }

    /// The first slot in use from `from` on.
    pub fn next(&self, from: u32) -> Option<u32> {
        let rest = self.entries.get(from as usize..)?;
        rest.iter().position(|entry| entry.live).map(|skipped| from + skipped as u32)
    }

    fn link(&mut self, slot: u32) {
        let head = self.entries[slot as usize].hash as usize & (self.heads.len() - 1);
        self.entries[slot as usize].next = self.heads[head];
        self.heads[head] = slot;
    }

    fn widen(&mut self) {
        let chains = (self.heads.len() * 2).max(8);
        self.heads.clear();
        self.heads.resize(chains, NONE);
        for slot in 0..self.entries.len() as u32 {
            if self.entries[slot as usize].live {
                self.link(slot);
            }
        }
    }
}

/// Hash of a key: multiplicative, without a secret seed, because simulated maps are not attacked and results must be
/// reproducible.
#[inline(always)]
pub(super) fn hash(key: &[u8]) -> u32 {
    // 2^64 divided by the golden ratio spreads consecutive keys evenly (Knuth, TAOCP 6.4).
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = key.len() as u64;
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        state = (state ^ word).wrapping_mul(SPREAD).rotate_left(29);
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    state = (state ^ u64::from_le_bytes(last)).wrapping_mul(SPREAD);
    (state >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a list of (slot, key); a poor hash makes chains long.
        #[test]
        fn slot_index_matches_a_list(steps in prop::collection::vec((any::<bool>(), 0_u32..40), 1..300)) {
            let mut index = Index::default();
            let mut list: Vec<(u32, u32)> = Vec::new();
            for (add, key) in steps {
                let known = list.iter().find(|entry| entry.1 == key).map(|entry| entry.0);
                let found = index.find(key % 4, |slot| list.contains(&(slot, key)));
                prop_assert_eq!(found, known);
                match known {
                    None if add => list.push((index.insert(key % 4), key)),
                    Some(slot) if !add => {
                        index.remove(slot);
                        list.retain(|entry| entry.0 != slot);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.len() as usize, list.len());
                let mut slots: Vec<u32> = list.iter().map(|entry| entry.0).collect();
                slots.sort_unstable();
                let mut walked = Vec::new();
                let mut from = 0;
                while let Some(slot) = index.next(from) {
                    walked.push(slot);
                    from = slot + 1;
                }
                prop_assert_eq!(walked, slots);
            }
        }
    }
}
