// SPDX-License-Identifier: MIT OR Apache-2.0
//! FUSE interface: for programs on the same machine.
//!
//! The kernel checks permissions (`default_permissions`) and is the only client, so what it caches stays valid.
//! `open` and `opendir` are answered with `ENOSYS` once, which makes the kernel open files by itself: the references
//! it takes with each lookup keep removed files alive. `flush` is answered likewise: a close makes nothing durable.

use crate::server::{Server, now};
use crate::tree::attributes::{SetAttr, When, XattrFlags};
use crate::tree::names::New;
use crate::tree::{Attr, Caller, Ino, PAGE};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may keep names and attributes: it is the only one to change them.
const TTL: Duration = Duration::from_secs(3600);

/// The file system that the kernel calls through FUSE.
pub struct FuseFileSystem {
    server: Arc<Server>,
    /// Whether a thread that talks to the kernel may write the log: other threads then answer the kernel meanwhile.
    lead: bool,
}

/// Adds an entry to a reply: cookie, name, inode, mode, attributes. False once the reply is full.
type Add<'a> = &'a mut dyn FnMut(u64, &OsStr, Ino, u32, Option<Attr>) -> bool;

/// Result of an operation, with the `errno` that the kernel gets.
type Result<T> = std::result::Result<T, rustix::io::Errno>;

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), groups: Vec::new(), checked: false, now: now() }
}

fn time(ns: i64) -> SystemTime {
    let since = Duration::from_nanos(ns.unsigned_abs());
    if ns < 0 { SystemTime::UNIX_EPOCH - since } else { SystemTime::UNIX_EPOCH + since }
}

fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

fn when(time: TimeOrNow) -> When {
    match time {
        TimeOrNow::Now => When::Now,
        TimeOrNow::SpecificTime(time) => When::At(nanoseconds(time)),
    }
}

fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFSOCK => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: time(attr.btime),
        kind: kind(attr.mode),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: PAGE as u32,
        flags: 0,
    }
}

impl FuseFileSystem {
    fn sync(&self, reply: ReplyEmpty) {
        self.server.sync_then(self.lead, Box::new(move |result| empty(result.map(drop), reply)));
    }

    fn reply_entry(&self, result: Result<Attr>, reply: ReplyEntry) {
        match result {
            Ok(attr) => {
                self.server.hold(attr.ino, 1);
                reply.entry(&TTL, &file_attr(&attr), Generation(0));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn make(&self, request: &Request, parent: INodeNo, name: &OsStr, new: &New<'_>) -> Result<Attr> {
        let parent = self.server.live(parent.0)?;
        self.server.change(|tree| {
            let ino = tree.create(&caller(request), parent, name.as_bytes(), new)?;
            tree.attr(ino)
        })
    }

    fn remove(&self, request: &Request, parent: INodeNo, name: &OsStr, directory: bool) -> Result<()> {
        let parent = self.server.live(parent.0)?;
        let lost = self.server.write(|tree| tree.unlink(&caller(request), parent, name.as_bytes(), directory))?;
        self.server.let_go(lost);
        Ok(())
    }

    fn list(&self, ino: INodeNo, offset: u64, add: Add<'_>) -> Result<()> {
        self.server.combined_list(ino.0, offset, &mut |cookie, entry, attr| {
            add(cookie, OsStr::from_bytes(entry.name()), entry.ino, entry.kind(), attr)
        })
    }
}

fn empty(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for FuseFileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_ASYNC_DIO,
            // Without this flag the kernel asks for a file's capabilities before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            // A kernel without one of them works too, only slower.
            let _ = config.add_capabilities(wanted);
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(self.server.combined_lookup(&caller(request), parent.0, name.as_bytes()), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.server.unhold(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.server.combined_attr(ino.0) {
            Ok(attr) => reply.attr(&TTL, &file_attr(&attr)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr { mode, uid, gid, size, atime: atime.map(when), mtime: mtime.map(when) };
        let caller = caller(request);
        let kills = uid.is_some() || gid.is_some() || size.is_some() && caller.uid != 0;
        let result = self.server.live(ino.0).and_then(|ino| {
            self.server.change(|tree| {
                if kills {
                    tree.drop_privileges(ino)?;
                }
                tree.setattr(&caller, ino, &set, true)
            })
        });
        match result {
            Ok(attr) => reply.attr(&TTL, &file_attr(&attr)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.server.combined_view(ino.0, |tree, ino| tree.readlink(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        self.reply_entry(self.make(request, parent, name, &New { mode, rdev, target: b"" }), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.reply_entry(self.make(request, parent, name, &New::dir(mode & 0o7777)), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(request, parent, name, false), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(request, parent, name, true), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let new = New::symlink(target.as_os_str().as_bytes());
        self.reply_entry(self.make(request, parent, name, &new), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let result = || {
            let known = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
            if !known.contains(flags) {
                return Err(rustix::io::Errno::INVAL);
            }
            let flags = crate::tree::RenameFlags {
                no_replace: flags.contains(RenameFlags::RENAME_NOREPLACE),
                exchange: flags.contains(RenameFlags::RENAME_EXCHANGE),
            };
            let (from, to) = (self.server.live(parent.0)?, self.server.live(new_parent.0)?);
            let lost = self.server.change(|tree| {
                tree.rename(&caller(request), (from, name.as_bytes()), (to, new_name.as_bytes()), flags)
            })?;
            self.server.let_go(lost);
            Ok(())
        };
        empty(result(), reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        let result = || {
            let (ino, parent) = (self.server.live(ino.0)?, self.server.live(new_parent.0)?);
            self.server.change(|tree| {
                tree.link(&caller(request), ino, parent, new_name.as_bytes())?;
                tree.attr(ino)
            })
        };
        self.reply_entry(result(), reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut out = vec![0; size as usize];
        match self.server.combined_read(ino.0, offset, &mut out) {
            Ok(n) => reply.data(&out[..n]),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kills = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let result = self.server.live(ino.0).and_then(|ino| {
            self.server.change(|tree| {
                tree.write(&caller(request), ino, offset, data)?;
                if kills { tree.drop_privileges(ino) } else { Ok(()) }
            })
        });
        match result {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let result = self
            .list(ino, offset, &mut |cookie, name, ino, mode, _| !reply.add(INodeNo(ino), cookie, kind(mode), name));
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let server = &self.server;
        let result = self.list(ino, offset, &mut |cookie, name, ino, _, attr| {
            let Some(attr) = attr.or_else(|| server.combined_attr(ino).ok()) else { return true };
            let full = reply.add(INodeNo(ino), cookie, name, &TTL, &file_attr(&attr), Generation(0));
            // The kernel takes a reference for each entry but `.` and `..`.
            if !full && cookie > 2 {
                server.hold(ino, 1);
            }
            !full
        });
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (used, limit, inodes) = self.server.read(|tree| (tree.used, tree.limit, tree.count));
        let page = PAGE as u64;
        let free = limit.saturating_sub(used);
        let files_free = free / crate::tree::inode::INODE_COST;
        reply.statfs(
            limit / page,
            free / page,
            free / page,
            inodes + files_free,
            files_free,
            PAGE as u32,
            255,
            PAGE as u32,
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags { create: flags & libc::XATTR_CREATE != 0, replace: flags & libc::XATTR_REPLACE != 0 };
        let result = self.server.live(ino.0).and_then(|ino| {
            self.server.change(|tree| tree.set_xattr(&caller(request), ino, name.as_bytes(), value, flags))
        });
        empty(result, reply);
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self
            .server
            .combined_view(ino.0, |tree, ino| tree.xattr(&caller(request), ino, name.as_bytes()).map(<[u8]>::to_vec));
        xattr(value, size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(self.server.combined_view(ino.0, |tree, ino| tree.xattr_names(ino)), size, reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self
            .server
            .live(ino.0)
            .and_then(|ino| self.server.change(|tree| tree.remove_xattr(&caller(request), ino, name.as_bytes())));
        empty(result, reply);
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.make(request, parent, name, &New::file(mode & 0o7777)) {
            Ok(attr) => {
                self.server.hold(attr.ino, 1);
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&TTL, &file_attr(&attr), Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (keep, punch, zero) = (
            mode & libc::FALLOC_FL_KEEP_SIZE != 0,
            mode & libc::FALLOC_FL_PUNCH_HOLE != 0,
            mode & libc::FALLOC_FL_ZERO_RANGE != 0,
        );
        let known = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        let caller = caller(request);
        let result = self.server.live(ino.0).and_then(|ino| {
            self.server.change(|tree| match () {
                () if mode & !known != 0 || punch && !keep => Err(rustix::io::Errno::OPNOTSUPP),
                () if punch || zero => tree.punch(&caller, ino, offset, length, zero && !keep),
                () => tree.allocate(&caller, ino, offset, length, keep),
            })
        });
        empty(result, reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let result = match (u64::try_from(offset), whence) {
            (Ok(offset), libc::SEEK_DATA | libc::SEEK_HOLE) => {
                self.server.combined_view(ino.0, |tree, ino| tree.seek(ino, offset, whence == libc::SEEK_DATA))
            }
            (Err(_), _) => Err(rustix::io::Errno::NXIO),
            _ => Err(rustix::io::Errno::INVAL),
        };
        match result {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _: FileHandle,
        offset_in: u64,
        to: INodeNo,
        _: FileHandle,
        offset_out: u64,
        len: u64,
        _: fuser::CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let result = || {
            let (from, to) = (self.server.live(from.0)?, self.server.live(to.0)?);
            let len = len.min(1 << 30);
            self.server.change(|tree| tree.copy_range(&caller(request), (from, offset_in), (to, offset_out), len))
        };
        match result() {
            Ok(n) => reply.written(n as u32),
            Err(error) => reply.error(errno(error)),
        }
    }
}

fn xattr(value: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

/// Mounts a server at a directory; unmounted when the session is dropped or ended.
pub fn mount(
    server: Arc<Server>,
    source: &str,
    directory: &Path,
    threads: usize,
) -> io::Result<fuser::Session<FuseFileSystem>> {
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        fuser::MountOption::FSName(source.to_owned()),
        fuser::MountOption::Subtype("ixfs".to_owned()),
        fuser::MountOption::DefaultPermissions,
        fuser::MountOption::NoAtime,
    ];
    if rustix::process::geteuid().is_root() {
        config.mount_options.extend([fuser::MountOption::Suid, fuser::MountOption::Dev]);
        config.acl = fuser::SessionACL::All;
    }
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    fuser::Session::new(FuseFileSystem { server, lead: threads > 1 }, directory, &config)
}
