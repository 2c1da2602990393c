// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests share: a text form of trees, operations of ACE's kind, and crash images.

pub mod client;
pub mod program;
pub mod random;

use ixfs::store::Geometry;
use ixfs::store::Store;
use ixfs::store::memory::{Event, MemoryDevice, SECTOR};
use ixfs::tree::attributes::{SetAttr, When, XattrFlags};
use ixfs::tree::names::New;
use ixfs::tree::{Body, Caller, Ino, ROOT, RenameFlags, Tree};
pub use random::Random;
use std::fmt::Write;

/// A small store: 24 blocks of log, 100 of data.
pub const SMALL: Geometry = Geometry { blocks: 126, log_blocks: 24, limit: 200 << 10 };

/// A store so small that blocks and log are soon used again: 8 blocks of log, 44 of data.
pub const TIGHT: Geometry = Geometry { blocks: 54, log_blocks: 8, limit: 60 << 10 };

pub fn formatted(geometry: Geometry) -> Vec<u8> {
    let device = MemoryDevice::new(vec![0; geometry.len() as usize]);
    Store::format(&device, geometry, [7; 16], [42, 43], 1_000).expect("the device is large enough");
    device.image()
}

/// Everything that a user can see of a tree, one line for each name.
pub fn dump(tree: &Tree) -> String {
    let mut out = String::new();
    walk(tree, ROOT, "", &mut out);
    out
}

fn walk(tree: &Tree, ino: Ino, path: &str, out: &mut String) {
    let inode = tree.inode(ino).expect("a name refers to an inode");
    let attr = inode.attr();
    let times = (attr.mtime, attr.ctime, attr.atime, attr.btime);
    write!(
        out,
        "{path}/ #{ino} {:o} {}:{} n{} d{} {} b{} {times:?}",
        attr.mode, attr.uid, attr.gid, attr.nlink, attr.rdev, attr.size, attr.blocks
    )
    .unwrap();
    if let Some(xattrs) = &inode.xattrs {
        write!(out, " {:?}", xattrs.map).unwrap();
    }
    match &inode.body {
        Body::File(_) => {
            let mut content = vec![0; attr.size as usize];
            let read = tree.read(ino, 0, &mut content);
            writeln!(out, " {read:?} {:x}", xxhash_rust::xxh3::xxh3_64(&content)).unwrap();
        }
        Body::Symlink(target) => writeln!(out, " -> {}", String::from_utf8_lossy(target)).unwrap(),
        Body::Special => writeln!(out).unwrap(),
        Body::Dir(dir) => {
            writeln!(out, " in #{} {}", dir.parent, dir.count).unwrap();
            let mut names: Vec<_> = dir.entries.range(0).map(|(_, entry)| entry.clone()).collect();
            names.sort_by(|a, b| a.name().cmp(b.name()));
            for entry in names {
                walk(tree, entry.ino, &format!("{path}/{}", String::from_utf8_lossy(entry.name())), out);
            }
        }
    }
}

/// An operation of ACE's kind, on few names, so that short sequences meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Create(u8),
    Mkdir(u8),
    Symlink(u8),
    /// File, offset, length: filled with the number of the operation.
    Write(u8, u64, u64),
    Truncate(u8, u64),
    Punch(u8, u64, u64),
    Rename(u8, u8),
    Exchange(u8, u8),
    Link(u8, u8),
    Unlink(u8),
    Rmdir(u8),
    Xattr(u8),
    Unxattr(u8),
    Chmod(u8),
    /// Pages that the store has leave memory.
    Evict(u8),
}

/// What follows an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    Nothing,
    Commit,
    Snapshot,
    /// A snapshot, and during it a change and a commit before each of its writes.
    Race,
}

/// Names 0 and 1 are in the root, 2 and 3 in directory `d`.
const NAMES: [&str; 5] = ["a", "b", "a", "b", "d"];

fn place(tree: &Tree, name: u8) -> Option<(Ino, &'static [u8])> {
    let dir = if matches!(name, 2 | 3) { tree.resolve("d").ok()? } else { ROOT };
    Some((dir, NAMES[name as usize].as_bytes()))
}

/// Applies an operation; one that does not fit the tree fails as a system call would, and changes nothing.
pub fn apply(tree: &mut Tree, op: Op, number: i64) {
    let caller = Caller::root(10_000 + number);
    let at = |tree: &Tree, name: u8| place(tree, name).unwrap_or((u64::MAX / 4, b"none"));
    let find = |tree: &Tree, name: u8| {
        let (dir, name) = at(tree, name);
        tree.lookup(&caller, dir, name).unwrap_or(u64::MAX / 4)
    };
    let drop_orphan = |tree: &mut Tree, lost: Result<Option<Ino>, _>| {
        if let Ok(Some(ino)) = lost {
            tree.release(ino);
        }
    };
    let _: Option<()> = match op {
        Op::Create(name) => {
            let (dir, name) = at(tree, name);
            tree.create(&caller, dir, name, &New::file(0o644)).ok().map(drop)
        }
        Op::Mkdir(name) => {
            let (dir, name) = at(tree, name);
            tree.create(&caller, dir, name, &New::dir(0o755)).ok().map(drop)
        }
        Op::Symlink(name) => {
            let (dir, name) = at(tree, name);
            tree.create(&caller, dir, name, &New::symlink(b"target")).ok().map(drop)
        }
        Op::Write(name, offset, len) => {
            let bytes: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(number as u8 + 1)).collect();
            tree.write(&caller, find(tree, name), offset, &bytes).ok()
        }
        Op::Truncate(name, len) => tree.truncate(&caller, find(tree, name), len).ok(),
        Op::Punch(name, from, len) => tree.punch(&caller, find(tree, name), from, len, false).ok(),
        Op::Rename(from, to) | Op::Exchange(from, to) => {
            let flags = RenameFlags { exchange: matches!(op, Op::Exchange(..)), no_replace: false };
            let lost = tree.rename(&caller, at(tree, from), at(tree, to), flags);
            drop_orphan(tree, lost);
            None
        }
        Op::Link(from, to) => {
            let (dir, name) = at(tree, to);
            tree.link(&caller, find(tree, from), dir, name).ok()
        }
        Op::Unlink(name) | Op::Rmdir(name) => {
            let (dir, name) = at(tree, name);
            let lost = tree.unlink(&caller, dir, name, matches!(op, Op::Rmdir(_)));
            drop_orphan(tree, lost);
            None
        }
        Op::Xattr(name) => {
            let value = vec![number as u8; 40];
            tree.set_xattr(&caller, find(tree, name), b"user.x", &value, XattrFlags::default()).ok()
        }
        Op::Unxattr(name) => tree.remove_xattr(&caller, find(tree, name), b"user.x").ok(),
        Op::Evict(name) => {
            let ino = find(tree, name);
            tree.evict(ino, 2);
            None
        }
        Op::Chmod(name) => {
            let set = SetAttr {
                mode: Some(0o600 + (number as u32 & 7)),
                mtime: Some(When::At(number)),
                ..SetAttr::default()
            };
            tree.setattr(&caller, find(tree, name), &set, false).ok().map(drop)
        }
    };
}

/// Crash images of a recording: everything flushed, and any subset of the writes since, one of them torn.
pub struct Images<'a> {
    pub base: &'a [u8],
    pub events: &'a [Event],
}

impl Images<'_> {
    /// Visits the images of a crash after the first `point` events. With more than `most` unflushed writes, subsets are
    /// those of prefixes and of all but one.
    pub fn visit(&self, point: usize, most: usize, visit: &mut dyn FnMut(Vec<u8>)) {
        let mut image = self.base.to_vec();
        let flushed = self.events[..point].iter().rposition(|event| *event == Event::Flush).map_or(0, |at| at + 1);
        for event in &self.events[..flushed] {
            if let Event::Write { offset, bytes } = event {
                put(&mut image, *offset, bytes);
            }
        }
        let open: Vec<(u64, &[u8])> = self.events[flushed..point]
            .iter()
            .filter_map(|event| match event {
                Event::Write { offset, bytes } => Some((*offset, &bytes[..])),
                Event::Flush => None,
            })
            .collect();
        for subset in subsets(open.len(), most) {
            let mut whole = image.clone();
            subset.iter().for_each(|index| put(&mut whole, open[*index].0, open[*index].1));
            visit(whole);
            for torn in &subset {
                for sectors in cuts(open[*torn].1.len() / SECTOR) {
                    let mut image = image.clone();
                    for index in &subset {
                        let (offset, bytes) = open[*index];
                        let end = if index == torn { sectors * SECTOR } else { bytes.len() };
                        put(&mut image, offset, &bytes[..end]);
                    }
                    visit(image);
                }
            }
        }
    }
}

fn put(image: &mut [u8], offset: u64, bytes: &[u8]) {
    image[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
}

fn subsets(n: usize, most: usize) -> Vec<Vec<usize>> {
    if n <= most {
        return (0..1_usize << n).map(|bits| (0..n).filter(|i| bits >> i & 1 == 1).collect()).collect();
    }
    let prefixes = (0..=n).map(|end| (0..end).collect());
    let all_but_one = (0..n).map(|out| (0..n).filter(|i| *i != out).collect());
    prefixes.chain(all_but_one).collect()
}

/// Positions at which a write of this number of sectors is torn: everywhere if it is short, else at the ends and in the
/// middle.
fn cuts(sectors: usize) -> Vec<usize> {
    if sectors <= 4 { (1..sectors).collect() } else { vec![1, sectors / 2, sectors - 1] }
}
