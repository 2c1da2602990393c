// SPDX-License-Identifier: MIT OR Apache-2.0
//! On-disk layout of GFS2. All numbers are big-endian.

/// Byte offset of the superblock, independent of the block size.
pub(super) const SUPERBLOCK_AT: u64 = 65_536;

/// Length of the superblock part that is read, in bytes; it contains all fields.
pub(super) const SUPERBLOCK_BYTES: usize = 512;

/// Magic number at the start of each metadata block.
pub(super) const MAGIC: u32 = 0x0116_1970;

/// Length of the common metadata header, in bytes.
pub(super) const HEAD_BYTES: usize = 24;

/// Length of a resource-group header in bytes; the first part of the map follows in the same block.
pub(super) const GROUP_BYTES: usize = 128;

/// Length of a resource-index entry, in bytes.
pub(super) const ENTRY_BYTES: usize = 96;

/// Length of an inode before its data or pointers, in bytes.
pub(super) const DINODE_BYTES: usize = 232;

/// Length of a directory leaf before its entries, in bytes.
pub(super) const LEAF_BYTES: usize = 104;

/// Length of a directory entry before its name, in bytes.
pub(super) const DIRENT_BYTES: usize = 40;

/// Flag of a directory with a hash table and leaves.
pub(super) const FLAG_HASHED: u32 = 2;

/// Maximum number of pointer levels of an inode.
pub(super) const MOST_LEVELS: u16 = 10;

/// Maximum number of hash bits that index a directory's table.
pub(super) const MOST_HASH_BITS: u16 = 17;

/// Metadata types that are read; the discriminant is the type number, from which the format number follows.
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

/// Big-endian u16 at byte `at`.
pub(super) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Big-endian u32 at byte `at`.
pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// Big-endian u64 at byte `at`.
pub(super) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Location of a resource group: an entry of the resource index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Block number of the header.
    pub block: u64,
    /// Number of blocks of header and map together.
    pub map_blocks: u32,
    /// First block covered by the map.
    pub data0: u64,
    /// Number of blocks covered by the map.
    pub data: u32,
    /// Length of the map in bytes.
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

/// Header of a resource group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Flags, as stored.
    pub flags: u32,
    /// Free-block counter.
    pub free: u32,
    /// Inode counter, unlinked inodes included.
    pub dinodes: u32,
    /// Blocks from this header to that of the next group; 0 in the last group and in old file systems.
    pub skip: u32,
    /// First block covered by the map, as [`Entry::data0`]. This and the following fields are 0 in file systems made
    /// before 2018.
    pub data0: u64,
    /// Number of blocks covered by the map, as [`Entry::data`].
    pub data: u32,
    /// Length of the map in bytes, as [`Entry::bitbytes`].
    pub bitbytes: u32,
    /// Checksum, as stored.
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

    /// Returns whether the header predates the checksum.
    pub(super) fn is_old(&self) -> bool {
        self.crc == 0 && self.data0 == 0 && self.data == 0 && self.bitbytes == 0
    }
}

/// Expected checksum of a resource-group header: zlib's CRC-32 over the header with the checksum field zeroed.
pub(super) fn group_crc(header: &[u8; GROUP_BYTES]) -> u32 {
    let mut header = *header;
    header[64..68].fill(0);
    !header.iter().fold(!0, |crc, &byte| crc >> 8 ^ CRC_TABLE[usize::from(crc as u8 ^ byte)])
}

/// CRC remainders of all byte values.
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

/// Number of blocks for a header and a map of `bitbytes` bytes, with blocks of `block_bytes` bytes.
pub(super) const fn map_blocks(bitbytes: u32, block_bytes: u32) -> u32 {
    let first = block_bytes - GROUP_BYTES as u32;
    1 + bitbytes.saturating_sub(first).div_ceil(block_bytes - HEAD_BYTES as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_checksum_is_zlib_crc32() {
        // CRC-32 of 128 zero bytes.
        assert_eq!(group_crc(&[0; GROUP_BYTES]), 0xc2a8_fa9d);
        let mut with_checksum = [0; GROUP_BYTES];
        with_checksum[64..68].fill(7);
        assert_eq!(group_crc(&with_checksum), 0xc2a8_fa9d);
    }

    #[test]
    fn map_blocks_match_images_of_mkfs_gfs2() {
        // Values from images of mkfs.gfs2.
        for (bitbytes, block_bytes, blocks) in [(2065, 1024, 3), (63_437, 1024, 64), (130_999, 4096, 33)] {
            assert_eq!(map_blocks(bitbytes, block_bytes), blocks);
        }
        assert_eq!([1, 384, 385, 384 + 488, 384 + 489].map(|bytes| map_blocks(bytes, 512)), [1, 1, 2, 2, 3]);
    }
}
