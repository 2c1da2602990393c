// SPDX-License-Identifier: GPL-2.0-only
//! A wait as a sentence, as text with details, and as JSON.

use crate::RunContext;
use crate::fair::{fair_cause, fair_json, fair_text};
use crate::words::{
    cpus_name, moment, order_name, others, queue_name, ran_instead, reason_key, site_json, site_name, suspect_sentence,
    task_json, task_name, wait_reason, wait_reason_key,
};
use comfy_table::{CellAlignment, Table, presets};
use ids::Nanos;
use report::{count, counted, wrap};
use serde_json::{Value, json};
use std::fmt::Write;
use timeline::{Account, Departure, QueueStay};

/// Number of rows in the table of the tasks that ran instead.
const RUNNERS: usize = 6;
/// Number of rows in the table of queues. A task that is re-enqueued often has hundreds.
const QUEUE_STAYS: usize = 8;
/// Number of suspects that are shown.
const SUSPECTS: usize = 5;

/// The wait in one sentence.
pub fn wait_sentence(context: &RunContext<'_>, account: &Account) -> String {
    let wait = &account.wait;
    let begun = format!(
        "{} waited {} for a CPU from {} on, {}",
        task_name(context, wait.task),
        wait.length(),
        moment(wait.from),
        wait_reason(context, wait)
    );
    let ended = if wait.got.is_none() { ", and got none" } else { "" };
    let cause = match account.suspects.first() {
        Some(suspect) => format!(": {}", suspect_sentence(context, account, suspect)),
        None => fair_cause(context, account).map_or_else(String::new, |cause| format!(": {cause}")),
    };
    let held_by_higher = matches!(account.suspects.first(), Some(first) if first.site.op == 0);
    let instead = match account.runners.first() {
        Some(_) if held_by_higher => String::new(),
        Some(runner) if runner.ran.0 * 10 >= wait.length().0 => format!("; {}", ran_instead(context, runner)),
        _ if account.idle.0 * 2 >= wait.length().0 => {
            format!("; {} idle for {}", cpus_name(&account.idle_cpus), account.idle)
        }
        _ => String::new(),
    };
    format!("{begun}{ended}{cause}{instead}.")
}

/// The sentence and its details. With a time `at` within the wait, also the position in the queue at that time.
pub fn wait_text(context: &RunContext<'_>, account: &Account, at: Option<Nanos>) -> String {
    let wait = &account.wait;
    let mut text = wrap("", &wait_sentence(context, account)) + "\n";
    if let Some(at) = at {
        say(&mut text, "", &position_sentence(context, account, at));
    }
    if let Some(words) = previous_wait(context, account) {
        say(&mut text, "", &words);
    }
    if context.timeline.sees_queues {
        say(&mut text, "", "\nqueues");
        let stands: Vec<[String; 5]> =
            account.queue_stays.iter().take(QUEUE_STAYS).map(|stand| queue_stay_row(context, account, stand)).collect();
        text.push_str(&table(["after", "for", "queue", "position", "inserted by"], [9, 9, 18, 12, 26], stands, 1));
        if account.queue_stays.len() > QUEUE_STAYS {
            let more = counted((account.queue_stays.len() - QUEUE_STAYS) as u64, "more queue stay");
            let _ = writeln!(text, "  {more} followed");
        }
    }
    let fair = context.timeline.fair_account(wait);
    if let Some(fair) = &fair {
        text.push_str(&fair_text(context, fair));
    } else if !context.timeline.sees_queues && !context.timeline.sees_fair {
        say(&mut text, "", "\nqueues and responsible callbacks");
        say(&mut text, "  ", "unknown: only a simulated run shows them");
    }
    let _ = writeln!(text, "\ntasks that ran instead on {}", cpus_name(&account.allowed));
    let runners = account.runners.iter().take(RUNNERS).map(|runner| {
        let turns = count(runner.turns.into());
        let by = if runner.site.op == 0 { "-".to_owned() } else { site_name(context, runner.site) };
        [task_name(context, runner.task), runner.ran.to_string(), turns, order_name(runner.order).to_owned(), by]
    });
    let header = ["task", "ran", "times", "order", "CPU given by"];
    text.push_str(&table(header, [21, 9, 7, 13, 24], runners.collect(), 2));
    if account.runners.len() > RUNNERS {
        let rest: u64 = account.runners[RUNNERS..].iter().map(|runner| runner.ran.0).sum();
        say(
            &mut text,
            "  ",
            &format!("{} more tasks ran for {}", count((account.runners.len() - RUNNERS) as u64), Nanos(rest)),
        );
    }
    say(&mut text, "  ", &idle_line(account));
    match account.suspects.first() {
        Some(first) if first.site.op == 0 => say(&mut text, "", "\nno callback is responsible"),
        Some(_) => say(&mut text, "", "\nresponsible callbacks, most likely first"),
        None => {}
    }
    for (number, suspect) in (1..).zip(account.suspects.iter().take(SUSPECTS)) {
        say(&mut text, "  ", &format!("{number}. {}", suspect_sentence(context, account, suspect)));
        let line = site_json(context, suspect.site);
        if let Some(line) = line["text"].as_str() {
            let _ = writeln!(text, "       {}", shorten(&report::escape(line), 72));
        }
    }
    text
}

/// Adds a line, wrapped to several if it is long.
fn say(text: &mut String, first: &str, line: &str) {
    text.push_str(&wrap(first, line));
    text.push('\n');
}

/// Position of the task in its queue at a time within its wait.
fn position_sentence(context: &RunContext<'_>, account: &Account, at: Nanos) -> String {
    let stand = account.queue_stays.iter().rev().find(|stand| stand.from <= at && at <= stand.to);
    let head = format!("At {}", moment(at));
    match stand {
        None if !context.timeline.sees_queues => format!("{head} its queue is unknown."),
        None => format!("{head} it was in no known queue."),
        Some(QueueStay { queue: None, site, .. }) => {
            format!("{head} it was in no queue: {} had not inserted it.", site_name(context, *site))
        }
        Some(stand) => {
            let queue = queue_name(stand.queue.expect("the other case was above"));
            let place = context.timeline.position_at(stand, account.wait.task, at);
            let place = place.map_or(String::new(), |place| format!(" behind {}", others(place as u32)));
            format!("{head} it was in {queue}{place}, inserted by {}.", site_name(context, stand.site))
        }
    }
}

/// What the task had waited for before, if it was another task.
fn previous_wait(context: &RunContext<'_>, account: &Account) -> Option<String> {
    let waits = &context.timeline.task(account.wait.task).task_waits;
    let last = waits.iter().rev().find(|wait| wait.to == Some(account.wait.from))?;
    let slept = account.wait.from.since(last.from);
    let held = last.holder.map_or_else(String::new, |task| format!(", held by {}", task_name(context, task)));
    Some(format!("Before that it had waited {slept} for {}{held}.", report::escape(&last.object)))
}

fn queue_stay_row(context: &RunContext<'_>, account: &Account, stand: &QueueStay) -> [String; 5] {
    let wait = &account.wait;
    let (from, to) = (stand.from.max(wait.from), stand.to.min(wait.to));
    let place = stand.ahead.map_or("-".to_owned(), |ahead| format!("{} of {}", ahead + 1, stand.queued));
    let queue = stand.queue.map_or_else(|| "none".to_owned(), |queue| queue_name(queue).replace("the queue of ", ""));
    [from.since(wait.from).to_string(), to.since(from).to_string(), queue, place, site_name(context, stand.site)]
}

fn idle_line(account: &Account) -> String {
    let empty = match account.empty_dispatches {
        Some(0) | None => String::new(),
        Some(calls) => format!("; dispatch was called {} and found no task", counted(calls, "time")),
    };
    match account.idle {
        Nanos::ZERO => format!("none of them was idle meanwhile{empty}"),
        idle => format!("{} idle for {idle} meanwhile{empty}", cpus_name(&account.idle_cpus)),
    }
}

/// The breakdown as JSON. With a time `at` within the wait, also the position in the queue at that time.
pub fn wait_json(context: &RunContext<'_>, account: &Account, at: Option<Nanos>) -> Value {
    let wait = &account.wait;
    let stand = |stand: &QueueStay| {
        let mut value = site_json(context, stand.site);
        let ahead_at = at
            .filter(|&at| stand.from <= at && at <= stand.to)
            .and_then(|at| context.timeline.position_at(stand, wait.task, at));
        let (departure, cpu) = match stand.departure {
            Departure::StillQueued => ("stands", None),
            Departure::Ran => ("ran", None),
            Departure::Dispatched { to, .. } => ("dispatched", Some(to.0)),
            Departure::Moved => ("moved", None),
        };
        value["queue"] = json!(stand.queue.map(|queue| queue.to_string()));
        value["from_ns"] = json!(stand.from.0);
        value["to_ns"] = json!(stand.to.0);
        value["key"] = json!(stand.key);
        value["slice_ns"] = json!(stand.slice_ns);
        value["key_by"] = json!(stand.key_by.and_then(|site| event_log::op_name(site.op)));
        value["slice_by"] = json!(stand.slice_by.and_then(|site| event_log::op_name(site.op)));
        value["ahead"] = json!(stand.ahead);
        value["queued"] = json!((stand.queued > 0).then_some(stand.queued));
        value["ahead_at"] = json!(ahead_at);
        value["departure"] = json!(departure);
        value["to_cpu"] = json!(cpu);
        value
    };
    let runners = account.runners.iter().map(|runner| {
        let mut value = site_json(context, runner.site);
        value["task"] = task_json(context, runner.task);
        value["ran_ns"] = json!(runner.ran.0);
        value["turns"] = json!(runner.turns);
        value["cpus"] = json!(runner.cpus.to_string());
        value["came"] = json!(order_name(runner.order).replace(' ', "_"));
        value["slice_ns"] = json!(runner.slice_ns);
        value
    });
    let suspects = account.suspects.iter().map(|suspect| {
        let mut value = site_json(context, suspect.site);
        value["reason"] = json!(reason_key(suspect.reason));
        value["sentence"] = json!(suspect_sentence(context, account, suspect));
        value
    });
    json!({
        "task": task_json(context, wait.task),
        "from_ns": wait.from.0,
        "to_ns": wait.to.0,
        "wait_ns": wait.length().0,
        "since": wait_reason_key(wait),
        "got_cpu": wait.got.map(|cpu| cpu.0),
        "cpus_allowed": account.allowed.to_string(),
        "sentence": wait_sentence(context, account),
        "queues_seen": context.timeline.sees_queues,
        "stands": account.queue_stays.iter().map(stand).collect::<Vec<_>>(),
        "runners": runners.collect::<Vec<_>>(),
        "idle_ns": account.idle.0,
        "idle_cpus": account.idle_cpus.to_string(),
        "empty_dispatches": account.empty_dispatches,
        "fair": context.timeline.fair_account(wait).map(|fair| fair_json(context, &fair)),
        "suspects": suspects.collect::<Vec<_>>(),
    })
}

/// A table without lines, indented by two spaces, with cells shortened to the widths of their columns. `numbers`
/// columns after the first are right-aligned.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    widths: [usize; N],
    rows: Vec<[String; N]>,
    numbers: usize,
) -> String {
    if rows.is_empty() {
        return "  none known\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    rows.iter().for_each(|row| {
        table.add_row(row.iter().zip(widths).map(|(cell, width)| shorten(cell, width)));
    });
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 1 }, 1));
        if (1..=numbers).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("  {}\n", line.trim_end())).collect()
}

/// Shortens a text to `width` characters, the last of which is then an ellipsis.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}
