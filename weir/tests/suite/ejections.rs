// SPDX-License-Identifier: GPL-2.0-only
//! Faulty schedulers: exit status 1, and a report in the kernel's words.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Compiles `broken.bpf.c` with this macro into `directory`.
fn broken(directory: &Path, define: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = format!("-I{}", here.join("../policies/include").display());
    let define = format!("-D{define}");
    let source = here.join("tests/schedulers/broken.bpf.c");
    let object = bpf_clang::object_of(&source, directory, &[&include, &define]);
    std::fs::write(directory.join("broken.bpf.o"), object).unwrap();
}

fn weir(directory: &Path, args: &[&str]) -> Output {
    let common = ["sim", "./broken.bpf.o", "-m", "laptop-2c4t", "-w", "hogs", "--for", "60s"];
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(common).args(args).output().unwrap()
}

#[test]
fn broken_schedulers_are_ejected_with_status_1() {
    let cases = [
        // The tasks that find an idle CPU run on the other three CPUs, as the CPU that creates them is busy. The
        // stalled task is therefore reported by the watchdog's kworker.
        ("LAZY", 1026, "runnable task stall", "hog-3[104] failed to run for 30."),
        ("COMPLAINS", 1025, "scx_bpf_error", "cannot place pid 10"),
        ("WILD", 1024, "runtime error", ""),
        ("ENDLESS", 1024, "runtime error", ""),
    ];
    for (define, kind, reason, message) in cases {
        let directory = tempfile::tempdir().unwrap();
        broken(directory.path(), define);
        let output = weir(directory.path(), &["--format", "json"]);
        assert_eq!(output.status.code(), Some(1), "{define}: {}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (run, exit) = (&document["runs"][0], &document["runs"][0]["exit"]);
        assert_eq!(run["outcome"], "ejected", "{define}");
        assert_eq!((&exit["kind"], &exit["reason"]), (&kind.into(), &reason.into()), "{define}: {exit}");
        assert!(exit["message"].as_str().unwrap().contains(message), "{define}: {exit}");
        if message.is_empty() {
            let fault = exit["fault"].as_str().unwrap();
            assert!(fault.contains("broken_enqueue") && fault.contains("broken.bpf.c:"), "{define}: {fault}");
        }
    }
}

#[test]
fn deadlock_gives_exit_status_1() {
    let directory = tempfile::tempdir().unwrap();
    let workload = r#"{"tasks": {"a": {"loop": 1, "run": 1000, "suspend": "a"}}, "global": {"duration": -1}}"#;
    std::fs::write(directory.path().join("stuck.json"), workload).unwrap();
    let args = ["sim", "fifo", "-m", "laptop-2c4t", "-w", "stuck.json"];
    let stuck = Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory.path()).args(args).output().unwrap();
    assert_eq!(stuck.status.code(), Some(1));
    assert!(String::from_utf8(stuck.stdout).unwrap().contains("\nDEADLOCK after "));
}

#[test]
fn text_report_shows_the_reason_of_an_ejection() {
    let directory = tempfile::tempdir().unwrap();
    broken(directory.path(), "COMPLAINS");
    let output = weir(directory.path(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<&str> = text.lines().skip(1).take(3).map(|line| line.split("pid").next().unwrap()).collect();
    assert!(lines[0].starts_with("EJECTED after "), "{text}");
    assert_eq!(lines[1..], ["  scx_bpf_error", "  cannot place "], "{text}");
}

/// JSON, table, log and dump identify a task by the PID that the kernel and the scheduler use.
#[test]
fn task_pid_is_the_same_in_json_table_log_and_dump() {
    let directory = tempfile::tempdir().unwrap();
    broken(directory.path(), "COMPLAINS");
    let output = weir(directory.path(), &["--format", "json", "--log", "run.jsonl"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (run, exit) = (&document["runs"][0], &document["runs"][0]["exit"]);
    let message = exit["message"].as_str().unwrap();
    let pid: u64 = message.split("cannot place pid ").nth(1).and_then(|rest| rest.parse().ok()).expect(message);
    let tasks = run["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|task| task["pid"] == pid).unwrap_or_else(|| panic!("{message}: {tasks:?}"));
    let name = task["name"].as_str().unwrap();
    let dump = exit["dump"].as_str().unwrap();
    assert!(dump.contains(&format!("{name}[{pid}]")), "{dump}");
    let log = std::fs::read_to_string(directory.path().join("run.jsonl")).unwrap();
    let mut lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let born =
        lines.find(|line| line["kind"] == "task" && line["pid"] == pid).expect("the task is announced in the log");
    assert_eq!((&born["name"], &born["task"]), (&task["name"], &task["id"]));
    let events: Vec<Value> = lines.filter(|line| line["task"] == task["id"]).collect();
    assert!(!events.is_empty() && events.iter().all(|event| event["pid"] == pid), "{events:?}");
    let text = String::from_utf8(weir(directory.path(), &[]).stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with(&format!("{pid} {name} "))), "{text}");
}
