// SPDX-License-Identifier: GPL-2.0-only
//! `policies/cfs`: when CPUs balance their domains, the load they see there, and the tasks they pull (theory 6,
//! "balance.bpf.h").

use crate::cfs::PRESETS;
use crate::cfs_cpus::{bound, occupy, unbind};
use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

/// Machines of two CPUs with one domain each: hardware threads of a core, cores of a cache, caches of a node, nodes.
const CORE: &str = "node:1 core:1 pu:2";
const CACHE: &str = "node:1 core:2 pu:1";
const NODE: &str = "node:1 l3:2 core:1 pu:1";
const MACHINE: &str = "node:2 core:1 pu:1";

/// Tasks are never cache-hot, and slices are so long that none ends during a test.
const COLD: &str = "migration_cost_us=0,latency_us=1000000";

/// Sets the CPUs a task may run on.
fn allow(world: &mut World, task: TaskId, cpus: &[u32]) {
    world.kernel.set_affinity(CpuId(0), task, &only(cpus)).unwrap();
    world.settle();
}

/// Returns the CPU on which the task is running or queued. (The kernel's task CPU changes only when a pulled task
/// runs.)
fn where_is(world: &World, task: TaskId) -> u32 {
    world.cpu_of(task).unwrap_or_else(|| world.last_queued(task).dsq as u32)
}

fn bound_with(world: &mut World, cpu: u32, nice: i8) -> TaskId {
    let attributes = world.pinned(cpu, nice);
    world.spawn(cpu, attributes)
}

/// Returns the times in ms at which CPU 1 balances its domains, with one hog on each CPU. A balance pass reschedules
/// the CPU, which continues its hog.
fn balance_times(spec: &str, shape: &str, end_ms: u64) -> Vec<u64> {
    let mut world = World::new(spec, shape, 1000);
    let all: Vec<u32> = (0..world.cpus()).collect();
    let hogs = occupy(&mut world, &all);
    let balance_times = |ms: &u64| {
        world.rescheduled.clear();
        world.run_until(ms * MS);
        assert_eq!(world.running(1), hogs[1]);
        world.rescheduled.contains(&CpuId(1))
    };
    (1..=end_ms).filter(balance_times).collect()
}

/// Point 2 of `balance.bpf.h`: balance interval of a busy CPU in a balanced domain. The first pass is at its first
/// tick. The CPU has already balanced when it went idle, so the interval is at its maximum: 256 is 64 times 4 ms,
/// 1024 is 32 times 32 ms.
#[test]
fn busy_cpus_balance_at_long_intervals() {
    for (shape, intervals) in [
        (CORE, [&[128, 128][..], &[128, 128], &[63, 63]]),
        ("node:1 core:4 pu:1", [&[256, 256], &[256, 256], &[127, 127]]),
        // Twelve caches of one CPU each.
        ("node:1 l3:12 core:1 pu:1", [&[1024, 1024], &[768, 768], &[383, 383]]),
        // 2.6.36 would balance every 16 s, but the interval is limited to 0.1 s per CPU.
        (MACHINE, [&[200, 200], &[128, 128], &[63, 63]]),
    ] {
        for (preset, intervals) in PRESETS.into_iter().zip(intervals) {
            let end = 2 + intervals.iter().sum::<u64>();
            let balance_times = balance_times(&format!("cfs@{preset}"), shape, end);
            let found: Vec<u64> = balance_times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!((balance_times[0], &found[..]), (1, intervals), "{preset} {shape}");
        }
    }
}

/// Pins two hogs to CPU 0 until `free_ms` while CPU 1 is idle. Returns the time in ms at which one of them has been
/// pulled.
fn comes_at(spec: &str, shape: &str, free_ms: u64) -> u64 {
    let mut world = World::new(spec, shape, 1000);
    let hogs = occupy(&mut world, &[0, 0]);
    world.run_ms(free_ms);
    hogs.iter().for_each(|hog| unbind(&mut world, *hog));
    while hogs.iter().all(|hog| where_is(&world, *hog) == 0) {
        assert!(world.now_ns < 2_000 * MS, "no task is pulled: {spec} {shape}");
        world.run_ms(1);
    }
    world.now_ns / MS
}

/// Points 2, 3 of `balance.bpf.h`: an idle CPU is woken at each tick and balances at its interval, which is the
/// maximum after passes without a task to pull.
#[test]
fn idle_cpus_balance_at_short_intervals() {
    for (shape, intervals) in [(CORE, [2, 4, 4]), (CACHE, [4, 4, 4]), (NODE, [32, 4, 4]), (MACHINE, [128, 4, 4])] {
        for (preset, interval) in PRESETS.into_iter().zip(intervals) {
            let spec = format!("cfs@{preset},{COLD}");
            let first = comes_at(&spec, shape, 300);
            assert_eq!(comes_at(&spec, shape, first + 1) - first, interval, "{preset} {shape}");
        }
    }
}

/// Point 6 of `balance.bpf.h`: number of balance passes, at the minimum interval, that find only cache-hot tasks
/// before one is pulled. In 6.1 tasks are never hot between SMT siblings.
#[test]
fn cache_hot_tasks_are_pulled_after_failed_passes() {
    for (shape, later) in [(CORE, [1, 2, 0]), (CACHE, [2, 4, 4]), (NODE, [3 * 8, 4, 4]), (MACHINE, [2 * 64, 6, 6])] {
        for (preset, later) in PRESETS.into_iter().zip(later) {
            let hot = format!("cfs@{preset},latency_us=1000000,migration_cost_us=1000000");
            let cold = comes_at(&format!("cfs@{preset},{COLD}"), shape, 300);
            assert_eq!(comes_at(&hot, shape, 300) - cold, later, "{preset} {shape}");
        }
    }
}

/// CPU 0 has a nice -20 task, which may leave from `free_ms` on, and a pinned one. Returns the time in ms at which
/// the first runs on CPU 1.
fn pushed_at(spec: &str, shape: &str, free_ms: u64) -> u64 {
    let mut world = World::new(spec, shape, 1000);
    let heavy = bound_with(&mut world, 0, -20);
    bound(&mut world, 0);
    world.run_ms(free_ms);
    unbind(&mut world, heavy);
    while world.cpu_of(heavy) != Some(1) {
        assert_eq!(world.running(0), heavy);
        world.run_ms(1);
    }
    world.now_ns / MS
}

/// Point 7 of `balance.bpf.h`: active balance happens three failed passes after the number from which hot tasks are
/// pulled.
#[test]
fn running_tasks_are_pushed_after_more_failed_passes() {
    for (shape, later) in [
        (CORE, [2, 2 * 2, 2 * 2]),
        (CACHE, [3, 3 * 2, 3 * 2]),
        (NODE, [4 * 8, 3 * 2, 3 * 2]),
        (MACHINE, [3 * 64, 4 * 2, 4 * 2]),
    ] {
        for (preset, later) in PRESETS.into_iter().zip(later) {
            let spec = format!("cfs@{preset},{COLD}");
            assert_eq!(pushed_at(&spec, shape, 300) - comes_at(&spec, shape, 300), later, "{preset} {shape}");
        }
    }
}

/// CPU 0 and CPU 1 have a hog each, and CPU 0 gets another, movable one `ticks` ticks before CPU 1 balances. Returns
/// whether it is pulled.
fn seen_after(spec: &str, shape: &str, look_ms: u64, ticks: u64) -> bool {
    let mut world = World::new(spec, shape, 1000);
    occupy(&mut world, &[0, 1]);
    world.run_until((look_ms - ticks) * MS + MS / 2);
    let late = bound(&mut world, 0);
    unbind(&mut world, late);
    world.run_until(look_ms * MS);
    where_is(&world, late) == 1
}

/// Point 4 of `balance.bpf.h`: before 6.1 a busy CPU sees an average of other CPUs' loads over ticks. With a weight
/// of one half or one fourth for the present load, a difference of 1024 fades in 11 or 22 rounded steps.
#[test]
fn busy_cpus_see_averaged_loads_before_6_1() {
    for (shape, ticks) in [(CORE, [1, 1]), (CACHE, [11, 11]), (NODE, [22, 11]), (MACHINE, [22, 22])] {
        for (preset, ticks) in PRESETS.into_iter().zip(ticks) {
            let spec = format!("cfs@{preset},{COLD}");
            let look = *balance_times(&spec, shape, 300).iter().find(|ms| **ms > 100).unwrap();
            let found = (1..60).find(|ticks| seen_after(&spec, shape, look, *ticks));
            assert_eq!(found, Some(ticks), "{preset} {shape}");
        }
    }
}

/// Point 4 of `balance.bpf.h`: before 6.1 an idle CPU sees the load of the last tick, or an average over two or four
/// ticks. The movable task is heavy (nice -10, weight 9548): it is pulled once the average load of CPU 0, with its
/// two hogs, is at least its weight.
#[test]
fn idle_cpus_see_averaged_loads_before_6_1() {
    for (shape, ticks) in [(NODE, [3, 1]), (MACHINE, [6, 3])] {
        for (preset, ticks) in PRESETS.into_iter().zip(ticks) {
            let spec = format!("cfs@{preset},{COLD}");
            let look = comes_at(&spec, shape, 300);
            let seen = |ticks: &u64| {
                let mut world = World::new(&spec, shape, 1000);
                occupy(&mut world, &[0, 0]);
                world.run_until((look - ticks) * MS + MS / 2);
                let late = bound_with(&mut world, 0, -10);
                unbind(&mut world, late);
                world.run_until(look * MS);
                where_is(&world, late) == 1
            };
            assert_eq!((1..30).find(seen), Some(ticks), "{preset} {shape}");
        }
    }
}

/// Each CPU has pinned tasks of these nice values. The first task of CPU 0 starts last, so that it is queued, and may
/// move to CPU 1 from 100 ms on. Returns whether CPU 1 pulls it at its next pass.
fn goes(preset: &str, cpus: &[&[i8]]) -> bool {
    let shape = format!("node:1 core:{} pu:1", cpus.len());
    let mut world = World::new(&format!("cfs@{preset},{COLD},scaling=2"), &shape, 1000);
    for (cpu, nice) in cpus.iter().enumerate().flat_map(|(cpu, all)| all.iter().map(move |nice| (cpu, nice))).skip(1) {
        bound_with(&mut world, cpu as u32, *nice);
    }
    let task = bound_with(&mut world, 0, cpus[0][0]);
    world.run_ms(100);
    allow(&mut world, task, &[0, 1]);
    let balance_times = if cpus.len() == 2 { [201, 129, 127] } else { [257, 193, 191] };
    let preset = PRESETS.iter().position(|other| *other == preset).unwrap();
    world.run_until(balance_times[preset] * MS - 1);
    assert_eq!(where_is(&world, task), 0);
    world.run_until(balance_times[preset] * MS);
    assert_ne!(world.running(0), task, "a running task cannot be pulled");
    where_is(&world, task) == 1
}

/// Points 4, 5 of `balance.bpf.h`: what a busy CPU pulls in one pass. Weights: 15 (nice 19), 70 (12), 87 (11), 1024
/// (0), 1277 (-1), 3121 (-5).
#[test]
fn balance_pass_pulls_the_imbalance() {
    for (cpus, expected) in [
        // One CPU has twice the load of the other: the imbalance is half a task, for which kernels up to 4.1 move
        // a whole task. In 6.1 the task is too heavy in the first pass.
        (&[&[0, 0][..], &[0]][..], [true, true, false]),
        (&[&[0, 0, 0], &[0, 0]], [true, true, false]),
        // The imbalance is exactly one task.
        (&[&[0, 0, 0, 0], &[0, 0]], [true, true, true]),
        // 1292 of 1111 is 116 %, of 1094 118 %, of 1039 124 %, of 1024 126 %.
        (&[&[19, -1], &[0, 11]], [false, false, false]),
        (&[&[19, -1], &[0, 12]], [false, true, true]),
        (&[&[19, -1], &[0, 19]], [false, true, true]),
        (&[&[19, -1], &[0]], [true, true, true]),
        // Half of the task's weight is 512: exactly the imbalance, and then 8 more than it.
        (&[&[0, -5], &[-5]], [true, true, false]),
        (&[&[0, -5], &[-5, 19]], [false, false, false]),
        // The CPU has at least the average load already.
        (&[&[0, 0, 0], &[0, 0], &[0]], [false, false, false]),
        (&[&[0, 0, 0], &[0], &[0, 0]], [true, true, true]),
        // The excess over the average is a third of a task, which up to 4.1 moves a whole one.
        (&[&[0, 0], &[0], &[0, 0]], [true, true, false]),
    ] {
        for (preset, expected) in PRESETS.into_iter().zip(expected) {
            assert_eq!(goes(preset, cpus), expected, "{preset} {cpus:?}");
        }
    }
}

/// Point 5 of `balance.bpf.h`: in 6.1 each failed pass doubles the allowed weight. A task of weight 1024 is pulled in
/// the second pass if the imbalance is 512, and in the third if it is 258.
#[test]
fn failed_passes_allow_heavier_tasks_in_6_1() {
    for (own, ms) in [(&[0][..], 127 + 31), (&[0, 5, 8], 127 + 31 + 31)] {
        let mut world = World::new(&format!("cfs@6.1,{COLD}"), CACHE, 1000);
        bound(&mut world, 0);
        let task = bound(&mut world, 0);
        for nice in own {
            bound_with(&mut world, 1, *nice);
        }
        world.run_ms(100);
        unbind(&mut world, task);
        while where_is(&world, task) == 0 {
            world.run_ms(1);
        }
        assert_eq!(world.now_ns, ms * MS, "{own:?}");
    }
}

/// Point 4 of `balance.bpf.h`: number of CPU 0's tasks that an idle CPU pulls in one pass. Of five equal tasks, half
/// the weight is two and a half: the kernels that count weight pull a third one, the kernel that counts tasks pulls
/// two.
#[test]
fn idle_cpu_pulls_half_of_the_tasks() {
    for (hogs, taken) in [(6, [3, 3, 3]), (5, [3, 3, 2])] {
        for (preset, taken) in PRESETS.into_iter().zip(taken) {
            let mut world = World::new(&format!("cfs@{preset},{COLD}"), CACHE, 1000);
            let hogs = occupy(&mut world, &vec![0; hogs]);
            world.run_ms(100);
            hogs.iter().for_each(|hog| unbind(&mut world, *hog));
            while world.running(1) == TaskId::NONE {
                world.run_ms(1);
            }
            let found = hogs.iter().filter(|hog| where_is(&world, **hog) == 1).count();
            assert_eq!(found, taken, "{preset}");
        }
    }
}

/// Point 4 of `balance.bpf.h`: a group with as many tasks as CPUs. CPUs 0 to 3 are idle; in the other cache one CPU
/// has two tasks and one is idle. 6.1 compares the numbers of idle CPUs.
#[test]
fn group_with_an_idle_cpu_is_pulled_from_only_in_6_1() {
    for (preset, goes) in PRESETS.into_iter().zip([false, false, true]) {
        let mut world = World::new(&format!("cfs@{preset},{COLD}"), "node:1 l3:2 core:4 pu:1", 1000);
        let hogs = occupy(&mut world, &[4, 4, 5, 6]);
        world.run_ms(100);
        hogs[..2].iter().for_each(|hog| allow(&mut world, *hog, &[0, 1, 2, 3, 4]));
        world.run_ms(400);
        assert_eq!(hogs.iter().any(|hog| where_is(&world, *hog) < 4), goes, "{preset}");
    }
}

/// Point 4 of `balance.bpf.h`: a busy CPU pulls only from a group with more tasks than CPUs. CPU 1 of that group is
/// idle, but may not run the tasks.
#[test]
fn busy_cpu_pulls_only_from_an_overloaded_group() {
    for (hogs, goes) in [(2, false), (3, true)] {
        for preset in PRESETS {
            let mut world = World::new(&format!("cfs@{preset},{COLD}"), "node:1 core:2 pu:2", 1000);
            let hogs = occupy(&mut world, &vec![0; hogs]);
            (2..4).for_each(|cpu| {
                bound_with(&mut world, cpu, 19);
            });
            world.run_ms(100);
            hogs.iter().for_each(|hog| allow(&mut world, *hog, &[0, 2, 3]));
            world.run_ms(700);
            assert_eq!(hogs.iter().any(|hog| where_is(&world, *hog) > 1), goes, "{preset}, {}", hogs.len());
        }
    }
}

/// Point 1 of `balance.bpf.h`: a newly idle CPU pulls one task, though two other CPUs are overloaded.
#[test]
fn newly_idle_cpu_pulls_one_task() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset},{COLD}"), "node:2 core:2 pu:1", 1000);
        let hogs = occupy(&mut world, &[0, 0, 2, 2]);
        let other = occupy(&mut world, &[1, 3])[0];
        world.run_ms(50);
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        world.block(other);
        let places: Vec<u32> =
            (0..4).map(|cpu| hogs.iter().filter(|hog| where_is(&world, **hog) == cpu).count() as u32).collect();
        assert_eq!(places, [1, 1, 2, 0], "{preset}");
        assert_ne!(world.running(1), TaskId::NONE, "{preset}");
    }
}

/// Point 4 of `balance.bpf.h`: a CPU goes idle whose SMT sibling has more weight than the three tasks of the other
/// core together. By load its core has enough; since 4.1 it pulls one, as its core has spare capacity and the other
/// one has none.
#[test]
fn newly_idle_cpu_with_spare_capacity_pulls_since_4_1() {
    for (preset, comes) in PRESETS.into_iter().zip([false, true, true]) {
        let mut world = World::new(&format!("cfs@{preset},{COLD}"), "node:1 core:2 pu:2", 1000);
        let other = bound(&mut world, 0);
        bound_with(&mut world, 1, -20);
        let hogs = occupy(&mut world, &[2, 2, 3]);
        world.run_ms(50);
        allow(&mut world, hogs[1], &[0, 2]);
        world.block(other);
        assert_eq!(world.running(0) == hogs[1], comes, "{preset}");
    }
}

/// Point 1 of `balance.bpf.h`: an idle period of up to twice the migration cost is averaged with earlier ones; a
/// longer one replaces them.
#[test]
fn long_idle_period_resets_the_average() {
    for preset in &PRESETS[..2] {
        for (idles_ns, comes) in [(MS, false), (MS + 1, true)] {
            let mut world = World::new(&format!("cfs@{preset},latency_us=1000000"), CACHE, 1000);
            let hogs = occupy(&mut world, &[0, 0]);
            let other = bound(&mut world, 1);
            for idles_ns in [vec![50_000; 40], vec![idles_ns]].concat() {
                world.block(other);
                world.run_until(world.now_ns + idles_ns);
                world.wake(1, other, false);
                world.run_until(world.now_ns + 50_000);
            }
            hogs.iter().for_each(|hog| unbind(&mut world, *hog));
            world.run_until(world.now_ns + 600_000);
            world.block(other);
            assert_eq!(world.running(1) != TaskId::NONE, comes, "{preset} {idles_ns}");
        }
    }
}

/// Point 3 of `balance.bpf.h`: a busy CPU that pulls a task at a tick continues its own task unless the pulled one
/// preempts it.
#[test]
fn pulled_task_preempts_like_a_woken_one() {
    for preset in &PRESETS[..2] {
        let spec = format!("cfs@{preset},{COLD},start_debit=false");
        let look = *balance_times(&spec, CACHE, 300).iter().find(|ms| **ms > 100).unwrap();
        for slept in [false, true] {
            let mut world = World::new(&spec, CACHE, 1000);
            // The pulled task is either one that has been queued and does not preempt, or one that has slept on CPU 0
            // since the start and does.
            let batch = TaskAttributes { policy: Policy::Batch, ..world.pinned(0, 0) };
            let sleeper = world.spawn(0, batch);
            world.block(sleeper);
            let own = occupy(&mut world, &[0, 1])[1];
            world.run_until((look - 15) * MS + MS / 2);
            let comes = if slept {
                world.wake(0, sleeper, false);
                sleeper
            } else {
                bound(&mut world, 0)
            };
            unbind(&mut world, comes);
            world.run_until(look * MS);
            assert_eq!(where_is(&world, comes), 1, "{preset} {slept}");
            assert_eq!(world.running(1), if slept { comes } else { own }, "{preset} {slept}");
        }
    }
}

/// Point 7 of `balance.bpf.h`: a task stopped for active balance that may not move continues without a pick. The
/// queued task is too heavy for the imbalance; the running one has more virtual runtime than it, but its slice is not
/// over.
#[test]
fn task_that_cannot_be_pushed_continues() {
    for bind in [true, false] {
        let mut world = World::new(&format!("cfs@4.1,{COLD},start_debit=false"), CACHE, 1000);
        occupy(&mut world, &[1]);
        bound_with(&mut world, 1, -10);
        let runs = bound_with(&mut world, 0, -5);
        let waits = bound_with(&mut world, 0, -10);
        unbind(&mut world, waits);
        if !bind {
            unbind(&mut world, runs);
        }
        world.run_until(1);
        assert_eq!(world.running(0), runs);
        // The fourth failed pass is at 321 ms, and the slice ends at 493 ms.
        world.run_until(480 * MS);
        assert_eq!(world.running(0) == runs, bind);
    }
}

/// Point 4 of `balance.bpf.h`: seven tasks against six are balanced, and none moves. The pass before had an imbalance
/// of two tasks.
#[test]
fn balanced_cpus_move_no_task() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset},{COLD}"), CACHE, 1000);
        let hogs = occupy(&mut world, &[0; 8]);
        occupy(&mut world, &[1; 4]);
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        let gone = |world: &World| hogs.iter().filter(|hog| where_is(world, **hog) == 1).count();
        world.run_ms(1000);
        assert_eq!(gone(&world), 2, "{preset}");
        let more = bound(&mut world, 0);
        unbind(&mut world, more);
        world.run_ms(1000);
        assert_eq!((gone(&world), where_is(&world, more)), (2, 0), "{preset}");
    }
}

/// Point 1 of `balance.bpf.h`: a newly idle CPU pulls one task from the nearest domain that has one, and ends the
/// search there.
#[test]
fn newly_idle_cpu_pulls_from_the_nearest_domain() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset},{COLD}"), "node:1 l3:2 core:2 pu:1", 1000);
        let hogs = occupy(&mut world, &[0, 0, 2, 2, 2, 2, 3, 3, 3, 3]);
        let last = bound(&mut world, 1);
        world.run_ms(10);
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        let before = world.inserted.len();
        world.block(last);
        // A second task would wait in the CPU's local queue.
        let taken: Vec<TaskId> = world.inserted[before..].iter().map(|one| one.task).collect();
        assert_eq!(taken, [world.running(1)], "{preset}");
        assert!(hogs[..2].contains(&taken[0]), "{preset}");
    }
}
