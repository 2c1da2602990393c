// SPDX-License-Identifier: GPL-2.0-only
//! Values of a run's JSON that the comparison needs.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// A run, real or predicted. Times in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// From the start of the command to the end of its last task.
    pub makespan_ns: u64,
    /// Number of times that a CPU switched to a task of the run.
    pub context_switches: u64,
    /// Number of wakeups of its tasks.
    pub wakeups: u64,
    /// Mean, median and 99th percentile of the time from becoming runnable to running.
    pub latency_ns: [u64; 3],
    /// CPU times of its tasks by name, in ascending order.
    pub cpu_ns: BTreeMap<String, Vec<u64>>,
    /// Time of switches, wakeups and ticks, which a kernel accounts to tasks; 0 in a real run.
    pub scheduler_ns: u64,
}

/// A real run without measurement except the clock. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// From the start of the command to its end.
    pub makespan_ns: u64,
    /// CPU time of the command and its waited-for children.
    pub cpu_ns: u64,
}

impl Run {
    /// Parses the document of `weir sim` or `weir run`.
    pub fn from_json(text: &[u8]) -> Result<Run> {
        let document: Value = serde_json::from_slice(text)?;
        let run = &document["runs"][0];
        let number = |value: &Value, key: &str| value[key].as_u64().with_context(|| format!("no number {key}"));
        let latency = &run["wakeup_latency_ns"];
        let mut cpu_ns = BTreeMap::<String, Vec<u64>>::new();
        for task in run["tasks"].as_array().context("no tasks")? {
            let name = task["name"].as_str().context("a task without a name")?;
            // Kernel threads of the model are not part of the command.
            if !name.starts_with("kworker") {
                cpu_ns.entry(name.to_owned()).or_default().push(number(task, "cpu_ns")?);
            }
        }
        cpu_ns.values_mut().for_each(|times| times.sort_unstable());
        Ok(Run {
            makespan_ns: number(run, "makespan_ns")?,
            context_switches: number(run, "context_switches")?,
            wakeups: number(run, "wakeups")?,
            latency_ns: [number(latency, "mean")?, number(latency, "p50")?, number(latency, "p99")?],
            cpu_ns,
            scheduler_ns: run["cpu_ns"]["scheduler"].as_u64().unwrap_or(0),
        })
    }

    /// Returns the CPU time as a kernel accounts it: of all tasks, including scheduler time.
    pub fn counted_ns(&self) -> u64 {
        self.cpu_total_ns() + self.scheduler_ns
    }

    /// Returns the CPU time of all tasks.
    pub fn cpu_total_ns(&self) -> u64 {
        self.cpu_ns.values().flatten().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_parsed_and_missing_values_are_named() {
        let text = |makespan: &str| {
            format!(
                r#"{{"runs": [{{"makespan_ns": {makespan}, "context_switches": 5, "wakeups": 3,
                "cpu_ns": {{"run": 10, "scheduler": 4}},
                "wakeup_latency_ns": {{"mean": 10, "p50": 8, "p99": 90}},
                "tasks": [{{"name": "cc1", "cpu_ns": 7}}, {{"name": "kworker/0:1", "cpu_ns": 1}},
                          {{"name": "cc1", "cpu_ns": 2}}]}}]}}"#
            )
        };
        let run = Run::from_json(text("100").as_bytes()).unwrap();
        assert_eq!((run.makespan_ns, run.latency_ns, run.cpu_total_ns()), (100, [10, 8, 90], 9));
        assert_eq!(run.counted_ns(), 13);
        assert_eq!(run.cpu_ns["cc1"], [2, 7]);
        // An endless or deadlocked run has no makespan.
        assert_eq!(Run::from_json(text("null").as_bytes()).unwrap_err().to_string(), "no number makespan_ns");
    }
}
