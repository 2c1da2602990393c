// SPDX-License-Identifier: GPL-2.0-only
//! Compares whole runs in which operations are executed ahead of time with runs in which none is.

use crate::{KernelName, Scheduler, Setup, setup};
use bpf_object::Object;
use event_log::Null;
use ids::Nanos;
use launch_profile::Profile;
use machine_model::Machine;
use workload::Workload;

/// Tasks that contend for locks, at ticks and between them, with pauses in which CPUs idle.
const WORK: &str = r#"{"tasks": {
    "short": {"instance": 24, "loop": -1, "run": 15, "sleep": 35},
    "middle": {"instance": 8, "loop": -1, "run": 997, "sleep": 1003},
    "long": {"instance": 8, "loop": -1, "run": 10000, "sleep": 10000}}}"#;

/// Returns the result of a run, and how many operations were executed ahead and rolled back.
fn play(setup: &Setup<'_>, executes_ahead: bool) -> (String, [u64; 2]) {
    let mut log = Null;
    let mut run = setup::prepare(setup, &mut log, false).unwrap();
    run.locks.as_mut().expect("the machine has lock costs").saved.off = !executes_ahead;
    run.play(&mut |_| ());
    let counts = run.locks.as_ref().map(|locks| locks.saved.counts).unwrap_or_default();
    let (outcome, _) = run.finish().unwrap();
    (format!("{:x} {:?}", outcome.log_hash, outcome.measures), counts)
}

#[test]
fn executing_operations_ahead_does_not_change_results() {
    let workload = Workload::from_rt_app("work", WORK).unwrap();
    let policies = ["fifo", "bfs"].map(|name| policies::find(name).unwrap());
    let object = |name: &str| Object::parse(policies::find(name).unwrap().object).unwrap();
    let objects =
        policies.map(|policy| (object(policy.name), Profile::from_toml(policy.name, policy.profile).unwrap()));
    let (mut ahead, mut rolled_back) = (0, 0);
    for machine in ["laptop-2c4t", "nix-32", "server-64"].map(|name| Machine::preset(name).unwrap()) {
        let of_object = |(object, profile)| Scheduler::Object { object, profile };
        let schedulers =
            objects.iter().map(|(object, profile)| of_object((object, profile))).chain([Scheduler::Kernel]);
        for (number, scheduler) in schedulers.enumerate() {
            let setup = Setup {
                faults: &Default::default(),
                machine: &machine,
                workload: &workload,
                scheduler,
                seed: 0,
                duration: Some(Nanos(73_001_500)),
                kernel: KernelName::from((7, 2)),
                types: None,
                map_bytes: crate::MAP_BYTES,
            };
            let ((one, counts), (other, none)) = (play(&setup, true), play(&setup, false));
            assert!(one == other, "{} under scheduler {number}", machine.name);
            assert_eq!(none, [0, 0]);
            ahead += counts[0];
            rolled_back += counts[1];
        }
    }
    assert!(ahead > 1_000 && rolled_back > 50, "{ahead} ahead, {rolled_back} rolled back");
}
