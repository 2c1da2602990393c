// SPDX-License-Identifier: GPL-2.0-only
//! `weir machine`: a machine as a file to edit, and what can be measured of this one.

use crate::args::{Machine as Args, MachineFormat};
use crate::output::print;
use crate::select;
use anyhow::{Context, Result, ensure};
use live::hardware::{self, Quantiles, Quantity, Scope};
use machine_model::Machine;
use serde_json::{Value, json};
use std::fmt::Write;

/// The word that stands for the numbers of this machine instead of the file of one.
const MEASURE: &str = "measure";

/// Prints the machine.
pub fn machine(args: &Args) -> Result<()> {
    if args.machine == MEASURE {
        return measure(args);
    }
    ensure!(!args.keys, "--keys is for weir machine {MEASURE}; the file of a machine has all keys");
    let machine = select::machine(&args.machine)?;
    let text = match args.format {
        // The file of a preset also names the source of each number.
        MachineFormat::Toml => match machine_model::presets().iter().find(|(name, _)| *name == args.machine) {
            Some((_, text)) => (*text).to_owned(),
            None => machine.to_toml(),
        },
        MachineFormat::Json => format!("{:#}\n", document(&machine)?),
    };
    print(&text)?;
    Ok(())
}

/// What the file says, and beside it what its topology means for each CPU and node.
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

/// Measures this machine.
fn measure(args: &Args) -> Result<()> {
    let host = select::machine("host")?;
    let usable = hardware::usable().context("which CPUs may be used")?;
    let scope = if args.keys { Scope::Keys } else { Scope::All };
    let quantities = hardware::measure(&host.topology, &usable, scope, &mut |what| eprintln!("measuring {what}"));
    let text = match args.format {
        MachineFormat::Toml => lines(&quantities),
        MachineFormat::Json => format!("{:#}\n", measured(&quantities)),
    };
    print(&text)?;
    Ok(())
}

/// A line for each number; the key of a machine file stands behind it in brackets.
fn lines(quantities: &[Quantity]) -> String {
    let mut text = format!("{:>9}  {:<20}  nanoseconds unless it says otherwise\n", "median", "10 % to 90 %");
    for Quantity { key, what, value } in quantities {
        let Quantiles { p10, median, p90 } = value;
        let range = format!("{} to {}", number(*p10), number(*p90));
        let key = key.map_or_else(String::new, |key| format!(" [{key}]"));
        let _ = writeln!(text, "{:>9}  {range:<20}  {what}{key}", number(*median));
    }
    text += "\nnot measured:\n";
    for what in hardware::UNMEASURED {
        let _ = writeln!(text, "- {what}");
    }
    text
}

/// With a digit behind the point where that says something.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn measured(quantities: &[Quantity]) -> Value {
    let row = |Quantity { key, what, value }: &Quantity| json!({ "key": key, "what": what, "p10": value.p10, "median": value.median, "p90": value.p90 });
    json!({
        "weir": 1,
        "measured": quantities.iter().map(row).collect::<Vec<_>>(),
        "unmeasured": hardware::UNMEASURED,
    })
}
