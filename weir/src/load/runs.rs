// SPDX-License-Identifier: GPL-2.0-only
//! The runs of `weir load`: one for each scheduler, rate and seed.

use super::args::Load;
use crate::args::{Args, Command, Sim};
use crate::failed::Failed;
use crate::plan::{Plan, Run};
use crate::{output, sim};
use anyhow::{Context, Result, bail};
use clap::Parser;
use ids::Nanos;
use measures::{RequestMeasures, RunMeasures};
use output_file::Target;
use queueing::{Curve, Point, Resource};
use report::RunReport;
use workload::{Arrivals, Workload};

/// Part of a run that is not measured, by default: one of this many.
const WARMUP: u64 = 10;

/// Runs every scheduler at every rate with every seed.
pub fn curves(args: &Load, page: &Option<Target>) -> Result<Vec<Curve>> {
    let twice = args.schedulers.iter().enumerate().find(|(at, name)| args.schedulers[..*at].contains(name));
    if let Some((_, name)) = twice {
        bail!("{name} is named twice; expected different schedulers");
    }
    let mut plan = Plan::of(&setup(args)?)?;
    if let Some((_, error)) = plan.broken.pop() {
        return Err(error);
    }
    output::refuse_inputs([page])?;
    let base = plan.runs();
    let Some(first) = base.first() else { bail!("no run to make") };
    let rates = rates(args, first.workload)?;
    let workloads = rates.iter().map(|&rate| at_rate(first.workload, rate, args)).collect::<Result<Vec<_>>>()?;
    let runs: Vec<Run<'_>> =
        workloads.iter().flat_map(|workload| base.iter().map(move |run| Run { workload, ..*run })).collect();
    let mut curves: Vec<Curve> = Vec::new();
    let reports = sim::reports(&runs)?.into_iter().collect::<Result<Vec<RunReport>>>()?;
    for (at, reports) in reports.chunks(base.len()).enumerate() {
        for scheduler in &args.schedulers {
            let of_scheduler: Vec<&RunReport> =
                reports.iter().filter(|report| report.tags.scheduler == *scheduler).collect();
            let Some(report) = of_scheduler.first() else {
                bail!("{scheduler} is not a scheduler of the command line");
            };
            let point = point(rates[at], &of_scheduler)?;
            match curves.iter_mut().find(|curve| curve.scheduler == *scheduler) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    scheduler: scheduler.clone(),
                    machine: report.tags.machine.clone(),
                    workload: report.tags.workload.clone(),
                    servers: first.machine.online_cpus().len() as u32,
                    is_open_station: workloads[0].is_open_station() && runs_anywhere(&workloads[0]),
                    seeds: of_scheduler.len() as u64,
                    points: vec![point],
                }),
            }
        }
    }
    curves.sort_by_key(|curve| args.schedulers.iter().position(|name| *name == curve.scheduler));
    Ok(curves)
}

/// Whether every worker may use every CPU.
fn runs_anywhere(workload: &Workload) -> bool {
    workload.tasks.iter().all(|task| task.cpus.is_none())
}

/// The rates in ascending order: those of the command line, or that of the file of arrivals.
fn rates(args: &Load, workload: &Workload) -> Result<Vec<f64>> {
    let [source] = &workload.sources[..] else {
        let problem = match workload.sources.len() {
            0 => "has no source of requests".to_owned(),
            count => format!("has {count} sources of requests"),
        };
        bail!(
            "workload {} {problem}; expected one, as in requests, or in an rt-app file with \"sources\"",
            workload.name
        );
    };
    let mut rates = args.rates.clone();
    if rates.is_empty() && matches!(source.arrivals, Arrivals::Times(_)) {
        rates.push(source.rate_per_s());
    }
    if rates.is_empty() {
        bail!("expected --rates with arrivals for each second, such as --rates 100,200,400,800");
    }
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    Ok(rates)
}

/// The workload with this rate of arrivals, ending after the wanted number of requests or time.
fn at_rate(workload: &Workload, rate_per_s: f64, args: &Load) -> Result<Workload> {
    let mut workload = workload.clone();
    let source = &mut workload.sources[0];
    source.set_rate(rate_per_s);
    let duration = match (args.duration, &source.arrivals) {
        (Some(duration), _) => duration,
        (None, Arrivals::Times(times)) => times.last().copied().unwrap_or_default(),
        (None, _) => Nanos((args.requests as f64 / rate_per_s * 1e9) as u64),
    };
    let warmup = args.warmup.unwrap_or(Nanos(duration.0 / WARMUP));
    if warmup >= duration {
        bail!("--warmup {warmup} leaves nothing to measure of {duration} at {rate_per_s} requests per second");
    }
    source.measured_from = warmup;
    workload.duration = Some(duration);
    workload.validate()?;
    Ok(workload)
}

/// Results of one scheduler at one rate, over all seeds.
fn point(rate_per_s: f64, reports: &[&RunReport]) -> Result<Point> {
    let mut all = RequestMeasures::default();
    let (mut means, mut busy, mut whole) = (Vec::new(), 0, 0);
    for report in reports {
        if report.ending.outcome() != report::Outcome::Completed {
            let name = output::name(report);
            bail!(Failed(format!("{name} at {rate_per_s} per second did not complete: weir sim shows the reason")));
        }
        let measures = &report.measures;
        let requests = measures.requests.first().context("a workload with a source measures its requests")?;
        all.add(requests);
        if requests.completed() > 0 {
            means.push(requests.latency().mean.0 as f64);
        }
        busy += busy_ns(measures);
        whole += busy_ns(measures) + measures.cpu.idle.0;
    }
    let latency = (all.completed() > 0).then(|| all.latency());
    let cpus = Resource {
        name: "cpus".to_owned(),
        utilization_ppm: (u128::from(busy) * 1_000_000 / u128::from(whole.max(1))) as u64,
    };
    Ok(Point {
        rate_per_s,
        arrivals: all.arrivals,
        completed: all.completed(),
        throughput_per_s: all.completed() as f64 * 1e9 / all.measured.0.max(1) as f64,
        latency_ns: latency.map(|latency| [latency.mean.0, latency.p50.0, latency.p99.0]),
        mean_interval_ns: queueing::interval_of_mean(&means).map(|ends| ends.map(|end| end.max(0.0).round() as u64)),
        service_ns: busy.checked_div(all.served),
        resources: [cpus].into_iter().chain(devices(reports)).collect(),
    })
}

/// Use of each disk that served requests, and of each part of a network that was called: the mean of all runs.
fn devices(reports: &[&RunReport]) -> Vec<Resource> {
    let of_run = |report: &RunReport| {
        let measures = &report.measures;
        let used = measures.disks.iter().flatten().filter(|disk| disk.reads + disk.writes > 0);
        let used =
            used.filter_map(|disk| Some((format!("disk:{}", disk.name), disk.utilization_ppm(measures.elapsed)?)));
        let networks = measures.networks.iter().flatten().filter(|network| network.calls > 0);
        let parts = networks.flat_map(|network| {
            let parts = ["out", "back", "server"].map(|part| format!("network:{}:{part}", network.name));
            parts.into_iter().zip(network.utilization_ppm(measures.elapsed))
        });
        used.chain(parts).collect::<Vec<_>>()
    };
    let mut sums: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for (name, ppm) in reports.iter().flat_map(|report| of_run(report)) {
        *sums.entry(name).or_default() += ppm;
    }
    let mean = |(name, sum): (String, u64)| Resource { name, utilization_ppm: sum / reports.len().max(1) as u64 };
    sums.into_iter().map(mean).collect()
}

/// Time of all CPUs that was not idle or offline, in nanoseconds.
fn busy_ns(measures: &RunMeasures) -> u64 {
    let cpu = &measures.cpu;
    (cpu.run + cpu.scheduler + cpu.stolen).0
}

/// A value in the grammar of workloads.
fn escaped(value: &str) -> String {
    let escape = |c: char| if matches!(c, ',' | '+' | '=' | '\\') { format!("\\{c}") } else { c.to_string() };
    value.chars().map(escape).collect()
}

/// The command line of `weir sim` that names the same inputs.
fn setup(args: &Load) -> Result<Sim> {
    let mut words = vec!["weir".to_owned(), "sim".to_owned()];
    words.extend(args.schedulers.iter().cloned());
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), value.to_owned()]);
    let workload = match &args.arrivals {
        None => args.workload.clone(),
        Some(how) => format!("{},arrivals={}", args.workload, escaped(how)),
    };
    option("machine", &args.machine);
    option("workload", &workload);
    option("kernel", &args.kernel.to_string());
    match args.seeds {
        Some(seeds) => option("seeds", &seeds.to_string()),
        None => option("seed", &args.seed.to_string()),
    }
    args.disks.iter().for_each(|disk| option("disk", disk));
    args.networks.iter().for_each(|network| option("network", network));
    args.page_cache.iter().for_each(|cache| option("page-cache", cache));
    let mut list = |name: &str, values: Vec<&str>| {
        if !values.is_empty() {
            option(name, &values.join(","));
        }
    };
    list("without", args.without.iter().map(|effect| effect.name()).collect());
    list("noise-off", args.noise_off.iter().map(|source| source.name()).collect());
    if let Some(cpus) = args.cpus {
        option("cpus", &cpus.to_string());
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
