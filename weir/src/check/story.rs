// SPDX-License-Identifier: GPL-2.0-only
//! What happened in a failing run, in at most ten lines: task, queue, callback, source line.

use super::{ENDING, parse};
use crate::plan::Single;
use crate::select::Scheduler;
use crate::sim;
use anyhow::Result;
use explanation::{RunContext, Source, ejection_text, wait_json};
use ids::{Nanos, TaskId};
use report::{RunReport, Violation, escape, wrap};
use serde_json::Value;
use timeline::{Recorder, Timeline, Wait};

/// Most lines of a story.
const LINES: usize = 10;
/// Most lines about an ejection before the wait that led to it.
const EJECTION_LINES: usize = 4;
/// Most callbacks that are held responsible.
const SUSPECTS: usize = 2;

/// The story of the run with this command line, which violates `property`.
pub(super) fn of(words: &[String], scheduler: &Scheduler, property: &str) -> Result<Vec<String>> {
    let single = Single::of(&parse(words)?)?;
    let run = single.run(scheduler);
    let mut recorder = Recorder::new(run.machine.topology.len());
    let (report, object) = sim::observed(run, &mut recorder)?;
    let timeline = recorder.finish(report.measures.elapsed);
    let source = object.as_ref().map(Source::of).unwrap_or_default();
    let context = RunContext { timeline: &timeline, source: &source };
    let mut lines = Vec::new();
    let about = if property == ENDING {
        ejection(&context, &report, &mut lines);
        longest(&timeline, None, timeline.end)
    } else {
        let found = report.ending.violations.iter().flat_map(|found| &found.first);
        let Some(violation) = found.into_iter().find(|violation| violation.property == property) else {
            return Ok(lines);
        };
        lines.push(sentence(violation));
        let task = violation.tasks.first().map(|task| TaskId(*task));
        longest(&timeline, task, Nanos(violation.to_ns))
    };
    if let Some(wait) = about {
        waited(&context, wait, property, &mut lines);
    }
    lines.retain(|line| !line.trim().is_empty());
    lines.truncate(LINES);
    Ok(lines)
}

/// What was violated, for how long, and by which tasks and CPUs.
fn sentence(violation: &Violation) -> String {
    let Violation { property, from_ns, to_ns, names, cpus, value, limit, .. } = violation;
    let names: Vec<String> = names.iter().take(3).map(|name| escape(name).into_owned()).collect();
    let times = |ns: u64| Nanos(ns).to_string();
    let (from, lasted) = (times(*from_ns), times(to_ns - from_ns));
    let cpus = match cpus.as_slice() {
        [] => String::new(),
        [cpu] => format!(", CPU {cpu}"),
        several => format!(", CPUs {}", several.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    let names = names.join(", ");
    match property.as_str() {
        "unequal-time" | "inverted-weights" => {
            let (less, more) = (times(*value), times(*limit));
            format!("{property}: {names}: the first ran for {less}, the second for {more} of {lasted} from {from} on")
        }
        "stalled-virtual-time" => {
            format!("{property}: {names} ran for {} from {from} on, and its key stayed {limit}", times(*value))
        }
        "key-order" | "sanity" | "windows" => format!("{property}: {names}{cpus} at {from}"),
        _ => format!("{property}: {names}{cpus}: {} from {from} on, with a limit of {}", times(*value), times(*limit)),
    }
}

fn ejection(context: &RunContext<'_>, report: &RunReport, lines: &mut Vec<String>) {
    match &report.ending.ejected {
        Some(exit) => {
            let text = ejection_text(context, exit, false);
            let told = text.lines().take_while(|line| !line.starts_with("last events of"));
            lines.extend(told.filter(|line| !line.is_empty()).take(EJECTION_LINES).map(str::to_owned));
        }
        None => lines.push(format!("the workload deadlocked at {}", report.measures.elapsed)),
    }
}

/// The longest wait that had begun by `at`, of one task or of any.
fn longest(timeline: &Timeline, task: Option<TaskId>, at: Nanos) -> Option<Wait> {
    let counts = |wait: &Wait| {
        wait.from <= at
            && match task {
                Some(task) => wait.task == task,
                None => !timeline.task(wait.task).info.kernel_thread,
            }
    };
    timeline.longest_waits(1, counts).into_iter().next()
}

/// The wait, where the task was queued, and the callbacks that are responsible.
fn waited(context: &RunContext<'_>, wait: Wait, property: &str, lines: &mut Vec<String>) {
    let told = wait_json(context, &context.timeline.account(wait), None);
    let text = |value: &Value, key: &str| escape(value[key].as_str().unwrap_or_default()).into_owned();
    lines.extend(wrap("", &text(&told, "sentence")).lines().map(str::to_owned));
    // The kernel itself inserts tasks while no scheduler is attached.
    let called = |stand: &&Value| stand["op"].is_string();
    if let Some(stand) = told["stands"].as_array().and_then(|stands| stands.iter().rfind(called)) {
        let place = |op: &str| format!("{op} ({}:{})", text(stand, "file"), stand["line"].as_u64().unwrap_or(0));
        let queue = stand["queue"].as_str().map_or("no queue".to_owned(), |queue| format!("queue {queue}"));
        let key = if property.contains("virtual-time") { format!(" with key {}", stand["key"]) } else { String::new() };
        lines.push(format!("  it was last put into {queue} by {}{key}:", place(&text(stand, "op"))));
        lines.push(format!("      {}", text(stand, "text")));
    }
    for suspect in told["suspects"].as_array().into_iter().flatten().take(SUSPECTS) {
        lines.push(format!("  {}:", text(suspect, "sentence")));
        lines.push(format!("      {}", text(suspect, "text")));
    }
}
