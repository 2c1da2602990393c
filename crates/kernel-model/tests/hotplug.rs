// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that go and come, and a machine that sleeps (contract H1, B1, V9).

#[allow(dead_code)]
mod bench;

use bench::{Bench, TICK, flat, probe};
use event_log::Waker;
use ids::{CpuId, CpuSet, Policy, TaskId, Topology};
use kernel_model::Leave;

const OPS: [&str; 5] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN", "OP_DEQUEUE"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    OPS.into_iter().chain(["OP_HOTPLUG"]).chain(more.iter().copied()).collect()
}

/// A probe that knows of hotplug, on a flat machine.
fn knowing(cpus: u32, more: &[&str]) -> Bench {
    Bench::probe(cpus, &with(more))
}

fn set(cpus: &str) -> CpuSet {
    cpus.parse().unwrap()
}

/// Puts every waking task into the local queue of its CPU.
const LOCAL: &str = "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);";
/// Keeps what is woken in BPF hands; new and migrated tasks are queued.
const HOLD: &str = "ON_ENQUEUE=if(enq_flags&1)hold(p);else dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";

/// Tasks of these names, asleep.
fn tasks<const N: usize>(bench: &mut Bench, names: [&str; N], cpus: &str) -> [TaskId; N] {
    names.map(|name| bench.task(name, cpus))
}

/// Where a task runs; `None` if it does not.
fn runs_on(bench: &Bench, task: TaskId) -> Option<u32> {
    let cpu = bench.kernel.task_cpu(task);
    (bench.kernel.current(cpu) == task).then_some(cpu.0)
}

#[test]
fn v9_a_scheduler_without_the_op_ends_when_a_cpu_goes() {
    let mut bench = Bench::probe(4, &OPS);
    let task = bench.task("t", "");
    bench.wake(task);
    bench.kernel.deactivate_cpu(CpuId(3));
    bench.settle();
    assert!(bench.kernel.exit_info().is_none(), "nobody was told yet");
    bench.kernel.offline_cpu(CpuId(3));
    bench.settle();
    assert_eq!(bench.error(), (66, "cpu 3 going offline, exiting scheduler"));
    assert_eq!(bench.exit().reason, "unregistered from the main kernel");
    assert_eq!(bench.exit().code, 1 << 48 | 1 << 32);
    assert_eq!(bench.exit().dump, "");
    assert_eq!(bench.variable("exit_cpu"), 3);
    assert_eq!(runs_on(&bench, task), Some(0), "it goes on in the fair class");
    bench.kernel.kill_cpu(CpuId(3));
    bench.kernel.check();
}

#[test]
fn v9_a_scheduler_without_the_op_ends_when_a_cpu_comes() {
    let mut bench = Bench::load(flat(2), &probe(&OPS)).unwrap();
    bench.offline(1);
    bench.attach();
    bench.online(1);
    assert_eq!(bench.error(), (66, "cpu 1 going online, exiting scheduler"));
    assert_eq!((bench.exit().code, bench.variable("exit_cpu")), (1 << 48 | 1 << 32, 1));
}

#[test]
fn h1_the_op_is_told_on_that_cpu_and_the_scheduler_stays() {
    let mut bench = knowing(2, &["OP_UPDATE_IDLE"]);
    bench.offline(1);
    assert_eq!(bench.line(), "update_idle:1:-(0x1) cpu_offline:1:-(0x1) update_idle:1:-(0x1,0x1)");
    bench.online(1);
    // The dispatch is that of its thread leaving: `dispatch 3` after `cpu_online 3` in conformance/recorded/7.2.13.
    let came = "update_idle:1:-(0x1) cpu_online:1:-(0x1) dispatch:1:-(0x1) update_idle:1:-(0x1,0x1)";
    assert_eq!(bench.line(), came);
    assert!(bench.kernel.exit_info().is_none());
}

#[test]
fn h1_whoever_runs_there_is_pushed_to_another_cpu() {
    let mut bench = knowing(2, &[]);
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
fn h1_whoever_waits_there_is_picked_and_pushed_in_turn() {
    let mut bench = knowing(2, &[LOCAL, "OP_PREEMPT"]);
    let [a, b, c] = tasks(&mut bench, ["a", "b", "c"], "0-1");
    for task in [a, b, c] {
        bench.wake(task);
    }
    bench.log();
    bench.kernel.deactivate_cpu(CpuId(0));
    bench.settle();
    let there: Vec<String> = bench.log().into_iter().filter(|entry| entry.contains(":0:")).collect();
    let turn = |task: u32| format!("stopping:0:{task}(0x1) cpu_release:0:- enqueue:0:{task}(0x40000) cpu_acquire:0:-");
    let expected = [turn(0), "running:0:1".into(), turn(1), "running:0:2".into(), turn(2), "dispatch:0:-".into()];
    assert_eq!(there.join(" "), expected.join(" "));
    assert_eq!([a, b, c].map(|task| bench.kernel.task_cpu(task)), [CpuId(1); 3]);
    bench.kernel.check();
}

#[test]
fn h1_a_cpu_that_leaves_takes_its_own_tasks_out_of_shared_queues_and_no_others() {
    let mut bench = knowing(2, &[]);
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
fn h1_what_the_scheduler_keeps_goes_to_the_local_queue_and_leaves() {
    let mut bench = knowing(2, &[HOLD, "ON_DISPATCH=dsq_move_to_local(SHARED);"]);
    let [a, b] = tasks(&mut bench, ["a", "b"], "");
    for task in [a, b] {
        bench.wake(task);
    }
    bench.log();
    bench.kernel.deactivate_cpu(CpuId(0));
    bench.settle();
    assert_eq!(bench.line(), "", "nobody runs there, and nobody is dispatched");
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
fn h1_a_task_whose_cpus_are_gone_may_run_anywhere_for_good() {
    let mut bench = knowing(3, &["OP_CHANGE"]);
    let [running, waiting, asleep] = tasks(&mut bench, ["r", "w", "s"], "2");
    for task in [running, waiting] {
        bench.wake(task);
    }
    bench.log();
    bench.offline(2);
    let line = bench.line();
    let turn = |task: u32| {
        format!(
            "stopping:2:{task}(0x1) quiescent:2:{task}(0x20000000a) set_cpumask:2:{task}(0x7) runnable:2:{task}(0xa)"
        )
    };
    assert!(line.contains(&turn(running.0)) && line.contains(&turn(waiting.0)), "{line}");
    bench.wake(asleep);
    assert!(bench.line().starts_with("set_cpumask:0:2(0x7) runnable:0:2(0x40009) enqueue:0:2(0x40009)"));
    for task in [running, waiting, asleep] {
        assert_eq!(*bench.kernel.allowed(task), set("0-2"));
    }
    bench.online(2);
    assert_eq!(*bench.kernel.allowed(running), set("0-2"), "nobody remembers");
    bench.kernel.check();
}

#[test]
fn h1_an_affinity_to_gone_cpus_only_is_refused() {
    let mut bench = knowing(3, &[]);
    let task = bench.task("t", "");
    bench.offline(2);
    assert_eq!(bench.kernel.set_affinity(CpuId(0), task, &set("2")), Err(-22));
    assert_eq!(bench.kernel.set_affinity(CpuId(0), task, &set("1-2")), Ok(()));
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(1));
}

#[test]
fn h1_select_cpu_of_a_gone_cpu_is_replaced_and_counted() {
    let mut bench = knowing(3, &["ON_SELECT=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);return 2;"]);
    let task = bench.task("t", "");
    bench.offline(2);
    bench.log();
    bench.wake(task);
    assert_eq!(bench.line(), "select_cpu:0:0(0x2,0x8) runnable:0:0(0x140009) running:0:0");
    assert_eq!(bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK"), 1);
}

#[test]
fn h1_local_on_a_gone_cpu_goes_to_the_global_queue_and_is_counted() {
    let on_gone = "ON_ENQUEUE=dsq_insert(p,LOCAL_ON(online_cpus()<3?2:0),SCX_SLICE_DFL,0);";
    let mut bench = knowing(3, &[on_gone]);
    let task = bench.task("t", "");
    bench.offline(2);
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(0));
    assert_eq!(bench.kernel.event_count("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE"), 1);
    assert!(bench.kernel.exit_info().is_none(), "that is no error");

    let by_dispatch = "ON_DISPATCH=struct task_struct*t=held_task();\
                       if(t){dsq_insert(t,LOCAL_ON(2),SCX_SLICE_DFL,0);bpf_task_release(t);}else dsq_move_to_local(SHARED);";
    let mut bench = knowing(3, &[HOLD, by_dispatch]);
    let task = bench.task("t", "");
    bench.offline(2);
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(0));
    assert_eq!(bench.kernel.event_count("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE"), 1);
}

#[test]
fn h1_a_cpu_that_leaves_takes_no_task_of_another() {
    let mut bench = knowing(2, &[LOCAL]);
    let task = bench.task("t", "");
    bench.kernel.deactivate_cpu(CpuId(1));
    bench.settle();
    bench.wake(task);
    let on_one = "ON_ENQUEUE=dsq_insert(p,LOCAL_ON(1),SCX_SLICE_DFL,0);";
    assert_eq!(runs_on(&bench, task), Some(0));
    let mut bench = knowing(2, &[on_one]);
    let task = bench.task("t", "");
    bench.kernel.deactivate_cpu(CpuId(1));
    bench.settle();
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(0));
    assert_eq!(bench.kernel.event_count("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE"), 1);
}

#[test]
fn h1_higher_classes_are_pushed_too() {
    let mut bench = knowing(2, &[]);
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
    assert_eq!(runs_on(&bench, second), Some(0), "an idle CPU pulls");
    bench.kernel.check();
}

#[test]
fn h1_the_idle_bit_of_a_gone_cpu_stays_until_it_is_claimed() {
    let mut bench = knowing(2, &["OP_SELECT_CPU", "ON_SELECT=return scx_bpf_pick_idle_cpu(p->cpus_ptr,0);"]);
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
fn h1_an_attach_counts_online_cpus_as_idle() {
    let mut bench = Bench::load(flat(3), &probe(&with(&[]))).unwrap();
    bench.offline(1);
    bench.attach();
    assert_eq!(bench.kernel.idle_cpus().to_string(), "0,2");
}

#[test]
fn h1_a_core_whose_other_thread_is_gone_is_whole() {
    let smt = Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4]);
    let core = "ON_SELECT=s32 c=scx_bpf_pick_idle_cpu(p->cpus_ptr,1);return c<0?prev_cpu:c;";
    let mut bench = Bench::load(smt, &probe(&with(&[core]))).unwrap();
    bench.attach();
    let hog = bench.task("hog", "0");
    let task = bench.task("t", "2-3");
    bench.wake(hog);
    bench.offline(3);
    // CPU 2 goes idle anew and sees that it is all of its core.
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), Some(2));
    bench.block(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("0-3")).unwrap();
    bench.kernel.wake(CpuId(0), task, Waker::Timer, false);
    bench.settle();
    assert_eq!((runs_on(&bench, task), bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK")), (Some(2), 0));
}

const DEFAULT_SEARCH: &str = "ON_SELECT=return scx_bpf_select_cpu_dfl(p,prev_cpu,wake_flags,&idle);";

/// A cache of four CPUs and one of two.
fn two_caches() -> Bench {
    let caches = Topology::of_groups(&[0, 1, 2, 3, 4, 5], &[0, 0, 0, 0, 1, 1], &[0; 6]);
    Bench::load(caches, &probe(&with(&[DEFAULT_SEARCH]))).unwrap()
}

/// Where a task wakes that was on CPU 5, when somebody else is there and the other CPUs idle: CPU 4 shares the cache, but
/// a search without the step for caches comes to CPU 1 or 2 first.
fn wakes_on(bench: &mut Bench, change: impl FnOnce(&mut Bench)) -> u32 {
    let [hog, task] = tasks(bench, ["hog", "t"], "5");
    bench.wake(task);
    bench.block(task);
    bench.wake(hog);
    bench.kernel.set_affinity(CpuId(0), task, &set("0-5")).unwrap();
    change(bench);
    bench.wake(task);
    assert_eq!(bench.kernel.event_count("SCX_EV_SELECT_CPU_FALLBACK"), 0, "it did not choose a gone CPU");
    bench.kernel.check();
    runs_on(bench, task).expect("a CPU idles")
}

#[test]
fn h1_the_search_learns_of_a_cache_whose_cpus_came_after_the_attach() {
    let mut bench = two_caches();
    bench.offline(5);
    bench.offline(4);
    bench.attach();
    // One cache was online at the attach: the search had no step for caches.
    bench.online(4);
    bench.online(5);
    assert_eq!(wakes_on(&mut bench, |_| ()), 4);
}

#[test]
fn h1_the_search_does_not_look_into_the_cache_of_a_gone_cpu() {
    let mut bench = two_caches();
    bench.attach();
    // Nobody has claimed the idle bit of CPU 4 yet, but its cache is a domain of one CPU now.
    assert!(wakes_on(&mut bench, |bench| bench.offline(4)) < 4);
}

#[test]
fn h1_the_search_looks_again_into_the_cache_of_a_cpu_that_came_back() {
    let mut bench = two_caches();
    bench.attach();
    let and_back = |bench: &mut Bench| {
        bench.offline(4);
        bench.online(4);
    };
    assert_eq!(wakes_on(&mut bench, and_back), 4);
}

#[test]
fn h1_programs_see_the_online_mask_change() {
    let mut bench = knowing(3, &["ON_RUNNING=counter=online_cpus();"]);
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
fn h1_each_change_counts_and_a_loader_that_read_the_count_may_attach() {
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
fn h1_a_restart_takes_over_the_tasks_that_run() {
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
fn h1_a_sleeping_machine_bypasses_the_scheduler() {
    let mut bench = knowing(2, &[]);
    let task = bench.task("t", "");
    bench.kernel.begin_suspend(CpuId(0));
    bench.settle();
    bench.wake(task);
    assert_eq!(bench.line(), "runnable:0:0(0x100009) running:0:0");
    bench.block(task);
    bench.log();
    bench.offline(1);
    assert_eq!(bench.line(), "cpu_offline:1:-(0x1)", "that op is called all the same");
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
fn h1_whoever_is_pushed_forgets_where_it_was_once_to_go() {
    let mut bench = knowing(4, &[LOCAL]);
    let task = bench.task("t", "");
    bench.wake(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("3")).unwrap();
    bench.settle();
    assert_eq!(runs_on(&bench, task), Some(3), "the migration helper took it there");
    bench.block(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("1")).unwrap();
    bench.wake(task);
    bench.kernel.set_affinity(CpuId(0), task, &set("0-3")).unwrap();
    bench.settle();
    assert_eq!(runs_on(&bench, task), Some(1), "it may stay");
    bench.offline(1);
    assert_eq!(runs_on(&bench, task), Some(0), "the first CPU of its node that is left");
}

#[test]
fn b1_what_the_scheduler_holds_runs_when_the_machine_is_about_to_sleep() {
    let mut bench = knowing(1, &[HOLD]);
    let task = bench.task("t", "");
    bench.wake(task);
    assert_eq!(runs_on(&bench, task), None, "the scheduler has it");
    bench.log();
    bench.kernel.begin_suspend(CpuId(0));
    bench.settle();
    assert_eq!(bench.ops(), "dequeue quiescent runnable running", "bypass takes it over");
    assert_eq!(runs_on(&bench, task), Some(0));
    bench.kernel.check();
}

#[test]
fn h1_a_sleeping_machine_ends_a_scheduler_without_the_op() {
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
    assert_eq!(bench.ops(), "select_cpu runnable enqueue dispatch dequeue running", "and no bypass is left over");
}

#[test]
fn b1_tasks_take_turns_of_a_tick_between_the_halves_of_an_attach_and_of_a_disable() {
    let mut bench = Bench::load(flat(1), &probe(&with(&["OP_TASK"]))).unwrap();
    let [a, b] = ["a", "b"].map(|name| bench.fork(name, "", Policy::Other, 0));
    for task in [a, b] {
        bench.kernel.wake_new(CpuId(0), task);
    }
    bench.settle();
    bench.kernel.disable_in_steps();
    bench.kernel.begin_attach(CpuId(0)).unwrap();
    bench.settle();
    // The timer that was to end the turn of a fair task is a tick for the task of the scheduler.
    bench.pass_with_timers(TICK);
    bench.log();
    bench.run(&[0], TICK);
    bench.run(&[0], TICK);
    let turns = |first: u32, second: u32| {
        format!("stopping:0:{first}(0x1) running:0:{second} stopping:0:{second}(0x1) running:0:{first}")
    };
    assert_eq!(bench.line(), turns(0, 1), "no enqueue, no dispatch, no tick");
    bench.kernel.end_attach(CpuId(0));
    bench.settle();
    bench.kernel.check();
    bench.run(&[0], TICK);
    assert!(bench.line().contains("enqueue:0:"), "the scheduler schedules");
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
