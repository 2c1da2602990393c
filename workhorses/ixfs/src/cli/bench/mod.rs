// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ixfs bench`: the same operations on ixfs, on the FUSE floor, on tmpfs and on the disk's file system, in one run.

pub mod floor;

use super::arguments::Bench;
use anyhow::{Context, bail};
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

/// What is compared, the subject first.
const NAMES: [&str; 4] = ["ixfs", "floor", "tmpfs", "disk"];

/// Files for operations on single files.
const FILES: usize = 300;

/// Operations, in the order in which they are measured.
const OPERATIONS: [&str; 9] = [
    "create",
    "write 4 KiB",
    "read 4 KiB",
    "stat",
    "rename",
    "readdir",
    "write 1 MiB",
    "fsync, 1 writer",
    "fsync, 8 writers",
];

/// `ixfs bench`.
pub fn run(options: &Bench) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("bench mounts file systems: run it as user 0");
    }
    let base = options.directory.join(format!("ixfs-bench-{}", std::process::id()));
    fs::create_dir(&base).with_context(|| format!("{}", base.display()))?;
    let mut places = Places { base, children: Vec::new(), mounts: Vec::new() };
    let result = measure(options, &mut places);
    drop(places);
    let table = result?;
    print(options, &table)?;
    Ok(ExitCode::SUCCESS)
}

/// The four file systems; unmounted and removed when dropped.
struct Places {
    base: PathBuf,
    children: Vec<Child>,
    mounts: Vec<PathBuf>,
}

impl Places {
    fn directory(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.base.join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    fn serve(&mut self, arguments: &[&std::ffi::OsStr], mount: &Path) -> anyhow::Result<()> {
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

    fn start(&mut self) -> anyhow::Result<Vec<PathBuf>> {
        let (ixfs, floor, tmpfs) = (self.directory("ixfs")?, self.directory("floor")?, self.directory("tmpfs")?);
        let disk = self.directory("disk")?;
        let store = self.base.join("store");
        let mount = ["mount", "--foreground", "--size", "2G"].map(std::ffi::OsStr::new);
        self.serve(&[&mount[..], &[store.as_os_str(), ixfs.as_os_str()]].concat(), &ixfs)?;
        self.serve(&["floor".as_ref(), floor.as_os_str()], &floor)?;
        rustix::mount::mount("tmpfs", &tmpfs, "tmpfs", rustix::mount::MountFlags::empty(), None)?;
        self.mounts.push(tmpfs.clone());
        Ok(vec![ixfs, floor, tmpfs, disk])
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

/// Times in nanoseconds by operation, place and round.
type Table = Vec<Vec<Vec<u64>>>;

fn measure(options: &Bench, places: &mut Places) -> anyhow::Result<Table> {
    let roots = places.start()?;
    for root in &roots {
        let large = root.join("large");
        fs::create_dir(&large)?;
        for number in 0..options.files {
            File::create(large.join(format!("file{number:08}")))?;
        }
    }
    let mut table: Table = vec![vec![Vec::new(); NAMES.len()]; OPERATIONS.len()];
    for round in 0..options.rounds as usize {
        let subjects: Vec<Subject> = roots.iter().map(|root| Subject::new(root, round)).collect::<Result<_, _>>()?;
        for (operation, times) in table.iter_mut().enumerate() {
            // The four runs of an operation follow each other directly, because other load on the machine changes from
            // second to second. Their order differs in each round.
            for turn in 0..roots.len() {
                let place = (round + turn) % roots.len();
                times[place].push(subjects[place].time(operation).with_context(|| NAMES[place].to_owned())?);
            }
        }
        for subject in &subjects {
            fs::remove_dir_all(&subject.dir).or_else(|_| subject.forget())?;
        }
    }
    Ok(table)
}

/// Nanoseconds for each of `count` operations.
fn each(count: usize, mut run: impl FnMut(usize) -> std::io::Result<()>) -> anyhow::Result<u64> {
    let begin = Instant::now();
    for number in 0..count {
        run(number)?;
    }
    Ok((begin.elapsed().as_nanos() / count as u128) as u64)
}

/// A file system in one round.
struct Subject {
    root: PathBuf,
    dir: PathBuf,
    file: File,
}

impl Subject {
    fn new(root: &Path, round: usize) -> std::io::Result<Subject> {
        let dir = root.join(format!("round{round}"));
        fs::create_dir(&dir)?;
        let file = File::options().create(true).truncate(false).read(true).write(true).open(dir.join("data"))?;
        Ok(Subject { root: root.to_owned(), dir, file })
    }

    /// The floor cannot remove files: what a round leaves there stays until the end.
    fn forget(&self) -> std::io::Result<()> {
        if self.root.ends_with("floor") { Ok(()) } else { Err(std::io::Error::other("removing a round's files")) }
    }

    /// Nanoseconds for one operation of a kind.
    fn time(&self, operation: usize) -> anyhow::Result<u64> {
        let path = |number: usize| self.dir.join(format!("file{number}"));
        let mut block = vec![7; 4096];
        match operation {
            0 => each(FILES, |number| File::create(path(number)).map(drop)),
            1 => each(FILES, |number| self.file.write_all_at(&block, number as u64 * 4096)),
            2 => each(FILES, |number| self.file.read_exact_at(&mut block, number as u64 * 4096)),
            3 => each(FILES, |number| fs::metadata(path(number)).map(drop)),
            4 => each(FILES, |number| fs::rename(path(number), self.dir.join(format!("moved{number}")))),
            5 => each(1, |_| {
                let listed = fs::read_dir(self.root.join("large"))?.count();
                if listed == 0 { Err(std::io::Error::other("the listing is empty")) } else { Ok(()) }
            }),
            6 => {
                let big = vec![9; 1 << 20];
                each(16, |number| self.file.write_all_at(&big, number as u64 * (1 << 20)))
            }
            7 => syncs(&self.dir, 1, 100),
            _ => syncs(&self.dir, 8, 25),
        }
    }
}

/// Nanoseconds for one write of 4 KiB with `fsync`, with this number of writers, each of a file of its own.
fn syncs(dir: &Path, writers: usize, count: usize) -> anyhow::Result<u64> {
    let begin = Instant::now();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn(move || -> std::io::Result<()> {
                    let file = File::create(dir.join(format!("sync{writers}-{writer}")))?;
                    for number in 0..count {
                        file.write_all_at(&[number as u8; 4096], number as u64 % 16 * 4096)?;
                        file.sync_all()?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        Ok(())
    })?;
    Ok((begin.elapsed().as_nanos() / (writers * count) as u128) as u64)
}

fn median(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// Median of the rounds' ratios.
fn ratio(subject: &[u64], other: &[u64]) -> f64 {
    let mut ratios: Vec<u64> = subject.iter().zip(other).map(|(a, b)| a * 1000 / (*b).max(1)).collect();
    ratios.sort_unstable();
    ratios.get(ratios.len() / 2).map_or(0.0, |ratio| *ratio as f64 / 1000.0)
}

fn print(options: &Bench, table: &Table) -> anyhow::Result<()> {
    if options.format.is_json() {
        for (operation, places) in OPERATIONS.iter().zip(table) {
            let named = |value: &dyn Fn(usize) -> serde_json::Value, suffix: &str| -> serde_json::Map<_, _> {
                (0..NAMES.len()).map(|at| (format!("{}{suffix}", NAMES[at]), value(at))).collect()
            };
            let times = named(&|at| json!(median(&places[at])), "_ns");
            let ratios = named(&|at| json!(ratio(&places[0], &places[at])), "");
            println!(
                "{}",
                json!({ "operation": operation, "rounds": options.rounds, "median": times, "ratio": ratios })
            );
        }
        return Ok(());
    }
    println!("| operation | ixfs us | floor us | tmpfs us | disk us | ixfs/floor | ixfs/tmpfs | ixfs/disk |");
    println!("|---|---|---|---|---|---|---|---|");
    for (operation, places) in OPERATIONS.iter().zip(table) {
        let us = |at: usize| median(&places[at]) as f64 / 1000.0;
        let times: Vec<String> = (0..NAMES.len()).map(|at| format!("{:.2}", us(at))).collect();
        let ratios: Vec<String> = (1..NAMES.len()).map(|at| format!("{:.2}", ratio(&places[0], &places[at]))).collect();
        println!("| {operation} | {} | {} |", times.join(" | "), ratios.join(" | "));
    }
    Ok(())
}
