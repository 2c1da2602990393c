// SPDX-License-Identifier: GPL-2.0-only
//! Page cache of a machine. `crates/devices` implements it; `docs/explanation/devices.md` has the rules.

use crate::Estimate;

/// Page cache, and write-back of its dirty pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageCache {
    /// Size in MiB.
    pub size_mb: u64,
    /// Share of dirty pages above which kthreads write them back, in percent (`vm.dirty_background_ratio`).
    pub background_percent: u64,
    /// Share of dirty pages above which writers wait, in percent (`vm.dirty_ratio`).
    pub limit_percent: u64,
    /// Interval in which kthreads look for old dirty pages, in milliseconds (`vm.dirty_writeback_centisecs`).
    pub flush_ms: u64,
    /// Age from which a dirty page is old, in milliseconds (`vm.dirty_expire_centisecs`).
    pub expire_ms: u64,
    /// CPU time of a cached read or write besides copying, in nanoseconds.
    pub overhead_ns: Estimate,
    /// Copying, in 10^6 bytes a second.
    pub mb_s: Estimate,
}

impl PageCache {
    /// Defaults of Linux; CPU time as for the RAM disk of `machines/disks/ram.toml`, whose pages are in the same cache.
    pub const DEFAULT: PageCache = PageCache {
        size_mb: 1024,
        background_percent: 10,
        limit_percent: 20,
        flush_ms: 5_000,
        expire_ms: 30_000,
        overhead_ns: Estimate { low: 60, typical: 100, high: 1_000 },
        mb_s: Estimate { low: 600, typical: 20_000, high: 31_000 },
    };

    /// Uncertain constants, with their groups.
    pub(crate) fn estimates(&mut self) -> [(&'static str, &mut Estimate); 2] {
        [("disk-latency", &mut self.overhead_ns), ("disk-rate", &mut self.mb_s)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, Machine};

    #[test]
    fn page_cache_is_read_from_options_and_files_with_the_defaults_of_linux() {
        let mut machine = Machine::from_synthetic("core:2 pu:1").unwrap();
        machine.set_page_cache("64").unwrap();
        let expected = PageCache { size_mb: 64, ..PageCache::DEFAULT };
        assert_eq!(machine.effects.page_cache.as_ref(), Some(&expected));
        machine.set_page_cache("64,limit_percent=50,flush_ms=100").unwrap();
        let expected = PageCache { limit_percent: 50, flush_ms: 100, ..expected };
        assert_eq!(machine.effects.page_cache.as_ref(), Some(&expected));
        assert_eq!(machine.effects.modelled().collect::<Vec<_>>(), [Effect::PageCache]);
        let back = Machine::from_toml("m", &machine.to_toml()).unwrap();
        assert_eq!(back.effects.page_cache, machine.effects.page_cache, "{}", machine.to_toml());
        machine.effects.switch_off(Effect::PageCache);
        assert_eq!(machine.effects.page_cache, None);
    }

    #[test]
    fn wrong_page_cache_options_are_errors() {
        let mut machine = Machine::from_synthetic("core:2 pu:1").unwrap();
        for (text, expected) in [
            ("big", "size_mb is \"big\"; expected"),
            ("0", "size_mb is 0; expected an integer from 1 to"),
            ("64,limit_percent=5", "limit_percent is below background_percent; expected at least as much"),
            ("64,colour=red", "[page_cache] has an unknown key colour"),
            ("64,flush_ms", "\"flush_ms\"; expected key=value"),
        ] {
            let problem = machine.set_page_cache(text).unwrap_err().to_string();
            assert!(problem.starts_with(&format!("--page-cache {text}: {expected}")), "{problem}");
        }
    }
}
