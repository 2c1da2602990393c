// SPDX-License-Identifier: GPL-2.0-only
//! Tests of text reports.

use crate::common::{check, ejected, run, seeds};
use expect_test::expect;
use ids::Nanos;
use measures::{CpuAccount, LockUse};
use report::{Doubt, Ending, Exit, Meter, Record, RunReport, View, World, read_json, summary, to_json, to_text};

/// Text report at 80 columns.
fn text_of(runs: &[RunReport]) -> String {
    to_text(runs, View::default())
}

#[test]
fn report_of_one_run_matches_the_expected_text() {
    check(
        &summary(&run("bfs@0.360", 1000, 5)),
        expect![[r#"
            bfs@0.360 on laptop-2c4t, workload build, seed 1, kernel 7.2
            completed: all work done after 1.00 s

            CPU time  ██████████████████████████████████████████████████████▓·····
                      █ run 90.0 %  ▓ scheduler 2.0 %  ▒ stolen 1.0 %  · idle 7.0 %
            context switches      24,691 (24,691/s)
            wakeups               45,678 (45,678/s)
            migrations            12 SMT, 1,725 LLC, 0 node, 0 cross-node
            load                  1.04 running or waiting tasks on average
            idle while runnable   500 us (0.1 % of the time)
            BPF instructions      7,654,321 (7,654,321/s)
            lock wait             -

            waited for a CPU   count     mean      p50      p90      p99   p99.9     max
            after wakeup      45,600  10.0 us  5.00 us  15.0 us  50.0 us  200 us  450 us
            every time        50,000  20.0 us  10.0 us  30.0 us   100 us  400 us  900 us

            pid, top 10 of 12 tasks      ran  waited    slept      p50      p99  CPUs used
            100 cc1                   100 ms  340 us  5.00 ms  4.00 us  40.0 us          0
            101 cc1                  99.0 ms  340 us  5.00 ms  5.00 us  50.0 us        0-1
            102 cc1                  98.0 ms  340 us  5.00 ms  6.00 us  60.0 us        0-2
            103 [kworker/u8:1]       97.0 ms  340 us  5.00 ms  7.00 us  70.0 us        0-3
            104 cc1                  96.0 ms  340 us  5.00 ms  8.00 us  80.0 us          0
            105 cc1                  95.0 ms  340 us  5.00 ms  9.00 us  90.0 us        0-1
            106 cc1                  94.0 ms  340 us  5.00 ms  10.0 us   100 us        0-2
            107 cc1                  93.0 ms  340 us  5.00 ms  11.0 us   110 us        0-3
            108 cc1                  92.0 ms  340 us  5.00 ms  12.0 us   120 us          0
            109 cc1                  91.0 ms  340 us  5.00 ms  13.0 us   130 us     7 CPUs

            log hash feed0000000000000000000000000001
        "#]],
    );
}

#[test]
fn report_of_one_ejected_run_matches_the_expected_text() {
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
fn fault_quoted_in_the_message_is_not_repeated() {
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
fn report_comparing_two_schedulers_matches_the_expected_text() {
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
            run delay mean       80.0 us  20.0 us  -75.0 %
            run delay max        3.60 ms   900 us  -75.0 %
            idle while runnable  2.00 ms   500 us  -75.0 %
            context switches       6,172   24,691     4.0x
            LLC migrations         6,900    1,725  -75.0 %
            CPU: idle            70.0 ms  39.9 ms  -43.0 %
            CPU: scheduler       20.0 ms  19.3 ms   -3.1 %
            CPU: stolen          10.0 ms  9.69 ms   -3.1 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, SMT migrations 12,
              CPU: run 900 ms, BPF instructions 7,654,321.

            One run of each does not distinguish differences from random variation, so
              nothing is marked: use --seeds 16. weir list measures explains each measure.
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
              out)
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike
        "#]],
    );
}

#[test]
fn report_comparing_three_schedulers_one_ejected_matches_the_expected_text() {
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
            run delay mean       16.0 us  12.0 us  -25.0 %             16.0 us        =
            run delay max         720 us   540 us  -25.0 %              720 us        =
            idle while runnable   400 us   300 us  -25.0 %              400 us        =
            context switches      30,864   41,152  +33.3 %              30,864        =
            LLC migrations         1,380    1,035  -25.0 %               1,380        =
            CPU: idle            70.0 ms   29.1 s     416x              108 ms  +55.4 %
            CPU: scheduler       20.0 ms   620 ms    31.0x             20.8 ms   +4.0 %
            CPU: stolen          10.0 ms   310 ms    31.0x             10.4 ms   +4.0 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, SMT migrations 12,
              CPU: run 900 ms, BPF instructions 7,654,321.

            lazy was ejected after 31.0 s:
              runnable task stall
              cc1[17] failed to run for 30.500s
            lazy did not complete in all runs, so lazy and fifo did different work.

            One run of each does not distinguish differences from random variation, so
              nothing is marked: use --seeds 16. weir list measures explains each measure.
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
              out)
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike
        "#]],
    );
}

#[test]
fn schedulers_are_compared_per_machine() {
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
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike"#]],
    );
}

#[test]
fn one_scheduler_on_two_machines_is_a_comparison_of_machines() {
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
fn endless_runs_are_compared_by_work() {
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
              run delay mean 16.0 us, run delay max 720 us, idle while runnable 400 us,
              context switches 30,864, wakeups 45,678, SMT migrations 12,
              LLC migrations 1,380, CPU: run 900 ms, CPU: idle 70.0 ms,
              CPU: scheduler 20.0 ms, CPU: stolen 10.0 ms, BPF instructions 7,654,321.

            One run of each does not distinguish differences from random variation, so
              nothing is marked: use --seeds 16. weir list measures explains each measure.
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
              out)
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike
        "#]],
    );
}

/// A run whose lock table has waits of this share of CPU time, in thousandths.
fn locked(kind: &'static str, permille: u64) -> RunReport {
    let mut run = run("bfs", 1000, 5);
    let cpu = run.measures.cpu;
    let time = cpu.run + cpu.idle + cpu.scheduler + cpu.stolen;
    let zero = Nanos::ZERO;
    run.measures.locks = Some(vec![LockUse {
        kind,
        lock: "0x0".to_owned(),
        caller: "dispatch".to_owned(),
        count: 9,
        contended: 9,
        retries: 0,
        wait_total: Nanos(time.0 * permille / 1000),
        wait_max: zero,
        hold_total: zero,
        hold_max: zero,
    }]);
    run
}

/// Without `+waiting`, latencies exclude lock waits: the report warns if CPUs wait for kernel locks for 5 % of the
/// time or more.
#[test]
fn latencies_are_doubtful_with_long_kernel_lock_waits() {
    let reason = "CPUs waited for kernel locks for 5.0 % of their time, which these latencies exclude: \
                  --kernel 7.2+waiting includes it";
    let doubted = locked("dsq", 50);
    let doubts: Vec<Doubt> = Record::from(&doubted).doubtful;
    let measures: Vec<&str> = doubts.iter().map(|doubt| doubt.measure.as_str()).collect();
    assert_eq!(measures, ["wakeup_latency_ns", "run_delay_ns"]);
    assert!(doubts.iter().all(|doubt| doubt.reason == reason));
    // The doubts are preserved in JSON, and each text report contains the warning once.
    assert_eq!(read_json(to_json(std::slice::from_ref(&doubted)).as_bytes()).unwrap()[0].doubtful, doubts);
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(text_of(std::slice::from_ref(&doubted))).matches(reason).count(), 1);
    let mut again = doubted.clone();
    again.tags.seed = Some(2);
    assert_eq!(words(text_of(&[doubted.clone(), again])).matches(reason).count(), 1);
    let mut waiting = doubted.clone();
    waiting.tags.form = Some("waiting".to_owned());
    let mut real = doubted;
    real.tags.form = None;
    for fine in [waiting, real, locked("runqueue", 49), locked("mutex", 500)] {
        assert_eq!(Record::from(&fine).doubtful, []);
    }
}

/// A task in a real run takes less time than its nominal work: the CPU speed was measured while the CPUs were slow.
#[test]
fn work_done_in_less_than_its_time_is_doubtful() {
    // Two tasks of 100 ms of work each: one takes slightly longer, the other `undone` microseconds less.
    let run_of = |world, undone: u64| {
        let mut run = run("kernel", 1000, 5);
        run.measures.tasks.truncate(2);
        run.tags.world = world;
        for (task, taken) in run.measures.tasks.iter_mut().zip([103_000, 100_000 - undone]) {
            (task.account.work, task.account.run) = (Nanos::from_ms(100), Nanos::from_us(taken));
        }
        run
    };
    let played = |world, undone| Record::from(&run_of(world, undone)).doubtful;
    let doubts = played(World::Real, 32_000);
    let reason = "tasks ran for 16.0 % less time than their nominal work: the CPUs were slower when their speed was \
                  measured, before the run";
    assert_eq!(doubts, [Doubt { measure: "work_ns".to_owned(), reason: reason.to_owned() }]);
    assert_eq!(played(World::Real, 1_000).len(), 1);
    assert_eq!(played(World::Real, 800), []);
    assert_eq!(played(World::Sim, 32_000), [], "a simulated CPU may be faster than the reference");
    let meter = Some(Meter { lost_events: 1, ..Meter::default() });
    let lossy = RunReport { meter, ..run_of(World::Real, 32_000) };
    assert_eq!(Record::from(&lossy).doubtful, [], "the missing time may be in lost events");
}

#[test]
fn time_of_other_programs_makes_a_real_run_doubtful() {
    let run_with = |foreign: u64, stolen: u64| {
        let mut run = run("fifo", 1000, 4);
        run.tags.world = World::Real;
        run.measures.cpu = CpuAccount { run: Nanos(1_000), stolen: Nanos(stolen), ..CpuAccount::default() };
        run.meter = Some(Meter { foreign: Nanos(foreign), ..Meter::default() });
        Record::from(&run).doubtful.into_iter().map(|doubt| format!("{}: {}", doubt.measure, doubt.reason)).collect()
    };
    let quiet: Vec<String> = run_with(40, 20);
    assert_eq!(quiet, [""; 0]);
    let busy = run_with(290, 0);
    let reason = "other programs had the CPUs for 290 ns, 29.0 % of their time: repeat the run on a quiet machine";
    assert_eq!(busy, ["makespan_ns", "wakeup_latency_ns", "run_delay_ns"].map(|key| format!("{key}: {reason}")));
    let stolen = run_with(0, 250);
    assert!(stolen[0].starts_with("makespan_ns: interrupts and the host of this virtual machine had"), "{stolen:?}");
}

#[test]
fn refused_operations_are_reported() {
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
fn deadlock_is_not_reported_as_completed() {
    let ending = Ending { deadlocked: true, ..Ending::default() };
    let mut stuck = RunReport { ending, ..run("bfs", 1000, 4) };
    stuck.measures.makespan = None;
    let said = |text: &str| text.lines().find(|line| line.contains("DEADLOCK")).unwrap().to_owned();
    check(&said(&summary(&stuck)), expect!["DEADLOCK after 1.00 s: the remaining tasks wait for each other forever"]);
    check(
        &said(&text_of(&[run("fifo", 1000, 4), stuck])),
        expect!["bfs: DEADLOCK after 1.00 s: the remaining tasks wait for each other forever"],
    );
}
#[test]
fn report_comparing_two_schedulers_over_16_seeds_matches_the_expected_text() {
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
            run delay mean       80.0 us  20.0 us  -75.0 % ✓    -75.0 to -75.0 %
            run delay max        3.60 ms   900 us  -75.0 % ✓    -75.0 to -75.0 %
            idle while runnable  2.00 ms   500 us  -75.0 % ✓    -75.0 to -75.0 %
            context switches       6,172   24,691     4.0x          4.0x to 4.0x
            LLC migrations         6,900    1,725  -75.0 %      -75.0 to -75.0 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, SMT migrations 12,
              CPU: run 900 ms, CPU: idle 70.0 ms, CPU: scheduler 20.0 ms,
              CPU: stolen 10.0 ms, BPF instructions 7,654,321.

            Against fifo, bfs leaves CPUs idle while tasks wait for 4.0 times less time, has
              a 4.0 times shorter mean wakeup latency, has a 4.0 times shorter p99 wakeup
              latency and finishes 3.0 % sooner.

            Values are medians of all seeds, followed by the typical difference between two
              runs with the same seed, and its range. ✓ better, ✗ worse: the range of the
              difference excludes zero. If nothing differs, at most 5 % of tables have a
              mark. weir list measures explains each measure.
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
              out)
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike
        "#]],
    );
}

#[test]
fn inconclusive_comparison_is_stated() {
    let runs = [seeds("fifo", 1_000_000, 20, 40_000), seeds("bfs", 1_004_000, 20, 40_000)].concat();
    let text = text_of(&runs);
    assert!(!text.lines().any(|line| line.starts_with("makespan") && line.contains(['✓', '✗'])), "{text}");
    let sentences: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Whether")).collect();
    check(&sentences.join("\n"), expect![""]);
}

#[test]
fn report_of_one_scheduler_over_16_seeds_shows_the_spread() {
    check(
        &text_of(&seeds("bfs", 1_000_000, 5, 10_000)),
        expect![[r#"
            bfs, machine laptop-2c4t, workload build, seeds 1-16, kernel 7.2

                                      median         95 % of medians    minimum    maximum
            makespan                  999 ms        993 ms to 1.00 s     990 ms     1.01 s
            elapsed                   1.00 s        1.00 s to 1.00 s     1.00 s     1.00 s
            work done                 1.12 s        1.12 s to 1.12 s     1.12 s     1.12 s
            wakeup mean              9.99 us      9.93 us to 10.0 us    9.90 us    10.1 us
            wakeup p50               5.00 us      5.00 us to 5.00 us    5.00 us    5.00 us
            wakeup p90               15.0 us      15.0 us to 15.0 us    15.0 us    15.0 us
            wakeup p99               49.9 us      49.6 us to 50.3 us    49.5 us    50.5 us
            wakeup max                450 us        450 us to 450 us     450 us     450 us
            run delay mean           20.0 us      20.0 us to 20.0 us    20.0 us    20.0 us
            run delay max             900 us        900 us to 900 us     900 us     900 us
            idle while runnable       500 us        500 us to 500 us     500 us     500 us
            context switches          24,691        24,691 to 24,691     24,691     24,691
            wakeups                   45,678        45,678 to 45,678     45,678     45,678
            SMT migrations                12                12 to 12         12         12
            LLC migrations             1,725          1,725 to 1,725      1,725      1,725
            node migrations                0                  0 to 0          0          0
            cross-node migrations          0                  0 to 0          0          0
            CPU: run                  900 ms        900 ms to 900 ms     900 ms     900 ms
            CPU: idle                70.0 ms      70.0 ms to 70.0 ms    70.0 ms    70.0 ms
            CPU: scheduler           20.0 ms      20.0 ms to 20.0 ms    20.0 ms    20.0 ms
            CPU: stolen              10.0 ms      10.0 ms to 10.0 ms    10.0 ms    10.0 ms
            BPF instructions       7,654,321  7,654,321 to 7,654,321  7,654,321  7,654,321

            weir list measures explains each measure.
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
              out)
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike
        "#]],
    );
}

/// Five schedulers on two machines: one row each, at 80 columns, and more columns in a wider view.
#[test]
fn comparison_of_many_setups_has_one_row_per_setup() {
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
            bfs@0.360,r…terval_ms=3   999 ms   0.0 %    9.99 us -44.4 % ✓  49.9 us -44.4 % ✓
            nix@smp                   991 ms  -0.9 % ✓  7.96 ms    442x ✗  39.8 ms    442x ✗

            nix@smp: in all 16 runs WARNING: for 40.0 % of the time some CPU idled while a
              task that was allowed there waited
            Against kernel, fifo leaves CPUs idle while tasks wait for 2.2 times more time,
              has a 2.2 times longer mean wakeup latency and has a 2.2 times longer p99
              wakeup latency. The makespan of fifo and kernel agrees within 1 %.
            Against kernel, bfs@0.360,rr_interval_ms=3 has a 44.4 % shorter mean wakeup
              latency, has a 44.4 % shorter p99 wakeup latency and leaves CPUs idle while
              tasks wait for 44.4 % less time. The makespan of bfs@0.360,rr_interval_ms=3
              and kernel agrees within 1 %.
            Against kernel, nix@smp leaves CPUs idle while tasks wait for 444 times more
              time, has a 442 times longer mean wakeup latency, has a 442 times longer p99
              wakeup latency and finishes 0.9 % sooner.
            Best first (<: better, ~: no significant difference):
              makespan: nix@smp < fifo ~ kernel ~ bfs@0.360,rr_interval_ms=3
              wakeup mean: bfs@0.360,rr_interval_ms=3 < kernel < fifo < nix@smp
              wakeup p99: bfs@0.360,rr_interval_ms=3 < kernel < fifo < nix@smp

            machine server-64, workload build, seeds 1-16, kernel 7.2

            scheduler                makespan           wakeup mean        wakeup p99
            kernel                    999 ms            17.9 us            89.9 us
            fifo                      999 ms  -0.1 %    39.9 us    2.2x ✗   199 us    2.2x ✗
            bfs@0.360,r…terval_ms=3   999 ms   0.0 %    9.99 us -44.4 % ✓  49.9 us -44.4 % ✓
            nix@smp                   991 ms  -0.9 % ✓  7.96 ms    442x ✗  39.8 ms    442x ✗

            nix@smp: in all 16 runs WARNING: for 40.0 % of the time some CPU idled while a
              task that was allowed there waited
            Against kernel, fifo leaves CPUs idle while tasks wait for 2.2 times more time,
              has a 2.2 times longer mean wakeup latency and has a 2.2 times longer p99
              wakeup latency. The makespan of fifo and kernel agrees within 1 %.
            Against kernel, bfs@0.360,rr_interval_ms=3 has a 44.4 % shorter mean wakeup
              latency, has a 44.4 % shorter p99 wakeup latency and leaves CPUs idle while
              tasks wait for 44.4 % less time. The makespan of bfs@0.360,rr_interval_ms=3
              and kernel agrees within 1 %.
            Against kernel, nix@smp leaves CPUs idle while tasks wait for 444 times more
              time, has a 442 times longer mean wakeup latency, has a 442 times longer p99
              wakeup latency and finishes 0.9 % sooner.
            Best first (<: better, ~: no significant difference):
              makespan: nix@smp < fifo ~ kernel ~ bfs@0.360,rr_interval_ms=3
              wakeup mean: bfs@0.360,rr_interval_ms=3 < kernel < fifo < nix@smp
              wakeup p99: bfs@0.360,rr_interval_ms=3 < kernel < fifo < nix@smp

            Values are medians of all seeds, followed by the typical difference between two
              runs with the same seed. ✓ better, ✗ worse: the range of the difference
              excludes zero. If nothing differs, at most 5 % of tables have a mark. weir
              list measures explains each measure.
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
              out)
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike
        "#]],
    );
    let wide = to_text(&runs, View { columns: 140, all: false, pairs: false });
    let longest = wide.lines().map(|line| line.chars().count()).max().unwrap();
    assert!((100..=140).contains(&longest), "{longest}\n{wide}");
    assert!(!text_of(&runs).contains("idle while runnable") && wide.contains("idle while runnable"));
    for line in to_text(&runs, View { columns: 80, all: true, pairs: false }).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// All marks in the table are mentioned in the sentences, and measures without a certain statement are not marked.
#[test]
fn sentences_agree_with_marks_in_the_table() {
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
        assert_eq!(mark("wakeup mean") == Some('✓'), words.contains("shorter mean wakeup latency"), "{text}");
        assert_eq!(mark("wakeup p99") == Some('✗'), words.contains("longer p99 wakeup latency"), "{text}");
    }
}

#[test]
fn single_runs_are_never_marked() {
    let text = text_of(&[run("fifo", 1000, 4), run("bfs", 1300, 400)]);
    assert!(!text.contains(['✓', '✗']) && text.contains("One run of each does not distinguish differences"), "{text}");
    let document: serde_json::Value =
        serde_json::from_str(&to_json(&[run("fifo", 1000, 4), run("bfs", 1300, 400)])).unwrap();
    let comparisons = document["comparisons"].as_array().unwrap();
    assert!(
        comparisons.len() > 15 && comparisons.iter().all(|one| one["verdict"] == "unclear" || one["diff_ppm"] == 0)
    );
}

/// Idle CPUs while tasks wait cause a warning.
#[test]
fn idle_cpus_while_tasks_wait_cause_a_warning() {
    let mut lazy = run("lazy", 1000, 4);
    lazy.measures.idle_while_runnable = Nanos::from_ms(980);
    let warning = "WARNING: for 98.0 % of the time some CPU idled while a task";
    assert!(text_of(&[lazy.clone()]).contains(warning));
    assert!(text_of(&[run("fifo", 1000, 4), lazy]).contains(&format!("lazy: {warning}")));
    assert!(!text_of(&[run("fifo", 1000, 4)]).contains("WARNING"));
}

#[test]
fn names_cannot_control_the_terminal() {
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

/// Three schedulers are ordered by each headline measure, and each pair is compared on demand.
#[test]
fn several_schedulers_are_ordered_and_compared_in_pairs() {
    let runs =
        [seeds("bfs", 1_000_000, 5, 1000), seeds("cfs", 900_000, 5, 1000), seeds("vrq", 900_000, 5, 1000)].concat();
    let text = to_text(&runs, View::default());
    assert!(text.contains("Best first"), "{text}");
    let makespan = text.lines().find(|line| line.trim_start().starts_with("makespan: ")).expect(&text);
    assert!(makespan.ends_with("cfs ~ vrq < bfs") || makespan.ends_with("vrq ~ cfs < bfs"), "{text}");
    assert!(!text.contains("Against cfs"), "{text}");
    let pairs = to_text(&runs, View { pairs: true, ..View::default() });
    assert!(pairs.contains("vrq and cfs") || pairs.contains("Against cfs, vrq"), "{pairs}");
    let json: serde_json::Value = serde_json::from_str(&report::to_json(&runs)).unwrap();
    let order = json["orders"].as_array().unwrap().iter().find(|order| order["measure"] == "makespan_ns").unwrap();
    assert_eq!(order["best_first"][2], "bfs", "{order:#}");
    assert_eq!(order["better_than_next"], serde_json::json!([false, true]), "{order:#}");
    assert_eq!(order["pairs"].as_array().unwrap().len(), 1, "the two others are compared with the baseline already");
}
