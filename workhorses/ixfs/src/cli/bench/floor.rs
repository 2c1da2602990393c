// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory file system that does as little as FUSE allows: one lock, hash maps, no permissions, no disk, no removal.
//! It shows what FUSE itself costs.

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

const TTL: Duration = Duration::from_secs(3600);

struct Node {
    attr: FileAttr,
    bytes: Vec<u8>,
    names: HashMap<OsString, u64>,
    /// Names in the order of creation, for listings.
    order: Vec<(OsString, u64)>,
}

struct Floor {
    nodes: Mutex<HashMap<u64, Node>>,
}

fn node(ino: u64, kind: FileType) -> Node {
    let time = SystemTime::UNIX_EPOCH;
    let attr = FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    };
    Node { attr, bytes: Vec::new(), names: HashMap::new(), order: Vec::new() }
}

impl Floor {
    fn nodes(&self) -> MutexGuard<'_, HashMap<u64, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, parent: INodeNo, name: &OsStr, kind: FileType) -> Option<FileAttr> {
        let mut nodes = self.nodes();
        let ino = nodes.len() as u64 + 1;
        let made = node(ino, kind);
        let attr = made.attr;
        nodes.insert(ino, made);
        let parent = nodes.get_mut(&parent.0)?;
        parent.names.insert(name.to_owned(), ino);
        parent.order.push((name.to_owned(), ino));
        Some(attr)
    }
}

impl Filesystem for Floor {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let nodes = self.nodes();
        let found = nodes.get(&parent.0).and_then(|dir| dir.names.get(name)).and_then(|ino| nodes.get(ino));
        match found {
            Some(node) => reply.entry(&TTL, &node.attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.nodes().get(&ino.0) {
            Some(node) => reply.attr(&TTL, &node.attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut nodes = self.nodes();
        let Some(node) = nodes.get_mut(&ino.0) else { return reply.error(Errno::ENOENT) };
        if let Some(size) = size {
            node.bytes.resize(size as usize, 0);
            node.attr.size = size;
        }
        reply.attr(&TTL, &node.attr);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        match self.make(parent, name, FileType::Directory) {
            Some(attr) => reply.entry(&TTL, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.make(parent, name, FileType::RegularFile) {
            Some(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut nodes = self.nodes();
        let Some(dir) = nodes.get_mut(&parent.0) else { return reply.error(Errno::ENOENT) };
        if let Some(ino) = dir.names.remove(name) {
            dir.names.insert(new_name.to_owned(), ino);
        }
        reply.ok();
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
        let nodes = self.nodes();
        let bytes = nodes.get(&ino.0).map_or(&[][..], |node| &node.bytes[..]);
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        reply.data(&rest[..rest.len().min(size as usize)]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut nodes = self.nodes();
        let Some(node) = nodes.get_mut(&ino.0) else { return reply.error(Errno::ENOENT) };
        let end = offset as usize + data.len();
        if node.bytes.len() < end {
            node.bytes.resize(end, 0);
        }
        node.bytes[offset as usize..end].copy_from_slice(data);
        node.attr.size = node.bytes.len() as u64;
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let nodes = self.nodes();
        let Some(dir) = nodes.get(&ino.0) else { return reply.error(Errno::ENOENT) };
        for (at, (name, ino)) in dir.order.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), at as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}

/// Serves the floor at a directory until it is unmounted.
pub fn run(directory: &Path) -> std::io::Result<()> {
    let root = HashMap::from([(1, node(1, FileType::Directory))]);
    let mut config = fuser::Config::default();
    config.mount_options =
        vec![fuser::MountOption::FSName("ixfs-floor".to_owned()), fuser::MountOption::DefaultPermissions];
    config.acl = fuser::SessionACL::All;
    config.n_threads = Some(2);
    config.clone_fd = true;
    let session = fuser::Session::new(Floor { nodes: Mutex::new(root) }, directory, &config)?;
    println!("ready");
    session.run()
}
