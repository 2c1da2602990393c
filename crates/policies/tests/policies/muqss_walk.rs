// SPDX-License-Identifier: GPL-2.0-only
//! `policies/muqss`: the order in which CPUs and queues are searched, and the task a CPU takes (theory 4, 7, and the
//! theory of `queues.bpf.h`), against a simple oracle and case by case.

use crate::muqss_cpus::{SHAPES, SHARES, asleep, spec};
use crate::world::{MS, World, only};
use event_log::BlockCause;
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, Operation, TaskAttributes};
use proptest::prelude::*;

/// Identifier of the first dispatch queue.
const SHARED_DSQ: u64 = 0x10000;

/// Point 2 of `queues.bpf.h`, written literally: all CPUs from near to far, starting at `from`.
fn order(world: &World, from: u32) -> Vec<u32> {
    let place = |cpu: u32| world.machine.topology.place(CpuId(cpu));
    let mut places: Vec<u32> = (0..world.cpus()).collect();
    places.sort_by_key(|cpu| (place(*cpu).node, place(*cpu).llc, place(*cpu).core, *cpu));
    let upwards = places.iter().position(|cpu| *cpu == from).unwrap() < places.len() / 2;
    let mut found = vec![from];
    for depth in 0..4 {
        let is_inside = |cpu: u32| match depth {
            0 => place(cpu).core == place(from).core,
            1 => place(cpu).llc == place(from).llc,
            2 => place(cpu).node == place(from).node,
            _ => true,
        };
        let mut ring: Vec<u32> = places.iter().copied().filter(|cpu| is_inside(*cpu)).collect();
        let own = ring.iter().position(|cpu| *cpu == from).unwrap();
        ring.rotate_left(own);
        if !upwards {
            ring[1..].reverse();
        }
        for cpu in ring {
            if !found.contains(&cpu) {
                found.push(cpu);
            }
        }
    }
    found
}

/// Point 1 of `queues.bpf.h`: returns whether two CPUs share a queue.
fn share(world: &World, share: &str, a: u32, b: u32) -> bool {
    if share == "none" {
        return a == b;
    }
    let (a, b) = (world.machine.topology.place(CpuId(a)), world.machine.topology.place(CpuId(b)));
    match share {
        "smt" => a.core == b.core,
        "llc" => a.llc == b.llc,
        "all" => true,
        _ => a.node == b.node,
    }
}

/// Queues a SCHED_BATCH task, which does not preempt, on `cpu`, and then allows it on the CPUs `allowed` as well.
fn waits_at(world: &mut World, task: TaskId, cpu: u32, allowed: &[u32]) {
    world.wake(0, task, false);
    assert_eq!((world.cpu_of(task), world.kernel.task_cpu(task)), (None, CpuId(cpu)));
    let mut allowed = only(allowed);
    allowed.insert(CpuId(cpu));
    world.kernel.set_affinity(CpuId(0), task, &allowed).unwrap();
    world.settle();
}

/// Creates sleeping SCHED_BATCH tasks, given by CPU and nice value.
fn batch(world: &mut World, tasks: &[(u32, i8)]) -> Vec<TaskId> {
    tasks
        .iter()
        .map(|(cpu, nice)| {
            let task = world.start(vec![TaskAttributes { policy: Policy::Batch, ..world.pinned(*cpu, *nice) }])[0];
            world.block(task);
            task
        })
        .collect()
}

/// Starts a hog of the given nice value on each CPU, the highest CPU first, because CPU 0 creates the tasks.
fn hogs(world: &mut World, nices: impl Fn(u32) -> i8) -> Vec<TaskId> {
    let cpus = world.cpus();
    let mut hogs = world.start((0..cpus).rev().map(|cpu| world.pinned(cpu, nices(cpu))).collect());
    hogs.reverse();
    hogs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Point 7 of `muqss.bpf.c`: with no idle CPU, the first allowed CPU whose task has a later deadline is
    /// preempted, searching from the nearest one.
    #[test]
    fn nearest_allowed_later_deadline_is_preempted(
        shape in 0..SHAPES.len(), share in 0..6usize, nices in prop::collection::vec(0..4usize, 16),
        last in 0..16u32, allowed in 1..u16::MAX,
    ) {
        let mut world = World::new(&spec(SHARES[share], ""), SHAPES[shape], 50);
        let cpus = world.cpus();
        let (last, nice) = (last % cpus, |cpu: u32| [-20, -5, 5, 19][nices[cpu as usize]]);
        let allowed: Vec<u32> = (0..cpus).filter(|cpu| allowed >> cpu & 1 == 1).collect();
        prop_assume!(!allowed.is_empty());
        let task = world.start(vec![world.pinned(last, 0)])[0];
        world.block(task);
        world.kernel.set_affinity(CpuId(0), task, &only(&allowed)).unwrap();
        world.settle();
        hogs(&mut world, nice);
        let target = *order(&world, last).iter().find(|cpu| allowed.contains(cpu)).unwrap();
        let victim = order(&world, target).into_iter().find(|cpu| allowed.contains(cpu) && nice(*cpu) > 0);
        world.rescheduled.clear();
        world.wake(0, task, false);
        prop_assert_eq!(world.cpu_of(task), victim, "from {}", target);
        prop_assert_eq!(&world.rescheduled, &victim.into_iter().map(CpuId).collect::<Vec<_>>());
        prop_assert_eq!(world.kernel.task_cpu(task), CpuId(victim.unwrap_or(target)));
    }

    /// Point 4 of `muqss.bpf.c`: a CPU takes the earliest task of all queues that may run there, of the nearest queue
    /// among equals. The previous task continues if its deadline is earlier, or equal to one of another queue.
    #[test]
    fn cpu_takes_the_earliest_allowed_task_of_all_queues(
        shape in 0..SHAPES.len(), share_by in 0..6usize, cpu in 0..16u32, own in prop::option::of(0..4usize),
        waiting in prop::collection::vec((0..16u32, 0..4usize, any::<bool>()), 1..8),
    ) {
        let mut world = World::new(&spec(SHARES[share_by], ""), SHAPES[shape], 50);
        let (cpus, levels) = (world.cpus(), [-10, -5, 0, 5]);
        let cpu = cpu % cpus;
        let waiting: Vec<(u32, i8, bool)> = waiting.into_iter().map(|(at, nice, may)| (at % cpus, levels[nice], may)).collect();
        let tasks = batch(&mut world, &waiting.iter().map(|(at, nice, _)| (*at, *nice)).collect::<Vec<_>>());
        let own = own.map(|nice| levels[nice]);
        let hogs = hogs(&mut world, |other| if other == cpu { own.unwrap_or(-20) } else { -20 });
        for (task, (at, _, may)) in tasks.iter().zip(&waiting) {
            waits_at(&mut world, *task, *at, if *may { &[][..] } else { std::slice::from_ref(at) });
            if *may {
                let mut allowed = only(&[*at]);
                allowed.insert(CpuId(cpu));
                world.kernel.set_affinity(CpuId(0), *task, &allowed).unwrap();
                world.settle();
            }
        }
        let near = order(&world, cpu);
        let first = |at: u32| near.iter().position(|other| share(&world, SHARES[share_by], *other, at)).unwrap();
        let queues: Vec<usize> = (0..cpus).map(first).collect();
        let queue = |at: u32| queues[at as usize];
        let may_run = waiting.iter().filter(|(at, _, may)| *may || *at == cpu);
        let best = may_run.map(|(at, nice, _)| (*nice, queue(*at))).min();
        let best = best.filter(|(nice, queue)| own.is_none_or(|own| *nice < own || *nice == own && *queue == 0));
        match own {
            Some(_) => world.leave(cpu, Leave::Yield),
            None => world.block(hogs[cpu as usize]),
        }
        let runs = tasks.iter().position(|task| *task == world.running(cpu));
        let found = runs.map(|number| (waiting[number].1, queue(waiting[number].0)));
        prop_assert_eq!(found, best, "{:?} on {}, own {:?}", waiting, cpu, own);
    }
}

/// Point 3 of `queues.bpf.h`: a CPU locks its own queue, and of the others those whose first deadline is earlier than
/// the best so far; empty queues are skipped. After a dispatch, the next task's deadline is the first of its queue.
#[test]
fn pick_locks_only_queues_with_an_earlier_deadline() {
    let mut world = World::new(&spec("none", ""), "node:1 core:4 pu:1", 50);
    let tasks = batch(&mut world, &[(2, -10), (2, 10), (3, 5), (1, 0)]);
    let hogs = hogs(&mut world, |_| -20);
    for (task, at) in tasks.iter().zip([2, 2, 3, 1]) {
        waits_at(&mut world, *task, at, &[0, 1, 2, 3]);
    }
    world.kernel.track_locks();
    let picks = |world: &mut World, task: TaskId| {
        world.locked.clear();
        world.block(task);
        let shared = world.locked.drain(..).filter(|queue| (SHARED_DSQ..SHARED_DSQ + 4).contains(queue));
        let mut queues: Vec<u64> = shared.map(|queue| queue - SHARED_DSQ).collect();
        queues.dedup();
        (world.running(1), queues)
    };
    // The own queue has nice 0, that of CPU 2 nice -10, that of CPU 3 nice 5; the last is not searched.
    assert_eq!(picks(&mut world, hogs[1]), (tasks[0], vec![1, 2]));
    // The first task of CPU 2 now has nice 10, so the own queue has the best task and no other is searched.
    assert_eq!(picks(&mut world, tasks[0]), (tasks[3], vec![1]));
    // The queues of CPU 2 and CPU 3 are both searched, because the nearer one has the later deadline.
    assert_eq!(picks(&mut world, tasks[3]), (tasks[2], vec![1, 2, 3]));
    // The queue of CPU 3 is empty now.
    assert_eq!(picks(&mut world, tasks[2]), (tasks[1], vec![1, 2]));
    // No task is queued on any CPU.
    assert_eq!(picks(&mut world, tasks[1]), (TaskId::NONE, vec![1]));
}

/// With a single queue this is BFS: a pick acquires the queue's lock as often.
#[test]
fn single_queue_is_locked_as_often_as_in_bfs() {
    let [bfs, muqss] = ["bfs", &spec("all", "")].map(|spec| {
        let mut world = World::new(spec, "node:1 core:2 pu:1", 50);
        let task = batch(&mut world, &[(1, 0)])[0];
        let hogs = hogs(&mut world, |_| -20);
        world.wake(0, task, false);
        world.kernel.track_locks();
        world.block(hogs[1]);
        assert_eq!(world.running(1), task);
        world.locked.len()
    });
    assert!(muqss > 0 && muqss == bfs, "{muqss} {bfs}");
}

/// Point 4 of `queues.bpf.h`: a CPU that was preempted for a task takes it if it is the best found so far, and ends
/// the search there. This holds for that one pick.
#[test]
fn preempted_cpu_ends_its_search_at_the_preempting_task() {
    let mut world = World::new(&spec("none", ""), "node:1 core:4 pu:1", 50);
    let woken = world.start(vec![world.pinned(2, 0)])[0];
    world.block(woken);
    let early = batch(&mut world, &[(3, -10), (3, -9)]);
    let hogs = hogs(&mut world, |cpu| if cpu == 1 { 19 } else { -20 });
    for task in &early {
        waits_at(&mut world, *task, 3, &[1, 3]);
    }
    world.kernel.set_affinity(CpuId(0), woken, &only(&[1, 2])).unwrap();
    world.settle();
    // CPU 1 is preempted. Its search reaches the task in CPU 2's queue before the earlier ones of CPU 3's.
    world.wake(0, woken, false);
    assert_eq!(world.running(1), woken);
    world.block(woken);
    assert_eq!(world.running(1), early[0], "the preemption hint is used once");
    // The task is queued on CPU 1 itself now, and no CPU is preempted.
    world.kernel.set_policy(CpuId(0), woken, Policy::Batch, 0).unwrap();
    world.kernel.set_affinity(CpuId(0), woken, &only(&[1])).unwrap();
    world.settle();
    world.wake(0, woken, false);
    world.block(early[0]);
    assert_eq!(world.running(1), early[1]);
    assert_eq!(world.cpu_of(hogs[1]), None);
}

/// Returns the task CPU 0 takes when its own blocks. The queued SCHED_BATCH tasks are given by CPU, nice value and
/// whether CPU 0 is allowed.
fn taken(shape: &str, interactive: bool, waiting: &[(u32, i8, bool)]) -> Option<usize> {
    let mut world = World::new(&spec("none", &format!(",interactive={interactive}")), shape, 50);
    let tasks = batch(&mut world, &waiting.iter().map(|(at, nice, _)| (*at, *nice)).collect::<Vec<_>>());
    let hogs = hogs(&mut world, |_| -20);
    for (task, (at, _, may)) in tasks.iter().zip(waiting) {
        waits_at(&mut world, *task, *at, if *may { &[0] } else { &[] });
    }
    world.block(hogs[0]);
    tasks.iter().position(|task| *task == world.running(0))
}

/// Point 3 of `queues.bpf.h` without `interactive`: a queue is considered only if it is longer than that of the best
/// task so far and its first task may run here; other nodes only while no task was found.
#[test]
fn without_interactive_only_longer_queues_of_the_node_count() {
    let (one, two) = ("node:1 core:4 pu:1", "node:2 core:2 pu:1");
    for (shape, waiting, interactive, patient) in [
        // If the queues are equally long, the nearer one is taken; a longer queue is taken if its deadline is
        // earlier.
        (one, &[(1, 5, true), (2, 0, true)][..], Some(1), Some(0)),
        (one, &[(1, 5, true), (2, 0, true), (2, 1, true)], Some(1), Some(1)),
        (one, &[(1, 0, true), (2, 5, true), (2, 6, true)], Some(0), Some(0)),
        // The first task of CPU 1 may not run on CPU 0.
        (one, &[(1, 0, false), (1, 5, true), (2, 10, true)], Some(1), Some(2)),
        // The other node has more tasks, with earlier deadlines.
        (two, &[(1, 5, true), (2, 0, true), (2, 1, true)], Some(1), Some(0)),
        (two, &[(1, 5, true), (3, 0, true), (3, 1, true)], Some(1), Some(0)),
        (two, &[(2, 0, true), (2, 1, true)], Some(0), Some(0)),
        (two, &[(2, 1, true), (3, 0, true)], Some(1), Some(0)),
        // A task in the CPU's own queue.
        (one, &[(0, 5, true), (2, 0, true)], Some(1), Some(0)),
        (one, &[(0, 5, true), (2, 0, true), (2, 1, true)], Some(1), Some(1)),
    ] {
        assert_eq!(taken(shape, true, waiting), interactive, "interactive: {waiting:?}");
        assert_eq!(taken(shape, false, waiting), patient, "not interactive: {waiting:?}");
    }
}

/// The running task counts towards the CPU's own queue: another queue must have two.
#[test]
fn running_task_counts_towards_its_cpus_queue() {
    for (waiting, goes_on) in [(1, true), (2, false)] {
        let mut world = World::new(&spec("none", ",interactive=false"), "node:1 core:4 pu:1", 50);
        let tasks = batch(&mut world, &vec![(1, 0); waiting]);
        let hogs = hogs(&mut world, |cpu| if cpu == 0 { 5 } else { -20 });
        for task in &tasks {
            waits_at(&mut world, *task, 1, &[0]);
        }
        world.leave(0, Leave::Yield);
        assert_eq!(world.running(0) == hogs[0], goes_on, "{waiting}");
    }
}

/// Resumes the operation of `cpu` up to its next lock, if one is in progress.
fn step(world: &mut World, cpu: u32) {
    if world.kernel.is_waiting(CpuId(cpu)) {
        world.kernel.resume(CpuId(cpu));
    }
}

/// Point 5 of `queues.bpf.h`: a CPU that loses tasks to two other CPUs during its search finds the third task, at
/// every interleaving.
#[test]
fn pick_restarts_when_other_cpus_take_its_task() {
    // Number of steps of the search before the first and before the second other CPU takes its task.
    for (first, second) in (0..30).flat_map(|first| (0..30).map(move |second| (first, second))) {
        let mut world = World::new(&spec("none", ""), "node:1 core:4 pu:1", 50);
        let tasks = batch(&mut world, &[(3, -3), (3, -2), (3, -1)]);
        let hogs = hogs(&mut world, |_| -20);
        for task in &tasks {
            waits_at(&mut world, *task, 3, &[0, 1, 2, 3]);
        }
        let sleeps = || Operation::Schedule(Leave::Block(BlockCause::Timer));
        world.kernel.begin(CpuId(0), sleeps());
        for (steps, other) in [(first, 1), (second, 2)] {
            for _ in 0..steps {
                step(&mut world, 0);
            }
            world.kernel.begin(CpuId(other), sleeps());
            // A CPU that waits for a lock held by CPU 0 waits until CPU 0 releases it.
            while world.kernel.is_waiting(CpuId(other)) {
                let next = if world.kernel.may_resume(CpuId(other)) { other } else { 0 };
                step(&mut world, next);
            }
        }
        world.finish(0);
        world.settle();
        let ran: Vec<TaskId> = (0..3).map(|cpu| world.running(cpu)).collect();
        assert!(tasks.iter().all(|task| ran.contains(task)), "{first} {second}: {ran:?} beside {hogs:?}");
    }
}

/// Point 6 of `queues.bpf.h`: a task queued on any CPU is found by every other CPU that becomes free.
#[test]
fn queued_task_is_found_by_every_free_cpu() {
    for shape in SHAPES {
        let cpus = World::new("muqss", shape, 50).cpus();
        for (cpu, at) in (0..cpus).flat_map(|cpu| (0..cpus).map(move |at| (cpu, at))) {
            let (mut world, task) = asleep(&spec("none", ""), shape, at, &[at], &(0..cpus).collect::<Vec<_>>());
            world.kernel.set_policy(CpuId(0), task, Policy::Batch, 0).unwrap();
            world.settle();
            waits_at(&mut world, task, at, &[cpu]);
            world.run_until(MS);
            world.block(world.running(cpu));
            assert_eq!(world.cpu_of(task), Some(cpu), "{shape}: from {at}");
        }
    }
}
