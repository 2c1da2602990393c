// SPDX-License-Identifier: GPL-2.0-only
//! A wait of a task for another one: for a lock, a pipe, a socket, a barrier, a child.
//!
//! 1. The awaited task is the holder of the lock, otherwise the task whose action ended the wait.
//! 2. Its activity during the wait: it ran, waited for a CPU, or slept.
//! 3. If it waited for a CPU while a task ran that is less important than the blocked one and more important than the
//!    awaited one, that is a priority inversion.

use crate::Timeline;
use crate::task::{Activity, WaitReason};
use crate::wait::{Account, Wait};
use event_log::Waker;
use ids::{Nanos, TaskId};

/// A period in which a task slept until another one acted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// The sleeping task.
    pub task: TaskId,
    /// Start of the sleep.
    pub from: Nanos,
    /// End of the sleep; the end of the run if nothing ended it.
    pub to: Nanos,
    /// Object of the wait, such as `mutex m`; `None` if unknown.
    pub object: Option<String>,
    /// Whether the object is a lock.
    pub lock: bool,
    /// Task that held the lock or ended the wait, if known.
    pub awaited: Option<TaskId>,
}

impl Blocked {
    /// Length of the sleep.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// What the awaited task did during a wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockedAccount {
    /// The wait.
    pub blocked: Blocked,
    /// Time for which the awaited task ran.
    pub ran: Nanos,
    /// Time for which it was runnable and had no CPU.
    pub waited: Nanos,
    /// Time for which it slept or did not exist.
    pub slept: Nanos,
    /// Its longest wait for a CPU meanwhile.
    pub longest: Option<Account>,
    /// Its longest wait for a third task meanwhile.
    pub next: Option<Blocked>,
    /// Task of intermediate priority that ran during the longest wait: a priority inversion.
    pub inverted_by: Option<TaskId>,
}

impl Timeline {
    /// All waits of a task for other tasks, in order.
    pub fn blocked_of(&self, task: TaskId) -> impl Iterator<Item = Blocked> + '_ {
        let history = self.task(task);
        history
            .phases
            .windows(2)
            .map(|pair| (pair[0], Some(pair[1])))
            .chain(history.phases.last().map(|&last| (last, None)))
            .filter_map(move |(phase, next)| {
                let Activity::Sleeps { cause } = phase.activity else { return None };
                let begun = history.task_waits.partition_point(|wait| wait.from <= phase.from);
                let mut begun = history.task_waits[..begun].iter().rev().take_while(|wait| wait.from == phase.from);
                let told = begun.find(|wait| !wait.spins);
                let waker = match next.map(|next| next.activity) {
                    Some(Activity::Waits { reason: WaitReason::Woken { waker: Waker::Task(waker), .. } }) => {
                        Some(waker)
                    }
                    _ => None,
                };
                let awaited = told.and_then(|wait| wait.holder).or(waker).filter(|&awaited| awaited != task);
                let waits = told.is_some() || (cause.is_some() && awaited.is_some());
                waits.then(|| Blocked {
                    task,
                    from: phase.from,
                    to: phase.to,
                    object: told.map(|wait| wait.object.clone()),
                    lock: told.is_some_and(|wait| wait.lock),
                    awaited,
                })
            })
    }

    /// The `count` longest waits for locks, or for any other task if `all`, longest first; equal ones by start, then
    /// task number.
    pub fn longest_blocked(&self, count: usize, all: bool) -> Vec<Blocked> {
        let tasks = (0..self.tasks.len() as u32).map(TaskId).filter(|&task| !self.task(task).info.kernel_thread);
        let mut waits: Vec<Blocked> = tasks
            .flat_map(|task| self.blocked_of(task))
            .filter(|wait| (wait.lock || all) && wait.length() > Nanos::ZERO)
            .collect();
        waits.sort_by_key(|wait| (std::cmp::Reverse(wait.length()), wait.from, wait.task));
        waits.truncate(count);
        waits
    }

    /// Breaks down a wait for another task.
    pub fn blocked_account(&self, blocked: Blocked) -> BlockedAccount {
        let [mut ran, mut waited] = [Nanos::ZERO; 2];
        let (mut longest, mut next): (Option<Wait>, Option<Blocked>) = (None, None);
        if let Some(awaited) = blocked.awaited {
            let clip = |from: Nanos, to: Nanos| to.min(blocked.to).since(from.max(blocked.from));
            for phase in &self.task(awaited).phases {
                match phase.activity {
                    Activity::Runs { .. } => ran += clip(phase.from, phase.to),
                    Activity::Waits { .. } => waited += clip(phase.from, phase.to),
                    Activity::Sleeps { .. } => {}
                }
            }
            let overlaps = |from: Nanos, to: Nanos| clip(from, to) > Nanos::ZERO;
            let waits = self.waits_of(awaited).filter(|wait| overlaps(wait.from, wait.to));
            longest = waits.max_by_key(|wait| clip(wait.from, wait.to));
            let others = self.blocked_of(awaited).filter(|other| other.awaited != Some(blocked.task));
            next = others.filter(|other| overlaps(other.from, other.to)).max_by_key(|other| clip(other.from, other.to));
        }
        let longest = longest.map(|wait| self.account(wait));
        let inverted_by = longest.as_ref().and_then(|account| self.inverted_by(&blocked, account));
        let slept = Nanos(blocked.length().0.saturating_sub((ran + waited).0));
        BlockedAccount { blocked, ran, waited, slept, longest, next, inverted_by }
    }

    /// The task that ran longest while the holder waited and whose importance lies between the holder's and the
    /// blocked task's.
    fn inverted_by(&self, blocked: &Blocked, account: &Account) -> Option<TaskId> {
        let rank = |task: TaskId| self.task(task).info.policy.precedence();
        let (most, least) = (rank(blocked.task), rank(account.wait.task));
        let between = |task: &TaskId| rank(*task) < most && rank(*task) > least;
        account.runners.iter().filter_map(|runner| runner.task.some()).find(between)
    }
}
