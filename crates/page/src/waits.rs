// SPDX-License-Identifier: GPL-2.0-only
//! Distributions of the times for which tasks waited for a CPU.

use crate::Report;
use crate::plot::SERIES;
use crate::plot::distribution::{NAMED, Series, distribution};
use maud::{Markup, html};
use report::{Buckets, Distributions, Table};

/// Keys of the named percentiles in the JSON, in the order of [`NAMED`].
const KEYS: [&str; NAMED.len()] = ["p50", "p90", "p99", "p999"];

/// Plots of the wakeup latencies and the run delays.
pub fn waits(report: &Report<'_>, table: &Table) -> Markup {
    let wakeup = plot(report, table, "wakeup_latency_ns", |all| &all.wakeup_latency_ns);
    let queue = plot(report, table, "run_delay_ns", |all| &all.run_delay_ns);
    let several = table.setups.iter().any(|setup| setup.runs.len() > 1);
    html! {
        h3 { "Wakeup latency and run delay" }
        @if wakeup.is_none() && queue.is_none() {
            p.quiet { "There are no data on waits: no task waited, or the file is of a version without distributions." }
        } @else {
            ul.legend {
                @for (index, setup) in table.setups.iter().enumerate() {
                    li {
                        svg.sample viewBox="0 0 34 10" aria-hidden="true" {
                            line class={ "line s" (index % usize::from(SERIES)) } x1="0" y1="5" x2="34" y2="5" {}
                        }
                        (setup.name)
                    }
                }
            }
            div.plots {
                @for (title, plot) in [("woken tasks", wakeup), ("woken and preempted tasks", queue)] {
                    @if let Some(plot) = plot { figure { figcaption { (title) } (plot) } }
                }
            }
            p.quiet {
                "Horizontal: waiting time, logarithmic. Vertical: share of waits that were no longer; each step is ten \
                 times rarer. Dots are the percentiles of the table."
                @if several { " A line is the median of the runs, its band all of them." }
            }
        }
    }
}

fn plot(report: &Report<'_>, table: &Table, key: &str, of: fn(&Distributions) -> &Buckets) -> Option<Markup> {
    let named = |setup: usize| {
        let value = |(index, part): (usize, &&str)| {
            let key = format!("{key}.{part}");
            let row = table.rows.iter().find(|row| row.measure.key == key)?;
            Some((index, row.cells[setup].median?))
        };
        KEYS.iter().enumerate().filter_map(value).collect()
    };
    let series = |(index, setup): (usize, &'_ report::Setup)| {
        let details = setup.runs.iter().filter_map(|&run| report.details_of(run)?.distributions.as_ref());
        let runs: Vec<&Buckets> = details.map(of).collect();
        (runs, named(index))
    };
    let all: Vec<_> = table.setups.iter().enumerate().map(series).collect();
    let series: Vec<Series<'_>> =
        table.setups.iter().zip(all).map(|(setup, (runs, named))| Series { name: &setup.name, runs, named }).collect();
    distribution(key, &series)
}
