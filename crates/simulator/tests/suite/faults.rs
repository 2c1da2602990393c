// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug, suspend and clock faults while tasks run: no task is lost, and all time is accounted.

use crate::common::{Played, Scheduler, free_machine, rt_app};
use event_log::{Event, EventKind, Waker};
use fault_plan::FaultPlan;
use ids::{CpuId, Nanos, TaskId};
use machine_model::Machine;
use simulator::SetupError;
use workload::Workload;

const BUILD: &[u8] = include_bytes!("../../../../workloads/recorded/build.weir");

fn plan(line: &str) -> FaultPlan {
    line.parse().unwrap()
}

fn build() -> Workload {
    Workload::from_bytes("build", BUILD).unwrap()
}

/// Offline time of a CPU until `end`, from its events.
fn offline(events: &[Event], cpu: u32, end: Nanos) -> Nanos {
    let (mut since, mut total) = (None, Nanos::ZERO);
    for event in events.iter().filter(|event| event.cpu == CpuId(cpu)) {
        match event.kind {
            EventKind::Hotplug { online: false } => since = Some(event.time),
            EventKind::Hotplug { online: true } => total += event.time - since.take().expect("the CPU was offline"),
            _ => {}
        }
    }
    total + since.map_or(Nanos::ZERO, |since| end - since)
}

/// Checks the accounts of CPUs against the events; `slept` is the suspended time of the whole machine.
fn check_accounts(played: &Played, slept: Nanos) {
    let measures = &played.outcome.measures;
    for (cpu, account) in measures.cpus.iter().enumerate() {
        let stopped = if cpu == 0 { slept } else { offline(&played.events, cpu as u32, measures.elapsed) };
        assert_eq!(account.offline, stopped, "CPU {cpu}");
        let sum = account.run + account.idle + account.scheduler + account.stolen + account.offline;
        assert_eq!(sum, measures.elapsed, "CPU {cpu}");
    }
}

#[test]
fn build_completes_under_cpu_hotplug() {
    let machine = Machine::preset("desktop-4c").unwrap().without_effects();
    let workload = build();
    let faults = plan("cpu3:offline@1s,cpu1-2:offline@2s,cpu2:online@3s,cpu3:online@3500ms,cpu1:online@5s");
    // fifo does not handle hotplug and is restarted. CPU 2 goes offline before the loader has noticed that CPU 1 did,
    // so both cause one restart.
    for (name, restarts) in [("fifo", 5), ("bfs", 0)] {
        let played = Scheduler::shipped(name).play_faults(&machine, &workload, 0, &faults).completed();
        assert!(played.outcome.measures.makespan.is_some(), "{name}: every task ends");
        assert_eq!(played.outcome.restarts.len(), restarts, "{name}");
        check_accounts(&played, Nanos::ZERO);
        let again = Scheduler::shipped(name).play_faults(&machine, &workload, 0, &faults);
        assert_eq!(again.outcome, played.outcome, "{name}: same plan, same bytes");
    }
}

#[test]
fn machine_boots_with_offline_cpus() {
    let mut machine = Machine::preset("desktop-4c").unwrap().without_effects();
    machine.offline = [CpuId(1)].into_iter().collect();
    let workload = build();
    let never = FaultPlan::default();
    for name in ["fifo", "bfs"] {
        let played = Scheduler::shipped(name).play_faults(&machine, &workload, 0, &never).completed();
        let measures = &played.outcome.measures;
        assert!(measures.makespan.is_some() && played.outcome.restarts.is_empty(), "{name}");
        assert_eq!(measures.cpus[1].offline, measures.elapsed, "{name}");
        assert!(measures.tasks.iter().all(|task| !task.cpus_used.contains(CpuId(1))), "{name}");
        assert!(measures.cpus.iter().filter(|cpu| cpu.run > Nanos::from_secs(1)).count() == 3, "{name}");
        check_accounts(&played, Nanos::ZERO);
        // bfs has cpu_online, but its tables do not contain this CPU.
        let late = plan("cpu1:online@1s");
        let played = Scheduler::shipped(name).play_faults(&machine, &workload, 0, &late).completed();
        assert_eq!(played.outcome.restarts.len(), 1, "{name}");
        assert!(played.outcome.measures.tasks.iter().any(|task| task.cpus_used.contains(CpuId(1))), "{name}");
        check_accounts(&played, Nanos::ZERO);
    }
    machine.offline = [CpuId(0)].into_iter().collect();
    let refused = Scheduler::shipped("fifo").refused(&machine, &workload, &never);
    let SetupError::Machine(problem) = refused else { panic!("{refused:?}") };
    assert_eq!(problem, "desktop-4c: CPU 0 is offline, but simulated machines boot on it");
}

/// Alternates between 10 ms of sleep and 1 ms of work, on a machine where nothing costs time.
const SLEEPER: &str = r#"{"global": {"duration": 2}, "tasks": {"s": {"loop": -1, "sleep": 10000, "run": 1000}}}"#;

/// Times in milliseconds at which a task was woken by its timer.
fn timer_wakeups(played: &Played) -> Vec<u64> {
    let timer = |event: &&Event| matches!(event.kind, EventKind::Wakeup { waker: Waker::Timer, .. });
    played.events.iter().filter(timer).map(|event| event.time.0 / 1_000_000).collect()
}

#[test]
fn timers_stop_during_suspend() {
    let machine = free_machine("core:3 pu:1");
    let workload = rt_app(SLEEPER);
    let awake = timer_wakeups(&Scheduler::shipped("bfs").play(&machine, &workload).completed());
    let played = Scheduler::shipped("bfs").play_faults(&machine, &workload, 0, &plan("suspend@100ms+1s")).completed();
    let slept = timer_wakeups(&played);
    let before = awake.iter().take_while(|&&time| time < 100).count();
    assert_eq!(slept[..before], awake[..before]);
    // Freezing and taking the CPUs offline took 24 ms on the kernel's clock, in which one timer expired.
    assert!(slept[before] >= 1_124 && slept[before] <= 1_125, "{slept:?}");
    assert!(slept[before..].windows(2).all(|pair| pair[1] - pair[0] == 11), "{slept:?}");
    check_accounts(&played, Nanos::from_secs(1));
    assert_eq!(played.outcome.restarts, []);
}

#[test]
fn task_due_during_suspend_starts_after_resume() {
    let work =
        rt_app(r#"{"tasks": {"first": {"loop": 1, "run": 1000}, "late": {"delay": 500000, "loop": 1, "run": 1000}}}"#);
    let machine = free_machine("core:2 pu:1");
    let played = Scheduler::shipped("bfs").play_faults(&machine, &work, 0, &plan("suspend@100ms+1s")).completed();
    assert_eq!(played.outcome.measures.makespan, Some(Nanos::from_ms(1_501)));
}

#[test]
fn ticks_keep_the_grid_of_the_kernel_clock_across_suspend() {
    // With a single CPU no CPU goes offline, so this scheduler, which counts ticks, stays attached.
    let (machine, sleep) = (free_machine("core:1 pu:1"), Nanos(1_234_567));
    let work = rt_app(r#"{"tasks": {"hog": {"loop": 1, "run": 300000}}}"#);
    let faults = plan("suspend@50ms+1234567ns");
    let played = Scheduler::compiled("clock", "").play_faults(&machine, &work, 0, &faults).completed();
    let ticks = played.events.iter().filter(|event| matches!(event.kind, EventKind::Tick)).map(|event| event.time);
    let (before, after): (Vec<Nanos>, Vec<Nanos>) = ticks.partition(|&time| time < Nanos::from_ms(50));
    let period = Nanos::from_ms(4).0;
    assert!(before.len() > 10 && before.iter().all(|time| time.0 % period == 0), "{before:?}");
    assert!(after.len() > 50 && after.iter().all(|time| (*time - sleep).0 % period == 0), "{after:?}");
}

#[test]
fn idle_cpu_without_no_hz_ticks_while_online() {
    let mut machine = free_machine("core:3 pu:1");
    (machine.no_hz_idle, machine.costs.tick_ns) = (false, 1_000);
    let faults = plan("cpu2:offline@500ms,cpu2:online@1200ms,suspend@1500ms+200ms");
    let played = Scheduler::shipped("bfs").play_faults(&machine, &rt_app(SLEEPER), 0, &faults).completed();
    let measures = &played.outcome.measures;
    for (cpu, account) in measures.cpus.iter().enumerate() {
        let ticks = (measures.elapsed - account.offline).0 / Nanos::from_ms(4).0;
        let counted = account.stolen.0 / machine.costs.tick_ns;
        assert!(counted.abs_diff(ticks) <= 2, "CPU {cpu}: {counted}, expected {ticks}");
    }
    check_accounts(&played, Nanos::from_ms(200));
}

#[test]
fn timers_of_an_offline_cpu_move_to_the_boot_cpu() {
    // The task sleeps on CPU 2 for longer than it takes the CPU to go offline.
    let machine = free_machine("core:3 pu:1");
    let work = rt_app(r#"{"tasks": {"t": {"cpus": [2], "loop": 1, "run": 1000, "sleep": 100000}}}"#);
    let played = Scheduler::shipped("bfs").play_faults(&machine, &work, 0, &plan("cpu2:offline@40ms")).completed();
    let timer = |event: &&Event| matches!(event.kind, EventKind::Wakeup { waker: Waker::Timer, .. });
    let woken: Vec<_> = played.events.iter().filter(timer).map(|event| (event.cpu, event.time)).collect();
    assert_eq!(woken, [(CpuId(0), Nanos::from_ms(101))]);
    // The watchdog's worker finds CPU 0 busy, and sets its timer on CPU 1 after 15 s. If that timer were lost, the
    // watchdog would be found late 30 s later.
    let machine = free_machine("core:2 pu:1");
    let work = rt_app(r#"{"global": {"duration": 60}, "tasks": {"hog": {"cpus": [0], "loop": -1, "run": 1000000}}}"#);
    let played = Scheduler::shipped("bfs").play_faults(&machine, &work, 0, &plan("cpu1:offline@20s")).completed();
    assert_eq!(played.outcome.ejected, None);
}

#[test]
fn working_tasks_continue_after_suspend() {
    let mut machine = Machine::preset("desktop-4c").unwrap().without_effects();
    let work = r#"{"global": {"duration": 9}, "tasks": {
        "hog": {"instance": 9, "loop": 1, "run": 700000},
        "light": {"instance": 5, "loop": 200, "run": 100, "sleep": 5000}}}"#;
    for (name, no_hz) in [("fifo", true), ("bfs", true), ("bfs", false)] {
        machine.no_hz_idle = no_hz;
        let plan = plan("cpu2:offline@50ms,suspend@300ms+123456789ns,cpu2:online@600ms,suspend@900ms+2s");
        let played = Scheduler::shipped(name).play_faults(&machine, &rt_app(work), 0, &plan).completed();
        assert!(played.outcome.measures.makespan.is_some(), "{name}: every task ends");
        check_accounts(&played, Nanos(2_123_456_789));
        for task in played.outcome.measures.tasks.iter().filter(|task| task.name.starts_with("hog")) {
            assert_eq!(task.account.work, Nanos::from_ms(700), "{name}");
        }
    }
}

#[test]
fn suspend_longer_than_the_watchdog_timeout_is_no_stall() {
    // The watchdog's worker does not run for 35 s, while the timeout is 30 s: the first tick after the suspend would
    // notice. (No runnable task waits across a suspend: it is frozen when it gets a CPU.)
    let machine = free_machine("core:2 pu:1");
    let work = rt_app(
        r#"{"global": {"duration": 40}, "tasks": {
            "hog": {"instance": 3, "loop": -1, "run": 1000000}, "sleeper": {"loop": -1, "sleep": 15000000, "run": 100}}}"#,
    );
    let played = Scheduler::shipped("bfs").play_faults(&machine, &work, 0, &plan("suspend@1s+35s"));
    assert_eq!(played.outcome.ejected, None);
    check_accounts(&played, Nanos::from_secs(35));
}

/// `cpuhp/2` executes one step per wakeup: the CPU accepts no more tasks, the scheduler is notified, tasks are
/// accepted again. It waits in `fifo`'s queue as any task, until only kthreads of that CPU may run there: from then
/// on it gets the CPU at once.
#[test]
fn hotplug_kthread_is_scheduled_by_the_scheduler() {
    let machine = free_machine("core:3 pu:1");
    let work = rt_app(r#"{"tasks": {"hog": {"instance": 6, "loop": 1, "run": 300000}}}"#);
    let faults = plan("cpu2:offline@103ms,cpu2:online@400ms");
    let played = Scheduler::shipped("fifo").play_faults(&machine, &work, 0, &faults).completed();
    let tasks = &played.outcome.measures.tasks;
    let thread = tasks.iter().find(|task| task.name == "cpuhp/2").expect("each CPU has a hotplug kthread");
    assert_eq!((thread.cpus_used.to_string(), thread.account.work), ("2".to_owned(), Nanos::from_us(3 * 20)));
    let events = || played.events.iter().filter(|event| event.cpu == CpuId(2) || event.task == thread.id);
    let times = |wanted: fn(&EventKind) -> bool, task| {
        let chosen = events().filter(|event| event.task == task && event.time > Nanos::ZERO && wanted(&event.kind));
        chosen.map(|event| event.time).collect::<Vec<_>>()
    };
    let woken = times(|kind| matches!(kind, EventKind::Wakeup { .. }), thread.id);
    let runs = times(|kind| matches!(kind, EventKind::Switch { .. }), thread.id);
    let stops = times(|kind| matches!(kind, EventKind::Hotplug { .. }), TaskId::NONE);
    let waits: Vec<u64> = woken.iter().zip(&runs).map(|(woken, runs)| (*runs - *woken).0 / 1_000_000).collect();
    assert_eq!((woken.len(), runs.len(), stops.len()), (3, 3, 2));
    assert!(woken[0] == Nanos::from_ms(103) && waits[0] >= 17, "after at least one hog: {waits:?}");
    assert_eq!(waits[1..], [0, 0], "no other task may run there");
    assert!(stops[0] > runs[1] && stops[0] < Nanos::from_ms(400) && stops[1] <= woken[2]);
    let others = events().filter(|event| {
        matches!(event.kind, EventKind::Switch { .. }) && event.task != TaskId::NONE && event.task != thread.id
    });
    assert!(others.clone().any(|event| event.time < runs[0]) && others.clone().any(|event| event.time > runs[2]));
    assert!(
        !others.clone().any(|event| event.time > stops[0] && event.time < runs[2]),
        "tasks are accepted after its last step"
    );
    check_accounts(&played, Nanos::ZERO);
}

#[test]
fn pinned_task_runs_elsewhere_when_its_cpu_goes_offline() {
    let machine = free_machine("core:3 pu:1");
    let work = rt_app(
        r#"{"tasks": {
            "pinned": {"cpus": [2], "loop": 30, "run": 3000, "sleep": 2000},
            "hog": {"cpus": [2], "loop": 1, "run": 200000}}}"#,
    );
    let played = Scheduler::shipped("bfs").play_faults(&machine, &work, 0, &plan("cpu2:offline@40ms")).completed();
    for task in played.outcome.measures.tasks.iter().filter(|task| !task.kernel_thread) {
        assert_eq!(task.cpus_allowed.to_string(), "0-2", "{}: no allowed CPU remains", task.name);
        assert!(task.cpus_used.contains(CpuId(2)) && task.cpus_used.len() > 1, "{}", task.name);
    }
    check_accounts(&played, Nanos::ZERO);
}

#[test]
fn faults_happen_one_at_a_time_and_may_outlast_the_workload() {
    let machine = free_machine("core:4 pu:1");
    let work = rt_app(r#"{"tasks": {"t": {"loop": 1, "run": 50000}}}"#);
    let at_once = plan("cpu1-3:offline@10ms,cpu1:online@10ms,cpu3:online@9s");
    let played = Scheduler::shipped("bfs").play_faults(&machine, &work, 0, &at_once).completed();
    let hotplug = |event: &&Event| matches!(event.kind, EventKind::Hotplug { .. });
    let times: Vec<(u32, u64)> =
        played.events.iter().filter(hotplug).map(|event| (event.cpu.0, event.time.0 / 1_000_000)).collect();
    assert_eq!(times, [(1, 22), (2, 34), (3, 46), (1, 46)]);
    assert_eq!(played.outcome.measures.makespan, Some(Nanos::from_ms(50)));
}

#[test]
fn fault_plan_for_missing_cpus_is_refused() {
    let error = std::panic::catch_unwind(|| {
        let (machine, work) = (free_machine("core:2 pu:1"), rt_app(SLEEPER));
        Scheduler::shipped("bfs").refused(&machine, &work, &plan("cpu2:offline@1s"))
    });
    let SetupError::Faults(error) = error.unwrap() else { panic!("another error") };
    assert!(error.to_string().ends_with("has CPUs 0-1 and no CPU 2"), "{error}");
}

/// A run with all faults, with a recorded hash; see `timelines.rs` for why the object is a fixture.
#[test]
fn run_hash_with_faults_is_the_same_on_every_host() {
    let scheduler = Scheduler::from_bytes("preempt", include_bytes!("../fixtures/preempt.bpf.o"));
    let work = rt_app(
        r#"{"global": {"duration": 3}, "tasks": {
            "hog": {"instance": 5, "loop": -1, "run": 70000, "sleep": 300},
            "pinned": {"cpus": [3], "loop": -1, "run": 900, "sleep": 700},
            "light": {"instance": 6, "loop": -1, "run": 200, "sleep": 3000}}}"#,
    );
    let faults = plan("cpu3:offline@200ms,cpu1:offline@500ms,suspend@700ms+1s,cpu1:online@2s,cpu3:online@2500ms");
    let played = scheduler
        .play_faults(&Machine::preset("laptop-2c4t").unwrap().without_effects(), &work, 0, &faults)
        .completed();
    check_accounts(&played, Nanos::from_secs(1));
    assert!(!played.outcome.restarts.is_empty(), "the kernel's own classes schedule the tasks meanwhile");
    expect_test::expect!["262e370be01735a768f6b26b46d0549c"].assert_eq(&format!("{:032x}", played.outcome.log_hash));
}

/// Two hogs on CPU 1 with slices of 20 ms, which end at ticks of 4 ms. On a clock that is 50 % fast they end after
/// 13.3 ms, so at 16 ms; a clock that steps forward ends the running slice at the next tick, and no other.
#[test]
fn wrong_clock_ends_slices_at_the_wrong_time() {
    let mut machine = free_machine("core:2 pu:1");
    machine.hz = 250;
    let work = rt_app(
        r#"{"global": {"duration": 1}, "tasks": {"hog": {"instance": 2, "loop": -1, "cpus": [1], "run": 1000000}}}"#,
    );
    let switches = |faults: &FaultPlan| {
        let played = Scheduler::shipped("fifo").play_faults(&machine, &work, 0, faults).completed();
        check_accounts(&played, Nanos::ZERO);
        let of_cpu = |event: &&Event| event.cpu == CpuId(1) && matches!(event.kind, EventKind::Switch { .. });
        played.events.iter().filter(of_cpu).map(|event| event.time.0 / 1_000_000).collect::<Vec<u64>>()
    };
    let right = switches(&FaultPlan::default());
    assert!((49..=52).contains(&right.len()), "{right:?}");
    assert_eq!(
        switches(&plan("cpu0:drift+500000ppm@0s,cpu0:clock+1s@100ms")),
        right,
        "another CPU's clock is nothing to it"
    );
    let fast = switches(&plan("cpu1:drift+500000ppm@0s"));
    assert!((61..=65).contains(&fast.len()), "{fast:?}");
    let stepped = switches(&plan("cpu1:clock+1s@502ms"));
    assert_eq!(stepped.len(), right.len() + 1, "{stepped:?}");
    let odd: Vec<u64> = stepped.windows(2).map(|pair| pair[1] - pair[0]).filter(|&slice| slice != 20).collect();
    assert!(odd.len() <= 2 && odd.iter().any(|&slice| slice < 20), "{odd:?} of {stepped:?}");
    // A step back lengthens a slice.
    let back = switches(&plan("cpu1:clock-100ms@502ms"));
    assert!(back.windows(2).any(|pair| pair[1] - pair[0] > 20), "{back:?}");
}
