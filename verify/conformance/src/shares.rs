// SPDX-License-Identifier: GPL-2.0-only
//! CPU shares and latencies under load: timing decides here, so sizes are compared rather than sequences.
//!
//! `shares/` has the workloads, all for one CPU, the script that runs them in the deterministic virtual machine, a
//! model of that machine, and the results.

use anyhow::{Context, Result, anyhow};
use bpf_object::Object;
use event_log::{Event, Sink, TaskInfo};
use fault_plan::FaultPlan;
use ids::{CpuSet, Nanos, TaskId};
use launch_profile::Profile;
use machine_model::Machine;
use serde::Deserialize;
use simulator::{Scheduler, Setup};
use std::fmt::Write as _;
use std::path::Path;
use workload::Workload;

/// Tolerance of a share in percentage points,
pub const SHARE_POINTS: f64 = 0.5;
/// or as a part of the kernel's share, if that is more.
pub const SHARE_PART: f64 = 0.1;
/// Maximum factor between latencies.
pub const LATENCY_FACTOR: f64 = 3.0;
/// Minimum number of wakeups for percentiles: a task that never sleeps has only its start.
const WAKEUPS: u64 = 20;

/// The policies, in descending order of their latencies.
const POLICIES: [&str; 2] = ["fifo", "bfs"];
const EXCEPTIONS: &str = include_str!("../shares/exceptions.toml");
const MACHINE: &str = include_str!("../shares/icount.toml");
const WORKLOADS: [(&str, &str); 6] = [
    ("shares-2", include_str!("../shares/shares-2.json")),
    ("shares-4", include_str!("../shares/shares-4.json")),
    ("latency", include_str!("../shares/latency.json")),
    ("latency-busy", include_str!("../shares/latency-busy.json")),
    ("latency-nice", include_str!("../shares/latency-nice.json")),
    ("latency-shaken", include_str!("../shares/latency-shaken.json")),
];

/// A row whose share may differ by more.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    workload: String,
    policy: String,
    task: String,
    /// Tolerance in percentage points.
    points: f64,
    /// Reason, for display.
    reason: String,
}

/// Parses exceptions in the form of `shares/exceptions.toml`.
pub fn exceptions(text: &str) -> Result<Vec<Exception>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        row: Vec<Exception>,
    }
    Ok(toml::from_str::<File>(text).context("exceptions.toml")?.row)
}

/// Returns the exceptions of this repository.
///
/// # Panics
/// If they cannot be parsed, which a test would show.
pub fn own_exceptions() -> Vec<Exception> {
    exceptions(EXCEPTIONS).expect("exceptions.toml of this repository")
}

/// Results of one task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Got {
    /// The workload.
    pub workload: String,
    /// The scheduler.
    pub policy: String,
    /// Name of the task.
    pub task: String,
    /// CPU time in ns.
    pub cpu_ns: u64,
    /// Number of wakeups.
    pub wakeups: u64,
    /// Median of its wakeup latency, ns.
    pub p50_ns: u64,
    /// 90th percentile of its wakeup latency, ns.
    pub p90_ns: u64,
}

impl Got {
    fn is_beside(&self, other: &Got) -> bool {
        (&self.workload, &self.policy) == (&other.workload, &other.policy)
    }

    fn has_latency(&self) -> bool {
        self.wakeups >= WAKEUPS
    }
}

#[derive(Deserialize)]
struct Reports {
    runs: Vec<Report>,
}

#[derive(Deserialize)]
struct Report {
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    name: String,
    cpu_ns: u64,
    wakeup_latency_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    count: u64,
    p50: u64,
    p90: u64,
}

/// Returns all combinations of workload and policy.
fn combinations() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    WORKLOADS.iter().flat_map(|(name, text)| POLICIES.map(|policy| (*name, *text, policy)))
}

/// Reads the output of `weir run --format json`, `WORKLOAD-POLICY.json`.
pub fn reports(folder: &Path) -> Result<Vec<Got>> {
    let mut got = Vec::new();
    for (workload, _, policy) in combinations() {
        let path = folder.join(format!("{workload}-{policy}.json"));
        let place = || path.display().to_string();
        let reports: Reports =
            serde_json::from_str(&std::fs::read_to_string(&path).with_context(place)?).with_context(place)?;
        let [Report { tasks }] = &reports.runs[..] else {
            return Err(anyhow!("{}: {} runs; expected one", place(), reports.runs.len()));
        };
        got.extend(tasks.iter().map(|task| Got {
            workload: workload.to_owned(),
            policy: policy.to_owned(),
            task: task.name.clone(),
            cpu_ns: task.cpu_ns,
            wakeups: task.wakeup_latency_ns.count,
            p50_ns: task.wakeup_latency_ns.p50,
            p90_ns: task.wakeup_latency_ns.p90,
        }));
    }
    Ok(got)
}

/// Formats as text, one task per line.
pub fn write(got: &[Got]) -> String {
    let mut text = String::from("# workload policy task cpu_ns wakeups p50_ns p90_ns\n");
    for Got { workload, policy, task, cpu_ns, wakeups, p50_ns, p90_ns } in got {
        writeln!(text, "{workload} {policy} {task} {cpu_ns} {wakeups} {p50_ns} {p90_ns}").expect("a string takes all");
    }
    text
}

/// Parses the text of [`write`].
pub fn read(text: &str) -> Result<Vec<Got>> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    lines.map(|(line, number)| parse(line).ok_or_else(|| anyhow!("line {number}: expected seven columns"))).collect()
}

fn parse(line: &str) -> Option<Got> {
    let words: Vec<&str> = line.split(' ').collect();
    let [workload, policy, task, numbers @ ..] = &words[..] else { return None };
    let numbers = numbers.iter().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let [cpu_ns, wakeups, p50_ns, p90_ns] = numbers[..] else { return None };
    let (workload, policy, task) = (workload.to_string(), policy.to_string(), task.to_string());
    Some(Got { workload, policy, task, cpu_ns, wakeups, p50_ns, p90_ns })
}

pub(crate) struct Discard;

impl Sink for Discard {
    fn task(&mut self, _: Nanos, _: &TaskInfo) {}
    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}
    fn event(&mut self, _: &Event) {}
}

/// Returns the model's results.
pub fn simulated() -> Result<Vec<Got>> {
    let machine = Machine::from_toml("icount.toml", MACHINE)?;
    let mut got = Vec::new();
    for (name, text, policy) in combinations() {
        let workload = Workload::from_rt_app(name, text)?;
        let shipped = policies::find(policy).ok_or_else(|| anyhow!("no policy {policy}"))?;
        let setup = Setup {
            types: None,
            map_bytes: simulator::MAP_BYTES,
            machine: &machine,
            workload: &workload,
            scheduler: Scheduler::Object {
                object: &Object::parse(shipped.object)?,
                profile: &Profile::from_toml(policy, shipped.profile)?,
            },
            seed: 0,
            duration: None,
            faults: &FaultPlan::default(),
            kernel: (7, 2).into(),
        };
        let outcome = simulator::run(&setup, &mut Discard, &mut |_| ())?;
        let tasks = outcome.measures.tasks.iter().filter(|task| !task.kernel_thread);
        got.extend(tasks.map(|task| Got {
            workload: name.to_owned(),
            policy: policy.to_owned(),
            task: task.name.clone(),
            cpu_ns: task.account.run.0,
            wakeups: task.wakeup_latency.count,
            p50_ns: task.wakeup_latency.p50.0,
            p90_ns: task.wakeup_latency.p90.0,
        }));
    }
    Ok(got)
}

/// Returns the tolerance of a share in points: half a point, or a tenth of the kernel's share if that is more. So a
/// nice-19 task beside a nice-0 task, with 3.4 %, must have 2.9 to 3.9 %.
fn allowed_points(kernel_share: f64) -> f64 {
    SHARE_POINTS.max(SHARE_PART * kernel_share)
}

/// Returns a table, and whether everything is within the limits.
pub fn compare(kernel: &[Got], model: &[Got], exceptions: &[Exception]) -> (String, bool) {
    let mut text = format!(
        "{:13} {:6} {:11} {:>16} {:>6}  {:>21} {:>21}\n",
        "workload", "policy", "task", "share %", "points", "p50 ms", "p90 ms"
    );
    let mut well = kernel.len() == model.len();
    for there in kernel {
        let same = |here: &&Got| here.is_beside(there) && here.task == there.task;
        let Some(here) = model.iter().find(same) else {
            writeln!(text, "{} {} {}: not in the model", there.workload, there.policy, there.task)
                .expect("a string takes all");
            well = false;
            continue;
        };
        let shares = (share(there, kernel), share(here, model));
        let points = (shares.0 - shares.1).abs();
        let is_this =
            |row: &&Exception| (&row.workload, &row.policy, &row.task) == (&there.workload, &there.policy, &there.task);
        let exception = exceptions.iter().find(is_this);
        let within = points <= allowed_points(shares.0);
        let mut fits = exception.map_or(within, |row| points <= row.points);
        let mut columns = format!("{:7.2} {:8.2} {points:6.2}", shares.0, shares.1);
        if there.has_latency() {
            for (there, here) in [(there.p50_ns, here.p50_ns), (there.p90_ns, here.p90_ns)] {
                let factor = factor(there, here);
                fits &= factor <= LATENCY_FACTOR;
                let (there, here) = (there as f64 / 1e6, here as f64 / 1e6);
                write!(columns, "  {there:7.3} {here:7.3} x{factor:4.2}").expect("a string takes all");
            }
        }
        let mark = match exception {
            _ if !fits => "  TOO FAR".to_owned(),
            Some(_) if within => "  EXCEPTION NOT NEEDED".to_owned(),
            Some(row) => format!("  excepted: {}", row.reason),
            None => String::new(),
        };
        writeln!(text, "{:13} {:6} {:11} {columns}{mark}", there.workload, there.policy, there.task)
            .expect("a string takes all");
        well &= fits && (exception.is_none() || !within);
    }
    for (who, got) in [("kernel", kernel), ("model", model)] {
        for task in out_of_order(got) {
            writeln!(text, "{who}: {task} has no lower latency under {}", POLICIES[1]).expect("a string takes all");
            well = false;
        }
    }
    (text, well)
}

const BEGIN: &str = "<!-- made by UPDATE_EXPECT=1 cargo test -p conformance -->\n";
const END: &str = "<!-- end of the shares -->\n";

/// Returns a table of kernel and model for a document, with the largest differences.
///
/// # Errors
/// If the model lacks a task of the kernel.
pub fn markdown(kernel: &[Got], model: &[Got]) -> Result<String> {
    let mut text = String::from(
        "| workload | policy | task | share % | | p50 ms | | p90 ms | |\n|---|---|---|---|---|---|---|---|---|\n\
         | | | | kernel | model | kernel | model | kernel | model |\n",
    );
    let (mut most_points, mut largest_factor) = ((0.0, None), (0.0, None));
    for there in kernel {
        let here = model.iter().find(|here| here.is_beside(there) && here.task == there.task);
        let here = here.with_context(|| format!("{} under {}: not in the model", there.task, there.policy))?;
        let shares = (share(there, kernel), share(here, model));
        write!(text, "| {} | {} | {} | {:.2} | {:.2} |", there.workload, there.policy, there.task, shares.0, shares.1)?;
        raise(&mut most_points, (shares.0 - shares.1).abs(), there);
        for (there_ns, here_ns) in [(there.p50_ns, here.p50_ns), (there.p90_ns, here.p90_ns)] {
            if there.has_latency() {
                write!(text, " {:.3} | {:.3} |", there_ns as f64 / 1e6, here_ns as f64 / 1e6)?;
                raise(&mut largest_factor, factor(there_ns, here_ns), there);
            } else {
                text.push_str(" | |");
            }
        }
        text.push('\n');
    }
    let place =
        |got: Option<&Got>| got.map_or(String::new(), |got| format!("`{}` under `{}`", got.workload, got.policy));
    let ((points, whose_points), (factor, whose_factor)) = (most_points, largest_factor);
    writeln!(
        text,
        "\nThe largest differences are {points:.1} points, in {}, and a factor of {factor:.1}, in {}.",
        place(whose_points),
        place(whose_factor)
    )?;
    Ok(text)
}

fn raise<'a>(most: &mut (f64, Option<&'a Got>), value: f64, whose: &'a Got) {
    if value > most.0 {
        *most = (value, Some(whose));
    }
}

/// Replaces the table in a document.
///
/// # Errors
/// If the document lacks the markers.
pub fn in_page(page: &str, table: &str) -> Result<String> {
    let place = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = place.context("the document lacks the markers for the table of shares")?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// Returns the factor between two times, at least 1.
fn factor(a: u64, b: u64) -> f64 {
    (a.max(b) as f64) / (a.min(b).max(1) as f64)
}

/// Returns a task's share of its run's total, in percent.
fn share(got: &Got, all: &[Got]) -> f64 {
    let total: u64 = all.iter().filter(|other| got.is_beside(other)).map(|other| other.cpu_ns).sum();
    100.0 * got.cpu_ns as f64 / total.max(1) as f64
}

/// Returns the tasks whose median latency is not lower under the better policy.
fn out_of_order(got: &[Got]) -> Vec<String> {
    let under = |policy: &'static str| got.iter().filter(move |got| got.policy == policy && got.has_latency());
    let is_worse = |better: &&Got| {
        let same = |worse: &Got| (&worse.workload, &worse.task) == (&better.workload, &better.task);
        !under(POLICIES[0]).any(|worse| same(worse) && worse.p50_ns > better.p50_ns)
    };
    under(POLICIES[1]).filter(is_worse).map(|got| format!("{} {}", got.workload, got.task)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "latency fifo a 600 30 900 2000\nlatency fifo b 400 1 7 7\nlatency bfs a 600 30 100 200\n";

    #[test]
    fn latency_table_round_trips() {
        let got = read(KERNEL).unwrap();
        assert_eq!(read(&write(&got)).unwrap(), got);
        assert!(read("latency fifo a 600 30 900").unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn values_beyond_the_limits_are_named() {
        let kernel = read(KERNEL).unwrap();
        assert!(compare(&kernel, &kernel, &[]).1);
        for (model, name) in [
            (KERNEL.replace("600 30 900", "300 30 900"), "TOO FAR"),
            (KERNEL.replace("900 2000", "290 2000"), "TOO FAR"),
            (KERNEL.replace("900 2000", "900 6001"), "TOO FAR"),
            (KERNEL.replace("fifo b", "fifo c"), "not in the model"),
            (KERNEL.replace("30 100", "30 900"), "model: latency a has no lower latency"),
        ] {
            let (text, well) = compare(&kernel, &read(&model).unwrap(), &[]);
            assert!(!well && text.contains(name), "{name}: {text}");
        }
    }

    /// A share may differ by half a percentage point or a tenth of itself, whichever is more. What one task gains, the
    /// other loses: of 60 and 40 % the second is stricter, at 4 points.
    #[test]
    fn cpu_share_may_differ_by_half_a_percentage_point_or_a_tenth_of_itself() {
        let kernel = read(KERNEL).unwrap();
        for (cpu_ns, fits) in [(600, true), (520, true), (500, false), (700, true), (720, false), (0, false)] {
            let model = KERNEL.replace("fifo a 600", &format!("fifo a {cpu_ns}"));
            assert_eq!(compare(&kernel, &read(&model).unwrap(), &[]).1, fits, "{cpu_ns}");
        }
        assert_eq!([0.0, 3.42, 5.0, 50.0].map(allowed_points), [0.5, 0.5, 0.5, 5.0]);
    }

    #[test]
    fn exception_to_a_comparison_states_its_reason_and_unneeded_ones_fail() {
        let row = "[[row]]\nworkload = \"latency\"\npolicy = \"fifo\"\ntask = \"a\"\npoints = 20.0\nreason = \"why\"\n";
        let kernel = read(KERNEL).unwrap();
        let other = read(&KERNEL.replace("fifo a 600", "fifo a 900")).unwrap();
        let [b] = [row.replace("\"a\"", "\"b\"")];
        let rows = exceptions(&format!("{row}{b}")).unwrap();
        let (text, well) = compare(&kernel, &other, &rows);
        assert!(well && text.contains("excepted: why"), "{text}");
        let (text, well) = compare(&kernel, &kernel, &rows);
        assert!(!well && text.contains("EXCEPTION NOT NEEDED"), "{text}");
        assert!(exceptions("[[row]]\nworkload = \"x\"\n").is_err());
    }
}
