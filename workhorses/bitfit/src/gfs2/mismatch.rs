// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inconsistencies of an image.

use core::fmt;

/// Compared quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Superblock's base-2 logarithm of the block size.
    BlockShift,
    /// Magic number of a metadata block.
    Magic,
    /// Metadata type.
    Kind,
    /// Format number of the metadata type.
    Format,
    /// Block pointer, which must be within the image.
    Pointer,
    /// Number of pointer levels of an inode.
    Levels,
    /// File size in bytes: at least the length read, or a multiple of the entry length.
    FileBytes,
    /// Length of a directory entry in bytes.
    EntryBytes,
    /// Number of hash bits that index a directory's table.
    HashBits,
    /// Number of leaves of a directory.
    Leaves,
    /// Number of files named `rindex`.
    IndexFiles,
    /// Number of files named `statfs`.
    StatfsFiles,
    /// First block of a group, which must be after the previous group.
    GroupStart,
    /// End block of a group, which must be within the image.
    GroupEnd,
    /// Number of blocks of a group's header and map.
    MapBlocks,
    /// First block covered by a group's map, according to the index.
    FirstData,
    /// Number of blocks covered by the map, according to the index.
    DataBlocks,
    /// First block covered by the map, according to the header.
    HeaderFirstData,
    /// Number of blocks covered by the map, according to the header.
    HeaderDataBlocks,
    /// Length of the map in bytes, according to the header.
    HeaderMapBytes,
    /// Distance to the next group, in blocks.
    Skip,
    /// Checksum of the header.
    Crc,
    /// Free blocks: header against map.
    Free,
    /// Inodes: header against map.
    Dinodes,
    /// Map blocks with an invalid metadata header.
    BadMapBlocks,
    /// Index entries too damaged to read their groups.
    BadEntries,
    /// Blocks of all groups: `statfs` against the index.
    TotalBlocks,
    /// Free blocks of all groups: `statfs` against the maps.
    TotalFree,
    /// Inodes of all groups: `statfs` against the maps.
    TotalDinodes,
}

impl Field {
    /// Name of the quantity, source of the expected value, source of the value found.
    const fn words(self) -> [&'static str; 3] {
        match self {
            Field::BlockShift => ["block size shift", "the block size implies", "the superblock has"],
            Field::Magic => ["magic number", "expected", "found"],
            Field::Kind => ["metadata type", "expected", "found"],
            Field::Format => ["metadata format", "expected", "found"],
            Field::Pointer => ["block pointer", "expected less than", "found"],
            Field::Levels => ["pointer levels", "expected at most", "found"],
            Field::FileBytes => ["file size", "expected", "found"],
            Field::EntryBytes => ["directory entry length", "expected at most", "found"],
            Field::HashBits => ["directory hash bits", "expected at most", "found"],
            Field::Leaves => ["directory leaves", "expected at most", "found"],
            Field::IndexFiles => ["files named rindex", "expected", "found"],
            Field::StatfsFiles => ["files named statfs", "expected", "found"],
            Field::GroupStart => ["group start", "expected at least", "the index has"],
            Field::GroupEnd => ["group end", "expected at most", "the index has"],
            Field::MapBlocks => ["header and map blocks", "the map length implies", "the index has"],
            Field::FirstData => ["first data block", "expected", "the index has"],
            Field::DataBlocks => ["data blocks", "the map length implies", "the index has"],
            Field::HeaderFirstData => ["first data block", "the index has", "the header has"],
            Field::HeaderDataBlocks => ["data blocks", "the index has", "the header has"],
            Field::HeaderMapBytes => ["map length", "the index has", "the header has"],
            Field::Skip => ["blocks to the next group", "the index has", "the header has"],
            Field::Crc => ["header checksum", "expected", "found"],
            Field::Free => ["free blocks", "the map has", "the header has"],
            Field::Dinodes => ["inodes", "the map has", "the header has"],
            Field::BadMapBlocks => ["map blocks with an invalid header", "expected", "found"],
            Field::BadEntries => ["invalid index entries (remaining entries skipped)", "expected", "found"],
            Field::TotalBlocks => ["total blocks", "the groups have", "statfs has"],
            Field::TotalFree => ["total free blocks", "the maps have", "statfs has"],
            Field::TotalDinodes => ["total inodes", "the maps have", "statfs has"],
        }
    }

    /// Name of the quantity, for output.
    pub const fn name(self) -> &'static str {
        self.words()[0]
    }

    /// Returns whether values are printed in hexadecimal.
    const fn is_hexadecimal(self) -> bool {
        matches!(self, Field::Magic | Field::Crc)
    }
}

/// Two values that should agree but do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Block that contains the value found.
    pub block: u64,
    /// Compared quantity.
    pub field: Field,
    /// Expected value, or its limit in a consistent image.
    pub expected: u64,
    /// Value found.
    pub found: u64,
}

impl Mismatch {
    pub(super) fn new(block: u64, field: Field, expected: impl Into<u64>, found: impl Into<u64>) -> Mismatch {
        Mismatch { block, field, expected: expected.into(), found: found.into() }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [what, expects, finds] = self.field.words();
        let Mismatch { block, expected, found, .. } = self;
        if self.field.is_hexadecimal() {
            write!(f, "block {block}: {what}: {expects} {expected:#010x}, {finds} {found:#010x}")
        } else {
            write!(f, "block {block}: {what}: {expects} {expected}, {finds} {found}")
        }
    }
}
