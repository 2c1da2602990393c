// SPDX-License-Identifier: GPL-2.0-only
//! Test bench: a kernel model with a policy, stepped by hand. Interrupts and code take no time, so that a test can
//! state the effect of a rule to the nanosecond.

use bpf_object::{LinkedObject, Object};
use event_log::{BlockCause, EventKind, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{CgroupId, CgroupKnobs, Config, Effect, Kernel, Leave, Lock, Output, TaskAttributes, TimerKey};
use launch_profile::{Profile, WorkloadFacts};
use machine_model::Machine;
use std::path::{Path, PathBuf};

pub const MS: u64 = 1_000_000;

/// Interval between watchdog runs. The kernel's own interval, half of the watchdog timeout, is longer.
const WATCHDOG_NS: u64 = 1_000_000_000;

/// A kernel with an attached policy, and its clock.
pub struct World {
    pub kernel: Kernel,
    pub machine: Machine,
    pub now_ns: u64,
    object: LinkedObject,
    output: Output,
    /// Armed timers of the policy: expiry, timer, CPU of its interrupt.
    timers: Vec<(u64, TimerKey, CpuId)>,
    /// CPU time of each task.
    pub ran_ns: Vec<u64>,
    /// CPUs that were rescheduled since the list was last cleared, in order.
    pub rescheduled: Vec<CpuId>,
    /// Insertions into dispatch queues since the list was last cleared, in order.
    pub inserted: Vec<Inserted>,
    /// Context switches since the list was last cleared, in order: time and next task.
    pub switches: Vec<(u64, TaskId)>,
    /// Number of times a timer of the policy was armed.
    pub armed: usize,
    /// Dispatch queues whose locks were acquired since the list was last cleared, in order; empty unless the kernel
    /// tracks locks.
    pub locked: Vec<u64>,
}

/// An insertion of a task into a dispatch queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inserted {
    pub task: TaskId,
    pub dsq: u64,
    pub key: u64,
    pub slice_ns: u64,
}

/// Returns the path of the policy's object in the directory `WEIR_POLICY_OBJECTS`, if it is there: `cargo xtask
/// mutants` supplies that of one policy.
fn supplied_object(name: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("WEIR_POLICY_OBJECTS")?;
    Some(Path::new(&directory).join(format!("{name}.bpf.o"))).filter(|path| path.is_file())
}

/// Returns the object of a policy: the supplied one, or that of this build.
fn object(policy: &policies::Policy) -> Vec<u8> {
    supplied_object(policy.name).map_or_else(|| policy.object.to_vec(), |path| std::fs::read(path).unwrap())
}

/// Returns the virtual-deadline policies to test: all, or the one whose object is supplied.
pub fn tested() -> Vec<&'static str> {
    among(&["bfs", "vrq", "muqss"])
}

/// Returns the virtual-deadline policies of 2009 to 2015: slices end at ticks, and a running task keeps its deadline.
pub fn older() -> Vec<&'static str> {
    among(&["bfs", "vrq"])
}

/// Returns these policies, or only the one whose object is supplied.
pub fn among(names: &[&'static str]) -> Vec<&'static str> {
    let mut names = names.to_vec();
    if std::env::var_os("WEIR_POLICY_OBJECTS").is_some() {
        names.retain(|name| supplied_object(name).is_some());
    }
    names
}

impl World {
    /// Loads the policy `spec`, `NAME[@PRESET][,key=value…]`, on the machine `shape`, an hwloc synthetic string.
    pub fn new(spec: &str, shape: &str, hz: u32) -> World {
        let mut machine = Machine::from_synthetic(shape).unwrap();
        machine.hz = hz;
        World::on(spec, machine, (7, 2))
    }

    pub fn on(spec: &str, machine: Machine, version: (u16, u16)) -> World {
        World::with_facts(spec, machine, version, &WorkloadFacts::default())
    }

    /// As [`World::on`], with facts of a workload for the policy's user space.
    pub fn with_facts(spec: &str, machine: Machine, version: (u16, u16), facts: &WorkloadFacts) -> World {
        World::starting_at(spec, machine, version, facts, 0)
    }

    /// As [`World::with_facts`], with the clock at `now_ns` when the policy is loaded.
    pub fn starting_at(spec: &str, machine: Machine, version: (u16, u16), facts: &WorkloadFacts, now_ns: u64) -> World {
        let topology = machine.topology.clone();
        let config = Config {
            topology,
            hz: machine.hz,
            version,
            budget: 1_000_000,
            seed: 1,
            newidle_ratio: None,
            autogroup: false,
            types: None,
        };
        let mut parts = spec.split(',');
        let head = parts.next().unwrap();
        let (name, preset) = head.split_once('@').map_or((head, None), |(name, preset)| (name, Some(preset)));
        let policy = policies::find(name).unwrap();
        let tunables: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let tunables: Vec<_> = tunables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut object = Object::parse(&object(policy)).unwrap().link(&*Kernel::target(&config)).unwrap();
        let mut profile = Profile::from_toml(policy.name, policy.profile).unwrap();
        profile.select(preset, &tunables).unwrap();
        let profile = profile.for_workload(facts);
        profile.apply(&mut object, &machine).unwrap();
        let mut kernel = Kernel::new(config);
        kernel.set_now(Nanos(now_ns));
        kernel.load(&object).unwrap();
        let steps = profile.steps(&object, &machine).unwrap();
        assert!(steps.calls.is_empty() && steps.calls_attached.is_empty(), "calls in profiles are not supported here");
        for element in &steps.elements {
            kernel.set_element(&element.map, &element.key, &element.values).unwrap();
        }
        kernel.attach(CpuId(0)).unwrap();
        let (output, ran_ns) = (Output::default(), vec![]);
        let (rescheduled, inserted, switches, locked) = (vec![], vec![], vec![], vec![]);
        let (timers, armed) = (vec![], 0);
        let mut world = World {
            kernel,
            machine,
            now_ns,
            object,
            output,
            timers,
            ran_ns,
            rescheduled,
            inserted,
            switches,
            armed,
            locked,
        };
        world.settle();
        world
    }

    /// Returns a variable of the policy that is an array of 32-bit numbers.
    pub fn numbers(&self, name: &str) -> Vec<u32> {
        let bytes = self.kernel.variable(&self.object, name).expect("the policy has that variable");
        bytes.chunks_exact(4).map(|number| u32::from_le_bytes(number.try_into().unwrap())).collect()
    }

    /// Calls a `syscall` program of the attached policy with these words as argument; it must return 0.
    pub fn call(&mut self, program: &str, words: &[u32]) {
        assert_eq!(self.returned(program, words), 0);
    }

    /// As [`World::call`], but returns the program's return value.
    pub fn returned(&mut self, program: &str, words: &[u32]) -> i32 {
        let context: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let returned = self.kernel.run_program(&self.object, program, &context).unwrap();
        self.settle();
        returned
    }

    pub fn attributes(&self) -> TaskAttributes {
        TaskAttributes {
            name: "task".to_owned(),
            policy: Policy::Other,
            nice: 0,
            allowed: CpuSet::first_n(self.machine.topology.len()),
            kernel_thread: false,
            own_cpu: None,
            thread: false,
            parent: None,
            identity: kernel_model::Identity::default(),
        }
    }

    /// Creates a cgroup of this weight in `parent`.
    pub fn group(&mut self, parent: CgroupId, name: &str, weight: u32) -> CgroupId {
        let group = self.kernel.make_cgroup(CpuId(0), parent, name).unwrap();
        self.kernel.set_cgroup(CpuId(0), group, CgroupKnobs { weight, ..CgroupKnobs::default() });
        self.settle();
        group
    }

    /// Moves tasks to a cgroup, in whatever state they are.
    pub fn place(&mut self, tasks: &[TaskId], group: CgroupId) {
        self.kernel.move_to_cgroup(CpuId(0), tasks, group).unwrap();
        self.settle();
    }

    /// Creates tasks while CPU 0 is idle, so that they have no parent, and then wakes them in order.
    pub fn start(&mut self, attributes: Vec<TaskAttributes>) -> Vec<TaskId> {
        assert_eq!(self.running(0), TaskId::NONE);
        let make = |attributes| self.kernel.fork(CpuId(0), attributes).unwrap();
        let tasks: Vec<TaskId> = attributes.into_iter().map(make).collect();
        for task in &tasks {
            self.kernel.wake_new(CpuId(0), *task);
            self.settle();
        }
        tasks
    }

    /// Forks a child of the task that runs on `cpu` and wakes it for the first time.
    pub fn spawn(&mut self, cpu: u32, attributes: TaskAttributes) -> TaskId {
        let task = self.kernel.fork(CpuId(cpu), attributes).unwrap();
        self.kernel.wake_new(CpuId(cpu), task);
        self.settle();
        task
    }

    /// Attributes of a task that is pinned to a CPU.
    pub fn pinned(&self, cpu: u32, nice: i8) -> TaskAttributes {
        TaskAttributes { nice, allowed: only(&[cpu]), ..self.attributes() }
    }

    pub fn wake(&mut self, cpu: u32, task: TaskId, sync: bool) {
        self.kernel.wake(CpuId(cpu), task, Waker::Timer, sync);
        self.settle();
    }

    /// Performs the wakeup alone: no CPU reschedules before [`World::settle`].
    pub fn wake_without_settling(&mut self, cpu: u32, task: TaskId) {
        self.kernel.wake(CpuId(cpu), task, Waker::Timer, false);
    }

    /// Runs the operation that `cpu` has begun to its end.
    pub fn finish(&mut self, cpu: u32) {
        while self.kernel.is_waiting(CpuId(cpu)) {
            self.kernel.resume(CpuId(cpu));
        }
    }

    /// Blocks a task, which must be running.
    pub fn block(&mut self, task: TaskId) {
        let cpu = self.cpu_of(task).expect("the task runs");
        self.kernel.schedule(CpuId(cpu), Leave::Block(BlockCause::Timer));
        self.settle();
    }

    pub fn leave(&mut self, cpu: u32, leave: Leave) {
        self.kernel.schedule(CpuId(cpu), leave);
        self.settle();
    }

    pub fn running(&self, cpu: u32) -> TaskId {
        self.kernel.current(CpuId(cpu))
    }

    /// Returns the CPU the task runs on.
    pub fn cpu_of(&self, task: TaskId) -> Option<u32> {
        (0..self.cpus()).find(|cpu| self.running(*cpu) == task)
    }

    pub fn cpus(&self) -> u32 {
        self.machine.topology.len() as u32
    }

    /// Returns the CPU time of a task in milliseconds.
    pub fn ran_ms(&self, task: TaskId) -> u64 {
        self.ran_ns.get(task.0 as usize).copied().unwrap_or(0) / MS
    }

    /// Returns the last insertion of the task.
    pub fn last_insert(&self, task: TaskId) -> Inserted {
        *self.inserted.iter().rev().find(|one| one.task == task).expect("it was inserted")
    }

    /// Returns the last insertion of the task into a user dispatch queue, built-in queues excluded.
    pub fn last_queued(&self, task: TaskId) -> Inserted {
        let ordered = |one: &&Inserted| one.task == task && one.dsq >> 63 == 0;
        *self.inserted.iter().rev().find(ordered).expect("it was queued")
    }

    /// Takes a CPU offline; no task may stay on it.
    pub fn offline(&mut self, cpu: u32) {
        self.kernel.deactivate_cpu(CpuId(cpu));
        self.settle();
        self.kernel.offline_cpu(CpuId(cpu));
        self.settle();
        assert!(self.kernel.is_vacant(CpuId(cpu)), "a task stays on CPU {cpu}");
        self.kernel.kill_cpu(CpuId(cpu));
        self.settle();
    }

    /// Brings an offline CPU back.
    pub fn online(&mut self, cpu: u32) {
        self.kernel.start_cpu(CpuId(cpu));
        self.settle();
        self.kernel.activate_cpu(CpuId(cpu));
        self.settle();
    }

    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.machine.hz)
    }

    /// Advances the clock. Every busy CPU has its tick at each multiple of the tick period.
    pub fn run_until(&mut self, end_ns: u64) {
        while self.now_ns < end_ns {
            let tick_at = (self.now_ns / self.tick_ns() + 1) * self.tick_ns();
            let next = self.timers.iter().fold(tick_at.min(end_ns), |next, timer| next.min(timer.0));
            for cpu in 0..self.cpus() {
                let task = self.running(cpu);
                if task != TaskId::NONE {
                    self.ran_ns.resize(self.ran_ns.len().max(task.0 as usize + 1), 0);
                    self.ran_ns[task.0 as usize] += next - self.now_ns;
                }
            }
            self.now_ns = next;
            self.kernel.set_now(Nanos(next));
            while let Some(due) = self.timers.iter().position(|timer| timer.0 <= next) {
                let (_, timer, cpu) = self.timers.swap_remove(due);
                self.kernel.timer(cpu, timer);
                self.settle();
            }
            if next / WATCHDOG_NS != (next - 1) / WATCHDOG_NS {
                self.kernel.watchdog_work(CpuId(0));
                self.settle();
            }
            if next == tick_at {
                for cpu in 0..self.cpus() {
                    if self.running(cpu) != TaskId::NONE {
                        self.kernel.tick(CpuId(cpu));
                        self.settle();
                    }
                }
            }
        }
    }

    pub fn run_ms(&mut self, ms: u64) {
        self.run_until(self.now_ns + ms * MS);
    }

    /// Carries out the kernel's effects until there are none.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            self.kernel.take_output(&mut self.output);
            assert_eq!(self.kernel.exit_info(), None);
            for event in self.output.events.drain(..) {
                match event.kind {
                    EventKind::Insert { dsq, key, slice_ns } => {
                        self.inserted.push(Inserted { task: event.task, dsq: dsq.0, key, slice_ns });
                    }
                    EventKind::Switch { .. } if event.task != TaskId::NONE => {
                        self.switches.push((event.time.0, event.task));
                    }
                    _ => {}
                }
            }
            for step in self.output.locks.drain(..).filter(|step| step.taken) {
                if let Lock::Dsq(queue) = step.lock {
                    self.locked.push(queue.0);
                }
            }
            let effects = std::mem::take(&mut self.output.effects);
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Resched { cpu } => {
                        self.rescheduled.push(cpu);
                        self.kernel.schedule(cpu, Leave::Preempt);
                    }
                    Effect::ArmTimer { timer: timer @ TimerKey::Bpf(_), cpu, at } => {
                        self.timers.retain(|other| other.1 != timer);
                        self.timers.push((at.0, timer, cpu));
                        self.armed += 1;
                    }
                    _ => {}
                }
            }
        }
        panic!("the CPUs never come to rest");
    }
}

pub fn only(cpus: &[u32]) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.insert(CpuId(*cpu));
    }
    set
}
