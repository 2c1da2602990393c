// SPDX-License-Identifier: GPL-2.0-only
//! A test bench: a kernel with the probe scheduler, driven by hand. Effects are carried out at once and in order, as
//! on a machine without delays; the probe's log is the result.

pub mod kinds;

use bpf_object::{LinkedObject, Object};
use event_log::{BlockCause, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId, Topology};
use kernel_model::{Config, Effect, ExitInfo, Kernel, LaunchError, Leave, Output, TaskAttributes, TimerKey};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// One tick at 250 Hz.
pub const TICK: Nanos = Nanos::from_ms(4);

/// Compiles the probe with these `-D` arguments (without the `-D`).
pub fn probe(defines: &[&str]) -> Vec<u8> {
    compiled("probe", defines)
}

/// Compiles a scheduler of `tests/schedulers` with these `-D` arguments.
pub fn compiled(name: &str, defines: &[&str]) -> Vec<u8> {
    let arguments: Vec<String> = defines.iter().map(|define| format!("-D{define}")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schedulers/{name}.bpf.c"));
    bpf_clang::object_of(&source, Path::new(env!("CARGO_TARGET_TMPDIR")), &arguments)
}

/// Topology with `cpus` cores without SMT, one LLC and one node.
pub fn flat(cpus: u32) -> Topology {
    Topology::flat(cpus)
}

/// A kernel driven by a test.
pub struct Bench {
    /// The kernel.
    pub kernel: Kernel,
    /// The current time.
    pub now: Nanos,
    object: LinkedObject,
    output: Output,
    pending: VecDeque<CpuId>,
    timers: BTreeMap<TimerKey, (Nanos, CpuId)>,
    read: usize,
    /// CPUs for which a reschedule was requested, in order, since the list was cleared.
    pub rescheds: Vec<u32>,
    /// Lines printed by the scheduler since the list was cleared.
    pub printed: Vec<String>,
    /// CPUs that wait until other CPUs have switched (`SCX_KICK_WAIT`).
    pub awaited: Vec<(u32, String)>,
}

impl Bench {
    /// Loads an object on this machine, without attaching it.
    pub fn load(topology: Topology, object: &[u8]) -> Result<Bench, LaunchError> {
        Bench::load_changed(topology, object, |_| {})
    }

    /// Loads an object after a change that its user-space part would make.
    pub fn load_changed(
        topology: Topology,
        object: &[u8],
        change: impl FnOnce(&mut LinkedObject),
    ) -> Result<Bench, LaunchError> {
        Bench::load_in((7, 2), topology, object, change)
    }

    /// Loads an object in a given kernel version.
    pub fn load_in(
        version: (u16, u16),
        topology: Topology,
        object: &[u8],
        change: impl FnOnce(&mut LinkedObject),
    ) -> Result<Bench, LaunchError> {
        let config = Config {
            topology,
            hz: 250,
            version,
            budget: 1_000_000,
            seed: 1,
            newidle_ratio: None,
            autogroup: false,
            types: None,
        };
        Bench::load_as(config, object, change)
    }

    /// Loads an object in a kernel with this configuration.
    pub fn load_as(
        config: Config,
        object: &[u8],
        change: impl FnOnce(&mut LinkedObject),
    ) -> Result<Bench, LaunchError> {
        let target = Kernel::target(&config);
        let mut object = Object::parse(object).expect("clang makes objects").link(&*target).expect("it links");
        change(&mut object);
        let mut kernel = Kernel::new(config);
        kernel.load(&object)?;
        let (pending, timers) = (VecDeque::new(), BTreeMap::new());
        let (output, now, read) = (Output::default(), Nanos::ZERO, 0);
        Ok(Bench {
            kernel,
            now,
            object,
            output,
            pending,
            timers,
            read,
            rescheds: Vec::new(),
            printed: Vec::new(),
            awaited: Vec::new(),
        })
    }

    /// Attaches the probe on a flat machine and clears its log.
    pub fn probe(cpus: u32, defines: &[&str]) -> Bench {
        let mut bench = Bench::load(flat(cpus), &probe(defines)).expect("the probe loads");
        bench.attach();
        bench.log();
        bench
    }

    /// Attaches on CPU 0.
    pub fn attach(&mut self) {
        self.kernel.attach(CpuId(0)).expect("it attaches");
        self.settle();
    }

    /// Creates a sleeping task that may run on `cpus` (all if empty).
    pub fn task(&mut self, name: &str, cpus: &str) -> TaskId {
        self.task_with(name, cpus, Policy::Other, 0)
    }

    /// Creates a sleeping task with a policy and a nice value. It has been forked, run once on its first allowed CPU,
    /// and blocked; the log of that is cleared.
    pub fn task_with(&mut self, name: &str, cpus: &str, policy: Policy, nice: i8) -> TaskId {
        let task = self.fork(name, cpus, policy, nice);
        self.kernel.wake_new(CpuId(0), task);
        self.settle();
        let cpu = self.kernel.task_cpu(task);
        assert_eq!(self.kernel.current(cpu), task, "the bench starts tasks on idle CPUs");
        self.block(task);
        self.log();
        task
    }

    /// A new task, not yet woken.
    pub fn fork(&mut self, name: &str, cpus: &str, policy: Policy, nice: i8) -> TaskId {
        self.fork_in(name, cpus, policy, nice, None)
    }

    /// As [`Bench::fork`], in a session.
    pub fn fork_in(&mut self, name: &str, cpus: &str, policy: Policy, nice: i8, session: Option<u32>) -> TaskId {
        let all = CpuSet::first_n(64);
        let allowed = if cpus.is_empty() { all } else { cpus.parse().expect("a CPU list") };
        let attributes = TaskAttributes {
            name: name.into(),
            policy,
            nice,
            allowed,
            kernel_thread: false,
            own_cpu: None,
            thread: false,
            parent: None,
            identity: kernel_model::Identity { session, ..kernel_model::Identity::default() },
        };
        self.kernel.fork(CpuId(0), attributes).expect("init_task agrees")
    }

    /// Collects the output of the last call and carries out its effects.
    pub fn settle(&mut self) {
        self.collect();
        while let Some(cpu) = self.pending.pop_front() {
            self.kernel.schedule(cpu, Leave::Preempt);
            self.collect();
        }
    }

    /// Collects the output of the last call without carrying out reschedules.
    pub fn collect(&mut self) {
        self.kernel.take_output(&mut self.output);
        self.printed.extend(self.output.printed.drain(..).map(|(_, printk)| printk.text));
        for effect in self.output.effects.drain(..) {
            match effect {
                Effect::Resched { cpu } => {
                    self.rescheds.push(cpu.0);
                    self.pending.push_back(cpu);
                }
                Effect::ArmTimer { timer, cpu, at } => drop(self.timers.insert(timer, (at, cpu))),
                Effect::CancelTimer { timer } => drop(self.timers.remove(&timer)),
                Effect::AwaitSwitch { cpu, targets } => self.awaited.push((cpu.0, targets.to_string())),
                Effect::Disabling | Effect::Disabled | Effect::Performance { .. } => {}
            }
        }
    }

    /// Wakes a task by an interrupt of CPU 0.
    pub fn wake(&mut self, task: TaskId) {
        self.wake_from(0, task, false);
    }

    /// Wakes a task from a CPU.
    pub fn wake_from(&mut self, cpu: u32, task: TaskId, sync: bool) {
        self.kernel.wake(CpuId(cpu), task, Waker::Interrupt, sync);
        self.settle();
    }

    /// Blocks a running task.
    pub fn block(&mut self, task: TaskId) {
        self.leave(task, Leave::Block(BlockCause::Timer));
    }

    /// Makes a running task leave its CPU.
    pub fn leave(&mut self, task: TaskId, leave: Leave) {
        let cpu = self.kernel.task_cpu(task);
        assert_eq!(self.kernel.current(cpu), task, "only a running task can leave");
        self.kernel.schedule(cpu, leave);
        self.settle();
    }

    /// Lets time pass without ticks and timers.
    pub fn pass(&mut self, time: Nanos) {
        self.now += time;
        self.kernel.set_now(self.now);
    }

    /// Lets time pass with ticks on these CPUs and expiring timers.
    pub fn run(&mut self, cpus: &[u32], time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            self.pass_with_timers(TICK);
            for &cpu in cpus {
                self.kernel.tick(CpuId(cpu));
                self.settle();
            }
        }
    }

    /// Lets time pass with expiring timers.
    pub fn pass_with_timers(&mut self, time: Nanos) {
        let end = self.now + time;
        let due = |bench: &Bench| bench.timers.iter().map(|(&timer, &(at, cpu))| (at, timer, cpu)).min();
        while let Some((at, timer, cpu)) = due(self).filter(|&(at, ..)| at <= end) {
            self.pass(at.max(self.now) - self.now);
            self.timers.remove(&timer);
            self.kernel.timer(cpu, timer);
            self.settle();
        }
        self.pass(end - self.now);
    }

    /// Takes a CPU offline, without time between the steps.
    pub fn offline(&mut self, cpu: u32) {
        self.kernel.deactivate_cpu(CpuId(cpu));
        self.settle();
        self.kernel.offline_cpu(CpuId(cpu));
        self.settle();
        self.kernel.kill_cpu(CpuId(cpu));
        self.settle();
    }

    /// Brings a CPU online.
    pub fn online(&mut self, cpu: u32) {
        self.kernel.start_cpu(CpuId(cpu));
        self.kernel.activate_cpu(CpuId(cpu));
        self.settle();
    }

    /// Loads the object again and attaches it, as a loader does after a restart request.
    pub fn restart(&mut self) {
        self.kernel.load(&self.object).expect("it loads again");
        self.read = 0;
        self.attach();
    }

    /// Returns the probe's log since the last call, one operation per entry: `op:cpu:task(a,b)`, without trailing
    /// zero arguments.
    pub fn log(&mut self) -> Vec<String> {
        let length = self.variable("logged") as usize;
        let bytes = self.kernel.variable(&self.object, "entries").expect("the probe has a log");
        let log = bytes[..].chunks_exact(32).take(length).skip(self.read).map(entry).collect();
        self.read = length;
        log
    }

    /// Returns the log since the last call in one line.
    pub fn line(&mut self) -> String {
        self.log().join(" ")
    }

    /// Returns the op names of the log since the last call.
    pub fn ops(&mut self) -> String {
        let names: Vec<String> = self.log().iter().map(|entry| entry.split(':').next().unwrap().to_owned()).collect();
        names.join(" ")
    }

    /// Value of a variable of the probe.
    pub fn variable(&self, name: &str) -> u64 {
        let bytes = self.kernel.variable(&self.object, name).expect("the probe has that variable");
        bytes.iter().take(8).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Values of an array of the scheduler with elements of `size` bytes.
    pub fn numbers(&self, name: &str, size: usize) -> Vec<i64> {
        let bytes = self.kernel.variable(&self.object, name).expect("the scheduler has that variable");
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
        let unused = 64 - 8 * size as u32;
        bytes.chunks_exact(size).map(|bytes| (number(bytes) << unused) as i64 >> unused).collect()
    }

    /// Exit information of the scheduler, which must be disabled.
    pub fn exit(&self) -> &ExitInfo {
        self.kernel.exit_info().expect("the scheduler is disabled")
    }

    /// Exit kind and message of the scheduler.
    pub fn error(&self) -> (u32, &str) {
        (self.exit().kind, &self.exit().message)
    }
}

fn entry(bytes: &[u8]) -> String {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let half = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (a, b, op, cpu, pid) = (word(0), word(8), half(16), half(20), half(24));
    let task = if pid < 0 { "-".to_owned() } else { format!("{}", pid - 100) };
    let arguments = match (a, b) {
        (0, 0) => String::new(),
        (a, 0) => format!("({a:#x})"),
        (a, b) => format!("({a:#x},{b:#x})"),
    };
    let name = event_log::op_name(op as u8).expect("the probe numbers ops as the log does");
    format!("{name}:{cpu}:{task}{arguments}")
}
