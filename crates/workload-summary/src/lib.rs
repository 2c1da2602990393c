// SPDX-License-Identifier: GPL-2.0-only
//! The contents of a workload, its parallelism, its critical path, and what it leaves uncertain, as text and JSON.

use ids::Nanos;
use report::{count, counted, escape};
use serde_json::{Value, json};
use std::fmt::Write;
use workload::{Cost, Costs, Link, Op, RecordingMeta, Span, Workload, WorkloadError};

mod flaws;
mod inside;
mod memory;
mod touched;

pub use flaws::{SELF_CHECK, flaws, replay_flaw};
use inside::Inside;
pub use touched::Touched;

/// Number of columns of the parallelism timeline.
const PARTS: usize = 60;
/// Number of critical-path tasks shown, merged by name.
const TOP: usize = 8;
/// Doublings of the number of CPUs in the table of bounds: up to 2^12 CPUs, the maximum of a simulated machine.
const DOUBLINGS: u32 = 12;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Analysis of a workload.
#[derive(Debug)]
pub struct Summary {
    workload: Workload,
    /// Metadata of each recording in it.
    metas: Vec<RecordingMeta>,
    /// Resource use of each recording; `None` if it was not recorded.
    touched: Vec<Option<Touched>>,
    span: Span,
    inside: Inside,
    /// Uncertainties of the workload, a sentence each.
    uncertain: Vec<String>,
}

impl Summary {
    /// Analyses a workload; `recorded` has the metadata and the resource use of each recording in it. An endless
    /// workload is analysed up to `duration`.
    ///
    /// # Errors
    /// If the workload is invalid, or endless without a duration.
    pub fn of(
        workload: Workload,
        recorded: Vec<(RecordingMeta, Option<Touched>)>,
        duration: Option<Nanos>,
    ) -> Result<Summary, WorkloadError> {
        let (metas, touched): (Vec<_>, Vec<_>) = recorded.into_iter().unzip();
        let span = workload.span(duration, PARTS)?;
        let inside = Inside::of(&workload);
        let uncertain = uncertain(&workload, &metas, &span, &inside);
        Ok(Summary { workload, metas, touched, span, inside, uncertain })
    }

    /// The analysis as text.
    pub fn to_text(&self) -> String {
        to_text(self)
    }

    /// The analysis as JSON.
    pub fn to_json(&self) -> Value {
        to_json(self)
    }
}

/// Lists the uncertainties of a workload, a sentence each.
fn uncertain(workload: &Workload, metas: &[RecordingMeta], span: &Span, inside: &Inside) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(workload.caveats.iter().cloned());
    for meta in metas {
        if meta.notes.contains("is cut at") {
            all.push("the recording is truncated: later events are missing".to_owned());
        }
    }
    let (outside, time) = span.sleeps[2];
    if outside > 0 {
        let sleeps = counted(outside, "sleep");
        all.push(format!("{sleeps} ({time}) were ended from outside the recording: they keep their recorded length"));
    }
    let (devices, time) = span.sleeps[1];
    if !metas.is_empty() && devices > span.requests {
        let (fixed, all_of_them) = (devices - span.requests, counted(devices, "wait"));
        all.push(format!(
            "{} of {all_of_them} for devices ({time}) keep their recorded length: no request of the task itself ended them (they \
             are for requests of other tasks or kthreads, journals, flushes, or no requests)",
            count(fixed)
        ));
    }
    if !workload.devices.is_empty() {
        all.push(format!(
            "waits for requests to {0} keep their recorded length on a machine without a disk of that name (--disk \
             {1}=recorded); positions of requests, and the load by kthreads and other programs, are not replayed",
            escape(&workload.devices.join(", ")),
            escape(&workload.devices[0])
        ));
    }
    let has = |wanted: fn(&Op) -> bool| workload.tasks.iter().flat_map(|task| &task.script).any(wanted);
    if !metas.is_empty() {
        all.push(
            "lock acquisitions, and reads of channels with several readers, are recorded only if they blocked: the real critical \
             path may be longer"
                .to_owned(),
        );
        all.push(match metas.iter().all(|meta| meta.costs.switch.is_some()) {
            true => {
                "scheduling overhead is subtracted from the work at typical costs: a single stretch of work may really be \
                     shorter or longer"
                    .to_owned()
            }
            false => {
                "work is CPU time on the recorded machine and includes its context switches and interrupts".to_owned()
            }
        });
    }
    if !metas.is_empty() {
        all.push("tasks that poll the clock until a deadline have a fixed amount of work here".to_owned());
    }
    all.extend(inside.uncertain());
    if has(|op| matches!(op, Op::CriticalSections(_))) {
        all.push("locks in shared memory are assumed to be uncontended".to_owned());
    }
    if workload.parts.len() > 1 {
        all.push(match workload.uses_memory() {
            true => "interference between parts in disks is not modelled".to_owned(),
            false => "interference between parts in caches, memory and disks is not modelled".to_owned(),
        });
    }
    all.extend(memory::uncertain(workload, !metas.is_empty()));
    if !span.is_complete {
        all.push(match workload.is_finite() {
            true => "it never finishes: tasks wait for events that never occur".to_owned(),
            false => format!("it is endless: only its first {} are analysed", span.span),
        });
    }
    all
}

fn to_text(summary: &Summary) -> String {
    let Summary { workload, metas, touched, span, inside, uncertain } = summary;
    let mut text = String::new();
    // Tables are not wrapped.
    let mut say = |lines: &str| {
        let wrapped = if lines.contains('\n') { lines.to_owned() } else { report::wrap("", lines) };
        let _ = writeln!(text, "{wrapped}");
    };
    say(&escape(&workload.name));
    for RecordingMeta { command, cpus, elapsed, kernel, scheduling, costs, .. } in metas {
        let on = format!("{} in {elapsed}, kernel {}", counted(u64::from(*cpus), "CPU"), escape(kernel));
        say(&format!("recorded from {} on {on}", escape(command)));
        if *scheduling > Nanos::ZERO {
            say(&format!("{scheduling} of scheduling overhead were subtracted: {}", prices(costs)));
        }
    }
    say("");
    let tasks = counted(span.tasks.into(), "task");
    say(&format!("{tasks}, {} of work, {} of it in the kernel", span.work, percent(span.system, span.work)));
    say(&format!("{} between tasks, {}", counted(span.waits, "wait"), sleeps(span)));
    inside.lines().iter().for_each(|line| say(line));
    memory::lines(workload).iter().for_each(|line| say(line));
    for (meta, touched) in metas.iter().zip(touched).filter_map(|(meta, touched)| Some((meta, touched.as_ref()?))) {
        if metas.len() > 1 {
            say("");
            say(&format!("in the recording of {}", escape(&meta.command)));
        }
        touched.lines().iter().for_each(|line| say(line));
    }
    say("");
    let most = span.levels.keys().max().copied().unwrap_or(0);
    let busy = span.work.0 as f64 / span.span.0.max(1) as f64;
    say(&format!("span {} (unlimited CPUs, no overhead): {busy:.1} CPUs busy on average, {most} at most", span.span));
    say(&bars(&span.timeline));
    if is_bounded(workload, span, inside) {
        say(&bounds(span));
    }
    if span.is_complete {
        say(&chain(span));
    }
    if !uncertain.is_empty() {
        say("\nuncertainties");
    }
    uncertain.iter().for_each(|line| say(&format!("- {line}")));
    text
}

/// Costs of scheduling operations on the machine of the recording.
fn prices(costs: &Costs) -> String {
    let price = |(name, cost): (&str, Option<Cost>)| {
        let each = if name == "ticks" { " a second" } else { "" };
        Some(format!("{} {}{each}", name.replace('_', " "), cost?.typical))
    };
    costs.named().into_iter().filter_map(price).collect::<Vec<_>>().join(", ")
}

fn percent(part: Nanos, whole: Nanos) -> String {
    format!("{:.0} %", 100.0 * part.0 as f64 / whole.0.max(1) as f64)
}

fn sleeps(span: &Span) -> String {
    let causes = ["timers", "devices", "something outside"];
    let slept = causes.iter().zip(span.sleeps).filter(|(_, (number, _))| *number > 0);
    let slept: Vec<String> =
        slept.map(|(cause, (number, time))| format!("{} by {cause} ({time})", count(number))).collect();
    if slept.is_empty() { "no sleeps".to_owned() } else { format!("sleeps ended {}", slept.join(", ")) }
}

/// Whether its amount of work is the same on any number of CPUs.
fn is_bounded(workload: &Workload, span: &Span, inside: &Inside) -> bool {
    inside.has_fixed_work() && span.is_complete && workload.parts.iter().all(|part| part.is_finite)
}

fn chain(span: &Span) -> String {
    let sleep = Nanos(span.chain.iter().map(|link| link.sleep.0).sum());
    let links = counted(span.chain.len() as u64, "link");
    let mut text = format!("\ncritical path: {links}, {} of work, {sleep} of sleep", span.chain_work());
    for (task, work, sleep, links) in top(&span.chain) {
        let (share, links) = (percent(work + sleep, span.span), counted(links, "link"));
        let _ = write!(text, "\n{share:>6}  {:<18}  {work} of work, {sleep} of sleep in {links}", escape(task));
    }
    text
}

/// Bar chart of the number of working tasks over time, scaled to the maximum.
fn bars(timeline: &[u64]) -> String {
    let most = timeline.iter().copied().max().unwrap_or(0).max(1);
    timeline.iter().map(|level| BARS[(level * (BARS.len() as u64 - 1)).div_ceil(most) as usize]).collect()
}

/// Rows of the table of bounds, up to the first number of CPUs at which the lower bound equals the span.
fn rows(span: &Span) -> Vec<(u64, Nanos, Nanos)> {
    let mut rows = Vec::new();
    for doubling in 0..=DOUBLINGS {
        let cpus = 1 << doubling;
        let (least, most) = span.bounds(cpus);
        rows.push((cpus, least, most));
        if least == span.span {
            break;
        }
    }
    rows
}

fn bounds(span: &Span) -> String {
    let mut text = format!("\n{:>5}  {:>9}  {:>9}", "CPUs", "at least", "at most");
    for (cpus, least, most) in rows(span) {
        let _ = write!(text, "\n{cpus:>5}  {:>9}  {:>9}", least.to_string(), most.to_string());
    }
    text
}

/// Critical-path tasks merged by name, largest share first: work, sleep, links.
fn top(chain: &[Link]) -> Vec<(&str, Nanos, Nanos, u64)> {
    let mut names: Vec<(&str, Nanos, Nanos, u64)> = Vec::new();
    for Link { task, work, sleep } in chain {
        match names.iter_mut().find(|(name, ..)| name == task) {
            Some(row) => (row.1, row.2, row.3) = (row.1 + *work, row.2 + *sleep, row.3 + 1),
            None => names.push((task, *work, *sleep, 1)),
        }
    }
    names.sort_by_key(|(_, work, sleep, _)| std::cmp::Reverse(*work + *sleep));
    names.truncate(TOP);
    names
}

fn to_json(summary: &Summary) -> Value {
    let Summary { workload, metas, touched, span, inside, uncertain } = summary;
    let recorded = metas.iter().zip(touched).map(|(meta, touched)| {
        json!({
            "command": meta.command, "kernel": meta.kernel, "cpu_model": meta.cpu_model, "cpus": meta.cpus,
            "elapsed_ns": meta.elapsed.0, "recorded_at_unix_s": meta.recorded_at_unix_s,
            "lost_events": meta.lost_events, "notes": meta.notes, "scheduling_ns": meta.scheduling.0,
            "costs_ns": meta.costs.named().into_iter().filter_map(|(name, cost)| {
                let Cost { low, typical, high } = cost?;
                Some((name.to_owned(), json!([low.0, typical.0, high.0])))
            }).collect::<serde_json::Map<_, _>>(),
            "touched": touched.as_ref().map(Touched::to_json),
        })
    });
    let sleeps = ["timer", "io", "external"].into_iter().zip(span.sleeps);
    let sleeps = sleeps.map(|(cause, (count, time))| (cause.to_owned(), json!({"count": count, "total_ns": time.0})));
    let levels = span.levels.iter().map(|(level, time)| json!({"working": level, "time_ns": time.0}));
    let chain = span.chain.iter();
    let chain = chain.map(|link| json!({"task": link.task, "work_ns": link.work.0, "sleep_ns": link.sleep.0}));
    let bounds = rows(span).into_iter().filter(|_| is_bounded(workload, span, inside));
    let bounds = bounds.map(|(cpus, least, most)| json!({"cpus": cpus, "least_ns": least.0, "most_ns": most.0}));
    json!({
        "weir": 1,
        "workload": workload.name,
        "recorded": recorded.collect::<Vec<_>>(),
        "tasks": span.tasks,
        "work_ns": span.work.0,
        "system_ns": span.system.0,
        "span_ns": span.span.0,
        "complete": span.is_complete,
        "waits": span.waits,
        "inside": inside.to_json(),
        "memory": memory::to_json(workload),
        "device_requests": span.requests,
        "sleeps": sleeps.collect::<serde_json::Map<_, _>>(),
        "levels": levels.collect::<Vec<_>>(),
        "bounds": bounds.collect::<Vec<_>>(),
        "chain_work_ns": span.chain_work().0,
        "chain": chain.collect::<Vec<_>>(),
        "uncertain": uncertain,
    })
}
