// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers shared by the integration tests.

use std::path::Path;
use std::process::{Command, Output};

/// Generates lines of a few words, with copies of much earlier text.
pub fn text(seed: u64, length: usize) -> Vec<u8> {
    const WORDS: [&str; 10] = ["lock", "unlock", "return", "error", "struct", "page", "inode", "if", "size", "static"];
    let mut state = seed | 1;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut bytes: Vec<u8> = Vec::with_capacity(length + 8000);
    while bytes.len() < length {
        if bytes.len() > 9000 && random(150) == 0 {
            let from = random(bytes.len() - 8000);
            bytes.extend_from_within(from..from + random(8000));
        }
        for _ in 0..random(9) {
            bytes.extend_from_slice(WORDS[random(10)].as_bytes());
            bytes.push(b' ');
        }
        bytes.extend_from_slice(format!("{:x}\n", random(1 << 24)).as_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Pseudo-random bytes.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Test files of various kinds, by name; `scale` is the length of the larger ones in bytes.
pub fn corpora(scale: usize) -> Vec<(&'static str, Vec<u8>)> {
    let copy = text(3, scale / 2);
    vec![
        ("empty", Vec::new()),
        ("one", b"x".to_vec()),
        ("short", b"hello, world\n".to_vec()),
        ("page", text(1, 4096)),
        ("text", text(2, scale)),
        ("noise", noise(1, scale)),
        ("zeros", vec![0; scale * 3]),
        ("copies", [&copy[..], &noise(2, scale / 3), &copy, &copy[7..]].concat()),
        ("period", (0..scale).map(|k| (k % 37) as u8).collect()),
        ("mixed", [noise(3, scale / 2), text(4, scale / 2), vec![255; scale / 2]].concat()),
    ]
}

/// Command that runs the lrz binary under test.
pub fn lrz() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lrz"))
}

/// Runs a command and asserts success.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns whether lrzip is installed; if not, prints that the test is skipped.
pub fn lrzip_is_installed() -> bool {
    let there = Command::new("lrzip").arg("-V").output().is_ok();
    if !there {
        skip::skip("lrzip is not installed");
    }
    there
}

/// Command that runs lrzip without the user's configuration.
pub fn lrzip() -> Command {
    let mut command = Command::new("lrzip");
    command.env("LRZIP", "NOCONFIG").args(["-q", "-f", "-N0"]);
    command
}

/// Sorted file names in a directory.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
