// SPDX-License-Identifier: GPL-2.0-only
//! The last events of a task, one per line.

use crate::RunContext;
use crate::words::{moment, queue_name, site_name, slice_name, task_name};
use event_log::{DetailKind, Event, EventKind, KickFlags, SwitchReason, Waker};
use ids::{Nanos, TaskId};
use report::{escape, wrap};
use serde_json::{Value, json};
use timeline::TaskEvent;

fn time(event: &TaskEvent) -> Nanos {
    match event {
        TaskEvent::Event(event) => event.time,
        TaskEvent::Detail(detail) => detail.time,
    }
}

/// Description of an event of `task`.
fn words(context: &RunContext<'_>, task: TaskId, event: &TaskEvent) -> String {
    match event {
        TaskEvent::Event(event) => event_words(context, task, event),
        TaskEvent::Detail(detail) => match &detail.kind {
            DetailKind::Kept => format!("{} was called and inserted it into no queue", site_name(context, detail.site)),
            DetailKind::Reloads { time, what } => format!("reloads {time}: {}", escape(what)),
            DetailKind::Waits { what, holder, spins, .. } => {
                let held = holder.map_or_else(String::new, |task| format!(", held by {}", task_name(context, task)));
                format!("{} for {}{held}", if *spins { "spins" } else { "waits" }, escape(what))
            }
            DetailKind::Placed { .. }
            | DetailKind::Left { .. }
            | DetailKind::Dispatched { .. }
            | DetailKind::Chose
            | DetailKind::Wrote { .. }
            | DetailKind::Fair(_)
            | DetailKind::NewidleSkipped { .. }
            | DetailKind::Device { .. }
            | DetailKind::Passed => "moved in its queue".to_owned(),
        },
    }
}

fn event_words(context: &RunContext<'_>, task: TaskId, event: &Event) -> String {
    let site = || site_name(context, event.site);
    match event.kind {
        EventKind::Wakeup { waker, target, .. } => {
            let by = match waker {
                Waker::Task(other) => task_name(context, other),
                Waker::Timer => "a timer".to_owned(),
                Waker::Interrupt => "a device".to_owned(),
                Waker::Fork(parent) => format!("its parent {}", task_name(context, parent)),
                Waker::External => "an outside event".to_owned(),
            };
            format!("woken by {by}, on CPU {target}")
        }
        EventKind::SelectCpu { prev, chosen } if event.site.op == 0 => {
            format!("CPU {chosen} chosen (previously on {prev})")
        }
        EventKind::SelectCpu { prev, chosen } => format!("{} chose CPU {chosen} (previously on {prev})", site()),
        EventKind::Insert { dsq, key, slice_ns } => {
            let key = if key == 0 { String::new() } else { format!(", key {key}") };
            format!("{} inserted it into {} with {}{key}", site(), queue_name(dsq), slice_name(slice_ns))
        }
        EventKind::Dispatch { from, to } => format!("{} dispatched it from {} to CPU {to}", site(), queue_name(from)),
        EventKind::Switch { .. } if event.task == task => format!("runs on CPU {}", event.cpu),
        EventKind::Switch { reason, .. } => format!("leaves CPU {}: {}", event.cpu, reason_words(reason)),
        EventKind::Tick => format!("tick on CPU {}", event.cpu),
        EventKind::Kick { target, flags } if flags.0 & KickFlags::PREEMPT != 0 => {
            format!("CPU {target} kicked to preempt")
        }
        EventKind::Kick { target, .. } => format!("CPU {target} kicked"),
        EventKind::Migrate { from, to } => format!("migrates from CPU {from} to CPU {to}"),
        EventKind::Block { cause } => format!("goes to sleep ({})", format!("{cause:?}").to_lowercase()),
        EventKind::Fork { child } => format!("forks {}", task_name(context, child)),
        EventKind::Exit => "exits".to_owned(),
        EventKind::Affinity => "its affinity changes".to_owned(),
        EventKind::Priority { nice } => format!("its nice value is {nice}"),
        EventKind::Yield => "yields".to_owned(),
        other => format!("{other:?}"),
    }
}

fn reason_words(reason: SwitchReason) -> &'static str {
    match reason {
        SwitchReason::Idle => "the CPU was idle",
        SwitchReason::Block => "it blocks",
        SwitchReason::Exit => "it exited",
        SwitchReason::Yield => "it yielded",
        SwitchReason::SliceEnd => "its slice ended",
        SwitchReason::Preempt => "it was preempted",
        SwitchReason::HigherClass => "a higher class preempted it",
        SwitchReason::Change => "it was moved, or its class, affinity or scheduler changed",
    }
}

/// The last `count` events other than ticks, as lines.
pub(crate) fn last_events(context: &RunContext<'_>, task: TaskId, count: usize) -> Vec<String> {
    let line = |event: &&TaskEvent| {
        let words = words(context, task, event);
        wrap("  ", &format!("{}  {words}", moment(time(event))))
    };
    shown(context, task, count).iter().map(line).collect()
}

/// The last `count` events other than ticks, as JSON.
pub(crate) fn last_events_json(context: &RunContext<'_>, task: TaskId, count: usize) -> Value {
    let value = |event: &&TaskEvent| json!({ "time_ns": time(event).0, "sentence": words(context, task, event) });
    shown(context, task, count).iter().map(value).collect()
}

fn shown<'a>(context: &RunContext<'a>, task: TaskId, count: usize) -> Vec<&'a TaskEvent> {
    let is_tick = |event: &&TaskEvent| matches!(event, TaskEvent::Event(Event { kind: EventKind::Tick, .. }));
    let all: Vec<&TaskEvent> = context.timeline.task(task).last.iter().filter(|event| !is_tick(event)).collect();
    all[all.len().saturating_sub(count)..].to_vec()
}
