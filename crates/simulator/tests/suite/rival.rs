// SPDX-License-Identifier: GPL-2.0-only
//! Ten properties that are easy to get wrong. Each was found violated in another scheduler simulator that is in use;
//! the workloads resemble those that demonstrated it.

use crate::common::{Played, Scheduler, free_machine, rt_app};
use event_log::{BlockCause, Event, EventKind, SwitchReason};
use ids::{CpuId, CpuSet, Nanos, TaskId};
use machine_model::Machine;

const MS: u64 = 1_000_000;

/// Three tasks pinned to CPU 1, three unrestricted.
const AFFINITY: &str = r#"{"global": {"duration": 1}, "tasks": {
    "pinned1": {"instance": 3, "loop": -1, "cpus": [1], "run": 5000, "sleep": 1000},
    "free": {"instance": 3, "loop": -1, "run": 5000, "sleep": 1000}}}"#;

/// (1) By whatever path a task gets to a CPU, it is an allowed one (checked by the sink of every run), and all tasks
///     make progress.
#[test]
fn affinity_is_respected_on_every_dispatch_path() {
    for machine in [free_machine("core:2 pu:1"), Machine::preset("desktop-4c").unwrap().without_effects()] {
        for way in 0..5 {
            let scheduler = Scheduler::compiled("paths", &format!("way = {way}"));
            let played = scheduler.play(&machine, &rt_app(AFFINITY)).completed();
            for task in played.outcome.measures.tasks.iter().filter(|task| !task.kernel_thread) {
                let (used, name) = (&task.cpus_used, &task.name);
                assert!(task.account.work > Nanos(100 * MS), "way {way}: {name} did {} of work", task.account.work);
                assert_eq!(
                    name.starts_with("pinned1"),
                    *used == CpuSet::from_iter([CpuId(1)]),
                    "way {way}: {name} {used}"
                );
            }
        }
    }
}

/// Property 1 while running tasks change their own affinity.
#[test]
fn affinity_is_respected_while_it_changes() {
    let phases = r#"{"global": {"duration": 1}, "tasks": {
        "hog": {"instance": 3, "loop": -1, "run": 7000},
        "nomad": {"instance": 2, "loop": -1, "phases": {
            "a": {"cpus": [0], "run": 3000}, "b": {"cpus": [2, 3], "run": 3000, "sleep": 100},
            "c": {"cpus": [1], "run": 1000}, "d": {"cpus": [0, 1, 2, 3], "run": 500}}}}}"#;
    for way in 0..5 {
        let scheduler = Scheduler::compiled("paths", &format!("way = {way}"));
        let played = scheduler.play(&free_machine("core:4 pu:1"), &rt_app(phases)).completed();
        let nomads = played.outcome.measures.tasks.iter().filter(|task| task.name.starts_with("nomad"));
        for nomad in nomads {
            assert!(nomad.account.work > Nanos(50 * MS), "way {way}: {:?}", nomad.account);
            assert!(nomad.cpus_used.len() >= 3, "way {way}: {}", nomad.cpus_used);
        }
    }
}

/// Time that each task ran between two sleeps.
fn jobs(played: &Played) -> Vec<(TaskId, Nanos)> {
    let tasks = played.outcome.measures.tasks.len();
    let (mut since, mut ran) = (vec![Nanos::ZERO; tasks], vec![Nanos::ZERO; tasks]);
    let mut jobs = Vec::new();
    for event in &played.events {
        match event.kind {
            EventKind::Switch { prev, .. } => {
                if let Some(prev) = prev.some() {
                    ran[prev.index()] += event.time - since[prev.index()];
                }
                if let Some(next) = event.task.some() {
                    since[next.index()] = event.time;
                }
            }
            EventKind::Block { cause: BlockCause::Timer } => {
                let task = event.task.index();
                jobs.push((event.task, ran[task] + (event.time - since[task])));
                (since[task], ran[task]) = (event.time, Nanos::ZERO);
            }
            _ => {}
        }
    }
    jobs
}

/// (2) However often a task is preempted, each of its jobs gets the requested work, to the nanosecond.
#[test]
fn work_is_conserved_under_preemption() {
    let mix = rt_app(
        r#"{"global": {"duration": 5}, "tasks": {
            "long": {"instance": 8, "loop": -1, "run": 20000, "sleep": 5000},
            "short": {"instance": 8, "loop": -1, "priority": -10, "run": 200, "sleep": 3000}}}"#,
    );
    let scheduler = Scheduler::compiled("preempt", "");
    let played = scheduler.play(&free_machine("core:4 pu:1"), &mix).completed();
    assert!(played.count(SwitchReason::Preempt) > 1_000, "{} preemptions", played.count(SwitchReason::Preempt));
    let jobs = jobs(&played);
    assert!(jobs.len() > 8_000, "{} jobs", jobs.len());
    for (task, ran) in jobs {
        let long = played.outcome.measures.tasks[task.index()].name.starts_with("long");
        assert_eq!(ran, if long { Nanos(20 * MS) } else { Nanos(MS / 5) }, "task {task}");
    }
    // With costs a job takes longer; that it does exactly its work is asserted by the run itself.
    let played = scheduler.play(&Machine::preset("desktop-4c").unwrap().without_effects(), &mix).completed();
    assert!(played.outcome.measures.cpu.scheduler > Nanos(MS));
}

/// (3) Each task has its own record in task storage, however many there are.
#[test]
fn task_storage_is_per_task() {
    let many = r#"{"global": {"duration": 1}, "tasks": {"periodic": {"instance": 256, "loop": -1, "run": 10000, "sleep": 10000}}}"#;
    let scheduler = Scheduler::compiled("storage", "");
    let played = scheduler.play(&Machine::preset("server-64").unwrap().without_effects(), &rt_app(many)).completed();
    assert!(played.outcome.measures.wakeups > 5_000);
}

const PINGPONG: &str = r#"{"global": {"duration": 1}, "tasks": {
    "ping": {"loop": -1, "run": 100, "resume": "pong", "suspend": "ping"},
    "pong": {"loop": -1, "run": 100, "resume": "ping", "suspend": "pong"}}}"#;

/// (4) Maps belong to a run: they do not depend on the host thread that executes it, or on concurrent runs.
#[test]
fn maps_are_independent_of_host_thread_and_concurrent_runs() {
    let scheduler = Scheduler::compiled("storage", "");
    let machine = Machine::preset("desktop-4c").unwrap().without_effects();
    let workload = rt_app(PINGPONG);
    let alone = scheduler.play(&machine, &workload).completed();
    assert!(alone.outcome.measures.wakeups > 1_000);
    std::thread::scope(|scope| {
        let play = || scheduler.play(&machine, &workload).completed().outcome;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(play)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), alone.outcome);
        }
    });
}

/// (5) Everything that one dispatch call inserts is there afterwards.
#[test]
fn dispatch_of_a_batch_inserts_all_tasks() {
    let many = rt_app(
        r#"{"global": {"duration": 20}, "tasks": {"periodic": {"instance": 32, "loop": -1, "run": 10000, "sleep": 10000}}}"#,
    );
    let work = |batch: u32| {
        let scheduler = Scheduler::compiled("batch", &format!("batch = {batch}"));
        let measures = scheduler.play(&free_machine("core:4 pu:1"), &many).completed().outcome.measures;
        let tasks = measures.tasks.iter().filter(|task| !task.kernel_thread);
        assert!(tasks.map(|task| task.account.work).min().unwrap() > Nanos(2_000 * MS));
        measures.cpu.run
    };
    assert_eq!([work(1), work(4), work(32)], [Nanos(80_000 * MS); 3], "four busy CPUs");
}

/// 300 tasks for 512 CPUs. They start after the attach, which reschedules every CPU once.
const FEW_TASKS: &str = r#"{"global": {"duration": 1},
    "tasks": {"p": {"instance": 300, "delay": 1000, "loop": -1, "run": 10000, "sleep": 10000}}}"#;

/// (6) An idle CPU that is neither kicked nor selected does not look for work. So a missing kick shows up as idle
///     time while tasks wait.
#[test]
fn idle_cpu_without_kick_stays_idle() {
    let machine = Machine::preset("server-512").unwrap().without_effects();
    let workload = rt_app(FEW_TASKS);
    let lazy = Scheduler::compiled("nokick", "kick = false").play(&machine, &workload).completed();
    assert_eq!(lazy.cpus_used().to_string(), "0");
    assert!(lazy.outcome.measures.idle_while_runnable > Nanos(990 * MS));
    for (cpu, account) in lazy.outcome.measures.cpus.iter().enumerate().skip(1) {
        assert_eq!(account.run, Nanos::ZERO, "CPU {cpu}");
    }
    let kicking = Scheduler::compiled("nokick", "kick = true").play(&machine, &workload).completed();
    assert!(kicking.cpus_used().len() >= 300, "{}", kicking.cpus_used());
    assert!(kicking.outcome.measures.idle_while_runnable < Nanos(100 * MS));
}

/// (7) Every CPU is used, including those with large numbers.
#[test]
fn all_512_cpus_are_used() {
    let machine = Machine::preset("server-512").unwrap().without_effects();
    let workload = rt_app(&FEW_TASKS.replace("300", "1100"));
    let played = Scheduler::shipped("fifo").play(&machine, &workload).completed();
    assert_eq!(played.cpus_used().to_string(), "0-511");
}

/// Six tasks run for 20 ms, as long as a slice, and sleep for 5 ms.
const SLICES: &str =
    r#"{"global": {"duration": 2}, "tasks": {"long": {"instance": 6, "loop": -1, "run": 20000, "sleep": 5000}}}"#;

/// (8) A scheduler that asks for the time gets the time at which it is called, on every CPU and clock.
#[test]
fn scheduler_clock_is_never_stale() {
    for machine in [free_machine("core:4 pu:1"), Machine::preset("desktop-4c").unwrap().without_effects()] {
        let played = Scheduler::compiled("clock", "").play(&machine, &rt_app(SLICES)).completed();
        let is_insert = |event: &&Event| matches!(event.kind, EventKind::Insert { key, .. } if key != 0);
        let inserts: Vec<&Event> = played.events.iter().filter(is_insert).collect();
        assert!(inserts.len() > 150, "{} inserts", inserts.len());
        for insert in inserts {
            let EventKind::Insert { key, .. } = insert.kind else { unreachable!() };
            assert_eq!(Nanos(key), insert.time + simulator::UPTIME);
        }
    }
}

/// (9) A task that needs exactly its slice is not preempted at its end.
#[test]
fn slice_equal_to_the_work_causes_no_extra_switch() {
    let played = Scheduler::shipped("fifo").play(&free_machine("core:4 pu:1"), &rt_app(SLICES)).completed();
    assert_eq!(played.count(SwitchReason::SliceEnd) + played.count(SwitchReason::Preempt), 0);
    let jobs = jobs(&played);
    assert!(jobs.len() > 300 && jobs.iter().all(|&(_, ran)| ran == Nanos(20 * MS)), "{} jobs", jobs.len());
}

/// (10) A mistake ends the scheduler, with the kernel's exit kind and message, unless it cannot be noticed.
#[test]
fn scheduler_errors_are_never_ignored() {
    let hogs = r#"{"global": {"duration": 60}, "tasks": {
        "pinned": {"instance": 3, "loop": -1, "cpus": [0], "run": 3000, "sleep": 1000},
        "free": {"instance": 6, "loop": -1, "run": 3000, "sleep": 1000}}}"#;
    let expected = [
        (0, 1025, "wakeup 100 is one too many"),
        (1, 1024, "already direct-dispatched"),
        (2, 1024, "0x8"),
        (3, 1024, "SCX_DSQ_LOCAL"),
        (4, 1024, "BPF fault in ops.enqueue()"),
        (5, 1024, "BPF fault in ops.enqueue()"),
        (6, 1026, "failed to run for"),
    ];
    for (mistake, kind, message) in expected {
        let scheduler = Scheduler::compiled("broken", &format!("mistake = {mistake}"));
        let played = scheduler.play(&free_machine("core:4 pu:1"), &rt_app(hogs));
        let ejected = played.outcome.ejected.unwrap_or_else(|| panic!("mistake {mistake} is ignored"));
        assert_eq!(ejected.kind, kind, "mistake {mistake}: {ejected:?}");
        assert!(ejected.message.contains(message), "mistake {mistake}: {ejected:?}");
        assert_eq!(ejected.fault.is_some(), message.starts_with("BPF fault"), "mistake {mistake}");
        assert!(played.outcome.measures.elapsed < Nanos(10_000 * MS));
    }
    let scheduler = Scheduler::compiled("broken", "mistake = 7");
    let forks = r#"{"global": {"duration": 2}, "tasks": {
        "parent": {"loop": 20, "run": 3000, "sleep": 8000, "fork": "child"},
        "child": {"instance": 0, "loop": 10, "run": 3000, "sleep": 1},
        "free": {"instance": 8, "loop": -1, "run": 3000, "sleep": 1000}}}"#;
    let played = scheduler.play(&free_machine("core:4 pu:1"), &rt_app(forks)).completed();
    assert!(played.outcome.failed_forks > 0);
}
