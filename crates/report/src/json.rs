// SPDX-License-Identifier: GPL-2.0-only
//! The JSON contract of `weir sim` and `weir run`. Integers only; units stand last in a key, or in the key of the
//! object that holds it. Keys may be added, never changed or removed while `weir` is 1.

use crate::{Meter, RunReport};
use ids::{CpuSet, Nanos};
use measures::{CpuAccount, LatencySummary, Migrations, TaskMeasures};
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    weir: u32,
    runs: Vec<Run<'a>>,
}

#[derive(Serialize)]
struct Run<'a> {
    scheduler: &'a str,
    machine: &'a str,
    workload: &'a str,
    seed: u64,
    kernel: &'a str,
    outcome: &'static str,
    exit: Exit<'a>,
    log_hash: String,
    elapsed_ns: u64,
    makespan_ns: Option<u64>,
    context_switches: u64,
    wakeups: u64,
    idle_while_runnable_ns: u64,
    migrations: Moves,
    wakeup_latency_ns: Latency,
    queue_wait_ns: Latency,
    cpu_ns: Cpu,
    bpf_instructions: u64,
    lock_wait_ns: u64,
    deadlocked: bool,
    failed_forks: u64,
    refused_changes: u64,
    restarts: u64,
    meter: Option<Metered<'a>>,
    tasks: Vec<Task<'a>>,
}

#[derive(Serialize, Default)]
struct Exit<'a> {
    kind: u32,
    code: i64,
    reason: &'a str,
    message: &'a str,
    fault: Option<&'a str>,
    dump: &'a str,
}

#[derive(Serialize)]
struct Metered<'a> {
    events: u64,
    lost_events: u64,
    unseen_switches: u64,
    unseen_wakeups: u64,
    probes_ns: u64,
    probe_runs: u64,
    reader_ns: u64,
    listened_ns: u64,
    unfinished_tasks: u32,
    failure: Option<&'a str>,
}

#[derive(Serialize)]
struct Moves {
    smt: u64,
    llc: u64,
    node: u64,
    far: u64,
}

#[derive(Serialize)]
struct Latency {
    count: u64,
    mean: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Serialize)]
struct Cpu {
    run: u64,
    idle: u64,
    scheduler: u64,
    stolen: u64,
    offline: u64,
}

#[derive(Serialize)]
struct Task<'a> {
    id: u32,
    name: &'a str,
    kernel_thread: bool,
    work_ns: u64,
    cpu_ns: u64,
    stolen_ns: u64,
    runnable_ns: u64,
    blocked_ns: u64,
    cpus_allowed: String,
    cpus_used: String,
    wakeup_latency_ns: Latency,
}

/// The runs as one JSON document, with a newline at its end.
pub fn to_json(runs: &[RunReport]) -> String {
    let document = Document { weir: 1, runs: runs.iter().map(run).collect() };
    let mut text = serde_json::to_string_pretty(&document).expect("plain structs with string keys");
    text.push('\n');
    text
}

fn run(run: &RunReport) -> Run<'_> {
    let measures = &run.measures;
    let exit = run.ejected.as_ref().map(|exit| Exit {
        kind: exit.kind,
        code: exit.code,
        reason: &exit.reason,
        message: &exit.message,
        fault: exit.fault.as_deref(),
        dump: &exit.dump,
    });
    Run {
        scheduler: &run.scheduler,
        machine: &run.machine,
        workload: &run.workload,
        seed: run.seed,
        kernel: &run.kernel,
        outcome: run.outcome(),
        exit: exit.unwrap_or_default(),
        log_hash: format!("{:032x}", run.log_hash),
        elapsed_ns: measures.elapsed.0,
        makespan_ns: measures.makespan.map(|makespan| makespan.0),
        context_switches: measures.context_switches,
        wakeups: measures.wakeups,
        idle_while_runnable_ns: measures.idle_while_runnable.0,
        migrations: moves(measures.migrations),
        wakeup_latency_ns: latency(measures.wakeup_latency),
        queue_wait_ns: latency(measures.queue_wait),
        cpu_ns: cpu(measures.cpu),
        bpf_instructions: measures.bpf_instructions,
        lock_wait_ns: measures.lock_wait.0,
        deadlocked: run.deadlocked,
        failed_forks: run.failed_forks,
        refused_changes: run.refused_changes,
        restarts: run.restarts,
        meter: run.meter.as_ref().map(metered),
        tasks: measures.tasks.iter().map(task).collect(),
    }
}

fn metered(meter: &Meter) -> Metered<'_> {
    Metered {
        events: meter.events,
        lost_events: meter.lost_events,
        unseen_switches: meter.unseen_switches,
        unseen_wakeups: meter.unseen_wakeups,
        probes_ns: meter.probes.0,
        probe_runs: meter.probe_runs,
        reader_ns: meter.reader.0,
        listened_ns: meter.listened.0,
        unfinished_tasks: meter.unfinished_tasks,
        failure: meter.failure.as_deref(),
    }
}

fn moves(Migrations { smt, llc, node, far }: Migrations) -> Moves {
    Moves { smt, llc, node, far }
}

fn latency(LatencySummary { count, mean, p50, p90, p99, p999, max }: LatencySummary) -> Latency {
    let [mean, p50, p90, p99, p999, max] = [mean, p50, p90, p99, p999, max].map(|Nanos(ns)| ns);
    Latency { count, mean, p50, p90, p99, p999, max }
}

fn cpu(CpuAccount { run, idle, scheduler, stolen, offline }: CpuAccount) -> Cpu {
    let [run, idle, scheduler, stolen, offline] = [run, idle, scheduler, stolen, offline].map(|Nanos(ns)| ns);
    Cpu { run, idle, scheduler, stolen, offline }
}

fn task(task: &TaskMeasures) -> Task<'_> {
    Task {
        id: task.id.0,
        name: &task.name,
        kernel_thread: task.kernel_thread,
        work_ns: task.account.work.0,
        cpu_ns: task.account.run.0,
        stolen_ns: task.account.stolen.0,
        runnable_ns: task.account.runnable.0,
        blocked_ns: task.account.blocked.0,
        cpus_allowed: CpuSet::to_string(&task.cpus_allowed),
        cpus_used: CpuSet::to_string(&task.cpus_used),
        wakeup_latency_ns: latency(task.wakeup_latency),
    }
}
