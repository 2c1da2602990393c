// SPDX-License-Identifier: GPL-2.0-only
//! Why a scheduler was ejected: what the kernel said, where in its code that was, and what it did with the task that
//! stalled.

use crate::Story;
use crate::events::{last_events, last_events_json};
use crate::wait::{wait_json, wait_text};
use crate::words::task_name;
use ids::{Nanos, TaskId};
use report::{Exit, escape, wrap};
use serde_json::{Value, json};
use std::fmt::Write;
use timeline::{Account, Departure};

/// Events of the stalled task that are shown.
const EVENTS: usize = 12;
/// SCX_EXIT_ERROR_STALL.
const STALL: u32 = 1026;

/// The task that the kernel's message names: `hog-3[104] failed to run for 30.000s`.
fn named(story: &Story<'_>, exit: &Exit) -> Option<TaskId> {
    let tasks = || (0..).map(TaskId).zip(&story.timeline.tasks);
    let says = |name: &str, pid: u32| exit.message.contains(&format!("{name}[{pid}]"));
    // The kernel keeps 15 bytes of a name.
    let short = |name: &str| name.chars().take(15).collect::<String>();
    tasks().find(|(_, task)| says(&short(&task.info.name), task.info.pid)).map(|(id, _)| id)
}

/// The longest wait of a task: that of the stall, which is longer than the scheduler's timeout. It may have waited once
/// more since, while the scheduler was being taken away.
fn stalled_wait(story: &Story<'_>, task: TaskId) -> Option<Account> {
    let wait = story.timeline.waits_of(task).max_by_key(|wait| wait.length())?;
    Some(story.timeline.account(wait))
}

/// What became of a stalled task, in a sentence.
fn verdict(story: &Story<'_>, account: &Account) -> Option<String> {
    let last = account.longest_stand()?;
    let name = task_name(story, account.wait.task);
    let nowhere = last.queue.is_none();
    Some(match last.departure {
        _ if nowhere => {
            format!("For {name} enqueue was called and put it nowhere; nothing of the scheduler took it up after that.")
        }
        Departure::Stands | Departure::Moved | Departure::Ran => {
            let queue = crate::words::queue_name(last.queue.expect("checked"));
            let by = crate::words::site_name(story, last.site);
            format!("{by} put {name} into {queue}, and nothing of the scheduler took it from there in time.")
        }
        Departure::Dispatched { .. } => format!("{name} stood in a queue and was dispatched too late."),
    })
}

/// All that is known of an ejection; `with_dump` adds the kernel's dump.
pub fn ejection_text(story: &Story<'_>, exit: &Exit, with_dump: bool) -> String {
    let mut text = String::new();
    let mut say = |line: &str| {
        let _ = writeln!(text, "{}", wrap("", line));
    };
    // A real kernel does not tell when: the run was seen to end a moment later.
    let at = if story.timeline.sees_queues { "at" } else { "at the latest at" };
    say(&format!("Ejected {at} {}: {}", crate::words::moment(story.timeline.end), escape(&exit.reason)));
    exit.message.lines().for_each(|line| say(&format!("  {}", escape(line))));
    if let Some(fault) = &exit.fault {
        say(&format!("  BPF fault: {}", escape(fault)));
    }
    let place = exit.place();
    if !place.is_empty() {
        say(&format!("  in {}", escape(&place)));
        let line = exit.file.as_ref().zip(exit.line).and_then(|(file, line)| story.source.text(file, line));
        if let Some(line) = line {
            say(&format!("     {}", escape(line)));
        }
    } else if exit.kind != STALL {
        say("  where in the scheduler's code was not seen");
    }
    if let Some(task) = named(story, exit) {
        let account = stalled_wait(story, task);
        if exit.kind == STALL
            && let Some(verdict) = account.as_ref().and_then(|account| verdict(story, account))
        {
            say("");
            say(&verdict);
        }
        if let Some(account) = account.filter(|_| exit.kind == STALL) {
            say("");
            text.push_str(&wait_text(story, &account, None));
        }
        let _ = writeln!(text, "\nthe last events of {}", task_name(story, task));
        last_events(story, task, EVENTS).iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    if with_dump {
        match exit.dump.trim_end() {
            "" => text.push_str("\nthe kernel made no dump\n"),
            dump => {
                text.push_str("\nthe kernel's dump\n");
                dump.lines().for_each(|line| {
                    let _ = writeln!(text, "{}", escape(line));
                });
            }
        }
    }
    text
}

/// The same as JSON.
pub fn ejection_json(story: &Story<'_>, exit: &Exit) -> Value {
    let task = named(story, exit);
    let account = task.filter(|_| exit.kind == STALL).and_then(|task| stalled_wait(story, task));
    let text = exit.file.as_ref().zip(exit.line).and_then(|(file, line)| story.source.text(file, line));
    json!({
        "at_ns": story.timeline.end.0,
        "exit": exit,
        "text": text,
        "task": task.map(|task| crate::words::task_json(story, task)),
        "verdict": account.as_ref().and_then(|account| verdict(story, account)),
        "wait": account.as_ref().map(|account| wait_json(story, account, None::<Nanos>)),
        "events": task.map(|task| last_events_json(story, task, EVENTS)),
    })
}
