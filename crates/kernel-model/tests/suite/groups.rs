// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups, users and sessions of tasks (contract G1): which ops are called, in which order.

#[allow(dead_code)]
use crate::bench::{Bench, TICK, compiled, flat};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{CgroupId, CgroupKnobs, Identity, TaskAttributes};

const ROOT: CgroupId = CgroupId::ROOT;

fn with(defines: &[&str]) -> Bench {
    Bench::load(flat(2), &compiled("groups", defines)).expect("it loads")
}

fn attached(defines: &[&str]) -> Bench {
    let mut bench = with(defines);
    bench.attach();
    bench.printed.clear();
    bench
}

fn make(bench: &mut Bench, parent: CgroupId, name: &str) -> CgroupId {
    let made = bench.kernel.make_cgroup(CpuId(0), parent, name).expect("the scheduler accepts it");
    bench.settle();
    made
}

fn weight(bench: &mut Bench, cgroup: CgroupId, weight: u32) {
    bench.kernel.set_cgroup(CpuId(0), cgroup, CgroupKnobs { weight, ..CgroupKnobs::default() });
    bench.settle();
}

/// Forks a task outside of the model, without waking it.
fn new_task(bench: &mut Bench, name: &str, identity: Identity) -> TaskId {
    let attributes = TaskAttributes {
        name: name.into(),
        policy: Policy::Other,
        nice: 0,
        allowed: ids::CpuSet::first_n(2),
        kernel_thread: false,
        own_cpu: None,
        thread: false,
        parent: None,
        identity,
    };
    let task = bench.kernel.fork(CpuId(0), attributes).expect("the scheduler accepts it");
    bench.settle();
    task
}

fn printed(bench: &mut Bench) -> Vec<String> {
    std::mem::take(&mut bench.printed)
}

#[test]
fn g1_attach_inits_parents_first_and_disable_exits_children_first() {
    let mut bench = with(&[]);
    let a = make(&mut bench, ROOT, "a");
    let b = make(&mut bench, ROOT, "b");
    let x = make(&mut bench, a, "x");
    weight(&mut bench, x, 300);
    bench.kernel.set_cgroup(CpuId(0), b, CgroupKnobs { quota_us: 50_000, ..CgroupKnobs::default() });
    assert!(printed(&mut bench).is_empty(), "no scheduler is attached");
    bench.attach();
    let lines = printed(&mut bench);
    let expected = [
        "init , weight 100, quota -1",
        "init a, weight 100, quota -1",
        "init x, weight 300, quota -1",
        "init b, weight 100, quota 50000",
    ];
    assert_eq!(lines, expected);
    bench.kernel.detach(CpuId(0));
    bench.settle();
    assert_eq!(printed(&mut bench), ["exit x", "exit a", "exit b", "exit "]);
}

#[test]
fn g1_later_cgroup_creation_and_removal_call_init_and_exit() {
    let mut bench = attached(&["REFUSE_INIT=\"n\""]);
    let a = make(&mut bench, ROOT, "a");
    let x = make(&mut bench, a, "x");
    assert_eq!(bench.kernel.make_cgroup(CpuId(0), a, "no"), Err(-12));
    assert_eq!(bench.kernel.remove_cgroup(CpuId(0), a), Err(-16), "x is in it");
    assert_eq!(bench.kernel.remove_cgroup(CpuId(0), x), Ok(()));
    let task = new_task(&mut bench, "t", Identity { cgroup: Some(a), ..Identity::default() });
    assert_eq!(bench.kernel.remove_cgroup(CpuId(0), a), Err(-16), "a task is in it");
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    bench.leave(task, kernel_model::Leave::Exit);
    assert_eq!(bench.kernel.remove_cgroup(CpuId(0), a), Ok(()), "exited tasks do not count");
    bench.settle();
    let lines = printed(&mut bench);
    let expected = [
        "init a, weight 100, quota -1",
        "init x, weight 100, quota -1",
        "init no, weight 100, quota -1",
        "exit x",
        "t of user 0, session 0",
        "t is born in a, level 1",
        "t ends, of user 0",
        "exit a",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn g1_failed_cgroup_init_at_attach_exits_only_initialized_cgroups() {
    let mut bench = with(&["REFUSE_INIT=\"b\""]);
    for name in ["a", "b", "c"] {
        make(&mut bench, ROOT, name);
    }
    bench.kernel.attach(CpuId(0)).expect("the error is reported later");
    bench.settle();
    assert_eq!(bench.error(), (1024, "ops.cgroup_init() failed (-12)"));
    let lines = printed(&mut bench);
    let names: Vec<&str> = lines.iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(names, ["init ", "init a", "init b", "exit a", "exit "]);
}

#[test]
fn g1_weight_and_bandwidth_ops_are_called_on_change_only() {
    let mut bench = attached(&[]);
    let a = make(&mut bench, ROOT, "a");
    printed(&mut bench);
    weight(&mut bench, a, 100);
    weight(&mut bench, a, 300);
    weight(&mut bench, a, 300);
    bench.kernel.set_cgroup(CpuId(0), a, CgroupKnobs { weight: 300, quota_us: 70_000, ..CgroupKnobs::default() });
    bench.kernel.set_cgroup(
        CpuId(0),
        a,
        CgroupKnobs { weight: 300, quota_us: 70_000, idle: true, ..CgroupKnobs::default() },
    );
    bench.settle();
    assert_eq!(printed(&mut bench), ["weight of a: 300", "a gets 70000 us in 100000", "a idle: 1"]);
    // The next scheduler gets the current values.
    bench.kernel.detach(CpuId(0));
    bench.settle();
    printed(&mut bench);
    bench.restart();
    assert!(printed(&mut bench).contains(&"init a, weight 300, quota 70000".to_owned()));
}

#[test]
fn g1_cgroup_move_is_called_between_quiescent_and_runnable() {
    let mut bench = attached(&["CHANGES"]);
    let [a, b] = ["a", "b"].map(|name| make(&mut bench, ROOT, name));
    let identity = Identity { cgroup: Some(a), ..Identity::default() };
    let [hog, waiter, sleeper] = ["h", "w", "s"].map(|name| new_task(&mut bench, name, identity));
    for task in [sleeper, hog, waiter] {
        bench.kernel.set_affinity(CpuId(0), task, &"0".parse().unwrap()).unwrap();
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        if task == sleeper {
            bench.block(task);
        }
    }
    printed(&mut bench);
    bench.rescheds.clear();
    bench.kernel.move_to_cgroup(CpuId(1), &[hog, waiter, sleeper], b).expect("the scheduler accepts it");
    bench.collect();
    assert_eq!(bench.rescheds, [0], "the CPU of the running task reschedules");
    let expected = [
        "h may go from a to b",
        "w may go from a to b",
        "s may go from a to b",
        "h quiescent",
        "h goes from a to b",
        "h runnable",
        "w quiescent",
        "w goes from a to b",
        "w runnable",
        "s goes from a to b",
    ];
    assert_eq!(printed(&mut bench), expected);
    assert_eq!(bench.variable("last_cgroup"), 3, "in cgroup_move the task is in the new cgroup already");
    bench.kernel.move_to_cgroup(CpuId(1), &[hog, sleeper], b).expect("nothing to move");
    bench.settle();
    assert!(printed(&mut bench).is_empty(), "both tasks are in the cgroup already");
    bench.run(&[0], TICK);
    bench.kernel.check();
}

#[test]
fn g1_refused_prep_move_cancels_the_earlier_tasks() {
    let mut bench = attached(&["REFUSE_MOVE=\"n\""]);
    let a = make(&mut bench, ROOT, "a");
    let tasks = ["t", "u", "n", "v"].map(|name| new_task(&mut bench, name, Identity::default()));
    printed(&mut bench);
    assert_eq!(bench.kernel.move_to_cgroup(CpuId(0), &tasks, a), Err(-13));
    bench.settle();
    let expected = [
        "t may go from  to a",
        "u may go from  to a",
        "n may go from  to a",
        "t stays in  instead of a",
        "u stays in  instead of a",
    ];
    assert_eq!(printed(&mut bench), expected);
    assert_eq!(bench.kernel.remove_cgroup(CpuId(0), a), Ok(()), "no task was moved");
}

#[test]
fn g1_new_task_inherits_cgroup_user_and_session_of_its_parent() {
    let mut bench = attached(&[]);
    let a = make(&mut bench, ROOT, "a");
    let x = make(&mut bench, a, "x");
    weight(&mut bench, x, 250);
    let parent =
        new_task(&mut bench, "p", Identity { cgroup: Some(x), uid: Some(1001), session: Some(77), process: None });
    bench.kernel.wake_new(CpuId(0), parent);
    bench.settle();
    assert_eq!((bench.variable("last_cgroup"), bench.variable("found") as u32), (3, 3));
    assert_eq!(bench.variable("last_weight") as u32, 250, "the cgroup storage has the weight");
    let child = |identity| TaskAttributes {
        name: "c".into(),
        policy: Policy::Other,
        nice: 0,
        allowed: ids::CpuSet::first_n(2),
        kernel_thread: false,
        own_cpu: None,
        thread: false,
        parent: Some(parent),
        identity,
    };
    printed(&mut bench);
    bench.kernel.fork(CpuId(0), child(Identity::default())).unwrap();
    let other = Identity { uid: Some(5), session: Some(6), cgroup: Some(ROOT), process: None };
    bench.kernel.fork(CpuId(0), child(other)).unwrap();
    bench.settle();
    let expected =
        ["c of user 1001, session 77", "c is born in x, level 2", "c of user 5, session 6", "c is born in , level 0"];
    assert_eq!(printed(&mut bench), expected);
    assert_eq!(bench.numbers("enqueued", 8)[..3], [0, 0, 1]);
    bench.kernel.set_user(parent, 1002);
    bench.leave(parent, kernel_model::Leave::Exit);
    assert_eq!(printed(&mut bench), ["p ends, of user 1002"]);
}

#[test]
fn tasks_move_between_cgroups_without_cgroup_ops() {
    let mut bench = Bench::probe(1, &["OP_ENQUEUE", "OP_DISPATCH"]);
    let a = make(&mut bench, ROOT, "a");
    let task = bench.task("t", "");
    bench.kernel.move_to_cgroup(CpuId(0), &[task], a).expect("the scheduler accepts it");
    assert_eq!(bench.kernel.remove_cgroup(CpuId(0), a), Err(-16));
    bench.wake(task);
    bench.kernel.check();
    assert!(bench.kernel.exit_info().is_none());
}
