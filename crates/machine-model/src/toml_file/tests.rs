// SPDX-License-Identifier: GPL-2.0-only
//! Machine files and their contents, and invalid ones.

use super::*;
use ids::{CpuId, Locality};
use proptest::prelude::*;

const GOOD: &str = r#"description = "test"
hz = 250
no_hz_idle = true
[topology]
shape = "node:2 core:1 pu:2"
numbering = "threads-last"
distances = [[10, 21], [21, 10]]
[costs]
context_switch_ns = 7
ipi_ns = [1, 2, 3]
"#;

#[test]
fn machine_file_is_read() {
    let machine = Machine::from_toml("dir/my.toml", GOOD).unwrap();
    assert_eq!((machine.name.as_str(), machine.description.as_str(), machine.hz), ("my", "test", 250));
    let nodes: Vec<u32> = machine.topology.places.iter().map(|cpu| cpu.node).collect();
    assert_eq!(nodes, [0, 1, 0, 1]);
    assert_eq!(machine.topology.distances, [[10, 21], [21, 10]]);
    assert_eq!((machine.costs.context_switch_ns, machine.costs.ipi_ns), (7, [1, 2, 3]));
    assert_eq!(machine.costs.tick_ns, Machine::preset("server-64").unwrap().costs.tick_ns);
}

#[test]
fn numbering_may_be_a_list_of_cpu_numbers() {
    let machine = Machine::from_toml("t", &GOOD.replace("\"threads-last\"", "[3, 0, 2, 1]")).unwrap();
    // The tree's CPUs 0 and 1 (node 0) have numbers 3 and 0.
    assert_eq!(machine.topology.places.iter().map(|cpu| cpu.node).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!(machine.topology.locality(CpuId(0), CpuId(3)), Locality::Smt);
}

#[test]
fn invalid_files_give_errors_with_line() {
    let cases = [
        ("hz = 250", "hertz = 250", "f.toml:1: the file has no key hz"),
        ("hz = 250", "hz = 0", "f.toml:2: hz is 0; expected an integer from 24 to 10000"),
        ("hz = 250", "hz = \"x\"", r#"f.toml:2: hz is "x"; expected an integer from 24 to 10000"#),
        ("hz = 250", "hz = -1", "f.toml:2: hz is -1; expected an integer from 24 to 10000"),
        ("hz = 250", "hz = 250\nhz = 3", "f.toml:3: not TOML: duplicate key"),
        ("hz = 250", "hz = ", "f.toml:2: not TOML: string values must be quoted, expected literal string"),
        ("true", "1", "f.toml:3: no_hz_idle is 1; expected true or false"),
        (
            "no_hz_idle",
            "newidle_ratio = 1025\nno_hz_idle",
            "f.toml:3: newidle_ratio is 1025; expected an integer from 0 to 1024",
        ),
        ("pu:2\"", "pu:x\"", r#"f.toml:5: shape: character 15: "pu:x": expected a count from 1 to 4096"#),
        ("shape", "shap", "f.toml:4: [topology] needs shape or nodes"),
        (
            "numbering",
            "numberign",
            "f.toml:6: [topology] has an unknown key numberign (did you mean numbering?); known are shape, nodes, numbering, absent_nodes, distances, capacity, offline",
        ),
        (
            "\"threads-last\"",
            "\"last\"",
            r#"f.toml:6: numbering is "last"; expected "threads-together", "threads-last" or the list of the numbers"#,
        ),
        ("\"threads-last\"", "[0, 1]", "f.toml:6: numbering is [0, 1]; expected 4 numbers, one per CPU of the shape"),
        ("\"threads-last\"", "[0, 1, 1, 2]", "f.toml:6: numbering is 1; expected each number once"),
        ("\"threads-last\"", "[0, 1, 2, 4096]", "f.toml:6: numbering is 4096; expected an integer from 0 to 4095"),
        (
            "[[10, 21], [21, 10]]",
            "[[10, 21], [22, 10]]",
            "f.toml:7: distance from node 0 to 1 is 21, but back it is 22",
        ),
        ("[[10, 21], [21, 10]]", "[10]", "f.toml:7: distances is 10; expected an array of integers"),
        (
            "[[10, 21], [21, 10]]",
            "[[10]]",
            "f.toml:7: distances have rows of [1]; expected 2 rows of 2, one for each node",
        ),
        (
            "context_switch_ns",
            "context_swich_ns",
            "f.toml:9: [costs] has an unknown key context_swich_ns (did you mean context_switch_ns?); known are context_switch_ns, ipi_send_ns, idle_exit_ns, interrupt_ns, tick_ns, instruction_ps, callback_ns, wakeup_ns, fork_ns, clone_ns, attach_ns, disable_ns, ipi_ns, call_ns",
        ),
        ("[1, 2, 3]", "[1, 2]", "f.toml:10: ipi_ns is [1, 2]; expected 3 costs: same LLC, same node, far"),
        ("[1, 2, 3]", "[1, 2, 3e3]", "f.toml:10: ipi_ns is 3e3; expected an integer from 0 to 1000000000"),
        (
            "[costs]",
            "[cashes]",
            "f.toml:8: the file has an unknown key cashes (did you mean caches?); known are description, hz, no_hz_idle, newidle_ratio, autogroup, llc_kb, private_kb, topology, costs, halt, noise, smt, frequency, power, idle, locks, caches, numa, bandwidth, disks, networks, page_cache, tlb, capacity_scales_work, assumed, caveats",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from));
        let error = Machine::from_toml("f.toml", &GOOD.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(Machine::from_toml("f.toml", "").unwrap_err().to_string(), "f.toml:1: the file has no key description");
}

proptest! {
    #[test]
    fn damaged_files_never_panic(cut in 0..=GOOD.len(), at in 0..GOOD.len(), bit in 0..7) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] ^= 1u8 << bit;
        bytes.truncate(cut.max(1));
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(machine) = Machine::from_toml("f.toml", &text) {
            prop_assert!(machine.validate().is_ok());
        }
    }
}

const NODES: &str = r#"description = "test"
hz = 250
no_hz_idle = true
[topology]
nodes = [
  [["0,8", "1,9"], [4, 5]],
  [["2", 6]],
  [],
]
distances = [[10, 21, 17], [21, 10, 17], [17, 17, 10]]
capacity = { "4-5" = 512, "2" = 300 }
offline = "6,9"
"#;

#[test]
fn irregular_machine_is_described_by_nodes() {
    let machine = Machine::from_toml("t", NODES).unwrap();
    let places: Vec<(u32, u32, u32)> =
        machine.topology.places.iter().map(|place| (place.core, place.llc, place.node)).collect();
    // CPUs 3 and 7 do not exist; the core of CPU 6 is offline.
    let (none, also_none) = ((5, 0, 0), (6, 0, 0));
    let expected =
        [(0, 0, 0), (1, 0, 0), (4, 2, 1), none, (2, 1, 0), (3, 1, 0), (7, 2, 1), also_none, (0, 0, 0), (1, 0, 0)];
    assert_eq!(places, expected);
    assert_eq!((machine.offline.to_string(), machine.absent.to_string()), ("3,6-7,9".into(), "3,7".into()));
    assert_eq!(machine.topology.capacities, [1024, 1024, 300, 1024, 512, 512, 1024, 1024, 1024, 1024]);
    assert_eq!(machine.topology.nodes(), 3);
}

#[test]
fn invalid_nodes_give_errors_with_line() {
    let cases = [
        ("nodes = [", "shape = \"pu:1\"\nnodes = [", "t:6: both shape and nodes; expected one of them"),
        ("[],", "3,", "t:8: nodes is 3; expected a list of last-level caches for each node"),
        ("[4, 5]", "4", "t:6: nodes is 4; expected a list of cores for each last-level cache"),
        ("[4, 5]", "[4, -5]", "t:6: nodes is -5; expected an integer from 0 to 4095"),
        ("[4, 5]", "[4, 4096]", "t:6: nodes is 4096; expected an integer from 0 to 4095"),
        (
            "[4, 5]",
            "[4, \"\"]",
            "t:6: nodes is \"\"; expected the CPUs of a core, such as \"0,8\", or the number of its only CPU",
        ),
        ("[4, 5]", "[4, 9]", "t:6: nodes is 9; expected each CPU once, but CPU 9 occurs twice"),
        (
            "[17, 17, 10]]",
            "[17, 10]]",
            "t:10: distances have rows of [3, 3, 2]; expected 3 rows of 3, one for each node",
        ),
        ("\"2\" = 300", "\"3\" = 300", "t:11: capacity lists CPUs 3, but the machine has CPUs 0-2,4-6,8-9"),
        ("\"2\" = 300", "\"2\" = 0", "t:11: capacity is 0; expected an integer from 1 to 1024"),
        ("\"2\" = 300", "\"4\" = 300", "t:11: capacity of CPUs 4 is given twice"),
        ("\"6,9\"", "\"10\"", "t:12: offline lists CPUs 10, but the machine has CPUs 0-2,4-6,8-9"),
        ("\"6,9\"", "\"0-2,4-6,8-9\"", "t: CPUs 0-9 of 0-9 are offline; expected a proper subset"),
    ];
    for (from, to, expected) in cases {
        assert!(NODES.contains(from), "{from}");
        let error = Machine::from_toml("t", &NODES.replacen(from, to, 1)).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
    let empty = GOOD.replace("shape = \"node:2 core:1 pu:2\"\nnumbering = \"threads-last\"\n", "nodes = [[], []]\n");
    let error = Machine::from_toml("t", &empty).unwrap_err().to_string();
    assert_eq!(error, "t:5: nodes has 2 nodes and 0 CPUs; expected at least one CPU and at most 1024 nodes");
    let both = GOOD.replace("pu:2\"", "pu:2(indexes=2*2:1*2)\"");
    let error = Machine::from_toml("t", &both).unwrap_err().to_string();
    assert_eq!(error, "t:6: both numbering and indexes in the shape; expected one of them");
}
