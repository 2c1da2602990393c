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

/// W1 and W3 are the same build, from the file server and from local memory; W2 copies files within the server.
#[test]
fn nix_workloads_from_ixfs_complete_under_each_scheduler() {
    let paths = [1, 2, 3].map(|n| format!("{}/../workloads/recorded/nix-w{n}.weir", env!("CARGO_MANIFEST_DIR")));
    let work = paths.each_ref().map(|path| weir(&["workload", path, "--format", "json"])["work_ns"].as_u64().unwrap());
    let schedulers = ["kernel", "bfs", "nix@smp", "nix@groups", "nix@amp"];
    let mut args = [&["sim"], &schedulers[..], &["-m", "nix-32", "--seed", "0", "--format", "json"]].concat();
    paths.iter().for_each(|path| args.extend(["-w", path]));
    let document = weir(&args);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), schedulers.len() * paths.len());
    for run in runs {
        let number: usize = run["workload"].as_str().unwrap().strip_prefix("nix-w").unwrap().parse().unwrap();
        let tasks = run["tasks"].as_array().unwrap();
        let done: u64 = tasks.iter().map(|task| task["work_ns"].as_u64().unwrap()).sum();
        assert_eq!((run["outcome"].as_str(), done), (Some("completed"), work[number - 1]), "{}", run["scheduler"]);
        let count = |name: &str| tasks.iter().filter(|task| task["name"] == name).count();
        // Threads of the server that answer the kernel, compilers, and copies into and within the server.
        let expected = [(2, 8, 10), (2, 0, 18), (0, 8, 9)][number - 1];
        assert_eq!((count("fuser-0") + count("fuser-1"), count("cc1"), count("cp")), expected, "W{number}");
    }
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
