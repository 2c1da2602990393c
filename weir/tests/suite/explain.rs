// SPDX-License-Identifier: GPL-2.0-only
//! `weir explain`, on runs in which the reason for each wait is known.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// CPU-bound tasks, and tasks that sleep.
const WORKLOAD: &str = r#"{"tasks": {
    "hog": {"instance": 6, "loop": 1, "run": 300000},
    "sleeper": {"instance": 2, "loop": 40, "run": 500, "sleep": 5000}}}"#;

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Directory with the workload and an object compiled from `slow.bpf.c` or another source.
fn workspace(source: &str, define: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("load.json"), WORKLOAD).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = format!("-I{}", here.join("../policies/include").display());
    let source = here.join("tests/schedulers").join(source);
    let object = bpf_clang::object_of(&source, directory.path(), &[&include, &format!("-D{define}")]);
    std::fs::write(directory.path().join("it.bpf.o"), object).unwrap();
    directory
}

/// Simulates and saves to `run.weirrun`.
fn save(directory: &Path, args: &[&str]) {
    let all = [&["sim"], args, &["-m", "laptop-2c4t", "-w", "./load.json", "--save", "run.weirrun"]].concat();
    let output = weir(directory, &all);
    assert!(output.status.code().is_some_and(|status| status < 2), "{}", text(&output.stderr));
}

fn explain(directory: &Path, args: &[&str]) -> String {
    let output = weir(directory, &[&["explain", "run.weirrun"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn explain_json(directory: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&explain(directory, &[args, &["--format", "json"]].concat())).unwrap()
}

/// Line number of this text in the source.
fn line_of(source: &str, wanted: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedulers").join(source);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().position(|line| line.contains(wanted)).expect("it is there") as u64 + 1
}

/// Each scheduler makes tasks wait by one decision; the first suspect of the longest wait is the callback that took
/// it.
#[test]
fn callback_that_delayed_a_task_is_the_first_suspect() {
    let insert = "dsq_insert(p, QUEUE, slice, enq_flags)";
    let cases = [
        ("KEEPS", "put_nowhere", "enqueue", "OP2(void, slow_enqueue"),
        ("PINS", "put_on_cpu", "enqueue", "SCX_DSQ_LOCAL_ON | 0"),
        ("BLIND", "put_on_cpu", "select_cpu", "SCX_DSQ_LOCAL, SCX_SLICE_DFL"),
        ("STACK", "overtaken", "enqueue", "dsq_insert_by_key"),
        ("GREEDY", "long_slice", "enqueue", insert),
        ("FORGETS", "unserved_queue", "enqueue", "dsq_insert(p, OTHER_QUEUE"),
    ];
    for (define, reason, op, line) in cases {
        let directory = workspace("slow.bpf.c", define);
        save(directory.path(), &["./it.bpf.o", "--for", "2s"]);
        let document = explain_json(directory.path(), &["--worst", "1"]);
        let wait = &document["waits"][0];
        let suspects = wait["suspects"].as_array().unwrap();
        // Whether the running tasks ran too long or should have been preempted is undecidable: both are named.
        let first = if define == "GREEDY" { 1 } else { 0 };
        let suspect = &suspects[first];
        assert_eq!((&suspect["reason"], &suspect["op"]), (&reason.into(), &op.into()), "{define}: {wait:#}");
        assert_eq!(suspect["file"], "slow.bpf.c", "{define}: {wait:#}");
        let found = suspect["line"].as_u64().unwrap();
        let expected = line_of("slow.bpf.c", line);
        // The first line with code of a callback is a few lines below its head.
        assert!((expected..expected + 4).contains(&found), "{define}: line {found}, expected {expected}");
    }
}

/// A CPU whose `dispatch` moves no task idles although a queue is not empty.
#[test]
fn dispatch_that_leaves_a_cpu_idle_is_named() {
    let directory = workspace("slow.bpf.c", "DEAF");
    let pinned = r#"{"tasks": {"pinned": {"instance": 2, "loop": 3, "cpus": [1], "run": 4000, "sleep": 1000}}}"#;
    std::fs::write(directory.path().join("load.json"), pinned).unwrap();
    save(directory.path(), &["./it.bpf.o", "--for", "1s"]);
    let document = explain_json(directory.path(), &["--worst", "1"]);
    let suspect = &document["waits"][0]["suspects"][0];
    assert_eq!((&suspect["op"], &suspect["reason"]), (&"dispatch".into(), &"left_idle".into()), "{document:#}");
}

/// A busy CPU is selected while another one is idle, and tasks are taken out of queue order.
#[test]
fn missed_idle_cpu_and_passed_over_task_are_named() {
    let directory = workspace("slow.bpf.c", "BLIND");
    let work = r#"{"tasks": {"hog": {"loop": 1, "run": 100000}, "late": {"instance": 2, "loop": 5, "run": 2000, "sleep": 7000}}}"#;
    std::fs::write(directory.path().join("load.json"), work).unwrap();
    save(directory.path(), &["./it.bpf.o"]);
    let json = explain_json(directory.path(), &["--worst", "1", "--waits", "wakeup"]);
    let reasons = |json: &Value| -> Vec<String> {
        let suspects = json["waits"][0]["suspects"].as_array().unwrap();
        suspects.iter().map(|suspect| format!("{} {}", suspect["op"], suspect["reason"]).replace('"', "")).collect()
    };
    assert!(reasons(&json).contains(&"select_cpu missed_idle".to_owned()), "{json:#}");
    let directory = workspace("slow.bpf.c", "RANDOM");
    save(directory.path(), &["./it.bpf.o"]);
    let json = explain_json(directory.path(), &["--worst", "1"]);
    assert_eq!(reasons(&json)[0], "dispatch passed_over", "{json:#}");
    let directory = workspace("slow.bpf.c", "PREPARED");
    save(directory.path(), &["./it.bpf.o"]);
    let json = explain_json(directory.path(), &["--worst", "1", "--waits", "lost"]);
    assert!(reasons(&json).contains(&"stopping computed_key".to_owned()), "{:?} {json:#}", reasons(&json));
    for (define, wanted) in [("STUBBORN", "dispatch kept_busy"), ("UNFAIR", "dispatch took_others")] {
        let directory = workspace("slow.bpf.c", define);
        save(directory.path(), &["./it.bpf.o"]);
        let json = explain_json(directory.path(), &["--worst", "1"]);
        assert!(reasons(&json).contains(&wanted.to_owned()), "{define}: {json:#}");
    }
    // Neither reason is reported for a plain FIFO, which keeps one order and gives each CPU to the next task.
    let directory = workspace("slow.bpf.c", "PLAIN");
    save(directory.path(), &["./it.bpf.o"]);
    let plain = reasons(&explain_json(directory.path(), &["--worst", "1"]));
    assert!(!plain.iter().any(|said| said.ends_with("kept_busy") || said.ends_with("took_others")), "{plain:?}");
}

/// For a stall: message, verdict, op and line, last events, dump.
#[test]
fn ejection_is_explained_with_verdict_op_line_and_dump() {
    let directory = workspace("slow.bpf.c", "KEEPS");
    save(directory.path(), &["./it.bpf.o", "--for", "60s"]);
    let explained = explain(directory.path(), &["--ejection"]);
    let unwrapped = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "runnable task stall",
        "failed to run for 30.",
        "inserted it into no queue, and the scheduler did not dispatch it later",
        "1. enqueue (slow.bpf.c:",
        "last events of ",
        "kernel dump",
        "dsq_id=(n/a)",
    ] {
        assert!(unwrapped.contains(part), "{part:?} is not in:\n{explained}");
    }
    let before_dump = explained.split("kernel dump").next().unwrap();
    assert!(before_dump.lines().all(|line| line.chars().count() <= 80), "{before_dump}");
    let without = explain(directory.path(), &[]);
    assert!(without.contains("into no queue") && !without.contains("kernel dump"), "the dump is long: {without}");
    let json = explain_json(directory.path(), &["--ejection"]);
    assert!(json["ejection"]["verdict"].as_str().unwrap().contains("into no queue"), "{json:#}");
    let directory = workspace("broken.bpf.c", "COMPLAINS");
    save(directory.path(), &["./it.bpf.o"]);
    let explained = explain(directory.path(), &["--ejection"]);
    let line = line_of("broken.bpf.c", "scx_error(\"cannot place");
    for part in ["scx_bpf_error", "cannot place pid", &format!("broken.bpf.c:{line}"), "scx_error(", "last events of"] {
        assert!(explained.contains(part) || part == "last events of", "{part:?} is not in:\n{explained}");
    }
}

/// `--task` and `--at` find a wait by its task's name, PID and time, and show the queue at that time.
#[test]
fn wait_is_found_by_task_and_time() {
    let directory = workspace("slow.bpf.c", "PLAIN");
    save(directory.path(), &["./it.bpf.o"]);
    let worst = &explain_json(directory.path(), &["--worst", "1"])["waits"][0];
    let name = worst["task"]["name"].as_str().unwrap();
    let wait = &explain_json(directory.path(), &["--task", name])["wait"];
    assert_eq!(wait, worst, "it is also the longest wait of its task");
    let pid = wait["task"]["pid"].to_string();
    assert_eq!(explain_json(directory.path(), &["--task", &pid])["wait"], *wait);
    let (from, to) = (wait["from_ns"].as_u64().unwrap(), wait["to_ns"].as_u64().unwrap());
    assert!(to - from > 10_000_000, "{wait:#}");
    let at = format!("{}ns", (from + to) / 2);
    let then = explain_json(directory.path(), &["--task", name, "--at", &at]);
    let stands = then["wait"]["stands"].as_array().unwrap();
    assert_eq!(stands[0]["queue"], "0x0", "{then:#}");
    // With 8 tasks on 4 CPUs the task advances in the queue as others leave it.
    let (came, then) = (stands[0]["ahead"].as_u64().unwrap(), stands[0]["ahead_at"].as_u64().unwrap());
    assert!(then <= came, "{came} tasks ahead when it was queued, {then} in the middle of the wait");
    let explained = explain(directory.path(), &["--task", name, "--at", &at]);
    assert!(explained.contains("it was in queue 0x0 behind"), "{explained}");
    assert!(explained.lines().all(|line| line.chars().count() <= 80), "{explained}");
}

/// The critical path ends with the run, and its parts add up to its length.
#[test]
fn critical_path_parts_add_up_to_the_run() {
    let directory = workspace("slow.bpf.c", "PLAIN");
    save(directory.path(), &["./it.bpf.o", "--format", "json"]);
    let chain = &explain_json(directory.path(), &["--chain"])["chain"];
    let sum: u64 = chain["sums"].as_object().unwrap().values().map(|sum| sum.as_u64().unwrap()).sum();
    assert_eq!(sum, chain["length_ns"].as_u64().unwrap());
    assert!(
        chain["sums"]["ran_ns"].as_u64().unwrap() > 0 && chain["sums"]["cpu_ns"].as_u64().unwrap() > 0,
        "{chain:#}"
    );
    let explained = explain(directory.path(), &["--chain"]);
    assert!(
        explained.contains("waited for a CPU") && explained.lines().all(|line| line.chars().count() <= 80),
        "{explained}"
    );
}

/// The default scheduler has no callbacks: the decisions of its fair class are shown, and no callback is guessed.
#[test]
fn unobserved_queues_are_reported_as_not_seen() {
    let directory = workspace("slow.bpf.c", "PLAIN");
    save(directory.path(), &["kernel"]);
    let explained = explain(directory.path(), &["--worst", "2"]);
    assert!(explained.contains("\nfair class\n") && !explained.contains("responsible callbacks, most"), "{explained}");
    let json = explain_json(directory.path(), &["--worst", "1"]);
    let wait = &json["waits"][0];
    assert_eq!((&wait["queues_seen"], &wait["suspects"]), (&false.into(), &Value::Array(vec![])), "{wait:#}");
    assert!(!wait["runners"].as_array().unwrap().is_empty());
}

/// With several runs in a file a scheduler must be selected, and each run is reproduced with its own sample, noise
/// and files.
#[test]
fn one_of_several_runs_is_selected_and_reproduced() {
    let directory = workspace("slow.bpf.c", "PLAIN");
    save(
        directory.path(),
        &["fifo", "./it.bpf.o", "--seeds", "2", "--draws", "2", "--noise-off", "order", "--without", "smt"],
    );
    std::fs::remove_file(directory.path().join("it.bpf.o")).unwrap();
    std::fs::write(directory.path().join("load.json"), "{}").unwrap();
    // Runs that differ only in sample and seed are repetitions, of which the first is selected.
    let first = explain(directory.path(), &["--scheduler", "fifo", "--worst", "1"]);
    let title = "fifo on laptop-2c4t, workload load, seed 1, draw 1 (of 4 runs: --seed and --draw pick another)";
    assert!(first.replace("\n  ", " ").starts_with(title), "{first}");
    let refused = weir(directory.path(), &["explain", "run.weirrun", "--seed", "2", "--draw", "1"]);
    assert_eq!(refused.status.code(), Some(2));
    let error = text(&refused.stderr);
    assert!(error.contains("2 runs match") && error.contains("--scheduler"), "{error}");
    let which = ["--scheduler", "./it.bpf.o", "--seed", "2", "--draw", "1", "--worst", "1"];
    let json = explain_json(directory.path(), &which);
    assert_eq!((&json["run"]["seed"], &json["run"]["draw"]), (&2.into(), &1.into()));
    assert_eq!(json["waits"][0]["suspects"][0]["file"], "slow.bpf.c", "{json:#}");
}

/// Bad input gives one error line and exit status 2.
#[test]
fn explain_bad_input_gives_one_error_line() {
    let directory = workspace("slow.bpf.c", "PLAIN");
    save(directory.path(), &["./it.bpf.o"]);
    std::fs::write(directory.path().join("text"), "no run").unwrap();
    std::fs::write(directory.path().join("runs.json"), "{\"weir\": 1, \"runs\": []}").unwrap();
    let cases: [(&[&str], &str); 11] = [
        (&["none.weirrun"], "No such file"),
        (&["text"], "not a saved run"),
        (&["runs.json"], "runs as JSON; expected a file written by weir sim --save"),
        (&["run.weirrun", "--seed", "7"], "no matching run; it contains ./it.bpf.o on laptop-2c4t"),
        (&["run.weirrun", "--task", "hoge-3"], "no task named \"hoge-3\"; the closest names are hog-3["),
        (&["run.weirrun", "--task", "hog-3", "--at", "99s"], "hog-3[104] lived from "),
        (&["run.weirrun", "--task", "hog-3", "--at", "5"], "expected a time with its unit"),
        (&["run.weirrun", "--at", "5ms"], "--task"),
        (&["run.weirrun", "--ejection"], "the scheduler was not ejected"),
        (&["run.weirrun", "--worst", "0"], "0 is not in 1..=1000"),
        (&["run.weirrun", "--format", "csv"], "--format csv: explanations have no tabular form"),
    ];
    for (args, expected) in cases {
        let output = weir(directory.path(), &[&["explain"], args].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(expected) && error.lines().count() == 1, "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// Modification of a part of a saved run.
type Change<'a> = dyn Fn(&str, Vec<u8>) -> Option<Vec<u8>> + 'a;

/// A saved run with a damaged part, or with inputs of another run, is rejected.
#[test]
fn saved_run_that_cannot_be_reproduced_is_rejected() {
    let directory = workspace("slow.bpf.c", "PLAIN");
    save(directory.path(), &["./it.bpf.o"]);
    let file = directory.path().join("run.weirrun");
    let saved = saved_run::SavedRun::from_bytes(&std::fs::read(&file).unwrap()).unwrap();
    let write = |change: &Change<'_>| {
        let mut other = saved_run::SavedRun::new();
        for name in saved.names() {
            if let Some(bytes) = change(name, saved.part(name).unwrap().unwrap()) {
                other.add(name, &bytes).unwrap();
            }
        }
        std::fs::write(&file, other.to_bytes()).unwrap();
        let output = weir(directory.path(), &["explain", "run.weirrun"]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let replace = |bytes: Vec<u8>, old: &str, new: &str| text(&bytes).replace(old, new).into_bytes();
    let without = |gone: &'static str| write(&|name, bytes| (name != gone).then_some(bytes));
    assert!(without("setup.json").contains("a saved run without setup.json"));
    assert!(without("object/0").contains("the part object/0 is missing"));
    assert!(without("file/0").contains("missing"), "{}", without("file/0"));
    let other_work = write(&|name, bytes| {
        Some(match name.starts_with("file/") && bytes.starts_with(b"{") {
            true => replace(bytes, "500", "501"),
            false => bytes,
        })
    });
    assert!(other_work.contains("cannot be reproduced"), "{other_work}");
    let other_line = write(&|name, bytes| {
        Some(match name {
            "setup.json" => replace(bytes, "weir sim", "weir list"),
            _ => bytes,
        })
    });
    assert!(other_line.contains("setup.json"), "{other_line}");
}

const INVERSION: &str = r#"{ "global": { "duration": 2, "pi_enabled": false }, "tasks": {
    "low": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 10, "loop": -1, "lock": "m", "run": 5000, "unlock": "m", "sleep": 20000 },
    "mid": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 20, "delay": 1000, "loop": -1, "run": 50000, "sleep": 30000 },
    "high": { "cpus": [0], "policy": "SCHED_FIFO", "priority": 30, "delay": 2000, "loop": -1, "lock": "m", "run": 1000,
        "unlock": "m", "timer": { "ref": "t", "period": 20000 } } } }"#;

/// The most important task waits for a mutex whose holder is kept off the CPU by a third task. With priority
/// inheritance it waits at most for the critical section.
#[test]
fn priority_inversion_is_named_and_inheritance_removes_it() {
    let directory = tempfile::tempdir().unwrap();
    let longest = |workload: String| {
        std::fs::write(directory.path().join("load.json"), workload).unwrap();
        save(directory.path(), &["kernel"]);
        explain_json(directory.path(), &["--blocked", "1"])["blocked"][0].clone()
    };
    let wait = longest(INVERSION.to_owned());
    assert_eq!((&wait["task"]["name"], &wait["object"]), (&"high".into(), &"mutex m".into()), "{wait:#}");
    assert_eq!(wait["awaited"]["name"], "low", "{wait:#}");
    assert_eq!(wait["priority_inversion"]["name"], "mid", "{wait:#}");
    assert!(wait["wait_ns"].as_u64().unwrap() > 45_000_000, "{wait:#}");
    assert_eq!(wait["awaited_wait"]["suspects"][0]["reason"], "higher_class", "{wait:#}");
    let explained = explain(directory.path(), &["--task", "high"]);
    assert!(explained.contains("for mutex m, held by low["), "{explained}");
    assert!(explained.contains("Priority inversion: mid["), "{explained}");
    let wait = longest(INVERSION.replace("false", "true"));
    assert_eq!(wait["priority_inversion"], Value::Null, "{wait:#}");
    // The critical section takes 5 ms of work; the rest is switches and the speed of the CPU.
    assert!(wait["wait_ns"].as_u64().unwrap() < 10_000_000, "{wait:#}");
}

/// A real-time task holds the only CPU that a fair task may use: no callback is responsible, in either class.
#[test]
fn no_callback_is_blamed_for_a_task_of_a_higher_class() {
    let directory = tempfile::tempdir().unwrap();
    let load = r#"{"global": {"duration": 1}, "tasks": {
        "victim": {"cpus": [1], "loop": -1, "run": 100, "timer": {"ref": "v", "period": 10000}},
        "urgent": {"cpus": [1], "policy": "SCHED_FIFO", "priority": 40, "delay": 10000, "loop": -1, "run": 100000, "sleep": 50000}}}"#;
    for scheduler in ["kernel", "fifo"] {
        std::fs::write(directory.path().join("load.json"), load).unwrap();
        save(directory.path(), &[scheduler]);
        let wait = explain_json(directory.path(), &["--task", "victim"])["wait"].clone();
        let suspects = wait["suspects"].as_array().unwrap();
        assert_eq!(suspects.len(), 1, "{scheduler}: {wait:#}");
        assert_eq!((&suspects[0]["reason"], &suspects[0]["op"]), (&"higher_class".into(), &Value::Null), "{wait:#}");
        assert!(suspects[0]["sentence"].as_str().unwrap().contains("SCHED_FIFO 40"), "{wait:#}");
    }
}

/// Under the default scheduler a wait is explained by the rules of EEVDF.
#[test]
fn fair_class_tells_by_which_rule_other_tasks_came_first() {
    let directory = tempfile::tempdir().unwrap();
    let load = r#"{"global": {"duration": 1}, "tasks": {
        "hog": {"instance": 4, "cpus": [0], "loop": -1, "run": 10000},
        "light": {"cpus": [0], "priority": 19, "loop": -1, "run": 10000}}}"#;
    std::fs::write(directory.path().join("load.json"), load).unwrap();
    save(directory.path(), &["kernel"]);
    let wait = explain_json(directory.path(), &["--task", "light"])["wait"].clone();
    let passed = wait["fair"]["passed_over"].as_array().unwrap();
    // It has a sixtieth of the weight: after one slice it is ahead of its share for long.
    assert_eq!(passed[0]["rule"], "ineligible", "{wait:#}");
    assert!(passed[0]["most_ns"].as_u64().unwrap() > 1_000_000, "{wait:#}");
    let lasted: u64 = passed.iter().map(|entry| entry["lasted_ns"].as_u64().unwrap()).sum();
    assert!(
        lasted <= wait["wait_ns"].as_u64().unwrap() && lasted * 10 > wait["wait_ns"].as_u64().unwrap() * 9,
        "{wait:#}"
    );
    let explained = explain(directory.path(), &["--task", "light"]);
    assert!(explained.contains("it was not eligible") && !explained.contains("unknown"), "{explained}");
}

/// Idle CPUs beside waiting tasks are explained without an option.
#[test]
fn idle_cpus_beside_waiting_tasks_are_explained_by_default() {
    let directory = workspace("slow.bpf.c", "FORGETS");
    // All begin together, so that some are queued; those with an even PID are never served.
    let light = r#"{"tasks": {"light": {"instance": 8, "loop": -1, "run": 1000, "sleep": 9000}}}"#;
    std::fs::write(directory.path().join("load.json"), light).unwrap();
    save(directory.path(), &["./it.bpf.o", "--for", "2s"]);
    let idle = explain_json(directory.path(), &[])["idle_while_runnable"].clone();
    assert_eq!(
        (&idle["causes"][0]["reason"], &idle["causes"][0]["op"]),
        (&"unserved_queue".into(), &"enqueue".into()),
        "{idle:#}"
    );
    let explained = explain(directory.path(), &[]);
    let unwrapped = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("a CPU that the task may use was idle"), "{explained}");
}
