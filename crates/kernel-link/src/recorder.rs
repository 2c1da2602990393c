// SPDX-License-Identifier: GPL-2.0-only
//! Runs a command under the recorder's BPF programs.

use crate::calibrate::Calibration;
use crate::cost::{lost, lost_where};
use crate::kernel;
use crate::probes::{Aligned, Inbox, PERIOD, ProbeSet, Probes, Roots, receive};
use crate::stream::{BATCH, Stream};
use crate::{LinkError, RecordOptions};
use host::signals::{self, Signals};
use host::sys;
use ids::Nanos;
use libbpf_rs::RingBuffer;
use nix::sys::signal::Signal;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::mem::take;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::time::{Duration, Instant};
use workload::{Cost, Costs, Earlier, Observed, Workload};

/// Descendants may outlive the command. If none of them has run for this long, they are taken for daemons, and the
/// recording ends without them.
pub(crate) const QUIET: Duration = Duration::from_secs(2);

static PROBES: ProbeSet = ProbeSet {
    object: &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o"))),
    tracepoints: &[
        "sched_wakeup_new",
        "sched_process_exec",
        "sched_process_exit",
        "sched_waking",
        "sched_switch",
        "softirq_entry",
        "ipi_send_cpu",
        "hrtimer_start",
        "hrtimer_expire_entry",
        "hrtimer_expire_exit",
        "signal_generate",
        "signal_deliver",
        "itimer_state",
        "sys_exit",
    ],
    optional: &["sock_send_length", "sock_recv_length", "block_rq_insert", "block_rq_issue", "block_rq_complete"],
    by_perf: &[
        ("sched_process_exec", &["sched/sched_process_exec"]),
        ("sched_process_exit", &["sched/sched_process_exit"]),
        (
            "sys_exit",
            &[
                "syscalls/sys_exit_read",
                "syscalls/sys_exit_readv",
                "syscalls/sys_exit_write",
                "syscalls/sys_exit_writev",
            ],
        ),
        ("sock_send_length", &["sock/sock_send_length"]),
        ("sock_recv_length", &["sock/sock_recv_length"]),
    ],
};

/// Tasks to record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordScope<'a> {
    /// A command to be started, with its arguments, and its descendants.
    Command(&'a [OsString]),
    /// Running processes by PID, with all their threads and descendants.
    Processes(&'a [u32]),
    /// All processes of the machine except the recorder.
    Machine,
}

/// Summary of a recording.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordSummary {
    /// Number of recorded tasks.
    pub tasks: u32,
    /// Number of events received.
    pub events: u64,
    /// Number of events that did not fit the buffer, by CPU. They may be of any kind, so the recording is incomplete.
    pub lost_by_cpu: Vec<u64>,
    /// Programs whose calls the kernel skipped because they were active on that CPU, and number of calls: also lost
    /// events.
    pub skipped: Vec<(String, u64)>,
    /// Number of tasks alive at the end: daemons, or tasks whose end was lost.
    pub unfinished: u32,
    /// Number of wakeups that the kernel hid. Their wakers are unknown; their times are inferred from the CPU time of the
    /// woken task at its next event. [`crate::meter::MeterCost::unseen_switches`] gives the reason.
    pub unseen_wakeups: u64,
    /// Time from the start of the command to the last event.
    pub wall: Nanos,
    /// CPU time of all recorded tasks.
    pub cpu: Nanos,
    /// Scheduling overhead that was subtracted from it.
    pub scheduling: Nanos,
    /// Costs of scheduling operations during the recording, including the recorder's programs.
    pub costs: Costs,
    /// Run time of the recorder's programs for all tasks of the machine, measured by themselves. It is part of the
    /// times of the tasks that ran then.
    pub probes: Nanos,
    /// Number of program runs.
    pub probe_runs: u64,
    /// CPU time of the thread that received the events, until the end of the command.
    pub consumer: Nanos,
    /// Total CPU time of the machine, used or idle, while `probes` and `consumer` were counted: slightly longer than
    /// the command.
    pub listened: Nanos,
    /// Number of block-device requests beyond the limit of a recording.
    pub requests_left_out: u64,
    /// If the recording exceeded the maximum number of operations: time at which it is cut, since the start of the
    /// command.
    pub cut_at: Option<Nanos>,
    /// Exit status of the command.
    pub status: ExitStatus,
    /// Whether the time limit ended the command.
    pub was_ended: bool,
}

impl RecordSummary {
    /// Number of lost events of any kind. If not 0, the recording is incomplete.
    pub fn lost(&self) -> u64 {
        lost(&self.lost_by_cpu, &self.skipped)
    }

    /// Places where events were lost, as text.
    pub fn lost_where(&self) -> Vec<String> {
        lost_where(&self.lost_by_cpu, &self.skipped)
    }

    /// One line about the recording itself, stored in the file.
    pub(crate) fn note(&self) -> String {
        let mut cut = self.cut_at.map_or(String::new(), |at| format!("; it went on, and is cut at {at}"));
        if self.requests_left_out > 0 {
            cut += &format!("; {} further block requests are not recorded", self.requests_left_out);
        }
        format!(
            "{} tasks ({} unfinished), {} events, {} of CPU time; of all CPUs' time: probes {:.3} %, consumer {:.3} %{cut}",
            self.tasks,
            self.unfinished,
            self.events,
            self.cpu,
            self.probe_percent(),
            self.consumer_percent()
        )
    }

    /// Run time of the programs in percent of the machine's CPU time.
    pub fn probe_percent(&self) -> f64 {
        percent(self.probes, self.listened)
    }

    /// CPU time of the consumer in percent of the machine's CPU time.
    pub fn consumer_percent(&self) -> f64 {
        percent(self.consumer, self.listened)
    }
}

fn percent(part: Nanos, whole: Nanos) -> f64 {
    100.0 * part.0 as f64 / whole.0.max(1) as f64
}

/// Parts of a recording.
pub(crate) struct Parts {
    pub workload: Workload,
    pub observed: Observed,
    /// The earlier part of the tasks' scripts, if the recording is long.
    pub earlier: Option<Earlier<File>>,
}

/// Records the given tasks and converts the events to a workload of the given name.
pub(crate) fn run(
    name: &str,
    scope: RecordScope<'_>,
    options: RecordOptions<'_>,
    signals: &Signals,
) -> Result<(Parts, RecordSummary), LinkError> {
    scope.check()?;
    kernel::check()?;
    let host = kernel::host()?;
    let calibration = Calibration::measure(&PROBES, &host.cpus)?;
    let roots = match scope {
        RecordScope::Command(_) => Roots::NextChildOf(host::proc::thread_id()?),
        RecordScope::Processes(_) | RecordScope::Machine => Roots::None,
    };
    let probes = Probes::load(&PROBES, &host.cpus, roots)?;
    let _links = probes.attach()?;
    let inbox = Rc::default();
    let ring = probes.listen(&inbox)?;
    let (began, cpu_before) = (Instant::now(), sys::cpu_time());
    let directory = options.directory.map_or_else(std::env::temp_dir, Path::to_owned);
    let stream = Stream::new(&host, directory);
    let mut receiver = Receiver { probes: &probes, ring: &ring, inbox: &inbox, calibration: &calibration, stream };
    let (status, asked) = listen(scope, options.limit, &mut receiver, signals)?;
    probes.for_each_task("on_last")?;
    receiver.receive(Duration::ZERO)?;
    let consumer = sys::cpu_time().since(cpu_before);
    let (elapsed, skipped, own) = (began.elapsed(), probes.cost()?.skipped, probes.own_times()?);
    let listened = Nanos(elapsed.as_nanos() as u64 * host::proc::online()?.len() as u64);
    let Receiver { stream, .. } = receiver;
    let lost_by_cpu = probes.lost_by_cpu()?;
    drop(ring);
    let received = inbox.borrow().events;
    // Cgroups may have been created meanwhile.
    let (converted, cut, earlier) =
        stream.finish(name, &inbox.take().chunks, calibration.overheads(&own), &kernel::host()?)?;
    let probes = Nanos(calibration.calling_ns(&own) as u64 + own.total_ns() as u64);
    let mean = (own.runs() > 0).then(|| Nanos(probes.0 / own.runs()));
    let summary = RecordSummary {
        tasks: converted.workload.tasks.len() as u32,
        events: received,
        lost_by_cpu,
        skipped,
        unfinished: converted.unfinished,
        unseen_wakeups: converted.unseen_wakeups,
        requests_left_out: converted.requests_left_out,
        cut_at: cut.then_some(converted.wall),
        wall: converted.wall,
        cpu: converted.cpu,
        scheduling: converted.scheduling,
        costs: Costs {
            probe: mean.map(|mean| Cost { low: mean, typical: mean, high: mean }),
            ..calibration.costs(&own)
        },
        probes,
        probe_runs: own.runs(),
        consumer,
        listened,
        was_ended: asked && status.signal() == Some(Signal::SIGTERM as i32),
        status,
    };
    Ok((Parts { workload: converted.workload, observed: converted.observed, earlier }, summary))
}

/// Starts the command if there is one, and receives events until the end of the recording. Returns the exit status
/// and whether the time limit ended it.
fn listen(
    scope: RecordScope<'_>,
    limit: Option<Duration>,
    receiver: &mut Receiver<'_>,
    signals: &Signals,
) -> Result<(ExitStatus, bool), LinkError> {
    match scope {
        RecordScope::Command(command) => {
            let (program, arguments) = command.split_first().ok_or(LinkError::NoCommand)?;
            let spawned = signals.unblocked(|| Command::new(program).args(arguments).spawn());
            let name = || program.to_string_lossy().into_owned();
            let child = spawned.map_err(|source| LinkError::Spawn { command: name(), source })?;
            record_until_end(child, limit, receiver, signals)
        }
        RecordScope::Processes(_) | RecordScope::Machine => {
            receiver.probes.want(scope.processes(), std::process::id())?;
            receiver.probes.for_each_task("on_existing")?;
            watch_until_end(limit, receiver, signals)?;
            Ok((ExitStatus::default(), false))
        }
    }
}

impl RecordScope<'_> {
    /// PIDs to record; 0 for all.
    fn processes(&self) -> &[u32] {
        match self {
            RecordScope::Command(_) => &[],
            RecordScope::Processes(processes) => processes,
            RecordScope::Machine => &[0],
        }
    }

    fn check(&self) -> Result<(), LinkError> {
        match self {
            RecordScope::Command([]) => Err(LinkError::NoCommand),
            RecordScope::Command(_) | RecordScope::Machine => Ok(()),
            RecordScope::Processes(processes) => {
                let missing = processes.iter().find(|process| !host::proc::is_process(**process));
                missing.map_or(Ok(()), |&process| Err(LinkError::NoProcess { process }))
            }
        }
    }
}

/// Receiver of the programs' events.
struct Receiver<'a> {
    probes: &'a Probes,
    ring: &'a RingBuffer<'a>,
    inbox: &'a RefCell<Inbox>,
    calibration: &'a Calibration,
    stream: Stream,
}

impl Receiver<'_> {
    /// See [`receive`].
    fn receive(&mut self, period: Duration) -> Result<(), LinkError> {
        receive(self.ring, period)?;
        if self.inbox.borrow().chunks.bytes() < BATCH {
            return Ok(());
        }
        // Tick counts of living tasks are needed for the part converted now.
        self.probes.for_each_task("on_last")?;
        receive(self.ring, Duration::ZERO)?;
        let batch = take(&mut self.inbox.borrow_mut().chunks);
        self.stream.give(batch, self.calibration.overheads(&self.probes.own_times()?))
    }
}

/// Receives events until all tasks have exited, the time limit is reached, or termination is requested.
fn watch_until_end(limit: Option<Duration>, receiver: &mut Receiver<'_>, signals: &Signals) -> Result<(), LinkError> {
    let began = Instant::now();
    loop {
        let left = limit.map_or(PERIOD, |limit| limit.saturating_sub(began.elapsed()).min(PERIOD));
        receiver.receive(left)?;
        let inbox = receiver.inbox.borrow();
        if inbox.births == 0 {
            return Err(LinkError::NothingSeen);
        }
        let is_over = limit.is_some_and(|limit| began.elapsed() >= limit);
        if is_over || signals.take().is_some() || inbox.births == inbox.ends {
            return Ok(());
        }
    }
}

/// Receives events until the command and its descendants have exited. Also returns whether the time limit ended the
/// command.
fn record_until_end(
    mut child: Child,
    limit: Option<Duration>,
    receiver: &mut Receiver<'_>,
    signals: &Signals,
) -> Result<(ExitStatus, bool), LinkError> {
    let (mut status, mut stopped, mut asked) = (None, false, false);
    let mut seen = 0;
    let began = Instant::now();
    let mut last_news = began;
    loop {
        receiver.receive(PERIOD)?;
        stopped |= signals.pass_on(child.id());
        if !stopped && limit.is_some_and(|limit| began.elapsed() >= limit) {
            (stopped, asked) = (true, true);
            signals::send(child.id(), Signal::SIGTERM as i32);
        }
        let inbox = receiver.inbox.borrow();
        if inbox.of_tree() != seen {
            seen = inbox.of_tree();
            last_news = Instant::now();
        }
        if status.is_none() {
            status = child.try_wait().map_err(LinkError::file("wait for the command"))?;
        }
        let Some(status) = status else { continue };
        if inbox.births == 0 {
            return Err(LinkError::NothingSeen);
        }
        if inbox.births == inbox.ends || last_news.elapsed() >= QUIET {
            return Ok((status, asked));
        }
        if stopped {
            // A task that waits for another learns of its exit before that one is switched out for the last time.
            drop(inbox);
            let until = Instant::now() + PERIOD;
            while Instant::now() < until {
                receiver.receive(until.saturating_duration_since(Instant::now()))?;
            }
            return Ok((status, asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each class of programs has runs of its own, which are timed. Needs root.
    #[test]
    fn programs_time_their_runs_by_charged_task() {
        match kernel::check() {
            Err(LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. }) => return,
            other => other.unwrap(),
        }
        let began = Instant::now();
        let calibration = Calibration::measure(&PROBES, &kernel::host().unwrap().cpus).unwrap();
        eprintln!("a calibration took {:?}", began.elapsed());
        for running in calibration.running_ns() {
            // A program that looks up a task cannot be faster, and own_time.bpf.h ignores longer runs.
            assert!((10.0..20_000.0).contains(&running), "{calibration:?}");
        }
    }
}
