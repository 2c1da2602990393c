// SPDX-License-Identifier: GPL-2.0-only
//! `policies/muqss` on several CPUs: queues, the search over them, placement and preemption (theory 1, 4, 6, 7, 11).

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Names of the queue-sharing levels, in the order of `rqshare`.
pub const SHARES: [&str; 6] = ["none", "smt", "mc", "llc", "smp", "all"];

pub fn spec(share: &str, options: &str) -> String {
    let number = SHARES.iter().position(|name| *name == share).unwrap();
    format!("muqss,rqshare={number},smt_nice=false{options}")
}

/// Point 1 of `muqss.bpf.c`, on 2 nodes with 2 caches each, 2 cores per cache and 2 hardware threads per core.
#[test]
fn rqshare_decides_which_cpus_share_a_queue() {
    for (share, queues) in [("none", 16), ("smt", 8), ("mc", 2), ("llc", 4), ("smp", 2), ("all", 1)] {
        let mut world = World::new(&spec(share, ""), "node:2 l3:2 core:2 pu:2", 50);
        world.start((0..16).rev().map(|cpu| world.pinned(cpu, -20)).collect());
        world.inserted.clear();
        let mut used = BTreeSet::new();
        for cpu in 0..16 {
            let attributes = TaskAttributes { parent: None, ..world.pinned(cpu, 19) };
            let task = world.spawn(cpu, attributes);
            used.insert(world.last_queued(task).dsq);
        }
        assert_eq!(used.len(), queues, "{share}");
    }
}

/// Returns the CPU time of each hog in 3 s, in percent of one CPU. The hogs start one after another, so that their
/// slices do not end together.
fn shares(spec: &str, shape: &str, nices: &[i8]) -> Vec<u64> {
    let mut world = World::new(spec, shape, 50);
    let mut hogs = vec![];
    let sleepers = world.start(nices.iter().map(|nice| TaskAttributes { nice: *nice, ..world.attributes() }).collect());
    sleepers.iter().rev().for_each(|task| {
        if world.cpu_of(*task).is_some() {
            world.block(*task);
        }
    });
    while let Some(task) = sleepers.iter().find(|task| world.cpu_of(**task).is_some()) {
        world.block(*task);
    }
    for task in sleepers {
        world.run_until(world.now_ns + 700_001);
        world.wake(0, task, false);
        hogs.push(task);
    }
    let before: Vec<u64> = hogs.iter().map(|hog| world.ran_ns.get(hog.0 as usize).copied().unwrap_or(0)).collect();
    world.run_ms(3_000);
    hogs.iter().zip(before).map(|(hog, before)| (world.ran_ns[hog.0 as usize] - before) / (30 * MS)).collect()
}

/// Point 4 of `muqss.bpf.c`: with `interactive`, hogs share all CPUs, whatever the queues. Without it, a CPU runs the
/// hogs of its own queue unless another queue is longer.
#[test]
fn tunable_interactive_makes_hogs_share_all_cpus() {
    for (cpus, hogs, all, most, least) in [(2, 3, 66, 99, 49), (4, 5, 79, 99, 49)] {
        let shape = format!("node:1 core:{cpus} pu:1");
        for share in ["none", "mc"] {
            let equal = shares(&spec(share, ""), &shape, &vec![0; hogs]);
            assert!(equal.iter().all(|ran| ran.abs_diff(all) <= 2), "{share} {equal:?}");
        }
        let mut apart = shares(&spec("none", ",interactive=false"), &shape, &vec![0; hogs]);
        apart.sort_unstable();
        let two: Vec<bool> = apart.iter().map(|ran| ran.abs_diff(least) <= 2).collect();
        assert_eq!(two.iter().filter(|half| **half).count(), 2, "{apart:?}");
        assert!(apart[2..].iter().all(|ran| ran.abs_diff(most) <= 2), "{apart:?}");
        let shared = shares(&spec("mc", ",interactive=false"), &shape, &vec![0; hogs]);
        assert!(shared.iter().all(|ran| ran.abs_diff(all) <= 2), "{shared:?}");
    }
}

/// 4 hogs of nice 0 and 4 of nice 5 on 4 CPUs: 80 % and 20 % of a CPU each.
#[test]
fn tasks_in_different_queues_get_cpu_time_by_nice_value() {
    for share in ["none", "mc"] {
        let ran = shares(&spec(share, ""), "node:1 core:4 pu:1", &[0, 0, 0, 0, 5, 5, 5, 5]);
        assert!(ran[..4].iter().all(|ran| ran.abs_diff(80) <= 3), "{share} {ran:?}");
        assert!(ran[4..].iter().all(|ran| ran.abs_diff(20) <= 3), "{share} {ran:?}");
    }
}

pub const SHAPES: [&str; 5] = [
    "node:1 core:4 pu:1",
    "node:1 core:2 pu:2",
    "node:2 core:3 pu:2",
    "node:1 l3:3 core:2 pu:2",
    "node:2 l3:2 core:2 pu:2",
];

/// Point 6 of `muqss.bpf.c` in the simplest form: the rank of `cpu` (lower is better) for a task that last ran on
/// `last`.
fn rank(world: &World, last: u32, cpu: u32) -> u32 {
    let place = |cpu: u32| world.machine.topology.place(CpuId(cpu));
    let busy = |shares: &dyn Fn(u32) -> bool| {
        (0..world.cpus()).any(|other| shares(other) && world.running(other) != TaskId::NONE)
    };
    if cpu == last {
        return 0;
    }
    let mut rank = 0;
    if place(cpu).node != place(last).node {
        rank += 128;
    } else if place(cpu).llc != place(last).llc {
        rank += 8;
    } else if place(cpu).core != place(last).core {
        rank += 4;
    } else {
        rank += 2;
    }
    if busy(&|other| place(other).llc == place(cpu).llc) {
        rank += 16;
    }
    if (0..world.cpus()).all(|other| other == cpu || place(other).core != place(cpu).core) {
        rank += 1;
    } else if busy(&|other| place(other).core == place(cpu).core) {
        rank += 64;
    }
    rank
}

/// Returns a machine with a sleeping task that last ran on `last` and may use `allowed`, and hogs pinned to the
/// `busy` CPUs.
pub fn asleep(spec: &str, shape: &str, last: u32, allowed: &[u32], busy: &[u32]) -> (World, TaskId) {
    let mut world = World::new(spec, shape, 1000);
    let task = world.start(vec![world.pinned(last, 0)])[0];
    world.block(task);
    world.kernel.set_affinity(CpuId(0), task, &only(allowed)).unwrap();
    world.settle();
    let mut busy = busy.to_vec();
    // CPU 0 creates the tasks, so it must become busy last.
    busy.sort_by_key(|cpu| std::cmp::Reverse(*cpu));
    world.start(busy.iter().map(|cpu| world.pinned(*cpu, -20)).collect());
    (world, task)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Point 6 of `muqss.bpf.c` on random machines with random busy CPUs, affinities and last CPUs.
    #[test]
    fn chosen_idle_cpu_has_the_lowest_rank(
        shape in 0..SHAPES.len(), share in 0..6usize, busy in any::<u16>(), allowed in 1..u16::MAX, last in 0..16u32,
    ) {
        let cpus = World::new("muqss", SHAPES[shape], 1000).cpus();
        let last = last % cpus;
        let bits = |bits: u16| (0..cpus).filter(move |cpu| bits >> (cpu % 16) & 1 == 1).collect::<Vec<_>>();
        let allowed = bits(allowed);
        prop_assume!(!allowed.is_empty());
        let (mut world, task) = asleep(&spec(SHARES[share], ""), SHAPES[shape], last, &allowed, &bits(busy));
        let idle: Vec<u32> = allowed.iter().copied().filter(|cpu| world.running(*cpu) == TaskId::NONE).collect();
        let best = idle.iter().map(|cpu| rank(&world, last, *cpu)).min();
        let ranks: Vec<u32> = (0..cpus).map(|cpu| rank(&world, last, cpu)).collect();
        world.wake(cpus - 1, task, false);
        let chosen = world.cpu_of(task).filter(|cpu| idle.contains(cpu));
        prop_assert_eq!(chosen.map(|cpu| ranks[cpu as usize]), best, "ranks {:?}, chosen {:?}", ranks, chosen);
    }

    /// Points 1 and 4 of `muqss.bpf.c`: no CPU is idle while a task waits that is allowed to run there, whatever the
    /// events and however queues are shared.
    #[test]
    fn no_cpu_idles_while_an_allowed_task_waits(
        shape in 0..SHAPES.len(), share in 0..6usize, interactive in any::<bool>(),
        events in prop::collection::vec((0..6u8, any::<u32>(), any::<u16>()), 1..60),
    ) {
        let spec = spec(SHARES[share], if interactive { "" } else { ",interactive=false" });
        let mut world = World::new(&spec, SHAPES[shape], 250);
        let mut tasks: Vec<(TaskId, Vec<u32>, bool)> = vec![];
        for (what, number, bits) in events {
            let cpu = number % world.cpus();
            let mut allowed: Vec<u32> = (0..world.cpus()).filter(|cpu| bits >> (cpu % 16) & 1 == 1).collect();
            if allowed.is_empty() {
                allowed.push(cpu);
            }
            if !interactive {
                // Without `interactive` a CPU considers only the first task of another queue, so every task must be
                // allowed everywhere.
                allowed = (0..world.cpus()).collect();
            }
            let index = number as usize % tasks.len().max(1);
            match what {
                0 | 1 => {
                    let nice = (number % 40) as i8 - 20;
                    let policy = [Policy::Other, Policy::Batch, Policy::Idle][bits as usize % 3];
                    let set = only(&allowed);
                    let task = world.spawn(cpu, TaskAttributes { nice, policy, allowed: set, ..world.attributes() });
                    tasks.push((task, allowed, true));
                }
                2 if !tasks.is_empty() && world.cpu_of(tasks[index].0).is_some() => {
                    world.block(tasks[index].0);
                    tasks[index].2 = false;
                }
                3 if !tasks.is_empty() => {
                    world.wake(cpu, tasks[index].0, bits % 2 == 0);
                    tasks[index].2 = true;
                }
                4 if !tasks.is_empty() => {
                    world.kernel.set_affinity(CpuId(cpu), tasks[index].0, &only(&allowed)).unwrap();
                    world.settle();
                    tasks[index].1 = allowed;
                }
                _ => world.run_ms(u64::from(bits % 20)),
            }
            for (task, allowed, runnable) in &tasks {
                if *runnable && world.cpu_of(*task).is_none() {
                    let idle = allowed.iter().find(|cpu| world.running(**cpu) == TaskId::NONE);
                    prop_assert_eq!(idle, None, "{} waits", task);
                }
            }
        }
    }
}

/// Point 6 of `muqss.bpf.c`: the last CPU and another of its cache are busy. An idle core of an idle cache (rank 8)
/// beats an idle core of the busy cache (4 + 16). BFS ranks them the other way round.
#[test]
fn idle_core_of_an_idle_cache_beats_one_of_a_busy_cache() {
    for (name, expected) in [("muqss", 4), ("bfs", 2)] {
        let (mut world, task) = asleep(name, "node:1 l3:2 core:4 pu:1", 0, &[0, 1, 2, 3, 4, 5, 6, 7], &[0, 1]);
        world.wake(0, task, false);
        assert_eq!(world.cpu_of(task), Some(expected), "{name}");
    }
}

/// Point 6 of `muqss.bpf.c`: an idle last CPU is always chosen. Its SMT sibling ranks after all idle cores of the
/// node and before other nodes.
#[test]
fn idle_last_cpu_is_chosen_beside_a_busy_sibling() {
    let all: Vec<u32> = (0..8).collect();
    for (busy, expected) in [(&[1][..], 0), (&[0], 2), (&[0, 2, 3], 1), (&[0, 1, 2, 3], 4)] {
        let (mut world, task) = asleep(&spec("mc", ""), "node:2 core:2 pu:2", 0, &all, busy);
        world.wake(7, task, false);
        assert_eq!(world.cpu_of(task), Some(expected), "{busy:?}");
    }
}

/// Point 6 of `muqss.bpf.c`: among equal ranks the CPU that went idle last wins, whichever hardware thread of its
/// core it is. After 255 ticks the idle times count as equal.
#[test]
fn most_recently_idle_cpu_wins_among_equal_ranks() {
    for (shape, last, busy) in [("node:1 core:4 pu:1", 0, vec![]), ("node:1 core:4 pu:2", 6, vec![7])] {
        for order in [[1, 2, 3], [2, 3, 1], [3, 2, 1], [1, 3, 2]] {
            for (ticks, expected) in [(1, order[2]), (254, order[2]), (255, 1)] {
                let idle = if busy.is_empty() { vec![1, 2, 3] } else { vec![0, 1, 2, 3, 4, 5] };
                let hogs = [&idle[..], &busy[..]].concat();
                let (mut world, task) = asleep(&spec("mc", ""), shape, last, &[1, 2, 3, last], &hogs);
                for cpu in idle.iter().filter(|cpu| !order.contains(cpu)).chain(&order) {
                    world.run_until((world.now_ns / MS + 2) * MS);
                    world.block(world.running(*cpu));
                }
                world.run_until((world.now_ns / MS + ticks) * MS);
                if world.running(0) == TaskId::NONE {
                    world.start(vec![world.pinned(last, -20)]);
                }
                world.wake(0, task, false);
                assert_eq!(world.cpu_of(task), Some(expected), "{shape} {order:?} {ticks}");
            }
        }
    }
}

/// Point 6 of `muqss.bpf.c`: with no idle CPU, the task is queued on the CPU with the fewest tasks, the nearest among
/// equals.
#[test]
fn task_is_queued_on_the_cpu_with_the_fewest_tasks() {
    for (hogs, last, expected) in [
        (&[0, 0, 1, 1, 2, 3, 3][..], 0, 2),
        (&[0, 1, 2, 3], 1, 1),
        (&[0, 0, 1, 2, 3], 0, 1),
        (&[0, 1, 2, 3, 3], 3, 2),
        (&[0, 0, 1, 1, 2, 2, 3, 3], 0, 0),
        (&[0, 0, 0, 1, 1, 2, 2, 3, 3], 0, 1),
    ] {
        let (mut world, task) = asleep(&spec("none", ""), "node:1 l3:2 core:2 pu:1", last, &[0, 1, 2, 3], hogs);
        world.kernel.set_policy(CpuId(0), task, Policy::Batch, 19).unwrap();
        world.settle();
        world.wake(0, task, false);
        assert_eq!(world.cpu_of(task), None);
        assert_eq!(world.kernel.task_cpu(task).0, expected, "{hogs:?} {last}");
    }
}

/// Point 7 of `muqss.bpf.c`: the nearest CPU with a later deadline is preempted, not the one with the latest
/// deadline.
#[test]
fn nearest_later_deadline_is_preempted() {
    for (nices, last, sync, expected) in [
        ([5, 1, 19, 10], 0, false, Some(0)),
        ([-20, 1, 19, 10], 0, false, Some(1)),
        ([-20, -20, 5, 19], 0, false, Some(2)),
        ([-20, -20, 5, 19], 3, false, Some(3)),
        ([-20, -20, -20, -20], 0, false, None),
        // CPUs of the lower half of the machine search upwards, those of the upper half downwards.
        ([-20, -20, 5, 5], 0, false, Some(2)),
        ([5, 5, -20, -20], 3, false, Some(1)),
        // Of a sync wakeup: a task that last ran on the waker's CPU preempts nobody, but one that ran elsewhere does.
        ([5, 1, 19, 10], 0, true, None),
        ([5, 1, 19, 10], 2, true, Some(2)),
    ] {
        for share in ["none", "llc", "all"] {
            let mut world = World::new(&spec(share, ""), "node:1 l3:2 core:2 pu:1", 50);
            let task = world.start(vec![world.pinned(last, 0)])[0];
            world.block(task);
            world.kernel.set_affinity(CpuId(0), task, &only(&[0, 1, 2, 3])).unwrap();
            world.settle();
            world.start((0..4).rev().map(|cpu| world.pinned(cpu, nices[cpu as usize])).collect());
            world.rescheduled.clear();
            world.wake(0, task, sync);
            assert_eq!(world.cpu_of(task), expected, "{nices:?} {last} {sync} {share}");
            assert_eq!(world.rescheduled.len(), usize::from(expected.is_some()), "at most one CPU is rescheduled");
        }
    }
}

/// Point 7 of `muqss.bpf.c`: without `interactive`, another CPU is preempted only if it has more tasks than the one
/// the task is placed on.
#[test]
fn without_interactive_only_cpus_with_more_tasks_are_preempted() {
    for (interactive, more, preempts) in [(true, 0, true), (false, 0, false), (false, 2, true)] {
        let mut world = World::new(&spec("none", &format!(",interactive={interactive}")), "node:1 core:2 pu:1", 50);
        let task = world.start(vec![world.pinned(0, 0)])[0];
        world.block(task);
        world.kernel.set_affinity(CpuId(0), task, &only(&[0, 1])).unwrap();
        world.settle();
        let mut hogs = vec![world.pinned(1, 19); 1 + more];
        hogs.push(world.pinned(0, -20));
        world.start(hogs);
        world.rescheduled.clear();
        world.wake(0, task, false);
        assert_eq!(world.rescheduled.contains(&CpuId(1)), preempts, "{interactive} {more}");
        // The preempted CPU looks into its own queue, which is the longer one.
        assert_eq!(world.cpu_of(task) == Some(1), interactive, "{interactive} {more}");
    }
}

/// Point 4 of `muqss.bpf.c`: a CPU that becomes free takes the earliest deadline of all queues, the nearest among
/// equals.
#[test]
fn free_cpu_takes_the_earliest_deadline_of_all_queues() {
    for (share, nices, expected) in [
        ("none", [10, 5, 0, 1], 2),
        ("none", [0, 0, 0, 0], 0),
        ("none", [1, 0, 0, 0], 1),
        ("llc", [5, 10, 0, 1], 2),
        ("llc", [10, 5, 5, 5], 1),
        ("all", [10, 5, 0, 1], 2),
    ] {
        let mut world = World::new(&spec(share, ""), "node:1 l3:2 core:2 pu:1", 50);
        // One queued task per CPU; SCHED_BATCH tasks wait without preempting first.
        let waiting: Vec<TaskId> = (0..4)
            .map(|cpu| {
                let policy = Policy::Batch;
                let task = world.start(vec![TaskAttributes { policy, ..world.pinned(cpu, nices[cpu as usize]) }])[0];
                world.block(task);
                task
            })
            .collect();
        let hogs = world.start([1, 2, 3, 0].map(|cpu| world.pinned(cpu, -20)).to_vec());
        for task in &waiting {
            world.wake(0, *task, false);
            assert_eq!(world.cpu_of(*task), None);
        }
        for task in &waiting {
            world.kernel.set_affinity(CpuId(0), *task, &only(&[0, 1, 2, 3])).unwrap();
            world.settle();
        }
        world.block(hogs[3]);
        assert_eq!(world.running(0), waiting[expected], "{share} {nices:?}");
    }
}

/// Point 4 of `muqss.bpf.c`: the previous task competes behind equal deadlines, also with one queue per CPU.
#[test]
fn yielding_task_runs_after_equal_deadlines() {
    for share in ["none", "all"] {
        let mut world = World::new(&spec(share, ""), "node:1 core:2 pu:1", 50);
        let tasks = world.start(vec![world.pinned(1, 0); 2]);
        assert_eq!(world.running(1), tasks[0], "{share}");
        world.leave(1, Leave::Yield);
        assert_eq!(world.running(1), tasks[1], "{share}");
    }
}

/// Point 11 of `muqss.bpf.c`: a light task does not run beside a heavy one on the same core; without SMT-nice it
/// does.
#[test]
fn smt_nice_keeps_a_light_task_from_running_beside_a_heavy_one() {
    for (smt_nice, nice, runs) in [(true, 19, false), (false, 19, true), (true, 0, true)] {
        let mut world = World::new(&format!("muqss,smt_nice={smt_nice}"), "node:1 core:1 pu:2", 50);
        let tasks = world.start(vec![world.pinned(1, 0), world.pinned(0, nice)]);
        assert_eq!(world.cpu_of(tasks[0]), Some(1));
        assert_eq!(world.cpu_of(tasks[1]).is_some(), runs, "{smt_nice} {nice}");
        world.block(tasks[0]);
        assert_eq!(world.cpu_of(tasks[1]), Some(0));
        // The heavy task wakes while the light one runs: the light one must stop.
        world.rescheduled.clear();
        world.wake(0, tasks[0], false);
        assert_eq!(world.cpu_of(tasks[0]), Some(1));
        assert_eq!(world.cpu_of(tasks[1]).is_some(), runs, "{smt_nice} {nice}");
        // The light task wakes beside the running heavy one.
        let mut world = World::new(&format!("muqss,smt_nice={smt_nice}"), "node:1 core:1 pu:2", 50);
        let light = world.start(vec![world.pinned(1, nice)])[0];
        world.block(light);
        let heavy = world.start(vec![world.pinned(0, 0)])[0];
        world.wake(0, light, false);
        assert_eq!((world.cpu_of(heavy), world.cpu_of(light).is_some()), (Some(0), runs), "{smt_nice} {nice}");
        world.block(heavy);
        assert_eq!(world.cpu_of(light), Some(1));
    }
}

/// A CPU goes offline while tasks are running and queued there, and comes back.
#[test]
fn tasks_of_an_offlined_cpu_run_elsewhere() {
    for share in SHARES {
        let mut world = World::new(&spec(share, ""), "node:1 core:2 pu:2", 250);
        // The last two tasks are pinned to CPU 3, so no other CPU can run them.
        let mut all = vec![world.attributes(); 10];
        all.extend(vec![world.pinned(3, 19); 2]);
        let tasks = world.start(all);
        world.run_ms(100);
        world.offline(3);
        let before = world.ran_ns.clone();
        world.run_ms(1_000);
        for task in &tasks[..10] {
            let ran = (world.ran_ns[task.0 as usize] - before[task.0 as usize]) / MS;
            assert!(ran.abs_diff(300) < 40, "{share}: {ran}");
        }
        world.online(3);
        world.run_ms(100);
        assert_ne!(world.running(3), TaskId::NONE, "{share}");
    }
}

/// Point 6 of `muqss.bpf.c`: a task counts on the CPU it is queued or running on, and nowhere while it sleeps.
#[test]
fn task_counts_on_the_cpu_it_is_queued_or_running_on() {
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        let mut world = World::new(&spec("none", ""), "node:1 core:4 pu:1", 50);
        let batch = |cpu| TaskAttributes { policy: Policy::Batch, ..world.pinned(cpu, 19) };
        let tasks = [batch(from), batch(to), batch(from), batch(from)].map(|one| {
            let task = world.start(vec![one])[0];
            world.block(task);
            task
        });
        let [moves, looks, ..] = tasks;
        let mut hogs = world.start((0..4).rev().map(|cpu| world.pinned(cpu, -20)).collect());
        hogs.reverse();
        // The task is queued on one CPU, and another one takes it while that one's hog sleeps.
        world.wake(0, moves, false);
        world.kernel.set_affinity(CpuId(0), moves, &only(&[from, to])).unwrap();
        world.settle();
        world.block(hogs[to as usize]);
        assert_eq!(world.running(to), moves);
        world.wake(0, hogs[to as usize], false);
        assert_eq!(world.running(to), hogs[to as usize]);
        // So CPU `to` has two tasks and CPU `from` one: sleeping tasks do not count.
        world.kernel.set_affinity(CpuId(0), looks, &only(&[from, to])).unwrap();
        world.settle();
        world.wake(0, looks, false);
        assert_eq!((world.cpu_of(looks), world.kernel.task_cpu(looks)), (None, CpuId(from)), "to {to}");
    }
}

/// Point 8 of `muqss.bpf.c`: with no idle CPU, a child is queued on its parent's CPU, however many tasks that has.
#[test]
fn forked_child_is_queued_on_its_parents_cpu() {
    for parent_at in [0, 1] {
        let mut world = World::new(&spec("none", ""), "node:1 core:2 pu:1", 50);
        let hogs = world.start(vec![world.pinned(1, 0), world.pinned(1, 19), world.pinned(0, 0)]);
        let parent = world.running(parent_at);
        assert!(hogs.contains(&parent));
        let child = world.spawn(parent_at, TaskAttributes { parent: Some(parent), thread: true, ..world.attributes() });
        assert_eq!((world.cpu_of(child), world.kernel.task_cpu(child)), (None, CpuId(parent_at)));
        assert_eq!(world.last_queued(child).dsq, 0x10000 + u64::from(parent_at));
    }
}

/// Point 6 of `muqss.bpf.c`: a core without SMT ranks after a wholly idle SMT core of the same cache (by 1), and
/// before cores of another cache.
#[test]
fn idle_smt_core_beats_a_core_without_smt() {
    for (busy, expected) in [(&[0, 1][..], 2), (&[0, 1, 2], 4), (&[0, 1, 2, 3], 4), (&[0, 1, 2, 4, 5], 3)] {
        let mut machine = machine_model::Machine::from_synthetic("node:1 core:6 pu:1").unwrap();
        // Two cores with two hardware threads and two with one.
        for (place, core) in machine.topology.places.iter_mut().zip([0, 0, 1, 1, 2, 3]) {
            place.core = core;
        }
        let mut world = World::on(&spec("mc", ""), machine, (7, 2));
        let task = world.start(vec![world.pinned(0, 0)])[0];
        world.block(task);
        // One of the cores without SMT is the last one that went idle. That must only matter between cores of equal
        // rank.
        let small = world.start(vec![world.pinned(4, 0)])[0];
        world.run_ms(20);
        world.block(small);
        world.kernel.set_affinity(CpuId(0), task, &only(&[0, 1, 2, 3, 4, 5])).unwrap();
        world.settle();
        world.start(busy.iter().rev().map(|cpu| world.pinned(*cpu, -20)).collect());
        world.wake(0, task, false);
        assert_eq!(world.cpu_of(task), Some(expected), "{busy:?}");
    }
}

/// Point 6 of `muqss.bpf.c` on the largest machine: the time since a CPU went idle counts, not the CPU's number.
#[test]
fn most_recently_idle_cpu_wins_on_4096_cpus() {
    let mut world = World::new(&spec("mc", ""), "node:1 core:4096 pu:1", 250);
    let task = world.start(vec![world.pinned(9, 0)])[0];
    world.block(task);
    let others = world.start(vec![world.pinned(9, -20), world.pinned(2058, 0), world.pinned(5, 0)]);
    world.run_ms(8);
    world.block(others[2]);
    world.run_ms(4);
    world.block(others[1]);
    world.run_ms(8);
    world.kernel.set_affinity(CpuId(0), task, &only(&[5, 9, 2058])).unwrap();
    world.settle();
    world.wake(0, task, false);
    assert_eq!(world.cpu_of(task), Some(2058));
}
