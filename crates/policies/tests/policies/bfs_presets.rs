// SPDX-License-Identifier: GPL-2.0-only
//! `policies/bfs`: where its presets differ as their posts and sources say (theory 6, 10, 11), as counts: which CPU, who
//! goes first, who stays.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

const PRESETS: [&str; 10] =
    ["0.357", "0.360", "0.362", "0.41x", "0.440", "0.465", "0.466", "0.467", "0.467-interactive", "gc"];

/// The presets for which `holds`.
fn presets(mut holds: impl FnMut(&str) -> bool) -> Vec<&'static str> {
    PRESETS.into_iter().filter(|preset| holds(&format!("bfs@{preset}"))).collect()
}

/// Where a task goes that ran on `last`, wakes and may use all CPUs but those of `forbidden`, while `busy` ones are.
fn wakes_to(spec: &str, shape: &str, last: u32, forbidden: &[u32], busy: &[u32]) -> u32 {
    let mut world = World::new(spec, shape, 50);
    let task = world.start(vec![world.pinned(last, 0)])[0];
    world.block(task);
    let allowed: Vec<u32> = (0..world.cpus()).filter(|cpu| !forbidden.contains(cpu)).collect();
    world.kernel.set_affinity(CpuId(0), task, &only(&allowed)).unwrap();
    world.settle();
    let mut hogs = busy.to_vec();
    // CPU 0 makes the tasks, so it must be the last to become busy.
    hogs.sort_by_key(|cpu| std::cmp::Reverse(*cpu));
    world.start(hogs.iter().map(|cpu| world.pinned(*cpu, 0)).collect());
    world.wake(world.cpus() - 1, task, false);
    world.cpu_of(task).expect("some CPU idles")
}

/// The laptop of the post of December 2010: 2 cores of 2 threads. Without its last CPU a task goes to that one's sibling
/// since 0.360; before, all four were alike, and the next number won.
#[test]
fn before_0_360_all_cpus_below_a_cache_were_alike() {
    let shape = "node:1 core:2 pu:2";
    assert_eq!(presets(|spec| wakes_to(spec, shape, 1, &[1], &[]) == 2), ["0.357"]);
    assert_eq!(presets(|spec| wakes_to(spec, shape, 1, &[1], &[]) == 0).len(), 9);
    assert!(PRESETS.iter().all(|preset| wakes_to(&format!("bfs@{preset}"), shape, 3, &[], &[]) == 3));
}

/// The last CPU idles beside a busy sibling, and another core idles as a whole: up to 0.360 the task moves there.
#[test]
fn later_versions_stay_on_the_last_cpu_beside_a_busy_sibling() {
    let moves = presets(|spec| wakes_to(spec, "node:1 core:2 pu:2", 0, &[], &[1]) != 0);
    assert_eq!(moves, ["0.357", "0.360", "0.362"]);
}

/// The last CPU works; its sibling idles, and so does another core below the cache: -gc takes the nearest, whatever its
/// siblings do.
#[test]
fn gc_takes_the_nearest_cpu() {
    let nearest = presets(|spec| wakes_to(spec, "node:1 core:2 pu:2", 2, &[], &[2]) == 3);
    assert_eq!(nearest, ["gc"]);
}

/// 0.357: a CPU below another cache counts as near if this task was the last one there.
#[test]
fn before_0_360_the_last_task_of_a_cpu_counted() {
    let back = presets(|spec| {
        let mut world = World::new(spec, "node:1 l3:2 core:2 pu:1", 50);
        // It ran on CPU 3, and then on CPU 1, which is busy now, as is the whole cache.
        let task = world.start(vec![world.pinned(3, 0)])[0];
        world.block(task);
        for cpu in [1, 0] {
            world.kernel.set_affinity(CpuId(0), task, &only(&[cpu | 1])).unwrap();
            world.settle();
        }
        world.wake(0, task, false);
        assert_eq!(world.cpu_of(task), Some(1));
        world.block(task);
        world.kernel.set_affinity(CpuId(0), task, &only(&[0, 1, 2, 3])).unwrap();
        world.settle();
        world.start(vec![world.pinned(1, 0), world.pinned(0, 0)]);
        world.wake(0, task, false);
        world.cpu_of(task) == Some(3)
    });
    assert_eq!(back, ["0.357"]);
}

/// How the far task of [`takes_the_far_task`] came to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    AfterSleep,
    Displaced,
    DisplacedByRealTime,
}

/// Who goes first on a CPU of two nodes, `near`: a task that is bound there and came `later_ns` after one that ran on CPU
/// `far`, on the other node. Whether it is the task from elsewhere.
fn takes_from(spec: &str, [near, far]: [u32; 2], later_ns: u64, waits: Waits) -> bool {
    let mut world = World::new(spec, "node:2 core:2 pu:1", 50);
    let policy = if waits == Waits::DisplacedByRealTime { Policy::Fifo(1) } else { Policy::Other };
    let sleeper = world.start(vec![TaskAttributes { policy, ..world.pinned(far, -20) }])[0];
    world.block(sleeper);
    let from_far = world.start(vec![world.pinned(far, 19)])[0];
    let on_near = world.start(vec![world.pinned(near, -20)])[0];
    if waits == Waits::AfterSleep {
        world.block(from_far);
        world.start(vec![world.pinned(far, -20)]);
        world.wake(0, from_far, false);
    } else {
        world.wake(0, sleeper, false);
    }
    assert_eq!(world.cpu_of(from_far), None);
    world.kernel.set_affinity(CpuId(0), from_far, &only(&[near, far])).unwrap();
    world.settle();
    world.run_until(later_ns);
    let bound = world.start(vec![world.pinned(near, 19)])[0];
    world.block(on_near);
    assert!([bound, from_far].contains(&world.running(near)), "{spec}");
    world.running(near) == from_far
}

/// The same on CPU 1, for a task from CPU 3.
fn takes_the_far_task(spec: &str, later_ns: u64, waits: Waits) -> bool {
    takes_from(spec, [1, 3], later_ns, waits)
}

/// 0.360 means to count far deadlines double or fourfold, and adds 5089 * 12 / 128 << 2 = 1,908 ns.
#[test]
fn the_bias_of_0_360_is_less_than_two_microseconds_here() {
    for preset in ["0.357", "0.360", "0.362"] {
        let spec = format!("bfs@{preset}");
        for cpus in [[1, 3], [3, 1]] {
            assert!(!takes_from(&spec, cpus, 1_907, Waits::AfterSleep), "{preset}");
            assert!(takes_from(&spec, cpus, 1_909, Waits::AfterSleep), "{preset}");
        }
    }
}

/// And it takes as much off the deadline of a victim: 5089 * 9 / 128 << 1 = 714 ns between two caches of a node, << 2 = 1,428
/// between nodes. Whoever preempts ran on CPU 1, so its task counts whole; the task on CPU 0 came `later_ns` after that.
#[test]
fn victims_are_seen_with_the_bias_of_0_360() {
    for (shape, bias_ns) in [("node:1 l3:2 core:1 pu:1", 714), ("node:2 core:1 pu:1", 1_428)] {
        let takes_0 = |spec: &str, later_ns: u64| {
            let mut world = World::new(spec, shape, 50);
            let woken = world.start(vec![world.pinned(1, 19)])[0];
            world.block(woken);
            world.kernel.set_affinity(CpuId(0), woken, &only(&[0, 1])).unwrap();
            world.settle();
            world.run_until(1_000);
            world.start(vec![world.pinned(1, 19)]);
            world.run_until(1_000 + later_ns);
            world.start(vec![world.pinned(0, 19)]);
            world.told.clear();
            world.wake(0, woken, false);
            let refused = world.cpu_of(woken).is_none();
            let far_and_strict = spec.starts_with("bfs@0.466") || spec == "bfs@0.467";
            assert_eq!(
                refused,
                far_and_strict && world.told[0] == CpuId(0),
                "{spec}: a victim may refuse, by locality"
            );
            world.told[0] == CpuId(0)
        };
        assert_eq!(presets(|spec| !takes_0(spec, 1)), PRESETS[..3], "{shape}");
        for preset in &PRESETS[..3] {
            let spec = format!("bfs@{preset}");
            assert!(!takes_0(&spec, bias_ns - 1) && takes_0(&spec, bias_ns), "{preset} {shape}");
        }
    }
}

/// 0.41x: the longest turn, 250.1 ms, for sticky tasks.
#[test]
fn in_0_41x_a_sticky_task_is_a_quarter_of_a_second_behind() {
    assert!(takes_the_far_task("bfs@0.41x", 1, Waits::AfterSleep), "it slept, so it is not sticky");
    assert!(!takes_the_far_task("bfs@0.41x", 250 * MS, Waits::Displaced));
    assert!(takes_the_far_task("bfs@0.41x", 251 * MS, Waits::Displaced));
}

/// Another one that has to stop on the same CPU ends it: each CPU has one sticky task, the last.
#[test]
fn only_the_last_task_that_had_to_stop_is_sticky() {
    let sticky_ones = |spec: &str, stops_too: bool| {
        let mut world = World::new(spec, "node:2 core:2 pu:1", 50);
        let sleepers = world.start(vec![world.pinned(3, -20)]);
        world.block(sleepers[0]);
        let far = world.start(vec![world.pinned(3, 19)])[0];
        let on_1 = world.start(vec![world.pinned(1, -20)])[0];
        world.wake(0, sleepers[0], false);
        if stops_too {
            // A second one runs there, and has to stop as well.
            let second = world.start(vec![world.pinned(3, 10)])[0];
            world.block(sleepers[0]);
            assert_eq!(world.running(3), second, "{spec}");
            world.wake(0, sleepers[0], false);
        }
        world.kernel.set_affinity(CpuId(0), far, &only(&[1, 3])).unwrap();
        world.settle();
        world.run_until(MS);
        let near = world.start(vec![world.pinned(1, 19)])[0];
        world.block(on_1);
        assert!([near, far].contains(&world.running(1)), "{spec}");
        world.running(1) == near
    };
    assert_eq!(presets(|spec| sticky_ones(spec, false)), ["0.41x", "0.440", "0.465", "0.466", "0.467", "gc"]);
    assert_eq!(presets(|spec| sticky_ones(spec, true)), ["0.466", "0.467"]);
}

/// Which presets prefer the near task though its deadline is 230 ms later: to a sticky one, or to all. Who made way for a
/// real-time task is not sticky.
#[test]
fn locality_goes_before_deadlines_where_the_sources_say_so() {
    let near = |waits| presets(|spec| !takes_the_far_task(spec, 230 * MS, waits));
    assert_eq!(near(Waits::AfterSleep), ["0.466", "0.467"]);
    assert_eq!(near(Waits::Displaced), ["0.41x", "0.440", "0.465", "0.466", "0.467", "gc"]);
    assert_eq!(near(Waits::DisplacedByRealTime), ["0.466", "0.467"]);
}

/// 0.467 counts a CPU among its own siblings: a task of the sibling is as near as an own one. In 0.466 the own one wins, and
/// before that if the other is sticky.
#[test]
fn in_0_467_siblings_are_as_near_as_the_cpu_itself() {
    let siblings_first = presets(|spec| {
        let mut world = World::new(spec, "node:1 core:2 pu:2", 50);
        let on_3 = world.start(vec![world.pinned(3, 0)])[0];
        world.block(on_3);
        let on_2 = world.start(vec![world.pinned(2, 0)])[0];
        world.run_until(1);
        let from_3 = world.start(vec![world.pinned(3, 0)])[0];
        world.wake(0, on_3, false);
        assert_eq!((world.cpu_of(from_3), world.cpu_of(on_3)), (None, Some(3)), "{spec}");
        world.kernel.set_affinity(CpuId(0), from_3, &only(&[2, 3])).unwrap();
        world.settle();
        world.run_until(MS);
        let own = world.start(vec![world.pinned(2, 0)])[0];
        world.block(on_2);
        assert!([own, from_3].contains(&world.running(2)), "{spec}");
        world.running(2) == from_3
    });
    assert_eq!(siblings_first, ["0.357", "0.360", "0.362", "0.467", "0.467-interactive"]);
}

/// SMT-nice: beside a hog of nice -20 a task of nice 19 has a quarter of its sibling's time, or all of it.
#[test]
fn smt_nice_leaves_light_tasks_a_quarter() {
    let light = presets(|spec| {
        let mut world = World::new(spec, "node:1 core:2 pu:2", 1000);
        let tasks = world.start(vec![world.pinned(2, -20), world.pinned(3, 19)]);
        world.run_ms(4_000);
        let ran = world.ran_ms(tasks[1]);
        assert!((800..1_200).contains(&ran) || ran > 3_990, "{spec}: {ran}");
        assert!(world.ran_ms(tasks[0]) > 3_990, "{spec}");
        ran < 1_200
    });
    assert_eq!(light, ["0.465", "0.466", "0.467", "0.467-interactive", "gc"]);
}

/// Whether a CPU may idle beside a light task.
fn smt(preset: &str) -> bool {
    ["0.465", "0.466", "0.467", "0.467-interactive", "gc"].contains(&preset)
}

/// No preset leaves a CPU idle beside a task that may run there, but for SMT-nice; none makes tasks wait for ever.
#[test]
fn every_preset_runs_everybody() {
    for preset in PRESETS {
        for shape in ["node:1 core:1 pu:1", "node:2 core:1 pu:2"] {
            let mut world = World::new(&format!("bfs@{preset}"), shape, 250);
            let count = world.cpus() as usize * 2 + 1;
            let mut attributes = vec![world.attributes(); count];
            for (index, one) in attributes.iter_mut().enumerate() {
                one.nice = [0, 5, -5, 19][index % 4];
            }
            let tasks = world.start(attributes);
            assert!((0..world.cpus()).all(|cpu| smt(preset) || world.running(cpu) != TaskId::NONE), "{preset} {shape}");
            world.run_ms(10_000);
            for task in tasks {
                assert!(world.ran_ms(task) > 100, "{preset} on {shape}: {task} ran {} ms", world.ran_ms(task));
            }
        }
    }
}
