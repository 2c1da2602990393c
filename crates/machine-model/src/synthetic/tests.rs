// SPDX-License-Identifier: GPL-2.0-only
//! Synthetic strings as written by hand and by `lstopo --of synthetic`, with the resulting topology.

use super::*;
use ids::CpuId;
use proptest::prelude::*;

/// Groups of the CPUs by CPU number; `-` is a nonexistent number.
fn groups(text: &str) -> String {
    let (topology, absent) = match Tree::read(text) {
        Ok(tree) => tree.topology(),
        Err(problem) => return problem,
    };
    let row = |group: fn(Place) -> u32| {
        let one = |cpu: CpuId| match absent.contains(cpu) {
            true => "-".to_owned(),
            false => group(topology.place(cpu)).to_string(),
        };
        topology.cpus().iter().map(one).collect::<Vec<_>>().join(" ")
    };
    let mut text =
        format!("core {}; llc {}; node {}", row(|place| place.core), row(|place| place.llc), row(|place| place.node));
    let used = topology.places.iter().map(|place| place.node as usize + 1).max().unwrap_or(0);
    if used < topology.nodes() {
        text += &format!(" of {}", topology.nodes());
    }
    text
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(groups(text), *expected, "{text}");
    }
}

#[test]
fn levels_define_cores_caches_and_nodes() {
    check(&[
        ("node:2 core:2 pu:2", "core 0 0 1 1 2 2 3 3; llc 0 0 0 0 1 1 1 1; node 0 0 0 0 1 1 1 1"),
        ("core:2 pu:2", "core 0 0 1 1; llc 0 0 0 0; node 0 0 0 0"),
        ("pu:3", "core 0 1 2; llc 0 0 0; node 0 0 0"),
        ("Package:1 L3Cache:2 L2:2 core:1 PU:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 0 0"),
        ("pack:2 numa:1 l2:1 core:2 pu:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 1 1"),
        ("socket:1 die:2 core:2 pu:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 0 0"),
        ("cluster:2 tile:1 Group:1 co:2 pu:1", "core 0 1 2 3; llc 0 0 0 0; node 0 0 0 0"),
        ("node:1 llc:2 l1i:1 l1d:1 core:2 pu:1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 0 0"),
        // A cache that spans nodes ends at each node; a cache inside a core is never the last level.
        ("l3:1 node:2 core:1 pu:1", "core 0 1; llc 0 1; node 0 1"),
        ("core:2 l1d:2 pu:1", "core 0 0 1 1; llc 0 0 0 0; node 0 0 0 0"),
    ]);
}

/// Results of `lstopo -i` of hwloc 2.9 for the same numbers.
#[test]
fn numbers_without_level_names_get_the_level_types_of_hwloc() {
    check(&[
        ("3", "core 0 1 2; llc 0 0 0; node 0 0 0"),
        ("2 2", "core 0 1 2 3; llc 0 0 1 1; node 0 0 1 1"),
        ("1 2 2", "core 0 1 2 3; llc 0 0 1 1; node 0 0 1 1"),
        ("1 2 1 2", "core 0 0 1 1; llc 0 0 1 1; node 0 0 1 1"),
        ("1 1 2 1 2", "core 0 0 1 1; llc 0 0 1 1; node 0 0 0 0"),
        ("1 1 2 1 1 2", "core 0 0 1 1; llc 0 0 1 1; node 0 0 0 0"),
        ("1 1 2 2 1 1 1", "core 0 1 2 3; llc 0 0 1 1; node 0 0 0 0"),
        ("2 1 1 1 1 1 1 1", "core 0 1; llc 0 1; node 0 1"),
    ]);
}

#[test]
fn memory_in_brackets_defines_nodes() {
    check(&[
        ("[NUMANode(memory=16GB)] core:2 pu:1", "core 0 1; llc 0 0; node 0 0"),
        ("Package:2 [NUMANode(memory=8587984896)] L2Cache:1(size=1048576) Core:1 PU:1", "core 0 1; llc 0 1; node 0 1"),
        // The second node of each package is memory only; hwloc numbers it after the first.
        ("pack:2 [numa] [numa(memory=4GiB)] core:1 pu:1", "core 0 1; llc 0 1; node 0 2 of 4"),
        // Inner nodes are numbered first.
        ("[numa] pack:2 [numa] core:1 pu:1", "core 0 1; llc 0 1; node 0 1 of 3"),
        ("pack:2 [numa] l3:1 [numa] core:1 pu:1", "core 0 1; llc 0 1; node 0 2 of 4"),
        ("pack:2 [numa] l3:1 [numa(indexes=3,2,1,0)] core:1 pu:1", "core 1 0; llc 1 0; node 3 1"),
        ("pack:3 [NUMANode(memory=1GB indexes=8,0,72)] core:1 pu:1", "core 1 0 2; llc 1 0 2; node 8 0 72"),
        ("Core:1 [NUMANode] PU:2", "core 0 0; llc 0 0; node 0 0"),
        ("node:2(indexes=1,0 memorysidecachesize=16MB) core:1 pu:1", "core 1 0; llc 1 0; node 1 0"),
    ]);
}

/// Threads numbered last, alternating packages, numbers with gaps.
#[test]
fn indexes_define_cpu_numbers() {
    check(&[
        ("core:2 pu:2(indexes=0,2,1,3)", "core 0 1 0 1; llc 0 0 0 0; node 0 0 0 0"),
        ("Core:2 PU:2(indexes=2*2:1*2)", "core 0 1 0 1; llc 0 0 0 0; node 0 0 0 0"),
        ("core:2 pu:2(indexes=core)", "core 0 1 0 1; llc 0 0 0 0; node 0 0 0 0"),
        ("pack:2 core:2 pu:2(indexes=package:core)", "core 0 2 1 3 0 2 1 3; llc 0 1 0 1 0 1 0 1; node 0 0 0 0 0 0 0 0"),
        ("pack:2 core:2 pu:1(indexes=2*2:1*2)", "core 0 2 1 3; llc 0 1 0 1; node 0 0 0 0"),
        ("core:2 pu:2(indexes=0,1,4,5)", "core 0 0 - - 1 1; llc 0 0 - - 0 0; node 0 0 - - 0 0"),
    ]);
}

#[test]
fn invalid_strings_give_errors_with_position() {
    check(&[
        (
            "node:2(colour=red) core:2 pu:1",
            "character 1: unknown attribute \"colour=red\"; known are memory=SIZE, size=SIZE, memorysidecachesize=SIZE and indexes=NUMBERS",
        ),
        (
            "node:2(memory=much) core:2 pu:1",
            "character 1: memory is \"much\"; expected a size such as 16GB, 512kB or bytes",
        ),
        ("pack:2 [core] core:2 pu:1", "character 8: \"core\" in brackets; expected [NUMANode]"),
        ("pack:2 [numa core:2 pu:1", "character 8: unclosed; expected ']'"),
        ("pack:2(size=3 core:2 pu:1", "character 7: unclosed; expected ')'"),
        ("pack:2) core:2 pu:1", "character 7: unmatched ')'"),
        (
            "pack:2(size=3)x core:2 pu:1",
            "character 1: \"x\" after the parentheses of \"pack:2(size=3)x\"; expected a space",
        ),
        ("node:2 [numa] pu:1", "character 8: \"[numa]\" in addition to a node level; expected one or the other"),
        ("node:2 core:8", "character 14: the last level is not pu; add pu:1, or pu:2 for two threads per core"),
        (
            "node:2 cpu:8",
            "character 8: unknown level \"cpu\"; expected group, package, die, node, l5 to l1, llc, core or pu",
        ),
        ("node:0 pu:1", "character 1: \"node:0\": expected a count from 1 to 4096"),
        ("node:-1 pu:1", "character 1: \"node:-1\": expected a count from 1 to 4096"),
        ("core:100000 pu:2", "character 1: \"core:100000\": expected a count from 1 to 4096"),
        (
            "node:2 2 pu:1",
            "character 8: bare numbers and typed levels mixed; expected either \"2 8 2\" or \"node:2 core:8 pu:2\"",
        ),
        ("core:2 core:2 pu:1", "character 8: \"core:2\": this level occurs twice"),
        ("core:2 node:2 pu:1", "character 8: \"node:2\" inside a core; expected outer levels first"),
        ("core:2 pu:2 [numa]", "character 13: \"[numa]\" inside a core; expected outer levels first"),
        ("l2:2 l3:2 pu:1", "character 6: \"l3:2\": caches out of order; expected l3 before l2 before l1"),
        ("node:2 core:4096 pu:4096", "character 8: more than 4096 CPUs"),
        ("node:2000 pu:1", "character 1: 2000 nodes; expected at most 1024"),
        (" ", "character 1: no level; expected levels such as node:2 core:8 pu:2"),
        ("[numa]", "character 1: no level; expected levels such as node:2 core:8 pu:2"),
        ("core:2 pu:2(indexes=0,1,2)", "character 8: indexes: 3 numbers; expected 4, one per object"),
        ("core:2 pu:2(indexes=0,1,1,2)", "character 8: indexes: 1 occurs twice"),
        ("core:2 pu:1(indexes=0,4096)", "character 8: indexes: 4096; expected numbers below 4096"),
        ("core:2 pu:1(indexes=0,x)", "character 8: indexes: \"x\" is not a number"),
        ("core:2 pu:2(indexes=3*2)", "character 8: indexes: the loops do not count 4 objects"),
        ("core:2 pu:2(indexes=0*2)", "character 8: indexes: \"0*2\"; expected STEP*COUNT"),
        ("core:2 pu:2(indexes=core:die)", "character 8: indexes: no level \"die\" here"),
        ("core:2 pu:2(indexes=core:core)", "character 8: indexes: level \"core\" occurs twice"),
        (
            "pack:2 [numa(indexes=0,1)] l3:1 [numa(indexes=0,1)] pu:1",
            "character 33: node indexes are given twice; expected one list for all nodes",
        ),
    ]);
    let many = "group:1 ".repeat(70) + "pu:1";
    assert_eq!(groups(&many), "character 513: more than 64 levels");
}

#[test]
fn synthetic_string_gives_a_complete_machine() {
    let machine = Machine::from_synthetic("node:2  core:8 pu:2").unwrap();
    assert_eq!((machine.name.as_str(), machine.topology.len()), ("node:2 core:8 pu:2", 32));
    assert_eq!(machine.topology.distances, [[10, 20], [20, 10]]);
    let error = Machine::from_synthetic("x").unwrap_err().to_string();
    assert_eq!(
        error,
        "synthetic topology \"x\": character 1: unknown level \"x\"; expected group, package, die, node, l5 to l1, llc, core or pu"
    );
    let sparse = Machine::from_synthetic("core:2 pu:1(indexes=0,3)").unwrap();
    assert_eq!((sparse.absent.to_string(), sparse.offline.to_string()), ("1-2".into(), "1-2".into()));
    assert_eq!(sparse.description, "2 CPUs by a synthetic topology");
}

proptest! {
    #[test]
    fn never_panics_and_always_yields_valid_machines(
        text in "([a-z0-9]{1,5}:?[0-9]{0,4}[ (\\[]?){0,6}",
        words in prop::collection::vec(
            "(node|l3|core|pu|pack|)(:[0-9]{1,2})?(\\((size|memory|indexes)=([0-9]{1,2}[*:,]?){1,4}\\))?|\\[numa(\\(indexes=[0-9,*:]{1,6}\\))?\\]",
            0..6,
        ),
    ) {
        for text in [text, words.join(" ") + " pu:2", words.join(" ") + " core:2 pu:2(indexes=2*2:1*2)"] {
            if let Ok(machine) = Machine::from_synthetic(&text) {
                prop_assert!(machine.validate().is_ok());
            }
        }
    }
}
