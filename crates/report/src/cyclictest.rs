// SPDX-License-Identifier: GPL-2.0-only
//! Latency test report in the output format of cyclictest.

use crate::RunReport;
use ids::Policy;
use measures::{Periods, RunMeasures, TaskMeasures};
use std::fmt::Write;

/// Output that cyclictest would print at the end, in nanoseconds (`-N`), for the periodic tasks of the part with this
/// label, or of the whole workload. `None` if there are none.
///
/// `Min`, `Act`, `Avg` and `Max` are wakeup latencies; unlike in cyclictest, they exclude the time from the timer
/// interrupt to the wakeup.
pub fn cyclictest(run: &RunReport, label: Option<&str>) -> Option<String> {
    let of_part = |task: &&TaskMeasures| {
        label.is_none_or(|label| task.name.strip_prefix(label).is_some_and(|rest| rest.starts_with('/')))
    };
    let periodic = run.measures.tasks.iter().filter(of_part);
    let mut threads: Vec<(&TaskMeasures, &Periods)> =
        periodic.filter_map(|task| Some((task, task.periods.as_deref()?))).collect();
    // Thread 0 has the shortest interval. The order of the tasks is that of their creation, which noise changes.
    threads.sort_by_key(|(_, periods)| periods.length);
    let (first, _) = threads.first()?;
    let mut text = format!("{} on {}, times in ns\n", run.tags.scheduler, run.tags.machine);
    if let Some(us) = run.tags.cpu_dma_latency_us {
        let _ = writeln!(text, "# /dev/cpu_dma_latency set to {us}us");
    }
    let _ = writeln!(text, "policy: {}: loadavg: {}\n", name(first.policy), loadavg(&run.measures));
    for (number, (thread, periods)) in threads.into_iter().enumerate() {
        let latency = thread.wakeup_latency;
        let _ = writeln!(
            text,
            "T:{number:2} ({:5}) P:{:2} I:{} C:{:7} Min:{:7} Act:{:8} Avg:{:8} Max:{:8}",
            thread.pid,
            priority(thread.policy),
            periods.length.0 / 1000,
            latency.count,
            thread.wakeup_latencies.min().0,
            thread.last_latency.0,
            latency.mean.0,
            latency.max.0,
        );
    }
    Some(text)
}

/// In the format of `/proc/loadavg`: three averages, number of active tasks and of all tasks, last PID.
fn loadavg(measures: &RunMeasures) -> String {
    let [one, five, fifteen] =
        measures.load_average.milli.map(|milli| format!("{}.{:02}", milli / 1000, milli % 1000 / 10));
    let alive = measures.tasks.iter().filter(|task| task.ended.is_none()).count();
    let last = measures.tasks.iter().map(|task| task.pid).max().unwrap_or(0);
    format!("{one} {five} {fifteen} {}/{alive} {last}", measures.load_average.active)
}

fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Fifo(_) => "fifo",
        Policy::RoundRobin(_) => "rr",
        Policy::Batch => "batch",
        Policy::Idle => "idle",
        Policy::Deadline { .. } => "deadline",
        Policy::Other | Policy::Ext => "other",
    }
}

fn priority(policy: Policy) -> u8 {
    match policy {
        Policy::Fifo(priority) | Policy::RoundRobin(priority) => priority,
        _ => 0,
    }
}
