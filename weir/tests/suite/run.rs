// SPDX-License-Identifier: GPL-2.0-only
//! `weir run` on this machine's kernel, without a scheduler. These tests need root and BTF; otherwise they print a
//! line and pass. Tests that need sched_ext run in a virtual machine.

use event_log::{LogReader, Record};
use saved_run::SavedRun;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Serializes the tests: the kernel's switch for run-time statistics is global.
static TURN: Mutex<()> = Mutex::new(());

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// Runs `weir run`. Returns `None` and marks the test as skipped if it needs root or a kernel feature that is missing
/// here.
fn run(args: &[&str]) -> Option<Output> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = weir().arg("run").args(args).output().unwrap();
    let complaint = text(&output.stderr);
    let cannot = ["needs root", "CONFIG_DEBUG_INFO_BTF", "this kernel has no"];
    if output.status.code() == Some(2) && cannot.iter().any(|what| complaint.contains(what)) {
        skip::skip(format_args!("{complaint}"));
        return None;
    }
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// All keys of a document as paths; list elements are `[]`, and `null` has no keys.
fn keys(value: &Value) -> BTreeSet<String> {
    let below = |key: &str, value| keys(value).into_iter().map(|path| format!("{key}/{path}")).collect::<Vec<_>>();
    match value {
        Value::Object(members) => {
            let parts = members.iter().flat_map(|(key, value)| [vec![key.clone()], below(key, value)].concat());
            parts.collect()
        }
        Value::Array(values) => values.iter().flat_map(|value| below("[]", value)).collect(),
        _ => BTreeSet::new(),
    }
}

/// Keys that every simulated or real run has; `LATENCY` stands for the seven keys of a latency summary.
const KEYS: &str = "weir runs runs/[]/scheduler runs/[]/machine runs/[]/workload runs/[]/seed runs/[]/kernel \
    runs/[]/outcome runs/[]/exit runs/[]/exit/kind runs/[]/exit/reason runs/[]/exit/message runs/[]/exit/fault \
    runs/[]/exit/dump runs/[]/log_hash runs/[]/elapsed_ns runs/[]/makespan_ns runs/[]/context_switches runs/[]/wakeups \
    runs/[]/idle_while_runnable_ns runs/[]/migrations runs/[]/migrations/smt runs/[]/migrations/llc \
    runs/[]/migrations/node runs/[]/migrations/far runs/[]/wakeup_latency_ns LATENCY runs/[]/run_delay_ns \
    runs/[]/cpu_ns runs/[]/cpu_ns/run runs/[]/cpu_ns/idle runs/[]/cpu_ns/scheduler runs/[]/cpu_ns/stolen \
    runs/[]/cpu_ns/offline runs/[]/bpf_instructions runs/[]/lock_wait_ns runs/[]/failed_forks runs/[]/refused_changes \
    runs/[]/restarts runs/[]/meter runs/[]/tasks runs/[]/tasks/[]/id runs/[]/tasks/[]/name runs/[]/tasks/[]/work_ns \
    runs/[]/tasks/[]/cpu_ns runs/[]/tasks/[]/stolen_ns runs/[]/tasks/[]/runnable_ns runs/[]/tasks/[]/blocked_ns \
    runs/[]/tasks/[]/cpus_allowed runs/[]/tasks/[]/cpus_used runs/[]/tasks/[]/wakeup_latency_ns";

#[test]
fn simulated_and_real_runs_have_the_same_keys() {
    let simulated =
        weir().args(["sim", "fifo", "-w", "pingpong", "--for", "1ms", "--format", "json"]).output().unwrap();
    let mut simulated = keys(&serde_json::from_slice(&simulated.stdout).unwrap());
    // A real run has no list of locks.
    simulated.retain(|key| !key.starts_with("runs/[]/locks/"));
    let expected = KEYS.replace("LATENCY", "");
    let missing: Vec<&str> = expected.split_whitespace().filter(|key| !simulated.contains(*key)).collect();
    assert!(missing.is_empty(), "{missing:?} of {simulated:#?}");
    for latency in ["runs/[]/wakeup_latency_ns", "runs/[]/tasks/[]/wakeup_latency_ns"] {
        for number in ["count", "mean", "p50", "p90", "p99", "p999", "max"] {
            assert!(simulated.contains(&format!("{latency}/{number}")), "{latency}/{number}");
        }
    }
    let Some(real) = run(&["--format", "json", "--", "true"]) else { return };
    let mut real = keys(&serde_json::from_slice(&real.stdout).unwrap());
    // Only real runs describe how they were measured.
    real.retain(|key| !key.starts_with("runs/[]/meter/"));
    // On a busy machine its times are doubtful.
    real.retain(|key| !key.starts_with("runs/[]/doubtful/"));
    assert_eq!(real, simulated);
}

#[test]
fn real_run_times_add_up_and_the_command_status_is_reported() {
    let script = "echo out; sleep 0.02; exit 3";
    let Some(output) = run(&["--format", "json", "--", "sh", "-c", script]) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "out\n", "standard output has the JSON alone");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let real = &document["runs"][0];
    assert_eq!(real["scheduler"], "kernel");
    assert_eq!(real["workload"], "sh -c 'echo out; sleep 0.02; exit 3'");
    assert_eq!(real["meter"]["failure"], "the command failed: exit status: 3");
    assert_eq!((&real["tasks"][0]["name"], &real["tasks"][1]["name"]), (&"sh".into(), &"sleep".into()));
    let ns = |value: &Value| value.as_u64().unwrap();
    let cpu: u64 = real["cpu_ns"].as_object().unwrap().values().map(ns).sum();
    assert_eq!(cpu % ns(&real["elapsed_ns"]), 0, "the times of each CPU add up to the elapsed time");
    assert!(ns(&real["tasks"][1]["blocked_ns"]) >= 20_000_000 && ns(&real["makespan_ns"]) >= 20_000_000, "{real:#}");
}

#[test]
fn command_ended_by_the_time_limit_is_not_a_failure() {
    let Some(output) = run(&["--for", "100ms", "--", "sleep", "60"]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(
        text(&output.stdout).contains("\ncompleted: ran for "),
        "the run was cut at its time limit: {}",
        text(&output.stdout)
    );
    let own_end = run(&["--for", "60s", "--", "sh", "-c", "kill $$"]).unwrap();
    assert_eq!(own_end.status.code(), Some(1), "weir did not send this signal: {}", text(&own_end.stdout));
}

/// Executes a workload of two tasks that repeat `loops` times: 1 ms of work under a mutex, then a sleep of 1 ms.
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
    assert_eq!(run["tasks"].as_array().unwrap().len(), 2, "the thread that creates the tasks is not counted: {run:#}");
    Some(run)
}

/// Number of attempts after a disturbed execution. On a virtual machine neighbors can slow the CPUs for longer than
/// their speed is calibrated; such a run reports itself that less work was done.
const ATTEMPTS: u32 = 5;

#[test]
fn workload_is_executed_by_real_tasks() {
    let Some(mut run) = play(20, &[]) else { return };
    // Other programs of this machine make the times doubtful, but not the work.
    let is_doubtful =
        |run: &Value| run["doubtful"].as_array().unwrap().iter().any(|doubt| doubt["measure"] == "work_ns");
    for _ in 1..ATTEMPTS {
        if !is_doubtful(&run) {
            break;
        }
        run = play(20, &[]).unwrap();
    }
    assert!(!is_doubtful(&run), "{run:#}");
    for task in run["tasks"].as_array().unwrap() {
        assert_eq!(task["work_ns"], 20_000_000, "the amount of work does not depend on its duration: {run:#}");
        assert!(task["cpu_ns"].as_u64() > Some(19_000_000), "{run:#}");
    }
    assert!(run["makespan_ns"].as_u64() >= Some(40_000_000), "the mutex serializes the work: {run:#}");
}

#[test]
fn endless_workload_is_executed_for_the_given_duration() {
    let Some(run) = play(-1, &["--for", "300ms"]) else { return };
    assert!(run["elapsed_ns"].as_u64() >= Some(300_000_000), "{run:#}");
    assert!(run["makespan_ns"].is_null(), "{run:#}");
}

#[test]
fn monitor_prints_a_line_per_second_until_interrupted() {
    let Some(output) = run(&["--for", "10ms"]) else { return };
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = weir().args(["run", "--monitor", "1", "--format", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<Value> = stdout.by_ref().take(2).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(began.elapsed() >= Duration::from_secs(2), "one line per second");
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
fn monitor_ends_when_its_output_is_closed() {
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
            panic!("weir continues although its output is closed");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn command_that_cannot_start_gives_exit_status_2() {
    let Some(output) = run(&["--", "/does/not/exist"]) else { return };
    assert_eq!(output.status.code(), Some(2));
    let expected = "weir: error: cannot start `/does/not/exist`: No such file or directory (os error 2)\n";
    assert_eq!((text(&output.stderr).as_str(), output.stdout.len()), (expected, 0));
}

#[test]
fn inherited_ignored_signal_stays_ignored() {
    if run(&["--for", "10ms"]).is_none() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let script = "trap '' HUP; exec \"$0\" run --monitor 1 --for 4s --format json";
    let mut command = Command::new("sh");
    let mut child = command.args(["-c", script, env!("CARGO_BIN_EXE_weir")]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().is_some());
    assert!(Command::new("sh").args(["-c", &format!("kill -HUP {}", child.id())]).status().unwrap().success());
    assert!(lines.count() >= 1, "an ignored SIGHUP must stay ignored, as under nohup");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn wait_for(file: &Path) {
    let began = Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "no {}", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Records a shell script to `x.weir`, and sends this signal to weir alone once the file `ready` exists.
fn record(directory: &Path, script: &str, signal: Option<&str>) -> Option<i32> {
    let args = ["record", "-o", "x.weir", "--", "sh", "-c", script];
    let mut child = weir().args(args).current_dir(directory).stderr(Stdio::null()).spawn().unwrap();
    if let Some(signal) = signal {
        wait_for(&directory.join("ready"));
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if began.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("weir does not exit: {script}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn recording_file_is_complete_or_absent() {
    if run(&["--for", "10ms"]).is_none() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let long = "trap 'echo >stopped; exit 7' TERM; echo >ready; for i in $(seq 200); do sleep 0.1; done";
    let cases = [
        ("true", None, Some(0), &["x.weir"][..]),
        ("exit 3", None, Some(1), &["x.weir"]),
        // The signal reaches the command, and what was recorded until then is kept.
        (long, Some("TERM"), Some(1), &["ready", "stopped", "x.weir"]),
        ("echo >ready; sleep 20", Some("KILL"), None, &["ready"]),
    ];
    for (script, signal, status, left) in cases {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(record(directory.path(), script, signal), status, "{script}");
        assert_eq!(names(directory.path()), left, "{script}");
        if left.contains(&"x.weir") {
            let replay = ["sim", "fifo", "-m", "laptop-2c4t", "-w", "x.weir", "--for", "1ms"];
            assert!(weir().args(replay).current_dir(directory.path()).output().unwrap().status.success(), "{script}");
        }
    }
}

#[test]
fn record_to_a_pipe_does_not_replace_it_and_to_a_link_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let [link, pipe, precious] = ["link.weir", "pipe", "precious"].map(|name| directory.path().join(name));
    fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    if run(&["--for", "10ms"]).is_none() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let to = |path: &Path| weir().args(["record", "-o"]).arg(path).args(["--", "true"]).output().unwrap();
    let refused = to(&link);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("it is a symbolic link to "), "{refused:?}");
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    let reader = Command::new("wc").arg("-c").arg(&pipe).stdout(std::process::Stdio::piped()).spawn().unwrap();
    assert_eq!(to(&pipe).status.code(), Some(0));
    let read = String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap();
    assert!(read.split(' ').next().unwrap().parse::<u64>().unwrap() > 100, "{read}");
    assert_eq!(names(directory.path()), ["link.weir", "pipe", "precious"]);
}

/// Command lines of the recorded tasks may have passwords.
#[test]
fn recordings_are_readable_by_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("true.weir");
    if run(&["--for", "10ms"]).is_none() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let status = weir().args(["record", "-o"]).arg(&file).args(["--", "true"]).output().unwrap().status;
    assert_eq!(status.code(), Some(0));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Table, JSON and log of a real run identify tasks by their kernel PIDs.
#[test]
fn real_run_reports_kernel_pids() {
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("pid");
    let script = format!("echo $$ >{}; sleep 0.01", told.display());
    let saved = directory.path().join("one.weirrun");
    let args = ["--format", "json", "--save", saved.to_str().unwrap(), "--", "sh", "-c", &script];
    let Some(output) = run(&args) else { return };
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid: u32 = fs::read_to_string(told).unwrap().trim().parse().unwrap();
    let tasks = document["runs"][0]["tasks"].as_array().unwrap();
    assert_eq!(tasks[0]["pid"], pid, "{tasks:?}");
    let saved = SavedRun::from_bytes(&fs::read(saved).unwrap()).unwrap();
    let log = saved.part("events/0").unwrap().expect("a real run has its events");
    let mut reader = LogReader::new(&log[..]).unwrap();
    let mut tasks = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        if let Record::Task(_, info) = record {
            tasks.push(info.pid);
        }
    }
    assert_eq!(tasks[0], pid, "{tasks:?}");
}
