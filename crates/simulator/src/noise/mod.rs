// SPDX-License-Identifier: GPL-2.0-only
//! Random variation between runs of the same inputs, determined by the seed; `docs/explanation/noise.md` documents each source
//! and its size.
//!
//! 1. Seed 0 is the nominal run: there is no variation, and every function here returns its nominal argument.
//! 2. Each source has random streams of its own. Disabling a source does not change the others.

mod background;
mod disturbances;
pub(crate) mod draw;
mod jitter;

use crate::alarms::Alarm;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::Run;
use disturbances::Disturbances;
use draw::{Draw, more};
use ids::{CpuId, Nanos, TaskId};
use machine_model::{Machine, NoiseSource, Spread};
use workload::{Sleep, Workload};

pub(crate) use background::Thread;
pub(crate) use jitter::Jitter;

/// Random variation of a run.
#[derive(Debug)]
pub(crate) struct Noise<'a> {
    /// `None`: no variation.
    sources: Option<Box<Sources<'a>>>,
    /// Kernel background threads.
    pub threads: Vec<Thread>,
}

#[derive(Debug)]
struct Sources<'a> {
    seed: u64,
    sizes: &'a machine_model::Noise,
    work: bool,
    disturbances: bool,
    wakeups: bool,
    kernel: bool,
    steal: bool,
    /// Deviation of all work of this run.
    run_ppm: i64,
    starts: Draw,
    cpus: Vec<OfCpu>,
    /// By task; `None` for kthreads.
    tasks: Vec<Option<OfTask>>,
    /// Number of tasks started so far from each spec.
    instances: Vec<u32>,
}

/// Random streams of a CPU.
#[derive(Debug)]
struct OfCpu {
    idle_exit: Draw,
    timer: Draw,
    kernel: Draw,
    steal: Draw,
}

/// Random streams of a task.
#[derive(Debug)]
struct OfTask {
    /// Deviation of all its work.
    ppm: i64,
    work: Draw,
    disturbance: Disturbances,
    sleep: Draw,
    wakeup: Draw,
    switch: Draw,
}

impl<'a> Noise<'a> {
    /// Creates the variation of this seed on this machine.
    pub fn new(seed: u64, machine: &'a Machine, workload: &Workload) -> Noise<'a> {
        if seed == 0 {
            return Noise { sources: None, threads: Vec::new() };
        }
        let sizes = &machine.noise;
        let work = sizes.has(NoiseSource::Work);
        let run_ppm = if work { Draw::new(seed, "work").of(&sizes.work_run_ppm) } else { 0 };
        let of_cpu = |cpu: usize| OfCpu {
            idle_exit: Draw::new(seed, &format!("idle exit {cpu}")),
            timer: Draw::new(seed, &format!("timer {cpu}")),
            kernel: Draw::new(seed, &format!("kernel {cpu}")),
            steal: Draw::new(seed, &format!("steal {cpu}")),
        };
        let sources = Sources {
            seed,
            sizes,
            work,
            disturbances: sizes.has(NoiseSource::Disturbances) && !sizes.disturbance_every_ns.is_none(),
            wakeups: sizes.has(NoiseSource::Wakeups),
            kernel: sizes.has(NoiseSource::Kernel),
            steal: sizes.has(NoiseSource::Steal) && !sizes.steal_every_us.is_none(),
            run_ppm,
            starts: Draw::new(seed, "starts"),
            cpus: (0..machine.topology.len()).map(of_cpu).collect(),
            tasks: Vec::new(),
            instances: vec![0; workload.tasks.len()],
        };
        let threads = if sizes.has(NoiseSource::Threads) { background::threads(seed, machine) } else { Vec::new() };
        Noise { sources: Some(Box::new(sources)), threads }
    }

    fn source(&self, source: NoiseSource) -> Option<&Sources<'a>> {
        self.sources.as_deref().filter(|sources| sources.sizes.has(source))
    }

    fn wakeups(&mut self) -> Option<&mut Sources<'a>> {
        self.sources.as_deref_mut().filter(|sources| sources.wakeups)
    }

    /// Random order of events that are due at the same time; `None`: the order of their slots.
    pub fn order(&self) -> Option<Draw> {
        self.source(NoiseSource::Order).map(|sources| Draw::new(sources.seed, "order"))
    }

    /// Time of the first point of the tick grid.
    pub fn grid(&self, period: Nanos) -> Nanos {
        let sources = self.source(NoiseSource::Ticks);
        sources.map_or(Nanos::ZERO, |sources| Draw::new(sources.seed, "grid").before(period))
    }

    /// Lateness and cost of the ticks.
    pub fn jitter(&self) -> Option<Jitter> {
        let size = |source, spread: fn(&machine_model::Noise) -> &Spread| {
            self.source(source).map(|sources| *spread(sources.sizes)).filter(|spread| !spread.is_none())
        };
        let late_ns = size(NoiseSource::Ticks, |sizes| &sizes.tick_ns);
        let cost_ppm = size(NoiseSource::Kernel, |sizes| &sizes.interrupt_ppm);
        Jitter::new(self.sources.as_ref()?.seed, late_ns, cost_ppm)
    }

    /// Delay of the start of a task by the external parent.
    pub fn start(&mut self) -> Nanos {
        match self.sources.as_deref_mut() {
            Some(sources) if sources.sizes.has(NoiseSource::Starts) => sources.starts.time(&sources.sizes.start_ns),
            _ => Nanos::ZERO,
        }
    }

    /// `task` executes the spec with this index.
    pub fn started(&mut self, task: TaskId, spec: u32) {
        let Some(sources) = self.sources.as_deref_mut() else { return };
        let instance = sources.instances[spec as usize];
        sources.instances[spec as usize] += 1;
        let stream = |what: &str| Draw::new(sources.seed, &format!("{what} {spec}.{instance}"));
        let mut work = stream("work");
        let of_task = OfTask {
            ppm: work.of(&sources.sizes.work_task_ppm),
            work,
            disturbance: Disturbances::new(stream("disturbance"), sources.sizes),
            sleep: stream("sleep"),
            wakeup: stream("wakeup"),
            switch: stream("switch"),
        };
        sources.tasks.resize_with(task.index(), || None);
        sources.tasks.push(Some(of_task));
    }

    /// Actual amount of work for `task`.
    pub fn work(&mut self, task: TaskId, work: Nanos) -> Nanos {
        let Some(sources) = self.sources.as_deref_mut() else { return work };
        let of_task = sources.tasks[task.index()].as_mut().expect("a task that works was started");
        let mut work = work;
        if sources.work {
            let segment_ppm = of_task.work.of(&sources.sizes.work_segment_ppm);
            work = more(more(more(work, sources.run_ppm), of_task.ppm), segment_ppm);
        }
        if sources.disturbances {
            work = Nanos(work.0.saturating_add(of_task.disturbance.during(work, sources.sizes).0));
        }
        work
    }

    /// Actual length of this sleep of `task`.
    pub fn sleep(&mut self, task: TaskId, length: Nanos, why: Sleep) -> Nanos {
        let Some(sources) = self.wakeups() else { return length };
        let draw = &mut sources.tasks[task.index()].as_mut().expect("a task that sleeps was started").sleep;
        match why {
            Sleep::Timer => length + draw.time(&sources.sizes.timer_ns),
            Sleep::Io | Sleep::External => length,
        }
    }

    /// Lateness of a timer on `cpu`.
    pub fn timer(&mut self, cpu: CpuId) -> Nanos {
        let Some(sources) = self.wakeups() else { return Nanos::ZERO };
        sources.cpus[cpu.index()].timer.time(&sources.sizes.timer_ns)
    }

    /// Time for which `cpu` leaves its idle state, given the nominal time.
    pub fn idle_exit(&mut self, cpu: CpuId, nominal: Nanos) -> Nanos {
        let Some(sources) = self.wakeups() else { return nominal };
        more(nominal, sources.cpus[cpu.index()].idle_exit.of(&sources.sizes.idle_exit_ppm))
    }

    /// Cost of the kernel's part of a wakeup of `task` on `cpu`, given the nominal cost.
    pub fn wakeup(&mut self, cpu: CpuId, task: TaskId, nominal: u64) -> Nanos {
        self.kernel(cpu, task, nominal, |of_task| &mut of_task.wakeup, |sizes| &sizes.wakeup_ppm)
    }

    /// Cost of a switch of `cpu` to `task`, or to idle.
    pub fn switch(&mut self, cpu: CpuId, task: TaskId, nominal: u64) -> Nanos {
        self.kernel(cpu, task, nominal, |of_task| &mut of_task.switch, |sizes| &sizes.switch_ppm)
    }

    /// Cost of an interrupt.
    pub fn interrupt(&mut self, cpu: CpuId, nominal: u64) -> Nanos {
        self.kernel(cpu, TaskId::NONE, nominal, |of_task| &mut of_task.wakeup, |sizes| &sizes.interrupt_ppm)
    }

    /// Operations for a task of the workload use a stream of that task: the n-th wakeup of a task costs the same
    /// under each scheduler.
    fn kernel(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        nominal: u64,
        own: fn(&mut OfTask) -> &mut Draw,
        size: fn(&machine_model::Noise) -> &Spread,
    ) -> Nanos {
        let nominal = Nanos(nominal);
        let Some(sources) = self.sources.as_deref_mut().filter(|sources| sources.kernel) else { return nominal };
        let of_task = if task == TaskId::NONE { None } else { sources.tasks.get_mut(task.index()) };
        let draw = match of_task {
            Some(Some(of_task)) => own(of_task),
            _ => &mut sources.cpus[cpu.index()].kernel,
        };
        more(nominal, draw.of(size(sources.sizes)))
    }

    /// Time until the host next steals `cpu`; `None`: never.
    fn next_steal(&mut self, cpu: CpuId) -> Option<Nanos> {
        let sources = self.sources.as_deref_mut().filter(|sources| sources.steal)?;
        let after = sources.cpus[cpu.index()].steal.time(&sources.sizes.steal_every_us);
        Some(Nanos(after.0 * 1_000).max(Nanos(1)))
    }

    /// Duration of the next stolen time.
    fn theft(&mut self, cpu: CpuId) -> Nanos {
        let sources = self.sources.as_deref_mut().expect("only called if the host steals time");
        sources.cpus[cpu.index()].steal.time(&sources.sizes.steal_ns)
    }
}

impl<M: Model> Run<'_, M> {
    /// Plans the stolen time of all CPUs, if the host steals time.
    pub fn plan_steals(&mut self) {
        for cpu in self.machine.all_cpus().iter() {
            self.plan_steal(cpu);
        }
    }

    fn plan_steal(&mut self, cpu: CpuId) {
        if let Some(after) = self.noise.next_steal(cpu) {
            self.alarms.set(Alarm::Theft(cpu), self.clock.now() + after);
        }
    }

    /// The host steals `cpu`. An idle CPU loses nothing.
    pub fn steal_due(&mut self, cpu: CpuId) {
        self.settle(cpu);
        let entry = &self.cpus[cpu];
        if !entry.offline && !entry.sleeps() {
            let length = self.noise.theft(cpu);
            self.interrupt(cpu, Some(Interrupt::Theft(length)));
        }
        self.plan_steal(cpu);
    }
}
