// SPDX-License-Identifier: GPL-2.0-only
//! hwloc XML, versions 2 and 3, as written by `lstopo FILE.xml`.
//!
//! Sources: `hwloc2.dtd`, the documentation of hwloc 2.x and 3.0, and the output of its programs. Objects that
//! contain CPUs are nested; memory nodes are attached beside them and list their CPUs in `cpuset`. `complete_cpuset`
//! also contains CPUs about which nothing else is known because they were offline or not allowed. I/O devices and
//! user annotations are ignored.

mod attributes;

use crate::machine::with_offline;
use crate::{Machine, MachineError};
use attributes::Element;
use ids::{CpuId, CpuSet, MAX_CPUS, Place, Topology};
use roxmltree::{Document, ParsingOptions};
use std::collections::BTreeMap;

/// Limit on XML elements: more than any machine of 4096 CPUs has, at some ten elements per CPU.
const MAX_ELEMENTS: u32 = 1 << 20;

/// `HWLOC_DISTANCES_KIND_MEANS_LATENCY`.
const KIND_LATENCY: u64 = 1 << 2;

/// Enclosing objects of an object.
#[derive(Clone, Copy, Default)]
struct Around {
    /// Object number of the core.
    core: Option<u32>,
    /// Object number of the outermost cache.
    llc: Option<u32>,
    /// Object number of the innermost package or die, which replaces an unknown cache, as in Linux.
    package: Option<u32>,
}

/// A CPU: an object of type PU.
struct Pu {
    core: u32,
    llc: Option<u32>,
    /// Lowest number of its nodes, including those not allowed.
    node: Option<u64>,
}

/// A memory node.
struct Node {
    os_index: u64,
    gp_index: Option<u64>,
    cpus: CpuSet,
    /// CPUs including offline ones.
    complete: CpuSet,
}

/// Contents of the object tree.
#[derive(Default)]
struct Objects {
    cpus: BTreeMap<CpuId, Pu>,
    nodes: Vec<Node>,
    /// CPUs of the whole machine, including offline ones.
    complete: CpuSet,
    model: Option<String>,
}

impl Machine {
    /// Parses hwloc XML. `name` is the file name for errors; without directory and `.xml` it is the machine's name.
    /// Nodes are renumbered without gaps. HZ, NO_HZ, costs and noise are not in the file; those of the preset
    /// `server-64` are used.
    ///
    /// # Errors
    /// Name line, column and what was expected.
    pub fn from_hwloc_xml(name: &str, text: &str) -> Result<Machine, MachineError> {
        let options = ParsingOptions { allow_dtd: true, nodes_limit: MAX_ELEMENTS, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|error| {
            let at = error.pos();
            MachineError { place: format!("{name}:{}:{}", at.row, at.col), problem: format!("not XML: {error}") }
        })?;
        let root = Element { file: name, node: document.root_element() };
        check_version(root)?;
        let mut objects = read_objects(root)?;
        assign_missing_nodes(&mut objects);
        objects.nodes.sort_by_key(|node| node.os_index);
        if let Some(twice) = objects.nodes.windows(2).find(|two| two[0].os_index == two[1].os_index) {
            return Err(root.error(format!("duplicate NUMANode os_index {}", twice[0].os_index)));
        }
        let (topology, offline, absent) = topology(root, &objects)?;
        let capacities = capacities(root, topology.len())?;
        let mut description = objects.model.unwrap_or_else(|| "a machine".to_owned());
        description += &format!(", {} CPUs, by hwloc", objects.cpus.len());
        if capacities.guessed {
            description += "; capacities are derived from maximum frequencies";
        }
        let name = name.rsplit('/').next().unwrap_or(name);
        let machine = Machine {
            name: name.strip_suffix(".xml").unwrap_or(name).to_owned(),
            description,
            topology: Topology { capacities: capacities.of_cpu, ..topology },
            offline,
            absent,
            ..Machine::reference()
        };
        machine.validate()?;
        Ok(machine)
    }
}

fn check_version(root: Element<'_, '_>) -> Result<(), MachineError> {
    if root.node.tag_name().name() != "topology" {
        let found = root.node.tag_name().name();
        return Err(root.error(format!("the root element is {found:?}; expected the \"topology\" of hwloc XML")));
    }
    let version = root.node.attribute("version").unwrap_or("1");
    match version.split('.').next() {
        Some("2" | "3") => Ok(()),
        _ => {
            let how = "convert it with lstopo of hwloc 2: lstopo -i OLD.xml NEW.xml";
            Err(root.error(format!("hwloc XML version {version}; expected version 2 or 3 ({how})")))
        }
    }
}

/// Walks the objects iteratively, because a file may nest them to any depth.
fn read_objects(root: Element<'_, '_>) -> Result<Objects, MachineError> {
    let mut objects = Objects::default();
    let mut number = 0;
    let mut stack = vec![(root, Around::default())];
    while let Some((element, mut around)) = stack.pop() {
        if element.node.tag_name().name() == "object" {
            number += 1;
            match element.required("type")? {
                "Machine" => objects.complete = element.cpus("complete_cpuset")?.unwrap_or_default(),
                "Package" => {
                    around.package = Some(number);
                    objects.model = objects.model.or_else(|| element.info("CPUModel").map(str::to_owned));
                }
                "Die" => around.package = Some(number),
                "Core" => around.core = Some(number),
                "PU" => add_cpu(&mut objects, element, number, around)?,
                "NUMANode" => add_node(&mut objects, element)?,
                // A cache inside a core is not shared with other cores; the outermost cache is the last level.
                "L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache" if around.core.is_none() => {
                    around.llc = around.llc.or(Some(number));
                }
                "Bridge" | "PCIDev" | "OSDev" | "Misc" => continue,
                // Groups, caches inside cores, instruction and memory-side caches, and types of later versions.
                _ => {}
            }
        }
        // Visit the first child first.
        let children: Vec<_> = element.children("object").collect();
        stack.extend(children.into_iter().rev().map(|child| (child, around)));
    }
    match objects.cpus.is_empty() {
        true => Err(root.error("no object of type PU; expected at least one CPU".into())),
        false => Ok(objects),
    }
}

fn add_cpu(objects: &mut Objects, element: Element<'_, '_>, number: u32, around: Around) -> Result<(), MachineError> {
    let cpu = element.number("os_index", 0..=MAX_CPUS as u64 - 1)?;
    // A node set has the syntax of a CPU set.
    let node = element.cpus("complete_nodeset")?.and_then(|nodes| Some(u64::from(nodes.first()?.0)));
    let pu = Pu { core: around.core.unwrap_or(number), llc: around.llc.or(around.package), node };
    match objects.cpus.insert(CpuId(cpu as u32), pu) {
        None => Ok(()),
        Some(_) => Err(element.error(format!("duplicate PU os_index {cpu}"))),
    }
}

fn add_node(objects: &mut Objects, element: Element<'_, '_>) -> Result<(), MachineError> {
    let cpus = element.cpus("cpuset")?.unwrap_or_default();
    let complete = element.cpus("complete_cpuset")?.unwrap_or_else(|| cpus.clone());
    // Linux numbers nodes below 1024; other systems use arbitrary numbers.
    let os_index = element.number("os_index", 0..=u64::from(u32::MAX))?;
    let gp_index = element.node.attribute("gp_index").map(|_| element.number("gp_index", 0..=u64::MAX)).transpose()?;
    objects.nodes.push(Node { os_index, gp_index, cpus, complete });
    Ok(())
}

/// Assigns a node to CPUs whose node is not in the file, because a cgroup does not allow it or it has no memory. If
/// the node's number is unknown, all such CPUs share one node.
fn assign_missing_nodes(objects: &mut Objects) {
    let known = |nodes: &[Node], cpu| nodes.iter().any(|node| node.cpus.contains(cpu) || node.complete.contains(cpu));
    let unused = (0..).find(|index| objects.nodes.iter().all(|node| node.os_index != *index)).expect("a number");
    for (&cpu, pu) in &objects.cpus {
        if known(&objects.nodes, cpu) {
            continue;
        }
        let os_index = pu.node.unwrap_or(unused);
        if let Some(node) = objects.nodes.iter_mut().find(|node| node.os_index == os_index) {
            node.complete.insert(cpu);
            node.cpus.insert(cpu);
        } else {
            let cpus: CpuSet = [cpu].into_iter().collect();
            objects.nodes.push(Node { os_index, gp_index: None, complete: cpus.clone(), cpus });
        }
    }
}

/// Topology, offline CPUs and nonexistent ones.
fn topology(root: Element<'_, '_>, objects: &Objects) -> Result<(Topology, CpuSet, CpuSet), MachineError> {
    let nodes = &objects.nodes;
    let present: CpuSet = objects.cpus.keys().copied().chain(objects.complete.iter()).collect();
    let last = present.iter().last().expect("there are CPUs");
    let all = CpuSet::first_n(last.index() + 1);
    let mut places = vec![None; all.len()];
    // A cache ends at its node, a core at its cache.
    let (mut llcs, mut cores) = (BTreeMap::new(), BTreeMap::new());
    for (&cpu, pu) in &objects.cpus {
        let node = home(nodes, cpu, |node| &node.cpus)
            .or_else(|| home(nodes, cpu, |node| &node.complete))
            .expect("every CPU was given a node");
        let next = llcs.len() as u32;
        let llc = *llcs.entry((node, pu.llc)).or_insert(next);
        let next = cores.len() as u32;
        let core = *cores.entry((llc, pu.core)).or_insert(next);
        places[cpu.index()] = Some(Place { core, llc, node: node as u32 });
    }
    let first = places.iter().flatten().next().map_or(0, |place| place.node);
    let node_of = |cpu| home(nodes, cpu, |node| &node.complete).map_or(first, |node| node as u32);
    let offline: CpuSet = all.iter().filter(|cpu| places[cpu.index()].is_none()).collect();
    let absent = all.iter().filter(|cpu| !present.contains(*cpu)).collect();
    let topology = Topology::new(with_offline(places, node_of)).with_distances(distances(root, nodes)?);
    Ok((topology.renumbered(&offline), offline, absent))
}

/// Node of a CPU: among those that contain it, the one with the fewest CPUs, then the first.
fn home(nodes: &[Node], cpu: CpuId, cpus: fn(&Node) -> &CpuSet) -> Option<usize> {
    let having = nodes.iter().enumerate().filter(|(_, node)| cpus(node).contains(cpu));
    having.min_by_key(|(_, node)| cpus(node).len()).map(|(index, _)| index)
}

/// SLIT distances, if the file has a latency matrix of its nodes. As in sysfs, the larger distance of both directions
/// is used; the default for remote nodes is Linux's.
fn distances(root: Element<'_, '_>, nodes: &[Node]) -> Result<Vec<Vec<u32>>, MachineError> {
    let mut rows = Topology::default_distances(nodes.len());
    for matrix in root.children("distances2") {
        let kind = matrix.number("kind", 0..=u64::MAX)?;
        if matrix.required("type")? != "NUMANode" || kind & KIND_LATENCY == 0 {
            continue;
        }
        let (indexes, values) = (matrix.numbers("indexes")?, matrix.numbers("u64values")?);
        let count = matrix.number("nbobjs", 1..=Topology::MAX_NODES as u64)? as usize;
        if indexes.len() != count || values.len() != count * count {
            let found = format!("{} indexes and {} values", indexes.len(), values.len());
            return Err(matrix.error(format!("{found}; expected {count} and {}", count * count)));
        }
        let by_gp = matrix.required("indexing")? == "gp";
        let position = |index: &u64| {
            let number = |node: &Node| if by_gp { node.gp_index } else { Some(node.os_index) };
            let found = nodes.iter().position(|node| number(node) == Some(*index));
            found.ok_or_else(|| matrix.error(format!("distances of a nonexistent node {index}")))
        };
        let at: Vec<usize> = indexes.iter().map(position).collect::<Result<_, _>>()?;
        for (from, &row) in at.iter().enumerate() {
            for (to, &column) in at.iter().enumerate() {
                let larger = values[from * count + to].max(values[to * count + from]);
                rows[row][column] = u32::try_from(larger).unwrap_or(u32::MAX);
            }
        }
        return match Topology::check_distances(&rows, nodes.len()) {
            Ok(()) => Ok(rows),
            Err(problem) => Err(matrix.error(problem.0)),
        };
    }
    Ok(rows)
}

/// Capacity of each CPU.
struct Capacities {
    of_cpu: Vec<u32>,
    /// Whether capacities were derived from frequencies, because hwloc reports none.
    guessed: bool,
}

/// Capacities by CPU kind: as reported by Linux; else, if hwloc has the maximum frequency of every kind, proportional
/// to it.
fn capacities(root: Element<'_, '_>, cpus: usize) -> Result<Capacities, MachineError> {
    let full = Topology::FULL_CAPACITY;
    let mut kinds = Vec::new();
    for kind in root.children("cpukind") {
        let number = |key: &str, range| kind.info(key).map(|text| kind.in_range(key, text, range)).transpose();
        let capacity = number("LinuxCapacity", 1..=u64::from(full))?;
        let frequency = number("FrequencyMaxMHz", 1..=1_000_000)?;
        kinds.push((kind.cpus("cpuset")?.unwrap_or_default(), capacity, frequency));
    }
    let highest = kinds.iter().filter_map(|kind| kind.2).max().unwrap_or(1);
    let said = kinds.iter().all(|kind| kind.1.is_some());
    let guessed = !said && kinds.len() > 1 && kinds.iter().all(|kind| kind.2.is_some());
    let mut of_cpu = vec![full; cpus];
    for (set, capacity, frequency) in kinds {
        let capacity = match (capacity, frequency) {
            (Some(capacity), _) if said => capacity,
            (_, Some(frequency)) if guessed => (frequency * u64::from(full) / highest).max(1),
            _ => continue,
        };
        for cpu in set.iter().filter(|cpu| cpu.index() < cpus) {
            of_cpu[cpu.index()] = capacity as u32;
        }
    }
    let guessed = guessed && of_cpu.iter().any(|&capacity| capacity != full);
    Ok(Capacities { of_cpu, guessed })
}

#[cfg(test)]
mod tests;
