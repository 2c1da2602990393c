// SPDX-License-Identifier: MIT OR Apache-2.0
//! GFS2 file-system images: reads their maps and checks the redundant counters.
//!
//! A volume consists of resource groups. Each has a header, a map of two bits per block, and the blocks. A hidden
//! file, the resource index, lists the groups; another one, statfs, holds totals. [`Volume::survey`] reads all groups
//! piecewise, so its memory use does not depend on the volume size.
//!
//! It compares values that are stored twice. Only a walk through all files, as done by `fsck.gfs2`, can tell whether
//! a used block belongs to a file. On a volume that is mounted, or was not unmounted cleanly, counters may lag the
//! maps, because updates are still in the journals.
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

/// Format numbers of GFS2; 1801 and 1802 exist. Its predecessor GFS, with the same magic number, has 1309.
const FORMATS: std::ops::RangeInclusive<u32> = 1801..=1899;

/// Block size in bytes: powers of two in this range.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

/// Contents of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// File-system format, 1801 or 1802.
    pub format: u32,
    /// Block size in bytes: a power of two from 512 to 65536.
    pub block_bytes: u32,
    /// Base-2 logarithm of [`block_bytes`](Self::block_bytes), as stored.
    pub block_shift: u32,
    /// Inode of the directory of hidden files.
    pub master: u64,
    /// Lock protocol of the cluster, such as `lock_dlm`.
    pub lock_protocol: String,
    /// Names of the cluster and the volume.
    pub lock_table: String,
}

/// Error of opening a GFS2 image.
#[derive(Debug)]
pub enum OpenError {
    /// The image cannot be read.
    Io(io::Error),
    /// The image ends before the end of the superblock: its length in bytes.
    TooShort(u64),
    /// The superblock starts with this magic number instead of GFS2's.
    Magic(u32),
    /// Metadata of another type or format in the superblock's place: type, format.
    NoSuperblock(u32, u32),
    /// Unknown file-system format.
    Format(u32),
    /// Invalid block size, in bytes.
    BlockBytes(u32),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = disk::SUPERBLOCK_AT;
        match self {
            OpenError::Io(error) => write!(f, "cannot read the image: {error}"),
            OpenError::TooShort(bytes) => {
                let needed = at + disk::SUPERBLOCK_BYTES as u64;
                write!(f, "not a GFS2 image: expected at least {needed} bytes, found {bytes}")
            }
            OpenError::Magic(found) => {
                write!(f, "not a GFS2 image: at byte {at} expected {:#010x}, found {found:#010x}", disk::MAGIC)
            }
            OpenError::NoSuperblock(kind, format) => {
                write!(f, "not a GFS2 image: at byte {at} expected metadata type 1, format 100, found {kind}, {format}")
            }
            OpenError::Format(found) => {
                write!(f, "not a GFS2 image: at byte {} expected format 1801 or 1802, found {found}", at + 24)
            }
            OpenError::BlockBytes(found) => {
                let expected = "a power of two from 512 to 65536";
                write!(f, "not a GFS2 image: at byte {} expected a block size, {expected}, found {found}", at + 36)
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

/// A GFS2 image with a valid superblock.
pub struct Volume<R> {
    superblock: Superblock,
    blocks: Blocks<R>,
}

impl<R: Read + Seek> Volume<R> {
    /// Reads the superblock.
    ///
    /// # Errors
    /// [`OpenError`] if reading fails or the data is not a GFS2 image.
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

    /// Contents of the superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Number of whole blocks in the image, including those before the superblock and between groups.
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

/// Fixed-length text up to a NUL byte. Control characters are replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).to_string().replace(char::is_control, "?")
}
