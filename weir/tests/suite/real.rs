// SPDX-License-Identifier: GPL-2.0-only
//! Real runs: explanations, HTML reports and the live view. These tests need root and BTF; otherwise they print a
//! line and pass.

use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Serializes the tests: the kernel's switch for run-time statistics is global.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether `weir run` was possible here.
fn could(output: &Output) -> bool {
    let complaint = text(&output.stderr);
    let cannot = ["needs root", "CONFIG_DEBUG_INFO_BTF", "this kernel has no"];
    let refused = output.status.code() == Some(2) && cannot.iter().any(|what| complaint.contains(what));
    if refused {
        skip::skip(format_args!("{complaint}"));
    }
    !refused
}

/// More runnable tasks than one CPU, a sleep, and a parent that waits for its children.
const SCRIPT: &str = "for i in 1 2 3; do (head -c 3000000 /dev/zero | md5sum >/dev/null) & done; sleep 0.2; wait";

/// Runs [`SCRIPT`] on CPU 0 and writes `a.weirrun` and `a.html`. Repeats the run if the kernel hid a wakeup from the meter,
/// since the waker of a hidden wakeup is unknown even if it is a timer. A virtual machine hid 0 to 8 of 15,000 wakeups.
/// Returns false if `weir run` is not possible here.
fn run_without_unseen_wakeups(directory: &Path) -> bool {
    const ATTEMPTS: usize = 10;
    let command = ["taskset", "-c", "0", "sh", "-c", SCRIPT];
    let options = ["run", "--save", "a.weirrun", "--report", "a.html", "--format", "json", "--"];
    for _ in 0..ATTEMPTS {
        let made = weir(directory, &[options.as_slice(), &command].concat());
        if !could(&made) {
            return false;
        }
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
        let document: Value = serde_json::from_slice(&made.stdout).unwrap();
        if document["runs"][0]["meter"]["unseen_wakeups"].as_u64().unwrap() == 0 {
            return true;
        }
    }
    panic!("each of {ATTEMPTS} runs had wakeups that were hidden from the meter");
}

/// The counterpart of `recordings::nix_workloads_from_ixfs_complete_under_each_scheduler` in this machine's kernel.
#[test]
fn nix_workloads_from_ixfs_complete_in_the_running_kernel() {
    let _turn = turn();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/recorded");
    for name in ["nix-w1.weir", "nix-w2.weir", "nix-w3.weir"] {
        let path = recorded.join(name).display().to_string();
        let described = weir(&recorded, &["workload", &path, "--format", "json"]);
        let described: Value = serde_json::from_slice(&described.stdout).unwrap();
        let made = weir(&recorded, &["run", "-w", &path, "--format", "json"]);
        if !could(&made) {
            return;
        }
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
        let document: Value = serde_json::from_slice(&made.stdout).unwrap();
        let run = &document["runs"][0];
        assert_eq!((&run["world"], &run["outcome"]), (&"real".into(), &"completed".into()), "{name}");
        assert!(run["makespan_ns"].as_u64() > Some(0), "{name}: {}", run["makespan_ns"]);
        assert_eq!(run["work_ns"], described["work_ns"], "{name}");
    }
}

#[test]
fn real_run_explanation_omits_unobserved_queues() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| weir(directory.path(), args);
    if !run_without_unseen_wakeups(directory.path()) {
        return;
    }
    let explained = run(&["explain", "a.weirrun"]);
    assert_eq!(explained.status.code(), Some(0), "{}", text(&explained.stderr));
    let explained = text(&explained.stdout);
    assert!(explained.contains("unknown: only a simulated run shows them"), "{explained}");
    assert!(
        explained.contains("The longest chain of causes took") && explained.contains("slept until a timer"),
        "{explained}"
    );
    assert!(
        !explained.contains("responsible callbacks, most likely first"),
        "unobserved decisions are not blamed: {explained}"
    );
    assert!(explained.lines().all(|line| line.chars().count() <= 80), "{explained}");
    let json = run(&["explain", "a.weirrun", "--worst", "5", "--chain", "--format", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    for wait in json["waits"].as_array().unwrap() {
        assert_eq!(wait["queues_seen"], false);
        // A task pinned to one CPU waited for other tasks on that CPU or while the CPU was idle, and for nothing
        // else.
        if wait["cpus_allowed"] == "0" {
            let ran: u64 = wait["runners"].as_array().unwrap().iter().map(|run| run["ran_ns"].as_u64().unwrap()).sum();
            assert_eq!(ran + wait["idle_ns"].as_u64().unwrap(), wait["wait_ns"].as_u64().unwrap(), "{wait:#}");
        }
    }
    assert!(json["chain"]["sums"]["timer_ns"].as_u64().unwrap() > 100_000_000, "{:#}", json["chain"]["sums"]);
    let refused = run(&["explain", "a.weirrun", "--ejection"]);
    assert_eq!(refused.status.code(), Some(2));
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(run(&["report", "a.weirrun", "-o", "b.html"]).status.code(), Some(0));
    let page = read("a.html");
    assert_eq!(page, read("b.html"), "--report equals --save followed by weir report");
    assert!(page.contains("a real machine never behaves identically twice") && !page.contains("gives identical runs"));
    assert!(page.contains("Queues are not available") && page.contains("timeline-data-0"));
}

/// Output of this shell command on a terminal of 80 x 24; `$W` is the program, and `keys` are pressed after the first
/// frame. `None` if `script` is not installed.
fn on_a_terminal(directory: &Path, line: &str, keys: Option<&str>) -> Option<String> {
    let line = format!("trap : INT; stty rows 24 cols 80; stty -g >before; {line}; echo \"status $?\"; stty -g >after");
    if Command::new("script").arg("--version").output().is_err() {
        skip::skip("there is no script");
        return None;
    }
    // Shells start background commands with SIGINT ignored, which their children inherit.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "script", "-qefc", &line, "/dev/null"]).current_dir(directory);
    command.env("W", env!("CARGO_BIN_EXE_weir")).env("TERM", "xterm").env("SHELL", "/bin/sh");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut seen, mut bytes, mut keys) = (Vec::new(), [0; 4096], keys);
    while let Ok(read @ 1..) = output.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..read]);
        if text(&seen).contains("CPUs:")
            && let Some(keys) = keys.take()
        {
            input.write_all(keys.as_bytes()).unwrap();
        }
    }
    let _ = child.wait();
    Some(text(&seen))
}

/// Escape sequences that enter and leave the alternate screen.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

#[test]
fn tui_shows_the_run_live_and_restores_the_terminal() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    if !could(&weir(directory.path(), &["run", "--", "true"])) {
        return;
    }
    let line = "$W run --tui -- sh -c 'echo to be kept; echo this too >&2; sleep 1'";
    let Some(seen) = on_a_terminal(directory.path(), line, None) else { return };
    let (entered, left) = (seen.find(ENTER).expect(&seen), seen.find(LEAVE).expect(&seen));
    let frames = &seen[entered..left];
    // Blanks are skipped by cursor movements.
    assert!(["CPUs:", "latency,", "longest", "q ends the run"].iter().all(|part| frames.contains(part)), "{frames}");
    // Captured output is printed after the screen closes, followed by the report.
    let after = &seen[left..];
    for part in ["to be kept", "this too", "completed: all work done after", "status 0"] {
        assert!(after.contains(part), "{part:?} in {after}");
    }
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(read("before"), read("after"), "terminal modes are restored");
}

#[test]
fn tui_keys_end_a_run_like_ctrl_c() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    if !could(&weir(directory.path(), &["run", "--", "true"])) {
        return;
    }
    for keys in ["q", "\u{3}"] {
        for line in ["$W run --tui -- sleep 60", "$W run --tui -w hogs", "$W run --tui"] {
            let began = Instant::now();
            let Some(seen) = on_a_terminal(directory.path(), line, Some(keys)) else { return };
            assert!(began.elapsed() < Duration::from_secs(40), "{line}: {seen}");
            assert!(seen.contains(LEAVE) && seen[seen.find(LEAVE).unwrap()..].contains("status "), "{line}: {seen}");
            let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
            assert_eq!(read("before"), read("after"), "{line}: terminal modes are restored");
        }
    }
}

#[test]
fn tui_without_a_terminal_prints_plain_lines() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    let output = weir(directory.path(), &["run", "--tui", "--", "sleep", "1.3"]);
    if !could(&output) {
        return;
    }
    let explained = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        explained.contains("switches/s") && explained.contains("completed") && !explained.contains('\u{1b}'),
        "{explained}"
    );
}

/// Two tasks on one CPU that give it to each other: each yield leads to a switch, and the recording has it. Two tasks
/// would otherwise switch a few times only.
#[test]
fn recording_contains_yields_that_led_to_a_switch() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    // sched_yield(2) is system call 24 of x86-64.
    const YIELDS: &str = "perl -e 'syscall(24) for 1..200'";
    let script = format!("{YIELDS} & {YIELDS}; wait");
    let made = weir(directory.path(), &["record", "-o", "y.weir", "--", "taskset", "-c", "0", "sh", "-c", &script]);
    if cfg!(not(target_arch = "x86_64")) || !could(&made) {
        return;
    }
    assert!(made.status.success(), "{}", text(&made.stderr));
    let bytes = std::fs::read(directory.path().join("y.weir")).unwrap();
    let recording = workload::Recording::from_bytes("y.weir", &bytes).unwrap();
    let ops = recording.workload.tasks.iter().flat_map(|task| &task.script);
    let yields = ops.filter(|op| **op == workload::Op::Yield).count();
    // A process may begin when the other one is nearly done.
    assert!((20..=400).contains(&yields), "{yields} yields");
}
