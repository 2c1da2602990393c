// SPDX-License-Identifier: GPL-2.0-only
//! Results of a campaign's runs: what is kept of a report, and the records that comparisons read.

use super::planned::Planned;
use anyhow::Result;
use campaign::{Axis, Buckets, Finished, TaskRow};
use ids::{CpuSet, Nanos};
use measures::catalogue::CATALOGUE;
use measures::{LatencySummary, TaskMeasures};
use report::{Details, Distributions, Doubt, Ending, Exit, Outcome, Record, RunReport, Violations};
use simulator::SetupError;
use std::path::{Path, PathBuf};

/// Outcome of a run whose scheduler could not be loaded.
pub const REFUSED: &str = "refused";
/// Keys of the histograms.
const WAKEUP: &str = "wakeup_latency_ns";
const RUN_DELAY: &str = "run_delay_ns";

/// Keys of all measures, in the order of the stored values.
pub fn keys() -> Vec<&'static str> {
    CATALOGUE.iter().map(|measure| measure.key).collect()
}

/// Directory of the results with tasks, in that of the campaign.
pub fn directory_of_tasks(out: &Path) -> PathBuf {
    out.join("tasks")
}

/// Columns of the table of tasks: texts. Names are keys of `tasks` in the JSON of a run.
pub const TASK_TEXTS: [&str; 3] = ["name", "cpus_allowed", "cpus_used"];

/// A task's value, or `None` if it is unknown.
type OfTask = fn(&TaskMeasures) -> Option<u64>;

/// Columns of the table of tasks: integers. New ones come last, since kept tasks have their values in this order.
pub const TASK_INTEGERS: [(&str, OfTask); 24] = [
    ("id", |task| Some(task.id.0.into())),
    ("pid", |task| Some(task.pid.into())),
    ("kernel_thread", |task| Some(task.kernel_thread.into())),
    ("work_ns", |task| Some(task.account.work.0)),
    ("cpu_ns", |task| Some(task.account.run.0)),
    ("stolen_ns", |task| Some(task.account.stolen.0)),
    ("runnable_ns", |task| Some(task.account.runnable.0)),
    ("blocked_ns", |task| Some(task.account.blocked.0)),
    ("disk_ns", |task| task.disk.map(|time| time.0)),
    ("network_ns", |task| task.network.map(|time| time.0)),
    ("wakeup_latency_ns.count", |task| Some(task.wakeup_latency.count)),
    ("wakeup_latency_ns.mean", |task| waited(task.wakeup_latency, |all| all.mean)),
    ("wakeup_latency_ns.p50", |task| waited(task.wakeup_latency, |all| all.p50)),
    ("wakeup_latency_ns.p90", |task| waited(task.wakeup_latency, |all| all.p90)),
    ("wakeup_latency_ns.p99", |task| waited(task.wakeup_latency, |all| all.p99)),
    ("wakeup_latency_ns.p999", |task| waited(task.wakeup_latency, |all| all.p999)),
    ("wakeup_latency_ns.max", |task| waited(task.wakeup_latency, |all| all.max)),
    ("period_ns", |task| task.periods.as_ref().map(|periods| periods.length.0)),
    ("response_ns.count", |task| Some(task.periods.as_ref()?.response.summary().count)),
    ("response_ns.p50", |task| waited(task.periods.as_ref()?.response.summary(), |all| all.p50)),
    ("response_ns.p99", |task| waited(task.periods.as_ref()?.response.summary(), |all| all.p99)),
    ("response_ns.max", |task| waited(task.periods.as_ref()?.response.summary(), |all| all.max)),
    ("late_ns.count", |task| Some(task.periods.as_ref()?.late.summary().count)),
    ("late_ns.max", |task| waited(task.periods.as_ref()?.late.summary(), |all| all.max)),
];

/// A number of a summary; `None` without any value.
fn waited(all: LatencySummary, of: fn(LatencySummary) -> Nanos) -> Option<u64> {
    (all.count > 0).then(|| of(all).0)
}

/// What is kept of a run's tasks; nothing if it could not begin.
pub fn with_tasks(result: &Result<RunReport>) -> Finished {
    let task = |task: &TaskMeasures| TaskRow {
        texts: vec![task.name.clone(), CpuSet::to_string(&task.cpus_allowed), CpuSet::to_string(&task.cpus_used)],
        values: TASK_INTEGERS.iter().map(|(_, of)| of(task)).collect(),
    };
    let tasks = result.iter().flat_map(|run| &run.measures.tasks).map(task).collect();
    Finished { tasks, ..Finished::default() }
}

/// What is kept of a run. A scheduler that cannot be loaded is a result, too.
///
/// # Errors
/// That of the run, if the scheduler is not its cause.
pub fn finished(result: Result<RunReport>) -> Result<Finished> {
    let run = match result {
        Ok(run) => run,
        Err(error) => {
            let Some(why) = error.downcast_ref::<SetupError>().filter(|why| why.is_of_scheduler()) else {
                return Err(error);
            };
            let (outcome, values) = (REFUSED.to_owned(), vec![None; CATALOGUE.len()]);
            return Ok(Finished { outcome, exit_reason: why.to_string(), values, ..Finished::default() });
        }
    };
    let Record { ending, doubtful, values, .. } = Record::from(&run);
    let exit = ending.ejected.clone().unwrap_or_default();
    let outcome = match ending.outcome() {
        Outcome::Completed => "completed",
        Outcome::Ejected => "ejected",
        Outcome::Violation => "violation",
    };
    Ok(Finished {
        outcome: outcome.to_owned(),
        exit_kind: exit.kind,
        exit_reason: exit.reason,
        exit_message: exit.message,
        log_hash: format!("{:032x}", run.log_hash),
        deadlocked: ending.deadlocked,
        failed_forks: ending.failed_forks,
        refused_changes: ending.refused_changes,
        restarts: ending.restarts,
        failed_calls: ending.calls.iter().filter(|call| call.failed()).count() as u64,
        violation_count: ending.violations.as_ref().map(|found| found.count),
        doubtful: doubtful.into_iter().map(|doubt| (doubt.measure, doubt.reason)).collect(),
        values,
        histograms: vec![
            buckets(WAKEUP, run.measures.wakeup_latencies.buckets()),
            buckets(RUN_DELAY, run.measures.run_delays.buckets()),
        ],
        tasks: Vec::new(),
    })
}

fn buckets(measure: &str, all: impl Iterator<Item = (Nanos, Nanos, u32)>) -> Buckets {
    let mut buckets = Buckets { measure: measure.to_owned(), ..Buckets::default() };
    for (from, to, count) in all {
        buckets.from.push(from.0);
        buckets.to.push(to.0);
        buckets.count.push(count.into());
    }
    buckets
}

/// The record of a finished run for comparisons, and its details for pages.
pub fn record(planned: &Planned<'_>, run: Finished) -> (Record, Details) {
    let mut tags = planned.run.tags();
    // Two numbers of CPUs or sets of effects are two machines; the name of a machine is the axis's.
    tags.machine = planned.value(Axis::Machine);
    if let Some(cpus) = planned.point.cpus {
        tags.machine += &format!(" with {}", report::counted(cpus, "CPU"));
    }
    if let Some(effects) = planned.point.without.filter(|effects| !effects.is_empty()) {
        tags.machine += &format!(" without {effects}");
    }
    tags.workload = planned.value(Axis::Workload);
    let ejected = (run.outcome == "ejected").then(|| Exit {
        kind: run.exit_kind,
        reason: run.exit_reason,
        message: run.exit_message,
        ..Exit::default()
    });
    let ending = Ending {
        ejected,
        deadlocked: run.deadlocked,
        failed_forks: run.failed_forks,
        refused_changes: run.refused_changes,
        restarts: run.restarts,
        violations: run.violation_count.map(|count| Violations { count, ..Violations::default() }),
        ..Ending::default()
    };
    let doubtful = run.doubtful.into_iter().map(|(measure, reason)| Doubt { measure, reason }).collect();
    let of = |key: &str| {
        let found = run.histograms.iter().find(|buckets| buckets.measure == key).cloned().unwrap_or_default();
        report::Buckets { from: found.from, to: found.to, count: found.count }
    };
    let distributions = Some(Distributions { wakeup_latency_ns: of(WAKEUP), run_delay_ns: of(RUN_DELAY) });
    let details = Details { log_hash: run.log_hash, tasks: vec![], locks: None, cpus: vec![], distributions };
    (Record { tags, file: None, ending, meter: None, doubtful, values: run.values }, details)
}
