// SPDX-License-Identifier: GPL-2.0-only
//! What the tables of devices have in common: a table for each, a preset below it, and options of the command line with
//! the same keys.

use super::{Source, Table, near_miss};
use crate::{Estimate, MachineError};
use ids::{CpuSet, Topology};
use std::ops::RangeInclusive;
use toml::de::{DeTable, DeValue};

/// Up to 100 GB/s.
pub(super) const MB_S: RangeInclusive<u64> = 1..=100_000;
pub(super) const SERVERS: RangeInclusive<u64> = 1..=4096;

const NAME: &str = "name of letters, digits, - and _";

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 32
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A kind of devices.
pub(super) struct Devices {
    /// Name of their table.
    pub table: &'static str,
    /// The same as errors name it, in brackets.
    pub what: &'static str,
    /// Word for one of them, which is also the option of the command line.
    pub one: &'static str,
    /// Presets: name and text.
    pub presets: &'static [(&'static str, &'static str)],
    /// Number that a machine may have.
    pub most: usize,
}

impl Devices {
    /// Reads a table of tables; the devices are in the order of their names.
    pub fn read<T>(
        &self,
        table: &Table<'_, '_>,
        one: impl Fn(&str, Table<'_, '_>) -> Result<T, MachineError>,
    ) -> Result<Vec<T>, MachineError> {
        let mut devices = Vec::new();
        for (name, value) in table.content {
            let DeValue::Table(content) = value.get_ref() else {
                return Err(table.wrong(self.table, value, &format!("tables [{}.NAME]", self.table)));
            };
            let own = Table { source: table.source, what: self.what, span: value.span(), content, known: Vec::new() };
            let name_text = name.get_ref();
            if !is_name(name_text) {
                let problem = format!("{} {name_text:?}; expected a {NAME}", self.one);
                return Err(table.source.error(&name.span(), problem));
            }
            devices.push((name_text, one(name_text, own)?));
        }
        if devices.len() > self.most {
            let problem = format!("{} {}; expected at most {}", devices.len(), self.table, self.most);
            return Err(table.source.error(&table.span, problem));
        }
        devices.sort_by(|a, b| a.0.cmp(b.0));
        Ok(devices.into_iter().map(|(_, device)| device).collect())
    }

    /// Reads a device from its table and the preset that it is `like`; refuses keys that `read` does not ask for.
    pub fn layers<T>(
        &self,
        mut own: Table<'_, '_>,
        read: impl FnOnce(&mut Layers<'_, '_, '_>) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        let like = match own.optional("like") {
            None => None,
            Some(value) => {
                let word = own.string("like", value)?;
                Some(self.preset(word).map_err(|problem| own.error(value, problem))?)
            }
        };
        let source = like.map(|(name, text)| Source { name, text });
        let document = source.as_ref().map(|source| DeTable::parse(source.text).expect("a test reads all presets"));
        let preset =
            source.as_ref().zip(document.as_ref()).map(|(source, table)| Table::new(source, "the preset", table));
        let mut layers = Layers { own, preset };
        let device = read(&mut layers)?;
        layers.own.finish()?;
        Ok(device)
    }

    fn preset(&self, name: &str) -> Result<(&'static str, &'static str), String> {
        self.presets.iter().find(|preset| preset.0 == name).copied().ok_or_else(|| {
            let near = near_miss(name, self.presets.iter().map(|preset| preset.0));
            let names: Vec<&str> = self.presets.iter().map(|preset| preset.0).collect();
            format!("no {} preset {name:?}{near}; presets are {}", self.one, names.join(", "))
        })
    }

    /// Reads an option of the command line, `[NAME=]PRESET{,key=value}`.
    ///
    /// # Errors
    /// Names the option and what was expected.
    pub fn option<T>(
        &self,
        text: &str,
        default: &str,
        one: impl FnOnce(&str, Table<'_, '_>) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        let failed = |problem| MachineError { place: format!("--{} {text}", self.one), problem };
        let (name, like, file) = split(text, default).map_err(failed)?;
        self.preset(like).map_err(failed)?;
        let source = Source { name: "", text: &file };
        let table = DeTable::parse(&file).map_err(|error| failed(error.message().replace('\n', ", ")))?;
        one(name, Table::new(&source, self.what, &table)).map_err(|error| failed(error.problem))
    }
}

/// A table, and below it the preset that it is like.
pub(super) struct Layers<'a, 't, 'p> {
    pub own: Table<'a, 't>,
    pub preset: Option<Table<'p, 'p>>,
}

impl Layers<'_, '_, '_> {
    pub fn estimate(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Estimate>, MachineError> {
        if let Some(value) = self.own.optional(key) {
            return self.own.estimate(key, value, range).map(Some);
        }
        let Some(preset) = &mut self.preset else { return Ok(None) };
        preset.optional(key).map(|value| preset.estimate(key, value, range)).transpose()
    }

    pub fn required(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Result<Estimate, MachineError> {
        match self.estimate(key, range)? {
            Some(estimate) => Ok(estimate),
            None => self.own.required(key).map(|_| Estimate::default()),
        }
    }

    pub fn integer(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, MachineError> {
        if let Some(value) = self.own.optional(key) {
            return self.own.integer(key, value, range);
        }
        let Some(preset) = &mut self.preset else { return Ok(default) };
        preset.optional(key).map_or(Ok(default), |value| preset.integer(key, value, range))
    }

    pub fn word<T: Copy + Default>(&mut self, key: &'static str, words: &[(&str, T)]) -> Result<T, MachineError> {
        match &mut self.preset {
            Some(preset) if !self.own.content.keys().any(|name| name.get_ref() == key) => {
                self.own.known.push(key);
                preset.word(key, words)
            }
            _ => self.own.word(key, words),
        }
    }
}

/// Reads the CPUs that may handle the interrupts of a device.
pub(super) fn interrupt_cpus(
    layers: &mut Layers<'_, '_, '_>,
    topology: &Topology,
) -> Result<Option<CpuSet>, MachineError> {
    let Some(value) = layers.own.optional("interrupt_cpus") else { return Ok(None) };
    let cpus: Option<CpuSet> = layers.own.string("interrupt_cpus", value)?.parse().ok();
    let exist = |cpus: &CpuSet| !cpus.is_empty() && cpus.iter().all(|cpu| cpu.index() < topology.len());
    let expected = "CPUs of this machine, such as \"0-3\"";
    let cpus = cpus.filter(exist);
    cpus.ok_or_else(|| layers.own.wrong("interrupt_cpus", value, expected)).map(Some)
}

/// Splits an option `[NAME=]PRESET{,key=value}` into name, preset, and the keys as a TOML table.
fn split<'t>(text: &'t str, default: &'t str) -> Result<(&'t str, &'t str, String), String> {
    let (head, rest) = text.split_once(',').unwrap_or((text, ""));
    let (name, like) = head.split_once('=').unwrap_or((default, head));
    if !is_name(name) {
        return Err(format!("{name:?}; expected a {NAME}"));
    }
    let like_line = format!("like = {}\n", toml::Value::String(like.to_owned()));
    let rest = if text.contains(',') { keys(rest)? } else { String::new() };
    Ok((name, like, like_line + &rest))
}

/// The keys `key=value{,key=value}` as a TOML table.
pub(super) fn keys(text: &str) -> Result<String, String> {
    let mut file = String::new();
    for piece in text.split(',') {
        let (key, value) = piece
            .split_once('=')
            .filter(|(key, _)| is_name(key))
            .ok_or_else(|| format!("{piece:?}; expected key=value"))?;
        let is_number = key != "interrupt_cpus" && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let value = if is_number { value.to_owned() } else { toml::Value::String(value.to_owned()).to_string() };
        file += &format!("{key} = {value}\n");
    }
    Ok(file)
}
