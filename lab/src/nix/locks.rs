// SPDX-License-Identifier: GPL-2.0-only
//! Lock contention: where CPUs wait and for how long.

use super::bench::{Bench, Case, Work, number, short_work};
use super::{ALL, SCHEDULERS};
use anyhow::{Context, Result};
use serde_json::Value;

/// Number of locks per scheduler.
const MOST: usize = 3;

const PROSE: &str = "
## Why: the locks

For the first table, 32 cores and seed 1: the three locks of each scheduler with the most wait time, and their callers.
`dsq` is the lock of a DSQ, `runqueue` that of a CPU's runqueue.

| scheduler | lock | caller | acquisitions | contended | mean wait | longest | mean hold | of all waiting |
|---|---|---|---|---|---|---|---|---|";

pub fn print(bench: &Bench) -> Result<()> {
    println!("{PROSE}");
    for scheduler in SCHEDULERS {
        let workload = Work::Text(short_work(ALL, 4, 20));
        let runs = bench.runs(scheduler, &Case { cpus: ALL, machine: &bench.preset, workload, options: &[] })?;
        let run = &runs.0[0];
        let mut locks: Vec<&Value> = run["locks"].as_array().context("a run has locks")?.iter().collect();
        locks.sort_by_key(|lock| std::cmp::Reverse(lock["wait_total_ns"].as_u64()));
        for lock in locks.iter().take(MOST) {
            println!("| `{scheduler}` | {} |", row(lock, number(run, "lock_wait_ns")?)?);
        }
    }
    Ok(())
}

fn row(lock: &Value, all_waiting_ns: f64) -> Result<String> {
    let text = |key: &str| lock[key].as_str().unwrap_or("-").to_owned();
    let of = |key: &str| number(lock, key);
    let (count, contended, waited) = (of("count")?, of("contended")?, of("wait_total_ns")?);
    let hold =
        lock["hold_total_ns"].as_f64().map_or("-".to_owned(), |ns| format!("{:.2} us", ns / count.max(1.0) / 1e3));
    Ok(format!(
        "{} {} | {} | {count} | {:.1} % | {:.2} us | {:.0} us | {hold} | {:.1} %",
        text("type"),
        text("lock"),
        text("caller"),
        100.0 * contended / count.max(1.0),
        waited / contended.max(1.0) / 1e3,
        of("wait_max_ns")? / 1e3,
        100.0 * waited / all_waiting_ns.max(1.0)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn row_has_mean_waits_of_contended_and_holds_of_all_acquisitions() {
        let lock = json!({ "type": "dsq", "lock": "0x1", "caller": "take", "count": 10, "contended": 4,
            "wait_total_ns": 8_000, "wait_max_ns": 5_000, "hold_total_ns": 20_000 });
        assert_eq!(row(&lock, 16_000.0).unwrap(), "dsq 0x1 | take | 10 | 40.0 % | 2.00 us | 5 us | 2.00 us | 50.0 %");
        assert!(row(&json!({ "count": 1 }), 1.0).is_err());
    }
}
