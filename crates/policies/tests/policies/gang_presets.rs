// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `policies/gang`: freed cells, tasks that share a cell (preset `fifo`), and processes as jobs (preset
//! `spaces`).

use crate::gang::{end, running, sleep, world};
use crate::world::{MS, World, only};
use ids::{CpuId, TaskId};
use kernel_model::{CgroupId, Identity, Leave, TaskAttributes};
use launch_profile::WorkloadFacts;
use machine_model::Machine;
use std::collections::BTreeSet;

/// Returns the rows into which the tasks of a job were last queued.
fn rows(world: &World, job: &[TaskId]) -> BTreeSet<u64> {
    job.iter().map(|task| world.last_queued(*task).dsq / u64::from(world.cpus())).collect()
}

/// Returns the rows in which job number `job` has cells; 1 is the job of the first cgroup. Unlike `rows()`, this also
/// covers tasks that keep running.
fn rows_held(world: &World, job: u32) -> BTreeSet<usize> {
    let cells = world.numbers("cells");
    let held = cells.chunks(2).enumerate().filter(|(_, cell)| cell[0] == job + 1);
    held.map(|(number, _)| number / world.cpus() as usize).collect()
}

/// Point 8 of `gang.bpf.c`: when a job ends, the last row is emptied, and a job that moves up does so as a whole: it
/// never runs in part.
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

/// Point 8 of `gang.bpf.c`: a job that does not fit into the freed cells stays, and a later one that fits moves
/// there.
#[test]
fn job_that_does_not_fit_stays_and_a_later_one_moves_up() {
    let (mut world, jobs, _) = one_by_one(&[2, 2, 3, 2]);
    let all = |world: &World| jobs.iter().map(|job| rows(world, job)).collect::<Vec<_>>();
    assert_eq!(all(&world), [0, 0, 1, 2].map(|row| [row].into()));
    end(&mut world, &jobs[0]);
    world.run_ms(2_000);
    assert_eq!(all(&world)[1..], [0, 1, 0].map(|row| [row].into()));
    // The two rows now have all the time, apart from alternates in the gaps.
    let mut whole = [0; 4];
    for _ in 0..2_000 {
        for (whole, (running, job)) in whole.iter_mut().zip(running(&world, &jobs).into_iter().zip(&jobs)) {
            *whole += usize::from(running == job.len());
        }
        world.run_ms(1);
    }
    assert!(whole[1..].iter().all(|whole| *whole >= 980), "{whole:?}");
}

/// Starts two jobs of this size, one after the other; the last task of the second one may be pinned.
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

/// Wakes new tasks for the first time.
fn wake_new(world: &mut World, tasks: &[TaskId]) {
    for task in tasks {
        world.kernel.wake_new(CpuId(0), *task);
        world.settle();
    }
}

/// Point 8 of `gang.bpf.c`: a job with a pinned task stays in its row, though another row has enough free cells.
#[test]
fn job_with_a_pinned_task_does_not_move_up() {
    for bound in [true, false] {
        let mut world = World::new("gang", "node:1 l3:1 core:2 pu:1", 1000);
        let tasks = two_jobs(&mut world, 2, bound);
        assert_eq!([1, 2].map(|job| rows_held(&world, job)), [[0].into(), [1].into()]);
        // One task outside any job remains, so that there are other slots.
        let attributes = world.attributes();
        world.spawn(0, attributes);
        end(&mut world, &tasks[..2]);
        world.run_ms(3_000);
        assert_eq!(rows_held(&world, 2), [usize::from(bound)].into(), "bound: {bound}");
        // The job's number is reused later by a job without pinned tasks.
        if bound {
            world.kernel.set_affinity(CpuId(0), tasks[3], &only(&[0, 1])).unwrap();
            world.settle();
            end(&mut world, &tasks[2..]);
        }
    }
}

/// Point 8 of `gang.bpf.c`: the job stays, too, when an unpinned task of it leaves, because the pinned one remains.
#[test]
fn job_does_not_move_up_while_its_pinned_task_remains() {
    for (size, bound) in [(2, true), (3, true), (3, false), (2, false)] {
        let mut world = World::new("gang", &format!("node:1 l3:1 core:{size} pu:1"), 1000);
        let tasks = two_jobs(&mut world, size, bound);
        let (first, second) = tasks.split_at(size);
        assert_eq!([1, 2].map(|job| rows_held(&world, job)), [[0].into(), [1].into()]);
        // Together with another task, it runs in the slots of tasks outside any job.
        world.place(&second[..1], CgroupId::ROOT);
        let attributes = world.attributes();
        world.spawn(0, attributes);
        world.run_ms(1_000);
        end(&mut world, first);
        world.run_ms(3_000);
        assert_eq!(rows_held(&world, 2), [usize::from(bound)].into(), "bound: {bound}, size {size}");
    }
}

/// Point 2 of `gang.bpf.c`: a job of one pinned task goes into the first row whose column for that CPU is free.
#[test]
fn pinned_job_goes_into_the_first_row_with_its_column_free() {
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
        assert!((0..number / 4).all(taken), "an earlier row is free in column {cpu}: {:?}", &cells[..32]);
    }
}

/// Point 2 of `gang.bpf.c`: columns assigned to tasks that have not reached their row yet are not free for others.
/// Otherwise jobs would take them from each other, change rows forever and never run as a whole.
#[test]
fn job_placement_reaches_a_fixed_point() {
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

/// Returns the rows of the first `count` jobs from the policy's table; `struct gang` has the words row, tasks,
/// placed, moves, is_bound.
fn rows_of_jobs(world: &World, count: usize) -> Vec<u32> {
    const WORDS: usize = 5;
    let gangs = world.numbers("gangs");
    (1..=count).map(|job| gangs[WORDS * job]).collect()
}

/// Starts jobs of these sizes on four CPUs, 1 s apart so that they are placed in this order. Returns their tasks and
/// cgroups as well.
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

/// Adds `count` sleeping tasks to a cgroup.
fn add_sleepers(world: &mut World, count: usize, group: CgroupId) {
    let attributes = world.attributes();
    let sleepers = asleep(world, count, &attributes);
    world.place(&sleepers, group);
}

/// Point 2 of `gang.bpf.c`: columns reserved for tasks without a cell yet are not free for a job that would move up.
#[test]
fn reserved_columns_are_not_free_for_other_jobs() {
    for (sleepers, size, moves) in [(0, 3, true), (1, 3, false), (1, 2, true), (2, 1, true), (3, 1, false)] {
        let (mut world, jobs, groups) = one_by_one(&[1, 3, size]);
        assert_eq!(rows_of_jobs(&world, 3), [0, 0, 1]);
        add_sleepers(&mut world, sleepers, groups[0]);
        end(&mut world, &jobs[1]);
        world.run_ms(8_000);
        assert_eq!(rows_of_jobs(&world, 3)[2], u32::from(!moves), "{sleepers} sleeping, {size} waiting");
    }
}

/// Point 2 of `gang.bpf.c`: a job none of whose tasks has a cell reserves no columns, even if earlier tasks of it had
/// some.
#[test]
fn job_without_cells_reserves_no_columns() {
    let (mut world, jobs, groups) = one_by_one(&[4, 4]);
    assert_eq!(rows_of_jobs(&world, 2), [0, 1]);
    add_sleepers(&mut world, 4, groups[0]);
    end(&mut world, &jobs[0]);
    world.run_ms(8_000);
    assert_eq!(rows_of_jobs(&world, 2), [0, 0]);
}

/// Point 8 of `gang.bpf.c`: at most one job moves up in each slot, also if several rows have room; after a cell
/// becomes free, each row is scanned once, when its slot ends.
#[test]
fn each_row_is_scanned_once_after_a_cell_is_freed() {
    for sizes in [&[4, 2, 2][..], &[4, 4, 2, 2]] {
        let (mut world, jobs, _) = one_by_one(sizes);
        world.run_ms(10_000);
        assert_eq!(world.numbers("unpacked"), [0]);
        // The jobs' tasks leave their cgroups, which frees their cells at the same moment.
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

/// Returns the run intervals of CPU 0: task and length in ms.
fn run_intervals(world: &mut World, ms: u64) -> Vec<(TaskId, u64)> {
    let mut intervals: Vec<(TaskId, u64)> = vec![];
    for _ in 0..ms {
        let now = world.running(0);
        match intervals.last_mut() {
            Some((task, ms)) if *task == now => *ms += 1,
            _ => intervals.push((now, 1)),
        }
        world.run_ms(1);
    }
    intervals
}

/// Point 7 of `gang.bpf.c`: within its job's slot the running task of a cell continues until it sleeps, also after
/// slots of other jobs; then the one that has waited longest runs. Without the preset they alternate in slices of 20
/// ms.
#[test]
fn fifo_preset_runs_a_cells_task_until_it_sleeps() {
    let (mut world, jobs) = world("gang@fifo", 1, &[3, 1], 0);
    let job = &jobs[0];
    let ran: Vec<u64> = job.iter().map(|task| world.ran_ms(*task)).collect();
    let first = job[(0..3).max_by_key(|at| ran[*at]).unwrap()];
    let of_job = |intervals: &[(TaskId, u64)]| -> BTreeSet<TaskId> {
        intervals.iter().map(|(task, _)| *task).filter(|task| job.contains(task)).collect()
    };
    let seen = run_intervals(&mut world, 2_000);
    assert_eq!(of_job(&seen), [first].into(), "{seen:?}");
    assert!(seen[1..seen.len() - 1].iter().all(|(_, ms)| (98..=102).contains(ms)), "{seen:?}");
    // The next task runs at once, and the first one is queued last when it wakes.
    sleep(&mut world, &[first]);
    let second = world.running(0);
    assert!(job.contains(&second) && second != first);
    world.run_ms(5);
    world.wake(0, first, false);
    assert_eq!(of_job(&run_intervals(&mut world, 1_000)), [second].into());
    sleep(&mut world, &[second]);
    let third = world.running(0);
    assert!(job.contains(&third) && third != first);
    assert_eq!(of_job(&run_intervals(&mut world, 1_000)), [third].into());
    sleep(&mut world, &[third]);
    assert_eq!(of_job(&run_intervals(&mut world, 1_000)), [first].into());
    let (mut world, jobs) = self::world("gang", 1, &[3, 1], 0);
    let seen = run_intervals(&mut world, 2_000);
    assert!(seen[1..seen.len() - 1].iter().all(|(task, ms)| jobs[1].contains(task) || *ms == 20), "{seen:?}");
}

/// Point 7 of `gang.bpf.c`: the running task of a cell also continues when it runs as an alternate.
#[test]
fn fifo_preset_keeps_the_running_task_as_an_alternate() {
    let (mut world, jobs) = world("gang@fifo", 1, &[3, 1], 0);
    let alone = jobs[1][0];
    sleep(&mut world, &[alone]);
    let seen = run_intervals(&mut world, 1_000);
    assert_eq!(seen.len(), 1, "{seen:?}");
    let first = seen[0].0;
    world.wake(0, alone, false);
    let seen = run_intervals(&mut world, 1_000);
    assert_eq!(seen.iter().map(|(task, _)| *task).collect::<BTreeSet<_>>(), [first, alone].into());
}

/// Point 7 of `gang.bpf.c`: tasks queued behind it run for 1 ms after a wait of 10 s, and again 10 s later, so the
/// watchdog does not fire.
#[test]
fn fifo_preset_runs_waiting_tasks_every_11_s() {
    let (mut world, jobs) = world("gang@fifo", 2, &[5], 3);
    let all: Vec<TaskId> = jobs.iter().flatten().copied().collect();
    world.switches.clear();
    let begun = world.now_ns;
    let before: Vec<u64> = all.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(60_000);
    let ran: Vec<u64> = all.iter().zip(before).map(|(task, before)| world.ran_ms(*task) - before).collect();
    for (task, ran) in all.iter().zip(&ran) {
        let times = world.switches.iter().filter(|(_, began)| began == task).map(|(at, _)| *at);
        let times: Vec<u64> = [begun].into_iter().chain(times).collect();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("it ran");
        assert!(*ran > 20_000 || longest <= 11_200 * MS, "{ran} ms, {longest} ns");
    }
    let waited: Vec<u64> = ran[..5].iter().copied().filter(|ran| *ran < 20_000).collect();
    assert_eq!(waited.len(), 3, "two have the cells: {ran:?}");
    assert!(waited.iter().all(|ran| (5..=6).contains(ran)), "1 ms every 11 s: {ran:?}");
}

/// Point 7 of `gang.bpf.c`: overdue tasks are searched in every row.
#[test]
fn overdue_tasks_are_found_in_every_row() {
    let (mut world, jobs) = world("gang@fifo", 8, &[8, 8, 12], 0);
    world.switches.clear();
    world.run_ms(13_000);
    let began: BTreeSet<TaskId> = world.switches.iter().map(|(_, task)| *task).collect();
    assert!(jobs[2].iter().all(|task| began.contains(task)), "{began:?}");
}

/// Point 7 of `gang.bpf.c`: a task is overdue if it has waited for 10 s, to the nanosecond, at a search, which
/// happens every second from the load of the policy on.
#[test]
fn task_is_overdue_after_exactly_10_s() {
    for (late_ns, seconds) in [(0, 10), (5, 11)] {
        let machine = Machine { hz: 1000, ..Machine::from_synthetic("node:1 core:1 pu:1").unwrap() };
        let loaded = 500 * MS;
        let mut world = World::starting_at("gang@fifo", machine, (7, 2), &WorkloadFacts::default(), loaded);
        let attributes = vec![world.attributes()];
        let first = world.start(attributes);
        let group = world.group(CgroupId::ROOT, "job", 100);
        world.place(&first, group);
        world.run_until(loaded + 5_000 * MS + late_ns);
        let attributes = world.attributes();
        let second = world.spawn(0, attributes);
        world.place(&[second], group);
        world.switches.clear();
        world.run_ms(15_000);
        let began = world.switches.iter().find(|(_, task)| *task == second).expect("the task runs eventually").0;
        let looked = loaded + (5_000 + seconds * 1_000) * MS;
        assert!((looked..looked + 200 * MS).contains(&began), "{late_ns} ns: {began}, expected {looked}");
    }
}

/// Point 7 of `gang.bpf.c`: a task alone in its cell is not overdue, though 26 others have slots of 400 ms in the
/// meantime.
#[test]
fn lone_task_of_a_cell_is_not_overdue() {
    let (mut world, _) = world("gang@fifo,row_ms=400", 1, &[1; 27], 0);
    let seen = run_intervals(&mut world, 40_000);
    assert!(seen[1..seen.len() - 1].iter().all(|(_, ms)| (398..=402).contains(ms)), "{seen:?}");
    assert!(seen.len() >= 100);
}

/// Starts a process with this number of hogs as threads.
fn process(world: &mut World, threads: usize, attributes: &TaskAttributes) -> Vec<TaskId> {
    let tasks = asleep(world, threads, attributes);
    wake_new(world, &tasks);
    tasks
}

/// Creates a process whose threads have not been woken yet.
fn asleep(world: &mut World, threads: usize, attributes: &TaskAttributes) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = vec![];
    for _ in 0..threads {
        let identity = Identity { process: tasks.first().copied(), ..Identity::default() };
        let task = world.kernel.fork(CpuId(0), TaskAttributes { identity, ..attributes.clone() }).unwrap();
        tasks.push(task);
    }
    tasks
}

/// Points 1, 2 of `spaces.bpf.h`: processes run as a whole or not at all, whatever the cgroups of their tasks.
#[test]
fn spaces_preset_makes_processes_jobs() {
    let mut world = World::new("gang@spaces", "node:1 l3:1 core:4 pu:1", 1000);
    let attributes = world.attributes();
    let jobs: Vec<Vec<TaskId>> = (0..2).map(|_| process(&mut world, 4, &attributes)).collect();
    let group = world.group(CgroupId::ROOT, "half-of-each", 100);
    world.place(&[jobs[0][0], jobs[0][1], jobs[1][2], jobs[1][3]], group);
    world.run_ms(2_000);
    // A single row would look the same from here: eight tasks of one job in four cells, two in each.
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

/// Point 3 of `spaces.bpf.h`: a process gets one number when its first thread is enqueued.
#[test]
fn process_gets_one_number_with_its_first_thread() {
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

/// Point 2 of `spaces.bpf.h`: a process becomes a job with its second thread and stops being one with its last but
/// one. Single-threaded processes share a row.
#[test]
fn single_threaded_process_is_no_job() {
    [true, false].into_iter().for_each(one_thread_is_no_job);
}

/// `pair_first`: whether the process of two threads starts before the others; otherwise it starts last, with one
/// thread.
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
        // The job becomes a pair only now: its process gets a second thread.
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
    // One of the pair exits: the other becomes one of three tasks that share two cells.
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
    assert_eq!(world.last_queued(thread).dsq, 4096, "a kthread is outside any job");
}

/// Point 3 of `spaces.bpf.h`: numbers are reused. More processes than there are numbers start in pairs beside one
/// that stays; each has a row and a third of the time. Without free numbers they would share one job.
#[test]
fn process_numbers_are_reused() {
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
