// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening a store that no other process may use at the same time.

use super::status::{id_of, mounts};
use anyhow::{Context, bail};
use ixfs::control;
use ixfs::store::device::FileDevice;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for a server that ends. Its last snapshot is as long as memory is large.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens and locks a store. `umount` returns before the server has taken its last snapshot: such a server is waited for.
///
/// # Errors
/// The store cannot be opened; another process uses it and is not about to end.
pub fn open_locked(store: &Path, open: fn(&Path) -> io::Result<FileDevice>) -> anyhow::Result<FileDevice> {
    let begin = Instant::now();
    let mut said = false;
    loop {
        match open(store) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && begin.elapsed() < PATIENCE => {
                refuse_if_served(store)?;
                // Most servers end within an instant, which is not worth a message.
                if !said && begin.elapsed() > Duration::from_secs(1) {
                    eprintln!("ixfs: {}: waiting for the process that has it open", store.display());
                    said = true;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened.with_context(|| format!("{}", store.display())),
        }
    }
}

/// Fails if the store is mounted, or a server answers that is not that of a mount which has gone.
fn refuse_if_served(store: &Path) -> anyhow::Result<()> {
    let shown = store.display();
    if let Some(directory) = mounted_at(store)? {
        bail!("{shown}: it is mounted at {}; unmount it first", directory.display());
    }
    let status = id_of(store).ok().and_then(|id| control::ask(&id, "status").ok().flatten());
    if status.is_some_and(|status| status["interface"] == "9p") {
        bail!("{shown}: it is served over 9P; stop that server first");
    }
    Ok(())
}

fn mounted_at(store: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Ok(store) = store.canonicalize() else { return Ok(None) };
    Ok(mounts()?.into_iter().find(|mount| mount.source == store).map(|mount| mount.directory))
}
