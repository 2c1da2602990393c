// SPDX-License-Identifier: GPL-2.0-only
//! TLB shootdowns: who is interrupted, what it costs, and that nothing else changes.

use crate::common::{Played, Scheduler, free_machine, rt_app};
use ids::{CpuId, Nanos};
use machine_model::{Effect, Estimate, Machine, Tlb};
use measures::TaskMeasures;

fn machine(cpus: u32) -> Machine {
    let mut machine = free_machine(&format!("core:{cpus} pu:1"));
    let exactly = Estimate::exactly;
    machine.effects.tlb = Some(Tlb { wait_ns: exactly(1_000), target_ns: exactly(300), handler_ns: exactly(700) });
    machine
}

fn play(machine: &Machine, text: &str) -> Played {
    Scheduler::kernel().play(machine, &rt_app(text)).completed()
}

fn task<'a>(played: &'a Played, name: &str) -> &'a TaskMeasures {
    played.outcome.measures.tasks.iter().find(|task| task.name == name).unwrap()
}

/// Three threads of a process and a task of another one, each on a CPU of its own; one CPU idles.
const TEXT: &str = r#"{"tasks": {
    "unmaps": {"process": "p", "loop": 10, "run": 1000, "unmap": 1, "cpus": [0]},
    "one": {"process": "p", "loop": 1, "run": 20000, "cpus": [1]},
    "two": {"process": "p", "loop": 1, "run": 20000, "cpus": [2]},
    "other": {"loop": 1, "run": 20000, "cpus": [3]}}}"#;

#[test]
fn shootdown_interrupts_the_cpus_that_run_threads_of_the_process() {
    let played = play(&machine(5), TEXT);
    let rows = played.outcome.measures.interrupts.as_ref().unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.source.as_str(), row.cpu, row.count, row.total)).collect();
    let of = |cpu| ("tlb", CpuId(cpu), 10, Nanos(7_000));
    assert_eq!(rows, [of(1), of(2)]);
    let stolen = ["one", "two", "other"].map(|name| task(&played, name).account.stolen.0);
    assert_eq!(stolen, [7_000, 7_000, 0]);
    // The initiator works for 10 ms, and waits 1.3 us for two targets each time.
    let account = &task(&played, "unmaps").account;
    assert_eq!((account.run, account.work), (Nanos(10_000_000 + 13_000), Nanos(10_000_000)));
    assert_eq!(played.outcome.measures.spin, Some(Nanos(13_000)));
}

#[test]
fn nothing_is_shot_down_without_the_effect_or_other_threads() {
    let mut without = machine(5);
    without.effects.switch_off(Effect::Tlb);
    let played = play(&without, TEXT);
    assert_eq!(
        (played.outcome.measures.interrupts.is_none(), task(&played, "unmaps").account.run.0),
        (true, 10_000_000)
    );
    let alone = r#"{"tasks": {"unmaps": {"loop": 10, "run": 1000, "unmap": 512}, "other": {"loop": 1, "run": 20000}}}"#;
    let played = play(&machine(2), alone);
    assert_eq!(task(&played, "unmaps").account.run.0, 10_000_000);
    assert!(played.outcome.measures.interrupts.unwrap().is_empty());
}
