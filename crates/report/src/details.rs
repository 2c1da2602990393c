// SPDX-License-Identifier: GPL-2.0-only
//! What the JSON of a run has beside its measures: tasks, locks, CPUs, distributions. It is read from where it was
//! written, so whoever shows it shows the JSON's numbers.

use crate::ReadError;
use crate::record::{document, refuse};
use serde::Deserialize;
use serde_json::Value;

/// Of one run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Details {
    /// Hash of all events, in hexadecimal.
    pub log_hash: String,
    /// Each task, by number.
    #[serde(default)]
    pub tasks: Vec<Task>,
    /// Who used which lock, the longest waits first; `None` if nobody knows.
    #[serde(default)]
    pub locks: Option<Vec<Lock>>,
    /// Each CPU, by number. Documents of earlier versions have none, as they have no distributions.
    #[serde(default)]
    pub cpus: Vec<Cpu>,
    /// How waits were distributed.
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

/// Waits; without any, times are `None`.
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

/// How one caller used one lock.
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

/// Who owned the time of a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct Cpu {
    pub run_ns: u64,
    pub idle_ns: u64,
    pub scheduler_ns: u64,
    pub stolen_ns: u64,
    pub offline_ns: u64,
}

/// How waits for a CPU were distributed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Distributions {
    /// From woken to running.
    pub wakeup_latency_ns: Buckets,
    /// From runnable to running.
    pub run_delay_ns: Buckets,
}

/// The buckets of a histogram that hold values, from the smallest on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Buckets {
    /// The smallest value of each, in nanoseconds.
    pub from: Vec<u64>,
    /// The largest.
    pub to: Vec<u64>,
    /// How many values are in each.
    pub count: Vec<u64>,
}

/// Reads what [`crate::to_json`] wrote, one for each run.
///
/// # Errors
/// If it is no JSON, or not such JSON.
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
