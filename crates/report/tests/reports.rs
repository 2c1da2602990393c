// SPDX-License-Identifier: GPL-2.0-only
//! What the reports look like.

use expect_test::{Expect, expect};
use ids::{CpuSet, Nanos, TaskId};
use measures::{CpuAccount, LatencySummary, Migrations, RunMeasures, TaskAccount, TaskMeasures};
use report::{Exit, RunReport, comparison, summary, to_json, to_text};

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
    let account = CpuAccount { run, idle: elapsed - run - scheduler - stolen, scheduler, stolen, offline: Nanos::ZERO };
    RunMeasures {
        elapsed,
        makespan: Some(elapsed),
        context_switches: 123_456 / us,
        wakeups: 45_678,
        idle_while_runnable: Nanos::from_us(us * 100),
        migrations: Migrations { smt: 12, llc: 345 * us, node: 0, far: 0 },
        wakeup_latency: latency(45_600, us),
        queue_wait: latency(50_000, us * 2),
        cpu: account,
        cpus: vec![account],
        bpf_instructions: 7_654_321,
        lock_wait: Nanos::from_us(7),
        tasks: (0..12).map(|id| task(id, if id == 3 { "kworker/u8:1" } else { "cc1" }, 100 - u64::from(id))).collect(),
    }
}

fn run(scheduler: &str, makespan_ms: u64, us: u64) -> RunReport {
    RunReport {
        scheduler: scheduler.to_owned(),
        machine: "laptop-2c4t".to_owned(),
        workload: "build".to_owned(),
        seed: 1,
        kernel: "7.2".to_owned(),
        ejected: None,
        deadlocked: false,
        failed_forks: 0,
        refused_changes: 0,
        restarts: 0,
        log_hash: 0xfeed_0000_0000_0000_0000_0000_0000_0001,
        meter: None,
        measures: measures(makespan_ms, us),
    }
}

fn ejected() -> RunReport {
    let exit = Exit {
        kind: 1026,
        code: 0,
        reason: "runnable task stall".to_owned(),
        message: "cc1[17] failed to run for 30.500s".to_owned(),
        fault: None,
        dump: "CPU states\n".to_owned(),
    };
    RunReport { ejected: Some(exit), ..run("lazy", 31_000, 3) }
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
            lock wait             7.00 us

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
        let exit = Exit { message: message.to_owned(), fault: fault.clone(), ..ejected().ejected.unwrap() };
        let text = summary(&RunReport { ejected: Some(exit), ..ejected() });
        text.matches("x.bpf.c:7").count()
    };
    assert_eq!(said("BPF fault in ops.enqueue(): null pointer at x.bpf.c:7"), 1);
    assert_eq!(said("BPF fault"), 1);
}

#[test]
fn two_schedulers() {
    check(
        &comparison(&[run("fifo", 1000, 20), run("bfs", 969, 5)]),
        expect![[r#"
            machine laptop-2c4t, workload build, seed 1, kernel 7.2

            scheduler               fifo       bfs
            makespan              1.00 s   969 ms   -3.1 % ✓
            CPU: idle            70.0 ms  39.9 ms  -43.0 %
            CPU: scheduler       20.0 ms  19.3 ms   -3.1 % ✓
            CPU: stolen          10.0 ms  9.69 ms   -3.1 % ✓
            idle while runnable  2.00 ms   500 us  -75.0 % ✓
            context switches       6,172   24,691     4.0x
            wakeup mean          40.0 us  10.0 us  -75.0 % ✓
            wakeup p50           20.0 us  5.00 us  -75.0 % ✓
            wakeup p90           60.0 us  15.0 us  -75.0 % ✓
            wakeup p99            200 us  50.0 us  -75.0 % ✓
            wakeup max           1.80 ms   450 us  -75.0 % ✓
            queue wait mean      80.0 us  20.0 us  -75.0 % ✓
            queue wait max       3.60 ms   900 us  -75.0 % ✓
            moves in cache         6,900    1,725  -75.0 %

            The same to 0.1 %: work done 1.12 s, CPU: run 900 ms, wakeups 45,678,
              moves in core 12, BPF instructions 7,654,321, lock wait 7.00 us.

            Against fifo, bfs finishes build 3.1 % sooner, has a 4.0 times shorter median
              wakeup wait and makes 4.0 times as many context switches.
        "#]],
    );
}

#[test]
fn three_schedulers_of_which_one_is_ejected() {
    let long = run("a/very/long/path/to/some/experimental_scheduler.bpf.o", 1040, 4);
    check(
        &comparison(&[run("fifo", 1000, 4), ejected(), long]),
        expect![[r#"
            machine laptop-2c4t, workload build, seed 1, kernel 7.2

            scheduler               fifo      lazy            a/very/l…er.bpf.o
            makespan              1.00 s   31.0 s    31.0x              1.04 s   +4.0 % ✗
            CPU: idle            70.0 ms   29.1 s     416x              108 ms  +55.4 %
            CPU: scheduler       20.0 ms   620 ms    31.0x             20.8 ms   +4.0 % ✗
            CPU: stolen          10.0 ms   310 ms    31.0x             10.4 ms   +4.0 % ✗
            idle while runnable   400 us   300 us  -25.0 %              400 us        =
            context switches      30,864   41,152  +33.3 %              30,864        =
            wakeup mean          8.00 us  6.00 us  -25.0 %             8.00 us        =
            wakeup p50           4.00 us  3.00 us  -25.0 %             4.00 us        =
            wakeup p90           12.0 us  9.00 us  -25.0 %             12.0 us        =
            wakeup p99           40.0 us  30.0 us  -25.0 %             40.0 us        =
            wakeup max            360 us   270 us  -25.0 %              360 us        =
            queue wait mean      16.0 us  12.0 us  -25.0 %             16.0 us        =
            queue wait max        720 us   540 us  -25.0 %              720 us        =
            moves in cache         1,380    1,035  -25.0 %               1,380        =

            The same to 0.1 %: work done 1.12 s, CPU: run 900 ms, wakeups 45,678,
              moves in core 12, BPF instructions 7,654,321, lock wait 7.00 us.

            lazy was ejected after 31.0 s:
              runnable task stall
              cc1[17] failed to run for 30.500s
            lazy was ejected, so lazy and fifo did not do the same work.
            Against fifo, a/very/long/path/to/some/experimental_scheduler.bpf.o finishes
              build 4.0 % later.
        "#]],
    );
}

#[test]
fn schedulers_on_two_machines_are_compared_on_each() {
    let on = |machine: &str, mut run: RunReport| {
        run.machine = machine.to_owned();
        run
    };
    let runs = [
        on("desktop-4c", run("fifo", 1000, 4)),
        on("laptop-2c4t", run("fifo", 2000, 4)),
        on("desktop-4c", run("bfs", 990, 4)),
        on("laptop-2c4t", run("bfs", 2000, 4)),
    ];
    let text = comparison(&runs);
    let sentences: Vec<&str> = text.lines().filter(|line| line.contains("machine") || line.contains("bfs ")).collect();
    check(
        &sentences.join("\n"),
        expect![[r#"
            machine desktop-4c, workload build, seed 1, kernel 7.2
            Against fifo, bfs finishes build 1.0 % sooner.
            machine laptop-2c4t, workload build, seed 1, kernel 7.2
            Against fifo, bfs finishes build at the same time."#]],
    );
}

#[test]
fn one_scheduler_on_two_machines_compares_the_machines() {
    let other = RunReport { machine: "server-64".to_owned(), ..run("fifo", 950, 4) };
    let text = to_text(&[run("fifo", 1000, 4), other]);
    check(
        &text.lines().take(4).collect::<Vec<_>>().join("\n"),
        expect![[r#"
        scheduler fifo, workload build, seed 1, kernel 7.2

        machine         laptop-2c4t  server-64
        makespan             1.00 s    950 ms   -5.0 % ✓"#]],
    );
}

#[test]
fn a_run_without_an_end_is_compared_by_its_work() {
    let endless = |name: &str, extra_ms: u64| {
        let mut run = run(name, 1000, 4);
        run.measures.makespan = None;
        run.measures.tasks[0].account.work += Nanos::from_ms(extra_ms);
        run
    };
    let text = comparison(&[endless("fifo", 0), endless("bfs", 50)]);
    check(
        &text,
        expect![[r#"
            machine laptop-2c4t, workload build, seed 1, kernel 7.2

            scheduler    fifo      bfs
            work done  1.12 s  1.17 s   +4.5 % ✓

            The same to 0.1 %: elapsed 1.00 s, CPU: run 900 ms, CPU: idle 70.0 ms,
              CPU: scheduler 20.0 ms, CPU: stolen 10.0 ms, idle while runnable 400 us,
              context switches 30,864, wakeups 45,678, wakeup mean 8.00 us,
              wakeup p50 4.00 us, wakeup p90 12.0 us, wakeup p99 40.0 us, wakeup max 360 us,
              queue wait mean 16.0 us, queue wait max 720 us, moves in core 12,
              moves in cache 1,380, BPF instructions 7,654,321, lock wait 7.00 us.

            Against fifo, bfs gets 4.5 % more work done.
        "#]],
    );
}

#[test]
fn refusals_are_said() {
    let refused = RunReport { failed_forks: 2, refused_changes: 1000, ..run("bfs", 1000, 4) };
    let said = |text: &str| text.lines().filter(|line| line.contains("refused")).collect::<Vec<_>>().join("\n");
    check(
        &said(&summary(&refused)),
        expect![[r#"
        2 forks failed: the scheduler refused new tasks
        1,000 changes of affinity, policy or nice value refused"#]],
    );
    check(
        &said(&comparison(&[run("fifo", 1000, 4), refused])),
        expect![[r#"
        bfs: 2 forks failed: the scheduler refused new tasks
        bfs: 1,000 changes of affinity, policy or nice value refused"#]],
    );
}

#[test]
fn a_deadlock_is_not_called_completed() {
    let mut stuck = RunReport { deadlocked: true, ..run("bfs", 1000, 4) };
    stuck.measures.makespan = None;
    let said = |text: &str| text.lines().find(|line| line.contains("DEADLOCK")).unwrap().to_owned();
    check(
        &said(&summary(&stuck)),
        expect!["DEADLOCK after 1.00 s: the tasks that are left wait for each other for ever"],
    );
    check(
        &said(&comparison(&[run("fifo", 1000, 4), stuck])),
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
              "seed": 1,
              "kernel": "7.2",
              "outcome": "ejected",
              "exit": {
                "kind": 1026,
                "code": 0,
                "reason": "runnable task stall",
                "message": "cc1[17] failed to run for 30.500s",
                "fault": null,
                "dump": "CPU states\n"
              },
              "log_hash": "feed0000000000000000000000000001",
              "elapsed_ns": 31000000000,
              "makespan_ns": null,
              "context_switches": 41152,
              "wakeups": 45678,
              "idle_while_runnable_ns": 300000,
              "migrations": {
                "smt": 12,
                "llc": 1035,
                "node": 0,
                "far": 0
              },
              "wakeup_latency_ns": {
                "count": 45600,
                "mean": 6000,
                "p50": 3000,
                "p90": 9000,
                "p99": 30000,
                "p999": 120000,
                "max": 270000
              },
              "queue_wait_ns": {
                "count": 50000,
                "mean": 12000,
                "p50": 6000,
                "p90": 18000,
                "p99": 60000,
                "p999": 240000,
                "max": 540000
              },
              "cpu_ns": {
                "run": 900000000,
                "idle": 29170000000,
                "scheduler": 620000000,
                "stolen": 310000000,
                "offline": 0
              },
              "bpf_instructions": 7654321,
              "lock_wait_ns": 7000,
              "deadlocked": false,
              "failed_forks": 0,
              "refused_changes": 0,
              "restarts": 0,
              "meter": null,
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
          ]
        }
    "#]]
    .assert_eq(&to_json(&[run]));
}
