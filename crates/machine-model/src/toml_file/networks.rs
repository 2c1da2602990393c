// SPDX-License-Identifier: GPL-2.0-only
//! The tables `[networks.NAME]`, and the options of `--network`.

use super::Table;
use super::devices::{self, Devices, Layers, MB_S, SERVERS};
use super::effects::NANOSECONDS;
use crate::disks::{BOTTOM_NS, TOP_NS};
use crate::{Estimate, Link, Machine, MachineError, Network, Networks, Routing, network_presets};
use ids::Topology;
use std::ops::RangeInclusive;

/// Up to 1 Tbit/s.
const MBIT_S: RangeInclusive<u64> = 1..=1_000_000;

const NETWORKS: Devices =
    Devices { table: "networks", what: "[networks]", one: "network", presets: network_presets(), most: 64 };

/// Reads `[networks]`, a table of tables.
pub(super) fn read(table: &Table<'_, '_>, topology: &Topology) -> Result<Networks, MachineError> {
    let networks = NETWORKS.read(table, |name, own| network(name, own, topology))?;
    Ok(Networks { networks, ..Networks::default() })
}

#[derive(Clone, Copy, Default)]
enum Kind {
    #[default]
    Unknown,
    Wire,
    Loopback,
}

fn network(name: &str, own: Table<'_, '_>, topology: &Topology) -> Result<Network, MachineError> {
    NETWORKS.layers(own, |layers| network_of(name, layers, topology))
}

fn network_of(name: &str, layers: &mut Layers<'_, '_, '_>, topology: &Topology) -> Result<Network, MachineError> {
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
    let interrupt_cpus = devices::interrupt_cpus(layers, topology)?;
    let routing = layers.word("interrupts", &Routing::NAMES)?;
    let top_ns = layers.estimate("top_ns", NANOSECONDS)?.unwrap_or(TOP_NS);
    let bottom_ns = layers.estimate("bottom_ns", NANOSECONDS)?.unwrap_or(BOTTOM_NS);
    let name = name.to_owned();
    Ok(Network { name, link, server_ns, exponential, servers, interrupt_cpus, routing, top_ns, bottom_ns })
}

impl Machine {
    /// Adds a network, `[NAME=]PRESET{,key=value}` with the keys of a machine file; it replaces one of the same name.
    /// The default name is `eth0`.
    ///
    /// # Errors
    /// Names the option and what was expected.
    pub fn add_network(&mut self, text: &str) -> Result<(), MachineError> {
        let network = NETWORKS.option(text, "eth0", |name, own| network(name, own, &self.topology))?;
        self.effects.networks.networks.retain(|other| other.name != network.name);
        self.effects.networks.networks.push(network);
        self.effects.networks.networks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}
