// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers attached or detached during a run: the kernel bypasses them for a while (contract B1, X1).

use crate::common::{BYPASS, Played, Scheduler, bypass_machine, hogs};
use event_log::{Event, EventKind};
use fault_plan::FaultPlan;
use ids::{CpuId, Nanos};

const TICK: Nanos = Nanos::from_ms(4);

/// Whether a callback of the scheduler caused this event.
fn decides(event: &Event) -> bool {
    event.site.op != 0
}

/// Time of the only event of this kind.
fn time_of(played: &Played, kind: impl Fn(&EventKind) -> bool) -> Nanos {
    let times: Vec<Nanos> = played.events.iter().filter(|event| kind(&event.kind)).map(|event| event.time).collect();
    assert_eq!(times.len(), 1, "{times:?}");
    times[0]
}

/// Checks the rules of bypass from `begin` to `begin + BYPASS`: tasks are switched at every tick, and the scheduler
/// is not called.
fn check_bypass(played: &Played, begin: Nanos, cpus: u32) {
    let within = |event: &&Event| event.time > begin && event.time < begin + BYPASS;
    let events: Vec<&Event> = played.events.iter().filter(within).collect();
    assert!(!events.iter().any(|event| decides(event)));
    for cpu in (0..cpus).map(CpuId) {
        let switch = |event: &&&Event| event.cpu == cpu && matches!(event.kind, EventKind::Switch { .. });
        let times: Vec<Nanos> = events.iter().filter(switch).map(|event| event.time).collect();
        assert!(times.len() >= 5 && times.iter().all(|time| time.0.is_multiple_of(TICK.0)), "CPU {cpu}: {times:?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == TICK), "CPU {cpu}: {times:?}");
    }
}

#[test]
fn b1_ejected_scheduler_is_bypassed_until_disabled() {
    let played = Scheduler::compiled("broken", "mistake = 0").play(&bypass_machine(1), &hogs(3));
    let exit = played.outcome.ejected.clone().expect("the mistake ejects the scheduler");
    assert_eq!((exit.kind, exit.message.as_str()), (1025, "wakeup 100 is one too many"));
    let gone = time_of(&played, |kind| matches!(kind, EventKind::Disabled { kind: 1025 }));
    assert_eq!(played.outcome.measures.elapsed, gone);
    check_bypass(&played, gone - BYPASS, 1);
    let last = played.events.iter().rfind(|event| decides(event)).expect("the scheduler made decisions");
    assert!(last.time <= gone - BYPASS, "no callback after the mistake");
}

#[test]
fn b1_run_ending_during_disable_reports_the_exit() {
    let (machine, mut workload) = (bypass_machine(1), hogs(3));
    let broken = Scheduler::compiled("broken", "mistake = 0");
    let whole = broken.play(&machine, &workload);
    workload.duration = Some(whole.outcome.measures.elapsed - Nanos::from_ms(10));
    let cut = broken.play(&machine, &workload);
    assert_eq!(cut.outcome.ejected, whole.outcome.ejected);
    assert_eq!(Some(cut.outcome.measures.elapsed), workload.duration);
    // If the run ends just before the error, the outcome has no exit.
    workload.duration = Some(whole.outcome.measures.elapsed - BYPASS - Nanos(1));
    assert_eq!(broken.play(&machine, &workload).outcome.ejected, None);
}

#[test]
fn b1_restarted_scheduler_is_bypassed_until_attached() {
    let plan: FaultPlan = "cpu2:offline@100ms".parse().unwrap();
    let played = Scheduler::shipped("fifo").play_faults(&bypass_machine(3), &hogs(5), 0, &plan).completed();
    assert_eq!(played.outcome.restarts.len(), 1);
    let gone = time_of(&played, |kind| matches!(kind, EventKind::Disabled { .. }));
    // The first attach was before the tasks started, so its event is skipped.
    let attached = |event: &&Event| event.kind == EventKind::Attached && event.time > Nanos::ZERO;
    let attached: Vec<Nanos> = played.events.iter().filter(attached).map(|event| event.time).collect();
    assert_eq!(attached, [gone + Nanos::from_ms(100) + BYPASS]);
    check_bypass(&played, gone - BYPASS, 2);
    check_bypass(&played, attached[0] - BYPASS, 2);
}

/// An error during an attach ends the scheduler after the attach, as the kernel serializes both.
#[test]
fn b1_attach_completes_before_a_disable_begins() {
    let plan: FaultPlan = "cpu2:offline@100ms,cpu1:offline@225ms".parse().unwrap();
    let mut machine = bypass_machine(3);
    machine.costs.disable_ns = 0;
    let played = Scheduler::shipped("fifo").play_faults(&machine, &hogs(5), 0, &plan).completed();
    assert_eq!(played.outcome.restarts.len(), 2);
    let ends = |event: &&Event| matches!(event.kind, EventKind::Disabled { .. } | EventKind::Attached);
    let ends: Vec<(Nanos, bool)> =
        played.events.iter().filter(ends).map(|event| (event.time, event.kind == EventKind::Attached)).collect();
    let [(_, true), (first, false), (attached, true), (second, false), (again, true)] = ends[..] else {
        panic!("{ends:?}");
    };
    assert_eq!(attached, first + Nanos::from_ms(100) + BYPASS);
    assert_eq!(second, attached, "the disable waits for the attach");
    assert_eq!(again, second + Nanos::from_ms(100) + BYPASS);
}

#[test]
fn x1_unload_waits_until_the_scheduler_is_disabled() {
    let (machine, workload, scheduler) = (bypass_machine(1), hogs(3), Scheduler::shipped("bfs"));
    let (outcome, kind) = scheduler.play_and_unload(&machine, &workload);
    assert_eq!((outcome.measures.elapsed, kind), (Nanos::from_secs(4) + BYPASS, Some(64)));
    assert_eq!(outcome.ejected, None);
    let played = scheduler.play(&machine, &workload).completed();
    assert_eq!(played.outcome.measures.elapsed, Nanos::from_secs(4));
}
