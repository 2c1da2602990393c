// SPDX-License-Identifier: GPL-2.0-only
//! `weir meter` of saved runs, and of commands where the kernel permits it.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Directory with a saved run of this workload.
fn saved(workload: &str, args: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("load.json"), workload).unwrap();
    let all = [&["sim"], args, &["-w", "./load.json", "--save", "run.weirrun"]].concat();
    let output = weir(directory.path(), &all);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    directory
}

fn meter(directory: &Path, args: &[&str]) -> Value {
    let output = weir(directory, &[&["meter"], args, &["run.weirrun", "--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// 23 critical sections of each of two tasks that always want the lock.
const CONTENDED: &str = r#"{"locks": {"q": {"kind": "ticket"}}, "tasks": {"t": {"instance": 2, "loop": 1,
    "critical_sections": {"lock": "q", "hold_ns": 1000, "between_ns": 0, "times": 23}}}}"#;

#[test]
fn locks_of_a_simulated_run_are_counted_exactly() {
    let directory = saved(CONTENDED, &["kernel", "-m", "nix-32"]);
    let json = meter(directory.path(), &["locks"]);
    let of_lock = |row: &&Value| row["lock"] == "q";
    let rows: Vec<&Value> = json["locks"].as_array().unwrap().iter().filter(of_lock).collect();
    assert_eq!(rows.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>(), 46);
    assert!(rows.iter().all(|row| row["type"] == "spin" && row["lost"] == 0));
    assert!(json["checks"].as_array().unwrap().iter().all(|check| check["holds"] == true), "{:#}", json["checks"]);
    let merged = meter(directory.path(), &["locks", "--by", "lock"]);
    assert_eq!(merged["locks"][0]["count"], 46);
    assert_eq!(merged["locks"][0]["caller"], "2 callers");
}

/// 7 sleeps of each kind, of 3 ms: by a timer, for a lock, and for another task.
const SLEEPS: &str = r#"{"tasks": {
    "holder": {"loop": 7, "lock": "m", "run": 100, "sleep": 3000, "unlock": "m", "run": 100, "sleep": 3000},
    "waiter": {"delay": 2000, "loop": 7, "lock": "m", "run": 10, "unlock": "m", "run": 10, "sleep": 5000}}}"#;

#[test]
fn microstates_of_a_simulated_run_add_up_to_each_life() {
    let directory = saved(SLEEPS, &["kernel", "-m", "pu:1"]);
    let json = meter(directory.path(), &["microstates"]);
    assert_eq!((&json["unbalanced"], &json["unseen"]), (&0.into(), &0.into()));
    for task in json["tasks"].as_array().unwrap() {
        let states = task["states"].as_object().unwrap();
        let sum: u64 = states.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), task["life_ns"].as_u64(), "{task:#}");
    }
    let holder = json["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "holder").unwrap();
    assert_eq!(holder["counts"]["timer"], 14);
    let waiter = json["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "waiter").unwrap();
    assert_eq!(waiter["counts"]["timer"], 7);
    let futex = waiter["counts"]["futex"].as_u64().unwrap();
    assert!(
        futex > 0 && waiter["reasons"][0]["what"] == "mutex m" && waiter["reasons"][0]["count"] == futex,
        "{waiter:#}"
    );
    let locks = meter(directory.path(), &["locks"]);
    let row = locks["locks"].as_array().unwrap().iter().find(|row| row["type"] == "futex" && row["caller"] == "waiter");
    let row = row.expect("its waits are in the lock table");
    assert_eq!(
        (&row["lock"], &row["contended"], &row["wait_total_ns"]),
        (&"mutex m".into(), &futex.into(), &waiter["states"]["futex"])
    );
}

/// 1,009 wakeups by a timer and one start.
#[test]
fn wakeups_of_a_simulated_run_are_counted_exactly() {
    let directory = saved(r#"{"tasks": {"t": {"loop": 1009, "run": 10, "sleep": 50}}}"#, &["kernel", "-m", "pu:1"]);
    let json = meter(directory.path(), &["wakeups"]);
    let timer = json["pairs"].as_array().unwrap().iter().find(|pair| pair["waker"] == "(timer)").unwrap();
    assert_eq!(timer["count"], 1009);
    let interrupts = meter(directory.path(), &["interrupts"]);
    assert_eq!(interrupts["unseen"], Value::Null);
    let wakeups = interrupts["interrupts"].as_array().unwrap().iter().find(|row| row["source"] == "timer wakeup");
    assert_eq!(wakeups.unwrap()["count"], 1009);
}

#[test]
fn originals_formats_are_lock_tables_only() {
    let directory = saved(CONTENDED, &["kernel", "-m", "nix-32"]);
    let show = |args: &[&str]| weir(directory.path(), &[&["meter"], args, &["run.weirrun"]].concat());
    let nix = text(&show(&["locks", "--format", "nix", "--sort", "mean"]).stdout);
    assert!(nix.starts_with("what pc #times maxtime tottime where meantime\nspin - "), "{nix}");
    let lockmeter = text(&show(&["locks", "--format", "lockmeter"]).stdout);
    assert!(lockmeter.lines().nth(1).unwrap().starts_with("UTIL\tCON\tMEAN(MAX)"), "{lockmeter}");
    // One row for all instances of the task; its sums are those of the lock.
    let by = |by: &str| text(&show(&["locks", "--format", "lockmeter", "--by", by]).stdout);
    let (name, lock) = (by("name"), by("lock"));
    let row = |table: &str| table.lines().nth(2).unwrap().split('\t').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((row(&name)[9].as_str(), &row(&name)[..9]), ("t", &row(&lock)[..9]), "{name}{lock}");
    let refused = show(&["wakeups", "--format", "nix"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("expected text, json or csv"));
}

#[test]
fn bad_usage_is_refused() {
    let directory = saved(CONTENDED, &["kernel", "-m", "nix-32", "--without", "locks"]);
    let refused = |args: &[&str]| {
        let output = weir(directory.path(), &[&["meter"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?} {}", text(&output.stdout));
        text(&output.stderr)
    };
    assert!(refused(&["locks", "missing.weirrun"]).contains("missing.weirrun"));
    assert!(refused(&["locks", "soon"]).contains("expected a saved run (FILE.weirrun), or an interval"));
    assert!(refused(&["locks", "run.weirrun", "3"]).contains("is a saved run; expected no COUNT"));
    assert!(refused(&["locks", "run.weirrun", "-p", "1"]).contains("is a saved run"));
    assert!(refused(&["clocks", "run.weirrun"]).contains("clocks"));
    assert!(refused(&["locks", "run.weirrun", "--by", "cgroup"]).contains("expected lock or name with locks"));
    assert!(refused(&["wakeups", "run.weirrun", "--sort", "mean"]).contains("orders lock tables only"));
    assert!(refused(&["microstates", "run.weirrun", "--by", "process"]).contains("expected --by name"));
    assert!(refused(&["microstates", "run.weirrun", "--by", "cgroup"]).contains("expected --by name"));
    assert!(refused(&["wakeups", "run.weirrun", "--holds", "x:a/b"]).contains("--holds: expected with locks"));
    assert!(refused(&["locks", "run.weirrun", "--holds", "x:a/b"]).contains("run.weirrun is a saved run"));
    assert!(refused(&["locks", "run.weirrun", "--report", "run.weirrun"]).contains("an input of this command"));
    #[cfg(feature = "real")]
    assert!(refused(&["locks", "--holds", "x:a", "--", "true"]).contains("expected FILE:TAKE/RELEASE"));
}

#[test]
fn page_has_a_bar_for_each_row_and_the_table() {
    let directory = saved(SLEEPS, &["kernel", "-m", "pu:1"]);
    for (what, row, part) in [
        ("microstates", "waiter[", "futex "),
        ("locks", "mutex m by waiter", "waits"),
        ("wakeups", "holder by (timer)", "latency"),
    ] {
        let output = weir(directory.path(), &["meter", what, "run.weirrun", "--report", "page.html"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
        assert!(page.contains(row) && page.contains(part) && page.contains("class=\"bar\""), "{what}: {page}");
        let first = text(&output.stdout).lines().next().unwrap().to_owned();
        assert!(page.contains(&first), "{what}: the page has the table");
    }
}

/// Measures a shell that starts programs, as root on a kernel with BTF.
#[cfg(feature = "real")]
#[test]
fn command_is_measured_in_the_running_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 20 ]; do /bin/true; i=$((i+1)); done; exit 3";
    let output = weir(directory.path(), &["meter", "microstates", "--format", "json", "--", "sh", "-c", script]);
    if output.status.code() == Some(2) {
        skip::skip(text(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(1), "the command's failure: {}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["world"], &json["lost"], &json["unbalanced"]), (&"real".into(), &0.into(), &0.into()));
    let names = json["tasks"].as_array().unwrap().iter().filter(|task| task["name"] == "true").count();
    assert_eq!(names, 20);
}
