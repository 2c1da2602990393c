// SPDX-License-Identifier: GPL-2.0-only
//! Machine files. Read by hand from the spanned document, so that every error names its line and an unknown key its
//! nearest known one.

mod noise;

use crate::machine::HZ;
use crate::{Costs, Machine, MachineError, synthetic};
use ids::{CpuSet, MAX_CPUS, Place, Topology};
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// No single cost is longer than a second: more is a typing error, and sums stay far from overflow.
const COST_NS: RangeInclusive<u64> = 0..=1_000_000_000;

/// The text with its name, to turn a byte span into `file:line`.
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

/// A table from which known keys are taken; [`Table::finish`] refuses the rest.
struct Table<'a, 't> {
    source: &'a Source<'a>,
    /// How errors call it: "the file" or `[costs]`.
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

    fn wrong(&self, key: &str, value: Value<'_, '_>, expected: &str) -> MachineError {
        let found = &self.source.text[value.span()];
        let found: String = found.chars().take(40).collect();
        self.source.error(&value.span(), format!("{key} is {found}; expected {expected}"))
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

    fn finish(self) -> Result<(), MachineError> {
        // In the order of the text, not of the map.
        let unknown = self.content.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let near = near_miss(key.get_ref(), self.known.iter().copied());
        let known = self.known.join(", ");
        let problem = format!("{} has an unknown key {}{near}; known are {known}", self.what, key.get_ref());
        Err(self.source.error(&key.span(), problem))
    }
}

/// ` (did you mean X?)` for the most similar candidate, if one is similar at all.
pub(crate) fn near_miss<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let scored = candidates.map(|candidate| (strsim::normalized_damerau_levenshtein(word, candidate), candidate));
    let best = scored.filter(|&(score, _)| score > 0.5).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(String::new(), |(_, candidate)| format!(" (did you mean {candidate}?)"))
}

impl Machine {
    /// From a TOML text as the crate's documentation shows it; `name` is the file's name: it stands in errors, and
    /// without directory and `.toml` it becomes the machine's name.
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
        let topology = file.table("topology", "[topology]")?;
        let topology = topology.ok_or_else(|| source.error(&file.span, "the file has no table [topology]".into()))?;
        let topology = read_topology(topology)?;
        let costs = match file.table("costs", "[costs]")? {
            Some(table) => read_costs(table)?,
            None => Machine::reference().costs,
        };
        let noise = match file.table("noise", "[noise]")? {
            Some(table) => noise::read(table)?,
            None => Machine::reference().noise,
        };
        file.finish()?;
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.strip_suffix(".toml").unwrap_or(name).to_owned();
        let offline = CpuSet::new();
        let machine = Machine { name, description, topology, offline, hz, no_hz_idle, costs, noise };
        machine.validate()?;
        Ok(machine)
    }
}

fn read_topology(mut table: Table<'_, '_>) -> Result<Topology, MachineError> {
    let shape = table.required("shape")?;
    let text = table.string("shape", shape)?;
    let tree =
        synthetic::places(text).map_err(|problem| table.source.error(&shape.span(), format!("shape: {problem}")))?;
    let places = match table.optional("numbering") {
        Some(value) => number(&table, value, &tree)?,
        None => tree,
    };
    let topology = Topology::new(places);
    let topology = match table.optional("distances") {
        None => topology,
        Some(value) => {
            let rows = value.get_ref().as_array().ok_or_else(|| table.wrong("distances", value, "an array of rows"))?;
            let row = |row| -> Result<Vec<u32>, MachineError> {
                Ok(table.list("distances", row, 0..=255)?.into_iter().map(|distance| distance as u32).collect())
            };
            let rows = rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
            let checked = Topology::check_distances(&rows, topology.nodes());
            checked.map_err(|error| table.source.error(&value.span(), error.0))?;
            topology.with_distances(rows)
        }
    };
    table.finish()?;
    Ok(topology)
}

/// Gives each CPU of the tree its number. Firmware often counts one thread of every core before the second ones.
fn number(table: &Table<'_, '_>, value: Value<'_, '_>, tree: &[Place]) -> Result<Vec<Place>, MachineError> {
    let expected = "\"threads-together\", \"threads-last\" or the list of the numbers";
    let order: Vec<usize> = match value.get_ref() {
        DeValue::String(word) if word == "threads-together" => return Ok(tree.to_vec()),
        DeValue::String(word) if word == "threads-last" => {
            let thread =
                |index: usize| tree[..index].iter().rev().take_while(|cpu| cpu.core == tree[index].core).count();
            let mut order: Vec<usize> = (0..tree.len()).collect();
            order.sort_by_key(|&index| (thread(index), index));
            order
        }
        DeValue::Array(items) => {
            let mut order = vec![usize::MAX; tree.len()];
            let last = tree.len() as u64 - 1;
            if items.len() != tree.len() {
                let expected = format!("{} numbers, one for each CPU of the shape", tree.len());
                return Err(table.wrong("numbering", value, &expected));
            }
            for (index, item) in items.iter().enumerate() {
                let cpu = table.integer("numbering", item, 0..=last.min(MAX_CPUS as u64))? as usize;
                if order[cpu] != usize::MAX {
                    return Err(table.wrong("numbering", item, "each number once"));
                }
                order[cpu] = index;
            }
            order
        }
        _ => return Err(table.wrong("numbering", value, expected)),
    };
    Ok(order.into_iter().map(|index| tree[index]).collect())
}

fn read_costs(mut table: Table<'_, '_>) -> Result<Costs, MachineError> {
    // The reference machine gives every key, so it never asks for itself here.
    let mut fallback = None;
    let mut one = |table: &mut Table<'_, '_>, key: &'static str, of: fn(&Costs) -> u64| match table.optional(key) {
        Some(value) => table.integer(key, value, COST_NS),
        None => Ok(of(fallback.get_or_insert_with(|| Machine::reference().costs))),
    };
    let context_switch_ns = one(&mut table, "context_switch_ns", |costs| costs.context_switch_ns)?;
    let idle_exit_ns = one(&mut table, "idle_exit_ns", |costs| costs.idle_exit_ns)?;
    let interrupt_ns = one(&mut table, "interrupt_ns", |costs| costs.interrupt_ns)?;
    let tick_ns = one(&mut table, "tick_ns", |costs| costs.tick_ns)?;
    let instruction_ps = one(&mut table, "instruction_ps", |costs| costs.instruction_ps)?;
    let callback_ns = one(&mut table, "callback_ns", |costs| costs.callback_ns)?;
    let wakeup_ns = one(&mut table, "wakeup_ns", |costs| costs.wakeup_ns)?;
    let fork_ns = one(&mut table, "fork_ns", |costs| costs.fork_ns)?;
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
        idle_exit_ns,
        interrupt_ns,
        tick_ns,
        instruction_ps,
        callback_ns,
        call_ns,
        wakeup_ns,
        fork_ns,
        attach_ns,
        disable_ns,
    })
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
mod tests {
    use super::*;
    use ids::{CpuId, Locality};
    use proptest::prelude::*;

    const GOOD: &str = r#"description = "test"
hz = 250
no_hz_idle = true
[topology]
shape = "node:2 core:1 pu:2"
numbering = "threads-last"
distances = [[10, 21], [21, 10]]
[costs]
context_switch_ns = 7
ipi_ns = [1, 2, 3]
"#;

    #[test]
    fn a_file_is_read() {
        let machine = Machine::from_toml("dir/my.toml", GOOD).unwrap();
        assert_eq!((machine.name.as_str(), machine.description.as_str(), machine.hz), ("my", "test", 250));
        let nodes: Vec<u32> = machine.topology.places.iter().map(|cpu| cpu.node).collect();
        assert_eq!(nodes, [0, 1, 0, 1]);
        assert_eq!(machine.topology.distances, [[10, 21], [21, 10]]);
        assert_eq!((machine.costs.context_switch_ns, machine.costs.ipi_ns), (7, [1, 2, 3]));
        assert_eq!(machine.costs.tick_ns, Machine::preset("server-64").unwrap().costs.tick_ns);
    }

    #[test]
    fn a_numbering_may_be_given_number_by_number() {
        let machine = Machine::from_toml("t", &GOOD.replace("\"threads-last\"", "[3, 0, 2, 1]")).unwrap();
        // The tree's CPUs 0 and 1 (node 0) became 3 and 0.
        assert_eq!(machine.topology.places.iter().map(|cpu| cpu.node).collect::<Vec<_>>(), [0, 1, 1, 0]);
        assert_eq!(machine.topology.locality(CpuId(0), CpuId(3)), Locality::Smt);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let cases = [
            ("hz = 250", "hertz = 250", "f.toml:1: the file has no key hz"),
            ("hz = 250", "hz = 0", "f.toml:2: hz is 0; expected an integer from 24 to 10000"),
            ("hz = 250", "hz = \"x\"", r#"f.toml:2: hz is "x"; expected an integer from 24 to 10000"#),
            ("hz = 250", "hz = -1", "f.toml:2: hz is -1; expected an integer from 24 to 10000"),
            ("hz = 250", "hz = 250\nhz = 3", "f.toml:3: not TOML: duplicate key"),
            ("hz = 250", "hz = ", "f.toml:2: not TOML: string values must be quoted, expected literal string"),
            ("true", "1", "f.toml:3: no_hz_idle is 1; expected true or false"),
            ("pu:2\"", "pu:x\"", r#"f.toml:5: shape: "pu:x": expected a count from 1 to 4096"#),
            ("shape", "shap", "f.toml:4: [topology] has no key shape"),
            (
                "numbering",
                "numberign",
                "f.toml:6: [topology] has an unknown key numberign (did you mean numbering?); known are shape, numbering, distances",
            ),
            (
                "\"threads-last\"",
                "\"last\"",
                r#"f.toml:6: numbering is "last"; expected "threads-together", "threads-last" or the list of the numbers"#,
            ),
            (
                "\"threads-last\"",
                "[0, 1]",
                "f.toml:6: numbering is [0, 1]; expected 4 numbers, one for each CPU of the shape",
            ),
            ("\"threads-last\"", "[0, 1, 1, 2]", "f.toml:6: numbering is 1; expected each number once"),
            ("\"threads-last\"", "[0, 1, 2, 4]", "f.toml:6: numbering is 4; expected an integer from 0 to 3"),
            (
                "[[10, 21], [21, 10]]",
                "[[10, 21], [22, 10]]",
                "f.toml:7: distance from node 0 to 1 is 21, but back it is 22",
            ),
            ("[[10, 21], [21, 10]]", "[10]", "f.toml:7: distances is 10; expected an array of integers"),
            (
                "[[10, 21], [21, 10]]",
                "[[10]]",
                "f.toml:7: distances have rows of [1]; expected 2 rows of 2, one for each node",
            ),
            (
                "context_switch_ns",
                "context_swich_ns",
                "f.toml:9: [costs] has an unknown key context_swich_ns (did you mean context_switch_ns?); known are context_switch_ns, idle_exit_ns, interrupt_ns, tick_ns, instruction_ps, callback_ns, wakeup_ns, fork_ns, attach_ns, disable_ns, ipi_ns, call_ns",
            ),
            ("[1, 2, 3]", "[1, 2]", "f.toml:10: ipi_ns is [1, 2]; expected 3 costs: same LLC, same node, far"),
            ("[1, 2, 3]", "[1, 2, 3e3]", "f.toml:10: ipi_ns is 3e3; expected an integer from 0 to 1000000000"),
            (
                "[costs]",
                "[caches]",
                "f.toml:8: the file has an unknown key caches; known are description, hz, no_hz_idle, topology, costs, noise",
            ),
        ];
        for (from, to, expected) in cases {
            assert!(GOOD.contains(from));
            let error = Machine::from_toml("f.toml", &GOOD.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(
            Machine::from_toml("f.toml", "").unwrap_err().to_string(),
            "f.toml:1: the file has no key description"
        );
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(cut in 0..=GOOD.len(), at in 0..GOOD.len(), bit in 0..7) {
            let mut bytes = GOOD.as_bytes().to_vec();
            bytes[at] ^= 1u8 << bit;
            bytes.truncate(cut.max(1));
            let text = String::from_utf8_lossy(&bytes);
            if let Ok(machine) = Machine::from_toml("f.toml", &text) {
                prop_assert!(machine.validate().is_ok());
            }
        }
    }
}
