// SPDX-License-Identifier: GPL-2.0-only
//! What the clock knows of a task: what it wants, how much of it it got, and an account of its life.

use crate::cpu::Spent;
use event_log::BlockCause;
use ids::{CpuId, Nanos, TaskId};
use measures::TaskAccount;
use speed::{Part, Rate};
use std::collections::VecDeque;
use workload::Demand;

/// Which of its life's accounts a task's time goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not runnable; new tasks are.
    Blocked,
    /// Waits for a CPU.
    Runnable,
    /// Current on a CPU.
    Running,
    /// Ended.
    Ended,
}

/// What a task does when it has a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Asks its script for the next demand.
    Ask,
    /// Works: so much work is left.
    Work(Nanos),
    /// Runs until its CPU clock shows so much more.
    CpuTime(Nanos),
    /// Polls a lock of its workload; whoever gives that back ends it.
    Spin,
    /// Waits so long for a cache line, or is in the kernel for nothing: its CPU's time, and no work.
    Line(Nanos),
    /// Is in the kernel to wake others, and then to do what it wants ([`Task::later`]).
    Act,
}

/// Whose task it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The workload's: it follows a script.
    Workload,
    /// The kernel's worker, which looks after the watchdog.
    Watchdog,
    /// The kernel's thread that takes its CPU down and up.
    Hotplug,
    /// This thread of the kernel's background.
    Background(u32),
}

/// What a task needs until it acts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// To run for so long.
    Run(Nanos),
    /// Its CPU clock to go on by so much: to be current for so long, and then to run.
    Clock(Nanos),
}

/// What a task does after it has woken others.
#[derive(Debug)]
pub(crate) struct Later {
    /// Whom it still has to wake.
    pub wakes: VecDeque<TaskId>,
    /// What it wants then.
    pub demand: Demand,
    /// When its script said so.
    pub asked_at: Nanos,
}

/// A task of the workload, or a thread of the kernel. Two cache lines: a large run lives in what the host's caches
/// hold.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Task {
    /// What it does.
    pub phase: Phase,
    /// Set in [`Phase::Act`]; apart, since few wakeups come from tasks.
    pub later: Option<Box<Later>>,
    /// It has begun to go to sleep. Only where operations wait.
    pub blocks: bool,
    /// Somebody woke it after it wanted to wait and before it did.
    pub woken_early: bool,
    /// CPU that its sleep timer was armed on.
    pub slept_on: CpuId,
    /// What it slept for.
    pub slept_for: BlockCause,
    /// Index of its spec in the workload; 0 for the kernel's threads.
    pub spec: u32,
    /// The run does not wait for its end.
    pub is_beside: bool,
    /// Whose it is.
    pub role: Role,
    /// What is done of the next nanosecond of work.
    part: Part,
    /// Frozen because the machine is about to sleep; blocked in the eyes of the scheduler, and nobody can wake it.
    pub frozen: bool,
    /// A thread of the kernel has run for a moment and is about to do its job, or to sleep.
    pub took_job: bool,
    state: State,
    /// Since when it is in this state.
    since: Nanos,
    born: Nanos,
    account: TaskAccount,
    /// `account.work` when the work that it does now is done.
    work_goal: Nanos,
    /// `run + stolen` of its account when it got its CPU.
    at_switch_in: Nanos,
}

impl Task {
    /// A new task.
    pub fn new(born: Nanos) -> Task {
        Task {
            phase: Phase::Ask,
            later: None,
            blocks: false,
            woken_early: false,
            slept_on: CpuId(0),
            slept_for: BlockCause::Timer,
            spec: 0,
            is_beside: false,
            role: Role::Workload,
            part: Part::default(),
            frozen: false,
            took_job: false,
            state: State::Blocked,
            since: born,
            born,
            account: TaskAccount::default(),
            work_goal: Nanos::ZERO,
            at_switch_in: Nanos::ZERO,
        }
    }

    /// What it is doing in the eyes of the scheduler.
    pub fn state(&self) -> State {
        self.state
    }

    /// Changes the state; the time in the old one goes to its account.
    ///
    /// # Panics
    /// If the time that it had a CPU is not what the CPU says it gave.
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

    /// Starts to do this much work.
    pub fn begin_work(&mut self, work: Nanos) {
        self.work_goal = self.account.work + work;
        self.phase = Phase::Work(work);
    }

    /// Takes what its CPU gave it at this rate, and says how much work that was. Its CPU clock counts what was stolen
    /// too (CLOCK_THREAD_CPUTIME_ID is `sum_exec_runtime`), but it must run to see that clock: `busy` says that its CPU
    /// does not let it yet.
    #[inline(always)]
    pub fn take(&mut self, spent: Spent, rate: Rate, busy: impl FnOnce() -> bool) -> Nanos {
        let work = if self.spins() { Nanos::ZERO } else { rate.work(spent.run, &mut self.part) };
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
            Phase::Ask | Phase::Act => assert_eq!(spent.run, Nanos::ZERO, "what a task asks for takes no time"),
        }
        work
    }

    /// Whether what it does with its CPU is no work: it waits for a lock of its workload, or for a line of it.
    pub fn spins(&self) -> bool {
        matches!(self.phase, Phase::Spin | Phase::Line(_))
    }

    /// Whether it waits for its CPU clock: that it may look at it matters even where no time passes.
    #[inline]
    pub fn watches_clock(&self) -> bool {
        matches!(self.phase, Phase::CpuTime(_))
    }

    /// What it needs at this rate until it acts again; `None` if it acts now.
    pub fn needs(&self, rate: Rate) -> Option<Need> {
        match self.phase {
            Phase::Work(left) => Some(Need::Run(rate.time_for(left, self.part))),
            Phase::CpuTime(left) => Some(Need::Clock(left)),
            Phase::Line(left) => Some(Need::Run(left)),
            Phase::Spin | Phase::Ask | Phase::Act => None,
        }
    }

    /// Whether it just got all that it wanted.
    pub fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Work(Nanos::ZERO) | Phase::CpuTime(Nanos::ZERO) | Phase::Line(Nanos::ZERO))
    }

    /// Goes on to its next demand.
    ///
    /// # Panics
    /// If it did not do exactly the work that it asked for.
    pub fn complete(&mut self) {
        if let Phase::Work(left) = self.phase {
            assert_eq!(left, Nanos::ZERO);
            assert_eq!(self.account.work, self.work_goal, "work done is work asked");
        }
        self.phase = Phase::Ask;
    }

    /// Its account at the end of the run.
    ///
    /// # Panics
    /// If some time of its life has no owner, or two.
    pub fn finish(mut self, end: Nanos) -> TaskAccount {
        let died = if self.state == State::Ended { self.since } else { end };
        if self.state != State::Ended {
            self.enter(end, self.state);
        }
        let TaskAccount { run, stolen, runnable, blocked, .. } = self.account;
        assert_eq!(run + stolen + runnable + blocked, died - self.born, "a task's time has one owner");
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
    fn a_task_takes_two_cache_lines() {
        assert_eq!(size_of::<Task>(), 128);
    }

    #[test]
    fn a_life_is_accounted_for() {
        let mut task = Task::new(Nanos(100));
        task.enter(Nanos(110), State::Runnable);
        task.enter(Nanos(130), State::Running);
        task.begin_work(Nanos(50));
        task.take(spent(20, 5), Rate::ONE, || false);
        task.enter(Nanos(155), State::Runnable);
        task.enter(Nanos(160), State::Running);
        assert_eq!(task.needs(Rate::ONE), Some(Need::Run(Nanos(30))));
        task.take(spent(30, 1), Rate::ONE, || false);
        assert!(task.is_complete());
        task.complete();
        task.enter(Nanos(191), State::Ended);
        let account = task.finish(Nanos(1_000));
        let expected =
            TaskAccount { work: Nanos(50), run: Nanos(50), stolen: Nanos(6), runnable: Nanos(25), blocked: Nanos(10) };
        assert_eq!(account, expected);
    }

    #[test]
    fn the_cpu_clock_counts_what_was_stolen_and_is_seen_by_who_runs() {
        let mut task = Task::new(Nanos(0));
        task.phase = Phase::CpuTime(Nanos(50));
        task.take(spent(20, 5), Rate::ONE, || false);
        assert_eq!(task.needs(Rate::ONE), Some(Need::Clock(Nanos(25))));
        task.take(spent(20, 5), Rate::ONE, || true);
        assert_eq!((task.needs(Rate::ONE), task.is_complete()), (Some(Need::Clock(Nanos(1))), false));
        task.take(spent(0, 40), Rate::ONE, || true);
        task.take(spent(1, 2), Rate::ONE, || false);
        assert!(task.is_complete());
    }

    #[test]
    #[should_panic(expected = "run or stolen")]
    fn time_that_the_cpu_did_not_give_is_noticed() {
        let mut task = Task::new(Nanos(0));
        task.enter(Nanos(0), State::Runnable);
        task.enter(Nanos(0), State::Running);
        task.begin_work(Nanos(50));
        task.take(spent(20, 5), Rate::ONE, || false);
        task.enter(Nanos(26), State::Runnable);
    }
}
