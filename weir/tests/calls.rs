// SPDX-License-Identifier: GPL-2.0-only
//! `--call`: programs of a scheduler that its user calls while it runs.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Two jobs on four CPUs, of which one reserves a CPU.
const JOBS: &str = r#"{
  "global": {"duration": 4},
  "taskgroups": {"/db": {"reserve": {"cpus": 1}}, "/rest": {}},
  "tasks": {
    "db": {"instance": 4, "taskgroup": "/db", "loop": -1, "run": 100000},
    "rest": {"instance": 4, "taskgroup": "/rest", "loop": -1, "run": 100000}
  }
}"#;

fn weir(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).current_dir(folder).output().unwrap()
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.json"), JOBS).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The runs of `weir sim sets` with the jobs, and the status.
fn sets(folder: &Path, more: &[&str]) -> (Vec<Value>, Option<i32>) {
    let args = ["sim", "sets", "-m", "core:4 pu:1", "-w", "./jobs.json", "--format", "json"];
    let output = weir(folder, &[&args, more].concat());
    let said = text(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (json["runs"].as_array().unwrap().clone(), output.status.code())
}

/// CPU time of the groups in tenths of a second.
fn ran(run: &Value) -> Vec<u64> {
    let groups = run["groups"].as_array().unwrap().iter();
    groups.map(|group| (group["cpu_ns"].as_u64().unwrap() + 50_000_000) / 100_000_000).collect()
}

#[test]
fn a_job_has_one_cpu_and_then_three() {
    let folder = folder();
    let (runs, status) = sets(folder.path(), &[]);
    assert_eq!((ran(&runs[0]), &runs[0]["calls"], status), (vec![40, 120], &json!([]), Some(0)));
    let call = "assign:group=db,cpus=3@2s";
    let (runs, status) = sets(folder.path(), &["--call", call]);
    // 2 s of one CPU and 2 s of three.
    assert_eq!((ran(&runs[0]), status), (vec![80, 80], Some(0)));
    let made = &runs[0]["calls"][0];
    assert_eq!((&made["call"], &made["returned"]), (&json!(call), &json!(0)));
    // The CPU is in a tick then.
    assert!((2_000_000_000..2_000_010_000).contains(&made["made_ns"].as_u64().unwrap()), "{made}");
    // And back again.
    let (runs, _) = sets(folder.path(), &["--call", "assign:group=db,cpus=1@3s", "--call", call]);
    assert_eq!(ran(&runs[0]), [60, 100]);
}

#[test]
fn nobody_is_refused_in_silence() {
    let folder = folder();
    let (runs, status) = sets(folder.path(), &["--call", "assign:group=web,cpus=3@2s", "--call", "assign@9s"]);
    assert_eq!(status, Some(1), "no job has that name");
    let calls = &runs[0]["calls"];
    assert_eq!((&calls[0]["returned"], &calls[1]["made_ns"]), (&json!(-2), &Value::Null));
    assert_eq!(runs[0]["outcome"], "completed");

    let args = ["sim", "sets", "-m", "core:4 pu:1", "-w", "./jobs.json", "--call", "assign:group=web@2s"];
    let output = weir(folder.path(), &[&args[..], &["--call", "assign@9s"]].concat());
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("calls assign:group=web@2s assign@9s"), "the title: {shown}");
    assert!(flat.contains("CALL FAILED: assign:group=web@2s returned -2 after 2.00 s"), "{shown}");
    assert!(flat.contains("WARNING: assign@9s was not called: the run ended before"), "{shown}");
    assert!(said.contains("--call assign:group=web@2s --call assign@9s"), "the command line: {said}");
    // A call that is not reached is no failure.
    assert_eq!(sets(folder.path(), &["--call", "assign@9s"]).1, Some(0));
}

#[test]
fn what_cannot_be_called_is_one_error() {
    let folder = folder();
    let error = |scheduler: &str, call: &str| {
        let args = ["sim", scheduler, "-m", "core:4 pu:1", "-w", "./jobs.json", "--call", call];
        let output = weir(folder.path(), &args);
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
    expect("sets", "assign:cpus=1,cpus=2@1s", &["it gives `cpus` twice"]);
    expect("sets", "assing:cpus=1@1s", &["program of the object in section `syscall`", "`assing`", "assign"]);
    expect("sets", "sets_enqueue@1s", &["program of the object in section `syscall`", "`sets_enqueue`"]);
    expect("sets", "assign:cpu=1@1s", &["member of the context of `assign`", "`cpu`", "cpus"]);
    expect("sets", "assign:cpus=many@1s", &["--call assign:cpus=many@1s", "`cpus`", "expected a number"]);
    expect("sets", "assign:cpus=-1@1s", &["`cpus`", "-1"]);
    let long = format!("assign:group={}@1s", "x".repeat(32));
    expect("sets", &long, &["`group`", "do not fit into 32 bytes"]);
    expect("fifo", "assign@1s", &["program of the object in section `syscall`", "`assign`"]);
    expect("kernel", "assign@1s", &["--call assign@1s", "the kernel's own scheduler"]);
}

/// `weir explain` makes the run again, calls and all: another run would have another hash.
#[test]
fn a_saved_run_is_made_again_with_its_calls() {
    let folder = folder();
    let call = ["--call", "assign:group=db,cpus=3@2s"];
    let (with, _) = sets(folder.path(), &[&call[..], &["--save", "with.weirrun"]].concat());
    let (without, _) = sets(folder.path(), &["--save", "without.weirrun"]);
    assert_ne!(with[0]["log_hash"], without[0]["log_hash"]);
    let output = weir(folder.path(), &["explain", "with.weirrun"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Side by side they are two setups, of which the calls are what differs.
    let output = weir(folder.path(), &["compare", "without.weirrun", "with.weirrun"]);
    let shown = text(&output.stdout);
    let heads: Vec<&str> = shown.lines().filter(|line| line.starts_with("calls ")).collect();
    assert!(heads.iter().any(|line| line.contains("assign:group=db,cpus=3@2s")), "{shown}");
}

/// Without stealing CPUs idle beside tasks that wait in another group; with it none does.
#[test]
fn stealing_is_switched_on_and_off() {
    let folder = tempfile::tempdir().unwrap();
    let idle_ms = |scheduler: &str, workload: &str, calls: &[&str]| {
        let args = ["sim", scheduler, "-m", "nix-32", "-w", workload, "--for", "2s", "--format", "json"];
        let calls: Vec<&str> = calls.iter().flat_map(|call| ["--call", call]).collect();
        let output = weir(folder.path(), &[&args[..], &calls].concat());
        let said = text(&output.stderr);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        json["runs"][0]["idle_while_runnable_ns"].as_u64().unwrap() / 1_000_000
    };
    let expect = |ms: u64, idle: u64| assert!(idle.abs_diff(ms) <= 5, "{idle} ms, expected {ms}");
    expect(2000, idle_ms("nix@groups,steal=false", "hogs", &[]));
    expect(0, idle_ms("nix@groups", "hogs", &[]));
    // Whoever idles is woken by the call, and steals.
    expect(1000, idle_ms("nix@groups,steal=false", "hogs", &["switch_groups:steal=1@1s"]));
    // Who comes when nobody steals waits, until somebody does.
    let off = "switch_groups:steal=0@500ms";
    expect(1000, idle_ms("nix@groups", "hogs,start=1s", &[off]));
    expect(500, idle_ms("nix@groups", "hogs,start=1s", &[off, "switch_groups:steal=1@1500ms"]));
}
