// SPDX-License-Identifier: GPL-2.0-only
//! What the reports look like.

use expect_test::{Expect, expect};
use ids::{CpuSet, Nanos, TaskId};
use measures::{CpuAccount, LatencySummary, Migrations, RunMeasures, TaskAccount, TaskMeasures};
use report::{Ending, Exit, Meter, Record, RunReport, Tags, View, World, read_json, summary, to_csv, to_json, to_text};

fn latency(count: u64, us: u64) -> LatencySummary {
    let [mean, p50, p90, p99, p999, max] = [2, 1, 3, 10, 40, 90].map(|factor| Nanos::from_us(us * factor));
    LatencySummary { count, mean, p50, p90, p99, p999, max }
}

fn task(id: u32, name: &str, run_ms: u64) -> TaskMeasures {
    TaskMeasures {
        id: TaskId(id),
        name: name.to_owned(),
        kernel_thread: name.starts_with('k'),
        account: TaskAccount {
            work: Nanos::from_ms(run_ms - 1),
            run: Nanos::from_ms(run_ms),
            stolen: Nanos::from_us(12),
            runnable: Nanos::from_us(340),
            blocked: Nanos::from_ms(5),
        },
        cpus_allowed: CpuSet::first_n(4),
        cpus_used: if id == 9 { "1,3,5,7-9,11".parse().unwrap() } else { CpuSet::first_n(1 + id as usize % 4) },
        wakeup_latency: latency(100, 4 + u64::from(id)),
    }
}

fn measures(makespan_ms: u64, us: u64) -> RunMeasures {
    let elapsed = Nanos::from_ms(makespan_ms);
    let (scheduler, stolen) = (Nanos(elapsed.0 / 50), Nanos(elapsed.0 / 100));
    let run = Nanos::from_ms(900);
    let account = CpuAccount { run, idle: elapsed - run - scheduler - stolen, scheduler, stolen, ..Default::default() };
    RunMeasures {
        elapsed,
        makespan: Some(elapsed),
        work: None,
        context_switches: 123_456 / us,
        wakeups: 45_678,
        idle_while_runnable: Nanos::from_us(us * 100),
        migrations: Migrations { smt: 12, llc: 345 * us, node: 0, far: 0 },
        wakeup_latency: latency(45_600, us),
        queue_wait: latency(50_000, us * 2),
        cpu: account,
        cpus: vec![account],
        bpf_instructions: Some(7_654_321),
        lock_wait: None,
        locks: None,
        energy_ratio_ppm: None,
        slowed: None,
        tasks: (0..12).map(|id| task(id, if id == 3 { "kworker/u8:1" } else { "cc1" }, 100 - u64::from(id))).collect(),
    }
}

fn run(scheduler: &str, makespan_ms: u64, us: u64) -> RunReport {
    let mut measures = measures(makespan_ms, us);
    measures.work = Some(Nanos(measures.tasks.iter().map(|task| task.account.work.0).sum()));
    RunReport {
        tags: Tags {
            scheduler: scheduler.to_owned(),
            machine: "laptop-2c4t".to_owned(),
            workload: "build".to_owned(),
            world: World::Sim,
            seed: Some(1),
            draw: Some(0),
            effects: Some(vec!["interrupts".to_owned(), "smt".to_owned()]),
            unvalidated: vec!["smt".to_owned()],
            kernel: "7.2".to_owned(),
        },
        ending: Ending::default(),
        log_hash: 0xfeed_0000_0000_0000_0000_0000_0000_0001,
        meter: None,
        measures,
    }
}

fn ejected() -> RunReport {
    let exit = Exit {
        kind: 1026,
        reason: "runnable task stall".to_owned(),
        message: "cc1[17] failed to run for 30.500s".to_owned(),
        dump: "CPU states\n".to_owned(),
        ..Exit::default()
    };
    RunReport { ending: Ending { ejected: Some(exit), ..Ending::default() }, ..run("lazy", 31_000, 3) }
}

fn text_of(runs: &[RunReport]) -> String {
    to_text(runs, View::default())
}

/// The same run with seeds 1 to 16: its times are off by `spread_ppm` at most, up and down, in another order for each
/// scheduler.
fn seeds(scheduler: &str, makespan_us: u64, us: u64, spread_ppm: u64) -> Vec<RunReport> {
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

fn check(text: &str, expected: Expect) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
        assert_eq!(line, line.trim_end(), "blanks at the end of a line");
    }
    expected.assert_eq(text);
}

#[test]
fn one_run() {
    check(
        &summary(&run("bfs@0.360", 1000, 5)),
        expect![[r#"
            bfs@0.360 on laptop-2c4t, workload build, seed 1, kernel 7.2
            completed: all work done after 1.00 s

            CPU time  ██████████████████████████████████████████████████████▓·····
                      █ run 90.0 %  ▓ scheduler 2.0 %  ▒ stolen 1.0 %  · idle 7.0 %
            context switches      24,691 (24,691/s)
            wakeups               45,678 (45,678/s)
            migrations            12 in core, 1,725 in cache, 0 in node, 0 far
            idle while runnable   500 us (0.1 % of the time)
            BPF instructions      7,654,321 (7,654,321/s)
            lock wait             -

            waited for a CPU   count     mean      p50      p90      p99   p99.9     max
            after wakeup      45,600  10.0 us  5.00 us  15.0 us  50.0 us  200 us  450 us
            every time        50,000  20.0 us  10.0 us  30.0 us   100 us  400 us  900 us

            top 10 of 12 tasks      ran  waited    slept      p50      p99  CPUs used
            0 cc1                100 ms  340 us  5.00 ms  4.00 us  40.0 us          0
            1 cc1               99.0 ms  340 us  5.00 ms  5.00 us  50.0 us        0-1
            2 cc1               98.0 ms  340 us  5.00 ms  6.00 us  60.0 us        0-2
            3 [kworker/u8:1]    97.0 ms  340 us  5.00 ms  7.00 us  70.0 us        0-3
            4 cc1               96.0 ms  340 us  5.00 ms  8.00 us  80.0 us          0
            5 cc1               95.0 ms  340 us  5.00 ms  9.00 us  90.0 us        0-1
            6 cc1               94.0 ms  340 us  5.00 ms  10.0 us   100 us        0-2
            7 cc1               93.0 ms  340 us  5.00 ms  11.0 us   110 us        0-3
            8 cc1               92.0 ms  340 us  5.00 ms  12.0 us   120 us          0
            9 cc1               91.0 ms  340 us  5.00 ms  13.0 us   130 us  7 of them

            log hash feed0000000000000000000000000001
        "#]],
    );
}

#[test]
fn one_ejected_run() {
    let text = summary(&ejected());
    check(
        &text.lines().take(5).collect::<Vec<_>>().join("\n"),
        expect![[r#"
            lazy on laptop-2c4t, workload build, seed 1, kernel 7.2
            EJECTED after 31.0 s
              runnable task stall
              cc1[17] failed to run for 30.500s
        "#]],
    );
}

#[test]
fn a_fault_is_said_once() {
    let fault = Some("null pointer at x.bpf.c:7".to_owned());
    let said = |message: &str| {
        let exit = Exit { message: message.to_owned(), fault: fault.clone(), ..ejected().ending.ejected.unwrap() };
        let ending = Ending { ejected: Some(exit), ..Ending::default() };
        summary(&RunReport { ending, ..ejected() }).matches("x.bpf.c:7").count()
    };
    assert_eq!(said("BPF fault in ops.enqueue(): null pointer at x.bpf.c:7"), 1);
    assert_eq!(said("BPF fault"), 1);
}

#[test]
fn two_schedulers() {
    check(
        &text_of(&[run("fifo", 1000, 20), run("bfs", 969, 5)]),
        expect![[r#"
            machine laptop-2c4t, workload build, seed 1, kernel 7.2

            scheduler               fifo       bfs
            makespan              1.00 s   969 ms   -3.1 %
            wakeup mean          40.0 us  10.0 us  -75.0 %
            wakeup p50           20.0 us  5.00 us  -75.0 %
            wakeup p90           60.0 us  15.0 us  -75.0 %
            wakeup p99            200 us  50.0 us  -75.0 %
            wakeup max           1.80 ms   450 us  -75.0 %
            queue wait mean      80.0 us  20.0 us  -75.0 %
            queue wait max       3.60 ms   900 us  -75.0 %
            idle while runnable  2.00 ms   500 us  -75.0 %
            context switches       6,172   24,691     4.0x
            moves in cache         6,900    1,725  -75.0 %
            CPU: idle            70.0 ms  39.9 ms  -43.0 %
            CPU: scheduler       20.0 ms  19.3 ms   -3.1 %
            CPU: stolen          10.0 ms  9.69 ms   -3.1 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, moves in core 12,
              CPU: run 900 ms, BPF instructions 7,654,321.

            One run of each cannot tell chance from cause, so nothing is marked: --seeds 16
              can. weir list measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)
        "#]],
    );
}

#[test]
fn three_schedulers_of_which_one_is_ejected() {
    let long = run("a/very/long/path/to/some/experimental_scheduler.bpf.o", 1040, 4);
    check(
        &text_of(&[run("fifo", 1000, 4), ejected(), long]),
        expect![[r#"
            machine laptop-2c4t, workload build, seed 1, kernel 7.2

            scheduler               fifo      lazy            a/very/l…er.bpf.o
            makespan              1.00 s   31.0 s    31.0x              1.04 s   +4.0 %
            wakeup mean          8.00 us  6.00 us  -25.0 %             8.00 us        =
            wakeup p50           4.00 us  3.00 us  -25.0 %             4.00 us        =
            wakeup p90           12.0 us  9.00 us  -25.0 %             12.0 us        =
            wakeup p99           40.0 us  30.0 us  -25.0 %             40.0 us        =
            wakeup max            360 us   270 us  -25.0 %              360 us        =
            queue wait mean      16.0 us  12.0 us  -25.0 %             16.0 us        =
            queue wait max        720 us   540 us  -25.0 %              720 us        =
            idle while runnable   400 us   300 us  -25.0 %              400 us        =
            context switches      30,864   41,152  +33.3 %              30,864        =
            moves in cache         1,380    1,035  -25.0 %               1,380        =
            CPU: idle            70.0 ms   29.1 s     416x              108 ms  +55.4 %
            CPU: scheduler       20.0 ms   620 ms    31.0x             20.8 ms   +4.0 %
            CPU: stolen          10.0 ms   310 ms    31.0x             10.4 ms   +4.0 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, moves in core 12,
              CPU: run 900 ms, BPF instructions 7,654,321.

            lazy was ejected after 31.0 s:
              runnable task stall
              cc1[17] failed to run for 30.500s
            lazy did not come to its end in all runs, so lazy and fifo did other work.

            One run of each cannot tell chance from cause, so nothing is marked: --seeds 16
              can. weir list measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)
        "#]],
    );
}

#[test]
fn schedulers_on_two_machines_are_compared_on_each() {
    let on = |machine: &str, mut run: RunReport| {
        run.tags.machine = machine.to_owned();
        run
    };
    let runs = [
        on("desktop-4c", run("fifo", 1000, 4)),
        on("laptop-2c4t", run("fifo", 2000, 4)),
        on("desktop-4c", run("bfs", 990, 4)),
        on("laptop-2c4t", run("bfs", 2000, 4)),
    ];
    let text = text_of(&runs);
    let sentences: Vec<&str> = text.lines().filter(|line| line.contains("machine") || line.contains("bfs ")).collect();
    check(
        &sentences.join("\n"),
        expect![[r#"
            machine desktop-4c, workload build, seed 1, kernel 7.2
            bfs    990 ms  -1.0 %    8.00 us       =    40.0 us       =     400 us       =
            machine laptop-2c4t, workload build, seed 1, kernel 7.2
            bfs    2.00 s       =    8.00 us       =    40.0 us       =     400 us       =
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)"#]],
    );
}

#[test]
fn one_scheduler_on_two_machines_compares_the_machines() {
    let mut other = run("fifo", 950, 4);
    other.tags.machine = "server-64".to_owned();
    let text = text_of(&[run("fifo", 1000, 4), other]);
    check(
        &text.lines().take(4).collect::<Vec<_>>().join("\n"),
        expect![[r#"
            scheduler fifo, workload build, seed 1, kernel 7.2

            machine         laptop-2c4t  server-64
            makespan             1.00 s    950 ms   -5.0 %"#]],
    );
}

#[test]
fn a_run_without_an_end_is_compared_by_its_work() {
    let endless = |name: &str, extra_ms: u64| {
        let mut run = run(name, 1000, 4);
        run.measures.makespan = None;
        *run.measures.work.as_mut().unwrap() += Nanos::from_ms(extra_ms);
        run
    };
    let text = text_of(&[endless("fifo", 0), endless("bfs", 50)]);
    check(
        &text,
        expect![[r#"
            machine laptop-2c4t, workload build, seed 1, kernel 7.2

            scheduler    fifo      bfs
            work done  1.12 s  1.17 s   +4.5 %

            The same to 0.1 %: elapsed 1.00 s, wakeup mean 8.00 us, wakeup p50 4.00 us,
              wakeup p90 12.0 us, wakeup p99 40.0 us, wakeup max 360 us,
              queue wait mean 16.0 us, queue wait max 720 us, idle while runnable 400 us,
              context switches 30,864, wakeups 45,678, moves in core 12,
              moves in cache 1,380, CPU: run 900 ms, CPU: idle 70.0 ms,
              CPU: scheduler 20.0 ms, CPU: stolen 10.0 ms, BPF instructions 7,654,321.

            One run of each cannot tell chance from cause, so nothing is marked: --seeds 16
              can. weir list measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)
        "#]],
    );
}

#[test]
fn refusals_are_said() {
    let ending = Ending { failed_forks: 2, refused_changes: 1000, ..Ending::default() };
    let refused = RunReport { ending, ..run("bfs", 1000, 4) };
    let said = |text: &str| text.lines().filter(|line| line.contains("refused")).collect::<Vec<_>>().join("\n");
    check(
        &said(&summary(&refused)),
        expect![[r#"
        2 forks failed: the scheduler refused new tasks
        1,000 changes of affinity, policy or nice value refused"#]],
    );
    check(
        &said(&text_of(&[run("fifo", 1000, 4), refused])),
        expect![[r#"
        bfs: 2 forks failed: the scheduler refused new tasks
        bfs: 1,000 changes of affinity, policy or nice value refused"#]],
    );
}

#[test]
fn a_deadlock_is_not_called_completed() {
    let ending = Ending { deadlocked: true, ..Ending::default() };
    let mut stuck = RunReport { ending, ..run("bfs", 1000, 4) };
    stuck.measures.makespan = None;
    let said = |text: &str| text.lines().find(|line| line.contains("DEADLOCK")).unwrap().to_owned();
    check(
        &said(&summary(&stuck)),
        expect!["DEADLOCK after 1.00 s: the tasks that are left wait for each other for ever"],
    );
    check(
        &said(&text_of(&[run("fifo", 1000, 4), stuck])),
        expect!["bfs: DEADLOCK after 1.00 s: the tasks that are left wait for each other for ever"],
    );
}

#[test]
fn json_keeps_the_contract() {
    let mut run = ejected();
    run.measures.tasks.truncate(1);
    run.measures.makespan = None;
    expect![[r#"
        {
          "weir": 1,
          "runs": [
            {
              "scheduler": "lazy",
              "machine": "laptop-2c4t",
              "workload": "build",
              "world": "sim",
              "seed": 1,
              "draw": 0,
              "effects": [
                "interrupts",
                "smt"
              ],
              "unvalidated": [
                "smt"
              ],
              "kernel": "7.2",
              "outcome": "ejected",
              "exit": {
                "kind": 1026,
                "code": 0,
                "reason": "runnable task stall",
                "message": "cc1[17] failed to run for 30.500s",
                "fault": null,
                "op": null,
                "kfunc": null,
                "file": null,
                "line": null,
                "dump": "CPU states\n"
              },
              "command_status": null,
              "log_hash": "feed0000000000000000000000000001",
              "makespan_ns": null,
              "elapsed_ns": 31000000000,
              "work_ns": 1122000000,
              "wakeup_latency_ns": {
                "mean": 6000,
                "p50": 3000,
                "p90": 9000,
                "p99": 30000,
                "p999": 120000,
                "max": 270000,
                "count": 45600
              },
              "queue_wait_ns": {
                "mean": 12000,
                "p50": 6000,
                "p90": 18000,
                "p99": 60000,
                "p999": 240000,
                "max": 540000,
                "count": 50000
              },
              "idle_while_runnable_ns": 300000,
              "context_switches": 41152,
              "wakeups": 45678,
              "migrations": {
                "smt": 12,
                "llc": 1035,
                "node": 0,
                "far": 0
              },
              "cpu_ns": {
                "run": 900000000,
                "idle": 29170000000,
                "scheduler": 620000000,
                "stolen": 310000000,
                "offline": 0
              },
              "run_ns": {
                "slowed": null
              },
              "energy_ratio_ppm": null,
              "bpf_instructions": 7654321,
              "lock_wait_ns": null,
              "deadlocked": false,
              "failed_forks": 0,
              "refused_changes": 0,
              "restarts": 0,
              "meter": null,
              "locks": null,
              "tasks": [
                {
                  "id": 0,
                  "name": "cc1",
                  "kernel_thread": false,
                  "work_ns": 99000000,
                  "cpu_ns": 100000000,
                  "stolen_ns": 12000,
                  "runnable_ns": 340000,
                  "blocked_ns": 5000000,
                  "cpus_allowed": "0-3",
                  "cpus_used": "0",
                  "wakeup_latency_ns": {
                    "count": 100,
                    "mean": 8000,
                    "p50": 4000,
                    "p90": 12000,
                    "p99": 40000,
                    "p999": 160000,
                    "max": 360000
                  }
                }
              ]
            }
          ],
          "comparisons": []
        }
    "#]]
    .assert_eq(&to_json(&[run]));
}

#[test]
fn sixteen_seeds_of_two_schedulers() {
    let runs = [seeds("fifo", 1_000_000, 20, 10_000), seeds("bfs", 969_000, 5, 10_000)].concat();
    check(
        &text_of(&runs),
        expect![[r#"
            machine laptop-2c4t, workload build, seeds 1-16, kernel 7.2

            scheduler               fifo       bfs
            makespan              999 ms   968 ms   -3.0 % ✓      -3.5 to -2.6 %
            wakeup mean          39.9 us  9.99 us  -75.0 % ✓    -75.1 to -74.9 %
            wakeup p50           20.0 us  5.00 us  -75.0 % ✓    -75.0 to -75.0 %
            wakeup p90           60.0 us  15.0 us  -75.0 % ✓    -75.0 to -75.0 %
            wakeup p99            199 us  49.9 us  -75.0 % ✓    -75.1 to -74.9 %
            wakeup max           1.80 ms   450 us  -75.0 % ✓    -75.0 to -75.0 %
            queue wait mean      80.0 us  20.0 us  -75.0 % ✓    -75.0 to -75.0 %
            queue wait max       3.60 ms   900 us  -75.0 % ✓    -75.0 to -75.0 %
            idle while runnable  2.00 ms   500 us  -75.0 % ✓    -75.0 to -75.0 %
            context switches       6,172   24,691     4.0x          4.0x to 4.0x
            moves in cache         6,900    1,725  -75.0 %      -75.0 to -75.0 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, moves in core 12,
              CPU: run 900 ms, CPU: idle 70.0 ms, CPU: scheduler 20.0 ms,
              CPU: stolen 10.0 ms, BPF instructions 7,654,321.

            Against fifo, bfs finishes 3.0 % sooner, lets woken tasks wait 4.0 times less on
              average and has a 4.0 times shorter wait at p99.

            Values are medians of all seeds. Beside them: the typical difference between two
              runs with the same seed, and its range. ✓ better, ✗ worse: the range of the
              difference excludes zero. Of tables in which nothing differs, at most 5 % have
              a mark. weir list measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)
        "#]],
    );
}

#[test]
fn what_the_runs_cannot_tell_is_said() {
    let runs = [seeds("fifo", 1_000_000, 20, 40_000), seeds("bfs", 1_004_000, 20, 40_000)].concat();
    let text = text_of(&runs);
    assert!(!text.lines().any(|line| line.starts_with("makespan") && line.contains(['✓', '✗'])), "{text}");
    let sentences: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Whether")).collect();
    check(
        &sentences.join("\n"),
        expect![[r#"
            Whether bfs and fifo differ in the makespan (they would have told 3.7 %), the
              mean wait (they would have told 3.7 %) and the wait at p99 (they would have
              told 3.7 %), these runs cannot tell.

            Values are medians of all seeds. Beside them: the typical difference between two
              runs with the same seed, and its range. ✓ better, ✗ worse: the range of the
              difference excludes zero. Of tables in which nothing differs, at most 5 % have
              a mark. weir list measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)"#]],
    );
}

#[test]
fn sixteen_seeds_of_one_scheduler_show_their_spread() {
    check(
        &text_of(&seeds("bfs", 1_000_000, 5, 10_000)),
        expect![[r#"
            bfs, machine laptop-2c4t, workload build, seeds 1-16, kernel 7.2

                                    median         95 % of medians      least   greatest
            makespan                999 ms        993 ms to 1.00 s     990 ms     1.01 s
            elapsed                 1.00 s        1.00 s to 1.00 s     1.00 s     1.00 s
            work done               1.12 s        1.12 s to 1.12 s     1.12 s     1.12 s
            wakeup mean            9.99 us      9.93 us to 10.0 us    9.90 us    10.1 us
            wakeup p50             5.00 us      5.00 us to 5.00 us    5.00 us    5.00 us
            wakeup p90             15.0 us      15.0 us to 15.0 us    15.0 us    15.0 us
            wakeup p99             49.9 us      49.6 us to 50.3 us    49.5 us    50.5 us
            wakeup max              450 us        450 us to 450 us     450 us     450 us
            queue wait mean        20.0 us      20.0 us to 20.0 us    20.0 us    20.0 us
            queue wait max          900 us        900 us to 900 us     900 us     900 us
            idle while runnable     500 us        500 us to 500 us     500 us     500 us
            context switches        24,691        24,691 to 24,691     24,691     24,691
            wakeups                 45,678        45,678 to 45,678     45,678     45,678
            moves in core               12                12 to 12         12         12
            moves in cache           1,725          1,725 to 1,725      1,725      1,725
            moves in node                0                  0 to 0          0          0
            moves far                    0                  0 to 0          0          0
            CPU: run                900 ms        900 ms to 900 ms     900 ms     900 ms
            CPU: idle              70.0 ms      70.0 ms to 70.0 ms    70.0 ms    70.0 ms
            CPU: scheduler         20.0 ms      20.0 ms to 20.0 ms    20.0 ms    20.0 ms
            CPU: stolen            10.0 ms      10.0 ms to 10.0 ms    10.0 ms    10.0 ms
            BPF instructions     7,654,321  7,654,321 to 7,654,321  7,654,321  7,654,321

            weir list measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)
        "#]],
    );
}

/// Five schedulers on two machines: a row each, at 80 columns, and more columns where there is room.
#[test]
fn many_setups_have_a_row_each() {
    let mut runs = Vec::new();
    for machine in ["laptop-2c4t", "server-64"] {
        for (scheduler, us) in [("kernel", 9), ("fifo", 20), ("bfs@0.360,rr_interval_ms=3", 5), ("nix@smp", 4000)] {
            let mut of_one = seeds(scheduler, 1_000_000 - us, us, 10_000);
            of_one.iter_mut().for_each(|run| run.tags.machine = machine.to_owned());
            runs.extend(of_one);
        }
    }
    check(
        &text_of(&runs),
        expect![[r#"
            machine laptop-2c4t, workload build, seeds 1-16, kernel 7.2

            scheduler                makespan           wakeup mean        wakeup p99
            kernel                    999 ms            17.9 us            89.9 us
            fifo                      999 ms  -0.1 %    39.9 us    2.2x ✗   199 us    2.2x ✗
            bfs@0.360,r…terval_ms=3   999 ms       =    9.99 us -44.4 % ✓  49.9 us -44.4 % ✓
            nix@smp                   991 ms  -0.9 % ✓  7.96 ms    442x ✗  39.8 ms    442x ✗

            nix@smp: in all 16 runs WARNING: for 40.0 % of the time some CPU idled while a
              task that was allowed there waited
            Against kernel, fifo lets woken tasks wait 2.2 times longer on average and has a
              2.2 times longer wait at p99. The makespan of fifo and kernel agrees within 1
              %.
            Against kernel, bfs@0.360,rr_interval_ms=3 lets woken tasks wait 44.4 % less on
              average and has a 44.4 % shorter wait at p99. The makespan of
              bfs@0.360,rr_interval_ms=3 and kernel agrees within 1 %.
            Against kernel, nix@smp finishes 0.9 % sooner, lets woken tasks wait 442 times
              longer on average and has a 442 times longer wait at p99.

            machine server-64, workload build, seeds 1-16, kernel 7.2

            scheduler                makespan           wakeup mean        wakeup p99
            kernel                    999 ms            17.9 us            89.9 us
            fifo                      999 ms  -0.1 %    39.9 us    2.2x ✗   199 us    2.2x ✗
            bfs@0.360,r…terval_ms=3   999 ms       =    9.99 us -44.4 % ✓  49.9 us -44.4 % ✓
            nix@smp                   991 ms  -0.9 % ✓  7.96 ms    442x ✗  39.8 ms    442x ✗

            nix@smp: in all 16 runs WARNING: for 40.0 % of the time some CPU idled while a
              task that was allowed there waited
            Against kernel, fifo lets woken tasks wait 2.2 times longer on average and has a
              2.2 times longer wait at p99. The makespan of fifo and kernel agrees within 1
              %.
            Against kernel, bfs@0.360,rr_interval_ms=3 lets woken tasks wait 44.4 % less on
              average and has a 44.4 % shorter wait at p99. The makespan of
              bfs@0.360,rr_interval_ms=3 and kernel agrees within 1 %.
            Against kernel, nix@smp finishes 0.9 % sooner, lets woken tasks wait 442 times
              longer on average and has a 442 times longer wait at p99.

            Values are medians of all seeds. Beside them: the typical difference between two
              runs with the same seed. ✓ better, ✗ worse: the range of the difference
              excludes zero. Of tables in which nothing differs, at most 5 % have a mark.
              weir list measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)
        "#]],
    );
    let wide = to_text(&runs, View { columns: 140, all: false });
    let longest = wide.lines().map(|line| line.chars().count()).max().unwrap();
    assert!((100..=140).contains(&longest), "{longest}\n{wide}");
    assert!(!text_of(&runs).contains("idle while runnable") && wide.contains("idle while runnable"));
    for line in to_text(&runs, View { columns: 80, all: true }).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// Whatever is marked in the table is what the sentences say, and a measure that they say nothing certain of is not
/// marked.
#[test]
fn sentences_agree_with_the_table() {
    for (makespan_us, us, spread) in
        [(1_000_000, 20, 1000), (1_050_000, 20, 1000), (950_000, 10, 90_000), (999_000, 21, 5000)]
    {
        let text = text_of(&[seeds("fifo", 1_000_000, 20, spread), seeds("bfs", makespan_us, us, spread)].concat());
        let mark = |label: &str| {
            let row = text.lines().find(|line| line.starts_with(label));
            row.and_then(|row| row.chars().find(|c| "✓✗".contains(*c)))
        };
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(mark("makespan") == Some('✓'), words.contains("sooner"), "{text}");
        assert_eq!(mark("makespan") == Some('✗'), words.contains("later"), "{text}");
        assert_eq!(mark("wakeup mean") == Some('✓'), words.contains("less on average"), "{text}");
        assert_eq!(mark("wakeup p99") == Some('✗'), words.contains("longer wait at p99"), "{text}");
    }
}

#[test]
fn one_run_of_each_is_never_marked() {
    let text = text_of(&[run("fifo", 1000, 4), run("bfs", 1300, 400)]);
    assert!(!text.contains(['✓', '✗']) && text.contains("One run of each cannot tell chance from cause"), "{text}");
    let document: serde_json::Value =
        serde_json::from_str(&to_json(&[run("fifo", 1000, 4), run("bfs", 1300, 400)])).unwrap();
    let comparisons = document["comparisons"].as_array().unwrap();
    assert!(
        comparisons.len() > 15 && comparisons.iter().all(|one| one["verdict"] == "unclear" || one["diff_ppm"] == 0)
    );
}

/// Idle CPUs beside waiting tasks do not look fine.
#[test]
fn idle_cpus_beside_waiting_tasks_are_told() {
    let mut lazy = run("lazy", 1000, 4);
    lazy.measures.idle_while_runnable = Nanos::from_ms(980);
    let warning = "WARNING: for 98.0 % of the time some CPU idled while a task";
    assert!(text_of(&[lazy.clone()]).contains(warning));
    assert!(text_of(&[run("fifo", 1000, 4), lazy]).contains(&format!("lazy: {warning}")));
    assert!(!text_of(&[run("fifo", 1000, 4)]).contains("WARNING"));
}

#[test]
fn names_cannot_steer_the_terminal() {
    let evil = "\u{1b}]0;title\u{7}\n\u{202e}name\u{9b}31m";
    let mut run = run(evil, 1000, 4);
    (run.tags.machine, run.tags.workload, run.tags.kernel) = (evil.to_owned(), evil.to_owned(), evil.to_owned());
    run.measures.tasks[0].name = evil.to_owned();
    let exit =
        Exit { message: evil.to_owned(), reason: evil.to_owned(), fault: Some(evil.to_owned()), ..Exit::default() };
    run.ending.ejected = Some(exit);
    run.meter = Some(Meter { failure: Some(evil.to_owned()), ..Meter::default() });
    let mut other = run.clone();
    other.tags.scheduler = format!("{evil} 2");
    for text in [text_of(&[run.clone()]), text_of(&[run, other])] {
        let harmful = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
        assert_eq!(text.chars().find(harmful), None, "{text}");
        assert!(text.contains("\\u{1b}") && text.contains("\\u{202e}"), "{text}");
    }
}

#[test]
fn json_reads_back_as_the_same_records() {
    let mut real = run("kernel", 950, 7);
    real.tags = Tags { world: World::Real, seed: None, draw: None, effects: None, ..real.tags };
    real.measures.bpf_instructions = None;
    real.meter = Some(Meter { lost_events: 3, probes: Nanos(77), failure: Some("x".to_owned()), ..Meter::default() });
    real.ending.command_status = Some(139);
    let runs = [run("fifo", 1000, 4), ejected(), real];
    let records: Vec<Record> = runs.iter().map(Record::from).collect();
    assert_eq!(read_json(to_json(&runs).as_bytes()).unwrap(), records);
    for (bytes, place) in [
        (&b"{"[..], "line 1, column 1"),
        (b"{}", "weir"),
        (b"{\"weir\": 2}", "weir"),
        (b"{\"weir\": 1, \"runs\": []}", "runs"),
        (b"{\"weir\": 1, \"runs\": [{}]}", "runs[0]"),
        (b"[1]", "weir"),
    ] {
        assert_eq!(read_json(bytes).unwrap_err().place, place, "{}", String::from_utf8_lossy(bytes));
    }
    let text = to_json(&[run("fifo", 1000, 4)]).replace("\"wakeups\": 45678", "\"wakeups\": -1");
    assert_eq!(read_json(text.as_bytes()).unwrap_err().place, "runs[0].wakeups");
}

#[test]
fn csv_has_a_row_for_each_run() {
    let mut strange = run("a,\"b\"", 1000, 4);
    strange.measures.makespan = None;
    let text = to_csv(&[Record::from(&strange), Record::from(&ejected())]);
    let lines: Vec<&str> = text.lines().collect();
    let keys: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(lines.len(), 3);
    let at = |key: &str| keys.iter().position(|one| *one == key).unwrap();
    assert!(lines[1].starts_with("\"a,\"\"b\"\"\",laptop-2c4t,build,sim,1,0,7.2,completed,0,,"), "{}", lines[1]);
    let second: Vec<&str> = lines[2].split(',').collect();
    assert_eq!(second.len(), keys.len());
    assert_eq!(second[at("wakeup_latency_ns.p99")], "30000");
    assert_eq!((second[at("outcome")], second[at("exit.kind")], second[at("lock_wait_ns")]), ("ejected", "1026", ""));
}

/// Runs of a later day beside those of an earlier one, and real ones beside simulated ones.
#[test]
fn runs_from_files_stand_in_one_table() {
    let from = |file: &str, runs: &[RunReport]| -> Vec<Record> {
        runs.iter().map(|run| Record { file: Some(file.to_owned()), ..Record::from(run) }).collect()
    };
    let again =
        [from("old.json", &seeds("bfs", 1_000_000, 5, 1000)), from("new.json", &seeds("bfs", 950_000, 5, 1000))];
    let text = report::records_to_text(&again.concat(), View::default());
    assert!(text.contains("bfs (new.json)") && text.contains("-5.0 % ✓"), "{text}");
    let real: Vec<RunReport> = (0..5)
        .map(|index| {
            let mut run = run("bfs", 1040 + index, 6);
            run.tags = Tags { world: World::Real, machine: "host".to_owned(), seed: None, draw: None, ..run.tags };
            run
        })
        .collect();
    let both = [from("sim.json", &seeds("bfs", 1_000_000, 5, 1000)), from("real.json", &real)].concat();
    check(
        &report::records_to_text(&both, View::default()),
        expect![[r#"
            scheduler bfs, workload build, kernel 7.2, laptop-2c4t sim: seeds 1-16, host
              real: 5 runs

            run                  laptop-2c4t sim  host real
            makespan                      999 ms    1.04 s   +4.2 % ✗      +4.0 to +4.4 %
            wakeup mean                  9.99 us   12.0 us  +20.0 % ✗    +19.9 to +20.1 %
            wakeup p50                   5.00 us   6.00 us  +20.0 % ✗    +20.0 to +20.0 %
            wakeup p90                   15.0 us   18.0 us  +20.0 % ✗    +20.0 to +20.0 %
            wakeup p99                   49.9 us   60.0 us  +20.0 % ✗    +19.9 to +20.1 %
            wakeup max                    450 us    540 us  +20.0 % ✗    +20.0 to +20.0 %
            queue wait mean              20.0 us   24.0 us  +20.0 % ✗    +20.0 to +20.0 %
            queue wait max                900 us   1.08 ms  +20.0 % ✗    +20.0 to +20.0 %
            idle while runnable           500 us    600 us  +20.0 % ✗    +20.0 to +20.0 %
            context switches              24,691    20,576  -16.7 %      -16.7 to -16.7 %
            moves in cache                 1,725     2,070  +20.0 %      +20.0 to +20.0 %
            CPU: idle                    70.0 ms    110 ms  +58.2 %      +55.4 to +61.0 %
            CPU: scheduler               20.0 ms   20.8 ms   +4.2 % ✗      +4.0 to +4.4 %
            CPU: stolen                  10.0 ms   10.4 ms   +4.2 % ✗      +4.0 to +4.4 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, moves in core 12,
              CPU: run 900 ms, BPF instructions 7,654,321.

            Against laptop-2c4t sim, host real finishes 4.2 % later, lets woken tasks wait
              20.0 % longer on average and has a 20.0 % longer wait at p99.

            Values are medians of all runs. Beside them: the typical difference between two
              runs, and its range. ✓ better, ✗ worse: the range of the difference excludes
              zero. Of tables in which nothing differs, at most 5 % have a mark. weir list
              measures explains each measure.
            unvalidated: smt (docs/machine-model.md; --without leaves effects out)
        "#]],
    );
}
