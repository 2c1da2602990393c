// SPDX-License-Identifier: GPL-2.0-only
//! The features that a case uses. Testing with random subsets of features finds more than testing with all of them at
//! once (swarm testing; Groce et al., ISSTA 2012): one feature often prevents what another one provokes.

use crate::{Rng, Scenario};
use ids::CpuId;

/// Random stream of the features, apart from that of the case itself.
const STREAM: u64 = 0x5eed_fea7;
const AWAY_STREAM: u64 = 0xaaa7;

/// Time that a case lasts after CPUs have gone for good: tasks on their queues are missed by then.
const AFTERWARDS_MS: u64 = 1_500;
/// Longest timeout of a watchdog that half of these cases outlast; of longer ones, an eighth does, since such runs are
/// long, and a warning comes sooner.
const SHORT_WATCHDOG_MS: u64 = 6_000;

/// The features of one case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Features {
    /// Nice values.
    pub nice: bool,
    /// Tasks that may use some CPUs only.
    pub pinned: bool,
    /// Policies other than the default one.
    pub policies: bool,
    /// Several copies of a part, and parts that start late.
    pub counts: bool,
    /// CPUs that go offline and stay away until the end, or beyond the watchdog's timeout.
    pub away: bool,
    /// Interleaved operations of the kernel.
    pub interleaved: bool,
}

impl Features {
    /// Everything that a workload part can have, on a machine whose CPUs stay.
    pub(crate) const ALL: Features =
        Features { nice: true, pinned: true, policies: true, counts: true, away: false, interleaved: false };

    /// The features of case `number`.
    pub(crate) fn generate(number: u64) -> Features {
        let mut rng = Rng(number ^ STREAM);
        let mut used = |of: u64| rng.below(of) > 0;
        let [nice, pinned, policies, counts] = [used(3), used(3), used(3), used(3)];
        Features { nice, pinned, policies, counts, away: !used(5), interleaved: !used(6) }
    }
}

/// Takes one or two CPUs away: for good, or for longer than the watchdog's timeout. The first CPU stays.
pub(crate) fn take_away(number: u64, scenario: &mut Scenario, online: &[CpuId], watchdog_ms: u64) {
    let movable = online.get(1..).unwrap_or_default();
    let mut rng = Rng(number ^ AWAY_STREAM);
    let from = 50 + rng.below(300);
    let returns = watchdog_ms > 0 && rng.below(if watchdog_ms <= SHORT_WATCHDOG_MS { 2 } else { 8 }) == 0;
    let mut left = movable.to_vec();
    let mut plan = Vec::new();
    let mut end = from + AFTERWARDS_MS;
    for _ in 0..1 + rng.below(2) {
        if left.is_empty() {
            break;
        }
        let cpu = left.remove(rng.below(left.len() as u64) as usize);
        plan.push(format!("cpu{cpu}:offline@{from}ms"));
        if returns {
            let back = from + watchdog_ms + AFTERWARDS_MS;
            plan.push(format!("cpu{cpu}:online@{back}ms"));
            end = back + AFTERWARDS_MS;
        }
    }
    if !plan.is_empty() {
        scenario.faults = Some(plan.join(","));
        scenario.duration_ms = scenario.duration_ms.max(end);
    }
}
