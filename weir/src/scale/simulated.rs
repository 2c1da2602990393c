// SPDX-License-Identifier: GPL-2.0-only
//! Throughput of simulated runs.

use super::args::Scale;
use super::{Curve, Next, check_sizes};
use crate::args::{Args, Command, Sim};
use crate::failed::Failed;
use crate::plan::Plan;
use crate::{output, select, sim};
use anyhow::{Context, Result, bail};
use clap::Parser;
use ids::Nanos;
use measures::catalogue::{Better, CATALOGUE, Measure, Unit};
use output_file::Target;
use report::RunReport;
use scaling::Point;
use serde_json::json;
use std::collections::BTreeMap;

/// Share of idle time from which a lack of tasks is named as the limit.
const IDLE: f64 = 0.2;

/// What the sizes are.
#[derive(Clone, Copy)]
enum By {
    Cpus,
    Jobs,
    Clients,
    Spindles,
}

/// Runs every size with every scheduler and seed.
pub fn simulate(args: &Scale, page: &Option<Target>) -> Result<Vec<Curve>> {
    let twice = args.what.iter().enumerate().find(|(at, name)| args.what[..*at].contains(name));
    if let Some((_, name)) = twice {
        bail!("{name} is named twice; expected different schedulers");
    }
    let (by, sizes) = match (&*args.cpus, &*args.jobs, &*args.clients, &*args.spindles) {
        (cpus @ [_, ..], ..) => (By::Cpus, cpus),
        (_, jobs @ [_, ..], ..) => (By::Jobs, jobs),
        (_, _, clients @ [_, ..], _) => (By::Clients, clients),
        (.., spindles @ [_, ..]) => (By::Spindles, spindles),
        _ => bail!("expected the sizes: --cpus, --jobs, --clients or --spindles with a list such as 1,2,4,8,16,32"),
    };
    let Some(measure) = CATALOGUE.iter().find(|measure| measure.key == args.measure) else {
        bail!("--measure {}: expected a key of weir list measures, such as work_ns or makespan_ns", args.measure);
    };
    check_sizes(sizes, args.seeds.unwrap_or(1))?;
    let largest = sizes.iter().copied().max().unwrap_or(1);
    let mut curves: Vec<Curve> = args.what.iter().map(|name| empty(name, args, by, largest)).collect();
    let mut last: Vec<Option<RunReport>> = args.what.iter().map(|_| None).collect();
    let mut plans = sizes.iter().map(|&size| Plan::of(&setup(args, by, size)?)).collect::<Result<Vec<_>>>()?;
    if let Some((_, error)) = plans.iter_mut().find_map(|plan| plan.broken.pop()) {
        return Err(error);
    }
    output::refuse_inputs([page])?;
    let runs: Vec<_> =
        sizes.iter().zip(&plans).flat_map(|(&n, plan)| plan.runs().into_iter().map(move |run| (n, run))).collect();
    let only: Vec<_> = runs.iter().map(|(_, run)| *run).collect();
    for ((n, _), report) in runs.iter().zip(sim::reports(&only)?) {
        let report = report?;
        let at = args.what.iter().position(|name| *name == report.tags.scheduler);
        let at = at.with_context(|| format!("{} is not a scheduler of the command line", report.tags.scheduler))?;
        if report.ending.outcome() != report::Outcome::Completed {
            let (name, unit) = (output::name(&report), curves[at].unit);
            bail!(Failed(format!("{name} with {n} {unit} did not complete: weir sim shows the reason")));
        }
        let curve = &mut curves[at];
        curve.points.push(Point { n: f64::from(*n), throughput: throughput(&report, measure)? });
        curve.details.push(details(&report));
        if last[at]
            .as_ref()
            .is_none_or(|_| f64::from(*n) >= curve.points.iter().map(|point| point.n).fold(0.0, f64::max))
        {
            last[at] = Some(report);
        }
    }
    for (curve, report) in curves.iter_mut().zip(last.iter().flatten()) {
        curve.next = next(report, args);
    }
    Ok(curves)
}

fn empty(scheduler: &str, args: &Scale, by: By, largest: u32) -> Curve {
    let unit = match by {
        By::Cpus => "CPUs",
        By::Jobs => "jobs",
        By::Clients => "clients",
        By::Spindles => "spindles",
    };
    let name = format!("{scheduler} on {}, workload {}, by {unit}", args.machine, args.workload);
    let (points, details) = (vec![], vec![]);
    Curve {
        name,
        unit,
        points,
        details,
        notes: parallelism(args, by, largest).into_iter().collect(),
        next: Next::default(),
    }
}

/// Parallelism of the workload of the largest size, which no machine and no scheduler can exceed.
fn parallelism(args: &Scale, by: By, largest: u32) -> Option<String> {
    let duration = args.duration.as_ref().and_then(|text| text.parse().ok());
    let cpus = match by {
        By::Cpus => largest,
        By::Jobs | By::Clients | By::Spindles => select::machine(&args.machine).ok()?.online_cpus().len() as u32,
    };
    let workload = select::workload(&workload(args, by, largest), cpus).ok()?;
    let span = workload.span(duration, 1).ok().filter(|span| span.is_complete && span.span > Nanos::ZERO)?;
    let available = span.work.0 as f64 / span.span.0 as f64;
    Some(format!(
        "parallelism available: {available:.1} CPUs on average ({} of work, {} on unlimited CPUs; weir workload shows the \
         chain)",
        span.work, span.span
    ))
}

/// The workload of one size.
fn workload(args: &Scale, by: By, size: u32) -> String {
    match by {
        By::Cpus | By::Spindles => args.workload.clone(),
        By::Jobs => format!("{},jobs={size}", args.workload),
        By::Clients => format!("{},count={size}", args.workload),
    }
}

/// The command line of `weir sim` for one size.
fn setup(args: &Scale, by: By, size: u32) -> Result<Sim> {
    let workload = workload(args, by, size);
    let mut words = vec!["weir".to_owned(), "sim".to_owned()];
    words.extend(args.what.iter().cloned());
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), value.to_owned()]);
    option("machine", &args.machine);
    option("workload", &workload);
    option("kernel", &args.kernel);
    let disk = args.disk.as_deref();
    match by {
        By::Cpus => option("cpus", &size.to_string()),
        By::Spindles => option("disk", &format!("{},spindles={size}", disk.unwrap_or("hdd-7200"))),
        By::Jobs | By::Clients => {}
    }
    if let Some(disk) = disk.filter(|_| !matches!(by, By::Spindles)) {
        option("disk", disk);
    }
    if let Some(duration) = &args.duration {
        option("for", duration);
    }
    match args.seeds {
        Some(seeds) => option("seeds", &seeds.to_string()),
        None => option("seed", "0"),
    }
    if !args.without.is_empty() {
        option("without", &args.without.iter().map(|effect| effect.name()).collect::<Vec<_>>().join(","));
    }
    if let Some(profile) = &args.profile {
        option("profile", &profile.to_string_lossy());
    }
    match Args::try_parse_from(words) {
        Ok(Args { command: Command::Sim(sim) }) => Ok(sim),
        Ok(_) => unreachable!("the words name weir sim"),
        Err(error) => {
            let text = error.render().to_string();
            bail!("{}", text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: "))
        }
    }
}

/// Units of work for each second.
fn throughput(report: &RunReport, measure: &Measure) -> Result<f64> {
    let Some(value) = (measure.value)(&report.measures).filter(|&value| value > 0) else {
        bail!("{}: {} has no value above 0", output::name(report), measure.key);
    };
    let time = report.measures.makespan.unwrap_or(report.measures.elapsed);
    Ok(match (measure.unit, measure.better) {
        (Unit::Nanoseconds, Better::Less) => 1e9 / value as f64,
        (Unit::Nanoseconds, _) => value as f64 / time.0 as f64,
        (Unit::Count, _) => value as f64 * 1e9 / time.0 as f64,
    })
}

fn details(report: &RunReport) -> serde_json::Value {
    let measures = &report.measures;
    json!({
        "seed": report.tags.seed,
        "elapsed_ns": measures.elapsed.0,
        "makespan_ns": measures.makespan.map(|time| time.0),
        "wakeup_latency_p99_ns": (measures.wakeup_latency.count > 0).then_some(measures.wakeup_latency.p99.0),
        "lock_wait_ns": measures.lock_wait.map(|time| time.0),
        "spin_ns": measures.spin.map(|time| time.0),
    })
}

/// The next step: the worst lock if there is one, else the chain.
fn next(report: &RunReport, args: &Scale) -> Next {
    let cpus = report.measures.cpus.len().max(1) as u64;
    let whole = report.measures.elapsed.0.saturating_mul(cpus);
    let time = whole.saturating_sub(report.measures.cpu.offline.0).max(1) as f64;
    let mut waits: BTreeMap<(&str, &str), (Nanos, u64)> = BTreeMap::new();
    for lock in report.measures.locks.iter().flatten().filter(|lock| lock.wait_total > Nanos::ZERO) {
        let (wait, callers) = waits.entry((lock.kind, &lock.lock)).or_default();
        (*wait, *callers) = (*wait + lock.wait_total, *callers + 1);
    }
    let worst = waits.into_iter().max_by_key(|(_, (wait, _))| *wait);
    let lock = worst.map(|((kind, lock), (wait, callers))| {
        format!(
            "the worst lock with the largest size is {kind} {lock}: {} waited {wait} for it, {:.1} % of all CPU time; save that \
             run with weir sim --save and look at weir meter locks",
            report::counted(callers, "caller"),
            100.0 * wait.0 as f64 / time
        )
    });
    let chain = format!(
        "no lock was waited for: look at the longest chain (weir workload {}, or weir explain --chain of a saved run)",
        output::quote(&args.workload)
    );
    let idle = report.measures.cpu.idle.0 as f64 / time;
    let few = format!(
        "CPUs idled for {:.0} % of the time with the largest size: the workload has too few runnable tasks for it, so neither \
         locks nor lines are the limit",
        100.0 * idle
    );
    let contention = if idle > IDLE { few } else { lock.unwrap_or(chain) };
    Next { coherency: contention.clone(), contention, none: "measure larger sizes: nothing limits these".to_owned() }
}
