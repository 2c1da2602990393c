// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log: batches of changes in a ring of blocks. A batch is the difference between two frozen trees; it is replayed
//! whole or not at all.

use super::codec::{self, Malformed, Reader, Writer};
use super::device::Device;
use super::mistake::Mistake;
use super::snapshot::Runs;
use super::space::Space;
use super::superblock::SLOTS;
use super::{BLOCK, Ptr, Result, StoreError, checksum, lock};
use crate::tree::data::Resident;
use crate::tree::inode::{Inode, Xattrs};
use crate::tree::radix::diff;
use crate::tree::{Body, Entry, Ino, Page, Tree};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// First bytes of a batch.
const MAGIC: u64 = 0x6b6f_6f62_676f_6c78;
/// Bytes of a batch before its payload: magic, sequence number, chain, length, checksum.
const HEADER: usize = 40;
/// Pages that a batch holds in itself. If there are more, all of them go to blocks of their own and the batch refers to
/// them: they are then written once, not again by the next snapshot.
const INLINE_PAGES: usize = 256;

/// Pages of the longest file.
pub const MAX_PAGES: u64 = crate::tree::data::MAX_LEN / BLOCK as u64;

/// A change in a batch.
pub enum Record {
    /// An inode is new, or its attributes changed. The flag tells whether the extended attributes in it replace the
    /// old.
    Inode(Box<Inode>, bool),
    /// An inode was removed.
    Gone(Ino),
    /// A directory entry is new or changed: directory, cookie, entry.
    Enter(Ino, u64, Entry),
    /// A directory entry was removed.
    Leave(Ino, u64),
    /// New content of a page: file, page number, bytes.
    Bytes(Ino, u64, Vec<u8>),
    /// New content of a page, in blocks of its own.
    At(Ino, u64, Ptr),
    /// A page became a hole.
    Hole(Ino, u64),
}

impl Record {
    /// The inode that the record changes.
    pub fn ino(&self) -> Ino {
        match self {
            Record::Inode(inode, _) => inode.ino,
            Record::Gone(ino)
            | Record::Enter(ino, ..)
            | Record::Leave(ino, _)
            | Record::Bytes(ino, ..)
            | Record::At(ino, ..)
            | Record::Hole(ino, _) => *ino,
        }
    }
}

/// Where the next batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Blocks since the store was opened, so that positions only grow; `at % blocks` is the place in the ring.
    pub at: u64,
    /// Sequence number of the next batch.
    pub sequence: u64,
    /// Chain value that the next batch continues: the checksum of the batch before.
    pub chain: u64,
}

/// The log of an open store.
pub struct Log {
    blocks: u32,
    head: Position,
    /// First block that recovery may still need.
    tail: u64,
    /// The tree as recovery would restore it.
    logged: Tree,
    /// Key of the checksums of batches.
    key: u64,
    /// Whether a batch is known to have changes that no other batch follows.
    unconfirmed: bool,
    /// Pages that a batch may hold in itself.
    pub inline_pages: usize,
}

/// A batch read back.
pub struct Batch {
    /// Next inode number after the batch.
    pub next_ino: Ino,
    /// Changes that the batch makes.
    pub records: Vec<Record>,
    /// Where the batch behind it begins.
    pub next: Position,
}

/// A batch ready to be written.
struct Draft {
    payload: Writer,
    /// Pages placed outside the log.
    placed: Vec<(Arc<Resident>, Ptr)>,
}

impl Log {
    /// A log whose next batch goes to `head`, behind the state `logged`.
    pub fn new(blocks: u32, key: u64, head: Position, tail: u64, logged: Tree) -> Log {
        Log { blocks, head, tail, logged, key, unconfirmed: false, inline_pages: INLINE_PAGES }
    }

    /// Blocks that recovery may need.
    pub fn used(&self) -> u64 {
        self.head.at - self.tail
    }

    /// Blocks in the ring.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Sequence number of the next batch.
    pub fn sequence(&self) -> u64 {
        self.head.sequence
    }

    /// Where the next batch goes.
    pub fn head(&self) -> Position {
        self.head
    }

    /// Frees everything before a position.
    pub fn free_to(&mut self, tail: u64) {
        self.tail = self.tail.max(tail);
    }

    /// Notes that a snapshot made `tree` durable without the log.
    pub fn skip_to(&mut self, tree: &Tree) {
        self.logged = tree.freeze();
    }

    /// See [`Store::commit`](super::Store::commit).
    pub fn commit(&mut self, device: &dyn Device, space: &Mutex<Space>, tree: &Tree, mistake: Mistake) -> Result<u64> {
        let Some(draft) = draft(device, space, (&self.logged, tree), self.inline_pages, mistake)? else {
            // No file has changed, but pages may have been evicted, and the older copy must not keep them in memory.
            self.logged = tree.freeze();
            return Ok(0);
        };
        let batch = seal(&draft.payload.0, self.head, self.key);
        let count = (batch.len() / BLOCK) as u64;
        let free = u64::from(self.blocks) - self.used();
        if count > free {
            give_back(space, &draft.placed);
            return Err(StoreError::LogFull { wanted: count, free });
        }
        let start = if mistake == Mistake::BatchSharesBlock && self.head.at > self.tail {
            self.head.at - 1
        } else {
            self.head.at
        };
        let written = write_ring(device, self.blocks, start, &batch)
            .and_then(|()| if mistake == Mistake::AcknowledgeBeforeFlush { Ok(()) } else { device.flush() });
        if let Err(source) = written {
            if mistake == Mistake::FailedCommitForgotten {
                self.logged = tree.freeze();
            }
            give_back(space, &draft.placed);
            return Err(StoreError::Io { what: "writing the log", source });
        }
        for (resident, ptr) in draft.placed {
            let _ = resident.saved.set(ptr);
        }
        self.advance(start + count, &batch);
        self.unconfirmed = true;
        self.logged = tree.freeze();
        Ok(count)
    }

    fn advance(&mut self, at: u64, batch: &[u8]) {
        let sum = Reader(&batch[32..]).u64().unwrap_or_default();
        self.head = Position { at, sequence: self.head.sequence + 1, chain: sum };
    }

    /// See [`Store::confirm`](super::Store::confirm).
    pub fn confirm(&mut self, device: &dyn Device) -> Result<()> {
        if !self.unconfirmed || self.used() >= u64::from(self.blocks) {
            return Ok(());
        }
        let mut payload = Writer::default();
        payload.u64(self.logged.next_ino);
        let batch = seal(&payload.0, self.head, self.key);
        write_ring(device, self.blocks, self.head.at, &batch)
            .and_then(|()| device.flush())
            .map_err(StoreError::io("writing the log"))?;
        self.advance(self.head.at + 1, &batch);
        self.unconfirmed = false;
        Ok(())
    }
}

fn give_back(space: &Mutex<Space>, placed: &[(Arc<Resident>, Ptr)]) {
    let blocks: Vec<u32> = placed.iter().map(|(_, ptr)| ptr.block).collect();
    lock(space).give_back(&blocks);
}

/// Collects the changes from `old` to `new`; `None` if there are none.
fn draft(
    device: &dyn Device,
    space: &Mutex<Space>,
    (old, new): (&Tree, &Tree),
    inline_pages: usize,
    mistake: Mistake,
) -> Result<Option<Draft>> {
    let mut out = Writer::default();
    out.u64(new.next_ino);
    let empty = out.0.len();
    let mut pages = Vec::new();
    for (ino, before, after) in diff(&old.inodes, &new.inodes, &|a, b| Arc::ptr_eq(a, b)) {
        match after {
            None => {
                out.u8(2);
                out.u64(ino);
            }
            Some(inode) => write_inode(&mut out, before.map(|inode| &**inode), inode, &mut pages, mistake),
        }
    }
    let fresh = pages.iter().filter(|(_, _, page)| page.is_some_and(|page| page.ptr().is_none())).count();
    let mut draft = Draft { payload: out, placed: Vec::new() };
    let mut runs = (fresh > inline_pages).then(|| Runs::new(device));
    for (ino, index, page) in pages {
        let written = write_page(&mut draft, space, runs.as_mut(), ino, index, page, mistake);
        if let Err(error) = written {
            give_back(space, &draft.placed);
            return Err(error);
        }
    }
    if let Some(runs) = runs
        && let Err(error) = runs.finish()
    {
        give_back(space, &draft.placed);
        return Err(error);
    }
    // A new next inode number counts as a change, so that no number is used twice.
    Ok((draft.payload.0.len() > empty || old.next_ino != new.next_ino).then_some(draft))
}

/// A changed page: file, page number, new page; a hole has none.
pub(crate) type Changed<'a> = (Ino, u64, Option<&'a Page>);

/// Appends the changes of an inode, its pages excepted: they are added to `pages`.
pub(crate) fn write_inode<'a>(
    out: &mut Writer,
    before: Option<&'a Inode>,
    inode: &'a Inode,
    pages: &mut Vec<Changed<'a>>,
    mistake: Mistake,
) {
    let old = before.and_then(|inode| inode.xattrs.as_ref());
    let new_xattrs = match (old, &inode.xattrs) {
        (None, None) => false,
        (Some(a), Some(b)) => !Arc::ptr_eq(a, b),
        _ => true,
    };
    out.u8(1);
    codec::write_attributes(out, inode);
    out.u8(u8::from(new_xattrs));
    if new_xattrs {
        out.bytes(
            &inode.xattrs.as_deref().map(codec::xattr_bytes).unwrap_or_else(|| codec::xattr_bytes(&Xattrs::default())),
        );
    }
    match (&inode.body, before.map(|inode| &inode.body)) {
        (Body::File(data), Some(Body::File(old))) => {
            pages.extend(data.changes(old).into_iter().map(|(index, page)| (inode.ino, index, page)));
        }
        (Body::File(data), _) => pages.extend(data.pages.range(0).map(|(index, page)| (inode.ino, index, Some(page)))),
        (Body::Dir(dir), before) => {
            let none = Default::default();
            let old = if let Some(Body::Dir(old)) = before { &old.entries } else { &none };
            for (cookie, _, entry) in diff(old, &dir.entries, &|a, b| a == b) {
                match entry {
                    Some(_) if mistake == Mistake::PathNotLogged => {}
                    None if mistake == Mistake::RemovalsNotLogged => {}
                    Some(entry) => {
                        out.u8(3);
                        out.u64(inode.ino);
                        out.u64(cookie);
                        codec::write_entry(out, entry);
                    }
                    None => {
                        out.u8(4);
                        out.u64(inode.ino);
                        out.u64(cookie);
                    }
                }
            }
        }
        _ => {}
    }
}

fn write_page(
    draft: &mut Draft,
    space: &Mutex<Space>,
    runs: Option<&mut Runs<'_>>,
    ino: Ino,
    index: u64,
    page: Option<&Page>,
    mistake: Mistake,
) -> Result<()> {
    let (kind, place) = match (page, page.and_then(Page::ptr)) {
        (None, _) if mistake == Mistake::HolesNotLogged => return Ok(()),
        (None, _) => (7, None),
        (Some(_), Some(ptr)) => (6, Some(ptr)),
        (Some(Page::Memory(resident)), None) if runs.is_some() => {
            let block = take(space, 1)?;
            let ptr = Ptr { block, len: resident.bytes.len() as u32, sum: checksum(&resident.bytes) };
            draft.placed.push((resident.clone(), ptr));
            if let Some(runs) = runs {
                runs.write(block, &resident.bytes)?;
            }
            (6, Some(ptr))
        }
        (Some(_), None) => (5, None),
    };
    let out = &mut draft.payload;
    out.u8(kind);
    out.u64(ino);
    out.u64(index);
    match (place, page) {
        (Some(ptr), _) => out.ptr(ptr),
        (None, Some(Page::Memory(resident))) => out.bytes(&resident.bytes),
        _ => {}
    }
    Ok(())
}

/// Takes adjacent blocks or fails with [`StoreError::Full`].
pub fn take(space: &Mutex<Space>, count: u32) -> Result<u32> {
    let mut space = lock(space);
    space.take(count).ok_or_else(|| StoreError::Full { wanted: count, free: space.free() })
}

/// A batch as it is written: header, payload, zeroes to the end of the block.
pub fn seal(payload: &[u8], head: Position, key: u64) -> Vec<u8> {
    let mut out = Writer::default();
    out.0.reserve(HEADER + payload.len() + BLOCK);
    out.u64(MAGIC);
    out.u64(head.sequence);
    out.u64(head.chain);
    out.u64(payload.len() as u64);
    let sum = batch_sum(&out.0, payload, key);
    out.u64(sum);
    out.0.extend_from_slice(payload);
    let padded = out.0.len().next_multiple_of(BLOCK);
    out.0.resize(padded, 0);
    out.0
}

/// Checksum of a batch. Blocks of the log also hold bytes of users: without the key, these could pose as a batch.
fn batch_sum(header: &[u8], payload: &[u8], key: u64) -> u64 {
    xxh3_64_with_seed(payload, checksum(header) ^ key)
}

fn place(blocks: u32, at: u64) -> u64 {
    (u64::from(SLOTS) + at % u64::from(blocks)) * BLOCK as u64
}

fn write_ring(device: &dyn Device, blocks: u32, at: u64, bytes: &[u8]) -> std::io::Result<()> {
    let until_end = ((u64::from(blocks) - at % u64::from(blocks)) as usize * BLOCK).min(bytes.len());
    let (head, rest) = bytes.split_at(until_end);
    device.write(place(blocks, at), head)?;
    if rest.is_empty() { Ok(()) } else { device.write(place(blocks, 0), rest) }
}

/// The blocks of the log, for reading.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    /// The store.
    pub device: &'a dyn Device,
    /// Blocks of the log.
    pub blocks: u32,
    /// Key of the checksums of batches.
    pub key: u64,
}

impl Ring<'_> {
    fn read(&self, at: u64, count: u64) -> Result<Vec<u8>> {
        let blocks = u64::from(self.blocks);
        let mut out = vec![0; count as usize * BLOCK];
        let first = (blocks - at % blocks).min(count) as usize * BLOCK;
        let failed = StoreError::io("reading the log");
        self.device
            .read(place(self.blocks, at), &mut out[..first])
            .and_then(|()| {
                if first < out.len() { self.device.read(place(self.blocks, 0), &mut out[first..]) } else { Ok(()) }
            })
            .map_err(failed)?;
        Ok(out)
    }

    /// Reads the batch at `head`; `None` if there is no valid batch.
    ///
    /// # Errors
    /// The device fails, or a batch with a right checksum is malformed.
    pub fn batch(&self, head: Position, mistake: Mistake) -> Result<Option<Batch>> {
        let blocks = u64::from(self.blocks);
        let block = SLOTS + (head.at % blocks) as u32;
        let first = self.read(head.at, 1)?;
        let mut from = Reader(&first);
        let mut next = || from.u64().map_err(StoreError::malformed(block));
        let (magic, sequence, chain, len, sum) = (next()?, next()?, next()?, next()?, next()?);
        let unchained = chain != head.chain && mistake != Mistake::ChainUnverified;
        if magic != MAGIC || sequence != head.sequence || unchained || len > blocks * BLOCK as u64 {
            return Ok(None);
        }
        let count = (HEADER as u64 + len).div_ceil(BLOCK as u64);
        if count > blocks {
            return Ok(None);
        }
        let bytes = self.read(head.at, count)?;
        let payload = &bytes[HEADER..HEADER + len as usize];
        if batch_sum(&bytes[..32], payload, self.key) != sum && mistake != Mistake::BatchUnverified {
            return Ok(None);
        }
        let next = Position { at: head.at + count, sequence: sequence.saturating_add(1), chain: sum };
        let (next_ino, records) = match parse(payload) {
            Err(_) if mistake == Mistake::BatchUnverified => return Ok(None),
            other => other.map_err(StoreError::malformed(block))?,
        };
        Ok(Some(Batch { next_ino, records, next }))
    }

    /// Looks for traces of batches behind `head`. A batch is written only after the one before is flushed, so a whole
    /// later one proves that the one at `head` was whole once.
    pub fn behind(&self, head: Position) -> Result<Behind> {
        let (mut torn, mut later) = (false, Later { last: 0, touched: BTreeSet::new() });
        let mut chunk = vec![0; 256 * BLOCK];
        let mut at = 0;
        while at < self.blocks {
            let count = (self.blocks - at).min(256);
            let bytes = &mut chunk[..count as usize * BLOCK];
            self.device.read(place(self.blocks, u64::from(at)), bytes).map_err(StoreError::io("reading the log"))?;
            for (index, block) in bytes.chunks_exact(BLOCK).enumerate() {
                let ring = at + index as u32;
                let mut from = Reader(block);
                let mut next = || from.u64().unwrap_or_default();
                let (magic, sequence, chain) = (next(), next(), next());
                if magic != MAGIC {
                    continue;
                }
                torn |= sequence == head.sequence && chain == head.chain;
                // The position in the ring does not matter for reading a single batch.
                let there = Position { at: u64::from(ring), sequence, chain };
                if sequence > head.sequence
                    && let Some(batch) = self.batch(there, Mistake::None)?
                {
                    later.last = later.last.max(sequence);
                    later.touched.extend(batch.records.iter().map(Record::ino));
                }
            }
            at += count;
        }
        Ok(match (later.last, torn) {
            (0, false) => Behind::Nothing,
            (0, true) => Behind::Torn,
            _ => Behind::Later(later),
        })
    }
}

/// Parses the payload of a batch.
pub fn parse(payload: &[u8]) -> std::result::Result<(Ino, Vec<Record>), Malformed> {
    let mut from = Reader(payload);
    let next_ino = from.u64()?;
    let page = |from: &mut Reader<'_>| -> std::result::Result<(Ino, u64), Malformed> {
        let (ino, index) = (from.u64()?, from.u64()?);
        if index >= MAX_PAGES { Err(Malformed("a page lies beyond the longest file")) } else { Ok((ino, index)) }
    };
    let mut records = Vec::new();
    while !from.0.is_empty() {
        records.push(match from.u8()? {
            1 => {
                let mut inode = codec::read_attributes(&mut from)?;
                let replaces = from.u8()? == 1;
                if replaces {
                    let xattrs = codec::xattrs_from(from.bytes()?)?;
                    inode.xattrs = (!xattrs.map.is_empty()).then(|| Arc::new(xattrs));
                }
                Record::Inode(Box::new(inode), replaces)
            }
            2 => Record::Gone(from.u64()?),
            3 => Record::Enter(from.u64()?, from.u64()?, codec::read_entry(&mut from)?),
            4 => Record::Leave(from.u64()?, from.u64()?),
            5 => {
                let ((ino, index), bytes) = (page(&mut from)?, from.bytes()?);
                if bytes.len() > BLOCK {
                    return Err(Malformed("a page is too long"));
                }
                Record::Bytes(ino, index, bytes.to_vec())
            }
            6 => {
                let (ino, index) = page(&mut from)?;
                Record::At(ino, index, from.ptr()?)
            }
            7 => {
                let (ino, index) = page(&mut from)?;
                Record::Hole(ino, index)
            }
            _ => return Err(Malformed("a log record has an unknown type")),
        });
    }
    Ok((next_ino, records))
}

/// What lies behind the last batch that can be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing that belongs there.
    Nothing,
    /// The beginning of the next batch, which is not whole: a crash came before it was flushed.
    Torn,
    /// Whole later batches: one that was acknowledged is missing.
    Later(Later),
}

/// Whole batches behind a damaged one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Later {
    /// The greatest sequence number.
    pub last: u64,
    /// Inodes that the batches change.
    pub touched: BTreeSet<Ino>,
}
