// SPDX-License-Identifier: GPL-2.0-only
//! Tables of saved runs. Sums come from the JSON of the run; what it does not divide is divided by the run's events,
//! which a simulated run gives again.

use super::Table;
use super::args::What;
use crate::saved::{Saved, Which};
use anyhow::{Context, Result, bail};
use event_log::{BlockCause, Detail, Event, EventKind, Sink, TaskInfo, Waker};
use ids::{CpuId, CpuSet, Nanos, TaskId};
use meters::{Interrupt, Interrupts, Lock, Locks, Microstates, Pair, Reason, State, Task, Trust, Wakeups, World};
use report::{Details, World as RunWorld};
use std::collections::BTreeMap;
use std::path::Path;
use timeline::{Activity, Timeline, WaitReason};

/// The table of the selected run.
pub fn table(path: &Path, what: What, which: &Which) -> Result<Table> {
    let saved = Saved::open(path)?;
    let (run, _) = saved.choose(which)?;
    let details = saved.details(run)?;
    let one = &saved.runs[run];
    let simulated = one.tags.world == RunWorld::Sim;
    let offline = details.cpus.iter().filter(|cpu| cpu.offline_ns == one.elapsed_ns && one.elapsed_ns > 0).count();
    let trust = Trust {
        world: if simulated { World::Simulated } else { World::Real },
        elapsed: one.end(),
        cpus: (details.cpus.len() - offline) as u32,
        lost: saved.lost_events(run)?,
        steal: None,
        foreign: None,
        unseen: (what != What::Interrupts).then(|| saved.unseen_events(run)).transpose()?,
    };
    Ok(match what {
        What::Locks => {
            let Some(mut rows) = details.locks.as_ref().map(|locks| locks.iter().map(lock).collect::<Vec<_>>()) else {
                bail!(
                    "{}: {} has no lock table: {}",
                    path.display(),
                    one.name(),
                    if simulated {
                        "its machine has no [locks], or they were left out"
                    } else {
                        "weir run does not meter locks; weir meter locks -- COMMAND does"
                    }
                );
            };
            rows.extend(futexes(&timeline(&saved, run)?));
            let states = microstates(&saved, run, &details, trust.clone())?;
            let sum =
                |wanted: &[State]| wanted.iter().filter_map(|state| states.total(*state)).map(|time| time.0).sum();
            let all = Nanos(sum(&[State::Spin, State::Futex, State::RunQueue, State::Stolen]));
            let scheduler = Nanos(details.cpus.iter().map(|cpu| cpu.scheduler_ns).sum());
            let known = simulated && excess_is_spin(&saved, run)?;
            Table::Locks(Locks { followed: trust.elapsed, trust, rows, microstates: known.then_some(all + scheduler) })
        }
        What::Microstates => Table::Microstates(microstates(&saved, run, &details, trust)?),
        What::Wakeups => Table::Wakeups(wakeups(&saved, run, trust)?),
        What::Interrupts => Table::Interrupts(interrupts(&saved, run, &details, trust)?),
    })
}

fn lock(row: &report::Lock) -> Lock {
    Lock {
        kind: row.kind.clone(),
        lock: row.lock.clone(),
        caller: row.caller.clone(),
        pc: None,
        count: Some(row.count),
        contended: row.contended,
        rejected: None,
        wait_total: Nanos(row.wait_total_ns),
        wait_max: Nanos(row.wait_max_ns),
        hold_total: row.hold_total_ns.map(Nanos),
        hold_max: row.hold_max_ns.map(Nanos),
        lost: 0,
    }
}

fn timeline(saved: &Saved, run: usize) -> Result<Timeline> {
    let mut recorder = saved.recorder(run)?;
    saved.tell(run, &mut recorder)?;
    Ok(saved.runs[run].timeline(recorder))
}

/// Whether CPU time exceeds the work only by spinning and waiting for the cache lines of locks.
fn excess_is_spin(saved: &Saved, run: usize) -> Result<bool> {
    let part = |key| saved.measure(run, key);
    let memory = part("run_ns.reload")?.unwrap_or(0) + part("run_ns.memory")?.unwrap_or(0);
    Ok(part("run_ns.slowed")? == Some(0) && memory == 0)
}

/// States of each task. Run, stolen, runnable and blocked time are those of the run's accounts; the events divide the
/// blocked time by cause. A running task spun or waited for lines of locks for as long as its CPU time exceeds its
/// work, if its CPUs were never slower than the reference and no time went to caches or memory; else the events tell for
/// how long it spun.
fn microstates(saved: &Saved, run: usize, details: &Details, trust: Trust) -> Result<Microstates> {
    let timeline = timeline(saved, run)?;
    let exact = excess_is_spin(saved, run)?;
    let mut tasks = Vec::new();
    for account in details.tasks.iter().filter(|task| !task.kernel_thread) {
        let history = timeline.tasks.get(account.id as usize);
        let history = history.with_context(|| format!("task {} is in no event", account.id))?;
        let blocked = blocked(history);
        let spun = match exact {
            true => Nanos(account.cpu_ns.saturating_sub(account.work_ns)),
            false => spun(history, timeline.end).min(Nanos(account.cpu_ns)),
        };
        let mut states: BTreeMap<State, Nanos> = blocked.times;
        // Time of a real run that its account moves from one state to another is not in the events.
        let divided: u64 = states.values().map(|time| time.0).sum();
        let rest = states.entry(State::Interruptible).or_default();
        *rest = Nanos((rest.0 + account.blocked_ns).saturating_sub(divided));
        for (state, ns) in [
            (State::User, account.cpu_ns - spun.0),
            (State::Spin, spun.0),
            (State::Stolen, account.stolen_ns),
            (State::RunQueue, account.runnable_ns),
        ] {
            states.insert(state, Nanos(ns));
        }
        let life = Nanos(account.cpu_ns + account.stolen_ns + account.runnable_ns + account.blocked_ns);
        tasks.push(Task {
            pid: account.pid,
            process: account.pid,
            name: account.name.clone(),
            cgroup: None,
            life,
            states,
            counts: blocked.counts,
            reasons: blocked.reasons,
        });
    }
    Ok(Microstates { trust, tasks })
}

#[derive(Default)]
struct Blocked {
    times: BTreeMap<State, Nanos>,
    counts: BTreeMap<State, u64>,
    reasons: Vec<Reason>,
}

/// A sleep of a task.
struct Slept<'a> {
    state: State,
    /// Object that it waited for.
    what: Option<&'a str>,
    time: Nanos,
    /// Whether it is known why the task slept.
    is_known: bool,
}

/// The sleeps of a task.
fn sleeps(task: &timeline::Task) -> impl Iterator<Item = Slept<'_>> {
    task.phases.iter().filter_map(|phase| {
        let Activity::Sleeps { cause } = phase.activity else { return None };
        let waits = &task.task_waits[..task.task_waits.partition_point(|wait| wait.from <= phase.from)];
        let wait = waits.last().filter(|wait| !wait.spins && wait.to.is_none_or(|to| to > phase.from));
        let state = match cause {
            Some(BlockCause::Timer) => State::Timer,
            Some(BlockCause::Io) => State::Disk,
            _ if wait.is_some_and(|wait| wait.lock) => State::Futex,
            _ => State::Interruptible,
        };
        // A barrier also tells how many tasks are missing.
        let what = wait.map(|wait| wait.object.split(", ").next().unwrap_or_default());
        Some(Slept { state, what, time: phase.length(), is_known: cause.is_some() })
    })
}

/// Divides the sleeps of a task.
fn blocked(task: &timeline::Task) -> Blocked {
    let mut blocked = Blocked::default();
    for Slept { state, what, time, is_known } in sleeps(task) {
        *blocked.times.entry(state).or_default() += time;
        if is_known {
            *blocked.counts.entry(state).or_default() += 1;
        }
        let Some(what) = what else { continue };
        match blocked.reasons.iter_mut().find(|reason| reason.state == state && reason.what == what) {
            Some(reason) => (reason.count, reason.time) = (reason.count + 1, reason.time + time),
            None => blocked.reasons.push(Reason { state, what: what.to_owned(), count: 1, time }),
        }
    }
    blocked.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.time));
    blocked
}

/// Waits of tasks for locks in which they sleep, by lock and task. A running kernel shows them as futexes.
fn futexes(timeline: &Timeline) -> Vec<Lock> {
    let mut rows: BTreeMap<(&str, &str), Lock> = BTreeMap::new();
    for task in timeline.tasks.iter().filter(|task| !task.info.kernel_thread) {
        for slept in sleeps(task).filter(|slept| slept.state == State::Futex) {
            let (lock, caller) = (slept.what.unwrap_or_default(), task.info.name.as_str());
            let row = rows.entry((lock, caller)).or_insert_with(|| Lock {
                kind: "futex".to_owned(),
                lock: lock.to_owned(),
                caller: caller.to_owned(),
                ..Lock::default()
            });
            row.contended += 1;
            row.wait_total += slept.time;
            row.wait_max = row.wait_max.max(slept.time);
        }
    }
    rows.into_values().collect()
}

/// Time for which the task spun while it had a CPU.
fn spun(task: &timeline::Task, end: Nanos) -> Nanos {
    let runs = task.phases.iter().filter(|phase| matches!(phase.activity, Activity::Runs { .. }));
    let mut runs = runs.peekable();
    let mut sum = 0;
    for wait in task.task_waits.iter().filter(|wait| wait.spins) {
        let to = wait.to.unwrap_or(end);
        while runs.peek().is_some_and(|phase| phase.to <= wait.from) {
            runs.next();
        }
        let overlapping = runs.clone().take_while(|phase| phase.from < to);
        sum += overlapping.map(|phase| to.min(phase.to).since(wait.from.max(phase.from)).0).sum::<u64>();
    }
    Nanos(sum)
}

/// Wakeups by the names of waker and woken task.
fn wakeups(saved: &Saved, run: usize, trust: Trust) -> Result<Wakeups> {
    let timeline = timeline(saved, run)?;
    let name = |task: TaskId| timeline.tasks.get(task.index()).map_or("?", |task| task.info.name.as_str());
    let mut pairs: BTreeMap<(String, String), Pair> = BTreeMap::new();
    for (id, task) in (0..).map(TaskId).zip(&timeline.tasks).filter(|(_, task)| !task.info.kernel_thread) {
        for wait in timeline.waits_of(id) {
            let WaitReason::Woken { waker, .. } = wait.reason else { continue };
            let waker = match waker {
                Waker::Task(other) => name(other).to_owned(),
                Waker::Fork(other) => format!("{} (fork)", name(other)),
                Waker::Timer => "(timer)".to_owned(),
                Waker::Interrupt => "(interrupt)".to_owned(),
                Waker::External => "(outside)".to_owned(),
            };
            let key = (waker.clone(), task.info.name.clone());
            let pair =
                pairs.entry(key).or_insert_with(|| Pair { waker, task: task.info.name.clone(), ..Pair::default() });
            pair.count += 1;
            if wait.got.is_some() {
                pair.measured += 1;
                pair.total += wait.length();
                pair.max = pair.max.max(wait.length());
            }
        }
    }
    let idle_while_runnable = saved.measure(run, "idle_while_runnable_ns")?.map(Nanos);
    Ok(Wakeups { trust, pairs: pairs.into_values().collect(), idle_while_runnable })
}

/// Counts ticks, reschedule interrupts, and wakeups by timers and devices.
#[derive(Default)]
struct Counts(BTreeMap<(&'static str, CpuId), u64>);

impl Sink for Counts {
    fn task(&mut self, _: Nanos, _: &TaskInfo) {}
    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}
    fn event(&mut self, event: &Event) {
        let (source, cpu) = match event.kind {
            EventKind::Tick => ("tick", event.cpu),
            EventKind::Kick { target, .. } if target != event.cpu => ("reschedule", target),
            EventKind::Wakeup { waker: Waker::Timer, .. } => ("timer wakeup", event.cpu),
            EventKind::Wakeup { waker: Waker::Interrupt, .. } => ("device wakeup", event.cpu),
            _ => return,
        };
        *self.0.entry((source, cpu)).or_default() += 1;
    }
    fn detail(&mut self, _: &Detail) {}
}

fn interrupts(saved: &Saved, run: usize, details: &Details, trust: Trust) -> Result<Interrupts> {
    let mut counts = Counts::default();
    saved.tell(run, &mut counts)?;
    let row = |((source, cpu), count): ((&str, CpuId), u64)| Interrupt {
        source: source.to_owned(),
        cpu,
        count,
        total: None,
        max: None,
    };
    let stolen = details.cpus.iter().map(|cpu| Nanos(cpu.stolen_ns)).collect();
    Ok(Interrupts { trust, rows: counts.0.into_iter().map(row).collect(), stolen })
}
