// SPDX-License-Identifier: GPL-2.0-only
//! Rates that change during a run: makespans in closed form, and comparison with a naive simulation.

use crate::cpu::Cpu;
use crate::locks_tests::line_costs;
use crate::run_tests::{MS, play, sleep, spec, try_play, work, workload};
use crate::tasks::{Need, State, Task};
use crate::testing::free_machine;
use crate::ticks::Ticks;
use event_log::EventKind;
use ids::{CpuId, CpuSet, Nanos};
use machine_model::{Effect, Effects, Estimate, Frequency, Governor, Group, IdleState, Machine, Power, Smt};
use proptest::prelude::*;
use speed::Rate;
use workload::{Op, Start, TaskSpec};

const SECOND: u64 = 1_000 * MS;

/// A machine of 2-thread cores, CPUs 0 and 1 being those of the first core; both threads of a core together have this
/// throughput.
fn smt_machine(cores: u32, throughput_percent: u64) -> Machine {
    let mut machine = free_machine(2 * cores);
    machine.topology.places.iter_mut().zip(0..).for_each(|(place, cpu)| place.core = cpu / 2);
    machine.effects.smt = Some(Smt { throughput_percent: vec![Estimate::exactly(throughput_percent)] });
    machine
}

fn pinned(name: &str, cpu: u32, script: Vec<Op>) -> TaskSpec {
    TaskSpec { cpus: Some(CpuSet::from_iter([CpuId(cpu)])), ..spec(name, Start::At(Nanos(0)), script) }
}

fn makespan(machine: &Machine, tasks: Vec<TaskSpec>) -> u64 {
    play(machine, &workload(tasks)).outcome.measures.makespan.expect("a finite workload").0
}

/// Two tasks of work W on each core take 2W/y for any throughput y.
#[test]
fn makespan_of_two_smt_tasks_is_twice_the_work_over_the_combined_throughput() {
    for y in [100, 125, 160, 200] {
        let tasks = (0..8).map(|cpu| pinned("t", cpu, vec![work(SECOND)])).collect();
        let exact = 2 * 100 * SECOND / y;
        let took = makespan(&smt_machine(4, y), tasks);
        // A rate has 16 fractional bits, and is rounded down.
        assert!((exact..exact + exact / 65_536 * 2).contains(&took), "{took} for {exact}");
    }
}

/// Three tasks of 1 s on two cores of two threads, y = 1.25: 1.600 s if two stay on one core.
#[test]
fn three_tasks_on_two_cores_without_migration_take_1_6_s() {
    let machine = smt_machine(2, 125);
    let tasks = [0, 1, 2].map(|cpu| pinned("t", cpu, vec![work(SECOND)])).to_vec();
    let played = play(&machine, &workload(tasks));
    assert_eq!(played.outcome.measures.makespan, Some(Nanos(1_600 * MS)));
    // Of the 4.2 s of run time, 1.2 s exceed the work.
    let cpu = played.outcome.measures.cpu;
    assert_eq!((cpu.run, cpu.slowed), (Nanos(4_200 * MS), Nanos(1_200 * MS)));
}

/// Three tasks of 1 s on two cores; the core that becomes idle after 1 s takes one of the two others, which has done 0.625 s:
/// 1.375 s.
#[test]
fn three_tasks_on_two_cores_with_migration_take_1_375_s() {
    let moves = Op::Change { cpus: Some(Box::new(CpuSet::from_iter([CpuId(3)]))), policy: None };
    let tasks = vec![
        pinned("a", 0, vec![work(SECOND)]),
        pinned("b", 1, vec![work(625 * MS), moves, work(375 * MS)]),
        pinned("c", 2, vec![work(SECOND)]),
    ];
    let played = play(&smt_machine(2, 125), &workload(tasks));
    assert_eq!(played.outcome.measures.makespan, Some(Nanos(1_375 * MS)));
    assert_eq!(played.outcome.measures.cpu.run, Nanos(3_750 * MS));
}

/// A thread that is in scheduler code or in an interrupt slows its sibling as well; one that idles does not.
#[test]
fn scheduler_code_on_the_sibling_slows_a_task() {
    let mut machine = smt_machine(1, 125);
    machine.costs.wakeup_ns = 100_000;
    let blinker = vec![sleep(MS), work(1), Op::Repeat { from: 0, times: Some(100) }];
    let tasks = |others: Vec<Op>| vec![pinned("hog", 0, vec![work(SECOND)]), pinned("blinker", 1, others)];
    let alone = makespan(&machine, tasks(vec![work(1)]));
    let disturbed = play(&machine, &workload(tasks(blinker)));
    let took = disturbed.outcome.measures.tasks[1].account.run;
    // 100 times 0.1 ms at rate 0.625: 3.75 ms later than alone.
    assert!((took.0 - SECOND).abs_diff(100 * 37_500) < 100_000, "{took} alone {alone}");
}

fn frequency(mhz: &[u32], turbo: &[u64], governor: Governor) -> Frequency {
    Frequency {
        mhz: mhz.to_vec(),
        turbo_mhz: turbo.iter().copied().map(Estimate::exactly).collect(),
        domain: Group::Core,
        turbo_domain: Group::Machine,
        turbo_us: 1_000,
        governor,
        sampling_us: 10_000,
        transition_us: 0,
        memory_bound_percent: Estimate::exactly(0),
    }
}

/// 1 s of work takes 1 s on a CPU of capacity 1024, and 1024/453 s on one of capacity 453.
#[test]
fn makespans_are_inverse_to_capacities_without_frequencies() {
    let mut machine = free_machine(2);
    machine.topology.capacities[1] = 453;
    machine.effects.capacity = true;
    let on = |machine: &Machine, cpu| makespan(machine, vec![pinned("hog", cpu, vec![work(SECOND)])]);
    assert!(on(&machine, 0).abs_diff(SECOND) < MS, "{}", on(&machine, 0));
    assert!(on(&machine, 1).abs_diff(SECOND * 1024 / 453) < MS, "{}", on(&machine, 1));
    machine.effects.switch_off(Effect::Capacity);
    assert!(on(&machine, 1).abs_diff(SECOND) < MS, "{}", on(&machine, 1));
}

/// At a third of the frequency for 10 ms, then at full frequency: 1 s of work takes 10 - 10/3 ms longer.
#[test]
fn ondemand_slows_a_task_for_one_sample() {
    let mut machine = free_machine(1);
    machine.effects.frequency = Some(frequency(&[1_000, 3_000], &[], Governor::Ondemand));
    let took = makespan(&machine, vec![pinned("hog", 0, vec![work(SECOND)])]);
    assert!(took.abs_diff(SECOND + 6_666_667) < 200, "{took}");
}

/// One core alone runs at 4 GHz, two at 3 GHz: two tasks of 1 s take 4/3 s; a task that remains alone runs faster
/// from then on.
#[test]
fn turbo_frequency_depends_on_active_cores() {
    let mut machine = free_machine(2);
    machine.effects.frequency = Some(frequency(&[1_000], &[4_000, 3_000], Governor::Performance));
    let both = makespan(&machine, vec![pinned("a", 0, vec![work(SECOND)]), pinned("b", 1, vec![work(SECOND)])]);
    assert!(both.abs_diff(SECOND * 4 / 3) < MS, "{both}");
    let uneven = makespan(&machine, vec![pinned("a", 0, vec![work(SECOND)]), pinned("b", 1, vec![work(2 * SECOND)])]);
    assert!(uneven.abs_diff(SECOND * 4 / 3 + SECOND) < 2 * MS, "{uneven}");
}

/// The start of a task and ten wakeups, each on a CPU that idled for long.
#[test]
fn idle_exit_latency_delays_wakeups() {
    let mut machine = free_machine(1);
    let took = |machine: &Machine| {
        let script = vec![sleep(50 * MS), work(MS), Op::Repeat { from: 0, times: Some(10) }];
        makespan(machine, vec![pinned("t", 0, script)])
    };
    let free = took(&machine);
    machine.costs.idle_exit_ns = 7;
    assert_eq!(took(&machine) - free, 11 * 7);
    let state = |exit_ns, residency_ns| IdleState {
        name: String::new(),
        exit_ns: Estimate::exactly(exit_ns),
        residency_ns,
        deep: true,
        power_percent: Estimate::exactly(0),
    };
    machine.effects.idle_states = vec![state(2_000, 2_000), state(133_000, 600_000)];
    assert_eq!(took(&machine) - free, 11 * 133_000);
}

/// Random combinations of effects.
fn effects() -> impl Strategy<Value = Effects> {
    let governors = prop::sample::select(Governor::NAMES.map(|name| name.1).to_vec());
    let groups = prop::sample::select(vec![Group::Core, Group::Llc, Group::Machine]);
    (100u64..=200, governors, groups, 0u64..=100, any::<[bool; 3]>()).prop_map(
        move |(throughput, governor, group, memory, [has_smt, has_states, has_locks])| {
            let state = |exit_ns, residency_ns, deep| IdleState {
                name: String::new(),
                exit_ns: Estimate::exactly(exit_ns),
                residency_ns,
                deep,
                power_percent: Estimate::exactly(20),
            };
            let table = Frequency {
                domain: group,
                memory_bound_percent: Estimate::exactly(memory),
                transition_us: throughput,
                ..frequency(&[800, 1_700], &[3_100, 2_900, 2_500], governor)
            };
            Effects {
                smt: has_smt.then(|| Smt { throughput_percent: vec![Estimate::exactly(throughput)] }),
                frequency: Some(table),
                idle_states: if has_states {
                    vec![state(900, 2_000, false), state(70_000, 300_000, true)]
                } else {
                    Vec::new()
                },
                power: Some(Power {
                    idle_percent: Estimate::exactly(30),
                    voltage_slope_percent: Estimate::exactly(50),
                }),
                locks: has_locks.then(|| line_costs(40)),
                capacity: true,
                ..Effects::default()
            }
        },
    )
}

fn scenario() -> impl Strategy<Value = crate::run_tests::Scenario> {
    (crate::run_tests::scenario(), effects()).prop_map(|((mut machine, workload, disturb), effects)| {
        machine.topology.places.iter_mut().zip(0..).for_each(|(place, cpu)| place.core = cpu / 2);
        machine.topology.capacities.iter_mut().zip(0..).skip(1).for_each(|(capacity, cpu)| *capacity = 300 + 7 * cpu);
        machine.effects = effects;
        (machine, workload, disturb)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// With rates that change at any time every account adds up, the work done equals the work requested (both panic
    /// otherwise), skipped ticks do not change results, and runs are reproducible.
    #[test]
    fn accounts_add_up_while_rates_change((machine, workload, disturb) in scenario()) {
        let skipping = try_play(&machine, &workload, true, disturb).unwrap();
        let playing = try_play(&machine, &workload, false, disturb).unwrap();
        let again = try_play(&machine, &workload, true, disturb).unwrap();
        let told = |played: &crate::run_tests::Played| {
            played.story.0.iter().filter(|event| event.kind != EventKind::Tick).copied().collect::<Vec<_>>()
        };
        prop_assert_eq!(told(&skipping), told(&playing));
        let measures = &skipping.outcome.measures;
        prop_assert_eq!(measures, &playing.outcome.measures);
        prop_assert_eq!(&skipping.outcome, &again.outcome);
        let lost: u64 = measures.tasks.iter().map(|task| task.account.run.0 - task.account.work.0).sum();
        prop_assert_eq!(measures.cpu.slowed.0, lost);
        prop_assert!(measures.energy_ratio_ppm.is_some());
    }

    /// A task that works under ticks, at rates that change at any time: its end is replanned at each change, and
    /// is identical to that of a simulation with steps of a nanosecond.
    #[test]
    fn planned_end_at_changing_rates_matches_naive(
        asked in 1u64..3_000, first in 1u64..40, cost in 0u64..9,
        mut changes in prop::collection::vec((1u64..5_000, 1u64..=100), 0..12),
    ) {
        changes.sort_unstable();
        changes.dedup_by_key(|change| change.0);
        let ticks = Ticks::with_period(40, cost);
        let (mut cpu, mut task) = (Cpu::new(ids::CpuId(0), Nanos(first)), Task::new(Nanos(0)));
        cpu.current = ids::TaskId(0);
        task.enter(Nanos(0), State::Running);
        task.begin_work(Nanos(asked));
        let mut now = Nanos(0);
        let mut ends = None;
        for change in changes.iter().copied().map(Some).chain([None]) {
            let from = cpu.free_at().max(now);
            let Some(Need::Run(need)) = task.needs(&cpu.pace) else { panic!("the task must need run time") };
            let end = ticks.end(from, need, cpu.next_tick, ids::CpuId(0));
            let until = change.map_or(Nanos::MAX, |change| Nanos(change.0));
            now = end.min(until);
            let spent = cpu.settle(now, &ticks);
            task.take(spent, Nanos::ZERO, cpu.pace.rate(), || cpu.is_busy());
            if task.is_complete() {
                ends = Some(now.0);
                break;
            }
            cpu.pace.set_cpu(Rate::ratio(change.expect("the end comes").1, 100));
        }
        task.complete();
        prop_assert_eq!(ends, Some(naive(asked, first, cost, &changes)));
    }
}

/// Time at which `asked` nanoseconds of work are done, computed nanosecond by nanosecond. A tick takes `cost` every
/// 40 ns from `first` on.
fn naive(asked: u64, first: u64, cost: u64, changes: &[(u64, u64)]) -> u64 {
    let (mut done, mut handler, mut rate) = (0, 0, Rate::ONE);
    for now in 0.. {
        if done >> 16 >= asked {
            return now;
        }
        if let Some(change) = changes.iter().find(|change| change.0 == now) {
            rate = Rate::ratio(change.1, 100);
        }
        if now >= first && (now - first).is_multiple_of(40) {
            handler = cost;
        }
        if handler > 0 {
            handler -= 1;
        } else {
            done += u64::from(rate.bits());
        }
    }
    unreachable!()
}
