// SPDX-License-Identifier: GPL-2.0-only
//! Table `[topology]`: the CPUs and what they share.

use super::{Table, Value};
use crate::MachineError;
use crate::machine::with_absent;
use crate::synthetic::Tree;
use ids::{CpuId, CpuSet, MAX_CPUS, Place, Topology};
use toml::de::{DeArray, DeValue};

/// Reads the topology, the offline CPUs and the nonexistent ones.
pub(super) fn read(mut table: Table<'_, '_>) -> Result<(Topology, CpuSet, CpuSet), MachineError> {
    let (topology, absent) = match (table.optional("shape"), table.optional("nodes")) {
        (Some(shape), None) => of_shape(&mut table, shape)?,
        (None, Some(nodes)) => of_nodes(&table, nodes)?,
        (Some(_), Some(nodes)) => return Err(table.error(nodes, "both shape and nodes; expected one of them".into())),
        (None, None) => {
            return Err(table.source.error(&table.span, format!("{} needs shape or nodes", table.what)));
        }
    };
    let topology = match table.optional("absent_nodes") {
        Some(value) => with_absent_nodes(&table, value, topology)?,
        None => topology,
    };
    let topology = match table.optional("distances") {
        Some(value) => with_distances(&table, value, topology)?,
        None => topology,
    };
    let topology = match table.optional("capacity") {
        Some(value) => with_capacities(&table, value, topology, &absent)?,
        None => topology,
    };
    let offline = match table.optional("offline") {
        Some(value) => present_cpus(&table, "offline", value, table.string("offline", value)?, &topology, &absent)?,
        None => CpuSet::new(),
    };
    table.finish()?;
    let offline: CpuSet = offline.iter().chain(absent.iter()).collect();
    Ok((topology.renumbered(&offline), offline, absent))
}

/// Reads an hwloc synthetic string and, unless it has `indexes`, the CPU numbering.
fn of_shape<'a, 't>(table: &mut Table<'a, 't>, shape: Value<'a, 't>) -> Result<(Topology, CpuSet), MachineError> {
    let text = table.string("shape", shape)?;
    let tree = Tree::read(text).map_err(|problem| table.error(shape, format!("shape: {problem}")))?;
    let Some(value) = table.optional("numbering") else { return Ok(tree.topology()) };
    if tree.numbers.is_some() {
        return Err(table.error(value, "both numbering and indexes in the shape; expected one of them".into()));
    }
    Ok(tree.numbered(&numbers(table, value, &tree)?))
}

/// CPU numbers in tree order.
fn numbers(table: &Table<'_, '_>, value: Value<'_, '_>, tree: &Tree) -> Result<Vec<usize>, MachineError> {
    let expected = "\"threads-together\", \"threads-last\" or the list of the numbers";
    let count = tree.places.len();
    match value.get_ref() {
        DeValue::String(word) => tree.numbers_by(word).ok_or_else(|| table.wrong("numbering", value, expected)),
        DeValue::Array(items) if items.len() == count => {
            let mut numbers = Vec::new();
            for item in items.iter() {
                let number = table.integer("numbering", item, 0..=MAX_CPUS as u64 - 1)? as usize;
                if numbers.contains(&number) {
                    return Err(table.wrong("numbering", item, "each number once"));
                }
                numbers.push(number);
            }
            Ok(numbers)
        }
        DeValue::Array(_) => {
            let expected = format!("{count} numbers, one per CPU of the shape");
            Err(table.wrong("numbering", value, &expected))
        }
        _ => Err(table.wrong("numbering", value, expected)),
    }
}

/// Reads nested lists: a node is a list of last-level caches, a cache a list of cores, a core its CPUs as `"0,8"` or
/// a single number.
fn of_nodes(table: &Table<'_, '_>, value: Value<'_, '_>) -> Result<(Topology, CpuSet), MachineError> {
    let nodes = list(table, value, "a list of nodes")?;
    let (mut places, mut core, mut llc) = (Vec::new(), 0, 0);
    for (node, caches) in nodes.iter().enumerate() {
        for cores in list(table, caches, "a list of last-level caches for each node")?.iter() {
            for cpus in list(table, cores, "a list of cores for each last-level cache")?.iter() {
                for cpu in core_of(table, cpus)?.iter() {
                    places.resize(places.len().max(cpu.index() + 1), None);
                    if places[cpu.index()].replace(Place { core, llc, node: node as u32 }).is_some() {
                        return Err(table.wrong("nodes", cpus, &format!("each CPU once, but CPU {cpu} occurs twice")));
                    }
                }
                core += 1;
            }
            llc += 1;
        }
    }
    if places.is_empty() || nodes.len() > Topology::MAX_NODES {
        let found = format!("nodes has {} nodes and {} CPUs", nodes.len(), places.len());
        let most = Topology::MAX_NODES;
        return Err(table.error(value, format!("{found}; expected at least one CPU and at most {most} nodes")));
    }
    Ok(with_absent(places, Topology::default_distances(nodes.len())))
}

fn list<'a, 't>(table: &Table<'_, '_>, value: Value<'a, 't>, expected: &str) -> Result<&'a DeArray<'t>, MachineError> {
    value.get_ref().as_array().ok_or_else(|| table.wrong("nodes", value, expected))
}

fn core_of(table: &Table<'_, '_>, value: Value<'_, '_>) -> Result<CpuSet, MachineError> {
    let expected = "the CPUs of a core, such as \"0,8\", or the number of its only CPU";
    let found = match value.get_ref() {
        DeValue::String(text) => text.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty()),
        DeValue::Integer(_) => {
            let cpu = table.integer("nodes", value, 0..=MAX_CPUS as u64 - 1)?;
            Some([CpuId(cpu as u32)].into_iter().collect())
        }
        _ => None,
    };
    found.ok_or_else(|| table.wrong("nodes", value, expected))
}

/// Reads the numbers that no node has, such as `"1-7"`.
fn with_absent_nodes(
    table: &Table<'_, '_>,
    value: Value<'_, '_>,
    topology: Topology,
) -> Result<Topology, MachineError> {
    let nodes: CpuSet = table
        .string("absent_nodes", value)?
        .parse()
        .map_err(|_| table.wrong("absent_nodes", value, "a list of node numbers such as \"1-7\""))?;
    let topology = Topology { absent_nodes: nodes.iter().map(|node| node.0).collect(), ..topology };
    let occupied = topology.places.iter().any(|place| topology.absent_nodes.contains(&place.node));
    if occupied || nodes.iter().any(|node| node.index() >= topology.nodes()) {
        let expected = format!("numbers of nodes without CPUs, each below {}", topology.nodes());
        return Err(table.wrong("absent_nodes", value, &expected));
    }
    Ok(topology)
}

fn with_distances(table: &Table<'_, '_>, value: Value<'_, '_>, topology: Topology) -> Result<Topology, MachineError> {
    let rows = value.get_ref().as_array().ok_or_else(|| table.wrong("distances", value, "an array of rows"))?;
    let row = |row| -> Result<Vec<u32>, MachineError> {
        Ok(table.list("distances", row, 0..=255)?.into_iter().map(|distance| distance as u32).collect())
    };
    let rows = rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    Topology::check_distances(&rows, topology.nodes()).map_err(|problem| table.error(value, problem.0))?;
    Ok(topology.with_distances(rows))
}

/// Reads `"8-15" = 512`: the capacity of some CPUs; all others have full capacity.
fn with_capacities(
    table: &Table<'_, '_>,
    value: Value<'_, '_>,
    topology: Topology,
    absent: &CpuSet,
) -> Result<Topology, MachineError> {
    let expected = "a table of CPUs and their capacities, such as { \"8-15\" = 512 }";
    let content = value.get_ref().as_table().ok_or_else(|| table.wrong("capacity", value, expected))?;
    let mut capacities = topology.capacities.clone();
    let mut given = CpuSet::new();
    for (cpus, capacity) in content.iter() {
        let set = present_cpus(table, "capacity", capacity, cpus.get_ref(), &topology, absent)?;
        let capacity = table.integer("capacity", capacity, 1..=Topology::FULL_CAPACITY.into())? as u32;
        if set.intersects(&given) {
            let twice = set.intersection(&given);
            return Err(table.source.error(&cpus.span(), format!("capacity of CPUs {twice} is given twice")));
        }
        set.iter().for_each(|cpu| capacities[cpu.index()] = capacity);
        given = given.iter().chain(set.iter()).collect();
    }
    Ok(Topology { capacities, ..topology })
}

/// Reads a set of existing CPUs.
fn present_cpus(
    table: &Table<'_, '_>,
    key: &str,
    value: Value<'_, '_>,
    text: &str,
    topology: &Topology,
    absent: &CpuSet,
) -> Result<CpuSet, MachineError> {
    let cpus: CpuSet =
        text.parse().map_err(|problem: ids::ParseCpuSetError| table.error(value, format!("{key}: {problem}")))?;
    let present: CpuSet = topology.cpus().iter().filter(|cpu| !absent.contains(*cpu)).collect();
    if cpus.is_subset(&present) {
        return Ok(cpus);
    }
    Err(table.error(value, format!("{key} lists CPUs {cpus}, but the machine has CPUs {present}")))
}
