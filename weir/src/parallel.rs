// SPDX-License-Identifier: GPL-2.0-only
//! Independent runs on several threads, which Ctrl-C ends early without losing the runs that have finished.

use anyhow::Result;
use host::signals::Signals;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Interval at which termination signals are polled while runs are in progress.
const POLL: Duration = Duration::from_millis(50);
/// Base of the exit status of a process that a signal ended.
pub const SIGNALLED: i32 = 128;

/// Number of threads for this number of runs: one for each CPU of this machine.
pub fn threads(runs: usize) -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(runs)
}

/// How a set of runs ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All were executed, or `work` asked to stop.
    Done,
    /// This signal ended them early.
    Interrupted(i32),
}

/// Calls `work` with each index below `count` on `threads` threads, until it returns `None`, and then `finish` with the
/// results in the order of the indices; `None` stands for a run that did not finish. After a termination signal,
/// `finish` gets the runs finished so far and the process ends with the status of the signal; a second signal ends it
/// at once.
///
/// # Errors
/// Those of `finish`.
pub fn run<T: Send, R>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Option<T> + Sync,
    finish: impl FnOnce(Vec<Option<T>>, End) -> Result<R>,
) -> Result<R> {
    // The work of a single run is lost with it, so that the usual effect of a signal is right.
    let signals = (count > 1).then(Signals::block).transpose()?;
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<(Vec<Option<T>>, usize)> = Mutex::new(((0..count).map(|_| None).collect(), threads));
    let changed = Condvar::new();
    let worker = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = (index < count).then(|| work(index)).flatten() else { break };
            // After a signal the results are taken while workers still run: the list is then empty.
            let mut results = results.lock().expect("no thread panics while holding it");
            if let Some(slot) = results.0.get_mut(index) {
                *slot = Some(result);
            }
        }
        results.lock().expect("no thread panics while holding it").1 -= 1;
        changed.notify_one();
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut done = results.lock().expect("no thread panics while holding it");
        let mut end = End::Done;
        // A worker that panics never counts as finished.
        while done.1 > 0 && !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            if let Some(signal) = signals.as_ref().and_then(Signals::take) {
                stop.store(true, Ordering::Relaxed);
                end = End::Interrupted(signal.signal);
                break;
            }
            done = changed.wait_timeout(done, POLL).expect("no thread panics while holding it").0;
        }
        // A signal may have come since the last poll; unblocked, it would end the process before the report.
        if let (End::Done, Some(signal)) = (end, signals.as_ref().and_then(Signals::take)) {
            end = End::Interrupted(signal.signal);
        }
        let finished = std::mem::take(&mut done.0);
        drop(done);
        drop(signals);
        let End::Interrupted(signal) = end else {
            for worker in workers {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            return finish(finished, end);
        };
        // Runs in progress are abandoned: they may take minutes, and an unfinished run has no results.
        if let Err(error) = finish(finished, end) {
            say!("weir: error: {}", report::escape(&crate::describe(&error)));
        }
        std::process::exit(SIGNALLED + signal)
    })
}

/// Prints how many runs finished before the interruption, and what follows from that.
pub fn tell_interrupted(finished: usize, planned: usize, consequence: &str) {
    say!("weir: interrupted: {} finished; {consequence}", report::fraction(finished as u64, planned as u64, "run"));
}
