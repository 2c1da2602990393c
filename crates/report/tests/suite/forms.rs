// SPDX-License-Identifier: GPL-2.0-only
//! Reports in the forms that authors of schedulers printed, held against their posts.

use crate::common::run;
use expect_test::expect;
use ids::{CpuId, CpuSet, Nanos, Policy};
use measures::{AffinityChange, Histogram, Hotplug, Periods};
use report::{Film, Level, RunReport, Sanity};

/// A run with these times of a build, in milliseconds.
fn build(scheduler: &str, workload: &str, [real, user, system]: [u64; 3]) -> RunReport {
    let mut run = run(scheduler, real, 10);
    run.tags.workload = workload.to_owned();
    run.measures.tasks.truncate(1);
    run.measures.tasks[0].kernel_thread = false;
    run.measures.tasks[0].account.run = Nanos::from_ms(user + system);
    run.measures.work = Some(Nanos::from_ms(user + system));
    run.measures.system_work = Some(Nanos::from_ms(system));
    (run.measures.cpu.scheduler, run.measures.cpu.stolen) = (Nanos::ZERO, Nanos::ZERO);
    run
}

/// The first lines of the listing of 24 August 2015, and the means of its rounds (bash prints tabs).
#[test]
fn sanity_listing_has_the_lines_of_the_post() {
    let level = |percent| Level { percent, workload: format!("build,load={percent}") };
    let test =
        Sanity { title: "sanity test".to_owned(), policy: "Batch".to_owned(), levels: vec![level(50), level(300)] };
    let runs = [
        build("cfs", "build,load=50", [280_652, 519_005, 35_902]),
        build("cfs", "build,load=50", [280_688, 519_100, 35_892]),
        build("cfs", "build,load=300", [159_867, 569_286, 41_574]),
        build("bfs", "build,load=50", [285_965, 533_304, 32_862]),
        build("bfs", "build,load=300", [157_935, 564_762, 35_681]),
        build("bfs", "other", [1_000, 1, 1]),
    ];
    expect![[r#"
        cfs on laptop-2c4t, sanity test

        >>>>>spining up
        >>>>>50% workload
        >>>>>round 1
        real	4m40.652s
        user	8m39.005s
        sys	0m35.902s
        >>>>>round 2
        real	4m40.688s
        user	8m39.100s
        sys	0m35.892s
        >>>>>300% workload
        >>>>>round 1
        real	2m39.867s
        user	9m29.286s
        sys	0m41.574s

        bfs on laptop-2c4t, sanity test

        >>>>>spining up
        >>>>>50% workload
        >>>>>round 1
        real	4m45.965s
        user	8m53.304s
        sys	0m32.862s
        >>>>>300% workload
        >>>>>round 1
        real	2m37.935s
        user	9m24.762s
        sys	0m35.681s

        real, mean        cfs               bfs
        50%         4m40.670s  4m45.965s +1.9 %
        300%        2m39.867s  2m37.935s -1.2 %

        Batch policy 300% workload compile benchmark:
        cfs -- 2m39.867s
        bfs -- 2m37.935s
    "#]]
    .assert_eq(&report::sanity(&test, &runs));
}

/// The rows of 18 and 21 January 2012: user, system and total, and the totals of three tests.
#[test]
fn manycore_rows_have_the_form_of_the_post() {
    let workloads = ["remote-mk", "ramfs-copy", "ramfs-mk"].map(str::to_owned);
    let mut unfinished = build("amp", "ramfs-mk", [1_000, 1, 2]);
    unfinished.measures.makespan = None;
    let runs = [
        build("single", "ramfs-copy", [1_921, 233, 1_626]),
        build("single", "remote-mk", [14_034, 7_036, 50_746]),
        build("single", "ramfs-mk", [10_458, 7_663, 63_668]),
        build("amp", "remote-mk", [10_170, 1, 2]),
        unfinished,
    ];
    expect![[r#"
        - single on laptop-2c4t for 1 cores:
        - 1/output:times 7.036 50.746 14.034
        - 2/output:times 0.233 1.626 1.921
        - 3/output:times 7.663 63.668 10.458
        - amp on laptop-2c4t for 1 cores:
        - 4/output:times 0.001 0.002 10.17
        - 5/output:times 0.001 0.002 -

        Times are user, system and total in seconds. Rows: mean total time of remote-mk,
          ramfs-copy, ramfs-mk.

        14.034 1.921 10.458 single sched. 1 cores.
        10.17 - - amp sched. 1 cores.
    "#]]
    .assert_eq(&report::manycore(&workloads, &runs));
}

/// A run of a film whose pictures took these times from their due time, in milliseconds.
fn film(scheduler: &str, responses_ms: &[u64]) -> RunReport {
    let mut run = run(scheduler, 1_000, 10);
    run.tags.workload = "a=film-25+build".to_owned();
    let mut periods = Periods::default();
    responses_ms.iter().for_each(|&ms| periods.end(Nanos::from_ms(40), Nanos::from_ms(ms)));
    run.measures.tasks[1].name = "a/display".to_owned();
    run.measures.tasks[1].periods = Some(Box::new(periods));
    run
}

#[test]
fn film_report_counts_shown_and_late_pictures() {
    let film_25 = Film {
        workload: "a=film-25+build".to_owned(),
        label: Some("a".to_owned()),
        name: "film-25".to_owned(),
        pictures: 50,
    };
    let runs = [film("bfs", &[10; 50]), film("bfs", &[10; 50]), film("fifo", &[[10; 25], [65; 25]].concat()[..30])];
    expect![[r#"
        film-25 under bfs
        V: 00:00:02 / 00:00:02 (100%)
        film-25 under fifo
        V: 00:00:01 / 00:00:02 (60%) Dropped: 5

        film     scheduler  runs    pictures  late    worst  runs with late
        film-25        bfs     2  100 of 100     0        -               0
        film-25       fifo     1    30 of 50     5  25.0 ms               1
    "#]]
    .assert_eq(&report::films(std::slice::from_ref(&film_25), &runs));
    assert_eq!(report::films(&[film_25], &[run("bfs", 1_000, 10)]), "", "no film in this run");
    assert_eq!(report::films(&[], &runs), "");
}

/// 10 May 2015: after CPU 1 was offline, the task that may run on it alone may run on both CPUs.
#[test]
fn hotplug_session_shows_the_mask_before_and_after() {
    let mask = |cpus: &str| cpus.parse::<CpuSet>().unwrap();
    let change = |ms, from: &str, to: &str| AffinityChange { time: Nanos::from_ms(ms), from: mask(from), to: mask(to) };
    let hotplug = |ms, cpu, online| Hotplug { time: Nanos::from_ms(ms), cpu: CpuId(cpu), online };
    let mut run = run("bfs", 1_000, 10);
    run.measures.hotplugs = vec![hotplug(0, 7, false), hotplug(100, 1, false), hotplug(200, 1, true)];
    assert_eq!(report::affinities(std::slice::from_ref(&run)), "", "no mask changed");
    // Its own change is no effect of the hotplug.
    run.measures.tasks[0].affinity_changes = vec![change(50, "0-1", "0")];
    assert_eq!(report::affinities(std::slice::from_ref(&run)), "");
    for task in [1, 2] {
        run.measures.tasks[task].affinity_changes = vec![change(92, "1", "0-1")];
        run.measures.tasks[task].kernel_thread = false;
    }
    (run.measures.tasks[1].name, run.measures.tasks[1].pid) = ("pinned".to_owned(), 1388);
    expect![[r#"
        bfs on laptop-2c4t: affinity of pinned, the first of 2 tasks whose mask changed
        # schedtool 1388
        PID  1388: AFFINITY 0x2
        # echo 0 > /sys/devices/system/cpu/cpu1/online    (done at 100 ms)
        # schedtool 1388
        PID  1388: AFFINITY 0x3
        # echo 1 > /sys/devices/system/cpu/cpu1/online    (done at 200 ms)
        # schedtool 1388
        PID  1388: AFFINITY 0x3
    "#]]
    .assert_eq(&report::affinities(&[run]));
}

/// The form of 10 December 2015; thread 0 has the shortest interval in any order of the tasks.
#[test]
fn cyclictest_listing_has_the_lines_of_the_post() {
    let mut run = run("bfs", 1_000, 10);
    run.measures.tasks.truncate(2);
    for (task, (us, pid)) in run.measures.tasks.iter_mut().zip([(10_500, 1537), (10_000, 1536)]) {
        let mut periods = Periods::default();
        periods.end(Nanos::from_us(us), Nanos(1));
        let mut latencies: Histogram<6> = Histogram::new();
        latencies.record(Nanos(1_437));
        (task.pid, task.policy, task.kernel_thread) = (pid, Policy::Fifo(80), false);
        (task.wakeup_latency, task.wakeup_latencies) = (latencies.summary(), latencies);
        (task.last_latency, task.periods) = (Nanos(1_437), Some(Box::new(periods)));
    }
    run.tags.cpu_dma_latency_us = Some(0);
    let text = report::cyclictest(&run, None).unwrap();
    expect![[r#"
        bfs on laptop-2c4t, times in ns
        # /dev/cpu_dma_latency set to 0us
        policy: fifo: loadavg: 0.00 0.00 0.00 0/2 1537

        T: 0 ( 1536) P:80 I:10000 C:      1 Min:   1437 Act:    1437 Avg:    1437 Max:    1437
        T: 1 ( 1537) P:80 I:10500 C:      1 Min:   1437 Act:    1437 Avg:    1437 Max:    1437
    "#]]
    .assert_eq(&text);
    run.tags.cpu_dma_latency_us = None;
    assert!(!report::cyclictest(&run, None).unwrap().contains("cpu_dma_latency"));
}
