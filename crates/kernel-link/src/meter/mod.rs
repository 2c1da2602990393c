// SPDX-License-Identifier: GPL-2.0-only
//! Measures a run in the real kernel like a simulated one: kernel events are converted to those of `event_log` and
//! pass through the same collector.
//!
//! As in a simulated run, every nanosecond of each task and of each CPU has exactly one owner. Less accurate than
//! there: the steal time of CPUs comes from `/proc/stat`, in steps of 10 ms; the scheduler's CPU time is known only
//! for BPF objects, and only as a sum over all CPUs.

mod feed;
mod order;
mod stolen;

use crate::LinkError;
use crate::cost::{Metering, ProbeCost, lost, lost_where};
use crate::kernel;
use crate::probes::{Aligned, Inbox, PERIOD, ProbeSet, Probes, Roots, receive};
use event_log::{LogHash, Sink, Tee};
use feed::Feed;
use host::sys;
use ids::{CpuId, CpuSet, Nanos};
use libbpf_rs::{Link, RingBuffer};
use machine_model::Machine;
use measures::{Collector, RunMeasures, Totals};
use nix::sched::{CpuSet as Affinity, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use order::Order;
use recording::wire;
use std::cell::RefCell;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;
use stolen::Stolen;

static PROBES: ProbeSet = ProbeSet {
    object: &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/meter.bpf.o"))),
    tracepoints: &[
        "sched_waking",
        "sched_wakeup",
        "sched_wakeup_new",
        "sched_switch",
        "softirq_entry",
        "task_rename",
        "cpuhp_enter",
        "cpuhp_exit",
    ],
    optional: &[],
    by_perf: &[],
};

/// A program whose skipped calls lose nothing: another reports the same a little later (6 in `meter.bpf.c`).
const MADE_UP_FOR: &str = "on_rename";

/// Tasks that a meter follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The command started by [`Meter::spawn`] with all its descendants. The run ends when all of them have exited.
    Command,
    /// The workload that the starting thread executes next, by a [`executor::PreparedWorkload`]. The run ends when
    /// the coordinator and all tasks have exited.
    Workload,
    /// All later children of the thread after [`Meter::follow_children_of`], with all descendants. The run lasts
    /// until it is finished.
    Children,
}

/// Cost and quality of a measurement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeterCost {
    /// Number of events received.
    pub events: u64,
    /// Number of events that did not fit the buffer, by CPU. If any were lost, counts are too low and times may be
    /// charged to the wrong state.
    pub lost_by_cpu: Vec<u64>,
    /// Programs whose calls the kernel skipped, and number of calls; these events are lost as well. Without
    /// [`MADE_UP_FOR`].
    pub skipped: Vec<(String, u64)>,
    /// Number of events about tasks whose birth was lost.
    pub orphans: u64,
    /// Number of switches to tasks of the run that the kernel did not report, although no event was lost. A kernel
    /// may suppress tracepoints while certain tasks run, such as those by which the host of a virtual machine manages
    /// it; then neither BPF, perf nor ftrace observes the switch away from such a task. These switches are inferred
    /// from the CPU time of the next task, and counted.
    ///
    /// If not 0, the run shared its CPUs with a hidden task. Counts and CPU times are valid nevertheless.
    pub unseen_switches: u64,
    /// Number of wakeups by such a task, or by an interrupt during it. They are counted, but have no latency since
    /// their time is unknown.
    pub unseen_wakeups: u64,
    /// Number of events that arrived more than 50 ms late and were dated forward to keep the order.
    pub late: u64,
    /// Run time of the meter's programs, measured by the kernel; it is part of the times of the tasks that ran then.
    pub probes: Nanos,
    /// Number of program runs.
    pub probe_runs: u64,
    /// CPU time of the thread that received the events.
    pub reader: Nanos,
    /// How long the programs were attached; `probes` and `reader` refer to this time.
    pub listened: Nanos,
    /// Number of tasks that had not exited at the end of the run.
    pub unfinished: u32,
}

impl MeterCost {
    /// Number of lost events of any kind. If not 0, the measures are wrong by an unknown amount.
    pub fn lost(&self) -> u64 {
        lost(&self.lost_by_cpu, &self.skipped)
    }

    /// Places where events were lost, as text.
    pub fn lost_where(&self) -> Vec<String> {
        lost_where(&self.lost_by_cpu, &self.skipped)
    }
}

/// A measured run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Measures in the form of simulated runs.
    pub measures: RunMeasures,
    /// TID of each task.
    pub threads: Vec<u32>,
    /// Hash of all events.
    pub log_hash: u128,
    /// Cost and quality of the measurement.
    pub cost: MeterCost,
}

/// Receivers of the events of a run.
type Sinks<S> = Tee<LogHash, Tee<Collector, S>>;

/// BPF programs that follow a run, and their results so far.
pub struct Meter<S: Sink> {
    // Members are dropped in this order: the programs stop first.
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    probes: Probes,
    metering: Metering,
    inbox: Rc<RefCell<Inbox>>,
    order: Order,
    feed: Feed<Sinks<S>>,
    /// Kernel counters at the start of the meter and at the exit of the tasks, whose difference is used.
    before: Moment,
    after: Option<Moment>,
}

/// Values of kernel counters.
#[derive(Debug)]
struct Moment {
    time: Nanos,
    /// CPU time of the receiving thread.
    reader: Nanos,
    stolen: Stolen,
}

impl Moment {
    fn now() -> Result<Moment, LinkError> {
        Ok(Moment { time: sys::now(), reader: sys::cpu_time(), stolen: Stolen::now()? })
    }
}

impl<S: Sink> Meter<S> {
    /// Attaches the programs. `sink` gets the events from the first task's birth on.
    ///
    /// # Errors
    /// If this process is not root, or the kernel lacks BTF or a tracepoint.
    pub fn start(machine: &Machine, scope: Scope, sink: S) -> Result<Meter<S>, LinkError> {
        kernel::check()?;
        let roots = match scope {
            Scope::Command | Scope::Workload => Roots::NextChildOf(host::proc::thread_id()?),
            Scope::Children => Roots::None,
        };
        let probes = Probes::load(&PROBES, &kernel::host()?.cpus, roots)?;
        let inbox = Rc::default();
        let ring = probes.listen(&inbox)?;
        let metering = Metering::start()?;
        let links = probes.attach()?;
        let sinks = Tee(LogHash::new(), Tee(Collector::new(&machine.topology), sink));
        let visited = visit_cpus(&machine.all_cpus());
        let mut feed = Feed::new(machine.topology.len(), &visited, scope, sinks);
        // Later hotplug is reported by the programs.
        let online = host::proc::online()?;
        machine.all_cpus().iter().filter(|cpu| !online.contains(*cpu)).for_each(|cpu| feed.hotplug(cpu, false));
        let order = Order::default();
        Ok(Meter { links, ring, probes, metering, inbox, order, feed, before: Moment::now()?, after: None })
    }

    /// Starts the command to be followed. Must be called by the thread that started the meter, before it has another
    /// child.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, LinkError> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map_err(|source| LinkError::Spawn { command: name, source })
    }

    /// Follows all children that this thread will have.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn follow_children_of(&self, thread: u32) -> Result<(), LinkError> {
        self.probes.follow(Roots::ChildrenOf(thread))
    }

    /// Waits for 100 ms, or less if the buffer fills, and processes the events received.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive(&mut self) -> Result<(), LinkError> {
        self.receive_within(PERIOD)
    }

    /// As [`Meter::receive`], but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`Meter::receive`].
    pub fn receive_within(&mut self, time: Duration) -> Result<(), LinkError> {
        self.take(PERIOD.min(time))?;
        let now = sys::now();
        // Take the events that were sent before `now`.
        self.take(Duration::ZERO)?;
        self.order.release(Some(now), |event| self.feed.take(event));
        if self.is_over() && self.after.is_none() {
            self.after = Some(Moment::now()?);
        }
        Ok(())
    }

    fn take(&mut self, period: Duration) -> Result<(), LinkError> {
        receive(&self.ring, period)?;
        let order = &mut self.order;
        self.inbox.borrow_mut().drain(|raw| {
            order.push(wire::parse(raw).map_err(LinkError::Malformed)?);
            Ok(())
        })
    }

    /// Whether all tasks of the command or workload have exited.
    pub fn is_over(&self) -> bool {
        self.feed.is_over()
    }

    /// Number of events about the run's own tasks, up to about 50 ms ago.
    pub fn own_events(&self) -> u64 {
        self.feed.own_events()
    }

    /// Whether a task of the run has been seen.
    pub fn has_begun(&self) -> bool {
        self.inbox.borrow().births > 0
    }

    /// Detaches the programs and computes the measures. `scheduler` is the CPU time that the scheduler used on all
    /// CPUs since the meter started. BPF instructions are not counted.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn finish(mut self, scheduler: Nanos) -> Result<(Measured, S), LinkError> {
        let after = self.after.take().map_or_else(Moment::now, Ok)?;
        if self.is_over() {
            visit_cpus(self.feed.all_cpus());
        }
        self.take(Duration::ZERO)?;
        self.links.clear();
        self.take(Duration::ZERO)?;
        let ProbeCost { time, runs, mut skipped } = self.probes.cost()?;
        skipped.retain(|(program, _)| program != MADE_UP_FOR);
        let listened = sys::now().since(self.before.time);
        drop(self.metering);
        let end = self.order.newest();
        self.order.release(None, |event| self.feed.take(event));
        let (Tee(hash, Tee(collector, sink)), fed) = self.feed.finish(end);
        let mut cpus = fed.cpus;
        // Time taken by others is counted from shortly before the run to shortly after it.
        let share = Share { part: fed.elapsed, whole: after.time.since(self.before.time) };
        after.stolen.charge(&self.before.stolen, share, &mut cpus);
        charge_scheduler(share.of(scheduler), &mut cpus);
        let cost = MeterCost {
            events: self.inbox.borrow().events,
            lost_by_cpu: self.probes.lost_by_cpu()?,
            skipped,
            orphans: fed.orphans,
            unseen_switches: fed.unseen.0,
            unseen_wakeups: fed.unseen.1,
            late: self.order.late,
            probes: time,
            probe_runs: runs,
            reader: after.reader.since(self.before.reader),
            listened,
            unfinished: fed.unfinished,
        };
        let mut measures = collector.finish(Totals {
            elapsed: fed.elapsed,
            makespan: fed.makespan,
            cpus,
            tasks: fed.tasks,
            ..Totals::default()
        });
        // The amount of work of a command is unknown; the executor adds it for workloads.
        (measures.work, measures.slowed, measures.spin) = (None, None, None);
        // Tasks are announced at their birth under their parent's name.
        for (task, name) in measures.tasks.iter_mut().zip(fed.names) {
            task.name = name;
        }
        Ok((Measured { measures, threads: fed.threads, log_hash: hash.finish(), cost }, sink))
    }
}

/// The run's share of a longer interval of counting.
#[derive(Clone, Copy, Debug)]
struct Share {
    part: Nanos,
    whole: Nanos,
}

impl Share {
    /// The part of `time` that belongs to the run, assuming an even distribution; at most all of it.
    fn of(self, time: Nanos) -> Nanos {
        let part = self.part.min(self.whole);
        Nanos((u128::from(time.0) * u128::from(part.0) / u128::from(self.whole.0.max(1))) as u64)
    }
}

/// Runs on each CPU for a moment and returns the CPUs on which that was possible. Each visit causes a switch event,
/// which reveals the CPU's current task or its idle state.
pub(crate) fn visit_cpus(cpus: &CpuSet) -> CpuSet {
    let here = Pid::from_raw(0);
    let Ok(before) = sched_getaffinity(here) else { return CpuSet::new() };
    let visit = |cpu: &CpuId| {
        let mut only = Affinity::new();
        only.set(cpu.index()).and_then(|()| sched_setaffinity(here, &only)).is_ok()
    };
    let visited = cpus.iter().filter(visit).collect();
    let _ = sched_setaffinity(here, &before);
    visited
}

/// Subtracts the scheduler's time from the run time of the CPUs, in proportion.
fn charge_scheduler(scheduler: Nanos, cpus: &mut [measures::CpuAccount]) {
    let mut run: u64 = cpus.iter().map(|cpu| cpu.run.0).sum();
    let mut left = scheduler.0.min(run);
    for cpu in cpus {
        let share = (u128::from(left) * u128::from(cpu.run.0) / u128::from(run.max(1))) as u64;
        run -= cpu.run.0;
        left -= share;
        cpu.run -= Nanos(share);
        cpu.scheduler += Nanos(share);
    }
}

/// This machine, with all present CPUs, online or offline.
///
/// # Errors
/// The file that could not be read or parsed.
pub fn host_machine() -> Result<Machine, LinkError> {
    let machine = Machine::from_sysfs(&|path: &str| host::proc::read(path).ok());
    machine.map_err(|error| LinkError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measures::CpuAccount;

    #[test]
    fn time_counted_over_a_longer_interval_is_scaled_to_the_run() {
        let share = |part, whole| Share { part: Nanos::from_ms(part), whole: Nanos::from_ms(whole) }.of(Nanos(10_000));
        assert_eq!([share(5, 150), share(150, 150), share(160, 150), share(0, 0)], [333, 10_000, 10_000, 0].map(Nanos));
    }

    #[test]
    fn scheduler_time_is_subtracted_from_run_time_exactly() {
        let cpu = |run| CpuAccount { run: Nanos(run), idle: Nanos(7), ..CpuAccount::default() };
        let mut cpus = [cpu(100), cpu(0), cpu(33), cpu(10)];
        charge_scheduler(Nanos(50), &mut cpus);
        assert_eq!(cpus.iter().map(|cpu| cpu.scheduler.0).sum::<u64>(), 50);
        assert_eq!(cpus.iter().map(|cpu| cpu.run.0).sum::<u64>(), 93);
        assert_eq!((cpus[1].scheduler, cpus[0].idle), (Nanos::ZERO, Nanos(7)));
        charge_scheduler(Nanos(1000), &mut cpus);
        assert_eq!(cpus.iter().map(|cpu| cpu.run.0).sum::<u64>(), 0);
    }
}
