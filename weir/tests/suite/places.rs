// SPDX-License-Identifier: GPL-2.0-only
//! Source positions: actions of a scheduler are attributed to its own source, even if the call is in an included
//! header.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedulers/mistaken.bpf.c")
}

/// Number of the source line that ends in this word as a comment.
fn line_of(word: &str) -> u64 {
    let text = std::fs::read_to_string(source()).unwrap();
    let found = text.lines().position(|line| line.ends_with(&format!("/* {word} */")));
    found.unwrap_or_else(|| panic!("no line ends in {word}")) as u64 + 1
}

/// Compiles `mistaken` with one mistake, or none, and runs it in `directory`.
fn weir(directory: &Path, mistake: &str, args: &[&str]) -> Output {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = format!("-I{}", here.join("../policies/include").display());
    let object = bpf_clang::object_of(&source(), directory, &[&include, &format!("-D{mistake}")]);
    std::fs::write(directory.join("mistaken.bpf.o"), object).unwrap();
    let common = ["sim", "./mistaken.bpf.o", "-m", "laptop-2c4t", "-w", "hogs", "--for", "100ms", "--seed", "0"];
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(common).args(args).output().unwrap()
}

#[test]
fn ejection_names_op_kfunc_file_and_line() {
    let insert = "scx_bpf_dsq_insert___v2";
    let cases = [
        ("DIRECT", "enqueue", insert),
        ("JOINED", "enqueue", insert),
        ("INLINED", "enqueue", insert),
        ("SUBPROGRAM", "enqueue", insert),
        ("FAULT", "enqueue", ""),
        ("COMPLAINT", "enqueue", "scx_bpf_error_bstr"),
        ("DISPATCH", "dispatch", "scx_bpf_dsq_move_to_local___v2"),
        ("TIMER", "timer", "scx_bpf_kick_cpu"),
        ("RESULT", "select_cpu", ""),
    ];
    for (mistake, op, kfunc) in cases {
        let directory = tempfile::tempdir().unwrap();
        let output = weir(directory.path(), mistake, &["--format", "json"]);
        assert_eq!(output.status.code(), Some(1), "{mistake}: {}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let exit = &document["runs"][0]["exit"];
        assert_eq!(exit["op"], op, "{mistake}: {exit}");
        assert_eq!(exit["kfunc"].as_str().unwrap_or_default(), kfunc, "{mistake}: {exit}");
        if mistake == "RESULT" {
            assert!(exit["file"].is_null() && exit["line"].is_null(), "a return value has no source line: {exit}");
        } else {
            assert_eq!(exit["file"], "mistaken.bpf.c", "{mistake}: {exit}");
            assert_eq!(exit["line"], line_of(mistake), "{mistake}: {exit}");
        }
    }
}

#[test]
fn text_report_shows_op_kfunc_and_line_after_the_exit_message() {
    let directory = tempfile::tempdir().unwrap();
    let output = weir(directory.path(), "DISPATCH", &[]);
    let text = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let place = format!("scx_bpf_dsq_move_to_local___v2, mistaken.bpf.c:{})", line_of("DISPATCH"));
    assert!(text.contains(&format!("invalid DSQ ID 0x0000000000000bad (in ops.dispatch, {place}")), "{text}");
}

#[test]
fn kernel_dump_is_written_to_a_file_that_standard_error_names() {
    let directory = tempfile::tempdir().unwrap();
    let output = weir(directory.path(), "DISPATCH", &[]);
    let (report, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let path = errors.lines().find_map(|line| line.strip_prefix("weir: the kernel's debug dump is in ")).unwrap();
    let dump = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    for line in ["mistaken counts 7", "CPU states", "Event counters"] {
        assert!(dump.lines().any(|found| found == line), "{line}: {dump}");
        assert!(!report.contains(line) && !errors.contains(line), "{line}");
    }
    let explained = errors.lines().last().unwrap();
    assert!(explained.ends_with("--save run.weirrun; weir explain run.weirrun --ejection"), "{errors}");
    let json = weir(directory.path(), "DISPATCH", &["--format", "json"]);
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(document["runs"][0]["exit"]["dump"].as_str().unwrap().contains("\nmistaken counts 7\n"));
    assert!(!String::from_utf8(json.stderr).unwrap().contains("CPU states"), "JSON has it in itself");
}

#[test]
fn bpf_printk_reaches_terminal_log_and_trace() {
    let directory = tempfile::tempdir().unwrap();
    let output = weir(directory.path(), "PRINTS", &["--log", "run.jsonl", "--trace", "run.pftrace"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let log = std::fs::read_to_string(directory.path().join("run.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let printed: Vec<&Value> = events.iter().filter(|event| event["kind"] == "printk").collect();
    assert!(printed.len() > 10, "{log}");
    let shown: Vec<&str> = errors.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(shown.len(), printed.len());
    for (shown, printed) in shown.iter().zip(&printed) {
        assert_eq!((&printed["file"], &printed["line"]), (&"mistaken.bpf.c".into(), &line_of("PRINTS").into()));
        let text = printed["text"].as_str().unwrap();
        assert!(text.starts_with("pid 1") && text.ends_with(" waits"), "{text}");
        let place = format!("(enqueue, mistaken.bpf.c:{}): {text}", line_of("PRINTS"));
        assert!(shown.ends_with(&place), "{shown}");
        let time = printed["time_ns"].as_u64().unwrap();
        assert!(shown.starts_with(&format!("[0.{time:09}] CPU {} ", printed["cpu"])), "{shown}: {printed}");
    }
    // Printed text precedes the insert of the same callback.
    let first = events.iter().position(|event| event["kind"] == "printk").unwrap();
    let insert = events.iter().position(|event| event["kind"] == "insert" && event["op"] == "enqueue").unwrap();
    assert!(first < insert, "{first} {insert}");
    let trace = std::fs::read(directory.path().join("run.pftrace")).unwrap();
    let text = printed[0]["text"].as_str().unwrap().as_bytes();
    assert!(trace.windows(text.len()).any(|window| window == text), "the trace contains the text");
}

#[test]
fn bpf_printk_of_several_runs_is_limited_to_20_lines_each() {
    let directory = tempfile::tempdir().unwrap();
    let output = weir(directory.path(), "PRINTS", &["-w", "preempt-mix"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().filter(|line| line.starts_with('[')).count(), 2 * 20, "{errors}");
    assert_eq!(errors.matches(" of bpf_printk output not shown").count(), 2, "{errors}");
}

#[test]
fn log_and_trace_have_source_lines_of_the_policy() {
    let directory = tempfile::tempdir().unwrap();
    let output = weir(directory.path(), "NONE", &["--log", "run.jsonl", "--trace", "run.pftrace"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(directory.path().join("run.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind && !event["line"].is_null()).collect();
    let (inserts, moves): (Vec<&Value>, Vec<&Value>) = (of("insert"), of("dispatch"));
    assert!(inserts.len() > 10 && moves.len() > 10, "{} inserts, {} moves", inserts.len(), moves.len());
    let (fine, moved) = (line_of("FINE"), line_of("MOVED"));
    for event in inserts.iter().chain(&moves) {
        assert_eq!(event["file"], "mistaken.bpf.c", "{event}");
        let expected = if event["op"] == "enqueue" { fine } else { moved };
        assert_eq!(event["line"], expected, "{event}");
    }
    let lines = events.iter().filter(|event| event["kind"] == "insert" && event["op"] == "enqueue").count();
    assert_eq!(lines, inserts.iter().filter(|event| event["op"] == "enqueue").count(), "each has its line");
}

/// Execution counts by line number, as written by `--coverage FILE`.
fn counts(info: &str) -> std::collections::BTreeMap<u64, u64> {
    let own = info.split("end_of_record").find(|record| record.contains("/mistaken.bpf.c\n")).expect("its own file");
    let data = own.lines().filter_map(|line| line.strip_prefix("DA:")?.split_once(','));
    data.map(|(line, count)| (line.parse().unwrap(), count.parse().unwrap())).collect()
}

#[test]
fn coverage_counts_the_lines_that_ran() {
    let directory = tempfile::tempdir().unwrap();
    let json = weir(directory.path(), "PRINTS", &["--coverage", "one.info", "--format", "json"]);
    let log = weir(directory.path(), "PRINTS", &["--log", "run.jsonl", "--format", "json"]);
    assert!(json.status.success() && log.status.success());
    assert_eq!(json.stdout, log.stdout, "coverage and logging do not change the run");
    let log = std::fs::read_to_string(directory.path().join("run.jsonl")).unwrap();
    let printed = log.lines().filter(|line| line.contains("\"kind\":\"printk\"")).count() as u64;
    let info = std::fs::read_to_string(directory.path().join("one.info")).unwrap();
    let one = counts(&info);
    assert_eq!(one[&line_of("PRINTS")], printed, "{info}");
    assert_eq!(one[&line_of("FINE")], printed, "the function was inlined: {info}");
    assert!(one[&line_of("MOVED")] > 0 && !one.contains_key(&line_of("TIMER")), "{info}");
    // Programs excluded by the macro are never called, and the dump runs only at an ejection.
    assert!(info.contains("\nFNDA:0,mistaken_dump\n") && info.contains("\nFNDA:1,mistaken_init\n"), "{info}");
    assert!(info.contains("\nFNDA:1,mistaken_exit\n"), "it was unloaded: {info}");
    let two = weir(directory.path(), "PRINTS", &["./mistaken.bpf.o", "--coverage", "two.info", "--format", "json"]);
    assert!(two.status.success());
    let two = counts(&std::fs::read_to_string(directory.path().join("two.info")).unwrap());
    let twice: std::collections::BTreeMap<u64, u64> = one.iter().map(|(line, count)| (*line, 2 * count)).collect();
    assert_eq!(two, twice, "counts of several runs are summed");
}

#[test]
fn coverage_annotates_the_source() {
    let command =
        ["sim", source().to_str().unwrap(), "-m", "laptop-2c4t", "-w", "hogs", "--for", "100ms", "--coverage"]
            .map(str::to_owned);
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(command).env("BPF_CFLAGS", "-DNONE").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("  mistaken_dump (line "), "{text}");
    assert!(text.contains("  mistaken_dispatch (line "), "the function was inlined: {text}");
    let line = |number: u64| {
        let found = text.lines().find(|line| line.get(14..19).is_some_and(|at| at.trim() == number.to_string()));
        found.unwrap_or_else(|| panic!("line {number}: {text}"))
    };
    let fine = line(line_of("FINE"));
    assert!(fine.ends_with("/* FINE */") && fine[..13].trim().parse::<u64>().is_ok_and(|count| count > 0), "{text}");
    assert!(line(line_of("DISPATCH")).starts_with("              "), "the macro excludes the line: {text}");
    assert!(text.lines().any(|line| line.contains("#####") && line.contains("u64 data[] = { 7 };")), "{text}");
}
