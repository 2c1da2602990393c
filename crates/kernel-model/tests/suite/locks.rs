// SPDX-License-Identifier: GPL-2.0-only
//! Lock acquisitions of operations: `__schedule`, wakeups and ticks hold a runqueue lock, queues have locks of their
//! own, and no operation holds two runqueue locks.

#[allow(dead_code)]
use crate::bench::Bench;
use ids::{CpuId, Policy};
use kernel_model::{Leave, Lock, LockStep, Output};

/// A probe whose tasks go through queue 7, while a real-time task keeps CPU 0 busy.
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

/// The lock steps as text, `+` for an acquisition and `-` for a release: `+rq0 +dsq7 -dsq7 -rq0`.
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
    assert!(output.locks.is_sorted_by_key(used), "usage must not decrease");
    let total = (output.usage.callbacks, output.usage.instructions);
    assert!(output.locks.last().is_none_or(|last| used(last) <= total));
    output.locks.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn wakeup_takes_the_target_runqueue_lock_then_the_queue_lock() {
    let mut bench = through_a_queue();
    let task = bench.fork("a", "", Policy::Other, 0);
    steps(&mut bench);
    bench.kernel.wake_new(CpuId(1), task);
    assert_eq!(steps(&mut bench), "+rq0 +dsq7 -dsq7 -rq0");
}

#[test]
fn pull_from_a_shared_queue_takes_the_other_runqueue_lock() {
    let mut bench = through_a_queue();
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(1), task);
    steps(&mut bench);
    bench.kernel.schedule(CpuId(1), Leave::Preempt);
    assert_eq!(bench.kernel.current(CpuId(1)), task);
    assert_eq!(steps(&mut bench), "+rq1 +dsq7 -dsq7 -rq1 +rq0 -rq0 +rq1 -rq1");
}

#[test]
fn tick_and_renice_take_the_runqueue_lock_of_the_task() {
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
fn lock_steps_are_empty_without_track_locks() {
    let mut bench = Bench::probe(2, &[]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(1), task);
    assert_eq!(steps(&mut bench), "");
}
