// SPDX-License-Identifier: GPL-2.0-only
//! Ideal CPU time of tasks if CPUs could be divided arbitrarily (generalized processor sharing).

use crate::Weights;
use ids::{Nanos, Policy};

/// Weights of nice -20 to 19 in Linux since 2.6.23 (`sched_prio_to_weight`). Each step down multiplies the weight by
/// about 1.25.
const WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a SCHED_IDLE task, whatever its nice value.
const IDLE_WEIGHT: u64 = 3;

/// The weight of a task. If groups have weights, all tasks count equally.
pub(crate) fn weight(by: Weights, policy: Policy, nice: i8) -> u64 {
    let nice = nice.clamp(-20, 19);
    match (by, policy) {
        (Weights::Groups, _) => 1,
        (Weights::Shares, _) if nice < 0 => 20 + u64::from(nice.unsigned_abs()).pow(2),
        (Weights::Shares, _) => 20 - u64::from(nice.unsigned_abs()),
        (Weights::Scx, _) => ((weight(Weights::Nice, policy, nice) * 100 + 512) / 1024).max(1),
        (Weights::Nice, Policy::Idle) => IDLE_WEIGHT,
        (Weights::Nice, _) => WEIGHTS[usize::try_from(nice + 20).expect("at least 0")],
    }
}

/// A task or group that has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharer {
    pub weight: u64,
    /// Largest number of CPUs that it can use: 1 for a task, the number of tasks for a group.
    pub most: u64,
}

/// CPU time that each receives from `cpus` CPUs in `time`, in proportion to its weight. If a share exceeds what its
/// owner can use, the others divide the rest (water-filling).
pub(crate) fn shares(sharers: &[Sharer], cpus: usize, time: Nanos) -> Vec<Nanos> {
    let mut order: Vec<usize> = (0..sharers.len()).collect();
    order.sort_by(|&a, &b| (sharers[b].weight * sharers[a].most).cmp(&(sharers[a].weight * sharers[b].most)));
    let (mut cpus, mut sum) = (cpus as u64, sharers.iter().map(|it| it.weight).sum::<u64>());
    let mut shares = vec![Nanos::ZERO; sharers.len()];
    for sharer in order {
        let Sharer { weight, most } = sharers[sharer];
        if cpus >= most && weight * cpus >= sum * most {
            shares[sharer] = Nanos(time.0 * most);
            (cpus, sum) = (cpus - most, sum - weight);
        } else {
            let share = u128::from(time.0) * u128::from(weight * cpus) / u128::from(sum);
            shares[sharer] = Nanos(share as u64);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tasks(weights: &[u64]) -> Vec<Sharer> {
        weights.iter().map(|&weight| Sharer { weight, most: 1 }).collect()
    }

    /// Finds the water level at which the sum of all shares equals the number of CPUs, by bisection.
    fn naive(sharers: &[Sharer], cpus: usize, time: f64) -> Vec<f64> {
        let holds = |level: f64, it: &Sharer| (level * it.weight as f64).min(it.most as f64);
        let held = |level: f64| sharers.iter().map(|it| holds(level, it)).sum::<f64>();
        let (mut low, mut high) = (0.0, 20.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if held(middle) < cpus as f64 { low = middle } else { high = middle }
        }
        sharers.iter().map(|it| holds(high, it) * time).collect()
    }

    proptest! {
        #[test]
        fn shares_match_a_bisection_of_the_water_level(
            sampled in prop::collection::vec((-20i8..20, 1u64..5), 1..12),
            cpus in 0usize..12,
        ) {
            let sharer = |&(nice, most): &(i8, u64)| Sharer { weight: weight(Weights::Nice, Policy::Other, nice), most };
            let sharers: Vec<Sharer> = sampled.iter().map(sharer).collect();
            let shares = shares(&sharers, cpus, Nanos(1_000_000_000));
            for (share, expected) in shares.iter().zip(naive(&sharers, cpus, 1e9)) {
                prop_assert!((share.0 as f64 - expected).abs() < 20.0, "{sharers:?} {cpus}: {shares:?}");
            }
        }
    }

    #[test]
    fn task_whose_weight_exceeds_one_cpu_gets_one_cpu() {
        let of = |weights: &[u64], cpus| {
            shares(&tasks(weights), cpus, Nanos(1_200)).iter().map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(of(&[1, 1, 1], 2), [800, 800, 800]);
        assert_eq!(of(&[1, 10, 1], 2), [600, 1_200, 600], "10/12 of two CPUs would be 1.67 CPUs");
        assert_eq!(of(&[3, 1], 1), [900, 300]);
        assert_eq!(of(&[5], 3), [1_200]);
        assert_eq!(of(&[5, 5], 0), [0, 0]);
        let by = |by, of: [(Policy, i8); 3]| of.map(|(policy, nice)| weight(by, policy, nice));
        let tasks = [(Policy::Other, 0), (Policy::Batch, 19), (Policy::Idle, -20)];
        assert_eq!(by(Weights::Nice, tasks), [1024, 15, 3]);
        assert_eq!(by(Weights::Shares, tasks), [20, 1, 420]);
        assert_eq!(by(Weights::Groups, tasks), [1, 1, 1]);
        assert_eq!(by(Weights::Scx, tasks), [100, 1, 1]);
        assert_eq!(by(Weights::Scx, [(Policy::Other, 18), (Policy::Other, -20), (Policy::Other, 10)]), [2, 8668, 11]);
    }
}
