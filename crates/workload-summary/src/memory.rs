// SPDX-License-Identifier: GPL-2.0-only
//! Use of memory by the tasks of a workload, and what it rests on.

use serde_json::{Value, json};
use workload::{Limits, MEMORY_CLASSES, MemoryUse, Quantity, Workload};

/// Tasks with equal use of memory.
struct Like<'a> {
    first: &'a str,
    tasks: u64,
    uses: &'a MemoryUse,
}

/// Groups the tasks of which the use of memory is described, in the order of the first of each.
fn groups(workload: &Workload) -> Vec<Like<'_>> {
    let mut groups: Vec<Like<'_>> = Vec::new();
    for task in &workload.tasks {
        let Some(uses) = &task.memory else { continue };
        match groups.iter_mut().find(|like| *like.uses == **uses) {
            Some(like) => like.tasks += 1,
            None => groups.push(Like { first: &task.name, tasks: 1, uses }),
        }
    }
    groups
}

/// Lines of the text; none if nothing is described.
pub(crate) fn lines(workload: &Workload) -> Vec<String> {
    let groups = groups(workload);
    let mut lines = Vec::new();
    for Like { first, tasks, uses } in &groups {
        let more = if *tasks > 1 { format!(" and {} more", tasks - 1) } else { String::new() };
        lines.push(format!("memory of {}{more}: {}", report::escape(first), described(uses)));
    }
    let is_used = |name| groups.iter().any(|like| like.uses.class == Some(name));
    let classes = MEMORY_CLASSES.iter().filter(|class| is_used(class.name));
    lines.extend(classes.map(|class| format!("class {} rests on: {}", class.name, class.source)));
    lines
}

/// Sentence for the list of uncertainties, if the use of memory of some tasks is unknown and that of others is not.
pub(crate) fn uncertain(workload: &Workload, is_recorded: bool) -> Option<String> {
    let unknown = workload.tasks.iter().filter(|task| task.memory.is_none()).count();
    if unknown == 0 || unknown == workload.tasks.len() {
        return None;
    }
    let recorded = if is_recorded { "; recorded sizes of processes are no working sets" } else { "" };
    Some(format!(
        "the use of memory of {unknown} tasks is unknown, so that effects of caches, NUMA and bandwidth do not act on \
         them{recorded}"
    ))
}

fn described(uses: &MemoryUse) -> String {
    let mut parts = Vec::new();
    for quantity in Quantity::ALL {
        let Limits { low, typical, high } = uses.limits(quantity);
        if high == 0 {
            continue;
        }
        let one = |value: u64| match quantity {
            Quantity::Footprint => size(value),
            Quantity::Stream => format!("{value} MB/s"),
            Quantity::Dirty | Quantity::Share => format!("{value} %"),
        };
        let limits = if low == high { String::new() } else { format!(" ({} to {})", one(low), one(high)) };
        parts.push(format!("{} {}{limits}", quantity.key(), one(typical)));
    }
    parts.extend(uses.region.iter().map(|region| format!("region {}", report::escape(region))));
    parts.extend(uses.placement.iter().map(|placement| format!("placement {placement}")));
    parts.extend(uses.class.iter().map(|class| format!("class {class}")));
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

/// The groups of tasks as JSON.
pub(crate) fn to_json(workload: &Workload) -> Value {
    let of = |like: &Like<'_>| {
        let quantity = |quantity| {
            let Limits { low, typical, high } = like.uses.limits(quantity);
            json!([low, typical, high])
        };
        json!({
            "first": like.first,
            "tasks": like.tasks,
            "class": like.uses.class,
            "footprint_bytes": quantity(Quantity::Footprint),
            "dirty_percent": quantity(Quantity::Dirty),
            "stream_mb_s": quantity(Quantity::Stream),
            "memory_share_percent": quantity(Quantity::Share),
            "region": like.uses.region,
            "placement": like.uses.placement.map(|placement| placement.to_string()),
        })
    };
    groups(workload).iter().map(of).collect()
}
