// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads trees from the store, and recovers a store: loads the newest complete snapshot, then replays the log.

use super::codec::{self, Malformed, Reader};
use super::device::Device;
use super::log::{Batch, Behind, Log, MAX_PAGES, Position, Record, Ring};
use super::mistake::Mistake;
use super::snapshot::{Value, mark_ptr};
use super::space::{Marks, Space};
use super::superblock::{SLOTS, Superblock};
use super::{BLOCK, Gap, Pages, Ptr, Recovery, Result, Roots, Store, StoreError, checksum, epochs};
use crate::tree::data::Resident;
use crate::tree::inode::{Inode, Xattrs};
use crate::tree::radix::Radix;
use crate::tree::{Body, Data, Entry, Ino, Page, ROOT, Tree};
use std::sync::{Arc, Mutex, OnceLock};

/// Nodes above one another. 64-bit keys, 6 bits a node, need 11 in each of two nested maps.
const MAX_DEPTH: usize = 24;
/// Bytes read at once where objects lie behind one another.
const AHEAD: u64 = 1 << 20;

/// Reads an object and verifies its checksum.
pub fn read_object(device: &dyn Device, ptr: Ptr) -> Result<Vec<u8>> {
    let mut bytes = vec![0; ptr.len as usize];
    device.read(u64::from(ptr.block) * BLOCK as u64, &mut bytes).map_err(StoreError::io("reading blocks"))?;
    if checksum(&bytes) != ptr.sum {
        return Err(StoreError::Damaged { what: "content does not match its checksum", block: ptr.block });
    }
    Ok(bytes)
}

/// Reads trees from a store.
pub struct Loader<'a> {
    device: &'a dyn Device,
    first: u32,
    blocks: u32,
    /// Whether pages are read into memory; otherwise they are fetched when they are used.
    data: bool,
    /// Blocks that the trees read so far take.
    pub marks: Marks,
    /// Bytes read from the device.
    pub bytes_read: u64,
    /// Pages that do not match their checksum: file and page number.
    pub damaged: Vec<(Ino, u64)>,
    window: Vec<u8>,
    window_at: u64,
    depth: usize,
    /// The inode whose content is being read.
    current: Ino,
    /// Whether its pages may stay on disk.
    may_stay: bool,
    /// Length from which on a file's pages may stay on disk.
    pub big: u64,
    /// Bytes of pages that may still be read into memory.
    pub budget: u64,
}

/// A value of a map in the store, as it is read.
pub trait Load: Value {
    /// Takes the value with this key.
    fn load(loader: &mut Loader<'_>, key: u64, from: &mut Reader<'_>) -> Result<Self>;
}

impl Load for Arc<Inode> {
    fn load(loader: &mut Loader<'_>, key: u64, from: &mut Reader<'_>) -> Result<Self> {
        let mut inode = codec::read_attributes(from).map_err(StoreError::malformed(0))?;
        if inode.ino != key {
            return Err(bad("an inode stands under another's number"));
        }
        loader.current = key;
        inode.xattrs = loader.xattrs(from)?.map(Arc::new);
        match &mut inode.body {
            Body::File(data) => {
                // Pages of a large file may stay on disk if there is no memory for them.
                loader.may_stay = data.len >= loader.big;
                *data = Data::new(data.len, loader.data(from)?);
                if data.pages.last_key().is_some_and(|last| last >= MAX_PAGES) {
                    return Err(bad("a page lies beyond the longest file"));
                }
            }
            Body::Dir(dir) => {
                dir.entries = loader.map(from)?;
                dir.count = dir.entries.range(0).count() as u64;
            }
            Body::Symlink(_) | Body::Special => {}
        }
        Ok(Arc::new(inode))
    }
}

impl Load for Entry {
    fn load(_: &mut Loader<'_>, _: u64, from: &mut Reader<'_>) -> Result<Self> {
        codec::read_entry(from).map_err(StoreError::malformed(0))
    }
}

impl Load for Page {
    fn load(loader: &mut Loader<'_>, key: u64, from: &mut Reader<'_>) -> Result<Self> {
        let ptr = from.ptr().map_err(StoreError::malformed(0))?;
        loader.page(key, ptr)
    }
}

fn bad(what: &'static str) -> StoreError {
    StoreError::Malformed { source: Malformed(what), block: 0 }
}

impl<'a> Loader<'a> {
    /// A loader for the store that a superblock describes.
    pub fn new(device: &'a dyn Device, superblock: &Superblock, data: bool) -> Loader<'a> {
        Loader {
            device,
            first: superblock.first_data_block(),
            blocks: superblock.blocks,
            data,
            marks: Marks::new(superblock.blocks),
            bytes_read: 0,
            damaged: Vec::new(),
            window: Vec::new(),
            window_at: 0,
            depth: 0,
            current: 0,
            may_stay: false,
            big: super::big_file(superblock.limit),
            budget: superblock.limit / 4 * 3,
        }
    }

    /// Reads a tree. Its quota is that of the superblock.
    pub fn tree(&mut self, superblock: &Superblock, root: Ptr) -> Result<Tree> {
        let bytes = self.object(root)?;
        let mut from = Reader(&bytes);
        let mut tree = Tree::new(superblock.seed, superblock.limit, 0);
        tree.next_ino = from.u64().map_err(StoreError::malformed(root.block))?;
        tree.inodes = self.map(&mut from)?;
        from.end().map_err(StoreError::malformed(root.block))?;
        tree.recount();
        match tree.inode(ROOT) {
            Ok(Inode { body: Body::Dir(_), .. }) => Ok(tree),
            _ => Err(StoreError::Malformed { source: Malformed("the tree has no root directory"), block: root.block }),
        }
    }

    /// Reads the list of archived epochs.
    pub fn epochs(&mut self, ptr: Ptr) -> Result<Vec<epochs::Epoch>> {
        if ptr.block == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.object(ptr)?;
        epochs::decode(&bytes).map_err(StoreError::malformed(ptr.block))
    }

    fn object(&mut self, ptr: Ptr) -> Result<Vec<u8>> {
        Space::check(self.first, self.blocks, ptr)?;
        mark_ptr(ptr, &mut self.marks);
        let bytes = self.read(ptr)?;
        if checksum(&bytes) != ptr.sum {
            return Err(StoreError::Damaged { what: "metadata does not match its checksum", block: ptr.block });
        }
        Ok(bytes)
    }

    /// Reads with a window that moves ahead: objects written together lie together.
    fn read(&mut self, ptr: Ptr) -> Result<Vec<u8>> {
        let (at, len) = (u64::from(ptr.block) * BLOCK as u64, u64::from(ptr.len));
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + len > window_end {
            let near = at >= self.window_at && at < window_end + AHEAD;
            let store_end = u64::from(self.blocks) * BLOCK as u64;
            let want = len.max(if near { AHEAD } else { 4 * BLOCK as u64 }).min(store_end - at);
            self.window.resize(want as usize, 0);
            self.window_at = at;
            self.bytes_read += want;
            if let Err(source) = self.device.read(at, &mut self.window) {
                self.window.clear();
                return Err(StoreError::Io { what: "reading blocks", source });
            }
        }
        let start = (at - self.window_at) as usize;
        Ok(self.window[start..start + len as usize].to_vec())
    }

    fn page(&mut self, index: u64, ptr: Ptr) -> Result<Page> {
        Space::check(self.first, self.blocks, ptr)?;
        if ptr.len as usize > BLOCK {
            return Err(bad("a page is too long"));
        }
        mark_ptr(ptr, &mut self.marks);
        if !self.data || self.may_stay && self.budget < BLOCK as u64 {
            return Ok(Page::Disk(ptr));
        }
        self.budget = self.budget.saturating_sub(BLOCK as u64);
        match self.read(ptr) {
            Ok(bytes) if checksum(&bytes) == ptr.sum => {
                Ok(Page::Memory(Arc::new(Resident { saved: OnceLock::from(ptr), bytes })))
            }
            _ => {
                self.damaged.push((self.current, index));
                Ok(Page::Disk(ptr))
            }
        }
    }

    fn map<V: Load>(&mut self, from: &mut Reader<'_>) -> Result<Radix<V>> {
        let tag = from.u8().map_err(StoreError::malformed(0))?;
        self.slot(tag, from)
    }

    fn slot<V: Load>(&mut self, tag: u8, from: &mut Reader<'_>) -> Result<Radix<V>> {
        match tag {
            0 => Ok(Radix::default()),
            1 => {
                let key = from.u64().map_err(StoreError::malformed(0))?;
                Ok(Radix::leaf(key, V::load(self, key, from)?))
            }
            2 => {
                let ptr = from.ptr().map_err(StoreError::malformed(0))?;
                self.node(ptr)
            }
            3 => self.nested(|loader| loader.children(from)),
            _ => Err(bad("a map has an unknown form")),
        }
    }

    fn children<V: Load>(&mut self, from: &mut Reader<'_>) -> Result<Radix<V>> {
        let count = from.u8().map_err(StoreError::malformed(0))?;
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(self.map(from)?);
        }
        Radix::assemble(parts).ok_or_else(|| bad("keys are out of order"))
    }

    /// Reads what is one level further down.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(bad("maps are nested too deeply"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn node<V: Load>(&mut self, ptr: Ptr) -> Result<Radix<V>> {
        self.nested(|loader| {
            let bytes = loader.object(ptr)?;
            let mut from = Reader(&bytes);
            if from.u8().map_err(StoreError::malformed(ptr.block))? != V::KIND {
                return Err(StoreError::Malformed { source: Malformed("a node has another kind"), block: ptr.block });
            }
            let map = loader.children(&mut from)?;
            from.end().map_err(StoreError::malformed(ptr.block))?;
            map.mark_saved(ptr);
            Ok(map)
        })
    }

    fn data(&mut self, from: &mut Reader<'_>) -> Result<Radix<Page>> {
        match from.u8().map_err(StoreError::malformed(0))? {
            4 => {
                let bytes = from.bytes().map_err(StoreError::malformed(0))?;
                if bytes.len() > BLOCK {
                    return Err(bad("a page is too long"));
                }
                Ok(Radix::leaf(0, Page::new(bytes.to_vec())))
            }
            tag => self.slot(tag, from),
        }
    }

    fn xattrs(&mut self, from: &mut Reader<'_>) -> Result<Option<Xattrs>> {
        match from.u8().map_err(StoreError::malformed(0))? {
            0 => Ok(None),
            1 => {
                let bytes = from.bytes().map_err(StoreError::malformed(0))?;
                codec::xattrs_from(bytes).map(Some).map_err(StoreError::malformed(0))
            }
            2 => {
                let ptr = from.ptr().map_err(StoreError::malformed(0))?;
                let bytes = self.object(ptr)?;
                let mut xattrs = codec::xattrs_from(&bytes).map_err(StoreError::malformed(ptr.block))?;
                xattrs.saved = OnceLock::from(ptr);
                Ok(Some(xattrs))
            }
            _ => Err(bad("extended attributes have an unknown form")),
        }
    }

    /// Reads the pages that a batch holds outside the log; the flag tells whether all match their checksums.
    fn batch_pages(&mut self, batch: &Batch) -> Result<(Vec<Page>, bool)> {
        let damaged = self.damaged.len();
        let mut pages = Vec::new();
        for record in &batch.records {
            if let Record::At(ino, index, ptr) = record {
                (self.current, self.may_stay) = (*ino, false);
                // Read the page even if it is not kept: its checksum shows whether the batch is complete.
                let page = self.page(*index, *ptr)?;
                pages.push(if self.budget < BLOCK as u64 { Page::Disk(*ptr) } else { page });
            }
        }
        Ok((pages, self.damaged.len() == damaged))
    }
}

/// Applies a batch. `pages` are those that the batch holds outside the log, in its order.
pub(crate) fn apply(tree: &mut Tree, next_ino: Ino, records: Vec<Record>, pages: Vec<Page>) -> Result<()> {
    let mut pages = pages.into_iter();
    tree.next_ino = next_ino;
    for record in records {
        let done = match record {
            Record::Inode(inode, replaces) => apply_inode(tree, *inode, replaces),
            Record::Gone(ino) => tree.inodes.remove(ino).map(drop),
            Record::Enter(dir, cookie, entry) => with_body(tree, dir, |body| match body {
                Body::Dir(dir) => {
                    dir.count += u64::from(dir.entries.insert(cookie, entry).is_none());
                    Some(())
                }
                _ => None,
            }),
            Record::Leave(dir, cookie) => with_body(tree, dir, |body| match body {
                Body::Dir(dir) => dir.entries.remove(cookie).map(|_| dir.count -= 1),
                _ => None,
            }),
            Record::Bytes(ino, index, bytes) => set_page(tree, ino, index, Some(Page::new(bytes))),
            Record::At(ino, index, _) => pages.next().and_then(|page| set_page(tree, ino, index, Some(page))),
            Record::Hole(ino, index) => set_page(tree, ino, index, None),
        };
        done.ok_or_else(|| bad("a log record does not fit the tree"))?;
    }
    Ok(())
}

fn with_body(tree: &mut Tree, ino: Ino, change: impl FnOnce(&mut Body) -> Option<()>) -> Option<()> {
    change(&mut Arc::make_mut(tree.inodes.get_mut(ino)?).body)
}

fn set_page(tree: &mut Tree, ino: Ino, index: u64, page: Option<Page>) -> Option<()> {
    with_body(tree, ino, |body| {
        let Body::File(data) = body else { return None };
        data.set(index, page);
        Some(())
    })
}

fn apply_inode(tree: &mut Tree, mut inode: Inode, replaces: bool) -> Option<()> {
    if let Some(old) = tree.inodes.get(inode.ino) {
        if old.kind() != inode.kind() {
            return None;
        }
        if !replaces {
            inode.xattrs = old.xattrs.clone();
        }
        match (&mut inode.body, &old.body) {
            (Body::File(new), Body::File(old)) => *new = old.with_len(new.len),
            (Body::Dir(new), Body::Dir(old)) => (new.entries, new.count) = (old.entries.clone(), old.count),
            _ => {}
        }
    }
    tree.inodes.insert(inode.ino, Arc::new(inode));
    Some(())
}

/// A store that was read, before anything is written to it.
pub(crate) struct Restored {
    pub superblock: Superblock,
    pub slot: u32,
    pub tree: Tree,
    pub epochs: Vec<epochs::Epoch>,
    pub head: Position,
    pub current: Marks,
    pub since: Marks,
    pub archived: Marks,
    pub recovery: Recovery,
}

/// Reads the superblocks: for each slot the content or what is wrong with it.
pub(crate) fn superblocks(device: &dyn Device) -> Result<[std::result::Result<Superblock, Malformed>; 2]> {
    let read = |slot: u64| {
        let mut block = vec![0; BLOCK];
        if device.len() < (slot + 1) * BLOCK as u64 {
            return Ok(Err(Malformed("the file is too short")));
        }
        device.read(slot * BLOCK as u64, &mut block).map_err(StoreError::io("reading a superblock"))?;
        Ok(Superblock::decode(&block, device.len()))
    };
    Ok([read(0)?, read(1)?])
}

/// Whether a superblock's slot was never written.
pub(crate) fn is_empty(device: &dyn Device, slot: usize) -> bool {
    let mut block = vec![0; BLOCK];
    device.read((slot * BLOCK) as u64, &mut block).is_ok() && block.iter().all(|byte| *byte == 0)
}

/// Reads the newest whole state. Where a batch in the middle of the log is damaged, this is the state before it, or an
/// error unless `gaps` are accepted.
pub(crate) fn restore(device: &dyn Device, mistake: Mistake, gaps: bool) -> Result<Restored> {
    let mut candidates: Vec<(u32, Superblock)> = Vec::new();
    let mut reasons = Vec::new();
    for (slot, superblock) in superblocks(device)?.into_iter().enumerate() {
        match superblock {
            Ok(superblock) => candidates.push((slot as u32, superblock)),
            Err(error) => reasons.push((slot, error.to_string())),
        }
    }
    // A new store has one superblock; the other slot is empty.
    let unreadable = reasons.iter().any(|(slot, _)| !is_empty(device, *slot));
    candidates.sort_by_key(|(_, superblock)| std::cmp::Reverse(superblock.generation));
    let newest = candidates.first().map(|(_, superblock)| superblock.generation);
    let (mut failure, mut before_gap) = (None, None);
    for (slot, superblock) in candidates {
        let generation = superblock.generation;
        match restore_from(device, slot, superblock, mistake) {
            Ok(mut restored) => {
                restored.recovery.fallback = Some(generation) != newest;
                restored.recovery.unreadable_superblock = unreadable;
                // Superblocks written from now on need a generation above all existing ones.
                restored.superblock.generation = newest.unwrap_or(generation);
                match restored.recovery.gap.clone() {
                    None => return Ok(restored),
                    // The log of the older superblock has the same gap or an earlier one, unless it is of use at all.
                    Some(gap) => {
                        failure = failure.or(Some(StoreError::Gap(Box::new(gap))));
                        before_gap = before_gap.or(Some(restored));
                    }
                }
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(restored) = before_gap
        && gaps
    {
        return Ok(restored);
    }
    let reason = |slot: usize| {
        reasons.iter().find(|(of, _)| *of == slot).map_or_else(|| "unusable".to_owned(), |(_, text)| text.clone())
    };
    Err(failure.unwrap_or_else(|| StoreError::NoSuperblock { first: reason(0), second: reason(1) }))
}

fn restore_from(device: &dyn Device, slot: u32, superblock: Superblock, mistake: Mistake) -> Result<Restored> {
    let mut loader = Loader::new(device, &superblock, true);
    let mut tree = loader.tree(&superblock, superblock.root)?;
    let epochs = loader.epochs(superblock.archive)?;
    let current = std::mem::replace(&mut loader.marks, Marks::new(superblock.blocks));
    let mut recovery = Recovery { generation: superblock.generation, ..Recovery::default() };
    let head = replay(&mut loader, &mut tree, &superblock, &mut recovery, mistake)?;
    let since = std::mem::replace(&mut loader.marks, Marks::new(superblock.blocks));
    for orphan in tree.orphans() {
        tree.inodes.remove(orphan);
        recovery.orphans += 1;
    }
    tree.recount();
    recovery.bytes_read = loader.bytes_read;
    recovery.damaged_pages = loader.damaged.len() as u64;
    let mut files: Vec<Ino> = loader.damaged.iter().map(|(ino, _)| *ino).collect();
    files.dedup();
    recovery.damaged_files =
        files.iter().map(|ino| tree.path_of(*ino).unwrap_or_else(|| format!("inode {ino}"))).collect();
    let mut archive = Loader::new(device, &superblock, false);
    for epoch in &epochs {
        archive.tree(&superblock, epoch.root)?;
    }
    Ok(Restored { slot, tree, epochs, head, current, since, archived: archive.marks, recovery, superblock })
}

fn replay(
    loader: &mut Loader<'_>,
    tree: &mut Tree,
    superblock: &Superblock,
    recovery: &mut Recovery,
    mistake: Mistake,
) -> Result<Position> {
    let start = u64::from(superblock.log_at);
    let mut head = Position { at: start, sequence: superblock.log_sequence, chain: superblock.log_chain };
    let ring = Ring { device: loader.device, blocks: superblock.log_blocks, key: superblock.log_key };
    while let Some(batch) = ring.batch(head, mistake)? {
        if batch.next.at - start > u64::from(ring.blocks) {
            break;
        }
        let known = loader.damaged.len();
        let (pages, whole) = loader.batch_pages(&batch)?;
        let next = batch.next;
        if !whole && mistake != Mistake::PagesUnverified && ring.batch(next, mistake)?.is_none() {
            // The last batch was not flushed when the machine stopped, so it was not acknowledged.
            loader.damaged.truncate(known);
            recovery.torn_tail = true;
            return Ok(head);
        }
        apply(tree, batch.next_ino, batch.records, pages)?;
        recovery.batches += 1;
        head = next;
    }
    match ring.behind(head)? {
        Behind::Nothing => {}
        Behind::Torn => recovery.torn_tail = true,
        Behind::Later(later) => {
            let block = SLOTS + (head.at % u64::from(ring.blocks)) as u32;
            let name = |ino: &Ino| tree.path_of(*ino).unwrap_or_else(|| format!("inode {ino}"));
            let files = later.touched.iter().map(name).collect();
            recovery.gap = Some(Gap { damaged: head.sequence, block, last: later.last, files });
            // The numbers of the batches that are given up must not count as later than those written from now on.
            head.sequence = later.last.saturating_add(1);
        }
    }
    Ok(head)
}

impl Store {
    /// Opens a store and recovers its tree: the newest whole snapshot and the log behind it. Nothing is written.
    pub fn open(device: Arc<dyn Device>) -> Result<(Store, Tree, Recovery)> {
        Store::open_with(device, Mistake::None)
    }

    /// [`open`](Self::open), but where a batch in the middle of the log is damaged, opens the state before it;
    /// [`Recovery::gap`] tells what is given up.
    pub fn open_before_gap(device: Arc<dyn Device>) -> Result<(Store, Tree, Recovery)> {
        let restored = restore(&*device, Mistake::None, true)?;
        Ok(Store::from_restored(device, restored, Mistake::None))
    }

    /// [`open`](Self::open) with a deliberate mistake, for tests.
    pub fn open_with(device: Arc<dyn Device>, mistake: Mistake) -> Result<(Store, Tree, Recovery)> {
        let restored = restore(&*device, mistake, false)?;
        Ok(Store::from_restored(device, restored, mistake))
    }

    fn from_restored(device: Arc<dyn Device>, restored: Restored, mistake: Mistake) -> (Store, Tree, Recovery) {
        let superblock = restored.superblock;
        let mut space = Space::new(superblock.first_data_block(), superblock.blocks);
        (space.current, space.since, space.archived) = (restored.current, restored.since, restored.archived);
        space.rebuild();
        let mut tree = restored.tree;
        tree.fetch = Arc::new(Pages(device.clone()));
        let tail = u64::from(superblock.log_at);
        let view = Mutex::new((superblock.clone(), restored.epochs.clone()));
        let log = Log::new(superblock.log_blocks, superblock.log_key, restored.head, tail, tree.freeze());
        let roots = Roots { slot: restored.slot, epochs: restored.epochs, log_at: tail, current: superblock };
        let store =
            Store { device, mistake, view, roots: Mutex::new(roots), log: Mutex::new(log), space: Mutex::new(space) };
        (store, tree, restored.recovery)
    }
}

impl Store {
    /// The archived epochs, oldest first.
    pub fn epochs(&self) -> Vec<epochs::Epoch> {
        super::lock(&self.view).1.clone()
    }

    /// Loads the metadata of an archived epoch. Pages are read when they are used.
    pub fn load_epoch(&self, epoch: &epochs::Epoch) -> Result<Tree> {
        let superblock = super::lock(&self.view).0.clone();
        let mut tree = Loader::new(&*self.device, &superblock, false).tree(&superblock, epoch.root)?;
        tree.fetch = Arc::new(Pages(self.device.clone()));
        Ok(tree)
    }
}
