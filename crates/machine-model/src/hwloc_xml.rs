// SPDX-License-Identifier: GPL-2.0-only
//! hwloc XML, versions 2 and 3, as written by `lstopo FILE.xml`.
//!
//! Sources: `hwloc2.dtd`, the documentation of hwloc 2.x and 3.0, and the output of its programs. Objects that
//! contain CPUs are nested; memory nodes are attached beside them and list their CPUs in `cpuset`. `complete_cpuset`
//! also contains CPUs that were offline or not allowed: for them there is no PU, and only the sets of cores, caches and
//! packages tell where they belong. I/O devices and user annotations are ignored.
//!
//! The CPUs are required to be valid. Anything else that is not (a node number, distances, kinds of cores) costs only
//! what it describes, and is named in [`Machine::caveats`].

mod attributes;
mod kinds;
mod sizes;

use crate::machine::with_offline;
use crate::{Machine, MachineError};
use attributes::Element;
use ids::{CpuId, CpuSet, MAX_CPUS, Place, Topology};
use kinds::capacities;
use roxmltree::{Document, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Cores, outermost caches and packages with all their CPUs, including offline ones.
    groups: Vec<Group>,
    model: Option<String>,
    caveats: Vec<String>,
}

/// A core, cache or package.
struct Group {
    kind: GroupKind,
    /// Object number.
    number: u32,
    /// CPUs including offline ones.
    complete: CpuSet,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupKind {
    Core,
    Cache,
    Package,
}

impl Objects {
    /// The value, or `None` with a caveat.
    fn tolerate<T>(&mut self, read: Result<T, MachineError>) -> Option<T> {
        read.map_err(|error| self.caveats.push(format!("{error}; ignored"))).ok()
    }

    /// The attribute as a set of CPUs; empty if it is absent or invalid.
    fn set(&mut self, element: Element<'_, '_>, key: &str) -> CpuSet {
        self.tolerate(element.cpus(key)).flatten().unwrap_or_default()
    }

    /// Notes a core, cache or package and its CPUs.
    fn add_group(&mut self, kind: GroupKind, number: u32, element: Element<'_, '_>) {
        let complete = self.set(element, "complete_cpuset");
        if !complete.is_empty() {
            self.groups.push(Group { kind, number, complete });
        }
    }

    /// Number of the smallest object of this kind that contains the CPU.
    fn group_of(&self, kind: GroupKind, cpu: CpuId) -> Option<u32> {
        let having = self.groups.iter().filter(|group| group.kind == kind && group.complete.contains(cpu));
        having.min_by_key(|group| group.complete.len()).map(|group| group.number)
    }

    /// Where the sets of cores, caches and packages place a CPU that has no PU. `None` if none of them contains it.
    fn place_of_offline(&self, cpu: CpuId) -> Option<Pu> {
        let [core, cache, package] =
            [GroupKind::Core, GroupKind::Cache, GroupKind::Package].map(|kind| self.group_of(kind, cpu));
        let llc = cache.or(package);
        // A core of its own gets a number that no object has.
        (core.is_some() || llc.is_some()).then(|| Pu { core: core.unwrap_or(u32::MAX - cpu.0), llc, node: None })
    }
}

impl Machine {
    /// Parses hwloc XML. `name` is the file name for errors; without directory and `.xml` it is the machine's name.
    /// Nodes keep their numbers, except those beyond the kernel's limit. HZ, NO_HZ, costs and noise are not in the
    /// file; those of the preset `server-64` are used.
    ///
    /// # Errors
    /// Name line, column and what was expected: if the file is not hwloc XML, or has no valid list of CPUs.
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
        number_nodes(root, &mut objects);
        let (topology, offline, absent) = topology(root, &mut objects);
        let capacities = capacities(root, topology.len(), &mut objects.caveats);
        let mut description = objects.model.unwrap_or_else(|| "a machine".to_owned());
        description += &format!(", {} CPUs, by hwloc", objects.cpus.len());
        if capacities.by_frequency {
            description += "; capacities are derived from maximum frequencies";
        }
        let name = name.rsplit('/').next().unwrap_or(name);
        let sizes = sizes::of_first_cpu(root);
        let machine = Machine {
            name: name.strip_suffix(".xml").unwrap_or(name).to_owned(),
            description,
            topology: Topology { capacities: capacities.of_cpu, ..topology },
            offline,
            absent,
            private_kb: sizes.private_kb,
            llc_kb: sizes.llc_kb,
            caveats: objects.caveats,
            ..Machine::reference()
        };
        machine.validate()?;
        Ok(machine.with_capacities_in_effect())
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
                "Machine" => objects.complete = objects.set(element, "complete_cpuset"),
                "Package" => {
                    around.package = Some(number);
                    objects.add_group(GroupKind::Package, number, element);
                    objects.model = objects.model.or_else(|| element.info("CPUModel").map(str::to_owned));
                }
                "Die" => {
                    around.package = Some(number);
                    objects.add_group(GroupKind::Package, number, element);
                }
                "Core" => {
                    around.core = Some(number);
                    objects.add_group(GroupKind::Core, number, element);
                }
                "PU" => add_cpu(&mut objects, element, number, around)?,
                "NUMANode" => add_node(&mut objects, element),
                // A cache inside a core is not shared with other cores; the outermost cache is the last level.
                "L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache"
                    if around.core.is_none() && around.llc.is_none() =>
                {
                    around.llc = Some(number);
                    objects.add_group(GroupKind::Cache, number, element);
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
    let node = objects.set(element, "complete_nodeset").first().map(|node| u64::from(node.0));
    let pu = Pu { core: around.core.unwrap_or(number), llc: around.llc.or(around.package), node };
    match objects.cpus.insert(CpuId(cpu as u32), pu) {
        None => Ok(()),
        Some(_) => Err(element.error(format!("duplicate PU os_index {cpu}"))),
    }
}

/// Adds a node; without a valid number it is ignored, and its CPUs are assigned by [`assign_missing_nodes`].
fn add_node(objects: &mut Objects, element: Element<'_, '_>) {
    let cpus = objects.set(element, "cpuset");
    let complete = objects.tolerate(element.cpus("complete_cpuset")).flatten().unwrap_or_else(|| cpus.clone());
    // Linux numbers nodes below 1024; other systems use arbitrary numbers.
    let Some(os_index) = objects.tolerate(element.number("os_index", 0..=u64::from(u32::MAX))) else { return };
    if objects.nodes.iter().any(|node| node.os_index == os_index) {
        objects.caveats.push(format!("{}; ignored", element.error(format!("duplicate NUMANode os_index {os_index}"))));
        return;
    }
    let gp_index = element.node.attribute("gp_index").map(|_| element.number("gp_index", 0..=u64::MAX));
    let gp_index = gp_index.and_then(|read| objects.tolerate(read));
    objects.nodes.push(Node { os_index, gp_index, cpus, complete });
}

/// Orders the nodes. Numbers that a Linux kernel cannot have are replaced by dense ones.
fn number_nodes(root: Element<'_, '_>, objects: &mut Objects) {
    objects.nodes.sort_by_key(|node| node.os_index);
    let last = objects.nodes.last().expect("every CPU was given a node").os_index;
    if last >= Topology::MAX_NODES as u64 {
        let limit = Topology::MAX_NODES;
        objects.caveats.push(format!(
            "{}: node number {last}; expected numbers below {limit}, nodes are renumbered from 0",
            root.file
        ));
        objects.nodes.iter_mut().zip(0..).for_each(|(node, number)| node.os_index = number);
    }
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
fn topology(root: Element<'_, '_>, objects: &mut Objects) -> (Topology, CpuSet, CpuSet) {
    let distances = objects.tolerate(distances(root, &objects.nodes)).flatten();
    let nodes = &objects.nodes;
    let present: CpuSet = objects.cpus.keys().copied().chain(objects.complete.iter()).collect();
    let last = present.iter().last().expect("there are CPUs");
    let all = CpuSet::first_n(last.index() + 1);
    let mut places = vec![None; all.len()];
    // A cache ends at its node, a core at its cache.
    let (mut llcs, mut cores) = (BTreeMap::new(), BTreeMap::new());
    let mut place = |pu: &Pu, node: u32| {
        let next = llcs.len() as u32;
        let llc = *llcs.entry((node, pu.llc)).or_insert(next);
        let next = cores.len() as u32;
        let core = *cores.entry((llc, pu.core)).or_insert(next);
        Place { core, llc, node }
    };
    for (&cpu, pu) in &objects.cpus {
        let node = home(nodes, cpu, |node| &node.cpus)
            .or_else(|| home(nodes, cpu, |node| &node.complete))
            .expect("every CPU was given a node");
        places[cpu.index()] = Some(place(pu, node));
    }
    let first = places.iter().flatten().next().map_or(0, |place| place.node);
    let node_of = |cpu| home(nodes, cpu, |node| &node.complete).unwrap_or(first);
    let offline: CpuSet = all.iter().filter(|cpu| places[cpu.index()].is_none()).collect();
    let absent: CpuSet = all.iter().filter(|cpu| !present.contains(*cpu)).collect();
    for cpu in offline.iter().filter(|cpu| !absent.contains(*cpu)) {
        places[cpu.index()] = objects.place_of_offline(cpu).map(|pu| place(&pu, node_of(cpu)));
    }
    let unknown: CpuSet = all.iter().filter(|cpu| places[cpu.index()].is_none()).collect();
    let numbers: BTreeSet<u32> = nodes.iter().map(|node| node.os_index as u32).collect();
    let count = numbers.last().expect("there is a node") + 1;
    let distances = distances.unwrap_or_else(|| Topology::default_distances(count as usize));
    let topology = Topology {
        absent_nodes: (0..count).filter(|number| !numbers.contains(number)).collect(),
        ..Topology::new(with_offline(places, node_of)).with_distances(distances)
    };
    (topology.renumbered(&unknown), offline, absent)
}

/// Node number of a CPU: among the nodes that contain it, the one with the fewest CPUs, then the first.
fn home(nodes: &[Node], cpu: CpuId, cpus: fn(&Node) -> &CpuSet) -> Option<u32> {
    let having = nodes.iter().filter(|node| cpus(node).contains(cpu));
    having.min_by_key(|node| cpus(node).len()).map(|node| node.os_index as u32)
}

/// SLIT distances by node number, if the file has a latency matrix of its nodes. As in sysfs, the larger distance of
/// both directions is used; the default for remote nodes is Linux's.
fn distances(root: Element<'_, '_>, nodes: &[Node]) -> Result<Option<Vec<Vec<u32>>>, MachineError> {
    let count = nodes.last().map_or(0, |node| node.os_index as usize + 1);
    let mut rows = Topology::default_distances(count);
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
            let found = nodes.iter().find(|node| number(node) == Some(*index)).map(|node| node.os_index as usize);
            found.ok_or_else(|| matrix.error(format!("distances of a nonexistent node {index}")))
        };
        let at: Vec<usize> = indexes.iter().map(position).collect::<Result<_, _>>()?;
        for (from, &row) in at.iter().enumerate() {
            for (to, &column) in at.iter().enumerate() {
                let larger = values[from * count + to].max(values[to * count + from]);
                rows[row][column] = u32::try_from(larger).unwrap_or(u32::MAX);
            }
        }
        return match Topology::check_distances(&rows, rows.len()) {
            Ok(()) => Ok(Some(rows)),
            Err(problem) => Err(matrix.error(problem.0)),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
