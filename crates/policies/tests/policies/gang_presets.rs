// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/gang` for cells that become free, for tasks that share one, and for jobs that are processes.

use crate::gang::{end, running, sleep, world};
use crate::world::{MS, World, only};
use ids::{CpuId, TaskId};
use kernel_model::{CgroupId, Identity, Leave, TaskAttributes};
use launch_profile::WorkloadFacts;
use machine_model::Machine;
use std::collections::BTreeSet;

/// The rows in which the tasks of a job were last put in line.
fn rows(world: &World, job: &[TaskId]) -> BTreeSet<u64> {
    job.iter().map(|task| world.last_queued(*task).dsq / u64::from(world.cpus())).collect()
}

/// The rows in which the job of this number has cells: 1 is that of the first cgroup. `rows()` does not see who runs on.
fn rows_held(world: &World, job: u32) -> BTreeSet<usize> {
    let cells = world.numbers("cells");
    let held = cells.chunks(2).enumerate().filter(|(_, cell)| cell[0] == job + 1);
    held.map(|(number, _)| number / world.cpus() as usize).collect()
}

/// Theory 8: when a job ends there is a row less, and what moves up does so as a whole: there is no moment in which a job runs
/// in part.
#[test]
fn jobs_move_up_as_a_whole() {
    for first in 0..4 {
        let (mut world, jobs) = world("gang", 4, &[4; 4], 0);
        let taken = |world: &World, jobs: &[Vec<TaskId>]| {
            let mut taken: Vec<Vec<u64>> = jobs.iter().map(|job| rows(world, job).into_iter().collect()).collect();
            taken.sort_unstable();
            taken
        };
        assert_eq!(taken(&world, &jobs[..4]), [[0], [1], [2], [3]]);
        end(&mut world, &jobs[first]);
        for _ in 0..2_000 {
            let running = running(&world, &jobs);
            assert!(running[..4].iter().all(|tasks| [0, 4].contains(tasks)), "{running:?}");
            world.run_ms(1);
        }
        let left = [&jobs[..first], &jobs[first + 1..4]].concat();
        assert_eq!(taken(&world, &left), [[0], [1], [2]]);
    }
}

/// Theory 8: what does not fit stays, and a later one that does takes the room.
#[test]
fn a_job_that_does_not_fit_stays() {
    let (mut world, jobs, _) = one_by_one(&[2, 2, 3, 2]);
    let all = |world: &World| jobs.iter().map(|job| rows(world, job)).collect::<Vec<_>>();
    assert_eq!(all(&world), [0, 0, 1, 2].map(|row| [row].into()));
    end(&mut world, &jobs[0]);
    world.run_ms(2_000);
    assert_eq!(all(&world)[1..], [0, 1, 0].map(|row| [row].into()));
    // Now there are two rows with all of the time but for what fills gaps.
    let mut whole = [0; 4];
    for _ in 0..2_000 {
        for (whole, (running, job)) in whole.iter_mut().zip(running(&world, &jobs).into_iter().zip(&jobs)) {
            *whole += usize::from(running == job.len());
        }
        world.run_ms(1);
    }
    assert!(whole[1..].iter().all(|whole| *whole >= 980), "{whole:?}");
}

/// Two jobs of so many tasks, one after the other, of which the last task may be bound to a CPU.
fn two_jobs(world: &mut World, size: usize, bound: bool) -> Vec<TaskId> {
    let mut tasks = vec![];
    for number in 0..2 {
        let mut attributes = vec![world.attributes(); size];
        if bound && number == 1 {
            attributes[size - 1] = world.pinned(1, 0);
        }
        let job: Vec<TaskId> = attributes.into_iter().map(|one| world.kernel.fork(CpuId(0), one).unwrap()).collect();
        wake_new(world, &job);
        let group = world.group(CgroupId::ROOT, &format!("j{number}"), 100);
        world.place(&job, group);
        world.run_ms(1_000);
        tasks.extend(job);
    }
    tasks
}

/// These begin.
fn wake_new(world: &mut World, tasks: &[TaskId]) {
    for task in tasks {
        world.kernel.wake_new(CpuId(0), *task);
        world.settle();
    }
}

/// Theory 8: a job with a task that may not use all CPUs stays where it is, though there is room for as many.
#[test]
fn a_job_with_a_bound_task_stays() {
    for bound in [true, false] {
        let mut world = World::new("gang", "node:1 l3:1 core:2 pu:1", 1000);
        let tasks = two_jobs(&mut world, 2, bound);
        assert_eq!([1, 2].map(|job| rows_held(&world, job)), [[0].into(), [1].into()]);
        // Somebody is left who has the other turns.
        let attributes = world.attributes();
        world.spawn(0, attributes);
        end(&mut world, &tasks[..2]);
        world.run_ms(3_000);
        assert_eq!(rows_held(&world, 2), [usize::from(bound)].into(), "bound: {bound}");
        // Its number is somebody else's one day, who is not bound.
        if bound {
            world.kernel.set_affinity(CpuId(0), tasks[3], &only(&[0, 1])).unwrap();
            world.settle();
            end(&mut world, &tasks[2..]);
        }
    }
}

/// Theory 8: it stays, too, when one of it leaves who is not bound; the one who is has not left.
#[test]
fn a_job_stays_while_its_bound_task_does() {
    for (size, bound) in [(2, true), (3, true), (3, false), (2, false)] {
        let mut world = World::new("gang", &format!("node:1 l3:1 core:{size} pu:1"), 1000);
        let tasks = two_jobs(&mut world, size, bound);
        let (first, second) = tasks.split_at(size);
        assert_eq!([1, 2].map(|job| rows_held(&world, job)), [[0].into(), [1].into()]);
        // Together with another one it has the turns between those of the job.
        world.place(&second[..1], CgroupId::ROOT);
        let attributes = world.attributes();
        world.spawn(0, attributes);
        world.run_ms(1_000);
        end(&mut world, first);
        world.run_ms(3_000);
        assert_eq!(rows_held(&world, 2), [usize::from(bound)].into(), "bound: {bound}, size {size}");
    }
}

/// Theory 2: a job of one task that is bound to a CPU goes where its column is free.
#[test]
fn a_bound_job_goes_where_its_column_is_free() {
    let (mut world, mut jobs) = world("gang", 4, &[2, 4], 0);
    for cpu in [3, 0, 1, 2] {
        let attributes = world.pinned(cpu, 0);
        let task = process(&mut world, 1, &attributes);
        let group = world.group(CgroupId::ROOT, &format!("bound{cpu}"), 100);
        world.place(&task, group);
        jobs.push(task);
    }
    world.run_ms(2_000);
    let cells = world.numbers("cells");
    for (cpu, job) in [3, 0, 1, 2].into_iter().zip(&jobs[3..]) {
        let number = world.last_queued(job[0]).dsq;
        assert_eq!(number % 4, cpu, "its own column");
        let taken = |row: u64| cells[2 * (4 * row + cpu) as usize] != 0;
        assert!((0..number / 4).all(taken), "there is no earlier row for {cpu}: {:?}", &cells[..32]);
    }
}

/// Theory 2: the columns of those on their way to a row are not free for others. Jobs that took them from each other would
/// change their rows for ever, and never run as a whole.
#[test]
fn jobs_come_to_rest() {
    for sizes in [&[6, 4, 8, 7][..], &[7, 8, 4, 6], &[5, 5, 5, 5, 5, 5], &[8, 6, 6, 5, 3, 7]] {
        let (mut world, jobs) = world("gang", 12, sizes, 0);
        let attributes = world.pinned(5, 0);
        let bound = process(&mut world, 1, &attributes);
        let group = world.group(CgroupId::ROOT, "bound", 100);
        world.place(&bound, group);
        world.run_ms(2_000);
        let all = |world: &World| jobs[..sizes.len()].iter().map(|job| rows(world, job)).collect::<Vec<_>>();
        let before = all(&world);
        assert!(before.iter().all(|rows| rows.len() == 1), "{sizes:?}: {before:?}");
        for _ in 0..40 {
            world.run_ms(100);
            assert_eq!(all(&world), before, "{sizes:?}");
        }
    }
}

/// The rows of the first `count` jobs, as `struct gang` has them: row, tasks, placed, moves, is_bound.
fn rows_of_jobs(world: &World, count: usize) -> Vec<u32> {
    const WORDS: usize = 5;
    let gangs = world.numbers("gangs");
    (1..=count).map(|job| gangs[WORDS * job]).collect()
}

/// Four CPUs and jobs of so many hogs, a second apart, so that they stand in this order; and their cgroups.
fn one_by_one(sizes: &[usize]) -> (World, Vec<Vec<TaskId>>, Vec<CgroupId>) {
    let (mut world, mut all) = world("gang", 4, &[], sizes.iter().sum());
    let mut tasks = all.remove(0);
    let (mut jobs, mut groups) = (vec![], vec![]);
    for (number, size) in sizes.iter().enumerate() {
        let job: Vec<TaskId> = tasks.drain(..*size).collect();
        groups.push(world.group(CgroupId::ROOT, &format!("j{number}"), 100));
        world.place(&job, groups[number]);
        world.run_ms(1_000);
        jobs.push(job);
    }
    (world, jobs, groups)
}

/// So many tasks that sleep come into a cgroup.
fn add_sleepers(world: &mut World, count: usize, group: CgroupId) {
    let attributes = world.attributes();
    let sleepers = asleep(world, count, &attributes);
    world.place(&sleepers, group);
}

/// Theory 2: what tasks will need that have no cell yet is not free for who would move up.
#[test]
fn columns_of_who_will_come_are_not_free() {
    for (sleepers, size, moves) in [(0, 3, true), (1, 3, false), (1, 2, true), (2, 1, true), (3, 1, false)] {
        let (mut world, jobs, groups) = one_by_one(&[1, 3, size]);
        assert_eq!(rows_of_jobs(&world, 3), [0, 0, 1]);
        add_sleepers(&mut world, sleepers, groups[0]);
        end(&mut world, &jobs[1]);
        world.run_ms(8_000);
        assert_eq!(rows_of_jobs(&world, 3)[2], u32::from(!moves), "{sleepers} sleep, {size} wait");
    }
}

/// Theory 2: a job none of whose tasks has a cell needs no columns yet, also if earlier ones of it had.
#[test]
fn who_has_never_been_in_line_needs_no_columns() {
    let (mut world, jobs, groups) = one_by_one(&[4, 4]);
    assert_eq!(rows_of_jobs(&world, 2), [0, 1]);
    add_sleepers(&mut world, 4, groups[0]);
    end(&mut world, &jobs[0]);
    world.run_ms(8_000);
    assert_eq!(rows_of_jobs(&world, 2), [0, 0]);
}

/// Theory 8: one job moves up in each turn, also where several rows have room; and rows are looked at once after a cell became
/// free, each when its turn ends.
#[test]
fn rows_are_looked_at_once() {
    for sizes in [&[4, 2, 2][..], &[4, 4, 2, 2]] {
        let (mut world, jobs, _) = one_by_one(sizes);
        world.run_ms(10_000);
        assert_eq!(world.numbers("unpacked"), [0]);
        // They are of no job at once: what was theirs is free at the same moment.
        for job in &jobs[..sizes.len() - 2] {
            world.place(job, CgroupId::ROOT);
        }
        let look = |world: &World| (rows_of_jobs(world, sizes.len()), world.numbers("unpacked")[0]);
        let (mut rows, mut left) = look(&world);
        assert_eq!(left, 64 + 1);
        for _ in 0..10_000 {
            world.run_ms(1);
            let (rows_now, left_now) = look(&world);
            let moved = rows.iter().zip(&rows_now).filter(|(before, now)| before != now).count();
            assert!(moved <= 1, "{rows:?} to {rows_now:?}");
            assert!(left_now >= left || left_now == left - 1, "{left} to {left_now}");
            (rows, left) = (rows_now, left_now);
        }
        assert_eq!((&rows[sizes.len() - 2..], left), (&[0, 0][..], 0));
    }
}

/// Who ran on CPU 0 in turn, for so long in each stint.
fn stints(world: &mut World, ms: u64) -> Vec<(TaskId, u64)> {
    let mut stints: Vec<(TaskId, u64)> = vec![];
    for _ in 0..ms {
        let now = world.running(0);
        match stints.last_mut() {
            Some((task, ms)) if *task == now => *ms += 1,
            _ => stints.push((now, 1)),
        }
        world.run_ms(1);
    }
    stints
}

/// Theory 7: in its job's turn whoever has begun goes on until it sleeps, also after other jobs' turns; then the one that has
/// waited longest. In turns of 20 ms without the preset.
#[test]
fn who_has_begun_goes_on_until_it_sleeps() {
    let (mut world, jobs) = world("gang@fifo", 1, &[3, 1], 0);
    let job = &jobs[0];
    let ran: Vec<u64> = job.iter().map(|task| world.ran_ms(*task)).collect();
    let first = job[(0..3).max_by_key(|at| ran[*at]).unwrap()];
    let of_job = |stints: &[(TaskId, u64)]| -> BTreeSet<TaskId> {
        stints.iter().map(|(task, _)| *task).filter(|task| job.contains(task)).collect()
    };
    let seen = stints(&mut world, 2_000);
    assert_eq!(of_job(&seen), [first].into(), "{seen:?}");
    assert!(seen[1..seen.len() - 1].iter().all(|(_, ms)| (98..=102).contains(ms)), "{seen:?}");
    // The next one comes at once, and when the first one comes back it stands last.
    sleep(&mut world, &[first]);
    let second = world.running(0);
    assert!(job.contains(&second) && second != first);
    world.run_ms(5);
    world.wake(0, first, false);
    assert_eq!(of_job(&stints(&mut world, 1_000)), [second].into());
    sleep(&mut world, &[second]);
    let third = world.running(0);
    assert!(job.contains(&third) && third != first);
    assert_eq!(of_job(&stints(&mut world, 1_000)), [third].into());
    sleep(&mut world, &[third]);
    assert_eq!(of_job(&stints(&mut world, 1_000)), [first].into());
    let (mut world, jobs) = self::world("gang", 1, &[3, 1], 0);
    let seen = stints(&mut world, 2_000);
    assert!(seen[1..seen.len() - 1].iter().all(|(task, ms)| jobs[1].contains(task) || *ms == 20), "{seen:?}");
}

/// Theory 7: as an alternate, too, whoever has begun goes on.
#[test]
fn who_has_begun_goes_on_as_an_alternate() {
    let (mut world, jobs) = world("gang@fifo", 1, &[3, 1], 0);
    let alone = jobs[1][0];
    sleep(&mut world, &[alone]);
    let seen = stints(&mut world, 1_000);
    assert_eq!(seen.len(), 1, "{seen:?}");
    let first = seen[0].0;
    world.wake(0, alone, false);
    let seen = stints(&mut world, 1_000);
    assert_eq!(seen.iter().map(|(task, _)| *task).collect::<BTreeSet<_>>(), [first, alone].into());
}

/// Theory 7: those behind it have 1 ms when they have waited for 10 s, and again 10 s later: nobody is ejected.
#[test]
fn nobody_waits_for_ever_behind_who_has_begun() {
    let (mut world, jobs) = world("gang@fifo", 2, &[5], 3);
    let all: Vec<TaskId> = jobs.iter().flatten().copied().collect();
    world.began.clear();
    let begun = world.now_ns;
    let before: Vec<u64> = all.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(60_000);
    let ran: Vec<u64> = all.iter().zip(before).map(|(task, before)| world.ran_ms(*task) - before).collect();
    for (task, ran) in all.iter().zip(&ran) {
        let times = world.began.iter().filter(|(_, began)| began == task).map(|(at, _)| *at);
        let times: Vec<u64> = [begun].into_iter().chain(times).collect();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("it ran");
        assert!(*ran > 20_000 || longest <= 11_200 * MS, "{ran} ms, {longest} ns");
    }
    let waited: Vec<u64> = ran[..5].iter().copied().filter(|ran| *ran < 20_000).collect();
    assert_eq!(waited.len(), 3, "two have the cells: {ran:?}");
    assert!(waited.iter().all(|ran| (5..=6).contains(ran)), "1 ms every 11 s: {ran:?}");
}

/// Theory 7: in each row somebody looks for who is overdue.
#[test]
fn who_is_overdue_is_found_in_any_row() {
    let (mut world, jobs) = world("gang@fifo", 8, &[8, 8, 12], 0);
    world.began.clear();
    world.run_ms(13_000);
    let began: BTreeSet<TaskId> = world.began.iter().map(|(_, task)| *task).collect();
    assert!(jobs[2].iter().all(|task| began.contains(task)), "{began:?}");
}

/// Theory 7: overdue is who has waited for 10 s to the nanosecond when somebody looks: every second from the beginning.
#[test]
fn overdue_is_who_has_waited_for_ten_seconds() {
    for (late_ns, seconds) in [(0, 10), (5, 11)] {
        let machine = Machine { hz: 1000, ..Machine::from_synthetic("node:1 core:1 pu:1").unwrap() };
        let loaded = 500 * MS;
        let mut world = World::begun("gang@fifo", machine, (7, 2), &WorkloadFacts::default(), loaded);
        let attributes = vec![world.attributes()];
        let first = world.start(attributes);
        let group = world.group(CgroupId::ROOT, "job", 100);
        world.place(&first, group);
        world.run_until(loaded + 5_000 * MS + late_ns);
        let attributes = world.attributes();
        let second = world.spawn(0, attributes);
        world.place(&[second], group);
        world.began.clear();
        world.run_ms(15_000);
        let began = world.began.iter().find(|(_, task)| *task == second).expect("it runs one day").0;
        let looked = loaded + (5_000 + seconds * 1_000) * MS;
        assert!((looked..looked + 200 * MS).contains(&began), "{late_ns} ns: {began}, not {looked}");
    }
}

/// Theory 7: nobody is overdue who has a cell alone, though 26 others have turns of 400 ms meanwhile.
#[test]
fn who_has_a_cell_alone_is_not_overdue() {
    let (mut world, _) = world("gang@fifo,row_ms=400", 1, &[1; 27], 0);
    let seen = stints(&mut world, 40_000);
    assert!(seen[1..seen.len() - 1].iter().all(|(_, ms)| (398..=402).contains(ms)), "{seen:?}");
    assert!(seen.len() >= 100);
}

/// A process of so many hogs.
fn process(world: &mut World, threads: usize, attributes: &TaskAttributes) -> Vec<TaskId> {
    let tasks = asleep(world, threads, attributes);
    wake_new(world, &tasks);
    tasks
}

/// One that has not begun.
fn asleep(world: &mut World, threads: usize, attributes: &TaskAttributes) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = vec![];
    for _ in 0..threads {
        let identity = Identity { process: tasks.first().copied(), ..Identity::default() };
        let task = world.kernel.fork(CpuId(0), TaskAttributes { identity, ..attributes.clone() }).unwrap();
        tasks.push(task);
    }
    tasks
}

/// Spaces, theory 1, 2: processes run as a whole or not at all, whatever cgroups their tasks are in.
#[test]
fn processes_are_jobs() {
    let mut world = World::new("gang@spaces", "node:1 l3:1 core:4 pu:1", 1000);
    let attributes = world.attributes();
    let jobs: Vec<Vec<TaskId>> = (0..2).map(|_| process(&mut world, 4, &attributes)).collect();
    let group = world.group(CgroupId::ROOT, "half-of-each", 100);
    world.place(&[jobs[0][0], jobs[0][1], jobs[1][2], jobs[1][3]], group);
    world.run_ms(2_000);
    // In turns of one row they would run like that as well: eight tasks of one job in four cells, two in each.
    assert_eq!(jobs.iter().map(|job| rows(&world, job)).collect::<Vec<_>>(), [[0].into(), [1].into()]);
    let mut whole = [0; 2];
    for _ in 0..4_000 {
        let running = running(&world, &jobs);
        assert!(running == [4, 0] || running == [0, 4], "{running:?}");
        whole[usize::from(running[0] == 0)] += 1;
        world.run_ms(1);
    }
    assert!((1_960..=2_040).contains(&whole[0]), "{whole:?}");
}

/// Spaces, theory 3: a process has one number, from its first thread on that looks for one.
#[test]
fn a_process_takes_one_number_at_once() {
    let mut world = World::new("gang@spaces", "node:1 l3:1 core:2 pu:1", 1000);
    let attributes = world.attributes();
    for processes in 1..4 {
        for task in asleep(&mut world, 2, &attributes) {
            world.kernel.wake_new(CpuId(0), task);
            world.settle();
            let mut taken = world.numbers("spaces_of");
            taken.retain(|space| *space != 0);
            assert_eq!(taken.len(), processes, "{taken:?}");
            assert_eq!(BTreeSet::from_iter(taken).len(), processes);
        }
    }
}

/// Spaces, theory 2: a process becomes a job with its second thread, and is none any more when it has one left. Those of one
/// thread have a row together.
#[test]
fn a_process_of_one_thread_is_no_job_of_its_own() {
    [true, false].into_iter().for_each(one_thread_is_no_job);
}

/// The process of two threads comes first, or as one of one thread after the others.
fn one_thread_is_no_job(pair_first: bool) {
    let mut world = World::new("gang@spaces", "node:1 l3:1 core:2 pu:1", 1000);
    let attributes = world.attributes();
    let mut pair = vec![];
    if pair_first {
        pair = process(&mut world, 2, &attributes);
    }
    let single: Vec<TaskId> = (0..2).map(|_| process(&mut world, 1, &attributes)[0]).collect();
    if !pair_first {
        pair = process(&mut world, 1, &attributes);
        world.run_ms(1_000);
        // Its second thread.
        let identity = Identity { process: Some(pair[0]), ..Identity::default() };
        pair.push(world.kernel.fork(CpuId(0), TaskAttributes { identity, ..attributes.clone() }).unwrap());
        wake_new(&mut world, &pair[1..]);
    }
    world.run_ms(2_000);
    let together = |world: &mut World, jobs: &[Vec<TaskId>]| {
        let mut whole = vec![0; jobs.len()];
        for _ in 0..2_000 {
            let running = running(world, jobs);
            whole.iter_mut().zip(running).for_each(|(whole, tasks)| *whole += usize::from(tasks == 2));
            world.run_ms(1);
        }
        whole
    };
    let whole = together(&mut world, &[single.clone(), pair.clone()]);
    assert!(whole.iter().all(|whole| (980..=1_020).contains(whole)), "{whole:?}");
    // One of the pair ends: what is left of it is one of three that share two cells.
    let last = pair.pop().unwrap();
    while world.cpu_of(last).is_none() {
        world.run_ms(1);
    }
    let cpu = world.cpu_of(last).unwrap();
    world.leave(cpu, Leave::Exit);
    world.run_ms(2_000);
    let cells = world.numbers("cells");
    let tasks: u32 = cells.chunks(2).filter(|cell| cell[0] == 64).map(|cell| cell[1]).sum();
    assert_eq!((rows_held(&world, 63), tasks), ([0].into(), 3));
    let thread = TaskAttributes { kernel_thread: true, ..attributes };
    let thread = process(&mut world, 1, &thread)[0];
    world.run_ms(1_000);
    assert_eq!(world.last_queued(thread).dsq, 4096, "a thread of the kernel is of no job");
}

/// Spaces, theory 3: numbers are given again. More processes than there are numbers come by twos, beside one that stays, and
/// each has a row and a third of the time. Without numbers they would be one job together.
#[test]
fn numbers_of_processes_are_given_again() {
    let mut world = World::new("gang@spaces", "node:1 l3:1 core:2 pu:1", 1000);
    let attributes = world.attributes();
    let stays = process(&mut world, 2, &attributes);
    for round in 0..40 {
        let jobs = [stays.clone(), process(&mut world, 2, &attributes), process(&mut world, 2, &attributes)];
        world.run_ms(600);
        let mut whole = [0; 3];
        for _ in 0..600 {
            let running = running(&world, &jobs);
            whole.iter_mut().zip(running).for_each(|(whole, tasks)| *whole += usize::from(tasks == 2));
            world.run_ms(1);
        }
        assert_eq!(whole, [200; 3], "round {round}");
        let taken: BTreeSet<u64> = jobs.iter().flat_map(|job| rows(&world, job)).collect();
        assert_eq!(taken, [0, 1, 2].into(), "round {round}");
        for task in jobs[1..].iter().flatten() {
            while world.cpu_of(*task).is_none() {
                world.run_ms(1);
            }
            let cpu = world.cpu_of(*task).unwrap();
            world.leave(cpu, Leave::Exit);
        }
    }
}
