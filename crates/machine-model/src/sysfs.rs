// SPDX-License-Identifier: GPL-2.0-only
//! Topology of the running machine from sysfs. Sources: `Documentation/ABI/stable/sysfs-devices-system-cpu`,
//! `sysfs-devices-node` and `Documentation/admin-guide/cputopology.rst` of Linux.
//!
//! Only the list of online CPUs is required. A file with unexpected contents costs what it describes, and is named in
//! [`Machine::caveats`].

mod frequency;
mod kinds;
#[cfg(test)]
mod tests;

use crate::machine::with_offline;
use crate::{Machine, MachineError};
use ids::{CpuId, CpuSet, Place, Topology, TopologyError};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeSet;

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

/// Maximum number of cache leaves, more than any machine has (x86 has 4, some Arm servers 5).
const MAX_CACHE_LEAVES: usize = 16;

struct Sysfs<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    caveats: RefCell<Vec<Caveat>>,
}

/// A file with unexpected contents, and the number of files like it: those whose paths differ in numbers only.
struct Caveat {
    kind: String,
    first: String,
    files: BTreeSet<String>,
}

impl Caveat {
    fn sentence(self) -> String {
        match self.files.len() {
            0 | 1 => self.first,
            files => format!("{} (so are {} files like it)", self.first, files - 1),
        }
    }
}

/// A node with its kernel number and online CPUs; without CPUs it has memory only.
struct Node {
    number: u32,
    cpus: CpuSet,
}

impl Sysfs<'_> {
    fn text(&self, path: &str) -> Option<String> {
        // Copies of sysfs, such as those of hwloc-gather-topology, may end in a NUL byte.
        (self.read)(path).map(|text| text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    fn caveat(&self, path: &str, problem: &str) {
        self.add_caveat(path, format!("{path}: {problem}; ignored"));
    }

    /// Adds a sentence on this file. Files of many CPUs are often wrong in the same way: only the first gets one.
    fn add_caveat(&self, path: &str, sentence: String) {
        let kind: String = path.chars().filter(|c| !c.is_ascii_digit()).collect();
        let mut caveats = self.caveats.borrow_mut();
        match caveats.iter_mut().find(|caveat| caveat.kind == kind) {
            Some(caveat) => {
                caveat.files.insert(path.to_owned());
            }
            None => caveats.push(Caveat { kind, first: sentence, files: [path.to_owned()].into() }),
        }
    }

    /// The file's list of CPUs; `None` without the file, or if it is no list.
    fn set(&self, path: &str) -> Option<CpuSet> {
        let parsed = self.text(path)?.parse();
        parsed.map_err(|problem: ids::ParseCpuSetError| self.caveat(path, &problem.to_string())).ok()
    }

    /// The file's number; `None` without the file, or if it is no number.
    fn number(&self, path: &str) -> Option<u64> {
        let text = self.text(path)?;
        text.parse().map_err(|_| self.caveat(path, &format!("{text:?}; expected a number"))).ok()
    }

    /// The online CPUs, and all existing ones.
    ///
    /// Possible CPUs that are not present are ignored: virtual machines have hundreds that are never added. A CPU
    /// added later is treated like any CPU that did not exist when the scheduler was loaded.
    fn cpus(&self) -> Result<(CpuSet, CpuSet), MachineError> {
        let place = format!("{CPU}/online");
        let expected = "unreadable or empty; expected the online CPUs";
        let text = self.text(&place).filter(|text| !text.is_empty());
        let online: CpuSet = match text.map(|text| text.parse()) {
            Some(Ok(online)) => online,
            Some(Err(problem)) => {
                let problem: ids::ParseCpuSetError = problem;
                return Err(MachineError { place, problem: problem.to_string() });
            }
            None => return Err(MachineError { place, problem: expected.to_owned() }),
        };
        let present = self.set(&format!("{CPU}/present")).unwrap_or_default();
        let all = online.iter().chain(present.iter()).collect();
        Ok((online, all))
    }

    /// The nodes. A kernel without NUMA lacks this directory: one node. A CPU in no node joins the first one.
    fn nodes(&self, cpus: &CpuSet) -> Vec<Node> {
        let numbers = self.set(&format!("{NODE}/online")).filter(|numbers| !numbers.is_empty());
        let Some(numbers) = numbers else { return vec![Node { number: 0, cpus: cpus.clone() }] };
        let mut homeless = cpus.clone();
        let mut nodes = Vec::new();
        for number in numbers.iter() {
            let listed = self.set(&format!("{NODE}/node{number}/cpulist")).unwrap_or_default();
            let own = listed.intersection(&homeless);
            own.iter().for_each(|cpu| {
                homeless.remove(cpu);
            });
            nodes.push(Node { number: number.0, cpus: own });
        }
        if !homeless.is_empty() {
            let first = nodes.iter().position(|node| !node.cpus.is_empty()).unwrap_or(0);
            let caveat =
                format!("{NODE}: CPUs {homeless} are in no node's cpulist; node {} is assumed", nodes[first].number);
            self.add_caveat(NODE, caveat);
            homeless.iter().for_each(|cpu| {
                nodes[first].cpus.insert(cpu);
            });
        }
        nodes
    }

    /// Node number of an offline CPU: the node's CPU list omits it, but its directory has a link to it. Without a
    /// link, the first node with CPUs is assumed.
    fn node_of_offline(&self, cpu: CpuId, nodes: &[Node]) -> u32 {
        let linked = |node: &&Node| self.text(&format!("{NODE}/node{}/cpu{cpu}/online", node.number)).is_some();
        let with_cpus = || nodes.iter().find(|node| !node.cpus.is_empty());
        nodes.iter().find(linked).or_else(with_cpus).map_or(0, |node| node.number)
    }

    /// SLIT distances by node number. Rows have one entry per online node, in order. Firmware tables are sometimes
    /// asymmetric: the larger distance of both directions is used.
    fn distances(&self, nodes: &[Node]) -> Vec<Vec<u32>> {
        let count = nodes.last().map_or(0, |node| node.number as usize) + 1;
        let mut rows = Topology::default_distances(count);
        let Some(read) =
            nodes.iter().map(|node| self.distances_from(node.number, nodes.len())).collect::<Option<Vec<_>>>()
        else {
            return rows;
        };
        for (from, row) in nodes.iter().zip(0..) {
            for (to, column) in nodes.iter().zip(0..) {
                let larger = u32::max(read[row][column], read[column][row]);
                rows[from.number as usize][to.number as usize] = larger;
            }
        }
        match Topology::check_distances(&rows, count) {
            Ok(()) => rows,
            Err(TopologyError(problem)) => {
                self.caveat(NODE, &problem);
                Topology::default_distances(count)
            }
        }
    }

    /// Row of a node: its distance to each of the `count` online nodes.
    fn distances_from(&self, node: u32, count: usize) -> Option<Vec<u32>> {
        let path = format!("{NODE}/node{node}/distance");
        let text = self.text(&path)?;
        let row: Option<Vec<u32>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
        let row = row.filter(|row| row.len() == count);
        if row.is_none() {
            self.caveat(&path, &format!("{text:?}; expected {count} distances"));
        }
        row
    }

    /// SMT threads of this CPU's core.
    fn core(&self, cpu: CpuId) -> CpuSet {
        let siblings = self.set(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"));
        siblings.unwrap_or_else(|| [cpu].into_iter().collect())
    }

    /// CPUs that share the last-level cache; without cache files (some virtual machines), those of the same package.
    /// A cache that is shared by no CPU, as some firmware reports, is no cache.
    fn llc(&self, cpu: CpuId, all: &CpuSet) -> CpuSet {
        let mut best: Option<(u64, CpuSet)> = None;
        for leaf in 0..MAX_CACHE_LEAVES {
            let directory = format!("{CPU}/cpu{cpu}/cache/index{leaf}");
            if self.text(&format!("{directory}/level")).is_none() {
                break;
            }
            let Some(level) = self.number(&format!("{directory}/level")) else { continue };
            let instruction = self.text(&format!("{directory}/type")).is_some_and(|kind| kind == "Instruction");
            let shared = self.set(&format!("{directory}/shared_cpu_list")).filter(|shared| !shared.is_empty());
            let Some(shared) = shared else { continue };
            if !instruction && best.as_ref().is_none_or(|&(highest, _)| level > highest) {
                best = Some((level, shared));
            }
        }
        if let Some((_, shared)) = best {
            return shared;
        }
        // The package may be -1, which counts as a package, too.
        let package = |cpu: CpuId| self.text(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"));
        let own = package(cpu);
        all.iter().filter(|&other| package(other) == own).collect()
    }

    /// Size of the largest cache of data that only the threads of this CPU's core share, in KiB; 0 if unknown.
    fn private_kb(&self, cpu: CpuId) -> u64 {
        let core = self.core(cpu);
        let mut best = (0, 0);
        for leaf in 0..MAX_CACHE_LEAVES {
            let directory = format!("{CPU}/cpu{cpu}/cache/index{leaf}");
            let Some(level) = self.number(&format!("{directory}/level")) else { break };
            let instruction = self.text(&format!("{directory}/type")).is_some_and(|kind| kind == "Instruction");
            let shared = self.set(&format!("{directory}/shared_cpu_list"));
            let size = self.text(&format!("{directory}/size"));
            let kb = size.and_then(|size| size.strip_suffix('K')?.parse().ok()).unwrap_or(0);
            let own = shared.is_some_and(|shared| !shared.is_empty() && shared.is_subset(&core));
            if !instruction && own && level > best.0 && kb > 0 {
                best = (level, kb);
            }
        }
        best.1
    }

    /// Total size of this CPU's caches of the highest level, in KiB; 0 if unknown.
    fn llc_kb(&self, cpu: CpuId) -> u64 {
        let mut best = (0, 0);
        for leaf in 0..MAX_CACHE_LEAVES {
            let directory = format!("{CPU}/cpu{cpu}/cache/index{leaf}");
            let Some(level) = self.number(&format!("{directory}/level")) else { break };
            let size = self.text(&format!("{directory}/size"));
            let kb: u64 = size.and_then(|size| size.strip_suffix('K')?.parse().ok()).unwrap_or(0);
            match level.cmp(&best.0) {
                Ordering::Greater => best = (level, kb),
                Ordering::Equal => best.1 += kb,
                Ordering::Less => {}
            }
        }
        best.1
    }
}

impl Machine {
    /// Reads the topology from sysfs (`/sys/devices/system/...`) through `read`, which maps a path to its contents.
    ///
    /// CPUs and nodes keep their kernel numbers; offline CPUs are in [`Machine::offline`], nonexistent numbers in
    /// [`Machine::absent`].
    ///
    /// If files disagree (virtual machines report caches that span nodes), a cache ends at its node and a core at its
    /// cache. HZ, NO_HZ and costs are not in sysfs; those of the preset `server-64` are used.
    ///
    /// # Errors
    /// If the list of online CPUs is unreadable.
    pub fn from_sysfs(read: &dyn Fn(&str) -> Option<String>) -> Result<Machine, MachineError> {
        let sysfs = Sysfs { read, caveats: RefCell::default() };
        let (online, present) = sysfs.cpus()?;
        let nodes = sysfs.nodes(&online);
        let count = present.iter().last().map_or(0, |last| last.index() + 1);
        let mut places = vec![None; count];
        for node in &nodes {
            for cpu in node.cpus.iter() {
                let llc = sysfs.llc(cpu, &online).intersection(&node.cpus);
                let core = sysfs.core(cpu).intersection(&llc);
                // The lowest CPU identifies the group. A CPU in no list forms its own group.
                let name = |group: &CpuSet| group.first().unwrap_or(cpu).0;
                places[cpu.index()] = Some(Place { core: name(&core), llc: name(&llc), node: node.number });
            }
        }
        let all = CpuSet::first_n(count);
        let offline: CpuSet = all.iter().filter(|cpu| !online.contains(*cpu)).collect();
        let places = with_offline(places, |cpu| sysfs.node_of_offline(cpu, &nodes));
        let distances = sysfs.distances(&nodes);
        let numbers: BTreeSet<u32> = nodes.iter().map(|node| node.number).collect();
        let absent_nodes = (0..distances.len() as u32).filter(|number| !numbers.contains(number)).collect();
        let capacities = sysfs.capacities(&online, count);
        let mut description = format!("this machine, {} CPUs", online.len());
        if let Some(source) = capacities.derived_from {
            description += &format!("; capacities are derived from {source}");
        }
        let topology = Topology { places, capacities: capacities.of_cpu, distances, absent_nodes }.renumbered(&offline);
        let mut machine = Machine {
            name: "host".into(),
            description,
            absent: all.iter().filter(|cpu| !present.contains(*cpu)).collect(),
            offline,
            private_kb: online.first().map_or(0, |cpu| sysfs.private_kb(cpu)),
            llc_kb: online.first().map_or(0, |cpu| sysfs.llc_kb(cpu)),
            topology,
            autogroup: read("/proc/sys/kernel/sched_autogroup_enabled").is_some_and(|value| value.trim() == "1"),
            ..Machine::reference()
        };
        sysfs.add_frequencies(&mut machine);
        machine.caveats = sysfs.caveats.into_inner().into_iter().map(Caveat::sentence).collect();
        machine.validate()?;
        Ok(machine.with_capacities_in_effect())
    }
}
