// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues and inserts: rules O1 to O6, D1 to D9, D11, D12, K2 to K4 of the contract.

#[allow(dead_code)]
use crate::bench;

use bench::Bench;
use ids::{CpuId, Policy, TaskId, Topology};
use kernel_model::Leave;

const BASE: [&str; 4] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_DEQUEUE"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    BASE.iter().chain(more).copied().collect()
}

/// A probe with this `enqueue` body, and a new task woken on CPU 0.
fn enqueue(cpus: u32, body: &str) -> (Bench, TaskId) {
    let body = format!("ON_ENQUEUE={body}");
    let mut bench = Bench::probe(cpus, &with(&[&body, "OP_RUN"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.log();
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    (bench, task)
}

/// The error caused by this `enqueue` body.
fn enqueue_error(body: &str) -> (u32, String) {
    let (bench, _) = enqueue(2, body);
    let (kind, message) = bench.error();
    (kind, message.to_owned())
}

/// A probe whose `enqueue` holds tasks; `dispatch` executes `body` with the first held task as `t`.
fn held(cpus: u32, body: &str, more: &[&str]) -> Bench {
    let dispatch = format!("ON_DISPATCH=struct task_struct*t=held_task();if(t){{{body}bpf_task_release(t);}}");
    let defines: Vec<&str> = ["ON_ENQUEUE=hold(p);", &dispatch].iter().chain(more).copied().collect();
    Bench::probe(cpus, &with(&defines))
}

#[test]
fn o2_cpu_consumes_only_the_global_queue_of_its_node() {
    let topology = Topology::of_groups(&[0, 1], &[0, 1], &[0, 1]);
    let object = bench::probe(&with(&["ON_SELECT=return 0;", "ON_ENQUEUE=dsq_insert(p,GLOBAL,SCX_SLICE_DFL,0);"]));
    let mut bench = Bench::load(topology, &object).unwrap();
    bench.attach();
    let task = bench.fork("a", "0-1", Policy::Other, 0);
    let blocker = bench.task_with("rt", "0", Policy::Fifo(9), 0);
    bench.wake(blocker);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    bench.kernel.schedule(CpuId(1), Leave::Preempt);
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(1)), TaskId::NONE, "CPU 1 consumes its own node's queue only");
    bench.block(blocker);
    assert_eq!(bench.kernel.current(CpuId(0)), task);
}

#[test]
fn o3_mixing_fifo_and_vtime_is_an_error() {
    let body = "if(counter++)dsq_insert_by_key(p,SHARED,SCX_SLICE_DFL,5,0);else dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let body = format!("ON_ENQUEUE={body}");
    let mut bench = Bench::probe(1, &["OP_ENQUEUE", "OP_DISPATCH", "ON_DISPATCH=", &body]);
    for name in ["a", "b"] {
        let task = bench.fork(name, "", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
    }
    assert_eq!(bench.error(), (1024, "DSQ ID 0x0000000000000007 already had FIFO-enqueued tasks"));
}

#[test]
fn o3_lowest_vtime_runs_first_and_equal_keys_are_fifo() {
    let keys = "ON_ENQUEUE=dsq_insert_by_key(p,ORDERED,SCX_SLICE_DFL,p->pid==101?10:20,0);";
    let mut bench = Bench::probe(1, &with(&[keys, "ON_DISPATCH=dsq_move_to_local(ORDERED);"]));
    let blocker = bench.task_with("rt", "", Policy::Fifo(9), 0);
    let tasks: Vec<TaskId> = ["late", "early", "later"].iter().map(|name| bench.task(name, "")).collect();
    assert_eq!(tasks[0].0, 1);
    bench.wake(blocker);
    for &task in tasks.iter().rev() {
        bench.wake(task);
    }
    bench.block(blocker);
    let mut order = Vec::new();
    for _ in 0..3 {
        let current = bench.kernel.current(CpuId(0));
        order.push(current.0);
        bench.block(current);
    }
    assert_eq!(order, [1, 3, 2], "key 10 first, then 3 before 2 in order of arrival");
}

#[test]
fn d1_direct_dispatch_of_another_task_is_an_error() {
    let body =
        "struct task_struct*o=bpf_task_from_pid(100);if(o){dsq_insert(o,SCX_DSQ_LOCAL,0,0);bpf_task_release(o);}";
    let mut bench = Bench::probe(1, &with(&[&format!("ON_ENQUEUE={body}")]));
    bench.fork("other", "", Policy::Other, 0);
    let task = bench.fork("subject", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "scheduling for subject[101] but trying to direct-dispatch other[100]"));
}

#[test]
fn d1_direct_dispatch_twice_is_an_error() {
    let twice = "dsq_insert(p,SCX_DSQ_LOCAL,0,0);dsq_insert(p,SCX_DSQ_LOCAL,0,0);";
    assert_eq!(enqueue_error(twice), (1024, "a[100] already direct-dispatched".into()));
}

#[test]
fn d2_local_on_another_cpu_from_enqueue_migrates_and_wakes_it() {
    let (mut bench, task) = enqueue(4, "dsq_insert(p,LOCAL_ON(3),SCX_SLICE_DFL,0);");
    assert_eq!(bench.kernel.current(CpuId(3)), task);
    assert_eq!(
        bench.ops(),
        "select_cpu runnable enqueue dispatch running",
        "CPU 0 was rescheduled too and found no task"
    );
}

#[test]
fn d3_slice_0_keeps_the_residual_but_at_least_1_ns() {
    let (bench, _) = enqueue(1, "p->scx.slice=0;dsq_insert(p,SCX_DSQ_LOCAL,0,0);counter=p->scx.slice;");
    assert_eq!(bench.variable("counter"), 1);
    let (bench, _) = enqueue(1, "p->scx.slice=77;dsq_insert(p,SCX_DSQ_LOCAL,0,0);counter=p->scx.slice;");
    assert_eq!(bench.variable("counter"), 77);
}

#[test]
fn d4_batch_is_dispatched_in_full() {
    let take = "dsq_insert(t,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);bpf_task_release(t);";
    let more = format!(
        "{take}t=held_task();if(!t)return;{take}t=held_task();if(!t)return;dsq_insert(t,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);"
    );
    let mut bench = held(1, &more, &[]);
    let blocker = bench.task_with("rt", "", Policy::Fifo(9), 0);
    let tasks: Vec<TaskId> = ["a", "b", "c"].iter().map(|name| bench.fork(name, "", Policy::Other, 0)).collect();
    bench.wake(blocker);
    for &task in &tasks {
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
    }
    bench.block(blocker);
    bench.log();
    let mut ran = Vec::new();
    for _ in 0..3 {
        let current = bench.kernel.current(CpuId(0));
        ran.push(current.0);
        bench.block(current);
    }
    ran.sort_unstable();
    assert_eq!(ran, [1, 2, 3], "one dispatch inserted all three");
    assert_eq!(bench.ops().matches("dispatch").count(), 1, "dispatch is called again only after all three have run");
}

#[test]
fn d4_buffer_overflow_and_underflow_are_errors() {
    let twice = "dsq_insert(t,SCX_DSQ_LOCAL,0,0);dsq_insert(t,SCX_DSQ_LOCAL,0,0);";
    let mut bench = held(1, twice, &["BATCH=1"]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "dispatch buffer overflow"));
    let mut bench = Bench::probe(1, &with(&["ON_DISPATCH=scx_bpf_dispatch_cancel();"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "dispatch buffer underflow"));
}

#[test]
fn d4_a_spurious_dispatch_is_dropped_silently() {
    let twice = "dsq_insert(t,SCX_DSQ_LOCAL,0,0);dsq_insert(t,SCX_DSQ_LOCAL,0,0);";
    let mut bench = held(1, twice, &[]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(0)), task);
    assert!(bench.kernel.exit_info().is_none());
}

#[test]
fn d4_nr_slots_falls_per_insert_and_rises_on_cancel() {
    let body = "dsq_insert(t,SCX_DSQ_LOCAL,0,0);counter=scx_bpf_dispatch_nr_slots()*100;scx_bpf_dispatch_cancel();\
                counter+=scx_bpf_dispatch_nr_slots();dsq_insert(t,SCX_DSQ_LOCAL,0,0);";
    let mut bench = held(1, body, &[]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.variable("counter"), 3132);
}

#[test]
fn d5_insert_into_an_unknown_queue_is_an_error() {
    let (kind, message) = enqueue_error("dsq_insert(p,0x3039,SCX_SLICE_DFL,0);");
    assert_eq!((kind, message.as_str()), (1024, "non-existent DSQ 0x3039"));
}

#[test]
fn d5_local_on_an_invalid_cpu_is_an_error() {
    let (kind, message) = enqueue_error("dsq_insert(p,LOCAL_ON(77),SCX_SLICE_DFL,0);");
    assert_eq!((kind, message.as_str()), (1024, "invalid CPU 77 in SCX_DSQ_LOCAL_ON dispatch verdict"));
}

#[test]
fn d5_local_on_a_disallowed_cpu_is_an_error() {
    let mut bench = Bench::probe(2, &with(&["ON_ENQUEUE=dsq_insert(p,LOCAL_ON(1),SCX_SLICE_DFL,0);"]));
    let task = bench.fork("a", "0", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "SCX_DSQ_LOCAL[_ON] target CPU 1 not allowed for a[100]"));
}

#[test]
fn d5_vtime_in_a_builtin_queue_is_an_error() {
    let (kind, message) = enqueue_error("dsq_insert_by_key(p,GLOBAL,SCX_SLICE_DFL,1,0);");
    assert_eq!((kind, message.as_str()), (1024, "cannot use vtime ordering for built-in DSQs"));
}

#[test]
fn d6_local_on_from_dispatch_migrates_and_reschedules() {
    let mut bench = held(2, "dsq_insert(t,LOCAL_ON(1),SCX_SLICE_DFL,0);", &[]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(1)), task);
    assert_eq!(bench.kernel.task_cpu(task), CpuId(1));
}

#[test]
fn d7_move_to_local_skips_tasks_that_may_not_run_here() {
    let mut bench = Bench::probe(2, &with(&["ON_SELECT=return 0;"]));
    let blocker = bench.task_with("rt", "0", Policy::Fifo(9), 0);
    let (pinned, free) = (bench.task("pinned", "0"), bench.task("free", ""));
    bench.wake(blocker);
    bench.wake(pinned);
    bench.wake(free);
    bench.kernel.schedule(CpuId(1), Leave::Preempt);
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(1)), free, "the head of the queue belongs to CPU 0");
    assert!(bench.kernel.exit_info().is_none());
    bench.block(blocker);
    assert_eq!(bench.kernel.current(CpuId(0)), pinned);
}

#[test]
fn d7_move_to_local_from_a_builtin_or_missing_queue_is_an_error() {
    for (dsq, text) in [("GLOBAL", "0x8000000000000001"), ("99", "0x0000000000000063")] {
        let mut bench = Bench::probe(1, &with(&[&format!("ON_DISPATCH=dsq_move_to_local({dsq});")]));
        let task = bench.fork("a", "", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        assert_eq!(bench.error(), (1024, format!("invalid DSQ ID {text}").as_str()));
    }
}

#[test]
fn d8_preempt_ends_the_running_slice_and_inserts_at_the_head() {
    let body = "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,p->pid==101?1ULL<<32:0);";
    let mut bench = Bench::probe(1, &with(&[body, "OP_RUN"]));
    let (a, urgent, b) = (bench.task("a", ""), bench.task("urgent", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.wake(urgent);
    assert_eq!(bench.kernel.current(CpuId(0)), urgent);
    assert_eq!(bench.ops(), "runnable enqueue stopping enqueue running", "a lost its slice and is enqueued behind b");
}

#[test]
fn d8_head_inserts_before_queued_tasks() {
    let body = "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,p->pid==102?0x10000:0);";
    let mut bench = Bench::probe(1, &with(&[body]));
    let (a, b, head) = (bench.task("a", ""), bench.task("b", ""), bench.task("head", ""));
    bench.wake(a);
    bench.wake(b);
    bench.wake(head);
    bench.block(a);
    assert_eq!(bench.kernel.current(CpuId(0)), head);
}

#[test]
fn d11_without_enqueue_tasks_go_to_the_global_queue_with_a_full_slice() {
    let mut bench = Bench::probe(1, &["OP_RUN", "ON_RUNNING=counter=p->scx.slice;"]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(0)), task);
    assert_eq!(bench.variable("counter"), 20_000_000);
}

#[test]
fn d11_without_select_cpu_an_idle_cpu_gets_the_task_directly() {
    let mut bench = Bench::probe(2, &["OP_RUN", "OP_ENQUEUE", "OP_DISPATCH"]);
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.log();
    bench.wake(b);
    assert_eq!(bench.ops(), "runnable running", "enqueue is skipped");
    assert_ne!(bench.kernel.task_cpu(a), bench.kernel.task_cpu(b));
}

#[test]
fn k2_reenqueue_local_calls_enqueue_for_every_waiting_task() {
    let mut bench = released("put_local_back();", "FLAGS=0");
    assert_eq!(bench.line(), "cpu_release:0:0 enqueue:0:1(0x10000000000) enqueue:0:2(0x10000000000)");
    assert_eq!(bench.kernel.event_count("SCX_EV_ENQ_SKIP_MIGRATION_DISABLED"), 0);
}

/// A BPF program disables migration of the current task while it runs; in `cpu_release` that is still the task just
/// preempted.
#[test]
fn k2_reenqueue_in_cpu_release_skips_the_preempted_task() {
    let call = "if(KERNEL_HAS(scx_bpf_reenqueue_local___v1))counter=scx_bpf_reenqueue_local___v1();";
    let mut bench = released(call, "FLAGS=0");
    assert_eq!(bench.line(), "cpu_release:0:0 enqueue:0:2(0x10000000000)");
    assert_eq!(bench.variable("counter"), 2, "both tasks were taken out of the queue");
    assert_eq!(bench.kernel.event_count("SCX_EV_ENQ_SKIP_MIGRATION_DISABLED"), 1);
    let mut bench = released(call, "FLAGS=16");
    assert_eq!(bench.line(), "cpu_release:0:0 enqueue:0:1(0x10000000000) enqueue:0:2(0x10000000000)");
}

/// Two tasks on one CPU, the first of which runs, and a real-time task that preempts it.
fn released(call: &str, flags: &str) -> Bench {
    let body = "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(1, &with(&[body, "OP_PREEMPT", &format!("ON_RELEASE={call}"), flags]));
    let rt = bench.task_with("rt", "", Policy::Fifo(9), 0);
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.wake(rt);
    bench
}

#[test]
fn k3_dsq_move_takes_a_task_from_the_middle_of_a_queue() {
    let dispatch = "ON_DISPATCH=struct task_struct*t;bool ok=false;{struct bpf_iter_scx_dsq it \
                    __attribute__((cleanup(bpf_iter_scx_dsq_destroy)));bpf_iter_scx_dsq_new(&it,SHARED,0);\
                    while((t=bpf_iter_scx_dsq_next(&it))){counter++;if(t->pid==pid_wanted){\
                    ok=scx_bpf_dsq_move___v1(&it,t,SCX_DSQ_LOCAL,0);break;}}}if(!ok)dsq_move_to_local(SHARED);";
    let mut bench = Bench::probe(1, &with(&[&dispatch.replace("pid_wanted", "102")]));
    let blocker = bench.task_with("rt", "", Policy::Fifo(9), 0);
    let tasks: Vec<TaskId> = ["a", "wanted", "c"].iter().map(|name| bench.task(name, "")).collect();
    bench.wake(blocker);
    tasks.iter().for_each(|&task| bench.wake(task));
    bench.block(blocker);
    assert_eq!(bench.kernel.current(CpuId(0)), tasks[1]);
}

#[test]
fn k4_create_dsq_rejects_bad_ids_and_nodes() {
    for (call, result) in [
        ("scx_bpf_create_dsq(GLOBAL,-1)", -22),
        ("scx_bpf_create_dsq(SHARED,-1)", -17),
        ("scx_bpf_create_dsq(9,5)", -22),
    ] {
        let init = format!("ON_INIT=counter=(s64){call};");
        let bench = Bench::probe(1, &with(&[&init]));
        assert_eq!(bench.variable("counter") as i64, result, "{call}");
    }
}

#[test]
fn k4_destroying_a_queue_in_use_is_an_error_and_a_missing_one_is_ignored() {
    let bench = Bench::probe(1, &with(&["ON_INIT=scx_bpf_destroy_dsq(1234);scx_bpf_destroy_dsq(ORDERED);"]));
    assert!(bench.kernel.exit_info().is_none());
}

#[test]
fn o3_vtime_key_is_read_when_the_insert_is_carried_out() {
    let body = "ON_ENQUEUE=dsq_insert_by_key(p,ORDERED,SCX_SLICE_DFL,50,0);p->scx.dsq_vtime=p->pid==102?10:20;";
    let mut bench = Bench::probe(1, &with(&[body, "ON_DISPATCH=dsq_move_to_local(ORDERED);"]));
    let blocker = bench.task_with("rt", "", Policy::Fifo(9), 0);
    let (late, early) = (bench.task("late", ""), bench.task("early", ""));
    for task in [blocker, late, early] {
        bench.wake(task);
    }
    bench.block(blocker);
    assert_eq!(bench.kernel.current(CpuId(0)), early);
}

#[test]
fn d1_failed_direct_dispatch_uses_up_the_only_attempt() {
    let other = "struct task_struct*o=bpf_task_from_pid(100);if(!o)return;";
    for (body, message) in [
        ("dsq_insert(p,SHARED,0,0);dsq_insert(o,SHARED,0,0);", "other[100] already direct-dispatched"),
        (
            "dsq_insert(o,SHARED,0,0);dsq_insert(p,SHARED,0,0);",
            "scheduling for subject[101] but trying to direct-dispatch other[100]",
        ),
    ] {
        let body = format!("ON_ENQUEUE={other}{body}bpf_task_release(o);");
        let mut bench = Bench::probe(1, &with(&[&body]));
        bench.fork("other", "", Policy::Other, 0);
        let task = bench.fork("subject", "", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        assert_eq!(bench.error(), (1024, message));
    }
}

#[test]
fn k3_dsq_local_means_the_locked_runqueue() {
    let body = "ON_ENQUEUE=counter=scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL);dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(2, &with(&[body]));
    let tasks: Vec<TaskId> = ["a", "b", "c"].iter().map(|name| bench.task(name, "1")).collect();
    tasks.iter().for_each(|&task| bench.wake(task));
    assert_eq!(
        bench.variable("counter"),
        1,
        "b waits on CPU 1 behind the running a; the local queue of the waker's CPU 0 is empty"
    );
}

#[test]
fn e3_cpuperf_is_limited_to_1024_and_to_the_locked_runqueue() {
    for (call, message) in [
        ("scx_bpf_cpuperf_set(1,1025)", "Invalid cpuperf target 1025 for CPU 1"),
        ("scx_bpf_cpuperf_set(0,5)", "Invalid target CPU 0"),
    ] {
        let mut bench = Bench::probe(2, &with(&[&format!("ON_ENQUEUE={call};")]));
        let task = bench.fork("a", "1", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        assert_eq!(bench.error(), (1024, message), "{call}");
    }
    let mut bench = Bench::probe(2, &with(&["ON_ENQUEUE=scx_bpf_cpuperf_set(1,1024);dsq_insert(p,SHARED,0,0);"]));
    let task = bench.fork("a", "1", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert!(bench.kernel.exit_info().is_none());
}

#[test]
fn d5_rejected_insert_puts_the_task_in_the_global_queue() {
    let mut bench = held(2, "dsq_insert(t,LOCAL_ON(1),SCX_SLICE_DFL,0);", &["OP_RUN"]);
    let task = bench.fork("a", "0", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert!(!bench.ops().contains("running"), "after an error no user queue is consumed");
    assert_eq!(bench.error(), (1024, "SCX_DSQ_LOCAL[_ON] target CPU 1 not allowed for a[100]"));
    assert_eq!(bench.kernel.current(CpuId(0)), task);
}

#[test]
fn d11_slice_refills_are_counted() {
    let mut bench = Bench::probe(1, &[]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.kernel.event_count("SCX_EV_REFILL_SLICE_DFL"), 1);
    assert_eq!(bench.kernel.event_count("SCX_EV_NO_SUCH"), 0);
}

#[test]
fn o6_a_new_task_has_a_default_slice() {
    let (bench, _) = enqueue(1, "counter=p->scx.slice;dsq_insert(p,SCX_DSQ_LOCAL,0,0);");
    assert_eq!(bench.variable("counter"), 20_000_000);
}

#[test]
fn k3_tasks_queued_after_the_iterator_are_neither_seen_nor_moved() {
    let dispatch = "ON_DISPATCH=struct task_struct*t=held_task(),*n;if(t){struct bpf_iter_scx_dsq it \
                    __attribute__((cleanup(bpf_iter_scx_dsq_destroy)));bpf_iter_scx_dsq_new(&it,SHARED,0);\
                    dsq_insert(t,SHARED,SCX_SLICE_DFL,0);dsq_move_to_local(ORDERED);\
                    counter=1000*scx_bpf_dsq_nr_queued(SHARED);counter+=100*scx_bpf_dsq_move___v1(&it,t,SCX_DSQ_LOCAL,0);\
                    while((n=bpf_iter_scx_dsq_next(&it)))counter++;bpf_task_release(t);}";
    let enqueue = "ON_ENQUEUE=if(p->pid==101)dsq_insert(p,SHARED,SCX_SLICE_DFL,0);else hold(p);";
    let mut bench = Bench::probe(1, &with(&[enqueue, dispatch]));
    let blocker = bench.task_with("rt", "", Policy::Fifo(9), 0);
    bench.wake(blocker);
    for name in ["before", "after"] {
        let task = bench.fork(name, "", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
    }
    bench.block(blocker);
    assert_eq!(
        bench.variable("counter"),
        2001,
        "two tasks are queued, the iterator sees one, and the other cannot be moved"
    );
}

#[test]
fn d8_a_task_does_not_preempt_itself() {
    let body = "ON_ENQUEUE=dsq_insert(p,p->pid==100?SCX_DSQ_LOCAL:SHARED,7000000,p->pid==100?1ULL<<32:0);";
    let mut bench = Bench::probe(1, &with(&[body, "OP_RUN", "ON_STOPPING=if(p->pid==100)counter=p->scx.slice;"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.run(&[0], ids::Nanos::from_ms(8));
    assert_eq!(
        bench.kernel.event_count("SCX_EV_REFILL_SLICE_DFL"),
        0,
        "the slice survives the insert of the task itself"
    );
}
