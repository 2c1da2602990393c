// SPDX-License-Identifier: GPL-2.0-only
//! Kfuncs and helpers called against a core.

use super::{Bench, is_bad_argument};
use crate::ops::Op;
use bpf_machine::FaultKind;
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};

const ENOENT: u64 = -2i32 as u32 as u64;
const EPERM: u64 = -1i32 as u32 as u64;

#[test]
fn cpuperf_cap_is_the_capacity_in_the_topology() {
    let mut bench = Bench::new(0);
    bench.core.config.topology.capacities[5] = 446;
    assert_eq!([4, 5].map(|cpu| bench.call("scx_bpf_cpuperf_cap", &[cpu])), [1024, 446]);
    assert_eq!(bench.call("scx_bpf_cpuperf_cap", &[9]), 1024, "an invalid CPU is an error");
    assert!(bench.core.attached.is_exiting());
}

#[test]
fn kfunc_outside_its_allowed_ops_is_an_error() {
    let mut bench = Bench::new(1);
    let task = bench.task(0);
    let cases: [(&str, &[u64], Op, u64); 5] = [
        ("scx_bpf_dsq_insert___v2", &[task, 1, 0, 0], Op::Tick, 0),
        ("scx_bpf_dsq_move_to_local", &[1], Op::Enqueue, 0),
        ("scx_bpf_create_dsq", &[1, 0], Op::Dispatch, EPERM),
        ("scx_bpf_select_cpu_dfl", &[task, 0, 0, 0], Op::Running, EPERM),
        ("scx_bpf_reenqueue_local", &[], Op::Dispatch, 0),
    ];
    for (name, args, op, refused) in cases {
        assert_eq!(bench.call_in(Some(op), name, args), Ok(refused), "{name}");
        let text = format!("calling kernel function {name} is not allowed");
        assert_eq!(bench.error(), Some((1024, 0, text)));
    }
    bench.call_in(Some(Op::Tick), "scx_bpf_kick_cpu", &[0, 0]).expect("allowed everywhere");
    assert_eq!(bench.error(), None);
}

#[test]
fn pointer_that_is_not_a_task_is_a_fault() {
    let mut bench = Bench::new(1);
    let (task, idle) = (bench.task(0), bench.core.objects.task_addr(&bench.memory, TaskId::NONE, CpuId(3)));
    for name in ["scx_bpf_task_cpu", "scx_bpf_task_running", "bpf_task_acquire", "scx_bpf_task_cgroup"] {
        for wrong in [0, task + 8, bench.own(0), u64::MAX] {
            assert!(is_bad_argument(bench.call_in(None, name, &[wrong])), "{name} {wrong:#x}");
        }
        assert!(bench.call_in(None, name, &[task]).is_ok(), "{name}");
    }
    let error = bench.core.attached.exit.take().expect("the call outside of any op is an error");
    assert_eq!(error.message, "called on a task not being operated on");
    assert_eq!(bench.call("scx_bpf_task_cpu", &[idle]), 3);
    assert_eq!(bench.call("scx_bpf_task_running", &[idle]), 1);
    let insert = |bench: &mut Bench, p| bench.call_in(Some(Op::Dispatch), "scx_bpf_dsq_insert", &[p, 1, 0, 0]);
    assert!(is_bad_argument(insert(&mut bench, idle)));
    // The kernel itself checks for NULL (contract E3).
    assert_eq!(insert(&mut bench, 0), Ok(0));
    assert_eq!(bench.error(), Some((1024, 0, "called with NULL task".to_owned())));
}

#[test]
fn task_kfuncs_find_tasks_and_set_slice_and_vtime() {
    let mut bench = Bench::new(2);
    let task = bench.task(1);
    assert_eq!(bench.call("bpf_task_from_pid", &[101]), task);
    assert_eq!(bench.call("bpf_task_from_pid", &[999]), 0);
    assert_eq!(bench.call("scx_bpf_task_set_slice", &[task, 77]), 1);
    assert_eq!(bench.call("scx_bpf_task_set_dsq_vtime", &[task, 88]), 1);
    assert_eq!(bench.core.objects.slice(&bench.memory, TaskId(1)), 77);
    assert_eq!(bench.core.objects.vtime(&bench.memory, TaskId(1)), 88);
    bench.core.cpus[5].current = TaskId(1);
    assert_eq!(bench.call("scx_bpf_cpu_curr", &[5]), task);
    let idle = bench.core.objects.task_addr(&bench.memory, TaskId::NONE, CpuId(4));
    assert_eq!(bench.call("scx_bpf_cpu_curr", &[4]), idle);
    assert_eq!(bench.error(), None);
    assert_eq!(bench.call("scx_bpf_cpu_curr", &[8]), 0);
    assert!(bench.error().is_some());
}

/// Inserts all tasks into queue 1 from `dispatch`, by vtime if `keys` are given.
pub(super) fn fill_queue(bench: &mut Bench, keys: Option<&[u64]>) {
    bench.call("scx_bpf_create_dsq", &[1, u32::MAX.into()]);
    bench.core.attached.set_max_batch(32);
    for task in 0..bench.core.tasks.len() {
        let p = bench.task(task as u32);
        let inserted = match keys {
            Some(keys) => {
                let args = bench.put(0, &[1, 1000, keys[task], 0]);
                bench.call_in(Some(Op::Dispatch), "__scx_bpf_dsq_insert_vtime", &[p, args])
            }
            None => bench.call_in(Some(Op::Dispatch), "scx_bpf_dsq_insert___v2", &[p, 1, 1000, 0]),
        };
        assert_eq!(inserted, Ok(1));
    }
    bench.core.flush_buffer(&mut bench.memory);
    assert_eq!(bench.error(), None);
}

/// Tasks that an iterator over queue 1 returns.
fn walk(bench: &mut Bench, flags: u64) -> Vec<u32> {
    let it = bench.own(64);
    assert_eq!(bench.call("bpf_iter_scx_dsq_new", &[it, 1, flags]), 0);
    let mut seen = Vec::new();
    loop {
        let next = bench.call("bpf_iter_scx_dsq_next", &[it]);
        if next == 0 {
            break;
        }
        seen.push(bench.task_at(next).expect("a task").0);
        assert!(seen.len() <= bench.core.tasks.len(), "the iteration does not end");
    }
    bench.call("bpf_iter_scx_dsq_destroy", &[it]);
    seen
}

#[test]
fn vtime_queue_is_counted_peeked_and_iterated_in_order() {
    let mut bench = Bench::new(3);
    fill_queue(&mut bench, Some(&[30, 10, 20]));
    assert_eq!(bench.call("scx_bpf_dsq_nr_queued", &[1]), 3);
    assert_eq!(bench.call("scx_bpf_dsq_nr_queued", &[2]), ENOENT);
    let head = bench.call("scx_bpf_dsq_peek", &[1]);
    assert_eq!(bench.task_at(head), Some(TaskId(1)));
    assert_eq!(walk(&mut bench, 0), [1, 2, 0]);
    assert_eq!(walk(&mut bench, 1 << 16), [0, 2, 1]);
    assert_eq!(bench.core.objects.slice(&bench.memory, TaskId(2)), 1000);
    assert_eq!(bench.core.objects.vtime(&bench.memory, TaskId(0)), 30);
}

#[test]
fn iterator_over_a_missing_queue_is_empty() {
    let mut bench = Bench::new(1);
    let it = bench.own(64);
    assert_eq!(bench.call("bpf_iter_scx_dsq_new", &[it, 9, 0]), ENOENT);
    assert_eq!(bench.call("bpf_iter_scx_dsq_next", &[it]), 0);
    bench.call("scx_bpf_dsq_move_set_slice", &[it, 5]);
    let task = bench.task(0);
    assert!(is_bad_argument(bench.call_in(Some(Op::Init), "scx_bpf_dsq_move", &[it, task, 1, 0])));
    bench.call("bpf_iter_scx_dsq_destroy", &[it]);
}

#[test]
fn dsq_move_overrides_slice_and_vtime_once() {
    let mut bench = Bench::new(3);
    fill_queue(&mut bench, None);
    bench.call("scx_bpf_create_dsq", &[2, 0]);
    let it = bench.own(64);
    bench.call("bpf_iter_scx_dsq_new", &[it, 1, 0]);
    bench.call("scx_bpf_dsq_move_set_slice", &[it, 555]);
    bench.call("scx_bpf_dsq_move_set_vtime", &[it, 666]);
    let (first, second) = (bench.task(0), bench.task(1));
    assert_eq!(bench.call("scx_bpf_dsq_move_vtime", &[it, first, 2, 0]), 1);
    assert_eq!(bench.call("scx_bpf_dsq_move_vtime", &[it, second, 2, 0]), 1);
    assert_eq!(bench.call("scx_bpf_dsq_move_vtime", &[it, first, 2, 0]), 0, "the task has left that queue");
    let slices = [0, 1].map(|task| bench.core.objects.slice(&bench.memory, TaskId(task)));
    assert_eq!(slices, [555, 1000]);
    let vtimes = [0, 1].map(|task| bench.core.objects.vtime(&bench.memory, TaskId(task)));
    assert_eq!(vtimes, [666, 0]);
    assert_eq!(bench.call("scx_bpf_dsq_nr_queued", &[1]), 1);
    bench.call("bpf_iter_scx_dsq_destroy", &[it]);
    assert_eq!(walk(&mut bench, 0), [2], "the iterator's memory can be reused");
}

#[test]
fn dsq_iterator_that_was_not_destroyed_is_a_fault_when_its_place_is_used_again() {
    let mut bench = Bench::new(1);
    fill_queue(&mut bench, None);
    let (it, other) = (bench.own(64), bench.own(128));
    assert_eq!(bench.call("bpf_iter_scx_dsq_new", &[it, 1, 0]), 0);
    assert_eq!(bench.call("bpf_iter_scx_dsq_new", &[other, 1, 0]), 0, "two iterators at once are fine");
    assert!(is_bad_argument(bench.call_in(None, "bpf_iter_scx_dsq_new", &[it, 1, 0])));
    bench.call("bpf_iter_scx_dsq_destroy", &[it]);
    assert_eq!(bench.call("bpf_iter_scx_dsq_new", &[it, 1, 0]), 0);
    bench.call("bpf_iter_scx_dsq_destroy", &[it]);
    bench.call("bpf_iter_scx_dsq_destroy", &[other]);
}

#[test]
fn copied_or_forged_dsq_iterator_is_a_fault() {
    let mut bench = Bench::new(1);
    fill_queue(&mut bench, None);
    let it = bench.own(64);
    bench.call("bpf_iter_scx_dsq_new", &[it, 1, 0]);
    let handle = bench.memory.load(it, 8).unwrap();
    let copy = bench.put(128, &[handle]);
    let forged = bench.put(192, &[u64::MAX]);
    for wrong in [copy, forged] {
        assert!(is_bad_argument(bench.call_in(None, "bpf_iter_scx_dsq_next", &[wrong])));
    }
    bench.call("bpf_iter_scx_dsq_destroy", &[it]);
    assert_eq!(bench.call("bpf_iter_scx_dsq_next", &[it]), 0);
}

#[test]
fn claim_clears_the_cpu_in_held_idle_masks() {
    let mut bench = Bench::new(1);
    let (cpus, cores) = (bench.call("scx_bpf_get_idle_cpumask", &[]), bench.call("scx_bpf_get_idle_smtmask", &[]));
    let count = |bench: &mut Bench, mask| bench.call("bpf_cpumask_weight", &[mask]);
    let before = (count(&mut bench, cpus), count(&mut bench, cores));
    assert_eq!(before, (8, 8), "all CPUs are idle at first");
    assert_eq!(bench.call("scx_bpf_test_and_clear_cpu_idle", &[2]), 1);
    assert_eq!(bench.call("bpf_cpumask_test_cpu", &[2, cpus]), 0);
    // The sibling is still idle, but its core is not (contract I1).
    assert_eq!((count(&mut bench, cpus), count(&mut bench, cores)), (7, 6));
    bench.call("scx_bpf_put_idle_cpumask", &[cores]);
    bench.call("scx_bpf_put_cpumask", &[cpus]);
    for wrong in [cpus, bench.own(0), 0] {
        assert!(is_bad_argument(bench.call_in(None, "scx_bpf_put_idle_cpumask", &[wrong])));
    }
    let online = bench.call("scx_bpf_get_online_cpumask", &[]);
    assert_eq!(count(&mut bench, online), 8);
    bench.call("scx_bpf_put_cpumask", &[online]);
}

#[test]
fn idle_search_claims_the_returned_cpu() {
    let mut bench = Bench::new(1);
    let task = bench.task(0);
    let is_idle = bench.put(0, &[u64::MAX]);
    assert_eq!(bench.call_in(Some(Op::SelectCpu), "scx_bpf_select_cpu_dfl", &[task, 3, 0, is_idle]), Ok(3));
    assert_eq!(bench.memory.load(is_idle, 8), Ok(!0xff | 1), "only the first byte is the flag");
    assert!(!bench.core.idle.masks.cpus.contains(CpuId(3)));
    let mask = bench.call("bpf_cpumask_create", &[]);
    bench.call("bpf_cpumask_set_cpu", &[6, mask]);
    let args = bench.put(16, &[1, 0, 0]);
    assert_eq!(bench.call_in(Some(Op::Enqueue), "__scx_bpf_select_cpu_and", &[task, mask, args]), Ok(6));
    let none = bench.call_in(Some(Op::Enqueue), "scx_bpf_select_cpu_and", &[task, 1, 0, mask, 0]);
    assert_eq!(none.map(|cpu| cpu as u32 as i32), Ok(-16));
    assert_eq!(bench.call("scx_bpf_pick_any_cpu", &[mask, 0]), 6);
    assert_eq!(bench.call("scx_bpf_pick_idle_cpu", &[mask, 0]) as u32 as i32, -16);
    assert_eq!(bench.error(), None);
}

#[test]
fn per_node_idle_masks_need_the_ops_flag() {
    let mut bench = Bench::new(0);
    let empty = bench.call("scx_bpf_get_idle_cpumask_node", &[1]);
    assert!(bench.error().is_some());
    assert_eq!(bench.call("bpf_cpumask_empty", &[empty]), 1);
    bench.core.idle.per_node = true;
    let second = bench.call("scx_bpf_get_idle_cpumask_node", &[1]);
    assert_eq!(bench.core.objects.mask(&bench.memory, second).unwrap(), "4-7".parse::<CpuSet>().unwrap());
    assert_eq!(bench.error(), None);
    let none = bench.call("scx_bpf_get_idle_cpumask_node", &[u32::MAX.into()]);
    assert_eq!(bench.call("bpf_cpumask_empty", &[none]), 1, "no node");
    let none = bench.call("scx_bpf_get_idle_cpumask_node", &[7]);
    assert_eq!(bench.call("bpf_cpumask_empty", &[none]), 1);
    assert!(bench.error().is_some());
    assert_eq!([bench.call("scx_bpf_cpu_node", &[5]), bench.call("scx_bpf_nr_node_ids", &[])], [1, 2]);
}

#[test]
fn error_exit_and_dump_kfuncs_format_their_text() {
    let mut bench = Bench::new(0);
    let name = bench.put_text(0, "kworker");
    let data = bench.put(32, &[name, -3i64 as u64, 0xff]);
    let fmt = bench.put_text(64, "%s: %d of %#x");
    bench.call("scx_bpf_error_bstr", &[fmt, data, 24]);
    assert_eq!(bench.error(), Some((1024, 0, "format preparation failed (-22)".to_owned())));
    let fmt = bench.put_text(64, "%s: %d of %x");
    bench.call("scx_bpf_error_bstr", &[fmt, data, 24]);
    assert_eq!(bench.error(), Some((1025, 0, "kworker: -3 of ff".to_owned())));
    bench.call("scx_bpf_exit_bstr", &[1 << 32, fmt, data, 24]);
    assert_eq!(bench.error(), Some((65, 1 << 32, "kworker: -3 of ff".to_owned())));
    bench.call("scx_bpf_error_bstr", &[fmt, data, 12]);
    let (kind, _, text) = bench.error().expect("reported");
    assert_eq!((kind, text.contains("data__sz=12")), (1024, true));
    bench.call("scx_bpf_dump_bstr", &[fmt, data, 24]);
    let (_, _, text) = bench.error().expect("reported");
    assert_eq!(text, "scx_bpf_dump() must only be called from ops.dump() and friends");
    bench.core.attached.dump = Some(String::new());
    bench.call_in(Some(Op::DumpCpu), "scx_bpf_dump_bstr", &[fmt, data, 24]).expect("in a dump");
    assert_eq!(bench.core.attached.dump.as_deref(), Some("kworker: -3 of ff"));
}

#[test]
fn locked_rq_without_rq_lock_is_an_error() {
    let mut bench = Bench::new(0);
    bench.core.context.cpu = CpuId(2);
    let rq = bench.memory.addr(bench.core.objects.rqs, 2);
    assert_eq!(bench.call_in(Some(Op::Running), "scx_bpf_locked_rq", &[]), Ok(rq));
    assert_eq!(bench.error(), None);
    assert_eq!(bench.call_in(Some(Op::Init), "scx_bpf_locked_rq", &[]), Ok(0));
    assert_eq!(bench.error(), Some((1024, 0, "accessing rq without holding rq lock".to_owned())));
}

#[test]
fn scx_bpf_events_fills_no_more_than_the_buffer() {
    let mut bench = Bench::new(0);
    bench.core.attached.counters.dispatch_keep_last = 42;
    let buffer = bench.put(0, &[9; 4]);
    bench.call("scx_bpf_events", &[buffer, 24]);
    let words = [0, 8, 16, 24].map(|at| bench.memory.load(buffer + at, 8).unwrap());
    assert_eq!(words, [0, 0, 42, 9]);
    bench.call("scx_bpf_events", &[buffer, 512]);
    assert!(bench.core.objects.types.counters().count() * 8 <= 512);
}

#[test]
fn reenqueue_of_a_queue_is_pending_once_and_rejects_unknown_flags() {
    let mut bench = Bench::new(0);
    bench.call("scx_bpf_dsq_reenq", &[DsqId::LOCAL.0, 0]);
    bench.call("scx_bpf_reenqueue_local___v2", &[]);
    assert_eq!(bench.core.context.reenqueue, [CpuId(0)]);
    bench.call("scx_bpf_dsq_reenq", &[DsqId::LOCAL.0, 2]);
    assert_eq!(bench.error(), Some((1024, 0, "invalid SCX_REENQ flags 0x2".to_owned())));
}

#[test]
fn helpers_return_time_cpu_and_current_task() {
    let mut bench = Bench::new(2);
    bench.core.time.set_now(Nanos(10_000_001_234));
    bench.core.context.cpu = CpuId(6);
    bench.core.cpus[6].current = TaskId(1);
    let mut ask = |number| bench.helper(number, [0; 5]).unwrap();
    // At 250 Hz a jiffy is 4 ms.
    assert_eq!([5, 125, 118].map(&mut ask), [10_000_001_234, 10_000_001_234, 2500]);
    assert_eq!([8, 42, 14].map(&mut ask), [6, 1, 101 << 32 | 101]);
    assert_ne!(ask(7), ask(7));
    let task = bench.task(1);
    assert_eq!([35, 158].map(|number| bench.helper(number, [0; 5]).unwrap()), [task, task]);
    let buffer = bench.put(0, &[u64::MAX; 2]);
    bench.helper(16, [buffer, 5, 0, 0, 0]).unwrap();
    assert_eq!(bench.memory.c_string(buffer, 16).unwrap(), "task");
    assert_eq!(bench.helper(200, [0; 5]), Err(FaultKind::MissingHelper(200)));
}

#[test]
fn disallowed_helper_is_named_in_the_fault() {
    let mut bench = Bench::new(0);
    let refused = |name| Err(FaultKind::Refused(format!("kernel 7.2 does not allow the helper {name} in schedulers")));
    for (number, name) in [(4, "bpf_probe_read"), (45, "bpf_probe_read_str"), (160, "bpf_ktime_get_coarse_ns")] {
        assert_eq!(bench.helper(number, [0; 5]), refused(name));
    }
}

#[test]
fn per_cpu_ptr_helpers_return_the_instance_of_a_cpu() {
    let mut bench = Bench::new(0);
    bench.core.context.cpu = CpuId(3);
    let first = bench.core.objects.variable(&bench.memory, "runqueues").unwrap();
    let third = bench.memory.addr(bench.core.objects.rqs, 3);
    assert_eq!(bench.helper(153, [first, 3, 0, 0, 0]), Ok(third));
    assert_eq!(bench.helper(154, [first, 0, 0, 0, 0]), Ok(third));
    assert_eq!(bench.helper(153, [first, 8, 0, 0, 0]), Ok(0));
    assert!(is_bad_argument(bench.helper(154, [first + 8, 0, 0, 0, 0])));
}

#[test]
fn snprintf_and_trace_helpers_format_text() {
    let mut bench = Bench::new(0);
    let data = bench.put(0, &[7, 8]);
    let fmt = bench.put_text(32, "%d and %d");
    let buffer = bench.put(64, &[u64::MAX; 2]);
    assert_eq!(bench.helper(165, [buffer, 5, fmt, data, 16]), Ok(8), "the length that was needed, NUL included");
    assert_eq!(bench.memory.c_string(buffer, 16).unwrap(), "7 an");
    assert_eq!(bench.helper(165, [buffer, 16, fmt, data, 8]), Ok(-22i64 as u64));
    assert_eq!(bench.helper(6, [fmt, 10, 1, 2, 3]), Ok(7));
    assert_eq!(bench.helper(177, [fmt, 10, data, 16, 0]), Ok(7));
    assert_eq!(bench.helper(177, [fmt, 10, data, 8, 0]), Ok(-22i64 as u64));
}
