// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes and extended attributes.

use super::inode::{TYPE, Xattrs, xattr_cost};
use super::permission::{READ, WRITE, without_privileges};
use super::{Attr, Caller, Ino, Result, Tree, permissions};
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};

/// Longest name of an extended attribute, in bytes.
pub const MAX_XATTR_NAME: usize = 255;
/// Longest value of an extended attribute, in bytes.
pub const MAX_XATTR_VALUE: usize = 65_536;

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The time of the call.
    Now,
    /// Nanoseconds since 1970.
    At(i64),
}

/// The attributes that a `setattr` changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// User that owns the file.
    pub uid: Option<u32>,
    /// Group that owns the file.
    pub gid: Option<u32>,
    /// Length of the file in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<When>,
    /// Last change of the content.
    pub mtime: Option<When>,
}

/// `XATTR_CREATE` and `XATTR_REPLACE` of `setxattr(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrFlags {
    /// Fail with `EEXIST` if the attribute exists.
    pub create: bool,
    /// Fail with `ENODATA` if the attribute does not exist.
    pub replace: bool,
}

impl Tree {
    /// Changes attributes: all of them, or none where one is refused. `opened` tells that the caller holds the file
    /// open for writing, which permits a new length whatever the mode says.
    pub fn setattr(&mut self, caller: &Caller, ino: Ino, set: &SetAttr, opened: bool) -> Result<Attr> {
        self.may_set(caller, ino, set, opened)?;
        if let Some(size) = set.size {
            self.truncate(caller, ino, size)?;
        }
        let inode = self.melt(ino)?;
        if (set.uid.is_some() || set.gid.is_some()) && caller.checked {
            inode.mode = without_privileges(inode.mode);
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        if let Some(mode) = set.mode {
            let foreign = caller.checked && caller.uid != 0 && !caller.in_group(inode.gid);
            let mode = if foreign { mode & !libc::S_ISGID } else { mode };
            inode.mode = inode.mode & TYPE | permissions(mode);
        }
        let time = |when| match when {
            When::Now => caller.now,
            When::At(at) => at,
        };
        inode.atime = set.atime.map_or(inode.atime, time);
        inode.mtime = set.mtime.map_or(inode.mtime, time);
        inode.ctime = caller.now;
        Ok(inode.attr())
    }

    fn may_set(&self, caller: &Caller, ino: Ino, set: &SetAttr, opened: bool) -> Result<()> {
        let inode = self.inode(ino)?;
        if set.size.is_some() {
            self.data(ino)?;
            if !opened {
                caller.may(inode, WRITE)?;
            }
        }
        if !caller.checked || caller.uid == 0 {
            return Ok(());
        }
        let foreign_owner = set.uid.is_some_and(|uid| uid != inode.uid);
        let foreign_group = set.gid.is_some_and(|gid| gid != inode.gid && !caller.in_group(gid));
        let changes_owner = set.uid.is_some() || set.gid.is_some();
        if foreign_owner || foreign_group || (set.mode.is_some() || changes_owner) && !caller.owns(inode) {
            return Err(Errno::PERM);
        }
        let explicit = [set.atime, set.mtime].iter().any(|when| matches!(when, Some(When::At(_))));
        if explicit && !caller.owns(inode) {
            return Err(Errno::PERM);
        }
        let implicit = set.size.is_none() && [set.atime, set.mtime].contains(&Some(When::Now));
        if implicit && !caller.owns(inode) { caller.may(inode, WRITE) } else { Ok(()) }
    }

    /// Notes an access. Skipped where the access time is newer than the last change and younger than a day, as
    /// `relatime` does.
    pub fn touch(&mut self, caller: &Caller, ino: Ino) {
        const DAY_NS: i64 = 86_400_000_000_000;
        let stale = self.inode(ino).is_ok_and(|inode| {
            inode.atime <= inode.mtime || inode.atime <= inode.ctime || caller.now - inode.atime >= DAY_NS
        });
        if stale && let Ok(inode) = self.melt(ino) {
            inode.atime = caller.now;
        }
    }

    fn xattr_access(&self, caller: &Caller, ino: Ino, name: &[u8], write: bool) -> Result<()> {
        let inode = self.inode(ino)?;
        if name.is_empty() || name.len() > MAX_XATTR_NAME {
            return Err(Errno::RANGE);
        }
        let plain = matches!(inode.kind(), libc::S_IFREG | libc::S_IFDIR);
        match name.split(|byte| *byte == b'.').next() {
            Some(b"user") if !plain => Err(if write { Errno::PERM } else { Errno::NODATA }),
            Some(b"user") => caller.may(inode, if write { WRITE } else { READ }),
            Some(b"trusted") if caller.checked && caller.uid != 0 => {
                Err(if write { Errno::PERM } else { Errno::NODATA })
            }
            Some(b"security") if write && !caller.owns(inode) => Err(Errno::PERM),
            Some(b"trusted" | b"security") => Ok(()),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// Value of an extended attribute; `ENODATA` if it does not exist.
    pub fn xattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<&[u8]> {
        self.xattr_access(caller, ino, name, false)?;
        let xattrs = self.inode(ino)?.xattrs.as_deref();
        xattrs.and_then(|xattrs| xattrs.map.get(name)).map(Vec::as_slice).ok_or(Errno::NODATA)
    }

    /// Names of the extended attributes, each with a NUL behind it, in byte order.
    pub fn xattr_names(&self, ino: Ino) -> Result<Vec<u8>> {
        let xattrs = self.inode(ino)?.xattrs.as_deref();
        Ok(xattrs
            .into_iter()
            .flat_map(|xattrs| xattrs.map.keys())
            .flat_map(|name| name.iter().copied().chain([0]))
            .collect())
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&mut self, caller: &Caller, ino: Ino, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<()> {
        self.xattr_access(caller, ino, name, true)?;
        if value.len() > MAX_XATTR_VALUE {
            return Err(Errno::TOOBIG);
        }
        let mut xattrs = self.inode(ino)?.xattrs.as_deref().cloned().unwrap_or_default();
        match xattrs.map.contains_key(name) {
            true if flags.create => return Err(Errno::EXIST),
            false if flags.replace => return Err(Errno::NODATA),
            _ => {}
        }
        let before = xattr_cost(&xattrs);
        xattrs.map.insert(name.to_vec(), value.to_vec());
        let after = xattr_cost(&xattrs);
        // All attributes of an inode go into one record of the store.
        if after > 4 * MAX_XATTR_VALUE as u64 {
            return Err(Errno::NOSPC);
        }
        self.room(after.saturating_sub(before))?;
        self.put_xattrs(caller, ino, xattrs)
    }

    /// Removes an extended attribute; `ENODATA` if it does not exist.
    pub fn remove_xattr(&mut self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<()> {
        self.xattr_access(caller, ino, name, true)?;
        let mut xattrs = self.inode(ino)?.xattrs.as_deref().cloned().unwrap_or_default();
        xattrs.map.remove(name).ok_or(Errno::NODATA)?;
        self.put_xattrs(caller, ino, xattrs)
    }

    fn put_xattrs(&mut self, caller: &Caller, ino: Ino, mut xattrs: Xattrs) -> Result<()> {
        xattrs.saved = OnceLock::new();
        let after = xattr_cost(&xattrs);
        let inode = self.melt(ino)?;
        let before = inode.xattrs.as_deref().map_or(0, xattr_cost);
        inode.xattrs = (!xattrs.map.is_empty()).then(|| Arc::new(xattrs));
        inode.ctime = caller.now;
        self.used = self.used + after - before;
        Ok(())
    }
}
