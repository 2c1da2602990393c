// SPDX-License-Identifier: MIT OR Apache-2.0
//! References that clients hold to inodes. There is one for nearly each inode, because the kernel caches names.

use crate::tree::Ino;
use crate::tree::radix::Radix;

/// Numbers of references by inode. Inode numbers lie close together, so a [`Radix`] takes 18 bytes for each.
#[derive(Default)]
pub(crate) struct Held {
    counts: Radix<u32>,
    inodes: u64,
}

/// From this number on references are no longer counted: the inode stays until the server ends.
const ENDLESS: u32 = u32::MAX;

impl Held {
    /// Adds references.
    pub fn add(&mut self, ino: Ino, count: u64) {
        let count = u32::try_from(count).unwrap_or(ENDLESS);
        match self.counts.get_mut(ino) {
            Some(references) => *references = references.saturating_add(count),
            None => {
                self.counts.insert(ino, count);
                self.inodes += 1;
            }
        }
    }

    /// Takes references back; returns whether the last one went.
    pub fn take(&mut self, ino: Ino, count: u64) -> bool {
        match self.counts.get_mut(ino) {
            None | Some(&mut ENDLESS) => false,
            Some(references) if u64::from(*references) > count => {
                *references -= count as u32;
                false
            }
            Some(_) => {
                self.counts.remove(ino);
                self.inodes -= 1;
                true
            }
        }
    }

    /// Whether there are references to an inode.
    pub fn contains(&self, ino: Ino) -> bool {
        self.counts.get(ino).is_some()
    }

    /// Number of inodes with references.
    pub fn len(&self) -> u64 {
        self.inodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_is_held_until_its_last_reference_is_taken_back() {
        let mut held = Held::default();
        held.add(7, 2);
        held.add(7, 1);
        held.add(8, u64::MAX);
        assert!(!held.take(7, 2) && held.contains(7) && held.len() == 2);
        assert!(held.take(7, 1) && !held.contains(7) && held.len() == 1);
        assert!(!held.take(7, 1), "nothing is left to take back");
        assert!(!held.take(8, u64::MAX) && held.contains(8), "references beyond the counter's range are endless");
    }
}
