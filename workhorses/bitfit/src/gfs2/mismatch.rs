// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong in an image.

use core::fmt;

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The superblock's power of two for the size of a block.
    BlockShift,
    /// The number that metadata starts with.
    Magic,
    /// The kind of metadata.
    Kind,
    /// The format of metadata of that kind.
    Format,
    /// A pointer to a block, which must lie in the image.
    Pointer,
    /// Levels of pointers of an inode.
    Levels,
    /// The size of a file, in bytes: at least what is read of it, or a multiple of its entries.
    FileBytes,
    /// The length of a directory entry, in bytes.
    EntryBytes,
    /// Bits of a name's hash that the table of a directory uses.
    HashBits,
    /// Leaves of a directory.
    Leaves,
    /// Files with the wanted name: the index of groups.
    IndexFiles,
    /// Files with the wanted name: the totals.
    StatfsFiles,
    /// The block in which a group starts: behind the end of the group before it.
    GroupStart,
    /// The block behind a group: it must not be behind the end of the image.
    GroupEnd,
    /// Blocks of a group's header and map.
    MapBlocks,
    /// The first block that the map of a group speaks of, by the index.
    FirstData,
    /// How many blocks the map speaks of, by the index.
    DataBlocks,
    /// The first block that the map speaks of, by the header.
    HeaderFirstData,
    /// How many blocks the map speaks of, by the header.
    HeaderDataBlocks,
    /// Bytes of the map, by the header.
    HeaderMapBytes,
    /// The way to the next group.
    Skip,
    /// The checksum of the header.
    Crc,
    /// Free blocks: the header against the map.
    Free,
    /// Inodes: the header against the map.
    Dinodes,
    /// Blocks in which the map goes on that are none.
    BadMapBlocks,
    /// Entries of the index that were too wrong to look at their groups.
    BadEntries,
    /// Blocks of all groups: the totals against the index.
    TotalBlocks,
    /// Free blocks of all groups: the totals against the maps.
    TotalFree,
    /// Inodes of all groups: the totals against the maps.
    TotalDinodes,
}

impl Field {
    /// What it is, then who says what is expected, then who says what was found.
    const fn words(self) -> [&'static str; 3] {
        match self {
            Field::BlockShift => ["shift of the block size", "the block size asks for", "the superblock has"],
            Field::Magic => ["magic number", "expected", "found"],
            Field::Kind => ["kind of metadata", "expected", "found"],
            Field::Format => ["format of metadata", "expected", "found"],
            Field::Pointer => ["pointer to a block", "expected less than", "found"],
            Field::Levels => ["levels of pointers", "expected at most", "found"],
            Field::FileBytes => ["file size", "expected", "found"],
            Field::EntryBytes => ["length of a directory entry", "expected at most", "found"],
            Field::HashBits => ["hash bits of a directory", "expected at most", "found"],
            Field::Leaves => ["leaves of a directory", "expected at most", "found"],
            Field::IndexFiles => ["files called rindex", "expected", "found"],
            Field::StatfsFiles => ["files called statfs", "expected", "found"],
            Field::GroupStart => ["start of the group", "expected at least", "the index has"],
            Field::GroupEnd => ["end of the group", "expected at most", "the index has"],
            Field::MapBlocks => ["blocks of header and map", "the map's bytes ask for", "the index has"],
            Field::FirstData => ["first data block", "expected", "the index has"],
            Field::DataBlocks => ["data blocks", "the map's bytes ask for", "the index has"],
            Field::HeaderFirstData => ["first data block", "the index has", "the header has"],
            Field::HeaderDataBlocks => ["data blocks", "the index has", "the header has"],
            Field::HeaderMapBytes => ["bytes of the map", "the index has", "the header has"],
            Field::Skip => ["blocks to the next group", "the index has", "the header has"],
            Field::Crc => ["checksum of the header", "expected", "found"],
            Field::Free => ["free blocks", "the map has", "the header has"],
            Field::Dinodes => ["inodes", "the map has", "the header has"],
            Field::BadMapBlocks => ["blocks of the map with a wrong head", "expected", "found"],
            Field::BadEntries => ["wrong entries of the index before the rest is left unread", "expected", "found"],
            Field::TotalBlocks => ["blocks of all groups", "the groups have", "statfs has"],
            Field::TotalFree => ["free blocks of all groups", "the maps have", "statfs has"],
            Field::TotalDinodes => ["inodes of all groups", "the maps have", "statfs has"],
        }
    }

    /// What was compared, in words, for output.
    pub const fn name(self) -> &'static str {
        self.words()[0]
    }

    /// Whether people read the numbers in hexadecimal.
    const fn is_hexadecimal(self) -> bool {
        matches!(self, Field::Magic | Field::Crc)
    }
}

/// Two numbers that should agree and do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The block in which the number found stands.
    pub block: u64,
    /// What was compared.
    pub field: Field,
    /// What it should be, or the limit that it keeps in a good image.
    pub expected: u64,
    /// What it is.
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
