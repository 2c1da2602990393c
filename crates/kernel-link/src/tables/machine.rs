// SPDX-License-Identifier: GPL-2.0-only
//! What `/proc` tells of the whole machine: busy and stolen time, and names of interrupts.

use crate::LinkError;
use ids::Nanos;
use std::collections::BTreeMap;

/// One tick of `/proc/stat` (USER_HZ, the same on all architectures that Weir supports).
const TICK: u64 = 10_000_000;

/// Sums over all CPUs since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time in tasks and interrupts.
    pub busy: Nanos,
    /// Time that the hypervisor took.
    pub steal: Nanos,
}

impl Times {
    /// Current values.
    pub fn now() -> Result<Times, LinkError> {
        let text = host::proc::read("/proc/stat")?;
        Times::parse(&text)
            .ok_or_else(|| LinkError::Malformed("/proc/stat does not begin with cpu and times".to_owned()))
    }

    fn parse(text: &str) -> Option<Times> {
        let mut words =
            text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(|word| word.parse::<u64>().ok());
        let mut next = || words.next().flatten();
        let (user, nice, system, _idle, _iowait) = (next()?, next()?, next()?, next()?, next()?);
        let (irq, softirq, steal) = (next()?, next()?, next()?);
        Some(Times { busy: Nanos((user + nice + system + irq + softirq) * TICK), steal: Nanos(steal * TICK) })
    }

    /// Time since earlier values.
    pub fn since(&self, earlier: &Times) -> Times {
        Times { busy: self.busy.since(earlier.busy), steal: self.steal.since(earlier.steal) }
    }
}

/// Names of the device interrupts, by number.
pub fn interrupt_names() -> Result<BTreeMap<u32, String>, LinkError> {
    Ok(parse_names(&host::proc::read("/proc/interrupts")?))
}

fn parse_names(text: &str) -> BTreeMap<u32, String> {
    let name = |line: &str| {
        let (number, rest) = line.trim_start().split_once(':')?;
        // Counts by CPU, then chip, line and trigger, and the devices last.
        let devices = rest.split_whitespace().skip_while(|word| word.parse::<u64>().is_ok()).last()?;
        Some((number.parse().ok()?, devices.to_owned()))
    };
    text.lines().filter_map(name).collect()
}

/// Names of softirqs, in the order of include/linux/interrupt.h.
const SOFTIRQS: [&str; 10] =
    ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

/// Name of a source of `tables.bpf.c`.
pub fn source_name(source: u32, number: u32, names: &BTreeMap<u32, String>) -> String {
    match source {
        0 => {
            let name = names.get(&number).map(|name| format!(" {name}")).unwrap_or_default();
            format!("irq {number}{name}")
        }
        1 => format!("softirq {}", SOFTIRQS.get(number as usize).copied().unwrap_or("?")),
        2 => "local timer".to_owned(),
        3 => "reschedule".to_owned(),
        4 => "call function".to_owned(),
        _ => "call function single".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_excludes_idle_and_stolen_time() {
        let times = Times::parse("cpu  10 1 5 1000 7 2 3 40 0 0\ncpu0 1 1\n").unwrap();
        assert_eq!((times.busy, times.steal), (Nanos::from_ms(210), Nanos::from_ms(400)));
        assert_eq!(Times::parse("cpu  10 1 5\n"), None);
        assert_eq!(Times::parse("intr 5\n"), None);
    }

    #[test]
    fn interrupts_are_named_by_number() {
        let names = parse_names(
            "           CPU0       CPU1\n  4:    12    0  IO-APIC  4-edge  ttyS0\nLOC:  5 6  Local timer\n",
        );
        assert_eq!(names, BTreeMap::from([(4, "ttyS0".to_owned())]));
        assert_eq!(source_name(0, 4, &names), "irq 4 ttyS0");
        assert_eq!(source_name(0, 5, &names), "irq 5");
        assert_eq!(source_name(1, 7, &names), "softirq sched");
        assert_eq!(source_name(5, 0, &names), "call function single");
    }
}
