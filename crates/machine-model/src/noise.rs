// SPDX-License-Identifier: GPL-2.0-only
//! Noise: random variation between runs of the same workload on a machine, with a distribution per source.
//!
//! Each distribution is a [`Spread`] of measured quantiles, so no shape has to be assumed. `docs/explanation/noise.md`
//! documents the sources of the numbers and how to measure them again.

use std::fmt;
use std::str::FromStr;

/// Cumulative probabilities of the quantiles of a [`Spread`], in parts per million.
pub const PROBABILITIES_PPM: [u64; 11] =
    [0, 10_000, 50_000, 100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 990_000, 1_000_000];

/// A distribution: its quantiles at [`PROBABILITIES_PPM`], interpolated linearly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spread([i64; 11]);

impl Spread {
    /// Constant 0.
    pub const NONE: Spread = Spread([0; 11]);

    /// Creates a distribution from its minimum, the quantiles at 1, 5, 10, 25, 50, 75, 90, 95 and 99 %, and its
    /// maximum. `None` if they decrease.
    pub fn new(quantiles: [i64; 11]) -> Option<Spread> {
        quantiles.is_sorted().then_some(Spread(quantiles))
    }

    /// Quantiles.
    pub fn quantiles(&self) -> &[i64; 11] {
        &self.0
    }

    /// Returns whether it is constant 0.
    pub fn is_none(&self) -> bool {
        self.0 == [0; 11]
    }

    /// Quantile at probability `uniform / 2^32`, rounded down.
    pub fn at(&self, uniform: u32) -> i64 {
        let position = u64::from(uniform) * 1_000_000;
        let above = PROBABILITIES_PPM.iter().position(|&ppm| ppm << 32 > position).expect("the position is below 1");
        let (low, high) = (PROBABILITIES_PPM[above - 1], PROBABILITIES_PPM[above]);
        let (from, to) = (self.0[above - 1], self.0[above]);
        // The step times the part of the interval, (position - low) / (high - low), in units of 2^-32: a seeded run
        // samples several spreads per tick, and a division of 128 bits takes as long as all else together.
        let scaled = (u128::from(to.abs_diff(from)) * u128::from(position - (low << 32))) >> 32;
        let width = high - low;
        let part = match u64::try_from(scaled) {
            Ok(scaled) => u128::from(scaled / width),
            Err(_) => scaled / u128::from(width),
        };
        (i128::from(from) + part as i128) as i64
    }
}

/// A kthread, or another thread outside the workload that runs occasionally.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackgroundThread {
    /// Name; with `each_cpu`, a slash and the CPU number are appended.
    pub name: String,
    /// One thread per CPU, pinned to it; otherwise a single thread that may run anywhere.
    pub each_cpu: bool,
    /// Nice value.
    pub nice: i8,
    /// Sleep from the end of one activation to the next wakeup, in microseconds.
    pub sleep_us: Spread,
    /// Work per activation, in nanoseconds.
    pub work_ns: Spread,
}

/// A noise source, which can be disabled separately.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoiseSource {
    /// Start times of tasks.
    Starts,
    /// Amount of work per run, task and segment.
    Work,
    /// Interruptions of a working task other than ticks: interrupts and stalls.
    Disturbances,
    /// Phase of the tick, and jitter of each tick.
    Ticks,
    /// Order of events due at the same time.
    Order,
    /// Kthreads.
    Threads,
    /// Timer delays and idle exit latencies.
    Wakeups,
    /// Duration of kernel code: wakeups, context switches, interrupts.
    Kernel,
    /// CPU time stolen from a virtual machine by its host.
    Steal,
}

impl NoiseSource {
    /// All sources.
    pub const ALL: [NoiseSource; 9] = [
        NoiseSource::Starts,
        NoiseSource::Work,
        NoiseSource::Disturbances,
        NoiseSource::Ticks,
        NoiseSource::Order,
        NoiseSource::Threads,
        NoiseSource::Wakeups,
        NoiseSource::Kernel,
        NoiseSource::Steal,
    ];

    /// Name in files and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            NoiseSource::Starts => "starts",
            NoiseSource::Work => "work",
            NoiseSource::Disturbances => "disturbances",
            NoiseSource::Ticks => "ticks",
            NoiseSource::Order => "order",
            NoiseSource::Threads => "threads",
            NoiseSource::Wakeups => "wakeups",
            NoiseSource::Kernel => "kernel",
            NoiseSource::Steal => "steal",
        }
    }
}

impl fmt::Display for NoiseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for NoiseSource {
    type Err = String;

    fn from_str(word: &str) -> Result<NoiseSource, String> {
        let names = NoiseSource::ALL.map(NoiseSource::name);
        let found = NoiseSource::ALL.into_iter().find(|source| source.name() == word);
        found.ok_or_else(|| format!("unknown noise source {word:?}; expected one of {}", names.join(", ")))
    }
}

/// Noise of a machine for seeded runs. Seed 0 has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Noise {
    /// Disabled sources.
    pub off: Vec<NoiseSource>,
    /// Delay of the start of an externally created task, in nanoseconds.
    pub start_ns: Spread,
    /// Variation of the work of a whole run, in parts per million.
    pub work_run_ppm: Spread,
    /// Additional variation per task, in parts per million.
    pub work_task_ppm: Spread,
    /// Additional variation per piece of work between two other operations, in parts per million.
    pub work_segment_ppm: Spread,
    /// Work between two disturbances of a task, in nanoseconds. [`Spread::NONE`]: no disturbances.
    pub disturbance_every_ns: Spread,
    /// Length of a disturbance in nanoseconds, independent of the piece of work it interrupts.
    pub disturbance_ns: Spread,
    /// Delay of each tick after the nominal time, in nanoseconds. The phase is always random.
    pub tick_ns: Spread,
    /// Variation of the idle exit latency, in parts per million of `idle_exit_ns`.
    pub idle_exit_ppm: Spread,
    /// Delay of a timer, in nanoseconds.
    pub timer_ns: Spread,
    /// Variation of a wakeup's cost, in parts per million of `wakeup_ns`.
    pub wakeup_ppm: Spread,
    /// Variation of a context switch's cost, in parts per million of `context_switch_ns`.
    pub switch_ppm: Spread,
    /// Variation of the cost of a tick or interrupt, in parts per million of `tick_ns` and `interrupt_ns`.
    pub interrupt_ppm: Spread,
    /// Kthreads.
    pub threads: Vec<BackgroundThread>,
    /// Time between two steals by the host, per CPU, in microseconds. [`Spread::NONE`]: never.
    pub steal_every_us: Spread,
    /// Length of a steal, in nanoseconds.
    pub steal_ns: Spread,
}

impl Noise {
    /// Returns whether this source is enabled.
    pub fn has(&self, source: NoiseSource) -> bool {
        !self.off.contains(&source)
    }

    /// Disables a source.
    pub fn without(mut self, source: NoiseSource) -> Noise {
        if self.has(source) {
            self.off.push(source);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spread_interpolates_linearly_between_quantiles() {
        let spread = Spread::new([-100, -80, -50, -40, -20, 0, 30, 60, 90, 200, 1_000]).unwrap();
        let at = |ppm: u64| spread.at((((ppm << 32) / 1_000_000) as u32).saturating_add(1));
        assert_eq!(spread.at(0), -100);
        assert_eq!([10_000, 50_000, 250_000, 500_000, 950_000].map(at), [-80, -50, -20, 0, 90]);
        assert_eq!((at(625_000), at(995_000)), (15, 600));
        assert_eq!(spread.at(u32::MAX), 999);
        assert!(Spread::new([0, 0, 0, 0, 2, 1, 2, 2, 2, 2, 2]).is_none());
    }

    #[test]
    fn noise_sources_are_parsed_by_name() {
        for source in NoiseSource::ALL {
            assert_eq!(source.name().parse(), Ok(source));
        }
        let error = "tick".parse::<NoiseSource>().unwrap_err();
        assert_eq!(
            error,
            "unknown noise source \"tick\"; expected one of starts, work, disturbances, ticks, order, threads, \
             wakeups, kernel, steal"
        );
        let noise = Noise::default().without(NoiseSource::Order).without(NoiseSource::Order);
        assert_eq!((noise.off.len(), noise.has(NoiseSource::Order), noise.has(NoiseSource::Work)), (1, false, true));
    }

    /// The definition, without limits of word size.
    fn naive(spread: &Spread, uniform: u32) -> i64 {
        let position = i128::from(uniform) * 1_000_000;
        let above = PROBABILITIES_PPM.iter().position(|&ppm| i128::from(ppm) << 32 > position).unwrap();
        let (low, high) = (i128::from(PROBABILITIES_PPM[above - 1]) << 32, i128::from(PROBABILITIES_PPM[above]) << 32);
        let (from, to) = (i128::from(spread.0[above - 1]), i128::from(spread.0[above]));
        (from + (to - from) * (position - low) / (high - low)) as i64
    }

    proptest! {
        #[test]
        fn spread_equals_its_definition(
            mut values in prop::array::uniform11(prop_oneof![-1_000_000i64..1_000_000, i64::MIN / 4..i64::MAX / 4]),
            uniform: u32,
        ) {
            values.sort_unstable();
            let spread = Spread::new(values).unwrap();
            prop_assert_eq!(spread.at(uniform), naive(&spread, uniform));
        }

        #[test]
        fn spread_is_monotonic(mut values in prop::array::uniform11(-1_000_000_000i64..1_000_000_000), a: u32, b: u32) {
            values.sort_unstable();
            let spread = Spread::new(values).unwrap();
            let (low, high) = (spread.at(a.min(b)), spread.at(a.max(b)));
            prop_assert!(values[0] <= low && low <= high && high <= values[10]);
        }
    }
}
