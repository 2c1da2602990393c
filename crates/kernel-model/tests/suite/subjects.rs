// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that kfuncs may be called for, and re-enqueue of whole queues (contract C2, K2, O5).

#[allow(dead_code)]
use crate::bench::{Bench, TICK};
use ids::CpuId;

const OPS: [&str; 5] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN", "OP_DEQUEUE"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    OPS.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn c2_task_cgroup_of_another_task_is_an_error() {
    let ask = "ON_ENQUEUE=bpf_cgroup_release(scx_bpf_task_cgroup(p));dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(1, &with(&[ask]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    assert!(bench.kernel.exit_info().is_none());
    for op in ["ON_DISPATCH=if(prev)", "ON_INIT_TASK="] {
        let (task, then) = if op.contains("prev") { ("prev", "dsq_move_to_local(SHARED);") } else { ("p", "") };
        let ask = format!("{op}bpf_cgroup_release(scx_bpf_task_cgroup({task}));{then}");
        let mut bench = Bench::probe(1, &with(&[&ask, "OP_TASK"]));
        let task = bench.fork("a", "", ids::Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        if bench.kernel.exit_info().is_none() {
            bench.block(task);
        }
        assert_eq!(bench.error(), (1024, "called on a task not being operated on"), "{op}");
    }
}

#[test]
fn o5_tid_to_task_needs_its_ops_flag() {
    let find =
        "ON_RUNNING=counter+=scx_bpf_tid_to_task(TID(p))==p&&!scx_bpf_tid_to_task(0)&&!scx_bpf_tid_to_task(999);";
    let mut bench = Bench::probe(1, &with(&[find, "FLAGS=256"]));
    let task = bench.task("t", "");
    bench.wake(task);
    assert_eq!(bench.variable("counter"), 2);
    let mut bench = Bench::probe(1, &with(&[find]));
    let task = bench.fork("t", "", ids::Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK"));
}

#[test]
fn k2_dsq_reenq_reenqueues_a_user_queue_once_in_order() {
    let again = "ON_TICK=scx_bpf_dsq_reenq(SHARED,0);scx_bpf_dsq_reenq(SHARED,1);";
    let mut bench = Bench::probe(1, &with(&["OP_TICK", again]));
    let [a, b, c] = ["a", "b", "c"].map(|name| bench.task(name, ""));
    for task in [a, b, c] {
        bench.wake(task);
    }
    bench.log();
    bench.run(&[0], TICK);
    assert_eq!(bench.line(), "tick:0:0 enqueue:0:1(0x10000000000) enqueue:0:2(0x10000000000)");
    bench.kernel.check();
}

#[test]
fn k2_reenqueue_into_a_local_queue_ends_custody() {
    let enqueue = "ON_ENQUEUE=dsq_insert(p,enq_flags>>40&1?SCX_DSQ_LOCAL:SHARED,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(2, &with(&["OP_TICK", "ON_TICK=scx_bpf_dsq_reenq(SHARED,0);", enqueue]));
    let [a, b] = ["a", "b"].map(|name| bench.task(name, "0"));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.run(&[0], TICK);
    assert_eq!(bench.line(), "tick:0:0 enqueue:0:1(0x10000000000) dequeue:0:1");
    bench.kernel.check();
}

#[test]
fn k2_dsq_reenq_accepts_remote_local_queues_but_not_the_global_queue() {
    let local = "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
    let cases = [
        ("ON_TICK=scx_bpf_dsq_reenq(LOCAL_ON(1),0);", None),
        ("ON_TICK=scx_bpf_dsq_reenq(LOCAL_ON(9),0);", Some("invalid CPU 9 in SCX_DSQ_LOCAL_ON dispatch verdict")),
        ("ON_TICK=scx_bpf_dsq_reenq(GLOBAL,0);", Some("DSQ 0x8000000000000001 not allowed for reenq")),
        ("ON_TICK=scx_bpf_dsq_reenq(77,0);", Some("non-existent DSQ 0x4d")),
        ("ON_TICK=scx_bpf_dsq_reenq(SHARED,6);", Some("invalid SCX_REENQ flags 0x6")),
    ];
    for (tick, error) in cases {
        let mut bench = Bench::probe(2, &with(&["OP_TICK", tick, local]));
        let hog = bench.task("hog", "0");
        let [a, b] = ["a", "b"].map(|name| bench.task(name, "1"));
        for task in [hog, a, b] {
            bench.wake(task);
        }
        bench.log();
        bench.run(&[0], TICK);
        assert_eq!(bench.kernel.exit_info().map(|exit| exit.message.as_str()), error, "{tick}");
        if error.is_none() {
            assert_eq!(bench.line(), "tick:0:0 enqueue:0:2(0x10000000000)");
        }
    }
}

#[test]
fn k2_endless_dsq_reenq_ejects_the_scheduler() {
    let enqueue = "ON_ENQUEUE=if(enq_flags>>40&1)scx_bpf_dsq_reenq(SHARED,0);dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(1, &with(&["OP_TICK", "ON_TICK=scx_bpf_dsq_reenq(SHARED,0);", enqueue]));
    let [a, b] = ["a", "b"].map(|name| bench.task(name, ""));
    bench.wake(a);
    bench.wake(b);
    bench.run(&[0], TICK);
    assert_eq!(bench.error(), (1024, "SCX_ENQ_REENQ on DSQ 0x7 repeated 257 times"));
}
