// SPDX-License-Identifier: GPL-2.0-only
//! Machines with changed keys: `desktop-4c,llc_kb=1024` is the machine `desktop-4c` with that line in its file.

use crate::{Machine, MachineError};
use toml::{Table, Value};

/// Changed keys of a machine file, with their values as text. A dot leads into a table: `costs.context_switch_ns`.
pub type Changes<'a> = Vec<(&'a str, &'a str)>;

/// Splits `NAME{,key=value}` into the name and the changed keys. Commas in brackets or parentheses do not separate: hwloc
/// strings and lists contain some. Text after a comma without `=` is part of the name.
pub fn split_changes(what: &str) -> (&str, Changes<'_>) {
    let (mut depth, mut commas) = (0u32, Vec::new());
    for (at, letter) in what.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    let (mut name, mut changes) = (what, Vec::new());
    while let Some(at) = commas.pop() {
        let Some(change) = name[at + 1..].split_once('=') else { break };
        changes.insert(0, change);
        name = &name[..at];
    }
    (name, changes)
}

impl Machine {
    /// The machine of a file with changed keys. `what` is its name in results and errors. A value is an integer, `true`,
    /// `false`, or a list of integers; anything else is a string.
    ///
    /// # Errors
    /// If the text, a key or a value is invalid. A changed file has other lines, so errors name `what` in their place.
    pub fn from_changed_toml(what: &str, text: &str, changes: &[(&str, &str)]) -> Result<Machine, MachineError> {
        let wrong = |problem: String| MachineError { place: what.to_owned(), problem };
        let mut file: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        changes.iter().try_for_each(|(key, value)| change(&mut file, key, value)).map_err(wrong)?;
        let machine = Machine::from_toml(what, &file.to_string()).map_err(|error| wrong(error.problem))?;
        Ok(Machine { name: what.to_owned(), ..machine })
    }
}

fn change(file: &mut Table, key: &str, value: &str) -> Result<(), String> {
    let mut table = file;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            return Err(format!("key {key:?}: expected KEY or TABLE.KEY of a machine file"));
        }
        if parts.peek().is_none() {
            table.insert(part.to_owned(), read(value));
            break;
        }
        let inner = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
        let no_table = || format!("key {key:?}: {part} is no table but of the type {}", inner.type_str());
        table = match inner {
            Value::Table(table) => table,
            _ => return Err(no_table()),
        };
    }
    Ok(())
}

fn read(value: &str) -> Value {
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let is_plain = |value: &Value| value.is_integer() || value.is_bool() || value.is_array();
    parsed.filter(is_plain).unwrap_or_else(|| Value::String(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_split_at_commas_outside_of_brackets() {
        let cases = [
            ("desktop-4c", "desktop-4c", vec![]),
            ("desktop-4c,llc_kb=1024,hz=250", "desktop-4c", vec![("llc_kb", "1024"), ("hz", "250")]),
            ("core:2 pu:2(indexes=0,2,1,3),hz=100", "core:2 pu:2(indexes=0,2,1,3)", vec![("hz", "100")]),
            ("a,caches.memory_ns=[60,80,100]", "a", vec![("caches.memory_ns", "[60,80,100]")]),
            ("./a,b.toml", "./a,b.toml", vec![]),
            ("./a,b.toml,hz=100", "./a,b.toml", vec![("hz", "100")]),
        ];
        for (what, name, changes) in cases {
            assert_eq!(split_changes(what), (name, changes), "{what}");
        }
    }

    fn changed(changes: &[(&str, &str)]) -> Result<Machine, MachineError> {
        let text = crate::presets().iter().find(|preset| preset.0 == "desktop-4c").unwrap().1;
        Machine::from_changed_toml("changed", text, changes)
    }

    #[test]
    fn changed_keys_replace_those_of_the_file_and_leave_the_others() {
        let original = Machine::preset("desktop-4c").unwrap();
        assert_eq!(changed(&[]).unwrap(), Machine { name: "changed".to_owned(), ..original.clone() });
        let machine =
            changed(&[("llc_kb", "512"), ("frequency.governor", "performance"), ("costs.tick_ns", "7")]).unwrap();
        assert_eq!((machine.llc_kb, machine.costs.tick_ns), (512, 7));
        assert_eq!(machine.effects.caches.unwrap().llc_kb, [512], "the cache model has the size of the machine");
        assert_eq!(machine.costs.wakeup_ns, original.costs.wakeup_ns);
        let latencies =
            |memory: &str| changed(&[("caches.memory_ns", memory)]).unwrap().effects.caches.unwrap().memory_ns;
        assert_ne!(latencies("[61,80,100]"), latencies("[60,80,100]"));
    }

    #[test]
    fn invalid_changes_name_the_machine_and_what_was_expected() {
        let error = |key, value| changed(&[(key, value)]).unwrap_err().to_string();
        assert_eq!(error("hz", "7"), "changed: hz is 7; expected an integer from 24 to 10000");
        assert!(error("llc_bk", "7").starts_with("changed: the file has an unknown key llc_bk (did you mean llc_kb?)"));
        assert_eq!(error("idle.exit_ns", "7"), "changed: key \"idle.exit_ns\": idle is no table but of the type array");
        assert_eq!(error("costs.", "7"), "changed: key \"costs.\": expected KEY or TABLE.KEY of a machine file");
    }
}
