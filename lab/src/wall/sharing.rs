// SPDX-License-Identifier: GPL-2.0-only
//! MuQSS's solution to the limit of a single queue: the same order of tasks from several queues, by the number of
//! CPUs that share one.

use super::{ALL, Run, simulate, write};
use anyhow::Result;
use std::path::Path;

const CPUS: [u32; 7] = [8, 16, 32, 64, 128, 256, 512];
/// Sharing levels on `server-512`; there `mc` and `smp` mean one queue per node, and `all` means one queue.
const SHARES: [(&str, &str); 6] = [
    ("`bfs`", "bfs"),
    ("none", "muqss,rqshare=0"),
    ("smt", "muqss,rqshare=1"),
    ("llc", "muqss,rqshare=3"),
    ("mc", "muqss,rqshare=2"),
    ("all", "muqss,rqshare=5"),
];

/// Prints two tables, of switches and of waits: `bfs`, and `muqss` by `rqshare`.
pub(super) fn execute(weir: &Path, folder: &Path, preset: &str, milliseconds: u64) -> Result<()> {
    let mut rows = Vec::new();
    for cpus in CPUS {
        write(folder, preset, cpus, ALL, 20)?;
        let play = |(_, scheduler)| simulate(weir, folder, milliseconds, scheduler, &[]);
        rows.push((cpus, SHARES.map(play).into_iter().collect::<Result<Vec<Run>>>()?));
    }
    let columns = SHARES.map(|(name, _)| name).join(" | ");
    let print = |what: &str, cell: fn(&Run) -> String| {
        println!("\n| CPUs, {what} | {columns} |\n|---|---|---|---|---|---|---|");
        for (cpus, runs) in &rows {
            println!("| {cpus} | {} |", runs.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
    };
    print("switches", Run::switches);
    print("p99 of wakeups", Run::wakeup_p99);
    Ok(())
}
