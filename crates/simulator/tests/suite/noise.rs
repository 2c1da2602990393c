// SPDX-License-Identifier: GPL-2.0-only
//! Random variation by seed: runs differ as real runs do, are reproducible to the byte, and satisfy all invariants of
//! runs (checked by the watcher of `common` and the accounts).

use crate::common;

use common::{Played, Scheduler, rt_app};
use event_log::EventKind;
use fault_plan::FaultPlan;
use ids::{CpuId, Nanos, TaskId};
use machine_model::{BackgroundThread, Machine, Noise, NoiseSource, Spread};
use std::collections::{BTreeMap, BTreeSet};
use workload::Workload;

/// A machine on which tasks start at the same time, so that there are simultaneous events to order.
fn machine(shape: &str) -> Machine {
    let mut machine = Machine::from_synthetic(shape).unwrap();
    machine.costs.clone_ns = 0;
    machine
}

/// A machine on which everything varies, including stolen time.
fn noisy(shape: &str) -> Machine {
    let mut machine = machine(shape);
    machine.noise.steal_every_us = Spread::new([1_000; 11]).unwrap();
    machine.noise.steal_ns = Spread::new([50_000; 11]).unwrap();
    machine.noise = Noise { off: Vec::new(), threads: machine.noise.threads, ..written_down() };
    machine
}

/// Hogs and periodic tasks for 300 ms.
fn mix() -> Workload {
    rt_app(
        r#"{"global": {"duration": 1}, "tasks": {
            "hog": {"instance": 3, "loop": 30, "run": 9000, "sleep": 700},
            "beat": {"instance": 3, "loop": 30, "run": 1000, "timer": {"ref": "tick", "period": 10000}}}}"#,
    )
}

#[test]
fn runs_differ_by_seed_and_are_reproducible() {
    let (machine, mix) = (machine("core:2 pu:2"), mix());
    for scheduler in [Scheduler::shipped("fifo"), Scheduler::shipped("bfs")] {
        let play = |seed| scheduler.play_with(&machine, &mix, seed).completed().outcome;
        let outcomes: Vec<_> = (0..12).map(play).collect();
        let hashes: BTreeSet<u128> = outcomes.iter().map(|outcome| outcome.log_hash).collect();
        let makespans: BTreeSet<_> = outcomes.iter().map(|outcome| outcome.measures.makespan.unwrap()).collect();
        assert_eq!((hashes.len(), makespans.len()), (12, 12));
        assert_eq!(outcomes[5], play(5));
    }
}

/// Recorded hash: debug and release builds, and every host, give the same.
#[test]
fn run_hash_of_a_seed_is_the_same_on_every_host() {
    let mut machine = noisy("core:2 pu:2");
    machine.noise = written_down();
    let played = Scheduler::shipped("fifo").play_with(&machine, &mix(), 7).completed();
    expect_test::expect!["ebb9858a80475ca3dd8e1b172ef0f731"].assert_eq(&format!("{:032x}", played.outcome.log_hash));
}

/// Fixed magnitudes, independent of new measurements.
fn written_down() -> Noise {
    let spread = |least: i64, step: i64| Spread::new(std::array::from_fn(|index| least + step * index as i64)).unwrap();
    let thread = BackgroundThread {
        name: "kworker".to_owned(),
        each_cpu: true,
        nice: 0,
        sleep_us: spread(1_000, 2_000),
        work_ns: spread(1_000, 7_000),
    };
    Noise {
        off: Vec::new(),
        start_ns: spread(0, 10_000),
        work_run_ppm: spread(-5_000, 1_000),
        work_task_ppm: spread(-5_000, 1_000),
        work_segment_ppm: spread(-50_000, 10_000),
        disturbance_every_ns: spread(100_000, 300_000),
        disturbance_ns: spread(1_000, 3_000),
        tick_ns: spread(0, 5_000),
        idle_exit_ppm: spread(-100_000, 50_000),
        timer_ns: spread(0, 1_000),
        wakeup_ppm: spread(-200_000, 50_000),
        switch_ppm: spread(-200_000, 50_000),
        interrupt_ppm: spread(-200_000, 50_000),
        threads: vec![thread],
        steal_every_us: spread(1_000, 1_000),
        steal_ns: spread(1_000, 10_000),
    }
}

#[test]
fn seed_has_no_effect_without_noise_sources() {
    let (nominal, mix) = (machine("core:2 pu:2"), mix());
    let mut silent = noisy("core:2 pu:2");
    silent.noise = NoiseSource::ALL.into_iter().fold(silent.noise, Noise::without);
    for scheduler in [Scheduler::shipped("fifo"), Scheduler::shipped("bfs")] {
        assert_eq!(scheduler.play_with(&silent, &mix, 9), scheduler.play(&nominal, &mix));
        assert_eq!(scheduler.play_with(&noisy("core:2 pu:2"), &mix, 0), scheduler.play(&nominal, &mix));
    }
}

#[test]
fn every_noise_source_changes_runs_by_itself() {
    let (loud, mix) = (noisy("core:2 pu:2"), mix());
    let fifo = Scheduler::shipped("fifo");
    let nominal = fifo.play(&loud, &mix).outcome.log_hash;
    for source in NoiseSource::ALL {
        let others = NoiseSource::ALL.into_iter().filter(|&other| other != source);
        let alone = Machine { noise: others.fold(loud.noise.clone(), Noise::without), ..loud.clone() };
        let played = fifo.play_with(&alone, &mix, 3).completed();
        assert_ne!(played.outcome.log_hash, nominal, "{source}");
        let tasks = &played.outcome.measures.tasks;
        let threads = tasks.iter().filter(|task| task.kernel_thread).count();
        assert_eq!(threads > 1, source == NoiseSource::Threads, "{source}: besides the watchdog's worker");
        let work: Vec<Nanos> =
            tasks.iter().filter(|task| task.name.starts_with("beat")).map(|t| t.account.work).collect();
        let more = matches!(source, NoiseSource::Work | NoiseSource::Disturbances);
        assert_eq!(work != [Nanos::from_ms(30); 3], more, "{source}: {work:?}");
    }
}

/// Wakeups, switches and interrupts each vary by themselves.
#[test]
fn each_kernel_cost_varies_by_itself() {
    let (loud, mix) = (noisy("core:2 pu:2"), mix());
    let fifo = Scheduler::shipped("fifo");
    let others = NoiseSource::ALL.into_iter().filter(|&source| source != NoiseSource::Kernel);
    let silent = others.fold(Noise::default(), Noise::without);
    let nominal = fifo.play(&loud, &mix).outcome.log_hash;
    let play = |noise: Noise| {
        let machine = Machine { noise, ..loud.clone() };
        fifo.play_with(&machine, &mix, 3).completed().outcome.log_hash
    };
    assert_eq!(play(silent.clone()), nominal);
    let sizes = written_down();
    for noise in [
        Noise { wakeup_ppm: sizes.wakeup_ppm, ..silent.clone() },
        Noise { switch_ppm: sizes.switch_ppm, ..silent.clone() },
        Noise { interrupt_ppm: sizes.interrupt_ppm, ..silent.clone() },
    ] {
        assert_ne!(play(noise.clone()), nominal, "{noise:?}");
    }
}

/// Two schedulers get the same work with the same seed, so that differences are caused by the schedulers.
#[test]
fn schedulers_get_the_same_work_for_a_seed() {
    let (machine, mix) = (machine("core:2 pu:2"), mix());
    let work = |name: &str, seed| -> Vec<Nanos> {
        let played = Scheduler::shipped(name).play_with(&machine, &mix, seed).completed();
        let tasks = played.outcome.measures.tasks;
        tasks.iter().filter(|task| !task.kernel_thread).map(|task| task.account.work).collect()
    };
    for seed in 1..4 {
        assert_eq!(work("fifo", seed), work("bfs", seed));
    }
    assert_ne!(work("fifo", 1), work("fifo", 2));
}

/// Two equal tasks on one CPU each, which are repeatedly woken at the same time.
#[test]
fn order_of_simultaneous_wakeups_is_random() {
    let mut machine = common::free_machine("core:2 pu:1");
    machine.noise = Noise::default();
    let pair = rt_app(
        r#"{"tasks": {"a": {"cpus": [0], "loop": 200, "run": 500, "sleep": 500},
                                    "b": {"cpus": [1], "loop": 200, "run": 500, "sleep": 500}}}"#,
    );
    let firsts = |seed| {
        let played = Scheduler::shipped("fifo").play_with(&machine, &pair, seed).completed();
        let wakeups = played.events.iter().filter(|event| matches!(event.kind, EventKind::Wakeup { .. }));
        let wakeups: Vec<_> = wakeups.map(|event| (event.time, event.task)).collect();
        let pairs = wakeups.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        pairs.filter(|pair| pair[0].1 < pair[1].1).count()
    };
    let nominal = firsts(0);
    assert!(nominal > 150, "{nominal}");
    assert!((nominal / 4..nominal * 3 / 4).contains(&firsts(1)), "{} of {nominal}", firsts(1));
}

/// A kernel background thread is a task like any other: it is scheduled by the scheduler, and takes CPU time from a
/// hog.
#[test]
fn kernel_background_threads_are_scheduled_like_tasks() {
    let mut machine = common::free_machine("core:2 pu:1");
    let always = |value| Spread::new([value; 11]).unwrap();
    let thread = |name: &str, each_cpu| BackgroundThread {
        name: name.to_owned(),
        each_cpu,
        nice: 0,
        sleep_us: always(9_000),
        work_ns: always(1_000_000),
    };
    machine.noise = Noise { threads: vec![thread("kworker", true), thread("kdamond", false)], ..Noise::default() };
    let hogs = rt_app(r#"{"global": {"duration": 1}, "tasks": {"hog": {"instance": 2, "loop": -1, "run": 5000}}}"#);
    let played = Scheduler::shipped("bfs").play_with(&machine, &hogs, 1).completed();
    let tasks = &played.outcome.measures.tasks;
    let names: Vec<&str> = tasks.iter().filter(|task| task.kernel_thread).map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["kworker/u:0", "kworker/0", "kworker/1", "kdamond"]);
    for task in &tasks[1..4] {
        // The kthread runs every 10 ms, or less often because it waits for the hogs.
        let worked = task.account.run;
        assert!((Nanos::from_ms(50)..=Nanos::from_ms(100)).contains(&worked), "{} worked {worked}", task.name);
    }
    assert_eq!([&tasks[1], &tasks[2]].map(|task| task.cpus_used.to_string()), ["0", "1"]);
    assert_eq!(played.outcome.measures.wakeups, 2, "only those of the hogs, as the meter of a real run counts");
}

#[test]
fn time_stolen_by_the_host_is_accounted() {
    let mut machine = common::free_machine("core:1 pu:1");
    machine.noise = Noise::default();
    machine.noise.steal_every_us = Spread::new([9_900; 11]).unwrap();
    machine.noise.steal_ns = Spread::new([100_000; 11]).unwrap();
    let hog = rt_app(r#"{"global": {"duration": 1}, "tasks": {"hog": {"loop": -1, "run": 5000}}}"#);
    let played = Scheduler::shipped("fifo").play_with(&machine, &hog, 1).completed();
    let stolen = played.outcome.measures.cpu.stolen;
    assert_eq!(stolen, Nanos(101 * 100_000), "every 9.9 ms, independent of the last duration");
}

/// CPU hotplug and suspend while all sources vary: each fault happens, no task runs on an offline CPU, and all tasks do
/// the same work as without faults.
#[test]
fn faults_happen_and_cost_no_work_in_noisy_runs() {
    let (machine, mix) = (noisy("core:2 pu:2"), mix());
    let faults: FaultPlan = "cpu1:offline@20ms,cpu3:offline@40ms,cpu1:online@90ms,suspend@120ms+50ms".parse().unwrap();
    for name in ["fifo", "bfs"] {
        let scheduler = Scheduler::shipped(name);
        for seed in 1..9 {
            let undisturbed = scheduler.play_with(&machine, &mix, seed).completed();
            let played = scheduler.play_faults(&machine, &mix, seed, &faults).completed();
            let work = |played: &Played| {
                // The kthreads of the machine do other work when CPUs leave.
                let tasks = played.outcome.measures.tasks.iter();
                let own = tasks.filter(|task| ["hog-", "beat-"].iter().any(|name| task.name.starts_with(name)));
                own.map(|task| (task.name.clone(), task.account.work)).collect::<BTreeMap<_, _>>()
            };
            assert_eq!(work(&played), work(&undisturbed), "{name}, seed {seed}");
            let mut offline = BTreeSet::new();
            let mut stops = Vec::new();
            for event in &played.events {
                match event.kind {
                    EventKind::Hotplug { online: false } => {
                        stops.push(event.cpu.0);
                        offline.insert(event.cpu);
                    }
                    EventKind::Hotplug { online: true } => assert!(offline.remove(&event.cpu)),
                    EventKind::Switch { .. } if event.task != TaskId::NONE => {
                        assert!(!offline.contains(&event.cpu), "{name}, seed {seed}: {event:?}");
                    }
                    _ => {}
                }
            }
            // By the plan, and all CPUs but the boot CPU and the offline one when the machine is suspended.
            assert_eq!(stops[..2], [1, 3], "{name}, seed {seed}");
            assert!(
                stops.len() > 2 && offline == BTreeSet::from([CpuId(3)]),
                "{name}, seed {seed}: {stops:?} {offline:?}"
            );
        }
    }
}
