// SPDX-License-Identifier: GPL-2.0-only
//! Memory near the first cores or far from them.

use super::bench::{Bench, Case, Work, number};
use anyhow::Result;

const PROSE: &str = "
## Near and far memory

All compilers of a build at once under `nix@amp`, with the memory of the class `compiler`, all of it on the first node or all
on the last one: run time with the seeds 1 to SEEDS, median. NIX saw the difference below 5 cores and none above. The
cores of a node are the next ones to be used, so with more cores more of them are near the other node too. `cargo xtask
nix --part memory` prints this table alone.

| cores | memory on node 0 | on node 7 | far takes more |
|---|---|---|---|";

/// Minimum number of seeds per row.
const SEEDS: u32 = 5;

pub fn print(bench: &Bench) -> Result<()> {
    let bench = &bench.with_seeds(bench.seeds.max(SEEDS));
    println!("{}", PROSE.replace("SEEDS", &bench.seeds.to_string()));
    for cpus in [1, 2, 4, 5, 6, 8, 16, 32] {
        let time = |node: u32| {
            let workload = format!("build,jobs=64,memory=compiler,placement=node:{node}");
            let case = Case { cpus, machine: &bench.preset, workload: Work::Named(&workload), options: &[] };
            let runs = bench.runs("nix@amp", &case)?;
            runs.median(|run| number(run, "makespan_ns")).map(|(median, _)| median / 1e9)
        };
        let (near, far) = (time(0)?, time(7)?);
        println!("| {cpus} | {near:.2} s | {far:.2} s | {:+.1} % |", 100.0 * (far / near - 1.0));
    }
    Ok(())
}
