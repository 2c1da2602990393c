// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the CPU caps of `policies/entitlement` (policies/entitlement/caps.bpf.h). Half-lives are 1 s unless
//! stated otherwise. Expected values are Weir's own computations, not published figures.

use crate::headers;
use crate::world::{MS, World};
use ids::TaskId;
use kernel_model::{CgroupId, CgroupKnobs, TaskAttributes};
use launch_profile::{Cap, WorkloadFacts};
use machine_model::Machine;
use std::collections::BTreeSet;

const SPEC: &str = "entitlement,half_life_ms=1000,slice_us=20000";
const ONE: &str = "node:1 core:1 pu:1";
const PERIOD_US: u64 = 100_000;

/// Cap of a group, in percent of a CPU.
#[derive(Clone, Copy)]
enum May {
    Hard(u32),
    Soft(u32),
    All,
}

/// Loads the policy with the caps of the cgroups g0, g1 and so on, and creates these; hard caps are also set as their
/// `cpu.max`.
fn world_with(spec: &str, shape: &str, may: &[May]) -> (World, Vec<CgroupId>) {
    let name = |number: usize| format!("g{number}");
    let cap = |(number, may): (usize, &May)| match *may {
        May::Hard(percent) => Some(Cap { group: name(number), percent, hard: true }),
        May::Soft(percent) => Some(Cap { group: name(number), percent, hard: false }),
        May::All => None,
    };
    let caps: Vec<Cap> = may.iter().enumerate().filter_map(cap).collect();
    let mut machine = Machine::from_synthetic(shape).unwrap();
    machine.hz = 1000;
    let mut world = World::with_facts(spec, machine, (7, 2), &WorkloadFacts { caps, ..WorkloadFacts::default() });
    let make = |(number, may): (usize, &May)| {
        let group = world.group(CgroupId::ROOT, &name(number), 100);
        if let May::Hard(percent) = *may {
            set_max(&mut world, group, percent);
        }
        group
    };
    let groups = may.iter().enumerate().map(make).collect();
    (world, groups)
}

fn set_max(world: &mut World, group: CgroupId, percent: u32) {
    let quota_us = u64::from(percent) * PERIOD_US / 100;
    let knobs = CgroupKnobs { quota_us, period_us: PERIOD_US, ..CgroupKnobs::default() };
    world.kernel.set_cgroup(ids::CpuId(0), group, knobs);
    world.settle();
}

/// As [`world_with`], with hogs of these nice values in each group.
fn hogs(spec: &str, shape: &str, with: &[(May, &[i8])]) -> (World, Vec<Vec<TaskId>>) {
    let may: Vec<May> = with.iter().map(|(may, _)| *may).collect();
    let (mut world, groups) = world_with(spec, shape, &may);
    let nice = with.iter().flat_map(|(_, nice)| *nice);
    let attributes = nice.map(|nice| TaskAttributes { nice: *nice, ..world.attributes() }).collect();
    let mut tasks = world.start(attributes);
    let of_group = |((_, nice), group): (&(May, &[i8]), &CgroupId)| {
        let members: Vec<TaskId> = tasks.drain(..nice.len()).collect();
        world.place(&members, *group);
        members
    };
    let hogs = with.iter().zip(&groups).map(of_group).collect();
    (world, hogs)
}

fn ran_ms(world: &World, group: &[TaskId]) -> u64 {
    group.iter().map(|task| world.ran_ms(*task)).sum()
}

/// Returns the CPU time of each group in the next `ms`, in percent of a CPU.
fn percent(world: &mut World, groups: &[Vec<TaskId>], ms: u64) -> Vec<f64> {
    let before: Vec<u64> = groups.iter().map(|group| ran_ms(world, group)).collect();
    world.run_ms(ms);
    let ran = |(group, before): (&Vec<TaskId>, u64)| ran_ms(world, group) - before;
    groups.iter().zip(before).map(|pair| 100.0 * ran(pair) as f64 / ms as f64).collect()
}

#[track_caller]
fn assert_near(found: &[f64], due: &[f64], tolerance: f64) {
    let near = found.iter().zip(due).all(|(found, due)| (found - due).abs() <= tolerance);
    assert!(near && found.len() == due.len(), "{found:.2?}, expected {due:.2?}");
}

/// Point 3 of `caps.bpf.h`: in the long run a lone hog gets its cap within two points, and the CPU is idle for the
/// rest of the time. The same holds with the published constants of the presets.
#[test]
fn lone_hog_gets_its_hard_cap() {
    for spec in [SPEC, "entitlement@williams", "entitlement@share"] {
        for cap in [5, 50, 90] {
            let (mut world, groups) = hogs(spec, ONE, &[(May::Hard(cap), &[0])]);
            world.run_ms(30_000);
            assert_near(&percent(&mut world, &groups, 60_000), &[cap.into()], 2.0);
        }
    }
}

/// Point 1 of `caps.bpf.h`: a group without usage may exceed its cap at first: usage reaches a cap `c` after `h *
/// log2(1 / (1 - c))`. The run is shorter because the timer (point 4 of `caps.bpf.h`) parks the group early, allowing
/// for the decay until the next scan: `c * 10 ms * ln 2 / h`, while usage grows by `(1 - c) * ln 2 / h`.
#[test]
fn unused_group_may_exceed_its_cap_at_first() {
    for (cap, half_life_ms, half_lives) in [(20, 1_000, 0.3219), (50, 1_000, 1.0), (75, 1_000, 2.0), (50, 50_000, 1.0)]
    {
        let spec = format!("entitlement,half_life_ms={half_life_ms},slice_us=20000");
        let (mut world, groups) = hogs(&spec, ONE, &[(May::Hard(cap), &[0])]);
        while world.running(0) == groups[0][0] {
            world.run_ms(1);
        }
        let alone_ms = world.now_ns as f64 / MS as f64;
        let early_ms = 10.0 * f64::from(cap) / f64::from(100 - cap);
        let late_ms = alone_ms - f64::from(half_life_ms) * half_lives;
        assert!((-early_ms - 1.0..=2.0).contains(&late_ms), "{cap} %: {alone_ms} ms");
    }
}

/// Point 4 of `caps.bpf.h`: a parked hog at half a CPU runs and pauses for one or two scan intervals each. All its
/// CPU time is charged, so one interval more or less does not accumulate.
#[test]
fn periodic_scan_releases_parked_tasks() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(50), &[0])]);
    world.run_ms(5_000);
    world.switches.clear();
    world.run_ms(10_000);
    let turns = world.switches.iter().filter(|(_, task)| *task == groups[0][0]).count();
    assert!((400..=1000).contains(&turns), "{turns} turns in 10 s");
}

/// Point 2 of `caps.bpf.h`: a soft cap has no effect on an otherwise idle machine.
#[test]
fn soft_cap_applies_only_under_contention() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Soft(20), &[0]), (May::All, &[])]);
    assert_near(&percent(&mut world, &groups, 10_000), &[100.0, 0.0], 0.0);
    // Another task wants the CPU: the cap holds, whatever the shares.
    for (nice, other) in [(0, 0), (-20, 19)] {
        let (mut world, groups) = hogs(SPEC, ONE, &[(May::Soft(20), &[nice]), (May::All, &[other])]);
        world.run_ms(20_000);
        assert_near(&percent(&mut world, &groups, 60_000), &[20.0, 80.0], 2.0);
    }
    // A cap above the share has no effect.
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Soft(40), &[0]), (May::All, &[0, 0])]);
    world.run_ms(20_000);
    assert_near(&percent(&mut world, &groups, 60_000), &[33.3, 66.7], 1.0);
}

/// Point 2 of `caps.bpf.h`: a group with a soft cap of 0 runs in the background. While another task wants the CPU, it
/// gets only a slice of 1 ms every 10 s, and otherwise all the time left over.
#[test]
fn soft_cap_of_0_runs_in_the_background() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Soft(0), &[-20]), (May::All, &[19])]);
    world.run_ms(1_000);
    let found = percent(&mut world, &groups, 60_000);
    assert!(found[0] > 0.0 && found[0] <= 0.05, "{found:?}");
    let hog = groups[1][0];
    if world.running(0) != hog {
        world.run_ms(2);
    }
    world.block(hog);
    assert_eq!(world.running(0), groups[0][0]);
    let found = percent(&mut world, &groups, 1_000);
    assert_near(&found, &[100.0, 0.0], 0.0);
    world.wake(0, hog, false);
    assert_eq!(world.running(0), hog, "it preempts background tasks, though its usage per share is higher");
}

/// Point 4 of `caps.bpf.h`: a group is parked as soon as it reaches its hard cap, and background tasks are not
/// preempted for it any more. They run for their slices of 20 ms, not for a tick each.
#[test]
fn background_tasks_keep_their_slices_beside_a_hard_cap() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(30), &[0, 0]), (May::Soft(0), &[0, 0])]);
    world.run_ms(10_000);
    let (mut turns, mut before) = (0, world.running(0));
    for _ in 0..2_000 {
        world.run_ms(1);
        let now = world.running(0);
        turns += u32::from(now != before && [now, before].iter().all(|task| groups[1].contains(task)));
        before = now;
    }
    assert!(turns <= 1_400 / 20, "{turns} switches between background tasks");
}

/// Point 4 of `caps.bpf.h`: a scan affects only groups whose state changes. Two tasks without a cap alternate in 20
/// ms slices on their CPU, however often another group reaches its cap.
#[test]
fn uncapped_tasks_keep_their_slices_beside_a_hard_cap() {
    let (mut world, groups) = world_with(SPEC, "node:1 core:2 pu:1", &[May::Hard(30), May::All]);
    let attributes = [1, 0, 0].map(|cpu| world.pinned(cpu, 0)).to_vec();
    let tasks = world.start(attributes);
    world.place(&tasks[..1], groups[0]);
    world.place(&tasks[1..], groups[1]);
    world.run_ms(10_000);
    world.switches.clear();
    world.run_ms(2_000);
    let turns = |of: &[TaskId]| world.switches.iter().filter(|(_, task)| of.contains(task)).count();
    assert!(turns(&tasks[..1]) > 40, "the group keeps reaching its cap");
    assert!(turns(&tasks[1..]) <= 101, "{} turns", turns(&tasks[1..]));
}

/// Point 4 of `caps.bpf.h`: scans are exactly 10 ms apart, whichever groups reach their caps in between.
#[test]
fn cap_scans_are_10_ms_apart() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(50), &[0])]);
    world.run_ms(5_000);
    world.switches.clear();
    world.run_ms(10_000);
    let released = world.switches.iter().filter(|(_, task)| *task == groups[0][0]);
    let phases: BTreeSet<u64> = released.map(|(at, _)| at % (10 * MS)).collect();
    assert_eq!(phases.len(), 1, "{phases:?}");
}

/// Caps of several groups hold beside each other and beside a group without a cap.
#[test]
fn different_caps_hold_side_by_side() {
    let with: [(May, &[i8]); 3] = [(May::Hard(10), &[0, 0]), (May::Hard(30), &[0]), (May::All, &[0])];
    let (mut world, groups) = hogs(SPEC, ONE, &with);
    world.run_ms(20_000);
    assert_near(&percent(&mut world, &groups, 60_000), &[10.0, 30.0, 60.0], 2.0);
    let with: [(May, &[i8]); 3] = [(May::Soft(10), &[0]), (May::Soft(30), &[0]), (May::Hard(20), &[0])];
    let (mut world, groups) = hogs(SPEC, ONE, &with);
    world.run_ms(20_000);
    let found = percent(&mut world, &groups, 60_000);
    assert!(
        (found[2] - 20.0).abs() < 2.0 && found[0] + found[1] > 77.9,
        "the soft-capped groups get the rest: {found:.2?}"
    );
}

/// A cap applies to a group as a whole, however many CPUs and tasks it has, and may exceed one CPU.
#[test]
fn cap_applies_to_the_sum_over_all_cpus() {
    for (cap, members) in [(50, 4), (150, 3), (150, 40), (330, 8)] {
        let nice = vec![0; members];
        let (mut world, groups) = hogs(SPEC, "node:2 core:2 pu:1", &[(May::Hard(cap), &nice)]);
        world.run_ms(20_000);
        assert_near(&percent(&mut world, &groups, 20_000), &[cap.into()], 0.02 * f64::from(cap.max(100)));
    }
    let with: [(May, &[i8]); 2] = [(May::Soft(100), &[0, 0, 0]), (May::All, &[0, 0])];
    let (mut world, groups) = hogs(SPEC, "node:1 core:2 pu:1", &with);
    world.run_ms(20_000);
    assert_near(&percent(&mut world, &groups, 40_000), &[100.0, 100.0], 3.0);
}

/// Point 5 of `caps.bpf.h`: CPU time of nested cgroups counts for the outer one, and the outer cap applies to them.
#[test]
fn cap_applies_to_nested_cgroups() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::Hard(40)]);
    let attributes = vec![world.attributes(); 3];
    let tasks = world.start(attributes);
    let inner = ["x", "y"].map(|name| world.group(groups[0], name, 100));
    set_max(&mut world, inner[0], 10);
    world.place(&tasks[..1], inner[0]);
    world.place(&tasks[1..2], inner[1]);
    let all: Vec<Vec<TaskId>> = tasks.iter().map(|task| vec![*task]).collect();
    world.run_ms(20_000);
    assert_near(&percent(&mut world, &all, 60_000), &[10.0, 30.0, 60.0], 2.0);
}

/// Point 5 of `caps.bpf.h`: a cap applies three levels down.
#[test]
fn cap_applies_three_levels_down() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::Hard(40)]);
    let attributes = vec![world.attributes()];
    let hog = vec![world.start(attributes)];
    let inner = ["x", "y", "z"].iter().fold(groups[0], |group, name| world.group(group, name, 100));
    world.place(&hog[0], inner);
    world.run_ms(10_000);
    assert_near(&percent(&mut world, &hog, 20_000), &[40.0], 2.0);
}

/// A cgroup too deep for the table counts as its parent, and so do its tasks. Its own cap is ignored, and its removal
/// does not end the parent's cap.
#[test]
fn cgroup_below_the_deepest_level_counts_as_its_parent() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::All]);
    let attributes = vec![world.attributes()];
    let hog = vec![world.start(attributes)];
    let last = ["x", "y", "z"].iter().fold(groups[0], |group, name| world.group(group, name, 100));
    set_max(&mut world, last, 40);
    let below = world.group(last, "below", 100);
    set_max(&mut world, below, 90);
    world.place(&hog[0], below);
    world.run_ms(10_000);
    assert_near(&percent(&mut world, &hog, 20_000), &[40.0], 2.0);
    world.place(&hog[0], last);
    world.kernel.remove_cgroup(ids::CpuId(0), below).unwrap();
    world.settle();
    assert_near(&percent(&mut world, &hog, 20_000), &[40.0], 2.0);
}

/// A quota beyond any machine means no cap, even if the computed percentage would overflow 64 bits.
#[test]
fn quota_beyond_the_machine_is_no_cap() {
    let (mut world, hogs) = hogs(SPEC, ONE, &[(May::All, &[0])]);
    let group = world.group(CgroupId::ROOT, "vast", 100);
    world.place(&hogs[0], group);
    let quota_us = u64::MAX / 1_000_000 + 1;
    let knobs = CgroupKnobs { quota_us, period_us: PERIOD_US, ..CgroupKnobs::default() };
    world.kernel.set_cgroup(ids::CpuId(0), group, knobs);
    world.settle();
    assert_near(&percent(&mut world, &hogs, 3_000), &[100.0], 0.0);
}

/// Setting, raising and removing a cap while tasks run takes effect at once.
#[test]
fn cap_changes_take_effect_at_once() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::All]);
    let attributes = vec![world.attributes()];
    let hog = vec![world.start(attributes)];
    world.place(&hog[0], groups[0]);
    assert_near(&percent(&mut world, &hog, 3_000), &[100.0], 0.0);
    assert!(world.armed <= 5, "no scan timer without a cap");
    set_max(&mut world, groups[0], 25);
    world.run_ms(8_000);
    assert_near(&percent(&mut world, &hog, 20_000), &[25.0], 2.0);
    world.kernel.set_cgroup(ids::CpuId(0), groups[0], CgroupKnobs::default());
    world.settle();
    world.run_ms(20);
    assert_near(&percent(&mut world, &hog, 3_000), &[100.0], 0.0);
    set_max(&mut world, groups[0], 60);
    world.run_ms(8_000);
    assert_near(&percent(&mut world, &hog, 20_000), &[60.0], 2.0);
}

/// Kernels before 6.17 have no callback for `cpu.max`: there the caps from user space apply.
#[test]
fn hard_caps_from_user_space_apply_before_6_17() {
    let caps = vec![Cap { group: "told".to_owned(), percent: 30, hard: true }];
    let machine = Machine::from_synthetic(ONE).unwrap();
    let mut world = World::with_facts(SPEC, machine, (6, 12), &WorkloadFacts { caps, ..WorkloadFacts::default() });
    let attributes = vec![world.attributes()];
    let hog = vec![world.start(attributes)];
    let group = world.group(CgroupId::ROOT, "told", 100);
    world.place(&hog[0], group);
    world.run_ms(10_000);
    assert_near(&percent(&mut world, &hog, 30_000), &[30.0], 2.0);
}

/// User space can cap as many groups as a workload may have, each with a cap of its own and a name of maximum length.
/// A group without an entry is uncapped, even if the name of a capped group is a prefix of its name.
#[test]
fn thousand_groups_have_caps_from_user_space() {
    let name = |number: u32| format!("{number:0>31}");
    let cap = |number| Cap { group: name(number), percent: number % 7 * 10 + 20, hard: true };
    let caps: Vec<Cap> = (0..1000).map(cap).collect();
    let machine = Machine::from_synthetic("node:1 core:5 pu:1").unwrap();
    let mut world =
        World::with_facts(SPEC, machine, (6, 12), &WorkloadFacts { caps: caps.clone(), ..WorkloadFacts::default() });
    let attributes = vec![world.attributes(); 5];
    let tasks = world.start(attributes);
    let told = [0, 555, 999];
    let names = told.map(name).into_iter().chain([name(1000), name(0) + "0"]);
    let hogs: Vec<Vec<TaskId>> = tasks.iter().map(|task| vec![*task]).collect();
    for (name, hog) in names.zip(&hogs) {
        let group = world.group(CgroupId::ROOT, &name, 100);
        world.place(hog, group);
    }
    world.run_ms(10_000);
    let due = told.map(|number| f64::from(caps[number as usize].percent));
    assert_near(&percent(&mut world, &hogs, 20_000), &[due[0], due[1], due[2], 100.0, 100.0], 2.0);
}

/// Point 4 of `caps.bpf.h`: caps of other groups keep being enforced and released while one group's cap is changed
/// all the time.
#[test]
fn frequent_cap_changes_do_not_disturb_other_groups() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::Hard(50), May::Hard(10)]);
    let attributes = vec![world.attributes()];
    let hog = [world.start(attributes)];
    world.place(&hog[0], groups[0]);
    world.run_ms(5_000);
    let before = ran_ms(&world, &hog[0]);
    for change in 0..4_000 {
        set_max(&mut world, groups[1], 10 + change % 2);
        world.run_ms(5);
    }
    let found = (ran_ms(&world, &hog[0]) - before) as f64 / 200.0;
    assert_near(&[found], &[50.0], 2.0);
}

/// Point 4 of `caps.bpf.h`: the scan timer stops when the last capped group is removed: an idle machine is left idle.
#[test]
fn cap_scans_end_with_the_last_cap() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::Hard(50), May::Soft(30)]);
    let in_100_ms = |world: &mut World| {
        let before = world.armed;
        world.run_ms(100);
        world.armed - before
    };
    world.run_ms(110);
    assert!((9..=11).contains(&in_100_ms(&mut world)));
    world.kernel.remove_cgroup(ids::CpuId(0), groups[0]).unwrap();
    world.settle();
    assert!((9..=11).contains(&in_100_ms(&mut world)), "one group still has a cap");
    world.kernel.remove_cgroup(ids::CpuId(0), groups[1]).unwrap();
    world.settle();
    world.run_ms(10);
    assert_eq!(in_100_ms(&mut world), 0);
}

/// Unit test of the arithmetic of caps.
#[test]
fn cap_arithmetic_is_exact() {
    headers::run_header_test("caps");
}

/// A task that wakes into a group above its cap is parked though CPUs are idle; a task of another group runs at once.
#[test]
fn task_woken_above_its_cap_is_parked() {
    let (mut world, groups) = hogs(SPEC, "node:1 core:2 pu:1", &[(May::Hard(50), &[0, 0]), (May::All, &[0])]);
    for task in groups.concat() {
        while world.cpu_of(task).is_none() {
            world.run_ms(1);
        }
        world.block(task);
    }
    world.run_ms(20_000);
    world.wake(0, groups[0][0], false);
    while world.cpu_of(groups[0][0]).is_some() {
        world.run_ms(1);
    }
    world.wake(0, groups[0][1], false);
    assert_eq!([world.running(0), world.running(1)], [TaskId::NONE; 2]);
    world.wake(0, groups[1][0], false);
    assert!(world.cpu_of(groups[1][0]).is_some());
}

/// Once a group is above its cap, none of its queued tasks starts, not even for a tick.
#[test]
fn queued_tasks_above_the_cap_do_not_start() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(50), &[0; 6])]);
    while groups[0].contains(&world.running(0)) {
        world.run_ms(1);
    }
    let before = world.now_ns - 12 * MS;
    let late: Vec<_> = world.switches.iter().filter(|(at, _)| *at > before).collect();
    assert!(late.len() <= 1, "{late:?}, with slices of 20 ms");
}

/// Point 6 of `caps.bpf.h`: a task is parked for at most 11 s and one scan interval. With a usage of 90 % and a new
/// cap of 1 %, it would be parked for h * log2(90), 32 s, longer than the watchdog allows.
#[test]
fn task_is_parked_for_at_most_11_s() {
    let (mut world, groups) = world_with("entitlement@williams", ONE, &[May::Hard(90)]);
    let attributes = vec![world.attributes()];
    let hog = world.start(attributes)[0];
    world.place(&[hog], groups[0]);
    world.run_ms(60_000);
    set_max(&mut world, groups[0], 1);
    let (mut last, mut longest) = (world.now_ns, 0);
    let before = world.ran_ms(hog);
    for _ in 0..31_000 {
        if world.running(0) == hog {
            last = world.now_ns;
        }
        longest = longest.max(world.now_ns - last);
        world.run_ms(1);
    }
    assert!((9_000..11_100).contains(&(longest / MS)), "{longest} ns");
    assert!(world.ran_ms(hog) - before < 20, "turns of 1 ms only");
}
