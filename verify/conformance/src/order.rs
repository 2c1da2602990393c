// SPDX-License-Identifier: GPL-2.0-only
//! Order of tasks and run intervals: the same workloads under the kernel's own classes, in a real kernel and in the
//! model.
//!
//! A *run interval* is a task's time on a CPU until it sleeps, exits, migrates, or another task of the workload runs
//! there. Other tasks in between (other programs, kthreads) do not end it, and their time is not counted. For the
//! tasks of one name, a round has the number of run intervals, their median and 90th percentile, how many of 1,000
//! ended by preemption, and how many of 1,000 were followed on that CPU by each name. Recorded processes have too
//! many names; there the successor is the parent, a child, a sibling or another task.
//!
//! A value of the model agrees if it is no farther from the range of the real rounds than that range is wide. The
//! width counts as at least a twentieth of the median, and for shares as at least 20 of 1,000.

use crate::classes::{HOST, Host, RECORDINGS, WORKLOADS, simulate, stem};
use anyhow::{Context, Result, anyhow, bail};
use event_log::{Event, EventKind, LogReader, Sink, SwitchReason, TaskInfo};
use ids::{CpuSet, Nanos, TaskId};
use saved_run::SavedRun;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use workload::Workload;

/// Kept records of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// Version of the kernel, for display.
    pub kernel: &'static str,
    host: Host,
    /// Recorded workloads; all if empty.
    played: &'static [&'static str],
    ranges: &'static str,
    /// Known differences of the model: `WORKLOAD TASKS WHAT: reason`, one per line.
    pub known: &'static str,
}

/// Records of a host with a 6.18 kernel and 2 CPUs, and of 7.2 with 2 CPUs in the deterministic virtual machine.
pub const RECORDS: [Records; 2] = [
    Records {
        kernel: "6.18",
        host: HOST,
        played: &[],
        ranges: include_str!("../recorded/order-6.18"),
        known: include_str!("../classes/order-misses"),
    },
    Records {
        kernel: "7.2",
        host: Host { kernel: (7, 2), machine: include_str!("../classes/icount.toml") },
        played: &["hogs-1", "light-1", "periodic-1", "pingpong-1"],
        ranges: include_str!("../recorded/order-7.2"),
        known: include_str!("../classes/order-misses-7.2"),
    },
];

/// With fewer run intervals only their number is compared.
const MIN_RUN_INTERVALS: u64 = 100;
/// Number per 1,000 run intervals that ended while a foreign task had the CPU; not compared, because the model has
/// none.
const DISTURBED: &str = "disturbed";
/// Successors rarer than this many per 1,000 in all rounds are left out.
const RARE: u64 = 20;
/// Minimum width of a range: a part of the median, or this many of 1,000 for shares.
const NARROWEST_PART: f64 = 0.05;
const NARROWEST_SHARE: f64 = 20.0;

/// Workload, tasks, and measure: `run_intervals`, `median_ns`, `p90_ns`, `preempted`, or `then NAME`.
pub type Key = (String, String, String);
/// Measures of one round of runs.
pub type Round = BTreeMap<Key, u64>;

/// The last run interval of a CPU.
#[derive(Clone, Copy, Debug)]
struct RunInterval {
    task: TaskId,
    ran: Nanos,
    /// Time at which the task got the CPU; `None` while a foreign task has it.
    since: Option<Nanos>,
    /// Whether a foreign task had the CPU when the interval ended.
    elsewhere: bool,
    /// Set when it is over: whether the task left voluntarily.
    over: Option<bool>,
}

#[derive(Default, Debug)]
struct Group {
    lengths: Vec<u64>,
    preempted: u64,
    disturbed: u64,
    then: BTreeMap<String, u64>,
}

/// Observes switches and collects run intervals.
#[derive(Default, Debug)]
pub struct RunIntervals {
    tasks: Vec<Option<TaskInfo>>,
    cpus: Vec<Option<RunInterval>>,
    groups: BTreeMap<String, Group>,
    /// Distinguishes tasks by kinship instead of names.
    kinship: bool,
    /// Final names of tasks, if known.
    names: Vec<String>,
}

impl RunIntervals {
    /// Creates an observer for a workload with task names, or for recorded processes.
    pub fn new(recorded: bool) -> RunIntervals {
        RunIntervals { kinship: recorded, ..RunIntervals::default() }
    }

    fn info(&self, task: TaskId) -> Option<&TaskInfo> {
        self.tasks.get(task.some()?.index())?.as_ref()
    }

    /// Records that a task of the workload gets `cpu`.
    fn starts(&mut self, cpu: usize, task: TaskId, now: Nanos) {
        for other in self
            .cpus
            .iter_mut()
            .enumerate()
            .filter(|(other, _)| *other != cpu)
            .filter_map(|(_, interval)| interval.as_mut())
        {
            if other.task == task && other.over.is_none() {
                other.over = Some(false);
            }
        }
        match &mut self.cpus[cpu] {
            Some(interval) if interval.task == task && interval.over.is_none() => {
                (interval.since, interval.elsewhere) = (Some(now), false)
            }
            open => {
                let next = RunInterval { task, ran: Nanos::ZERO, since: Some(now), elsewhere: false, over: None };
                if let Some(interval) = open.replace(next) {
                    self.keep(interval, Some(task));
                }
            }
        }
    }

    fn keep(&mut self, interval: RunInterval, next: Option<TaskId>) {
        let group = if self.kinship { "process".to_owned() } else { self.name(interval.task) };
        let then = next.map(|next| self.relation(interval.task, next));
        let group = self.groups.entry(group).or_default();
        group.lengths.push(interval.ran.0);
        group.preempted += u64::from(!interval.over.unwrap_or(false));
        group.disturbed += u64::from(interval.over.is_none() && interval.elsewhere);
        if let Some(then) = then {
            *group.then.entry(then).or_default() += 1;
        }
    }

    fn name(&self, task: TaskId) -> String {
        let last = self.names.get(task.index());
        let name = last.or_else(|| self.info(task).map(|info| &info.name));
        name.map_or("?", |name| stem(name)).to_owned()
    }

    fn relation(&self, task: TaskId, next: TaskId) -> String {
        let parent = |task| self.info(task).and_then(|info| info.parent);
        let word = match () {
            () if task == next => "itself",
            () if !self.kinship => return self.name(next),
            () if parent(task) == Some(next) => "parent",
            () if parent(next) == Some(task) => "child",
            () if parent(task).is_some() && parent(task) == parent(next) => "sibling",
            () => "other",
        };
        word.to_owned()
    }

    /// Returns the measures, for a workload of this name.
    pub fn round(mut self, workload: &str) -> Round {
        for interval in std::mem::take(&mut self.cpus).into_iter().flatten() {
            self.keep(interval, None);
        }
        let mut round = Round::new();
        for (who, mut group) in self.groups {
            group.lengths.sort_unstable();
            let count = group.lengths.len() as u64;
            let mut put = |what: String, value: u64| round.insert((workload.to_owned(), who.clone(), what), value);
            put("run_intervals".to_owned(), count);
            put("median_ns".to_owned(), group.lengths[group.lengths.len() / 2]);
            put("p90_ns".to_owned(), group.lengths[group.lengths.len() * 9 / 10]);
            put("preempted".to_owned(), group.preempted * 1000 / count);
            put(DISTURBED.to_owned(), group.disturbed * 1000 / count);
            let followed: u64 = group.then.values().sum();
            for (then, times) in group.then {
                put(format!("then {then}"), times * 1000 / followed);
            }
        }
        round
    }
}

impl Sink for RunIntervals {
    fn task(&mut self, _: Nanos, info: &TaskInfo) {
        let index = info.id.index();
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, None);
        }
        self.tasks[index] = Some(info.clone());
    }

    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}

    fn event(&mut self, event: &Event) {
        let EventKind::Switch { prev, reason } = event.kind else { return };
        let (cpu, now) = (event.cpu.index(), event.time);
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, None);
        }
        if let Some(interval) = self.cpus[cpu].as_mut().filter(|interval| interval.task == prev)
            && let Some(since) = interval.since.take()
        {
            interval.ran += now.since(since);
            interval.elsewhere = event.task == TaskId::NONE;
            if matches!(reason, SwitchReason::Block | SwitchReason::Exit) {
                interval.over = Some(true);
            }
        }
        if self.info(event.task).is_some_and(|info| !info.kernel_thread) {
            self.starts(cpu, event.task, now);
        }
    }
}

/// Range and median of real rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Real {
    /// Minimum of all rounds.
    pub least: u64,
    /// Median of the rounds.
    pub median: u64,
    /// Maximum of all rounds.
    pub most: u64,
}

impl Real {
    /// Returns whether a value is within the range of the rounds, widened by its width on both sides.
    fn admits(&self, value: u64, is_share: bool) -> bool {
        let narrowest = if is_share { NARROWEST_SHARE } else { self.median as f64 * NARROWEST_PART };
        let width = ((self.most - self.least) as f64).max(narrowest);
        let value = value as f64;
        value >= self.least as f64 - width && value <= self.most as f64 + width
    }
}

/// Returns the records of this kernel.
pub fn records(kernel: &str) -> Result<&'static Records> {
    let known = RECORDS.map(|records| records.kernel).join(", ");
    let found = RECORDS.iter().find(|records| records.kernel == kernel);
    found.ok_or_else(|| anyhow!("no records of kernel {kernel:?}; expected one of {known}"))
}

impl Records {
    /// Returns the names of the workloads, and whether each is a recording.
    fn names(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let synthetic = WORKLOADS.iter().map(|&(name, _)| (name, false));
        let all = synthetic.chain(RECORDINGS.iter().map(|&(name, _)| (name, true)));
        all.filter(|(name, _)| self.played.is_empty() || self.played.contains(name))
    }

    /// Returns the kernel's measures.
    pub fn ranges(&self) -> Result<BTreeMap<Key, Real>> {
        read(self.ranges)
    }

    /// Returns the model's measures with this seed.
    pub fn simulated(&self, seed: u64) -> Result<Round> {
        let mut round = Round::new();
        for (name, recorded) in self.names() {
            let mut intervals = RunIntervals::new(recorded);
            simulate(self.host, &workload(name)?, seed, &mut intervals)?;
            round.extend(intervals.round(name));
        }
        Ok(round)
    }

    /// Reads the output of `weir run --save`: one directory per round, with `WORKLOAD.weirrun`.
    pub fn saved(&self, folders: &[impl AsRef<Path>]) -> Result<BTreeMap<Key, Real>> {
        let mut rounds = Vec::new();
        for folder in folders {
            let mut round = Round::new();
            for (name, recorded) in self.names() {
                let path = folder.as_ref().join(format!("{name}.weirrun"));
                let place = || path.display().to_string();
                round.extend(one(&std::fs::read(&path).with_context(place)?, name, recorded).with_context(place)?);
            }
            rounds.push(round);
        }
        if rounds.len() < 3 {
            bail!("{} directories of saved runs; expected one for each of three or more rounds", rounds.len());
        }
        Ok(ranges(&rounds))
    }
}

fn workload(name: &str) -> Result<Workload> {
    let synthetic = WORKLOADS.iter().find(|(other, _)| *other == name);
    let recorded = || RECORDINGS.iter().find(|(other, _)| *other == name).expect("every name is that of a workload");
    Ok(match synthetic {
        Some((_, text)) => Workload::from_rt_app(name, text)?,
        None => Workload::from_bytes(name, recorded().1)?,
    })
}

fn one(bytes: &[u8], name: &str, recorded: bool) -> Result<Round> {
    let saved = SavedRun::from_bytes(bytes)?;
    let events =
        saved.part("events/0")?.ok_or_else(|| anyhow!("it has no part \"events/0\"; expected a log of events"))?;
    let runs = saved.part("runs.json")?.ok_or_else(|| anyhow!("it has no part \"runs.json\"; expected a report"))?;
    let runs: Reports = serde_json::from_slice(&runs)?;
    let mut reader = LogReader::new(&events[..])?;
    let mut intervals = RunIntervals::new(recorded);
    intervals.names = runs.runs.into_iter().next().map_or(Vec::new(), Report::names);
    while let Some(record) = reader.read()? {
        record.send_to(&mut intervals);
    }
    Ok(intervals.round(name))
}

#[derive(Deserialize)]
struct Reports {
    runs: Vec<Report>,
}

#[derive(Deserialize)]
struct Report {
    tasks: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    id: usize,
    name: String,
}

impl Report {
    /// Returns final names by task number, because a real task starts with its parent's name.
    fn names(self) -> Vec<String> {
        let mut names = Vec::new();
        for Named { id, name } in self.tasks {
            names.resize(names.len().max(id + 1), String::new());
            names[id] = name;
        }
        names
    }
}

/// A measure missing in a round counts as 0.
fn ranges(rounds: &[Round]) -> BTreeMap<Key, Real> {
    let keys: std::collections::BTreeSet<&Key> = rounds.iter().flat_map(BTreeMap::keys).collect();
    let mut ranges = BTreeMap::new();
    for key in keys {
        let mut values: Vec<u64> = rounds.iter().map(|round| round.get(key).copied().unwrap_or(0)).collect();
        values.sort_unstable();
        let real = Real { least: values[0], median: values[values.len() / 2], most: values[values.len() - 1] };
        if !(key.2.starts_with("then ") && real.most < RARE) {
            ranges.insert(key.clone(), real);
        }
    }
    ranges
}

/// Formats as text, one measure per line.
pub fn write(real: &BTreeMap<Key, Real>) -> String {
    let mut text = String::from("# workload tasks least median most what\n");
    for ((workload, who, what), Real { least, median, most }) in real {
        writeln!(text, "{workload} {who} {least} {median} {most} {what}").expect("a string takes all");
    }
    text
}

/// Parses the text of [`write`].
pub fn read(text: &str) -> Result<BTreeMap<Key, Real>> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    lines.map(|(line, number)| parse(line).ok_or_else(|| anyhow!("line {number}: expected six columns"))).collect()
}

fn parse(line: &str) -> Option<(Key, Real)> {
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let [workload, who, least, median, most, what] = words[..] else { return None };
    let real = Real { least: least.parse().ok()?, median: median.parse().ok()?, most: most.parse().ok()? };
    Some(((workload.to_owned(), who.to_owned(), what.to_owned()), real))
}

/// Returns a table, and whether everything agrees except known differences.
pub fn compare(real: &BTreeMap<Key, Real>, model: &Round, known: &str) -> (String, bool) {
    let known: Vec<(&str, &str)> =
        known.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": ")).collect();
    let mut text = format!("{:12} {:9} {:14} {:>24} {:>10}\n", "workload", "tasks", "what", "real rounds", "model");
    let (mut agreed, mut all, mut well) = (0, 0, true);
    let mut used = vec![false; known.len()];
    for (key, range) in real {
        let (workload, who, what) = key;
        let range_of = |what: &str| real.get(&(workload.clone(), who.clone(), what.to_owned()));
        if what != "run_intervals" && range_of("run_intervals").is_some_and(|count| count.median < MIN_RUN_INTERVALS) {
            continue;
        }
        let value = model.get(key).copied().unwrap_or(0);
        let Real { least, median, most } = range;
        let shown = format!("{least}..{median}..{most}");
        if what == DISTURBED {
            writeln!(text, "{workload:12} {who:9} {what:14} {shown:>24}").expect("a string takes all");
            continue;
        }
        let fits = range.admits(value, what == "preempted" || what.starts_with("then "));
        let name = format!("{workload} {who} {what}");
        let why = known.iter().position(|(known, _)| *known == name);
        all += 1;
        agreed += usize::from(fits);
        let verdict = match (fits, why) {
            (true, None) => String::new(),
            (true, Some(_)) => "  AGREES AFTER ALL".to_owned(),
            (false, Some(why)) => format!("  misses: {}", known[why].1),
            (false, None) => "  MISSES, NOT KNOWN".to_owned(),
        };
        well &= fits == why.is_none();
        why.into_iter().for_each(|why| used[why] = true);
        writeln!(text, "{workload:12} {who:9} {what:14} {shown:>24} {value:>10}{verdict}").expect("a string takes all");
    }
    for ((name, _), _) in known.iter().zip(&used).filter(|(_, used)| !**used) {
        well = false;
        writeln!(text, "NOT COMPARED, THOUGH KNOWN: {name}").expect("a string takes all");
    }
    writeln!(text, "{agreed} of {all} numbers agree").expect("a string takes all");
    (text, well)
}

#[cfg(test)]
mod tests {
    use super::*;
    use event_log::CallbackSite;
    use ids::{CpuId, Policy};

    fn info(id: u32, name: &str, parent: Option<u32>) -> TaskInfo {
        let (name, parent) = (name.to_owned(), parent.map(TaskId));
        TaskInfo {
            id: TaskId(id),
            pid: 100 + id,
            name,
            parent,
            allowed: CpuSet::first_n(2),
            policy: Policy::Other,
            nice: 0,
            kernel_thread: false,
        }
    }

    /// Observes switches given as time in us, CPU, next task, previous task, reason.
    fn observe(recorded: bool, switches: &[(u64, u32, TaskId, TaskId, SwitchReason)]) -> Round {
        let mut intervals = RunIntervals::new(recorded);
        let tasks = [info(0, "a-0", None), info(1, "b", Some(0)), info(2, "b-1", Some(0))];
        tasks.iter().for_each(|task| intervals.task(Nanos::ZERO, task));
        for &(us, cpu, task, prev, reason) in switches {
            let (time, cpu) = (Nanos::from_us(us), CpuId(cpu));
            let site = CallbackSite::default();
            intervals.event(&Event { time, cpu, task, site, kind: EventKind::Switch { prev, reason } });
        }
        intervals.round("w")
    }

    fn number(round: &Round, who: &str, what: &str) -> u64 {
        round.get(&("w".to_owned(), who.to_owned(), what.to_owned())).copied().unwrap_or(0)
    }

    #[test]
    fn foreign_task_does_not_end_a_run_interval_but_sleep_does() {
        use SwitchReason::{Block, Idle, Preempt};
        let (a, b, none) = (TaskId(0), TaskId(1), TaskId::NONE);
        let round = observe(
            false,
            &[
                (0, 0, a, none, Idle),
                (100, 0, none, a, Preempt),
                (150, 0, a, none, Idle),
                (250, 0, b, a, Preempt),
                (550, 0, none, b, Block),
                (900, 0, b, none, Idle),
                (1000, 0, none, b, Block),
                (1100, 0, a, none, Idle),
            ],
        );
        assert_eq!(number(&round, "a", "run_intervals"), 2);
        assert_eq!((number(&round, "b", "run_intervals"), number(&round, "b", "preempted")), (2, 0));
        assert_eq!((number(&round, "b", "median_ns"), number(&round, "b", "p90_ns")), (300_000, 300_000));
        assert_eq!((number(&round, "b", "then itself"), number(&round, "b", "then a")), (500, 500));
        assert_eq!(number(&round, "a", "disturbed"), 0, "the task had the CPU again before the other came");
        assert_eq!((number(&round, "a", "preempted"), number(&round, "a", "then b")), (1000, 1000));
        assert_eq!(number(&round, "a", "median_ns"), 200_000, "100 and 100 us; the last one has only begun");
    }

    #[test]
    fn migration_ends_a_run_interval() {
        use SwitchReason::{Idle, Preempt};
        let (a, none) = (TaskId(0), TaskId::NONE);
        let round = observe(
            false,
            &[
                (0, 0, a, none, Idle),
                (100, 0, none, a, Preempt),
                (100, 1, a, none, Idle),
                (300, 1, none, a, Preempt),
                (300, 0, a, none, Idle),
                (600, 0, none, a, Preempt),
            ],
        );
        assert_eq!((number(&round, "a", "run_intervals"), number(&round, "a", "median_ns")), (3, 200_000));
    }

    #[test]
    fn recorded_processes_are_distinguished_by_kinship() {
        use SwitchReason::{Exit, Idle, Preempt};
        let (a, b, c, none) = (TaskId(0), TaskId(1), TaskId(2), TaskId::NONE);
        let switches = [(0, 0, a, none, Idle), (1, 0, b, a, Preempt), (2, 0, c, b, Preempt), (3, 0, a, c, Exit)];
        let round = observe(true, &switches);
        let then = ["child", "sibling", "parent"].map(|who| number(&round, "process", &format!("then {who}")));
        assert_eq!(then, [333; 3]);
    }

    #[test]
    fn model_value_may_exceed_the_range_of_the_kernels_rounds_by_its_width() {
        let real = Real { least: 900, median: 1000, most: 1100 };
        assert_eq!([699, 700, 1300, 1301].map(|value| real.admits(value, false)), [false, true, true, false]);
        let narrow = Real { least: 1000, median: 1000, most: 1000 };
        assert_eq!([949, 950, 1050, 1051].map(|value| narrow.admits(value, false)), [false, true, true, false]);
        assert_eq!([979, 980, 1021].map(|value| narrow.admits(value, true)), [false, true, false]);
    }

    #[test]
    fn order_records_round_trip() {
        let real = ranges(&[observe(false, &[(0, 0, TaskId(0), TaskId::NONE, SwitchReason::Idle)]), Round::new()]);
        assert_eq!(read(&write(&real)).unwrap(), real);
        assert!(read("w a 1 2\n").is_err());
    }
}
