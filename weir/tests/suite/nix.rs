// SPDX-License-Identifier: GPL-2.0-only
//! Promises of the three NIX schedulers and of the lecture's dispatcher in whole runs, and the throughput limit of a
//! central core.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs `weir sim`; returns the runs and the exit status.
fn sim(directory: &Path, args: &[&str]) -> (Vec<Value>, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.current_dir(directory).arg("sim").args(args).args(["--format", "json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (document["runs"].as_array().expect("runs").clone(), output.status.code())
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or_else(|| panic!("{key} of {run:#}"))
}

#[test]
fn nix_and_pushback_keep_their_promises() {
    let schedulers = ["nix@smp", "nix@groups", "nix@groups-2011", "nix@amp", "pushback", "pushback,depth=0"];
    let machines = ["-m", "laptop-2c4t", "-m", "nix-32"];
    let workloads = ["-w", "preempt-mix", "-w", "affinity", "-w", "hogs", "-w", "ramfs-mk"];
    let more = ["--for", "500ms", "--seeds", "2", "--check"];
    let (runs, status) = sim(Path::new("."), &[&schedulers[..], &machines, &workloads, &more].concat());
    assert_eq!(runs.len(), 6 * 2 * 4 * 2);
    for run in &runs {
        assert_eq!(run["violation_count"], 0, "{run:#}");
    }
    assert_eq!(status, Some(0));
}

/// Group scheduling is work-conserving only while idle CPUs steal.
#[test]
fn nix_groups_without_stealing_are_not_work_conserving() {
    let more = ["-m", "nix-32", "-w", "hogs", "--for", "200ms", "--check"];
    let (runs, status) = sim(Path::new("."), &[&["nix@groups,steal=false"], &more[..]].concat());
    assert_eq!((status, runs[0]["violations"][0]["property"].as_str()), (Some(1), Some("work-conserving")));
    assert_eq!(sim(Path::new("."), &[&["nix@groups"], &more[..]].concat()).1, Some(0));
}

/// A single queue, checked against the promises of `nix@groups`: CPUs idle beside waiting tasks only because of its
/// lock (README of nix).
#[test]
fn single_queue_is_work_conserving_except_for_its_lock() {
    let directory = tempfile::tempdir().unwrap();
    let policy = policies::find("nix").unwrap();
    let profile = policy.profile.replacen("work-conserving = false", "work-conserving = true", 1);
    std::fs::write(directory.path().join("nix.toml"), profile).unwrap();
    std::fs::write(directory.path().join("nix.bpf.o"), policy.object).unwrap();
    let mix = "preempt-mix,cpus=4-7+desktop,policy=idle+periodic-4";
    let run = ["./nix.bpf.o", "-m", "itanium-12", "-w", mix, "--for", "600ms", "--seed", "531", "--check"];
    let (runs, _) = sim(directory.path(), &run);
    assert_eq!(runs[0]["violations"][0]["property"], "work-conserving");
    let (runs, status) = sim(directory.path(), &[&run[..], &["--without", "locks"]].concat());
    assert_eq!((&runs[0]["violation_count"], status), (&Value::from(0), Some(0)));
}

/// `nix@amp`, checked against the promises of `nix@groups`, with `tasks` tasks for all CPUs but CPU 0, each
/// alternating `us` microseconds of work and sleep.
fn amp(tasks: u32, us: u32) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let policy = policies::find("nix").unwrap();
    let profile = policy.profile.replacen("[tunables", "amp = true\n\n[tunables", 1);
    let profile = profile.replacen("work-conserving = false", "work-conserving = true", 1);
    std::fs::write(directory.path().join("nix.toml"), profile).unwrap();
    std::fs::write(directory.path().join("nix.bpf.o"), policy.object).unwrap();
    let cpus: Vec<String> = (1..32).map(|cpu| cpu.to_string()).collect();
    let workload = format!(
        r#"{{"tasks": {{"t": {{"instance": {tasks}, "loop": -1, "run": {us}, "sleep": {us}, "cpus": [{}]}}}}}}"#,
        cpus.join(", ")
    );
    std::fs::write(directory.path().join("tasks.json"), workload).unwrap();
    // All tasks must exist from the start: CPU 0 creates them and would have no time for anything else meanwhile.
    let preset = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines/nix-32.toml");
    let machine = std::fs::read_to_string(preset).unwrap().replace("clone_ns = 24000", "clone_ns = 0");
    assert!(machine.contains("clone_ns = 0"));
    std::fs::write(directory.path().join("machine.toml"), machine).unwrap();
    let args = ["./nix.bpf.o", "-m", "./machine.toml", "-w", "./tasks.json", "--for", "100ms", "--check"];
    let (mut runs, _) = sim(directory.path(), &args);
    runs.remove(0)
}

/// No CPU except CPU 0 idles while a task waits, provided that CPU 0 is not saturated.
#[test]
fn amp_is_work_conserving_while_cpu_0_is_not_saturated() {
    for us in [1_000, 100, 50] {
        let run = amp(40, us);
        assert_eq!(run["violation_count"], 0, "{us} us");
        let central = &run["cpus"][0];
        assert_eq!(number(central, "run_ns"), 0.0);
        assert!(number(central, "idle_ns") > 0.4 * number(&run, "elapsed_ns"), "{us} us");
    }
    assert_ne!(amp(124, 50)["violation_count"], 0, "CPU 0 is saturated");
}

/// CPU 0 is the bottleneck: it starts one task per pick, however many CPUs are idle, and is always busy. (With
/// shorter work and no noise, as here, all tasks would synchronize, and CPU 0 would idle while they work.)
#[test]
fn amp_throughput_is_limited_by_the_picks_of_cpu_0() {
    let run = amp(124, 50);
    let (central, elapsed) = (&run["cpus"][0], number(&run, "elapsed_ns"));
    let picks = number(&run, "context_switches");
    let busy = (number(central, "scheduler_ns") + number(central, "stolen_ns")) / elapsed;
    assert!((0.98..1.02).contains(&busy), "{busy} of {elapsed} ns for {picks} picks");
    let idle = run["cpus"].as_array().unwrap()[1..].iter().map(|cpu| number(cpu, "idle_ns")).sum::<f64>();
    assert!(idle > 0.3 * 31.0 * elapsed, "the other CPUs must idle");
}
