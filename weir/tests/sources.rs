// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers that are given as BPF C: compiled on the spot, and again when a file changes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const QUICK: [&str; 8] = ["-m", "core:2 pu:1", "-w", "hogs", "--for", "50ms", "--format", "json"];

fn weir(folder: &Path, schedulers: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(folder).arg("sim").args(schedulers).args(QUICK).args(["--seed", "0"]);
    command
}

fn hash(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["runs"][0]["log_hash"].as_str().unwrap().to_owned()
}

/// A folder with a scheduler and its profile, which begins with a header of its own.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fifo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies/fifo");
    let source = fs::read_to_string(fifo.join("fifo.bpf.c")).unwrap();
    fs::write(folder.path().join("my own.bpf.c"), format!("#include \"own.h\"\n{source}")).unwrap();
    fs::write(folder.path().join("own.h"), "/* nothing */\n").unwrap();
    fs::copy(fifo.join("profile.toml"), folder.path().join("my own.toml")).unwrap();
    folder
}

#[test]
fn a_source_runs_as_its_object_does() {
    let folder = folder();
    let own = weir(folder.path(), &["my own.bpf.c"]).output().unwrap();
    // The log has line numbers: one line stands before the original.
    let (own, fifo) = (hash(&own), hash(&weir(folder.path(), &["fifo"]).output().unwrap()));
    fs::write(folder.path().join("own.h"), "/* something */\n").unwrap();
    assert_eq!(own, hash(&weir(folder.path(), &["./my own.bpf.c"]).output().unwrap()));
    assert_eq!(own.len(), fifo.len());
}

#[test]
fn clang_says_what_it_does_not_compile() {
    let folder = folder();
    fs::write(folder.path().join("own.h"), "int broken(\n").unwrap();
    let output = weir(folder.path(), &["my own.bpf.c"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("error: expected"), "{said}");
    assert_eq!(said.lines().last().unwrap(), "weir: error: my own.bpf.c: clang does not compile it");
    assert!(output.stdout.is_empty());
}

/// Headers that come with Weir have the names by which they are included, not those of files that are gone.
#[test]
fn headers_of_weir_have_their_own_names() {
    let folder = folder();
    let mut command = weir(folder.path(), &["my own.bpf.c"]);
    let said = String::from_utf8(command.args(["--coverage", "counts.info"]).output().unwrap().stderr).unwrap();
    let counts = fs::read_to_string(folder.path().join("counts.info")).expect(&said);
    assert!(counts.contains("SF:weir/scx.bpf.h\n"), "{counts}");
    fs::write(folder.path().join("own.h"), "#include <weir/scx.bpf.h>\nint wrong = KERNEL_HAS(nothing);\n").unwrap();
    let output = weir(folder.path(), &["my own.bpf.c"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("KERNEL_HAS(nothing)") && !said.contains("include/weir"), "{said}");
}

/// Without a profile every constant may be set on the command line.
#[test]
fn a_constant_is_set_on_the_command_line() {
    let folder = folder();
    fs::remove_file(folder.path().join("my own.toml")).unwrap();
    fs::write(folder.path().join("own.h"), "const volatile unsigned wanted = 7;\n").unwrap();
    hash(&weir(folder.path(), &["my own.bpf.c,wanted=9"]).output().unwrap());
    let output = weir(folder.path(), &["my own.bpf.c,wantde=9"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("wantde=9: unknown variable of the object `wantde`: did you mean `wanted`?"), "{said}");
}

#[test]
fn flags_come_from_the_environment() {
    let folder = folder();
    fs::write(folder.path().join("own.h"), "#ifndef WANTED\n#error not wanted\n#endif\n").unwrap();
    assert_eq!(weir(folder.path(), &["my own.bpf.c"]).output().unwrap().status.code(), Some(2));
    hash(&weir(folder.path(), &["my own.bpf.c"]).env("BPF_CFLAGS", " -DWANTED -Wall ").output().unwrap());
}

/// A change of an included header runs it again; one that cannot be compiled is told, and the next one runs.
#[test]
fn watching_runs_again_after_each_change() {
    let folder = folder();
    let header = folder.path().join("own.h");
    let mut child = weir(folder.path(), &["my own.bpf.c"])
        .arg("--watch")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut wait_for = |what: &str| lines.find(|line| line.contains(what)).unwrap();
    // The source, its header, its profile.
    wait_for("waiting for one of 3 files");
    fs::write(&header, "int broken(\n").unwrap();
    wait_for("clang does not compile it");
    wait_for("waiting for one of");
    fs::write(&header, "/* mended, and longer */\n").unwrap();
    wait_for("waiting for one of");
    child.kill().unwrap();
    child.wait().unwrap();
}
