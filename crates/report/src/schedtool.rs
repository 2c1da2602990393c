// SPDX-License-Identifier: GPL-2.0-only
//! Hotplug test report: the affinity mask of a task before and after CPUs go offline and return, as in Alfred Chen's
//! session of 10 May 2015.

use crate::RunReport;
use crate::numbers::counted;
use ids::{CpuId, CpuSet, Nanos};
use measures::{AffinityChange, Hotplug, TaskMeasures};
use std::fmt::Write;

/// Returns a `schedtool` session that shows the affinity mask of a task before and after each CPU hotplug. The task is the
/// first one whose mask a hotplug changed, in the first run that has such a task. Empty if no run has one.
pub fn affinities(runs: &[RunReport]) -> String {
    runs.iter().find_map(session).unwrap_or_default()
}

fn session(run: &RunReport) -> Option<String> {
    // The CPUs that are offline from the beginning leave at time 0.
    let hotplugs: Vec<&Hotplug> = run.measures.hotplugs.iter().filter(|change| change.time.0 > 0).collect();
    // The kernel widens the mask of a task that may run on offline CPUs only, at the latest when the task wakes up.
    let left = |cpu: CpuId| hotplugs.iter().any(|change| change.cpu == cpu && !change.online);
    let is_moved = |task: &&TaskMeasures| {
        !task.kernel_thread && task.affinity_changes.iter().any(|change| change.from.iter().all(left))
    };
    let moved: Vec<&TaskMeasures> = run.measures.tasks.iter().filter(is_moved).collect();
    let first = moved.first()?;
    let more = match moved.len() {
        1 => String::new(),
        all => format!(", the first of {}", counted(all as u64, "task")),
    };
    let (scheduler, machine) = (&run.tags.scheduler, &run.tags.machine);
    let mut text = format!("{scheduler} on {machine}: affinity of {}{more} whose mask changed\n", first.name);
    let mut previous = Nanos::ZERO;
    for hotplug in &hotplugs {
        text += &mask(first, &before(first, begin(first, hotplug, previous)));
        let path = format!("/sys/devices/system/cpu/cpu{}/online", hotplug.cpu.0);
        let _ = writeln!(text, "# echo {} > {path}    (done at {})", u8::from(hotplug.online), hotplug.time);
        previous = hotplug.time;
    }
    text += &mask(first, &before(first, Nanos::MAX));
    Some(text)
}

/// When this change of CPUs began to change the mask of the task. A CPU goes offline in steps: the kernel widens the mask
/// some milliseconds before the CPU is gone.
fn begin(task: &TaskMeasures, hotplug: &Hotplug, previous: Nanos) -> Nanos {
    let within = |change: &&AffinityChange| {
        change.time > previous && change.time <= hotplug.time && change.from.contains(hotplug.cpu) && !hotplug.online
    };
    task.affinity_changes.iter().find(within).map_or(hotplug.time, |change| change.time)
}

/// Mask of the task just before this time.
fn before(task: &TaskMeasures, time: Nanos) -> CpuSet {
    let changes = &task.affinity_changes;
    match changes.iter().find(|change| change.time >= time) {
        Some(next) => next.from.clone(),
        None => changes.last().map_or_else(|| task.cpus_allowed.clone(), |last| last.to.clone()),
    }
}

fn mask(task: &TaskMeasures, cpus: &CpuSet) -> String {
    format!("# schedtool {}\nPID {:5}: AFFINITY {}\n", task.pid, task.pid, hexadecimal(cpus))
}

/// `0x2` for CPU 1.
fn hexadecimal(cpus: &CpuSet) -> String {
    let mut digits: Vec<u32> = Vec::new();
    for cpu in cpus.iter() {
        let digit = cpu.index() / 4;
        digits.resize(digits.len().max(digit + 1), 0);
        digits[digit] |= 1 << (cpu.index() % 4);
    }
    let text: String = digits.iter().rev().filter_map(|&digit| char::from_digit(digit, 16)).collect();
    format!("0x{}", if text.is_empty() { "0" } else { &text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_masks_are_hexadecimal_of_any_length() {
        for (cpus, text) in [("1", "0x2"), ("0-3", "0xf"), ("0,64", "0x10000000000000001"), ("", "0x0")] {
            let cpus = if cpus.is_empty() { CpuSet::new() } else { cpus.parse().unwrap() };
            assert_eq!(hexadecimal(&cpus), text);
        }
    }
}
