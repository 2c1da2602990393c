// SPDX-License-Identifier: GPL-2.0-only
//! Identifiers and units that all crates share: CPUs and topology, tasks, dispatch queues, times.
//!
//! Newtypes prevent confusing a CPU with a task or a duration with a count. A type that only two crates share belongs
//! into the lower one of them, not here.

mod cpu_set;
mod mask_groups;
mod placement;
mod topology;

pub use cpu_set::{CpuSet, ParseCpuSetError};
pub use mask_groups::{GroupId, MaskGroups};
pub use placement::Placement;
pub use topology::{Locality, Place, Topology, TopologyError};

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// A logical CPU, numbered from 0 as in Linux, below [`MAX_CPUS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CpuId(pub u32);

/// Largest number of CPUs that Weir simulates. `struct cpumask` in a sched_ext object has room for 8192.
pub const MAX_CPUS: usize = 4096;

impl CpuId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A task of a run. Numbers are dense from 0 in the order of creation and never reused within a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u32);

impl TaskId {
    /// No task: the idle task of a CPU, or the waker of a wakeup by an interrupt.
    pub const NONE: TaskId = TaskId(u32::MAX);

    /// The number as an index. Must not be called on [`TaskId::NONE`].
    pub fn index(self) -> usize {
        debug_assert!(self != TaskId::NONE);
        self.0 as usize
    }

    /// Converts [`TaskId::NONE`] to `None`.
    pub fn some(self) -> Option<TaskId> {
        (self != TaskId::NONE).then_some(self)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == TaskId::NONE { f.write_str("-") } else { write!(f, "{}", self.0) }
    }
}

/// A sched_ext dispatch queue by its 64-bit number; bit 63 marks the built-in queues of the kernel (contract O1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DsqId(pub u64);

impl DsqId {
    /// Bit that is set in the number of every built-in queue.
    pub const BUILTIN: u64 = 1 << 63;
    /// An invalid queue number.
    pub const INVALID: DsqId = DsqId(Self::BUILTIN);
    /// The FIFO of the task's NUMA node.
    pub const GLOBAL: DsqId = DsqId(Self::BUILTIN | 1);
    /// The local FIFO of the CPU to which the operation refers.
    pub const LOCAL: DsqId = DsqId(Self::BUILTIN | 2);
    /// The per-CPU FIFO of the bypass mode.
    pub const BYPASS: DsqId = DsqId(Self::BUILTIN | 3);
    /// Combined with a CPU number in the low 32 bits: the local FIFO of that CPU.
    pub const LOCAL_ON: u64 = Self::BUILTIN | 1 << 62;

    /// Number of the local queue of a particular CPU.
    pub fn local_on(cpu: CpuId) -> DsqId {
        DsqId(Self::LOCAL_ON | u64::from(cpu.0))
    }

    /// Whether the queue is built into the kernel.
    pub fn is_builtin(self) -> bool {
        self.0 & Self::BUILTIN != 0
    }

    /// CPU of a `LOCAL_ON` number.
    pub fn local_cpu(self) -> Option<CpuId> {
        (self.0 & Self::LOCAL_ON == Self::LOCAL_ON).then_some(CpuId(self.0 as u32))
    }
}

impl fmt::Display for DsqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DsqId::INVALID => f.write_str("invalid"),
            DsqId::GLOBAL => f.write_str("global"),
            DsqId::LOCAL => f.write_str("local"),
            DsqId::BYPASS => f.write_str("bypass"),
            id => match id.local_cpu() {
                Some(cpu) => write!(f, "local:{cpu}"),
                None => write!(f, "{:#x}", id.0),
            },
        }
    }
}

/// A point in time or a duration, in integer nanoseconds. The clock of a run starts at 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero duration, or the start of the run.
    pub const ZERO: Nanos = Nanos(0);
    /// A time after every event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Converts from microseconds.
    pub const fn from_us(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// Converts from milliseconds.
    pub const fn from_ms(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// Converts from seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// Returns the time from `earlier` to `self`, or 0 if `earlier` is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// A sample of the exponential distribution with this mean, for 32 random bits. Integer arithmetic only, so that it
    /// is identical on every host: -ln(u) = -log2(u) * ln 2, and the digits of log2 are computed by squaring.
    pub fn exponential(self, word: u32) -> Nanos {
        const LN_2: u64 = 2_977_044_472; // 2^32 ln 2
        // An odd number of 33 bits: never 0 and never 1 as a fraction.
        let u = (u64::from(word) << 1) | 1;
        let whole = u.ilog2();
        let mut fraction = (u << (31 - whole.min(31))) >> whole.saturating_sub(31);
        let mut log2 = u64::from(whole) << 16;
        for digit in (0..16).rev() {
            fraction = (fraction * fraction) >> 31;
            if fraction >> 32 != 0 {
                fraction >>= 1;
                log2 |= 1 << digit;
            }
        }
        let bits = (33 << 16) - log2;
        Nanos(((u128::from(self.0) * u128::from(bits) * u128::from(LN_2)) >> 48) as u64)
    }

    /// The exact time as text, for command lines and messages: [`FromStr`] parses it back. [`fmt::Display`] rounds,
    /// for reports.
    pub fn exact(self) -> Exact {
        Exact(self)
    }
}

/// A time that is printed in the largest of the units `s`, `ms`, `us` and `ns` of which it is an integer multiple:
/// `1500ms`, `0s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exact(Nanos);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.0;
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
        let (unit, divisor) = units.into_iter().find(|&(_, divisor)| ns.is_multiple_of(divisor)).unwrap_or(("ns", 1));
        write!(f, "{}{unit}", ns / divisor)
    }
}

/// Panics on a time before the start of a run or after 584 years, which is a bug of Weir. A value that wrapped around
/// would show only later, as a wrong number. The check is also in release builds; whole runs take at most 2 to 5 %
/// longer (`crates/simulator/benches/results.md`).
#[cold]
#[track_caller]
fn out_of_range(left: Nanos, sign: char, right: Nanos) -> u64 {
    panic!("{} ns {sign} {} ns is out of range", left.0, right.0)
}

impl Add for Nanos {
    type Output = Nanos;
    #[inline]
    #[track_caller]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.checked_add(other.0).unwrap_or_else(|| out_of_range(self, '+', other)))
    }
}

impl AddAssign for Nanos {
    #[inline]
    #[track_caller]
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    #[inline]
    #[track_caller]
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.checked_sub(other.0).unwrap_or_else(|| out_of_range(self, '-', other)))
    }
}

impl SubAssign for Nanos {
    #[inline]
    #[track_caller]
    fn sub_assign(&mut self, other: Nanos) {
        *self = *self - other;
    }
}

impl fmt::Display for Nanos {
    /// Formats in the largest unit in which the number is at least 1, with three significant digits: `1.25 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let (unit, divisor) = match ns {
            0..1_000 => return write!(f, "{ns} ns"),
            1_000..1_000_000 => ("us", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        let whole = ns / divisor;
        let thousandths = ns % divisor * 1_000 / divisor;
        match whole {
            0..10 => write!(f, "{whole}.{:02} {unit}", thousandths / 10),
            10..100 => write!(f, "{whole}.{} {unit}", thousandths / 100),
            _ => write!(f, "{whole} {unit}"),
        }
    }
}

/// Error for a text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time with its unit (ns, us, ms, s, min or h), such as 10s or 1.5ms, got {0:?}")]
pub struct ParseNanosError(String);

impl FromStr for Nanos {
    type Err = ParseNanosError;

    /// Parses a number with a unit, such as `10s`, `500ms` or `1.5s`; at most nine digits after the point.
    fn from_str(text: &str) -> Result<Nanos, ParseNanosError> {
        parse_nanos(text).ok_or_else(|| ParseNanosError(text.to_owned()))
    }
}

fn parse_nanos(text: &str) -> Option<Nanos> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let unit_ns: u64 = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let places = fraction.len() as u32;
    if places > 9 {
        return None;
    }
    let (whole, fraction) = (whole.parse::<u64>().ok()?, fraction.parse::<u64>().ok()?);
    let fraction_ns = u128::from(fraction) * u128::from(unit_ns) / 10u128.pow(places);
    whole.checked_mul(unit_ns)?.checked_add(fraction_ns as u64).map(Nanos)
}

/// Scheduling policy of a task, as in `sched_setscheduler(2)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Policy {
    /// SCHED_OTHER, called SCHED_NORMAL in the kernel.
    #[default]
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_EXT.
    Ext,
    /// SCHED_FIFO with a priority of 1 (low) to 99.
    Fifo(u8),
    /// SCHED_RR with a priority of 1 (low) to 99.
    RoundRobin(u8),
    /// SCHED_DEADLINE.
    Deadline {
        /// Longest CPU time per period.
        runtime: Nanos,
        /// Relative deadline: the time after the start of a period within which the task must receive its runtime.
        deadline: Nanos,
        /// Length of the period.
        period: Nanos,
    },
}

impl Policy {
    /// Precedence on a CPU: of two tasks, the kernel runs the one with the larger value first. Policies of the fair and
    /// ext classes share CPUs and are equal.
    pub fn precedence(self) -> u32 {
        match self {
            Policy::Deadline { .. } => 1000,
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => 100 + u32::from(priority),
            Policy::Other | Policy::Batch | Policy::Idle | Policy::Ext => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_parsed_with_their_unit() {
        let good =
            [("0s", 0), ("10s", 10_000_000_000), ("1.5 us", 1_500), ("0.000000001s", 1), ("2min", 120_000_000_000)];
        for (text, ns) in good {
            assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
        }
        for text in
            ["", "10", "s", "-1s", "1.2.3s", "1d", ".s", "1.s", "99999999999999999999s", "9999999h", "0.0000000001s"]
        {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn time_arithmetic_panics_on_overflow() {
        let caught = |what: fn() -> Nanos| *std::panic::catch_unwind(what).unwrap_err().downcast::<String>().unwrap();
        assert_eq!(caught(|| Nanos(3) - Nanos(4)), "3 ns - 4 ns is out of range");
        assert_eq!(caught(|| Nanos(1) + Nanos::MAX), "1 ns + 18446744073709551615 ns is out of range");
        let (mut sum, mut rest) = (Nanos(u64::MAX - 1), Nanos(1));
        sum += Nanos(1);
        rest -= Nanos(1);
        assert_eq!((sum, rest), (Nanos::MAX, Nanos::ZERO));
    }

    #[test]
    fn times_are_printed_with_a_unit_and_three_digits() {
        let text = |ns| Nanos(ns).to_string();
        assert_eq!(text(999), "999 ns");
        assert_eq!(text(1_000), "1.00 us");
        assert_eq!(text(1_257_000), "1.25 ms");
        assert_eq!(text(41_090_000), "41.0 ms");
        assert_eq!(text(123_456_789_000), "123 s");
    }

    #[test]
    fn exact_times_are_printed_in_the_largest_unit_that_divides_them() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (999, "999ns"),
            (1_000, "1us"),
            (1_001, "1001ns"),
            (500_000_000, "500ms"),
            (1_500_000_000, "1500ms"),
            (3_600_000_000_000, "3600s"),
            (u64::MAX, "18446744073709551615ns"),
        ];
        for (ns, text) in cases {
            assert_eq!(Nanos(ns).exact().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn exact_times_are_parsed_back_unchanged(ns in any::<u64>(), places in 0u32..19) {
            // A random number is rarely a multiple of a unit larger than a nanosecond, so a rounded one is tested,
            // too.
            for time in [Nanos(ns), Nanos(ns / 10u64.pow(places) * 10u64.pow(places))] {
                prop_assert_eq!(time.exact().to_string().parse(), Ok(time));
            }
        }
    }

    #[test]
    fn dsq_ids_follow_the_kernel_layout() {
        let cpu7 = DsqId::local_on(CpuId(7));
        assert_eq!(cpu7.0, 0xC000_0000_0000_0007);
        assert_eq!(cpu7.local_cpu(), Some(CpuId(7)));
        assert_eq!(DsqId::LOCAL.local_cpu(), None);
        assert!(cpu7.is_builtin() && !DsqId(5).is_builtin());
    }
}
