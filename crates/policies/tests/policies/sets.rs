// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/sets`. The periodic update is every 10 ms, and a slice is 10 ms.

use crate::world::{MS, World};
use ids::TaskId;
use kernel_model::{CgroupId, TaskAttributes};
use launch_profile::{Reservation, WorkloadFacts};
use machine_model::Machine;

/// A job: number of reserved CPUs, start and length in milliseconds, and number of hogs.
type Job = (u32, u32, u32, usize);

/// Returns a machine with these jobs, named j0 and so on, their tasks and cgroups. The first entry of the tasks holds
/// the `more` hogs outside any job, which start first.
fn world(spec: &str, shape: &str, jobs: &[Job], more: usize) -> (World, Vec<Vec<TaskId>>, Vec<CgroupId>) {
    let reservation = |(number, job): (usize, &Job)| Reservation {
        group: format!("j{number}"),
        cpus: job.0,
        from_ms: job.1,
        ms: job.2,
    };
    let reservations = jobs.iter().enumerate().filter(|(_, job)| job.0 > 0).map(reservation).collect();
    let mut machine = Machine::from_synthetic(shape).unwrap();
    machine.hz = 1000;
    let mut world =
        World::with_facts(spec, machine, (7, 2), &WorkloadFacts { reservations, ..WorkloadFacts::default() });
    let count = more + jobs.iter().map(|job| job.3).sum::<usize>();
    let attributes = vec![world.attributes(); count];
    let mut tasks = world.start(attributes);
    let (mut all, mut groups) = (vec![tasks.drain(..more).collect()], vec![]);
    for (number, job) in jobs.iter().enumerate() {
        let group = world.group(CgroupId::ROOT, &format!("j{number}"), 100);
        let of_job: Vec<TaskId> = tasks.drain(..job.3).collect();
        world.place(&of_job, group);
        all.push(of_job);
        groups.push(group);
    }
    (world, all, groups)
}

const FOUR: &str = "node:1 core:4 pu:1";

/// Returns the CPU time of each group of tasks in the next `ms`, in milliseconds.
fn ran(world: &mut World, all: &[Vec<TaskId>], ms: u64) -> Vec<u64> {
    let sum = |world: &World, tasks: &[TaskId]| tasks.iter().map(|task| world.ran_ms(*task)).sum::<u64>();
    let before: Vec<u64> = all.iter().map(|tasks| sum(world, tasks)).collect();
    world.run_ms(ms);
    all.iter().zip(before).map(|(tasks, before)| sum(world, tasks) - before).collect()
}

/// Returns, sorted, the CPUs on which the tasks run now.
fn places(world: &World, tasks: &[TaskId]) -> Vec<u32> {
    let mut cpus: Vec<u32> = tasks.iter().filter_map(|task| world.cpu_of(*task)).collect();
    cpus.sort_unstable();
    cpus
}

/// Assigns a number of CPUs to a job with the program `assign`.
fn assign(world: &mut World, name: &str, cpus: u32) {
    world.call("assign", &assignment(name, cpus));
}

fn assignment(name: &str, cpus: u32) -> Vec<u32> {
    let mut text = [0; 32];
    text[..name.len()].copy_from_slice(name.as_bytes());
    let words = text.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    words.chain([cpus, 0]).collect()
}

/// Point 2 of `sets.bpf.c`, the guarantee of Miser: a reservation of 2 of 4 CPUs for 1 s yields at least 1.98
/// CPU-seconds, whatever 16 other tasks do; before and afterwards the job shares the machine with them.
#[test]
fn reservation_gets_its_cpu_time_by_its_end() {
    for from in [0, 300] {
        let (mut world, all, _) = world("sets", FOUR, &[(2, from, 1_000, 2)], 16);
        world.run_ms(u64::from(from) + 10);
        let during = ran(&mut world, &all, 1_000);
        assert!(during[1] >= 1_980, "from {from}: {during:?}");
        assert_eq!(during.iter().sum::<u64>(), 4_000);
        world.run_ms(100);
        let after = ran(&mut world, &all, 9_000);
        // The job has 2 of 18 tasks, so it gets a ninth of the time of four CPUs, within one slice for each CPU.
        assert!(after[1].abs_diff(4_000) <= 40, "from {from}: {after:?}");
    }
    let (mut world, all, _) = world("sets", FOUR, &[(2, 500, 1_000, 2)], 16);
    let before = ran(&mut world, &all, 450);
    assert!(before[1] <= 300, "the job shares the machine before its reservation: {before:?}");
}

/// Point 5 of `sets.bpf.c`: other tasks use the idle CPUs of a set until its tasks wake. Without lending these CPUs
/// stay idle (the published weakness).
#[test]
fn idle_reserved_cpus_are_lent() {
    for (spec, busy) in [("sets", 4), ("sets@strict", 2)] {
        let (mut world, all, _) = world(spec, FOUR, &[(2, 0, 60_000, 2)], 16);
        world.run_ms(50);
        assert_eq!(places(&world, &all[1]).len(), 2);
        for task in &all[1] {
            world.block(*task);
        }
        let lent = ran(&mut world, &all, 1_000);
        assert_eq!(lent, [busy * 1_000, 0], "{spec}");
        for task in &all[1] {
            world.wake(0, *task, false);
        }
        assert_eq!(places(&world, &all[1]).len(), 2, "{spec}: the set's own tasks go first");
        let back = ran(&mut world, &all, 1_000);
        assert_eq!(back, [2_000, 2_000], "{spec}");
    }
}

/// Points 1, 4 of `sets.bpf.c`: a permanent set has its CPUs and no others while those are in demand, and its tasks
/// share their time.
#[test]
fn tasks_of_a_set_use_only_its_cpus() {
    let (mut world, all, _) = world("sets", FOUR, &[(1, 0, 0, 3)], 3);
    world.run_ms(100);
    let own = places(&world, &all[1]);
    assert_eq!(own.len(), 1);
    for _ in 0..200 {
        world.run_ms(7);
        assert_eq!(places(&world, &all[1]), own);
    }
    let shares = all[1].iter().map(|task| vec![*task]).collect::<Vec<_>>();
    let shares = ran(&mut world, &shares, 6_000);
    assert!(shares.iter().all(|share| share.abs_diff(2_000) <= 20), "{shares:?}");
}

/// Points 1, 2 of `sets.bpf.c`: CPUs are reassigned while tasks run. An assignment that does not fit waits, and no
/// task is without a CPU until the watchdog fires.
#[test]
fn cpus_are_reassigned_at_run_time() {
    let (mut world, all, _) = world("sets", FOUR, &[(0, 0, 0, 4), (0, 0, 0, 4)], 4);
    let expect = |world: &mut World, due: [u64; 3]| {
        world.run_ms(100);
        let found = ran(world, &all, 3_000);
        let near = found.iter().zip(due).all(|(found, due)| found.abs_diff(due) <= 80);
        assert!(near, "{found:?}, expected {due:?}");
    };
    expect(&mut world, [4_000; 3]);
    assign(&mut world, "j0", 2);
    expect(&mut world, [3_000, 6_000, 3_000]);
    assign(&mut world, "j1", 1);
    expect(&mut world, [3_000, 6_000, 3_000]);
    // The default set has one CPU left, so the third CPU is not moved.
    assign(&mut world, "j0", 3);
    expect(&mut world, [3_000, 6_000, 3_000]);
    world.run_ms(40_000);
    assign(&mut world, "j1", 0);
    expect(&mut world, [1_500, 9_000, 1_500]);
    assign(&mut world, "j0", 1);
    expect(&mut world, [4_500, 3_000, 4_500]);
    assign(&mut world, "j0", 0);
    expect(&mut world, [4_000; 3]);
}

/// Point 3 of `sets.bpf.c`: the CPUs of a job belong to one node if one has enough free; among such nodes the one
/// with the fewest free CPUs is chosen.
#[test]
fn cpus_of_a_job_belong_to_one_node() {
    let shape = "node:2 l3:1 core:4 pu:1";
    let node = |cpus: &[u32]| cpus.iter().map(|cpu| cpu / 4).collect::<Vec<_>>();
    let (mut world, all, _) = world("sets", shape, &[(3, 0, 0, 3), (4, 0, 0, 4)], 8);
    world.run_ms(200);
    let (first, second) = (places(&world, &all[1]), places(&world, &all[2]));
    assert_eq!((first.len(), second.len()), (3, 4), "{first:?} {second:?}");
    let (first, second) = (node(&first), node(&second));
    assert!(first.iter().all(|node| *node == first[0]) && second.iter().all(|node| *node == second[0]));
    assert_ne!(first[0], second[0]);
    // One CPU is free in the first job's node, where the next job would find it even if it took the first sufficient
    // one.
    let (mut world, all, _) = self::world("sets", shape, &[(2, 0, 0, 2), (1, 0, 0, 1)], 8);
    world.run_ms(200);
    let (first, second) = (node(&places(&world, &all[1])), node(&places(&world, &all[2])));
    assert_eq!(first, [second[0]; 2], "the node with two free CPUs is preferred to four");
}

/// Point 6 of `sets.bpf.c`: a task that may only run on a CPU of another set runs there.
#[test]
fn task_pinned_to_another_sets_cpu_runs_there() {
    for spec in ["sets", "sets@strict"] {
        let (mut world, all, _) = world(spec, FOUR, &[(2, 0, 0, 2)], 4);
        world.run_ms(100);
        let reserved = places(&world, &all[1]);
        let bound = all[0][0];
        world.kernel.set_affinity(ids::CpuId(0), bound, &crate::world::only(&[reserved[0]])).unwrap();
        world.settle();
        let found = ran(&mut world, &[vec![bound]], 2_000);
        assert!((900..=1_100).contains(&found[0]), "{spec}: {found:?}");
    }
}

/// Point 1 of `sets.bpf.c`: a cgroup below one with a reservation belongs to its set.
#[test]
fn nested_cgroups_belong_to_the_set() {
    let (mut world, all, groups) = world("sets", FOUR, &[(2, 0, 0, 4)], 8);
    let inner = world.group(groups[0], "inner", 100);
    world.place(&all[1][..2], inner);
    world.run_ms(100);
    let shares: Vec<Vec<TaskId>> = vec![all[1][..2].to_vec(), all[1][2..].to_vec()];
    let found = ran(&mut world, &shares, 4_000);
    assert!(found.iter().all(|share| share.abs_diff(4_000) <= 40), "{found:?}");
}

/// Point 2 of `sets.bpf.c`: a reservation counts from the start of the job's first task, and begins when enough CPUs
/// are free.
#[test]
fn reservation_waits_for_free_cpus() {
    let (mut world, all, _) = world("sets", FOUR, &[(2, 0, 1_000, 2), (2, 0, 1_000, 2)], 8);
    world.run_ms(10);
    let first = ran(&mut world, &all, 1_000);
    assert!(first[1] >= 1_980 && first[2] <= 500, "{first:?}");
    world.run_ms(20);
    let second = ran(&mut world, &all, 970);
    assert!(second[2] >= 1_900, "{second:?}");
    assert_eq!(world.now_ns, 2_000 * MS);
}

/// Point 5 of `sets.bpf.c`, the other way round: the default set's last CPU returns to it when one of its tasks
/// wakes.
#[test]
fn cpus_of_the_default_set_are_lent() {
    let (mut world, all, _) = world("sets", "node:1 core:2 pu:1", &[(1, 0, 0, 2)], 1);
    world.run_ms(50);
    let own = all[0][0];
    assert_eq!(world.cpu_of(own), Some(0));
    world.block(own);
    assert_eq!(places(&world, &all[1]), [0, 1]);
    world.run_ms(3);
    world.wake(0, own, false);
    assert_eq!(world.cpu_of(own), Some(0));
    assert_eq!(places(&world, &all[1]), [1]);
}

/// Point 3 of `sets.bpf.c`: the node with the fewest sufficient CPUs is chosen, even if another comes first; a set
/// that grows prefers its own node.
#[test]
fn fullest_sufficient_node_is_chosen() {
    let shape = "node:2 l3:1 core:4 pu:1";
    let node = |world: &World, tasks: &[TaskId]| places(world, tasks).iter().map(|cpu| cpu / 4).collect::<Vec<_>>();
    let (mut world, all, _) = world("sets", shape, &[(2, 0, 0, 2), (3, 0, 0, 3), (1, 0, 0, 1)], 8);
    world.run_ms(200);
    let [first, second, third] = [1, 2, 3].map(|job| node(&world, &all[job]));
    assert_eq!((first, second.len(), third.len()), (vec![1 - second[0]; 2], 3, 1));
    assert_eq!(third[0], second[0], "the node with one free CPU is preferred to two");
    let (mut world, all, _) = self::world("sets", shape, &[(3, 0, 0, 3), (2, 0, 0, 3)], 8);
    world.run_ms(200);
    let other = node(&world, &all[1])[0];
    assign(&mut world, "j1", 3);
    world.run_ms(200);
    assert_eq!(node(&world, &all[2]), [1 - other; 3], "one CPU is free in the other node, and two in its own");
}

/// Point 7 of `sets.bpf.c`: queued tasks move to the right queue in the update that reassigns the CPUs, so no CPU is
/// idle though lending is off. A set that shrinks keeps its remaining CPUs.
#[test]
fn reassigned_cpus_find_work_at_once() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 100, 0, 8)], 8);
    let found = ran(&mut world, &all, 300);
    assert_eq!(found.iter().sum::<u64>(), 1_200, "{found:?}");
    assign(&mut world, "j0", 3);
    world.run_ms(100);
    assert_eq!(places(&world, &all[1]).len(), 3);
    assign(&mut world, "j0", 1);
    for _ in 0..100 {
        world.run_ms(1);
        assert!(!places(&world, &all[1]).is_empty(), "at {} ms", world.now_ns / MS);
    }
    assert_eq!(places(&world, &all[1]).len(), 1);
}

/// Job names are compared as a whole.
#[test]
fn job_names_are_compared_as_a_whole() {
    for differs in [0, 9, 17, 25] {
        let name = |letter: &str| format!("{}{letter}{}", "x".repeat(differs), "x".repeat(29 - differs));
        let mut world = World::new("sets", FOUR, 1000);
        let attributes = vec![world.attributes(); 12];
        let tasks = world.start(attributes);
        let all: Vec<Vec<TaskId>> = tasks.chunks(4).map(<[TaskId]>::to_vec).collect();
        for (letter, job) in ["a", "b"].iter().zip(&all[1..]) {
            let group = world.group(CgroupId::ROOT, &name(letter), 100);
            world.place(job, group);
        }
        assign(&mut world, &name("b"), 2);
        world.run_ms(100);
        let found = ran(&mut world, &all, 2_000);
        assert!(found[2].abs_diff(4_000) <= 40, "{differs}: {found:?}");
    }
}

/// CPUs can be assigned only to an existing job, and an empty name matches none.
#[test]
fn cpus_can_be_assigned_only_to_existing_jobs() {
    let (mut world, all, groups) = world("sets", FOUR, &[(0, 0, 0, 4)], 4);
    for name in ["", "j", "j1"] {
        assert_eq!(world.returned("assign", &assignment(name, 2)), -2, "{name:?}: ENOENT");
    }
    world.run_ms(100);
    let found = ran(&mut world, &all, 3_000);
    assert!(found.iter().all(|found| found.abs_diff(6_000) <= 80), "{found:?}");
    world.place(&all[1], CgroupId::ROOT);
    world.kernel.remove_cgroup(ids::CpuId(0), groups[0]).unwrap();
    world.settle();
    for name in ["", "j", "j0"] {
        assert_eq!(world.returned("assign", &assignment(name, 2)), -2, "{name:?}: the job is gone");
    }
}

/// Names of up to 31 bytes are known; a job with a longer name cannot be addressed.
#[test]
fn job_names_have_at_most_31_bytes() {
    for (length, known) in [(1, true), (30, true), (31, true), (32, false), (40, false)] {
        let name = "n".repeat(length);
        let mut world = World::new("sets", FOUR, 1000);
        let attributes = vec![world.attributes(); 8];
        let tasks = world.start(attributes);
        let group = world.group(CgroupId::ROOT, &name, 100);
        world.place(&tasks[..4], group);
        let returned = world.returned("assign", &assignment(&name[..length.min(32)], 1));
        assert_eq!(returned, if known { 0 } else { -2 }, "{length}");
        world.run_ms(100);
        let found = ran(&mut world, &[tasks[..4].to_vec()], 2_000);
        assert!(found[0].abs_diff(if known { 2_000 } else { 4_000 }) <= 40, "{length}: {found:?}");
    }
}

/// The table holds 64 reservations.
#[test]
fn table_holds_64_reservations() {
    reserve(64);
}

/// A 65th reservation is an error; it is not dropped silently.
#[test]
#[should_panic(expected = "`Err` value: 7")] // E2BIG
fn sixty_fifth_reservation_is_an_error() {
    reserve(65);
}

fn reserve(count: usize) {
    let reservation = |number| Reservation { group: format!("j{number}"), cpus: 1, from_ms: 0, ms: 0 };
    let facts = WorkloadFacts { reservations: (0..count).map(reservation).collect(), ..WorkloadFacts::default() };
    World::with_facts("sets", Machine::from_synthetic(FOUR).unwrap(), (7, 2), &facts);
}

/// Point 2 of `sets.bpf.c`: a reservation ends completely with the periodic update at its end: slices are cut, and
/// waiting tasks run.
#[test]
fn reservation_ends_at_its_planned_time_with_slices_cut() {
    let (mut world, all, _) = world("sets", FOUR, &[(2, 0, 1_000, 2)], 16);
    let mut has: Vec<usize> = vec![];
    for _ in 0..1_100 {
        world.run_ms(1);
        has.push(places(&world, &all[1]).len());
    }
    let begins = has.windows(30).position(|has| has.iter().all(|cpus| *cpus == 2)).expect("the job gets two CPUs");
    let lasts = has[begins..].iter().position(|cpus| *cpus != 2).expect("the reservation ends");
    assert!((999..=1_001).contains(&lasts), "{lasts} ms");
    assert_eq!(has[begins + lasts], 0);
}

/// Point 5 of `sets.bpf.c`: without lending, a woken task does not go to an idle CPU of another set.
#[test]
fn woken_task_avoids_reserved_cpus_without_lending() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 0, 0, 2)], 3);
    world.run_ms(100);
    for task in &all[1] {
        world.block(*task);
    }
    let runs = all[0].iter().copied().find(|task| world.cpu_of(*task).is_some()).expect("two of three run");
    let own = places(&world, &all[0]);
    world.block(runs);
    world.wake(0, runs, false);
    assert_eq!(places(&world, &all[0]), own);
    assert_eq!(world.cpu_of(runs), None, "both CPUs of its set are busy");
}

/// Point 2 of `sets.bpf.c`: a reservation does not begin before its job has a task; slices are 10 ms.
#[test]
fn reservation_does_not_begin_without_tasks() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 0, 1_000, 0)], 5);
    world.run_ms(500);
    assert_eq!(ran(&mut world, &all, 500), [2_000, 0]);
    assert_eq!(world.last_queued(all[0][4]).slice_ns, 10 * MS);
}

/// A cgroup too deep for the table counts as its parent; a reservation under its name goes neither to it nor to the
/// parent.
#[test]
fn cgroups_beyond_the_table_reserve_nothing() {
    let reservation = Reservation { group: "deep".to_owned(), cpus: 2, from_ms: 0, ms: 0 };
    let machine = Machine { hz: 1000, ..Machine::from_synthetic(FOUR).unwrap() };
    let mut world = World::with_facts(
        "sets",
        machine,
        (7, 2),
        &WorkloadFacts { reservations: vec![reservation], ..WorkloadFacts::default() },
    );
    let attributes = vec![world.attributes(); 12];
    let tasks = world.start(attributes);
    let mut group = CgroupId::ROOT;
    for name in ["a", "b", "c", "d", "deep"] {
        group = world.group(group, name, 100);
    }
    world.place(&tasks[..4], group);
    world.run_ms(100);
    let all = [tasks[..4].to_vec(), tasks[4..].to_vec()];
    let found = ran(&mut world, &all, 3_000);
    assert!(found[0].abs_diff(4_000) <= 80, "{found:?}");
}

/// Point 1 of `sets.bpf.c`: a cgroup at the deepest level, without an enclosing set, belongs to the default set;
/// removing a cgroup below it does not affect its set.
#[test]
fn cgroups_at_the_deepest_level_have_sets() {
    let mut world = World::new("sets@strict", FOUR, 1000);
    let attributes = vec![world.attributes(); 8];
    let tasks = world.start(attributes);
    let (deep, other) = tasks.split_at(4);
    let mut groups = vec![CgroupId::ROOT];
    for name in ["a", "b", "c", "d", "below"] {
        groups.push(world.group(*groups.last().unwrap(), name, 100));
    }
    let reserving = world.group(CgroupId::ROOT, "e", 100);
    world.place(deep, groups[4]);
    world.place(other, reserving);
    assign(&mut world, "e", 2);
    world.run_ms(100);
    let all = [deep.to_vec(), other.to_vec()];
    assert_eq!(ran(&mut world, &all, 1_000), [2_000, 2_000]);
    assign(&mut world, "e", 0);
    assign(&mut world, "d", 1);
    world.run_ms(100);
    world.kernel.remove_cgroup(ids::CpuId(0), groups[5]).unwrap();
    world.settle();
    world.run_ms(100);
    assert_eq!(ran(&mut world, &all, 1_000), [1_000, 3_000]);
    assign(&mut world, "d", 2);
}

/// Point 1 of `sets.bpf.c`: the CPUs of a removed cgroup return to the default set at once.
#[test]
fn cpus_of_a_removed_cgroup_return_at_once() {
    let (mut world, all, groups) = world("sets@strict", "node:2 l3:1 core:4 pu:1", &[(4, 0, 0, 4)], 8);
    world.run_ms(100);
    assert_eq!((places(&world, &all[1]), places(&world, &all[0])), (vec![0, 1, 2, 3], vec![4, 5, 6, 7]));
    // The job's tasks sleep, so none of them keeps running on its CPUs.
    for task in &all[1] {
        world.block(*task);
    }
    world.place(&all[1], CgroupId::ROOT);
    world.kernel.remove_cgroup(ids::CpuId(0), groups[0]).unwrap();
    world.settle();
    for ms in 0..100 {
        assert_eq!(places(&world, &all.concat()).len(), 8, "after {ms} ms");
        world.run_ms(1);
    }
}

/// Point 5 of `sets.bpf.c`: borrowed CPU time is shared evenly.
#[test]
fn borrowed_cpu_time_is_shared_evenly() {
    let (mut world, all, _) = world("sets", FOUR, &[(3, 0, 0, 3)], 8);
    world.run_ms(100);
    for task in &all[1] {
        world.block(*task);
    }
    world.run_ms(100);
    let each: Vec<Vec<TaskId>> = all[0].iter().map(|task| vec![*task]).collect();
    let shares = ran(&mut world, &each, 4_000);
    assert!(shares.iter().all(|share| share.abs_diff(2_000) <= 40), "{shares:?}");
}

/// Point 5 of `sets.bpf.c`: a CPU is lent to a woken task though its SMT sibling is busy.
#[test]
fn cpu_is_lent_beside_a_busy_sibling() {
    let (mut world, all, _) = world("sets", "node:1 core:2 pu:2", &[(2, 0, 0, 2)], 2);
    world.run_ms(100);
    // Woken tasks prefer idle CPUs of their own set, so the last idle CPU is one of the job's.
    let all = all.concat();
    all.iter().for_each(|task| world.block(*task));
    all[..3].iter().for_each(|task| world.wake(0, *task, false));
    assert_eq!((places(&world, &all[..2]), places(&world, &all[2..])), (vec![0, 1], vec![2]));
    let attributes = world.attributes();
    let new = world.spawn(0, attributes);
    assert_eq!(world.cpu_of(new), Some(3));
}

/// When no reservation is left, a woken task goes to its last CPU again.
#[test]
fn woken_task_returns_to_its_last_cpu_without_reservations() {
    let (mut world, all, _) = world("sets", FOUR, &[(2, 0, 100, 2)], 2);
    world.run_ms(300);
    for task in all.concat() {
        let cpu = world.cpu_of(task).unwrap();
        for other in all.concat() {
            world.block(other);
        }
        world.wake(0, task, false);
        assert_eq!(world.cpu_of(task), Some(cpu));
        all.concat().iter().filter(|other| **other != task).for_each(|other| world.wake(0, *other, false));
    }
}

/// Point 2 of `sets.bpf.c`: a reservation's time starts with the job's first task, not again with later wakeups.
#[test]
fn reservation_time_starts_with_the_first_task_and_not_again_at_wakeups() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 300, 0, 4)], 8);
    for _ in 0..2 {
        world.run_ms(100);
        while places(&world, &all[1]).is_empty() {
            world.run_ms(1);
        }
        let task = all[1].iter().copied().find(|task| world.cpu_of(*task).is_some()).unwrap();
        world.block(task);
        world.wake(0, task, false);
    }
    assert!(world.now_ns < 290 * MS);
    world.run_until(330 * MS);
    assert_eq!(ran(&mut world, &all, 100), [200, 200]);
}

/// Point 6 of `sets.bpf.c`: a task that may run on some CPU of its set belongs to it, even if it may run elsewhere,
/// too.
#[test]
fn task_allowed_in_its_set_stays_there() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 0, 0, 2)], 4);
    world.run_ms(100);
    let reserved = places(&world, &all[1]);
    let others: Vec<u32> = (0..4).filter(|cpu| !reserved.contains(cpu)).collect();
    for (task, cpu) in all[1].iter().zip(&reserved) {
        let allowed = crate::world::only(&[others[0], *cpu]);
        world.kernel.set_affinity(ids::CpuId(0), *task, &allowed).unwrap();
        world.settle();
    }
    let found = ran(&mut world, &all, 1_000);
    assert_eq!(found, [2_000, 2_000]);
}

/// Point 5 of `sets.bpf.c`: tasks of a set that wake at the same instant preempt one borrowing task each.
#[test]
fn simultaneous_wakeups_preempt_one_borrower_each() {
    let (mut world, all, _) = world("sets", FOUR, &[(2, 0, 0, 2)], 8);
    world.run_ms(100);
    for task in &all[1] {
        world.block(*task);
    }
    world.run_ms(3);
    for task in &all[1] {
        world.wake_without_settling(0, *task);
    }
    world.settle();
    assert_eq!(places(&world, &all[1]).len(), 2);
}

/// A woken task runs at once if a CPU is idle, including CPU 0; of several idle CPUs one is kicked.
#[test]
fn woken_task_kicks_one_idle_cpu() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 0, 0, 2)], 2);
    world.run_ms(100);
    let first =
        all[0].iter().copied().find(|task| world.cpu_of(*task) == Some(0)).expect("CPU 0 belongs to the default set");
    world.block(first);
    let bound = TaskAttributes { allowed: crate::world::only(&[0, 1]), ..world.attributes() };
    let new = world.spawn(1, bound);
    assert_eq!(world.cpu_of(new), Some(0));
    let mut world = World::new("sets", "node:1 core:8 pu:1", 1000);
    let attributes = vec![world.pinned(0, 0), world.pinned(0, 0)];
    let tasks = world.start(attributes);
    while world.running(0) != tasks[0] {
        world.run_ms(1);
    }
    world.rescheduled.clear();
    world.kernel.set_affinity(ids::CpuId(0), tasks[1], &ids::CpuSet::first_n(8)).unwrap();
    world.settle();
    assert!(world.cpu_of(tasks[1]).is_some());
    assert_eq!(world.rescheduled.iter().filter(|cpu| cpu.0 != 0).count(), 1, "{:?}", world.rescheduled);
}
