// SPDX-License-Identifier: GPL-2.0-only
//! What waiting for the kernel's locks does to whole runs.

mod common;

use common::{Played, Scheduler, rt_app};
use event_log::EventKind;
use machine_model::{Effect, Machine};

fn without_locks(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.effects.switch_off(Effect::Locks);
    machine
}

/// 64 CPUs, and four tasks for each that work for 20 us and sleep for 20 us: far more than one queue lets through.
#[test]
fn one_queue_is_a_wall_and_queues_of_cpus_are_none() {
    let machine = Machine::preset("server-64").unwrap();
    let work = rt_app(
        r#"{"global": {"duration": 1}, "tasks": {"t": {"instance": 256, "loop": 200, "run": 20, "sleep": 20}}}"#,
    );
    let switches = |scheduler: Scheduler, machine: &Machine| {
        let measures = scheduler.play(machine, &work).completed().outcome.measures;
        measures.context_switches * 1_000_000 / measures.makespan.expect("it ends").0
    };
    let free = without_locks(&machine);
    let (fifo, fifo_free) =
        (switches(Scheduler::shipped("fifo"), &machine), switches(Scheduler::shipped("fifo"), &free));
    let (kernel, kernel_free) = (switches(Scheduler::kernel(), &machine), switches(Scheduler::kernel(), &free));
    assert!(fifo * 100 < fifo_free * 80, "fifo {fifo} a millisecond, without locks {fifo_free}");
    assert!(kernel * 100 > kernel_free * 95, "kernel {kernel} a millisecond, without locks {kernel_free}");
}

/// The table, its sum, the log, and the accounts of the CPUs tell one story, on several machines under several
/// schedulers; and no lock is ever waited for where there is one CPU.
#[test]
fn waits_add_up() {
    let work = rt_app(
        r#"{"tasks": {"short": {"instance": 24, "loop": 60, "run": 15, "sleep": 10},
            "long": {"instance": 6, "loop": 3, "run": 500, "sleep": 100}}}"#,
    );
    let mut waited = 0;
    for machine in ["laptop-2c4t", "nix-32", "server-64"].map(|name| Machine::preset(name).unwrap()) {
        for scheduler in [Scheduler::shipped("fifo"), Scheduler::shipped("bfs"), Scheduler::kernel()] {
            for seed in [0, 3] {
                let Played { outcome, events } = scheduler.play_with(&machine, &work, seed).completed();
                let measures = outcome.measures;
                let locks = measures.locks.expect("they are modelled");
                let of_table: u64 = locks.iter().map(|lock| lock.wait_total.0).sum();
                let of_log: u64 = events
                    .iter()
                    .map(|event| if let EventKind::LockWait { waited, .. } = event.kind { waited.0 } else { 0 })
                    .sum();
                assert_eq!((of_table, measures.lock_wait.unwrap().0), (of_log, of_log));
                assert!(of_table <= measures.cpu.scheduler.0, "who waits is in the scheduler");
                for lock in &locks {
                    assert!(lock.count >= lock.contended && lock.count > 0, "{lock:?}");
                    assert!(lock.wait_total >= lock.wait_max && lock.hold_total >= lock.hold_max, "{lock:?}");
                    assert_eq!(lock.contended == 0, lock.wait_total.0 == 0, "{lock:?}");
                }
                waited += of_table;
                let free = scheduler.play_with(&without_locks(&machine), &work, seed).completed().outcome.measures;
                assert_eq!((free.locks, free.lock_wait), (None, None));
            }
        }
    }
    assert!(waited > 100_000, "they met at some lock: {waited} ns");
}

/// The wall of one queue: with queued locks a plateau, with ticket locks a fall. 32 CPUs in 8 nodes, as NIX had them.
#[test]
fn a_kernel_with_ticket_locks_collapses() {
    let machine = Machine::preset("nix-32").unwrap();
    let work =
        rt_app(r#"{"global": {"duration": 1}, "tasks": {"t": {"instance": 128, "loop": 100, "run": 5, "sleep": 5}}}"#);
    let switches = |kernel: &str| {
        let scheduler = Scheduler::shipped("fifo").in_kernel(kernel.parse().unwrap());
        let measures = scheduler.play(&machine, &work).completed().outcome.measures;
        measures.context_switches * 1_000_000 / measures.makespan.expect("it ends").0
    };
    let [queued, ticket, flag] = ["7.2", "7.2+ticket", "7.2+test-and-set"].map(switches);
    assert!(ticket * 3 < queued * 2, "queued {queued} a millisecond, ticket {ticket}");
    assert!(flag * 3 < queued * 2, "queued {queued} a millisecond, test-and-set {flag}");
}
