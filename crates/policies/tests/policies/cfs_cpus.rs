// SPDX-License-Identifier: GPL-2.0-only
//! `policies/cfs` on several CPUs: where tasks wake and begin (theory 5), and how load is balanced (theory 6).

use crate::cfs::PRESETS;
use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

/// Hogs that are bound to these CPUs.
pub fn occupy(world: &mut World, cpus: &[u32]) -> Vec<TaskId> {
    cpus.iter().map(|cpu| bound(world, *cpu)).collect()
}

pub fn bound(world: &mut World, cpu: u32) -> TaskId {
    let attributes = world.pinned(cpu, 0);
    world.spawn(cpu, attributes)
}

/// The task may run anywhere from now on. It does not move for that.
pub fn unbind(world: &mut World, task: TaskId) {
    let all: Vec<u32> = (0..world.cpus()).collect();
    world.kernel.set_affinity(CpuId(0), task, &only(&all)).unwrap();
    world.settle();
}

/// A task that sleeps, ran on `cpu` last, and may run anywhere.
pub fn sleeper(world: &mut World, cpu: u32) -> TaskId {
    let task = bound(world, cpu);
    assert_eq!(world.running(cpu), task);
    world.block(task);
    unbind(world, task);
    task
}

/// Where a task is: it runs there, or waits.
pub fn place_of(world: &World, task: TaskId) -> u32 {
    world.kernel.task_cpu(task).0
}

/// Overload on wakeup (EuroSys 2016): a task does not leave its cache when it wakes, though all CPUs below another idle. It
/// wakes beside a hog.
#[test]
fn wakeups_do_not_leave_the_cache() {
    for preset in PRESETS {
        for waker in [0, 1] {
            let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:2 core:2 pu:1", 1000);
            let task = sleeper(&mut world, 0);
            occupy(&mut world, &[0, 1]);
            world.run_ms(20);
            world.wake(waker, task, false);
            assert!([0, 1].contains(&place_of(&world, task)), "{preset} {waker}");
            assert_eq!((world.running(2), world.running(3)), (TaskId::NONE, TaskId::NONE), "{preset} {waker}");
        }
    }
}

/// "wake.bpf.h" 5, on three cores with two threads each. The last CPU is 0, and no more loaded than the waker's.
#[test]
fn idle_siblings_are_sought_in_each_versions_way() {
    for (busy, waker, cpus) in [
        // A core idles as a whole: 2.6.36 takes the sibling nevertheless.
        (&[0, 2][..], 0, [1, 4, 4]),
        // None does: the sibling.
        (&[0, 2, 4], 0, [1, 1, 1]),
        // The sibling is busy, and the waker is on the same core: only 6.1 looks further.
        (&[0, 1, 2, 5], 0, [0, 0, 3]),
        // It is on another core.
        (&[0, 1, 2, 5], 2, [3, 0, 3]),
        // Nothing is idle.
        (&[0, 1, 2, 3, 4, 5], 0, [0, 0, 0]),
    ] {
        for (preset, cpu) in PRESETS.into_iter().zip(cpus) {
            let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:1 core:3 pu:2", 1000);
            let task = sleeper(&mut world, 0);
            occupy(&mut world, busy);
            world.run_ms(20);
            world.wake(waker, task, false);
            assert_eq!(place_of(&world, task), cpu, "{preset} {busy:?} {waker}");
        }
    }
}

/// "wake.bpf.h" 5: in 6.1 a CPU with nothing but SCHED_IDLE tasks is as good as an idle one.
#[test]
fn cpus_with_idle_tasks_count_as_idle_in_6_1() {
    for (preset, cpu) in [("2.6.36", 0), ("4.1", 0), ("6.1", 1)] {
        let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:1 core:3 pu:1", 1000);
        let task = sleeper(&mut world, 0);
        occupy(&mut world, &[0, 2]);
        let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(1, 0) };
        world.spawn(1, idle);
        world.wake(0, task, false);
        assert_eq!(place_of(&world, task), cpu, "{preset}");
    }
}

/// "wake.bpf.h" 2, 3: the last CPU is 0, the waker's is 1, below another cache. Loads are in hogs; the imbalance between nodes
/// is 33 % in 2.6.36, 25 % in 4.1 and 17 % in 6.1, and half of that counts.
#[test]
fn the_wakers_cpu_attracts_by_load() {
    for (last, own, sync, cpus) in [
        // An interrupt of an idle CPU.
        (0, 0, false, [1, 1, 0]),
        (1, 0, false, [1, 1, 1]),
        (1, 1, false, [0, 0, 0]),
        (2, 1, false, [1, 1, 1]),
        (2, 2, false, [0, 0, 0]),
        // With the task 8 / 7 and 11 / 10 of what is there.
        (7, 7, false, [1, 0, 0]),
        (10, 10, false, [1, 1, 0]),
        // The waker does not count if it is about to sleep.
        (1, 1, true, [1, 1, 1]),
        (2, 2, true, [1, 1, 1]),
        (3, 4, true, [0, 0, 0]),
    ] {
        for (preset, cpu) in PRESETS.into_iter().zip(cpus) {
            let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:2 core:1 pu:1", 1000);
            let task = sleeper(&mut world, 0);
            occupy(&mut world, &vec![0; last]);
            occupy(&mut world, &vec![1; own]);
            world.run_ms(20);
            world.wake(1, task, sync);
            assert_eq!(place_of(&world, task), cpu, "{preset}: {last} there, {own} here, {sync}");
        }
    }
}

/// "wake.bpf.h" 4: who wakes many others does not draw to its CPU those that wake many (since 4.1). The waker sleeps next, so
/// the task would come.
#[test]
fn who_wakes_many_is_not_affine() {
    for (preset, wakes, cpu) in [("2.6.36", 60, 0), ("4.1", 60, 1), ("6.1", 60, 1), ("4.1", 3, 0), ("6.1", 3, 0)] {
        let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:1 core:2 pu:1", 1000);
        let others = [sleeper(&mut world, 1), sleeper(&mut world, 1)];
        let master = bound(&mut world, 0);
        let slave = bound(&mut world, 1);
        // Both wake two tasks in turn, the slave ten times less often.
        for (waker, cpu, count) in [(slave, 1, wakes / 10), (master, 0, wakes)] {
            for round in 0..count {
                assert_eq!(world.running(cpu), waker);
                world.wake(cpu, others[round % 2], false);
                while world.cpu_of(others[round % 2]).is_none() {
                    world.run_ms(1);
                }
                world.block(others[round % 2]);
                while world.running(cpu) != waker {
                    world.run_ms(1);
                }
            }
        }
        world.block(slave);
        unbind(&mut world, slave);
        occupy(&mut world, &[1]);
        assert_eq!(world.running(0), master);
        world.wake(0, slave, true);
        assert_eq!(place_of(&world, slave), cpu, "{preset} {wakes}");
    }
}

/// "wake.bpf.h" 7: a new task goes to the node, the cache and the core with the least load.
#[test]
fn a_new_task_goes_where_the_load_is_least() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset}"), "node:2 core:2 pu:2", 1000);
        occupy(&mut world, &[0]);
        for (number, cpus) in [&[4, 5, 6, 7][..], &[2, 3], &[4, 5, 6, 7]].into_iter().enumerate() {
            let attributes = world.attributes();
            let task = world.spawn(0, attributes);
            assert!(cpus.contains(&place_of(&world, task)), "{preset} {number}: {}", place_of(&world, task));
        }
        // Every core has one.
        let cores: Vec<u32> = (0..8).filter(|cpu| world.running(*cpu) != TaskId::NONE).map(|cpu| cpu / 2).collect();
        assert_eq!(cores, [0, 1, 2, 3], "{preset}");
    }
}

/// Two hogs that may run anywhere, both on CPU 0, and a task on CPU 1.
fn two_and_one(spec: &str) -> (World, [TaskId; 2], TaskId) {
    let mut world = World::new(spec, "node:1 core:2 pu:1", 1000);
    let hogs = [bound(&mut world, 0), bound(&mut world, 0)];
    let other = bound(&mut world, 1);
    world.run_ms(70);
    (world, hogs, other)
}

/// "balance.bpf.h" 1, 6: a CPU that runs out of tasks takes one that waits, if that has not run for half a millisecond. P11
/// of a model of our own.
#[test]
fn a_newly_idle_cpu_takes_cold_tasks() {
    for preset in PRESETS {
        for (after_us, comes) in [(400, false), (600, true)] {
            let (mut world, hogs, other) = two_and_one(&format!("cfs@{preset}"));
            hogs.iter().for_each(|hog| unbind(&mut world, *hog));
            world.began.clear();
            while world.began.is_empty() {
                world.run_ms(1);
            }
            world.run_until(world.now_ns + after_us * 1000);
            let waits = if world.running(0) == hogs[0] { hogs[1] } else { hogs[0] };
            world.block(other);
            assert_eq!(world.running(1), if comes { waits } else { TaskId::NONE }, "{preset} {after_us}");
        }
    }
}

/// "balance.bpf.h" 1: until 4.1 a CPU takes nothing if it idles for less than 0.5 ms at a time.
#[test]
fn who_idles_briefly_takes_nothing_until_4_1() {
    for (preset, comes) in [("2.6.36", false), ("4.1", false), ("6.1", true)] {
        let (mut world, hogs, other) = two_and_one(&format!("cfs@{preset}"));
        for _ in 0..40 {
            world.block(other);
            world.run_until(world.now_ns + 100_000);
            world.wake(1, other, false);
            world.run_until(world.now_ns + 100_000);
        }
        world.began.clear();
        while world.began.is_empty() {
            world.run_ms(1);
        }
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        world.run_until(world.now_ns + 600_000);
        assert_eq!(world.running(1), other);
        world.block(other);
        assert_eq!(world.running(1) != TaskId::NONE, comes, "{preset}");
    }
}

/// "balance.bpf.h" 3: four hogs that all began on CPU 0 spread to CPUs that idle, within some ticks.
#[test]
fn hogs_spread_to_idle_cpus() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset}"), "node:2 core:2 pu:1", 1000);
        let hogs: Vec<_> = (0..4).map(|_| bound(&mut world, 0)).collect();
        world.run_ms(100);
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        world.run_ms(200);
        let cpus: Vec<_> = hogs.iter().map(|hog| world.cpu_of(*hog)).collect();
        assert!((0..4).all(|cpu| cpus.contains(&Some(cpu))), "{preset}: {cpus:?}");
        // And not without balance.
        let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:2 core:2 pu:1", 1000);
        let hogs: Vec<_> = (0..4).map(|_| bound(&mut world, 0)).collect();
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        world.run_ms(200);
        assert!(hogs.iter().all(|hog| place_of(&world, *hog) == 0), "{preset}");
    }
}

/// What three hogs get of two CPUs in 10 s.
fn three_on_two(preset: &str) -> Vec<u64> {
    let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:2 pu:1", 1000);
    let tasks = world.start(vec![world.attributes(); 3]);
    world.run_ms(10_000);
    tasks.iter().map(|task| world.ran_ms(*task)).collect()
}

/// "balance.bpf.h" 2, 4, 5: three hogs on two CPUs share them by moving: two thirds for each, but for 5 points (P10 of a model
/// of our own). **Not always in 2.6.36 and 4.1** (`policies/cfs/README.md`): here, where all CPUs have their ticks in the
/// same nanosecond, one hog has a few points more.
#[test]
fn three_hogs_share_two_cpus() {
    let ran = three_on_two("6.1");
    assert!(ran.iter().all(|ms| ms.abs_diff(6_667) <= 500), "{ran:?}");
}

/// The same: in each version all of them move. One that stayed would have a CPU alone, and the others would share one.
#[test]
fn none_of_three_hogs_stays_alone() {
    for preset in PRESETS {
        let ran = three_on_two(preset);
        assert!(ran.iter().all(|ms| (5_500..8_000).contains(ms)), "{preset}: {ran:?}");
    }
}

/// "balance.bpf.h" 4: loads are biased before 6.1. A CPU that lost a task, and one that got it, seem not to have changed for some
/// ticks, so that the task is not taken back at once.
#[test]
fn who_lost_a_task_does_not_take_it_back_at_once() {
    for preset in ["2.6.36", "4.1"] {
        let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:2 pu:1", 1000);
        let tasks = world.start(vec![world.attributes(); 3]);
        let places = |world: &World| tasks.iter().map(|task| place_of(world, *task)).collect::<Vec<_>>();
        let (mut before, mut moves) = (places(&world), Vec::new());
        for _ in 0..5_000 {
            world.run_ms(1);
            let now = places(&world);
            if now != before {
                moves.push(world.now_ns / MS);
            }
            before = now;
        }
        let least = moves.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(moves.len() > 10 && least.is_some_and(|ms| ms >= 10), "{preset}: {moves:?}");
    }
}

/// "balance.bpf.h" 7: who waits on CPU 0 may not leave it, and who runs there hardly ever waits: it is pushed to CPU 1.
#[test]
fn a_running_task_is_pushed_after_some_failures() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:2 pu:1", 1000);
        let attributes = world.pinned(0, -20);
        let heavy = world.spawn(0, attributes);
        bound(&mut world, 0);
        world.run_ms(90);
        unbind(&mut world, heavy);
        assert_eq!(world.cpu_of(heavy), Some(0), "{preset}");
        world.run_ms(60);
        assert_eq!(world.cpu_of(heavy), Some(1), "{preset}");
        assert_eq!(world.now_ns, 150 * MS);
    }
}
