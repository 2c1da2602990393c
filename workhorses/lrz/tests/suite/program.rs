// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the command: file names, options, errors and leftover files.

use crate::common;

use common::{lrz, names, succeed, text};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command that must fail; returns its exit status and standard error.
fn fails(command: &mut Command) -> (i32, String) {
    let output = command.output().expect("started");
    assert!(!output.status.success(), "{command:?}");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn directory_with(name: &str, bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    fs::write(&path, bytes).expect("written");
    (directory, path)
}

#[test]
fn round_trip_keeps_name_mode_and_times() {
    let plain = text(1, 300_000);
    let (directory, path) = directory_with("a.txt", &plain);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
    let before = fs::metadata(&path).expect("there");
    succeed(lrz().arg("-q").arg(&path));
    assert_eq!(names(directory.path()), ["a.txt", "a.txt.lrz"]);
    fs::remove_file(&path).expect("removed");
    succeed(lrz().args(["-q", "-d", "-D"]).arg(directory.path().join("a.txt.lrz")));
    assert_eq!(names(directory.path()), ["a.txt"]);
    let after = fs::metadata(&path).expect("there");
    assert_eq!((before.mode(), before.mtime(), before.mtime_nsec()), (after.mode(), after.mtime(), after.mtime_nsec()));
    assert!(fs::read(&path).expect("there") == plain);
}

/// Only the times are printed: `lrz -l 0m00.010s -> 0m00.009s`.
#[test]
fn compare_overlap_prints_both_times_and_keeps_no_archive() {
    let (directory, path) = directory_with("a", &text(2, 300_000));
    let output = succeed(lrz().args(["-l", "--compare-overlap"]).arg(&path));
    let line = String::from_utf8(output.stdout).expect("text");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words.len(), words[..2].join(" ").as_str(), words[3]), (5, "lrz -l", "->"), "{line}");
    assert!([words[2], words[4]].iter().all(|time| time.starts_with("0m0") && time.ends_with('s')), "{line}");
    assert_eq!(names(directory.path()), ["a"]);
    assert_eq!(fails(lrz().args(["--compare-overlap", "-"])).0, 2);
    assert_eq!(fails(lrz().args(["--compare-overlap", "-d"]).arg(&path)).0, 2);
}

#[test]
fn existing_output_is_not_replaced_without_force() {
    let (directory, path) = directory_with("a", &text(2, 10_000));
    fs::write(directory.path().join("a.lrz"), "precious").expect("written");
    let (status, error) = fails(lrz().arg(&path));
    assert_eq!(status, 1);
    assert_eq!(error.matches("already exists").count(), 1, "{error}");
    assert!(error.contains("use -f"), "{error}");
    assert_eq!(fs::read(directory.path().join("a.lrz")).expect("there"), b"precious");
    succeed(lrz().args(["-q", "-f", "-D"]).arg(&path));
    assert_eq!(names(directory.path()), ["a.lrz"]);
}

#[test]
fn recursive_option_processes_nested_directories() {
    let directory = tempfile::tempdir().expect("a directory");
    let deep = directory.path().join("one/two");
    fs::create_dir_all(&deep).expect("created");
    let files = [directory.path().join("a"), directory.path().join("one/b"), deep.join("c")];
    for (seed, file) in files.iter().enumerate() {
        fs::write(file, text(seed as u64, 5000)).expect("written");
    }
    std::os::unix::fs::symlink(&files[0], deep.join("link")).expect("linked");
    assert_eq!(fails(lrz().arg(directory.path())).0, 2);
    succeed(lrz().args(["-q", "-r", "-D", "-l"]).arg(directory.path()));
    assert_eq!(names(&deep), ["c.lrz", "link"]);
    succeed(lrz().args(["-q", "-r", "-d", "-D"]).arg(directory.path()));
    assert_eq!(names(&deep), ["c", "link"]);
    for (seed, file) in files.iter().enumerate() {
        assert!(fs::read(file).expect("there") == text(seed as u64, 5000));
    }
}

#[test]
fn zeros_are_written_as_holes() {
    let mut plain = vec![0; 8 << 20];
    plain[5_000_000..5_000_100].fill(7);
    let (directory, path) = directory_with("z", &plain);
    succeed(lrz().args(["-q", "-D"]).arg(&path));
    succeed(lrz().args(["-q", "-d"]).arg(directory.path().join("z.lrz")));
    assert!(fs::read(&path).expect("there") == plain);
    let metadata = fs::metadata(&path).expect("there");
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
}

#[test]
fn damaged_archive_exits_with_1_and_leaves_no_output() {
    let (directory, path) = directory_with("a", &text(3, 200_000));
    succeed(lrz().args(["-q", "-D"]).arg(&path));
    let archive = directory.path().join("a.lrz");
    let mut bytes = fs::read(&archive).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 16;
    fs::write(&archive, &bytes).expect("written");
    for option in ["-d", "-t"] {
        let (status, error) = fails(lrz().arg(option).arg(&archive));
        assert_eq!(status, 1);
        assert!(error.contains("damaged archive"), "{error}");
        assert_eq!(names(directory.path()), ["a.lrz"]);
    }
    fs::write(&archive, &bytes[..middle]).expect("written");
    assert_eq!(fails(lrz().arg("-t").arg(&archive)).0, 1);
}

#[test]
fn bad_usage_and_unsupported_archives_exit_with_2() {
    let (directory, path) = directory_with("a.txt", b"some text");
    let cases: [(&[&str], &str); 6] = [
        (&["-d"], "does not end with .lrz"),
        (&["-t"], "LRZI"),
        (&["-z"], "ZPAQ"),
        (&["-L0"], "1..=9"),
        (&["-l", "-b"], "cannot be used"),
        (&["--recovery", "0%"], "0.1%"),
    ];
    for (options, expected) in cases {
        let (status, error) = fails(lrz().args(options).arg(&path));
        assert_eq!(status, 2, "{options:?}: {error}");
        assert!(error.contains(expected), "{options:?}: {error}");
    }
    for (minor, name) in
        [(4, "lrzip 0.4"), (5, "lrzip 0.5"), (8, "lrzip-next 0.8"), (7, "lrzip-next 0.7"), (99, "0.99")]
    {
        let mut magic = [0; 60];
        magic[..6].copy_from_slice(&[b'L', b'R', b'Z', b'I', 0, minor]);
        let old = directory.path().join("old.lrz");
        fs::write(&old, magic).expect("written");
        let (status, error) = fails(lrz().arg("-d").arg(&old));
        assert_eq!(status, 2);
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn round_trip_through_pipes() {
    let plain = text(4, 400_000);
    let (directory, path) = directory_with("a", &plain);
    let archive = directory.path().join("piped");
    let run = |options: &[&str], from: &Path, to: &Path| {
        let status = lrz()
            .args(options)
            .stdin(fs::File::open(from).expect("there"))
            .stdout(fs::File::create(to).expect("created"))
            .stderr(Stdio::null())
            .status();
        assert!(status.expect("started").success());
    };
    run(&["-l"], &path, &archive);
    run(&["-d"], &archive, &directory.path().join("back"));
    assert!(fs::read(directory.path().join("back")).expect("there") == plain);
}

#[test]
fn archive_is_verified_before_it_gets_its_name() {
    let (directory, path) = directory_with("file", &common::text(21, 3_000_000));
    let trace = directory.path().join("trace");
    let stages = |options: &[&str], from_pipe: bool| {
        let mut command = lrz();
        command.args(["-q", "-f", "-l", "--trace"]).arg(&trace).args(options);
        if from_pipe {
            let file = std::fs::File::open(&path).expect("there");
            succeed(command.stdin(file).arg("-o").arg(directory.path().join("piped.lrz")).arg("-"));
        } else {
            succeed(command.arg(&path));
        }
        let text = std::fs::read_to_string(&trace).expect("written");
        ["replay", "compare"].map(|stage| text.contains(&format!("\"cat\":\"{stage}\"")))
    };
    assert_eq!(stages(&[], false), [true, true]);
    assert_eq!(stages(&["--no-verify"], false), [false, false]);
    assert_eq!(stages(&["--no-verify", "--verify"], false), [true, true]);
    // A stream cannot be read again, so it is verified by its MD5.
    assert_eq!(stages(&[], true), [true, false]);
    // -D always verifies before it removes the input.
    assert_eq!(stages(&["--no-verify", "-D"], false), [true, true]);
    assert!(!path.exists());
}

#[test]
fn info_option_prints_text_and_json() {
    let (directory, path) = directory_with("a", &text(5, 300_000));
    succeed(lrz().args(["-q", "-b"]).arg(&path));
    let archive = directory.path().join("a.lrz");
    let output = succeed(lrz().args(["-i", "--format", "json"]).arg(&archive));
    let described: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(described["bytes"], 300_000);
    assert_eq!(described["format"], "0.6");
    assert_eq!(described["chunks"][0]["literals"][0]["backend"], "bzip2");
    let output = succeed(lrz().arg("-i").arg(&archive));
    assert!(String::from_utf8_lossy(&output.stdout).contains("300000 bytes"));
}

#[test]
fn parity_repairs_a_damaged_archive() {
    let plain = text(6, 3_000_000);
    let (directory, path) = directory_with("a", &plain);
    succeed(lrz().args(["-q", "-D", "-l", "--recovery", "10%"]).arg(&path));
    assert_eq!(names(directory.path()), ["a.lrz", "a.lrz.par"]);
    let archive = directory.path().join("a.lrz");
    let mut bytes = fs::read(&archive).expect("there");
    let from = bytes.len() / 3;
    let length = bytes.len() / 20;
    bytes[from..from + length].fill(0xEE);
    fs::write(&archive, bytes).expect("written");
    assert_eq!(fails(lrz().arg("-t").arg(&archive)).0, 1);
    succeed(lrz().args(["-q", "--repair"]).arg(&archive));
    succeed(lrz().args(["-q", "-d"]).arg(&archive));
    assert!(fs::read(&path).expect("there") == plain);
}

#[test]
fn removing_an_archive_removes_its_own_parity_only() {
    let (directory, path) = directory_with("a", &text(6, 300_000));
    let archive = directory.path().join("a.lrz");
    succeed(lrz().args(["-q", "-D", "-l", "--recovery", "10%"]).arg(&path));
    succeed(lrz().args(["-q", "-d", "-D"]).arg(&archive));
    assert_eq!(names(directory.path()), ["a"]);
    // Neither the parity of another archive nor an unrelated file with the parity's name is removed.
    succeed(lrz().args(["-q", "-l", "--recovery", "10%"]).arg(&path));
    for option in ["-g", "-b"] {
        succeed(lrz().args(["-q", "-f", option]).arg(&path));
        succeed(lrz().args(["-q", "-f", "-d", "-D"]).arg(&archive));
        assert_eq!(names(directory.path()), ["a", "a.lrz.par"]);
        fs::write(directory.path().join("a.lrz.par"), "no parity").expect("written");
    }
}

#[test]
fn terminating_signal_leaves_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    for (signal, named) in [("INT", false), ("INT", true), ("TERM", true), ("HUP", true)] {
        let mut command = lrz();
        command.args(["-q", "-l", "-o", "out.lrz"]).current_dir(directory.path()).stdin(Stdio::piped());
        if named {
            command.arg("--named-temporary");
        }
        let mut child = command.spawn().expect("started");
        // lrz has begun to pack and waits for the rest of its input.
        let mut pipe = child.stdin.take().expect("piped");
        pipe.write_all(&text(7, 24_000_000)).expect("it reads");
        assert_eq!(names(directory.path()).len(), usize::from(named), "a name before the end only if asked for");
        let kill = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().expect("kill");
        assert!(kill.success());
        assert!(!child.wait().expect("ended").success());
        assert_eq!(names(directory.path()), [""; 0], "{signal}, named: {named}");
    }
}

/// Runs lrz in a shell after `setup`, which limits its memory; returns its standard error.
fn limited(setup: &str, options: &[&str], file: &Path) -> String {
    let script = format!("set -e; {setup}; exec \"$@\"");
    let mut command = Command::new("sh");
    let output = succeed(command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_lrz")]).args(options).arg(file));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Back ends of the literal blocks of at least 64 bytes.
fn backends(archive: &Path) -> Vec<String> {
    let output = succeed(lrz().args(["-i", "--format", "json"]).arg(archive));
    let described: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let chunks = described["chunks"].as_array().expect("chunks").iter();
    let blocks = chunks.flat_map(|chunk| chunk["literals"].as_array().expect("blocks"));
    let long = blocks.filter(|block| block["plain"].as_u64().expect("a length") >= 64);
    long.map(|block| block["backend"].as_str().expect("a name").to_owned()).collect()
}

const BACK_ENDS: [(&str, &str); 5] =
    [("--lzma", "lzma"), ("-b", "bzip2"), ("-g", "gzip"), ("-l", "lzo"), ("-n", "none")];

/// Packs and unpacks under a limit. Asserts that the requested back end was used, because stored blocks would unpack
/// correctly as well.
fn round_trip(setup: &str, option: &str, backend: &str, path: &Path, plain: &[u8]) {
    let archive = path.with_extension("lrz");
    limited(setup, &["-q", "-f", "-o", archive.to_str().expect("a name"), option], path);
    fs::remove_file(path).expect("removed");
    assert!(backends(&archive).iter().all(|used| used == backend), "{setup}: {:?}", backends(&archive));
    limited(setup, &["-q", "-d", "-o", path.to_str().expect("a name")], &archive);
    assert!(fs::read(path).expect("there") == plain, "{setup} {backend}");
}

#[test]
fn round_trip_under_address_space_limits() {
    let plain = text(8, 5_000_000);
    let (_directory, path) = directory_with("a", &plain);
    for (option, backend) in BACK_ENDS {
        for megabytes in [128, 192, 400] {
            round_trip(&format!("ulimit -v {}", megabytes << 10), option, backend, &path, &plain);
        }
    }
    // The limit is taken into account, rather than only discovered by failing allocations.
    let stderr = limited("ulimit -v 131072", &["-v", "-f", "-l"], &path);
    assert!(stderr.contains("set by ulimit -v"), "{stderr}");
}

#[test]
fn round_trip_with_100_mb_of_memory() {
    let plain = text(8, 5_000_000);
    let (_directory, path) = directory_with("a", &plain);
    let archive = path.with_extension("lrz");
    for (option, backend) in BACK_ENDS {
        succeed(lrz().args(["-q", "-f", "-m1", option, "-o"]).arg(&archive).arg(&path));
        assert!(backends(&archive).iter().all(|used| used == backend));
        succeed(lrz().args(["-q", "-m1", "-t"]).arg(&archive));
    }
}

/// Creates a cgroup (v2 or v1) with a memory limit; `None` if that is not permitted.
fn cgroup(bytes: u64) -> Option<std::path::PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let name = format!("lrz-test-{}", std::process::id());
    for line in groups.lines() {
        let (_, rest) = line.split_once(':')?;
        let (controllers, own) = rest.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        for above in [own.trim_start_matches('/'), ""] {
            let directory = Path::new(root).join(above).join(&name);
            if fs::create_dir(&directory).is_ok() {
                if fs::write(directory.join(file), bytes.to_string()).is_ok() {
                    return Some(directory);
                }
                let _ = fs::remove_dir(&directory);
            }
        }
    }
    None
}

#[test]
fn round_trip_under_a_cgroup_memory_limit() {
    let Some(group) = cgroup(128 << 20) else {
        skip::skip("no cgroup with a limit on memory can be made here (that needs root)");
        return;
    };
    let plain = text(9, 5_000_000);
    let (_directory, path) = directory_with("a", &plain);
    let enter = format!("echo $$ > {}/cgroup.procs", group.display());
    let stderr = Command::new("sh")
        .args(["-c", &format!("{enter}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_lrz"), "-v", "-f", "-l"])
        .arg(&path)
        .output()
        .expect("started");
    let stderr = String::from_utf8_lossy(&stderr.stderr).into_owned();
    for (option, backend) in BACK_ENDS {
        round_trip(&enter, option, backend, &path, &plain);
    }
    // All processes have left, so the cgroup can be removed.
    fs::remove_dir(&group).expect("empty");
    assert!(stderr.contains("set by the limit of the cgroup"), "{stderr}");
}

#[test]
fn man_page_and_completions_list_every_option() {
    let printed = |options: &[&str]| String::from_utf8(succeed(lrz().args(options)).stdout).expect("text");
    let help = printed(&["--help"]);
    assert!(help.contains("Examples:"));
    assert!(help.lines().all(|line| line.chars().count() <= 80));
    // Options in the help text: lines that begin with an option.
    let options: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  ").or(line.strip_prefix("      ")).map(str::trim_start))
        .filter(|line| line.starts_with('-'))
        .filter_map(|line| line.split([' ', ',', '=', '[', '.']).find(|word| word.starts_with("--")))
        .collect();
    assert!(options.len() > 35, "{options:?}");
    for needed in ["--decompress", "--lzma", "--window", "--recovery", "--trace", "--encrypt", "--version"] {
        assert!(options.contains(&needed), "{needed}");
    }
    // roff escapes hyphens.
    let page = printed(&["--man"]).replace("\\-", "-");
    assert!(page.contains(".TH lrz"));
    for shell in ["bash", "zsh", "fish"] {
        let completions = printed(&["--completions", shell]);
        for option in &options {
            let name = if shell == "fish" { option.trim_start_matches('-') } else { option };
            assert!(completions.contains(name), "{shell}: {option}");
        }
    }
    for option in options {
        assert!(page.contains(option), "the manual page: {option}");
    }
}
