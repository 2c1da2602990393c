// SPDX-License-Identifier: GPL-2.0-only
//! Runs in a real kernel.

use crate::object_hash;
use crate::simulated::violations;
use ids::Nanos;
use invariants::{Conditions, Findings, Property};
use live::meter::{Measured, MeterCost};
use live::scheduler::KernelExit;
use live::threads::{End, Played, TaskPlayed};
use machine_model::Machine;
use measures::{GroupMeasures, Periods, RunMeasures};
use report::{Called, Ending, Exit, Meter, RunReport, Tags, World};

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The scheduler as it was asked for.
    pub scheduler: &'a str,
    /// Its object; `None`: the scheduler that is there.
    pub object: Option<&'a [u8]>,
    /// The workload's name, or the command as a shell would need it.
    pub workload: &'a str,
    /// The kernel's release.
    pub kernel: &'a str,
}

/// What such a run is called: it has no seed, and all effects of its machine.
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

/// In a real kernel CPUs idle beside a waiting task for a millisecond now and then: interrupts, the host of a virtual machine.
const TOLERANCE: Nanos = Nanos::from_ms(1);

/// What a check of a run may expect on this machine. Queues and slices are not seen there, nor other tasks than the run's.
pub fn conditions(machine: &Machine) -> Conditions {
    let tick = Nanos(1_000_000_000 / u64::from(machine.hz));
    Conditions { has_queues: false, all_tasks: false, tolerance: tick + TOLERANCE, tick }
}

/// What a check found, and what it looked for.
#[derive(Debug)]
pub struct Checked {
    /// What it found.
    pub findings: Findings,
    /// All that the scheduler promises and the run owes.
    pub looked_for: Vec<Property>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What a check found, if there was one.
    pub checked: Option<Checked>,
    /// What was measured.
    pub measured: Measured,
    /// How the workload was played; `None` if a command ran.
    pub played: Option<Played>,
    /// Why the scheduler was ejected, if it was.
    pub ejected: Option<KernelExit>,
    /// How often it was loaded again.
    pub restarts: u64,
    /// What came of the calls of its programs that were planned.
    pub calls: Vec<Called>,
    /// Exit status of the command, if there is one that has ended.
    pub command_status: Option<i32>,
    /// What failed of what was run, if something did.
    pub failure: Option<String>,
    /// It did not come to its end by itself.
    pub cut: bool,
}

/// The report of a run.
pub fn report(tags: Tags, outcome: Outcome) -> RunReport {
    let Outcome { checked, measured, played, ejected, restarts, calls, command_status, failure, cut } = outcome;
    let Measured { mut measures, threads, log_hash, cost } = measured;
    let checked = checked.map(|checked| believed(checked, &cost));
    if let Some(played) = &played {
        complete(&mut measures, &threads, played);
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
            deadlocked: played.as_ref().is_some_and(|played| matches!(played.end, End::Stuck(_))),
            command_status,
            failed_forks: played.as_ref().map_or(0, |played| played.failed_forks),
            refused_changes: played.as_ref().map_or(0, |played| played.refused_changes),
            restarts,
            calls,
        },
        log_hash,
        meter: Some(meter(cost, failure)),
        measures,
    }
}

/// What can be believed of what was found. Where events were lost, what they would have said stands against all of it; switches
/// and wakeups that the kernel hid contradict others. Queues exist, and nobody sees who is in none.
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

/// Adds what only the player knows: the work of each task, and its name.
fn complete(measures: &mut RunMeasures, threads: &[u32], played: &Played) {
    for (task, thread) in measures.tasks.iter_mut().zip(threads) {
        if let Some(part) = played.tasks.iter().find(|part| part.tid == *thread) {
            task.account.work = part.work_done;
            task.name.clone_from(&part.name);
            task.periods.clone_from(&part.periods);
        }
    }
    let groups = played.groups.iter();
    let groups = groups.map(|group| GroupMeasures::new(&group.path, group.weight, group.cap_percent));
    measures.gather(groups, |task| {
        let thread = threads.get(task.id.index())?;
        let part = played.tasks.iter().find(|part| part.tid == *thread)?;
        part.group.as_deref()
    });
    let last = |tasks: &mut dyn Iterator<Item = &TaskPlayed>| tasks.map(|task| task.ended).max().unwrap_or_default();
    let behind = last(&mut played.tasks.iter()).since(last(&mut played.tasks.iter().filter(|task| !task.is_beside)));
    measures.makespan = measures.makespan.map(|makespan| makespan.since(behind));
    let mut periods = Periods::default();
    measures.tasks.iter().filter_map(|task| task.periods.as_ref()).for_each(|own| periods.add(own));
    measures.periods = periods.summary();
    measures.work = Some(Nanos(measures.tasks.iter().map(|task| task.account.work.0).sum()));
}

/// Why the kernel put a scheduler out.
pub fn exit(KernelExit { kind, code, reason, message, dump, exit_cpu: _ }: KernelExit) -> Exit {
    Exit { kind: kind as u32, code, reason, message, dump, ..Exit::default() }
}

fn meter(cost: MeterCost, failure: Option<String>) -> Meter {
    Meter {
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
