// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of 9P2000.L. Numbers are little-endian; a string is a length of two bytes and its bytes.

use crate::store::codec::{Malformed, Reader};
use crate::tree::Attr;

/// Bytes before a message's own fields: size, type, tag.
pub const HEADER: usize = 7;
/// Largest message that a client may choose, in bytes.
pub const MAX_MESSAGE: u32 = 1 << 20;
/// Smallest message size that a client may choose, in bytes.
pub const MIN_MESSAGE: u32 = 4096;
/// Most names in one walk.
pub const MAX_WALK: usize = 16;
/// The tag of `Tversion`.
pub const NO_TAG: u16 = 0xffff;
/// The fid and the user that stand for none.
pub const NONE: u32 = 0xffff_ffff;

/// Result of decoding.
pub type Result<T> = std::result::Result<T, Malformed>;

/// A request. Fields are named as in the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Request<'a> {
    Version { msize: u32, version: &'a [u8] },
    Auth,
    Attach { fid: u32, uname: &'a [u8], aname: &'a [u8], uid: u32 },
    Flush { oldtag: u16 },
    Walk { fid: u32, newfid: u32, names: Vec<&'a [u8]> },
    Read { fid: u32, offset: u64, count: u32 },
    Write { fid: u32, offset: u64, data: &'a [u8] },
    Clunk { fid: u32 },
    Remove { fid: u32 },
    Statfs { fid: u32 },
    Open { fid: u32, flags: u32 },
    Create { fid: u32, name: &'a [u8], flags: u32, mode: u32, gid: u32 },
    Symlink { fid: u32, name: &'a [u8], target: &'a [u8], gid: u32 },
    Mknod { fid: u32, name: &'a [u8], mode: u32, major: u32, minor: u32, gid: u32 },
    Rename { fid: u32, dir: u32, name: &'a [u8] },
    Readlink { fid: u32 },
    Getattr { fid: u32 },
    Setattr { fid: u32, set: Setattr },
    XattrWalk { fid: u32, newfid: u32, name: &'a [u8] },
    XattrCreate { fid: u32, name: &'a [u8], size: u64, flags: u32 },
    Readdir { fid: u32, offset: u64, count: u32 },
    Fsync { fid: u32, datasync: bool },
    Lock { fid: u32, lock: Lock<'a> },
    Getlock { fid: u32, lock: Lock<'a> },
    Link { dir: u32, fid: u32, name: &'a [u8] },
    Mkdir { fid: u32, name: &'a [u8], mode: u32, gid: u32 },
    RenameAt { from: u32, name: &'a [u8], to: u32, newname: &'a [u8] },
    UnlinkAt { dir: u32, name: &'a [u8], flags: u32 },
    Unknown(u8),
}

/// Fields of `Tsetattr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Setattr {
    pub valid: u32,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub atime: (u64, u64),
    pub mtime: (u64, u64),
}

/// Fields of `Tlock` and `Tgetlock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Lock<'a> {
    pub kind: u8,
    pub start: u64,
    pub len: u64,
    pub process: u32,
    pub client: &'a [u8],
}

fn u16(from: &mut Reader<'_>) -> Result<u16> {
    let bytes = from.take(2)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn string<'a>(from: &mut Reader<'a>) -> Result<&'a [u8]> {
    let len = u16(from)?;
    from.take(len.into())
}

/// Decodes a message without its size: type, tag, fields.
pub fn decode(bytes: &[u8]) -> Result<(u16, Request<'_>)> {
    let mut from = Reader(bytes);
    let kind = from.u8()?;
    let tag = u16(&mut from)?;
    let request = fields(kind, &mut from)?;
    if !matches!(request, Request::Unknown(_)) {
        from.end()?;
    }
    Ok((tag, request))
}

fn fields<'a>(kind: u8, from: &mut Reader<'a>) -> Result<Request<'a>> {
    use Request::*;
    Ok(match kind {
        8 => Statfs { fid: from.u32()? },
        12 => Open { fid: from.u32()?, flags: from.u32()? },
        14 => Create { fid: from.u32()?, name: string(from)?, flags: from.u32()?, mode: from.u32()?, gid: from.u32()? },
        16 => Symlink { fid: from.u32()?, name: string(from)?, target: string(from)?, gid: from.u32()? },
        18 => Mknod {
            fid: from.u32()?,
            name: string(from)?,
            mode: from.u32()?,
            major: from.u32()?,
            minor: from.u32()?,
            gid: from.u32()?,
        },
        20 => Rename { fid: from.u32()?, dir: from.u32()?, name: string(from)? },
        22 => Readlink { fid: from.u32()? },
        24 => {
            let fid = from.u32()?;
            from.u64()?; // every attribute is cheap: the mask is of no use
            Getattr { fid }
        }
        26 => Setattr { fid: from.u32()?, set: setattr(from)? },
        30 => XattrWalk { fid: from.u32()?, newfid: from.u32()?, name: string(from)? },
        32 => XattrCreate { fid: from.u32()?, name: string(from)?, size: from.u64()?, flags: from.u32()? },
        40 => Readdir { fid: from.u32()?, offset: from.u64()?, count: from.u32()? },
        // The word `datasync` is missing in the protocol's usual description and from old clients.
        50 => Fsync { fid: from.u32()?, datasync: !from.0.is_empty() && from.u32()? != 0 },
        52 => {
            let (fid, kind) = (from.u32()?, from.u8()?);
            from.u32()?; // flags: this server never blocks, the client asks again
            Lock { fid, lock: lock(kind, from)? }
        }
        54 => {
            let (fid, kind) = (from.u32()?, from.u8()?);
            Getlock { fid, lock: lock(kind, from)? }
        }
        70 => Link { dir: from.u32()?, fid: from.u32()?, name: string(from)? },
        72 => Mkdir { fid: from.u32()?, name: string(from)?, mode: from.u32()?, gid: from.u32()? },
        74 => RenameAt { from: from.u32()?, name: string(from)?, to: from.u32()?, newname: string(from)? },
        76 => UnlinkAt { dir: from.u32()?, name: string(from)?, flags: from.u32()? },
        _ => return core_fields(kind, from),
    })
}

fn core_fields<'a>(kind: u8, from: &mut Reader<'a>) -> Result<Request<'a>> {
    use Request::*;
    Ok(match kind {
        100 => Version { msize: from.u32()?, version: string(from)? },
        102 => {
            from.take(from.0.len())?;
            Auth
        }
        104 => {
            let (fid, _afid) = (from.u32()?, from.u32()?);
            Attach { fid, uname: string(from)?, aname: string(from)?, uid: from.u32()? }
        }
        108 => Flush { oldtag: u16(from)? },
        110 => {
            let (fid, newfid, count) = (from.u32()?, from.u32()?, u16(from)?);
            if usize::from(count) > MAX_WALK {
                return Err(Malformed("a walk has more than 16 names"));
            }
            let names = (0..count).map(|_| string(from)).collect::<Result<Vec<_>>>()?;
            Walk { fid, newfid, names }
        }
        116 => Read { fid: from.u32()?, offset: from.u64()?, count: from.u32()? },
        118 => Write { fid: from.u32()?, offset: from.u64()?, data: from.bytes()? },
        120 => Clunk { fid: from.u32()? },
        122 => Remove { fid: from.u32()? },
        other => Unknown(other),
    })
}

fn setattr(from: &mut Reader<'_>) -> Result<Setattr> {
    Ok(Setattr {
        valid: from.u32()?,
        mode: from.u32()?,
        uid: from.u32()?,
        gid: from.u32()?,
        size: from.u64()?,
        atime: (from.u64()?, from.u64()?),
        mtime: (from.u64()?, from.u64()?),
    })
}

fn lock<'a>(kind: u8, from: &mut Reader<'a>) -> Result<Lock<'a>> {
    Ok(Lock { kind, start: from.u64()?, len: from.u64()?, process: from.u32()?, client: string(from)? })
}

/// A message under construction.
pub struct Message(Vec<u8>);

impl Message {
    /// A message of a type.
    pub fn new(kind: u8, tag: u16) -> Message {
        let mut bytes = vec![0; 4];
        bytes.push(kind);
        bytes.extend_from_slice(&tag.to_le_bytes());
        Message(bytes)
    }

    /// `Rlerror`.
    pub fn error(tag: u16, error: rustix::io::Errno) -> Message {
        Message::new(7, tag).u32(error.raw_os_error() as u32)
    }

    /// Appends one byte.
    pub fn u8(mut self, value: u8) -> Message {
        self.0.push(value);
        self
    }

    /// Appends two bytes.
    pub fn u16(mut self, value: u16) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends four bytes.
    pub fn u32(mut self, value: u32) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends eight bytes.
    pub fn u64(mut self, value: u64) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a string.
    pub fn string(self, text: &[u8]) -> Message {
        let mut message = self.u16(text.len() as u16);
        message.0.extend_from_slice(text);
        message
    }

    /// Appends a length of four bytes and data.
    pub fn data(self, data: &[u8]) -> Message {
        let mut message = self.u32(data.len() as u32);
        message.0.extend_from_slice(data);
        message
    }

    /// Appends the qid of an inode. Inode numbers are never used twice, so the path is unique forever.
    pub fn qid(self, attr: &Attr) -> Message {
        self.u8(qid_type(attr.mode)).u32(version(attr)).u64(attr.ino)
    }

    /// The message with its size.
    pub fn finish(mut self) -> Vec<u8> {
        let size = self.0.len() as u32;
        self.0[..4].copy_from_slice(&size.to_le_bytes());
        self.0
    }

    /// Length so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes; there always are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The type byte of a qid.
pub fn qid_type(mode: u32) -> u8 {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => 0x80,
        libc::S_IFLNK => 0x02,
        _ => 0,
    }
}

/// The version word of a qid: changes with the content.
fn version(attr: &Attr) -> u32 {
    (attr.mtime ^ attr.mtime >> 32) as u32
}
