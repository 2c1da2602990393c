// SPDX-License-Identifier: GPL-2.0-only
//! A run in the real kernel, measured as a simulated one is: the kernel's events become those of `event_log`, and go
//! through the same collector.
//!
//! What is conserved: each task's time and each CPU's time have one owner at every nanosecond, as in a simulated run.
//! What is not known as exactly: stolen time of CPUs comes from `/proc/stat`, in steps of 10 ms; the scheduler's share
//! of a CPU's time is known only where it is a BPF object, and as a sum over all CPUs.

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

/// The program that loses nothing if the kernel skips a call of it: another tells the same a little later (6 in `meter.bpf.c`).
const MADE_UP_FOR: &str = "on_rename";

/// Whom a meter follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The command that [`Meter::spawn`] starts, with all its descendants. The run is over when all of them have ended.
    Command,
    /// The workload that the thread which starts the meter plays next, on a [`executor::Stage`]. The run is over
    /// when the stage and all tasks have gone.
    Play,
    /// What a thread forks after [`Meter::follow_children_of`], with all descendants. The run lasts until it is
    /// finished.
    Children,
}

/// How measuring went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeterCost {
    /// Events received.
    pub events: u64,
    /// Events that did not fit the buffer, by CPU, and calls of the programs that the kernel skipped: with any of
    /// them, counts are too low and times may be charged to the wrong state.
    pub lost_by_cpu: Vec<u64>,
    /// See `lost_by_cpu`; by program. Not that which is made up for ([`MADE_UP_FOR`]).
    pub skipped: Vec<(String, u64)>,
    /// Events about tasks whose birth was lost.
    pub orphans: u64,
    /// Switches to the run's tasks that the kernel did not report, although no event was lost on the way. A kernel may
    /// keep its tracepoints quiet while certain tasks have a CPU, such as those by which the host of a virtual machine
    /// looks after it. No probe hears of the switch from such a task, whether BPF, perf or ftrace attached it. These
    /// switches are inferred from the CPU time of the task that came next, and counted.
    ///
    /// Not 0: the run shared its CPUs with somebody whom the kernel hides. Counts and CPU times hold all the same.
    pub unseen_switches: u64,
    /// Wakeups of the run's tasks by such a task, or by an interrupt in its turn. They are counted, but are not among
    /// the latencies: nobody knows when they were.
    pub unseen_wakeups: u64,
    /// Events that came more than 50 ms late, and were dated forward to keep the order.
    pub late: u64,
    /// Time in the meter's programs, as the kernel measured it; it is contained in the times of the tasks that ran
    /// then.
    pub probes: Nanos,
    /// How often they ran.
    pub probe_runs: u64,
    /// CPU time of the thread that received the events.
    pub reader: Nanos,
    /// How long the programs were attached: the time in them and of the reader is of that.
    pub listened: Nanos,
    /// Tasks that had not ended when the run was over.
    pub unfinished: u32,
}

impl MeterCost {
    /// Events lost, on whatever way. Not 0: the measures are wrong by an unknown amount.
    pub fn lost(&self) -> u64 {
        lost(&self.lost_by_cpu, &self.skipped)
    }

    /// Where they were lost, in words.
    pub fn lost_where(&self) -> Vec<String> {
        lost_where(&self.lost_by_cpu, &self.skipped)
    }
}

/// A run, measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// In the vocabulary of simulated runs.
    pub measures: RunMeasures,
    /// The number in the kernel of each task.
    pub threads: Vec<u32>,
    /// Hash of all events.
    pub log_hash: u128,
    /// How measuring went.
    pub cost: MeterCost,
}

/// Everything that is told of a run.
type Sinks<S> = Tee<LogHash, Tee<Collector, S>>;

/// Programs in the kernel that follow a run, and what they have told so far.
pub struct Meter<S: Sink> {
    // The order of the members is the order in which they go: first the programs stop.
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    probes: Probes,
    metering: Metering,
    inbox: Rc<RefCell<Inbox>>,
    order: Order,
    feed: Feed<Sinks<S>>,
    /// What is compared with what it is at the end: when the meter started, and when the tasks had ended.
    before: Moment,
    after: Option<Moment>,
}

/// What the kernel counts all the time.
#[derive(Debug)]
struct Moment {
    time: Nanos,
    /// CPU time of this thread.
    reader: Nanos,
    stolen: Stolen,
}

impl Moment {
    fn now() -> Result<Moment, LinkError> {
        Ok(Moment { time: sys::now(), reader: sys::cpu_time(), stolen: Stolen::now()? })
    }
}

impl<S: Sink> Meter<S> {
    /// Attaches the programs. `sink` hears what happens from the first task's birth on.
    ///
    /// # Errors
    /// If this process is not root, or the kernel lacks BTF or a tracepoint.
    pub fn start(machine: &Machine, scope: Scope, sink: S) -> Result<Meter<S>, LinkError> {
        kernel::check()?;
        let roots = match scope {
            Scope::Command | Scope::Play => Roots::NextChildOf(host::proc::thread_id()?),
            Scope::Children => Roots::Nobody,
        };
        let probes = Probes::load(&PROBES, &kernel::host()?.cpus, roots)?;
        let inbox = Rc::default();
        let ring = probes.listen(&inbox)?;
        let metering = Metering::start()?;
        let links = probes.attach()?;
        let sinks = Tee(LogHash::new(), Tee(Collector::new(&machine.topology), sink));
        let visited = visit_cpus(&machine.all_cpus());
        let mut feed = Feed::new(machine.topology.len(), &visited, scope, sinks);
        // Who goes or comes after this look is told by the programs.
        let online = host::proc::online()?;
        machine.all_cpus().iter().filter(|cpu| !online.contains(*cpu)).for_each(|cpu| feed.hotplug(cpu, false));
        let order = Order::default();
        Ok(Meter { links, ring, probes, metering, inbox, order, feed, before: Moment::now()?, after: None })
    }

    /// Starts the command that is followed. Must be called by the thread that started the meter, before that has any
    /// other child.
    ///
    /// # Errors
    /// Says why the command cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, LinkError> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map_err(|source| LinkError::Spawn { command: name, source })
    }

    /// Follows the children that this thread will have.
    ///
    /// # Errors
    /// Says what the kernel answered.
    pub fn follow_children_of(&self, thread: u32) -> Result<(), LinkError> {
        self.probes.follow(Roots::ChildrenOf(thread))
    }

    /// Waits for 100 ms, or less if there is much to do, and takes what the programs have sent.
    ///
    /// # Errors
    /// Says what the kernel answered.
    pub fn receive(&mut self) -> Result<(), LinkError> {
        self.receive_within(PERIOD)
    }

    /// The same, but waits for no longer than that.
    ///
    /// # Errors
    /// As [`Meter::receive`].
    pub fn receive_within(&mut self, time: Duration) -> Result<(), LinkError> {
        self.take(PERIOD.min(time))?;
        let now = sys::now();
        // What was sent before that.
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

    /// Whether all tasks of the command or the play have ended.
    pub fn is_over(&self) -> bool {
        self.feed.is_over()
    }

    /// How many events were about the run's own tasks, up to some 50 ms ago.
    pub fn own_events(&self) -> u64 {
        self.feed.own_events()
    }

    /// Whether a task of the run was seen.
    pub fn has_begun(&self) -> bool {
        self.inbox.borrow().births > 0
    }

    /// Takes the programs out and adds up. `scheduler`: time that the scheduler took of all CPUs together since the meter
    /// was started. Instructions are not counted.
    ///
    /// # Errors
    /// Says what the kernel answered.
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
        // What others took is counted from a moment before the run to one after it, in which nothing is the run's.
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
        // A command does what it does: only a player knows how much work that was.
        (measures.work, measures.slowed, measures.spin) = (None, None, None);
        // A task is announced at its birth, under its parent's name.
        for (task, name) in measures.tasks.iter_mut().zip(fed.names) {
            task.name = name;
        }
        Ok((Measured { measures, threads: fed.threads, log_hash: hash.finish(), cost }, sink))
    }
}

/// The run's part of the time in which something was counted.
#[derive(Clone, Copy, Debug)]
struct Share {
    part: Nanos,
    whole: Nanos,
}

impl Share {
    /// As much of a time as falls to the run, if it passed evenly; at most all of it.
    fn of(self, time: Nanos) -> Nanos {
        let part = self.part.min(self.whole);
        Nanos((u128::from(time.0) * u128::from(part.0) / u128::from(self.whole.0.max(1))) as u64)
    }
}

/// Runs on each CPU for a moment and says on which it could: who has it is seen to leave it, and who idles there is seen
/// to begin that again.
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

/// Moves the scheduler's time from the run time of the CPUs, in proportion to that.
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

/// This machine, with all CPUs that are plugged in, whether online or not.
///
/// # Errors
/// Names the file that could not be read or makes no sense.
pub fn host_machine() -> Result<Machine, LinkError> {
    let machine = Machine::from_sysfs(&|path: &str| host::proc::read(path).ok());
    machine.map_err(|error| LinkError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measures::CpuAccount;

    #[test]
    fn a_short_run_gets_its_share_of_what_was_counted_for_longer() {
        let share = |part, whole| Share { part: Nanos::from_ms(part), whole: Nanos::from_ms(whole) }.of(Nanos(10_000));
        assert_eq!([share(5, 150), share(150, 150), share(160, 150), share(0, 0)], [333, 10_000, 10_000, 0].map(Nanos));
    }

    #[test]
    fn the_schedulers_time_comes_out_of_run_time_to_the_nanosecond() {
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
