// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory limit of the process, and the budget that threads allocate from.

use std::fs;
use std::sync::{Condvar, Mutex, PoisonError};

/// Address space reserved for stacks, the allocator and libraries if an rlimit bounds it, in bytes.
const KEPT_BACK: u64 = 24 << 20;
/// Minimum memory limit, in bytes.
pub const LEAST: u64 = 24 << 20;

/// A memory limit and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Limit in bytes.
    pub bytes: u64,
    /// What sets the limit, printed by `-v`.
    pub because: String,
}

impl Limit {
    /// Returns the smallest of: the requested limit (else two thirds of the machine's memory and 9/10 of the
    /// available memory), 9/10 of what the address-space and data rlimits leave, and 8/10 of the cgroup limit.
    pub fn of_system(asked: Option<u64>) -> Limit {
        let mut limits = Vec::new();
        match asked {
            Some(bytes) => limits.push((bytes, "-m".to_owned())),
            None => {
                let pages = rustix::system::sysinfo();
                let all = pages.totalram as u64 * u64::from(pages.mem_unit);
                limits.push((all / 3 * 2, "two thirds of the machine's memory".to_owned()));
                if let Some(available) = available() {
                    limits.push((available / 10 * 9, "nine tenths of the available memory".to_owned()));
                }
            }
        }
        let used = used_address_space();
        for (resource, name) in [(rustix::process::Resource::As, "-v"), (rustix::process::Resource::Data, "-d")] {
            if let Some(most) = rustix::process::getrlimit(resource).current {
                let left = most.saturating_sub(used + KEPT_BACK);
                limits.push((left / 10 * 9, format!("ulimit {name}")));
            }
        }
        if let Some(bytes) = cgroup_limit() {
            limits.push((bytes / 10 * 8, "the limit of the cgroup".to_owned()));
        }
        let (bytes, because) = limits.into_iter().min().expect("at least one limit");
        Limit { bytes: bytes.max(LEAST), because }
    }

    /// Returns a fixed limit, for tests and for library users that set their own.
    pub fn bytes(bytes: u64) -> Limit {
        Limit { bytes: bytes.max(LEAST), because: "the caller".to_owned() }
    }
}

fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn used_address_space() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().next().and_then(|pages| pages.parse().ok()).unwrap_or(0u64);
    pages * rustix::param::page_size() as u64
}

/// Smallest memory limit of the process's cgroup and its ancestors. In a container the cgroup path may not be
/// visible; then the mount's root applies.
fn cgroup_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_start_matches('/');
        loop {
            let limit = fs::read_to_string(format!("{mount}/{path}/{file}")).ok();
            // "max", or a number near 2^63, means no limit.
            limits.extend(limit.and_then(|text| text.trim().parse::<u64>().ok()).filter(|bytes| *bytes < 1 << 60));
            match path.rsplit_once('/') {
                Some((above, _)) => path = above,
                None if !path.is_empty() => path = "",
                None => break,
            }
        }
    }
    limits.into_iter().min()
}

/// Memory budget shared by threads.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

/// A share of the budget, released when dropped.
#[derive(Debug)]
pub struct Lease<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: u64) -> Budget {
        Budget { limit, used: Mutex::new(0), freed: Condvar::new() }
    }

    /// Takes `bytes` if they are free.
    pub fn try_take(&self, bytes: u64) -> Option<Lease<'_>> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        (*used + bytes <= self.limit).then(|| {
            *used += bytes;
            Lease { budget: self, bytes }
        })
    }

    /// Takes `bytes`, blocking until they are free. A request larger than the whole budget succeeds once no lease is
    /// left.
    pub fn take(&self, bytes: u64) -> Lease<'_> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && *used + bytes > self.limit {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        Lease { budget: self, bytes }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        *self.budget.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_leases_are_released_and_oversized_requests_wait_for_all() {
        let budget = Budget::new(100);
        let first = budget.try_take(60).expect("all free");
        assert!(budget.try_take(60).is_none());
        drop(first);
        let large = budget.take(1000);
        assert!(budget.try_take(1).is_none());
        drop(large);
        assert!(budget.try_take(100).is_some());
    }

    #[test]
    fn memory_limit_is_at_most_the_requested_one_and_at_least_the_minimum() {
        let limit = Limit::of_system(Some(64 << 20));
        assert!(limit.bytes <= 64 << 20 && limit.bytes >= LEAST, "{limit:?}");
        assert!(Limit::of_system(None).bytes >= LEAST);
    }
}
