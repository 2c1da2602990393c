// SPDX-License-Identifier: GPL-2.0-only
//! Translates a machine file into QEMU's `-smp` and `-numa` arguments.

use anyhow::{Context, Result, bail};
use machine_model::Machine;
use std::collections::BTreeMap;
use std::path::Path;

/// More CPUs need an interrupt remapper, whose emulation on one core takes minutes.
const MOST_CPUS: usize = 255;

/// The part of a machine's topology that QEMU can represent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Sockets, one per last-level cache, because QEMU 10 aborts with several dies per socket of an Intel model.
    sockets: usize,
    cores: usize,
    threads: usize,
    /// Sockets of each node.
    nodes: Vec<Vec<usize>>,
    distances: Vec<Vec<u32>>,
    /// Properties of the machine that QEMU cannot represent, for display.
    pub notes: Vec<String>,
}

impl Topology {
    /// Returns a topology of identical cores in one socket.
    pub fn flat(cpus: usize) -> Topology {
        let notes = Vec::new();
        Topology { sockets: 1, cores: cpus, threads: 1, nodes: vec![vec![0]], distances: vec![vec![10]], notes }
    }

    /// Returns the topology of a machine file or of a preset.
    pub fn named(name: &str) -> Result<Topology> {
        let machine = if Path::new(name).is_file() {
            let text = std::fs::read_to_string(name).with_context(|| name.to_owned())?;
            Machine::from_toml(name, &text)?
        } else {
            Machine::preset(name.trim_end_matches(".toml"))?
        };
        Topology::of(&machine)
    }

    /// Returns the topology of a machine.
    pub fn of(machine: &Machine) -> Result<Topology> {
        let count = machine.topology.len();
        if count > MOST_CPUS {
            bail!("{}: {count} CPUs; a virtual machine has at most {MOST_CPUS}", machine.name);
        }
        let mut cores: BTreeMap<u32, BTreeMap<u32, usize>> = BTreeMap::new();
        let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
        for cpu in &machine.topology.places {
            *cores.entry(cpu.llc).or_default().entry(cpu.core).or_default() += 1;
            nodes.insert(cpu.llc, cpu.node);
        }
        let per_cache = cores[&0].len();
        let threads = *cores[&0].values().next().expect("a machine has CPUs");
        if cores.values().any(|cores| cores.len() != per_cache || cores.values().any(|&count| count != threads)) {
            bail!("{}: QEMU requires the same number of cores per cache and of threads per core", machine.name);
        }
        let mut of_node = vec![Vec::new(); machine.topology.distances.len()];
        for (&llc, &node) in &nodes {
            of_node[node as usize].push(llc as usize);
        }
        let mut notes = Vec::new();
        if cores.len() > of_node.len() {
            notes.push("each last-level cache is a socket of its own".to_owned());
        }
        // QEMU numbers CPUs socket by socket, core by core, thread by thread.
        let in_order = |index: usize| (index / (per_cache * threads)) as u32 == machine.topology.places[index].llc;
        let together = machine.topology.places.windows(2).all(|two| two[0].core <= two[1].core);
        if !together || !(0..count).all(in_order) {
            notes.push("CPUs have other numbers: threads of a core follow each other".to_owned());
        }
        notes.push("HZ is the kernel's, all CPUs are equally fast, and memory is equally near".to_owned());
        let distances = machine.topology.distances.clone();
        Ok(Topology { sockets: cores.len(), cores: per_cache, threads, nodes: of_node, distances, notes })
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.sockets * self.cores * self.threads
    }

    /// Returns QEMU's arguments for the CPUs and `memory_mb` of memory.
    pub fn arguments(&self, memory_mb: u64) -> Vec<String> {
        let per_node = memory_mb.div_ceil(self.nodes.len() as u64).next_multiple_of(2);
        let (sockets, cores, threads) = (self.sockets, self.cores, self.threads);
        let mut words = vec![
            "-m".to_owned(),
            (per_node * self.nodes.len() as u64).to_string(),
            "-smp".to_owned(),
            format!("{},sockets={sockets},cores={cores},threads={threads}", self.cpus()),
        ];
        if self.nodes.len() == 1 {
            return words;
        }
        let per_socket = cores * threads;
        for (node, sockets) in self.nodes.iter().enumerate() {
            let cpus: String = sockets
                .iter()
                .map(|socket| format!(",cpus={}-{}", socket * per_socket, (socket + 1) * per_socket - 1))
                .collect();
            words.extend(["-object".to_owned(), format!("memory-backend-ram,id=memory{node},size={per_node}M")]);
            words.extend(["-numa".to_owned(), format!("node,nodeid={node},memdev=memory{node}{cpus}")]);
        }
        for (from, row) in self.distances.iter().enumerate() {
            for (to, distance) in row.iter().enumerate().filter(|&(to, _)| to > from) {
                words.extend(["-numa".to_owned(), format!("dist,src={from},dst={to},val={distance}")]);
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synthetic(text: &str) -> Topology {
        Topology::of(&Machine::from_synthetic(text).unwrap()).unwrap()
    }

    #[test]
    fn qemu_arguments_give_sockets_cores_threads_and_nodes() {
        for (machine, expected) in [
            ("pu:3", "-m 512 -smp 3,sockets=1,cores=3,threads=1"),
            ("package:1 l3:2 core:2 pu:2", "-m 512 -smp 8,sockets=2,cores=2,threads=2"),
            (
                "node:2 core:2 pu:2",
                "-m 512 -smp 8,sockets=2,cores=2,threads=2 \
                 -object memory-backend-ram,id=memory0,size=256M -numa node,nodeid=0,memdev=memory0,cpus=0-3 \
                 -object memory-backend-ram,id=memory1,size=256M -numa node,nodeid=1,memdev=memory1,cpus=4-7 \
                 -numa dist,src=0,dst=1,val=20",
            ),
            (
                "node:2 l3:2 core:1 pu:1",
                "-m 512 -smp 4,sockets=4,cores=1,threads=1 \
                 -object memory-backend-ram,id=memory0,size=256M -numa node,nodeid=0,memdev=memory0,cpus=0-0,cpus=1-1 \
                 -object memory-backend-ram,id=memory1,size=256M -numa node,nodeid=1,memdev=memory1,cpus=2-2,cpus=3-3 \
                 -numa dist,src=0,dst=1,val=20",
            ),
        ] {
            assert_eq!(synthetic(machine).arguments(511).join(" "), expected, "{machine}");
        }
        assert_eq!(Topology::flat(4).arguments(256).join(" "), "-m 256 -smp 4,sockets=1,cores=4,threads=1");
    }

    #[test]
    fn machine_properties_that_qemu_cannot_have_are_noted() {
        let notes = |name: &str| Topology::named(name).unwrap().notes.join("; ");
        assert!(notes("laptop-2c4t.toml").contains("CPUs have other numbers"));
        assert!(!notes("desktop-4c").contains("CPUs have other numbers"));
        assert!(synthetic("package:1 l3:2 core:2 pu:2").notes[0].contains("a socket of its own"));
        let error = Topology::named("server-512").unwrap_err().to_string();
        assert_eq!(error, "server-512: 512 CPUs; a virtual machine has at most 255");
    }
}
