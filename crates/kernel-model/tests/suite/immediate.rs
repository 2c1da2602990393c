// SPDX-License-Identifier: GPL-2.0-only
//! IMMED tasks, which must run at once or be re-enqueued: rule D10 of the contract, and the parts of K2 that share
//! its code.

#[allow(dead_code)]
use crate::bench::Bench;
use ids::{CpuId, Policy, TaskId};
use kernel_model::Leave;

const BASE: [&str; 6] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN", "OP_DEQUEUE", "ON_SELECT=return 0;"];
/// SCX_ENQ_REENQ, and the re-enqueue reason in `p->scx.flags`.
const REENQ: &str = "(1ULL<<40)";
const REASON: &str = "((p->scx.flags>>12)&3)";

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    BASE.iter().chain(more).copied().collect()
}

/// `enqueue` inserts tasks into the local queue with these flags. Re-enqueued tasks wait in the shared queue, and
/// `counter` collects their reasons, one decimal digit each.
fn immediate(first: &str) -> String {
    format!(
        "ON_ENQUEUE=if(enq_flags&{REENQ}){{counter=counter*10+{REASON};dsq_insert(p,SHARED,SCX_SLICE_DFL,0);}}\
         else dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,{first});"
    )
}

const IMMED: &str = "1ULL<<33";

#[test]
fn d10_immed_task_runs_at_once_on_an_idle_cpu() {
    let mut bench = Bench::probe(1, &with(&[&immediate(IMMED)]));
    let task = bench.task("a", "");
    bench.wake(task);
    assert_eq!(bench.line(), "runnable:0:0(0x9) enqueue:0:0(0x9) running:0:0");
    assert_eq!(bench.kernel.event_count("SCX_EV_REENQ_IMMED"), 0);
}

#[test]
fn d10_immed_task_is_reenqueued_from_a_busy_cpu() {
    let mut bench = Bench::probe(1, &with(&[&immediate(IMMED)]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.log();
    bench.wake(b);
    assert_eq!(bench.line(), "runnable:0:1(0x9) enqueue:0:1(0x9) enqueue:0:1(0x10000000000)");
    assert_eq!(bench.variable("counter"), 2, "SCX_TASK_REENQ_IMMED");
    assert_eq!(bench.kernel.event_count("SCX_EV_REENQ_IMMED"), 1);
    assert_eq!(bench.kernel.current(CpuId(0)), a);
    bench.block(a);
    assert_eq!(bench.kernel.current(CpuId(0)), b);
}

#[test]
fn d10_immed_task_with_preempt_takes_a_busy_cpu() {
    for (flags, comes_back) in [("1ULL<<33", 2), ("3ULL<<32", 0)] {
        let mut bench = Bench::probe(1, &with(&[&immediate(&format!("p->pid==100?{flags}:0"))]));
        let (a, b) = (bench.task("a", ""), bench.task("b", ""));
        bench.wake(b);
        bench.wake(a);
        assert_eq!(bench.variable("counter"), comes_back, "with PREEMPT a busy CPU counts as free");
        assert_eq!(bench.kernel.current(CpuId(0)) == a, comes_back == 0);
    }
}

#[test]
fn d10_two_immed_tasks_for_one_idle_cpu_are_both_reenqueued() {
    // Both wakeups happen before the CPU reschedules: the second finds the first task in the queue, and the CPU
    // taken.
    let mut bench = Bench::probe(1, &with(&[&immediate(IMMED)]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.kernel.wake(CpuId(0), a, event_log::Waker::Interrupt, false);
    bench.kernel.wake(CpuId(0), b, event_log::Waker::Interrupt, false);
    bench.settle();
    assert_eq!(bench.variable("counter"), 22);
    assert_eq!(bench.kernel.event_count("SCX_EV_REENQ_IMMED"), 2);
    assert_eq!(bench.kernel.current(CpuId(0)), a, "the shared queue is a FIFO");
}

#[test]
fn d10_higher_class_reenqueues_waiting_and_running_immed_tasks() {
    let mut bench = Bench::probe(1, &with(&[&immediate(IMMED)]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    let rt = bench.task_with("rt", "", Policy::Fifo(1), 0);
    bench.wake(a);
    bench.log();
    bench.wake(rt);
    assert_eq!(bench.line(), "stopping:0:0(0x1) enqueue:0:0(0x10000000000)", "not kept at the head of the local queue");
    assert_eq!(bench.variable("counter"), 3, "SCX_TASK_REENQ_PREEMPTED");
    bench.block(rt);
    bench.block(a);
    // b has not run yet when it loses its place: the real-time task wakes before the CPU reschedules.
    bench.kernel.wake(CpuId(0), b, event_log::Waker::Interrupt, false);
    bench.kernel.wake(CpuId(0), rt, event_log::Waker::Interrupt, false);
    bench.settle();
    assert_eq!(bench.variable("counter"), 32);
    assert_eq!(bench.kernel.current(CpuId(0)), rt);
}

#[test]
fn d10_second_immed_task_is_reenqueued_after_the_pick() {
    // During dispatch the CPU counts as free, but only one of two tasks can run at once.
    let dispatch = "ON_DISPATCH=for(int i=0;i<2;i++){struct task_struct*t=held_task();if(t){\
                    dsq_insert(t,SCX_DSQ_LOCAL,SCX_SLICE_DFL,1ULL<<33);bpf_task_release(t);}}dsq_move_to_local(SHARED);";
    let enqueue = format!(
        "ON_ENQUEUE=if(enq_flags&{REENQ}){{counter=counter*10+{REASON};dsq_insert(p,SHARED,SCX_SLICE_DFL,0);}}else hold(p);"
    );
    let mut bench = Bench::probe(1, &with(&[dispatch, &enqueue]));
    let blocker = bench.task_with("rt", "", Policy::Fifo(1), 0);
    bench.wake(blocker);
    let tasks: Vec<TaskId> = ["a", "b"].iter().map(|name| bench.fork(name, "", Policy::Other, 0)).collect();
    for &task in &tasks {
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
    }
    bench.block(blocker);
    assert_eq!(bench.variable("counter"), 2);
    assert_ne!(bench.kernel.current(CpuId(0)), TaskId::NONE);
}

#[test]
fn d10_immed_flag_survives_an_attribute_change() {
    let mut bench = Bench::probe(1, &with(&[&immediate(IMMED)]));
    let (a, rt) = (bench.task("a", ""), bench.task_with("rt", "", Policy::Fifo(1), 0));
    bench.wake(a);
    bench.kernel.set_policy(CpuId(0), a, Policy::Other, 5).unwrap();
    bench.settle();
    bench.wake(rt);
    assert_eq!(bench.variable("counter"), 3, "still IMMED when it is preempted");
    bench.block(rt);
    bench.wake(rt);
    assert_eq!(bench.variable("counter"), 3, "not after another enqueue");
}

#[test]
fn d10_immed_on_a_non_local_queue_is_an_error() {
    let dispatch = "ON_DISPATCH=if(counter)scx_bpf_dsq_move_to_local___v2___compat(SHARED,1ULL<<33);";
    for (body, dsq) in [
        ("dsq_insert(p,SHARED,SCX_SLICE_DFL,1ULL<<33);", "0x7"),
        ("dsq_insert(p,GLOBAL,1,1ULL<<33);", "0x8000000000000001"),
    ] {
        let mut bench =
            Bench::probe(1, &with(&[&format!("ON_ENQUEUE=p->scx.slice=5;{body}counter=p->scx.slice;"), dispatch]));
        let task = bench.fork("a", "", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        assert_eq!(bench.error(), (1024, format!("SCX_ENQ_IMMED on a non-local DSQ {dsq}").as_str()));
        assert_eq!(bench.variable("counter"), 5, "the insert failed before it set the slice");
    }
}

#[test]
fn d10_move_to_local_accepts_the_immed_flag() {
    let dispatch = "ON_DISPATCH=scx_bpf_dsq_move_to_local___v2___compat(SHARED,1ULL<<33);";
    let enqueue =
        format!("ON_ENQUEUE=if(enq_flags&{REENQ})counter=counter*10+{REASON};dsq_insert(p,SHARED,SCX_SLICE_DFL,0);");
    let mut bench = Bench::probe(1, &with(&[dispatch, &enqueue]));
    let (a, rt) = (bench.task("a", ""), bench.task_with("rt", "", Policy::Fifo(1), 0));
    bench.wake(a);
    bench.wake(rt);
    assert_eq!(bench.variable("counter"), 3);
}

#[test]
fn d10_always_enq_immed_implies_the_flag_on_local_queues() {
    let mut bench = Bench::probe(1, &with(&["FLAGS=128", &immediate("0")]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    assert_eq!(bench.variable("counter"), 2);
}

#[test]
fn d10_endless_immed_reenqueue_ejects_the_scheduler() {
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,1ULL<<33);"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    assert_eq!(bench.error(), (1024, "SCX_ENQ_REENQ on SCX_DSQ_LOCAL repeated 257 times"));
    assert_eq!(bench.kernel.event_count("SCX_EV_REENQ_LOCAL_REPEAT"), 257);
}

#[test]
fn k2_requested_reenqueue_has_the_kfunc_reason() {
    let enqueue = format!(
        "ON_ENQUEUE=if(enq_flags&{REENQ})counter=counter*10+{REASON};dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);"
    );
    let release = "ON_RELEASE=reenqueue_local();";
    let mut bench = Bench::probe(1, &with(&[&enqueue, "OP_PREEMPT", release]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    let rt = bench.task_with("rt", "", Policy::Fifo(9), 0);
    bench.wake(a);
    bench.wake(b);
    bench.wake(rt);
    assert_eq!(bench.variable("counter"), 11, "both re-enqueued by the kfunc");
    bench.leave(rt, Leave::Yield);
    assert_eq!(bench.variable("counter"), 11);
}

#[test]
fn d10_two_preempting_immed_tasks_are_both_reenqueued() {
    let mut bench = Bench::probe(1, &with(&[&immediate("p->pid==102?0:3ULL<<32")]));
    let tasks: Vec<TaskId> = ["a", "b", "busy"].iter().map(|name| bench.task(name, "")).collect();
    bench.wake(tasks[2]);
    for &task in &tasks[..2] {
        bench.kernel.wake(CpuId(0), task, event_log::Waker::Interrupt, false);
    }
    assert_eq!(bench.variable("counter"), 22, "the second task finds the first one in the queue");
}

#[test]
fn d10_immed_task_is_reenqueued_when_overtaken() {
    let mut bench = Bench::probe(1, &with(&[&immediate("p->pid==100?1ULL<<33:0x10000")]));
    let (a, head) = (bench.task("a", ""), bench.task("head", ""));
    bench.kernel.wake(CpuId(0), a, event_log::Waker::Interrupt, false);
    bench.kernel.wake(CpuId(0), head, event_log::Waker::Interrupt, false);
    assert_eq!(bench.variable("counter"), 0, "the task was first in the queue when inserted");
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(0)), head);
    assert_eq!(bench.variable("counter"), 2);
}
