// SPDX-License-Identifier: GPL-2.0-only
//! Event sink that measures a run while it proceeds.

use crate::idle_while_runnable::IdleWhileRunnable;
use crate::load::LoadFollower;
use crate::{
    AffinityChange, CpuAccount, DeviceTotals, Histogram, Hotplug, LockUse, Migrations, NodeTraffic, Periods,
    PeriodsOfTasks, RequestMeasures, RunMeasures, TaskAccount, TaskMeasures,
};
use event_log::{Event, EventKind, Sink, SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, GroupId, Locality, Nanos, Policy, TaskId, Topology};

/// Totals at the end of a run that events do not carry; provided by the simulator or the reader of real events.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Time that the run covers; at or after the last event.
    pub elapsed: Nanos,
    /// Time at which the last finite task ended; `None` if a task is endless or was cut short.
    pub makespan: Option<Nanos>,
    /// Time account of each CPU. Each must add up to `elapsed`.
    pub cpus: Vec<CpuAccount>,
    /// Time account of each task, by number. Each must add up to the task's lifetime: from its announcement
    /// ([`Sink::task`]) to its [`EventKind::Exit`], or to the end of the run.
    pub tasks: Vec<TaskAccount>,
    /// Periods of the tasks, where the executor of the workload reports them.
    pub periods: PeriodsOfTasks,
    /// Use of disks and networks, if the workload uses any.
    pub devices: Option<DeviceTotals>,
    /// Requests of each source of the workload.
    pub requests: Vec<RequestMeasures>,
    /// Part of the work of all tasks that was done in system calls, if known.
    pub system_work: Option<Nanos>,
    /// Number of BPF instructions executed, if counted.
    pub bpf_instructions: Option<u64>,
    /// Uses of each lock by each caller, if recorded.
    pub locks: Option<Vec<LockUse>>,
    /// Bytes loaded from the memory of each node, if memory is modelled.
    pub memory_nodes: Option<Vec<NodeTraffic>>,
    /// Energy consumed, as in [`RunMeasures::energy_ratio_ppm`].
    pub energy_ratio_ppm: Option<u64>,
}

/// Number of changes of affinity of a task, and of online CPUs, that are kept: a report shows a few.
const MAX_CHANGES: usize = 16;

/// Current state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not runnable: new, asleep or ended.
    Blocked,
    /// Runnable but not running since `Task::since`, after a wakeup or a preemption.
    Waiting { woken: bool },
    /// On a CPU.
    Running,
}

#[derive(Debug)]
struct Task {
    state: State,
    since: Nanos,
    group: GroupId,
    last_cpu: Option<CpuId>,
    born: Nanos,
    ended: Option<Nanos>,
    affinity_changes: Vec<AffinityChange>,
    cpus_used: CpuSet,
    /// Accurate to 1 %: 64 buckets per octave, so the error is at most half a bucket.
    wakeup_latency: Histogram<6>,
    last_latency: Nanos,
    name: String,
    pid: u32,
    kernel_thread: bool,
    policy: Policy,
}

/// Measures a run event by event. Memory use grows with CPUs and tasks, not with time.
///
/// Switches, wakeups, latencies and migrations count the workload's tasks only, as in the measurement of a real run.
/// Kernel threads have their own rows.
///
/// A CPU idles from a switch to the idle task, or an [`EventKind::Idle`] event with `entered`, to a switch to a task
/// or an idle event without it, whichever comes first; at time 0 all CPUs idle.
#[derive(Debug)]
pub struct Collector {
    topology: Topology,
    tasks: Vec<Task>,
    idle: IdleWhileRunnable,
    context_switches: u64,
    wakeups: u64,
    migrations: Migrations,
    /// Accurate to 0.1 %, as it collects the latencies of all tasks.
    wakeup_latency: Histogram<10>,
    run_delay: Histogram<10>,
    load: LoadFollower,
    hotplugs: Vec<Hotplug>,
}

impl Collector {
    /// Creates a collector for a machine of this topology.
    pub fn new(topology: &Topology) -> Collector {
        Collector {
            topology: topology.clone(),
            tasks: Vec::new(),
            idle: IdleWhileRunnable::new(topology.len()),
            context_switches: 0,
            wakeups: 0,
            migrations: Migrations::default(),
            wakeup_latency: Histogram::new(),
            run_delay: Histogram::new(),
            load: LoadFollower::new(),
            hotplugs: Vec::new(),
        }
    }

    /// Like [`Collector::new`], but [`Collector::idle_gaps`] is available afterwards: memory use grows with the
    /// number of gaps.
    pub fn with_idle_gaps(topology: &Topology) -> Collector {
        let mut collector = Collector::new(topology);
        collector.idle.keep_gaps();
        collector
    }

    /// Time intervals between 0 and `end`, in order, in which a CPU idled while a task that was allowed there waited.
    /// Their sum is [`RunMeasures::idle_while_runnable`]. Without [`Collector::with_idle_gaps`] only a gap that is
    /// open at the end is returned.
    pub fn idle_gaps(&self, end: Nanos) -> Vec<(Nanos, Nanos)> {
        self.idle.gaps(end)
    }

    /// Returns the measures of the run, which ends now.
    ///
    /// # Panics
    /// If an account does not add up: every nanosecond belongs to exactly one category, so a difference is a
    /// bug in the code that keeps the accounts.
    pub fn finish(self, mut totals: Totals) -> RunMeasures {
        let cpu = conserved_cpus(&totals, self.topology.len());
        self.assert_tasks_conserved(&totals);
        let (idle, work) = (&self.idle, self.work(&totals));
        let mut periods = Periods::default();
        let mut of_tasks = std::mem::take(&mut totals.periods);
        let mut periods_of = |id| of_tasks.take(id).inspect(|own| periods.add(own));
        let interrupts = totals.devices.as_ref().map(|devices| devices.interrupts.clone());
        let page_cache = totals.devices.as_ref().and_then(|devices| devices.page_cache);
        let DeviceTotals { disks, disk_waits, networks, network_waits, .. } = totals.devices.take().unwrap_or_default();
        let wait = |times: &[Nanos], index: usize| times.get(index).copied().unwrap_or_default();
        let measured = |(index, (task, &account)): (usize, (Task, &TaskAccount))| TaskMeasures {
            id: TaskId(index as u32),
            name: task.name,
            pid: task.pid,
            kernel_thread: task.kernel_thread,
            policy: task.policy,
            account,
            cpus_allowed: idle.mask(task.group).clone(),
            affinity_changes: task.affinity_changes,
            cpus_used: task.cpus_used,
            wakeup_latency: task.wakeup_latency.summary(),
            wakeup_latencies: task.wakeup_latency,
            last_latency: task.last_latency,
            periods: periods_of(TaskId(index as u32)),
            disk: disks.is_some().then(|| wait(&disk_waits, index)),
            network: networks.is_some().then(|| wait(&network_waits, index)),
            ended: task.ended,
        };
        let tasks = self.tasks.into_iter().zip(&totals.tasks).enumerate().map(measured).collect();
        RunMeasures {
            elapsed: totals.elapsed,
            makespan: totals.makespan,
            work: Some(work),
            system_work: totals.system_work,
            load_average: self.load.finish(totals.elapsed),
            periods: periods.summary(),
            context_switches: self.context_switches,
            wakeups: self.wakeups,
            idle_while_runnable: idle.total(totals.elapsed),
            migrations: self.migrations,
            wakeup_latency: self.wakeup_latency.summary(),
            run_delay: self.run_delay.summary(),
            wakeup_latencies: self.wakeup_latency.coarsened(),
            run_delays: self.run_delay.coarsened(),
            cpu,
            parts: Vec::new(),
            groups: Vec::new(),
            tasks,
            cpus: totals.cpus,
            hotplugs: self.hotplugs,
            bpf_instructions: totals.bpf_instructions,
            lock_wait: totals.locks.as_ref().map(|locks| Nanos(locks.iter().map(|lock| lock.wait_total.0).sum())),
            locks: totals.locks,
            energy_ratio_ppm: totals.energy_ratio_ppm,
            slowed: Some(cpu.slowed),
            spin: Some(cpu.spin),
            reload: totals.memory_nodes.is_some().then_some(cpu.reload),
            memory: totals.memory_nodes.is_some().then_some(cpu.memory),
            memory_nodes: totals.memory_nodes,
            disks,
            networks,
            page_cache,
            interrupts,
            requests: totals.requests,
        }
    }

    /// Total work of the workload's tasks.
    fn work(&self, totals: &Totals) -> Nanos {
        let tasks = self.tasks.iter().zip(&totals.tasks).filter(|(task, _)| !task.kernel_thread);
        Nanos(tasks.map(|(_, account)| account.work.0).sum())
    }

    fn assert_tasks_conserved(&self, totals: &Totals) {
        assert_eq!(totals.tasks.len(), self.tasks.len(), "one account for each announced task");
        for (index, (task, account)) in self.tasks.iter().zip(&totals.tasks).enumerate() {
            let life = task.ended.unwrap_or(totals.elapsed) - task.born;
            let sum = account.run + account.stolen + account.runnable + account.blocked;
            assert_eq!(sum, life, "task {index} ({}) lost or gained time: {account:?}, life {life:?}", task.name);
        }
    }

    fn wakeup(&mut self, now: Nanos, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        self.wakeups += u64::from(!task.kernel_thread);
        if task.state == State::Blocked {
            task.state = State::Waiting { woken: true };
            task.since = now;
            self.idle.wait(now, task.group);
            self.load.active += 1;
        }
    }

    fn switch(&mut self, now: Nanos, cpu: CpuId, prev: TaskId, next: TaskId, reason: SwitchReason) {
        if prev == next {
            return;
        }
        if prev != TaskId::NONE {
            self.switch_out(now, prev, reason);
        }
        if next != TaskId::NONE {
            self.switch_in(now, cpu, next);
        }
        self.idle.set_idle(now, cpu, next == TaskId::NONE);
    }

    fn switch_out(&mut self, now: Nanos, id: TaskId, reason: SwitchReason) {
        let task = &mut self.tasks[id.index()];
        // A task that blocked has already left `Running`, and may have been woken since.
        if task.state != State::Running {
            return;
        }
        if matches!(reason, SwitchReason::Block | SwitchReason::Exit) {
            task.state = State::Blocked;
            self.load.active -= 1;
        } else {
            task.state = State::Waiting { woken: false };
            task.since = now;
            self.idle.wait(now, task.group);
        }
    }

    fn switch_in(&mut self, now: Nanos, cpu: CpuId, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        let counts = !task.kernel_thread;
        self.context_switches += u64::from(counts);
        if let State::Waiting { woken } = task.state {
            let waited = now - task.since;
            if counts {
                self.run_delay.record(waited);
            }
            if woken {
                task.wakeup_latency.record(waited);
                task.last_latency = waited;
                if counts {
                    self.wakeup_latency.record(waited);
                }
            }
            self.idle.stop_waiting(now, task.group);
        }
        self.load.active += u64::from(task.state == State::Blocked);
        task.state = State::Running;
        if task.last_cpu == Some(cpu) {
            return;
        }
        task.cpus_used.insert(cpu);
        let last = task.last_cpu.replace(cpu);
        if let Some(last) = last.filter(|_| counts) {
            self.migrations.count(self.topology.locality(last, cpu));
        }
    }

    fn leave_cpu(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        if task.state == State::Running {
            task.state = State::Blocked;
            self.load.active -= 1;
        }
    }
}

impl Migrations {
    fn count(&mut self, locality: Locality) {
        match locality {
            Locality::Same => {}
            Locality::Smt => self.smt += 1,
            Locality::Llc => self.llc += 1,
            Locality::Node => self.node += 1,
            Locality::Far => self.far += 1,
        }
    }
}

/// Sum of all CPU accounts, each of which is checked first.
fn conserved_cpus(totals: &Totals, cpus: usize) -> CpuAccount {
    assert_eq!(totals.cpus.len(), cpus, "one account for each CPU");
    let mut all = CpuAccount::default();
    for (index, account) in totals.cpus.iter().enumerate() {
        let sum = account.run + account.idle + account.scheduler + account.stolen + account.offline;
        assert_eq!(sum, totals.elapsed, "CPU {index} lost or gained time: {account:?}");
        assert!(
            account.slowed + account.reload + account.memory + account.spin <= account.run,
            "CPU {index} has less than zero useful run time: {account:?}"
        );
        all.run += account.run;
        all.slowed += account.slowed;
        all.reload += account.reload;
        all.memory += account.memory;
        all.spin += account.spin;
        all.idle += account.idle;
        all.scheduler += account.scheduler;
        all.stolen += account.stolen;
        all.offline += account.offline;
    }
    all
}

impl Sink for Collector {
    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        assert_eq!(info.id.index(), self.tasks.len(), "tasks are announced in order of their numbers");
        self.tasks.push(Task {
            state: State::Blocked,
            since: time,
            group: self.idle.group(&info.allowed),
            last_cpu: None,
            born: time,
            ended: None,
            affinity_changes: Vec::new(),
            cpus_used: CpuSet::new(),
            wakeup_latency: Histogram::new(),
            last_latency: Nanos::ZERO,
            pid: info.pid,
            name: info.name.clone(),
            kernel_thread: info.kernel_thread,
            policy: info.policy,
        });
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        let group = self.idle.group(allowed);
        let task = &mut self.tasks[task.index()];
        let old = std::mem::replace(&mut task.group, group);
        if old != group && task.affinity_changes.len() < MAX_CHANGES {
            task.affinity_changes.push(AffinityChange { time, from: self.idle.mask(old).clone(), to: allowed.clone() });
        }
        if matches!(task.state, State::Waiting { .. }) {
            self.idle.wait(time, group);
            self.idle.stop_waiting(time, old);
        }
    }

    #[inline(always)]
    fn event(&mut self, event: &Event) {
        let Event { time, cpu, task, .. } = *event;
        self.load.advance(time);
        match event.kind {
            EventKind::Wakeup { .. } => self.wakeup(time, task),
            EventKind::Switch { prev, reason } => self.switch(time, cpu, prev, task, reason),
            EventKind::Block { .. } => self.leave_cpu(task),
            EventKind::Exit => {
                self.leave_cpu(task);
                self.tasks[task.index()].ended = Some(time);
            }
            EventKind::Idle { entered } => self.idle.set_idle(time, cpu, entered),
            EventKind::Hotplug { online } => {
                self.idle.set_idle(time, cpu, online);
                if self.hotplugs.len() < MAX_CHANGES {
                    self.hotplugs.push(Hotplug { time, cpu, online });
                }
            }
            _ => {}
        }
    }
}
