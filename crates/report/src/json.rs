// SPDX-License-Identifier: GPL-2.0-only
//! The JSON document. Its field names are a stable interface: those of the measures are defined in their catalogue,
//! all others here and in `run.rs`; `docs/schema/run.json` describes them.

use crate::order;
use crate::setups::{Compared, Group, Judgement, Setup};
use crate::{Called, Exit, Outcome, Record, RunReport};
use ids::{CpuSet, Nanos};
use measures::catalogue::{CATALOGUE, Measure};
use measures::{
    CpuAccount, DiskMeasures, GroupMeasures, Histogram, InterruptUse, LatencySummary, LockUse, NetworkMeasures,
    NodeTraffic, PageCacheMeasures, PartMeasures, RequestMeasures, TaskMeasures,
};
use serde_json::{Map, Value, json};
use statistics::{LEVEL_PPM, Verdict};

/// The runs and their comparisons as one JSON document, with a trailing newline.
pub fn to_json(runs: &[RunReport]) -> String {
    to_json_with(runs, &Value::Array(vec![]), None)
}

/// Like [`to_json`], with the setups that could not run, and the number of planned runs if they were interrupted.
pub fn to_json_with(runs: &[RunReport], refused: &Value, planned: Option<usize>) -> String {
    let records: Vec<Record> = runs.iter().flat_map(Record::with_parts).collect();
    let groups = crate::setups::groups(&records);
    let runs: Vec<Value> = runs.iter().map(run).collect();
    let mut document =
        json!({ "weir": 1, "runs": runs, "comparisons": comparisons(&groups), "orders": orders(&groups) });
    if refused.as_array().is_some_and(|all| !all.is_empty()) {
        document["refused"] = refused.clone();
    }
    if let Some(planned) = planned {
        document["interrupted"] =
            json!({ "finished": document["runs"].as_array().map_or(0, Vec::len), "planned": planned });
    }
    to_text(&document)
}

/// Only the comparisons, for runs stored elsewhere.
pub fn comparisons_to_json(records: &[Record]) -> String {
    let groups = crate::setups::groups(records);
    to_text(&json!({ "weir": 1, "comparisons": comparisons(&groups), "orders": orders(&groups) }))
}

fn to_text(document: &Value) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("values with string keys");
    text.push('\n');
    text
}

/// End of a scheduler without measures, as one line of JSON. `exit` contains the reason even if the user requested
/// the exit.
pub fn ending_to_json_line(scheduler: &str, outcome: Outcome, restarts: u64, calls: &[Called], exit: &Exit) -> String {
    let line = json!({
        "weir": 1, "scheduler": scheduler, "outcome": outcome, "restarts": restarts, "calls": calls, "exit": exit,
    });
    format!("{line}\n")
}

fn run(run: &RunReport) -> Value {
    let mut object = into_object(serde_json::to_value(&run.tags).expect("a plain struct"));
    let ending = &run.ending;
    object.insert("outcome".to_owned(), json!(ending.outcome()));
    object.insert("exit".to_owned(), json!(ending.ejected.clone().unwrap_or_default()));
    object.insert("command_status".to_owned(), json!(ending.command_status));
    object.insert("log_hash".to_owned(), json!(format!("{:032x}", run.log_hash)));
    for measure in &CATALOGUE {
        insert(&mut object, measure.key, json!((measure.value)(&run.measures)));
    }
    object.insert("load_average_milli".to_owned(), json!(run.measures.load_average.milli));
    object.insert("deadlocked".to_owned(), json!(ending.deadlocked));
    object.insert("failed_forks".to_owned(), json!(ending.failed_forks));
    object.insert("refused_changes".to_owned(), json!(ending.refused_changes));
    object.insert("restarts".to_owned(), json!(ending.restarts));
    object.insert("calls".to_owned(), json!(ending.calls));
    let violations = ending.violations.as_ref();
    object.insert("violations".to_owned(), json!(violations.map(|found| &found.first)));
    object.insert("violation_count".to_owned(), json!(violations.map(|found| found.count)));
    object.insert("not_seen".to_owned(), json!(violations.map(|found| &found.not_seen)));
    let useless = violations.and_then(|found| found.useless_migrations);
    object.insert("useless_migrations".to_owned(), json!(useless));
    object.insert("doubtful".to_owned(), json!(crate::doubts::of(run)));
    object.insert("meter".to_owned(), json!(run.meter));
    let locks = run.measures.locks.as_ref().map(|locks| locks.iter().map(lock).collect::<Vec<_>>());
    object.insert("locks".to_owned(), json!(locks));
    let nodes = run.measures.memory_nodes.as_ref().map(|nodes| (0..).zip(nodes).map(node).collect::<Vec<_>>());
    object.insert("memory_nodes".to_owned(), json!(nodes));
    let disks = run.measures.disks.as_ref();
    let disks = disks.map(|disks| disks.iter().map(|one| disk(one, run.measures.elapsed)).collect::<Vec<_>>());
    object.insert("disks".to_owned(), json!(disks));
    let networks = run.measures.networks.as_ref();
    let networks = networks.map(|all| all.iter().map(|one| network(one, run.measures.elapsed)).collect::<Vec<_>>());
    object.insert("networks".to_owned(), json!(networks));
    object.insert("page_cache".to_owned(), json!(run.measures.page_cache.as_ref().map(page_cache)));
    let interrupts = run.measures.interrupts.as_ref().map(|all| all.iter().map(interrupt).collect::<Vec<_>>());
    object.insert("interrupts".to_owned(), json!(interrupts));
    object.insert("requests".to_owned(), run.measures.requests.iter().map(requests).collect());
    let (wakeup, queue) = (&run.measures.wakeup_latencies, &run.measures.run_delays);
    let distributions = json!({ "wakeup_latency_ns": distribution(wakeup), "run_delay_ns": distribution(queue) });
    object.insert("distributions".to_owned(), distributions);
    object.insert("cpus".to_owned(), run.measures.cpus.iter().map(cpu).collect());
    object.insert("parts".to_owned(), run.measures.parts.iter().map(part).collect());
    object.insert("groups".to_owned(), run.measures.groups.iter().map(group).collect());
    object.insert("tasks".to_owned(), run.measures.tasks.iter().map(task).collect());
    Value::Object(object)
}

fn disk(one: &DiskMeasures, elapsed: Nanos) -> Value {
    json!({
        "name": one.name,
        "reads": one.reads,
        "writes": one.writes,
        "read_bytes": one.read_bytes,
        "written_bytes": one.written_bytes,
        "utilization_ppm": one.utilization_ppm(elapsed),
        "wait_ns": latency(one.waits.summary()),
        "service_ns": latency(one.services.summary()),
        "latency_ns": latency(one.latencies.summary()),
    })
}

fn network(one: &NetworkMeasures, elapsed: Nanos) -> Value {
    let [out, back, server] = one.utilization_ppm(elapsed);
    json!({
        "name": one.name,
        "calls": one.calls,
        "sent_bytes": one.sent_bytes,
        "received_bytes": one.received_bytes,
        "sent_ppm": out,
        "received_ppm": back,
        "server_ppm": server,
        "wait_ns": latency(one.waits.summary()),
        "service_ns": latency(one.services.summary()),
        "latency_ns": latency(one.latencies.summary()),
    })
}

fn page_cache(one: &PageCacheMeasures) -> Value {
    json!({
        "hit_bytes": one.hit_bytes,
        "miss_bytes": one.miss_bytes,
        "written_bytes": one.written_bytes,
        "flushed_bytes": one.flushed_bytes,
        "synced_bytes": one.synced_bytes,
        "dirty_bytes": one.dirty_bytes,
        "throttled_ns": one.throttled.0,
    })
}

fn interrupt(one: &InterruptUse) -> Value {
    json!({
        "source": one.source,
        "cpu": one.cpu.0,
        "count": one.count,
        "deferred": one.deferred,
        "total_ns": one.total.0,
        "max_ns": one.max.0,
    })
}

fn requests(one: &RequestMeasures) -> Value {
    json!({
        "source": one.source,
        "measured_ns": one.measured.0,
        "arrivals": one.arrivals,
        "served": one.served,
        "completed": one.completed(),
        "latency_ns": latency(one.latency()),
    })
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => unreachable!("structs are objects, not {other}"),
    }
}

/// Inserts a value at a dotted key.
fn insert(object: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            object.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| json!({}));
            insert(inner.as_object_mut().expect("no key of the catalogue is a prefix of another"), rest, value);
        }
    }
}

fn latency(LatencySummary { count, mean, p50, p90, p99, p999, max }: LatencySummary) -> Value {
    let [mean, p50, p90, p99, p999, max] = [mean, p50, p90, p99, p999, max].map(|Nanos(ns)| (count > 0).then_some(ns));
    json!({ "count": count, "mean": mean, "p50": p50, "p90": p90, "p99": p99, "p999": p999, "max": max })
}

/// Counts of values by size, for each nonempty bucket.
fn distribution(histogram: &Histogram<3>) -> Value {
    let buckets: Vec<_> = histogram.buckets().collect();
    json!({
        "from": buckets.iter().map(|(low, _, _)| low.0).collect::<Vec<_>>(),
        "to": buckets.iter().map(|(_, high, _)| high.0).collect::<Vec<_>>(),
        "count": buckets.iter().map(|(_, _, count)| *count).collect::<Vec<_>>(),
    })
}

/// Time account of one CPU.
fn cpu(cpu: &CpuAccount) -> Value {
    json!({
        "run_ns": cpu.run.0,
        "idle_ns": cpu.idle.0,
        "scheduler_ns": cpu.scheduler.0,
        "stolen_ns": cpu.stolen.0,
        "offline_ns": cpu.offline.0,
        "reload_ns": cpu.reload.0,
        "memory_ns": cpu.memory.0,
    })
}

/// A row of the lock table. The model loses no events: every acquisition is counted.
fn lock(used: &LockUse) -> Value {
    json!({
        "type": used.kind,
        "lock": used.lock,
        "caller": used.caller,
        "count": used.count,
        "contended": used.contended,
        "wait_total_ns": used.wait_total.0,
        "wait_max_ns": used.wait_max.0,
        "hold_total_ns": used.hold_total.0,
        "hold_max_ns": used.hold_max.0,
        "retries": used.retries,
        "lost": 0,
    })
}

/// Traffic of the memory of a node.
fn node((number, node): (u32, &NodeTraffic)) -> Value {
    json!({ "node": number, "local_bytes": node.local_bytes, "remote_bytes": node.remote_bytes })
}

pub(crate) fn part(part: &PartMeasures) -> Value {
    json!({
        "label": part.label,
        "tasks": part.tasks,
        "makespan_ns": part.makespan.map(|time| time.0),
        "work_ns": part.account.work.0,
        "cpu_ns": part.account.run.0,
        "stolen_ns": part.account.stolen.0,
        "runnable_ns": part.account.runnable.0,
        "blocked_ns": part.account.blocked.0,
        "wakeup_latency_ns": latency(part.wakeup_latency),
        "response_ns": latency(part.periods.response),
        "late_ns": latency(part.periods.late),
    })
}

fn group(group: &GroupMeasures) -> Value {
    json!({
        "path": group.path,
        "weight": group.weight,
        "cap_percent": group.cap_percent,
        "cpu_ns": group.cpu.0,
        "runnable_ns": group.runnable.0,
    })
}

fn task(task: &TaskMeasures) -> Value {
    json!({
        "id": task.id.0,
        "pid": task.pid,
        "name": task.name,
        "kernel_thread": task.kernel_thread,
        "work_ns": task.account.work.0,
        "cpu_ns": task.account.run.0,
        "stolen_ns": task.account.stolen.0,
        "runnable_ns": task.account.runnable.0,
        "blocked_ns": task.account.blocked.0,
        "disk_ns": task.disk.map(|time| time.0),
        "network_ns": task.network.map(|time| time.0),
        "cpus_allowed": CpuSet::to_string(&task.cpus_allowed),
        "cpus_used": CpuSet::to_string(&task.cpus_used),
        "wakeup_latency_ns": latency(task.wakeup_latency),
        "period_ns": task.periods.as_ref().map(|periods| periods.length.0),
        "response_ns": task.periods.as_ref().map(|periods| latency(periods.response.summary())),
        "late_ns": task.periods.as_ref().map(|periods| latency(periods.late.summary())),
    })
}

fn comparisons(groups: &[Group<'_>]) -> Vec<Value> {
    let of_group = |group: &Group<'_>| {
        let entries = |other: &Setup<'_>, compared: &Compared| {
            let entry = |(measure, judgement): (&Measure, &Option<Judgement>)| {
                judgement.map(|judgement| comparison(&group.setups[0], other, compared, measure, judgement))
            };
            CATALOGUE.iter().zip(&compared.judgements).filter_map(entry).collect::<Vec<_>>()
        };
        group.setups[1..].iter().zip(&group.compared).flat_map(|(other, compared)| entries(other, compared)).collect()
    };
    groups.iter().flat_map(|group| -> Vec<Value> { of_group(group) }).collect()
}

/// The orders of groups of several setups, with the comparisons of all pairs of headline measures.
fn orders(groups: &[Group<'_>]) -> Vec<Value> {
    let of_group = |group: &Group<'_>| {
        let orders = order::orders(group);
        let pairs = if orders.is_empty() { Vec::new() } else { order::pairs(group) };
        let one = |order: order::Order| {
            let judged = pairs.iter().filter_map(|(a, b, compared)| {
                let judged = compared.judgements[order.measure]?;
                Some(comparison(a, b, compared, &CATALOGUE[order.measure], judged))
            });
            json!({
                "measure": CATALOGUE[order.measure].key,
                "title": group.title,
                "best_first": order.setups.iter().map(|&setup| &group.setups[setup].name).collect::<Vec<_>>(),
                "better_than_next": order.is_better,
                "pairs": judged.collect::<Vec<_>>(),
            })
        };
        orders.into_iter().map(one).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

fn comparison(a: &Setup<'_>, b: &Setup<'_>, compared: &Compared, measure: &Measure, judged: Judgement) -> Value {
    let identity = |setup: &Setup<'_>| {
        let tags = &setup.runs[0].tags;
        let mut object = json!({
            "scheduler": tags.scheduler,
            "object_hash": tags.object_hash,
            "machine": tags.machine,
            "workload": tags.workload,
            "world": tags.world,
        });
        if let Some(part) = &tags.part {
            object["part"] = json!(part);
        }
        if !tags.calls.is_empty() {
            object["calls"] = json!(tags.calls);
        }
        if let Some(file) = &setup.runs[0].file {
            object["file"] = json!(file);
        }
        object
    };
    let verdict = match judged.verdict {
        Verdict::Better => Some("better"),
        Verdict::Worse => Some("worse"),
        Verdict::Same => Some("same"),
        Verdict::Unclear => Some("unclear"),
        Verdict::Differs => None,
    };
    json!({
        "a": identity(a),
        "b": identity(b),
        "measure": measure.key,
        "pairs": if compared.paired { a.units() } else { 0 },
        "a_runs": a.runs.len(),
        "b_runs": b.runs.len(),
        "a_median": judged.a_median,
        "b_median": judged.b_median,
        "diff_ppm": judged.diff_ppm,
        "diff_ppm_low": judged.low_ppm,
        "diff_ppm_high": judged.high_ppm,
        "tellable_ppm": judged.tellable_ppm,
        "level_ppm": LEVEL_PPM,
        "verdict": verdict,
        "depends_on": null,
        "threshold": null,
    })
}
