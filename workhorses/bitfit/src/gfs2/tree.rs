// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to blocks, inodes, files and directories, as far as needed to locate the resource index.

use std::io::{self, Read, Seek, SeekFrom};
use std::vec;
use std::vec::Vec;

use super::disk::{self, Kind, be16, be32, be64};
use super::mismatch::{Field, Mismatch};

/// Maximum number of directory leaves read. The only directory read has eight entries; the limit is for damaged
/// images.
const MOST_LEAVES: u64 = 4096;

/// Reason to stop reading.
#[derive(Debug)]
pub(super) enum Stop {
    /// An I/O error.
    Io(io::Error),
    /// A damaged image.
    Mismatch(Mismatch),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

impl From<Mismatch> for Stop {
    fn from(mismatch: Mismatch) -> Stop {
        Stop::Mismatch(mismatch)
    }
}

/// An image as a sequence of blocks.
pub(super) struct Blocks<R> {
    pub(super) reader: R,
    /// Block size in bytes.
    pub(super) bytes: u32,
    /// Number of whole blocks in the image.
    pub(super) number: u64,
}

/// An inode.
pub(super) struct Dinode {
    block: u64,
    /// File size in bytes.
    pub(super) size: u64,
    levels: u16,
    depth: u16,
    flags: u32,
    content: Vec<u8>,
}

impl<R: Read + Seek> Blocks<R> {
    /// Block size as a length.
    pub(super) fn length(&self) -> usize {
        self.bytes as usize
    }

    /// Reads whole blocks from `block` on; `from` is the block that contains the pointer, for errors.
    pub(super) fn read(&mut self, block: u64, from: u64, buffer: &mut [u8]) -> Result<(), Stop> {
        let blocks = (buffer.len() / self.length()) as u64;
        if block.checked_add(blocks).is_none_or(|end| end > self.number) {
            return Err(Mismatch::new(from, Field::Pointer, self.number, block).into());
        }
        self.reader.seek(SeekFrom::Start(block * u64::from(self.bytes)))?;
        Ok(self.reader.read_exact(buffer)?)
    }

    /// Reads a metadata block of the given type.
    pub(super) fn metadata(&mut self, block: u64, from: u64, kind: Kind) -> Result<Vec<u8>, Stop> {
        let mut content = vec![0; self.length()];
        self.read(block, from, &mut content)?;
        check_head(&content, block, kind).map_err(Stop::from)?;
        Ok(content)
    }

    /// Reads an inode.
    pub(super) fn dinode(&mut self, block: u64, from: u64) -> Result<Dinode, Stop> {
        let content = self.metadata(block, from, Kind::Dinode)?;
        let levels = be16(&content, 138);
        if levels > disk::MOST_LEVELS {
            return Err(Mismatch::new(block, Field::Levels, disk::MOST_LEVELS, levels).into());
        }
        let (size, depth, flags) = (be64(&content, 56), be16(&content, 146), be32(&content, 128));
        Ok(Dinode { block, size, levels, depth, flags, content })
    }

    /// Reads `buffer` from a file. A hole is treated as damage, as the files read have none.
    ///
    /// `head` is the length of the header at the start of each data block, in bytes.
    pub(super) fn read_file(&mut self, file: &Dinode, at: u64, buffer: &mut [u8], head: usize) -> Result<(), Stop> {
        let end = at.saturating_add(buffer.len() as u64);
        if end > file.size {
            return Err(Mismatch::new(file.block, Field::FileBytes, end, file.size).into());
        }
        if file.levels == 0 {
            let inline = &file.content[disk::DINODE_BYTES..];
            let Some(data) = usize::try_from(at).ok().and_then(|at| inline.get(at..)?.get(..buffer.len())) else {
                return Err(Mismatch::new(file.block, Field::FileBytes, inline.len() as u64, file.size).into());
            };
            buffer.copy_from_slice(data);
            return Ok(());
        }
        let mut block = vec![0; self.length()];
        let payload = self.length() - head;
        let (mut at, mut rest) = (at, buffer);
        while !rest.is_empty() {
            let number = self.file_block(file, at / payload as u64)?;
            self.read(number, file.block, &mut block)?;
            let data = &block[head + (at % payload as u64) as usize..];
            let length = data.len().min(rest.len());
            let (now, later) = rest.split_at_mut(length);
            now.copy_from_slice(&data[..length]);
            at += length as u64;
            rest = later;
        }
        Ok(())
    }

    /// Block number of data block `index` of a file with at least one pointer level.
    fn file_block(&mut self, file: &Dinode, index: u64) -> Result<u64, Stop> {
        let pointers = (self.length() - disk::HEAD_BYTES) as u64 / 8;
        let mut below = pointers.saturating_pow(u32::from(file.levels) - 1);
        let slot = index / below;
        let slots = (self.length() - disk::DINODE_BYTES) as u64 / 8;
        if slot >= slots {
            let most = slots.saturating_mul(below).saturating_mul(u64::from(self.bytes));
            return Err(Mismatch::new(file.block, Field::FileBytes, most, file.size).into());
        }
        let mut from = file.block;
        let mut block = be64(&file.content, disk::DINODE_BYTES + 8 * slot as usize);
        for _ in 1..file.levels {
            let content = self.metadata(block, from, Kind::Indirect)?;
            from = block;
            let index = index % below;
            below /= pointers;
            block = be64(&content, disk::HEAD_BYTES + 8 * (index / below) as usize);
        }
        if block == 0 || block >= self.number {
            return Err(Mismatch::new(from, Field::Pointer, self.number, block).into());
        }
        Ok(block)
    }

    /// Inode block of the entry `name` in a directory.
    pub(super) fn look_up(&mut self, directory: &Dinode, name: &[u8]) -> Result<Option<u64>, Stop> {
        if directory.flags & disk::FLAG_HASHED == 0 {
            return Ok(find_entry(&directory.content, disk::DINODE_BYTES, directory.block, name)?);
        }
        // Adjacent hash-table slots share a leaf until it overflows; a leaf may have a chain of further leaves.
        if directory.depth > disk::MOST_HASH_BITS {
            return Err(Mismatch::new(directory.block, Field::HashBits, disk::MOST_HASH_BITS, directory.depth).into());
        }
        let slots = 1_u64 << directory.depth;
        let (mut last, mut leaves) = (0, 0);
        for slot in 0..slots {
            let mut pointer = [0; 8];
            self.read_file(directory, 8 * slot, &mut pointer, disk::HEAD_BYTES)?;
            let mut leaf = u64::from_be_bytes(pointer);
            if leaf == last {
                continue;
            }
            last = leaf;
            let mut from = directory.block;
            while leaf != 0 {
                leaves += 1;
                if leaves > MOST_LEAVES {
                    return Err(Mismatch::new(from, Field::Leaves, MOST_LEAVES, leaves).into());
                }
                let content = self.metadata(leaf, from, Kind::Leaf)?;
                if let Some(found) = find_entry(&content, disk::LEAF_BYTES, leaf, name)? {
                    return Ok(Some(found));
                }
                from = leaf;
                leaf = be64(&content, 32);
            }
        }
        Ok(None)
    }
}

/// Validates a metadata header.
pub(super) fn check_head(content: &[u8], block: u64, kind: Kind) -> Result<(), Mismatch> {
    for (field, at, expected) in
        [(Field::Magic, 0, disk::MAGIC), (Field::Kind, 4, kind as u32), (Field::Format, 16, kind.format())]
    {
        let found = be32(content, at);
        if found != expected {
            return Err(Mismatch::new(block, field, expected, found));
        }
    }
    Ok(())
}

/// Inode block of the entry `name` among the entries from `at`.
fn find_entry(content: &[u8], mut at: usize, block: u64, name: &[u8]) -> Result<Option<u64>, Mismatch> {
    while content.len() - at >= disk::DIRENT_BYTES {
        let entry = &content[at..];
        let (length, name_length) = (usize::from(be16(entry, 20)), usize::from(be16(entry, 22)));
        let fits = length >= disk::DIRENT_BYTES && length <= entry.len();
        if !fits || disk::DIRENT_BYTES + name_length > length {
            return Err(Mismatch::new(block, Field::EntryBytes, entry.len() as u64, length as u64));
        }
        // An entry without an inode is a gap.
        if be64(entry, 0) != 0 && &entry[disk::DIRENT_BYTES..][..name_length] == name {
            return Ok(Some(be64(entry, 8)));
        }
        at += length;
    }
    Ok(None)
}
