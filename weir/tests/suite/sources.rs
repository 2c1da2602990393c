// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers given as BPF C source: compiled by weir, and again after each change with `--watch`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const QUICK: [&str; 8] = ["-m", "core:2 pu:1", "-w", "hogs", "--for", "50ms", "--format", "json"];

fn weir(directory: &Path, schedulers: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(directory).arg("sim").args(schedulers).args(QUICK).args(["--seed", "0"]);
    command
}

fn hash(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["runs"][0]["log_hash"].as_str().unwrap().to_owned()
}

/// Directory with a scheduler that includes a header of its own, and its profile.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let fifo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies/fifo");
    let source = fs::read_to_string(fifo.join("fifo.bpf.c")).unwrap();
    fs::write(directory.path().join("my own.bpf.c"), format!("#include \"own.h\"\n{source}")).unwrap();
    fs::write(directory.path().join("own.h"), "/* nothing */\n").unwrap();
    fs::copy(fifo.join("profile.toml"), directory.path().join("my own.toml")).unwrap();
    directory
}

#[test]
fn source_and_compiled_object_give_the_same_run() {
    let directory = directory();
    let own = weir(directory.path(), &["my own.bpf.c"]).output().unwrap();
    // The log contains line numbers, which the added include shifts, so only the lengths of the hashes are equal.
    let (own, fifo) = (hash(&own), hash(&weir(directory.path(), &["fifo"]).output().unwrap()));
    fs::write(directory.path().join("own.h"), "/* something */\n").unwrap();
    assert_eq!(own, hash(&weir(directory.path(), &["./my own.bpf.c"]).output().unwrap()));
    assert_eq!(own.len(), fifo.len());
}

#[test]
fn profile_beside_an_object_is_named_in_the_output() {
    let directory = directory();
    let said = |words: &[&str]| {
        let output = weir(directory.path(), &["my own.bpf.c"]).args(words).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let named = "weir: my own.bpf.c: launch profile my own.toml\n";
    assert!(said(&[]).contains(named), "{}", said(&[]));
    // A profile that the user names is no surprise.
    assert!(!said(&["--profile", "my own.toml"]).contains("launch profile"));
    fs::remove_file(directory.path().join("my own.toml")).unwrap();
    assert!(!said(&[]).contains("launch profile"));
}

#[test]
fn source_whose_name_begins_like_an_option_is_compiled_as_a_file() {
    let directory = directory();
    let expected = hash(&weir(directory.path(), &["my own.bpf.c"]).output().unwrap());
    fs::rename(directory.path().join("my own.bpf.c"), directory.path().join("-oown.h.bpf.c")).unwrap();
    fs::rename(directory.path().join("my own.toml"), directory.path().join("-oown.h.toml")).unwrap();
    let header = fs::read(directory.path().join("own.h")).unwrap();
    let output = weir(directory.path(), &[]).args(["--", "-oown.h.bpf.c"]).output().unwrap();
    assert_eq!(hash(&output).len(), expected.len());
    assert_eq!(fs::read(directory.path().join("own.h")).unwrap(), header);
    assert!(!directory.path().join("own.h.bpf.c").exists(), "clang took the name for its option -o");
}

#[test]
fn clang_in_the_current_directory_is_not_executed_for_an_empty_path_entry() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory();
    let executed = directory.path().join("executed");
    for name in ["clang", "clang-19", "clang-18", "clang-20"] {
        let planted = directory.path().join(name);
        fs::write(&planted, format!("#!/bin/sh\n: >'{}'\nexit 0\n", executed.display())).unwrap();
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for path in ["", ":", ".", ":/nonexistent"] {
        let mut command = weir(directory.path(), &["my own.bpf.c"]);
        let output = command.env("PATH", path).env_remove("BPF_CLANG").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{path:?}: {said}");
        assert!(!executed.exists(), "{path:?}: the planted clang was executed");
    }
}

#[test]
fn iterator_that_is_never_destroyed_and_maps_of_gigabytes_are_refused() {
    let directory = directory();
    let policy = |text: &str, enqueue: &str| {
        format!(
            "#include <weir/scx.bpf.h>\nLICENSE(\"GPL\");\n{text}\nOP2(void, my_enqueue, struct task_struct *, p, u64, flags)\n\
             {{\n{enqueue}\n\tdsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);\n}}\n\
             SCHEDULER(my_ops, .enqueue = (void *)my_enqueue, .name = \"my\",);\n"
        )
    };
    let leak = policy("", "\tstruct bpf_iter_scx_dsq it; bpf_iter_scx_dsq_new(&it, 0, 0);");
    let map = "struct mib { u8 bytes[1 << 20]; };\nstruct { MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); \
               MAP_NUMBER(max_entries, 1000); MAP_TYPE(key, u32); MAP_TYPE(value, struct mib); } big SEC(\".maps\");";
    let maps = policy(
        map,
        "\tu32 zero = 0; struct mib *first = bpf_map_lookup_elem(&big, &zero); if (first) first->bytes[0] = 1;",
    );
    let said = |words: &[&str]| {
        let output = weir(directory.path(), &["their.bpf.c"]).args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    fs::write(directory.path().join("their.bpf.c"), leak).unwrap();
    let (status, errors) = said(&[]);
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("bpf_iter_scx_dsq_new is never released"), "{errors}");
    fs::write(directory.path().join("their.bpf.c"), maps).unwrap();
    let (status, errors) = said(&[]);
    assert_eq!(status, Some(2), "{errors}");
    let expected = "map big: the maps up to this one take 1000 MiB, and the limit is 512 MiB (--map-memory)";
    assert!(errors.contains(expected), "{errors}");
    assert_eq!(said(&["--map-memory", "1001"]).0, Some(0), "{}", said(&["--map-memory", "1001"]).1);
}

#[test]
fn compile_errors_of_clang_are_shown() {
    let directory = directory();
    fs::write(directory.path().join("own.h"), "int broken(\n").unwrap();
    let output = weir(directory.path(), &["my own.bpf.c"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("error: expected"), "{said}");
    assert_eq!(
        said.lines().last().unwrap(),
        "weir: error: my own.bpf.c: compilation failed (see clang's messages above)"
    );
    assert!(output.stdout.is_empty());
}

/// Weir's headers appear in messages under the names by which they are included, not as temporary files.
#[test]
fn weir_headers_keep_their_names_in_messages() {
    let directory = directory();
    let mut command = weir(directory.path(), &["my own.bpf.c"]);
    let said = String::from_utf8(command.args(["--coverage", "counts.info"]).output().unwrap().stderr).unwrap();
    let counts = fs::read_to_string(directory.path().join("counts.info")).expect(&said);
    assert!(counts.contains("SF:weir/scx.bpf.h\n"), "{counts}");
    fs::write(directory.path().join("own.h"), "#include <weir/scx.bpf.h>\nint wrong = KERNEL_HAS(nothing);\n").unwrap();
    let output = weir(directory.path(), &["my own.bpf.c"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("KERNEL_HAS(nothing)") && !said.contains("include/weir"), "{said}");
}

/// Without a profile every constant may be set on the command line.
#[test]
fn constants_are_set_on_the_command_line_without_a_profile() {
    let directory = directory();
    fs::remove_file(directory.path().join("my own.toml")).unwrap();
    fs::write(directory.path().join("own.h"), "const volatile unsigned wanted = 7;\n").unwrap();
    hash(&weir(directory.path(), &["my own.bpf.c,wanted=9"]).output().unwrap());
    let output = weir(directory.path(), &["my own.bpf.c,wantde=9"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("wantde=9: unknown variable of the object `wantde`: did you mean `wanted`?"), "{said}");
}

#[test]
fn compiler_flags_come_from_bpf_cflags() {
    let directory = directory();
    fs::write(directory.path().join("own.h"), "#ifndef WANTED\n#error not wanted\n#endif\n").unwrap();
    assert_eq!(weir(directory.path(), &["my own.bpf.c"]).output().unwrap().status.code(), Some(2));
    hash(&weir(directory.path(), &["my own.bpf.c"]).env("BPF_CFLAGS", " -DWANTED -Wall ").output().unwrap());
}

/// A change of an included header triggers a run; a compile error is reported, and the next change runs again.
#[test]
fn watch_reruns_after_each_file_change() {
    let directory = directory();
    let header = directory.path().join("own.h");
    let mut child = weir(directory.path(), &["my own.bpf.c"])
        .arg("--watch")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut wait_for = |what: &str| lines.find(|line| line.contains(what)).unwrap();
    // The source, its header and its profile.
    wait_for("waiting for one of 3 files");
    fs::write(&header, "int broken(\n").unwrap();
    wait_for("compilation failed (see clang's messages above)");
    wait_for("waiting for one of");
    fs::write(&header, "/* mended, and longer */\n").unwrap();
    wait_for("waiting for one of");
    child.kill().unwrap();
    child.wait().unwrap();
}
