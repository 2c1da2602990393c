// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file systems that are compared: ixfs, the floor, tmpfs and the disk's own.

use anyhow::bail;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What is compared, the subject first.
pub const NAMES: [&str; 4] = ["ixfs", "floor", "tmpfs", "disk"];
/// Position of ixfs in [`NAMES`].
pub const IXFS: usize = 0;
/// Position of the floor in [`NAMES`].
pub const FLOOR: usize = 1;
/// Position of tmpfs in [`NAMES`].
pub const TMPFS: usize = 2;
/// Position of the disk's file system in [`NAMES`].
pub const DISK: usize = 3;

/// The four file systems, mounted in a directory of their own; unmounted and removed when dropped.
pub struct Places {
    base: PathBuf,
    children: Vec<Child>,
    mounts: Vec<PathBuf>,
    /// Root directories, in the order of [`NAMES`].
    pub roots: Vec<PathBuf>,
}

impl Places {
    /// Mounts the file systems below `directory`. The store lies there too, so that ixfs and the disk's file system
    /// write to the same disk.
    pub fn new(directory: &Path, size: &str) -> anyhow::Result<Places> {
        let base = directory.join(format!("ixfs-bench-{}", std::process::id()));
        fs::create_dir(&base)?;
        let mut places = Places { base, children: Vec::new(), mounts: Vec::new(), roots: Vec::new() };
        let roots: Vec<PathBuf> = NAMES.iter().map(|name| places.base.join(name)).collect();
        roots.iter().try_for_each(fs::create_dir)?;
        let store = places.base.join("store");
        let mount = ["mount", "--foreground", "--size", size].map(OsStr::new);
        places.serve(&[&mount[..], &[store.as_os_str(), roots[IXFS].as_os_str()]].concat(), &roots[IXFS])?;
        places.serve(&["floor".as_ref(), roots[FLOOR].as_os_str()], &roots[FLOOR])?;
        rustix::mount::mount("tmpfs", &roots[TMPFS], "tmpfs", rustix::mount::MountFlags::empty(), None)?;
        places.mounts.push(roots[TMPFS].clone());
        places.roots = roots;
        Ok(places)
    }

    fn serve(&mut self, arguments: &[&OsStr], mount: &Path) -> anyhow::Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .env("IXFS_READY", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = &mut child.stdout {
            BufReader::new(output).read_line(&mut line)?;
        }
        self.children.push(child);
        self.mounts.push(mount.to_owned());
        if line.trim() != "ready" {
            bail!("{}: the server did not start", mount.display());
        }
        Ok(())
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for mount in &self.mounts {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.base);
    }
}
