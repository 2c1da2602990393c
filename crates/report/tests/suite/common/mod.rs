// SPDX-License-Identifier: GPL-2.0-only
//! Sample runs for report tests.

use expect_test::Expect;
use ids::{CpuSet, Nanos, Policy, TaskId};
use measures::{
    CpuAccount, Histogram, LatencySummary, LoadAverage, Migrations, PeriodSummary, RunMeasures, TaskAccount,
    TaskMeasures,
};
use report::{Ending, Exit, RunReport, Tags, World};

/// A latency summary with typical ratios between its percentiles.
pub fn latency(count: u64, us: u64) -> LatencySummary {
    let [mean, p50, p90, p99, p999, max] = [2, 1, 3, 10, 40, 90].map(|factor| Nanos::from_us(us * factor));
    LatencySummary { count, mean, p50, p90, p99, p999, max }
}

/// A histogram with the ratios of [`latency`].
fn waits(us: u64) -> Histogram<3> {
    let mut waits = Histogram::new();
    for (factor, count) in [(1, 50), (3, 40), (10, 9), (40, 1)] {
        (0..count).for_each(|_| waits.record(Nanos::from_us(us * factor)));
    }
    waits
}

/// A task with this run time.
pub fn task(id: u32, name: &str, run_ms: u64) -> TaskMeasures {
    TaskMeasures {
        id: TaskId(id),
        pid: 100 + id,
        name: name.to_owned(),
        kernel_thread: name.starts_with('k'),
        policy: Policy::Other,
        account: TaskAccount {
            work: Nanos::from_ms(run_ms - 1),
            run: Nanos::from_ms(run_ms),
            stolen: Nanos::from_us(12),
            runnable: Nanos::from_us(340),
            blocked: Nanos::from_ms(5),
        },
        cpus_allowed: CpuSet::first_n(4),
        affinity_changes: Vec::new(),
        cpus_used: if id == 9 { "1,3,5,7-9,11".parse().unwrap() } else { CpuSet::first_n(1 + id as usize % 4) },
        wakeup_latency: latency(100, 4 + u64::from(id)),
        wakeup_latencies: Histogram::new(),
        last_latency: Nanos::ZERO,
        periods: None,
        disk: None,
        network: None,
        ended: None,
    }
}

/// Measures of a run with this makespan.
pub fn measures(makespan_ms: u64, us: u64) -> RunMeasures {
    let elapsed = Nanos::from_ms(makespan_ms);
    let (scheduler, stolen) = (Nanos(elapsed.0 / 50), Nanos(elapsed.0 / 100));
    let run = Nanos::from_ms(900);
    let account = CpuAccount { run, idle: elapsed - run - scheduler - stolen, scheduler, stolen, ..Default::default() };
    RunMeasures {
        elapsed,
        makespan: Some(elapsed),
        work: None,
        system_work: None,
        load_average: LoadAverage::default(),
        periods: PeriodSummary::default(),
        context_switches: 123_456 / us,
        wakeups: 45_678,
        idle_while_runnable: Nanos::from_us(us * 100),
        migrations: Migrations { smt: 12, llc: 345 * us, node: 0, far: 0 },
        wakeup_latency: latency(45_600, us),
        run_delay: latency(50_000, us * 2),
        wakeup_latencies: waits(us),
        run_delays: waits(us * 2),
        cpu: account,
        cpus: vec![account],
        hotplugs: Vec::new(),
        bpf_instructions: Some(7_654_321),
        lock_wait: None,
        locks: None,
        energy_ratio_ppm: None,
        slowed: None,
        spin: None,
        reload: None,
        memory: None,
        memory_nodes: None,
        disks: None,
        networks: None,
        page_cache: None,
        interrupts: None,
        requests: Vec::new(),
        parts: Vec::new(),
        groups: Vec::new(),
        tasks: (0..12).map(|id| task(id, if id == 3 { "kworker/u8:1" } else { "cc1" }, 100 - u64::from(id))).collect(),
    }
}

/// A run.
pub fn run(scheduler: &str, makespan_ms: u64, us: u64) -> RunReport {
    let mut measures = measures(makespan_ms, us);
    measures.work = Some(Nanos(measures.tasks.iter().map(|task| task.account.work.0).sum()));
    RunReport {
        tags: Tags {
            scheduler: scheduler.to_owned(),
            object_hash: Some("0123456789abcdef".repeat(2)),
            machine: "laptop-2c4t".to_owned(),
            workload: "build".to_owned(),
            world: World::Sim,
            seed: Some(1),
            draw: Some(0),
            effects: Some(vec!["interrupts".to_owned(), "smt".to_owned()]),
            unvalidated: vec!["smt".to_owned()],
            assumed: vec!["locks".to_owned()],
            machine_caveats: vec!["m.xml: unlike cores are simulated alike".to_owned()],
            workload_caveats: Vec::new(),
            cpu_dma_latency_us: None,
            kernel: "7.2".to_owned(),
            form: Some("instant".to_owned()),
            part: None,
            calls: String::new(),
        },
        ending: Ending::default(),
        log_hash: 0xfeed_0000_0000_0000_0000_0000_0000_0001,
        meter: None,
        measures,
    }
}

/// A run whose scheduler was ejected.
pub fn ejected() -> RunReport {
    let exit = Exit {
        kind: 1026,
        reason: "runnable task stall".to_owned(),
        message: "cc1[17] failed to run for 30.500s".to_owned(),
        dump: "CPU states\n".to_owned(),
        ..Exit::default()
    };
    RunReport { ending: Ending { ejected: Some(exit), ..Ending::default() }, ..run("lazy", 31_000, 3) }
}

/// The same run with seeds 1 to 16: its times vary by at most `spread_ppm` up and down, in a different order for each
/// scheduler.
pub fn seeds(scheduler: &str, makespan_us: u64, us: u64, spread_ppm: u64) -> Vec<RunReport> {
    let order = scheduler.bytes().map(u64::from).sum::<u64>();
    let one = |seed: u64| {
        let mut run = run(scheduler, 1000, us);
        let off = (seed * (2 * (order % 8) + 3) + order) % 17;
        let noisy = |ns: u64| ns + ns / 1_000_000 * spread_ppm * off / 8 - ns / 1_000_000 * spread_ppm;
        run.tags.seed = Some(seed);
        run.measures.makespan = Some(Nanos(noisy(makespan_us * 1000)));
        let latency = &mut run.measures.wakeup_latency;
        latency.mean = Nanos(noisy(latency.mean.0 * 1000) / 1000);
        latency.p99 = Nanos(noisy(latency.p99.0 * 1000) / 1000);
        run
    };
    (1..=16).map(one).collect()
}

/// Compares with the expected text, and checks that no line is wider than 80 columns.
pub fn check(text: &str, expected: Expect) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
        assert_eq!(line, line.trim_end(), "blanks at the end of a line");
    }
    expected.assert_eq(text);
}
