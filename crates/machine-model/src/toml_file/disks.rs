// SPDX-License-Identifier: GPL-2.0-only
//! The tables `[disks.NAME]`, and the options of `--disk`.

use super::effects::NANOSECONDS;
use super::{Source, Table, near_miss};
use crate::disks::{BOTTOM_NS, TOP_NS};
use crate::{Disk, Disks, Estimate, Machine, MachineError, Order, Routing, Service, disk_presets};
use ids::{CpuSet, Topology};
use std::ops::RangeInclusive;
use toml::de::{DeTable, DeValue};

/// Up to 100 GB/s.
pub(super) const MB_S: RangeInclusive<u64> = 1..=100_000;
/// Tape drives turn more slowly, drives of 2000 up to 15,000 times a minute.
const RPM: RangeInclusive<u64> = 100..=100_000;
/// Up to an exabyte.
const CAPACITY_GB: RangeInclusive<u64> = 1..=1_000_000_000;
pub(super) const SERVERS: RangeInclusive<u64> = 1..=4096;
const DEPTH: RangeInclusive<u64> = 1..=65_536;
const SPINDLES: RangeInclusive<u64> = 1..=1024;
const STRIPE_KB: RangeInclusive<u64> = 1..=1 << 20;

/// Disks that a machine may have.
const MOST: usize = 256;

/// Reads `[disks]`, a table of tables.
pub(super) fn read(table: &Table<'_, '_>, topology: &Topology) -> Result<Disks, MachineError> {
    let mut disks = Vec::new();
    for (name, value) in table.content {
        let DeValue::Table(content) = value.get_ref() else {
            return Err(table.wrong("disks", value, "tables [disks.NAME]"));
        };
        let own = Table { source: table.source, what: "[disks]", span: value.span(), content, known: Vec::new() };
        if !is_name(name.get_ref()) {
            return Err(table.source.error(&name.span(), format!("disk {:?}; expected a {NAME}", name.get_ref())));
        }
        disks.push(disk(name.get_ref(), own, topology)?);
    }
    if disks.len() > MOST {
        return Err(table.source.error(&table.span, format!("{} disks; expected at most {MOST}", disks.len())));
    }
    disks.sort_by(|a: &Disk, b| a.name.cmp(&b.name));
    Ok(Disks { disks, ..Disks::default() })
}

pub(super) const NAME: &str = "name of letters, digits, - and _";

pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 32
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
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

#[derive(Clone, Copy, Default)]
enum Kind {
    #[default]
    Unknown,
    Recorded,
    Ram,
    Flash,
    Spindle,
}

fn disk(name: &str, mut own: Table<'_, '_>, topology: &Topology) -> Result<Disk, MachineError> {
    let like = match own.optional("like") {
        None => None,
        Some(value) => {
            let word = own.string("like", value)?;
            Some(preset(word).map_err(|problem| own.error(value, problem))?)
        }
    };
    let source = like.map(|(name, text)| Source { name, text });
    let document = source.as_ref().map(|source| DeTable::parse(source.text).expect("a test reads all presets"));
    let preset = source.as_ref().zip(document.as_ref()).map(|(source, table)| Table::new(source, "the preset", table));
    let mut layers = Layers { own, preset };
    let service = service(&mut layers)?;
    let unlimited = if matches!(service, Service::Spindle { .. }) { 1 } else { *DEPTH.end() };
    let servers = layers.integer("servers", SERVERS, 1)? as u32;
    let depth = layers.integer("depth", DEPTH, unlimited)? as u32;
    let order = layers.word("order", &Order::NAMES)?;
    let spindles = layers.integer("spindles", SPINDLES, 1)? as u32;
    let stripe_kb = layers.integer("stripe_kb", STRIPE_KB, 64)? as u32;
    let interrupt_cpus = interrupt_cpus(&mut layers, topology)?;
    let routing = layers.word("interrupts", &Routing::NAMES)?;
    let top_ns = layers.estimate("top_ns", NANOSECONDS)?.unwrap_or(TOP_NS);
    let bottom_ns = layers.estimate("bottom_ns", NANOSECONDS)?.unwrap_or(BOTTOM_NS);
    layers.own.finish()?;
    let name = name.to_owned();
    let depth = depth.max(servers);
    Ok(Disk { name, service, servers, depth, order, spindles, stripe_kb, interrupt_cpus, routing, top_ns, bottom_ns })
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

fn service(layers: &mut Layers<'_, '_, '_>) -> Result<Service, MachineError> {
    let kinds = [("ram", Kind::Ram), ("flash", Kind::Flash), ("spindle", Kind::Spindle), ("recorded", Kind::Recorded)];
    Ok(match layers.word("kind", &kinds)? {
        Kind::Unknown => return Err(layers.own.required("kind").expect_err("the table has no such key")),
        Kind::Recorded => Service::Recorded,
        Kind::Ram => Service::Ram {
            overhead_ns: layers.required("overhead_ns", NANOSECONDS)?,
            mb_s: layers.required("mb_s", MB_S)?,
        },
        Kind::Flash => Service::Flash {
            read_ns: layers.required("read_ns", NANOSECONDS)?,
            write_ns: layers.required("write_ns", NANOSECONDS)?,
            mb_s: layers.required("mb_s", MB_S)?,
            exponential: layers.word("draw", &[("constant", false), ("exponential", true)])?,
        },
        Kind::Spindle => {
            let overhead_ns = layers.required("overhead_ns", NANOSECONDS)?;
            let seek_track_ns = layers.required("seek_track_ns", NANOSECONDS)?;
            let seek_average_ns = layers.required("seek_average_ns", NANOSECONDS)?;
            if seek_average_ns.typical < seek_track_ns.typical {
                let problem = "seek_average_ns is below seek_track_ns; expected at least as much".to_owned();
                return Err(layers.own.source.error(&layers.own.span, problem));
            }
            let rpm = layers.integer("rpm", RPM, 0)?;
            let mb_s = layers.required("mb_s", MB_S)?;
            let capacity_gb = layers.integer("capacity_gb", CAPACITY_GB, 0)?;
            for (key, value) in [("rpm", rpm), ("capacity_gb", capacity_gb)] {
                if value == 0 {
                    layers.own.required(key)?;
                }
            }
            Service::Spindle { overhead_ns, seek_track_ns, seek_average_ns, rpm, mb_s, capacity_gb }
        }
    })
}

fn preset(name: &str) -> Result<(&'static str, &'static str), String> {
    disk_presets().iter().find(|preset| preset.0 == name).copied().ok_or_else(|| {
        let near = near_miss(name, disk_presets().iter().map(|preset| preset.0));
        let names: Vec<&str> = disk_presets().iter().map(|preset| preset.0).collect();
        format!("no disk preset {name:?}{near}; presets are {}", names.join(", "))
    })
}

/// Splits an option `[NAME=]PRESET{,key=value}` into name, preset, and the keys as a TOML table.
pub(super) fn option<'t>(text: &'t str, default: &'t str) -> Result<(&'t str, &'t str, String), String> {
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

impl Machine {
    /// Adds a disk, `[NAME=]PRESET{,key=value}` with the keys of a machine file; it replaces one of the same name.
    /// The default name is `sda`.
    ///
    /// # Errors
    /// Names the option and what was expected.
    pub fn add_disk(&mut self, text: &str) -> Result<(), MachineError> {
        let failed = |problem| MachineError { place: format!("--disk {text}"), problem };
        let (name, like, file) = option(text, "sda").map_err(failed)?;
        preset(like).map_err(failed)?;
        let source = Source { name: "", text: &file };
        let table = DeTable::parse(&file).map_err(|error| failed(error.message().replace('\n', ", ")))?;
        let read = disk(name, Table::new(&source, "[disks]", &table), &self.topology);
        let read = read.map_err(|error| failed(error.problem))?;
        let disks = &mut self.effects.disks.disks;
        disks.retain(|disk| disk.name != read.name);
        disks.push(read);
        disks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Effect, Machine, Service};

    const HEAD: &str = "description = \"t\"\nhz = 250\nno_hz_idle = true\n[topology]\nshape = \"core:2 pu:1\"\n";

    fn read(text: &str) -> Result<Machine, String> {
        Machine::from_toml("f.toml", &format!("{HEAD}{text}")).map_err(|error| error.to_string())
    }

    #[test]
    fn disks_are_read_from_keys_and_presets() {
        let machine = read(
            "[disks.b]\nlike = \"hdd-7200\"\nspindles = 4\nmb_s = 50\n[disks.a]\nkind = \"flash\"\nread_ns = 5\n\
             write_ns = [1, 2, 3]\nmb_s = 100\nservers = 3\n",
        )
        .unwrap();
        assert_eq!(machine.effects.modelled().collect::<Vec<_>>(), [Effect::Disks, Effect::Interrupts]);
        let [a, b] = &machine.effects.disks.disks[..] else { panic!("two disks, by name") };
        assert_eq!((a.name.as_str(), a.servers, b.name.as_str(), b.spindles, b.depth), ("a", 3, "b", 4, 1));
        assert!(matches!(&b.service, Service::Spindle { rpm: 7200, mb_s, .. } if mb_s.typical == 50));
        let back = Machine::from_toml("f.toml", &machine.to_toml()).unwrap();
        assert_eq!(back, machine, "{}", machine.to_toml());
    }

    #[test]
    fn invalid_disks_give_errors_with_line() {
        for (text, expected) in [
            ("[disks]\na = 5\n", "f.toml:7: disks is 5; expected tables [disks.NAME]"),
            ("[disks.a]\nmb_s = 5\n", "f.toml:6: [disks] has no key kind"),
            (
                "[disks.a]\nkind = \"tape\"\n",
                "f.toml:7: kind is \"tape\"; expected one of ram, flash, spindle, recorded",
            ),
            ("[disks.a]\nkind = \"ram\"\nmb_s = 5\n", "f.toml:6: [disks] has no key overhead_ns"),
            ("[disks.\"a b\"]\nkind = \"ram\"\n", "f.toml:6: disk \"a b\"; expected a name of letters"),
            ("[disks.a]\nlike = \"nvm\"\n", "f.toml:7: no disk preset \"nvm\" (did you mean nvme?)"),
            ("[disks.a]\nlike = \"nvme\"\nservers = 0\n", "f.toml:8: servers is 0; expected an integer from 1 to 4096"),
            (
                "[disks.a]\nlike = \"nvme\"\ninterrupt_cpus = \"2\"\n",
                "f.toml:8: interrupt_cpus is \"2\"; expected CPUs",
            ),
            (
                "[disks.a]\nlike = \"hdd-7200\"\nseek_average_ns = 5\n",
                "f.toml:6: seek_average_ns is below seek_track_ns",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
