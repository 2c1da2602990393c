// SPDX-License-Identifier: GPL-2.0-only
//! Equal facts from simulated and real runs give equal reports.

use crate::{header, real, simulated};
use executor::{Calibration, End, ExecutionResult, Stuck, TaskResult};
use ids::{CpuSet, Nanos, Policy, TaskId, Topology};
use kernel_link::meter::{Measured, MeterCost};
use kernel_link::scheduler::KernelExit;
use kernel_model::{Cause, ExitInfo};
use machine_model::{Effect, Machine};
use measures::{Collector, Histogram, LatencySummary, RunMeasures, TaskAccount, TaskMeasures, Totals};
use report::{Called, Outcome, RunReport, Tags, World, to_json};
use serde_json::Value;
use simulator::{CallMade, Uses};

/// Measures of a run of one second with one task.
fn measures() -> RunMeasures {
    let totals = Totals { elapsed: Nanos::from_secs(1), makespan: Some(Nanos::from_secs(1)), ..Totals::default() };
    let task = TaskMeasures {
        id: TaskId(0),
        pid: 4711,
        name: "comm".to_owned(),
        kernel_thread: false,
        policy: Policy::Other,
        account: TaskAccount { run: Nanos::from_ms(3), ..TaskAccount::default() },
        cpus_allowed: CpuSet::first_n(1),
        affinity_changes: Vec::new(),
        cpus_used: CpuSet::first_n(1),
        wakeup_latency: LatencySummary::default(),
        wakeup_latencies: Histogram::new(),
        last_latency: Nanos::ZERO,
        periods: None,
        disk: None,
        network: None,
        ended: None,
    };
    RunMeasures { tasks: vec![task], ..Collector::new(&Topology::flat(0)).finish(totals) }
}

fn simulated_tags() -> Tags {
    let setup = simulated::Setup {
        scheduler: "bfs@0.360",
        object: Some(b"object"),
        workload: "load",
        uses: Uses::default(),
        seed: 7,
        draw: 2,
        kernel: (7, 2).into(),
    };
    simulated::tags(&setup, &Machine::preset("laptop-2c4t").unwrap())
}

fn real_tags() -> Tags {
    real::tags(&real::Setup {
        scheduler: "bfs@0.360",
        object: Some(b"object"),
        workload: "load",
        kernel: "7.2.13-test",
    })
}

fn simulated_outcome() -> simulator::Outcome {
    simulator::Outcome {
        measures: measures(),
        log_hash: 5,
        ejected: None,
        failed_forks: 3,
        refused_changes: 4,
        restarts: vec![ExitInfo::default(), ExitInfo::default()],
        calls: vec![CallMade { call: "a@1s".to_owned(), made: Some((Nanos(5), 0)) }],
    }
}

fn executed(end: End) -> ExecutionResult {
    let name = "a name longer than comm".to_owned();
    let policy = Policy::Fifo(80);
    let task =
        TaskResult { name, policy, tid: 4711, finished: true, work_done: Nanos::from_ms(2), ..TaskResult::default() };
    ExecutionResult {
        end,
        elapsed: Nanos::from_secs(1),
        calibration: Calibration { rounds: 1, fastest: Nanos(1), median: Nanos(1), tries: 1 },
        tasks: vec![task],
        failed_forks: 3,
        refused_changes: 4,
        disturbances: 0,
        log: vec![],
        groups: vec![],
        requests: vec![],
        disks: vec![],
    }
}

fn real_outcome() -> real::Outcome {
    let measured = Measured { measures: measures(), threads: vec![4711], log_hash: 5, cost: MeterCost::default() };
    real::Outcome {
        checked: None,
        measured,
        executed: Some(executed(End::Finished)),
        ejected: None,
        restarts: 2,
        calls: vec![Called { call: "a@1s".to_owned(), made_ns: Some(5), returned: Some(0) }],
        command_status: None,
        failure: None,
        cut: false,
    }
}

/// All keys of a document as dotted paths, in order; lists are represented by their first element.
fn keys(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| keys(value, &format!("{place}.{key}"), found)),
        Value::Array(items) => items.iter().take(1).for_each(|item| keys(item, place, found)),
        _ => found.push(place.to_owned()),
    }
}

fn json(report: &RunReport) -> Value {
    serde_json::from_str::<Value>(&to_json(std::slice::from_ref(report))).unwrap()["runs"][0].take()
}

#[test]
fn simulated_and_real_runs_give_equal_reports() {
    let simulated = simulated::report(simulated_tags(), simulated_outcome(), None, None);
    let real = real::report(real_tags(), real_outcome());
    assert_eq!(simulated.ending, real.ending);
    assert_eq!((simulated.is_fine(), real.is_fine()), (true, true));
    let (one, other) = (json(&simulated), json(&real));
    let differs = |key: &str| one[key] != other[key];
    let different: Vec<&str> = one.as_object().unwrap().keys().map(String::as_str).filter(|key| differs(key)).collect();
    // The kernel version, data available in one world only, and data known to the executor only.
    let expected =
        ["world", "seed", "draw", "effects", "unvalidated", "machine", "kernel", "form", "work_ns", "meter", "tasks"];
    assert!(different.iter().all(|key| expected.contains(key)), "{different:?}");
    let all = |value: &Value| {
        let mut found = Vec::new();
        keys(value, "", &mut found);
        found.retain(|key| ![".effects", ".unvalidated"].contains(&key.as_str()) && !key.starts_with(".meter"));
        found
    };
    assert_eq!(all(&one), all(&other), "the same keys in the same order");
    assert_eq!(real.measures.tasks[0].policy, Policy::Fifo(80), "not that of its creation");
    assert_eq!((&other["tasks"][0]["name"], &other["work_ns"]), (&"a name longer than comm".into(), &2_000_000.into()));
}

#[test]
fn log_header_and_report_agree() {
    let tags = simulated_tags();
    let head = header(&tags, "1.2.3");
    assert_eq!((head.version.as_str(), head.seed, head.kernel.as_str()), ("1.2.3", 7, "7.2"));
    assert_eq!(Some(&head.object_hash), tags.object_hash.as_ref());
    assert_eq!(
        (head.machine.as_str(), head.scheduler.as_str(), head.workload.as_str()),
        ("laptop-2c4t", "bfs@0.360", "load")
    );
    let own = real::tags(&real::Setup { scheduler: "kernel", object: None, workload: "true", kernel: "7.2" });
    assert_eq!((own.world, own.object_hash.as_deref(), own.seed), (World::Real, None, None));
    assert_eq!(header(&own, "1").object_hash, "");
    assert_ne!(crate::object_hash(b"object"), crate::object_hash(b"objecs"));
}

#[test]
fn reported_effects_are_those_of_the_machine() {
    let setup = simulated::Setup {
        scheduler: "kernel",
        object: None,
        workload: "w",
        uses: Uses::default(),
        seed: 0,
        draw: 0,
        kernel: (7, 2).into(),
    };
    let mut machine = Machine::preset("laptop-2c4t").unwrap();
    let with = simulated::tags(&setup, &machine).effects.unwrap();
    machine.effects.switch_off(Effect::Smt);
    let tags = simulated::tags(&setup, &machine);
    let without = tags.effects.unwrap();
    assert!(with.contains(&"smt".to_owned()) && !without.contains(&"smt".to_owned()), "{with:?} {without:?}");
    assert_eq!(with.len(), without.len() + 1);
    assert!(tags.unvalidated.iter().all(|effect| without.contains(effect)));
    assert!(!without.contains(&"caches".to_owned()), "nothing is known of the workload's memory");
    let used = simulated::tags(&simulated::Setup { uses: Uses { memory: true, ..setup.uses }, ..setup }, &machine)
        .effects
        .unwrap();
    assert!(used.contains(&"caches".to_owned()) && used.contains(&"bandwidth".to_owned()));
}

/// Both kernels eject the scheduler with the same messages; the model also knows the place in its code.
#[test]
fn ejection_is_reported_equally_in_both_worlds() {
    let (kind, code) = (1025, 7);
    let words = || ("scx_bpf_error".to_owned(), "no such queue".to_owned(), "CPU states".to_owned());
    let (reason, message, dump) = words();
    let cause = Cause { op: Some("enqueue"), call: None, source: Some(("my.bpf.c".to_owned(), 42)) };
    let info = ExitInfo { kind, code, reason, message, dump, fault: Some("a fault".to_owned()), cause };
    let (reason, message, dump) = words();
    let exit = KernelExit { kind: kind.into(), code, reason, message, dump, exit_cpu: Some(1) };
    let one = simulated::report(
        simulated_tags(),
        simulator::Outcome { ejected: Some(info), ..simulated_outcome() },
        None,
        None,
    );
    let other = real::report(real_tags(), real::Outcome { ejected: Some(exit), ..real_outcome() });
    let (one, other) = (one.ending.ejected.unwrap(), other.ending.ejected.unwrap());
    assert_eq!(
        (one.kind, one.code, &one.reason, &one.message, &one.dump),
        (other.kind, other.code, &other.reason, &other.message, &other.dump)
    );
    assert_eq!((one.kind, one.message.as_str(), one.dump.as_str()), (1025, "no such queue", "CPU states"));
    assert_eq!((one.place().as_str(), other.place().as_str()), ("ops.enqueue, my.bpf.c:42", ""));
    assert_eq!((one.fault.as_deref(), other.fault), (Some("a fault"), None));
}

/// Tasks that wait for each other forever are a violation; a run stopped by its time limit is not.
#[test]
fn deadlocks_are_violations_for_simulated_and_real_runs() {
    let unfinished =
        || simulator::Outcome { measures: RunMeasures { makespan: None, ..measures() }, ..simulated_outcome() };
    let stuck = simulated::report(simulated_tags(), unfinished(), None, None);
    let stopped = simulated::report(simulated_tags(), unfinished(), Some(Nanos::from_secs(1)), None);
    assert_eq!((stuck.ending.outcome(), stuck.is_fine()), (Outcome::Violation, false));
    assert_eq!((stopped.ending.outcome(), stopped.is_fine()), (Outcome::Completed, true));
    let stuck = Stuck { task: TaskId(0), name: "a".to_owned(), waits_for: "b".to_owned() };
    let stuck = real::Outcome { executed: Some(executed(End::Stuck(vec![stuck]))), cut: true, ..real_outcome() };
    let stuck = real::report(real_tags(), stuck);
    assert_eq!((stuck.ending.outcome(), stuck.is_fine(), stuck.measures.makespan), (Outcome::Violation, false, None));
}

#[test]
fn real_run_is_fine_without_ejection_failure_or_lost_events() {
    let fine = |change: &dyn Fn(&mut real::Outcome)| {
        let mut outcome = real_outcome();
        change(&mut outcome);
        real::report(real_tags(), outcome).is_fine()
    };
    assert!(fine(&|_| ()));
    assert!(fine(
        &|outcome| outcome.measured.cost = MeterCost { unseen_switches: 7, unfinished: 1, ..Default::default() }
    ));
    assert!(!fine(&|outcome| outcome.ejected = Some(KernelExit { kind: 1025, ..KernelExit::default() })));
    assert!(!fine(&|outcome| outcome.failure = Some("the command failed: exit status: 2".to_owned())));
    assert!(!fine(&|outcome| outcome.measured.cost.lost_by_cpu = vec![0, 1]));
    // A call that was not made is not a failure of the scheduler.
    assert!(fine(&|outcome| (outcome.calls[0].made_ns, outcome.calls[0].returned) = (None, None)));
    assert!(!fine(&|outcome| outcome.calls[0].returned = Some(-2)));
}

/// Background tasks are terminated after the other tasks have ended, which is after the end of the work.
#[test]
fn makespan_of_a_real_run_excludes_background_tasks() {
    let makespan = |beside: u64| {
        let mut outcome = real_outcome();
        let tasks = &mut outcome.executed.as_mut().unwrap().tasks;
        tasks[0].ended = Nanos::from_ms(900);
        tasks.push(TaskResult { ended: Nanos::from_ms(beside), is_beside: true, ..TaskResult::default() });
        real::report(real_tags(), outcome).measures.makespan
    };
    // All tasks ended after one second by the meter's clock.
    assert_eq!(makespan(970), Some(Nanos::from_ms(930)));
    assert_eq!(makespan(800), Some(Nanos::from_secs(1)));
}
