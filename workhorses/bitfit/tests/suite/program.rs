// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the command: output, errors, exit status.

use crate::common::gfs2_image;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use gfs2_image::{Image, Plan, put};

fn bitfit(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bitfit")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Creates a file in the build's temporary directory.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Two groups: one used except for free runs of 1, 2 and 8 blocks; one free except for two inodes.
fn image() -> Image {
    let mut first = vec![0x55; 8];
    first[3] = 0x54;
    first[4] = 0x50;
    first.extend([0, 0, 0x55, 0x55]);
    let mut second = vec![0; 40];
    second[20] = 0x0f;
    Image::new(&Plan { block_bytes: 512, maps: vec![first, second], hashed: true })
}

#[test]
fn gfs2_prints_groups_runs_and_picture() {
    let path = file("good.img", &image().bytes);
    let (status, text, errors) = bitfit(&["gfs2", path.to_str().unwrap()]);
    assert_eq!((status, &*errors), (0, ""));
    assert_eq!(
        text,
        "\
GFS2 format 1802, 339 blocks of 512 bytes, lock_nolock \"a:b?\"

group       block   blocks     free     used unlinked  dinode free runs  longest
    0         129       48       11       34        0       3         3        8
    1         178      160      158        0        0       2         2       80
  all                  208      169       34        0       5         5       80

  length of free run       runs       blocks
                   1          1            1 #
                 2-3          1            2 #
                 4-7          0            0
                8-15          1            8 ##
               16-31          0            0
               32-63          0            0
              64-127          2          158 ##############################

Each block of the volume; upper row: share in use
(. none, 1-7 eighths, # all), lower row: number of free runs that start there
(. none, 1 one, 2 two or three, 3 four to seven, ...)
            0 |                                                                |
              |                                                                |
           64 |                                                                |
              |                                                                |
          128 |  ############.###..##############........######## .............|
              |  ............1...1...............1............... 1............|
          192 |................................................................|
              |................................................................|
          256 |...##...........................................................|
              |.....1..........................................................|
          320 |...................|
              |...................|

maps, counters and checksums of 2 groups agree
"
    );
}

#[test]
fn gfs2_prints_mismatches_as_text_and_json() {
    let mut image = image();
    put(&mut image.bytes, image.groups[1] * 512 + 28, 4, 9);
    let path = file("bad.img", &image.bytes);
    let (status, text, _) = bitfit(&["gfs2", path.to_str().unwrap()]);
    assert_eq!(status, 1);
    assert!(text.contains("\n    ! block 178: free blocks: the map has 158, the header has 9\n"), "{text}");
    assert!(text.ends_with("\n2 mismatches\n"), "{text}");
    let (status, json, _) = bitfit(&["gfs2", "--format", "json", path.to_str().unwrap()]);
    assert_eq!(status, 1);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["groups"][0]["states"], serde_json::json!({"free": 11, "used": 34, "unlinked": 0, "dinode": 3}));
    assert_eq!(json["groups"][1]["mismatches"][1]["field"], "free blocks");
    assert_eq!(json["groups"][1]["mismatches"][1]["found"], 9);
    assert_eq!((&json["mismatch_count"], &json["block_bytes"]), (&2.into(), &512.into()));
    assert_eq!(json["free_runs"][0], serde_json::json!({"shortest": 1, "longest": 1, "runs": 1, "blocks": 1}));
    assert_eq!(json["picture"]["cells"].as_array().unwrap().len(), 339);
}

#[test]
fn unreadable_image_gives_one_line_and_status_2() {
    let short = file("short.img", b"GFS2");
    let other = file("other.img", &[1; 70_000]);
    let nowhere = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("nowhere.img");
    for (path, expected) in [
        (&short, "not a GFS2 image: expected at least 66048 bytes, found 4"),
        (&other, "not a GFS2 image: at byte 65536 expected 0x01161970, found 0x01010101"),
        (&nowhere, "No such file or directory (os error 2)"),
        (
            &PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            "not a GFS2 image: expected a file or block device, found a directory",
        ),
    ] {
        let (status, text, errors) = bitfit(&["gfs2", path.to_str().unwrap()]);
        assert_eq!((status, &*text), (2, ""));
        assert_eq!(errors, format!("bitfit: {}: {expected}\n", path.display()));
    }
    assert_eq!(bitfit(&["gfs2"]).0, 2);
}

#[test]
fn replay_is_deterministic_and_lists_every_search() {
    let arguments = ["replay", "--volume-mib", "128", "--group-mib", "32", "--rounds", "1", "--format", "json"];
    let play = || serde_json::from_str::<serde_json::Value>(&bitfit(&arguments).1).unwrap();
    let (first, second) = (play(), play());
    assert!(first["blocks_taken"].as_u64().unwrap() > 5_000, "{first}");
    for count in ["blocks_taken", "blocks_freed", "groups_looked_at", "blocks_passed"] {
        assert_eq!(first[count], second[count]);
    }
    let names: Vec<_> =
        first["searches"].as_array().unwrap().iter().map(|search| search["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["#1", "#2", "#3", "#4", "#5", "#6", "2009", "flat", "summary"]);
    let (status, text, errors) = bitfit(&arguments[..7]);
    assert_eq!((status, &*errors), (0, ""), "no progress output without a terminal");
    assert!(
        text.starts_with("mp3, seed 446085, 90 % full at most\n4 groups of 32 MiB, blocks of 4096 bytes\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 17, "{text}");
}

#[test]
fn replay_rejects_invalid_sizes() {
    for (arguments, expected) in [
        (["--block-bytes", "1000"], "--block-bytes: expected a power of two from 512 to 65536, found 1000"),
        (["--volume-mib", "511"], "--volume-mib: expected a volume of at least two groups of 256 MiB, found 511 MiB"),
        (["--volume-mib", "16777216"], "--volume-mib: expected less than 2^32 blocks, found 4294967296"),
        (
            ["--group-mib=1", "--volume-mib=2"],
            "--volume-mib, --full: expected room for a file, found none in 90 % of 2 MiB",
        ),
    ] {
        let (status, text, errors) = bitfit(&[&["replay"], &arguments[..]].concat());
        assert_eq!((status, &*text, &*errors), (2, "", &*format!("bitfit: {expected}\n")));
    }
}

#[test]
fn replay_never_exceeds_the_free_blocks() {
    for (work, volume_mib, block_bytes) in
        [("grow", "3", "65536"), ("grow", "3", "512"), ("mp3", "60", "65536"), ("mp3", "60", "512")]
    {
        let shape = ["replay", "--rounds=1", "--full=99", "--group-mib=1", "--volume-mib", volume_mib];
        let (status, _, errors) = bitfit(&[&shape[..], &["--workload", work, "--block-bytes", block_bytes]].concat());
        assert_eq!((status, &*errors), (0, ""), "{work} {volume_mib} {block_bytes}");
    }
}

#[test]
fn bench_measures_and_plots_all_searches() {
    let plot = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench.svg");
    let quick = ["bench", "--rounds", "1", "--max-mib", "1", "--format", "json", "--plot"];
    let (status, json, errors) = bitfit(&[&quick[..], &[plot.to_str().unwrap()]].concat());
    assert_eq!((status, &*errors), (0, ""));
    assert!(json.ends_with("]\n"), "the last line is a whole one");
    let races: serde_json::Value = serde_json::from_str(&json).unwrap();
    let race = races.as_array().unwrap().iter().find(|race| race["what"] == "sizes").unwrap();
    let names: Vec<_> = race["results"].as_array().unwrap().iter().map(|time| time["name"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["#1", "#2", "#3", "#4", "#5", "#6", "2009", "portable"]), "{names:?}");
    let svg = fs::read_to_string(&plot).unwrap();
    for text in
        ["Maps of all sizes, one block in 85 is metadata", "256 KiB", "GB/s of map searched", "2009", "plain read"]
    {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("fragmentation"), "a 50 MiB map exceeds --max-mib");
    for mib in ["0", "1025", "18446744073709551615"] {
        let (status, text, errors) = bitfit(&["bench", "--max-mib", mib]);
        assert_eq!((status, &*text), (2, ""));
        assert!(errors.contains("is not in 1..=1024") || errors.contains("invalid value"), "{errors}");
    }
    let (status, text, errors) = bitfit(&[&quick[..5], &["--plot", "/nowhere/bench.svg"]].concat());
    assert_eq!((status, &*text), (2, ""));
    assert!(
        errors.starts_with("bitfit: /nowhere/bench.svg: cannot write the plot: ") && errors.lines().count() == 1,
        "{errors}"
    );
}
