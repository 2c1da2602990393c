// SPDX-License-Identifier: GPL-2.0-only
//! Memory in a run: makespans in closed form, accounts, and workloads on which it has no effect.

use crate::run_tests::{MS, play, sleep, spec, work, workload};
use crate::testing::free_machine;
use ids::{CpuId, CpuSet, Nanos};
use machine_model::{Bandwidth, Caches, Effect, Estimate, Machine, Numa, Remote};
use measures::NodeTraffic;
use workload::{MemoryUse, Op, Start, TaskSpec};

/// CPUs 0 and 1 below one cache, 2 and 3 below another one in another node. A line of 64 bytes costs 20 ns from the
/// last-level cache and 100 ns from memory; memory of the other node takes 1.5 times as long.
fn machine() -> Machine {
    let mut machine = free_machine(4);
    for (place, cpu) in machine.topology.places.iter_mut().zip(0..) {
        (place.llc, place.node) = (cpu / 2, cpu / 2);
    }
    machine.topology.distances = ids::Topology::default_distances(2);
    machine.effects.caches = Some(Caches {
        private_kb: 1_024,
        llc_kb: vec![8_192],
        line_bytes: 64,
        private_ns: Estimate::exactly(5),
        llc_ns: Estimate::exactly(25),
        memory_ns: Estimate::exactly(100),
        dirty_ns: [45, 85, 145].map(Estimate::exactly),
        overlap: Estimate::exactly(1),
    });
    let row = |distance, ns| Remote { distance, latency_ns: Estimate::exactly(ns) };
    machine.effects.numa = Some(Numa {
        latency_ns: vec![row(10, 100), row(20, 150)],
        placement: ids::Placement::FirstTouch,
        balance_ms: 1_000,
        move_page_ns: Estimate::exactly(0),
    });
    machine.effects.bandwidth = Some(Bandwidth {
        node_mb_s: Estimate::exactly(10_000),
        remote_mb_s: Estimate::exactly(10_000),
        slope_permille: Estimate::exactly(0),
        knee_permille: Estimate::exactly(0),
    });
    machine
}

fn on(cpu: u32) -> CpuSet {
    CpuSet::from_iter([CpuId(cpu)])
}

fn moved_to(cpu: u32) -> Op {
    Op::Change { cpus: Some(Box::new(on(cpu))), policy: None }
}

fn task(name: &str, cpu: u32, keys: &[(&str, &str)], script: Vec<Op>) -> TaskSpec {
    let mut memory = MemoryUse::default();
    keys.iter().for_each(|(key, value)| memory.set(key, value).unwrap());
    let memory = (!keys.is_empty()).then(|| Box::new(memory));
    TaskSpec { cpus: Some(on(cpu)), memory, ..spec(name, Start::At(Nanos(0)), script) }
}

/// 256 KiB are 4096 lines: moved to CPU 1 and back, they are loaded from the last-level cache once, as CPU 0 still has
/// them at the return.
#[test]
fn task_that_moves_loses_the_time_of_its_reload() {
    let script = vec![work(MS), moved_to(1), work(MS), moved_to(0), work(MS)];
    let played = play(&machine(), &workload(vec![task("t", 0, &[("footprint", "256K")], script)]));
    let measures = &played.outcome.measures;
    assert_eq!(measures.makespan, Some(Nanos(3 * MS + 4_096 * 20)));
    assert_eq!((measures.reload, measures.memory), (Some(Nanos(4_096 * 20)), Some(Nanos::ZERO)));
    assert_eq!((measures.cpu.reload, measures.cpu.slowed), (Nanos(4_096 * 20), Nanos::ZERO));
    let task = measures.tasks.iter().find(|task| task.name == "t").unwrap();
    assert_eq!((task.account.work, task.account.run), (Nanos(3 * MS), Nanos(3 * MS + 4_096 * 20)));
}

/// In 50 us a task on another core accesses 2000 of its 4096 lines, each in 25 ns. That is the work of 10 us, in which it would
/// hit them.
#[test]
fn work_that_ends_before_its_reload_advances_at_the_pace_of_misses() {
    let script = vec![work(MS), moved_to(1), work(10_000)];
    let played = play(&machine(), &workload(vec![task("t", 0, &[("footprint", "256K")], script)]));
    let measures = &played.outcome.measures;
    assert!(measures.makespan.unwrap().0.abs_diff(MS + 50_000) < 3, "{:?}", measures.makespan);
    assert!(measures.reload.unwrap().0.abs_diff(40_000) < 3, "{:?}", measures.reload);
}

/// To the other node: 4096 lines from memory that is 150 ns away, at half its time beyond.
#[test]
fn remote_memory_slows_a_task_and_its_bytes_are_counted() {
    let keys = [("footprint", "256K"), ("memory-share", "40"), ("stream", "1000")];
    let script = vec![work(MS), moved_to(2), work(120 * MS)];
    let played = play(&machine(), &workload(vec![task("t", 0, &keys, script)]));
    let measures = &played.outcome.measures;
    let reload = 4_096 * (20 + 125);
    let slower = 120 * MS / 10 * 2;
    let expected = MS + 120 * MS + reload + slower;
    assert!(measures.makespan.unwrap().0.abs_diff(expected) < 5_000, "{:?} for {expected}", measures.makespan);
    assert_eq!(measures.reload, Some(Nanos(reload)));
    assert!(measures.memory.unwrap().0.abs_diff(slower) < 5_000, "{:?}", measures.memory);
    let [home, other] = measures.memory_nodes.as_ref().unwrap()[..] else { panic!("two nodes") };
    assert_eq!(other, NodeTraffic::default());
    assert_eq!(home.local_bytes, 1_000_000, "1 GB/s for a millisecond");
    // The set, and 1 GB/s slowed by 1.2 during the rest.
    assert!(home.remote_bytes.abs_diff(256 * 1_024 + 120_000_000) < 1_500_000, "{home:?}");
}

/// Four streamers of 5 GB/s at a node of 10 GB/s take twice as long; a task that computes is not slowed.
#[test]
fn streamers_in_a_run_share_the_bandwidth() {
    let mut machine = machine();
    machine.effects.switch_off(Effect::Numa);
    let keys = [("stream", "5000"), ("placement", "node:0")];
    let mut tasks: Vec<TaskSpec> = (0..4).map(|cpu| task("s", cpu, &keys, vec![work(100 * MS)])).collect();
    let took = |tasks: &[TaskSpec]| {
        let measures = play(&machine, &workload(tasks.to_vec())).outcome.measures;
        let memory = measures.memory.unwrap().0;
        (measures.makespan.unwrap().0, memory)
    };
    let (makespan, memory) = took(&tasks);
    // Rates change after 100 us.
    assert!(makespan.abs_diff(200 * MS) < MS / 5 && memory.abs_diff(400 * MS) < MS, "{makespan} {memory}");
    tasks[3] = task("c", 3, &[("footprint", "4K")], vec![work(100 * MS)]);
    assert!(took(&tasks[3..]).0.abs_diff(100 * MS) < 1_000);
    assert!(took(&tasks).0.abs_diff(150 * MS) < MS / 5, "three streamers");
}

#[test]
fn workload_without_memory_runs_as_on_a_machine_without_it() {
    let script = vec![work(MS), sleep(MS), moved_to(1), work(MS), moved_to(3), work(MS)];
    let plain = workload(vec![task("a", 0, &[], script.clone()), task("b", 1, &[], script.clone())]);
    let with = play(&machine(), &plain);
    let without = play(&machine().without_effects(), &plain);
    assert_eq!(with.outcome, without.outcome);
    assert_eq!((with.outcome.measures.reload, with.outcome.measures.memory_nodes), (None, None));
    // And one that describes it, on a machine that has no such effect.
    let used = workload(vec![
        task("a", 0, &[("footprint", "1M"), ("stream", "5000")], script.clone()),
        task("b", 1, &[], script),
    ]);
    assert_eq!(play(&machine().without_effects(), &used).outcome, without.outcome);
    assert_ne!(play(&machine(), &used).outcome.log_hash, without.outcome.log_hash);
}

/// Random tasks that move and sleep: time is divided exactly, which the run asserts, and work is done exactly.
#[test]
fn accounts_are_exact_with_all_effects_of_memory() {
    let mut machine = machine();
    machine.effects.smt = Some(machine_model::Smt { throughput_percent: vec![Estimate::exactly(130)] });
    machine.topology.places.iter_mut().zip(0..).for_each(|(place, cpu)| place.core = cpu / 2);
    for seed in 0..12u64 {
        let tasks = (0..8u32).map(|index| {
            let mut word = seed * 97 + u64::from(index) * 31 + 7;
            let mut next = |below: u64| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (word >> 33) % below
            };
            let mut script = Vec::new();
            for _ in 0..20 {
                script.push(work(1 + next(3 * MS)));
                match next(3) {
                    0 => script.push(sleep(1 + next(2 * MS))),
                    _ => script.push(moved_to(next(4) as u32)),
                }
            }
            let (footprint, share) = (format!("{}K", next(3_000)), next(101).to_string());
            let (stream, dirty) = (next(8_000).to_string(), next(101).to_string());
            let mut keys = vec![("footprint", &*footprint), ("memory-share", &*share), ("stream", &*stream)];
            keys.push(("dirty", &*dirty));
            if index % 3 == 0 {
                keys.push(("region", "heap"));
            }
            if index % 4 == 1 {
                keys.push(("placement", "interleave"));
            }
            task("t", index % 4, &keys, script)
        });
        let workload = workload(tasks.collect());
        let asked: u64 = workload
            .tasks
            .iter()
            .flat_map(|task| &task.script)
            .map(|op| match op {
                Op::Work { user, system } => user.0 + system.0,
                _ => 0,
            })
            .sum();
        let measures = play(&machine, &workload).outcome.measures;
        assert_eq!(measures.work, Some(Nanos(asked)));
        let cpu = measures.cpu;
        assert_eq!(cpu.run.0, asked + cpu.reload.0 + cpu.memory.0 + cpu.slowed.0 + cpu.spin.0);
        assert!(cpu.reload.0 > 0 && cpu.memory.0 > 0 && cpu.slowed.0 > 0, "{cpu:?}");
    }
}
