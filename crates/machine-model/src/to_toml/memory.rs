// SPDX-License-Identifier: GPL-2.0-only
//! Writes the tables `[caches]`, `[numa]` and `[bandwidth]`.

use super::effects::{estimate, estimates};
use super::{line, quoted};
use crate::{Bandwidth, Caches, Numa};

pub(super) fn write(text: &mut String, caches: Option<&Caches>, numa: Option<&Numa>, bandwidth: Option<&Bandwidth>) {
    if let Some(caches) = caches {
        write_caches(text, caches);
    }
    if let Some(Numa { latency_ns, placement, balance_ms, move_page_ns }) = numa {
        text.push_str("\n[numa]\n");
        let row = |row: &crate::Remote| {
            let crate::Estimate { low, typical, high } = row.latency_ns;
            format!("[{}, {low}, {typical}, {high}]", row.distance)
        };
        let rows: Vec<String> = latency_ns.iter().map(row).collect();
        let comment = "SLIT distance; lowest, typical, highest latency of memory";
        line(text, "latency_ns", format!("[{}]", rows.join(", ")), comment);
        line(text, "placement", quoted(&placement.to_string()), "of tasks for which the workload gives none");
        line(text, "balance_ms", balance_ms, "time on another node after which balanced memory follows");
        line(text, "move_page_ns", estimate(move_page_ns), "per page of 4 KiB moved");
    }
    if let Some(Bandwidth { node_mb_s, remote_mb_s, slope_permille, knee_permille }) = bandwidth {
        text.push_str("\n[bandwidth]\n");
        line(text, "node_mb_s", estimate(node_mb_s), "of a node's memory, in 10^6 bytes a second");
        line(text, "remote_mb_s", estimate(remote_mb_s), "of it, to CPUs of other nodes together");
        line(text, "slope_permille", estimate(slope_permille), "latency is 1 + slope u + knee u / (1 - u) at load u");
        line(text, "knee_permille", estimate(knee_permille), "");
    }
}

fn write_caches(text: &mut String, caches: &Caches) {
    let Caches { private_kb, llc_kb, line_bytes, private_ns, llc_ns, memory_ns, dirty_ns, overlap } = caches;
    text.push_str("\n[caches]\n");
    line(text, "private_kb", private_kb, "cache of a core, shared by its threads");
    match llc_kb[..] {
        [one] => line(text, "llc_kb", one, "last-level cache"),
        _ => line(text, "llc_kb", format!("{llc_kb:?}"), "of each last-level cache"),
    }
    line(text, "line_bytes", line_bytes, "");
    line(text, "private_ns", estimate(private_ns), "load latency: private cache");
    line(text, "llc_ns", estimate(llc_ns), "last-level cache");
    line(text, "memory_ns", estimate(memory_ns), "memory of the own node");
    line(text, "dirty_ns", estimates(dirty_ns), "modified line: same last-level cache, same node, other node");
    line(text, "overlap", estimate(overlap), "misses in flight during a reload");
}
