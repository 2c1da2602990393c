// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree in memory: the master copy.
//!
//! [`Tree`] is a persistent structure: [`Tree::freeze`] is a clone that takes constant time, and a change of either
//! copy copies only the nodes on its path (it *melts* them). The store writes frozen trees while the live one keeps
//! changing.
//!
//! No operation here touches the disk, with one exception: a page that was evicted from memory is read through
//! [`Fetch`].

pub mod attributes;
pub mod data;
pub mod inode;
mod name;
pub mod names;
pub mod permission;
pub mod radix;
pub mod rename;

pub use attributes::SetAttr;
pub use data::{Data, Fetch, Growth, NoStore, PAGE, Page};
pub use inode::{Attr, Body, Dir, Entry, Ino, Inode, ROOT};
pub use rename::RenameFlags;

use inode::{INODE_COST, PERMISSIONS};
use radix::Radix;
use rustix::io::Errno;
use std::sync::Arc;

/// Result of an operation on the tree: an error is the `errno` that the caller of the system call sees.
pub type Result<T> = std::result::Result<T, Errno>;

/// Longest name, in bytes.
pub const MAX_NAME: usize = 255;
/// Most names of one inode.
pub const MAX_LINKS: u32 = 65_000;

/// The user on whose behalf an operation runs, and when.
#[derive(Clone, Debug)]
pub struct Caller {
    /// User; owns what the operation creates.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Whether the tree checks permissions. For FUSE requests the kernel does.
    pub checked: bool,
    /// The time to stamp, in nanoseconds since 1970.
    pub now: i64,
}

impl Caller {
    /// A caller that may do everything.
    pub fn root(now: i64) -> Caller {
        Caller { uid: 0, gid: 0, groups: Vec::new(), checked: false, now }
    }

    /// A caller whose permissions the tree checks.
    pub fn user(uid: u32, gid: u32, groups: Vec<u32>, now: i64) -> Caller {
        Caller { uid, gid, groups, checked: true, now }
    }
}

/// A whole file tree.
#[derive(Clone)]
pub struct Tree {
    /// Inodes by number.
    pub inodes: Radix<Arc<Inode>>,
    /// The next inode number; it only grows.
    pub next_ino: Ino,
    /// Key of the hash from which directory cookies are made; random, fixed for the life of a store.
    pub seed: u64,
    /// Memory charged to the quota, in bytes.
    pub used: u64,
    /// Number of inodes.
    pub count: u64,
    /// The quota of memory, in bytes.
    pub limit: u64,
    /// Size in bytes of all file pages, in memory and in the store.
    pub disk: u64,
    /// Size in bytes of the file pages in memory.
    pub resident: u64,
    /// What the store can hold, in bytes: of pages not in memory and of memory charged.
    pub disk_limit: u64,
    /// Pages written so far, in bytes: two copies of the tree differ in at most as many as this grew.
    pub churn: u64,
    /// Where evicted pages are read from.
    pub fetch: Arc<dyn Fetch>,
}

impl Tree {
    /// A tree with an empty root directory.
    pub fn new(seed: u64, limit: u64, now: i64) -> Tree {
        let mut tree = Tree {
            inodes: Radix::default(),
            next_ino: ROOT + 1,
            seed,
            used: 0,
            count: 0,
            limit,
            disk: 0,
            resident: 0,
            disk_limit: limit,
            churn: 0,
            fetch: Arc::new(NoStore),
        };
        let body = Body::Dir(Box::new(Dir { parent: ROOT, entries: Radix::default(), count: 0 }));
        let root = Inode {
            ino: ROOT,
            mode: libc::S_IFDIR | 0o755,
            uid: 0,
            gid: 0,
            nlink: 2,
            rdev: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            xattrs: None,
            body,
        };
        tree.adopt(root);
        tree
    }

    /// A copy that later changes of this tree do not touch. Takes constant time and shares everything.
    pub fn freeze(&self) -> Tree {
        self.clone()
    }

    /// Adds a whole inode and charges it to the quota, whatever the quota says.
    pub fn adopt(&mut self, inode: Inode) {
        self.used += inode.cost();
        self.disk += inode.disk();
        self.resident += inode.resident();
        self.count += 1;
        self.next_ino = self.next_ino.max(inode.ino + 1);
        self.inodes.insert(inode.ino, Arc::new(inode));
    }

    /// The inode `ino`; `ENOENT` if there is none.
    pub fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.inodes.get(ino).map(|inode| &**inode).ok_or(Errno::NOENT)
    }

    /// Returns an inode for changes; copies it first if a frozen tree shares it.
    fn melt(&mut self, ino: Ino) -> Result<&mut Inode> {
        self.inodes.get_mut(ino).map(Arc::make_mut).ok_or(Errno::NOENT)
    }

    fn dir(&self, ino: Ino) -> Result<&Dir> {
        match &self.inode(ino)?.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn melt_dir(&mut self, ino: Ino) -> Result<(&mut Dir, &mut i64, &mut i64)> {
        let inode = self.melt(ino)?;
        match &mut inode.body {
            Body::Dir(dir) => Ok((dir, &mut inode.mtime, &mut inode.ctime)),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The data of a regular file: `EISDIR` for a directory, `EINVAL` for others.
    fn data(&self, ino: Ino) -> Result<&Data> {
        match &self.inode(ino)?.body {
            Body::File(data) => Ok(data),
            Body::Dir(_) => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    /// Fails with `ENOSPC` unless memory and store have room for `bytes` more.
    fn room(&self, bytes: u64) -> Result<()> {
        let memory = self.used.saturating_add(bytes);
        if memory > self.limit || self.stored().saturating_add(bytes) > self.disk_limit {
            return Err(Errno::NOSPC);
        }
        Ok(())
    }

    /// Bytes that the store must hold: what is charged to memory, and the pages that are not there.
    pub fn stored(&self) -> u64 {
        self.used + self.disk - self.resident
    }

    /// Attributes of an inode.
    pub fn attr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.inode(ino)?.attr())
    }

    /// Target of a symbolic link; `EINVAL` for other inodes.
    pub fn readlink(&self, ino: Ino) -> Result<Arc<[u8]>> {
        match &self.inode(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }

    /// Reads into `out` and returns the number of bytes, fewer than asked only at the end of the file.
    pub fn read(&self, ino: Ino, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.data(ino)?.read(offset, out, &*self.fetch)
    }

    /// Writes all bytes or none: `ENOSPC` before anything is changed if the quota lacks room, `EFBIG` beyond the
    /// greatest length.
    pub fn write(&mut self, caller: &Caller, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= data::MAX_LEN).ok_or(Errno::FBIG)?;
        self.churn = self.churn.wrapping_add(bytes.len().next_multiple_of(PAGE) as u64);
        self.grow(caller, ino, |data| data.growth(offset, end - offset), |data, fetch| data.write(offset, bytes, fetch))
    }

    /// Sets a file's length.
    pub fn truncate(&mut self, caller: &Caller, ino: Ino, len: u64) -> Result<()> {
        if len > data::MAX_LEN {
            return Err(Errno::FBIG);
        }
        self.grow(caller, ino, |_| Growth::default(), |data, fetch| data.truncate(len, fetch))
    }

    /// `fallocate`: reserves a range by filling its holes with zeroes, and extends the file unless `keep_size`.
    pub fn allocate(&mut self, caller: &Caller, ino: Ino, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= data::MAX_LEN).ok_or(Errno::FBIG)?;
        if len == 0 {
            return Err(Errno::INVAL);
        }
        let before = self.data(ino)?.len;
        self.grow(
            caller,
            ino,
            |data| data.growth(offset, len),
            |data, _| {
                let page = PAGE as u64;
                for index in offset / page..end.div_ceil(page) {
                    if data.pages.get(index).is_none() {
                        data.set(index, Some(Page::new(Vec::new())));
                    }
                }
                data.len = if keep_size { before } else { before.max(end) };
                Ok(())
            },
        )
    }

    /// `fallocate` with `PUNCH_HOLE` (frees whole pages) or `ZERO_RANGE`. The range ends at the end of the file, unless
    /// `extend` moves that.
    pub fn punch(&mut self, caller: &Caller, ino: Ino, offset: u64, len: u64, extend: bool) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= data::MAX_LEN).ok_or(Errno::FBIG)?;
        if len == 0 {
            return Err(Errno::INVAL);
        }
        self.grow(
            caller,
            ino,
            |_| Growth::default(),
            |data, fetch| {
                data.zero(offset.min(data.len), end.min(data.len), fetch)?;
                if extend {
                    data.len = data.len.max(end);
                }
                Ok(())
            },
        )
    }

    /// Drops the memory of at most `most` pages of a file that the store has; returns how many were dropped.
    pub fn evict(&mut self, ino: Ino, most: u64) -> u64 {
        let Ok(inode) = self.melt(ino) else { return 0 };
        let Body::File(data) = &mut inode.body else { return 0 };
        let dropped = data.evict(most);
        self.used -= dropped * PAGE as u64;
        self.resident -= dropped * PAGE as u64;
        dropped
    }

    /// Changes a file's data under the quota. `need` gives the pages that the change adds at most.
    fn grow(
        &mut self,
        caller: &Caller,
        ino: Ino,
        need: impl FnOnce(&Data) -> Growth,
        change: impl FnOnce(&mut Data, &dyn Fetch) -> Result<()>,
    ) -> Result<()> {
        let page = PAGE as u64;
        let need = need(self.data(ino)?);
        let full = |used: u64, more: u64, limit: u64| more > 0 && used.saturating_add(more * page) > limit;
        if full(self.used, need.memory, self.limit) || full(self.stored(), need.file, self.disk_limit) {
            return Err(Errno::NOSPC);
        }
        let fetch = self.fetch.clone();
        let inode = self.melt(ino)?;
        let Body::File(data) = &mut inode.body else { return Err(Errno::INVAL) };
        let before = (data.count(), data.resident());
        let result = change(data, &*fetch);
        let after = (data.count(), data.resident());
        inode.mtime = caller.now;
        inode.ctime = caller.now;
        if caller.checked && caller.uid != 0 {
            inode.mode = permission::without_privileges(inode.mode);
        }
        self.used = self.used + after.1 * page - before.1 * page;
        self.resident = self.resident + after.1 * page - before.1 * page;
        self.disk = self.disk + after.0 * page - before.0 * page;
        result
    }

    /// `lseek` with `SEEK_DATA` (`data`) or `SEEK_HOLE`.
    pub fn seek(&self, ino: Ino, offset: u64, data: bool) -> Result<u64> {
        self.data(ino)?.seek(offset, data)
    }

    /// Copies a range from one file to another, or within a file. Returns the number of bytes copied: fewer than `len`
    /// at the end of the source, or where the quota ends.
    pub fn copy_range(&mut self, caller: &Caller, from: (Ino, u64), to: (Ino, u64), len: u64) -> Result<u64> {
        let source = self.data(from.0)?.clone();
        let len = len.min(source.len.saturating_sub(from.1)).min(1 << 30);
        let mut done = 0;
        let mut buffer = vec![0; (64 << 10).min(len as usize)];
        while done < len {
            let part = buffer.len().min((len - done) as usize);
            let n = source.read(from.1 + done, &mut buffer[..part], &*self.fetch)?;
            match self.write(caller, to.0, to.1 + done, &buffer[..n]) {
                Err(_) if done > 0 => break,
                other => other?,
            }
            done += n as u64;
        }
        Ok(done)
    }

    /// Removes an inode that no name and no open file refers to; others stay.
    pub fn release(&mut self, ino: Ino) {
        if self.inode(ino).is_ok_and(|inode| inode.nlink == 0)
            && let Some(inode) = self.inodes.remove(ino)
        {
            self.used -= inode.cost();
            self.disk -= inode.disk();
            self.resident -= inode.resident();
            self.count -= 1;
        }
    }

    /// Inodes without a name. After a crash none of them is open: they are to be [released](Self::release).
    pub fn orphans(&self) -> Vec<Ino> {
        self.inodes.range(0).filter(|(_, inode)| inode.nlink == 0).map(|(ino, _)| ino).collect()
    }

    /// Computes the memory charged and the number of inodes from scratch, after inodes were put in directly.
    pub fn recount(&mut self) {
        let (mut used, mut count, mut next) = (0, 0, self.next_ino);
        let (mut disk, mut resident) = (0, 0);
        for (ino, inode) in self.inodes.range(0) {
            used += inode.cost();
            disk += inode.disk();
            resident += inode.resident();
            count += 1;
            next = next.max(ino + 1);
        }
        (self.used, self.count, self.next_ino) = (used, count, next);
        (self.disk, self.resident) = (disk, resident);
    }

    /// The path of an inode, found by a search of the whole tree: for messages.
    pub fn path_of(&self, wanted: Ino) -> Option<String> {
        let mut stack = vec![(ROOT, String::new())];
        let mut visited = 0;
        while let Some((ino, path)) = stack.pop() {
            visited += 1;
            if ino == wanted {
                return Some(if path.is_empty() { "/".to_owned() } else { path });
            }
            let Ok(dir) = self.dir(ino) else { continue };
            for (_, entry) in dir.entries.range(0) {
                let path = format!("{path}/{}", String::from_utf8_lossy(entry.name()));
                if entry.ino == wanted {
                    return Some(path);
                }
                if entry.kind() == libc::S_IFDIR && visited <= self.count {
                    stack.push((entry.ino, path));
                }
            }
        }
        None
    }
}

/// The permission bits of a mode word.
fn permissions(mode: u32) -> u32 {
    mode & PERMISSIONS
}
