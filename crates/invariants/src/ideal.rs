// SPDX-License-Identifier: GPL-2.0-only
//! What tasks would get of some CPUs if CPUs could be divided at will: generalized processor sharing.

use ids::{Nanos, Policy};

/// Weights of nice -20 to 19 in Linux since 2.6.23 (`sched_prio_to_weight`): a step is a quarter more or a fifth less.
const WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a SCHED_IDLE task, whatever its nice value.
const IDLE_WEIGHT: u64 = 3;

/// The weight of a task.
pub(crate) fn weight(policy: Policy, nice: i8) -> u64 {
    match policy {
        Policy::Idle => IDLE_WEIGHT,
        _ => WEIGHTS[usize::try_from(nice.clamp(-20, 19) + 20).expect("at least 0")],
    }
}

/// What each gets of so many CPUs in `time`, by weight. Nobody can use more than one: who would get more has one for itself,
/// and the others share the rest (water-filling).
pub(crate) fn shares(weights: &[u64], cpus: usize, time: Nanos) -> Vec<Nanos> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&task| std::cmp::Reverse(weights[task]));
    let (mut cpus, mut sum) = (cpus as u64, weights.iter().sum::<u64>());
    let mut shares = vec![Nanos::ZERO; weights.len()];
    for task in order {
        let weight = weights[task];
        if cpus > 0 && weight * cpus >= sum {
            shares[task] = time;
            (cpus, sum) = (cpus - 1, sum - weight);
        } else {
            let share = u128::from(time.0) * u128::from(weight * cpus) / u128::from(sum);
            shares[task] = Nanos(share as u64);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The height of the water at which all vessels hold what there is: found by halving.
    fn naive(weights: &[u64], cpus: usize, time: f64) -> Vec<f64> {
        let held = |level: f64| weights.iter().map(|&weight| (level * weight as f64).min(1.0)).sum::<f64>();
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if held(middle) < cpus as f64 { low = middle } else { high = middle }
        }
        weights.iter().map(|&weight| (high * weight as f64).min(1.0) * time).collect()
    }

    proptest! {
        #[test]
        fn matches_naive(nices in prop::collection::vec(-20i8..20, 1..12), cpus in 0usize..6) {
            let weights: Vec<u64> = nices.iter().map(|&nice| weight(Policy::Other, nice)).collect();
            let shares = shares(&weights, cpus, Nanos(1_000_000_000));
            for (share, expected) in shares.iter().zip(naive(&weights, cpus, 1e9)) {
                prop_assert!((share.0 as f64 - expected).abs() < 10.0, "{weights:?} {cpus}: {shares:?}");
            }
        }
    }

    #[test]
    fn who_would_get_more_than_a_cpu_gets_one() {
        let of = |weights: &[u64], cpus| shares(weights, cpus, Nanos(1_200)).iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(of(&[1, 1, 1], 2), [800, 800, 800]);
        assert_eq!(of(&[1, 10, 1], 2), [600, 1_200, 600], "10 of 12 of two CPUs would be 1.67");
        assert_eq!(of(&[3, 1], 1), [900, 300]);
        assert_eq!(of(&[5], 3), [1_200]);
        assert_eq!(of(&[5, 5], 0), [0, 0]);
        assert_eq!([weight(Policy::Other, 0), weight(Policy::Batch, 19), weight(Policy::Idle, -20)], [1024, 15, 3]);
    }
}
