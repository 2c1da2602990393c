// SPDX-License-Identifier: GPL-2.0-only
//! Effects of the machine presets on whole runs.

use crate::common::{Scheduler, rt_app};
use event_log::EventKind;
use machine_model::Machine;

/// Four tasks of 1 s on two cores of two threads take 2 W / y plus some time for the frequency, not 1 s.
#[test]
fn smt_siblings_are_slower_than_separate_cores() {
    let work = rt_app(r#"{"tasks": {"hog": {"instance": 4, "loop": 1, "run": 1000000}}}"#);
    let makespan = |machine: &Machine| {
        let played = Scheduler::shipped("bfs").play(machine, &work).completed();
        played.outcome.measures.makespan.expect("a finite workload").0 / 1_000_000
    };
    let laptop = Machine::preset("laptop-2c4t").unwrap();
    assert!((1_000..1_020).contains(&makespan(&laptop.clone().without_effects())));
    // 1.6 s at the highest turbo; at that of two cores 8.7 % longer, except for the part that waits for memory.
    let slow = makespan(&laptop);
    assert!((1_690..1_790).contains(&slow), "{slow} ms");
}

/// Under `schedutil` the default scheduler begins at a low frequency; a sched_ext scheduler that sets no target
/// gets the highest at once.
#[test]
fn schedutil_uses_utilization_for_the_default_scheduler_only() {
    let machine = Machine::preset("hybrid-laptop").unwrap();
    let work = rt_app(r#"{"tasks": {"hog": {"cpus": [0], "loop": 1, "run": 100000}}}"#);
    let slowed = |scheduler: Scheduler| scheduler.play(&machine, &work).completed().outcome.measures.cpu.slowed.0;
    let (kernel, fifo) = (slowed(Scheduler::kernel()), slowed(Scheduler::shipped("fifo")));
    assert!(fifo < 1_000_000 && kernel > 20_000_000, "kernel {kernel} ns, fifo {fifo} ns");
}

/// Ticks have no visible effect under `fifo`, so they are skipped, with constant speeds and with changing ones.
#[test]
fn ticks_without_visible_effect_are_skipped() {
    let work = rt_app(r#"{"tasks": {"periodic": {"instance": 8, "loop": 50, "run": 10000, "sleep": 10000}}}"#);
    for machine in [Machine::from_synthetic("core:4 pu:1").unwrap(), Machine::preset("laptop-2c4t").unwrap()] {
        let played = Scheduler::shipped("fifo").play(&machine, &work).completed();
        let ticks = played.events.iter().filter(|event| event.kind == EventKind::Tick).count();
        // Ticks at which a slice ends are executed.
        assert!(ticks < 1_000, "{ticks} on {}", machine.name);
    }
}
