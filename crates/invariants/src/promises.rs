// SPDX-License-Identifier: GPL-2.0-only
//! What a scheduler can promise, and where it has to keep that.

use crate::Property;
use ids::Nanos;

/// How a scheduler treats CPUs that idle beside tasks that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkConserving {
    /// As it likes.
    #[default]
    No,
    /// It helps within ten seconds, which is what Lozi et al. (EuroSys 2016) ask of CFS.
    Eventually,
    /// No CPU idles while a task waits that may run there.
    Yes,
}

/// CPU time follows weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedShare {
    /// So many percent of one CPU's time a task may be off its share of a window.
    pub percent: u32,
    /// Among tasks that share so many CPUs at most. Who has a queue for each CPU promises it for one.
    pub cpus: u32,
    /// Only among tasks that may use all CPUs: who pays out a machine's time does not know what is due on one of its CPUs.
    pub whole: bool,
    /// How long a task keeps a CPU while others wait: a window has twenty rounds of such turns.
    pub turn: Nanos,
    /// Windows begin so long after tasks came, went or got other weights: who looks at the past needs time to converge.
    pub settles: Nanos,
    /// Whose weights.
    pub by: Weights,
}

impl WeightedShare {
    /// Of tasks by nice value, at once, in turns of 3 ms.
    #[must_use]
    pub fn new(percent: u32, cpus: u32) -> WeightedShare {
        let (turn, settles, by) = (Nanos::from_ms(3), Nanos::ZERO, Weights::Nice);
        WeightedShare { percent, cpus, whole: false, turn, settles, by }
    }
}

/// What decides how much CPU time is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// The nice value of a task, as Linux weighs it.
    #[default]
    Nice,
    /// The same as sched_ext tells it: 100 for nice 0, whole numbers, 1 at least.
    Scx,
    /// The nice value of a task in shares of EBS (Williams 2004): 20 - nice, below zero 20 + nice².
    Shares,
    /// The weight of a group; tasks of none are one of weight 100 together. Who gets what within it is open.
    Groups,
}

/// What a job is whose tasks run together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GangsBy {
    /// A group.
    #[default]
    Groups,
    /// A process that the workload names.
    Processes,
}

/// What a scheduler promises of every run. Beside that each run owes what no profile names: see [`crate::Property`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Whether CPUs may idle beside waiting tasks.
    pub work_conserving: WorkConserving,
    /// No task waits for longer.
    pub starvation: Option<Nanos>,
    /// CPU time follows weights.
    pub weighted_share: Option<WeightedShare>,
    /// Queues give the smallest key that may run.
    pub key_order: bool,
    /// A task that wakes with an earlier key than a running one waits no longer for its CPU.
    pub preemption: Option<Nanos>,
    /// Nobody keeps a CPU for longer than its slice and so many ticks while others wait for it.
    pub stint_ticks: Option<u32>,
    /// All tasks of a job run for so many percent of the time for which that one of them runs that runs least.
    pub corun_percent: Option<u32>,
    /// A job needs so long to find its place after one of its tasks came or went; nothing for half a second.
    pub gang_settles: Option<Nanos>,
    /// What a job is.
    pub gang_by: GangsBy,
    /// No window of a task has more late requests than it may.
    pub windows: bool,
    /// Groups with a hard cap keep below it.
    pub caps: bool,
    /// By an average over the past in which what is so old counts half. Without it, in each second.
    pub caps_half_life: Option<Nanos>,
}

impl Promises {
    /// What is promised.
    pub fn properties(&self) -> Vec<Property> {
        let all = [
            (Property::WorkConserving, self.work_conserving != WorkConserving::No),
            (Property::StarvationMs, self.starvation.is_some()),
            (Property::WeightedSharePercent, self.weighted_share.is_some()),
            (Property::KeyOrder, self.key_order),
            (Property::PreemptionUs, self.preemption.is_some()),
            (Property::StintTicks, self.stint_ticks.is_some()),
            (Property::GangCorunPercent, self.corun_percent.is_some()),
            (Property::Windows, self.windows),
            (Property::Caps, self.caps),
        ];
        all.into_iter().filter(|(_, promised)| *promised).map(|(property, _)| property).collect()
    }
}

/// What a run can show, and what its machine needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Whether the events tell of queues. The kernel's own scheduler has none that anyone sees, nor has a real kernel.
    pub has_queues: bool,
    /// Whether all tasks are seen. In a real kernel others use the CPUs as well, and take their shares of them.
    pub all_tasks: bool,
    /// So long a CPU may idle beside a waiting task: it takes time to wake up and to look for work.
    pub tolerance: Nanos,
    /// The time between two ticks: so long a task may stay where it is no longer allowed.
    pub tick: Nanos,
}
