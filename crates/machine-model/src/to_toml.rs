// SPDX-License-Identifier: GPL-2.0-only
//! Writes a machine as an editable file that reads back as the same machine.

mod disks;
mod effects;
mod memory;

use crate::synthetic::Tree;
use crate::{Costs, Halt, Machine, Noise, Spread};
use ids::{CpuId, CpuSet, Place, Topology};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

impl Machine {
    /// Text of a file from which [`Machine::from_toml`] recreates this machine, with a comment per key.
    pub fn to_toml(&self) -> String {
        // Destructured exhaustively, so that a new field cannot be forgotten.
        let Machine {
            name: _,
            description,
            topology,
            offline,
            absent,
            hz,
            no_hz_idle,
            newidle_ratio,
            autogroup,
            private_kb,
            llc_kb,
            costs,
            noise,
            effects,
            caveats,
        } = self;
        let mut text = format!("# {}\n", self.summary());
        line(&mut text, "description", quoted(description), "");
        line(&mut text, "hz", hz, "ticks per second of a busy CPU (CONFIG_HZ)");
        line(&mut text, "no_hz_idle", no_hz_idle, "an idle CPU stops its tick (CONFIG_NO_HZ_IDLE)");
        if let Some(ratio) = newidle_ratio {
            line(&mut text, "newidle_ratio", ratio, "initial newidle balance probability, in 1/1024");
        }
        if *autogroup {
            line(&mut text, "autogroup", autogroup, "tasks are grouped by session (sched_autogroup_enabled)");
        }
        if *private_kb > 0 {
            line(&mut text, "private_kb", private_kb, "size of a core's own cache in KiB");
        }
        if *llc_kb > 0 {
            line(&mut text, "llc_kb", llc_kb, "size of a CPU's last-level cache in KiB");
        }
        if !caveats.is_empty() {
            text.push_str("# What the source of this description says and was not used\ncaveats = [\n");
            caveats.iter().for_each(|caveat| {
                let _ = writeln!(text, "  {},", quoted(caveat));
            });
            text.push_str("]\n");
        }
        effects::write_origins(&mut text, effects, topology);
        write_topology(&mut text, topology, offline, absent);
        write_costs(&mut text, costs);
        write_noise(&mut text, noise);
        effects::write(&mut text, effects);
        text
    }
}

/// Writes `key = value  # comment`.
fn line(text: &mut String, key: &str, value: impl Display, comment: &str) {
    let assignment = format!("{key} = {value}");
    let comment = if comment.is_empty() { String::new() } else { format!("# {comment}") };
    text.push_str(format!("{assignment:<28} {comment}").trim_end());
    text.push('\n');
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn write_topology(text: &mut String, topology: &Topology, offline: &CpuSet, absent: &CpuSet) {
    text.push_str("\n[topology]\n");
    match shape(topology, offline) {
        Some((shape, numbering)) => {
            line(text, "shape", quoted(&shape), "");
            line(text, "numbering", quoted(numbering), "or threads-together, or the list of all numbers");
        }
        None => write_nodes(text, topology, absent),
    }
    if !topology.absent_nodes.is_empty() {
        let absent: CpuSet = topology.absent_nodes.iter().map(|&node| CpuId(node)).collect();
        line(text, "absent_nodes", quoted(&absent.to_string()), "numbers that no node has");
    }
    let plain = Topology::default_distances(topology.nodes());
    if topology.nodes() > 1 {
        let comment = if topology.distances == plain { "Linux defaults" } else { "SLIT: 10 is local" };
        let _ = writeln!(text, "# Distances between nodes ({comment})\ndistances = [");
        topology.distances.iter().for_each(|row| {
            let _ = writeln!(text, "  {row:?},");
        });
        text.push_str("]\n");
    }
    let mut weaker: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for (cpu, &capacity) in topology.capacities.iter().enumerate() {
        if capacity != Topology::FULL_CAPACITY && !absent.contains(CpuId(cpu as u32)) {
            weaker.entry(capacity).or_default().insert(CpuId(cpu as u32));
        }
    }
    if !weaker.is_empty() {
        let pairs: Vec<String> = weaker.iter().map(|(capacity, cpus)| format!("\"{cpus}\" = {capacity}")).collect();
        text.push_str(
            "# Capacity of slower CPUs (default 1024): visible to schedulers, and the rate at which they execute work\n",
        );
        let _ = writeln!(text, "capacity = {{ {} }}", pairs.join(", "));
    }
    let waiting: CpuSet = offline.iter().filter(|cpu| !absent.contains(*cpu)).collect();
    if !waiting.is_empty() {
        text.push_str("# The kernel does not report what offline CPUs share with others: correct the topology above\n");
        line(text, "offline", quoted(&waiting.to_string()), "");
    }
}

/// Shape and numbering, if all nodes, caches and cores are alike and every CPU is online.
fn shape(topology: &Topology, offline: &CpuSet) -> Option<(String, &'static str)> {
    let (nodes, llcs, cores, cpus) = (topology.nodes(), topology.llcs(), topology.cores(), topology.len());
    if !offline.is_empty()
        || !topology.absent_nodes.is_empty()
        || llcs % nodes != 0
        || cores % llcs != 0
        || cpus % cores != 0
    {
        return None;
    }
    let shape = format!("node:{nodes} llc:{} core:{} pu:{}", llcs / nodes, cores / llcs, cpus / cores);
    let tree = Tree::read(&shape).ok()?;
    let numbering = ["threads-last", "threads-together"].into_iter().find(|numbering| {
        let numbers = tree.numbers_by(numbering).expect("the name of a numbering");
        tree.numbered(&numbers).0.places == topology.places
    });
    Some((shape, numbering?))
}

/// Writes nodes as lists of caches, caches as lists of cores, cores as their CPUs.
fn write_nodes(text: &mut String, topology: &Topology, absent: &CpuSet) {
    text.push_str(
        "# Nodes contain last-level caches, which contain cores with their CPUs; [] is a memory-only node\nnodes = [\n",
    );
    let mut cores: BTreeMap<(u32, u32, u32), CpuSet> = BTreeMap::new();
    for cpu in topology.cpus().iter().filter(|cpu| !absent.contains(*cpu)) {
        let Place { core, llc, node } = topology.place(cpu);
        cores.entry((node, llc, core)).or_default().insert(cpu);
    }
    for node in 0..topology.nodes() as u32 {
        let mut caches: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (&(_, llc, _), cpus) in cores.range((node, 0, 0)..=(node, u32::MAX, u32::MAX)) {
            let core = if cpus.len() == 1 { cpus.to_string() } else { format!("\"{cpus}\"") };
            caches.entry(llc).or_default().push(core);
        }
        if caches.is_empty() {
            text.push_str("  [],\n");
            continue;
        }
        text.push_str("  [\n");
        for cores in caches.values() {
            let _ = writeln!(text, "    [{}],", cores.join(", "));
        }
        text.push_str("  ],\n");
    }
    text.push_str("]\n");
}

fn write_costs(text: &mut String, costs: &Costs) {
    let Costs {
        context_switch_ns,
        ipi_ns,
        ipi_send_ns,
        idle_exit_ns,
        halt,
        interrupt_ns,
        tick_ns,
        instruction_ps,
        callback_ns,
        call_ns,
        wakeup_ns,
        fork_ns,
        clone_ns,
        attach_ns,
        disable_ns,
    } = costs;
    text.push_str("\n[costs]\n");
    line(text, "context_switch_ns", context_switch_ns, "without the scheduler's own code");
    line(text, "ipi_ns", format!("{ipi_ns:?}"), "IPI latency: same last-level cache, same node, remote");
    line(text, "ipi_send_ns", ipi_send_ns, "sending an IPI, in addition to the wakeup");
    line(text, "idle_exit_ns", idle_exit_ns, "idle exit latency");
    line(text, "interrupt_ns", interrupt_ns, "timer or device interrupt");
    line(text, "tick_ns", tick_ns, "tick");
    line(text, "instruction_ps", instruction_ps, "BPF instruction, in picoseconds");
    line(text, "callback_ns", callback_ns, "entering and leaving a scheduler callback");
    line(text, "call_ns", format!("{call_ns:?}"), "kfunc: trivial, lookup, queue, scan, interrupt, clock");
    line(text, "wakeup_ns", wakeup_ns, "wakeup without callbacks");
    line(text, "fork_ns", fork_ns, "the scheduler's part of a fork");
    line(text, "clone_ns", clone_ns, "external parent, per created task");
    line(text, "attach_ns", attach_ns, "bypass mode while a scheduler is attached");
    line(text, "disable_ns", disable_ns, "bypass mode before it is detached");
    if let Some(Halt { after_ns, send_ns, exit_ns }) = halt {
        text.push_str("\n[halt]\n");
        line(text, "after_ns", after_ns, "idle time before a vCPU is descheduled");
        line(text, "send_ns", send_ns, "IPI to such a CPU, instead of ipi_send_ns");
        line(text, "exit_ns", exit_ns, "waking such a CPU, instead of idle_exit_ns");
    }
}

fn write_noise(text: &mut String, noise: &Noise) {
    let Noise {
        off,
        start_ns,
        work_run_ppm,
        work_task_ppm,
        work_segment_ppm,
        disturbance_every_ns,
        disturbance_ns,
        tick_ns,
        idle_exit_ppm,
        timer_ns,
        wakeup_ppm,
        switch_ppm,
        interrupt_ppm,
        threads,
        steal_every_us,
        steal_ns,
    } = noise;
    text.push_str("\n# Random variation: minimum, quantiles at 1, 5, 10, 25, 50, 75, 90, 95 and 99 %, maximum\n");
    text.push_str("[noise]\n");
    if !off.is_empty() {
        let names: Vec<String> = off.iter().map(|source| quoted(source.name())).collect();
        line(text, "off", format!("[{}]", names.join(", ")), "disabled noise sources");
    }
    let mut spread = |key, spread: &Spread| {
        if !spread.is_none() {
            line(text, key, format!("{:?}", spread.quantiles()), "");
        }
    };
    spread("start_ns", start_ns);
    spread("work_run_ppm", work_run_ppm);
    spread("work_task_ppm", work_task_ppm);
    spread("work_segment_ppm", work_segment_ppm);
    spread("disturbance_every_ns", disturbance_every_ns);
    spread("disturbance_ns", disturbance_ns);
    spread("tick_ns", tick_ns);
    spread("idle_exit_ppm", idle_exit_ppm);
    spread("timer_ns", timer_ns);
    spread("wakeup_ppm", wakeup_ppm);
    spread("switch_ppm", switch_ppm);
    spread("interrupt_ppm", interrupt_ppm);
    spread("steal_every_us", steal_every_us);
    spread("steal_ns", steal_ns);
    for thread in threads {
        text.push_str("\n[[noise.threads]]\n");
        line(text, "name", quoted(&thread.name), "");
        line(text, "each_cpu", thread.each_cpu, "");
        line(text, "nice", thread.nice, "");
        line(text, "sleep_us", format!("{:?}", thread.sleep_us.quantiles()), "");
        line(text, "work_ns", format!("{:?}", thread.work_ns.quantiles()), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads the written text back, restoring the name.
    fn back(machine: &Machine) -> Machine {
        let text = machine.to_toml();
        let made = Machine::from_toml("t.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Machine { name: machine.name.clone(), ..made }
    }

    #[test]
    fn presets_and_regular_machines_round_trip() {
        for (name, _) in crate::presets() {
            let machine = Machine::preset(name).unwrap();
            // A node without CPUs has no shape.
            assert_eq!(machine.to_toml().contains("shape ="), *name != "cxl-32", "{name}");
            assert_eq!(back(&machine), machine, "{name}");
        }
        let machine = Machine::from_synthetic("node:2 l3:2 core:2 pu:2").unwrap();
        assert!(machine.to_toml().contains("threads-together"));
        assert_eq!(back(&machine), machine);
    }

    #[test]
    fn effects_round_trip() {
        let head = "description = \"d\"\nhz = 250\nno_hz_idle = true\ntopology = { shape = \"core:2 pu:4\" }\n";
        let tables = "[smt]\nthroughput_percent = [125, [130, 140, 150], 160]\n[frequency]\nmhz = [1000, 2000]\n\
            turbo_mhz = [[2900, 3000, 3100], 2500]\nturbo_domain = \"node\"\ngovernor = \"ondemand\"\nturbo_us = 7\n\
            sampling_us = 8\ntransition_us = 9\nmemory_bound_percent = [1, 20, 30]\n[power]\nidle_percent = 30\n\
            voltage_slope_percent = [40, 50, 60]\n[[idle]]\nname = \"C1\"\nexit_ns = [1, 2, 3]\nresidency_ns = 2000\n\
            deep = false\npower_percent = 40\n[[idle]]\nname = \"C6\"\nexit_ns = 5\nresidency_ns = 600000\ndeep = true\n\
            power_percent = [0, 1, 2]\n[locks]\nline_transfer_ns = [1, 2, 3, 4]\nwakeup_hold_ns = 5\n\
            acquire_ns = [1, 2, 3, 4, 5, 6]\nspinner_slowdown_percent = 7\nfutex_ns = [8, 9, 10]\n[halt]\nafter_ns = 200000\nsend_ns = 0\nexit_ns = 1000\n";
        let machine = Machine::from_toml("t", &format!("{head}{tables}")).unwrap();
        assert_eq!(machine.effects.modelled().count(), 4);
        assert_eq!(machine.costs.halt, Some(Halt { after_ns: 200_000, send_ns: 0, exit_ns: 1_000 }));
        assert_eq!(back(&machine), machine);
    }

    #[test]
    fn special_characters_are_quoted() {
        let machine = Machine::from_synthetic("pu:1").unwrap();
        let machine = Machine {
            description: "a \"b\" \\ c\n# d = \u{7}".into(),
            hz: 100,
            no_hz_idle: false,
            newidle_ratio: Some(512),
            autogroup: true,
            private_kb: 512,
            llc_kb: 8192,
            ..machine
        };
        assert_eq!(back(&machine), machine);
    }

    proptest! {
        /// Machines with any combination of properties.
        #[test]
        fn random_machines_round_trip(
            nodes in prop::collection::vec(prop::collection::vec(prop::collection::vec(1usize..4, 1..4), 0..3), 1..4),
            numbers in prop::sample::subsequence((0..120usize).collect::<Vec<_>>(), 108).prop_shuffle(),
            weak in prop::collection::btree_map(0usize..120, 1u32..1024, 0..5),
            gone in prop::collection::btree_set(0usize..120, 0..5),
            distance in 11u32..254,
            costs in prop::array::uniform6(0u64..1_000_000_000),
        ) {
            let mut numbers = numbers.into_iter();
            let lists: Vec<String> = nodes.iter().map(|caches| {
                let cache = |cores: &Vec<usize>| {
                    let core = |&threads: &usize| {
                        let cpus: CpuSet = (&mut numbers).take(threads).map(|cpu| CpuId(cpu as u32)).collect();
                        format!("\"{cpus}\"")
                    };
                    format!("[{}]", cores.iter().map(core).collect::<Vec<_>>().join(", "))
                };
                format!("[{}]", caches.iter().map(cache).collect::<Vec<_>>().join(", "))
            }).collect();
            let head = "description = \"d\"\nhz = 250\nno_hz_idle = true\n[topology]\n";
            let Ok(mut machine) = Machine::from_toml("t", &format!("{head}nodes = [{}]", lists.join(", "))) else {
                return Ok(()); // without any CPU
            };
            let present = machine.present_cpus();
            let exists = |cpu: &usize| present.contains(CpuId(*cpu as u32));
            weak.iter().filter(|(cpu, _)| exists(cpu)).for_each(|(&cpu, &to)| machine.topology.capacities[cpu] = to);
            machine.effects.capacity = machine.topology.is_hybrid();
            let count = machine.topology.nodes();
            if count > 1 {
                (machine.topology.distances[0][1], machine.topology.distances[1][0]) = (distance, distance);
            }
            let gone: CpuSet = gone.iter().filter(|cpu| exists(cpu)).map(|&cpu| CpuId(cpu as u32)).collect();
            machine.costs.call_ns = costs;
            let absent = machine.absent.clone();
            let offline: CpuSet = gone.iter().chain(absent.iter()).collect();
            let machine = if present.is_subset(&gone) { machine } else { machine.without(&offline) };
            prop_assert_eq!(back(&machine), machine);
        }
    }
}
