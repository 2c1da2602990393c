// SPDX-License-Identifier: GPL-2.0-only
//! `policies/muqss` on one CPU: slices, shares, waits, forks, yields (theory 2, 3, 5, 8 to 10). The expected numbers
//! are computed from the rules of MuQSS 0.31.

use crate::world::{MS, World};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

/// Binary millisecond of deadlines and slices, and the slice.
const MS_2: u64 = 1 << 20;
const SLICE_NS: u64 = 6 * MS_2;
/// Distance of a new nice-0 deadline from now.
const AWAY_NS: u64 = 836 * 6 * 8192;

/// One CPU with a tick period of 20 ms, longer than the slice.
fn alone(options: &str) -> World {
    World::new(&format!("muqss{options}"), "node:1 core:1 pu:1", 50)
}

/// Returns the CPU time of each hog after this number of slices.
fn shares(nices: &[i8], slices: u64) -> Vec<u64> {
    let mut world = alone("");
    let hogs = world.start(nices.iter().map(|nice| world.pinned(0, *nice)).collect());
    world.run_until(slices * SLICE_NS);
    hogs.iter().map(|hog| world.ran_ns[hog.0 as usize]).collect()
}

/// Point 3 of `muqss.bpf.c`: a timer ends slices, independently of ticks.
#[test]
fn slice_timer_ends_slices_independently_of_ticks() {
    for (rr_ms, hz) in [(1, 100), (3, 100), (6, 250), (6, 1000), (12, 1000), (24, 100), (300, 250)] {
        let mut world = World::new(&format!("muqss,rr_interval_ms={rr_ms}"), "node:1 core:1 pu:1", hz);
        world.start(vec![world.pinned(0, 0); 2]);
        let first = world.running(0);
        world.run_until(rr_ms * MS_2 - 1);
        assert_eq!(world.running(0), first, "{rr_ms} {hz}");
        world.run_until(rr_ms * MS_2);
        assert_ne!(world.running(0), first, "{rr_ms} {hz}");
    }
}

/// Point 2 of `muqss.bpf.c`: 6 ms on any number of CPUs.
#[test]
fn slice_is_independent_of_the_number_of_cpus() {
    for cpus in [1, 4, 16] {
        let mut world = World::new("muqss", &format!("node:1 core:{cpus} pu:1"), 50);
        let task = world.start(vec![world.pinned(0, 0); 2])[1];
        assert_eq!(world.last_queued(task).slice_ns, SLICE_NS, "{cpus}");
        assert_eq!(world.last_queued(task).key, AWAY_NS, "{cpus}");
    }
}

/// A deadline can be tens of seconds away (nice 19 with 1000 ms slices: 41.7 s), more than the 32 bits in MuQSS's
/// source hold.
#[test]
fn deadlines_do_not_overflow_32_bits() {
    let mut world = alone(",rr_interval_ms=1000");
    let task = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)])[1];
    assert_eq!(world.last_queued(task).key, 5089 * 1000 * 8192);
}

/// Point 2 of `muqss.bpf.c`: for each slice of the hog with the higher nice value, the other hog runs one slice plus
/// one for each whole slice in the difference of their deadlines.
#[test]
fn two_hogs_share_in_whole_slices() {
    for (nice, better, worse) in [
        (-20, 1, 6),
        (-10, 1, 4),
        (-5, 1, 3),
        (-2, 1, 2),
        (-1, 1, 1),
        (1, 1, 1),
        (2, 2, 1),
        (3, 3, 1),
        (5, 4, 1),
        (7, 7, 1),
        (10, 11, 1),
        (15, 21, 1),
        (19, 34, 1),
    ] {
        let rounds = 20;
        let ran = shares(&[0, nice], (better + worse) * rounds);
        let expected = [better * rounds * SLICE_NS, worse * rounds * SLICE_NS];
        for (ran, expected) in ran.iter().zip(expected) {
            assert!(ran.abs_diff(expected) <= better.max(worse) * SLICE_NS, "{nice}: {ran} expected {expected}");
        }
    }
}

/// Point 2 of `muqss.bpf.c`, with more hogs: CPU time of a nice-0 hog in percent of that of a hog with the other nice
/// value.
#[test]
fn many_hogs_share_by_deadlines() {
    for (zeros, others, nice, percent) in [(4, 1, 19, 930), (8, 8, 19, 440), (8, 8, 5, 125)] {
        let mut nices = vec![0; zeros];
        nices.resize(zeros + others, nice);
        let ran = shares(&nices, 4000);
        let mean = |ran: &[u64]| ran.iter().sum::<u64>() / ran.len() as u64;
        let found = mean(&ran[..zeros]) * 100 / mean(&ran[zeros..]);
        assert!(found.abs_diff(percent) * 100 <= percent * 5, "{zeros} and {others} of nice {nice}: {found}");
    }
}

/// Returns the longest wait of each hog between two runs, in microseconds.
fn longest_waits(nices: &[i8], slices: u64) -> Vec<u64> {
    let mut world = alone("");
    let hogs = world.start(nices.iter().map(|nice| world.pinned(0, *nice)).collect());
    world.run_until(slices * SLICE_NS);
    hogs.iter().map(|hog| longest_wait(&world, *hog) / 1000).collect()
}

/// Returns the longest time from the end of a run, where another task starts, to the next run, in ns.
fn longest_wait(world: &World, task: TaskId) -> u64 {
    let (mut longest, mut left) = (0, None);
    for (time, next) in &world.switches {
        match (next == &task, left) {
            (true, Some(since)) => {
                longest = longest.max(time - since);
                left = None;
            }
            (false, None) => left = Some(*time),
            _ => {}
        }
    }
    longest
}

/// Point 2 of `muqss.bpf.c`: longest waits of hogs.
#[test]
fn waits_are_bounded_by_deadlines() {
    for hogs in [2, 3, 8] {
        let waits = longest_waits(&vec![0; hogs], 200);
        assert!(waits.iter().all(|wait| *wait == (hogs as u64 - 1) * SLICE_NS / 1000), "{waits:?}");
    }
    // The nice-19 task waits for 34 slices of the other; the nice-0 task for 6 slices of the nice -20 task.
    assert_eq!(longest_waits(&[0, 19], 400)[1], 34 * SLICE_NS / 1000);
    assert_eq!(longest_waits(&[0, -20], 400)[0], 6 * SLICE_NS / 1000);
    for (nices, ms) in [(&[19, 0, 0, 0, 0][..], 233), (&[19, 19, 19, 19, 19, 19, 19, 19, 0, 0, 0, 0, 0, 0, 0, 0], 302)]
    {
        let wait = longest_waits(nices, 2000)[0];
        assert!(wait.abs_diff(ms * 1000) <= SLICE_NS / 1000 + 500, "{nices:?}: {wait}");
    }
}

/// Runs a task with 1 ms of work every `period_ms` beside hogs for 4 s. Returns its wakeup latencies in ns, sorted,
/// and its CPU time in percent of its demand. Late jobs follow without a sleep.
fn sleeper_beside(hogs: usize, period_ms: u64) -> (Vec<u64>, u64) {
    let mut world = alone("");
    let sleeper = world.start(vec![world.pinned(0, 0)])[0];
    world.block(sleeper);
    world.start(vec![world.pinned(0, 0); hogs]);
    // The hogs started together; after this time their deadlines are spread.
    world.run_until(150 * MS);
    let (begun, mut waits, mut done, mut slept) = (world.now_ns, vec![], 0, true);
    while world.now_ns < begun + 4_000 * MS {
        let release = begun + done * period_ms * MS;
        if slept {
            world.run_until(release);
            world.wake(0, sleeper, false);
            let woken = world.now_ns;
            while world.running(0) != sleeper {
                world.run_until(world.now_ns + 1000);
            }
            waits.push(world.now_ns - woken);
        }
        let before = world.ran_ns.get(sleeper.0 as usize).copied().unwrap_or(0);
        while world.ran_ns.get(sleeper.0 as usize).copied().unwrap_or(0) < before + MS {
            world.run_until(world.now_ns + 1000);
        }
        done += 1;
        slept = world.now_ns < begun + done * period_ms * MS;
        if slept {
            world.block(sleeper);
        }
    }
    waits.sort_unstable();
    (waits, done * period_ms * 100 / 4_000)
}

/// Point 2 of `muqss.bpf.c`: a task has an early deadline after sleep and preempts, unless its own last refill is
/// more recent than one round of the hogs. The expected latencies are computed; the tolerance is one job.
#[test]
fn woken_sleepers_preempt_hogs() {
    for (hogs, max_us) in [(1, 0), (2, 2_600), (4, 15_200), (8, 40_400)] {
        let (waits, got) = sleeper_beside(hogs, 10);
        let (max, p50) = (waits[waits.len() - 1] / 1000, waits[waits.len() / 2]);
        assert!(max.abs_diff(max_us) <= 1000, "{hogs}: {max} us at most");
        assert_eq!((p50, got), (0, 100), "{hogs}");
        let (rare, _) = sleeper_beside(hogs, 100);
        assert!(rare.iter().all(|wait| *wait == 0), "{hogs}: {rare:?}");
    }
}

/// Point 5 of `muqss.bpf.c`: SCHED_BATCH gets a new deadline whenever it stops running and does not preempt normal
/// tasks.
#[test]
fn sched_batch_task_preempts_only_sched_idle() {
    for (policy, preempts) in [(Policy::Other, true), (Policy::Batch, false)] {
        let mut world = alone("");
        let task = world.start(vec![TaskAttributes { policy, ..world.pinned(0, -20) }])[0];
        world.block(task);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        world.wake(0, task, false);
        assert_eq!(world.running(0) == task, preempts, "{policy:?}");
        assert_eq!(world.running(0) == hog, !preempts, "{policy:?}");
        let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
        // A woken SCHED_BATCH task still preempts a SCHED_IDLE one.
        let mut world = alone("");
        let task = world.start(vec![TaskAttributes { policy, ..world.pinned(0, -20) }])[0];
        world.block(task);
        world.start(vec![idle]);
        world.wake(0, task, false);
        assert_eq!(world.running(0), task, "{policy:?}");
    }
}

/// Point 5 of `muqss.bpf.c` and deviation 1: SCHED_IDLE runs when no other task wants the CPU, and for 2 ms from time
/// to time.
#[test]
fn sched_idle_tasks_run_2_ms_from_time_to_time() {
    let mut world = alone("");
    let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
    let tasks = world.start(vec![idle.clone(), idle, world.pinned(0, 19)]);
    world.run_until(7_900 * MS);
    let ran = |world: &World, task: TaskId| world.ran_ns.get(task.0 as usize).copied().unwrap_or(0);
    assert_eq!((ran(&world, tasks[0]), ran(&world, tasks[1])), (0, 0));
    world.run_until(40_000 * MS);
    for task in &tasks[..2] {
        assert!((4 * MS_2..12 * MS_2).contains(&ran(&world, *task)), "{}", ran(&world, *task));
    }
    world.block(tasks[2]);
    assert!(tasks[..2].contains(&world.running(0)));
}

/// Point 8 of `muqss.bpf.c`: the child gets half of the slice if that is at least 100 us, runs first unless it is a
/// thread, and the parent's slice timer is shortened too.
#[test]
fn fork_splits_the_slice_and_its_timer() {
    for (used_us, thread, shared) in [(5944, false, true), (5945, false, false), (5944, true, true), (2048, true, true)]
    {
        let mut world = alone("");
        let parent = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(used_us << 10);
        world.inserted.clear();
        let child = world.spawn(0, TaskAttributes { parent: Some(parent), thread, ..world.pinned(0, 0) });
        let put = world.last_queued(child);
        let half = (SLICE_NS - (used_us << 10)) / 2;
        if !shared {
            assert_eq!((put.key, put.slice_ns), ((used_us << 10) + AWAY_NS, SLICE_NS));
            assert_eq!(world.running(0), child);
            continue;
        }
        assert_eq!((put.key, put.slice_ns), (AWAY_NS, half), "{used_us} {thread}");
        let first = if thread { parent } else { child };
        assert_eq!(world.running(0), first, "{used_us} {thread}");
        world.run_until(world.now_ns + half - 1);
        assert_eq!(world.running(0), first, "{used_us} {thread}");
        world.run_until(world.now_ns + 1);
        assert_ne!(world.running(0), first, "{used_us} {thread}: half of what was left");
    }
}

/// Point 8 of `muqss.bpf.c`: repeated forks gain no CPU time: all slices together are as long as the first one.
#[test]
fn repeated_forks_share_one_slice() {
    let mut world = alone("");
    let parent = world.start(vec![world.pinned(0, 0)])[0];
    world.inserted.clear();
    let mut tasks = vec![parent];
    for _ in 0..4 {
        let running = world.running(0);
        tasks.push(world.spawn(0, TaskAttributes { parent: Some(running), ..world.pinned(0, 0) }));
    }
    let left: u64 = tasks.iter().map(|task| world.last_queued(*task).slice_ns).sum();
    assert_eq!(left, SLICE_NS);
}

/// Point 9 of `muqss.bpf.c`: with yield type 0 the task continues; with type 1 it continues if its deadline is the
/// earliest; type 2 first gives it a new slice and deadline.
#[test]
fn yield_type_decides_whether_the_task_continues() {
    for (yield_type, nice, goes_on) in [(0, -20, true), (1, -20, false), (1, 1, true), (2, 1, false), (2, 19, true)] {
        let mut world = alone(&format!(",yield_type={yield_type}"));
        // A SCHED_BATCH task, so that its wakeup does not preempt `first`.
        let waiting = world.start(vec![TaskAttributes { policy: Policy::Batch, ..world.pinned(0, nice) }])[0];
        world.block(waiting);
        let first = world.start(vec![world.pinned(0, 0)])[0];
        world.wake(0, waiting, false);
        // The deadline of the running task is 36 ms away and a new one would be 41 ms away; that of nice 1 is 40 ms
        // away.
        world.run_until(5 * MS);
        assert_eq!(world.running(0), first);
        world.leave(0, Leave::Yield);
        assert_eq!(world.running(0) == first, goes_on, "{yield_type} {nice}");
    }
}

/// Point 10 of `muqss.bpf.c`: a nice change moves the deadline of a running task, too.
#[test]
fn nice_change_moves_the_deadline_of_a_running_task() {
    let mut world = alone("");
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 5)]);
    assert_eq!(world.running(0), tasks[0]);
    world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, 10).unwrap();
    world.settle();
    // Its deadline is 91 ms away now, the other task's 66 ms.
    assert_eq!(world.running(0), tasks[1]);
    assert_eq!(world.last_queued(tasks[0]).key, 2161 * 6 * 8192);
}

/// Point 10 of `muqss.bpf.c`: only a higher nice value reschedules the CPU; an equal or lower one does not. A lower
/// one counts from then on.
#[test]
fn only_a_higher_nice_value_reschedules_the_cpu() {
    for (nice, resched) in [(0, 0), (-1, 0), (1, 1), (19, 1)] {
        let mut world = alone("");
        world.start(vec![world.pinned(0, 0); 2]);
        let first = world.running(0);
        world.rescheduled.clear();
        world.kernel.set_policy(CpuId(0), first, Policy::Batch, nice).unwrap();
        world.settle();
        assert_eq!((world.rescheduled.len(), world.running(0) == first), (resched, resched == 0), "{nice}");
    }
    let mut world = alone("");
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, -1)]);
    assert_eq!(world.running(0), tasks[1]);
    world.block(tasks[1]);
    world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, -5).unwrap();
    world.settle();
    world.wake(0, tasks[1], false);
    assert_eq!(world.running(0), tasks[0], "its deadline is the earlier one now");
}

/// Point 3 of `muqss.bpf.c`: the slice timer is not rearmed if its expiry would move by less than 5 us.
#[test]
fn slice_timer_is_rearmed_only_if_it_moves_by_5_us() {
    for (later_ns, armed) in [(4_999, 0), (5_000, 1), (1_000_000, 1)] {
        let mut world = alone("");
        let tasks = world.start(vec![world.pinned(0, 0)]);
        let other = {
            world.block(tasks[0]);
            let other = world.start(vec![world.pinned(0, 0)])[0];
            world.block(other);
            other
        };
        world.run_until(7 * MS);
        world.wake(0, tasks[0], false);
        world.armed = 0;
        world.run_until(7 * MS + later_ns);
        world.block(tasks[0]);
        world.wake(0, other, false);
        assert_eq!((world.running(0), world.armed), (other, armed), "{later_ns}");
        // An expiry that moves to an earlier time: the first task's slice is shorter by the time it used, rounded down
        // to units of 1024 ns.
        let used_ns = later_ns & !1023;
        world.armed = 0;
        world.block(other);
        world.wake(0, tasks[0], false);
        assert_eq!(world.armed, usize::from(used_ns > 5_000), "{later_ns}");
    }
    // A task that is picked again keeps its armed timer.
    let mut world = alone("");
    world.start(vec![world.pinned(0, 0)]);
    world.run_until(MS);
    world.armed = 0;
    world.leave(0, Leave::Yield);
    assert_eq!(world.armed, 0);
}
