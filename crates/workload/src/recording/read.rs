// SPDX-License-Identifier: GPL-2.0-only
//! Reads a recording block by block.

use super::blocks::{BlockReader, Failure, HEADER, Next, kind};
use super::costs::Cost;
use super::decode::{self, Reader};
use super::observed::MAX_DEVICES;
use super::{Costs, Device, MAX_REQUESTS, Observed, Recording, RecordingMeta, VERSION_HEADER};
use crate::check::{MAX_OPS, MAX_RESOURCES, MAX_SIGNALS, MAX_TASKS};
use crate::{MutexSpec, Workload};
use ids::Nanos;
use std::io::Read;

/// Reads all blocks; `name` is the workload's name.
pub(super) fn read(name: &str, input: impl Read) -> Result<Recording, Failure> {
    let mut blocks = BlockReader::new(input, VERSION_HEADER);
    let mut parts = Parts { name: name.to_owned(), ..Parts::default() };
    loop {
        let (kind, skippable) = match blocks.next()? {
            Next::Block { kind, skippable } => (kind, skippable),
            Next::Cut => return Err((blocks.start(), parts.cut(blocks.blocks()))),
        };
        let mut reader = Reader { bytes: blocks.content(), at: 0, whole: "block" };
        let inside = |(at, problem): decode::Failure| {
            // The content is compressed, so a file offset is meaningless: give the offset within the block.
            (blocks.start(), format!("block of {}, byte {at}: {problem}", kind::name(kind)))
        };
        match kind {
            kind::END => {
                parts.check_end(&mut reader, blocks.blocks() - 1).map_err(inside)?;
                let end = blocks.start() + (HEADER + 3) as u64;
                return match blocks.is_at_end()? {
                    true => parts.finish().map_err(|problem| (blocks.start(), problem)),
                    false => Err((end, "data after the end block; expected the end of the file".into())),
                };
            }
            kind::METADATA => once(&mut parts.meta, || metadata(&mut reader)).map_err(inside)?,
            kind::COSTS => once(&mut parts.costs, || costs(&mut reader)).map_err(inside)?,
            kind::RESOURCES => once(&mut parts.resources, || resources(&mut reader)).map_err(inside)?,
            kind::DEVICES => once(&mut parts.devices, || devices(&mut reader)).map_err(inside)?,
            kind::TASKS => parts.tasks(&mut reader).map_err(inside)?,
            kind::OPERATIONS => parts.operations(&mut reader).map_err(inside)?,
            kind::STRETCHES => parts.stretches(&mut reader).map_err(inside)?,
            kind::REQUESTS => parts.requests(&mut reader).map_err(inside)?,
            _ if skippable => continue,
            _ => {
                let problem = format!("a block of type {kind} ({}), which is not supported", kind::name(kind));
                return Err((blocks.start(), problem));
            }
        }
        let left = reader.bytes.len() - reader.at;
        if left > 0 {
            return Err(inside((reader.at, format!("{left} bytes follow the last value; expected the end"))));
        }
    }
}

/// Reads a block that may occur only once.
fn once<T>(place: &mut Option<T>, read: impl FnOnce() -> Result<T, decode::Failure>) -> Result<(), decode::Failure> {
    if place.is_some() {
        return Err((0, "duplicate block of this type".into()));
    }
    *place = Some(read()?);
    Ok(())
}

/// Contents read so far.
#[derive(Default)]
struct Parts {
    name: String,
    meta: Option<RecordingMeta>,
    costs: Option<Costs>,
    resources: Option<Workload>,
    /// Names of the devices to which tasks submit requests.
    devices: Option<Vec<String>>,
    tasks: Vec<crate::TaskSpec>,
    operations: usize,
    observed: Observed,
}

impl Parts {
    /// Error message for a file that ends before its end block.
    fn cut(&self, blocks: u64) -> String {
        format!(
            "the file is truncated here; it contains {blocks} complete blocks with {} tasks and {} operations; \
             expected an end block",
            self.tasks.len(),
            self.operations
        )
    }

    fn tasks(&mut self, reader: &mut Reader<'_>) -> Result<(), decode::Failure> {
        while reader.at < reader.bytes.len() {
            let start = reader.at;
            if self.tasks.len() == MAX_TASKS {
                return Err((start, format!("more than {MAX_TASKS} tasks, the maximum for a workload in memory")));
            }
            let length = reader.length("task", usize::MAX)?;
            // Fields added by later writers follow the known ones.
            let end = reader.at + length;
            let mut fields = Reader { bytes: &reader.bytes[..end], at: reader.at, whole: "task" };
            let mut task = fields.task()?;
            task.who = fields.who()?;
            if let Some(footprint) = fields.footprint()? {
                self.observed.footprints.insert(self.tasks.len() as u32, footprint);
            }
            reader.at = end;
            self.tasks.push(task);
        }
        Ok(())
    }

    fn operations(&mut self, reader: &mut Reader<'_>) -> Result<(), decode::Failure> {
        while reader.at < reader.bytes.len() {
            let start = reader.at;
            let task = reader.small("task")?;
            let known = self.tasks.len();
            let Some(task) = self.tasks.get_mut(task as usize) else {
                return Err((start, format!("operations of task {task}, but only {known} tasks precede this block")));
            };
            let count = reader.length("operations", usize::MAX)?;
            self.operations += count;
            if self.operations > MAX_OPS {
                let problem = format!("more than {MAX_OPS} operations, the maximum for a workload in memory");
                return Err((start, problem));
            }
            task.script.reserve(count);
            for _ in 0..count {
                task.script.push(reader.op()?);
            }
        }
        Ok(())
    }

    /// Reads what tasks touched. Consistency with the scripts is checked at the end, because these may follow.
    fn stretches(&mut self, reader: &mut Reader<'_>) -> Result<(), decode::Failure> {
        while reader.at < reader.bytes.len() {
            let start = reader.at;
            let task = reader.small("task")?;
            let known = self.tasks.len();
            if task as usize >= known {
                return Err((
                    start,
                    format!("pieces of work of task {task}, but only {known} tasks precede this block"),
                ));
            }
            let count = reader.length("pieces of work", usize::MAX)?;
            if count == 0 {
                continue;
            }
            let stretches = self.observed.stretches.entry(task).or_default();
            stretches.reserve(count);
            for _ in 0..count {
                let last = stretches.last().map(|last| last.until);
                let stretch = reader.stretch(last.unwrap_or(0))?;
                if last == Some(stretch.until) {
                    return Err((
                        start,
                        format!("two pieces of work of task {task} end at operation {}", stretch.until),
                    ));
                }
                stretches.push(stretch);
            }
        }
        Ok(())
    }

    /// Reads block-device requests.
    fn requests(&mut self, reader: &mut Reader<'_>) -> Result<(), decode::Failure> {
        let named = reader.list("devices", MAX_DEVICES, |reader| {
            Ok(Device { number: reader.small("number of a device")?, name: reader.text("name of a device")? })
        })?;
        let known = &mut self.observed.devices;
        let devices = named.into_iter().map(|device| {
            let index = known.iter().position(|known| *known == device).unwrap_or_else(|| {
                known.push(device);
                known.len() - 1
            });
            index as u32
        });
        let devices: Vec<u32> = devices.collect();
        let start = reader.at;
        let (count, requests) = (reader.length("requests", usize::MAX)?, &mut self.observed.requests);
        if requests.len() + count > MAX_REQUESTS {
            return Err((
                start,
                format!("more than {MAX_REQUESTS} block requests, the maximum for a recording in memory"),
            ));
        }
        let (first, mut before) = (requests.len(), Nanos::ZERO);
        for _ in 0..count {
            let request = reader.request(before, &devices)?;
            before = request.time;
            requests.push(request);
        }
        // Blocks must be in order of time, too.
        if first > 0 && requests.get(first).is_some_and(|next| next.time < requests[first - 1].time) {
            return Err((start, "requests precede those of the previous block".to_owned()));
        }
        Ok(())
    }

    /// Compares the totals in the end block.
    fn check_end(&self, reader: &mut Reader<'_>, blocks: u64) -> Result<(), decode::Failure> {
        let found = [("blocks", blocks), ("tasks", self.tasks.len() as u64), ("operations", self.operations as u64)];
        for (what, found) in found {
            let start = reader.at;
            let claimed = reader.number(what)?;
            if claimed != found {
                return Err((start, format!("found {found} {what}, the end block says {claimed}")));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Recording, String> {
        let missing = |what: &str| format!("no {what} block; expected one");
        let mut meta = self.meta.ok_or_else(|| missing("metadata"))?;
        meta.costs = self.costs.unwrap_or_default();
        let resources = self.resources.ok_or_else(|| missing("resources"))?;
        let lengths: Vec<usize> = self.tasks.iter().map(|task| task.script.len()).collect();
        let mut observed = self.observed;
        if observed.requests.is_empty() {
            observed.devices.clear();
        }
        observed.check(&lengths)?;
        let devices = self.devices.unwrap_or_default();
        let workload = Workload { name: self.name, tasks: self.tasks, devices, ..resources };
        Ok(Recording { meta, workload, observed })
    }
}

fn metadata(reader: &mut Reader<'_>) -> Result<RecordingMeta, decode::Failure> {
    let mut meta = RecordingMeta::default();
    for _ in 0..reader.length("values", usize::MAX)? {
        let key = reader.text("key")?;
        let start = reader.at;
        let (mut number, mut text) = (None, None);
        match reader.up_to("kind of a value", 1)? {
            0 => number = Some(reader.number(&key)?),
            _ => text = Some(reader.text(&key)?),
        }
        let numbers = || number.ok_or_else(|| (start, format!("{key}: a text; expected a number")));
        let mut texts = || text.take().ok_or_else(|| (start, format!("{key}: a number; expected a text")));
        match key.as_str() {
            "command" => meta.command = texts()?,
            "recorded_at_unix_s" => meta.recorded_at_unix_s = numbers()?,
            "kernel" => meta.kernel = texts()?,
            "cpu_model" => meta.cpu_model = texts()?,
            "cpus" => {
                let cpus = numbers()?;
                meta.cpus = u32::try_from(cpus).map_err(|_| (start, format!("cpus: {cpus}; expected 32 bits")))?;
            }
            "elapsed_ns" => meta.elapsed = ids::Nanos(numbers()?),
            "scheduling_ns" => meta.scheduling = ids::Nanos(numbers()?),
            "lost_events" => meta.lost_events = numbers()?,
            "notes" => meta.notes = texts()?,
            // Ignore keys of later writers.
            _ => {}
        }
    }
    Ok(meta)
}

fn costs(reader: &mut Reader<'_>) -> Result<Costs, decode::Failure> {
    let mut costs = Costs::default();
    for _ in 0..reader.length("costs", usize::MAX)? {
        let name = reader.text("name of a cost")?;
        let cost = Cost { low: reader.time(&name)?, typical: reader.time(&name)?, high: reader.time(&name)? };
        if let Some(place) = costs.named_mut(&name) {
            *place = Some(cost);
        }
    }
    Ok(costs)
}

/// Reads the names of the devices to which tasks submit requests.
fn devices(reader: &mut Reader<'_>) -> Result<Vec<String>, decode::Failure> {
    reader.list("devices", MAX_DEVICES, |reader| reader.text("name of a device"))
}

/// Reads a workload without name and tasks.
fn resources(reader: &mut Reader<'_>) -> Result<Workload, decode::Failure> {
    Ok(Workload {
        duration: reader.option("duration", |reader| reader.time("duration"))?,
        mutexes: MutexSpec::unnamed(reader.resources("mutexes")? as usize),
        conditions: reader.resources("conditions")?,
        signals: reader.up_to("signals", MAX_SIGNALS.into())? as u32,
        references: reader.resources("references")?,
        barriers: reader.list("barriers", MAX_RESOURCES as usize, |reader| reader.small("users of a barrier"))?,
        ..Workload::default()
    })
}
