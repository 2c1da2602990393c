// SPDX-License-Identifier: GPL-2.0-only
//! Text and JSON of an ejection: the kernel's message, its position in the scheduler's code, and the history of the
//! task that stalled.

use crate::RunContext;
use crate::events::{last_events, last_events_json};
use crate::wait::{wait_json, wait_text};
use crate::words::{suspect_sentence, task_name};
use ids::{Nanos, TaskId};
use report::{Exit, escape, wrap};
use serde_json::{Value, json};
use std::fmt::Write;
use timeline::{Account, Departure, Reason, Wait};

/// Number of events of the stalled task that are shown.
const EVENTS: usize = 12;
/// SCX_EXIT_ERROR_STALL.
const STALL: u32 = 1026;

/// The task that the kernel's message names, as in `hog-3[104] failed to run for 30.000s`.
fn named(context: &RunContext<'_>, exit: &Exit) -> Option<TaskId> {
    let tasks = || (0..).map(TaskId).zip(&context.timeline.tasks);
    let says = |name: &str, pid: u32| exit.message.contains(&format!("{name}[{pid}]"));
    // The kernel keeps 15 bytes of a name.
    let short = |name: &str| name.chars().take(15).collect::<String>();
    tasks().find(|(_, task)| says(&short(&task.info.name), task.info.pid)).map(|(id, _)| id)
}

/// The longest wait of a task. For the stalled task it is the stall, which is longer than the scheduler's timeout;
/// the task may have waited again while the scheduler was being disabled.
fn stalled_wait(context: &RunContext<'_>, task: TaskId) -> Option<Account> {
    let wait = context.timeline.waits_of(task).max_by_key(|wait| wait.length())?;
    Some(context.timeline.account(wait))
}

/// The task that the ejection is about: the one that the message names or, for a stall whose message names none
/// (`watchdog failed to check in`), the one whose wait at the end of the run had begun first.
fn concerned(context: &RunContext<'_>, exit: &Exit) -> Option<TaskId> {
    let open = |wait: &Wait| wait.got.is_none() && wait.to == context.timeline.end;
    let stalled = || context.timeline.longest_waits(1, open).first().map(|wait| wait.task);
    named(context, exit).or_else(|| (exit.kind == STALL).then(stalled).flatten())
}

/// A sentence on why the stalled task did not run.
fn verdict(context: &RunContext<'_>, account: &Account) -> Option<String> {
    let name = task_name(context, account.wait.task);
    let nowhere = account.longest_queue_stay().is_some_and(|stay| stay.queue.is_none());
    if let Some(first) = account.suspects.first().filter(|_| !nowhere)
        && (account.idle.0 * 2 >= account.wait.length().0
            || matches!(first.reason, Reason::UnservedQueue { .. } | Reason::HigherClass { .. }))
    {
        return Some(format!("Why {name} did not run: {}.", suspect_sentence(context, account, first)));
    }
    let last = account.longest_queue_stay()?;
    Some(match last.departure {
        _ if nowhere => {
            format!(
                "enqueue was called for {name} and inserted it into no queue, and the scheduler did not dispatch it later."
            )
        }
        Departure::StillQueued | Departure::Moved | Departure::Ran => {
            let queue = crate::words::queue_name(last.queue.expect("checked"));
            let by = crate::words::site_name(context, last.site);
            format!("{by} inserted {name} into {queue}, and the scheduler did not dispatch it from there in time.")
        }
        Departure::Dispatched { .. } => format!("{name} was queued and dispatched too late."),
    })
}

/// The ejection as text; `with_dump` adds the kernel's dump.
pub fn ejection_text(context: &RunContext<'_>, exit: &Exit, with_dump: bool) -> String {
    let mut text = String::new();
    let mut say = |line: &str| {
        let _ = writeln!(text, "{}", wrap("", line));
    };
    // A real kernel does not report the time; the ejection was observed a moment later.
    let at = if context.timeline.sees_queues { "at" } else { "at the latest at" };
    say(&format!("Ejected {at} {}: {}", crate::words::moment(context.timeline.end), escape(&exit.reason)));
    exit.message.lines().for_each(|line| say(&format!("  {}", escape(line))));
    if let Some(fault) = &exit.fault {
        say(&format!("  BPF fault: {}", escape(fault)));
    }
    let place = exit.place();
    if !place.is_empty() {
        say(&format!("  in {}", escape(&place)));
        let line = exit.file.as_ref().zip(exit.line).and_then(|(file, line)| context.source.text(file, line));
        if let Some(line) = line {
            say(&format!("     {}", escape(line)));
        }
    } else if exit.kind != STALL {
        say("  position in the scheduler's code unknown");
    }
    if let Some(task) = concerned(context, exit) {
        let account = stalled_wait(context, task);
        if exit.kind == STALL
            && let Some(verdict) = account.as_ref().and_then(|account| verdict(context, account))
        {
            say("");
            say(&verdict);
        }
        if let Some(account) = account.filter(|_| exit.kind == STALL) {
            say("");
            text.push_str(&wait_text(context, &account, None));
        }
        let _ = writeln!(text, "\nlast events of {}", task_name(context, task));
        last_events(context, task, EVENTS).iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    if with_dump {
        match exit.dump.trim_end() {
            "" => text.push_str("\nthe kernel wrote no dump\n"),
            dump => {
                text.push_str("\nkernel dump\n");
                dump.lines().for_each(|line| {
                    let _ = writeln!(text, "{}", escape(line));
                });
            }
        }
    }
    text
}

/// The ejection as JSON.
pub fn ejection_json(context: &RunContext<'_>, exit: &Exit) -> Value {
    let task = concerned(context, exit);
    let account = task.filter(|_| exit.kind == STALL).and_then(|task| stalled_wait(context, task));
    let text = exit.file.as_ref().zip(exit.line).and_then(|(file, line)| context.source.text(file, line));
    json!({
        "at_ns": context.timeline.end.0,
        "exit": exit,
        "text": text,
        "task": task.map(|task| crate::words::task_json(context, task)),
        "verdict": account.as_ref().and_then(|account| verdict(context, account)),
        "wait": account.as_ref().map(|account| wait_json(context, account, None::<Nanos>)),
        "events": task.map(|task| last_events_json(context, task, EVENTS)),
    })
}
