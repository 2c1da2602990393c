// SPDX-License-Identifier: GPL-2.0-only
//! Reads what `log.bpf.h` left in the memory of a scheduler.

use crate::record::Call;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Bytes of `struct entry`.
const ENTRY: usize = 80;
/// Name of a task about which nothing was called but `init_task`.
pub const REFUSED: &str = "(refused)";
/// `enum op`: what a policy does in an op, seen by its witness.
const INSERT: u32 = 64;
/// `enum role`: foreign.
const FOREIGN: u32 = 0;

/// An entry as it lies in memory.
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

/// The log: the variables `entries` and `logged`. An error if there were more calls than it takes.
///
/// A task has one name here, the last one that was seen: a new thread first has the name of its parent. One that never
/// came to be has none of its own.
pub fn read(entries: &[u8], logged: u32) -> Result<Vec<Call>> {
    let entries: Vec<Entry> = entries.chunks_exact(ENTRY).take(logged as usize).map(Entry).collect();
    if entries.len() < logged as usize {
        bail!("the log has place for {} calls, and there were {logged}", entries.len());
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

/// Holds the log against how often the ops were called, as the kernel itself counts (`run_cnt` of the programs). Where
/// only the tasks of the scenario are under the scheduler these must agree, but for ops that are called about all tasks.
pub fn check_counts(calls: &[Call], counted: &BTreeMap<String, u64>) -> Result<()> {
    let is_compared = |op: &str| !matches!(op, "insert" | "init_task" | "exit_task");
    let mut logged: BTreeMap<String, u64> = BTreeMap::new();
    for call in calls.iter().filter(|call| is_compared(&call.op)) {
        *logged.entry(call.op.clone()).or_default() += 1;
    }
    let mut counted = counted.clone();
    counted.retain(|op, count| is_compared(op) && *count > 0);
    if logged != counted {
        bail!("the log has {logged:?}, and the ops were called {counted:?}");
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
