// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who did what and when: the graph of stages, for Perfetto and for tests.

use serde_json::json;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A stage of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Bytes come in.
    Read,
    /// Samples of the bytes are taken.
    Scan,
    /// Samples are looked up among those before.
    Look,
    /// What was found is held against the bytes, and repeats are chosen.
    Match,
    /// Repeats and literals become the two streams.
    Weave,
    /// Checksums.
    Hash,
    /// A block is packed by a back end.
    Pack,
    /// A block is unpacked by a back end.
    Unpack,
    /// Tokens become bytes again.
    Replay,
    /// Bytes go out.
    Write,
    /// Bytes that came out of an archive are held against what was packed.
    Compare,
    /// A stage waits until another chunk is done, because overlap is off.
    Barrier,
}

impl Stage {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Read => "read",
            Stage::Scan => "scan",
            Stage::Look => "look",
            Stage::Match => "match",
            Stage::Weave => "weave",
            Stage::Hash => "hash",
            Stage::Pack => "pack",
            Stage::Unpack => "unpack",
            Stage::Replay => "replay",
            Stage::Write => "write",
            Stage::Compare => "compare",
            Stage::Barrier => "barrier",
        }
    }
}

/// One piece of work of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// What kind of work.
    pub stage: Stage,
    /// Which of the stage's threads.
    pub lane: usize,
    /// Which chunk it was for.
    pub chunk: usize,
    /// Bytes that went in.
    pub bytes: u64,
    /// When it began, in nanoseconds since the trace did.
    pub start_ns: u64,
    /// When it ended, likewise.
    pub end_ns: u64,
    /// What the thread took of a processor in between, in nanoseconds.
    pub cpu_ns: u64,
}

/// Collects spans, or does nothing.
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    spans: Option<Mutex<Vec<Span>>>,
}

impl Trace {
    /// One that collects.
    pub fn on() -> Trace {
        Trace { begin: Instant::now(), spans: Some(Mutex::default()) }
    }

    /// One that does nothing.
    pub fn off() -> Trace {
        Trace { begin: Instant::now(), spans: None }
    }

    /// Does some work and notes when.
    pub fn span<T>(&self, stage: Stage, lane: usize, chunk: usize, bytes: u64, work: impl FnOnce() -> T) -> T {
        let Some(spans) = &self.spans else { return work() };
        let now = || u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (start_ns, before_ns) = (now(), thread_cpu_ns());
        let result = work();
        let cpu_ns = thread_cpu_ns().saturating_sub(before_ns);
        let span = Span { stage, lane, chunk, bytes, start_ns, end_ns: now(), cpu_ns };
        spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
        result
    }

    /// All spans, by when they began.
    pub fn spans(&self) -> Vec<Span> {
        let Some(spans) = &self.spans else { return Vec::new() };
        let mut spans = spans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        spans.sort_by_key(|span| (span.start_ns, span.stage, span.lane));
        spans
    }

    /// The trace in the JSON that <https://ui.perfetto.dev> opens: a row for each thread of each stage.
    pub fn to_json(&self) -> String {
        let spans = self.spans();
        let mut rows: Vec<(Stage, usize)> = spans.iter().map(|span| (span.stage, span.lane)).collect();
        rows.sort_unstable();
        rows.dedup();
        let row = |key: (Stage, usize)| rows.binary_search(&key).unwrap_or(0) + 1;
        let names = rows.iter().map(|(stage, lane)| {
            json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": row((*stage, *lane)),
                   "args": {"name": format!("{} {lane}", stage.name())}})
        });
        let work = spans.iter().map(|span| {
            json!({"ph": "X", "name": format!("{} (chunk {})", span.stage.name(), span.chunk), "cat": span.stage.name(),
                   "pid": 1, "tid": row((span.stage, span.lane)), "ts": span.start_ns as f64 / 1000.0,
                   "dur": (span.end_ns - span.start_ns) as f64 / 1000.0,
                   "args": {"chunk": span.chunk, "bytes": span.bytes, "cpu_us": span.cpu_ns as f64 / 1000.0}})
        });
        json!({"traceEvents": names.chain(work).collect::<Vec<_>>(), "displayTimeUnit": "ms"}).to_string()
    }
}

/// What this thread has taken of a processor so far, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_tells_work_from_waiting() {
        let trace = Trace::on();
        let begin = Instant::now();
        trace.span(Stage::Pack, 0, 0, 1, || {
            let begin = thread_cpu_ns();
            while thread_cpu_ns() < begin + 20_000_000 {}
        });
        trace.span(Stage::Write, 0, 0, 1, || std::thread::sleep(std::time::Duration::from_millis(20)));
        let wall_ns = u64::try_from(begin.elapsed().as_nanos()).expect("a short test");
        let spans = trace.spans();
        let length = |span: &Span| span.end_ns - span.start_ns;
        assert!(spans.iter().map(length).sum::<u64>() <= wall_ns);
        assert!((20_000_000..=length(&spans[0])).contains(&spans[0].cpu_ns), "{:?}", spans[0]);
        assert!(spans[1].cpu_ns < 10_000_000 && length(&spans[1]) >= 20_000_000, "{:?}", spans[1]);
        assert!(Trace::off().spans().is_empty());
    }
}
