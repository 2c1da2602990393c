// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trace of the stages' work, for Perfetto and for tests.

use serde_json::json;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A pipeline stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reads input.
    Read,
    /// Samples positions of a piece.
    Scan,
    /// Looks samples up in the table of earlier ones.
    Look,
    /// Verifies candidates against the input and chooses matches.
    Match,
    /// Writes matches and literals into the two streams.
    Weave,
    /// Computes checksums.
    Hash,
    /// Compresses a block with a back end.
    Pack,
    /// Decompresses a block with a back end.
    Unpack,
    /// Turns tokens back into bytes.
    Replay,
    /// Writes output.
    Write,
    /// Compares unpacked bytes with the original input.
    Compare,
    /// Waits for another chunk, because overlap is off.
    Barrier,
}

impl Stage {
    /// Name of the stage.
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

/// One work item of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Stage of the work.
    pub stage: Stage,
    /// Thread index within the stage.
    pub lane: usize,
    /// Chunk index.
    pub chunk: usize,
    /// Input length of the work item, in bytes.
    pub bytes: u64,
    /// Start in nanoseconds since the start of the trace.
    pub start_ns: u64,
    /// End in nanoseconds since the start of the trace.
    pub end_ns: u64,
    /// CPU time that the thread used in the span, in nanoseconds.
    pub cpu_ns: u64,
}

/// Collects spans, or does nothing.
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    spans: Option<Mutex<Vec<Span>>>,
}

impl Trace {
    /// Creates a trace that collects spans.
    pub fn on() -> Trace {
        Trace { begin: Instant::now(), spans: Some(Mutex::default()) }
    }

    /// Creates a disabled trace.
    pub fn off() -> Trace {
        Trace { begin: Instant::now(), spans: None }
    }

    /// Runs `work` and records its span.
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

    /// All spans, ordered by start.
    pub fn spans(&self) -> Vec<Span> {
        let Some(spans) = &self.spans else { return Vec::new() };
        let mut spans = spans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        spans.sort_by_key(|span| (span.start_ns, span.stage, span.lane));
        spans
    }

    /// The trace as JSON for <https://ui.perfetto.dev>: one row per thread of each stage.
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

/// CPU time of the calling thread, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_separates_cpu_time_from_sleep() {
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
