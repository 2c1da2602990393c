// SPDX-License-Identifier: GPL-2.0-only
//! Whole runs against hand-computed timelines, and against repetitions: same inputs, same bytes.

use crate::common::{Scheduler, free_machine, rt_app};
use event_log::{EventKind, SwitchReason};
use ids::{CpuId, Nanos};
use machine_model::Machine;

const MS: u64 = 1_000_000;

/// Three tasks of 30 ms on one CPU with HZ 250 under fifo, slices of 20 ms: each gets its slice, in order, and the
/// first tick at or after its end is at exactly 20 ms. Then each has 10 ms left.
#[test]
fn slices_are_round_robin() {
    let mut machine = free_machine("core:1 pu:1");
    machine.hz = 250;
    let hogs = rt_app(r#"{"tasks": {"hog": {"instance": 3, "loop": 1, "run": 30000}}}"#);
    let played = Scheduler::shipped("fifo").play(&machine, &hogs).completed();
    let worker = "0 0:0, 0 0:-";
    let expected = "0 0:1, 20000000 0:2, 40000000 0:3, 60000000 0:1, 70000000 0:2, 80000000 0:3, 90000000 0:-";
    assert_eq!(played.switches(), format!("{worker}, {expected}"));
    assert_eq!(played.outcome.measures.makespan, Some(Nanos(90 * MS)));
    let runnable: Vec<u64> = played.outcome.measures.tasks.iter().map(|task| task.account.runnable.0 / MS).collect();
    assert_eq!(runnable, [0, 40, 50, 60]);
    assert_eq!(played.count(SwitchReason::SliceEnd), 3);
}

/// Two tasks on two CPUs alternate by waking each other. A wakeup takes 300 ns, an interrupt between the CPUs 500,
/// leaving idle 1000, a switch 200; scheduler code takes no time.
///
/// | time | CPU 0 | CPU 1 |
/// |---|---|---|
/// | 0 | ping starts; leaves idle until 1000, wakeup until 1300 | |
/// | 1300 | switch until 1500, then 10 us of work | |
/// | 5000 | pong starts; wakeup until 5300, interrupt for CPU 1 | at 5800; leaves idle until 6800 |
/// | 6800 | | switch until 7000; pong suspends |
/// | 11800 | work done, 300 late; wakeup until 12100, ping suspends | interrupt at 12600, idle until 13600 |
/// | 13600 | | switch until 13800, 20 us of work |
/// | 33800 | interrupt at 34600, idle until 35600 | work done; wakeup until 34100, pong suspends |
/// | 35600 | switch until 35800, 10 us of work | |
/// | 45800 | wakeup until 46100, ping suspends | interrupt at 46600, idle until 47600 |
/// | 47600 | | switch until 47800, 20 us of work |
/// | 67800 | interrupt at 68600, idle until 69600 | wakeup until 68100, pong ends |
/// | 69600 | switch until 69800, ping ends | |
#[test]
fn two_tasks_alternate_by_wakeups() {
    let mut machine = free_machine("core:2 pu:1");
    machine.costs.wakeup_ns = 300;
    machine.costs.ipi_ns = [500; 3];
    machine.costs.idle_exit_ns = 1_000;
    machine.costs.context_switch_ns = 200;
    let pair = rt_app(
        r#"{"tasks": {
            "ping": {"loop": 2, "run": 10, "resume": "pong", "suspend": "ping"},
            "pong": {"loop": 2, "delay": 5, "suspend": "pong", "run": 20, "resume": "ping"}}}"#,
    );
    let played = Scheduler::shipped("fifo").play(&machine, &pair).completed();
    let expected = "1300 0:1, 6800 1:2, 7000 1:-, 12100 0:-, 13600 1:2, 34100 1:-, 35600 0:1, 46100 0:-, \
                    47600 1:2, 68100 1:-, 69600 0:1, 69800 0:-";
    assert_eq!(played.switches(), format!("0 0:0, 0 0:-, {expected}"));
}

/// A mix of everything: costs, several caches, SMT, preemption, locks, forks, changing affinity.
const MIX: &str = r#"{"global": {"duration": 1}, "resources": {"m": {"type": "mutex"}}, "tasks": {
    "hog": {"instance": 3, "loop": -1, "run": 70000, "sleep": 300},
    "light": {"instance": 6, "loop": -1, "priority": -10, "run": 200, "sleep": 3000},
    "lock": {"instance": 3, "loop": -1, "lock": "m", "run": 1000, "unlock": "m", "sleep": 700},
    "fork": {"loop": 20, "run": 900, "sleep": 9000, "fork": "child"},
    "child": {"instance": 0, "loop": 5, "run": 1100, "yield": "", "sleep": 50},
    "nomad": {"loop": -1, "phases": {"a": {"cpus": [0], "run": 3000}, "b": {"cpus": [1, 2, 3], "run": 2000}}}}}"#;

#[test]
fn same_inputs_give_identical_runs() {
    let machine = Machine::preset("laptop-2c4t").unwrap().without_effects();
    let workload = rt_app(MIX);
    for name in ["fifo", "bfs"] {
        let scheduler = Scheduler::shipped(name);
        let first = scheduler.play(&machine, &workload).completed();
        assert!(first.outcome.measures.context_switches > 1_000);
        std::thread::scope(|scope| {
            let play = || scheduler.play(&machine, &workload);
            let beside = [scope.spawn(play), scope.spawn(play)];
            for thread in beside {
                let again = thread.join().unwrap();
                assert_eq!(again.outcome, first.outcome, "{name}");
                assert!(again.events == first.events, "{name}");
            }
        });
    }
}

/// Recorded hash of one run: debug and release builds, and every host, give the same. The object is
/// `tests/policies/preempt.bpf.c` compiled by clang 19, since another compiler may produce other instructions.
#[test]
fn run_hash_is_the_same_on_every_host() {
    let scheduler = Scheduler::from_bytes("preempt", include_bytes!("../fixtures/preempt.bpf.o"));
    let played = scheduler.play(&Machine::preset("laptop-2c4t").unwrap().without_effects(), &rt_app(MIX)).completed();
    assert!(played.count(SwitchReason::Preempt) > 1_000);
    expect_test::expect!["7411f8b1de0a18686d0882bd695fcd39"].assert_eq(&format!("{:032x}", played.outcome.log_hash));
}

/// A slice that another CPU sets to 0, without kicking the CPU that runs the task, ends at the next tick there.
#[test]
fn slice_zeroed_by_another_cpu_ends_at_the_next_tick() {
    let mut machine = free_machine("core:2 pu:1");
    machine.hz = 250;
    let workload = rt_app(
        r#"{"global": {"duration": 1}, "tasks": {
            "hog": {"instance": 2, "cpus": [1], "loop": -1, "run": 1000000},
            "cutter": {"cpus": [0], "loop": -1, "run": 10, "sleep": 50000}}}"#,
    );
    let played = Scheduler::compiled("cut", "").play(&machine, &workload).completed();
    let on_cpu_1 = played.events.iter().filter(|event| {
        event.cpu == CpuId(1) && matches!(event.kind, EventKind::Switch { reason: SwitchReason::SliceEnd, .. })
    });
    assert!(on_cpu_1.count() >= 10);
}
