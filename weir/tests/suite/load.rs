// SPDX-License-Identifier: GPL-2.0-only
//! `weir load`, and disks on the command line.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(directory: &Path, args: &[&str]) -> Value {
    let output = weir(directory, &[args, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn error(directory: &Path, args: &[&str]) -> String {
    let output = weir(directory, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stdout));
    assert!(output.stdout.is_empty());
    text(&output.stderr)
}

#[test]
fn load_curve_has_the_documented_keys_a_knee_and_what_is_saturated() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let args = ["load", "fifo", "-m", "pu:1", "-w", "requests,service=1ms,draw=exponential"];
    let rates = ["--rates", "200,400,500,600,800,1200", "--requests", "4000", "--report", "l.html"];
    let json = json(here, &[&args[..], &rates].concat());
    let rows = json["load"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
        assert_eq!(row["scheduler"], "fifo");
        assert!(number("rate_per_s") > 0.0 && number("arrivals") > 3_000.0 && number("throughput_per_s") > 0.0);
        let [mean, p50, p99] = ["mean", "p50", "p99"].map(|key| row["latency_ns"][key].as_u64().unwrap());
        assert!(p50 < mean && mean < p99, "{row}");
    }
    // The CPU is busy for the offered load; without idle states the mean would be that of M/M/1 (see the simulator's tests).
    let half = &rows[2];
    assert!((450_000..550_000).contains(&half["utilization_ppm"].as_u64().unwrap()), "{half}");
    let [found, form] = [&half["latency_ns"]["mean"], &half["mmc_ns"]].map(|value| value.as_f64().unwrap());
    assert!((found / form - 1.0).abs() < 0.2, "{half}");
    assert_eq!(rows[5]["mmc_ns"], Value::Null, "no steady state above the capacity");
    assert!((300.0..=700.0).contains(&json["knee_per_s"].as_f64().unwrap()), "{}", json["knee_per_s"]);
    assert_eq!((&json["saturated"], &json["curves"][0]["saturated"]), (&"cpus".into(), &"cpus".into()));
    let page = std::fs::read_to_string(here.join("l.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("saturated at the highest rate: cpus") && !page.contains("http:"));
}

#[test]
fn several_schedulers_and_seeds_give_curves_with_intervals() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["load", "fifo", "kernel", "-m", "pu:2", "--rates", "900", "--requests", "1000", "--seeds", "3"];
    let json = json(directory.path(), &args);
    assert_eq!((&json["knee_per_s"], json["curves"].as_array().unwrap().len()), (&Value::Null, 2));
    for row in json["load"].as_array().unwrap() {
        let [low, high] = [0, 1].map(|end| row["latency_mean_interval_ns"][end].as_f64().unwrap());
        let mean = row["latency_ns"]["mean"].as_f64().unwrap();
        assert!(low < mean && mean < high, "{row}");
    }
}

#[test]
fn arrivals_are_read_from_a_file_and_stretched() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let times: String = (1..=1000).map(|number| format!("{}us\n", number * 2_000)).collect();
    std::fs::write(here.join("times.txt"), times).unwrap();
    let args = ["load", "fifo", "-m", "pu:1", "-w", "requests,draw=constant", "--arrivals", "./times.txt"];
    let own = json(here, &args);
    assert_eq!(own["load"][0]["rate_per_s"], 500.0);
    let stretched = json(here, &[&args[..], &["--rates", "250,800"]].concat());
    let arrivals = |row: usize| stretched["load"][row]["arrivals"].as_u64().unwrap();
    assert!(arrivals(0).abs_diff(900) <= 1 && arrivals(1).abs_diff(900) <= 1, "{stretched}");
    std::fs::write(here.join("bad.txt"), "1ms\nsoon\n").unwrap();
    let message = error(here, &["load", "fifo", "--arrivals", "./bad.txt", "--rates", "5"]);
    assert!(message.contains("bad.txt: line 2: \"soon\"; expected a time such as 1.5ms"), "{message}");
}

#[test]
fn load_refusals_say_what_was_expected() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| error(directory.path(), &[&["load", "fifo", "-m", "pu:1"], args].concat());
    for (args, expected) in [
        (&["-w", "pair", "--rates", "5"][..], "workload pair has no source of requests; expected one, as in requests"),
        (&[], "expected --rates with arrivals for each second"),
        (&["--rates", "0"], "expected requests for each second, 0.001 to 1000000"),
        (&["--rates", "5", "--for", "1s", "--warmup", "1s"], "--warmup 1.00 s leaves nothing to measure of 1.00 s"),
        (&["--rates", "5", "--disk", "floppy"], "no disk preset \"floppy\"; presets are hdd-7200"),
        (&["fifo", "--rates", "5"], "fifo is named twice"),
    ] {
        let message = refused(args);
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}

const READS: &str = r#"{"tasks": {"reader": {"instance": 8, "loop": 20, "read": {"bytes": 4096}, "run": 100}}}"#;

#[test]
fn disk_of_the_command_line_is_used_and_its_waits_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("reads.json"), READS).unwrap();
    let missing = error(here, &["sim", "kernel", "-m", "pu:2", "-w", "./reads.json"]);
    assert!(missing.contains("has no disk; add one with --disk sda=hdd-7200"), "{missing}");
    let sim = ["sim", "kernel", "-m", "pu:2", "-w", "./reads.json", "--disk", "hdd-7200"];
    let run = &json(here, &[&sim[..], &["--save", "one.weirrun"]].concat())["runs"][0];
    assert_eq!((&run["disks"][0]["name"], &run["disks"][0]["reads"]), (&"sda".into(), &160.into()));
    assert!(run["blocked_ns"]["disk"].as_u64().unwrap() > run["disks"][0]["service_ns"]["mean"].as_u64().unwrap());
    assert_eq!(run["interrupts"][0]["source"], "disk:sda");
    let effects: Vec<&str> = run["effects"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(effects.contains(&"disks") && effects.iter().filter(|effect| **effect == "interrupts").count() == 1);
    let chain = text(&weir(here, &["explain", "one.weirrun", "--chain"]).stdout);
    assert!(chain.contains("disk sda, 7 requests before"), "{chain}");
    let left_out = &json(here, &[&sim[..], &["--without", "disks,interrupts"]].concat())["runs"][0];
    assert_eq!(left_out["disks"][0]["wait_ns"]["max"], 0);
    let effects = left_out["effects"].as_array().unwrap();
    assert!(!effects.contains(&"disks".into()) && !effects.contains(&"interrupts".into()), "{effects:?}");
}

#[test]
fn throughput_is_fitted_by_spindles() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("reads.json"), READS).unwrap();
    let args = ["scale", "kernel", "-m", "pu:2", "-w", "./reads.json", "--spindles", "1,2,3,4,6,8"];
    let json = json(here, &args);
    assert_eq!(json["sizes"], "spindles");
    let throughput = |row: usize| json["rows"][row]["throughput"].as_f64().unwrap();
    assert!(throughput(5) > 2.0 * throughput(0), "{json}");
}

/// Every command of the guide to disks that needs neither root nor a recording, in order, with shorter runs.
#[test]
fn commands_of_the_guide_to_disks_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/how-to/disks.md")).unwrap();
    let (mut file, mut count) = (None, 0);
    for line in page.lines() {
        match (&mut file, line.strip_prefix("```")) {
            (None, Some(rest)) => file = Some((rest.split_once("file=").map(|(_, name)| name), String::new())),
            (Some((name, content)), Some(_)) => {
                if let Some(name) = name {
                    std::fs::write(directory.path().join(name), content).unwrap();
                }
                file = None;
            }
            (Some((None, _)), None) if line.starts_with("weir ") && !line.contains("copy.weir") => {
                let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
                if let Some(at) = words.iter().position(|word| *word == "--requests") {
                    words[at + 1] = "200";
                } else if ["sim", "scale"].contains(&words[0]) && !words.contains(&"--for") {
                    words.extend(["--for", "1s"]);
                }
                let output = weir(directory.path(), &words);
                assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
                count += 1;
            }
            (Some((_, content)), None) => *content += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(count >= 12, "{count} commands");
}
