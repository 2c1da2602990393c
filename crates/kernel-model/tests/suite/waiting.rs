// SPDX-License-Identifier: GPL-2.0-only
//! Operations that stop at locks (`+waiting`): several CPUs have one in progress, and they continue in any order that
//! their locks allow.

#[allow(dead_code)]
use crate::bench;

use bench::{Bench, flat};
use event_log::{BlockCause, EventKind, Waker};
use ids::{CpuId, Nanos, Policy, TaskId};
use kernel_model::{Leave, Lock, Operation, Output, Progress, Stops, Switch, Wait};

const CPUS: [CpuId; 2] = [CpuId(0), CpuId(1)];
const EVERYWHERE: Stops = Stops { calls: true, atomics: true };

/// A wakeup by an interrupt.
fn wake(task: TaskId) -> Operation {
    Operation::Wake(task, Waker::Interrupt)
}

/// Finishes the operation on `cpu`; returns its stops, and the switch if it is a schedule.
fn finish(bench: &mut Bench, cpu: CpuId) -> (Vec<Wait>, Option<Switch>) {
    let mut waits = Vec::new();
    loop {
        match bench.kernel.resume(cpu) {
            Progress::Waits(wait) => waits.push(wait),
            Progress::Done(switch) => return (waits, switch),
        }
    }
}

/// Continues the operation on `cpu` up to a stop that matches.
fn up_to(bench: &mut Bench, cpu: CpuId, first: Progress, meant: impl Fn(&Wait) -> bool) {
    let mut progress = first;
    loop {
        let Progress::Waits(wait) = progress else { panic!("the operation on CPU {cpu} has finished") };
        if meant(&wait) {
            return;
        }
        progress = bench.kernel.resume(cpu);
    }
}

/// Stops as text: `+` acquires, `-` releases (`+rq0 +dsq7 -dsq7 -rq0`); other stops by name.
fn text(waits: &[Wait]) -> String {
    let one = |wait: &Wait| match wait {
        Wait::Lock(step) => {
            let sign = if step.taken { '+' } else { '-' };
            match step.lock {
                Lock::Runqueue(cpu) => format!("{sign}rq{cpu}"),
                Lock::Dsq(dsq) => format!("{sign}dsq{}", dsq.0),
                Lock::Bpf(_) => format!("{sign}bpf"),
                other => format!("{sign}{other:?}"),
            }
        }
        Wait::Switch(cpu, _) => format!("switch{cpu}"),
        Wait::Call(name) => name.clone(),
        Wait::Atomic => "atomic".to_owned(),
    };
    waits.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// All stops of an operation, as text.
fn all_stops(bench: &mut Bench, cpu: CpuId, operation: Operation) -> String {
    let Progress::Waits(first) = bench.kernel.begin(cpu, operation) else { return String::new() };
    let (mut waits, _) = finish(bench, cpu);
    waits.insert(0, first);
    text(&waits)
}

/// Wakes two tasks from two CPUs onto two others, under the scheduler `shared`, which counts its enqueues; returns
/// the count. The operations alternate, or run one after the other.
fn counted(defines: &[&str], in_turn: bool) -> u64 {
    let mut bench = Bench::load(flat(4), &bench::compiled("shared", defines)).expect("it loads");
    bench.attach();
    let tasks = ["2", "3"].map(|cpu| {
        let task = bench.fork(cpu, cpu, Policy::Other, 0);
        bench.kernel.wake_new(CPUS[0], task);
        bench.settle();
        bench.block(task);
        task
    });
    let before = bench.variable("counter");
    bench.kernel.stop_at(EVERYWHERE);
    for (cpu, task) in CPUS.into_iter().zip(tasks) {
        bench.kernel.begin(cpu, wake(task));
        if !in_turn {
            finish(&mut bench, cpu);
        }
    }
    while bench.kernel.waiting_cpus().next().is_some() {
        let ready: Vec<CpuId> = bench.kernel.waiting_cpus().filter(|&cpu| bench.kernel.may_resume(cpu)).collect();
        assert!(!ready.is_empty(), "no operation can continue");
        for cpu in ready {
            // The CPU before may have taken the lock that this one waits for.
            if bench.kernel.may_resume(cpu) {
                bench.kernel.resume(cpu);
            }
        }
    }
    bench.kernel.check();
    bench.settle();
    for (task, cpu) in tasks.into_iter().zip([2, 3]) {
        assert_eq!(bench.kernel.current(CpuId(cpu)), task, "the task runs despite a lost update");
    }
    bench.variable("counter") - before
}

#[test]
fn unlocked_update_is_lost_only_when_operations_interleave() {
    assert_eq!((counted(&["CALL"], false), counted(&["CALL"], true)), (2, 1), "a call between");
    assert_eq!((counted(&["NOTHING"], false), counted(&["NOTHING"], true)), (2, 1), "an atomic instruction between");
}

#[test]
fn no_update_is_lost_under_a_spin_lock() {
    assert_eq!((counted(&["LOCKED"], false), counted(&["LOCKED"], true)), (2, 2));
}

/// A probe whose tasks go through queue 7; their affinity determines where they run.
fn through_a_queue(cpus: u32) -> Bench {
    let bench = Bench::probe(cpus, &["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN"]);
    assert!(bench.kernel.waiting_cpus().next().is_none());
    bench
}

#[test]
fn operations_stop_at_their_locks_in_order() {
    let mut bench = through_a_queue(2);
    let task = bench.task("a", "1");
    assert_eq!(all_stops(&mut bench, CPUS[0], wake(task)), "+rq1 +dsq7 -dsq7 -rq1");
    let pick = Operation::Schedule(Leave::Preempt);
    assert_eq!(all_stops(&mut bench, CPUS[1], pick), "+rq1 +dsq7 -dsq7 -rq1");
    assert_eq!(bench.kernel.current(CPUS[1]), task);
    assert_eq!(all_stops(&mut bench, CPUS[1], Operation::Tick), "+rq1 -rq1");
}

#[test]
fn pull_takes_the_runqueue_lock_of_the_source_cpu() {
    let mut bench = Bench::probe(2, &["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "ON_SELECT=return 0;"]);
    let blocker = bench.task_with("rt", "0", Policy::Fifo(9), 0);
    bench.wake(blocker);
    let task = bench.fork("a", "", Policy::Other, 0);
    assert_eq!(all_stops(&mut bench, CPUS[1], Operation::WakeNew(task)), "+rq0 +dsq7 -dsq7 -rq0");
    let stops = all_stops(&mut bench, CPUS[1], Operation::Schedule(Leave::Preempt));
    assert_eq!(stops, "+rq1 +dsq7 -dsq7 -rq1 +rq0 -rq0 +rq1 -rq1");
    assert_eq!(bench.kernel.current(CPUS[1]), task);
}

/// Each step happens at its own time, both in events and for programs.
#[test]
fn events_of_a_resumed_operation_have_the_later_time() {
    let mut bench = through_a_queue(2);
    let task = bench.task("a", "1");
    bench.collect();
    let mut output = Output::default();
    let mut seen = Vec::new();
    let mut progress = bench.kernel.begin(CPUS[0], wake(task));
    while let Progress::Waits(_) = progress {
        bench.pass(Nanos(100));
        // Another CPU runs an operation meanwhile.
        if !bench.kernel.is_waiting(CPUS[1]) {
            bench.kernel.begin(CPUS[1], Operation::Tick);
        } else if bench.kernel.may_resume(CPUS[1]) {
            finish(&mut bench, CPUS[1]);
        }
        bench.kernel.take_output(&mut output);
        seen.extend(output.events.iter().filter(|event| event.task == task).map(|event| (event.time, event.kind)));
        progress = bench.kernel.resume(CPUS[0]);
    }
    // The runqueue lock was acquired at 100 ns, the queue lock at 200 ns.
    assert!(
        matches!(seen[..], [(Nanos(100), EventKind::Wakeup { .. }), (Nanos(200), EventKind::Insert { .. })]),
        "{seen:?}"
    );
}

/// `set_current_state()`, a wakeup, `schedule()`: the task never sleeps.
#[test]
fn wakeup_before_block_keeps_the_task_runnable() {
    let mut bench = through_a_queue(2);
    let task = bench.task("a", "1");
    bench.wake(task);
    assert_eq!(bench.kernel.current(CPUS[1]), task);
    let sleep = Operation::Schedule(Leave::Block(BlockCause::Task));
    assert!(matches!(bench.kernel.begin(CPUS[1], sleep), Progress::Waits(Wait::Lock(_))));
    assert_eq!(bench.kernel.begin(CPUS[0], wake(task)), Progress::Done(None));
    let (_, switch) = finish(&mut bench, CPUS[1]);
    assert_eq!(switch.map(|switch| (switch.prev, switch.next)), Some((task, task)));
    bench.kernel.check();
}

/// A blocked task that is still on its CPU is woken once the CPU has switched.
#[test]
fn wakeup_of_a_task_still_on_cpu_waits_for_the_switch() {
    let mut bench = through_a_queue(3);
    let task = bench.task("a", "1");
    bench.wake(task);
    bench.kernel.stop_at(EVERYWHERE);
    let sleep = Operation::Schedule(Leave::Block(BlockCause::Task));
    let first = bench.kernel.begin(CPUS[1], sleep);
    up_to(&mut bench, CPUS[1], first, |wait| matches!(wait, Wait::Call(name) if name.starts_with("scx_bpf_dsq_move")));
    let first = bench.kernel.begin(CPUS[0], wake(task));
    let Progress::Waits(wait) = first else { panic!("{first:?}") };
    assert_eq!((text(&[wait]).as_str(), bench.kernel.may_resume(CPUS[0])), ("switch1", false));
    assert_eq!(bench.kernel.begin(CpuId(2), wake(task)), Progress::Done(None), "a wakeup is in progress already");
    let (_, switch) = finish(&mut bench, CPUS[1]);
    assert_eq!(switch.map(|switch| switch.next), Some(TaskId::NONE));
    finish(&mut bench, CPUS[0]);
    bench.kernel.check();
    bench.settle();
    assert_eq!(bench.kernel.current(CPUS[1]), task);
}

/// SCX_OPSS_QUEUEING: `enqueue` exposes the task to another CPU before it returns.
#[test]
fn dispatch_waits_for_the_enqueue_in_progress() {
    let enqueue = "ON_ENQUEUE=hold(p);counter+=bpf_get_smp_processor_id();";
    let dispatch = "ON_DISPATCH=struct task_struct*t=held_task();if(t){dsq_insert(t,LOCAL_ON(cpu),SCX_SLICE_DFL,0);bpf_task_release(t);}";
    let mut bench = Bench::probe(2, &["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", enqueue, dispatch]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.stop_at(EVERYWHERE);
    // Stops at the second call inside `enqueue`: the first one is the probe's own, for its log.
    let (mut progress, mut calls) = (bench.kernel.begin(CPUS[0], Operation::WakeNew(task)), 0);
    let is_counted = |wait: &Wait| *wait == Wait::Call("bpf_get_smp_processor_id".to_owned());
    while calls < 3 {
        let Progress::Waits(wait) = &progress else { panic!("the operation has finished") };
        calls += usize::from(is_counted(wait));
        if calls < 3 {
            progress = bench.kernel.resume(CPUS[0]);
        }
    }
    assert_eq!(bench.variable("held_count"), 1, "another CPU can see the held task");
    let mut progress = bench.kernel.begin(CPUS[1], Operation::Schedule(Leave::Preempt));
    let mut stops = Vec::new();
    while bench.kernel.may_resume(CPUS[1]) {
        let Progress::Waits(wait) = progress else { panic!("the operation has finished") };
        stops.push(wait);
        progress = bench.kernel.resume(CPUS[1]);
    }
    assert!(text(&stops).ends_with("-rq1"), "it released its runqueue lock to wait: {}", text(&stops));
    finish(&mut bench, CPUS[0]);
    let (_, switch) = finish(&mut bench, CPUS[1]);
    assert_eq!(switch.map(|switch| switch.next), Some(task), "the verdict was carried out");
    bench.kernel.check();
}

/// A CPU has picked no task and is about to idle when another CPU inserts a task into its local queue: it
/// reschedules.
#[test]
fn task_inserted_during_a_switch_to_idle_is_rescheduled() {
    let enqueue = "ON_ENQUEUE=hold(p);";
    let dispatch = "ON_DISPATCH=if(cpu==0){struct task_struct*t=held_task();if(t){dsq_insert(t,LOCAL_ON(1),SCX_SLICE_DFL,0);bpf_task_release(t);}}";
    let mut bench = Bench::probe(
        2,
        &["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_UPDATE_IDLE", "FLAGS=1", enqueue, dispatch],
    );
    let [first, second] = ["a", "b"].map(|name| bench.fork(name, "", Policy::Other, 0));
    bench.kernel.wake_new(CPUS[0], first);
    bench.kernel.schedule(CPUS[0], Leave::Preempt);
    bench.settle();
    assert_eq!(bench.kernel.current(CPUS[1]), first);
    bench.kernel.wake_new(CPUS[0], second);
    bench.collect();
    bench.kernel.stop_at(EVERYWHERE);
    let mut progress = bench.kernel.begin(CPUS[1], Operation::Schedule(Leave::Block(BlockCause::Task)));
    while bench.kernel.current(CPUS[1]) == first {
        assert!(matches!(progress, Progress::Waits(_)));
        progress = bench.kernel.resume(CPUS[1]);
    }
    assert_eq!(
        (bench.kernel.current(CPUS[1]), bench.kernel.is_waiting(CPUS[1])),
        (TaskId::NONE, true),
        "in update_idle"
    );
    bench.kernel.begin(CPUS[0], Operation::Schedule(Leave::Preempt));
    while bench.kernel.may_resume(CPUS[0]) {
        bench.kernel.resume(CPUS[0]);
    }
    finish(&mut bench, CPUS[1]);
    if bench.kernel.is_waiting(CPUS[0]) {
        finish(&mut bench, CPUS[0]);
    }
    bench.settle();
    bench.kernel.check();
    assert_eq!(bench.kernel.current(CPUS[1]), second);
}

/// The second of two operations causes an error while the first is in progress: the scheduler is disabled after both.
#[test]
fn error_disables_the_scheduler_after_all_operations() {
    let mut bench =
        Bench::probe(3, &["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "ON_ENQUEUE=dsq_insert(p,99,1,0);"]);
    let tasks = ["1", "2"].map(|cpu| bench.fork(cpu, cpu, Policy::Other, 0));
    bench.kernel.stop_at(EVERYWHERE);
    for (cpu, task) in CPUS.into_iter().zip(tasks) {
        bench.kernel.begin(cpu, Operation::WakeNew(task));
    }
    finish(&mut bench, CPUS[1]);
    assert!(bench.kernel.is_disable_pending() && bench.kernel.exit_info().is_none());
    bench.kernel.finish_operations();
    assert_eq!(bench.error(), (1024, "non-existent DSQ 0x63"));
    bench.settle();
    bench.kernel.check();
    assert_eq!(
        tasks.map(|task| bench.kernel.current(bench.kernel.task_cpu(task))),
        tasks,
        "the fair class runs the tasks"
    );
}
