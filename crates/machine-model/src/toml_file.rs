// SPDX-License-Identifier: GPL-2.0-only
//! Parser of machine files. It reads the spanned TOML document directly, so that every error names its line and an
//! unknown key suggests the most similar known one.

mod devices;
mod disks;
mod effects;
mod memory;
mod networks;
mod noise;
mod page_cache;
mod topology;

use crate::machine::{HZ, NEWIDLE_RATIO};
use crate::{Costs, Halt, Machine, MachineError};
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum cost, one second: larger values are typing errors, and sums stay far from overflow.
const COST_NS: RangeInclusive<u64> = 0..=1_000_000_000;

/// Maximum cache size, above the largest existing ones of about 1 GB.
const LLC_KB: RangeInclusive<u64> = 0..=1 << 30;

/// The text with its name, to convert a byte span into `file:line`.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, span: &Range<usize>, problem: String) -> MachineError {
        let line =
            self.text.as_bytes()[..span.start.min(self.text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1;
        MachineError { place: format!("{}:{line}", self.name), problem }
    }
}

/// A table that tracks which keys were read; [`Table::finish`] refuses unknown ones.
struct Table<'a, 't> {
    source: &'a Source<'a>,
    /// Name in errors: "the file" or `[costs]`.
    what: &'static str,
    span: Range<usize>,
    content: &'a DeTable<'t>,
    known: Vec<&'static str>,
}

type Value<'a, 't> = &'a Spanned<DeValue<'t>>;

impl<'a, 't> Table<'a, 't> {
    fn new(source: &'a Source<'a>, what: &'static str, table: &'a Spanned<DeTable<'t>>) -> Table<'a, 't> {
        Table { source, what, span: table.span(), content: table.get_ref(), known: Vec::new() }
    }

    fn optional(&mut self, key: &'static str) -> Option<Value<'a, 't>> {
        self.known.push(key);
        self.content.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn required(&mut self, key: &'static str) -> Result<Value<'a, 't>, MachineError> {
        self.optional(key).ok_or_else(|| self.source.error(&self.span, format!("{} has no key {key}", self.what)))
    }

    fn table(&mut self, key: &'static str, what: &'static str) -> Result<Option<Table<'a, 't>>, MachineError> {
        let Some(value) = self.optional(key) else { return Ok(None) };
        let content = value.get_ref().as_table().ok_or_else(|| self.wrong(key, value, "a table"))?;
        Ok(Some(Table { source: self.source, what, span: value.span(), content, known: Vec::new() }))
    }

    /// Creates an error at the position of a value.
    fn error(&self, value: Value<'_, '_>, problem: String) -> MachineError {
        self.source.error(&value.span(), problem)
    }

    fn wrong(&self, key: &str, value: Value<'_, '_>, expected: &str) -> MachineError {
        let found = &self.source.text[value.span()];
        let found: String = found.chars().take(40).collect();
        self.error(value, format!("{key} is {found}; expected {expected}"))
    }

    fn integer(&self, key: &str, value: Value<'_, '_>, range: RangeInclusive<u64>) -> Result<u64, MachineError> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let expected = || format!("an integer from {} to {}", range.start(), range.end());
        number.filter(|number| range.contains(number)).ok_or_else(|| self.wrong(key, value, &expected()))
    }

    fn list(&self, key: &str, value: Value<'a, 't>, range: RangeInclusive<u64>) -> Result<Vec<u64>, MachineError> {
        let items = value.get_ref().as_array().ok_or_else(|| self.wrong(key, value, "an array of integers"))?;
        items.iter().map(|item| self.integer(key, item, range.clone())).collect()
    }

    fn string(&self, key: &str, value: Value<'a, 't>) -> Result<&'a str, MachineError> {
        value.get_ref().as_str().ok_or_else(|| self.wrong(key, value, "a string"))
    }

    fn strings(&self, key: &str, value: Value<'a, 't>) -> Result<Vec<String>, MachineError> {
        let items = value.get_ref().as_array().ok_or_else(|| self.wrong(key, value, "an array of strings"))?;
        items.iter().map(|item| self.string(key, item).map(str::to_owned)).collect()
    }

    fn finish(self) -> Result<(), MachineError> {
        // Report the error that comes first in the text; the map is ordered by key.
        let unknown = self.content.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let near = near_miss(key.get_ref(), self.known.iter().copied());
        let known = self.known.join(", ");
        let problem = format!("{} has an unknown key {}{near}; known are {known}", self.what, key.get_ref());
        Err(self.source.error(&key.span(), problem))
    }
}

/// Returns ` (did you mean X?)` for the most similar candidate, if any is similar.
pub(crate) fn near_miss<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let scored = candidates.map(|candidate| (strsim::normalized_damerau_levenshtein(word, candidate), candidate));
    let best = scored.filter(|&(score, _)| score > 0.5).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(String::new(), |(_, candidate)| format!(" (did you mean {candidate}?)"))
}

impl Machine {
    /// Parses a TOML text as shown in the crate's documentation. `name` is the file name for errors; without
    /// directory and `.toml` it is the machine's name.
    pub fn from_toml(name: &str, text: &str) -> Result<Machine, MachineError> {
        let source = Source { name, text };
        let document = DeTable::parse(text).map_err(|error| {
            let problem = format!("not TOML: {}", error.message().replace('\n', ", "));
            source.error(&error.span().unwrap_or(0..0), problem)
        })?;
        let mut file = Table::new(&source, "the file", &document);
        let description = file.required("description").and_then(|value| file.string("description", value))?.to_owned();
        let hz = file.required("hz").and_then(|value| file.integer("hz", value, HZ))? as u32;
        let value = file.required("no_hz_idle")?;
        let no_hz_idle = value.get_ref().as_bool().ok_or_else(|| file.wrong("no_hz_idle", value, "true or false"))?;
        let ratio = file.optional("newidle_ratio").map(|value| file.integer("newidle_ratio", value, NEWIDLE_RATIO));
        let newidle_ratio = ratio.transpose()?.map(|ratio| ratio as u32);
        let autogroup = file.optional("autogroup").map_or(Ok(false), |value| {
            value.get_ref().as_bool().ok_or_else(|| file.wrong("autogroup", value, "true or false"))
        })?;
        let llc_kb = file.optional("llc_kb").map_or(Ok(0), |value| file.integer("llc_kb", value, LLC_KB))?;
        let private_kb =
            file.optional("private_kb").map_or(Ok(0), |value| file.integer("private_kb", value, LLC_KB))?;
        let topology = file.table("topology", "[topology]")?;
        let topology = topology.ok_or_else(|| source.error(&file.span, "the file has no table [topology]".into()))?;
        let (topology, offline, absent) = topology::read(topology)?;
        let mut costs = match file.table("costs", "[costs]")? {
            Some(table) => read_costs(table)?,
            None => Machine::reference().costs,
        };
        costs.halt = file.table("halt", "[halt]")?.map(read_halt).transpose()?;
        let noise = match file.table("noise", "[noise]")? {
            Some(table) => noise::read(table)?,
            None => Machine::reference().noise,
        };
        let effects = effects::read(&mut file, &topology, [private_kb, llc_kb])?;
        let caveats = match file.optional("caveats") {
            Some(value) => file.strings("caveats", value)?,
            None => Vec::new(),
        };
        file.finish()?;
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.strip_suffix(".toml").unwrap_or(name).to_owned();
        let machine = Machine {
            name,
            description,
            topology,
            offline,
            absent,
            hz,
            no_hz_idle,
            newidle_ratio,
            autogroup,
            private_kb,
            llc_kb,
            costs,
            noise,
            effects,
            caveats,
        };
        machine.validate()?;
        Ok(machine)
    }
}

fn read_costs(mut table: Table<'_, '_>) -> Result<Costs, MachineError> {
    // The reference machine specifies every key, so this does not recurse.
    let mut fallback = None;
    let mut one = |table: &mut Table<'_, '_>, key: &'static str, of: fn(&Costs) -> u64| match table.optional(key) {
        Some(value) => table.integer(key, value, COST_NS),
        None => Ok(of(fallback.get_or_insert_with(|| Machine::reference().costs))),
    };
    let context_switch_ns = one(&mut table, "context_switch_ns", |costs| costs.context_switch_ns)?;
    let ipi_send_ns = one(&mut table, "ipi_send_ns", |costs| costs.ipi_send_ns)?;
    let idle_exit_ns = one(&mut table, "idle_exit_ns", |costs| costs.idle_exit_ns)?;
    let interrupt_ns = one(&mut table, "interrupt_ns", |costs| costs.interrupt_ns)?;
    let tick_ns = one(&mut table, "tick_ns", |costs| costs.tick_ns)?;
    let instruction_ps = one(&mut table, "instruction_ps", |costs| costs.instruction_ps)?;
    let callback_ns = one(&mut table, "callback_ns", |costs| costs.callback_ns)?;
    let wakeup_ns = one(&mut table, "wakeup_ns", |costs| costs.wakeup_ns)?;
    let fork_ns = one(&mut table, "fork_ns", |costs| costs.fork_ns)?;
    let clone_ns = one(&mut table, "clone_ns", |costs| costs.clone_ns)?;
    let attach_ns = one(&mut table, "attach_ns", |costs| costs.attach_ns)?;
    let disable_ns = one(&mut table, "disable_ns", |costs| costs.disable_ns)?;
    let ipi_ns = match table.optional("ipi_ns") {
        Some(value) => array(&table, "ipi_ns", value, "3 costs: same LLC, same node, far")?,
        None => Machine::reference().costs.ipi_ns,
    };
    let call_ns = match table.optional("call_ns") {
        Some(value) => array(&table, "call_ns", value, "6 costs: trivial, lookup, queue, scan, interrupt, clock")?,
        None => Machine::reference().costs.call_ns,
    };
    table.finish()?;
    Ok(Costs {
        context_switch_ns,
        ipi_ns,
        ipi_send_ns,
        idle_exit_ns,
        halt: None,
        interrupt_ns,
        tick_ns,
        instruction_ps,
        callback_ns,
        call_ns,
        wakeup_ns,
        fork_ns,
        clone_ns,
        attach_ns,
        disable_ns,
    })
}

fn read_halt(mut table: Table<'_, '_>) -> Result<Halt, MachineError> {
    let mut one = |key| table.required(key).and_then(|value| table.integer(key, value, COST_NS));
    let halt = Halt { after_ns: one("after_ns")?, send_ns: one("send_ns")?, exit_ns: one("exit_ns")? };
    table.finish()?;
    Ok(halt)
}

fn array<const N: usize>(
    table: &Table<'_, '_>,
    key: &'static str,
    value: Value<'_, '_>,
    expected: &str,
) -> Result<[u64; N], MachineError> {
    let items = value.get_ref().as_array().filter(|items| items.len() == N);
    let items = items.ok_or_else(|| table.wrong(key, value, expected))?;
    let mut costs = [0; N];
    for (cost, item) in costs.iter_mut().zip(items.iter()) {
        *cost = table.integer(key, item, COST_NS)?;
    }
    Ok(costs)
}

#[cfg(test)]
mod tests;
