// SPDX-License-Identifier: GPL-2.0-only
//! Export of a run as a Perfetto trace, for <https://ui.perfetto.dev> and its SQL.
//!
//! 1. Switches and wakeups become the kernel's ftrace events (`sched_switch`, `sched_waking`, `sched_wakeup_new`) in
//!    one bundle per CPU, so that Perfetto's scheduling tracks and tables work as on a trace of a real machine.
//! 2. Each task is a process with one thread. Its pid is the one that a scheduler in the kernel sees and prints. Pid
//!    0 is the idle task, and Perfetto takes pid 2 as the parent of all kthreads.
//! 3. Each queue other than the local queues has a counter track with its depth.
//! 4. Kicks, preemptions and texts printed by the scheduler are instants on a track per CPU, with the callback that
//!    caused them.
//!
//! Memory is bounded: events of a CPU are written in bundles of [`BUNDLE`], all others immediately.

mod messages;
#[cfg(test)]
mod tests;
mod wire;

use crate::{
    BlockCause, CallbackSite, Detail, DetailKind, Event, EventKind, KickFlags, Printk, Sink, SwitchReason, TaskInfo,
    Waker, op_name,
};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};
use messages::*;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Number of events of a CPU that are buffered to share a packet; with 512 CPUs they take at most 10 MB.
const BUNDLE: usize = 64;
/// Sequence number of all packets that are not ftrace events.
const SEQUENCE: u32 = 1;
/// Flag of the first packet of a sequence.
const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// Parent pid by which Perfetto recognizes kthreads.
const KTHREADD_PID: i32 = 2;
/// `TRACE_FLAG_HARDIRQ`: the event occurred in an interrupt, not in the CPU's current task.
const FLAG_HARDIRQ: u32 = 0x08;
/// Types of a [`TrackEvent`], and the unit of counters.
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
const UNIT_COUNT: i32 = 2;
/// First track numbers of queues and of CPUs.
const DSQ_TRACKS: u64 = 1 << 32;
const DEVICE_TRACKS: u64 = 3 << 32;
const CPU_TRACKS: u64 = 2 << 32;
/// Kernel priority of nice 0 and of the idle task.
const DEFAULT_PRIO: i32 = 120;

/// Values of `prev_state` in `sched_switch` since Linux 4.14 (`TASK_REPORT` and `TASK_REPORT_MAX`).
mod prev_state {
    /// R: yielded.
    pub const RUNNABLE: i64 = 0;
    /// S: sleeps until a wakeup or a signal.
    pub const INTERRUPTIBLE: i64 = 0x01;
    /// D: sleeps until a device completes.
    pub const UNINTERRUPTIBLE: i64 = 0x02;
    /// Z: exited and not yet reaped by its parent.
    pub const ZOMBIE: i64 = 0x20;
    /// R+: preempted while runnable.
    pub const PREEMPTED: i64 = 0x100;
}

#[derive(Debug)]
struct Task {
    pid: i32,
    comm: String,
    prio: i32,
    /// Cause of the last `Block` event.
    blocked: BlockCause,
    queue: Option<DsqId>,
}

#[derive(Debug)]
struct Queue {
    track: u64,
    depth: i64,
}

#[derive(Debug)]
struct Cpu {
    current: TaskId,
    events: Vec<FtraceEvent>,
    has_track: bool,
}

/// A sink that writes a Perfetto trace during the run. After the first error it writes nothing; [`Writer::finish`]
/// reports the error.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    queues: BTreeMap<DsqId, Queue>,
    /// Devices in the order of their tracks.
    devices: Vec<String>,
    /// Names of the source files, by number.
    files: Vec<String>,
}

impl<W: Write> Writer<W> {
    /// Creates a sink that writes to `out`, which should be buffered. `kernel` is a version such as `7.2`, by which
    /// Perfetto interprets task states.
    pub fn new(out: W, kernel: &str) -> Writer<W> {
        let (tasks, cpus, queues, files) = (Vec::new(), Vec::new(), BTreeMap::new(), Vec::new());
        let devices = Vec::new();
        let mut writer = Writer { out, buffer: Vec::new(), failed: None, tasks, cpus, queues, devices, files };
        let utsname = Utsname { sysname: Some("Linux".to_owned()), release: Some(format!("{kernel}.0-weir")) };
        writer.packet(TracePacket {
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            system_info: Some(SystemInfo { utsname: Some(utsname) }),
            ..TracePacket::default()
        });
        writer
    }

    /// Writes the buffered events and returns the output.
    ///
    /// # Errors
    ///
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<W> {
        for cpu in 0..self.cpus.len() {
            self.flush(CpuId(cpu as u32));
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn packet(&mut self, packet: TracePacket) {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.buffer.clear();
        Trace { packet: vec![packet] }.encode(&mut self.buffer);
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
    }

    fn flush(&mut self, cpu: CpuId) {
        let events = std::mem::take(&mut self.cpus[cpu.index()].events);
        if !events.is_empty() {
            let bundle = FtraceEventBundle { cpu: Some(cpu.0), event: events };
            self.packet(TracePacket { ftrace_events: Some(bundle), ..TracePacket::default() });
        }
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        while self.cpus.len() <= cpu.index() {
            self.cpus.push(Cpu { current: TaskId::NONE, events: Vec::new(), has_track: false });
        }
        &mut self.cpus[cpu.index()]
    }

    fn ftrace(&mut self, cpu: CpuId, event: FtraceEvent) {
        let events = &mut self.cpu(cpu).events;
        events.push(event);
        if events.len() >= BUNDLE {
            self.flush(cpu);
        }
    }

    /// Pid in the kernel; 0 for the idle task.
    fn pid(&self, task: TaskId) -> i32 {
        task.some().map_or(0, |task| self.tasks[task.index()].pid)
    }

    fn pid_text(&self, task: TaskId) -> String {
        task.some().map_or("idle".to_owned(), |task| self.pid(task).to_string())
    }

    /// Name, pid and priority of a task, or of the idle task of `cpu`.
    fn identity(&self, task: TaskId, cpu: CpuId) -> (Option<String>, Option<i32>, Option<i32>) {
        match task.some() {
            None => (Some(format!("swapper/{cpu}")), Some(0), Some(DEFAULT_PRIO)),
            Some(id) => {
                let task = &self.tasks[id.index()];
                (Some(task.comm.clone()), Some(task.pid), Some(task.prio))
            }
        }
    }

    fn switch(&mut self, event: &Event, prev: TaskId, reason: SwitchReason) {
        let (next_comm, next_pid, next_prio) = self.identity(event.task, event.cpu);
        let (prev_comm, prev_pid, prev_prio) = self.identity(prev, event.cpu);
        let prev_state = match (reason, prev.some().map(|prev| self.tasks[prev.index()].blocked)) {
            (SwitchReason::Block, Some(BlockCause::Io)) => prev_state::UNINTERRUPTIBLE,
            (SwitchReason::Block, _) => prev_state::INTERRUPTIBLE,
            (SwitchReason::Exit, _) => prev_state::ZOMBIE,
            (SwitchReason::Idle | SwitchReason::Yield, _) => prev_state::RUNNABLE,
            _ => prev_state::PREEMPTED,
        };
        let switch = SchedSwitch {
            prev_comm,
            prev_pid,
            prev_prio,
            prev_state: Some(prev_state),
            next_comm,
            next_pid,
            next_prio,
        };
        let (timestamp, pid) = (Some(event.time.0), prev_pid.map(|pid| pid as u32));
        let ftrace = FtraceEvent { timestamp, pid, sched_switch: Some(switch), ..FtraceEvent::default() };
        self.ftrace(event.cpu, ftrace);
        self.cpu(event.cpu).current = event.task;
        if event.task != TaskId::NONE {
            self.requeue(event.time, event.task, None);
        }
        if reason == SwitchReason::Preempt {
            self.instant(event.time, event.cpu, event.site, format!("preempt {}", self.pid_text(prev)));
        }
    }

    fn wakeup(&mut self, event: &Event, waker: Waker, target: CpuId) {
        let (comm, pid_, prio) = self.identity(event.task, event.cpu);
        let waking = SchedWaking { comm, pid: pid_, prio, success: Some(1), target_cpu: Some(target.0 as i32) };
        let current = self.cpu(event.cpu).current;
        let mut ftrace = FtraceEvent { timestamp: Some(event.time.0), ..FtraceEvent::default() };
        let by = match waker {
            Waker::Task(task) | Waker::Fork(task) => task,
            Waker::Timer | Waker::Interrupt | Waker::External => {
                ftrace.common_flags = Some(FLAG_HARDIRQ);
                current
            }
        };
        ftrace.pid = Some(self.pid(by) as u32);
        if matches!(waker, Waker::Fork(_)) {
            ftrace.sched_wakeup_new = Some(waking);
        } else {
            ftrace.sched_waking = Some(waking);
        }
        self.ftrace(event.cpu, ftrace);
    }

    /// Moves a task to a queue; `None` is a local queue or no queue.
    fn requeue(&mut self, time: Nanos, task: TaskId, queue: Option<DsqId>) {
        let old = std::mem::replace(&mut self.tasks[task.index()].queue, queue);
        if old != queue {
            old.into_iter().for_each(|dsq| self.count(time, dsq, -1));
            queue.into_iter().for_each(|dsq| self.count(time, dsq, 1));
        }
    }

    fn count(&mut self, time: Nanos, dsq: DsqId, change: i64) {
        let track = DSQ_TRACKS + self.queues.len() as u64;
        let is_new = !self.queues.contains_key(&dsq);
        let queue = self.queues.entry(dsq).or_insert(Queue { track, depth: 0 });
        queue.depth += change;
        let (track, depth) = (queue.track, queue.depth);
        self.counter(time, track, depth, is_new.then(|| format!("DSQ {dsq} depth")));
    }

    /// The number of requests in progress at a device.
    fn device(&mut self, time: Nanos, name: &str, requests: u32) {
        let known = self.devices.iter().position(|known| known == name);
        let place = known.unwrap_or(self.devices.len());
        let new = known.is_none().then(|| format!("{name} requests"));
        if new.is_some() {
            self.devices.push(name.to_owned());
        }
        self.counter(time, DEVICE_TRACKS + place as u64, requests.into(), new);
    }

    /// A value of a counter; a new one gets its track with this name.
    fn counter(&mut self, time: Nanos, track: u64, value: i64, new: Option<String>) {
        if new.is_some() {
            let counter = Some(CounterDescriptor { unit: Some(UNIT_COUNT) });
            self.track(TrackDescriptor { uuid: Some(track), name: new, counter });
        }
        self.track_event(
            time,
            TrackEvent {
                kind: Some(COUNTER),
                track_uuid: Some(track),
                counter_value: Some(value),
                ..TrackEvent::default()
            },
        );
    }

    fn instant(&mut self, time: Nanos, cpu: CpuId, site: CallbackSite, name: String) {
        let uuid = Some(CPU_TRACKS + u64::from(cpu.0));
        if !std::mem::replace(&mut self.cpu(cpu).has_track, true) {
            let name = Some(format!("CPU {cpu} kicks, preemptions, printk"));
            self.track(TrackDescriptor { uuid, name, counter: None });
        }
        let callback = self
            .callback(site)
            .map(|site| DebugAnnotation { name: Some("callback".to_owned()), string_value: Some(site) });
        self.track_event(
            time,
            TrackEvent {
                debug_annotations: callback.into_iter().collect(),
                kind: Some(INSTANT),
                track_uuid: uuid,
                name: Some(name),
                ..TrackEvent::default()
            },
        );
    }

    fn callback(&self, site: CallbackSite) -> Option<String> {
        let op = op_name(site.op)?;
        Some(match self.files.get(usize::from(site.file)) {
            Some(file) if site.line > 0 => format!("{op}, {file}:{}", site.line),
            _ => op.to_owned(),
        })
    }

    fn track(&mut self, descriptor: TrackDescriptor) {
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
    }

    fn track_event(&mut self, time: Nanos, event: TrackEvent) {
        self.packet(TracePacket { timestamp: Some(time.0), track_event: Some(event), ..TracePacket::default() });
    }
}

/// Priority in the kernel's scale: 0 to 99 for real-time tasks, 100 to 139 for nice -20 to 19, below 0 for deadline
/// tasks.
fn prio(policy: Policy, nice: i8) -> i32 {
    match policy {
        Policy::Fifo(priority) | Policy::RoundRobin(priority) => 99 - i32::from(priority),
        Policy::Deadline { .. } => -1,
        Policy::Other | Policy::Batch | Policy::Idle | Policy::Ext => DEFAULT_PRIO + i32::from(nice),
    }
}

/// The part of a name that the kernel keeps: `TASK_COMM_LEN` is 16, including the terminating zero.
fn comm(name: &str) -> String {
    let end = (0..=name.len().min(15)).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    name[..end].to_owned()
}

fn kick_name(target: CpuId, flags: KickFlags) -> String {
    let mut name = format!("kick CPU {target}");
    for (bit, word) in [(KickFlags::IDLE, "idle"), (KickFlags::PREEMPT, "preempt"), (KickFlags::WAIT, "wait")] {
        if flags.0 & bit != 0 {
            name.push(' ');
            name.push_str(word);
        }
    }
    name
}

impl<W: Write> Sink for Writer<W> {
    fn source_file(&mut self, file: u16, name: &str) {
        self.files.resize(self.files.len().max(usize::from(file) + 1), String::new());
        self.files[usize::from(file)] = name.to_owned();
    }

    fn printk(&mut self, printk: &Printk) {
        self.instant(printk.time, printk.cpu, printk.site, printk.text.clone());
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        assert_eq!(info.id.index(), self.tasks.len(), "tasks are announced in order of their numbers");
        self.tasks.push(Task {
            comm: comm(&info.name),
            pid: info.pid as i32,
            prio: prio(info.policy, info.nice),
            blocked: BlockCause::External,
            queue: None,
        });
        let parent = info.parent.map(|parent| self.tasks[parent.index()].pid);
        let parent = if info.kernel_thread { Some(KTHREADD_PID) } else { parent };
        let pid = Some(info.pid as i32);
        let process = Process { pid, ppid: parent, cmdline: vec![info.name.clone()] };
        let thread = Thread { tid: pid, name: Some(info.name.clone()), tgid: pid };
        let tree = ProcessTree { processes: vec![process], threads: vec![thread] };
        self.packet(TracePacket { timestamp: Some(time.0), process_tree: Some(tree), ..TracePacket::default() });
    }

    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}

    fn wants_details(&self) -> bool {
        true
    }

    fn detail(&mut self, detail: &Detail) {
        if let DetailKind::Device { name, requests } = &detail.kind {
            self.device(detail.time, name, *requests);
        }
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Switch { prev, reason } => self.switch(event, prev, reason),
            EventKind::Wakeup { waker, target, .. } => self.wakeup(event, waker, target),
            EventKind::Block { cause } => self.tasks[event.task.index()].blocked = cause,
            EventKind::Insert { dsq, .. } => {
                let own = dsq == DsqId::LOCAL || dsq.local_cpu().is_some();
                self.requeue(event.time, event.task, (!own).then_some(dsq));
            }
            EventKind::Dispatch { .. } => self.requeue(event.time, event.task, None),
            EventKind::Kick { target, flags } => {
                self.instant(event.time, event.cpu, event.site, kick_name(target, flags));
            }
            EventKind::Priority { nice } => {
                let task = &mut self.tasks[event.task.index()];
                // Real-time priorities do not depend on the nice value.
                if task.prio >= 100 {
                    task.prio = DEFAULT_PRIO + i32::from(nice);
                }
            }
            _ => {}
        }
    }
}
