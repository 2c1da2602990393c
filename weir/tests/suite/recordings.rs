// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the shipped recordings that make them useful.

use serde_json::Value;
use std::process::Command;

fn weir(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The critical path has less than 1/400 of the work. The recording also contains one sleep ended from outside the
/// build, which leaves half of 128 CPUs idle for a while.
#[test]
fn wide_build_keeps_60_of_128_cpus_busy() {
    let wide = weir(&["workload", "wide", "--format", "json"]);
    let ns = |value: &Value| value.as_u64().unwrap();
    let (work, chain) = (ns(&wide["work_ns"]), ns(&wide["chain_work_ns"]));
    assert!(work >= 400 * chain, "{work} ns of work, a chain of {chain} ns");

    let machine = "node:2 core:64 pu:1";
    let run = &weir(&["sim", "kernel", "-w", "wide", "-m", machine, "--seed", "0", "--format", "json"])["runs"][0];
    let (makespan, done) = (ns(&run["makespan_ns"]), ns(&run["cpu_ns"]["run"]));
    assert!(done > makespan * 60, "{done} ns of CPU time in {makespan} ns on 128 CPUs");
}

#[test]
fn desktop_has_a_video_web_pages_and_a_build() {
    let desktop = weir(&["sim", "fifo", "-w", "desktop", "-m", "core:4 pu:1", "--seed", "0", "--format", "json"]);
    let tasks = desktop["runs"][0]["tasks"].as_array().unwrap();
    let count = |name: &str| tasks.iter().filter(|task| task["name"] == name).count();
    // The compositor, two decoders, three pages and their renderer.
    assert_eq!((count("desktop"), count("cc1"), count("make")), (7, 24, 1));
}

/// For each recorded workload weir prints once where its uncertainties are listed; for other workloads it prints
/// nothing.
#[test]
fn simulating_a_recording_points_to_its_uncertainties() {
    let said = |workloads: &[&str]| {
        let mut args = vec!["sim", "kernel", "fifo", "-m", "core:2 pu:1", "--seeds", "2", "--for", "10ms"];
        workloads.iter().for_each(|workload| args.extend(["-w", workload]));
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().filter(|line| line.contains("is a recording")).map(str::to_owned).collect::<Vec<_>>()
    };
    let hint =
        |words: &str| format!("weir: {words} is a recording; weir workload {words} lists what it leaves uncertain");
    assert_eq!(said(&["video+desktop,nice=5", "hogs"]), [hint("video+desktop,nice=5")]);
    assert_eq!(said(&["video"]), [""; 0]);
}
