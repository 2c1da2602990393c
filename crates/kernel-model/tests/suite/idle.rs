// SPDX-License-Identifier: GPL-2.0-only
//! Built-in idle tracking and idle CPU searches: rules I1 to I5 and C2 of the contract.

#[allow(dead_code)]
use crate::bench;

use bench::{Bench, flat};
use ids::{CpuId, Policy, TaskId, Topology};

const DEFAULT: &str = "ON_SELECT=s32 c=scx_bpf_select_cpu_dfl(p,prev_cpu,wake_flags,&idle);\
                       counter=idle;if(idle)dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);return c;";
const OPS: [&str; 4] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN"];

fn bench(topology: Topology, more: &[&str]) -> Bench {
    let defines: Vec<&str> = OPS.iter().chain(more).copied().collect();
    let mut bench = Bench::load(topology, &bench::probe(&defines)).unwrap();
    bench.attach();
    bench.log();
    bench
}

/// Starts a task that runs on this CPU until the end of the test.
fn occupy(bench: &mut Bench, cpu: u32) -> TaskId {
    let task = bench.task_with(&format!("busy{cpu}"), &cpu.to_string(), Policy::Other, 0);
    bench.wake(task);
    assert_eq!(bench.kernel.current(CpuId(cpu)), task);
    task
}

/// Three nodes of one core with two CPUs each; node 2 is nearer to node 0 than node 1 is.
fn three_nodes() -> Topology {
    let groups = [0, 0, 1, 1, 2, 2];
    let distances = vec![vec![10, 30, 20], vec![30, 10, 20], vec![20, 20, 10]];
    Topology::of_groups(&groups, &groups, &groups).with_distances(distances)
}

#[test]
fn i4_sync_wakeup_keeps_an_idle_prev_in_the_wakers_llc() {
    let mut bench = bench(flat(4), &[DEFAULT]);
    let task = bench.task("a", "");
    occupy(&mut bench, 1);
    bench.wake_from(1, task, true);
    assert_eq!((bench.kernel.task_cpu(task), bench.variable("counter")), (CpuId(0), 1));
}

#[test]
fn i4_sync_wakeup_claims_the_wakers_cpu() {
    for waker_runs in [true, false] {
        let mut bench = bench(flat(4), &[DEFAULT]);
        let task = bench.task("a", "");
        occupy(&mut bench, 0);
        if waker_runs {
            occupy(&mut bench, 1);
        }
        bench.kernel.wake(CpuId(1), task, event_log::Waker::Interrupt, true);
        assert_eq!(bench.kernel.task_cpu(task), CpuId(1), "an interrupt on an idle CPU is a waker too");
        assert!(!bench.kernel.idle_cpus().contains(CpuId(1)), "CPU 1 is claimed");
    }
}

#[test]
fn i4_sync_wakeup_needs_an_empty_local_queue_and_an_idle_cpu() {
    let mut first = bench(flat(3), &[DEFAULT, "ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);"]);
    let (task, waiting) = (first.task("a", ""), first.task("waiting", "1"));
    occupy(&mut first, 0);
    occupy(&mut first, 1);
    first.wake(waiting);
    first.wake_from(1, task, true);
    assert_eq!(first.kernel.task_cpu(task), CpuId(2), "the waker's local queue is not empty");

    let mut full = bench(flat(2), &[DEFAULT]);
    let task = full.task("a", "");
    occupy(&mut full, 0);
    occupy(&mut full, 1);
    full.wake_from(1, task, true);
    assert_eq!(
        (full.kernel.task_cpu(task), full.variable("counter")),
        (CpuId(0), 0),
        "without an idle CPU prev is returned"
    );
}

#[test]
fn i4_idle_sibling_of_prev_comes_before_the_rest_of_the_llc() {
    let topology = Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4]);
    let mut bench = bench(topology, &[DEFAULT]);
    let task = bench.task("a", "");
    occupy(&mut bench, 0);
    occupy(&mut bench, 2);
    bench.wake(task);
    assert_eq!(bench.kernel.task_cpu(task), CpuId(1), "no core is fully idle; CPU 1 is the sibling of prev");
}

#[test]
fn i4_per_node_masks_are_searched_by_distance() {
    let mut bench = bench(three_nodes(), &[DEFAULT, "FLAGS=64"]);
    let task = bench.task("a", "");
    occupy(&mut bench, 0);
    occupy(&mut bench, 1);
    bench.wake(task);
    assert_eq!(bench.kernel.task_cpu(task).0 / 2, 2, "node 2 is nearer than node 1");
}

#[test]
fn i3_pick_idle_cpu_node_walks_nodes_by_distance_unless_in_node() {
    let pick = |flags: u32| {
        format!(
            "ON_SELECT=s32 c=scx_bpf_pick_idle_cpu_node(p->cpus_ptr,0,{flags});counter=(s64)c;return c<0?prev_cpu:c;"
        )
    };
    for (flags, expected) in [(0, 4), (2, -16)] {
        let mut bench = bench(three_nodes(), &[&pick(flags), "FLAGS=64"]);
        let task = bench.task("a", "");
        occupy(&mut bench, 0);
        occupy(&mut bench, 1);
        bench.wake(task);
        assert_eq!(bench.variable("counter") as i64, expected, "flags {flags}");
    }
}

#[test]
fn i3_idle_kfunc_of_the_wrong_mask_kind_is_an_error() {
    let flat_form = "ON_SELECT=return scx_bpf_pick_idle_cpu(p->cpus_ptr,0);";
    let node_form = "ON_SELECT=return scx_bpf_pick_idle_cpu_node(p->cpus_ptr,0,0);";
    let wrong_node = "ON_SELECT=return scx_bpf_pick_idle_cpu_node(p->cpus_ptr,9,0);";
    for (select, flags, message) in [
        (flat_form, "FLAGS=64", "per-node idle tracking is enabled"),
        (node_form, "FLAGS=0", "per-node idle tracking is disabled"),
        (wrong_node, "FLAGS=64", "invalid node 9"),
    ] {
        let mut bench = bench(three_nodes(), &[select, flags]);
        let task = bench.fork("a", "", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        assert_eq!(bench.error(), (1024, message));
    }
}

#[test]
fn i3_node_number_without_a_node_is_an_error() {
    let select = "ON_SELECT=return scx_bpf_pick_idle_cpu_node(p->cpus_ptr,1,0);";
    let mut topology = Topology::of_groups(&[0, 1], &[0, 1], &[0, 8]);
    topology.absent_nodes = (1..8).collect();
    let mut bench = bench(topology, &[select, "FLAGS=64"]);
    let task = bench.fork("a", "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    assert_eq!(bench.error(), (1024, "unavailable node 1"));
}

#[test]
fn i4_idle_search_for_a_pinned_task_tests_only_prev() {
    let enqueue = "ON_ENQUEUE=s32 c=scx_bpf_select_cpu_dfl(p,counter,0,&idle);counter=10+c+100*idle;dsq_insert(p,SHARED,SCX_SLICE_DFL,0);";
    for (prev, found) in [(1, 111), (0, 10)] {
        let enqueue = format!(
            "{};",
            enqueue.replace("(p,counter", &format!("(p,{prev}")).replace("ENQUEUE=", "ENQUEUE=bool idle;")
        );
        let mut bench = bench(flat(2), &[&enqueue]);
        let task = bench.fork("a", "1", Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        assert_eq!(bench.variable("counter"), found, "prev {prev}");
    }
}

#[test]
fn c2_idle_search_for_another_task_is_an_error() {
    let ask = "struct task_struct*o=bpf_task_from_pid(100);if(o){bool i;scx_bpf_select_cpu_dfl(o,0,0,&i);bpf_task_release(o);}";
    for (op, message) in [
        (format!("ON_SELECT={ask}return prev_cpu;"), "called on a task not being operated on"),
        (format!("ON_ENQUEUE={ask}"), "select_cpu kfunc called cross-task on other[100]"),
    ] {
        let mut bench = bench(flat(2), &[&op]);
        bench.fork("other", "", Policy::Other, 0);
        let task = bench.fork("a", if op.starts_with("ON_SELECT") { "" } else { "1" }, Policy::Other, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        assert_eq!(bench.error(), (1024, message));
    }
}

#[test]
fn i1_core_is_idle_only_while_all_its_cpus_are() {
    let select = "ON_SELECT=const struct cpumask*m=scx_bpf_get_idle_smtmask();counter=m->bits[0];scx_bpf_put_idle_cpumask(m);return prev_cpu;";
    let topology = Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4]);
    let mut bench = bench(topology, &[select]);
    let task = bench.task("a", "");
    assert_eq!(bench.variable("counter"), 0xf);
    let busy = occupy(&mut bench, 3);
    bench.wake(task);
    assert_eq!(bench.variable("counter"), 0x3, "one CPU is busy, so the core is not idle");
    bench.block(task);
    bench.block(busy);
    bench.wake(task);
    assert_eq!(bench.variable("counter"), 0xf);
}

#[test]
fn i3_each_calling_cpu_has_its_own_search_cursor() {
    let mut bench = bench(flat(8), &["ON_SELECT=s32 c=scx_bpf_pick_any_cpu(p->cpus_ptr,0);return c<0?prev_cpu:c;"]);
    let tasks: Vec<TaskId> = (0..4).map(|n| bench.task(&format!("t{n}"), "")).collect();
    let mut chosen = Vec::new();
    for (&task, waker) in tasks.iter().zip([6, 6, 7, 6]) {
        bench.wake_from(waker, task, false);
        chosen.push(bench.kernel.task_cpu(task).0);
    }
    assert_eq!(chosen, [1, 2, 3, 4], "CPU 7 has a cursor of its own at 0, but CPUs 1 and 2 are busy by then");
    for &task in &tasks {
        bench.block(task);
    }
    bench.wake_from(7, tasks[0], false);
    assert_eq!(bench.kernel.task_cpu(tasks[0]).0, 4, "the CPU after 3, which CPU 7 chose last");
}

#[test]
fn i4_in_node_keeps_a_sync_wakeup_in_the_node_of_prev() {
    for (flags, expected) in [(0, 2), (2, 1)] {
        let select = format!(
            "ON_SELECT=s32 c=scx_bpf_select_cpu_and(p,prev_cpu,wake_flags,p->cpus_ptr,{flags});return c<0?prev_cpu:c;"
        );
        let mut bench = bench(three_nodes(), &[&select, "FLAGS=64"]);
        let task = bench.task("a", "");
        occupy(&mut bench, 0);
        bench.wake_from(2, task, true);
        assert_eq!(bench.kernel.task_cpu(task), CpuId(expected), "flags {flags}: the waker is on node 1");
    }
}

/// An unmodelled context holds CPU 0, so no task is placed there. Afterwards the CPU idles or runs a waiting task, as
/// after any task (contract P7).
#[test]
fn p7_cpu_held_by_an_unmodelled_context_is_not_idle() {
    let more = [DEFAULT, "OP_UPDATE_IDLE", "FLAGS=1"];
    let mut bench = bench(flat(2), &more);
    let [free, pinned] = [("free", ""), ("pinned", "0")].map(|(name, cpus)| bench.task(name, cpus));
    bench.log();
    bench.kernel.occupy(CpuId(0));
    bench.kernel.occupy(CpuId(0));
    assert_eq!(bench.line(), "update_idle:0:-");
    assert_eq!(bench.kernel.idle_cpus(), &"1".parse().unwrap());
    bench.kernel.wake(CpuId(0), free, event_log::Waker::External, false);
    assert_eq!(bench.kernel.task_cpu(free), CpuId(1), "not CPU 0, its previous CPU");
    bench.log();
    bench.settle();
    let line = bench.line();
    assert!(line.contains("update_idle:0:-(0x0,0x1)"), "{line}");

    bench.kernel.occupy(CpuId(0));
    bench.log();
    bench.kernel.wake(CpuId(0), pinned, event_log::Waker::External, false);
    bench.settle();
    assert_eq!(bench.kernel.current(CpuId(0)), pinned);
    let line = bench.line();
    assert!(!line.contains("update_idle:0"), "CPU 0 was not idle in between: {line}");
    bench.kernel.check();
}
