// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug and system suspend (contract H1, B1, V9).

#[allow(dead_code)]
use crate::bench::{Bench, TICK, flat, probe};
use event_log::Waker;
use ids::{CpuId, CpuSet, Policy, TaskId, Topology};
use kernel_model::Leave;

const OPS: [&str; 5] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN", "OP_DEQUEUE"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    OPS.into_iter().chain(["OP_HOTPLUG"]).chain(more.iter().copied()).collect()
}

/// A probe with the hotplug ops, on a flat machine.
fn with_hotplug_ops(cpus: u32, more: &[&str]) -> Bench {
    Bench::probe(cpus, &with(more))
}

fn set(cpus: &str) -> CpuSet {
    cpus.parse().unwrap()
}

/// Inserts every task into the local queue of its CPU.
const LOCAL: &str = "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
/// Holds woken tasks in BPF custody; new and migrated tasks are queued.
const HOLD: &str = "ON_ENQUEUE=if(enq_flags&1)hold(p);else dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";

/// Sleeping tasks with these names.
fn tasks<const N: usize>(bench: &mut Bench, names: [&str; N], cpus: &str) -> [TaskId; N] {
    names.map(|name| bench.task(name, cpus))
}

/// The CPU where a task runs; `None` if it does not run.
fn runs_on(bench: &Bench, task: TaskId) -> Option<u32> {
    let cpu = bench.kernel.task_cpu(task);
    (bench.kernel.current(cpu) == task).then_some(cpu.0)
}

#[test]
fn v9_scheduler_without_cpu_offline_exits_when_a_cpu_goes_offline() {
    let mut bench = Bench::probe(4, &OPS);
    let task = bench.task("t", "");
    bench.wake(task);
    bench.kernel.deactivate_cpu(CpuId(3));
    bench.settle();
    assert!(bench.kernel.exit_info().is_none(), "the op is not due yet");
    bench.kernel.offline_cpu(CpuId(3));
    bench.settle();
    assert_eq!(bench.error(), (66, "cpu 3 going offline, exiting scheduler"));
    assert_eq!(bench.exit().reason, "unregistered from the main kernel");
    assert_eq!(bench.exit().code, 1 << 48 | 1 << 32);
    assert_eq!(bench.exit().dump, "");
    assert_eq!(bench.variable("exit_cpu"), 3);
    assert_eq!(runs_on(&bench, task), Some(0), "the task keeps running in the fair class");
    bench.kernel.kill_cpu(CpuId(3));
    bench.kernel.check();
}

#[test]
fn v9_scheduler_without_cpu_online_exits_when_a_cpu_comes_online() {
    let mut bench = Bench::load(flat(2), &probe(&OPS)).unwrap();
    bench.offline(1);
    bench.attach();
    bench.online(1);
    assert_eq!(bench.error(), (66, "cpu 1 going online, exiting scheduler"));
    assert_eq!((bench.exit().code, bench.variable("exit_cpu")), (1 << 48 | 1 << 32, 1));
}

#[test]
fn h1_hotplug_ops_run_on_the_changing_cpu() {
    let mut bench = with_hotplug_ops(2, &["OP_UPDATE_IDLE"]);
    bench.offline(1);
    assert_eq!(bench.line(), "update_idle:1:-(0x1) cpu_offline:1:-(0x1) update_idle:1:-(0x1,0x1)");
    bench.online(1);
    // The dispatch is that of the hotplug thread blocking: `dispatch 3` after `cpu_online 3` in
    // verify/conformance/recorded/7.2.13.
    let came = "update_idle:1:-(0x1) cpu_online:1:-(0x1) dispatch:1:-(0x1) update_idle:1:-(0x1,0x1)";
    assert_eq!(bench.line(), came);
    assert!(bench.kernel.exit_info().is_none());
}

#[test]
fn h1_running_task_is_pushed_off_an_offlining_cpu() {
    let mut bench = with_hotplug_ops(2, &[]);
    let task = bench.task("t", "");
    bench.wake(task);
    bench.log();
    bench.kernel.deactivate_cpu(CpuId(0));
    bench.settle();
    let expected = "stopping:0:0(0x1) enqueue:0:0(0x40000) dispatch:0:- dispatch:1:-(0x1) dequeue:1:0 running:1:0";
    assert_eq!(bench.line(), expected);
    bench.kernel.offline_cpu(CpuId(0));
    bench.settle();
    assert_eq!(bench.line(), "cpu_offline:0:-");
    bench.kernel.kill_cpu(CpuId(0));
    bench.kernel.check();
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(1));
}

#[test]
fn h1_waiting_tasks_of_an_offlining_cpu_are_picked_and_pushed() {
    let mut bench = with_hotplug_ops(2, &[LOCAL, "OP_PREEMPT"]);
    let [a, b, c] = tasks(&mut bench, ["a", "b", "c"], "0-1");
    for task in [a, b, c] {
        bench.wake(task);
    }
    bench.log();
    bench.kernel.deactivate_cpu(CpuId(0));
    bench.settle();
    let there: Vec<String> = bench.log().into_iter().filter(|entry| entry.contains(":0:")).collect();
    let cycle = |task: u32| format!("stopping:0:{task}(0x1) cpu_release:0:- enqueue:0:{task}(0x40000) cpu_acquire:0:-");
    let expected = [cycle(0), "running:0:1".into(), cycle(1), "running:0:2".into(), cycle(2), "dispatch:0:-".into()];
    assert_eq!(there.join(" "), expected.join(" "));
    assert_eq!([a, b, c].map(|task| bench.kernel.task_cpu(task)), [CpuId(1); 3]);
    bench.kernel.check();
}

#[test]
fn h1_offlining_cpu_consumes_only_its_own_tasks_from_shared_queues() {
    let mut bench = with_hotplug_ops(2, &[]);
    let [a, b] = tasks(&mut bench, ["a", "b"], "0");
    let [c, d] = tasks(&mut bench, ["c", "d"], "1");
    for task in [a, b, c, d] {
        bench.wake(task);
    }
    for task in [b, d] {
        bench.kernel.set_affinity(CpuId(0), task, &set("0-1")).unwrap();
        bench.settle();
    }
    bench.log();
    bench.kernel.deactivate_cpu(CpuId(0));
    bench.settle();
    let line = bench.line();
    assert!(line.contains("dispatch:0:- dequeue:0:1 running:0:1 stopping:0:1(0x1) enqueue:0:1(0x40000)"), "{line}");
    assert!(!line.contains("running:0:3"), "{line}");
    assert!(bench.kernel.is_vacant(CpuId(0)));
    bench.kernel.check();
}

#[test]
fn h1_tasks_in_bpf_custody_go_to_the_local_queue_of_an_offlining_cpu() {
    let mut bench = with_hotplug_ops(2, &[HOLD, "ON_DISPATCH=dsq_move_to_local(SHARED);"]);
    let [a, b] = tasks(&mut bench, ["a", "b"], "");
    for task in [a, b] {
        bench.wake(task);
    }
    bench.log();
    bench.kernel.deactivate_cpu(CpuId(0));
    bench.settle();
    assert_eq!(bench.line(), "", "no task runs or is dispatched on CPU 0");
    bench.kernel.offline_cpu(CpuId(0));
    assert!(!bench.kernel.is_vacant(CpuId(0)));
    let cycle =
        |task: u32| format!("dequeue:0:{task}(0x20000000e) quiescent:0:{task}(0x20000000e) runnable:0:{task}(0xe)");
    assert_eq!(bench.line(), format!("{} {} cpu_offline:0:-", cycle(1), cycle(0)));
    bench.settle();
    let expected = "running:0:1 stopping:0:1(0x1) enqueue:0:1(0x40000) running:0:0 dispatch:1:-(0x1) dequeue:1:1 \
                    running:1:1 stopping:0:0(0x1) enqueue:0:0(0x40000)";
    assert_eq!(bench.line(), expected);
    bench.kernel.kill_cpu(CpuId(0));
    bench.kernel.check();
}

#[test]
fn h1_task_pinned_to_offlined_cpus_loses_its_affinity_permanently() {
    let mut bench = with_hotplug_ops(3, &["OP_CHANGE"]);
    let [running, waiting, asleep] = tasks(&mut bench, ["r", "w", "s"], "2");
    for task in [running, waiting] {
        bench.wake(task);
    }
    bench.log();
    bench.offline(2);
    let line = bench.line();
    let cycle = |task: u32| {
        format!(
            "stopping:2:{task}(0x1) quiescent:2:{task}(0x20000000a) set_cpumask:2:{task}(0x7) runnable:2:{task}(0xa)"
        )
    };
    assert!(line.contains(&cycle(running.0)) && line.contains(&cycle(waiting.0)), "{line}");
    bench.wake(asleep);
    assert!(bench.line().starts_with("set_cpumask:0:2(0x7) runnable:0:2(0x40009) enqueue:0:2(0x40009)"));
    for task in [running, waiting, asleep] {
        assert_eq!(*bench.kernel.allowed(task), set("0-2"));
    }
    bench.online(2);
    assert_eq!(*bench.kernel.allowed(running), set("0-2"), "the old affinity is lost");
    bench.kernel.check();
}

#[test]
fn h1_affinity_to_offline_cpus_only_returns_einval() {
    let mut bench = with_hotplug_ops(3, &[]);
    let task = bench.task("t", "");
    bench.offline(2);
    assert_eq!(bench.kernel.set_affinity(CpuId(0), task, &set("2")), Err(-22));
    assert_eq!(bench.kernel.set_affinity(CpuId(0), task, &set("1-2")), Ok(()));
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(1));
}

#[test]
fn h1_offline_cpu_from_select_cpu_is_replaced_and_counted() {
    let mut bench = with_hotplug_ops(3, &["ON_SELECT=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);return 2;"]);
    let task = bench.task("t", "");
    bench.offline(2);
    bench.log();
    bench.wake(task);
    assert_eq!(bench.line(), "select_cpu:0:0(0x2,0x8) runnable:0:0(0x140009) running:0:0");
    assert_eq!(bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK"), 1);
}

#[test]
fn h1_local_on_an_offline_cpu_falls_back_to_the_global_queue() {
    let on_gone = "ON_ENQUEUE=dsq_insert(p,LOCAL_ON(online_cpus()<3?2:0),SCX_SLICE_DFL,0);";
    let mut bench = with_hotplug_ops(3, &[on_gone]);
    let task = bench.task("t", "");
    bench.offline(2);
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(0));
    assert_eq!(bench.kernel.event_count("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE"), 1);
    assert!(bench.kernel.exit_info().is_none(), "an offline CPU is not an error");

    let by_dispatch = "ON_DISPATCH=struct task_struct*t=held_task();\
                       if(t){dsq_insert(t,LOCAL_ON(2),SCX_SLICE_DFL,0);bpf_task_release(t);}else dsq_move_to_local(SHARED);";
    let mut bench = with_hotplug_ops(3, &[HOLD, by_dispatch]);
    let task = bench.task("t", "");
    bench.offline(2);
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(0));
    assert_eq!(bench.kernel.event_count("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE"), 1);
}

#[test]
fn h1_no_task_is_placed_on_an_offlining_cpu() {
    let mut bench = with_hotplug_ops(2, &[LOCAL]);
    let task = bench.task("t", "");
    bench.kernel.deactivate_cpu(CpuId(1));
    bench.settle();
    bench.wake(task);
    let on_one = "ON_ENQUEUE=dsq_insert(p,LOCAL_ON(1),SCX_SLICE_DFL,0);";
    assert_eq!(runs_on(&bench, task), Some(0));
    let mut bench = with_hotplug_ops(2, &[on_one]);
    let task = bench.task("t", "");
    bench.kernel.deactivate_cpu(CpuId(1));
    bench.settle();
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(0));
    assert_eq!(bench.kernel.event_count("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE"), 1);
}

#[test]
fn h1_real_time_tasks_are_pushed_off_an_offlining_cpu() {
    let mut bench = with_hotplug_ops(2, &[]);
    let real_time = bench.task_with("rt", "", Policy::Fifo(5), 0);
    let second = bench.task_with("rt2", "", Policy::Fifo(4), 0);
    let hog = bench.task("hog", "");
    for task in [real_time, second, hog] {
        bench.wake(task);
    }
    assert_eq!((runs_on(&bench, real_time), runs_on(&bench, second)), (Some(0), Some(1)));
    bench.offline(0);
    bench.kernel.check();
    assert_eq!(runs_on(&bench, real_time), Some(1));
    bench.online(0);
    bench.kernel.schedule(CpuId(0), Leave::Preempt);
    bench.settle();
    assert_eq!(runs_on(&bench, second), Some(0), "the idle CPU pulls a real-time task");
    bench.kernel.check();
}

#[test]
fn h1_idle_bit_of_an_offline_cpu_stays_until_claimed() {
    let mut bench = with_hotplug_ops(2, &["OP_SELECT_CPU", "ON_SELECT=return scx_bpf_pick_idle_cpu(p->cpus_ptr,0);"]);
    let task = bench.task("t", "");
    bench.offline(1);
    assert_eq!(bench.kernel.idle_cpus().to_string(), "0-1");
    bench.wake(task);
    bench.block(task);
    bench.wake(task);
    assert_eq!((runs_on(&bench, task), bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK")), (Some(0), 1));
    assert_eq!(bench.kernel.idle_cpus().to_string(), "");
    bench.online(1);
    assert_eq!(bench.kernel.idle_cpus().to_string(), "1");
}

#[test]
fn h1_attach_marks_only_online_cpus_idle() {
    let mut bench = Bench::load(flat(3), &probe(&with(&[]))).unwrap();
    bench.offline(1);
    bench.attach();
    assert_eq!(bench.kernel.idle_cpus().to_string(), "0,2");
}

#[test]
fn h1_core_with_an_offline_sibling_counts_as_fully_idle() {
    let smt = Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4]);
    let core = "ON_SELECT=s32 c=scx_bpf_pick_idle_cpu(p->cpus_ptr,1);return c<0?prev_cpu:c;";
    let mut bench = Bench::load(smt, &probe(&with(&[core]))).unwrap();
    bench.attach();
    let hog = bench.task("hog", "0");
    let task = bench.task("t", "2-3");
    bench.wake(hog);
    bench.offline(3);
    // CPU 2 becomes idle again; with CPU 3 offline it counts as a whole core.
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(2));
    bench.block(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("0-3")).unwrap();
    bench.kernel.wake(CpuId(0), task, Waker::Timer, false);
    bench.settle();
    assert_eq!((runs_on(&bench, task), bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK")), (Some(2), 0));
}

const DEFAULT_SEARCH: &str = "ON_SELECT=return scx_bpf_select_cpu_dfl(p,prev_cpu,wake_flags,&idle);";

/// An LLC of four CPUs and one of two.
fn two_caches() -> Bench {
    let caches = Topology::of_groups(&[0, 1, 2, 3, 4, 5], &[0, 0, 0, 0, 1, 1], &[0; 6]);
    Bench::load(caches, &probe(&with(&[DEFAULT_SEARCH]))).unwrap()
}

/// The CPU where a task wakes whose previous CPU is 5, while another task runs there and all other CPUs are idle. CPU
/// 4 is in the same LLC; a search without the LLC step finds CPU 1 or 2 first.
fn wakes_on(bench: &mut Bench, change: impl FnOnce(&mut Bench)) -> u32 {
    let [hog, task] = tasks(bench, ["hog", "t"], "5");
    bench.wake(task);
    bench.block(task);
    bench.wake(hog);
    bench.kernel.set_affinity(CpuId(0), task, &set("0-5")).unwrap();
    change(bench);
    bench.wake(task);
    assert_eq!(bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK"), 0, "the search did not return an offline CPU");
    bench.kernel.check();
    runs_on(bench, task).expect("a CPU idles")
}

#[test]
fn h1_idle_search_uses_an_llc_that_came_online_after_attach() {
    let mut bench = two_caches();
    bench.offline(5);
    bench.offline(4);
    bench.attach();
    // Only one LLC was online at attach, so the search had no LLC step.
    bench.online(4);
    bench.online(5);
    assert_eq!(wakes_on(&mut bench, |_| ()), 4);
}

#[test]
fn h1_idle_search_skips_an_llc_left_with_one_cpu() {
    let mut bench = two_caches();
    bench.attach();
    // The idle bit of CPU 4 is still set, but its LLC has one CPU left and no domain.
    assert!(wakes_on(&mut bench, |bench| bench.offline(4)) < 4);
}

#[test]
fn h1_idle_search_uses_the_llc_of_a_cpu_back_online() {
    let mut bench = two_caches();
    bench.attach();
    let and_back = |bench: &mut Bench| {
        bench.offline(4);
        bench.online(4);
    };
    assert_eq!(wakes_on(&mut bench, and_back), 4);
}

#[test]
fn h1_online_cpumask_kfunc_follows_hotplug() {
    let mut bench = with_hotplug_ops(3, &["ON_RUNNING=counter=online_cpus();"]);
    let task = bench.task("t", "0");
    assert_eq!(bench.variable("counter"), 3);
    bench.offline(2);
    bench.wake(task);
    bench.block(task);
    assert_eq!(bench.variable("counter"), 2);
    bench.online(2);
    bench.wake(task);
    assert_eq!(bench.variable("counter"), 3);
}

#[test]
fn h1_attach_needs_the_current_hotplug_seq() {
    let with_seq = |seq: u64| {
        move |object: &mut bpf_object::LinkedObject| {
            let (name, value) = ("hotplug_seq".to_owned(), bpf_object::MemberValue::Number(seq));
            object.struct_ops[0].members.push(bpf_object::StructOpsMember { name, value });
        }
    };
    for (seq, message) in [(2, None), (1, Some("expected hotplug seq 1 did not match actual 2"))] {
        let mut bench = Bench::load_changed(flat(2), &probe(&with(&[])), with_seq(seq)).unwrap();
        bench.offline(1);
        bench.online(1);
        assert_eq!(bench.kernel.hotplug_seq(), 2);
        bench.attach();
        assert_eq!(bench.kernel.exit_info().map(|exit| exit.message.as_str()), message);
    }
}

#[test]
fn h1_restarted_scheduler_takes_over_running_tasks() {
    let mut bench = Bench::probe(3, &OPS);
    let [a, b, c] = tasks(&mut bench, ["a", "b", "c"], "0-1");
    for task in [a, b, c] {
        bench.wake(task);
    }
    bench.offline(2);
    assert_eq!(bench.exit().kind, 66);
    bench.kernel.check();
    bench.run(&[0, 1], TICK);
    bench.restart();
    assert!(bench.kernel.exit_info().is_none());
    bench.kernel.check();
    bench.log();
    bench.run(&[0, 1], ids::Nanos::from_ms(100));
    let line = bench.line();
    for task in 0..3 {
        assert!(line.contains(&format!("running:0:{task}")) || line.contains(&format!("running:1:{task}")), "{line}");
    }
    bench.kernel.check();
}

#[test]
fn h1_suspend_puts_the_scheduler_in_bypass() {
    let mut bench = with_hotplug_ops(2, &[]);
    let task = bench.task("t", "");
    bench.kernel.begin_suspend(CpuId(0));
    bench.settle();
    bench.wake(task);
    assert_eq!(bench.line(), "runnable:0:0(0x100009) running:0:0");
    bench.block(task);
    bench.log();
    bench.offline(1);
    assert_eq!(bench.line(), "cpu_offline:1:-(0x1)", "cpu_offline is called in bypass too");
    bench.online(1);
    bench.wake(task);
    assert_eq!(bench.ops(), "cpu_online runnable running");
    bench.kernel.end_suspend(CpuId(0));
    bench.settle();
    bench.block(task);
    bench.log();
    bench.wake(task);
    assert_eq!(bench.ops(), "select_cpu runnable enqueue dispatch dequeue running");
    bench.kernel.check();
}

#[test]
fn h1_push_off_an_offlining_cpu_ignores_an_old_affinity_target() {
    let mut bench = with_hotplug_ops(4, &[LOCAL]);
    let task = bench.task("t", "");
    bench.wake(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("3")).unwrap();
    bench.settle();
    assert_eq!(runs_on(&bench, task), Some(3), "the stopper thread moved it to CPU 3");
    bench.block(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("1")).unwrap();
    bench.wake(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("0-3")).unwrap();
    bench.settle();
    assert_eq!(runs_on(&bench, task), Some(1), "CPU 1 is still allowed");
    bench.offline(1);
    assert_eq!(runs_on(&bench, task), Some(0), "the first active CPU of its node");
}

#[test]
fn b1_tasks_in_bpf_custody_run_when_suspend_begins() {
    let mut bench = with_hotplug_ops(1, &[HOLD]);
    let task = bench.task("t", "");
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), None, "the task is in BPF custody");
    bench.log();
    bench.kernel.begin_suspend(CpuId(0));
    bench.settle();
    assert_eq!(bench.ops(), "dequeue quiescent runnable running", "bypass takes the task out of custody");
    assert_eq!(runs_on(&bench, task), Some(0));
    bench.kernel.check();
}

#[test]
fn h1_suspend_disables_a_scheduler_without_cpu_offline() {
    let mut bench = Bench::probe(3, &OPS);
    bench.kernel.begin_suspend(CpuId(0));
    bench.offline(2);
    assert_eq!(bench.error(), (66, "cpu 2 going offline, exiting scheduler"));
    bench.offline(1);
    assert_eq!(bench.error().1, "cpu 2 going offline, exiting scheduler");
    bench.online(1);
    bench.online(2);
    bench.kernel.end_suspend(CpuId(0));
    bench.settle();
    bench.kernel.check();
    bench.restart();
    let task = bench.task("t", "");
    bench.wake(task);
    assert_eq!(bench.ops(), "select_cpu runnable enqueue dispatch dequeue running", "bypass has ended");
}

#[test]
fn b1_tasks_alternate_each_tick_in_bypass_during_attach_and_disable() {
    let mut bench = Bench::load(flat(1), &probe(&with(&["OP_TASK"]))).unwrap();
    let [a, b] = ["a", "b"].map(|name| bench.fork(name, "", Policy::Other, 0));
    for task in [a, b] {
        bench.kernel.wake_new(CpuId(0), task);
    }
    bench.settle();
    bench.kernel.disable_in_steps();
    bench.kernel.begin_attach(CpuId(0)).unwrap();
    bench.settle();
    // The slice timer of the fair task counts as a tick of the ext task.
    bench.pass_with_timers(TICK);
    bench.log();
    bench.run(&[0], TICK);
    bench.run(&[0], TICK);
    let turns = |first: u32, second: u32| {
        format!("stopping:0:{first}(0x1) running:0:{second} stopping:0:{second}(0x1) running:0:{first}")
    };
    assert_eq!(bench.line(), turns(0, 1), "in bypass without enqueue, dispatch and tick");
    bench.kernel.end_attach(CpuId(0));
    bench.settle();
    bench.kernel.check();
    bench.run(&[0], TICK);
    assert!(bench.line().contains("enqueue:0:"), "the scheduler is active");
    bench.kernel.detach(CpuId(0));
    bench.settle();
    assert!(bench.kernel.is_disabling() && bench.kernel.exit_info().is_none());
    bench.kernel.check();
    bench.log();
    bench.run(&[0], TICK);
    bench.run(&[0], TICK);
    let line = bench.line();
    assert!(line == turns(0, 1) || line == turns(1, 0), "{line}");
    bench.kernel.end_disable(CpuId(0));
    bench.settle();
    assert!(bench.line().ends_with("exit:0:-(0x40)"));
    assert_eq!(bench.exit().kind, 64);
    bench.kernel.check();
}
