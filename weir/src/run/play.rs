// SPDX-License-Identifier: GPL-2.0-only
//! A workload that real tasks play and that is measured.

use super::{Followed, Outside};
use anyhow::Result;
use event_log::Sink;
use executor::{End, Played, Stage, Stuck};
use kernel_link::LinkError;
use kernel_link::meter::Meter;
use std::time::{Duration, Instant};

/// How long to wait for the last events, which would not come if they were lost.
const LAST: Duration = Duration::from_secs(1);

/// Plays and measures until all tasks have ended, the time is over, or the scheduler was ejected.
pub fn follow<S: Sink>(
    meter: &mut Meter<S>,
    stage: &Stage<'_>,
    outside: &mut Outside<'_>,
) -> Result<(Followed, Played)> {
    stage.begin(|running| {
        outside.begin();
        let followed = watch(meter, &|| running.is_finished(), outside);
        if followed.as_ref().is_ok_and(|end| end.stopped) || followed.is_err() {
            running.stopper().stop();
        }
        let played = running.join().map_err(LinkError::from)?;
        // The last events, and those that are held back to be put in order.
        let joined = Instant::now();
        while !meter.is_over() && joined.elapsed() < LAST && followed.as_ref().is_ok_and(|end| end.ejected.is_none()) {
            meter.receive()?;
            if !meter.has_begun() {
                return Err(LinkError::NothingSeen.into());
            }
        }
        let Watched { ejected, .. } = followed?;
        Ok((Followed { ejected, status: None, failure: failure(&played), cut: played.end != End::Finished }, played))
    })
}

struct Watched {
    ejected: Option<kernel_link::scheduler::KernelExit>,
    /// The play must be ended.
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

fn failure(played: &Played) -> Option<String> {
    let End::Stuck(stuck) = &played.end else { return None };
    // As the kernel writes a task.
    let pid = |task: &Stuck| played.tasks.get(task.task.index()).map_or(0, |part| part.tid);
    let word = |task: &Stuck| format!("{}[{}] waits for {}", task.name, pid(task), task.waits_for);
    let words: Vec<String> = stuck.iter().take(3).map(word).collect();
    let more = if stuck.len() > words.len() { ", …" } else { "" };
    Some(format!("its tasks wait for each other for ever: {}{more}", words.join(", ")))
}
