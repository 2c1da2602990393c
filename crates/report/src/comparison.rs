// SPDX-License-Identifier: GPL-2.0-only
//! The text for several runs: what differs, by how much, and what that means in a sentence.
//!
//! 1. The runs are compared along the first of scheduler, machine, workload that has several values; runs that agree
//!    in the others form a group.
//! 2. In a group each row is a measure and each column a run. The first run is the base; the others show their value
//!    and their distance from the base, marked where better and worse are known.
//! 3. Measures that are the same in all runs (to 0.1 %) are named in one line below, not shown as rows.
//! 4. A sentence per run says the most important of it, drawn from the numbers alone.

use crate::RunReport;
use crate::numbers::{COLUMNS, GLUE, change, count, percent, permille, shorten, times, versus, wrap};
use crate::summary::{align, deadlock, ejection, plain, refusals, warnings};
use ids::Nanos;
use measures::RunMeasures;
use std::fmt::Write;

/// Runs in one table beside the base: more do not fit into 80 columns.
const OTHERS: usize = 2;

/// Which way is better.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    Less,
    More,
    /// Neither: a scheduler may have good reason for either.
    Unknown,
}

#[derive(Clone, Copy)]
enum Unit {
    Time,
    Count,
}

/// One row: a name, which way is better, and where the number is.
struct Measure {
    name: &'static str,
    better: Better,
    unit: Unit,
    value: fn(&RunMeasures) -> Option<u64>,
}

const fn time(name: &'static str, better: Better, value: fn(&RunMeasures) -> Option<u64>) -> Measure {
    Measure { name, better, unit: Unit::Time, value }
}

const fn number(name: &'static str, better: Better, value: fn(&RunMeasures) -> Option<u64>) -> Measure {
    Measure { name, better, unit: Unit::Count, value }
}

/// Less CPU time for the same work is better, but runs of fixed length do different work: so CPU time has no mark and
/// work done has one.
const MEASURES: [Measure; 23] = [
    time("makespan", Better::Less, |m| m.makespan.map(|makespan| makespan.0)),
    time("elapsed", Better::Unknown, |m| m.makespan.is_none().then_some(m.elapsed.0)),
    time("work done", Better::More, |m| Some(work_done(m))),
    time("CPU: run", Better::Unknown, |m| Some(m.cpu.run.0)),
    time("CPU: idle", Better::Unknown, |m| Some(m.cpu.idle.0)),
    time("CPU: scheduler", Better::Less, |m| Some(m.cpu.scheduler.0)),
    time("CPU: stolen", Better::Less, |m| Some(m.cpu.stolen.0)),
    time("idle while runnable", Better::Less, |m| Some(m.idle_while_runnable.0)),
    number("context switches", Better::Unknown, |m| Some(m.context_switches)),
    number("wakeups", Better::Unknown, |m| Some(m.wakeups)),
    time("wakeup mean", Better::Less, |m| Some(m.wakeup_latency.mean.0)),
    time("wakeup p50", Better::Less, |m| Some(m.wakeup_latency.p50.0)),
    time("wakeup p90", Better::Less, |m| Some(m.wakeup_latency.p90.0)),
    time("wakeup p99", Better::Less, |m| Some(m.wakeup_latency.p99.0)),
    time("wakeup max", Better::Less, |m| Some(m.wakeup_latency.max.0)),
    time("queue wait mean", Better::Less, |m| Some(m.queue_wait.mean.0)),
    time("queue wait max", Better::Less, |m| Some(m.queue_wait.max.0)),
    number("moves in core", Better::Unknown, |m| Some(m.migrations.smt)),
    number("moves in cache", Better::Unknown, |m| Some(m.migrations.llc)),
    number("moves in node", Better::Unknown, |m| Some(m.migrations.node)),
    number("moves far", Better::Unknown, |m| Some(m.migrations.far)),
    number("BPF instructions", Better::Unknown, |m| Some(m.bpf_instructions)),
    time("lock wait", Better::Less, |m| Some(m.lock_wait.0)),
];

fn work_done(measures: &RunMeasures) -> u64 {
    measures.tasks.iter().map(|task| task.account.work.0).sum()
}

impl Measure {
    fn text(&self, value: Option<u64>) -> String {
        match (value, self.unit) {
            (None, _) => "-".to_owned(),
            (Some(value), Unit::Time) => Nanos(value).to_string(),
            (Some(value), Unit::Count) => count(value),
        }
    }

    /// The value of a run that is not the base, and its distance. An ejected scheduler did other work: what it has
    /// less or more of is neither better nor worse.
    fn cell(&self, base: &RunReport, run: &RunReport) -> String {
        let comparable = base.ejected.is_none() && run.ejected.is_none();
        let (base, value) = ((self.value)(&base.measures), (self.value)(&run.measures));
        let (Some(base), Some(value)) = (base, value) else { return format!("{}          ", self.text(value)) };
        let mark = match (self.better, change(base, value).unwrap_or(1)) {
            (_, 0) | (Better::Unknown, _) => ' ',
            _ if !comparable => ' ',
            (Better::Less, ..0) | (Better::More, 1..) => '✓',
            _ => '✗',
        };
        format!("{} {:>8} {mark}", self.text(Some(value)), versus(base, value).unwrap_or_default())
    }

    /// To a tenth of a percent, which is all that a row could show.
    fn is_same(&self, runs: &[&RunReport]) -> bool {
        let first = (self.value)(&runs[0].measures);
        runs.iter().all(|run| match (first, (self.value)(&run.measures)) {
            (Some(first), Some(value)) => first == value || change(first, value) == Some(0),
            (first, value) => first == value,
        })
    }
}

/// What one run is called where all else is the same.
type Axis = fn(&RunReport) -> &str;

/// Name and accessor of each thing that runs can differ in, the most interesting first.
const AXES: [(&str, Axis); 3] = [
    ("scheduler", |run| run.scheduler.as_str()),
    ("machine", |run| run.machine.as_str()),
    ("workload", |run| run.workload.as_str()),
];

/// What differs between several runs and by how much, at most 80 columns wide.
pub fn comparison(runs: &[RunReport]) -> String {
    let several = |axis: Axis| runs.iter().any(|run| axis(run) != axis(&runs[0]));
    let axis = AXES.iter().position(|(_, axis)| several(*axis)).unwrap_or(0);
    let rest = |run: &RunReport| AXES.map(|(name, value)| (name, value(run).to_owned()));
    let mut groups: Vec<Vec<&RunReport>> = Vec::new();
    for run in runs {
        let same =
            |group: &&mut Vec<&RunReport>| (0..AXES.len()).all(|i| i == axis || rest(group[0])[i] == rest(run)[i]);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let texts: Vec<String> = groups.iter().map(|group| group_text(group, axis)).collect();
    texts.join("\n")
}

fn group_text(runs: &[&RunReport], axis: usize) -> String {
    let mut text = String::new();
    let others = AXES.iter().enumerate().filter(|(index, _)| *index != axis);
    let tags: Vec<String> = others.map(|(_, (name, value))| format!("{name} {}", value(runs[0]))).collect();
    let title = format!("{}, seed {}, kernel {}", tags.join(", "), runs[0].seed, runs[0].kernel);
    let _ = writeln!(text, "{}\n", wrap("", &title));
    let (same, differing): (Vec<&Measure>, Vec<&Measure>) = MEASURES.iter().partition(|measure| measure.is_same(runs));
    let base = runs[0];
    for others in runs[1..].chunks(OTHERS) {
        let _ = writeln!(text, "{}\n", table(AXES[axis], base, others, &differing));
    }
    let same: Vec<String> = same.iter().filter_map(|measure| said_once(measure, base)).collect();
    if !same.is_empty() {
        let _ = writeln!(text, "{}\n", wrap("", &format!("The same to 0.1 %: {}.", same.join(", "))));
    }
    for run in runs {
        if let Some(exit) = &run.ejected {
            let _ = writeln!(text, "{} was ejected after {}:", AXES[axis].1(run), run.measures.elapsed);
            text.push_str(&ejection(exit));
        } else if run.deadlocked {
            let _ = writeln!(text, "{}", wrap("", &format!("{}: {}", AXES[axis].1(run), deadlock(run))));
        }
    }
    for run in runs {
        let who = format!("{}: ", AXES[axis].1(run));
        text.push_str(&refusals(run, &who));
        text.push_str(&warnings(run, &who));
    }
    for run in &runs[1..] {
        let _ = writeln!(text, "{}", wrap("", &conclusion(AXES[axis].1, base, run)));
    }
    text
}

/// A measure that all runs share, unless there is nothing to say of it.
fn said_once(measure: &Measure, run: &RunReport) -> Option<String> {
    let value = (measure.value)(&run.measures).filter(|&value| value > 0)?;
    Some(format!("{} {}", measure.name, measure.text(Some(value))).replace(' ', &GLUE.to_string()))
}

fn table((name, axis): (&str, Axis), base: &RunReport, others: &[&RunReport], rows: &[&Measure]) -> String {
    let width = (COLUMNS - 22) / (others.len() + 1) - 2;
    let mut header = vec![name.to_owned(), shorten(axis(base), width)];
    header.extend(others.iter().map(|run| format!("{}          ", shorten(axis(run), width))));
    let mut table = plain(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for measure in rows {
        let mut cells = vec![measure.name.to_owned(), measure.text((measure.value)(&base.measures))];
        cells.extend(others.iter().map(|run| measure.cell(base, run)));
        table.add_row(cells);
    }
    align(&mut table)
}

/// What a run means against the base: the end of the work, the median wakeup, the switches.
fn conclusion(axis: Axis, base: &RunReport, run: &RunReport) -> String {
    let (name, first) = (axis(run), axis(base));
    if run.ejected.is_some() || base.ejected.is_some() {
        let who = if run.ejected.is_some() { name } else { first };
        return format!("{who} was ejected, so {name} and {first} did not do the same work.");
    }
    let said: Vec<String> = [said_of_work(base, run), said_of_wakeups(base, run), said_of_switches(base, run)]
        .into_iter()
        .flatten()
        .collect();
    match said.as_slice() {
        [] => format!("{name} does not differ from {first} in any way that matters."),
        [one] => format!("Against {first}, {name} {one}."),
        [most @ .., last] => format!("Against {first}, {name} {} and {last}.", most.join(", ")),
    }
}

fn said_of_work(base: &RunReport, run: &RunReport) -> Option<String> {
    if let (Some(before), Some(after)) = (base.measures.makespan, run.measures.makespan) {
        let when = match change(before.0, after.0)? {
            0 => "at the same time".to_owned(),
            distance @ ..0 => format!("{} sooner", percent(distance.unsigned_abs())),
            distance => format!("{} later", percent(distance as u64)),
        };
        return Some(format!("finishes {} {when}", run.workload));
    }
    let distance = change(work_done(&base.measures), work_done(&run.measures)).filter(|&distance| distance != 0)?;
    Some(format!("gets {} done", amount(distance, "work")))
}

fn said_of_wakeups(base: &RunReport, run: &RunReport) -> Option<String> {
    let (before, after) = (base.measures.wakeup_latency.p50.0, run.measures.wakeup_latency.p50.0);
    let (small, large) = (before.min(after), before.max(after));
    // Within 1 % the histogram itself cannot tell them apart.
    if permille(large - small, large) <= 10 {
        return None;
    }
    let direction = if after < before { "shorter" } else { "longer" };
    let ratio = permille(large, small);
    Some(match ratio {
        0 => format!("has a median wakeup wait of {} instead of {}", Nanos(after), Nanos(before)),
        2000.. => format!("has a {} times {direction} median wakeup wait", times(ratio)),
        _ => {
            let distance = permille(large - small, before);
            format!("has a {} {direction} median wakeup wait", percent(distance))
        }
    })
}

fn said_of_switches(base: &RunReport, run: &RunReport) -> Option<String> {
    let distance = change(base.measures.context_switches, run.measures.context_switches)?;
    (distance.abs() >= 10).then(|| format!("makes {}", amount(distance, "context switches")))
}

/// `3.1 % less work`, `12.0 times as many context switches`.
fn amount(distance: i64, what: &str) -> String {
    let countable = what.ends_with('s');
    let (less, more, many) = if countable { ("fewer", "more", "many") } else { ("less", "more", "much") };
    match distance {
        1000.. => format!("{} times as {many} {what}", times(distance as u64 + 1000)),
        0.. => format!("{} {more} {what}", percent(distance as u64)),
        _ => format!("{} {less} {what}", percent(distance.unsigned_abs())),
    }
}
