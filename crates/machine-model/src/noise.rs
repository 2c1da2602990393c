// SPDX-License-Identifier: GPL-2.0-only
//! What differs between two runs of the same thing on a machine, and by how much: one size for each source.
//!
//! A size is a [`Spread`]: quantiles as they were measured, so that no shape has to be assumed. `docs/noise.md` says
//! where the numbers come from and how to measure them again.

use std::fmt;
use std::str::FromStr;

/// How likely a value is at most each quantile of a [`Spread`], in parts per million.
pub const PROBABILITIES_PPM: [u64; 11] =
    [0, 10_000, 50_000, 100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 990_000, 1_000_000];

/// A distribution: its values at [`PROBABILITIES_PPM`], with straight lines between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spread([i64; 11]);

impl Spread {
    /// Always 0.
    pub const NONE: Spread = Spread([0; 11]);

    /// From the least value, the quantiles at 1, 5, 10, 25, 50, 75, 90, 95 and 99 %, and the greatest. `None` if one is
    /// below the one before it.
    pub fn new(quantiles: [i64; 11]) -> Option<Spread> {
        quantiles.is_sorted().then_some(Spread(quantiles))
    }

    /// The quantiles.
    pub fn quantiles(&self) -> &[i64; 11] {
        &self.0
    }

    /// Whether it is always 0.
    pub fn is_none(&self) -> bool {
        self.0 == [0; 11]
    }

    /// The value that is at least as large as `uniform / 2^32` of all, rounded down.
    pub fn at(&self, uniform: u32) -> i64 {
        let position = u64::from(uniform) * 1_000_000;
        let above = PROBABILITIES_PPM.iter().position(|&ppm| ppm << 32 > position).expect("it is below 1");
        let (low, high) = (PROBABILITIES_PPM[above - 1] << 32, PROBABILITIES_PPM[above] << 32);
        let (from, to) = (i128::from(self.0[above - 1]), i128::from(self.0[above]));
        let part = (to - from) * i128::from(position - low) / i128::from(high - low);
        (from + part) as i64
    }
}

/// One of the kernel's own threads, or anything else that wakes up now and then and is not the workload's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackgroundThread {
    /// Its name; with `each_cpu` the number of the CPU follows after a slash.
    pub name: String,
    /// One on each CPU, which never leaves it; otherwise there is one, which may run anywhere.
    pub each_cpu: bool,
    /// Its nice value.
    pub nice: i8,
    /// From the end of one stretch of work to the next wakeup, in microseconds.
    pub sleep_us: Spread,
    /// How long it works then, in nanoseconds.
    pub work_ns: Spread,
}

/// A source of noise, to be switched off alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoiseSource {
    /// When tasks start.
    Starts,
    /// How much work each run, task and segment is.
    Work,
    /// What strikes a task while it works and is no tick: interrupts, and what it stalls on.
    Disturbances,
    /// Where the grid of ticks lies, and how far each tick is off it.
    Ticks,
    /// What comes first of what is due at the same time.
    Order,
    /// The kernel's own threads.
    Threads,
    /// How late timers fire, and how long idle CPUs take to wake up.
    Wakeups,
    /// How long the kernel's own code takes: wakeups, context switches, interrupts.
    Kernel,
    /// What the host takes from a virtual machine.
    Steal,
}

impl NoiseSource {
    /// All of them.
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

    /// Its name in files and on command lines.
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
        found.ok_or_else(|| format!("no such source of noise: {word:?}; there are {}", names.join(", ")))
    }
}

/// What a seed draws on a machine. Seed 0 draws nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Noise {
    /// Sources that draw nothing.
    pub off: Vec<NoiseSource>,
    /// How much later a task starts that comes from outside, in nanoseconds.
    pub start_ns: Spread,
    /// Work of a whole run: parts per million more or less.
    pub work_run_ppm: Spread,
    /// Work of each task, on top.
    pub work_task_ppm: Spread,
    /// Each piece of work between two other steps of a task, on top.
    pub work_segment_ppm: Spread,
    /// From one disturbance of a task that works to the next, in nanoseconds of its work. [`Spread::NONE`]: there are none.
    pub disturbance_every_ns: Spread,
    /// How long a disturbance lasts, in nanoseconds, whatever the length of the piece of work that it strikes.
    pub disturbance_ns: Spread,
    /// How long after the common grid each tick comes, in nanoseconds. Where that grid lies is always drawn.
    pub tick_ns: Spread,
    /// How much longer the way out of an idle state takes, in parts per million of `idle_exit_ns`.
    pub idle_exit_ppm: Spread,
    /// How late a timer fires, in nanoseconds.
    pub timer_ns: Spread,
    /// How much longer a wakeup takes, in parts per million of `wakeup_ns`.
    pub wakeup_ppm: Spread,
    /// How much longer a context switch takes, in parts per million of `context_switch_ns`.
    pub switch_ppm: Spread,
    /// How much longer a tick or another interrupt takes, in parts per million of `tick_ns` and `interrupt_ns`.
    pub interrupt_ppm: Spread,
    /// The kernel's own threads.
    pub threads: Vec<BackgroundThread>,
    /// From the end of one theft by the host to the next, for each CPU, in microseconds. [`Spread::NONE`]: never.
    pub steal_every_us: Spread,
    /// How long it lasts, in nanoseconds.
    pub steal_ns: Spread,
}

impl Noise {
    /// Whether this source draws anything.
    pub fn has(&self, source: NoiseSource) -> bool {
        !self.off.contains(&source)
    }

    /// Switches a source off.
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
    fn a_spread_is_drawn_by_lines_between_its_quantiles() {
        let spread = Spread::new([-100, -80, -50, -40, -20, 0, 30, 60, 90, 200, 1_000]).unwrap();
        let at = |ppm: u64| spread.at((((ppm << 32) / 1_000_000) as u32).saturating_add(1));
        assert_eq!(spread.at(0), -100);
        assert_eq!([10_000, 50_000, 250_000, 500_000, 950_000].map(at), [-80, -50, -20, 0, 90]);
        assert_eq!((at(625_000), at(995_000)), (15, 600));
        assert_eq!(spread.at(u32::MAX), 999);
        assert!(Spread::new([0, 0, 0, 0, 2, 1, 2, 2, 2, 2, 2]).is_none());
    }

    #[test]
    fn sources_have_names() {
        for source in NoiseSource::ALL {
            assert_eq!(source.name().parse(), Ok(source));
        }
        let error = "tick".parse::<NoiseSource>().unwrap_err();
        assert_eq!(
            error,
            "no such source of noise: \"tick\"; there are starts, work, disturbances, ticks, order, threads, \
             wakeups, kernel, steal"
        );
        let noise = Noise::default().without(NoiseSource::Order).without(NoiseSource::Order);
        assert_eq!((noise.off.len(), noise.has(NoiseSource::Order), noise.has(NoiseSource::Work)), (1, false, true));
    }

    proptest! {
        #[test]
        fn greater_draws_give_greater_values(mut values in prop::array::uniform11(-1_000_000_000i64..1_000_000_000), a: u32, b: u32) {
            values.sort_unstable();
            let spread = Spread::new(values).unwrap();
            let (low, high) = (spread.at(a.min(b)), spread.at(a.max(b)));
            prop_assert!(values[0] <= low && low <= high && high <= values[10]);
        }
    }
}
