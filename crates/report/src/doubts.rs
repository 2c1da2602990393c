// SPDX-License-Identifier: GPL-2.0-only
//! Measures of a run that had better not be believed, and why.

use crate::numbers::{percent, permille};
use crate::{RunReport, World};
use serde::{Deserialize, Serialize};

/// A measure and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Its key, or what its keys begin with.
    pub measure: String,
    /// A sentence.
    pub reason: String,
}

/// From this share of the CPUs' time on, waits for locks of the kernel matter to latencies: 5 %. In the table of
/// `docs/machine-model.md` the two forms agree within some microseconds below that, and are far apart above.
const LOCKED_PERMILLE: u64 = 50;

/// Kinds of locks of the kernel in the table of locks; all others are a workload's.
const OF_KERNEL: [&str; 3] = ["runqueue", "dsq", "bpf"];

/// All of this run.
pub(crate) fn of(run: &RunReport) -> Vec<Doubt> {
    let mut doubts = latencies(run);
    doubts.extend(work(run));
    doubts
}

/// From this share of the work on, it matters how much of it real tasks did not do: 0.5 %.
const UNDONE_PERMILLE: u64 = 5;

/// Work, where real tasks took less time for it than it is. It is measured in rounds of a loop, and the fastest of them
/// before the run tell how many rounds a nanosecond of work is: all CPUs were slower then. Where events were lost, nobody
/// knows how long tasks ran.
fn work(run: &RunReport) -> Option<Doubt> {
    if run.tags.world != World::Real || run.meter.as_ref().is_some_and(|meter| meter.lost_events > 0) {
        return None;
    }
    let accounts = || run.measures.tasks.iter().map(|task| &task.account);
    let asked: u64 = accounts().map(|account| account.work.0).sum();
    let undone: u64 = accounts().map(|account| account.work.since(account.run).0).sum();
    let share = permille(undone, asked);
    (share >= UNDONE_PERMILLE).then(|| Doubt {
        measure: "work_ns".to_owned(),
        reason: format!(
            "tasks worked for {} less time than they were asked to: the CPUs were slower when their speed was measured, \
             before the run",
            percent(share)
        ),
    })
}

/// Latencies, where operations of the kernel were played at one instant and waited for locks.
fn latencies(run: &RunReport) -> Vec<Doubt> {
    let measures = &run.measures;
    if run.tags.form.as_deref() != Some("instant") {
        return Vec::new();
    }
    let of_kernel = measures.locks.iter().flatten().filter(|lock| OF_KERNEL.contains(&lock.kind));
    let waited: u64 = of_kernel.map(|lock| lock.wait_total.0).sum();
    let cpu = &measures.cpu;
    let share = permille(waited, (cpu.run + cpu.idle + cpu.scheduler + cpu.stolen).0);
    if share < LOCKED_PERMILLE {
        return Vec::new();
    }
    let reason = format!(
        "for {} of their time CPUs waited for locks of the kernel, which latencies leave out here: \
         --kernel {}+waiting has them",
        percent(share),
        run.tags.kernel
    );
    ["wakeup_latency_ns", "run_delay_ns"]
        .map(|measure| Doubt { measure: measure.to_owned(), reason: reason.clone() })
        .into()
}
