// SPDX-License-Identifier: GPL-2.0-only
//! Catalogue of the measures of a run: for each its key, label, unit, better direction, and an accessor of its value.
//! Text, JSON, CSV and comparisons are all generated from this table, for simulated and real runs.

use crate::{LatencySummary, PeriodSummary, RunMeasures};
use ids::Nanos;

/// Unit of a measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// A count.
    Count,
}

/// Which direction of change is an improvement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Lower is better.
    Less,
    /// Higher is better.
    More,
    /// Neither: a good scheduler may have more or less of it.
    Neither,
}

/// Tables in which a measure is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// All tables, including those with room for a few measures only.
    Headline,
    /// Every table that has a row per measure.
    Table,
    /// Tables with a row per measure, if all measures are requested.
    Detail,
}

/// One measure of a whole run.
#[derive(Debug)]
pub struct Measure {
    /// Path of its key in the JSON of a run, with dots as separators: `wakeup_latency_ns.p99`.
    pub key: &'static str,
    /// Name in tables; at most 21 characters.
    pub label: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Which direction of change is an improvement.
    pub better: Better,
    /// Tables in which it is shown.
    pub rank: Rank,
    /// Explanation in one line.
    pub meaning: &'static str,
    /// Returns its value; `None` if it does not apply to this run, or is not modelled or not measured.
    pub value: fn(&RunMeasures) -> Option<u64>,
}

const fn time(
    key: &'static str,
    label: &'static str,
    better: Better,
    rank: Rank,
    meaning: &'static str,
    value: fn(&RunMeasures) -> Option<u64>,
) -> Measure {
    Measure { key, label, unit: Unit::Nanoseconds, better, rank, meaning, value }
}

const fn number(
    key: &'static str,
    label: &'static str,
    rank: Rank,
    meaning: &'static str,
    value: fn(&RunMeasures) -> Option<u64>,
) -> Measure {
    Measure { key, label, unit: Unit::Count, better: Better::Neither, rank, meaning, value }
}

/// Value of a percentile or mean; `None` (and not 0) if there are no samples.
fn of(latency: &LatencySummary, value: Nanos) -> Option<u64> {
    (latency.count > 0).then_some(value.0)
}

/// Summaries of the periods of timers: response times, and tardiness of the late jobs; each `None` if it has no
/// samples.
fn of_periods(measures: &RunMeasures) -> (Option<LatencySummary>, Option<LatencySummary>) {
    let PeriodSummary { response, late } = measures.periods;
    (Some(response).filter(|some| some.count > 0), Some(late).filter(|some| some.count > 0))
}

/// A value of the latency of requests; `None` if none was completed.
fn of_requests(measures: &RunMeasures, value: fn(&LatencySummary) -> Nanos) -> Option<u64> {
    measures.request_latency().and_then(|latency| of(&latency, value(&latency)))
}

use Better::{Less, More, Neither};
use Rank::{Detail, Headline, Table};

/// All measures, in the order of reports: end of the work, latencies, then what the scheduler did.
///
/// CPU time has no better direction although less CPU time for the same work is better: runs of fixed duration do
/// different amounts of work, and the work has the direction.
#[rustfmt::skip]
pub static CATALOGUE: [Measure; 51] = [
    time("makespan_ns", "makespan", Less, Headline,
        "time at which the last finite task exited", |m| m.makespan.map(|time| time.0)),
    time("elapsed_ns", "elapsed", Neither, Table,
        "simulated or real time that the run covers", |m| Some(m.elapsed.0)),
    time("work_ns", "work done", More, Headline,
        "work of all tasks, in CPU time of the reference CPU", |m| m.work.map(|time| time.0)),
    time("system_work_ns", "work in the kernel", Neither, Detail,
        "part of the work done in system calls", |m| m.system_work.map(|time| time.0)),
    time("wakeup_latency_ns.mean", "wakeup mean", Less, Headline,
        "from wakeup to running: mean", |m| of(&m.wakeup_latency, m.wakeup_latency.mean)),
    time("wakeup_latency_ns.p50", "wakeup p50", Less, Table,
        "from wakeup to running: median", |m| of(&m.wakeup_latency, m.wakeup_latency.p50)),
    time("wakeup_latency_ns.p90", "wakeup p90", Less, Table,
        "from wakeup to running: 90th percentile", |m| of(&m.wakeup_latency, m.wakeup_latency.p90)),
    time("wakeup_latency_ns.p99", "wakeup p99", Less, Headline,
        "from wakeup to running: 99th percentile", |m| of(&m.wakeup_latency, m.wakeup_latency.p99)),
    time("wakeup_latency_ns.p999", "wakeup p99.9", Less, Detail,
        "from wakeup to running: 99.9th percentile", |m| of(&m.wakeup_latency, m.wakeup_latency.p999)),
    time("wakeup_latency_ns.max", "wakeup max", Less, Table,
        "from wakeup to running: maximum", |m| of(&m.wakeup_latency, m.wakeup_latency.max)),
    number("wakeup_latency_ns.count", "wakeups served", Detail,
        "wakeups after which the task ran", |m| Some(m.wakeup_latency.count)),
    time("run_delay_ns.mean", "run delay mean", Less, Table,
        "run-queue latency, woken or preempted: mean", |m| of(&m.run_delay, m.run_delay.mean)),
    time("run_delay_ns.p50", "run delay p50", Less, Detail,
        "run-queue latency, woken or preempted: median", |m| of(&m.run_delay, m.run_delay.p50)),
    time("run_delay_ns.p90", "run delay p90", Less, Detail,
        "run-queue latency, woken or preempted: 90th percentile", |m| of(&m.run_delay, m.run_delay.p90)),
    time("run_delay_ns.p99", "run delay p99", Less, Detail,
        "run-queue latency, woken or preempted: 99th percentile", |m| of(&m.run_delay, m.run_delay.p99)),
    time("run_delay_ns.p999", "run delay p99.9", Less, Detail,
        "run-queue latency, woken or preempted: 99.9th percentile", |m| of(&m.run_delay, m.run_delay.p999)),
    time("run_delay_ns.max", "run delay max", Less, Table,
        "run-queue latency, woken or preempted: maximum", |m| of(&m.run_delay, m.run_delay.max)),
    number("run_delay_ns.count", "run delays", Detail,
        "waits after which the task ran", |m| Some(m.run_delay.count)),
    time("response_ns.p50", "response p50", Less, Detail,
        "from timer expiry to the end of the job: median", |m| of_periods(m).0.map(|l| l.p50.0)),
    time("response_ns.p99", "response p99", Less, Table,
        "from timer expiry to the end of the job: 99th percentile", |m| of_periods(m).0.map(|l| l.p99.0)),
    time("response_ns.max", "response max", Less, Table,
        "from timer expiry to the end of the job: maximum", |m| of_periods(m).0.map(|l| l.max.0)),
    Measure { better: Less, ..number("late_ns.count", "late jobs", Table,
        "jobs that ended after their timer's next expiry", |m| of_periods(m).0.map(|_| m.periods.late.count)) },
    time("late_ns.p50", "late by, p50", Less, Detail,
        "lateness of late jobs: median", |m| of_periods(m).1.map(|l| l.p50.0)),
    time("late_ns.max", "late by, max", Less, Table,
        "lateness of late jobs: maximum", |m| of_periods(m).1.map(|l| l.max.0)),
    time("request_latency_ns.mean", "request mean", Less, Headline,
        "from a request's arrival to its completion: mean", |m| of_requests(m, |l| l.mean)),
    time("request_latency_ns.p50", "request p50", Less, Table,
        "from a request's arrival to its completion: median", |m| of_requests(m, |l| l.p50)),
    time("request_latency_ns.p99", "request p99", Less, Headline,
        "from a request's arrival to its completion: 99th percentile", |m| of_requests(m, |l| l.p99)),
    time("request_latency_ns.max", "request max", Less, Table,
        "from a request's arrival to its completion: maximum", |m| of_requests(m, |l| l.max)),
    Measure { better: More, ..number("request_latency_ns.count", "requests", Table,
        "requests completed after the warm-up", |m| m.request_latency().map(|l| l.count)) },
    time("blocked_ns.disk", "waited for disks", Less, Table,
        "blocked time of tasks that waited for disks", |m| m.disk_wait().map(|time| time.0)),
    time("blocked_ns.network", "waited for networks", Less, Table,
        "blocked time of tasks that waited for answers over networks", |m| m.network_wait().map(|time| time.0)),
    time("idle_while_runnable_ns", "idle while runnable", Less, Table,
        "some CPU idled while a task allowed on it waited", |m| Some(m.idle_while_runnable.0)),
    number("load_milli", "load, thousandths", Detail,
        "mean number of running and runnable tasks, times 1000", |m| Some(m.load_milli())),
    number("context_switches", "context switches", Headline,
        "switches to a task of the workload (not to idle)", |m| Some(m.context_switches)),
    number("wakeups", "wakeups", Table,
        "wakeups of the workload's tasks", |m| Some(m.wakeups)),
    number("migrations.smt", "SMT migrations", Table,
        "switches to a task that last ran on an SMT sibling", |m| Some(m.migrations.smt)),
    number("migrations.llc", "LLC migrations", Table,
        "switches to a task that last ran on another core of this LLC", |m| Some(m.migrations.llc)),
    number("migrations.node", "node migrations", Table,
        "switches to a task that last ran on another LLC of this node", |m| Some(m.migrations.node)),
    number("migrations.far", "cross-node migrations", Table,
        "switches to a task that last ran on another NUMA node", |m| Some(m.migrations.far)),
    time("cpu_ns.run", "CPU: run", Neither, Table,
        "CPU time of tasks", |m| Some(m.cpu.run.0)),
    time("cpu_ns.idle", "CPU: idle", Neither, Table,
        "CPU time spent idle", |m| Some(m.cpu.idle.0)),
    time("cpu_ns.scheduler", "CPU: scheduler", Less, Table,
        "CPU time in scheduler code and context switches", |m| Some(m.cpu.scheduler.0)),
    time("cpu_ns.stolen", "CPU: stolen", Less, Table,
        "CPU time in interrupts and steal", |m| Some(m.cpu.stolen.0)),
    time("cpu_ns.offline", "CPU: offline", Neither, Detail,
        "CPU time in which the CPU was offline", |m| Some(m.cpu.offline.0)),
    time("run_ns.slowed", "CPU: run, slowed", Less, Detail,
        "part of CPU: run beyond the work, because CPUs were slow", |m| m.slowed.map(|time| time.0)),
    time("run_ns.reload", "CPU: run, reloading", Less, Detail,
        "part of CPU: run in which tasks reloaded caches", |m| m.reload.map(|time| time.0)),
    time("run_ns.memory", "CPU: run, memory", Less, Detail,
        "part of CPU: run lost to remote or busy memory", |m| m.memory.map(|time| time.0)),
    time("run_ns.spin", "CPU: run, spinning", Less, Detail,
        "part of CPU: run in which tasks spun on locks", |m| m.spin.map(|time| time.0)),
    number("energy_ratio_ppm", "energy, ppm", Detail,
        "energy relative to all cores busy for the same time", |m| m.energy_ratio_ppm),
    number("bpf_instructions", "BPF instructions", Table,
        "BPF instructions that the scheduler executed (simulated runs)", |m| m.bpf_instructions),
    time("lock_wait_ns", "lock wait", Less, Table,
        "time spent waiting for kernel and workload locks", |m| m.lock_wait.map(|time| time.0)),
];

/// Returns the measure with this key.
pub fn find(key: &str) -> Option<&'static Measure> {
    CATALOGUE.iter().find(|measure| measure.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_paths_with_their_unit() {
        for (index, measure) in CATALOGUE.iter().enumerate() {
            let key = measure.key;
            let has_unit = key.split('.').any(|part| part.ends_with("_ns")) && !key.ends_with(".count");
            assert_eq!(has_unit, measure.unit == Unit::Nanoseconds, "{key}");
            assert!(CATALOGUE[..index].iter().all(|other| other.key != key), "{key}");
            let clash = |other: &Measure| other.key.starts_with(&format!("{key}."));
            assert!(!CATALOGUE.iter().any(clash), "{key} is a number and an object");
            assert!(measure.label.len() <= 21 && measure.meaning.len() <= 64, "{key}");
            assert!(std::ptr::eq(find(key).unwrap(), measure));
        }
    }
}
