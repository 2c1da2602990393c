// SPDX-License-Identifier: GPL-2.0-only
//! Comparison of a policy with the kernel scheduler it re-creates: the same cases are run with real threads there and
//! simulated here, with the same measures per task, in a table that marks values farther apart than the kernel's own
//! runs.
//!
//! `successor` and `fair` are such comparisons, both in the deterministic virtual machine.

use crate::model::in_one_process;
use anyhow::{Context, Error, Result, anyhow, bail};
use bpf_object::Object;
use event_log::{Event, EventKind, Sink, TaskInfo};
use executor::ExecutionResult;
use fault_plan::FaultPlan;
use ids::{CpuSet, Nanos, TaskId};
use kernel_link::scheduler::{Attached, Host, Request, load};
use launch_profile::Profile;
use machine_model::Machine;
use measures::LatencySummary;
use simulator::{Scheduler, Setup};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Display, Write as _};
use std::str::FromStr;
use std::time::{Duration, Instant};
use workload::{Op, Workload};

/// Interval at which a hog reads the clock, in its own CPU time.
pub(crate) const PIECE_US: u64 = 200;
/// A longer gap means that the task lost the CPU; interrupts and kthreads take less.
const AWAY: Nanos = Nanos::from_us(500);
/// Exit kind of an unloaded scheduler.
const UNREGISTERED: u64 = 64;
/// 1 CPU with 1000 ticks a second, with the costs of the other comparisons in that machine.
const MACHINE: &str = include_str!("../shares/icount.toml");

/// Returns the machine for simulated cases, with the kernel's tick rate.
///
/// # Errors
/// If its description cannot be parsed.
pub(crate) fn machine(hz: u32, cpus: u32) -> Result<Machine> {
    machine_of(hz, &format!("core:{cpus} pu:1"))
}

/// As [`machine`], with another topology.
///
/// # Errors
/// If its description cannot be parsed.
pub(crate) fn machine_of(hz: u32, shape: &str) -> Result<Machine> {
    let text = MACHINE.replace("core:1 pu:1", shape);
    Ok(Machine { hz, ..Machine::from_toml("icount.toml", &text)? })
}

/// Loads a policy into the running kernel.
pub(crate) fn attach(name: &str, profile: &Profile) -> Result<Attached> {
    let shipped = policies::find(name).ok_or_else(|| anyhow!("no policy {name}"))?;
    let host = Host::read()?;
    Ok(load(&Request { name, object: shipped.object, profile, host: &host, measure: false })?)
}

/// Unloads the policy, which must not have exited before.
pub(crate) fn unload(mut attached: Attached) -> Result<()> {
    let exit = attached.unload()?;
    if exit.kind != UNREGISTERED {
        bail!("the scheduler exited by itself: {} {}", exit.reason, exit.message);
    }
    Ok(())
}

/// Spins before a case starts: in the deterministic machine only the start phase differs between runs. A sleep would
/// end at a tick.
pub(crate) fn wait_for_phase(later: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < later {
        std::hint::spin_loop();
    }
}

/// Measurements of tasks: case, task, measure, and value in thousandths of a percent or microseconds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<(String, String, String), u64>);

impl Values {
    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Assigns these values to the tasks in descending order, where it is random which task has which.
    pub(crate) fn order_by_size(&mut self, which: impl Fn(&str, &str) -> bool) {
        let chosen = self.0.iter_mut().filter(|((case, _, measure), _)| which(case, measure));
        let chosen: Vec<&mut u64> = chosen.map(|(_, value)| value).collect();
        let mut values: Vec<u64> = chosen.iter().map(|value| **value).collect();
        values.sort_unstable();
        chosen.into_iter().zip(values.into_iter().rev()).for_each(|(to, value)| *to = value);
    }

    /// Adds the results of real threads. Run intervals of hogs follow from the times at which they read the clock.
    pub(crate) fn add_played(&mut self, case: &str, played: &ExecutionResult, is_hog: impl Fn(&str) -> bool) {
        let total: u64 = played.tasks.iter().map(|task| task.cpu.0).sum();
        for (number, task) in played.tasks.iter().enumerate() {
            let id = TaskId(number as u32);
            let times: Vec<Nanos> = played.log.iter().filter(|step| step.task == id).map(|step| step.time).collect();
            // A piece ends when the next one begins, or where the CPU was lost, at an unknown time within it.
            let seen = times.windows(2).map(|pair| (pair[0], pair[1].min(pair[0] + Nanos::from_us(PIECE_US))));
            let stretches = is_hog(&task.name).then(|| Stretches::of(seen));
            let response = task.periods.as_ref().map(|periods| periods.summary().response);
            self.add(case, &task.name, task.cpu.0 * 100_000 / total, stretches, response);
        }
    }

    /// Adds the wait of forked children, from fork to first run, and the number of context switches of all tasks.
    pub(crate) fn add_family_played(&mut self, case: &str, workload: &Workload, played: &ExecutionResult) {
        let mut waits = Waits::default();
        let mut made: BTreeMap<u32, VecDeque<Nanos>> = BTreeMap::new();
        for step in &played.log {
            let spec = played.tasks[step.task.0 as usize].spec as usize;
            if let Some(Op::Fork(child)) = workload.tasks[spec].script.get(step.operation as usize) {
                made.entry(*child).or_default().push_back(step.time);
            }
        }
        for task in &played.tasks {
            if let Some(at) = made.get_mut(&task.spec).and_then(VecDeque::pop_front) {
                waits.add(&task.name, task.started.since(at));
            }
        }
        let switches = played.tasks.iter().map(|task| task.voluntary_switches + task.involuntary_switches).sum();
        self.add_family(case, waits, switches);
    }

    fn add_family(&mut self, case: &str, waits: Waits, switches: u64) {
        let mut insert = |task: &str, measure: &str, value: u64| {
            self.0.insert((case.to_owned(), task.to_owned(), measure.to_owned()), value);
        };
        for (task, mut waits) in waits.0 {
            waits.sort_unstable();
            insert(&task, "wait-p50", waits[waits.len() / 2].0 / 1000);
            insert(&task, "wait-max", waits[waits.len() - 1].0 / 1000);
        }
        insert("all", "switches", switches);
    }

    /// Adds the results of a workload in the model.
    ///
    /// # Errors
    /// If it cannot be simulated.
    pub(crate) fn add_simulated(
        &mut self,
        case: &str,
        workload: &Workload,
        machine: &Machine,
        scheduler: (&Object, &Profile),
        is_hog: impl Fn(&str) -> bool,
    ) -> Result<()> {
        self.add_simulated_with_seed(case, workload, machine, scheduler, is_hog, 0)
    }

    /// As [`Values::add_simulated`], with noise.
    pub(crate) fn add_simulated_with_seed(
        &mut self,
        case: &str,
        workload: &Workload,
        machine: &Machine,
        (object, profile): (&Object, &Profile),
        is_hog: impl Fn(&str) -> bool,
        seed: u64,
    ) -> Result<()> {
        let workload = in_one_process(workload, None);
        let setup = Setup {
            types: None,
            map_bytes: simulator::MAP_BYTES,
            machine,
            workload: &workload,
            scheduler: Scheduler::Object { object, profile },
            seed,
            duration: None,
            faults: &FaultPlan::default(),
            kernel: (7, 2).into(),
        };
        let mut on_cpu = OnCpu::default();
        let outcome = simulator::run(&setup, &mut on_cpu, &mut |_| ())?;
        let tasks: Vec<_> = outcome.measures.tasks.iter().filter(|task| !task.kernel_thread).collect();
        let total: u64 = tasks.iter().map(|task| task.account.run.0).sum();
        for task in tasks {
            let stretches = is_hog(&task.name).then(|| Stretches::of(on_cpu.take(task.id)));
            let response = task.periods.as_ref().map(|periods| periods.summary().response);
            self.add(case, &task.name, task.account.run.0 * 100_000 / total, stretches, response);
        }
        self.add_family(case, on_cpu.waits, outcome.measures.context_switches);
        Ok(())
    }

    /// Value of a measure of a task in a case.
    pub(crate) fn get(&self, case: &str, task: &str, measure: &str) -> Option<u64> {
        self.0.get(&(case.to_owned(), task.to_owned(), measure.to_owned())).copied()
    }

    fn add(&mut self, case: &str, task: &str, share: u64, turns: Option<Stretches>, response: Option<LatencySummary>) {
        // Tasks with the same name (children of one parent) are counted as one: their shares are added.
        let key = |measure: &str| (case.to_owned(), task.to_owned(), measure.to_owned());
        *self.0.entry(key("share")).or_default() += share;
        let mut insert = |measure: &str, value: u64| {
            self.0.insert(key(measure), value);
        };
        if let Some(response) = response {
            let us = [response.p50, response.p90, response.p99].map(|time| time.0 / 1000);
            ["response-p50", "response-p90", "response-p99"].iter().zip(us).for_each(|(name, us)| insert(name, us));
        }
        if let Some((turn, gap)) = turns.and_then(Stretches::values) {
            insert("turn-p50", turn);
            insert("gap-max", gap);
        }
    }
}

/// Formats one value per line, as the parser reads it.
impl Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "# case task measure value (share: 1/1000 %; others: us)")?;
        self.0.iter().try_for_each(|((case, task, measure), value)| writeln!(f, "{case} {task} {measure} {value}"))
    }
}

impl FromStr for Values {
    type Err = Error;

    fn from_str(text: &str) -> Result<Values> {
        let mut values = Values::default();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [case, task, measure, value] = words[..] else { bail!("line {number}: expected four columns") };
            let value = value.parse().with_context(|| format!("line {number}"))?;
            values.0.insert((case.to_owned(), task.to_owned(), measure.to_owned()), value);
        }
        Ok(values)
    }
}

/// Run intervals and the gaps between them, in microseconds.
#[derive(Default)]
struct Stretches {
    turns: Vec<u64>,
    gaps: Vec<u64>,
}

impl Stretches {
    /// Builds intervals from the begin and end times at which the task was seen on the CPU.
    fn of(seen: impl IntoIterator<Item = (Nanos, Nanos)>) -> Stretches {
        let mut stretches = Stretches::default();
        let mut current: Option<(Nanos, Nanos)> = None;
        for (begin, end) in seen {
            match &mut current {
                Some((_, last)) if begin.since(*last) < AWAY => *last = end,
                _ => {
                    if let Some((first, last)) = current.replace((begin, end)) {
                        stretches.turns.push(last.since(first).0 / 1000);
                        stretches.gaps.push(begin.since(last).0 / 1000);
                    }
                }
            }
        }
        stretches
    }

    /// Returns the median run interval and the longest gap, without the first of each, because tasks start one after
    /// another.
    fn values(mut self) -> Option<(u64, u64)> {
        let mut turns = self.turns.split_off(1.min(self.turns.len()));
        let gaps = self.gaps.split_off(1.min(self.gaps.len()));
        turns.sort_unstable();
        Some((*turns.get(turns.len() / 2)?, gaps.into_iter().max()?))
    }
}

/// Wait of children until their first run, by name.
#[derive(Default)]
struct Waits(BTreeMap<String, Vec<Nanos>>);

impl Waits {
    fn add(&mut self, name: &str, wait: Nanos) {
        self.0.entry(name.to_owned()).or_default().push(wait);
    }
}

/// On-CPU times of all tasks of a run.
#[derive(Default)]
struct OnCpu {
    names: BTreeMap<u32, String>,
    /// Children that have not run yet, and their fork times.
    made: BTreeMap<u32, Nanos>,
    waits: Waits,
    since: BTreeMap<u32, Nanos>,
    seen: BTreeMap<u32, Vec<(Nanos, Nanos)>>,
}

impl OnCpu {
    /// Returns the intervals in which the task was on the CPU.
    fn take(&mut self, task: TaskId) -> Vec<(Nanos, Nanos)> {
        self.seen.remove(&task.0).unwrap_or_default()
    }
}

impl Sink for OnCpu {
    fn task(&mut self, _: Nanos, task: &TaskInfo) {
        self.names.insert(task.id.0, task.name.clone());
    }
    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}
    fn event(&mut self, event: &Event) {
        if let EventKind::Fork { child } = event.kind {
            self.made.insert(child.0, event.time);
        }
        let EventKind::Switch { prev, .. } = event.kind else { return };
        if let Some(begin) = self.since.remove(&prev.0) {
            self.seen.entry(prev.0).or_default().push((begin, event.time));
        }
        if let Some(at) = self.made.remove(&event.task.0) {
            self.waits.add(&self.names[&event.task.0], event.time.since(at));
        }
        if event.task != TaskId::NONE {
            self.since.insert(event.task.0, event.time);
        }
    }
}

/// Returns the resolution of a measure: of a share by the run interval cut at the end, of an interval by the pieces
/// of hogs, of a response by the tick that ends a sleep without high-resolution timers, of switches by the cost of
/// the calls in between, to a twentieth.
fn resolution(measure: &str, value: u64) -> u64 {
    match measure {
        "switches" => value / 20,
        "share" => 300,
        "turn-p50" | "gap-max" => AWAY.0 / 1000,
        _ => 1_000,
    }
}

/// Returns a table of all values, and whether all values of the policy agree with the kernel's: their distance from
/// the kernel's runs is at most the spread of these runs, or below the resolution. `known` exceptions are marked; an
/// exception that is not needed is a failure, too. `adjusted` is applied to the kernel's values first.
pub(crate) fn table(
    policy: &str,
    model: &Values,
    kernel: &[Values],
    known: impl Fn(&str, &str, &str) -> bool,
    adjusted: impl Fn(&str, u64) -> u64,
) -> (String, bool) {
    let mut text = format!("{:16} {:10} {:13} {:>17} {policy:>8}\n", "case", "task", "measure", "kernel");
    let mut well = kernel[0].count() > 0;
    for (key @ (case, task, measure), first) in &kernel[0].0 {
        let all = kernel.iter().map(|one| one.0.get(key).copied().unwrap_or(*first));
        let (low, high) = all.fold((u64::MAX, 0), |(low, high), value| {
            let value = adjusted(measure, value);
            (low.min(value), high.max(value))
        });
        let spread = (high - low).max(resolution(measure, high));
        let value = model.0.get(key).copied();
        let fits = value.is_some_and(|value| value + spread >= low && value <= high + spread);
        let mark = match (fits, known(case, task, measure)) {
            (true, false) => "",
            (true, true) => "  KNOWN EXCEPTION NOT NEEDED",
            (false, true) => "  known",
            (false, false) => "  TOO FAR",
        };
        let shown = value.map_or("-".to_owned(), |value| value.to_string());
        writeln!(text, "{case:16} {task:10} {measure:13} {low:>8} {high:>8} {shown:>8}{mark}")
            .expect("a string takes all");
        well &= mark.is_empty() || mark == "  known";
    }
    (text, well)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Nanos {
        Nanos::from_us(us)
    }

    #[test]
    fn run_interval_ends_when_the_cpu_is_lost() {
        let pieces = [(0, 200), (210, 410), (1_000, 1_200), (1_201, 1_400), (9_000, 9_100), (20_000, 20_200)];
        let stretches = Stretches::of(pieces.map(|(begin, end)| (at(begin), at(end))));
        assert_eq!((&stretches.turns[..], &stretches.gaps[..]), (&[410, 400, 100][..], &[590, 7_600, 10_900][..]));
        assert_eq!(stretches.values(), Some((400, 10_900)));
    }

    #[test]
    fn run_interval_file_round_trips() {
        let values: Values = "a hog-0 share 50000\na job response-p50 3000\n".parse().unwrap();
        assert_eq!((values.count(), values.to_string().parse::<Values>().unwrap()), (2, values));
        for (text, error) in [("a b c\n", "line 1: expected four columns"), ("# x\na b share x\n", "line 2")] {
            assert_eq!(text.parse::<Values>().unwrap_err().to_string(), error);
        }
    }
}
