// SPDX-License-Identifier: GPL-2.0-only
//! The tables `[networks.NAME]`, and the options of `--network`.

use super::disks::{self, Layers, MB_S, NAME, SERVERS, is_name};
use super::effects::NANOSECONDS;
use super::{Source, Table, near_miss};
use crate::disks::{BOTTOM_NS, TOP_NS};
use crate::{Estimate, Link, Machine, MachineError, Network, Networks, Routing, network_presets};
use ids::Topology;
use std::ops::RangeInclusive;
use toml::de::{DeTable, DeValue};

/// Up to 1 Tbit/s.
const MBIT_S: RangeInclusive<u64> = 1..=1_000_000;

/// Networks that a machine may have.
const MOST: usize = 64;

/// Reads `[networks]`, a table of tables.
pub(super) fn read(table: &Table<'_, '_>, topology: &Topology) -> Result<Networks, MachineError> {
    let mut networks = Vec::new();
    for (name, value) in table.content {
        let DeValue::Table(content) = value.get_ref() else {
            return Err(table.wrong("networks", value, "tables [networks.NAME]"));
        };
        let own = Table { source: table.source, what: "[networks]", span: value.span(), content, known: Vec::new() };
        if !is_name(name.get_ref()) {
            return Err(table.source.error(&name.span(), format!("network {:?}; expected a {NAME}", name.get_ref())));
        }
        networks.push(network(name.get_ref(), own, topology)?);
    }
    if networks.len() > MOST {
        let problem = format!("{} networks; expected at most {MOST}", networks.len());
        return Err(table.source.error(&table.span, problem));
    }
    networks.sort_by(|a: &Network, b| a.name.cmp(&b.name));
    Ok(Networks { networks, ..Networks::default() })
}

#[derive(Clone, Copy, Default)]
enum Kind {
    #[default]
    Unknown,
    Wire,
    Loopback,
}

fn network(name: &str, mut own: Table<'_, '_>, topology: &Topology) -> Result<Network, MachineError> {
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
    let link = match layers.word("kind", &[("wire", Kind::Wire), ("loopback", Kind::Loopback)])? {
        Kind::Unknown => return Err(layers.own.required("kind").expect_err("the table has no such key")),
        Kind::Wire => Link::Wire {
            latency_ns: layers.required("latency_ns", NANOSECONDS)?,
            mbit_s: layers.required("mbit_s", MBIT_S)?,
        },
        Kind::Loopback => Link::Loopback {
            overhead_ns: layers.required("overhead_ns", NANOSECONDS)?,
            mb_s: layers.required("mb_s", MB_S)?,
        },
    };
    let server_ns = layers.estimate("server_ns", NANOSECONDS)?.unwrap_or(Estimate::exactly(0));
    if matches!(link, Link::Loopback { .. }) && server_ns != Estimate::exactly(0) {
        let problem = "a loopback has no server behind it (server_ns); describe a local server by tasks of its own";
        return Err(layers.own.source.error(&layers.own.span, problem.to_owned()));
    }
    let exponential = layers.word("draw", &[("constant", false), ("exponential", true)])?;
    let servers = layers.integer("servers", SERVERS, 1)? as u32;
    let interrupt_cpus = disks::interrupt_cpus(&mut layers, topology)?;
    let routing = layers.word("interrupts", &Routing::NAMES)?;
    let top_ns = layers.estimate("top_ns", NANOSECONDS)?.unwrap_or(TOP_NS);
    let bottom_ns = layers.estimate("bottom_ns", NANOSECONDS)?.unwrap_or(BOTTOM_NS);
    layers.own.finish()?;
    let name = name.to_owned();
    Ok(Network { name, link, server_ns, exponential, servers, interrupt_cpus, routing, top_ns, bottom_ns })
}

fn preset(name: &str) -> Result<(&'static str, &'static str), String> {
    network_presets().iter().find(|preset| preset.0 == name).copied().ok_or_else(|| {
        let near = near_miss(name, network_presets().iter().map(|preset| preset.0));
        let names: Vec<&str> = network_presets().iter().map(|preset| preset.0).collect();
        format!("no network preset {name:?}{near}; presets are {}", names.join(", "))
    })
}

impl Machine {
    /// Adds a network, `[NAME=]PRESET{,key=value}` with the keys of a machine file; it replaces one of the same name.
    /// The default name is `eth0`.
    ///
    /// # Errors
    /// Names the option and what was expected.
    pub fn add_network(&mut self, text: &str) -> Result<(), MachineError> {
        let failed = |problem| MachineError { place: format!("--network {text}"), problem };
        let (name, like, file) = disks::option(text, "eth0").map_err(failed)?;
        preset(like).map_err(failed)?;
        let source = Source { name: "", text: &file };
        let table = DeTable::parse(&file).map_err(|error| failed(error.message().replace('\n', ", ")))?;
        let read = network(name, Table::new(&source, "[networks]", &table), &self.topology);
        let read = read.map_err(|error| failed(error.problem))?;
        let networks = &mut self.effects.networks.networks;
        networks.retain(|network| network.name != read.name);
        networks.push(read);
        networks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}
