// SPDX-License-Identifier: GPL-2.0-only
//! Runs a scenario in the simulator.

use crate::log;
use crate::record::{Exit, Record, Run};
use crate::scenario::{CPUS, Scenario};
use anyhow::{Context, Result};
use bpf_object::{LinkedObject, Object};
use event_log::{Event, Sink, TaskInfo};
use ids::{CpuId, CpuSet, Nanos, TaskId};
use kernel_model::{ExitInfo, Kernel};
use machine_model::Machine;
use simulator::{Scheduler, Setup, SetupError};
use workload::Workload;

/// CONFIG_HZ of the recorded kernels.
const HZ: u32 = 250;

/// Discards events: only the tracing scheduler's log counts.
struct Discard;

impl Sink for Discard {
    fn task(&mut self, _: Nanos, _: &TaskInfo) {}
    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}
    fn event(&mut self, _: &Event) {}
}

/// Returns the machine of all scenarios.
pub fn machine() -> Machine {
    let mut machine = Machine::from_synthetic(&format!("core:{CPUS} pu:1")).expect("a plain topology");
    machine.hz = HZ;
    // Real tasks wait at a gate that opens for all of them at once.
    machine.costs.clone_ns = 0;
    machine
}

/// Makes forked tasks threads of one process, as in the recorded kernels, except a task that executes a program.
pub(crate) fn in_one_process(workload: &Workload, but: Option<&str>) -> Workload {
    let mut workload = workload.clone();
    let threads = workload.tasks.iter_mut().filter(|task| but != Some(&task.name));
    threads.for_each(|task| task.who.tgid = Some(1));
    workload
}

/// Runs a scenario.
pub fn play(scenario: &Scenario) -> Result<Record> {
    let machine = machine();
    let object = Object::parse(scenario.object()).context("embedded object")?;
    let workload = in_one_process(&scenario.workload, scenario.executes.as_deref());
    let setup = Setup {
        types: None,
        map_bytes: simulator::MAP_BYTES,
        machine: &machine,
        workload: &workload,
        scheduler: Scheduler::Object { object: &object, profile: scenario.profile() },
        seed: 0,
        duration: None,
        faults: &scenario.faults,
        kernel: (7, 2).into(),
    };
    let mut run = Ok(Run::default());
    let mut read = |kernel: &Kernel, object: &LinkedObject| run = last(scenario, kernel, object);
    let result = if scenario.sysrq {
        simulator::run_then(&setup, &mut Discard, &mut |_| (), &mut |kernel, object| {
            kernel.sysrq(CpuId(0));
            kernel.end_disable(CpuId(0));
            read(kernel, object);
        })
    } else {
        simulator::run_and_unload(&setup, &mut Discard, &mut |_| (), &mut read)
    };
    let mut run = run?;
    match result {
        // A scheduler that requests a restart was reloaded; the first exit counts, unless the scenario is about the
        // reload.
        Ok(outcome) if !scenario.again => run.exit = outcome.restarts.first().map(exit).or(run.exit),
        Ok(_) => {}
        Err(SetupError::Launch(error)) => run.refused = Some(error.to_string()),
        Err(error) => return Err(error).with_context(|| format!("scenario {}", scenario.name)),
    }
    let kernel = format!("model of {}", setup.kernel);
    Ok(Record { scenario: scenario.name.clone(), world: "model".into(), kernel, runs: vec![run] })
}

/// Reads the scheduler's log.
fn last(scenario: &Scenario, kernel: &Kernel, object: &LinkedObject) -> Result<Run> {
    let mut run = Run { exit: kernel.exit_info().map(exit), ..Run::default() };
    let variable = |name| kernel.variable(object, name).expect("a variable of log.bpf.h");
    let logged = u32::from_le_bytes(variable("logged").try_into().expect("four bytes"));
    run.calls = log::read(variable("entries"), logged)?;
    if scenario.only_ours {
        let counted = kernel.op_counts().map(|(op, count)| (op.to_owned(), count)).collect();
        log::check_counts(&run.calls, &counted).with_context(|| format!("scenario {}", scenario.name))?;
    }
    Ok(run)
}

fn exit(info: &ExitInfo) -> Exit {
    Exit { kind: info.kind, code: info.code, reason: info.reason.clone(), message: info.message.clone() }
}
