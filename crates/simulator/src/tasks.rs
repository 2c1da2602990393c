// SPDX-License-Identifier: GPL-2.0-only
//! State of a task in the simulator: its current demand, its progress, and a time account of its lifetime.

use crate::cpu::Spent;
use crate::pace::Pace;
use event_log::BlockCause;
use ids::{CpuId, Nanos, TaskId};
use measures::TaskAccount;
use speed::{Part, Rate};
use std::collections::VecDeque;
use workload::Demand;

/// Category to which a task's time is accounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not runnable; the initial state.
    Blocked,
    /// Waits for a CPU.
    Runnable,
    /// Is the current task of a CPU.
    Running,
    /// Ended.
    Ended,
}

/// What a task does while it has a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The task asks its script for the next demand.
    Ask,
    /// The task works; contains the remaining work.
    Work(Nanos),
    /// The task runs until its CPU clock has advanced by this time.
    CpuTime(Nanos),
    /// The task spins on a lock of its workload until the lock is handed off to it.
    Spin,
    /// The task waits this long for a cache line, or for a futex call without effect: it keeps its CPU busy without
    /// doing work.
    Line(Nanos),
    /// The task wakes others in the kernel, and then carries out its demand ([`Task::later`]).
    Act,
}

/// Kind of task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A task of the workload, which follows a script.
    Workload,
    /// The kernel's worker for the watchdog.
    Watchdog,
    /// The hotplug kthread of its CPU.
    Hotplug,
    /// The kernel background thread with this number.
    Background(u32),
    /// The ksoftirqd of its CPU.
    Softirq,
    /// The kthread that writes back pages of the disk with this number.
    Flusher(u32),
}

/// CPU time that a task needs until it acts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// The task is to run for this time.
    Run(Nanos),
    /// Its CPU clock to advance by this time: it must be current for this time, and then run.
    Clock(Nanos),
}

/// What a task does after it has woken others.
#[derive(Debug)]
pub(crate) struct Later {
    /// Tasks that the task still has to wake.
    pub wakes: VecDeque<TaskId>,
    /// Demand to carry out after these wakeups.
    pub demand: Demand,
    /// Time at which its script issued the demand.
    pub asked_at: Nanos,
}

/// A task of the workload, or a kthread. Occupies two cache lines, so that a large run fits the host's caches.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Task {
    /// Current phase.
    pub phase: Phase,
    /// Set in [`Phase::Act`]; boxed because it is rarely set: most wakeups come from timers.
    pub later: Option<Box<Later>>,
    /// Whether the task has begun to block. Only used if operations wait.
    pub blocks: bool,
    /// Whether the task was woken after it decided to block and before it blocked.
    pub woken_before_block: bool,
    /// CPU on which its sleep timer was armed.
    pub slept_on: CpuId,
    /// Reason for which it sleeps.
    pub slept_for: BlockCause,
    /// Index of its spec in the workload; 0 for kthreads.
    pub spec: u32,
    /// The run does not wait for its end.
    pub is_beside: bool,
    /// Kind of task.
    pub role: Role,
    /// Completed fraction of the next nanosecond of work.
    part: Part,
    /// Frozen for suspend; blocked for the scheduler, and cannot be woken.
    pub frozen: bool,
    /// A kthread has run briefly and is about to perform its work item, or to sleep.
    pub took_work: bool,
    state: State,
    /// Begin of its current state.
    since: Nanos,
    born: Nanos,
    account: TaskAccount,
    /// Value of `account.work` at which its current work is done.
    work_goal: Nanos,
    /// `run + stolen` of its account when it was switched in.
    at_switch_in: Nanos,
}

impl Task {
    /// Creates a task.
    pub fn new(born: Nanos) -> Task {
        Task {
            phase: Phase::Ask,
            later: None,
            blocks: false,
            woken_before_block: false,
            slept_on: CpuId(0),
            slept_for: BlockCause::Timer,
            spec: 0,
            is_beside: false,
            role: Role::Workload,
            part: Part::default(),
            frozen: false,
            took_work: false,
            state: State::Blocked,
            since: born,
            born,
            account: TaskAccount::default(),
            work_goal: Nanos::ZERO,
            at_switch_in: Nanos::ZERO,
        }
    }

    /// State as the scheduler sees it.
    pub fn state(&self) -> State {
        self.state
    }

    /// Changes the state; the time in the old state is accounted.
    ///
    /// # Panics
    /// If the time for which it was current differs from the time that its CPU accounted to it.
    pub fn enter(&mut self, now: Nanos, state: State) {
        let length = now - self.since;
        match self.state {
            State::Blocked => self.account.blocked += length,
            State::Runnable => self.account.runnable += length,
            State::Running => {
                let got = self.account.run + self.account.stolen - self.at_switch_in;
                assert_eq!(got, length, "a task's time on its CPU is run or stolen, since {}", self.since);
            }
            State::Ended => unreachable!("a task that ended has no further states"),
        }
        if state == State::Running {
            self.at_switch_in = self.account.run + self.account.stolen;
        }
        self.state = state;
        self.since = now;
    }

    /// Begins an amount of work.
    pub fn begin_work(&mut self, work: Nanos) {
        self.work_goal = self.account.work + work;
        self.phase = Phase::Work(work);
    }

    /// Accounts the time that its CPU gave it, of which it lost `reload` to reloads, at this rate; returns the work done.
    /// Its CPU clock includes stolen time (CLOCK_THREAD_CPUTIME_ID is `sum_exec_runtime`), but the task must run to read
    /// that clock: `busy` tells whether its CPU is still busy with other things.
    #[inline(always)]
    pub fn take(&mut self, spent: Spent, reload: Nanos, rate: Rate, busy: impl FnOnce() -> bool) -> Nanos {
        let work = if self.spins() { Nanos::ZERO } else { rate.work(spent.run - reload, &mut self.part) };
        self.account.run += spent.run;
        self.account.stolen += spent.stolen;
        self.account.work += work;
        match &mut self.phase {
            Phase::Work(left) => *left -= work,
            Phase::CpuTime(left) => {
                let passed = spent.run + spent.stolen;
                *left = Nanos(left.0.saturating_sub(passed.0).max(u64::from(busy())));
            }
            Phase::Spin => {}
            Phase::Line(left) => *left -= spent.run,
            Phase::Ask | Phase::Act => assert_eq!(spent.run, Nanos::ZERO, "asking and acting take no run time"),
        }
        work
    }

    /// Whether the task keeps its CPU busy without doing work: it waits for a lock of its workload, or for a cache
    /// line.
    pub fn spins(&self) -> bool {
        matches!(self.phase, Phase::Spin | Phase::Line(_))
    }

    /// Whether the task waits until its CPU-time clock shows a certain time, so that reads of that clock matter even
    /// where no time passes.
    #[inline]
    pub fn watches_clock(&self) -> bool {
        matches!(self.phase, Phase::CpuTime(_))
    }

    /// CPU time that it needs at this pace until it acts again; `None` if it acts now.
    pub fn needs(&self, pace: &Pace) -> Option<Need> {
        match self.phase {
            Phase::Work(left) => Some(Need::Run(pace.time_for(pace.rate().time_for(left, self.part)))),
            Phase::CpuTime(left) => Some(Need::Clock(left)),
            Phase::Line(left) => Some(Need::Run(left)),
            Phase::Spin | Phase::Ask | Phase::Act => None,
        }
    }

    /// Whether its current demand is complete.
    pub fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Work(Nanos::ZERO) | Phase::CpuTime(Nanos::ZERO) | Phase::Line(Nanos::ZERO))
    }

    /// Continues with its next demand.
    ///
    /// # Panics
    /// If the work done differs from the work requested.
    pub fn complete(&mut self) {
        if let Phase::Work(left) = self.phase {
            assert_eq!(left, Nanos::ZERO);
            assert_eq!(self.account.work, self.work_goal, "work done equals work requested");
        }
        self.phase = Phase::Ask;
    }

    /// Its account at the end of the run.
    ///
    /// # Panics
    /// If the account does not add up to its lifetime.
    pub fn finish(mut self, end: Nanos) -> TaskAccount {
        let died = if self.state == State::Ended { self.since } else { end };
        if self.state != State::Ended {
            self.enter(end, self.state);
        }
        let TaskAccount { run, stolen, runnable, blocked, .. } = self.account;
        assert_eq!(run + stolen + runnable + blocked, died - self.born, "the account adds up to the lifetime");
        self.account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(run: u64, stolen: u64) -> Spent {
        Spent { run: Nanos(run), stolen: Nanos(stolen) }
    }

    #[test]
    fn task_record_occupies_two_cache_lines() {
        assert_eq!(size_of::<Task>(), 128);
    }

    #[test]
    fn account_covers_the_lifetime_of_a_task() {
        let mut task = Task::new(Nanos(100));
        task.enter(Nanos(110), State::Runnable);
        task.enter(Nanos(130), State::Running);
        task.begin_work(Nanos(50));
        task.take(spent(20, 5), Nanos::ZERO, Rate::ONE, || false);
        task.enter(Nanos(155), State::Runnable);
        task.enter(Nanos(160), State::Running);
        assert_eq!(task.needs(&Pace::ONE), Some(Need::Run(Nanos(30))));
        task.take(spent(30, 1), Nanos::ZERO, Rate::ONE, || false);
        assert!(task.is_complete());
        task.complete();
        task.enter(Nanos(191), State::Ended);
        let account = task.finish(Nanos(1_000));
        let expected =
            TaskAccount { work: Nanos(50), run: Nanos(50), stolen: Nanos(6), runnable: Nanos(25), blocked: Nanos(10) };
        assert_eq!(account, expected);
    }

    #[test]
    fn cpu_clock_includes_stolen_time_and_is_read_when_running() {
        let mut task = Task::new(Nanos(0));
        task.phase = Phase::CpuTime(Nanos(50));
        task.take(spent(20, 5), Nanos::ZERO, Rate::ONE, || false);
        assert_eq!(task.needs(&Pace::ONE), Some(Need::Clock(Nanos(25))));
        task.take(spent(20, 5), Nanos::ZERO, Rate::ONE, || true);
        assert_eq!((task.needs(&Pace::ONE), task.is_complete()), (Some(Need::Clock(Nanos(1))), false));
        task.take(spent(0, 40), Nanos::ZERO, Rate::ONE, || true);
        task.take(spent(1, 2), Nanos::ZERO, Rate::ONE, || false);
        assert!(task.is_complete());
    }

    #[test]
    #[should_panic(expected = "run or stolen")]
    fn mismatch_between_task_and_cpu_time_panics() {
        let mut task = Task::new(Nanos(0));
        task.enter(Nanos(0), State::Runnable);
        task.enter(Nanos(0), State::Running);
        task.begin_work(Nanos(50));
        task.take(spent(20, 5), Nanos::ZERO, Rate::ONE, || false);
        task.enter(Nanos(26), State::Runnable);
    }
}
