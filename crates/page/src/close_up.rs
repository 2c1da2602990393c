// SPDX-License-Identifier: GPL-2.0-only
//! Details of one run of each setup: its CPUs, locks and tasks.

use crate::depths::depths;
use crate::owners::{OWNERS, legend};
use crate::plot::cpus::cpus;
use crate::track::{Track, cut, encode};
use crate::{Report, data, runs};
use ids::Nanos;
use maud::{Markup, html};
use report::{Content, Details, Lock, Outcome, Record, Setup, Task, content, count};
use serde_json::{Value, json};

/// Measure by which the middle run is chosen: the first of these that all runs of the setup have.
const TYPICAL: [&str; 3] = ["makespan_ns", "wakeup_latency_ns.mean", "elapsed_ns"];

/// Number of locks in a table.
const LOCKS: usize = 12;
/// Maximum number of run intervals in the timelines of a page: a million take some 6 MB.
const MAX_RUN_INTERVALS: usize = 1_000_000;
/// Number of tasks contained in the page as text, for print and without scripts.
const TASKS: usize = 10;

/// The run of each setup that is shown in detail, as indexes into the records: the first that did not complete, or
/// else the middle one.
pub fn close_ups(records: &[Record]) -> Vec<usize> {
    chosen(records, &content(records)).into_iter().map(|(_, run)| run).collect()
}

fn chosen<'a>(records: &[Record], content: &'a Content) -> Vec<(&'a Setup, usize)> {
    let whole = content.tables.iter().filter(|table| table.part.is_none());
    whole.flat_map(|table| &table.setups).filter_map(|setup| Some((setup, middle(records, setup)?))).collect()
}

fn middle(records: &[Record], setup: &Setup) -> Option<usize> {
    let ended_badly = |run: &&usize| records[**run].ending.outcome() != Outcome::Completed;
    if let Some(bad) = setup.runs.iter().find(ended_badly) {
        return Some(*bad);
    }
    let known = |key: &&&str| setup.runs.iter().all(|&run| records[run].value(key).is_some());
    let key = TYPICAL.iter().find(known)?;
    let mut order = setup.runs.clone();
    order.sort_by_key(|&run| (records[run].value(key), run));
    order.get((order.len() - 1) / 2).copied()
}

/// One section per such run; the script shows one at a time.
pub fn sections(report: &Report<'_>, content: &Content) -> Markup {
    let chosen = chosen(report.records, content);
    let chosen: Vec<(String, usize, &Details)> = chosen
        .iter()
        .filter_map(|&(setup, run)| Some((name(setup, &report.records[run]), run, report.details_of(run)?)))
        .collect();
    html! {
        @if !chosen.is_empty() {
            section #close-up {
                h2 { "One run in detail" }
                @if report.records.len() > 1 {
                    p.quiet { "For each setup, the middle run, or the first that did not complete." }
                }
                @if chosen.len() > 1 {
                    p.scripted {
                        label { "Run " select #run {
                            @for (index, (name, ..)) in chosen.iter().enumerate() { option value=(index) { (name) } }
                        } }
                        " "
                        label { "with the timeline of " select #beside {
                            option value="-1" { "no other run" }
                            @for (index, (name, ..)) in chosen.iter().enumerate() {
                                option value=(index) selected[index == 1] { (name) }
                            }
                        } }
                    }
                }
                @for (index, (name, run, details)) in chosen.iter().enumerate() {
                    article id={ "run-" (index) } {
                        h3 { (name) }
                        (one(report, (index, name, *run), details, MAX_RUN_INTERVALS / chosen.len()))
                    }
                }
            }
        }
    }
}

fn name(setup: &Setup, record: &Record) -> String {
    let machine = format!("{} on {}", setup.name, record.tags.machine);
    let whose = if setup.name.contains(&record.tags.machine) { &setup.name } else { &machine };
    let whose = report::escape(whose);
    match record.tags.seed {
        Some(_) => format!("{whose}, seed {}", runs::seed(record)),
        None => whose.into_owned(),
    }
}

fn one(report: &Report<'_>, (index, name, run): (usize, &str, usize), details: &Details, share: usize) -> Markup {
    let record = &report.records[run];
    let dump = record.ending.ejected.as_ref().map(|exit| exit.dump.as_str()).filter(|dump| !dump.is_empty());
    let dump = dump.map(|dump| dump.lines().map(report::escape).collect::<Vec<_>>().join("\n"));
    html! {
        @if let Some(text) = track(report, run).and_then(|track| track.as_ref().ok()?.ejection.as_deref()) {
            details open { summary { "Why the scheduler was ejected" } (lines(text)) }
        }
        @if let Some(dump) = dump { details { summary { "The kernel's dump" } pre.dump { (dump) } } }
        @if let Some(plot) = cpus(&format!("Time of each CPU, {name}"), &details.cpus) {
            h4 { "Time of each CPU" }
            (legend("o", OWNERS.iter().map(|owner| (owner.name, owner.meaning)), |owner| {
                details.cpus.iter().any(|cpu| (OWNERS[owner].of_cpu)(cpu) > 0)
            }))
            figure { (plot) }
        }
        (timeline_of(report, run, index, name, share))
        (locks(details.locks.as_deref().unwrap_or_default()))
        (tasks(index, &details.tasks))
    }
}

/// The events of this run, or the reason why they are missing.
fn track<'a>(report: &Report<'a>, run: usize) -> Option<&'a Result<Track, String>> {
    report.tracks.iter().find(|(of, _)| *of == run).map(|(_, track)| track)
}

/// Text that keeps its line breaks.
fn lines(text: &str) -> Markup {
    html! { pre { (text.lines().map(report::escape).collect::<Vec<_>>().join("\n")) } }
}

/// The timeline, with at most `share` run intervals.
fn timeline_of(report: &Report<'_>, run: usize, index: usize, name: &str, share: usize) -> Markup {
    let track = track(report, run);
    let source = format!("timeline-data-{index}");
    html! {
        @if let Some(Ok(track)) = track {
            h4 { "Timeline" }
            (frame(track, Some(&source), name, share))
            noscript { p.quiet { "The timeline requires scripts." } }
            (data::element(&source, &encode(track, share)))
            // With the timeline of another run between, the text's own run is not obvious.
            @for (title, text) in &track.explanations {
                details { summary { (name) ": " (title) } (lines(text)) }
            }
        } @else if let Some(Err(reason)) = track {
            p.quiet { "There is no timeline: " (report::escape(reason)) }
        }
    }
}

/// The frame in which `drawTimeline` draws a timeline, and the data that `Timelines.model` reads.
pub fn timeline(track: &Track, name: &str) -> (String, Vec<u8>) {
    let name = report::escape(name);
    (frame(track, None, &name, MAX_RUN_INTERVALS).into_string(), encode(track, MAX_RUN_INTERVALS))
}

/// Frame of a timeline of at most `share` run intervals; `source` is the element with its data.
fn frame(track: &Track, source: Option<&str>, name: &str, share: usize) -> Markup {
    html! {
        div.timeline.scripted data-source=[source] {
            p {
                @for (key, label, text) in BUTTONS {
                    button type="button" data-key=(key) aria-label=(label) title=(label) { (text) } " "
                }
                label.one { "Find a task " input type="search" data-find; }
            }
            @if let Some(cut) = cut(&track.timeline, share) {
                p.note { "The run has too many switches for a page. Shown are the first " (cut) "." }
            }
            canvas tabindex="0" role="img" aria-label={ "Timeline of " (name) } {}
            span.probe {}
            p.quiet.help {
                "Drag to move; zoom with the wheel after a click, or with Ctrl. Each task has its own color. \
                 Where a CPU's row is too dense for individual tasks, its height is the share of time in which it ran \
                 tasks. A red background is avoidable idle time: a CPU idled while a task waited that may run there. \
                 Black ticks at the bottom of a row are lock waits. In the longest chain of causes, a full-height \
                 bar is a running task, a low red bar a task that waited for a CPU, and a line a sleeping task. The \
                 dashed line is the number of CPUs."
            }
            p.quiet {
                @if track.timeline.sees_queues {
                    "The rows of queues show the number of tasks in each"
                    @match depths(&track.timeline).1 { 0 => ".", more => {
                        "; " (report::counted(more as u64, "queue")) " with fewer tasks are omitted."
                    } }
                } @else { "Queues are not available: only simulated runs with a loaded scheduler record them." }
                @if track.timeline.cpus.iter().any(|cpu| !cpu.others.is_empty()) {
                    " Gray in the row of a CPU is time in which it ran tasks outside the run."
                }
            }
            details { summary { "The longest waits" } ol.longest {} }
        }
    }
}

fn locks(locks: &[Lock]) -> Markup {
    let waited: Vec<&Lock> = locks.iter().filter(|lock| lock.wait_total_ns > 0).collect();
    html! {
        @if !waited.is_empty() {
            h4 { "Contended locks" }
            div.scroll {
                table.plain {
                    thead { tr {
                        @for head in ["lock", "by", "taken", "waited", "all waits", "longest wait", "held"] {
                            th scope="col" { (head) }
                        }
                    } }
                    tbody {
                        @for lock in waited.iter().take(LOCKS) {
                            tr {
                                th scope="row" { (lock.kind) " " (report::escape(&lock.lock)) }
                                td { (report::escape(&lock.caller)) }
                                td { (count(lock.count)) }
                                td { (count(lock.contended)) }
                                td data-value=(lock.wait_total_ns) { (Nanos(lock.wait_total_ns)) }
                                td { (Nanos(lock.wait_max_ns)) }
                                td { (lock.hold_total_ns.map(|ns| Nanos(ns).to_string()).unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
            @if waited.len() > LOCKS { p.quiet { (count((waited.len() - LOCKS) as u64)) " more are in the JSON." } }
        }
    }
}

/// Buttons of a timeline: the equivalent key, the action, and the label.
const BUTTONS: [(&str, &str, &str); 5] = [
    ("ArrowLeft", "earlier", "◀"),
    ("ArrowRight", "later", "▶"),
    ("+", "zoom in", "+"),
    ("-", "zoom out", "−"),
    ("0", "the whole run", "All"),
];

/// Columns of the table of tasks, in the order used by the script.
const HEAD: [&str; 12] =
    ["pid", "task", "ran", "waited", "slept", "stolen", "wakeups", "p50", "p99", "max", "CPUs used", "CPUs allowed"];

fn tasks(index: usize, tasks: &[Task]) -> Markup {
    let mut order: Vec<&Task> = tasks.iter().collect();
    order.sort_by_key(|task| (std::cmp::Reverse(task.cpu_ns), task.id));
    let rows: Vec<Vec<Value>> = order.iter().map(|task| columns(task)).collect();
    let json = serde_json::to_vec(&json!({ "head": HEAD, "rows": rows })).expect("numbers and texts");
    html! {
        h4 { "Tasks" }
        @if tasks.is_empty() { p.quiet { "There were no tasks." } } @else {
            p.scripted { label { "Search " input type="search" data-search={ "tasks-" (index) }; } }
            div.scroll {
                table.plain.tasks id={ "tasks-" (index) } data-source={ "tasks-data-" (index) } {
                    thead { tr { @for head in HEAD { th scope="col" { (head) } } } }
                    tbody { @for task in order.iter().take(TASKS) { (row(task)) } }
                }
            }
            p.quiet { span.shown { (count(tasks.len().min(TASKS) as u64)) } " of " (report::counted(tasks.len() as u64, "task")) }
            (data::element(&format!("tasks-data-{index}"), &json))
        }
    }
}

fn task_name(task: &Task) -> String {
    let name = report::escape(&task.name);
    if task.kernel_thread { format!("[{name}]") } else { name.into_owned() }
}

fn columns(task: &Task) -> Vec<Value> {
    let waits = &task.wakeup_latency_ns;
    vec![
        json!(task.pid),
        json!(task_name(task)),
        json!(task.cpu_ns),
        json!(task.runnable_ns),
        json!(task.blocked_ns),
        json!(task.stolen_ns),
        json!(waits.count),
        json!(waits.p50),
        json!(waits.p99),
        json!(waits.max),
        json!(task.cpus_used),
        json!(task.cpus_allowed),
    ]
}

fn row(task: &Task) -> Markup {
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| Nanos(ns).to_string());
    let waits = &task.wakeup_latency_ns;
    html! {
        tr {
            td { (task.pid) }
            td { (task_name(task)) }
            @for ns in [task.cpu_ns, task.runnable_ns, task.blocked_ns, task.stolen_ns] { td { (Nanos(ns)) } }
            td { (count(waits.count)) }
            @for ns in [waits.p50, waits.p99, waits.max] { td { (time(ns)) } }
            td { (task.cpus_used) }
            td { (task.cpus_allowed) }
        }
    }
}
