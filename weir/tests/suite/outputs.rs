// SPDX-License-Identifier: GPL-2.0-only
//! Output files: nothing of before is lost, and what can still be delivered is.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const WORKLOAD: &str = r#"{"global": {"duration": 1}, "tasks": {"a": {"run": 900, "sleep": 300}}}"#;

fn weir(directory: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(directory).args(line.split(' ')).output().unwrap()
}

fn workspace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("load.json"), WORKLOAD).unwrap();
    directory
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

const SIM: &str = "sim fifo -m laptop-2c4t -w ./load.json --for 20ms";
const OPTIONS: [&str; 5] = ["--save", "--report", "--log", "--trace", "--coverage"];

#[test]
fn outputs_that_are_inputs_are_refused() {
    let directory = workspace();
    fs::hard_link(directory.path().join("load.json"), directory.path().join("again.json")).unwrap();
    for option in OPTIONS {
        for file in ["load.json", "again.json"] {
            let refused = weir(directory.path(), &format!("{SIM} {option} {file}"));
            let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(2), "{option}: {errors}");
            assert!(errors.contains(&format!("{file}: an input of this command")), "{option}: {errors}");
            assert_eq!(fs::read_to_string(directory.path().join(file)).unwrap(), WORKLOAD);
        }
    }
    assert_eq!(names(directory.path()), ["again.json", "load.json"]);
}

#[test]
fn outputs_that_are_links_or_in_missing_directories_are_refused_before_the_run() {
    let directory = workspace();
    fs::write(directory.path().join("precious"), "precious").unwrap();
    symlink("precious", directory.path().join("link")).unwrap();
    for option in OPTIONS {
        for (file, words) in [("link", "it is a symbolic link to precious"), ("none/x", "No such file or directory")] {
            let refused = weir(directory.path(), &format!("{SIM} {option} {file}"));
            let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(2), "{option}: {errors}");
            assert!(errors.contains(words) && refused.stdout.is_empty(), "{option}: {errors}");
        }
    }
    assert_eq!(fs::read_to_string(directory.path().join("precious")).unwrap(), "precious");
}

#[test]
fn report_is_printed_although_another_output_fails_in_the_end() {
    let directory = workspace();
    for option in OPTIONS {
        let failed = weir(directory.path(), &format!("{SIM} --format json {option} /dev/full"));
        let errors = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert_eq!(failed.status.code(), Some(2), "{option}: {errors}");
        assert!(errors.contains("/dev/full: No space left on device"), "{option}: {errors}");
        let document: Value = serde_json::from_slice(&failed.stdout).unwrap();
        assert_eq!(document["runs"].as_array().unwrap().len(), 1, "{option}");
    }
}

/// One of these runs takes milliseconds, and all of them take minutes.
#[test]
fn interrupted_sweep_reports_and_saves_the_finished_runs() {
    let directory = workspace();
    let line = "sim fifo -m laptop-2c4t -w ./load.json --for 5s --seeds 1000 --format json --save some.weirrun";
    // Shells start background commands with SIGINT ignored, which their children inherit.
    let mut sweep = Command::new("env");
    sweep
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_weir")])
        .args(line.split(' '))
        .current_dir(directory.path());
    let child = sweep.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    // Threads of the sweep, besides that of `main`, say that it has begun.
    let tasks = format!("/proc/{}/task", child.id());
    while fs::read_dir(&tasks).unwrap().count() < 2 && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(1));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = document["runs"].as_array().unwrap().len() as u64;
    assert!((1..1000).contains(&runs));
    assert_eq!(document["interrupted"]["finished"], runs);
    assert_eq!(document["interrupted"]["planned"], 1000);
    assert!(errors.contains(&format!("interrupted: {runs} of 1,000 runs finished")), "{errors}");
    let compared = weir(directory.path(), "compare some.weirrun");
    assert_eq!(compared.status.code(), Some(0), "{}", String::from_utf8_lossy(&compared.stderr));
    assert_eq!(names(directory.path()), ["load.json", "some.weirrun"]);
}

#[test]
fn generated_files_do_not_follow_links() {
    let directory = workspace();
    let made = directory.path().join("made");
    fs::create_dir(&made).unwrap();
    symlink("../load.json", made.join("weir.fish")).unwrap();
    let refused = weir(directory.path(), "generate completions made");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read_to_string(directory.path().join("load.json")).unwrap(), WORKLOAD);
}
