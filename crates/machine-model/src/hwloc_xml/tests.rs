// SPDX-License-Identifier: GPL-2.0-only
//! Files written by lstopo of hwloc 2.9 (`-v2`) and 3.0 (`-v3`), and damaged ones.

use super::*;
use ids::Locality;
use proptest::prelude::*;

const TILES: &str = include_str!("../../tests/hwloc/tiles-v2.xml");
const PACKAGES: &str = include_str!("../../tests/hwloc/packages-v3.xml");
const HYBRID_2: &str = include_str!("../../tests/hwloc/hybrid-v2.xml");
const HYBRID_3: &str = include_str!("../../tests/hwloc/hybrid-v3.xml");
const SPARSE: &str = include_str!("../../tests/hwloc/sparse-v3.xml");

fn read(text: &str) -> Machine {
    Machine::from_hwloc_xml("dir/my.xml", text).unwrap()
}

/// lstopo read the synthetic string and wrote the file; both must give the same topology.
#[test]
fn xml_file_gives_the_same_topology_as_its_synthetic_string() {
    let string = "package:2 group:2 [numa(memory=4GB)] [numa(memory=1GB)] l2:2 core:1 pu:2(indexes=2*8:1*2)";
    assert_eq!(read(TILES).topology, Machine::from_synthetic(string).unwrap().topology);
    let string = "package:2 [numa(memory=4GB memorysidecachesize=16MB indexes=3,9)] die:2 l3:1 core:2 \
                  pu:1(indexes=5,4,3,2,0,1,10,11)";
    let (file, string) = (read(PACKAGES), Machine::from_synthetic(string).unwrap());
    assert_eq!((file.topology, file.absent), (string.topology, string.absent));
}

#[test]
fn hybrid_machine_has_capacities_offline_cpus_and_memory_nodes() {
    for text in [HYBRID_2, HYBRID_3] {
        let machine = read(text);
        assert_eq!((machine.name.as_str(), machine.description.as_str()), ("my", "a machine, 8 CPUs, by hwloc"));
        assert_eq!(machine.topology.capacities, [1024, 1024, 1024, 1024, 446, 446, 446, 446, 1024]);
        assert_eq!((machine.offline.to_string(), machine.absent.to_string()), ("8".into(), String::new()));
        assert_eq!(machine.topology.distances, [[10, 17], [17, 10]]);
        assert_eq!(
            machine.summary(),
            "8 CPUs: 6 cores of 1 or more threads, 1 last-level cache, 1 node and 1 node of memory only; \
             capacities 446, 1024; offline: 8"
        );
        assert_eq!(machine.topology.locality(CpuId(0), CpuId(1)), Locality::Smt);
        assert_eq!(machine.topology.locality(CpuId(4), CpuId(5)), Locality::Llc);
    }
}

#[test]
fn cpu_and_node_numbers_may_have_gaps() {
    let machine = read(SPARSE);
    assert_eq!((machine.offline.to_string(), machine.absent.to_string()), ("3-7".into(), "4-7".into()));
    assert_eq!(machine.online_cpus().to_string(), "0-2,8-11");
}

/// Effects of a cgroup, or of a node without memory, on a file.
#[test]
fn cpus_whose_numa_node_is_missing_are_assigned_one() {
    let node = "<object type=\"NUMANode\" os_index=\"2\" cpuset=\"0x0\"/>";
    let cpu = |number: u32, nodes: &str| format!("<object type=\"PU\" os_index=\"{number}\" {nodes}/>");
    let cpus = cpu(0, "complete_nodeset=\"0x1\"") + &cpu(1, "complete_nodeset=\"0x4\"") + &cpu(2, "");
    let machine = read(&format!("<topology version=\"2.0\">{node}{cpus}</topology>"));
    let nodes: Vec<u32> = machine.topology.places.iter().map(|place| place.node).collect();
    assert_eq!((nodes, machine.topology.nodes(), machine.topology.present_nodes()), (vec![0, 2, 0], 3, 2));
    let machine = read(&format!("<topology version=\"2.0\">{}</topology>", cpu(0, "") + &cpu(1, "")));
    assert_eq!(machine.topology.nodes(), 1);
}

#[test]
fn missing_capacities_are_derived_from_frequencies() {
    let text = HYBRID_2
        .replace("name=\"LinuxCapacity\" value=\"446\"", "name=\"FrequencyMaxMHz\" value=\"3900\"")
        .replace("name=\"LinuxCapacity\" value=\"1024\"", "name=\"FrequencyMaxMHz\" value=\"5000\"");
    let machine = read(&text);
    assert_eq!(machine.topology.capacities, [1024, 1024, 1024, 1024, 798, 798, 798, 798, 1024]);
    assert!(machine.description.ends_with("; capacities are derived from maximum frequencies"));
    // If the capacity is known for one kind of CPU only, all CPUs get the same capacity, and a caveat says so.
    let text = HYBRID_2.replace("name=\"LinuxCapacity\" value=\"446\"", "name=\"CoreType\" value=\"IntelAtom\"");
    assert_eq!((read(&text).topology.capacities, read(&text).caveats.len()), (vec![1024; 9], 1));
}

#[test]
fn distances_may_use_gp_indexes_and_be_asymmetric() {
    let text = HYBRID_3
        .replace("indexing=\"os\"", "indexing=\"gp\"")
        .replace("<indexes length=\"4\">0 1 ", "<indexes length=\"6\">31 ")
        .replace("</indexes>", "</indexes><indexes>30 </indexes>")
        .replace("10 17 17 10", "10 17 19 10");
    let number = |node: &str| {
        let from = &text[text.find(&format!("type=\"NUMANode\" os_index=\"{node}\"")).unwrap()..];
        let at = from.find("gp_index=\"").unwrap() + 10;
        from[at..].split('"').next().unwrap().to_owned()
    };
    let text = text.replace("31 <", &format!("{} <", number("1"))).replace(">30 <", &format!(">{} <", number("0")));
    assert_eq!(read(&text).topology.distances, [[10, 19], [19, 10]]);
}

#[test]
fn invalid_files_give_errors_with_line_and_column() {
    let cases = [
        ("<topology", "<topologie", "f.xml:86:1: not XML: expected 'topologie' tag, not 'topology' at 86:1"),
        (
            "version=\"3.0\"",
            "version=\"1\"",
            "f.xml:3:1: hwloc XML version 1; expected version 2 or 3 (convert it with lstopo of hwloc 2: lstopo -i OLD.xml NEW.xml)",
        ),
        (
            "version=\"3.0\"",
            "",
            "f.xml:3:1: hwloc XML version 1; expected version 2 or 3 (convert it with lstopo of hwloc 2: lstopo -i OLD.xml NEW.xml)",
        ),
        ("type=\"PU\" os_index=\"1\"", "type=\"PU\" os_index=\"0\"", "f.xml:13:17: duplicate PU os_index 0"),
        (
            "type=\"PU\" os_index=\"1\"",
            "type=\"PU\" os_index=\"4096\"",
            "f.xml:13:17: os_index is \"4096\"; expected a number from 0 to 4095",
        ),
        (
            "type=\"PU\" os_index=\"1\"",
            "type=\"PU\" os_index=\"-1\"",
            "f.xml:13:17: os_index is \"-1\"; expected a number from 0 to 4095",
        ),
        ("type=\"PU\" os_index=\"1\"", "os_index=\"1\"", "f.xml:13:17: <object> has no attribute type"),
        ("type=\"PU\" os_index=\"1\"", "type=\"PU\"", "f.xml:13:17: <object> has no attribute os_index"),
    ];
    for (from, to, expected) in cases {
        assert!(HYBRID_3.contains(from), "{from}");
        let error = Machine::from_hwloc_xml("f.xml", &HYBRID_3.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let error = |text: &str| Machine::from_hwloc_xml("f.xml", text).unwrap_err().to_string();
    assert_eq!(error("<a/>"), "f.xml:1:1: the root element is \"a\"; expected the \"topology\" of hwloc XML");
    assert_eq!(error("<topology version='2.0'/>"), "f.xml:1:1: no object of type PU; expected at least one CPU");
}

/// One odd attribute costs only what it describes.
#[test]
fn invalid_attributes_beside_the_cpus_are_named_and_ignored() {
    let cases = [
        (
            "complete_cpuset=\"0x000001ff\"",
            "complete_cpuset=\"0xgg\"",
            "f.xml:4:3: complete_cpuset is \"0xgg\"; expected words of 32 bits such as 0x0000000f,0xffffffff; ignored",
        ),
        ("17 17 10", "17 17 x", "f.xml:68:5: u64values is \"x\"; expected a number; ignored"),
        ("17 17 10", "17 17", "f.xml:66:3: 2 indexes and 3 values; expected 2 and 4; ignored"),
        ("17 17 10", "17 17 300", "f.xml:66:3: distance of node 1 to itself is 300; expected 10; ignored"),
        ("\"4\">0 1 ", "\"4\">0 2 ", "f.xml:66:3: distances of a nonexistent node 2; ignored"),
        (
            "value=\"446\"",
            "value=\"2000\"",
            "f.xml:77:3: LinuxCapacity is \"2000\"; expected a number from 1 to 1024; this kind of core is ignored",
        ),
        (
            "type=\"NUMANode\" os_index=\"1\"",
            "type=\"NUMANode\" os_index=\"0\"",
            "f.xml:63:7: duplicate NUMANode os_index 0; ignored",
        ),
        (
            "type=\"NUMANode\" os_index=\"1\"",
            "type=\"NUMANode\" os_index=\"x\"",
            "f.xml:63:7: os_index is \"x\"; expected a number from 0 to 4294967295; ignored",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(HYBRID_3.contains(from), "{from}");
        let machine = Machine::from_hwloc_xml("f.xml", &HYBRID_3.replacen(from, to, 1)).unwrap();
        assert_eq!(machine.caveats.first().map(String::as_str), Some(expected));
        assert_eq!(machine.online_cpus().len(), 8, "{expected}");
    }
    let far = format!("0x1{}", ",0x0".repeat(128));
    let text = HYBRID_3.replacen("complete_cpuset=\"0x000001ff\"", &format!("complete_cpuset=\"{far}\""), 1);
    assert!(read(&text).caveats[0].ends_with("; expected CPUs below 4096; ignored"), "{:?}", read(&text).caveats);
}

/// A machine of two cores with two threads each, below one cache; CPU 3 is offline, so there is no PU 3.
fn with_offline_cpu(core: &str, cache: &str, package: &str) -> Topology {
    let pu = |cpu: u32| format!("<object type=\"PU\" os_index=\"{cpu}\"/>");
    let machine = read(&format!(
        "<topology version=\"2.0\"><object type=\"Machine\" complete_cpuset=\"0x1f\">\
         <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x17\" complete_cpuset=\"0x1f\"/>\
         <object type=\"Package\" complete_cpuset=\"0x10\"><object type=\"Core\">{}</object></object>\
         <object type=\"Package\" complete_cpuset=\"{package}\"><object type=\"L3Cache\" complete_cpuset=\"{cache}\">\
         <object type=\"Core\" complete_cpuset=\"0x3\">{}{}</object><object type=\"Core\" complete_cpuset=\"{core}\">{}\
         </object></object></object></object></topology>",
        pu(4),
        pu(0),
        pu(1),
        pu(2)
    ));
    assert_eq!((machine.offline.to_string(), machine.absent.len()), ("3".to_owned(), 0));
    machine.topology
}

#[test]
fn place_of_an_offline_cpu_comes_from_the_complete_cpusets() {
    let distance = |topology: &Topology, cpu| topology.locality(CpuId(3), CpuId(cpu));
    let known = with_offline_cpu("0xc", "0xf", "0xf");
    assert_eq!([0, 2, 4].map(|cpu| distance(&known, cpu)), [Locality::Llc, Locality::Smt, Locality::Node]);
    let without_core = with_offline_cpu("0x4", "0xf", "0xf");
    assert_eq!([0, 2, 4].map(|cpu| distance(&without_core, cpu)), [Locality::Llc, Locality::Llc, Locality::Node]);
    let unknown = with_offline_cpu("0x4", "0x7", "0x7");
    assert_eq!(distance(&unknown, 2), Locality::Llc, "below the first cache of its node");
}

#[test]
fn node_numbers_with_gaps_are_kept_and_impossible_ones_replaced() {
    let machine = |second: &str| {
        let node =
            |number: &str, cpus: &str| format!("<object type=\"NUMANode\" os_index=\"{number}\" cpuset=\"{cpus}\"/>");
        let pu = |cpu: u32| format!("<object type=\"PU\" os_index=\"{cpu}\"/>");
        let nodes = node("0", "0x1") + &node(second, "0x2");
        read(&format!("<topology version=\"2.0\">{nodes}{}{}</topology>", pu(0), pu(1)))
    };
    let sparse = machine("8");
    assert_eq!(sparse.topology.places.iter().map(|place| place.node).collect::<Vec<_>>(), [0, 8]);
    assert_eq!((sparse.topology.nodes(), sparse.topology.present_nodes(), sparse.caveats.len()), (9, 2, 0));
    assert!(sparse.summary().ends_with("2 nodes"), "{}", sparse.summary());
    assert_eq!(Machine::from_toml("t", &sparse.to_toml()).unwrap().topology, sparse.topology);
    let impossible = machine("4096");
    assert_eq!(impossible.topology.nodes(), 2);
    assert_eq!(
        impossible.caveats,
        ["dir/my.xml: node number 4096; expected numbers below 1024, nodes are renumbered from 0"]
    );
}

#[test]
fn core_kinds_without_known_speeds_are_simulated_alike_with_a_caveat() {
    let text = HYBRID_2
        .replace("name=\"LinuxCapacity\" value=\"446\"", "name=\"CoreType\" value=\"IntelAtom\"")
        .replace("name=\"LinuxCapacity\" value=\"1024\"", "name=\"CoreType\" value=\"IntelCore\"");
    let machine = read(&text);
    assert_eq!(machine.topology.capacities, [1024; 9]);
    let caveat = &machine.caveats[0];
    assert!(
        caveat.starts_with("unlike cores are simulated alike: CPUs 4-7 (IntelAtom), CPUs 0-3 (IntelCore);"),
        "{caveat}"
    );
    assert!(!machine.effects.capacity);
    assert!(read(HYBRID_2).caveats.is_empty() && read(HYBRID_2).effects.capacity);
}

/// Files meant to exhaust a parser.
#[test]
fn entity_bombs_and_oversized_files_are_refused() {
    let mut entities = String::from("<!DOCTYPE topology [<!ENTITY a0 \"aaaaaaaaaa\">");
    for level in 1..12 {
        let inner = format!("&a{};", level - 1).repeat(10);
        entities += &format!("<!ENTITY a{level} \"{inner}\">");
    }
    let bomb = format!("{entities}]><topology version=\"2.0\"><object type=\"&a11;\"/></topology>");
    assert!(Machine::from_hwloc_xml("f.xml", &bomb).unwrap_err().problem.starts_with("not XML"));
    let deep = 200_000;
    let nested = format!(
        "<topology version=\"2.0\">{}<object type=\"PU\" os_index=\"0\"/>{}</topology>",
        "<object type=\"Group\">".repeat(deep),
        "</object>".repeat(deep)
    );
    // Deeply nested but valid.
    assert_eq!(read(&nested).topology.len(), 1);
    let many = format!("<topology version=\"2.0\">{}</topology>", "<info/>".repeat(MAX_ELEMENTS as usize));
    assert!(Machine::from_hwloc_xml("f.xml", &many).unwrap_err().problem.contains("not XML"));
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        file in 0..5usize,
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        swap in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let mut bytes = [TILES, PACKAGES, HYBRID_2, HYBRID_3, SPARSE][file].as_bytes().to_vec();
        // Replaces hexadecimal digits, so that the file often remains valid XML.
        let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_hexdigit()).collect();
        for (at, byte) in changes {
            let at = digits[at.index(digits.len())];
            bytes[at] = if byte < 200 { b"0123456789abcdef"[usize::from(byte) % 16] } else { byte };
        }
        let (from, to) = (swap.0.index(bytes.len()), swap.1.index(bytes.len()));
        bytes.swap(from, to);
        if let Ok(machine) = Machine::from_hwloc_xml("f.xml", &String::from_utf8_lossy(&bytes)) {
            prop_assert!(machine.validate().is_ok());
            let text = machine.to_toml();
            let back = Machine::from_toml("f.toml", &text).unwrap();
            // The position of nonexistent CPU numbers is not preserved and not observable.
            let present: Vec<CpuId> = machine.present_cpus().iter().collect();
            let seen = |machine: &Machine| {
                let pairs = present.iter().flat_map(|&a| present.iter().map(move |&b| (a, b)));
                pairs.map(|(a, b)| machine.topology.locality(a, b)).collect::<Vec<_>>()
            };
            prop_assert_eq!(seen(&back), seen(&machine), "{}", text);
            prop_assert_eq!((back.present_cpus(), back.offline), (machine.present_cpus(), machine.offline), "{}", text);
        }
    }
}
