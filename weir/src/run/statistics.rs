// SPDX-License-Identifier: GPL-2.0-only
//! Live statistics: one line per interval, over all tasks of the machine.

use super::scheduler::{Counts, Loaded};
use crate::args::Format;
use crate::output::print;
use anyhow::Result;
use ids::Nanos;
use kernel_link::watch::{Interval, Sample, Watch};
use report::count;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Number of lines after which the table head is repeated.
const LINES: u64 = 20;

const HEAD: &str = "    time  switches/s  wakeups/s  wait p50       p99     p99.9     busy     sched\n";

/// Samples machine-wide counters periodically and prints the differences.
pub struct Statistics {
    watch: Watch,
    format: Format,
    /// Print to standard error.
    beside: bool,
    every: Duration,
    began: Instant,
    /// Time of the next line.
    due: Instant,
    lines: u64,
    last: Sample,
    counts: Counts,
}

impl Statistics {
    /// Starts statistics with one line per `every`, printed to standard error if `beside` another document.
    pub fn start(every: Duration, format: Format, beside: bool) -> Result<Statistics> {
        let watch = Watch::start()?;
        let last = watch.sample()?;
        let began = Instant::now();
        Ok(Statistics {
            watch,
            format,
            beside,
            every,
            began,
            due: began + every,
            lines: 0,
            last,
            counts: Counts::default(),
        })
    }

    /// Prints a line if one is due. Returns false if the reader has closed the pipe.
    pub fn tell_if_due(&mut self, scheduler: Option<&Loaded<'_>>) -> Result<bool> {
        let now = Instant::now();
        if now < self.due {
            return Ok(true);
        }
        // A late line does not shorten the interval to the next.
        self.due = (self.due + self.every).max(now);
        let sample = self.watch.sample()?;
        let counts = scheduler.map(Loaded::counts).transpose()?.unwrap_or_default();
        let (interval, new) = (sample.since(&self.last), counts.since(&self.counts));
        (self.last, self.counts) = (sample, counts);
        let elapsed = Nanos((now - self.began).as_nanos() as u64);
        let text = match self.format {
            Format::Json => line_of_json(elapsed, scheduler.map(Loaded::name), &interval, &new),
            Format::Text | Format::Csv => {
                let head = if self.lines.is_multiple_of(LINES) { HEAD } else { "" };
                head.to_owned() + &line_of_text(elapsed, &interval, &new)
            }
        };
        self.lines += 1;
        if self.beside {
            crate::output::tell(&text);
            return Ok(true);
        }
        print(&text)
    }
}

fn line_of_json(elapsed: Nanos, scheduler: Option<&str>, interval: &Interval, new: &Counts) -> String {
    let latency = interval.wakeup_latency;
    let [mean, p50, p90, p99, p999, max] =
        [latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(|time| time.0);
    let line: Value = json!({
        "weir": 1,
        "scheduler": scheduler.unwrap_or("kernel"),
        "elapsed_ns": elapsed.0,
        "interval_ns": interval.length.0,
        "context_switches": interval.context_switches,
        "wakeups": interval.wakeups,
        "wakeup_latency_ns": {
            "count": latency.count, "mean": mean, "p50": p50, "p90": p90, "p99": p99, "p999": p999, "max": max
        },
        "cpu_ns": {
            "run": interval.busy.since(new.run_time).0,
            "idle": interval.idle.0,
            "scheduler": new.run_time.min(interval.busy).0,
            "offline": interval.offline.0
        },
        "scheduler_events": new.events,
    });
    format!("{line}\n")
}

/// A line of at most 80 columns; the kernel's sched_ext events follow on lines of their own.
fn line_of_text(elapsed: Nanos, interval: &Interval, new: &Counts) -> String {
    let rate = |times: u64| {
        let per_second = u128::from(times) * 1_000_000_000 / u128::from(interval.length.0.max(1));
        count(per_second as u64)
    };
    // Shares refer to online CPU time.
    let all = (interval.busy.0 + interval.idle.0).max(1);
    let share = |time: Nanos| format!("{:.1} %", 100.0 * time.0 as f64 / all as f64);
    let latency = interval.wakeup_latency;
    let [p50, p99, p999] = [latency.p50, latency.p99, latency.p999].map(|time| time.to_string());
    let mut text = format!(
        "{:>6} s  {:>10}  {:>9}  {p50:>8}  {p99:>8}  {p999:>8}  {:>7}  {:>8}\n",
        elapsed.0 / 1_000_000_000,
        rate(interval.context_switches),
        rate(interval.wakeups),
        share(interval.busy),
        share(new.run_time),
    );
    let mut width = 0;
    for (name, times) in &new.events {
        let word = format!("{} {}", name.trim_start_matches("SCX_EV_").to_lowercase(), count(*times));
        if width > 0 && width + 2 + word.len() > 80 {
            text.push('\n');
            width = 0;
        }
        let before = if width == 0 { "          " } else { ", " };
        width += before.len() + word.len();
        text.push_str(before);
        text.push_str(&word);
    }
    if width > 0 {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use measures::LatencySummary;

    fn example() -> (Interval, Counts) {
        let [mean, p50, p90, p99, p999, max] = [9_000, 2_312, 3_000, 45_123, 1_201_000, 999_999_999].map(Nanos);
        let interval = Interval {
            length: Nanos::from_ms(2_000),
            context_switches: 2_469_134,
            wakeups: 1_357_802,
            busy: Nanos::from_ms(3_525),
            idle: Nanos::from_ms(475),
            offline: Nanos::from_ms(2_000),
            wakeup_latency: LatencySummary { count: 7, mean, p50, p90, p99, p999, max },
            wakeup_latencies: Vec::new(),
            cpus: Vec::new(),
        };
        let names = ["SCX_EV_SELECT_CPU_FALLBACK", "SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE", "SCX_EV_REFILL_SLICE_DFL"];
        let counts = Counts {
            run_time: Nanos::from_ms(52),
            events: names.into_iter().map(|name| (name.to_owned(), 12_345)).collect(),
        };
        (interval, counts)
    }

    #[test]
    fn statistics_line_fits_80_columns_and_aligns_with_its_head() {
        let (interval, counts) = example();
        let text = line_of_text(Nanos::from_secs(12_345), &interval, &counts);
        let expected = " 12345 s   1,234,567    678,901   2.31 us   45.1 us   1.20 ms   88.1 %     1.3 %
          dispatch_local_dsq_offline 12,345, refill_slice_dfl 12,345
          select_cpu_fallback 12,345
";
        assert_eq!(text, expected);
        let first = text.lines().next().unwrap();
        assert_eq!((first.len(), HEAD.trim_end().len()), (80, 80));
        let nothing = Interval { context_switches: 0, wakeups: 0, busy: Nanos::ZERO, idle: Nanos::ZERO, ..interval };
        assert!(line_of_text(Nanos::ZERO, &nothing, &Counts::default()).ends_with(" 0.0 %     0.0 %\n"));
    }

    #[test]
    fn statistics_json_line_is_one_document() {
        let (interval, counts) = example();
        let line = line_of_json(Nanos::from_secs(3), Some("bfs"), &interval, &counts);
        assert_eq!(line.lines().count(), 1);
        let value: Value = serde_json::from_str(&line).unwrap();
        let cpu = json!({
            "run": 3_473_000_000u64, "idle": 475_000_000, "scheduler": 52_000_000, "offline": 2_000_000_000u64
        });
        assert_eq!(value["cpu_ns"], cpu);
        assert_eq!(value["wakeup_latency_ns"]["p99"], json!(45_123));
        assert_eq!(value["scheduler_events"]["SCX_EV_SELECT_CPU_FALLBACK"], json!(12_345));
    }

    #[test]
    fn statistics_show_only_new_events() {
        let (_, earlier) = example();
        let mut now = earlier.clone();
        *now.events.get_mut("SCX_EV_REFILL_SLICE_DFL").unwrap() += 5;
        now.run_time += Nanos(7);
        let new = now.since(&earlier);
        assert_eq!(new.run_time, Nanos(7));
        assert_eq!(new.events.into_iter().collect::<Vec<_>>(), [("SCX_EV_REFILL_SLICE_DFL".to_owned(), 5)]);
    }
}
