// SPDX-License-Identifier: GPL-2.0-only
//! Which locks an operation takes: `__schedule`, wakeups and ticks hold a runqueue's lock, queues have their own, and nobody
//! holds two runqueues.

#[allow(dead_code)]
mod bench;

use bench::Bench;
use ids::{CpuId, Policy};
use kernel_model::{Leave, Lock, LockStep, Output};

/// A probe whose tasks go through queue 7, on which CPU 0 is kept busy by a real-time task.
fn through_a_queue() -> Bench {
    let defines = [
        "OP_INIT_SLEEPABLE",
        "OP_SELECT_CPU",
        "OP_ENQUEUE",
        "OP_DISPATCH",
        "ON_INIT=scx_bpf_create_dsq(7,-1);",
        "ON_SELECT=return 0;",
        "ON_ENQUEUE=dsq_insert(p,7,SCX_SLICE_DFL,0);",
        "ON_DISPATCH=dsq_move_to_local(7);",
    ];
    let mut bench = Bench::probe(2, &defines);
    let blocker = bench.task_with("rt", "0", Policy::Fifo(9), 0);
    bench.wake(blocker);
    bench.kernel.track_locks();
    bench
}

/// `+` takes, `-` gives back: `+rq0 +dsq7 -dsq7 -rq0`.
fn steps(bench: &mut Bench) -> String {
    let mut output = Output::default();
    bench.kernel.take_output(&mut output);
    let text = |step: &LockStep| {
        let sign = if step.taken { '+' } else { '-' };
        match step.lock {
            Lock::Runqueue(cpu) => format!("{sign}rq{cpu}"),
            Lock::Dsq(dsq) => format!("{sign}dsq{}", dsq.0),
            other => format!("{sign}{other:?}"),
        }
    };
    let used = |step: &LockStep| (step.used.callbacks, step.used.instructions);
    assert!(output.locks.is_sorted_by_key(used), "what was used only grows");
    let total = (output.usage.callbacks, output.usage.instructions);
    assert!(output.locks.last().is_none_or(|last| used(last) <= total));
    output.locks.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_wakeup_locks_the_targets_runqueue_and_the_queue() {
    let mut bench = through_a_queue();
    let task = bench.fork("a", "", Policy::Other, 0);
    steps(&mut bench);
    bench.kernel.wake_new(CpuId(1), task);
    assert_eq!(steps(&mut bench), "+rq0 +dsq7 -dsq7 -rq0");
}

#[test]
fn a_pull_from_a_shared_queue_visits_the_other_runqueue() {
    let mut bench = through_a_queue();
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(1), task);
    steps(&mut bench);
    bench.kernel.schedule(CpuId(1), Leave::Preempt);
    assert_eq!(bench.kernel.current(CpuId(1)), task);
    assert_eq!(steps(&mut bench), "+rq1 +dsq7 -dsq7 -rq1 +rq0 -rq0 +rq1 -rq1");
}

#[test]
fn a_tick_and_a_change_lock_the_runqueue_of_the_task() {
    let mut bench = through_a_queue();
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(1), task);
    bench.kernel.schedule(CpuId(1), Leave::Preempt);
    steps(&mut bench);
    bench.kernel.tick(CpuId(1));
    assert_eq!(steps(&mut bench), "+rq1 -rq1");
    bench.kernel.set_policy(CpuId(0), task, Policy::Other, 5).unwrap();
    assert_eq!(steps(&mut bench), "+rq1 -rq1");
}

#[test]
fn nothing_is_noted_unless_it_is_asked_for() {
    let mut bench = Bench::probe(2, &[]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(1), task);
    assert_eq!(steps(&mut bench), "");
}
