// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler that is not part of Weir, including everything its user space does before attach, on a simulated
//! machine. `crates/kernel-link/tests/in_kernel.rs` loads the same object and profile into a kernel.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// New directory with `visitor.bpf.o` and this profile.
fn visitor(profile: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = format!("-I{}", here.join("../policies/include").display());
    let source = here.join("../crates/kernel-link/tests/schedulers/visitor.bpf.c");
    let object = bpf_clang::object_of(&source, directory.path(), &[&include]);
    fs::write(directory.path().join("visitor.bpf.o"), object).unwrap();
    fs::write(directory.path().join("visitor.toml"), profile).unwrap();
    directory
}

fn sim(directory: &Path, scheduler: &str, args: &[&str]) -> Output {
    let common = ["sim", scheduler, "-m", "laptop-2c4t", "-w", "hogs", "--for", "2s", "--format", "json"];
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(common).args(args).output().unwrap()
}

const PROFILE: &str = include_str!("../../../crates/kernel-link/tests/schedulers/visitor.toml");

#[test]
fn profile_programs_are_called_before_attach_and_after_a_restart() {
    let directory = visitor(PROFILE);
    // The scheduler has no hotplug callbacks, so hotplug restarts it. It refuses to start unless its programs are
    // called again.
    let faults = ["--faults", "cpu1:offline@500ms,cpu1:online@1s"];
    for (scheduler, args, restarts) in
        [("./visitor.bpf.o", &[][..], 0), ("./visitor.bpf.o,fifo=true", &[], 0), ("./visitor.bpf.o", &faults[..], 2)]
    {
        let output = sim(directory.path(), scheduler, args);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let run = &document["runs"][0];
        assert_eq!((&run["outcome"], &run["restarts"]), (&"completed".into(), &restarts.into()));
        assert!(run["context_switches"].as_u64() > Some(100), "{run:#}");
    }
}

#[test]
fn missing_profile_calls_make_init_fail() {
    let (constants, _) = PROFILE.split_once("[[call]]").unwrap();
    let directory = visitor(constants);
    let output = sim(directory.path(), "./visitor.bpf.o", &[]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["runs"][0]["outcome"]), (Some(1), &"ejected".into()));
    assert_eq!(document["runs"][0]["exit"]["message"], "0 of 4 CPUs are registered");

    let wrong = [
        (
            "{ machine = \"cpus-by-place\" }",
            "[0, 0]",
            "visitor.toml:8: program `register_cpu` returned -22; expected 0",
        ),
        (
            "register_cpu",
            "registr_cpu",
            "unknown program of the object in section `syscall` `registr_cpu`: did you mean",
        ),
        ("weight = 100", "weigth = 100", "unknown member of the context of `register_cpu` `weigth`: did you mean"),
        ("weight = 100", "weight = [100]", "visitor.toml:10: `weight`: 1 values, but another member has 4"),
        ("first_ns = 1000000", "first_ns = -1", "`first_ns`: -1 does not fit"),
    ];
    for (part, instead, expected) in wrong {
        fs::write(directory.path().join("visitor.toml"), PROFILE.replace(part, instead)).unwrap();
        let output = sim(directory.path(), "./visitor.bpf.o", &[]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        // The profile is named first, then there is one error.
        assert!(complaint.starts_with("weir: ./visitor.bpf.o: launch profile ./visitor.toml\n"), "{complaint}");
        assert!(complaint.contains(expected) && complaint.lines().count() == 2, "{complaint}");
    }
}
