// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lrzip writes is read here, and what is written here is read by lrzip.

mod common;

use common::{corpora, lrz, lrzip, lrzip_is_there, succeed};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

const OURS: [&str; 5] = ["--lzma", "-b", "-g", "-l", "-n"];
const THEIRS: [&str; 6] = ["--lzma", "-b", "-g", "-l", "-n", "-z"];

/// Pipes a file through a command into another one.
fn pipe(command: &mut Command, from: &Path, to: &Path) {
    let (input, output) = (File::open(from).expect("there"), File::create(to).expect("created"));
    let child = command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn().expect("started");
    let told = child.wait_with_output().expect("ended");
    assert!(told.status.success(), "{command:?}: {}, {}", told.status, String::from_utf8_lossy(&told.stderr));
}

/// One direction: `pack` a file with some options, read it with the other program; both by names and through pipes.
fn exchange(folder: &Path, name: &str, plain: &[u8], options: &[&str], ours_packs: bool, pipes: bool) {
    let (input, archive, output) = (folder.join("in"), folder.join("in.lrz"), folder.join("out"));
    fs::write(&input, plain).expect("written");
    let (mut pack, mut unpack) = if ours_packs { (lrz(), lrzip()) } else { (lrzip(), lrz()) };
    if ours_packs {
        pack.args(["-q", "-f", "-p2"])
    } else {
        unpack.args(["-q", "-f"])
    };
    pack.args(options);
    unpack.arg("-d");
    // Passwords are given to both sides.
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
fn a_small_matrix_goes_both_ways() {
    if !lrzip_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, plain) in corpora(150_000) {
        // lrzip takes its time to start: one back end for each kind of file, all of them for some.
        let all = matches!(name, "empty" | "short" | "copies");
        for backend in &OURS[..if all { OURS.len() } else { 1 }] {
            exchange(folder.path(), name, &plain, &[backend, "-L3"], true, name == "text");
        }
        if name == "copies" {
            for backend in THEIRS {
                exchange(folder.path(), name, &plain, &[backend], false, false);
            }
        }
    }
}

#[test]
#[ignore = "hundreds of runs of both programs"]
fn the_whole_matrix_goes_both_ways() {
    if !lrzip_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut cases = 0;
    for (name, plain) in corpora(3_000_000) {
        for pipes in [false, true] {
            for level in ["-L1", "-L7", "-L9"] {
                for backend in OURS {
                    exchange(folder.path(), name, &plain, &[backend, level], true, pipes);
                    cases += 1;
                }
                for backend in THEIRS.iter().filter(|backend| **backend != "-z" || level == "-L1") {
                    exchange(folder.path(), name, &plain, &[backend, level], false, pipes);
                    cases += 1;
                }
            }
            for more in [["-T", "-U"], ["-m3", "-p1"], ["-w1", "-p3"]] {
                for backend in OURS {
                    exchange(folder.path(), name, &plain, &[backend, more[0], more[1]], true, pipes);
                    exchange(folder.path(), name, &plain, &[backend, more[0], more[1]], false, pipes);
                    cases += 2;
                }
            }
        }
    }
    assert!(cases > 600, "{cases}");
}

#[test]
#[ignore = "keys are made to take seconds"]
fn encrypted_archives_go_both_ways() {
    if !lrzip_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, plain) in corpora(100_000) {
        for backend in ["--lzma", "-n"] {
            for ours in [true, false] {
                exchange(folder.path(), name, &plain, &[backend, "--encrypt=secret"], ours, false);
            }
        }
    }
}

#[test]
#[ignore = "half a gigabyte"]
fn several_chunks_go_both_ways() {
    if !lrzip_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let part = common::text(9, 90_000_000);
    let plain = [&part[..], &common::noise(9, 50_000_000), &part, &part[1..]].concat();
    for backend in ["-l", "-n", "-g"] {
        for ours in [true, false] {
            exchange(folder.path(), "large", &plain, &[backend, "-w1"], ours, false);
            exchange(folder.path(), "large", &plain, &[backend, "-w1"], ours, true);
        }
    }
}
