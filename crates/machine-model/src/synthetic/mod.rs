// SPDX-License-Identifier: GPL-2.0-only
//! hwloc synthetic strings: levels from outermost to innermost, each with its number of children, as written by
//! `lstopo --of synthetic`.
//!
//! Sources: hwloc 2.x and 3.0 documentation, "Synthetic topologies", and the behavior of its programs. Words name
//! levels (case-insensitive; hwloc's short forms are accepted); bare numbers get hwloc's default level types.
//! Attributes are in parentheses: sizes are ignored, `indexes` are the numbers of CPUs and nodes. A memory node in
//! brackets belongs to each object of the preceding level. If a CPU has several nodes, its node is the one shared by
//! the fewest CPUs, then the first; the others are memory only.

mod indexes;
mod parse;

use crate::machine::with_absent;
use crate::{Machine, MachineError};
use ids::{CpuSet, MAX_CPUS, Place, Topology};
use parse::{Item, Kind, Level, error};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A level with the number of CPUs per object.
struct Sized<'a> {
    item: Item<'a>,
    level: Level,
    cpus: usize,
}

/// Memory nodes attached to objects of one level.
struct Nodes<'a> {
    item: Option<Item<'a>>,
    /// CPUs per node.
    cpus: usize,
    /// Number of enclosing levels; inner nodes come first.
    depth: Reverse<usize>,
    /// Node numbers in tree order.
    numbers: Vec<usize>,
}

/// Result of parsing a string.
pub(crate) struct Tree {
    /// Place of each CPU in tree order.
    pub places: Vec<Place>,
    /// CPU numbers given by the string.
    pub numbers: Option<Vec<usize>>,
    /// Node numbers, memory-only nodes included.
    pub nodes: BTreeSet<usize>,
}

impl Tree {
    /// Parses a string.
    pub fn read(text: &str) -> Result<Tree, String> {
        let items = parse::items(text)?;
        let (total, levels) = sizes(&items)?;
        let nodes = nodes(&items, &levels, total)?;
        Ok(Tree {
            places: places(&levels, &nodes, total)?,
            numbers: cpu_numbers(&levels, total)?,
            nodes: nodes.iter().flat_map(|nodes| nodes.numbers.iter().copied()).collect(),
        })
    }

    /// Topology for the given CPU numbers in tree order, and the nonexistent numbers.
    pub fn numbered(&self, numbers: &[usize]) -> (Topology, CpuSet) {
        let mut places = vec![None; numbers.iter().max().map_or(0, |last| last + 1)];
        for (place, &number) in self.places.iter().zip(numbers) {
            places[number] = Some(*place);
        }
        let last = *self.nodes.last().expect("there is a node");
        let (topology, absent) = with_absent(places, Topology::default_distances(last + 1));
        let absent_nodes = (0..last).filter(|node| !self.nodes.contains(node)).map(|node| node as u32).collect();
        (Topology { absent_nodes, ..topology }, absent)
    }

    /// CPU numbers in tree order for a named numbering. Firmware often numbers one thread of every core before the
    /// second ones.
    pub fn numbers_by(&self, numbering: &str) -> Option<Vec<usize>> {
        let count = self.places.len();
        let mut numbers: Vec<usize> = (0..count).collect();
        match numbering {
            "threads-together" => {}
            "threads-last" => {
                let mut thread = vec![0; count];
                for index in 1..count {
                    let same = self.places[index].core == self.places[index - 1].core;
                    thread[index] = if same { thread[index - 1] + 1 } else { 0 };
                }
                let mut order = numbers.clone();
                order.sort_by_key(|&index| (thread[index], index));
                order.into_iter().enumerate().for_each(|(number, index)| numbers[index] = number);
            }
            _ => return None,
        }
        Some(numbers)
    }

    /// Topology with the string's own numbers, or tree order by default; and the nonexistent numbers.
    pub fn topology(&self) -> (Topology, CpuSet) {
        let plain: Vec<usize> = (0..self.places.len()).collect();
        self.numbered(self.numbers.as_ref().unwrap_or(&plain))
    }
}

/// Number of CPUs, and number of CPUs per object of each level.
fn sizes<'a>(items: &[Item<'a>]) -> Result<(usize, Vec<Sized<'a>>), String> {
    let mut total = 1usize;
    let mut levels = Vec::new();
    for item in items {
        let Kind::Level(level, count) = item.kind else { continue };
        total = total.saturating_mul(count);
        if total > MAX_CPUS {
            return error(item.at, format!("more than {MAX_CPUS} CPUs"));
        }
        levels.push(Sized { item: *item, level, cpus: total });
    }
    for sized in &mut levels {
        sized.cpus = total / sized.cpus;
    }
    Ok((total, levels))
}

/// All memory nodes. hwloc numbers those of inner objects before those of the enclosing objects.
fn nodes<'a>(items: &[Item<'a>], levels: &[Sized<'a>], total: usize) -> Result<Vec<Nodes<'a>>, String> {
    let mut found: Vec<Nodes<'a>> = Vec::new();
    let mut depth = 0;
    for item in items {
        depth += usize::from(matches!(item.kind, Kind::Level(..)));
        if matches!(item.kind, Kind::Memory | Kind::Level(Level::Node, _)) {
            let cpus = depth.checked_sub(1).map_or(total, |around| levels[around].cpus);
            found.push(Nodes { item: Some(*item), cpus, depth: Reverse(depth), numbers: Vec::new() });
        }
    }
    if found.is_empty() {
        found.push(Nodes { item: None, cpus: total, depth: Reverse(0), numbers: Vec::new() });
    }
    let count: usize = found.iter().map(|nodes| total / nodes.cpus).sum();
    if count > Topology::MAX_NODES {
        let at = found[0].item.map_or(1, |item| item.at);
        return error(at, format!("{count} nodes; expected at most {}", Topology::MAX_NODES));
    }
    // Order by the last CPU of the object; for equal ones inner objects first, then text order.
    let mut order: Vec<(usize, Reverse<usize>, usize)> = Vec::new();
    for (kind, nodes) in found.iter().enumerate() {
        order.extend((1..=total / nodes.cpus).map(|object| (object * nodes.cpus, nodes.depth, kind)));
    }
    order.sort_unstable();
    let numbers = node_numbers(&found, levels, count)?;
    for ((_, _, kind), number) in order.into_iter().zip(numbers) {
        found[kind].numbers.push(number);
    }
    Ok(found)
}

/// Numbers of `count` nodes: those of the string, or their order in it.
fn node_numbers(nodes: &[Nodes<'_>], levels: &[Sized<'_>], count: usize) -> Result<Vec<usize>, String> {
    let given: Vec<(usize, &str)> =
        nodes.iter().filter_map(|nodes| nodes.item).filter_map(|item| Some((item.at, item.indexes?))).collect();
    let (at, text) = match given[..] {
        [] => return Ok((0..count).collect()),
        [given] => given,
        [_, (at, _), ..] => return error(at, "node indexes are given twice; expected one list for all nodes"),
    };
    indexes::read(text, count, Topology::MAX_NODES, &widths(levels)).or_else(|problem| error(at, problem))
}

/// Number of objects of each level.
fn widths(levels: &[Sized<'_>]) -> Vec<(Level, usize)> {
    let mut width = 1;
    let widths = levels.iter().map(|sized| {
        if let Kind::Level(_, count) = sized.item.kind {
            width *= count;
        }
        (sized.level, width)
    });
    widths.collect()
}

/// Place of each CPU in tree order. A cache ends at its node.
fn places(levels: &[Sized<'_>], nodes: &[Nodes<'_>], total: usize) -> Result<Vec<Place>, String> {
    let home = nodes.iter().min_by_key(|nodes| (nodes.cpus, nodes.depth)).expect("there is a node");
    let core = levels.iter().find(|sized| sized.level == Level::Core).map_or(1, |sized| sized.cpus);
    if let Some(item) = home.item.filter(|_| home.cpus < core) {
        return error(item.at, format!("{:?} inside a core; expected outer levels first", item.text));
    }
    let is_cache = |sized: &&Sized<'_>| matches!(sized.level, Level::Cache(_)) && sized.cpus >= core;
    let llc = levels.iter().find(is_cache).or_else(|| {
        // Without a known cache, Linux uses the package or die; here the innermost such group.
        levels.iter().rev().find(|sized| matches!(sized.level, Level::Node | Level::Die | Level::Package))
    });
    let llc = llc.map_or(total, |sized| sized.cpus).min(home.cpus);
    // A CPU's number divided by the group size is its group's number.
    let group = |cpu: usize, size: usize| (cpu / size) as u32;
    let node = |cpu: usize| home.numbers[cpu / home.cpus] as u32;
    Ok((0..total).map(|cpu| Place { core: group(cpu, core), llc: group(cpu, llc), node: node(cpu) }).collect())
}

/// CPU numbers given by the string, in tree order.
fn cpu_numbers(levels: &[Sized<'_>], total: usize) -> Result<Option<Vec<usize>>, String> {
    let item = levels.last().expect("the last level is pu").item;
    let Some(text) = item.indexes else { return Ok(None) };
    let read = indexes::read(text, total, MAX_CPUS, &widths(levels));
    read.map(Some).or_else(|problem| error(item.at, problem))
}

impl Machine {
    /// Creates a machine from an hwloc synthetic string such as `node:2 core:8 pu:2`. Without `indexes`, CPUs are
    /// numbered in tree order; the distance of remote nodes is 20, and HZ, NO_HZ and costs are those of the preset
    /// `server-64`.
    ///
    /// # Errors
    /// Name the character position and what was expected.
    pub fn from_synthetic(text: &str) -> Result<Machine, MachineError> {
        let short: String = text.chars().take(80).collect();
        let error = |problem| MachineError { place: format!("synthetic topology {short:?}"), problem };
        let (topology, absent) = Tree::read(text).map_err(error)?.topology();
        let machine = Machine {
            name: text.split_whitespace().collect::<Vec<_>>().join(" "),
            description: format!("{} CPUs by a synthetic topology", topology.len() - absent.len()),
            topology,
            offline: absent.clone(),
            absent,
            ..Machine::reference()
        };
        machine.validate()?;
        Ok(machine)
    }
}

#[cfg(test)]
mod tests;
