// SPDX-License-Identifier: GPL-2.0-only
//! CPU time of child processes, which unlike elapsed time does not depend on other load of the host.

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::fs;
use std::time::Duration;

/// User and system time of all children that have exited, their descendants included.
pub fn of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("the CPU time of children")?;
    let micros = |time: TimeVal| (time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs();
    Ok(Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time())))
}

/// User and system time of a running child over all its threads; `None` if it does not exist.
pub fn of(child: u32) -> Option<Duration> {
    sum(&fs::read_to_string(format!("/proc/{child}/stat")).ok()?)
}

/// Sum of fields 14 and 15 of proc(5), in ticks of 10 ms. The second field, the name in parentheses, may contain any
/// character.
fn sum(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(14 - 3).map(|field| field.parse::<u64>().ok());
    Some(Duration::from_millis((fields.next()?? + fields.next()??) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_fields_are_counted_after_the_name() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194304 1 2 3 4 110 12 13 14 20 0 1 0 99 1000";
        assert_eq!(sum(stat), Some(Duration::from_millis(1220)));
        assert_eq!(sum("7 (a) R 1"), None);
    }

    #[test]
    fn cpu_time_of_this_process_increases_with_work() {
        let own = || of(std::process::id()).unwrap();
        let before = own();
        while own() < before + Duration::from_millis(20) {}
        assert!(of(u32::MAX).is_none());
    }
}
