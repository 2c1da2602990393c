// SPDX-License-Identifier: GPL-2.0-only
//! Whole runs through the program: the JSON contract, determinism, traces and logs.

use event_log::{LogReader, Record};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Tasks with a fixed amount of work, which exit.
const WORKLOAD: &str = r#"{
    "tasks": {
        "even": { "loop": 20, "run": 1000, "sleep": 1000 },
        "odd": { "instance": 3, "loop": 10, "run": 3000, "sleep": 500 }
    },
    "global": { "duration": -1 }
}"#;

fn workspace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("load.json"), WORKLOAD).unwrap();
    directory
}

fn weir(directory: &Path, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(directory: &Path, args: &[&str]) -> Value {
    let mut all = vec!["sim", "--format", "json", "--workload", "load.json"];
    all.extend(args);
    serde_json::from_slice(&weir(directory, &all).stdout).unwrap()
}

fn assert_keys(value: &Value, keys: &[&str], place: &str) {
    let found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let position =
        |key: &&str| found.iter().position(|found| found == key).unwrap_or_else(|| panic!("{place}: no {key}"));
    keys.iter().map(position).for_each(drop);
}

fn assert_no_fractions(value: &Value) {
    match value {
        Value::Number(number) => assert!(number.is_u64() || number.is_i64(), "{number}"),
        Value::Array(items) => items.iter().for_each(assert_no_fractions),
        Value::Object(map) => map.values().for_each(assert_no_fractions),
        _ => {}
    }
}

#[test]
fn json_follows_the_contract() {
    let directory = workspace();
    let document = json(directory.path(), &["fifo", "bfs", "-m", "laptop-2c4t", "--seed", "7"]);
    assert_eq!(document["weir"], 1);
    assert_no_fractions(&document);
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["scheduler"].as_str().unwrap()).collect();
    assert_eq!(names, ["fifo", "bfs"]);
    for run in runs {
        assert_keys(
            run,
            &[
                "scheduler",
                "machine",
                "workload",
                "seed",
                "kernel",
                "outcome",
                "exit",
                "log_hash",
                "elapsed_ns",
                "makespan_ns",
                "context_switches",
                "wakeups",
                "idle_while_runnable_ns",
                "migrations",
                "wakeup_latency_ns",
                "cpu_ns",
                "bpf_instructions",
                "lock_wait_ns",
                "tasks",
            ],
            "run",
        );
        assert_keys(&run["exit"], &["kind", "reason", "message"], "exit");
        assert_keys(&run["migrations"], &["smt", "llc", "node", "far"], "migrations");
        let latency = ["count", "mean", "p50", "p90", "p99", "p999", "max"];
        assert_keys(&run["wakeup_latency_ns"], &latency, "latency");
        let owners = ["run", "idle", "scheduler", "stolen", "offline"];
        assert_keys(&run["cpu_ns"], &owners, "cpu_ns");
        assert_eq!((&run["seed"], &run["kernel"], &run["outcome"]), (&7.into(), &"7.2".into(), &"completed".into()));
        assert_eq!(run["log_hash"].as_str().unwrap().len(), 32);
        assert!(run["makespan_ns"].is_u64(), "the workload ends");
        let owned: u64 = owners.iter().map(|owner| run["cpu_ns"][owner].as_u64().unwrap()).sum();
        assert_eq!(owned, 4 * run["elapsed_ns"].as_u64().unwrap());
        let tasks = run["tasks"].as_array().unwrap();
        assert!(tasks.len() >= 4);
        for task in tasks {
            assert_keys(
                task,
                &[
                    "id",
                    "name",
                    "work_ns",
                    "cpu_ns",
                    "stolen_ns",
                    "runnable_ns",
                    "blocked_ns",
                    "cpus_allowed",
                    "cpus_used",
                    "wakeup_latency_ns",
                ],
                "task",
            );
            assert_keys(&task["wakeup_latency_ns"], &latency, "latency");
        }
    }
}

#[test]
fn default_scheduler_is_simulated_under_the_name_kernel() {
    let directory = workspace();
    let document = json(directory.path(), &["kernel", "fifo", "-m", "laptop-2c4t", "--seed", "0"]);
    let run = &document["runs"][0];
    assert_eq!((&run["scheduler"], &run["outcome"]), (&"kernel".into(), &"completed".into()));
    assert_eq!(run["bpf_instructions"], 0);
    assert_eq!(run["tasks"].as_array().unwrap().len(), 4, "the default scheduler has no helper kthread");
    assert_ne!(document["runs"][1]["bpf_instructions"], 0);
    let listed = weir(directory.path(), &["list", "policies"]).stdout;
    assert!(String::from_utf8(listed).unwrap().contains("\n  kernel "));
}

#[test]
fn same_inputs_give_identical_results() {
    let directory = workspace();
    let one = |scheduler| json(directory.path(), &[scheduler, "-m", "desktop-4c"])["runs"][0].clone();
    let together =
        json(directory.path(), &["fifo", "bfs", "bfs", "fifo", "-m", "desktop-4c", "--seed", "0"])["runs"].clone();
    assert_eq!(together[0], one("fifo"));
    assert_eq!(together[1], one("bfs"));
    assert_eq!(together[1], together[2]);
    assert_eq!(together[0], together[3]);
    assert_ne!(together[0]["log_hash"], together[1]["log_hash"]);
}

#[test]
fn text_report_fits_80_columns_and_prints_the_command_line() {
    let directory = workspace();
    for schedulers in [&["fifo"][..], &["fifo", "bfs"]] {
        let args = [&["sim"], schedulers, &["-m", "node:1 core:2 pu:2", "-w", "load.json", "--seed", "0"]].concat();
        let output = weir(directory.path(), &args);
        let first = format!(
            "weir sim {} --machine 'node:1 core:2 pu:2' --workload load.json --seed 0 --kernel 7.2\n",
            schedulers.join(" ")
        );
        assert_eq!(String::from_utf8(output.stderr).unwrap(), first);
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn log_and_trace_contain_the_run() {
    let directory = workspace();
    let args = ["bfs", "-m", "desktop-4c", "--for", "20ms"];
    let plain = json(directory.path(), &args);
    let logged = json(directory.path(), &[&args[..], &["--log", "run.log", "--trace", "run.pftrace"]].concat());
    assert_eq!(plain, logged, "logging must not change the run");
    let log = std::fs::read(directory.path().join("run.log")).unwrap();
    let mut reader = LogReader::new(&log[..]).unwrap();
    assert_eq!(reader.header().scheduler, "bfs");
    let (mut switches, mut threads) = (0, Vec::new());
    while let Some(record) = reader.read().unwrap() {
        match record {
            Record::Task(_, info) if info.kernel_thread => threads.push(info.id),
            // Kthreads are not part of the workload.
            Record::Event(event) if matches!(event.kind, event_log::EventKind::Switch { .. }) => {
                switches += u64::from(event.task.some().is_some_and(|task| !threads.contains(&task)));
            }
            _ => {}
        }
    }
    assert_eq!(plain["runs"][0]["context_switches"], switches);
    assert!(std::fs::metadata(directory.path().join("run.pftrace")).unwrap().len() > 1000);
    json(directory.path(), &[&args[..], &["--log", "run.jsonl"]].concat());
    for line in std::fs::read_to_string(directory.path().join("run.jsonl")).unwrap().lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["time_ns"].is_u64());
    }
}

/// 498 compilations are almost independent: with enough CPUs, the elapsed time decreases with the number of jobs, and
/// the work stays the same.
#[test]
fn recorded_build_scales_with_another_number_of_jobs() {
    let build = |jobs: &str| {
        let workload = format!("build,jobs={jobs}");
        let args = ["sim", "fifo", "-m", "core:16 pu:1", "--without", "frequency", "-w", &workload, "--format", "json"];
        let document: Value = serde_json::from_slice(&weir(Path::new("."), &args).stdout).unwrap();
        let run = &document["runs"][0];
        assert_eq!(run["workload"], workload);
        // The watchdog's kworker runs for the whole build.
        let of_the_build = |task: &&Value| !task["name"].as_str().unwrap().starts_with("kworker");
        let tasks = run["tasks"].as_array().unwrap().iter().filter(of_the_build);
        let work: u64 = tasks.map(|task| task["work_ns"].as_u64().unwrap()).sum();
        (run["makespan_ns"].as_u64().unwrap(), work)
    };
    let (alone, work) = build("1");
    assert!(alone > work, "a single job cannot be faster than the work");
    for jobs in [4, 8] {
        let (together, same_work) = build(&jobs.to_string());
        assert_eq!(same_work, work);
        assert!((alone / jobs..alone * 5 / 4 / jobs).contains(&together), "{jobs} jobs: {together} ns of {alone}");
    }
}
