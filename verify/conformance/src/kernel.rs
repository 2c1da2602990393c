// SPDX-License-Identifier: GPL-2.0-only
//! Runs a scenario in the running kernel.

use crate::record::{Exit, Record, Run};
use crate::scenario::Scenario;
use crate::{disturbance, log, model, process};
use anyhow::{Context, Result, anyhow, bail};
use bpf_object::{LinkedObject, Object};
use executor::{Calibration, ExecutionResult, Options, PreparedWorkload};
use fault_plan::Action;
use ids::{CpuId, Nanos, Topology};
use kernel_link::LinkError;
use kernel_link::scheduler::{Attached, Host, KernelExit, Request, load};
use kernel_model::{Config, Kernel};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Time limit of a waker for its waiter to sleep.
const SETTLE: Nanos = Nanos::from_secs(5);
/// A run that is cut short ends this long after the scheduler was unloaded.
const AFTERWARDS: Nanos = Nanos::from_ms(200);
/// Time for which a reloaded scheduler stays: some slices, after bypass mode has ended.
const SECOND_LIFE: Duration = Duration::from_millis(100);
/// Time limit of disabling, which visits every task of the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of disturbed runs that are repeated. Disturbances do not matter where only the exit is compared, or the
/// model is known to differ.
const SPARE_PLAYS: usize = 12;

/// Runs a scenario until there are `plays` undisturbed runs.
pub fn play(scenario: &Scenario, plays: u32) -> Result<Record> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?;
    let calibration = PreparedWorkload::prepare(&scenario.workload, &Options::default())?.calibration();
    let model = model::play(scenario)?.runs.swap_remove(0);
    let mut runs: Vec<Run> = Vec::new();
    let wanted = plays as usize;
    while runs.iter().filter(|run| run.disturbed.is_empty()).count() < wanted && runs.len() < wanted + SPARE_PLAYS {
        let mut run = once(scenario, calibration)?;
        if scenario.masks.events || scenario.departure.is_some() {
            run.disturbed.clear();
        } else {
            run.disturbed.extend(disturbance::of_log(&run.calls, &scenario.masks, scenario.only_ours));
            run.disturbed.extend(disturbance::of_log_beside(&run.calls, &model.calls));
        }
        runs.push(run);
    }
    Ok(Record { scenario: scenario.name.clone(), world: "kernel".into(), kernel: release.trim().into(), runs })
}

fn once(scenario: &Scenario, calibration: Calibration) -> Result<Run> {
    let mut workload = model::in_one_process(&scenario.workload, scenario.executes.as_deref());
    workload.tasks.retain(|task| Some(&task.name) != scenario.executes.as_ref());
    let duration = workload.duration.map(|duration| duration + AFTERWARDS);
    let options = Options {
        duration,
        gate: false,
        settle: Some(SETTLE),
        log: false,
        calibration: Some(calibration),
        ..Options::default()
    };
    // Done before the scheduler is loaded: threads that probe policies are not part of the scenario.
    let stage = PreparedWorkload::prepare(&workload, &options)?;
    let mut attached = match attach(scenario) {
        Ok(attached) => attached,
        Err(error) => return Ok(Run { refused: Some(error.to_string()), ..Run::default() }),
    };
    // The executor's own threads stay on the director's CPU.
    let everywhere = sched_getaffinity(None).context("CPUs of this thread")?;
    sched_setaffinity(None, &only_cpu_0()).context("moving this thread to CPU 0")?;
    let played = stage.begin(|running| -> Result<(KernelExit, ExecutionResult)> {
        let begin = Instant::now();
        let process = scenario.executes.as_deref().map(process::start).transpose()?;
        act(scenario, begin)?;
        if scenario.again {
            wait_for_end(&attached)?;
            attached.unload()?;
            attached = attach(scenario)?;
        }
        let ended = match workload.duration {
            Some(duration) => {
                match scenario.again {
                    true => thread::sleep(SECOND_LIFE),
                    false => sleep_until(begin, duration),
                }
                let exit = end(scenario, &mut attached);
                running.stopper().stop();
                let played = running.join()?;
                (exit?, played)
            }
            None => {
                let played = running.join()?;
                (attached.unload()?, played)
            }
        };
        process.map(|mut process| process.wait()).transpose()?;
        Ok(ended)
    });
    sched_setaffinity(None, &everywhere).context("CPUs of this thread")?;
    all_online(scenario)?;
    let (exit, played) = played?;
    let mut run = read(scenario, &attached, exit)?;
    run.disturbed = disturbance::of_play(&played);
    Ok(run)
}

fn attach(scenario: &Scenario) -> Result<Attached, LinkError> {
    let host = Host::read()?;
    load(&Request {
        name: &scenario.name,
        object: scenario.object(),
        profile: scenario.profile(),
        host: &host,
        measure: scenario.only_ours,
    })
}

fn only_cpu_0() -> CpuSet {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    cpus
}

/// Ends the scheduler as the scenario specifies.
fn end(scenario: &Scenario, attached: &mut Attached) -> Result<KernelExit> {
    if scenario.sysrq {
        let path = "/proc/sysrq-trigger";
        fs::write(path, "S").with_context(|| format!("write S to {path}"))?;
        wait_for_end(attached)?;
    }
    Ok(attached.unload()?)
}

/// Waits until the kernel has disabled the scheduler.
fn wait_for_end(attached: &Attached) -> Result<()> {
    let begin = Instant::now();
    while attached.exited()?.is_none() {
        if begin.elapsed() > PATIENCE {
            bail!("the kernel does not disable the scheduler");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Brings offline CPUs back for the next run.
fn all_online(scenario: &Scenario) -> Result<()> {
    for fault in scenario.faults.faults() {
        if let Action::Offline(cpu) = fault.action {
            set_online(cpu, true)?;
        }
    }
    Ok(())
}

fn set_online(cpu: CpuId, online: bool) -> Result<()> {
    let (path, online) = (format!("/sys/devices/system/cpu/cpu{cpu}/online"), if online { "1" } else { "0" });
    fs::write(&path, online).with_context(|| format!("write {online} to {path}"))
}

/// Applies the scenario's faults to the machine.
fn act(scenario: &Scenario, begin: Instant) -> Result<()> {
    for fault in scenario.faults.faults() {
        sleep_until(begin, fault.at);
        match fault.action {
            Action::Offline(cpu) => set_online(cpu, false)?,
            Action::Online(cpu) => set_online(cpu, true)?,
            Action::Suspend(_) => bail!("scenario {}: a real machine is not suspended here", scenario.name),
            Action::Clock(..) => bail!("scenario {}: clocks of a real machine cannot be changed", scenario.name),
        }
    }
    Ok(())
}

fn sleep_until(begin: Instant, time: Nanos) {
    thread::sleep(Duration::from_nanos(time.0).saturating_sub(begin.elapsed()));
}

/// Reads the scheduler's log.
fn read(scenario: &Scenario, attached: &Attached, exit: KernelExit) -> Result<Run> {
    let KernelExit { kind, code, reason, message, .. } = exit;
    let mut run = Run { exit: Some(Exit { kind: kind as u32, code, reason, message }), ..Run::default() };
    let (object, bss) = (linked(scenario)?, attached.section(".bss")?);
    let variable = |name: &str| -> Result<&[u8]> {
        let place = object.variables.get(name).ok_or_else(|| anyhow!("the log has no {name}"))?;
        let begin = place.offset as usize;
        bss.get(begin..begin + place.size as usize).ok_or_else(|| anyhow!("{name} is outside .bss"))
    };
    let logged = u32::from_le_bytes(variable("logged")?.try_into().context("four bytes")?);
    run.calls = log::read(variable("entries")?, logged)?;
    if scenario.only_ours {
        let ops = attached.statistics()?.ops;
        let counted = ops.into_iter().map(|op| (op.op, op.runs)).collect();
        log::check_counts(&run.calls, &counted).with_context(|| format!("scenario {}", scenario.name))?;
    }
    Ok(run)
}

/// Links the object like the kernel, to find its variables.
fn linked(scenario: &Scenario) -> Result<LinkedObject> {
    let config = Config {
        topology: Topology::flat(1),
        hz: 250,
        version: (7, 2),
        budget: 1,
        seed: 1,
        newidle_ratio: None,
        autogroup: false,
        types: None,
    };
    Ok(Object::parse(scenario.object())?.link(&*Kernel::target(&config))?)
}
