// SPDX-License-Identifier: GPL-2.0-only
//! Jobs, made up: who is found to run apart.

use super::*;

const MS: u64 = 1_000_000;

/// One job of two tasks on two CPUs, a task of no job, and a thread of the kernel.
fn two() -> Gangs {
    let mut gangs = Gangs::new(&CpuSet::first_n(2), 98, None, 1);
    let all = CpuSet::first_n(2);
    [Some(0), Some(0), None].iter().for_each(|job| gangs.announce(*job, &all, true));
    gangs.announce(None, &all, false);
    for task in 0..2 {
        assert_eq!(gangs.set_runnable(Nanos::ZERO, TaskId(task), true), None);
    }
    gangs
}

/// Each of the tasks runs 10 ms of every 20; the second one begins so much later. What is found at the end.
fn rows(gangs: &mut Gangs, later: u64, to_ms: u64) -> Vec<Apart> {
    for row in (0..to_ms).step_by(20) {
        let at = |ms: u64| Nanos((row + ms) * MS);
        let mut events = [(0, 0, true), (10, 0, false), (later, 1, true), (later + 10, 1, false)];
        events.sort_by_key(|event| event.0);
        events.iter().for_each(|&(ms, task, runs)| gangs.set_running(at(ms), TaskId(task), runs));
    }
    gangs.close(Nanos(to_ms * MS))
}

#[test]
fn tasks_that_run_together_and_tasks_that_do_not() {
    let mut gangs = two();
    assert_eq!(rows(&mut gangs, 0, 2_000), []);
    assert!(gangs.has_judged());
    // From 500 ms on, 75 rows of 10 ms each: 9 of them together, where 98 % are promised.
    let expected = Apart {
        from: Nanos(500 * MS),
        tasks: vec![TaskId(0), TaskId(1)],
        value: Nanos(75 * 9 * MS),
        limit: Nanos(735 * MS),
    };
    assert_eq!(rows(&mut two(), 1, 2_000), [expected]);
    let apart = rows(&mut two(), 10, 2_000);
    assert_eq!((apart[0].value, apart.len()), (Nanos::ZERO, 1), "in turns");
}

/// The first has its CPU all the time: as the alternate of somebody else.
#[test]
fn an_alternate_is_not_held_against_its_job() {
    let mut gangs = two();
    gangs.set_running(Nanos::ZERO, TaskId(0), true);
    for row in 0..100 {
        gangs.set_running(Nanos(row * 20 * MS), TaskId(1), true);
        gangs.set_running(Nanos((row * 20 + 10) * MS), TaskId(1), false);
    }
    assert_eq!(gangs.close(Nanos(2_000 * MS)), []);
    assert!(gangs.has_judged());
}

/// Each of the two CPUs is left by a sleeper for 10 ms in turn: alternates there run apart, and no scheduler could help it.
/// Where the one that leaves stays runnable, they run apart by choice.
#[test]
fn an_alternate_where_somebody_sleeps_is_not_held_against_its_job() {
    for sleeps in [true, false] {
        let mut gangs = two();
        for row in (0..2_000).step_by(40) {
            let at = |ms: u64| Nanos((row + ms) * MS);
            let mut runs = |ms: u64, task: u32, runs: bool, gap: bool| {
                let (id, cpu) = (TaskId(task), CpuId(task));
                match runs {
                    true => {
                        gangs.leave(cpu, TaskId(2), !gap);
                        gangs.take(cpu, id);
                    }
                    false => gangs.leave(cpu, id, true),
                }
                gangs.set_running(at(ms), id, runs);
            };
            (0..2).for_each(|task| runs(0, task, true, false));
            (0..2).for_each(|task| runs(20, task, false, false));
            for task in 0..2 {
                runs(20 + 10 * u64::from(task), task, true, sleeps);
                runs(30 + 10 * u64::from(task), task, false, false);
            }
        }
        assert_eq!(gangs.close(Nanos(2_000 * MS)).is_empty(), sleeps);
        assert!(gangs.has_judged());
    }
}

#[test]
fn what_is_not_judged() {
    let mut short = two();
    assert_eq!(rows(&mut short, 10, 980), [], "half a second to settle, and less than another");
    assert!(!short.has_judged());
    let mut changed = two();
    rows(&mut changed, 10, 480);
    changed.set_runnable(Nanos(900 * MS), TaskId(0), false);
    changed.set_runnable(Nanos(901 * MS), TaskId(0), true);
    assert_eq!(changed.close(Nanos(1_800 * MS)), [], "it slept, and begins anew");
    let mut misfit = two();
    misfit.set_allowed(TaskId(1), &CpuSet::from_words(&[1]));
    assert_eq!(rows(&mut misfit, 10, 2_000), [], "they cannot run together");
    misfit.set_allowed(TaskId(1), &CpuSet::first_n(2));
    misfit.disturb(Nanos(2_000 * MS), 1);
    assert_eq!(misfit.close(Nanos(4_000 * MS)), [], "one CPU is left");
    let mut taken = two();
    taken.set_running(Nanos::ZERO, TaskId(3), true);
    assert_eq!(rows(&mut taken, 10, 2_000), [], "a thread of the kernel has a CPU all the time");
}

#[test]
fn a_job_that_changes_is_judged_until_then() {
    let mut gangs = two();
    gangs.set_running(Nanos::ZERO, TaskId(0), true);
    gangs.set_running(Nanos(1_200 * MS), TaskId(0), false);
    gangs.set_running(Nanos(1_200 * MS), TaskId(1), true);
    let apart = gangs.set_runnable(Nanos(1_500 * MS), TaskId(1), false).expect("they ran in turns");
    assert_eq!((apart.value, apart.limit), (Nanos::ZERO, Nanos(294 * MS)));
}

#[test]
fn a_disturbance_begins_anew_and_a_job_needs_a_cpu_for_each() {
    for (disturbed, found) in [(false, 1), (true, 0)] {
        let mut gangs = two();
        gangs.disturb(Nanos::ZERO, 2);
        gangs.set_running(Nanos(700 * MS), TaskId(0), true);
        gangs.set_running(Nanos(1_200 * MS), TaskId(0), false);
        gangs.set_running(Nanos(1_200 * MS), TaskId(1), true);
        if disturbed {
            gangs.disturb(Nanos(1_300 * MS), 2);
        }
        assert_eq!(gangs.close(Nanos(1_500 * MS)).len(), found, "{disturbed}");
    }
    let mut few = two();
    few.disturb(Nanos::ZERO, 1);
    assert_eq!(rows(&mut few, 10, 2_000), []);
}
