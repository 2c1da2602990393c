// SPDX-License-Identifier: MIT OR Apache-2.0
//! Archived epochs as directories `/archive/YYYY/MMDD`, read-only, and the combined tree that FUSE and 9P clients
//! see: the live tree with `/archive` in its root.
//!
//! `archive` is a name of the root that listings do not show. It exists if there is an epoch and the root has no
//! entry of that name. An epoch's metadata is loaded when it is first used; its pages are read when they are.

use crate::server::{Server, lock};
use crate::store::Store;
use crate::store::epochs::Epoch;
use crate::tree::{Attr, Caller, Entry, Ino, ROOT, Result, Tree};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Name of the virtual directory in the root.
pub const NAME: &[u8] = b"archive";

/// Bits for the inode number within the live tree or an epoch; the bits above hold the number of the epoch.
const EPOCH_SHIFT: u32 = 48;
/// Bit of the inode numbers of `/archive` and the years in it.
const VIRTUAL: Ino = 1 << 62;
/// Epochs whose metadata stays in memory.
const LOADED: usize = 4;

/// Epochs in use, and the numbers that stand for them in inode numbers of the combined tree.
#[derive(Default)]
pub struct Cache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Names of the epochs, in the order of their first use: the number of an epoch is its place, from 1.
    numbers: Vec<String>,
    trees: BTreeMap<u64, Arc<Tree>>,
}

/// What an inode number of the combined tree (live tree and archived epochs) refers to.
pub enum Place {
    /// An inode of the live tree.
    Live(Ino),
    /// `/archive`.
    Archive,
    /// `/archive/YYYY`.
    Year(u64),
    /// An inode of an archived tree, and the epoch's number.
    Epoch(Arc<Tree>, Ino, u64),
}

/// Composes the inode number in the combined tree.
fn combined_ino(epoch: u64, ino: Ino) -> Ino {
    epoch << EPOCH_SHIFT | ino
}

fn virtual_attr(ino: Ino, time: i64) -> Attr {
    let mode = libc::S_IFDIR | 0o555;
    let (atime, mtime, ctime, btime) = (time, time, time, time);
    Attr { ino, mode, uid: 0, gid: 0, nlink: 2, rdev: 0, size: 0, blocks: 0, atime, mtime, ctime, btime }
}

fn parse_year(name: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(name).ok().filter(|text| text.len() == 4)?;
    text.parse().ok()
}

impl Server {
    /// Returns what an inode number of the combined tree refers to.
    pub fn place(&self, ino: Ino) -> Result<Place> {
        if ino >> EPOCH_SHIFT == 0 {
            return Ok(Place::Live(ino));
        }
        if ino == VIRTUAL {
            return Ok(Place::Archive);
        }
        if ino & VIRTUAL != 0 {
            return Ok(Place::Year(ino & !VIRTUAL));
        }
        let epoch = ino >> EPOCH_SHIFT;
        let within = ino & ((1 << EPOCH_SHIFT) - 1);
        Ok(Place::Epoch(self.epoch(epoch)?, within, epoch))
    }

    /// Fails with `EROFS` unless a number stands for a live inode.
    pub fn live(&self, ino: Ino) -> Result<Ino> {
        if ino >> EPOCH_SHIFT == 0 { Ok(ino) } else { Err(Errno::ROFS) }
    }

    fn epoch(&self, number: u64) -> Result<Arc<Tree>> {
        let mut state = lock(&self.archive.state);
        if let Some(tree) = state.trees.get(&number) {
            return Ok(tree.clone());
        }
        let name = state.numbers.get(number as usize - 1).cloned().ok_or(Errno::STALE)?;
        let epoch = self.store().epochs().into_iter().find(|epoch| epoch.name == name).ok_or(Errno::STALE)?;
        let tree = Arc::new(self.store().load_epoch(&epoch).map_err(|error| error.errno())?);
        if state.trees.len() >= LOADED {
            state.trees.pop_first();
        }
        state.trees.insert(number, tree.clone());
        Ok(tree)
    }

    fn epoch_number(&self, name: &str) -> u64 {
        let mut state = lock(&self.archive.state);
        let at = state.numbers.iter().position(|known| known == name).unwrap_or_else(|| {
            state.numbers.push(name.to_owned());
            state.numbers.len() - 1
        });
        at as u64 + 1
    }

    /// Looks a name up in a directory of the combined tree.
    pub fn combined_lookup(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Attr> {
        match self.place(parent)? {
            Place::Live(parent) => {
                let found = self.read(|tree| tree.lookup(caller, parent, name).and_then(|ino| tree.attr(ino)));
                match found {
                    Err(Errno::NOENT) if parent == ROOT && name == NAME && !self.store().epochs().is_empty() => {
                        self.combined_attr(VIRTUAL)
                    }
                    other => other,
                }
            }
            Place::Archive => match name {
                b"." => self.combined_attr(VIRTUAL),
                b".." => self.combined_attr(ROOT),
                _ => {
                    let year = parse_year(name).filter(|year| self.in_year(*year).next().is_some());
                    self.combined_attr(VIRTUAL | year.ok_or(Errno::NOENT)?)
                }
            },
            Place::Year(year) => match name {
                b"." => self.combined_attr(VIRTUAL | year),
                b".." => self.combined_attr(VIRTUAL),
                _ => {
                    let day = std::str::from_utf8(name).map_err(|_| Errno::NOENT)?;
                    let wanted = format!("{year:04}/{day}");
                    let epoch = self.in_year(year).find(|epoch| epoch.name == wanted).ok_or(Errno::NOENT)?;
                    self.combined_attr(combined_ino(self.epoch_number(&epoch.name), ROOT))
                }
            },
            Place::Epoch(tree, ino, epoch) => {
                if name == b".." && ino == ROOT {
                    return self.combined_attr(self.combined_parent(parent)?);
                }
                let mut attr = tree.lookup(caller, ino, name).and_then(|ino| tree.attr(ino))?;
                attr.ino = combined_ino(epoch, attr.ino);
                Ok(attr)
            }
        }
    }

    fn in_year(&self, year: u64) -> impl Iterator<Item = Epoch> {
        let prefix = format!("{year:04}/");
        self.store().epochs().into_iter().filter(move |epoch| epoch.name.starts_with(&prefix))
    }

    /// Attributes of an inode of the combined tree.
    pub fn combined_attr(&self, ino: Ino) -> Result<Attr> {
        match self.place(ino)? {
            Place::Live(ino) => self.read(|tree| tree.attr(ino)),
            Place::Archive => {
                let newest = self.store().epochs().last().map_or(0, |epoch| epoch.time);
                Ok(virtual_attr(VIRTUAL, newest))
            }
            Place::Year(year) => {
                let newest = self.in_year(year).last().ok_or(Errno::NOENT)?.time;
                Ok(virtual_attr(VIRTUAL | year, newest))
            }
            Place::Epoch(tree, within, _) => Ok(Attr { ino, ..tree.attr(within)? }),
        }
    }

    /// Parent of a directory of the combined tree.
    pub fn combined_parent(&self, ino: Ino) -> Result<Ino> {
        match self.place(ino)? {
            Place::Live(ino) => self.read(|tree| tree.parent(ino)),
            Place::Archive => Ok(ROOT),
            Place::Year(_) => Ok(VIRTUAL),
            Place::Epoch(tree, within, epoch) if within != ROOT => Ok(combined_ino(epoch, tree.parent(within)?)),
            Place::Epoch(_, _, epoch) => {
                let name = lock(&self.archive.state).numbers.get(epoch as usize - 1).cloned().ok_or(Errno::STALE)?;
                Ok(VIRTUAL | parse_year(&name.as_bytes()[..4]).ok_or(Errno::STALE)?)
            }
        }
    }

    /// Visits entries of a directory of the combined tree whose cookie is greater than `after`, `.` and `..` first,
    /// until `visit` returns false. An entry comes with its cookie and attributes where they are known.
    pub fn combined_list(
        &self,
        ino: Ino,
        after: u64,
        visit: &mut dyn FnMut(u64, &Entry, Option<Attr>) -> bool,
    ) -> Result<()> {
        let dot = |name: &str, ino| Entry::new(ino, libc::S_IFDIR, name.as_bytes());
        let parent = self.combined_parent(ino)?;
        for (cookie, entry) in [(1, dot(".", ino)?), (2, dot("..", parent)?)] {
            if cookie > after && !visit(cookie, &entry, None) {
                return Ok(());
            }
        }
        let after = after.max(2);
        match self.place(ino)? {
            Place::Live(ino) => self.read(|tree| {
                for (cookie, entry) in tree.list(ino, after)? {
                    if !visit(cookie, entry, tree.attr(entry.ino).ok()) {
                        break;
                    }
                }
                Ok(())
            }),
            Place::Epoch(tree, within, epoch) => {
                for (cookie, entry) in tree.list(within, after)? {
                    let ino = combined_ino(epoch, entry.ino);
                    let attr = tree.attr(entry.ino).ok().map(|attr| Attr { ino, ..attr });
                    if !visit(cookie, &entry.renumbered(ino), attr) {
                        break;
                    }
                }
                Ok(())
            }
            Place::Archive => {
                let mut years: Vec<u64> =
                    self.store().epochs().iter().filter_map(|epoch| parse_year(&epoch.name.as_bytes()[..4])).collect();
                years.sort_unstable();
                years.dedup();
                for year in years {
                    // The cookies of `.` and `..` are 1 and 2.
                    let entry = dot(&format!("{year:04}"), VIRTUAL | year)?;
                    if year + 3 > after && !visit(year + 3, &entry, self.combined_attr(VIRTUAL | year).ok()) {
                        break;
                    }
                }
                Ok(())
            }
            Place::Year(year) => {
                for (cookie, epoch) in (3..).zip(self.in_year(year)) {
                    let ino = combined_ino(self.epoch_number(&epoch.name), ROOT);
                    let entry = dot(&epoch.name[5..], ino)?;
                    if cookie > after && !visit(cookie, &entry, self.combined_attr(ino).ok()) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads bytes of a file of the combined tree. If a page is damaged, a message on standard error names it.
    pub fn combined_read(&self, ino: Ino, offset: u64, out: &mut [u8]) -> Result<usize> {
        let result = match self.place(ino)? {
            Place::Live(ino) => self.read(|tree| tree.read(ino, offset, out)),
            Place::Epoch(tree, within, _) => tree.read(within, offset, out),
            Place::Archive | Place::Year(_) => Err(Errno::ISDIR),
        };
        if result == Err(Errno::IO) {
            let path = match self.place(ino)? {
                Place::Live(ino) => self.path_of(ino),
                Place::Epoch(tree, within, _) => tree.path_of(within).unwrap_or_default(),
                Place::Archive | Place::Year(_) => String::new(),
            };
            eprintln!("ixfs: {path}: damaged near byte {offset}: the store does not match its checksum");
        }
        result
    }

    /// Runs a read-only operation on the tree (live or archived) to which an inode of the combined tree belongs.
    pub fn combined_view<R>(&self, ino: Ino, view: impl FnOnce(&Tree, Ino) -> Result<R>) -> Result<R> {
        match self.place(ino)? {
            Place::Live(ino) => self.read(|tree| view(tree, ino)),
            Place::Epoch(tree, within, _) => view(&tree, within),
            Place::Archive | Place::Year(_) => Err(Errno::NODATA),
        }
    }

    /// Whether a store has epochs, for messages.
    pub fn has_epochs(store: &Store) -> bool {
        !store.epochs().is_empty()
    }
}
