// SPDX-License-Identifier: GPL-2.0-only
//! A machine as it may be: what is known within limits is drawn between them.
//!
//! 1. Numbers are drawn by groups, not one by one: all lines between CPUs are long or short together, so near stays nearer
//!    than far. Groups are independent.
//! 2. A number is log-uniform between its limits, as it is known to a factor; one whose lower limit is 0 is uniform.
//! 3. Each group has as many equal strata as there are draws, and each draw has another one (a Latin hypercube): few draws
//!    cover the whole range of every number.

use crate::{Effects, Estimate, Machine};

/// SplitMix64 (Steele, Lea, Flood 2014): the same on every host.
struct Random(u64);

impl Random {
    /// A stream for each group of numbers.
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

/// Where between its limits a group lies in this draw: in units of 2^-32.
fn position(group: &str, draw: u64, draws: u64) -> u64 {
    let mut random = Random::of(group);
    let mut strata: Vec<u64> = (0..draws).collect();
    for last in (1..strata.len()).rev() {
        strata.swap(last, random.below(last as u64 + 1) as usize);
    }
    let within = (0..draw).map(|_| random.next() >> 32).last().expect("draws count from 1");
    ((strata[draw as usize - 1] << 32) + within) / draws
}

/// low (high/low)^position, by square roots, which are the same on every host.
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

impl Effects {
    /// Everything that is known within limits, with its group.
    fn estimates(&mut self) -> Vec<(&'static str, &mut Estimate)> {
        let Effects { smt, frequency, idle_states, power, locks } = self;
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
        if let Some(locks) = locks {
            all.extend(locks.line_transfer_ns.iter_mut().map(|one| ("line", one)));
            all.push(("wakeup-hold", &mut locks.wakeup_hold_ns));
            all.extend(locks.acquire_ns.iter_mut().map(|one| ("passage", one)));
            all.push(("storm", &mut locks.spinner_slowdown_percent));
            all.push(("futex", &mut locks.futex_ns));
        }
        all
    }
}

impl Machine {
    /// Whether some number of it is known within limits only.
    pub fn is_uncertain(&self) -> bool {
        self.effects.clone().estimates().iter().any(|(_, estimate)| estimate.low < estimate.high)
    }

    /// Draw number `draw`, from 1, of `draws`: the same machine with other typical numbers. The limits stay.
    ///
    /// # Panics
    /// If there is no such draw.
    pub fn drawn(&self, draw: u64, draws: u64) -> Machine {
        assert!((1..=draws).contains(&draw), "draw {draw} of {draws}");
        let mut machine = self.clone();
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
    fn a_number_is_log_uniform_between_its_limits() {
        let estimate = |low, high| Estimate { low, typical: low, high };
        assert_eq!(between(estimate(100, 400), 0), 100);
        assert_eq!(between(estimate(100, 400), 1 << 31), 200, "half way in logarithms");
        assert_eq!(between(estimate(100, 1_600), 3 << 30), 800);
        assert_eq!(between(estimate(100, 400), (1 << 32) - 1), 400);
        assert_eq!([0, 1 << 31].map(|position| between(estimate(0, 60), position)), [0, 30]);
        assert_eq!(between(Estimate::exactly(7), 1 << 31), 7);
    }

    #[test]
    fn each_draw_has_a_stratum_of_its_own() {
        for draws in [1, 2, 7, 20] {
            let mut strata: Vec<u64> = (1..=draws).map(|draw| (position("line", draw, draws) * draws) >> 32).collect();
            strata.sort_unstable();
            assert_eq!(strata, (0..draws).collect::<Vec<_>>());
        }
        assert_ne!(position("line", 1, 20), position("smt", 1, 20), "groups are independent");
    }

    /// What is drawn is a machine: its file can be written and read, near stays nearer than far, limits are kept.
    #[test]
    fn drawn_presets_are_machines() {
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
