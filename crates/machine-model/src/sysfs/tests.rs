// SPDX-License-Identifier: GPL-2.0-only
//! Contents of sysfs: regular, partial and invalid.

use super::*;
use crate::{Effect, Estimate, Governor, Group};
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
    // An instruction cache must not count, however high its level (no real machine has one of level 4).
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
    // The second threads of all cores are offline, as with nosmt.
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
    assert!(hybrid.effects.capacity && hybrid.caveats.is_empty());
}

/// A hybrid machine with a value of each of its four CPUs in this file; CPUs 1 and 3 are the small ones.
fn hybrid(values: &[(&str, [&str; 4])]) -> Machine {
    let kinds = [("/sys/devices/cpu_core/cpus", "0,2\n"), ("/sys/devices/cpu_atom/cpus", "1,3\n")];
    Machine::from_sysfs(&|path| {
        if let Some((_, cpus)) = kinds.iter().find(|(kind, _)| *kind == path) {
            return Some((*cpus).to_owned());
        }
        let short = path.strip_prefix("/sys/devices/system/")?;
        for (file, values) in values {
            for (cpu, value) in values.iter().enumerate() {
                if short == format!("cpu/cpu{cpu}/{file}") {
                    return Some((*value).to_owned());
                }
            }
        }
        Some(FILES.iter().find(|(name, _)| *name == short)?.1.to_owned())
    })
    .unwrap()
}

#[test]
fn capacities_of_hybrid_machines_are_derived_from_performance_or_frequency() {
    let performance = ("acpi_cppc/highest_perf", ["64", "40", "64", "40"]);
    let frequency = ("cpufreq/cpuinfo_max_freq", ["4800000", "3600000", "4700000", "3600000"]);
    let cppc = hybrid(&[performance, frequency]);
    assert_eq!(cppc.topology.capacities, [1024, 640, 1024, 640]);
    assert_eq!(cppc.description, "this machine, 4 CPUs; capacities are derived from the highest performance of CPPC");
    assert_eq!(hybrid(&[frequency]).topology.capacities, [1024, 768, 1002, 768]);
    let unknown = hybrid(&[]);
    assert_eq!((unknown.topology.capacities, unknown.effects.capacity), (vec![1024; 4], false));
    assert!(
        unknown.caveats[0].starts_with("unlike cores are simulated alike: CPUs 0,2, CPUs 1,3; sysfs gives neither")
    );
    // Favored cores of an ordinary processor are of the same kind.
    let favored = hybrid(&[("cpufreq/cpuinfo_max_freq", ["5100000", "4900000", "5100000", "4900000"])]);
    assert_eq!(favored.topology.capacities, [1024; 4]);
}

#[test]
fn frequencies_are_read_and_marked_as_assumed() {
    let all = |text: &'static str| [text; 4];
    let machine = hybrid(&[
        ("cpufreq/cpuinfo_min_freq", all("800000\n")),
        ("cpufreq/cpuinfo_max_freq", all("4800000\n")),
        ("cpufreq/base_frequency", all("2600000\n")),
        ("cpufreq/scaling_governor", all("powersave\n")),
        ("cpufreq/related_cpus", ["0,2", "1,3", "0,2", "1,3"]),
    ]);
    let frequency = machine.effects.frequency.as_ref().unwrap();
    assert_eq!(frequency.mhz, [800, 1160, 1520, 1880, 2240, 2600]);
    assert_eq!(frequency.turbo_mhz, [Estimate::exactly(4_800), Estimate { low: 2_600, typical: 3_700, high: 4_800 }]);
    assert_eq!((frequency.governor, frequency.domain), (Governor::Performance, Group::Core));
    assert!(machine.effects.assumed.contains(&Effect::Frequency));
    assert_eq!(Machine::from_toml("t", &machine.to_toml()).unwrap().effects, machine.effects);
    // acpi-cpufreq lists turbo as one more frequency.
    let listed = hybrid(&[
        ("cpufreq/cpuinfo_min_freq", all("1200000")),
        ("cpufreq/cpuinfo_max_freq", all("3100000")),
        ("cpufreq/scaling_available_frequencies", all("2401000 2400000 1800000 1200000 ")),
        ("cpufreq/cpuinfo_transition_latency", all("4294967295")),
        ("cpufreq/related_cpus", all("0-3")),
    ]);
    let frequency = listed.effects.frequency.unwrap();
    assert_eq!((frequency.mhz, frequency.turbo_mhz[0].typical), (vec![1_200, 1_800, 2_400], 3_100));
    assert_eq!((frequency.transition_us, frequency.domain), (10, Group::Machine));
    let odd = hybrid(&[("cpufreq/cpuinfo_min_freq", all("5")), ("cpufreq/cpuinfo_max_freq", all("0"))]);
    assert!(odd.effects.frequency.is_none() && odd.caveats.iter().any(|caveat| caveat.contains("from 0 to 0 MHz")));
}

#[test]
fn cache_shared_by_no_cpu_is_no_cache() {
    let machine = machine(&[("cpu/cpu0/cache/index1/shared_cpu_list", "\n")]).unwrap();
    assert_eq!(groups(&machine), [(0, 0, 0), (1, 1, 2), (0, 0, 0), (1, 1, 2)]);
    assert_eq!(machine.caveats, [""; 0]);
}

#[test]
fn sparse_node_numbers_are_kept() {
    let machine = machine(&[
        ("node/online", "0,8\n"),
        ("node/node8/cpulist", "1,3\n"),
        ("node/node0/distance", "10 40\n"),
        ("node/node8/distance", "40 10\n"),
    ])
    .unwrap();
    assert_eq!(groups(&machine), [(0, 0, 0), (1, 1, 8), (0, 0, 0), (1, 1, 8)]);
    assert_eq!((machine.topology.distance(0, 8), machine.topology.nodes()), (40, 9));
    assert_eq!(machine.topology.absent_nodes, (1..8).collect());
}

#[test]
fn files_that_are_wrong_alike_are_named_once() {
    let machine = machine(&[0, 1, 2].map(|cpu| match cpu {
        0 => ("cpu/cpu0/cpu_capacity", "0"),
        1 => ("cpu/cpu1/cpu_capacity", "0"),
        _ => ("cpu/cpu2/cpu_capacity", "2000"),
    }))
    .unwrap();
    let expected = "/sys/devices/system/cpu/cpu0/cpu_capacity: 0; expected 1 to 1024; ignored (so are 2 files like it)";
    assert_eq!(machine.caveats, [expected]);
}

#[test]
fn machine_without_a_list_of_online_cpus_is_refused() {
    let cases = [
        ("absent", "/sys/devices/system/cpu/online: unreadable or empty; expected the online CPUs"),
        ("", "/sys/devices/system/cpu/online: unreadable or empty; expected the online CPUs"),
        (
            "x",
            r#"/sys/devices/system/cpu/online: "x" is not a CPU list such as 0-3,8 (CPUs below 4096, ranges ascending)"#,
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(machine(&[("cpu/online", content)]).unwrap_err().to_string(), expected);
    }
}

#[test]
fn invalid_sysfs_file_is_named_and_only_its_contents_are_ignored() {
    let cases = [
        ("node/node2/cpulist", "1", "/sys/devices/system/node: CPUs 3 are in no node's cpulist; node 0 is assumed"),
        (
            "node/node0/distance",
            "10 x",
            r#"/sys/devices/system/node/node0/distance: "10 x"; expected 3 distances; ignored"#,
        ),
        (
            "node/node0/distance",
            "11 17 21",
            "/sys/devices/system/node: distance of node 0 to itself is 11; expected 10; ignored",
        ),
        ("cpu/cpu2/cpu_capacity", "0", "/sys/devices/system/cpu/cpu2/cpu_capacity: 0; expected 1 to 1024; ignored"),
        (
            "cpu/cpu0/cache/index0/level",
            "one",
            r#"/sys/devices/system/cpu/cpu0/cache/index0/level: "one"; expected a number; ignored"#,
        ),
    ];
    for (path, content, expected) in cases {
        let machine = machine(&[(path, content)]).unwrap();
        assert_eq!(machine.caveats, [expected]);
        assert_eq!(machine.online_cpus().len(), 4);
    }
}

proptest! {
    #[test]
    fn invalid_contents_of_any_file_never_panic(file in 0..FILES.len(), text in "[0-9,\\- x]{0,6}") {
        if let Ok(machine) = machine(&[(FILES[file].0, &text)]) {
            prop_assert!(machine.validate().is_ok());
            prop_assert_eq!(&Machine::from_toml("t", &machine.to_toml()).unwrap().topology, &machine.topology);
        }
    }
}
