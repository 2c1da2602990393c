// SPDX-License-Identifier: GPL-2.0-only
//! Presets of `policies/bfs`: the differences that their announcements and sources describe (theory 6, 10, 11), as
//! discrete outcomes: the chosen CPU, the next task, the task that stays.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

const PRESETS: [&str; 10] =
    ["0.357", "0.360", "0.362", "0.41x", "0.440", "0.465", "0.466", "0.467", "0.467-interactive", "gc"];

/// Returns the presets for which `holds` is true.
fn presets(mut holds: impl FnMut(&str) -> bool) -> Vec<&'static str> {
    PRESETS.into_iter().filter(|preset| holds(&format!("bfs@{preset}"))).collect()
}

/// Returns the CPU that a woken task goes to. It last ran on `last` and may use all CPUs except `forbidden`; the
/// `busy` CPUs are running tasks.
fn wakes_to(spec: &str, shape: &str, last: u32, forbidden: &[u32], busy: &[u32]) -> u32 {
    let mut world = World::new(spec, shape, 50);
    let task = world.start(vec![world.pinned(last, 0)])[0];
    world.block(task);
    let allowed: Vec<u32> = (0..world.cpus()).filter(|cpu| !forbidden.contains(cpu)).collect();
    world.kernel.set_affinity(CpuId(0), task, &only(&allowed)).unwrap();
    world.settle();
    let mut hogs = busy.to_vec();
    // CPU 0 creates the tasks, so it must become busy last.
    hogs.sort_by_key(|cpu| std::cmp::Reverse(*cpu));
    world.start(hogs.iter().map(|cpu| world.pinned(*cpu, 0)).collect());
    world.wake(world.cpus() - 1, task, false);
    world.cpu_of(task).expect("some CPU idles")
}

/// The laptop of the announcement of December 2010: 2 cores with 2 hardware threads each. If its last CPU is not
/// allowed, a task goes to the SMT sibling since 0.360. Before, all four CPUs ranked equal and the next number won.
#[test]
fn before_0_360_all_cpus_of_a_cache_rank_equal() {
    let shape = "node:1 core:2 pu:2";
    assert_eq!(presets(|spec| wakes_to(spec, shape, 1, &[1], &[]) == 2), ["0.357"]);
    assert_eq!(presets(|spec| wakes_to(spec, shape, 1, &[1], &[]) == 0).len(), 9);
    assert!(PRESETS.iter().all(|preset| wakes_to(&format!("bfs@{preset}"), shape, 3, &[], &[]) == 3));
}

/// The last CPU is idle but its SMT sibling is busy, and another core is idle as a whole: up to 0.362 the task moves
/// to that core.
#[test]
fn since_0_41x_a_task_stays_on_its_last_cpu_beside_a_busy_sibling() {
    let moves = presets(|spec| wakes_to(spec, "node:1 core:2 pu:2", 0, &[], &[1]) != 0);
    assert_eq!(moves, ["0.357", "0.360", "0.362"]);
}

/// The last CPU is busy; its SMT sibling and another core of the same cache are idle: -gc takes the nearest CPU,
/// whatever the siblings do.
#[test]
fn gc_takes_the_nearest_idle_cpu_despite_a_busy_sibling() {
    let nearest = presets(|spec| wakes_to(spec, "node:1 core:2 pu:2", 2, &[], &[2]) == 3);
    assert_eq!(nearest, ["gc"]);
}

/// 0.357: a CPU of another cache counts as near if this task was the last one to run there.
#[test]
fn before_0_360_a_cpu_counts_as_near_for_the_last_task_that_ran_there() {
    let back = presets(|spec| {
        let mut world = World::new(spec, "node:1 l3:2 core:2 pu:1", 50);
        // The task ran on CPU 3 and then on CPU 1. CPU 1 and the other CPU of its cache are busy now.
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

/// Why the far task of [`takes_from`] is waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    AfterSleep,
    Displaced,
    DisplacedByRealTime,
}

/// Returns whether CPU `near` picks a task that last ran on CPU `far` of the other node, rather than a task pinned to
/// `near` that was queued `later_ns` later.
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

/// As [`takes_from`] on CPU 1, for a task from CPU 3.
fn takes_the_far_task(spec: &str, later_ns: u64, waits: Waits) -> bool {
    takes_from(spec, [1, 3], later_ns, waits)
}

/// 0.360 intends to double or quadruple deadlines of far tasks, but adds only 5089 * 12 / 128 << 2 = 1,908 ns.
#[test]
fn locality_bias_of_0_360_shifts_deadlines_by_less_than_two_microseconds() {
    for preset in ["0.357", "0.360", "0.362"] {
        let spec = format!("bfs@{preset}");
        for cpus in [[1, 3], [3, 1]] {
            assert!(!takes_from(&spec, cpus, 1_907, Waits::AfterSleep), "{preset}");
            assert!(takes_from(&spec, cpus, 1_909, Waits::AfterSleep), "{preset}");
        }
    }
}

/// 0.360 subtracts its bias from the deadline of a preemption victim, too: 5089 * 9 / 128 << 1 = 714 ns between two
/// caches of a node, << 2 = 1,428 ns between nodes. The woken task last ran on CPU 1, so the deadline there counts
/// unchanged; the task on CPU 0 was queued `later_ns` later.
#[test]
fn locality_bias_of_0_360_applies_to_preemption_victims() {
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
            world.rescheduled.clear();
            world.wake(0, woken, false);
            let refused = world.cpu_of(woken).is_none();
            let far_and_strict = spec.starts_with("bfs@0.466") || spec == "bfs@0.467";
            assert_eq!(
                refused,
                far_and_strict && world.rescheduled[0] == CpuId(0),
                "{spec}: the victim CPU may pick a nearer task instead"
            );
            world.rescheduled[0] == CpuId(0)
        };
        assert_eq!(presets(|spec| !takes_0(spec, 1)), PRESETS[..3], "{shape}");
        for preset in &PRESETS[..3] {
            let spec = format!("bfs@{preset}");
            assert!(!takes_0(&spec, bias_ns - 1) && takes_0(&spec, bias_ns), "{preset} {shape}");
        }
    }
}

/// 0.41x: a sticky task counts as 250.1 ms later, the longest deadline distance.
#[test]
fn sticky_task_of_0_41x_counts_as_250_ms_later() {
    assert!(takes_the_far_task("bfs@0.41x", 1, Waits::AfterSleep), "it slept, so it is not sticky");
    assert!(!takes_the_far_task("bfs@0.41x", 250 * MS, Waits::Displaced));
    assert!(takes_the_far_task("bfs@0.41x", 251 * MS, Waits::Displaced));
}

/// Each CPU has one sticky task: the next task that is descheduled while runnable replaces it.
#[test]
fn only_the_last_preempted_task_of_a_cpu_is_sticky() {
    let sticky_ones = |spec: &str, stops_too: bool| {
        let mut world = World::new(spec, "node:2 core:2 pu:1", 50);
        let sleepers = world.start(vec![world.pinned(3, -20)]);
        world.block(sleepers[0]);
        let far = world.start(vec![world.pinned(3, 19)])[0];
        let on_1 = world.start(vec![world.pinned(1, -20)])[0];
        world.wake(0, sleepers[0], false);
        if stops_too {
            // A second task runs on CPU 3 and is preempted as well.
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

/// Presets in which the near task wins though its deadline is 230 ms later: against a sticky task, or against any far
/// task. A task that a real-time task displaced is not sticky.
#[test]
fn locality_outranks_deadlines_in_the_presets_of_the_sources() {
    let near = |waits| presets(|spec| !takes_the_far_task(spec, 230 * MS, waits));
    assert_eq!(near(Waits::AfterSleep), ["0.466", "0.467"]);
    assert_eq!(near(Waits::Displaced), ["0.41x", "0.440", "0.465", "0.466", "0.467", "gc"]);
    assert_eq!(near(Waits::DisplacedByRealTime), ["0.466", "0.467"]);
}

/// 0.467 counts a CPU among its own SMT siblings: a task of the sibling is as near as its own. In 0.466 its own task
/// wins; before that, only if the other one is sticky.
#[test]
fn since_0_467_smt_siblings_are_as_near_as_the_cpu_itself() {
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

/// SMT-nice: beside a nice -20 hog on the SMT sibling, a nice 19 task gets a quarter of the time; without SMT-nice it
/// gets all of it.
#[test]
fn smt_nice_gives_light_tasks_a_quarter_of_the_time() {
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

/// Returns whether the preset has SMT-nice: a CPU may then idle beside a light task.
fn smt(preset: &str) -> bool {
    ["0.465", "0.466", "0.467", "0.467-interactive", "gc"].contains(&preset)
}

/// No preset leaves a CPU idle while a task may run there, except for SMT-nice; none starves a task.
#[test]
fn every_preset_runs_all_tasks_and_wastes_no_cpu() {
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
