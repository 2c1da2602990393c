// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblock: where a snapshot and the log behind it begin. Two slots, written in turn; the newest whole one wins.

use super::codec::{Malformed, Reader, Writer};
use super::{BLOCK, Ptr, checksum};

/// First bytes of a store.
const MAGIC: &[u8; 8] = b"ixfs\r\n\x1a\0";
/// Version of the format of new stores.
pub const VERSION: u32 = 2;
/// Oldest version that this program reads. A store keeps its version.
const OLDEST: u32 = 1;
/// Number of slots, and so the number of blocks before the log.
pub const SLOTS: u32 = 2;

/// Content of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Version of the store's format.
    pub version: u32,
    /// Random identity of the store.
    pub id: [u8; 16],
    /// Grows by 1 with each snapshot.
    pub generation: u64,
    /// Blocks in the store.
    pub blocks: u32,
    /// Blocks of the log, which begins behind the slots.
    pub log_blocks: u32,
    /// Quota of memory for the tree, in bytes.
    pub limit: u64,
    /// Key of the hash of directory cookies.
    pub seed: u64,
    /// When the snapshot was taken, in nanoseconds since 1970.
    pub time: i64,
    /// The tree.
    pub root: Ptr,
    /// The list of archived epochs.
    pub archive: Ptr,
    /// Where in the log the first batch behind the snapshot begins, in blocks.
    pub log_at: u32,
    /// Sequence number of that batch.
    pub log_sequence: u64,
    /// Chain value that the batch must continue.
    pub log_chain: u64,
    /// Random key of the checksums of batches, unknown to users of the files; 0 in stores of version 1.
    pub log_key: u64,
}

impl Superblock {
    /// The block as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.0.extend_from_slice(MAGIC);
        out.u32(self.version);
        out.0.extend_from_slice(&self.id);
        out.u64(self.generation);
        out.u32(self.blocks);
        out.u32(self.log_blocks);
        out.u64(self.limit);
        out.u64(self.seed);
        out.u64(self.time as u64);
        out.ptr(self.root);
        out.ptr(self.archive);
        out.u32(self.log_at);
        out.u64(self.log_sequence);
        out.u64(self.log_chain);
        if self.version > OLDEST {
            out.u64(self.log_key);
        }
        out.0.resize(BLOCK - 8, 0);
        let sum = checksum(&out.0);
        out.u64(sum);
        out.0
    }

    /// Reads a block.
    ///
    /// # Errors
    /// The text says what the block lacks to be a superblock of this version.
    pub fn decode(block: &[u8], device_len: u64) -> Result<Superblock, Malformed> {
        let mut from = Reader(block);
        if from.take(8)? != MAGIC {
            return Err(Malformed("no ixfs superblock"));
        }
        let version = from.u32()?;
        let body = block.get(..BLOCK - 8).ok_or(Malformed("it ends too early"))?;
        let sum = Reader(&block[BLOCK - 8..]).u64()?;
        if checksum(body) != sum {
            return Err(Malformed("superblock does not match its checksum"));
        }
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(Malformed("format version is neither 1 nor 2; use the ixfs release that wrote the store"));
        }
        let mut id = [0; 16];
        id.copy_from_slice(from.take(16)?);
        let it = Superblock {
            version,
            id,
            generation: from.u64()?,
            blocks: from.u32()?,
            log_blocks: from.u32()?,
            limit: from.u64()?,
            seed: from.u64()?,
            time: from.u64()? as i64,
            root: from.ptr()?,
            archive: from.ptr()?,
            log_at: from.u32()?,
            log_sequence: from.u64()?,
            log_chain: from.u64()?,
            log_key: if version > OLDEST { from.u64()? } else { 0 },
        };
        let fits = u64::from(it.blocks) * BLOCK as u64 <= device_len;
        let log = it.log_blocks > 0
            && it.log_at < it.log_blocks
            && SLOTS.checked_add(it.log_blocks).is_some_and(|n| n < it.blocks);
        if !fits {
            return Err(Malformed("store is longer than its file"));
        }
        if !log || it.generation == u64::MAX {
            return Err(Malformed("superblock holds impossible numbers"));
        }
        Ok(it)
    }

    /// First block that is neither a slot nor log.
    pub fn first_data_block(&self) -> u32 {
        SLOTS + self.log_blocks
    }
}
