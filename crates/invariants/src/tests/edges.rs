// SPDX-License-Identifier: GPL-2.0-only
//! Boundaries of each property: cases that just do not violate it, and the events that count.

use super::*;
use crate::demands::{Group, TaskDemand, Window};
use crate::promises::GangsBy;

const SECOND: u64 = 1_000_000_000;

/// A starvation bound is the only promise.
fn starvation() -> Promises {
    Promises { starvation: Some(Nanos(5_000)), ..none() }
}

fn conserving() -> Promises {
    Promises { work_conserving: WorkConserving::Yes, ..none() }
}

fn local(cpu: u32) -> EventKind {
    EventKind::Insert { dsq: DsqId::local_on(CpuId(cpu)), key: 0, slice_ns: 1_000 }
}

impl Run {
    /// Adds the next task, with this policy.
    fn add(&mut self, task: u32, policy: Policy) -> &mut Run {
        self.0.task(Nanos(0), &info(task, policy, 0b11));
        self
    }

    /// Wakes a task, inserts it into the queue and runs it immediately.
    fn start(&mut self, time: u64, cpu: u32, task: u32, key: u64) -> &mut Run {
        self.wake(time, task).insert(time, task, key).dispatch(time, task, cpu).run(time, cpu, task)
    }

    fn hotplug(&mut self, time: u64, cpu: u32, online: bool) -> &mut Run {
        self.event(time, cpu, NO_TASK, EventKind::Hotplug { online })
    }

    fn tick(&mut self, time: u64) -> &mut Run {
        self.event(time, 0, NO_TASK, EventKind::Tick)
    }
}

/// The task goes to sleep and is woken before its CPU has switched to another task.
#[test]
fn woken_task_cannot_run_elsewhere_before_its_cpu_has_switched() {
    for (switches, expected) in [(true, vec![]), (false, vec![(Property::Sanity, 2_020, 2_020, 0)])] {
        let mut run = Run::new(none(), 1);
        run.start(1_000, 0, 0, 1).event(2_000, 0, TaskId(0), EventKind::Block { cause: BlockCause::Timer });
        run.wake(2_010, 0).insert(2_010, 0, 1);
        if switches {
            run.switch(2_015, 0, TaskId(0), NO_TASK, SwitchReason::Block);
        }
        run.dispatch(2_020, 0, 1).run(2_020, 1, 0);
        assert_eq!(run.found(2_100), expected, "{switches}");
    }
}

/// A tick is 4,000 ns.
#[test]
fn affinity_grace_of_one_tick_starts_when_the_mask_excludes_the_cpu() {
    let (begins_first, begins_again) = (vec![(Property::Affinity, 2_000, 6_001, 4_001)], vec![]);
    for (between, expected) in [(0b01, begins_first), (0b11, begins_again)] {
        let mut run = Run::new(none(), 1);
        run.start(1_000, 1, 0, 1).allow(2_000, 0, 0b01).allow(3_000, 0, between).allow(5_000, 0, 0b01);
        run.switch(6_001, 1, TaskId(0), NO_TASK, SwitchReason::Change);
        run.insert(6_001, 0, 1).dispatch(6_001, 0, 0).run(6_001, 0, 0);
        assert_eq!(run.found(9_000), expected, "{between:b}");
    }
}

#[test]
fn task_that_stays_on_a_disallowed_cpu_is_reported_at_the_end() {
    for (end, expected) in [(6_000, vec![]), (6_001, vec![(Property::Affinity, 2_000, 6_001, 4_001)])] {
        let mut run = Run::new(none(), 1);
        assert_eq!(run.start(1_000, 1, 0, 1).allow(2_000, 0, 0b01).found(end), expected);
    }
}

/// No event says that a task leaves a local DSQ; it simply runs.
#[test]
fn task_run_from_a_local_dsq_is_in_no_queue_afterwards() {
    let mut run = Run::new(none(), 1);
    run.wake(1_000, 0).event(1_000, 0, TaskId(0), local(0)).run(1_000, 0, 0);
    run.switch(2_000, 0, TaskId(0), NO_TASK, SwitchReason::SliceEnd);
    assert_eq!(run.found(9_000), [(Property::LostWakeup, 2_000, 9_000, 7_000)]);
}

#[test]
fn waiting_counts_from_one_tolerance_after_a_reset() {
    for (begins, expected) in [(1_290, vec![]), (1_291, vec![(Property::WorkConserving, 1_190, 1_291, 101)])] {
        let mut run = Run::new(conserving(), 2);
        run.wake(1_000, 0).insert(1_000, 0, 1).allow(1_090, 1, 0b01).dispatch(begins, 0, 0).run(begins, 0, 0);
        assert_eq!(run.found(2_000), expected);
    }
}

/// An offline CPU does not idle, whether it was offline from the start or went offline later. A CPU that comes online
/// again can idle.
#[test]
fn offline_cpus_do_not_count_as_idle() {
    let waits = |mut run: Run, from: u64| {
        run.start(from, 0, 0, 1).wake(from + 1_000, 1).insert(from + 1_000, 1, 2);
        run.found(from + 6_000)
    };
    let mut absent = Run(Checker::new(2, &CpuSet::first_n(1), conserving(), CONDITIONS, Demands::default()));
    absent.add(0, Policy::Other).add(1, Policy::Other).event(0, 0, NO_TASK, EventKind::Attached);
    assert_eq!(waits(absent, 1_000), []);
    let gone = || {
        let mut run = Run::new(conserving(), 2);
        run.hotplug(500, 1, false);
        run
    };
    assert_eq!(waits(gone(), 1_000), []);
    let mut back = gone();
    back.hotplug(5_000, 1, true).event(5_000, 1, NO_TASK, EventKind::Idle { entered: true });
    assert_eq!(waits(back, 6_000), [(Property::WorkConserving, 7_000, 12_000, 5_000)]);
}

/// A CPU that is leaving an idle state no longer counts as idle.
#[test]
fn cpu_leaving_an_idle_state_no_longer_counts_as_idle() {
    let mut run = Run::new(conserving(), 1);
    run.wake(1_000, 0).insert(1_000, 0, 1);
    (0..2).for_each(|cpu| {
        run.event(1_050, cpu, NO_TASK, EventKind::Idle { entered: false });
    });
    assert_eq!(run.dispatch(1_500, 0, 0).run(1_500, 0, 0).found(2_000), []);
}

/// Events of the default scheduler contain no queues; it counts as attached from the start.
#[test]
fn promises_are_not_checked_before_the_scheduler_is_attached() {
    for (has_queues, found) in [(true, 0), (false, 1)] {
        let conditions = Conditions { has_queues, ..CONDITIONS };
        let mut run = Run(Checker::new(2, &CpuSet::first_n(2), conserving(), conditions, Demands::default()));
        assert_eq!(run.add(0, Policy::Other).wake(1_000, 0).found(9_000).len(), found, "{has_queues}");
    }
}

#[test]
fn dispatch_from_the_bypass_queue_starts_bypass_mode() {
    let mut run = Run::new(conserving(), 2);
    run.wake(1_000, 0).event(1_010, 0, TaskId(0), EventKind::Dispatch { from: DsqId::BYPASS, to: CpuId(0) });
    assert_eq!(run.found(9_000), []);
}

#[test]
fn sched_idle_tasks_may_starve() {
    for (policy, found) in [(Policy::Idle, 0), (Policy::Batch, 1)] {
        let mut run = Run::new(starvation(), 0);
        run.add(0, policy).wake(1_000, 0).insert(1_000, 0, 1);
        assert_eq!(run.found(9_000).len(), found, "{policy:?}");
    }
}

#[test]
fn higher_class_time_before_a_wait_is_not_subtracted_from_the_wait() {
    let mut run = Run::new(starvation(), 1);
    (1..3).for_each(|task| {
        run.add(task, Policy::Fifo(5)).wake(500, task).run(500, task - 1, task);
    });
    (1..3).for_each(|task| {
        run.block(3_000, task - 1, task);
    });
    run.wake(3_500, 0).insert(3_500, 0, 1);
    assert_eq!(run.found(8_501), [(Property::StarvationMs, 3_500, 8_501, 5_001)]);
}

/// As in Lozi et al.: a task waits behind another one while CPU 1 idles, in scans 1 to `seconds`.
fn behind(seconds: u64, mut each: impl FnMut(&mut Run, u64)) -> usize {
    let mut run = Run::new(Promises { work_conserving: WorkConserving::Eventually, ..none() }, 3);
    run.start(1_000, 0, 0, 5).wake(2_000, 1).insert(2_000, 1, 6);
    for second in 1..=seconds {
        each(&mut run, second * SECOND);
        run.tick(second * SECOND);
    }
    run.found(seconds * SECOND).len()
}

#[test]
fn load_scans_restart_on_reset_and_ignore_offline_cpus_and_short_waits() {
    let reset = |run: &mut Run, now| {
        if now == 5 * SECOND {
            run.allow(now - 10, 2, 0b01);
        }
    };
    assert_eq!([13, 14].map(|seconds| behind(seconds, reset)), [0, 1]);
    let gone = |run: &mut Run, now| {
        if now == SECOND {
            run.hotplug(now - 10, 1, false);
        }
    };
    assert_eq!(behind(30, gone), 0, "CPU 1 is offline");
    let short = |run: &mut Run, now: u64| {
        let before = if now == SECOND { 3_000 } else { now - SECOND + 100 };
        run.dispatch(before, 1, 1).run(before, 1, 1).block(before + 100, 1, 1);
        run.wake(now - 50, 1).insert(now - 50, 1, 6);
    };
    assert_eq!(behind(30, short), 0, "the task has waited for only 50 ns at each scan");
}

#[test]
fn preemption_compares_keys_of_one_queue_for_woken_tasks_only() {
    let promises = Promises { preemption: Some(Nanos(50)), ..none() };
    let other = EventKind::Insert { dsq: DsqId(8), key: 9, slice_ns: 1_000 };
    let mut run = Run::new(promises, 2);
    run.allow(10, 1, 0b01).wake(1_000, 0).event(1_000, 0, TaskId(0), other);
    run.event(1_000, 0, TaskId(0), EventKind::Dispatch { from: DsqId(8), to: CpuId(0) }).run(1_000, 0, 0);
    assert_eq!(run.wake(2_000, 1).insert(2_000, 1, 3).found(9_000), [], "the running task came from another queue");

    let mut run = Run::new(promises, 2);
    run.allow(10, 1, 0b01).start(1_000, 0, 1, 3).wake(1_500, 0).insert(1_500, 0, 5).insert(2_000, 1, 4);
    run.dispatch(2_000, 0, 0).switch(2_000, 0, TaskId(1), TaskId(0), SwitchReason::SliceEnd);
    assert_eq!(run.found(9_000), [], "the waiting task did not wake, its slice had ended");

    let broken = [(Property::PreemptionUs, 2_000, 9_000, 7_000)];
    for (by, expected) in [(Some(QUEUE), &broken[..]), (None, &[])] {
        let mut run = Run::new(promises, 2);
        run.allow(10, 1, 0b01).wake(1_000, 0);
        if by.is_some() {
            run.insert(1_000, 0, 5).dispatch(1_000, 0, 0);
        }
        run.event(1_000, 0, TaskId(0), local(0)).run(1_000, 0, 0).wake(2_000, 1).insert(2_000, 1, 3);
        assert_eq!(run.found(9_000), expected, "{by:?}: the running task has a key only if it left a queue");
    }

    let mut run = Run::new(promises, 2);
    run.allow(10, 1, 0b01).start(1_000, 0, 0, 5).wake(2_000, 1).insert(2_000, 1, 3).allow(2_020, 0, 0b01);
    assert_eq!(run.found(9_000), [], "a mask changed");
}

/// The default slice is 20 ms, a tick 4,000 ns, the tolerance 100 ns.
#[test]
fn infinite_slice_counts_as_the_default_slice() {
    let promises = Promises { stint_ticks: Some(1), ..none() };
    let endless = EventKind::Insert { dsq: QUEUE, key: 1, slice_ns: u64::MAX };
    for (stays, found) in [(20_004_100, 0), (20_004_101, 1)] {
        let mut run = Run::new(promises, 2);
        run.allow(10, 1, 0b01).wake(1_000, 1).insert(1_000, 1, 2).wake(1_500, 0).event(1_500, 0, TaskId(0), endless);
        run.dispatch(2_000, 0, 0).run(2_000, 0, 0);
        assert_eq!(run.found(2_000 + stays).len(), found, "{stays}");
    }
    let mut run = Run::new(promises, 1);
    run.add(1, Policy::Fifo(5)).allow(10, 0, 0b01).wake(1_000, 0).insert(1_000, 0, 1).wake(1_000, 1);
    assert_eq!(run.run(1_000, 0, 1).found(SECOND), [], "a task of a higher class has the CPU");
}

/// Demands of tasks 0 and 1: both are in one group, and none of their requests of 1,000 ns may be late.
fn demands(group: Group) -> Demands {
    let window = Some(Window { late: 0, of: 1, request: Nanos(1_000) });
    let names = ["task-0", "task-1"].map(str::to_owned);
    let tasks = names.into_iter().map(|name| (name, TaskDemand { group: Some(0), process: Some(0), window })).collect();
    Demands { groups: vec![group], processes: 1, tasks }
}

#[test]
fn request_lasts_from_wakeup_to_sleep() {
    let late = [(Property::Windows, 1_000, 2_001, 1)];
    for (sleeps, expected) in [(2_000, &[][..]), (2_001, &late[..])] {
        let mut run = Run::of(Promises { windows: true, ..none() }, CONDITIONS, 1, demands(Group::default()));
        assert_eq!(run.start(1_000, 0, 0, 1).block(sleeps, 0, 0).found(9_000), expected);
    }
    let open = [(Property::Windows, 1_000, 9_000, 1)];
    for (name, expected) in [("task-0", &open[..]), ("task-2", &[])] {
        let mut run = Run::of(Promises { windows: true, ..none() }, CONDITIONS, 3, demands(Group::default()));
        run.0.renamed(Nanos(500), TaskId(2), name);
        assert_eq!(run.start(1_000, 0, 2, 1).found(9_000), expected, "{name} never sleeps");
    }
}

#[test]
fn caps_are_checked_from_events_in_windows_of_one_second() {
    for (percent, found) in [(97, 1), (98, 0)] {
        let group = Group { hard_cap_percent: Some(percent), ..Group::default() };
        let mut run = Run::of(Promises { caps: true, ..none() }, CONDITIONS, 3, demands(group));
        run.0.renamed(Nanos(500), TaskId(2), "task-0");
        // The task sleeps in the second window. Both windows together would stay below the cap.
        run.start(1_000, 0, 2, 1).tick(SECOND).block(SECOND + 1_000, 0, 2);
        assert_eq!(run.found(2 * SECOND).len(), found, "{percent}");
    }
}

/// The tasks take turns on one CPU, or each has its own. A process counts as a job only where processes are promised.
#[test]
fn gang_corun_is_checked_from_events_by_group_or_process() {
    let all = [(1, true, false, 1), (2, true, false, 0), (1, false, true, 1), (1, true, true, 0), (1, false, false, 0)];
    for (cpus, in_group, by_processes, found) in all {
        let gang_by = if by_processes { GangsBy::Processes } else { GangsBy::Groups };
        let promises = Promises { corun_percent: Some(98), gang_by, ..none() };
        let mut demands = demands(Group::default());
        for task in demands.tasks.values_mut() {
            task.group = task.group.filter(|_| in_group);
            task.process = task.process.filter(|_| !in_group);
        }
        let mut run = Run::of(promises, CONDITIONS, 2, demands);
        run.start(1_000, 0, 0, 1).wake(1_000, 1).insert(1_000, 1, 2);
        if cpus == 2 {
            run.dispatch(1_000, 1, 1).run(1_000, 1, 1);
        } else {
            run.insert(SECOND, 0, 3).dispatch(SECOND, 1, 0);
            run.switch(SECOND, 0, TaskId(0), TaskId(1), SwitchReason::SliceEnd);
        }
        let of_jobs = run.found(2 * SECOND).into_iter().filter(|it| it.0 == Property::GangCorunPercent).count();
        assert_eq!(of_jobs, found, "{cpus}");
    }
}

#[test]
fn promises_that_the_workload_does_not_exercise_are_listed_as_not_seen() {
    let promises = Promises { corun_percent: Some(98), windows: true, caps: true, ..none() };
    let all = [Property::GangCorunPercent, Property::Windows, Property::Caps];
    assert_eq!(Run::new(promises, 1).0.finish(Nanos(1_000)).not_seen, all);
    let group = Group { hard_cap_percent: Some(100), ..Group::default() };
    let mut run = Run::of(promises, CONDITIONS, 2, demands(group));
    run.start(2_000, 0, 0, 1).start(2_000, 1, 1, 2).tick(2 * SECOND).block(2 * SECOND, 0, 0);
    assert_eq!(run.0.finish(Nanos(2 * SECOND)).not_seen, []);
}

/// The limit on kept violations applies to each property separately, and discarded violations are not counted.
#[test]
fn violations_are_kept_and_counted_per_property() {
    let mut run = Run::new(Promises { starvation: Some(Nanos(100)), ..conserving() }, 1);
    for round in 1..=150 {
        let time = 10_000 * round;
        run.wake(time, 0).insert(time, 0, 1).dispatch(time + 500, 0, 0).run(time + 500, 0, 0).block(time + 600, 0, 0);
    }
    let findings = run.0.finish(Nanos(2_000_000));
    assert_eq!((findings.violations.len(), findings.count), (2 * MOST, 300));
    let mut run = Run::new(conserving(), 3);
    run.start(1_000, 0, 0, 1).start(1_000, 1, 1, 2).block(2_900, 1, 1).wake(3_000, 2).insert(3_000, 2, 3);
    run.dispatch(4_000, 2, 0).insert(4_000, 0, 4).switch(4_000, 0, TaskId(0), TaskId(2), SwitchReason::SliceEnd);
    run.hotplug(4_050, 1, false);
    let findings = run.0.finish(Nanos(4_060));
    assert_eq!((findings.violations.len(), findings.count), (0, 0));
}

/// Only violations after the CPU started going offline are discarded.
#[test]
fn violations_before_a_cpu_started_going_offline_remain() {
    let mut run = Run::new(conserving(), 2);
    run.wake(1_000, 0).insert(1_000, 0, 1).dispatch(2_000, 0, 1).run(2_000, 1, 0).block(2_900, 1, 0);
    assert_eq!(run.hotplug(4_050, 1, false).found(4_060), [(Property::WorkConserving, 1_000, 2_000, 1_000)]);
}

/// From then on the run interval may last for a default slice, a tick and the tolerance.
#[test]
fn run_interval_counts_from_when_the_cpu_becomes_contested() {
    for (ends, expected) in
        [(30_004_100, vec![]), (30_004_101, vec![(Property::StintTicks, 10_000_000, 30_004_101, 20_004_101)])]
    {
        let mut run = Run::new(Promises { stint_ticks: Some(1), ..none() }, 2);
        run.allow(10, 1, 0b01).start(2_000, 0, 0, 1).wake(10_000_000, 1).insert(10_000_000, 1, 2);
        assert_eq!(run.found(ends), expected);
    }
}

#[test]
fn key_order_violation_names_the_smallest_key_passed_over() {
    let mut run = Run::new(Promises { key_order: true, ..none() }, 3);
    (0..3).for_each(|task| {
        run.wake(1_000, task).insert(1_000, task, [3, 5, 9][task as usize]);
    });
    run.dispatch(2_000, 2, 0);
    let violation = &run.0.finish(Nanos(3_000)).violations[0];
    assert_eq!((violation.value, violation.limit, &violation.tasks[..]), (9, 3, &[TaskId(2), TaskId(0)][..]));
}

/// The nice value is the old one, so the policy changed, to which one the event does not say.
#[test]
fn task_with_an_unknown_policy_is_excluded_from_shares() {
    let promises = Promises { weighted_share: Some(WeightedShare::new(10, 1)), ..none() };
    for (nice, found) in [(1, 2), (0, 0)] {
        let mut run = Run::new(promises, 2);
        run.allow(10, 0, 0b01).allow(10, 1, 0b01).event(20, 0, TaskId(1), EventKind::Priority { nice });
        run.wake(1_000, 0).insert(1_000, 0, 5).wake(1_000, 1).insert(1_000, 1, 6);
        run.dispatch(1_000, 0, 0).run(1_000, 0, 0).tick(SECOND);
        let of_shares = run.found(SECOND).into_iter().filter(|it| it.0 == Property::WeightedSharePercent).count();
        assert_eq!(of_shares, found, "{nice}");
    }
}
