// SPDX-License-Identifier: GPL-2.0-only
//! Frequency of the emulated machine's time stamp counter.
//!
//! It is the host's own. A kernel that measures it on a busy host is wrong by factors: its seconds then last tens of
//! seconds, and every time limit is missed. So the kernel gets it on its command line.

use std::fs;

/// Returns the frequency in kHz; `None` if this host does not show it.
pub fn tsc_khz() -> Option<u32> {
    of_cpuinfo(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// Linux on x86 derives the length of its delay loop from the counter (`lpj_fine` in init/calibrate.c) and shows
/// twice its MHz as "BogoMIPS", with two decimals. The "cpu MHz" line is something else: it follows the CPU's present
/// frequency.
fn of_cpuinfo(text: &str) -> Option<u32> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(": "));
    value("flags")?.split(' ').find(|flag| *flag == "constant_tsc")?;
    let (whole, hundredths) = value("bogomips")?.split_once('.')?;
    let hundredths: u32 = hundredths.parse().ok().filter(|&it: &u32| it < 100 && hundredths.len() == 2)?;
    let khz = whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(10 * hundredths)? / 2;
    (khz >= 100_000).then_some(khz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsc_frequency_is_half_of_bogomips_if_constant() {
        for (flags, bogomips, expected) in [
            ("fpu tsc constant_tsc nonstop_tsc", "5192.28", Some(2_596_140)),
            ("constant_tsc", "8000.00", Some(4_000_000)),
            ("fpu tsc nonstop_tsc", "5192.28", None),
            ("constant_tsc", "5192", None),
            ("constant_tsc", "5192.2", None),
            ("constant_tsc", "62.50", None),
            ("constant_tsc", "99999999999.00", None),
            ("constant_tsc", "", None),
        ] {
            let cpuinfo =
                format!("model name\t: A CPU\ncpu MHz\t\t: 800.000\nflags\t\t: {flags}\nbogomips\t: {bogomips}\n");
            assert_eq!(of_cpuinfo(&cpuinfo), expected, "{flags} {bogomips}");
        }
        assert_eq!(of_cpuinfo("processor\t: 0\nBogoMIPS\t: 48.00\n"), None);
    }
}
