// SPDX-License-Identifier: GPL-2.0-only
//! The promises that a scheduler's profile can declare, and the conditions under which they are checked.

use crate::Property;
use ids::Nanos;

/// How a scheduler treats CPUs that idle while tasks wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkConserving {
    /// CPUs may idle while tasks wait.
    #[default]
    No,
    /// An idle CPU takes a waiting task within ten seconds, as Lozi et al. (EuroSys 2016) require of CFS.
    Eventually,
    /// No CPU idles while a task waits that may run on it.
    Yes,
}

/// The promise that tasks receive CPU time in proportion to their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedShare {
    /// Largest deviation of a task's CPU time from its ideal share of a window, in percent of one CPU.
    pub percent: u32,
    /// Largest number of shared CPUs for which the promise holds; 1 for a scheduler with per-CPU queues.
    pub cpus: u32,
    /// Whether the promise covers only tasks that may use all CPUs. A scheduler that distributes the time of the
    /// whole machine does not know the share of a single CPU.
    pub whole: bool,
    /// Longest time for which a task keeps a CPU while others wait. A window lasts at least twenty rounds of such
    /// slices.
    pub turn: Nanos,
    /// Time that the scheduler needs to converge after tasks came, went or changed weight. Windows begin only after
    /// it.
    pub settles: Nanos,
    /// Source of the weights.
    pub by: Weights,
}

impl WeightedShare {
    /// A promise for tasks weighted by nice value, without settling time and with slices of 3 ms.
    #[must_use]
    pub fn new(percent: u32, cpus: u32) -> WeightedShare {
        let (turn, settles, by) = (Nanos::from_ms(3), Nanos::ZERO, Weights::Nice);
        WeightedShare { percent, cpus, whole: false, turn, settles, by }
    }
}

/// Source of the weights that determine the shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// The nice value of a task, with the weights of Linux.
    #[default]
    Nice,
    /// The nice value in sched_ext's scale: an integer of at least 1, 100 for nice 0.
    Scx,
    /// The nice value in the shares of EBS (Williams 2004): 20 - nice, or 20 + nice² if nice is negative.
    Shares,
    /// The weight of the task's group. Tasks without a group together count as a group of weight 100. The division
    /// within a group is not checked.
    Groups,
}

/// What forms a job, whose tasks run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GangsBy {
    /// A group of the workload.
    #[default]
    Groups,
    /// A process that the workload names.
    Processes,
}

/// The promises of a scheduler. The built-in invariants apply to every run in addition; see [`crate::Property`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Whether CPUs may idle while tasks wait.
    pub work_conserving: WorkConserving,
    /// Longest wait of any task.
    pub starvation: Option<Nanos>,
    /// Proportional shares of CPU time.
    pub weighted_share: Option<WeightedShare>,
    /// Whether queues return the smallest key among the tasks that may run on the CPU.
    pub key_order: bool,
    /// Longest wait of a woken task whose key is earlier than that of a running task.
    pub preemption: Option<Nanos>,
    /// Number of ticks for which a task may keep a contested CPU after its slice ended.
    pub stint_ticks: Option<u32>,
    /// Percentage of the CPU time of a job's least-run task for which all its tasks must run at the same time.
    pub corun_percent: Option<u32>,
    /// Settling time of a job after one of its tasks joined or left; `None` means 500 ms.
    pub gang_settles: Option<Nanos>,
    /// What forms a job.
    pub gang_by: GangsBy,
    /// Whether no window of a task has more late requests than it allows.
    pub windows: bool,
    /// Whether groups with a hard cap stay below it.
    pub caps: bool,
    /// Half-life of the average by which cap usage is measured. `None` measures windows of one second.
    pub caps_half_life: Option<Nanos>,
}

impl Promises {
    /// Properties that are promised.
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

/// What the events of a run can show, and tolerances of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Whether the events show queues. The default scheduler has no visible queues, and neither has a real kernel.
    pub has_queues: bool,
    /// Whether the events show all tasks. In a real kernel, other tasks use CPUs and receive shares, too.
    pub all_tasks: bool,
    /// Time for which a CPU may idle while a task waits: a wakeup and the search for work take time.
    pub tolerance: Nanos,
    /// Time between two ticks, for which a task may stay on a CPU that its mask no longer allows.
    pub tick: Nanos,
}
