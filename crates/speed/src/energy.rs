// SPDX-License-Identifier: GPL-2.0-only
//! Energy as a ratio: what the machine took, compared with all cores busy at the last frequency without turbo for the
//! same time.
//!
//! A busy core takes f * V(f)^2, where f is relative to that frequency and V(f) = 1 - s + s * f; an idle one what its
//! state takes; the rest of the machine a constant.

use ids::Nanos;
use machine_model::Power;

/// A busy core at the last frequency without turbo.
const CORE: u64 = 1_000_000;

/// Power by state.
#[derive(Clone, Debug)]
pub(crate) struct PowerModel {
    base_mhz: u32,
    slope_percent: u64,
    idle_percent: u64,
}

impl PowerModel {
    /// From the machine's numbers.
    pub fn new(power: &Power, base_mhz: u32) -> PowerModel {
        let (slope_percent, idle_percent) = (power.voltage_slope_percent.typical, power.idle_percent.typical);
        PowerModel { base_mhz, slope_percent, idle_percent }
    }

    /// What a busy core takes at this frequency.
    pub fn busy(&self, mhz: u32) -> u64 {
        let (mhz, base) = (u128::from(mhz), u128::from(self.base_mhz));
        let slope = u128::from(self.slope_percent);
        // Voltage in percent of that at the base, times the base.
        let voltage = (100 - slope) * base + slope * mhz;
        (u128::from(CORE) * mhz * voltage * voltage / (10_000 * base * base * base)) as u64
    }

    /// What a core takes in a state of so many percent.
    pub fn idle(&self, percent: u64) -> u64 {
        CORE * percent / 100
    }

    /// What the rest of the machine takes for each core.
    pub fn rest(&self) -> u64 {
        CORE * self.idle_percent / (100 - self.idle_percent)
    }

    /// What `cores` took in `elapsed`, in parts per million of what they would have taken when busy. `None` if no time
    /// has passed.
    pub fn ratio_ppm(&self, took: u128, cores: usize, elapsed: Nanos) -> Option<u64> {
        let time = u128::from(elapsed.0) * cores as u128;
        let all = took + time * u128::from(self.rest());
        (time > 0).then(|| (all * 1_000_000 / (time * u128::from(CORE + self.rest()))) as u64)
    }
}
