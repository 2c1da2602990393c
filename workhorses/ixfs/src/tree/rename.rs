// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rename, in all its cases.

use super::names::check_name;
use super::permission::{EXECUTE, WRITE};
use super::{Body, Caller, Entry, Ino, MAX_LINKS, ROOT, Result, Tree};
use rustix::io::Errno;

/// Flags of `renameat2(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fail with `EEXIST` if the new name exists.
    pub no_replace: bool,
    /// Swap the two names, which must both exist.
    pub exchange: bool,
}

/// A name and what it refers to.
struct Place {
    dir: Ino,
    cookie: u64,
    entry: Entry,
}

impl Place {
    fn is_dir(&self) -> bool {
        self.entry.kind() == libc::S_IFDIR
    }
}

impl Tree {
    /// Renames `from` (a directory and a name in it) to `to`. Returns the inode that lost its last name by being
    /// replaced; it stays in the tree until [`Tree::release`].
    pub fn rename(
        &mut self,
        caller: &Caller,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Result<Option<Ino>> {
        if flags.no_replace && flags.exchange {
            return Err(Errno::INVAL);
        }
        let source = self.place(caller, from)?.ok_or(Errno::NOENT)?;
        let target = self.place(caller, to)?;
        self.may_rename(caller, &source, to.0, target.as_ref())?;
        match target {
            Some(_) if flags.no_replace => Err(Errno::EXIST),
            Some(target) if flags.exchange => self.exchange(caller, source, target).map(|()| None),
            None if flags.exchange => Err(Errno::NOENT),
            // Two names of one inode: POSIX wants both to stay.
            Some(target) if target.entry.ino == source.entry.ino => Ok(None),
            target => self.replace(caller, source, to, target),
        }
    }

    fn place(&self, caller: &Caller, (dir, name): (Ino, &[u8])) -> Result<Option<Place>> {
        let content = self.dir(dir)?;
        caller.may(self.inode(dir)?, EXECUTE)?;
        match check_name(name) {
            Err(Errno::EXIST) => return Err(Errno::BUSY), // `.` and `..`
            other => other?,
        }
        Ok(self.find(content, name).map(|(cookie, entry)| Place { dir, cookie, entry: entry.clone() }))
    }

    fn may_rename(&self, caller: &Caller, source: &Place, to: Ino, target: Option<&Place>) -> Result<()> {
        let (from_dir, to_dir) = (self.inode(source.dir)?, self.inode(to)?);
        self.may_remove(caller, from_dir, self.inode(source.entry.ino)?)?;
        match target {
            Some(target) => self.may_remove(caller, to_dir, self.inode(target.entry.ino)?)?,
            None => caller.may(to_dir, WRITE | EXECUTE)?,
        }
        if to_dir.nlink == 0 {
            return Err(Errno::NOENT);
        }
        if source.dir != to {
            for moved in std::iter::once(source).filter(|place| place.is_dir()) {
                // The entry `..` changes, which takes write permission on the directory itself.
                caller.may(self.inode(moved.entry.ino)?, WRITE)?;
            }
        }
        Ok(())
    }

    /// Whether `ino` is `dir` or lies above it.
    fn contains(&self, ino: Ino, mut dir: Ino) -> Result<bool> {
        // Bounded, for in a damaged store the parents could form a ring.
        for _ in 0..=self.count {
            if dir == ino {
                return Ok(true);
            }
            if dir == ROOT {
                return Ok(false);
            }
            dir = self.dir(dir)?.parent;
        }
        Err(Errno::IO)
    }

    fn replace(
        &mut self,
        caller: &Caller,
        source: Place,
        to: (Ino, &[u8]),
        target: Option<Place>,
    ) -> Result<Option<Ino>> {
        let moved = source.entry.ino;
        if source.is_dir() && self.contains(moved, to.0)? {
            return Err(Errno::INVAL);
        }
        match &target {
            Some(target) => match (source.is_dir(), target.is_dir()) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if self.dir(target.entry.ino)?.count > 0 => return Err(Errno::NOTEMPTY),
                _ => {}
            },
            None => {
                // One entry is removed and one is added, so only a longer name needs more memory.
                self.room((to.1.len() as u64).saturating_sub(source.entry.name().len() as u64))?;
                if source.is_dir() && source.dir != to.0 && self.inode(to.0)?.nlink >= MAX_LINKS {
                    return Err(Errno::MLINK);
                }
            }
        }
        let entry = Entry::new(moved, source.entry.kind(), to.1)?;
        let mut lost = None;
        if let Some(target) = target {
            self.remove_entry(caller, target.dir, target.cookie)?;
            if target.is_dir() {
                self.melt(target.dir)?.nlink -= 1;
            }
            lost = self.drop_link(caller, target.entry.ino)?;
        }
        // Add the new entry first: this fails if 256 names share a hash, and then nothing must be lost.
        let Place { dir, cookie, .. } = source;
        let is_dir = entry.kind() == libc::S_IFDIR;
        self.add_entry(caller, to.0, entry)?;
        self.remove_entry(caller, dir, cookie)?;
        if is_dir && dir != to.0 {
            self.melt(dir)?.nlink -= 1;
            self.melt(to.0)?.nlink += 1;
            self.set_parent(moved, to.0)?;
        }
        self.melt(moved)?.ctime = caller.now;
        Ok(lost)
    }

    fn exchange(&mut self, caller: &Caller, source: Place, target: Place) -> Result<()> {
        if source.is_dir() && self.contains(source.entry.ino, target.dir)?
            || target.is_dir() && self.contains(target.entry.ino, source.dir)?
        {
            return Err(Errno::INVAL);
        }
        for (place, other) in [(&source, &target), (&target, &source)] {
            let (dir, mtime, ctime) = self.melt_dir(place.dir)?;
            let entry = Entry::new(other.entry.ino, other.entry.kind(), place.entry.name())?;
            dir.entries.insert(place.cookie, entry);
            (*mtime, *ctime) = (caller.now, caller.now);
            self.melt(other.entry.ino)?.ctime = caller.now;
            if other.is_dir() {
                self.set_parent(other.entry.ino, place.dir)?;
            }
        }
        if source.dir != target.dir && source.is_dir() != target.is_dir() {
            let (gains, loses) = if source.is_dir() { (target.dir, source.dir) } else { (source.dir, target.dir) };
            self.melt(gains)?.nlink += 1;
            self.melt(loses)?.nlink -= 1;
        }
        Ok(())
    }

    fn set_parent(&mut self, ino: Ino, parent: Ino) -> Result<()> {
        if let Body::Dir(dir) = &mut self.melt(ino)?.body {
            dir.parent = parent;
        }
        Ok(())
    }
}
