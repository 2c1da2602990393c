// SPDX-License-Identifier: GPL-2.0-only
//! One wait: a sentence, its details, and JSON.

use crate::Story;
use crate::words::{
    cpus_name, moment, order_name, others, queue_name, ran_instead, reason_word, site_json, site_name,
    suspect_sentence, task_json, task_name, why, why_word,
};
use comfy_table::{CellAlignment, Table, presets};
use ids::Nanos;
use report::{count, counted, wrap};
use serde_json::{Value, json};
use std::fmt::Write;
use timeline::{Account, Departure, Stand};

/// Rows of the table of those who ran instead.
const RUNNERS: usize = 6;
/// Rows of the table of queues: a task that is enqueued again and again has hundreds.
const STANDS: usize = 8;
/// Suspects that are named.
const SUSPECTS: usize = 5;

/// The wait in one sentence.
pub fn wait_sentence(story: &Story<'_>, account: &Account) -> String {
    let wait = &account.wait;
    let begun = format!(
        "{} waited {} for a CPU from {} on, {}",
        task_name(story, wait.task),
        wait.length(),
        moment(wait.from),
        why(story, wait)
    );
    let ended = if wait.got.is_none() { ", and got none" } else { "" };
    let cause = match account.suspects.first() {
        Some(suspect) => format!(": {}", suspect_sentence(story, account, suspect)),
        None => String::new(),
    };
    let instead = match account.runners.first() {
        Some(runner) if runner.ran.0 * 10 >= wait.length().0 => format!("; {}", ran_instead(story, runner)),
        _ if account.idle.0 * 2 >= wait.length().0 => {
            format!("; {} idled for {}", cpus_name(&account.idle_cpus), account.idle)
        }
        _ => String::new(),
    };
    format!("{begun}{ended}{cause}{instead}.")
}

/// The sentence and its details; with a time within the wait, where the task stood then.
pub fn wait_text(story: &Story<'_>, account: &Account, at: Option<Nanos>) -> String {
    let mut text = wrap("", &wait_sentence(story, account)) + "\n";
    if let Some(at) = at {
        say(&mut text, "", &stood_at(story, account, at));
    }
    if let Some(words) = waited_before(story, account) {
        say(&mut text, "", &words);
    }
    if story.timeline.sees_queues {
        say(&mut text, "", "\nwhere it stood");
        let stands: Vec<[String; 5]> =
            account.stands.iter().take(STANDS).map(|stand| stand_row(story, account, stand)).collect();
        text.push_str(&table(["after", "for", "where", "place", "put there by"], [9, 9, 18, 12, 26], stands, 1));
        if account.stands.len() > STANDS {
            let more = counted((account.stands.len() - STANDS) as u64, "more place");
            let _ = writeln!(text, "  {more} followed");
        }
    } else {
        say(&mut text, "", "\nwhere it stood, and whose doing that was");
        say(&mut text, "  ", "not seen: only a simulated run under a loaded scheduler tells it");
    }
    let _ = writeln!(text, "\nwho ran instead on {}", cpus_name(&account.allowed));
    let runners = account.runners.iter().take(RUNNERS).map(|runner| {
        let turns = count(runner.turns.into());
        let by = if runner.site.op == 0 { "-".to_owned() } else { site_name(story, runner.site) };
        [task_name(story, runner.task), runner.ran.to_string(), turns, order_name(runner.order).to_owned(), by]
    });
    let header = ["task", "ran", "turns", "it", "had its CPU by"];
    text.push_str(&table(header, [21, 9, 7, 13, 24], runners.collect(), 2));
    if account.runners.len() > RUNNERS {
        let rest: u64 = account.runners[RUNNERS..].iter().map(|runner| runner.ran.0).sum();
        say(
            &mut text,
            "  ",
            &format!("{} more ran for {}", count((account.runners.len() - RUNNERS) as u64), Nanos(rest)),
        );
    }
    say(&mut text, "  ", &idle_line(account));
    if !account.suspects.is_empty() {
        say(&mut text, "", "\nwhose doing it was, most likely first");
    }
    for (number, suspect) in (1..).zip(account.suspects.iter().take(SUSPECTS)) {
        say(&mut text, "  ", &format!("{number}. {}", suspect_sentence(story, account, suspect)));
        let line = site_json(story, suspect.site);
        if let Some(line) = line["text"].as_str() {
            let _ = writeln!(text, "       {}", shorten(&report::escape(line), 72));
        }
    }
    text
}

/// Adds a line, or several if it is long.
fn say(text: &mut String, first: &str, line: &str) {
    text.push_str(&wrap(first, line));
    text.push('\n');
}

/// Where the task stood at a time of its wait.
fn stood_at(story: &Story<'_>, account: &Account, at: Nanos) -> String {
    let stand = account.stands.iter().rev().find(|stand| stand.from <= at && at <= stand.to);
    let head = format!("At {}", moment(at));
    match stand {
        None if !story.timeline.sees_queues => format!("{head} it stood in a queue that was not seen."),
        None => format!("{head} it stood in no queue that was seen."),
        Some(Stand { queue: None, site, .. }) => {
            format!("{head} it stood in no queue: {} had put it nowhere.", site_name(story, *site))
        }
        Some(stand) => {
            let queue = queue_name(stand.queue.expect("the other case was above"));
            let place = story.timeline.place_at(stand, account.wait.task, at);
            let place = place.map_or(String::new(), |place| format!(" behind {}", others(place as u32)));
            format!("{head} it stood in {queue}{place}, where {} had put it.", site_name(story, stand.site))
        }
    }
}

/// What it had slept for, if that tells of another task.
fn waited_before(story: &Story<'_>, account: &Account) -> Option<String> {
    let words = &story.timeline.task(account.wait.task).words;
    let last = words.iter().rev().find(|words| words.to == Some(account.wait.from))?;
    let slept = account.wait.from.since(last.from);
    Some(format!("Before that it had waited {slept} for {}.", report::escape(&last.what)))
}

fn stand_row(story: &Story<'_>, account: &Account, stand: &Stand) -> [String; 5] {
    let wait = &account.wait;
    let (from, to) = (stand.from.max(wait.from), stand.to.min(wait.to));
    let place = stand.ahead.map_or("-".to_owned(), |ahead| format!("{} of {}", ahead + 1, stand.queued));
    let queue =
        stand.queue.map_or_else(|| "nowhere".to_owned(), |queue| queue_name(queue).replace("the queue of ", ""));
    [from.since(wait.from).to_string(), to.since(from).to_string(), queue, place, site_name(story, stand.site)]
}

fn idle_line(account: &Account) -> String {
    let empty = match account.empty_dispatches {
        Some(0) | None => String::new(),
        Some(calls) => format!("; dispatch was called {} and brought nothing", counted(calls, "time")),
    };
    match account.idle {
        Nanos::ZERO => format!("none of them idled meanwhile{empty}"),
        idle => format!("{} idled for {idle} meanwhile{empty}", cpus_name(&account.idle_cpus)),
    }
}

/// The account as JSON; with a time within the wait, the place in the queue then.
pub fn wait_json(story: &Story<'_>, account: &Account, at: Option<Nanos>) -> Value {
    let wait = &account.wait;
    let stand = |stand: &Stand| {
        let mut value = site_json(story, stand.site);
        let ahead_at = at
            .filter(|&at| stand.from <= at && at <= stand.to)
            .and_then(|at| story.timeline.place_at(stand, wait.task, at));
        let (departure, cpu) = match stand.departure {
            Departure::Stands => ("stands", None),
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
        let mut value = site_json(story, runner.site);
        value["task"] = task_json(story, runner.task);
        value["ran_ns"] = json!(runner.ran.0);
        value["turns"] = json!(runner.turns);
        value["cpus"] = json!(runner.cpus.to_string());
        value["came"] = json!(order_name(runner.order).replace(' ', "_"));
        value["slice_ns"] = json!(runner.slice_ns);
        value
    });
    let suspects = account.suspects.iter().map(|suspect| {
        let mut value = site_json(story, suspect.site);
        value["reason"] = json!(reason_word(suspect.reason));
        value["sentence"] = json!(suspect_sentence(story, account, suspect));
        value
    });
    json!({
        "task": task_json(story, wait.task),
        "from_ns": wait.from.0,
        "to_ns": wait.to.0,
        "wait_ns": wait.length().0,
        "since": why_word(wait),
        "got_cpu": wait.got.map(|cpu| cpu.0),
        "cpus_allowed": account.allowed.to_string(),
        "sentence": wait_sentence(story, account),
        "queues_seen": story.timeline.sees_queues,
        "stands": account.stands.iter().map(stand).collect::<Vec<_>>(),
        "runners": runners.collect::<Vec<_>>(),
        "idle_ns": account.idle.0,
        "idle_cpus": account.idle_cpus.to_string(),
        "empty_dispatches": account.empty_dispatches,
        "suspects": suspects.collect::<Vec<_>>(),
    })
}

/// A table without lines, two blanks from the margin, no cell wider than its column may be; of the columns behind the
/// first so many are of numbers.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    widths: [usize; N],
    rows: Vec<[String; N]>,
    numbers: usize,
) -> String {
    if rows.is_empty() {
        return "  nobody and nothing that was seen\n".to_owned();
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

/// At most so many characters; what is left out at the end is an ellipsis.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}
