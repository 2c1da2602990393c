// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the executor's rules, and a comparison with a naive oracle.

use super::*;
use crate::{MutexSpec, Reference, Sleep};
use expect_test::expect;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

const M: MutexId = MutexId(0);
const N: MutexId = MutexId(1);
const C: ConditionId = ConditionId(0);
const BARRIERS: [u32; 2] = [2, 3];

fn workload(tasks: Vec<(Start, Vec<Op>)>) -> Workload {
    let spec = |(index, (start, script)): (usize, (Start, Vec<Op>))| TaskSpec {
        name: format!("t{index}"),
        command: None,
        start,
        policy: Policy::Other,
        nice: 0,
        cpus: None,
        peak_rss_bytes: 0,
        who: crate::Who::default(),
        window: None,
        memory: None,
        lends: None,
        script,
    };
    Workload {
        name: "w".into(),
        duration: None,
        tasks: tasks.into_iter().enumerate().map(spec).collect(),
        mutexes: MutexSpec::unnamed(2),
        locks: Vec::new(),
        conditions: 2,
        barriers: BARRIERS.to_vec(),
        signals: 4,
        references: 1,
        idle_exit_limit: None,
        groups: Vec::new(),
        is_grouped: false,
        caveats: Vec::new(),
        sources: Vec::new(),
        disks: Vec::new(),
        devices: Vec::new(),
        networks: Vec::new(),
        parts: Vec::new(),
    }
}

pub(super) fn at_zero(scripts: &[&[Op]]) -> Workload {
    workload(scripts.iter().map(|script| (Start::At(Nanos::ZERO), script.to_vec())).collect())
}

pub(super) fn work(time: u64) -> Op {
    Op::Work { user: Nanos(time), system: Nanos::ZERO }
}

fn show(demand: &Demand) -> String {
    match demand {
        Demand::Work { work, .. } => format!("work {}", work.0),
        Demand::Sleep(time, _) => format!("sleep {}", time.0),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Starts one task per spec and asks tasks in this order, at times 0, 10, 20 and so on.
fn play(workload: &Workload, order: &[u32]) -> String {
    let mut executor = Executor::new(workload);
    for spec in 0..workload.tasks.len() as u32 {
        executor.started(TaskId(spec), spec, Nanos::ZERO);
    }
    let mut log = String::new();
    for (step, &task) in order.iter().enumerate() {
        let mut woken = Vec::new();
        let demand = executor.next(TaskId(task), Nanos(step as u64 * 10), &mut woken).demand;
        write!(log, "{task}: {}", show(&demand)).unwrap();
        if !woken.is_empty() {
            write!(log, ", wakes {woken:?}").unwrap();
        }
        log += "\n";
    }
    log.replace("TaskId(", "").replace(')', "")
}

#[test]
fn change_of_other_tasks_affects_live_ones_only() {
    let change = Op::ChangeOf { spec: 1, cpus: None, policy: Some(Box::new((Policy::Batch, 3))) };
    // Tasks 1 and 2 execute the same spec; 1 exits in between.
    let workload = at_zero(&[&[change.clone(), change.clone(), change], &[work(1)]]);
    let mut executor = Executor::new(&workload);
    for (task, spec) in [(0, 0), (1, 1), (3, 1)] {
        executor.started(TaskId(task), spec, Nanos::ZERO);
    }
    let mut next = |task: u32| executor.next(TaskId(task), Nanos::ZERO, &mut Vec::new()).demand;
    let of = |tasks: &[u32]| {
        let tasks = tasks.iter().map(|&task| TaskId(task)).collect();
        Demand::ChangeOf { tasks, cpus: None, policy: Some((Policy::Batch, 3)) }
    };
    assert_eq!(next(0), of(&[1, 3]));
    assert_eq!((next(1), next(0)), (Demand::Work { work: Nanos(1), system: Nanos::ZERO }, of(&[1, 3])));
    assert_eq!((next(1), next(0)), (Demand::Exit, of(&[3])));
}

#[test]
fn forked_task_is_a_thread_if_its_process_is_the_same() {
    let mut workload = at_zero(&[&[], &[], &[], &[]]);
    for (task, tgid) in [(0, 7), (1, 7), (2, 8)] {
        workload.tasks[task].who.tgid = Some(tgid);
    }
    let mut executor = Executor::new(&workload);
    (0..4).for_each(|task| executor.started(TaskId(task), task, Nanos::ZERO));
    let threads_of = |parent| [0, 1, 2, 3].map(|spec| executor.is_thread(spec, TaskId(parent)));
    assert_eq!(threads_of(0), [true, true, false, false]);
    assert_eq!(threads_of(3), [false; 4], "without a known process, no task is a thread");
}

#[test]
fn session_begins_if_it_differs_from_the_parents() {
    let mut workload = at_zero(&[&[], &[], &[], &[]]);
    for (task, session) in [(0, 5), (1, 5), (2, 6)] {
        workload.tasks[task].who.session = Some(session);
    }
    let mut executor = Executor::new(&workload);
    (0..4).for_each(|task| executor.started(TaskId(task), task, Nanos::ZERO));
    let begins = |parent: Option<u32>| [0, 1, 2, 3].map(|spec| executor.begins_session(spec, parent.map(TaskId)));
    assert_eq!(begins(None), [true, true, true, false], "a task without a known session begins none");
    assert_eq!(begins(Some(0)), [false, false, true, false]);
    assert_eq!(begins(Some(2)), [true, true, false, false]);
    assert_eq!(begins(Some(3)), [true, true, true, false]);
}

#[test]
fn mutex_is_handed_to_the_longest_waiter() {
    let script = [Op::Lock(M), work(1), Op::Unlock(M), work(2)];
    // Task 0 hands the mutex to 1 and cannot reacquire it before 1 has run.
    let again = [&script[..], &script[..]].concat();
    expect![[r#"
        0: work 1
        2: wait
        1: wait
        0: work 2, wakes [2]
        0: wait
        2: work 1
        2: work 2, wakes [1]
        1: work 1
        1: work 2, wakes [0]
        0: work 1
        0: work 2
        0: exit
    "#]]
    .assert_eq(&play(&at_zero(&[&again, &script, &script]), &[0, 2, 1, 0, 0, 2, 2, 1, 1, 0, 0, 0]));
}

#[test]
fn condition_waiter_reacquires_its_mutex_when_it_runs() {
    let waiter = [Op::Lock(M), Op::Wait(C, M), work(1), Op::Unlock(M)];
    let signaller = [Op::Signal(C), Op::Lock(M), Op::Broadcast(C), work(5), Op::Unlock(M)];
    // The first signal has no waiter and is lost.
    let early = [Op::Signal(C), work(9)];
    expect![[r#"
        3: work 9
        0: wait
        1: wait
        2: work 5, wakes [0, 1]
        1: wait
        0: wait
        2: exit, wakes [1]
        1: work 1
        1: exit, wakes [0]
        0: work 1
    "#]]
    .assert_eq(&play(&at_zero(&[&waiter, &waiter, &signaller[1..], &early]), &[3, 0, 1, 2, 1, 0, 2, 1, 1, 0]));
    expect![[r#"
        0: wait
        1: wait
        2: work 5, wakes [0, 1]
    "#]]
    .assert_eq(&play(&at_zero(&[&waiter, &waiter, &signaller]), &[0, 1, 2]));
}

#[test]
fn sync_signals_and_then_waits() {
    let script = [Op::Lock(M), Op::Sync(C, M), Op::Unlock(M), work(1)];
    expect![[r#"
        0: wait
        1: wait, wakes [0]
        0: work 1
    "#]]
    .assert_eq(&play(&at_zero(&[&script, &script]), &[0, 1, 0]));
}

#[test]
fn barrier_starts_a_new_round_after_the_last_arrival() {
    let script = [Op::Barrier(BarrierId(0)), work(1), Op::Repeat { from: 0, times: None }];
    // Task 1 arrives at the second round before 0 has run again, and waits there.
    expect![[r#"
        0: wait
        1: work 1, wakes [0]
        1: wait
        0: work 1
        0: work 1, wakes [1]
        1: work 1
    "#]]
    .assert_eq(&play(&at_zero(&[&script, &script]), &[0, 1, 1, 0, 0, 1]));
}

#[test]
fn resume_is_not_stored_and_wakes_in_order_of_suspension() {
    let sleeper = [Op::Suspend, work(1)];
    let waker = [Op::Resume([0, 1].into()), work(5), Op::Repeat { from: 0, times: None }];
    expect![[r#"
        2: work 5
        1: wait
        0: wait
        2: work 5, wakes [1, 0]
        0: work 1
        1: work 1
    "#]]
    .assert_eq(&play(&at_zero(&[&sleeper, &sleeper, &waker]), &[2, 1, 0, 2, 0, 1]));
}

#[test]
fn posted_signal_satisfies_earlier_and_later_awaits() {
    let poster = [Op::Post(SignalId(0)), work(1), Op::Post(SignalId(1)), work(2)];
    let waiter = [Op::Await(SignalId(0)), work(3), Op::Await(SignalId(1)), work(4)];
    expect![[r#"
        0: work 1
        1: work 3
        1: wait
        0: work 2, wakes [1]
        1: work 4
    "#]]
    .assert_eq(&play(&at_zero(&[&poster, &waiter]), &[0, 1, 1, 0, 1]));
}

#[test]
fn only_absolute_timers_keep_their_phase() {
    let timer = |absolute| {
        let reference = Reference(Reference::PRIVATE);
        [Op::Timer { reference, period: Nanos(25), absolute }, work(1), Op::Repeat { from: 0, times: None }]
    };
    // Asked at 0, 10, …: after the first period of 25 the task is late, so the second period (50) is missed at 60.
    let order = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    expect![[r#"
        0: sleep 25
        0: work 1
        0: sleep 30
        0: work 1
        0: sleep 35
        0: work 1
        0: sleep 40
        0: work 1
        0: sleep 45
        0: work 1
        0: sleep 50
    "#]]
    .assert_eq(&play(&at_zero(&[&timer(false)]), &order));
    let late = |absolute| {
        let script =
            [&[work(1), work(1), work(1), work(1), work(1), work(1)], &timer(absolute)[..2], &timer(absolute)[..2]];
        play(&at_zero(&[&script.concat()]), &[0; 9])
    };
    // Asked at 60 for a period of 25. The relative timer restarts and expires at 85; the absolute one (50) is missed
    // as well.
    assert!(late(false).ends_with("0: work 1\n0: sleep 15\n0: work 1\n"), "{}", late(false));
    assert!(late(true).ends_with("0: work 1\n0: work 1\n0: exit\n"), "{}", late(true));
}

#[test]
fn nested_loops_restart_each_time() {
    let script = [
        work(1),
        work(2),
        Op::Repeat { from: 1, times: Some(2) },
        Op::Repeat { from: 1, times: Some(1) },
        Op::Repeat { from: 0, times: Some(3) },
    ];
    let log = play(&at_zero(&[&script]), &[0; 10]);
    let demands: Vec<&str> = log.lines().map(|line| &line[3..]).collect();
    let round = ["work 1", "work 2", "work 2"];
    assert_eq!(demands, [&round[..], &round, &round, &["exit"]].concat());
}

#[test]
fn instances_of_a_spec_have_private_timers() {
    let child =
        vec![Op::Timer { reference: Reference(Reference::PRIVATE), period: Nanos(100), absolute: true }, work(1)];
    let parent = vec![Op::Fork(1), work(0), Op::Fork(1)];
    let workload = workload(vec![(Start::At(Nanos::ZERO), parent), (Start::Forked, child)]);
    let mut executor = Executor::new(&workload);
    let mut woken = Vec::new();
    executor.started(TaskId(0), 0, Nanos::ZERO);
    for child in [3, 7] {
        assert_eq!(executor.next(TaskId(0), Nanos(5), &mut woken).demand, Demand::Fork(1));
        executor.forked(TaskId(child), 1, TaskId(0), Nanos(5));
    }
    assert_eq!(executor.next(TaskId(0), Nanos(5), &mut woken).demand, Demand::Exit);
    // Timers of forked tasks count from the start of the run; with a shared reference the second child would get 195.
    for child in [3, 7] {
        let demand = executor.next(TaskId(child), Nanos(5), &mut woken).demand;
        assert_eq!(demand, Demand::Sleep(Nanos(95), Sleep::Timer));
    }
}

#[test]
fn parent_waits_until_few_enough_children_are_alive() {
    let parent = vec![Op::Fork(1), Op::Fork(1), Op::Children(1), Op::Children(1), Op::Children(0)];
    let workload = workload(vec![(Start::At(Nanos::ZERO), parent), (Start::Forked, vec![work(1)])]);
    let mut executor = Executor::new(&workload);
    let next = |executor: &mut Executor<'_>, task| {
        let mut woken = Vec::new();
        (executor.next(TaskId(task), Nanos::ZERO, &mut woken).demand, woken)
    };
    executor.started(TaskId(0), 0, Nanos::ZERO);
    for child in [1, 2] {
        assert_eq!(next(&mut executor, 0).0, Demand::Fork(1));
        executor.forked(TaskId(child), 1, TaskId(0), Nanos::ZERO);
        assert!(matches!(next(&mut executor, child).0, Demand::Work { .. }));
    }
    assert_eq!(next(&mut executor, 0).0, Demand::Wait, "two are alive");
    assert_eq!(next(&mut executor, 2), (Demand::Exit, vec![TaskId(0)]));
    assert_eq!(
        next(&mut executor, 0).0,
        Demand::Wait,
        "one is alive: few enough for the next two steps, too many for the last"
    );
    assert_eq!(next(&mut executor, 1), (Demand::Exit, vec![TaskId(0)]));
    assert_eq!(next(&mut executor, 0).0, Demand::Exit);
}

#[test]
fn single_steps_report_the_next_operation_and_wait_reasons() {
    let waiter = [Op::Lock(M), Op::Wait(C, M), Op::Repeat { from: 0, times: Some(1) }, Op::Unlock(M), Op::Suspend];
    let waker =
        [Op::Signal(C), Op::Lock(M), Op::Lock(N), Op::Unlock(M), Op::Resume([0].into()), Op::Barrier(BarrierId(0))];
    let third = [Op::Broadcast(C), Op::Post(SignalId(0)), Op::Resume([0, 1].into()), Op::Lock(N), Op::Unlock(N)];
    let workload = at_zero(&[&waiter, &waker, &third]);
    let mut executor = Executor::new(&workload);
    for spec in 0..3 {
        executor.started(TaskId(spec), spec, Nanos::ZERO);
    }
    let mut log = String::new();
    for task in [0, 0, 1, 1, 0, 2, 2, 2, 1, 1, 0, 0, 0, 2, 1, 1].map(TaskId) {
        let upcoming = executor.upcoming(task).map(|(index, _)| index);
        let no_waiter = if executor.has_no_waiter_yet(task) { " no waiter" } else { "" };
        let mut woken = Vec::new();
        let demand = executor.advance(task, Nanos::ZERO, &mut woken);
        let demand = demand.as_ref().map_or("done".into(), show);
        let waits: Vec<_> =
            (0..3).filter_map(|task| executor.waits_for(TaskId(task)).map(|waits| waits.to_string())).collect();
        writeln!(log, "{task} {upcoming:?}{no_waiter}: {demand} {woken:?} {waits:?}").unwrap();
    }
    expect![[r#"
        0 Some(0): done [] []
        0 Some(1): wait [] ["condition 0"]
        1 Some(0): done [TaskId(0)] []
        1 Some(1): done [] []
        0 None: wait [] ["mutex 0, which task 1 holds"]
        2 Some(0) no waiter: done [] ["mutex 0, which task 1 holds"]
        2 Some(1) no waiter: done [] ["mutex 0, which task 1 holds"]
        2 Some(2) no waiter: done [] ["mutex 0, which task 1 holds"]
        1 Some(2): done [] ["mutex 0, which task 1 holds"]
        1 Some(3): done [TaskId(0)] []
        0 Some(2): done [] []
        0 Some(3): done [] []
        0 Some(4): wait [] ["a resume"]
        2 Some(3): wait [] ["a resume", "mutex 1, which task 1 holds"]
        1 Some(4): done [TaskId(0)] ["mutex 1, which task 1 holds"]
        1 Some(5): wait [] ["barrier 0, which 1 more tasks must reach", "mutex 1, which task 1 holds"]
    "#]]
    .assert_eq(&log);
}

#[test]
fn refused_child_counts_as_exited() {
    let parent = vec![Op::Fork(1), Op::Children(0)];
    let workload = workload(vec![(Start::At(Nanos::ZERO), parent), (Start::Forked, vec![work(1)])]);
    let mut executor = Executor::new(&workload);
    let mut woken = Vec::new();
    executor.started(TaskId(0), 0, Nanos::ZERO);
    assert_eq!(executor.next(TaskId(0), Nanos::ZERO, &mut woken).demand, Demand::Fork(1));
    executor.forked(TaskId(1), 1, TaskId(0), Nanos::ZERO);
    executor.refused(TaskId(1), &mut woken);
    assert_eq!(executor.next(TaskId(0), Nanos::ZERO, &mut woken).demand, Demand::Exit);
    assert!(woken.is_empty());
}

#[test]
#[should_panic(expected = "while it is Waiting")]
fn asking_a_waiting_task_for_its_next_operation_panics() {
    play(&at_zero(&[&[Op::Suspend]]), &[0, 0]);
}

/// Naive implementation of the rules: unrolled scripts, queues as lists, lookups by name.
struct Oracle {
    scripts: Vec<Vec<Op>>,
    /// Remaining operations by task.
    todo: BTreeMap<u32, VecDeque<Op>>,
    spec_of: BTreeMap<u32, u32>,
    owners: BTreeMap<u32, u32>,
    /// Waiting tasks with their reasons, in order of arrival.
    waiting: Vec<(u32, Reason)>,
    /// Tasks woken from a condition that have not acquired their mutex yet.
    taking: BTreeMap<u32, u32>,
    /// Parents of live forked tasks.
    parents: BTreeMap<u32, u32>,
    posted: BTreeSet<u32>,
}

#[derive(Clone, PartialEq, Debug)]
enum Reason {
    Mutex(u32),
    Condition(u32, u32),
    Barrier(u32),
    Suspended,
    Signal(u32),
    Children(u32),
}

impl Oracle {
    fn new(workload: &Workload) -> Oracle {
        Oracle {
            scripts: workload.tasks.iter().map(|task| unroll(&task.script)).collect(),
            todo: BTreeMap::new(),
            spec_of: BTreeMap::new(),
            owners: BTreeMap::new(),
            waiting: Vec::new(),
            taking: BTreeMap::new(),
            parents: BTreeMap::new(),
            posted: BTreeSet::new(),
        }
    }

    fn started(&mut self, task: u32, spec: u32) {
        self.todo.insert(task, self.scripts[spec as usize].clone().into());
        self.spec_of.insert(task, spec);
    }

    fn wake(&mut self, woken: &mut Vec<u32>, which: impl Fn(u32, &Reason) -> bool, most: usize) {
        for _ in 0..most {
            let Some(first) = self.waiting.iter().position(|(task, reason)| which(*task, reason)) else { return };
            let (task, reason) = self.waiting.remove(first);
            match reason {
                Reason::Condition(_, mutex) => drop(self.taking.insert(task, mutex)),
                Reason::Mutex(mutex) => drop(self.owners.insert(mutex, task)),
                _ => {}
            }
            woken.push(task);
        }
    }

    fn lock(&mut self, task: u32, mutex: u32) -> Option<Demand> {
        if self.owners.contains_key(&mutex) {
            self.waiting.push((task, Reason::Mutex(mutex)));
            return Some(Demand::Wait);
        }
        self.owners.insert(mutex, task);
        None
    }

    fn unlock(&mut self, task: u32, mutex: u32, woken: &mut Vec<u32>) {
        assert_eq!(self.owners.remove(&mutex), Some(task), "only the owner unlocks");
        self.wake(woken, |_, reason| *reason == Reason::Mutex(mutex), 1);
    }

    fn signal(&mut self, condition: u32, most: usize, woken: &mut Vec<u32>) {
        self.wake(woken, |_, reason| matches!(reason, Reason::Condition(c, _) if *c == condition), most);
    }

    fn wait(&mut self, task: u32, condition: u32, mutex: u32, woken: &mut Vec<u32>) -> Option<Demand> {
        self.unlock(task, mutex, woken);
        self.waiting.push((task, Reason::Condition(condition, mutex)));
        Some(Demand::Wait)
    }

    fn next(&mut self, task: u32, woken: &mut Vec<u32>) -> Demand {
        if let Some(mutex) = self.taking.remove(&task)
            && let Some(demand) = self.lock(task, mutex)
        {
            return demand;
        }
        while let Some(op) = self.todo.get_mut(&task).unwrap().pop_front() {
            if let Some(demand) = self.step(task, op, woken) {
                return demand;
            }
        }
        if let Some(parent) = self.parents.remove(&task) {
            let living = self.children(parent);
            let enough =
                |task, reason: &Reason| task == parent && matches!(reason, Reason::Children(n) if living <= *n);
            self.wake(woken, enough, 1);
        }
        Demand::Exit
    }

    fn children(&self, task: u32) -> u32 {
        self.parents.values().filter(|&&parent| parent == task).count() as u32
    }

    fn step(&mut self, task: u32, op: Op, woken: &mut Vec<u32>) -> Option<Demand> {
        match op {
            Op::Work { user, system } => Some(Demand::Work { work: user + system, system }),
            Op::Yield => Some(Demand::Yield),
            Op::Fork(spec) => Some(Demand::Fork(spec)),
            Op::Lock(mutex) => self.lock(task, mutex.0),
            Op::Unlock(mutex) => {
                self.unlock(task, mutex.0, woken);
                None
            }
            Op::Wait(condition, mutex) => self.wait(task, condition.0, mutex.0, woken),
            Op::Signal(condition) => {
                self.signal(condition.0, 1, woken);
                None
            }
            Op::Broadcast(condition) => {
                self.signal(condition.0, usize::MAX, woken);
                None
            }
            Op::Sync(condition, mutex) => {
                self.signal(condition.0, 1, woken);
                self.wait(task, condition.0, mutex.0, woken)
            }
            Op::Barrier(barrier) => {
                let there = self.waiting.iter().filter(|(_, reason)| *reason == Reason::Barrier(barrier.0)).count();
                if there + 1 == BARRIERS[barrier.0 as usize] as usize {
                    self.wake(woken, |_, reason| *reason == Reason::Barrier(barrier.0), usize::MAX);
                    return None;
                }
                self.waiting.push((task, Reason::Barrier(barrier.0)));
                Some(Demand::Wait)
            }
            Op::Suspend => {
                self.waiting.push((task, Reason::Suspended));
                Some(Demand::Wait)
            }
            Op::Resume(specs) => {
                let spec_of = self.spec_of.clone();
                let resumed = |task, reason: &Reason| *reason == Reason::Suspended && specs.contains(&spec_of[&task]);
                self.wake(woken, resumed, usize::MAX);
                None
            }
            Op::Post(signal) => {
                self.posted.insert(signal.0);
                self.wake(woken, |_, reason| *reason == Reason::Signal(signal.0), usize::MAX);
                None
            }
            Op::Await(signal) if self.posted.contains(&signal.0) => None,
            Op::Await(signal) => {
                self.waiting.push((task, Reason::Signal(signal.0)));
                Some(Demand::Wait)
            }
            Op::Children(most) if self.children(task) <= most => None,
            Op::Children(most) => {
                self.waiting.push((task, Reason::Children(most)));
                Some(Demand::Wait)
            }
            other => unreachable!("not generated: {other:?}"),
        }
    }

    /// If no task is runnable, checks that each waiting task has a reason.
    fn check_stuck(&self) {
        for (task, reason) in &self.waiting {
            match reason {
                Reason::Mutex(mutex) => assert!(self.owners.contains_key(mutex), "{task} waits for a free mutex"),
                Reason::Signal(signal) => assert!(!self.posted.contains(signal), "{task} missed a signal"),
                Reason::Children(most) => assert!(self.children(*task) > *most, "{task} missed an exit"),
                Reason::Condition(..) | Reason::Barrier(_) | Reason::Suspended => {}
            }
        }
    }
}

/// The script with its loops unrolled; loops are finite and small here.
fn unroll(script: &[Op]) -> Vec<Op> {
    let mut out: Vec<Op> = Vec::new();
    // Output position of the latest copy of each operation.
    let mut begins = Vec::new();
    for op in script {
        begins.push(out.len());
        if let Op::Repeat { from, times } = op {
            let body = out[begins[*from as usize]..].to_vec();
            (1..times.unwrap()).for_each(|_| out.extend(body.clone()));
        } else {
            out.push(op.clone());
        }
    }
    out
}

/// A script fragment that leaves no mutex held; loop targets are relative to the fragment.
fn piece() -> impl Strategy<Value = Vec<Op>> {
    let mutex = || prop_oneof![Just(M), Just(N)];
    let condition = || (0..2u32).prop_map(ConditionId);
    let plain = prop_oneof![
        (1..9u64).prop_map(|time| vec![work(time)]),
        Just(vec![Op::Yield]),
        condition().prop_map(|condition| vec![Op::Signal(condition)]),
        condition().prop_map(|condition| vec![Op::Broadcast(condition)]),
        (0..2u32).prop_map(|barrier| vec![Op::Barrier(BarrierId(barrier))]),
        Just(vec![Op::Suspend]),
        prop::collection::vec(0..3u32, 1..3).prop_map(|mut specs| {
            specs.sort_unstable();
            specs.dedup();
            vec![Op::Resume(specs.into())]
        }),
    ];
    let locked = (mutex(), condition(), 0..4u8).prop_map(|(mutex, condition, kind)| {
        let inside = match kind {
            0 => work(3),
            1 => Op::Wait(condition, mutex),
            2 => Op::Sync(condition, mutex),
            _ => Op::Yield,
        };
        vec![Op::Lock(mutex), inside, Op::Unlock(mutex)]
    });
    let nested = Just(vec![Op::Lock(M), work(1), Op::Lock(N), work(1), Op::Unlock(M), Op::Unlock(N)]);
    let leaf = prop_oneof![3 => plain, 2 => locked, 1 => nested];
    leaf.prop_recursive(3, 24, 3, |inner| {
        (prop::collection::vec(inner, 1..3), 1..4u64).prop_map(|(pieces, times)| {
            let mut script = append(pieces);
            script.push(Op::Repeat { from: 0, times: Some(times) });
            script
        })
    })
}

/// Concatenates fragments and adjusts their loop targets.
fn append(pieces: Vec<Vec<Op>>) -> Vec<Op> {
    let mut script: Vec<Op> = Vec::new();
    for piece in pieces {
        let base = script.len() as u32;
        script.extend(piece.into_iter().map(|op| match op {
            Op::Repeat { from, times } => Op::Repeat { from: from + base, times },
            other => other,
        }));
    }
    script
}

fn any_workload() -> impl Strategy<Value = Workload> {
    let scripts = prop::collection::vec(prop::collection::vec(piece(), 0..5), 4);
    // Per signal: the posting and the awaiting task, and whether each is at the start of its script.
    let signals = prop::collection::vec((0..4usize, 0..4usize, any::<bool>(), any::<bool>()), 4);
    let forks = prop::collection::vec((0..3u32, any::<bool>(), prop::option::of(0..3u32)), 0..6);
    (scripts, signals, forks).prop_map(|(scripts, signals, forks)| {
        let mut scripts: Vec<Vec<Vec<Op>>> = scripts;
        let mut insert = |task: usize, op: Op, first: bool| {
            let at = if first { 0 } else { scripts[task].len() };
            scripts[task].insert(at, vec![op]);
        };
        for (number, &(poster, waiter, post_first, await_first)) in signals.iter().enumerate() {
            insert(waiter, Op::Await(SignalId(number as u32)), await_first);
            insert(poster, Op::Post(SignalId(number as u32)), post_first);
        }
        for &(parent, first, children) in &forks {
            insert(parent as usize, Op::Fork(3), first);
            if let Some(most) = children {
                insert(parent as usize, Op::Children(most), false);
            }
        }
        let start = |index| if index == 3 { Start::Forked } else { Start::At(Nanos::ZERO) };
        workload(scripts.into_iter().enumerate().map(|(index, pieces)| (start(index), append(pieces))).collect())
    })
}

/// Runs executor and oracle in parallel; `choices` select the task to run next.
fn compare(workload: &Workload, choices: &[u8]) -> Result<(), TestCaseError> {
    let (mut executor, mut oracle) = (Executor::new(workload), Oracle::new(workload));
    let mut runnable = Vec::new();
    let mut tasks = 0;
    for spec in 0..3 {
        executor.started(TaskId(tasks), spec, Nanos::ZERO);
        oracle.started(tasks, spec);
        runnable.push(tasks);
        tasks += 1;
    }
    for choice in choices.iter().cycle().take(2_000) {
        if runnable.is_empty() {
            oracle.check_stuck();
            break;
        }
        let task = runnable.remove(*choice as usize % runnable.len());
        let (mut woken, mut expected_woken) = (Vec::new(), Vec::new());
        let demand = executor.next(TaskId(task), Nanos::ZERO, &mut woken).demand;
        let expected = oracle.next(task, &mut expected_woken);
        prop_assert_eq!(&demand, &expected);
        let woken: Vec<u32> = woken.into_iter().map(|task| task.0).collect();
        prop_assert_eq!(&woken, &expected_woken);
        runnable.extend(woken);
        if let Demand::Fork(spec) = demand {
            executor.forked(TaskId(tasks), spec, TaskId(task), Nanos::ZERO);
            oracle.started(tasks, spec);
            oracle.parents.insert(tasks, task);
            runnable.push(tasks);
            tasks += 1;
        }
        if !matches!(demand, Demand::Wait | Demand::Exit) {
            runnable.push(task);
        }
        // No task is both runnable and waiting; a mutex has at most one owner (the map's key).
        prop_assert!(oracle.waiting.iter().all(|(task, _)| !runnable.contains(task)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn executor_matches_the_naive_oracle(workload in any_workload(), choices in prop::collection::vec(any::<u8>(), 1..50)) {
        prop_assert_eq!(workload.validate(), Ok(()));
        compare(&workload, &choices)?;
    }
}

/// A chain of two mutexes: the holder at its end runs with the policy of the most important waiter, the mutex goes to
/// that waiter first, and each task returns to its own policy.
#[test]
fn holder_inherits_the_policy_of_its_most_important_waiter_along_a_chain() {
    let holder = [Op::Lock(M), Op::Unlock(M)];
    let middle = [Op::Lock(N), Op::Lock(M), Op::Unlock(M), Op::Unlock(N)];
    let first = [Op::Lock(M), Op::Unlock(M)];
    let urgent = [Op::Lock(N), Op::Unlock(N)];
    let mut workload = at_zero(&[&holder, &middle, &first, &urgent]);
    workload.mutexes.iter_mut().for_each(|mutex| mutex.inherits_priority = true);
    let policies = [Policy::Other, Policy::Fifo(5), Policy::Other, Policy::Fifo(9)];
    workload.tasks.iter_mut().zip(policies).for_each(|(task, policy)| task.policy = policy);
    let mut executor = Executor::new(&workload);
    (0..4).for_each(|spec| executor.started(TaskId(spec), spec, Nanos::ZERO));
    let mut log = String::new();
    for task in [0, 2, 1, 1, 3, 0, 1, 1].map(TaskId) {
        let mut woken = Vec::new();
        let demand = executor.advance(task, Nanos::ZERO, &mut woken);
        let demand = demand.as_ref().map_or("done".into(), show);
        writeln!(log, "{task}: {demand} woken {woken:?} inherited {:?}", executor.take_inherited()).unwrap();
    }
    expect![[r#"
        0: done woken [] inherited []
        2: wait woken [] inherited []
        1: done woken [] inherited []
        1: wait woken [] inherited [(TaskId(0), (Fifo(5), 0))]
        3: wait woken [] inherited [(TaskId(0), (Fifo(9), 0)), (TaskId(1), (Fifo(9), 0))]
        0: done woken [TaskId(1)] inherited [(TaskId(0), (Other, 0))]
        1: done woken [TaskId(2)] inherited []
        1: done woken [TaskId(3)] inherited [(TaskId(1), (Fifo(5), 0))]
    "#]]
    .assert_eq(&log);
}
