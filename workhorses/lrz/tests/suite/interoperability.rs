// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interoperability with lrzip in both directions.

use crate::common;

use common::{corpora, lrz, lrzip, lrzip_is_installed, succeed};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

const OURS: [&str; 5] = ["--lzma", "-b", "-g", "-l", "-n"];
const THEIRS: [&str; 6] = ["--lzma", "-b", "-g", "-l", "-n", "-z"];

/// Runs a command with its standard input and output redirected to files.
fn pipe(command: &mut Command, from: &Path, to: &Path) {
    let (input, output) = (File::open(from).expect("there"), File::create(to).expect("created"));
    let child = command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn().expect("started");
    let finished = child.wait_with_output().expect("ended");
    assert!(
        finished.status.success(),
        "{command:?}: {}, {}",
        finished.status,
        String::from_utf8_lossy(&finished.stderr)
    );
}

/// Packs a file with one program and unpacks it with the other, with file names or through pipes.
fn exchange(directory: &Path, name: &str, plain: &[u8], options: &[&str], ours_packs: bool, pipes: bool) {
    let (input, archive, output) = (directory.join("in"), directory.join("in.lrz"), directory.join("out"));
    fs::write(&input, plain).expect("written");
    let (mut pack, mut unpack) = if ours_packs { (lrz(), lrzip()) } else { (lrzip(), lrz()) };
    if ours_packs {
        pack.args(["-q", "-f", "-p2"])
    } else {
        unpack.args(["-q", "-f"])
    };
    pack.args(options);
    unpack.arg("-d");
    // Both programs get the password.
    unpack.args(options.iter().filter(|option| option.starts_with("--encrypt")));
    if pipes {
        pipe(&mut pack, &input, &archive);
        pipe(&mut unpack, &archive, &output);
    } else {
        succeed(pack.arg("-o").arg(&archive).arg(&input));
        succeed(unpack.arg("-o").arg(&output).arg(&archive));
    }
    let back = fs::read(&output).expect("there");
    assert!(back == plain, "{name} {options:?}, packed by us: {ours_packs}, pipes: {pipes}");
    for file in [archive, output] {
        fs::remove_file(file).expect("removed");
    }
}

#[test]
fn lrzip_interoperates_on_a_small_matrix() {
    if !lrzip_is_installed() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for (name, plain) in corpora(150_000) {
        // lrzip starts slowly, so most kinds of file are tested with one back end only.
        let all = matches!(name, "empty" | "short" | "copies");
        for backend in &OURS[..if all { OURS.len() } else { 1 }] {
            exchange(directory.path(), name, &plain, &[backend, "-L3"], true, name == "text");
        }
        if name == "copies" {
            for backend in THEIRS {
                exchange(directory.path(), name, &plain, &[backend], false, false);
            }
        }
    }
}

#[test]
#[ignore = "hundreds of runs of both programs"]
fn lrzip_interoperates_on_the_full_matrix() {
    if !lrzip_is_installed() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut cases = 0;
    for (name, plain) in corpora(3_000_000) {
        for pipes in [false, true] {
            for level in ["-L1", "-L7", "-L9"] {
                for backend in OURS {
                    exchange(directory.path(), name, &plain, &[backend, level], true, pipes);
                    cases += 1;
                }
                for backend in THEIRS.iter().filter(|backend| **backend != "-z" || level == "-L1") {
                    exchange(directory.path(), name, &plain, &[backend, level], false, pipes);
                    cases += 1;
                }
            }
            for more in [["-T", "-U"], ["-m3", "-p1"], ["-w1", "-p3"]] {
                for backend in OURS {
                    exchange(directory.path(), name, &plain, &[backend, more[0], more[1]], true, pipes);
                    exchange(directory.path(), name, &plain, &[backend, more[0], more[1]], false, pipes);
                    cases += 2;
                }
            }
        }
    }
    assert!(cases > 600, "{cases}");
}

#[test]
#[ignore = "key derivation takes seconds"]
fn lrzip_interoperates_on_encrypted_archives() {
    if !lrzip_is_installed() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for (name, plain) in corpora(100_000) {
        for backend in ["--lzma", "-n"] {
            for ours in [true, false] {
                exchange(directory.path(), name, &plain, &[backend, "--encrypt=secret"], ours, false);
            }
        }
    }
}

#[test]
#[ignore = "half a gigabyte"]
fn lrzip_interoperates_on_several_chunks() {
    if !lrzip_is_installed() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let part = common::text(9, 90_000_000);
    let plain = [&part[..], &common::noise(9, 50_000_000), &part, &part[1..]].concat();
    for backend in ["-l", "-n", "-g"] {
        for ours in [true, false] {
            exchange(directory.path(), "large", &plain, &[backend, "-w1"], ours, false);
            exchange(directory.path(), "large", &plain, &[backend, "-w1"], ours, true);
        }
    }
}
