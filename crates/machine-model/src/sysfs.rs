// SPDX-License-Identifier: GPL-2.0-only
//! The running machine, from sysfs. Facts: `Documentation/ABI/stable/sysfs-devices-system-cpu`, `sysfs-devices-node`
//! and `Documentation/admin-guide/cputopology.rst` of Linux.

use crate::machine::{LOCAL_DISTANCE, REMOTE_DISTANCE};
use crate::{Cpu, Machine, MachineError};
use ids::{CpuId, CpuSet, MAX_CPUS};
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

/// More cache leaves than any machine has (x86 has 4, some Arm servers 5).
const MAX_CACHE_LEAVES: usize = 16;

struct Sysfs<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
}

fn error(path: &str, problem: impl Into<String>) -> MachineError {
    MachineError { place: path.to_owned(), problem: problem.into() }
}

impl Sysfs<'_> {
    fn text(&self, path: &str) -> Option<String> {
        (self.read)(path).map(|text| text.trim().to_owned())
    }

    fn set(&self, path: &str) -> Result<Option<CpuSet>, MachineError> {
        let Some(text) = self.text(path) else { return Ok(None) };
        text.parse().map(Some).map_err(|problem: ids::ParseCpuSetError| error(path, problem.to_string()))
    }

    fn number(&self, path: &str) -> Result<Option<u64>, MachineError> {
        let Some(text) = self.text(path) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| error(path, format!("{text:?}; expected a number")))
    }

    /// CPUs 0 to n-1 are online. Weir numbers CPUs without gaps, as the kernel does until one is taken offline.
    fn cpu_count(&self) -> Result<usize, MachineError> {
        let path = format!("{CPU}/online");
        let online =
            self.set(&path)?.ok_or_else(|| error(&path, "cannot be read; expected the list of online CPUs"))?;
        let count = online.len();
        if count == 0 || online != CpuSet::first_n(count) {
            let possible = self.text(&format!("{CPU}/possible")).unwrap_or_else(|| "unknown".into());
            let problem = format!(
                "CPUs {online} are online of {possible} possible; expected 0 to some number without gaps: \
                 bring the others online, or describe the machine in a file"
            );
            return Err(error(&path, problem));
        }
        Ok(count)
    }

    /// The nodes that have CPUs, with their kernel numbers. A kernel without NUMA has no such directory: one node.
    fn nodes(&self, all: &CpuSet) -> Result<Vec<(usize, CpuSet)>, MachineError> {
        let Some(online) = self.set(&format!("{NODE}/online"))? else { return Ok(vec![(0, all.clone())]) };
        let mut nodes = Vec::new();
        for node in online.iter() {
            let path = format!("{NODE}/node{node}/cpulist");
            let cpus = self.set(&path)?.ok_or_else(|| error(&path, "cannot be read; expected a list of CPUs"))?;
            let cpus = cpus.intersection(all);
            if !cpus.is_empty() {
                nodes.push((node.index(), cpus));
            }
        }
        Ok(nodes)
    }

    /// SLIT rows hold one entry for each online node, in order. Firmware tables are sometimes asymmetric: the larger
    /// of both directions counts.
    fn distances(&self, nodes: &[(usize, CpuSet)]) -> Result<Vec<Vec<u32>>, MachineError> {
        let Some(online) = self.set(&format!("{NODE}/online"))? else { return Ok(vec![vec![LOCAL_DISTANCE]]) };
        let online: Vec<usize> = online.iter().map(CpuId::index).collect();
        let mut rows = Vec::new();
        for &(node, _) in nodes {
            let path = format!("{NODE}/node{node}/distance");
            let Some(text) = self.text(&path) else {
                rows.push(
                    nodes.iter().map(|&(to, _)| if to == node { LOCAL_DISTANCE } else { REMOTE_DISTANCE }).collect(),
                );
                continue;
            };
            let row: Option<Vec<u32>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
            let row = row.filter(|row| row.len() == online.len());
            let row = row.ok_or_else(|| error(&path, format!("{text:?}; expected {} distances", online.len())))?;
            let column = |wanted: usize| online.iter().position(|&other| other == wanted).map_or(0, |at| row[at]);
            rows.push(nodes.iter().map(|&(to, _)| column(to)).collect::<Vec<u32>>());
        }
        let larger = |from: usize, to: usize| rows[from][to].max(rows[to][from]);
        Ok((0..rows.len()).map(|from| (0..rows.len()).map(|to| larger(from, to)).collect()).collect())
    }

    /// The threads of this CPU's core.
    fn core(&self, cpu: CpuId) -> Result<CpuSet, MachineError> {
        let path = format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
        Ok(self.set(&path)?.unwrap_or_else(|| [cpu].into_iter().collect()))
    }

    /// The CPUs below the same last-level cache; without cache files (some virtual machines), of the same package.
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
        let package = |cpu: CpuId| self.number(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"));
        let own = package(cpu)?;
        all.iter().filter_map(|other| package(other).map(|id| (id == own).then_some(other)).transpose()).collect()
    }
}

/// Numbers groups in the order of their lowest CPUs.
struct Numbering(BTreeMap<CpuId, u32>);

impl Numbering {
    fn number(&mut self, group: &CpuSet, member: CpuId) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(group.first().unwrap_or(member)).or_insert(next)
    }
}

impl Machine {
    /// From sysfs (`/sys/devices/system/...`), read through `read`: path → contents.
    ///
    /// Where files disagree (virtual machines report caches that span nodes), a cache ends at its node and a core at
    /// its cache. HZ, NO_HZ and costs cannot be seen there; those of the preset `server-64` stand in.
    pub fn from_sysfs(read: &dyn Fn(&str) -> Option<String>) -> Result<Machine, MachineError> {
        let sysfs = Sysfs { read };
        let count = sysfs.cpu_count()?;
        assert!(count <= MAX_CPUS, "a CpuSet is parsed with that bound");
        let all = CpuSet::first_n(count);
        let nodes = sysfs.nodes(&all)?;
        let mut cpus = Vec::with_capacity(count);
        let (mut cores, mut llcs) = (Numbering(BTreeMap::new()), Numbering(BTreeMap::new()));
        for cpu in all.iter() {
            let node = nodes.iter().position(|(_, set)| set.contains(cpu));
            let node = node.ok_or_else(|| error(NODE, format!("CPU {cpu} is in no node's cpulist")))?;
            let llc = sysfs.llc(cpu, &all)?.intersection(&nodes[node].1);
            let core = sysfs.core(cpu)?.intersection(&llc);
            cpus.push(Cpu { core: cores.number(&core, cpu), llc: llcs.number(&llc, cpu), node: node as u32 });
        }
        let machine = Machine {
            name: "host".into(),
            description: format!("this machine, {count} CPUs"),
            cpus,
            distances: sysfs.distances(&nodes)?,
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

    /// Two nodes (0 and 2; node 1 has memory only), two CPUs each, siblings 0/2 on node 0 and 1/3 on node 2.
    const FILES: &[(&str, &str)] = &[
        ("cpu/online", "0-3\n"),
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
        // As some hypervisors say it: one cache over both nodes.
        ("cpu/cpu0/cache/index1/shared_cpu_list", "0-3\n"),
        // No machine has it; it must not count, however high its level.
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
    fn sysfs_becomes_a_machine() {
        let machine = machine(&[]).unwrap();
        let groups: Vec<_> = machine.cpus.iter().map(|cpu| (cpu.core, cpu.llc, cpu.node)).collect();
        assert_eq!(groups, [(0, 0, 0), (1, 1, 1), (0, 0, 0), (1, 1, 1)]);
        assert_eq!(machine.distances, [[10, 28], [28, 10]]);
    }

    #[test]
    fn a_kernel_without_numa_is_one_node() {
        let machine = machine(&[("node/online", "absent"), ("cpu/cpu0/cache/index1/shared_cpu_list", "0,2")]).unwrap();
        assert_eq!(machine.distances, [[10]]);
        assert_eq!(machine.cpus.iter().map(|cpu| cpu.llc).collect::<Vec<_>>(), [0, 1, 0, 1]);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let cases = [
            (
                "cpu/online",
                "0-1,3",
                "/sys/devices/system/cpu/online: CPUs 0-1,3 are online of 0-7 possible; expected 0 to some number without gaps: bring the others online, or describe the machine in a file",
            ),
            (
                "cpu/online",
                "absent",
                "/sys/devices/system/cpu/online: cannot be read; expected the list of online CPUs",
            ),
            (
                "cpu/online",
                "x",
                r#"/sys/devices/system/cpu/online: "x" is not a CPU list such as 0-3,8 (CPUs below 4096, ranges ascending)"#,
            ),
            ("node/node2/cpulist", "1", "/sys/devices/system/node: CPU 3 is in no node's cpulist"),
            ("node/node0/distance", "10 x", r#"/sys/devices/system/node/node0/distance: "10 x"; expected 3 distances"#),
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
        fn lies_in_any_file_never_panic(file in 0..FILES.len(), text in "[0-9,\\- x]{0,6}") {
            if let Ok(machine) = machine(&[(FILES[file].0, &text)]) {
                prop_assert!(machine.validate().is_ok());
            }
        }
    }
}
