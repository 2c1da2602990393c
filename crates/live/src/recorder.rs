// SPDX-License-Identifier: GPL-2.0-only
//! Runs a command with the recorder's programs in the kernel.

use crate::LiveError;
use crate::complaints;
use crate::convert::convert;
use crate::cost::{Metering, ProbeCost, thread_cpu_time};
use crate::event::{self, Event, Glance};
use crate::kernel;
use ids::Nanos;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use workload::Workload;

/// The consumer empties the buffer this often. A parallel build makes about 100 KB of events in that time, and the
/// buffer holds 16 MB; a quarter of it wakes the consumer early.
const PERIOD: Duration = Duration::from_millis(100);

/// After the command itself has exited, its descendants may live on. When none of them has run for so long, they are
/// daemons, and the recording ends without them.
const QUIET: Duration = Duration::from_secs(2);

/// The compiled programs. libbpf's ELF reader wants them aligned.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o")));

/// What a recording is, in numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordSummary {
    /// Tasks recorded.
    pub tasks: u32,
    /// Events received.
    pub events: u64,
    /// Events that did not fit the buffer, by CPU. Each may have been anything: a recording with a loss is not whole.
    pub lost_by_cpu: Vec<u64>,
    /// Calls of a program that the kernel skipped because it was active on that CPU: lost events too.
    pub skipped: u64,
    /// Tasks that were still there at the end: daemons, or tasks whose end was lost.
    pub unfinished: u32,
    /// From the start of the command to the last event.
    pub wall: Nanos,
    /// CPU time of all recorded tasks.
    pub cpu: Nanos,
    /// Time in the recorder's BPF programs on behalf of every task of the machine, as the kernel measured it. It is
    /// contained in the times of the tasks that ran then.
    pub probes: Nanos,
    /// How often they ran.
    pub probe_runs: u64,
    /// CPU time of the thread that received the events, up to the end of the command.
    pub consumer: Nanos,
    /// How the command ended.
    pub status: ExitStatus,
}

impl RecordSummary {
    /// Events lost, on whatever way. Not 0: the recording is incomplete.
    pub fn lost(&self) -> u64 {
        self.lost_by_cpu.iter().sum::<u64>() + self.skipped
    }

    /// One line about the recording itself, for those who find the file later.
    pub(crate) fn note(&self) -> String {
        format!(
            "{} tasks ({} unfinished), {} events; of the tasks' {} CPU time: probes {:.3} %, consumer {:.3} %",
            self.tasks,
            self.unfinished,
            self.events,
            self.cpu,
            self.probe_percent(),
            self.consumer_percent()
        )
    }

    /// Share of the probes in the recorded CPU time, in percent.
    pub fn probe_percent(&self) -> f64 {
        percent(self.probes, self.cpu)
    }

    /// CPU time of the consumer beside the recorded CPU time, in percent.
    pub fn consumer_percent(&self) -> f64 {
        percent(self.consumer, self.cpu)
    }
}

fn percent(part: Nanos, whole: Nanos) -> f64 {
    100.0 * part.0 as f64 / whole.0.max(1) as f64
}

/// Runs `command` and records its process tree. The events come back as a workload of the given name.
pub(crate) fn run(name: &str, command: &[OsString]) -> Result<(Workload, RecordSummary), LiveError> {
    let (program, arguments) = command.split_first().ok_or(LiveError::NoCommand)?;
    kernel::check()?;
    let host = kernel::host()?;
    let probes = Probes::load(&host.cpus)?;
    let metering = Metering::start()?;
    let _links = probes.attach()?;
    let collector = Collector::default();
    let ring = collector.listen(&probes.object)?;
    let cpu_before = thread_cpu_time()?;
    let spawned = Command::new(program).args(arguments).spawn();
    let child =
        spawned.map_err(|source| LiveError::Spawn { command: program.to_string_lossy().into_owned(), source })?;
    let status = receive(child, &ring, &collector)?;
    let consumer = thread_cpu_time()?.since(cpu_before);
    let cost = ProbeCost::of(&probes.object)?;
    drop(metering);
    let lost_by_cpu = probes.lost_by_cpu()?;
    drop(ring);
    let events = collector.into_events()?;
    let converted = convert(name, &events, &host);
    let summary = RecordSummary {
        tasks: converted.workload.tasks.len() as u32,
        events: events.len() as u64,
        lost_by_cpu,
        skipped: cost.skipped,
        unfinished: converted.unfinished,
        wall: converted.wall,
        cpu: converted.cpu,
        probes: cost.time,
        probe_runs: cost.runs,
        consumer,
        status,
    };
    Ok((converted.workload, summary))
}

/// Receives events until the command and its descendants have ended.
fn receive(mut child: Child, ring: &RingBuffer<'_>, collector: &Collector) -> Result<ExitStatus, LiveError> {
    let mut status = None;
    let mut seen = 0;
    let mut last_news = Instant::now();
    loop {
        // Sleeps for the period or until the buffer is a quarter full; only the second call takes what is in it then.
        ring.poll(PERIOD).map_err(LiveError::bpf("wait for events"))?;
        ring.consume().map_err(LiveError::bpf("receive events"))?;
        let state = collector.state.borrow();
        if state.events != seen {
            seen = state.events;
            last_news = Instant::now();
        }
        if status.is_none() {
            status = child.try_wait().map_err(LiveError::file("wait for the command"))?;
        }
        let Some(status) = status else { continue };
        if state.births == 0 {
            return Err(LiveError::NothingSeen);
        }
        if state.births == state.ends || last_news.elapsed() >= QUIET {
            return Ok(status);
        }
    }
}

/// The programs in the kernel.
struct Probes {
    object: Object,
}

impl Probes {
    /// Loads them; the next child of this thread will be the root of the recorded tree.
    fn load(cpus: &ids::CpuSet) -> Result<Probes, LiveError> {
        complaints::listen();
        let mut open = ObjectBuilder::default()
            .open_memory(&OBJECT.0)
            .map_err(LiveError::bpf("read the recorder's own programs"))?;
        let settings = settings(cpus)?;
        let mut map = open
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(".data.settings"))
            .expect("record.bpf.c has settings");
        map.set_initial_value(&settings).map_err(LiveError::bpf("set up the recorder's programs"))?;
        let object = open.load().map_err(|source| LiveError::Load { source, log: complaints::last_words() })?;
        Ok(Probes { object })
    }

    fn attach(&self) -> Result<Vec<Link>, LiveError> {
        let attach = |program: libbpf_rs::ProgramMut<'_>| {
            let action = format!("attach {}", program.name().to_string_lossy());
            program.attach_trace().map_err(LiveError::bpf(action))
        };
        self.object.progs_mut().map(attach).collect()
    }

    fn lost_by_cpu(&self) -> Result<Vec<u64>, LiveError> {
        let lost = map(&self.object, "lost");
        let counts = lost.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(LiveError::bpf("count losses"))?;
        let count = |bytes: &Vec<u8>| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?));
        Ok(counts.unwrap_or_default().iter().filter_map(count).collect())
    }
}

fn map<'object>(object: &'object Object, name: &str) -> libbpf_rs::Map<'object> {
    object.maps().find(|map| map.name() == name).expect("record.bpf.c has this map")
}

/// `struct settings` of `record.bpf.c`.
fn settings(cpus: &ids::CpuSet) -> Result<Vec<u8>, LiveError> {
    let mask_words = (cpus.words().len() as u32).max(1);
    let mut bytes = kernel::thread_id()?.to_ne_bytes().to_vec();
    bytes.extend(mask_words.to_ne_bytes());
    bytes.extend(kernel::preempt_count_from_rq()?.to_ne_bytes());
    bytes.extend([0; 8]);
    Ok(bytes)
}

/// Takes events from the buffer with as little work as possible: it runs beside what it observes.
#[derive(Default)]
struct Collector {
    state: RefCell<Collected>,
}

#[derive(Default)]
struct Collected {
    /// Raw events, and where each ends.
    bytes: Vec<u8>,
    boundaries: Vec<usize>,
    events: u64,
    births: u64,
    ends: u64,
}

impl Collector {
    fn listen<'a>(&'a self, object: &'a Object) -> Result<RingBuffer<'a>, LiveError> {
        let events = map(object, "events");
        let mut builder = RingBufferBuilder::new();
        let take = |raw: &[u8]| {
            self.state.borrow_mut().take(raw);
            0
        };
        builder.add(&events, take).map_err(LiveError::bpf("open the event buffer"))?;
        builder.build().map_err(LiveError::bpf("open the event buffer"))
    }

    fn into_events(self) -> Result<Vec<Event>, LiveError> {
        let Collected { bytes, boundaries, .. } = self.state.into_inner();
        let mut from = 0;
        let event = |to: usize| {
            let raw = &bytes[from..to];
            from = to;
            event::parse(raw).map_err(LiveError::Malformed)
        };
        boundaries.into_iter().map(event).collect()
    }
}

impl Collected {
    fn take(&mut self, raw: &[u8]) {
        self.bytes.extend_from_slice(event::used(raw));
        self.boundaries.push(self.bytes.len());
        self.events += 1;
        match event::glance(raw) {
            Glance::Birth => self.births += 1,
            Glance::End => self.ends += 1,
            Glance::Other => {}
        }
    }
}
