// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep`: whatever ends a campaign, and in whatever order its parts run, its tables are the same bytes.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A short load: a run of it takes some milliseconds.
const WORKLOAD: &str = r#"{"global": {"duration": 1}, "tasks": {"a": {"instance": 3, "run": 900, "sleep": 300}}}"#;
const CAMPAIGN: &str = r#"
[axes]
scheduler = ["kernel", "fifo", "bfs,rr_interval_ms={2,6}"]
machine = ["laptop-2c4t", "pu:2"]
workload = "./load.json"
seed = "1-SEEDS"
[options]
for = "20ms"
[[exclude]]
scheduler = "fifo"
machine = "pu:2"
"#;

pub fn command(directory: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(directory).args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn weir(directory: &Path, line: &str) -> Output {
    command(directory, line).output().unwrap()
}

/// Runs a command that succeeds. Returns its standard output.
pub fn good(directory: &Path, line: &str) -> String {
    let output = weir(directory, line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A directory with the campaign: 7 combinations for each seed.
pub fn workspace(seeds: u64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("load.json"), WORKLOAD).unwrap();
    fs::write(directory.path().join("c.toml"), CAMPAIGN.replace("SEEDS", &seeds.to_string())).unwrap();
    directory
}

pub fn tables(directory: &Path, out: &str) -> [Vec<u8>; 2] {
    ["runs.parquet", "histograms.parquet"].map(|name| fs::read(directory.join(out).join(name)).unwrap())
}

/// The tables of the campaign, done without interruption by one thread.
pub fn whole(directory: &Path) -> [Vec<u8>; 2] {
    good(directory, "sweep c.toml --out whole --jobs 1");
    tables(directory, "whole")
}

fn status(directory: &Path, out: &str) -> Value {
    let text = good(directory, &format!("sweep c.toml --out {out} --status --format json"));
    serde_json::from_str::<Value>(&text).unwrap()["sweep"].take()
}

/// Bytes of all segments.
fn kept(directory: &Path, out: &str) -> u64 {
    let entries = fs::read_dir(directory.join(out).join("results")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Waits until this many bytes of results are kept. Returns false if the process has ended before.
fn wait_for(child: &mut Child, directory: &Path, out: &str, bytes: u64) -> bool {
    while kept(directory, out) < bytes {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    true
}

/// Kills a campaign with SIGKILL `kills` times, each after a random number of further results, and resumes it.
fn killed_and_resumed(seeds: u64, kills: u64) {
    let directory = workspace(seeds);
    let path = directory.path();
    let expected = whole(path);
    let all = kept(path, "whole");
    let (mut random, mut partial) = (1u64, 0);
    for kill in 0..kills {
        // Marsaglia's xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let more = kept(path, "killed") + 1 + random % (all / kills);
        let mut child = command(path, "sweep c.toml --out killed").spawn().unwrap();
        let is_early = wait_for(&mut child, path, "killed", more);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_early || kill > kills / 2, "the campaign ended before {more} of {all} bytes");
        let finished = status(path, "killed")["finished"].as_u64().unwrap();
        partial += u64::from((1..7 * seeds).contains(&finished));
    }
    assert!(partial > kills / 2, "{partial} of {kills} kills left a part of the runs");
    let last = good(path, "sweep c.toml --out killed --format json");
    let last: Value = serde_json::from_str(&last).unwrap();
    assert!(last["sweep"]["finished_now"].as_u64().unwrap() < 7 * seeds, "the runs of before count: {last}");
    assert_eq!(tables(path, "killed"), expected);
}

#[test]
fn killed_campaign_resumes_to_the_same_tables() {
    killed_and_resumed(20, 8);
}

#[test]
#[ignore = "10,000 runs"]
fn killed_campaign_of_ten_thousand_runs_resumes_to_the_same_tables() {
    killed_and_resumed(1429, 20);
}

/// The line that a kill has cut off is done again, and nothing else.
#[test]
fn result_that_was_cut_off_is_done_again() {
    let directory = workspace(2);
    let path = directory.path();
    let expected = whole(path);
    let segment = fs::read_dir(path.join("whole/results")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 20]).unwrap();
    assert_eq!(
        (status(path, "whole")["finished"].as_u64(), status(path, "whole")["cut_off"].as_u64()),
        (Some(13), Some(1))
    );
    let again: Value = serde_json::from_str(&good(path, "sweep c.toml --out whole --format json")).unwrap();
    assert_eq!(again["sweep"]["finished_now"], 1);
    assert_eq!(tables(path, "whole"), expected);
}

#[test]
fn tables_do_not_depend_on_the_number_of_workers_or_the_order_of_shards() {
    let directory = workspace(6);
    let path = directory.path();
    let expected = whole(path);
    good(path, "sweep c.toml --out two --jobs 2");
    assert_eq!(tables(path, "two"), expected);
    for (place, shard) in [3, 1, 3, 4, 1].into_iter().enumerate() {
        good(path, &format!("sweep c.toml --out shards --shard {shard}/4"));
        assert!(!path.join("shards/runs.parquet").exists(), "tables of a part after {place}");
    }
    good(path, "sweep c.toml --out shards --shard 2/4");
    assert_eq!(tables(path, "shards"), expected);
    // Parts that shared no directory, two of them done twice.
    for (out, shard) in [("a", 4), ("b", 2), ("c", 1), ("d", 3), ("e", 2), ("f", 4)] {
        good(path, &format!("sweep c.toml --out {out} --shard {shard}/4"));
    }
    let all = "--import a --import b --import c --import d --import e --import f";
    let joined: Value =
        serde_json::from_str(&good(path, &format!("sweep c.toml --out joined {all} --format json"))).unwrap();
    assert_eq!((joined["sweep"]["finished"].as_u64(), joined["sweep"]["finished_now"].as_u64()), (Some(42), Some(0)));
    assert_eq!(tables(path, "joined"), expected);
}

#[test]
fn interrupted_campaign_keeps_its_finished_runs() {
    let directory = workspace(1000);
    let path = directory.path();
    let mut child = command(path, "sweep c.toml --out out --format json").spawn().unwrap();
    assert!(wait_for(&mut child, path, "out", 100_000));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(143), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finished = document["sweep"]["finished"].as_u64().unwrap();
    assert!((1..7000).contains(&finished), "{finished}");
    let grouped =
        if finished < 1000 { finished.to_string() } else { format!("{},{:03}", finished / 1000, finished % 1000) };
    let line = format!("interrupted: {grouped} of 7,000 runs finished; the same command does the others");
    assert!(errors.contains(&line), "{errors}");
    assert_eq!(document["sweep"]["tables"].as_array().unwrap().len(), 2);
    // What a thread finished after the signal counts, too.
    assert!(status(path, "out")["finished"].as_u64().unwrap() >= finished);
}

/// A sweep is a loop over `weir sim`: the same runs give the same rows.
#[test]
fn rows_are_those_of_weir_sim() {
    let directory = workspace(2);
    let path = directory.path();
    let missing = good(path, "sweep c.toml --out out --missing");
    let commands: Vec<&str> = missing.lines().collect();
    assert_eq!(commands.len(), 14);
    assert_eq!(commands[3], "weir sim fifo --machine laptop-2c4t --workload ./load.json --seed 2 --for 20ms");
    let rows = good(path, "sweep c.toml --out out --format csv");
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 15);
    for (command, row) in commands.iter().zip(&rows[1..]) {
        let one = good(path, &format!("{} --format csv", command.strip_prefix("weir ").unwrap()));
        // Tables name a workload as the campaign does.
        let row = row.replace(",./load.json,", ",load,");
        assert_eq!(one.lines().collect::<Vec<_>>(), [rows[0], &row], "{command}");
    }
    assert_eq!(good(path, "sweep c.toml --out out --missing"), "");
}

#[test]
fn change_of_an_input_makes_its_runs_missing() {
    let directory = workspace(2);
    let path = directory.path();
    whole(path);
    let campaign = fs::read_to_string(path.join("c.toml")).unwrap();
    let missing = || status(path, "whole")["missing"].as_u64().unwrap();
    let with = |from: &str, to: &str| fs::write(path.join("c.toml"), campaign.replace(from, to)).unwrap();
    assert_eq!(missing(), 0);
    with("for = \"20ms\"", "for = \"21ms\"");
    assert_eq!(missing(), 14);
    with("1-2", "2-4");
    assert_eq!((missing(), status(path, "whole")["others"].as_u64()), (14, Some(7)));
    with("{2,6}", "{6,7}");
    assert_eq!(missing(), 4);
    with("20ms\"", "20ms\"\nwithout = \"smt\"");
    // A machine without SMT is the same without it.
    assert_eq!(missing(), 8);
    with("", "");
    fs::write(path.join("load.json"), WORKLOAD.replace("900", "901")).unwrap();
    assert_eq!(missing(), 14);
}

#[test]
fn comparison_is_shown_along_an_axis() {
    let directory = workspace(8);
    let path = directory.path();
    whole(path);
    let text = good(path, "sweep c.toml --out whole --show machine");
    assert!(text.contains("== scheduler kernel ==") && text.contains("laptop-2c4t"), "{text}");
    let json: Value = serde_json::from_str(&good(path, "sweep c.toml --out whole --show --format json")).unwrap();
    let named: Vec<&str> =
        json["comparisons"].as_array().unwrap().iter().map(|it| it["b"]["scheduler"].as_str().unwrap()).collect();
    assert!(named.contains(&"fifo") && named.contains(&"bfs,rr_interval_ms=6"), "{named:?}");
    good(path, "sweep c.toml --out whole --status --report page.html");
    assert!(fs::read_to_string(path.join("page.html")).unwrap().contains("bfs,rr_interval_ms=2"));
}

#[test]
fn bad_campaigns_are_refused_with_their_line() {
    let directory = workspace(1);
    let path = directory.path();
    let cases = [
        ("[axes]\nscheduler = 'bfz'", "c.toml:2: no policy \"bfz\", did you mean bfs?"),
        ("[axes]\nscheduler = ['bfs',\n'bfs,x=1']", "c.toml:3: bfs: x=1: unknown tunable `x`"),
        ("[axes]\nscheduler = 'bfs'\nmachine = 'laptop'", "c.toml:3: "),
        ("[axes]\nscheduler = 'bfs'\nworkload = './none.json'", "c.toml:3: cannot read ./none.json"),
        ("[axes]\nscheduler = 'bfs'\nworkload = 'sanity'", "c.toml:3: sanity: a suite of several workloads"),
        ("[axes]\nscheduler = 'bfs'\n[options]\nfor = '10'", "c.toml:4: invalid value '10' for '--for <TIME>'"),
        (
            "[axes]\nscheduler = 'bfs'\nkernel = ['7.2', '6.18']",
            "c.toml:3: --kernel 6.18: sched_ext is modelled only for 7.2",
        ),
        ("[axes]\nscheduler = 'bfs'\nwithout = 'smd'", "c.toml:3: invalid value 'smd' for '--without <EFFECT>'"),
        (
            "[axes]\nscheduler = 'bfs'\nmachine = 'pu:2'\ncpus = '1-4'",
            "c.toml:4: --cpus 3: machine pu:2 has 2 online CPUs",
        ),
        ("[axes]\nscheduler = 'bfs'\n[[exclude]]\nscheduler = 'x'", "c.toml:3: excludes no run"),
        ("[axes]\nscheduler = 'bfs'\n[[exclude]]\nscheduler = '*'", "every run is excluded"),
        ("[axes]\nschedulr = 'bfs'", "c.toml:2: \"schedulr\": expected only scheduler, machine"),
    ];
    for (text, error) in cases {
        fs::write(path.join("c.toml"), text).unwrap();
        let output = weir(path, "sweep c.toml --out out");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}: {errors}");
        assert!(errors.contains(error), "{text}: {errors}");
    }
    assert!(!path.join("out").exists(), "nothing is created before the campaign is known to be good");
    for (line, error) in [
        ("sweep none.toml --out out", "cannot read none.toml"),
        ("sweep c.toml --out out --shard 5/4", "expected a part and the number of parts, such as 1/4"),
        ("sweep c.toml --out out --status --missing", "cannot be used with"),
    ] {
        let output = weir(path, line);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && errors.contains(error), "{line}: {errors}");
    }
}

/// Runs a command that refuses its usage or input with this message.
fn refused(directory: &Path, line: &str, message: &str) {
    let output = weir(directory, line);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && errors.contains(message), "{line}: {errors}");
}

#[test]
fn host_is_refused_where_nodes_do_the_runs() {
    let directory = workspace(1);
    let path = directory.path();
    for (text, message) in [
        ("[axes]\nscheduler = 'kernel'", "c.toml: machine host differs between nodes; expected a preset or a file"),
        (
            "[axes]\nscheduler = 'kernel'\nmachine = ['pu:2',\n'host']",
            "c.toml:4: machine host differs between nodes; expected a preset or a file",
        ),
        (
            "[axes]\nscheduler = 'kernel'\nmachine = 'pu:2'\n[options]\nkernel = 'host'",
            "c.toml:5: kernel host differs between nodes; expected a version",
        ),
    ] {
        fs::write(path.join("c.toml"), text).unwrap();
        refused(path, "sweep c.toml --out out --on slurm", message);
        let places = &status(path, "out")["host"];
        assert_eq!(places.as_array().map(Vec::len), Some(1), "{places}");
    }
    assert!(!path.join("out").exists());
}

#[test]
fn options_without_effect_are_refused() {
    let directory = workspace(1);
    let path = directory.path();
    for view in ["--status", "--missing", "--show", "--tables"] {
        for option in ["--import .", "--shard 1/2", "--jobs 1", "--parts 2", "--on slurm"] {
            refused(path, &format!("sweep c.toml --out out {option} {view}"), "cannot be used with");
        }
    }
    refused(path, "sweep c.toml --out out --missing --report page.html", "cannot be used with");
    refused(
        path,
        "sweep c.toml --out out --parts 2",
        "--parts: only --on slurm divides the runs; expected --shard I/N",
    );
    assert!(!path.join("out").exists());
}

/// Rows of effects name what is left out, which their machine's name does not tell.
#[test]
fn comparison_of_effects_names_what_is_left_out() {
    let directory = workspace(8);
    let path = directory.path();
    let text = "[axes]\nscheduler = ['kernel', 'fifo']\nmachine = 'pu:2'\nworkload = './load.json'\n\
                without = ['', 'caches', 'smt', 'smt,frequency']\nseed = '1-8'\n[options]\nfor = '20ms'\n";
    fs::write(path.join("c.toml"), text).unwrap();
    let output = weir(path, "sweep c.toml --out out");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(errors.matches("--without smt: ignored").count(), 1, "{errors}");
    let text = good(path, "sweep c.toml --out out --show without");
    for name in ["pu:2 ", "pu:2 without caches", "pu:2 without smt,frequency"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}: {text}");
    }
    let json: Value = serde_json::from_str(&good(path, "sweep c.toml --out out --show without --format json")).unwrap();
    let names: Vec<&str> =
        json["comparisons"].as_array().unwrap().iter().map(|it| it["b"]["machine"].as_str().unwrap()).collect();
    assert!(names.contains(&"pu:2 without caches"), "{names:?}");
}

#[test]
fn directories_to_import_are_checked_before_anything_is_created() {
    let directory = workspace(1);
    refused(directory.path(), "sweep c.toml --out out --import none", "--import none: expected a directory");
    assert!(!directory.path().join("out").exists());
}

/// A Python with these modules, or why there is none.
fn python(modules: &str) -> Result<String, String> {
    let python = std::env::var("WEIR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    let lack = || format!("{python} cannot import {modules} (WEIR_PYTHON names another Python)");
    has.is_ok_and(|output| output.status.success()).then(|| python.clone()).ok_or_else(lack)
}

#[test]
fn python_package_passes_its_tests() {
    let python = match python("pytest, pandas, pyarrow") {
        Ok(python) => python,
        Err(lack) => return skip::skip(lack),
    };
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../python");
    let mut pytest = Command::new(python);
    pytest.current_dir(package).args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]);
    pytest
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("WEIR_PROGRAM", env!("CARGO_BIN_EXE_weir"));
    let output = pytest.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Reads the tables as the manual shows it.
#[test]
fn python_examples_of_the_manual_read_the_tables() {
    let python = match python("duckdb, pandas, polars, pyarrow") {
        Ok(python) => python,
        Err(lack) => return skip::skip(lack),
    };
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/how-to/campaigns.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> = page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 3, "the page has {} examples in Python", blocks.len());
    let directory = workspace(3);
    let path = directory.path();
    good(path, "sweep c.toml --out bfs-interval");
    for block in blocks {
        let output = Command::new(&python).current_dir(path).args(["-c", block]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !output.stdout.is_empty(), "{block}\n{errors}");
    }
    let check = "import pyarrow.parquet as pq, polars as pl\n\
                 runs = pl.read_parquet('bfs-interval/runs.parquet')\n\
                 assert runs.to_arrow().cast(pq.read_table('bfs-interval/runs.parquet').schema).equals(\
                 pq.read_table('bfs-interval/runs.parquet'))\n\
                 buckets = pl.read_parquet('bfs-interval/histograms.parquet')\n\
                 waits = buckets.filter(pl.col('measure') == 'wakeup_latency_ns')\n\
                 sums = waits.group_by('run_id').agg(pl.col('count').sum())\n\
                 both = runs.join(sums, on='run_id')\n\
                 assert both.height == 21 and (both['wakeup_latency_ns.count'] == both['count']).all()\n";
    let output = Command::new(&python).current_dir(path).args(["-c", check]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
