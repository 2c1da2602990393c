// SPDX-License-Identifier: GPL-2.0-only
//! A run: what it was, how it ended, what was measured.

use ids::Nanos;
use measures::RunMeasures;
use serde::{Deserialize, Serialize};

/// Where it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// On a simulated machine.
    #[default]
    Sim,
    /// In a real kernel.
    Real,
}

impl World {
    /// As JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Real => "real",
        }
    }
}

/// What a run was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags {
    /// The scheduler as it was asked for: `bfs@0.360`, or the path of an object.
    pub scheduler: String,
    /// Hash of its object, in hexadecimal. The kernel's own has none.
    #[serde(default)]
    pub object_hash: Option<String>,
    /// The machine's name.
    pub machine: String,
    /// The workload's name.
    pub workload: String,
    /// Where it ran.
    #[serde(default)]
    pub world: World,
    /// The seed of what is drawn; 0 draws nothing. A real run has none.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Which draw of the machine's uncertain constants it had; 0 is the machine as its file has it. A real run has none.
    #[serde(default)]
    pub draw: Option<u64>,
    /// Which effects of hardware took part, where there is a choice: a real machine has all of them.
    #[serde(default)]
    pub effects: Option<Vec<String>>,
    /// Of these, those that were compared with no measurement yet, neither on a machine of ours nor a published one.
    #[serde(default)]
    pub unvalidated: Vec<String>,
    /// Kernel version, such as `7.2`.
    #[serde(default)]
    pub kernel: String,
    /// When operations of a simulated kernel decide: `instant`, when they begin, or `waiting`, when they have the lock. A
    /// real run has none.
    #[serde(default)]
    pub form: Option<String>,
    /// Of a composed workload only the part of this label.
    #[serde(skip)]
    pub part: Option<String>,
    /// Which programs of the scheduler were to be called while it ran, and when: `assign:group=db,cpus=3@1s`. Documents have
    /// what came of each instead.
    #[serde(skip)]
    pub calls: String,
}

/// Why the kernel put the scheduler out before the work was done (contract E2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 64 unregistered, 1024 runtime error, 1025 `scx_bpf_error`, 1026 stall, …; 0 if it was not put out.
    pub kind: u32,
    /// Exit code of the scheduler or of the kernel: bits 32 and up say what user space shall do, and why.
    #[serde(default)]
    pub code: i64,
    /// Short reason, in the kernel's wording.
    pub reason: String,
    /// Message, in the kernel's wording.
    pub message: String,
    /// The BPF fault behind it, with function, file and line, if one was.
    #[serde(default)]
    pub fault: Option<String>,
    /// The op in which it happened, if it happened in one; `timer` is the callback of a timer.
    #[serde(default)]
    pub op: Option<String>,
    /// The kfunc or helper that it called.
    #[serde(default)]
    pub kfunc: Option<String>,
    /// File of the policy's own source, without its directory.
    #[serde(default)]
    pub file: Option<String>,
    /// Line in it.
    #[serde(default)]
    pub line: Option<u32>,
    /// The kernel's debug dump; may be empty.
    #[serde(default)]
    pub dump: String,
}

impl Exit {
    /// Where in the scheduler's code it came from: `ops.enqueue, scx_bpf_dsq_insert, my.bpf.c:42`. Empty if that is not
    /// known.
    pub fn place(&self) -> String {
        let op = self.op.as_ref().map(|op| if op == "timer" { "a timer".to_owned() } else { format!("ops.{op}") });
        let line = self.file.as_ref().zip(self.line).map(|(file, line)| format!("{file}:{line}"));
        [op, self.kfunc.clone(), line].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All work was done, or the time was over.
    #[default]
    Completed,
    /// The kernel put the scheduler out.
    Ejected,
    /// Something happened that must not: the tasks that were left waited for each other for ever, or a check found that a
    /// promise was broken.
    Violation,
}

/// How a run ended, and what did not happen on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Set if the scheduler was ejected.
    pub ejected: Option<Exit>,
    /// The run ended because the tasks that were left waited for each other for ever.
    pub deadlocked: bool,
    /// Exit status of the command that ran, 128 and the signal's number if a signal ended it; `None` without a command
    /// or if it had not ended.
    pub command_status: Option<i32>,
    /// Forks that the scheduler refused: these tasks never existed.
    pub failed_forks: u64,
    /// Changes of affinity, policy or nice value that the kernel refused.
    pub refused_changes: u64,
    /// How often the scheduler was attached again because its exit asked for that (contract E2).
    pub restarts: u64,
    /// What came of the calls of its programs that were planned.
    pub calls: Vec<Called>,
    /// What was found that the scheduler promises or every run owes, and this one did not keep; `None` if nobody looked.
    pub violations: Option<Violations>,
}

/// A call of a program of the scheduler while that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// As it was asked for, with its time.
    pub call: String,
    /// When it was made, in nanoseconds of the run; `None` if the run was over before.
    pub made_ns: Option<u64>,
    /// What the program returned; 0 is fine.
    pub returned: Option<i32>,
}

impl Called {
    /// What all of them are called together ([`Tags::calls`]).
    pub fn names(all: &[Called]) -> String {
        all.iter().map(|one| one.call.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Whether the program was called and said that something was wrong.
    pub fn failed(&self) -> bool {
        self.returned.is_some_and(|returned| returned != 0)
    }
}

/// What a check of a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// How many there were.
    pub count: u64,
    /// The first ones of each property, in the order in which they ended.
    pub first: Vec<Violation>,
    /// Properties that nothing in the run could have shown to be broken.
    pub not_seen: Vec<String>,
    /// Tasks that were moved to a runqueue as long as theirs or longer, which breaks no promise; `None` if nobody counted.
    pub useless_migrations: Option<u64>,
}

/// A time in which a property did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which property, as the profile's promises name it.
    pub property: String,
    /// From when on, in nanoseconds of the run.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// Numbers of the tasks that it concerns.
    pub tasks: Vec<u32>,
    /// Their names.
    #[serde(default)]
    pub names: Vec<String>,
    /// Numbers of the CPUs that it concerns.
    pub cpus: Vec<u32>,
    /// How much it was: nanoseconds, or a key.
    pub value: u64,
    /// How much it may be.
    pub limit: u64,
}

impl Ending {
    /// What the run came to.
    pub fn outcome(&self) -> Outcome {
        match self {
            Ending { ejected: Some(_), .. } => Outcome::Ejected,
            Ending { deadlocked: true, .. } => Outcome::Violation,
            Ending { violations: Some(Violations { count: 1.., .. }), .. } => Outcome::Violation,
            _ => Outcome::Completed,
        }
    }
}

/// How a run in a real kernel was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Events received.
    pub events: u64,
    /// Events lost: with any of them, counts are too low and times may be charged to the wrong owner.
    pub lost_events: u64,
    /// Where they were lost, and how many there.
    #[serde(default)]
    pub lost_where: Vec<String>,
    /// Switches to tasks that the kernel did not report: inferred from their CPU time, and counted.
    pub unseen_switches: u64,
    /// Wakeups that it did not report: counted, but not among the latencies, as nobody knows when they were.
    pub unseen_wakeups: u64,
    /// Time in the meter's own programs in the kernel. It is contained in what it measured.
    #[serde(rename = "probes_ns", with = "nanoseconds")]
    pub probes: Nanos,
    /// How often they ran.
    pub probe_runs: u64,
    /// CPU time of the thread that received the events, beside the run.
    #[serde(rename = "reader_ns", with = "nanoseconds")]
    pub reader: Nanos,
    /// How long the two above were counted: the run, and a moment before and after it.
    #[serde(rename = "listened_ns", with = "nanoseconds")]
    pub listened: Nanos,
    /// Tasks that had not ended when the run was over.
    pub unfinished_tasks: u32,
    /// What failed of what was run: `the command failed: exit status: 2`.
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

/// Everything a report says of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// What it was.
    pub tags: Tags,
    /// How it ended.
    pub ending: Ending,
    /// Hash of all events.
    pub log_hash: u128,
    /// How it was measured, if it ran in a real kernel; `None` for a simulated run.
    pub meter: Option<Meter>,
    /// What was measured.
    pub measures: RunMeasures,
}

impl RunReport {
    /// Whether nothing was wrong: with the scheduler, with what ran under it, and with measuring.
    pub fn is_fine(&self) -> bool {
        let measured = |meter: &Meter| meter.failure.is_none() && meter.lost_events == 0;
        let called = !self.ending.calls.iter().any(Called::failed);
        called && self.ending.outcome() == Outcome::Completed && self.meter.as_ref().is_none_or(measured)
    }
}
