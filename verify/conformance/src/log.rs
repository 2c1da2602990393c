// SPDX-License-Identifier: GPL-2.0-only
//! Reads the log of `log.bpf.h` from a scheduler's memory.

use crate::record::Call;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Size of `struct entry` in bytes.
const ENTRY: usize = 80;
/// Name of a task for which only `init_task` was called.
pub const REFUSED: &str = "(refused)";
/// `enum op`: an action of a policy within an op, seen by its witness.
const INSERT: u32 = 64;
/// `enum role`: foreign task.
const FOREIGN: u32 = 0;

/// An entry in the layout of the BPF program.
struct Entry<'a>(&'a [u8]);

impl Entry<'_> {
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }
    fn half(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }
    fn pid(&self) -> i32 {
        self.half(32) as i32
    }
    fn is_ours(&self) -> bool {
        self.half(48) != FOREIGN
    }
    fn name(&self) -> String {
        let bytes = &self.0[56..72];
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// Returns the log from the variables `entries` and `logged`.
///
/// A task has one name here, the last one seen, because a new thread first has its parent's name. A task that was
/// never created has none of its own.
///
/// # Errors
/// If there were more calls than the log holds.
pub fn read(entries: &[u8], logged: u32) -> Result<Vec<Call>> {
    let entries: Vec<Entry> = entries.chunks_exact(ENTRY).take(logged as usize).map(Entry).collect();
    if entries.len() < logged as usize {
        bail!("the log holds {} calls; {logged} were made", entries.len());
    }
    let ours = entries.iter().filter(|entry| entry.is_ours());
    let mut names: BTreeMap<i32, String> = ours.clone().map(|entry| (entry.pid(), entry.name())).collect();
    for (pid, name) in &mut names {
        if ours.clone().filter(|entry| entry.pid() == *pid).all(|entry| op_name(entry.half(24)) == "init_task") {
            *name = REFUSED.to_owned();
        }
    }
    Ok(entries.iter().map(|entry| call(entry, &names)).collect())
}

/// Compares the log with the kernel's own counts of ops (`run_cnt` of the programs). They must agree where only the
/// scenario's tasks are under the scheduler, except for ops called for all tasks.
pub fn check_counts(calls: &[Call], counted: &BTreeMap<String, u64>) -> Result<()> {
    let is_compared = |op: &str| !matches!(op, "insert" | "init_task" | "exit_task");
    let mut logged: BTreeMap<String, u64> = BTreeMap::new();
    for call in calls.iter().filter(|call| is_compared(&call.op)) {
        *logged.entry(call.op.clone()).or_default() += 1;
    }
    let mut counted = counted.clone();
    counted.retain(|op, count| is_compared(op) && *count > 0);
    if logged != counted {
        bail!("the log has {logged:?}, but the kernel counted {counted:?}");
    }
    Ok(())
}

fn call(entry: &Entry, names: &BTreeMap<i32, String>) -> Call {
    let task = match entry.pid() {
        -1 => String::new(),
        pid => names.get(&pid).filter(|_| entry.is_ours()).cloned().unwrap_or_else(|| "*".into()),
    };
    Call {
        op: op_name(entry.half(24)),
        cpu: entry.half(28) as i32,
        task,
        a: entry.word(0),
        b: entry.word(8),
        verdict: entry.word(16),
        task_cpu: entry.half(36) as i32,
        result: entry.half(40) as i32,
        flags: entry.half(44),
        slice: entry.half(52) != 0,
        time_ns: entry.word(72),
    }
}

fn op_name(number: u32) -> String {
    if number == INSERT {
        return "insert".to_owned();
    }
    let name = u8::try_from(number).ok().and_then(event_log::op_name);
    name.map_or_else(|| format!("op {number}"), str::to_owned)
}
