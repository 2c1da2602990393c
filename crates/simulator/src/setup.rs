// SPDX-License-Identifier: GPL-2.0-only
//! Preparation of a run: checks the inputs, and links, loads and attaches the scheduler if there is one.

use crate::cpu::Charge;
use crate::loader::Loader;
use crate::noise::draw::derive_seed;
use crate::run::{BOOT_CPU, Run};
use crate::speed::Speed;
use crate::ticks::Ticks;
use crate::ticks_seen::touches_what_ticks_change;
use crate::{Form, Scheduler, Setup, SetupError};
use bpf_object::{LinkedObject, Object};
use event_log::Sink;
use ids::{CpuSet, MAX_CPUS, Nanos, Placement};
use kernel_model::{Config, Kernel};
use launch_profile::{Cap, Group, Lending, Profile, ProgramCall, Reservation, Window, WorkloadFacts};
use machine_model::{Machine, Service};
use speed::Signal;
use workload::{Op, Reserved, TaskGroup, Workload};

/// Maximum number of instructions per callback. The verifier explores at most 1 M (`BPF_COMPLEXITY_LIMIT_INSNS`), but
/// loops may execute more than it explores; no surveyed scheduler comes near 16 times that.
const CALLBACK_BUDGET: u64 = 16_000_000;

/// Uptime of the machine when a run begins: schedulers are not attached in the first second after boot, and some
/// treat a clock near 0 as never read. Must be a whole number of jiffies at any HZ.
pub const UPTIME: Nanos = Nanos::from_ms(600_000);

/// Creates a run at time 0 with its scheduler attached; executed lines are counted if requested.
pub(crate) fn prepare<'a>(
    setup: &'a Setup<'_>,
    log: &'a mut dyn Sink,
    count_lines: bool,
) -> Result<Run<'a, Kernel>, SetupError> {
    let ticks = check_machine(setup.machine)?;
    if setup.kernel.needs_locks() && setup.machine.effects.locks.is_none() {
        let problem = "its locks cost nothing (it has no [locks], or they are left out), so no CPU waits for one";
        return Err(SetupError::Machine(format!("{}: kernel {}: {problem}", setup.machine.name, setup.kernel)));
    }
    check_workload(setup.workload, setup.machine, setup.duration)?;
    if matches!(setup.scheduler, Scheduler::Kernel) {
        check_caps(setup.workload)?;
    }
    setup.faults.check(&setup.machine.name, &setup.machine.present_cpus(), &setup.machine.offline)?;
    let mut kernel = Kernel::new(config(setup));
    kernel.set_uptime(UPTIME);
    if count_lines {
        kernel.count_lines();
    }
    if log.wants_details() {
        kernel.record_details();
    }
    let mut run = Run::new(kernel, setup.machine, setup.workload, ticks, setup.seed, log);
    if let Some(duration) = setup.duration {
        run.clock.stop_at(duration);
    }
    run.kernel.model.set_now(Nanos::ZERO);
    run.demands.make_groups(&mut run.kernel.model);
    if let Some(locks) = &mut run.locks {
        locks.spinning = setup.kernel.spinning;
        run.kernel.model.track_locks();
    }
    match setup.scheduler {
        Scheduler::Kernel => {
            run.speed =
                Speed::new(setup.machine, setup.workload.idle_exit_limit, run.ticks.period(), Signal::Utilization);
            run.create_background();
            run.create_softirq_threads();
            run.create_flushers();
            run.create_hotplug_threads(setup.faults);
            run.boot_without(&setup.machine.offline);
        }
        Scheduler::Object { object, profile } => attach(&mut run, setup, object, profile)?,
    }
    run.apply(BOOT_CPU, Charge::default());
    run.plan_faults(setup.faults);
    run.operations.set_wait(setup.kernel.form == Form::Waiting);
    Ok(run)
}

/// Refuses caps that the model of the default scheduler does not enforce: a run without throttling would show CPU time
/// beyond the cap.
fn check_caps(workload: &Workload) -> Result<(), SetupError> {
    match workload.all_groups().iter().find(|group| group.cap_percent.is_some()) {
        Some(group) => {
            let problem = "has a cap, which the model of the default scheduler does not enforce (cpu.max); remove it, \
                           or choose a scheduler whose profile has the group's caps, such as entitlement";
            Err(SetupError::Workload(format!("group {} {problem}", group.path)))
        }
        None => Ok(()),
    }
}

/// Links, loads and attaches a scheduler.
fn attach<'a>(
    run: &mut Run<'a, Kernel>,
    setup: &Setup<'_>,
    object: &Object,
    profile: &'a Profile,
) -> Result<(), SetupError> {
    if !setup.kernel.has_sched_ext() {
        let problem = "sched_ext is modelled as in 7.2 only; expected the scheduler kernel";
        return Err(SetupError::Lacks(format!("kernel {}: {problem}", setup.kernel)));
    }
    let config = config(setup);
    let target = Kernel::target(&config);
    if let Some(all) = Kernel::lacks(&config, object).refusal() {
        return Err(SetupError::Lacks(all));
    }
    let profile = profile.for_workload(&workload_facts(setup.workload));
    let mut linked = object.link(&*target)?;
    profile.apply(&mut linked, setup.machine)?;
    run.kernel.model.limit_maps(setup.map_bytes);
    run.kernel.model.load(&linked)?;
    for (number, name) in (0..).zip(run.kernel.model.source_files()) {
        run.sinks.source_file(number, name);
    }
    run.ticks.set_may_skip(!touches_what_ticks_change(&linked, target.btf()));
    let worker = run.create_worker();
    run.kernel.model.set_watchdog_worker(worker);
    run.create_background();
    run.create_softirq_threads();
    run.create_flushers();
    run.create_hotplug_threads(setup.faults);
    run.boot_without(&setup.machine.offline);
    let steps = profile.steps(&linked, setup.machine)?;
    for element in &steps.elements {
        run.kernel
            .model
            .set_element(&element.map, &element.key, &element.values)
            .map_err(|errno| element.failed(errno))?;
    }
    call(&mut run.kernel.model, &linked, &steps.calls)?;
    run.kernel.model.attach(BOOT_CPU)?;
    if run.kernel.model.exit_info().is_none() {
        call(&mut run.kernel.model, &linked, &steps.calls_attached)?;
    }
    run.loading.begin(Loader { object: linked, profile, calls: vec![] }, steps.planned);
    run.await_calls();
    run.kernel.model.disable_in_steps();
    Ok(())
}

/// Facts about a workload for the launch profile.
pub fn workload_facts(workload: &Workload) -> WorkloadFacts {
    let all = workload.all_groups();
    let group = |group: &TaskGroup| Group { weight: group.weight, cap_percent: group.cap_percent, uid: group.uid };
    let reservation = |group: &TaskGroup| {
        let Reserved { cpus, from_ms, ms } = group.reserve?;
        Some(Reservation { group: group.name().to_owned(), cpus, from_ms, ms: ms.unwrap_or(0) })
    };
    let cap =
        |group: &TaskGroup| Some(Cap { group: group.name().to_owned(), percent: group.cap_percent?, hard: group.hard });
    let window = |(task, window): (&str, workload::Window)| Window {
        task: task.to_owned(),
        late: window.late,
        of: window.of,
        request_us: window.request.0 / 1000,
    };
    let lending = |one: workload::Lending<'_>| Lending {
        task: one.task.to_owned(),
        lends_to: one.lends_to,
        lent_as: one.lent_as,
    };
    WorkloadFacts {
        groups: all.iter().map(group).collect(),
        reservations: all.iter().filter_map(reservation).collect(),
        caps: all.iter().filter_map(cap).collect(),
        windows: workload.windows().into_iter().map(window).collect(),
        lending: workload.lending().into_iter().map(lending).collect(),
    }
}

/// Calls programs as the scheduler's user space does.
fn call(kernel: &mut Kernel, object: &LinkedObject, calls: &[ProgramCall]) -> Result<(), SetupError> {
    for call in calls {
        match kernel.run_program(object, &call.program, &call.context).expect("the profile knows the object") {
            0 => {}
            returned => return Err(call.failed(returned.into()).into()),
        }
    }
    Ok(())
}

/// Checks the machine.
pub(crate) fn check_machine(machine: &Machine) -> Result<Ticks, SetupError> {
    let problem = |text: String| SetupError::Machine(format!("{}: {text}", machine.name));
    if !(1..=MAX_CPUS).contains(&machine.topology.len()) {
        return Err(problem(format!("it has {} CPUs, expected 1 to {MAX_CPUS}", machine.topology.len())));
    }
    if machine.offline.contains(BOOT_CPU) {
        return Err(problem(format!("CPU {BOOT_CPU} is offline, but simulated machines boot on it")));
    }
    let tick_ns = machine.costs.tick_ns;
    Ticks::new(machine.hz, Nanos(tick_ns)).ok_or_else(|| {
        problem(format!("a tick of {tick_ns} ns, {} times per second, leaves no time for work", machine.hz))
    })
}

/// Checks the workload against the machine.
pub(crate) fn check_workload(
    workload: &Workload,
    machine: &Machine,
    duration: Option<Nanos>,
) -> Result<(), SetupError> {
    workload.validate().map_err(|error| SetupError::Workload(error.to_string()))?;
    if duration.or(workload.duration).is_none() && !workload.is_finite() {
        let problem = "the workload has endless tasks and no duration; set a duration";
        return Err(SetupError::Workload(format!("{}: {problem}", workload.name)));
    }
    if let Some(name) = workload.disks.iter().find(|name| crate::sources::find(machine, name).is_none()) {
        let known: Vec<&str> = machine.effects.disks.disks.iter().map(|disk| disk.name.as_str()).collect();
        let known = if known.is_empty() { "no disk".to_owned() } else { format!("the disks {}", known.join(", ")) };
        let wanted = if name.is_empty() { "a disk".to_owned() } else { format!("disk {name}") };
        let example = if name.is_empty() { "sda" } else { name };
        return Err(SetupError::Workload(format!(
            "{}: uses {wanted}, but {} has {known}; add one with --disk {example}=hdd-7200 (or ssd-sata, nvme, ram), or in \
             the machine file",
            workload.name, machine.name
        )));
    }
    if let Some(name) = workload.networks.iter().find(|name| crate::sources::find_network(machine, name).is_none()) {
        let known: Vec<&str> = machine.effects.networks.networks.iter().map(|one| one.name.as_str()).collect();
        let known =
            if known.is_empty() { "no network".to_owned() } else { format!("the networks {}", known.join(", ")) };
        let wanted = if name.is_empty() { "a network".to_owned() } else { format!("network {name}") };
        let example = if name.is_empty() { "eth0" } else { name };
        return Err(SetupError::Workload(format!(
            "{}: uses {wanted}, but {} has {known}; add one with --network {example}=1gbe (or loopback), or in the machine \
             file",
            workload.name, machine.name
        )));
    }
    let recorded = |name: &&String| {
        let disk = crate::sources::find(machine, name).map(|disk| &machine.effects.disks.disks[disk]);
        disk.is_some_and(|disk| matches!(disk.service, Service::Recorded))
    };
    if let Some(name) = workload.disks.iter().find(recorded) {
        let name = if name.is_empty() { "its first disk".to_owned() } else { format!("disk {name}") };
        return Err(SetupError::Workload(format!(
            "{}: {name} of {} is of kind recorded, but only requests of a recording have a recorded service time; choose \
             another kind",
            workload.name, machine.name
        )));
    }
    let all = machine.present_cpus();
    for (index, spec) in workload.tasks.iter().enumerate() {
        let changes = spec.script.iter().filter_map(|op| match op {
            Op::Change { cpus, .. } | Op::ChangeOf { cpus, .. } => cpus.as_deref(),
            _ => None,
        });
        if let Some(missing) = spec.cpus.iter().chain(changes).find(|cpus| !cpus.intersects(&all)) {
            return Err(SetupError::Workload(format!(
                "{}: task {index} ({}) may only run on CPUs {missing}, but {} has CPUs {all}",
                workload.name, spec.name, machine.name
            )));
        }
        if let Some(Placement::Node(node)) = spec.memory.as_ref().and_then(|memory| memory.placement)
            && !machine.topology.has_node(node)
        {
            return Err(SetupError::Workload(format!(
                "{}: task {index} ({}) has its memory on node {node} (placement), which {} does not have",
                workload.name, spec.name, machine.name
            )));
        }
    }
    Ok(())
}

fn config(setup: &Setup<'_>) -> Config {
    let machine = setup.machine;
    Config {
        topology: machine.topology.clone(),
        hz: machine.hz,
        version: setup.kernel.version,
        budget: CALLBACK_BUDGET,
        seed: derive_seed(setup.seed, "kernel"),
        newidle_ratio: machine.newidle_ratio,
        autogroup: machine.autogroup,
        types: setup.types.cloned(),
    }
}

/// The CPUs of `wanted` that exist; all CPUs if `wanted` is `None`.
pub(crate) fn existing(wanted: Option<&CpuSet>, all: &CpuSet) -> CpuSet {
    wanted.map_or_else(|| all.clone(), |cpus| cpus.intersection(all))
}
