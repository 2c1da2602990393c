// SPDX-License-Identifier: GPL-2.0-only
//! Run times of the recorder's programs, as measured by themselves while recording (`own_time.bpf.h`).

use std::ops::Sub;

/// Program runs charged to one kind of task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Runs {
    pub runs: u64,
    /// Number of timed runs.
    pub timed: u64,
    /// Total duration of the timed runs, in nanoseconds.
    pub ns: u64,
}

impl Runs {
    /// Minimum number of timed runs for a meaningful mean.
    const ENOUGH: u64 = 16;

    /// Mean duration of a run, if known.
    pub fn mean_ns(self) -> Option<f64> {
        (self.timed >= Runs::ENOUGH).then(|| self.ns as f64 / self.timed as f64)
    }
}

/// All runs, by the task that is charged for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OwnTimes {
    /// Charged to the task that is switched in.
    pub switch: Runs,
    /// Charged to the waker.
    pub wake: Runs,
    /// Charged to the task that writes or reads.
    pub pass: Runs,
    /// Charged to any task, or to none.
    pub other: Runs,
}

impl OwnTimes {
    const CLASSES: usize = 4;
    /// Number of words in `struct own_times` before the classes.
    const BEFORE: usize = 1;

    /// Parses the `struct own_times` of each CPU. `None` if one has an unexpected size.
    pub fn of_cpus(cpus: &[Vec<u8>]) -> Option<OwnTimes> {
        let mut classes = [Runs::default(); OwnTimes::CLASSES];
        for bytes in cpus {
            let (words, rest) = bytes.as_chunks::<8>();
            let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            if !rest.is_empty() || words.len() != OwnTimes::BEFORE + 3 * OwnTimes::CLASSES {
                return None;
            }
            for (class, three) in classes.iter_mut().zip(words[OwnTimes::BEFORE..].chunks(3)) {
                class.runs += three[0];
                class.timed += three[1];
                class.ns += three[2];
            }
        }
        let [switch, wake, pass, other] = classes;
        Some(OwnTimes { switch, wake, pass, other })
    }

    fn classes(&self) -> [Runs; OwnTimes::CLASSES] {
        [self.switch, self.wake, self.pass, self.other]
    }

    /// Number of program runs.
    pub fn runs(&self) -> u64 {
        self.classes().iter().map(|class| class.runs).sum()
    }

    /// Total duration of all runs. If too few runs of a class were timed, the mean of all classes is used for it.
    pub fn total_ns(&self) -> f64 {
        let sum = |of: fn(&Runs) -> u64| self.classes().iter().map(of).sum::<u64>();
        let all = Runs { runs: self.runs(), timed: sum(|class| class.timed), ns: sum(|class| class.ns) };
        let any = all.ns as f64 / all.timed.max(1) as f64;
        self.classes().iter().map(|class| class.runs as f64 * class.mean_ns().unwrap_or(any)).sum()
    }
}

/// Difference of two observations, the earlier one on the right.
impl Sub for OwnTimes {
    type Output = OwnTimes;

    fn sub(self, earlier: OwnTimes) -> OwnTimes {
        let less = |now: Runs, then: Runs| Runs {
            runs: now.runs - then.runs,
            timed: now.timed - then.timed,
            ns: now.ns - then.ns,
        };
        OwnTimes {
            switch: less(self.switch, earlier.switch),
            wake: less(self.wake, earlier.wake),
            pass: less(self.pass, earlier.pass),
            other: less(self.other, earlier.other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(words: [u64; 13]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn own_times_are_summed_over_cpus_and_subtracted() {
        let one = cpu([9, 170, 10, 4_000, 340, 20, 2_000, 0, 0, 0, 17, 1, 100]);
        let other = cpu([3, 170, 10, 2_000, 0, 0, 0, 34, 2, 600, 0, 0, 0]);
        let before = OwnTimes::of_cpus(std::slice::from_ref(&one)).unwrap();
        let both = OwnTimes::of_cpus(&[one, other.clone()]).unwrap();
        assert_eq!(both.switch, Runs { runs: 340, timed: 20, ns: 6_000 });
        assert_eq!(both.switch.mean_ns(), Some(300.0));
        assert_eq!(both.runs(), 340 + 340 + 34 + 17);
        assert_eq!(both - before, OwnTimes::of_cpus(&[other]).unwrap());
        assert_eq!(OwnTimes::of_cpus(&[vec![0; 8]]), None);
    }

    #[test]
    fn program_class_with_few_timed_runs_uses_the_mean_of_all_runs() {
        let times = OwnTimes::of_cpus(&[cpu([0, 200, 20, 8_000, 0, 0, 0, 100, 5, 500, 0, 0, 0])]).unwrap();
        assert_eq!(times.pass.mean_ns(), None);
        // 200 ns for each of 400 runs, and the mean of all 25 timed runs, 340 ns, for each of 100.
        assert_eq!(times.total_ns(), 200.0 * 400.0 + 100.0 * 340.0);
        assert_eq!(OwnTimes::default().total_ns(), 0.0);
    }
}
