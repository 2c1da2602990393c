// SPDX-License-Identifier: GPL-2.0-only
//! A log as text: one JSON object per line, for `jq` and other programs.
//!
//! Every line has `time_ns` and `kind`. An event also has `cpu` and, where they apply, `task`, `op`, `file` and
//! `line`, followed by the fields of its kind under the names of [`EventKind`]. Units are the suffix of a key. Each
//! task number is accompanied by the pid that the kernel and the scheduler use: `pid` beside `task`, `prev_pid`
//! beside `prev`.

use crate::{
    BlockCause, CallbackSite, Event, EventKind, LockKind, Printk, Sink, SwitchReason, TaskInfo, Waker, op_name,
};
use ids::{CpuSet, Nanos, Policy, TaskId};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// A sink that writes JSON lines during the run. After the first error it writes nothing; [`JsonLines::finish`]
/// reports the error.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: W,
    /// Names of the source files, by number.
    files: Vec<String>,
    /// Pids by task number.
    pids: Vec<u32>,
    failed: Option<io::Error>,
}

impl<W: Write> JsonLines<W> {
    /// Creates a sink that writes to `out`, which should be buffered.
    pub fn new(out: W) -> JsonLines<W> {
        JsonLines { out, files: Vec::new(), pids: Vec::new(), failed: None }
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    ///
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn put_site(&self, map: &mut Map<String, Value>, site: CallbackSite) {
        put_some(map, "op", op_name(site.op).map(Value::from));
        if site.line > 0 {
            put_some(map, "file", self.files.get(usize::from(site.file)).map(|name| name.as_str().into()));
            put_some(map, "line", Some(site.line.into()));
        }
    }

    /// Inserts the task under `key` and its pid under `pid_key`, or nothing if there is no task.
    fn put_task(&self, map: &mut Map<String, Value>, (key, pid_key): (&str, &str), task: TaskId) {
        put_some(map, key, task.some().map(|task| task.0.into()));
        put_some(map, pid_key, self.pid(task).map(Value::from));
    }

    fn pid(&self, task: TaskId) -> Option<u32> {
        task.some().and_then(|task| self.pids.get(task.index()).copied())
    }

    fn kind_fields(&self, kind: &EventKind) -> (&'static str, Value) {
        match *kind {
            EventKind::Wakeup { waker, sync, target } => {
                let (cause, by) = match waker {
                    Waker::Task(task) => ("task", task.some()),
                    Waker::Timer => ("timer", None),
                    Waker::Interrupt => ("interrupt", None),
                    Waker::Fork(parent) => ("fork", parent.some()),
                    Waker::External => ("external", None),
                };
                let (waker, pid) = (by.map(|task| task.0), by.and_then(|task| self.pid(task)));
                let fields =
                    json!({ "cause": cause, "waker": waker, "waker_pid": pid, "sync": sync, "target": target.0 });
                ("wakeup", fields)
            }
            EventKind::SelectCpu { prev, chosen } => ("select_cpu", json!({ "prev": prev.0, "chosen": chosen.0 })),
            EventKind::Insert { dsq, key, slice_ns } => {
                ("insert", json!({ "dsq": dsq.to_string(), "key": key, "slice_ns": slice_ns }))
            }
            EventKind::Dispatch { from, to } => ("dispatch", json!({ "from": from.to_string(), "to": to.0 })),
            EventKind::Switch { prev, reason } => {
                let number = prev.some().map(|task| task.0);
                ("switch", json!({ "prev": number, "prev_pid": self.pid(prev), "reason": reason_name(reason) }))
            }
            EventKind::Tick => ("tick", Value::Null),
            EventKind::Kick { target, flags } => ("kick", json!({ "target": target.0, "flags": flags.0 })),
            EventKind::Migrate { from, to } => ("migrate", json!({ "from": from.0, "to": to.0 })),
            EventKind::Block { cause } => ("block", json!({ "cause": cause_name(cause) })),
            EventKind::Fork { child } => ("fork", json!({ "child": child.0, "child_pid": self.pid(child) })),
            EventKind::Exit => ("exit", Value::Null),
            EventKind::Idle { entered } => ("idle", json!({ "entered": entered })),
            EventKind::Affinity => ("affinity", Value::Null),
            EventKind::Priority { nice } => ("priority", json!({ "nice": nice })),
            EventKind::LockWait { lock, waited } => {
                ("lock_wait", json!({ "lock": lock_name(lock), "waited_ns": waited.0 }))
            }
            EventKind::Hotplug { online } => ("hotplug", json!({ "online": online })),
            EventKind::Yield => ("yield", Value::Null),
            EventKind::Attached => ("attached", Value::Null),
            EventKind::Disabled { kind } => ("disabled", json!({ "exit_kind": kind })),
        }
    }

    fn line(&mut self, value: &Value) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{value}").err();
        }
    }
}

/// Keys of the task that an event concerns.
const TASK: (&str, &str) = ("task", "pid");

impl<W: Write> Sink for JsonLines<W> {
    fn source_file(&mut self, file: u16, name: &str) {
        self.files.resize(self.files.len().max(usize::from(file) + 1), String::new());
        self.files[usize::from(file)] = name.to_owned();
    }

    fn printk(&mut self, printk: &Printk) {
        let mut line = json!({ "time_ns": printk.time.0, "kind": "printk", "cpu": printk.cpu.0 });
        let map = line.as_object_mut().expect("built as an object");
        self.put_task(map, TASK, printk.task);
        self.put_site(map, printk.site);
        put_some(map, "text", Some(printk.text.as_str().into()));
        self.line(&line);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.pids.resize(self.pids.len().max(info.id.index() + 1), 0);
        self.pids[info.id.index()] = info.pid;
        self.line(&json!({
            "time_ns": time.0,
            "kind": "task",
            "task": info.id.0,
            "pid": info.pid,
            "name": info.name,
            "parent": info.parent.map(|parent| parent.0),
            "parent_pid": info.parent.and_then(|parent| self.pid(parent)),
            "allowed": info.allowed.to_string(),
            "policy": policy_name(info.policy),
            "nice": info.nice,
            "kernel_thread": info.kernel_thread,
        }));
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        let allowed = allowed.to_string();
        let pid = self.pid(task);
        self.line(&json!({ "time_ns": time.0, "kind": "mask", "task": task.0, "pid": pid, "allowed": allowed }));
    }

    fn event(&mut self, event: &Event) {
        let (kind, fields) = self.kind_fields(&event.kind);
        let mut line = json!({ "time_ns": event.time.0, "kind": kind, "cpu": event.cpu.0 });
        let map = line.as_object_mut().expect("built as an object");
        self.put_task(map, TASK, event.task);
        self.put_site(map, event.site);
        if let Value::Object(fields) = fields {
            map.extend(fields);
        }
        self.line(&line);
    }
}

fn put_some(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

fn reason_name(reason: SwitchReason) -> &'static str {
    match reason {
        SwitchReason::Idle => "idle",
        SwitchReason::Block => "block",
        SwitchReason::Exit => "exit",
        SwitchReason::Yield => "yield",
        SwitchReason::SliceEnd => "slice_end",
        SwitchReason::Preempt => "preempt",
        SwitchReason::HigherClass => "higher_class",
        SwitchReason::Change => "change",
    }
}

fn cause_name(cause: BlockCause) -> &'static str {
    match cause {
        BlockCause::Timer => "timer",
        BlockCause::Io => "io",
        BlockCause::Task => "task",
        BlockCause::Child => "child",
        BlockCause::External => "external",
    }
}

/// Name of the policy as in `sched_setscheduler(2)`, with its parameters.
fn policy_name(policy: Policy) -> String {
    match policy {
        Policy::Other => "other".to_owned(),
        Policy::Batch => "batch".to_owned(),
        Policy::Idle => "idle".to_owned(),
        Policy::Ext => "ext".to_owned(),
        Policy::Fifo(priority) => format!("fifo {priority}"),
        Policy::RoundRobin(priority) => format!("rr {priority}"),
        Policy::Deadline { runtime, deadline, period } => {
            format!("deadline {}/{}/{} ns", runtime.0, deadline.0, period.0)
        }
    }
}

fn lock_name(lock: LockKind) -> String {
    match lock {
        LockKind::Runqueue(cpu) => format!("runqueue {cpu}"),
        LockKind::Dsq(dsq) => format!("dsq {dsq}"),
        LockKind::Bpf(address) => format!("bpf {address:#x}"),
    }
}
