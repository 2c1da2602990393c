// SPDX-License-Identifier: GPL-2.0-only
//! Throughput by cores.

use super::bench::{Bench, Case, Work, head, pairs, short_work, switches_per_second, waited};
use super::{ALL, SCHEDULERS};
use anyhow::Result;

const CPUS: [u32; 7] = [1, 2, 4, 6, 8, 16, ALL];

/// Title, and the workload for a number of CPUs.
type Table = (&'static str, fn(u32) -> String);

const WORKLOADS: [Table; 3] = [
    ("Four tasks per CPU that alternately run for 20 us and sleep for 20 us", |cpus| short_work(cpus, 4, 20)),
    ("The same with 200 us", |cpus| short_work(cpus, 4, 200)),
    ("One pair of tasks per CPU that passes a token back and forth, with 5 us of work each time", pairs),
];

const PROSE: &str = "
## Throughput by cores

Context switches to a task, in thousands per second; in brackets the share of all CPU time that was spent spinning on
locks. On up to 5 cores `nix@amp` is the same as `nix@smp`.";

pub fn print(bench: &Bench) -> Result<()> {
    println!("{PROSE}");
    for (title, workload) in WORKLOADS {
        println!("\n{title}:");
        head(&["cores"], &SCHEDULERS);
        let mut furthest = 0f64;
        for cpus in CPUS {
            let mut row = format!("| {cpus} |");
            for scheduler in SCHEDULERS {
                let workload = Work::Text(workload(cpus));
                let runs = bench.runs(scheduler, &Case { cpus, machine: &bench.preset, workload, options: &[] })?;
                let (rate, apart) = runs.median(switches_per_second)?;
                let (waited, _) = runs.median(waited)?;
                furthest = furthest.max(apart);
                row += &format!(" {:.0} ({:.0} %) |", rate / 1e3, 100.0 * waited);
            }
            println!("{row}");
        }
        println!("\nNo seed is further than {:.1} % from its median.", 100.0 * furthest);
    }
    Ok(())
}
