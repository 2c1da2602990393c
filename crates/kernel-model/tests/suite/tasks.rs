// SPDX-License-Identifier: GPL-2.0-only
//! The life of a task: rules T1 to T14 of the contract.

#[allow(dead_code)]
use crate::bench;

use bench::{Bench, TICK};
use event_log::BlockCause;
use ids::{CpuId, CpuSet, Nanos, Policy, Topology};
use kernel_model::Leave;

const LIFE: [&str; 5] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN", "OP_DEQUEUE"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    LIFE.iter().chain(more).copied().collect()
}

fn mask(text: &str) -> CpuSet {
    text.parse().unwrap()
}

#[test]
fn t1_fork_calls_init_task_enable_set_weight() {
    let mut bench = Bench::probe(2, &with(&["OP_TASK", "OP_CHANGE"]));
    bench.fork("child", "", Policy::Other, 0);
    assert_eq!(bench.line(), "init_task:0:0(0x1) enable:0:0 set_weight:0:0(0x64)");
}

#[test]
fn t1_init_task_error_fails_the_fork() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK", "ON_INIT_TASK=return -12;"]));
    let attributes = kernel_model::TaskAttributes {
        name: "child".into(),
        policy: Policy::Other,
        nice: 0,
        allowed: mask("0"),
        kernel_thread: false,
        own_cpu: None,
        thread: false,
        parent: None,
        identity: kernel_model::Identity::default(),
    };
    assert_eq!(bench.kernel.fork(CpuId(0), attributes), Err(-12));
    bench.settle();
    assert_eq!(bench.ops(), "init_task", "neither enable nor exit_task");
    assert!(bench.kernel.exit_info().is_none(), "the scheduler stays attached");
}

/// `init_task` refuses threads, with the negative tgid as the error.
#[test]
fn t1_thread_has_the_tgid_of_its_process() {
    let refuse = "ON_INIT_TASK=return p->tgid == p->pid ? 0 : -p->tgid;";
    let mut bench = Bench::probe(1, &with(&["OP_TASK", refuse]));
    let mut fork = |thread, parent, process| {
        let attributes = kernel_model::TaskAttributes {
            name: "child".into(),
            policy: Policy::Other,
            nice: 0,
            allowed: mask("0"),
            kernel_thread: false,
            own_cpu: None,
            thread,
            parent,
            identity: kernel_model::Identity { process, ..Default::default() },
        };
        bench.kernel.fork(CpuId(0), attributes)
    };
    let leader = fork(false, None, None).expect("a process");
    let refused = Err(-(event_log::modelled_pid(leader) as i32));
    assert_eq!(fork(true, Some(leader), None), refused);
    let child = fork(false, Some(leader), None).expect("a child is a process of its own");
    assert_eq!(fork(true, None, Some(leader)), refused, "a thread without a parent");
    assert_eq!(fork(true, Some(child), Some(leader)), refused, "the named process, not the parent's");
}

#[test]
fn t2_select_cpu_is_skipped_for_a_task_with_one_cpu() {
    let mut bench = Bench::probe(4, &with(&[]));
    let task = bench.task("pinned", "2");
    bench.wake(task);
    assert_eq!(bench.line(), "runnable:0:0(0x9) enqueue:0:0(0x9) dispatch:2:-(0x2) dequeue:2:0 running:2:0");
}

#[test]
fn t2_disallowed_cpu_is_replaced_silently_and_counted() {
    let mut bench = Bench::probe(4, &with(&["ON_SELECT=return 3;"]));
    let task = bench.task("a", "0-1");
    let before = bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK");
    bench.wake(task);
    assert_eq!(bench.kernel.task_cpu(task), CpuId(0));
    assert_eq!(bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK"), before + 1);
    assert!(bench.kernel.exit_info().is_none());
}

#[test]
fn t2_invalid_cpu_from_select_cpu_is_an_error() {
    let mut bench = Bench::probe(4, &with(&["ON_SELECT=return 99;"]));
    let task = bench.fork("a", "0-1", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error().0, 1024);
    assert!(bench.error().1.contains("99"), "{}", bench.error().1);
}

#[test]
fn t2_sync_and_ttwu_flags_reach_select_cpu() {
    let mut bench = Bench::probe(2, &with(&["ON_SELECT=counter=wake_flags;return prev_cpu;"]));
    let task = bench.task("a", "");
    bench.wake_from(1, task, true);
    assert_eq!(bench.variable("counter"), 0x18);
}

#[test]
fn t3_a_wakeup_reschedules_an_idle_target_whatever_the_queue() {
    let mut bench = Bench::probe(2, &with(&["ON_SELECT=return 1;"]));
    let task = bench.task("a", "");
    bench.rescheds.clear();
    bench.wake(task);
    assert_eq!(bench.rescheds, [1], "the task is in a shared queue, and only its target CPU reschedules");
}

#[test]
fn t3_insert_wakes_no_other_cpu() {
    let mut bench = Bench::probe(4, &with(&["ON_SELECT=return 0;"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.rescheds.clear();
    bench.wake(b);
    assert_eq!(bench.rescheds, [] as [u32; 0], "CPU 0 is busy, and CPUs 1 to 3 stay idle");
    assert_eq!(bench.kernel.current(CpuId(0)), a);
}

#[test]
fn t4_tick_charges_the_slice_then_reschedules_at_zero() {
    let mut bench = Bench::probe(1, &with(&["OP_TICK", "ON_TICK=counter=p->scx.slice;"]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.run(&[0], TICK);
    assert_eq!(bench.variable("counter"), 16_000_000);
    bench.run(&[0], Nanos::from_ms(12));
    bench.log();
    bench.run(&[0], TICK);
    assert_eq!(bench.ops(), "tick dispatch", "the fifth tick ends the slice");
}

#[test]
fn t5_dispatch_comes_before_stopping() {
    let mut bench = Bench::probe(1, &with(&[]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.run(&[0], Nanos::from_ms(20));
    assert_eq!(bench.line(), "dispatch:0:0 dequeue:0:1 stopping:0:0(0x1) enqueue:0:0 running:0:1");
}

#[test]
fn t6_dispatch_gets_the_sleeping_task_as_prev() {
    let mut bench = Bench::probe(1, &with(&[]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.block(a);
    assert_eq!(bench.line(), "stopping:0:0 quiescent:0:0(0x9) dispatch:0:0 dequeue:0:1 running:0:1");
}

#[test]
fn t7_a_preempted_task_with_slice_stays_at_the_head_of_the_local_queue() {
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,enq_flags);"]));
    let rt = bench.task_with("rt", "", Policy::Fifo(1), 0);
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.wake(rt);
    assert_eq!(bench.line(), "stopping:0:1(0x1)", "no enqueue");
    bench.block(rt);
    assert_eq!(bench.kernel.current(CpuId(0)), a, "before b, which was queued earlier");
}

#[test]
fn t7_a_preempted_task_without_slice_is_enqueued() {
    let mut bench = Bench::probe(1, &with(&["ON_STOPPING=p->scx.slice=0;"]));
    let rt = bench.task_with("rt", "", Policy::Fifo(1), 0);
    let a = bench.task("a", "");
    bench.wake(a);
    bench.log();
    bench.wake(rt);
    assert_eq!(bench.line(), "stopping:0:1(0x1) enqueue:0:1");
}

#[test]
fn t8_yield_without_the_op_gives_up_the_slice() {
    let mut bench = Bench::probe(1, &with(&[]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.leave(a, Leave::Yield);
    assert_eq!(bench.line(), "dispatch:0:0 dequeue:0:1 stopping:0:0(0x1) enqueue:0:0 running:0:1");
}

#[test]
fn t8_yield_calls_the_op_which_may_keep_the_slice() {
    let mut bench = Bench::probe(1, &with(&["OP_YIELD"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.leave(a, Leave::Yield);
    assert_eq!(bench.line(), "yield:0:0(0xffffffffffffffff)", "with slice left the task keeps running");
    assert_eq!(bench.kernel.current(CpuId(0)), a);
}

#[test]
fn t8_yield_to_calls_the_yield_op() {
    let mut bench = Bench::probe(1, &with(&["OP_YIELD", "ON_YIELD=if(to)from->scx.slice=0;return to!=NULL;"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    assert!(bench.kernel.yield_to(CpuId(0), b));
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(0)), b);
}

#[test]
fn t9_nice_change_callbacks_of_running_queued_and_sleeping_tasks() {
    let mut bench = Bench::probe(1, &with(&["OP_CHANGE"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    let renice = |bench: &mut Bench, task, nice| {
        bench.kernel.set_policy(CpuId(0), task, Policy::Other, nice).unwrap();
        bench.collect();
        bench.line()
    };
    assert_eq!(renice(&mut bench, a, 5), "set_weight:0:0(0x21)", "a sleeping task only gets set_weight");
    bench.wake(a);
    bench.wake(b);
    bench.log();
    assert_eq!(
        renice(&mut bench, a, 0),
        "stopping:0:0 quiescent:0:0(0x20000000e) set_weight:0:0(0x64) runnable:0:0(0xe) running:0:0",
        "a running task is not enqueued"
    );
    assert_eq!(
        renice(&mut bench, b, -5),
        "dequeue:0:1(0x20000000e) quiescent:0:1(0x20000000e) set_weight:0:1(0x131) runnable:0:1(0xe) enqueue:0:1(0xe)",
        "a queued task is dequeued from custody and enqueued again"
    );
}

/// Found by conformance, scenarios nice-running and policy-running: `__sched_setscheduler` uses MOVE for a task whose
/// priority changes, and enqueues one whose priority falls before its equals.
#[test]
fn t9_task_with_lowered_priority_is_enqueued_at_the_head() {
    let mut bench = Bench::probe(1, &with(&["OP_CHANGE"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.kernel.set_policy(CpuId(0), a, Policy::Other, 10).unwrap();
    assert_eq!(
        bench.line(),
        "stopping:0:0 quiescent:0:0(0x20000000e) set_weight:0:0(0xb) runnable:0:0(0x1000e) running:0:0"
    );
    bench.kernel.set_policy(CpuId(0), b, Policy::Other, 10).unwrap();
    assert!(bench.line().ends_with("runnable:0:1(0x1000e) enqueue:0:1(0x1000e)"));
}

#[test]
fn t10_migration_by_affinity_is_neither_quiescent_nor_runnable() {
    let mut bench = Bench::probe(2, &with(&["OP_CHANGE", "ON_SELECT=return 0;"]));
    let (a, b) = (bench.task("a", "0"), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.kernel.set_affinity(CpuId(0), b, &mask("1")).unwrap();
    bench.collect();
    assert_eq!(
        bench.line(),
        "dequeue:0:1(0x20000000a) quiescent:0:1(0x20000000a) set_cpumask:0:1(0x2) runnable:0:1(0xa) enqueue:0:1(0xa) \
         dequeue:0:1(0x200000008) enqueue:0:1(0x40000)",
        "the change, then the move"
    );
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(1)), b);
}

#[test]
fn t10_a_running_task_is_pushed_off_a_forbidden_cpu() {
    let mut bench = Bench::probe(2, &with(&["OP_PREEMPT", "ON_SELECT=return 0;"]));
    let a = bench.task("a", "");
    bench.wake(a);
    bench.log();
    bench.kernel.set_affinity(CpuId(1), a, &mask("1")).unwrap();
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(1)), a);
    assert_eq!(bench.kernel.current(CpuId(0)).some(), None);
    let ops = bench.ops();
    assert_eq!(ops.matches("quiescent").count(), 1, "only for the change itself: {ops}");
    assert!(ops.contains("stopping cpu_release"), "the stop class takes the CPU: {ops}");
}

#[test]
fn t11_policy_to_and_from_ext_under_partial_switching() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK", "OP_CHANGE", "FLAGS=8"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    assert_eq!(bench.line(), "init_task:0:0(0x1)", "a fair task is initialized, not enabled");
    bench.kernel.set_policy(CpuId(0), task, Policy::Ext, 0).unwrap();
    assert_eq!(bench.line(), "enable:0:0 set_weight:0:0(0x64) set_cpumask:0:0(0x1)");
    bench.kernel.set_policy(CpuId(0), task, Policy::Other, 0).unwrap();
    assert_eq!(bench.line(), "disable:0:0", "exit_task is not called");
}

#[test]
fn t12_exiting_task_gets_disable_then_exit_task() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK"]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.log();
    bench.leave(task, Leave::Exit);
    assert_eq!(bench.line(), "stopping:0:0 quiescent:0:0(0x10009) dispatch:0:0 disable:0:0 exit_task:0:0");
}

#[test]
fn t13_set_weight_gets_the_scaled_nice_weight() {
    for (nice, weight) in [(-20i8, 0x21dc_u64), (0, 0x64), (19, 1)] {
        let mut bench = Bench::probe(1, &with(&["OP_TASK", "OP_CHANGE"]));
        bench.fork("a", "", Policy::Other, nice);
        assert!(bench.line().ends_with(&format!("set_weight:0:0({weight:#x})")), "nice {nice}");
    }
}

#[test]
fn t14_direct_dispatch_never_enters_custody() {
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,enq_flags);"]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.block(task);
    assert!(!bench.ops().contains("dequeue"));
}

#[test]
fn t14_custody_begins_when_enqueue_inserts_nothing_and_ends_with_a_terminal_insert() {
    let dispatch =
        "ON_DISPATCH=struct task_struct*t=held_task();if(t){dsq_insert(t,SCX_DSQ_LOCAL,0,0);bpf_task_release(t);}";
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=hold(p);", dispatch]));
    let task = bench.task("a", "");
    bench.wake(task);
    assert_eq!(bench.ops(), "runnable enqueue dispatch dequeue running");
}

#[test]
fn each_wakeup_and_block_repeats_the_full_callback_cycle() {
    let mut bench = Bench::probe(1, &with(&[]));
    let task = bench.task("a", "");
    for _ in 0..3 {
        bench.wake(task);
        bench.pass(Nanos(5));
        bench.leave(task, Leave::Block(BlockCause::Io));
        assert_eq!(bench.ops(), "runnable enqueue dispatch dequeue running stopping quiescent dispatch");
    }
}

#[test]
fn t2_disallowed_cpu_is_replaced_within_the_node() {
    let topology = Topology::of_groups(&[0, 1, 2, 3], &[0, 0, 1, 1], &[0, 0, 1, 1]);
    let mut bench = Bench::load(topology, &bench::probe(&with(&["ON_SELECT=return 2;"]))).unwrap();
    bench.attach();
    let task = bench.task("a", "0,3");
    assert_eq!(bench.kernel.task_cpu(task), CpuId(0), "the first allowed CPU of node 0");
    bench.kernel.set_affinity(CpuId(0), task, &mask("1,3")).unwrap();
    bench.wake(task);
    assert_eq!(bench.kernel.task_cpu(task), CpuId(1));
    bench.block(task);
    bench.kernel.set_affinity(CpuId(0), task, &mask("3")).unwrap();
    bench.wake(task);
    bench.block(task);
    bench.kernel.set_affinity(CpuId(0), task, &mask("0-1,3")).unwrap();
    bench.wake(task);
    assert_eq!(bench.kernel.task_cpu(task), CpuId(3), "the task was on node 1");
}

#[test]
fn t2_migrating_wakeup_has_the_migrated_flag() {
    let mut bench = Bench::probe(2, &with(&["ON_SELECT=return 1;"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    bench.block(task);
    bench.wake(task);
    assert!(bench.line().contains("runnable:0:0(0x100009)"), "the task was on CPU 1 already");
    bench.block(task);
    bench.kernel.set_affinity(CpuId(0), task, &mask("0")).unwrap();
    bench.wake(task);
    assert!(bench.line().contains("runnable:0:0(0x40009) enqueue:0:0(0x40009)"), "ENQUEUE_MIGRATED");
}

#[test]
fn t2_invalid_cpu_error_names_select_cpu() {
    let mut bench = Bench::probe(4, &with(&["ON_SELECT=return -7;"]));
    let task = bench.fork("a", "0-1", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "invalid CPU -7 from ops.select_cpu()"));
}

#[test]
fn t9_setting_the_same_attributes_calls_no_op() {
    let mut bench = Bench::probe(2, &with(&["OP_CHANGE"]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.log();
    bench.kernel.set_policy(CpuId(0), task, Policy::Other, 0).unwrap();
    bench.kernel.set_affinity(CpuId(0), task, &mask("0-1")).unwrap();
    bench.settle();
    assert_eq!(bench.line(), "");
}

#[test]
fn t9_nice_change_of_a_held_task_reschedules_no_cpu() {
    let mut bench = Bench::probe(2, &with(&["ON_ENQUEUE=hold(p);", "ON_DISPATCH="]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    bench.rescheds.clear();
    bench.kernel.set_policy(CpuId(0), task, Policy::Other, 5).unwrap();
    bench.settle();
    assert_eq!(bench.rescheds, [] as [u32; 0], "its CPU stays idle, because nothing was inserted there");
}

#[test]
fn t9_move_and_class_flags_follow_priority_and_class_changes() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK", "OP_CHANGE"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.kernel.set_policy(CpuId(0), b, Policy::Batch, 0).unwrap();
    assert_eq!(
        bench.line(),
        "dequeue:0:1(0x20000000a) quiescent:0:1(0x20000000a) set_weight:0:1(0x64) runnable:0:1(0xa) enqueue:0:1(0xa)",
        "the priority is the same: no MOVE flag"
    );
    bench.kernel.set_policy(CpuId(0), a, Policy::Fifo(1), 0).unwrap();
    assert_eq!(bench.line(), "stopping:0:0 quiescent:0:0(0x20000004e) disable:0:0");
    bench.kernel.set_policy(CpuId(0), a, Policy::Other, 0).unwrap();
    assert_eq!(bench.line(), "enable:0:0 set_weight:0:0(0x64) set_cpumask:0:0(0x1) runnable:0:0(0x1004e) running:0:0");
}

#[test]
fn t9_nice_value_of_a_real_time_task_is_stored() {
    let mut bench = Bench::probe(1, &with(&["OP_CHANGE"]));
    let rt = bench.task_with("rt", "", Policy::Fifo(1), 0);
    bench.kernel.set_policy(CpuId(0), rt, Policy::Fifo(1), 5).unwrap();
    assert_eq!(bench.line(), "");
    bench.kernel.set_policy(CpuId(0), rt, Policy::Other, 5).unwrap();
    assert!(bench.line().contains("set_weight:0:0(0x21)"));
}

#[test]
fn t11_disallow_rejects_only_a_change_to_sched_ext() {
    let mut bench =
        Bench::load(bench::flat(1), &bench::probe(&with(&["OP_TASK", "ON_INIT_TASK=DISALLOW(p)=true;", "FLAGS=8"])))
            .unwrap();
    let task = bench.fork("a", "", Policy::Ext, 0);
    assert_eq!(bench.kernel.set_policy(CpuId(0), task, Policy::Ext, 1), Ok(()), "no scheduler is attached yet");
    bench.attach();
    assert_eq!(
        bench.kernel.set_policy(CpuId(0), task, Policy::Ext, 0),
        Err(-13),
        "the policy was reverted at attach, and SCHED_EXT is refused"
    );
    assert_eq!(bench.kernel.set_policy(CpuId(0), task, Policy::Batch, 0), Ok(()));
}

#[test]
fn o5_scx_flags_show_queued_custody_and_state() {
    let enqueue = "ON_ENQUEUE=counter=p->scx.flags;hold(p);";
    let stopping = "ON_STOPPING=counter=p->scx.flags;";
    let dispatch = "ON_DISPATCH=struct task_struct*t=held_task();if(t){counter=t->scx.flags;dsq_insert(t,SCX_DSQ_LOCAL,0,0);bpf_task_release(t);}";
    let mut bench = Bench::probe(1, &with(&[enqueue, stopping, dispatch]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    assert_eq!(bench.variable("counter"), 0x401, "ENABLED and QUEUED");
    bench.settle();
    assert_eq!(bench.variable("counter"), 0x403, "and IN_CUSTODY");
    bench.block(task);
    assert_eq!(bench.variable("counter"), 0x405, "after a run: RESET_RUNNABLE_AT, no custody");
    bench.wake(task);
    assert_eq!(bench.variable("counter"), 0x40b, "after a wakeup: DEQD_FOR_SLEEP");
}

/// Found by conformance, scenario v8-fork-exit: the model showed no state during `init_task`, and the later state
/// during the first `set_weight`.
#[test]
fn o5_task_state_changes_after_its_op_returns() {
    let init = "ON_INIT_TASK=counter=p->scx.flags&0x700;";
    let mut bench = Bench::probe(1, &with(&["OP_TASK", init]));
    bench.fork("a", "", Policy::Other, 0);
    assert_eq!(bench.variable("counter"), 0x100, "INIT_BEGIN");
    let weight = "ON_SET_WEIGHT=counter=p->scx.flags&0x700;";
    let mut bench = Bench::probe(1, &with(&["OP_CHANGE", weight]));
    let task = bench.fork("a", "", Policy::Other, 0);
    assert_eq!(bench.variable("counter"), 0x300, "READY");
    bench.kernel.set_policy(CpuId(0), task, Policy::Other, 1).unwrap();
    assert_eq!(bench.variable("counter"), 0x400, "ENABLED");
}

/// Found by conformance, scenario unload-amidst: the model showed the custody flag after custody had ended.
#[test]
fn t14_custody_flag_is_clear_during_dequeue() {
    let dequeue = "ON_DEQUEUE=counter=p->scx.flags;";
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=hold(p);", "ON_DISPATCH=", "OP_CHANGE", dequeue]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.kernel.set_policy(CpuId(0), task, Policy::Other, 1).unwrap();
    assert_eq!(bench.variable("counter"), 0x401, "QUEUED, without IN_CUSTODY");
}
