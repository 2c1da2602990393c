// SPDX-License-Identifier: GPL-2.0-only
//! Parser for `profile.toml`. An unknown key is an error, and every error contains its line number.

use crate::apply::FLAGS;
use crate::calls::CallSetting;
use crate::elements::ElementSetting;
use crate::formula::{Formula, OPERATIONS};
use crate::workload::WorkloadSource;
use crate::{Constant, Preset, Profile, ProfileError, Setting, Source, Tunable, TunableKind, near};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const KEYS: [&str; 12] = [
    "summary",
    "leave-out",
    "ops",
    "rodata",
    "resize",
    "maps",
    "element",
    "call",
    "presets",
    "tunables",
    "promises",
    "claims",
];

/// Maximum nesting depth of arrays and structures; no C variable of a scheduler has more levels.
const MAX_DEPTH: usize = 8;

impl Profile {
    /// Parses TOML; `name` is the file name used in errors.
    pub fn from_toml(name: &str, text: &str) -> Result<Profile, ProfileError> {
        let reader = Reader { name, text };
        let table = DeTable::parse(text)
            .map_err(|error| reader.error(error.span().unwrap_or(0..0), format!("not TOML: {}", error.message())))?;
        let mut profile = Profile::default();
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                "summary" => profile.summary = reader.string(value)?.to_owned(),
                "leave-out" => profile.left_out = reader.names(value)?,
                "ops" => reader.ops(reader.table(value)?, &mut profile)?,
                "rodata" => profile.variables = reader.settings(reader.table(value)?)?,
                "resize" => profile.sizes = reader.settings(reader.table(value)?)?,
                "maps" => reader.maps(reader.table(value)?, &mut profile)?,
                "element" => profile.elements = reader.elements(value)?,
                "call" => profile.calls = reader.calls(value)?,
                "presets" => profile.presets = reader.presets(reader.table(value)?)?,
                "tunables" => profile.tunables = reader.tunables(reader.table(value)?)?,
                "promises" | "claims" => {
                    reader.promises(reader.table(value)?)?.put_into(&mut profile.promises);
                }
                _ => {
                    return Err(reader.unknown("key", key, &KEYS));
                }
            }
        }
        profile.check_tunables()?;
        Ok(profile)
    }

    /// Checks the profile's own values of tunables against the types and ranges that apply to the command line.
    fn check_tunables(&self) -> Result<(), ProfileError> {
        for (name, setting) in self.variables.iter().chain(self.presets.values().flat_map(|preset| &preset.settings)) {
            if let Some(tunable) = self.tunables.get(name).filter(|_| !setting.value.is_of_machine()) {
                let check = tunable.kind.check(&setting.value);
                check.map_err(|problem| ProfileError::new(&setting.place, format!("`{name}`: {problem}")))?;
            }
        }
        Ok(())
    }
}

pub(crate) type Key<'i> = Spanned<std::borrow::Cow<'i, str>>;
pub(crate) type Node<'i> = Spanned<DeValue<'i>>;

/// The text, kept to convert spans to line numbers.
pub(crate) struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn place(&self, span: Range<usize>) -> String {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        format!("{}:{}", self.name, 1 + before.iter().filter(|byte| **byte == b'\n').count())
    }

    pub(crate) fn error(&self, span: Range<usize>, problem: impl Into<String>) -> ProfileError {
        ProfileError { place: self.place(span), problem: problem.into() }
    }

    pub(crate) fn unknown(&self, what: &str, key: &Key<'_>, known: &[&str]) -> ProfileError {
        self.error(key.span(), near::unknown(what, key.get_ref(), known.iter().copied()))
    }

    fn expected(&self, value: &Node<'_>, what: &str) -> ProfileError {
        self.error(value.span(), format!("expected {what}, not {}", value.get_ref().type_str()))
    }

    fn table<'v, 'i>(&self, value: &'v Node<'i>) -> Result<&'v DeTable<'i>, ProfileError> {
        value.get_ref().as_table().ok_or_else(|| self.expected(value, "a table"))
    }

    fn string<'v>(&self, value: &'v Node<'_>) -> Result<&'v str, ProfileError> {
        value.get_ref().as_str().ok_or_else(|| self.expected(value, "a string"))
    }

    pub(crate) fn bool(&self, value: &Node<'_>) -> Result<bool, ProfileError> {
        value.get_ref().as_bool().ok_or_else(|| self.expected(value, "true or false"))
    }

    pub(crate) fn integer(&self, value: &Node<'_>) -> Result<i128, ProfileError> {
        let integer = value.get_ref().as_integer().ok_or_else(|| self.expected(value, "an integer"))?;
        i128::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| self.error(value.span(), format!("{integer} is larger than any C integer")))
    }

    fn ops(&self, table: &DeTable<'_>, profile: &mut Profile) -> Result<(), ProfileError> {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "flags" => profile.flags = self.flags(value)?,
                "timeout_ms" => {
                    let timeout_ms = u32::try_from(self.integer(value)?)
                        .map_err(|_| self.error(value.span(), "expected milliseconds from 0 to 4294967295"))?;
                    profile.timeout_ms = Some((timeout_ms, self.place(value.span())));
                }
                _ => return Err(self.unknown("key of [ops]", key, &["flags", "timeout_ms"])),
            }
        }
        Ok(())
    }

    fn flags(&self, value: &Node<'_>) -> Result<Vec<(String, String)>, ProfileError> {
        let flags = self.names(value)?;
        for (name, place) in &flags {
            let known = FLAGS.iter().map(|(known, _)| *known);
            if !known.clone().any(|known| known == name) {
                return Err(ProfileError::new(place, near::unknown("ops flag", name, known)));
            }
        }
        Ok(flags)
    }

    /// Parses an array of names, each with its place.
    fn names(&self, value: &Node<'_>) -> Result<Vec<(String, String)>, ProfileError> {
        let array = value.get_ref().as_array().ok_or_else(|| self.expected(value, "an array of names"))?;
        array.iter().map(|name| Ok((self.string(name)?.to_owned(), self.place(name.span())))).collect()
    }

    fn settings(&self, table: &DeTable<'_>) -> Result<BTreeMap<String, Setting>, ProfileError> {
        let setting = |(key, value): (&Key<'_>, &Node<'_>)| {
            let setting = Setting { value: self.constant(value, MAX_DEPTH)?, place: self.place(key.span()) };
            Ok((key.get_ref().to_string(), setting))
        };
        table.iter().map(setting).collect()
    }

    fn setting(&self, value: &Node<'_>) -> Result<Setting, ProfileError> {
        Ok(Setting { value: self.constant(value, MAX_DEPTH)?, place: self.place(value.span()) })
    }

    /// `[maps.NAME]`: `max_entries`, `fill`.
    fn maps(&self, table: &DeTable<'_>, profile: &mut Profile) -> Result<(), ProfileError> {
        for (name, value) in table {
            for (key, value) in self.table(value)? {
                let settings = match key.get_ref().as_ref() {
                    "max_entries" => &mut profile.capacities,
                    "fill" => &mut profile.fills,
                    _ => return Err(self.unknown("key of a map", key, &["max_entries", "fill"])),
                };
                settings.insert(name.get_ref().to_string(), self.setting(value)?);
            }
        }
        Ok(())
    }

    /// `[[element]]`: `map`, `key` unless the map is a queue, `value`.
    fn elements(&self, value: &Node<'_>) -> Result<Vec<ElementSetting>, ProfileError> {
        let array = value.get_ref().as_array().ok_or_else(|| self.expected(value, "[[element]] tables"))?;
        array.iter().map(|element| self.element(element)).collect()
    }

    fn element(&self, element: &Node<'_>) -> Result<ElementSetting, ProfileError> {
        let (mut map, mut key_of, mut value_of, mut per_cpu) = (None, None, None, false);
        for (key, value) in self.table(element)? {
            match key.get_ref().as_ref() {
                "map" => map = Some(self.string(value)?.to_owned()),
                "key" => key_of = Some(self.setting(value)?),
                "value" => value_of = Some(self.setting(value)?),
                "per-cpu" => per_cpu = self.bool(value)?,
                _ => return Err(self.unknown("key of an element", key, &["map", "key", "value", "per-cpu"])),
            }
        }
        let missing = |what: &str| self.error(element.span(), format!("the element has no `{what}`"));
        Ok(ElementSetting {
            map: map.ok_or_else(|| missing("map"))?,
            key: key_of,
            value: value_of.ok_or_else(|| missing("value"))?,
            per_cpu,
            place: self.place(element.span()),
        })
    }

    /// A table is a machine value if it has the key `machine` with a known name and otherwise only operations; else
    /// it lists members of a structure.
    fn table_value(&self, value: &Node<'_>, table: &DeTable<'_>, depth: usize) -> Result<Constant, ProfileError> {
        let operation = |key: &str| OPERATIONS.iter().any(|(name, _)| *name == key);
        if let Some(machine) = table.get("machine")
            && let Some(name) = machine.get_ref().as_str()
            && table.keys().all(|key| key.get_ref() == "machine" || operation(key.get_ref()))
        {
            let problem = || self.error(machine.span(), near::unknown("machine value", name, Source::names()));
            return self.machine_value(Source::find(name).ok_or_else(problem)?, table, depth);
        }
        if let (Some(workload), 1) = (table.get("workload"), table.len())
            && let Some(name) = workload.get_ref().as_str()
        {
            let problem =
                || self.error(workload.span(), near::unknown("workload value", name, WorkloadSource::names()));
            return Ok(Constant::Workload(WorkloadSource::find(name).ok_or_else(problem)?));
        }
        let mut members = Vec::new();
        for (key, member) in table {
            members.push((key.get_ref().to_string(), self.constant(member, depth)?));
        }
        if members.is_empty() {
            return Err(self.error(value.span(), "expected { machine = \"NAME\" } or members, not an empty table"));
        }
        Ok(Constant::Members(members))
    }

    fn machine_value(&self, source: Source, table: &DeTable<'_>, depth: usize) -> Result<Constant, ProfileError> {
        let mut operations = Vec::new();
        for (name, operation) in OPERATIONS {
            if let Some(value) = table.get(name) {
                operations.push((operation, self.constant(value, depth)?));
            }
        }
        Ok(match operations.is_empty() {
            true => Constant::Machine(source),
            false => Constant::Formula(Box::new(Formula { source, operations })),
        })
    }

    fn constant(&self, value: &Node<'_>, depth: usize) -> Result<Constant, ProfileError> {
        match value.get_ref() {
            DeValue::Integer(_) => Ok(Constant::Integer(self.integer(value)?)),
            DeValue::Boolean(value) => Ok(Constant::Bool(*value)),
            DeValue::String(text) => Ok(Constant::Text(text.to_string())),
            DeValue::Array(values) if depth > 0 => {
                let values = values.iter().map(|value| self.constant(value, depth - 1));
                Ok(Constant::Array(values.collect::<Result<_, _>>()?))
            }
            DeValue::Table(table) if depth > 0 => self.table_value(value, table, depth - 1),
            _ => Err(self.expected(
                value,
                "an integer, true, false, a string, an array or table of these, or { machine = \"NAME\" }",
            )),
        }
    }

    /// `[[call]]`: `program`, and `context` if the program takes an argument.
    fn calls(&self, value: &Node<'_>) -> Result<Vec<CallSetting>, ProfileError> {
        let array = value.get_ref().as_array().ok_or_else(|| self.expected(value, "[[call]] tables"))?;
        array.iter().map(|call| self.call(call)).collect()
    }

    fn call(&self, call: &Node<'_>) -> Result<CallSetting, ProfileError> {
        let (mut program, mut context, mut attached) = (None, Vec::new(), false);
        for (key, value) in self.table(call)? {
            match key.get_ref().as_ref() {
                "program" => program = Some(self.string(value)?.to_owned()),
                "context" => context = self.settings(self.table(value)?)?.into_iter().collect(),
                "attached" => attached = self.bool(value)?,
                _ => return Err(self.unknown("key of a call", key, &["program", "context", "attached"])),
            }
        }
        let missing = || self.error(call.span(), "the call has no `program`");
        Ok(CallSetting { program: program.ok_or_else(missing)?, context, attached, place: self.place(call.span()) })
    }

    fn presets(&self, table: &DeTable<'_>) -> Result<BTreeMap<String, Preset>, ProfileError> {
        let preset =
            |(key, value): (&Key<'_>, &Node<'_>)| Ok((key.get_ref().to_string(), self.preset(self.table(value)?)?));
        table.iter().map(preset).collect()
    }

    /// `[presets.NAME]`: `doc`, `promises`, and values of variables.
    fn preset(&self, table: &DeTable<'_>) -> Result<Preset, ProfileError> {
        let mut preset = Preset::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "doc" => preset.doc = self.string(value)?.to_owned(),
                "promises" => preset.promises = self.promises(self.table(value)?)?,
                name => {
                    let setting = Setting { value: self.constant(value, MAX_DEPTH)?, place: self.place(key.span()) };
                    preset.settings.insert(name.to_owned(), setting);
                }
            }
        }
        Ok(preset)
    }

    fn tunables(&self, table: &DeTable<'_>) -> Result<BTreeMap<String, Tunable>, ProfileError> {
        let tunable = |(key, value): (&Key<'_>, &Node<'_>)| {
            Ok((key.get_ref().to_string(), self.tunable(key, self.table(value)?)?))
        };
        table.iter().map(tunable).collect()
    }

    fn tunable(&self, name: &Key<'_>, table: &DeTable<'_>) -> Result<Tunable, ProfileError> {
        let (mut kind, mut range, mut doc) = (None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "type" => kind = Some((self.string(value)?, value.span())),
                "range" => range = Some((self.range(value)?, value.span())),
                "doc" => doc = Some(self.string(value)?.to_owned()),
                _ => return Err(self.unknown("key of a tunable", key, &["type", "range", "doc"])),
            }
        }
        let kind = match (kind, range) {
            (Some(("integer", _)), range) => TunableKind::Integer(range.map(|(range, _)| range)),
            (Some(("bool", _)), None) => TunableKind::Bool,
            (Some(("bool", _)), Some((_, span))) => return Err(self.error(span, "a tunable of type bool has no range")),
            (Some((other, span)), _) => {
                let problem = near::unknown("type of a tunable", other, ["integer", "bool"].into_iter());
                return Err(self.error(span, problem));
            }
            (None, _) => return Err(self.error(name.span(), format!("`{name}` has no `type`", name = name.get_ref()))),
        };
        let missing = || self.error(name.span(), format!("`{name}` has no `doc`", name = name.get_ref()));
        Ok(Tunable { kind, doc: doc.ok_or_else(missing)?, place: self.place(name.span()) })
    }

    /// `[low, high]`.
    fn range(&self, value: &Node<'_>) -> Result<(i128, i128), ProfileError> {
        let ends = value.get_ref().as_array().ok_or_else(|| self.expected(value, "[low, high]"))?;
        let ends = ends.iter().map(|end| self.integer(end)).collect::<Result<Vec<_>, _>>()?;
        match ends[..] {
            [low, high] if low <= high => Ok((low, high)),
            _ => Err(self.error(value.span(), "expected [low, high] with low <= high")),
        }
    }
}
