// SPDX-License-Identifier: GPL-2.0-only
//! Unit tests of the policies' shared headers, each compiled as a user-space program (`tests/headers/NAME.c`).

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles and runs the test program of one header; its output is the failure message.
pub fn run_header_test(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (format!("tests/headers/{name}.c"), directory.path().join(name));
    // With headers that `cargo xtask mutants` supplies, compiler warnings are no errors: a mutant must be killed by
    // its behavior, not by a warning.
    let supplied = std::env::var_os("WEIR_POLICY_HEADERS").map(PathBuf::from);
    let arguments: &[&str] = if supplied.is_some() { &["-Wno-error"] } else { &[] };
    let include = supplied.unwrap_or_else(bpf_clang::headers);
    bpf_clang::compile_program(Path::new(&source), &include, &program, arguments)
        .unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(&program).output().unwrap();
    let (status, text) = (output.status, String::from_utf8_lossy(&output.stdout));
    assert!(status.success(), "{source}: {status}: {text}");
}

#[test]
fn topology_header_computes_distances_and_siblings() {
    run_header_test("topology");
}

#[test]
fn idle_search_matches_a_naive_search() {
    run_header_test("idle");
}

#[test]
fn deadlines_and_slices_match_the_original_sources() {
    run_header_test("deadline");
}

#[test]
fn leaving_cpu_is_kicked_but_kicks_no_other() {
    run_header_test("hotplug");
}

#[test]
fn smt_nice_lets_light_tasks_run_a_quarter_of_the_time() {
    run_header_test("smt-nice");
}

#[test]
fn per_cpu_clocks_stay_near_the_tick_count() {
    run_header_test("clock");
}
