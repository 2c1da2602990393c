// SPDX-License-Identifier: GPL-2.0-only
//! Measures of a run that are not reliable, with the reason.

use crate::numbers::{percent, permille};
use crate::{RunReport, World};
use serde::{Deserialize, Serialize};

/// An unreliable measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Key of the measure, or common prefix of several keys.
    pub measure: String,
    /// Why the measure is unreliable, as a sentence.
    pub reason: String,
}

/// Share of the CPUs' time spent waiting for kernel locks from which latencies are affected: 5 %. Below it, latencies
/// with and without `+waiting` agree within some microseconds; above it they differ strongly
/// (`lab/results/lock-model.md`).
const LOCKED_PERMILLE: u64 = 50;

/// Kinds of kernel locks in the lock table; all others belong to a workload.
const OF_KERNEL: [&str; 3] = ["runqueue", "dsq", "bpf"];

/// All unreliable measures of this run.
pub(crate) fn of(run: &RunReport) -> Vec<Doubt> {
    let mut doubts = latencies(run);
    doubts.extend(work(run));
    doubts.extend(foreign(run));
    doubts
}

/// Share of the CPUs' time from which it matters that others had it: 5 %.
const FOREIGN_PERMILLE: u64 = 50;

/// All times, if other programs, interrupts or the host of a virtual machine had the CPUs for a part of the run.
fn foreign(run: &RunReport) -> Vec<Doubt> {
    let Some(meter) = run.meter.as_ref().filter(|meter| meter.lost_events == 0) else { return Vec::new() };
    let cpu = &run.measures.cpu;
    let all = (cpu.run + cpu.idle + cpu.scheduler + cpu.stolen).0;
    let sources = [("other programs", meter.foreign), ("interrupts and the host of this virtual machine", cpu.stolen)];
    let mut doubts = Vec::new();
    for (who, time) in sources {
        let share = permille(time.0, all);
        if share < FOREIGN_PERMILLE {
            continue;
        }
        let reason = format!(
            "{who} had the CPUs for {time}, {} of their time: repeat the run on a quiet machine",
            percent(share)
        );
        let measures = ["makespan_ns", "wakeup_latency_ns", "run_delay_ns"];
        doubts.extend(measures.map(|measure| Doubt { measure: measure.to_owned(), reason: reason.clone() }));
    }
    doubts
}

/// Share of the work from which it matters that real tasks did not do it: 0.5 %.
const UNDONE_PERMILLE: u64 = 5;

/// Work, if real tasks took less time for it than its nominal duration. Work is measured in iterations of a loop, and
/// the fastest measurement before the run determines the iterations per nanosecond of work: the CPUs were slower at
/// that time. If events were lost, the run time of tasks is unknown.
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
            "tasks ran for {} less time than their nominal work: the CPUs were slower when their speed was measured, \
             before the run",
            percent(share)
        ),
    })
}

/// Latencies, if CPUs waited for kernel locks but operations were not interleaved at lock waits (no `+waiting`).
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
        "CPUs waited for kernel locks for {} of their time, which these latencies exclude: \
         --kernel {}+waiting includes it",
        percent(share),
        run.tags.kernel
    );
    ["wakeup_latency_ns", "run_delay_ns"]
        .map(|measure| Doubt { measure: measure.to_owned(), reason: reason.clone() })
        .into()
}
