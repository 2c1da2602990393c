// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images of the file system GFS2: their maps, and whether the counters beside the maps agree with them.
//!
//! A volume is cut into resource groups. Each has a header, a map of two bits for each of its blocks, and the blocks. A
//! hidden file, the index, says where the groups are; another one, statfs, has totals. [`Volume::survey`] goes through all
//! groups, a piece at a time, so that the memory it takes does not depend on the size of the volume.
//!
//! It compares numbers that are stored twice. Whether a used block belongs to a file only a walk through all files can
//! tell, which is the work of `fsck.gfs2`. A volume that is mounted, or was not unmounted, may have counters behind
//! its maps in its journals.
//!
//! ```no_run
//! let mut volume = bitfit::gfs2::Volume::open(std::fs::File::open("volume.img")?)?;
//! let survey = volume.survey(|group| {
//!     println!("{} free blocks in the group at {}", group.states[0], group.entry.block);
//!     Ok(())
//! })?;
//! println!("the longest run of free blocks has {}", survey.runs.longest);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod disk;
mod mismatch;
mod picture;
mod survey;
mod tree;

use core::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::string::{String, ToString};

pub use disk::{Entry, Header};
pub use mismatch::{Field, Mismatch};
pub use picture::{Cell, Picture, Runs};
pub use survey::{Group, Survey};

use disk::{Kind, be32, be64};
use tree::Blocks;

/// Formats of GFS2 known so far are 1801 and 1802; GFS, its predecessor with the same magic number, has 1309.
const FORMATS: std::ops::RangeInclusive<u32> = 1801..=1899;

/// Sizes of a block in bytes: powers of two in these limits.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

/// What the superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The format of the file system, 1801 or 1802.
    pub format: u32,
    /// Bytes of a block: a power of two from 512 to 65536.
    pub block_bytes: u32,
    /// The power of two that gives [`block_bytes`](Self::block_bytes).
    pub block_shift: u32,
    /// The inode of the directory of hidden files.
    pub master: u64,
    /// How nodes lock against each other, such as `lock_dlm`.
    pub lock_protocol: String,
    /// The name of the cluster and the volume.
    pub lock_table: String,
}

/// Why something cannot be read as a GFS2 image.
#[derive(Debug)]
pub enum OpenError {
    /// It cannot be read.
    Io(io::Error),
    /// It ends before the superblock does: its length in bytes.
    TooShort(u64),
    /// The superblock does not start with GFS2's magic number, but with this one.
    Magic(u32),
    /// There is metadata of another kind or format in the superblock's place: kind, format.
    NoSuperblock(u32, u32),
    /// The file system's format is not one of GFS2.
    Format(u32),
    /// The size of a block, in bytes, cannot be.
    BlockBytes(u32),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = disk::SUPERBLOCK_AT;
        match self {
            OpenError::Io(error) => write!(f, "cannot be read: {error}"),
            OpenError::TooShort(bytes) => {
                let needed = at + disk::SUPERBLOCK_BYTES as u64;
                write!(f, "no GFS2 image: expected at least {needed} bytes, found {bytes}")
            }
            OpenError::Magic(found) => {
                write!(f, "no GFS2 image: at byte {at} expected {:#010x}, found {found:#010x}", disk::MAGIC)
            }
            OpenError::NoSuperblock(kind, format) => {
                write!(f, "no GFS2 image: at byte {at} expected metadata of kind 1, format 100, found {kind}, {format}")
            }
            OpenError::Format(found) => {
                write!(f, "no GFS2 image: at byte {} expected format 1801 or 1802, found {found}", at + 24)
            }
            OpenError::BlockBytes(found) => {
                let expected = "a power of two from 512 to 65536";
                write!(f, "no GFS2 image: at byte {} expected a block size, {expected}, found {found}", at + 36)
            }
        }
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            OpenError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

/// An image of GFS2 with a good superblock.
pub struct Volume<R> {
    superblock: Superblock,
    blocks: Blocks<R>,
}

impl<R: Read + Seek> Volume<R> {
    /// Reads the superblock.
    ///
    /// # Errors
    /// [`OpenError`] if the reader fails or what it reads is no GFS2 image.
    pub fn open(mut reader: R) -> Result<Volume<R>, OpenError> {
        let bytes = reader.seek(SeekFrom::End(0))?;
        if bytes < disk::SUPERBLOCK_AT + disk::SUPERBLOCK_BYTES as u64 {
            return Err(OpenError::TooShort(bytes));
        }
        reader.seek(SeekFrom::Start(disk::SUPERBLOCK_AT))?;
        let mut content = [0; disk::SUPERBLOCK_BYTES];
        reader.read_exact(&mut content)?;
        let superblock = Superblock::parse(&content)?;
        let number = bytes / u64::from(superblock.block_bytes);
        let blocks = Blocks { reader, bytes: superblock.block_bytes, number };
        Ok(Volume { superblock, blocks })
    }

    /// What the superblock says.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Whole blocks in the image, the ones in front of the superblock and between groups included.
    pub fn image_blocks(&self) -> u64 {
        self.blocks.number
    }
}

impl Superblock {
    fn parse(content: &[u8; disk::SUPERBLOCK_BYTES]) -> Result<Superblock, OpenError> {
        let [magic, kind, kind_format, format, block_bytes] = [0, 4, 16, 24, 36].map(|at| be32(content, at));
        if magic != disk::MAGIC {
            return Err(OpenError::Magic(magic));
        }
        if (kind, kind_format) != (Kind::Superblock as u32, Kind::Superblock.format()) {
            return Err(OpenError::NoSuperblock(kind, kind_format));
        }
        if !FORMATS.contains(&format) {
            return Err(OpenError::Format(format));
        }
        if !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
            return Err(OpenError::BlockBytes(block_bytes));
        }
        Ok(Superblock {
            format,
            block_bytes,
            block_shift: be32(content, 40),
            master: be64(content, 56),
            lock_protocol: text(&content[96..160]),
            lock_table: text(&content[160..224]),
        })
    }
}

/// A text of fixed length that ends with a zero byte or at its end. What no terminal should see is replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).to_string().replace(char::is_control, "?")
}
