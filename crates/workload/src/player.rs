// SPDX-License-Identifier: GPL-2.0-only
//! Plays scripts: says what each task wants next and whom it wakes.

use crate::{TaskSpec, Workload};
use ids::{CpuSet, Nanos, Policy, TaskId};

/// What a task wants next.
#[derive(Clone, PartialEq, Debug)]
pub enum Demand {
    /// This much work, user and system together; `system` of it in the kernel.
    Work {
        /// All of it.
        work: Nanos,
        /// The part in the kernel.
        system: Nanos,
    },
    /// This much CPU time.
    CpuTime(Nanos),
    /// To sleep for this long from now on (a timer or a device wakes it).
    Sleep(Nanos, crate::Sleep),
    /// To sleep until another task wakes it.
    Wait,
    /// To yield once; ask again when it runs next.
    Yield,
    /// That a task of this spec is started as its child; ask again at once, with [`Player::started`] in between.
    Fork(u32),
    /// Another affinity, policy or nice value for itself; ask again at once.
    Change {
        /// New affinity.
        cpus: Option<CpuSet>,
        /// New policy and nice value.
        policy: Option<(Policy, i8)>,
    },
    /// To exit.
    Exit,
}

/// What [`Player::next`] answers.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What the task wants now.
    pub demand: Demand,
}

/// The state of a workload in one run: positions in scripts, owners and waiters of locks.
///
/// The driver calls [`Player::next`] for a task that *runs* and has got what it asked for. Tasks that this wakes are
/// appended to `woken` in order; the driver makes them runnable (waker = this task). A woken task is asked again only
/// when it runs.
#[derive(Debug)]
pub struct Player<'w> {
    workload: &'w Workload,
}

impl<'w> Player<'w> {
    /// At the start.
    pub fn new(workload: &'w Workload) -> Player<'w> {
        Player { workload }
    }

    /// The spec with this index.
    pub fn spec(&self, index: u32) -> &'w TaskSpec {
        &self.workload.tasks[index as usize]
    }

    /// Announces that `task` now plays spec `index`. Task numbers are dense or nearly so.
    pub fn started(&mut self, task: TaskId, index: u32, now: Nanos) {
        todo!("{task} {index} {now}")
    }

    /// What `task` wants next.
    pub fn next(&mut self, task: TaskId, now: Nanos, woken: &mut Vec<TaskId>) -> Outcome {
        todo!("{task} {now} {woken:?}")
    }
}
