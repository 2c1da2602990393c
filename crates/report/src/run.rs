// SPDX-License-Identifier: GPL-2.0-only
//! A run: its inputs, how it ended, and its measures.

use ids::Nanos;
use measures::RunMeasures;
use serde::{Deserialize, Serialize};

/// Where a run took place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// On a simulated machine.
    #[default]
    Sim,
    /// Run in a real kernel.
    Real,
}

impl World {
    /// Name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Real => "real",
        }
    }
}

/// Inputs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags {
    /// The scheduler as requested: `bfs@0.360`, or the path of an object.
    pub scheduler: String,
    /// Hash of its object, in hexadecimal. `None` for the default scheduler.
    #[serde(default)]
    pub object_hash: Option<String>,
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Where the run took place.
    #[serde(default)]
    pub world: World,
    /// Seed of the random variation; 0: no variation. `None` for a real run.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Number of the sample of the machine's uncertain constants; 0: the nominal values of its file. `None` for a
    /// real run.
    #[serde(default)]
    pub draw: Option<u64>,
    /// Modelled hardware effects; `None` for a real run, as a real machine has all of them.
    #[serde(default)]
    pub effects: Option<Vec<String>>,
    /// Modelled effects that were not yet compared with any measurement, neither own nor published.
    #[serde(default)]
    pub unvalidated: Vec<String>,
    /// Modelled effects whose constants are typical of a class of machines, because the description has only a
    /// topology.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// What the description of the machine says that could not be used: one sentence each.
    #[serde(default)]
    pub machine_caveats: Vec<String>,
    /// Checks that recordings in the workload did not pass: one sentence each.
    #[serde(default)]
    pub workload_caveats: Vec<String>,
    /// Largest exit latency of idle states that was permitted during the run, in microseconds: 0 beside `latency`, like
    /// cyclictest. `None`: any.
    #[serde(default)]
    pub cpu_dma_latency_us: Option<u64>,
    /// Kernel version, such as `7.2`.
    #[serde(default)]
    pub kernel: String,
    /// When operations of the simulated kernel make their decisions: `instant`, when they begin, or `waiting`, when
    /// they hold the lock. `None` for a real run.
    #[serde(default)]
    pub form: Option<String>,
    /// Label, if this is only one part of a composed workload.
    #[serde(skip)]
    pub part: Option<String>,
    /// Planned calls of the scheduler's programs, with times: `assign:group=db,cpus=3@1s`. Documents contain the
    /// result of each call instead.
    #[serde(skip)]
    pub calls: String,
}

/// Reason why the kernel ejected the scheduler before the work was done (contract E2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 64 unregistered, 1024 runtime error, 1025 `scx_bpf_error`, 1026 stall, …; 0 if it was not ejected.
    pub kind: u32,
    /// Exit code of the scheduler or of the kernel: bits 32 and up encode the requested action of user space, and the
    /// reason.
    #[serde(default)]
    pub code: i64,
    /// Short reason, in the kernel's wording.
    pub reason: String,
    /// Message, in the kernel's wording.
    pub message: String,
    /// The BPF fault that caused it, with function, file and line, if there was one.
    #[serde(default)]
    pub fault: Option<String>,
    /// The op in which it happened, if any; `timer` is the callback of a timer.
    #[serde(default)]
    pub op: Option<String>,
    /// The kfunc or helper that was called.
    #[serde(default)]
    pub kfunc: Option<String>,
    /// Source file of the policy, without its directory.
    #[serde(default)]
    pub file: Option<String>,
    /// Line in that file.
    #[serde(default)]
    pub line: Option<u32>,
    /// The kernel's debug dump; may be empty.
    #[serde(default)]
    pub dump: String,
}

impl Exit {
    /// Place in the scheduler's code: `ops.enqueue, scx_bpf_dsq_insert, my.bpf.c:42`. Empty if unknown.
    pub fn place(&self) -> String {
        let op = self.op.as_ref().map(|op| if op == "timer" { "a timer".to_owned() } else { format!("ops.{op}") });
        let line = self.file.as_ref().zip(self.line).map(|(file, line)| format!("{file}:{line}"));
        [op, self.kfunc.clone(), line].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All work was done, or the duration was reached.
    #[default]
    Completed,
    /// The kernel ejected the scheduler.
    Ejected,
    /// An invariant was violated: the remaining tasks waited for each other forever, or a check found a broken
    /// promise.
    Violation,
}

/// How a run ended, and which operations failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Set if the scheduler was ejected.
    pub ejected: Option<Exit>,
    /// The run ended because the remaining tasks waited for each other forever.
    pub deadlocked: bool,
    /// Exit status of the command that ran, or 128 plus the number of the signal that ended it; `None` without a
    /// command or if it had not ended.
    pub command_status: Option<i32>,
    /// Number of forks that the scheduler refused: these tasks never existed.
    pub failed_forks: u64,
    /// Number of changes of affinity, policy or nice value that the kernel refused.
    pub refused_changes: u64,
    /// Number of times that the scheduler was attached again because its exit requested it (contract E2).
    pub restarts: u64,
    /// Results of the planned calls of its programs.
    pub calls: Vec<Called>,
    /// Violations of the scheduler's promises or of general invariants; `None` if not checked.
    pub violations: Option<Violations>,
}

/// A planned call of a program of the running scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// The call as requested, with its time.
    pub call: String,
    /// Time of the call, in nanoseconds of the run; `None` if the run ended before.
    pub made_ns: Option<u64>,
    /// Return value of the program; 0 is success.
    pub returned: Option<i32>,
}

impl Called {
    /// Joins the calls to one string ([`Tags::calls`]).
    pub fn names(all: &[Called]) -> String {
        all.iter().map(|one| one.call.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Whether the program was called and returned an error.
    pub fn failed(&self) -> bool {
        self.returned.is_some_and(|returned| returned != 0)
    }
}

/// Result of checking a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// Number of violations.
    pub count: u64,
    /// The first violations of each property, ordered by their ends.
    pub first: Vec<Violation>,
    /// Properties that the run gave no opportunity to violate.
    pub not_seen: Vec<String>,
    /// Number of migrations to a run queue that was at least as long, which violates no promise; `None` if not
    /// counted.
    pub useless_migrations: Option<u64>,
}

/// A time interval in which a property did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The property, as named in the profile's promises.
    pub property: String,
    /// Begin, in nanoseconds of the run.
    pub from_ns: u64,
    /// End, in nanoseconds of the run.
    pub to_ns: u64,
    /// Numbers of the tasks concerned.
    pub tasks: Vec<u32>,
    /// Names of these tasks.
    #[serde(default)]
    pub names: Vec<String>,
    /// Numbers of the CPUs concerned.
    pub cpus: Vec<u32>,
    /// Observed value: nanoseconds, or a key.
    pub value: u64,
    /// Permitted value.
    pub limit: u64,
}

impl Ending {
    /// Outcome of the run.
    pub fn outcome(&self) -> Outcome {
        match self {
            Ending { ejected: Some(_), .. } => Outcome::Ejected,
            Ending { deadlocked: true, .. } => Outcome::Violation,
            Ending { violations: Some(Violations { count: 1.., .. }), .. } => Outcome::Violation,
            _ => Outcome::Completed,
        }
    }
}

/// Measurement data of a run in a real kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Number of events received.
    pub events: u64,
    /// Number of events lost: if there are any, counts are too low and times may be accounted to the wrong category.
    pub lost_events: u64,
    /// Where events were lost, and how many there.
    #[serde(default)]
    pub lost_where: Vec<String>,
    /// Switches that the kernel did not report: inferred from the tasks' CPU time, and counted.
    pub unseen_switches: u64,
    /// Wakeups that the kernel did not report: counted, but missing from the latencies, as their times are unknown.
    pub unseen_wakeups: u64,
    /// Time in the meter's own programs in the kernel. Included in the measured values.
    #[serde(rename = "probes_ns", with = "nanoseconds")]
    pub probes: Nanos,
    /// Number of executions of these programs.
    pub probe_runs: u64,
    /// CPU time of the thread that received the events during the run.
    #[serde(rename = "reader_ns", with = "nanoseconds")]
    pub reader: Nanos,
    /// Duration for which the two above were measured: the run, and a moment before and after it.
    #[serde(rename = "listened_ns", with = "nanoseconds")]
    pub listened: Nanos,
    /// CPU time of tasks outside the run, the receiving thread excluded.
    #[serde(rename = "foreign_ns", with = "nanoseconds", default)]
    pub foreign: Nanos,
    /// Number of tasks that had not ended when the run was over.
    pub unfinished_tasks: u32,
    /// Failure of what was run: `the command failed: exit status: 2`.
    pub failure: Option<String>,
}

mod nanoseconds {
    use ids::Nanos;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(time.0)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Nanos, D::Error> {
        u64::deserialize(from).map(Nanos)
    }
}

/// All data of a report on one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Inputs of the run.
    pub tags: Tags,
    /// How the run ended.
    pub ending: Ending,
    /// Hash of all events.
    pub log_hash: u128,
    /// Measurement data of a run in a real kernel; `None` for a simulated run.
    pub meter: Option<Meter>,
    /// Measures.
    pub measures: RunMeasures,
}

impl RunReport {
    /// Whether there was no problem: with the scheduler, with the workload, and with the measurement.
    pub fn is_fine(&self) -> bool {
        let measured = |meter: &Meter| meter.failure.is_none() && meter.lost_events == 0;
        let called = !self.ending.calls.iter().any(Called::failed);
        called && self.ending.outcome() == Outcome::Completed && self.meter.as_ref().is_none_or(measured)
    }
}
