// SPDX-License-Identifier: GPL-2.0-only
//! The test vectors of contract 1.10: the order of callbacks. An entry is `op:cpu:task(arguments)`.

#[allow(dead_code)]
use crate::bench::{Bench, TICK};
use ids::{CpuId, CpuSet, Nanos, Policy};
use kernel_model::Leave;

/// All ops that follow the life of a task.
const LIFE: [&str; 6] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN", "OP_DEQUEUE", "OP_UPDATE_IDLE"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    LIFE.iter().chain(more).copied().collect()
}

#[test]
fn v1_direct_dispatch_to_an_idle_cpu_runs_the_task() {
    let direct = "ON_SELECT=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);return 1;";
    let mut bench = Bench::probe(2, &with(&[direct, "FLAGS=1"]));
    let task = bench.task("a", "");
    bench.wake(task);
    assert_eq!(
        bench.line(),
        "select_cpu:0:0(0x1,0x8) runnable:0:0(0x100009) update_idle:1:-(0x1) running:1:0",
        "no enqueue after a direct dispatch"
    );
}

#[test]
fn v2_task_in_a_user_queue_is_dispatched_to_an_idle_cpu() {
    let mut bench = Bench::probe(2, &with(&["FLAGS=1"]));
    let task = bench.task("a", "");
    bench.wake(task);
    assert_eq!(
        bench.line(),
        "select_cpu:0:0(0x0,0x8) runnable:0:0(0x100009) enqueue:0:0(0x100009) dispatch:0:- dequeue:0:0 \
         update_idle:0:-(0x0) running:0:0"
            .replace("(0x0)", "")
    );
}

#[test]
fn v3_two_hogs_on_one_cpu_alternate_by_slice() {
    let mut bench = Bench::probe(1, &with(&["OP_TICK", "FLAGS=1"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.run(&[0], Nanos::from_ms(20));
    assert_eq!(
        bench.line(),
        "tick:0:0 tick:0:0 tick:0:0 tick:0:0 tick:0:0 dispatch:0:0 dequeue:0:1 stopping:0:0(0x1) enqueue:0:0 running:0:1"
    );
}

#[test]
fn v4_sole_hog_is_kept_without_a_callback() {
    let mut bench = Bench::probe(1, &with(&["FLAGS=1"]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.log();
    bench.run(&[0], Nanos::from_ms(20));
    assert_eq!(bench.line(), "dispatch:0:0");
    assert_eq!(bench.kernel.event_count("SCX_EV_DISPATCH_KEEP_LAST"), 1);
    bench.run(&[0], Nanos::from_ms(16));
    assert_eq!(bench.line(), "", "the slice was refilled");
}

#[test]
fn v5_sleeping_task_leaves_its_cpu_idle() {
    let mut bench = Bench::probe(1, &with(&["FLAGS=1"]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.log();
    bench.block(task);
    assert_eq!(bench.line(), "stopping:0:0 quiescent:0:0(0x9) dispatch:0:0 update_idle:0:-(0x0,0x1)");
}

#[test]
fn v6_real_time_task_takes_and_releases_the_cpu() {
    let mut bench = Bench::probe(1, &with(&["OP_PREEMPT", "FLAGS=1"]));
    let (ext, rt) = (bench.task("ext", ""), bench.task_with("rt", "", Policy::Fifo(50), 0));
    bench.wake(ext);
    bench.log();
    bench.wake(rt);
    assert_eq!(bench.line(), "stopping:0:0(0x1) cpu_release:0:1");
    assert_eq!(bench.kernel.current(CpuId(0)), rt);
    bench.block(rt);
    assert_eq!(bench.line(), "cpu_acquire:0:- running:0:0", "the task was at the head of the local queue");
}

#[test]
fn v7_affinity_change_migrates_a_running_task() {
    let mut bench = Bench::probe(2, &with(&["OP_TASK", "OP_CHANGE", "FLAGS=1"]));
    let task = bench.task("a", "0-1");
    bench.wake(task);
    bench.log();
    let allowed: CpuSet = "0".parse().unwrap();
    bench.kernel.set_affinity(CpuId(0), task, &allowed).unwrap();
    bench.settle();
    assert_eq!(
        bench.line(),
        "stopping:0:0 quiescent:0:0(0x20000000a) set_cpumask:0:0(0x1) runnable:0:0(0xa) running:0:0",
        "a running task keeps its CPU without enqueue"
    );
}

#[test]
fn v8_forked_task_runs_and_exits() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK", "OP_CHANGE", "FLAGS=1"]));
    let task = bench.fork("child", "", Policy::Other, 5);
    assert_eq!(bench.line(), "init_task:0:0(0x1) enable:0:0 set_weight:0:0(0x21)");
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(
        bench.line(),
        "runnable:0:0(0x80008) enqueue:0:0(0x80008) dispatch:0:- dequeue:0:0 update_idle:0:- running:0:0",
        "with one CPU select_cpu is not called"
    );
    bench.leave(task, Leave::Exit);
    assert_eq!(
        bench.line(),
        "stopping:0:0 quiescent:0:0(0x10009) dispatch:0:0 update_idle:0:-(0x0,0x1) disable:0:0 exit_task:0:0"
    );
}

#[test]
fn v10_unregistered_scheduler_is_disabled() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK", "FLAGS=1"]));
    let (running, waiting) = (bench.task("running", ""), bench.task("waiting", ""));
    bench.wake(running);
    bench.wake(waiting);
    bench.log();
    bench.pass(TICK);
    bench.kernel.detach(CpuId(0));
    let ops = bench.ops();
    assert!(ops.ends_with("exit"), "exit is the last callback: {ops}");
    assert_eq!(ops.matches("disable").count(), 2);
    assert_eq!(ops.matches("exit_task").count(), 2);
    assert_eq!(bench.error(), (64, ""));
    assert_eq!(bench.exit().reason, "unregistered from user space");
}
