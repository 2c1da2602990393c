// SPDX-License-Identifier: GPL-2.0-only
//! Test suites known to scheduler authors, by name.

use serde_json::Value;
use std::process::{Command, Output};

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap()
}

fn text(args: &[&str]) -> String {
    let output = weir(&[&["sim"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn runs(args: &[&str]) -> Vec<Value> {
    let document: Value = serde_json::from_str(&text(&[args, &["--format", "json"]].concat())).unwrap();
    document["runs"].as_array().unwrap().clone()
}

/// The build at each load of the sanity test, in rounds; the number of jobs is a percentage of the machine's CPUs.
#[test]
fn sanity_suite_runs_a_build_at_six_loads_in_three_rounds() {
    let short = ["bfs", "-m", "desktop-4c", "-w", "sanity,policy=batch", "--for", "100ms"];
    let printed = text(&[&short[..], &["--seeds", "2"]].concat());
    let heads: Vec<&str> = printed.lines().filter(|line| line.starts_with(">>>>>") && line.contains('%')).collect();
    assert_eq!(heads.len(), 6, "{printed}");
    assert!(printed.contains("\n>>>>>spining up\n>>>>>50% workload\n"), "{printed}");
    assert!(printed.contains(">>>>>150% workload\n>>>>>round 1\nreal\t-\nuser\t0m0."), "{printed}");
    assert!(printed.contains("\nBatch policy 300% workload compile benchmark:\nbfs -- -\n"), "{printed}");
    assert_eq!(printed.matches(">>>>>round 2\n").count(), 6);
    assert!(printed.contains("bfs on desktop-4c, sanity test (the recorded build,policy=batch)"));
    assert_eq!(runs(&short).len(), 6 * 3, "three rounds by default");
    let six = runs(&["bfs", "-m", "desktop-4c", "-w", "build,load=150", "-w", "build,jobs=6", "--for", "300ms"]);
    assert_eq!((&six[0]["workload"], &six[0]["log_hash"]), (&"build,load=150".into(), &six[1]["log_hash"]));
    let two = runs(&["bfs", "-m", "core:2 pu:1", "-w", "build,load=50", "-w", "build,jobs=1", "--for", "300ms"]);
    assert_eq!(two[0]["log_hash"], two[1]["log_hash"]);
    for refused in [
        &["run", "-w", "sanity"][..],
        &["workload", "build,load=50"],
        &["sim", "bfs", "-w", "sanity,jobs=3"],
        &["sim", "bfs", "-w", "build,jobs=3,load=50"],
        &["sim", "bfs", "-w", "build,load=0"],
    ] {
        assert_eq!(weir(refused).status.code(), Some(2), "{refused:?}");
    }
}

/// One thread per CPU; the cyclictest lines agree with the tasks of the report.
#[test]
fn latency_workload_prints_cyclictest_lines() {
    let args = ["bfs", "-m", "core:2 pu:1", "-w", "x=latency+hogs", "--for", "300ms"];
    let printed = text(&args);
    let lines: Vec<&str> = printed.lines().filter(|line| line.starts_with("T: ")).collect();
    let tasks = runs(&args)[0]["tasks"].as_array().unwrap().clone();
    let threads: Vec<&Value> = tasks.iter().filter(|task| task["name"].as_str().unwrap().starts_with("x/T")).collect();
    assert_eq!((lines.len(), threads.len()), (2, 2), "{printed}");
    assert!(
        printed.contains("# /dev/cpu_dma_latency set to 0us\npolicy: other: loadavg: 0.00 0.00 0.00 "),
        "the load average is first sampled after 5 s: {printed}"
    );
    for (number, (line, thread)) in lines.iter().zip(threads).enumerate() {
        let after =
            |key: &str| -> u64 { line.split(key).nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap() };
        let latency = &thread["wakeup_latency_ns"];
        assert_eq!(after(" I:"), 10_000 + 500 * number as u64);
        assert_eq!(
            [after(" C:"), after(" Avg:"), after(" Max:")].map(Value::from),
            [latency["count"].clone(), latency["mean"].clone(), latency["max"].clone()]
        );
        assert!(after(" Min:") <= after(" Act:") && after(" Act:") <= after(" Max:"), "{line}");
    }
}

/// A task with a period on an otherwise idle machine: without a limit it waits until its CPU has left its idle state.
#[test]
fn idle_exit_latency_is_not_in_the_response_time_of_a_workload_that_forbids_it() {
    let directory = tempfile::tempdir().unwrap();
    let response = |global: &str| {
        let path = directory.path().join("timer.json");
        let tasks = r#""tasks": {"t": {"loop": 50, "timer": {"ref": "unique", "period": 10000}, "run": 10}}"#;
        std::fs::write(&path, format!(r#"{{"global": {{{global}}}, {tasks}}}"#)).unwrap();
        let run = &runs(&["bfs", "-m", "desktop-4c", "-w", path.to_str().unwrap()])[0];
        assert_eq!(run["cpu_dma_latency_us"].is_null(), global.is_empty());
        run["response_ns"]["p50"].as_u64().unwrap()
    };
    // desktop-4c has states of 1, 20 and 60 us.
    let [any, some, none] = ["", r#""cpu_dma_latency_us": 20"#, r#""cpu_dma_latency_us": 0"#].map(response);
    assert!((39_000..41_000).contains(&(any - some)), "{any} {some} {none}");
    assert!((19_000..21_000).contains(&(some - none)), "{any} {some} {none}");
}

/// The three tests of NIX, by scheduler; `--cpus` chooses the number of cores.
#[test]
fn manycore_suite_runs_three_tests_once_for_each_scheduler() {
    let args = ["nix@smp", "nix@amp", "-m", "nix-32", "--cpus", "4", "-w", "manycore", "--for", "5ms"];
    let printed = text(&args);
    assert!(printed.starts_with("- nix@smp on nix-32 for 4 cores:\n- 1/output:times "), "{printed}");
    assert!(printed.contains("\n- nix@amp on nix-32 for 4 cores:\n- 4/output:times "), "{printed}");
    assert!(printed.ends_with("\n- - - nix@smp sched. 4 cores.\n- - - nix@amp sched. 4 cores.\n"), "{printed}");
    let tested: Vec<(Value, Value)> =
        runs(&args).iter().map(|run| (run["workload"].clone(), run["seed"].clone())).collect();
    assert_eq!(tested.len(), 6);
    assert_eq!(tested[0], ("remote-mk".into(), 0.into()));
}

/// A task that may run on one CPU only keeps a wider mask when that CPU has been offline.
#[test]
fn hotplug_prints_the_mask_of_a_pinned_task() {
    let faults = "cpu1:offline@100ms,cpu1:online@300ms";
    let printed = text(&["bfs", "-m", "core:2 pu:1", "-w", "affinity", "--faults", faults]);
    let masks: Vec<&str> = printed.lines().filter_map(|line| line.split("AFFINITY ").nth(1)).collect();
    assert_eq!(masks, ["0x2", "0x3", "0x3"], "{printed}");
    assert!(!text(&["bfs", "-m", "core:2 pu:1", "-w", "affinity"]).contains("schedtool"));
}

/// Frames are late only under a scheduler that favors CPU hogs; the load average matches the load.
#[test]
fn late_video_frames_are_counted() {
    let late = |scheduler: &str, workload: &str| {
        let run = &runs(&[scheduler, "-m", "core:1 pu:1", "-w", workload, "--for", "4s"])[0];
        let display = run["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "film-25/display").unwrap();
        assert_eq!(display["period_ns"], 40_000_000);
        let (jobs, late) = (&display["response_ns"]["count"], &display["late_ns"]["count"]);
        assert_eq!(run["late_ns"]["count"], *late, "only film tasks have periods");
        (jobs.as_u64().unwrap(), late.as_u64().unwrap(), run["load_milli"].as_u64().unwrap())
    };
    let (alone, none, idle) = late("bfs", "film-25+pair,start=3h");
    assert!((90..=100).contains(&alone) && none == 0 && (300..400).contains(&idle), "{alone} {none} {idle}");
    let (_, beside_nice, load) = late("bfs", "film-25+hogs,nice=19");
    assert!(beside_nice == 0 && (8_300..9_000).contains(&load), "{beside_nice} {load}");
    let (shown, beside, _) = late("fifo", "film-25+hogs");
    assert!(beside > 10, "eight hogs with 20 ms each: {beside}");
    let printed = text(&["fifo", "-m", "core:1 pu:1", "-w", "film-25+hogs", "--for", "4s"]);
    let percent = 100 * shown / 1_500;
    assert!(printed.contains(&format!(" / 00:01:00 ({percent}%) Dropped: {beside}\n")), "{printed}");
    assert!(printed.contains(&format!("{shown} of 1,500")), "{printed}");
}
