// SPDX-License-Identifier: GPL-2.0-only
//! Active balancing of the fair class: a running task leaves a busy core, LLC or node.

use crate::bench::{Bench, TICK, flat, probe};
use ids::{CpuId, Nanos, Policy, TaskId, Topology};

/// Ticks in 10 s.
const TEN_SECONDS: usize = (Nanos::from_secs(10).0 / TICK.0) as usize;

const VERSIONS: [(u16, u16); 2] = [(6, 18), (7, 2)];

/// Two cores with two hardware threads each, CPUs 0-1 and 2-3.
fn two_cores() -> Topology {
    Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4])
}

/// A machine and its fair tasks, all of which are endless.
struct Hogs {
    bench: Bench,
    cpus: u32,
    tasks: Vec<TaskId>,
    /// Number of migrations of running tasks.
    moves: usize,
}

impl Hogs {
    /// Starts a task on each of these CPUs, and frees all tasks at once.
    fn packed(version: (u16, u16), topology: Topology, on: &[u32]) -> Hogs {
        let mut hogs = Hogs::pinned(version, topology, on);
        (0..on.len()).for_each(|task| hogs.allow(task, "0-63"));
        hogs
    }

    /// Starts a task on each of these CPUs, pinned there.
    fn pinned(version: (u16, u16), topology: Topology, on: &[u32]) -> Hogs {
        let cpus = topology.len() as u32;
        let mut bench = Bench::load_in(version, topology, &probe(&[]), |_| ()).expect("the probe loads");
        let mut tasks = Vec::new();
        for cpu in on {
            let task = bench.fork("hog", &cpu.to_string(), Policy::Other, 0);
            bench.kernel.wake_new(CpuId(0), task);
            bench.settle();
            tasks.push(task);
        }
        Hogs { bench, cpus, tasks, moves: 0 }
    }

    fn allow(&mut self, task: usize, cpus: &str) {
        self.bench.kernel.set_affinity(CpuId(0), self.tasks[task], &cpus.parse().unwrap()).unwrap();
        self.bench.settle();
    }

    /// CPU of each task.
    fn places(&self) -> Vec<u32> {
        self.tasks.iter().map(|&task| self.bench.kernel.task_cpu(task).0).collect()
    }

    /// Number of tasks on these CPUs.
    fn on(&self, cpus: std::ops::Range<u32>) -> usize {
        self.places().iter().filter(|cpu| cpus.contains(cpu)).count()
    }

    fn is_running(&self, task: TaskId) -> bool {
        (0..self.cpus).any(|cpu| self.bench.kernel.current(CpuId(cpu)) == task)
    }

    /// One tick on each busy CPU.
    fn tick(&mut self) {
        let before = self.places();
        let ran: Vec<bool> = self.tasks.iter().map(|&task| self.is_running(task)).collect();
        let busy = |cpu: &u32| self.bench.kernel.current(CpuId(*cpu)) != TaskId::NONE;
        let busy: Vec<u32> = (0..self.cpus).filter(busy).collect();
        self.bench.run(&busy, TICK);
        self.moves += before.iter().zip(self.places()).zip(ran).filter(|((a, b), ran)| *a != b && *ran).count();
    }

    /// Runs until a task has moved; returns the number of ticks, at most 1000.
    fn ticks_until_moved(&mut self) -> usize {
        let before = self.moves;
        (1..=1000)
            .find(|_| {
                self.tick();
                self.moves > before
            })
            .unwrap_or(1000)
    }
}

/// `need_active_balance`: the fourth failed pass over the LLC moves a task (`cache_nice_tries` is 1). The first pass is
/// due after 8 ms (two per CPU), the next ones each 4 ms later, which is one tick.
#[test]
fn running_task_leaves_a_shared_core_at_the_fourth_failed_pass() {
    for version in VERSIONS {
        let mut hogs = Hogs::packed(version, two_cores(), &[0, 1]);
        assert_eq!(hogs.on(0..2), 2);
        assert_eq!(hogs.ticks_until_moved(), 5, "{version:?}");
        assert_eq!((hogs.on(0..2), hogs.on(2..4)), (1, 1), "{version:?}");
        assert!(hogs.tasks.iter().all(|&task| hogs.is_running(task)), "{version:?}: the task runs there at once");
    }
}

#[test]
fn two_endless_tasks_are_moved_once_in_10_s() {
    for version in VERSIONS {
        let mut hogs = Hogs::packed(version, two_cores(), &[0, 1]);
        (0..TEN_SECONDS).for_each(|_| hogs.tick());
        assert_eq!((hogs.moves, hogs.on(0..2)), (1, 1), "{version:?}");
    }
}

#[test]
fn no_running_task_moves_on_a_full_machine_or_between_cores_that_differ_by_one() {
    for version in VERSIONS {
        for on in [&[0, 1, 2, 3][..], &[0, 1, 2]] {
            let mut hogs = Hogs::packed(version, two_cores(), on);
            (0..TEN_SECONDS).for_each(|_| hogs.tick());
            assert_eq!(hogs.moves, 0, "{version:?}: tasks on {on:?}");
        }
    }
}

/// A core whose fourth thread runs nothing is not idle: three tasks on two cores are balanced, three tasks on one of
/// two cores with four threads are not.
#[test]
fn tasks_spread_until_cores_differ_by_one() {
    let wide = || Topology::of_groups(&[0, 0, 0, 0, 1, 1, 1, 1], &[0; 8], &[0; 8]);
    for (on, left) in [(&[0, 1, 2][..], 2), (&[0, 1, 2, 3], 2), (&[0, 1, 4], 2), (&[0, 1, 2, 4], 2)] {
        let mut hogs = Hogs::packed((7, 2), wide(), on);
        (0..1000).for_each(|_| hogs.tick());
        assert_eq!(hogs.on(0..4), left, "tasks on {on:?}");
    }
}

#[test]
fn running_task_pinned_to_its_core_stays() {
    for version in VERSIONS {
        let mut hogs = Hogs::pinned(version, two_cores(), &[0, 1]);
        (0..2).for_each(|task| hogs.allow(task, "0-1"));
        (0..1000).for_each(|_| hogs.tick());
        assert_eq!((hogs.moves, hogs.on(0..2)), (0, 2), "{version:?}");
        hogs.allow(1, "0-3");
        // The kernel chooses CPU 0, the first with the most tasks, whose task is pinned.
        (0..1000).for_each(|_| hogs.tick());
        assert_eq!(hogs.moves, 0, "{version:?}");
        hogs.allow(0, "0-3");
        assert!(hogs.ticks_until_moved() <= 2, "{version:?}: the passes have failed before");
    }
}

/// A pass that finds no imbalance resets the number of failed ones. Core 2 is idle, and the task of core 1 is pinned: it
/// makes the passes happen while only one task of core 0 runs.
#[test]
fn failed_passes_count_only_in_a_row() {
    let three_cores = Topology::of_groups(&[0, 0, 1, 1, 2, 2], &[0; 6], &[0; 6]);
    let mut hogs = Hogs::pinned((7, 2), three_cores, &[0, 1, 2]);
    let second = hogs.tasks[1];
    hogs.allow(0, "0-5");
    for round in 0..20 {
        // A pass at once, and one every 6 ms (two ticks) after it.
        hogs.allow(1, "0-5");
        (0..5).for_each(|_| hogs.tick());
        assert_eq!(hogs.on(0..2), 2, "round {round}");
        hogs.bench.block(second);
        (0..8).for_each(|_| hogs.tick());
        hogs.allow(1, "1");
        hogs.bench.wake(second);
    }
    hogs.allow(1, "0-5");
    assert!(hogs.ticks_until_moved() <= 9);
}

/// `imbalanced_active_balance`: the waiting task is pinned, so the running one moves.
#[test]
fn running_task_moves_if_the_waiting_one_is_pinned() {
    for version in VERSIONS {
        let mut hogs = Hogs::pinned(version, flat(2), &[0, 0]);
        // The first task has nearly all of the CPU time.
        for (task, nice) in [(0, -20), (1, 19)] {
            hogs.bench.kernel.set_policy(CpuId(0), hogs.tasks[task], Policy::Other, nice).unwrap();
            hogs.bench.settle();
        }
        (0..4).for_each(|_| hogs.tick());
        assert!(hogs.is_running(hogs.tasks[0]), "{version:?}");
        hogs.allow(0, "0-1");
        // Each tick is a pass, the interval being 2 ms.
        let ticks = hogs.ticks_until_moved();
        assert_eq!((ticks, hogs.places()), (4, vec![1, 0]), "{version:?}");
    }
}

#[test]
fn single_threads_of_one_llc_keep_their_tasks() {
    for cpus in [2, 4] {
        let mut hogs = Hogs::packed((7, 2), flat(cpus), &[0, 1]);
        (0..1000).for_each(|_| hogs.tick());
        assert_eq!(hogs.moves, 0, "{cpus} CPUs");
    }
}

/// SD_PREFER_SIBLING: tasks spread over the LLCs of a node.
#[test]
fn tasks_spread_over_the_llcs_of_a_node() {
    for version in VERSIONS {
        let topology = Topology::of_groups(&[0, 1, 2, 3], &[0, 0, 1, 1], &[0; 4]);
        let mut hogs = Hogs::packed(version, topology, &[0, 1]);
        (0..TEN_SECONDS).for_each(|_| hogs.tick());
        assert_eq!((hogs.on(0..2), hogs.moves), (1, 1), "{version:?}");
    }
}

/// `adjust_numa_imbalance`: two tasks stay together on a node of four CPUs, four do not.
#[test]
fn small_imbalance_between_nodes_is_tolerated() {
    let topology =
        || Topology::of_groups(&[0, 1, 2, 3, 4, 5, 6, 7], &[0, 0, 0, 0, 1, 1, 1, 1], &[0, 0, 0, 0, 1, 1, 1, 1]);
    for (on, left) in [(&[0, 1][..], 2), (&[0, 1, 2], 2), (&[0, 1, 2, 3], 2), (&[0, 1, 2, 4], 2)] {
        let mut hogs = Hogs::packed((7, 2), topology(), on);
        (0..TEN_SECONDS).for_each(|_| hogs.tick());
        assert_eq!(hogs.on(0..4), left, "tasks on {on:?}");
        assert!(hogs.moves <= 2, "tasks on {on:?}: {} moves", hogs.moves);
    }
}

/// `update_sd_pick_busiest` and ASYM_CPUCAPACITY: two fast CPUs with a task each keep them.
#[test]
fn slow_cpus_pull_no_running_task_from_fast_ones() {
    let mut topology = Topology::of_groups(&[0, 1, 2, 3], &[0, 0, 1, 1], &[0; 4]);
    topology.capacities = vec![1024, 1024, 400, 400];
    let mut hogs = Hogs::packed((7, 2), topology.clone(), &[0, 1]);
    (0..1000).for_each(|_| hogs.tick());
    assert_eq!(hogs.moves, 0);
    let mut hogs = Hogs::packed((7, 2), topology, &[2, 3]);
    (0..1000).for_each(|_| hogs.tick());
    assert_eq!(hogs.on(0..2), 1, "fast CPUs pull from slow ones");
}

#[test]
fn cpu_that_went_offline_gets_no_running_task() {
    let mut hogs = Hogs::packed((7, 2), two_cores(), &[0, 1]);
    for _ in 0..4 {
        hogs.tick();
    }
    hogs.bench.offline(2);
    hogs.bench.offline(3);
    (0..100).for_each(|_| hogs.tick());
    assert_eq!(hogs.on(0..2), 2);
    hogs.bench.online(3);
    hogs.ticks_until_moved();
    assert_eq!((hogs.on(0..2), hogs.on(3..4)), (1, 1));
}
