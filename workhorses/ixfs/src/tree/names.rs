// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: lookup, creation, links, removal, and the listing of directories.

use super::inode::{ENTRY_COST, TYPE};
use super::permission::{EXECUTE, WRITE};
use super::radix::Radix;
use super::{Body, Caller, Data, Dir, Entry, INODE_COST, Ino, Inode, MAX_LINKS, MAX_NAME, Result, Tree, permissions};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Longest target of a symbolic link, in bytes.
pub const MAX_TARGET: usize = 4095;

/// Cookies with the same hash that a directory can hold.
const SAME_HASH: u64 = 256;

/// An inode to create.
#[derive(Clone, Debug)]
pub struct New<'a> {
    /// Type and permissions, the umask already applied.
    pub mode: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Target of a symbolic link.
    pub target: &'a [u8],
}

impl<'a> New<'a> {
    /// A regular file.
    pub fn file(permissions: u32) -> New<'a> {
        New { mode: libc::S_IFREG | permissions, rdev: 0, target: b"" }
    }

    /// A directory.
    pub fn dir(permissions: u32) -> New<'a> {
        New { mode: libc::S_IFDIR | permissions, rdev: 0, target: b"" }
    }

    /// A symbolic link.
    pub fn symlink(target: &'a [u8]) -> New<'a> {
        New { mode: libc::S_IFLNK | 0o777, rdev: 0, target }
    }
}

/// Checks a name for a new entry: `ENAMETOOLONG`, or `EINVAL` for one that no system call could pass.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        _ if name.len() > MAX_NAME => Err(Errno::NAMETOOLONG),
        b"" => Err(Errno::NOENT),
        b"." | b".." => Err(Errno::EXIST),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

impl Tree {
    /// The lowest cookie that `name` can have in a directory: 55 bits of its hash, then 8 bits that count names with
    /// the same hash. Cookies are at least 256 and below 2^63; FUSE and 9P use 1 and 2 for `.` and `..`.
    pub fn cookie(&self, name: &[u8]) -> u64 {
        (xxh3_64_with_seed(name, self.seed) >> 9).max(1) << 8
    }

    pub(super) fn find<'a>(&self, dir: &'a Dir, name: &[u8]) -> Option<(u64, &'a Entry)> {
        let first = self.cookie(name);
        dir.entries.range(first).take_while(|(cookie, _)| cookie - first < SAME_HASH).find(|(_, e)| e.name() == name)
    }

    /// Finds the inode that `name` in directory `parent` refers to, `.` and `..` included.
    pub fn lookup(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Ino> {
        let dir = self.dir(parent)?;
        caller.may(self.inode(parent)?, EXECUTE)?;
        match name {
            b"." => Ok(parent),
            b".." => Ok(dir.parent),
            _ if name.len() > MAX_NAME => Err(Errno::NAMETOOLONG),
            _ => self.find(dir, name).map(|(_, entry)| entry.ino).ok_or(Errno::NOENT),
        }
    }

    /// Resolves a path of names separated by `/`; symbolic links are not followed.
    pub fn resolve(&self, path: &str) -> Result<Ino> {
        let caller = Caller::root(0);
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(super::ROOT, |ino, name| self.lookup(&caller, ino, name.as_bytes()))
    }

    /// Checks that `parent` can take a new entry `name` and that the quota has room for it and `extra` bytes.
    pub(super) fn can_add(&self, caller: &Caller, parent: Ino, name: &[u8], extra: u64) -> Result<()> {
        let dir = self.dir(parent)?;
        check_name(name)?;
        let inode = self.inode(parent)?;
        caller.may(inode, EXECUTE)?;
        if self.find(dir, name).is_some() {
            return Err(Errno::EXIST);
        }
        if inode.nlink == 0 {
            return Err(Errno::NOENT);
        }
        caller.may(inode, WRITE)?;
        self.room(ENTRY_COST + name.len() as u64 + extra)
    }

    /// Adds an entry that is known not to exist. Only 256 names with one hash can fail this, with `ENOSPC`.
    pub(super) fn add_entry(&mut self, caller: &Caller, parent: Ino, entry: Entry) -> Result<()> {
        let first = self.cookie(entry.name());
        let cost = ENTRY_COST + entry.name().len() as u64;
        let (dir, mtime, ctime) = self.melt_dir(parent)?;
        let cookie = (first..first + SAME_HASH).find(|c| dir.entries.get(*c).is_none()).ok_or(Errno::NOSPC)?;
        dir.entries.insert(cookie, entry);
        dir.count += 1;
        (*mtime, *ctime) = (caller.now, caller.now);
        self.used += cost;
        Ok(())
    }

    pub(super) fn remove_entry(&mut self, caller: &Caller, parent: Ino, cookie: u64) -> Result<Entry> {
        let (dir, mtime, ctime) = self.melt_dir(parent)?;
        let entry = dir.entries.remove(cookie).ok_or(Errno::NOENT)?;
        dir.count -= 1;
        (*mtime, *ctime) = (caller.now, caller.now);
        self.used -= ENTRY_COST + entry.name().len() as u64;
        Ok(entry)
    }

    /// Creates an inode with its first name and returns its number.
    pub fn create(&mut self, caller: &Caller, parent: Ino, name: &[u8], new: &New<'_>) -> Result<Ino> {
        self.can_add(caller, parent, name, INODE_COST + new.target.len() as u64)?;
        if new.target.len() > MAX_TARGET {
            return Err(Errno::NAMETOOLONG);
        }
        let kind = new.mode & TYPE;
        let holder = self.inode(parent)?;
        let is_dir = kind == libc::S_IFDIR;
        if is_dir && holder.nlink >= MAX_LINKS {
            return Err(Errno::MLINK);
        }
        let inherits = holder.mode & libc::S_ISGID != 0;
        let gid = if inherits { holder.gid } else { caller.gid };
        let mut mode = kind | permissions(new.mode);
        if inherits && is_dir {
            mode |= libc::S_ISGID;
        }
        let body = match kind {
            libc::S_IFDIR => Body::Dir(Box::new(Dir { parent, entries: Radix::default(), count: 0 })),
            libc::S_IFREG => Body::File(Data::default()),
            libc::S_IFLNK => Body::Symlink(new.target.into()),
            libc::S_IFCHR | libc::S_IFBLK | libc::S_IFIFO | libc::S_IFSOCK => Body::Special,
            _ => return Err(Errno::INVAL),
        };
        let ino = self.next_ino;
        self.add_entry(caller, parent, Entry::new(ino, kind, name)?)?;
        if is_dir {
            self.melt(parent)?.nlink += 1;
        }
        let now = caller.now;
        self.adopt(Inode {
            ino,
            mode,
            uid: caller.uid,
            gid,
            nlink: if is_dir { 2 } else { 1 },
            rdev: new.rdev,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            xattrs: None,
            body,
        });
        Ok(ino)
    }

    /// Gives an inode another name.
    pub fn link(&mut self, caller: &Caller, ino: Ino, parent: Ino, name: &[u8]) -> Result<()> {
        let inode = self.inode(ino)?;
        let kind = inode.kind();
        if kind == libc::S_IFDIR {
            return Err(Errno::PERM);
        }
        if inode.nlink == 0 {
            return Err(Errno::NOENT);
        }
        if inode.nlink >= MAX_LINKS {
            return Err(Errno::MLINK);
        }
        self.can_add(caller, parent, name, 0)?;
        self.add_entry(caller, parent, Entry::new(ino, kind, name)?)?;
        let inode = self.melt(ino)?;
        inode.nlink += 1;
        inode.ctime = caller.now;
        Ok(())
    }

    /// Removes a name (`unlink`, or `rmdir` if `directory`). Returns the inode if that was its last name; it stays in
    /// the tree until [`Tree::release`].
    pub fn unlink(&mut self, caller: &Caller, parent: Ino, name: &[u8], directory: bool) -> Result<Option<Ino>> {
        let dir = self.dir(parent)?;
        caller.may(self.inode(parent)?, EXECUTE)?;
        match name {
            b"." if directory => return Err(Errno::INVAL),
            b".." if directory => return Err(Errno::NOTEMPTY),
            b"." | b".." => return Err(Errno::ISDIR),
            _ if name.len() > MAX_NAME => return Err(Errno::NAMETOOLONG),
            _ => {}
        }
        let (cookie, entry) = self.find(dir, name).ok_or(Errno::NOENT)?;
        let (ino, is_dir) = (entry.ino, entry.kind() == libc::S_IFDIR);
        self.may_remove(caller, self.inode(parent)?, self.inode(ino)?)?;
        match (directory, is_dir) {
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            (true, true) if self.dir(ino)?.count > 0 => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        self.remove_entry(caller, parent, cookie)?;
        if is_dir {
            self.melt(parent)?.nlink -= 1;
        }
        self.drop_link(caller, ino)
    }

    /// Takes one link off an inode whose entry is gone; a directory loses all. Returns it if none is left.
    pub(super) fn drop_link(&mut self, caller: &Caller, ino: Ino) -> Result<Option<Ino>> {
        let inode = self.melt(ino)?;
        inode.nlink = if inode.kind() == libc::S_IFDIR { 0 } else { inode.nlink - 1 };
        inode.ctime = caller.now;
        Ok((inode.nlink == 0).then_some(ino))
    }

    /// Entries of a directory whose cookie is greater than `after`, in the order of cookies, without `.` and `..`.
    pub fn list(&self, ino: Ino, after: u64) -> Result<impl Iterator<Item = (u64, &Entry)>> {
        Ok(self.dir(ino)?.entries.range(after.saturating_add(1)))
    }

    /// The directory that holds directory `ino`.
    pub fn parent(&self, ino: Ino) -> Result<Ino> {
        Ok(self.dir(ino)?.parent)
    }
}
