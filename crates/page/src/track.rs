// SPDX-License-Identifier: GPL-2.0-only
//! Encoding of a run's timeline as columns of numbers, which `assets/timeline.js` decodes.
//!
//! 1. A JSON header preceded by its length (4 bytes, little-endian): the end time, the names of tasks, and the number
//!    of values in each column. The columns follow in that order.
//! 2. Numbers are varints: 7 bits per byte, lowest first. Times are relative to the end of the preceding interval, so
//!    they are short; with very many intervals they are in units of 100 ns, which is below the resolution of the
//!    display.
//! 3. A column contains numbers of one kind, as similar numbers deflate well.

use crate::depths::{Depth, depths};
use event_log::SwitchReason;
use ids::{CpuId, Nanos, TaskId};
use serde_json::{Map, Value, json};
use timeline::{Activity, RunInterval, Timeline, WaitReason};

/// Maximum number of run intervals with exact times.
const EXACT: usize = 200_000;
/// Resolution in nanoseconds of the times of a run with more run intervals.
const COARSE_NS: u64 = 100;

/// The events of one run that a page shows.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// Activity of each task and CPU.
    pub timeline: Timeline,
    /// Intervals in which a CPU idled while a task that was allowed there waited
    /// ([`measures::Collector::idle_gaps`]).
    pub idle_gaps: Vec<(Nanos, Nanos)>,
    /// Reason why the scheduler was ejected, if it was, as lines of text.
    pub ejection: Option<String>,
    /// Explanations of the run: titles, and lines of text.
    pub explanations: Vec<(&'static str, String)>,
}

/// A column's name and its numbers.
type Column = (&'static str, Vec<u64>);

/// A wait for a CPU, keyed by the place and time of its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Served {
    cpu: CpuId,
    at: Nanos,
    task: TaskId,
    since: Nanos,
    woken: bool,
}

/// All columns of the first `most` run intervals.
pub fn encode(track: &Track, most: usize) -> Vec<u8> {
    let timeline = &track.timeline;
    let cut = cut(timeline, most);
    let intervals: usize = timeline.cpus.iter().map(|cpu| cpu.run_intervals.len()).sum();
    let unit = if intervals.min(most) > EXACT { COARSE_NS } else { 1 };
    let clock = Clock { unit, end: cut.unwrap_or(timeline.end) };
    let (served, lost) = waits(timeline);
    let mut columns = of_run_intervals(timeline, clock, &served);
    columns.extend(of_lost(&lost, clock));
    let all = |name, lengths, rows: &[(Nanos, Nanos)]| clock.rows(name, lengths, rows.iter().copied());
    columns.extend(all("bad_gap", "bad_length", &track.idle_gaps));
    columns.extend(of_locks(timeline, clock));
    columns.extend(of_others(timeline, clock));
    let (queues, _) = depths(timeline);
    columns.extend(of_queues(&queues, clock));
    columns.extend(of_chain(timeline, clock));
    let names = |task: &timeline::Task| {
        let name = report::escape(&task.info.name).into_owned();
        json!([task.info.pid, if task.info.kernel_thread { format!("[{name}]") } else { name }])
    };
    let counts: Map<String, Value> =
        columns.iter().map(|(name, column)| ((*name).to_owned(), json!(column.len()))).collect();
    let head = json!({
        "end": clock.tick(clock.end),
        "unit": unit,
        "cut": cut.map(|cut| cut.0),
        "names": timeline.tasks.iter().map(names).collect::<Vec<_>>(),
        "queues": queues.iter().map(|queue| &queue.name).collect::<Vec<_>>(),
        "columns": counts,
    });
    let head = serde_json::to_vec(&head).expect("numbers and texts");
    let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
    bytes.extend(head);
    columns.iter().flat_map(|(_, column)| column).for_each(|&number| varint(&mut bytes, number));
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Time at which the timeline must be cut so that at most `most` run intervals begin before; `None` if it need not be
/// cut.
pub fn cut(timeline: &Timeline, most: usize) -> Option<Nanos> {
    let mut begins: Vec<Nanos> =
        timeline.cpus.iter().flat_map(|cpu| &cpu.run_intervals).map(|interval| interval.from).collect();
    if begins.len() <= most {
        return None;
    }
    let (_, last, _) = begins.select_nth_unstable(most);
    Some(*last)
}

/// Conversion of times to columns.
#[derive(Clone, Copy)]
struct Clock {
    unit: u64,
    end: Nanos,
}

impl Clock {
    fn tick(self, time: Nanos) -> u64 {
        time.0 / self.unit
    }

    /// The part of an interval before the end.
    fn within(self, from: Nanos, to: Nanos) -> Option<(u64, u64)> {
        (from < self.end).then(|| (self.tick(from), self.tick(to.min(self.end))))
    }

    /// Intervals as gaps and lengths.
    fn rows(
        self,
        gaps: &'static str,
        lengths: &'static str,
        rows: impl Iterator<Item = (Nanos, Nanos)>,
    ) -> [Column; 2] {
        let (mut last, mut columns) = (0, [(gaps, Vec::new()), (lengths, Vec::new())]);
        for (from, to) in rows.filter_map(|(from, to)| self.within(from, to)) {
            // Intervals are ordered and disjoint.
            columns[0].1.push(from.saturating_sub(last));
            columns[1].1.push(to.saturating_sub(from.max(last)));
            last = to.max(last);
        }
        columns
    }
}

/// The waits that ended on a CPU, in order, and those that did not, with begin and end of each.
fn waits(timeline: &Timeline) -> (Vec<Served>, Vec<(TaskId, Nanos, Nanos)>) {
    let (mut served, mut lost) = (Vec::new(), Vec::new());
    for (task, row) in (0..).map(TaskId).zip(&timeline.tasks) {
        for (index, phase) in row.phases.iter().enumerate() {
            let Activity::Waits { reason } = phase.activity else { continue };
            match row.phases.get(index + 1).map(|next| next.activity) {
                Some(Activity::Runs { cpu }) => {
                    let woken = matches!(reason, WaitReason::Woken { .. });
                    served.push(Served { cpu, at: phase.to, task, since: phase.from, woken });
                }
                _ => lost.push((task, phase.from, phase.to)),
            }
        }
    }
    served.sort_unstable();
    (served, lost)
}

fn of_run_intervals(timeline: &Timeline, clock: Clock, served: &[Served]) -> Vec<Column> {
    let mut columns = ["intervals", "gap", "length", "task", "wait", "reason"].map(|name| (name, Vec::<u64>::new()));
    for (cpu, row) in (0..).map(CpuId).zip(&timeline.cpus) {
        let (mut last, mut count) = (0, 0);
        for interval in &row.run_intervals {
            let Some((from, to)) = clock.within(interval.from, interval.to) else { break };
            let wait = wait_of(served, cpu, interval);
            let waited = wait.map_or(0, |wait| from.saturating_sub(clock.tick(wait.since)));
            let woken = u64::from(wait.is_some_and(|wait| wait.woken));
            let reason = interval.reason.map_or(0, |reason| 1 + number(reason));
            let numbers =
                [from.saturating_sub(last), to - from, u64::from(interval.task.0), waited, reason * 2 + woken];
            columns[1..].iter_mut().zip(numbers).for_each(|((_, column), number)| column.push(number));
            (last, count) = (to, count + 1);
        }
        columns[0].1.push(count);
    }
    columns.into()
}

/// The wait that a run interval ended.
fn wait_of<'a>(served: &'a [Served], cpu: CpuId, interval: &RunInterval) -> Option<&'a Served> {
    let first = served.partition_point(|wait| (wait.cpu, wait.at, wait.task) < (cpu, interval.from, interval.task));
    served.get(first).filter(|wait| (wait.cpu, wait.at, wait.task) == (cpu, interval.from, interval.task))
}

/// Number of a switch reason, as used by `timeline.js`.
fn number(reason: SwitchReason) -> u64 {
    match reason {
        SwitchReason::Idle => 0,
        SwitchReason::Block => 1,
        SwitchReason::Exit => 2,
        SwitchReason::Yield => 3,
        SwitchReason::SliceEnd => 4,
        SwitchReason::Preempt => 5,
        SwitchReason::HigherClass => 6,
        SwitchReason::Change => 7,
    }
}

fn of_lost(lost: &[(TaskId, Nanos, Nanos)], clock: Clock) -> [Column; 3] {
    let mut columns = ["lost_from", "lost_length", "lost_task"].map(|name| (name, Vec::new()));
    for &(task, from, to) in lost {
        let Some((from, to)) = clock.within(from, to) else { continue };
        columns
            .iter_mut()
            .zip([from, to - from, u64::from(task.0)])
            .for_each(|((_, column), number)| column.push(number));
    }
    columns
}

fn of_locks(timeline: &Timeline, clock: Clock) -> [Column; 3] {
    let mut columns = [("locks", Vec::new()), ("lock_gap", Vec::new()), ("lock_length", Vec::new())];
    for cpu in &timeline.cpus {
        let waits = cpu.lock_waits.iter().map(|&(from, _, waited)| (from, from + waited));
        let [(_, gaps), (_, lengths)] = clock.rows("lock_gap", "lock_length", waits);
        columns[0].1.push(gaps.len() as u64);
        columns[1].1.extend(gaps);
        columns[2].1.extend(lengths);
    }
    columns
}

/// Intervals in which CPUs were busy with tasks outside the run.
fn of_others(timeline: &Timeline, clock: Clock) -> [Column; 3] {
    let mut columns = [("others", Vec::new()), ("other_gap", Vec::new()), ("other_length", Vec::new())];
    for cpu in &timeline.cpus {
        let [(_, gaps), (_, lengths)] = clock.rows("other_gap", "other_length", cpu.others.iter().copied());
        columns[0].1.push(gaps.len() as u64);
        columns[1].1.extend(gaps);
        columns[2].1.extend(lengths);
    }
    columns
}

/// Number of tasks in each queue, with the times from which on.
fn of_queues(queues: &[Depth], clock: Clock) -> [Column; 3] {
    let mut columns = [("depths", Vec::new()), ("depth_gap", Vec::new()), ("depth", Vec::new())];
    for queue in queues {
        let (mut last, mut count) = (0, 0);
        for &(time, depth) in queue.steps.iter().take_while(|(time, _)| *time < clock.end) {
            columns[1].1.push(clock.tick(time) - last);
            columns[2].1.push(u64::from(depth));
            (last, count) = (clock.tick(time), count + 1);
        }
        columns[0].1.push(count);
    }
    columns
}

fn of_chain(timeline: &Timeline, clock: Clock) -> Vec<Column> {
    let links: Vec<timeline::Link> =
        timeline.chain(None).links.into_iter().filter(|link| link.from < clock.end).collect();
    let rows = clock.rows("chain_gap", "chain_length", links.iter().map(|link| (link.from, link.to)));
    let mut columns = Vec::from(rows);
    columns.push(("chain_task", links.iter().map(|link| u64::from(link.task.0)).collect()));
    columns.push(("chain_kind", links.iter().map(|link| link.kind as u64).collect()));
    columns
}
