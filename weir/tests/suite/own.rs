// SPDX-License-Identifier: GPL-2.0-only
//! User-supplied objects: inspection, launch profiles, and objects that cannot be loaded.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Compiles this source to `NAME.bpf.o` in `directory`.
fn compile(directory: &Path, source: &str, name: &str, define: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = format!("-I{}", here.join("../policies/include").display());
    let object = bpf_clang::object_of(&here.join(source), directory, &[&include, &format!("-D{define}")]);
    std::fs::write(directory.join(format!("{name}.bpf.o")), object).unwrap();
}

fn launched(directory: &Path) {
    compile(directory, "tests/schedulers/launched.bpf.c", "launched", "NONE");
}

/// Compiles an object that needs red-black trees, arenas and a removed kfunc.
fn lacking(directory: &Path) {
    compile(directory, "../crates/kernel-model/tests/schedulers/foreign.bpf.c", "lacking", "LACKING");
}

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn sim(directory: &Path, schedulers: &[&str], more: &[&str]) -> Output {
    let run = ["-m", "core:2 pu:1", "-w", "hogs", "--for", "50ms", "--seed", "0"];
    weir(directory, &[&["sim"], schedulers, &run, more].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PROFILE: &str = r#"
leave-out = ["launched_tick"]

[[element]]
map = "settings"
key = 1
value = 7

[[call]]
program = "arrive"
attached = true
"#;

#[test]
fn launch_profile_writes_map_elements_calls_programs_and_leaves_out_ops() {
    let directory = tempfile::tempdir().unwrap();
    launched(directory.path());
    let outcome = |profile: &str| {
        std::fs::write(directory.path().join("launched.toml"), profile).unwrap();
        let output = sim(directory.path(), &["./launched.bpf.o"], &["--format", "json"]);
        let said = text(&output.stderr);
        match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(json) => {
                (output.status.code().unwrap(), json["runs"][0]["exit"]["message"].as_str().unwrap().to_owned(), said)
            }
            Err(_) => (output.status.code().unwrap(), String::new(), said),
        }
    };
    let (status, _, said) = outcome(PROFILE);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("does not run these programs of the object: watch (fentry/schedule)"), "{said}");
    let cases = [
        ("value = 7", "value = 8", 1, "ops.init() failed (-22)"),
        ("key = 1", "key = 0", 1, "ops.init() failed (-22)"),
        ("leave-out = [\"launched_tick\"]", "", 1, "ticked"),
        // Called before attach, the program fails, and the run does not start.
        ("attached = true", "attached = false", 2, ""),
    ];
    for (key, instead, expected, message) in cases {
        let (status, found, said) = outcome(&PROFILE.replace(key, instead));
        assert_eq!((status, found.as_str()), (expected, message), "{key}: {said}");
    }
    let (status, _, said) = outcome(&PROFILE.replace("launched_tick", "watch"));
    assert_eq!(status, 1, "the tick callback runs");
    assert!(!said.contains("does not run these"), "programs named in leave-out are not reported: {said}");
    let (status, _, said) = outcome(&PROFILE.replace("launched_tick", "launched_tock"));
    assert!(status == 2 && said.contains("launched_tick"), "the closest name is suggested: {said}");
}

#[test]
fn object_without_launch_profile_gives_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    launched(directory.path());
    let said = text(&sim(directory.path(), &["./launched.bpf.o"], &[]).stderr);
    assert!(said.contains("no launch profile found") && said.contains("[[call]] arrive"), "{said}");
    std::fs::write(directory.path().join("launched.toml"), PROFILE).unwrap();
    let said = text(&sim(directory.path(), &["./launched.bpf.o"], &[]).stderr);
    assert!(!said.contains("no launch profile found"), "{said}");
}

#[test]
fn inspect_lists_ops_programs_maps_and_missing_features() {
    let directory = tempfile::tempdir().unwrap();
    launched(directory.path());
    lacking(directory.path());
    let json = |name: &str| {
        let output = weir(directory.path(), &["inspect", name, "--format", "json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let found = json("./launched.bpf.o");
    assert_eq!((&found["scheduler"], &found["license"]), (&"launched".into(), &"GPL".into()));
    let ops: Vec<&str> = found["ops"].as_array().unwrap().iter().map(|op| op.as_str().unwrap()).collect();
    assert!(ops.contains(&"enqueue") && ops.contains(&"tick") && !ops.contains(&"select_cpu"), "{found}");
    let program = |name: &str| {
        let programs = found["programs"].as_array().unwrap();
        programs.iter().find(|program| program["name"] == name).unwrap_or_else(|| panic!("{name}: {found}")).clone()
    };
    assert_eq!((&program("watch")["runs"], &program("arrive")["runs"]), (&false.into(), &true.into()));
    assert_eq!(found["maps"][0]["name"], "settings");
    assert_eq!(found["profile"][0], "[[call]] arrive, if its user space calls it");
    assert_eq!(found["lacks"]["needed"], Value::Array(vec![]));
    let found = json("./lacking.bpf.o")["lacks"]["needed"].to_string();
    for word in ["weir does not model arenas", "bpf_rbtree_first", "scx_bpf_dispatch any more"] {
        assert!(found.contains(word), "{word}: {found}");
    }
    let said = text(&weir(directory.path(), &["inspect", "./launched.bpf.o"]).stdout);
    assert!(said.contains("watch (fentry/schedule): not run by weir") && said.contains("settings: Array"), "{said}");
    let profile = text(&weir(directory.path(), &["inspect", "./launched.bpf.o", "--profile"]).stdout);
    std::fs::write(directory.path().join("launched.toml"), &profile).unwrap();
    let output = sim(directory.path(), &["./launched.bpf.o"], &[]);
    assert_eq!(output.status.code(), Some(1), "the drafted profile is valid but incomplete: {profile}");
}

#[test]
fn unloadable_object_does_not_cancel_a_comparison() {
    let directory = tempfile::tempdir().unwrap();
    lacking(directory.path());
    let alone = sim(directory.path(), &["./lacking.bpf.o"], &[]);
    assert_eq!((alone.status.code(), alone.stdout.len()), (Some(2), 0));
    let output = sim(directory.path(), &["fifo", "./lacking.bpf.o", "bfs"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let (report, said) = (text(&output.stdout), text(&output.stderr));
    let row = report.lines().find(|line| line.starts_with("./lacking.bpf.o on ")).expect(&report);
    assert!(row.contains(": not loaded: ") && row.contains("weir does not model arenas"), "{row}");
    assert!(report.contains("fifo") && report.contains("bfs") && report.contains("context switches"), "{report}");
    assert!(said.contains("could not be loaded (reasons in the report): ./lacking.bpf.o"), "{said}");
    let output = sim(directory.path(), &["fifo", "./lacking.bpf.o"], &["--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 1);
    assert_eq!(json["refused"][0]["scheduler"], "./lacking.bpf.o");
    assert!(json["refused"][0]["reason"].as_str().unwrap().contains("arenas"), "{json}");
    // An error that concerns all schedulers fails the whole command.
    let output = weir(directory.path(), &["sim", "fifo", "bfs", "-m", "core:2 pu:1", "-w", "nothing"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

/// A file that is not an object is rejected on each machine, and the other schedulers run.
#[test]
fn non_elf_file_does_not_cancel_a_comparison() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("text.bpf.o"), "no ELF file").unwrap();
    let alone = sim(directory.path(), &["./text.bpf.o"], &[]);
    assert_eq!((alone.status.code(), alone.stdout.len()), (Some(2), 0));
    let output = sim(directory.path(), &["./text.bpf.o", "fifo"], &["-m", "laptop-2c4t", "--format", "json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("could not be loaded (reasons in the report): ./text.bpf.o"),
        "{}",
        text(&output.stderr)
    );
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs: Vec<&Value> = json["runs"].as_array().unwrap().iter().map(|run| &run["scheduler"]).collect();
    assert_eq!(runs, ["fifo", "fifo"]);
    let refused = json["refused"].as_array().unwrap();
    let machines: Vec<&Value> = refused.iter().map(|entry| &entry["machine"]).collect();
    assert_eq!(machines, ["core:2 pu:1", "laptop-2c4t"]);
    assert!(refused.iter().all(|entry| entry["reason"].as_str().unwrap().contains("ELF")), "{refused:?}");
    // A nonexistent file is an error of the command line.
    let output = sim(directory.path(), &["./none.bpf.o", "fifo"], &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let both = sim(directory.path(), &["./text.bpf.o", "./text.bpf.o"], &[]);
    assert_eq!((both.status.code(), both.stdout.len()), (Some(2), 0), "nothing ran");
}
