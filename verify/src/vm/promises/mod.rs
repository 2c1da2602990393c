// SPDX-License-Identifier: GPL-2.0-only
//! Checks runs in a real kernel against promises and expected shares. Uses the deterministic machine: in the other
//! one, emulated CPUs are stopped in turn for about 20 ms, and schedulers would be blamed for it.

mod cases;

use super::build;
use super::files::Transfer;
use super::kernel::KernelArgument;
use super::machine::{self, Job};
use super::parts;
use super::topology::Topology;
use crate::mutation::source::Source;
use anyhow::{Context, Result, bail};
use cases::{CASES, Case, Expected};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(1800);
/// Tolerance of a share, in percentage points of all CPU time.
const POINTS: f64 = 2.0;
/// Machine file of the deterministic machine with one CPU, for the model.
const MACHINE: &str = "verify/conformance/shares/icount.toml";
/// Name of a policy that violates its promise, and the changes to `fifo` that make it so. An expired task goes
/// straight to an idle CPU, and a CPU that goes idle after that check is kicked; so both must be removed.
const BROKEN: &str = "fifo-blind";
const BLINDED: [(&str, &str); 2] = [
    ("enq_flags & SCX_ENQ_WAKEUP ? -1 : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);", "-1;"),
    ("scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);", ";"),
];

/// Arguments of `vm promises`.
#[derive(clap::Args)]
pub struct PromisesArguments {
    /// Cases to run; default: all
    cases: Vec<String>,
    #[command(flatten)]
    kernel: KernelArgument,
}

/// Runs and checks the cases, and prints a line for each. Returns 1 if a result is unexpected or the machine failed.
pub fn promises(arguments: &PromisesArguments) -> Result<u8> {
    machine::provide(&arguments.kernel.kernel)?;
    let chosen = chosen(&arguments.cases)?;
    let weir = build::program("weir")?;
    let broken = blinded()?;
    let mut fine = true;
    for cpus in [1, 4] {
        let cases: Vec<&Case> = chosen.iter().filter(|case| case.cpus == cpus).copied().collect();
        if cases.is_empty() {
            continue;
        }
        let outcome = machine::run(&job(&cases, cpus, vec![weir.clone(), broken.clone()], arguments))?;
        println!("{cpus} CPUs, kernel {} ({:.0} s)", outcome.kernel, outcome.wall.as_secs_f64());
        for case in cases {
            let verdict = verdict(case, &outcome.out(), &weir.host);
            fine &= verdict.is_ok();
            match verdict {
                Ok(message) => println!("ok      {:<22} {message}", case.name),
                Err(error) => println!("FAILED  {:<22} {error:#}", case.name),
            }
        }
        if outcome.success() && fine {
            fs::remove_dir_all(&outcome.directory)?;
        } else if outcome.success() {
            println!("reports are in {}", outcome.out().display());
        } else {
            outcome.explain();
            fine = false;
        }
    }
    Ok(u8::from(!fine))
}

/// Returns the named cases, or all.
fn chosen(named: &[String]) -> Result<Vec<&'static Case>> {
    if let Some(unknown) = named.iter().find(|name| !CASES.iter().any(|case| case.name == name.as_str())) {
        bail!(
            "no case {unknown}; expected one of {}",
            CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(CASES.iter().filter(|case| named.is_empty() || named.iter().any(|name| name == case.name)).collect())
}

fn job(cases: &[&Case], cpus: usize, files: Vec<Transfer>, arguments: &PromisesArguments) -> Job {
    let mut script = String::from("sleep 2\n");
    let profile = crate::root().join("policies/fifo/profile.toml");
    let mut files = files;
    files.push(Transfer { host: profile, guest: format!("/in/{BROKEN}.toml") });
    for Case { name, scheduler, time, .. } in cases {
        let profile =
            if scheduler.starts_with("/in/") { format!("--profile /in/{BROKEN}.toml") } else { String::new() };
        script += &format!(
            "echo {name}\nweir run {scheduler} {profile} --check -w /in/{name}.json --for {time} --format json \
             >/out/{name}.json 2>/out/{name}.err\n"
        );
    }
    // A run that violates its promise exits with status 1, and one of them does.
    script += "true\n";
    Job {
        script: format!("mkdir -p /out\n{script}"),
        texts: cases.iter().map(|case| (format!("/in/{}.json", case.name), case.workload.to_owned())).collect(),
        files,
        topology: Topology::flat(cpus),
        memory_mb: None,
        kernel: arguments.kernel.kernel.clone(),
        timeout: TIMEOUT,
        deterministic: true,
        seed: 1,
        append: String::new(),
        show: true,
    }
}

/// Compiles a `fifo` that never searches an idle CPU for an expired task, so that such tasks wait beside idle CPUs.
fn blinded() -> Result<Transfer> {
    let tree = parts::state().join(BROKEN);
    fs::create_dir_all(&tree)?;
    let source = Source::read(crate::root(), "fifo")?;
    let object = source.compile_changed(&tree, &BLINDED)?;
    Ok(Transfer { host: object, guest: format!("/in/{BROKEN}.bpf.o") })
}

/// Returns the message for a run with the expected result.
///
/// # Errors
/// The unexpected result.
fn verdict(case: &Case, out: &Path, weir: &Path) -> Result<String> {
    let text = fs::read_to_string(out.join(format!("{}.json", case.name))).unwrap_or_default();
    let run = first_run(&text).with_context(|| {
        fs::read_to_string(out.join(format!("{}.err", case.name))).unwrap_or_else(|_| "not run".to_owned())
    })?;
    let other = match case.expected {
        Expected::Shares(_) => Some(first_run(&simulated(case, weir)?)?),
        _ => None,
    };
    judge(case, &run, other.as_ref())
}

fn first_run(text: &str) -> Result<Value> {
    let mut report: Value = serde_json::from_str(text).context("no report")?;
    Ok(report["runs"][0].take())
}

/// Returns the report of the same run in the model.
fn simulated(case: &Case, weir: &Path) -> Result<String> {
    let path = parts::state().join(format!("{}.json", case.name));
    fs::write(&path, case.workload)?;
    let machine = match case.cpus {
        1 => crate::root().join(MACHINE).display().to_string(),
        cpus => format!("core:{cpus} pu:1"),
    };
    let output = Command::new(weir)
        .args(["sim", case.scheduler, "--for", case.time, "--format", "json", "-m", &machine, "-w"])
        .arg(&path)
        .output()
        .with_context(|| format!("{}", weir.display()))?;
    fs::remove_file(&path)?;
    if !output.status.success() {
        bail!("weir sim: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Judges a run. `model` is the report of the same run in the model, for shares.
fn judge(case: &Case, run: &Value, model: Option<&Value>) -> Result<String> {
    if run["outcome"] == "ejected" {
        bail!("the scheduler was ejected");
    }
    let count = run["violation_count"].as_u64().context("no property was checked")?;
    let broken: Vec<&str> = list(&run["violations"], |it| it["property"].as_str());
    let unseen: Vec<&str> = list(&run["not_seen"], Value::as_str);
    match &case.expected {
        Expected::Kept(seen) => {
            if count > 0 {
                bail!("{count} violations of promises: {}", run["violations"][0]);
            }
            if let Some(name) = seen.iter().find(|name| unseen.contains(name)) {
                bail!("{name} was not checked");
            }
            Ok(format!("no violation; checked: {}", seen.join(", ")))
        }
        Expected::Broken(name) if broken.contains(name) => Ok(format!("{name} is violated; {count} violations in all")),
        Expected::Broken(name) => bail!("{name} is not reported as violated; {count} other violations"),
        Expected::Shares(due) => {
            let model = model.context("no run of the model")?;
            let rows = due.iter().map(|(name, due)| (*name, share(run, name), share(model, name), *due));
            shares(&rows.collect::<Vec<_>>())
        }
    }
}

fn list<'a>(array: &'a Value, text: impl Fn(&'a Value) -> Option<&'a str>) -> Vec<&'a str> {
    array.as_array().into_iter().flatten().filter_map(text).collect()
}

/// Returns the CPU time of tasks of this name, with or without a number suffix, in percent of all tasks of the
/// workload.
fn share(run: &Value, name: &str) -> f64 {
    let (mut own, mut all) = (0.0, 0.0);
    for task in run["tasks"].as_array().into_iter().flatten().filter(|task| task["kernel_thread"] != true) {
        let full = task["name"].as_str().unwrap_or_default();
        let stem = full.rsplit_once('-').map_or(full, |(stem, _)| stem);
        let time = task["cpu_ns"].as_f64().unwrap_or_default();
        all += time;
        own += if stem == name { time } else { 0.0 };
    }
    100.0 * own / all
}

/// Judges rows of name, share in the kernel, share in the model, and expected share.
fn shares(rows: &[(&str, f64, f64, Option<f64>)]) -> Result<String> {
    let text = rows.iter().map(|(name, kernel, model, due)| {
        let due = due.map_or(String::new(), |due| format!(", expected {due:.1}"));
        format!("{name} {kernel:.1} % (model {model:.1}{due})")
    });
    let text = text.collect::<Vec<_>>().join("; ");
    // A NaN share counts as not near.
    let near = |one: f64, other: f64| (one - other).abs() <= POINTS;
    let fine =
        rows.iter().all(|&(_, kernel, model, due)| near(kernel, model) && due.is_none_or(|due| near(kernel, due)));
    if !fine {
        bail!("more than {POINTS} points off: {text}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(expected: Expected) -> Case {
        Case { name: "it", scheduler: "fifo", cpus: 1, workload: "{}", time: "1s", expected }
    }

    fn report(broken: &[&str], unseen: &[&str], times: &[(&str, u64)]) -> Value {
        let violations: Vec<Value> = broken.iter().map(|name| json!({ "property": name })).collect();
        let tasks: Vec<Value> = times.iter().map(|(name, time)| json!({ "name": name, "cpu_ns": time })).collect();
        json!({ "outcome": "completed", "violations": violations, "violation_count": broken.len(),
            "not_seen": unseen, "tasks": tasks })
    }

    #[test]
    fn violated_or_unchecked_properties_fail_the_case() {
        let kept = case(Expected::Kept(&["windows"]));
        assert!(judge(&kept, &report(&[], &["caps"], &[]), None).is_ok());
        assert!(judge(&kept, &report(&[], &["windows"], &[]), None).is_err());
        assert!(judge(&kept, &report(&["caps"], &[], &[]), None).is_err());
        assert!(judge(&kept, &json!({ "outcome": "completed" }), None).is_err());
        assert!(judge(&kept, &json!({ "outcome": "ejected", "violation_count": 0 }), None).is_err());
        let broken = case(Expected::Broken("windows"));
        assert!(judge(&broken, &report(&["caps", "windows"], &[], &[]), None).is_ok());
        assert!(judge(&broken, &report(&["caps"], &[], &[]), None).is_err());
    }

    #[test]
    fn shares_must_match_the_model_and_the_expectation() {
        let both = case(Expected::Shares(&[("a", Some(75.0)), ("b", None)]));
        let of = |a, b| report(&[], &[], &[("a", a), ("b-0", b), ("b-1", b)]);
        assert!(judge(&both, &of(750, 125), Some(&of(760, 120))).is_ok());
        assert!(judge(&both, &of(750, 125), Some(&of(780, 110))).is_err(), "differs from the model");
        assert!(judge(&both, &of(780, 110), Some(&of(780, 110))).is_err(), "differs from the expected share");
        assert!(judge(&both, &of(0, 0), Some(&of(0, 0))).is_err(), "no task has run");
    }

    #[test]
    fn case_names_are_unique() {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
        assert!(chosen(&["shares-lotery".to_owned()]).is_err());
    }
}
