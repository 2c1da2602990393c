// SPDX-License-Identifier: GPL-2.0-only
//! `weir machine`: prints a machine as a file to edit, or measures the costs of this machine.

use crate::args::{Machine as Args, MachineFormat};
use crate::output::print;
use crate::select;
use anyhow::{Context, Result, ensure};
use machine_model::Machine;
use serde_json::{Value, json};

/// Argument that requests measurements of this machine instead of a machine file.
const MEASURE: &str = "measure";

#[cfg(feature = "real")]
mod measure;
#[cfg(not(feature = "real"))]
mod measure {
    /// Fails: measuring needs the feature `real`.
    pub fn measure(_: &super::Args) -> anyhow::Result<()> {
        crate::incomplete("weir machine measure")
    }
}

/// Prints the machine.
pub fn machine(args: &Args) -> Result<()> {
    if args.machine == MEASURE {
        return measure::measure(args);
    }
    ensure!(!args.keys, "--keys is only for weir machine {MEASURE}; a machine file always has all keys");
    let machine = select::machine(&args.machine)?;
    let text = match args.format {
        // The file of a preset is printed verbatim because its comments name the source of each number.
        MachineFormat::Toml => match machine_model::presets().iter().find(|(name, _)| *name == args.machine) {
            Some((_, text)) => (*text).to_owned(),
            None => machine.to_toml(),
        },
        MachineFormat::Json => format!("{:#}\n", document(&machine)?),
    };
    print(&text)?;
    Ok(())
}

/// The machine file as JSON, and the resulting topology of each CPU and node.
fn document(machine: &Machine) -> Result<Value> {
    let file: Value = toml::from_str(&machine.to_toml()).context("the machine as a file")?;
    let topology = &machine.topology;
    let cpu = |cpu: ids::CpuId| {
        let place = topology.place(cpu);
        json!({
            "cpu": cpu.0, "core": place.core, "llc": place.llc, "node": place.node,
            "capacity": topology.capacities[cpu.index()], "online": !machine.offline.contains(cpu),
        })
    };
    let present = machine.present_cpus();
    let node = |node: u32| {
        let cpus: ids::CpuSet = present.iter().filter(|cpu| topology.place(*cpu).node == node).collect();
        json!({ "node": node, "cpus": cpus.to_string() })
    };
    Ok(json!({
        "weir": 1,
        "name": machine.name,
        "summary": machine.summary(),
        "file": file,
        "cpus": present.iter().map(cpu).collect::<Vec<_>>(),
        "nodes": (0..topology.nodes() as u32).map(node).collect::<Vec<_>>(),
        "distances": topology.distances,
    }))
}
