// SPDX-License-Identifier: GPL-2.0-only
//! `--call`: calls of a scheduler's syscall programs during a run.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Two jobs on four CPUs; one of them reserves a CPU.
const JOBS: &str = r#"{
  "global": {"duration": 4},
  "taskgroups": {"/db": {"reserve": {"cpus": 1}}, "/rest": {}},
  "tasks": {
    "db": {"instance": 4, "taskgroup": "/db", "loop": -1, "run": 100000},
    "rest": {"instance": 4, "taskgroup": "/rest", "loop": -1, "run": 100000}
  }
}"#;

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).current_dir(directory).output().unwrap()
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("jobs.json"), JOBS).unwrap();
    directory
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `weir sim sets` with the two jobs; returns the runs and the exit status.
fn sets(directory: &Path, more: &[&str]) -> (Vec<Value>, Option<i32>) {
    let args = ["sim", "sets", "-m", "core:4 pu:1", "-w", "./jobs.json", "--format", "json"];
    let output = weir(directory, &[&args, more].concat());
    let said = text(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (json["runs"].as_array().unwrap().clone(), output.status.code())
}

/// CPU time of the groups in units of 0.1 s.
fn ran(run: &Value) -> Vec<u64> {
    let groups = run["groups"].as_array().unwrap().iter();
    groups.map(|group| (group["cpu_ns"].as_u64().unwrap() + 50_000_000) / 100_000_000).collect()
}

#[test]
fn assign_call_changes_the_cpus_of_a_job() {
    let directory = directory();
    let (runs, status) = sets(directory.path(), &[]);
    assert_eq!((ran(&runs[0]), &runs[0]["calls"], status), (vec![40, 120], &json!([]), Some(0)));
    let call = "assign:group=db,cpus=3@2s";
    let (runs, status) = sets(directory.path(), &["--call", call]);
    // 2 s with one CPU and 2 s with three.
    assert_eq!((ran(&runs[0]), status), (vec![80, 80], Some(0)));
    let made = &runs[0]["calls"][0];
    assert_eq!((&made["call"], &made["returned"]), (&json!(call), &json!(0)));
    // The call may be delayed by a tick on its CPU.
    assert!((2_000_000_000..2_000_010_000).contains(&made["made_ns"].as_u64().unwrap()), "{made}");
    // A second call returns the CPUs to the default set.
    let (runs, _) = sets(directory.path(), &["--call", "assign:group=db,cpus=1@3s", "--call", call]);
    assert_eq!(ran(&runs[0]), [60, 100]);
}

#[test]
fn failed_and_unreached_calls_are_reported() {
    let directory = directory();
    let (runs, status) = sets(directory.path(), &["--call", "assign:group=web,cpus=3@2s", "--call", "assign@9s"]);
    assert_eq!(status, Some(1), "no job has that name");
    let calls = &runs[0]["calls"];
    assert_eq!((&calls[0]["returned"], &calls[1]["made_ns"]), (&json!(-2), &Value::Null));
    assert_eq!(runs[0]["outcome"], "completed");

    let args = ["sim", "sets", "-m", "core:4 pu:1", "-w", "./jobs.json", "--call", "assign:group=web@2s"];
    let output = weir(directory.path(), &[&args[..], &["--call", "assign@9s"]].concat());
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("calls assign:group=web@2s assign@9s"), "the title: {shown}");
    assert!(flat.contains("CALL FAILED: assign:group=web@2s returned -2 after 2.00 s"), "{shown}");
    assert!(flat.contains("WARNING: assign@9s was not called: the run ended before"), "{shown}");
    assert!(said.contains("--call assign:group=web@2s --call assign@9s"), "the command line: {said}");
    // A call planned after the end of the run is not a failure.
    assert_eq!(sets(directory.path(), &["--call", "assign@9s"]).1, Some(0));
}

#[test]
fn invalid_calls_are_one_error_before_the_run() {
    let directory = directory();
    let error = |scheduler: &str, call: &str| {
        let args = ["sim", scheduler, "-m", "core:4 pu:1", "-w", "./jobs.json", "--call", call];
        let output = weir(directory.path(), &args);
        let said = text(&output.stderr);
        let error = said.lines().last().unwrap_or_default().to_owned();
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{call}: {said}");
        assert!(error.starts_with("weir: error: "), "{call}: {said}");
        error
    };
    let expect = |scheduler: &str, call: &str, words: &[&str]| {
        let error = error(scheduler, call);
        assert!(words.iter().all(|word| error.contains(word)), "{call}: {error}");
    };
    expect("sets", "assign", &["--call", "expected PROGRAM:MEMBER=VALUE,...@TIME"]);
    expect("sets", "assign:group@1s", &["expected PROGRAM:MEMBER=VALUE,...@TIME"]);
    expect("sets", "assign@1", &["expected PROGRAM:MEMBER=VALUE,...@TIME"]);
    expect("sets", "assign:cpus=1,cpus=2@1s", &["duplicate member `cpus`"]);
    expect("sets", "assing:cpus=1@1s", &["program of the object in section `syscall`", "`assing`", "assign"]);
    expect("sets", "sets_enqueue@1s", &["program of the object in section `syscall`", "`sets_enqueue`"]);
    expect("sets", "assign:cpu=1@1s", &["member of the context of `assign`", "`cpu`", "cpus"]);
    expect("sets", "assign:cpus=many@1s", &["--call assign:cpus=many@1s", "`cpus`", "expected a number"]);
    expect("sets", "assign:cpus=-1@1s", &["`cpus`", "-1"]);
    let long = format!("assign:group={}@1s", "x".repeat(32));
    expect("sets", &long, &["`group`", "do not fit into 32 bytes"]);
    expect("fifo", "assign@1s", &["program of the object in section `syscall`", "`assign`"]);
    expect("kernel", "assign@1s", &["--call assign@1s", "the default scheduler"]);
}

/// `weir explain` reproduces the run including its calls; without them the hash would differ.
#[test]
fn saved_run_is_reproduced_with_its_calls() {
    let directory = directory();
    let call = ["--call", "assign:group=db,cpus=3@2s"];
    let (with, _) = sets(directory.path(), &[&call[..], &["--save", "with.weirrun"]].concat());
    let (without, _) = sets(directory.path(), &["--save", "without.weirrun"]);
    assert_ne!(with[0]["log_hash"], without[0]["log_hash"]);
    let output = weir(directory.path(), &["explain", "with.weirrun"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // In a comparison, the runs are two setups that differ in their calls.
    let output = weir(directory.path(), &["compare", "without.weirrun", "with.weirrun"]);
    let shown = text(&output.stdout);
    let heads: Vec<&str> = shown.lines().filter(|line| line.starts_with("calls ")).collect();
    assert!(heads.iter().any(|line| line.contains("assign:group=db,cpus=3@2s")), "{shown}");
}

/// Without stealing, CPUs idle while tasks wait in another group; with stealing, none does.
#[test]
fn switch_groups_call_turns_stealing_on_and_off() {
    let directory = tempfile::tempdir().unwrap();
    let idle_ms = |scheduler: &str, workload: &str, calls: &[&str]| {
        let args = ["sim", scheduler, "-m", "nix-32", "-w", workload, "--for", "2s", "--format", "json"];
        let calls: Vec<&str> = calls.iter().flat_map(|call| ["--call", call]).collect();
        let output = weir(directory.path(), &[&args[..], &calls].concat());
        let said = text(&output.stderr);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        json["runs"][0]["idle_while_runnable_ns"].as_u64().unwrap() / 1_000_000
    };
    let expect = |ms: u64, idle: u64| assert!(idle.abs_diff(ms) <= 5, "{idle} ms, expected {ms}");
    expect(2000, idle_ms("nix@groups,steal=false", "hogs", &[]));
    expect(0, idle_ms("nix@groups", "hogs", &[]));
    // The call wakes idle CPUs, which then steal.
    expect(1000, idle_ms("nix@groups,steal=false", "hogs", &["switch_groups:steal=1@1s"]));
    // Tasks that arrive while stealing is off wait until it is switched on.
    let off = "switch_groups:steal=0@500ms";
    expect(1000, idle_ms("nix@groups", "hogs,start=1s", &[off]));
    expect(500, idle_ms("nix@groups", "hogs,start=1s", &[off, "switch_groups:steal=1@1500ms"]));
}
