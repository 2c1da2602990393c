// SPDX-License-Identifier: GPL-2.0-only
//! The last events of a task, a line each.

use crate::Story;
use crate::words::{moment, queue_name, site_name, slice_name, task_name};
use event_log::{DetailKind, Event, EventKind, KickFlags, SwitchReason, Waker};
use ids::{Nanos, TaskId};
use report::{escape, wrap};
use serde_json::{Value, json};
use timeline::Happening;

fn time(happening: &Happening) -> Nanos {
    match happening {
        Happening::Event(event) => event.time,
        Happening::Detail(detail) => detail.time,
    }
}

/// What happened to `task`, in words.
fn words(story: &Story<'_>, task: TaskId, happening: &Happening) -> String {
    match happening {
        Happening::Event(event) => event_words(story, task, event),
        Happening::Detail(detail) => match &detail.kind {
            DetailKind::Kept => format!("{} was called and put it nowhere", site_name(story, detail.site)),
            DetailKind::Waits { what, spins: true, .. } => format!("polls for {}", escape(what)),
            DetailKind::Waits { what, .. } => format!("wants {}", escape(what)),
            DetailKind::Placed { .. }
            | DetailKind::Left { .. }
            | DetailKind::Dispatched { .. }
            | DetailKind::Chose
            | DetailKind::Wrote { .. }
            | DetailKind::Passed => "moved in its queue".to_owned(),
        },
    }
}

fn event_words(story: &Story<'_>, task: TaskId, event: &Event) -> String {
    let site = || site_name(story, event.site);
    match event.kind {
        EventKind::Wakeup { waker, target, .. } => {
            let by = match waker {
                Waker::Task(other) => task_name(story, other),
                Waker::Timer => "a timer".to_owned(),
                Waker::Interrupt => "a device".to_owned(),
                Waker::Fork(parent) => format!("its parent {}", task_name(story, parent)),
                Waker::External => "something outside".to_owned(),
            };
            format!("woken by {by}, on CPU {target}")
        }
        EventKind::SelectCpu { prev, chosen } if event.site.op == 0 => {
            format!("CPU {chosen} chosen (it was on {prev})")
        }
        EventKind::SelectCpu { prev, chosen } => format!("{} chose CPU {chosen} (it was on {prev})", site()),
        EventKind::Insert { dsq, key, slice_ns } => {
            let key = if key == 0 { String::new() } else { format!(", key {key}") };
            format!("{} put it into {} with {}{key}", site(), queue_name(dsq), slice_name(slice_ns))
        }
        EventKind::Dispatch { from, to } => format!("{} took it from {} to CPU {to}", site(), queue_name(from)),
        EventKind::Switch { .. } if event.task == task => format!("runs on CPU {}", event.cpu),
        EventKind::Switch { reason, .. } => format!("leaves CPU {}: {}", event.cpu, reason_words(reason)),
        EventKind::Tick => format!("tick on CPU {}", event.cpu),
        EventKind::Kick { target, flags } if flags.0 & KickFlags::PREEMPT != 0 => {
            format!("CPU {target} kicked to preempt")
        }
        EventKind::Kick { target, .. } => format!("CPU {target} kicked"),
        EventKind::Migrate { from, to } => format!("goes from CPU {from} to CPU {to}"),
        EventKind::Block { cause } => format!("goes to sleep ({})", format!("{cause:?}").to_lowercase()),
        EventKind::Fork { child } => format!("makes {}", task_name(story, child)),
        EventKind::Exit => "ends".to_owned(),
        EventKind::Affinity => "its affinity changes".to_owned(),
        EventKind::Priority { nice } => format!("its nice value is {nice}"),
        EventKind::Yield => "yields".to_owned(),
        other => format!("{other:?}"),
    }
}

fn reason_words(reason: SwitchReason) -> &'static str {
    match reason {
        SwitchReason::Idle => "it was idle",
        SwitchReason::Block => "it sleeps",
        SwitchReason::Exit => "it ended",
        SwitchReason::Yield => "it yielded",
        SwitchReason::SliceEnd => "its slice ended",
        SwitchReason::Preempt => "it was preempted",
        SwitchReason::HigherClass => "a higher class came",
        SwitchReason::Change => "it was changed",
    }
}

/// The last `count` of them but ticks, as lines.
pub(crate) fn last_events(story: &Story<'_>, task: TaskId, count: usize) -> Vec<String> {
    let line = |happening: &&Happening| {
        let words = words(story, task, happening);
        wrap("  ", &format!("{}  {words}", moment(time(happening))))
    };
    shown(story, task, count).iter().map(line).collect()
}

/// The same as JSON.
pub(crate) fn last_events_json(story: &Story<'_>, task: TaskId, count: usize) -> Value {
    let value =
        |happening: &&Happening| json!({ "time_ns": time(happening).0, "sentence": words(story, task, happening) });
    shown(story, task, count).iter().map(value).collect()
}

fn shown<'a>(story: &Story<'a>, task: TaskId, count: usize) -> Vec<&'a Happening> {
    let is_tick = |happening: &&Happening| matches!(happening, Happening::Event(Event { kind: EventKind::Tick, .. }));
    let all: Vec<&Happening> = story.timeline.task(task).last.iter().filter(|happening| !is_tick(happening)).collect();
    all[all.len().saturating_sub(count)..].to_vec()
}
