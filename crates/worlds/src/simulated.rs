// SPDX-License-Identifier: GPL-2.0-only
//! Runs on simulated machines.

use crate::object_hash;
use ids::Nanos;
use invariants::{Conditions, Findings, Violation};
use kernel_model::ExitInfo;
use machine_model::{Effect, Machine};
use measures::RunMeasures;
use report::{Called, Ending, Exit, RunReport, Tags, Violations, World};
use simulator::{CallMade, KernelName, Outcome};

/// What is run, beside the machine on which it runs.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The scheduler as it was asked for.
    pub scheduler: &'a str,
    /// Its object; `None`: the kernel's own scheduler.
    pub object: Option<&'a [u8]>,
    /// The workload's name.
    pub workload: &'a str,
    /// The seed; 0 draws nothing.
    pub seed: u64,
    /// Which draw of the machine's uncertain numbers it is; 0: the machine as its file has it.
    pub draw: u64,
    /// The kernel.
    pub kernel: KernelName,
}

/// What such a run is called.
pub fn tags(setup: &Setup<'_>, machine: &Machine) -> Tags {
    let Setup { scheduler, object, workload, seed, draw, kernel } = *setup;
    let names = |effects: &mut dyn Iterator<Item = Effect>| effects.map(|effect| effect.name().to_owned()).collect();
    let mut effects: Vec<String> = simulator::EFFECTS.into_iter().map(str::to_owned).collect();
    let of_machine: Vec<String> = names(&mut machine.effects.modelled());
    effects.extend(of_machine);
    Tags {
        scheduler: scheduler.to_owned(),
        object_hash: object.map(object_hash),
        machine: machine.name.clone(),
        workload: workload.to_owned(),
        world: World::Sim,
        seed: Some(seed),
        draw: Some(draw),
        effects: Some(effects),
        unvalidated: names(&mut machine.effects.modelled().filter(|effect| !effect.standing().is_validated())),
        kernel: kernel.to_string(),
        form: Some(kernel.form.name().to_owned()),
        ..Tags::default()
    }
}

/// A CPU may idle for so long beside a waiting task, beyond its way out of idling: an interrupt on its way, a look for work.
const IDLE_TOLERANCE: Nanos = Nanos::from_us(100);

/// What a check of a run may expect on this machine. The kernel's own scheduler shows no queues; `noisy` is a run with a seed.
pub fn conditions(machine: &Machine, has_queues: bool, noisy: bool) -> Conditions {
    Conditions {
        has_queues,
        all_tasks: true,
        tolerance: IDLE_TOLERANCE + Nanos(machine.longest_idle_exit_ns(noisy)),
        tick: Nanos(1_000_000_000 / u64::from(machine.hz)),
    }
}

/// The report of a run; `end` is when it had to stop, if it had to, and `findings` what a check found, if there was one.
pub fn report(tags: Tags, outcome: Outcome, end: Option<Nanos>, findings: Option<Findings>) -> RunReport {
    // Without a time to stop at, a run ends when all work is done, unless something is wrong.
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

/// What a check found, with the tasks' names.
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

/// Why the modelled kernel put a scheduler out.
fn exit(ExitInfo { kind, code, reason, message, dump, fault, cause }: ExitInfo) -> Exit {
    let (file, line) = cause.source.unzip();
    Exit { kind, code, reason, message, fault, op: cause.op.map(str::to_owned), kfunc: cause.call, file, line, dump }
}
