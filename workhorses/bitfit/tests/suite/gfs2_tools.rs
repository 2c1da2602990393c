// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison with Debian's gfs2-utils: images of `mkfs.gfs2` are consistent, and damage done by `gfs2_edit` is
//! reported whenever `fsck.gfs2 -n` reports it. Skipped, with a message, if the tools are missing.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Temporary directory, removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("bitfit-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool with a timeout of five minutes: `gfs2_edit` opens an editor if it does not understand its arguments.
fn tool(name: &str, arguments: &[&str]) -> Output {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.arg("300").arg(name).args(arguments).env("PATH", path).stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn tools_are_missing() -> bool {
    let missing =
        ["mkfs.gfs2", "fsck.gfs2", "gfs2_edit"].into_iter().find(|name| !tool(name, &["-V"]).status.success());
    if let Some(name) = missing {
        skip::skip(format_args!("{name} is missing (it is in the package gfs2-utils)"));
    }
    missing.is_some()
}

fn bitfit(image: &Path, format: &str) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_bitfit")).args(["gfs2", "--format", format]).arg(image).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn make(image: &Path, mib: u64, options: &[&str]) {
    File::create(image).unwrap().set_len(mib << 20).unwrap();
    let fixed = ["-O", "-p", "lock_nolock", "-j", "1", "-J", "8"];
    let output = tool("mkfs.gfs2", &[&fixed, options, &[image.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Values of the field `name` in the output of `gfs2_edit`, in order.
fn printed(image: &Path, what: &str, name: &str) -> Vec<u64> {
    let output = tool("gfs2_edit", &["-p", what, image.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |line: &str| line.trim().strip_prefix(name)?.split_whitespace().next()?.parse().ok();
    text.lines().filter_map(value).collect()
}

#[test]
fn mkfs_images_are_consistent_and_match_gfs2_edit() {
    if tools_are_missing() {
        return;
    }
    let directory = Directory::new("mkfs");
    let image = directory.path("image");
    for (mib, options) in [
        (64, &["-b", "512"][..]),
        (256, &["-b", "1024"]),
        (256, &["-b", "2048"]),
        (256, &["-b", "4096"]),
        (600, &["-b", "1024", "-r", "32"]),
        (600, &["-b", "2048", "-r", "64"]),
        (600, &["-b", "4096", "-r", "32"]),
        (5000, &["-b", "4096", "-r", "256"]),
        (5000, &["-b", "4096", "-r", "2048"]),
    ] {
        make(&image, mib, options);
        let (status, text, errors) = bitfit(&image, "text");
        assert_eq!((status, &*errors), (0, ""), "{options:?}: {text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{options:?}: {text}");
        let (_, json, _) = bitfit(&image, "json");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["mismatch_count"], 0, "{options:?}");
        let groups = json["groups"].as_array().unwrap();
        for (field, pointer) in [
            ("rg_free", "/states/free"),
            ("rg_dinodes", "/states/dinode"),
            ("rg_data ", "/blocks"),
            ("rg_bitbytes", "/map_bytes"),
            ("rg_skip", "/header/skip"),
        ] {
            let ours: Vec<u64> = groups.iter().map(|group| group.pointer(pointer).unwrap().as_u64().unwrap()).collect();
            assert_eq!(ours, printed(&image, "rgs", field), "{options:?} {field}");
        }
        let starts: Vec<u64> = groups.iter().map(|group| group["block"].as_u64().unwrap()).collect();
        assert_eq!(starts, printed(&image, "rindex", "ri_addr"), "{options:?}");
        assert_eq!([json["states"]["free"].as_u64().unwrap()][..], printed(&image, "statfs", "sc_free"), "{options:?}");
    }
}

/// Modification of an image: a `gfs2_edit` command, or overwritten bytes.
enum Damage {
    Edit(&'static [&'static str]),
    Bytes(u64, &'static [u8]),
}

#[test]
fn damage_reported_by_fsck_is_reported() {
    if tools_are_missing() {
        return;
    }
    let directory = Directory::new("damage");
    let (good, bad) = (directory.path("good"), directory.path("bad"));
    make(&good, 256, &["-b", "1024"]);
    let group = printed(&good, "rindex", "ri_addr")[1];
    assert_eq!(group, 8328, "the blocks named below are those of such an image");
    // Free blocks, a data block, the index, then header fields, then bytes without a name in gfs2_edit.
    let damages = [
        Damage::Edit(&["-p", "20000", "blockalloc", "1"]),
        Damage::Edit(&["-p", "20000", "blockalloc", "2"]),
        Damage::Edit(&["-p", "20000", "blockalloc", "3"]),
        Damage::Edit(&["-p", "262000", "blockalloc", "1"]),
        Damage::Edit(&["-p", "8400", "blockalloc", "0"]),
        Damage::Edit(&["-p", "9432", "blockalloc", "1"]),
        Damage::Edit(&["-p", "8328", "field", "rg_free", "7"]),
        Damage::Edit(&["-p", "8328", "field", "rg_dinodes", "7"]),
        Damage::Edit(&["-p", "8328", "field", "rg_crc", "7"]),
        Damage::Edit(&["-p", "65", "field", "rg_skip", "7"]),
        Damage::Edit(&["-p", "65", "field", "rg_data0", "7"]),
        Damage::Edit(&["-p", "9432", "field", "di_size", "100"]),
        Damage::Edit(&["-p", "64", "field", "sb_bsize", "4096"]),
        Damage::Bytes(8328 * 1024 + 7, &[1]),
        Damage::Bytes(8330 * 1024, &[2]),
        Damage::Bytes(8330 * 1024 + 500, &[1]),
        Damage::Bytes(9432 * 1024 + 232 + 96 + 7, &[9]),
        Damage::Bytes(9432 * 1024 + 232 + 96 + 30, &[1]),
        Damage::Bytes(9431 * 1024 + 232 + 7, &[1]),
    ];
    for (number, damage) in damages.iter().enumerate() {
        copy(&good, &bad);
        let file = File::options().write(true).open(&bad).unwrap();
        match damage {
            Damage::Edit(arguments) => {
                let output = tool("gfs2_edit", &[arguments, &[bad.to_str().unwrap()][..]].concat());
                assert!(output.status.success(), "{arguments:?}");
            }
            Damage::Bytes(at, bytes) => file.write_all_at(bytes, *at).unwrap(),
        }
        // fsck.gfs2 3.5.0 aborts on invalid headers, so any nonzero status counts as a report.
        let fsck = tool("fsck.gfs2", &["-n", bad.to_str().unwrap()]).status;
        let (status, text, errors) = bitfit(&bad, "text");
        assert!(!fsck.success(), "damage {number} is none for fsck.gfs2");
        assert_eq!((status, &*errors), (1, ""), "damage {number}: {text}");
        assert!(text.contains("\n    ! block "), "damage {number}: {text}");
    }
}

/// Copies an image as a sparse file.
fn copy(from: &Path, to: &Path) {
    let output = Command::new("cp").arg("--sparse=always").args([from, to]).output().unwrap();
    assert!(output.status.success());
}
