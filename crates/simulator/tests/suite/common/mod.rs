// SPDX-License-Identifier: GPL-2.0-only
//! Shared by the tests of whole runs: small schedulers compiled on demand, machines whose operations cost nothing,
//! and a sink that checks the invariants of every run.

use bpf_object::{LinkedObject, Object};
use event_log::{Event, EventKind, Sink, SwitchReason, TaskInfo};
use fault_plan::FaultPlan;
use ids::{CpuId, CpuSet, Nanos, TaskId};
use kernel_model::Kernel;
use launch_profile::{PlannedCall, Profile};
use machine_model::{Costs, Machine};
use simulator::{KernelName, Outcome, Setup, SetupError};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use workload::Workload;

/// Names of clang to try, as in the crate `policies`.
const CLANGS: [&str; 7] = ["clang-19", "clang-18", "clang-17", "clang-16", "clang-20", "clang-21", "clang"];

/// Compiles `tests/policies/NAME.bpf.c`.
pub fn compile(name: &str) -> Object {
    static COMPILED: AtomicU32 = AtomicU32::new(0);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join(format!("tests/policies/{name}.bpf.c"));
    let number = COMPILED.fetch_add(1, Ordering::Relaxed);
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}.bpf.o", std::process::id()));
    let named = std::env::var("BPF_CLANG").ok();
    let clang = named
        .iter()
        .map(String::as_str)
        .chain(CLANGS)
        .find(|clang| Command::new(clang).arg("--version").output().is_ok_and(|output| output.status.success()));
    let output = Command::new(clang.expect("a clang from 16 to 21, or one named by BPF_CLANG"))
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-I"])
        .arg(here.join("../../policies/include"))
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("clang runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&object).expect("clang wrote it");
    std::fs::remove_file(&object).expect("the object can be removed");
    Object::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A scheduler with its profile; both are absent for the default scheduler.
pub struct Scheduler {
    loadable: Option<(Object, Profile)>,
    kernel: KernelName,
}

impl Scheduler {
    /// Returns the default scheduler of the kernel.
    pub fn kernel() -> Scheduler {
        Scheduler::of(None)
    }

    fn of(loadable: Option<(Object, Profile)>) -> Scheduler {
        Scheduler { loadable, kernel: (7, 2).into() }
    }

    /// This scheduler in another version of the kernel.
    pub fn in_kernel(self, kernel: KernelName) -> Scheduler {
        Scheduler { kernel, ..self }
    }

    /// A test scheduler with `[rodata]` values.
    pub fn compiled(name: &str, rodata: &str) -> Scheduler {
        let profile = Profile::from_toml(name, &format!("summary = \"test\"\n[rodata]\n{rodata}\n")).unwrap();
        Scheduler::of(Some((compile(name), profile)))
    }

    /// An object without a profile.
    pub fn from_bytes(name: &str, object: &[u8]) -> Scheduler {
        let profile = Profile::from_toml(name, "summary = \"test\"").unwrap();
        Scheduler::of(Some((Object::parse(object).unwrap(), profile)))
    }

    /// A shipped policy.
    pub fn shipped(name: &str) -> Scheduler {
        let policy = policies::find(name).unwrap();
        let profile = Profile::from_toml(name, policy.profile).unwrap();
        Scheduler::of(Some((Object::parse(policy.object).unwrap(), profile)))
    }

    /// This scheduler with planned calls of its programs during the run.
    pub fn calling(mut self, calls: &[&str]) -> Scheduler {
        let calls: Vec<PlannedCall> = calls.iter().map(|call| call.parse().unwrap()).collect();
        self.loadable.as_mut().expect("the default scheduler has no programs").1.plan(&calls);
        self
    }

    /// Runs `workload`, and checks the invariants of every run.
    pub fn play(&self, machine: &Machine, workload: &Workload) -> Played {
        self.play_with(machine, workload, 0)
    }

    /// Like [`Scheduler::play`], with a seed.
    pub fn play_with(&self, machine: &Machine, workload: &Workload, seed: u64) -> Played {
        self.play_faults(machine, workload, seed, &FaultPlan::default())
    }

    /// Returns the error with which the simulator refuses to run this setup.
    pub fn refused(&self, machine: &Machine, workload: &Workload, faults: &FaultPlan) -> SetupError {
        let setup = self.setup(machine, workload, 0, faults);
        simulator::run(&setup, &mut Watcher::new(machine.topology.len()), &mut |_| ()).expect_err("it is refused")
    }

    fn setup<'a>(
        &'a self,
        machine: &'a Machine,
        workload: &'a Workload,
        seed: u64,
        faults: &'a FaultPlan,
    ) -> Setup<'a> {
        let scheduler = match &self.loadable {
            None => simulator::Scheduler::Kernel,
            Some((object, profile)) => simulator::Scheduler::Object { object, profile },
        };
        Setup {
            machine,
            workload,
            scheduler,
            seed,
            duration: None,
            faults,
            kernel: self.kernel,
            types: None,
            map_bytes: simulator::MAP_BYTES,
        }
    }

    /// Runs `workload` and unloads the scheduler; also returns the kernel's exit kind.
    pub fn play_and_unload(&self, machine: &Machine, workload: &Workload) -> (Outcome, Option<u32>) {
        let faults = FaultPlan::default();
        let setup = self.setup(machine, workload, 0, &faults);
        let (mut kind, mut watcher) = (None, Watcher::new(machine.topology.len()));
        let outcome = simulator::run_and_unload(&setup, &mut watcher, &mut |_| (), &mut |kernel, _| {
            kind = kernel.exit_info().map(|exit| exit.kind);
        });
        (outcome.unwrap(), kind)
    }

    /// Like [`Scheduler::play_faults`], in the form in which kernel operations wait for their locks.
    pub fn play_waiting(&self, machine: &Machine, workload: &Workload, seed: u64, faults: &FaultPlan) -> Played {
        let kernel = self.kernel.waiting();
        let setup = Setup { kernel, ..self.setup(machine, workload, seed, faults) };
        let mut watcher = Watcher::new(machine.topology.len());
        let outcome = simulator::run(&setup, &mut watcher, &mut |_| ()).unwrap();
        Played { outcome, events: watcher.events }
    }

    /// Variables of the scheduler at the end of a run, with waiting operations or without.
    pub fn variables(&self, machine: &Machine, workload: &Workload, waiting: bool, names: &[&str]) -> Vec<u64> {
        let faults = FaultPlan::default();
        let kernel = if waiting { self.kernel.waiting() } else { self.kernel };
        self.variables_of(&Setup { kernel, ..self.setup(machine, workload, 0, &faults) }, names)
    }

    /// Like [`Scheduler::variables`], with a fault plan.
    pub fn variables_after(
        &self,
        machine: &Machine,
        workload: &Workload,
        faults: &FaultPlan,
        names: &[&str],
    ) -> Vec<u64> {
        self.variables_of(&self.setup(machine, workload, 0, faults), names)
    }

    fn variables_of(&self, setup: &Setup<'_>, names: &[&str]) -> Vec<u64> {
        let mut values = Vec::new();
        let last: &mut dyn FnMut(&mut Kernel, &LinkedObject) = &mut |kernel, object| {
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
            values.extend(names.iter().map(|name| number(kernel.variable(object, name).expect("the variable exists"))));
        };
        let mut watcher = Watcher::new(setup.machine.topology.len());
        let outcome = simulator::run_then(setup, &mut watcher, &mut |_| (), last);
        assert_eq!(outcome.unwrap().ejected, None);
        values
    }

    /// Like [`Scheduler::play_with`], with a fault plan.
    pub fn play_faults(&self, machine: &Machine, workload: &Workload, seed: u64, faults: &FaultPlan) -> Played {
        let setup = self.setup(machine, workload, seed, faults);
        let mut watcher = Watcher::new(machine.topology.len());
        let outcome = simulator::run(&setup, &mut watcher, &mut |_| ()).unwrap();
        assert_eq!(outcome.measures.elapsed, outcome.measures.elapsed.max(watcher.last));
        Played { outcome, events: watcher.events }
    }
}

/// A completed run.
#[derive(PartialEq, Debug)]
pub struct Played {
    pub outcome: Outcome,
    pub events: Vec<Event>,
}

impl Played {
    /// Fails if the scheduler was ejected.
    pub fn completed(self) -> Played {
        assert_eq!(self.outcome.ejected, None);
        self
    }

    /// Switches, each as `time cpu:task`, idle as `-`.
    pub fn switches(&self) -> String {
        let switches = self.events.iter().filter(|event| matches!(event.kind, EventKind::Switch { .. }));
        let lines = switches.map(|event| format!("{} {}:{}", event.time.0, event.cpu, event.task));
        lines.collect::<Vec<_>>().join(", ")
    }

    /// Number of switches with this reason.
    pub fn count(&self, reason: SwitchReason) -> usize {
        let has = |event: &&Event| matches!(event.kind, EventKind::Switch { reason: why, .. } if why == reason);
        self.events.iter().filter(has).count()
    }

    /// CPUs on which a task of the workload ran.
    pub fn cpus_used(&self) -> CpuSet {
        let tasks = self.outcome.measures.tasks.iter().filter(|task| !task.kernel_thread);
        tasks.flat_map(|task| task.cpus_used.iter().collect::<Vec<_>>()).collect()
    }
}

/// Checks each event of a run: time does not go back, a task runs on one CPU at a time, only on an allowed CPU and
/// only where the preceding events placed it, and the switches of a CPU are consistent.
struct Watcher {
    last: Nanos,
    allowed: Vec<CpuSet>,
    runs_on: Vec<Option<CpuId>>,
    /// CPU to which its last switch-in, wakeup or migration placed a task.
    place: Vec<Option<CpuId>>,
    current: Vec<TaskId>,
    offline: CpuSet,
    events: Vec<Event>,
}

impl Watcher {
    fn new(cpus: usize) -> Watcher {
        Watcher {
            last: Nanos::ZERO,
            allowed: Vec::new(),
            runs_on: Vec::new(),
            place: Vec::new(),
            current: vec![TaskId::NONE; cpus],
            offline: CpuSet::new(),
            events: Vec::new(),
        }
    }

    fn switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        assert_eq!(self.current[cpu.index()], prev, "previous task of a switch on CPU {cpu}");
        self.current[cpu.index()] = next;
        if let Some(prev) = prev.some() {
            assert_eq!(self.runs_on[prev.index()].take(), Some(cpu));
        }
        assert!(!self.offline.contains(cpu), "offline CPU {cpu} switches");
        if let Some(next) = next.some() {
            assert_eq!(self.runs_on[next.index()].replace(cpu), None, "task {next} runs on two CPUs");
            let allowed = &self.allowed[next.index()];
            assert!(allowed.contains(cpu), "task {next} runs on CPU {cpu}, allowed are {allowed}");
            let place = self.place[next.index()];
            assert_eq!(place, Some(cpu), "task {next} runs on CPU {cpu} without an event that placed it there");
        }
    }
}

impl Sink for Watcher {
    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        assert!(time >= self.last);
        assert_eq!(info.id.index(), self.allowed.len());
        self.allowed.push(info.allowed.clone());
        self.runs_on.push(None);
        self.place.push(None);
    }

    fn affinity(&mut self, _time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.allowed[task.index()] = allowed.clone();
    }

    fn event(&mut self, event: &Event) {
        assert!(event.time >= self.last, "time does not go back");
        self.last = event.time;
        if let EventKind::Wakeup { target: to, .. } | EventKind::Migrate { to, .. } = event.kind {
            self.place[event.task.index()] = Some(to);
        }
        if let EventKind::Switch { prev, .. } = event.kind {
            self.switch(event.cpu, prev, event.task);
        }
        if let EventKind::Hotplug { online } = event.kind {
            assert_eq!(self.current[event.cpu.index()], TaskId::NONE, "CPU {} is vacant", event.cpu);
            let changed = if online { self.offline.remove(event.cpu) } else { self.offline.insert(event.cpu) };
            assert!(changed, "CPU {} alternates between online and offline", event.cpu);
        }
        self.events.push(*event);
    }
}

/// A machine of this shape (hwloc's synthetic syntax) whose operations cost nothing.
pub fn free_machine(shape: &str) -> Machine {
    let mut machine = Machine::from_synthetic(shape).unwrap();
    machine.costs = Costs::zero();
    machine
}

/// Duration of attaching or disabling a scheduler on a [`bypass_machine`]: five and a half ticks.
pub const BYPASS: Nanos = Nanos::from_ms(22);

/// Cores with ticks every 4 ms, where only the bypass takes time.
pub fn bypass_machine(cpus: u32) -> Machine {
    let mut machine = free_machine(&format!("core:{cpus} pu:1"));
    machine.hz = 250;
    (machine.costs.attach_ns, machine.costs.disable_ns) = (BYPASS.0, BYPASS.0);
    machine
}

/// `count` endless tasks, for four seconds.
pub fn hogs(count: u32) -> Workload {
    rt_app(&format!(
        r#"{{"global": {{"duration": 4}}, "tasks": {{
        "hog": {{"instance": {count}, "loop": -1, "run": 1000000}}}}}}"#
    ))
}

/// Parses rt-app JSON.
pub fn rt_app(text: &str) -> Workload {
    Workload::from_rt_app("test", text).unwrap()
}
