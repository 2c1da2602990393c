// SPDX-License-Identifier: GPL-2.0-only
//! Energy as a ratio: consumption of the machine divided by that of a machine whose cores are all busy at the highest
//! non-turbo frequency for the same time.
//!
//! A busy core consumes f * V(f)^2, where f is relative to that frequency and V(f) = 1 - s + s * f; an idle core
//! consumes the power of its idle state; the rest of the machine consumes a constant power.

use ids::Nanos;
use machine_model::Power;

/// Power of a busy core at the highest non-turbo frequency; the unit is arbitrary.
const CORE: u64 = 1_000_000;

/// Power of a core by its state and frequency.
#[derive(Clone, Debug)]
pub(crate) struct PowerModel {
    base_mhz: u32,
    slope_percent: u64,
    idle_percent: u64,
}

impl PowerModel {
    /// Builds the model from the typical values of the machine's power estimates.
    pub fn new(power: &Power, base_mhz: u32) -> PowerModel {
        let (slope_percent, idle_percent) = (power.voltage_slope_percent.typical, power.idle_percent.typical);
        PowerModel { base_mhz, slope_percent, idle_percent }
    }

    /// Power of a busy core at frequency `mhz`.
    pub fn busy(&self, mhz: u32) -> u64 {
        let (mhz, base) = (u128::from(mhz), u128::from(self.base_mhz));
        let slope = u128::from(self.slope_percent);
        // Voltage in percent of the voltage at the base frequency, multiplied by `base`.
        let voltage = (100 - slope) * base + slope * mhz;
        (u128::from(CORE) * mhz * voltage * voltage / (10_000 * base * base * base)) as u64
    }

    /// Power of an idle core in a state that consumes `percent` of [`CORE`].
    pub fn idle(&self, percent: u64) -> u64 {
        CORE * percent / 100
    }

    /// Power of the rest of the machine, divided by the number of cores.
    pub fn rest(&self) -> u64 {
        CORE * self.idle_percent / (100 - self.idle_percent)
    }

    /// Energy `took` of `cores` cores in `elapsed`, in parts per million of what they consume when all are busy at
    /// the base frequency. `None` if no time has passed.
    pub fn ratio_ppm(&self, took: u128, cores: usize, elapsed: Nanos) -> Option<u64> {
        let time = u128::from(elapsed.0) * cores as u128;
        let all = took + time * u128::from(self.rest());
        (time > 0).then(|| (all * 1_000_000 / (time * u128::from(CORE + self.rest()))) as u64)
    }
}
