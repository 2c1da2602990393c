// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing a frozen tree, copy on write: only what has no address yet is written, and never over anything in use.

use super::codec::{self, Writer as Bytes};
use super::device::Device;
use super::epochs::{self, Epoch};
use super::log::take;
use super::mistake::Mistake;
use super::space::{Marks, Space};
use super::superblock::Superblock;
use super::{BLOCK, Ptr, Result, Store, StoreError, checksum, lock};
use crate::tree::data::Resident;
use crate::tree::inode::{Inode, Xattrs};
use crate::tree::radix::{Node, Slot};
use crate::tree::{Body, Data, Entry, Page, Tree};
use std::sync::{Arc, Mutex};

/// Maximum size of a node, in bytes, that is stored in the record above it.
const INLINE_MAP: usize = 1024;
/// Maximum size of a one-page file, in bytes, that is stored in its inode's record.
pub const INLINE_DATA: usize = 1024;
/// Maximum size of extended attributes, in bytes, that are stored in their inode's record.
const INLINE_XATTRS: usize = 1024;
/// Adjacent blocks are gathered into writes of at most this many bytes.
const RUN: usize = 1 << 20;

/// Gathers writes to adjacent blocks.
pub struct Runs<'a> {
    device: &'a dyn Device,
    start: u32,
    bytes: Vec<u8>,
}

impl<'a> Runs<'a> {
    /// Gathers nothing yet.
    pub fn new(device: &'a dyn Device) -> Runs<'a> {
        Runs { device, start: 0, bytes: Vec::new() }
    }

    /// Writes an object, now or with a later one.
    pub fn write(&mut self, block: u32, bytes: &[u8]) -> Result<()> {
        let next = self.start + (self.bytes.len() / BLOCK) as u32;
        if block != next || self.bytes.len() + bytes.len() > RUN {
            self.put()?;
            self.start = block;
        }
        self.bytes.extend_from_slice(bytes);
        let padded = self.bytes.len().next_multiple_of(BLOCK).max(BLOCK);
        self.bytes.resize(padded, 0);
        Ok(())
    }

    fn put(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let offset = u64::from(self.start) * BLOCK as u64;
        self.device.write(offset, &self.bytes).map_err(StoreError::io("writing blocks"))?;
        self.bytes.clear();
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(mut self) -> Result<()> {
        self.put()
    }
}

/// An address to remember once the snapshot is durable.
enum Saved {
    Inodes(Arc<Node<Arc<Inode>>>),
    Entries(Arc<Node<Entry>>),
    Pages(Arc<Node<Page>>),
    Page(Arc<Resident>),
    Xattrs(Arc<Xattrs>),
}

impl Saved {
    fn remember(&self, ptr: Ptr) {
        let place = match self {
            Saved::Inodes(node) => &node.saved,
            Saved::Entries(node) => &node.saved,
            Saved::Pages(node) => &node.saved,
            Saved::Page(page) => &page.saved,
            Saved::Xattrs(xattrs) => &xattrs.saved,
        };
        let fresh = place.set(ptr).is_ok();
        debug_assert!(fresh, "a frozen object got two addresses");
    }
}

/// A value of a map in the store.
pub trait Value: Clone + Sized {
    /// First byte of a node of such values.
    const KIND: u8;
    /// Appends the value; what it refers to is written first.
    fn write(&self, writer: &mut Writer<'_>, out: &mut Bytes) -> Result<()>;
    #[doc(hidden)]
    fn node(node: &Arc<Node<Self>>) -> SavedNode;
}

#[doc(hidden)]
pub struct SavedNode(Saved);

impl Value for Arc<Inode> {
    const KIND: u8 = 1;

    fn write(&self, writer: &mut Writer<'_>, out: &mut Bytes) -> Result<()> {
        codec::write_attributes(out, self);
        writer.xattrs(self, out)?;
        match &self.body {
            Body::File(data) => writer.data(data, out),
            Body::Dir(dir) => writer.map(dir.entries.root(), out),
            Body::Symlink(_) | Body::Special => Ok(()),
        }
    }

    fn node(node: &Arc<Node<Self>>) -> SavedNode {
        SavedNode(Saved::Inodes(node.clone()))
    }
}

impl Value for Entry {
    const KIND: u8 = 2;

    fn write(&self, _: &mut Writer<'_>, out: &mut Bytes) -> Result<()> {
        codec::write_entry(out, self);
        Ok(())
    }

    fn node(node: &Arc<Node<Self>>) -> SavedNode {
        SavedNode(Saved::Entries(node.clone()))
    }
}

impl Value for Page {
    const KIND: u8 = 3;

    fn write(&self, writer: &mut Writer<'_>, out: &mut Bytes) -> Result<()> {
        let ptr = match (self.ptr(), self) {
            (Some(ptr), _) => ptr,
            (None, Page::Memory(resident)) => {
                let ptr = writer.object(&resident.bytes)?;
                writer.saved.push((Saved::Page(resident.clone()), ptr));
                ptr
            }
            (None, Page::Disk(ptr)) => *ptr,
        };
        out.ptr(ptr);
        Ok(())
    }

    fn node(node: &Arc<Node<Self>>) -> SavedNode {
        SavedNode(Saved::Pages(node.clone()))
    }
}

/// Writes a tree.
pub struct Writer<'a> {
    space: &'a Mutex<Space>,
    runs: Runs<'a>,
    saved: Vec<(Saved, Ptr)>,
    /// Blocks taken so far.
    taken: Vec<u32>,
}

impl<'a> Writer<'a> {
    /// A writer that has written nothing.
    pub fn new(device: &'a dyn Device, space: &'a Mutex<Space>) -> Writer<'a> {
        Writer { space, runs: Runs::new(device), saved: Vec::new(), taken: Vec::new() }
    }

    /// Writes a tree and returns the address of its root record.
    pub fn tree(&mut self, tree: &Tree) -> Result<Ptr> {
        let mut out = Bytes::default();
        out.u64(tree.next_ino);
        self.map(tree.inodes.root(), &mut out)?;
        self.object(&out.0)
    }

    /// Writes an object into new blocks.
    pub fn object(&mut self, bytes: &[u8]) -> Result<Ptr> {
        let mut ptr = Ptr { block: 0, len: bytes.len() as u32, sum: checksum(bytes) };
        ptr.block = take(self.space, ptr.block_count())?;
        self.taken.extend(ptr.blocks());
        self.runs.write(ptr.block, bytes)?;
        Ok(ptr)
    }

    /// Writes what is left in memory, without a flush.
    pub fn finish(self) -> Result<()> {
        self.runs.finish()
    }

    /// Appends a map, or a part of one. A node with a short record is stored in the record above it: small
    /// directories and files need no blocks of their own, and neither do the thinly filled nodes of larger maps.
    fn map<V: Value>(&mut self, slot: &Slot<V>, out: &mut Bytes) -> Result<()> {
        match slot {
            Slot::Empty => out.u8(0),
            Slot::Leaf(key, value) => {
                out.u8(1);
                out.u64(*key);
                value.write(self, out)?;
            }
            Slot::Node(node) => {
                if let Some(ptr) = node.saved.get() {
                    out.u8(2);
                    out.ptr(*ptr);
                    return Ok(());
                }
                let mut record = Bytes::default();
                record.u8(V::KIND);
                record.u8(node.slots().len() as u8);
                node.slots().iter().try_for_each(|slot| self.map(slot, &mut record))?;
                if record.0.len() <= INLINE_MAP {
                    out.u8(3);
                    out.0.extend_from_slice(&record.0[1..]);
                    return Ok(());
                }
                let ptr = self.object(&record.0)?;
                self.saved.push((V::node(node).0, ptr));
                out.u8(2);
                out.ptr(ptr);
            }
        }
        Ok(())
    }

    fn data(&mut self, data: &Data, out: &mut Bytes) -> Result<()> {
        if let Slot::Leaf(0, Page::Memory(resident)) = data.pages.root()
            && resident.saved.get().is_none()
            && resident.bytes.len() <= INLINE_DATA
        {
            out.u8(4);
            out.bytes(&resident.bytes);
            return Ok(());
        }
        self.map(data.pages.root(), out)
    }

    fn xattrs(&mut self, inode: &Inode, out: &mut Bytes) -> Result<()> {
        let Some(xattrs) = &inode.xattrs else {
            out.u8(0);
            return Ok(());
        };
        if let Some(ptr) = xattrs.saved.get() {
            out.u8(2);
            out.ptr(*ptr);
            return Ok(());
        }
        let bytes = codec::xattr_bytes(xattrs);
        if bytes.len() <= INLINE_XATTRS {
            out.u8(1);
            out.bytes(&bytes);
        } else {
            let ptr = self.object(&bytes)?;
            self.saved.push((Saved::Xattrs(xattrs.clone()), ptr));
            out.u8(2);
            out.ptr(ptr);
        }
        Ok(())
    }
}

/// Adds the blocks that a written tree takes, its root record excluded.
pub fn mark(tree: &Tree, marks: &mut Marks) {
    mark_slot(tree.inodes.root(), marks, &mut |inode, marks| {
        if let Some(ptr) = inode.xattrs.as_ref().and_then(|xattrs| xattrs.saved.get()) {
            mark_ptr(*ptr, marks);
        }
        match &inode.body {
            Body::File(data) => mark_slot(data.pages.root(), marks, &mut |page, marks| {
                page.ptr().into_iter().for_each(|ptr| mark_ptr(ptr, marks));
            }),
            Body::Dir(dir) => mark_slot(dir.entries.root(), marks, &mut |_, _| {}),
            Body::Symlink(_) | Body::Special => {}
        }
    });
}

/// Adds the blocks of an object.
pub fn mark_ptr(ptr: Ptr, marks: &mut Marks) {
    if ptr.block != 0 {
        ptr.blocks().for_each(|block| {
            marks.set(block);
        });
    }
}

fn mark_slot<V>(slot: &Slot<V>, marks: &mut Marks, value: &mut dyn FnMut(&V, &mut Marks)) {
    match slot {
        Slot::Empty => {}
        Slot::Leaf(_, of) => value(of, marks),
        Slot::Node(node) => {
            node.saved.get().into_iter().for_each(|ptr| mark_ptr(*ptr, marks));
            node.slots().iter().for_each(|slot| mark_slot(slot, marks, value));
        }
    }
}

/// What a snapshot wrote.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Written {
    /// Generation of the snapshot.
    pub generation: u64,
    /// Blocks written.
    pub blocks: u64,
}

/// What a snapshot does to the list of epochs.
enum Change<'a> {
    None,
    Add(&'a str),
    Drop(&'a [String]),
}

/// A snapshot on its way.
struct Attempt {
    tree: Tree,
    at: super::log::Position,
    since_before: Marks,
    taken: Vec<u32>,
    /// Whether the superblock may be on disk already.
    exposed: bool,
}

impl Store {
    /// Writes the tree that `freeze` returns and makes it the root that recovery starts from. Commits continue
    /// meanwhile, except where the log has no room: then they wait. With `epoch`, the snapshot is archived under that
    /// name.
    pub fn snapshot(&self, freeze: &dyn Fn() -> Tree, now: i64, epoch: Option<&str>) -> Result<Written> {
        self.snapshot_and(freeze, now, epoch.map_or(Change::None, Change::Add))
    }

    /// Takes a snapshot whose list of epochs lacks the named ones. Their blocks are free when it returns.
    pub fn drop_epochs(&self, freeze: &dyn Fn() -> Tree, now: i64, names: &[String]) -> Result<Written> {
        let written = self.snapshot_and(freeze, now, Change::Drop(names))?;
        let superblock = lock(&self.view).0.clone();
        let mut archive = super::load::Loader::new(&*self.device, &superblock, false);
        for epoch in self.epochs() {
            archive.tree(&superblock, epoch.root)?;
        }
        let mut space = lock(&self.space);
        space.archived = archive.marks;
        space.rebuild();
        Ok(written)
    }

    fn snapshot_and(&self, freeze: &dyn Fn() -> Tree, now: i64, change: Change<'_>) -> Result<Written> {
        let mut roots = lock(&self.roots);
        let mut log = lock(&self.log);
        let tree = freeze();
        // The tree must equal the state at a batch's end: later batches are differences against it.
        let full = match log.commit(&*self.device, &self.space, &tree, self.mistake) {
            Ok(_) => false,
            Err(StoreError::LogFull { .. } | StoreError::Full { .. }) => true,
            Err(error) => return Err(error),
        };
        let mut at = log.head();
        if self.mistake == Mistake::LogStartTooLate {
            at.sequence += 1;
        }
        let since_before = {
            let mut space = lock(&self.space);
            let empty = Marks::new(roots.current.blocks);
            std::mem::replace(&mut space.since, empty)
        };
        let held = if full { Some(&mut log) } else { None };
        let guard = held.is_some();
        let mut attempt = Attempt { tree, at, since_before, taken: Vec::new(), exposed: false };
        let result = if guard {
            self.write_snapshot(&mut attempt, &mut roots, now, &change)
        } else {
            if self.mistake == Mistake::LogFreedEarly {
                log.free_to(at.at);
            }
            drop(log);
            let result = self.write_snapshot(&mut attempt, &mut roots, now, &change);
            log = lock(&self.log);
            result
        };
        match result {
            Ok(previous_at) => {
                if guard {
                    log.skip_to(&attempt.tree);
                    log.free_to(at.at);
                } else {
                    log.free_to(previous_at);
                }
                Ok(Written { generation: roots.current.generation, blocks: attempt.taken.len() as u64 })
            }
            Err(error) => {
                self.undo(attempt);
                Err(error)
            }
        }
    }

    /// Gives back what a failed snapshot took, unless its superblock may have reached the disk.
    fn undo(&self, attempt: Attempt) {
        let mut space = lock(&self.space);
        if !attempt.exposed {
            space.give_back(&attempt.taken);
        }
        space.since.add(&attempt.since_before);
    }

    fn write_snapshot(
        &self,
        attempt: &mut Attempt,
        roots: &mut super::Roots,
        now: i64,
        change: &Change<'_>,
    ) -> Result<u64> {
        let mut writer = Writer::new(&*self.device, &self.space);
        let written = writer.tree(&attempt.tree).and_then(|root| {
            let mut list = roots.epochs.clone();
            match change {
                Change::None => {}
                Change::Add(name) => {
                    let generation = roots.current.generation + 1;
                    epochs::add(&mut list, Epoch { name: (*name).to_owned(), time: now, generation, root })?;
                }
                Change::Drop(names) => epochs::remove(&mut list, names)?,
            }
            let archive = if list.is_empty() { Ptr::default() } else { writer.object(&epochs::encode(&list))? };
            Ok((root, archive, list))
        });
        attempt.taken = std::mem::take(&mut writer.taken);
        let saved = std::mem::take(&mut writer.saved);
        let finished = writer.finish();
        if self.mistake == Mistake::FailedSnapshotKept {
            saved.iter().for_each(|(object, ptr)| object.remember(*ptr));
        }
        let (root, archive, epochs) = written?;
        finished?;
        let next = Superblock {
            generation: roots.current.generation + 1,
            time: now,
            root,
            archive,
            log_at: (attempt.at.at % u64::from(roots.current.log_blocks)) as u32,
            log_sequence: attempt.at.sequence,
            log_chain: attempt.at.chain,
            ..roots.current.clone()
        };
        self.write_superblock(attempt, roots.slot, &next)?;
        if self.mistake != Mistake::FailedSnapshotKept {
            saved.iter().for_each(|(object, ptr)| object.remember(*ptr));
        }
        let previous_at = std::mem::replace(&mut roots.log_at, attempt.at.at);
        roots.slot = 1 - roots.slot;
        roots.current = next;
        roots.epochs = epochs;
        *lock(&self.view) = (roots.current.clone(), roots.epochs.clone());
        self.settle(attempt, roots, matches!(change, Change::Add(_)));
        if self.mistake == Mistake::ReuseBeforeSuperblockFlush { Ok(attempt.at.at) } else { Ok(previous_at) }
    }

    /// The commit point: everything the superblock refers to is flushed before it, and it is flushed before anything
    /// that the one before refers to is used again.
    fn write_superblock(&self, attempt: &mut Attempt, slot: u32, next: &Superblock) -> Result<()> {
        if self.mistake != Mistake::SuperblockBeforeData {
            self.device.flush().map_err(StoreError::io("flushing a snapshot"))?;
        }
        attempt.exposed = true;
        let slot = if self.mistake == Mistake::OneSlot { slot } else { 1 - slot };
        let offset = u64::from(slot) * BLOCK as u64;
        self.device.write(offset, &next.encode()).map_err(StoreError::io("writing the superblock"))?;
        if self.mistake == Mistake::ReuseBeforeSuperblockFlush {
            return Ok(());
        }
        self.device.flush().map_err(StoreError::io("flushing the superblock"))
    }

    /// Computes which blocks are in use, now that the new root is durable.
    fn settle(&self, attempt: &Attempt, roots: &super::Roots, archived: bool) {
        let mut current = Marks::new(roots.current.blocks);
        mark(&attempt.tree, &mut current);
        mark_ptr(roots.current.root, &mut current);
        mark_ptr(roots.current.archive, &mut current);
        let mut space = lock(&self.space);
        let mut previous = std::mem::replace(&mut space.current, current);
        previous.add(&attempt.since_before);
        space.previous = previous;
        for block in &attempt.taken {
            space.since.clear(*block);
        }
        if archived {
            let marks = space.current.clone();
            space.archived.add(&marks);
        }
        if matches!(self.mistake, Mistake::LoggedPagesFreed) {
            space.since = Marks::new(roots.current.blocks);
        }
        if self.mistake == Mistake::ReuseBeforeSuperblockFlush {
            space.previous = Marks::new(roots.current.blocks);
        }
        space.rebuild();
    }
}
