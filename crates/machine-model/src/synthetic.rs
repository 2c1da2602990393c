// SPDX-License-Identifier: GPL-2.0-only
//! hwloc synthetic strings: levels from the outermost to the innermost, each with its number of children.
//!
//! Facts: hwloc 2.x documentation, "Synthetic topologies". Words name the level (case does not matter, hwloc's short
//! forms are accepted); bare numbers get their types from the innermost outwards: PU, core, L2, NUMA node, package,
//! group. What hwloc writes in parentheses (sizes, indexes) and memory nodes in brackets is refused, not skipped.

use crate::{Machine, MachineError};
use ids::{MAX_CPUS, Place, Topology};

/// A level of the tree, outermost first in hwloc's usual order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    /// Machine or group: structure without a meaning here.
    Group,
    Package,
    Die,
    Node,
    /// Data or unified cache of this level.
    Cache(u8),
    /// Instruction caches never are the last level.
    InstructionCache,
    Core,
    Pu,
}

/// The CPUs of the string in the order of the tree, or why not.
pub(crate) fn places(text: &str) -> Result<Vec<Place>, String> {
    let levels = levels(text)?;
    let total = levels.iter().try_fold(1usize, |total, &(_, count)| total.checked_mul(count));
    let total = total.filter(|&total| total <= MAX_CPUS).ok_or(format!("more than {MAX_CPUS} CPUs"))?;
    let position = |wanted: &dyn Fn(Level) -> bool| levels.iter().position(|&(level, _)| wanted(level));
    let node = position(&|level| level == Level::Node);
    let core = position(&|level| level == Level::Core).unwrap_or(levels.len() - 1);
    let llc = position(&|level| matches!(level, Level::Cache(_))).or_else(|| {
        // Linux falls back to the package or die where no cache is known; here the innermost such group, so that the
        // cache lies inside its node.
        levels.iter().rposition(|&(level, _)| matches!(level, Level::Node | Level::Die | Level::Package))
    });
    // A CPU's number divided by the CPUs in one group is that group's number.
    let size =
        |level: Option<usize>| level.map_or(total, |at| levels[at + 1..].iter().map(|&(_, count)| count).product());
    let (core, llc, node) = (size(Some(core)), size(llc), size(node));
    let group = |cpu: usize, size: usize| (cpu / size) as u32;
    let place = |cpu| Place { core: group(cpu, core), llc: group(cpu, llc), node: group(cpu, node) };
    let places: Vec<Place> = (0..total).map(place).collect();
    Topology::check_places(&places).map_err(|error| error.0)?;
    Ok(places)
}

fn levels(text: &str) -> Result<Vec<(Level, usize)>, String> {
    if let Some(bad) = text.find(['(', ')']) {
        return Err(format!(
            "attributes in parentheses (at {:?}) are not supported; give only type:count",
            &text[bad..]
        ));
    }
    if text.contains(['[', ']']) {
        return Err("memory nodes in brackets are not supported; write node:COUNT as a level".into());
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return Err("empty; expected levels such as node:2 core:8 pu:2".into());
    }
    let bare = words.iter().filter(|word| !word.contains(':')).count();
    if bare != 0 && bare != words.len() {
        return Err("bare numbers and typed levels mixed; expected either \"2 8 2\" or \"node:2 core:8 pu:2\"".into());
    }
    let mut levels: Vec<(Level, usize)> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let (level, count) = match word.split_once(':') {
            Some((name, count)) => (level(name)?, count),
            None => (default_level(words.len() - 1 - index), *word),
        };
        let count = count.parse().ok().filter(|count| (1..=MAX_CPUS).contains(count));
        let count = count.ok_or(format!("{word:?}: expected a count from 1 to {MAX_CPUS}"))?;
        if level != Level::Group && levels.iter().any(|&(earlier, _)| earlier == level) {
            return Err(format!("{word:?}: this level stands twice"));
        }
        levels.push((level, count));
    }
    check_order(&levels)?;
    Ok(levels)
}

/// hwloc's type for a bare number that has `below` levels under it.
fn default_level(below: usize) -> Level {
    [Level::Pu, Level::Core, Level::Cache(2), Level::Node, Level::Package].get(below).copied().unwrap_or(Level::Group)
}

fn level(name: &str) -> Result<Level, String> {
    let lower = name.to_ascii_lowercase();
    Ok(match lower.as_str() {
        "machine" | "group" => Level::Group,
        "pack" | "package" | "sock" | "socket" => Level::Package,
        "die" => Level::Die,
        "node" | "numa" | "numanode" => Level::Node,
        "core" => Level::Core,
        "pu" => Level::Pu,
        // Weir's own word for the last level, whatever its number.
        "llc" => Level::Cache(u8::MAX),
        "cache" => Level::Cache(2),
        _ => cache(&lower).ok_or_else(|| {
            format!("unknown level {name:?}; expected group, package, die, node, l5 to l1, llc, core or pu")
        })?,
    })
}

/// `l3`, `l3u`, `l3d`, `l3cache`, `l3ucache` or `l1i`.
fn cache(name: &str) -> Option<Level> {
    let rest = name.strip_prefix('l')?;
    let number = rest.chars().next()?.to_digit(10).filter(|number| (1..=5).contains(number))?;
    match rest[1..].trim_end_matches("cache") {
        "" | "u" | "d" => Some(Level::Cache(number as u8)),
        "i" => Some(Level::InstructionCache),
        _ => None,
    }
}

fn check_order(levels: &[(Level, usize)]) -> Result<(), String> {
    let last = levels.last().map(|&(level, _)| level);
    if last != Some(Level::Pu) {
        return Err("the last level is not pu; add pu:1, or pu:2 for two threads a core".into());
    }
    let core = levels.iter().position(|&(level, _)| level == Level::Core);
    if core
        .is_some_and(|at| levels[at + 1..].iter().any(|&(l, _)| matches!(l, Level::Package | Level::Die | Level::Node)))
    {
        return Err("a package, die or node inside a core; expected outer levels first".into());
    }
    let caches =
        levels.iter().filter_map(|&(level, _)| if let Level::Cache(number) = level { Some(number) } else { None });
    if !caches.is_sorted_by(|outer, inner| outer > inner) {
        return Err("caches out of order; expected l3 before l2 before l1".into());
    }
    Ok(())
}

impl Machine {
    /// From an hwloc synthetic string such as `node:2 core:8 pu:2`. CPUs are numbered in the order of the tree, all
    /// foreign nodes are 20 away, and HZ, NO_HZ and costs are those of the preset `server-64`.
    pub fn from_synthetic(text: &str) -> Result<Machine, MachineError> {
        let error = |problem| MachineError { place: format!("synthetic topology {text:?}"), problem };
        let topology = Topology::new(places(text).map_err(error)?);
        let machine = Machine {
            name: text.split_whitespace().collect::<Vec<_>>().join(" "),
            description: format!("{} CPUs by a synthetic topology", topology.len()),
            topology,
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

    fn groups(text: &str) -> String {
        let places = match places(text) {
            Ok(places) => places,
            Err(problem) => return problem,
        };
        let row = |group: fn(&Place) -> u32| {
            places.iter().map(|place| group(place).to_string()).collect::<Vec<_>>().join(" ")
        };
        format!("core {}; llc {}; node {}", row(|place| place.core), row(|place| place.llc), row(|place| place.node))
    }

    #[test]
    fn levels_become_groups() {
        let cases = [
            ("node:2 core:2 pu:2", "core 0 0 1 1 2 2 3 3; llc 0 0 0 0 1 1 1 1; node 0 0 0 0 1 1 1 1"),
            ("core:2 pu:2", "core 0 0 1 1; llc 0 0 0 0; node 0 0 0 0"),
            ("pu:3", "core 0 1 2; llc 0 0 0; node 0 0 0"),
            ("Package:1 L3Cache:2 L2:2 core:1 PU:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 0 0"),
            ("pack:2 numa:1 l2:1 core:2 pu:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 1 1"),
            ("socket:1 die:2 core:2 pu:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 0 0"),
            ("node:1 llc:2 l1i:1 l1d:1 core:2 pu:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 0 0"),
            ("2 2 2", "core 0 0 1 1 2 2 3 3; llc 0 0 0 0 1 1 1 1; node 0 0 0 0 0 0 0 0"),
            ("2 1 2 1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 1 1"),
            ("l3:1 node:2 core:1 pu:1", "last-level cache 0 spans two nodes: CPU 0 is in node 0, CPU 1 in 1"),
            ("core:2 l3:2 pu:1", "core 0 spans two last-level caches: CPU 0 is in last-level cache 0, CPU 1 in 1"),
            (
                "node:2(memory=1GB) core:2 pu:1",
                r#"attributes in parentheses (at "(memory=1GB) core:2 pu:1") are not supported; give only type:count"#,
            ),
            ("pack:2 [numa] core:2 pu:1", "memory nodes in brackets are not supported; write node:COUNT as a level"),
            ("node:2 core:8", "the last level is not pu; add pu:1, or pu:2 for two threads a core"),
            ("node:2 cpu:8", r#"unknown level "cpu"; expected group, package, die, node, l5 to l1, llc, core or pu"#),
            ("node:0 pu:1", r#""node:0": expected a count from 1 to 4096"#),
            ("node:-1 pu:1", r#""node:-1": expected a count from 1 to 4096"#),
            (
                "node:2 2 pu:1",
                r#"bare numbers and typed levels mixed; expected either "2 8 2" or "node:2 core:8 pu:2""#,
            ),
            ("core:2 core:2 pu:1", r#""core:2": this level stands twice"#),
            ("core:2 node:2 pu:1", "a package, die or node inside a core; expected outer levels first"),
            ("l2:2 l3:2 pu:1", "caches out of order; expected l3 before l2 before l1"),
            ("node:4096 core:4096 pu:4096", "more than 4096 CPUs"),
            (" ", "empty; expected levels such as node:2 core:8 pu:2"),
        ];
        for (text, expected) in cases {
            assert_eq!(groups(text), expected, "{text}");
        }
    }

    #[test]
    fn a_string_makes_a_whole_machine() {
        let machine = Machine::from_synthetic("node:2  core:8 pu:2").unwrap();
        assert_eq!((machine.name.as_str(), machine.topology.len()), ("node:2 core:8 pu:2", 32));
        assert_eq!(machine.topology.distances, [[10, 20], [20, 10]]);
        let error = Machine::from_synthetic("x").unwrap_err().to_string();
        assert_eq!(error, r#"synthetic topology "x": "x": expected a count from 1 to 4096"#);
    }

    proptest! {
        #[test]
        fn never_panics_and_always_yields_valid_machines(text in "([a-z0-9]{1,5}:?[0-9]{0,4}[ (\\[]?){0,6}") {
            if let Ok(machine) = Machine::from_synthetic(&text) {
                prop_assert!(machine.validate().is_ok());
            }
        }
    }
}
