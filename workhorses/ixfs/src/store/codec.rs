// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and records as bytes. Everything is little-endian. Reading never panics and never allocates more than the
//! bytes that are there.

use super::Ptr;
use crate::tree::inode::{Inode, Xattrs};
use crate::tree::{Body, Data, Dir, Entry};

/// The bytes are not what their checksum vouches for: written by a mistaken or newer program, or forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed record: {0}")]
pub struct Malformed(pub &'static str);

/// Appends numbers and byte strings.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a length of four bytes and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    /// Appends an address.
    pub fn ptr(&mut self, ptr: Ptr) {
        self.u32(ptr.block);
        self.u32(ptr.len);
        self.u64(ptr.sum);
    }
}

/// Takes numbers and byte strings off the front.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Takes `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed("it ends too early"))
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Takes four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Takes eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Takes a length and as many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// Takes an address.
    pub fn ptr(&mut self) -> Result<Ptr, Malformed> {
        Ok(Ptr { block: self.u32()?, len: self.u32()?, sum: self.u64()? })
    }

    /// Fails unless everything was taken.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("bytes are left over")) }
    }
}

/// Appends the attributes of an inode, without extended attributes and content.
pub fn write_attributes(out: &mut Writer, inode: &Inode) {
    out.u64(inode.ino);
    for value in [inode.mode, inode.uid, inode.gid, inode.nlink, inode.rdev] {
        out.u32(value);
    }
    for time in [inode.atime, inode.mtime, inode.ctime, inode.btime] {
        out.u64(time as u64);
    }
    match &inode.body {
        Body::File(data) => out.u64(data.len),
        Body::Dir(dir) => out.u64(dir.parent),
        Body::Symlink(target) => out.bytes(target),
        Body::Special => {}
    }
}

/// Takes what [`write_attributes`] wrote. The content is empty.
pub fn read_attributes(from: &mut Reader<'_>) -> Result<Inode, Malformed> {
    let ino = from.u64()?;
    let (mode, uid, gid, nlink, rdev) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?, from.u32()?);
    let mut times = [0; 4];
    for time in &mut times {
        *time = from.u64()? as i64;
    }
    let body = match mode & libc::S_IFMT {
        libc::S_IFREG => {
            let len = from.u64()?;
            // Version 1 allowed one page more.
            if len > crate::tree::data::MAX_LEN + crate::tree::PAGE as u64 {
                return Err(Malformed("a file is longer than the limit"));
            }
            Body::File(Data::new(len, Default::default()))
        }
        libc::S_IFDIR => Body::Dir(Box::new(Dir { parent: from.u64()?, entries: Default::default(), count: 0 })),
        libc::S_IFLNK => Body::Symlink(from.bytes()?.into()),
        libc::S_IFCHR | libc::S_IFBLK | libc::S_IFIFO | libc::S_IFSOCK => Body::Special,
        _ => return Err(Malformed("an inode has no type")),
    };
    let [atime, mtime, ctime, btime] = times;
    if ino == 0 || ino >= u64::MAX / 2 {
        return Err(Malformed("an inode number is out of range"));
    }
    Ok(Inode { ino, mode, uid, gid, nlink, rdev, atime, mtime, ctime, btime, xattrs: None, body })
}

/// Extended attributes as bytes.
pub fn xattr_bytes(xattrs: &Xattrs) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(xattrs.map.len() as u32);
    for (name, value) in &xattrs.map {
        out.bytes(name);
        out.bytes(value);
    }
    out.0
}

/// Extended attributes from bytes.
pub fn xattrs_from(bytes: &[u8]) -> Result<Xattrs, Malformed> {
    let mut from = Reader(bytes);
    let mut xattrs = Xattrs::default();
    for _ in 0..from.u32()? {
        xattrs.map.insert(from.bytes()?.to_vec(), from.bytes()?.to_vec());
    }
    from.end()?;
    Ok(xattrs)
}

/// Appends a directory entry.
pub fn write_entry(out: &mut Writer, entry: &Entry) {
    out.u64(entry.ino);
    out.u32(entry.kind());
    out.bytes(entry.name());
}

/// Takes a directory entry.
pub fn read_entry(from: &mut Reader<'_>) -> Result<Entry, Malformed> {
    let (ino, kind) = (from.u64()?, from.u32()?);
    let name = from.bytes()?;
    if kind & !libc::S_IFMT != 0 {
        return Err(Malformed("a directory entry has no type"));
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(Malformed("a name is not a file name"));
    }
    Entry::new(ino, kind, name).map_err(|_| Malformed("a name is too long"))
}
