// SPDX-License-Identifier: GPL-2.0-only
//! How busy a CPU was lately: the kernel's PELT signal, in closed form.
//!
//! 1. Time is cut into periods of 1024 units of 1024 ns, and y^32 = 1/2 for the decay y of one period
//!    (`___update_load_sum` in kernel/sched/pelt.c): the half-life is 32 periods, 33.554432 ms.
//! 2. While busy the signal approaches 1, while idle 0, and the distance halves in each half-life. The kernel does this
//!    in steps of a period; here it is continuous, which differs by at most one period's share, 2.2 %.
//! 3. The signal does not depend on the frequency: a nanosecond at half the highest frequency counts as half of one,
//!    and the other half counts as idle when the CPU next idles (`update_rq_clock_pelt`).
//!
//! No floating point: powers of 2 come from a table of 257 entries with lines between them, as everywhere in Weir where a
//! result depends on them.

use ids::Nanos;

/// Half-life of the signal.
pub const HALF_LIFE: Nanos = Nanos(32 * 1024 * 1024);

/// Places of all fractions here.
const PLACES: u32 = 30;
const ONE: u64 = 1 << PLACES;

/// From here on a CPU counts as always busy: what a low frequency made longer was no idle time then
/// (`update_idle_rq_clock_pelt`).
const SATURATED: u64 = ONE - ONE / 1024;

/// `2^(-i/256)` in 2^-30, for i up to 256, by square roots of 1/2.
const POWERS: [u32; 257] = powers();

const fn powers() -> [u32; 257] {
    // roots[k] is 2^(-1/2^k) in 2^-60.
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

/// `2^(-time/HALF_LIFE)` in 2^-30.
fn decay(time: Nanos) -> u64 {
    let halves = time.0 / HALF_LIFE.0;
    if halves >= 40 {
        return 0;
    }
    // 25 places are exactly a half-life; 8 of them choose the entry.
    let rest = time.0 % HALF_LIFE.0;
    let (entry, within) = ((rest >> 17) as usize, rest & 0x1_ffff);
    let (from, to) = (u64::from(POWERS[entry]), u64::from(POWERS[entry + 1]));
    (from - (((from - to) * within) >> 17)) >> halves
}

/// The signal of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Utilization {
    /// In 2^-30.
    value: u64,
    /// Time of work that a lower frequency made longer.
    lost: Nanos,
}

impl Utilization {
    /// Of 1024, rounded down, as `util_avg` is.
    pub fn of_1024(&self) -> u32 {
        (self.value >> (PLACES - 10)) as u32
    }

    /// The CPU was busy for so long, at `mhz` of at most `highest`.
    pub fn busy(&mut self, time: Nanos, mhz: u32, highest: u32) {
        let scaled = (u128::from(time.0) * u128::from(mhz) / u128::from(highest)) as u64;
        self.lost += Nanos(time.0 - scaled);
        self.value = ONE - (((ONE - self.value) * decay(Nanos(scaled))) >> PLACES);
    }

    /// The CPU was idle for so long.
    pub fn idle(&mut self, time: Nanos) {
        let lost = std::mem::take(&mut self.lost);
        let time = if self.value >= SATURATED { time } else { time + lost };
        self.value = (self.value * decay(time)) >> PLACES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many of the milliseconds in which PELT counts.
    fn periods(count_x100: u64) -> Nanos {
        Nanos(count_x100 * 1024 * 1024 / 100)
    }

    fn permille(signal: &Utilization) -> u64 {
        (signal.value * 1000 + ONE / 2) >> PLACES
    }

    #[test]
    fn powers_of_two_are_right_to_the_last_place() {
        for (i, &power) in POWERS.iter().enumerate() {
            let exact = 2f64.powf(-(i as f64) / 256.0) * f64::from(1 << 30);
            assert!((f64::from(power) - exact).abs() <= 0.51, "{i}: {power} {exact}");
        }
        assert_eq!((decay(Nanos(0)), decay(HALF_LIFE), decay(Nanos::MAX)), (ONE, ONE / 2, 0));
    }

    /// From idle: 1 - 2^(-t/32) after t periods; 0.8, where schedutil asks for the highest frequency, after 74.3.
    #[test]
    fn the_ramp_of_a_hog_is_the_closed_form() {
        let expected = [(400, 83), (800, 159), (1600, 293), (3200, 500), (6400, 750), (7430, 800)];
        for (time, share) in expected {
            let mut signal = Utilization::default();
            signal.busy(periods(time), 1, 1);
            assert_eq!(permille(&signal), share, "after {time}/100 periods");
        }
    }

    /// Busy for a, idle for b, again and again: at most (1 - x^a) / (1 - x^(a+b)) with x = 2^(-1/32), and x^b of that
    /// at least.
    #[test]
    fn the_duty_cycle_table_holds() {
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
    fn half_the_frequency_counts_half_and_the_rest_as_idle() {
        let (mut half, mut whole) = (Utilization::default(), Utilization::default());
        half.busy(periods(800), 500, 1000);
        whole.busy(periods(400), 1000, 1000);
        assert_eq!(half.value, whole.value);
        half.idle(periods(100));
        whole.idle(periods(500));
        assert_eq!(half.value, whole.value);
    }
}
