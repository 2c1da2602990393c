// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ixfs status`.

use super::arguments::Status;
use anyhow::{Context, bail};
use ixfs::control;
use ixfs::store::Store;
use ixfs::store::device::FileDevice;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The store behind a path: the path itself, or the source of the mount at it.
pub fn store_of(place: &Path) -> anyhow::Result<PathBuf> {
    if !place.is_dir() {
        return Ok(place.to_owned());
    }
    let place = place.canonicalize().with_context(|| format!("{}", place.display()))?;
    // The type does not always name the program, so check whether the source is a store.
    match mounts()?.into_iter().find(|mount| mount.directory == place && id_of(&mount.source).is_ok()) {
        Some(mount) => Ok(mount.source),
        None => {
            bail!(
                "{}: no ixfs is mounted there; expected a store or the directory where it is mounted",
                place.display()
            )
        }
    }
}

/// A mounted FUSE file system.
pub struct MountPoint {
    /// Where it is mounted.
    pub directory: PathBuf,
    /// What is mounted: for ixfs, the absolute path of the store.
    pub source: PathBuf,
}

/// The FUSE file systems that this process sees, the newest mount first.
pub fn mounts() -> anyhow::Result<Vec<MountPoint>> {
    let list = std::fs::read_to_string("/proc/self/mountinfo").context("reading the list of mounts")?;
    let read = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let (directory, mut right) = (left.split(' ').nth(4)?, right.split(' '));
        right.next().filter(|kind| kind.starts_with("fuse"))?;
        Some(MountPoint { directory: unescape(directory).into(), source: unescape(right.next()?).into() })
    };
    Ok(list.lines().rev().filter_map(read).collect())
}

/// Undoes the octal escapes of a mount list.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal =
            (*first == b'\\').then(|| tail.get(..3)).flatten().and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The identity of a store, read without its lock.
pub fn id_of(store: &Path) -> anyhow::Result<[u8; 16]> {
    let bytes = {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(store).with_context(|| format!("{}", store.display()))?;
        file.take(2 * ixfs::store::BLOCK as u64).read_to_end(&mut bytes)?;
        bytes
    };
    Store::id_in(&bytes).with_context(|| format!("{}", store.display()))
}

/// `ixfs status`.
pub fn run(options: &Status) -> anyhow::Result<ExitCode> {
    let store = store_of(&options.place)?;
    let id = id_of(&store)?;
    loop {
        let mut status = match control::ask(&id, "status").context("control socket")? {
            Some(status) => status,
            None => offline(&store)?,
        };
        if let Some(map) = status.as_object_mut() {
            map.insert("store_path".to_owned(), json!(store.to_string_lossy()));
        }
        let mut out = io::stdout().lock();
        if options.format.is_json() {
            writeln!(out, "{status}")?;
        } else {
            if options.watch {
                write!(out, "\x1b[H\x1b[2J")?;
            }
            print(&mut out, &status)?;
        }
        out.flush()?;
        if !options.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn offline(store: &Path) -> anyhow::Result<Value> {
    let device = FileDevice::open_read_only(store).with_context(|| format!("{}", store.display()))?;
    let (opened, tree, recovery) = Store::open(Arc::new(device)).with_context(|| format!("{}", store.display()))?;
    Ok(json!({
        "durability": null,
        "memory_used_bytes": tree.used,
        "memory_limit_bytes": tree.limit,
        "inodes": tree.count,
        "loss_window_ns": 0,
        "store": opened.usage(),
        "recovery": recovery,
    }))
}

fn print(out: &mut impl Write, status: &Value) -> io::Result<()> {
    let number = |path: &str| status.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    let mib = |path: &str| number(path) / f64::from(1 << 20);
    let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or("none").to_owned();
    let serving = status["durability"].as_str().map_or_else(
        || "not served".to_owned(),
        |durability| {
            let served = if status["interface"] == "9p" { "served over 9P" } else { "mounted" };
            format!("{served}, durability {durability}")
        },
    );
    writeln!(out, "store         {} ({serving})", text("/store_path"))?;
    let share = 100.0 * number("/memory_used_bytes") / number("/memory_limit_bytes").max(1.0);
    let (used, limit) = (mib("/memory_used_bytes"), mib("/memory_limit_bytes"));
    let on_disk = mib("/disk_only_bytes");
    writeln!(out, "big files     {on_disk:.1} MiB on disk only")?;
    writeln!(out, "memory        {used:.1} of {limit:.1} MiB ({share:.1} %), {} inodes", number("/inodes"))?;
    let (free, blocks) = (number("/store/blocks_free"), number("/store/blocks"));
    writeln!(
        out,
        "disk          {:.1} % free, {} archived epochs",
        100.0 * free / blocks.max(1.0),
        number("/store/epochs")
    )?;
    let (log, logs) = (number("/store/log_blocks_used"), number("/store/log_blocks"));
    writeln!(
        out,
        "log           {:.1} % in use, batch {}",
        100.0 * log / logs.max(1.0),
        number("/store/log_sequence")
    )?;
    writeln!(out, "snapshot      generation {}", number("/store/generation"))?;
    let (window, most) = (number("/loss_window_ns") / 1e9, number("/loss_window_limit_ns") / 1e9);
    writeln!(out, "loss window   {window:.3} s (at most {most:.0} s, then the server logs by itself)")?;
    let ms = |path: &str| number(path) / 1e6;
    let latency = "/sync_latency_ns";
    if number(&format!("{latency}/count")) == 0.0 {
        writeln!(out, "fsync         no calls yet")?;
    } else {
        writeln!(
            out,
            "fsync         {} calls; of the last 1024: median {:.3} ms, 99 % {:.3} ms, max {:.3} ms",
            number(&format!("{latency}/count")),
            ms(&format!("{latency}/p50")),
            ms(&format!("{latency}/p99")),
            ms(&format!("{latency}/max"))
        )?;
    }
    if let Some(error) = status["last_error"].as_str() {
        writeln!(out, "FAILING       {error}: changes are in memory only")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn mount_list_escapes_are_undone() {
        assert_eq!(super::unescape("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(super::unescape("\\9"), "\\9");
    }
}
