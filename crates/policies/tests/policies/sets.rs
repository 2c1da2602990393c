// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/sets`. Looks are 10 ms apart, turns last 10 ms.

use crate::world::{MS, World};
use ids::TaskId;
use kernel_model::{CgroupId, TaskAttributes};
use launch_profile::{Reservation, WorkloadFacts};
use machine_model::Machine;

/// A job: CPUs, from when and for how long in milliseconds, and tasks that always want a CPU.
type Job = (u32, u32, u32, usize);

/// A machine with such jobs, called j0 and so on, and `more` tasks of no job, which come first.
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
    let mut world = World::told(spec, machine, (7, 2), &WorkloadFacts { reservations, ..WorkloadFacts::default() });
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

/// CPU time of each group of tasks in the next `ms`, in milliseconds.
fn ran(world: &mut World, all: &[Vec<TaskId>], ms: u64) -> Vec<u64> {
    let sum = |world: &World, tasks: &[TaskId]| tasks.iter().map(|task| world.ran_ms(*task)).sum::<u64>();
    let before: Vec<u64> = all.iter().map(|tasks| sum(world, tasks)).collect();
    world.run_ms(ms);
    all.iter().zip(before).map(|(tasks, before)| sum(world, tasks) - before).collect()
}

/// Where they run now.
fn places(world: &World, tasks: &[TaskId]) -> Vec<u32> {
    let mut cpus: Vec<u32> = tasks.iter().filter_map(|task| world.cpu_of(*task)).collect();
    cpus.sort_unstable();
    cpus
}

/// Moves CPUs by hand.
fn assign(world: &mut World, name: &str, cpus: u32) {
    world.call("assign", &assignment(name, cpus));
}

fn assignment(name: &str, cpus: u32) -> Vec<u32> {
    let mut text = [0; 32];
    text[..name.len()].copy_from_slice(name.as_bytes());
    let words = text.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    words.chain([cpus, 0]).collect()
}

/// Theory 2, Miser's promise: 2 of 4 CPUs for 1 s are 1.98 CPU-seconds at least, whatever 16 others do; before that and
/// afterwards the job shares time with them.
#[test]
fn the_end_of_a_reservation_is_certain() {
    for from in [0, 300] {
        let (mut world, all, _) = world("sets", FOUR, &[(2, from, 1_000, 2)], 16);
        world.run_ms(u64::from(from) + 10);
        let during = ran(&mut world, &all, 1_000);
        assert!(during[1] >= 1_980, "from {from}: {during:?}");
        assert_eq!(during.iter().sum::<u64>(), 4_000);
        world.run_ms(100);
        let after = ran(&mut world, &all, 9_000);
        // 2 of 18 tasks: a ninth of four CPUs, within a turn of each.
        assert!(after[1].abs_diff(4_000) <= 40, "from {from}: {after:?}");
    }
    let (mut world, all, _) = world("sets", FOUR, &[(2, 500, 1_000, 2)], 16);
    let before = ran(&mut world, &all, 450);
    assert!(before[1] <= 300, "it shares until its time: {before:?}");
}

/// Theory 5: what a job does not use is for the others, until it wakes. Without lending its CPUs idle (the failing case).
#[test]
fn reserved_cpus_are_lent() {
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
        assert_eq!(places(&world, &all[1]).len(), 2, "{spec}: who is at home goes first");
        let back = ran(&mut world, &all, 1_000);
        assert_eq!(back, [2_000, 2_000], "{spec}");
    }
}

/// Theory 1, 4: a set for ever has its CPUs and no others while these are wanted, and its tasks take turns.
#[test]
fn a_set_keeps_to_itself() {
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

/// Theory 1, 2: CPUs move while tasks run. What does not fit waits, and nobody is left without a CPU, for longer than
/// the kernel bears.
#[test]
fn cpus_move_by_hand() {
    let (mut world, all, _) = world("sets", FOUR, &[(0, 0, 0, 4), (0, 0, 0, 4)], 4);
    let expect = |world: &mut World, due: [u64; 3]| {
        world.run_ms(100);
        let found = ran(world, &all, 3_000);
        let near = found.iter().zip(due).all(|(found, due)| found.abs_diff(due) <= 80);
        assert!(near, "{found:?}, not {due:?}");
    };
    expect(&mut world, [4_000; 3]);
    assign(&mut world, "j0", 2);
    expect(&mut world, [3_000, 6_000, 3_000]);
    assign(&mut world, "j1", 1);
    expect(&mut world, [3_000, 6_000, 3_000]);
    // One more would be the default set's last.
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

/// Theory 3: the CPUs of a job are of one node if one has as many; a node with fewer that are enough goes first.
#[test]
fn cpus_are_of_one_node() {
    let shape = "node:2 l3:1 core:4 pu:1";
    let node = |cpus: &[u32]| cpus.iter().map(|cpu| cpu / 4).collect::<Vec<_>>();
    let (mut world, all, _) = world("sets", shape, &[(3, 0, 0, 3), (4, 0, 0, 4)], 8);
    world.run_ms(200);
    let (first, second) = (places(&world, &all[1]), places(&world, &all[2]));
    assert_eq!((first.len(), second.len()), (3, 4), "{first:?} {second:?}");
    let (first, second) = (node(&first), node(&second));
    assert!(first.iter().all(|node| *node == first[0]) && second.iter().all(|node| *node == second[0]));
    assert_ne!(first[0], second[0]);
    // One CPU is free in the first one's node: the next one, which takes whatever is enough, would find it there too.
    let (mut world, all, _) = self::world("sets", shape, &[(2, 0, 0, 2), (1, 0, 0, 1)], 8);
    world.run_ms(200);
    let (first, second) = (node(&places(&world, &all[1])), node(&places(&world, &all[2])));
    assert_eq!(first, [second[0]; 2], "two are fewer than four");
}

/// Theory 6: a task that may only run on a CPU of somebody else's set runs there.
#[test]
fn who_is_bound_elsewhere_runs_there() {
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

/// Theory 1: a cgroup in one that reserves has its set.
#[test]
fn cgroups_within_have_the_set() {
    let (mut world, all, groups) = world("sets", FOUR, &[(2, 0, 0, 4)], 8);
    let inner = world.group(groups[0], "inner", 100);
    world.place(&all[1][..2], inner);
    world.run_ms(100);
    let shares: Vec<Vec<TaskId>> = vec![all[1][..2].to_vec(), all[1][2..].to_vec()];
    let found = ran(&mut world, &shares, 4_000);
    assert!(found.iter().all(|share| share.abs_diff(4_000) <= 40), "{found:?}");
}

/// Theory 2: the time of a reservation counts from when the job's first task begins, and it begins when there is room.
#[test]
fn a_reservation_waits_for_room() {
    let (mut world, all, _) = world("sets", FOUR, &[(2, 0, 1_000, 2), (2, 0, 1_000, 2)], 8);
    world.run_ms(10);
    let first = ran(&mut world, &all, 1_000);
    assert!(first[1] >= 1_980 && first[2] <= 500, "{first:?}");
    world.run_ms(20);
    let second = ran(&mut world, &all, 970);
    assert!(second[2] >= 1_900, "{second:?}");
    assert_eq!(world.now_ns, 2_000 * MS);
}

/// Theory 5, the other way round: the default set's last CPU goes back to it when somebody of it wakes.
#[test]
fn cpus_of_the_default_set_are_lent_too() {
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

/// Theory 3: the node with the fewest CPUs that are enough, though another comes first; and a set that grows looks where it is.
#[test]
fn nodes_are_filled() {
    let shape = "node:2 l3:1 core:4 pu:1";
    let node = |world: &World, tasks: &[TaskId]| places(world, tasks).iter().map(|cpu| cpu / 4).collect::<Vec<_>>();
    let (mut world, all, _) = world("sets", shape, &[(2, 0, 0, 2), (3, 0, 0, 3), (1, 0, 0, 1)], 8);
    world.run_ms(200);
    let [first, second, third] = [1, 2, 3].map(|job| node(&world, &all[job]));
    assert_eq!((first, second.len(), third.len()), (vec![1 - second[0]; 2], 3, 1));
    assert_eq!(third[0], second[0], "one is fewer than two");
    let (mut world, all, _) = self::world("sets", shape, &[(3, 0, 0, 3), (2, 0, 0, 3)], 8);
    world.run_ms(200);
    let other = node(&world, &all[1])[0];
    assign(&mut world, "j1", 3);
    world.run_ms(200);
    assert_eq!(node(&world, &all[2]), [1 - other; 3], "one is free in the other node, and two in its own");
}

/// Theory 7: whoever waits goes to the right queue with the look that moves the CPUs, so none idles though nobody lends. A set
/// that becomes smaller keeps the rest.
#[test]
fn cpus_that_move_find_work_at_once() {
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

/// A job is known by its whole name.
#[test]
fn names_count_as_a_whole() {
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

/// CPUs can be moved only for a job that there is, and nobody is called nothing.
#[test]
fn nobody_else_has_cpus_by_hand() {
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
        assert_eq!(world.returned("assign", &assignment(name, 2)), -2, "{name:?}: it is gone");
    }
}

/// A job whose name has up to 31 bytes is known by it; one with a longer name by none.
#[test]
fn names_have_31_bytes_at_most() {
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

/// There is room for 64 reservations.
#[test]
fn there_is_room_for_64_reservations() {
    reserve(64);
}

/// One more is an error, and none that is left out in silence.
#[test]
#[should_panic(expected = "`Err` value: 7")] // E2BIG
fn there_is_no_room_for_more_reservations() {
    reserve(65);
}

fn reserve(count: usize) {
    let reservation = |number| Reservation { group: format!("j{number}"), cpus: 1, from_ms: 0, ms: 0 };
    let told = WorkloadFacts { reservations: (0..count).map(reservation).collect(), ..WorkloadFacts::default() };
    World::told("sets", Machine::from_synthetic(FOUR).unwrap(), (7, 2), &told);
}

/// Theory 2: a reservation ends with the look at its end, all of it: turns are over, and those who have waited are next.
#[test]
fn a_reservation_ends_in_time() {
    let (mut world, all, _) = world("sets", FOUR, &[(2, 0, 1_000, 2)], 16);
    let mut has: Vec<usize> = vec![];
    for _ in 0..1_100 {
        world.run_ms(1);
        has.push(places(&world, &all[1]).len());
    }
    let begins = has.windows(30).position(|has| has.iter().all(|cpus| *cpus == 2)).expect("it has two CPUs");
    let lasts = has[begins..].iter().position(|cpus| *cpus != 2).expect("it ends");
    assert!((999..=1_001).contains(&lasts), "{lasts} ms");
    assert_eq!(has[begins + lasts], 0);
}

/// Theory 5: without lending whoever wakes goes to no CPU of another set, though one idles.
#[test]
fn who_wakes_goes_to_no_reserved_cpu() {
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
    assert_eq!(world.cpu_of(runs), None, "both CPUs of its set are taken");
}

/// Theory 2: a reservation does not begin before its job has a task; turns last 10 ms.
#[test]
fn cpus_are_not_reserved_for_nobody() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 0, 1_000, 0)], 5);
    world.run_ms(500);
    assert_eq!(ran(&mut world, &all, 500), [2_000, 0]);
    assert_eq!(world.last_queued(all[0][4]).slice_ns, 10 * MS);
}

/// A cgroup too deep for the table is its parent's: what it reserves by its name it does not get, nor does the parent.
#[test]
fn cgroups_beyond_the_table_reserve_nothing() {
    let reservation = Reservation { group: "deep".to_owned(), cpus: 2, from_ms: 0, ms: 0 };
    let machine = Machine { hz: 1000, ..Machine::from_synthetic(FOUR).unwrap() };
    let mut world = World::told(
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

/// Theory 1: a cgroup at the bottom of the table without a set around it is of the default set; one below it that ends takes
/// nothing from it.
#[test]
fn cgroups_at_the_bottom_of_the_table_have_sets() {
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

/// Theory 1: the CPUs of a cgroup that is removed go back, all of them and at once.
#[test]
fn cpus_of_a_cgroup_that_ends_go_back() {
    let (mut world, all, groups) = world("sets@strict", "node:2 l3:1 core:4 pu:1", &[(4, 0, 0, 4)], 8);
    world.run_ms(100);
    assert_eq!((places(&world, &all[1]), places(&world, &all[0])), (vec![0, 1, 2, 3], vec![4, 5, 6, 7]));
    // Nobody is there who could go on running.
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

/// Theory 5: guests take turns.
#[test]
fn lent_time_is_shared_evenly() {
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

/// Theory 5: a CPU is lent to who wakes though the other thread of its core is busy.
#[test]
fn single_threads_of_cores_are_lent() {
    let (mut world, all, _) = world("sets", "node:1 core:2 pu:2", &[(2, 0, 0, 2)], 2);
    world.run_ms(100);
    // Whoever wakes goes to its own set's CPUs while they idle; so the last one idles, of the job's.
    let all = all.concat();
    all.iter().for_each(|task| world.block(*task));
    all[..3].iter().for_each(|task| world.wake(0, *task, false));
    assert_eq!((places(&world, &all[..2]), places(&world, &all[2..])), (vec![0, 1], vec![2]));
    let attributes = world.attributes();
    let new = world.spawn(0, attributes);
    assert_eq!(world.cpu_of(new), Some(3));
}

/// When nothing is reserved any more whoever wakes goes where it was.
#[test]
fn who_wakes_goes_where_it_was_when_nothing_is_reserved() {
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

/// Theory 2: a job's time begins with its first task, however often its tasks wake after that.
#[test]
fn a_jobs_time_begins_once() {
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

/// Theory 6: a task that may run on some CPU of its set is of it, though it may run elsewhere, too.
#[test]
fn who_may_run_in_its_set_stays_in_it() {
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

/// Theory 5: tasks of a set that wake at the same time interrupt one guest each.
#[test]
fn each_guest_is_interrupted_once() {
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

/// Whoever wakes runs at once where a CPU idles, be it the first one; and of several that idle one is told.
#[test]
fn one_idle_cpu_is_enough() {
    let (mut world, all, _) = world("sets@strict", FOUR, &[(2, 0, 0, 2)], 2);
    world.run_ms(100);
    let first = all[0].iter().copied().find(|task| world.cpu_of(*task) == Some(0)).expect("CPU 0 is nobody's");
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
    world.told.clear();
    world.kernel.set_affinity(ids::CpuId(0), tasks[1], &ids::CpuSet::first_n(8)).unwrap();
    world.settle();
    assert!(world.cpu_of(tasks[1]).is_some());
    assert_eq!(world.told.iter().filter(|cpu| cpu.0 != 0).count(), 1, "{:?}", world.told);
}
