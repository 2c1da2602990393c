// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single operations, and `fsync` with one writer and with eight.

use super::places::{FLOOR, NAMES, Places};
use super::{Row, Unit};
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Files for operations on single files.
const FILES: usize = 300;
/// Calls of `fsync` in a round, over all writers.
const SYNCS: usize = 160;

type Time = fn(&Subject) -> Result<u64>;

/// Operations, in the order in which they are measured.
const OPERATIONS: [(&str, Time); 13] = [
    ("create", |subject| each(FILES, |number| File::create(subject.path(number)).map(drop))),
    ("write 4 KiB", |subject| each(FILES, |number| subject.file.write_all_at(&[7; 4096], number as u64 * 4096))),
    ("read 4 KiB", |subject| each(FILES, |number| subject.file.read_exact_at(&mut [0; 4096], number as u64 * 4096))),
    ("stat", |subject| each(FILES, |number| fs::metadata(subject.path(number)).map(drop))),
    ("rename", |subject| {
        each(FILES, |number| fs::rename(subject.path(number), subject.dir.join(format!("moved{number}"))))
    }),
    ("readdir", |subject| {
        each(1, |_| match fs::read_dir(subject.root.join("large"))?.count() {
            0 => Err(Error::other("the listing is empty")),
            _ => Ok(()),
        })
    }),
    ("write 1 MiB", |subject| each(16, |number| subject.file.write_all_at(&BIG, number as u64 * (1 << 20)))),
    ("overwrite and fsync, 1 writer", |subject| syncs(subject, 1, overwrite)),
    ("overwrite and fsync, 8 writers", |subject| syncs(subject, 8, overwrite)),
    ("append and fsync, 1 writer", |subject| syncs(subject, 1, append)),
    ("append and fsync, 8 writers", |subject| syncs(subject, 8, append)),
    ("create and fsync, 1 writer", |subject| syncs(subject, 1, create)),
    ("create and fsync, 8 writers", |subject| syncs(subject, 8, create)),
];

static BIG: [u8; 1 << 20] = [9; 1 << 20];

/// A file system in one round.
struct Subject {
    root: PathBuf,
    dir: PathBuf,
    file: File,
}

impl Subject {
    fn new(root: &Path, round: usize) -> Result<Subject> {
        let dir = root.join(format!("round{round}"));
        fs::create_dir(&dir)?;
        let file = File::options().create(true).truncate(false).read(true).write(true).open(dir.join("data"))?;
        Ok(Subject { root: root.to_owned(), dir, file })
    }

    fn path(&self, number: usize) -> PathBuf {
        self.dir.join(format!("file{number}"))
    }
}

/// Checks that each text selects an operation; `none` selects none.
pub fn check(only: &[String]) -> anyhow::Result<()> {
    for part in only.iter().filter(|part| *part != "none") {
        if !OPERATIONS.iter().any(|(name, _)| name.contains(part.as_str())) {
            let names: Vec<String> = OPERATIONS.iter().map(|(name, _)| format!("{name:?}")).collect();
            bail!("--only {part}: no operation has this in its name; expected none or a part of {}", names.join(", "));
        }
    }
    Ok(())
}

/// Measures the operations whose names contain one of `only`; all of them if it is empty.
pub fn measure(
    places: &Places,
    rounds: u32,
    files: u32,
    only: &[String],
    stopped: &AtomicBool,
) -> anyhow::Result<Vec<Row>> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let chosen: Vec<(&str, Time)> = OPERATIONS.into_iter().filter(|(name, _)| wanted(name)).collect();
    if wanted("readdir") {
        for root in &places.roots {
            let large = root.join("large");
            fs::create_dir(&large)?;
            (0..files).try_for_each(|number| File::create(large.join(format!("file{number:08}"))).map(drop))?;
        }
    }
    let mut rows: Vec<Row> = chosen.iter().map(|(name, _)| Row::new(name, Unit::Microseconds)).collect();
    for round in 0..rounds as usize {
        let subjects = places.roots.iter().map(|root| Subject::new(root, round)).collect::<Result<Vec<_>>>()?;
        for (row, (_, time)) in rows.iter_mut().zip(&chosen) {
            // The four runs of an operation follow each other directly, because other load on the machine changes from
            // second to second. Their order differs in each round.
            for turn in 0..subjects.len() {
                let place = (round + turn) % subjects.len();
                row.times[place].push(time(&subjects[place]).context(NAMES[place])?);
            }
            super::unless_stopped(stopped)?;
        }
        for (place, subject) in subjects.iter().enumerate() {
            // The floor cannot remove files: what a round leaves there stays until the end.
            if place != FLOOR {
                fs::remove_dir_all(&subject.dir)?;
            }
        }
    }
    Ok(rows)
}

/// Nanoseconds for each of `count` operations.
fn each(count: usize, run: impl FnMut(usize) -> Result<()>) -> Result<u64> {
    let begin = Instant::now();
    (0..count).try_for_each(run)?;
    Ok((begin.elapsed().as_nanos() / count as u128) as u64)
}

/// Writes a block in place, after the first calls have allocated it.
fn overwrite(_: &Path, file: &File, number: usize) -> Result<()> {
    file.write_all_at(&[number as u8; 4096], number as u64 % 4 * 4096)?;
    file.sync_all()
}

fn append(_: &Path, file: &File, number: usize) -> Result<()> {
    file.write_all_at(&[number as u8; 4096], number as u64 * 4096)?;
    file.sync_all()
}

/// Writes a new file and makes it durable with its name.
fn create(base: &Path, _: &File, number: usize) -> Result<()> {
    let file = File::create(base.with_extension(number.to_string()))?;
    file.write_all_at(&[number as u8; 4096], 0)?;
    file.sync_all()
}

/// Nanoseconds for one change with `fsync`, where `writers` threads change files of their own at the same time.
fn syncs(subject: &Subject, writers: usize, change: fn(&Path, &File, usize) -> Result<()>) -> Result<u64> {
    static RUN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let run = RUN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let names: Vec<PathBuf> = (0..writers).map(|writer| subject.dir.join(format!("sync{run}-{writer}"))).collect();
    let files = names.iter().map(File::create).collect::<Result<Vec<File>>>()?;
    let count = SYNCS / writers;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let write = |(name, file): (&PathBuf, &File)| (0..count).try_for_each(|number| change(name, file, number));
        let threads: Vec<_> = names.iter().zip(&files).map(|writer| scope.spawn(move || write(writer))).collect();
        let panicked = || Err(Error::other("a writer panicked"));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| panicked()))
    })?;
    Ok((begin.elapsed().as_nanos() / (writers * count) as u128) as u64)
}
