// SPDX-License-Identifier: GPL-2.0-only
//! Writes a recording block by block.

use super::blocks::{BlockWriter, FULL_BLOCK, SKIPPABLE, kind};
use super::earlier::Earlier;
use super::encode::Writer;
use super::observed::{Device, Request, Stretch};
use super::{Costs, MAGIC, Observed, Recording, RecordingMeta, VERSION, VERSION_HEADER};
use crate::{Op, TaskSpec, Workload};
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};

/// zstd level of small recordings, which are written once and kept. Level 19 takes half a second per MB (an operation
/// takes about four bytes); writing should not take longer than the recording itself.
const SMALL_LEVEL: i32 = 19;
/// Recordings with more operations use a faster level, because they are written while the recorded program runs. For
/// two processes that exchange 1.2 million bytes, level 3 takes 0.14 s, level 6 some 0.3 s and level 9 0.45 s; level
/// 9 makes the file 5 % smaller.
const SMALL_OPERATIONS: usize = 1 << 18;
pub(super) const LARGE_LEVEL: i32 = 3;

/// Stretches or requests per run: they fill a block at some 16 bytes each.
const RUN: usize = FULL_BLOCK / 16;

/// Writes a recording with a valid workload, including the blocks of `earlier`; returns the file's length.
pub(super) fn write<File: Read + Write + Seek>(
    recording: &Recording,
    earlier: Option<Earlier<File>>,
    mut out: impl Write,
) -> io::Result<u64> {
    let Recording { meta, workload, observed } = recording;
    let operations: usize = workload.tasks.iter().map(|task| task.script.len()).sum::<usize>()
        + earlier.as_ref().map_or(0, Earlier::operations);
    let level = if operations > SMALL_OPERATIONS { LARGE_LEVEL } else { SMALL_LEVEL };
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut blocks = BlockWriter::new(out, VERSION_HEADER, level);
    blocks.write(kind::METADATA, 0, &metadata(meta))?;
    if meta.costs != Costs::default() {
        blocks.write(kind::COSTS, SKIPPABLE, &costs(&meta.costs))?;
    }
    blocks.write(kind::RESOURCES, 0, &resources(workload))?;
    if !workload.devices.is_empty() {
        let mut content = Writer::default();
        content.list(&workload.devices, |content, name| content.text(name));
        blocks.write(kind::DEVICES, 0, &content.0)?;
    }
    tasks(&mut blocks, &workload.tasks, observed)?;
    let mut ends = BTreeMap::new();
    if let Some(earlier) = earlier {
        ends = earlier.append_to(&mut blocks)?;
    }
    scripts(&mut blocks, (0..).zip(workload.tasks.iter().map(|task| &task.script[..])))?;
    stretches(&mut blocks, &observed.stretches, &mut ends)?;
    requests(&mut blocks, &observed.devices, &observed.requests)?;
    let mut end = Writer::default();
    for number in [blocks.blocks(), workload.tasks.len() as u64, operations as u64] {
        end.number(number);
    }
    blocks.write(kind::END, 0, &end.0)?;
    Ok(blocks.written())
}

/// A metadata value.
enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

pub(super) fn metadata(meta: &RecordingMeta) -> Vec<u8> {
    let values = [
        ("command", Value::Text(&meta.command)),
        ("recorded_at_unix_s", Value::Number(meta.recorded_at_unix_s)),
        ("kernel", Value::Text(&meta.kernel)),
        ("cpu_model", Value::Text(&meta.cpu_model)),
        ("cpus", Value::Number(meta.cpus.into())),
        ("elapsed_ns", Value::Number(meta.elapsed.0)),
        ("scheduling_ns", Value::Number(meta.scheduling.0)),
        ("lost_events", Value::Number(meta.lost_events)),
        ("notes", Value::Text(&meta.notes)),
    ];
    let mut content = Writer::default();
    content.list(&values, |content, (key, value)| {
        content.text(key);
        match value {
            Value::Number(number) => {
                content.number(0);
                content.number(*number);
            }
            Value::Text(text) => {
                content.number(1);
                content.text(text);
            }
        }
    });
    content.0
}

fn costs(costs: &Costs) -> Vec<u8> {
    let known: Vec<_> = costs.named().into_iter().filter_map(|(name, cost)| Some((name, cost?))).collect();
    let mut content = Writer::default();
    content.list(&known, |content, (name, cost)| {
        content.text(name);
        [cost.low, cost.typical, cost.high].into_iter().for_each(|time| content.time(time));
    });
    content.0
}

pub(super) fn resources(workload: &Workload) -> Vec<u8> {
    let mut content = Writer::default();
    content.option(workload.duration, Writer::time);
    for count in [workload.mutexes.len() as u32, workload.conditions, workload.signals, workload.references] {
        content.number(count.into());
    }
    content.list(&workload.barriers, |content, &users| content.number(users.into()));
    content.0
}

/// Writes the task list, in full blocks.
fn tasks<W: Write>(blocks: &mut BlockWriter<W>, tasks: &[TaskSpec], observed: &Observed) -> io::Result<()> {
    let mut content = Writer::default();
    for (index, task) in (0u32..).zip(tasks) {
        content.task(task, observed.footprints.get(&index));
        if content.0.len() >= FULL_BLOCK {
            blocks.write(kind::TASKS, 0, &std::mem::take(&mut content.0))?;
        }
    }
    if content.0.is_empty() { Ok(()) } else { blocks.write(kind::TASKS, 0, &content.0) }
}

/// Writes the scripts as runs of operations, each of one task. A long script spans several blocks; short ones share
/// one.
pub(super) fn scripts<'a, W: Write>(
    blocks: &mut BlockWriter<W>,
    scripts: impl IntoIterator<Item = (u32, &'a [Op])>,
) -> io::Result<()> {
    let mut content = Writer::default();
    for (task, mut rest) in scripts {
        while !rest.is_empty() {
            let (bytes, taken) = run(rest, FULL_BLOCK.saturating_sub(content.0.len()));
            content.number(task.into());
            content.number(taken as u64);
            content.0.extend(bytes);
            rest = &rest[taken..];
            if content.0.len() >= FULL_BLOCK {
                blocks.write(kind::OPERATIONS, 0, &std::mem::take(&mut content.0))?;
            }
        }
    }
    if content.0.is_empty() { Ok(()) } else { blocks.write(kind::OPERATIONS, 0, &content.0) }
}

/// Writes what tasks touched in each stretch of work, in one or several runs per task. `ends` holds the end of each
/// task's last stretch written before (default 0).
pub(super) fn stretches<W: Write>(
    blocks: &mut BlockWriter<W>,
    stretches: &BTreeMap<u32, Vec<Stretch>>,
    ends: &mut BTreeMap<u32, u32>,
) -> io::Result<()> {
    let mut content = Writer::default();
    for (&task, stretches) in stretches {
        let mut from = ends.get(&task).copied().unwrap_or(0);
        for run in stretches.chunks(RUN) {
            content.number(task.into());
            content.list(run, |content, stretch| {
                content.stretch(stretch, from);
                from = stretch.until;
            });
            if content.0.len() >= FULL_BLOCK {
                blocks.write(kind::STRETCHES, SKIPPABLE, &std::mem::take(&mut content.0))?;
            }
        }
        ends.insert(task, from);
    }
    if content.0.is_empty() { Ok(()) } else { blocks.write(kind::STRETCHES, SKIPPABLE, &content.0) }
}

/// Writes the block-device requests. Each block begins with the list of devices.
pub(super) fn requests<W: Write>(
    blocks: &mut BlockWriter<W>,
    devices: &[Device],
    requests: &[Request],
) -> io::Result<()> {
    for run in requests.chunks(RUN) {
        let mut content = Writer::default();
        content.list(devices, |content, device| {
            content.number(device.number.into());
            content.text(&device.name);
        });
        let mut before = ids::Nanos::ZERO;
        content.list(run, |content, request| {
            content.request(request, request.time - before);
            before = request.time;
        });
        blocks.write(kind::REQUESTS, SKIPPABLE, &content.0)?;
    }
    Ok(())
}

/// Encodes operations until `room` bytes are used, at least one; returns the bytes and the number of operations.
fn run(ops: &[Op], room: usize) -> (Vec<u8>, usize) {
    let mut bytes = Writer::default();
    for (taken, op) in ops.iter().enumerate() {
        if taken > 0 && bytes.0.len() >= room {
            return (bytes.0, taken);
        }
        bytes.op(op);
    }
    (bytes.0, ops.len())
}
