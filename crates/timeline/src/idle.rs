// SPDX-License-Identifier: GPL-2.0-only
//! Why CPUs were idle while tasks that may use them waited, summed over the longest waits of a run.

use crate::Timeline;
use crate::blame::Reason;
use crate::wait::Account;
use event_log::CallbackSite;
use ids::Nanos;
use std::mem::Discriminant;

/// Number of waits that are analyzed: the longest ones, since each takes a pass over the CPUs.
const ANALYZED: usize = 500;

/// A cause of idle time, with an example.
#[derive(Clone, PartialEq, Debug)]
pub struct IdleCause {
    /// Time for which allowed CPUs were idle in the waits with this cause.
    pub idle: Nanos,
    /// Number of these waits.
    pub waits: u64,
    /// The wait with the longest idle time.
    pub example: Account,
}

/// Idle time beside waiting tasks.
#[derive(Clone, PartialEq, Debug)]
pub struct IdleCauses {
    /// Number of analyzed waits.
    pub waits: u64,
    /// Sum of their lengths.
    pub waited: Nanos,
    /// Time for which at least one allowed CPU was idle, summed over the waits.
    pub idle: Nanos,
    /// Causes, the one with the longest idle time first.
    pub causes: Vec<IdleCause>,
}

impl Timeline {
    /// Analyzes the longest waits of the workload for CPUs that were idle meanwhile.
    pub fn idle_causes(&self) -> IdleCauses {
        let counts = |wait: &crate::Wait| wait.length() > Nanos::ZERO && !self.task(wait.task).info.kernel_thread;
        let waits = self.longest_waits(ANALYZED, counts);
        let waited = Nanos(waits.iter().map(|wait| wait.length().0).sum());
        let mut found = IdleCauses { waits: waits.len() as u64, waited, idle: Nanos::ZERO, causes: Vec::new() };
        type Key = Option<(CallbackSite, Discriminant<Reason>)>;
        let key = |account: &Account| -> Key {
            account.suspects.first().map(|first| (first.site, std::mem::discriminant(&first.reason)))
        };
        for account in waits.into_iter().map(|wait| self.account(wait)).filter(|account| account.idle > Nanos::ZERO) {
            found.idle += account.idle;
            match found.causes.iter_mut().find(|cause| key(&cause.example) == key(&account)) {
                Some(cause) => {
                    (cause.idle, cause.waits) = (cause.idle + account.idle, cause.waits + 1);
                    if account.idle > cause.example.idle {
                        cause.example = account;
                    }
                }
                None => found.causes.push(IdleCause { idle: account.idle, waits: 1, example: account }),
            }
        }
        found.causes.sort_by_key(|cause| (std::cmp::Reverse(cause.idle), cause.example.wait.from));
        found
    }
}
