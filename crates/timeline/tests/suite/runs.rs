// SPDX-License-Identifier: GPL-2.0-only
//! Timelines of whole simulated runs agree with the measures, and recording them does not change the run.

use bpf_object::Object;
use event_log::Null;
use fault_plan::FaultPlan;
use ids::{CpuId, Nanos, TaskId};
use launch_profile::Profile;
use machine_model::Machine;
use simulator::{Outcome, Setup};
use timeline::{Activity, Change, Departure, Kind, Reason, Recorder, Timeline};
use workload::Workload;

/// Tasks that sleep, hand over a mutex, wake each other, yield, fork, change their affinity and contend for locks.
const EVERYTHING: &str = r#"{"locks": {"m": {"kind": "mutex"}, "s": {"kind": "ticket"}}, "tasks": {
    "handed": {"instance": 4, "loop": 20, "lock": "a", "run": 300, "unlock": "a", "sleep": 20},
    "through": {"instance": 6, "loop": 4, "critical_sections": {"lock": "m", "hold_ns": 30000, "between_ns": 2000, "times": 20}},
    "spinning": {"instance": 3, "loop": 4, "critical_sections": {"lock": "s", "hold_ns": 10000, "between_ns": 500, "times": 20}},
    "polite": {"instance": 3, "loop": 30, "run": 10, "yield": ""},
    "parent": {"loop": 8, "run": 100, "fork": "child", "sleep": 200},
    "child": {"instance": 0, "loop": 2, "run": 150, "sleep": 50},
    "moving": {"instance": 3, "loop": 10, "phases": {
        "here": {"loop": 2, "cpus": [0, 1], "run": 1000, "sleep": 30}, "there": {"loop": 2, "cpus": [2], "run": 1000}}},
    "urgent": {"loop": 30, "policy": "SCHED_FIFO", "priority": 9, "run": 40, "sleep": 300}}}"#;

struct Scheduler {
    name: &'static str,
    loaded: Option<(Object, Profile)>,
}

fn schedulers() -> Vec<Scheduler> {
    let load = |name: &'static str| {
        let policy = policies::find(name).expect("it ships");
        let mut profile = Profile::from_toml(name, policy.profile).unwrap();
        profile.select(None, &[]).unwrap();
        Scheduler { name, loaded: Some((Object::parse(policy.object).unwrap(), profile)) }
    };
    let kernel = Scheduler { name: "kernel", loaded: None };
    vec![kernel, load("fifo"), load("bfs"), load("vrq")]
}

fn run(scheduler: &Scheduler, machine: &str, workload: &Workload, kernel: &str, seed: u64) -> (Outcome, Timeline) {
    let machine = Machine::preset(machine).unwrap();
    let faults = FaultPlan::default();
    let setup = Setup {
        machine: &machine,
        workload,
        scheduler: match &scheduler.loaded {
            None => simulator::Scheduler::Kernel,
            Some((object, profile)) => simulator::Scheduler::Object { object, profile },
        },
        seed,
        duration: None,
        faults: &faults,
        kernel: kernel.parse().unwrap(),
        types: None,
        map_bytes: simulator::MAP_BYTES,
    };
    let mut recorder = Recorder::new(machine.topology.len());
    let outcome = simulator::run(&setup, &mut recorder, &mut |_| ()).unwrap();
    let plain = simulator::run(&setup, &mut Null, &mut |_| ()).unwrap();
    assert_eq!(plain, outcome, "{}: details do not change a run", scheduler.name);
    let end = outcome.measures.elapsed;
    (outcome, recorder.finish(end))
}

fn work() -> Workload {
    Workload::from_bytes("everything.json", EVERYTHING.as_bytes()).unwrap()
}

/// The runs that the tests below examine.
fn runs() -> impl Iterator<Item = (String, Outcome, Timeline)> {
    let cases =
        [("laptop-2c4t", "7.2", 0), ("laptop-2c4t", "7.2", 5), ("server-64", "7.2", 1), ("nix-32", "7.2+waiting", 2)];
    cases.into_iter().flat_map(|(machine, kernel, seed)| {
        schedulers().into_iter().map(move |scheduler| {
            let (outcome, timeline) = run(&scheduler, machine, &work(), kernel, seed);
            assert!(outcome.ejected.is_none(), "{:?}", outcome.ejected);
            (format!("{} on {machine}, {kernel}, seed {seed}", scheduler.name), outcome, timeline)
        })
    })
}

/// The phases of a task have no gaps and add up to its times in the measures, which the simulator computes
/// differently.
#[test]
fn phases_add_up_to_the_measured_times_of_each_task() {
    for (name, outcome, timeline) in runs() {
        assert_eq!(timeline.tasks.len(), outcome.measures.tasks.len());
        for (task, measured) in timeline.tasks.iter().zip(&outcome.measures.tasks) {
            let place = format!("{name}: {}", measured.name);
            let ends = task.ended.unwrap_or(timeline.end);
            assert_eq!(task.ended, measured.ended, "{place}");
            assert_eq!(task.phases.first().unwrap().from, task.created);
            assert_eq!(task.phases.last().unwrap().to, ends, "{place}");
            assert!(task.phases.windows(2).all(|pair| pair[0].to == pair[1].from), "{place}");
            let sum = |counts: &dyn Fn(Activity) -> bool| -> u64 {
                task.phases.iter().filter(|phase| counts(phase.activity)).map(|phase| phase.length().0).sum()
            };
            let account = measured.account;
            assert_eq!(
                sum(&|activity| matches!(activity, Activity::Runs { .. })),
                (account.run + account.stolen).0,
                "{place}"
            );
            assert_eq!(sum(&|activity| matches!(activity, Activity::Waits { .. })), account.runnable.0, "{place}");
            assert_eq!(sum(&|activity| matches!(activity, Activity::Sleeps { .. })), account.blocked.0, "{place}");
        }
    }
}

/// The run intervals of a CPU do not overlap, their number is the measured number of context switches, and with the
/// idle periods they fill its whole time.
#[test]
fn run_intervals_and_idle_periods_fill_the_time_of_each_cpu() {
    for (name, outcome, timeline) in runs() {
        let mut run_intervals = 0;
        for (number, cpu) in timeline.cpus.iter().enumerate() {
            assert!(cpu.run_intervals.windows(2).all(|pair| pair[0].to <= pair[1].from), "{name}: CPU {number}");
            let ran: u64 = cpu.run_intervals.iter().map(|interval| interval.to.since(interval.from).0).sum();
            let idle: u64 = cpu.idle_within(Nanos::ZERO, timeline.end).iter().map(|(from, to)| to.since(*from).0).sum();
            let others: u64 = cpu.others.iter().map(|(from, to)| to.since(*from).0).sum();
            assert_eq!(ran + idle + others, timeline.end.0, "{name}: CPU {number}");
            assert_eq!(others, 0, "{name}: CPU {number}: no tasks outside the run");
            let of_workload = |interval: &&timeline::RunInterval| !timeline.task(interval.task).info.kernel_thread;
            run_intervals += cpu.run_intervals.iter().filter(of_workload).count() as u64;
            for interval in &cpu.run_intervals {
                let middle = Nanos(interval.from.0.midpoint(interval.to.0));
                assert!(interval.from == interval.to || cpu.run_interval_at(middle) == Some(interval));
            }
        }
        assert_eq!(run_intervals, outcome.measures.context_switches, "{name}");
    }
}

/// The contents of each queue can be followed through the whole run: only queued tasks leave, no task enters twice,
/// and each position exists.
#[test]
fn queue_contents_are_consistent_through_the_whole_run() {
    for (name, _, timeline) in runs() {
        let mut changes = 0;
        for (dsq, queue) in &timeline.queues {
            let mut order: Vec<TaskId> = Vec::new();
            for (time, change) in queue.changes() {
                changes += 1;
                match *change {
                    Change::Entered(task, ahead) => {
                        assert!(
                            ahead as usize <= order.len(),
                            "{name}: {dsq} at {time}: position {ahead} of {}",
                            order.len()
                        );
                        assert!(!order.contains(&task), "{name}: {dsq}: {task} is in the queue already");
                        order.insert(ahead as usize, task);
                    }
                    Change::Left(task) => {
                        let place = order.iter().position(|&other| other == task);
                        order.remove(
                            place.unwrap_or_else(|| panic!("{name}: {dsq}: {task} left and was not in the queue")),
                        );
                    }
                }
                assert!(queue.depths().all(|(_, depth)| depth as usize <= timeline.tasks.len()));
            }
        }
        assert_eq!(changes > 100, timeline.sees_queues, "{name}");
    }
}

/// Queue stays of a task do not overlap, and a queued task is among the contents of its queue.
#[test]
fn queue_stays_agree_with_queue_contents() {
    for (name, _, timeline) in runs() {
        for (number, task) in timeline.tasks.iter().enumerate() {
            let id = TaskId(number as u32);
            assert!(task.queue_stays.windows(2).all(|pair| pair[0].to <= pair[1].from), "{name}: {}", task.info.name);
            for stay in task.queue_stays.iter().filter(|stay| stay.from < stay.to).step_by(7) {
                let Some(queue) = stay.queue else { continue };
                let within = |time| timeline.queue_at(queue, time).contains(&id);
                assert!(within(stay.from), "{name}: {} is in {queue}", task.info.name);
                assert!(
                    !within(stay.to) || stay.departure == Departure::Moved,
                    "{name}: {} left {queue}",
                    task.info.name
                );
            }
        }
    }
}

/// The runners and the idle periods fill the time of all allowed CPUs during a wait.
#[test]
fn runners_and_idle_periods_fill_the_allowed_cpus_during_a_wait() {
    for (name, _, timeline) in runs() {
        for wait in timeline.longest_waits(40, |_| true) {
            let account = timeline.account(wait);
            let ran: u64 = account.runners.iter().map(|runner| runner.ran.0).sum();
            let idle = |cpu: CpuId| timeline.cpus[cpu.index()].idle_within(wait.from, wait.to);
            let idle: u64 = account.allowed.iter().flat_map(idle).map(|(from, to)| to.since(from).0).sum();
            assert_eq!(ran + idle, wait.length().0 * account.allowed.len() as u64, "{name}: {wait:?}");
            assert!(account.idle.0 <= wait.length().0.min(idle));
            let no_callback = |reason: Reason| matches!(reason, Reason::HigherClass { .. } | Reason::LeavesIdle { .. });
            assert!(
                account.suspects.iter().all(|suspect| (suspect.site.op == 0) == no_callback(suspect.reason)),
                "{name}: {:?}",
                account.suspects
            );
            let callbacks = account.suspects.iter().any(|suspect| suspect.site.op > 0);
            assert!(timeline.sees_queues || !callbacks && account.queue_stays.is_empty(), "{name}");
        }
    }
}

/// The chain has no gaps or overlaps, ends at the makespan, and its kinds add up.
#[test]
fn chain_covers_the_time_up_to_the_makespan() {
    for (name, outcome, timeline) in runs() {
        let chain = timeline.chain(None);
        let (first, last) = (chain.links.first().unwrap(), chain.links.last().unwrap());
        assert!(chain.links.windows(2).all(|pair| pair[0].to == pair[1].from), "{name}");
        assert_eq!(Some(last.to), outcome.measures.makespan, "{name}");
        assert_eq!(
            first.from,
            timeline.task(first.task).phases[0].to,
            "{name}: the chain starts with the creation of a task"
        );
        let sum: u64 = Kind::ALL.iter().map(|&kind| chain.sum(kind).0).sum();
        assert_eq!(sum, chain.length().0, "{name}");
        let of_tasks: u64 = chain.tasks().iter().flat_map(|(_, times)| times).map(|time| time.0).sum();
        assert_eq!(of_tasks, sum, "{name}");
        for pair in chain.links.windows(2).filter(|pair| pair[0].task != pair[1].task) {
            assert!(pair[1].slept_before.is_some(), "{name}: {pair:?}");
        }
    }
}

/// Spinning on a lock is distinguished from work, and the handoff of a mutex counts as a lock handoff.
#[test]
fn chain_shows_spinning_and_lock_handoffs() {
    let work = |text: &str| Workload::from_bytes("locks.json", text.as_bytes()).unwrap();
    let fifo = &schedulers()[1];
    let mutex = work(r#"{"tasks": {"handed": {"instance": 4, "loop": 20, "lock": "a", "run": 300, "unlock": "a"}}}"#);
    let (_, timeline) = run(fifo, "laptop-2c4t", &mutex, "7.2", 0);
    let (handoffs, by_lock) = timeline.chain(None).handoffs();
    assert!(by_lock > 20 && by_lock <= handoffs, "{by_lock} of {handoffs}");
    assert_eq!(timeline.chain(None).sum(Kind::Spun), Nanos::ZERO);
    let ticket = work(
        r#"{"locks": {"s": {"kind": "ticket"}}, "tasks": {"spinning": {"instance": 3, "loop": 1,
            "critical_sections": {"lock": "s", "hold_ns": 100000, "between_ns": 500, "times": 50}}}}"#,
    );
    let (outcome, timeline) = run(fifo, "laptop-2c4t", &ticket, "7.2", 0);
    let spun = timeline.chain(None).sum(Kind::Spun);
    let chain = timeline.chain(None).length();
    assert!(spun.0 * 2 > chain.0 && spun < chain, "{spun} of {chain}: two of three tasks spin");
    assert_eq!(Some(timeline.chain(None).links.last().unwrap().to), outcome.measures.makespan);
}
