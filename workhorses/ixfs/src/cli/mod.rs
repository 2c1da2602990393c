// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `ixfs`.

mod archive;
mod arguments;
mod bench;
mod dump;
mod locked;
mod serve;
mod status;

use anyhow::{Context, bail};
use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use ixfs::server::now;
use ixfs::store::device::FileDevice;
use ixfs::store::{Geometry, Store, check};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Exit status for a store that is damaged, or an operation that failed.
const DAMAGED: u8 = 1;
/// Exit status for a wrong command line or input.
const USAGE: u8 = 2;

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    match execute(&arguments.command) {
        Ok(code) => code,
        // A reader such as `head` has enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ixfs: {error:#}");
            ExitCode::from(USAGE)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn execute(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Mkfs(options) => {
            if options.force && options.store.is_file() {
                let device = open(&options.store)?;
                drop(device);
                std::fs::remove_file(&options.store)?;
            }
            make(&options.store, options.size, options.archive_space, options.big_files)?;
        }
        Command::Mount(options) => return serve::mount(options),
        Command::Serve(options) => return serve::serve(options),
        Command::Check(options) => return check_store(options),
        Command::Status(options) => return status::run(options),
        Command::Archive(options) => return archive::run(options),
        Command::Dump(options) => return dump::run(options),
        Command::Bench(options) => return bench::run(options),
        Command::Floor { directory } => bench::floor::run(directory)?,
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
            io::stdout().write_all(&page)?;
        }
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Arguments::command(), "ixfs", &mut io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a store for writing.
fn open(store: &Path) -> anyhow::Result<Arc<FileDevice>> {
    Ok(Arc::new(locked::open_locked(store, FileDevice::open)?))
}

/// Creates a store with a quota of `limit` bytes.
fn make(store: &Path, limit: u64, archive_space: Option<u64>, big_files: u64) -> anyhow::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let geometry =
        Geometry::for_limit(limit)?.with_archive_space(archive_space.unwrap_or(limit))?.with_big_files(big_files)?;
    let exists = std::fs::metadata(store).ok();
    let device = match exists {
        Some(found) if found.file_type().is_block_device() => FileDevice::open(store),
        Some(_) => bail!("{}: exists already; remove it, or overwrite it with --force", store.display()),
        None => FileDevice::create(store, geometry.len()),
    };
    let device = device.with_context(|| format!("{}", store.display()))?;
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Store::format(&device, geometry, id, [getrandom::u64()?, getrandom::u64()?], now())
        .with_context(|| format!("{}", store.display()))
}

fn check_store(options: &arguments::Check) -> anyhow::Result<ExitCode> {
    let device: Arc<FileDevice> = if options.repair {
        open(&options.store)?
    } else {
        Arc::new(locked::open_locked(&options.store, FileDevice::open_read_only)?)
    };
    let report = match check::check(device, options.repair, now()) {
        Ok(report) => report,
        Err(error @ ixfs::store::StoreError::NoSuperblock { .. }) => {
            return Err(error).with_context(|| format!("{}", options.store.display()));
        }
        Err(error) => {
            eprintln!("ixfs: {}: {error}", options.store.display());
            return Ok(ExitCode::from(DAMAGED));
        }
    };
    let mut out = io::stdout().lock();
    if options.format.is_json() {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        for line in report.problems.iter().chain(&report.repairs) {
            writeln!(out, "{line}")?;
        }
        let (inodes, pages, epochs) = (report.inodes, report.pages, report.epochs);
        let verdict = if report.is_sound() { "sound" } else { "damaged" };
        writeln!(out, "{verdict}: {inodes} inodes, {pages} pages, {epochs} archived epochs")?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}
