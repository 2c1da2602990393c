// SPDX-License-Identifier: GPL-2.0-only
//! Cases for `weighted-share-percent`: tasks that never sleep share a set of CPUs by unequal weights, while other
//! CPUs run other workloads. All sharing tasks use the same CPUs, as the property requires. A run lasts long enough
//! for one evaluation after the last task has started, so late starters are covered too.

use super::{ABSENT_MS, Rng, Scenario, on};
use ids::CpuId;
use invariants::{WeightedShare, Weights};

/// Workloads of the CPUs that are not shared.
const BESIDE: [&str; 5] = ["hogs", "periodic-4", "pingpong", "noise", "preempt-mix"];
/// Maximum number of sharing tasks, and maximum number of workload parts that they are divided into.
const MOST: u64 = 6;
const PARTS: u64 = 4;
/// Number of groups that the tasks are in, if groups carry the weights.
const GROUPS: u64 = 4;
/// Length of an evaluation window in rounds of all tasks, as in the checker, and its minimum in ms.
const ROUNDS: u64 = 20;
const SHORTEST_MS: u64 = 500;

pub(super) fn generate(rng: &mut Rng, online: &[CpuId], share: WeightedShare) -> Scenario {
    let width = match share.whole {
        true => online.len(),
        false => 1 + rng.below(u64::from(share.cpus).min(online.len() as u64)) as usize,
    };
    let first = rng.below((online.len() - width + 1) as u64) as usize;
    let (ours, rest) = (&online[first..first + width], [&online[..first], &online[first + width..]].concat());
    let (mut workload, tasks) = sharers(rng, &if rest.is_empty() { String::new() } else { on(ours) }, share.by);
    let [turn, settles] = [share.turn, share.settles].map(|time| time.0 / 1_000_000);
    let window = SHORTEST_MS.max(turn * ROUNDS * tasks.div_ceil(width as u64));
    let mut duration_ms = settles + window + window / 4;
    if rng.below(2) == 0 {
        let late = rng.below(window);
        *workload.last_mut().expect("two parts at least") += &format!(",start={late}ms");
        duration_ms += late;
    }
    if !rest.is_empty() && rng.below(3) > 0 {
        workload.push((*rng.one_of(&BESIDE)).to_owned() + &on(&rest));
    }
    // The first CPU and the shared CPUs stay online: a task whose CPUs are all offline may use any CPU.
    let movable: Vec<CpuId> = rest.into_iter().filter(|cpu| *cpu != online[0]).collect();
    let faults = (!movable.is_empty() && rng.below(8) == 0).then(|| rng.absence(&movable));
    duration_ms += if faults.is_some() { ABSENT_MS } else { 0 };
    // Higher-class tasks that run long end an evaluation window; with long slices, so do kthreads.
    Scenario { workload, duration_ms, faults, undisturbed: rng.below(8) > 0 }
}

/// Two or more workload parts, and their total number of tasks.
fn sharers(rng: &mut Rng, cpus: &str, by: Weights) -> (Vec<String>, u64) {
    let weights: Vec<u64> = (0..GROUPS).map(|_| (1 + rng.below(10)) * rng.one_of(&[1, 10, 100])).collect();
    let (mut parts, mut tasks) = (Vec::new(), 0);
    for _ in 0..2 + rng.below(PARTS - 1) {
        let count = (1 + rng.below(3)).min(MOST - tasks);
        if count == 0 {
            break;
        }
        tasks += count;
        let weight = match by {
            Weights::Groups if rng.below(6) == 0 => String::new(),
            Weights::Groups => {
                let group = rng.below(GROUPS);
                format!(",group=/g{group},weight={}", weights[group as usize])
            }
            _ => format!(",nice={}", rng.below(30) as i64 - 10),
        };
        parts.push(format!("hog{cpus},count={count}{weight}"));
    }
    (parts, tasks)
}
