// SPDX-License-Identifier: GPL-2.0-only
//! The plan of `weir sim`: everything that the command line names, resolved and checked before the first run.

use crate::args::{Format, Sim};
use crate::output::{self, quote};
use crate::select::{self, Broken, Loadable, Scheduler};
use crate::suites::{self, Suites};
use crate::{input, notes};
use anyhow::{Result, bail};
use fault_plan::FaultPlan;
use ids::Nanos;
use invariants::{Checker, Promises};
use kernel_model::KernelTypes;
use machine_model::Machine;
use output_file::Target;
use report::Tags;
use simulator::{KernelName, Setup};
use workload::Workload;

/// Default number of seeds when schedulers are compared. With fewer than six pairs a significance test can never
/// reject; 16 leave room for the multiple comparisons of a table with a few schedulers.
pub const SEEDS: u64 = 16;

/// Default number of seeds for each sample of the machine's constants, whose median represents the sample.
const SEEDS_PER_SAMPLE: u64 = 3;

/// All runs of a command line.
pub struct Plan {
    pub schedulers: Vec<Scheduler>,
    /// Schedulers of a comparison whose objects are invalid.
    pub broken: Vec<Broken>,
    /// Machines with the modelled effects, before uncertain constants are sampled.
    pub nominal: Vec<Machine>,
    /// Samples of each machine's uncertain constants, with their indices; the machine itself without `--draws`.
    samples: Vec<Vec<(u64, Machine)>>,
    /// Workloads with suites expanded, and how their results are shown.
    pub suites: Suites,
    /// Each of these workloads for each machine; some depend on the number of CPUs.
    workloads: Vec<Vec<Workload>>,
    seeds: Vec<u64>,
    /// The number of seeds is the default for this number of schedulers.
    pub seeds_are_default: bool,
    pub conditions: Conditions,
    pub outputs: Outputs,
    /// Command line with all defaults filled in, for bug reports.
    pub command_line: String,
}

/// What all runs of a command line have in common.
#[derive(Debug)]
pub struct Conditions {
    pub kernel: KernelName,
    /// Overrides the workload's duration.
    pub duration: Option<Nanos>,
    faults: FaultPlan,
    /// Types of the kernel against which objects are linked; `None`: those of the kernel version.
    types: Option<KernelTypes>,
    /// Most memory of a scheduler's maps.
    map_bytes: u64,
    /// The promises of the schedulers are checked.
    checks_promises: bool,
    /// Warnings are wanted, which need no promise.
    warns: bool,
}

/// Outputs of a command line.
pub struct Outputs {
    pub format: Format,
    /// All measures are shown.
    pub all: bool,
    /// Each pair of setups is compared.
    pub pairs: bool,
    pub trace: Option<Target>,
    pub log: Option<Target>,
    /// Lines are counted; the inner `None` stands for standard output.
    pub coverage: Option<Option<Target>>,
    pub save: Option<Target>,
    pub report: Option<Target>,
}

/// One combination of scheduler, machine, workload and seed.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub scheduler: &'a Scheduler,
    pub machine: &'a Machine,
    pub workload: &'a Workload,
    pub conditions: &'a Conditions,
    /// Index of the sample of the machine's uncertain constants; 0 has the typical values.
    pub draw: u64,
    pub seed: u64,
}

impl Plan {
    /// Resolves a command line. Notes on limits of the simulation go to standard error.
    ///
    /// # Errors
    /// If a name is unknown, a file cannot be read, or options contradict each other.
    pub fn of(args: &Sim) -> Result<Plan> {
        let suites = Suites::of(&args.workloads)?;
        let seeds = seeds(args, &suites);
        let draws = args.draws.unwrap_or(1) as usize;
        let count = args.schedulers.len() * args.machines.len() * suites.workloads.len() * draws * seeds.len();
        if count > 1 && (args.trace.is_some() || args.log.is_some()) {
            let hint =
                if seeds.len() > 1 && args.draws.is_none() { "; --seed 0 makes one run of each setup" } else { "" };
            bail!("--trace and --log need a single run, and these are {count} runs{hint}");
        }
        let outputs = Outputs::of(args)?;
        if outputs.save.is_some() || outputs.report.is_some() {
            input::remember();
        }
        let (schedulers, broken) = schedulers(args)?;
        let nominal = args.machines.iter().map(|name| with_devices(select::machine(name)?, args));
        let nominal = nominal.collect::<Result<Vec<_>>>()?;
        notes::tell_needless(&args.without, &nominal);
        let nominal = nominal.into_iter().map(|machine| left_out(machine, args)).collect::<Result<Vec<Machine>>>()?;
        let samples = nominal.iter().map(|machine| sampled(machine, args)).collect::<Result<Vec<_>>>()?;
        let workloads = workloads(&suites.workloads, &nominal)?;
        notes::tell_weights(&schedulers, workloads.iter().flatten());
        outputs.refuse_inputs()?;
        let is_default = args.seed.is_none() && args.seeds.is_none() && args.draws.is_none();
        Ok(Plan {
            schedulers,
            broken,
            nominal,
            samples,
            workloads,
            seeds_are_default: is_default && !suites.has_rounds() && seeds.len() > 1,
            suites,
            seeds,
            conditions: Conditions::of(args)?,
            outputs,
            command_line: command_line(args),
        })
    }

    /// All runs, in the order of their reports.
    pub fn runs(&self) -> Vec<Run<'_>> {
        let Plan { schedulers, samples, workloads, seeds, conditions, .. } = self;
        let mut runs = Vec::new();
        for workloads in workloads {
            for (samples, workload) in samples.iter().zip(workloads) {
                for scheduler in schedulers {
                    for &(draw, ref machine) in samples {
                        let run = |&seed| Run { scheduler, machine, workload, conditions, draw, seed };
                        runs.extend(seeds.iter().map(run));
                    }
                }
            }
        }
        runs
    }

    /// Number of runs, those of broken schedulers included.
    pub fn count(&self) -> usize {
        let samples: usize = self.samples.iter().map(Vec::len).sum();
        (self.schedulers.len() + self.broken.len()) * samples * self.workloads.len() * self.seeds.len()
    }

    /// Names of the machines, once for each sample.
    pub fn machine_names(&self) -> Vec<&str> {
        self.samples.iter().flatten().map(|(_, machine)| machine.name.as_str()).collect()
    }
}

impl Conditions {
    /// Resolves what the runs of a command line have in common.
    ///
    /// # Errors
    /// If the fault plan is invalid.
    fn of(args: &Sim) -> Result<Conditions> {
        let faults = args.faults.as_deref().map(select::faults).transpose()?.unwrap_or_default();
        let types = args.btf.clone();
        Ok(Conditions {
            kernel: args.kernel,
            duration: args.duration,
            faults,
            types,
            map_bytes: args.map_memory.map_or(simulator::MAP_BYTES, |mib| mib << 20),
            checks_promises: args.check,
            warns: args.warn,
        })
    }
}

impl Outputs {
    /// Outputs of a command line.
    ///
    /// # Errors
    /// If two of them are the same file, or one cannot be written.
    fn of(args: &Sim) -> Result<Outputs> {
        let Sim { trace, log, coverage, save, report, .. } = args;
        let [trace, log, lines, save, report] = output::check([
            ("--trace", trace.as_deref()),
            ("--log", log.as_deref()),
            ("--coverage", coverage.as_ref().and_then(|file| file.as_deref())),
            ("--save", save.as_deref()),
            ("--report", report.as_deref()),
        ])?;
        let coverage = coverage.is_some().then_some(lines);
        Ok(Outputs { format: args.format, all: args.all, pairs: args.pairs, trace, log, coverage, save, report })
    }

    /// # Errors
    /// If one of them is an input.
    fn refuse_inputs(&self) -> Result<()> {
        let Outputs { trace, log, coverage, save, report, .. } = self;
        output::refuse_inputs([trace, log, save, report].into_iter().chain(coverage))
    }
}

impl<'a> Run<'a> {
    /// Setup of the simulator.
    pub fn setup(&self) -> Setup<'a> {
        let Run { scheduler, machine, workload, seed, conditions, .. } = *self;
        let Conditions { kernel, duration, faults, types, map_bytes, .. } = conditions;
        let scheduler = match &scheduler.loadable {
            None => simulator::Scheduler::Kernel,
            Some(Loadable { object, profile, .. }) => simulator::Scheduler::Object { object, profile },
        };
        let types = types.as_ref();
        let (duration, kernel, map_bytes) = (*duration, *kernel, *map_bytes);
        Setup { machine, workload, scheduler, seed, duration, faults, kernel, types, map_bytes }
    }

    /// Checker for the built-in invariants and, with `--check`, for the scheduler's promises.
    pub fn checker(&self) -> Checker {
        let Run { scheduler, machine, workload, seed, conditions, .. } = *self;
        let promises = if conditions.checks_promises { scheduler.promises() } else { Promises::default() };
        let known = worlds::simulated::conditions(machine, scheduler.loadable.is_some(), seed > 0);
        let demands = worlds::demands(workload);
        let checker = Checker::new(machine.topology.len(), &machine.online_cpus(), promises, known, demands);
        if conditions.warns { checker.with_warnings(scheduler.promises()) } else { checker }
    }

    /// Tags of its report.
    pub fn tags(&self) -> Tags {
        let Run { scheduler, machine, workload, seed, draw, conditions } = *self;
        let setup = worlds::simulated::Setup {
            scheduler: &scheduler.name,
            object: scheduler.object(),
            workload: &workload.name,
            uses: simulator::Uses::of(workload, machine),
            seed,
            draw,
            kernel: conditions.kernel,
        };
        let cpu_dma_latency_us = workload.idle_exit_limit.map(|limit| limit.0 / 1_000);
        Tags {
            workload_caveats: workload.caveats.clone(),
            cpu_dma_latency_us,
            ..worlds::simulated::tags(&setup, machine)
        }
    }
}

/// The single run of a command line: its machine, workload and conditions.
pub struct Single {
    machine: Machine,
    workload: Workload,
    conditions: Conditions,
    draw: u64,
    seed: u64,
}

impl Single {
    /// Resolves a command line that names one machine and one workload.
    ///
    /// # Errors
    /// If one of them cannot be resolved.
    pub fn of(args: &Sim) -> Result<Single> {
        let machine = left_out(select::machine(&args.machines[0])?, args)?;
        let workload = select::workload(&args.workloads[0], machine.online_cpus().len() as u32)?;
        Ok(Single { machine, workload, conditions: Conditions::of(args)?, draw: 0, seed: args.seed.unwrap_or(0) })
    }

    /// Selects the run with these tags among those of a command line. `nominal` is the machine before sampling.
    ///
    /// # Errors
    /// If the command line has no sample of this index.
    pub fn tagged(args: &Sim, nominal: &Machine, workload: Workload, tags: &Tags) -> Result<Single> {
        let conditions = Conditions::of(args)?;
        let (draw, seed) = (tags.draw.unwrap_or(0), tags.seed.unwrap_or(0));
        let samples = sampled(&left_out(nominal.clone(), args)?, args)?;
        let Some((_, machine)) = samples.into_iter().find(|(number, _)| *number == draw) else {
            bail!("sample {draw} is not among the --draws of its command line");
        };
        Ok(Single { machine, workload, conditions, draw, seed })
    }

    /// The run, with this scheduler.
    pub fn run<'a>(&'a self, scheduler: &'a Scheduler) -> Run<'a> {
        let Single { machine, workload, conditions, draw, seed } = self;
        Run { scheduler, machine, workload, conditions, draw: *draw, seed: *seed }
    }
}

/// Schedulers of the command line with their planned calls, and those whose objects are invalid.
fn schedulers(args: &Sim) -> Result<(Vec<Scheduler>, Vec<select::Broken>)> {
    let (mut schedulers, broken) = select::schedulers_apart(&args.schedulers, args.profile.as_deref())?;
    select::plan(&mut schedulers, &args.calls)?;
    check_kernel(&schedulers, args)?;
    notes::tell(&schedulers, args.btf.as_ref());
    Ok((schedulers, broken))
}

/// The machine with the disks and networks of the command line.
fn with_devices(mut machine: Machine, args: &Sim) -> Result<Machine> {
    args.disks.iter().try_for_each(|disk| machine.add_disk(disk))?;
    args.networks.iter().try_for_each(|network| machine.add_network(network))?;
    args.page_cache.iter().try_for_each(|cache| machine.set_page_cache(cache))?;
    Ok(machine)
}

/// The machine with the devices of the command line and without the disabled hardware effects, noise sources and CPUs.
fn left_out(machine: Machine, args: &Sim) -> Result<Machine> {
    let mut machine = with_devices(machine, args)?;
    args.without.iter().for_each(|&effect| machine.effects.switch_off(effect));
    machine.noise = args.noise_off.iter().fold(machine.noise, |noise, &source| noise.without(source));
    if let Some(wanted) = args.cpus {
        let online = machine.online_cpus();
        if wanted as usize > online.len() {
            bail!("--cpus {wanted}: machine {} has {} online CPUs", machine.name, online.len());
        }
        online.iter().skip(wanted as usize).for_each(|cpu| _ = machine.offline.insert(cpu));
    }
    Ok(machine)
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
fn workloads(names: &[String], machines: &[Machine]) -> Result<Vec<Vec<Workload>>> {
    let on = |name: &str, machine: &Machine| select::workload(name, machine.online_cpus().len() as u32);
    names.iter().map(|name| machines.iter().map(|machine| on(name, machine)).collect()).collect()
}

/// Seeds to run. Each round of a suite uses its own seed.
fn seeds(args: &Sim, suites: &Suites) -> Vec<u64> {
    match (args.seed, args.seeds) {
        (Some(seed), _) => vec![seed],
        (None, Some(seeds)) => (1..=seeds).collect(),
        (None, None) if args.draws.is_some() => (1..=SEEDS_PER_SAMPLE).collect(),
        (None, None) if suites.has_rounds() => (1..=suites::ROUNDS).collect(),
        (None, None) if suites.is_run_once() => vec![0],
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
    args.disks.iter().for_each(|disk| option("disk", disk));
    args.networks.iter().for_each(|network| option("network", network));
    args.page_cache.iter().for_each(|cache| option("page-cache", cache));
    if let Some(cpus) = args.cpus {
        option("cpus", &cpus.to_string());
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
    if let Some(mib) = args.map_memory {
        option("map-memory", &mib.to_string());
    }
    if let Some(profile) = &args.profile {
        option("profile", &profile.to_string_lossy());
    }
    if args.check {
        words.push("--check".to_owned());
    }
    if args.warn {
        words.push("--warn".to_owned());
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
