// SPDX-License-Identifier: GPL-2.0-only
//! Sets of CPUs: affinity masks, idle masks, topology groups.

use crate::{CpuId, MAX_CPUS};
use std::fmt;
use std::str::FromStr;

/// A set of CPUs, one bit each. It is printed and parsed in the kernel's list format: `0-3,8`.
///
/// The words grow on demand; two sets are equal if they contain the same CPUs.
#[derive(Clone, Default)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// Creates an empty set.
    pub fn new() -> CpuSet {
        CpuSet::default()
    }

    /// Creates the set of CPUs 0 to `count - 1`.
    pub fn first_n(count: usize) -> CpuSet {
        (0..count as u32).map(CpuId).collect()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.0 % 64) & 1 == 1)
    }

    /// Adds `cpu` and returns whether it was not in the set before.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let index = cpu.index() / 64;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (cpu.0 % 64);
        let new = self.words[index] & bit == 0;
        self.words[index] |= bit;
        new
    }

    /// Removes `cpu` and returns whether it was in the set before.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let Some(word) = self.words.get_mut(cpu.index() / 64) else { return false };
        let bit = 1 << (cpu.0 % 64);
        let old = *word & bit != 0;
        *word &= !bit;
        old
    }

    /// Number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the lowest CPU.
    pub fn first(&self) -> Option<CpuId> {
        self.next_from(CpuId(0))
    }

    /// Returns the lowest CPU at or above `from`.
    pub fn next_from(&self, from: CpuId) -> Option<CpuId> {
        self.next_common_from(self, from)
    }

    /// Iterates over the words of the intersection, without allocating.
    pub fn common_words(&self, other: &CpuSet) -> impl Iterator<Item = u64> {
        self.words.iter().zip(&other.words).map(|(a, b)| a & b)
    }

    /// Returns the lowest CPU at or above `from` that is in both sets, without allocating.
    pub fn next_common_from(&self, other: &CpuSet, from: CpuId) -> Option<CpuId> {
        let words = self.words.len().min(other.words.len());
        next_bit(words, from, |index| self.words[index] & other.words[index])
    }

    /// Returns the lowest CPU at or above `from` that is in all three sets, without allocating.
    pub fn next_common3_from(&self, b: &CpuSet, c: &CpuSet, from: CpuId) -> Option<CpuId> {
        let words = self.words.len().min(b.words.len()).min(c.words.len());
        next_bit(words, from, |index| self.words[index] & b.words[index] & c.words[index])
    }

    /// Whether the intersection of the sets is not empty.
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every CPU of `self` is in `other`.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(theirs).all(|(a, b)| a & !b == 0)
    }

    /// Returns the intersection of the sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() }
    }

    /// Iterates over the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    CpuId((index * 64) as u32 + bit)
                })
            })
        })
    }

    /// The bits in words of 64 CPUs, lowest first; trailing zero words may be missing.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Creates a set from words in the format of [`CpuSet::words`].
    pub fn from_words(words: &[u64]) -> CpuSet {
        CpuSet { words: words.to_vec() }
    }
}

/// Lowest set bit at or above `from` in `count` words.
fn next_bit(count: usize, from: CpuId, word: impl Fn(usize) -> u64) -> Option<CpuId> {
    let start = from.index() / 64;
    let mut mask = u64::MAX << (from.0 % 64);
    for index in start..count {
        let bits = word(index) & mask;
        if bits != 0 {
            return Some(CpuId((index * 64) as u32 + bits.trailing_zeros()));
        }
        mask = u64::MAX;
    }
    None
}

impl PartialEq for CpuSet {
    fn eq(&self, other: &CpuSet) -> bool {
        self.is_subset(other) && other.is_subset(self)
    }
}

impl Eq for CpuSet {}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.peek().is_some_and(|next| next.0 == last.0 + 1) {
                last = cpus.next().expect("peeked");
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Error for a text that is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a CPU list such as 0-3,8 (CPUs below {MAX_CPUS}, ranges ascending)")]
pub struct ParseCpuSetError(pub String);

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<CpuSet, ParseCpuSetError> {
        let bad = || ParseCpuSetError(text.to_owned());
        let number = |part: &str| part.trim().parse::<u32>().ok().filter(|&cpu| (cpu as usize) < MAX_CPUS);
        let mut set = CpuSet::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first).ok_or_else(bad)?, number(last).ok_or_else(bad)?);
            if first > last {
                return Err(bad());
            }
            for cpu in first..=last {
                set.insert(CpuId(cpu));
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn cpus() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(0u32..300, 0..40)
    }

    proptest! {
        #[test]
        fn set_operations_match_those_of_a_btree_set(a in cpus(), b in cpus(), from in 0u32..320) {
            let set = |cpus: &BTreeSet<u32>| cpus.iter().map(|&cpu| CpuId(cpu)).collect::<CpuSet>();
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(x.iter().map(|cpu| cpu.0).collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x == y, a == b);
            let common = a.intersection(&b).find(|&&cpu| cpu >= from).map(|&cpu| CpuId(cpu));
            prop_assert_eq!(x.next_common_from(&y, CpuId(from)), common);
            let lower = set(&(0..200).collect());
            let common = a.intersection(&b).find(|&&cpu| cpu >= from && cpu < 200).map(|&cpu| CpuId(cpu));
            prop_assert_eq!(x.next_common3_from(&y, &lower, CpuId(from)), common);
            prop_assert_eq!(x.to_string().parse::<CpuSet>().unwrap(), x);
        }
    }

    #[test]
    fn invalid_cpu_lists_are_rejected() {
        for text in ["x", "3-1", "1,,2", "4096", "-1", "1-"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }
}
