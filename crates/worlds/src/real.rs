// SPDX-License-Identifier: GPL-2.0-only
//! Runs in a real kernel.

use crate::object_hash;
use crate::simulated::violations;
use executor::{End, ExecutionResult, TaskResult};
use ids::Nanos;
use invariants::{Conditions, Findings, Property};
use kernel_link::meter::{Measured, MeterCost};
use kernel_link::scheduler::KernelExit;
use machine_model::Machine;
use measures::{GroupMeasures, Periods, RunMeasures};
use report::{Called, Ending, Exit, Meter, RunReport, Tags, World};

/// Inputs of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The scheduler as requested.
    pub scheduler: &'a str,
    /// Object of the scheduler; `None`: the scheduler that is already attached.
    pub object: Option<&'a [u8]>,
    /// Name of the workload, or the command in shell syntax.
    pub workload: &'a str,
    /// Release of the kernel.
    pub kernel: &'a str,
}

/// Tags of a real run: no seed, and all effects of its machine.
pub fn tags(setup: &Setup<'_>) -> Tags {
    Tags {
        scheduler: setup.scheduler.to_owned(),
        object_hash: setup.object.map(object_hash),
        machine: "host".to_owned(),
        workload: setup.workload.to_owned(),
        world: World::Real,
        kernel: setup.kernel.to_owned(),
        ..Tags::default()
    }
}

/// In a real kernel a CPU may idle for a millisecond while a task waits: because of interrupts, or the host of a
/// virtual machine.
const TOLERANCE: Nanos = Nanos::from_ms(1);

/// Conditions for checking a run on this machine. Queues and slices are not visible there, and neither are tasks
/// outside the run.
pub fn conditions(machine: &Machine) -> Conditions {
    let tick = Nanos(1_000_000_000 / u64::from(machine.hz));
    Conditions { has_queues: false, all_tasks: false, tolerance: tick + TOLERANCE, tick }
}

/// Result of a check, and the properties checked.
#[derive(Debug)]
pub struct Checked {
    /// Violations and other results of the checks.
    pub findings: Findings,
    /// All promises of the scheduler and general invariants that were checked.
    pub looked_for: Vec<Property>,
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Result of the check, if there was one.
    pub checked: Option<Checked>,
    /// Measured data.
    pub measured: Measured,
    /// Data on the execution of the workload; `None` if a command ran.
    pub executed: Option<ExecutionResult>,
    /// Reason why the scheduler was ejected, if it was.
    pub ejected: Option<KernelExit>,
    /// Number of restarts of the scheduler.
    pub restarts: u64,
    /// Results of the planned calls of its programs.
    pub calls: Vec<Called>,
    /// Exit status of the command, if there was one and it ended.
    pub command_status: Option<i32>,
    /// Failure of what was run, if any.
    pub failure: Option<String>,
    /// The run was stopped before its end.
    pub cut: bool,
}

/// Report on a run.
pub fn report(tags: Tags, outcome: Outcome) -> RunReport {
    let Outcome { checked, measured, executed, ejected, restarts, calls, command_status, failure, cut } = outcome;
    let Measured { mut measures, threads, log_hash, cost } = measured;
    let checked = checked.map(|checked| believed(checked, &cost));
    if let Some(executed) = &executed {
        complete(&mut measures, &threads, executed);
    }
    let violations = checked.map(|findings| violations(findings, &measures));
    if cut {
        measures.makespan = None;
    }
    let tags = Tags { calls: Called::names(&calls), ..tags };
    RunReport {
        tags,
        ending: Ending {
            violations,
            ejected: ejected.map(exit),
            deadlocked: executed.as_ref().is_some_and(|executed| matches!(executed.end, End::Stuck(_))),
            command_status,
            failed_forks: executed.as_ref().map_or(0, |executed| executed.failed_forks),
            refused_changes: executed.as_ref().map_or(0, |executed| executed.refused_changes),
            restarts,
            calls,
        },
        log_hash,
        meter: Some(meter(cost, failure, &measures)),
        measures,
    }
}

/// Reliable part of the findings. If events were lost, none are reliable; unreported switches and wakeups invalidate
/// some of them. Queues exist, but their content is not visible.
fn believed(Checked { mut findings, looked_for }: Checked, cost: &MeterCost) -> Findings {
    if cost.lost() > 0 {
        return Findings { not_seen: looked_for, ..Findings::default() };
    }
    if cost.unseen_switches + cost.unseen_wakeups + cost.orphans + cost.late > 0 {
        let before = findings.violations.len();
        findings.violations.retain(|violation| violation.property != Property::Sanity);
        findings.count -= (before - findings.violations.len()) as u64;
        findings.not_seen.push(Property::Sanity);
    }
    findings.not_seen.extend(looked_for.contains(&Property::LostWakeup).then_some(Property::LostWakeup));
    findings.not_seen.sort_unstable();
    findings
}

/// Adds data that only the executor knows: the work of each task, and its name.
fn complete(measures: &mut RunMeasures, threads: &[u32], executed: &ExecutionResult) {
    for (task, thread) in measures.tasks.iter_mut().zip(threads) {
        if let Some(part) = executed.tasks.iter().find(|part| part.tid == *thread) {
            task.account.work = part.work_done;
            task.name.clone_from(&part.name);
            // The kernel announces the task before it has set its own policy.
            task.policy = part.policy;
            task.periods.clone_from(&part.periods);
        }
    }
    measures.requests.clone_from(&executed.requests);
    measures.disks = (!executed.disks.is_empty()).then(|| executed.disks.clone());
    let groups = executed.groups.iter();
    let groups = groups.map(|group| GroupMeasures::new(&group.path, group.weight, group.cap_percent));
    measures.gather(groups, |task| {
        let thread = threads.get(task.id.index())?;
        let part = executed.tasks.iter().find(|part| part.tid == *thread)?;
        part.group.as_deref()
    });
    let last = |tasks: &mut dyn Iterator<Item = &TaskResult>| tasks.map(|task| task.ended).max().unwrap_or_default();
    let behind =
        last(&mut executed.tasks.iter()).since(last(&mut executed.tasks.iter().filter(|task| !task.is_beside)));
    measures.makespan = measures.makespan.map(|makespan| makespan.since(behind));
    let mut periods = Periods::default();
    measures.tasks.iter().filter_map(|task| task.periods.as_ref()).for_each(|own| periods.add(own));
    measures.periods = periods.summary();
    measures.work = Some(Nanos(measures.tasks.iter().map(|task| task.account.work.0).sum()));
}

/// Reason why the kernel ejected a scheduler.
pub fn exit(KernelExit { kind, code, reason, message, dump, exit_cpu: _ }: KernelExit) -> Exit {
    Exit { kind: kind as u32, code, reason, message, dump, ..Exit::default() }
}

fn meter(cost: MeterCost, failure: Option<String>, measures: &RunMeasures) -> Meter {
    let own = measures.tasks.iter().map(|task| task.account.run).fold(cost.reader, |sum, run| sum + run);
    Meter {
        foreign: measures.cpu.run.since(own),
        events: cost.events,
        lost_events: cost.lost(),
        lost_where: cost.lost_where(),
        unseen_switches: cost.unseen_switches,
        unseen_wakeups: cost.unseen_wakeups,
        probes: cost.probes,
        probe_runs: cost.probe_runs,
        reader: cost.reader,
        listened: cost.listened,
        unfinished_tasks: cost.unfinished,
        failure,
    }
}
