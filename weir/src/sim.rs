// SPDX-License-Identifier: GPL-2.0-only
//! `weir sim`: simulates every combination of scheduler, machine, workload and seed in parallel, and reports in
//! order.

use crate::args::{Format, Sim};
use crate::output::{self, Delivery, create, quote};
use crate::printk::{self, Printed, Printer};
use crate::progress::Progress;
use crate::refusals::Refusals;
use crate::select::{self, Loadable, Scheduler};
use crate::suites::{self, Suites};
use crate::{coverage, input, notes, save};
use anyhow::{Context, Result, bail};
use bpf_object::LinkedObject;
use event_log::{JsonLines, LogWriter, Sink, Tee, perfetto};
use fault_plan::FaultPlan;
use invariants::{Checker, Promises};
use kernel_model::{Coverage, Kernel};
use machine_model::Machine;
use report::{RunReport, Tags};
use simulator::Setup;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use workload::Workload;

/// Default number of seeds when schedulers are compared. With fewer than six pairs a significance test can never
/// reject; 16 leave room for the multiple comparisons of a table with a few schedulers.
const SEEDS: u64 = 16;

/// Default number of seeds for each sample of the machine's constants, whose median represents the sample.
const SEEDS_PER_SAMPLE: u64 = 3;

/// One combination of scheduler, machine, workload and seed.
#[derive(Clone, Copy)]
struct Run<'a> {
    scheduler: &'a Scheduler,
    machine: &'a Machine,
    workload: &'a Workload,
    faults: &'a FaultPlan,
    /// Index of the sample of the machine's uncertain constants; 0 has the typical values.
    draw: u64,
    seed: u64,
}

/// Result of a run.
struct Done {
    report: RunReport,
    printed: Printed,
    coverage: Coverage,
}

/// Simulates and reports. Returns false if a scheduler was ejected, or a run ended in a deadlock.
pub fn sim(args: &Sim) -> Result<bool> {
    let suites = Suites::of(&args.workloads)?;
    let seeds = seeds(args, &suites);
    let draws = args.draws.unwrap_or(1) as usize;
    let count = args.schedulers.len() * args.machines.len() * suites.workloads.len() * draws * seeds.len();
    if count > 1 && (args.trace.is_some() || args.log.is_some()) {
        let hint = if seeds.len() > 1 && args.draws.is_none() { "; --seed 0 makes one run of each setup" } else { "" };
        bail!("--trace and --log need a single run, and these are {count} runs{hint}");
    }
    output::check(&files(args))?;
    if args.save.is_some() || args.report.is_some() {
        input::remember();
    }
    let (schedulers, broken) = schedulers(args)?;
    let nominal = args.machines.iter().map(|name| select::machine(name)).collect::<Result<Vec<_>>>()?;
    notes::tell_needless(&args.without, &nominal);
    let nominal: Vec<Machine> = nominal.into_iter().map(|machine| left_out(machine, args)).collect();
    let machines = nominal.iter().map(|machine| sampled(machine, args)).collect::<Result<Vec<_>>>()?;
    let workloads = workloads(&suites.workloads, &nominal, &schedulers)?;
    let faults = &args.faults.as_deref().map(select::faults).transpose()?.unwrap_or_default();
    let mut runs = Vec::new();
    for workloads in &workloads {
        for (machine, workload) in machines.iter().zip(workloads) {
            for scheduler in &schedulers {
                for &(draw, ref machine) in machine {
                    runs.extend(seeds.iter().map(|&seed| Run { scheduler, machine, workload, faults, draw, seed }));
                }
            }
        }
    }
    if args.format == Format::Text {
        notes::tell_recorded(&suites.workloads)?;
        eprintln!("{}", report::escape(&command_line(args)));
        let is_default = args.seed.is_none() && args.seeds.is_none() && args.draws.is_none();
        if is_default && !suites.has_rounds() && seeds.len() > 1 {
            eprintln!(
                "weir: {count} runs, because schedulers are compared with {SEEDS} seeds; --seed 0 makes one run of each"
            );
        }
    }
    let mut covered = Coverage::default();
    let mut reports = Vec::new();
    let names: Vec<&str> = machines.iter().flatten().map(|(_, machine)| machine.name.as_str()).collect();
    let mut refusals = Refusals::default();
    broken.into_iter().for_each(|(scheduler, error)| refusals.add_broken(&scheduler, &names, error));
    for (run, done) in runs.iter().zip(run_all(&runs, args)) {
        let Done { report, printed, coverage } = match done {
            Ok(done) => done,
            Err(error) if args.schedulers.len() > 1 => {
                refusals.add(&run.scheduler.name, &run.machine.name, error)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        printk::tell(&output::name(&report), &printed);
        covered.add(&coverage);
        reports.push(report);
    }
    refusals.check(&reports)?;
    let setup =
        save::Setup { command_line: command_line(args), schedulers: &schedulers, machines: &nominal, events: vec![] };
    let (save, report) = (args.save.as_deref(), args.report.as_deref());
    let how = Delivery { format: args.format, all: args.all, suites: &suites, save, report };
    how.deliver(&reports, &refusals, &setup)?;
    if let Some(to) = &args.coverage {
        tell_coverage(&covered, to.as_deref(), args.format)?;
    }
    refusals.fail()?;
    Ok(reports.iter().all(RunReport::is_fine))
}

/// Schedulers of the command line with their planned calls, and those whose objects are invalid.
fn schedulers(args: &Sim) -> Result<(Vec<Scheduler>, Vec<select::Broken>)> {
    let (mut schedulers, broken) = select::schedulers_apart(&args.schedulers, args.profile.as_deref())?;
    select::plan(&mut schedulers, &args.calls)?;
    check_kernel(&schedulers, args)?;
    notes::tell(&schedulers, args.btf.as_ref());
    Ok((schedulers, broken))
}

/// Output files.
fn files(args: &Sim) -> [(&str, Option<&Path>); 5] {
    [
        ("--trace", args.trace.as_deref()),
        ("--log", args.log.as_deref()),
        ("--coverage", args.coverage.as_ref().and_then(|file| file.as_deref())),
        ("--save", args.save.as_deref()),
        ("--report", args.report.as_deref()),
    ]
}

/// Shows line coverage, or writes it to a file. Next to a JSON or CSV document on standard output it goes to standard
/// error.
fn tell_coverage(coverage: &Coverage, to: Option<&Path>, format: Format) -> Result<()> {
    match to {
        Some(path) => {
            let mut out = create(path)?;
            let written = out.write_all(coverage::to_lcov(coverage).as_bytes()).and_then(|()| out.flush());
            written.with_context(|| path.display().to_string())
        }
        None if format == Format::Text => output::print(&coverage::to_text(coverage)).map(|_| ()),
        None => {
            eprint!("{}", coverage::to_text(coverage));
            Ok(())
        }
    }
}

/// The machine without the disabled hardware effects and noise sources.
fn left_out(mut machine: Machine, args: &Sim) -> Machine {
    args.without.iter().for_each(|&effect| machine.effects.switch_off(effect));
    machine.noise = args.noise_off.iter().fold(machine.noise, |noise, &source| noise.without(source));
    machine
}

/// The machine itself, or all samples of its uncertain constants, with their indices.
fn sampled(machine: &Machine, args: &Sim) -> Result<Vec<(u64, Machine)>> {
    let Some(draws) = args.draws else { return Ok(vec![(0, machine.clone())]) };
    if !machine.is_uncertain() {
        bail!("--draws: machine {} has no uncertain parameters ([low, typical, high])", machine.name);
    }
    Ok((1..=draws).map(|draw| (draw, machine.drawn(draw, draws))).collect())
}

/// The workloads for each machine; some depend on the number of CPUs.
fn workloads(names: &[String], machines: &[Machine], schedulers: &[Scheduler]) -> Result<Vec<Vec<Workload>>> {
    let on = |name: &str, machine: &Machine| select::workload(name, machine.online_cpus().len() as u32);
    let on_all = |name: &String| machines.iter().map(|machine| on(name, machine)).collect();
    let workloads: Vec<Vec<Workload>> = names.iter().map(on_all).collect::<Result<_>>()?;
    notes::tell_weights(schedulers, workloads.iter().flatten());
    Ok(workloads)
}

/// Seeds to run. Each round of a suite uses its own seed.
fn seeds(args: &Sim, suites: &Suites) -> Vec<u64> {
    match (args.seed, args.seeds) {
        (Some(seed), _) => vec![seed],
        (None, Some(seeds)) => (1..=seeds).collect(),
        (None, None) if args.draws.is_some() => (1..=SEEDS_PER_SAMPLE).collect(),
        (None, None) if suites.has_rounds() => (1..=suites::ROUNDS).collect(),
        (None, None) if args.schedulers.len() > 1 => (1..=SEEDS).collect(),
        (None, None) => vec![0],
    }
}

/// Command line with all defaults filled in, for bug reports.
fn command_line(args: &Sim) -> String {
    let mut words = vec!["weir".to_owned(), "sim".to_owned()];
    words.extend(args.schedulers.iter().map(|name| quote(name)));
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), quote(value)]);
    args.machines.iter().for_each(|machine| option("machine", machine));
    args.workloads.iter().for_each(|workload| option("workload", workload));
    if let Some(duration) = args.duration {
        option("for", &duration.exact().to_string());
    }
    let suites = Suites::of(&args.workloads).unwrap_or_default();
    match seeds(args, &suites).as_slice() {
        [seed] if args.seeds.is_none() => option("seed", &seed.to_string()),
        seeds => option("seeds", &seeds.len().to_string()),
    }
    if let Some(draws) = args.draws {
        option("draws", &draws.to_string());
    }
    option("kernel", &args.kernel.to_string());
    if !args.without.is_empty() {
        let words: Vec<&str> = args.without.iter().map(|effect| effect.name()).collect();
        option("without", &words.join(","));
    }
    if !args.noise_off.is_empty() {
        let words: Vec<&str> = args.noise_off.iter().map(|source| source.name()).collect();
        option("noise-off", &words.join(","));
    }
    if let Some(faults) = &args.faults {
        option("faults", faults);
    }
    args.calls.iter().for_each(|call| option("call", &call.to_string()));
    if let Some(types) = &args.btf {
        option("btf", types.name());
    }
    if let Some(profile) = &args.profile {
        option("profile", &profile.to_string_lossy());
    }
    if args.check {
        words.push("--check".to_owned());
    }
    words.join(" ")
}

/// Rejects sched_ext schedulers for kernel versions that model only the default scheduler.
fn check_kernel(schedulers: &[Scheduler], args: &Sim) -> Result<()> {
    let foreign = |scheduler: &&Scheduler| scheduler.loadable.is_some() && !args.kernel.has_sched_ext();
    schedulers.iter().find(foreign).map_or(Ok(()), |scheduler| {
        bail!("--kernel {}: sched_ext is modelled only for 7.2, and {} needs it", args.kernel, scheduler.name)
    })
}

/// Runs the single run of this command line.
///
/// # Errors
/// If it cannot start.
pub fn one(args: &Sim, scheduler: &Scheduler, progress: &Progress) -> Result<RunReport> {
    let machine = &left_out(select::machine(&args.machines[0])?, args);
    let workload = &select::workload(&args.workloads[0], machine.online_cpus().len() as u32)?;
    let faults = &args.faults.as_deref().map(select::faults).transpose()?.unwrap_or_default();
    let run = Run { scheduler, machine, workload, faults, draw: 0, seed: args.seed.unwrap_or(0) };
    Ok(run_one(run, args, progress)?.report)
}

/// Executes all runs, each on a single thread without shared state, on one thread for each host CPU; results are in
/// the order of `runs`.
fn run_all(runs: &[Run<'_>], args: &Sim) -> Vec<Result<Done>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    let (next, progress) = (AtomicUsize::new(0), Progress::new(runs.len()));
    let results: Vec<Mutex<Option<Result<Done>>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(index) else { break };
                    *results[index].lock().expect("only this thread locks it") = Some(run_one(*run, args, &progress));
                }
            });
        }
    });
    progress.end();
    let done =
        |result: Mutex<Option<_>>| result.into_inner().expect("no thread panicked").expect("every run was executed");
    results.into_iter().map(done).collect()
}

/// Simulator setup of a run.
fn setup<'a>(run: Run<'a>, args: &'a Sim) -> Setup<'a> {
    let Run { scheduler, machine, workload, faults, seed, .. } = run;
    let scheduler = match &scheduler.loadable {
        None => simulator::Scheduler::Kernel,
        Some(Loadable { object, profile, .. }) => simulator::Scheduler::Object { object, profile },
    };
    Setup {
        machine,
        workload,
        scheduler,
        seed,
        duration: args.duration,
        faults,
        kernel: args.kernel,
        types: args.btf.as_ref(),
    }
}

/// Reproduces a run of this command line and passes its events to `sink`. `nominal` is the machine before sampling.
/// Returns the hash of the events, and the scheduler's object if it has one.
///
/// # Errors
/// If it cannot start, or the command line has no sample of this index.
pub fn reproduce(
    args: &Sim,
    scheduler: &Scheduler,
    nominal: &Machine,
    workload: &Workload,
    tags: &Tags,
    sink: &mut dyn Sink,
) -> Result<(u128, Option<LinkedObject>)> {
    let faults = &args.faults.as_deref().map(select::faults).transpose()?.unwrap_or_default();
    let (draw, seed) = (tags.draw.unwrap_or(0), tags.seed.unwrap_or(0));
    let machines = sampled(&left_out(nominal.clone(), args), args)?;
    let Some((_, machine)) = machines.iter().find(|(number, _)| *number == draw) else {
        bail!("sample {draw} is not among the --draws of its command line");
    };
    let run = Run { scheduler, machine, workload, faults, draw, seed };
    let mut object = None;
    let mut keep = |_: &mut Kernel, linked: &LinkedObject| object = Some(linked.clone());
    let outcome = simulator::run_then(&setup(run, args), sink, &mut |_| (), &mut keep)?;
    Ok((outcome.log_hash, object))
}

/// Checker for the built-in invariants and, with `--check`, for the scheduler's promises.
fn checker(run: &Run<'_>, args: &Sim) -> Checker {
    let Run { scheduler, machine, workload, seed, .. } = *run;
    let promises = if args.check { scheduler.promises() } else { Promises::default() };
    let conditions = worlds::simulated::conditions(machine, scheduler.loadable.is_some(), seed > 0);
    let demands = worlds::demands(workload);
    Checker::new(machine.topology.len(), &machine.online_cpus(), promises, conditions, demands)
}

fn run_one(run: Run<'_>, args: &Sim, progress: &Progress) -> Result<Done> {
    let Run { scheduler, machine, workload, seed, draw, .. } = run;
    let tags = worlds::simulated::tags(
        &worlds::simulated::Setup {
            scheduler: &scheduler.name,
            object: scheduler.object(),
            workload: &workload.name,
            seed,
            draw,
            kernel: args.kernel,
        },
        machine,
    );
    let setup = setup(run, args);
    let trace = args.trace.as_deref().map(create).transpose()?;
    let trace = trace.map(|out| perfetto::Writer::new(out, &args.kernel.to_string()));
    let (lines, log) = match args.log.as_deref() {
        None => (None, None),
        Some(path) if path.extension().is_some_and(|extension| extension == "jsonl") => {
            (Some(JsonLines::new(create(path)?)), None)
        }
        Some(path) => (None, Some(LogWriter::new(create(path)?, &worlds::header(&tags, output::VERSION))?)),
    };
    let printer = Printer::new(progress.is_of_one().then_some(progress));
    let mut sinks = Tee(checker(&run, args), Tee(printer, Tee(trace, Tee(lines, log))));
    let end = args.duration.or(workload.duration);
    let mut part = progress.begin(end);
    let mut tell = |now| part.tell(now);
    let outcome = match &args.coverage {
        None => simulator::run(&setup, &mut sinks, &mut tell).map(|outcome| (outcome, Coverage::default())),
        Some(_) => simulator::run_covered(&setup, &mut sinks, &mut tell),
    };
    part.end();
    let (outcome, coverage) = outcome.with_context(|| format!("{} on {}", scheduler.name, machine.name))?;
    let Tee(checker, Tee(printer, Tee(trace, Tee(lines, log)))) = sinks;
    if let Some(path) = &args.trace {
        trace.map(perfetto::Writer::finish).transpose().with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.log {
        lines.map(JsonLines::finish).transpose().with_context(|| path.display().to_string())?;
        log.map(LogWriter::finish).transpose().with_context(|| path.display().to_string())?;
    }
    let findings = checker.finish(outcome.measures.elapsed);
    let mut report = worlds::simulated::report(tags, outcome, end, Some(findings));
    report.measures.divide(workload.labels());
    Ok(Done { report, printed: printer.finish(), coverage })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    #[test]
    fn printed_command_line_reproduces_the_run() {
        let line = |words: &[&str]| match Args::try_parse_from(words).unwrap().command {
            Command::Sim(args) => command_line(&args),
            _ => unreachable!(),
        };
        let words =
            ["weir", "sim", "bfs,x=1", "fifo", "-m", "core:2 pu:1", "-w", "it's", "--for", "1.5s", "--seed", "9"];
        let first = line(&words);
        assert_eq!(
            first,
            r"weir sim bfs,x=1 fifo --machine 'core:2 pu:1' --workload 'it'\''s' --for 1500ms --seed 9 --kernel 7.2"
        );
        let rest = "--machine host --workload build";
        assert_eq!(line(&["weir", "sim", "bfs"]), format!("weir sim bfs {rest} --seed 0 --kernel 7.2"));
        assert_eq!(line(&["weir", "sim", "bfs", "bfs"]), format!("weir sim bfs bfs {rest} --seeds 16 --kernel 7.2"));
        let quiet = line(&["weir", "sim", "bfs", "--seed", "3", "--noise-off", "threads,order"]);
        assert_eq!(quiet, format!("weir sim bfs {rest} --seed 3 --kernel 7.2 --noise-off threads,order"));
        let one = line(&["weir", "sim", "bfs", "--seeds", "1"]);
        assert_eq!(one, format!("weir sim bfs {rest} --seeds 1 --kernel 7.2"));
    }
}
