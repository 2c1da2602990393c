// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/gang`. A row's slot lasts 100 ms.

use crate::world::{MS, World, only};
use ids::{CpuId, TaskId};
use kernel_model::{CgroupId, TaskAttributes};
use launch_profile::WorkloadFacts;
use machine_model::Machine;
use std::collections::BTreeSet;

/// Returns a machine whose CPUs share one cache, running jobs with these numbers of hogs, and the tasks of each job.
/// The last entry holds the `more` hogs outside any job.
pub fn world(spec: &str, cpus: u32, jobs: &[usize], more: usize) -> (World, Vec<Vec<TaskId>>) {
    let mut world = World::new(spec, &format!("node:1 l3:1 core:{cpus} pu:1"), 1000);
    let count = jobs.iter().sum::<usize>() + more;
    let attributes = vec![world.attributes(); count];
    let mut tasks = world.start(attributes);
    let mut all: Vec<Vec<TaskId>> = vec![];
    for (number, size) in (0..).zip(jobs) {
        let group = world.group(CgroupId::ROOT, &format!("j{number}"), 100);
        let job: Vec<TaskId> = tasks.drain(..*size).collect();
        world.place(&job, group);
        all.push(job);
    }
    all.push(tasks);
    // All rows have had a slot by now, and every task is in its cell.
    world.run_ms(2_000);
    (world, all)
}

/// Returns the number of running tasks of each job.
pub fn running(world: &World, jobs: &[Vec<TaskId>]) -> Vec<usize> {
    jobs.iter().map(|job| job.iter().filter(|task| world.cpu_of(**task).is_some()).count()).collect()
}

/// Blocks all of these tasks, each as soon as it runs.
pub fn sleep(world: &mut World, tasks: &[TaskId]) {
    for task in tasks {
        while world.cpu_of(*task).is_none() {
            world.run_ms(1);
        }
        world.block(*task);
    }
}

/// Ends a job: its tasks leave the cgroup and sleep.
pub fn end(world: &mut World, job: &[TaskId]) {
    world.place(job, CgroupId::ROOT);
    sleep(world, job);
}

/// Points 1 to 3 of `gang.bpf.c`: jobs with as many hogs as there are CPUs run as a whole or not at all, half of the
/// time each.
#[test]
fn job_runs_as_a_whole_or_not_at_all() {
    for cpus in [2, 4, 8] {
        let (mut world, jobs) = world("gang", cpus, &[cpus as usize; 2], 0);
        let mut whole = [0; 2];
        for _ in 0..4_000 {
            let running = running(&world, &jobs);
            assert!(running[..2] == [cpus as usize, 0] || running[..2] == [0, cpus as usize], "{running:?}");
            whole[usize::from(running[0] == 0)] += 1;
            world.run_ms(1);
        }
        assert!((1_960..=2_040).contains(&whole[0]), "{whole:?}");
    }
}

/// Point 2 of `gang.bpf.c`: small jobs share a row if they fit: 2 and 2 tasks on 4 CPUs run all the time.
#[test]
fn small_jobs_share_a_row() {
    let (mut world, jobs) = world("gang", 4, &[2, 2], 0);
    for _ in 0..500 {
        assert_eq!(running(&world, &jobs)[..2], [2, 2]);
        world.run_ms(1);
    }
}

/// Point 4 of `gang.bpf.c`: a CPU without a task in the current row runs its cell of another row (an alternate). No
/// CPU is idle, and the tasks of each row's own job still run together.
#[test]
fn alternates_fill_idle_cpus_of_a_row() {
    let (mut world, jobs) = world("gang", 4, &[3, 2], 0);
    let mut whole = [0; 2];
    for _ in 0..2_000 {
        let running = running(&world, &jobs);
        assert_eq!(running.iter().sum::<usize>(), 4);
        whole[0] += usize::from(running[0] == 3);
        whole[1] += usize::from(running[1] == 2);
        world.run_ms(1);
    }
    assert!(whole[0] >= 980 && whole[1] >= 980, "{whole:?}");
}

/// Point 4 of `gang.bpf.c`: if several CPUs have no task in the current row, their alternates belong to the same job.
/// During the slot of the task outside any job, they belong to one of the first two jobs, also on the CPU that has
/// just run one of them during the third job's slot.
#[test]
fn alternates_belong_to_one_job() {
    let (mut world, jobs) = world("gang", 4, &[4, 4, 3], 1);
    let mut turns = 0;
    for _ in 0..2_000 {
        let running = running(&world, &jobs);
        turns += running[3];
        assert!(running[3] == 0 || running[..3].contains(&3), "{running:?}");
        world.run_ms(1);
    }
    assert!((480..=520).contains(&turns), "{turns}");
}

/// Point 4 of `gang.bpf.c`: each CPU keeps its own flag for running an alternate.
#[test]
fn alternates_of_several_cpus_are_preempted() {
    let (mut world, jobs) = world("gang", 2, &[2, 2], 0);
    while running(&world, &jobs)[0] != 2 {
        world.run_ms(1);
    }
    world.run_ms(10);
    let places: Vec<(TaskId, u32)> = jobs[0].iter().map(|task| (*task, world.cpu_of(*task).unwrap())).collect();
    for (task, _) in &places {
        world.block(*task);
    }
    assert_eq!(running(&world, &jobs)[..2], [0, 2]);
    for (task, cpu) in places.into_iter().rev() {
        world.wake(cpu, task, false);
        assert_eq!(world.cpu_of(task), Some(cpu));
    }
}

/// Points 4, 5 of `gang.bpf.c`: an alternate runs in preference to a task outside any job that has no other free CPU,
/// as soon as that task's slice is over, also if the alternate's row precedes the current one.
#[test]
fn alternate_runs_before_tasks_outside_any_job() {
    let (mut world, jobs) = world("gang", 3, &[3], 2);
    let [single, free] = jobs[1][..] else { unreachable!("two of no job") };
    let group = world.group(CgroupId::ROOT, "single", 100);
    world.place(&[single], group);
    // In the slot of the single task, two tasks of the job are alternates on the other CPUs.
    let alternate = |world: &World| {
        let beside = jobs[0].iter().find(|task| world.cpu_of(**task).is_some())?;
        world.cpu_of(single).map(|_| (*beside, world.cpu_of(*beside).unwrap()))
    };
    let next_turn = |world: &mut World| {
        while alternate(world).is_some() {
            world.run_ms(1);
        }
        while alternate(world).is_none() {
            world.run_ms(1);
        }
    };
    next_turn(&mut world);
    let (beside, cpu) = alternate(&world).unwrap();
    let taken = world.cpu_of(single).unwrap();
    world.kernel.set_affinity(CpuId(cpu), free, &only(&[cpu, taken])).unwrap();
    world.settle();
    next_turn(&mut world);
    let row = |task| world.last_queued(task).dsq / 3;
    assert_eq!((row(beside), row(single)), (0, 1));
    world.run_ms(5);
    world.block(beside);
    assert_eq!(world.running(cpu), free);
    world.wake(cpu, beside, false);
    assert_eq!(world.running(cpu), free, "a running task keeps its slice");
    world.run_ms(25);
    assert_eq!((world.running(cpu), world.cpu_of(single).is_some()), (beside, true));
}

/// Point 4 of `gang.bpf.c`: while a task sleeps its CPU runs an alternate, which is preempted at once when the task
/// wakes, but only during the slot of the task's row.
#[test]
fn alternate_is_preempted_when_the_rows_task_wakes() {
    let (mut world, jobs) = world("gang", 2, &[2, 2], 0);
    while running(&world, &jobs)[0] != 2 {
        world.run_ms(1);
    }
    world.run_ms(10);
    assert_eq!(running(&world, &jobs)[..2], [2, 0]);
    let sleeper = jobs[0][1];
    let cpu = world.cpu_of(sleeper).unwrap();
    world.block(sleeper);
    assert_eq!(running(&world, &jobs)[..2], [1, 1]);
    world.run_ms(10);
    world.wake(cpu, sleeper, false);
    assert_eq!((running(&world, &jobs), world.cpu_of(sleeper)), (vec![2, 0, 0], Some(cpu)));
    // In the slot of the other job, the task waits for the slot of its own job.
    world.block(sleeper);
    while running(&world, &jobs)[1] != 2 {
        world.run_ms(1);
    }
    world.wake(cpu, sleeper, false);
    assert_eq!(running(&world, &jobs)[..2], [0, 2]);
}

/// Point 5 of `gang.bpf.c`: tasks outside any job have a slot of their own, like a row, and CPUs without other work
/// run them at any time.
#[test]
fn tasks_outside_any_job_have_a_slot() {
    let (mut world, jobs) = world("gang", 4, &[4, 4], 4);
    let before: Vec<u64> = jobs.iter().map(|job| job.iter().map(|task| world.ran_ms(*task)).sum()).collect();
    world.run_ms(6_000);
    for (job, before) in jobs.iter().zip(before) {
        let ran: u64 = job.iter().map(|task| world.ran_ms(*task)).sum();
        assert!((ran - before).abs_diff(8_000) <= 400, "{}", ran - before);
    }
    let (mut world, jobs) = self::world("gang", 4, &[2], 2);
    for _ in 0..500 {
        assert_eq!(running(&world, &jobs), [2, 2]);
        world.run_ms(1);
    }
}

/// Point 2 of `gang.bpf.c`: all tasks of a job larger than the machine run, several of them in one cell, and no other
/// task runs during its slot.
#[test]
fn job_larger_than_the_machine_shares_cells() {
    let (mut world, jobs) = world("gang", 2, &[5, 2], 0);
    for _ in 0..2_000 {
        let running = running(&world, &jobs);
        assert!(running[..2] == [2, 0] || running[..2] == [0, 2], "{running:?}");
        world.run_ms(1);
    }
    assert!(jobs[0].iter().all(|task| world.ran_ms(*task) > 200), "{:?}", jobs[0]);
}

/// Returns the number of tasks in each cell of a job, the fullest cell first.
fn fillings(cpus: u32, tasks: usize, pinned: &[u32]) -> Vec<usize> {
    let mut world = World::new("gang", &format!("node:1 l3:1 core:{cpus} pu:1"), 1000);
    let mut attributes = vec![world.attributes(); tasks];
    attributes.extend(pinned.iter().map(|cpu| world.pinned(*cpu, 0)));
    let tasks = world.start(attributes);
    let group = world.group(CgroupId::ROOT, "large", 100);
    world.place(&tasks, group);
    world.run_ms(2_000);
    let mut cells = vec![0; cpus as usize];
    tasks.iter().for_each(|task| cells[world.last_queued(*task).dsq as usize % cpus as usize] += 1);
    cells.sort_unstable_by(|a, b| b.cmp(a));
    cells
}

/// Point 2 of `gang.bpf.c`: tasks beyond the number of CPUs are spread evenly, as far as they may use all CPUs.
#[test]
fn job_larger_than_the_machine_fills_its_cells_evenly() {
    let cases: [(u32, usize, &[usize]); 7] = [
        (2, 4, &[2, 2]),
        (2, 5, &[3, 2]),
        (3, 7, &[3, 2, 2]),
        (4, 6, &[2, 2, 1, 1]),
        (4, 9, &[3, 2, 2, 2]),
        (4, 16, &[4; 4]),
        (1, 3, &[3]),
    ];
    for (cpus, tasks, expected) in cases {
        assert_eq!(fillings(cpus, tasks, &[]), expected, "{tasks} on {cpus}");
    }
    assert_eq!(fillings(2, 1, &[0, 0, 0, 0]), [4, 1], "pinned tasks are in the cell of their CPU");
}

/// Point 2 of `gang.bpf.c`: cells of a job that ended are used by the next one.
#[test]
fn cells_of_tasks_that_left_are_reused() {
    let (mut world, jobs) = world("gang", 4, &[2, 4], 0);
    // The first job's tasks leave their cgroup: its row is empty, and the others get all time but the slots of the
    // common queue.
    world.place(&jobs[0], CgroupId::ROOT);
    let group = world.group(CgroupId::ROOT, "new", 100);
    world.place(&jobs[0], group);
    world.run_ms(2_000);
    let mut together = 0;
    for _ in 0..1_000 {
        together += usize::from(running(&world, &jobs)[0] == 2);
        world.run_ms(1);
    }
    assert!(together >= 490, "{together}");
}

/// Points 2, 3, 5 of `gang.bpf.c`: a task alone in its cell runs for the whole slot of the row; tasks that share a
/// cell, and tasks outside any job, run in slices of 20 ms.
#[test]
fn lone_task_of_a_cell_runs_the_whole_slot_others_20_ms() {
    let (mut world, jobs) = world("gang", 2, &[2, 3], 2);
    world.inserted.clear();
    world.run_ms(2_000);
    for (job, due) in jobs.iter().zip([&[100, 100][..], &[20, 20, 100], &[20, 20]]) {
        let mut slices: Vec<u64> = job.iter().map(|task| world.last_queued(*task).slice_ns).collect();
        slices.sort_unstable();
        assert_eq!(slices, due.iter().map(|ms| ms * MS).collect::<Vec<_>>());
    }
    let sleeper = jobs[2][0];
    while world.cpu_of(sleeper).is_none() {
        world.run_ms(1);
    }
    let others: Vec<TaskId> = jobs.iter().flatten().copied().filter(|task| *task != sleeper).collect();
    world.block(sleeper);
    sleep(&mut world, &others);
    world.wake(0, sleeper, false);
    assert_eq!(world.last_insert(sleeper).slice_ns, 20 * MS);
}

/// Points 2, 3 of `gang.bpf.c`: an empty row has no slot: of three jobs the remaining two get half of the time each.
#[test]
fn empty_row_gets_no_time_slot() {
    let (mut world, jobs) = world("gang", 2, &[2, 2, 2], 0);
    end(&mut world, &jobs[0]);
    let ran = |world: &World, job: &[TaskId]| job.iter().map(|task| world.ran_ms(*task)).sum::<u64>();
    let before = [1, 2].map(|job| ran(&world, &jobs[job]));
    world.run_ms(6_000);
    for (job, before) in jobs[1..3].iter().zip(before) {
        let ran = ran(&world, job) - before;
        assert!(ran.abs_diff(6_000) <= 400, "{ran}");
    }
}

/// Point 2 of `gang.bpf.c`: the next job uses the cells of an ended job and runs beside the first one.
#[test]
fn ended_job_frees_its_cells() {
    let (mut world, jobs) = world("gang", 4, &[2, 2], 2);
    end(&mut world, &jobs[1]);
    let group = world.group(CgroupId::ROOT, "next", 100);
    world.place(&jobs[2], group);
    world.run_ms(2_000);
    for _ in 0..500 {
        assert_eq!(running(&world, &jobs), [2, 0, 2]);
        world.run_ms(1);
    }
}

/// Points 1, 2 of `gang.bpf.c`: each of several machine-wide jobs gets its own row, and all run as a whole.
#[test]
fn many_machine_wide_jobs_have_a_row_each() {
    let (mut world, jobs) = world("gang", 4, &[4; 6], 0);
    let mut whole = [0; 6];
    for _ in 0..6_000 {
        let running = running(&world, &jobs);
        let at = running.iter().position(|tasks| *tasks == 4).unwrap_or_else(|| panic!("{running:?}"));
        whole[at] += 1;
        world.run_ms(1);
    }
    assert!(whole.iter().all(|whole| (950..=1_050).contains(whole)), "{whole:?}");
}

/// Point 4 of `gang.bpf.c`: alternates come from all rows.
#[test]
fn alternates_are_taken_from_any_row() {
    let (mut world, jobs) = world("gang", 4, &[4; 4], 0);
    sleep(&mut world, &jobs[..3].concat());
    for _ in 0..1_000 {
        assert_eq!(running(&world, &jobs)[3], 4, "no other task is awake");
        world.run_ms(1);
    }
}

/// Point 4 of `gang.bpf.c`: the same with an empty first row.
#[test]
fn alternates_run_even_if_the_first_row_is_empty() {
    let (mut world, mut jobs) = world("gang", 2, &[2], 0);
    // Both jobs have a pinned task, so neither moves to the first row.
    for number in 1..3 {
        let attributes = [world.attributes(), world.pinned(1, 0)];
        let job: Vec<TaskId> = attributes.into_iter().map(|one| world.spawn(0, one)).collect();
        let group = world.group(CgroupId::ROOT, &format!("bound{number}"), 100);
        world.place(&job, group);
        world.run_ms(1_000);
        jobs.insert(number, job);
    }
    end(&mut world, &jobs[0]);
    world.run_ms(2_000);
    let row = |task: &TaskId| world.last_queued(*task).dsq / 2;
    assert_eq!(jobs[1..3].concat().iter().map(row).collect::<Vec<_>>(), [1, 1, 2, 2]);
    while running(&world, &jobs)[1] != 2 {
        world.run_ms(1);
    }
    world.run_ms(10);
    world.block(jobs[1][0]);
    assert_eq!(running(&world, &jobs)[1..3], [1, 1]);
}

/// Point 5 of `gang.bpf.c`: a CPU without a task in the current row runs any task outside a job.
#[test]
fn tasks_outside_any_job_fill_idle_cpus() {
    let (mut world, all) = world("gang", 2, &[1], 3);
    for turn in 0..60 {
        let running = all[1].iter().copied().find(|task| world.cpu_of(*task).is_some()).expect("one of three");
        world.block(running);
        assert_eq!([0, 1].map(|cpu| world.running(cpu) == TaskId::NONE), [false; 2], "turn {turn}");
        world.wake(0, running, false);
        world.run_ms(17);
    }
}

/// Point 4 of `gang.bpf.c`: a task that continues as an alternate when its own row's slot ends is preempted like any
/// other alternate.
#[test]
fn task_continuing_as_an_alternate_is_preempted() {
    let (mut world, jobs) = world("gang", 2, &[2, 2], 0);
    while running(&world, &jobs)[1] != 2 {
        world.run_ms(1);
    }
    world.run_ms(10);
    let sleeper = jobs[1][1];
    let cpu = world.cpu_of(sleeper).unwrap();
    world.block(sleeper);
    while running(&world, &jobs)[0] != 2 {
        world.run_ms(1);
    }
    // The second job's slot starts, and the CPU of its sleeper has no other task.
    while running(&world, &jobs)[1] != 1 {
        world.run_ms(1);
    }
    assert_eq!(running(&world, &jobs)[..2], [1, 1]);
    world.run_ms(5);
    world.wake(cpu, sleeper, false);
    assert_eq!((running(&world, &jobs), world.cpu_of(sleeper)), (vec![0, 2, 0], Some(cpu)));
}

/// Points 3, 4 of `gang.bpf.c`: a task that continues during its own row's slot keeps the whole slot; outside it, it
/// is rescheduled after each slice.
#[test]
fn running_task_keeps_its_own_rows_slot_and_is_rescheduled_in_other_slots() {
    let (mut world, jobs) = world("gang,turn_us=10000", 2, &[2, 1], 0);
    let beside =
        *jobs[0].iter().find(|task| world.last_queued(**task).dsq % 2 == 1).expect("one is in the second column");
    let alone = jobs[1][0];
    while world.cpu_of(alone).is_none() {
        world.run_ms(1);
    }
    let cpu = world.cpu_of(beside).expect("the task runs as an alternate");
    // Number of reschedules of the CPU in the slots in which the other job is idle, and in those in which it runs.
    let mut rescheduled = [0, 0];
    for _ in 0..2_000 {
        world.rescheduled.clear();
        let out_of_turn = world.cpu_of(alone).is_some();
        world.run_ms(1);
        assert_eq!(world.running(cpu), beside, "this CPU has no other task");
        rescheduled[usize::from(out_of_turn)] += world.rescheduled.iter().filter(|other| other.0 == cpu).count();
    }
    // Each job has ten slots of 100 ms. The CPU is rescheduled once or twice in a slot of the running task's own row,
    // and about every 10 ms in a slot of the other row.
    assert!((9..=21).contains(&rescheduled[0]) && (90..=121).contains(&rescheduled[1]), "{rescheduled:?}");
}

/// Turns of 100 ms follow each other from the load of the policy on, whatever the time; kthreads run for 20 ms.
#[test]
fn row_slots_start_when_the_policy_is_loaded() {
    let begin = 5_000 * MS + 7;
    let machine = Machine::from_synthetic("node:1 core:2 pu:1").unwrap();
    let mut world = World::starting_at("gang", machine, (7, 2), &WorkloadFacts::default(), begin);
    for turn in 1..=20 {
        world.run_until(begin + 100 * turn * MS - 1);
        assert_eq!(world.armed, turn as usize);
        world.run_until(begin + 100 * turn * MS);
        assert_eq!(world.armed, turn as usize + 1);
    }
    let thread = TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(1)), ..world.pinned(1, 0) };
    let attributes = vec![world.pinned(1, 0), thread];
    let tasks = world.start(attributes);
    assert_eq!(world.last_insert(tasks[1]).slice_ns, 20 * MS);
}

/// The table of 4096 cells gives the largest machine exactly one row, with a cell for the last CPU.
#[test]
fn largest_machine_has_one_row() {
    let mut world = World::new("gang", "node:1 l3:1 core:4096 pu:1", 1000);
    let attributes = vec![world.pinned(4095, 0); 3];
    let tasks = world.start(attributes);
    let group = world.group(CgroupId::ROOT, "job", 100);
    world.place(&tasks[..2], group);
    world.run_ms(30);
    let cells: Vec<u64> = tasks.iter().map(|task| world.last_queued(*task).dsq).collect();
    assert_eq!(cells, [4095, 4095, 4096], "the last task is outside any job");
}

/// Point 2 of `gang.bpf.c`: first fit leaves gaps. Ten jobs of 1 to P tasks, uniformly distributed, leave 9.7, 13.3
/// and 16.0 % of the cells in their rows empty on 4, 8 and 16 CPUs (computed, not published), within 3 points.
#[test]
fn first_fit_leaves_10_to_16_percent_of_cells_empty() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) % below
    };
    for (cpus, due) in [(4_u64, 9.7), (8, 13.3), (16, 16.0)] {
        let (mut empty, mut all) = (0, 0);
        for _ in 0..20 {
            let sizes: Vec<usize> = (0..10).map(|_| draw(cpus) as usize + 1).collect();
            let (mut world, mut jobs) = world("gang", cpus as u32, &[], sizes.iter().sum());
            let mut tasks = jobs.remove(0);
            for (number, size) in sizes.into_iter().enumerate() {
                let group = world.group(CgroupId::ROOT, &format!("j{number}"), 100);
                let job: Vec<TaskId> = tasks.drain(..size).collect();
                world.place(&job, group);
                jobs.push(job);
                // All tasks of the job are in their cells before the next job starts.
                world.run_ms(100 * (jobs.len() as u64 + 2));
            }
            let cells: BTreeSet<u64> = jobs.iter().flatten().map(|task| world.last_queued(*task).dsq).collect();
            let rows = cells.iter().map(|cell| cell / cpus).collect::<BTreeSet<_>>().len() as u64;
            empty += rows * cpus - cells.len() as u64;
            all += rows * cpus;
        }
        let found = 100.0 * empty as f64 / all as f64;
        assert!((found - due).abs() < 3.0, "{cpus} CPUs: {found:.1} %, expected {due}");
    }
}
