// SPDX-License-Identifier: GPL-2.0-only
//! `weir run`: loads a scheduler, or measures the active one, in this machine's kernel. A command or a workload is
//! measured like a simulated run; without one, machine-wide statistics are printed until interrupted.

mod command;
mod execute;
mod plan;
mod scheduler;
mod screen;
mod statistics;
mod whole;

use crate::args::{Format, Run};
use crate::output::{self, Delivery, print};
use crate::refusals::Refusals;
use crate::select::{self, Scheduler};
use crate::suites::Suites;
use crate::{save, sim};
use anyhow::{Context, Result, anyhow};
use command::Channels;
use event_log::{LogWriter, Tee, perfetto};
use executor::{Options, PreparedWorkload};
use host::affinity::Keeper;
use host::faults::{Faults, Guardian};
use host::signals::Signals;
use ids::{CpuSet, Nanos};
use invariants::{Checker, Demands};
use kernel_link::meter::{Meter, Scope, host_machine};
use kernel_link::scheduler::KernelExit;
use machine_model::Machine;
use output_file::Target;
use plan::Plan;
use report::{Called, RunReport};
use scheduler::{Loaded, tell_exit};
use screen::Screen;
use statistics::Statistics;
use std::process::Command;
use std::time::{Duration, Instant};
use worlds::real::{Checked, Outcome};

const SIGTERM: i32 = 15;

/// Polling interval for states that the kernel does not announce.
const LOOK: Duration = Duration::from_millis(50);

/// Duration from which a fault is reported as slow. Offlining a CPU takes tens of milliseconds unless its tasks
/// cannot be migrated.
const SLOW_FAULT: Nanos = Nanos::from_secs(1);

/// Everything in a run except the measured command or workload.
struct Outside<'a> {
    signals: &'a Signals,
    scheduler: Option<Loaded<'a>>,
    statistics: Option<Statistics>,
    screen: Option<Screen>,
    /// The reader of the statistics has closed the pipe.
    unread: bool,
    /// Maximum duration of the run, and the resulting deadline once it has begun.
    duration: Option<Nanos>,
    deadline: Option<Instant>,
    /// Declared after the scheduler, so that it is dropped later: the scheduler is unloaded before CPUs come back
    /// online, which would load it again.
    faults: Option<Faults>,
    /// Restores affinities, if enabled.
    affinities: Option<Keeper>,
}

impl Outside<'_> {
    /// Prints statistics that are due, draws a frame, makes calls. Returns the exit of the scheduler if it was
    /// ejected.
    fn look(&mut self) -> Result<Option<KernelExit>> {
        if let Some(statistics) = &mut self.statistics {
            self.unread |= !statistics.tell_if_due(self.scheduler.as_ref())?;
        }
        if let Some(screen) = &mut self.screen {
            screen.look(self.signals)?;
        }
        restore_affinities(&mut self.affinities)?;
        let Some(scheduler) = &mut self.scheduler else { return Ok(None) };
        let ejected = scheduler.ejected()?;
        if ejected.is_none() {
            scheduler.make_calls()?;
        }
        Ok(ejected)
    }

    /// Time until the next planned call.
    fn until_call(&self) -> Duration {
        self.scheduler.as_ref().and_then(Loaded::until_call).unwrap_or(Duration::MAX)
    }

    fn is_time_up(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Standard input and output for a command.
    fn channels(&self, plan: &Plan) -> Channels {
        match (&self.screen, plan.format) {
            (Some(_), _) => Channels::Captured,
            (None, Format::Text) => Channels::Same,
            (None, Format::Json | Format::Csv) => Channels::Apart,
        }
    }

    /// Starts the clocks of the run, of the fault plan and of the planned calls.
    fn begin(&mut self) {
        self.deadline = self.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
        self.faults.iter().for_each(Faults::begin);
        self.scheduler.iter_mut().for_each(Loaded::begin);
    }

    /// CPU time spent in the scheduler's programs so far.
    fn scheduler_time(&self) -> Result<Nanos> {
        Ok(self.scheduler.as_ref().map(Loaded::counts).transpose()?.unwrap_or_default().run_time)
    }
}

/// End of the measured command or workload.
struct Followed {
    ejected: Option<KernelExit>,
    /// Exit status of the command if it has exited; 128 plus the signal number if a signal killed it.
    status: Option<i32>,
    /// Failure of the command or the workload.
    failure: Option<String>,
    /// The run was ended early.
    cut: bool,
}

/// Runs and reports. Returns false if something was wrong with the run.
pub fn run(args: &Run) -> Result<bool> {
    let plan = Plan::of(args)?;
    let signals = Signals::block()?;
    for name in executor::remove_stale_cgroups() {
        say!("weir: removed cgroup {name}, left behind by a killed weir");
    }
    let options = Options { duration: plan.duration, disks: plan.disks.clone(), ..Options::default() };
    let prepared = plan.workload().map(|workload| PreparedWorkload::prepare(workload, &options)).transpose();
    let prepared = prepared.map_err(kernel_link::LinkError::from)?;
    let notes = prepared.as_ref().map_or_else(Vec::new, PreparedWorkload::notes);
    notes.iter().for_each(|note| say!("weir: {}", report::escape(note)));
    let faults = plan.faults.as_ref().map(Faults::prepare).transpose().context("--faults")?;
    // The guardian is started before the scheduler is loaded, since a faulty scheduler might never let it start.
    let _guardian = faults.as_ref().map(start_guardian).transpose()?;
    if plan.schedulers.iter().any(|scheduler| scheduler.loadable.is_some())
        && let Err(error) = host::priority::raise()
    {
        say!("weir: cannot get a real-time priority ({error}): Ctrl-C is delayed if the scheduler starves weir");
    }
    let scheduler = plan.schedulers.first().map(Loaded::load).transpose()?.flatten();
    // Standard output carries one JSON or CSV document, so statistics go to standard error.
    let beside = !plan.watches() && plan.format != Format::Text;
    let statistics = plan.statistics.map(|every| Statistics::start(every, plan.format, beside)).transpose()?;
    let affinities = plan.keeps_affinity.then(Keeper::start).transpose()?;
    let (duration, deadline, unread) = (plan.duration, None, false);
    let screen = plan.draws.then(|| start_screen(&plan)).transpose()?;
    let signals = &signals;
    let outside = Outside { signals, scheduler, statistics, screen, unread, duration, deadline, faults, affinities };
    if plan.watches() { watch(&plan, outside) } else { measure(&plan, prepared.as_ref(), outside) }
}

fn start_screen(plan: &Plan) -> Result<Screen> {
    let what = if plan.watches() { "the whole machine".to_owned() } else { format!("workload {}", plan.subject_name) };
    let title = format!("weir run {}: {what}, kernel {}", plan.scheduler_name, host::kernel_release()?);
    let follows = (!plan.watches()).then(host_machine).transpose()?.map(|machine| machine.topology.len());
    Screen::start(report::escape(&title).into_owned(), follows)
}

/// Restores the affinities of tasks if CPUs have come online.
fn restore_affinities(keeper: &mut Option<Keeper>) -> Result<()> {
    if let Some((cpus, tasks)) = keeper.as_mut().map(Keeper::look).transpose()?.flatten() {
        say!("weir: CPUs {cpus} are back online; affinity restored of {}", report::counted(tasks as u64, "task"));
    }
    Ok(())
}

/// Starts the process that brings CPUs back online if this one is killed.
fn start_guardian(faults: &Faults) -> Result<Guardian> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("guard-cpus");
    Ok(Guardian::start(command, faults)?)
}

/// Runs `weir guard-cpus`, the process that [`start_guardian`] starts.
pub fn guard(online: &str, offline: &str) -> Result<()> {
    let cpus = |text: &str| match text {
        "" => Ok(CpuSet::new()),
        _ => text.parse().map_err(|_| anyhow!("{text:?} is not a CPU list such as 1-3,5")),
    };
    let back = host::faults::guard(&cpus(online)?, &cpus(offline)?)?;
    if !back.cpus.is_empty() {
        let tasks = report::counted(back.tasks as u64, "task");
        say!("weir: weir run was killed; CPUs restored: {}; affinity restored of {tasks}", back.cpus);
    }
    Ok(())
}

/// Prints machine-wide statistics until interrupted.
fn watch(plan: &Plan, mut outside: Outside<'_>) -> Result<bool> {
    let kernel = host::kernel_release()?;
    match &outside.scheduler {
        Some(loaded) => say!("weir: {} schedules on kernel {kernel}; Ctrl-C unloads it", loaded.own_name()),
        None => say!("weir: watching the scheduler of kernel {kernel}; stop with Ctrl-C"),
    }
    outside.begin();
    let mut shown = 0;
    while outside.look()?.is_none() {
        let made = outside.scheduler.as_ref().map(Loaded::made_calls).unwrap_or_default();
        made[shown..].iter().for_each(report_call);
        shown = made.len();
        if outside.signals.take().is_some() || outside.is_time_up() || outside.unread {
            break;
        }
        std::thread::sleep(LOOK.min(outside.until_call()));
    }
    let Some(loaded) = outside.scheduler else {
        let fine = end_and_report_faults(outside.faults)?;
        restore_affinities(&mut outside.affinities)?;
        return Ok(fine);
    };
    let name = loaded.name().to_owned();
    let ended = loaded.end()?;
    let faults_fine = end_and_report_faults(outside.faults)?;
    restore_affinities(&mut outside.affinities)?;
    match plan.format {
        Format::Json => {
            let outcome = if ended.was_ejected { report::Outcome::Ejected } else { report::Outcome::Completed };
            let exit = worlds::real::exit(ended.exit.clone());
            print(&report::ending_to_json_line(&name, outcome, ended.restarts, &ended.calls, &exit))?;
        }
        _ if ended.was_ejected => tell_exit(&name, &ended.exit),
        _ => say!("weir: unloaded {name}"),
    }
    Ok(!ended.was_ejected && faults_fine && !ended.calls.iter().any(Called::failed))
}

/// Reports a call made in a run that has no report.
fn report_call(called: &Called) {
    let (made, returned) = (Nanos(called.made_ns.unwrap_or_default()), called.returned.unwrap_or_default());
    say!("weir: {}: called after {made}, returned {returned}", report::escape(&called.call));
}

/// Ends the fault plan and reports failures. Returns false if there were any.
fn end_and_report_faults(faults: Option<Faults>) -> Result<bool> {
    let failure = end_faults(faults)?;
    failure.iter().for_each(|failure| say!("weir: {failure}"));
    Ok(failure.is_none())
}

/// Brings back the CPUs that the fault plan took offline. Returns the failure, if there was one.
fn end_faults(faults: Option<Faults>) -> Result<Option<String>> {
    let Some(faults) = faults else { return Ok(None) };
    let carried = faults.end().context("cannot end the fault plan; CPUs may still be offline")?;
    for slow in carried.done.iter().filter(|done| done.took >= SLOW_FAULT) {
        say!("weir: {} took {}: the kernel waited for the tasks of that CPU", slow.fault, slow.took);
    }
    if !carried.back.is_empty() {
        say!("weir: CPUs restored: {}", carried.back);
    }
    Ok(carried.failed.map(|error| format!("a fault failed: {error}")))
}

/// Runs the command or executes the workload, measures it, and reports.
fn measure(plan: &Plan, prepared: Option<&PreparedWorkload<'_>>, mut outside: Outside<'_>) -> Result<bool> {
    let machine = host_machine()?;
    let kernel = host::kernel_release()?;
    let caveats = |prepared: &PreparedWorkload<'_>| [&prepared.workload().caveats[..], &prepared.notes()].concat();
    let workload_caveats = prepared.map_or_else(Vec::new, caveats);
    let cpu_dma_latency_us = prepared.and_then(PreparedWorkload::idle_exit_limit).map(|limit| limit.0 / 1_000);
    let tags = report::Tags { workload_caveats, cpu_dma_latency_us, ..tags(plan, &kernel) };
    let trace =
        plan.outputs.trace.as_ref().map(Target::create).transpose()?.map(|out| perfetto::Writer::new(out, &kernel));
    let scope = if prepared.is_some() { Scope::Workload } else { Scope::Command };
    let log = (plan.outputs.save.is_some() || plan.outputs.page.is_some())
        .then(|| LogWriter::new(Vec::new(), &worlds::header(&tags, output::VERSION)))
        .transpose()?;
    let followed = outside.screen.as_ref().and_then(Screen::followed);
    let own = select::kernel();
    let checked = plan.schedulers.first().unwrap_or(&own);
    let checker = plan.checks_promises.then(|| checker(&machine, checked, prepared));
    let mut meter = Meter::start(&machine, scope, Tee(checker, Tee(followed, Tee(trace, log))))?;
    let before = outside.scheduler_time()?;
    let (mut child, mut executed) = (None, None);
    let followed = match prepared {
        Some(prepared) => {
            let (followed, end) = execute::follow(&mut meter, prepared, &mut outside)?;
            executed = Some(end);
            followed
        }
        None => {
            let child = child.insert(command::start(&meter, plan.command(), outside.channels(plan), outside.signals)?);
            match command::follow(&mut meter, child, &mut outside) {
                Ok(followed) => followed,
                Err(error) => {
                    // An error of Weir must not kill the command: it continues under the default scheduler.
                    let signals = outside.signals;
                    drop((meter, outside));
                    command::wait(child, signals)?;
                    return Err(error);
                }
            }
        }
    };
    let Followed { mut ejected, mut status, mut failure, cut } = followed;
    outside.screen = None;
    let (measured, Tee(checker, Tee(_, Tee(trace, log)))) = meter.finish(outside.scheduler_time()?.since(before))?;
    let traced = trace.map_or(Ok(()), |trace| sim::place(trace.finish(), plan.outputs.trace.as_ref()));
    drop(outside.statistics);
    let ended = outside.scheduler.map(Loaded::end).transpose()?;
    let (restarts, calls) = ended.as_ref().map_or((0, Vec::new()), |ended| (ended.restarts, ended.calls.clone()));
    // The scheduler may have been ejected after the last check.
    ejected = ejected.or(ended.and_then(|ended| ended.ejection()));
    let fault = end_faults(outside.faults)?;
    restore_affinities(&mut outside.affinities)?;
    if let (Some(_), Some(child)) = (&ejected, &mut child) {
        // The default scheduler has taken over: the command continues, unmeasured.
        let ended = command::wait(child, outside.signals)?;
        (status, failure) = (command::status_of(ended), command::failure(ended));
    }
    let looked_for = checked.looked_for();
    let checked = checker.map(|checker| Checked { findings: checker.finish(measured.measures.elapsed), looked_for });
    let command_status = status;
    let failure = failure.or(fault);
    let outcome = Outcome { checked, measured, executed, ejected, restarts, calls, command_status, failure, cut };
    let mut report = worlds::real::report(tags, outcome);
    report.measures.divide(prepared.into_iter().flat_map(|prepared| prepared.workload().labels()));
    let fine = report.is_fine();
    traced.and(deliver(plan, report, log))?;
    Ok(fine)
}

/// Prints the report, saves the run and writes its page if requested; there is a log in these cases.
fn deliver(plan: &Plan, report: RunReport, log: Option<LogWriter<Vec<u8>>>) -> Result<()> {
    let machines: Vec<_> = log.is_some().then(|| select::machine("host")).into_iter().collect::<Result<_>>()?;
    let events = log.map(LogWriter::finish).transpose()?.into_iter().collect();
    let setup = save::Setup {
        command_line: plan.command_line.clone(),
        schedulers: &plan.schedulers,
        machines: &machines,
        events,
    };
    let (save, page) = (plan.outputs.save.as_ref(), plan.outputs.page.as_ref());
    let how = Delivery {
        format: plan.format,
        all: false,
        pairs: false,
        suites: &Suites::default(),
        save,
        report: page,
        interrupted: None,
    };
    how.deliver(&[report], &Refusals::default(), &setup)
}

/// Checks the scheduler's promises as far as they are observable in a real kernel. Only workloads declare demands;
/// commands have none.
fn checker(machine: &Machine, scheduler: &Scheduler, prepared: Option<&PreparedWorkload<'_>>) -> Checker {
    let conditions = worlds::real::conditions(machine);
    let demands = prepared.map_or_else(Demands::default, |prepared| worlds::demands(prepared.workload()));
    Checker::new(machine.topology.len(), &machine.online_cpus(), scheduler.promises(), conditions, demands)
}

fn tags(plan: &Plan, kernel: &str) -> report::Tags {
    let object = plan.schedulers.first().and_then(Scheduler::object);
    let (scheduler, workload) = (&plan.scheduler_name, &plan.subject_name);
    worlds::real::tags(&worlds::real::Setup { scheduler, object, workload, kernel })
}
