// SPDX-License-Identifier: GPL-2.0-only
//! Events of a saved real run: records that are within the bounds of their run never make a consumer panic, whatever
//! their order: timeline, explanations, idle gaps, page, Perfetto trace, JSON lines.

use event_log::{
    BlockCause, Bounds, CallbackSite, Event, EventKind, JsonLines, KickFlags, LockKind, Printk, Record, SwitchReason,
    TaskInfo, Tee, Waker, perfetto,
};
use explanation::{RunContext, Source, chain_json, chain_text, ejection_text, wait_json, wait_sentence, wait_text};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId, Topology};
use measures::Collector;
use page::{Report, Track, page};
use report::{Details, Exit};
use timeline::{Recorder, Timeline};

/// Number of CPUs of the run, and its end in nanoseconds.
const CPUS: u32 = 3;
const END: Nanos = Nanos(100_000);

/// Turns bytes into records that are mostly within the bounds of the run, and passes them to all consumers. `details`
/// describe the run for the page.
pub fn run(bytes: &[u8], record: Option<report::Record>, details: Option<Details>) {
    let mut source = Fields { rest: bytes, tasks: 0, now: 0 };
    let mut bounds = Bounds::new(CPUS as usize, END);
    let topology = Topology::flat(CPUS);
    let trace = perfetto::Writer::new(Vec::new(), "7.2");
    let mut sinks = Tee(
        Recorder::of_real_run(CPUS as usize),
        Tee(Collector::with_idle_gaps(&topology), Tee(trace, JsonLines::new(Vec::new()))),
    );
    while let Some(record) = source.record() {
        let mut stored = Vec::new();
        record.encode(&mut stored);
        assert_eq!(Record::decode(&stored).as_ref(), Ok(&record));
        if bounds.check(&record).is_ok() {
            source.tasks += u32::from(matches!(record, Record::Task(..)));
            source.now = record.time().0.max(source.now);
            record.send_to(&mut sinks);
        }
    }
    let Tee(recorder, Tee(collector, Tee(trace, lines))) = sinks;
    trace.finish().expect("memory takes it");
    lines.finish().expect("memory takes it");
    let timeline = recorder.finish(END);
    let explanations = explain(&timeline);
    let tracks = [(0, Ok(Track { timeline, idle_gaps: collector.idle_gaps(END), ejection: None, explanations }))];
    let (records, details) = (Vec::from_iter(record), Vec::from_iter(details));
    let tracks = if records.is_empty() { &[][..] } else { &tracks[..] };
    page(&Report { version: "0", records: &records, details: &details, tracks, ..Report::default() });
}

/// All explanations of the timeline.
fn explain(timeline: &Timeline) -> Vec<(&'static str, String)> {
    let source = Source::default();
    let context = RunContext { timeline, source: &source };
    let mut told = Vec::new();
    for wait in timeline.longest_waits(20, |_| true) {
        let account = timeline.account(wait);
        wait_json(&context, &account, None);
        told.push(("wait", wait_sentence(&context, &account) + &wait_text(&context, &account, Some(wait.from))));
    }
    for task in (0..timeline.tasks.len() as u32).map(TaskId) {
        timeline.waits_of(task).for_each(|wait| drop(timeline.account(wait)));
        timeline.task(task).phase_at(Nanos(END.0 / 2));
        chain_json(&context, &timeline.chain(Some(task)));
    }
    told.push(("chain", chain_text(&context, &timeline.chain(None))));
    told.push(("ejection", ejection_text(&context, &Exit::default(), true)));
    told
}

/// Reads fields from bytes; each takes a small value most of the time.
struct Fields<'a> {
    rest: &'a [u8],
    tasks: u32,
    now: u64,
}

impl Fields<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn below(&mut self, end: u8) -> Option<u8> {
        Some(self.byte()? % end)
    }

    fn number(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            255 => u64::MAX,
            254 => u64::MAX >> 1,
            small => u64::from(small),
        })
    }

    fn cpu(&mut self) -> Option<CpuId> {
        Some(match self.byte()? {
            255 => CpuId(u32::MAX),
            254 => CpuId(CPUS),
            other => CpuId(u32::from(other) % CPUS),
        })
    }

    fn task(&mut self) -> Option<TaskId> {
        Some(match self.byte()? {
            240.. => TaskId::NONE,
            239 => TaskId(self.tasks),
            other => TaskId(u32::from(other) % self.tasks.max(1)),
        })
    }

    fn time(&mut self) -> Option<Nanos> {
        Some(Nanos(match self.byte()? {
            255 => u64::MAX,
            254 => END.0,
            253 => self.now.saturating_sub(1),
            other => self.now + u64::from(other).pow(2) / 16,
        }))
    }

    fn record(&mut self) -> Option<Record> {
        let time = self.time()?;
        let site = CallbackSite { op: self.below(40)?, file: self.below(3)?.into(), line: self.below(3)?.into() };
        let (cpu, task) = (self.cpu()?, self.task()?);
        Some(match self.below(64)? {
            60..=63 => Record::Task(time, self.info()?),
            59 => Record::Affinity(time, task, CpuSet::from_words(&[self.number()?])),
            58 => Record::SourceFile(self.below(4)?.into(), "a/f.c".to_owned()),
            57 => Record::Printk(Printk { time, cpu, task, site, text: "text\u{1b}[2J".to_owned() }),
            kind => Record::Event(Event { time, cpu, task, kind: self.kind(kind % 19)?, site }),
        })
    }

    fn info(&mut self) -> Option<TaskInfo> {
        let id = if self.byte()? < 250 { TaskId(self.tasks) } else { self.task()? };
        let parent = self.task()?.some().filter(|parent| *parent != id);
        let policy = match self.below(6)? {
            0 => Policy::Fifo(self.byte()?),
            1 => Policy::Deadline { runtime: Nanos(self.number()?), deadline: Nanos(1), period: Nanos(u64::MAX) },
            2 => Policy::Idle,
            _ => Policy::Other,
        };
        let (pid, nice) = (self.number()? as u32, self.byte()? as i8);
        let (allowed, kernel_thread) = (CpuSet::from_words(&[self.number()?]), self.below(2)? == 1);
        Some(TaskInfo { id, pid, name: "t<b>\u{1b}".to_owned(), parent, allowed, policy, nice, kernel_thread })
    }

    fn kind(&mut self, kind: u8) -> Option<EventKind> {
        const REASONS: [SwitchReason; 4] =
            [SwitchReason::Block, SwitchReason::Exit, SwitchReason::SliceEnd, SwitchReason::Preempt];
        Some(match kind {
            0 | 17 => {
                let task = self.task()?;
                let waker = [Waker::Task(task), Waker::Timer, Waker::Interrupt, Waker::Fork(task), Waker::External];
                EventKind::Wakeup { waker: waker[usize::from(self.below(5)?)], sync: false, target: self.cpu()? }
            }
            1 => EventKind::SelectCpu { prev: self.cpu()?, chosen: self.cpu()? },
            2 => EventKind::Insert { dsq: self.dsq()?, key: self.number()?, slice_ns: self.number()? },
            3 => EventKind::Dispatch { from: self.dsq()?, to: self.cpu()? },
            4 | 5 | 18 => EventKind::Switch { prev: self.task()?, reason: REASONS[usize::from(self.below(4)?)] },
            6 => EventKind::Kick { target: self.cpu()?, flags: KickFlags(self.byte()?) },
            7 => EventKind::Migrate { from: self.cpu()?, to: self.cpu()? },
            8 => EventKind::Block { cause: [BlockCause::Io, BlockCause::Task][usize::from(self.below(2)?)] },
            9 => EventKind::Fork { child: self.task()? },
            10 => EventKind::Exit,
            11 => EventKind::Idle { entered: self.below(2)? == 1 },
            12 => EventKind::Affinity,
            13 => EventKind::Priority { nice: self.byte()? as i8 },
            14 => {
                let lock = [LockKind::Runqueue(self.cpu()?), LockKind::Dsq(self.dsq()?), LockKind::Bpf(self.number()?)];
                EventKind::LockWait { lock: lock[usize::from(self.below(3)?)], waited: self.time()? }
            }
            15 => EventKind::Hotplug { online: self.below(2)? == 1 },
            16 => EventKind::Disabled { kind: self.number()? as u32 },
            _ => EventKind::Tick,
        })
    }

    fn dsq(&mut self) -> Option<DsqId> {
        Some(match self.byte()? {
            0..=9 => DsqId::LOCAL,
            255 => DsqId(u64::MAX),
            other => DsqId(u64::from(other % 4)),
        })
    }
}
