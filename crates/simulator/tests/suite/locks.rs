// SPDX-License-Identifier: GPL-2.0-only
//! Effects of kernel lock contention on whole runs.

use crate::common::{Played, Scheduler, rt_app};
use event_log::EventKind;
use machine_model::{Effect, Machine};

fn without_locks(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.effects.switch_off(Effect::Locks);
    machine
}

/// 64 CPUs, and four tasks per CPU that work for 20 us and sleep for 20 us: far more than one queue can sustain.
#[test]
fn single_queue_limits_throughput_and_per_cpu_queues_do_not() {
    let machine = Machine::preset("server-64").unwrap();
    let work = rt_app(
        r#"{"global": {"duration": 1}, "tasks": {"t": {"instance": 256, "loop": 200, "run": 20, "sleep": 20}}}"#,
    );
    let switches = |scheduler: Scheduler, machine: &Machine| {
        let measures = scheduler.play(machine, &work).completed().outcome.measures;
        measures.context_switches * 1_000_000 / measures.makespan.expect("a finite workload").0
    };
    let free = without_locks(&machine);
    let (fifo, fifo_free) =
        (switches(Scheduler::shipped("fifo"), &machine), switches(Scheduler::shipped("fifo"), &free));
    let (kernel, kernel_free) = (switches(Scheduler::kernel(), &machine), switches(Scheduler::kernel(), &free));
    assert!(fifo * 100 < fifo_free * 80, "fifo {fifo} per millisecond, without locks {fifo_free}");
    assert!(kernel * 100 > kernel_free * 95, "kernel {kernel} per millisecond, without locks {kernel_free}");
}

/// The lock table, its sum, the log, and the accounts of the CPUs agree, on several machines under several
/// schedulers; and with a single CPU no lock is contended.
#[test]
fn lock_waits_add_up_to_their_total() {
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
                let locks = measures.locks.expect("locks are modelled");
                let of_table: u64 = locks.iter().map(|lock| lock.wait_total.0).sum();
                let of_log: u64 = events
                    .iter()
                    .map(|event| if let EventKind::LockWait { waited, .. } = event.kind { waited.0 } else { 0 })
                    .sum();
                assert_eq!((of_table, measures.lock_wait.unwrap().0), (of_log, of_log));
                assert!(of_table <= measures.cpu.scheduler.0, "lock waits are scheduler time");
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
    assert!(waited > 100_000, "no lock was contended: {waited} ns");
}

/// Throughput limit of one queue: queued locks reach a plateau, ticket locks collapse. 32 CPUs in 8 nodes, the NIX
/// machine.
#[test]
fn throughput_collapses_with_ticket_locks() {
    let machine = Machine::preset("nix-32").unwrap();
    let work =
        rt_app(r#"{"global": {"duration": 1}, "tasks": {"t": {"instance": 128, "loop": 100, "run": 5, "sleep": 5}}}"#);
    let switches = |kernel: &str| {
        let scheduler = Scheduler::shipped("fifo").in_kernel(kernel.parse().unwrap());
        let measures = scheduler.play(&machine, &work).completed().outcome.measures;
        measures.context_switches * 1_000_000 / measures.makespan.expect("a finite workload").0
    };
    let [queued, ticket, flag] = ["7.2", "7.2+ticket", "7.2+test-and-set"].map(switches);
    assert!(ticket * 3 < queued * 2, "queued {queued} per millisecond, ticket {ticket}");
    assert!(flag * 3 < queued * 2, "queued {queued} per millisecond, test-and-set {flag}");
}
