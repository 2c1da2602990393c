// SPDX-License-Identifier: GPL-2.0-only
//! What stands in for this machine and its kernel in a prediction.
//!
//! 1. The kernel's own scheduler is that of the kernel model.
//! 2. The machine is the one that sysfs shows, as a machine file. Its costs of a switch, a wakeup and an interrupt sent to
//!    another CPU are those of `weir machine measure`.
//! 3. What it takes until an idle CPU runs a task that another CPU woke is measured, too. That is where machines differ
//!    most, a virtual one by ten times. Two threads on two CPUs wake each other for real and in the model without that
//!    cost, and the cost is what is missing.

use super::Weir;
use anyhow::{Context, Result};
use machine_model::Machine;
use std::fs;

/// Times that it is measured. Others who want the CPUs only make wakeups longer, so the least counts.
const ROUNDS: u32 = 5;

/// The kernel's own scheduler.
pub const KERNEL: &str = "kernel";

/// The machines of a prediction, as `weir sim` is to be told.
pub struct Host {
    /// All its CPUs.
    pub whole: String,
    /// One of them.
    pub single: String,
    /// What was measured, for people.
    pub note: String,
}

impl Host {
    /// Of the running machine. What has no place in a machine file, such as CPUs that are offline, is seen by `weir`
    /// itself, which then counts with the costs of another machine.
    pub fn measure(weir: &Weir<'_>) -> Result<Host> {
        let machine = Machine::from_sysfs(&|path| fs::read_to_string(path).ok())?;
        let plain = |note: String| Host { whole: "host".into(), single: "core:1 pu:1".into(), note };
        let Some(topology) = topology(&machine) else {
            return Ok(plain("host: costs of server-64, as its CPUs fit no machine file".into()));
        };
        let online = machine.online_cpus();
        let mut cpus = online.iter();
        let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else {
            return Ok(plain("host: costs of server-64, as there is no second CPU to wake".into()));
        };
        let costs = measured(weir)?;
        let file = |name: &str, topology: &str, idle_exit_ns: u64| -> Result<String> {
            let path = weir.scratch.join(format!("{name}.toml"));
            fs::write(&path, machine_file(&machine, topology, &costs, idle_exit_ns))?;
            Ok(path.display().to_string())
        };
        let game = weir.scratch.join("pingpong.json");
        fs::write(&game, pingpong(first.0, second.0))?;
        let game = game.display().to_string();
        let median = |arguments: &[&str]| -> Result<u64> {
            let document = weir.document(arguments)?;
            document["runs"][0]["wakeup_latency_ns"]["p50"].as_u64().context("no wakeup latency")
        };
        let bare = file("host", &topology, 0)?;
        let predicted = median(&["sim", "--format", "json", KERNEL, "--kernel", "host", "-m", &bare, "-w", &game])?;
        let measured = (0..ROUNDS).map(|_| median(&["run", "--format", "json", "-w", &game]));
        let real = measured.collect::<Result<Vec<_>>>()?.into_iter().min().expect("there is a round");
        let idle_exit_ns = real.saturating_sub(predicted);
        let note = format!(
            "host: an idle CPU runs a task {:.1} us after another woke it, the model's {:.1} us; the rest is\n\
             idle_exit_ns; measured: {}",
            real as f64 / 1e3,
            predicted as f64 / 1e3,
            costs.iter().map(|(key, ns)| format!("{key} {ns}")).collect::<Vec<_>>().join(", ")
        );
        let whole = file("host", &topology, idle_exit_ns)?;
        Ok(Host { whole, single: file("host-1", "shape = \"core:1 pu:1\"", idle_exit_ns)?, note })
    }
}

/// Two threads that wake each other in turn, each on a CPU of its own.
fn pingpong(first: u32, second: u32) -> String {
    let task = |cpu: u32| {
        format!(
            r#"{{ "loop": -1, "cpus": [{cpu}], "lock": "turn", "sync": {{ "ref": "over", "mutex": "turn" }},
             "unlock": "turn", "run": 100 }}"#
        )
    };
    format!(r#"{{ "global": {{ "duration": 1 }}, "tasks": {{ "ping": {}, "pong": {} }} }}"#, task(first), task(second))
}

/// Costs of this machine that `weir machine measure` finds, by their keys in a machine file: the medians.
fn measured(weir: &Weir<'_>) -> Result<Vec<(&'static str, u64)>> {
    const KEYS: [&str; 3] = ["context_switch_ns", "wakeup_ns", "ipi_send_ns"];
    let document = weir.document(&["machine", "measure", "--format", "json"])?;
    let all = document["measured"].as_array().context("weir machine measure measured nothing")?;
    let find = |key: &'static str| {
        let row = all.iter().find(|row| row["key"].as_str() == Some(&format!("costs.{key}")));
        row.and_then(|row| Some((key, row["median"].as_f64()? as u64)))
    };
    Ok(KEYS.into_iter().filter_map(find).collect())
}

fn machine_file(machine: &Machine, topology: &str, costs: &[(&str, u64)], idle_exit_ns: u64) -> String {
    let costs: String = costs.iter().map(|(key, ns)| format!("{key} = {ns}\n")).collect();
    format!(
        "description = \"the machine of the prediction\"\nhz = {}\nno_hz_idle = {}\n\n[topology]\n{topology}\n\n[costs]\n\
         {costs}idle_exit_ns = {idle_exit_ns}\n",
        machine.hz, machine.no_hz_idle
    )
}

/// The keys of `[topology]` for this machine, if it has equally many CPUs everywhere.
fn topology(machine: &Machine) -> Option<String> {
    let topology = &machine.topology;
    let (nodes, caches, cores, cpus) = (topology.nodes(), topology.llcs(), topology.cores(), topology.len());
    let shape = format!("node:{nodes} l3:{} core:{} pu:{}", caches / nodes, cores / caches, cpus / cores);
    let numberings = ["threads-together", "threads-last"].into_iter();
    let mut texts = numberings.map(|numbering| {
        let distances = &topology.distances;
        format!("shape = \"{shape}\"\nnumbering = \"{numbering}\"\ndistances = {distances:?}")
    });
    let same = |text: &String| {
        let made = Machine::from_toml("host.toml", &machine_file(machine, text, &[], 0));
        made.is_ok_and(|made| made.topology.places == topology.places && machine.offline.is_empty())
    };
    texts.find(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_machine_becomes_a_file_and_comes_back() {
        for shape in ["core:2 pu:1", "core:4 pu:2", "node:2 l3:2 core:4 pu:2"] {
            let machine = Machine::from_synthetic(shape).unwrap();
            let text = machine_file(&machine, &topology(&machine).expect(shape), &[("wakeup_ns", 333)], 7_000);
            let back = Machine::from_toml("host.toml", &text).unwrap();
            assert_eq!(back.topology, machine.topology, "{shape}");
            assert_eq!((back.costs.wakeup_ns, back.costs.idle_exit_ns), (333, 7_000));
        }
        // The laptop's threads are numbered last.
        let laptop = Machine::preset("laptop-2c4t").unwrap();
        assert!(topology(&laptop).unwrap().contains("threads-last"));
    }

    #[test]
    fn other_machines_have_no_file() {
        let mut machine = Machine::from_synthetic("core:4 pu:1").unwrap();
        machine.topology.places[3].core = 2;
        assert_eq!(topology(&machine), None, "a core of two threads beside two of one");
        let mut machine = Machine::from_synthetic("core:2 pu:1").unwrap();
        machine.offline = machine.all_cpus();
        assert_eq!(topology(&machine), None, "CPUs that are offline");
    }
}
