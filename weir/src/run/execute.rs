// SPDX-License-Identifier: GPL-2.0-only
//! Executes a workload with real tasks and measures it.

use super::{Followed, Outside};
use anyhow::Result;
use event_log::Sink;
use executor::{End, ExecutionResult, PreparedWorkload, Stuck};
use kernel_link::LinkError;
use kernel_link::meter::Meter;
use std::time::{Duration, Instant};

/// How long to wait for the last events, which never arrive if they were lost.
const LAST: Duration = Duration::from_secs(1);

/// Executes and measures the workload until all tasks have exited, the time limit is reached, or the scheduler is
/// ejected.
pub fn follow<S: Sink>(
    meter: &mut Meter<S>,
    prepared: &PreparedWorkload<'_>,
    outside: &mut Outside<'_>,
) -> Result<(Followed, ExecutionResult)> {
    prepared.begin(|running| {
        outside.begin();
        let followed = watch(meter, &|| running.is_finished(), outside);
        if followed.as_ref().is_ok_and(|end| end.stopped) || followed.is_err() {
            running.stopper().stop();
        }
        let executed = running.join().map_err(LinkError::from)?;
        // Receives the last events, and those held back for sorting.
        let joined = Instant::now();
        while !meter.is_over() && joined.elapsed() < LAST && followed.as_ref().is_ok_and(|end| end.ejected.is_none()) {
            meter.receive()?;
            if !meter.has_begun() {
                return Err(LinkError::NothingSeen.into());
            }
        }
        let Watched { ejected, .. } = followed?;
        Ok((
            Followed { ejected, status: None, failure: failure(&executed), cut: executed.end != End::Finished },
            executed,
        ))
    })
}

struct Watched {
    ejected: Option<kernel_link::scheduler::KernelExit>,
    /// The execution must be stopped early.
    stopped: bool,
}

fn watch<S: Sink>(meter: &mut Meter<S>, is_finished: &dyn Fn() -> bool, outside: &mut Outside<'_>) -> Result<Watched> {
    while !is_finished() {
        meter.receive_within(outside.until_call())?;
        let ejected = outside.look()?;
        if ejected.is_some() || outside.signals.take().is_some() {
            return Ok(Watched { ejected, stopped: true });
        }
    }
    Ok(Watched { ejected: None, stopped: false })
}

fn failure(executed: &ExecutionResult) -> Option<String> {
    let End::Stuck(stuck) = &executed.end else { return None };
    // Task name and PID in the kernel's notation.
    let pid = |task: &Stuck| executed.tasks.get(task.task.index()).map_or(0, |part| part.tid);
    let word = |task: &Stuck| format!("{}[{}] waits for {}", task.name, pid(task), task.waits_for);
    let words: Vec<String> = stuck.iter().take(3).map(word).collect();
    let more = if stuck.len() > words.len() { ", …" } else { "" };
    Some(format!("deadlock: {}{more}", words.join(", ")))
}
