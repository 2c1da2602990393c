// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store on disk: two superblocks, a log of changes, and snapshots written copy on write. `FORMAT.md` describes the
//! bytes; `ORDER.md` states the order of writes and why each step may rely on the one before.
//!
//! The two ways to the disk are [`Store::commit`], which logs the difference between two frozen trees, and
//! [`Store::snapshot`], which writes the changed nodes of one. Only the superblocks and the log are ever overwritten in
//! place.

pub mod check;
pub mod codec;
pub mod device;
pub mod epochs;
pub mod load;
pub mod log;
pub mod memory;
pub mod mistake;
pub mod snapshot;
pub mod space;
pub mod superblock;

use crate::tree::{Fetch, Tree};
use codec::Malformed;
use device::Device;
use epochs::Epoch;
use log::Log;
use mistake::Mistake;
use rustix::io::Errno;
use space::Space;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use superblock::Superblock;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes in a block.
pub const BLOCK: usize = crate::tree::PAGE;

/// Where an object lies in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ptr {
    /// First block; an object's blocks are adjacent. 0: there is no object.
    pub block: u32,
    /// Length in bytes.
    pub len: u32,
    /// Checksum of the bytes.
    pub sum: u64,
}

impl Ptr {
    /// Number of blocks that the object takes; an empty one takes one too.
    pub fn block_count(self) -> u32 {
        self.len.div_ceil(BLOCK as u32).max(1)
    }

    /// Numbers of the blocks that the object takes.
    pub fn blocks(self) -> std::ops::Range<u32> {
        self.block..self.block.saturating_add(self.block_count())
    }
}

/// Checksum of stored bytes. It finds mistakes of disks, not forgeries.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Why a store cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The device failed.
    #[error("{what}: {source}")]
    Io {
        /// What the store was doing.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A block does not hold what was written there.
    #[error("block {block}: {what}: expected the bytes that were written there; restore from an archive or a copy")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Number of the damaged block.
        block: u32,
    },
    /// A record is malformed.
    #[error("block {block}: {source}")]
    Malformed {
        /// What is wrong.
        source: Malformed,
        /// Number of the first block of the malformed object.
        block: u32,
    },
    /// Neither superblock is usable.
    #[error("no usable superblock: block 0: {first}; block 1: {second}; expected a store made by `ixfs mkfs`")]
    NoSuperblock {
        /// What is wrong with the first.
        first: String,
        /// What is wrong with the second.
        second: String,
    },
    /// No free blocks are left.
    #[error("store is full: {wanted} adjacent blocks wanted, {free} blocks free; remove files or archived epochs")]
    Full {
        /// Adjacent blocks wanted.
        wanted: u32,
        /// Free blocks.
        free: u32,
    },
    /// The log has no room for a batch; a snapshot frees it.
    #[error("log has no room for a batch of {wanted} blocks: {free} are free; a snapshot frees the rest")]
    LogFull {
        /// Blocks wanted.
        wanted: u64,
        /// Free blocks.
        free: u64,
    },
    /// A batch of the log is damaged, and later ones were acknowledged.
    #[error(
        "block {}: log batch {} is damaged and those behind it, up to {}, cannot be replayed without it: acknowledged \
         changes are lost; `ixfs check` names the files, `ixfs check --repair` goes back to the state before the gap",
        .0.block, .0.damaged, .0.last
    )]
    Gap(Box<Gap>),
    /// The size asked for is too small or too large.
    #[error("a size of {} is not possible: expected {} to {}", readable(*bytes), readable(*min), readable(*max))]
    Size {
        /// The size asked for.
        bytes: u64,
        /// The least possible.
        min: u64,
        /// The greatest possible.
        max: u64,
    },
    /// An archived epoch does not exist, or exists already.
    #[error("epoch {name}: {what}")]
    Epoch {
        /// Its name.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// A number of bytes as a message shows it: `256 KiB`, or exactly where no larger unit divides it.
fn readable(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

impl StoreError {
    fn io(what: &'static str) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::Io { what, source }
    }

    fn malformed(block: u32) -> impl FnOnce(Malformed) -> StoreError {
        move |source| StoreError::Malformed { source, block }
    }

    /// The `errno` for the caller of `fsync`.
    pub fn errno(&self) -> Errno {
        match self {
            StoreError::Full { .. } => Errno::NOSPC,
            StoreError::Io { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => Errno::NOSPC,
            _ => Errno::IO,
        }
    }
}

/// Result of an operation on the store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Sizes of a new store.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Blocks in the store.
    pub blocks: u32,
    /// Blocks of the log.
    pub log_blocks: u32,
    /// Quota of memory for the tree, in bytes.
    pub limit: u64,
}

/// Least quota of a store, in bytes.
pub const MIN_LIMIT: u64 = 256 << 10;
/// Greatest quota of a store, in bytes: block numbers have 32 bits.
pub const MAX_LIMIT: u64 = 4 << 40;

/// Length from which on a file may leave memory when memory runs short: a sixteenth of the quota.
pub fn big_file(limit: u64) -> u64 {
    limit / 16
}

impl Geometry {
    /// Sizes for a tree of at most `limit` bytes: the store holds it twice, with metadata, so that a snapshot always
    /// finds room beside the one before, and a log of an eighth, 64 MiB at most.
    pub fn for_limit(limit: u64) -> Result<Geometry> {
        if !(MIN_LIMIT..=MAX_LIMIT).contains(&limit) {
            return Err(StoreError::Size { bytes: limit, min: MIN_LIMIT, max: MAX_LIMIT });
        }
        let pages = limit / BLOCK as u64;
        let log_blocks = (pages / 8).clamp(32, (64 << 20) / BLOCK as u64) as u32;
        let data = pages * 2 + pages / 4 + 128;
        Ok(Geometry { blocks: superblock::SLOTS + log_blocks + data as u32, log_blocks, limit })
    }

    /// Returns this geometry with additional space for big files, in bytes; like all files they need it twice.
    pub fn with_big_files(self, bytes: u64) -> Result<Geometry> {
        self.with_archive_space(bytes.saturating_mul(9) / 4)
    }

    /// Returns this geometry with additional space for archived epochs, in bytes.
    pub fn with_archive_space(self, bytes: u64) -> Result<Geometry> {
        let blocks = u64::from(self.blocks) + bytes / BLOCK as u64;
        match u32::try_from(blocks) {
            Ok(blocks) => Ok(Geometry { blocks, ..self }),
            Err(_) => Err(StoreError::Size { bytes, min: 0, max: u64::from(u32::MAX - self.blocks) * BLOCK as u64 }),
        }
    }

    /// Length of the store in bytes.
    pub fn len(&self) -> u64 {
        u64::from(self.blocks) * BLOCK as u64
    }

    /// Whether the store has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }
}

/// What opening a store ([`Store::open`]) loaded and replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recovery {
    /// Snapshot that the tree was loaded from.
    pub generation: u64,
    /// Log batches replayed on top of it.
    pub batches: u64,
    /// Whether the newest superblock or its tree was unusable and the one before was taken, with the longer log.
    pub fallback: bool,
    /// Whether a superblock cannot be read: a crash came while it was written, or it is damaged. The other one is used.
    pub unreadable_superblock: bool,
    /// Whether an unfinished batch stood at the end of the log. It was never acknowledged.
    pub torn_tail: bool,
    /// Acknowledged changes that cannot be replayed, because a batch before them is damaged.
    pub gap: Option<Gap>,
    /// Pages that do not match their checksum; reading them gives `EIO`.
    pub damaged_pages: u64,
    /// Files with such pages: paths.
    pub damaged_files: Vec<String>,
    /// Inodes that were removed but open when the server ended.
    pub orphans: u64,
    /// Bytes read from the device.
    pub bytes_read: u64,
}

/// A damaged batch in the middle of the log. Those behind it are differences from a state that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Gap {
    /// Sequence number of the damaged batch.
    pub damaged: u64,
    /// Block of the store where it should begin.
    pub block: u32,
    /// Greatest sequence number of a whole batch behind it.
    pub last: u64,
    /// Files that the whole batches behind it change: paths, or numbers of inodes that have no path before the gap.
    pub files: Vec<String>,
}

/// State that a snapshot changes.
struct Roots {
    /// The superblock that recovery would use now.
    current: Superblock,
    /// The slot it lies in.
    slot: u32,
    /// Where its log begins, counted like [`log::Position::at`].
    log_at: u64,
    /// Archived epochs, oldest first.
    epochs: Vec<Epoch>,
}

/// An open store.
pub struct Store {
    device: Arc<dyn Device>,
    mistake: Mistake,
    /// Copy of the superblock and the epochs in `roots`, for readers that must not wait for a snapshot.
    view: Mutex<(Superblock, Vec<Epoch>)>,
    /// Lock order: first.
    roots: Mutex<Roots>,
    /// Lock order: second.
    log: Mutex<Log>,
    /// Lock order: last.
    space: Mutex<Space>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sizes and counters of a store.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Usage {
    /// Blocks that can hold data or metadata.
    pub blocks: u32,
    /// Blocks that can be allocated at once.
    pub blocks_free: u32,
    /// Blocks that only archived epochs hold.
    pub blocks_archive_only: u64,
    /// Blocks of the log.
    pub log_blocks: u32,
    /// Blocks of the log in use.
    pub log_blocks_used: u64,
    /// Snapshot that recovery would start from.
    pub generation: u64,
    /// When that snapshot was taken, in nanoseconds since 1970.
    pub snapshot_time_ns: i64,
    /// Sequence number of the last log batch.
    pub log_sequence: u64,
    /// Archived epochs.
    pub epochs: usize,
}

impl Store {
    /// Writes an empty tree to a device, whatever it held.
    ///
    /// `secrets` are two random numbers: the key of the hash of directory cookies, and that of the log's checksums.
    pub fn format(
        device: &dyn Device,
        geometry: Geometry,
        id: [u8; 16],
        [seed, log_key]: [u64; 2],
        now: i64,
    ) -> Result<()> {
        if geometry.len() > device.len() {
            let len = device.len();
            return Err(StoreError::Size { bytes: len, min: geometry.len(), max: u64::MAX });
        }
        let write = |block: u32, bytes: &[u8]| {
            device.write(u64::from(block) * BLOCK as u64, bytes).map_err(StoreError::io("writing the new store"))
        };
        // Old superblocks go first: a crash must not leave one that describes overwritten blocks.
        let zeroes = vec![0; 64 * BLOCK];
        write(0, &zeroes[..2 * BLOCK])?;
        device.flush().map_err(StoreError::io("flushing the new store"))?;
        // Writing the log once makes its blocks real, so that a flush of a batch changes no metadata of a host file.
        let mut block = superblock::SLOTS;
        while block < superblock::SLOTS + geometry.log_blocks {
            let count = 64.min(superblock::SLOTS + geometry.log_blocks - block);
            write(block, &zeroes[..count as usize * BLOCK])?;
            block += count;
        }
        let first = superblock::SLOTS + geometry.log_blocks;
        let tree = Tree::new(seed, geometry.limit, now);
        let space = Mutex::new(Space::new(first, geometry.blocks));
        let mut writer = snapshot::Writer::new(device, &space);
        let root = writer.tree(&tree)?;
        writer.finish()?;
        let chain = xxh3_64(&id);
        let superblock = Superblock {
            version: superblock::VERSION,
            id,
            generation: 1,
            blocks: geometry.blocks,
            log_blocks: geometry.log_blocks,
            limit: geometry.limit,
            seed,
            time: now,
            root,
            archive: Ptr::default(),
            log_at: 0,
            log_sequence: 1,
            log_chain: chain,
            log_key,
        };
        device.flush().map_err(StoreError::io("flushing the new store"))?;
        write(1, &superblock.encode())?;
        device.flush().map_err(StoreError::io("flushing the new store"))
    }

    /// The random identity of the store.
    pub fn id(&self) -> [u8; 16] {
        lock(&self.view).0.id
    }

    /// Reads the identity of a store from its first two blocks.
    pub fn id_in(bytes: &[u8]) -> Result<[u8; 16]> {
        let decode = |slot: usize| match bytes.get(slot * BLOCK..(slot + 1) * BLOCK) {
            Some(block) => Superblock::decode(block, u64::MAX),
            None => Err(Malformed("the file is too short")),
        };
        match [decode(0), decode(1)] {
            [Ok(superblock), _] | [_, Ok(superblock)] => Ok(superblock.id),
            [Err(first), Err(second)] => {
                Err(StoreError::NoSuperblock { first: first.to_string(), second: second.to_string() })
            }
        }
    }

    /// Largest tree, in bytes of memory charged, of which two snapshots fit beside the archived epochs. With
    /// `one_more`, as it would be if the current tree were archived too.
    pub fn live_limit(&self, one_more: bool) -> u64 {
        let space = lock(&self.space);
        let mut kept = space.archived.clone();
        if one_more {
            kept.add(&space.current);
            kept.add(&space.since);
        }
        // The inverse of `Geometry::for_limit`.
        let room = u64::from(space.total()).saturating_sub(kept.count() + 128);
        room * BLOCK as u64 * 4 / 9
    }

    /// Sizes and counters.
    pub fn usage(&self) -> Usage {
        let (generation, time, epochs) = {
            let view = lock(&self.view);
            (view.0.generation, view.0.time, view.1.len())
        };
        let (used, capacity, sequence) = {
            let log = lock(&self.log);
            (log.used(), log.blocks(), log.sequence() - 1)
        };
        let space = lock(&self.space);
        let mut only = space.current.clone();
        only.add(&space.archived);
        Usage {
            blocks: space.total(),
            blocks_free: space.free(),
            blocks_archive_only: only.count() - space.current.count(),
            log_blocks: capacity,
            log_blocks_used: used,
            generation,
            snapshot_time_ns: time,
            log_sequence: sequence,
            epochs,
        }
    }

    /// Logs the difference between the last logged tree and `tree`, which must be newer. When it returns, a crash loses
    /// nothing of `tree`. Returns the number of blocks written; 0 if there was no difference.
    pub fn commit(&self, tree: &Tree) -> Result<u64> {
        lock(&self.log).commit(&*self.device, &self.space, tree, self.mistake)
    }

    /// Writes an empty batch, unless the last one is empty. A batch that another follows was flushed, so if it is
    /// damaged later, recovery can tell that from a crash during its write.
    pub fn confirm(&self) -> Result<()> {
        lock(&self.log).confirm(&*self.device)
    }

    /// [`commit`](Self::commit), or a snapshot where the log or the store has no room for the batch.
    pub fn make_durable(&self, tree: &Tree, now: i64) -> Result<()> {
        match self.commit(tree) {
            Err(StoreError::LogFull { .. } | StoreError::Full { .. }) => {
                self.snapshot(&|| tree.freeze(), now, None).map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Whether a commit would have to wait for another or for a snapshot, for tests.
    #[doc(hidden)]
    pub fn is_committing(&self) -> bool {
        self.log.try_lock().is_err()
    }

    /// Sets how many pages a batch may hold in itself, for tests.
    #[doc(hidden)]
    pub fn set_inline_pages(&self, pages: usize) {
        lock(&self.log).inline_pages = pages;
    }

    /// Fill level of the log in percent.
    pub fn log_percent(&self) -> u64 {
        let log = lock(&self.log);
        log.used() * 100 / u64::from(log.blocks()).max(1)
    }
}

/// Reads pages of an open store.
pub struct Pages(pub Arc<dyn Device>);

impl Fetch for Pages {
    fn fetch(&self, ptr: Ptr) -> std::result::Result<Vec<u8>, Errno> {
        load::read_object(&*self.0, ptr).map_err(|error| error.errno())
    }
}
