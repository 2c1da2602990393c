// SPDX-License-Identifier: MIT OR Apache-2.0
//! An inode: attributes, extended attributes, and what its kind holds.

use super::data::{Data, PAGE};
use super::name::Name;
use super::radix::Radix;
use crate::store::Ptr;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Inode number. Numbers are never used twice in the life of a store, so a number alone can be a 9P qid path.
pub type Ino = u64;

/// The root directory.
pub const ROOT: Ino = 1;

/// Mask of the type in a mode word.
pub const TYPE: u32 = libc::S_IFMT;
/// Position of the type in a mode word.
const TYPE_SHIFT: u32 = TYPE.trailing_zeros();
/// Permission bits of a mode word, set-id and sticky bits among them.
pub const PERMISSIONS: u32 = 0o7777;

/// Memory charged to the quota for an inode, in bytes.
pub const INODE_COST: u64 = 512;
/// Memory charged to the quota for a directory entry, in bytes, beside its name.
pub const ENTRY_COST: u64 = 64;

/// Extended attributes of an inode.
#[derive(Clone, Default)]
pub struct Xattrs {
    /// Address of these attributes in the store, if they have a place of their own there. A changed set is a new value.
    pub saved: OnceLock<Ptr>,
    /// Values by name.
    pub map: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A directory entry. A large directory is an array of these, so the type is kept with the name.
#[derive(Clone)]
pub struct Entry {
    /// The inode that the entry names.
    pub ino: Ino,
    /// The name, without `/` and NUL, and the type without the permissions.
    name: Name,
}

impl Entry {
    /// An entry; `kind` is the inode's type, as in a mode word. `ENAMETOOLONG` if the name has more than 255 bytes.
    pub fn new(ino: Ino, kind: u32, name: &[u8]) -> super::Result<Entry> {
        Ok(Entry { ino, name: Name::new(name, (kind >> TYPE_SHIFT) as u8)? })
    }

    /// The inode's type, as in a mode word.
    pub fn kind(&self) -> u32 {
        u32::from(self.name.number()) << TYPE_SHIFT
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The same name for another inode number.
    pub fn renumbered(&self, ino: Ino) -> Entry {
        Entry { ino, name: self.name.clone() }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.ino, self.kind(), self.name()) == (other.ino, other.kind(), other.name())
    }
}

impl Eq for Entry {}

impl std::fmt::Debug for Entry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?} #{} {:o}", self.name, self.ino, self.kind())
    }
}

/// Content of a directory.
#[derive(Clone)]
pub struct Dir {
    /// The directory that holds this one; the root holds itself.
    pub parent: Ino,
    /// Entries by cookie (`Tree::cookie`).
    pub entries: Radix<Entry>,
    /// Number of entries.
    pub count: u64,
}

/// What an inode holds beside its attributes.
#[derive(Clone)]
pub enum Body {
    /// A regular file.
    File(Data),
    /// A directory.
    Dir(Box<Dir>),
    /// A symbolic link and its target.
    Symlink(Arc<[u8]>),
    /// A device, socket or FIFO.
    Special,
}

/// An inode.
#[derive(Clone)]
pub struct Inode {
    /// Inode number.
    pub ino: Ino,
    /// Type and permissions.
    pub mode: u32,
    /// User that owns the file.
    pub uid: u32,
    /// Group that owns the file.
    pub gid: u32,
    /// Number of names; a directory's includes `.` and its children's `..`. 0: removed, but still open.
    pub nlink: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Last access, in nanoseconds since 1970.
    pub atime: i64,
    /// Last change of the content, in nanoseconds since 1970.
    pub mtime: i64,
    /// Last change of content or attributes, in nanoseconds since 1970.
    pub ctime: i64,
    /// Creation, in nanoseconds since 1970.
    pub btime: i64,
    /// Extended attributes, if there are any.
    pub xattrs: Option<Arc<Xattrs>>,
    /// Content.
    pub body: Body,
}

/// Attributes of an inode, as `stat` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Type and permissions.
    pub mode: u32,
    /// User that owns the file.
    pub uid: u32,
    /// Group that owns the file.
    pub gid: u32,
    /// Number of names.
    pub nlink: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Length in bytes.
    pub size: u64,
    /// Units of 512 bytes that are not holes.
    pub blocks: u64,
    /// Last access, in nanoseconds since 1970.
    pub atime: i64,
    /// Last change of the content.
    pub mtime: i64,
    /// Last change of content or attributes.
    pub ctime: i64,
    /// Creation.
    pub btime: i64,
}

impl Inode {
    /// The type, as in a mode word.
    pub fn kind(&self) -> u32 {
        self.mode & TYPE
    }

    /// Attributes as `stat` shows them.
    pub fn attr(&self) -> Attr {
        let (size, blocks) = match &self.body {
            Body::File(data) => (data.len, data.count() * (PAGE as u64 / 512)),
            Body::Dir(dir) => (dir.count * 32, 0),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Special => (0, 0),
        };
        let Inode { ino, mode, uid, gid, nlink, rdev, atime, mtime, ctime, btime, .. } = *self;
        Attr { ino, mode, uid, gid, nlink, rdev, size, blocks, atime, mtime, ctime, btime }
    }

    /// Bytes of pages that the store must hold for this inode.
    pub fn disk(&self) -> u64 {
        match &self.body {
            Body::File(data) => data.count() * PAGE as u64,
            _ => 0,
        }
    }

    /// Bytes of pages in memory.
    pub fn resident(&self) -> u64 {
        match &self.body {
            Body::File(data) => data.resident() * PAGE as u64,
            _ => 0,
        }
    }

    /// Memory charged to the quota for this inode, in bytes; a directory's entries included.
    pub fn cost(&self) -> u64 {
        let body = match &self.body {
            Body::File(_) => self.resident(),
            Body::Dir(dir) => dir.entries.range(0).map(|(_, entry)| ENTRY_COST + entry.name().len() as u64).sum(),
            Body::Symlink(target) => target.len() as u64,
            Body::Special => 0,
        };
        INODE_COST + body + self.xattrs.as_deref().map_or(0, xattr_cost)
    }
}

/// Memory charged for extended attributes, in bytes.
pub fn xattr_cost(xattrs: &Xattrs) -> u64 {
    xattrs.map.iter().map(|(name, value)| 64 + name.len() as u64 + value.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::super::radix::Slot;
    use super::*;

    #[test]
    fn inodes_and_entries_stay_small() {
        // `tests/memory.rs` measures what the sum is with the allocator's share.
        assert!(size_of::<Inode>() <= 120, "{} bytes", size_of::<Inode>());
        assert!(size_of::<Slot<Entry>>() <= 32, "{} bytes", size_of::<Slot<Entry>>());
        assert!(size_of::<Slot<Arc<Inode>>>() <= 24, "{} bytes", size_of::<Slot<Arc<Inode>>>());
    }
}
