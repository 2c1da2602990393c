// SPDX-License-Identifier: GPL-2.0-only
//! Checks of the kfunc table.

use crate::kfuncs::table::KFUNCS;
use crate::kfuncs::{find, groups, helper_nature, nature};
use crate::ops::Group;

#[test]
fn kfunc_table_is_sorted_without_duplicates() {
    for pair in KFUNCS.windows(2) {
        assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
    }
}

/// Prototypes from the headers of 7.2, without the hidden parameter: an independent copy of the parameter counts.
const PROTOTYPES: &str = "\
    __scx_bpf_dsq_insert_vtime(p, args) __scx_bpf_select_cpu_and(p, allowed, args) \
    bpf_cpumask_and(dst, a, b) bpf_cpumask_copy(dst, src) bpf_cpumask_create() bpf_cpumask_first_and(a, b) \
    bpf_cpumask_populate(dst, src, size) bpf_cpumask_release(mask) bpf_cpumask_test_cpu(cpu, mask) \
    bpf_iter_num_new(it, start, end) bpf_iter_scx_dsq_new(it, dsq, flags) bpf_iter_scx_dsq_next(it) \
    bpf_rcu_read_lock() bpf_task_from_pid(pid) scx_bpf_cpu_curr(cpu) scx_bpf_cpuperf_set(cpu, perf) \
    scx_bpf_create_dsq(dsq, node) scx_bpf_destroy_dsq(dsq) scx_bpf_dispatch_cancel() scx_bpf_dispatch_nr_slots() \
    scx_bpf_dsq_insert(p, dsq, slice, flags) scx_bpf_dsq_insert___v2(p, dsq, slice, flags) \
    scx_bpf_dsq_insert_vtime(p, dsq, slice, vtime, flags) scx_bpf_dsq_move(it, p, dsq, flags) \
    scx_bpf_dsq_move_set_slice(it, slice) scx_bpf_dsq_move_to_local(dsq) \
    scx_bpf_dsq_move_to_local___v2(dsq, flags) scx_bpf_dsq_nr_queued(dsq) scx_bpf_dsq_peek(dsq) \
    scx_bpf_dsq_reenq(dsq, flags) scx_bpf_dump_bstr(fmt, data, size) scx_bpf_error_bstr(fmt, data, size) \
    scx_bpf_events(events, size) scx_bpf_exit_bstr(code, fmt, data, size) scx_bpf_get_idle_cpumask() \
    scx_bpf_get_idle_cpumask_node(node) scx_bpf_kick_cpu(cpu, flags) scx_bpf_locked_rq() scx_bpf_now() \
    scx_bpf_pick_any_cpu(allowed, flags) scx_bpf_pick_idle_cpu_node(allowed, node, flags) scx_bpf_put_cpumask(mask) \
    scx_bpf_reenqueue_local() scx_bpf_reenqueue_local___v2() \
    scx_bpf_select_cpu_and(p, prev, wake, allowed, flags) scx_bpf_select_cpu_dfl(p, prev, wake, idle) \
    scx_bpf_task_cgroup(p) scx_bpf_task_set_slice(p, slice) scx_bpf_test_and_clear_cpu_idle(cpu) ";

#[test]
fn kfunc_parameter_counts_match_kernel_prototypes() {
    for prototype in PROTOTYPES.split_inclusive(')') {
        let (name, arguments) = prototype.trim().trim_end_matches(')').split_once('(').unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let count = arguments.split(',').filter(|argument| !argument.is_empty()).count() as u32;
        let found = find(name, count, (7, 2));
        assert_eq!(found.map(|kfunc| KFUNCS[kfunc as usize].name), Some(name), "{prototype}");
        assert_eq!(find(name, count + 1, (7, 2)), None, "{prototype}");
    }
}

#[test]
fn kfuncs_exist_in_the_right_kernel_versions() {
    let versions = |name, parameters| {
        [(6, 11), (6, 12), (6, 13), (6, 17), (6, 18), (6, 19), (7, 0), (7, 1), (7, 2)]
            .map(|version| if find(name, parameters, version).is_some() { 'x' } else { '-' })
            .iter()
            .collect::<String>()
    };
    assert_eq!(versions("scx_bpf_dispatch", 4), "-xxx-----");
    assert_eq!(versions("scx_bpf_dsq_insert", 4), "--xxxxxxx");
    assert_eq!(versions("scx_bpf_dsq_insert___v2", 4), "-----xxxx");
    assert_eq!(versions("scx_bpf_dsq_move_to_local___v2", 2), "-------xx");
    assert_eq!(versions("scx_bpf_cpu_curr", 1), "----xxxxx");
    assert_eq!(versions("scx_bpf_kick_cpu", 2), "-xxxxxxxx");
    assert_eq!(versions("scx_bpf_no_such_thing", 0), "---------");
}

#[test]
fn kfuncs_belong_to_the_groups_of_kernel_7_2() {
    let groups_of = |name, parameters| groups(find(name, parameters, (7, 2)).expect("in the table"));
    assert_eq!(groups_of("scx_bpf_dsq_insert___v2", 4), [Group::Enqueue]);
    assert_eq!(groups_of("scx_bpf_dsq_move", 4), [Group::Dispatch, Group::Unlocked]);
    assert_eq!(groups_of("scx_bpf_select_cpu_dfl", 4), [Group::Select, Group::Unlocked]);
    assert_eq!(groups_of("scx_bpf_create_dsq", 2), [Group::Unlocked]);
    assert_eq!(groups_of("scx_bpf_reenqueue_local", 0), [Group::Release]);
    assert_eq!(groups_of("scx_bpf_pick_idle_cpu", 2), [Group::Idle]);
    assert_eq!(groups_of("bpf_cpumask_create", 0), [Group::Any]);
}

#[test]
fn kfunc_cost_class_is_an_index_of_machine_model_nature() {
    let nature_of = |name, parameters| nature(find(name, parameters, (7, 2)).expect("in the table"));
    assert_eq!(nature_of("scx_bpf_task_cpu", 1), 0);
    assert_eq!(nature_of("scx_bpf_dsq_peek", 1), 1);
    assert_eq!(nature_of("scx_bpf_dsq_insert", 4), 2);
    assert_eq!(nature_of("bpf_cpumask_and", 3), 3);
    assert_eq!(nature_of("scx_bpf_kick_cpu", 2), 4);
    assert_eq!(nature_of("scx_bpf_now", 0), 5);
    assert_eq!([5, 1, 8].map(helper_nature), [5, 1, 0]);
}
