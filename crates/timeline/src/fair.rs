// SPDX-License-Identifier: GPL-2.0-only
//! Why the fair class of the kernel let a task wait: the rules by which other tasks were chosen, and the idle CPUs
//! that did not pull it.

use crate::Timeline;
use crate::wait::Wait;
use event_log::{FairDecision, FairRule};
use ids::{CpuId, CpuSet, Nanos, TaskId};
use std::collections::BTreeMap;

/// Rule of EEVDF without its figures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RuleKind {
    /// The waiting task had received more than its share.
    Ineligible,
    /// The other task was within its slice.
    Protected,
    /// The other task had the earlier virtual deadline.
    Deadline,
}

/// Another task that was chosen by one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassedOver {
    /// The chosen task.
    pub chosen: TaskId,
    /// The rule.
    pub rule: RuleKind,
    /// Number of decisions.
    pub times: u32,
    /// Length of the wait that followed these decisions, until the next one.
    pub lasted: Nanos,
    /// Largest figure: CPU time beyond the share, or difference of the virtual deadlines; 0 for a protected task.
    pub most_ns: u64,
}

/// What the fair class decided during a wait.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FairAccount {
    /// Runqueues on which the task waited, in order, with the number of waiting tasks, itself included.
    pub queued: Vec<(CpuId, u32)>,
    /// Chosen tasks by rule, longest first.
    pub passed_over: Vec<PassedOver>,
    /// Idle CPUs that skipped newidle balancing: number of times, and the last success ratio in 1/1024.
    pub skipped: BTreeMap<CpuId, (u32, u32)>,
    /// CPUs that searched and left the task because it was cache-hot.
    pub hot_for: CpuSet,
    /// CPUs that searched and that the affinity mask of the task excludes.
    pub excluded_for: CpuSet,
}

impl Timeline {
    /// Decisions of the fair class during a wait; `None` if none is known.
    pub fn fair_account(&self, wait: &Wait) -> Option<FairAccount> {
        let decisions = &self.task(wait.task).fair;
        let first = decisions.partition_point(|(time, _)| *time < wait.from);
        let within = || decisions[first..].iter().take_while(|(time, _)| *time < wait.to || *time == wait.from);
        let mut account = FairAccount::default();
        let mut passed: BTreeMap<(TaskId, RuleKind), PassedOver> = BTreeMap::new();
        // The reason that holds until the next decision.
        let mut holds: Option<((TaskId, RuleKind), Nanos)> = None;
        let settle = |passed: &mut BTreeMap<_, PassedOver>, holds: Option<(_, Nanos)>, to: Nanos| {
            if let Some((key, from)) = holds {
                passed.get_mut(&key).expect("entered when it began to hold").lasted += to.since(from);
            }
        };
        for &(time, decision) in within() {
            match decision {
                FairDecision::Queued { on, waiting } => account.queued.push((on, waiting)),
                FairDecision::NotPulled { to, excluded } => {
                    let cpus = if excluded { &mut account.excluded_for } else { &mut account.hot_for };
                    cpus.insert(to);
                }
                FairDecision::PassedOver { chosen, rule, .. } => {
                    settle(&mut passed, holds, time);
                    let (rule, figure) = kind(rule);
                    let fresh = PassedOver { chosen, rule, times: 0, lasted: Nanos::ZERO, most_ns: 0 };
                    let entry = passed.entry((chosen, rule)).or_insert(fresh);
                    entry.times += 1;
                    entry.most_ns = entry.most_ns.max(figure);
                    holds = Some(((chosen, rule), time));
                }
            }
        }
        settle(&mut passed, holds, wait.to);
        account.passed_over = passed.into_values().collect();
        account.passed_over.sort_by_key(|entry| (std::cmp::Reverse(entry.lasted), entry.chosen, entry.rule));
        let allowed = self.task(wait.task).allowed_at(wait.from);
        for cpu in allowed.iter().filter(|cpu| cpu.index() < self.cpus.len()) {
            let skipped = &self.cpus[cpu.index()].skipped_searches;
            let from = skipped.partition_point(|(time, _)| *time < wait.from);
            let within = || skipped[from..].iter().take_while(|(time, _)| *time < wait.to);
            if let Some(&(_, ratio)) = within().last() {
                account.skipped.insert(cpu, (within().count() as u32, ratio));
            }
        }
        let knows = !account.queued.is_empty() || !account.passed_over.is_empty();
        knows.then_some(account)
    }
}

fn kind(rule: FairRule) -> (RuleKind, u64) {
    match rule {
        FairRule::Ineligible { ahead_ns } => (RuleKind::Ineligible, ahead_ns),
        FairRule::Protected => (RuleKind::Protected, 0),
        FairRule::Deadline { earlier_ns } => (RuleKind::Deadline, earlier_ns),
    }
}
