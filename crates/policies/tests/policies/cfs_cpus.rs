// SPDX-License-Identifier: GPL-2.0-only
//! `policies/cfs` on several CPUs: CPU selection at wakeup and fork (theory 5), and load balancing (theory 6).

use crate::cfs::PRESETS;
use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

/// Starts a hog on each of these CPUs, pinned to it.
pub fn occupy(world: &mut World, cpus: &[u32]) -> Vec<TaskId> {
    cpus.iter().map(|cpu| bound(world, *cpu)).collect()
}

pub fn bound(world: &mut World, cpu: u32) -> TaskId {
    let attributes = world.pinned(cpu, 0);
    world.spawn(cpu, attributes)
}

/// Allows a task on all CPUs, which does not move it.
pub fn unbind(world: &mut World, task: TaskId) {
    let all: Vec<u32> = (0..world.cpus()).collect();
    world.kernel.set_affinity(CpuId(0), task, &only(&all)).unwrap();
    world.settle();
}

/// Returns a sleeping task that last ran on `cpu` and may run on any CPU.
pub fn sleeper(world: &mut World, cpu: u32) -> TaskId {
    let task = bound(world, cpu);
    assert_eq!(world.running(cpu), task);
    world.block(task);
    unbind(world, task);
    task
}

/// Returns the CPU a task is running or queued on.
pub fn place_of(world: &World, task: TaskId) -> u32 {
    world.kernel.task_cpu(task).0
}

/// Overload on wakeup (EuroSys 2016): a woken task stays within its cache, beside a hog, though all CPUs of another
/// cache are idle.
#[test]
fn wakeups_stay_in_the_cache_though_another_one_is_idle() {
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

/// Point 5 of `wake.bpf.h`, on three cores with two hardware threads each. The last CPU is 0, and its load is at most
/// that of the waker's CPU.
#[test]
fn idle_sibling_search_follows_each_version() {
    for (busy, waker, cpus) in [
        // A whole core is idle; 2.6.36 takes the SMT sibling nevertheless.
        (&[0, 2][..], 0, [1, 4, 4]),
        // No whole core is idle: all versions choose the idle SMT sibling.
        (&[0, 2, 4], 0, [1, 1, 1]),
        // The sibling is busy and the waker is on the same core: only 6.1 searches further.
        (&[0, 1, 2, 5], 0, [0, 0, 3]),
        // The waker is on another core.
        (&[0, 1, 2, 5], 2, [3, 0, 3]),
        // All CPUs are busy.
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

/// Point 5 of `wake.bpf.h`: in 6.1 a CPU with only SCHED_IDLE tasks counts as idle.
#[test]
fn cpus_with_only_sched_idle_tasks_count_as_idle_in_6_1() {
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

/// Points 2, 3 of `wake.bpf.h`: the last CPU is 0, the waker's is 1, in another cache. Loads are in hogs. The
/// imbalance between nodes is 33 % in 2.6.36, 25 % in 4.1 and 17 % in 6.1; half of that is allowed.
#[test]
fn wake_affine_compares_loads() {
    for (last, own, sync, cpus) in [
        // The waker is an interrupt on an idle CPU.
        (0, 0, false, [1, 1, 0]),
        (1, 0, false, [1, 1, 1]),
        (1, 1, false, [0, 0, 0]),
        (2, 1, false, [1, 1, 1]),
        (2, 2, false, [0, 0, 0]),
        // With the woken task, the waker's CPU has 8/7 and 11/10 of the last CPU's load.
        (7, 7, false, [1, 0, 0]),
        (10, 10, false, [1, 1, 0]),
        // In a sync wakeup the waker does not count.
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

/// Point 4 of `wake.bpf.h`: since 4.1 a task that wakes many others does not pull tasks that also wake many to its
/// CPU. The wakeup is sync, so the task would otherwise be pulled.
#[test]
fn wake_wide_disables_affine_wakeups_since_4_1() {
    for (preset, wakes, cpu) in [("2.6.36", 60, 0), ("4.1", 60, 1), ("6.1", 60, 1), ("4.1", 3, 0), ("6.1", 3, 0)] {
        let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:1 core:2 pu:1", 1000);
        let others = [sleeper(&mut world, 1), sleeper(&mut world, 1)];
        let master = bound(&mut world, 0);
        let slave = bound(&mut world, 1);
        // Master and slave each wake the same two tasks in turn; the slave makes a tenth of the wakeups.
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

/// Point 7 of `wake.bpf.h`: a new task goes to the node, the cache and the core with the least load.
#[test]
fn forked_task_goes_to_the_least_loaded_group() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset}"), "node:2 core:2 pu:2", 1000);
        occupy(&mut world, &[0]);
        for (number, cpus) in [&[4, 5, 6, 7][..], &[2, 3], &[4, 5, 6, 7]].into_iter().enumerate() {
            let attributes = world.attributes();
            let task = world.spawn(0, attributes);
            assert!(cpus.contains(&place_of(&world, task)), "{preset} {number}: {}", place_of(&world, task));
        }
        // Every core has one task.
        let cores: Vec<u32> = (0..8).filter(|cpu| world.running(*cpu) != TaskId::NONE).map(|cpu| cpu / 2).collect();
        assert_eq!(cores, [0, 1, 2, 3], "{preset}");
    }
}

/// Starts two pinned hogs on CPU 0 and one task on CPU 1.
fn two_and_one(spec: &str) -> (World, [TaskId; 2], TaskId) {
    let mut world = World::new(spec, "node:1 core:2 pu:1", 1000);
    let hogs = [bound(&mut world, 0), bound(&mut world, 0)];
    let other = bound(&mut world, 1);
    world.run_ms(70);
    (world, hogs, other)
}

/// Points 1, 6 of `balance.bpf.h`: a newly idle CPU pulls a queued task if that has not run for 0.5 ms. The expected
/// values are computed (property P11 of the facts), not published.
#[test]
fn newly_idle_cpu_pulls_cache_cold_tasks() {
    for preset in PRESETS {
        for (after_us, comes) in [(400, false), (600, true)] {
            let (mut world, hogs, other) = two_and_one(&format!("cfs@{preset}"));
            hogs.iter().for_each(|hog| unbind(&mut world, *hog));
            world.switches.clear();
            while world.switches.is_empty() {
                world.run_ms(1);
            }
            world.run_until(world.now_ns + after_us * 1000);
            let waits = if world.running(0) == hogs[0] { hogs[1] } else { hogs[0] };
            world.block(other);
            assert_eq!(world.running(1), if comes { waits } else { TaskId::NONE }, "{preset} {after_us}");
        }
    }
}

/// Point 1 of `balance.bpf.h`: up to 4.1 a CPU pulls no task if its average idle time is below 0.5 ms.
#[test]
fn cpu_with_short_idle_times_pulls_nothing_before_6_1() {
    for (preset, comes) in [("2.6.36", false), ("4.1", false), ("6.1", true)] {
        let (mut world, hogs, other) = two_and_one(&format!("cfs@{preset}"));
        for _ in 0..40 {
            world.block(other);
            world.run_until(world.now_ns + 100_000);
            world.wake(1, other, false);
            world.run_until(world.now_ns + 100_000);
        }
        world.switches.clear();
        while world.switches.is_empty() {
            world.run_ms(1);
        }
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        world.run_until(world.now_ns + 600_000);
        assert_eq!(world.running(1), other);
        world.block(other);
        assert_eq!(world.running(1) != TaskId::NONE, comes, "{preset}");
    }
}

/// Point 3 of `balance.bpf.h`: four hogs that all start on CPU 0 spread to idle CPUs within some ticks.
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
        // Without balancing the tasks stay on their CPUs.
        let mut world = World::new(&format!("cfs@{preset},balances_load=false"), "node:2 core:2 pu:1", 1000);
        let hogs: Vec<_> = (0..4).map(|_| bound(&mut world, 0)).collect();
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        world.run_ms(200);
        assert!(hogs.iter().all(|hog| place_of(&world, *hog) == 0), "{preset}");
    }
}

/// Returns the CPU time of three hogs on two CPUs in 10 s.
fn three_on_two(preset: &str) -> Vec<u64> {
    let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:2 pu:1", 1000);
    let tasks = world.start(vec![world.attributes(); 3]);
    world.run_ms(10_000);
    tasks.iter().map(|task| world.ran_ms(*task)).collect()
}

/// Points 2, 4, 5 of `balance.bpf.h`: three hogs share two CPUs by migrating: two thirds of a CPU each, within 5
/// points (computed, not published). **Not always in 2.6.36 and 4.1** (`policies/cfs/README.md`): here all CPUs have
/// their ticks in the same nanosecond, and one hog gets a few points more.
#[test]
fn three_hogs_share_two_cpus() {
    let ran = three_on_two("6.1");
    assert!(ran.iter().all(|ms| ms.abs_diff(6_667) <= 500), "{ran:?}");
}

/// In every version all of three hogs on two CPUs migrate, and get 55 to 80 % of a CPU each. Otherwise one would have
/// a CPU alone while two share the other.
#[test]
fn no_hog_of_three_keeps_a_cpu_alone() {
    for preset in PRESETS {
        let ran = three_on_two(preset);
        assert!(ran.iter().all(|ms| (5_500..8_000).contains(ms)), "{preset}: {ran:?}");
    }
}

/// Point 4 of `balance.bpf.h`: before 6.1 loads are biased towards their past. The CPU that lost a task and the one
/// that pulled it look unchanged for some ticks, so the task is not pulled back at once.
#[test]
fn load_bias_prevents_pulling_a_task_back_at_once() {
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

/// Point 7 of `balance.bpf.h`: the task queued on CPU 0 is pinned, and the running one hardly ever waits: active
/// balance pushes the running task to CPU 1.
#[test]
fn active_balance_pushes_the_running_task() {
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
