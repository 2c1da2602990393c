// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the formulas in `docs/explanation/machine-model.md` on machines of a few CPUs.

use crate::decay::HALF_LIFE;
use crate::{Processor, Rate, Signal};
use expect_test::expect_file;
use ids::{CpuId, Nanos, Place, Topology};
use machine_model::{Effect, Effects, Estimate, Frequency, Governor, Group, IdleState, Power, Smt};

const MS: u64 = 1_000_000;
const TICK: Nanos = Nanos(MS);

fn exactly(values: &[u64]) -> Vec<Estimate> {
    values.iter().copied().map(Estimate::exactly).collect()
}

fn frequency(mhz: &[u32], governor: Governor) -> Frequency {
    Frequency {
        mhz: mhz.to_vec(),
        turbo_mhz: Vec::new(),
        domain: Group::Core,
        turbo_domain: Group::Machine,
        turbo_us: 1_000,
        governor,
        sampling_us: 10_000,
        transition_us: 0,
        memory_bound_percent: Estimate::exactly(0),
    }
}

fn with(frequency: Frequency) -> Effects {
    Effects { frequency: Some(frequency), ..Effects::default() }
}

fn smt(throughput_percent: &[u64]) -> Effects {
    Effects { smt: Some(Smt { throughput_percent: exactly(throughput_percent) }), ..Effects::default() }
}

/// A processor with `cores` cores of `threads` SMT threads each, below one last-level cache.
fn processor(effects: &Effects, cores: u32, threads: u32, signal: Signal) -> Processor {
    let places = (0..cores * threads).map(|cpu| Place { core: cpu / threads, llc: 0, node: 0 }).collect();
    Processor::new(effects, &Topology::new(places), TICK, signal).expect("effects are modelled")
}

/// Runs the processor's events up to time `to`; returns each change of CPU 0's rate as (time, rate).
fn run_until(processor: &mut Processor, to: u64) -> Vec<(u64, u32)> {
    let mut steps = Vec::new();
    let mut rate = processor.rate(CpuId(0));
    while let Some(due) = processor.next_due().filter(|due| due.0 <= to) {
        processor.run_due(due);
        if processor.rate(CpuId(0)) != rate {
            rate = processor.rate(CpuId(0));
            steps.push((due.0, rate.bits()));
        }
    }
    steps
}

#[test]
fn machine_without_effects_needs_no_processor_model() {
    assert!(Processor::new(&Effects::default(), &Topology::flat(1), TICK, Signal::Targets).is_none());
}

#[test]
fn smt_rate_depends_on_busy_threads_of_the_same_core_only() {
    let mut processor = processor(&smt(&[125, 140]), 2, 3, Signal::Targets);
    let rates = |processor: &Processor| [0, 1, 2, 3].map(|cpu| processor.rate(CpuId(cpu)).bits());
    processor.begin(Nanos(0), CpuId(0), false);
    assert_eq!(rates(&processor)[0], 65_536);
    processor.begin(Nanos(10), CpuId(1), false);
    processor.begin(Nanos(10), CpuId(3), false);
    assert_eq!(rates(&processor), [40_960, 40_960, 40_960, 65_536]);
    processor.begin(Nanos(20), CpuId(2), false);
    assert_eq!(rates(&processor)[..3], [Rate::ratio(140, 300).bits(); 3]);
    let mut changed = Vec::new();
    processor.take_changed(&mut changed);
    processor.end(Nanos(30), CpuId(1));
    processor.take_changed(&mut changed);
    assert_eq!(changed[changed.len() - 2..], [CpuId(0), CpuId(2)]);
    assert_eq!(rates(&processor)[0], 40_960);
}

/// The rate is f/highest for the part of the work that does not wait for memory.
#[test]
fn frequency_scales_only_the_work_not_bound_by_memory() {
    let rate = |percent| {
        let mut table = frequency(&[1_000, 2_000], Governor::Ondemand);
        table.memory_bound_percent = Estimate::exactly(percent);
        processor(&with(table), 1, 1, Signal::Targets).rate(CpuId(0))
    };
    assert_eq!(rate(0), Rate::ratio(1, 2));
    // 1 / (0.8 * 2 + 0.2)
    assert_eq!(rate(20), Rate::ratio(100, 180));
    assert_eq!(rate(100), Rate::ONE);
}

#[test]
fn rate_is_scaled_by_core_capacity() {
    let topology = Topology { capacities: vec![1024, 512], ..Topology::flat(2) };
    let effects = Effects { capacity: true, ..with(frequency(&[1_000], Governor::Performance)) };
    let processor = Processor::new(&effects, &topology, TICK, Signal::Targets).unwrap();
    assert_eq!([0, 1].map(|cpu| processor.rate(CpuId(cpu))), [Rate::ONE, Rate::ratio(1, 2)]);
}

/// The frequency rises from the lowest to the highest after one busy sample, and falls after a sample with idle time.
/// Each sample begins just before the CPU becomes busy: 10 ms after a timer that was due while the CPU was idle.
#[test]
fn ondemand_reaches_the_highest_frequency_after_one_sample() {
    let mut processor = processor(&with(frequency(&[1_000, 1_500, 3_000], Governor::Ondemand)), 1, 1, Signal::Targets);
    processor.begin(Nanos(0), CpuId(0), false);
    assert_eq!(run_until(&mut processor, 100 * MS), [(10 * MS, 65_536)]);
    // 60 % of a sample at 3000 MHz is a load of 92 % at 1957 MHz; 40 %, at 1304 MHz.
    processor.end(Nanos(106 * MS), CpuId(0));
    processor.begin(Nanos(110 * MS - 1), CpuId(0), false);
    assert_eq!(run_until(&mut processor, 110 * MS), []);
    processor.end(Nanos(114 * MS), CpuId(0));
    processor.begin(Nanos(120 * MS - 1), CpuId(0), false);
    assert_eq!(run_until(&mut processor, 120 * MS), [(120 * MS, 32_768)]);
}

#[test]
fn ondemand_does_not_wake_an_idle_cpu() {
    let mut processor = processor(&with(frequency(&[1_000, 3_000], Governor::Ondemand)), 1, 1, Signal::Targets);
    processor.begin(Nanos(0), CpuId(0), false);
    processor.end(Nanos(MS), CpuId(0));
    run_until(&mut processor, 10_000 * MS);
    assert_eq!(processor.next_due(), None);
    // The sample taken immediately at the wakeup saw an idle CPU.
    processor.begin(Nanos(20_000 * MS), CpuId(0), false);
    assert_eq!(run_until(&mut processor, 20_100 * MS), [(20_010 * MS, 65_536)]);
}

/// Each sample raises the requested frequency by 5 % of the highest one: from 1000 to 2000 MHz in ten samples, of
/// which every fifth reaches a state.
#[test]
fn conservative_rises_5_percent_per_sample() {
    let mut processor =
        processor(&with(frequency(&[1_000, 1_500, 2_000], Governor::Conservative)), 1, 1, Signal::Targets);
    processor.begin(Nanos(0), CpuId(0), false);
    let steps = run_until(&mut processor, 200 * MS);
    assert_eq!(steps, [(50 * MS, 49_152), (100 * MS, 65_536)]);
    processor.end(Nanos(200 * MS), CpuId(0));
    // A load of 2 % lowers the requested frequency by 5 % at each sample.
    let mut now = 200 * MS;
    let mut fell = Vec::new();
    while now < 900 * MS {
        processor.begin(Nanos(now + 9_700_000), CpuId(0), false);
        fell.extend(run_until(&mut processor, now + 10 * MS));
        now += 10 * MS;
        processor.end(Nanos(now + 100_000), CpuId(0));
    }
    assert_eq!(fell.iter().map(|step| step.1).collect::<Vec<_>>(), [49_152, 32_768]);
    let between = fell[1].0 - fell[0].0;
    assert_eq!(between, 5 * 10 * MS, "five steps of a sample each");
}

/// The utilization of an always busy CPU is 1 - 2^(-t/32), and schedutil requests 1.25 times that: the highest
/// frequency at 0.8, after 74.3 PELT periods. On a machine whose two frequencies differ by 0.1 %, frequency
/// invariance hardly changes this.
#[test]
fn schedutil_reaches_the_highest_frequency_after_74_periods() {
    let mut table = frequency(&[999_000, 1_000_000], Governor::Schedutil);
    table.sampling_us = 0;
    let mut processor = processor(&with(table), 1, 1, Signal::Utilization);
    processor.begin(Nanos(0), CpuId(0), false);
    let steps = run_until(&mut processor, 200 * MS);
    // Utilization 0.8 * 0.999; noticed at the next tick.
    let exact = HALF_LIFE.0 as f64 * (1.0 - 0.8 * 0.999f64).log2().abs();
    let tick = (exact / MS as f64).ceil() as u64 * MS;
    assert_eq!(steps.iter().map(|step| step.0).collect::<Vec<_>>(), [tick]);
    assert!((tick as f64 / 1_048_576.0 - 74.3).abs() < 1.0);
}

/// Starting at the lowest frequency the ramp takes longer, since execution at a low frequency counts less.
#[test]
fn schedutil_ramp_is_slower_from_a_low_frequency() {
    let states: Vec<u32> = (1..=20).map(|step| step * 100).collect();
    let mut processor = processor(&with(frequency(&states, Governor::Schedutil)), 1, 1, Signal::Utilization);
    processor.begin(Nanos(0), CpuId(0), false);
    let steps = run_until(&mut processor, 2_000 * MS);
    assert!(steps.is_sorted_by_key(|step| step.1) && steps.last().unwrap().1 == 65_536);
    assert!(steps.last().unwrap().0 > 100 * MS, "{steps:?}");
    // Not lowered after 1 ns of idleness, but after half a second.
    processor.end(Nanos(2_000 * MS), CpuId(0));
    processor.begin(Nanos(2_000 * MS + 1), CpuId(0), false);
    assert_eq!(processor.rate(CpuId(0)), Rate::ONE);
    processor.end(Nanos(2_001 * MS), CpuId(0));
    processor.begin(Nanos(2_500 * MS), CpuId(0), false);
    assert!(processor.rate(CpuId(0)) < Rate::ratio(1, 10));
}

/// A sched_ext scheduler that never sets a target gets the highest frequency; one that sets a target gets 1.25 times
/// the target.
#[test]
fn schedutil_follows_sched_ext_targets() {
    let mut table = frequency(&[1_000, 2_000, 3_000, 4_000], Governor::Schedutil);
    table.transition_us = 500;
    table.sampling_us = 1_000;
    let mut processor = processor(&with(table), 2, 1, Signal::Targets);
    processor.begin(Nanos(0), CpuId(0), false);
    assert_eq!((processor.rate(CpuId(0)), processor.next_due()), (Rate::ONE, None));
    processor.set_target(Nanos(MS), CpuId(0), 512);
    assert_eq!(run_until(&mut processor, 10 * MS), [(MS + 500_000, 49_152)]);
    assert_eq!((processor.performance(CpuId(0)), processor.performance(CpuId(1))), (768, 1024));
    processor.set_target(Nanos(10 * MS), CpuId(0), 0);
    processor.set_target(Nanos(10 * MS + 100_000), CpuId(0), 1024);
    // The second request arrives within the rate limit, and is deferred to its end.
    assert_eq!(run_until(&mut processor, 20 * MS), [(10 * MS + 500_000, 16_384), (11 * MS + 500_000, 65_536)]);
}

/// The turbo frequency depends on the number of active cores. An idle core counts as active until it is in a deep
/// idle state; the hardware counts once per millisecond.
#[test]
fn turbo_frequency_falls_with_active_cores() {
    let mut table = frequency(&[1_000, 2_000], Governor::Performance);
    table.turbo_mhz = exactly(&[4_000, 3_000, 2_500]);
    let mut processor = processor(&with(table), 4, 1, Signal::Targets);
    processor.begin(Nanos(0), CpuId(0), false);
    assert_eq!(run_until(&mut processor, 5 * MS), []);
    processor.begin(Nanos(5 * MS + 1), CpuId(1), false);
    assert_eq!(run_until(&mut processor, 9 * MS), [(6 * MS, Rate::ratio(3, 4).bits())]);
    processor.begin(Nanos(9 * MS), CpuId(2), false);
    processor.begin(Nanos(9 * MS), CpuId(3), false);
    assert_eq!(run_until(&mut processor, 20 * MS), [(10 * MS, Rate::ratio(5, 8).bits())]);
    (1..=3).for_each(|cpu| processor.end(Nanos(20 * MS), CpuId(cpu)));
    assert_eq!(run_until(&mut processor, 30 * MS), [(21 * MS, 65_536)]);
}

fn states() -> Vec<IdleState> {
    let state = |name: &str, exit_ns, residency_ns, deep, percent| IdleState {
        name: name.to_owned(),
        exit_ns: Estimate::exactly(exit_ns),
        residency_ns,
        deep,
        power_percent: Estimate::exactly(percent),
    };
    vec![state("C1", 2_000, 2_000, false, 40), state("C6", 133_000, 600_000, true, 0)]
}

#[test]
fn exit_latency_is_that_of_the_predicted_idle_state() {
    let effects = Effects { idle_states: states(), ..Effects::default() };
    let mut processor = processor(&effects, 1, 2, Signal::Targets);
    let mut now = 10 * MS;
    let mut wake = |after: u64, busy: u64, own: bool| {
        let exit = processor.begin(Nanos(now + after), CpuId(0), own);
        processor.end(Nanos(now + after + busy), CpuId(0));
        now += after + busy;
        exit.unwrap().0
    };
    assert_eq!(wake(MS, 10, false), 133_000, "empty history");
    // The prediction is half the mean of the last 8 idle times: the first ones of 10 ms, the later ones of 0.1 ms.
    let exits: Vec<u64> = (0..16).map(|_| wake(100_000, 10, false)).collect();
    assert_eq!(exits.iter().filter(|&&exit| exit == 133_000).count(), 8, "{exits:?}");
    assert_eq!(exits[8..], [2_000; 8]);
    // Idle for longer than a tick: the CPU has chosen a deeper state meanwhile.
    assert_eq!(wake(MS + 1, 10, false), 133_000);
    assert_eq!(wake(100_000, 10, true), 2_000, "the own timer is predicted");
    // A busy sibling keeps the core out of idle states.
    processor.begin(Nanos(now + 1), CpuId(1), false);
    assert_eq!(processor.begin(Nanos(now + 900 * MS), CpuId(0), false), Some(Nanos(2_000)));
}

#[test]
fn idle_core_in_a_light_state_limits_turbo_until_the_next_tick() {
    let mut table = frequency(&[1_000], Governor::Performance);
    table.turbo_mhz = exactly(&[4_000, 2_000]);
    table.turbo_us = 100;
    let effects = Effects { idle_states: states(), ..with(table) };
    let mut processor = processor(&effects, 2, 1, Signal::Targets);
    processor.begin(Nanos(0), CpuId(0), false);
    for now in (0..20).map(|step| step * 200_000) {
        run_until(&mut processor, now + 100_000);
        processor.begin(Nanos(now + 100_000), CpuId(1), false);
        run_until(&mut processor, now + 200_000);
        processor.end(Nanos(now + 200_000), CpuId(1));
    }
    run_until(&mut processor, 4 * MS);
    assert_eq!(processor.rate(CpuId(0)), Rate::ratio(1, 2));
    // The CPU chooses the deep state after a tick; the hardware then restarts its count.
    assert_eq!(run_until(&mut processor, 10 * MS), [(5 * MS + 100_000, 65_536)]);
}

fn power(idle: u64, slope: u64) -> Power {
    Power { idle_percent: Estimate::exactly(idle), voltage_slope_percent: Estimate::exactly(slope) }
}

/// n busy cores of 4 consume a + b * n: with idle cores that consume nothing and a third for the rest of the machine,
/// 1/3 + 2/3 * n/4.
#[test]
fn energy_is_linear_in_the_number_of_busy_cores() {
    let ratio = |hogs: u32| {
        let mut table = frequency(&[2_000], Governor::Performance);
        table.domain = Group::Machine;
        let effects = Effects { power: Some(power(33, 50)), ..with(table) };
        let mut processor = processor(&effects, 4, 1, Signal::Targets);
        for cpu in 0..hogs {
            processor.begin(Nanos(0), CpuId(cpu), false);
        }
        processor.energy_ratio_ppm(Nanos(MS)).unwrap()
    };
    assert_eq!([0, 1, 2, 3, 4].map(ratio), [329_999, 497_499, 664_999, 832_499, 1_000_000]);
}

/// Energy of a fixed amount of work W is W/f * (P_u + P_c(f)) with P_c = f V^2: it is minimal at the state nearest to
/// where f * P_c' = P_u + P_c, which is neither the lowest nor the highest.
#[test]
fn energy_per_work_is_minimal_at_the_predicted_frequency() {
    let states: Vec<u32> = (4..=20).map(|step| step * 100).collect();
    let base = 2_000.0;
    let (idle, slope) = (30, 70);
    let took = |mhz: u32| {
        let mut table = frequency(&[mhz, 2_000], Governor::Ondemand);
        table.sampling_us = 1 << 40;
        let effects = Effects { power: Some(power(idle, slope)), ..with(table) };
        let mut processor = processor(&effects, 1, 1, Signal::Targets);
        processor.begin(Nanos(0), CpuId(0), false);
        processor.run_due(Nanos(0));
        let time = processor.rate(CpuId(0)).time_for(Nanos(100 * MS), crate::Part::default());
        processor.energy_ratio_ppm(time).unwrap() as f64 * time.0 as f64
    };
    let (rest, s) = (f64::from(idle as u32) / f64::from(100 - idle as u32), slope as f64 / 100.0);
    let core = |f: f64| f * (1.0 - s + s * f).powi(2);
    for &mhz in &states {
        let f = f64::from(mhz) / base;
        let formula = 100e6 / f * (rest + core(f)) / (1.0 + rest) * 1e6;
        assert!((took(mhz) / formula - 1.0).abs() < 1e-4, "{mhz}: {} {formula}", took(mhz));
    }
    let least = *states.iter().min_by(|a, b| took(**a).total_cmp(&took(**b))).unwrap();
    // Root of f * P' - P_u - P by bisection.
    let slope_at = |f: f64| (core(f + 1e-6) - core(f - 1e-6)) / 2e-6;
    let (mut low, mut high) = (0.01, 1.0);
    for _ in 0..60 {
        let f = (low + high) / 2.0;
        if f * slope_at(f) < rest + core(f) { low = f } else { high = f }
    }
    assert!((f64::from(least) / base - low).abs() <= 0.05 && (400..2_000).contains(&least), "{least} {low}");
}

/// Generates the table of `docs/explanation/machine-model.md`, and checks that each test it names exists.
#[test]
fn documented_table_of_effects_matches_code() {
    const DOCUMENT: &str = include_str!("../../../docs/explanation/machine-model.md");
    const SOURCES: [&str; 13] = [
        include_str!("tests.rs"),
        include_str!("decay.rs"),
        include_str!("../../simulator/src/speed_tests.rs"),
        include_str!("../../memory/src/tests.rs"),
        include_str!("../../simulator/src/memory_tests.rs"),
        include_str!("../../simulator/src/locks_tests.rs"),
        include_str!("../../simulator/tests/suite/critical_sections.rs"),
        include_str!("../../simulator/tests/suite/disks.rs"),
        include_str!("../../simulator/tests/suite/networks.rs"),
        include_str!("../../simulator/tests/suite/page_cache.rs"),
        include_str!("../../simulator/tests/suite/tlb.rs"),
        include_str!("../../devices/src/network.rs"),
        include_str!("../../devices/src/page_cache.rs"),
    ];
    let mut table = "<!-- table -->\n| effect | verified | validated here | validated by published data |\n".to_owned();
    table += "|---|---|---|---|\n";
    for effect in Effect::ALL {
        let standing = effect.standing();
        for test in standing.verified {
            let function = format!("    fn {test}()");
            let exists = SOURCES.iter().any(|source| source.contains(function.trim_start()));
            assert!(exists, "{effect}: no test {test}");
        }
        let tests: Vec<String> = standing.verified.iter().map(|test| format!("`{test}`")).collect();
        let or_none = |text: Option<&'static str>| text.unwrap_or("no");
        let (here, published) = (or_none(standing.validated_here), or_none(standing.published));
        table += &format!("| `{effect}` | {} | {here} | {published} |\n", tests.join(", "));
    }
    let (before, rest) = DOCUMENT.split_once("<!-- table -->").expect("a marker before the table");
    let (_, after) = rest.split_once("<!-- end of the table -->").expect("a marker after the table");
    expect_file!["../../../docs/explanation/machine-model.md"]
        .assert_eq(&format!("{before}{table}<!-- end of the table -->{after}"));
}
