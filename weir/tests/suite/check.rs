// SPDX-License-Identifier: GPL-2.0-only
//! `weir sim --check` and `weir check`: promises that are kept and promises that are broken.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn runs(output: &Output) -> Vec<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    document["runs"].as_array().expect("runs").clone()
}

/// No false positives over several machines, workloads and seeds.
#[test]
fn shipped_policies_keep_their_promises() {
    let schedulers = ["fifo", "bfs", "bfs@0.357", "bfs@gc", "vrq", "vrq@0.3", "cfs", "kernel"];
    let machines = ["-m", "laptop-2c4t", "-m", "hybrid-laptop", "-m", "nix-32"];
    let workloads = ["-w", "desktop", "-w", "preempt-mix", "-w", "affinity"];
    let more = ["--for", "700ms", "--seeds", "2", "--check", "--format", "json"];
    let output = weir(Path::new("."), &[&["sim"], &schedulers[..], &machines, &workloads, &more].concat());
    let runs = runs(&output);
    assert_eq!(runs.len(), 8 * 3 * 3 * 2);
    for run in &runs {
        assert_eq!((&run["violations"], &run["violation_count"]), (&Value::Array(vec![]), &Value::from(0)), "{run:#}");
    }
    assert_eq!(output.status.code(), Some(0));
}

/// A scheduler that kicks no idle CPU lets CPUs idle while tasks wait, which violates its promise.
#[test]
fn broken_promise_is_reported_with_exit_status_1() {
    let directory = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join("../crates/simulator/tests/policies/nokick.bpf.c");
    let include = format!("-I{}", here.join("../policies/include").display());
    let object = bpf_clang::object_of(&source, directory.path(), &[&include]);
    std::fs::write(directory.path().join("nokick.bpf.o"), object).unwrap();
    let sim = |promises: &str, more: &[&str]| {
        std::fs::write(directory.path().join("nokick.toml"), promises).unwrap();
        let run = ["sim", "./nokick.bpf.o", "-m", "laptop-2c4t", "-w", "desktop", "--for", "500ms"];
        weir(directory.path(), &[&run, more].concat())
    };
    let promise = "[promises]\nwork-conserving = true\nstarvation-ms = 1\n";
    let checked = sim(promise, &["--check", "--format", "json"]);
    let run = &runs(&checked)[0];
    assert_eq!((checked.status.code(), run["outcome"].as_str()), (Some(1), Some("violation")));
    let violations = run["violations"].as_array().expect("it was checked");
    for property in ["work-conserving", "starvation-ms"] {
        let first = violations.iter().find(|it| it["property"] == property).unwrap_or_else(|| panic!("no {property}"));
        let [from, to, value, limit] = ["from_ns", "to_ns", "value", "limit"].map(|key| first[key].as_u64().unwrap());
        assert!(value > limit && to - from >= value && !first["tasks"].as_array().unwrap().is_empty(), "{first}");
    }
    let text = String::from_utf8(sim(promise, &["--check"]).stdout).unwrap();
    assert!(text.contains("BROKEN: work-conserving, "), "{text}");

    let unchecked = sim(promise, &["--format", "json"]);
    let run = &runs(&unchecked)[0];
    assert_eq!(
        (unchecked.status.code(), &run["violations"]),
        (Some(0), &Value::Array(vec![])),
        "only the built-in invariants are checked"
    );
    assert_eq!(sim("", &["--check"]).status.code(), Some(0), "without promises there is nothing to violate");
    let error = String::from_utf8(sim("[promises]\nkey-ordr = true\n", &["--check"]).stderr).unwrap();
    assert!(error.contains("key-order"), "{error}");
}

/// The first reported command line reproduces the run and its violation.
#[test]
fn weir_check_finds_a_broken_promise_and_a_reproducer() {
    let directory = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join("../crates/simulator/tests/policies/nokick.bpf.c");
    let include = format!("-I{}", here.join("../policies/include").display());
    let object = bpf_clang::object_of(&source, directory.path(), &[&include]);
    std::fs::write(directory.path().join("nokick.bpf.o"), object).unwrap();
    std::fs::write(directory.path().join("nokick.toml"), "[promises]\nwork-conserving = true\n").unwrap();
    let check = |more: &[&str]| weir(directory.path(), &[&["check", "./nokick.bpf.o", "--seeds", "12"], more].concat());
    let json = check(&["--format", "json"]);
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    let properties = document["properties"].as_array().unwrap();
    let of = |name: &str| properties.iter().find(|it| it["property"] == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!((json.status.code(), of("work-conserving")["seen"].as_u64()), (Some(1), Some(8)), "4 are interleaved");
    assert_eq!((of("sanity")["broken"].as_u64(), of("affinity")["broken"].as_u64()), (Some(0), Some(0)));
    let command = of("work-conserving")["commands"][0].as_str().expect("it is violated at least once");
    let words = shlex::split(command).unwrap();
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).chain(["--format", "json"]).collect();
    let again = weir(directory.path(), &words);
    assert!(runs(&again)[0]["violations"].as_array().unwrap().iter().any(|it| it["property"] == "work-conserving"));
    let text = String::from_utf8(check(&["--no-shrink"]).stdout).unwrap();
    assert!(text.contains("BROKEN: work-conserving, in "), "{text}");
    assert!(text.contains("\n  weir sim ./nokick.bpf.o --check --warn --machine "), "{text}");
    let listed = String::from_utf8(check(&["--list"]).stdout).unwrap();
    assert_eq!(listed.lines().count(), 12);
    assert_eq!(check(&["--format", "csv"]).status.code(), Some(2));
}

/// A case without kthread noise is run without it: with kthreads, shares under long slices are not evaluated.
#[test]
fn weir_check_runs_match_their_command_lines() {
    let case = ["check", "lottery", "--first", "2", "--seeds", "1"];
    let check = |more: &[&str]| weir(Path::new("."), &[&case, more].concat()).stdout;
    let listed = String::from_utf8(check(&["--list"])).unwrap();
    assert!(listed.trim_end().ends_with("--seed 2 --noise-off threads"), "{listed}");
    let document: Value = serde_json::from_slice(&check(&["--format", "json"])).unwrap();
    let properties = document["properties"].as_array().unwrap();
    let shares = properties.iter().find(|it| it["property"] == "weighted-share-percent").unwrap();
    assert_eq!((&shares["seen"], &shares["broken"]), (&Value::from(1), &Value::from(0)));
}

/// The source with one of its mistakes, and a warning or end by which each is found without any promise.
const WRONG: [(&str, &str); 8] = [
    ("HOTPLUG", "unequal-time"),
    ("KICK", "idle-beside-waiting"),
    ("STARVES", "starved"),
    ("WEIGHTS", "inverted-weights"),
    ("OVERFLOW", "starved"),
    ("STALLS", "stalled-virtual-time"),
    ("DOUBLE", "ending"),
    ("AFFINITY", "ending"),
];

fn wrong(mistake: &str, more: &[&str]) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedulers/wrong.bpf.c");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env("BPF_CFLAGS", format!("-D{mistake}")).arg("check").arg(source).args(more).output().unwrap()
}

#[test]
fn mistakes_are_found_without_promises_and_shrunk_to_four_tasks_and_cpus() {
    for (mistake, property) in WRONG {
        let output = wrong(mistake, &["--seeds", "100", "--format", "json"]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{mistake}");
        let properties = document["properties"].as_array().unwrap();
        let found = properties.iter().find(|it| it["property"] == property).unwrap();
        assert!(found["broken"].as_u64() > Some(0), "{mistake}: {properties:#?}");
        let shrunk = &found["shrunk"];
        let small = |key: &str| shrunk[key].as_u64().is_some_and(|number| (1..=4).contains(&number));
        assert!(small("tasks") && small("cpus"), "{mistake}: {shrunk:#}");
        let story: Vec<&str> = shrunk["story"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        assert!(story.len() <= 10 && story.concat().contains("wrong.bpf.c:"), "{mistake}: {story:#?}");
        let words = shlex::split(shrunk["command"].as_str().unwrap()).unwrap();
        let mut again = Command::new(env!("CARGO_BIN_EXE_weir"));
        let again = again.env("BPF_CFLAGS", format!("-D{mistake}")).args(&words[1..]).output().unwrap();
        assert_eq!(again.status.code(), Some(1), "{mistake}: {words:?}");
    }
    let right = wrong("NONE", &["--seeds", "100", "--format", "json"]);
    assert_eq!(right.status.code(), Some(0), "{}", String::from_utf8_lossy(&right.stdout));
}

#[test]
fn check_resumes_after_its_last_seed_and_writes_junit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("my.check");
    let file = file.to_str().unwrap();
    let check = |mistake: &str, more: &[&str]| {
        wrong(mistake, &[&["--seeds", "6", "--no-shrink", "--resume", file], more].concat())
    };
    let seeds = |output: &Output| {
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document["first"].as_u64().unwrap(), document["seeds"].as_u64().unwrap())
    };
    assert_eq!(seeds(&check("DOUBLE", &["--format", "json"])), (1, 6));
    assert_eq!(seeds(&check("DOUBLE", &["--format", "json"])), (1, 12));
    let junit = String::from_utf8(check("DOUBLE", &["--format", "junit"]).stdout).unwrap();
    assert!(
        junit.contains("name=\"sanity\"/>") && junit.contains("<failure type=\"violation\" message=\"in 1"),
        "{junit}"
    );
    let other = check("NONE", &[]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("results of another scheduler or object"), "{other:?}");
    let unknown = wrong("NONE", &["--ignore", "nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
}
