// SPDX-License-Identifier: GPL-2.0-only
//! Constructed run intervals of jobs, and the jobs that are reported.

use super::*;

const MS: u64 = 1_000_000;

/// A job of two tasks on two CPUs, a task without a job, and a kthread.
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

/// Lets each task run for 10 ms of every 20 ms, the second one starting `later` milliseconds after the first. Returns
/// what is reported at the end.
fn rows(gangs: &mut Gangs, later: u64, to_ms: u64) -> Vec<GangMiss> {
    for row in (0..to_ms).step_by(20) {
        let at = |ms: u64| Nanos((row + ms) * MS);
        let mut events = [(0, 0, true), (10, 0, false), (later, 1, true), (later + 10, 1, false)];
        events.sort_by_key(|event| event.0);
        events.iter().for_each(|&(ms, task, runs)| gangs.set_running(at(ms), TaskId(task), runs));
    }
    gangs.close(Nanos(to_ms * MS))
}

#[test]
fn jobs_whose_tasks_run_at_different_times_are_reported() {
    let mut gangs = two();
    assert_eq!(rows(&mut gangs, 0, 2_000), []);
    assert!(gangs.has_checked());
    // 75 rows of 10 ms each follow the settling time of 500 ms. In each row both run for 9 ms; 98 % are promised.
    let expected = GangMiss {
        from: Nanos(500 * MS),
        tasks: vec![TaskId(0), TaskId(1)],
        value: Nanos(75 * 9 * MS),
        limit: Nanos(735 * MS),
    };
    assert_eq!(rows(&mut two(), 1, 2_000), [expected]);
    let misses = rows(&mut two(), 10, 2_000);
    assert_eq!((misses[0].value, misses.len()), (Nanos::ZERO, 1), "the tasks take turns");
}

/// The first task runs all the time: outside the slots of its job it uses its CPU as an alternate.
#[test]
fn running_alone_outside_the_jobs_slots_is_no_violation() {
    let mut gangs = two();
    gangs.set_running(Nanos::ZERO, TaskId(0), true);
    for row in 0..100 {
        gangs.set_running(Nanos(row * 20 * MS), TaskId(1), true);
        gangs.set_running(Nanos((row * 20 + 10) * MS), TaskId(1), false);
    }
    assert_eq!(gangs.close(Nanos(2_000 * MS)), []);
    assert!(gangs.has_checked());
}

/// On each of the two CPUs in turn, a task sleeps for 10 ms. Alternates that run there run alone, which no scheduler
/// can avoid. If the previous task instead stays runnable, running alone is the scheduler's decision.
#[test]
fn alternate_running_alone_while_a_task_of_the_row_sleeps_is_no_violation() {
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
        assert!(gangs.has_checked());
    }
}

#[test]
fn gang_windows_that_are_short_changed_or_disrupted_are_not_checked() {
    let mut short = two();
    assert_eq!(rows(&mut short, 10, 980), [], "500 ms to settle, then less than 500 ms");
    assert!(!short.has_checked());
    let mut changed = two();
    rows(&mut changed, 10, 480);
    changed.set_runnable(Nanos(900 * MS), TaskId(0), false);
    changed.set_runnable(Nanos(901 * MS), TaskId(0), true);
    assert_eq!(changed.close(Nanos(1_800 * MS)), [], "a task slept, which starts a new window");
    let mut misfit = two();
    misfit.set_allowed(TaskId(1), &CpuSet::from_words(&[1]));
    assert_eq!(rows(&mut misfit, 10, 2_000), [], "the masks do not allow both tasks to run together");
    misfit.set_allowed(TaskId(1), &CpuSet::first_n(2));
    misfit.reset_windows(Nanos(2_000 * MS), 1);
    assert_eq!(misfit.close(Nanos(4_000 * MS)), [], "one CPU is online");
    let mut taken = two();
    taken.set_running(Nanos::ZERO, TaskId(3), true);
    assert_eq!(rows(&mut taken, 10, 2_000), [], "a kthread occupies a CPU all the time");
}

#[test]
fn gang_window_is_checked_when_a_task_of_the_job_blocks() {
    let mut gangs = two();
    gangs.set_running(Nanos::ZERO, TaskId(0), true);
    gangs.set_running(Nanos(1_200 * MS), TaskId(0), false);
    gangs.set_running(Nanos(1_200 * MS), TaskId(1), true);
    let misses = gangs.set_runnable(Nanos(1_500 * MS), TaskId(1), false).expect("the tasks took turns");
    assert_eq!((misses.value, misses.limit), (Nanos::ZERO, Nanos(294 * MS)));
}

#[test]
fn gang_windows_restart_on_reset_and_jobs_need_one_cpu_per_task() {
    for (is_reset, found) in [(false, 1), (true, 0)] {
        let mut gangs = two();
        gangs.reset_windows(Nanos::ZERO, 2);
        gangs.set_running(Nanos(700 * MS), TaskId(0), true);
        gangs.set_running(Nanos(1_200 * MS), TaskId(0), false);
        gangs.set_running(Nanos(1_200 * MS), TaskId(1), true);
        if is_reset {
            gangs.reset_windows(Nanos(1_300 * MS), 2);
        }
        assert_eq!(gangs.close(Nanos(1_500 * MS)).len(), found, "{is_reset}");
    }
    let mut few = two();
    few.reset_windows(Nanos::ZERO, 1);
    assert_eq!(rows(&mut few, 10, 2_000), []);
}
