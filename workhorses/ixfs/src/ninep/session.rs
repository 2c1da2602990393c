// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: its fids, and what each request does.

use super::locks::{Held, Locks};
use super::message::{HEADER, Lock, MAX_MESSAGE, MIN_MESSAGE, Message, NONE, Request, Setattr};
use crate::server::{Server, lock, now};
use crate::tree::attributes::{SetAttr, When, XattrFlags};
use crate::tree::names::New;
use crate::tree::permission::{READ, WRITE};
use crate::tree::{Attr, Caller, Ino, PAGE, ROOT, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Most fids of a connection.
pub const MAX_FIDS: usize = 65_536;

type Result<T> = std::result::Result<T, Errno>;

/// The user at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The kernel vouches for user and group.
    Known(u32, u32),
    /// Nothing is known: the client is whom it claims to be.
    Claimed,
}

/// A user with groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

enum Kind {
    /// A file that is not open.
    Walked,
    /// An open file, and what it may be used for: [`READ`] and [`WRITE`].
    Open(u32),
    /// An extended attribute that is read.
    XattrRead(Vec<u8>),
    /// An extended attribute being written: name, number of bytes still expected, flags, bytes received.
    XattrWrite(Vec<u8>, usize, XattrFlags, Vec<u8>),
}

struct Fid {
    ino: Ino,
    user: Arc<User>,
    /// Directory and name by which the file was reached, for `Tremove` and `Trename`.
    reached: Option<(Ino, Vec<u8>)>,
    kind: Kind,
}

/// What the connection is to do after a request.
pub enum Answer {
    /// Send a reply.
    Reply(Message),
    /// Make everything durable, then reply; other requests continue.
    Sync(u16, bool),
    /// Forget the reply of a request that waits for durability, then reply.
    Flush(u16, Message),
}

/// One connection.
pub struct Session {
    server: Arc<Server>,
    locks: Arc<Mutex<Locks>>,
    peer: Peer,
    number: u64,
    msize: u32,
    fids: BTreeMap<u32, Fid>,
}

impl Session {
    /// A new connection.
    pub fn new(server: Arc<Server>, locks: Arc<Mutex<Locks>>, peer: Peer, number: u64) -> Session {
        Session { server, locks, peer, number, msize: MIN_MESSAGE, fids: BTreeMap::new() }
    }

    /// The agreed greatest length of a message.
    pub fn msize(&self) -> u32 {
        self.msize
    }

    /// Executes a request.
    pub fn handle(&mut self, tag: u16, request: Request<'_>) -> Answer {
        let done = match request {
            Request::Fsync { fid, datasync } => match self.fid(fid) {
                Ok(_) => return Answer::Sync(tag, datasync),
                Err(error) => Err(error),
            },
            Request::Flush { oldtag } => return Answer::Flush(oldtag, Message::new(109, tag)),
            Request::Version { msize, version } => Ok(self.version(tag, msize, version)),
            other => self.dispatch(tag, other),
        };
        Answer::Reply(done.unwrap_or_else(|error| Message::error(tag, error)))
    }

    fn version(&mut self, tag: u16, msize: u32, version: &[u8]) -> Message {
        self.clunk_all();
        self.msize = msize.clamp(MIN_MESSAGE, MAX_MESSAGE);
        let known = version == b"9P2000.L" && msize >= MIN_MESSAGE;
        Message::new(101, tag).u32(self.msize).string(if known { b"9P2000.L" } else { b"unknown" })
    }

    fn dispatch(&mut self, tag: u16, request: Request<'_>) -> Result<Message> {
        use Request::*;
        match request {
            Attach { fid, aname, uid, .. } => self.attach(tag, fid, aname, uid),
            Walk { fid, newfid, names } => self.walk(tag, fid, newfid, &names),
            Read { fid, offset, count } => self.read(tag, fid, offset, count),
            Write { fid, offset, data } => self.write(tag, fid, offset, data),
            Clunk { fid } => self.clunk(fid).map(|()| Message::new(121, tag)),
            Remove { fid } => self.remove(tag, fid),
            Statfs { fid } => self.statfs(tag, fid),
            Open { fid, flags } => self.open(tag, fid, flags),
            Create { fid, name, flags, mode, gid } => self.create(tag, fid, name, flags, mode, gid),
            Symlink { fid, name, target, gid } => {
                self.make(fid, name, gid, &New::symlink(target)).map(|a| Message::new(17, tag).qid(&a))
            }
            Mknod { fid, name, mode, major, minor, gid } => {
                let rdev = minor & 0xff | major << 8 | (minor & !0xff) << 12;
                self.make(fid, name, gid, &New { mode, rdev, target: b"" }).map(|attr| Message::new(19, tag).qid(&attr))
            }
            Mkdir { fid, name, mode, gid } => {
                self.make(fid, name, gid, &New::dir(mode & 0o7777)).map(|attr| Message::new(73, tag).qid(&attr))
            }
            Rename { fid, dir, name } => self.rename_fid(tag, fid, dir, name),
            RenameAt { from, name, to, newname } => self.rename(tag, from, name, to, newname),
            Readlink { fid } => {
                let target = self.server.combined_view(self.fid(fid)?.ino, |tree, ino| tree.readlink(ino))?;
                Ok(Message::new(23, tag).string(&target))
            }
            Getattr { fid } => self.getattr(tag, fid),
            Setattr { fid, set } => self.setattr(tag, fid, &set),
            XattrWalk { fid, newfid, name } => self.xattr_walk(tag, fid, newfid, name),
            XattrCreate { fid, name, size, flags } => self.xattr_create(tag, fid, name, size, flags),
            Readdir { fid, offset, count } => self.readdir(tag, fid, offset, count),
            Lock { fid, lock } => self.lock(tag, fid, &lock),
            Getlock { fid, lock } => self.getlock(tag, fid, &lock),
            Link { dir, fid, name } => self.link(tag, dir, fid, name),
            UnlinkAt { dir, name, flags } => self.unlink(tag, dir, name, flags),
            // This error tells clients such as diod's that they need no authentication.
            Auth => Err(Errno::NOENT),
            Unknown(_) | Version { .. } | Flush { .. } | Fsync { .. } => Err(Errno::OPNOTSUPP),
        }
    }

    fn fid(&self, fid: u32) -> Result<&Fid> {
        self.fids.get(&fid).ok_or(Errno::BADF)
    }

    fn caller(&self, fid: u32) -> Result<Caller> {
        let user = &self.fid(fid)?.user;
        Ok(Caller::user(user.uid, user.gid, user.groups.clone(), now()))
    }

    fn insert(&mut self, fid: u32, new: Fid) -> Result<()> {
        if self.fids.contains_key(&fid) || fid == NONE {
            return Err(Errno::BADF);
        }
        if self.fids.len() >= MAX_FIDS {
            return Err(Errno::MFILE);
        }
        self.server.hold(new.ino, 1);
        self.fids.insert(fid, new);
        Ok(())
    }

    /// Lets a fid refer to another file.
    fn move_fid(&mut self, fid: u32, ino: Ino, reached: Option<(Ino, Vec<u8>)>, kind: Kind) -> Result<()> {
        self.server.hold(ino, 1);
        let entry = self.fids.get_mut(&fid).ok_or(Errno::BADF)?;
        let old = std::mem::replace(&mut entry.ino, ino);
        (entry.reached, entry.kind) = (reached, kind);
        self.server.unhold(old, 1);
        Ok(())
    }

    fn clunk(&mut self, fid: u32) -> Result<()> {
        let caller = self.caller(fid)?;
        let gone = self.fids.remove(&fid).ok_or(Errno::BADF)?;
        let result = match gone.kind {
            Kind::XattrWrite(name, size, flags, value) => {
                self.finish_xattr(&caller, gone.ino, &name, size, flags, &value)
            }
            _ => Ok(()),
        };
        self.server.unhold(gone.ino, 1);
        result
    }

    /// Gives up all fids and locks.
    pub fn clunk_all(&mut self) {
        for (_, fid) in std::mem::take(&mut self.fids) {
            self.server.unhold(fid.ino, 1);
        }
        lock(&self.locks).disconnect(self.number);
    }

    fn attach(&mut self, tag: u16, fid: u32, aname: &[u8], uid: u32) -> Result<Message> {
        let user = match self.peer {
            Peer::Known(0, _) | Peer::Claimed if uid != NONE => super::listen::user(uid),
            Peer::Known(peer, gid) => {
                if uid != NONE && uid != peer {
                    return Err(Errno::PERM);
                }
                User { gid, ..super::listen::user(peer) }
            }
            // An unnamed user gets the permissions of `other`.
            Peer::Claimed => super::listen::user(65_534),
        };
        let caller = Caller::user(user.uid, user.gid, user.groups.clone(), now());
        let names = aname.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let mut attr = self.server.combined_attr(ROOT)?;
        for name in names {
            attr = self.server.combined_lookup(&caller, attr.ino, name)?;
        }
        self.insert(fid, Fid { ino: attr.ino, user: Arc::new(user), reached: None, kind: Kind::Walked })?;
        Ok(Message::new(105, tag).qid(&attr))
    }

    fn walk(&mut self, tag: u16, fid: u32, newfid: u32, names: &[&[u8]]) -> Result<Message> {
        let caller = self.caller(fid)?;
        let start = self.fid(fid)?;
        if matches!(start.kind, Kind::XattrRead(_) | Kind::XattrWrite(..)) {
            return Err(Errno::BADF);
        }
        let (mut ino, user, mut reached) = (start.ino, start.user.clone(), start.reached.clone());
        let mut qids = Vec::new();
        for name in names {
            match self.server.combined_lookup(&caller, ino, name) {
                Ok(attr) => {
                    reached = Some((ino, name.to_vec()));
                    ino = attr.ino;
                    qids.push(attr);
                }
                Err(error) if qids.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        if qids.len() == names.len() {
            if newfid == fid {
                self.move_fid(fid, ino, reached, Kind::Walked)?;
            } else {
                self.insert(newfid, Fid { ino, user, reached, kind: Kind::Walked })?;
            }
        }
        let reply = Message::new(111, tag).u16(qids.len() as u16);
        Ok(qids.iter().fold(reply, |reply, attr| reply.qid(attr)))
    }

    /// The most data that fits into a reply with `header` bytes before it.
    fn room(&self, count: u32, header: usize) -> usize {
        count.min(self.msize - header as u32) as usize
    }

    fn read(&mut self, tag: u16, fid: u32, offset: u64, count: u32) -> Result<Message> {
        let mut out = vec![0; self.room(count, HEADER + 4)];
        let fid = self.fid(fid)?;
        let n = match &fid.kind {
            Kind::Open(modes) if modes & READ != 0 => self.server.combined_read(fid.ino, offset, &mut out)?,
            Kind::XattrRead(value) => {
                let rest = value.get(offset as usize..).unwrap_or_default();
                let n = rest.len().min(out.len());
                out[..n].copy_from_slice(&rest[..n]);
                n
            }
            _ => return Err(Errno::BADF),
        };
        Ok(Message::new(117, tag).data(&out[..n]))
    }

    fn write(&mut self, tag: u16, fid: u32, offset: u64, data: &[u8]) -> Result<Message> {
        let caller = self.caller(fid)?;
        let server = self.server.clone();
        let fid = self.fids.get_mut(&fid).ok_or(Errno::BADF)?;
        match &mut fid.kind {
            Kind::Open(modes) if *modes & WRITE != 0 => {
                let ino = server.live(fid.ino)?;
                server.change(|tree| tree.write(&caller, ino, offset, data))?;
            }
            Kind::XattrWrite(_, size, _, value) => {
                if offset != value.len() as u64 || value.len() + data.len() > *size {
                    return Err(Errno::INVAL);
                }
                value.extend_from_slice(data);
            }
            _ => return Err(Errno::BADF),
        }
        Ok(Message::new(119, tag).u32(data.len() as u32))
    }

    fn open(&mut self, tag: u16, fid: u32, flags: u32) -> Result<Message> {
        let caller = self.caller(fid)?;
        let ino = self.fid(fid)?.ino;
        if !matches!(self.fid(fid)?.kind, Kind::Walked) {
            return Err(Errno::BADF);
        }
        let modes = match flags as i32 & libc::O_ACCMODE {
            libc::O_RDONLY => READ,
            libc::O_WRONLY => WRITE,
            _ => READ | WRITE,
        };
        let attr = self.server.combined_attr(ino)?;
        if modes & WRITE != 0 {
            self.server.live(ino)?;
            if attr.mode & libc::S_IFMT == libc::S_IFDIR {
                return Err(Errno::ISDIR);
            }
        }
        let checked = self.server.combined_view(ino, |tree, ino| tree.access(&caller, ino, modes));
        if checked != Err(Errno::NODATA) {
            checked?; // the virtual directories of the archive are open to all
        }
        if flags as i32 & libc::O_TRUNC != 0 && modes & WRITE != 0 {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            self.server.change(|tree| tree.setattr(&caller, ino, &set, true))?;
        }
        if let Some(fid) = self.fids.get_mut(&fid) {
            fid.kind = Kind::Open(modes);
        }
        Ok(Message::new(13, tag).qid(&attr).u32(0))
    }

    fn make(&mut self, fid: u32, name: &[u8], gid: u32, new: &New<'_>) -> Result<Attr> {
        let mut caller = self.caller(fid)?;
        if gid != NONE && (caller.uid == 0 || caller.in_group(gid)) {
            caller.gid = gid;
        }
        let parent = self.server.live(self.fid(fid)?.ino)?;
        self.server.change(|tree| tree.create(&caller, parent, name, new).and_then(|ino| tree.attr(ino)))
    }

    fn create(&mut self, tag: u16, fid: u32, name: &[u8], flags: u32, mode: u32, gid: u32) -> Result<Message> {
        if !matches!(self.fid(fid)?.kind, Kind::Walked) {
            return Err(Errno::BADF);
        }
        let parent = self.fid(fid)?.ino;
        let attr = self.make(fid, name, gid, &New::file(mode & 0o7777))?;
        let modes = match flags as i32 & libc::O_ACCMODE {
            libc::O_RDONLY => READ,
            libc::O_WRONLY => WRITE,
            _ => READ | WRITE,
        };
        self.move_fid(fid, attr.ino, Some((parent, name.to_vec())), Kind::Open(modes))?;
        Ok(Message::new(15, tag).qid(&attr).u32(0))
    }

    fn remove(&mut self, tag: u16, fid: u32) -> Result<Message> {
        let caller = self.caller(fid)?;
        let (ino, reached) = (self.fid(fid)?.ino, self.fid(fid)?.reached.clone());
        let result = || {
            let (dir, name) = reached.ok_or(Errno::BUSY)?;
            let (ino, dir) = (self.server.live(ino)?, self.server.live(dir)?);
            let lost = self.server.change(|tree| {
                // The name may refer to another file by now.
                if tree.lookup(&caller, dir, &name)? != ino {
                    return Err(Errno::NOENT);
                }
                let directory = tree.attr(ino)?.mode & libc::S_IFMT == libc::S_IFDIR;
                tree.unlink(&caller, dir, &name, directory)
            })?;
            self.server.let_go(lost);
            Ok(())
        };
        let result: Result<()> = result();
        // The protocol clunks the fid even if the file stays.
        let _ = self.clunk(fid);
        result.map(|()| Message::new(123, tag))
    }

    fn unlink(&mut self, tag: u16, dir: u32, name: &[u8], flags: u32) -> Result<Message> {
        let caller = self.caller(dir)?;
        let dir = self.server.live(self.fid(dir)?.ino)?;
        let directory = flags as i32 & libc::AT_REMOVEDIR != 0;
        let lost = self.server.write(|tree| tree.unlink(&caller, dir, name, directory))?;
        self.server.let_go(lost);
        Ok(Message::new(77, tag))
    }

    fn link(&mut self, tag: u16, dir: u32, fid: u32, name: &[u8]) -> Result<Message> {
        let caller = self.caller(dir)?;
        let (dir, ino) = (self.server.live(self.fid(dir)?.ino)?, self.server.live(self.fid(fid)?.ino)?);
        self.server.change(|tree| tree.link(&caller, ino, dir, name))?;
        Ok(Message::new(71, tag))
    }

    fn rename(&mut self, tag: u16, from: u32, name: &[u8], to: u32, newname: &[u8]) -> Result<Message> {
        let caller = self.caller(from)?;
        let (from, to) = (self.server.live(self.fid(from)?.ino)?, self.server.live(self.fid(to)?.ino)?);
        let lost =
            self.server.change(|tree| tree.rename(&caller, (from, name), (to, newname), RenameFlags::default()))?;
        self.server.let_go(lost);
        Ok(Message::new(75, tag))
    }

    fn rename_fid(&mut self, tag: u16, fid: u32, dir: u32, name: &[u8]) -> Result<Message> {
        let caller = self.caller(fid)?;
        let (from, old) = self.fid(fid)?.reached.clone().ok_or(Errno::BUSY)?;
        let (from, to) = (self.server.live(from)?, self.server.live(self.fid(dir)?.ino)?);
        let lost = self.server.change(|tree| tree.rename(&caller, (from, &old), (to, name), RenameFlags::default()))?;
        self.server.let_go(lost);
        if let Some(fid) = self.fids.get_mut(&fid) {
            fid.reached = Some((to, name.to_vec()));
        }
        Ok(Message::new(21, tag))
    }

    fn statfs(&mut self, tag: u16, fid: u32) -> Result<Message> {
        self.fid(fid)?;
        let (used, limit, inodes) = self.server.read(|tree| (tree.used, tree.limit, tree.count));
        let free = limit.saturating_sub(used);
        let (page, spare) = (PAGE as u64, free / crate::tree::inode::INODE_COST);
        let id = self.server.store().id();
        let fsid = id[..8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let reply = Message::new(9, tag).u32(0x0102_1997).u32(PAGE as u32);
        let reply = reply.u64(limit / page).u64(free / page).u64(free / page);
        Ok(reply.u64(inodes + spare).u64(spare).u64(fsid).u32(255))
    }

    fn getattr(&mut self, tag: u16, fid: u32) -> Result<Message> {
        /// All attributes up to the creation time.
        const VALID: u64 = 0x0000_0fff;
        let attr = self.server.combined_attr(self.fid(fid)?.ino)?;
        let reply = Message::new(25, tag).u64(VALID).qid(&attr).u32(attr.mode).u32(attr.uid).u32(attr.gid);
        let reply = reply.u64(attr.nlink.into()).u64(attr.rdev.into()).u64(attr.size).u64(PAGE as u64).u64(attr.blocks);
        let reply = [attr.atime, attr.mtime, attr.ctime, attr.btime].iter().fold(reply, |reply, time| {
            reply.u64(time.div_euclid(1_000_000_000) as u64).u64(time.rem_euclid(1_000_000_000) as u64)
        });
        Ok(reply.u64(0).u64(0))
    }

    fn setattr(&mut self, tag: u16, fid: u32, set: &Setattr) -> Result<Message> {
        let caller = self.caller(fid)?;
        let given = |bit: u32| set.valid & bit != 0;
        let time = |bit: u32, explicit: u32, (seconds, ns): (u64, u64)| {
            let at = (seconds as i64).saturating_mul(1_000_000_000).saturating_add(ns.min(999_999_999) as i64);
            given(bit).then_some(if given(explicit) { When::At(at) } else { When::Now })
        };
        let change = SetAttr {
            mode: given(1).then_some(set.mode & 0o7777),
            uid: given(2).then_some(set.uid),
            gid: given(4).then_some(set.gid),
            size: given(8).then_some(set.size),
            atime: time(0x10, 0x80, set.atime),
            mtime: time(0x20, 0x100, set.mtime),
        };
        let fid = self.fid(fid)?;
        let opened = matches!(fid.kind, Kind::Open(modes) if modes & WRITE != 0);
        let ino = self.server.live(fid.ino)?;
        self.server.change(|tree| tree.setattr(&caller, ino, &change, opened))?;
        Ok(Message::new(27, tag))
    }

    fn readdir(&mut self, tag: u16, fid: u32, offset: u64, count: u32) -> Result<Message> {
        let room = self.room(count, HEADER + 4);
        let fid = self.fid(fid)?;
        if !matches!(fid.kind, Kind::Open(_)) {
            return Err(Errno::BADF);
        }
        let mut out = Vec::new();
        self.server.combined_list(fid.ino, offset, &mut |cookie, entry, attr| {
            let size = 13 + 8 + 1 + 2 + entry.name().len();
            if out.len() + size > room {
                return false;
            }
            let plain = Attr { ino: entry.ino, mode: entry.kind(), ..attr.unwrap_or(NO_ATTR) };
            let part =
                Message::new(0, 0).qid(&plain).u64(cookie).u8((entry.kind() >> 12) as u8).string(entry.name()).finish();
            out.extend_from_slice(&part[HEADER..]);
            true
        })?;
        Ok(Message::new(41, tag).data(&out))
    }

    fn xattr_walk(&mut self, tag: u16, fid: u32, newfid: u32, name: &[u8]) -> Result<Message> {
        let caller = self.caller(fid)?;
        let from = self.fid(fid)?;
        let (ino, user) = (from.ino, from.user.clone());
        let value = self.server.combined_view(ino, |tree, ino| {
            if name.is_empty() { tree.xattr_names(ino) } else { tree.xattr(&caller, ino, name).map(<[u8]>::to_vec) }
        })?;
        let size = value.len() as u64;
        self.insert(newfid, Fid { ino, user, reached: None, kind: Kind::XattrRead(value) })?;
        Ok(Message::new(31, tag).u64(size))
    }

    fn xattr_create(&mut self, tag: u16, fid: u32, name: &[u8], size: u64, flags: u32) -> Result<Message> {
        if size > crate::tree::attributes::MAX_XATTR_VALUE as u64 {
            return Err(Errno::TOOBIG);
        }
        let flags = XattrFlags {
            create: flags as i32 & libc::XATTR_CREATE != 0,
            replace: flags as i32 & libc::XATTR_REPLACE != 0,
        };
        self.server.live(self.fid(fid)?.ino)?;
        if let Some(fid) = self.fids.get_mut(&fid) {
            fid.kind = Kind::XattrWrite(name.to_vec(), size as usize, flags, Vec::new());
        }
        Ok(Message::new(33, tag))
    }

    /// A size of 0 with XATTR_REPLACE and no data is how the kernel's client removes an attribute.
    fn finish_xattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        size: usize,
        flags: XattrFlags,
        value: &[u8],
    ) -> Result<()> {
        if value.len() != size {
            return Err(Errno::INVAL);
        }
        self.server.change(|tree| match size {
            0 if flags.replace => tree.remove_xattr(caller, ino, name),
            _ => tree.set_xattr(caller, ino, name, value, flags),
        })
    }

    fn wanted(&self, fid: u32, lock: &Lock<'_>) -> Result<Held> {
        let end = if lock.len == 0 { u64::MAX } else { lock.start.saturating_add(lock.len) };
        let owner = (self.number, lock.process, lock.client.to_vec());
        Ok(Held { ino: self.fid(fid)?.ino, exclusive: lock.kind == 1, start: lock.start, end, owner })
    }

    fn lock(&mut self, tag: u16, fid: u32, request: &Lock<'_>) -> Result<Message> {
        /// The lock was granted, or another excludes it.
        const STATUS: [u8; 2] = [0, 1];
        let wanted = self.wanted(fid, request)?;
        let mut locks = lock(&self.locks);
        let granted = match request.kind {
            2 => {
                locks.unlock(&wanted);
                true
            }
            0 | 1 => locks.lock(wanted),
            _ => return Err(Errno::INVAL),
        };
        Ok(Message::new(53, tag).u8(STATUS[usize::from(!granted)]))
    }

    fn getlock(&mut self, tag: u16, fid: u32, request: &Lock<'_>) -> Result<Message> {
        let wanted = self.wanted(fid, request)?;
        let locks = lock(&self.locks);
        Ok(match locks.conflict(&wanted) {
            Some(held) => {
                let len = if held.end == u64::MAX { 0 } else { held.end - held.start };
                let reply = Message::new(55, tag).u8(u8::from(held.exclusive)).u64(held.start).u64(len);
                reply.u32(held.owner.1).string(&held.owner.2)
            }
            None => {
                let reply = Message::new(55, tag).u8(2).u64(request.start).u64(request.len);
                reply.u32(request.process).string(request.client)
            }
        })
    }
}

/// Stands in for attributes that are unknown in a listing.
const NO_ATTR: Attr = Attr {
    ino: 0,
    mode: 0,
    uid: 0,
    gid: 0,
    nlink: 0,
    rdev: 0,
    size: 0,
    blocks: 0,
    atime: 0,
    mtime: 0,
    ctime: 0,
    btime: 0,
};

impl User {
    /// A user with groups.
    pub fn new(uid: u32, gid: u32, groups: Vec<u32>) -> User {
        User { uid, gid, groups }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.clunk_all();
    }
}
