// SPDX-License-Identifier: GPL-2.0-only
//! `policies/cfs`: when CPUs look at their domains, what they see there, and what they take (theory 6, "balance.bpf.h").

use crate::cfs::PRESETS;
use crate::cfs_cpus::{bound, occupy, unbind};
use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

/// Machines of two CPUs, one domain each: threads of a core, cores below a cache, caches of a node, nodes.
const CORE: &str = "node:1 core:1 pu:2";
const CACHE: &str = "node:1 core:2 pu:1";
const NODE: &str = "node:1 l3:2 core:1 pu:1";
const MACHINE: &str = "node:2 core:1 pu:1";

/// Tasks are never hot, and turns so long that nobody's ends meanwhile.
const COLD: &str = "migration_cost_us=0,latency_us=1000000";

/// The task may run on these CPUs from now on.
fn allow(world: &mut World, task: TaskId, cpus: &[u32]) {
    world.kernel.set_affinity(CpuId(0), task, &only(cpus)).unwrap();
    world.settle();
}

/// The CPU on which the task runs, or in whose queue it waits: the kernel counts it there only when it runs.
fn where_is(world: &World, task: TaskId) -> u32 {
    world.cpu_of(task).unwrap_or_else(|| world.last_queued(task).dsq as u32)
}

fn bound_with(world: &mut World, cpu: u32, nice: i8) -> TaskId {
    let attributes = world.pinned(cpu, nice);
    world.spawn(cpu, attributes)
}

/// When CPU 1 looks at its domains, in ms, if each CPU has one task, which goes on: the CPU goes through dispatch then.
fn looks(spec: &str, shape: &str, end_ms: u64) -> Vec<u64> {
    let mut world = World::new(spec, shape, 1000);
    let all: Vec<u32> = (0..world.cpus()).collect();
    let hogs = occupy(&mut world, &all);
    let looks = |ms: &u64| {
        world.told.clear();
        world.run_until(ms * MS);
        assert_eq!(world.running(1), hogs[1]);
        world.told.contains(&CpuId(1))
    };
    (1..=end_ms).filter(looks).collect()
}

/// "balance.bpf.h" 2: how long a busy CPU with nothing to do waits between looks. The first one is at its first tick, and
/// as the CPU has looked when it began to idle, the interval is the longest then: 256 is 64 times 4 ms, 1024 is 32 times
/// 32.
#[test]
fn busy_cpus_look_seldom() {
    for (shape, intervals) in [
        (CORE, [&[128, 128][..], &[128, 128], &[63, 63]]),
        ("node:1 core:4 pu:1", [&[256, 256], &[256, 256], &[127, 127]]),
        // Twelve caches of one CPU.
        ("node:1 l3:12 core:1 pu:1", [&[1024, 1024], &[768, 768], &[383, 383]]),
        // 2.6.36 would look every 16 s, but for the tenth of a second for each CPU.
        (MACHINE, [&[200, 200], &[128, 128], &[63, 63]]),
    ] {
        for (preset, intervals) in PRESETS.into_iter().zip(intervals) {
            let end = 2 + intervals.iter().sum::<u64>();
            let looks = looks(&format!("cfs@{preset}"), shape, end);
            let found: Vec<u64> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!((looks[0], &found[..]), (1, intervals), "{preset} {shape}");
        }
    }
}

/// Two hogs are bound to CPU 0 until `free_ms`, and CPU 1 idles. When one of them has come there, in ms.
fn comes_at(spec: &str, shape: &str, free_ms: u64) -> u64 {
    let mut world = World::new(spec, shape, 1000);
    let hogs = occupy(&mut world, &[0, 0]);
    world.run_ms(free_ms);
    hogs.iter().for_each(|hog| unbind(&mut world, *hog));
    while hogs.iter().all(|hog| where_is(&world, *hog) == 0) {
        assert!(world.now_ns < 2_000 * MS, "nobody comes: {spec} {shape}");
        world.run_ms(1);
    }
    world.now_ns / MS
}

/// "balance.bpf.h" 2, 3: an idle CPU is woken at each tick, and looks as often as its interval says. As there was nothing
/// to take it is the longest.
#[test]
fn idle_cpus_look_often() {
    for (shape, intervals) in [(CORE, [2, 4, 4]), (CACHE, [4, 4, 4]), (NODE, [32, 4, 4]), (MACHINE, [128, 4, 4])] {
        for (preset, interval) in PRESETS.into_iter().zip(intervals) {
            let spec = format!("cfs@{preset},{COLD}");
            let first = comes_at(&spec, shape, 300);
            assert_eq!(comes_at(&spec, shape, first + 1) - first, interval, "{preset} {shape}");
        }
    }
}

/// "balance.bpf.h" 6: how many looks find only hot tasks before one of them is taken, and each comes after the shortest
/// interval. In 6.1 siblings do not mind.
#[test]
fn hot_tasks_go_after_some_failures() {
    for (shape, later) in [(CORE, [1, 2, 0]), (CACHE, [2, 4, 4]), (NODE, [3 * 8, 4, 4]), (MACHINE, [2 * 64, 6, 6])] {
        for (preset, later) in PRESETS.into_iter().zip(later) {
            let hot = format!("cfs@{preset},latency_us=1000000,migration_cost_us=1000000");
            let cold = comes_at(&format!("cfs@{preset},{COLD}"), shape, 300);
            assert_eq!(comes_at(&hot, shape, 300) - cold, later, "{preset} {shape}");
        }
    }
}

/// CPU 0 has a task of nice -20, which may go from `free_ms` on, and one that may not. When the first is on CPU 1, in ms.
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

/// "balance.bpf.h" 7: the running task is pushed at the third look beyond those after which hot ones go.
#[test]
fn running_tasks_are_pushed_after_more_failures() {
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

/// CPU 0 and CPU 1 have a hog each, and CPU 0 gets another one, which may go, so many ticks before CPU 1 looks. Whether it
/// goes.
fn seen_after(spec: &str, shape: &str, look_ms: u64, ticks: u64) -> bool {
    let mut world = World::new(spec, shape, 1000);
    occupy(&mut world, &[0, 1]);
    world.run_until((look_ms - ticks) * MS + MS / 2);
    let late = bound(&mut world, 0);
    unbind(&mut world, late);
    world.run_until(look_ms * MS);
    where_is(&world, late) == 1
}

/// "balance.bpf.h" 4: before 6.1 a busy CPU sees the load of others as it was on average. That counts half of the load of a
/// tick ago, of one with a fourth of which a difference of 1024 goes away in 22 steps that are rounded up, or in 11 by
/// halves.
#[test]
fn busy_cpus_see_loads_late_before_6_1() {
    for (shape, ticks) in [(CORE, [1, 1]), (CACHE, [11, 11]), (NODE, [22, 11]), (MACHINE, [22, 22])] {
        for (preset, ticks) in PRESETS.into_iter().zip(ticks) {
            let spec = format!("cfs@{preset},{COLD}");
            let look = *looks(&spec, shape, 300).iter().find(|ms| **ms > 100).unwrap();
            let found = (1..60).find(|ticks| seen_after(&spec, shape, look, *ticks));
            assert_eq!(found, Some(ticks), "{preset} {shape}");
        }
    }
}

/// The same of a CPU that idles: the load is seen as of the last tick, or on average over two ticks or four. What comes is
/// heavy: nice -10, 9548, goes if the average of what CPU 0 has, with two hogs, is at least as much.
#[test]
fn idle_cpus_see_loads_late_before_6_1() {
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

/// Each CPU has tasks of these nice values, bound to it. The first of CPU 0 is the last that comes, so that it waits, and
/// may go to CPU 1 from 100 ms on. Whether it is there after the next look.
fn goes(preset: &str, cpus: &[&[i8]]) -> bool {
    let shape = format!("node:1 core:{} pu:1", cpus.len());
    let mut world = World::new(&format!("cfs@{preset},{COLD},scaling=2"), &shape, 1000);
    for (cpu, nice) in cpus.iter().enumerate().flat_map(|(cpu, all)| all.iter().map(move |nice| (cpu, nice))).skip(1) {
        bound_with(&mut world, cpu as u32, *nice);
    }
    let task = bound_with(&mut world, 0, cpus[0][0]);
    world.run_ms(100);
    allow(&mut world, task, &[0, 1]);
    let looks = if cpus.len() == 2 { [201, 129, 127] } else { [257, 193, 191] };
    let preset = PRESETS.iter().position(|other| *other == preset).unwrap();
    world.run_until(looks[preset] * MS - 1);
    assert_eq!(where_is(&world, task), 0);
    world.run_until(looks[preset] * MS);
    assert_ne!(world.running(0), task, "who runs cannot go");
    where_is(&world, task) == 1
}

/// "balance.bpf.h" 4, 5: what a busy CPU takes at a look. Weights: 15 (nice 19), 70 (12), 87 (11), 1024 (0), 1277 (-1),
/// 3121 (-5).
#[test]
fn a_look_takes_what_makes_both_more_even() {
    for (cpus, expected) in [
        // Twice as much: half of a task too much is a whole one until 4.1. In 6.1 it weighs too much at the first look.
        (&[&[0, 0][..], &[0]][..], [true, true, false]),
        (&[&[0, 0, 0], &[0, 0]], [true, true, false]),
        // Just what shall move.
        (&[&[0, 0, 0, 0], &[0, 0]], [true, true, true]),
        // 1292 of 1111 is 116 %, of 1094 118 %, of 1039 124 %, of 1024 126 %.
        (&[&[19, -1], &[0, 11]], [false, false, false]),
        (&[&[19, -1], &[0, 12]], [false, true, true]),
        (&[&[19, -1], &[0, 19]], [false, true, true]),
        (&[&[19, -1], &[0]], [true, true, true]),
        // Half of the task is 512: that is how much shall move, and 8 more than that.
        (&[&[0, -5], &[-5]], [true, true, false]),
        (&[&[0, -5], &[-5, 19]], [false, false, false]),
        // The own CPU has as much as all on average.
        (&[&[0, 0, 0], &[0, 0], &[0]], [false, false, false]),
        (&[&[0, 0, 0], &[0], &[0, 0]], [true, true, true]),
        // A third of a task above the average: a whole one until 4.1.
        (&[&[0, 0], &[0], &[0, 0]], [true, true, false]),
    ] {
        for (preset, expected) in PRESETS.into_iter().zip(expected) {
            assert_eq!(goes(preset, cpus), expected, "{preset} {cpus:?}");
        }
    }
}

/// "balance.bpf.h" 5: in 6.1 each failure allows twice the weight. A task of 1024 goes at the second look if 512 shall
/// move, and at the third if it is 258.
#[test]
fn failures_allow_heavier_tasks_in_6_1() {
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

/// "balance.bpf.h" 4: so many of the tasks of CPU 0 an idle CPU takes at once. Of five it is two and a half by weight,
/// which the third still fits; by number it is two.
#[test]
fn an_idle_cpu_takes_half() {
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

/// "balance.bpf.h" 4: a group with as many tasks as CPUs. CPUs 0 to 3 idle; below the other cache one CPU has two tasks,
/// and one idles. In 6.1 the numbers of idle CPUs count.
#[test]
fn a_group_with_idle_cpus_gives_only_in_6_1() {
    for (preset, goes) in PRESETS.into_iter().zip([false, false, true]) {
        let mut world = World::new(&format!("cfs@{preset},{COLD}"), "node:1 l3:2 core:4 pu:1", 1000);
        let hogs = occupy(&mut world, &[4, 4, 5, 6]);
        world.run_ms(100);
        hogs[..2].iter().for_each(|hog| allow(&mut world, *hog, &[0, 1, 2, 3, 4]));
        world.run_ms(400);
        assert_eq!(hogs.iter().any(|hog| where_is(&world, *hog) < 4), goes, "{preset}");
    }
}

/// "balance.bpf.h" 4: a busy CPU takes from a group only if that has more tasks than CPUs. Here CPU 1 idles, but may take
/// nothing.
#[test]
fn a_busy_cpu_leaves_who_has_a_cpu_nearby() {
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

/// "balance.bpf.h" 1: a CPU that becomes idle takes one task, though two other CPUs have too many.
#[test]
fn a_newly_idle_cpu_takes_one() {
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

/// "balance.bpf.h" 4: a CPU becomes idle whose sibling has more weight than the three tasks of the other core. By loads its
/// core has enough; since 4.1 it takes one, as its core has room and the other has not.
#[test]
fn a_newly_idle_cpu_has_room_since_4_1() {
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

/// "balance.bpf.h" 1: an idle time of twice what counts is averaged with those before; a longer one wipes them out.
#[test]
fn a_long_idle_time_wipes_out_short_ones() {
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

/// "balance.bpf.h" 3: a busy CPU that takes a task at a tick goes on with its own, unless the other preempts.
#[test]
fn who_comes_by_a_look_preempts_as_who_wakes() {
    for preset in &PRESETS[..2] {
        let spec = format!("cfs@{preset},{COLD},start_debit=false");
        let look = *looks(&spec, CACHE, 300).iter().find(|ms| **ms > 100).unwrap();
        for slept in [false, true] {
            let mut world = World::new(&spec, CACHE, 1000);
            // Either a task that is first on CPU 0 but not before its time, or one that slept there since the beginning.
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

/// "balance.bpf.h" 7: a task that was stopped to be pushed but may not go goes on without a pick. The one that waits is too
/// heavy for what shall move; the one that runs has had more than it, but its turn is not over.
#[test]
fn who_cannot_be_pushed_goes_on() {
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
        // The fourth look that fails is at 321 ms, and the turn ends at 493.
        world.run_until(480 * MS);
        assert_eq!(world.running(0) == runs, bind);
    }
}

/// "balance.bpf.h" 4: seven tasks beside six are even enough, and nobody goes. The look before had two to move.
#[test]
fn what_is_even_enough_stays() {
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

/// "balance.bpf.h" 1: a CPU that becomes idle takes one task, from the nearest domain that has one, and looks no further.
#[test]
fn a_newly_idle_cpu_takes_one_from_the_nearest() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset},{COLD}"), "node:1 l3:2 core:2 pu:1", 1000);
        let hogs = occupy(&mut world, &[0, 0, 2, 2, 2, 2, 3, 3, 3, 3]);
        let last = bound(&mut world, 1);
        world.run_ms(10);
        hogs.iter().for_each(|hog| unbind(&mut world, *hog));
        let before = world.inserted.len();
        world.block(last);
        // A second one would wait in the CPU's own queue of the kernel.
        let taken: Vec<TaskId> = world.inserted[before..].iter().map(|one| one.task).collect();
        assert_eq!(taken, [world.running(1)], "{preset}");
        assert!(hogs[..2].contains(&taken[0]), "{preset}");
    }
}
