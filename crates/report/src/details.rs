// SPDX-License-Identifier: GPL-2.0-only
//! Contents of a run's JSON other than its measures: tasks, locks, CPUs, distributions. They are read back from the
//! JSON, so that other views show the same numbers.

use crate::ReadError;
use crate::record::{document, refuse};
use serde::Deserialize;
use serde_json::Value;

/// Details of one run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Details {
    /// Hash of all events, in hexadecimal.
    pub log_hash: String,
    /// Each task, by number.
    #[serde(default)]
    pub tasks: Vec<Task>,
    /// Use of each lock by each caller, the longest waits first; `None` if unknown.
    #[serde(default)]
    pub locks: Option<Vec<Lock>>,
    /// Each CPU, by number. Empty in documents of earlier versions, as are the distributions.
    #[serde(default)]
    pub cpus: Vec<Cpu>,
    /// Histograms of waiting times.
    #[serde(default)]
    pub distributions: Option<Distributions>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct Task {
    pub id: u32,
    #[serde(default)]
    pub pid: u32,
    pub name: String,
    #[serde(default)]
    pub kernel_thread: bool,
    pub work_ns: u64,
    pub cpu_ns: u64,
    pub stolen_ns: u64,
    pub runnable_ns: u64,
    pub blocked_ns: u64,
    pub cpus_allowed: String,
    pub cpus_used: String,
    pub wakeup_latency_ns: Latency,
}

/// Percentiles of waiting times; `None` without any wait.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub count: u64,
    pub mean: Option<u64>,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
    pub max: Option<u64>,
}

/// Use of one lock by one caller.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct Lock {
    #[serde(rename = "type")]
    pub kind: String,
    pub lock: String,
    pub caller: String,
    pub count: u64,
    pub contended: u64,
    pub wait_total_ns: u64,
    pub wait_max_ns: u64,
    pub hold_total_ns: Option<u64>,
    pub hold_max_ns: Option<u64>,
}

/// Time account of a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct Cpu {
    pub run_ns: u64,
    pub idle_ns: u64,
    pub scheduler_ns: u64,
    pub stolen_ns: u64,
    pub offline_ns: u64,
}

/// Histograms of the times for which tasks waited for a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Distributions {
    /// Time from wakeup until running.
    pub wakeup_latency_ns: Buckets,
    /// Time from runnable until running.
    pub run_delay_ns: Buckets,
}

/// The nonempty buckets of a histogram, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Buckets {
    /// Smallest value of each bucket, in nanoseconds.
    pub from: Vec<u64>,
    /// Largest value of each bucket.
    pub to: Vec<u64>,
    /// Number of values in each bucket.
    pub count: Vec<u64>,
}

/// Reads the output of [`crate::to_json`], one item per run.
///
/// # Errors
/// If it is not JSON, or not of this format.
pub fn read_details(bytes: &[u8]) -> Result<Vec<Details>, ReadError> {
    let runs = document(bytes)?;
    let read = |(index, run): (usize, Value)| {
        let place = format!("runs[{index}]");
        let details = Details::deserialize(run).or_else(|error| refuse(&place, error.to_string()))?;
        let even =
            |buckets: &Buckets| buckets.from.len() == buckets.count.len() && buckets.to.len() == buckets.count.len();
        match &details.distributions {
            Some(all) if !even(&all.wakeup_latency_ns) || !even(&all.run_delay_ns) => {
                refuse(&format!("{place}.distributions"), "expected lists of the same length")
            }
            _ => Ok(details),
        }
    };
    runs.into_iter().enumerate().map(read).collect()
}
