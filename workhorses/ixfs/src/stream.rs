// SPDX-License-Identifier: MIT OR Apache-2.0
//! Archived epochs as a stream of bytes: whole, or as the difference from an older epoch.
//!
//! An epoch is immutable, so it can be read from the store while a server continues to write. The stream is a header
//! and frames; each frame holds records of the log's format and a checksum that continues the one before, so that a
//! missing, damaged or foreign frame is noticed. `FORMAT.md` has the details.

use crate::store::codec::{Malformed, Reader, Writer};
use crate::store::device::Device;
use crate::store::epochs::Epoch;
use crate::store::load::{Loader, apply};
use crate::store::log::{Changed, parse, write_inode};
use crate::store::mistake::Mistake;
use crate::store::superblock::Superblock;
use crate::store::{Pages, Ptr, StoreError, checksum, load};
use crate::tree::radix::diff;
use crate::tree::{Body, Inode, Page, Tree};
use std::io::{self, Read, Write};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// First bytes of a stream.
const MAGIC: &[u8; 8] = b"ixepoch1";
/// A frame is closed when it has this many bytes.
const FRAME: usize = 1 << 20;
/// Longest frame that a reader accepts: a frame's last record may hold extended attributes.
const MAX_FRAME: u64 = 8 << 20;

/// Why a stream cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The stream's other end failed.
    #[error("stream: {0}")]
    Io(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream is damaged or not one.
    #[error("stream: frame {frame}: {what}: expected the bytes that `ixfs archive --export` wrote")]
    Damaged {
        /// Number of the frame, from 1; 0 is the header.
        frame: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The epoch that a difference starts from is not in the store.
    #[error("the stream is a difference from epoch {0}, which the store does not have: import that one first")]
    NoBase(String),
    /// An epoch does not exist.
    #[error("no epoch {0}: `ixfs archive --list` shows them")]
    NoEpoch(String),
}

/// Header of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the epoch.
    pub name: String,
    /// When it was taken, in nanoseconds since 1970.
    pub time: i64,
    /// Epoch that the stream is a difference from; empty: none.
    pub base: String,
}

/// The newest list of epochs of a store that may be in use, and the superblock that it came from.
pub fn epochs_of(device: &dyn Device) -> Result<(Superblock, Vec<Epoch>), StoreError> {
    let mut newest: Option<Superblock> = None;
    for superblock in load::superblocks(device)?.into_iter().flatten() {
        if newest.as_ref().is_none_or(|other| other.generation < superblock.generation) {
            newest = Some(superblock);
        }
    }
    let Some(superblock) = newest else {
        return Err(load::restore(device, Mistake::None, false)
            .err()
            .unwrap_or(StoreError::Damaged { what: "superblocks changed while they were read; try again", block: 0 }));
    };
    let epochs = Loader::new(device, &superblock, false).epochs(superblock.archive)?;
    Ok((superblock, epochs))
}

/// Writes an epoch to a stream; with `since`, the difference from that epoch.
pub fn export(
    device: &Arc<dyn Device>,
    name: &str,
    since: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), StreamError> {
    let (superblock, epochs) = epochs_of(&**device)?;
    let load = |name: &str| -> Result<(Tree, i64), StreamError> {
        let epoch = epochs.iter().find(|epoch| epoch.name == name);
        let epoch = epoch.ok_or_else(|| StreamError::NoEpoch(name.to_owned()))?;
        let mut tree = Loader::new(&**device, &superblock, false).tree(&superblock, epoch.root)?;
        tree.fetch = Arc::new(Pages(device.clone()));
        Ok((tree, epoch.time))
    };
    let (new, time) = load(name)?;
    let old = match since {
        Some(base) => load(base)?.0,
        None => Tree { inodes: Default::default(), ..new.freeze() },
    };
    let header = Header { name: name.to_owned(), time, base: since.unwrap_or_default().to_owned() };
    write_stream(&old, &new, &header, out)
}

struct Frames<'a> {
    out: &'a mut dyn Write,
    chain: u64,
    next_ino: u64,
    pending: Writer,
}

impl Frames<'_> {
    fn begin(&mut self) {
        self.pending = Writer::default();
        self.pending.u64(self.next_ino);
    }

    fn close(&mut self, force: bool) -> io::Result<()> {
        if self.pending.0.len() <= 8 || !force && self.pending.0.len() < FRAME {
            return Ok(());
        }
        self.put()?;
        self.begin();
        Ok(())
    }

    fn put(&mut self) -> io::Result<()> {
        self.chain = xxh3_64_with_seed(&self.pending.0, self.chain);
        self.out.write_all(&(self.pending.0.len() as u64).to_le_bytes())?;
        self.out.write_all(&self.pending.0)?;
        self.out.write_all(&self.chain.to_le_bytes())
    }
}

/// Writes the difference between two trees as a stream.
pub fn write_stream(old: &Tree, new: &Tree, header: &Header, out: &mut dyn Write) -> Result<(), StreamError> {
    let mut head = Writer::default();
    head.0.extend_from_slice(MAGIC);
    head.bytes(header.name.as_bytes());
    head.u64(header.time as u64);
    head.bytes(header.base.as_bytes());
    let chain = checksum(&head.0);
    out.write_all(&(head.0.len() as u64).to_le_bytes())?;
    out.write_all(&head.0)?;
    out.write_all(&chain.to_le_bytes())?;
    let mut frames = Frames { out, chain, next_ino: new.next_ino, pending: Writer::default() };
    frames.begin();
    let mut pages: Vec<Changed<'_>> = Vec::new();
    for (ino, before, after) in diff(&old.inodes, &new.inodes, &same) {
        match after {
            None => {
                frames.pending.u8(2);
                frames.pending.u64(ino);
            }
            Some(inode) => write_inode(&mut frames.pending, before.map(|i| &**i), inode, &mut pages, Mistake::None),
        }
        for (ino, index, page) in pages.drain(..) {
            let kind = if page.is_some() { 5 } else { 7 };
            let bytes = page.map(|page| bytes(page, new, ino)).transpose()?;
            frames.pending.u8(kind);
            frames.pending.u64(ino);
            frames.pending.u64(index);
            bytes.iter().for_each(|bytes| frames.pending.bytes(bytes));
            frames.close(false)?;
        }
        frames.close(false)?;
    }
    frames.close(true)?;
    // An empty frame ends the stream.
    frames.pending = Writer::default();
    frames.put()?;
    out_flush(frames.out)
}

fn out_flush(out: &mut dyn Write) -> Result<(), StreamError> {
    Ok(out.flush()?)
}

fn bytes(page: &Page, tree: &Tree, ino: u64) -> Result<Vec<u8>, StreamError> {
    match page {
        Page::Memory(resident) => Ok(resident.bytes.clone()),
        Page::Disk(ptr) => tree.fetch.fetch(*ptr).map_err(|_| {
            let Ptr { block, .. } = *ptr;
            let path = tree.path_of(ino).unwrap_or_default();
            eprintln!("ixfs: {path}: a page cannot be read");
            StoreError::Damaged { what: "content does not match its checksum, or the epoch was dropped", block }.into()
        }),
    }
}

/// Whether two inodes are equal in everything.
fn same(a: &Arc<Inode>, b: &Arc<Inode>) -> bool {
    let map = |inode: &Inode| inode.xattrs.as_deref().map(|xattrs| xattrs.map.clone());
    Arc::ptr_eq(a, b)
        || a.attr() == b.attr()
            && map(a) == map(b)
            && match (&a.body, &b.body) {
                (Body::File(old), Body::File(new)) => new.changes(old).is_empty(),
                (Body::Dir(old), Body::Dir(new)) => {
                    old.parent == new.parent && diff(&old.entries, &new.entries, &|a, b| a == b).is_empty()
                }
                (Body::Symlink(old), Body::Symlink(new)) => old == new,
                _ => true,
            }
}

fn read_frame(input: &mut dyn Read, frame: u64, chain: Option<u64>) -> Result<(Vec<u8>, u64), StreamError> {
    let damaged = |what| StreamError::Damaged { frame, what };
    let mut number = [0; 8];
    input.read_exact(&mut number).map_err(|_| damaged("it ends too early"))?;
    let len = u64::from_le_bytes(number);
    if len > MAX_FRAME {
        return Err(damaged("it is too long"));
    }
    let mut bytes = Vec::new();
    input.take(len).read_to_end(&mut bytes)?;
    let whole = bytes.len() as u64 == len && input.read_exact(&mut number).is_ok();
    let sum = match chain {
        Some(chain) => xxh3_64_with_seed(&bytes, chain),
        None => checksum(&bytes),
    };
    match () {
        () if !whole => Err(damaged("it ends too early")),
        () if sum != u64::from_le_bytes(number) => Err(damaged("it does not match its checksum")),
        () => Ok((bytes, sum)),
    }
}

/// Reads a stream's header; the second value continues in [`import`].
pub fn read_header(input: &mut dyn Read) -> Result<(Header, u64), StreamError> {
    let (bytes, chain) = read_frame(input, 0, None)?;
    let parse = || -> Result<Header, Malformed> {
        let mut from = Reader(&bytes);
        if from.take(8)? != MAGIC {
            return Err(Malformed("no epoch stream"));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let header = Header { name: text(from.bytes()?), time: from.u64()? as i64, base: text(from.bytes()?) };
        from.end()?;
        Ok(header)
    };
    Ok((parse().map_err(|Malformed(what)| StreamError::Damaged { frame: 0, what })?, chain))
}

/// Applies a stream's frames to the tree that it is a difference from. The tree is of no use if this fails.
pub fn import(tree: &mut Tree, input: &mut dyn Read, mut chain: u64) -> Result<(), StreamError> {
    for frame in 1.. {
        let (bytes, sum) = read_frame(input, frame, Some(chain))?;
        if bytes.is_empty() {
            break;
        }
        chain = sum;
        let (next_ino, records) = parse(&bytes).map_err(|Malformed(what)| StreamError::Damaged { frame, what })?;
        apply(tree, next_ino, records, Vec::new())?;
    }
    tree.recount();
    Ok(())
}
