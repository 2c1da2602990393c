// SPDX-License-Identifier: GPL-2.0-only
//! A published measurement with schbench on 512 CPUs: wakeup latencies under `scx_rusty` compared with EEVDF
//! (sched-ext/scx, issue 3129, 2025).

use super::with_topology;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Two sockets with 8 caches of 16 cores each: EPYC 9745.
const TOPOLOGY: &str = "[topology]
shape = \"node:2 l3:8 core:16 pu:2\"
numbering = \"threads-last\"
";
const MESSENGERS: u32 = 16;
const PERCENTILES: [&str; 4] = ["p50", "p90", "p99", "p999"];
/// Published latencies in microseconds, under EEVDF and under scx_rusty.
const PUBLISHED: [[u32; 2]; 4] = [[37, 72], [64, 122], [2_292, 5_032], [3_772, 12_048]];

/// Prints the table. `object` is scx_rusty.
pub fn execute(weir: &Path, folder: &Path, preset: &str, object: &Path) -> Result<()> {
    std::fs::write(folder.join("machine.toml"), with_topology(preset, TOPOLOGY)?)?;
    std::fs::write(folder.join("workload.json"), workload())?;
    let mut command = Command::new(weir);
    command.args(["sim", "kernel"]).arg(object);
    command.arg("--profile").arg(crate::root().join("profiles/scx_rusty-2024-12.toml"));
    // Latencies are compared, so kernel operations wait for locks (`+waiting`).
    command.args(["--kernel", "7.2+waiting", "--for", "3s", "--seeds", "5", "--format", "json"]);
    command.arg("-m").arg(folder.join("machine.toml"));
    let output = command.arg("-w").arg(folder.join("workload.json")).output().context("weir cannot be run")?;
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let runs = document["runs"].as_array().context("there are runs")?;

    println!("\n| wakeups | `kernel` | rusty | ratio | measured: EEVDF | rusty | ratio |");
    println!("|---|---|---|---|---|---|---|");
    for (percentile, [eevdf, rusty]) in PERCENTILES.into_iter().zip(PUBLISHED) {
        let median = |kernel: bool| {
            let of = runs.iter().filter(|run| (run["scheduler"] == "kernel") == kernel);
            let mut values: Vec<f64> = of.filter_map(|run| run["wakeup_latency_ns"][percentile].as_f64()).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).map(|value| value / 1e3).context("runs have latencies")
        };
        let (base, other) = (median(true)?, median(false)?);
        let measured = f64::from(rusty) / f64::from(eevdf);
        println!(
            "| {percentile} | {base:.0} us | {other:.0} us | {:.1} | {eevdf} us | {rusty} us | {measured:.1} |",
            other / base
        );
    }
    Ok(())
}

fn workload() -> String {
    let group = |number| {
        format!(
            r#""m{number}": {{"loop": -1, "lock": "l{number}", "sync": {{"ref": "waits{number}", "mutex": "l{number}"}},
                "broad": "go{number}", "unlock": "l{number}", "run": 5}},
            "w{number}": {{"instance": 32, "loop": -1, "sleep": 30000, "lock": "l{number}", "signal": "waits{number}",
                "sync": {{"ref": "go{number}", "mutex": "l{number}"}}, "unlock": "l{number}", "run": 30000}}"#
        )
    };
    let groups: Vec<String> = (0..MESSENGERS).map(group).collect();
    format!(r#"{{"tasks": {{{}}}}}"#, groups.join(",\n"))
}
