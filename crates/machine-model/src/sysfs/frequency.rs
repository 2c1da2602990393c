// SPDX-License-Identifier: GPL-2.0-only
//! Frequencies of the running machine (`Documentation/admin-guide/pm/cpufreq.rst`).
//!
//! sysfs has the limits and the governor, but not the turbo frequencies by number of active cores, nor how much of a
//! task's time depends on the frequency: the effect stays marked as assumed.

use super::{CPU, Sysfs};
use crate::{Effect, Estimate, Frequency, Governor, Group, Machine};
use ids::CpuId;

/// Number of frequencies between minimum and base that are assumed if the driver lists none.
const STEPS: u64 = 6;
/// Assumed time of a change if the driver does not know it, and the largest that is believed: `CPUFREQ_ETERNAL` is
/// reported as 4 seconds.
const TRANSITION_US: u64 = 10;
const LONGEST_TRANSITION_US: u64 = 10_000;
/// Share of a task's time that does not depend on the frequency, as in the presets.
const MEMORY_BOUND_PERCENT: Estimate = Estimate { low: 5, typical: 20, high: 50 };
/// Range of plausible frequencies in MHz; values outside are ignored.
const MHZ: std::ops::RangeInclusive<u64> = 1..=20_000;

impl Sysfs<'_> {
    /// Adds the frequencies of the fastest online CPU, if sysfs has them.
    pub(super) fn add_frequencies(&self, machine: &mut Machine) {
        let capacity = |cpu: &CpuId| (machine.topology.capacities[cpu.index()], std::cmp::Reverse(cpu.0));
        let Some(cpu) = machine.online_cpus().iter().max_by_key(capacity) else { return };
        if let Some(frequency) = self.frequency(cpu, machine) {
            machine.effects.frequency = Some(frequency);
            machine.effects.assumed.insert(Effect::Frequency);
        }
    }

    fn frequency(&self, cpu: CpuId, machine: &Machine) -> Option<Frequency> {
        let directory = format!("{CPU}/cpu{cpu}/cpufreq");
        let mhz = |file: &str| self.number(&format!("{directory}/{file}")).map(|khz| khz / 1_000);
        let (min, max) = (mhz("cpuinfo_min_freq")?, mhz("cpuinfo_max_freq")?);
        if !MHZ.contains(&min) || !MHZ.contains(&max) || min > max {
            self.caveat(&directory, &format!("frequencies from {min} to {max} MHz"));
            return None;
        }
        let listed = self.available(&directory);
        let base = mhz("base_frequency").or(listed.last().copied()).unwrap_or(max).clamp(min, max);
        let mut steps: Vec<u64> = listed.into_iter().filter(|&mhz| mhz <= base).collect();
        if steps.is_empty() {
            steps = (0..STEPS).map(|step| min + (base - min) * step / (STEPS - 1)).collect();
            steps.dedup();
        }
        let last = *steps.last().expect("the base frequency, at least");
        let turbo = match max > last {
            true => vec![Estimate::exactly(max), Estimate { low: last, typical: last.midpoint(max), high: max }],
            false => Vec::new(),
        };
        let transition = self.number(&format!("{directory}/cpuinfo_transition_latency")).map(|ns| ns.div_ceil(1_000));
        Some(Frequency {
            mhz: steps.into_iter().map(|mhz| mhz as u32).collect(),
            turbo_mhz: turbo,
            domain: self.domain(cpu, &directory, machine),
            turbo_domain: Group::Node,
            turbo_us: 1_000,
            governor: self.governor(&directory),
            sampling_us: 1_000,
            transition_us: transition.filter(|&us| us <= LONGEST_TRANSITION_US).unwrap_or(TRANSITION_US),
            memory_bound_percent: MEMORY_BOUND_PERCENT,
        })
    }

    /// Frequencies that the driver lists, ascending. Drivers that list turbo as a frequency 1 MHz above the base do so
    /// last (acpi-cpufreq); it is left out.
    fn available(&self, directory: &str) -> Vec<u64> {
        let text = self.text(&format!("{directory}/scaling_available_frequencies")).unwrap_or_default();
        let khz = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let mut list: Vec<u64> = khz.map(|khz| khz / 1_000).filter(|mhz| MHZ.contains(mhz)).collect();
        list.sort_unstable();
        list.dedup();
        if let [.., base, turbo] = list[..]
            && turbo == base + 1
        {
            list.pop();
        }
        list
    }

    /// `powersave` of drivers in active mode lets the hardware set the frequency, which rises within a millisecond:
    /// `performance` is nearest.
    fn governor(&self, directory: &str) -> Governor {
        match self.text(&format!("{directory}/scaling_governor")).as_deref() {
            Some("ondemand") => Governor::Ondemand,
            Some("conservative") => Governor::Conservative,
            Some("schedutil") => Governor::Schedutil,
            _ => Governor::Performance,
        }
    }

    /// The smallest group that contains the CPUs with a common frequency.
    fn domain(&self, cpu: CpuId, directory: &str, machine: &Machine) -> Group {
        let related = self.set(&format!("{directory}/related_cpus")).unwrap_or_default();
        let place = machine.topology.place(cpu);
        let within = |group: fn(ids::Place) -> u32| {
            let online = related.iter().filter(|cpu| machine.online_cpus().contains(*cpu));
            online.map(|other| machine.topology.place(other)).all(|other| group(other) == group(place))
        };
        if within(|place| place.core) {
            Group::Core
        } else if within(|place| place.llc) {
            Group::Llc
        } else if within(|place| place.node) {
            Group::Node
        } else {
            Group::Machine
        }
    }
}
