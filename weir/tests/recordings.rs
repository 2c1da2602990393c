// SPDX-License-Identifier: GPL-2.0-only
//! What the recordings that come with weir are for.

use serde_json::Value;
use std::process::Command;

fn weir(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The longest chain has less than a 400th of the work. One sleep that somebody outside of the build ended is in it, too, and
/// keeps half of 128 CPUs from having something to do all the time.
#[test]
fn the_wide_build_keeps_many_cpus_busy() {
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
fn the_desktop_has_a_video_pages_and_a_build() {
    let desktop = weir(&["sim", "fifo", "-w", "desktop", "-m", "core:4 pu:1", "--seed", "0", "--format", "json"]);
    let tasks = desktop["runs"][0]["tasks"].as_array().unwrap();
    let count = |name: &str| tasks.iter().filter(|task| task["name"] == name).count();
    // The display, two decoders, three pages and who draws for them.
    assert_eq!((count("desktop"), count("cc1"), count("make")), (7, 24, 1));
}

/// Who asks a recording is told where it stands what that cannot answer, for each workload once; who does not is told nothing.
#[test]
fn answers_say_where_their_limits_stand() {
    let said = |workloads: &[&str]| {
        let mut args = vec!["sim", "kernel", "fifo", "-m", "core:2 pu:1", "--seeds", "2", "--for", "10ms"];
        workloads.iter().for_each(|workload| args.extend(["-w", workload]));
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().filter(|line| line.contains("is recorded")).map(str::to_owned).collect::<Vec<_>>()
    };
    let hint = |words: &str| format!("weir: {words} is recorded; what that cannot tell: weir workload {words}");
    assert_eq!(said(&["video+desktop,nice=5", "hogs"]), [hint("video+desktop,nice=5")]);
    assert_eq!(said(&["video"]), [""; 0]);
}
