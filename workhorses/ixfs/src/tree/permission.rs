// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permission checks, for 9P: FUSE leaves them to the kernel.

use super::{Caller, Ino, Inode, Result, Tree};
use rustix::io::Errno;

/// Read permission, as in `access(2)`.
pub const READ: u32 = 4;
/// Write permission.
pub const WRITE: u32 = 2;
/// Execute permission; for a directory, permission to look names up.
pub const EXECUTE: u32 = 1;

/// The mode after an unprivileged change of the content: set-user-id is cleared, and set-group-id where the group may
/// execute.
pub fn without_privileges(mode: u32) -> u32 {
    let setgid = if mode & 0o010 != 0 { libc::S_ISGID } else { 0 };
    if mode & libc::S_IFMT == libc::S_IFREG { mode & !(libc::S_ISUID | setgid) } else { mode }
}

impl Caller {
    /// Whether the caller belongs to a group.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Fails with `EACCES` unless the caller has all permissions in `wanted`. User 0 lacks only the execution of files
    /// that no one may execute.
    pub fn may(&self, inode: &Inode, wanted: u32) -> Result<()> {
        if !self.checked {
            return Ok(());
        }
        let granted = if self.uid == 0 {
            let executable = inode.kind() == libc::S_IFDIR || inode.mode & 0o111 != 0;
            READ | WRITE | if executable { EXECUTE } else { 0 }
        } else if self.uid == inode.uid {
            inode.mode >> 6
        } else if self.in_group(inode.gid) {
            inode.mode >> 3
        } else {
            inode.mode
        };
        if wanted & !granted & 7 == 0 { Ok(()) } else { Err(Errno::ACCESS) }
    }

    /// Whether the caller owns the inode or is user 0.
    pub fn owns(&self, inode: &Inode) -> bool {
        !self.checked || self.uid == 0 || self.uid == inode.uid
    }
}

impl Tree {
    /// `access(2)` with the bits [`READ`], [`WRITE`] and [`EXECUTE`].
    pub fn access(&self, caller: &Caller, ino: Ino, wanted: u32) -> Result<()> {
        caller.may(self.inode(ino)?, wanted)
    }

    /// Clears the set-id bits of a regular file, as a change of its content or owner does.
    pub fn drop_privileges(&mut self, ino: Ino) -> Result<()> {
        let mode = self.inode(ino)?.mode;
        if without_privileges(mode) != mode {
            self.melt(ino)?.mode = without_privileges(mode);
        }
        Ok(())
    }

    /// Checks that the caller may remove or replace the entry for `victim` in `dir`: write permission, and in a sticky
    /// directory the ownership of one of the two.
    pub(super) fn may_remove(&self, caller: &Caller, dir: &Inode, victim: &Inode) -> Result<()> {
        caller.may(dir, WRITE | EXECUTE)?;
        let sticky = dir.mode & libc::S_ISVTX != 0;
        if sticky && !caller.owns(dir) && !caller.owns(victim) { Err(Errno::PERM) } else { Ok(()) }
    }
}
