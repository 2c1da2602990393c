// SPDX-License-Identifier: GPL-2.0-only
//! NIX's own tests.

use super::bench::{Bench, Case, Work, head, number};
use super::{ALL, SCHEDULERS};
use anyhow::Result;

const CPUS: [u32; 6] = [2, 4, 6, 8, 16, ALL];
const TESTS: [&str; 4] = ["remote-mk", "ramfs-copy", "ramfs-mk", "ramfs-pmk"];

const PROSE: &str = "
## NIX's own tests

Run times in seconds. `remote-mk` is a build from a remote file server, `ramfs-copy` copies files from one in-memory
file server to another, `ramfs-mk` is a build there, and `ramfs-pmk` runs only its compilers, all at once
([workloads](../../docs/reference/workloads.md)). A build runs one recipe per core at a time.";

pub fn print(bench: &Bench) -> Result<()> {
    println!("{PROSE}");
    let mut furthest = 0f64;
    for test in TESTS {
        head(&[&format!("cores, {test}")], &SCHEDULERS);
        for cpus in CPUS {
            let mut row = format!("| {cpus} |");
            for scheduler in SCHEDULERS {
                let case = Case { cpus, machine: &bench.preset, workload: Work::Named(test), options: &[] };
                let (ns, apart) = bench.runs(scheduler, &case)?.median(|run| number(run, "makespan_ns"))?;
                furthest = furthest.max(apart);
                row += &format!(" {:.3} |", ns / 1e9);
            }
            println!("{row}");
        }
    }
    println!("\nNo seed is further than {:.1} % from its median.", 100.0 * furthest);
    Ok(())
}
