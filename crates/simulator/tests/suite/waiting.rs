// SPDX-License-Identifier: GPL-2.0-only
//! Whole runs in which kernel operations wait for their locks while other CPUs continue.

use crate::common::{Played, Scheduler, rt_app};
use event_log::{EventKind, Null};
use fault_plan::FaultPlan;
use machine_model::{Effect, Machine};
use measures::RunMeasures;
use simulator::{Setup, SetupError};
use workload::Workload;

const BUILD: &[u8] = include_bytes!("../../../../workloads/recorded/build.weir");
const WORK: &str = r#"{"tasks": {"short": {"instance": 24, "loop": 60, "run": 15, "sleep": 10},
    "long": {"instance": 6, "loop": 3, "run": 500, "sleep": 100}}}"#;
/// All operations of tasks: sleep, contend for a mutex, wake and wait, yield, fork, change affinity and policy, and
/// execute critical sections under their own locks.
const EVERYTHING: &str = r#"{"locks": {"m": {"kind": "mutex"}, "s": {"kind": "ticket"}}, "tasks": {
    "handed": {"instance": 4, "loop": 40, "lock": "a", "run": 30, "unlock": "a", "sleep": 20},
    "through": {"instance": 6, "loop": 4, "critical_sections": {"lock": "m", "hold_ns": 3000, "between_ns": 2000, "times": 20}},
    "spinning": {"instance": 3, "loop": 4, "critical_sections": {"lock": "s", "hold_ns": 1000, "between_ns": 500, "times": 20}},
    "polite": {"instance": 3, "loop": 60, "run": 10, "yield": ""},
    "parent": {"loop": 8, "run": 100, "fork": "child", "sleep": 200},
    "child": {"instance": 0, "loop": 2, "run": 150, "sleep": 50},
    "moving": {"instance": 3, "loop": 10, "phases": {
        "here": {"loop": 2, "cpus": [0, 1], "run": 100, "sleep": 30}, "there": {"loop": 2, "cpus": [2], "run": 100}}},
    "urgent": {"loop": 30, "policy": "SCHED_FIFO", "priority": 9, "run": 40, "sleep": 300}}}"#;

fn work_of(measures: &RunMeasures) -> Vec<u64> {
    let mut all: Vec<u64> = measures.tasks.iter().map(|task| task.account.work.0).collect();
    all.sort_unstable();
    all
}

/// All time of every CPU is accounted, and the lock table, the log and the sum agree.
fn check_accounts(machine: &Machine, played: &Played) {
    let measures = &played.outcome.measures;
    for account in &measures.cpus {
        let all = account.run + account.idle + account.scheduler + account.stolen + account.offline;
        assert_eq!(all, measures.elapsed, "{}", machine.name);
    }
    let of_kernel = |kind: &str| matches!(kind, "runqueue" | "dsq" | "bpf");
    let locks = measures.locks.as_ref().expect("locks are modelled");
    let of_table: u64 = locks.iter().filter(|lock| of_kernel(lock.kind)).map(|lock| lock.wait_total.0).sum();
    let waits = played.events.iter().filter_map(|event| match event.kind {
        EventKind::LockWait { waited, .. } => Some(waited.0),
        _ => None,
    });
    assert_eq!(of_table, waits.sum::<u64>());
    assert!(of_table <= measures.cpu.scheduler.0, "lock waits are scheduler time");
}

fn schedulers() -> [Scheduler; 3] {
    [Scheduler::shipped("fifo"), Scheduler::shipped("bfs"), Scheduler::kernel()]
}

#[test]
fn lock_waits_add_up_if_operations_are_interleaved() {
    let work = rt_app(WORK);
    for machine in ["laptop-2c4t", "nix-32", "server-64"].map(|name| Machine::preset(name).unwrap()) {
        for scheduler in schedulers() {
            for seed in [0, 3] {
                let play = || scheduler.play_waiting(&machine, &work, seed, &FaultPlan::default()).completed();
                let played = play();
                assert_eq!(played, play(), "the same bytes");
                check_accounts(&machine, &played);
                let default = scheduler.play_with(&machine, &work, seed).completed().outcome;
                assert_ne!(played.outcome.log_hash, default.log_hash, "the runs with and without +waiting differ");
                if seed == 0 {
                    assert_eq!(work_of(&played.outcome.measures), work_of(&default.measures));
                }
            }
        }
    }
}

/// Without contention, operations take the same time with and without `+waiting`: kernel, callbacks, switches,
/// wakeups.
#[test]
fn uncontended_operations_cost_the_same_if_interleaved() {
    let machine = Machine::preset("laptop-2c4t").unwrap();
    let work = rt_app(r#"{"tasks": {"t": {"cpus": [0], "loop": 20, "run": 100, "sleep": 100}}}"#);
    for scheduler in schedulers() {
        let default = scheduler.play(&machine, &work).completed().outcome.measures;
        let played = scheduler.play_waiting(&machine, &work, 0, &FaultPlan::default()).completed();
        let waiting = played.outcome.measures;
        let of = |measures: &RunMeasures| (measures.context_switches, measures.cpus[0].scheduler);
        let ((switches, cost), (waiting_switches, waiting_cost)) = (of(&default), of(&waiting));
        assert_eq!(switches, waiting_switches);
        // The run ends within the last operation, for which nothing has been charged yet without `+waiting`.
        let least = cost.0 / switches;
        assert!(cost.0.abs_diff(waiting_cost.0) < least, "{cost} and {waiting_cost}");
    }
}

/// Between reading and writing a number, a CPU waits for the lock of the queue: other CPUs write it meanwhile.
#[test]
fn unlocked_update_is_lost_only_if_operations_are_interleaved() {
    let machine = Machine::preset("nix-32").unwrap();
    let work =
        rt_app(r#"{"global": {"duration": 1}, "tasks": {"t": {"instance": 96, "loop": 250, "run": 5, "sleep": 2}}}"#);
    let tally = Scheduler::compiled("tally", "");
    let counted = |waiting| tally.variables(&machine, &work, waiting, &["tally", "exact"]);
    let (default, waiting) = (counted(false), counted(true));
    assert_eq!(default[0], default[1], "no update is lost without +waiting");
    assert!(waiting[0] < waiting[1], "{} of {}", waiting[0], waiting[1]);
}

#[test]
fn all_task_operations_complete_if_operations_are_interleaved() {
    let work = rt_app(EVERYTHING);
    for machine in ["laptop-2c4t", "nix-32"].map(|name| Machine::preset(name).unwrap()) {
        for scheduler in schedulers() {
            for seed in 0..4 {
                let played = scheduler.play_waiting(&machine, &work, seed, &FaultPlan::default()).completed();
                assert!(played.outcome.measures.makespan.is_some());
                check_accounts(&machine, &played);
            }
        }
    }
}

#[test]
fn build_completes_if_operations_are_interleaved() {
    let machine = Machine::preset("laptop-2c4t").unwrap();
    let work = Workload::from_bytes("build", BUILD).unwrap();
    for scheduler in [Scheduler::shipped("bfs"), Scheduler::kernel()] {
        let played = scheduler.play_waiting(&machine, &work, 0, &FaultPlan::default()).completed();
        let default = scheduler.play(&machine, &work).completed().outcome.measures;
        let (waiting, default) = (played.outcome.measures.makespan.unwrap().0, default.makespan.unwrap().0);
        assert!(waiting.abs_diff(default) * 20 < default, "{waiting} and {default} ns: locks are rarely contended");
        check_accounts(&machine, &played);
    }
}

/// CPU hotplug, suspend and a restarted scheduler: all atomic kernel operations wait until no other operation is in
/// progress.
#[test]
fn faults_wait_for_operations_in_progress() {
    let machine = Machine::preset("laptop-2c4t").unwrap();
    let work = rt_app(
        r#"{"tasks": {"busy": {"instance": 12, "loop": 400, "run": 20, "sleep": 10},
            "pinned": {"cpus": [2], "loop": 100, "run": 50, "sleep": 30}}}"#,
    );
    let plan: FaultPlan = "cpu3:offline@1ms,cpu2:offline@2ms,cpu3:online@20ms,suspend@30ms+1s".parse().unwrap();
    for name in ["fifo", "bfs"] {
        let played = Scheduler::shipped(name).play_waiting(&machine, &work, 0, &plan).completed();
        let default = Scheduler::shipped(name).play_faults(&machine, &work, 0, &plan).completed();
        assert_eq!(played.outcome.restarts, default.outcome.restarts, "{name}");
        assert_eq!(work_of(&played.outcome.measures), work_of(&default.outcome.measures), "{name}");
        check_accounts(&machine, &played);
    }
}

/// An error of the scheduler during many operations ejects it as usual.
#[test]
fn failing_scheduler_is_ejected_if_operations_are_interleaved() {
    let machine = Machine::preset("laptop-2c4t").unwrap();
    let work = rt_app(WORK);
    let broken = Scheduler::compiled("broken", "");
    let kind = |played: Played| played.outcome.ejected.map(|exit| (exit.kind, exit.message));
    let expected = kind(broken.play(&machine, &work));
    assert!(expected.is_some());
    assert_eq!(kind(broken.play_waiting(&machine, &work, 0, &FaultPlan::default())), expected);
}

#[test]
fn kernel_name_with_lock_options_requires_lock_costs() {
    let mut machine = Machine::preset("nix-32").unwrap();
    machine.effects.switch_off(Effect::Locks);
    let (workload, faults) = (rt_app(WORK), FaultPlan::default());
    let scheduler = simulator::Scheduler::Kernel;
    let (machine, workload, faults) = (&machine, &workload, &faults);
    for name in ["7.2+waiting", "7.2+ticket"] {
        let kernel = name.parse().unwrap();
        let setup = Setup {
            machine,
            workload,
            scheduler,
            seed: 0,
            duration: None,
            faults,
            kernel,
            types: None,
            map_bytes: simulator::MAP_BYTES,
        };
        let refused = simulator::run(&setup, &mut Null, &mut |_| ()).expect_err("it is refused");
        let SetupError::Machine(problem) = refused else { panic!("{refused}") };
        let why = "its locks cost nothing (it has no [locks], or they are left out), so no CPU waits for one";
        assert_eq!(problem, format!("nix-32: kernel {name}: {why}"));
    }
}
