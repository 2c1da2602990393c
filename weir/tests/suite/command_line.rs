// SPDX-License-Identifier: GPL-2.0-only
//! Command-line grammar, help, and errors: bad input gives exit status 2 and one line that says what is wrong and
//! where.

use std::path::Path;
use std::process::{Command, Output};

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Input files of the cases below.
fn bad_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let fifo = policies::find("fifo").unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
    write("cut.bpf.o", &fifo.object[..200]);
    write("empty.bpf.o", b"");
    write("text.bpf.o", b"#!/bin/sh\n");
    write("good.bpf.o", fifo.object);
    write("bad-profile.toml", b"summary = \n");
    write("garbage.json", b"{ \"tasks\": [ }");
    write("no-tasks.json", b"{}");
    write("latin1.json", b"{ \"t\xe4sk\": 1 }");
    write("bad-machine.toml", b"name = 1\n");
    write("cut.weir", b"\x00\x01\x02");
    directory
}

#[test]
fn bad_input_gives_one_error_line_and_exit_status_2() {
    let files = bad_files();
    let cases: &[(&[&str], &str)] = &[
        (&["simulate"], "unrecognized subcommand 'simulate'"),
        (&["check"], "<SCHED>"),
        (&["sim"], "<SCHED>..."),
        (&["sim", "fifo", "--seeds", "0"], "--seeds"),
        (&["sim", "fifo", "--seeds", "3", "--seed", "1"], "--seed"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "--trace", "a", "--log", "./a"], "--trace and --log are the same file"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "--trace", "-"], "--trace -: expected a file name"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "--log", "-"], "--log -: expected a file name"),
        (&["run", "--trace", "-", "--", "true"], "--trace -: expected a file name"),
        (&["run", "--format", "csv"], "--format csv needs a command or a workload"),
        (&["sim", "fifo", "--faults", "x"], "cannot read x: No such file"),
        (&["sim", "fifo", "--draws", "1"], "--draws"),
        (&["sim", "fifo", "--interleave"], "--interleave"),
        (&["sim", "fifo", "--seed", "-1"], "--seed"),
        (&["sim", "fifo", "--seed", "one"], "'one'"),
        (&["sim", "fifo", "--for", "10"], "such as 10s"),
        (&["sim", "fifo", "--for", "0s"], "such as 10s"),
        (&["sim", "fifo", "--format", "xml"], "'xml'"),
        (&["sim", "fifo", "--kernel", "6.11"], "expected kernel 7.2"),
        (&["sim", "fifo", "--kernel", "6.18"], "sched_ext is modelled only for 7.2"),
        (&["workload", "nosuch"], "no workload \"nosuch\""),
        (&["workload", "build", "--format", "csv"], "--format csv: a workload has no tabular form"),
        (&["workload", "build", "--for", "1"], "such as 10s"),
        (&["list", "schedulers"], "'schedulers'"),
        (&["run", "fifp"], "no policy \"fifp\", did you mean fifo?"),
        (&["run", "-w", "hogs", "--", "true"], "--workload"),
        (&["run", "--monitor", "1", "fifo"], "--monitor"),
        (&["run", "--stats", "0"], "--stats"),
        (&["run", "--trace", "x"], "--trace needs a command or a workload"),
        (&["run", "--profile", "x.toml", "--", "true"], "--profile applies to schedulers given as paths"),
        (&["record"], "COMMAND"),
        (&["record", "make"], "unexpected argument 'make' found: write the command after --: weir record -- ls -l"),
        (&["record", "--"], "COMMAND"),
        (&["run", "ls", "-l"], "unexpected argument '-l' found: write the command after --: weir run -- ls -l"),
        (&["run", "bfs", "make"], "unexpected argument 'make' found: write the command after --: weir run -- ls -l"),
        (
            &["run", "ls"],
            "no policy \"ls\" (there are: kernel, bfs, cfs, currency, dwcs, entitlement, fifo, gang, lottery, muqss, nix, pushback, sets, stride, vrq); write the command after --: weir run -- ls",
        ),
        (&["run", "--for", "1s", "--"], "no command after --: expected a command and its arguments"),
        (&["run", "bfs", "--for", "1s", "--"], "no command after --: expected a command and its arguments"),
        (
            &["run", "ls", "-w", "hogs"],
            "no policy \"ls\" (there are: kernel, bfs, cfs, currency, dwcs, entitlement, fifo, gang, lottery, muqss, nix, pushback, sets, stride, vrq)",
        ),
        (&["record", "-o", "missing/x.weir", "--", "true"], "cannot write missing/x.weir: No such file"),
        (&["sim", "fifp"], "no policy \"fifp\", did you mean fifo?"),
        (
            &["sim", "nothing-like-it"],
            "(there are: kernel, bfs, cfs, currency, dwcs, entitlement, fifo, gang, lottery, muqss, nix, pushback, sets, stride, vrq)",
        ),
        (&["sim", "fifo,slice"], "\"slice\" is not a tunable"),
        (&["sim", "fifo,no_such_tunable=1"], "no_such_tunable"),
        (&["sim", "kernel,slice=1"], "kernel,slice=1: kernel is the default scheduler, which has no presets and no"),
        (&["sim", "kernel@6.18"], "kernel@6.18: kernel is the default scheduler"),
        (&["run", "kernel@6.18", "--", "true"], "kernel@6.18: kernel is the default scheduler"),
        (&["sim", "kernl"], "no policy \"kernl\", did you mean kernel?"),
        (&["sim", "kernel", "--profile", "x.toml"], "--profile applies to schedulers given as paths"),
        (&["sim", "fifo@no-such-preset"], "no-such-preset"),
        (&["sim", "fifo", "--profile", "bad-profile.toml"], "--profile applies to schedulers given as paths"),
        (&["sim", "./good.bpf.o", "--profile", "bad-profile.toml"], "bad-profile.toml"),
        (&["sim", "./good.bpf.o", "--profile", "missing.toml"], "cannot read missing.toml"),
        (&["sim", "missing.bpf.o"], "cannot read missing.bpf.o"),
        (&["sim", "cut.bpf.o"], "cut.bpf.o: "),
        (&["sim", "empty.bpf.o"], "empty.bpf.o: "),
        (&["sim", "text.bpf.o"], "text.bpf.o: "),
        (&["sim", "fifo", "-m", "laptop-2c4"], "laptop-2c4t"),
        (&["sim", "fifo", "-m", "node:2 core"], "node:2 core"),
        (&["sim", "fifo", "-m", "./missing.toml"], "cannot read ./missing.toml"),
        (&["sim", "fifo", "-m", "bad-machine.toml"], "bad-machine.toml"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "biuld"], "did you mean build?"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "build,jobs=0"], "jobs=0; expected jobs=NUMBER, 1 or more"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "build,speed=2"], "unknown key \"speed\"; expected jobs=N"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "hogs,jobs=2"], "expected a recorded build"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "missing.json"], "cannot read missing.json"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "garbage.json"], "garbage.json"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "no-tasks.json"], "no-tasks.json"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "latin1.json"], "latin1.json"),
        (&["sim", "fifo", "-m", "laptop-2c4t", "-w", "cut.weir"], "cut.weir"),
        (&["sim", "fifo", "bfs", "-m", "laptop-2c4t", "--trace", "t"], "--trace and --log need a single run"),
    ];
    for (args, expected) in cases {
        let output = weir(files.path(), args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.starts_with("weir: error: ") && error.contains(expected), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

#[test]
fn help_has_examples_and_fits_80_columns() {
    let here = Path::new(".");
    for args in [
        &["--help"][..],
        &["list", "--help"],
        &["machine", "--help"],
        &["sim", "--help"],
        &["run", "--help"],
        &["record", "--help"],
        &["explain", "--help"],
        &["generate", "--help"],
    ] {
        let output = weir(here, args);
        let help = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(help.contains("Examples:\n"), "{args:?}");
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
    }
    assert_eq!(weir(here, &[]).status.code(), Some(2), "a subcommand is required");
    let version = text(&weir(here, &["--version"]).stdout);
    let rest = version
        .strip_prefix(concat!("weir ", env!("CARGO_PKG_VERSION")))
        .expect("the output begins with name and version");
    let commit = rest.trim_end().strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    let is_commit = |text: &str| text.len() == 12 && text.chars().all(|c| c.is_ascii_hexdigit());
    assert!(rest == "\n" || commit.is_some_and(is_commit), "{version:?}");
}

/// The build script finds the commit in the environment, in git, or in a `git archive` tarball.
#[test]
fn version_includes_the_commit_where_known() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let built = Command::new(rustc).args(["--edition", "2024", "-o"]).arg(&script).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let package = folder.path().join("weir");
    std::fs::create_dir(&package).unwrap();
    let version = |profile: &str, given: Option<&str>| {
        let mut command = Command::new(&script);
        command.current_dir(&package).env("CARGO_MANIFEST_DIR", &package).env("CARGO_PKG_VERSION", "1.2");
        command.env("PROFILE", profile).env_remove("WEIR_COMMIT").envs(given.map(|commit| ("WEIR_COMMIT", commit)));
        let output = text(&command.output().unwrap().stdout);
        let line = output.lines().find_map(|line| line.strip_prefix("cargo::rustc-env=WEIR_VERSION="));
        line.expect(&output).to_owned()
    };
    let given = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(version("release", None), "1.2", "a directory without git");
    assert_eq!(version("debug", Some(given)), "1.2 (0123456789ab)");
    std::fs::write(package.join("commit"), "$Format:%H$\n").unwrap();
    assert_eq!(version("release", None), "1.2", "the placeholder is not substituted");
    std::fs::write(package.join("commit"), format!("{}\n", given.replace('0', "f"))).unwrap();
    assert_eq!(version("release", None), "1.2 (f123456789ab)");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=n", "-c", "user.email=e"]).args(arguments);
        command.current_dir(folder.path()).output().unwrap()
    };
    if !git(&["init", "-q"]).status.success() {
        return;
    }
    git(&["add", "weir"]);
    git(&["commit", "-q", "-m", "Begin"]);
    let head = text(&git(&["rev-parse", "HEAD"]).stdout);
    assert_eq!(version("release", None), format!("1.2 ({})", &head[..12]));
    assert_eq!(version("debug", None), "1.2 (f123456789ab)", "debug builds do not ask git");
}

/// Files that `make install` installs besides the program.
#[test]
fn man_pages_completions_headers_and_objects_are_generated() {
    let folder = tempfile::tempdir().unwrap();
    let made = |what: &str| {
        let output = weir(folder.path(), &["generate", what, what]);
        assert_eq!(output.status.code(), Some(0), "{what}: {}", text(&output.stderr));
        let mut names: Vec<String> = std::fs::read_dir(folder.path().join(what))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let pages = made("man");
    for command in ["weir", "weir-sim", "weir-run", "weir-explain", "weir-compare", "weir-record"] {
        assert!(pages.contains(&format!("{command}.1")), "{pages:?}");
    }
    let page = std::fs::read_to_string(folder.path().join("man/weir-explain.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("\\-\\-worst") && page.contains("Examples:"), "{page}");
    assert_eq!(made("completions"), ["_weir", "weir", "weir.fish"]);
    let bash = std::fs::read_to_string(folder.path().join("completions/weir")).unwrap();
    assert!(bash.contains("--ejection") && bash.contains("_weir()"));
    assert_eq!(made("headers"), ["weir"]);
    // The headers suffice to compile a policy.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = root.join("policies/bfs/bfs.bpf.c");
    let include = format!("-I{}", folder.path().join("headers").display());
    let object = folder.path().join("bfs.bpf.o");
    let clang = Command::new(bpf_clang::find().unwrap())
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", &include, "-c"])
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()
        .unwrap();
    assert!(clang.status.success(), "{}", text(&clang.stderr));
    assert!(weir(folder.path(), &["inspect", "./bfs.bpf.o"]).status.success());
    // The generated object and profile behave like the built-in policy.
    let names: Vec<String> = policies::all()
        .iter()
        .flat_map(|policy| ["bpf.o", "toml"].map(|end| format!("{}.{end}", policy.name)))
        .collect();
    assert_eq!(made("objects"), names);
    let hash = |policy: &str| {
        let output = weir(folder.path(), &["sim", policy, "-m", "core:2 pu:1", "-w", "hogs", "--for", "100ms"]);
        text(&output.stdout).lines().find(|line| line.starts_with("log hash")).map(str::to_owned)
    };
    assert!(hash("bfs").is_some());
    assert_eq!(hash("./objects/bfs.bpf.o"), hash("bfs"));
    let refused = weir(folder.path(), &["generate", "man", "/dev/null/x"]);
    assert_eq!((refused.status.code(), text(&refused.stderr).lines().count()), (Some(2), 1));
}

/// A printed machine, read back, gives an identical run: a preset, the host, synthetic ones with unusual topologies,
/// and one from hwloc.
#[test]
fn printed_machine_read_back_gives_the_same_run() {
    let files = tempfile::tempdir().unwrap();
    let hwloc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/machine-model/tests/hwloc/hybrid-v2.xml");
    let (hwloc, odd) = (hwloc.to_str().unwrap(), "pack:2 [numa] [numa] l3:2 core:2 pu:1(indexes=0,1,2,3,8,9,11,10)");
    for machine in ["server-64", "host", "3 2", odd, hwloc] {
        let printed = weir(files.path(), &["machine", machine]);
        assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
        std::fs::write(files.path().join("my.toml"), &printed.stdout).unwrap();
        let hash = |machine: &str| {
            let args = ["sim", "bfs", "-m", machine, "-w", "preempt-mix", "--for", "100ms", "--seed", "1"];
            let output = weir(files.path(), &[&args[..], &["--format", "json"]].concat());
            assert_eq!(output.status.code(), Some(0), "{machine}: {}", text(&output.stderr));
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            report["runs"][0]["log_hash"].as_str().unwrap().to_owned()
        };
        assert_eq!(hash("my.toml"), hash(machine), "{machine}");
    }
    let json = weir(files.path(), &["machine", hwloc, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let cpu = serde_json::json!({
        "cpu": 4, "core": 2, "llc": 0, "node": 0, "capacity": 446, "online": true
    });
    assert_eq!((&json["cpus"][4], &json["nodes"][1]["cpus"]), (&cpu, &serde_json::json!("")));
    assert_eq!(json["file"]["topology"]["offline"], "8");
}

/// A full disk is reported for every kind of output.
#[test]
fn full_disk_is_an_error() {
    for args in
        [&["--help"][..], &["list"], &["sim", "--help"], &["sim", "fifo", "-m", "laptop-2c4t", "-w", "pingpong"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("cannot write to standard output"), "{args:?}");
    }
}

#[test]
fn list_shows_policies_machines_workloads_and_measures() {
    let here = Path::new(".");
    let all = text(&weir(here, &["list"]).stdout);
    for name in ["Policies", "  bfs", "  fifo", "Machines", "  host", "  laptop-2c4t", "Workloads", "  build"] {
        assert!(all.contains(name), "{name}\n{all}");
    }
    let measures = text(&weir(here, &["list", "measures"]).stdout);
    for measure in &measures::catalogue::CATALOGUE {
        assert!(measures.contains(&format!("  {} ", measure.key)), "{}", measure.key);
    }
    let machines = text(&weir(here, &["list", "machines"]).stdout);
    assert!(machines.contains("server-512") && !machines.contains("bfs"), "{machines}");
    for line in all.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
