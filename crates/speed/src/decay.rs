// SPDX-License-Identifier: GPL-2.0-only
//! Utilization of a CPU: the kernel's PELT signal, in closed form.
//!
//! 1. Time is divided into periods of 1024 units of 1024 ns, and y^32 = 1/2 for the decay y of one period
//!    (`___update_load_sum` in kernel/sched/pelt.c): the half-life is 32 periods, 33.554432 ms.
//! 2. The signal approaches 1 while the CPU is busy and 0 while it is idle; the distance halves in each half-life.
//!    The kernel updates it in steps of a period; here it is continuous, which differs by at most one period's share,
//!    2.2 %.
//! 3. The signal is frequency-invariant: a nanosecond of execution at half the highest frequency counts as half a
//!    nanosecond; the other half is accounted as idle time when the CPU next becomes idle (`update_rq_clock_pelt`).
//!
//! No floating point, as everywhere in Weir where a result depends on the value: powers of 2 are interpolated
//! linearly in a table of 257 entries.

use ids::Nanos;

/// Half-life of the signal.
pub const HALF_LIFE: Nanos = Nanos(32 * 1024 * 1024);

/// Fractional bits of all fixed-point numbers in this module.
const PLACES: u32 = 30;
const ONE: u64 = 1 << PLACES;

/// From this value on a CPU counts as always busy: the time in `lost` is then not accounted as idle time
/// (`update_idle_rq_clock_pelt`).
const SATURATED: u64 = ONE - ONE / 1024;

/// `2^(-i/256)` in units of 2^-30, for i from 0 to 256; computed from repeated square roots of 1/2.
const POWERS: [u32; 257] = powers();

const fn powers() -> [u32; 257] {
    // roots[k] is 2^(-1/2^k) in units of 2^-60.
    let mut roots = [0u128; 9];
    roots[0] = 1 << 59;
    let mut k = 1;
    while k < 9 {
        roots[k] = (roots[k - 1] << 60).isqrt();
        k += 1;
    }
    let mut table = [0u32; 257];
    let mut i = 0;
    while i <= 256 {
        let (mut power, mut bit) = (1u128 << 60, 0);
        while bit < 9 {
            if i >> bit & 1 == 1 {
                power = (power * roots[8 - bit]) >> 60;
            }
            bit += 1;
        }
        table[i] = ((power + (1 << 29)) >> 30) as u32;
        i += 1;
    }
    table
}

/// `2^(-time/HALF_LIFE)` in units of 2^-30.
fn decay(time: Nanos) -> u64 {
    let halves = time.0 / HALF_LIFE.0;
    if halves >= 40 {
        return 0;
    }
    // A half-life is exactly 2^25 ns; the upper 8 of the 25 bits select the entry.
    let rest = time.0 % HALF_LIFE.0;
    let (entry, within) = ((rest >> 17) as usize, rest & 0x1_ffff);
    let (from, to) = (u64::from(POWERS[entry]), u64::from(POWERS[entry + 1]));
    (from - (((from - to) * within) >> 17)) >> halves
}

/// PELT utilization signal of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Utilization {
    /// In units of 2^-30.
    value: u64,
    /// Execution time added by frequencies below the highest; accounted as idle time when the CPU next becomes idle.
    lost: Nanos,
}

impl Utilization {
    /// Utilization from 0 to 1024, rounded down, as the kernel's `util_avg`.
    pub fn of_1024(&self) -> u32 {
        (self.value >> (PLACES - 10)) as u32
    }

    /// Accounts `time` of execution at `mhz`, where `highest` is the highest frequency of the machine in MHz.
    pub fn busy(&mut self, time: Nanos, mhz: u32, highest: u32) {
        let scaled = (u128::from(time.0) * u128::from(mhz) / u128::from(highest)) as u64;
        self.lost += Nanos(time.0 - scaled);
        self.value = ONE - (((ONE - self.value) * decay(Nanos(scaled))) >> PLACES);
    }

    /// Accounts `time` of idleness.
    pub fn idle(&mut self, time: Nanos) {
        let lost = std::mem::take(&mut self.lost);
        let time = if self.value >= SATURATED { time } else { time + lost };
        self.value = (self.value * decay(time)) >> PLACES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count_x100` hundredths of a PELT period of 1024 * 1024 ns.
    fn periods(count_x100: u64) -> Nanos {
        Nanos(count_x100 * 1024 * 1024 / 100)
    }

    fn permille(signal: &Utilization) -> u64 {
        (signal.value * 1000 + ONE / 2) >> PLACES
    }

    #[test]
    fn table_of_powers_of_two_is_exact_to_half_a_unit() {
        for (i, &power) in POWERS.iter().enumerate() {
            let exact = 2f64.powf(-(i as f64) / 256.0) * f64::from(1 << 30);
            assert!((f64::from(power) - exact).abs() <= 0.51, "{i}: {power} {exact}");
        }
        assert_eq!((decay(Nanos(0)), decay(HALF_LIFE), decay(Nanos::MAX)), (ONE, ONE / 2, 0));
    }

    /// Starting from idle, utilization is 1 - 2^(-t/32) after t periods; it reaches 0.8, where schedutil requests the
    /// highest frequency, after 74.3 periods.
    #[test]
    fn utilization_of_an_always_busy_cpu_follows_the_closed_form() {
        let expected = [(400, 83), (800, 159), (1600, 293), (3200, 500), (6400, 750), (7430, 800)];
        for (time, share) in expected {
            let mut signal = Utilization::default();
            signal.busy(periods(time), 1, 1);
            assert_eq!(permille(&signal), share, "after {time}/100 periods");
        }
    }

    /// For a task that alternates `busy` periods of execution and `idle` periods of sleep, the maximum is (1 -
    /// x^busy) / (1 - x^(busy+idle)) with x = 2^(-1/32), and the minimum is x^idle times the maximum.
    #[test]
    fn utilization_of_a_periodic_task_stays_within_the_closed_form() {
        for (busy, idle, most, least) in [(1000, 1000, 554, 446), (400, 1600, 236, 167), (1600, 400, 833, 764)] {
            let mut signal = Utilization::default();
            let (mut high, mut low) = (0, 0);
            for _ in 0..200 {
                signal.busy(periods(busy), 1, 1);
                high = permille(&signal);
                signal.idle(periods(idle));
                low = permille(&signal);
            }
            assert_eq!((high, low), (most, least), "{busy}/{idle}");
        }
    }

    #[test]
    fn utilization_at_half_frequency_counts_half_and_the_rest_as_idle() {
        let (mut half, mut whole) = (Utilization::default(), Utilization::default());
        half.busy(periods(800), 500, 1000);
        whole.busy(periods(400), 1000, 1000);
        assert_eq!(half.value, whole.value);
        half.idle(periods(100));
        whole.idle(periods(500));
        assert_eq!(half.value, whole.value);
    }
}
