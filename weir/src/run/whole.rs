// SPDX-License-Identifier: GPL-2.0-only
//! Machine-wide snapshots for `--tui`, from the sums of `--stats`; no single task is followed.

use anyhow::Result;
use ids::Nanos;
use kernel_link::watch::{Interval, Sample, Watch};
use live_view::{CpuShare, Latencies, Snapshot};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of recent frames over which rates and shares are computed.
const FRAMES: usize = 5;
/// Waits are shown over the last one to two intervals of this length, as in [`live_view::Follower`].
const LATELY: Duration = Duration::from_secs(5);

/// Samples the whole machine.
pub struct Whole {
    watch: Watch,
    began: Instant,
    /// Samples of recent frames, newest last.
    frames: VecDeque<Sample>,
    /// Samples at the start of the previous and of the current period, and start time of the current one.
    periods: (Sample, Sample, Instant),
}

impl Whole {
    /// Starts sampling.
    pub fn start() -> Result<Whole> {
        let watch = Watch::start()?;
        let first = watch.sample()?;
        let began = Instant::now();
        Ok(Whole { watch, began, frames: VecDeque::from([first.clone()]), periods: (first.clone(), first, began) })
    }

    /// Takes the current snapshot.
    pub fn snapshot(&mut self, frame: Nanos) -> Result<Snapshot> {
        let sample = self.watch.sample()?;
        if self.periods.2.elapsed() >= LATELY {
            let this = std::mem::replace(&mut self.periods.1, sample.clone());
            (self.periods.0, self.periods.2) = (this, Instant::now());
        }
        let (recent, lately) = (sample.since(&self.frames[0]), sample.since(&self.periods.0));
        if self.frames.len() == FRAMES {
            self.frames.pop_front();
        }
        self.frames.push_back(sample);
        Ok(to_snapshot(self.began.elapsed(), &recent, &lately, frame))
    }
}

fn to_snapshot(elapsed: Duration, recent: &Interval, lately: &Interval, frame: Nanos) -> Snapshot {
    let share = |[busy, idle, offline]: &[Nanos; 3]| CpuShare {
        run: *busy,
        others: Nanos::ZERO,
        idle: *idle,
        is_offline: *offline >= recent.length && recent.length > Nanos::ZERO,
        waiting: None,
        current: None,
    };
    Snapshot {
        elapsed: Nanos(elapsed.as_nanos() as u64),
        interval: recent.length,
        switches: recent.context_switches,
        wakeups: recent.wakeups,
        alive: None,
        cpus: recent.cpus.iter().map(share).collect(),
        latencies: Latencies::of(&lately.wakeup_latencies, lately.wakeup_latency),
        waiters: None,
        depths: None,
        frame,
    }
}
