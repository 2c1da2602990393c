// SPDX-License-Identifier: GPL-2.0-only
//! `weir scale`: a table, simulated runs and a command.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SPEC: &str = "n,throughput\n1,64.9\n18,995.9\n36,1652.4\n72,1853.2\n108,1828.9\n144,1775.0\n216,1702.2\n";

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(directory: &Path, args: &[&str]) -> Value {
    let output = weir(directory, &[&[args[0], "--format", "json"], &args[1..]].concat());
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
fn table_is_fitted_with_the_documented_keys() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("spec.csv"), SPEC).unwrap();
    let json = json(directory.path(), &["scale", "spec.csv"]);
    let fit = &json["fit"];
    assert_eq!(fit["points"], 7);
    assert!((fit["peak_n"].as_f64().unwrap() - 96.52).abs() < 0.005, "{fit:#}");
    assert_eq!(fit["peak_extrapolated"], false);
    for key in ["gamma", "alpha", "beta"] {
        let [low, high] = [0, 1].map(|end| fit["intervals"][key][end].as_f64().unwrap());
        let (value, error) = (fit[key].as_f64().unwrap(), fit["standard_errors"][key].as_f64().unwrap());
        assert!(low < value && value < high && ((high - low) / error - 2.0 * 2.776_445).abs() < 1e-3, "{key}");
    }
    assert_eq!(json["rows"].as_array().unwrap().len(), 7);
    assert_eq!(json["largest_loss"], "contention");
}

#[test]
fn csv_of_a_fit_can_be_fitted_again_and_the_page_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("spec.csv"), SPEC).unwrap();
    let output = weir(here, &["scale", "spec.csv", "--format", "csv", "--report", "spec.html"]);
    std::fs::write(here.join("again.csv"), &output.stdout).unwrap();
    assert_eq!(json(here, &["scale", "again.csv"])["fit"], json(here, &["scale", "spec.csv"])["fit"]);
    let page = std::fs::read_to_string(here.join("spec.html")).unwrap();
    assert!(
        page.contains("<svg")
            && page.contains("peak: 1884 at 96.52 N")
            && !page.contains("https:")
            && !page.contains("http:")
    );
}

#[test]
fn refusals_say_what_was_expected() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("few.csv"), "n,throughput\n1,1\n2,2\n3,3\n").unwrap();
    std::fs::write(here.join("odd.csv"), "n,throughput\n1,x\n").unwrap();
    assert!(
        error(here, &["scale", "few.csv"]).contains("few.csv: 3 points; a law with three parameters needs at least 6")
    );
    assert!(
        error(here, &["scale", "odd.csv"]).contains("odd.csv: line 2: throughput is \"x\"; expected a number above 0")
    );
    let few = error(here, &["scale", "kernel", "-m", "nix-32", "-w", "hogs", "--cpus", "1,2,4"]);
    assert!(few.contains("3 points"), "{few}");
    assert!(
        error(here, &["scale", "kernel", "-w", "hogs"])
            .contains("expected the sizes: --cpus, --jobs, --clients or --spindles")
    );
    assert!(error(here, &["scale", "--", "true"]).contains("expected {n} in the command"));
    let many = error(here, &["scale", "kernel", "-m", "laptop-2c4t", "-w", "hogs", "--cpus", "1,2,3,4,5,6"]);
    assert!(many.contains("--cpus 5: machine laptop-2c4t has 4 online CPUs"), "{many}");
    assert!(error(here, &["scale"]).contains("FILE.csv|SCHED"));
}

/// The throughput of CPU-bound tasks on CPUs without effects is the number of CPUs, but for switches and ticks.
#[test]
fn hogs_scale_linearly_up_to_their_number() {
    let directory = tempfile::tempdir().unwrap();
    let cpus = "1,2,3,4,5,6,7,8";
    // With turbo, more busy CPUs are slower ones.
    const WITHOUT: &str = "locks,frequency,idle-states";
    let args = ["scale", "kernel", "-m", "pu:8", "-w", "hogs", "--for", "200ms", "--cpus", cpus, "--without", WITHOUT];
    let json = json(directory.path(), &args);
    for row in json["rows"].as_array().unwrap() {
        let (n, throughput) = (row["n"].as_f64().unwrap(), row["throughput"].as_f64().unwrap());
        assert!((throughput / n - 1.0).abs() < 0.1, "{row:#}");
    }
    // A nominal run has no noise, so that the law may find the cost of switches significant.
    let peak = &json["fit"]["peak_n"];
    assert!(peak.is_null() || peak.as_f64().unwrap() > 50.0, "{:#}", json["fit"]);
    assert_eq!(json["sizes"], "CPUs");
}

#[test]
fn several_schedulers_give_several_curves() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["scale", "kernel", "fifo", "-m", "pu:8", "-w", "hogs", "--for", "50ms", "--cpus", "1,2,3,4,6,8"];
    let json = json(directory.path(), &args);
    let names: Vec<&str> =
        json["curves"].as_array().unwrap().iter().map(|curve| curve["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(names[0].starts_with("kernel on pu:8") && names[1].starts_with("fifo on pu:8"));
}

/// The command prints the throughput of a known law.
#[cfg(feature = "real")]
#[test]
fn law_that_a_command_prints_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let law = "awk 'BEGIN { n = {n}; print \"result:\", 100 * n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1)) }'";
    let args = ["scale", "--work", "printed", "--sizes", "1,2,4,8,16,32", "--", "sh", "-c", law];
    let fit = json(directory.path(), &args)["fit"].clone();
    let near = |key: &str, value: f64| (fit[key].as_f64().unwrap() / value - 1.0).abs() < 0.01;
    assert!(near("gamma", 100.0) && near("alpha", 0.1) && near("beta", 0.01) && near("peak_n", 9.487), "{fit:#}");
}

/// A command that fails is a result, not bad input; and the help shows the placeholder.
#[test]
fn failing_command_has_status_1_and_help_shows_the_placeholder() {
    let directory = tempfile::tempdir().unwrap();
    let run =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory.path()).args(args).output();
    let output = run(&["scale", "--", "sh", "-c", "exit {n}"]).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let help = run(&["scale", "--help"]).unwrap().stdout;
    assert!(String::from_utf8_lossy(&help).contains("make -j{n}"), "{}", String::from_utf8_lossy(&help));
    let output = run(&["scale", "--seeds", "5", "--", "true", "{n}"]).unwrap();
    assert_eq!(output.status.code(), Some(2), "--seeds has no effect on a command");
}
