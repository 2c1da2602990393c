// SPDX-License-Identifier: GPL-2.0-only
//! The headers that policies share, each as a program of its own in user space (`tests/headers/NAME.c`).

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles and runs the tests of one header; what they say is the message.
pub fn holds(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (format!("tests/headers/{name}.c"), folder.path().join(name));
    // `cargo xtask mutants` brings its own, of which a test shall notice what they do, and not clang how they look.
    let brought = std::env::var_os("WEIR_POLICY_HEADERS").map(PathBuf::from);
    let arguments: &[&str] = if brought.is_some() { &["-Wno-error"] } else { &[] };
    let include = brought.unwrap_or_else(bpf_clang::headers);
    bpf_clang::compile_program(Path::new(&source), &include, &program, arguments)
        .unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(&program).output().unwrap();
    let (status, text) = (output.status, String::from_utf8_lossy(&output.stdout));
    assert!(status.success(), "{source}: {status}: {text}");
}

#[test]
fn topology_tells_distances_and_siblings() {
    holds("topology");
}

#[test]
fn the_idle_search_finds_what_a_naive_one_finds() {
    holds("idle");
}

#[test]
fn deadlines_and_slices_are_those_of_the_sources() {
    holds("deadline");
}

#[test]
fn cpus_that_leave_are_told_and_do_not_tell() {
    holds("hotplug");
}

#[test]
fn light_tasks_run_beside_heavy_ones_a_quarter_of_the_time() {
    holds("smt-nice");
}

#[test]
fn clocks_of_cpus_are_kept_near_the_count_of_ticks() {
    holds("clock");
}
