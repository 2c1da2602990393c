// SPDX-License-Identifier: GPL-2.0-only
//! Compares the collector with an oracle that stores every record and scans all of them for each result.

use event_log::{BlockCause, CallbackSite, Event, EventKind, Record, Sink, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId, Topology};
use measures::{Collector, CpuAccount, LatencySummary, Migrations, RunMeasures, TaskAccount, Totals};
use proptest::prelude::*;

const CPUS: u32 = 6;

/// Two nodes; the first has CPUs 0-3 and two caches, and CPUs 0 and 1 are threads of one core.
fn topology() -> Topology {
    Topology::of_groups(&[0, 0, 1, 2, 3, 4], &[0, 0, 0, 1, 2, 2], &[0, 0, 0, 0, 1, 1])
}

fn info(id: u32, allowed: &CpuSet) -> TaskInfo {
    TaskInfo {
        pid: 100 + id,
        id: TaskId(id),
        name: format!("t{id}"),
        parent: None,
        allowed: allowed.clone(),
        policy: Policy::Ext,
        nice: 0,
        kernel_thread: false,
    }
}

/// A valid run as a scheduler could produce it, generated from random numbers.
struct Story {
    records: Vec<Record>,
    now: Nanos,
    current: Vec<TaskId>,
    waiting: Vec<TaskId>,
    blocked: Vec<TaskId>,
}

impl Story {
    fn new(masks: &[CpuSet]) -> Story {
        let announce = |(id, mask): (usize, &CpuSet)| Record::Task(Nanos(3), info(id as u32, mask));
        Story {
            records: masks.iter().enumerate().map(announce).collect(),
            now: Nanos(3),
            current: vec![TaskId::NONE; CPUS as usize],
            waiting: Vec::new(),
            blocked: (0..masks.len() as u32).map(TaskId).collect(),
        }
    }

    fn push(&mut self, cpu: u32, task: TaskId, kind: EventKind) {
        let event = Event { time: self.now, cpu: CpuId(cpu), task, kind, site: CallbackSite::default() };
        self.records.push(Record::Event(event));
    }

    fn wake(&mut self, pick: usize, cpu: u32) {
        if !self.blocked.is_empty() {
            let task = self.blocked.remove(pick % self.blocked.len());
            self.push(cpu, task, EventKind::Wakeup { waker: Waker::Timer, sync: false, target: CpuId(cpu) });
            self.waiting.push(task);
        }
    }

    /// Switches the CPU to a waiting task or to idle; the previous task blocks or waits again.
    fn switch(&mut self, cpu: u32, pick: usize, block: bool, late: u64) {
        let prev = self.current[cpu as usize];
        let next = if self.waiting.is_empty() || pick.is_multiple_of(5) {
            TaskId::NONE
        } else {
            self.waiting.remove(pick % self.waiting.len())
        };
        if prev == next {
            return self.push(cpu, TaskId::NONE, EventKind::Idle { entered: late != 1 });
        }
        let mut reason = SwitchReason::Idle;
        if prev != TaskId::NONE {
            reason = if block { SwitchReason::Block } else { SwitchReason::Preempt };
            if block {
                self.push(cpu, prev, EventKind::Block { cause: BlockCause::Timer });
                self.now += Nanos(late);
                self.blocked.push(prev);
                // The task is woken again before the CPU has switched away from it.
                if late == 2 {
                    self.wake(self.blocked.len() - 1, cpu);
                    self.now += Nanos(1);
                }
            } else {
                self.waiting.push(prev);
            }
        }
        self.push(cpu, next, EventKind::Switch { prev, reason });
        self.current[cpu as usize] = next;
    }

    fn change_affinity(&mut self, task: u32, mask: &CpuSet) {
        self.records.push(Record::Affinity(self.now, TaskId(task), mask.clone()));
        self.push(0, TaskId(task), EventKind::Affinity);
    }
}

fn collect(records: &[Record], elapsed: Nanos) -> RunMeasures {
    let mut collector = Collector::with_idle_gaps(&topology());
    let mut tasks = Vec::new();
    for record in records {
        match record {
            Record::Task(time, info) => {
                collector.task(*time, info);
                tasks.push(TaskAccount { blocked: elapsed - *time, ..TaskAccount::default() });
            }
            Record::Affinity(time, task, allowed) => collector.affinity(*time, *task, allowed),
            Record::Event(event) => collector.event(event),
            Record::Printk(_) | Record::SourceFile(..) => {}
        }
    }
    let cpus = vec![CpuAccount { idle: elapsed, ..CpuAccount::default() }; CPUS as usize];
    let gaps = collector.idle_gaps(elapsed);
    let measures = collector.finish(Totals { elapsed, cpus, tasks, ..Totals::default() });
    // The gaps add up to the total, and are ordered and disjoint.
    assert_eq!(gaps.iter().map(|(from, to)| to.0 - from.0).sum::<u64>(), measures.idle_while_runnable.0);
    assert!(
        gaps.iter().all(|(from, to)| from < to && *to <= elapsed) && gaps.windows(2).all(|two| two[0].1 < two[1].0)
    );
    measures
}

#[derive(PartialEq)]
enum Doing {
    Waiting { since: Nanos, woken: bool },
    Other,
}

/// State of `task` after `history`.
fn doing(history: &[Record], task: TaskId) -> Doing {
    for record in history.iter().rev() {
        let Record::Event(event) = record else { continue };
        match event.kind {
            EventKind::Switch { prev, reason } if prev == task && reason != SwitchReason::Block => {
                return Doing::Waiting { since: event.time, woken: false };
            }
            EventKind::Wakeup { .. } if event.task == task => return Doing::Waiting { since: event.time, woken: true },
            EventKind::Switch { .. } | EventKind::Block { .. } if event.task == task => return Doing::Other,
            _ => {}
        }
    }
    Doing::Other
}

fn idles(history: &[Record], cpu: CpuId) -> bool {
    let said = |record: &Record| match record {
        Record::Event(event) if event.cpu == cpu => match event.kind {
            EventKind::Switch { .. } => Some(event.task == TaskId::NONE),
            EventKind::Idle { entered } => Some(entered),
            _ => None,
        },
        _ => None,
    };
    history.iter().rev().find_map(said).unwrap_or(true)
}

fn allowed(history: &[Record], task: TaskId) -> CpuSet {
    let said = |record: &Record| match record {
        Record::Task(_, info) if info.id == task => Some(info.allowed.clone()),
        Record::Affinity(_, id, allowed) if *id == task => Some(allowed.clone()),
        _ => None,
    };
    history.iter().rev().find_map(said).unwrap()
}

fn naive_idle_while_runnable(records: &[Record], tasks: u32, elapsed: Nanos) -> Nanos {
    let mut total = Nanos::ZERO;
    for end in 1..=records.len() {
        let (history, until) = (&records[..end], records.get(end).map_or(elapsed, Record::time));
        let waits = |task: &TaskId| matches!(doing(history, *task), Doing::Waiting { .. });
        let bad = (0..tasks).map(TaskId).filter(waits).any(|task| {
            let mask = allowed(history, task);
            (0..CPUS).map(CpuId).any(|cpu| mask.contains(cpu) && idles(history, cpu))
        });
        if bad {
            total += until - history[end - 1].time();
        }
    }
    total
}

/// (time waited, whether after a wakeup, task) for each switch-in, and the migrations.
fn naive_switches(records: &[Record]) -> (Vec<(Nanos, bool, TaskId)>, Migrations) {
    let (mut waits, mut moves, places) = (Vec::new(), Migrations::default(), topology().places);
    let switched = |record: &Record| match record {
        Record::Event(event) if matches!(event.kind, EventKind::Switch { .. }) => Some(*event),
        _ => None,
    };
    for (index, record) in records.iter().enumerate() {
        let Some(event) = switched(record).filter(|event| event.task != TaskId::NONE) else { continue };
        if let Doing::Waiting { since, woken } = doing(&records[..index], event.task) {
            waits.push((event.time - since, woken, event.task));
        }
        let last = records[..index].iter().rev().filter_map(switched).find(|earlier| earlier.task == event.task);
        let Some(last) = last.filter(|last| last.cpu != event.cpu) else { continue };
        let (a, b) = (places[last.cpu.index()], places[event.cpu.index()]);
        match a {
            _ if a.core == b.core => moves.smt += 1,
            _ if a.llc == b.llc => moves.llc += 1,
            _ if a.node == b.node => moves.node += 1,
            _ => moves.far += 1,
        }
    }
    (waits, moves)
}

fn check_latency(got: LatencySummary, mut values: Vec<Nanos>) {
    values.sort_unstable();
    let sum: u64 = values.iter().map(|value| value.0).sum();
    assert_eq!(got.count, values.len() as u64);
    assert_eq!(got.max, values.last().copied().unwrap_or_default());
    assert_eq!(got.mean.0, sum.checked_div(got.count).unwrap_or(0));
    if let Some(median) = values.get((values.len().max(1) - 1) / 2) {
        assert!(got.p50.0.abs_diff(median.0) * 100 <= median.0, "got {}, expected {median}", got.p50);
    }
}

fn mask() -> impl Strategy<Value = CpuSet> {
    prop_oneof![Just(CpuSet::first_n(CPUS as usize)), (1u64..1 << CPUS).prop_map(|bits| CpuSet::from_words(&[bits]))]
}

proptest! {
    #[test]
    fn matches_naive(
        masks in prop::collection::vec(mask(), 1..6),
        steps in prop::collection::vec((0u64..2000, 0u32..8, 0..CPUS, any::<usize>(), mask(), 0u64..4), 0..120),
    ) {
        let tasks = masks.len() as u32;
        let mut story = Story::new(&masks);
        for (pause, action, cpu, pick, mask, late) in steps {
            story.now += Nanos(pause);
            match action {
                0..3 => story.wake(pick, cpu),
                3..5 => story.switch(cpu, pick, true, late),
                5..7 => story.switch(cpu, pick, false, late),
                _ => story.change_affinity(pick as u32 % tasks, &mask),
            }
        }
        let elapsed = story.now + Nanos(17);
        let got = collect(&story.records, elapsed);
        prop_assert_eq!(got.idle_while_runnable, naive_idle_while_runnable(&story.records, tasks, elapsed));
        let (waits, moves) = naive_switches(&story.records);
        prop_assert_eq!(got.migrations, moves);
        check_latency(got.run_delay, waits.iter().map(|wait| wait.0).collect());
        check_latency(got.wakeup_latency, waits.iter().filter(|wait| wait.1).map(|wait| wait.0).collect());
        for task in &got.tasks {
            let mine = waits.iter().filter(|wait| wait.1 && wait.2 == task.id).map(|wait| wait.0).collect();
            check_latency(task.wakeup_latency, mine);
            prop_assert_eq!(&task.cpus_allowed, &allowed(&story.records, task.id));
        }
    }
}

/// A collector at 10 ns after one task started at 4 ns and ended at 9 ns.
fn one_task() -> Collector {
    let mut collector = Collector::new(&Topology::flat(1));
    collector.task(Nanos(4), &info(0, &CpuSet::first_n(1)));
    let exit =
        Event { time: Nanos(9), cpu: CpuId(0), task: TaskId(0), kind: EventKind::Exit, site: CallbackSite::default() };
    collector.event(&exit);
    collector
}

fn totals(cpu_idle: u64, task_run: u64) -> Totals {
    Totals {
        elapsed: Nanos(10),
        cpus: vec![CpuAccount { run: Nanos(4), idle: Nanos(cpu_idle), ..CpuAccount::default() }],
        tasks: vec![TaskAccount { run: Nanos(task_run), ..TaskAccount::default() }],
        ..Totals::default()
    }
}

#[test]
fn time_accounts_that_do_not_add_up_are_refused() {
    let conserved = |cpu_idle, task_run| {
        let attempt = move || one_task().finish(totals(cpu_idle, task_run)).elapsed;
        std::panic::catch_unwind(attempt).is_ok()
    };
    assert!(conserved(6, 5));
    assert!(!conserved(5, 5), "a CPU account is 1 ns short");
    assert!(!conserved(7, 5), "a CPU account is 1 ns too long");
    assert!(!conserved(6, 4), "a task account is 1 ns short");
    assert!(!conserved(6, 6), "a task account extends past its exit");
}
