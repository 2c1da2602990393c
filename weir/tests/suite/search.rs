// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep --minimize`: the best setting of a scheduler, what cannot be told apart from it, and resumption.

use crate::sweep::{command, good};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The player's tasks wait for less time the shorter the slices of the compilers are.
const PLAYER: &str = r#"
[axes]
scheduler = ["kernel", "bfs,rr_interval_ms={20,6,4,2,1}"]
machine = "laptop-2c4t"
workload = "video"
seed = "1-16"
[options]
for = "200ms"
"#;
/// One task on two CPUs has no use for slices.
const ALONE: &str = r#"
[axes]
scheduler = "bfs,rr_interval_ms={2,6,20}"
machine = "pu:2"
workload = "./load.json"
seed = "1-12"
[options]
for = "20ms"
"#;
const MEAN: &str = "wakeup_latency_ns.mean";

fn workspace(campaign: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let load = r#"{"global": {"duration": 1}, "tasks": {"a": {"run": 900, "sleep": 300}}}"#;
    fs::write(directory.path().join("load.json"), load).unwrap();
    fs::write(directory.path().join("c.toml"), campaign).unwrap();
    directory
}

/// The only search of a command line.
fn search(directory: &Path, line: &str) -> Value {
    let text = good(directory, &format!("{line} --format json"));
    let mut document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["searches"].as_array().map(Vec::len), Some(1), "{text}");
    document["searches"][0].take()
}

/// What became of a scheduler.
fn fate<'a>(search: &'a Value, scheduler: &str) -> &'a str {
    let all = search["candidates"].as_array().unwrap();
    let it = all.iter().find(|it| it["scheduler"] == scheduler).unwrap_or_else(|| panic!("no {scheduler}: {search}"));
    it["fate"].as_str().unwrap()
}

#[test]
fn shortest_slices_minimize_the_wakeup_latency_of_a_player() {
    let directory = workspace(PLAYER);
    let found = search(directory.path(), &format!("sweep c.toml --out out --minimize {MEAN}"));
    assert_eq!(found["first"], "bfs,rr_interval_ms=1", "{found}");
    assert_eq!((fate(&found, "bfs,rr_interval_ms=2"), fate(&found, "bfs,rr_interval_ms=4")), ("worse", "worse"));
    // Eight seeds tell none of six apart, so the first round removes by rank, and what it removes is no evidence.
    assert_eq!((fate(&found, "bfs,rr_interval_ms=20"), found["found"].as_str()), ("rank", Some("leads")));
    assert_eq!((&found["runs"], &found["runs_of_all"]), (&80.into(), &96.into()));
    let all = search(directory.path(), &format!("sweep c.toml --out out --minimize {MEAN} --finalists 6"));
    assert_eq!(
        (&all["runs"], fate(&all, "kernel"), all["found"].as_str()),
        (&96.into(), "worse", Some("best")),
        "{all}"
    );
    let most = search(directory.path(), &format!("sweep c.toml --out out --maximize {MEAN} --finalists 6"));
    assert_eq!(most["first"], "bfs,rr_interval_ms=20", "{most}");
}

#[test]
fn setting_without_effect_is_a_tie() {
    let directory = workspace(ALONE);
    let found = search(directory.path(), &format!("sweep c.toml --out out --minimize {MEAN}"));
    assert_eq!((found["found"].as_str(), found["tied"].as_array().map(Vec::len)), (Some("tied"), Some(2)), "{found}");
    let text = good(directory.path(), &format!("sweep c.toml --out out --minimize {MEAN}"));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("is first, but cannot be told apart from bfs,rr_interval_ms="), "{text}");
    assert!(words.contains("The values of all their runs are equal.") && !text.contains('✗'), "{text}");
}

#[test]
fn text_fits_eighty_columns_and_each_combination_is_a_search() {
    let campaign = PLAYER.replace("1-16", "1-4").replace("\"laptop-2c4t\"", "[\"laptop-2c4t\", \"pu:2\"]");
    let directory = workspace(&campaign);
    let text = good(directory.path(), &format!("sweep c.toml --out out --minimize {MEAN}"));
    assert_eq!(text.matches("minimize wakeup_latency_ns.mean").count(), 2, "{text}");
    assert!(text.contains("4 seeds can tell none of 6 candidates apart: use"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// The decisions follow from the results, so a search that was killed ends like one that was not, with the same runs.
#[test]
fn killed_search_goes_on_to_the_same_answer() {
    let directory = workspace(PLAYER);
    let path = directory.path();
    let line = |out: &str| format!("sweep c.toml --out {out} --minimize {MEAN}");
    let expected = search(path, &line("whole"));
    let finished = |out: &str| {
        let text = good(path, &format!("sweep c.toml --out {out} --status --format json"));
        serde_json::from_str::<Value>(&text).unwrap()["sweep"]["finished"].as_u64().unwrap()
    };
    let lines = || {
        let segments = fs::read_dir(path.join("killed/results")).into_iter().flatten().flatten();
        let lines = |bytes: Vec<u8>| bytes.iter().filter(|byte| **byte == b'\n').count();
        segments.filter_map(|segment| fs::read(segment.path()).ok()).map(lines).sum::<usize>()
    };
    let mut amid = 0;
    for more in [10, 35, 55, 75] {
        let mut child = command(path, &line("killed")).spawn().unwrap();
        while lines() < more && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        amid += u64::from(finished("killed") < 80);
    }
    assert!(amid > 1, "{amid} of 4 kills came amid the search");
    assert_eq!(search(path, &line("killed")), expected);
    assert_eq!(finished("killed"), 80);
    let segments = || fs::read_dir(path.join("killed/results")).unwrap().count();
    let before = segments();
    assert_eq!((search(path, &line("killed")), segments()), (expected, before), "nothing is done again");
}

#[test]
fn searches_with_bad_options_are_refused() {
    let directory = workspace(PLAYER);
    let path = directory.path();
    let refused = |line: &str, message: &str| {
        let output = command(path, line).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && errors.contains(message), "{line}: {errors}");
    };
    refused("sweep c.toml --out out --minimize wakeup_latency_ns.men", "did you mean wakeup_latency_ns.mean?");
    for option in ["--maximize wakeups", "--shard 1/2", "--status", "--show", "--tables", "--tasks", "--report x.html"]
    {
        refused(&format!("sweep c.toml --out out --minimize wakeups {option}"), "cannot be used with");
    }
    refused("sweep c.toml --out out --finalists 2", "required arguments were not provided");
    refused("sweep c.toml --out out --minimize wakeups --on slurm", "expected --on local");
    refused("sweep c.toml --out out --minimize wakeups --format csv", "expected text or json");
    fs::write(path.join("c.toml"), PLAYER.to_owned() + "[[exclude]]\nscheduler = 'kernel'\nseed = '3'\n").unwrap();
    refused("sweep c.toml --out out --minimize wakeups", "kernel and bfs,rr_interval_ms=20 have different seeds");
    fs::write(path.join("c.toml"), PLAYER.replace("seed", "draws = 3\nseed")).unwrap();
    refused("sweep c.toml --out out --minimize wakeups", "expected a campaign without draws");
    assert!(!path.join("out").exists());
}

/// The task has no timer, so it is never late.
#[test]
fn measure_without_values_has_no_answer() {
    let directory = workspace(ALONE);
    let found = search(directory.path(), "sweep c.toml --out out --minimize late_ns.p50");
    assert_eq!((found["found"].as_str(), fate(&found, "bfs,rr_interval_ms=2")), (Some("nothing"), "failed"), "{found}");
}
