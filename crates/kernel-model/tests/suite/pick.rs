// SPDX-License-Identifier: GPL-2.0-only
//! Picking the next task, kicks and idle tracking: rules P1 to P9, K1, I1 to I5 of the contract.

#[allow(dead_code)]
use crate::bench;

use bench::{Bench, flat};
use ids::{CpuId, Nanos, Policy, TaskId, Topology};
use kernel_model::Leave;

const BASE: [&str; 3] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    BASE.iter().chain(more).copied().collect()
}

#[test]
fn p1_higher_classes_come_first() {
    let mut bench = Bench::probe(1, &with(&[]));
    let deadline =
        Policy::Deadline { runtime: Nanos::from_ms(1), deadline: Nanos::from_ms(10), period: Nanos::from_ms(10) };
    let rt_low = bench.task_with("rt-low", "", Policy::Fifo(10), 0);
    let rt_high = bench.task_with("rt-high", "", Policy::Fifo(20), 0);
    let dl = bench.task_with("dl", "", deadline, 0);
    let ext = bench.task("ext", "");
    for task in [ext, rt_low, rt_high, dl] {
        bench.wake(task);
        assert_eq!(bench.kernel.current(CpuId(0)), task, "each task has a higher priority than the ones before");
    }
    for task in [dl, rt_high, rt_low] {
        bench.block(task);
    }
    assert_eq!(bench.kernel.current(CpuId(0)), ext);
}

#[test]
fn p2_prev_with_slice_left_is_kept_without_callbacks() {
    let mut bench = Bench::probe(1, &with(&[]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    let switch = bench.kernel.schedule(CpuId(0), Leave::Preempt);
    assert_eq!((switch.prev, switch.next), (a, a));
    assert_eq!(bench.line(), "");
}

#[test]
fn p3_a_zero_slice_in_the_local_queue_is_refilled() {
    let body = "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,1,0);p->scx.slice=0;";
    let mut bench = Bench::probe(1, &with(&[body, "OP_RUN", "ON_RUNNING=counter=p->scx.slice;"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.variable("counter"), 20_000_000);
}

#[test]
fn p4_the_global_queue_comes_before_dispatch() {
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=dsq_insert(p,GLOBAL,SCX_SLICE_DFL,0);"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.log();
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(0)), task);
    assert_eq!(bench.line(), "enqueue:0:0(0x80008)", "dispatch is not called");
}

#[test]
fn p5_dispatch_is_repeated_at_most_32_times_per_pick() {
    let enqueue = "ON_ENQUEUE=hold(p);";
    let dispatch = "ON_DISPATCH=struct task_struct*t=bpf_task_from_pid(101);if(t){dsq_insert(t,SCX_DSQ_LOCAL,0,0);bpf_task_release(t);}";
    let mut bench = Bench::probe(1, &with(&[enqueue, dispatch]));
    let woken = bench.fork("woken", "", Policy::Other, 0);
    bench.fork("never woken", "", Policy::Other, 0);
    bench.log();
    bench.kernel.wake_new(CpuId(0), woken);
    bench.collect();
    bench.kernel.schedule(CpuId(0), Leave::Preempt);
    bench.collect();
    assert_eq!(bench.ops().matches("dispatch").count(), 32);
    assert_eq!(bench.rescheds.last(), Some(&0), "after 32 calls the CPU kicks itself");
}

#[test]
fn p6_enq_last_idles_the_cpu_unless_the_scheduler_kicks_it() {
    let enqueue = "ON_ENQUEUE=if(enq_flags&(1ULL<<41)){counter++;hold(p);}else dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(1, &with(&["FLAGS=2", enqueue]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.run(&[0], Nanos::from_ms(20));
    assert_eq!(bench.variable("counter"), 1);
    assert_eq!(bench.kernel.current(CpuId(0)), TaskId::NONE);

    let enqueue = "ON_ENQUEUE=if(enq_flags&(1ULL<<41)){counter++;KICK}dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    for (kick, goes_on) in [("", false), ("scx_bpf_kick_cpu(0,0);", true)] {
        let mut bench = Bench::probe(1, &with(&["FLAGS=2", &enqueue.replace("KICK", kick)]));
        let task = bench.task("a", "");
        bench.wake(task);
        bench.run(&[0], Nanos::from_ms(20));
        assert_eq!(bench.variable("counter"), 1);
        assert_eq!(
            bench.kernel.current(CpuId(0)) == task,
            goes_on,
            "without a kick by the scheduler the CPU stays idle"
        );
    }
}

/// Found by conformance, scenario enq-last-local: the model left the CPU idle until another event woke it.
#[test]
fn p6_enq_last_into_the_local_queue_reschedules_the_cpu() {
    let enqueue = "ON_ENQUEUE=if(enq_flags&(1ULL<<41))counter++;dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(1, &with(&["FLAGS=2", "OP_RUN", enqueue]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.log();
    bench.run(&[0], Nanos::from_ms(20));
    assert_eq!(bench.variable("counter"), 1);
    assert_eq!(bench.kernel.current(CpuId(0)), task);
    assert_eq!(bench.ops(), "dispatch stopping enqueue running");
}

#[test]
fn p7_update_idle_is_called_only_on_idle_transitions() {
    let mut bench = Bench::probe(1, &with(&["OP_UPDATE_IDLE", "OP_RUN", "FLAGS=1"]));
    let task = bench.task("a", "");
    bench.wake(task);
    let line = bench.line();
    assert!(line.ends_with("update_idle:0:- running:0:0"), "{line}");
    bench.block(task);
    assert!(bench.line().ends_with("update_idle:0:-(0x0,0x1)"));
    bench.kernel.schedule(CpuId(0), Leave::Preempt);
    assert_eq!(bench.line(), "dispatch:0:-", "no update_idle from idle to idle");
}

#[test]
fn p8_idle_cpu_stays_idle_without_a_kick() {
    let mut bench = Bench::probe(4, &with(&["ON_SELECT=return 0;"]));
    let tasks: Vec<TaskId> = (0..4).map(|n| bench.task(&format!("t{n}"), "")).collect();
    tasks.iter().for_each(|&task| bench.wake(task));
    bench.run(&[0], Nanos::from_ms(100));
    for cpu in 1..4 {
        assert_eq!(bench.kernel.current(CpuId(cpu)), TaskId::NONE);
    }
    assert!(bench.log().iter().all(|entry| !entry.starts_with("dispatch:1")), "dispatch runs on CPU 0 only");
}

#[test]
fn p9_the_deadline_server_gives_ext_50_ms_per_second() {
    let mut bench = Bench::probe(1, &with(&["OP_RUN"]));
    let (rt, ext) = (bench.task_with("rt", "", Policy::Fifo(50), 0), bench.task("ext", ""));
    bench.wake(rt);
    bench.wake(ext);
    let (mut served, mut total) = (0, 0);
    for _ in 0..1000 {
        bench.run(&[0], bench::TICK);
        served += u32::from(bench.kernel.current(CpuId(0)) == ext);
        total += 1;
    }
    let share = f64::from(served) / f64::from(total);
    assert!((0.03..0.07).contains(&share), "ext had {share} of the CPU");
}

#[test]
fn k1_plain_kick_always_reschedules_and_idle_kick_spares_a_busy_cpu() {
    let kick = |flags: &str| format!("ON_SELECT=scx_bpf_kick_cpu(1,{flags});return 0;");
    for (flags, busy, expected) in [("0", false, true), ("0", true, true), ("1", false, true), ("1", true, false)] {
        let mut bench = Bench::probe(2, &with(&[&kick(flags)]));
        let (a, other) = (bench.task("a", ""), bench.task("other", "1"));
        if busy {
            bench.wake(other);
        }
        bench.rescheds.clear();
        bench.wake(a);
        assert_eq!(bench.rescheds.contains(&1), expected, "flags {flags}, busy {busy}");
    }
}

#[test]
fn k1_preempt_kick_ends_the_slice_but_spares_higher_classes() {
    let select = "ON_SELECT=scx_bpf_kick_cpu(1,SCX_KICK_PREEMPT);return 0;";
    let mut bench = Bench::probe(2, &with(&[select, "OP_RUN"]));
    let (a, victim, next) = (bench.task("a", ""), bench.task("victim", "1"), bench.task("next", "1"));
    bench.wake(victim);
    bench.wake(next);
    bench.wake(a);
    assert_eq!(bench.kernel.current(CpuId(1)), next);

    let mut bench = Bench::probe(2, &with(&[select]));
    let (a, rt) = (bench.task("a", ""), bench.task_with("rt", "1", Policy::Fifo(5), 0));
    bench.wake(rt);
    bench.rescheds.clear();
    bench.wake(a);
    assert!(!bench.rescheds.contains(&1));
}

#[test]
fn k1_wait_kick_makes_the_kicking_cpu_await_a_switch() {
    let mut bench = Bench::probe(2, &with(&["ON_SELECT=scx_bpf_kick_cpu(1,4);return 0;"]));
    let (task, other) = (bench.task("a", ""), bench.task("other", "1"));
    bench.wake(other);
    bench.awaited.clear();
    bench.rescheds.clear();
    bench.wake(task);
    assert_eq!(bench.awaited, [(0, "1".to_owned())]);
    assert!(bench.rescheds.contains(&0), "the kicking CPU reschedules to wait");
    bench.block(other);
    bench.block(task);
    bench.awaited.clear();
    bench.wake(task);
    assert_eq!(bench.awaited, [], "an idle CPU is not awaited");
}

#[test]
fn k1_kicks_of_an_operation_are_merged_and_sent_in_cpu_order() {
    let select =
        "ON_SELECT=scx_bpf_kick_cpu(2,1);scx_bpf_kick_cpu(3,0);scx_bpf_kick_cpu(1,0);scx_bpf_kick_cpu(3,2);return 0;";
    let mut bench = Bench::probe(4, &with(&[select]));
    let (task, victim) = (bench.task("a", ""), bench.task("victim", "3"));
    let next = bench.task("next", "3");
    bench.wake(victim);
    bench.wake(next);
    bench.rescheds.clear();
    bench.wake(task);
    assert_eq!(bench.rescheds, [0, 1, 3, 2], "the wakeup itself, then kicks by CPU, then IDLE kicks");
    assert_eq!(bench.kernel.current(CpuId(3)), next, "PREEMPT of one kick applies to the merged kick");
}

#[test]
fn k1_kicks_in_bypass_are_ignored_without_checking_flags() {
    let mut bench =
        Bench::load(flat(2), &bench::probe(&with(&["OP_TASK", "ON_INIT_TASK=scx_bpf_kick_cpu(1,3);"]))).unwrap();
    bench.fork("a", "", Policy::Other, 0);
    bench.attach();
    assert!(bench.kernel.exit_info().is_none());
}

#[test]
fn p5_dsq_move_to_another_cpu_does_not_repeat_dispatch() {
    let dispatch = "ON_DISPATCH=struct task_struct*t;{struct bpf_iter_scx_dsq it \
                    __attribute__((cleanup(bpf_iter_scx_dsq_destroy)));bpf_iter_scx_dsq_new(&it,SHARED,0);\
                    if((t=bpf_iter_scx_dsq_next(&it)))scx_bpf_dsq_move___v1(&it,t,LOCAL_ON(1),0);}";
    let mut bench = Bench::probe(2, &with(&["ON_SELECT=return 0;", dispatch]));
    let (a, b) = (bench.task("a", "1"), bench.task("b", ""));
    let blocker = bench.task_with("rt", "0", Policy::Fifo(9), 0);
    bench.wake(blocker);
    bench.wake(b);
    bench.log();
    bench.kernel.schedule(CpuId(0), Leave::Block(event_log::BlockCause::Timer));
    bench.collect();
    assert_eq!(bench.line(), "dispatch:0:-", "a move to CPU 1 does not count for CPU 0");
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(1)), b);
    let _ = a;
}

#[test]
fn k1_contradictory_flags_or_an_invalid_cpu_are_errors() {
    for (call, message) in [
        ("scx_bpf_kick_cpu(1,3)", "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE"),
        ("scx_bpf_kick_cpu(-1,0)", "invalid CPU -1"),
        ("scx_bpf_kick_cpu(2,0)", "invalid CPU 2"),
    ] {
        let mut bench = Bench::probe(2, &with(&[&format!("ON_SELECT={call};return 0;")]));
        let task = bench.fork("a", "", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        assert_eq!(bench.error(), (1024, message), "{call}");
    }
}

/// Two cores with two CPUs each: CPUs 0 and 1, CPUs 2 and 3.
fn smt() -> Topology {
    Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4])
}

/// CPUs that the default search selects for `count` tasks woken one after the other.
fn placements(topology: Topology, count: u32) -> Vec<u32> {
    let select = "ON_SELECT=s32 c=scx_bpf_select_cpu_dfl(p,prev_cpu,wake_flags,&idle);\
                  if(idle)dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);return c;";
    let mut bench = Bench::load(topology, &bench::probe(&with(&[select]))).unwrap();
    bench.attach();
    (0..count)
        .map(|n| {
            let task = bench.fork(&format!("t{n}"), "", Policy::Other, 0);
            bench.kernel.wake_new(CpuId(0), task);
            bench.settle();
            bench.kernel.task_cpu(task).0
        })
        .collect()
}

#[test]
fn i4_default_search_prefers_prev_then_idle_cores_then_siblings() {
    assert_eq!(placements(smt(), 4), [0, 2, 1, 3], "prev, the other core, the sibling of prev, the last CPU");
    assert_eq!(placements(flat(3), 3), [0, 1, 2]);
}

#[test]
fn i4_default_search_prefers_the_llc_then_the_node() {
    let cores: Vec<u32> = (0..8).collect();
    let topology = Topology::of_groups(&cores, &[0, 0, 1, 1, 2, 2, 3, 3], &[0, 0, 0, 0, 1, 1, 1, 1]);
    let found = placements(topology, 8);
    assert_eq!(found[..2], [0, 1], "the LLC of CPU 0");
    assert!(found[2..4].iter().all(|cpu| (2..4).contains(cpu)), "then its node, in {found:?}");
    assert!(found[4..].iter().all(|cpu| (4..8).contains(cpu)), "then the other node, in {found:?}");
}

#[test]
fn i3_pick_idle_cpu_rotates_starting_after_cpu_0() {
    let select = "ON_SELECT=return scx_bpf_pick_idle_cpu(p->cpus_ptr,0);";
    let mut bench = Bench::probe(4, &with(&[select]));
    let picked: Vec<u32> = (0..4)
        .map(|n| {
            let task = bench.fork(&format!("t{n}"), "", Policy::Other, 0);
            bench.kernel.wake_new(CpuId(0), task);
            bench.settle();
            bench.kernel.task_cpu(task).0
        })
        .collect();
    assert_eq!(picked, [1, 2, 3, 0]);
}

#[test]
fn i5_idle_kfuncs_without_builtin_idle_tracking_are_errors() {
    let select = "ON_SELECT=return scx_bpf_pick_idle_cpu(p->cpus_ptr,0);";
    let mut bench = Bench::probe(2, &with(&["OP_UPDATE_IDLE", select]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "built-in idle tracking is disabled"));
}

#[test]
fn k1_idle_kick_from_dispatch_is_evaluated_after_the_pick() {
    let dispatch = "ON_DISPATCH=if(scx_bpf_dsq_nr_queued(SHARED))scx_bpf_kick_cpu(cpu,1);dsq_move_to_local(SHARED);";
    let mut bench = Bench::probe(1, &with(&[dispatch]));
    let task = bench.task("a", "");
    bench.rescheds.clear();
    bench.wake(task);
    assert_eq!(bench.rescheds, [0], "only the wakeup reschedules: the CPU is busy when the kick is sent");
}
