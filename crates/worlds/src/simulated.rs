// SPDX-License-Identifier: GPL-2.0-only
//! Runs on simulated machines.

use crate::object_hash;
use ids::Nanos;
use invariants::{Conditions, Findings, Violation};
use kernel_model::ExitInfo;
use machine_model::{Effect, Machine};
use measures::RunMeasures;
use report::{Called, Ending, Exit, RunReport, Tags, Violations, World};
use simulator::{CallMade, KernelName, Outcome, Uses};

/// Inputs of a run, other than the machine.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The scheduler as requested.
    pub scheduler: &'a str,
    /// Object of the scheduler; `None`: the default scheduler.
    pub object: Option<&'a [u8]>,
    /// Name of the workload.
    pub workload: &'a str,
    /// What the workload uses on the machine.
    pub uses: Uses,
    /// Seed; 0: no random variation.
    pub seed: u64,
    /// Number of the sample of the machine's uncertain constants; 0: the nominal values of its file.
    pub draw: u64,
    /// The kernel.
    pub kernel: KernelName,
}

/// Tags of a simulated run.
pub fn tags(setup: &Setup<'_>, machine: &Machine) -> Tags {
    let Setup { scheduler, object, workload, uses, seed, draw, kernel } = *setup;
    let acts = |effect: &Effect| match effect {
        Effect::Disks => uses.disks,
        Effect::Network => uses.networks,
        Effect::PageCache => uses.page_cache,
        Effect::Tlb => uses.unmaps,
        Effect::Interrupts => uses.disks || uses.networks,
        effect => uses.memory || !Effect::OF_MEMORY.contains(effect),
    };
    let names = |effects: &mut dyn Iterator<Item = Effect>| effects.map(|effect| effect.name().to_owned()).collect();
    let mut effects: Vec<String> = simulator::EFFECTS.into_iter().map(str::to_owned).collect();
    let of_machine: Vec<String> = names(&mut machine.effects.modelled().filter(acts));
    // Ticks and timers are always modelled; interrupts of devices are listed by the same word.
    effects.extend(of_machine.into_iter().filter(|effect| !simulator::EFFECTS.contains(&effect.as_str())));
    if (uses.disks || uses.networks) && machine.effects.disks.without_interrupts {
        effects.retain(|effect| effect != "interrupts");
    }
    Tags {
        scheduler: scheduler.to_owned(),
        object_hash: object.map(object_hash),
        machine: machine.name.clone(),
        workload: workload.to_owned(),
        world: World::Sim,
        seed: Some(seed),
        draw: Some(draw),
        effects: Some(effects),
        unvalidated: names(
            &mut machine.effects.modelled().filter(acts).filter(|effect| !effect.standing().is_validated()),
        ),
        assumed: names(&mut machine.effects.assumed.iter().copied().filter(acts)),
        machine_caveats: machine.caveats.clone(),
        kernel: kernel.to_string(),
        form: Some(kernel.form.name().to_owned()),
        ..Tags::default()
    }
}

/// Time for which a CPU may idle while a task waits, in addition to its idle exit latency: an interrupt in flight, or
/// a search for work.
const IDLE_TOLERANCE: Nanos = Nanos::from_us(100);

/// Conditions for checking a run on this machine. The default scheduler shows no queues; `noisy`: the run has a
/// nonzero seed.
pub fn conditions(machine: &Machine, has_queues: bool, noisy: bool) -> Conditions {
    Conditions {
        has_queues,
        all_tasks: true,
        tolerance: IDLE_TOLERANCE + Nanos(machine.longest_idle_exit_ns(noisy)),
        tick: Nanos(1_000_000_000 / u64::from(machine.hz)),
    }
}

/// Report on a run; `end` is its time limit, if any, and `findings` the result of a check, if there was one.
pub fn report(tags: Tags, outcome: Outcome, end: Option<Nanos>, findings: Option<Findings>) -> RunReport {
    // Without a time limit, a run ends when all work is done, unless there is a deadlock.
    let deadlocked = end.is_none() && outcome.ejected.is_none() && outcome.measures.makespan.is_none();
    let violations = findings.map(|findings| violations(findings, &outcome.measures));
    let called = |CallMade { call, made }: CallMade| {
        let (made_ns, returned) = made.unzip();
        Called { call, made_ns: made_ns.map(|time| time.0), returned }
    };
    let calls: Vec<Called> = outcome.calls.into_iter().map(called).collect();
    let tags = Tags { calls: Called::names(&calls), ..tags };
    RunReport {
        tags,
        ending: Ending {
            violations,
            ejected: outcome.ejected.map(exit),
            deadlocked,
            command_status: None,
            failed_forks: outcome.failed_forks,
            refused_changes: outcome.refused_changes,
            restarts: outcome.restarts.len() as u64,
            calls,
        },
        log_hash: outcome.log_hash,
        meter: None,
        measures: outcome.measures,
    }
}

/// Findings of a check, with the tasks' names.
pub(crate) fn violations(findings: Findings, measures: &RunMeasures) -> Violations {
    let Findings { violations, count, not_seen, useless_migrations } = findings;
    let told = |violation: Violation| report::Violation {
        property: violation.property.name().to_owned(),
        from_ns: violation.from.0,
        to_ns: violation.to.0,
        names: violation.tasks.iter().map(|task| measures.tasks[task.index()].name.clone()).collect(),
        tasks: violation.tasks.iter().map(|task| task.0).collect(),
        cpus: violation.cpus.iter().map(|cpu| cpu.0).collect(),
        value: violation.value,
        limit: violation.limit,
    };
    let first = violations.into_iter().map(told).collect();
    let not_seen = not_seen.into_iter().map(|property| property.name().to_owned()).collect();
    Violations { count, first, not_seen, useless_migrations }
}

/// Reason why the modelled kernel ejected a scheduler.
fn exit(ExitInfo { kind, code, reason, message, dump, fault, cause }: ExitInfo) -> Exit {
    let (file, line) = cause.source.unzip();
    Exit { kind, code, reason, message, fault, op: cause.op.map(str::to_owned), kfunc: cause.call, file, line, dump }
}
