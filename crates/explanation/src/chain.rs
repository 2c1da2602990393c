// SPDX-License-Identifier: GPL-2.0-only
//! Text and JSON of the longest chain of causes.

use crate::RunContext;
use crate::wait::{shorten, table};
use crate::words::{moment, task_json, task_name};
use ids::Nanos;
use report::{count, counted, escape, wrap};
use serde_json::{Value, json};
use std::fmt::Write;
use timeline::{Chain, Kind, Link};

/// Number of rows in the table of tasks.
const TASKS: usize = 10;
/// Number of links that are shown: the longest ones, in order of time.
const LINKS: usize = 12;

/// Description of a kind of link in tables.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Ran => "ran",
        Kind::Spun => "spun on a lock",
        Kind::Waited => "waited for a CPU",
        Kind::Timer => "slept until a timer expired",
        Kind::Device => "waited for a device",
        Kind::Outside => "waited for an outside event",
    }
}

/// Name of a kind of link in JSON.
fn kind_key(kind: Kind) -> &'static str {
    match kind {
        Kind::Ran => "ran",
        Kind::Spun => "lock",
        Kind::Waited => "cpu",
        Kind::Timer => "timer",
        Kind::Device => "device",
        Kind::Outside => "outside",
    }
}

/// The chain as text: a sentence, its totals, its tasks and its longest links.
pub fn chain_text(context: &RunContext<'_>, chain: &Chain) -> String {
    let Some((first, last)) = chain.links.first().zip(chain.links.last()) else {
        return "no task of the workload ran, so there is no chain of causes\n".to_owned();
    };
    let (handoffs, by_lock) = chain.handoffs();
    let passed = match (handoffs, by_lock) {
        (0, _) => "never passed from one task to another".to_owned(),
        (all, 0) => format!("passed from one task to another {}", counted(all, "time")),
        (all, locks) => {
            format!("passed from one task to another {}, {} of these by a lock", counted(all, "time"), count(locks))
        }
    };
    let sentence = format!(
        "The longest chain of causes took {}, from {} to the end of {} at {}; it has {} and {passed}.",
        chain.length(),
        moment(first.from),
        task_name(context, last.task),
        moment(last.to),
        counted(chain.links.len() as u64, "link"),
    );
    let mut text = wrap("", &sentence) + "\n\ntime by activity\n";
    for kind in Kind::ALL {
        let sum = chain.sum(kind);
        if sum > Nanos::ZERO {
            let _ = writeln!(text, "  {:>9}  {:>6}  {}", sum.to_string(), share(sum, chain.length()), kind_name(kind));
        }
    }
    let _ = writeln!(text, "\ntime by task");
    let tasks = chain.tasks();
    let rows = tasks.iter().take(TASKS).map(|(task, times)| {
        let [ran, spun, waited, timer, device, outside] = *times;
        [
            task_name(context, *task),
            ran.to_string(),
            waited.to_string(),
            spun.to_string(),
            (timer + device + outside).to_string(),
        ]
    });
    let header = ["task", "ran", "waited for CPU", "spun", "slept"];
    text.push_str(&table(header, [24, 10, 14, 10, 10], rows.collect(), 4));
    if tasks.len() > TASKS {
        let _ = writeln!(text, "  and {}", counted((tasks.len() - TASKS) as u64, "more task"));
    }
    let _ = writeln!(text, "\nlongest links, in order of time");
    let mut longest: Vec<&Link> = chain.links.iter().collect();
    longest.sort_by_key(|link| (std::cmp::Reverse(link.length()), link.from));
    longest.truncate(LINKS);
    longest.sort_by_key(|link| link.from);
    let rows = longest.iter().map(|link| {
        let cpu = link.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
        let what = match device(context, link) {
            Some(device) => escape(device).into_owned(),
            None => format!("{}{cpu}", kind_name(link.kind)),
        };
        [moment(link.from), link.length().to_string(), shorten(&task_name(context, link.task), 24), what]
    });
    text.push_str(&table(["at", "for", "task", "activity"], [14, 9, 24, 29], rows.collect(), 1));
    text
}

/// The device that a link waited for, if it is known.
fn device<'a>(context: &RunContext<'a>, link: &Link) -> Option<&'a str> {
    if link.kind == Kind::Device { context.timeline.device_at(link.task, link.from) } else { None }
}

fn share(part: Nanos, whole: Nanos) -> String {
    let permille = (u128::from(part.0) * 1000).checked_div(u128::from(whole.0)).unwrap_or(0);
    format!("{}.{} %", permille / 10, permille % 10)
}

/// The chain as JSON, with all links.
pub fn chain_json(context: &RunContext<'_>, chain: &Chain) -> Value {
    let sums: serde_json::Map<String, Value> =
        Kind::ALL.iter().map(|&kind| (format!("{}_ns", kind_key(kind)), json!(chain.sum(kind).0))).collect();
    let tasks = chain.tasks().into_iter().map(|(task, times)| {
        let mut value = json!({ "task": task_json(context, task) });
        Kind::ALL.iter().zip(times).for_each(|(&kind, time)| value[format!("{}_ns", kind_key(kind))] = json!(time.0));
        value
    });
    let links = chain.links.iter().map(|link| {
        json!({
            "task": task_json(context, link.task),
            "from_ns": link.from.0,
            "to_ns": link.to.0,
            "kind": kind_key(link.kind),
            "cpu": link.cpu.map(|cpu| cpu.0),
            "handed_over": link.slept_before.is_some(),
            "slept_before_ns": link.slept_before.map(|slept| slept.0),
            "by_lock": link.by_lock,
            "device": device(context, link),
        })
    });
    let (handoffs, by_lock) = chain.handoffs();
    json!({
        "from_ns": chain.links.first().map(|link| link.from.0),
        "to_ns": chain.links.last().map(|link| link.to.0),
        "length_ns": chain.length().0,
        "sums": sums,
        "handovers": handoffs,
        "handovers_by_lock": by_lock,
        "tasks": tasks.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    })
}
