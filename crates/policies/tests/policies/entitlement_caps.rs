// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/entitlement` about caps (policies/entitlement/caps.bpf.h). Half-lives are 1 s here unless a test
//! says otherwise. What is expected are Weir's own computations, not published figures.

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

/// What a group may have.
#[derive(Clone, Copy)]
enum May {
    Hard(u32),
    Soft(u32),
    All,
}

/// A policy whose user space knows the caps of g0, g1 and so on, and those cgroups: hard caps are `cpu.max` of theirs.
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
    let mut world = World::told(spec, machine, (7, 2), &WorkloadFacts { caps, ..WorkloadFacts::default() });
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

/// The same with so many hogs in each group, of these nice values.
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

/// Percent of a CPU that each group has in the next `ms`.
fn percent(world: &mut World, groups: &[Vec<TaskId>], ms: u64) -> Vec<f64> {
    let before: Vec<u64> = groups.iter().map(|group| ran_ms(world, group)).collect();
    world.run_ms(ms);
    let ran = |(group, before): (&Vec<TaskId>, u64)| ran_ms(world, group) - before;
    groups.iter().zip(before).map(|pair| 100.0 * ran(pair) as f64 / ms as f64).collect()
}

#[track_caller]
fn assert_near(found: &[f64], due: &[f64], tolerance: f64) {
    let near = found.iter().zip(due).all(|(found, due)| (found - due).abs() <= tolerance);
    assert!(near && found.len() == due.len(), "{found:.2?}, not {due:.2?}");
}

/// Theory 3, facts 2.2: in the long run a lone hog has its cap, within two points; the CPU idles for the rest. So it does by
/// the published constants.
#[test]
fn a_lone_hog_has_its_hard_cap() {
    for spec in [SPEC, "entitlement@williams", "entitlement@share"] {
        for cap in [5, 50, 90] {
            let (mut world, groups) = hogs(spec, ONE, &[(May::Hard(cap), &[0])]);
            world.run_ms(30_000);
            assert_near(&percent(&mut world, &groups, 60_000), &[cap.into()], 2.0);
        }
    }
}

/// Theory 1: who has had nothing before has more first: from no usage to a cap c takes h * log2(1 / (1 - c)). It is less by
/// what theory 4 takes it for more between two looks: a decay of c * 10 ms * ln 2 / h, while usage grows by (1 - c) * ln 2 / h.
#[test]
fn who_has_had_less_may_have_more_for_a_while() {
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

/// Theory 4: turns of a parked hog at half a CPU are looks long, and so are its breaks. It is charged for all of them: a look
/// more or less is no drift.
#[test]
fn looks_release_who_is_parked() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(50), &[0])]);
    world.run_ms(5_000);
    world.began.clear();
    world.run_ms(10_000);
    let turns = world.began.iter().filter(|(_, task)| *task == groups[0][0]).count();
    assert!((400..=1000).contains(&turns), "{turns} turns in 10 s");
}

/// Theory 2: a soft cap is none on an idle machine.
#[test]
fn a_soft_cap_is_for_when_somebody_else_wants_the_cpu() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Soft(20), &[0]), (May::All, &[])]);
    assert_near(&percent(&mut world, &groups, 10_000), &[100.0, 0.0], 0.0);
    // Somebody else wants it: the cap, whatever the shares say.
    for (nice, other) in [(0, 0), (-20, 19)] {
        let (mut world, groups) = hogs(SPEC, ONE, &[(May::Soft(20), &[nice]), (May::All, &[other])]);
        world.run_ms(20_000);
        assert_near(&percent(&mut world, &groups, 60_000), &[20.0, 80.0], 2.0);
    }
    // A cap above what is due by shares changes nothing.
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Soft(40), &[0]), (May::All, &[0, 0])]);
    world.run_ms(20_000);
    assert_near(&percent(&mut world, &groups, 60_000), &[33.3, 66.7], 1.0);
}

/// Theory 2: a soft cap of 0 is background: nothing while somebody else wants the CPU but a turn of 1 ms in 10 s, and all of
/// what is left over.
#[test]
fn background_has_what_nobody_wants() {
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
    assert_eq!(world.running(0), hog, "it interrupts, though it has had more for its shares");
}

/// Theory 4: who has come to a hard cap is parked at once, and so is nobody for whom those in the background make way. They
/// have their slices of 20 ms, and not a tick each.
#[test]
fn background_keeps_its_slices_beside_a_hard_cap() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(30), &[0, 0]), (May::Soft(0), &[0, 0])]);
    world.run_ms(10_000);
    let (mut turns, mut before) = (0, world.running(0));
    for _ in 0..2_000 {
        world.run_ms(1);
        let now = world.running(0);
        turns += u32::from(now != before && [now, before].iter().all(|task| groups[1].contains(task)));
        before = now;
    }
    assert!(turns <= 1_400 / 20, "{turns} turns follow each other in the background");
}

/// Theory 4: a look is for those whose caps changed. Two tasks without a cap take turns of 20 ms on a CPU of their own, however
/// often another group comes to its cap.
#[test]
fn others_keep_their_slices_beside_a_hard_cap() {
    let (mut world, groups) = world_with(SPEC, "node:1 core:2 pu:1", &[May::Hard(30), May::All]);
    let attributes = [1, 0, 0].map(|cpu| world.pinned(cpu, 0)).to_vec();
    let tasks = world.start(attributes);
    world.place(&tasks[..1], groups[0]);
    world.place(&tasks[1..], groups[1]);
    world.run_ms(10_000);
    world.began.clear();
    world.run_ms(2_000);
    let turns = |of: &[TaskId]| world.began.iter().filter(|(_, task)| of.contains(task)).count();
    assert!(turns(&tasks[..1]) > 40, "it comes to its cap again and again");
    assert!(turns(&tasks[1..]) <= 101, "{} turns", turns(&tasks[1..]));
}

/// Theory 4: looks are 10 ms apart, to the nanosecond, whoever comes to a cap between two of them.
#[test]
fn looks_are_10_ms_apart() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(50), &[0])]);
    world.run_ms(5_000);
    world.began.clear();
    world.run_ms(10_000);
    let released = world.began.iter().filter(|(_, task)| *task == groups[0][0]);
    let phases: BTreeSet<u64> = released.map(|(at, _)| at % (10 * MS)).collect();
    assert_eq!(phases.len(), 1, "{phases:?}");
}

/// Caps of several groups hold beside each other and beside who has none.
#[test]
fn unequal_caps_hold_side_by_side() {
    let with: [(May, &[i8]); 3] = [(May::Hard(10), &[0, 0]), (May::Hard(30), &[0]), (May::All, &[0])];
    let (mut world, groups) = hogs(SPEC, ONE, &with);
    world.run_ms(20_000);
    assert_near(&percent(&mut world, &groups, 60_000), &[10.0, 30.0, 60.0], 2.0);
    let with: [(May, &[i8]); 3] = [(May::Soft(10), &[0]), (May::Soft(30), &[0]), (May::Hard(20), &[0])];
    let (mut world, groups) = hogs(SPEC, ONE, &with);
    world.run_ms(20_000);
    let found = percent(&mut world, &groups, 60_000);
    assert!((found[2] - 20.0).abs() < 2.0 && found[0] + found[1] > 77.9, "what is left is theirs: {found:.2?}");
}

/// A cap is of a group, however many CPUs and tasks it has, and may be more than a CPU.
#[test]
fn a_cap_counts_all_cpus() {
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

/// Theory 5: what is within counts for the group around it, and its cap holds there.
#[test]
fn a_cap_holds_for_what_is_within() {
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

/// Theory 5: a cap holds for what is three levels within.
#[test]
fn a_cap_holds_for_what_is_deep_within() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::Hard(40)]);
    let attributes = vec![world.attributes()];
    let hog = vec![world.start(attributes)];
    let inner = ["x", "y", "z"].iter().fold(groups[0], |group, name| world.group(group, name, 100));
    world.place(&hog[0], inner);
    world.run_ms(10_000);
    assert_near(&percent(&mut world, &hog, 20_000), &[40.0], 2.0);
}

/// A cgroup for which there is no room is of the one around it, and so are its tasks. No cap of its own is set there, and none
/// ends with it.
#[test]
fn a_cgroup_without_room_sets_and_ends_no_cap() {
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

/// More time in a period than any machine has is no cap, were it so much that it is small again in 64 bits.
#[test]
fn more_than_a_machine_has_is_no_cap() {
    let (mut world, hogs) = hogs(SPEC, ONE, &[(May::All, &[0])]);
    let group = world.group(CgroupId::ROOT, "vast", 100);
    world.place(&hogs[0], group);
    let quota_us = u64::MAX / 1_000_000 + 1;
    let knobs = CgroupKnobs { quota_us, period_us: PERIOD_US, ..CgroupKnobs::default() };
    world.kernel.set_cgroup(ids::CpuId(0), group, knobs);
    world.settle();
    assert_near(&percent(&mut world, &hogs, 3_000), &[100.0], 0.0);
}

/// A cap that is set while tasks run holds from then on, and so does one that is lifted.
#[test]
fn caps_come_and_go() {
    let (mut world, groups) = world_with(SPEC, ONE, &[May::All]);
    let attributes = vec![world.attributes()];
    let hog = vec![world.start(attributes)];
    world.place(&hog[0], groups[0]);
    assert_near(&percent(&mut world, &hog, 3_000), &[100.0], 0.0);
    assert!(world.armed <= 5, "nobody looks before there is a cap");
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

/// Kernels before 6.17 tell nobody of `cpu.max`: what user space says holds there.
#[test]
fn user_space_tells_hard_caps_as_well() {
    let caps = vec![Cap { group: "told".to_owned(), percent: 30, hard: true }];
    let machine = Machine::from_synthetic(ONE).unwrap();
    let mut world = World::told(SPEC, machine, (6, 12), &WorkloadFacts { caps, ..WorkloadFacts::default() });
    let attributes = vec![world.attributes()];
    let hog = vec![world.start(attributes)];
    let group = world.group(CgroupId::ROOT, "told", 100);
    world.place(&hog[0], group);
    world.run_ms(10_000);
    assert_near(&percent(&mut world, &hog, 30_000), &[30.0], 2.0);
}

/// As many groups as a workload can have are told, by names as long as they may be, and each has its own cap; groups that
/// nobody spoke of have none, even if the name begins like one.
#[test]
fn every_group_that_is_told_has_its_cap() {
    let name = |number: u32| format!("{number:0>31}");
    let cap = |number| Cap { group: name(number), percent: number % 7 * 10 + 20, hard: true };
    let caps: Vec<Cap> = (0..1000).map(cap).collect();
    let machine = Machine::from_synthetic("node:1 core:5 pu:1").unwrap();
    let mut world =
        World::told(SPEC, machine, (6, 12), &WorkloadFacts { caps: caps.clone(), ..WorkloadFacts::default() });
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

/// Theory 4: other groups' caps hold, and let go, as before while somebody changes one of a group again and again.
#[test]
fn a_cap_that_changes_often_leaves_others_alone() {
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

/// Theory 4: nobody looks at caps any more when the last group that had one is gone: a machine that idles is left alone.
#[test]
fn looks_end_with_the_last_cap() {
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
    assert!((9..=11).contains(&in_100_ms(&mut world)), "one has a cap still");
    world.kernel.remove_cgroup(ids::CpuId(0), groups[1]).unwrap();
    world.settle();
    world.run_ms(10);
    assert_eq!(in_100_ms(&mut world), 0);
}

/// The arithmetic of caps, number by number.
#[test]
fn caps_are_exact() {
    headers::holds("caps");
}

/// A task that wakes into a group above its cap is parked, though CPUs idle, and somebody else has one at once.
#[test]
fn who_wakes_above_the_cap_is_parked() {
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

/// Nobody of a group begins any more once it is above its cap, wherever they wait: not even for a tick.
#[test]
fn who_waits_in_line_is_passed_over_above_the_cap() {
    let (mut world, groups) = hogs(SPEC, ONE, &[(May::Hard(50), &[0; 6])]);
    while groups[0].contains(&world.running(0)) {
        world.run_ms(1);
    }
    let before = world.now_ns - 12 * MS;
    let late: Vec<_> = world.began.iter().filter(|(at, _)| *at > before).collect();
    assert!(late.len() <= 1, "{late:?}, and turns are 20 ms long");
}

/// Theory 6: nobody is parked for longer than 11 s and a look: who has had 90 % and gets a cap of 1 % comes down to that
/// after h * log2(90), 32 s. The watchdog would not wait for that.
#[test]
fn nobody_is_parked_until_the_watchdog_comes() {
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
    assert!(world.ran_ms(hog) - before < 20, "turns are short");
}
