// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands where in a block of GFS2. All numbers are big-endian.

/// Bytes from the start of the image to the superblock, whatever the size of a block.
pub(super) const SUPERBLOCK_AT: u64 = 65_536;

/// Bytes of the superblock that are read: all its fields end before.
pub(super) const SUPERBLOCK_BYTES: usize = 512;

/// The number that starts each block of metadata.
pub(super) const MAGIC: u32 = 0x0116_1970;

/// Bytes of the head that all metadata starts with.
pub(super) const HEAD_BYTES: usize = 24;

/// Bytes of a resource group's header; the first part of its map follows in the same block.
pub(super) const GROUP_BYTES: usize = 128;

/// Bytes of an entry of the index of resource groups.
pub(super) const ENTRY_BYTES: usize = 96;

/// Bytes of an inode before its data or pointers.
pub(super) const DINODE_BYTES: usize = 232;

/// Bytes of a directory's leaf before its entries.
pub(super) const LEAF_BYTES: usize = 104;

/// Bytes of a directory entry before its name.
pub(super) const DIRENT_BYTES: usize = 40;

/// Flag of a directory whose entries are in leaves behind a table of hashes.
pub(super) const FLAG_HASHED: u32 = 2;

/// Levels of pointers that an inode may have at most.
pub(super) const MOST_LEVELS: u16 = 10;

/// Bits of a name's hash that the table of a directory may use at most.
pub(super) const MOST_HASH_BITS: u16 = 17;

/// The kinds of metadata that are read, with the format number that belongs to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Superblock = 1,
    Group = 2,
    GroupMap = 3,
    Dinode = 4,
    Indirect = 5,
    Leaf = 6,
}

impl Kind {
    pub(super) const fn format(self) -> u32 {
        100 * self as u32
    }
}

/// The two bytes at `at`.
pub(super) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The four bytes at `at`.
pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// The eight bytes at `at`.
pub(super) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Where a resource group lies: an entry of the index of resource groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The block of the header.
    pub block: u64,
    /// Blocks of the header and the map together.
    pub map_blocks: u32,
    /// The first block that the map speaks of.
    pub data0: u64,
    /// How many blocks the map speaks of.
    pub data: u32,
    /// Bytes of the map.
    pub bitbytes: u32,
}

impl Entry {
    pub(super) fn parse(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        Entry {
            block: be64(bytes, 0),
            map_blocks: be32(bytes, 8),
            data0: be64(bytes, 16),
            data: be32(bytes, 24),
            bitbytes: be32(bytes, 28),
        }
    }
}

/// The header of a resource group: what the group says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Flags, as stored.
    pub flags: u32,
    /// Blocks counted as free.
    pub free: u32,
    /// Blocks counted as inodes, with a name or without.
    pub dinodes: u32,
    /// Blocks from this header to that of the next group; 0 in the last group and in old file systems.
    pub skip: u32,
    /// The first block of the map, as [`Entry::data0`]. It and the following fields are 0 in file systems made before 2018.
    pub data0: u64,
    /// Blocks of the map, as [`Entry::data`].
    pub data: u32,
    /// Bytes of the map, as [`Entry::bitbytes`].
    pub bitbytes: u32,
    /// The checksum, as stored.
    pub crc: u32,
}

impl Header {
    pub(super) fn parse(bytes: &[u8; GROUP_BYTES]) -> Header {
        Header {
            flags: be32(bytes, 24),
            free: be32(bytes, 28),
            dinodes: be32(bytes, 32),
            skip: be32(bytes, 36),
            data0: be64(bytes, 48),
            data: be32(bytes, 56),
            bitbytes: be32(bytes, 60),
            crc: be32(bytes, 64),
        }
    }

    /// Whether the header is of the time before groups had a checksum.
    pub(super) fn is_old(&self) -> bool {
        self.crc == 0 && self.data0 == 0 && self.data == 0 && self.bitbytes == 0
    }
}

/// The checksum that the header of a resource group should have: CRC-32 as in zlib, with the checksum itself as 0.
pub(super) fn group_crc(header: &[u8; GROUP_BYTES]) -> u32 {
    let mut header = *header;
    header[64..68].fill(0);
    !header.iter().fold(!0, |crc, &byte| crc >> 8 ^ CRC_TABLE[usize::from(crc as u8 ^ byte)])
}

/// The remainders of all bytes.
static CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Blocks that a header and a map of `bitbytes` take, in blocks of `block_bytes`.
pub(super) const fn map_blocks(bitbytes: u32, block_bytes: u32) -> u32 {
    let first = block_bytes - GROUP_BYTES as u32;
    1 + bitbytes.saturating_sub(first).div_ceil(block_bytes - HEAD_BYTES as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zlib() {
        // CRC-32 of 128 zero bytes.
        assert_eq!(group_crc(&[0; GROUP_BYTES]), 0xc2a8_fa9d);
        let mut with_checksum = [0; GROUP_BYTES];
        with_checksum[64..68].fill(7);
        assert_eq!(group_crc(&with_checksum), 0xc2a8_fa9d);
    }

    #[test]
    fn maps_fill_their_blocks() {
        // Seen in images of mkfs.gfs2.
        for (bitbytes, block_bytes, blocks) in [(2065, 1024, 3), (63_437, 1024, 64), (130_999, 4096, 33)] {
            assert_eq!(map_blocks(bitbytes, block_bytes), blocks);
        }
        assert_eq!([1, 384, 385, 384 + 488, 384 + 489].map(|bytes| map_blocks(bytes, 512)), [1, 1, 2, 2, 3]);
    }
}
