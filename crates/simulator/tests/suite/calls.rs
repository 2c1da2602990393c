// SPDX-License-Identifier: GPL-2.0-only
//! Planned calls of the scheduler's programs during a run.

use crate::common::{Scheduler, bypass_machine, hogs};
use event_log::EventKind;
use fault_plan::FaultPlan;
use ids::Nanos;
use machine_model::Machine;
use simulator::CallMade;

fn turns(calls: &[&str]) -> Scheduler {
    Scheduler::compiled("turns", "").calling(calls)
}

fn made(call: &str, at: Nanos, returned: i32) -> CallMade {
    CallMade { call: call.to_owned(), made: Some((at, returned)) }
}

#[test]
fn planned_calls_are_made_at_their_time_and_report_the_return_value() {
    let calls = ["set_turn:us=0@3s", "set_turn:us=8000,at_once=true@1001ms", "set_turn:us=1@5s"];
    let played = turns(&calls).play(&bypass_machine(1), &hogs(2)).completed();
    let never = CallMade { call: calls[2].to_owned(), made: None };
    let expected = [made(calls[1], Nanos::from_ms(1001), 0), made(calls[0], Nanos::from_secs(3), -22), never];
    assert_eq!(played.outcome.calls, expected);

    // Turns of 40 ms, then of 8 ms.
    let switches = played.events.iter().filter(|event| matches!(event.kind, EventKind::Switch { .. }));
    let times: Vec<Nanos> = switches.map(|event| event.time).collect();
    let lengths = |from: u64, to: u64| -> Vec<u64> {
        let within = times.iter().filter(|time| (Nanos::from_ms(from)..Nanos::from_ms(to)).contains(time));
        let within: Vec<&Nanos> = within.collect();
        within.windows(2).map(|pair| pair[1].since(*pair[0]).0 / 1_000_000).collect()
    };
    let before = lengths(100, 1001);
    assert!(before.len() > 15 && before.iter().all(|ms| (40..=44).contains(ms)), "{before:?}");
    let after = lengths(1100, 3900);
    assert!(after.len() > 200 && after.iter().all(|ms| (8..=12).contains(ms)), "{after:?}");
    assert!(times.contains(&Nanos::from_ms(1001)), "the running tasks were preempted at the call");
}

/// A run without calls is identical to one whose only call is due after its end.
#[test]
fn planned_call_has_no_effect_before_its_time() {
    let run = |calls: &[&str]| turns(calls).play(&bypass_machine(2), &hogs(3)).completed().events;
    assert_eq!(run(&[]), run(&["set_turn:us=1000@4s"]));
    assert_ne!(run(&[]), run(&["set_turn:us=1000@3s"]));
}

#[test]
fn calls_wait_for_a_scheduler_being_restarted() {
    let plan: FaultPlan = "cpu2:offline@100ms".parse().unwrap();
    let calls = ["set_turn:us=8000@50ms", "set_turn:us=0@160ms", "set_turn:us=12000@170ms"];
    let scheduler = turns(&calls);
    let played = scheduler.play_faults(&bypass_machine(3), &hogs(5), 0, &plan).completed();
    let attached = played.events.iter().filter(|event| event.kind == EventKind::Attached);
    let attached: Vec<Nanos> = attached.map(|event| event.time).collect();
    let [_, back] = attached[..] else { panic!("{attached:?}") };
    assert!(back > Nanos::from_ms(170));
    let expected = [made(calls[0], Nanos::from_ms(50), 0), made(calls[1], back, -22), made(calls[2], back, 0)];
    assert_eq!(played.outcome.calls, expected);
    // The effect of the first call is lost: a reloaded scheduler starts from its initial state.
    let of_last = |names: &[&str]| scheduler.variables_after(&bypass_machine(3), &hogs(5), &plan, names);
    assert_eq!(of_last(&["turn_ns", "changes"]), [12_000_000, 1]);
}

/// The caller is suspended too: suspended time does not count.
#[test]
fn calls_wait_during_suspend() {
    let plan: FaultPlan = "suspend@1s+1s".parse().unwrap();
    let calls = ["set_turn:us=8000@1s", "set_turn:us=9000@1500ms", "set_turn:us=10000@2500ms"];
    let played = turns(&calls).play_faults(&bypass_machine(1), &hogs(2), 0, &plan).completed();
    let times: Vec<Nanos> = played.outcome.calls.iter().map(|call| call.made.expect("the call is made").0).collect();
    // The first call is due when tasks are already frozen.
    assert!((Nanos::from_secs(2)..Nanos::from_ms(2100)).contains(&times[0]), "{times:?}");
    assert_eq!(times[1..], [Nanos::from_ms(2500), Nanos::from_ms(3500)]);
}

/// If kernel operations are interleaved at lock waits (`+waiting`), a call is made when no operation is in progress.
#[test]
fn calls_are_made_between_operations_that_wait_for_locks() {
    let calls = ["set_turn:us=8000,at_once=true@1001ms"];
    let machine = Machine::preset("laptop-2c4t").unwrap();
    let played = turns(&calls).play_waiting(&machine, &hogs(9), 0, &FaultPlan::default()).completed();
    let (time, returned) = played.outcome.calls[0].made.expect("the call is made");
    assert!(returned == 0 && (Nanos::from_ms(1001)..Nanos::from_ms(1002)).contains(&time), "{time}");
}

#[test]
fn fault_in_a_call_ejects_the_scheduler() {
    let played = turns(&["scribble@1s"]).play(&bypass_machine(1), &hogs(2));
    let exit = played.outcome.ejected.expect("an invalid access ejects the scheduler");
    let fault = exit.fault.expect("a fault ejected it");
    assert!(fault.contains("scribble"), "{fault}");
    assert_eq!(played.outcome.calls.len(), 1);
}
