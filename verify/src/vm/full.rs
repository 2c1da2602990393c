// SPDX-License-Identifier: GPL-2.0-only
//! Long test in the virtual machine (`make test-vm`): each policy, in a boot of its own, is loaded and unloaded many
//! times, loses CPUs, runs under stress, and is ended in every possible way. The first boot also runs the tests that
//! need a kernel.

use super::files::Transfer;
use super::kernel::{Kernel, KernelArgument};
use super::steps::{self, Step, StepResult};
use super::topology::Topology;
use super::{build, machine, parts};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const CYCLES: u32 = 50;
/// Load cycles per preset, fewer because it is the same object with other constants.
const CYCLES_OF_PRESET: u32 = 5;
const STRESS_OF_PRESET_S: u32 = 10;
const TIMEOUT: Duration = Duration::from_secs(1800);
/// Stress programs to take from the host, if installed.
const STRESSORS: [&str; 2] = ["stress-ng", "hackbench"];

/// Arguments of `vm full`.
#[derive(clap::Args)]
pub struct FullArguments {
    /// Policies to test, NAME or NAME@PRESET; default: all, without presets
    policies: Vec<String>,
    /// Test each preset of these policies instead, in its own boot: 5 load cycles, 10 s of stress. A policy without
    /// presets is tested as it is
    #[arg(long, conflicts_with = "stress")]
    presets: bool,
    /// Duration of stress-ng, and of hackbench; guest seconds are host seconds
    #[arg(long, value_name = "SECS", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=200))]
    stress: u32,
    /// Run only these steps, such as cycles,hotplug, between those that check the machine
    #[arg(long, value_name = "STEP,...", value_delimiter = ',')]
    steps: Vec<String>,
    /// Number of CPUs; some policies behave differently from 6 on
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(4..=64))]
    smp: u8,
    #[command(flatten)]
    kernel: KernelArgument,
}

/// One boot and its steps.
struct Boot {
    policy: String,
    kernel: String,
    steps: Vec<StepResult>,
    wall: Duration,
    cpu: Duration,
    problem: Option<String>,
}

fn list(policy: &str, cpus: usize, stress_s: u32) -> Vec<Step> {
    let mut steps = list_of_preset(policy, cpus, CYCLES, stress_s);
    let end = steps.len() - 1;
    steps.splice(end..end, [Step::new("sysrq", policy, 60), Step::new("kill", policy, 240)]);
    steps
}

fn list_of_preset(policy: &str, cpus: usize, cycles: u32, stress_s: u32) -> Vec<Step> {
    vec![
        Step::new("kernel", &cpus.to_string(), 10),
        Step::new("command", policy, 60),
        Step::new("cycles", &format!("{policy}:{cycles}"), 600),
        Step::new("hotplug", policy, 180),
        Step::new("affinity", policy, 90),
        Step::new("suspend", policy, 90),
        Step::new("stress", &format!("{policy}:{stress_s}"), 600),
        Step::new("nothing-left", "", 60),
    ]
}

/// Steps that do not depend on the policy; only the first boot has them.
fn common() -> Vec<Step> {
    vec![
        Step::new("measure", "", 60),
        Step::new("record", "", 180),
        Step::new("tests", "/in/in_kernel", 300),
        Step::new("tests", "/in/commands_in_kernel", 400),
        Step::new("tests", "/in/groups_in_kernel", 200),
    ]
}

/// Runs the test, prints a table, and writes `target/vm/full.json`.
pub fn full(arguments: &FullArguments) -> Result<u8> {
    machine::provide(&arguments.kernel.kernel)?;
    let lists = lists(arguments)?;
    let cpus = usize::from(arguments.smp);
    let mut files = build::programs()?;
    if lists.iter().any(|(_, steps)| steps.iter().any(|step| step.script() == "tests")) {
        files.push(build::test("in_kernel")?);
        files.push(build::test("commands_in_kernel")?);
        files.push(build::test("groups_in_kernel")?);
    }
    for name in STRESSORS {
        match on_path(name) {
            Some(host) => files.push(Transfer { host, guest: format!("/in/{name}") }),
            None => eprintln!("vm: {name} is not installed: the stress is weaker"),
        }
    }
    let mut boots = Vec::new();
    for (policy, steps) in &lists {
        boots.push(boot(policy, steps, files.clone(), cpus, &arguments.kernel.kernel)?);
    }
    for boot in &boots {
        print(boot);
    }
    let path = parts::state().join("full.json");
    fs::write(&path, serde_json::to_string_pretty(&to_json(&boots, cpus))? + "\n")?;
    println!("numbers are in {}", path.display());
    Ok(u8::from(boots.iter().any(|boot| boot.problem.is_some())))
}

/// Returns the policies and the steps of their boots.
fn lists(arguments: &FullArguments) -> Result<Vec<(String, Vec<Step>)>> {
    let cpus = usize::from(arguments.smp);
    let mut lists = Vec::new();
    for policy in chosen(&arguments.policies, arguments.presets)? {
        let mut steps = match arguments.presets {
            true => list_of_preset(&policy, cpus, CYCLES_OF_PRESET, STRESS_OF_PRESET_S),
            false => list(&policy, cpus, arguments.stress),
        };
        if lists.is_empty() && !arguments.presets {
            steps.splice(1..1, common());
        }
        if lists.is_empty() {
            known(&steps, &arguments.steps)?;
        }
        if !arguments.steps.is_empty() {
            keep(&mut steps, &arguments.steps);
        }
        lists.push((policy, steps));
    }
    Ok(lists)
}

/// # Errors
/// If a named step is not among those of the first boot, which has all.
fn known(steps: &[Step], named: &[String]) -> Result<()> {
    if let Some(unknown) = named.iter().find(|name| !steps.iter().any(|step| step.script() == name.as_str())) {
        let mut known: Vec<&str> = steps.iter().map(Step::script).collect();
        known.dedup();
        bail!("no step {unknown} here; expected one of {}", known.join(", "));
    }
    Ok(())
}

/// Keeps the named steps, and the first and the last, which check the machine.
fn keep(steps: &mut Vec<Step>, named: &[String]) {
    let last = steps.len() - 1;
    let mut index = 0..;
    steps.retain(|step| {
        let index = index.next();
        index == Some(0) || index == Some(last) || named.iter().any(|name| name == step.script())
    });
}

fn boot(policy: &str, list: &[Step], files: Vec<Transfer>, cpus: usize, kernel: &Kernel) -> Result<Boot> {
    println!("{policy}:");
    let outcome = machine::run(&steps::job(list, files, Topology::flat(cpus), kernel, TIMEOUT))?;
    let steps = steps::results(list, &outcome)?;
    let failed = steps.iter().find(|step| step.status != Some(0)).map(|step| format!("step {} fails", step.name));
    let problem = outcome.problem.clone().or(failed);
    if problem.is_some() {
        outcome.explain();
    } else {
        fs::remove_dir_all(&outcome.directory)?;
    }
    let (wall, cpu, kernel) = (outcome.wall, outcome.cpu, outcome.kernel);
    Ok(Boot { policy: policy.to_owned(), kernel, steps, wall, cpu, problem })
}

fn print(boot: &Boot) {
    println!(
        "{} in kernel {}: {} ({:.0} s, {:.0} s CPU)",
        boot.policy,
        boot.kernel,
        boot.problem.as_deref().unwrap_or("fine"),
        boot.wall.as_secs_f64(),
        boot.cpu.as_secs_f64()
    );
    for step in &boot.steps {
        let numbers: Vec<String> = step.numbers.iter().map(|(key, value)| format!("{key} {value}")).collect();
        let status = match step.status {
            Some(0) => "ok".to_owned(),
            Some(status) => format!("status {status}"),
            None => "not run".to_owned(),
        };
        println!("  {:<16} {status:<11} {:>7.1} s  {}", step.name, step.spent.as_secs_f64(), numbers.join(", "));
    }
}

fn to_json(boots: &[Boot], cpus: usize) -> serde_json::Value {
    let step = |step: &StepResult| {
        let numbers: serde_json::Map<_, _> =
            step.numbers.iter().map(|(key, value)| (key.clone(), (*value).into())).collect();
        json!({ "name": step.name, "status": step.status, "guest_ms": step.spent.as_millis() as u64, "numbers": numbers })
    };
    let boot = |boot: &Boot| {
        json!({
            "policy": boot.policy,
            "kernel": boot.kernel,
            "problem": boot.problem,
            "wall_ms": boot.wall.as_millis() as u64,
            "cpu_ms": boot.cpu.as_millis() as u64,
            "steps": boot.steps.iter().map(step).collect::<Vec<_>>(),
        })
    };
    json!({ "weir_vm": 1, "cpus": cpus, "boots": boots.iter().map(boot).collect::<Vec<_>>() })
}

/// Returns the named policies, or all; with `each_preset` their presets.
fn chosen(named: &[String], each_preset: bool) -> Result<Vec<String>> {
    let known = policies()?;
    let mut chosen = if named.is_empty() { known.clone() } else { named.to_vec() };
    for one in &chosen {
        let (policy, preset) =
            one.split_once('@').map_or((one.as_str(), None), |(policy, preset)| (policy, Some(preset)));
        if !known.iter().any(|known| known == policy) {
            bail!("no policy {policy}; expected one of {}", known.join(", "));
        }
        let presets = presets(policy)?;
        if preset.is_some_and(|preset| !presets.iter().any(|known| known == preset)) {
            bail!("{one}: {policy} has no such preset; expected one of {}", presets.join(", "));
        }
    }
    if each_preset {
        let mut all = Vec::new();
        for one in &chosen {
            match one.contains('@') {
                true => all.push(one.clone()),
                false => match presets(one)? {
                    none if none.is_empty() => all.push(one.clone()),
                    presets => all.extend(presets.iter().map(|preset| format!("{one}@{preset}"))),
                },
            }
        }
        chosen = all;
    }
    Ok(chosen)
}

/// Returns the presets of a policy's profile, sorted.
fn presets(policy: &str) -> Result<Vec<String>> {
    let path = crate::root().join(format!("policies/{policy}/profile.toml"));
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let profile: toml::Table = text.parse().with_context(|| format!("{}", path.display()))?;
    let presets = profile.get("presets").and_then(|presets| presets.as_table());
    Ok(presets.into_iter().flat_map(|presets| presets.keys().cloned()).collect())
}

/// Returns the names of the directories of `policies` that contain a scheduler, sorted.
fn policies() -> Result<Vec<String>> {
    let directory = crate::root().join("policies");
    let entries = fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| directory.join(format!("{name}/{name}.bpf.c")).is_file()).collect();
    names.sort();
    Ok(names)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories).map(|directory| directory.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_in_their_directory() {
        let names = policies().unwrap();
        assert!(["bfs", "fifo"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
        assert!(!names.contains(&"include".to_owned()));
    }

    #[test]
    fn presets_of_policies_are_found_and_unknown_ones_refused() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = chosen(&names(&["vrq", "bfs@gc"]), true).unwrap();
        assert_eq!(all, ["vrq@0.3", "vrq@0.4", "vrq@4.2", "vrq@4.3", "bfs@gc"]);
        assert_eq!(chosen(&names(&["bfs@gc"]), false).unwrap(), ["bfs@gc"]);
        assert!(chosen(&[], true).unwrap().contains(&"bfs@0.467-interactive".to_owned()));
        assert_eq!(chosen(&names(&["fifo", "bfs@gc"]), true).unwrap(), ["fifo", "bfs@gc"]);
        for wrong in ["cfq", "bfs@9", "fifo@1"] {
            assert!(chosen(&names(&[wrong]), false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn test_steps_are_selected_by_name_and_unknown_ones_refused() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut steps = list("bfs", 4, 9);
        keep(&mut steps, &names(&["hotplug", "cycles"]));
        assert_eq!(steps.iter().map(Step::script).collect::<Vec<_>>(), ["kernel", "cycles", "hotplug", "nothing-left"]);
        let error = known(&list_of_preset("bfs", 4, 5, 9), &names(&["kill"])).unwrap_err().to_string();
        assert!(error.starts_with("no step kill here; expected one of kernel, command, cycles"), "{error}");
    }

    #[test]
    fn numbers_that_a_test_step_prints_are_in_the_json() {
        let steps = vec![StepResult {
            name: "cycles-bfs".to_owned(),
            status: Some(0),
            spent: Duration::from_millis(1230),
            numbers: vec![("cycles".to_owned(), 50)],
        }];
        let boot = Boot {
            policy: "bfs".to_owned(),
            kernel: "7.2".to_owned(),
            steps,
            wall: Duration::from_secs(9),
            cpu: Duration::from_secs(8),
            problem: None,
        };
        let step = json!({ "name": "cycles-bfs", "status": 0, "guest_ms": 1230, "numbers": { "cycles": 50 } });
        let boots = json!([{ "policy": "bfs", "kernel": "7.2", "problem": null, "wall_ms": 9000, "cpu_ms": 8000,
            "steps": [step] }]);
        assert_eq!(to_json(&[boot], 4), json!({ "weir_vm": 1, "cpus": 4, "boots": boots }));
    }
}
