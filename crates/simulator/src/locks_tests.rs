// SPDX-License-Identifier: GPL-2.0-only
//! Compares lock timing with the closed form of a closed queueing model, and with hand-computed timelines.

use crate::handover::Spinning;
use crate::locks::Locks;
use crate::noise::draw::Draw;
use crate::run_tests::{play, spec, work, workload};
use crate::testing::free_machine;
use event_log::{EventKind, LockKind};
use ids::{CpuId, DsqId, Nanos, TaskId};
use kernel_model::Lock;
use machine_model::{Estimate, Machine};
use workload::Start;

/// Costs where a cache-line transfer takes `line` at any distance, and no part of a wakeup is executed under a lock.
pub(crate) fn line_costs(line: u64) -> machine_model::Locks {
    machine_model::Locks {
        line_transfer_ns: [Estimate::exactly(line); 4],
        wakeup_hold_ns: Estimate::exactly(0),
        acquire_ns: [Estimate::exactly(0); 6],
        spinner_slowdown_percent: Estimate::exactly(0),
        futex_ns: Estimate::exactly(0),
    }
}

fn machine(cpus: u32, line: u64) -> Machine {
    let mut machine = free_machine(cpus);
    machine.effects.locks = Some(line_costs(line));
    machine
}

/// An exponentially distributed time in nanoseconds.
fn exponential(draw: &mut Draw, mean: f64) -> u64 {
    let unit = (f64::from(draw.word()) + 0.5) / 4_294_967_296.0;
    (-unit.ln() * mean).round() as u64
}

/// Acquisitions per nanosecond by `cpus` CPUs with exponentially distributed hold and think times.
fn throughput(cpus: u32, think: f64, hold: f64, line: u64) -> f64 {
    throughput_of(Spinning::Queued, cpus, think, hold, line)
}

fn throughput_of(spinning: Spinning, cpus: u32, think: f64, hold: f64, line: u64) -> f64 {
    const PASSAGES: u64 = 400_000;
    let mut locks = Locks::new(&machine(cpus, line)).unwrap();
    locks.spinning = spinning;
    let number = locks.number(Lock::Bpf(1));
    let mut draw = Draw::new(1, "test");
    let mut next: Vec<u64> = (0..cpus).map(|_| exponential(&mut draw, think)).collect();
    for _ in 0..PASSAGES {
        let cpu = (0..cpus as usize).min_by_key(|&cpu| next[cpu]).unwrap();
        let grant = locks.take(number, CpuId(cpu as u32), "test", Nanos(next[cpu])).expect("the release time is known");
        let free = grant.at + Nanos(exponential(&mut draw, hold));
        assert_eq!(locks.give(number, free), None);
        next[cpu] = free.0 + exponential(&mut draw, think);
    }
    PASSAGES as f64 / *next.iter().min().unwrap() as f64
}

/// M/M/1//N, the machine-repairman model: p_k ~ N!/(N-k)! (S/Z)^k and X = (1 - p_0)/S. The speed-up is X (S + Z).
fn repairman(cpus: u32, ratio: f64) -> f64 {
    let mut terms = vec![1.0];
    for k in 0..cpus {
        terms.push(terms[k as usize] * f64::from(cpus - k) / ratio);
    }
    (1.0 - 1.0 / terms.iter().sum::<f64>()) * (1.0 + ratio)
}

#[test]
fn lock_without_transfer_cost_matches_the_machine_repairman_model() {
    // Known values for Z/S = 10, to validate the formula itself.
    for (cpus, speed_up) in [(2, 1.984), (4, 3.887), (8, 7.278), (16, 10.755), (48, 11.0)] {
        assert!((repairman(cpus, 10.0) - speed_up).abs() < 0.001, "{cpus} CPUs");
    }
    for (cpus, ratio) in [(2, 10.0), (4, 10.0), (8, 10.0), (12, 10.0), (16, 10.0), (48, 10.0), (2, 1.0), (6, 3.0)] {
        let hold = 1_000.0;
        let measured = throughput(cpus, hold * ratio, hold, 0) * hold * (1.0 + ratio);
        let exact = repairman(cpus, ratio);
        assert!((measured / exact - 1.0).abs() < 0.01, "{cpus} CPUs, Z/S {ratio}: {measured:.3}, exact {exact:.3}");
    }
}

/// With a ticket lock every waiter lengthens the handoff: 48 CPUs with Z/S = 10 and c/S = 1 are slower than one.
#[test]
fn ticket_lock_throughput_collapses_with_waiters() {
    let of = |cpus| throughput_of(Spinning::Ticket, cpus, 10_000.0, 1_000.0, 1_000) * 11_000.0;
    let [few, many] = [4, 48].map(of);
    assert!((3.2..3.8).contains(&few), "{few}");
    assert!((0.40..0.50).contains(&many), "{many}");
}

/// A saturated queued lock is handed off every S + 2c for any number of CPUs: throughput reaches a plateau and does
/// not collapse.
#[test]
fn queued_lock_throughput_has_a_plateau() {
    for cpus in [8, 32, 128] {
        let passages = throughput(cpus, 1_000.0, 1_000.0, 100);
        assert!((passages * 1_200.0 - 1.0).abs() < 0.01, "{cpus} CPUs: one in {:.0} ns", 1.0 / passages);
    }
}

/// The first CPU to ask is served first, even while the holder's release time is unknown.
#[test]
fn lock_is_granted_first_come_first_served() {
    let mut locks = Locks::new(&machine(4, 10)).unwrap();
    let number = locks.number(Lock::Dsq(DsqId(1)));
    let cpu = CpuId;
    let first = locks.take(number, cpu(0), "a", Nanos(100)).unwrap();
    assert_eq!((first.at, first.lines, first.waited), (Nanos(100), Nanos(0), Nanos(0)), "first acquisition");
    assert_eq!(locks.take(number, cpu(2), "b", Nanos(110)), None);
    assert_eq!(locks.take(number, cpu(1), "a", Nanos(120)), None);
    let (next, grant) = locks.give(number, Nanos(200)).unwrap();
    assert_eq!((next, grant.at, grant.waited, grant.lines), (cpu(2), Nanos(220), Nanos(110), Nanos(20)));
    let (next, grant) = locks.give(number, Nanos(300)).unwrap();
    assert_eq!((next, grant.at, grant.waited), (cpu(1), Nanos(320), Nanos(200)));
    assert_eq!(locks.give(number, Nanos(350)), None);
    let again = locks.take(number, cpu(1), "a", Nanos(400)).unwrap();
    assert_eq!((again.at, again.lines), (Nanos(400), Nanos(0)), "the cache line is local");
    let table = locks.table();
    let row = |caller: &str| table.iter().find(|row| row.caller == caller).unwrap();
    let (a, b) = (row("a"), row("b"));
    assert_eq!((a.count, a.contended, a.wait_total, a.hold_max), (3, 1, Nanos(200), Nanos(100)));
    assert_eq!((b.count, b.contended, b.wait_max, b.hold_total), (1, 1, Nanos(110), Nanos(80)));
    assert_eq!(table[0].caller, "a", "the longest wait first");
}

/// CPUs 1 and 2 start a task of 10 us each at the same time and finish at the same time; an instruction takes 1 ns.
/// Each schedule locks its runqueue after 40 ns and the queue 20 ns later, for 20 ns; CPU 2 is second at the queue.
#[test]
fn second_schedule_waits_for_the_queue_lock() {
    let mut machine = machine(3, 5);
    machine.costs.instruction_ps = 1_000;
    let task = |name: &str| spec(name, Start::At(Nanos(0)), vec![work(10_000)]);
    let played = play(&machine, &workload(vec![task("a"), task("b"), task("c")]));
    let waits: Vec<_> =
        played.story.0.iter().filter(|event| matches!(event.kind, EventKind::LockWait { .. })).collect();
    assert!(!waits.is_empty());
    for event in &waits {
        let EventKind::LockWait { lock, waited } = event.kind else { unreachable!() };
        assert_eq!((lock, event.task), (LockKind::Dsq(DsqId(7)), TaskId::NONE));
        assert!((1..=100).contains(&waited.0), "{waited} at {}", event.time);
    }
    let measures = &played.outcome.measures;
    let locks = measures.locks.as_ref().unwrap();
    let total: u64 = locks.iter().map(|lock| lock.wait_total.0).sum();
    assert_eq!(measures.lock_wait, Some(Nanos(total)));
    let waited: u64 =
        waits.iter().map(|event| if let EventKind::LockWait { waited, .. } = event.kind { waited.0 } else { 0 }).sum();
    assert_eq!(waited, total, "lock table and log agree");
    // Every operation holds the queue for 20 ns, plus two cache-line transfers if another CPU held it before.
    let queue = locks.iter().find(|lock| lock.kind == "dsq").unwrap();
    assert_eq!((queue.hold_max, queue.hold_total.0 % 10), (Nanos(30), 0));
}
