// SPDX-License-Identifier: GPL-2.0-only
//! Model of this machine and its kernel for predictions.
//!
//! 1. The default scheduler is that of the kernel model.
//! 2. The machine is the one that sysfs shows, as a machine file. The costs of a switch, a wakeup and an IPI are
//!    measured in each round by `weir machine measure`: a virtual machine can be 20 % slower from one minute to the
//!    next, and the runtime of a program that only switches consists of such costs. The newidle balance ratio, which
//!    earlier programs have left in the kernel, is measured as well.
//! 3. The time until an idle CPU runs a task woken by another CPU is measured after a short and after a long idle
//!    period. Machines differ most in it, virtual ones by a factor of ten. Two threads on two CPUs wake each other,
//!    for real and in the model without that cost; the difference is the cost.

use super::Weir;
use anyhow::{Context, Result};
use machine_model::Machine;
use std::fs;

/// Number of measurements. Other tasks only prolong wakeups, so the minimum counts.
const ROUNDS: u32 = 5;

/// Idle periods: half and twice the time after which KVM gives a halted CPU away.
const SOON_US: u32 = 100;
const LATE_US: u32 = 400;

/// As in the recorder's `bpf/idle.bpf.h`, with its source.
const HALTED_AFTER_NS: u64 = 200_000;

/// Key of the newidle balance ratio: not a cost, but measured like one.
const NEWIDLE_RATIO: &str = "newidle_ratio";

/// Name of the default scheduler.
pub const KERNEL: &str = "kernel";

/// Machines of a prediction, as arguments of `weir sim`.
pub struct Host {
    /// The host with all its CPUs.
    pub whole: String,
    /// The host with only one CPU.
    pub single: String,
    /// Measured values, for display.
    pub note: String,
    /// For [`Host::price`]; `None` if the costs are not those of this machine.
    files: Option<Files>,
}

/// Contents of the machine files besides costs.
struct Files {
    machine: Machine,
    topology: String,
    exits: Option<Exits>,
}

impl Files {
    /// Writes the machine file of the whole machine or of one CPU, and returns its path.
    fn write(&self, weir: &Weir<'_>, name: &str, topology: &str, costs: &[(&str, u64)]) -> Result<String> {
        let path = weir.scratch.join(format!("{name}.toml"));
        fs::write(&path, machine_file(&self.machine, topology, costs, self.exits))?;
        Ok(path.display().to_string())
    }

    /// Writes both machine files, with these costs.
    fn write_both(&self, weir: &Weir<'_>, costs: &[(&str, u64)]) -> Result<[String; 2]> {
        let whole = self.write(weir, "host", &self.topology, costs)?;
        Ok([whole, self.write(weir, "host-1", "shape = \"core:1 pu:1\"", costs)?])
    }
}

impl Host {
    /// Measures the running machine. If a machine file cannot describe it, for example with offline CPUs, `weir`
    /// reads sysfs itself and uses the costs of another machine.
    pub fn measure(weir: &Weir<'_>) -> Result<Host> {
        let machine = Machine::from_sysfs(&|path| fs::read_to_string(path).ok())?;
        let plain = |note: String| Host { whole: "host".into(), single: "core:1 pu:1".into(), note, files: None };
        let Some(topology) = topology(&machine) else {
            return Ok(plain("host: costs of server-64, as its CPUs fit no machine file".into()));
        };
        let online = machine.online_cpus();
        let mut cpus = online.iter();
        let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else {
            return Ok(plain("host: costs of server-64, as there is no second CPU to wake".into()));
        };
        let costs = measured(weir)?;
        let mut files = Files { machine, topology, exits: None };
        let median = |arguments: &[&str]| -> Result<u64> {
            let document = weir.document(arguments)?;
            document["runs"][0]["wakeup_latency_ns"]["p50"].as_u64().context("no wakeup latency")
        };
        let [bare, _] = files.write_both(weir, &costs)?;
        // Returns real and predicted latency if each CPU is idle for this time.
        let wakeup = |idle_us: u32| -> Result<(u64, u64)> {
            let game = weir.scratch.join("pingpong.json");
            fs::write(&game, pingpong(first.0, second.0, idle_us))?;
            let game = game.display().to_string();
            let predicted = median(&["sim", "--format", "json", KERNEL, "--kernel", "host", "-m", &bare, "-w", &game])?;
            let measured = (0..ROUNDS).map(|_| median(&["run", "--format", "json", "-w", &game]));
            Ok((measured.collect::<Result<Vec<_>>>()?.into_iter().min().expect("there is a round"), predicted))
        };
        let (soon, late) = (wakeup(SOON_US)?, wakeup(LATE_US)?);
        let rest = |(real, predicted): (u64, u64)| real.saturating_sub(predicted);
        files.exits = Some(Exits { idle_ns: rest(soon), halt_ns: rest(late) });
        let us = |ns: u64| ns as f64 / 1e3;
        let note = format!(
            "host: a CPU that idles for {SOON_US} us runs a task {:.1} us after another woke it, one that idles for {LATE_US} us\n\
             {:.1} us; the model's {:.1} us without idle_exit_ns and exit_ns of `[halt]`, which are the rest. Measured\n\
             in each round anew, at first:\n{}",
            us(soon.0),
            us(late.0),
            us(soon.1),
            costs.iter().map(|(key, ns)| format!("{key} {ns}")).collect::<Vec<_>>().join(", ")
        );
        let [whole, single] = files.write_both(weir, &costs)?;
        Ok(Host { whole, single, note, files: Some(files) })
    }

    /// Measures the present costs of switches, wakeups and interrupts, and writes the machines with them.
    pub fn price(&self, weir: &Weir<'_>) -> Result<()> {
        if let Some(files) = &self.files {
            files.write_both(weir, &measured(weir)?)?;
        }
        Ok(())
    }
}

/// Exit latency of an idle CPU.
#[derive(Clone, Copy)]
struct Exits {
    /// After a short idle period.
    idle_ns: u64,
    /// After an idle period that was long enough for the host to give the CPU to others.
    halt_ns: u64,
}

/// Returns a workload of two threads, on one CPU each, that wake each other in turn; each CPU is idle for this time
/// in between.
fn pingpong(first: u32, second: u32, idle_us: u32) -> String {
    let task = |cpu: u32| {
        format!(
            r#"{{ "loop": -1, "cpus": [{cpu}], "lock": "turn", "sync": {{ "ref": "over", "mutex": "turn" }},
             "unlock": "turn", "run": {idle_us} }}"#
        )
    };
    format!(r#"{{ "global": {{ "duration": 1 }}, "tasks": {{ "ping": {}, "pong": {} }} }}"#, task(first), task(second))
}

/// Returns the median costs that `weir machine measure` finds, by their keys in a machine file.
fn measured(weir: &Weir<'_>) -> Result<Vec<(&'static str, u64)>> {
    const KEYS: [&str; 5] =
        ["costs.context_switch_ns", "costs.wakeup_ns", "costs.ipi_send_ns", "halt.send_ns", NEWIDLE_RATIO];
    let document = weir.document(&["machine", "measure", "--keys", "--format", "json"])?;
    let all = document["measured"].as_array().context("weir machine measure measured nothing")?;
    let find = |key: &'static str| {
        let row = all.iter().find(|row| row["key"].as_str() == Some(key));
        row.and_then(|row| Some((key, row["median"].as_f64()? as u64)))
    };
    Ok(KEYS.into_iter().filter_map(find).collect())
}

/// Returns the text of a machine file. Without exit latencies no CPU is given away.
fn machine_file(machine: &Machine, topology: &str, costs: &[(&str, u64)], exits: Option<Exits>) -> String {
    let table = |name: &str| -> String {
        let keys = costs.iter().filter_map(|(key, ns)| Some((key.strip_prefix(name)?.strip_prefix('.')?, ns)));
        keys.map(|(key, ns)| format!("{key} = {ns}\n")).collect()
    };
    let ratio = costs.iter().find(|(key, _)| *key == NEWIDLE_RATIO);
    let ratio = ratio.map_or(String::new(), |(key, ratio)| format!("{key} = {ratio}\n"));
    let (costs, halt) = (table("costs"), table("halt"));
    let idle_exit_ns = exits.map_or(0, |exits| exits.idle_ns);
    let halt = match exits {
        Some(Exits { halt_ns, .. }) if !halt.is_empty() => {
            format!("\n[halt]\nafter_ns = {HALTED_AFTER_NS}\n{halt}exit_ns = {halt_ns}\n")
        }
        _ => String::new(),
    };
    format!(
        "description = \"the machine of the prediction\"\nhz = {}\nno_hz_idle = {}\n{ratio}\n[topology]\n{topology}\n\n\
         [costs]\n{costs}idle_exit_ns = {idle_exit_ns}\n{halt}",
        machine.hz, machine.no_hz_idle
    )
}

/// Returns the `[topology]` keys of this machine, if it is uniform.
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
        let made = Machine::from_toml("host.toml", &machine_file(machine, text, &[], None));
        made.is_ok_and(|made| made.topology.places == topology.places && machine.offline.is_empty())
    };
    texts.find(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine_model::Halt;

    #[test]
    fn uniform_machine_round_trips_through_a_file() {
        for shape in ["core:2 pu:1", "core:4 pu:2", "node:2 l3:2 core:4 pu:2"] {
            let machine = Machine::from_synthetic(shape).unwrap();
            let topology = topology(&machine).expect(shape);
            let costs = [("costs.wakeup_ns", 333), ("halt.send_ns", 555)];
            let exits = Exits { idle_ns: 7_000, halt_ns: 9_000 };
            let file = |costs, exits| machine_file(&machine, &topology, costs, exits);
            let back = |text: &str| Machine::from_toml("host.toml", text).unwrap();
            let all = back(&file(&costs, Some(exits)));
            assert_eq!(all.topology, machine.topology, "{shape}");
            assert_eq!((all.costs.wakeup_ns, all.costs.idle_exit_ns), (333, 7_000));
            assert_eq!(all.costs.halt, Some(Halt { after_ns: 200_000, send_ns: 555, exit_ns: 9_000 }));
            assert_eq!(back(&file(&costs[..1], Some(exits))).costs.halt, None);
            assert_eq!(back(&file(&costs, None)).costs.halt, None);
        }
        // SMT siblings of the laptop are numbered last.
        let laptop = Machine::preset("laptop-2c4t").unwrap();
        assert!(topology(&laptop).unwrap().contains("threads-last"));
    }

    #[test]
    fn irregular_and_offline_machines_have_no_machine_file() {
        let mut machine = Machine::from_synthetic("core:4 pu:1").unwrap();
        machine.topology.places[3].core = 2;
        assert_eq!(topology(&machine), None, "a core of two threads beside two of one");
        let mut machine = Machine::from_synthetic("core:2 pu:1").unwrap();
        machine.offline = machine.all_cpus();
        assert_eq!(topology(&machine), None, "offline CPUs");
    }
}
