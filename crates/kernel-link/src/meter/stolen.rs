// SPDX-License-Identifier: GPL-2.0-only
//! Time taken by interrupts and by the host of a virtual machine, from `/proc/stat`.
//!
//! The file has a line `cpuN user nice system idle iowait irq softirq steal …` for each online CPU, in ticks of 1/100
//! s (USER_HZ, the same on all architectures that Weir supports). A kernel without IRQ_TIME_ACCOUNTING samples
//! interrupts at ticks, which hardly ever coincide with one: the time is then 0, and is charged to the tasks.

use super::Share;
use crate::LinkError;
use ids::Nanos;
use measures::CpuAccount;

const PATH: &str = "/proc/stat";
const USER_TICK: Nanos = Nanos::from_ms(10);

/// Stolen time of each CPU since boot; `None` while it is offline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stolen(Vec<Option<Nanos>>);

impl Stolen {
    /// Reads the current values.
    pub fn now() -> Result<Stolen, LinkError> {
        let text = host::proc::read(PATH)?;
        Stolen::parse(&text).ok_or_else(|| LinkError::Malformed(format!("{PATH} has no line of CPU 0 as expected")))
    }

    fn parse(text: &str) -> Option<Stolen> {
        let mut stolen = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let number = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
            let Some(number) = number else { continue };
            // The fields irq, softirq and steal; guest time, which follows, is part of user time.
            let ticks = words.skip(5).take(3).map(|word| word.parse::<u64>().ok()).sum::<Option<u64>>()?;
            if stolen.len() <= number {
                stolen.resize(number + 1, None);
            }
            stolen[number] = Some(Nanos(ticks * USER_TICK.0));
        }
        (!stolen.is_empty()).then_some(Stolen(stolen))
    }

    /// Moves the run's share of the time stolen since `before` from the run time of the CPUs to their stolen time.
    /// Unknown for CPUs that were offline at one of the two times.
    pub fn charge(&self, before: &Stolen, share: Share, cpus: &mut [CpuAccount]) {
        for (index, cpu) in cpus.iter_mut().enumerate() {
            let of = |stolen: &Stolen| stolen.0.get(index).copied().flatten();
            let (Some(now), Some(then)) = (of(self), of(before)) else { continue };
            let taken = share.of(now.since(then)).min(cpu.run);
            cpu.run -= taken;
            cpu.stolen += taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_subtracted_from_run_time_only() {
        let before = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 9 9 9 9 9 1 2 3 9 9\ncpu2 9 9 9 9 9 0 0 0 9 9\nintr 5\n";
        let after = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 9 9 9 9 9 2 4 7 9 9\ncpu2 9 9 9 9 9 0 0 9 9 9\n\
                     cpu3 9 9 9 9 9 0 0 9 9 9\nintr 5\n";
        let (before, after) = (Stolen::parse(before).unwrap(), Stolen::parse(after).unwrap());
        let cpu = CpuAccount { run: Nanos::from_ms(80), idle: Nanos::from_ms(20), ..CpuAccount::default() };
        let mut cpus = [cpu; 4];
        let whole = Share { part: Nanos(1), whole: Nanos(1) };
        after.charge(&before, whole, &mut cpus);
        let split: Vec<_> = cpus.iter().map(|cpu| (cpu.run.0 / 1_000_000, cpu.stolen.0 / 1_000_000)).collect();
        assert_eq!(split, [(10, 70), (80, 0), (0, 80), (80, 0)]);
        let mut cpus = [cpu; 1];
        after.charge(&before, Share { part: Nanos(1), whole: Nanos(7) }, &mut cpus);
        assert_eq!((cpus[0].run, cpus[0].stolen), (Nanos::from_ms(70), Nanos::from_ms(10)));
        assert_eq!(Stolen::parse("intr 5\n"), None);
        assert_eq!(Stolen::parse("cpu0 1 2 3 4 5 6 x 8\n"), None);
    }
}
