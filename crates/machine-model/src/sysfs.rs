// SPDX-License-Identifier: GPL-2.0-only
//! Topology of the running machine from sysfs. Sources: `Documentation/ABI/stable/sysfs-devices-system-cpu`,
//! `sysfs-devices-node` and `Documentation/admin-guide/cputopology.rst` of Linux.

use crate::machine::with_offline;
use crate::{Machine, MachineError};
use ids::{CpuId, CpuSet, Place, Topology};
use std::cmp::Ordering;

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

/// Maximum number of cache leaves, more than any machine has (x86 has 4, some Arm servers 5).
const MAX_CACHE_LEAVES: usize = 16;

struct Sysfs<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
}

fn error(path: &str, problem: impl Into<String>) -> MachineError {
    MachineError { place: path.to_owned(), problem: problem.into() }
}

impl Sysfs<'_> {
    fn text(&self, path: &str) -> Option<String> {
        // Copies of sysfs, such as those of hwloc-gather-topology, may end in a NUL byte.
        (self.read)(path).map(|text| text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    fn set(&self, path: &str) -> Result<Option<CpuSet>, MachineError> {
        let Some(text) = self.text(path) else { return Ok(None) };
        text.parse().map(Some).map_err(|problem: ids::ParseCpuSetError| error(path, problem.to_string()))
    }

    fn number(&self, path: &str) -> Result<Option<u64>, MachineError> {
        let Some(text) = self.text(path) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| error(path, format!("{text:?}; expected a number")))
    }

    /// The online CPUs, and all existing ones.
    ///
    /// Possible CPUs that are not present are ignored: virtual machines have hundreds that are never added. A CPU
    /// added later is treated like any CPU that did not exist when the scheduler was loaded.
    fn cpus(&self) -> Result<(CpuSet, CpuSet), MachineError> {
        let path = format!("{CPU}/online");
        let online = self.set(&path)?.filter(|online| !online.is_empty());
        let online = online.ok_or_else(|| error(&path, "unreadable or empty; expected the online CPUs"))?;
        let present = self.set(&format!("{CPU}/present"))?.unwrap_or_default();
        Ok((online.clone(), online.iter().chain(present.iter()).collect()))
    }

    /// Nodes with their kernel numbers and online CPUs; a node without CPUs has memory only. A kernel without NUMA
    /// lacks this directory: one node.
    fn nodes(&self, cpus: &CpuSet) -> Result<Vec<(usize, CpuSet)>, MachineError> {
        let Some(online) = self.set(&format!("{NODE}/online"))? else { return Ok(vec![(0, cpus.clone())]) };
        let node = |node: CpuId| {
            let path = format!("{NODE}/node{node}/cpulist");
            let there = self.set(&path)?.ok_or_else(|| error(&path, "unreadable; expected a list of CPUs"))?;
            Ok((node.index(), there.intersection(cpus)))
        };
        online.iter().map(node).collect()
    }

    /// Node of an offline CPU: the node's CPU list omits it, but its directory has a link to it. Without a link, the
    /// first node with CPUs is assumed.
    fn node_of_offline(&self, cpu: CpuId, nodes: &[(usize, CpuSet)]) -> usize {
        let linked = |(node, _): &(usize, CpuSet)| self.text(&format!("{NODE}/node{node}/cpu{cpu}/online")).is_some();
        let with_cpus = || nodes.iter().position(|(_, cpus)| !cpus.is_empty());
        nodes.iter().position(linked).or_else(with_cpus).unwrap_or(0)
    }

    /// SLIT rows have one entry per online node, in order. Firmware tables are sometimes asymmetric: the larger
    /// distance of both directions is used.
    fn distances(&self, nodes: &[(usize, CpuSet)]) -> Result<Vec<Vec<u32>>, MachineError> {
        let Some(online) = self.set(&format!("{NODE}/online"))? else {
            return Ok(vec![vec![Topology::LOCAL_DISTANCE]]);
        };
        let count = online.len();
        let mut rows = Vec::new();
        for &(node, _) in nodes {
            let path = format!("{NODE}/node{node}/distance");
            let Some(text) = self.text(&path) else {
                rows.push(Topology::default_distances(count).swap_remove(rows.len()));
                continue;
            };
            let row: Option<Vec<u32>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
            let row = row.filter(|row| row.len() == count);
            rows.push(row.ok_or_else(|| error(&path, format!("{text:?}; expected {count} distances")))?);
        }
        let larger = |from: usize, to: usize| rows[from][to].max(rows[to][from]);
        Ok((0..rows.len()).map(|from| (0..rows.len()).map(|to| larger(from, to)).collect()).collect())
    }

    /// Capacity of a CPU, up to 1024; kernels report it for machines with different core types.
    fn capacity(&self, cpu: CpuId) -> Result<u32, MachineError> {
        let path = format!("{CPU}/cpu{cpu}/cpu_capacity");
        let Some(capacity) = self.number(&path)? else { return Ok(Topology::FULL_CAPACITY) };
        let range = 1..=Topology::FULL_CAPACITY;
        let found = u32::try_from(capacity).ok().filter(|capacity| range.contains(capacity));
        found.ok_or_else(|| error(&path, format!("{capacity}; expected {} to {}", range.start(), range.end())))
    }

    /// SMT threads of this CPU's core.
    fn core(&self, cpu: CpuId) -> Result<CpuSet, MachineError> {
        let path = format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
        Ok(self.set(&path)?.unwrap_or_else(|| [cpu].into_iter().collect()))
    }

    /// CPUs that share the last-level cache; without cache files (some virtual machines), those of the same package.
    fn llc(&self, cpu: CpuId, all: &CpuSet) -> Result<CpuSet, MachineError> {
        let mut best: Option<(u64, CpuSet)> = None;
        for leaf in 0..MAX_CACHE_LEAVES {
            let directory = format!("{CPU}/cpu{cpu}/cache/index{leaf}");
            let Some(level) = self.number(&format!("{directory}/level"))? else { break };
            let instruction = self.text(&format!("{directory}/type")).is_some_and(|kind| kind == "Instruction");
            let Some(shared) = self.set(&format!("{directory}/shared_cpu_list"))? else { continue };
            if !instruction && best.as_ref().is_none_or(|&(highest, _)| level > highest) {
                best = Some((level, shared));
            }
        }
        if let Some((_, shared)) = best {
            return Ok(shared);
        }
        // The package may be -1, which counts as a package, too.
        let package = |cpu: CpuId| self.text(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"));
        let own = package(cpu);
        Ok(all.iter().filter(|&other| package(other) == own).collect())
    }

    /// Total size of this CPU's caches of the highest level, in KiB; 0 if unknown.
    fn llc_kb(&self, cpu: CpuId) -> u64 {
        let mut best = (0, 0);
        for leaf in 0..MAX_CACHE_LEAVES {
            let directory = format!("{CPU}/cpu{cpu}/cache/index{leaf}");
            let Ok(Some(level)) = self.number(&format!("{directory}/level")) else { break };
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
    /// CPUs keep their kernel numbers; offline ones are in [`Machine::offline`], nonexistent numbers in
    /// [`Machine::absent`]. Nodes are renumbered without gaps.
    ///
    /// If files disagree (virtual machines report caches that span nodes), a cache ends at its node and a core at its
    /// cache. HZ, NO_HZ and costs are not in sysfs; those of the preset `server-64` are used.
    pub fn from_sysfs(read: &dyn Fn(&str) -> Option<String>) -> Result<Machine, MachineError> {
        let sysfs = Sysfs { read };
        let (online, present) = sysfs.cpus()?;
        let nodes = sysfs.nodes(&online)?;
        let count = present.iter().last().map_or(0, |last| last.index() + 1);
        let (mut places, mut capacities) = (vec![None; count], vec![Topology::FULL_CAPACITY; count]);
        for cpu in online.iter() {
            let node = nodes.iter().position(|(_, set)| set.contains(cpu));
            let node = node.ok_or_else(|| error(NODE, format!("CPU {cpu} is in no node's cpulist")))?;
            let llc = sysfs.llc(cpu, &online)?.intersection(&nodes[node].1);
            let core = sysfs.core(cpu)?.intersection(&llc);
            // The lowest CPU identifies the group. A CPU in no list forms its own group.
            let name = |group: &CpuSet| group.first().unwrap_or(cpu).0;
            places[cpu.index()] = Some(Place { core: name(&core), llc: name(&llc), node: node as u32 });
            capacities[cpu.index()] = sysfs.capacity(cpu)?;
        }
        let all = CpuSet::first_n(count);
        let offline: CpuSet = all.iter().filter(|cpu| !online.contains(*cpu)).collect();
        let places = with_offline(places, |cpu| sysfs.node_of_offline(cpu, &nodes) as u32);
        let topology = Topology { places, capacities, distances: sysfs.distances(&nodes)? };
        let machine = Machine {
            name: "host".into(),
            description: format!("this machine, {} CPUs", online.len()),
            topology: topology.renumbered(&offline),
            absent: all.iter().filter(|cpu| !present.contains(*cpu)).collect(),
            offline,
            llc_kb: online.first().map_or(0, |cpu| sysfs.llc_kb(cpu)),
            ..Machine::reference()
        };
        machine.validate()?;
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two nodes with CPUs (0 and 2; node 1 has memory only), two CPUs each, SMT siblings 0/2 on node 0 and 1/3 on
    /// node 2.
    const FILES: &[(&str, &str)] = &[
        ("cpu/online", "0-3\n\0"),
        ("cpu/possible", "0-7\n"),
        ("cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
        ("cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
        ("cpu/cpu2/topology/thread_siblings_list", "0,2\n"),
        ("cpu/cpu3/topology/thread_siblings_list", "1,3\n"),
        ("cpu/cpu0/cache/index0/level", "1\n"),
        ("cpu/cpu0/cache/index0/type", "Data\n"),
        ("cpu/cpu0/cache/index0/shared_cpu_list", "0,2\n"),
        ("cpu/cpu0/cache/index1/level", "3\n"),
        ("cpu/cpu0/cache/index1/type", "Unified\n"),
        ("cpu/cpu0/cache/index0/size", "32K\n"),
        ("cpu/cpu0/cache/index1/size", "4096K\n"),
        // As reported by some hypervisors: one cache across both nodes.
        ("cpu/cpu0/cache/index1/shared_cpu_list", "0-3\n"),
        // Unrealistic: an instruction cache must not count, however high its level.
        ("cpu/cpu0/cache/index2/level", "4\n"),
        ("cpu/cpu0/cache/index2/type", "Instruction\n"),
        ("cpu/cpu0/cache/index2/shared_cpu_list", "2\n"),
        ("cpu/cpu0/topology/physical_package_id", "0\n"),
        ("cpu/cpu1/topology/physical_package_id", "1\n"),
        ("cpu/cpu2/topology/physical_package_id", "0\n"),
        ("cpu/cpu3/topology/physical_package_id", "1\n"),
        ("node/online", "0-2\n"),
        ("node/node0/cpulist", "0,2\n"),
        ("node/node1/cpulist", "\n"),
        ("node/node2/cpulist", "1,3\n"),
        ("node/node0/distance", "10 17 21\n"),
        ("node/node1/distance", "17 10 17\n"),
        ("node/node2/distance", "28 17 10\n"),
    ];

    fn machine(change: &[(&str, &str)]) -> Result<Machine, MachineError> {
        Machine::from_sysfs(&|path| {
            let short = path.strip_prefix("/sys/devices/system/")?;
            let found = change.iter().chain(FILES).find(|(name, _)| *name == short)?;
            (found.1 != "absent").then(|| found.1.to_owned())
        })
    }

    #[test]
    fn sysfs_gives_topology_distances_and_capacities() {
        let machine = machine(&[]).unwrap();
        assert_eq!(groups(&machine), [(0, 0, 0), (1, 1, 2), (0, 0, 0), (1, 1, 2)]);
        assert_eq!(machine.topology.distances, [[10, 17, 28], [17, 10, 17], [28, 17, 10]]);
        assert_eq!(machine.topology.capacities, [1024; 4]);
        assert!(machine.summary().ends_with("2 nodes and 1 node of memory only"));
    }

    #[test]
    fn kernel_without_numa_has_one_node() {
        let machine = machine(&[("node/online", "absent"), ("cpu/cpu0/cache/index1/shared_cpu_list", "0,2")]).unwrap();
        assert_eq!(machine.topology.distances, [[10]]);
        assert_eq!(machine.topology.places.iter().map(|cpu| cpu.llc).collect::<Vec<_>>(), [0, 1, 0, 1]);
    }

    /// sysfs with some CPUs of [`FILES`] offline: absent from all CPU lists, with no topology directory.
    fn without(offline: &str, online: &str, nodes: [&str; 2]) -> Machine {
        let offline: CpuSet = offline.parse().unwrap();
        let left = |list: &str| {
            let cpus: CpuSet = list.trim().parse().unwrap();
            cpus.iter().filter(|cpu| !offline.contains(*cpu)).collect::<CpuSet>().to_string()
        };
        let machine = Machine::from_sysfs(&|path| {
            let short = path.strip_prefix("/sys/devices/system/")?;
            match short {
                "cpu/online" => return Some(online.to_owned()),
                "cpu/present" => return Some("0-3\n".to_owned()),
                "node/node0/cpulist" => return Some(nodes[0].to_owned()),
                "node/node2/cpulist" => return Some(nodes[1].to_owned()),
                "node/node0/cpu2/online" | "node/node2/cpu1/online" | "node/node2/cpu3/online" => {
                    return Some("0\n".to_owned());
                }
                _ => {}
            }
            if offline.iter().any(|cpu| short.starts_with(&format!("cpu/cpu{cpu}/"))) {
                return None;
            }
            let text = FILES.iter().find(|(name, _)| *name == short)?.1;
            Some(if short.ends_with("_list") { left(text) } else { text.to_owned() })
        });
        let machine = machine.unwrap();
        assert_eq!(machine.offline, offline);
        machine
    }

    fn groups(machine: &Machine) -> Vec<(u32, u32, u32)> {
        machine.topology.places.iter().map(|cpu| (cpu.core, cpu.llc, cpu.node)).collect()
    }

    #[test]
    fn cpus_keep_their_numbers_if_others_are_offline() {
        // CPU 1 is offline: its core and cache are unknown, but not its node. The other CPUs keep their numbers.
        let machine = without("1", "0,2-3\n", ["0,2", "3"]);
        assert_eq!(groups(&machine), [(0, 0, 0), (2, 1, 2), (0, 0, 0), (1, 1, 2)]);
        assert_eq!(
            (machine.online_cpus().to_string(), machine.description.as_str()),
            ("0,2-3".into(), "this machine, 3 CPUs")
        );
        // The last CPU offline: it still exists.
        let machine = without("3", "0-2\n", ["0,2", "1"]);
        assert_eq!(groups(&machine), [(0, 0, 0), (1, 1, 2), (0, 0, 0), (2, 1, 2)]);
        // The second threads of all cores offline, as with nosmt.
        let machine = without("2-3", "0-1\n", ["0", "1"]);
        assert_eq!(groups(&machine), [(0, 0, 0), (1, 1, 2), (2, 0, 0), (3, 1, 2)]);
    }

    #[test]
    fn node_with_all_cpus_offline_keeps_its_memory() {
        let machine = without("1,3", "0,2\n", ["0,2", "\n"]);
        assert_eq!(groups(&machine), [(0, 0, 0), (1, 1, 2), (0, 0, 0), (2, 1, 2)]);
        assert_eq!(machine.topology.nodes(), 3);
    }

    #[test]
    fn possible_but_absent_cpus_are_ignored() {
        let machine = machine(&[("cpu/present", "0-3\n")]).unwrap();
        assert_eq!((machine.topology.len(), machine.offline.is_empty()), (4, true));
        let holes = self::machine(&[("cpu/present", "0-3,6\n")]).unwrap();
        assert_eq!(holes.topology.len(), 7);
        assert_eq!((holes.offline.to_string(), holes.absent.to_string()), ("4-6".into(), "4-5".into()));
    }

    #[test]
    fn cpu_capacities_are_read() {
        let hybrid = machine(&[("cpu/cpu1/cpu_capacity", "446\n"), ("cpu/cpu3/cpu_capacity", "446\n")]).unwrap();
        assert_eq!(hybrid.topology.capacities, [1024, 446, 1024, 446]);
    }

    #[test]
    fn invalid_sysfs_files_give_errors_with_path() {
        let cases = [
            ("cpu/online", "absent", "/sys/devices/system/cpu/online: unreadable or empty; expected the online CPUs"),
            ("cpu/online", "", "/sys/devices/system/cpu/online: unreadable or empty; expected the online CPUs"),
            (
                "cpu/online",
                "x",
                r#"/sys/devices/system/cpu/online: "x" is not a CPU list such as 0-3,8 (CPUs below 4096, ranges ascending)"#,
            ),
            ("node/node2/cpulist", "1", "/sys/devices/system/node: CPU 3 is in no node's cpulist"),
            ("node/node0/distance", "10 x", r#"/sys/devices/system/node/node0/distance: "10 x"; expected 3 distances"#),
            ("cpu/cpu2/cpu_capacity", "0", "/sys/devices/system/cpu/cpu2/cpu_capacity: 0; expected 1 to 1024"),
            (
                "cpu/cpu0/cache/index0/level",
                "one",
                r#"/sys/devices/system/cpu/cpu0/cache/index0/level: "one"; expected a number"#,
            ),
        ];
        for (path, content, expected) in cases {
            assert_eq!(machine(&[(path, content)]).unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn invalid_contents_of_any_file_never_panic(file in 0..FILES.len(), text in "[0-9,\\- x]{0,6}") {
            if let Ok(machine) = machine(&[(FILES[file].0, &text)]) {
                prop_assert!(machine.validate().is_ok());
            }
        }
    }
}
