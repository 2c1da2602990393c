// SPDX-License-Identifier: GPL-2.0-only
//! Constructed events, and the violations that each property reports for them.

use super::*;
use event_log::{BlockCause, CallbackSite, Event, EventKind, Sink, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};

mod edges;

const QUEUE: DsqId = DsqId(7);
const NO_TASK: TaskId = TaskId::NONE;

const CONDITIONS: Conditions =
    Conditions { has_queues: true, all_tasks: true, tolerance: Nanos(100), tick: Nanos(4_000) };

/// No promises.
fn none() -> Promises {
    Promises::default()
}

fn all() -> Promises {
    let work_conserving = WorkConserving::Yes;
    Promises { work_conserving, starvation: Some(Nanos(5_000)), key_order: true, ..none() }
}

/// A run under construction on two CPUs, whose tasks belong to the scheduler from the start.
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
        run.event(0, 0, NO_TASK, EventKind::Attached);
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
        self.switch(time, cpu, NO_TASK, TaskId(task), SwitchReason::Idle)
    }

    fn block(&mut self, time: u64, cpu: u32, task: u32) -> &mut Run {
        self.event(time, cpu, TaskId(task), EventKind::Block { cause: BlockCause::Timer });
        self.switch(time, cpu, TaskId(task), NO_TASK, SwitchReason::Block)
    }

    fn allow(&mut self, time: u64, task: u32, mask: u64) -> &mut Run {
        self.0.affinity(Nanos(time), TaskId(task), &CpuSet::from_words(&[mask]));
        self.event(time, 0, TaskId(task), EventKind::Affinity)
    }

    fn found(&mut self, end: u64) -> Vec<(Property, u64, u64, u64)> {
        let checker = std::mem::replace(&mut self.0, empty_checker());
        let violations = checker.finish(Nanos(end)).violations;
        violations.iter().map(|it| (it.property, it.from.0, it.to.0, it.value)).collect()
    }
}

fn empty_checker() -> Checker {
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
fn valid_run_has_no_violations() {
    let mut run = Run::new(all(), 2);
    run.wake(1_000, 0).insert(1_010, 0, 5).dispatch(1_020, 0, 0).run(1_030, 0, 0);
    run.wake(2_000, 1).insert(2_010, 1, 3).dispatch(2_020, 1, 1).run(2_030, 1, 1);
    run.block(3_000, 0, 0).block(3_500, 1, 1);
    assert_eq!(run.found(4_000), []);
}

#[test]
fn work_conservation_is_violated_after_the_tolerance() {
    for (begins, expected) in [(1_100, vec![]), (1_101, vec![(Property::WorkConserving, 1_000, 1_101, 101)])] {
        let mut run = Run::new(all(), 1);
        run.wake(1_000, 0).insert(1_001, 0, 1).dispatch(begins, 0, 1).run(begins, 1, 0);
        assert_eq!(run.found(2_000), expected, "{begins}");
    }
    let mut run = Run::new(Promises { work_conserving: WorkConserving::No, ..all() }, 1);
    assert_eq!(run.wake(1_000, 0).insert(1_001, 0, 1).dispatch(1_500, 0, 1).run(1_500, 1, 0).found(2_000), []);
}

/// The kernel enqueues a task again if a task of a higher class takes the idle CPU that it was given.
#[test]
fn work_conservation_counts_from_the_loss_of_the_chosen_cpu_to_a_higher_class() {
    let violated = [(Property::WorkConserving, 1_000, 1_160, 160)];
    for (policy, expected) in [(Policy::Fifo(5), vec![]), (Policy::Other, violated.to_vec())] {
        let mut run = Run::new(all(), 1);
        run.0.task(Nanos(0), &info(1, policy, 0b01));
        let insert = |run: &mut Run, time: u64, from: &str, to: u32| {
            let op = (1..=u8::MAX).find(|op| event_log::op_name(*op) == Some(from)).expect("an op of this name");
            let site = CallbackSite { op, ..CallbackSite::default() };
            let kind = EventKind::Insert { dsq: DsqId::local_on(CpuId(to)), key: 0, slice_ns: 1_000 };
            run.0.event(&Event { time: Nanos(time), cpu: CpuId(0), task: TaskId(0), kind, site });
        };
        run.wake(1_000, 0);
        insert(&mut run, 1_001, "select_cpu", 0);
        run.wake(1_079, 1);
        insert(&mut run, 1_080, "enqueue", 1);
        run.run(1_081, 0, 1).run(1_160, 1, 0);
        run.block(2_000, 0, 1).block(2_000, 1, 0);
        assert_eq!(run.found(2_000), expected, "{policy:?}");
    }
}

/// A CPU that is not in the task's mask does not count.
#[test]
fn idle_cpus_outside_the_tasks_mask_do_not_count() {
    for (mask, broken) in [(0b01, false), (0b11, true)] {
        let mut run = Run::new(all(), 2);
        run.wake(500, 0).insert(500, 0, 1).dispatch(500, 0, 0).run(500, 0, 0);
        run.allow(700, 1, mask).wake(1_000, 1).insert(1_001, 1, 1);
        assert_eq!(!run.found(2_000).is_empty(), broken, "{mask:b}");
    }
}

#[test]
fn woken_task_that_is_not_queued_is_a_lost_wakeup() {
    let mut run = Run::new(none(), 1);
    run.wake(1_000, 0);
    assert_eq!(run.found(9_000), [(Property::LostWakeup, 1_000, 9_000, 8_000)]);
    let mut run = Run::new(none(), 1);
    assert_eq!(run.wake(1_000, 0).insert(1_050, 0, 1).found(9_000), [], "the task is in a queue");
    let mut run = Run::under(none(), Conditions { has_queues: false, ..CONDITIONS }, 1);
    assert_eq!(run.wake(1_000, 0).found(9_000), [], "the default scheduler shows no queues");
}

/// The task runs, loses its CPU and is not put into a queue.
#[test]
fn preempted_task_that_is_not_queued_is_a_lost_wakeup() {
    let mut run = Run::new(none(), 1);
    run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 0).run(1_000, 0, 0);
    run.switch(2_000, 0, TaskId(0), NO_TASK, SwitchReason::SliceEnd);
    assert_eq!(run.found(9_000), [(Property::LostWakeup, 2_000, 9_000, 7_000)]);
    let mut run = Run::new(none(), 1);
    run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 0).run(1_000, 0, 0).insert(2_000, 0, 1);
    run.switch(2_000, 0, TaskId(0), NO_TASK, SwitchReason::SliceEnd);
    assert_eq!(run.found(9_000), [], "the task was inserted into a queue just before");
}

/// The scheduler holds tasks in a map of its own for up to 4 us.
#[test]
fn task_that_is_queued_later_was_held_by_the_scheduler_and_is_not_lost() {
    let held = |run: &mut Run| {
        run.wake(1_000, 0).insert(5_000, 0, 1).dispatch(5_000, 0, 0).run(5_000, 0, 0).block(6_000, 0, 0);
    };
    let mut run = Run::new(none(), 2);
    held(&mut run);
    assert_eq!(run.found(9_000), []);
    // Another task that is in no queue at the end of the run: it may be held as long as the first one.
    for (end, expected) in [(14_000, vec![]), (14_001, vec![(Property::LostWakeup, 10_000, 14_001, 4_001)])] {
        let mut run = Run::new(none(), 2);
        held(&mut run);
        assert_eq!(run.wake(10_000, 1).found(end), expected, "{end}");
    }
}

/// The task is in no queue for 9 us, but CPU 0 is idle for the first 3 us only.
#[test]
fn lost_wakeup_is_reported_at_the_end_although_all_cpus_are_busy_by_then() {
    let mut run = Run::new(none(), 2);
    run.allow(500, 0, 0b01).wake(1_000, 0);
    run.wake(4_000, 1).insert(4_000, 1, 1).dispatch(4_000, 1, 0).run(4_000, 0, 1);
    assert_eq!(run.found(10_000), [(Property::LostWakeup, 1_000, 4_000, 3_000)]);
}

#[test]
fn starvation_is_reported_when_the_wait_or_the_run_ends() {
    let promises = Promises { work_conserving: WorkConserving::No, ..all() };
    for (ends, expected) in [(6_000, vec![]), (6_001, vec![(Property::StarvationMs, 1_000, 6_001, 5_001)])] {
        let mut run = Run::new(promises, 1);
        run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(ends, 0, 0).run(ends, 0, 0);
        assert_eq!(run.found(20_000), expected);
        let mut run = Run::new(promises, 1);
        assert_eq!(run.wake(1_000, 0).insert(1_000, 0, 1).found(ends), expected);
    }
}

/// While higher classes occupy all CPUs, the scheduler is not responsible for waiting tasks.
#[test]
fn starvation_excludes_time_when_higher_classes_occupy_all_cpus() {
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
        run.event(0, 0, NO_TASK, EventKind::Attached);
        run.wake(1_000, 1).run(1_000, 0, 1).wake(1_000, 0).insert(1_000, 0, 1);
        if second == 1 {
            run.wake(1_500, 2).run(1_500, 1, 2).block(9_000, 1, 2);
        }
        run.dispatch(9_500, 0, 1).run(9_500, 1, 0);
        assert_eq!(!run.found(10_000).is_empty(), broken, "{second}");
    }
}

#[test]
fn running_on_a_disallowed_cpu_violates_affinity() {
    let mut run = Run::new(none(), 1);
    run.allow(500, 0, 0b01).wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 1).run(1_010, 1, 0);
    assert_eq!(run.found(2_000), [(Property::Affinity, 1_010, 1_010, 0)]);
    for (leaves, expected) in [(6_000, vec![]), (6_001, vec![(Property::Affinity, 2_000, 6_001, 4_001)])] {
        let mut run = Run::new(none(), 1);
        run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 1).run(1_010, 1, 0).allow(2_000, 0, 0b01);
        run.switch(leaves, 1, TaskId(0), NO_TASK, SwitchReason::Change);
        run.insert(leaves, 0, 1).dispatch(leaves, 0, 0).run(leaves, 0, 0);
        assert_eq!(run.found(9_000), expected);
    }
}

#[test]
fn contradicting_switches_violate_sanity() {
    let mut run = Run::new(none(), 2);
    run.run(1_000, 0, 0);
    assert_eq!(run.found(2_000), [(Property::Sanity, 1_000, 1_000, 0)], "the task was asleep");
    let mut run = Run::new(none(), 2);
    run.wake(1_000, 0).insert(1_000, 0, 1).run(1_000, 0, 0).run(1_500, 1, 0);
    assert_eq!(run.found(2_000), [(Property::Sanity, 1_500, 1_500, 0)], "the task is on two CPUs");
    let mut run = Run::new(none(), 2);
    run.switch(1_000, 0, TaskId(1), NO_TASK, SwitchReason::Preempt);
    assert_eq!(run.found(2_000)[0], (Property::Sanity, 1_000, 1_000, 0), "the previous task was not on the CPU");
}

#[test]
fn key_order_is_violated_when_a_smaller_key_is_passed_over() {
    let keys = [u64::MAX - 2, 3, 9];
    for (first, mask, expected) in [
        (0, 0b11, vec![]),
        (1, 0b11, vec![(Property::KeyOrder, 2_000, 2_000, 3)]),
        (2, 0b11, vec![(Property::KeyOrder, 2_000, 2_000, 9)]),
        // The task with the smallest key may not run on this CPU.
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

/// `dsq_move()` appears as an insert into a local DSQ by `dispatch`.
#[test]
fn dsq_move_takes_the_task_out_of_its_queue() {
    for (op, expected) in [(4, vec![(Property::KeyOrder, 2_000, 2_000, 9)]), (2, vec![])] {
        let mut run = Run::new(Promises { work_conserving: WorkConserving::No, ..all() }, 2);
        run.wake(1_000, 0).insert(1_000, 0, 5).wake(1_000, 1).insert(1_000, 1, 9);
        let kind = EventKind::Insert { dsq: DsqId::local_on(CpuId(0)), key: 0, slice_ns: 1_000 };
        let site = CallbackSite { op, file: 0, line: 0 };
        run.0.event(&Event { time: Nanos(2_000), cpu: CpuId(0), task: TaskId(1), kind, site });
        assert_eq!(run.found(3_000), expected, "{op}");
    }
}

/// Promises do not hold while no scheduler is attached, nor just after a hotplug or affinity event.
#[test]
fn promises_are_not_checked_without_a_scheduler_or_just_after_a_reset() {
    let mut run = Run::new(all(), 1);
    run.event(500, 0, NO_TASK, EventKind::Disabled { kind: 64 }).wake(1_000, 0);
    assert_eq!(run.found(20_000), []);
    let mut run = Run::new(all(), 1);
    run.wake(1_000, 0).insert(1_000, 0, 1).event(1_090, 1, NO_TASK, EventKind::Hotplug { online: false });
    run.dispatch(1_180, 0, 0).run(1_180, 0, 0);
    assert_eq!(run.found(2_000), []);
    let mut run = Run::new(all(), 1);
    run.wake(1_000, 0).event(9_000, 0, NO_TASK, EventKind::Disabled { kind: 1026 });
    let found = run.found(20_000);
    let properties: Vec<Property> = found.iter().map(|it| it.0).collect();
    assert_eq!(
        properties,
        [Property::WorkConserving, Property::LostWakeup, Property::StarvationMs],
        "violations until the scheduler was disabled"
    );
}

/// The kernel reports a CPU as offline only at the end. The CPU has been going offline since its last task was taken
/// from it.
#[test]
fn idling_of_a_cpu_that_is_going_offline_is_no_violation() {
    for (goes, expected) in [(true, vec![]), (false, vec![(Property::WorkConserving, 3_000, 4_000, 1_000)])] {
        let mut run = Run::new(Promises { starvation: None, ..all() }, 3);
        run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(1_000, 0, 0).run(1_000, 0, 0);
        run.wake(1_000, 1).insert(1_000, 1, 2).dispatch(1_000, 1, 1).run(1_000, 1, 1).block(2_900, 1, 1);
        run.wake(3_000, 2).insert(3_000, 2, 3).dispatch(4_000, 2, 0);
        run.insert(4_000, 0, 4).switch(4_000, 0, TaskId(0), TaskId(2), SwitchReason::SliceEnd);
        if goes {
            run.event(4_050, 1, NO_TASK, EventKind::Hotplug { online: false });
        }
        assert_eq!(run.found(4_060), expected, "{goes}");
    }
}

/// The kernel schedules tasks itself while a scheduler is being disabled, until a callback inserts a task into a
/// queue.
#[test]
fn promises_are_not_checked_in_bypass_mode() {
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
fn violations_beyond_the_limit_are_counted_and_not_kept() {
    let mut run = Run::new(all(), 1);
    for round in 1..=150 {
        let time = 10_000 * round;
        run.wake(time, 0).insert(time, 0, 1).dispatch(time + 500, 0, 0).run(time + 500, 0, 0).block(time + 600, 0, 0);
    }
    let findings = run.0.finish(Nanos(2_000_000));
    assert_eq!((findings.violations.len(), findings.count), (MOST, 150));
}

#[test]
fn promises_that_the_run_could_not_violate_are_listed_as_not_seen() {
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
    assert_eq!(run.0.finish(Nanos(1_000)).not_seen, expected, "there was a key, and a contested CPU");
    assert_eq!(Run::new(none(), 1).0.finish(Nanos(1_000)).not_seen, [], "nothing was promised");
    // A real kernel shows neither queues nor all tasks.
    let real = Conditions { has_queues: false, all_tasks: false, ..CONDITIONS };
    let mut run = Run::under(promises, real, 2);
    run.wake(100, 0).run(100, 0, 0).wake(200, 1).event(2_000_000_000, 0, TaskId(0), EventKind::Tick);
    let not_seen = run.0.finish(Nanos(2_000_000_000)).not_seen;
    assert_eq!(not_seen.len(), 5, "{not_seen:?}");
}

/// The slice is 1,000 ns, a tick 4,000 ns, the tolerance 100 ns.
#[test]
fn stint_ticks_is_violated_beyond_the_slice_on_a_contested_cpu() {
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
    assert_eq!(run.found(9_000), [(Property::StintTicks, 2_000, 9_000, 7_000)], "the task never leaves the CPU");
    let mut run = Run::new(Promises { work_conserving: WorkConserving::No, ..promises }, 2);
    run.allow(10, 1, 0b10).event(20, 1, NO_TASK, EventKind::Hotplug { online: false });
    run.wake(1_000, 1).insert(1_000, 1, 2).wake(1_500, 0).insert(1_500, 0, 1).dispatch(2_000, 0, 0).run(2_000, 0, 0);
    assert_eq!(run.found(9_000), [], "the waiting task may not run on CPU 0");
}

#[test]
fn preemption_is_violated_when_a_woken_earlier_key_waits_too_long() {
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

/// Two tasks share one CPU, and the first one has it all the time.
#[test]
fn weighted_share_is_checked_from_events() {
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

/// A task waits behind another one permanently while the second CPU idles.
#[test]
fn eventual_work_conservation_is_violated_after_ten_seconds() {
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

/// The first of two tasks is in a group with a hard cap of half a CPU, the second in a group with a soft cap.
fn capped(promises: Promises) -> Run {
    let group = |hard_cap_percent, has_soft_cap| Group { weight: 100, hard_cap_percent, has_soft_cap, within: vec![] };
    let groups = vec![group(Some(50), false), group(None, true)];
    let task = |task: usize| (format!("task-{task}"), TaskDemand { group: Some(task), ..TaskDemand::default() });
    let demands = Demands { groups, tasks: [0, 1].map(task).into(), ..Demands::default() };
    Run::of(promises, CONDITIONS, 2, demands)
}

/// With a half-life of 1 ms, a task is at its cap after running for 1 ms, and 0.02 CPU below it 59 us after that.
#[test]
fn tasks_throttled_by_a_cap_do_not_count_as_waiting() {
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
        run.switch(from, 0, TaskId(0), NO_TASK, SwitchReason::SliceEnd);
        run
    };
    let found = |mut run: Run, end| run.found(end).into_iter().map(|it| (it.0, it.1 / 1000)).collect::<Vec<_>>();
    assert_eq!(found(parked(promises, 1_001_000), 1_059_000), [], "usage is above 0.48 until then");
    let late = found(parked(promises, 1_001_000), 1_070_000);
    assert_eq!(late, [(Property::WorkConserving, 1_059), (Property::StarvationMs, 1_001)]);
    assert_eq!(found(parked(promises, 901_000), 910_000).len(), 2, "the group is not at its cap");
    let unaware = Promises { caps: false, ..promises };
    assert_eq!(found(parked(unaware, 1_001_000), 1_059_000).len(), 2, "caps are not promised");
    let by_seconds = Promises { caps_half_life: None, ..promises };
    assert_eq!(
        found(parked(by_seconds, 901_000), 990_000),
        [],
        "without a half-life, a capped group always counts as throttled"
    );
    // A task that continues exceeds the limit after 1,075 us of running: 0.52 CPU plus what two CPUs add within a
    // tick.
    let mut run = capped(promises);
    run.wake(1_000, 0).insert(1_000, 0, 5).dispatch(1_000, 0, 0).run(1_000, 0, 0);
    run.event(1_070_000, 0, TaskId(0), EventKind::Tick).event(1_090_000, 0, TaskId(0), EventKind::Tick);
    assert_eq!(found(run, 1_100_000), [(Property::Caps, 1_076)]);
}

/// CPU time of a task of a higher class is not charged to a cap, since the scheduler does not control it.
#[test]
fn tasks_of_higher_classes_are_not_charged_to_caps() {
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

/// If caps are promised, weights do not determine the shares of tasks in capped groups, nor of tasks beside them.
#[test]
fn weighted_share_excludes_tasks_of_capped_groups() {
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

/// A run of two CPUs with warnings and no promises; times are in ms.
fn warned(tasks: u32) -> Run {
    let mut run = Run::new(none(), 0);
    run.0 = empty_checker().with_warnings(none());
    run.0.event(&Event {
        time: Nanos(0),
        cpu: CpuId(0),
        task: NO_TASK,
        kind: EventKind::Attached,
        site: CallbackSite::default(),
    });
    for task in 0..tasks {
        run.0.task(Nanos(0), &info(task, Policy::Ext, 0b11));
    }
    run
}

const MS: u64 = 1_000_000;

#[test]
fn wait_beside_an_idle_cpu_is_a_warning_after_30_ms() {
    for (begins, expected) in [(30, 0), (31, 1)] {
        let mut run = warned(1);
        run.wake(0, 0).insert(1, 0, 1).dispatch(begins * MS, 0, 1).run(begins * MS, 1, 0);
        let found = run.found(40 * MS);
        assert_eq!(found.len(), expected, "{found:?}");
        assert!(found.iter().all(|it| it.0 == Property::IdleBesideWaiting));
    }
}

#[test]
fn wait_of_seconds_is_a_warning_unless_all_others_are_heavier() {
    let starved = |nice: i8| {
        let mut run = warned(2);
        run.0.task(Nanos(0), &TaskInfo { nice, ..info(2, Policy::Ext, 0b11) });
        for (task, cpu) in [(0, 0), (1, 1)] {
            run.wake(1, task).insert(1, task, 1).dispatch(1, task, cpu).run(1, cpu, task);
        }
        run.wake(MS, 2).insert(MS, 2, 1);
        run.found(3500 * MS).iter().any(|it| it.0 == Property::Starved)
    };
    assert!(starved(0) && starved(2));
    assert!(!starved(4), "of two tasks, the heavier one has more than twice the weight");
}

#[test]
fn unequal_time_of_equal_tasks_is_a_warning() {
    let mut run = warned(2);
    run.wake(1, 0).wake(1, 1).insert(1, 0, 1).insert(1, 1, 1).dispatch(1, 0, 0).run(1, 0, 0);
    // The first window begins when both are runnable.
    run.event(2001 * MS, 0, TaskId(0), EventKind::Tick).event(4002 * MS, 0, TaskId(0), EventKind::Tick);
    let found = run.found(4003 * MS);
    assert!(found.iter().any(|it| it.0 == Property::UnequalTime && it.3 == 0), "{found:?}");
}

#[test]
fn key_that_stands_still_while_its_task_runs_is_a_warning() {
    let stalled = |step: u64| {
        let mut run = warned(1);
        let mut now = 0;
        for round in 0..50 {
            run.wake(now, 0).insert(now, 0, 7 + step * round).dispatch(now, 0, 0).run(now, 0, 0);
            run.block(now + 20 * MS, 0, 0);
            now += 21 * MS;
        }
        run.found(now).iter().filter(|it| it.0 == Property::StalledVirtualTime).count()
    };
    assert_eq!((stalled(0), stalled(1)), (2, 0));
}
