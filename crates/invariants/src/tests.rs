// SPDX-License-Identifier: GPL-2.0-only
//! Events, made up: what each property says of them, and what it does not.

use super::*;
use event_log::{BlockCause, CallbackSite, Event, EventKind, Sink, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};

mod edges;

const QUEUE: DsqId = DsqId(7);
const NOBODY: TaskId = TaskId::NONE;

const CONDITIONS: Conditions =
    Conditions { has_queues: true, all_tasks: true, tolerance: Nanos(100), tick: Nanos(4_000) };

/// Nothing is promised.
fn none() -> Promises {
    Promises::default()
}

fn all() -> Promises {
    let work_conserving = WorkConserving::Yes;
    Promises { work_conserving, starvation: Some(Nanos(5_000)), key_order: true, ..none() }
}

/// A run under construction on two CPUs; a scheduler has the tasks from the beginning.
struct Run(Checker);

impl Run {
    fn new(promises: Promises, tasks: u32) -> Run {
        Run::under(promises, CONDITIONS, tasks)
    }

    fn under(promises: Promises, conditions: Conditions, tasks: u32) -> Run {
        Run::of(promises, conditions, tasks, Demands::default())
    }

    fn of(promises: Promises, conditions: Conditions, tasks: u32, demands: Demands) -> Run {
        let mut run = Run(Checker::new(2, &CpuSet::first_n(2), promises, conditions, demands));
        (0..tasks).for_each(|task| run.0.task(Nanos(0), &info(task, Policy::Other, 0b11)));
        run.event(0, 0, NOBODY, EventKind::Attached);
        run
    }

    fn event(&mut self, time: u64, cpu: u32, task: TaskId, kind: EventKind) -> &mut Run {
        self.0.event(&Event { time: Nanos(time), cpu: CpuId(cpu), task, kind, site: CallbackSite::default() });
        self
    }

    fn wake(&mut self, time: u64, task: u32) -> &mut Run {
        let kind = EventKind::Wakeup { waker: Waker::Timer, sync: false, target: CpuId(0) };
        self.event(time, 0, TaskId(task), kind)
    }

    fn insert(&mut self, time: u64, task: u32, key: u64) -> &mut Run {
        self.event(time, 0, TaskId(task), EventKind::Insert { dsq: QUEUE, key, slice_ns: 1_000 })
    }

    fn dispatch(&mut self, time: u64, task: u32, to: u32) -> &mut Run {
        self.event(time, to, TaskId(task), EventKind::Dispatch { from: QUEUE, to: CpuId(to) })
    }

    fn switch(&mut self, time: u64, cpu: u32, prev: TaskId, next: TaskId, reason: SwitchReason) -> &mut Run {
        self.event(time, cpu, next, EventKind::Switch { prev, reason })
    }

    fn run(&mut self, time: u64, cpu: u32, task: u32) -> &mut Run {
        self.switch(time, cpu, NOBODY, TaskId(task), SwitchReason::Idle)
    }

    fn block(&mut self, time: u64, cpu: u32, task: u32) -> &mut Run {
        self.event(time, cpu, TaskId(task), EventKind::Block { cause: BlockCause::Timer });
        self.switch(time, cpu, TaskId(task), NOBODY, SwitchReason::Block)
    }

    fn allow(&mut self, time: u64, task: u32, mask: u64) -> &mut Run {
        self.0.affinity(Nanos(time), TaskId(task), &CpuSet::from_words(&[mask]));
        self.event(time, 0, TaskId(task), EventKind::Affinity)
    }

    fn found(&mut self, end: u64) -> Vec<(Property, u64, u64, u64)> {
        let checker = std::mem::replace(&mut self.0, nobody());
        let violations = checker.finish(Nanos(end)).violations;
        violations.iter().map(|it| (it.property, it.from.0, it.to.0, it.value)).collect()
    }
}

fn nobody() -> Checker {
    Checker::new(2, &CpuSet::first_n(2), none(), CONDITIONS, Demands::default())
}

fn info(task: u32, policy: Policy, mask: u64) -> TaskInfo {
    TaskInfo {
        id: TaskId(task),
        pid: 100 + task,
        name: format!("task-{task}"),
        parent: None,
        allowed: CpuSet::from_words(&[mask]),
        policy,
        nice: 0,
        kernel_thread: false,
    }
}

#[test]
fn a_quiet_run_breaks_nothing() {
    let mut run = Run::new(all(), 2);
    run.wake(1_000, 0).insert(1_010, 0, 5).dispatch(1_020, 0, 0).run(1_030, 0, 0);
    run.wake(2_000, 1).insert(2_010, 1, 3).dispatch(2_020, 1, 1).run(2_030, 1, 1);
    run.block(3_000, 0, 0).block(3_500, 1, 1);
    assert_eq!(run.found(4_000), []);
}

#[test]
fn idling_beside_a_waiting_task_counts_after_the_tolerance() {
    for (begins, expected) in [(1_100, vec![]), (1_101, vec![(Property::WorkConserving, 1_000, 1_101, 101)])] {
        let mut run = Run::new(all(), 1);
        run.wake(1_000, 0).insert(1_001, 0, 1).dispatch(begins, 0, 1).run(begins, 1, 0);
        assert_eq!(run.found(2_000), expected, "{begins}");
    }
    let mut run = Run::new(Promises { work_conserving: WorkConserving::No, ..all() }, 1);
    assert_eq!(run.wake(1_000, 0).insert(1_001, 0, 1).dispatch(1_500, 0, 1).run(1_500, 1, 0).found(2_000), []);
}

/// The other CPU does not count if the task may not use it.
#[test]
fn only_cpus_that_the_task_may_use_count() {
    for (mask, broken) in [(0b01, false), (0b11, true)] {
        let mut run = Run::new(all(), 2);
        run.wake(500, 0).insert(500, 0, 1).dispatch(500, 0, 0).run(500, 0, 0);
        run.allow(700, 1, mask).wake(1_000, 1).insert(1_001, 1, 1);
        assert_eq!(!run.found(2_000).is_empty(), broken, "{mask:b}");
    }
}

#[test]
fn a_task_that_nobody_queues_is_lost() {
    let mut run = Run::new(none(), 1);
    run.wake(1_000, 0);
    assert_eq!(run.found(9_000), [(Property::LostWakeup, 1_000, 9_000, 8_000)]);
    let mut run = Run::new(none(), 1);
    assert_eq!(run.wake(1_000, 0).insert(1_050, 0, 1).found(9_000), [], "it is in a queue");
    let mut run = Run::under(none(), Conditions { has_queues: false, ..CONDITIONS }, 1);
    assert_eq!(run.wake(1_000, 0).found(9_000), [], "the kernel's own scheduler shows no queues");
}

/// It ran, lost the CPU, and was put nowhere.
#[test]
fn a_task_that_loses_its_cpu_is_lost_too() {
    let mut run = Run::new(none(), 1);
    run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 0).run(1_000, 0, 0);
    run.switch(2_000, 0, TaskId(0), NOBODY, SwitchReason::SliceEnd);
    assert_eq!(run.found(9_000), [(Property::LostWakeup, 2_000, 9_000, 7_000)]);
    let mut run = Run::new(none(), 1);
    run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 0).run(1_000, 0, 0).insert(2_000, 0, 1);
    run.switch(2_000, 0, TaskId(0), NOBODY, SwitchReason::SliceEnd);
    assert_eq!(run.found(9_000), [], "it was put into a queue just before");
}

#[test]
fn waiting_for_longer_than_promised_is_told_when_it_ends_or_the_run_does() {
    let promises = Promises { work_conserving: WorkConserving::No, ..all() };
    for (ends, expected) in [(6_000, vec![]), (6_001, vec![(Property::StarvationMs, 1_000, 6_001, 5_001)])] {
        let mut run = Run::new(promises, 1);
        run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(ends, 0, 0).run(ends, 0, 0);
        assert_eq!(run.found(20_000), expected);
        let mut run = Run::new(promises, 1);
        assert_eq!(run.wake(1_000, 0).insert(1_000, 0, 1).found(ends), expected);
    }
}

/// While higher classes have all CPUs, it is not the scheduler that lets a task wait.
#[test]
fn time_that_higher_classes_take_is_not_the_schedulers() {
    for (second, broken) in [(1, false), (0, true)] {
        let mut run = Run(Checker::new(
            2,
            &CpuSet::first_n(2),
            Promises { work_conserving: WorkConserving::No, ..all() },
            CONDITIONS,
            Demands::default(),
        ));
        run.0.task(Nanos(0), &info(0, Policy::Other, 0b11));
        (1..3).for_each(|task| run.0.task(Nanos(0), &info(task, Policy::Fifo(5), 0b11)));
        run.event(0, 0, NOBODY, EventKind::Attached);
        run.wake(1_000, 1).run(1_000, 0, 1).wake(1_000, 0).insert(1_000, 0, 1);
        if second == 1 {
            run.wake(1_500, 2).run(1_500, 1, 2).block(9_000, 1, 2);
        }
        run.dispatch(9_500, 0, 1).run(9_500, 1, 0);
        assert_eq!(!run.found(10_000).is_empty(), broken, "{second}");
    }
}

#[test]
fn running_where_one_may_not() {
    let mut run = Run::new(none(), 1);
    run.allow(500, 0, 0b01).wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 1).run(1_010, 1, 0);
    assert_eq!(run.found(2_000), [(Property::Affinity, 1_010, 1_010, 0)]);
    for (leaves, expected) in [(6_000, vec![]), (6_001, vec![(Property::Affinity, 2_000, 6_001, 4_001)])] {
        let mut run = Run::new(none(), 1);
        run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 1).run(1_010, 1, 0).allow(2_000, 0, 0b01);
        run.switch(leaves, 1, TaskId(0), NOBODY, SwitchReason::Change);
        run.insert(leaves, 0, 1).dispatch(leaves, 0, 0).run(leaves, 0, 0);
        assert_eq!(run.found(9_000), expected);
    }
}

#[test]
fn events_that_contradict_each_other() {
    let mut run = Run::new(none(), 2);
    run.run(1_000, 0, 0);
    assert_eq!(run.found(2_000), [(Property::Sanity, 1_000, 1_000, 0)], "it was asleep");
    let mut run = Run::new(none(), 2);
    run.wake(1_000, 0).insert(1_000, 0, 1).run(1_000, 0, 0).run(1_500, 1, 0);
    assert_eq!(run.found(2_000), [(Property::Sanity, 1_500, 1_500, 0)], "it is on two CPUs");
    let mut run = Run::new(none(), 2);
    run.switch(1_000, 0, TaskId(1), NOBODY, SwitchReason::Preempt);
    assert_eq!(run.found(2_000)[0], (Property::Sanity, 1_000, 1_000, 0), "who is taken off was not there");
}

#[test]
fn queues_give_the_smallest_key_that_may_run() {
    let keys = [u64::MAX - 2, 3, 9];
    for (first, mask, expected) in [
        (0, 0b11, vec![]),
        (1, 0b11, vec![(Property::KeyOrder, 2_000, 2_000, 3)]),
        (2, 0b11, vec![(Property::KeyOrder, 2_000, 2_000, 9)]),
        // The task with the smallest key may not run there.
        (1, 0b10, vec![]),
    ] {
        let mut run = Run::new(Promises { work_conserving: WorkConserving::No, ..all() }, 3);
        run.allow(500, 0, mask);
        for task in 0..3 {
            run.wake(1_000, task).insert(1_000, task, keys[task as usize]);
        }
        run.dispatch(2_000, first, 0);
        assert_eq!(run.found(3_000), expected, "{first} {mask:b}");
    }
}

/// `dsq_move()` shows as an insert into a CPU's queue by `dispatch`.
#[test]
fn a_task_that_is_moved_out_of_a_queue_leaves_it() {
    for (op, expected) in [(4, vec![(Property::KeyOrder, 2_000, 2_000, 9)]), (2, vec![])] {
        let mut run = Run::new(Promises { work_conserving: WorkConserving::No, ..all() }, 2);
        run.wake(1_000, 0).insert(1_000, 0, 5).wake(1_000, 1).insert(1_000, 1, 9);
        let kind = EventKind::Insert { dsq: DsqId::local_on(CpuId(0)), key: 0, slice_ns: 1_000 };
        let site = CallbackSite { op, file: 0, line: 0 };
        run.0.event(&Event { time: Nanos(2_000), cpu: CpuId(0), task: TaskId(1), kind, site });
        assert_eq!(run.found(3_000), expected, "{op}");
    }
}

/// What a scheduler promises does not hold while it is not there, nor just after something changed.
#[test]
fn nothing_is_promised_without_a_scheduler_or_in_a_disturbance() {
    let mut run = Run::new(all(), 1);
    run.event(500, 0, NOBODY, EventKind::Disabled { kind: 64 }).wake(1_000, 0);
    assert_eq!(run.found(20_000), []);
    let mut run = Run::new(all(), 1);
    run.wake(1_000, 0).insert(1_000, 0, 1).event(1_090, 1, NOBODY, EventKind::Hotplug { online: false });
    run.dispatch(1_180, 0, 0).run(1_180, 0, 0);
    assert_eq!(run.found(2_000), []);
    let mut run = Run::new(all(), 1);
    run.wake(1_000, 0).event(9_000, 0, NOBODY, EventKind::Disabled { kind: 1026 });
    let found = run.found(20_000);
    let properties: Vec<Property> = found.iter().map(|it| it.0).collect();
    assert_eq!(properties, [Property::WorkConserving, Property::LostWakeup, Property::StarvationMs], "until then");
}

/// The kernel says that a CPU is gone when it is; it had been on its way since its last task was taken from it.
#[test]
fn what_a_cpu_does_on_its_way_offline_is_not_the_schedulers() {
    for (goes, expected) in [(true, vec![]), (false, vec![(Property::WorkConserving, 3_000, 4_000, 1_000)])] {
        let mut run = Run::new(Promises { starvation: None, ..all() }, 3);
        run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 0).run(1_000, 0, 0);
        run.wake(1_000, 1).insert(1_000, 1, 2).dispatch(1_000, 1, 1).run(1_000, 1, 1).block(2_900, 1, 1);
        run.wake(3_000, 2).insert(3_000, 2, 3).dispatch(4_000, 2, 0);
        run.insert(4_000, 0, 4).switch(4_000, 0, TaskId(0), TaskId(2), SwitchReason::SliceEnd);
        if goes {
            run.event(4_050, 1, NOBODY, EventKind::Hotplug { online: false });
        }
        assert_eq!(run.found(4_060), expected, "{goes}");
    }
}

/// The kernel runs tasks by itself while a scheduler goes: until a callback puts one into a queue.
#[test]
fn nothing_is_promised_while_a_scheduler_is_bypassed() {
    let bypass = EventKind::Insert { dsq: DsqId::BYPASS, key: 0, slice_ns: 1_000 };
    let by_enqueue = CallbackSite { op: 2, file: 0, line: 0 };
    for (called, expected) in [(false, 0), (true, 1)] {
        let mut run = Run::new(Promises { starvation: None, ..all() }, 2);
        run.wake(1_000, 0).event(1_000, 0, TaskId(0), bypass);
        if called {
            let kind = EventKind::Insert { dsq: QUEUE, key: 7, slice_ns: 1_000 };
            run.0.event(&Event { time: Nanos(2_000), cpu: CpuId(0), task: TaskId(0), kind, site: by_enqueue });
        }
        assert_eq!(run.found(9_000).len(), expected, "{called}");
    }
}

#[test]
fn only_the_first_violations_of_a_property_are_kept() {
    let mut run = Run::new(all(), 1);
    for round in 1..=150 {
        let time = 10_000 * round;
        run.wake(time, 0).insert(time, 0, 1).dispatch(time + 500, 0, 0).run(time + 500, 0, 0).block(time + 600, 0, 0);
    }
    let findings = run.0.finish(Nanos(2_000_000));
    assert_eq!((findings.violations.len(), findings.count), (MOST, 150));
}

#[test]
fn what_nothing_could_have_broken_is_not_seen() {
    let promises = Promises {
        work_conserving: WorkConserving::Eventually,
        weighted_share: Some(WeightedShare::new(5, 1)),
        key_order: true,
        preemption: Some(Nanos(50)),
        stint_ticks: Some(1),
        ..none()
    };
    let expected = [
        Property::WorkConserving,
        Property::WeightedSharePercent,
        Property::KeyOrder,
        Property::PreemptionUs,
        Property::StintTicks,
    ];
    assert_eq!(Run::new(promises, 1).0.finish(Nanos(1_000)).not_seen, expected);
    let mut run = Run::new(promises, 2);
    run.wake(100, 0).insert(100, 0, 5).dispatch(100, 0, 0).run(100, 0, 0).wake(200, 1).insert(200, 1, 9);
    let expected = [Property::WorkConserving, Property::WeightedSharePercent];
    assert_eq!(run.0.finish(Nanos(1_000)).not_seen, expected, "a key, and a CPU for which somebody waits");
    assert_eq!(Run::new(none(), 1).0.finish(Nanos(1_000)).not_seen, [], "nothing was promised");
    // A real kernel shows neither queues nor all tasks.
    let real = Conditions { has_queues: false, all_tasks: false, ..CONDITIONS };
    let mut run = Run::under(promises, real, 2);
    run.wake(100, 0).run(100, 0, 0).wake(200, 1).event(2_000_000_000, 0, TaskId(0), EventKind::Tick);
    let not_seen = run.0.finish(Nanos(2_000_000_000)).not_seen;
    assert_eq!(not_seen.len(), 5, "{not_seen:?}");
}

/// The slice is 1,000, a tick 4,000, the tolerance 100.
#[test]
fn keeping_a_cpu_beyond_the_slice_while_another_waits() {
    let promises = Promises { stint_ticks: Some(1), ..none() };
    for (mask, leaves, expected) in
        [(0b01, 7_100, vec![]), (0b01, 7_101, vec![(Property::StintTicks, 2_000, 7_101, 5_101)])]
    {
        let mut run = Run::new(promises, 2);
        run.allow(10, 1, mask).wake(1_000, 1).insert(1_000, 1, 2).wake(1_500, 0).insert(1_500, 0, 1);
        run.dispatch(2_000, 0, 0).run(2_000, 0, 0).insert(leaves, 0, 3).dispatch(leaves, 1, 0);
        run.switch(leaves, 0, TaskId(0), TaskId(1), SwitchReason::SliceEnd);
        assert_eq!(run.found(leaves), expected, "{mask:b} {leaves}");
    }
    let mut run = Run::new(promises, 2);
    run.wake(1_000, 1).insert(1_000, 1, 2).wake(1_500, 0).insert(1_500, 0, 1).dispatch(2_000, 0, 0).run(2_000, 0, 0);
    assert_eq!(run.found(9_000), [(Property::StintTicks, 2_000, 9_000, 7_000)], "it never leaves");
    let mut run = Run::new(Promises { work_conserving: WorkConserving::No, ..promises }, 2);
    run.allow(10, 1, 0b10).event(20, 1, NOBODY, EventKind::Hotplug { online: false });
    run.wake(1_000, 1).insert(1_000, 1, 2).wake(1_500, 0).insert(1_500, 0, 1).dispatch(2_000, 0, 0).run(2_000, 0, 0);
    assert_eq!(run.found(9_000), [], "who waits may not run there");
}

#[test]
fn waking_with_an_earlier_key_than_a_running_one() {
    let promises = Promises { preemption: Some(Nanos(50)), ..none() };
    for (key, begins, expected) in
        [(3, 2_150, vec![]), (3, 2_151, vec![(Property::PreemptionUs, 2_000, 2_151, 151)]), (7, 9_000, vec![])]
    {
        let mut run = Run::new(promises, 2);
        run.allow(10, 1, 0b01).wake(1_000, 0).insert(1_000, 0, 5).dispatch(1_000, 0, 0).run(1_000, 0, 0);
        run.wake(2_000, 1).insert(2_000, 1, key).insert(begins, 0, 5).dispatch(begins, 1, 0);
        run.switch(begins, 0, TaskId(0), TaskId(1), SwitchReason::Preempt);
        assert_eq!(run.found(begins), expected, "{key} {begins}");
    }
}

/// Two tasks with one CPU; the first has it all the time.
#[test]
fn a_share_is_judged_by_events() {
    let second = 1_000_000_000;
    let promises = Promises { weighted_share: Some(WeightedShare::new(10, 1)), ..none() };
    for (nice, found) in [(0, 2), (19, 0)] {
        let mut run = Run::new(promises, 2);
        run.allow(10, 0, 0b01).allow(10, 1, 0b01);
        run.event(20, 0, TaskId(1), EventKind::Priority { nice: 1 });
        run.event(30, 0, TaskId(1), EventKind::Priority { nice });
        run.wake(1_000, 0).insert(1_000, 0, 5).wake(1_000, 1).insert(1_000, 1, 6);
        run.dispatch(1_000, 0, 0).run(1_000, 0, 0).event(second, 0, TaskId(0), EventKind::Tick);
        let of_shares = run.found(second).into_iter().filter(|it| it.0 == Property::WeightedSharePercent).count();
        assert_eq!(of_shares, found, "{nice}");
    }
}

/// One task waits behind another for ever, and the second CPU idles.
#[test]
fn what_balancing_never_mends_takes_ten_seconds_to_be_found() {
    let second = 1_000_000_000;
    let promises = Promises { work_conserving: WorkConserving::Eventually, ..none() };
    for (seconds, found) in [(9, 0), (10, 1)] {
        let mut run = Run::new(promises, 2);
        run.wake(1_000, 0).insert(1_000, 0, 5).dispatch(1_000, 0, 0).run(1_000, 0, 0);
        run.wake(2_000, 1).insert(2_000, 1, 6);
        for at in 1..=seconds {
            run.event(at * second, 0, TaskId(0), EventKind::Tick);
        }
        assert_eq!(run.found(seconds * second).len(), found, "{seconds}");
    }
}

/// The first of two tasks is of a group with a hard cap of half a CPU, the second of one with a soft cap.
fn capped(promises: Promises) -> Run {
    let group = |hard_cap_percent, has_soft_cap| Group { weight: 100, hard_cap_percent, has_soft_cap, within: vec![] };
    let groups = vec![group(Some(50), false), group(None, true)];
    let task = |task: usize| (format!("task-{task}"), TaskDemand { group: Some(task), ..TaskDemand::default() });
    let demands = Demands { groups, tasks: [0, 1].map(task).into(), ..Demands::default() };
    Run::of(promises, CONDITIONS, 2, demands)
}

/// With a half-life of 1 ms a task that has run for that long is at its cap, and two hundredths below it after another 59 us.
#[test]
fn who_is_held_by_a_cap_waits_for_nobody() {
    let promises = Promises {
        work_conserving: WorkConserving::Yes,
        starvation: Some(Nanos(3_000)),
        caps: true,
        caps_half_life: Some(Nanos(1_000_000)),
        ..none()
    };
    let parked = |promises, from: u64| {
        let mut run = capped(promises);
        run.wake(1_000, 0).insert(1_000, 0, 5).dispatch(1_000, 0, 0).run(1_000, 0, 0);
        run.event(from, 0, TaskId(0), EventKind::Tick).insert(from, 0, 6);
        run.switch(from, 0, TaskId(0), NOBODY, SwitchReason::SliceEnd);
        run
    };
    let found = |mut run: Run, end| run.found(end).into_iter().map(|it| (it.0, it.1 / 1000)).collect::<Vec<_>>();
    assert_eq!(found(parked(promises, 1_001_000), 1_059_000), [], "its usage is above 0.48 until then");
    let late = found(parked(promises, 1_001_000), 1_070_000);
    assert_eq!(late, [(Property::WorkConserving, 1_059), (Property::StarvationMs, 1_001)]);
    assert_eq!(found(parked(promises, 901_000), 910_000).len(), 2, "it has not had its cap");
    let unaware = Promises { caps: false, ..promises };
    assert_eq!(found(parked(unaware, 1_001_000), 1_059_000).len(), 2, "nobody promised anything of caps");
    let by_seconds = Promises { caps_half_life: None, ..promises };
    assert_eq!(found(parked(by_seconds, 901_000), 990_000), [], "when in a second it has had its cap, nobody can tell");
    // Who runs on has too much: 0.52, and what two CPUs do in a tick, comes after 1,075 us of its own.
    let mut run = capped(promises);
    run.wake(1_000, 0).insert(1_000, 0, 5).dispatch(1_000, 0, 0).run(1_000, 0, 0);
    run.event(1_070_000, 0, TaskId(0), EventKind::Tick).event(1_090_000, 0, TaskId(0), EventKind::Tick);
    assert_eq!(found(run, 1_100_000), [(Property::Caps, 1_076)]);
}

/// What a task of a higher class uses is not the scheduler's to keep below a cap.
#[test]
fn tasks_of_higher_classes_count_for_no_cap() {
    for (policy, found) in [(Policy::Other, 1), (Policy::Fifo(5), 0)] {
        let group = Group { weight: 100, hard_cap_percent: Some(50), ..Group::default() };
        let tasks = [("task-0".to_owned(), TaskDemand { group: Some(0), ..TaskDemand::default() })].into();
        let demands = Demands { groups: vec![group], tasks, ..Demands::default() };
        let promises = Promises { caps: true, caps_half_life: Some(Nanos(1_000_000)), ..none() };
        let mut run = Run::of(promises, CONDITIONS, 0, demands);
        run.0.task(Nanos(0), &info(0, policy, 0b11));
        run.wake(1_000, 0).insert(1_000, 0, 5).dispatch(1_000, 0, 0).run(1_000, 0, 0);
        assert_eq!(run.found(2_000_000).len(), found, "{policy:?}");
    }
}

/// Beside them weights do not say what is due to whom, if caps are promised.
#[test]
fn no_shares_are_due_beside_a_cap() {
    let second = 1_000_000_000;
    for (caps, found) in [(true, 0), (false, 2)] {
        let weighted_share = Some(WeightedShare::new(10, 1));
        let caps_half_life = Some(Nanos(100 * second));
        let mut run = capped(Promises { weighted_share, caps, caps_half_life, ..none() });
        run.allow(10, 0, 0b01).allow(10, 1, 0b01);
        run.wake(1_000, 0).insert(1_000, 0, 5).wake(1_000, 1).insert(1_000, 1, 6);
        run.dispatch(1_000, 1, 0).run(1_000, 0, 1).event(second, 0, TaskId(1), EventKind::Tick);
        assert_eq!(run.found(second).len(), found, "{caps}");
    }
}
