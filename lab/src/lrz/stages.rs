// SPDX-License-Identifier: GPL-2.0-only
//! Evaluates the trace of a run of lrz: CPU time of the search, and whether all cores always had work.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of threads given to the programs, and of cores they should keep busy.
pub const CORES: usize = 2;
/// The stages of the search.
const SEARCH: [&str; 4] = ["scan", "look", "match", "weave"];

/// Measures of one run of lrz.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// CPU seconds of the search.
    pub search_s: f64,
    /// Share of the cores' time, from the start of the first block to the end of the last, in which threads had work;
    /// 0 to 1.
    pub with_work: f64,
}

/// Reads a trace of `lrz --trace`.
pub fn read(trace: &str) -> Result<Stages> {
    let trace: Value = serde_json::from_str(trace).context("reading the trace")?;
    let spans = trace["traceEvents"].as_array().context("a trace without events")?;
    let spans = || spans.iter().filter(|span| span["ph"] == "X" && span["cat"] != "barrier");
    let number = |value: &Value| value.as_f64().context("a span without a number");
    let mut search_us = 0.0;
    let (mut first, mut last) = (f64::INFINITY, 0.0f64);
    let mut edges = Vec::new();
    for span in spans() {
        let (start, end) = (number(&span["ts"])?, number(&span["ts"])? + number(&span["dur"])?);
        if SEARCH.iter().any(|stage| span["cat"] == **stage) {
            search_us += number(&span["args"]["cpu_us"])?;
        }
        if span["cat"] == "pack" {
            (first, last) = (first.min(start), last.max(end));
        }
        edges.extend([(start, 1), (end, -1)]);
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut working, mut since, mut sum) = (0i64, first, 0.0);
    for (at, change) in edges {
        let at = at.clamp(first, last);
        sum += (at - since) * working.min(CORES as i64) as f64;
        since = at;
        working += change;
    }
    Ok(Stages { search_s: search_us / 1e6, with_work: sum / (CORES as f64 * (last - first)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn span(stage: &str, start: f64, end: f64, cpu: f64) -> Value {
        json!({"ph": "X", "cat": stage, "ts": start * 1e6, "dur": (end - start) * 1e6, "args": {"cpu_us": cpu * 1e6}})
    }

    #[test]
    fn fraction_of_core_time_with_work_and_total_search_time_are_computed() {
        let events = vec![
            json!({"ph": "M", "name": "thread_name"}),
            // Time before the first block and after the last one does not count.
            span("scan", 0.0, 2.0, 1.5),
            span("pack", 1.0, 5.0, 4.0),
            span("look", 1.0, 2.0, 0.25),
            span("pack", 3.0, 4.0, 1.0),
            span("weave", 3.0, 4.0, 0.25),
            span("barrier", 4.0, 5.0, 0.0),
            span("write", 5.0, 6.0, 1.0),
        ];
        let stages = read(&json!({"traceEvents": events}).to_string()).expect("a trace");
        // Of seconds 1 to 5, seconds 1 and 3 have work for two cores, seconds 2 and 4 for one.
        assert_eq!(stages, Stages { search_s: 2.0, with_work: 0.75 });
        assert!(read("{}").is_err());
    }
}
