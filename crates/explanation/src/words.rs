// SPDX-License-Identifier: GPL-2.0-only
//! What tasks, queues, callbacks and reasons are called.

use crate::Story;
use event_log::{CallbackSite, SwitchReason, Waker, op_name};
use ids::{CpuSet, DsqId, Nanos, TaskId};
use report::{count, counted, escape};
use serde_json::{Value, json};
use timeline::{Account, Order, Reason, Runner, Suspect, Wait, Why};

/// `cc1[131]`, as the kernel calls a task.
pub fn task_name(story: &Story<'_>, task: TaskId) -> String {
    match task.some().and_then(|task| story.timeline.tasks.get(task.index())) {
        Some(task) => format!("{}[{}]", escape(&task.info.name), task.info.pid),
        None => "tasks outside the run".to_owned(),
    }
}

pub(crate) fn task_json(story: &Story<'_>, task: TaskId) -> Value {
    match task.some().and_then(|task| story.timeline.tasks.get(task.index())) {
        Some(found) => json!({ "id": task.0, "pid": found.info.pid, "name": found.info.name }),
        None => Value::Null,
    }
}

/// `the queue of CPU 3`, `queue 0x1`.
pub fn queue_name(queue: DsqId) -> String {
    match queue {
        DsqId::GLOBAL => "the global queue".to_owned(),
        DsqId::BYPASS => "the kernel's queue for bypass".to_owned(),
        queue => match queue.local_cpu() {
            Some(cpu) => format!("the queue of CPU {cpu}"),
            None => format!("queue {queue}"),
        },
    }
}

/// `CPU 3`, `CPUs 0-2`.
pub(crate) fn cpus_name(cpus: &CpuSet) -> String {
    format!("CPU{} {cpus}", if cpus.len() == 1 { "" } else { "s" })
}

/// A time of the run to the microsecond: `1.234567 s`.
pub(crate) fn moment(time: Nanos) -> String {
    let us = time.0 / 1_000;
    format!("{}.{:06} s", us / 1_000_000, us % 1_000_000)
}

/// File and line of a site: those of the call that it made, else those where the callback begins.
pub(crate) fn place(story: &Story<'_>, site: CallbackSite) -> Option<(String, u32)> {
    match story.timeline.file(site) {
        Some(file) => Some((file.to_owned(), site.line)),
        None => story.source.callback(site)?.place.clone(),
    }
}

/// `enqueue (bfs.bpf.c:212)`, or `the kernel`.
pub(crate) fn site_name(story: &Story<'_>, site: CallbackSite) -> String {
    let Some(op) = op_name(site.op) else { return "the kernel".to_owned() };
    let op = match op {
        "timer" => "a timer's callback",
        "program" => "a program that its user called",
        _ => op,
    };
    match place(story, site) {
        Some((file, line)) => format!("{op} ({}:{line})", escape(&file)),
        None => op.to_owned(),
    }
}

/// Op, function, file, line and text of a site.
pub(crate) fn site_json(story: &Story<'_>, site: CallbackSite) -> Value {
    let place = place(story, site);
    let text = place.as_ref().and_then(|(file, line)| story.source.text(file, *line));
    let (file, line) = place.clone().unzip();
    json!({
        "op": op_name(site.op),
        "function": story.source.callback(site).map(|callback| &callback.function),
        "file": file,
        "line": line,
        "text": text,
    })
}

/// Why it began, as a clause: `after make[101] woke it`.
pub(crate) fn why(story: &Story<'_>, wait: &Wait) -> String {
    match wait.why {
        Why::Woken { waker, .. } => match waker {
            Waker::Task(task) => format!("after {} woke it", task_name(story, task)),
            Waker::Fork(task) => format!("after {} made it", task_name(story, task)),
            Waker::Timer => "after its timer rang".to_owned(),
            Waker::Interrupt => "after a device woke it".to_owned(),
            Waker::External => "after something outside woke it".to_owned(),
        },
        Why::Lost { reason, cpu } => match reason {
            SwitchReason::SliceEnd => format!("after its slice on CPU {cpu} ended"),
            SwitchReason::Preempt => format!("after it lost CPU {cpu}"),
            SwitchReason::Yield => format!("after it gave up CPU {cpu} itself"),
            SwitchReason::HigherClass => format!("after a higher class took CPU {cpu}"),
            SwitchReason::Change | SwitchReason::Idle | SwitchReason::Block | SwitchReason::Exit => {
                format!("after a change took it from CPU {cpu}")
            }
        },
    }
}

/// The word of the JSON for what a wait began with.
pub(crate) fn why_word(wait: &Wait) -> &'static str {
    match wait.why {
        Why::Woken { waker, .. } => match waker {
            Waker::Task(_) => "woken",
            Waker::Fork(_) => "forked",
            Waker::Timer => "timer",
            Waker::Interrupt => "interrupt",
            Waker::External => "external",
        },
        Why::Lost { reason, .. } => match reason {
            SwitchReason::SliceEnd => "slice_end",
            SwitchReason::Preempt => "preempt",
            SwitchReason::Yield => "yield",
            SwitchReason::HigherClass => "higher_class",
            SwitchReason::Change | SwitchReason::Idle | SwitchReason::Block | SwitchReason::Exit => "change",
        },
    }
}

/// What a suspect did, as a clause: `enqueue (bfs.bpf.c:212) put it behind 3 others`.
pub fn suspect_sentence(story: &Story<'_>, account: &Account, suspect: &Suspect) -> String {
    let site = site_name(story, suspect.site);
    let longest = || account.longest_runner().map_or_else(String::new, |runner| task_name(story, runner.task));
    match suspect.reason {
        Reason::PutNowhere => format!("{site} was called and put it nowhere"),
        Reason::PutOnCpu { cpu, idle: Nanos::ZERO } => format!("{site} put it into the queue of CPU {cpu}"),
        Reason::PutOnCpu { cpu, idle } => {
            format!("{site} put it into the queue of CPU {cpu}, while others idled for {idle}")
        }
        Reason::LeftIdle { calls } => {
            format!("{site} was called {} for idle CPUs and brought nothing", times(calls))
        }
        Reason::MissedIdle { cpu } => format!("{site} chose another CPU than CPU {cpu}, which idled"),
        Reason::WokeNobody => format!("{site} queued it and woke no idle CPU"),
        Reason::PassedOver { tasks } => format!("{site} took {} from behind it", counted(tasks, "task")),
        Reason::TookOthers { tasks } => {
            format!("{site} took {} from other queues that had come later", counted(tasks, "task"))
        }
        Reason::KeptBusy { calls } => {
            format!("{site} was called {} for busy CPUs and left them to whoever ran", times(calls))
        }
        Reason::PreemptedNobody => format!("{site} queued it while all CPUs were busy, and preempted nobody"),
        Reason::Overtaken { tasks: 1 } => format!("{site} gave it a place behind one task that came later"),
        Reason::Overtaken { tasks } => format!("{site} gave it a place behind {} tasks that came later", count(tasks)),
        Reason::Behind { tasks: Some(tasks) } => format!("{site} put it behind {}", others(tasks)),
        Reason::Behind { tasks: None } => format!("{site} put it behind others"),
        Reason::ComputedKey => format!("{site} had computed its place in the order"),
        Reason::ComputedSlice { slice_ns } => {
            format!("{site} had computed {}, for {}", slice_name(slice_ns), longest())
        }
        Reason::LongSlice { slice_ns } => {
            format!("{site} gave {}, which ran longest, {}", longest(), slice_name(slice_ns))
        }
        Reason::TookCpu => format!("{site} took its CPU away"),
        Reason::ShortSlice { slice_ns } => format!("{site} had given it {}", slice_name(slice_ns)),
        Reason::RanOther => format!("{site} gave a CPU to {}, which ran longest", longest()),
    }
}

/// The word of the JSON for a reason.
pub(crate) fn reason_word(reason: Reason) -> &'static str {
    match reason {
        Reason::PutNowhere => "put_nowhere",
        Reason::PutOnCpu { .. } => "put_on_cpu",
        Reason::LeftIdle { .. } => "left_idle",
        Reason::WokeNobody => "woke_nobody",
        Reason::MissedIdle { .. } => "missed_idle",
        Reason::PassedOver { .. } => "passed_over",
        Reason::TookOthers { .. } => "took_others",
        Reason::KeptBusy { .. } => "kept_busy",
        Reason::PreemptedNobody => "preempted_nobody",
        Reason::Overtaken { .. } => "overtaken",
        Reason::Behind { .. } => "behind",
        Reason::ComputedKey => "computed_key",
        Reason::ComputedSlice { .. } => "computed_slice",
        Reason::LongSlice { .. } => "long_slice",
        Reason::TookCpu => "took_cpu",
        Reason::ShortSlice { .. } => "short_slice",
        Reason::RanOther => "ran_other",
    }
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        number => format!("{} times", count(number)),
    }
}

pub(crate) fn others(number: u32) -> String {
    match number {
        0 => "nobody".to_owned(),
        1 => "one other".to_owned(),
        number => format!("{} others", count(number.into())),
    }
}

/// `a slice of 6.00 ms`.
pub(crate) fn slice_name(slice_ns: u64) -> String {
    match slice_ns {
        u64::MAX => "a slice without end".to_owned(),
        slice_ns => format!("a slice of {}", Nanos(slice_ns)),
    }
}

/// How somebody who ran came before.
pub(crate) fn order_name(order: Order) -> &'static str {
    match order {
        Order::Before => "ran already",
        Order::Ahead => "waited longer",
        Order::Overtook => "came later",
        Order::Unseen => "not seen",
    }
}

/// Who ran longest, in a clause: `cc1[130] ran for 6.00 ms on CPU 2 instead`.
pub(crate) fn ran_instead(story: &Story<'_>, runner: &Runner) -> String {
    format!("{} ran for {} on {}", task_name(story, runner.task), runner.ran, cpus_name(&runner.cpus))
}
