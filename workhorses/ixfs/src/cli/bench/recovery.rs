// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time to open a store, compared with the time to read its bytes.

use super::places::{DISK, IXFS};
use super::{Row, Unit};
use anyhow::{Context, bail};
use ixfs::store::device::FileDevice;
use ixfs::store::{Geometry, Store};
use ixfs::tree::names::New;
use ixfs::tree::{Caller, ROOT, Tree};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Length of the files in the store: that of a middling source file or object file.
const FILE: usize = 64 << 10;
/// Files in a directory.
const FILES: u64 = 1000;

/// Measures the opening of a store with `size` bytes of files, and the plain reading of as many bytes as that reads,
/// both with the page cache empty. The row's *disk* is the reading.
pub fn measure(directory: &Path, size: u64, rounds: u32, stopped: &AtomicBool) -> anyhow::Result<Row> {
    let (store, plain) = (directory.join("recovery.ixfs"), directory.join("recovery.plain"));
    let result = measure_at(&store, &plain, size, rounds, stopped);
    let _ = std::fs::remove_file(&store);
    let _ = std::fs::remove_file(&plain);
    result
}

fn measure_at(store: &Path, plain: &Path, size: u64, rounds: u32, stopped: &AtomicBool) -> anyhow::Result<Row> {
    fill(store, size)?;
    let mut bytes_read = open(store)?.1;
    write_plain(plain, bytes_read)?;
    let mut row = Row::new(&format!("open a store of {} MiB", size >> 20), Unit::Milliseconds);
    for round in 0..rounds {
        let time = |place| -> anyhow::Result<u64> {
            let path = if place == IXFS { store } else { plain };
            forget(path)?;
            let begin = Instant::now();
            if place == IXFS {
                bytes_read = open(store)?.1;
            } else {
                read_all(plain)?;
            }
            Ok(begin.elapsed().as_nanos() as u64)
        };
        let order = if round % 2 == 0 { [IXFS, DISK] } else { [DISK, IXFS] };
        let mut time = time;
        for place in order {
            row.times[place].push(time(place)?);
            super::unless_stopped(stopped)?;
        }
    }
    Ok(row)
}

fn fill(path: &Path, size: u64) -> anyhow::Result<()> {
    let geometry = Geometry::for_limit(size + size / 4)?;
    let device = FileDevice::create(path, geometry.len()).with_context(|| format!("{}", path.display()))?;
    Store::format(&device, geometry, [1; 16], [1, 1], 0)?;
    let (store, mut tree, _) = Store::open(Arc::new(device))?;
    let caller = Caller::root(0);
    let mut fill = |number: u64| -> rustix::io::Result<()> {
        let dir = match number % FILES {
            0 => tree.create(&caller, ROOT, format!("dir{}", number / FILES).as_bytes(), &New::dir(0o755))?,
            _ => tree.resolve(&format!("dir{}", number / FILES))?,
        };
        let ino = tree.create(&caller, dir, format!("file{number}").as_bytes(), &New::file(0o644))?;
        tree.write(&caller, ino, 0, &vec![(number % 251) as u8 + 1; FILE])
    };
    (0..size / FILE as u64).try_for_each(&mut fill)?;
    store.snapshot(&|| tree.freeze(), 0, None)?;
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<(Tree, u64)> {
    let (_, tree, recovery) = Store::open(Arc::new(FileDevice::open(path)?))?;
    if recovery.damaged_pages > 0 {
        bail!("the store is damaged");
    }
    Ok((tree, recovery.bytes_read))
}

fn write_plain(path: &Path, len: u64) -> anyhow::Result<()> {
    let file = File::create(path)?;
    let chunk = vec![5; 1 << 20];
    for at in 0..len.div_ceil(1 << 20) {
        file.write_all_at(&chunk, at << 20)?;
    }
    file.sync_all()?;
    Ok(())
}

fn read_all(path: &Path) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 1 << 20];
    while file.read(&mut chunk)? > 0 {}
    Ok(())
}

/// Drops a file's pages from the page cache.
fn forget(path: &Path) -> anyhow::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}
