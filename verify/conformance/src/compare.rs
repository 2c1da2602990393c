// SPDX-License-Identifier: GPL-2.0-only
//! Compares a kernel's records with the model's.
//!
//! 1. Each task of the workload has a sequence: the ops called for it, in order, with arguments, CPUs, flags and
//!    verdicts. Sequences are compared one by one, so simultaneous actions of different tasks may be in any order.
//! 2. A CPU's own ops belong to the sequence of the adjacent task on that CPU: ops that lead to `running`, and going
//!    idle or being taken by a higher class after a task has left.
//! 3. The director (`d_dir`) controls the others and is not compared. It marks begin and end of the comparison by
//!    changing its nice value to 5 and to 6, because thread creation is not the scheduler's matter.
//! 4. Effects of timing are left out, see [`ALWAYS_MASKED`] and [`Masks`].
//! 5. A real machine has other tasks, which disturb; [`crate::disturbance`] detects that. Every undisturbed run must
//!    equal the model's. If all were disturbed, one equal run is enough: what a wrong model does never happens in a
//!    kernel.
//! 6. A `dispatch` that leads to no task belongs to a sequence of the CPU, except on CPU 0, where foreign tasks run.
//! 7. The order in which tasks run on each CPU is a sequence too, because those of the tasks do not contain it.

use crate::record::{Call, Exit, Record, Run};
use crate::scenario::{Masks, Scenario};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Task that controls the others.
pub const DIRECTOR: &str = "d_dir";
/// Sequence of CPU hotplug events.
const MACHINE: &str = "(machine)";
/// Marker of a foreign task in logs.
const FOREIGN: &str = "*";
/// Tolerated number of missing or extra ticks: one at either end, and one too late to be told from the next.
const MISSED_TICKS: u64 = 2;
/// Tick period of the recorded kernels: 250 Hz.
const TICK_NS: u64 = 4_000_000;
/// Weight of nice 5, the director's begin mark (contract T13).
const BEGIN_WEIGHT: u64 = 33;
/// Weight of nice 6, the end mark.
const END_WEIGHT: u64 = 27;

/// Parts that no comparison includes, with reasons.
pub const ALWAYS_MASKED: [(&str, &str); 6] = [
    ("order of ticks", "when a tick comes is a matter of time; each stretch on a CPU must have as many as it is long"),
    ("foreign tasks", "a real machine has kernel threads and other processes"),
    (
        "init_task, exit_task and the like before the first mark and after the last",
        "creating threads takes calls of its own",
    ),
    (
        "bits of scx.flags besides QUEUED, custody, IMMED, state and reason",
        "book-keeping that programs have no use for",
    ),
    ("pids and times in messages", "they differ between two runs of one kernel"),
    (
        "IMMED in scx.flags of a task that was not placed since the first mark",
        "the kernel placed it while the scheduler was loaded, or the scheduler did",
    ),
];

/// Bit of `scx.flags`: the task was inserted with `SCX_ENQ_IMMED`. It stays set during sleep.
const IMMED: u32 = 0x20;
/// QUEUED, IN_CUSTODY, IMMED, state, reason of a reenqueue.
const FLAGS: u32 = 0x1 | 0x2 | IMMED | 0x700 | 0x3000;

/// Result of one scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// Name of the scenario.
    pub scenario: String,
    /// Contract rules that it covers.
    pub covers: Vec<String>,
    /// Whether all undisturbed runs of the kernel equal the model's.
    pub agrees: bool,
    /// Number of disturbed runs.
    pub disturbed: usize,
    /// Reason for a known difference.
    pub departure: Option<String>,
    /// Number of the shown run, from 1: of those that count, the one that differs most.
    pub play: usize,
    /// Number of runs in the kernel.
    pub plays: usize,
    /// Number of compared calls.
    pub calls: usize,
    /// Whether only the exit was compared, because the scenario masks all calls.
    pub end_only: bool,
    /// Differences, for display.
    pub differences: Vec<String>,
}

impl Verdict {
    /// Returns whether the result is as expected: it agrees, or is known not to.
    pub fn is_expected(&self) -> bool {
        self.agrees != self.departure.is_some()
    }
}

/// Compares one scenario.
pub fn compare(scenario: &Scenario, kernel: &Record, model: &Record) -> Verdict {
    let expected: Vec<Told> = kernel.runs.iter().map(|run| Told::new(run, &scenario.masks)).collect();
    let got = Told::new(&model.runs[0], &scenario.masks);
    let differences: Vec<Vec<String>> = expected.iter().map(|told| told.differences(&got)).collect();
    let is_disturbed = |index: &usize| !kernel.runs[*index].disturbed.is_empty();
    let disturbed = (0..kernel.runs.len()).filter(is_disturbed).count();
    let all_count = disturbed < kernel.runs.len();
    let counts = |index: &usize| !all_count || !is_disturbed(index);
    let shown = |index: &usize| {
        let many = differences[*index].len();
        if all_count { usize::MAX - many } else { many }
    };
    let shown = (0..differences.len()).filter(counts).min_by_key(shown).unwrap_or(0);
    Verdict {
        scenario: scenario.name.clone(),
        covers: scenario.covers.clone(),
        agrees: differences.get(shown).is_some_and(Vec::is_empty),
        disturbed,
        departure: scenario.departure.clone(),
        play: shown + 1,
        plays: kernel.runs.len(),
        calls: got.stories.values().map(Vec::len).sum(),
        end_only: scenario.masks.events,
        differences: differences.into_iter().nth(shown).unwrap_or_else(|| vec!["the kernel has not played it".into()]),
    }
}

/// A run in the compared form.
#[derive(PartialEq, Debug)]
struct Told {
    end: String,
    stories: BTreeMap<String, Vec<String>>,
}

impl Told {
    fn new(run: &Run, masks: &Masks) -> Told {
        let end = match (&run.refused, &run.exit) {
            _ if masks.end => String::new(),
            (Some(_), _) => "refused".to_owned(),
            (None, Some(exit)) => ending(exit),
            (None, None) => "no end".to_owned(),
        };
        let mut stories = if masks.events { BTreeMap::new() } else { stories(run, masks) };
        unite(&mut stories, &masks.alike);
        for (task, story) in &mut stories {
            if masks.setup.contains(task) {
                *story = without_changes(story);
            }
            if masks.repeats {
                *story = without_repeats(story);
            }
            if masks.order {
                *story = tally(story);
            }
            if masks.first > 0 {
                story.truncate(masks.first);
            }
        }
        Told { end, stories }
    }

    /// Returns what differs between `self`, the kernel's run, and the model's.
    fn differences(&self, model: &Told) -> Vec<String> {
        let mut found = Vec::new();
        if self.end != model.end {
            found.push(format!("end: kernel {}, model {}", self.end, model.end));
        }
        let nothing = Vec::new();
        let mut tasks: Vec<&String> = self.stories.keys().chain(model.stories.keys()).collect();
        tasks.sort();
        tasks.dedup();
        for task in tasks {
            let of = |told: &'_ Told| told.stories.get(task).unwrap_or(&nothing).clone();
            found.extend(first_difference(task, &of(self), &of(model)));
        }
        found
    }
}

/// Returns the exit without pids and times.
fn ending(exit: &Exit) -> String {
    format!("kind {} code {:#x} ({}) {:?}", exit.kind, exit.code, exit.reason, masked(&exit.message))
}

/// Masks numbers: `victim[205] failed to run for 3.752s` becomes `victim[#] failed to run for #s`.
fn masked(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or_default();
    let mut out = String::new();
    let mut rest = first_line.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        let follows_time = out.ends_with(" for ");
        if c == '[' || follows_time {
            let mut digits = false;
            while rest.peek().is_some_and(|next| next.is_ascii_digit() || *next == '.') {
                rest.next();
                digits = true;
            }
            out.push_str(if digits { "#" } else { "" });
        }
    }
    without_foreign_name(&out)
}

/// Masks the name of a foreign task, which differs between machines.
fn without_foreign_name(message: &str) -> String {
    let Some((before, rest)) = message.split_once("[#]") else { return message.to_owned() };
    let name = before.rsplit(' ').next().unwrap_or_default();
    if name.starts_with("w_") || name.starts_with("v_") {
        return message.to_owned();
    }
    format!("{}*[#]{rest}", &before[..before.len() - name.len()])
}

/// Longest sequence of ops that is recognized as a repetition.
const LONGEST_ROUND: usize = 16;

/// Keeps only the first of repeated sequences.
fn without_repeats(story: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for line in story {
        kept.push(line.clone());
        let again = |&round: &usize| {
            let (before, last) = kept.split_at(kept.len() - round);
            before.ends_with(last)
        };
        if let Some(round) = (1..=LONGEST_ROUND.min(kept.len() / 2)).find(again) {
            kept.truncate(kept.len() - round);
        }
    }
    kept
}

/// Removes the ops of a running task that changes its own properties (contract T9).
fn without_changes(story: &[String]) -> Vec<String> {
    // Moving to another cgroup has no op that this scheduler implements.
    let changes: [&[&str]; 2] =
        [&["stopping", "quiescent", "set_", "runnable", "running"], &["stopping", "quiescent", "runnable", "running"]];
    let (mut kept, mut rest) = (Vec::new(), story);
    while let Some(line) = rest.first() {
        let is_next = |change: &&&[&str]| {
            rest.len() >= change.len() && rest.iter().zip(change.iter()).all(|(line, op)| line.starts_with(op))
        };
        if let Some(change) = changes.iter().find(is_next) {
            rest = &rest[change.len()..];
        } else {
            kept.push(line.clone());
            rest = &rest[1..];
        }
    }
    kept
}

/// Replaces the sequences of `alike` by one with the set of their lines.
fn unite(stories: &mut BTreeMap<String, Vec<String>>, alike: &[String]) {
    let lines: BTreeSet<String> = alike.iter().filter_map(|task| stories.remove(task)).flatten().collect();
    if !lines.is_empty() {
        stories.insert(alike.join(", "), lines.into_iter().collect());
    }
}

/// Counts the occurrences of each line.
fn tally(story: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for line in story {
        *counts.entry(line).or_default() += 1;
    }
    counts.into_iter().map(|(line, count)| format!("{count} x {line}")).collect()
}

/// Returns the sequences of the workload's tasks.
fn stories(run: &Run, masks: &Masks) -> BTreeMap<String, Vec<String>> {
    let calls = between_marks(&run.calls);
    let owners = owners(calls);
    let mut stories = odd_ticks(calls, masks);
    stories.extend(turns(calls, masks));
    // `ran`: tasks that have run since the first mark; before that, the remaining slice depends on timing. `placed`:
    // tasks inserted since the first mark; a task created while the scheduler was being loaded may have been inserted
    // by the kernel or by the scheduler.
    let (mut ran, mut placed) = (BTreeSet::new(), BTreeSet::new());
    for (call, owner) in calls.iter().zip(owners) {
        if call.op == "running" {
            ran.insert(&call.task);
        }
        if matches!(call.op.as_str(), "enqueue" | "running") {
            placed.insert(&call.task);
        }
        if call.op == "tick"
            || masks.ops.contains(&call.op)
            || owner.is_empty()
            || owner == DIRECTOR
            || owner == FOREIGN
            || masks.tasks.contains(&owner)
        {
            continue;
        }
        stories.entry(owner).or_default().push(tell(
            call,
            masks,
            ran.contains(&call.task),
            placed.contains(&call.task),
        ));
    }
    stories
}

/// Returns the order of tasks on each CPU. A task that continues after a foreign task, or after itself, is listed
/// once.
fn turns(calls: &[Call], masks: &Masks) -> BTreeMap<String, Vec<String>> {
    let mut turns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if masks.cpus || masks.ops.iter().any(|op| op == "running") {
        return turns;
    }
    let is_ours = |call: &&Call| {
        let task = &call.task;
        let left_out = [&masks.alike, &masks.tasks].iter().any(|tasks| tasks.contains(task));
        call.op == "running" && !task.is_empty() && task != FOREIGN && task != DIRECTOR && !left_out
    };
    for call in calls.iter().filter(is_ours) {
        let story = turns.entry(format!("turns on CPU {}", call.task_cpu)).or_default();
        if story.last() != Some(&call.task) {
            story.push(call.task.clone());
        }
    }
    turns
}

/// Returns run intervals with more or fewer ticks than fit into them; there should be none in kernel or model.
pub(crate) fn odd_ticks(calls: &[Call], masks: &Masks) -> BTreeMap<String, Vec<String>> {
    if masks.ops.iter().any(|op| op == "tick") {
        return BTreeMap::new();
    }
    // Start of the present run interval on each CPU, and its ticks.
    let mut stretches: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    let mut odd: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in calls.iter().filter(|call| !call.task.is_empty() && call.task != FOREIGN && call.task != DIRECTOR) {
        match call.op.as_str() {
            "running" => _ = stretches.insert(call.task_cpu, (call.time_ns, 0)),
            "tick" => _ = stretches.get_mut(&call.cpu).map(|(_, ticks)| *ticks += 1),
            "stopping" => {
                let Some((begin, ticks)) = stretches.remove(&call.task_cpu) else { continue };
                let fit = call.time_ns.saturating_sub(begin) / TICK_NS;
                if ticks.abs_diff(fit) > MISSED_TICKS && !masks.tasks.contains(&call.task) {
                    let line = format!("{ticks} ticks in a run interval of {fit} tick periods");
                    odd.entry(format!("{}'s ticks", call.task)).or_default().push(line);
                }
            }
            _ => {}
        }
    }
    odd
}

/// Returns the calls between the director's marks.
pub(crate) fn between_marks(calls: &[Call]) -> &[Call] {
    let mark =
        |weight| calls.iter().position(|call| call.op == "set_weight" && call.task == DIRECTOR && call.a == weight);
    let begin = mark(BEGIN_WEIGHT).map_or(0, |at| at + 1);
    let end = mark(END_WEIGHT).unwrap_or(calls.len()).max(begin);
    &calls[begin..end]
}

/// Returns the part of a kernel's record worth keeping: the shown run, its compared calls, and those unowned calls on
/// CPU 0 that separate others.
pub fn keep(scenario: &Scenario, kernel: &Record, model: &Record) -> Record {
    let play = compare(scenario, kernel, model).play - 1;
    let mut run = kernel.runs[play].clone();
    let calls = if scenario.masks.events { &[] } else { between_marks(&run.calls) };
    let owners = owners(calls);
    let is_nobodys = |at: usize| owners[at].is_empty();
    let mut kept = vec![true; calls.len()];
    // Foreign tasks are on CPU 0.
    let line: Vec<usize> = (0..calls.len()).filter(|&at| calls[at].cpu == 0).collect();
    for three in line.windows(3) {
        kept[three[1]] = !three.iter().all(|&at| is_nobodys(at));
    }
    run.calls = calls.iter().zip(kept).filter(|(_, kept)| *kept).map(|(call, _)| call.clone()).collect();
    Record { runs: vec![run], ..kernel.clone() }
}

/// Returns the sequence to which each call belongs; empty for none.
pub(crate) fn owners(calls: &[Call]) -> Vec<String> {
    let is_ours = |call: &Call| !call.task.is_empty() && call.task != FOREIGN;
    let mut owners: Vec<String> =
        calls.iter().map(|call| if is_ours(call) { call.task.clone() } else { String::new() }).collect();
    // Positions of each CPU's ops in the log, and the sequence to which the last of them belongs.
    let mut before: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        let line = before.entry(call.cpu).or_default();
        match call.op.as_str() {
            "running" if call.cpu == call.task_cpu => lead_in(calls, &mut owners, line, &call.task),
            "update_idle" if call.b == 1 => follow(calls, &mut owners, line, at),
            "cpu_release" => follow(calls, &mut owners, line, at),
            "cpu_online" | "cpu_offline" => owners[at] = MACHINE.to_owned(),
            _ => {}
        }
        line.push(at);
    }
    for (call, owner) in calls.iter().zip(&mut owners) {
        if call.op == "dispatch" && call.task.is_empty() && call.cpu != 0 && owner.is_empty() {
            *owner = format!("(CPU {})", call.cpu);
        }
    }
    owners
}

/// Assigns the CPU's own ops that lead to `running`: the last `dispatch` without a preceding op, leaving idle, and
/// reacquiring the CPU from a higher class.
fn lead_in(calls: &[Call], owners: &mut [String], line: &[usize], task: &str) {
    for &at in line.iter().rev() {
        let call = &calls[at];
        match call.op.as_str() {
            "dispatch" if call.task.is_empty() && owners[at].is_empty() => {
                owners[at] = task.to_owned();
                break;
            }
            "update_idle" if call.b == 0 => owners[at] = task.to_owned(),
            "cpu_acquire" => owners[at] = task.to_owned(),
            "dequeue" if call.task == task => {}
            _ => break,
        }
    }
}

/// Assigns a CPU's own op that directly follows an op of its last task.
fn follow(calls: &[Call], owners: &mut [String], line: &[usize], at: usize) {
    let leaves = ["stopping", "quiescent", "dispatch", "enqueue", "insert", "dequeue", "disable", "exit_task"];
    if let Some(&last) = line.last()
        && leaves.contains(&calls[last].op.as_str())
    {
        owners[at] = owners[last].clone();
    }
}

/// Describes a call. Left out are CPU numbers where the scenario masks them, the slice of a task that has not run,
/// and IMMED of one that was not inserted.
fn tell(call: &Call, masks: &Masks, ran: bool, placed: bool) -> String {
    let cpu = |number: i64| if masks.cpus { "?".to_owned() } else { number.to_string() };
    let caller =
        if matches!(call.op.as_str(), "cpu_online" | "cpu_offline") { "?".into() } else { cpu(call.cpu.into()) };
    let mut text = format!("{} on {caller}", call.op);
    let mut add = |what: &str, value: String| write!(text, " {what} {value}").expect("a string takes all");
    match call.op.as_str() {
        "select_cpu" => {
            add("prev", cpu(call.a as i64));
            add("wake_flags", format!("{:#x}", call.b));
            add("->", cpu(call.result.into()));
        }
        "dispatch" => {
            add("cpu", cpu(call.a as i64));
            add("prev", if call.task.is_empty() { "none" } else { "it" }.to_owned());
            if call.result != 0 {
                add("moved", String::from("one"));
            }
        }
        "update_idle" => add("idle", call.b.to_string()),
        "insert" => add("into", queue(call.a, masks)),
        "cpu_acquire" | "cpu_release" | "cpu_online" | "cpu_offline" => add("cpu", cpu(call.a as i64)),
        _ => add("arg", format!("{:#x}", call.a)),
    }
    if call.verdict != 0 {
        add("put", queue(call.verdict, masks));
    }
    if !call.task.is_empty() {
        add("flags", format!("{:#x}", call.flags & if placed { FLAGS } else { FLAGS & !IMMED }));
        if call.task_cpu >= 0 {
            add("at", cpu(call.task_cpu.into()));
        }
        if matches!(call.op.as_str(), "stopping" | "enqueue" | "dispatch") && !masks.slices && ran {
            add("slice", if call.slice { "left" } else { "none" }.to_owned());
        }
    }
    text
}

/// Returns the name of a queue.
fn queue(id: u64, masks: &Masks) -> String {
    match id {
        0x8000_0000_0000_0001 => "GLOBAL".into(),
        0x8000_0000_0000_0002 => "LOCAL".into(),
        _ if id >> 62 == 3 && masks.cpus => "LOCAL_ON|?".into(),
        _ if id >> 62 == 3 => format!("LOCAL_ON|{}", id as u32),
        7 => "FIFO".into(),
        8 => "VTIME".into(),
        _ => format!("{id:#x}"),
    }
}

/// Returns the first difference of two sequences, with its context.
fn first_difference(task: &str, kernel: &[String], model: &[String]) -> Option<String> {
    let at = (0..kernel.len().max(model.len())).find(|&at| kernel.get(at) != model.get(at))?;
    let mut text = format!("{task}, call {}:", at + 1);
    for line in &kernel[at.saturating_sub(3)..at] {
        write!(text, "\n      both    {line}").expect("a string takes all");
    }
    for (who, story) in [("kernel", kernel), ("model ", model)] {
        for line in story.iter().skip(at).take(3) {
            write!(text, "\n      {who}  {line}").expect("a string takes all");
        }
        if at >= story.len() {
            write!(text, "\n      {who}  (nothing more)").expect("a string takes all");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_tasks_is_compared_per_cpu() {
        let run = |task: &str, task_cpu| Call { op: "running".into(), task: task.into(), task_cpu, ..Call::default() };
        let calls = [run("w_b", 1), run("*", 1), run("w_b", 1), run("w_a", 1), run("d_dir", 0), run("w_a", 2)];
        let told = |masks: Masks| turns(&calls, &masks);
        let story = |cpu: u32, tasks: &[&str]| {
            (format!("turns on CPU {cpu}"), tasks.iter().map(|task| (*task).to_owned()).collect::<Vec<String>>())
        };
        assert_eq!(told(Masks::default()), [story(1, &["w_b", "w_a"]), story(2, &["w_a"])].into());
        assert_eq!(told(Masks { alike: vec!["w_a".into()], ..Masks::default() }), [story(1, &["w_b"])].into());
        assert_eq!(told(Masks { cpus: true, ..Masks::default() }), [].into());
    }

    #[test]
    fn immed_flag_counts_from_the_first_insert_on() {
        let call = |op: &str, flags| Call { op: op.into(), task: "w_a".into(), flags, ..Call::default() };
        let told = |first, second| {
            let run = Run { calls: vec![call("runnable", first), call("running", second)], ..Run::default() };
            stories(&run, &Masks::default())
        };
        assert_eq!(told(0x401, 0x421), told(0x421, 0x421));
        assert_ne!(told(0x401, 0x421), told(0x401, 0x401));
        assert_ne!(told(0x401, 0x421), told(0x403, 0x421));
    }

    #[test]
    fn identical_tasks_share_one_set_of_calls() {
        let story = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let told = |a: &str, b: &str| {
            let mut stories = BTreeMap::from([("a".to_owned(), story(a)), ("b".to_owned(), story(b))]);
            stories.insert("c".into(), story("running"));
            unite(&mut stories, &["a".into(), "b".into()]);
            stories
        };
        let expected = [("a, b", "enqueue running"), ("c", "running")];
        assert_eq!(
            told("running enqueue", "running"),
            expected.map(|(task, words)| (task.into(), story(words))).into()
        );
        assert_eq!(told("running enqueue", "running"), told("running", "enqueue running enqueue running"));
        assert_ne!(told("running", "running"), told("running", "enqueue"));
    }
}
