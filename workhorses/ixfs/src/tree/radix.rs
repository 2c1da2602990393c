// SPDX-License-Identifier: MIT OR Apache-2.0
//! A persistent ordered map from `u64` to values: the one structure under the inode table, directories and file data.
//!
//! It is a radix tree of 64-way nodes in which a path without forks takes no nodes. Clones share all nodes. Changing a
//! clone copies the nodes on the path to the change and no others; this is what *freeze* (clone) and *melt* (copy on
//! write) rest on. A node remembers where its image lies in the store until the node is melted.

use crate::store::Ptr;
use std::sync::{Arc, OnceLock};

/// Bits of the key that select a slot in one node.
const SPAN: u32 = 6;
const FAN: u64 = 1 << SPAN;

/// A child of a node, or the root of a map.
#[derive(Clone)]
pub enum Slot<T> {
    /// An empty map. Nodes hold no such slot.
    Empty,
    /// One key with its value.
    Leaf(u64, T),
    /// Two keys or more.
    Node(Arc<Node<T>>),
}

/// An inner node: at least two slots, sorted by key.
#[derive(Clone)]
pub struct Node<T> {
    /// Address of this node's image in the store; unset if it has none.
    pub saved: OnceLock<Ptr>,
    /// Bits of the key below those that select the slot.
    shift: u32,
    /// The keys' common bits; those that select the slot and those below are 0.
    prefix: u64,
    /// Which of the 64 slots exist.
    present: u64,
    slots: Vec<Slot<T>>,
}

impl<T> Node<T> {
    /// The children in key order.
    pub fn slots(&self) -> &[Slot<T>] {
        &self.slots
    }

    fn covers(&self, key: u64) -> bool {
        base(key, self.shift) == self.prefix
    }

    fn digit(&self, key: u64) -> u64 {
        (key >> self.shift) % FAN
    }

    /// The position in `slots` of a digit, and whether the slot exists.
    fn position(&self, digit: u64) -> (usize, bool) {
        let below = self.present & ((1 << digit) - 1);
        (below.count_ones() as usize, self.present >> digit & 1 == 1)
    }
}

/// The key without the bits that a node at `shift` distinguishes.
fn base(key: u64, shift: u32) -> u64 {
    match shift + SPAN {
        bits if bits >= 64 => 0,
        bits => key >> bits << bits,
    }
}

/// The shift of the node in which two different keys part.
fn parting(a: u64, b: u64) -> u32 {
    (63 - (a ^ b).leading_zeros()) / SPAN * SPAN
}

/// Gives write access to a node: copies it if another tree shares it, and forgets its address in the store.
fn melt<T: Clone>(node: &mut Arc<Node<T>>) -> &mut Node<T> {
    let node = Arc::make_mut(node);
    node.saved = OnceLock::new();
    node
}

/// A persistent ordered map.
#[derive(Clone)]
pub struct Radix<T> {
    root: Slot<T>,
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Radix { root: Slot::Empty }
    }
}

impl<T> Radix<T> {
    /// The root, for writing the map to the store.
    pub fn root(&self) -> &Slot<T> {
        &self.root
    }

    /// Whether the map has no keys.
    pub fn is_empty(&self) -> bool {
        matches!(self.root, Slot::Empty)
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Option<&T> {
        let mut slot = &self.root;
        loop {
            match slot {
                Slot::Node(node) if node.covers(key) => match node.position(node.digit(key)) {
                    (at, true) => slot = &node.slots[at],
                    _ => return None,
                },
                Slot::Leaf(of, value) if *of == key => return Some(value),
                _ => return None,
            }
        }
    }

    /// Visits keys from `from` on in ascending order.
    pub fn range(&self, from: u64) -> Range<'_, T> {
        let mut range = Range { stack: Vec::new(), next: None };
        range.seek(&self.root, from);
        range
    }

    /// The greatest key.
    pub fn last_key(&self) -> Option<u64> {
        let mut slot = &self.root;
        loop {
            match slot {
                Slot::Empty => return None,
                Slot::Leaf(key, _) => return Some(*key),
                Slot::Node(node) => slot = &node.slots[node.slots.len() - 1],
            }
        }
    }
}

impl<T: Clone> Radix<T> {
    /// Sets the value of `key` and returns the one before.
    pub fn insert(&mut self, key: u64, value: T) -> Option<T> {
        let mut slot = &mut self.root;
        loop {
            match slot {
                Slot::Empty => {
                    *slot = Slot::Leaf(key, value);
                    return None;
                }
                Slot::Leaf(of, old) if *of == key => return Some(std::mem::replace(old, value)),
                Slot::Leaf(of, _) => {
                    let of = *of;
                    fork(slot, of, key, value);
                    return None;
                }
                Slot::Node(node) if !node.covers(key) => {
                    let of = node.prefix;
                    fork(slot, of, key, value);
                    return None;
                }
                Slot::Node(node) => {
                    let node = melt(node);
                    let digit = node.digit(key);
                    let (at, present) = node.position(digit);
                    if !present {
                        node.present |= 1 << digit;
                        // Most nodes are filled once and then stay: doubling would waste a quarter of them on average.
                        if node.slots.len() == node.slots.capacity() {
                            node.slots.reserve_exact(1 + node.slots.len() / 8);
                        }
                        node.slots.insert(at, Slot::Leaf(key, value));
                        return None;
                    }
                    slot = &mut node.slots[at];
                }
            }
        }
    }

    /// Write access to the value of `key`; melts the path to it. A missing key melts nothing.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.get(key)?;
        let mut slot = &mut self.root;
        loop {
            match slot {
                Slot::Node(node) => {
                    let node = melt(node);
                    let (at, _) = node.position(node.digit(key));
                    slot = &mut node.slots[at];
                }
                Slot::Leaf(_, value) => return Some(value),
                Slot::Empty => return None,
            }
        }
    }

    /// Removes `key` and returns its value. A missing key melts nothing.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        self.get(key)?;
        take(&mut self.root, key)
    }

    /// Builds a map from pairs in any order.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (u64, T)>) -> Radix<T> {
        let mut map = Radix::default();
        for (key, value) in pairs {
            map.insert(key, value);
        }
        map
    }

    /// Marks the root node as lying at `ptr` in the store.
    pub fn mark_saved(&self, ptr: Ptr) {
        if let Slot::Node(node) = &self.root {
            let _ = node.saved.set(ptr);
        }
    }

    /// Builds the node above `parts`, given in key order; their nodes are kept. `None` unless the parts are what the
    /// children of one node can be.
    pub fn assemble(parts: Vec<Radix<T>>) -> Option<Radix<T>> {
        let slots: Vec<Slot<T>> = parts.into_iter().map(|part| part.root).collect();
        if slots.len() < 2 {
            return slots.into_iter().next().map_or(Some(Radix::default()), |root| Some(Radix { root }));
        }
        let (low, high) = (least(&slots[0]), least(&slots[slots.len() - 1]));
        if low >= high {
            return None;
        }
        let shift = parting(low, high);
        let mut node = Node {
            saved: OnceLock::new(),
            shift,
            prefix: base(low, shift),
            present: 0,
            slots: Vec::with_capacity(slots.len()),
        };
        for slot in slots {
            let key = least(&slot);
            let digit = node.digit(key);
            let fits = !matches!(slot, Slot::Empty) && shift_of(&slot).is_none_or(|below| below < shift);
            if !fits || !node.covers(key) || node.present >> digit != 0 {
                return None;
            }
            node.present |= 1 << digit;
            node.slots.push(slot);
        }
        Some(Radix { root: Slot::Node(Arc::new(node)) })
    }

    /// A map of one key.
    pub fn leaf(key: u64, value: T) -> Radix<T> {
        Radix { root: Slot::Leaf(key, value) }
    }
}

/// The least key below a slot.
fn least<T>(slot: &Slot<T>) -> u64 {
    match slot {
        Slot::Empty => 0,
        Slot::Leaf(key, _) => *key,
        Slot::Node(node) => node.prefix,
    }
}

fn shift_of<T>(slot: &Slot<T>) -> Option<u32> {
    match slot {
        Slot::Node(node) => Some(node.shift),
        _ => None,
    }
}

fn pair<T>(a: Slot<T>, a_key: u64, b: Slot<T>, b_key: u64, shift: u32) -> Slot<T> {
    let digit = |key: u64| (key >> shift) % FAN;
    let slots = if a_key < b_key { vec![a, b] } else { vec![b, a] };
    Slot::Node(Arc::new(Node {
        saved: OnceLock::new(),
        shift,
        prefix: base(a_key, shift),
        present: 1 << digit(a_key) | 1 << digit(b_key),
        slots,
    }))
}

/// Puts a new node above `slot`, whose keys begin at `of`, and the new leaf beside it.
fn fork<T>(slot: &mut Slot<T>, of: u64, key: u64, value: T) {
    let old = std::mem::replace(slot, Slot::Empty);
    let shift = parting(of, key);
    *slot = pair(old, of, Slot::Leaf(key, value), key, shift);
}

fn take<T: Clone>(slot: &mut Slot<T>, key: u64) -> Option<T> {
    match slot {
        Slot::Empty => None,
        Slot::Leaf(..) => match std::mem::replace(slot, Slot::Empty) {
            Slot::Leaf(_, value) => Some(value),
            _ => None,
        },
        Slot::Node(node) => {
            let node = melt(node);
            let digit = node.digit(key);
            let (at, _) = node.position(digit);
            let value = take(&mut node.slots[at], key);
            if matches!(node.slots[at], Slot::Empty) {
                node.slots.remove(at);
                node.present &= !(1 << digit);
            }
            if node.slots.len() == 1 {
                let only = node.slots.remove(0);
                *slot = only;
            }
            value
        }
    }
}

/// Ascending iteration; see [`Radix::range`].
pub struct Range<'a, T> {
    stack: Vec<std::slice::Iter<'a, Slot<T>>>,
    next: Option<(u64, &'a T)>,
}

impl<'a, T> Range<'a, T> {
    fn seek(&mut self, slot: &'a Slot<T>, from: u64) {
        match slot {
            Slot::Empty => {}
            Slot::Leaf(key, value) => {
                if *key >= from {
                    self.next = Some((*key, value));
                }
            }
            Slot::Node(node) if node.covers(from) => {
                let (at, present) = node.position(node.digit(from));
                self.stack.push(node.slots[at + usize::from(present)..].iter());
                if present {
                    self.seek(&node.slots[at], from);
                }
            }
            Slot::Node(node) => {
                if node.prefix > from {
                    self.stack.push(node.slots.iter());
                }
            }
        }
    }
}

impl<'a, T> Iterator for Range<'a, T> {
    type Item = (u64, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        loop {
            match self.stack.last_mut()?.next() {
                None => {
                    self.stack.pop();
                }
                Some(Slot::Leaf(key, value)) => return Some((*key, value)),
                Some(Slot::Node(node)) => self.stack.push(node.slots.iter()),
                Some(Slot::Empty) => {}
            }
        }
    }
}

/// What [`diff`] reports of a key: its old and its new value, at least one of them present.
pub type Change<'a, T> = (u64, Option<&'a T>, Option<&'a T>);

/// Lists the keys whose values differ between two maps in ascending order. Shared nodes are skipped, so the cost is
/// that of the changes, not of the maps. `same` tells whether two values are equal.
pub fn diff<'a, T>(old: &'a Radix<T>, new: &'a Radix<T>, same: &dyn Fn(&T, &T) -> bool) -> Vec<Change<'a, T>> {
    let mut changes = Vec::new();
    diff_slots(&old.root, &new.root, same, &mut changes);
    changes
}

fn all<'a, T>(slot: &'a Slot<T>, old: bool, changes: &mut Vec<Change<'a, T>>) {
    match slot {
        Slot::Empty => {}
        Slot::Leaf(key, value) if old => changes.push((*key, Some(value), None)),
        Slot::Leaf(key, value) => changes.push((*key, None, Some(value))),
        Slot::Node(node) => node.slots.iter().for_each(|slot| all(slot, old, changes)),
    }
}

fn diff_slots<'a, T>(
    old: &'a Slot<T>,
    new: &'a Slot<T>,
    same: &dyn Fn(&T, &T) -> bool,
    changes: &mut Vec<Change<'a, T>>,
) {
    match (old, new) {
        (Slot::Empty, slot) => all(slot, false, changes),
        (slot, Slot::Empty) => all(slot, true, changes),
        (Slot::Leaf(a, old), Slot::Leaf(b, new)) if a == b => {
            if !same(old, new) {
                changes.push((*a, Some(old), Some(new)));
            }
        }
        (Slot::Node(a), Slot::Node(b)) if Arc::ptr_eq(a, b) || same_image(a, b) => {}
        (Slot::Node(a), Slot::Node(b)) if a.shift == b.shift && a.prefix == b.prefix => {
            for digit in 0..FAN {
                match (a.position(digit), b.position(digit)) {
                    ((i, true), (j, true)) => diff_slots(&a.slots[i], &b.slots[j], same, changes),
                    ((i, true), _) => all(&a.slots[i], true, changes),
                    (_, (j, true)) => all(&b.slots[j], false, changes),
                    _ => {}
                }
            }
        }
        (_, Slot::Node(b)) if inside(old, b) => {
            let under = b.digit(least(old));
            within(b, under, old, changes, false, &mut |slot, changes| diff_slots(old, slot, same, changes));
        }
        (Slot::Node(a), _) if inside(new, a) => {
            let under = a.digit(least(new));
            within(a, under, new, changes, true, &mut |slot, changes| diff_slots(slot, new, same, changes));
        }
        _ if least(old) < least(new) => {
            all(old, true, changes);
            all(new, false, changes);
        }
        _ => {
            all(new, false, changes);
            all(old, true, changes);
        }
    }
}

/// Whether two nodes were loaded from, or saved to, the same place in the store.
fn same_image<T>(a: &Node<T>, b: &Node<T>) -> bool {
    a.saved.get().is_some_and(|ptr| b.saved.get() == Some(ptr))
}

/// Whether all keys of `slot` fall into one digit of `node`.
fn inside<T>(slot: &Slot<T>, node: &Node<T>) -> bool {
    node.covers(least(slot)) && shift_of(slot).is_none_or(|shift| shift < node.shift)
}

/// Compares two slots and adds their differences.
type Meet<'m, 'a, T> = &'m mut dyn FnMut(&'a Slot<T>, &mut Vec<Change<'a, T>>);

/// Walks `node` against `other`, which falls into its digit `under`.
fn within<'a, T>(
    node: &'a Node<T>,
    under: u64,
    other: &'a Slot<T>,
    changes: &mut Vec<Change<'a, T>>,
    node_is_old: bool,
    meet: Meet<'_, 'a, T>,
) {
    for digit in 0..FAN {
        match (node.position(digit), digit == under) {
            ((at, true), true) => meet(&node.slots[at], changes),
            ((at, true), false) => all(&node.slots[at], node_is_old, changes),
            (_, true) => all(other, !node_is_old, changes),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key() -> impl Strategy<Value = u64> {
        prop_oneof![0..200_u64, any::<u64>(), (0..64_u32).prop_map(|bit| 1 << bit), Just(u64::MAX)]
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32),
        Remove(u64),
        Touch(u64),
        Freeze,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (key(), any::<u32>()).prop_map(|(k, v)| Step::Insert(k, v)),
            2 => key().prop_map(Step::Remove),
            1 => key().prop_map(Step::Touch),
            1 => Just(Step::Freeze),
        ]
    }

    fn pairs(map: &Radix<u32>) -> Vec<(u64, u32)> {
        map.range(0).map(|(k, v)| (k, *v)).collect()
    }

    proptest! {
        #[test]
        fn radix_equals_btreemap_and_frozen_clones_never_change(steps in prop::collection::vec(step(), 0..200), from in key()) {
            let (mut map, mut naive) = (Radix::default(), BTreeMap::new());
            let mut frozen: Vec<(Radix<u32>, BTreeMap<u64, u32>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(k, v) => prop_assert_eq!(map.insert(k, v), naive.insert(k, v)),
                    Step::Remove(k) => prop_assert_eq!(map.remove(k), naive.remove(&k)),
                    Step::Touch(k) => {
                        if let Some(v) = map.get_mut(k) { *v = v.wrapping_add(1); }
                        if let Some(v) = naive.get_mut(&k) { *v = v.wrapping_add(1); }
                    }
                    Step::Freeze => frozen.push((map.clone(), naive.clone())),
                }
                prop_assert_eq!(map.last_key(), naive.keys().next_back().copied());
            }
            frozen.push((map.clone(), naive.clone()));
            for (old, model) in &frozen {
                prop_assert_eq!(pairs(old), model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
                let tail: Vec<_> = old.range(from).map(|(k, v)| (k, *v)).collect();
                prop_assert_eq!(tail, model.range(from..).map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
                let mut patched = model.clone();
                let mut last = None;
                for (k, before, after) in diff(old, &map, &|a, b| a == b) {
                    prop_assert!(last.is_none_or(|last| last < k));
                    last = Some(k);
                    prop_assert_eq!(patched.get(&k), before);
                    match after { Some(v) => patched.insert(k, *v), None => patched.remove(&k) };
                }
                prop_assert_eq!(&patched, &naive);
            }
        }
    }

    #[test]
    fn diff_skips_shared_nodes() {
        let map = Radix::from_pairs((0..100_000_u64).map(|k| (k, k)));
        let mut changed = map.clone();
        changed.insert(70_000, 1);
        let compared = std::cell::Cell::new(0);
        let changes = diff(&map, &changed, &|a, b| {
            compared.set(compared.get() + 1);
            a == b
        });
        assert_eq!(changes.len(), 1);
        assert!(compared.get() <= 64, "{} values were compared", compared.get());
    }

    #[test]
    fn radix_node_loses_its_saved_address_when_it_is_changed() {
        let mut map = Radix::from_pairs((0..10_u64).map(|k| (k, k)));
        map.mark_saved(Ptr { block: 7, len: 1, sum: 1 });
        let saved = |map: &Radix<u64>| match map.root() {
            Slot::Node(node) => node.saved.get().is_some(),
            _ => false,
        };
        assert!(saved(&map));
        map.insert(3, 99);
        assert!(!saved(&map));
    }
}
