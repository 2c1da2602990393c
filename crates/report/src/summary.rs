// SPDX-License-Identifier: GPL-2.0-only
//! Text report on one run.

use crate::notes::{ejection, indented, of_run, outcome};
use crate::numbers::{count, counted, per_second, percent, permille, shorten, wrap};
use crate::table::{align, plain};
use crate::{Record, RunReport};
use ids::{CpuSet, Nanos};
use measures::{
    CpuAccount, DiskMeasures, InterruptUse, LatencySummary, NetworkMeasures, NodeTraffic, PageCacheMeasures,
    PeriodSummary, RunMeasures, TaskMeasures,
};
use std::fmt::Write;

/// Number of tasks in the table.
const TOP: usize = 10;
/// Number of periodic tasks in the table.
const TOP_PERIODIC: usize = 8;
/// Number of groups in the table.
const TOP_GROUPS: usize = 20;
/// Number of locks in the table.
const TOP_LOCKS: usize = 5;
/// Width of the CPU time bar in characters.
const BAR: usize = 60;

/// Description and measures of one run, at most 80 columns wide.
pub fn summary(run: &RunReport) -> String {
    let measures = &run.measures;
    let mut text = String::new();
    // A run in a real kernel has no seed.
    let tags = &run.tags;
    let seed = tags.seed.map(|seed| format!(" seed {seed},")).unwrap_or_default();
    let calls = if tags.calls.is_empty() { String::new() } else { format!(", calls {}", tags.calls) };
    let (scheduler, machine) = (&tags.scheduler, &tags.machine);
    let title = format!("{scheduler} on {machine}, workload {},{seed} kernel {}{calls}", tags.workload, tags.kernel);
    let _ = writeln!(text, "{}", wrap("", &title));
    let record = Record::from(run);
    let _ = writeln!(text, "{}", outcome(&record));
    if let Some(exit) = &run.ending.ejected {
        text.push_str(&indented(&ejection(exit)));
    }
    for note in of_run(&record) {
        let _ = writeln!(text, "{}", wrap("", &note));
    }
    let _ = writeln!(text, "\n{}", owners(&measures.cpu));
    text.push_str(&facts(run));
    let _ = writeln!(text, "\n{}", latencies(measures));
    if !measures.parts.is_empty() {
        let _ = writeln!(text, "\n{}", parts(measures));
    }
    if measures.groups.len() > 1 {
        let _ = writeln!(text, "\n{}", groups(measures));
    }
    if let Some(table) = periodic_tasks(measures) {
        let _ = writeln!(text, "\n{table}");
    }
    if let Some(table) = contended_locks(measures) {
        let _ = writeln!(text, "\n{table}");
    }
    if !measures.tasks.is_empty() {
        let _ = writeln!(text, "\n{}", top_tasks(measures));
    }
    if run.meter.is_none() {
        let _ = writeln!(text, "\nlog hash {:032x}", run.log_hash);
    }
    text
}

/// Total time of all CPUs.
fn total_ns(cpu: &CpuAccount) -> u64 {
    let CpuAccount { run, idle, scheduler, stolen, offline, slowed: _, reload: _, memory: _, spin: _ } = cpu;
    [run, idle, scheduler, stolen, offline].into_iter().map(|time| time.0).sum()
}

/// CPU time by category: a bar and its legend.
fn owners(cpu: &CpuAccount) -> String {
    let owners = [
        ('█', "run", cpu.run),
        ('▓', "scheduler", cpu.scheduler),
        ('▒', "stolen", cpu.stolen),
        ('·', "idle", cpu.idle),
        ('x', "offline", cpu.offline),
    ];
    let total = total_ns(cpu);
    let (mut bar, mut key) = (String::new(), String::new());
    let mut past = 0u128;
    for (mark, name, time) in owners {
        let column = |ns: u128| (ns * BAR as u128 / u128::from(total.max(1))) as usize;
        let start = column(past);
        past += u128::from(time.0);
        bar.extend(std::iter::repeat_n(mark, column(past) - start));
        if time.0 > 0 {
            let _ = write!(key, "  {mark} {name} {}", percent(permille(time.0, total)));
        }
    }
    format!("CPU time  {bar}\n        {key}")
}

fn facts(run: &RunReport) -> String {
    let measures = &run.measures;
    let elapsed = measures.elapsed.0;
    let rate = |value: u64| format!("{} ({}/s)", count(value), count(per_second(value, elapsed)));
    let moves = measures.migrations;
    let mut text = String::new();
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<22}{value}");
    };
    fact("context switches", rate(measures.context_switches));
    fact("wakeups", rate(measures.wakeups));
    let [smt, llc, node, far] = [moves.smt, moves.llc, moves.node, moves.far].map(count);
    fact("migrations", format!("{smt} SMT, {llc} LLC, {node} node, {far} cross-node"));
    let [whole, thousandths] = [measures.load_milli() / 1000, measures.load_milli() % 1000];
    fact("load", format!("{whole}.{:02} running or waiting tasks on average", thousandths / 10));
    for one in &measures.requests {
        let latency = one.latency();
        let rate = count(per_second(latency.count, one.measured.0));
        let times = format!("mean {}, p99 {}, max {}", latency.mean, latency.p99, latency.max);
        fact(
            &format!("requests, {}", shorten(&one.source, 11)),
            format!("{} ({rate}/s); {times}", count(latency.count)),
        );
    }
    let disks = measures.disks.iter().flatten().filter(|disk| disk.reads + disk.writes > 0);
    let disks = disks.map(|disk| (format!("disk {}", disk.name), disk_use(disk, measures.elapsed)));
    let idle = measures.idle_while_runnable;
    fact("idle while runnable", format!("{idle} ({} of the time)", percent(permille(idle.0, elapsed))));
    match &run.meter {
        None => {
            fact("BPF instructions", measures.bpf_instructions.map_or("-".to_owned(), rate));
            fact("lock wait", measures.lock_wait.map_or("-".to_owned(), |time| time.to_string()));
            if let (Some(reload), Some(memory)) = (measures.reload, measures.memory) {
                let share = |time: Nanos| format!("{time} ({} of run)", percent(permille(time.0, measures.cpu.run.0)));
                fact("reloading caches", share(reload));
                fact("remote, busy memory", share(memory));
            }
            disks.for_each(|(name, what)| fact(&name, what));
            for network in measures.networks.iter().flatten().filter(|network| network.calls > 0) {
                let name = shorten(&network.name, 8);
                let [calls, busy] = network_use(network, measures.elapsed);
                fact(&format!("network {name}"), calls);
                fact(&format!("network {name} busy"), busy);
            }
            if let Some(cache) = &measures.page_cache {
                fact("page cache", page_cache_use(cache));
            }
            if let Some(interrupts) = measures.interrupts.as_ref().filter(|rows| !rows.is_empty()) {
                fact("device interrupts", interrupt_use(interrupts));
            }
            if let Some(nodes) = &measures.memory_nodes {
                fact("loaded from memory", traffic(nodes));
            }
        }
        Some(meter) => {
            disks.for_each(|(name, what)| fact(&name, what));
            // The probes were active slightly longer than the run: their cost is relative to that time.
            let cpus = total_ns(&measures.cpu).checked_div(elapsed).unwrap_or(0);
            let share = |time: Nanos| percent(permille(time.0, meter.listened.0 * cpus));
            let (probes, reader) = (share(meter.probes), share(meter.reader));
            let events = counted(meter.events, "event");
            fact("measuring", format!("probes {probes}, reader {reader} of all CPU time; {events}"));
        }
    }
    text
}

/// Requests to a disk, how busy it was, and how long requests took.
fn disk_use(disk: &DiskMeasures, elapsed: Nanos) -> String {
    let requests = disk.reads + disk.writes;
    let number = format!("{} requests ({}/s)", count(requests), count(per_second(requests, elapsed.0)));
    let Some(busy) = disk.utilization_ppm(elapsed) else {
        let latency = disk.latencies.summary();
        return format!("{number}; each {} on average, p99 {}", latency.mean, latency.p99);
    };
    let (wait, service) = (disk.waits.summary().mean, disk.services.summary().mean);
    format!("{number}, {} busy; each {wait} wait, {service} service", percent(busy / 1000))
}

/// Calls over a network and how long they took; how busy its parts were.
fn network_use(network: &NetworkMeasures, elapsed: Nanos) -> [String; 2] {
    let [out, back, server] = network.utilization_ppm(elapsed).map(|ppm| percent(ppm / 1000));
    let (wait, latency) = (network.waits.summary().mean, network.latencies.summary().mean);
    let (calls, rate) = (count(network.calls), count(per_second(network.calls, elapsed.0)));
    [
        format!("{calls} calls ({rate}/s); each {latency}, of it {wait} wait"),
        format!("out {out}, back {back}, server {server}"),
    ]
}

/// Share of hits of the page cache, and what was written.
fn page_cache_use(cache: &PageCacheMeasures) -> String {
    let read = cache.hit_bytes + cache.miss_bytes;
    let mb = |bytes: u64| count(bytes / 1_000_000);
    format!(
        "{} of {} MB hit; {} MB written: {} by kthreads, {} by fsync",
        percent(permille(cache.hit_bytes, read)),
        mb(read),
        mb(cache.written_bytes),
        mb(cache.flushed_bytes),
        mb(cache.synced_bytes),
    )
}

/// Number and time of interrupts, and the CPUs that handled them.
fn interrupt_use(rows: &[InterruptUse]) -> String {
    let total = Nanos(rows.iter().map(|row| row.total.0).sum());
    let number = rows.iter().map(|row| row.count).sum();
    let cpus: CpuSet = rows.iter().map(|row| row.cpu).collect();
    format!("{} on CPUs {cpus}, {total} stolen", count(number))
}

/// Bytes loaded from the memory of each node; nodes beyond the first ones are summed.
fn traffic(nodes: &[NodeTraffic]) -> String {
    let bytes = |bytes: u64| match bytes {
        bytes if bytes >= 10_000_000_000 => format!("{} GB", bytes / 1_000_000_000),
        bytes if bytes >= 10_000_000 => format!("{} MB", bytes / 1_000_000),
        bytes => format!("{} KB", bytes / 1_000),
    };
    let sum = |nodes: &[NodeTraffic], of: fn(&NodeTraffic) -> u64| bytes(nodes.iter().map(of).sum());
    let text = |nodes: &[NodeTraffic]| {
        format!("{} local, {} remote", sum(nodes, |node| node.local_bytes), sum(nodes, |node| node.remote_bytes))
    };
    let all = text(nodes);
    if nodes.len() == 1 {
        return sum(nodes, |node| node.local_bytes);
    }
    let busiest = (0..).zip(nodes).max_by_key(|(_, node)| node.local_bytes + node.remote_bytes);
    let (number, busiest) = busiest.expect("a machine has nodes");
    format!("{all}; most from node {number}: {}", text(std::slice::from_ref(busiest)))
}

fn latencies(measures: &RunMeasures) -> String {
    let mut table = plain(&["waited for a CPU", "count", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    let mut row = |name: &str, latency: &LatencySummary| {
        let times = [latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
        let cells = [name.to_owned(), count(latency.count)];
        let text = |time: Nanos| if latency.count > 0 { time.to_string() } else { "-".to_owned() };
        table.add_row(cells.into_iter().chain(times.map(text)));
    };
    row("after wakeup", &measures.wakeup_latency);
    row("every time", &measures.run_delay);
    align(&mut table)
}

fn parts(measures: &RunMeasures) -> String {
    let mut table = plain(&["part", "tasks", "ended after", "ran", "mean", "p50", "p99", "max"]);
    for part in &measures.parts {
        let latency = part.wakeup_latency;
        let times = [latency.mean, latency.p50, latency.p99, latency.max];
        let text = |time: Nanos| if latency.count > 0 { time.to_string() } else { "-".to_owned() };
        let makespan = part.makespan.map_or("-".to_owned(), |time| time.to_string());
        let cells = [shorten(&part.label, 20), count(part.tasks), makespan, part.account.run.to_string()];
        table.add_row(cells.into_iter().chain(times.map(text)));
    }
    align(&mut table)
}

/// The groups in order, with their shares of the run time of all tasks.
fn groups(measures: &RunMeasures) -> String {
    let mut table = plain(&["group", "weight", "cap", "ran", "of all", "waited"]);
    let all = measures.tasks.iter().filter(|task| !task.kernel_thread).map(|task| task.account.run.0).sum();
    let shown = measures.groups.len().min(TOP_GROUPS);
    for group in &measures.groups[..shown] {
        table.add_row([
            shorten(&group.path, 30),
            count(group.weight.into()),
            group.cap_percent.map_or("-".to_owned(), |percent| format!("{} %", count(percent.into()))),
            group.cpu.to_string(),
            percent(permille(group.cpu.0, all)),
            group.runnable.to_string(),
        ]);
    }
    let table = align(&mut table);
    match measures.groups.len() - shown {
        0 => table,
        more => format!("{table}\nand {more} more"),
    }
}

/// Periodic tasks with the most late jobs; `None` if no timer releases jobs.
fn periodic_tasks(measures: &RunMeasures) -> Option<String> {
    let periodic = |task: &TaskMeasures| {
        Some((task.name.clone(), task.periods.as_ref()?.length, task.periods.as_ref()?.summary()))
    };
    let mut tasks: Vec<_> = measures.tasks.iter().filter_map(periodic).collect();
    if tasks.is_empty() {
        return None;
    }
    tasks.sort_by_key(|(_, _, periods)| std::cmp::Reverse(periods.late.count));
    let mut table =
        plain(&["periodic task", "period", "jobs", "response p50", "p99", "max", "late", "late by p50", "max"]);
    for (name, length, PeriodSummary { response, late }) in tasks.into_iter().take(TOP_PERIODIC) {
        let late_by = |time: Nanos| if late.count > 0 { time.to_string() } else { "-".to_owned() };
        table.add_row([
            shorten(&name, 15),
            length.to_string(),
            count(response.count),
            response.p50.to_string(),
            response.p99.to_string(),
            response.max.to_string(),
            count(late.count),
            late_by(late.p50),
            late_by(late.max),
        ]);
    }
    Some(align(&mut table))
}

/// Locks with the longest waits; `None` if no lock was contended.
fn contended_locks(measures: &RunMeasures) -> Option<String> {
    let locks = measures.locks.as_ref()?.iter().filter(|lock| lock.wait_total > Nanos::ZERO);
    let mut rows = locks.take(TOP_LOCKS).peekable();
    rows.peek()?;
    let mut table = plain(&["lock", "by", "taken", "waited", "mean hold", "mean wait", "max wait", "all waits"]);
    for lock in rows {
        let mean = |total: Nanos, count: u64| Nanos(total.0.checked_div(count).unwrap_or(0)).to_string();
        table.add_row([
            format!("{} {}", lock.kind, shorten(&lock.lock, 12)),
            lock.caller.clone(),
            count(lock.count),
            percent(permille(lock.contended, lock.count)),
            mean(lock.hold_total, lock.count),
            mean(lock.wait_total, lock.contended),
            lock.wait_max.to_string(),
            lock.wait_total.to_string(),
        ]);
    }
    Some(align(&mut table))
}

fn top_tasks(measures: &RunMeasures) -> String {
    let mut tasks: Vec<&TaskMeasures> = measures.tasks.iter().collect();
    tasks.sort_by_key(|task| (std::cmp::Reverse(task.account.run), task.id));
    let shown = tasks.len().min(TOP);
    let title = match tasks.len() {
        all if all > shown => format!("pid, top {shown} of {} tasks", count(all as u64)),
        _ => "pid, task".to_owned(),
    };
    let mut table = plain(&[&title, "ran", "waited", "slept", "p50", "p99", "CPUs used"]);
    for task in &tasks[..shown] {
        let name = if task.kernel_thread { format!("[{}]", task.name) } else { task.name.clone() };
        table.add_row([
            format!("{} {}", task.pid, shorten(&name, 18)),
            task.account.run.to_string(),
            task.account.runnable.to_string(),
            task.account.blocked.to_string(),
            task.wakeup_latency.p50.to_string(),
            task.wakeup_latency.p99.to_string(),
            cpus_used(&task.cpus_used),
        ]);
    }
    align(&mut table)
}

/// The list, or the number of CPUs if it is long.
fn cpus_used(cpus: &CpuSet) -> String {
    let list = cpus.to_string();
    if list.len() <= 10 { list } else { format!("{} CPUs", cpus.len()) }
}
