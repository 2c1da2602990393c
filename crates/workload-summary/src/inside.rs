// SPDX-License-Identifier: GPL-2.0-only
//! Processes, users, groups and timing constructs of a workload.

use ids::Nanos;
use report::{count, counted, escape};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use workload::{Op, Reserved, TaskGroup, Workload};

/// Number of users and groups shown by name.
const SHOWN: usize = 4;

/// Contents of a workload other than work.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Inside {
    /// Known processes, each with the index of its part in the composition.
    processes: BTreeSet<(usize, u32)>,
    sessions: BTreeSet<(usize, u32)>,
    users: BTreeSet<u32>,
    groups: BTreeSet<String>,
    /// Groups that the executing machine creates, each with the number of tasks in it and its subgroups.
    described: Vec<(TaskGroup, u64)>,
    /// Number of tasks whose process is known.
    members: u64,
    /// Number of recorded command lines.
    command_lines: u64,
    /// Number of sleeps until a multiple of a period.
    on_grid: u64,
    /// Number of stretches of work that end at a time or by a signal.
    until: u64,
    /// Number of waits that have a timeout; the shortest timeout is the next field.
    timeouts: u64,
    shortest: Option<Nanos>,
}

impl Inside {
    /// Collects the contents of all tasks.
    pub fn of(workload: &Workload) -> Inside {
        let mut inside = Inside::default();
        for (index, task) in (0u32..).zip(&workload.tasks) {
            let part = workload.parts.partition_point(|part| part.tasks.end <= index);
            inside.processes.extend(task.who.tgid.map(|tgid| (part, tgid)));
            inside.sessions.extend(task.who.session.map(|session| (part, session)));
            inside.users.extend(task.who.uid);
            inside.groups.extend(task.who.group.clone());
            inside.members += u64::from(task.who.tgid.is_some());
            inside.command_lines += u64::from(task.command.is_some());
            task.script.iter().for_each(|op| inside.take(op));
        }
        for group in workload.all_groups() {
            let is_in = |spec: &u32| workload.group_of(*spec).is_some_and(|path| group.contains(path));
            let tasks = (0..workload.tasks.len() as u32).filter(is_in).count() as u64;
            inside.described.push((group, tasks));
        }
        inside
    }

    fn take(&mut self, op: &Op) {
        match op {
            Op::Timer { .. } | Op::Interval { .. } => self.on_grid += 1,
            Op::WorkUntil { .. } | Op::WorkUntilPosted(_) => self.until += 1,
            Op::Timeout(time) => {
                self.timeouts += 1;
                self.shortest = Some(self.shortest.map_or(*time, |shortest| shortest.min(*time)));
            }
            _ => {}
        }
    }

    /// Whether the amount of work is the same on every machine.
    pub fn has_fixed_work(&self) -> bool {
        self.until == 0
    }

    /// Lines of text; empty if nothing is known.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut parts = Vec::new();
        if !self.processes.is_empty() {
            let threads = self.members.saturating_sub(self.processes.len() as u64);
            parts.push(several(self.processes.len() as u64, "process", "processes"));
            if threads > 0 {
                parts.push(format!("{} besides the main threads", counted(threads, "thread")));
            }
            if !self.sessions.is_empty() {
                parts.push(counted(self.sessions.len() as u64, "session"));
            }
        }
        parts.extend(some("user", self.users.iter().map(u32::to_string)));
        parts.extend(some("group", self.groups.iter().map(|group| escape(group).to_string())));
        lines.extend((!parts.is_empty()).then(|| parts.join(", ")));
        lines.extend(self.described.iter().map(|(group, tasks)| described(group, *tasks)));
        let mut time = Vec::new();
        if self.on_grid > 0 {
            time.push(format!("{} until a multiple of a period", counted(self.on_grid, "sleep")));
        }
        if self.until > 0 {
            time.push(format!("{} of work that a timer or a signal ends", several(self.until, "stretch", "stretches")));
        }
        if let Some(shortest) = self.shortest {
            time.push(format!("{} with a timeout, the shortest {shortest}", counted(self.timeouts, "wait")));
        }
        lines.extend((!time.is_empty()).then(|| time.join(", ")));
        if self.command_lines > 0 {
            lines.push(format!(
                "{} recorded, including any secrets on them",
                counted(self.command_lines, "command line")
            ));
        }
        lines
    }

    /// Uncertainties that follow from these contents.
    pub fn uncertain(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.timeouts > 0 {
            all.push("the behavior of a task after a timeout that did not expire is unknown".to_owned());
        }
        if self.until > 0 {
            all.push(
                "work that a timer or a signal ends grows with the speed of the machine: there are no bounds for it"
                    .to_owned(),
            );
        }
        all
    }

    /// The contents of the workload as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "processes": self.processes.len(), "sessions": self.sessions.len(), "uids": self.users,
            "groups": self.groups, "taskgroups": self.described.iter().map(group_to_json).collect::<Vec<_>>(),
            "command_lines": self.command_lines, "sleeps_on_grid": self.on_grid,
            "work_until": self.until, "timeouts": self.timeouts,
            "shortest_timeout_ns": self.shortest.map(|time| time.0),
        })
    }
}

/// Line of text for a group.
fn described(group: &TaskGroup, tasks: u64) -> String {
    let TaskGroup { path, weight, cap_percent, hard, cpus, uid, job, reserve } = group;
    let mut parts = vec![format!("group {}: weight {}", escape(path), count((*weight).into()))];
    let kind = if *hard { "at most" } else { "soft cap" };
    parts.extend(cap_percent.map(|percent| format!("{kind} {} % of a CPU", count(percent.into()))));
    parts.extend(cpus.as_ref().map(|cpus| format!("CPUs {cpus}")));
    parts.extend(uid.map(|uid| format!("user {uid}")));
    parts.extend(job.then(|| "a job".to_owned()));
    parts.extend(reserve.map(reserved));
    parts.push(counted(tasks, "task"));
    parts.join(", ")
}

fn reserved(Reserved { cpus, from_ms, ms }: Reserved) -> String {
    let time = |ms: u32| Nanos::from_ms(ms.into());
    let from = if from_ms > 0 { format!(" from {}", time(from_ms)) } else { String::new() };
    format!(
        "{} reserved{from}{}",
        counted(cpus.into(), "CPU"),
        ms.map_or(String::new(), |ms| format!(" for {}", time(ms)))
    )
}

fn group_to_json((group, tasks): &(TaskGroup, u64)) -> Value {
    let TaskGroup { path, weight, cap_percent, hard, cpus, uid, job, reserve } = group;
    json!({
        "path": path, "weight": weight, "cap_percent": cap_percent, "hard": hard,
        "cpus": cpus.as_ref().map(|cpus| cpus.to_string()), "uid": uid, "job": job, "tasks": tasks,
        "reserve": reserve.map(|Reserved { cpus, from_ms, ms }| json!({ "cpus": cpus, "from_ms": from_ms, "ms": ms })),
    })
}

fn several(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// The first few names and the number of further ones.
fn some(what: &str, names: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let number = names.len();
    let names: Vec<String> = names.take(SHOWN).collect();
    let more = number.saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
    let plural = if number == 1 { "" } else { "s" };
    (number > 0).then(|| format!("{what}{plural} {}{more}", names.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{Recording, Reference, SignalId, Sleep, Who};

    fn inside(change: impl FnOnce(&mut Workload)) -> Inside {
        let text = r#"{"tasks": {"a": {"instance": 3, "loop": 1, "run": 10}}}"#;
        let mut workload = Workload::from_rt_app("w.json", text).expect("a workload");
        change(&mut workload);
        // Round trip through the file format.
        let recording = Recording { meta: Default::default(), workload, observed: Default::default() };
        let bytes = recording.to_bytes().expect("a recording");
        Inside::of(&Recording::from_bytes("w.weir", &bytes).expect("the same").workload)
    }

    #[test]
    fn summary_lists_processes_users_timers_and_timeouts() {
        let found = inside(|workload| {
            let who = |tgid, uid| Who {
                tgid: Some(tgid),
                session: Some(1),
                uid: Some(uid),
                group: Some("/a".into()),
                process: None,
            };
            for (task, (tgid, uid)) in workload.tasks.iter_mut().zip([(7, 0), (7, 0), (8, 1000)]) {
                (task.who, task.command) = (who(tgid, uid), Some("a".into()));
            }
            workload.signals = 1;
            let reference = Reference(Reference::PRIVATE);
            workload.tasks[0].script.extend([
                Op::Anchor(reference),
                Op::Timer { reference, period: Nanos(5), absolute: true },
                Op::Interval { reference, period: Nanos(5) },
                Op::Timeout(Nanos::from_ms(40)),
                Op::Sleep(Nanos(1), Sleep::External),
                Op::Timeout(Nanos::from_ms(30)),
                Op::Post(SignalId(0)),
            ]);
            workload.tasks[2].script.push(Op::WorkUntilPosted(SignalId(0)));
        });
        let expected = [
            "2 processes, 1 thread besides the main threads, 1 session, users 0 1000, group /a",
            "2 sleeps until a multiple of a period, 1 stretch of work that a timer or a signal ends, 2 waits with a \
             timeout, the shortest 30.0 ms",
            "3 command lines recorded, including any secrets on them",
        ];
        assert_eq!(found.lines(), expected);
        assert!(!found.has_fixed_work() && found.uncertain().len() == 2);
        assert_eq!(found.to_json()["shortest_timeout_ns"], 30_000_000);
        assert_eq!(found.to_json()["uids"], json!([0, 1000]));
    }

    #[test]
    fn groups_are_listed_with_limits_and_task_counts() {
        let text = r#"{"taskgroups": {"/a": {"weight": 3000, "job": true},
                                      "/a/x": {"cap_percent": 50, "hard": true, "cpus": "0-3", "uid": 7}},
                       "tasks": {"t": {"instance": 2, "taskgroup": "/a/x", "run": 1}, "u": {"taskgroup": "/a/y", "run": 1}}}"#;
        let found = Inside::of(&Workload::from_rt_app("w.json", text).expect("a workload"));
        let expected = [
            "user 7, groups /a/x /a/y",
            "group /a: weight 3,000, a job, 3 tasks",
            "group /a/x: weight 100, at most 50 % of a CPU, CPUs 0-3, user 7, 2 tasks",
            "group /a/y: weight 100, 1 task",
        ];
        assert_eq!(found.lines(), expected);
        assert_eq!(found.to_json()["taskgroups"][1]["cap_percent"], 50);
    }

    #[test]
    fn summary_of_a_workload_without_metadata_is_empty() {
        let found = inside(|_| {});
        assert_eq!(found.lines(), Vec::<String>::new());
        assert!(found.has_fixed_work() && found.uncertain().is_empty());
    }
}
