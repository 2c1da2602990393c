// SPDX-License-Identifier: GPL-2.0-only
//! Attach, bypass, watchdog, errors and exit: contract 1.3, rules B1, B2, W1, E1 to E3, X1, X2.

#[allow(dead_code)]
use crate::bench;

use bench::{Bench, flat, probe};
use ids::{CpuId, Nanos, Policy, TaskId};
use kernel_model::LaunchError;

const BASE: [&str; 3] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    BASE.iter().chain(more).copied().collect()
}

/// A bench with the watchdog's kworker, attached.
fn watched(defines: &[&str]) -> (Bench, TaskId) {
    let mut bench = Bench::load(flat(2), &probe(defines)).unwrap();
    let worker = bench.fork("kworker/u9:0", "", Policy::Other, 0);
    bench.kernel.set_watchdog_worker(worker);
    bench.kernel.wake_new(CpuId(0), worker);
    bench.settle();
    bench.block(worker);
    bench.attach();
    bench.log();
    (bench, worker)
}

/// Runs ticks on both CPUs; the kworker does the watchdog work as soon as it runs.
fn run_with_worker(bench: &mut Bench, worker: TaskId, ticks: u32) {
    for _ in 0..ticks {
        if bench.kernel.exit_info().is_some() {
            return;
        }
        bench.run(&[0, 1], bench::TICK);
        let cpu = bench.kernel.task_cpu(worker);
        if bench.kernel.current(cpu) == worker {
            bench.kernel.watchdog_work(cpu);
            bench.settle();
            if bench.kernel.exit_info().is_none() {
                bench.block(worker);
            }
        }
    }
}

#[test]
fn attach_initializes_then_switches_every_task() {
    let mut bench = Bench::load(flat(1), &probe(&with(&["OP_TASK", "OP_CHANGE", "OP_RUN"]))).unwrap();
    let running = bench.fork("running", "", Policy::Other, 0);
    let rt = bench.fork("rt", "", Policy::Fifo(1), 0);
    bench.kernel.wake_new(CpuId(0), running);
    bench.settle();
    bench.attach();
    assert_eq!(
        bench.line(),
        "init:0:- init_task:0:0 init_task:0:1 enable:0:0 set_weight:0:0(0x64) set_cpumask:0:0(0x1) \
         runnable:0:0(0x4e) running:0:0",
        "real-time tasks are initialized and not enabled; a running one keeps its CPU"
    );
    let _ = rt;
}

#[test]
fn attach_fails_with_the_kernels_errnos() {
    let errno = |defines: &[&str]| match Bench::load(flat(1), &probe(&with(defines))) {
        Err(LaunchError::Attach { errno, .. }) => errno,
        other => panic!("{:?}", other.err()),
    };
    assert_eq!(errno(&["FLAGS=1<<30"]), 22, "EINVAL");
    assert_eq!(errno(&["TIMEOUT_MS=30001"]), 7, "E2BIG");
    let mut bench = Bench::probe(1, &with(&[]));
    match bench.kernel.attach(CpuId(0)) {
        Err(LaunchError::Attach { errno: 16, .. }) => {}
        other => panic!("EBUSY expected, not {other:?}"),
    }
}

#[test]
fn failed_init_is_reported_through_exit() {
    let mut bench = Bench::load(flat(1), &probe(&with(&["ON_INIT=err=-5;"]))).unwrap();
    bench.attach();
    assert_eq!(bench.ops(), "init exit");
    assert_eq!(bench.error(), (1024, "ops.init() failed (-5)"));
    let cause = &bench.exit().cause;
    assert_eq!((cause.op, &cause.call, &cause.source), (Some("init"), &None, &None), "a bad result has no source line");
}

#[test]
fn enq_last_without_enqueue_fails() {
    let mut bench = Bench::load(flat(1), &probe(&["OP_DISPATCH", "FLAGS=2"])).unwrap();
    bench.attach();
    assert_eq!(bench.error(), (1024, "SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented"));
}

#[test]
fn failed_init_task_aborts_the_attach() {
    let mut bench = Bench::load(flat(1), &probe(&with(&["OP_TASK", "ON_INIT_TASK=return -12;"]))).unwrap();
    bench.fork("a", "", Policy::Other, 0);
    bench.attach();
    assert_eq!(bench.error(), (1024, "ops.init_task() failed (-12) for a[100]"));
}

#[test]
fn c1_sleepable_program_for_a_non_sleepable_op_is_rejected() {
    let error = Bench::load(flat(1), &probe(&["OP_SLEEPY"])).err().expect("refused").to_string();
    assert_eq!(error, "ops.enqueue must not be sleepable");
}

#[test]
fn kfunc_in_the_wrong_op_is_rejected_at_load() {
    let error = Bench::load(flat(1), &probe(&with(&["OP_RUN", "ON_RUNNING=dsq_move_to_local(SHARED);"]))).err();
    let error = error.expect("refused").to_string();
    assert!(error.starts_with("kfunc scx_bpf_dsq_move_to_local") && error.contains("ops.running"), "{error}");
}

#[test]
fn w1_starved_task_is_reported_as_a_stall() {
    let enqueue = "ON_ENQUEUE=if(p->pid!=101)dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let (mut bench, worker) = watched(&with(&["TIMEOUT_MS=3000", enqueue]));
    let victim = bench.fork("victim", "", Policy::Other, 0);
    assert_eq!(victim.0, 1);
    bench.kernel.wake_new(CpuId(0), victim);
    bench.settle();
    run_with_worker(&mut bench, worker, 2000);
    let (kind, message) = bench.error();
    assert_eq!(kind, 1026);
    assert_eq!(bench.exit().reason, "runnable task stall");
    assert_eq!(bench.exit().cause, kernel_model::Cause::default(), "a stall has no source line");
    assert!(message.starts_with("victim[101] failed to run for "), "{message}");
    let waited = bench.now;
    assert!((Nanos::from_ms(3000)..=Nanos::from_ms(4520)).contains(&waited), "ejected after {waited}");
    assert!(bench.exit().dump.contains("victim[101]"), "the dump names the stalled task");
}

#[test]
fn w1_starved_watchdog_is_detected_at_the_tick() {
    let (mut bench, worker) = watched(&with(&["TIMEOUT_MS=2000", "ON_ENQUEUE="]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    run_with_worker(&mut bench, worker, 2000);
    let (kind, message) = bench.error();
    assert_eq!(kind, 1026);
    assert!(message.starts_with("watchdog failed to check in for 2.0"), "{message}");
}

#[test]
fn w1_reenqueue_does_not_restart_the_watchdog_clock() {
    let enqueue = "ON_ENQUEUE=if(p->pid!=101)dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let (mut bench, worker) = watched(&with(&["TIMEOUT_MS=3000", enqueue]));
    let victim = bench.fork("victim", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), victim);
    bench.settle();
    for nice in 0..10 {
        run_with_worker(&mut bench, worker, 100);
        let _ = bench.kernel.set_policy(CpuId(0), victim, Policy::Other, nice);
        bench.settle();
    }
    run_with_worker(&mut bench, worker, 500);
    assert!(bench.error().1.starts_with("victim[101] failed to run for "));
    assert!(bench.now <= Nanos::from_ms(4520), "ejected after {}", bench.now);
}

#[test]
fn e1_the_first_error_wins() {
    let enqueue =
        "ON_ENQUEUE=scx_error(\"first %d\",p->pid);scx_error(\"second\",0);dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(1, &with(&[enqueue]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1025, "first 100"));
    assert_eq!(bench.exit().reason, "scx_bpf_error");
}

#[test]
fn e2_scx_bpf_exit_has_kind_65_and_its_code() {
    let enqueue = "ON_ENQUEUE=static char f[]=\"bye\";u64 d[1]={};scx_bpf_exit_bstr(0x1234,f,d,0);";
    let mut bench = Bench::probe(1, &with(&[enqueue]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    let exit = bench.exit();
    assert_eq!((exit.kind, exit.code, exit.message.as_str()), (65, 0x1234, "bye"));
    assert!(exit.dump.is_empty(), "a voluntary exit is not an error");
}

#[test]
fn e3_a_null_task_and_internal_flags_are_errors() {
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=dsq_insert(p,SHARED,0,1ULL<<56);"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "invalid enq_flags 0x100000000000000"));
}

#[test]
fn a_bpf_fault_names_function_and_line() {
    let body = "ON_ENQUEUE=*(volatile u32*)(counter)=5;";
    let mut bench = Bench::probe(1, &with(&[body]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    let fault = bench.exit().fault.clone().expect("a fault");
    assert!(fault.contains("NULL") && fault.contains("probe.bpf.c"), "{fault}");
    assert_eq!(bench.error().0, 1024);
}

#[test]
fn endless_loop_hits_the_instruction_budget() {
    let mut bench = Bench::probe(1, &with(&["ON_ENQUEUE=for(;;)WRITE_ONCE(counter,counter+1);"]));
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert!(bench.exit().fault.as_ref().unwrap().contains("did not end within 1000000 instructions"));
}

#[test]
fn x1_tasks_run_in_the_fair_class_after_the_scheduler_is_disabled() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.kernel.detach(CpuId(0));
    bench.settle();
    assert_eq!(bench.ops(), "disable exit_task disable exit_task exit");
    assert_eq!(bench.kernel.current(CpuId(0)), a);
    bench.block(a);
    assert_eq!(bench.kernel.current(CpuId(0)), b, "the waiting task runs next");
    bench.wake(a);
    bench.run(&[0], Nanos::from_ms(40));
    bench.block(bench.kernel.current(CpuId(0)));
    assert_ne!(bench.kernel.current(CpuId(0)), TaskId::NONE);
}

#[test]
fn e2_sysrq_s_ejects_the_scheduler() {
    let mut bench = Bench::probe(1, &with(&["OP_TASK"]));
    let task = bench.task("a", "");
    bench.wake(task);
    bench.log();
    bench.kernel.sysrq(CpuId(0));
    bench.settle();
    assert_eq!(bench.ops(), "disable exit_task exit");
    let exit = bench.exit();
    assert_eq!((exit.kind, exit.code, &*exit.reason, &*exit.message), (67, 0, "disabled by sysrq-S", ""));
    assert_eq!(bench.kernel.current(CpuId(0)), task, "the task keeps running");
}

#[test]
fn x2_debug_dump_calls_the_dump_op_and_lists_tasks() {
    let dump = "ON_DUMP=static char f[]=\"counter is %d\\n\";u64 d[1]={42};scx_bpf_dump_bstr(f,d,sizeof(d));";
    let enqueue = "ON_ENQUEUE=scx_error(\"stop\",0);";
    let mut bench = Bench::probe(1, &with(&["OP_DUMP", dump, enqueue]));
    let task = bench.fork("culprit", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    let dump = &bench.exit().dump;
    assert!(dump.contains("counter is 42") && dump.contains("culprit[100]"), "{dump}");
    assert!(dump.contains("triggered exit kind 1025 on CPU 0"), "{dump}");
}

#[test]
fn e2_exit_cpu_is_the_cpu_at_fault_or_minus_1() {
    let mut bench = Bench::probe(2, &with(&[]));
    bench.kernel.detach(CpuId(1));
    assert_eq!(bench.variable("exit_cpu") as u32 as i32, -1, "a detach by user space has no CPU");
    assert_eq!(bench.variable("exit_flags"), 1, "SCX_EFLAG_INITIALIZED");

    let enqueue = "ON_ENQUEUE=if(p->pid!=101)dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let (mut bench, worker) = watched(&with(&["TIMEOUT_MS=3000", enqueue]));
    let victim = bench.fork("victim", "1", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), victim);
    bench.settle();
    run_with_worker(&mut bench, worker, 2000);
    assert_eq!(bench.variable("exit_cpu") as u32, 1, "the CPU of the stalled task");
}

#[test]
fn failed_init_leaves_the_initialized_flag_clear() {
    let mut bench = Bench::load(flat(1), &probe(&with(&["ON_INIT=err=-5;"]))).unwrap();
    bench.attach();
    assert_eq!(bench.variable("exit_flags"), 0);
}

#[test]
fn e3_invalid_errno_from_an_op_is_an_error() {
    let mut bench = Bench::load(flat(1), &probe(&with(&["ON_INIT=err=5;"]))).unwrap();
    bench.attach();
    assert_eq!(bench.error(), (1024, "ops.init() returned an invalid errno 5"));
    let mut bench = Bench::load(flat(1), &probe(&with(&["OP_TASK", "ON_INIT_TASK=return -5000;"]))).unwrap();
    bench.fork("a", "", Policy::Other, 0);
    bench.attach();
    assert_eq!(bench.error(), (1024, "ops.init_task() returned an invalid errno -5000"));
}

#[test]
fn h1_stale_hotplug_seq_at_attach_requests_a_restart() {
    let stale = |object: &mut bpf_object::LinkedObject| {
        let (name, value) = ("hotplug_seq".to_owned(), bpf_object::MemberValue::Number(3));
        object.struct_ops[0].members.push(bpf_object::StructOpsMember { name, value });
    };
    let mut bench = Bench::load_changed(flat(1), &probe(&with(&[])), stale).unwrap();
    bench.attach();
    assert_eq!(bench.error(), (66, "expected hotplug seq 3 did not match actual 0"));
    assert_eq!(bench.exit().code, 1 << 48 | 1 << 32);
    assert_eq!(bench.exit().reason, "unregistered from the main kernel");
}

#[test]
fn attach_rejects_an_invalid_ops_name() {
    let dashed = |object: &mut bpf_object::LinkedObject| {
        for member in &mut object.struct_ops[0].members {
            if member.name == "name" {
                member.value = bpf_object::MemberValue::Bytes(b"a-b\0".to_vec());
            }
        }
    };
    match Bench::load_changed(flat(1), &probe(&with(&[])), dashed) {
        Err(LaunchError::Attach { errno: 22, .. }) => {}
        other => panic!("EINVAL expected, not {:?}", other.err()),
    }
}

#[test]
fn e1_an_error_in_init_task_does_not_stop_the_switch() {
    let defines = with(&["OP_TASK", "ON_INIT_TASK=scx_error(\"no\",0);"]);
    let mut bench = Bench::load(flat(1), &probe(&defines)).unwrap();
    bench.fork("a", "", Policy::Other, 0);
    bench.fork("b", "", Policy::Other, 0);
    bench.attach();
    assert_eq!(bench.ops(), "init init_task init_task enable enable disable exit_task disable exit_task exit");
}

#[test]
fn w1_watchdog_timeout_is_rounded_by_the_timer_wheel() {
    let enqueue = "ON_ENQUEUE=if(p->pid!=101)dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    let (mut bench, worker) = watched(&with(&["TIMEOUT_MS=1001", enqueue]));
    let victim = bench.fork("victim", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), victim);
    bench.settle();
    run_with_worker(&mut bench, worker, 2000);
    // 1001 ms are 251 jiffies of 4 ms. Half of that, 125, is rounded up to a multiple of 8: the watchdog runs at
    // jiffies 128, 256 and 384, and only the last is more than 251 jiffies after the start.
    assert_eq!(bench.error().1, "victim[101] failed to run for 1.024s");
}

#[test]
fn b1_detach_passes_through_bypass() {
    let mut bench = Bench::probe(1, &with(&["OP_RUN"]));
    let (a, b) = (bench.task("a", ""), bench.task("b", ""));
    bench.wake(a);
    bench.wake(b);
    bench.log();
    bench.kernel.detach(CpuId(0));
    assert_eq!(
        bench.line(),
        "quiescent:0:1(0x20000000e) runnable:0:1(0xe) stopping:0:0 quiescent:0:0(0x20000004e) \
         quiescent:0:1(0x20000004e) exit:0:-(0x40)",
        "waiting tasks are cycled first; then each task returns to its old class"
    );
    assert_eq!(bench.kernel.event_count("SCX_EV_BYPASS_ACTIVATE"), 2);
    assert_eq!(bench.kernel.event_count("SCX_EV_BYPASS_DISPATCH"), 1);
}

#[test]
fn b2_bypass_cycles_the_newest_waiting_task_first() {
    let mut bench = Bench::probe(1, &with(&["OP_RUN", "OP_DEQUEUE"]));
    let blocker = bench.task_with("rt", "", Policy::Fifo(1), 0);
    bench.wake(blocker);
    let tasks: Vec<TaskId> = ["a", "b", "c"].iter().map(|name| bench.fork(name, "", Policy::Other, 0)).collect();
    for &task in &tasks {
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
    }
    bench.log();
    bench.kernel.detach(CpuId(0));
    let dequeued: Vec<String> = bench.log().into_iter().filter(|entry| entry.starts_with("dequeue")).collect();
    assert_eq!(dequeued.join(" "), "dequeue:0:3(0x20000000e) dequeue:0:2(0x20000000e) dequeue:0:1(0x20000000e)");
}

#[test]
fn x2_debug_dump_matches_the_kernels_format() {
    let dump =
        "ON_DUMP=static char f[]=\"counter is %d\\nsecond line\";u64 d[1]={42};scx_bpf_dump_bstr(f,d,sizeof(d));";
    let enqueue = "ON_ENQUEUE=if(counter++)scx_error(\"stop\",0);else dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
    let mut bench = Bench::probe(2, &with(&["OP_DUMP", dump, enqueue]));
    let (a, b) = (bench.fork("a", "0", Policy::Other, 0), bench.fork("b", "", Policy::Other, 5));
    bench.kernel.wake_new(CpuId(0), a);
    bench.settle();
    bench.pass(Nanos::from_ms(8));
    bench.kernel.wake_new(CpuId(0), b);
    bench.settle();
    let dump = &bench.exit().dump;
    let (states, counters) = dump.split_once("\nEvent counters\n--------------\n").unwrap();
    expect_test::expect![[r#"
        probe: root
        a[100] triggered exit kind 1025 on CPU 0:
          scx_bpf_error (stop)

        Backtrace:

        counter is 42
        second line

        CPU states
        ----------

        CPU 0   : nr_run=2 flags=0x1 cpu_rel=0 ksync=2
                  curr=a[100] class=ext_sched_class

         *R a[100] *root -8ms
              scx_state/flags=4/0x5 dsq_flags=0x0 ops_state/qseq=0/0
              sticky/holding_cpu=-1/-1 dsq_id=(n/a)
              dsq_vtime=0 slice=20000000 weight=100
              cpus=1 no_mig=0

          R b[101] *root +0ms
              scx_state/flags=4/0x3 dsq_flags=0x0 ops_state/qseq=2/0
              sticky/holding_cpu=-1/-1 dsq_id=(n/a)
              dsq_vtime=0 slice=20000000 weight=33
              cpus=3 no_mig=0
    "#]]
    .assert_eq(states);
    let line = counters.lines().nth(7).unwrap();
    assert_eq!(line, "                 SCX_EV_REFILL_SLICE_DFL:                0");
    assert_eq!(counters.lines().count(), 13);
}

#[test]
fn b2_migrated_task_goes_to_the_end_of_the_runnable_list() {
    let enqueue = "ON_ENQUEUE=if(p->pid==101)hold(p);else dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
    let dispatch =
        "ON_DISPATCH=struct task_struct*t=held_task();if(t){dsq_insert(t,LOCAL_ON(1),0,0);bpf_task_release(t);}";
    let mut bench = Bench::probe(2, &with(&["OP_RUN", enqueue, dispatch, "ON_SELECT=return 0;"]));
    let blocker = bench.task_with("rt", "1", Policy::Fifo(1), 0);
    let (mover, local) = (bench.fork("mover", "", Policy::Other, 0), bench.fork("local", "1", Policy::Other, 0));
    bench.wake(blocker);
    bench.kernel.wake_new(CpuId(0), mover);
    bench.collect();
    bench.kernel.wake_new(CpuId(0), local);
    bench.settle();
    assert_eq!(bench.kernel.task_cpu(mover), CpuId(1));
    bench.log();
    bench.kernel.detach(CpuId(0));
    let log: Vec<String> = bench.log().into_iter().filter(|entry| entry.starts_with("quiescent")).collect();
    assert!(log[0].starts_with("quiescent:0:1"), "the migrated task is the newest on CPU 1: {log:?}");
}
