// SPDX-License-Identifier: GPL-2.0-only
//! Plays a scenario in the running kernel.

use crate::log;
use crate::record::{Exit, Record, Run};
use crate::scenario::Scenario;
use anyhow::{Context, Result, anyhow, bail};
use bpf_object::{LinkedObject, Object};
use fault_plan::Action;
use ids::Nanos;
use kernel_model::{Config, Kernel, Topology};
use live::scheduler::{Attached, Host, KernelExit, Request, load};
use live::threads::{Calibration, Options, Stage};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A waker looks so long for a waiter that sleeps.
const SETTLE: Nanos = Nanos::from_secs(5);
/// A play that is cut short ends so long after the scheduler was unloaded.
const AFTERWARDS: Nanos = Nanos::from_ms(200);

/// Of counts one is wrong as soon as one foreign task disturbs, so policies are played more often.
const PLAYS_OF_POLICIES: u32 = 3;

/// Plays a scenario `plays` times, with a policy more often.
pub fn play(scenario: &Scenario, plays: u32) -> Result<Record> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?;
    let calibration = Stage::prepare(&scenario.workload, &Options::default())?.calibration();
    let plays = if scenario.policy.is_some() { plays * PLAYS_OF_POLICIES } else { plays };
    let runs = (0..plays).map(|_| once(scenario, calibration)).collect::<Result<Vec<_>>>()?;
    Ok(Record { scenario: scenario.name.clone(), world: "kernel".into(), kernel: release.trim().into(), runs })
}

fn once(scenario: &Scenario, calibration: Calibration) -> Result<Run> {
    let (profile, host) = (scenario.profile(), Host::read()?);
    let measure = scenario.policy.is_some();
    let request = Request { name: &scenario.name, object: scenario.object(), profile: &profile, host: &host, measure };
    let mut attached = match load(&request) {
        Ok(attached) => attached,
        Err(error) => return Ok(Run { refused: Some(error.to_string()), ..Run::default() }),
    };
    let duration = scenario.workload.duration.map(|duration| duration + AFTERWARDS);
    let options = Options { duration, gate: false, settle: Some(SETTLE), log: false, calibration: Some(calibration) };
    let stage = Stage::prepare(&scenario.workload, &options)?;
    let mut before = BTreeMap::new();
    let exit = thread::scope(|scope| -> Result<KernelExit> {
        let begin = Instant::now();
        let running = stage.begin(scope);
        if scenario.count_from > Nanos::ZERO {
            sleep_until(begin, scenario.count_from);
            before = counts(&attached)?;
        }
        act(scenario, begin)?;
        if let Some(duration) = scenario.workload.duration {
            sleep_until(begin, duration);
            let exit = attached.unload();
            running.stopper().stop();
            running.join()?;
            return Ok(exit?);
        }
        running.join()?;
        Ok(attached.unload()?)
    })?;
    let mut run = read(scenario, &attached, exit)?;
    run.forget(&before);
    Ok(run)
}

/// Calls of each op so far, as the kernel counts them.
fn counts(attached: &Attached) -> Result<BTreeMap<String, u64>> {
    Ok(attached.statistics()?.ops.into_iter().map(|op| (op.op, op.runs)).filter(|(_, runs)| *runs > 0).collect())
}

/// Does to the machine what the scenario says.
fn act(scenario: &Scenario, begin: Instant) -> Result<()> {
    for fault in scenario.faults.faults() {
        sleep_until(begin, fault.at);
        let (cpu, online) = match fault.action {
            Action::Offline(cpu) => (cpu, "0"),
            Action::Online(cpu) => (cpu, "1"),
            Action::Suspend(_) => bail!("scenario {}: a real machine is not suspended here", scenario.name),
        };
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        fs::write(&path, online).with_context(|| format!("write {online} to {path}"))?;
    }
    Ok(())
}

fn sleep_until(begin: Instant, time: Nanos) {
    thread::sleep(Duration::from_nanos(time.0).saturating_sub(begin.elapsed()));
}

/// Reads what the scheduler left.
fn read(scenario: &Scenario, attached: &Attached, exit: KernelExit) -> Result<Run> {
    let KernelExit { kind, code, reason, message, .. } = exit;
    let mut run = Run { exit: Some(Exit { kind: kind as u32, code, reason, message }), ..Run::default() };
    if scenario.policy.is_some() {
        run.counts = counts(attached)?;
        return Ok(run);
    }
    let (object, bss) = (linked(scenario)?, attached.section(".bss")?);
    let variable = |name: &str| -> Result<&[u8]> {
        let place = object.variables.get(name).ok_or_else(|| anyhow!("the tracing scheduler has no {name}"))?;
        let begin = place.offset as usize;
        bss.get(begin..begin + place.size as usize).ok_or_else(|| anyhow!("{name} lies outside of .bss"))
    };
    let logged = u32::from_le_bytes(variable("logged")?.try_into().context("four bytes")?);
    (run.calls, run.lost) = log::read(variable("entries")?, logged);
    run.counts = log::counts(variable("calls")?);
    Ok(run)
}

/// The object as we link it ourselves: it tells where its variables are.
fn linked(scenario: &Scenario) -> Result<LinkedObject> {
    let topology = Topology { core: vec![0], llc: vec![0], node: vec![0], distances: vec![vec![10]] };
    let config = Config { topology, hz: 250, version: (7, 2), budget: 1, seed: 1 };
    Ok(Object::parse(scenario.object())?.link(&*Kernel::target(&config))?)
}
