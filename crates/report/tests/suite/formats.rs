// SPDX-License-Identifier: GPL-2.0-only
//! Tests of JSON and CSV output, and of reports on runs from files.

use crate::common;

use common::{check, ejected, run, seeds};
use expect_test::expect;
use ids::Nanos;
use measures::{PartMeasures, PeriodSummary, TaskAccount};
use report::{Called, Meter, Record, RunReport, Tags, View, World, read_json, to_csv, to_json, to_text};

/// Runs of a workload of two parts under two schedulers, with this number of seeds.
fn composed(seeds: u64) -> Vec<RunReport> {
    let part = |label: &str, makespan, us| PartMeasures {
        label: label.to_owned(),
        tasks: 3,
        makespan,
        account: TaskAccount { work: Nanos::from_ms(20 + us), run: Nanos::from_ms(21 + us), ..TaskAccount::default() },
        periods: PeriodSummary::default(),
        wakeup_latency: common::latency(100, us),
    };
    let one = |scheduler: &str, seed: u64, us: u64| {
        let mut run = run(scheduler, 1_000, 7);
        run.tags.seed = Some(seed);
        run.measures.parts = vec![part("video", None, us), part("build", Some(Nanos::from_ms(90 + us)), 5)];
        run
    };
    (1..=seeds).flat_map(|seed| [one("kernel", seed, 10 + seed), one("bfs", seed, 20 + 2 * seed)]).collect()
}

#[test]
fn parts_of_workloads_are_compared_separately() {
    let runs = composed(8);
    let text = to_text(&runs, View::default());
    let tables: Vec<&str> =
        text.lines().filter(|line| line.starts_with("machine ") || line.contains("part ")).collect();
    assert_eq!(tables.len(), 3, "{text}");
    assert!(tables[1].ends_with("part video") && tables[2].ends_with("part build"), "{text}");
    let of_video = text.split("part build").next().unwrap().split("part video").nth(1).unwrap();
    assert!(of_video.contains("2.0 times"), "{of_video}");
    assert!(text.split("part build").nth(1).unwrap().contains("finishes 13.8 % later"), "{text}");

    let read = read_json(to_json(&runs).as_bytes()).unwrap();
    assert_eq!(read, runs.iter().flat_map(Record::with_parts).collect::<Vec<_>>());
    assert_eq!(to_csv(&read).lines().count(), 1 + runs.len(), "whole runs only");
    let alone: Vec<RunReport> = runs.into_iter().filter(|run| run.tags.scheduler == "bfs").collect();
    let spread = to_text(&alone, View::default());
    assert_eq!(spread.matches("95 % of medians").count(), 3, "{spread}");
}

#[test]
fn document_with_an_invalid_part_is_refused() {
    let mut document: serde_json::Value = serde_json::from_str(&to_json(&composed(1))).unwrap();
    document["runs"][1]["parts"][0]["work_ns"] = serde_json::json!("much");
    let error = read_json(document.to_string().as_bytes()).unwrap_err();
    assert_eq!(
        (error.place.as_str(), error.problem.as_str()),
        ("runs[1].parts[0].work_ns", "\"much\", expected a number or null")
    );
    document["runs"][1]["parts"][0] = serde_json::json!({});
    assert_eq!(read_json(document.to_string().as_bytes()).unwrap_err().place, "runs[1].parts[0].label");
}

#[test]
fn json_format_is_stable() {
    let mut run = ejected();
    run.measures.tasks.truncate(1);
    run.measures.makespan = None;
    expect![[r#"
        {
          "weir": 1,
          "runs": [
            {
              "scheduler": "lazy",
              "object_hash": "0123456789abcdef0123456789abcdef",
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
              "assumed": [
                "locks"
              ],
              "machine_caveats": [
                "m.xml: unlike cores are simulated alike"
              ],
              "workload_caveats": [],
              "cpu_dma_latency_us": null,
              "kernel": "7.2",
              "form": "instant",
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
              "system_work_ns": null,
              "wakeup_latency_ns": {
                "mean": 6000,
                "p50": 3000,
                "p90": 9000,
                "p99": 30000,
                "p999": 120000,
                "max": 270000,
                "count": 45600
              },
              "run_delay_ns": {
                "mean": 12000,
                "p50": 6000,
                "p90": 18000,
                "p99": 60000,
                "p999": 240000,
                "max": 540000,
                "count": 50000
              },
              "response_ns": {
                "p50": null,
                "p99": null,
                "max": null
              },
              "late_ns": {
                "count": null,
                "p50": null,
                "max": null
              },
              "request_latency_ns": {
                "mean": null,
                "p50": null,
                "p99": null,
                "max": null,
                "count": null
              },
              "blocked_ns": {
                "disk": null,
                "network": null
              },
              "idle_while_runnable_ns": 300000,
              "load_milli": 3,
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
                "slowed": null,
                "reload": null,
                "memory": null,
                "spin": null
              },
              "energy_ratio_ppm": null,
              "bpf_instructions": 7654321,
              "lock_wait_ns": null,
              "load_average_milli": [
                0,
                0,
                0
              ],
              "deadlocked": false,
              "failed_forks": 0,
              "refused_changes": 0,
              "restarts": 0,
              "calls": [],
              "violations": null,
              "violation_count": null,
              "not_seen": null,
              "useless_migrations": null,
              "doubtful": [],
              "meter": null,
              "locks": null,
              "memory_nodes": null,
              "disks": null,
              "networks": null,
              "page_cache": null,
              "interrupts": null,
              "requests": [],
              "distributions": {
                "wakeup_latency_ns": {
                  "from": [
                    2816,
                    8192,
                    28672,
                    114688
                  ],
                  "to": [
                    3071,
                    9215,
                    30719,
                    122879
                  ],
                  "count": [
                    50,
                    40,
                    9,
                    1
                  ]
                },
                "run_delay_ns": {
                  "from": [
                    5632,
                    16384,
                    57344,
                    229376
                  ],
                  "to": [
                    6143,
                    18431,
                    61439,
                    245759
                  ],
                  "count": [
                    50,
                    40,
                    9,
                    1
                  ]
                }
              },
              "cpus": [
                {
                  "run_ns": 900000000,
                  "idle_ns": 29170000000,
                  "scheduler_ns": 620000000,
                  "stolen_ns": 310000000,
                  "offline_ns": 0,
                  "reload_ns": 0,
                  "memory_ns": 0
                }
              ],
              "parts": [],
              "groups": [],
              "tasks": [
                {
                  "id": 0,
                  "pid": 100,
                  "name": "cc1",
                  "kernel_thread": false,
                  "work_ns": 99000000,
                  "cpu_ns": 100000000,
                  "stolen_ns": 12000,
                  "runnable_ns": 340000,
                  "blocked_ns": 5000000,
                  "disk_ns": null,
                  "network_ns": null,
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
                  },
                  "period_ns": null,
                  "response_ns": null,
                  "late_ns": null
                }
              ]
            }
          ],
          "comparisons": [],
          "orders": []
        }
    "#]]
    .assert_eq(&to_json(&[run]));
}
#[test]
fn json_reads_back_to_equal_records() {
    let mut real = run("kernel", 950, 7);
    real.tags = Tags { world: World::Real, seed: None, draw: None, effects: None, ..real.tags };
    real.measures.bpf_instructions = None;
    real.meter = Some(Meter { lost_events: 3, probes: Nanos(77), failure: Some("x".to_owned()), ..Meter::default() });
    real.ending.command_status = Some(139);
    let mut called = run("sets", 1000, 4);
    let calls = [("a:x=1@1s", Some((7, -2))), ("b@9s", None)].map(|(call, made): (&str, Option<(u64, i32)>)| Called {
        call: call.to_owned(),
        made_ns: made.map(|made| made.0),
        returned: made.map(|made| made.1),
    });
    (called.ending.calls, called.tags.calls) = (calls.to_vec(), Called::names(&calls));
    assert_eq!(called.tags.calls, "a:x=1@1s b@9s");
    let runs = [run("fifo", 1000, 4), ejected(), real, called];
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
fn csv_has_a_row_per_run() {
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

/// Comparisons of runs of a later day with earlier ones, and of real with simulated ones.
#[test]
fn runs_from_files_are_compared_in_one_table() {
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
            run delay mean               20.0 us   24.0 us  +20.0 % ✗    +20.0 to +20.0 %
            run delay max                 900 us   1.08 ms  +20.0 % ✗    +20.0 to +20.0 %
            idle while runnable           500 us    600 us  +20.0 % ✗    +20.0 to +20.0 %
            context switches              24,691    20,576  -16.7 %      -16.7 to -16.7 %
            LLC migrations                 1,725     2,070  +20.0 %      +20.0 to +20.0 %
            CPU: idle                    70.0 ms    110 ms  +58.2 %      +55.4 to +61.0 %
            CPU: scheduler               20.0 ms   20.8 ms   +4.2 % ✗      +4.0 to +4.4 %
            CPU: stolen                  10.0 ms   10.4 ms   +4.2 % ✗      +4.0 to +4.4 %

            The same to 0.1 %: work done 1.12 s, wakeups 45,678, SMT migrations 12,
              CPU: run 900 ms, BPF instructions 7,654,321.

            Against laptop-2c4t sim, host real has a 20.0 % longer mean wakeup latency, has
              a 20.0 % longer p99 wakeup latency, leaves CPUs idle while tasks wait for
              20.0 % more time and finishes 4.2 % later.

            Values are medians of all runs, followed by the typical difference between two
              runs, and its range. ✓ better, ✗ worse: the range of the difference excludes
              zero. If nothing differs, at most 5 % of tables have a mark. weir list
              measures explains each measure.
            unvalidated: smt (docs/explanation/machine-model.md; --without leaves effects
              out)
            assumed for a machine of this class: locks (--draws samples their ranges, weir
              machine prints them, a machine file replaces them)
            machine: m.xml: unlike cores are simulated alike
        "#]],
    );
}

/// Columns of the same name are labelled by their difference.
#[test]
fn columns_of_the_same_name_get_distinguishing_labels() {
    type Change<'a> = &'a dyn Fn(&mut Record);
    let names = |files: [Option<&str>; 2], change: Change<'_>| {
        let mut records = [Record::from(&run("bfs", 1000, 4)), Record::from(&run("bfs", 1100, 4))];
        records.iter_mut().zip(files).for_each(|(record, file)| record.file = file.map(str::to_owned));
        change(&mut records[1]);
        let text = report::records_to_text(&records, View { columns: 200, all: false, pairs: false });
        let head = text.lines().find(|line| line.starts_with("scheduler ")).expect(&text);
        head.split("  ").map(str::trim).filter(|part| !part.is_empty()).skip(1).collect::<Vec<_>>().join(" | ")
    };
    let files = [Some("old/a.weirrun"), Some("old/b.weirrun")];
    assert_eq!(names(files, &|_| ()), "bfs (a.weirrun) | bfs (b.weirrun)");
    assert_eq!(names([files[0], Some("new/a.weirrun")], &|_| ()), "bfs (old/a.weirrun) | bfs (new/a.weirrun)");
    let without = |record: &mut Record| record.tags.effects = Some(vec!["interrupts".to_owned()]);
    assert_eq!(names(files, &without), "bfs (with smt) | bfs (without smt)");
    // Different seeds alone would make them repetitions of one setup.
    let object =
        |record: &mut Record| (record.tags.object_hash, record.tags.seed) = (Some("fedcba98".repeat(4)), Some(2));
    assert_eq!(names(files, &object), "bfs (#0123456, a.weirrun) | bfs (#fedcba9, b.weirrun)");
    assert_eq!(names([None; 2], &|_| ()), "bfs | bfs (2)");
    let (none, same) = ([None; 2], [files[0]; 2]);
    assert_eq!(names(same, &|_| ()), "bfs | bfs (2)");
    assert_eq!(names(none, &without), "bfs (with smt) | bfs (without smt)");
}

/// A baseline of 0 has no ratios, whatever individual pairs say.
#[test]
fn zero_baseline_has_no_ratio() {
    let mut records: Vec<Record> = Vec::new();
    for (name, us) in [("fifo", 0), ("bfs", 40)] {
        records.extend(seeds(name, 1000, 4, 10).iter().map(|run| {
            let mut run = run.clone();
            let seed = run.tags.seed.unwrap_or(0);
            // Seven of sixteen runs of the baseline have a nonzero value.
            run.measures.idle_while_runnable = Nanos::from_us(if seed <= 7 { 1 + us } else { us });
            Record::from(&run)
        }));
    }
    let text = report::records_to_text(&records, View::default());
    let row = text.lines().find(|line| line.starts_with("idle while runnable")).expect(&text);
    assert!(row.contains(" 0 ns ") && row.contains("40.0 us") && !row.contains('x') && row.contains('✗'), "{row}");
}
