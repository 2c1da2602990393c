// SPDX-License-Identifier: GPL-2.0-only
//! Names of tasks, queues, callbacks and reasons.

use crate::RunContext;
use event_log::{CallbackSite, SwitchReason, Waker, op_name};
use ids::{CpuSet, DsqId, Nanos, Policy, TaskId};
use report::{count, counted, escape};
use serde_json::{Value, json};
use timeline::{Account, Order, Reason, Runner, Suspect, Wait, WaitReason};

/// Name and pid of a task, such as `cc1[131]`.
pub fn task_name(context: &RunContext<'_>, task: TaskId) -> String {
    match task.some().and_then(|task| context.timeline.tasks.get(task.index())) {
        Some(task) => format!("{}[{}]", escape(&task.info.name), task.info.pid),
        None => "tasks outside the run".to_owned(),
    }
}

pub(crate) fn task_json(context: &RunContext<'_>, task: TaskId) -> Value {
    match task.some().and_then(|task| context.timeline.tasks.get(task.index())) {
        Some(found) => json!({ "id": task.0, "pid": found.info.pid, "name": found.info.name }),
        None => Value::Null,
    }
}

/// Name of a queue, such as `the queue of CPU 3` or `queue 0x1`.
pub fn queue_name(queue: DsqId) -> String {
    match queue {
        DsqId::GLOBAL => "the global queue".to_owned(),
        DsqId::BYPASS => "the kernel's bypass queue".to_owned(),
        queue => match queue.local_cpu() {
            Some(cpu) => format!("the queue of CPU {cpu}"),
            None => format!("queue {queue}"),
        },
    }
}

/// Policy of a task with its priority, such as `SCHED_FIFO 20`.
pub(crate) fn policy_name(context: &RunContext<'_>, task: TaskId) -> String {
    match context.timeline.task(task).info.policy {
        Policy::Other => "SCHED_OTHER".to_owned(),
        Policy::Batch => "SCHED_BATCH".to_owned(),
        Policy::Idle => "SCHED_IDLE".to_owned(),
        Policy::Ext => "SCHED_EXT".to_owned(),
        Policy::Fifo(priority) => format!("SCHED_FIFO {priority}"),
        Policy::RoundRobin(priority) => format!("SCHED_RR {priority}"),
        Policy::Deadline { .. } => "SCHED_DEADLINE".to_owned(),
    }
}

/// A list of CPUs, such as `CPU 3` or `CPUs 0-2`.
pub(crate) fn cpus_name(cpus: &CpuSet) -> String {
    format!("CPU{} {cpus}", if cpus.len() == 1 { "" } else { "s" })
}

/// A time of the run in microseconds precision, such as `1.234567 s`.
pub(crate) fn moment(time: Nanos) -> String {
    let us = time.0 / 1_000;
    format!("{}.{:06} s", us / 1_000_000, us % 1_000_000)
}

/// File and line of a site: those of a kfunc call in the callback, else those where the callback begins.
pub(crate) fn place(context: &RunContext<'_>, site: CallbackSite) -> Option<(String, u32)> {
    match context.timeline.file(site) {
        Some(file) => Some((file.to_owned(), site.line)),
        None => context.source.callback(site)?.place.clone(),
    }
}

/// Callback and line of a site, such as `enqueue (bfs.bpf.c:212)`, or `the kernel`.
pub(crate) fn site_name(context: &RunContext<'_>, site: CallbackSite) -> String {
    let Some(op) = op_name(site.op) else { return "the kernel".to_owned() };
    let op = match op {
        "timer" => "a timer callback",
        "program" => "a program called by user space",
        _ => op,
    };
    match place(context, site) {
        Some((file, line)) => format!("{op} ({}:{line})", escape(&file)),
        None => op.to_owned(),
    }
}

/// Op, function, file, line and text of a site, as JSON.
pub(crate) fn site_json(context: &RunContext<'_>, site: CallbackSite) -> Value {
    let place = place(context, site);
    let text = place.as_ref().and_then(|(file, line)| context.source.text(file, *line));
    let (file, line) = place.clone().unzip();
    json!({
        "op": op_name(site.op),
        "function": context.source.callback(site).map(|callback| &callback.function),
        "file": file,
        "line": line,
        "text": text,
    })
}

/// Why a wait began, as a clause such as `after make[101] woke it`.
pub(crate) fn wait_reason(context: &RunContext<'_>, wait: &Wait) -> String {
    match wait.reason {
        WaitReason::Woken { waker, .. } => match waker {
            Waker::Task(task) => format!("after {} woke it", task_name(context, task)),
            Waker::Fork(task) => format!("after {} forked it", task_name(context, task)),
            Waker::Timer => "after its timer expired".to_owned(),
            Waker::Interrupt => "after a device woke it".to_owned(),
            Waker::External => "after an outside event woke it".to_owned(),
        },
        WaitReason::Lost { reason, cpu } => match reason {
            // A real-time task without a slice ends its run interval only for a more important one.
            SwitchReason::SliceEnd if matches!(context.timeline.task(wait.task).info.policy, Policy::Fifo(_)) => {
                format!("after it was preempted on CPU {cpu}")
            }
            SwitchReason::SliceEnd => format!("after its slice on CPU {cpu} ended"),
            SwitchReason::Preempt => format!("after it was preempted on CPU {cpu}"),
            SwitchReason::Yield => format!("after it yielded CPU {cpu}"),
            SwitchReason::HigherClass => format!("after a higher class preempted it on CPU {cpu}"),
            SwitchReason::Change | SwitchReason::Idle | SwitchReason::Block | SwitchReason::Exit => {
                format!("after it was moved from CPU {cpu}, or its class, affinity or scheduler changed there")
            }
        },
    }
}

/// JSON name of the reason for which a wait began.
pub(crate) fn wait_reason_key(wait: &Wait) -> &'static str {
    match wait.reason {
        WaitReason::Woken { waker, .. } => match waker {
            Waker::Task(_) => "woken",
            Waker::Fork(_) => "forked",
            Waker::Timer => "timer",
            Waker::Interrupt => "interrupt",
            Waker::External => "external",
        },
        WaitReason::Lost { reason, .. } => match reason {
            SwitchReason::SliceEnd => "slice_end",
            SwitchReason::Preempt => "preempt",
            SwitchReason::Yield => "yield",
            SwitchReason::HigherClass => "higher_class",
            SwitchReason::Change | SwitchReason::Idle | SwitchReason::Block | SwitchReason::Exit => "change",
        },
    }
}

/// What a suspected callback did, as a clause such as `enqueue (bfs.bpf.c:212) put it behind 3 others`.
pub fn suspect_sentence(context: &RunContext<'_>, account: &Account, suspect: &Suspect) -> String {
    let site = site_name(context, suspect.site);
    let longest = || account.longest_runner().map_or_else(String::new, |runner| task_name(context, runner.task));
    match suspect.reason {
        Reason::HigherClass { task, ran } => {
            let policy = policy_name(context, task);
            format!("{} ({policy}) has precedence and ran for {ran}", task_name(context, task))
        }
        Reason::LeavesIdle { cpu } => format!("CPU {cpu} was leaving its idle state"),
        Reason::UnservedQueue { queue, others: false, calls } => format!(
            "{site} put it into {}, from which no CPU took a task in the whole run, not even the {} that dispatch took none",
            queue_name(queue),
            times(calls)
        ),
        Reason::UnservedQueue { queue, others: true, calls } => format!(
            "{site} was called in vain {} for {} and took no task from {} in the whole run; other CPUs did",
            times(calls),
            cpus_name(&account.allowed),
            queue_name(queue)
        ),
        Reason::NotQueued => format!("{site} was called and inserted it into no queue"),
        Reason::PutOnCpu { cpu, idle: Nanos::ZERO } => format!("{site} put it into the queue of CPU {cpu}"),
        Reason::PutOnCpu { cpu, idle } => {
            format!("{site} put it into the queue of CPU {cpu}, while other CPUs were idle for {idle}")
        }
        Reason::LeftIdle { calls } => {
            format!("{site} was called {} for idle CPUs and found no task", times(calls))
        }
        Reason::MissedIdle { cpu } => format!("{site} chose another CPU although CPU {cpu} was idle"),
        Reason::KickedNone => format!("{site} queued it and kicked no idle CPU"),
        Reason::PassedOver { tasks, ran } => {
            format!("{site} took tasks from behind it {}; such tasks ran for {ran}", times(tasks))
        }
        Reason::TookOthers { tasks, queue, ran } => format!(
            "{site} preferred {}: it took {} from there and other queues, and such tasks ran for {ran}",
            queue_name(queue),
            counted(tasks, "later task")
        ),
        Reason::KeptBusy { calls } => {
            format!("{site} was called {} for busy CPUs and let the running tasks continue", times(calls))
        }
        Reason::PreemptedNone => format!("{site} queued it while all CPUs were busy, and preempted no task"),
        Reason::Overtaken { tasks: 1 } => format!("{site} queued it behind one task that came later"),
        Reason::Overtaken { tasks } => format!("{site} queued it behind {} tasks that came later", count(tasks)),
        Reason::Behind { tasks: Some(tasks) } => format!("{site} put it behind {}", others(tasks)),
        Reason::Behind { tasks: None } => format!("{site} put it behind others"),
        Reason::ComputedKey => format!("{site} had computed its position in the queue"),
        Reason::ComputedSlice { slice_ns } => {
            format!("{site} had computed {}, for {}", slice_name(slice_ns), longest())
        }
        Reason::LongSlice { slice_ns } => {
            format!("{site} gave {} to {}, which ran longest", slice_name(slice_ns), longest())
        }
        Reason::TookCpu => format!("{site} preempted it"),
        Reason::ShortSlice { slice_ns } => format!("{site} had given it {}", slice_name(slice_ns)),
        Reason::RanOther => format!("{site} gave a CPU to {}, which ran longest", longest()),
    }
}

/// JSON name of a reason.
pub(crate) fn reason_key(reason: Reason) -> &'static str {
    match reason {
        Reason::HigherClass { .. } => "higher_class",
        Reason::LeavesIdle { .. } => "leaves_idle",
        Reason::UnservedQueue { .. } => "unserved_queue",
        Reason::NotQueued => "put_nowhere",
        Reason::PutOnCpu { .. } => "put_on_cpu",
        Reason::LeftIdle { .. } => "left_idle",
        Reason::KickedNone => "woke_nobody",
        Reason::MissedIdle { .. } => "missed_idle",
        Reason::PassedOver { .. } => "passed_over",
        Reason::TookOthers { .. } => "took_others",
        Reason::KeptBusy { .. } => "kept_busy",
        Reason::PreemptedNone => "preempted_nobody",
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
        0 => "no other".to_owned(),
        1 => "one other".to_owned(),
        number => format!("{} others", count(number.into())),
    }
}

/// A slice, such as `a slice of 6.00 ms`.
pub(crate) fn slice_name(slice_ns: u64) -> String {
    match slice_ns {
        u64::MAX => "an infinite slice".to_owned(),
        slice_ns => format!("a slice of {}", Nanos(slice_ns)),
    }
}

/// Why a task ran before the waiting one.
pub(crate) fn order_name(order: Order) -> &'static str {
    match order {
        Order::Before => "ran already",
        Order::Ahead => "waited longer",
        Order::Overtook => "came later",
        Order::Unseen => "not seen",
    }
}

/// The task that ran longest, as a clause such as `cc1[130] ran for 6.00 ms on CPU 2`.
pub(crate) fn ran_instead(context: &RunContext<'_>, runner: &Runner) -> String {
    format!("{} ran for {} on {}", task_name(context, runner.task), runner.ran, cpus_name(&runner.cpus))
}
