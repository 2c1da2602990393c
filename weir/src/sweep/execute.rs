// SPDX-License-Identifier: GPL-2.0-only
//! Does the missing runs of a campaign on the CPUs of this machine.

use super::args::Sweep;
use super::planned::{Planned, distinct};
use super::results::{self, directory_of_tasks};
use super::tables;
use crate::parallel::{self, End};
use crate::progress::Progress;
use crate::sim;
use anyhow::{Context, Result};
use campaign::{Appender, Finished, Store};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Interval at which the tables are written while runs go on, and lines of progress where there is no terminal.
const INTERVAL: Duration = Duration::from_secs(30);
/// Writing the tables takes at most one part of this many of the time.
const SHARE: u32 = 100;

/// Outcome of this process's part.
#[derive(Clone, Copy)]
pub struct Done {
    /// Runs finished by this process.
    pub count: usize,
    /// Whether a signal ended it early.
    pub is_interrupted: bool,
}

/// Shared by the threads that do the runs.
struct Keeper<'a> {
    args: &'a Sweep,
    all: &'a [Planned<'a>],
    /// Number of runs to do.
    wanted: usize,
    began: Instant,
    state: Mutex<State>,
    tables: Mutex<Written>,
}

struct State {
    appender: Appender,
    /// With `--tasks`.
    tasks: Option<Appender>,
    finished: usize,
    /// When progress was last reported.
    last_report: Instant,
    error: Option<anyhow::Error>,
}

/// When the tables were last written, and how long that took.
struct Written {
    at: Instant,
    took: Duration,
}

/// Does the missing runs of this process's part, and then calls `finish`, as [`execute_some`] does.
///
/// # Errors
/// Those of a run whose scheduler is not their cause, of the store, and of `finish`.
pub fn execute<R>(args: &Sweep, all: &[Planned<'_>], finish: impl FnOnce(Done) -> Result<R>) -> Result<R> {
    let appender = open_directory(args, all)?;
    let todo = {
        let store = Store::open(&[&args.out], &results::keys())?;
        let with_tasks = tasks_store(args)?;
        let is_finished = |planned: &Planned<'_>| {
            store.has(planned.id) && with_tasks.as_ref().is_none_or(|store| store.has(planned.id))
        };
        let is_mine = |(place, _): &(usize, &Planned<'_>)| args.shard.is_none_or(|shard| shard.has(*place as u64));
        let mine = distinct(all).into_iter().enumerate().filter(is_mine).map(|(_, planned)| planned);
        mine.filter(|planned| !is_finished(planned)).collect::<Vec<_>>()
    };
    execute_some(args, all, appender, &todo, finish)
}

/// Does these runs, and then calls `finish`. After a signal, the process ends with its status when `finish` returns.
///
/// # Errors
/// Those of a run whose scheduler is not their cause, of the store, and of `finish`.
pub fn execute_some<R>(
    args: &Sweep,
    all: &[Planned<'_>],
    appender: Appender,
    todo: &[&Planned<'_>],
    finish: impl FnOnce(Done) -> Result<R>,
) -> Result<R> {
    let now = Instant::now();
    let tasks = args.tasks.then(|| Appender::new(&directory_of_tasks(&args.out), &[])).transpose()?;
    let state = State { appender, tasks, finished: 0, last_report: now, error: None };
    let written = Written { at: now, took: Duration::ZERO };
    let (state, tables) = (Mutex::new(state), Mutex::new(written));
    let keeper = Keeper { args, all, wanted: todo.len(), began: now, state, tables };
    let progress = Progress::new(todo.len());
    let work = |index: usize| {
        let planned: &Planned<'_> = todo[index];
        let result = sim::result(planned.run, &progress);
        let tasks = args.tasks.then(|| results::with_tasks(&result));
        keeper.keep(planned, results::finished(result).with_context(|| planned.id.to_string()), tasks)
    };
    let threads = args.jobs.map_or(parallel::threads(todo.len()), |jobs| usize::from(jobs).min(todo.len()));
    parallel::run(todo.len(), threads, work, |_, end| {
        progress.end();
        let mut state = keeper.state.lock().expect("no thread panics while holding it");
        state.appender.sync()?;
        state.tasks.as_mut().map_or(Ok(()), Appender::sync)?;
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        finish(Done { count: state.finished, is_interrupted: end != End::Done })
    })
}

impl Keeper<'_> {
    /// Keeps a result. `None` after an error, which ends the sweep.
    fn keep(&self, planned: &Planned<'_>, result: Result<Finished>, tasks: Option<Finished>) -> Option<()> {
        let mut state = self.state.lock().expect("no thread panics while holding it");
        let kept = result.and_then(|run| {
            // The tasks first: a run without its result is done again anyway.
            if let (Some(appender), Some(tasks)) = (&mut state.tasks, &tasks) {
                appender.append(planned.id, tasks)?;
            }
            Ok(state.appender.append(planned.id, &run)?)
        });
        if let Err(error) = kept {
            state.error.get_or_insert(error);
        }
        if state.error.is_some() {
            return None;
        }
        state.finished += 1;
        if !std::io::stderr().is_terminal() && state.last_report.elapsed() >= INTERVAL {
            state.last_report = Instant::now();
            let left = self.began.elapsed() * (self.wanted - state.finished) as u32 / state.finished as u32;
            let of_all = report::fraction(state.finished as u64, self.wanted as u64, "run");
            say!("weir: {of_all} finished, {} s left", left.as_secs());
        }
        drop(state);
        self.write_tables();
        Some(())
    }

    /// Writes the tables at intervals, so that they can be read while the campaign goes on. A part of a campaign writes
    /// none before its end.
    fn write_tables(&self) {
        let Some(mut written) = self.tables.try_lock().ok().filter(|_| self.args.shard.is_none()) else { return };
        if written.at.elapsed() < INTERVAL.max(written.took * SHARE) {
            return;
        }
        let began = Instant::now();
        // A failure now is a failure at the end, too, where it is reported.
        let _ = Store::open(&[&self.args.out], &results::keys())
            .map_err(anyhow::Error::from)
            .and_then(|mut store| tables::write(&self.args.out, self.all, &mut store));
        *written = Written { at: Instant::now(), took: began.elapsed() };
    }
}

/// The results with tasks, if they are asked for.
///
/// # Errors
/// If they cannot be read.
pub fn tasks_store(args: &Sweep) -> Result<Option<Store>> {
    let open = || Store::open(&[&directory_of_tasks(&args.out)], &[]);
    Ok(args.tasks.then(open).transpose()?)
}

/// Creates the directory of the results, and takes over the finished runs of other directories.
///
/// # Errors
/// If a directory cannot be read or written.
pub fn open_directory(args: &Sweep, all: &[Planned<'_>]) -> Result<Appender> {
    if let Some(missing) = args.import.iter().find(|path| !path.is_dir()) {
        anyhow::bail!("--import {}: expected a directory of finished runs", missing.display());
    }
    if args.tasks {
        let others: Vec<PathBuf> = args.import.iter().map(|path| directory_of_tasks(path)).collect();
        import(&directory_of_tasks(&args.out), &others, &[], all)?.sync()?;
    }
    import(&args.out, &args.import, &results::keys(), all)
}

/// Takes over the finished runs of other directories.
fn import(out: &Path, others: &[PathBuf], keys: &[&str], all: &[Planned<'_>]) -> Result<Appender> {
    let mut appender = Appender::new(out, keys)?;
    if others.is_empty() {
        return Ok(appender);
    }
    let others: Vec<&Path> = others.iter().map(PathBuf::as_path).collect();
    let (store, mut others) = (Store::open(&[out], keys)?, Store::open(&others, keys)?);
    for planned in distinct(all) {
        if !store.has(planned.id)
            && let Some(run) = others.read(planned.id)?
        {
            appender.append(planned.id, &run)?;
        }
    }
    Ok(appender)
}
