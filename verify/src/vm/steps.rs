// SPDX-License-Identifier: GPL-2.0-only
//! Tests in the virtual machine: a list of steps, each a shell script with one argument, all in one boot. To add one,
//! put its script into `guest/steps`, name it in [`SCRIPTS`], and add it to a list.

use super::files::Transfer;
use super::kernel::Kernel;
use super::machine::{Job, Outcome};
use super::topology::Topology;
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

const RUNNER: &str = include_str!("../../guest/steps.sh");
const LIBRARY: &str = include_str!("../../guest/lib.sh");

macro_rules! scripts {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../guest/steps/", $name, ".sh")))),*] };
}

const SCRIPTS: &[(&str, &str)] = scripts! {
    "affinity" "call" "command" "conformance" "cycles" "ejection" "explain" "hotplug" "kernel" "kill" "late" "measure"
    "nothing-left" "record" "restart" "siblings" "stress" "suspend" "sysrq" "tests"
};

/// One step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    name: String,
    /// Limit in seconds of guest time.
    limit_s: u32,
    script: &'static str,
    argument: String,
}

impl Step {
    /// Creates a step; `script` is one of [`SCRIPTS`], and the name combines it with the argument.
    pub fn new(script: &'static str, argument: &str, limit_s: u32) -> Step {
        assert!(SCRIPTS.iter().any(|(name, _)| *name == script), "unknown step {script}");
        let short = argument.split(':').next().unwrap_or_default();
        let short = short.rsplit_once('/').map_or(short, |(_, file)| file.split('.').next().unwrap_or_default());
        let name = if short.is_empty() { script.to_owned() } else { format!("{script}-{short}") };
        Step { name, limit_s, script, argument: argument.to_owned() }
    }

    /// Name of the script in `guest/steps`.
    pub fn script(&self) -> &str {
        self.script
    }
}

/// Result of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepResult {
    /// Name of the step.
    pub name: String,
    /// Exit status of its script; 143 or 137 at its limit, as busybox reports signals; `None` if it was not run.
    pub status: Option<u8>,
    /// Duration in guest time.
    pub spent: Duration,
    /// Numbers that the step reported, by name.
    pub numbers: Vec<(String, u64)>,
}

/// Returns a boot with this topology that runs `steps`.
pub fn job(steps: &[Step], files: Vec<Transfer>, topology: Topology, kernel: &Kernel, timeout: Duration) -> Job {
    let list: String = steps
        .iter()
        .map(|step| format!("{} {} {} {}\n", step.name, step.limit_s, step.script, step.argument))
        .collect();
    let mut texts = vec![("/steps/list".to_owned(), list), ("/steps/lib.sh".to_owned(), LIBRARY.to_owned())];
    texts.extend(SCRIPTS.iter().map(|(name, text)| (format!("/steps/{name}.sh"), (*text).to_owned())));
    Job {
        script: RUNNER.to_owned(),
        texts,
        files,
        topology,
        memory_mb: None,
        kernel: kernel.clone(),
        timeout,
        deterministic: false,
        seed: 1,
        append: String::new(),
        show: true,
    }
}

/// Returns the result of each step.
pub fn results(steps: &[Step], outcome: &Outcome) -> Result<Vec<StepResult>> {
    let text = |name: &str| fs::read_to_string(outcome.out().join(name)).unwrap_or_default();
    read_results(steps, &text("results"), &text("numbers"))
}

fn read_results(steps: &[Step], results: &str, numbers: &str) -> Result<Vec<StepResult>> {
    let mut all: Vec<StepResult> = steps
        .iter()
        .map(|step| StepResult { name: step.name.clone(), status: None, spent: Duration::ZERO, numbers: Vec::new() })
        .collect();
    let mut of_step = |name: &str, change: &dyn Fn(&mut StepResult)| {
        all.iter_mut().filter(|result| result.name == name).for_each(change);
    };
    for line in results.lines() {
        let (name, status, spent) = three(line).with_context(|| format!("results of the steps: {line:?}"))?;
        let status = status.parse().with_context(|| format!("results of the steps: {line:?}"))?;
        let spent = Duration::from_millis(10 * spent);
        of_step(name, &|result| (result.status, result.spent) = (Some(status), spent));
    }
    for line in numbers.lines() {
        let (name, key, value) = three(line).with_context(|| format!("numbers of the steps: {line:?}"))?;
        of_step(name, &|result| result.numbers.push((key.to_owned(), value)));
    }
    Ok(all)
}

fn three(line: &str) -> Option<(&str, &str, u64)> {
    let mut words = line.split(' ');
    let three = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_steps_are_named_after_script_and_argument() {
        for (script, argument, name) in [
            ("nothing-left", "", "nothing-left"),
            ("cycles", "bfs:50", "cycles-bfs"),
            ("cycles", "bfs@0.467-interactive:5", "cycles-bfs@0.467-interactive"),
            ("tests", "/in/in_kernel", "tests-in_kernel"),
        ] {
            assert_eq!(Step::new(script, argument, 1).name, name);
        }
    }

    #[test]
    fn step_results_are_parsed_and_missing_ones_detected() {
        let steps = [Step::new("cycles", "bfs:50", 9), Step::new("kill", "bfs", 9), Step::new("kernel", "4", 9)];
        let results = read_results(&steps, "cycles-bfs 0 1234\nkill-bfs 124 900\n", "cycles-bfs cycles 50\n").unwrap();
        let of = |name: &str, status, spent_ms, numbers: &[(&str, u64)]| StepResult {
            name: name.to_owned(),
            status,
            spent: Duration::from_millis(spent_ms),
            numbers: numbers.iter().map(|&(key, value)| (key.to_owned(), value)).collect(),
        };
        let expected = [
            of("cycles-bfs", Some(0), 12_340, &[("cycles", 50)]),
            of("kill-bfs", Some(124), 9_000, &[]),
            of("kernel-4", None, 0, &[]),
        ];
        assert_eq!(results, expected);
        assert!(read_results(&steps, "cycles-bfs 0\n", "").is_err());
        assert!(read_results(&steps, "cycles-bfs x 7\n", "").is_err());
        assert!(read_results(&steps, "", "cycles-bfs cycles 50 more\n").is_err());
    }

    #[test]
    fn every_guest_script_is_a_listed_step() {
        let directory = crate::root().join("verify/guest/steps");
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(names, SCRIPTS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
