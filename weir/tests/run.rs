// SPDX-License-Identifier: GPL-2.0-only
//! `weir run` on this machine's kernel, without a scheduler. Needs root and BTF; says so in one line and passes
//! otherwise. What needs sched_ext is tried in a virtual machine.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One at a time: the kernel's switch for run-time statistics is global.
static TURN: Mutex<()> = Mutex::new(());

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// Runs `weir run`, or gives `None` where that is not possible.
fn run(args: &[&str]) -> Option<Output> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = weir().arg("run").args(args).output().unwrap();
    let complaint = text(&output.stderr);
    let cannot = ["needs root", "CONFIG_DEBUG_INFO_BTF", "this kernel has no"];
    if output.status.code() == Some(2) && cannot.iter().any(|what| complaint.contains(what)) {
        eprintln!("skipped: {complaint}");
        return None;
    }
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn keys(value: &Value) -> Vec<&String> {
    value.as_object().unwrap().keys().collect()
}

#[test]
fn a_run_has_the_keys_of_a_simulated_one_and_says_that_the_command_failed() {
    let script = "echo out; sleep 0.02; exit 3";
    let Some(output) = run(&["--format", "json", "--", "sh", "-c", script]) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "out\n", "standard output has the JSON alone");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let real = &document["runs"][0];
    let simulated =
        weir().args(["sim", "fifo", "-w", "pingpong", "--for", "1ms", "--format", "json"]).output().unwrap();
    let simulated: Value = serde_json::from_slice(&simulated.stdout).unwrap();
    assert_eq!(keys(real), keys(&simulated["runs"][0]));
    assert_eq!(keys(&real["tasks"][0]), keys(&simulated["runs"][0]["tasks"][0]));
    assert_eq!(real["scheduler"], "kernel");
    assert_eq!(real["workload"], "sh -c 'echo out; sleep 0.02; exit 3'");
    assert_eq!(real["meter"]["failure"], "the command failed: exit status: 3");
    assert_eq!((&real["tasks"][0]["name"], &real["tasks"][1]["name"]), (&"sh".into(), &"sleep".into()));
    let ns = |value: &Value| value.as_u64().unwrap();
    let cpu: u64 = real["cpu_ns"].as_object().unwrap().values().map(ns).sum();
    assert_eq!(cpu % ns(&real["elapsed_ns"]), 0, "each CPU's time is the elapsed time");
    assert!(ns(&real["tasks"][1]["blocked_ns"]) >= 20_000_000 && ns(&real["makespan_ns"]) >= 20_000_000, "{real:#}");
}

#[test]
fn a_command_that_is_cut_short_as_asked_has_not_failed() {
    let Some(output) = run(&["--for", "100ms", "--", "sleep", "60"]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let own_end = run(&["--for", "60s", "--", "sh", "-c", "kill $$"]).unwrap();
    assert_eq!(own_end.status.code(), Some(1), "it was not asked for: {}", text(&own_end.stdout));
}

/// Plays a workload of two tasks with this loop count, that work a millisecond under a mutex and sleep as long.
fn play(loops: i32, more: &[&str]) -> Option<Value> {
    let workload = format!(
        r#"{{"tasks": {{"holder": {{"instance": 2, "loop": {loops}, "lock": "m", "run": 1000, "unlock": "m",
            "sleep": 1000}}}}}}"#
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("holders.json");
    fs::write(&file, workload).unwrap();
    let output = run(&[&["-w", file.to_str().unwrap(), "--format", "json"], more].concat())?;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = document["runs"][0].clone();
    assert_eq!(run["tasks"].as_array().unwrap().len(), 2, "the thread that creates them is none of them: {run:#}");
    Some(run)
}

#[test]
fn a_workload_is_played_by_real_threads() {
    let Some(run) = play(20, &[]) else { return };
    for task in run["tasks"].as_array().unwrap() {
        assert_eq!(task["work_ns"], 20_000_000, "all work is done, however long it takes: {run:#}");
        assert!(task["cpu_ns"].as_u64() > Some(19_000_000), "{run:#}");
    }
    assert!(run["makespan_ns"].as_u64() >= Some(40_000_000), "one works at a time: {run:#}");
}

#[test]
fn a_workload_without_end_is_played_for_as_long_as_was_asked() {
    let Some(run) = play(-1, &["--for", "300ms"]) else { return };
    assert!(run["elapsed_ns"].as_u64() >= Some(300_000_000), "{run:#}");
    assert!(run["makespan_ns"].is_null(), "{run:#}");
}

#[test]
fn watching_prints_a_line_each_second_until_somebody_ends_it() {
    let Some(output) = run(&["--for", "10ms"]) else { return };
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = weir().args(["run", "--monitor", "1", "--format", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<Value> = stdout.by_ref().take(2).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(began.elapsed() >= Duration::from_secs(2), "a line each second");
    let pid = child.id().to_string();
    assert!(Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(lines.len(), 2);
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    for line in &lines {
        let [run, idle, length] =
            ["/cpu_ns/run", "/cpu_ns/idle", "/interval_ns"].map(|name| line.pointer(name).unwrap().as_u64().unwrap());
        assert_eq!(run + idle, length * cpus, "{line}");
    }
    assert!(lines[0]["context_switches"].as_u64() > Some(0), "{}", lines[0]);
}

#[test]
fn watching_ends_when_nobody_reads() {
    if run(&["--for", "10ms"]).is_none() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = weir().args(["run", "--monitor", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("it goes on for nobody");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_command_that_cannot_start_is_bad_input() {
    let Some(output) = run(&["--", "/does/not/exist"]) else { return };
    assert_eq!(output.status.code(), Some(2));
    let expected = "weir: error: cannot start `/does/not/exist`: No such file or directory (os error 2)\n";
    assert_eq!((text(&output.stderr).as_str(), output.stdout.len()), (expected, 0));
}
