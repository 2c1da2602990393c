// SPDX-License-Identifier: GPL-2.0-only
//! Sampling of a machine's uncertain constants within their limits.
//!
//! 1. Constants are sampled in groups: all cache-line latencies are high or low together, so that closer CPUs stay
//!    closer. Groups are independent.
//! 2. A constant is log-uniform between its limits, since it is known to within a factor; if the lower limit is 0, it
//!    is uniform.
//! 3. Each group is divided into as many equal strata as there are draws, and each draw uses a different one (Latin
//!    hypercube sampling): a few draws cover the full range of every constant.

use crate::{Effects, Estimate, Machine};

/// SplitMix64 (Steele, Lea, Flood 2014), identical on every host.
struct Random(u64);

impl Random {
    /// Creates the random stream of a group.
    fn of(group: &str) -> Random {
        let fold = |state: u64, byte: u8| Random(state ^ u64::from(byte)).next();
        Random(group.bytes().fold(0, fold))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// Position of a group between its limits in this draw, in units of 2^-32.
fn position(group: &str, draw: u64, draws: u64) -> u64 {
    let mut random = Random::of(group);
    let mut strata: Vec<u64> = (0..draws).collect();
    for last in (1..strata.len()).rev() {
        strata.swap(last, random.below(last as u64 + 1) as usize);
    }
    let within = (0..draw).map(|_| random.next() >> 32).last().expect("draws count from 1");
    ((strata[draw as usize - 1] << 32) + within) / draws
}

/// Computes low (high/low)^position by square roots, which are identical on every host.
fn between(Estimate { low, high, .. }: Estimate, position: u64) -> u64 {
    if low == 0 {
        return ((u128::from(high) * u128::from(position)) >> 32) as u64;
    }
    let (mut value, mut root) = (low as f64, high as f64 / low as f64);
    for bit in (0..32).rev() {
        root = root.sqrt();
        if position >> bit & 1 == 1 {
            value *= root;
        }
    }
    (value.round() as u64).clamp(low, high)
}

/// Group of the latencies of caches and memory: they are high or low together, so that memory stays slower than a
/// cache, and remote memory slower than local memory.
const LATENCY: &str = "memory-latency";

/// Returns a constant between its limits in draw number `draw`, from 1, of `draws`. Constants of a group are high or
/// low together.
///
/// # Panics
/// If `draw` is out of range.
pub fn sample(group: &str, limits: Estimate, draw: u64, draws: u64) -> u64 {
    assert!((1..=draws).contains(&draw), "draw {draw} of {draws}");
    between(limits, position(group, draw, draws))
}

impl Effects {
    /// All uncertain constants, with their groups.
    fn estimates(&mut self) -> Vec<(&'static str, &mut Estimate)> {
        let Effects {
            smt,
            capacity: _,
            frequency,
            idle_states,
            power,
            caches,
            numa,
            bandwidth,
            locks,
            disks,
            networks,
            page_cache,
            tlb,
            sample: _,
            assumed: _,
        } = self;
        let mut all = Vec::new();
        if let Some(smt) = smt {
            all.extend(smt.throughput_percent.iter_mut().map(|one| ("smt", one)));
        }
        if let Some(frequency) = frequency {
            all.extend(frequency.turbo_mhz.iter_mut().map(|one| ("turbo", one)));
            all.push(("memory-bound", &mut frequency.memory_bound_percent));
        }
        for state in idle_states {
            all.extend([("idle-exit", &mut state.exit_ns), ("idle-power", &mut state.power_percent)]);
        }
        if let Some(power) = power {
            all.push(("rest-power", &mut power.idle_percent));
            all.push(("voltage", &mut power.voltage_slope_percent));
        }
        if let Some(caches) = caches {
            all.extend([&mut caches.private_ns, &mut caches.llc_ns, &mut caches.memory_ns].map(|one| (LATENCY, one)));
            all.extend(caches.dirty_ns.iter_mut().map(|one| ("line", one)));
            all.push(("overlap", &mut caches.overlap));
        }
        if let Some(numa) = numa {
            all.extend(numa.latency_ns.iter_mut().map(|row| (LATENCY, &mut row.latency_ns)));
            all.push(("move-page", &mut numa.move_page_ns));
        }
        if let Some(bandwidth) = bandwidth {
            all.extend([&mut bandwidth.node_mb_s, &mut bandwidth.remote_mb_s].map(|one| ("bandwidth", one)));
            all.extend(
                [&mut bandwidth.slope_permille, &mut bandwidth.knee_permille].map(|one| ("loaded-latency", one)),
            );
        }
        if let Some(locks) = locks {
            all.extend(locks.line_transfer_ns.iter_mut().map(|one| ("line", one)));
            all.push(("wakeup-hold", &mut locks.wakeup_hold_ns));
            all.extend(locks.acquire_ns.iter_mut().map(|one| ("passage", one)));
            all.push(("storm", &mut locks.spinner_slowdown_percent));
            all.push(("futex", &mut locks.futex_ns));
        }
        all.extend(disks.disks.iter_mut().flat_map(crate::Disk::estimates));
        all.extend(tlb.iter_mut().flat_map(crate::Tlb::estimates));
        all.extend(page_cache.iter_mut().flat_map(crate::PageCache::estimates));
        all.extend(networks.networks.iter_mut().flat_map(crate::Network::estimates));
        all
    }
}

impl Machine {
    /// Returns whether any constant is uncertain.
    pub fn is_uncertain(&self) -> bool {
        self.effects.clone().estimates().iter().any(|(_, estimate)| estimate.low < estimate.high)
    }

    /// Groups of uncertain constants, each with its position between its limits in draw number `draw`, from 1, of `draws`,
    /// in units of 2^-32. Constants of a group have the same position.
    ///
    /// # Panics
    /// If `draw` is out of range.
    pub fn draw_positions(&self, draw: u64, draws: u64) -> Vec<(&'static str, u64)> {
        assert!((1..=draws).contains(&draw), "draw {draw} of {draws}");
        let mut effects = self.effects.clone();
        let uncertain = effects.estimates().into_iter().filter(|(_, estimate)| estimate.low < estimate.high);
        let groups: std::collections::BTreeSet<&'static str> = uncertain.map(|(group, _)| group).collect();
        groups.into_iter().map(|group| (group, position(group, draw, draws))).collect()
    }

    /// Returns draw number `draw`, from 1, of `draws`: the same machine with other typical values. The limits are
    /// unchanged.
    ///
    /// # Panics
    /// If `draw` is out of range.
    pub fn drawn(&self, draw: u64, draws: u64) -> Machine {
        assert!((1..=draws).contains(&draw), "draw {draw} of {draws}");
        let mut machine = self.clone();
        machine.effects.sample = Some((draw, draws));
        for (group, estimate) in machine.effects.estimates() {
            estimate.typical = between(*estimate, position(group, draw, draws));
        }
        machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_log_uniform_between_their_limits() {
        let estimate = |low, high| Estimate { low, typical: low, high };
        assert_eq!(between(estimate(100, 400), 0), 100);
        assert_eq!(between(estimate(100, 400), 1 << 31), 200, "half way in logarithms");
        assert_eq!(between(estimate(100, 1_600), 3 << 30), 800);
        assert_eq!(between(estimate(100, 400), (1 << 32) - 1), 400);
        assert_eq!([0, 1 << 31].map(|position| between(estimate(0, 60), position)), [0, 30]);
        assert_eq!(between(Estimate::exactly(7), 1 << 31), 7);
    }

    #[test]
    fn each_draw_uses_a_different_stratum() {
        for draws in [1, 2, 7, 20] {
            let mut strata: Vec<u64> = (1..=draws).map(|draw| (position("line", draw, draws) * draws) >> 32).collect();
            strata.sort_unstable();
            assert_eq!(strata, (0..draws).collect::<Vec<_>>());
        }
        assert_ne!(position("line", 1, 20), position("smt", 1, 20), "groups are independent");
    }

    #[test]
    fn draw_positions_name_each_group_once_and_exactly() {
        let machine = Machine::preset("laptop-2c4t").unwrap();
        let positions = machine.draw_positions(3, 12);
        let smt = positions.iter().find(|(group, _)| *group == "smt").unwrap().1;
        let estimate = machine.effects.smt.as_ref().unwrap().throughput_percent[0];
        let drawn = machine.drawn(3, 12).effects.smt.unwrap().throughput_percent[0].typical;
        assert_eq!(between(estimate, smt), drawn);
        assert!(positions.is_sorted_by(|one, next| one.0 < next.0), "{positions:?}");
    }

    /// A sampled machine is valid: its file can be written and read, closer CPUs stay closer, and limits hold.
    #[test]
    fn sampled_presets_are_valid_machines() {
        for (name, _) in crate::presets() {
            let machine = Machine::preset(name).unwrap();
            assert!(machine.is_uncertain(), "{name}");
            for draw in 1..=6 {
                let drawn = machine.drawn(draw, 6);
                assert_eq!(Machine::from_toml("drawn", &drawn.to_toml()).unwrap().topology, machine.topology);
                let lines = drawn.effects.locks.as_ref().unwrap().line_transfer_ns;
                assert!(lines.is_sorted_by_key(|line| line.typical), "{name} {lines:?}");
                let typical = |machine: &Machine| -> Vec<u64> {
                    machine.effects.clone().estimates().iter().map(|(_, one)| one.typical).collect()
                };
                assert_ne!(typical(&drawn), typical(&machine), "{name}");
                for (group, one) in drawn.effects.clone().estimates() {
                    assert!((one.low..=one.high).contains(&one.typical), "{name} {group}");
                }
            }
        }
        assert!(!Machine::from_synthetic("core:2 pu:2").unwrap().is_uncertain());
    }
}
